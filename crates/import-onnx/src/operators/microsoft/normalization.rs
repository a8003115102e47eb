//! Normalisations of rows, with what is added before and gated behind.

use front::{Accepted, Graph, Operand, shape_error};
use sym::Expr;
use tensor::{DType, Reduction};

use super::Lowered;
use super::elementwise::add_vector;
use crate::node::{Node, attribute_error, unsupported};
use crate::operators::activations::swish_of;
use front::{gather_axis, over_root_mean_square, standardize};

/// The last axis of a value.
fn last_axis(x: &Operand) -> Accepted<usize> {
    x.rank().checked_sub(1).ok_or_else(|| shape_error("a value without axes has no rows"))
}

/// `SimplifiedLayerNormalization`: the last axes over the root of their mean square, scaled. It
/// stands in ONNX's own domain, though the specification does not have it.
pub(super) fn simplified(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let axes: Vec<usize> = (node.axis("axis", -1, x.rank())?..x.rank()).collect();
    let wide = graph.widen(x)?;
    let epsilon = node.float("epsilon", 1e-5)?;
    let (normal, inverse) = over_root_mean_square(graph, &wide, &axes, epsilon)?;
    let scale = graph.cast(node.input(1)?, wide.dtype())?;
    let scaled = graph.mul(&normal, &scale)?;
    let dtype = node.input(1)?.dtype();
    Ok(vec![graph.cast(&scaled, dtype)?, inverse])
}

/// `input + skip (+ bias)` in the type in which sums are formed; `skip` may lack the batch.
fn with_skip(node: &Node<'_>, graph: &mut Graph, bias: usize) -> Accepted<Operand> {
    let (x, skip) = (node.input(0)?, node.input(1)?);
    let (wide, skip) = (graph.widen(x)?, graph.widen(skip)?);
    let skip = graph.broadcast_to(&skip, x.shape())?;
    let sum = graph.add(&wide, &skip)?;
    let bias = node.optional(bias).map(|bias| graph.widen(bias)).transpose()?;
    add_vector(graph, &sum, bias.as_ref())
}

/// `SkipLayerNormalization`; output 3 is the sum that is normalised.
pub(super) fn skip(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let axis = last_axis(x)?;
    let sum = with_skip(node, graph, 4)?;
    let epsilon = node.float("epsilon", 1e-12)?;
    let (normal, mean, inverse) = standardize(graph, &sum, &[axis], epsilon)?;
    let gamma = graph.widen(node.input(2)?)?;
    let scaled = graph.mul(&normal, &gamma)?;
    let beta = node.optional(3).map(|beta| graph.widen(beta)).transpose()?;
    let result = add_vector(graph, &scaled, beta.as_ref())?;
    let dtype = x.dtype();
    Ok(vec![graph.cast(&result, dtype)?, mean, inverse, graph.cast(&sum, dtype)?])
}

/// `SkipSimplifiedLayerNormalization`: as [`skip`], without the mean.
pub(super) fn skip_simplified(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let axis = last_axis(x)?;
    let sum = with_skip(node, graph, 3)?;
    let epsilon = node.float("epsilon", 1e-12)?;
    let (normal, inverse) = over_root_mean_square(graph, &sum, &[axis], epsilon)?;
    let gamma = graph.widen(node.input(2)?)?;
    let scaled = graph.mul(&normal, &gamma)?;
    let dtype = x.dtype();
    let mean = graph.mean(&sum, &[axis], true)?;
    Ok(vec![graph.cast(&scaled, dtype)?, mean, inverse, graph.cast(&sum, dtype)?])
}

/// Rows of a table, at indices that count from its end where they are negative.
fn rows(graph: &mut Graph, table: &Operand, index: &Operand) -> Accepted<Operand> {
    let index = graph.cast(index, DType::I64)?;
    gather_axis(graph, table, 0, &index)
}

/// Three tables of embeddings and what is done with the sum of their rows.
pub(super) struct Embedding<'o> {
    pub(super) words: &'o Operand,
    pub(super) positions: &'o Operand,
    pub(super) segments: Option<&'o Operand>,
    pub(super) gamma: &'o Operand,
    pub(super) beta: &'o Operand,
    /// Tokens that count.
    pub(super) mask: Option<&'o Operand>,
    pub(super) places: Option<&'o Operand>,
}

/// `EmbedLayerNormalization`: rows of three tables added and normalised, how many tokens of each
/// row of the batch count, and the sum.
pub(super) fn embed(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let embedding = Embedding {
        words: node.input(2)?,
        positions: node.input(3)?,
        segments: node.optional(4),
        gamma: node.input(5)?,
        beta: node.input(6)?,
        mask: node.optional(7),
        places: node.optional(8),
    };
    embedded(node, graph, &embedding)
}

pub(super) fn embedded(node: &Node<'_>, graph: &mut Graph, embedding: &Embedding<'_>) -> Lowered {
    let ids = node.input(0)?;
    let [batch, places] = ids.shape() else {
        return Err(shape_error(format!("tokens of rank {}, not 2", ids.rank())));
    };
    let (batch, places) = (batch.clone(), places.clone());
    if embedding.words.rank() != 2 || embedding.positions.rank() != 2 {
        return Err(shape_error("tables of embeddings must have two axes"));
    }
    let mut sum = rows(graph, embedding.words, ids)?;
    let own = match embedding.places {
        Some(given) => rows(graph, embedding.positions, given)?,
        None => graph.slice_axis(embedding.positions, 0, Expr::ZERO, 1, places)?,
    };
    let own = graph.broadcast_to(&own, sum.shape())?;
    sum = graph.add(&sum, &own)?;
    if let (Some(table), Some(segments)) = (embedding.segments, node.optional(1)) {
        let own = rows(graph, table, segments)?;
        sum = graph.add(&sum, &own)?;
    }
    let wide = graph.widen(&sum)?;
    let (normal, ..) = standardize(graph, &wide, &[2], node.float("epsilon", 1e-12)?)?;
    let gamma = graph.widen(embedding.gamma)?;
    let beta = graph.widen(embedding.beta)?;
    let scaled = graph.mul(&normal, &gamma)?;
    let result = add_vector(graph, &scaled, Some(&beta))?;
    let counts = match embedding.mask {
        Some(mask) => {
            let one = graph.number(mask.dtype(), 1.0);
            let is_one = graph.equal(mask, &one)?;
            let ones = graph.cast(&is_one, DType::I32)?;
            graph.reduce_axes(&ones, &[1], Reduction::Sum, false)?
        }
        None => graph.full(&[batch], tensor::Scalar::zero(DType::I32))?,
    };
    Ok(vec![graph.cast(&result, sum.dtype())?, counts, sum])
}

/// `GatedRMSNorm`: groups of as many elements as the scale has over the root of their mean square,
/// scaled, times an activation of the gate.
pub(super) fn gated(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (x, scale, gate) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let ([lead @ .., width], [size]) = (x.shape(), scale.shape()) else {
        return Err(shape_error("the input needs an axis, the scale just one"));
    };
    let groups = match size.as_constant() {
        Some(size) if size > 0 && width.divisible_by(size) => width.floor_div(&Expr::from(size)),
        _ => return Err(shape_error("the last axis does not fall into groups of the scale")),
    };
    let shape = [lead, &[groups, size.clone()]].concat();
    let grouped = graph.reshape(x, &shape)?;
    let wide = graph.widen(&grouped)?;
    let epsilon = node.float("epsilon", 1e-5)?;
    let (normal, _) = over_root_mean_square(graph, &wide, &[shape.len() - 1], epsilon)?;
    let scale = graph.widen(scale)?;
    let scaled = graph.mul(&normal, &scale)?;
    let scaled = graph.reshape(&scaled, x.shape())?;
    let gate = graph.widen(gate)?;
    let gate = match node.word("activation", &["silu", "swish", "sigmoid"])? {
        "sigmoid" => graph.sigmoid(&gate)?,
        _ => swish_of(graph, &gate, 1.0)?,
    };
    let result = graph.mul(&scaled, &gate)?;
    Ok(vec![graph.cast(&result, x.dtype())?])
}

/// `BranchwiseRMSNorm`: each branch over the root of its mean square, scaled.
pub(super) fn branchwise(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let branches = node.int("num_branches", 0)?;
    let shape = match x.shape() {
        [lead @ .., width] if branches > 0 && width.divisible_by(branches) => {
            let branches = Expr::from(branches);
            [lead, &[branches.clone(), width.floor_div(&branches)]].concat()
        }
        shape if branches == 0 && shape.len() >= 2 => shape.to_vec(),
        _ => return Err(attribute_error("num_branches", "the features do not fall into so many")),
    };
    let axis = shape.len() - 1;
    let grouped = graph.reshape(x, &shape)?;
    let wide = graph.widen(&grouped)?;
    let epsilon = node.float("epsilon", 1e-5)?;
    let (mut normal, _) = over_root_mean_square(graph, &wide, &[axis], epsilon)?;
    if let Some(scale) = node.optional(1) {
        let scale = graph.widen(scale)?;
        let is_flat = scale.rank() == 1 && scale.shape()[0] != shape[axis];
        let scale = if is_flat { graph.reshape(&scale, &shape[axis - 1..])? } else { scale };
        normal = graph.mul(&normal, &scale)?;
    }
    let result = graph.cast(&normal, x.dtype())?;
    Ok(vec![graph.reshape(&result, x.shape())?])
}

/// `EngramGate`: how well normalised keys and queries agree gates a value; the gated value is
/// normalised in turn as output 1.
pub(super) fn engram_gate(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (key, query, value) = (node.input(0)?, node.input(1)?, node.input(2)?);
    if key.rank() != 4 || query.rank() != 4 || value.rank() != 3 {
        return Err(shape_error("keys and queries need four axes, values three"));
    }
    let epsilon = node.float("epsilon", 1e-5)?;
    let normal = |graph: &mut Graph, x: &Operand, scale: &Operand| {
        let wide = graph.widen(x)?;
        let (normal, _) = over_root_mean_square(graph, &wide, &[3], epsilon)?;
        let scale = graph.widen(scale)?;
        graph.mul(&normal, &scale)
    };
    let own_key = normal(graph, key, node.input(3)?)?;
    let own_query = normal(graph, query, node.input(4)?)?;
    let products = graph.mul(&own_key, &own_query)?;
    let sum = graph.reduce_axes(&products, &[3], Reduction::Sum, true)?;
    let size = key.shape()[3].as_constant().ok_or_else(|| node.not_fixed(0, "hidden size"))?;
    let dot = graph.mul_number(&sum, 1.0 / (size as f64).sqrt())?;
    let magnitude = graph.abs(&dot)?;
    let least = graph.number(dot.dtype(), 1e-6);
    let bounded = graph.max(&magnitude, &least)?;
    let root = graph.sqrt(&bounded)?;
    let sign = graph.map(tensor::ScalarFunction::Sign, &[&dot])?;
    let bent = graph.mul(&sign, &root)?;
    let gate = graph.sigmoid(&bent)?;
    let wide = graph.widen(value)?;
    let mut shape = value.shape().to_vec();
    shape.insert(2, Expr::ONE);
    let wide = graph.reshape(&wide, &shape)?;
    let gated = graph.mul(&gate, &wide)?;
    let mut results = vec![graph.cast(&gated, value.dtype())?];
    if node.wants(1) {
        let Some(scale) = node.optional(5) else {
            return Err(unsupported("a normalised value without its scale"));
        };
        let normal = normal(graph, &gated, scale)?;
        results.push(graph.cast(&normal, value.dtype())?);
    }
    Ok(results)
}
