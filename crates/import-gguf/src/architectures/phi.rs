//! Phi 3: Llama with queries, keys and values out of one product, and gate and rest out of another.

use front::{Accepted, Heads, Operand};
use sym::Expr;

use crate::decoder::{Decoder, Variation};

pub(super) fn phi3(model: &mut Decoder<'_>) -> Accepted<Operand> {
    let shape = model.shape;
    let variation = Variation { window: shape.window, ..Variation::default() };
    let mut x = model.embedding()?;
    for layer in 0..shape.layers {
        let inner = model.norm(&x, &format!("blk.{layer}.attn_norm"))?;
        let counts = [shape.heads, shape.key_heads, shape.key_heads];
        let sizes = counts.map(|count| count * shape.head);
        let [query, key, value] = parts(model, &inner, &format!("blk.{layer}.attn_qkv"), sizes)?;
        let heads = Heads {
            query: model.heads(&query, counts[0])?,
            key: model.heads(&key, counts[1])?,
            value: model.heads(&value, counts[2])?,
        };
        let step = model.attention(layer, heads, &variation)?;
        let step = model.product(&step, &format!("blk.{layer}.attn_output"), shape.width)?;
        x = model.graph.add(&x, &step)?;
        let inner = model.norm(&x, &format!("blk.{layer}.ffn_norm"))?;
        let [gate, up] = parts(model, &inner, &format!("blk.{layer}.ffn_up"), [shape.inner; 2])?;
        let bend = model.graph.sigmoid(&gate)?;
        let gate = model.graph.mul(&gate, &bend)?;
        let product = model.graph.mul(&gate, &up)?;
        let step = model.product(&product, &format!("blk.{layer}.ffn_down"), shape.width)?;
        x = model.graph.add(&x, &step)?;
    }
    let chosen = model.chosen(&x)?;
    let inner = model.norm(&chosen, "output_norm")?;
    model.logits(&inner)
}

/// A product whose outputs are several values behind each other.
fn parts<const N: usize>(
    model: &mut Decoder<'_>,
    x: &Operand,
    name: &str,
    sizes: [i64; N],
) -> Accepted<[Operand; N]> {
    let all = model.product(x, name, sizes.iter().sum())?;
    let mut first = 0;
    let mut results = sizes.map(|_| all.clone());
    for (result, size) in results.iter_mut().zip(sizes) {
        *result = model.graph.slice_axis(&all, 1, Expr::from(first), 1, Expr::from(size))?;
        first += size;
    }
    Ok(results)
}
