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

mod cache;
mod compile;
mod emit_c;
mod executable;
mod facts;
mod jit;
mod options;
mod pipeline;
mod plan;
mod reference;
mod run;
mod source;
mod specialisation;
mod target;
mod variant;

pub use backend::Target;
pub use base::limits::LimitRow;
pub use base::timing::{Phases, Timings};
pub use base::{Diagnostic, Diagnostics, Limits, Result, catch_internal_errors};
pub use compile::{compile, compile_bytes, compile_module, inputs, model_info};
pub use emit_c::emit_c;
pub use eval::EvaluationPrecision;
pub use executable::{Executable, Statistics};
pub use front::{Port, PortExtent, in_order};
pub use import_onnx::{ModelInfo, read_value};
pub use options::{Options, Precision, TargetChoice};
pub use pipeline::{optimisations, rules};
pub use reference::evaluate_bytes;
pub use runtime::SmallObjects;
pub use tensor::npy::read as read_npy;
pub use tensor::random::random;
pub use tensor::{DType, Kind, Tensor, Value};
pub use tensor::{Deviation, compare};

/// What stands behind an executable: for those who look at it, not for those who run it.
pub mod compiled {
    pub use crate::compile::compile_source;
    pub use crate::emit_c::{CModel, CModelRequest, compile_to_c};
    pub use crate::executable::draws;
    pub use crate::facts::attempt;
    pub use crate::jit::compile_program;
    pub use crate::pipeline::{FrontHalf, front};
    pub use crate::reference::{evaluate, read};
    pub use crate::run::SegmentRun;
    pub use crate::source::Source;
    pub use crate::specialisation::{Request, Specialisation};
    pub use crate::target::resolve;
    pub use crate::variant::Variant;
    pub use backend_c::{CRun, check_c_compiler, run_models};
    pub use backend_x64::{alone, disassembly, executable as link, vcode_text};
    pub use front::{Facts, Imported};
    pub use import_onnx::{DecodedModel, encode_value};
    pub use lower::{KernelInfo, KernelSource, RegionFunction, Role};
}
