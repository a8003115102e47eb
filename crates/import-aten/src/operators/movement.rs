//! Operators that move elements by rules that do not depend on data.

use base::InOrder;
use front::{Accepted, Graph, Operand, normalize_axes, shape_error, unsupported};
use graph::Op;
use sym::Expr;
use tensor::{DType, ScalarFunction};

use crate::node::{Lowered, Node};

/// The same elements under the result's shape.
pub(super) fn reshape(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.tensor(0, "self")?;
    Ok(vec![graph.reshape(&x, node.shape()?)?])
}

/// Axes in another order.
pub(super) fn permute(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.tensor(0, "self")?;
    Ok(vec![graph.transpose(&x, &node.axes(1, "dims", x.rank())?)?])
}

/// Two axes exchanged.
pub(super) fn transpose(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.tensor(0, "self")?;
    if x.rank() == 0 {
        return Ok(vec![x]);
    }
    let (a, b) = (node.axis((1, "dim0"), 0, x.rank())?, node.axis((2, "dim1"), 1, x.rank())?);
    let mut order: Vec<usize> = (0..x.rank()).collect();
    order.swap(a, b);
    Ok(vec![graph.transpose(&x, &order)?])
}

/// Rows and columns exchanged.
pub(super) fn turned(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.tensor(0, "self")?;
    let order: Vec<usize> = (0..x.rank()).rev().collect();
    if order.len() > 2 {
        return Err(unsupported("more than two axes turned"));
    }
    Ok(vec![graph.transpose(&x, &order)?])
}

/// Repeated along axes of extent 1, and along new ones in front.
pub(super) fn expand(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.tensor(0, "self")?;
    Ok(vec![graph.broadcast_to(&x, node.shape()?)?])
}

/// The value behind itself along each axis as often as is said.
pub(super) fn repeat(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.tensor(0, "self")?;
    let times = node.exprs(1, "repeats")?.unwrap_or_default();
    let Some(lead) = times.len().checked_sub(x.rank()) else {
        return Err(shape_error("fewer numbers than axes"));
    };
    let (mut narrow, mut wide) = (Vec::new(), Vec::new());
    for (axis, count) in times.iter().enumerate() {
        let own = if axis < lead { Expr::ONE } else { x.shape()[axis - lead].clone() };
        narrow.extend([Expr::ONE, own.clone()]);
        wide.extend([count.clone(), own]);
    }
    let x = graph.reshape(&x, &narrow)?;
    let x = graph.broadcast_to(&x, wide)?;
    Ok(vec![graph.reshape(&x, node.shape()?)?])
}

/// A place along an axis of this extent, counted from the front, and within it.
fn place(graph: &Graph, at: Expr, extent: &Expr) -> Expr {
    let ranges = |symbol| graph.builder.range(symbol);
    let (least, most) = graph.builder.bounds(&at);
    let at = if most < 0 { &at + extent } else { at };
    if least < 0 && most >= 0 {
        return at;
    }
    at.max(&Expr::ZERO).min(extent).simplify(&ranges)
}

/// Elements from a place to another, some apart.
pub(super) fn slice(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.tensor(0, "self")?;
    let axis = node.axis((1, "dim"), 0, x.rank())?;
    let start = start(node, graph, &x, axis, 2)?;
    let step = node.int(4, "step", 1)?;
    Ok(vec![graph.slice_axis(&x, axis, start, step, node.shape()?[axis].clone())?])
}

/// The first element of a slice along an axis.
fn start(
    node: &Node<'_>,
    graph: &Graph,
    x: &Operand,
    axis: usize,
    number: usize,
) -> Accepted<Expr> {
    let start = node.expr(number, "start")?.unwrap_or(Expr::ZERO);
    let (least, most) = graph.builder.bounds(&start);
    if least < 0 && most >= 0 {
        return Err(unsupported("a slice whose start may be on either side of zero"));
    }
    Ok(place(graph, start, &x.shape()[axis]))
}

/// One element along an axis, which goes.
pub(super) fn select(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.tensor(0, "self")?;
    let axis = node.axis((1, "dim"), 0, x.rank())?;
    let index = node.expr(2, "index")?.unwrap_or(Expr::ZERO);
    let index = if graph.builder.bounds(&index).1 < 0 { index + &x.shape()[axis] } else { index };
    let slice = graph.slice_axis(&x, axis, index, 1, Expr::ONE)?;
    Ok(vec![graph.reshape(&slice, node.shape()?)?])
}

/// Values behind each other along an axis; empty vectors count as nothing.
pub(super) fn concat(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let dtype = node.dtype()?;
    let rank = node.shape()?.len();
    let mut values = Vec::new();
    for value in node.tensors(0, "tensors")?.into_iter().flatten() {
        let is_nothing = value.rank() == 1 && rank > 1 && value.shape()[0].is_zero();
        if !is_nothing {
            values.push(graph.cast(&value, dtype)?);
        }
    }
    let axis = node.axis((1, "dim"), 0, rank)?;
    Ok(vec![graph.concat(axis, &values)?])
}

/// Values behind each other along a new axis.
pub(super) fn stack(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (dtype, shape) = (node.dtype()?, node.shape()?);
    let axis = node.axis((1, "dim"), 0, shape.len())?;
    let mut one = shape.to_vec();
    one[axis] = Expr::ONE;
    let mut values = Vec::new();
    for value in node.tensors(0, "tensors")?.into_iter().flatten() {
        let value = graph.cast(&value, dtype)?;
        values.push(graph.reshape(&value, &one)?);
    }
    Ok(vec![graph.concat(axis, &values)?])
}

/// Parts along an axis, as many and as long as the trace says; with `away` the axis goes.
pub(super) fn parts(node: &Node<'_>, graph: &mut Graph, place: usize, away: bool) -> Lowered {
    let x = node.tensor(0, "self")?;
    let axis = node.axis((place, "dim"), 0, x.rank())?;
    let (mut results, mut start) = (Vec::new(), Expr::ZERO);
    for number in 0..node.call.types.len() {
        let shape = &node.result(number)?.shape;
        let extent = if away { Expr::ONE } else { shape[axis].clone() };
        let part = graph.slice_axis(&x, axis, start.clone(), 1, extent.clone())?;
        results.push(graph.reshape(&part, shape)?);
        start = start + extent;
    }
    Ok(results)
}

/// Axes run through from their ends.
pub(super) fn flip(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.tensor(0, "self")?;
    let axes = match node.ints(1, "dims")? {
        Some(axes) if axes.is_empty() => Vec::new(),
        _ => node.axes(1, "dims", x.rank())?,
    };
    Ok(vec![graph.reversed(&x, &axes)?])
}

/// A number around a value, or less of it; pairs of widths begin with the last axis.
pub(super) fn pad(node: &Node<'_>, graph: &mut Graph, value: usize) -> Lowered {
    let x = node.tensor(0, "self")?;
    let widths = node.exprs(1, "pad")?.unwrap_or_default();
    if widths.len() % 2 != 0 || widths.len() > 2 * x.rank() {
        return Err(shape_error(format!("{} widths for {} axes", widths.len(), x.rank())));
    }
    let fill = match node.argument(value, "value") {
        Some(_) => node.operand_as(graph, (value, "value"), x.dtype())?,
        None => graph.number(x.dtype(), 0.0),
    };
    let (mut low, mut high) = (vec![Expr::ZERO; x.rank()], vec![Expr::ZERO; x.rank()]);
    for (number, pair) in widths.chunks(2).enumerate() {
        let axis = x.rank() - 1 - number;
        (low[axis], high[axis]) = (pair[0].clone(), pair[1].clone());
    }
    Ok(vec![graph.pad(&x, &fill, &low, &high, &vec![0; x.rank()])?])
}

/// `pad(self, pad, mode, value)`, of which the mode that surrounds a value with a number.
pub(super) fn pad_by_mode(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    match node.text(2, "mode", "constant")? {
        "constant" => pad(node, graph, 3),
        mode => Err(unsupported(format!("padding by the mode `{mode}`"))),
    }
}

/// Elements moved along axes, those that leave at one end coming back at the other; without axes,
/// along all of them as one.
pub(super) fn roll(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.tensor(0, "self")?;
    let shifts = node.exprs(1, "shifts")?.unwrap_or_default();
    let dims = node.ints(2, "dims")?.unwrap_or_default();
    let mut value = x.clone();
    let mut axes = vec![0; shifts.len()];
    if dims.is_empty() {
        value = graph.reshape(&x, &[x.shape().iter().product()])?;
    } else {
        axes = normalize_axes(&dims, x.rank())?;
    }
    if axes.len() != shifts.len() || dims.is_empty() && shifts.len() != 1 {
        return Err(shape_error(format!("{} shifts of {} axes", shifts.len(), dims.len())));
    }
    for (axis, shift) in axes.into_iter().zip(shifts) {
        let extent = value.shape()[axis].clone();
        if extent.is_zero() {
            continue;
        }
        let moved = shift.modulo(&extent);
        let kept = &extent - &moved;
        let first = graph.slice_axis(&value, axis, kept.clone(), 1, moved)?;
        let second = graph.slice_axis(&value, axis, Expr::ZERO, 1, kept)?;
        value = graph.concat(axis, &[first, second])?;
    }
    Ok(vec![graph.reshape(&value, x.shape())?])
}

/// Elements above, or below, a diagonal; zeros elsewhere.
pub(super) fn triangle(node: &Node<'_>, graph: &mut Graph, is_upper: bool) -> Lowered {
    let x = node.tensor(0, "self")?;
    let diagonal = node.expr(1, "diagonal")?.unwrap_or(Expr::ZERO);
    let Some(lead) = x.rank().checked_sub(2) else {
        return Err(shape_error("a triangle of less than two axes"));
    };
    let plane = x.shape()[lead..].to_vec();
    let row = graph.iota(DType::I64, &plane, 0)?;
    let column = graph.iota(DType::I64, &plane, 1)?;
    let shift = graph.dimension(diagonal);
    let edge = graph.add(&row, &shift)?;
    let kept = match is_upper {
        true => graph.greater_equal(&column, &edge)?,
        false => graph.less_equal(&column, &edge)?,
    };
    let zero = Operand::of_scalar(tensor::Scalar::zero(x.dtype()));
    Ok(vec![graph.select(&kept, &x, &zero)?])
}

/// `as_strided(self, size, stride, storage_offset)`: elements at places of memory, which follow
/// from how the operand lies there for PyTorch.
pub(super) fn strided(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.tensor(0, "self")?;
    let not_fixed = || unsupported("memory whose extent is not fixed");
    let shape = front::constant_shape(x.shape()).ok_or_else(not_fixed)?;
    let size = front::constant_shape(node.shape()?).ok_or_else(not_fixed)?;
    let wanted = node.ints(2, "stride")?.unwrap_or_default();
    let offset = node.int(3, "storage_offset", 0)?;
    let own = node.strides(0).unwrap_or_else(|| row_major(&shape));
    let alike = |(at, extent): (usize, &usize)| *extent == 1 || own.get(at) == wanted.get(at);
    if offset == 0 && size == shape && size.iter().enumerate().all(alike) {
        return Ok(vec![x]);
    }
    let memory = Memory::of(graph, &x, &own)?;
    let index = places(graph, node.shape()?, &wanted, offset)?;
    Ok(vec![front::gather_axis(graph, &memory.elements, 0, &index)?])
}

/// `as_strided_scatter(self, src, size, stride, storage_offset)`: a value with another's elements
/// at places of its memory.
pub(super) fn strided_scatter(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (x, source) = (node.tensor(0, "self")?, node.tensor(1, "src")?);
    let not_fixed = || unsupported("memory whose extent is not fixed");
    let shape = front::constant_shape(x.shape()).ok_or_else(not_fixed)?;
    let wanted = node.ints(3, "stride")?.unwrap_or_default();
    let offset = node.int(4, "storage_offset", 0)?;
    let own = node.strides(0).unwrap_or_else(|| row_major(&shape));
    let memory = Memory::of(graph, &x, &own)?;
    let index = places(graph, source.shape(), &wanted, offset)?;
    let count = [source.shape().iter().product::<Expr>()];
    let (index, source) = (graph.reshape(&index, &count)?, graph.reshape(&source, &count)?);
    let op = Op::Scatter { axes: vec![0], batch: 0, position: 0, reduction: None };
    let elements = graph.scatter(&memory.elements, &source, &[index], op)?;
    let turned: Vec<Expr> = memory.order.iter().map(|&axis| x.shape()[axis].clone()).collect();
    let elements = graph.reshape(&elements, &turned)?;
    let mut back = vec![0; memory.order.len()];
    for (place, &axis) in memory.order.iter().enumerate() {
        back[axis] = place;
    }
    Ok(vec![graph.transpose(&elements, &back)?])
}

/// The elements of a value in the order in which they lie in memory, which has no gaps.
struct Memory {
    elements: Operand,
    /// The axes from the one that goes farthest on.
    order: Vec<usize>,
}

impl Memory {
    fn of(graph: &mut Graph, x: &Operand, own: &[i64]) -> Accepted<Memory> {
        let shape = front::constant_shape(x.shape()).unwrap_or_default();
        let mut order: Vec<usize> = (0..shape.len()).collect();
        order.put_in_order_by_key(|&axis| std::cmp::Reverse((own[axis], shape[axis])));
        let turned: Vec<usize> = order.iter().map(|&axis| shape[axis]).collect();
        let dense = row_major(&turned);
        if (0..order.len()).any(|at| turned[at] != 1 && dense[at] != own[order[at]]) {
            return Err(unsupported("memory with gaps"));
        }
        let elements = graph.transpose(x, &order)?;
        let elements = graph.reshape(&elements, &[x.shape().iter().product::<Expr>()])?;
        Ok(Memory { elements, order })
    }
}

/// Where the elements of a value of this shape lie in memory.
fn places(graph: &mut Graph, shape: &[Expr], strides: &[i64], offset: i64) -> Accepted<Operand> {
    let mut index = graph.full(shape, tensor::Scalar::i64(offset))?;
    for (axis, &stride) in strides.iter().enumerate().take(shape.len()) {
        let step = graph.iota(DType::I64, shape, axis)?;
        let step = graph.mul_number(&step, stride as f64)?;
        index = graph.add(&index, &step)?;
    }
    Ok(index)
}

/// How far apart neighbours along each axis lie.
fn row_major(shape: &[usize]) -> Vec<i64> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis].max(1) as i64;
    }
    strides
}

/// `copy(self, src)`: the second in the shape and type of the first.
pub(super) fn copy(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let source = node.operand_as(graph, (1, "src"), node.dtype()?)?;
    Ok(vec![graph.broadcast_to(&source, node.shape()?)?])
}

/// Differences of neighbours along an axis, taken so many times, of a value with others in front of
/// it and behind it; of flags whether neighbours differ.
pub(super) fn differences(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.tensor(0, "self")?;
    let axis = node.axis((2, "dim"), -1, x.rank())?;
    let (before, behind) =
        (node.optional_tensor(3, "prepend")?, node.optional_tensor(4, "append")?);
    let mut parts = Vec::new();
    for part in [before, Some(x), behind].into_iter().flatten() {
        parts.push(graph.cast(&part, node.dtype()?)?);
    }
    let mut value = graph.concat(axis, &parts)?;
    for _ in 0..node.int(1, "n", 1)? {
        let extent = value.shape()[axis].clone();
        if extent.is_zero() {
            break;
        }
        let count = extent - 1;
        let first = graph.slice_axis(&value, axis, Expr::ZERO, 1, count.clone())?;
        let second = graph.slice_axis(&value, axis, Expr::ONE, 1, count)?;
        value = match value.dtype() {
            DType::Bool => {
                let same = graph.equal(&first, &second)?;
                graph.map(ScalarFunction::Not, &[&same])?
            }
            _ => graph.sub(&second, &first)?,
        };
    }
    Ok(vec![value])
}

/// A value with another in the place of a slice of it.
pub(super) fn slice_scatter(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (x, source) = (node.tensor(0, "self")?, node.tensor(1, "src")?);
    let axis = node.axis((2, "dim"), 0, x.rank())?;
    let start = start(node, graph, &x, axis, 3)?;
    let step = node.int(5, "step", 1)?;
    let source = graph.cast(&source, x.dtype())?;
    replaced(graph, &x, &source, axis, &start, step)
}

/// A value with another in the place of one element along an axis.
pub(super) fn select_scatter(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (x, source) = (node.tensor(0, "self")?, node.tensor(1, "src")?);
    let axis = node.axis((2, "dim"), 0, x.rank())?;
    let index = node.expr(3, "index")?.unwrap_or(Expr::ZERO);
    let index = if graph.builder.bounds(&index).1 < 0 { index + &x.shape()[axis] } else { index };
    let mut shape = x.shape().to_vec();
    shape[axis] = Expr::ONE;
    let source = graph.cast(&source, x.dtype())?;
    let source = graph.reshape(&source, &shape)?;
    replaced(graph, &x, &source, axis, &index, 1)
}

/// `diagonal_scatter(self, src, offset, dim1, dim2)`: a value with another in the place of its
/// diagonals over two axes.
pub(super) fn diagonal_scatter(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (x, source) = (node.tensor(0, "self")?, node.tensor(1, "src")?);
    let (first, second) =
        (node.axis((3, "dim1"), 0, x.rank())?, node.axis((4, "dim2"), 1, x.rank())?);
    let (true, Some(length)) = (first != second, source.shape().last().cloned()) else {
        return Err(shape_error("a diagonal over less than two axes"));
    };
    let offset = node.int(2, "offset", 0)?;
    let mut starts = [(first, offset.saturating_neg().max(0)), (second, offset.max(0))];
    starts.sort_unstable();
    let source = graph.cast(&source, x.dtype())?;
    let along = graph.iota(DType::I64, &[length], 0)?;
    let mut indices = Vec::new();
    for (_, start) in starts {
        let start = graph.dimension(Expr::from(start));
        indices.push(graph.add(&along, &start)?);
    }
    // The elements of a diagonal lie along the last axis of what is put there.
    let (axes, position) = (starts.map(|(axis, _)| axis).to_vec(), x.rank() - 2);
    let op = Op::Scatter { axes, batch: 0, position, reduction: None };
    Ok(vec![graph.scatter(&x, &source, &indices, op)?])
}

fn replaced(
    graph: &mut Graph,
    x: &Operand,
    source: &Operand,
    axis: usize,
    start: &Expr,
    step: i64,
) -> Lowered {
    let count = source.shape()[axis].clone();
    if step == 1 {
        let behind = start + &count;
        let rest = &x.shape()[axis] - &behind;
        let before = graph.slice_axis(x, axis, Expr::ZERO, 1, start.clone())?;
        let after = graph.slice_axis(x, axis, behind, 1, rest)?;
        return Ok(vec![graph.concat(axis, &[before, source.clone(), after])?]);
    }
    let index = graph.iota(DType::I64, &[count], 0)?;
    let index = graph.mul_number(&index, step as f64)?;
    let start = graph.dimension(start.clone());
    let index = graph.add(&index, &start)?;
    let op = Op::Scatter { axes: vec![axis], batch: 0, position: axis, reduction: None };
    Ok(vec![graph.scatter(x, source, &[index], op)?])
}
