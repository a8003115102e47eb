//! Operators that are derivatives of others: what the forward operator computes is built once more
//! and differentiated, so that each formula is written once.

use base::{Diagnostic, codes};
use front::{Accepted, Graph, Operand, shape_error, type_error};
use graph::Op;

use crate::importer::Values;
use crate::node::{Lowered, Node};
use crate::operators::Lower;
use crate::trace::{Declared, TraceArgument, TraceNode};

/// The gradients of what an operator makes, by tensors among its arguments (`sources` are their
/// places): of a node that is given the gradient by the result, and then those arguments.
pub(crate) fn by_arguments(
    node: &Node<'_>,
    graph: &mut Graph,
    forward: Lower,
    sources: &[usize],
) -> Lowered {
    let cotangent = node.tensor(0, "grad_output")?;
    let arguments = node.call.arguments.get(1..).unwrap_or_default().to_vec();
    let own: Accepted<Vec<Operand>> =
        sources.iter().map(|&place| node.tensor(1 + place, "input")).collect();
    let declared = Declared {
        dtype: cotangent.dtype(),
        is_complex: false,
        shape: cotangent.shape().to_vec(),
        strides: None,
    };
    gradients(graph, &own?, &cotangent, |graph, own| {
        let types = vec![Some(declared)];
        let mut call = TraceNode { types, arguments, named: Vec::new(), ..node.call.clone() };
        let mut values = Values::default();
        for argument in &call.arguments {
            if let TraceArgument::Value(name) = argument {
                let found = node.values.get(name).cloned().unwrap_or_default();
                values.insert(name, found, None);
            }
        }
        for (number, (value, &place)) in own.iter().zip(sources).enumerate() {
            let name = format!("source {number}");
            values.insert(&name, vec![Some(value.clone().into())], None);
            call.arguments[place] = TraceArgument::Value(name);
        }
        let results = forward(&Node { call: &call, values: &values, defined: None }, graph)?;
        results.into_iter().next().ok_or_else(|| shape_error("there is no result"))
    })
}

/// The gradients by `sources` of what `forward` makes of them, from the gradient by its result.
pub(crate) fn gradients(
    graph: &mut Graph,
    sources: &[Operand],
    cotangent: &Operand,
    forward: impl FnOnce(&mut Graph, &[Operand]) -> Accepted<Operand>,
) -> Accepted<Vec<Operand>> {
    let cotangent = graph.data(cotangent)?;
    let mut own = Vec::new();
    for source in sources {
        if !source.dtype().is_float() {
            return Err(type_error(format!("a gradient by {}", source.dtype())));
        }
        // A node of its own: two of the sources may be one value.
        let id = graph.data(source)?;
        let op = Op::Reshape { shape: source.ty().shape.clone() };
        own.push(graph.node(op, &[id])?);
    }
    let first = graph.builder.open_region_nodes().len();
    let result = forward(graph, &own)?;
    let result = graph.data(&result)?;
    let sources: Vec<graph::ValueId> = own.iter().filter_map(Operand::node).collect();
    let gradients = autodiff::gradients(&mut graph.builder, first, result, cotangent, &sources);
    let gradients = gradients.map_err(|found| {
        Diagnostic::error(codes::NO_DERIVATIVE, "the operator cannot be differentiated")
            .because(found.to_string())
            .remedy("leave the node to PyTorch")
    })?;
    gradients.into_iter().map(|id| graph.built(Ok(id))).collect()
}
