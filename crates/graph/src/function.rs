//! The data of a function: symbols, values, nodes and regions in SSA form.
//!
//! A region's nodes are in an order in which they can be run. A value is used only after its
//! definition in the same region or in one around it.

use base::{Arena, LocationId, Locations, define_id};
use sym::{Expr, Range, SymbolId};

use crate::op::{Op, TensorType};

define_id!(pub ValueId, "v");
define_id!(pub NodeId, "n");
define_id!(pub RegionId, "r");

/// A function over tensors.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Unique within its module.
    pub name: String,
    /// Symbolic dimensions.
    pub symbols: Arena<SymbolId, Symbol>,
    /// Everything that a node or region defines.
    pub values: Arena<ValueId, ValueData>,
    /// Nodes; those of no region are dead.
    pub nodes: Arena<NodeId, Node>,
    /// Regions.
    pub regions: Arena<RegionId, Region>,
    /// The region whose parameters and results are the function's.
    pub body: RegionId,
    /// What the caller calls each parameter of the body.
    pub parameter_names: Vec<String>,
    /// What the caller calls each result of the body.
    pub result_names: Vec<String>,
    /// Checked at entry.
    pub assumptions: Vec<Assumption>,
    /// Places in the user's model.
    pub locations: Locations,
}

/// A symbolic dimension.
#[derive(Clone, Debug, PartialEq)]
pub struct Symbol {
    /// The user's name for it; unique within the function.
    pub name: String,
    /// The values it can take.
    pub range: Range,
}

/// A value's type, name and definition.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueData {
    /// Its type.
    pub ty: Type,
    /// The user's name for it, where there is one.
    pub name: Option<String>,
    /// What defines it.
    pub definition: Definition,
}

/// What defines a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Definition {
    /// A parameter of a region.
    Parameter(RegionId, u32),
    /// A result of a node.
    Result(NodeId, u32),
}

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// A dense tensor.
    Tensor(TensorType),
    /// A list of values of one type.
    Sequence(Box<Type>),
    /// A value or none.
    Optional(Box<Type>),
    /// Orders effects.
    Token,
    /// Something only host functions understand.
    Opaque(String),
}

/// An operation with its operands.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What it does.
    pub op: Op,
    /// What it reads.
    pub operands: Vec<ValueId>,
    /// What it defines.
    pub results: Vec<ValueId>,
    /// For control flow.
    pub regions: Vec<RegionId>,
    /// Where in the user's model it comes from.
    pub location: LocationId,
}

/// A sequence of nodes with parameters and results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Region {
    /// Defined on entry.
    pub parameters: Vec<ValueId>,
    /// In an order in which they can be run.
    pub nodes: Vec<NodeId>,
    /// What it yields.
    pub results: Vec<ValueId>,
}

/// A fact about symbols that the caller must honour; checked at entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Assumption {
    /// Both are equal.
    Equal(Expr, Expr),
    /// Both are equal, or one of them is 1.
    Broadcastable(Expr, Expr),
    /// The first is a multiple of the second.
    Divisible(Expr, i64),
    /// The expression is not negative.
    NonNegative(Expr),
}
