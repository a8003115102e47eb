//! For which values of its symbols a function is lowered alike: the ranges in which code with free
//! extents computes, bit for bit, what code for the extents at hand does.
//!
//! How many partial results a reduction keeps follows from how many elements lie behind each other,
//! by steps. Where that number grows with each of its symbols, these have ranges from one step to
//! the next; where it is of another form they have the values at hand alone. All other symbols keep
//! the range that the function states.

use std::collections::BTreeMap;

use graph::{Function, NodeId, ValueId};
use sym::{Atom, Expr, Range, SymbolId};

use crate::definitions::space;
use crate::naive::partials::{self, PARTIALS};

/// Beyond every extent.
const BEYOND: i64 = 1 << 40;

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

/// The free number of elements along which a node may keep partial results.
fn partial_extent(function: &Function, node: NodeId) -> Option<Expr> {
    let data = &function.nodes[node];
    let space = space(&data.op)?;
    let axis = space.innermost_reduced()?;
    let contiguous = |(number, &operand): (usize, &ValueId)| {
        let ty = function.ty(operand).as_tensor();
        ty.is_some_and(|ty| space.is_contiguous(number, &ty.shape, axis))
    };
    let extent = match partials::run(function, node) {
        Some(run) => run.extent,
        None => space.extents[axis].clone(),
    };
    let is_free = extent.as_constant().is_none();
    (is_free && data.operands.iter().enumerate().any(contiguous)).then_some(extent)
}

/// Narrows the ranges of an extent's symbols until it is between two steps.
fn narrow(extent: &Expr, values: &BTreeMap<SymbolId, i64>, ranges: &mut BTreeMap<SymbolId, Range>) {
    let symbols: Vec<SymbolId> = extent.symbols();
    let at = |values: &BTreeMap<SymbolId, i64>| extent.evaluate(&|id| values.get(&id).copied());
    let Some(value) = at(values).filter(|_| grows(extent)) else {
        for symbol in symbols {
            if let Some(&value) = values.get(&symbol) {
                ranges.insert(symbol, Range::constant(value));
            }
        }
        return;
    };
    let below = PARTIALS.iter().map(|(step, _)| *step).filter(|step| *step <= value).max();
    let above = PARTIALS.iter().map(|(step, _)| *step).filter(|step| *step > value).min();
    // What one symbol may do while the others stay, those before it having done all they may.
    let (mut least, mut most) = (values.clone(), values.clone());
    for symbol in symbols {
        let Some(&own) = values.get(&symbol) else { continue };
        let with = |others: &BTreeMap<SymbolId, i64>, value: i64| {
            let mut all = others.clone();
            all.insert(symbol, value);
            at(&all).unwrap_or(i64::MAX)
        };
        let stays = |value: i64| below.is_none_or(|step| with(&least, value) >= step);
        let min = last(own, 0, &stays);
        let stays = |value: i64| above.is_none_or(|step| with(&most, value) < step);
        let max = last(own, BEYOND, &stays);
        least.insert(symbol, min);
        most.insert(symbol, max);
        let min = if min == 0 { i64::MIN } else { min };
        let max = if max == BEYOND { i64::MAX } else { max };
        let range = ranges.entry(symbol).or_insert(Range::ALL);
        *range = range.intersect(Range::new(min, max));
    }
}

/// Whether an extent never gets smaller where one of its symbols gets larger.
fn grows(extent: &Expr) -> bool {
    extent.terms().iter().all(|term| {
        term.coefficient() > 0
            && term.factors().iter().all(|atom| match atom {
                Atom::Symbol(_) => true,
                Atom::FloorDiv(dividend, by) => by.as_constant().is_some() && grows(dividend),
                _ => false,
            })
    })
}

/// The last value on the way from one for which something holds to another that it holds for, if it
/// holds up to somewhere and from there on not.
fn last(from: i64, to: i64, holds: &dyn Fn(i64) -> bool) -> i64 {
    if holds(to) {
        return to;
    }
    let (mut good, mut bad) = (from, to);
    while good.abs_diff(bad) > 1 {
        let middle = good + (bad - good) / 2;
        match holds(middle) {
            true => good = middle,
            false => bad = middle,
        }
    }
    good
}
