//! The cases that `conformance/microsoft_cases.py` wrote into `microsoft.cases`: models of ONNX
//! Runtime's own operators, and what it computes. Integers and strings must be equal, floats within
//! 1e-5, relative or absolute.

use bytes::Bytes;
use import_onnx::proto::{GraphProto, ModelProto, TensorProto, ValueInfoProto};
use import_onnx::{ImportOptions, import_bytes};
use prost::Message;
use tensor::Tensor;

const CASES: &[u8] = include_bytes!("../microsoft.cases");

/// What stands in front of the name of an output that is right.
const EXPECTED: &str = "expected:";

/// What stands in front of the name of an input that must be a constant.
const CONSTANT: &str = "const_";

/// The models of the archive. Those with filters in blocks were recorded where blocks have 16
/// channels; ONNX Runtime itself reads them wrongly on another processor.
pub(crate) fn cases() -> Vec<ModelProto> {
    let mut models = all_cases();
    if !has_long_blocks() {
        let (before, has_blocks) = (models.len(), |model: &ModelProto| {
            let mut nodes = model.graph.iter().flat_map(|graph| &graph.node);
            nodes.any(|node| node.domain == "com.microsoft.nchwc")
        });
        models.retain(|model| !has_blocks(model));
        eprintln!("skipped: {} models with blocks of 16 channels", before - models.len());
    }
    models
}

/// Whether ONNX Runtime puts 16 channels into a block on this processor.
#[cfg(target_arch = "x86_64")]
fn has_long_blocks() -> bool {
    std::arch::is_x86_feature_detected!("avx512f")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_long_blocks() -> bool {
    true
}

fn all_cases() -> Vec<ModelProto> {
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
pub(crate) fn run(model: &ModelProto, inputs: &[Tensor]) -> Result<Vec<Tensor>, String> {
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
    if let Some((own, other)) = found.strings().zip(right.strings()) {
        let is_same = own == other;
        return if is_same { Ok(()) } else { Err(format!("{name}: {own:?}, not {other:?}")) };
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

/// A model of a case with its inputs, and its outputs that are right.
pub(crate) struct Prepared {
    pub(crate) model: ModelProto,
    pub(crate) inputs: Vec<Tensor>,
    right: Vec<Tensor>,
}

/// What a case is called: its operator, and what tells it from others.
pub(crate) fn name(case: &ModelProto) -> &str {
    case.graph.as_ref().map_or("", |graph| &graph.name)
}

impl Prepared {
    /// A case with the inputs for which `is_fed` holds, and others as constants.
    pub(crate) fn of(case: &ModelProto, is_fed: impl Fn(usize) -> bool) -> Prepared {
        let mut model = case.clone();
        let graph = model.graph.as_mut().expect("a graph");
        let (right, given): (Vec<TensorProto>, Vec<TensorProto>) =
            graph.initializer.drain(..).partition(|tensor| tensor.name.starts_with(EXPECTED));
        let (fed, kept): (Vec<_>, Vec<_>) = given
            .into_iter()
            .enumerate()
            .partition(|(at, tensor)| !tensor.name.starts_with(CONSTANT) && is_fed(*at));
        graph.input.retain(|input| fed.iter().any(|(_, tensor)| tensor.name == input.name));
        graph.initializer = kept.into_iter().map(|(_, tensor)| tensor).collect();
        let fed: Vec<TensorProto> = fed.into_iter().map(|(_, tensor)| tensor).collect();
        Prepared { model, inputs: tensors(case, &fed), right: tensors(case, &right) }
    }

    /// Says how results are wrong, if they are.
    pub(crate) fn compare(&self, results: &[Tensor]) -> Result<(), String> {
        let outputs = self.model.graph.as_ref().map_or(&[][..], |graph| &graph.output);
        if results.len() != self.right.len() {
            return Err(format!("{} results, not {}", results.len(), self.right.len()));
        }
        for ((output, found), right) in outputs.iter().zip(results).zip(&self.right) {
            difference(&output.name, found, right)?;
        }
        Ok(())
    }
}
