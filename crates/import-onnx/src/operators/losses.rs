//! Losses of classifiers.

use front::{Accepted, Graph, Operand, shape_error};
use tensor::{DType, Reduction};

use super::Lowered;
use crate::node::Node;

/// The negative log-likelihood of the right classes; axis 1 counts classes.
pub(super) fn negative_log_likelihood(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    Ok(vec![loss(node, graph, node.input(0)?)?])
}

/// The same of the logarithm of softmax, which is output 1.
pub(super) fn softmax_cross_entropy(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    if x.rank() < 2 {
        return Err(shape_error("the input has no axis of classes"));
    }
    let greatest = graph.reduce_axes(x, &[1], Reduction::Max, true)?;
    let shifted = graph.sub(x, &greatest)?;
    let exp = graph.exp(&shifted)?;
    let sum = graph.reduce_axes(&exp, &[1], Reduction::Sum, true)?;
    let log = graph.log(&sum)?;
    let logarithm = graph.sub(&shifted, &log)?;
    Ok(vec![loss(node, graph, &logarithm)?, logarithm])
}

fn loss(node: &Node<'_>, graph: &mut Graph, x: &Operand) -> Accepted<Operand> {
    let target = node.input(1)?;
    if x.rank() < 2 || target.rank() + 1 != x.rank() {
        let (x, target) = (x.rank(), target.rank());
        return Err(shape_error(format!("classes of rank {target} for an input of rank {x}")));
    }
    let target = graph.cast(target, DType::I64)?;
    let ignored = match node.has("ignore_index") {
        true => {
            let index = tensor::Scalar::i64(node.int("ignore_index", 0)?);
            Some(graph.equal(&target, &Operand::of_scalar(index))?)
        }
        false => None,
    };
    // Ignored classes may lie anywhere; the first one stands for them.
    let zero = graph.number(DType::I64, 0.0);
    let class = match &ignored {
        Some(ignored) => graph.select(ignored, &zero, &target)?,
        None => target.clone(),
    };
    let mut losses = picked(graph, x, &class)?;
    losses = graph.neg(&losses)?;
    let nothing = graph.number(x.dtype(), 0.0);
    let mut weights = None;
    if let Some(given) = node.optional(2) {
        weights = Some(graph.gather(given, &[0], std::slice::from_ref(&class), 0, 0)?);
    }
    if let Some(ignored) = &ignored {
        let full = match weights {
            Some(weights) => weights,
            None => graph.full(class.shape(), tensor::Scalar::one(x.dtype()))?,
        };
        weights = Some(graph.select(ignored, &nothing, &full)?);
    }
    if let Some(weights) = &weights {
        losses = graph.mul(&losses, weights)?;
    }
    let axes: Vec<usize> = (0..losses.rank()).collect();
    match node.word("reduction", &["mean", "none", "sum"])? {
        "none" => Ok(losses),
        "sum" => graph.reduce_axes(&losses, &axes, Reduction::Sum, false),
        _ => match &weights {
            None => graph.mean(&losses, &axes, false),
            Some(weights) => {
                let sum = graph.reduce_axes(&losses, &axes, Reduction::Sum, false)?;
                let total = graph.reduce_axes(weights, &axes, Reduction::Sum, false)?;
                graph.div(&sum, &total)
            }
        },
    }
}

/// `x[n, class[n, ...], ...]`
fn picked(graph: &mut Graph, x: &Operand, class: &Operand) -> Accepted<Operand> {
    let mut shape = class.shape().to_vec();
    for (axis, extent) in shape.iter_mut().enumerate() {
        *extent = x.shape()[if axis == 0 { 0 } else { axis + 1 }].clone();
    }
    let class = graph.refine(class, &shape)?;
    let mut indices = vec![class.clone()];
    for axis in 1..class.rank() {
        indices.push(graph.iota(DType::I64, &shape, axis)?);
    }
    let axes: Vec<usize> = (1..x.rank()).collect();
    graph.gather(x, &axes, &indices, 1, 0)
}
