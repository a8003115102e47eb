//! Pooling: padding with what the reduction ignores, then a reduction over windows.

use front::{
    Accepted, Graph, Operand, PlaceOrder, Windows, max_places, reduce_windows, shape_error,
    window_counts,
};
use graph::Op;
use sym::Expr;
use tensor::{DType, Reduction, Scalar, ScalarFunction as F};

use super::Lowered;
use super::windows::{entries, kernel_shape, spatial, windows};
use crate::node::{Node, unsupported};

/// The windows of a pooling operator, with their elements in the padding.
fn pooled(node: &Node<'_>, graph: &Graph, x: &Operand) -> Accepted<Windows> {
    let axes = spatial(x)?;
    let kernel = kernel_shape(node, axes.len())?;
    windows(node, graph, &axes, kernel)
}

/// The greatest of each window; output 1 is its index in the whole input.
pub(super) fn max(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let mut windows = pooled(node, graph, x)?;
    windows.trim(&x.shape()[2..]);
    let lowest = Operand::of_scalar(Reduction::Max.identity(x.dtype()));
    let padded = windows.pad(graph, x, &lowest)?;
    if node.wants(1) {
        let column_major = node.flag("storage_order", false)?;
        let order = if column_major { PlaceOrder::WholeColumnMajor } else { PlaceOrder::Whole };
        let (greatest, places) = max_places(graph, &windows, x, &padded, order)?;
        return Ok(vec![greatest, places]);
    }
    Ok(vec![reduce_windows(graph, &windows, &padded, Reduction::Max)?])
}

/// The mean of each window, of the elements within the input (and the padding that the model asks
/// for, if it is to be counted).
pub(super) fn average(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    // A short type may not hold the sum, so it is rounded after the division.
    let x = &graph.widen(node.input(0)?)?;
    let mut windows = pooled(node, graph, x)?;
    let counts_padding = node.flag("count_include_pad", false)?;
    let no_padding = Windows::is_none(&windows.low) && Windows::is_none(&windows.high);
    let counts = if Windows::is_none(&windows.extra) && (counts_padding || no_padding) {
        let elements = windows.kernel.iter().fold(1.0, |count, &extent| count * extent as f64);
        graph.number(x.dtype(), elements)
    } else {
        window_counts(graph, windows.clone(), x, counts_padding)?
    };
    windows.trim(&x.shape()[2..]);
    let zero = graph.number(x.dtype(), 0.0);
    let padded = windows.pad(graph, x, &zero)?;
    let sum = reduce_windows(graph, &windows, &padded, Reduction::Sum)?;
    let mean = graph.div(&sum, &counts)?;
    Ok(vec![graph.cast(&mean, node.input(0)?.dtype())?])
}

/// The norm of order `p` of each window.
pub(super) fn lp(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let mut windows = pooled(node, graph, x)?;
    windows.trim(&x.shape()[2..]);
    let order = order(node)?;
    let powers = powers(graph, x, order)?;
    let zero = graph.number(x.dtype(), 0.0);
    let padded = windows.pad(graph, &powers, &zero)?;
    let sum = reduce_windows(graph, &windows, &padded, Reduction::Sum)?;
    Ok(vec![root(graph, &sum, order)?])
}

/// The mean or the greatest of all that belongs to a channel.
pub(super) fn global(node: &Node<'_>, graph: &mut Graph, greatest: bool) -> Lowered {
    let x = node.input(0)?;
    let axes: Vec<usize> = (2..2 + spatial(x)?.len()).collect();
    Ok(vec![match greatest {
        true => graph.reduce_axes(x, &axes, Reduction::Max, true)?,
        false => graph.mean(x, &axes, true)?,
    }])
}

/// The norm of order `p` of all that belongs to a channel.
pub(super) fn global_lp(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let axes: Vec<usize> = (2..2 + spatial(x)?.len()).collect();
    let order = order(node)?;
    let powers = powers(graph, x, order)?;
    let sum = graph.reduce_axes(&powers, &axes, Reduction::Sum, true)?;
    Ok(vec![root(graph, &sum, order)?])
}

fn order(node: &Node<'_>) -> Accepted<f64> {
    let order = if node.version < 2 { node.float("p", 2.0)? } else { node.int("p", 2)? as f64 };
    match order >= 1.0 {
        true => Ok(order),
        false => Err(unsupported(format!("the norm of order {order}"))),
    }
}

/// `|x|` to the power `order`
fn powers(graph: &mut Graph, x: &Operand, order: f64) -> Accepted<Operand> {
    if order == 2.0 {
        return graph.square(x);
    }
    let magnitude = graph.abs(x)?;
    let order = graph.number(x.dtype(), order);
    graph.map(F::Pow, &[&magnitude, &order])
}

/// The root of a sum of powers.
fn root(graph: &mut Graph, sum: &Operand, order: f64) -> Accepted<Operand> {
    if order == 2.0 {
        return graph.sqrt(sum);
    }
    let inverse = graph.number(sum.dtype(), 1.0 / order);
    graph.map(F::Pow, &[sum, &inverse])
}

/// The inverse of pooling with maxima: elements at their recorded places, zeros elsewhere.
pub(super) fn max_unpool(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (x, indices) = (node.input(0)?, node.input(1)?);
    let axes = spatial(x)?;
    let count = axes.len();
    let kernel = kernel_shape(node, count)?;
    let strides = entries(node, "strides", count, 1, 1)?;
    let pads = entries(node, "pads", 2 * count, 0, 0)?;
    let mut shape = x.shape()[..2].to_vec();
    for (axis, extent) in axes.iter().enumerate() {
        let span = (extent - 1) * Expr::from(strides[axis]);
        shape.push(span + (kernel[axis] - pads[axis] - pads[count + axis]));
    }
    graph.check_size(&shape)?;
    // Indices are row-major, over the whole of the shape that follows from the windows.
    let blank = graph.full(&[shape.iter().product()], Scalar::zero(x.dtype()))?;
    let line = [x.shape().iter().product()];
    let updates = graph.reshape(x, &line)?;
    let indices = graph.cast(indices, DType::I64)?;
    let indices = graph.reshape(&indices, &line)?;
    let op = Op::Scatter { axes: vec![0], batch: 0, position: 0, reduction: None };
    let flat = graph.scatter(&blank, &updates, &[indices], op)?;
    let whole = graph.reshape(&flat, &shape)?;
    if node.optional(2).is_none() {
        return Ok(vec![whole]);
    }
    let wanted = node.exprs(2, "shape of the output")?;
    if wanted.len() != shape.len() {
        return Err(shape_error(format!("an output of {} axes", wanted.len())));
    }
    let high: Vec<Expr> = wanted.iter().zip(&shape).map(|(to, from)| to - from).collect();
    let (none, zero) = (vec![Expr::ZERO; shape.len()], Operand::of_scalar(Scalar::zero(x.dtype())));
    Ok(vec![graph.pad(&whole, &zero, &none, &high, &vec![0; shape.len()])?])
}
