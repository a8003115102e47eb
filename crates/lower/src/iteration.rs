//! Counted loops over single elements: every turn computes each element of what the loop carries
//! from that element alone, and from what does not change. Such a loop is one nest in one kernel,
//! the turns inside of the elements, instead of a kernel or several for every turn.
//!
//! ```text
//! %e = scan trips 8 carried 1 %s body (%i, %x) { yield gather axes [0] %table, %x }
//! ```
//!
//! What a turn looks up (a `Gather`) is looked up in values from outside of the loop, at indices
//! that follow from the element.

use std::collections::BTreeSet;

use base::{Id, IntoTree};
use graph::{Function, NodeId, Op, RegionId, ValueId};
use rustc_hash::FxHashSet;
use sym::{Expr, Range, SymbolId};

use crate::definitions::{Class, class, operand_index};
use crate::naive::index::{generic_index, shape_of};

/// The most nodes of a turn: they all become one statement.
const MOST_NODES: usize = 64;

/// A loop over single elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Iteration {
    /// What a turn does.
    pub(crate) region: RegionId,
    /// Turns, at least one.
    pub(crate) turns: i64,
    /// The number of the turn.
    pub(crate) turn: ValueId,
    /// The element, before the turn.
    pub(crate) before: ValueId,
    /// The element, behind the turn.
    pub(crate) behind: ValueId,
}

impl Iteration {
    /// A node as such a loop, if it is one.
    pub(crate) fn of(function: &Function, node: NodeId) -> Option<Iteration> {
        let data = &function.nodes[node];
        let Op::Scan { ref trip_count, carried: 1, .. } = data.op else { return None };
        let (&[region], &[_], &[result]) =
            (&data.regions[..], &data.operands[..], &data.results[..])
        else {
            return None;
        };
        let turns = trip_count.as_constant().filter(|&turns| turns >= 1)?;
        let body = &function.regions[region];
        let (&[turn, before], &[behind]) = (&body.parameters[..], &body.results[..]) else {
            return None;
        };
        if body.nodes.len() > MOST_NODES {
            return None;
        }
        let is_constant = |value| {
            let ty = function.ty(value).as_tensor();
            ty.is_some_and(|ty| ty.shape.iter().all(|extent| extent.as_constant().is_some()))
        };
        let made = || body.nodes.iter().flat_map(|&node| &function.nodes[node].results);
        let nodes = || body.nodes.iter().map(|&node| &function.nodes[node]);
        let read = nodes().flat_map(|node| &node.operands);
        if !is_constant(result) || !made().chain(read).all(|&value| is_constant(value)) {
            return None;
        }
        let iteration = Iteration { region, turns, turn, before, behind };
        let extents = shape_of(function, result);
        let inside = made().copied().collect();
        let mut walk = Walk { function, iteration, inside, extents, known: FxHashSet::default() };
        let index = generic_index(&walk.extents);
        walk.is_local(behind, &index).then_some(iteration)
    }

    /// The values from outside that a turn reads.
    pub(crate) fn captured(&self, function: &Function) -> BTreeSet<ValueId> {
        let body = &function.regions[self.region];
        let nodes = || body.nodes.iter().map(|&node| &function.nodes[node]);
        let inside: BTreeSet<ValueId> =
            nodes().flat_map(|node| &node.results).chain(&body.parameters).copied().into_set();
        let read = nodes().flat_map(|node| &node.operands).chain(&body.results).copied();
        read.filter(|value| !inside.contains(value)).collect()
    }
}

struct Walk<'a> {
    function: &'a Function,
    iteration: Iteration,
    inside: BTreeSet<ValueId>,
    extents: Vec<i64>,
    /// What has been followed.
    known: FxHashSet<(ValueId, Vec<Expr>)>,
}

impl Walk<'_> {
    /// Whether the element of a value at an index follows from the element before the turn at the
    /// same place, and from what does not change.
    fn is_local(&mut self, value: ValueId, index: &[Expr]) -> bool {
        if value == self.iteration.before {
            return *index == generic_index(&self.extents);
        }
        if !self.inside.contains(&value) || !self.known.insert((value, index.to_vec())) {
            return true;
        }
        let Some((node, _)) = self.function.producer(value) else { return false };
        let data = &self.function.nodes[node];
        let first = match class(&data.op) {
            Class::Index | Class::Movement | Class::View | Class::Elementwise => 0,
            // A table that does not change.
            Class::Indexed if !self.inside.contains(&data.operands[0]) => {
                if data.operands[0] == self.iteration.before {
                    return false;
                }
                1
            }
            _ => return false,
        };
        (first..data.operands.len()).all(|number| {
            let extents = self.extents.clone();
            let ranges = |symbol: SymbolId| {
                extents.get(symbol.index()).map_or(Range::ALL, |&extent| Range::extent(extent))
            };
            let place = operand_index(self.function, node, number, index, &ranges);
            place.is_some_and(|place| {
                let place: Vec<Expr> = place.iter().map(|expr| expr.simplify(&ranges)).collect();
                self.is_local(data.operands[number], &place)
            })
        })
    }
}
