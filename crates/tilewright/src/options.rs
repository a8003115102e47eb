//! What a caller chooses.

use std::collections::{BTreeMap, BTreeSet};

use backend::Target;
use base::timing::Phases;
use base::{Diagnostic, Limits, Result, codes};
pub use formats::Activations;
use front::ImportOptions;
pub use front::KeyValues;
use tensor::Value;

use crate::engine::EngineCache;

/// How to compile a model: a value to change by its fields or, in a row, by its methods.
///
/// ```
/// use tilewright::{Options, Precision};
///
/// let options = Options::default()
///     .with_threads(1)
///     .with_dim("batch", 8)
///     .with_precision(Precision::Bf16);
/// assert_eq!(options.dims["batch"], 8);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What to compile for.
    pub target: TargetChoice,
    /// Worker threads; `None` is the cores available.
    pub threads: Option<usize>,
    /// Values of named dimensions.
    pub dims: BTreeMap<String, i64>,
    /// Shapes of inputs, which bind the dimensions they contain.
    pub input_shapes: BTreeMap<String, Vec<i64>>,
    /// Precision of products and convolutions.
    pub precision: Precision,
    /// In which numbers products with weights that are integers in blocks take their data.
    pub activations: Activations,
    /// In which numbers a language model keeps keys and values of the tokens of a text.
    pub key_values: KeyValues,
    /// Passes to leave out, by name.
    pub disabled: BTreeSet<String>,
    /// Weights whose values passes may read; they are left out of refit.
    pub literals: BTreeSet<String>,
    /// What is refused as too large.
    pub limits: Limits,
    /// Whether code is made for many extents at once where the model leaves them free, rather than
    /// anew for each. Nothing binds the dimensions of an executable then but the inputs of a run.
    pub symbolic: bool,
    /// Dimensions of which code for many extents at once has one extent each, by name.
    pub specialised: BTreeSet<String>,
    /// Outputs that are what becomes of an input, by name: a run may change the input where it lies
    /// ([`ModelState`](crate::ModelState)).
    pub updates: BTreeMap<String, String>,
    /// Whether to write kernel names where `perf` finds them.
    pub perf_map: bool,
    /// Whether every pass is followed by the verifier of its IR. On in debug builds.
    pub verify_passes: bool,
    /// Where what [`compile`](crate::compile()) makes of a file is kept for the next process that
    /// wants the same.
    pub cache: Option<EngineCache>,
    /// Where the phases of the compile report how long they took; see [`Phases::recorded`].
    pub phases: Phases,
}

/// What to compile for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TargetChoice {
    /// The best row of the target table that this machine can run.
    #[default]
    Native,
    /// A row of the target table.
    Named(String),
}

impl TargetChoice {
    /// The row of the target table that is meant.
    ///
    /// # Errors
    /// `TW0401` for a name that no row has; `TW0402` if no row suits this machine.
    pub fn resolve(&self) -> Result<Target> {
        match self {
            TargetChoice::Named(name) => Target::find(name),
            TargetChoice::Native => {
                let row = Target::native(&runtime::cpu::has_feature).ok_or_else(|| {
                    let message = "no target suits this machine";
                    Diagnostic::error(codes::TARGET_NOT_ON_THIS_MACHINE, message)
                        .because("the JIT needs x86-64 with AVX2 and FMA, on Linux")
                        .remedy(base::remedies::WRITE_C)
                })?;
                let here = runtime::cpu::Processor::here();
                Ok(row.tuned(here.caches, here.full_width, here.mesh))
            }
        }
    }
}

/// Whether this machine can run what is compiled for it: x86-64 with AVX2 and FMA, or AVX-512, on
/// Linux.
#[must_use]
pub fn runs_here() -> bool {
    TargetChoice::Native.resolve().is_ok()
}

/// Precision of products and convolutions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// f32 stays f32.
    #[default]
    F32,
    /// Operands of products and convolutions are rounded to bf16; sums and all else stay in f32.
    Bf16,
}

impl Options {
    /// For a target of this name, rather than for this machine.
    #[must_use]
    pub fn with_target(mut self, name: impl Into<String>) -> Options {
        self.target = TargetChoice::Named(name.into());
        self
    }

    /// With so many threads, the caller's included.
    #[must_use]
    pub fn with_threads(mut self, threads: usize) -> Options {
        self.threads = Some(threads);
        self
    }

    /// With this extent for a dimension that the model names.
    #[must_use]
    pub fn with_dim(mut self, name: impl Into<String>, extent: i64) -> Options {
        self.dims.insert(name.into(), extent);
        self
    }

    /// With this shape for an input, which binds the dimensions that it contains.
    #[must_use]
    pub fn with_input_shape(mut self, name: impl Into<String>, shape: &[i64]) -> Options {
        self.input_shapes.insert(name.into(), shape.to_vec());
        self
    }

    /// With these numbers for the data of products with weights that are integers in blocks.
    #[must_use]
    pub fn with_activations(mut self, activations: Activations) -> Options {
        self.activations = activations;
        self
    }

    /// With these numbers for the keys and values that a language model keeps.
    #[must_use]
    pub fn with_key_values(mut self, key_values: KeyValues) -> Options {
        self.key_values = key_values;
        self
    }

    /// With this precision of products and convolutions.
    #[must_use]
    pub fn with_precision(mut self, precision: Precision) -> Options {
        self.precision = precision;
        self
    }

    /// Without the pass of this name.
    #[must_use]
    pub fn without_pass(mut self, name: impl Into<String>) -> Options {
        self.disabled.insert(name.into());
        self
    }

    /// With code for many extents at once where the model leaves them free.
    #[must_use]
    pub fn with_symbolic_extents(mut self) -> Options {
        self.symbolic = true;
        self
    }

    /// With code for many extents at once, but for those of these dimensions.
    #[must_use]
    pub fn with_symbolic_extents_but(mut self, names: &[&str]) -> Options {
        self.specialised.extend(names.iter().map(|name| (*name).to_owned()));
        self.with_symbolic_extents()
    }

    /// With an output that is what becomes of an input, which a run may change where it lies.
    #[must_use]
    pub fn with_update(mut self, output: impl Into<String>, input: impl Into<String>) -> Options {
        self.updates.insert(output.into(), input.into());
        self
    }

    /// With these limits on what a model may take.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Options {
        self.limits = limits;
        self
    }

    /// Binds dimensions to the shapes of those inputs given that are tensors.
    pub fn bind_shapes(&mut self, inputs: &BTreeMap<String, Value>) {
        for (name, value) in inputs {
            let Some(tensor) = value.as_tensor() else { continue };
            let shape = tensor.shape().iter().map(|&extent| extent as i64).collect();
            self.input_shapes.insert(name.clone(), shape);
        }
    }

    /// What an importer is told of them.
    pub(crate) fn for_import(&self) -> ImportOptions {
        ImportOptions {
            dims: self.dims.clone(),
            input_shapes: self.input_shapes.clone(),
            literals: self.literals.clone(),
            key_values: self.key_values,
            limits: self.limits.clone(),
        }
    }

    /// Worker threads: what was asked for, else the cores available.
    #[must_use]
    pub fn thread_count(&self) -> usize {
        self.threads
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |cores| cores.get()))
    }
}
