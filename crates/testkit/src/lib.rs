//! What tests share: random programs for property tests, a text form of ONNX models, and what
//! surrounds a test (a folder, a C compiler, a counting allocator).
//!
//! Of random programs everything is determined by a seed and a size: a smaller size gives a prefix
//! of the same program, so shrinking the size shrinks the program.

mod allocations;
mod blocks;
mod c_program;
mod counted;
mod folder;
mod graph_function;
mod kernel;
pub mod mutation;
pub mod onnx_text;
mod quantised;
mod reduce;

pub use allocations::{BoundedAllocator, CountingAllocator};
pub use blocks::{blocked_graph, blocked_samples};
pub use c_program::{build_c_program, has_c_compiler, run_c_program};
pub use counted::{counted, demand_share, first_seed};
pub use folder::Folder;
pub use graph_function::{GraphOptions, GraphSample, graph_samples, random_graph};
pub use kernel::random_kernel;
pub use quantised::{quantised_graph, quantised_samples};
pub use reduce::reduce;
