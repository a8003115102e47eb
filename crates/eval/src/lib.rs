//! The meaning of graphs and of kernels: slow, obvious evaluators.
//!
//! Every pass and every back end is compared with what these compute. They know no target, run on
//! one thread and add in the order that the IRs define.

mod fault;
pub mod graph;
pub mod host;
pub mod loops;

pub use crate::loops::{KernelOptions, Order, evaluate_kernel};
pub use fault::{EvaluationFault, EvaluationPrecision, Settings};
