//! For which values of its symbols a function is lowered alike: the ranges in which code with free
//! extents computes, bit for bit, what code for the extents at hand does.
//!
//! How many partial results a reduction keeps follows from how many elements lie behind each other,
//! by steps; which operand is copied in front of a product, from how often it is read; what lies
//! behind each other, from which extents are 1 and which are the same. All that is asked of
//! [`Extents`] is asked here first, of the values at hand. Where an extent grows with each of its
//! symbols, these have ranges within which the answer stays; where it is of another form they have
//! the values at hand alone, or what must hold is checked of each shape. All other symbols keep the
//! range that the function states.
//!
//! Two more things decide, for speed alone. Large extents of another magnitude have code of their
//! own, by the least of which choices are weighed. A single picture is the usual case, and loops
//! over one are none: where sums could be taken in rows along another free axis as well as along
//! the first of a parameter, one input at a time and several have code of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::IntoTree;
use graph::{Function, IterationSpace, NodeId, Op, READS_PER_COPY, ValueId};
use sym::{Atom, Expr, Range, SymbolId, proves_less_equal};

use crate::definitions::{Class, class_of_node};
use crate::extents::{Condition, Extents};
use crate::groups::legalise;
use crate::naive::partials;

/// From these on extents are of another magnitude.
const MAGNITUDES: [i64; 3] = [1 << 10, 1 << 14, 1 << 18];

/// Values that are looked at to find a transpose.
const LOOKED_AT: usize = 64;

/// Beyond every extent.
const BEYOND: i64 = 1 << 40;

/// For which values of symbols a function is lowered alike.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtentScope {
    /// The range of each symbol that has a value, around that value.
    pub ranges: BTreeMap<SymbolId, Range>,
    /// What must hold besides: in each pair the first is at most the second.
    pub checks: Vec<(Expr, Expr)>,
}

/// The values of symbols around these.
///
/// # Errors
/// An internal error if a copy is ill-typed.
pub fn scope(
    function: &Arc<Function>,
    values: &BTreeMap<SymbolId, i64>,
) -> Result<ExtentScope, String> {
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
    }
    let (fixed, others): (Vec<Condition>, Vec<Condition>) =
        conditions(function, values)?.into_iter().partition(|it| matches!(it, Condition::Fixed(_)));
    let mut checks = Vec::new();
    for condition in fixed.into_iter().chain(others) {
        match condition {
            Condition::Fixed(extent) => fix(&extent, values, &mut ranges),
            Condition::Within { extent, range, is_read } => {
                let holds = |ranges: &BTreeMap<SymbolId, Range>| {
                    let of = |id| ranges.get(&id).copied().unwrap_or_else(|| known(id));
                    let above = |least: i64| proves_less_equal(&least.into(), &extent, &of);
                    let below = |most: i64| proves_less_equal(&extent, &most.into(), &of);
                    (range.min == i64::MIN || above(range.min))
                        && (range.max == i64::MAX || below(range.max))
                };
                if holds(&ranges) {
                    continue;
                }
                if grows(&extent) && (is_read || extent.symbols().len() == 1) {
                    narrow(&extent, range, values, &mut ranges);
                    continue;
                }
                if is_read {
                    fix(&extent, values, &mut ranges);
                    continue;
                }
                let ends = [(range.min > i64::MIN).then(|| (range.min.into(), extent.clone()))];
                checks.extend(ends.into_iter().flatten());
                if range.max < i64::MAX {
                    checks.push((extent, range.max.into()));
                }
            }
        }
    }
    Ok(ExtentScope { ranges, checks })
}

/// What is asked of extents where the order of sums is decided: which operands are copied, then
/// along what each sum keeps partial results.
fn conditions(
    function: &Arc<Function>,
    values: &BTreeMap<SymbolId, i64>,
) -> Result<Vec<Condition>, String> {
    let asked = Extents::at_hand(function, values);
    // Where what is transposed is read seldom, it is read as it lies.
    for node in function.nodes_in_order() {
        let data = &function.nodes[node];
        let Op::Contract { space, .. } = &data.op else { continue };
        for (number, &operand) in data.operands.iter().enumerate() {
            if is_transposed(function, operand) {
                asked.reaches(&space.reads(number), READS_PER_COPY, false);
            }
        }
    }
    let legal = legalise(function.clone(), &asked)?;
    let asked = asked.within(&legal);
    partials::all(&legal, &asked);
    Ok(asked.conditions())
}

/// Whether a transpose stands in front of a value, with nothing but maps and movements in between.
fn is_transposed(function: &Function, value: ValueId) -> bool {
    let (mut work, mut seen) = (vec![value], BTreeSet::new());
    while let Some(value) = work.pop() {
        let Some((node, _)) = function.producer(value).filter(|_| seen.insert(value)) else {
            continue;
        };
        let data = &function.nodes[node];
        if matches!(data.op, Op::Transpose { .. }) || seen.len() == LOOKED_AT {
            return true;
        }
        let class = class_of_node(function, node);
        if matches!(
            class,
            Class::Movement | Class::View | Class::Elementwise | Class::Guarded | Class::Assembled
        ) {
            work.extend(&data.operands);
        }
    }
    false
}

/// Has the symbols of an extent be as they are.
fn fix(extent: &Expr, values: &BTreeMap<SymbolId, i64>, ranges: &mut BTreeMap<SymbolId, Range>) {
    for symbol in extent.symbols() {
        if let Some(&value) = values.get(&symbol) {
            ranges.insert(symbol, Range::constant(value));
        }
    }
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

/// Narrows the ranges of the symbols of an extent that grows with each of them until it is within a
/// range.
fn narrow(
    extent: &Expr,
    within: Range,
    values: &BTreeMap<SymbolId, i64>,
    ranges: &mut BTreeMap<SymbolId, Range>,
) {
    let at = |values: &BTreeMap<SymbolId, i64>| extent.evaluate(&|id| values.get(&id).copied());
    // What one symbol may do while the others stay, those before it having done all they may.
    let (mut least, mut most) = (values.clone(), values.clone());
    for symbol in extent.symbols() {
        let Some(&own) = values.get(&symbol) else { continue };
        let known = ranges.get(&symbol).copied().unwrap_or(Range::ALL);
        let with = |others: &BTreeMap<SymbolId, i64>, value: i64| {
            let mut all = others.clone();
            all.insert(symbol, value);
            at(&all).unwrap_or(i64::MAX)
        };
        let stays = |value: i64| with(&least, value) >= within.min;
        let min = last(own, known.min.max(0), &stays);
        let stays = |value: i64| with(&most, value) <= within.max;
        let max = last(own, known.max.min(BEYOND), &stays);
        least.insert(symbol, min);
        most.insert(symbol, max);
        let min = if min == known.min.max(0) { known.min } else { min };
        let max = if max == known.max.min(BEYOND) { known.max } else { max };
        ranges.insert(symbol, known.intersect(Range::new(min, max)));
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
