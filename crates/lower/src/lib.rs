//! From an optimised graph function to scheduled kernels, a program and a memory plan.
//!
//! `docs/lowering.md` is the design. This crate does not know machine code.

pub mod formats;
pub mod naive;
mod remark;
pub mod strategies;

pub use remark::Remark;
