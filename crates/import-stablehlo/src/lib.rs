//! StableHLO programs to graph functions: the text that JAX and the official files have, and the
//! portable bytecode that JAX hands over.
//!
//! Both are read to the same plain data (`text/`, `bytecode/`, `syntax.rs`). The importer runs over
//! the operations of the function `main`, calls written out where they stand, and lowers each to
//! the primitives of `graph` through `front`: a table has a row an operation and a function a row
//! (`operators/`).
//!
//! - Complex numbers are pairs of real tensors (`front::Complex`); a port of a complex type has one
//!   more axis of extent 2.
//! - Bodies of reductions, scatters, sorts and windows are functions of scalars. Those that are one
//!   of the graph's reductions become it; any other runs on whole tensors at once, as often as it
//!   takes (`operators/body.rs`).
//! - Quantised values are their integers; what is computed of them is computed of the numbers that
//!   they stand for, and rounded to the result's scale, which is how the specification defines it.
//!
//! Invariants: no text makes this crate panic, run on, or take more memory than the limits allow
//! for its size; what is not supported is refused with the operation and its line and column.
//!
//! Relies on `front` for values, primitives and the formulas that formats share.

mod bytecode;
mod check;
mod elements;
mod importer;
mod model;
mod node;
mod operators;
mod sharding;
mod syntax;
mod text;
mod verify;

pub use check::{Check, CheckKind};
pub use model::{CheckedFunction, StablehloProgram, parts, supported_operations};
pub use sharding::PortSplit;
