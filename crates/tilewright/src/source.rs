//! Where a model comes from: a file, its bytes, or a graph function.
//!
//! Of which format a file is, its first bytes tell, whatever it is called.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use base::{Limits, Result};
use bytes::Bytes;
use engine::EngineFile;
use front::{Facts, ImportOptions, Imported, Port, with_shapes};
use import_aten::ExportedProgram;
use import_gguf::DecoderModel;
use import_onnx::{DecodedModel, ModelInfo, place_in, read_model_file};
use import_stablehlo::{CheckedFunction, StablehloProgram};
use import_tflite::TfliteModel;
use module::Module;

use crate::engine::EngineSource;
use crate::options::Options;

/// A model to compile.
#[derive(Clone, Debug)]
pub enum Source {
    /// A decoded ONNX model.
    Model(Arc<DecodedModel>),
    /// A program of PyTorch's.
    Exported(Arc<ExportedProgram>),
    /// A model of TensorFlow Lite's.
    Tflite(Arc<TfliteModel>),
    /// A StableHLO program.
    Stablehlo(Arc<StablehloProgram>),
    /// A language model in a GGUF file or a safetensors folder.
    Decoder(Arc<DecoderModel>),
    /// A module with one graph function, and the constants that it reads.
    Module(Arc<Module>),
    /// An engine file: compiled already.
    Engine(Arc<EngineSource>),
}

impl From<DecodedModel> for Source {
    fn from(model: DecodedModel) -> Source {
        Source::Model(Arc::new(model))
    }
}

impl Source {
    /// A model file, in whose folder its external data is looked for, or the folder of a language
    /// model.
    ///
    /// # Errors
    /// Those of the importer.
    pub fn read(path: impl AsRef<Path>, limits: &Limits) -> Result<Source> {
        let path = path.as_ref();
        if path.is_dir() {
            let model = DecoderModel::read_folder(path, limits).map_err(place_in(path))?;
            return Ok(Source::Decoder(Arc::new(model)));
        }
        let bytes = read_model_file(path)?;
        match of_other_format(&bytes, limits) {
            Some(source) => source.map_err(place_in(path)),
            None => DecodedModel::of_file(path, bytes, limits).map(Source::from),
        }
    }

    /// The bytes of a model file without external data.
    ///
    /// # Errors
    /// Those of the importer.
    pub fn of_bytes(bytes: impl Into<Bytes>, limits: &Limits) -> Result<Source> {
        let bytes = bytes.into();
        match of_other_format(&bytes, limits) {
            Some(source) => source,
            None => DecodedModel::of(bytes, limits).map(Source::from),
        }
    }

    fn of_engine(bytes: Bytes) -> Result<Source> {
        Ok(Source::Engine(Arc::new(EngineSource::of(EngineFile::of(bytes)?)?)))
    }

    /// What the file holds; nothing is known of a module.
    pub fn info(&self) -> Option<ModelInfo> {
        match self {
            Source::Model(model) => Some(model.info()),
            Source::Exported(program) => Some(info_of(program)),
            Source::Tflite(model) => Some(info_of_tflite(model)),
            Source::Stablehlo(program) => Some(info_of_stablehlo(program)),
            Source::Decoder(model) => Some(info_of_decoder(model)),
            Source::Module(_) => None,
            Source::Engine(engine) => Some(engine.info().clone()),
        }
    }

    /// Imports the model with what is known of a run.
    ///
    /// # Errors
    /// Those of the importer.
    pub(crate) fn import(&self, options: &Options, facts: &Facts) -> Result<Imported> {
        match self {
            Source::Model(model) => model.import(&options.for_import(), facts),
            Source::Exported(program) => program.import(&options.for_import()),
            Source::Tflite(model) => model.import(&options.for_import()),
            Source::Stablehlo(program) => program.import(&options.for_import()),
            Source::Decoder(model) => model.import(&options.for_import()),
            Source::Module(module) => Ok(Imported::of_module(Module::clone(module))),
            Source::Engine(engine) => {
                engine.model(&options.limits)?.import(&engine.options(options), facts)
            }
        }
    }

    /// Inputs and outputs as the model declares them, in the shapes that the options give.
    ///
    /// # Errors
    /// Shapes and dimensions given that do not fit the model.
    pub fn declared(&self, options: &Options) -> Result<(Vec<Port>, Vec<Port>)> {
        match self {
            Source::Model(model) => {
                let ModelInfo { inputs, outputs, .. } = model.info();
                let bound = |port: Port| port.with_extents(&options.dims);
                let inputs = with_shapes(inputs, &options.for_import(), &BTreeMap::new())?;
                Ok((inputs, outputs.into_iter().map(bound).collect()))
            }
            Source::Exported(program) => program.ports(&options.for_import()),
            Source::Tflite(model) => model.ports(&options.for_import()),
            Source::Stablehlo(program) => program.ports(&options.for_import()),
            Source::Decoder(model) => model.ports(&options.for_import()),
            Source::Module(module) => Ok(Imported::of_module(Module::clone(module)).ports()),
            Source::Engine(engine) => {
                let (inputs, outputs) = engine.ports();
                let options = engine.without_fixed(options);
                let bound = |port: &Port| port.clone().with_extents(&options.dims);
                let inputs: Vec<Port> = inputs.iter().map(bound).collect();
                let inputs = with_shapes(inputs, &options.for_import(), &BTreeMap::new())?;
                Ok((inputs, outputs.iter().map(bound).collect()))
            }
        }
    }
}

/// A file of one of the formats whose first bytes tell them apart from ONNX's.
fn of_other_format(bytes: &Bytes, limits: &Limits) -> Option<Result<Source>> {
    let bytes = || bytes.clone();
    if EngineFile::is_one(&bytes()) {
        return Some(Source::of_engine(bytes()));
    }
    if ExportedProgram::is_one(&bytes()) {
        let program = ExportedProgram::read(bytes(), limits);
        return Some(program.map(|program| Source::Exported(Arc::new(program))));
    }
    if TfliteModel::is_one(&bytes()) {
        let model = TfliteModel::read(bytes(), limits);
        return Some(model.map(|model| Source::Tflite(Arc::new(model))));
    }
    if StablehloProgram::is_one(&bytes()) {
        let program = StablehloProgram::read(&bytes(), limits);
        return Some(program.map(|program| Source::Stablehlo(Arc::new(program))));
    }
    if DecoderModel::is_one(&bytes()) {
        let model = DecoderModel::read(bytes(), limits);
        return Some(model.map(|model| Source::Decoder(Arc::new(model))));
    }
    None
}

/// What is known of an exported program, in the words that there are for ONNX models.
fn info_of(program: &ExportedProgram) -> ModelInfo {
    let free = ImportOptions::default();
    let (inputs, outputs) = program.ports(&free).unwrap_or_default();
    let weights = program.weights();
    ModelInfo {
        name: "exported program".to_owned(),
        graph_description: String::new(),
        producer: format!("PyTorch {}", program.torch_version()).trim_end().to_owned(),
        producer_name: "PyTorch".to_owned(),
        domain: String::new(),
        description: String::new(),
        version: 0,
        metadata: BTreeMap::new(),
        ir_version: program.schema().0,
        opsets: program.opsets().to_vec(),
        inputs,
        outputs,
        dimensions: program.dimensions(),
        parameters: weights.iter().map(|weight| weight.len() as u64).sum(),
        parameter_bytes: weights.iter().map(|weight| weight.bytes().len() as u64).sum(),
        operators: program.operators(),
        unsupported: program.unsupported(),
    }
}

/// What is known of a model of TensorFlow Lite's, in the same words.
fn info_of_tflite(model: &TfliteModel) -> ModelInfo {
    let free = ImportOptions::default();
    let (inputs, outputs) = model.ports(&free).unwrap_or_default();
    let (parameters, parameter_bytes) = model.parameters();
    ModelInfo {
        name: model.name().to_owned(),
        graph_description: String::new(),
        producer: model.description().to_owned(),
        producer_name: "TensorFlow Lite".to_owned(),
        domain: String::new(),
        description: String::new(),
        version: 0,
        metadata: model.metadata(),
        ir_version: i64::from(model.version()),
        opsets: Vec::new(),
        inputs,
        outputs,
        dimensions: model.dimensions(),
        parameters,
        parameter_bytes,
        operators: model.operators(),
        unsupported: model.unsupported(),
    }
}

/// What is known of a StableHLO program, in the same words.
fn info_of_stablehlo(program: &StablehloProgram) -> ModelInfo {
    let free = ImportOptions::default();
    let (inputs, outputs) = program.ports(&free).unwrap_or_default();
    let (parameters, parameter_bytes) = program.parameters();
    ModelInfo {
        name: program.name().to_owned(),
        graph_description: String::new(),
        producer: match program.producer() {
            "" => "StableHLO".to_owned(),
            producer => producer.to_owned(),
        },
        producer_name: "StableHLO".to_owned(),
        domain: String::new(),
        description: String::new(),
        version: 0,
        metadata: BTreeMap::new(),
        ir_version: 0,
        opsets: Vec::new(),
        inputs,
        outputs,
        dimensions: program.dimensions(),
        parameters,
        parameter_bytes,
        operators: program.operations(),
        unsupported: program.unsupported(),
    }
}

/// The functions of a StableHLO text that check their own values, each with its checks. A text may
/// hold several programs, lines `// -----` between them.
///
/// # Errors
/// A text that is not UTF-8. What a part or a function is refused for stands in its place.
pub fn checked_functions(
    bytes: &Bytes,
    options: &Options,
) -> Result<Vec<(String, Result<CheckedFunction>)>> {
    let import = options.for_import();
    let mut found = Vec::new();
    for part in import_stablehlo::parts(bytes)? {
        match StablehloProgram::read(&part, &options.limits) {
            Ok(program) => found.extend(program.checked_functions(&import)),
            Err(refused) => found.push((String::new(), Err(refused))),
        }
    }
    Ok(found)
}

/// What is known of a language model, in the same words; its operators are the
/// formats of its tensors.
fn info_of_decoder(model: &DecoderModel) -> ModelInfo {
    let (inputs, outputs) = model.ports(&ImportOptions::default()).unwrap_or_default();
    let (parameters, parameter_bytes) = model.parameters();
    let metadata = model.metadata();
    let text = |key: &str| metadata.get(key).cloned().unwrap_or_default();
    ModelInfo {
        name: text("general.name"),
        graph_description: String::new(),
        producer: format!("{}, architecture {}", model.file().origin, model.architecture()),
        producer_name: model.file().origin.to_string(),
        domain: String::new(),
        description: text("general.description"),
        version: 0,
        ir_version: i64::from(model.file().version),
        opsets: Vec::new(),
        inputs,
        outputs,
        dimensions: model.dimensions(),
        parameters,
        parameter_bytes,
        operators: model.formats(),
        unsupported: BTreeMap::new(),
        metadata,
    }
}
