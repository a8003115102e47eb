//! Which nodes share a kernel, where every value lives, and why no more is fused.
//!
//! The work is done in four steps, a file each, over the specialised function:
//!
//! - `legal`: what is written straight into the memory of a `Concat` or `Pad` gets copies where it
//!   cannot be, and reductions over windows an axis last that fills vectors (`reductions`);
//! - `homes`: every value is stored, or inlined into its readers, as far as `bound` lets it;
//! - `views`: stored values that lie in the memory of others;
//! - `merge`: stored values become internal to the kernel of their readers.
//!
//! Invariants: each group has one output node, and no value of a group but its results is read
//! outside of it; groups are in an order in which they can be run; every refusal is a remark.

mod bound;
mod homes;
pub(crate) mod legal;
mod merge;
mod reductions;
mod views;

use std::collections::BTreeSet;

use backend::Target;
use base::{Arena, IdSet, Remark, SecondaryMap, define_id};
use graph::{Function, NodeId, Op, RegionId, User, Users, ValueId};
use sym::Expr;

use crate::naive::index::strides;
pub(crate) use legal::legalise;

define_id!(pub GroupId, "g");

/// Where a value lives.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Home {
    /// Nowhere: every reader computes it.
    #[default]
    Inlined,
    /// In memory of its own, or in that of another value.
    Stored(View),
    /// Inside the kernel of its group.
    Internal,
}

/// A stored value's place in the memory of a root value.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// The value that owns the memory.
    pub root: ValueId,
    /// Elements from the beginning of the root's memory to the first element.
    pub offset: Expr,
    /// Elements from one index to the next along each axis.
    pub strides: Vec<Expr>,
}

impl View {
    /// A dense value that owns its memory.
    pub(crate) fn root(value: ValueId, shape: &[Expr]) -> View {
        View { root: value, offset: Expr::ZERO, strides: strides(shape) }
    }

    /// Whether elements lie row-major without gaps.
    pub(crate) fn is_dense(&self, shape: &[Expr]) -> bool {
        let dense = strides(shape);
        let axes = shape.iter().zip(&self.strides).zip(&dense);
        let is_single = |extent: &Expr| extent.as_constant().is_some_and(|extent| extent <= 1);
        axes.into_iter().all(|((extent, stride), dense)| is_single(extent) || stride == dense)
    }
}

/// Nodes that share a kernel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// What has nests of its own, in order; all else is substituted. The last one is the output.
    pub stages: Vec<StageNode>,
    /// What was fused, and how.
    pub fused: Vec<String>,
    /// What was not, and why.
    pub not_fused: Vec<String>,
}

/// A node with nests of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct StageNode {
    /// The node.
    pub node: NodeId,
    /// Set if its elementwise nest runs over another value's axes.
    pub domain: Option<AnchorDomain>,
}

/// The axes of another value in the same kernel, whose elements correspond one to one to those of
/// a node's result.
#[derive(Clone, Debug, PartialEq)]
pub struct AnchorDomain {
    /// The value whose axes these are.
    pub anchor: ValueId,
    /// The nodes and operand numbers from the anchor to the result.
    pub path: Vec<(NodeId, usize)>,
}

/// The decisions for a function.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Grouping {
    /// Where each value lives.
    pub homes: SecondaryMap<ValueId, Home>,
    /// In an order in which they can be run.
    pub groups: Arena<GroupId, Group>,
    /// Every decision worth explaining.
    pub remarks: Vec<Remark>,
    /// Whether extents of the function are free: known when its kernels run.
    pub(crate) free_extents: bool,
    /// Scatters that write into the memory of what they change (file `updates`).
    pub(crate) in_place: BTreeSet<NodeId>,
}

impl Grouping {
    /// Where a stored value lies.
    pub fn view(&self, value: ValueId) -> Option<&View> {
        match &self.homes[value] {
            Home::Stored(view) => Some(view),
            Home::Inlined | Home::Internal => None,
        }
    }

    /// Whether a value has memory outside of kernels.
    pub fn is_stored(&self, value: ValueId) -> bool {
        self.view(value).is_some()
    }

    /// Whether a `Pad`'s operand is written straight into the middle of its memory. That both lie
    /// in the memory of one `Concat` is not enough.
    pub fn shows_operand(&self, function: &Function, node: NodeId) -> bool {
        let data = &function.nodes[node];
        let Op::Pad { low, high, interior } = &data.op else { return false };
        let Some(whole) = self.view(data.results[0]) else { return false };
        let middle = views::middle(whole, low, high, interior);
        middle.is_some() && self.view(data.operands[0]) == middle.as_ref()
    }
}

/// What is asked of grouping.
#[derive(Clone, Copy, Debug)]
pub struct Fusion<'a> {
    /// Whether nodes may share a kernel; else each node that is computed has one of its own and
    /// stores what it makes.
    pub wanted: bool,
    /// Whether the function runs once: then elements are moved one by one where that saves a copy.
    pub once: bool,
    /// What is compiled for. On a microcontroller memory is dear: of a sum and what is made of it
    /// the shorter is stored.
    pub target: &'a Target,
    /// Values that are stored though they might be inlined or internal.
    pub apart: &'a IdSet<ValueId>,
}

/// Decides for a specialised and legalised function. What is worth fusing is weighed by extents, or
/// by what is usual where they are free.
pub fn form(function: &Function, fusion: Fusion<'_>) -> Grouping {
    let users = body_users(function);
    let free_extents = has_free_extents(function);
    let mut stored = homes::choose(function, &users, fusion);
    bound::bound(function, &mut stored);
    let mut grouping = Grouping { free_extents, ..Grouping::default() };
    views::place(function, &users, &stored, &fusion.target.machine, &mut grouping);
    merge::merge(function, &users, fusion, &mut grouping);
    grouping
}

/// Whether extents or attributes of a function depend on symbols.
pub(crate) fn has_free_extents(function: &Function) -> bool {
    let is_free = |expr: &Expr| expr.as_constant().is_none();
    function.values.values().any(|value| value.ty.exprs().iter().any(is_free))
        || function.nodes.values().any(|node| !node.op.has_constant_exprs())
}

/// Who reads each value of the body. What is read inside the regions of a node counts as read by
/// that node, as an operand behind the others.
pub fn body_users(function: &Function) -> Users {
    let mut around: SecondaryMap<NodeId, Option<NodeId>> = SecondaryMap::new();
    let mut regions: SecondaryMap<RegionId, Option<NodeId>> = SecondaryMap::new();
    for &node in &function.regions[function.body].nodes {
        let mut work = function.nodes[node].regions.clone();
        while let Some(region) = work.pop() {
            regions[region] = Some(node);
            for &inner in &function.regions[region].nodes {
                around[inner] = Some(node);
                work.extend(&function.nodes[inner].regions);
            }
        }
    }
    let mut users = function.users();
    let behind = |node: NodeId| User::Operand(node, function.nodes[node].operands.len());
    for value in function.values.ids() {
        for user in &mut users[value] {
            let outer = match *user {
                User::Operand(node, _) => around[node],
                User::Result(region, _) => regions[region],
            };
            *user = outer.map_or(*user, behind);
        }
    }
    users
}
