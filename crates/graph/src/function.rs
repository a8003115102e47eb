//! The data of a function: symbols, values, nodes and regions in SSA form.
//!
//! A region's nodes are in an order in which they can be run. A value is used only after its
//! definition in the same region or in one around it.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::{Arena, LocationId, Locations, define_id};
use smallvec::SmallVec;
use sym::{Expr, Symbol, SymbolId};
use tensor::{DType, Tensor};

use crate::infer::RegionType;
use crate::lists::ElementType;
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
    /// The symbols whose values the caller tells, besides those that follow from the extents of
    /// parameters.
    pub given: BTreeSet<SymbolId>,
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
    /// Each is checked as soon as its symbols have values: at entry, or where they are bound.
    pub assumptions: Vec<Assumption>,
    /// Places in the user's model.
    pub locations: Locations,
}

/// A value's type, name and definition.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueData {
    /// Its type.
    pub ty: Type,
    /// The user's name for it, where there is one.
    pub name: Option<Arc<str>>,
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
    Sequence(Box<ElementType>),
    /// A value or none.
    Optional(Box<ElementType>),
}

/// What a node reads or defines; most lists are short, and there are many of them.
pub type Values = SmallVec<[ValueId; 4]>;

/// An operation with its operands.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What it does.
    pub op: Op,
    /// What it reads.
    pub operands: Values,
    /// What it defines.
    pub results: Values,
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
}

impl Function {
    /// An empty function.
    pub fn new(name: impl Into<String>) -> Function {
        let mut regions = Arena::new();
        let body = regions.push(Region::default());
        Function {
            name: name.into(),
            symbols: Arena::new(),
            given: BTreeSet::new(),
            values: Arena::new(),
            nodes: Arena::new(),
            regions,
            body,
            parameter_names: Vec::new(),
            result_names: Vec::new(),
            assumptions: Vec::new(),
            locations: Locations::new(),
        }
    }

    /// The values that the caller passes.
    pub fn parameters(&self) -> &[ValueId] {
        &self.regions[self.body].parameters
    }

    /// The name of a parameter of which a symbol is an extent by itself.
    pub fn parameter_with(&self, symbol: SymbolId) -> Option<&str> {
        let is_extent = |id: &ValueId| {
            let ty = self.ty(*id).as_tensor();
            ty.is_some_and(|ty| ty.shape.iter().any(|extent| extent.as_symbol() == Some(symbol)))
        };
        let number = self.parameters().iter().position(is_extent)?;
        Some(&self.parameter_names[number])
    }

    /// The values that the caller gets.
    pub fn results(&self) -> &[ValueId] {
        &self.regions[self.body].results
    }

    /// The symbol of this name.
    pub fn symbol(&self, name: &str) -> Option<SymbolId> {
        self.symbols.iter().find(|(_, symbol)| symbol.name == name).map(|(id, _)| id)
    }

    /// A value's type.
    pub fn ty(&self, value: ValueId) -> &Type {
        &self.values[value].ty
    }

    /// The node that defines a value, and which of its results it is; none for a parameter.
    pub fn producer(&self, value: ValueId) -> Option<(NodeId, usize)> {
        match self.values[value].definition {
            Definition::Result(node, number) => Some((node, number as usize)),
            Definition::Parameter(..) => None,
        }
    }

    /// The place in the user's model of the node that defines a value; none for a parameter.
    pub fn place_of(&self, value: ValueId) -> Option<String> {
        let (node, _) = self.producer(value)?;
        Some(self.locations.describe(self.nodes[node].location))
    }

    /// The primitive that defines a value; none for a parameter.
    pub fn op(&self, value: ValueId) -> Option<&Op> {
        self.producer(value).map(|(node, _)| &self.nodes[node].op)
    }

    /// The value of a literal; none if anything else defines it.
    pub fn literal(&self, value: ValueId) -> Option<&Tensor> {
        match self.op(value) {
            Some(Op::Literal(tensor)) => Some(tensor),
            _ => None,
        }
    }

    /// The types of a region's parameters and results.
    pub fn region_type(&self, region: RegionId) -> RegionType {
        let types = |values: &[ValueId]| values.iter().map(|&id| self.ty(id).clone()).collect();
        let region = &self.regions[region];
        RegionType { parameters: types(&region.parameters), results: types(&region.results) }
    }
}

impl Type {
    /// The tensor type, if it is one.
    pub fn as_tensor(&self) -> Option<&TensorType> {
        match self {
            Type::Tensor(ty) => Some(ty),
            Type::Sequence(_) | Type::Optional(_) => None,
        }
    }
}

impl Type {
    /// Whether code is compiled for such values: no lists, and no strings.
    pub fn is_compiled(&self) -> bool {
        self.as_tensor().is_some_and(|ty| ty.dtype != DType::String)
    }
}

impl From<TensorType> for Type {
    fn from(ty: TensorType) -> Type {
        Type::Tensor(ty)
    }
}

impl Type {
    /// The extents in it, which are over the function's symbols.
    pub fn exprs(&self) -> &[Expr] {
        match self {
            Type::Tensor(ty) => &ty.shape,
            Type::Sequence(_) | Type::Optional(_) => &[],
        }
    }

    /// As [`Self::exprs`], to change them.
    pub fn exprs_mut(&mut self) -> Vec<&mut Expr> {
        match self {
            Type::Tensor(ty) => ty.shape.iter_mut().collect(),
            Type::Sequence(_) | Type::Optional(_) => Vec::new(),
        }
    }
}

impl Assumption {
    /// The expressions in it.
    pub fn exprs(&self) -> Vec<&Expr> {
        match self {
            Assumption::Equal(a, b) | Assumption::Broadcastable(a, b) => vec![a, b],
            Assumption::Divisible(a, _) => vec![a],
        }
    }

    /// As [`Self::exprs`], to change them.
    pub fn exprs_mut(&mut self) -> Vec<&mut Expr> {
        match self {
            Assumption::Equal(a, b) | Assumption::Broadcastable(a, b) => vec![a, b],
            Assumption::Divisible(a, _) => vec![a],
        }
    }
}
