//! For which values of its symbols a function is lowered alike: the ranges in which code with free
//! extents computes, bit for bit, what code for the extents at hand does.
//!
//! How many partial results a reduction keeps follows from how many elements lie behind each other,
//! by steps. Where that number grows with each of its symbols, these have ranges from one step to
//! the next; where it is of another form they have the values at hand alone. All other symbols keep
//! the range that the function states.
//!
//! Two more things decide, for speed alone. Large extents of another magnitude have code of their
//! own, by the least of which choices are weighed. A single picture is the usual case, and loops
//! over one are none: where sums could be taken in rows along another free axis as well as along
//! the first of a parameter, one input at a time and several have code of their own.

use std::collections::{BTreeMap, BTreeSet};

use base::IntoTree;
use graph::{Function, IterationSpace, NodeId, Op, ValueId};
use sym::{Atom, Expr, Range, SymbolId};

use crate::definitions::space;
use crate::naive::partials::{self, PARTIALS};

/// From these on extents are of another magnitude.
const MAGNITUDES: [i64; 3] = [1 << 10, 1 << 14, 1 << 18];

/// Beyond every extent.
const BEYOND: i64 = 1 << 40;

/// The range of each symbol that has a value, around that value.
#[must_use]
pub fn scope(function: &Function, values: &BTreeMap<SymbolId, i64>) -> BTreeMap<SymbolId, Range> {
    let known = |id: SymbolId| function.symbols[id].range;
    let mut ranges: BTreeMap<SymbolId, Range> =
        values.iter().map(|(&id, &value)| (id, around(known(id), value))).into_map();
    let firsts = function.parameters().iter().filter_map(|&value| {
        let first = function.ty(value).as_tensor()?.shape.first()?;
        first.as_symbol()
    });
    let firsts: BTreeSet<SymbolId> = firsts.into_set();
    for node in function.nodes_in_order() {
        for symbol in counting(function, node).into_iter().filter(|it| firsts.contains(it)) {
            let Some(range) = ranges.get_mut(&symbol) else { continue };
            *range = match values.get(&symbol) {
                Some(1) => Range::constant(1),
                Some(2..) => range.intersect(Range::at_least(2)),
                _ => *range,
            };
        }
        let Some(extent) = partial_extent(function, node) else { continue };
        narrow(&extent, values, &mut ranges);
    }
    ranges
}

/// The symbols that are the extents of axes of a sum's result along which rows could be taken as
/// well as along another free axis: an operand serves all of them, and the two are not walked as
/// one.
fn counting(function: &Function, node: NodeId) -> Vec<SymbolId> {
    let data = &function.nodes[node];
    let Op::Contract { space, .. } = &data.op else { return Vec::new() };
    let is_free = |axis: &usize| space.extents[*axis].as_constant().is_none();
    let free: Vec<usize> = (0..space.parallel).filter(is_free).collect();
    let moves = |operand: usize, axis: usize| {
        let symbol = IterationSpace::axis(axis);
        let is_axis = |of: SymbolId| Some(of) == symbol.as_symbol();
        space.operands[operand].iter().any(|index| index.any_symbol(&mut { is_axis }))
    };
    let as_one = |one: usize, two: usize| {
        let (outer, inner) = (one.min(two), one.max(two));
        let mut operands = data.operands.iter().enumerate();
        operands.all(|(number, &operand)| {
            let shape = function.ty(operand).as_tensor().map_or(&[][..], |ty| &ty.shape);
            !moves(number, outer) && !moves(number, inner)
                || space.steps_as_one(number, shape, outer, inner)
        })
    };
    let competes = |one: usize, two: usize| {
        let mut operands = 0..data.operands.len();
        one != two
            && operands.any(|operand| !moves(operand, one) && !moves(operand, two))
            && !as_one(one, two)
    };
    let counts = |one: &&usize| free.iter().any(|&two| competes(**one, two));
    free.iter().filter(counts).filter_map(|&axis| space.extents[axis].as_symbol()).collect()
}

/// A range without what is no extent of a tensor with elements, so that code need not ask, and
/// without extents of another magnitude.
fn around(range: Range, value: i64) -> Range {
    let large = MAGNITUDES.iter().rev().find(|least| **least <= value);
    let larger = MAGNITUDES.iter().find(|least| **least > value);
    let alike = Range::new(*large.unwrap_or(&1), larger.map_or(i64::MAX, |least| least - 1));
    match value {
        1.. => range.intersect(alike),
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
