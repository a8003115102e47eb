//! Random programs for property tests.
//!
//! Everything is determined by a seed and a size: a smaller size gives a prefix of the same
//! program, so shrinking the size shrinks the program.

mod graph_function;
mod kernel;

pub use graph_function::{GraphOptions, GraphSample, graph_samples, random_graph};
pub use kernel::random_kernel;
