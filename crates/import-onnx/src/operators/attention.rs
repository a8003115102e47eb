//! Attention and rotary embeddings, composed of contractions and scalar functions.
//!
//! Shapes are written with `b` for the batch, `h` for heads, `q` and `k` for places in the queries
//! and keys, `d` for the size of a head.

use front::{
    Accepted, Graph, Operand, attention_weights, gather_axis, product_of_heads, rotated,
    shape_error, type_error,
};
use sym::Expr;
use tensor::{DType, Scalar};

use super::Lowered;
use crate::importer::Importer;
use crate::node::{Node, attribute_error};

/// `[b, s, h * d]` as `[b, h, s, d]`.
pub(super) fn split_heads(graph: &mut Graph, x: &Operand, heads: i64) -> Accepted<Operand> {
    let [batch, places, width] = x.shape() else {
        return Err(shape_error(format!("an input of rank {}, not 3 or 4", x.rank())));
    };
    if heads < 1 || !width.divisible_by(heads) {
        let width = graph.builder.text(width);
        return Err(shape_error(format!("a width of {width} does not fall into {heads} heads")));
    }
    let size = width.floor_div(&Expr::from(heads));
    let shape = [batch.clone(), places.clone(), Expr::from(heads), size];
    let split = graph.reshape(x, &shape)?;
    graph.transpose(&split, &[0, 2, 1, 3])
}

/// `[b, h, s, d]` as `[b, s, h * d]`.
pub(super) fn merge_heads(graph: &mut Graph, x: &Operand) -> Accepted<Operand> {
    let turned = graph.transpose(x, &[0, 2, 1, 3])?;
    let shape = turned.shape().to_vec();
    graph.reshape(&turned, &[shape[0].clone(), shape[1].clone(), &shape[2] * &shape[3]])
}

/// The operands of attention, each `[b, h, s, d]`.
struct Operands {
    query: Operand,
    key: Operand,
    value: Operand,
    /// How many keys precede those of this call.
    past: Expr,
}

fn operands(node: &Node<'_>, graph: &mut Graph) -> Accepted<Operands> {
    let heads = |index: usize, attribute: &str, graph: &mut Graph| {
        let x = node.input(index)?;
        match x.rank() {
            4 => Ok(x.clone()),
            _ => split_heads(graph, x, node.int(attribute, 0)?),
        }
    };
    let query = heads(0, "q_num_heads", graph)?;
    let mut key = heads(1, "kv_num_heads", graph)?;
    let mut value = heads(2, "kv_num_heads", graph)?;
    let mut past = Expr::ZERO;
    if let (Some(past_key), Some(past_value)) = (node.optional(4), node.optional(5)) {
        if past_key.rank() != 4 || past_value.rank() != 4 {
            return Err(shape_error("the past keys and values must have four axes"));
        }
        past = past_key.shape()[2].clone();
        key = graph.concat(2, &[past_key.clone(), key])?;
        value = graph.concat(2, &[past_value.clone(), value])?;
    }
    Ok(Operands { query, key, value, past })
}

/// What is added to the scores, and which scores count at all.
#[derive(Default)]
struct Mask {
    bias: Option<Operand>,
    allowed: Option<Operand>,
}

impl Mask {
    fn allow(&mut self, graph: &mut Graph, more: Operand) -> Accepted<()> {
        self.allowed = Some(match &self.allowed {
            Some(allowed) => graph.and(allowed, &more)?,
            None => more,
        });
        Ok(())
    }
}

fn mask(node: &Node<'_>, graph: &mut Graph, operands: &Operands) -> Accepted<Mask> {
    let mut result = Mask::default();
    let (queries, keys) = (operands.query.shape()[2].clone(), operands.key.shape()[2].clone());
    if let Some(given) = node.optional(3) {
        let given = widened(graph, given, &keys)?;
        match given.dtype() {
            DType::Bool => result.allowed = Some(given),
            _ => result.bias = Some(given),
        }
    }
    let (left, right) = (node.int("left_window_size", -1)?, node.int("right_window_size", -1)?);
    if left < -1 || right < -1 {
        return Err(attribute_error("left_window_size", "a window is -1 or not negative"));
    }
    let causal = node.flag("is_causal", false)?;
    let shape = [queries.clone(), keys];
    let place = graph.iota(DType::I64, &shape, 1)?;
    let valid = match node.optional(6) {
        Some(valid) => {
            let column = [valid.shape()[..].to_vec(), vec![Expr::ONE; 3]].concat();
            let valid = graph.cast(valid, DType::I64)?;
            Some(graph.reshape(&valid, &column)?)
        }
        None => None,
    };
    if causal || left >= 0 || right >= 0 {
        let offset = match &valid {
            Some(valid) => {
                let queries = graph.dimension(queries);
                graph.sub(valid, &queries)?
            }
            None => graph.dimension(operands.past.clone()),
        };
        let row = graph.iota(DType::I64, &shape, 0)?;
        let own = graph.add(&row, &offset)?;
        if causal {
            let before = graph.less_equal(&place, &own)?;
            result.allow(graph, before)?;
        }
        if left >= 0 {
            let first = graph.sub(&own, &Operand::of_scalar(Scalar::i64(left)))?;
            let inside = graph.greater_equal(&place, &first)?;
            result.allow(graph, inside)?;
        }
        if right >= 0 {
            let last = graph.add(&own, &Operand::of_scalar(Scalar::i64(right)))?;
            let inside = graph.less_equal(&place, &last)?;
            result.allow(graph, inside)?;
        }
    }
    if let Some(valid) = &valid {
        let inside = graph.less(&place, valid)?;
        result.allow(graph, inside)?;
    }
    Ok(result)
}

/// A mask whose last axis may be short of keys: those it leaves out do not count.
fn widened(graph: &mut Graph, mask: &Operand, keys: &Expr) -> Accepted<Operand> {
    let Some(last) = mask.shape().last() else { return Ok(mask.clone()) };
    let missing = keys - last;
    if last.is_one() || missing.is_zero() || graph.builder.bounds(&missing).0 < 0 {
        return Ok(mask.clone());
    }
    let fill = Operand::of_scalar(Scalar::lowest(mask.dtype()));
    let none = vec![Expr::ZERO; mask.rank()];
    let mut high = none.clone();
    high[mask.rank() - 1] = missing;
    graph.pad(mask, &fill, &none, &high, &vec![0; mask.rank()])
}

/// Scaled dot-product attention, with masks, caches, windows and groups of heads.
pub(super) fn attention(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let merged = node.input(0)?.rank() == 3;
    let operands = operands(node, graph)?;
    let dtype = operands.query.dtype();
    let scale = match operands.query.shape()[3].as_constant() {
        Some(size) if !node.has("scale") && size > 0 => 1.0 / (size as f64).sqrt(),
        None if !node.has("scale") => return Err(node.not_fixed(0, "size of a head")),
        _ => node.float("scale", 1.0)?,
    };
    // Short floats might overflow: both operands are scaled by the root.
    let mut scores = if dtype.bits() < 32 {
        let query = graph.mul_number(&operands.query, scale.sqrt())?;
        let key = graph.mul_number(&operands.key, scale.sqrt())?;
        product_of_heads(graph, &query, &key, true)?
    } else {
        let query = graph.mul_number(&operands.query, scale)?;
        product_of_heads(graph, &query, &operands.key, true)?
    };
    let mode = node.int("qk_matmul_output_mode", 0)?;
    let mut stages = vec![scores.clone()];
    let cap = node.float("softcap", 0.0)?;
    if cap > 0.0 {
        let scaled = graph.mul_number(&scores, 1.0 / cap)?;
        let bent = graph.tanh(&scaled)?;
        scores = graph.mul_number(&bent, cap)?;
    }
    stages.push(scores.clone());
    let mask = mask(node, graph, &operands)?;
    if let Some(bias) = &mask.bias {
        let bias = graph.cast(bias, dtype)?;
        scores = graph.add(&scores, &bias)?;
    }
    if let Some(allowed) = &mask.allowed {
        let never = graph.number(dtype, f64::NEG_INFINITY);
        scores = graph.select(allowed, &scores, &never)?;
    }
    stages.push(scores.clone());
    let wide = node.dtype("softmax_precision", dtype)?;
    let is_masked = mask.bias.is_some() || mask.allowed.is_some();
    let scores = graph.cast(&scores, wide)?;
    let weights = attention_weights(graph, &scores, is_masked)?;
    let weights = graph.cast(&weights, dtype)?;
    stages.push(weights.clone());
    let mut result = product_of_heads(graph, &weights, &operands.value, false)?;
    if merged {
        result = merge_heads(graph, &result)?;
    }
    let stage = usize::try_from(mode).ok().and_then(|mode| stages.get(mode).cloned());
    let stage =
        stage.ok_or_else(|| attribute_error("qk_matmul_output_mode", "it is not 0 to 3"))?;
    Ok(vec![result, operands.key, operands.value, stage])
}

/// `FlexAttention`: graphs of the model change scores and weights.
pub(super) fn flex(node: &Node<'_>, importer: &mut Importer<'_>) -> Lowered {
    let [query, key, value] = [0, 1, 2].map(|index| node.input(index).cloned());
    let (query, key, value) = (query?, key?, value?);
    let operands = [&query, &key, &value];
    if operands.iter().any(|operand| operand.list().is_some() || !operand.dtype().is_float()) {
        return Err(type_error("queries, keys and values must be tensors of floats"));
    }
    if operands.iter().any(|operand| operand.rank() != 4) {
        return Err(shape_error("queries, keys and values must have four axes"));
    }
    let dtype = query.dtype();
    let scale = match query.shape()[3].as_constant() {
        Some(size) if !node.has("scale") && size > 0 => 1.0 / (size as f64).sqrt(),
        None if !node.has("scale") => return Err(node.not_fixed(0, "size of a head")),
        _ => node.float("scale", 1.0)?,
    };
    let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let wide = node.dtype("softmax_precision", wide)?;
    let graph = &mut importer.graph;
    let (query, key) =
        (graph.mul_number(&query, scale.sqrt())?, graph.mul_number(&key, scale.sqrt())?);
    let scores = product_of_heads(graph, &query, &key, true)?;
    let mut scores = graph.cast(&scores, wide)?;
    scores = modified(node, importer, "score_mod", scores)?;
    let probabilities = attention_weights(&mut importer.graph, &scores, true)?;
    let probabilities = modified(node, importer, "prob_mod", probabilities)?;
    let graph = &mut importer.graph;
    let value = graph.cast(&value, wide)?;
    let probabilities = graph.cast(&probabilities, wide)?;
    let result = product_of_heads(graph, &probabilities, &value, false)?;
    Ok(vec![graph.cast(&result, dtype)?])
}

/// A value through a graph that an attribute holds, if it is there.
fn modified(
    node: &Node<'_>,
    importer: &mut Importer<'_>,
    name: &str,
    value: Operand,
) -> Accepted<Operand> {
    if !node.has(name) {
        return Ok(value);
    }
    let graph = node.graph(name)?;
    if graph.input.len() != 1 || graph.output.len() != 1 {
        return Err(attribute_error(name, "it must have one input and one output"));
    }
    let shape = value.shape().to_vec();
    let mut results = importer.inline_with(graph, &[value])?;
    let result = results.pop().ok_or_else(|| attribute_error(name, "it has no output"))?;
    importer.graph.refine(&result, &shape)
}

/// Pairs of elements of each head rotated by the angle of the token's place.
pub(super) fn rotary_embedding(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let input = node.input(0)?;
    let merged = input.rank() == 3;
    let x = match input.rank() {
        4 => input.clone(),
        _ => split_heads(graph, input, node.int("num_heads", 0)?)?,
    };
    let size = x.shape()[3].as_constant();
    let size = size.ok_or_else(|| node.not_fixed(0, "size of a head"))?;
    let rotated_size = match node.int("rotary_embedding_dim", 0)? {
        0 => size,
        part => part,
    };
    check_rotated(rotated_size, size)?;
    // Sines and cosines: [b, 1, s, rotated / 2].
    let angle = |index: usize, graph: &mut Graph| -> Accepted<Operand> {
        let mut cache = node.input(index)?.clone();
        if let Some(places) = node.optional(3) {
            let places = graph.cast(places, DType::I64)?;
            cache = gather_axis(graph, &cache, 0, &places)?;
        }
        let [batch, places, width] = cache.shape() else {
            return Err(shape_error(format!("angles of rank {}", cache.rank())));
        };
        let shape = [batch.clone(), Expr::ONE, places.clone(), width.clone()];
        graph.reshape(&cache, &shape)
    };
    let angles = (angle(1, graph)?, angle(2, graph)?);
    let interleaved = node.flag("interleaved", false)?;
    let result = rotated(graph, &x, angles, rotated_size, interleaved)?;
    Ok(vec![if merged { merge_heads(graph, &result)? } else { result }])
}

/// Refuses a number of rotated elements that is odd or more than a head has.
pub(super) fn check_rotated(rotated: i64, size: i64) -> Accepted<()> {
    if !(2..=size).contains(&rotated) || rotated % 2 != 0 {
        return Err(shape_error(format!("{rotated} rotated elements of {size}")));
    }
    Ok(())
}
