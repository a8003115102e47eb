//! Where a model comes from: a file, its bytes, or a graph function.

use std::path::PathBuf;
use std::sync::Arc;

use base::{Diagnostic, Limits, Result, codes};
use bytes::Bytes;
use import_onnx::{DecodedModel, Facts, Imported, ModelInfo, Strings};
use module::Module;
use tensor::Structure;

use crate::options::Options;
use crate::port::{Port, declared_ports};

/// A model to compile.
#[derive(Clone, Debug)]
pub enum Source {
    /// A file, in whose folder its external data is looked for.
    File(PathBuf),
    /// The bytes of a file; it has no external data.
    Bytes(Bytes),
    /// A decoded model.
    Model(Arc<DecodedModel>),
    /// A module with one graph function on tensors, and the constants that it reads.
    Module(Arc<Module>),
}

impl Source {
    /// See [`import_onnx::import_with`].
    ///
    /// # Errors
    /// Those of the importer.
    pub(crate) fn import(&self, options: &Options, facts: &Facts) -> Result<Imported> {
        let import = options.for_import();
        match self {
            Source::File(path) => import_onnx::import_with(path, &import, facts),
            Source::Bytes(bytes) => {
                let model = import_onnx::decode(bytes.clone(), &options.limits)?;
                import_onnx::import_model(&model, None, &import, facts)
            }
            Source::Model(model) => model.import(&import, facts),
            Source::Module(module) => {
                let functions = module.functions.values();
                let count = functions.map(|function| function.results().len()).sum();
                Ok(Imported {
                    module: Module::clone(module),
                    inputs: Vec::new(),
                    outputs: vec![Structure::Tensor; count],
                    strings: Strings::default(),
                    needs: Vec::new(),
                })
            }
        }
    }

    /// The inputs as the model declares them; none of a module, which needs no facts.
    ///
    /// # Errors
    /// Those of the importer.
    pub(crate) fn declared_inputs(&self, options: &Options) -> Result<Vec<Port>> {
        match self {
            Source::Module(_) => Ok(Vec::new()),
            _ => Ok(declared_ports(&self.inspect(&options.limits)?.inputs, options)),
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
            Source::Model(model) => Ok(model.info()),
            Source::Module(_) => Err(Diagnostic::error(codes::NOT_ONNX, "the model is no file")
                .because("it is a graph function already")
                .remedy("look at the function itself")
                .into()),
        }
    }
}
