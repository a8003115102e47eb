//! Pooling: reductions of windows along height and width.

use front::{Accepted, Graph, Operand, Padding, Windows, reduce_windows, window_counts};
use tensor::{DType, Reduction, ScalarFunction as F};

use super::convolution::{FIRST, LAST, padding, positive};
use crate::node::{Activation, Lowered, Node};

/// The data with channels first, its windows, and the fused activation.
fn windows(node: &Node<'_>, graph: &mut Graph) -> Accepted<(Operand, Windows, Activation)> {
    let options = node.options()?;
    let strides = positive(&[options.int(2)?, options.int(1)?], "a stride")?;
    let kernel = positive(&[options.int(4)?, options.int(3)?], "a window")?;
    let padding: [Padding; 2] = padding(options.number(0, 0)?)?;
    let x = node.input(0)?;
    if x.rank() != 4 {
        return Err(front::shape_error(format!("the data have {} axes, not 4", x.rank())));
    }
    let x = graph.transpose(&x, &FIRST)?;
    let dilations = vec![1; 2];
    let spatial = &x.shape()[2..];
    let windows = Windows::new(graph, spatial, kernel, (strides, dilations), &padding, false)?;
    Ok((x, windows, options.activation(5)?))
}

/// A fused activation of what has the scale of the result already.
fn activated(
    node: &Node<'_>,
    graph: &mut Graph,
    value: &Operand,
    activation: Activation,
) -> Accepted<Operand> {
    if activation == Activation::None || !node.output(0)?.is_quantised()? {
        return activation.of(graph, value);
    }
    let (low, high) = activation.integers(node.result_affine()?, node.dtype()?)?;
    graph.clamp(value, f64::from(low), f64::from(high))
}

/// `MAX_POOL_2D`
pub(super) fn max(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (x, mut windows, activation) = windows(node, graph)?;
    windows.trim(&x.shape()[2..]);
    let lowest = Operand::of_scalar(Reduction::Max.identity(x.dtype()));
    let padded = windows.pad(graph, &x, &lowest)?;
    let result = reduce_windows(graph, &windows, &padded, Reduction::Max)?;
    let result = graph.transpose(&result, &LAST)?;
    Ok(vec![activated(node, graph, &result, activation)?])
}

/// Sums of windows and how many elements each has, padding left out.
fn sums(graph: &mut Graph, x: &Operand, mut windows: Windows) -> Accepted<(Operand, Operand)> {
    let counts = match Windows::is_none(&windows.low) && Windows::is_none(&windows.high) {
        true => {
            let elements = windows.kernel.iter().fold(1.0, |all, extent| all * *extent as f64);
            graph.number(x.dtype(), elements)
        }
        false => window_counts(graph, windows.clone(), x, false)?,
    };
    windows.trim(&x.shape()[2..]);
    let zero = graph.number(x.dtype(), 0.0);
    let padded = windows.pad(graph, x, &zero)?;
    Ok((reduce_windows(graph, &windows, &padded, Reduction::Sum)?, counts))
}

/// `AVERAGE_POOL_2D`: of integers rounded half away from zero.
pub(super) fn average(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (x, windows, activation) = windows(node, graph)?;
    if x.dtype().is_float() {
        let (sum, counts) = sums(graph, &x, windows)?;
        let mean = graph.div(&sum, &counts)?;
        let mean = graph.transpose(&mean, &LAST)?;
        return Ok(vec![activation.of(graph, &mean)?]);
    }
    let wide = graph.cast(&x, DType::I32)?;
    let (sum, counts) = sums(graph, &wide, windows)?;
    let two = graph.number(DType::I32, 2.0);
    let half = graph.div(&counts, &two)?;
    let below = graph.neg(&half)?;
    let zero = graph.number(DType::I32, 0.0);
    let is_positive = graph.greater(&sum, &zero)?;
    let half = graph.select(&is_positive, &half, &below)?;
    let nudged = graph.add(&sum, &half)?;
    let mean = graph.div(&nudged, &counts)?;
    let mean = graph.transpose(&mean, &LAST)?;
    let (low, high) = match node.output(0)?.is_quantised()? {
        true => activation.integers(node.result_affine()?, node.dtype()?)?,
        false => return Err(node.output(0)?.refused("it has no scale")),
    };
    let bounded = graph.clamp(&mean, f64::from(low), f64::from(high))?;
    Ok(vec![node.as_declared(graph, &bounded)?])
}

/// `L2_POOL_2D`: roots of mean squares.
pub(super) fn root_mean_square(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (x, windows, activation) = windows(node, graph)?;
    if !x.dtype().is_float() {
        return Err(front::type_error(format!("elements of type {}", x.dtype())));
    }
    let square = graph.square(&x)?;
    let (sum, counts) = sums(graph, &square, windows)?;
    let mean = graph.div(&sum, &counts)?;
    let root = graph.map(F::Sqrt, &[&mean])?;
    let root = graph.transpose(&root, &LAST)?;
    Ok(vec![activation.of(graph, &root)?])
}
