//! Random numbers, from explicit keys: the same on every run. A node without a seed has one of its
//! own, by its place among the random nodes of the model.

use front::{Accepted, Graph, Operand, shape_error};
use graph::Op;
use sym::Expr;
use tensor::{DType, Scalar, ScalarFunction as F};

use super::Lowered;
use crate::node::Node;

/// Mixed into seeds that models do not give.
const OWN_SEED: u64 = 0x7469_6c65_7772_6967;

/// The seed of a node. `draw` tells apart what one node draws.
fn key(node: &Node<'_>, graph: &mut Graph, draw: u64) -> Accepted<Operand> {
    let seed = match node.has("seed") {
        // ONNX's seeds are floats (of dropout integers); their bits are as good as their values.
        true => match node.int("seed", 0) {
            Ok(seed) => seed as u64,
            Err(_) => node.float("seed", 0.0)?.to_bits(),
        },
        false => {
            graph.random_nodes += u64::from(draw == 0);
            OWN_SEED ^ graph.random_nodes << 32
        }
    };
    Ok(Operand::of_scalar(Scalar::from_bits(DType::U64, seed.wrapping_add(draw))))
}

/// Numbers from 0 up to, but not including, 1.
fn uniform(
    node: &Node<'_>,
    graph: &mut Graph,
    shape: &[Expr],
    dtype: DType,
    draw: u64,
) -> Accepted<Operand> {
    graph.check_size(shape)?;
    let key = key(node, graph, draw)?;
    let bits = graph.primitive(Op::RandomBits { shape: shape.into() }, &[&key])?;
    // As many bits as a mantissa holds.
    let kept = if dtype == DType::F64 { 53 } else { 24 };
    let amount = Operand::of_scalar(Scalar::from_bits(DType::U64, 64 - kept));
    let top = graph.map(F::Shr, &[&bits, &amount])?;
    let number = graph.cast(&top, dtype)?;
    graph.mul_number(&number, 0.5f64.powi(kept as i32))
}

/// Standard normal numbers, by the method of Box and Muller.
fn normal(node: &Node<'_>, graph: &mut Graph, shape: &[Expr], dtype: DType) -> Accepted<Operand> {
    let radius = uniform(node, graph, shape, dtype, 0)?;
    let angle = uniform(node, graph, shape, dtype, 1)?;
    // From above 0 up to 1, of which there is a logarithm.
    let radius = graph.neg(&radius)?;
    let radius = graph.add_number(&radius, 1.0)?;
    let radius = graph.log(&radius)?;
    let radius = graph.mul_number(&radius, -2.0)?;
    let radius = graph.sqrt(&radius)?;
    let angle = graph.mul_number(&angle, std::f64::consts::TAU)?;
    let cosine = graph.map(F::Cos, &[&angle])?;
    graph.mul(&radius, &cosine)
}

/// The type in which numbers of a type are drawn.
fn drawn(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

/// The type and shape that are asked for: by attributes, or to be like the input.
fn wanted(node: &Node<'_>) -> Accepted<(DType, Vec<Expr>)> {
    if let Some(like) = node.optional(0) {
        let default = if like.dtype().is_float() { like.dtype() } else { DType::F32 };
        return Ok((node.dtype("dtype", default)?, like.shape().to_vec()));
    }
    let shape = node.ints("shape")?.unwrap_or_default();
    if shape.iter().any(|&extent| extent < 0) {
        return Err(shape_error(format!("a shape {shape:?}")));
    }
    Ok((node.dtype("dtype", DType::F32)?, shape.into_iter().map(Expr::from).collect()))
}

/// `RandomUniform` and `RandomUniformLike`.
pub(super) fn random_uniform(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (dtype, shape) = wanted(node)?;
    let (low, high) = (node.float("low", 0.0)?, node.float("high", 1.0)?);
    let unit = uniform(node, graph, &shape, drawn(dtype), 0)?;
    let scaled = graph.mul_number(&unit, high - low)?;
    let moved = graph.add_number(&scaled, low)?;
    Ok(vec![graph.cast(&moved, dtype)?])
}

/// `RandomNormal` and `RandomNormalLike`.
pub(super) fn random_normal(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (dtype, shape) = wanted(node)?;
    let (mean, scale) = (node.float("mean", 0.0)?, node.float("scale", 1.0)?);
    let unit = normal(node, graph, &shape, drawn(dtype))?;
    let scaled = graph.mul_number(&unit, scale)?;
    let moved = graph.add_number(&scaled, mean)?;
    Ok(vec![graph.cast(&moved, dtype)?])
}

/// `Bernoulli`: 1 with the probability that the input says.
pub(super) fn bernoulli(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let dtype = node.dtype("dtype", x.dtype())?;
    let wide = drawn(x.dtype());
    let probability = graph.cast(x, wide)?;
    let unit = uniform(node, graph, x.shape(), wide, 0)?;
    let holds = graph.less(&unit, &probability)?;
    Ok(vec![graph.cast(&holds, dtype)?])
}

/// `Multinomial`: classes drawn by their unnormalised logarithms of probability, `[batch,
/// classes]`: the greatest of the logarithms, each with Gumbel noise.
pub(super) fn multinomial(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let [batch, classes] = x.shape() else {
        return Err(shape_error(format!("an input of rank {}, not 2", x.rank())));
    };
    let count = node.int("sample_size", 1)?;
    if !(1..1 << 31).contains(&count) {
        return Err(shape_error(format!("{count} samples")));
    }
    let dtype = node.dtype("dtype", DType::I32)?;
    let shape = [batch.clone(), Expr::from(count), classes.clone()];
    let unit = uniform(node, graph, &shape, DType::F32, 0)?;
    let unit = graph.neg(&unit)?;
    let unit = graph.add_number(&unit, 1.0)?;
    let noise = graph.log(&unit)?;
    let noise = graph.neg(&noise)?;
    let noise = graph.log(&noise)?;
    let logs = graph.cast(x, DType::F32)?;
    let logs = graph.broadcast(&logs, &shape, &[0, 2])?;
    let noisy = graph.sub(&logs, &noise)?;
    let op = Op::ArgReduce { axis: 2, greatest: true, last: false };
    let drawn = graph.primitive(op, &[&noisy])?;
    Ok(vec![graph.cast(&drawn, dtype)?])
}

/// What `Dropout` does in training: the result, and which elements stayed.
pub(super) fn drop(
    node: &Node<'_>,
    graph: &mut Graph,
    x: &Operand,
    ratio: f64,
) -> Accepted<(Operand, Operand)> {
    let wide = drawn(x.dtype());
    let unit = uniform(node, graph, x.shape(), wide, 0)?;
    let ratio_value = graph.number(wide, ratio);
    let stays = graph.greater_equal(&unit, &ratio_value)?;
    let scaled = graph.mul_number(x, 1.0 / (1.0 - ratio))?;
    let zero = graph.number(x.dtype(), 0.0);
    Ok((graph.select(&stays, &scaled, &zero)?, stays))
}
