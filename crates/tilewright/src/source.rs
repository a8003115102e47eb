//! Where a model comes from: a file, its bytes, or a graph function.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use base::{Limits, Result};
use bytes::Bytes;
use front::{Facts, Imported, Port, with_shapes};
use import_onnx::{DecodedModel, ModelInfo};
use module::Module;

use crate::options::Options;

/// A model to compile.
#[derive(Clone, Debug)]
pub enum Source {
    /// A decoded model.
    Model(Arc<DecodedModel>),
    /// A module with one graph function, and the constants that it reads.
    Module(Arc<Module>),
}

impl From<DecodedModel> for Source {
    fn from(model: DecodedModel) -> Source {
        Source::Model(Arc::new(model))
    }
}

impl Source {
    /// A model file, in whose folder its external data is looked for.
    ///
    /// # Errors
    /// Those of the importer.
    pub fn read(path: impl AsRef<Path>, limits: &Limits) -> Result<Source> {
        DecodedModel::read(path.as_ref(), limits).map(Source::from)
    }

    /// The bytes of a model file without external data.
    ///
    /// # Errors
    /// Those of the importer.
    pub fn of_bytes(bytes: impl Into<Bytes>, limits: &Limits) -> Result<Source> {
        DecodedModel::of(bytes.into(), limits).map(Source::from)
    }

    /// Imports the model with what is known of a run.
    ///
    /// # Errors
    /// Those of the importer.
    pub(crate) fn import(&self, options: &Options, facts: &Facts) -> Result<Imported> {
        match self {
            Source::Model(model) => model.import(&options.for_import(), facts),
            Source::Module(module) => Ok(Imported::of_module(Module::clone(module))),
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
            Source::Module(module) => Ok(Imported::of_module(Module::clone(module)).ports()),
        }
    }
}
