//! Operators of ONNX Runtime's own domains against what ONNX Runtime computes: the cases that
//! `conformance/microsoft_cases.py` wrote into `microsoft.cases`. Each runs twice: with all values
//! as inputs, and with all but the first as constants. Integers must be equal, floats within 1e-5,
//! relative or absolute.

use std::collections::BTreeMap;

use bytes::Bytes;
use import_onnx::proto::{GraphProto, ModelProto, TensorProto, ValueInfoProto};
use import_onnx::{ImportOptions, import_bytes};
use prost::Message;
use tensor::Tensor;

const CASES: &[u8] = include_bytes!("microsoft.cases");

/// What stands in front of the name of an output that is right.
const EXPECTED: &str = "expected:";

/// What stands in front of the name of an input that must be a constant.
const CONSTANT: &str = "const_";

/// The models of the archive.
fn cases() -> Vec<ModelProto> {
    let mut rest = CASES;
    let mut models = Vec::new();
    while let Some((length, behind)) = rest.split_first_chunk::<4>() {
        let (model, behind) = behind.split_at(u32::from_le_bytes(*length) as usize);
        models.push(ModelProto::decode(model).expect("a model of the archive"));
        rest = behind;
    }
    models
}

/// The results of a model; the inputs of its function are given.
fn run(model: &ModelProto, inputs: &[Tensor]) -> Result<Vec<Tensor>, String> {
    let bytes: Bytes = model.encode_to_vec().into();
    let module =
        import_bytes(bytes, &ImportOptions::default()).map_err(|found| found.to_string())?;
    let function = module.functions.values().next().ok_or("no function")?;
    graph::verify(function).map_err(|found| found.to_string())?;
    let constant = |id| module.constants[id].tensor.clone();
    let precision = eval::EvaluationPrecision::Declared;
    eval::graph::evaluate(function, &constant, inputs, precision).map_err(|fault| fault.to_string())
}

/// Tensors of a file, as a model reads them whose outputs are its constants.
fn tensors(model: &ModelProto, tensors: &[TensorProto]) -> Vec<Tensor> {
    if tensors.is_empty() {
        return Vec::new();
    }
    let output = |tensor: &TensorProto| ValueInfoProto {
        name: tensor.name.clone(),
        ..ValueInfoProto::default()
    };
    let graph = GraphProto {
        output: tensors.iter().map(output).collect(),
        initializer: tensors.to_vec(),
        ..GraphProto::default()
    };
    let constants = ModelProto { graph: Some(graph), ..model.clone() };
    run(&constants, &[]).expect("constants as outputs")
}

/// The greatest difference that is allowed, of an element of this size.
fn tolerance(right: &Tensor, value: f64) -> f64 {
    let unit = match right.dtype() {
        dtype if !dtype.is_float() => return 0.0,
        dtype if dtype.bits() < 32 => 2e-3,
        _ => 1e-5,
    };
    unit * value.abs().max(1.0)
}

/// Says how a result is wrong, if it is.
fn difference(name: &str, found: &Tensor, right: &Tensor) -> Result<(), String> {
    if found.dtype() != right.dtype() || found.shape() != right.shape() {
        let (own, other) = (found.shape(), right.shape());
        return Err(format!("{name}: {}{own:?}, not {}{other:?}", found.dtype(), right.dtype()));
    }
    let pairs = found.to_f64_vec().into_iter().zip(right.to_f64_vec());
    let is_near =
        |a: f64, b: f64| a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= tolerance(right, b);
    let wrong: Vec<(usize, (f64, f64))> =
        pairs.enumerate().filter(|(_, (a, b))| !is_near(*a, *b)).collect();
    match wrong.first() {
        None => Ok(()),
        Some((at, (a, b))) => {
            let (count, all) = (wrong.len(), right.len());
            Err(format!("{name}[{at}] is {a}, not {b}; {count} of {all} are wrong"))
        }
    }
}

/// Runs a case with the inputs for which `is_fed` holds, and others as constants.
fn check(case: &ModelProto, is_fed: impl Fn(usize, &str) -> bool) -> Result<(), String> {
    let mut model = case.clone();
    let graph = model.graph.as_mut().ok_or("no graph")?;
    let (right, given): (Vec<TensorProto>, Vec<TensorProto>) =
        graph.initializer.drain(..).partition(|tensor| tensor.name.starts_with(EXPECTED));
    let (fed, kept): (Vec<_>, Vec<_>) = given
        .into_iter()
        .enumerate()
        .partition(|(at, tensor)| !tensor.name.starts_with(CONSTANT) && is_fed(*at, &tensor.name));
    graph.input.retain(|input| fed.iter().any(|(_, tensor)| tensor.name == input.name));
    graph.initializer = kept.into_iter().map(|(_, tensor)| tensor).collect();
    let fed: Vec<TensorProto> = fed.into_iter().map(|(_, tensor)| tensor).collect();
    let inputs = tensors(case, &fed);
    let results = run(&model, &inputs)?;
    let outputs = model.graph.as_ref().map_or(&[][..], |graph| &graph.output);
    for ((output, found), right) in outputs.iter().zip(&results).zip(tensors(case, &right)) {
        difference(&output.name, found, &right)?;
    }
    Ok(())
}

#[test]
fn operators_are_as_in_onnx_runtime() {
    let (mut counts, mut wrong) = (BTreeMap::<String, usize>::new(), Vec::new());
    let only = std::env::var("TILEWRIGHT_CASES").unwrap_or_default();
    for case in cases() {
        let name = case.graph.as_ref().map_or("", |graph| &graph.name).to_owned();
        if !name.contains(&only) {
            continue;
        }
        *counts.entry(name.split(' ').next().unwrap_or("").to_owned()).or_default() += 1;
        for (way, fed) in [("inputs", true), ("constants", false)] {
            if let Err(reason) = check(&case, |at, _| fed || at == 0) {
                wrong.push(format!("{name}, as {way}: {reason}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} cases are wrong:\n{}", wrong.len(), wrong.join("\n"));
    let few: Vec<&str> =
        counts.iter().filter(|(_, count)| **count < 10).map(|(name, _)| name.as_str()).collect();
    assert!(!only.is_empty() || few.is_empty(), "operators with few cases: {few:?}");
}
