//! Reading and writing at indices that are data.

use front::{
    Accepted, Graph, Operand, elementwise_indices, gather_axis, shared_axes, unsupported,
    wrapped_indices,
};
use graph::Op;
use sym::Expr;
use tensor::{DType, Reduction};

use crate::node::{Lowered, Node};

/// Rows of a table.
pub(super) fn embedding(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (table, index) = (node.tensor(0, "weight")?, node.tensor(1, "indices")?);
    let index = graph.cast(&index, DType::I64)?;
    Ok(vec![gather_axis(graph, &table, 0, &index)?])
}

/// Slices along an axis, at the indices of a vector.
pub(super) fn index_select(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (x, index) = (node.tensor(0, "self")?, node.tensor(2, "index")?);
    let axis = node.axis((1, "dim"), 0, x.rank())?;
    let index = wrapped_indices(graph, &index, &x.shape()[axis])?;
    let index = graph.reshape(&index, &[index.shape().iter().product::<Expr>()])?;
    Ok(vec![gather_axis(graph, &x, axis, &index)?])
}

/// `result[i, j] = x[i, index[i, j]]`, and so along any axis.
pub(super) fn gather(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (x, index) = (node.tensor(0, "self")?, node.tensor(2, "index")?);
    if x.rank() == 0 || index.rank() != x.rank() {
        return Err(unsupported("indices of another rank"));
    }
    let axis = node.axis((1, "dim"), 0, x.rank())?;
    let index = wrapped_indices(graph, &index, &x.shape()[axis])?;
    let batch = shared_axes(&x, &index, axis);
    let operands = elementwise_indices(graph, &index, axis, batch)?;
    let axes: Vec<usize> = (batch..x.rank()).collect();
    Ok(vec![graph.gather(&x, &axes, &operands, batch, 0)?])
}

/// `x[i, index[i, j]] = source[i, j]`, or combined with what is there.
pub(super) fn scatter(
    node: &Node<'_>,
    graph: &mut Graph,
    source: &str,
    reduction: Option<Reduction>,
) -> Lowered {
    let (x, index) = (node.tensor(0, "self")?, node.tensor(2, "index")?);
    if x.rank() == 0 || index.rank() != x.rank() {
        return Err(unsupported("indices of another rank"));
    }
    let axis = node.axis((1, "dim"), 0, x.rank())?;
    let index = wrapped_indices(graph, &index, &x.shape()[axis])?;
    let updates = node.operand_as(graph, (3, source), x.dtype())?;
    let updates = match updates.rank() {
        0 => graph.broadcast_to(&updates, index.shape())?,
        rank => {
            // There may be more than there are indices.
            graph.slice(&updates, &vec![Expr::ZERO; rank], &vec![1; rank], index.shape())?
        }
    };
    let batch = shared_axes(&x, &index, axis);
    let operands = elementwise_indices(graph, &index, axis, batch)?;
    let axes: Vec<usize> = (batch..x.rank()).collect();
    let op = Op::Scatter { axes, batch, position: 0, reduction };
    Ok(vec![graph.scatter(&x, &updates, &operands, op)?])
}

/// `scatter_reduce(x, dim, index, src, reduce, include_self)`
pub(super) fn scatter_reduce(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    if !node.flag(5, "include_self", true)? {
        return Err(unsupported("a reduction that leaves out what is there"));
    }
    let reduction = match node.text(4, "reduce", "")? {
        "sum" | "add" => Reduction::Sum,
        "prod" | "multiply" => Reduction::Product,
        "amax" => Reduction::Max,
        "amin" => Reduction::Min,
        other => return Err(unsupported(format!("the reduction \"{other}\""))),
    };
    scatter(node, graph, "src", Some(reduction))
}

/// The axes that have an index, the indices in one shape, and how many other axes come before
/// theirs in the result: where indexed axes are not side by side, none.
fn placed(
    graph: &mut Graph,
    x: &Operand,
    given: &[Option<Operand>],
) -> Accepted<(Vec<usize>, Vec<Operand>, usize)> {
    let axes: Vec<usize> = (0..given.len()).filter(|&axis| given[axis].is_some()).collect();
    let mut indices = Vec::new();
    for (axis, index) in given.iter().enumerate() {
        let Some(index) = index else { continue };
        if matches!(index.dtype(), DType::Bool) {
            return Err(unsupported("a mask for an index"));
        }
        indices.push(wrapped_indices(graph, index, &x.shape()[axis])?);
    }
    let shapes: Vec<&[Expr]> = indices.iter().map(Operand::shape).collect();
    let shape = graph.common_shape(&shapes)?;
    let indices = indices.iter().map(|index| graph.broadcast_to(index, shape.as_slice()));
    let indices = indices.collect::<Accepted<Vec<_>>>()?;
    let is_together = axes.windows(2).all(|pair| pair[0] + 1 == pair[1]);
    let position = if is_together { axes.first().copied().unwrap_or(0) } else { 0 };
    Ok((axes, indices, position))
}

/// Elements at indices of several axes together.
pub(super) fn index(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.tensor(0, "self")?;
    let (axes, indices, position) = placed(graph, &x, &node.tensors(1, "indices")?)?;
    if let ([axis], [index]) = (&axes[..], &indices[..]) {
        return Ok(vec![gather_axis(graph, &x, *axis, index)?]);
    }
    Ok(vec![graph.gather(&x, &axes, &indices, 0, position)?])
}

/// A value with others at indices of several axes together, or added there.
pub(super) fn index_put(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.tensor(0, "self")?;
    let (axes, indices, position) = placed(graph, &x, &node.tensors(1, "indices")?)?;
    let Some(first) = indices.first() else {
        return Err(unsupported("no index"));
    };
    let mut kept: Vec<Expr> = Vec::new();
    kept.extend((0..x.rank()).filter(|axis| !axes.contains(axis)).map(|at| x.shape()[at].clone()));
    let shape = [&kept[..position], first.shape(), &kept[position..]].concat();
    let updates = node.operand_as(graph, (2, "values"), x.dtype())?;
    let updates = graph.broadcast_to(&updates, shape)?;
    let reduction = node.flag(3, "accumulate", false)?.then_some(Reduction::Sum);
    let op = Op::Scatter { axes, batch: 0, position, reduction };
    Ok(vec![graph.scatter(&x, &updates, &indices, op)?])
}
