//! The graph IR: typed SSA over whole tensors, at most 40 primitives, symbolic shapes, regions for
//! control flow.
//!
//! This crate does not know loops, kernels' insides, or targets.

mod function;
mod op;

pub use function::{
    Assumption, Definition, Function, Node, NodeId, Region, RegionId, Symbol, Type, ValueData,
    ValueId,
};
pub use op::{IterationSpace, Op, TensorType};
