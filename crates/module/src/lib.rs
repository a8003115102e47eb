//! A module: functions, kernels, programs and constants together, at every stage of a compile.
//!
//! This crate does not know targets.

use base::{Arena, ConstantId, FunctionId, KernelId, ProgramId};
use graph::Function;
use loops::Kernel;
use program::Program;
use tensor::Tensor;

/// Everything known of a model while it is compiled.
#[derive(Clone, Debug, Default)]
pub struct Module {
    /// Graph functions. After import: one, `main`. After the cut: `setup` and `main`.
    pub functions: Arena<FunctionId, Function>,
    /// Kernels, shared by every program that runs them.
    pub kernels: Arena<KernelId, Kernel>,
    /// Host programs.
    pub programs: Arena<ProgramId, Program>,
    /// Weights.
    pub constants: Arena<ConstantId, Constant>,
}

/// A weight.
#[derive(Clone, Debug)]
pub struct Constant {
    /// The user's name for it.
    pub name: String,
    /// Its value, shared with the mapped model file where that is possible.
    pub tensor: Tensor,
}
