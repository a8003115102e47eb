//! TensorFlow Lite files to graph functions.
//!
//! A file is a FlatBuffer (`front::FlatBuffer`), of which `schema.rs` makes plain data. A table has
//! a row an operator and a function a row (`operators/`), which lowers a node to the primitives of
//! `graph` through `front`.
//!
//! What integers stand for is told by scales and zero points of tensors. What is computed of them
//! is what the reference kernels of TensorFlow Lite compute, bit by bit, as LiteRT builds them
//! (`fixed_point.rs`, `quantised.rs`): the kernels that `OpResolverType.BUILTIN_REF` selects. Those
//! that it selects by default may differ from them in the last bit, and so may TensorFlow Lite
//! Micro's in functions that it computes without floats.
//!
//! Invariants: no file makes this crate panic, run on, or take more memory than the limits allow
//! for its size; what is not supported is refused with the operator, its version and its place.
//!
//! Relies on `front` for values, primitives and the formulas that formats share.

mod fixed_point;
mod importer;
mod model;
mod node;
mod operators;
mod quantised;
mod schema;

pub use model::{TfliteModel, supported_operators};
