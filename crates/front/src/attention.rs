//! Attention: products of groups of heads, and softmax of rows that may be masked throughout.
//!
//! Shapes are written with `b` for the batch, `h` for heads, `q` and `k` for places in the queries
//! and keys, `d` for the size of a head. Keys and values may come in `n` pages of `r` places each,
//! where each head's part of a page lies in one piece: keys with the places last, values with the
//! sizes. So both products run in vectors along what lies side by side and add up in the order of
//! what is summed, however many queries there are: as many rows as one have the same bits.

use graph::IterationSpace;
use sym::Expr;
use tensor::{Reduction, ScalarFunction as F};

use crate::standard::{exponentials_beside_one, over_sum};
use crate::value::Operand;
use crate::writer::{Accepted, Graph, shape_error, unsupported};

/// Queries, keys and values, each `[b, h, s, d]`; keys may be in pages `[b, n, h, d, r]`, and
/// values in pages `[b, n, h, r, d]`.
pub struct Heads {
    /// Those of queries.
    pub query: Operand,
    /// Those of keys; each serves as many of the queries as there are for one.
    pub key: Operand,
    /// Those of values.
    pub value: Operand,
}

/// What becomes of scores.
#[derive(Default)]
pub struct Scores {
    /// Values added to them, each broadcast to `[b, h, q, k]`.
    pub biases: Vec<Operand>,
    /// What the keys of each place are to be multiplied by, `[b, n, g, r]` for keys in pages.
    pub key_factors: Option<Operand>,
    /// The same of values.
    pub value_factors: Option<Operand>,
    /// Which count at all.
    pub allowed: Option<Operand>,
    /// The bound that scores approach.
    pub cap: f64,
    /// The score of a key without value, broadcast to `[b, h, q, 1]`.
    pub sink: Option<Operand>,
}

/// `[b, h, q, d] . [b, g, s, e]` summed over an axis of each, where each of the `g` heads on the
/// right serves as many on the left. `by_rows` sums over `e`, else over `s`. The right operand may
/// be in pages whose places are `s`: `[b, n, g, e, r]` by rows, else `[b, n, g, r, e]`.
pub fn product_of_heads(
    graph: &mut Graph,
    left: &Operand,
    right: &Operand,
    by_rows: bool,
) -> Accepted<Operand> {
    let (l, r) = (left.shape().to_vec(), right.shape().to_vec());
    let heads_at = match r.len() {
        4 => 1,
        5 => 2,
        rank => return Err(shape_error(format!("keys or values of rank {rank}"))),
    };
    let is_turned = heads_at == 2 && by_rows;
    let (size_at, places_at) = match is_turned {
        true => (heads_at + 1, heads_at + 2),
        false => (heads_at + 2, heads_at + 1),
    };
    let size = r[size_at].clone();
    // Places, or pages and places within them.
    let places: Vec<Expr> = r[1..heads_at].iter().chain([&r[places_at]]).cloned().collect();
    let count: Expr = places.iter().product();
    let (summed, free) = if by_rows { (&size, &count) } else { (&count, &size) };
    graph.assume_equal(&l[0], &r[0])?;
    graph.assume_equal(&l[3], summed)?;
    let (Some(heads), Some(groups)) = (l[1].as_constant(), r[heads_at].as_constant()) else {
        return Err(unsupported("the number of heads is not fixed"));
    };
    if groups < 1 || heads % groups != 0 {
        return Err(shape_error(format!("{heads} heads of queries for {groups} of keys")));
    }
    let share = Expr::from(heads / groups);
    let grouped = [l[0].clone(), r[heads_at].clone(), share, l[2].clone()];
    // The axes: b, g, heads of a group, q, the free axes of the right operand; then the sum's.
    let in_pages = places.len() > 1 && !by_rows;
    let own_sum = if in_pages { places.clone() } else { vec![l[3].clone()] };
    let left = graph.reshape(left, &[&grouped[..], &own_sum].concat())?;
    let mut right_shape = r.clone();
    right_shape[0] = l[0].clone();
    if let [sum] = &own_sum[..] {
        right_shape[if by_rows { size_at } else { places_at }] = sum.clone();
    }
    let right = graph.refine(right, &right_shape)?;
    let own_free = if by_rows { places } else { vec![size.clone()] };
    let parallel = 4 + own_free.len();
    let [b, g, own, q] = [0, 1, 2, 3].map(IterationSpace::axis);
    let axes = |from: usize, count: usize| {
        (from..from + count).map(IterationSpace::axis).collect::<Vec<Expr>>()
    };
    let (other, sum) = (axes(4, own_free.len()), axes(parallel, own_sum.len()));
    let extents = [&grouped[..], &own_free, &own_sum].concat();
    let read_left = [&[b.clone(), g.clone(), own, q][..], &sum].concat();
    let (along, within) = if by_rows { (&other, &sum) } else { (&sum, &other) };
    let (pages, rows) = along.split_at(along.len() - 1);
    let [outer, inner] = if is_turned { [within, rows] } else { [rows, within] };
    let read_right = [&[b][..], pages, &[g], outer, inner].concat();
    let space = IterationSpace { extents, parallel, operands: vec![read_left, read_right] };
    let dtype = left.dtype();
    let result = graph.contract(space, &left, &right, graph::accumulator_of(dtype), dtype)?;
    graph.reshape(&result, &[l[0].clone(), l[1].clone(), l[2].clone(), free.clone()])
}

/// Softmax of rows, of which masked ones may have nothing that counts: those become zeros.
pub fn attention_weights(
    graph: &mut Graph,
    scores: &Operand,
    is_masked: bool,
) -> Accepted<Operand> {
    let mut greatest = graph.reduce_axes(scores, &[3], Reduction::Max, true)?;
    let zero = graph.number(scores.dtype(), 0.0);
    if is_masked {
        let infinite = graph.map(F::IsInf, &[&greatest])?;
        greatest = graph.select(&infinite, &zero, &greatest)?;
    }
    let shifted = graph.sub(scores, &greatest)?;
    let exp = exponentials_beside_one(graph, &shifted)?;
    let sum = graph.reduce_axes(&exp, &[3], Reduction::Sum, true)?;
    let quotient = over_sum(graph, &exp, &sum)?;
    if !is_masked {
        return Ok(quotient);
    }
    let empty = graph.equal(&sum, &zero)?;
    graph.select(&empty, &zero, &quotient)
}

/// `[b, h, q, k]` times factors of the places of keys, `[b, n, g, r]`, each for as many heads as
/// there are for one of the `g`.
fn times_factors(graph: &mut Graph, x: &Operand, factors: &Operand) -> Accepted<Operand> {
    let (own, pages) = (x.shape().to_vec(), factors.shape().to_vec());
    let (Some(heads), Some(groups)) = (own[1].as_constant(), pages[2].as_constant()) else {
        return Err(unsupported("the number of heads is not fixed"));
    };
    let share = Expr::from(heads / groups.max(1));
    let by_head = graph.transpose(factors, &[0, 2, 1, 3])?;
    let along = [pages[0].clone(), pages[2].clone(), Expr::ONE, Expr::ONE, own[3].clone()];
    let by_head = graph.reshape(&by_head, &along)?;
    let grouped = [&own[..1], &[pages[2].clone(), share], &own[2..]].concat();
    let x = graph.reshape(x, &grouped)?;
    let product = graph.mul(&x, &by_head)?;
    graph.reshape(&product, &own)
}

/// Attention: the result `[b, h, q, d]`, the scores, and the weights.
pub fn attend(
    graph: &mut Graph,
    heads: &Heads,
    scale: f64,
    scores: &Scores,
) -> Accepted<[Operand; 3]> {
    let dtype = heads.query.dtype();
    let query = graph.mul_number(&heads.query, scale)?;
    let mut score = product_of_heads(graph, &query, &heads.key, true)?;
    if let Some(factors) = &scores.key_factors {
        score = times_factors(graph, &score, factors)?;
    }
    if scores.cap > 0.0 {
        let scaled = graph.mul_number(&score, 1.0 / scores.cap)?;
        let bent = graph.tanh(&scaled)?;
        score = graph.mul_number(&bent, scores.cap)?;
    }
    for bias in &scores.biases {
        let bias = graph.cast(bias, dtype)?;
        score = graph.add(&score, &bias)?;
    }
    if let Some(allowed) = &scores.allowed {
        let never = graph.number(dtype, f64::NEG_INFINITY);
        score = graph.select(allowed, &score, &never)?;
    }
    let wide = graph.widen(&score)?;
    let weight = match &scores.sink {
        None => attention_weights(graph, &wide, scores.allowed.is_some())?,
        Some(sink) => {
            // The sink is one key more, whose weight is left out.
            let mut shape = wide.shape().to_vec();
            shape[3] = Expr::ONE;
            let sink = graph.cast(sink, wide.dtype())?;
            let sink = graph.broadcast_to(&sink, shape)?;
            let keys = wide.shape()[3].clone();
            let all = graph.concat(3, &[wide, sink])?;
            let all = attention_weights(graph, &all, true)?;
            graph.slice_axis(&all, 3, Expr::ZERO, 1, keys)?
        }
    };
    let weight = graph.cast(&weight, dtype)?;
    let scaled = match &scores.value_factors {
        Some(factors) => times_factors(graph, &weight, factors)?,
        None => weight.clone(),
    };
    let result = product_of_heads(graph, &scaled, &heads.value, false)?;
    Ok([result, score, weight])
}

/// The first elements of each head of `x`, `[b, h, s, d]`, rotated by angles of which cosines and
/// sines are `[b, 1, s, r / 2]`. Pairs are neighbours, or an element and the one `r / 2` on.
pub fn rotated(
    graph: &mut Graph,
    x: &Operand,
    (cosine, sine): (Operand, Operand),
    rotated: i64,
    interleaved: bool,
) -> Accepted<Operand> {
    let size = &x.shape()[3];
    let half = Expr::from(rotated / 2);
    let part = |number: i64, graph: &mut Graph| match interleaved {
        true => graph.slice_axis(x, 3, Expr::from(number), 2, half.clone()),
        false => graph.slice_axis(x, 3, &half * number, 1, half.clone()),
    };
    let (first, second) = (part(0, graph)?, part(1, graph)?);
    let (a, b) = (graph.mul(&cosine, &first)?, graph.mul(&sine, &second)?);
    let real = graph.sub(&a, &b)?;
    let (a, b) = (graph.mul(&sine, &first)?, graph.mul(&cosine, &second)?);
    let imaginary = graph.add(&a, &b)?;
    let mut pieces = if interleaved {
        let column = [real.shape(), &[Expr::ONE]].concat();
        let (real, imaginary) =
            (graph.reshape(&real, &column)?, graph.reshape(&imaginary, &column)?);
        let pairs = graph.concat(4, &[real, imaginary])?;
        let mut shape = x.shape().to_vec();
        shape[3] = Expr::from(rotated);
        vec![graph.reshape(&pairs, &shape)?]
    } else {
        vec![real, imaginary]
    };
    let rest = size - rotated;
    if !rest.is_zero() {
        pieces.push(graph.slice_axis(x, 3, Expr::from(rotated), 1, rest)?);
    }
    graph.concat(3, &pieces)
}
