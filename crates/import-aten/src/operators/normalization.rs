//! Normalisations and softmax.

use front::{
    Accepted, Graph, Operand, in_channel_groups, inverse_deviation, over_sum, shape_error,
    shifted_exponentials, standardize, unsupported,
};
use sym::Expr;
use tensor::{DType, Reduction, Scalar};

use super::reductions::spread;
use crate::derivative::gradients;
use crate::node::{Lowered, Node};

/// An empty value of a result's type, where the trace wants one that nothing is to read.
fn empty(node: &Node<'_>, graph: &mut Graph, number: usize) -> Accepted<Option<Operand>> {
    match node.call.types.get(number).and_then(Option::as_ref) {
        Some(ty) if ty.shape.iter().all(Expr::is_zero) => {
            graph.full(&ty.shape, Scalar::zero(ty.dtype)).map(Some)
        }
        Some(_) => Err(unsupported("a result of training")),
        None => Ok(None),
    }
}

/// What scales, shifts and centres each channel; the first two may be left out.
struct Channels {
    scale: Option<Operand>,
    bias: Option<Operand>,
    mean: Operand,
    inverse: Operand,
}

/// `x * factor + shift`, where factor and shift follow from numbers a channel.
fn by_channel(graph: &mut Graph, x: &Operand, channels: &Channels) -> Accepted<Operand> {
    let wide = channels.inverse.dtype();
    let mut factor = channels.inverse.clone();
    if let Some(scale) = &channels.scale {
        let scale = graph.cast(scale, wide)?;
        factor = graph.mul(&factor, &scale)?;
    }
    let centre = graph.mul(&channels.mean, &factor)?;
    let mut shift = graph.neg(&centre)?;
    if let Some(bias) = &channels.bias {
        let bias = graph.cast(bias, wide)?;
        shift = graph.sub(&bias, &centre)?;
    }
    let factor = graph.broadcast_axis(&factor, x.shape(), 1)?;
    let shift = graph.broadcast_axis(&shift, x.shape(), 1)?;
    let x_wide = graph.cast(x, wide)?;
    let scaled = graph.mul(&x_wide, &factor)?;
    let result = graph.add(&scaled, &shift)?;
    graph.cast(&result, x.dtype())
}

/// With given statistics: `(x, weight, bias, running_mean, running_var, ..)`, `eps` at a place.
fn with_running(node: &Node<'_>, graph: &mut Graph, epsilon: usize) -> Lowered {
    let x = node.tensor(0, "input")?;
    let mean = node.tensor(3, "running_mean")?;
    let variance = node.tensor(4, "running_var")?;
    let (mean, variance) = (graph.widen(&mean)?, graph.widen(&variance)?);
    let inverse =
        inverse_deviation(graph, &variance, node.number(epsilon, "eps")?.unwrap_or(1e-5))?;
    let channels = Channels {
        scale: node.optional_tensor(1, "weight")?,
        bias: node.optional_tensor(2, "bias")?,
        mean,
        inverse,
    };
    let mut results = vec![by_channel(graph, &x, &channels)?];
    for number in 1..node.call.types.len().min(3) {
        let nothing = graph.full(&[Expr::ZERO], Scalar::zero(DType::F32))?;
        results.push(empty(node, graph, number)?.unwrap_or(nothing));
    }
    Ok(results)
}

/// `_native_batch_norm_legit_no_training(.., momentum, eps)`
pub(super) fn batch_inference(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    with_running(node, graph, 6)
}

/// `batch_norm(.., training, momentum, eps, cudnn_enabled)` outside of training.
pub(super) fn batch(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    if node.flag(5, "training", false)? {
        return Err(unsupported("statistics of a batch that are kept in place"));
    }
    with_running(node, graph, 7)
}

/// `_native_batch_norm_legit_functional(x, weight, bias, mean, var, training, momentum, eps)`: the
/// result, the batch's mean and inverse deviation, and the statistics after it. Outside of training
/// the former are empty, and the latter as they were.
pub(super) fn batch_functional(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    if !node.flag(5, "training", false)? {
        let mut results = with_running(node, graph, 7)?;
        results.truncate(3);
        results.extend([node.tensor(3, "running_mean")?, node.tensor(4, "running_var")?]);
        return of_declared_types(node, graph, &results);
    }
    let x = node.tensor(0, "input")?;
    let momentum = node.number(6, "momentum")?.unwrap_or(0.1);
    let axes: Vec<usize> = (0..x.rank()).filter(|&axis| axis != 1).collect();
    let (variance, mean) = spread(graph, &x, &axes, 0.0)?;
    let channels = [x.shape()[1].clone()];
    let (variance, mean) = (graph.reshape(&variance, &channels)?, graph.reshape(&mean, &channels)?);
    let inverse = inverse_deviation(graph, &variance, node.number(7, "eps")?.unwrap_or(1e-5))?;
    let count = axes.iter().map(|&axis| &x.shape()[axis]).product::<Expr>();
    let count = graph.dimension(count);
    let count = graph.cast(&count, variance.dtype())?;
    let fewer = graph.add_number(&count, -1.0)?;
    let unbiased = graph.mul(&variance, &count)?;
    let unbiased = graph.div(&unbiased, &fewer)?;
    let mut results = vec![Operand::clone(&x), mean.clone(), inverse.clone()];
    for (place, name, own) in [(3, "running_mean", &mean), (4, "running_var", &unbiased)] {
        let before = node.tensor(place, name)?;
        let wide = graph.cast(&before, own.dtype())?;
        let kept = graph.mul_number(&wide, 1.0 - momentum)?;
        let added = graph.mul_number(own, momentum)?;
        let after = graph.add(&kept, &added)?;
        results.push(graph.cast(&after, before.dtype())?);
    }
    let channels = Channels {
        scale: node.optional_tensor(1, "weight")?,
        bias: node.optional_tensor(2, "bias")?,
        mean,
        inverse,
    };
    results[0] = by_channel(graph, &x, &channels)?;
    of_declared_types(node, graph, &results)
}

/// Results in the types that the trace says: of short floats the statistics may be wide or short.
fn of_declared_types(node: &Node<'_>, graph: &mut Graph, results: &[Operand]) -> Lowered {
    let declared = node.call.types.iter().map(|ty| ty.as_ref().map(|ty| ty.dtype));
    let each = results.iter().zip(declared);
    each.map(|(value, dtype)| graph.cast(value, dtype.unwrap_or(value.dtype()))).collect()
}

/// The last axes standardised, then scaled and shifted by element; mean and inverse deviation.
pub(super) fn layer(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.tensor(0, "input")?;
    let over = node.exprs(1, "normalized_shape")?.unwrap_or_default().len();
    let first = x.rank().checked_sub(over).ok_or_else(|| shape_error("too few axes"))?;
    let axes: Vec<usize> = (first..x.rank()).collect();
    let wide = graph.widen(&x)?;
    let epsilon = node.number(4, "eps")?.unwrap_or(1e-5);
    let (normal, mean, inverse) = standardize(graph, &wide, &axes, epsilon)?;
    let scale = node.optional_tensor(2, "weight")?;
    let result = scaled(graph, normal, scale, node.optional_tensor(3, "bias")?)?;
    let mut results = vec![graph.cast(&result, x.dtype())?];
    for (number, value) in [(1, mean), (2, inverse)] {
        if let Some(Some(ty)) = node.call.types.get(number) {
            results.push(graph.cast(&value, ty.dtype)?);
        }
    }
    Ok(results)
}

/// A value times one and plus another, each of which may be left out.
fn scaled(
    graph: &mut Graph,
    value: Operand,
    scale: Option<Operand>,
    bias: Option<Operand>,
) -> Accepted<Operand> {
    let mut value = value;
    if let Some(scale) = scale {
        let scale = graph.cast(&scale, value.dtype())?;
        value = graph.mul(&value, &scale)?;
    }
    if let Some(bias) = bias {
        let bias = graph.cast(&bias, value.dtype())?;
        value = graph.add(&value, &bias)?;
    }
    Ok(value)
}

/// The last axes over the root of their mean square, then scaled by element.
pub(super) fn root_mean_square(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.tensor(0, "input")?;
    let over = node.exprs(1, "normalized_shape")?.unwrap_or_default().len();
    let first = x.rank().checked_sub(over).ok_or_else(|| shape_error("too few axes"))?;
    let axes: Vec<usize> = (first..x.rank()).collect();
    // What is added where nothing is said is the smallest step of the type.
    let step = if x.dtype() == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
    let epsilon = node.number(3, "eps")?.unwrap_or(step);
    let wide = graph.widen(&x)?;
    let (normal, inverse) = front::over_root_mean_square(graph, &wide, &axes, epsilon)?;
    let result = scaled(graph, normal, node.optional_tensor(2, "weight")?, None)?;
    Ok(vec![graph.cast(&result, x.dtype())?, inverse])
}

/// `group_norm(x, groups, weight, bias, eps)`
pub(super) fn group(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let groups = node.int(1, "num_groups", 1)?;
    let (scale, bias) = (node.optional_tensor(2, "weight")?, node.optional_tensor(3, "bias")?);
    in_groups(node, graph, groups, (scale, bias), node.number(4, "eps")?.unwrap_or(1e-5))
}

/// `native_group_norm(x, weight, bias, N, C, HxW, group, eps)`: also means and inverse deviations.
pub(super) fn native_group(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let groups = node.int(6, "group", 1)?;
    let (scale, bias) = (node.optional_tensor(1, "weight")?, node.optional_tensor(2, "bias")?);
    in_groups(node, graph, groups, (scale, bias), node.number(7, "eps")?.unwrap_or(1e-5))
}

fn in_groups(
    node: &Node<'_>,
    graph: &mut Graph,
    groups: i64,
    (scale, bias): (Option<Operand>, Option<Operand>),
    epsilon: f64,
) -> Lowered {
    let x = node.tensor(0, "input")?;
    let shape = x.shape().to_vec();
    let grouped = in_channel_groups(graph, &x, groups)?;
    let wide = graph.widen(&grouped)?;
    let axes: Vec<usize> = (2..grouped.rank()).collect();
    let (normal, mean, inverse) = standardize(graph, &wide, &axes, epsilon)?;
    let normal = graph.reshape(&normal, &shape)?;
    let along = |graph: &mut Graph, value: Option<Operand>| -> Accepted<Option<Operand>> {
        value.map(|value| graph.broadcast_axis(&value, &shape, 1)).transpose()
    };
    let (scale, bias) = (along(graph, scale)?, along(graph, bias)?);
    let result = scaled(graph, normal, scale, bias)?;
    let mut results = vec![graph.cast(&result, x.dtype())?];
    for (number, value) in [(1, mean), (2, inverse)] {
        if let Some(Some(ty)) = node.call.types.get(number) {
            let value = graph.cast(&value, ty.dtype)?;
            results.push(graph.reshape(&value, &ty.shape)?);
        }
    }
    Ok(results)
}

/// Exponentials along an axis over their sum, or the logarithms of these.
pub(super) fn softmax(node: &Node<'_>, graph: &mut Graph, is_log: bool) -> Lowered {
    let dtype = node.dtype()?;
    let x = node.operand_as(graph, (0, "self"), dtype)?;
    if x.rank() == 0 {
        let number = if is_log { Scalar::zero(dtype) } else { Scalar::one(dtype) };
        return Ok(vec![Operand::of_scalar(number)]);
    }
    let axes = [node.axis((1, "dim"), -1, x.rank())?];
    let wide = graph.widen(&x)?;
    let (shifted, exp, sum) = shifted_exponentials(graph, &wide, &axes)?;
    let result = match is_log {
        false => over_sum(graph, &exp, &sum)?,
        true => {
            let log = graph.log(&sum)?;
            graph.sub(&shifted, &log)?
        }
    };
    Ok(vec![graph.cast(&result, dtype)?])
}

/// `_weight_norm_interface_backward(grad_w, saved_v, saved_g, saved_norms, dim)`: the gradients of
/// `g v / |v|`, whose norm is over all axes but one.
pub(super) fn weight_backward(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let gradient = node.tensor(0, "grad_w")?;
    let sources = [node.tensor(1, "saved_v")?, node.tensor(2, "saved_g")?];
    let kept = node.axis((4, "dim"), 0, gradient.rank())?;
    let axes: Vec<usize> = (0..gradient.rank()).filter(|&axis| axis != kept).collect();
    gradients(graph, &sources, &gradient, |graph, own| {
        let (v, g) = (graph.widen(&own[0])?, graph.widen(&own[1])?);
        let square = graph.square(&v)?;
        let square = graph.reduce_axes(&square, &axes, Reduction::Sum, true)?;
        let norm = graph.sqrt(&square)?;
        let factor = graph.div(&g, &norm)?;
        let weight = graph.mul(&v, &factor)?;
        graph.cast(&weight, own[0].dtype())
    })
}
