//! Compiles machine-learning models to native code, and runs them.
//!
//! A model in its development form (an ONNX file) goes in; what comes out is an [`Executable`] that
//! this process calls. All of it is made here, in milliseconds: no library of kernels is linked,
//! and nothing needs to be installed.
//!
//! # A first model
//!
//! ```
//! # // The model and the pictures lie in the repository.
//! # fn main() -> tilewright::Result<()> {
//! # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/digits");
//! # std::env::set_current_dir(models).expect("the models lie in the repository");
//! # if !tilewright::runs_here() { return Ok(()); }
//! use tilewright::{Options, Tensor};
//!
//! let executable = tilewright::compile("digits.onnx", &Options::default())?;
//! let picture = Tensor::from_vec(&[1, 1, 8, 8], vec![0.5_f32; 64]);
//! let outputs = executable.run(&[picture])?;
//! let scores: Vec<f32> = outputs[0].to_vec()?;
//! assert_eq!(scores.len(), 10);
//! # Ok(())
//! # }
//! ```
//!
//! [`compile`] reads the file once and maps its weights; [`compile_bytes`] takes a model from
//! memory. What a file wants and gives, before anything is compiled, says [`model_info`].
//!
//! # Inputs and outputs
//!
//! [`Executable::inputs`] and [`Executable::outputs`] are [`Port`]s: a name, an element type,
//! extents that are numbers or names. [`Executable::run`] takes one tensor an input in that order;
//! [`Executable::run_named`] takes them by name, and gives [`Outputs`]:
//!
//! ```
//! # fn main() -> tilewright::Result<()> {
//! # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/digits");
//! # std::env::set_current_dir(models).expect("the models lie in the repository");
//! # if !tilewright::runs_here() { return Ok(()); }
//! # let executable = tilewright::compile("digits.onnx", &tilewright::Options::default())?;
//! assert_eq!(executable.inputs()[0].to_string(), "image: f32[batch, 1, 8, 8]");
//! let pictures = tilewright::read_npy("test_images.npy")?;
//! let outputs = executable.run_named([("image", pictures)])?;
//! assert_eq!(outputs.tensor("logits")?.shape(), [360, 10]);
//! # Ok(())
//! # }
//! ```
//!
//! A [`Tensor`] is dense, row-major, in host memory; clones share their storage until one is
//! written to. [`Tensor::from_vec`], [`Tensor::from_strings`] and [`read_npy`] make one,
//! [`Tensor::to_vec`], [`Tensor::as_slice`], [`Tensor::strings`] and [`write_npy`] take it out
//! again, [`Tensor::cast`] converts its elements. With the feature `ndarray` its arrays go in as
//! they are, and `Tensor::as_array` and `Tensor::to_array` give them back. Models of scikit-learn
//! also give lists of maps, others sequences and optional values: these are [`Value`]s, for which
//! there are [`Executable::run_named`] and [`Executable::run_values`].
//!
//! # Shapes that change
//!
//! Extents that a model leaves free (`batch` above) may differ from run to run. Code for new ones
//! is made when they are first met, and kept. [`Executable::prepare`] makes it ahead of the first
//! run; [`Options::with_dim`] and [`Options::with_input_shape`] bind extents once and for all, so
//! that [`compile`] has all it needs.
//!
//! # Runs without allocations, and many at once
//!
//! [`Executable::run_into`] writes into tensors that an earlier run returned, and from its second
//! run with the same shapes on allocates nothing. An executable is `Send + Sync`: share it by
//! reference or in an `Arc`, and run it from any number of threads at once. Each has memory of its
//! own. The worker threads ([`Options::with_threads`], all cores if nothing is said) serve one run
//! at a time; another that comes meanwhile runs on its caller's thread alone. A server with many
//! callers does best with one thread a run.
//!
//! # What can go wrong
//!
//! Every failure is a list of [`Diagnostic`]s: a code that does not change (`TW0204`), the place in
//! the model or among the inputs, the reason, and a remedy. No input and no file makes this crate
//! panic, but for the few functions on tensors that say so.
//!
//! ```
//! # fn main() -> tilewright::Result<()> {
//! # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/digits");
//! # std::env::set_current_dir(models).expect("the models lie in the repository");
//! # if !tilewright::runs_here() { return Ok(()); }
//! # use tilewright::{Options, Tensor};
//! # let executable = tilewright::compile("digits.onnx", &Options::default())?;
//! let wrong = Tensor::from_vec(&[1, 1, 8, 9], vec![0.5_f32; 72]);
//! let said = executable.run(&[wrong]).unwrap_err().to_string();
//! assert!(said.contains("TW0204"));
//! assert!(said.contains("axis 3 has extent 9, where 8 is declared"));
//! # Ok(())
//! # }
//! ```
//!
//! Files from elsewhere may be hostile: [`Options::limits`] bounds what is read, planned and run.
//!
//! # Where it runs
//!
//! On x86-64 with AVX2 and FMA, or AVX-512, on Linux: [`runs_here`] tells. For other machines the
//! feature `c` makes C sources of a model.
//!
//! # Features
//!
//! The formats of models are on by default, no other is.
//!
//! | feature | what for |
//! |---|---|
//! | `onnx` | ONNX models |
//! | `aten` | programs of PyTorch's |
//! | `tflite` | models of TensorFlow Lite's |
//! | `gguf` | language models in GGUF files and safetensors folders |
//! | `stablehlo` | StableHLO programs |
//! | `ndarray` | tensors from arrays of the crate `ndarray`, and as such arrays |
//! | `half` | elements of the types `half::f16` and `half::bf16` |
//! | `images` | models whose inputs are encoded pictures (`ImageDecoder`) |
//! | `c` | models as C sources (`emit_c`) |
//! | `artifact` | models as objects and libraries of machine code (`emit_artifact`) |
//!
//! In a program that is built for debugging, the compiler within it is slow, too: models take some
//! thirty times as long to compile, and run as fast. These lines make that three times:
//!
//! ```toml
//! [profile.dev.package."*"]
//! opt-level = 1
//! debug = false
//! ```
//!
//! # Beyond compiling and running
//!
//! The crate `tilewright-inspect` verifies, explains, measures and compares executables, and
//! `tilewright-data` reads inputs from pictures, tables and arrays: what the command line has, as
//! functions with typed results. [`compiled`] is the door that they come in by.

mod cache;
mod compile;
mod constants;
#[cfg(feature = "c")]
mod deployment;
#[cfg(feature = "artifact")]
mod emit_artifact;
#[cfg(feature = "c")]
mod emit_c;
mod engine;
mod executable;
mod facts;
mod jit;
mod late;
#[cfg(feature = "c")]
mod memory_report;
mod options;
mod outputs;
mod pipeline;
mod plan;
mod reference;
mod refit;
mod run;
mod setup;
mod sharing;
mod source;
mod specialisation;
mod state;
mod variant;
mod weigh;

pub use crate::engine::{EngineCache, refit_engine};
#[cfg(feature = "artifact")]
pub use artifact::OperatingSystem;
pub use backend::Target;
pub use base::limits::LimitRow;
pub use base::timing::{Phases, Timings};
pub use base::{Diagnostic, Diagnostics, Limits, Result, catch_internal_errors};
pub use compile::{compile, compile_bytes, compile_module, emit_engine, inputs, model_info};
#[cfg(feature = "aten")]
pub use compile::{compile_trace, refused_nodes};
#[cfg(feature = "artifact")]
pub use emit_artifact::{ArtifactForm, ArtifactOptions, emit_artifact, refit_artifact};
#[cfg(feature = "c")]
pub use emit_c::{SourceOptions, emit_c};
pub use eval::EvaluationPrecision;
pub use executable::{Executable, Statistics, Update};
pub use front::{ModelInfo, Port, PortExtent, in_order, unknown_input};
#[cfg(feature = "aten")]
pub use import_aten::operators as aten_operators;
#[cfg(feature = "onnx")]
pub use import_onnx::{read_value, read_values};
#[cfg(feature = "c")]
pub use memory_report::{KernelRow, MemoryLimits, MemoryReport};
pub use options::{Activations, KeyValues, Options, Precision, TargetChoice, runs_here};
pub use outputs::Outputs;
pub use pipeline::{graph_passes, optimisations, rules};
pub use reference::evaluate_bytes;
pub use runtime::SmallObjects;
pub use state::ModelState;
pub use tensor::npy::{read as read_npy, write as write_npy};
pub use tensor::random::random;
pub use tensor::{DType, Element, Keys, Kind, Scalar, Tensor, Value};
pub use tensor::{Deviation, compare};
pub use trace;

/// The Rust examples of the README and the book are tests, too.
#[cfg(doctest)]
mod book {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/rust.md")]
    struct Rust;
    #[doc = include_str!("../../../docs/differentiation.md")]
    struct Differentiation;
}

/// What stands behind an executable: for those who look at it, not for those who run it.
pub mod compiled {
    pub use crate::compile::{compile_early, compile_for, compile_source};
    #[cfg(feature = "c")]
    pub use crate::deployment::DeploymentRequest;
    #[cfg(feature = "artifact")]
    pub use crate::emit_artifact::{DeployedModel, artifact_of, compile_for_artifact, run_loaded};
    #[cfg(feature = "c")]
    pub use crate::emit_c::{CModel, compile_to_c};
    pub use crate::engine::EngineSource;
    pub use crate::executable::draws;
    pub use crate::facts::attempt;
    pub use crate::jit::compile_program;
    pub use crate::pipeline::{FrontHalf, SeeFunction, front, front_seen};
    pub use crate::reference::{evaluate, read};
    pub use crate::run::SegmentRun;
    pub use crate::source::Source;
    #[cfg(feature = "stablehlo")]
    pub use crate::source::checked_functions;
    pub use crate::specialisation::{ArenaSlot, Request, Specialisation};
    pub use crate::variant::Variant;
    #[cfg(feature = "artifact")]
    pub use artifact::{Artifact, ArtifactModel};
    #[cfg(feature = "c")]
    pub use backend_c::{CRun, check_c_compiler, run_models};
    #[cfg(feature = "artifact")]
    pub use backend_x64::open_artifact;
    pub use backend_x64::{
        InstructionText, alone, compile_alone, disassembly, executable as link, instructions,
        vcode_text,
    };
    pub use front::{Facts, Imported};
    #[cfg(feature = "gguf")]
    pub use import_gguf::{
        DecoderModel, MetadataArray, MetadataValue, ModelFile, ModelOrigin, PAGE_PLACES, TextList,
    };
    #[cfg(feature = "onnx")]
    pub use import_onnx::{DecodedModel, encode_value, proto, tensor_proto};
    #[cfg(feature = "stablehlo")]
    pub use import_stablehlo::PortSplit;
    pub use lower::{KernelInfo, KernelSource, RegionFunction, Role, run_of};
    pub use strategies::{Candidate, WholeRun, candidates};
}
