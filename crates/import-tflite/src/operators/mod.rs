//! The operators of TensorFlow Lite: a table with a row each, and one function each that lowers a
//! node.

mod activations;
mod control;
mod convolution;
mod elementwise;
mod movement;
mod names;
mod pooling;
mod quantise;
mod reductions;
mod resize;
mod table;

use front::Graph;

use crate::importer::Importer;
use crate::node::{Lowered, Node};
pub(crate) use names::name_of;

/// How a node becomes primitives.
#[derive(Clone, Copy)]
pub(crate) enum Lower {
    /// By itself.
    Plain(fn(&Node<'_>, &mut Graph) -> Lowered),
    /// With graphs of the file inside of it.
    WithGraphs(fn(&Node<'_>, &mut Importer<'_>) -> Lowered),
}

/// A row of the table.
pub(crate) struct Operator {
    /// The name in the schema.
    pub(crate) name: &'static str,
    /// The greatest version that is supported; all before it are.
    pub(crate) version: i32,
    /// The number of the table of its options in the schema; 0 where any will do, since it reads
    /// none.
    pub(crate) options: u8,
    pub(crate) lower: Lower,
}

/// How the operator of a number is lowered; none if it is not in the table.
pub(crate) fn find(number: i32) -> Option<&'static Operator> {
    let name = name_of(number);
    table::TABLE.iter().find(|row| row.name == name)
}

/// All rows.
pub(crate) fn rows() -> impl Iterator<Item = &'static Operator> {
    table::TABLE.iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_distinct_and_in_the_schema() {
        let mut names: Vec<&str> = rows().map(|row| row.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        let known: Vec<String> = (0..256).map(name_of).collect();
        assert!(names.iter().all(|name| known.iter().any(|known| known == name)));
    }
}
