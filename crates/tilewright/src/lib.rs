//! Tilewright: a machine-learning compiler.
//!
//! ```no_run
//! # fn main() -> Result<(), tilewright::Diagnostics> {
//! use tilewright::{Options, Tensor};
//!
//! let executable = tilewright::compile("model.onnx", &Options::default())?;
//! let image = Tensor::from_vec(&[1, 1, 8, 8], vec![0.0_f32; 64]);
//! let outputs = executable.run(&[image])?;
//! println!("{:?}", outputs[0].to_f64_vec());
//! # Ok(())
//! # }
//! ```
//!
//! This crate is the driver: it runs the tables of passes, alone times, prints and verifies, and
//! holds what was compiled. What it drives is described in `ARCHITECTURE.md`.

mod budget;
mod c_program;
mod cache;
mod ceilings;
mod compile;
pub mod conformance;
mod difference;
mod dump;
mod emit_c;
mod executable;
mod explain;
mod facts;
mod internal;
mod jit;
mod measure;
mod options;
mod pipeline;
mod plan;
mod port;
mod reference;
mod run;
mod source;
mod specialisation;
mod target;
mod tolerance;
mod variant;
mod verify;

pub use backend::Target;
pub use base::limits::LimitRow;
pub use base::timing::{Phases, Timings};
pub use base::{Diagnostic, Diagnostics, Limits, Result};
pub use c_program::{check_c_compiler, run_module_as_c};
pub use ceilings::Ceilings;
pub use compile::{compile, compile_bytes, compile_module, inputs};
pub use difference::{Difference, Other, diff, read_recorded};
pub use dump::{Stage, dump};
pub use emit_c::emit_c;
pub use eval::EvaluationPrecision;
pub use executable::{Executable, Statistics};
pub use explain::{Explanation, ExplanationRow, explain};
pub use import_onnx::{ModelInfo, ValueInfo, inspect};
pub use internal::catch_internal_errors;
pub use measure::{Measurement, measure, phases};
pub use options::{Options, Precision, TargetChoice};
pub use pipeline::optimisations;
pub use port::{Port, PortExtent, in_order};
pub use reference::evaluate_bytes;
pub use runtime::SmallObjects;
pub use tensor::npy::read as read_npy;
pub use tensor::random::random;
pub use tensor::{DType, Kind, Structure, Tensor, Value};
pub use tensor::{Deviation, compare};
pub use tolerance::Tolerance;
pub use verify::{KernelVerdict, VerifyReport, verify};
