//! What a naive kernel follows from, as data that can be compared.
//!
//! Layers of a model repeat, so many groups lead to the same kernel. Two groups of a function with
//! equal outlines do, with values at the same places of both; the second need not be written.

use std::hash::{Hash, Hasher};

use graph::{Function, NodeId, Op, Type, Users, ValueId};
use rustc_hash::FxHashMap;
use sym::Expr;

use super::partials::{self, Run};
use crate::extents::Extents;
use crate::groups::{Group, Grouping};

/// See the head of this file.
pub(crate) struct Outline<'a> {
    parts: Vec<Part<'a>>,
    /// Everything the kernel may read, compute or write, in the order in which it is met.
    values: Vec<ValueId>,
}

/// One fact about a group. Values and nodes are numbered in the order in which they are met.
#[derive(PartialEq)]
enum Part<'a> {
    /// The nests of a node, which are met next.
    Stage,
    /// They run over the axes of the value met next, with the path to the result behind it.
    Domain,
    /// The path goes on through this operand of the node met next.
    Through(usize),
    /// A value or a node that has been met before.
    Value(usize),
    Node(usize),
    /// A value in memory, and what it is if the definitions may look at it.
    Stored {
        ty: &'a Type,
        strides: &'a [Expr],
        literal: Option<&'a Op>,
    },
    /// A value that is computed from what is met next.
    Computed {
        ty: &'a Type,
        shared: bool,
    },
    /// A node, before its operands and results.
    Op {
        op: &'a Op,
        operands: usize,
        shows_operand: bool,
        /// What it sums as one, which follows from more nodes than those of the group.
        run: Option<Run>,
        /// Whether it changes its operand where that lies.
        in_place: bool,
    },
}

impl<'a> Outline<'a> {
    /// The outline of a group.
    pub(crate) fn of(
        function: &'a Function,
        grouping: &'a Grouping,
        users: &Users,
        group: &Group,
    ) -> Outline<'a> {
        let outline = Outline { parts: Vec::new(), values: Vec::new() };
        let (values, nodes) = (FxHashMap::default(), FxHashMap::default());
        let mut walk = Walk { function, grouping, users, outline, values, nodes };
        for stage in &group.stages {
            walk.outline.parts.push(Part::Stage);
            walk.node(stage.node);
            let Some(domain) = &stage.domain else { continue };
            walk.outline.parts.push(Part::Domain);
            walk.value(domain.anchor);
            for &(node, operand) in &domain.path {
                walk.outline.parts.push(Part::Through(operand));
                walk.node(node);
            }
        }
        walk.outline
    }

    /// The places of some of its values, if it has them all.
    pub(crate) fn places(&self, values: &[ValueId]) -> Option<Vec<usize>> {
        let place = |value: &ValueId| self.values.iter().position(|own| own == value);
        values.iter().map(place).collect()
    }

    /// The values at these places.
    pub(crate) fn values(&self, places: &[usize]) -> Vec<ValueId> {
        places.iter().map(|&place| self.values[place]).collect()
    }
}

struct Walk<'a, 'u> {
    function: &'a Function,
    grouping: &'a Grouping,
    users: &'u Users,
    outline: Outline<'a>,
    values: FxHashMap<ValueId, usize>,
    nodes: FxHashMap<NodeId, usize>,
}

impl<'a> Walk<'a, '_> {
    fn value(&mut self, value: ValueId) {
        let number = self.values.len();
        let known = *self.values.entry(value).or_insert(number);
        if known != number {
            self.outline.parts.push(Part::Value(known));
            return;
        }
        self.outline.values.push(value);
        let (function, ty) = (self.function, self.function.ty(value));
        if let Some(view) = self.grouping.view(value) {
            let literal = function.op(value).filter(|op| matches!(op, Op::Literal(_)));
            self.outline.parts.push(Part::Stored { ty, strides: &view.strides, literal });
            return;
        }
        let shared = self.users[value].len() > 1;
        self.outline.parts.push(Part::Computed { ty, shared });
        if let Some((node, _)) = function.producer(value) {
            self.node(node);
        }
    }

    fn node(&mut self, node: NodeId) {
        let number = self.nodes.len();
        let known = *self.nodes.entry(node).or_insert(number);
        if known != number {
            self.outline.parts.push(Part::Node(known));
            return;
        }
        let data = &self.function.nodes[node];
        let (op, operands) = (&data.op, data.operands.len());
        let shows_operand = self.grouping.shows_operand(self.function, node);
        let run = partials::run(self.function, node, &Extents::of(self.function));
        let in_place = self.grouping.in_place.contains(&node);
        self.outline.parts.push(Part::Op { op, operands, shows_operand, run, in_place });
        data.operands.iter().chain(&data.results).for_each(|&value| self.value(value));
        for &region in &data.regions {
            let region = &self.function.regions[region];
            region.parameters.iter().chain(&region.results).for_each(|&value| self.value(value));
        }
    }
}

impl PartialEq for Outline<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.parts == other.parts
    }
}

impl Eq for Outline<'_> {}

/// Of what is quickly hashed; groups that agree in that are seldom different. It holds what tells
/// the pieces of a tensor that was cut into thousands from each other.
impl Hash for Outline<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for part in &self.parts {
            match part {
                Part::Stage | Part::Domain => {}
                Part::Through(number) | Part::Value(number) | Part::Node(number) => {
                    number.hash(state);
                }
                Part::Stored { strides, literal, .. } => {
                    strides.hash(state);
                    literal.iter().for_each(|op| hash_op(op, state));
                }
                Part::Computed { shared, .. } => shared.hash(state),
                Part::Op { op, .. } => hash_op(op, state),
            }
        }
    }
}

fn hash_op<H: Hasher>(op: &Op, state: &mut H) {
    std::mem::discriminant(op).hash(state);
    match op {
        Op::Map { function, .. } => function.hash(state),
        Op::Literal(tensor) => tensor.bytes().hash(state),
        _ => op.each_expr(&mut |expr| expr.hash(state)),
    }
}
