//! Reductions along axes, running sums, and the greatest elements.

use base::Diagnostic;
use front::{Accepted, Graph, Operand, normalize_axis, shape_error, without_axes};
use graph::Op;
use sym::Expr;
use tensor::{DType, Reduction, ScalarFunction as F};

use super::Lowered;
use crate::node::Node;

/// The axes that a reduction is over. They are an input since version 18, `ReduceSum`'s since 13;
/// none given means all, or with an attribute since those versions none.
fn axes(node: &Node<'_>) -> Accepted<Vec<usize>> {
    let rank = node.input(0)?.rank();
    let since = if node.proto.op_type == "ReduceSum" { 13 } else { 18 };
    match node.axes_since(since, rank)? {
        Some(axes) if !axes.is_empty() => Ok(axes),
        _ if node.flag("noop_with_empty_axes", false)? => Ok(Vec::new()),
        _ => Ok((0..rank).collect()),
    }
}

fn keeps(node: &Node<'_>) -> Accepted<bool> {
    node.flag("keepdims", true)
}

/// A plain reduction.
pub(super) fn reduce(node: &Node<'_>, graph: &mut Graph, reduction: Reduction) -> Lowered {
    let axes = axes(node)?;
    Ok(vec![graph.reduce_axes(node.input(0)?, &axes, reduction, keeps(node)?)?])
}

/// The mean.
pub(super) fn mean(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let axes = axes(node)?;
    Ok(vec![graph.mean(node.input(0)?, &axes, keeps(node)?)?])
}

/// The sum of magnitudes.
pub(super) fn l1(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let magnitude = graph.abs(node.input(0)?)?;
    Ok(vec![graph.reduce_axes(&magnitude, &axes(node)?, Reduction::Sum, keeps(node)?)?])
}

/// The sum of squares.
pub(super) fn sum_square(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let square = graph.square(node.input(0)?)?;
    Ok(vec![graph.reduce_axes(&square, &axes(node)?, Reduction::Sum, keeps(node)?)?])
}

/// The square root of the sum of squares.
pub(super) fn l2(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    in_floats(node, graph, |graph, x| {
        let square = graph.square(x)?;
        let sum = graph.reduce_axes(&square, &axes(node)?, Reduction::Sum, keeps(node)?)?;
        graph.sqrt(&sum)
    })
}

/// The logarithm of the sum.
pub(super) fn log_sum(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    in_floats(node, graph, |graph, x| {
        let sum = graph.reduce_axes(x, &axes(node)?, Reduction::Sum, keeps(node)?)?;
        graph.log(&sum)
    })
}

/// The logarithm of the sum of exponentials; the greatest element is taken out first, so that the
/// exponentials do not overflow, unless it is infinite.
pub(super) fn log_sum_exp(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    in_floats(node, graph, |graph, x| {
        let axes = axes(node)?;
        let greatest = graph.reduce_axes(x, &axes, Reduction::Max, true)?;
        let infinite = graph.map(F::IsInf, &[&greatest])?;
        let zero = graph.number(x.dtype(), 0.0);
        let shift = graph.select(&infinite, &zero, &greatest)?;
        let shifted = graph.sub(x, &shift)?;
        let exp = graph.exp(&shifted)?;
        let sum = graph.reduce_axes(&exp, &axes, Reduction::Sum, true)?;
        let log = graph.log(&sum)?;
        let result = graph.add(&log, &shift)?;
        if keeps(node)? { Ok(result) } else { without_axes(graph, &result, &axes) }
    })
}

/// Integers are computed as floats of 64 bits.
fn in_floats(
    node: &Node<'_>,
    graph: &mut Graph,
    function: impl FnOnce(&mut Graph, &Operand) -> Accepted<Operand>,
) -> Lowered {
    let x = node.input(0)?;
    let wide = if x.dtype().is_float() { x.dtype() } else { DType::F64 };
    let floats = graph.cast(x, wide)?;
    let result = function(graph, &floats)?;
    Ok(vec![graph.cast(&result, x.dtype())?])
}

/// The index of the greatest or least element along an axis.
pub(super) fn arg_reduce(node: &Node<'_>, graph: &mut Graph, greatest: bool) -> Lowered {
    let x = node.input(0)?;
    let axis = node.axis("axis", 0, x.rank())?;
    let last = node.flag("select_last_index", false)?;
    let index = graph.primitive(Op::ArgReduce { axis, greatest, last }, &[x])?;
    if !keeps(node)? {
        return Ok(vec![index]);
    }
    let mut shape = x.shape().to_vec();
    shape[axis] = Expr::ONE;
    Ok(vec![graph.reshape(&index, &shape)?])
}

/// Running sums or products along an axis that an input names.
pub(super) fn cumulate(node: &Node<'_>, graph: &mut Graph, reduction: Reduction) -> Lowered {
    let x = node.input(0)?;
    let axis = match node.integers(1, "axis")?[..] {
        [axis] => normalize_axis(axis, x.rank())?,
        ref axes => return Err(shape_error(format!("one axis is needed, not {}", axes.len()))),
    };
    let exclusive = node.flag("exclusive", false)?;
    let reverse = node.flag("reverse", false)?;
    let op = Op::Cumulate { axis, reduction, exclusive, reverse };
    Ok(vec![graph.primitive(op, &[x])?])
}

/// The greatest (or least) elements along an axis, in order, and their indices.
pub(super) fn top_k(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let axis = node.axis("axis", -1, x.rank())?;
    let count = if node.version < 10 {
        Expr::from(node.int("k", -1)?)
    } else {
        node.sizes(1, "number of elements k", graph)?.pop().ok_or_else(missing_count)?
    };
    let (low, _) = graph.builder.bounds(&count);
    let (_, most) = graph.builder.bounds(&(&count - &x.shape()[axis]));
    if low < 0
        || most > 0 && count.as_constant().is_some() && x.shape()[axis].as_constant().is_some()
    {
        let (count, extent) = (graph.builder.text(&count), graph.builder.text(&x.shape()[axis]));
        return Err(shape_error(format!("{count} elements wanted of an axis of extent {extent}")));
    }
    let descending = node.flag("largest", true)?;
    // Where it is not known that there are as many elements, slices check it.
    let kept = count.as_constant().filter(|_| most <= 0).and_then(|count| count.try_into().ok());
    let (values, indices) = graph.primitive_pair(Op::Sort { axis, descending, kept }, &[x])?;
    if kept.is_some() {
        return Ok(vec![values, indices]);
    }
    let values = graph.slice_axis(&values, axis, Expr::ZERO, 1, count.clone())?;
    let indices = graph.slice_axis(&indices, axis, Expr::ZERO, 1, count)?;
    Ok(vec![values, indices])
}

fn missing_count() -> Diagnostic {
    shape_error("the number of elements k is empty")
}
