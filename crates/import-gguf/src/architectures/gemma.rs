//! Gemma 2: norms on both sides of each step, scores and logits with a bound, a window in every
//! other layer.

use front::{Accepted, Operand, gelu_of};

use super::llama::attention;
use crate::decoder::{Decoder, Variation};
use crate::file::ModelOrigin;

/// How many layers the one model has whose scores are scaled by the width of a head's share.
const LAYERS_OF_THE_LARGEST: i64 = 46;

/// A norm whose vector is, in safetensors, how much more than 1 it is.
fn norm(model: &mut Decoder<'_>, x: &Operand, name: &str) -> Accepted<Operand> {
    let from = if model.file.origin == ModelOrigin::Safetensors { 1.0 } else { 0.0 };
    model.norm_from(x, name, from)
}

pub(super) fn gemma2(model: &mut Decoder<'_>) -> Accepted<Operand> {
    let shape = model.shape;
    let cap = model.keys().float("attn_logit_softcapping")?.unwrap_or(50.0);
    let bound = model.keys().float("final_logit_softcapping")?.unwrap_or(30.0);
    let implied = (shape.layers == LAYERS_OF_THE_LARGEST)
        .then(|| 1.0 / ((shape.width / shape.heads) as f64).sqrt());
    let scale = model.keys().float("attention.scale")?.or(implied);
    let mut x = model.embedding()?;
    x = model.graph.mul_number(&x, (shape.width as f64).sqrt())?;
    for layer in 0..shape.layers {
        let window = shape.window.filter(|_| layer % 2 == 0);
        let variation = Variation { interleaved: false, scale, cap, window };
        let inner = norm(model, &x, &format!("blk.{layer}.attn_norm"))?;
        let step = attention(model, &inner, layer, &variation)?;
        let step = norm(model, &step, &format!("blk.{layer}.post_attention_norm"))?;
        x = model.graph.add(&x, &step)?;
        let inner = norm(model, &x, &format!("blk.{layer}.ffn_norm"))?;
        let gate = model.product(&inner, &format!("blk.{layer}.ffn_gate"), shape.inner)?;
        let up = model.product(&inner, &format!("blk.{layer}.ffn_up"), shape.inner)?;
        let gate = gelu_of(&mut model.graph, &gate, false)?;
        let product = model.graph.mul(&gate, &up)?;
        let step = model.product(&product, &format!("blk.{layer}.ffn_down"), shape.width)?;
        let step = norm(model, &step, &format!("blk.{layer}.post_ffw_norm"))?;
        x = model.graph.add(&x, &step)?;
    }
    let chosen = model.chosen(&x)?;
    let inner = norm(model, &chosen, "output_norm")?;
    let logits = model.logits(&inner)?;
    if bound <= 0.0 {
        return Ok(logits);
    }
    let part = model.graph.mul_number(&logits, 1.0 / bound)?;
    let bent = model.graph.tanh(&part)?;
    model.graph.mul_number(&bent, bound)
}
