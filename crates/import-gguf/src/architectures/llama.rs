//! Llama and what is made like it: two residual steps a layer, attention and a gated product, each
//! behind a norm.

use front::{Accepted, Heads, Operand};

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
    write(model, &Parts { norm: |model, x, name| model.norm(x, name), interleaved: true })
}

/// OLMo: Llama with norms without weights, of mean 0 and variance 1.
pub(super) fn olmo(model: &mut Decoder<'_>) -> Accepted<Operand> {
    if model.keys().float("attention.clamp_kqv")?.is_some_and(|bound| bound > 0.0) {
        return Err(model.keys().unsupported("attention.clamp_kqv", "clamped queries and keys"));
    }
    write(model, &Parts { norm: |model, x, _| model.standardised(x), interleaved: true })
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

/// `down(silu(gate(x)) * up(x))`
fn gated(model: &mut Decoder<'_>, x: &Operand, layer: i64) -> Accepted<Operand> {
    if model.keys().optional_extent("expert_count")?.is_some() {
        return Err(model.keys().unsupported("expert_count", "mixtures of experts"));
    }
    let inner = model.shape.inner;
    let gate = model.product(x, &format!("blk.{layer}.ffn_gate"), inner)?;
    let up = model.product(x, &format!("blk.{layer}.ffn_up"), inner)?;
    let bend = model.graph.sigmoid(&gate)?;
    let gate = model.graph.mul(&gate, &bend)?;
    let product = model.graph.mul(&gate, &up)?;
    model.product(&product, &format!("blk.{layer}.ffn_down"), model.shape.width)
}
