//! Where a model comes from: a file, its bytes, or a graph function.
//!
//! Of which format a file is, its first bytes tell, whatever it is called. A format is a feature of
//! this crate: its importer, a file of this folder, a variant of [`Source`].

#[cfg(feature = "aten")]
mod aten;
#[cfg(feature = "gguf")]
mod gguf;
#[cfg(feature = "onnx")]
mod onnx;
#[cfg(feature = "stablehlo")]
mod stablehlo;
#[cfg(feature = "tflite")]
mod tflite;

#[cfg(feature = "stablehlo")]
pub use stablehlo::checked_functions;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use base::{Diagnostic, Limits, Result, codes};
use bytes::Bytes;
use engine::EngineFile;
use front::{
    Facts, ImportOptions, Imported, ModelInfo, Port, place_in, read_model_file, with_shapes,
};
#[cfg(feature = "aten")]
use import_aten::ExportedProgram;
#[cfg(feature = "gguf")]
use import_gguf::DecoderModel;
#[cfg(feature = "onnx")]
use import_onnx::DecodedModel;
#[cfg(feature = "stablehlo")]
use import_stablehlo::StablehloProgram;
#[cfg(feature = "tflite")]
use import_tflite::TfliteModel;
use module::Module;

use crate::engine::EngineSource;
use crate::options::{KeyValues, Options};

/// A model to compile.
#[derive(Clone, Debug)]
pub enum Source {
    /// A decoded ONNX model.
    #[cfg(feature = "onnx")]
    Model(Arc<DecodedModel>),
    /// A program of PyTorch's.
    #[cfg(feature = "aten")]
    Exported(Arc<ExportedProgram>),
    /// A model of TensorFlow Lite's.
    #[cfg(feature = "tflite")]
    Tflite(Arc<TfliteModel>),
    /// A StableHLO program.
    #[cfg(feature = "stablehlo")]
    Stablehlo(Arc<StablehloProgram>),
    /// A language model in a GGUF file or a safetensors folder.
    #[cfg(feature = "gguf")]
    Decoder(Arc<DecoderModel>),
    /// A module with one graph function, and the constants that it reads.
    Module(Arc<Module>),
    /// An engine file: compiled already.
    Engine(Arc<EngineSource>),
}

/// A source, its format set aside.
enum SourceKind<'a> {
    Model(&'a dyn SourceModel),
    Module(&'a Module),
    Engine(&'a EngineSource),
}

/// A model of a format: what every importer can tell of what it has read.
trait SourceModel {
    /// What the file holds, in the words that there are for ONNX models.
    fn info(&self) -> ModelInfo;

    /// Imports it with what is known of a run.
    fn import(&self, options: &ImportOptions, facts: &Facts) -> Result<Imported>;

    /// Inputs and outputs as it declares them, in the shapes that the options give.
    fn ports(&self, options: &ImportOptions) -> Result<(Vec<Port>, Vec<Port>)>;

    /// Files beside it that it reads, by their names from its folder.
    fn external_files(&self) -> BTreeSet<String> {
        BTreeSet::new()
    }

    /// The bytes of a file that holds all of it, where its format can be written.
    fn self_contained(&self) -> Result<Option<Vec<u8>>> {
        Ok(None)
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
        #[cfg(feature = "gguf")]
        if path.is_dir() {
            let model = DecoderModel::read_folder(path, limits).map_err(place_in(path))?;
            return Ok(Source::Decoder(Arc::new(model)));
        }
        let bytes = read_model_file(path)?;
        match of_told_format(&bytes, limits) {
            Some(source) => source.map_err(place_in(path)),
            #[cfg(feature = "onnx")]
            None => DecodedModel::of_file(path, bytes, limits).map(Source::from),
            #[cfg(not(feature = "onnx"))]
            None => Err(unread()).map_err(place_in(path)),
        }
    }

    /// The bytes of a model file without external data.
    ///
    /// # Errors
    /// Those of the importer.
    pub fn of_bytes(bytes: impl Into<Bytes>, limits: &Limits) -> Result<Source> {
        let bytes = bytes.into();
        match of_told_format(&bytes, limits) {
            Some(source) => source,
            #[cfg(feature = "onnx")]
            None => DecodedModel::of(bytes, limits).map(Source::from),
            #[cfg(not(feature = "onnx"))]
            None => Err(unread()),
        }
    }

    fn of_engine(bytes: Bytes) -> Result<Source> {
        Ok(Source::Engine(Arc::new(EngineSource::of(EngineFile::of(bytes)?)?)))
    }

    fn kind(&self) -> SourceKind<'_> {
        match self {
            #[cfg(feature = "onnx")]
            Source::Model(model) => SourceKind::Model(&**model),
            #[cfg(feature = "aten")]
            Source::Exported(program) => SourceKind::Model(&**program),
            #[cfg(feature = "tflite")]
            Source::Tflite(model) => SourceKind::Model(&**model),
            #[cfg(feature = "stablehlo")]
            Source::Stablehlo(program) => SourceKind::Model(&**program),
            #[cfg(feature = "gguf")]
            Source::Decoder(model) => SourceKind::Model(&**model),
            Source::Module(module) => SourceKind::Module(module),
            Source::Engine(engine) => SourceKind::Engine(engine),
        }
    }

    /// What the file holds; nothing is known of a module.
    pub fn info(&self) -> Option<ModelInfo> {
        match self.kind() {
            SourceKind::Model(model) => Some(model.info()),
            SourceKind::Module(_) => None,
            SourceKind::Engine(engine) => Some(engine.info().clone()),
        }
    }

    /// Imports the model with what is known of a run.
    ///
    /// # Errors
    /// Those of the importer.
    pub(crate) fn import(&self, options: &Options, facts: &Facts) -> Result<Imported> {
        if options.key_values != KeyValues::F32 && !self.chooses_key_values() {
            let message = "the model keeps keys and values in numbers of its own, if any";
            return Err(Diagnostic::error(codes::NOT_LANGUAGE_MODEL, message)
                .because("only those of a GGUF file or a safetensors folder can be chosen")
                .remedy("compile it with `--key-values f32`, as without that option")
                .into());
        }
        match self.kind() {
            SourceKind::Model(model) => model.import(&options.for_import(), facts),
            SourceKind::Engine(engine) => {
                engine.model(&options.limits)?.import(&engine.options(options), facts)
            }
            SourceKind::Module(module) => Ok(Imported::of_module(Module::clone(module))),
        }
    }

    /// Whether options say in which numbers it keeps keys and values.
    fn chooses_key_values(&self) -> bool {
        match self {
            #[cfg(feature = "gguf")]
            Source::Decoder(_) => true,
            Source::Engine(_) => true,
            _ => false,
        }
    }

    /// Inputs and outputs as the model declares them, in the shapes that the options give.
    ///
    /// # Errors
    /// Shapes and dimensions given that do not fit the model.
    pub fn declared(&self, options: &Options) -> Result<(Vec<Port>, Vec<Port>)> {
        match self.kind() {
            SourceKind::Model(model) => model.ports(&options.for_import()),
            SourceKind::Module(module) => Ok(Imported::of_module(Module::clone(module)).ports()),
            SourceKind::Engine(engine) => {
                let (inputs, outputs) = engine.ports();
                let options = engine.without_fixed(options);
                let bound = |port: &Port| port.clone().with_extents(&options.dims);
                let inputs: Vec<Port> = inputs.iter().map(bound).collect();
                let inputs = with_shapes(inputs, &options.for_import(), &BTreeMap::new())?;
                Ok((inputs, outputs.iter().map(bound).collect()))
            }
        }
    }

    /// Files beside the model's that it reads, by their names from its folder.
    pub(crate) fn external_files(&self) -> BTreeSet<String> {
        match self.kind() {
            SourceKind::Model(model) => model.external_files(),
            SourceKind::Module(_) | SourceKind::Engine(_) => BTreeSet::new(),
        }
    }

    /// The bytes of a file that holds all of the model, where its format can be written.
    ///
    /// # Errors
    /// External data that cannot be read.
    pub(crate) fn self_contained(&self) -> Result<Option<Vec<u8>>> {
        match self.kind() {
            SourceKind::Model(model) => model.self_contained(),
            SourceKind::Module(_) | SourceKind::Engine(_) => Ok(None),
        }
    }
}

/// A file of one of the formats whose first bytes tell them apart.
#[cfg_attr(
    not(any(feature = "aten", feature = "gguf", feature = "stablehlo", feature = "tflite")),
    expect(unused_variables, reason = "limits are of formats that this program is built without")
)]
fn of_told_format(bytes: &Bytes, limits: &Limits) -> Option<Result<Source>> {
    let bytes = || bytes.clone();
    if EngineFile::is_one(&bytes()) {
        return Some(Source::of_engine(bytes()));
    }
    #[cfg(feature = "aten")]
    if ExportedProgram::is_one(&bytes()) {
        let program = ExportedProgram::read(bytes(), limits);
        return Some(program.map(|program| Source::Exported(Arc::new(program))));
    }
    #[cfg(feature = "tflite")]
    if TfliteModel::is_one(&bytes()) {
        let model = TfliteModel::read(bytes(), limits);
        return Some(model.map(|model| Source::Tflite(Arc::new(model))));
    }
    #[cfg(feature = "stablehlo")]
    if StablehloProgram::is_one(&bytes()) {
        let program = StablehloProgram::read(&bytes(), limits);
        return Some(program.map(|program| Source::Stablehlo(Arc::new(program))));
    }
    #[cfg(feature = "gguf")]
    if DecoderModel::is_one(&bytes()) {
        let model = DecoderModel::read(bytes(), limits);
        return Some(model.map(|model| Source::Decoder(Arc::new(model))));
    }
    None
}

/// The refusal of a file that may be of a format that this program was built without.
#[cfg(not(feature = "onnx"))]
fn unread() -> base::Diagnostics {
    let message = "the file is of no format that is read here";
    base::Diagnostic::error(base::codes::CANNOT_READ_FILE, message)
        .because("the program was built for some of the formats of models alone")
        .remedy("build it with the feature of the crate `tilewright` that the format goes by")
        .into()
}
