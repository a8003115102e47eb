//! Gradients and steps of optimisers, from the preview domain for training.
//!
//! Inputs of a step are the learning rate, the number of steps so far, and then for each of `n`
//! parameters its value, its gradient and what the optimiser keeps of it, grouped by kind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::{Diagnostic, IntoTree, codes};
use front::{Accepted, Graph, Operand, shape_error, type_error};
use tensor::{Scalar, ScalarFunction as F};

use super::Lowered;
use crate::importer::{Importer, Scope};
use crate::node::{Node, attribute_error};
use crate::order::{names_read, order};
use crate::proto::NodeProto;

/// `Gradient`: what `y` is computed from, with the inputs in the places of the names `xs` and `zs`,
/// differentiated by `xs`. That part of the graph is lowered once more, so that nothing in it has
/// been folded away; what both compute alike becomes one.
pub(super) fn gradient(node: &Node<'_>, importer: &mut Importer<'_>) -> Lowered {
    let by = node.strings("xs")?.unwrap_or_default();
    let mut names = by.clone();
    names.extend(node.strings("zs")?.unwrap_or_default());
    let inputs = node.all_inputs()?;
    if by.is_empty() || names.len() != inputs.len() {
        let (names, inputs) = (names.len(), inputs.len());
        return Err(attribute_error("xs", format!("{names} names for {inputs} inputs")));
    }
    let of = node.string("y", "")?.to_owned();
    let mut given = Vec::new();
    for (number, (name, value)) in names.into_iter().zip(inputs).enumerate() {
        // A value of a node is not folded.
        let id = importer.graph.data(&value)?;
        let value = match number < by.len() {
            true if !value.dtype().is_float() => {
                return Err(type_error(format!("`{name}` holds {}, no floats", value.dtype())));
            }
            true => importer.graph.built(Ok(id))?,
            false => value,
        };
        given.push((name, value));
    }
    let sources: Vec<graph::ValueId> =
        given.iter().take(by.len()).filter_map(|(_, value)| value.node()).collect();
    let first = importer.graph.builder.open_region_nodes().len();
    let drawn = importer.graph.random_nodes;
    let result = importer.lower_again(&of, given)?;
    let refuse = |reason: String| {
        Diagnostic::error(codes::NO_DERIVATIVE, format!("`{of}` cannot be differentiated"))
            .because(reason)
            .remedy("export the model without the gradient, or with another operation there")
    };
    if importer.graph.random_nodes != drawn {
        return Err(refuse("it draws random numbers without a seed".to_owned()));
    }
    if !result.dtype().is_float() {
        return Err(refuse(format!("it holds {}", result.dtype())));
    }
    let graph = &mut importer.graph;
    let value = graph.data(&result)?;
    let one = graph.full(result.shape(), Scalar::from_f64(result.dtype(), 1.0))?;
    let one = graph.data(&one)?;
    let gradients = autodiff::gradients(&mut graph.builder, first, value, one, &sources)
        .map_err(|found| refuse(found.to_string()))?;
    gradients.into_iter().map(|id| importer.graph.built(Ok(id))).collect()
}

impl Importer<'_> {
    /// Lowers what a name of the current graph is computed from once more, with these values for
    /// some of the names on the way.
    fn lower_again(&mut self, name: &str, given: Vec<(String, Operand)>) -> Accepted<Operand> {
        let nodes = self.differentiated.last().cloned().unwrap_or_default();
        let mut producers: BTreeMap<&str, usize> = BTreeMap::new();
        for (index, node) in nodes.iter().enumerate() {
            producers.extend(node.output.iter().map(|output| (output.as_str(), index)));
        }
        let given: Scope = given.into_iter().map(|(name, value)| (name.into(), value)).collect();
        let mut needed = BTreeSet::new();
        let mut work = vec![name];
        while let Some(name) = work.pop() {
            if let Some(&index) = producers.get(name).filter(|_| !given.contains_key(name))
                && needed.insert(index)
            {
                work.extend(names_read(&nodes[index]));
            }
        }
        let needed: Vec<NodeProto> = needed.into_iter().map(|index| nodes[index].clone()).collect();
        let outputs: BTreeSet<&str> =
            needed.iter().flat_map(|node| &node.output).map(String::as_str).into_set();
        // A given name may be one of several that a node defines.
        let given_names: BTreeSet<Arc<str>> = given.keys().cloned().into_set();
        self.nested(given, |importer| {
            let known = |name: &str| {
                importer.lookup(name).is_some() && !outputs.contains(name)
                    || given_names.contains(name)
            };
            for index in order(&needed, &known)? {
                importer.node(&needed[index], index)?;
            }
            Ok(importer.value_of(name)?)
        })
    }
}

/// Applies a step to each parameter: `step(rate, count, [value, gradient, kept...])` gives the new
/// value and what is kept, which are grouped by kind again.
fn each(
    node: &Node<'_>,
    graph: &mut Graph,
    kinds: usize,
    step: impl Fn(&mut Graph, &Operand, &Operand, &[Operand]) -> Accepted<Vec<Operand>>,
) -> Lowered {
    let inputs = node.all_inputs()?;
    let (head, rest) = inputs.split_at(inputs.len().min(2));
    if head.len() < 2 || rest.is_empty() || rest.len() % kinds != 0 {
        return Err(shape_error(format!("{} inputs are not {kinds} a parameter", rest.len())));
    }
    let count = rest.len() / kinds;
    let mut results = vec![Vec::new(); kinds - 1];
    for parameter in 0..count {
        let own: Vec<Operand> =
            (0..kinds).map(|kind| rest[kind * count + parameter].clone()).collect();
        let rate = graph.cast(&head[0], own[0].dtype())?;
        for (column, value) in results.iter_mut().zip(step(graph, &rate, &head[1], &own)?) {
            column.push(value);
        }
    }
    Ok(results.concat())
}

/// The gradient with that of a penalty on large parameters.
fn regularised(graph: &mut Graph, factor: f64, own: &[Operand]) -> Accepted<Operand> {
    let penalty = graph.mul_number(&own[0], factor)?;
    graph.add(&penalty, &own[1])
}

/// A number to the power of a count of steps.
fn power(graph: &mut Graph, base: f64, count: &Operand, like: &Operand) -> Accepted<Operand> {
    let count = graph.cast(count, like.dtype())?;
    let base = graph.number(like.dtype(), base);
    graph.map(F::Pow, &[&base, &count])
}

/// `Adagrad`.
pub(super) fn adagrad(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let decay = node.float("decay_factor", 0.0)?;
    let epsilon = node.float("epsilon", 1e-6)?;
    let penalty = node.float("norm_coefficient", 0.0)?;
    each(node, graph, 3, |graph, rate, count, own| {
        let count = graph.cast(count, own[0].dtype())?;
        let decayed = graph.mul_number(&count, decay)?;
        let divisor = graph.add_number(&decayed, 1.0)?;
        let rate = graph.div(rate, &divisor)?;
        let gradient = regularised(graph, penalty, own)?;
        let square = graph.square(&gradient)?;
        let squares = graph.add(&own[2], &square)?;
        let root = graph.sqrt(&squares)?;
        let root = graph.add_number(&root, epsilon)?;
        let scaled = graph.mul(&rate, &gradient)?;
        let change = graph.div(&scaled, &root)?;
        Ok(vec![graph.sub(&own[0], &change)?, squares])
    })
}

/// `Adam`.
pub(super) fn adam(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (alpha, beta) = (node.float("alpha", 0.9)?, node.float("beta", 0.999)?);
    let epsilon = node.float("epsilon", 1e-6)?;
    let penalty = node.float("norm_coefficient", 0.0)?;
    let after = node.float("norm_coefficient_post", 0.0)?;
    each(node, graph, 4, |graph, rate, count, own| {
        let gradient = regularised(graph, penalty, own)?;
        let average =
            |graph: &mut Graph, keep: f64, old: &Operand, new: &Operand| -> Accepted<Operand> {
                let (old, new) = (graph.mul_number(old, keep)?, graph.mul_number(new, 1.0 - keep)?);
                graph.add(&old, &new)
            };
        let momentum = average(graph, alpha, &own[2], &gradient)?;
        let square = graph.square(&gradient)?;
        let squares = average(graph, beta, &own[3], &square)?;
        let root = graph.sqrt(&squares)?;
        let root = graph.add_number(&root, epsilon)?;
        // The averages begin at zero, which is made up for once there have been steps.
        let missing = |graph: &mut Graph, base: f64| -> Accepted<Operand> {
            let left = power(graph, base, count, &own[0])?;
            let left = graph.neg(&left)?;
            graph.add_number(&left, 1.0)
        };
        let (second, first) = (missing(graph, beta)?, missing(graph, alpha)?);
        let second = graph.sqrt(&second)?;
        let corrected = graph.mul(rate, &second)?;
        let corrected = graph.div(&corrected, &first)?;
        let rate = since_start(graph, count, &corrected, rate)?;
        let direction = graph.div(&momentum, &root)?;
        let change = graph.mul(&rate, &direction)?;
        let moved = graph.sub(&own[0], &change)?;
        Ok(vec![graph.mul_number(&moved, 1.0 - after)?, momentum, squares])
    })
}

/// One value if there have been steps, another at the first.
fn since_start(
    graph: &mut Graph,
    count: &Operand,
    later: &Operand,
    first: &Operand,
) -> Accepted<Operand> {
    let zero = Operand::of_scalar(Scalar::zero(count.dtype()));
    let started = graph.greater(count, &zero)?;
    graph.select(&started, later, first)
}

/// `Momentum`, plain or Nesterov's.
pub(super) fn momentum(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (alpha, beta) = (node.float("alpha", 0.0)?, node.float("beta", 0.0)?);
    let penalty = node.float("norm_coefficient", 0.0)?;
    let is_nesterov = node.word("mode", &["standard", "nesterov"])? == "nesterov";
    each(node, graph, 3, |graph, rate, count, own| {
        let gradient = regularised(graph, penalty, own)?;
        let (factor, one) =
            (graph.number(gradient.dtype(), beta), graph.number(gradient.dtype(), 1.0));
        let factor = since_start(graph, count, &factor, &one)?;
        let kept = graph.mul_number(&own[2], alpha)?;
        let added = graph.mul(&factor, &gradient)?;
        let momentum = graph.add(&kept, &added)?;
        let direction = match is_nesterov {
            true => {
                let ahead = graph.mul_number(&momentum, alpha)?;
                graph.add(&gradient, &ahead)?
            }
            false => momentum.clone(),
        };
        let change = graph.mul(rate, &direction)?;
        Ok(vec![graph.sub(&own[0], &change)?, momentum])
    })
}
