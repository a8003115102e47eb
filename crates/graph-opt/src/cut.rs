//! The cut: what depends on weights alone becomes the function `setup`, the rest `main`.
//!
//! before: `main(x) = x + broadcast(w * s)`, `w` and `s` weights
//! after:  `setup() = w * s` and `main(x, c) = x + broadcast(c)`
//!
//! Values cross at their smallest: nodes that only repeat, count or rename (`Broadcast`, `Reshape`,
//! `Iota`, literals) are computed again in `main`, and a weight that `main` reads as it is stays a
//! `Weight` there. Where `main` only looks up elements of what is larger than the constants it is
//! made of, element by element (a quantised table of embeddings), it makes those elements. Run
//! after dead nodes are gone and equal nodes are one.

use base::{Arena, IdSet};
use graph::{Definition, Function, NodeId, Op, User, ValueId, element_count};

/// The two halves of a function.
#[derive(Clone, Debug, PartialEq)]
pub struct Cut {
    /// No parameters; its results are the constants that `main` needs.
    pub setup: Function,
    /// Its parameters: those of the whole, then one for each result of `setup`.
    pub main: Function,
}

/// Cuts a function in two.
#[must_use]
pub fn cut(function: Function) -> Cut {
    let crossing = crossing_values(&function);
    Cut { setup: setup_of(&function, &crossing), main: main_of(function, &crossing) }
}

/// The constant values that `main` reads, in order of definition; all results of their nodes.
fn crossing_values(function: &Function) -> Vec<ValueId> {
    let constants = function.constant_values();
    let mut crossing: IdSet<NodeId> = IdSet::new();
    let mut work: Vec<ValueId> = function.results().to_vec();
    for id in function.nodes_in_order() {
        let node = &function.nodes[id];
        if node.results.iter().any(|&result| !constants.contains(result)) {
            work.extend(&node.operands);
            work.extend(node.regions.iter().flat_map(|&region| &function.regions[region].results));
        }
    }
    let users = function.users();
    let looked_up = |value: ValueId| {
        let is_read = |user: &User| match *user {
            User::Operand(node, number) => {
                let made = function.nodes[node].results.first();
                made.is_some_and(|&made| constants.contains(made))
                    || number == 0 && matches!(function.nodes[node].op, Op::Gather { .. })
            }
            User::Result(..) => false,
        };
        users[value].iter().all(is_read) && outgrows_its_leaves(function, value)
    };
    let (mut seen, mut looked_through) = (IdSet::new(), IdSet::new());
    while let Some(value) = work.pop() {
        if !constants.contains(value) || !seen.insert(value) {
            continue;
        }
        let Definition::Result(id, _) = function.values[value].definition else { continue };
        let op = &function.nodes[id].op;
        if is_elementwise(op) && (looked_through.contains(value) || looked_up(value)) {
            function.nodes[id].operands.iter().for_each(|it| _ = looked_through.insert(*it));
            work.extend(&function.nodes[id].operands);
        } else if is_recomputed(op) {
            work.extend(&function.nodes[id].operands);
        } else {
            crossing.insert(id);
        }
    }
    let order = function.nodes_in_order().into_iter().filter(|&id| crossing.contains(id));
    order.flat_map(|id| function.nodes[id].results.clone()).collect()
}

/// Whether an element of what a node makes follows from an element of each operand.
fn is_elementwise(op: &Op) -> bool {
    matches!(op, Op::Map { .. } | Op::Bitcast { .. } | Op::Broadcast { .. } | Op::Reshape { .. })
}

/// Whether a value takes at least twice the memory of all that it is made of, element by element.
fn outgrows_its_leaves(function: &Function, value: ValueId) -> bool {
    let bits = |value: ValueId| -> Option<i64> {
        let ty = function.ty(value).as_tensor()?;
        Some(element_count(&ty.shape).as_constant()? * i64::from(ty.dtype.bits()))
    };
    let (mut work, mut seen, mut leaves) = (vec![value], IdSet::new(), 0);
    while let Some(next) = work.pop() {
        if !seen.insert(next) {
            continue;
        }
        match function.producer(next) {
            Some((id, _)) if is_elementwise(&function.nodes[id].op) => {
                work.extend(&function.nodes[id].operands);
            }
            _ => match bits(next) {
                Some(bits) => leaves += bits,
                None => return false,
            },
        }
    }
    bits(value).is_some_and(|bits| bits >= 2 * leaves)
}

/// Whether a constant node is cheaper to compute again than to keep.
fn is_recomputed(op: &Op) -> bool {
    matches!(
        op,
        Op::Literal(_)
            | Op::Weight { .. }
            | Op::Iota { .. }
            | Op::Broadcast { .. }
            | Op::Reshape { .. }
    )
}

fn setup_of(function: &Function, crossing: &[ValueId]) -> Function {
    let mut setup = function.part(Vec::new(), crossing.to_vec());
    setup.name = "setup".to_owned();
    setup.symbols = Arena::new();
    setup.result_names = (0..crossing.len()).map(constant_name).collect();
    setup
}

fn main_of(function: Function, crossing: &[ValueId]) -> Function {
    let mut parameters = [function.parameters(), crossing].concat();
    if base::fault::is_seeded("graph-opt.cut") {
        parameters[function.parameters().len()..].reverse();
    }
    let results = function.results().to_vec();
    let mut main = function.into_part(parameters, results);
    main.name = "main".to_owned();
    main.parameter_names.extend((0..crossing.len()).map(constant_name));
    main
}

fn constant_name(number: usize) -> String {
    format!("constant{number}")
}
