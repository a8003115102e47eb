//! One execution: whatever the bytes are, no panic, no diagnostic that blames the compiler, and no
//! result but the evaluator's.

use std::collections::BTreeMap;

use tilewright::{
    DType, Diagnostics, EvaluationPrecision, Executable, Kind, Limits, Options, Port, PortExtent,
    TargetChoice, Tensor, Value,
};

/// How far an element may be from the evaluator's, relative to the largest of the tensor; besides,
/// as far as a few times what the evaluator's own rounding changes there or on average: an element
/// that it rounds luckily need not be one that we do.
const TOLERANCE: f64 = 1e-3;
const ROUNDINGS: f64 = 16.0;

/// The limits of an execution: small, so that many fit into a second, and so that all of them are
/// met.
#[must_use]
pub fn limits() -> Limits {
    Limits {
        file_bytes: 1 << 20,
        decoded_bytes: 1 << 25,
        nesting: 8,
        nodes: 2000,
        primitives: 1 << 14,
        elements: 1 << 17,
        computed_elements: 1 << 16,
        iterations: 1 << 11,
        turns: 1 << 8,
        dimension: 64,
        memory_bytes: 1 << 24,
        ..Limits::default()
    }
}

/// Imports the bytes.
pub fn import(bytes: &[u8]) {
    let limits = limits();
    let bytes = bytes::Bytes::copy_from_slice(bytes);
    _ = import_onnx::DecodedModel::of(bytes.clone(), &limits).map(|model| model.info());
    let options = import_onnx::ImportOptions { limits, ..Default::default() };
    match import_onnx::import_bytes(bytes, &options) {
        Ok(module) => {
            for (_, function) in module.functions.iter() {
                graph::verify(function).unwrap_or_else(|found| panic!("{found}"));
            }
        }
        Err(found) => judge(&found),
    }
}

/// Compiles the bytes, for one of the targets, and runs the model on small inputs; whether a result
/// was compared with the evaluator's.
pub fn compile_and_run(bytes: &[u8]) -> bool {
    let target = if bytes.len().is_multiple_of(2) { "x86-64-v3" } else { "native" };
    let options = Options {
        target: match target {
            "native" => TargetChoice::Native,
            name => TargetChoice::Named(name.to_owned()),
        },
        threads: Some(1),
        limits: limits(),
        ..Options::default()
    };
    let executable = match tilewright::compile_bytes(bytes.to_vec(), &options) {
        Ok(executable) => executable,
        Err(found) => {
            judge(&found);
            return false;
        }
    };
    let mut is_compared = false;
    for extent in [2, 1] {
        let inputs: Option<Vec<Value>> = inputs(executable.inputs(), extent);
        let Some(inputs) = inputs else { return is_compared };
        match executable.run_values(&inputs) {
            Ok(actual) => is_compared |= compare(bytes, &options, &executable, &inputs, &actual),
            Err(found) => judge(&found),
        }
    }
    is_compared
}

/// The limits of what the evaluator computes, which is slow.
fn limits_of_evaluation() -> Limits {
    Limits { nodes: 200, elements: 1 << 12, ..limits() }
}

/// Compares results with the evaluator's; whether it gives any within its limits.
fn compare(
    bytes: &[u8],
    options: &Options,
    executable: &Executable,
    inputs: &[Value],
    actual: &[Value],
) -> bool {
    let mut options = Options { limits: limits_of_evaluation(), ..options.clone() };
    let named = executable.inputs().iter().zip(inputs);
    let named = named.map(|(port, value)| (port.name.clone(), value.clone()));
    options.bind_shapes(&named.collect());
    let evaluate = |precision| {
        tilewright::evaluate_bytes(bytes.to_vec(), &options, inputs, precision)
            .map(|values| values.into_iter().flat_map(Value::into_tensors).collect::<Vec<_>>())
    };
    let Ok(expected) = evaluate(EvaluationPrecision::Declared) else { return false };
    let actual: Vec<Tensor> = actual.iter().cloned().flat_map(Value::into_tensors).collect();
    assert_eq!(actual.len(), expected.len(), "as many results as the evaluator gives");
    let is_equal = |(actual, expected)| tilewright::compare(actual, expected, 0.0, 0.0).passed();
    if actual.iter().zip(&expected).all(is_equal) {
        return true;
    }
    let Ok(exact) = evaluate(EvaluationPrecision::F64) else { return false };
    for (number, (actual, expected)) in actual.iter().zip(&expected).enumerate() {
        let Some(exact) = exact.get(number) else { return false };
        if let Some(difference) = difference(actual, expected, exact) {
            panic!("result {number} is not the evaluator's: {difference}");
        }
    }
    true
}

/// What tells a result from the evaluator's in its own types, if it cannot be rounding; `exact` is
/// the evaluator's in f64.
fn difference(actual: &Tensor, expected: &Tensor, exact: &Tensor) -> Option<String> {
    let comparison = tilewright::compare(actual, expected, 0.0, 0.0);
    if comparison.passed() || comparison.type_error.is_some() {
        return comparison.type_error;
    }
    // Where rounding decides about shapes, integers or strings, nothing is said.
    let is_float = expected.dtype().is_float();
    let same_shape = exact.shape() == expected.shape();
    if !same_shape || !is_float && !tilewright::compare(exact, expected, 0.0, 0.0).passed() {
        return None;
    }
    if !is_float {
        return Some(comparison.to_string());
    }
    let largest = expected.to_f64_vec().into_iter().filter(|x| x.is_finite());
    let largest = largest.fold(0.0_f64, |most, x| most.max(x.abs()));
    let roundings = (0..expected.len()).map(|index| expected.get_f64(index) - exact.get_f64(index));
    let roundings: Vec<f64> = roundings.map(f64::abs).filter(|by| by.is_finite()).collect();
    let average = roundings.iter().sum::<f64>() / roundings.len().max(1) as f64;
    (0..expected.len()).find_map(|index| {
        let (a, b, c) = (actual.get_f64(index), expected.get_f64(index), exact.get_f64(index));
        let rounding = (b - c).abs();
        let is_near = a == b
            || a.is_nan() && b.is_nan()
            || !rounding.is_finite()
            || (a - b).abs() <= TOLERANCE * largest + ROUNDINGS * rounding.max(average);
        (!is_near).then(|| format!("{comparison}; element {index} is {a} instead of {b} ({c})"))
    })
}

/// Small inputs; free dimensions of one name have one extent. None for what is large or no tensor.
fn inputs(ports: &[Port], extent: usize) -> Option<Vec<Value>> {
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    let mut values = Vec::new();
    for (number, port) in ports.iter().enumerate() {
        let mut shape = Vec::new();
        for dim in &port.shape {
            shape.push(match dim {
                PortExtent::Fixed(extent) => *extent,
                PortExtent::Symbolic(name) => *names.entry(name).or_insert(extent),
                PortExtent::Any => extent,
            });
        }
        let count = shape.iter().try_fold(1usize, |count, extent| count.checked_mul(*extent))?;
        if count > 1 << 17 {
            return None;
        }
        let tensor = match port.dtype? {
            DType::String => Tensor::from_strings(&shape, vec!["a b".to_owned(); count]),
            dtype => tilewright::random(dtype, &shape, number as u64),
        };
        values.push(match &port.kind {
            Kind::Tensor => tensor.into(),
            Kind::Sequence(inner) if **inner == Kind::Tensor => {
                Value::Sequence(vec![tensor.clone().into(), tensor.into()])
            }
            Kind::Optional(inner) if **inner == Kind::Tensor => {
                Value::Optional((extent > 1).then(|| Box::new(tensor.into())))
            }
            _ => return None,
        });
    }
    Some(values)
}

/// A refusal is right; a bug of the compiler is not. Nor is a diagnostic without a remedy.
fn judge(found: &Diagnostics) {
    for diagnostic in found.iter() {
        assert!(!diagnostic.code.starts_with("TW09"), "{found}");
    }
}
