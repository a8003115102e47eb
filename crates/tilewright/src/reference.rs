//! A model through the reference evaluator: slow, and the definition of what is right.

use base::{ConstantId, Diagnostic, Diagnostics, Result};
use bytes::Bytes;
use eval::{EvaluationPrecision, Settings};
use graph::Function;
use import_onnx::Imported;
use tensor::{Tensor, Value};

use crate::Options;
use crate::pipeline::{Given, Told, constant};
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
    Ok(evaluate(&Source::Bytes(model.into()), options, inputs, precision)?.1)
}

/// Imports a model, told all that it asks of its inputs, and evaluates it. Returns the function as
/// imported and its results.
///
/// # Errors
/// What is wrong with the model or its inputs; faults of the evaluation.
pub(crate) fn evaluate(
    model: &Source,
    options: &Options,
    inputs: &[Value],
    precision: EvaluationPrecision,
) -> Result<(Function, Vec<Value>)> {
    let given = Given::new(model, options, inputs)?;
    let mut told = Told::default();
    let (module, outputs, strings) = loop {
        match model.import(&told.import_options(options))? {
            Imported::Module { module, outputs, strings } => break (module, outputs, strings),
            Imported::Asks { inputs, reason, .. } if !told.answer(&inputs, &given) => {
                return Err(reason);
            }
            Imported::Asks { .. } => {}
        }
    };
    let Some(function) = module.functions.values().next() else {
        unreachable!("an imported module has a function")
    };
    graph::verify(function)?;
    let tensors: Vec<Tensor> = inputs.iter().cloned().flat_map(Value::into_tensors).collect();
    let weights = |id: ConstantId| constant(&module, id);
    let settings = Settings { precision, most_turns: options.limits.turns };
    let mut results = eval::graph::evaluate(function, &weights, &tensors, settings)
        .map_err(|fault| Diagnostics::from(Diagnostic::from(fault)))?;
    strings.put_into(&mut results);
    let mut results = results.into_iter();
    let outputs = outputs.iter().filter_map(|it| Value::from_tensors(it, &mut results)).collect();
    Ok((Function::clone(function), outputs))
}
