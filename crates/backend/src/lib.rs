//! What a target is, and what it must do: the target table, the instructions that are described as
//! loops, what its registers make of a [`tile`], and the traits that back ends implement.
//!
//! This crate does not know graphs.

mod instruction;
mod machine;
mod native;
pub mod procedure;
mod target;
pub mod tile;

pub use instruction::{Found, Instruction, InstructionCost, Tuple, check_instructions};
pub use machine::{Level, Machine};
pub use target::{Isa, Target};

use loops::Kernel;

/// A back end that turns scheduled kernels into machine code for this process.
pub trait KernelCompiler {
    /// Compiles one scheduled kernel.
    ///
    /// # Errors
    /// A diagnostic if the kernel needs something that the target lacks.
    fn compile(&self, kernel: &Kernel, target: &Target) -> base::Result<MachineCode>;
}

/// The position-independent code of one kernel, with its constants behind the code.
#[derive(Clone, Debug)]
pub struct MachineCode {
    /// Code, then constants. The entry point is at offset 0.
    pub bytes: Vec<u8>,
    /// Where they lie must be a multiple of this many bytes, at most 64.
    pub alignment: usize,
    /// How many of the bytes are code.
    pub code_bytes: usize,
    /// Scratch memory that one worker needs, in bytes.
    pub scratch_bytes: u64,
    /// The kernel between selection and register allocation, as text, where it was asked for.
    pub vcode: Option<String>,
    /// The statements that instructions were made for, where they were asked for: each from its
    /// offset on, up to the next. Statements are numbered as `loops::visit::walk` comes to them;
    /// what belongs to the kernel as a whole has none.
    pub statements: Vec<(usize, Option<u32>)>,
}

/// Vectors of a vector loop that are written out; of more, back ends may make a loop.
pub const VECTORS_WRITTEN_OUT: i64 = 4;
