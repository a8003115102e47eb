//! The operators of ATen: a table with a row each, and one function each that lowers a node.

mod arithmetic;
mod attention;
pub(crate) mod complex;
mod creation;
mod indexing;
mod movement;
mod normalization;
mod products;
mod quantised;
mod reductions;
mod resize;
mod table;
mod windows;

use base::{Diagnostic, codes};
use front::Graph;

use crate::node::{Lowered, Node};

/// How a node becomes primitives.
pub(crate) type Lower = fn(&Node<'_>, &mut Graph) -> Lowered;

/// A row of the table.
pub(crate) struct Operator {
    /// The name without its overload.
    name: &'static str,
    /// The overloads, separated by blanks.
    overloads: &'static str,
    lower: Lower,
}

/// How an operator is lowered; none if it is not in the table.
pub(crate) fn find(operator: &str) -> Option<Lower> {
    let (name, overload) = operator.rsplit_once('.')?;
    let mut rows = table::TABLE.iter().filter(|row| row.name == name);
    let row = rows.find(|row| row.overloads.split(' ').any(|own| own == overload))?;
    Some(row.lower)
}

/// The names of all operators that are lowered, with their overloads.
pub fn operators() -> Vec<String> {
    let full = |row: &Operator| {
        let name = row.name;
        row.overloads.split(' ').map(move |overload| format!("{name}.{overload}"))
    };
    table::TABLE.iter().flat_map(full).chain(complex::operators()).collect()
}

/// The refusal of an operator that is not in the table.
pub(crate) fn unsupported_operator(operator: &str) -> Diagnostic {
    let message = format!("operator `{operator}` is not supported");
    Diagnostic::error(codes::UNSUPPORTED_OPERATOR, message)
        .because("it is not in the table of operators")
        .remedy("decompose it, or leave the node to PyTorch")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_are_distinct() {
        let mut names = operators();
        names.sort();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(names.iter().all(|name| find(name).is_some() || complex::has(name)));
    }
}
