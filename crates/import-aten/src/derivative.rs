//! Operators that are derivatives of others: what the forward operator computes is built once more
//! and differentiated, so that each formula is written once.

use base::{Diagnostic, codes};
use front::{Accepted, Graph, Operand, type_error};
use graph::Op;

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
