//! Reductions along axes, and where the greatest elements are.

use front::{Accepted, Graph, Operand, gather_axis, unsupported};
use graph::Op;
use sym::Expr;
use tensor::{DType, Reduction, Scalar};

use super::elementwise::not_quantised;
use crate::fixed_point::Multiplier;
use crate::node::{Lowered, Node, integer_range};
use crate::quantised::{Multipliers, finish, times};

/// A reduction of elements that is the same for all types.
pub(super) fn reduce(node: &Node<'_>, graph: &mut Graph, reduction: Reduction) -> Lowered {
    let x = node.input(0)?;
    let axes = node.axes(1, x.rank())?;
    let keep = node.options()?.flag(0, false)?;
    if matches!(reduction, Reduction::Product) {
        not_quantised(node)?;
    }
    Ok(vec![graph.reduce_axes(&x, &axes, reduction, keep)?])
}

/// `SUM`, or `MEAN`: of integers that stand for numbers their exact sums, scaled once.
pub(super) fn total(node: &Node<'_>, graph: &mut Graph, is_mean: bool) -> Lowered {
    let x = node.input(0)?;
    let axes = node.axes(1, x.rank())?;
    let keep = node.options()?.flag(0, false)?;
    if !node.is_quantised(0)? {
        let result = match is_mean {
            true => graph.mean(&x, &axes, keep)?,
            false => graph.reduce_axes(&x, &axes, Reduction::Sum, keep)?,
        };
        return Ok(vec![result]);
    }
    let (own, result) = (node.affine(0)?, node.result_affine()?);
    let dtype = node.dtype()?;
    let count: Expr = axes.iter().map(|axis| &x.shape()[*axis]).product();
    let mut by = Multiplier::of(own.wide() / result.wide());
    let count = count.as_constant().filter(|count| *count > 0);
    let count = count.ok_or_else(|| unsupported("quantised sums whose extents are not fixed"))?;
    if is_mean {
        let shift = (63 - count.leading_zeros() as i32).min(32).min(31 + by.exponent);
        let significand = (i64::from(by.significand) << shift.max(0)) / count;
        by = Multiplier { significand: significand as i32, exponent: by.exponent - shift };
    }
    let wide = graph.cast(&x, DType::I32)?;
    let sum = graph.reduce_axes(&wide, &axes, Reduction::Sum, keep)?;
    let zeros = Scalar::from_i64(DType::I32, i64::from(own.zero_point).wrapping_mul(count));
    let zeros = Operand::of_scalar(zeros);
    let sum = if own.zero_point == 0 { sum } else { graph.sub(&sum, &zeros)? };
    let scaled = times(graph, &sum, &Multipliers::of_one(by))?;
    Ok(vec![finish(graph, &scaled, result, integer_range(dtype), dtype)?])
}

/// Where the greatest or least element is along an axis.
pub(super) fn place(node: &Node<'_>, graph: &mut Graph, greatest: bool) -> Lowered {
    let x = node.input(0)?;
    let axis = front::normalize_axis(node.integer(1, "axis")?, x.rank())?;
    let place = graph.primitive(Op::ArgReduce { axis, greatest, last: false }, &[&x])?;
    Ok(vec![node.as_declared(graph, &place)?])
}

/// The greatest elements along the last axis, in order, and where they are.
pub(super) fn greatest(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let count = node.integer(1, "k")?;
    let axis = x.rank().checked_sub(1).ok_or_else(|| unsupported("a value without axes"))?;
    let extent = x.shape()[axis].as_constant();
    let kept = usize::try_from(count).ok().filter(|_| extent.is_some_and(|it| count <= it));
    let kept = kept.ok_or_else(|| {
        front::shape_error(format!("{count} elements of an axis of another extent"))
    })?;
    let op = Op::Sort { axis, descending: true, kept: Some(kept) };
    let (values, places) = graph.primitive_pair(op, &[&x])?;
    Ok(vec![values, graph.cast(&places, node.output(1)?.dtype()?)?])
}

/// Elements along an axis in the opposite order.
pub(super) fn reversed(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let mut x = node.input(0)?;
    for axis in node.axes(1, x.rank())? {
        let extent = x.shape()[axis].clone();
        x = graph.slice_axis(&x, axis, &extent - 1, -1, extent.clone())?;
    }
    Ok(vec![x])
}

/// Slices of the data at indices along an axis, of which leading ones may be shared.
pub(super) fn gather(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (data, index) = (node.input(0)?, node.input(1)?);
    let options = node.options()?;
    let axis = node.axis(options.int(0)?, data.rank())?;
    let batch = options.int(1)?;
    let batch = if batch < 0 { i64::from(batch) + index.rank() as i64 } else { i64::from(batch) };
    let batch = usize::try_from(batch).ok().filter(|it| *it <= axis && *it <= index.rank());
    let batch = batch.ok_or_else(|| front::shape_error("there are more batch axes than axes"))?;
    let index = front::wrapped_indices(graph, &index, &data.shape()[axis].clone())?;
    if batch == 0 {
        return Ok(vec![gather_axis(graph, &data, axis, &index)?]);
    }
    Ok(vec![graph.gather(&data, &[axis], &[index], batch, axis - batch)?])
}

/// Index tuples `[.., n]` as one index for each of the first `n` axes of the data.
fn tuples(graph: &mut Graph, index: &Operand, data: &[Expr]) -> Accepted<Vec<Operand>> {
    let last = index.rank().checked_sub(1);
    let last = last.ok_or_else(|| front::shape_error("indices without axes"))?;
    let count = index.shape()[last].as_constant().and_then(|it| usize::try_from(it).ok());
    let count = count.filter(|count| *count <= data.len());
    let count =
        count.ok_or_else(|| front::shape_error("the indices are longer than the data has axes"))?;
    let mut found = Vec::new();
    for (axis, extent) in data.iter().enumerate().take(count) {
        let one = graph.slice_axis(index, last, Expr::from(axis), 1, Expr::ONE)?;
        let one = graph.reshape(&one, &index.shape()[..last])?;
        found.push(front::wrapped_indices(graph, &one, extent)?);
    }
    Ok(found)
}

/// Slices of the data at tuples of indices.
pub(super) fn gather_tuples(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (data, index) = (node.input(0)?, node.input(1)?);
    let operands = tuples(graph, &index, data.shape())?;
    let axes: Vec<usize> = (0..operands.len()).collect();
    Ok(vec![graph.gather(&data, &axes, &operands, 0, 0)?])
}

/// Updates added up at tuples of indices of zeros.
pub(super) fn scatter_tuples(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (index, updates) = (node.input(0)?, node.input(1)?);
    let shape = super::movement::shape_of(node, 2, "shape")?;
    let zeros = graph.full(&shape, Scalar::zero(updates.dtype()))?;
    let operands = tuples(graph, &index, &shape)?;
    let axes: Vec<usize> = (0..operands.len()).collect();
    let op = Op::Scatter { axes, batch: 0, position: 0, reduction: Some(Reduction::Sum) };
    Ok(vec![graph.scatter(&zeros, &updates, &operands, op)?])
}

/// The indices of true elements.
pub(super) fn true_places(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let condition = match x.dtype() {
        DType::Bool => x,
        dtype => {
            let zero = graph.number(dtype, 0.0);
            graph.map(tensor::ScalarFunction::Ne, &[&x, &zero])?
        }
    };
    Ok(vec![front::true_indices(graph, &condition)?])
}

/// One value at an index along a new axis, another elsewhere.
pub(super) fn one_hot(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (index, on, off) = (node.input(0)?, node.input(2)?, node.input(3)?);
    let depth = node.integer(1, "depth")?;
    if depth < 0 {
        return Err(front::shape_error(format!("a depth of {depth}")));
    }
    let axis = front::normalize_axis(i64::from(node.options()?.int(0)?), index.rank() + 1)?;
    let mut shape = index.shape().to_vec();
    shape.insert(axis, Expr::from(depth));
    graph.check_size(&shape)?;
    let mut column = index.shape().to_vec();
    column.insert(axis, Expr::ONE);
    let index = graph.cast(&index, DType::I64)?;
    let index = graph.reshape(&index, &column)?;
    let place = graph.iota(DType::I64, &shape, axis)?;
    let hit = graph.equal(&place, &index)?;
    let (on, off) = (graph.reshape(&on, &[])?, graph.reshape(&off, &[])?);
    Ok(vec![graph.select(&hit, &on, &off)?])
}
