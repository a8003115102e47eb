//! What tests share: random programs for property tests, and a text form of ONNX models.
//!
//! Of random programs everything is determined by a seed and a size: a smaller size gives a prefix
//! of the same program, so shrinking the size shrinks the program.

mod graph_function;
mod kernel;
pub mod onnx_text;

pub use graph_function::{GraphOptions, GraphSample, graph_samples, random_graph};
pub use kernel::random_kernel;
