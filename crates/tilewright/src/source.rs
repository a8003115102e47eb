//! Where a model comes from: a file, its bytes, or a graph function.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::{Diagnostic, Limits, Result, codes};
use bytes::Bytes;
use import_onnx::proto::ModelProto;
use import_onnx::{ImportOptions, Imported, ModelInfo, Strings};
use module::Module;
use tensor::Structure;

/// A model to compile.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// A file, in whose folder its external data is looked for.
    File(PathBuf),
    /// The bytes of a file; it has no external data.
    Bytes(Bytes),
    /// A decoded model, and the folder of its external data.
    Model(Arc<ModelProto>, Option<PathBuf>),
    /// As `Model`, of a part whose inputs have other values each time, and the model that it is one
    /// of.
    Part(Arc<ModelProto>, Option<PathBuf>, PartOf),
    /// A module with one graph function on tensors, and the constants that it reads.
    Module(Arc<Module>),
}

/// What a part is one of.
#[derive(Clone, Debug)]
pub(crate) struct PartOf {
    /// The model.
    pub(crate) whole: Arc<Whole>,
    /// How often the model, and parts of it that hold this one, have been divided.
    pub(crate) divisions: u32,
}

/// What the parts of a model that is run in pieces have in common: all of them together may take
/// what is in proportion to what the model is given, not to what one piece hands to the next.
#[derive(Debug, Default)]
pub(crate) struct Whole {
    weight_bytes: u64,
    /// Of the run that was given most.
    input_bytes: AtomicU64,
    /// How often a part has been compiled, or a loop of one has turned.
    compiled: AtomicU64,
    turns: AtomicU64,
}

impl Whole {
    /// A model that has not been run.
    pub(crate) fn new(weight_bytes: u64) -> Whole {
        Whole { weight_bytes, ..Whole::default() }
    }

    /// Counts the inputs of a run.
    pub(crate) fn count_inputs(&self, bytes: u64) {
        self.input_bytes.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Bytes of weights and inputs.
    pub(crate) fn given_bytes(&self) -> u64 {
        self.weight_bytes.saturating_add(self.input_bytes.load(Ordering::Relaxed))
    }

    /// Counts a part that has been compiled.
    pub(crate) fn count_compiled(&self) {
        self.compiled.fetch_add(1, Ordering::Relaxed);
    }

    /// How often loops of parts have turned.
    pub(crate) fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    /// How often parts have been compiled.
    pub(crate) fn compiled(&self) -> u64 {
        self.compiled.load(Ordering::Relaxed)
    }
}

impl Source {
    /// The source of a file.
    pub(crate) fn file(path: &Path) -> Source {
        Source::File(path.to_owned())
    }

    /// Counts turns of loops of a part.
    pub(crate) fn count_turns(&self, turns: u64) {
        if let Source::Part(_, _, PartOf { whole, .. }) = self {
            whole.turns.fetch_add(turns, Ordering::Relaxed);
        }
    }

    /// See [`import_onnx::import_or_ask`].
    ///
    /// # Errors
    /// Those of the importer.
    pub(crate) fn import(&self, options: &ImportOptions) -> Result<Imported> {
        match self {
            Source::File(path) => import_onnx::import_or_ask(path, options),
            Source::Bytes(bytes) => import_onnx::import_bytes_or_ask(bytes.clone(), options),
            Source::Model(model, folder) => {
                import_onnx::import_model_or_ask(model, folder.as_deref(), options)
            }
            Source::Part(model, folder, _) => {
                let options = ImportOptions { is_part: true, ..options.clone() };
                import_onnx::import_model_or_ask(model, folder.as_deref(), &options)
            }
            Source::Module(module) => {
                let functions = module.functions.values();
                let count = functions.map(|function| function.results().len()).sum();
                Ok(Imported::Module {
                    module: Module::clone(module),
                    outputs: vec![Structure::Tensor; count],
                    strings: Strings::default(),
                })
            }
        }
    }

    /// The model, decoded, and the folder of its external data; none if it is no ONNX model.
    pub(crate) fn model(&self, limits: &Limits) -> Option<(ModelProto, Option<PathBuf>)> {
        match self {
            Source::File(path) => {
                let model = import_onnx::excerpt::read_model(path, limits).ok()?;
                Some((model, path.parent().map(Path::to_owned)))
            }
            Source::Bytes(bytes) => Some((import_onnx::decode(bytes.clone(), limits).ok()?, None)),
            Source::Model(model, folder) | Source::Part(model, folder, _) => {
                Some((ModelProto::clone(model), folder.clone()))
            }
            Source::Module(_) => None,
        }
    }

    /// See [`import_onnx::inspect`].
    ///
    /// # Errors
    /// Those of the importer.
    pub(crate) fn inspect(&self, limits: &Limits) -> Result<ModelInfo> {
        match self {
            Source::File(path) => import_onnx::inspect(path, limits),
            Source::Bytes(bytes) => import_onnx::inspect_bytes(bytes.clone(), limits),
            Source::Model(model, _) | Source::Part(model, ..) => {
                Ok(import_onnx::inspect_model(model))
            }
            Source::Module(_) => Err(Diagnostic::error(codes::NOT_ONNX, "the model is no file")
                .because("it is a graph function already")
                .remedy("look at the function itself")
                .into()),
        }
    }
}
