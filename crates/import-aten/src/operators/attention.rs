//! Scaled dot-product attention.

use front::{Accepted, Graph, Operand, attention_weights, product_of_heads, unsupported};
use sym::Expr;
use tensor::{DType, Reduction};

use crate::derivative::gradients;
use crate::node::{Lowered, Node};

/// `scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale,
/// enable_gqa)`
pub(super) fn attention(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let mask = node.optional_tensor(3, "attn_mask")?;
    attend(node, graph, mask, (4, 5))
}

/// `_scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout_p, is_causal, attn_mask,
/// scale)`: also the logarithm of the sum of exponentials of each row.
pub(super) fn flash(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let mask = node.optional_tensor(5, "attn_mask")?;
    attend(node, graph, mask, (3, 4))
}

/// A value `[.., s, d]` as `[b, h, s, d]`: axes in front are one.
fn four_axes(graph: &mut Graph, x: &Operand) -> Accepted<Operand> {
    let shape = x.shape();
    let [lead @ .., places, size] = shape else {
        return Err(unsupported(format!("attention of {} axes", shape.len())));
    };
    let (heads, before) = match lead {
        [before @ .., heads] => (heads.clone(), before.iter().product::<Expr>()),
        [] => (Expr::ONE, Expr::ONE),
    };
    graph.reshape(x, &[before, heads, places.clone(), size.clone()])
}

/// What attention computes besides its operands; places are those of the signature.
struct Attention {
    mask: Option<Operand>,
    is_causal: bool,
    scale: f64,
}

impl Attention {
    fn of(
        node: &Node<'_>,
        mask: Option<Operand>,
        query: &Operand,
        (dropout, causal, scale): (usize, usize, usize),
    ) -> Accepted<Attention> {
        if node.number(dropout, "dropout_p")?.unwrap_or(0.0) != 0.0 {
            return Err(unsupported("elements dropped at random"));
        }
        let size = query.shape().last().and_then(Expr::as_constant).filter(|size| *size > 0);
        let scale = match (node.number(scale, "scale")?, size) {
            (Some(scale), _) => scale,
            (None, Some(size)) => 1.0 / (size as f64).sqrt(),
            (None, None) => return Err(unsupported("heads whose size is not fixed")),
        };
        Ok(Attention { mask, is_causal: node.flag(causal, "is_causal", false)?, scale })
    }

    /// The scores, masked, and whether any is.
    fn scores(
        &self,
        graph: &mut Graph,
        query: &Operand,
        key: &Operand,
    ) -> Accepted<(Operand, bool)> {
        let own = query.shape().to_vec();
        let (query, key) = (four_axes(graph, query)?, four_axes(graph, key)?);
        // Short floats are scaled where the products are summed.
        let query = graph.widen(&query)?;
        let query = graph.mul_number(&query, self.scale)?;
        let key = graph.widen(&key)?;
        let mut scores = product_of_heads(graph, &query, &key, true)?;
        if self.is_causal {
            let plane = scores.shape()[2..].to_vec();
            let row = graph.iota(DType::I64, &plane, 0)?;
            let column = graph.iota(DType::I64, &plane, 1)?;
            let allowed = graph.less_equal(&column, &row)?;
            scores = without(graph, &scores, &allowed)?;
        }
        if let Some(mask) = &self.mask {
            let mask = as_scores(graph, mask, &own, &scores)?;
            scores = match mask.dtype() {
                DType::Bool => without(graph, &scores, &mask)?,
                _ => {
                    let mask = graph.cast(&mask, scores.dtype())?;
                    graph.add(&scores, &mask)?
                }
            };
        }
        Ok((scores, self.is_causal || self.mask.is_some()))
    }

    /// The values weighed by the softmax of scores, in a wide type, of this shape.
    fn weigh(
        graph: &mut Graph,
        (scores, is_masked): &(Operand, bool),
        value: &Operand,
        shape: &[Expr],
    ) -> Accepted<Operand> {
        let weights = attention_weights(graph, scores, *is_masked)?;
        let dtype = value.dtype();
        let value = four_axes(graph, value)?;
        let value = graph.widen(&value)?;
        let result = product_of_heads(graph, &weights, &value, false)?;
        let result = graph.cast(&result, dtype)?;
        graph.reshape(&result, shape)
    }
}

fn attend(
    node: &Node<'_>,
    graph: &mut Graph,
    mask: Option<Operand>,
    (dropout, causal): (usize, usize),
) -> Lowered {
    let (query, key) = (node.tensor(0, "query")?, node.tensor(1, "key")?);
    let attention = Attention::of(node, mask, &query, (dropout, causal, 6))?;
    let scores = attention.scores(graph, &query, &key)?;
    let value = node.tensor(2, "value")?;
    let mut results = vec![Attention::weigh(graph, &scores, &value, node.shape()?)?];
    if let Some(Some(ty)) = node.call.types.get(1) {
        let logarithm = log_sums(graph, &scores.0)?;
        let logarithm = graph.cast(&logarithm, ty.dtype)?;
        results.push(graph.reshape(&logarithm, &ty.shape)?);
    }
    Ok(results)
}

/// `_scaled_dot_product_flash_attention_for_cpu_backward(grad_out, query, key, value, out,
/// logsumexp, dropout_p, is_causal, attn_mask, scale)`: the gradients by query, key and value.
pub(super) fn flash_backward(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let gradient = node.tensor(0, "grad_out")?;
    let sources = [node.tensor(1, "query")?, node.tensor(2, "key")?, node.tensor(3, "value")?];
    let mask = node.optional_tensor(8, "attn_mask")?;
    let attention = Attention::of(node, mask, &sources[0], (6, 7, 9))?;
    gradients(graph, &sources, &gradient, |graph, operands| {
        let scores = attention.scores(graph, &operands[0], &operands[1])?;
        Attention::weigh(graph, &scores, &operands[2], gradient.shape())
    })
}

/// Scores that do not count where a mask does not hold.
fn without(graph: &mut Graph, scores: &Operand, allowed: &Operand) -> Accepted<Operand> {
    let never = graph.number(scores.dtype(), f64::NEG_INFINITY);
    graph.select(allowed, scores, &never)
}

/// A mask that broadcasts to scores of the query's own axes, under the four axes of these.
fn as_scores(
    graph: &mut Graph,
    mask: &Operand,
    query: &[Expr],
    scores: &Operand,
) -> Accepted<Operand> {
    if query.len() == 4 || mask.rank() <= 2 {
        return Ok(mask.clone());
    }
    let keys = scores.shape()[3].clone();
    let own = [&query[..query.len() - 1], &[keys]].concat();
    let mask = graph.broadcast_to(mask, own)?;
    graph.reshape(&mask, scores.shape())
}

/// The logarithm of the sum of exponentials of each row.
fn log_sums(graph: &mut Graph, scores: &Operand) -> Accepted<Operand> {
    let greatest = graph.reduce_axes(scores, &[3], Reduction::Max, true)?;
    let shifted = graph.sub(scores, &greatest)?;
    let exp = graph.exp(&shifted)?;
    let sum = graph.reduce_axes(&exp, &[3], Reduction::Sum, true)?;
    let log = graph.log(&sum)?;
    graph.add(&log, &greatest)
}

/// `_transformer_encoder_layer_fwd(src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight,
/// proj_bias, use_gelu, norm_first, eps, norm_weight_1, norm_bias_1, norm_weight_2, norm_bias_2,
/// ffn_weight_1, ffn_bias_1, ffn_weight_2, ffn_bias_2, mask, mask_type)`: a whole layer of an
/// encoder, its norms in front of its halves or behind them. A mask that holds leaves out.
pub(super) fn encoder_layer(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.tensor(0, "src")?;
    let is_first = node.flag(8, "norm_first", false)?;
    let attended = match is_first {
        true => {
            let normal = norm(node, graph, &x, 10)?;
            heads_of(node, graph, &normal)?
        }
        false => heads_of(node, graph, &x)?,
    };
    let mut x = graph.add(&x, &attended)?;
    if !is_first {
        x = norm(node, graph, &x, 10)?;
    }
    let inner = if is_first { norm(node, graph, &x, 12)? } else { x.clone() };
    let inner = affine(node, graph, &inner, 14)?;
    let inner = match node.flag(7, "use_gelu", false)? {
        true => front::gelu_of(graph, &inner, true)?,
        false => {
            let zero = graph.number(inner.dtype(), 0.0);
            graph.max(&inner, &zero)?
        }
    };
    let inner = affine(node, graph, &inner, 16)?;
    let x = graph.add(&x, &inner)?;
    Ok(vec![if is_first { x } else { norm(node, graph, &x, 12)? }])
}

/// `x @ weight.T + bias`, which are the arguments at a place and behind it.
fn affine(node: &Node<'_>, graph: &mut Graph, x: &Operand, place: usize) -> Accepted<Operand> {
    let weight = node.tensor(place, "weight")?;
    let turned = graph.transpose(&weight, &[1, 0])?;
    let product = front::product(graph, x, &turned)?;
    let bias = node.tensor(place + 1, "bias")?;
    graph.add(&product, &bias)
}

/// The last axis standardised, scaled and shifted by the arguments at a place and behind it.
fn norm(node: &Node<'_>, graph: &mut Graph, x: &Operand, place: usize) -> Accepted<Operand> {
    let epsilon = node.number(9, "eps")?.unwrap_or(1e-5);
    let wide = graph.widen(x)?;
    let (normal, ..) = front::standardize(graph, &wide, &[x.rank() - 1], epsilon)?;
    let (scale, bias) = (node.tensor(place, "weight")?, node.tensor(place + 1, "bias")?);
    let (scale, bias) = (graph.widen(&scale)?, graph.widen(&bias)?);
    let scaled = graph.mul(&normal, &scale)?;
    let result = graph.add(&scaled, &bias)?;
    graph.cast(&result, x.dtype())
}

/// Attention of a value `[b, s, h * d]` to itself, between its two products.
fn heads_of(node: &Node<'_>, graph: &mut Graph, x: &Operand) -> Accepted<Operand> {
    let (width, heads) = (node.int(1, "embed_dim", 0)?, node.int(2, "num_heads", 0)?);
    if x.rank() != 3 || heads < 1 || width < heads || width % heads != 0 {
        return Err(unsupported(format!("{heads} heads of a width of {width}")));
    }
    let size = width / heads;
    let joined = affine(node, graph, x, 3)?;
    let [batch, places, _] = joined.shape() else {
        return Err(unsupported("an input without a batch"));
    };
    let (batch, places) = (batch.clone(), places.clone());
    let mut parts = Vec::new();
    for number in 0..3 {
        let start = Expr::from(number * width);
        let part = graph.slice_axis(&joined, 2, start, 1, Expr::from(width))?;
        let split = [batch.clone(), places.clone(), Expr::from(heads), Expr::from(size)];
        let part = graph.reshape(&part, &split)?;
        parts.push(graph.transpose(&part, &[0, 2, 1, 3])?);
    }
    let query = graph.mul_number(&parts[0], 1.0 / (size as f64).sqrt())?;
    let mut scores = product_of_heads(graph, &query, &parts[1], true)?;
    let mask = node.optional_tensor(18, "mask")?;
    if let Some(mask) = &mask {
        let mask = match (node.int(19, "mask_type", 2)?, mask.rank()) {
            (0, 2) => mask.clone(),
            (1, 2) => {
                graph.reshape(mask, &[batch.clone(), Expr::ONE, Expr::ONE, places.clone()])?
            }
            (2, 4) => mask.clone(),
            (kind, rank) => return Err(unsupported(format!("a mask {kind} of {rank} axes"))),
        };
        let mask = graph.cast(&mask, DType::Bool)?;
        let allowed = graph.map(tensor::ScalarFunction::Not, &[&mask])?;
        scores = without(graph, &scores, &allowed)?;
    }
    let weights = attention_weights(graph, &scores, mask.is_some())?;
    let result = product_of_heads(graph, &weights, &parts[2], false)?;
    let result = graph.transpose(&result, &[0, 2, 1, 3])?;
    let merged = graph.reshape(&result, &[batch, places, Expr::from(width)])?;
    affine(node, graph, &merged, 5)
}
