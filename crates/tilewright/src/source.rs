//! Where a model comes from: a file, or memory.

use std::path::{Path, PathBuf};

use base::{Limits, Result};
use bytes::Bytes;
use import_onnx::{ImportOptions, Imported, ModelInfo};

/// A model to compile.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// A file, in whose folder its external data is looked for.
    File(PathBuf),
    /// The bytes of a file; it has no external data.
    Bytes(Bytes),
}

impl Source {
    /// The source of a file.
    pub(crate) fn file(path: &Path) -> Source {
        Source::File(path.to_owned())
    }

    /// See [`import_onnx::import_or_ask`].
    ///
    /// # Errors
    /// Those of the importer.
    pub(crate) fn import(&self, options: &ImportOptions) -> Result<Imported> {
        match self {
            Source::File(path) => import_onnx::import_or_ask(path, options),
            Source::Bytes(bytes) => import_onnx::import_bytes_or_ask(bytes.clone(), options),
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
        }
    }
}
