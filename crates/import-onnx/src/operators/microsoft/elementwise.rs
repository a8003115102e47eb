//! Functions of elements, some with a bias or an activation fused in.

use front::{Accepted, Graph, Operand, shape_error};
use sym::Expr;

use super::Lowered;
use crate::node::{Node, attribute_error};
use crate::operators::activations::{clamped_line, swish_of};
use crate::operators::convolution::conv;
use crate::operators::matmul::gemm;
use crate::operators::recurrent::Activation;
use front::gelu_of;

/// The first result of a lowering.
pub(super) fn only(lowered: Lowered) -> Accepted<Operand> {
    let first = lowered?.into_iter().next();
    first.ok_or_else(|| shape_error("an operator without results"))
}

/// The activation that the attribute `activation` names, with parameters in order.
pub(super) fn activated(
    node: &Node<'_>,
    graph: &mut Graph,
    x: &Operand,
    parameters: &[f32],
) -> Accepted<Operand> {
    let mut alphas = parameters.iter().copied();
    match node.string("activation", "")? {
        "" => Ok(x.clone()),
        "Clip" => match parameters {
            [low, high] => graph.clamp(x, f64::from(*low), f64::from(*high)),
            _ => Err(attribute_error("activation_params", "`Clip` has two parameters")),
        },
        "Gelu" => gelu_of(graph, x, true),
        "HardSwish" => graph.rounded_once(x, |graph, x| {
            let gate = clamped_line(graph, x, 1.0 / 6.0, 0.5)?;
            graph.mul(x, &gate)
        }),
        "Silu" | "Swish" => graph.rounded_once(x, |graph, x| swish_of(graph, x, 1.0)),
        name => {
            let mut betas = parameters.iter().skip(1).copied();
            Activation::named(name, &mut alphas, &mut betas)?.apply(graph, x)
        }
    }
}

/// A convolution, with another value added, then an activation.
pub(super) fn fused_conv(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let mut result = only(conv(node, graph))?;
    if let Some(other) = node.optional(3) {
        let other = graph.refine(other, result.shape())?;
        result = graph.add(&result, &other)?;
    }
    let parameters = node.floats("activation_params")?.unwrap_or_default();
    Ok(vec![activated(node, graph, &result, &parameters)?])
}

/// `Gemm`, then an activation.
pub(super) fn fused_gemm(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let result = only(gemm(node, graph))?;
    let mut parameters = Vec::new();
    for name in ["activation_alpha", "activation_beta"] {
        if node.has(name) {
            parameters.push(node.float(name, 0.0)? as f32);
        }
    }
    Ok(vec![activated(node, graph, &result, &parameters)?])
}

/// A vector added along the last axis.
pub(super) fn add_vector(
    graph: &mut Graph,
    x: &Operand,
    vector: Option<&Operand>,
) -> Accepted<Operand> {
    let Some(vector) = vector else { return Ok(x.clone()) };
    let Some(last) = x.rank().checked_sub(1) else {
        return Err(shape_error("a bias for a value without axes"));
    };
    let spread = graph.broadcast_axis(vector, x.shape(), last)?;
    graph.add(x, &spread)
}

/// GELU of `a + b`, where `b` is a vector: `BiasGelu`, and `FastGelu` by the formula with tanh.
pub(super) fn gelu(node: &Node<'_>, graph: &mut Graph, exact: bool) -> Lowered {
    let sum = add_vector(graph, node.input(0)?, node.optional(1))?;
    Ok(vec![gelu_of(graph, &sum, exact)?])
}

/// `x * sigmoid(alpha * x)`
pub(super) fn quick_gelu(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let alpha = node.float("alpha", 1.702)?;
    Ok(vec![graph.rounded_once(node.input(0)?, |graph, x| swish_of(graph, x, alpha))?])
}

/// `z * sigmoid(z)` of `z = scale * x`, rounded to the type of `x` after each of the three.
pub(super) fn scaled_silu(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let wide = graph.widen(x)?;
    let scaled = match node.optional(1) {
        Some(scale) => {
            let scale = graph.cast(scale, wide.dtype())?;
            let scale = graph.reshape(&scale, &[])?;
            graph.mul(&wide, &scale)?
        }
        None => graph.mul_number(&wide, node.float("alpha", 1.0)?)?,
    };
    let scaled = graph.cast(&scaled, x.dtype())?;
    let gate = graph.rounded_once(&scaled, Graph::sigmoid)?;
    Ok(vec![graph.mul(&scaled, &gate)?])
}

/// `x + y * gate`, where the gate has one element a row.
pub(super) fn gated_add(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    if node.optional(3).is_some() {
        return Err(crate::node::unsupported("a gate that is projected"));
    }
    let (x, y, gate) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let y = graph.refine(y, x.shape())?;
    let gated = graph.mul(&y, gate)?;
    Ok(vec![graph.add(x, &gated)?])
}

/// The gates of linear attention: `scale * softplus(a + bias)`, and `sigmoid(b)`.
pub(super) fn linear_attention_gate(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let a = node.input(0)?;
    let wide = graph.widen(a)?;
    let shifted = add_vector(graph, &wide, Some(node.input(1)?))?;
    let soft = graph.softplus(&shifted)?;
    let decay = graph.mul(&soft, node.input(2)?)?;
    let mut results = vec![graph.cast(&decay, a.dtype())?];
    if let Some(b) = node.optional(3) {
        results.push(graph.rounded_once(b, Graph::sigmoid)?);
    }
    Ok(results)
}

/// Streams `[.., c, h]`, of which the last two axes may be one that `num_branches` splits.
fn branches(node: &Node<'_>, graph: &mut Graph, x: &Operand) -> Accepted<Operand> {
    let count = node.int("num_branches", 0)?;
    if count == 0 {
        return match x.rank() {
            0 | 1 => Err(shape_error("streams need an axis of branches and one of features")),
            _ => Ok(x.clone()),
        };
    }
    match x.shape() {
        [lead @ .., width] if count > 0 && width.divisible_by(count) => {
            let count = Expr::from(count);
            let split = [lead, &[count.clone(), width.floor_div(&count)]].concat();
            graph.reshape(x, &split)
        }
        _ => Err(attribute_error("num_branches", "the features do not fall into so many")),
    }
}

/// Gates `[.., c]`, `[.., c, 1]`, `[.., c, h]` or `[.., c * h]` so that they multiply streams.
fn gates(graph: &mut Graph, gate: &Operand, streams: &Operand) -> Accepted<Operand> {
    let gate = graph.widen(gate)?;
    let (rank, shape) = (streams.rank(), streams.shape());
    if gate.rank() == rank {
        return Ok(gate);
    }
    let is_flat =
        gate.shape().last().is_some_and(|last| *last == &shape[rank - 2] * &shape[rank - 1]);
    match is_flat && !shape[rank - 1].is_one() {
        true => graph.reshape(&gate, shape),
        false => graph.reshape(&gate, &[gate.shape(), &[Expr::ONE]].concat()),
    }
}

/// The streams of all branches weighted and added up.
pub(super) fn streams_joined(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let streams = branches(node, graph, x)?;
    let wide = graph.widen(&streams)?;
    let gate = gates(graph, node.input(1)?, &streams)?;
    let weighted = graph.mul(&wide, &gate)?;
    let axis = streams.rank() - 2;
    let sum = graph.reduce_axes(&weighted, &[axis], tensor::Reduction::Sum, false)?;
    let scaled = graph.mul_number(&sum, node.float("reduction_scale", 1.0)?)?;
    Ok(vec![graph.cast(&scaled, x.dtype())?])
}

/// The streams mixed by a matrix, and what a block gives added to each.
pub(super) fn streams_mixed(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let streams = branches(node, graph, x)?;
    let axis = streams.rank() - 2;
    let mut mixed = graph.widen(&streams)?;
    if let Some(mix) = node.optional(3) {
        let mix = graph.widen(mix)?;
        if mix.rank() != streams.rank() {
            return Err(shape_error(format!("a mixing matrix of rank {}", mix.rank())));
        }
        let mut order: Vec<usize> = (0..mix.rank()).collect();
        order.swap(axis, axis + 1);
        let turned = graph.transpose(&mix, &order)?;
        mixed = front::product(graph, &turned, &mixed)?;
    }
    let gate = gates(graph, node.input(2)?, &streams)?;
    let block = graph.widen(node.input(1)?)?;
    let mut shape = block.shape().to_vec();
    shape.insert(axis.min(shape.len()), Expr::ONE);
    let block = graph.reshape(&block, &shape)?;
    let added = graph.mul(&gate, &block)?;
    let sum = graph.add(&mixed, &added)?;
    let sum = graph.cast(&sum, x.dtype())?;
    Ok(vec![graph.reshape(&sum, x.shape())?])
}
