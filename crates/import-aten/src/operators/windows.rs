//! Pooling: reductions of windows.

use front::{
    Accepted, Graph, Operand, Padding, PlaceOrder, Windows, elementwise_indices, max_places,
    reduce_windows, unsupported, window_counts,
};
use graph::Op;
use sym::Expr;
use tensor::{Reduction, Scalar};

use crate::node::{Lowered, Node};

/// A value with axes of batch and channels in front, and how many axes windows slide along.
fn batched(node: &Node<'_>, graph: &mut Graph, count: usize) -> Accepted<Operand> {
    let x = node.tensor(0, "self")?;
    match x.rank() {
        rank if rank == count + 2 => Ok(x),
        rank if rank == count + 1 => {
            let shape = [&[Expr::ONE], x.shape()].concat();
            graph.reshape(&x, &shape)
        }
        rank => Err(unsupported(format!("an input of {rank} axes"))),
    }
}

/// The windows of a pooling operator; `dilation` is the place of that argument, if there is one.
fn windows(
    node: &Node<'_>,
    graph: &Graph,
    x: &Operand,
    dilation: Option<usize>,
    ceil: usize,
) -> Accepted<Windows> {
    let count = x.rank() - 2;
    let kernel = node.entries((1, "kernel_size"), count, 1)?;
    let strides = match node.ints(2, "stride")? {
        Some(given) if !given.is_empty() => node.entries((2, "stride"), count, 1)?,
        _ => kernel.clone(),
    };
    let pads = node.entries((3, "padding"), count, 0)?;
    let dilations = match dilation {
        Some(place) => node.entries((place, "dilation"), count, 1)?,
        None => vec![1; count],
    };
    if kernel.iter().chain(&strides).chain(&dilations).any(|entry| !(1..1 << 31).contains(entry)) {
        return Err(unsupported(format!("windows of {kernel:?} every {strides:?}")));
    }
    let padding: Vec<Padding> = pads.iter().map(|&pad| Padding::Given(pad, pad)).collect();
    let ceil = node.flag(ceil, "ceil_mode", false)?;
    Windows::new(graph, &x.shape()[2..], kernel, (strides, dilations), &padding, ceil)
}

/// The greatest of each window of `count` axes; also its place among the spatial axes, if wanted.
pub(super) fn max(node: &Node<'_>, graph: &mut Graph, count: usize) -> Lowered {
    let x = batched(node, graph, count)?;
    let mut windows = windows(node, graph, &x, Some(4), 5)?;
    windows.trim(&x.shape()[2..]);
    let lowest = Operand::of_scalar(Reduction::Max.identity(x.dtype()));
    let padded = windows.pad(graph, &x, &lowest)?;
    if let Some(Some(ty)) = node.call.types.get(1) {
        let found = max_places(graph, &windows, &x, &padded, PlaceOrder::OfChannel)?;
        return Ok(vec![
            graph.reshape(&found.0, node.shape()?)?,
            graph.reshape(&found.1, &ty.shape)?,
        ]);
    }
    let result = reduce_windows(graph, &windows, &padded, Reduction::Max)?;
    Ok(vec![graph.reshape(&result, node.shape()?)?])
}

/// `max_pool_with_indices_backward(grad_output, self, .., indices)`: each gradient where the
/// greatest of its window was found.
pub(super) fn max_backward(node: &Node<'_>, graph: &mut Graph, count: usize) -> Lowered {
    let (gradient, x) = (node.tensor(0, "grad_output")?, node.tensor(1, "self")?);
    let places = node.tensor(7, "indices")?;
    let Some(lead) = x.rank().checked_sub(count) else {
        return Err(unsupported(format!("an input of {} axes", x.rank())));
    };
    let flat = |value: &Operand| {
        let elements: Expr = value.shape()[lead..].iter().product();
        [&value.shape()[..lead], &[elements]].concat()
    };
    let (own, whole) = (flat(&gradient), flat(&x));
    let (gradient, places) = (graph.reshape(&gradient, &own)?, graph.reshape(&places, &own)?);
    let zeros = graph.full(&whole, Scalar::zero(x.dtype()))?;
    let indices = elementwise_indices(graph, &places, lead, 0)?;
    let axes = (0..=lead).collect();
    let op = Op::Scatter { axes, batch: 0, position: 0, reduction: Some(Reduction::Sum) };
    let sums = graph.scatter(&zeros, &gradient, &indices, op)?;
    Ok(vec![graph.reshape(&sums, x.shape())?])
}

/// The mean of each window of `count` axes.
pub(super) fn average(node: &Node<'_>, graph: &mut Graph, count: usize) -> Lowered {
    let x = batched(node, graph, count)?;
    let mut windows = windows(node, graph, &x, None, 4)?;
    let counts_padding = node.flag(5, "count_include_pad", true)?;
    let dtype = x.dtype();
    let x = graph.widen(&x)?;
    let no_padding = Windows::is_none(&windows.low) && Windows::is_none(&windows.high);
    let counts = match node.number(6, "divisor_override")? {
        Some(divisor) => graph.number(x.dtype(), divisor),
        None if Windows::is_none(&windows.extra) && (counts_padding || no_padding) => {
            let elements = windows.kernel.iter().fold(1.0, |all, &extent| all * extent as f64);
            graph.number(x.dtype(), elements)
        }
        None => window_counts(graph, windows.clone(), &x, counts_padding)?,
    };
    windows.trim(&x.shape()[2..]);
    let zero = graph.number(x.dtype(), 0.0);
    let padded = windows.pad(graph, &x, &zero)?;
    let sum = reduce_windows(graph, &windows, &padded, Reduction::Sum)?;
    let mean = graph.div(&sum, &counts)?;
    let mean = graph.cast(&mean, dtype)?;
    Ok(vec![graph.reshape(&mean, node.shape()?)?])
}

/// The mean of each of so many windows of `count` axes as the result has elements: window `i`
/// begins at `i * extent / outputs` and ends at `(i + 1) * extent / outputs`, rounded up.
pub(super) fn adaptive_average(node: &Node<'_>, graph: &mut Graph, count: usize) -> Lowered {
    let x = batched(node, graph, count)?;
    let mut value = graph.widen(&x)?;
    let outputs = node.shape()?[node.shape()?.len() - count..].to_vec();
    for (number, wanted) in outputs.iter().enumerate() {
        let axis = 2 + number;
        let extent = value.shape()[axis].clone();
        if *wanted == extent {
            continue;
        }
        if wanted.is_one() {
            value = graph.mean(&value, &[axis], true)?;
            continue;
        }
        let (Some(extent), Some(wanted)) = (extent.as_constant(), wanted.as_constant()) else {
            return Err(unsupported("windows of an axis whose extent is not fixed"));
        };
        value = by_windows(graph, &value, axis, extent, wanted)?;
    }
    let value = graph.cast(&value, x.dtype())?;
    Ok(vec![graph.reshape(&value, node.shape()?)?])
}

/// Means of `wanted` windows along an axis: equal ones at once, others one by one.
fn by_windows(
    graph: &mut Graph,
    value: &Operand,
    axis: usize,
    extent: i64,
    wanted: i64,
) -> Accepted<Operand> {
    if extent % wanted == 0 {
        let mut split = value.shape().to_vec();
        split[axis] = Expr::from(wanted);
        split.insert(axis + 1, Expr::from(extent / wanted));
        let split = graph.reshape(value, &split)?;
        return graph.mean(&split, &[axis + 1], false);
    }
    let window = |number: i64| {
        let start = number * extent / wanted;
        let end = ((number + 1) * extent + wanted - 1) / wanted;
        let part = graph.slice_axis(value, axis, Expr::from(start), 1, Expr::from(end - start))?;
        graph.mean(&part, &[axis], true)
    };
    let parts = (0..wanted).map(window).collect::<Accepted<Vec<_>>>()?;
    graph.concat(axis, &parts)
}
