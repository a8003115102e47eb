//! How much may be put into one kernel.
//!
//! A chain of a hundred thousand maps would otherwise be one expression: its code would not fit any
//! cache, and compiling it takes more than linear time. Where the nodes substituted into one nest
//! become more than [`MOST_NODES`], the operands that bring the most of them are stored instead, so
//! that a kernel begins there.

use base::SecondaryMap;
use graph::{Function, NodeId, ValueId};

use crate::definitions::{Class, class_of_node};

/// The most nodes of one nest, and of all nests of one kernel.
pub(super) const MOST_NODES: usize = 96;

/// Stores values until no nest is too large. Nodes are visited in order, so what an operand brings
/// is known.
pub(super) fn bound(function: &Function, stored: &mut SecondaryMap<ValueId, bool>) {
    // The nodes that an inlined value brings with it, its own included, sorted.
    let mut trees: SecondaryMap<ValueId, Vec<NodeId>> = SecondaryMap::new();
    for &node in &function.regions[function.body].nodes {
        let data = &function.nodes[node];
        let mut operands = data.operands.clone();
        operands.sort_unstable();
        operands.dedup();
        loop {
            let mut tree = Vec::with_capacity(MOST_NODES);
            operands.iter().for_each(|&operand| tree.extend(&trees[operand]));
            tree.push(node);
            tree.sort_unstable();
            tree.dedup();
            if tree.len() <= MOST_NODES {
                for &result in data.results.iter().filter(|&&result| !stored[result]) {
                    trees[result] = tree.clone();
                }
                break;
            }
            let size = |value: &ValueId| trees[*value].len();
            match operands.iter().copied().max_by_key(|value| (size(value), *value)) {
                Some(largest) => store(function, largest, stored, &mut trees),
                None => break,
            }
        }
    }
}

/// Gives a value memory; a view shows that of its operand.
fn store(
    function: &Function,
    value: ValueId,
    stored: &mut SecondaryMap<ValueId, bool>,
    trees: &mut SecondaryMap<ValueId, Vec<NodeId>>,
) {
    trees[value] = Vec::new();
    match function.producer(value) {
        Some((node, _)) if class_of_node(function, node) == Class::View => {
            store(function, function.nodes[node].operands[0], stored, trees);
        }
        _ => stored[value] = true,
    }
}
