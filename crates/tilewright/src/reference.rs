//! A model through the reference evaluator: slow, and the definition of what is right.

use base::limits::exceeded;
use base::{ConstantId, Diagnostic, Diagnostics, Result};
use bytes::Bytes;
use eval::{EvaluationPrecision, Settings};
use front::{Facts, Imported};
use graph::Function;
use module::Module;
use tensor::{Given, Value};

use crate::facts::{Inputs, attempt};
use crate::options::Options;
use crate::source::Source;

/// What the reference evaluator makes of a model, given as the bytes of a file without external
/// data. `precision` is that of all floats; in f64, outputs of float type are of type f64.
///
/// # Errors
/// What is wrong with the model or its inputs; faults of the evaluation.
pub fn evaluate_bytes(
    model: impl Into<Bytes>,
    options: &Options,
    inputs: &[Value],
    precision: EvaluationPrecision,
) -> Result<Vec<Value>> {
    Ok(evaluate(&Source::of_bytes(model, &options.limits)?, options, inputs, precision)?.1)
}

/// Imports a model for inputs with these components, with these facts and all others that it needs
/// of them.
///
/// # Errors
/// What is wrong with the model or its inputs.
pub fn read(
    model: &Source,
    options: &Options,
    facts: Facts,
    components: &[Value],
) -> Result<(Imported, Facts)> {
    let evaluate = |imported: &Imported| {
        let precision = EvaluationPrecision::Declared;
        evaluated(&imported.module, imported.function(), options, components, precision)
    };
    let make = |facts: &Facts| model.import(options, facts);
    let inputs = Inputs { ports: &model.declared(options)?.0, components };
    inputs.settle(&options.limits, facts, make, |imported| &imported.needs, evaluate)
}

/// What a function of a module gives.
pub(crate) fn evaluated<G: Given>(
    module: &Module,
    function: &Function,
    options: &Options,
    inputs: &[G],
    precision: EvaluationPrecision,
) -> Result<Vec<Value>> {
    graph::verify(function)?;
    let operations = eval::graph::operations(function, inputs);
    let most = options.limits.operations;
    if operations > most {
        let message = format!("the evaluator would take {operations} operations");
        let refusal = exceeded("operations", operations, message).at("a run of the model");
        return Err(refusal.because(format!("at most {most} are accepted")).into());
    }
    let weights = |id: ConstantId| module.constants[id].tensor.clone();
    let settings = Settings { precision, most_turns: options.limits.turns };
    eval::graph::evaluate_observed(function, &weights, inputs, settings, &mut |_, _| ())
        .map_err(|fault| Diagnostics::from(Diagnostic::from(fault)))
}

/// Imports a model with the facts that it needs, and evaluates it. Returns the function as imported
/// and its results.
///
/// # Errors
/// What is wrong with the model or its inputs; faults of the evaluation.
pub fn evaluate(
    model: &Source,
    options: &Options,
    inputs: &[Value],
    precision: EvaluationPrecision,
) -> Result<(Function, Vec<Value>)> {
    let components = Value::components_of(inputs);
    let (imported, results) = attempt(&|facts| {
        let (imported, _) = read(model, options, facts, &components)?;
        let function = imported.function();
        let results = evaluated(&imported.module, function, options, &components, precision)?;
        Ok((imported, results))
    })?;
    let outputs = Value::all_from_components(&imported.outputs, results);
    Ok((Function::clone(imported.function()), outputs))
}
