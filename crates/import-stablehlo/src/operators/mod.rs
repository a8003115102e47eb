//! The operations: a row each, and how a row is lowered.

mod algebra;
mod body;
mod control;
mod devices;
mod elementwise;
mod elimination;
mod fourier;
mod indexing;
mod lapack;
mod linear;
mod movement;
mod products;
mod quantised;
mod random;
mod reductions;
mod reflections;
mod rotations;
mod special;
mod table;
mod windows;

use front::{Accepted, unsupported};
use tensor::ScalarFunction;

use crate::importer::{Frame, Importer};
use crate::node::{Lowered, Node, Value};
use crate::syntax::{ElementType, ValueType};

pub(crate) use devices::Members;
pub(crate) use quantised::computed_type;
pub(crate) use table::{find, names};

/// What lowers an operation.
pub(crate) type LowerFunction = for<'p> fn(&mut Importer<'p>, &Node<'p>, &mut Frame) -> Lowered;

/// How an operation is lowered.
#[derive(Clone, Copy)]
pub(crate) enum Lower {
    /// Element by element, by one function of the graph's.
    Map(ScalarFunction),
    /// Element by element, by a formula. Bodies of scalars may hold it.
    Elementwise(LowerFunction),
    /// A movement that changes nothing of scalars.
    Movement(LowerFunction),
    /// Of whole tensors.
    Whole(LowerFunction),
}

/// A row of the table.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) lower: Lower,
}

/// The results of an operation.
pub(crate) fn lower<'p>(
    importer: &mut Importer<'p>,
    row: &Row,
    node: &Node<'p>,
    frame: &mut Frame,
) -> Accepted<Vec<Value>> {
    if quantised::is_of_numbers(row.name, node) {
        return quantised::lower(importer, row, node, frame);
    }
    lower_plain(importer, row, node, frame)
}

pub(crate) fn lower_plain<'p>(
    importer: &mut Importer<'p>,
    row: &Row,
    node: &Node<'p>,
    frame: &mut Frame,
) -> Accepted<Vec<Value>> {
    match row.lower {
        Lower::Map(function) => elementwise::map(importer, node, function),
        Lower::Elementwise(lower) => lower(importer, node, frame),
        Lower::Movement(_) if importer.is_lifted => match is_of_scalars(node) {
            true => Ok(vec![node.value(0)?.clone()]),
            false => Err(in_body(node)),
        },
        Lower::Movement(lower) => lower(importer, node, frame),
        Lower::Whole(_) if importer.is_lifted => {
            Err(unsupported(format!("`{}` in a body of scalars", node.operation.name)))
        }
        Lower::Whole(lower) => lower(importer, node, frame),
    }
}

fn in_body(node: &Node<'_>) -> base::Diagnostic {
    unsupported(format!("`{}` of more than scalars in a body of scalars", node.operation.name))
}

/// Whether an operation makes a scalar of one scalar.
fn is_of_scalars(node: &Node<'_>) -> bool {
    let is_scalar = |value: &usize| match &node.function.values[*value] {
        ValueType::Tensor(ty) => ty.shape.iter().all(|extent| *extent == Some(1)),
        _ => false,
    };
    let operation = node.operation;
    !operation.operands.is_empty()
        && is_scalar(&operation.operands[0])
        && operation.results.iter().all(is_scalar)
}

/// Whether an element type is a quantised one.
pub(crate) fn is_quantised(ty: &ValueType) -> bool {
    matches!(ty, ValueType::Tensor(ty) if matches!(ty.element, ElementType::Quantised(_)))
}
