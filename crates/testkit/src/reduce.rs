//! What of a random graph function it takes to fail.
//!
//! Random functions are grown from a seed, so that one of fewer nodes still holds all that was
//! grown before the node that matters. Here a function that fails loses what it fails without:
//! free extents, results, inputs, and the nodes in front of a value, which becomes an input that
//! holds what the evaluator computes for it.

use std::collections::BTreeMap;

use base::{ConstantId, Id, SecondaryMap};
use eval::EvaluationPrecision;
use graph::{Definition, Function, NodeId, Type, ValueId};
use sym::Expr;
use tensor::Tensor;

use crate::GraphSample;

/// The smallest sample that is found by leaving parts out of one for which `fails` holds; it holds
/// for that, too. How much is left does not depend on how much there was, but on what is wrong.
pub fn reduce(sample: &GraphSample, fails: &mut dyn FnMut(&GraphSample) -> bool) -> GraphSample {
    let mut best = sample.clone();
    let mut try_it = |best: &mut GraphSample, candidate: Option<GraphSample>| {
        let Some(candidate) =
            candidate.filter(|candidate| graph::verify(&candidate.function).is_ok())
        else {
            return false;
        };
        let found = fails(&candidate);
        if found {
            *best = candidate;
        }
        found
    };
    let fixed = with_fixed_extents(&best);
    try_it(&mut best, Some(fixed));
    let body = best.function.body;
    for node in best.function.regions[body].nodes.clone() {
        let up_to = with_results_of(&best, node);
        if try_it(&mut best, Some(up_to)) {
            break;
        }
    }
    // Nodes are numbered anew by each success, so that all are tried again.
    let mut number = 0;
    while number < best.function.regions[best.function.body].nodes.len() {
        let body = &best.function.regions[best.function.body].nodes;
        let cut = cut_before(&best, body[body.len() - 1 - number]);
        match try_it(&mut best, cut) {
            true => number = 0,
            false => number += 1,
        }
    }
    for number in (0..best.inputs.len()).rev() {
        let fewer = without_input(&best, number);
        try_it(&mut best, fewer);
    }
    best
}

fn with_fixed_extents(sample: &GraphSample) -> GraphSample {
    let mut sample = sample.clone();
    let function = &mut sample.function;
    if let Ok(symbols) = eval::graph::bind_symbols(function, &sample.inputs) {
        let value = |(symbol, value): (_, &Option<i64>)| Some((symbol, Expr::constant((*value)?)));
        let values: BTreeMap<_, Expr> = symbols.iter().filter_map(value).collect();
        function.substitute(&values);
    }
    sample
}

/// The sample with nothing behind a node.
fn with_results_of(sample: &GraphSample, node: NodeId) -> GraphSample {
    let mut sample = sample.clone();
    let function = &mut sample.function;
    let results = function.nodes[node].results.to_vec();
    function.result_names = (0..results.len()).map(|number| format!("result {number}")).collect();
    let body = function.body;
    function.regions[body].results = results;
    function.compact();
    sample
}

fn without_input(sample: &GraphSample, number: usize) -> Option<GraphSample> {
    let mut sample = sample.clone();
    let function = &mut sample.function;
    let value = function.parameters()[number];
    if !function.users()[value].is_empty() {
        return None;
    }
    let body = function.body;
    function.regions[body].parameters.remove(number);
    function.parameter_names.remove(number);
    for (number, parameter) in function.regions[body].parameters.clone().into_iter().enumerate() {
        function.values[parameter].definition = Definition::Parameter(body, number as u32);
    }
    function.compact();
    sample.inputs.remove(number);
    Some(sample)
}

/// The sample with the results of a node as inputs. Of types that name a free extent there are
/// none.
fn cut_before(sample: &GraphSample, node: NodeId) -> Option<GraphSample> {
    let values = values_of(sample)?;
    let mut sample = sample.clone();
    let function = &mut sample.function;
    let body = function.body;
    for value in function.nodes[node].results.clone() {
        let is_constant = |extent: &Expr| extent.as_constant().is_some();
        let Type::Tensor(ty) = function.ty(value) else { return None };
        if !ty.shape.iter().all(is_constant) {
            return None;
        }
        // An input that is a result at once would be no smaller.
        if function.results().contains(&value) {
            return None;
        }
        let number = function.regions[body].parameters.len();
        function.values[value].definition = Definition::Parameter(body, number as u32);
        function.regions[body].parameters.push(value);
        function.parameter_names.push(format!("input {number} of the cut"));
        sample.inputs.push(values[value].clone()?);
    }
    function.regions[body].nodes.retain(|&other| other != node);
    function.compact();
    Some(sample)
}

/// What the evaluator computes for the values of the body.
fn values_of(sample: &GraphSample) -> Option<SecondaryMap<ValueId, Option<Tensor>>> {
    let mut values: SecondaryMap<ValueId, Option<Tensor>> = SecondaryMap::new();
    let constants = |id: ConstantId| sample.constants[id.index()].clone();
    let function: &Function = &sample.function;
    eval::graph::evaluate_observed(
        function,
        &constants,
        &sample.inputs,
        EvaluationPrecision::Declared,
        &mut |value, tensor| values[value] = Some(tensor.clone()),
    )
    .ok()?;
    Some(values)
}
