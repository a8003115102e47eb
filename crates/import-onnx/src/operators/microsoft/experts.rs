//! Mixtures of experts: every expert is computed for every row, and weighted by what its router
//! says, which is zero for those that are not chosen.

use front::{Accepted, Graph, Operand, block_values, shape_error};
use graph::{IterationSpace, Op};
use sym::Expr;
use tensor::{DType, Reduction};

use super::Lowered;
use super::packed::unpacked;
use crate::node::{Node, attribute_error, unsupported};
use front::{gelu_of, over_sum};

/// The weights `[rows, experts]` of the experts that a router's scores choose.
fn routing(
    node: &Node<'_>,
    graph: &mut Graph,
    scores: &Operand,
    normalizes: bool,
) -> Accepted<Operand> {
    if node.flag("use_sparse_mixer", false)? {
        return Err(unsupported("the sparse mixer of experts"));
    }
    let [_, experts] = scores.shape() else {
        return Err(shape_error(format!("scores of experts of rank {}", scores.rank())));
    };
    let experts = experts.as_constant().ok_or_else(|| node.not_fixed(1, "number of experts"))?;
    let chosen = match usize::try_from(node.int("k", 1)?) {
        Ok(chosen) if chosen >= 1 && chosen as i64 <= experts => chosen,
        _ => return Err(attribute_error("k", format!("it is not 1 to {experts}"))),
    };
    let wide = graph.widen(scores)?;
    let (values, indices) = graph
        .primitive_pair(Op::Sort { axis: 1, descending: true, kept: Some(chosen) }, &[&wide])?;
    // Softmax over all, of which the chosen ones are kept as they are, or made to add up to one.
    let greatest = graph.slice_axis(&values, 1, Expr::ZERO, 1, Expr::ONE)?;
    let shifted = graph.sub(&values, &greatest)?;
    let exp = graph.exp(&shifted)?;
    let base = if normalizes {
        exp.clone()
    } else {
        let all = graph.sub(&wide, &greatest)?;
        graph.exp(&all)?
    };
    let sum = graph.reduce_axes(&base, &[1], Reduction::Sum, true)?;
    let weights = over_sum(graph, &exp, &sum)?;
    // Each chosen weight at its expert's place.
    let column =
        |graph: &mut Graph, x: &Operand| graph.reshape(x, &[x.shape(), &[Expr::ONE]].concat());
    let (indices, weights) = (column(graph, &indices)?, column(graph, &weights)?);
    let number = graph.iota(DType::I64, &[Expr::from(experts)], 0)?;
    let is_own = graph.equal(&indices, &number)?;
    let zero = graph.number(weights.dtype(), 0.0);
    let placed = graph.select(&is_own, &weights, &zero)?;
    graph.reduce_axes(&placed, &[1], Reduction::Sum, false)
}

/// The logarithms of a router's sigmoids at the experts that it chooses, and a sentinel elsewhere:
/// the best groups of experts by the sum of their best scores, then the best experts of those.
/// Scores have a bias, which the result does not. Outputs 1 and 2 are scores with and without it.
pub(super) fn group_router(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    if node.optional(2).is_some() {
        return Err(unsupported("a router with its projection"));
    }
    let logits = node.input(0)?;
    let Some((experts, lead)) = logits.shape().split_last() else {
        return Err(shape_error("scores of experts without axes"));
    };
    let experts = experts.as_constant().ok_or_else(|| node.not_fixed(0, "number of experts"))?;
    let count = |name: &str, default: i64, most: i64| match node.int(name, default)? {
        count if (1..=most).contains(&count) => Ok(count),
        count => Err(attribute_error(name, format!("{count} is not 1 to {most}"))),
    };
    let groups = count("n_group", 1, experts)?;
    if experts % groups != 0 {
        return Err(attribute_error("n_group", format!("{experts} experts in {groups} groups")));
    }
    let size = experts / groups;
    let (kept_groups, chosen) = (count("topk_group", 1, groups)?, count("top_k", 1, experts)?);
    let best = count("group_topk", 2, i64::MAX)?.min(size);
    let rows: Expr = lead.iter().product();
    let wide = graph.widen(logits)?;
    let wide = graph.reshape(&wide, &[rows.clone(), Expr::from(experts)])?;
    let weights = graph.sigmoid(&wide)?;
    let scores = graph.add(&weights, node.input(1)?)?;
    let grouped = graph.reshape(&scores, &[rows.clone(), Expr::from(groups), Expr::from(size)])?;
    let (values, _) = sorted(graph, &grouped, 2, best)?;
    let sums = graph.reduce_axes(&values, &[2], Reduction::Sum, false)?;
    let (_, own) = sorted(graph, &sums, 1, kept_groups)?;
    let is_kept = marked(graph, &own, groups)?;
    let shape = [rows.clone(), Expr::from(groups), Expr::ONE];
    let is_kept = graph.reshape(&is_kept, &shape)?;
    let never = graph.number(scores.dtype(), f64::NEG_INFINITY);
    let open = graph.select(&is_kept, &grouped, &never)?;
    let open = graph.reshape(&open, scores.shape())?;
    let (_, own) = sorted(graph, &open, 1, chosen)?;
    let is_chosen = marked(graph, &own, experts)?;
    let least = graph.number(weights.dtype(), 1e-20);
    let bounded = graph.max(&weights, &least)?;
    let log = graph.log(&bounded)?;
    let sentinel = graph.number(log.dtype(), node.float("router_sentinel", -1e9)?);
    let probabilities = graph.select(&is_chosen, &log, &sentinel)?;
    Ok(vec![graph.cast(&probabilities, logits.dtype())?, scores, weights])
}

/// The greatest elements along an axis, and where they are.
fn sorted(graph: &mut Graph, x: &Operand, axis: usize, count: i64) -> Accepted<(Operand, Operand)> {
    let kept = usize::try_from(count).ok();
    graph.primitive_pair(Op::Sort { axis, descending: true, kept }, &[x])
}

/// `[r, n]`: whether a number below `n` is among those of a row `[r, k]`.
fn marked(graph: &mut Graph, numbers: &Operand, count: i64) -> Accepted<Operand> {
    let column = graph.reshape(numbers, &[numbers.shape(), &[Expr::ONE]].concat())?;
    let number = graph.iota(DType::I64, &[Expr::from(count)], 0)?;
    let is_own = graph.equal(&column, &number)?;
    graph.reduce_axes(&is_own, &[1], Reduction::Or, false)
}

/// `[e, r, n] = sum(k) x[r, k] * w[e, n, k]` plus a bias `[e, n]`; the rows may be each expert's
/// own.
fn expert_product(
    graph: &mut Graph,
    x: &Operand,
    w: &Operand,
    bias: Option<&Operand>,
) -> Accepted<Operand> {
    let [experts, outputs, depth] = w.shape() else {
        return Err(shape_error(format!("weights of experts of rank {}, not 3", w.rank())));
    };
    let (rows, own) = (x.shape()[x.rank() - 2].clone(), x.rank() == 3);
    let mut shape = x.shape().to_vec();
    shape[x.rank() - 1] = depth.clone();
    let x = graph.refine(x, &shape)?;
    let axis = IterationSpace::axis;
    let mut read = vec![axis(1), axis(3)];
    if own {
        read.insert(0, axis(0));
    }
    let space = IterationSpace {
        extents: vec![experts.clone(), rows, outputs.clone(), depth.clone()],
        parallel: 3,
        operands: vec![read, vec![axis(0), axis(2), axis(3)]],
    };
    let dtype = x.dtype();
    let result = graph.contract(space, &x, w, graph::accumulator_of(dtype), dtype)?;
    let Some(bias) = bias else { return Ok(result) };
    let bias = graph.broadcast(bias, result.shape().to_vec(), &[0, 2])?;
    graph.add(&result, &bias)
}

/// The hidden rows after their activation; `third` is the product that gates them apart.
fn activated(
    node: &Node<'_>,
    graph: &mut Graph,
    hidden: &Operand,
    third: Option<Operand>,
) -> Accepted<Operand> {
    let words = ["relu", "gelu", "silu", "identity", "swiglu"];
    let kind = node.word("activation_type", &words)?;
    if kind == "swiglu" {
        return swiglu(node, graph, hidden, third);
    }
    let bent = match kind {
        "relu" => {
            let zero = graph.number(hidden.dtype(), 0.0);
            graph.max(hidden, &zero)?
        }
        // The kernel takes the formula with tanh.
        "gelu" => gelu_of(graph, hidden, false)?,
        "silu" => {
            let gate = graph.sigmoid(hidden)?;
            graph.mul(hidden, &gate)?
        }
        _ => hidden.clone(),
    };
    match third {
        Some(third) => graph.mul(&bent, &third),
        None => Ok(bent),
    }
}

/// `g * sigmoid(alpha * g) * (l + beta)`, both bounded; they take turns in a row, or follow each
/// other, or are two products.
fn swiglu(
    node: &Node<'_>,
    graph: &mut Graph,
    hidden: &Operand,
    third: Option<Operand>,
) -> Accepted<Operand> {
    let width = hidden.shape()[2].clone();
    let half = width.floor_div(&Expr::from(2));
    let (gate, linear) = match (node.int("swiglu_fusion", 0)?, third) {
        (0, Some(third)) => (hidden.clone(), third),
        (1, _) => (
            graph.slice_axis(hidden, 2, Expr::ZERO, 2, half.clone())?,
            graph.slice_axis(hidden, 2, Expr::ONE, 2, half)?,
        ),
        (2, _) => (
            graph.slice_axis(hidden, 2, Expr::ZERO, 1, half.clone())?,
            graph.slice_axis(hidden, 2, half.clone(), 1, half)?,
        ),
        (0, None) => return Err(unsupported("gates without their product")),
        (other, _) => {
            return Err(attribute_error("swiglu_fusion", format!("{other} is not 0 to 2")));
        }
    };
    let (alpha, beta) = (node.float("activation_alpha", 1.0)?, node.float("activation_beta", 0.0)?);
    let (mut gate, mut linear) = (gate, linear);
    if node.has("swiglu_limit") {
        let limit = node.float("swiglu_limit", 0.0)?;
        let bound = graph.number(gate.dtype(), limit);
        gate = graph.min(&gate, &bound)?;
        linear = graph.clamp(&linear, -limit, limit)?;
    }
    let scaled = graph.mul_number(&gate, alpha)?;
    let bent = graph.sigmoid(&scaled)?;
    let gated = graph.mul(&gate, &bent)?;
    let shifted = graph.add_number(&linear, beta)?;
    graph.mul(&gated, &shifted)
}

/// Weights and biases of the up to three products of each expert.
struct Experts {
    first: (Operand, Option<Operand>),
    second: (Operand, Option<Operand>),
    third: Option<(Operand, Option<Operand>)>,
}

fn mixture(node: &Node<'_>, graph: &mut Graph, experts: &Experts, normalizes: bool) -> Lowered {
    let x = node.input(0)?;
    let [lead @ .., width] = x.shape() else {
        return Err(shape_error("an input without axes"));
    };
    if lead.is_empty() {
        return Err(shape_error("an input of rank 1, not 2 or 3"));
    }
    let rows = [lead.iter().product(), width.clone()];
    let wide = graph.widen(x)?;
    let flat = graph.reshape(&wide, &rows)?;
    let router = node.input(1)?;
    let weights = routing(node, graph, router, normalizes)?;
    let hidden = expert_product(graph, &flat, &experts.first.0, experts.first.1.as_ref())?;
    let third = match &experts.third {
        Some((weights, bias)) => Some(expert_product(graph, &flat, weights, bias.as_ref())?),
        None => None,
    };
    let bent = activated(node, graph, &hidden, third)?;
    let outputs = expert_product(graph, &bent, &experts.second.0, experts.second.1.as_ref())?;
    let turned = graph.transpose(&weights, &[1, 0])?;
    let column = graph.reshape(&turned, &[turned.shape(), &[Expr::ONE]].concat())?;
    let weighted = graph.mul(&outputs, &column)?;
    let sum = graph.reduce_axes(&weighted, &[0], Reduction::Sum, false)?;
    let sum = graph.reshape(&sum, x.shape())?;
    Ok(vec![graph.cast(&sum, x.dtype())?])
}

/// `MoE`
pub(super) fn experts(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let mut layer = |weights: usize| -> Accepted<(Operand, Option<Operand>)> {
        let bias = node.optional(weights + 1).map(|bias| graph.widen(bias)).transpose()?;
        Ok((graph.widen(node.input(weights)?)?, bias))
    };
    let (first, second) = (layer(2)?, layer(4)?);
    let third = if node.optional(6).is_some() { Some(layer(6)?) } else { None };
    let normalizes = node.flag("normalize_routing_weights", false)?;
    mixture(node, graph, &Experts { first, second, third }, normalizes)
}

/// `QMoE`: weights of few bits, with a scale a row, or a block of one. The kernel always makes the
/// weights of the chosen experts add up to one, whatever its attribute says.
pub(super) fn quantized_experts(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    if node.string("quant_type", "int")? != "int" {
        return Err(unsupported("weights of experts that are no integers"));
    }
    if node.int("weights_prepacked", -1)? == 1 || (14..21).any(|i| node.optional(i).is_some()) {
        return Err(unsupported("weights prepared for another processor"));
    }
    let default = node.int("expert_weight_bits", 4)?;
    let mut layer = |first: usize, name: &str, points: usize| {
        let bits = match node.int(name, 0)? {
            0 => default,
            bits => bits,
        };
        if !matches!(bits, 2 | 4 | 8) {
            return Err(attribute_error(name, format!("{bits} is none of 2, 4, 8")));
        }
        let numbers = unpacked(graph, node.input(first)?, bits)?;
        let scales = node.input(first + 1)?;
        let [experts, rows, depth] = numbers.shape() else {
            return Err(shape_error(format!("weights of experts of rank {}", numbers.rank())));
        };
        let block = match node.int("block_size", 0)? {
            0 => depth.as_constant().ok_or_else(|| node.not_fixed(first, "row of weights"))?,
            _ => super::packed::block_size(node, 0)?,
        };
        let blocks = depth.ceil_div(&Expr::from(block));
        let whole = [experts.clone(), rows.clone(), blocks.clone()];
        let scales = graph.reshape(scales, &whole)?;
        let points = match node.optional(points) {
            Some(points) => {
                let width = (&blocks * bits).ceil_div(&Expr::from(8));
                let packed = graph.reshape(points, &[experts.clone(), rows.clone(), width])?;
                let all = unpacked(graph, &packed, bits)?;
                graph.slice_axis(&all, 2, Expr::ZERO, 1, blocks)?
            }
            None => graph.number(DType::U8, f64::from(1u32 << (bits - 1))),
        };
        let weights = block_values(graph, &numbers, &scales, &points, block)?;
        let bias = node.optional(first + 2).map(|bias| graph.widen(bias)).transpose()?;
        Ok((weights, bias))
    };
    let first = layer(2, "fc1_expert_weight_bits", 11)?;
    let second = layer(5, "fc2_expert_weight_bits", 12)?;
    let third = match node.optional(8) {
        Some(_) => Some(layer(8, "fc3_expert_weight_bits", 13)?),
        None => None,
    };
    mixture(node, graph, &Experts { first, second, third }, true)
}
