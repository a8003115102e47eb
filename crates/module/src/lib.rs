//! A module: functions, kernels, programs and constants together, at every stage of a compile.
//!
//! - [`Module`], [`Constant`]: the data;
//! - [`print`](print()) and [`parse`](parse()): the text form, described in `text.rs`;
//! - [`constants_file`]: the bytes of the constants that print by reference;
//! - [`verify`](verify()): what must hold.
//!
//! This crate does not know targets.

mod text;
mod verify;

use std::sync::Arc;

use base::{Arena, ConstantId, FunctionId, KernelId, ProgramId};
use graph::Function;
use loops::Kernel;
use program::Program;
use tensor::Tensor;

pub use text::{constants_file, parse, print};
pub use verify::verify;

/// Everything known of a model while it is compiled.
#[derive(Clone, Debug, Default)]
pub struct Module {
    /// Graph functions. After import: one, `main`. After the cut: `setup` and `main`.
    pub functions: Arena<FunctionId, Arc<Function>>,
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

impl Module {
    /// The function of this name.
    pub fn function(&self, name: &str) -> Option<FunctionId> {
        self.functions.iter().find(|(_, function)| function.name == name).map(|(id, _)| id)
    }

    /// The program of this name.
    pub fn program(&self, name: &str) -> Option<ProgramId> {
        self.programs.iter().find(|(_, program)| program.name == name).map(|(id, _)| id)
    }
}
