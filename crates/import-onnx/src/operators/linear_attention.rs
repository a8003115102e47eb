//! Attention by a recurrent state instead of scores, and the causal convolution that goes with it.
//!
//! Shapes are written with `b` for the batch, `h` for heads of keys, `g` for the queries' heads of
//! each, `k` and `v` for the sizes of a key and a value.

use front::{Accepted, Graph, Operand, Turn, shape_error};
use graph::IterationSpace;
use sym::Expr;
use tensor::{DType, Scalar};

use super::Lowered;
use crate::node::Node;

/// `[b, t, n * d]` as `[t, b, n..., d]`, in f32, where `n` may be several axes.
fn by_step(graph: &mut Graph, x: &Operand, heads: &[i64]) -> Accepted<Operand> {
    let [batch, steps, width] = x.shape() else {
        return Err(shape_error(format!("an input of rank {}, not 3", x.rank())));
    };
    let count: i64 = heads.iter().product();
    if count < 1 || !width.divisible_by(count) {
        let width = graph.builder.text(width);
        return Err(shape_error(format!("a width of {width} does not fall into {count} heads")));
    }
    let mut shape = vec![batch.clone(), steps.clone()];
    shape.extend(heads.iter().map(|&heads| Expr::from(heads)));
    shape.push(width.floor_div(&Expr::from(count)));
    let x = graph.cast(x, DType::F32)?;
    let split = graph.reshape(&x, &shape)?;
    let mut order: Vec<usize> = (0..shape.len()).collect();
    order.swap(0, 1);
    graph.transpose(&split, &order)
}

/// `LinearAttention`: a state `[b, h, k, v]` that decays, takes in the outer product of key and
/// value (less what it already answers to the key), and is read by the queries.
pub(super) fn linear_attention(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let rule = node.word("update_rule", &["gated_delta", "linear", "gated", "delta"])?;
    let (is_gated, is_delta) = (rule.starts_with("gated"), rule.ends_with("delta"));
    let (queries, heads) = (node.int("q_num_heads", 0)?, node.int("kv_num_heads", 0)?);
    if heads < 1 || queries < heads || queries % heads != 0 {
        return Err(shape_error(format!("{queries} heads of queries for {heads} of keys")));
    }
    let dtype = node.input(0)?.dtype();
    let query = by_step(graph, node.input(0)?, &[heads, queries / heads])?;
    let key = by_step(graph, node.input(1)?, &[heads])?;
    let value = by_step(graph, node.input(2)?, &[heads])?;
    let steps = query.shape()[0].clone();
    let (batch, size) = (query.shape()[1].clone(), query.shape()[4].clone());
    let width = value.shape()[3].clone();
    let state_shape = [batch.clone(), Expr::from(heads), size.clone(), width.clone()];
    let (state, state_dtype) = match node.optional(3) {
        Some(past) => {
            let wide = graph.cast(past, DType::F32)?;
            (graph.refine(&wide, &state_shape)?, past.dtype())
        }
        None => (graph.full(&state_shape, Scalar::zero(DType::F32))?, dtype),
    };
    let mut scanned = vec![query, key, value];
    if is_gated {
        scanned.push(by_step(graph, node.input(4)?, &[heads])?);
    }
    if is_delta {
        let beta = node.input(5)?;
        let shared = beta.shape().get(2).is_some_and(Expr::is_one);
        scanned.push(by_step(graph, beta, &[if shared { 1 } else { heads }])?);
    }
    let scale = match (node.float("scale", 0.0)?, size.as_constant()) {
        (0.0, Some(size)) if size > 0 => 1.0 / (size as f64).sqrt(),
        (0.0, _) => return Err(node.not_fixed(0, "size of a head")),
        (scale, _) => scale,
    };
    let results =
        graph.scan((&steps, false), &[state], &scanned, &[], |graph, _, states, slices| {
            let row = |graph: &mut Graph, value: &Operand| {
                let shape = value.shape();
                graph.reshape(value, &[&shape[..2], &[Expr::ONE], &shape[2..]].concat())
            };
            let column = |graph: &mut Graph, value: &Operand| {
                graph.reshape(value, &[value.shape(), &[Expr::ONE]].concat())
            };
            let mut state = states[0].clone();
            let (query, key, value) = (&slices[0], &slices[1], &slices[2]);
            if is_gated {
                let decay = graph.exp(&slices[3])?;
                let decay = column(graph, &decay)?;
                state = graph.mul(&state, &decay)?;
            }
            let mut update = row(graph, value)?;
            if is_delta {
                let key = row(graph, key)?;
                let answer = graph.matmul(&key, &state)?;
                let rest = graph.sub(&update, &answer)?;
                let beta = slices.last().map(|beta| column(graph, beta)).transpose()?;
                update = match beta {
                    Some(beta) => graph.mul(&rest, &beta)?,
                    None => rest,
                };
            }
            let key = column(graph, key)?;
            let outer = graph.mul(&key, &update)?;
            state = graph.add(&state, &outer)?;
            let read = graph.matmul(query, &state)?;
            let output = graph.mul_number(&read, scale)?;
            Ok(Turn { carried: vec![state], stacked: vec![output] })
        })?;
    // [t, b, h, g, v] back to [b, t, h * g * v]
    let turned = graph.transpose(&results[1], &[1, 0, 2, 3, 4])?;
    let output = graph.reshape(&turned, &[batch, steps, &width * queries])?;
    Ok(vec![graph.cast(&output, dtype)?, graph.cast(&results[0], state_dtype)?])
}

/// `CausalConvWithState`: each channel convolved with a kernel that sees its own and earlier
/// places; those before the first are the state.
pub(super) fn causal_convolution(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (x, w) = (node.input(0)?, node.input(1)?);
    let ([batch, channels, length], [_, _, kernel]) = (x.shape(), w.shape()) else {
        return Err(shape_error("input and weights must have three axes"));
    };
    let (dtype, past_length) = (x.dtype(), kernel - 1);
    let past_shape = [batch.clone(), channels.clone(), past_length.clone()];
    let past = match node.optional(3) {
        Some(past) => graph.refine(past, &past_shape)?,
        None => graph.full(&past_shape, Scalar::zero(dtype))?,
    };
    let whole = graph.concat(2, &[past, x.clone()])?;
    let w = graph.refine(w, &[channels.clone(), Expr::ONE, kernel.clone()])?;
    let w = graph.reshape(&w, &[channels.clone(), kernel.clone()])?;
    let [b, c, place, element] = [0, 1, 2, 3].map(IterationSpace::axis);
    let space = IterationSpace {
        extents: vec![batch.clone(), channels.clone(), length.clone(), kernel.clone()],
        parallel: 3,
        operands: vec![vec![b, c.clone(), &place + &element], vec![c, element]],
    };
    let mut output = graph.contract(space, &whole, &w, graph::accumulator_of(dtype), dtype)?;
    if let Some(bias) = node.optional(2) {
        let bias = graph.broadcast_axis(bias, output.shape(), 1)?;
        output = graph.add(&output, &bias)?;
    }
    if node.word("activation", &["none", "silu", "swish"])? != "none" {
        let wide = graph.widen(&output)?;
        let gate = graph.sigmoid(&wide)?;
        let gated = graph.mul(&wide, &gate)?;
        output = graph.cast(&gated, dtype)?;
    }
    let present = graph.slice_axis(&whole, 2, length.clone(), 1, past_length)?;
    Ok(vec![output, present])
}
