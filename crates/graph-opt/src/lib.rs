//! Passes over graph functions: graph in, graph out, each pass a file.
//!
//! Values of literals may be read here, of weights only types. This crate does not know loops or
//! targets.

mod cut;

pub use cut::{Cut, cut};
