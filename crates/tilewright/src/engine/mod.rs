//! Engine files of executables: what has been compiled, saved and loaded.
//!
//! What an engine holds of a variant is what a run needs: programs as text, the machine code of
//! their kernels, the block of constants that `setup` has computed, and the weights that `main`
//! reads where they are. Weights that `setup` has made something of are left behind. Beside that
//! lie the graph functions of the variant, as text, of which code for other shapes is made, and the
//! kernels, where somebody looks at them: lowering is deterministic, so they are those of the code.
//!
//! A model that must be imported anew for each run's facts is kept as its file and compiled when
//! the engine is loaded.
//!
//! - [`describe`]: the manifest, which tells what an engine is;
//! - [`constants`]: tensors, none of which is written twice;
//! - [`save`], [`load`]: variants;
//! - [`refit`]: other weights for a file;
//! - [`cache`]: engine files of models that have been compiled before.

mod cache;
mod constants;
mod describe;
mod load;
mod refit;
mod save;

pub use cache::EngineCache;
pub(crate) use load::load;
pub use refit::refit_engine;

use std::path::PathBuf;

use bytes::Bytes;
use engine::EngineFile;
use front::{ModelInfo, Port};

use crate::options::Options;

/// Kinds of sections.
mod section {
    /// What the engine is: [`super::describe::Manifest`].
    pub(super) const MANIFEST: u64 = 1;
    /// What runs: programs, code, places of constants.
    pub(super) const VARIANT: u64 = 2;
    /// The program and code of `setup`.
    pub(super) const SETUP: u64 = 3;
    /// The graph functions, and the constants that they name.
    pub(super) const FRONT: u64 = 4;
    /// The bytes of tensors that are checked whenever the engine is loaded.
    pub(super) const CHECKED: u64 = 5;
    /// A model file.
    pub(super) const MODEL: u64 = 6;
    /// What an entry of a compile cache was compiled of.
    pub(super) const KEY: u64 = 7;
    /// What tells another model of the same graph, if such can be taken: [`super::refit`].
    pub(super) const SAME_MODEL: u64 = 8;
    /// What whoever saved the engine wants to find beside it: of a language model its tokenizer.
    pub(super) const BESIDE: u64 = 9;
}

/// An engine file as a source of an executable.
#[derive(Debug)]
pub struct EngineSource {
    file: EngineFile,
    manifest: describe::Manifest,
    /// The model file, where it is known to be there: an entry of a compile cache was compiled of
    /// it.
    origin: Option<PathBuf>,
}

impl EngineSource {
    /// What the model was, as far as it is known.
    pub(crate) fn info(&self) -> &ModelInfo {
        &self.manifest.info
    }

    /// The model's inputs and outputs.
    pub(crate) fn ports(&self) -> (&[Port], &[Port]) {
        (&self.manifest.inputs, &self.manifest.outputs)
    }

    /// These options where they are about runs, those of the engine where they are about code.
    pub(crate) fn options(&self, given: &Options) -> Options {
        let of = &self.manifest.options;
        Options {
            target: of.target.clone(),
            dims: of.dims.clone(),
            input_shapes: of.input_shapes.clone(),
            precision: of.precision,
            activations: of.activations,
            key_values: of.key_values,
            disabled: of.disabled.clone(),
            literals: of.literals.clone(),
            symbolic: of.symbolic,
            specialised: of.specialised.clone(),
            updates: of.updates.clone(),
            ..given.clone()
        }
    }

    /// These options without the extents that the engine has fixed: its ports have none of them.
    pub(crate) fn without_fixed(&self, given: &Options) -> Options {
        let of = &self.manifest.options;
        let mut rest = given.clone();
        rest.dims.retain(|name, extent| of.dims.get(name) != Some(extent));
        rest.input_shapes.retain(|name, shape| of.input_shapes.get(name) != Some(shape));
        rest
    }

    /// What [`Executable::save_with`](crate::Executable::save_with) was given, if it was given
    /// something.
    #[must_use]
    pub fn beside(&self) -> Option<Bytes> {
        self.file.optional_section(section::BESIDE)
    }

    /// A digest of all constants, as it was when the file was written.
    #[must_use]
    pub fn constants_digest(&self) -> u128 {
        self.file.constants_digest()
    }

    /// Reads all constants and compares them with the digest of when they were written.
    ///
    /// # Errors
    /// `TW0303` if they are others.
    pub fn check_constants(&self) -> base::Result<()> {
        Ok(self.file.check_constants()?)
    }
}
