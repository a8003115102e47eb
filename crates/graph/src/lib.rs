//! The graph IR: typed SSA over whole tensors, at most 40 primitives, symbolic shapes, regions for
//! control flow.
//!
//! This crate does not know loops, kernels' insides, or targets.

mod builder;
mod count;
mod function;
mod infer;
mod op;
mod rewrite;
mod text;
mod verify;

pub use builder::{Built, FunctionBuilder, accumulator_of, broadcast_shapes};
pub use count::{node_bytes, operations, value_bytes};
pub use function::{
    Assumption, Definition, Function, Node, NodeId, Region, RegionId, Symbol, Type, ValueData,
    ValueId,
};
pub use infer::{RegionType, element_count, infer, infer_with_regions};
pub use op::{IterationSpace, Op, TensorType};
pub use rewrite::{Rewriter, Rule, User, rebuild};
pub use text::{
    Names, Notes, literal_text, parse, parse_function, parse_literal, shape_text, type_text,
};
pub use verify::verify;
