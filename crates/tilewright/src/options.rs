//! What a caller chooses.

use std::collections::{BTreeMap, BTreeSet};

use base::Limits;
use base::timing::Phases;
use front::ImportOptions;
use tensor::Value;

/// How to compile a model.
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
    /// Passes to leave out, by name.
    pub disabled: BTreeSet<String>,
    /// Weights whose values passes may read; they are left out of refit.
    pub literals: BTreeSet<String>,
    /// What is refused as too large.
    pub limits: Limits,
    /// Whether to write kernel names where `perf` finds them.
    pub perf_map: bool,
    /// Whether every pass is followed by the verifier of its IR. On in debug builds.
    pub verify_passes: bool,
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
