//! For which values of its symbols a function is lowered alike: the ranges in which code with free
//! extents computes, bit for bit, what code for the extents at hand does.
//!
//! How many partial results a reduction keeps follows from its extent, by steps. So a symbol that
//! is the extent of one, times a factor and moved by a constant, has a range from one step to the
//! next; one whose part in an extent is of another form has the value at hand alone. All other
//! symbols keep the range that the function states.

use std::collections::BTreeMap;

use graph::{Function, NodeId, ValueId};
use sym::{Expr, Range, SymbolId};

use crate::definitions::space;
use crate::naive::reductions::PARTIALS;

/// The range of each symbol that has a value, around that value.
#[must_use]
pub fn scope(function: &Function, values: &BTreeMap<SymbolId, i64>) -> BTreeMap<SymbolId, Range> {
    let known = |id: SymbolId| function.symbols[id].range;
    let mut ranges: BTreeMap<SymbolId, Range> =
        values.iter().map(|(&id, &value)| (id, around(known(id), value))).collect();
    for node in function.nodes_in_order() {
        let Some(extent) = partial_extent(function, node) else { continue };
        narrow(&extent, values, &mut ranges);
    }
    ranges
}

/// A range without what is no extent of a tensor with elements, so that code need not ask.
fn around(range: Range, value: i64) -> Range {
    match value {
        1.. => range.intersect(Range::at_least(1)),
        _ => Range::constant(value),
    }
}

/// The free extent along which a node may keep partial results.
fn partial_extent(function: &Function, node: NodeId) -> Option<Expr> {
    let data = &function.nodes[node];
    let space = space(&data.op)?;
    let axis = space.innermost_reduced()?;
    let contiguous = |(number, &operand): (usize, &ValueId)| {
        let ty = function.ty(operand).as_tensor();
        ty.is_some_and(|ty| space.is_contiguous(number, &ty.shape, axis))
    };
    let extent = &space.extents[axis];
    let is_free = extent.as_constant().is_none();
    (is_free && data.operands.iter().enumerate().any(contiguous)).then(|| extent.clone())
}

/// Narrows the ranges of an extent's symbols until it is between two steps.
fn narrow(extent: &Expr, values: &BTreeMap<SymbolId, i64>, ranges: &mut BTreeMap<SymbolId, Range>) {
    let symbols = extent.symbols();
    let linear = match symbols[..] {
        [only] => extent.linear_coefficient(only).filter(|by| *by > 0).map(|by| (only, by)),
        _ => None,
    };
    let Some((symbol, by)) = linear else {
        for symbol in symbols {
            if let Some(&value) = values.get(&symbol) {
                ranges.insert(symbol, Range::constant(value));
            }
        }
        return;
    };
    let Some(&value) = values.get(&symbol) else { return };
    let moved = extent.without(symbol).as_constant().unwrap_or(0);
    // The least value with which the extent reaches a step.
    let reached = |step: &i64| (step - moved + by - 1).div_euclid(by);
    let (below, above): (Vec<i64>, Vec<i64>) =
        PARTIALS.iter().map(|(step, _)| reached(step)).partition(|least| *least <= value);
    let min = below.into_iter().max().unwrap_or(i64::MIN);
    let max = above.into_iter().min().map_or(i64::MAX, |least| least - 1);
    let range = ranges.entry(symbol).or_insert(Range::ALL);
    *range = range.intersect(Range::new(min, max));
}
