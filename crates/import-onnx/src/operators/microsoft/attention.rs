//! Attention as ONNX Runtime writes it: queries, keys and values out of one product, or apart, with
//! biases, masks and past keys.
//!
//! Shapes are written with `b` for the batch, `h` for heads, `q` and `k` for places in the queries
//! and keys, `d` for the size of a head.

use front::{Accepted, Graph, Heads, Operand, Scores, attend, gather_axis, rotated, shape_error};
use sym::Expr;
use tensor::{DType, Scalar};

use super::Lowered;
use super::elementwise::add_vector;
use super::group_attention::cached;
use super::quantized::scaled_product;
use crate::node::{Node, attribute_error, unsupported};
use crate::operators::attention::{check_rotated, merge_heads, split_heads};

/// The factor of scores: the attribute `scale`, or one over the root of a head's size.
pub(super) fn scale(node: &Node<'_>, query: &Operand) -> Accepted<f64> {
    match (node.float("scale", 0.0)?, query.shape()[3].as_constant()) {
        (given, _) if given != 0.0 => Ok(given),
        (_, Some(size)) if size > 0 => Ok(1.0 / (size as f64).sqrt()),
        _ => Err(node.not_fixed(0, "size of a head")),
    }
}

/// `[q, k]`: whether the key at a place comes no later than the query, which `past` keys precede.
fn causal(graph: &mut Graph, queries: &Expr, keys: &Expr, past: &Expr) -> Accepted<Operand> {
    let shape = [queries.clone(), keys.clone()];
    let row = graph.iota(DType::I64, &shape, 0)?;
    let place = graph.iota(DType::I64, &shape, 1)?;
    let past = graph.dimension(past.clone());
    let own = graph.add(&row, &past)?;
    graph.less_equal(&place, &own)
}

/// What a mask of integers adds to scores `[b, h, q, k]`. It has an element a key (or a query and a
/// key), or says where the keys of a row end (and, in a second half, begin).
fn mask_bias(
    node: &Node<'_>,
    graph: &mut Graph,
    mask: &Operand,
    shape: [&Expr; 3],
) -> Accepted<Operand> {
    let [batch, queries, keys] = shape;
    let counts = match mask.shape() {
        [ends] => {
            let halves = match () {
                () if ends == batch => 1,
                () if *ends == batch * 2 => 2,
                () => return Err(unsupported("a mask that is neither ends nor ends and starts")),
            };
            let mask = graph.cast(mask, DType::I64)?;
            let mut half = |number: i64| {
                let half = graph.slice_axis(&mask, 0, batch * number, 1, batch.clone())?;
                graph.reshape(&half, &[batch.clone(), Expr::ONE, Expr::ONE, Expr::ONE])
            };
            let (end, start) = (half(0)?, if halves == 2 { Some(half(1)?) } else { None });
            let place = graph.iota(DType::I64, std::slice::from_ref(keys), 0)?;
            let inside = graph.less(&place, &end)?;
            match start {
                Some(start) => {
                    let behind = graph.greater_equal(&place, &start)?;
                    graph.and(&inside, &behind)?
                }
                None => inside,
            }
        }
        shape => {
            let shape = match shape {
                [batch, keys] => [batch.clone(), Expr::ONE, Expr::ONE, keys.clone()],
                [batch, queries, keys] => [batch.clone(), Expr::ONE, queries.clone(), keys.clone()],
                [_, heads, _, _] if heads.is_one() => {
                    return square_mask(node, graph, mask, queries, keys);
                }
                _ => return Err(shape_error(format!("a mask of rank {}", shape.len()))),
            };
            let zero = graph.number(mask.dtype(), 0.0);
            let counts = graph.greater(mask, &zero)?;
            graph.reshape(&counts, &shape)?
        }
    };
    added_where_masked(node, graph, &counts)
}

/// A mask `[b, 1, m, m]` of a model's greatest length, of which the last rows of the keys count.
fn square_mask(
    node: &Node<'_>,
    graph: &mut Graph,
    mask: &Operand,
    queries: &Expr,
    keys: &Expr,
) -> Accepted<Operand> {
    let first = keys - queries;
    let rows = graph.slice_axis(mask, 2, first, 1, queries.clone())?;
    let part = graph.slice_axis(&rows, 3, Expr::ZERO, 1, keys.clone())?;
    let zero = graph.number(mask.dtype(), 0.0);
    let counts = graph.greater(&part, &zero)?;
    added_where_masked(node, graph, &counts)
}

fn added_where_masked(node: &Node<'_>, graph: &mut Graph, counts: &Operand) -> Accepted<Operand> {
    let zero = graph.number(DType::F32, 0.0);
    let filter = graph.number(DType::F32, node.float("mask_filter_value", -10000.0)?);
    graph.select(counts, &zero, &filter)
}

/// The attribute `num_heads`.
pub(super) fn head_count(node: &Node<'_>, name: &str) -> Accepted<i64> {
    match node.int(name, 0)? {
        heads if (1..1 << 20).contains(&heads) => Ok(heads),
        heads => Err(attribute_error(name, format!("{heads} heads"))),
    }
}

/// `Attention`: one product gives queries, keys and values.
pub(super) fn attention(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    if x.rank() != 3 || node.input(1)?.rank() != 2 {
        return Err(shape_error("the input must have three axes, the weights two"));
    }
    let projected = front::product(graph, x, node.input(1)?)?;
    let projected = add_vector(graph, &projected, node.optional(2))?;
    let more = Merged { mask: 3, past: 4, bias: Some(5) };
    merged(node, graph, &projected, &more)
}

/// `QAttention`: as [`attention`], of quantised input and weights.
pub(super) fn quantized_attention(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let a = (node.input(0)?, node.input(3)?, node.optional(6));
    let b = (node.input(1)?, node.input(4)?, node.optional(7));
    if a.0.rank() != 3 || b.0.rank() != 2 {
        return Err(shape_error("the input must have three axes, the weights two"));
    }
    let projected = scaled_product(graph, a, b)?;
    let projected = add_vector(graph, &projected, Some(node.input(2)?))?;
    merged(node, graph, &projected, &Merged { mask: 5, past: 8, bias: None })
}

/// Which inputs of a node are the mask, the past keys and values, and a bias of scores.
struct Merged {
    mask: usize,
    past: usize,
    bias: Option<usize>,
}

/// Attention of queries, keys and values that lie behind each other in rows.
fn merged(node: &Node<'_>, graph: &mut Graph, rows: &Operand, inputs: &Merged) -> Lowered {
    let heads = head_count(node, "num_heads")?;
    if node.flag("past_present_share_buffer", false)? {
        return Err(unsupported("past and present keys in one buffer"));
    }
    let width = rows.shape()[2].clone();
    let sizes = match node.ints("qkv_hidden_sizes")? {
        Some(sizes) if sizes.len() == 3 && sizes.iter().all(|size| *size > 0) => {
            graph.assume_equal(&width, &Expr::from(sizes.iter().sum::<i64>()))?;
            sizes.into_iter().map(Expr::from).collect()
        }
        Some(_) => return Err(attribute_error("qkv_hidden_sizes", "they are not three sizes")),
        None if width.divisible_by(3) => vec![width.floor_div(&Expr::from(3)); 3],
        None => return Err(shape_error("the weights do not fall into three")),
    };
    let mut start = Expr::ZERO;
    let mut parts = Vec::new();
    for size in sizes {
        let part = graph.slice_axis(rows, 2, start.clone(), 1, size.clone())?;
        parts.push(split_heads(graph, &part, heads)?);
        start = &start + &size;
    }
    if node.flag("do_rotary", false)? {
        return Err(unsupported("rotated queries and keys in this operator"));
    }
    let [query, mut key, mut value] = <[Operand; 3]>::try_from(parts)
        .map_err(|_| shape_error("queries, keys and values are not three"))?;
    let mut past = Expr::ZERO;
    if let Some(both) = node.optional(inputs.past) {
        let [two, rest @ ..] = both.shape() else {
            return Err(shape_error("past keys and values without axes"));
        };
        if rest.len() != 4 || two.as_constant() != Some(2) {
            return Err(shape_error("past keys and values must be `[2, b, h, s, d]`"));
        }
        let rest = rest.to_vec();
        past = rest[2].clone();
        for (number, current) in [&mut key, &mut value].into_iter().enumerate() {
            let own = graph.slice_axis(both, 0, Expr::from(number), 1, Expr::ONE)?;
            let own = graph.reshape(&own, &rest)?;
            *current = graph.concat(2, &[own, current.clone()])?;
        }
    }
    let shape = [&query.shape()[0], &query.shape()[2], &key.shape()[2]].map(Expr::clone);
    let mut scores = Scores::default();
    if let Some(mask) = node.optional(inputs.mask) {
        scores.biases.push(mask_bias(node, graph, mask, [&shape[0], &shape[1], &shape[2]])?);
    }
    if let Some(bias) = inputs.bias.and_then(|index| node.optional(index)) {
        scores.biases.push(bias.clone());
    }
    if node.flag("unidirectional", false)? {
        scores.allowed = Some(causal(graph, &shape[1], &shape[2], &past)?);
    }
    let heads = Heads { query, key, value };
    let factor = scale(node, &heads.query)?;
    let [result, ..] = attend(graph, &heads, factor, &scores)?;
    let mut results = vec![merge_heads(graph, &result)?];
    if node.wants(1) {
        let mut both = Vec::new();
        for value in [&heads.key, &heads.value] {
            let shape = [&[Expr::ONE], value.shape()].concat();
            both.push(graph.reshape(value, &shape)?);
        }
        results.push(graph.concat(0, &both)?);
    }
    Ok(results)
}

/// Queries, keys and values of `MultiHeadAttention`, which may be packed into one or two inputs.
fn apart(node: &Node<'_>, graph: &mut Graph, heads: i64) -> Accepted<Heads> {
    let (query, key, value) = (node.input(0)?, node.optional(1), node.optional(2));
    // `[b, s, h, n, d]` holds `n` of the three.
    let unpack = |graph: &mut Graph, packed: &Operand, number: i64| {
        let one = graph.slice_axis(packed, 3, Expr::from(number), 1, Expr::ONE)?;
        let shape: Vec<Expr> = [0, 1, 2, 4].map(|axis| packed.shape()[axis].clone()).to_vec();
        let one = graph.reshape(&one, &shape)?;
        graph.transpose(&one, &[0, 2, 1, 3])
    };
    let bias = node.optional(3);
    let mut start = Expr::ZERO;
    let mut heads_of = |graph: &mut Graph, x: &Operand| {
        let Some(bias) = bias else { return split_heads(graph, x, heads) };
        let width = x.shape().last().cloned().unwrap_or(Expr::ONE);
        let own = graph.slice_axis(bias, 0, start.clone(), 1, width.clone())?;
        start = &start + &width;
        let sum = add_vector(graph, x, Some(&own))?;
        split_heads(graph, &sum, heads)
    };
    if query.rank() == 5 {
        if bias.is_some() || key.is_some() || value.is_some() {
            return Err(unsupported("packed queries, keys and values with others or a bias"));
        }
        let [query, key, value] = [0, 1, 2].map(|number| unpack(graph, query, number));
        return Ok(Heads { query: query?, key: key?, value: value? });
    }
    let own_query = heads_of(graph, query)?;
    let Some(key) = key else {
        return Err(unsupported("keys that are left out of an input that is not packed"));
    };
    if key.rank() == 5 {
        let (key, value) = (unpack(graph, key, 0)?, unpack(graph, key, 1)?);
        return Ok(Heads { query: own_query, key, value });
    }
    let Some(value) = value else {
        return Err(unsupported("values that are left out of an input that is not packed"));
    };
    if key.rank() == 4 {
        // Keys and values of another sequence, already in heads; the bias is the queries' alone.
        return Ok(Heads { query: own_query, key: key.clone(), value: value.clone() });
    }
    let key = heads_of(graph, key)?;
    Ok(Heads { query: own_query, key, value: heads_of(graph, value)? })
}

/// `MultiHeadAttention`: queries, keys and values are inputs. `DecoderMaskedMultiHeadAttention` is
/// the same of one query, with its inputs in another order.
pub(super) fn multi_head(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let count = head_count(node, "num_heads")?;
    if node.optional(9).is_some() {
        return Err(unsupported("rows of a batch that take turns"));
    }
    let mut heads = apart(node, graph, count)?;
    let mut past = Expr::ZERO;
    if let (Some(past_key), Some(past_value)) = (node.optional(6), node.optional(7)) {
        if past_key.rank() != 4 || past_value.rank() != 4 {
            return Err(shape_error("the past keys and values must have four axes"));
        }
        if let Some(count) = node.optional(8) {
            return buffered(node, graph, &heads, [past_key, past_value], count);
        }
        past = past_key.shape()[2].clone();
        heads.key = graph.concat(2, &[past_key.clone(), heads.key])?;
        heads.value = graph.concat(2, &[past_value.clone(), heads.value])?;
    }
    let [batch, queries, keys] =
        [&heads.query.shape()[0], &heads.query.shape()[2], &heads.key.shape()[2]].map(Expr::clone);
    let mut scores = Scores::default();
    if let Some(mask) = node.optional(4) {
        scores.biases.push(mask_bias(node, graph, mask, [&batch, &queries, &keys])?);
    }
    scores.biases.extend(node.optional(5).cloned());
    if node.flag("unidirectional", false)? {
        scores.allowed = Some(causal(graph, &queries, &keys, &past)?);
    }
    let factor = scale(node, &heads.query)?;
    let [result, score, _] = attend(graph, &heads, factor, &scores)?;
    // The kernel shows keys that do not count as the least number.
    let least = graph.number(score.dtype(), f64::from(f32::MIN));
    let score = graph.max(&score, &least)?;
    Ok(vec![merge_heads(graph, &result)?, heads.key, heads.value, score])
}

/// Attention whose keys and values lie in buffers `[b, h, room, d]` of which `count` places are
/// taken, and into which those of this call are written.
fn buffered(
    node: &Node<'_>,
    graph: &mut Graph,
    heads: &Heads,
    buffers: [&Operand; 2],
    count: &Operand,
) -> Lowered {
    let [batch, queries] = [0, 2].map(|axis| heads.query.shape()[axis].clone());
    let keys = buffers[0].shape()[2].clone();
    let first = graph.cast(count, DType::I64)?;
    let first = graph.reshape(&first, &[])?;
    let key = cached(graph, Some(buffers[0]), &heads.key, &first, &keys)?;
    let value = cached(graph, Some(buffers[1]), &heads.value, &first, &keys)?;
    let row = graph.iota(DType::I64, &[queries.clone(), Expr::ONE], 0)?;
    let own = graph.add(&row, &first)?;
    let place = graph.iota(DType::I64, std::slice::from_ref(&keys), 0)?;
    let allowed = Some(graph.less_equal(&place, &own)?);
    let mut biases = Vec::new();
    if let Some(mask) = node.optional(4) {
        let mask = widened(graph, mask, &keys)?;
        biases.push(mask_bias(node, graph, &mask, [&batch, &queries, &keys])?);
    }
    if let Some(bias) = node.optional(5) {
        biases.push(widened(graph, bias, &keys)?);
    }
    let factor = scale(node, &heads.query)?;
    let scores = Scores { biases, allowed, ..Scores::default() };
    let heads = Heads { query: heads.query.clone(), key, value };
    let [result, score, _] = attend(graph, &heads, factor, &scores)?;
    Ok(vec![merge_heads(graph, &result)?, heads.key, heads.value, score])
}

/// What belongs to keys, with zeros for places of a cache that are not taken.
pub(super) fn widened(graph: &mut Graph, x: &Operand, keys: &Expr) -> Accepted<Operand> {
    let Some(last) = x.rank().checked_sub(1) else {
        return Err(shape_error("a bias of scores without axes"));
    };
    if x.shape()[last].is_one() {
        return Ok(x.clone());
    }
    let fill = Operand::of_scalar(Scalar::zero(x.dtype()));
    let none = vec![Expr::ZERO; x.rank()];
    let mut high = none.clone();
    high[last] = keys - &x.shape()[last];
    graph.pad(x, &fill, &none, &high, &vec![0; x.rank()])
}

/// `DecoderMaskedMultiHeadAttention`: as [`multi_head`].
pub(super) fn decoder_masked(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let order = [0, 1, 2, 10, 3, 4, 5, 6, 7, 9];
    let inputs = order.iter().map(|index| node.optional(*index).cloned()).collect();
    multi_head(&node.with(inputs, node.version), graph)
}

/// Cosines and sines `[b, 1, s, r / 2]` of the rows of two tables at places `[b, s]`.
pub(super) fn angles(
    graph: &mut Graph,
    tables: [&Operand; 2],
    places: &Operand,
) -> Accepted<(Operand, Operand)> {
    let places = graph.cast(places, DType::I64)?;
    let mut rows = |table: &Operand| {
        if table.rank() != 2 {
            return Err(shape_error(format!("angles of rank {}, not 2", table.rank())));
        }
        let rows = graph.gather(table, &[0], std::slice::from_ref(&places), 0, 0)?;
        let [batch, places, width] = rows.shape() else {
            return Err(shape_error("places must have two axes"));
        };
        let shape = [batch.clone(), Expr::ONE, places.clone(), width.clone()];
        graph.reshape(&rows, &shape)
    };
    Ok((rows(tables[0])?, rows(tables[1])?))
}

/// `RotaryEmbedding`: the places are one number from which they count, or one each.
pub(super) fn rotary_embedding(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (input, places, cosines) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let half = cosines.shape().last().and_then(Expr::as_constant);
    let half = half.ok_or_else(|| node.not_fixed(2, "number of angles"))?;
    let part = node.int("rotary_embedding_dim", 0)?;
    let count = node.int("num_heads", 0)?;
    let x = match input.shape() {
        [_, _, _, _] => input.clone(),
        [_, _, width] => {
            let heads = match (width.as_constant(), part) {
                (Some(width), 0) if half > 0 && count == 0 => width / (2 * half),
                _ => count,
            };
            split_heads(graph, input, heads)?
        }
        shape => return Err(shape_error(format!("an input of rank {}", shape.len()))),
    };
    let size = x.shape()[3].as_constant().ok_or_else(|| node.not_fixed(0, "size of a head"))?;
    let turned = if part > 0 { part } else { 2 * half };
    check_rotated(turned, size)?;
    let shape = [x.shape()[0].clone(), x.shape()[2].clone()];
    let places = graph.cast(places, DType::I64)?;
    let places = match places.shape() {
        [one] if one.is_one() => {
            let own = graph.iota(DType::I64, &shape, 1)?;
            graph.add(&own, &places)?
        }
        _ => graph.refine(&places, &shape)?,
    };
    let angles = angles(graph, [cosines, node.input(3)?], &places)?;
    let interleaved = node.flag("interleaved", false)?;
    let result = rotated(graph, &x, angles, turned, interleaved)?;
    Ok(vec![if input.rank() == 3 { merge_heads(graph, &result)? } else { result }])
}

/// `MRotaryEmbedding`: as [`rotary_embedding`], where each of three sections of a head's angles
/// counts places of its own: by time, height and width.
pub(super) fn sectioned_rotary(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (input, places) = (node.input(0)?, node.input(1)?);
    let sections = node.ints("mrope_section")?.unwrap_or_default();
    if node.int("mrope_layout", 0)? != 0 {
        return Err(unsupported("sections of angles that take turns"));
    }
    let [three, batch, steps] = places.shape() else {
        return Err(shape_error(format!("places of rank {}, not 3", places.rank())));
    };
    if three.as_constant() != Some(3) || sections.len() != 3 || sections.iter().any(|n| *n < 0) {
        return Err(attribute_error("mrope_section", "there are not three sections and places"));
    }
    let (batch, steps) = (batch.clone(), steps.clone());
    let mut parts = [Vec::new(), Vec::new()];
    let mut first = 0;
    for (number, section) in sections.iter().enumerate() {
        let own = graph.slice_axis(places, 0, Expr::from(number), 1, Expr::ONE)?;
        let own = graph.reshape(&own, &[batch.clone(), steps.clone()])?;
        let own = graph.cast(&own, DType::I64)?;
        for (table, parts) in [2, 3].into_iter().zip(&mut parts) {
            let rows = gather_axis(graph, node.input(table)?, 0, &own)?;
            parts.push(graph.slice_axis(&rows, 2, Expr::from(first), 1, Expr::from(*section))?);
        }
        first += section;
    }
    let mut angle = |parts: &[Operand]| {
        let whole = graph.concat(2, parts)?;
        let width = whole.shape()[2].clone();
        graph.reshape(&whole, &[batch.clone(), Expr::ONE, steps.clone(), width])
    };
    let angles = (angle(&parts[0])?, angle(&parts[1])?);
    let x = match input.rank() {
        4 => input.clone(),
        _ => split_heads(graph, input, node.int("num_heads", 0)?)?,
    };
    let size = x.shape()[3].as_constant().ok_or_else(|| node.not_fixed(0, "size of a head"))?;
    check_rotated(2 * first, size)?;
    let result = rotated(graph, &x, angles, 2 * first, node.flag("interleaved", false)?)?;
    Ok(vec![if input.rank() == 3 { merge_heads(graph, &result)? } else { result }])
}
