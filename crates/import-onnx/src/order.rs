//! The order in which nodes can run.
//!
//! ONNX wants nodes sorted; files that are not are sorted here, keeping the file's order where
//! there is a choice. Source: A. B. Kahn, "Topological sorting of large networks" (1962).

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};

use base::{Diagnostic, Diagnostics, IntoTree, codes};

use crate::names::{defined_twice, place, undefined};
use crate::proto::{GraphProto, NodeProto};

/// Indices of the nodes in an order in which each finds its inputs defined. `known` tells the names
/// that are defined before.
///
/// # Errors
/// Diagnostics of names that nothing defines, that two nodes define, and of circles.
pub(crate) fn order(nodes: &[NodeProto], known: &dyn Fn(&str) -> bool) -> base::Result<Vec<usize>> {
    let mut found = Diagnostics::new();
    let mut producers: HashMap<&str, usize> = HashMap::with_capacity(nodes.len());
    for (index, node) in nodes.iter().enumerate() {
        for output in node.output.iter().filter(|output| !output.is_empty()) {
            if producers.insert(output, index).is_some() || known(output) {
                found.push(defined_twice(output).at(place(node, index)));
            }
        }
    }
    let mut is_sorted = true;
    for (index, node) in nodes.iter().enumerate() {
        for name in names_read(node) {
            match producers.get(name) {
                Some(&producer) => is_sorted &= producer < index,
                None if known(name) => {}
                None => found.push(undefined(name).at(place(node, index))),
            }
        }
    }
    found.or_ok(())?;
    if is_sorted {
        return Ok((0..nodes.len()).collect());
    }
    let mut waits = vec![0usize; nodes.len()];
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (index, node) in nodes.iter().enumerate() {
        for producer in names_read(node).into_iter().filter_map(|name| producers.get(name)) {
            waits[index] += 1;
            readers[*producer].push(index);
        }
    }
    run_order(nodes, waits, &readers)
}

fn run_order(
    nodes: &[NodeProto],
    mut waits: Vec<usize>,
    readers: &[Vec<usize>],
) -> base::Result<Vec<usize>> {
    let free = waits.iter().enumerate().filter(|(_, waits)| **waits == 0);
    let mut ready: BinaryHeap<Reverse<usize>> = free.map(|(index, _)| Reverse(index)).collect();
    let mut result = Vec::with_capacity(nodes.len());
    while let Some(Reverse(index)) = ready.pop() {
        result.push(index);
        for &reader in &readers[index] {
            waits[reader] -= 1;
            if waits[reader] == 0 {
                ready.push(Reverse(reader));
            }
        }
    }
    match waits.iter().position(|waits| *waits > 0) {
        None => Ok(result),
        Some(index) => Err(Diagnostic::error(codes::GRAPH_CYCLE, "nodes wait for each other")
            .at(place(&nodes[index], index))
            .because("each needs what another computes, in a circle")
            .remedy("export the model again")
            .into()),
    }
}

/// The names that a node reads, in its own inputs and from graphs inside it, each once, sorted.
pub(crate) fn names_read(node: &NodeProto) -> Vec<&str> {
    let mut names: Vec<&str> =
        node.input.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
    for graph in node.inner_graphs() {
        names.extend(match node.op_type == "If" {
            true => names_captured_by_branch(graph),
            false => names_captured(graph),
        });
    }
    names.sort_unstable();
    names.dedup();
    names
}

/// The names that a graph reads from around it.
pub(crate) fn names_captured(graph: &GraphProto) -> BTreeSet<&str> {
    let mut names = names_captured_by_branch(graph);
    for input in &graph.input {
        names.remove(input.name.as_str());
    }
    names
}

/// The names that a branch of an `If` reads from around it. Nothing is given to a branch: the
/// inputs that some exporters declare are names around it.
pub(crate) fn names_captured_by_branch(graph: &GraphProto) -> BTreeSet<&str> {
    let mut names: BTreeSet<&str> =
        graph.output.iter().map(|output| output.name.as_str()).into_set();
    for node in &graph.node {
        names.extend(names_read(node));
    }
    for tensor in &graph.initializer {
        names.remove(tensor.name.as_str());
    }
    for sparse in graph.sparse_initializer.iter().filter_map(|sparse| sparse.values.as_ref()) {
        names.remove(sparse.name.as_str());
    }
    for output in graph.node.iter().flat_map(|node| &node.output) {
        names.remove(output.as_str());
    }
    names
}
