//! Normalisations, composed of reductions and scalar functions.

use front::{
    Accepted, Graph, Operand, in_channel_groups, inverse_deviation, normalize_axes,
    over_root_mean_square, shape_error, standardize, statistics,
};
use graph::IterationSpace;
use sym::Expr;
use tensor::{DType, Reduction, ScalarFunction as F};

use super::Lowered;
use crate::node::{Node, unsupported};

/// A number a channel under the shape of all, where axis 1 counts channels.
fn per_channel(graph: &mut Graph, value: &Operand, shape: &[Expr]) -> Accepted<Operand> {
    graph.broadcast_axis(value, shape, 1)
}

/// `(x - mean) / sqrt(variance + epsilon) * scale + bias` with given statistics of each channel.
pub(super) fn batch(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let is_training = node.flag("training_mode", false)?;
    if !is_training && node.wants(1) {
        return Err(unsupported("outputs of training without its mode"));
    }
    if !node.flag("spatial", true)? {
        return Err(unsupported("statistics for every element, not every channel"));
    }
    let x = node.input(0)?;
    if x.rank() < 2 {
        return Err(shape_error("the input has no axis of channels"));
    }
    let epsilon = node.float("epsilon", 1e-5)?;
    let (mut mean, mut variance) = (node.input(3)?.clone(), node.input(4)?.clone());
    let mut running = Vec::new();
    if is_training {
        let momentum = node.float("momentum", 0.9)?;
        let axes: Vec<usize> = (0..x.rank()).filter(|&axis| axis != 1).collect();
        let wide = graph.widen(x)?;
        let (own_mean, own_variance) = statistics(graph, &wide, &axes)?;
        for (before, own) in [(&mut mean, own_mean), (&mut variance, own_variance)] {
            let own = graph.reshape(&own, before.shape())?;
            let own = graph.cast(&own, before.dtype())?;
            let kept = graph.mul_number(before, momentum)?;
            let added = graph.mul_number(&own, 1.0 - momentum)?;
            running.push(graph.add(&kept, &added)?);
            *before = own;
        }
    }
    let inverse = inverse_deviation(graph, &variance, epsilon)?;
    let inverse = graph.cast(&inverse, x.dtype())?;
    let scale = graph.cast(node.input(1)?, x.dtype())?;
    let mean = graph.cast(&mean, x.dtype())?;
    let bias = graph.cast(node.input(2)?, x.dtype())?;
    // x * factor + shift, where factor and shift depend on the parameters alone.
    let factor = graph.mul(&inverse, &scale)?;
    let centre = graph.mul(&mean, &factor)?;
    let shift = graph.sub(&bias, &centre)?;
    let factor = per_channel(graph, &factor, x.shape())?;
    let shift = per_channel(graph, &shift, x.shape())?;
    let scaled = graph.mul(x, &factor)?;
    let result = graph.add(&scaled, &shift)?;
    Ok([vec![result], running].concat())
}

/// Each channel of each image standardised, then scaled and shifted by channel.
pub(super) fn instance(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    if x.rank() < 2 {
        return Err(shape_error("the input has no axis of channels"));
    }
    let axes: Vec<usize> = (2..x.rank()).collect();
    let wide = graph.widen(x)?;
    let (normal, ..) = standardize(graph, &wide, &axes, node.float("epsilon", 1e-5)?)?;
    let normal = graph.cast(&normal, x.dtype())?;
    let scale = per_channel(graph, node.input(1)?, x.shape())?;
    let bias = per_channel(graph, node.input(2)?, x.shape())?;
    let scaled = graph.mul(&normal, &scale)?;
    Ok(vec![graph.add(&scaled, &bias)?])
}

/// Groups of channels standardised, then scaled and shifted: by channel since version 21, before
/// that by group (or by channel, as some files have it).
pub(super) fn group(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let groups = node.int("num_groups", 0)?;
    let shape = x.shape().to_vec();
    let grouped = in_channel_groups(graph, x, groups)?;
    let wide = graph.widen(&grouped)?;
    let axes: Vec<usize> = (2..grouped.rank()).collect();
    let (mut normal, ..) = standardize(graph, &wide, &axes, node.float("epsilon", 1e-5)?)?;
    normal = graph.cast(&normal, x.dtype())?;
    let mut target = shape.clone();
    if node.version < 21 && node.input(1)?.shape() == [Expr::from(groups)] {
        target = grouped.shape().to_vec();
    } else {
        normal = graph.reshape(&normal, &shape)?;
    }
    let scale = per_channel(graph, node.input(1)?, &target)?;
    let bias = per_channel(graph, node.input(2)?, &target)?;
    let scaled = graph.mul(&normal, &scale)?;
    let result = graph.add(&scaled, &bias)?;
    Ok(vec![graph.reshape(&result, &shape)?])
}

/// The last axes standardised, then scaled and shifted by element. Statistics are outputs 1 and 2.
pub(super) fn layer(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let axes: Vec<usize> = (node.axis("axis", -1, x.rank())?..x.rank()).collect();
    let stash = node.dtype("stash_type", DType::F32)?;
    let wide = graph.cast(x, wider(x.dtype(), stash))?;
    let (normal, mean, inverse) = standardize(graph, &wide, &axes, node.float("epsilon", 1e-5)?)?;
    let normal = graph.cast(&normal, x.dtype())?;
    let mut result = graph.mul(&normal, node.input(1)?)?;
    if let Some(bias) = node.optional(2) {
        result = graph.add(&result, bias)?;
    }
    Ok(vec![result, graph.cast(&mean, stash)?, graph.cast(&inverse, stash)?])
}

/// The last axes divided by the root of their mean square, then scaled by element.
pub(super) fn root_mean_square(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let axes: Vec<usize> = (node.axis("axis", -1, x.rank())?..x.rank()).collect();
    let stash = node.dtype("stash_type", DType::F32)?;
    let wide = graph.cast(x, wider(x.dtype(), stash))?;
    let epsilon = node.float("epsilon", 1e-5)?;
    let (normal, _) = over_root_mean_square(graph, &wide, &axes, epsilon)?;
    let normal = graph.cast(&normal, x.dtype())?;
    Ok(vec![graph.mul(&normal, node.input(1)?)?])
}

fn wider(a: DType, b: DType) -> DType {
    if a.bits() >= b.bits() { a } else { b }
}

/// Each element divided by a power of the sum of squares of the channels around its own.
pub(super) fn local_response(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let size = node.int("size", 0)?;
    let shape = x.shape().to_vec();
    if shape.len() < 2 || !(1..=1 << 20).contains(&size) {
        return Err(shape_error(format!("a window of {size} channels of rank {}", shape.len())));
    }
    let (alpha, beta) = (node.float("alpha", 1e-4)?, node.float("beta", 0.75)?);
    let square = graph.square(x)?;
    let mut low = vec![Expr::ZERO; shape.len()];
    let mut high = low.clone();
    low[1] = Expr::from((size - 1) / 2);
    high[1] = Expr::from(size / 2);
    let zero = graph.number(x.dtype(), 0.0);
    let padded = graph.pad(&square, &zero, &low, &high, &vec![0; shape.len()])?;
    let mut extents = shape.clone();
    extents.push(Expr::from(size));
    let mut index: Vec<Expr> = (0..shape.len()).map(IterationSpace::axis).collect();
    index[1] = &index[1] + IterationSpace::axis(shape.len());
    let space = IterationSpace { extents, parallel: shape.len(), operands: vec![index] };
    let accumulator = graph::accumulator_of(x.dtype());
    let sum = graph.reduce(space, &padded, Reduction::Sum, accumulator)?;
    let sum = graph.cast(&sum, x.dtype())?;
    let scaled = graph.mul_number(&sum, alpha / size as f64)?;
    let base = graph.add_number(&scaled, node.float("bias", 1.0)?)?;
    let exponent = graph.number(x.dtype(), beta);
    let divisor = graph.map(F::Pow, &[&base, &exponent])?;
    Ok(vec![graph.div(x, &divisor)?])
}

/// A value along an axis divided by its norm; where that is zero, the result is.
pub(super) fn lp(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let axes = [node.axis("axis", -1, x.rank())?];
    let norm = match node.int("p", 2)? {
        1 => {
            let magnitude = graph.abs(x)?;
            graph.reduce_axes(&magnitude, &axes, Reduction::Sum, true)?
        }
        2 => {
            let square = graph.square(x)?;
            let sum = graph.reduce_axes(&square, &axes, Reduction::Sum, true)?;
            graph.sqrt(&sum)?
        }
        p => return Err(unsupported(format!("the norm of order {p}"))),
    };
    let zero = graph.number(x.dtype(), 0.0);
    let vanishes = graph.equal(&norm, &zero)?;
    let quotient = graph.div(x, &norm)?;
    Ok(vec![graph.select(&vanishes, &zero, &quotient)?])
}

/// A value along axes with mean 0 and variance 1.
pub(super) fn mean_variance(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let axes = node.ints("axes")?.unwrap_or_else(|| vec![0, 2, 3]);
    let axes = normalize_axes(&axes, x.rank())?;
    let mean = graph.mean(x, &axes, true)?;
    let centred = graph.sub(x, &mean)?;
    let square = graph.square(&centred)?;
    let variance = graph.mean(&square, &axes, true)?;
    let deviation = graph.sqrt(&variance)?;
    let divisor = graph.add_number(&deviation, 1e-9)?;
    Ok(vec![graph.div(&centred, &divisor)?])
}
