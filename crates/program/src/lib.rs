//! The program IR: flat host code over buffer slots: which kernel, on which memory, in which order.
//!
//! This crate does not know graphs or the insides of kernels.

mod program;

pub use program::{Address, Argument, Place, Program, Run, Slot, SlotId, Step, Symbol};
