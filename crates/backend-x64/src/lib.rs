//! x86-64: scheduled kernels to machine code.
//!
//! `loops` → [`vcode`] (selection) → registers (a scan, or `regalloc2`) → bytes. The code is
//! position-independent and follows the kernel ABI: `fn(context, first, last) -> i32`; a
//! nonzero result is the code of a `program::Fault`.
//!
//! - `select`: selection; read `select.rs` first;
//! - `allocate`: registers, slots of the frame where they do not suffice, and what `regalloc2` is
//!   told where a scan gives no answer;
//! - `emit`: encoding; `emit/table.rs` is the instruction set as a table: a row a form, with its
//!   bytes and the operations it carries out, `emit/forms.rs` what a row says.
//!
//! Invariants: compiling executes nothing and needs no particular CPU; the same kernel and target
//! give the same bytes.

mod allocate;
mod compile;
mod emit;
mod link;
mod select;
pub mod vcode;

pub use compile::{
    InstructionText, LinkableCode, X64, X64Options, compile_procedure, compile_vcode, compile_with,
    disassemble, disassembly, instructions, vcode_text,
};
#[cfg(target_os = "linux")]
pub use link::open_artifact;
pub use link::{alone, compile_alone, executable, load, trusted};
