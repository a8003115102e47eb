//! A model whose strings, maps and encoded images are read apart from the rest: what a run with
//! new ones does anew is that alone, while the rest is compiled once for all of them.

use std::path::Path;
use std::sync::Arc;

use base::Result;
use import_onnx::proto::ModelProto;
use import_onnx::{Division, Facts, ModelInfo, OutputFrom, divide};
use tensor::{DType, Kind, Tensor, Value};

use crate::Options;
use crate::compile::compile_source;
use crate::executable::Executable;
use crate::reference::{evaluate, read};
use crate::source::Source;

/// The parts of a model.
pub(crate) struct Divided {
    division: Division,
    host: Source,
    /// Those for the host part: nothing of it is compiled.
    options: Options,
    rest: Option<Box<Executable>>,
}

impl Divided {
    /// Divides a model that is run with such inputs; none where that cannot be done, or where the
    /// rest by itself is refused.
    pub(crate) fn new(source: &Source, options: &Options, inputs: &[Value]) -> Option<Divided> {
        let (model, folder) = source.model(&options.limits)?;
        let folder = folder.as_deref();
        let facts = read(source, options, Facts::default(), inputs).ok()?.1;
        let division = divide(&model, folder, &options.for_import(), &facts)?;
        let rest = match &division.rest {
            None => None,
            Some(rest) => Some(Box::new(compile_rest(rest, folder, options).ok()?)),
        };
        let host = Source::Model(Arc::new(division.host.clone()), None);
        let options = Options { limits: options.limits.clone(), ..Options::default() };
        Some(Divided { division, host, options, rest })
    }

    /// The rest, compiled; none where there is none.
    pub(crate) fn rest(&self) -> Option<&Executable> {
        self.rest.as_deref()
    }

    /// Compiles what the rest needs for such inputs, if it is new; none where the host part refuses
    /// them, as the whole model does, which names the node as the file has it.
    pub(crate) fn prepare(&self, inputs: &[Value]) -> Option<Result<()>> {
        let found = self.run_host(inputs)?;
        let Some(rest) = &self.rest else { return Some(Ok(())) };
        tensors(self.inputs_of_rest(inputs, &found)).map(|inputs| rest.prepare(&inputs))
    }

    fn run_host(&self, inputs: &[Value]) -> Option<Vec<Value>> {
        let own: Vec<Value> =
            self.division.host_inputs.iter().map(|&number| inputs[number].clone()).collect();
        evaluate(&self.host, &self.options, &own, eval::EvaluationPrecision::Declared)
            .ok()
            .map(|(_, found)| found)
    }

    fn inputs_of_rest(&self, inputs: &[Value], found: &[Value]) -> Vec<Value> {
        let own = self.division.rest_inputs.iter().map(|&number| inputs[number].clone());
        own.chain(found[..self.division.passed].iter().cloned()).collect()
    }

    /// Runs both parts, with one value an input of the model; none as [`Self::prepare`].
    pub(crate) fn run(&self, inputs: &[Value]) -> Option<Result<Vec<Value>>> {
        let found = self.run_host(inputs)?;
        let rest = match &self.rest {
            None => Vec::new(),
            Some(rest) => match rest.run_values(&self.inputs_of_rest(inputs, &found)) {
                Ok(rest) => rest,
                Err(refusal) => return Some(Err(refusal)),
            },
        };
        let output = |from: &OutputFrom| match *from {
            OutputFrom::Host(number) => found[number].clone(),
            OutputFrom::Rest(number) => rest[number].clone(),
        };
        Some(Ok(self.division.outputs.iter().map(output).collect()))
    }
}

/// Whether a model may be worth dividing: it reads strings, maps or encoded images.
pub(crate) fn may_be_divided(info: &ModelInfo) -> bool {
    info.operators.contains_key("ImageDecoder")
        || info
            .inputs
            .iter()
            .any(|port| port.dtype == Some(DType::String) || port.kind == Some(Kind::Map))
}

fn compile_rest(rest: &ModelProto, folder: Option<&Path>, options: &Options) -> Result<Executable> {
    let info = import_onnx::inspect_model(rest);
    let mut options = options.clone();
    // What is said of dimensions and inputs that the host part alone has.
    options.dims.retain(|name, _| info.dimensions.contains(name));
    options.input_shapes.retain(|name, _| info.inputs.iter().any(|port| port.name == *name));
    let source = Source::Model(Arc::new(rest.clone()), folder.map(Path::to_owned));
    compile_source(source, &options)
}

/// The tensors among values, all of which are some.
pub(crate) fn tensors(values: Vec<Value>) -> Option<Vec<Tensor>> {
    values
        .into_iter()
        .map(|value| match value {
            Value::Tensor(tensor) => Some(tensor),
            _ => None,
        })
        .collect()
}
