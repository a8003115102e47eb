//! The graph IR: typed SSA over whole tensors, at most 40 primitives, symbolic shapes, regions for
//! control flow.
//!
//! - `function`, `op`: the data;
//! - [`infer`](infer()): types as a function of primitive and operand types;
//! - [`FunctionBuilder`]: making functions; [`rebuild`], [`Function::compact`]: changing them;
//! - [`print`](print()) and [`parse`](parse()): the text form, described in `text/mod.rs`;
//! - `regions`: what they capture, one as a function, copies of one;
//! - [`verify`](verify()): what must hold;
//! - [`PlanActions`]: what a plan does, for those who write it down.
//!
//! This crate does not know loops, kernels' insides, or targets.

mod axis_groups;
mod builder;
mod defined;
mod extents;
mod function;
mod infer;
mod known;
mod lists;
mod op;
mod plan_actions;
mod regions;
mod rewrite;
mod shape;
mod text;
mod uses;
mod verify;

pub use axis_groups::{AxisGroup, axis_groups};
pub use builder::{Assumed, Built, FunctionBuilder, accumulator_of, broadcast_shapes};
pub use function::{
    Assumption, Definition, Function, Node, NodeId, Region, RegionId, Type, ValueData, ValueId,
    Values,
};
pub use infer::{RegionType, element_count, infer, infer_with_regions};
pub use known::Known;
pub use lists::{ElementType, ListOperation};
pub use op::{HostAttributes, IterationSpace, Op, READS_PER_COPY, TensorType};
pub use plan_actions::{PlanAction, PlanActions, PlanCondition, PlanLoop, PlanNumber, PlanPlace};
pub use rewrite::{Rewriter, rebuild};
pub use shape::Shape;
pub use text::{
    Names, assumption_text, literal_text, parse, parse_function, parse_literal, print, shape_text,
    type_text,
};
pub use uses::{User, Users};
pub use verify::verify;
