//! `GroupQueryAttention`: heads of keys that several heads of queries share, with a cache of keys
//! and values into which those of this call are written where each row of the batch has got to.

use front::{Accepted, Graph, Heads, Operand, Scores, attend, rotated, shape_error};
use graph::Op;
use sym::Expr;
use tensor::{DType, Scalar};

use super::Lowered;
use super::attention::{angles, head_count, scale, widened};
use super::window_cache::WindowCache;
use crate::node::{Node, attribute_error, unsupported};
use crate::operators::attention::{check_rotated, merge_heads, split_heads};
use front::over_root_mean_square;

/// The inputs that come before the cache, as heads.
fn heads(node: &Node<'_>, graph: &mut Graph) -> Accepted<Heads> {
    let (count, shared) = (head_count(node, "num_heads")?, head_count(node, "kv_num_heads")?);
    if count % shared != 0 {
        return Err(attribute_error("kv_num_heads", format!("{count} heads over {shared}")));
    }
    let query = node.input(0)?;
    if query.rank() != 3 {
        return Err(shape_error(format!("queries of rank {}, not 3", query.rank())));
    }
    if let (Some(key), Some(value)) = (node.optional(1), node.optional(2)) {
        let query = split_heads(graph, query, count)?;
        let key = split_heads(graph, key, shared)?;
        return Ok(Heads { query, key, value: split_heads(graph, value, shared)? });
    }
    // Rows hold all heads of queries, then of keys, then of values.
    let all = split_heads(graph, query, count + 2 * shared)?;
    let mut part = |first: i64, extent: i64| {
        graph.slice_axis(&all, 1, Expr::from(first), 1, Expr::from(extent))
    };
    let (query, key) = (part(0, count)?, part(count, shared)?);
    Ok(Heads { query, key, value: part(count + shared, shared)? })
}

/// Refuses what is not computed.
fn check(node: &Node<'_>) -> Accepted<()> {
    for name in ["k_quant_type", "v_quant_type"] {
        if node.string(name, "NONE")? != "NONE" {
            return Err(unsupported("a quantised cache"));
        }
    }
    if node.optional(16).is_some() {
        return Err(unsupported("rows of queries of several lengths"));
    }
    Ok(())
}

/// Heads over the root of their mean square, scaled, where there is a scale.
fn normalized(
    graph: &mut Graph,
    x: &Operand,
    weight: Option<&Operand>,
    epsilon: f64,
) -> Accepted<Operand> {
    let Some(weight) = weight else { return Ok(x.clone()) };
    let wide = graph.widen(x)?;
    let (normal, _) = over_root_mean_square(graph, &wide, &[3], epsilon)?;
    let weight = graph.widen(weight)?;
    let scaled = graph.mul(&normal, &weight)?;
    graph.cast(&scaled, x.dtype())
}

/// Keys or values written into the cache from a place on: one, or one a row of the batch
/// (`[b, 1]`).
pub(super) fn cached(
    graph: &mut Graph,
    past: Option<&Operand>,
    new: &Operand,
    first: &Operand,
    length: &Expr,
) -> Accepted<Operand> {
    let mut shape = new.shape().to_vec();
    let steps = [shape[0].clone(), shape[2].clone()];
    if past.is_none() && *length == shape[2] {
        return Ok(new.clone());
    }
    shape[2] = length.clone();
    let base = match past {
        Some(past) => {
            if past.rank() != 4 || past.dtype() != new.dtype() {
                return Err(shape_error("the cache must have four axes, and the keys' type"));
            }
            let missing = length - &past.shape()[2];
            let fill = Operand::of_scalar(Scalar::zero(new.dtype()));
            let none = vec![Expr::ZERO; 4];
            let mut high = none.clone();
            high[2] = missing;
            let padded = graph.pad(past, &fill, &none, &high, &[0; 4])?;
            graph.refine(&padded, &shape)?
        }
        None => graph.full(&shape, Scalar::zero(new.dtype()))?,
    };
    let index = graph.iota(DType::I64, &steps, 1)?;
    let index = graph.add(&index, first)?;
    let op = Op::Scatter { axes: vec![2], batch: 1, position: 1, reduction: None };
    graph.scatter(&base, new, &[index], op)
}

/// The length of the cache behind this call: the total length, or that of the cache before, where
/// that is greater.
fn cache_length(node: &Node<'_>, graph: &mut Graph, steps: &Expr) -> Accepted<Expr> {
    let total = node.sizes(6, "total length of the sequences", graph)?;
    let [total] = &total[..] else {
        return Err(shape_error(format!("{} total lengths, not one", total.len())));
    };
    let Some(past) = node.optional(3) else { return Ok(total.max(steps)) };
    let Some(before) = past.shape().get(2) else {
        return Err(shape_error("the cache must have four axes"));
    };
    let ranges = |symbol| graph.builder.range(symbol);
    Ok(total.max(before).simplify(&ranges))
}

/// `GroupQueryAttention`.
pub(super) fn group_query(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    check(node)?;
    let mut heads = heads(node, graph)?;
    let (batch, steps) = (heads.query.shape()[0].clone(), heads.query.shape()[2].clone());
    let epsilon = node.float("qk_norm_epsilon", 1e-6)?;
    let own = node.float("q_norm_epsilon", epsilon as f32)?;
    heads.query = normalized(graph, &heads.query, node.optional(14), own)?;
    let own = node.float("k_norm_epsilon", epsilon as f32)?;
    heads.key = normalized(graph, &heads.key, node.optional(15), own)?;

    // The place of each row's first query: none precede those of a prompt, whose rows may be
    // padded.
    let last = graph.cast(node.input(5)?, DType::I64)?;
    let last = graph.reshape(&last, &[batch.clone(), Expr::ONE])?;
    let total = graph.cast(node.input(6)?, DType::I64)?;
    let total = graph.reshape(&total, &[])?;
    let new = graph.dimension(steps.clone());
    let is_prompt = graph.equal(&total, &new)?;
    let one = graph.number(DType::I64, 1.0);
    let count = graph.add(&last, &one)?;
    let before = graph.sub(&count, &new)?;
    let zero = graph.number(DType::I64, 0.0);
    let first = graph.select(&is_prompt, &zero, &before)?;
    let row = graph.iota(DType::I64, &[batch.clone(), steps.clone()], 1)?;
    let places = graph.add(&row, &first)?;
    let window = WindowCache::of(node, graph, [&first, &count], &steps)?;

    if node.flag("do_rotary", false)? {
        let (cosines, sines) = (node.input(7)?, node.input(8)?);
        let own = node.optional(9).unwrap_or(&places);
        let half = cosines.shape().last().and_then(Expr::as_constant);
        let half = half.ok_or_else(|| node.not_fixed(7, "number of angles"))?;
        let size = heads.query.shape()[3].as_constant();
        let size = size.ok_or_else(|| node.not_fixed(0, "size of a head"))?;
        check_rotated(2 * half, size)?;
        let angles = angles(graph, [cosines, sines], own)?;
        let interleaved = node.flag("rotary_interleaved", false)?;
        for x in [&mut heads.query, &mut heads.key] {
            *x = rotated(graph, x, angles.clone(), 2 * half, interleaved)?;
        }
    }
    let kept = match &window {
        Some(window) => {
            let mut kept = Vec::new();
            for (number, x) in [(3, &mut heads.key), (4, &mut heads.value)] {
                *x = window.joined(graph, node.optional(number), x)?;
                kept.push(window.kept(graph, x)?);
            }
            kept
        }
        None => {
            let length = cache_length(node, graph, &steps)?;
            for (number, x) in [(3, &mut heads.key), (4, &mut heads.value)] {
                *x = cached(graph, node.optional(number), x, &first, &length)?;
            }
            vec![heads.key.clone(), heads.value.clone()]
        }
    };

    let scores = scores(node, graph, &heads, (&places, window.as_ref()))?;
    let factor = scale(node, &heads.query)?;
    let [result, score, weight] = attend(graph, &heads, factor, &scores)?;
    let shown = if node.int("qk_output", 0)? == 2 { weight } else { score };
    Ok([vec![merge_heads(graph, &result)?], kept, vec![shown]].concat())
}

/// Which keys each query sees, and what is added to scores. `places`, `[b, q]`, are the queries'.
fn scores(
    node: &Node<'_>,
    graph: &mut Graph,
    heads: &Heads,
    (places, cache): (&Operand, Option<&WindowCache>),
) -> Accepted<Scores> {
    let [batch, steps] = [0, 2].map(|axis| heads.query.shape()[axis].clone());
    let keys = heads.key.shape()[2].clone();
    let own = graph.reshape(places, &[batch, Expr::ONE, steps, Expr::ONE])?;
    let (place, mut allowed) = match cache {
        Some(cache) => (cache.places.clone(), Some(cache.are_there.clone())),
        None => (graph.iota(DType::I64, std::slice::from_ref(&keys), 0)?, None),
    };
    let mut allow = |graph: &mut Graph, more: Operand| -> Accepted<()> {
        allowed = Some(match &allowed {
            Some(allowed) => graph.and(allowed, &more)?,
            None => more,
        });
        Ok(())
    };
    if node.flag("causal", true)? {
        let seen = graph.less_equal(&place, &own)?;
        allow(graph, seen)?;
    }
    let window = node.int("local_window_size", -1)?;
    if window < -1 {
        return Err(attribute_error("local_window_size", "a window is -1 or not negative"));
    }
    if window >= 0 {
        let width = graph.number(DType::I64, window as f64);
        let first = graph.sub(&own, &width)?;
        let inside = graph.greater(&place, &first)?;
        allow(graph, inside)?;
    }
    let mut biases = Vec::new();
    if let Some(bias) = node.optional(10) {
        // It may be shorter than a cache that has room for more.
        biases.push(widened(graph, bias, &keys)?);
    }
    let sink = match node.optional(11) {
        Some(sink) => {
            let count = heads.query.shape()[1].clone();
            let shape = [Expr::ONE, count, Expr::ONE, Expr::ONE];
            Some(graph.reshape(sink, &shape)?)
        }
        None if node.flag("smooth_softmax", false)? => Some(graph.number(heads.query.dtype(), 0.0)),
        None => None,
    };
    let cap = node.float("softcap", 0.0)?;
    Ok(Scores { biases, allowed, cap, sink, ..Scores::default() })
}
