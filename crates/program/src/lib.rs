//! The program IR: flat host code over buffer slots: which kernel, on which memory, in which order.
//!
//! - `program`: the data;
//! - [`print`](print()) and [`parse`](parse()): the text form, described in `print.rs`;
//! - [`verify`](verify()): what must hold;
//! - [`walk`], [`Program::set_symbols`]: reading programs;
//! - [`Fault`]: what kernels return.
//!
//! This crate does not know graphs or the insides of kernels.

mod fault;
mod parse;
mod print;
mod program;
mod spans;
mod verify;
mod visit;

pub use fault::Fault;
pub use parse::{parse, parse_program};
pub use print::{print, print_address, print_expression};
pub use program::{Address, Argument, Move, MoveAxis, Place, Program, Run, Slot, SlotId, Step};
pub use verify::verify;
pub use visit::{walk, walk_mut};
