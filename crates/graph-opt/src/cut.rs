//! The cut: what depends on weights alone becomes the function `setup`, the rest `main`.
//!
//! before: `main(x) = x + broadcast(w * s)`, `w` and `s` weights
//! after:  `setup() = w * s` and `main(x, c) = x + broadcast(c)`
//!
//! Values cross at their smallest: nodes that only repeat, count or rename (`Broadcast`, `Reshape`,
//! `Iota`, literals) are computed again in `main`, and a weight that `main` reads as it is stays a
//! `Weight` there. Run after dead nodes are gone and equal nodes are one.

use base::{Arena, Diagnostic, IdSet, Result, SecondaryMap, codes};
use graph::{Definition, Function, NodeId, Op, ValueId, rebuild};

/// The two halves of a function.
#[derive(Clone, Debug, PartialEq)]
pub struct Cut {
    /// No parameters; its results are the constants that `main` needs.
    pub setup: Function,
    /// Its parameters: those of the whole, then one for each result of `setup`.
    pub main: Function,
}

/// Cuts a function in two.
///
/// # Errors
/// An internal error if a half is ill-typed.
pub fn cut(function: Function) -> Result<Cut> {
    let crossing = crossing_values(&function);
    let main = main_of(&function, &crossing).map_err(|reason| {
        Diagnostic::error(codes::INTERNAL_ERROR, format!("the cut is ill-typed: {reason}"))
    })?;
    Ok(Cut { setup: setup_of(function, &crossing), main })
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
    let mut seen = IdSet::new();
    while let Some(value) = work.pop() {
        if !constants.contains(value) || !seen.insert(value) {
            continue;
        }
        let Definition::Result(id, _) = function.values[value].definition else { continue };
        if is_recomputed(&function.nodes[id].op) {
            work.extend(&function.nodes[id].operands);
        } else {
            crossing.insert(id);
        }
    }
    let order = function.nodes_in_order().into_iter().filter(|&id| crossing.contains(id));
    order.flat_map(|id| function.nodes[id].results.clone()).collect()
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

fn setup_of(function: Function, crossing: &[ValueId]) -> Function {
    let mut setup = function;
    setup.name = "setup".to_owned();
    setup.symbols = Arena::new();
    setup.assumptions = Vec::new();
    setup.parameter_names = Vec::new();
    setup.result_names = (0..crossing.len()).map(constant_name).collect();
    let body = setup.body;
    setup.regions[body].parameters = Vec::new();
    setup.regions[body].results = crossing.to_vec();
    setup.compact();
    setup
}

fn main_of(function: &Function, crossing: &[ValueId]) -> std::result::Result<Function, String> {
    let mut numbers: SecondaryMap<ValueId, Option<usize>> = SecondaryMap::new();
    for (number, &value) in crossing.iter().enumerate() {
        numbers[value] = Some(number);
    }
    let mut main = rebuild(function, |rewriter, id| {
        let results = &rewriter.source.nodes[id].results;
        let number = |&value: &ValueId| numbers[value];
        // All results of a node cross, or none.
        let Some(numbers) = results.iter().map(number).collect::<Option<Vec<usize>>>() else {
            return Ok(None);
        };
        let crossing = numbers.into_iter().zip(results).map(|(number, &value)| {
            rewriter.builder.parameter(constant_name(number), rewriter.source.ty(value).clone())
        });
        let parameters: Vec<ValueId> = crossing.collect();
        Ok((!parameters.is_empty()).then_some(parameters))
    })?;
    main.name = "main".to_owned();
    Ok(main)
}

fn constant_name(number: usize) -> String {
    format!("constant{number}")
}
