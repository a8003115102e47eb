//! A model through the reference evaluator: slow, and the definition of what is right.

use std::collections::BTreeMap;

use base::{ConstantId, Diagnostic, Diagnostics, Result};
use graph::Function;
use import_onnx::{ImportOptions, Imported, Wanted};
use tensor::{Tensor, Value};

use crate::Options;
use crate::pipeline::constant;
use crate::source::Source;

/// Imports a model, told all that it asks of its inputs, and evaluates it. Returns the function as
/// imported and its results.
///
/// # Errors
/// What is wrong with the model or its inputs; faults of the evaluation.
pub(crate) fn evaluate(
    model: &Source,
    options: &Options,
    inputs: &[Value],
) -> Result<(Function, Vec<Value>)> {
    let ports = model.inspect(&options.limits)?.inputs;
    let (mut names, mut structures) = (Vec::new(), BTreeMap::new());
    for (port, value) in ports.iter().zip(inputs) {
        let structure = value.structure();
        names.extend(structure.names(&port.name));
        structures.insert(port.name.clone(), structure);
    }
    let tensors: Vec<Tensor> = inputs.iter().cloned().flat_map(Value::into_tensors).collect();
    let given: BTreeMap<&String, &Tensor> = names.iter().zip(&tensors).collect();
    let mut import = ImportOptions {
        dims: options.dims.clone(),
        input_shapes: options.input_shapes.clone(),
        literals: options.literals.clone(),
        limits: options.limits.clone(),
        ..ImportOptions::default()
    };
    let (module, outputs, strings) = loop {
        match model.import(&import)? {
            Imported::Module { module, outputs, strings } => break (module, outputs, strings),
            Imported::Asks { inputs, reason } => {
                for (name, wanted) in inputs {
                    if wanted == Wanted::Structure {
                        let Some(structure) = structures.get(&name) else { return Err(reason) };
                        import.input_structures.insert(name, structure.clone());
                        continue;
                    }
                    let Some(input) = given.get(&name) else { return Err(reason) };
                    let shape = input.shape().iter().map(|&extent| extent as i64).collect();
                    import.input_shapes.insert(name.clone(), shape);
                    if wanted == Wanted::Value || wanted == Wanted::Contents {
                        import.input_values.insert(name, (*input).clone());
                    }
                }
            }
        }
    };
    let Some(function) = module.functions.values().next() else {
        unreachable!("an imported module has a function")
    };
    graph::verify(function)?;
    let weights = |id: ConstantId| constant(&module, id);
    let mut results =
        eval::graph::evaluate(function, &weights, &tensors, eval::Precision::Declared)
            .map_err(|fault| Diagnostics::from(Diagnostic::from(fault)))?;
    strings.put_into(&mut results);
    let mut results = results.into_iter();
    let outputs = outputs.iter().filter_map(|it| Value::from_tensors(it, &mut results)).collect();
    Ok((function.clone(), outputs))
}
