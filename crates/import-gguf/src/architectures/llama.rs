//! Llama and what is made like it: two residual steps a layer, attention and a gated product, each
//! behind a norm.

use front::{Accepted, Graph, Heads, Operand};
use sym::Expr;
use tensor::{DType, Reduction};

use crate::decoder::{Decoder, Variation};

/// What differs between models that are made like Llama.
struct Parts {
    /// How the input of a step is normalised.
    norm: fn(&mut Decoder<'_>, &Operand, &str) -> Accepted<Operand>,
    /// Whether the pairs that are rotated together are neighbours.
    interleaved: bool,
}

/// Llama: norms by root mean squares, rotated pairs that are neighbours. Granite differs by factors
/// that keys say, which are 1 elsewhere.
pub(super) fn llama(model: &mut Decoder<'_>) -> Accepted<Operand> {
    let interleaved = model.has_neighbours();
    write(model, &Parts { norm: |model, x, name| model.norm(x, name), interleaved })
}

/// OLMo: Llama with norms without weights, of mean 0 and variance 1.
pub(super) fn olmo(model: &mut Decoder<'_>) -> Accepted<Operand> {
    if model.keys().float("attention.clamp_kqv")?.is_some_and(|bound| bound > 0.0) {
        return Err(model.keys().unsupported("attention.clamp_kqv", "clamped queries and keys"));
    }
    let interleaved = model.has_neighbours();
    write(model, &Parts { norm: |model, x, _| model.standardised(x), interleaved })
}

/// Qwen 2 and 3: the pairs that are rotated together are half a head apart. Biases and norms of
/// heads are there where the file has them.
pub(super) fn qwen(model: &mut Decoder<'_>) -> Accepted<Operand> {
    write(model, &Parts { norm: |model, x, name| model.norm(x, name), interleaved: false })
}

fn write(model: &mut Decoder<'_>, parts: &Parts) -> Accepted<Operand> {
    let keys = model.keys();
    let residual = keys.factor("residual_scale")?;
    let scale = keys.float("attention.scale")?.filter(|scale| *scale != 0.0);
    let (embedding, logits) = (keys.factor("embedding_scale")?, keys.factor("logit_scale")?);
    let window = model.shape.window;
    let variation = Variation { interleaved: parts.interleaved, scale, cap: 0.0, window };
    let mut x = model.embedding()?;
    x = scaled(model, &x, embedding)?;
    for layer in 0..model.shape.layers {
        let inner = (parts.norm)(model, &x, &format!("blk.{layer}.attn_norm"))?;
        let step = attention(model, &inner, layer, &variation)?;
        let step = scaled(model, &step, residual)?;
        x = model.graph.add(&x, &step)?;
        let inner = (parts.norm)(model, &x, &format!("blk.{layer}.ffn_norm"))?;
        let step = gated(model, &inner, layer)?;
        let step = scaled(model, &step, residual)?;
        x = model.graph.add(&x, &step)?;
    }
    let chosen = model.chosen(&x)?;
    let inner = (parts.norm)(model, &chosen, "output_norm")?;
    let result = model.logits(&inner)?;
    scaled(model, &result, 1.0 / logits)
}

fn scaled(model: &mut Decoder<'_>, x: &Operand, factor: f64) -> Accepted<Operand> {
    if factor == 1.0 { Ok(x.clone()) } else { model.graph.mul_number(x, factor) }
}

/// Attention with its four products, and norms of heads where the file has them.
pub(super) fn attention(
    model: &mut Decoder<'_>,
    x: &Operand,
    layer: i64,
    variation: &Variation,
) -> Accepted<Operand> {
    let (heads, key_heads, head) = (model.shape.heads, model.shape.key_heads, model.shape.head);
    let mut of = |name: &str, count: i64| {
        let name = format!("blk.{layer}.{name}");
        let flat = model.product(x, &name, count * head)?;
        let heads = model.heads(&flat, count)?;
        let norm = format!("{name}_norm");
        if model.has(&format!("{norm}.weight")) { model.norm(&heads, &norm) } else { Ok(heads) }
    };
    let (query, key) = (of("attn_q", heads)?, of("attn_k", key_heads)?);
    let value = of("attn_v", key_heads)?;
    let result = model.attention(layer, Heads { query, key, value }, variation)?;
    model.product(&result, &format!("blk.{layer}.attn_output"), model.shape.width)
}

/// `down(silu(gate(x)) * up(x))`, or that of experts, where the model has such.
fn gated(model: &mut Decoder<'_>, x: &Operand, layer: i64) -> Accepted<Operand> {
    if let Some(experts) = model.shape.experts {
        return mixture(model, x, layer, experts);
    }
    bent(model, x, |model, x, part, outputs| {
        model.product(x, &format!("blk.{layer}.{part}"), outputs)
    })
}

/// `down(silu(gate(x)) * up(x))` with products by their names and outputs.
fn bent(
    model: &mut Decoder<'_>,
    x: &Operand,
    product: impl Fn(&mut Decoder<'_>, &Operand, &str, i64) -> Accepted<Operand>,
) -> Accepted<Operand> {
    let (inner, width) = (model.shape.inner, model.shape.width);
    let gate = product(model, x, "ffn_gate", inner)?;
    let up = product(model, x, "ffn_up", inner)?;
    let bend = model.graph.sigmoid(&gate)?;
    let gate = model.graph.mul(&gate, &bend)?;
    let both = model.graph.mul(&gate, &up)?;
    product(model, &both, "ffn_down", width)
}

/// The gated products of `count` experts, each times a token's share of it: the softmax of the
/// `used` greatest scores of the token, nothing for the others. All are computed for all tokens.
fn mixture(
    model: &mut Decoder<'_>,
    x: &Operand,
    layer: i64,
    (count, used): (i64, i64),
) -> Accepted<Operand> {
    let scores = model.product(x, &format!("blk.{layer}.ffn_gate_inp"), count)?;
    let shares = shares(&mut model.graph, &scores, count, used)?;
    let mut sum: Option<Operand> = None;
    for expert in 0..count {
        let step = bent(model, x, |model, x, part, outputs| {
            model.expert_product(x, (layer, part), (expert, count), outputs)
        })?;
        let graph = &mut model.graph;
        let share = graph.slice_axis(&shares, 1, Expr::from(expert), 1, Expr::ONE)?;
        let step = graph.mul(&step, &share)?;
        sum = Some(match sum {
            None => step,
            Some(before) => graph.add(&before, &step)?,
        });
    }
    sum.ok_or_else(|| front::shape_error("a mixture of no experts"))
}

/// Of each row of scores `[t, e]` the softmax of the greatest few, 0 for the others; of equal ones
/// the first are the greatest.
fn shares(graph: &mut Graph, scores: &Operand, count: i64, used: i64) -> Accepted<Operand> {
    let rows = scores.shape()[0].clone();
    let own = graph.reshape(scores, &[rows.clone(), Expr::from(count), Expr::ONE])?;
    let other = graph.reshape(scores, &[rows, Expr::ONE, Expr::from(count)])?;
    let square = [Expr::from(count), Expr::from(count)];
    let (own_place, other_place) =
        (graph.iota(DType::I64, &square, 0)?, graph.iota(DType::I64, &square, 1)?);
    let earlier = graph.greater(&own_place, &other_place)?;
    let greater = graph.greater(&other, &own)?;
    let equal = graph.equal(&other, &own)?;
    let ahead = graph.and(&equal, &earlier)?;
    let before = graph.or(&greater, &ahead)?;
    let before = graph.cast(&before, DType::F32)?;
    let rank = graph.reduce_axes(&before, &[2], Reduction::Sum, false)?;
    let most = graph.number(DType::F32, used as f64);
    let is_used = graph.greater(&most, &rank)?;
    let none = graph.number(DType::F32, f64::NEG_INFINITY);
    let kept = graph.select(&is_used, scores, &none)?;
    let (_, shares, sum) = front::shifted_exponentials(graph, &kept, &[1])?;
    front::over_sum(graph, &shares, &sum)
}
