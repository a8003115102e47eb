//! Control flow.

use super::Lowered;
use crate::model::Importer;
use crate::node::{Node, unsupported};

/// One of two graphs. A condition known to compile picks the graph now.
pub(super) fn branch(node: &Node<'_>, importer: &mut Importer<'_>) -> Lowered {
    let condition = node.input(0)?.known().and_then(|known| known.first()?.constant());
    let Some(condition) = condition else {
        return Err(unsupported("its condition is computed from data"));
    };
    let taken = if condition.as_bool() { "then_branch" } else { "else_branch" };
    importer.inline(node.graph(taken)?)
}
