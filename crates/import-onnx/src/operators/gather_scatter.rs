//! Reading and writing at indices that are data.

use front::{
    Accepted, Graph, Operand, elementwise_indices, gather_axis, reach, shape_error, shared_axes,
    true_indices, wrapped_indices,
};
use graph::Op;
use sym::Expr;
use tensor::{DType, Reduction, Scalar};

use super::Lowered;
use super::windows::entries;
use crate::node::Node;

/// Slices of the data at indices along an axis.
pub(super) fn gather(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let data = node.input(0)?;
    let axis = node.axis("axis", 0, data.rank())?;
    let index = wrapped_indices(graph, node.input(1)?, &data.shape()[axis])?;
    Ok(vec![gather_axis(graph, data, axis, &index)?])
}

/// `result[i, j] = data[i, indices[i, j]]`, and so along any axis.
pub(super) fn gather_elements(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let data = node.input(0)?;
    let axis = node.axis("axis", 0, data.rank())?;
    let index = wrapped_indices(graph, node.input(1)?, &data.shape()[axis])?;
    if index.rank() != data.rank() {
        let (index, data) = (index.rank(), data.rank());
        return Err(shape_error(format!("indices of rank {index} for data of rank {data}")));
    }
    let batch = shared_axes(data, &index, axis);
    let operands = elementwise_indices(graph, &index, axis, batch)?;
    let axes: Vec<usize> = (batch..data.rank()).collect();
    Ok(vec![graph.gather(data, &axes, &operands, batch, 0)?])
}

/// The columns of a tensor of index tuples, each as the index of an axis from `first` on.
fn tuples(
    graph: &mut Graph,
    value: &Operand,
    data: &Operand,
    first: usize,
) -> Accepted<Vec<Operand>> {
    let Some((width, lead)) = value.shape().split_last() else {
        return Err(shape_error("the indices have no axis of tuples"));
    };
    let width = width.as_constant().filter(|width| *width as usize + first <= data.rank());
    let Some(width) = width.filter(|width| *width >= 1) else {
        let rank = data.rank();
        return Err(shape_error(format!("index tuples longer than the rank {rank} of the data")));
    };
    let lead = lead.to_vec();
    let column = |number: i64| {
        let axis = lead.len();
        let column = graph.slice_axis(value, axis, Expr::from(number), 1, Expr::ONE)?;
        let column = graph.reshape(&column, &lead)?;
        wrapped_indices(graph, &column, &data.shape()[first + number as usize])
    };
    (0..width).map(column).collect()
}

/// Slices of the data at tuples of indices.
pub(super) fn gather_nd(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let data = node.input(0)?;
    let batch = node.int("batch_dims", 0)?;
    let rank = data.rank().min(node.input(1)?.rank());
    let batch = usize::try_from(batch).ok().filter(|batch| *batch < rank);
    let batch = batch.ok_or_else(|| shape_error("there are more batch axes than axes"))?;
    let operands = tuples(graph, node.input(1)?, data, batch)?;
    let axes: Vec<usize> = (batch..batch + operands.len()).collect();
    Ok(vec![graph.gather(data, &axes, &operands, batch, 0)?])
}

/// How updates combine with what is there.
fn reduction(node: &Node<'_>) -> Accepted<Option<Reduction>> {
    Ok(match node.word("reduction", &["none", "add", "mul", "max", "min"])? {
        "add" => Some(Reduction::Sum),
        "mul" => Some(Reduction::Product),
        "max" => Some(Reduction::Max),
        "min" => Some(Reduction::Min),
        _ => None,
    })
}

/// `data[i, indices[i, j]] = updates[i, j]`, and so along any axis.
pub(super) fn scatter_elements(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (data, updates) = (node.input(0)?, node.input(2)?);
    let axis = node.axis("axis", 0, data.rank())?;
    let index = wrapped_indices(graph, node.input(1)?, &data.shape()[axis])?;
    if index.rank() != data.rank() {
        let (index, data) = (index.rank(), data.rank());
        return Err(shape_error(format!("indices of rank {index} for data of rank {data}")));
    }
    let updates = graph.refine(updates, index.shape())?;
    let batch = shared_axes(data, &index, axis);
    let operands = elementwise_indices(graph, &index, axis, batch)?;
    let axes: Vec<usize> = (batch..data.rank()).collect();
    let op = Op::Scatter { axes, batch, position: 0, reduction: reduction(node)? };
    Ok(vec![graph.scatter(data, &updates, &operands, op)?])
}

/// Slices of the data replaced at tuples of indices.
pub(super) fn scatter_nd(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (data, updates) = (node.input(0)?, node.input(2)?);
    let operands = tuples(graph, node.input(1)?, data, 0)?;
    let axes: Vec<usize> = (0..operands.len()).collect();
    let op = Op::Scatter { axes, batch: 0, position: 0, reduction: reduction(node)? };
    Ok(vec![graph.scatter(data, updates, &operands, op)?])
}

/// Slices along an axis replaced from an index of each batch on, perhaps around the end.
pub(super) fn tensor_scatter(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (data, updates) = (node.input(0)?, node.input(1)?);
    let axis = node.axis("axis", -2, data.rank())?;
    if axis == 0 || updates.rank() != data.rank() {
        return Err(shape_error("the axis written to must come after that of the batch"));
    }
    let shape = [data.shape()[0].clone(), updates.shape()[axis].clone()];
    let mut index = graph.iota(DType::I64, &shape, 1)?;
    if let Some(first) = node.optional(2) {
        let first = graph.cast(first, DType::I64)?;
        let first = graph.broadcast_axis(&first, &shape, 0)?;
        index = graph.add(&index, &first)?;
    }
    if node.word("mode", &["linear", "circular"])? == "circular" {
        let extent = graph.dimension(data.shape()[axis].clone());
        index = graph.rem(&index, &extent)?;
    }
    let op = Op::Scatter { axes: vec![axis], batch: 1, position: axis - 1, reduction: None };
    Ok(vec![graph.scatter(data, updates, &[index], op)?])
}

/// `Col2Im`: blocks of an image added up at their places. Block elements come before blocks in the
/// order of the input's last two axes.
pub(super) fn col2im(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let (image, block) =
        (node.sizes(1, "shape of the image", graph)?, node.integers(2, "block shape")?);
    let count = image.len();
    let good = |extent: &i64| (1..1 << 31).contains(extent);
    if x.rank() != 3 || block.len() != count || count == 0 || !block.iter().all(good) {
        return Err(shape_error(format!("blocks {block:?} of an image of {count} axes")));
    }
    let strides = entries(node, "strides", count, 1, 1)?;
    let dilations = entries(node, "dilations", count, 1, 1)?;
    let pads = entries(node, "pads", 2 * count, 0, 0)?;
    let mut places: Vec<Expr> = block.iter().map(|&extent| Expr::from(extent)).collect();
    let mut padded = Vec::new();
    for axis in 0..count {
        let extent = &image[axis] + pads[axis] + pads[count + axis];
        let room = &extent - reach(block[axis], dilations[axis]);
        places.push(room.floor_div(&Expr::from(strides[axis])) + 1);
        padded.push(extent);
    }
    graph.check_size(&places)?;
    let elements: Expr = places[..count].iter().product();
    let channels = x.shape()[1].floor_div(&elements);
    let lead = [x.shape()[0].clone(), channels];
    graph.assume_equal(&(&lead[1] * &elements), &x.shape()[1])?;
    graph.assume_equal(&places[count..].iter().product(), &x.shape()[2])?;
    let updates = graph.reshape(x, &[&lead[..], &places].concat())?;
    let mut indices = Vec::new();
    for axis in 0..count {
        let element = graph.iota(DType::I64, &places, axis)?;
        let element = graph.mul_number(&element, dilations[axis] as f64)?;
        let first = graph.iota(DType::I64, &places, count + axis)?;
        let first = graph.mul_number(&first, strides[axis] as f64)?;
        indices.push(graph.add(&first, &element)?);
    }
    let blank = graph.full(&[&lead[..], &padded].concat(), Scalar::zero(x.dtype()))?;
    let axes = (2..2 + count).collect();
    let op = Op::Scatter { axes, batch: 0, position: 2, reduction: Some(Reduction::Sum) };
    let whole = graph.scatter(&blank, &updates, &indices, op)?;
    let mut starts = vec![Expr::ZERO; 2];
    starts.extend(pads[..count].iter().map(|&pad| Expr::from(pad)));
    let shape = [&lead[..], &image].concat();
    Ok(vec![graph.slice(&whole, &starts, &vec![1; 2 + count], &shape)?])
}

/// The slices along an axis (or the elements) where a condition holds.
pub(super) fn compress(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (mut data, condition) = (node.input(0)?.clone(), node.input(1)?);
    let axis = if node.has("axis") {
        node.axis("axis", 0, data.rank())?
    } else {
        data = graph.reshape(&data, &[data.shape().iter().product()])?;
        0
    };
    if condition.rank() != 1 {
        return Err(shape_error(format!("a condition of rank {}", condition.rank())));
    }
    let index = true_indices(graph, condition)?;
    let index = graph.reshape(&index, &index.shape()[..1])?;
    Ok(vec![gather_axis(graph, &data, axis, &index)?])
}

/// The indices of elements that are not zero: `[rank, n]`.
pub(super) fn non_zero(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let condition = graph.cast(x, DType::Bool)?;
    let index = true_indices(graph, &condition)?;
    Ok(vec![graph.transpose(&index, &[1, 0])?])
}
