//! Graphs of ATen operators, as PyTorch traces them, to graph functions.
//!
//! A trace is a text ([`AtenTrace`]): inputs, weights by number, and nodes that call operators by
//! name with arguments and say the types of their results. A table has a row an operator and a
//! function a row (`operators/`), which lowers a node to the primitives of `graph` through `front`.
//! Programs that `torch.export.save` wrote ([`ExportedProgram`], the files `.pt2`) become traces.
//! Operators are taken whole (`linear`, `layer_norm`, `scaled_dot_product_attention`) and as they
//! are decomposed; who writes the trace asks [`operators`] what is there to be had.
//!
//! Invariants: a trace is functional, no node changes a value; every result has the type that its
//! node declares, else the node is refused; no text makes this crate panic; every refusal is a
//! diagnostic whose place is the node's name. Sizes are expressions of the symbols that the trace
//! declares, so a function is for all sizes that the trace is for.
//!
//! Relies on `front` for values, primitives and the formulas that formats share.

mod derivative;
mod exported;
mod importer;
mod node;
mod operators;
mod promotion;
mod trace;
mod value;

pub use exported::ExportedProgram;
pub use importer::{import, refused};
pub use operators::operators;
pub use trace::{AtenTrace, Declared, TraceArgument, TraceNode, TraceResult, TraceSymbol};
