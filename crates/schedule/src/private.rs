//! Whether a local buffer's contents never outlive one run of a block: each element is stored
//! before it is read, every time.
//!
//! A read is covered by an earlier store if the store's loops, all of constant extents, can be
//! solved for the read's index: along each axis the store's index is a base plus loop variables
//! whose values fill an interval without gaps (`i`, or `4 * io + ii` with `ii < 4`), and the read's
//! index provably lies in it. Where the store is guarded, the guard must follow, with the solution
//! put in, from the read's guards. What is not recognised is not private.

use std::collections::{BTreeMap, BTreeSet};

use loops::visit::{Effect, references};
use loops::{BufferId, Condition, Kernel, Scope, Stmt};
use sym::{Expr, SymbolId};

use crate::dependence::{Access, accesses, single_term};
use crate::nest::{SymbolRanges, condition_symbols};

/// Whether the buffer is local, touched nowhere but in the block, and each run of the block stores
/// what it reads.
pub(crate) fn is_private(
    kernel: &Kernel,
    ranges: &SymbolRanges,
    block: &[Stmt],
    buffer: BufferId,
) -> bool {
    let uses = |block: &[Stmt]| references(block).iter().filter(|r| r.buffer == buffer).count();
    let local = !matches!(kernel.buffers[buffer].scope, Scope::Parameter(_));
    local
        && uses(block) == uses(&kernel.body)
        && stores_before_reading(kernel, ranges, block, buffer)
}

/// Whether each run of the block stores an element of the buffer before it reads it.
pub(crate) fn stores_before_reading(
    kernel: &Kernel,
    ranges: &SymbolRanges,
    block: &[Stmt],
    buffer: BufferId,
) -> bool {
    let mut all = accesses(block);
    all.retain(|access| access.buffer == buffer);
    let covered = |(position, read): (usize, &Access)| {
        !read.effect.reads()
            || all[..position].iter().any(|store| covers(kernel, ranges, store, read))
    };
    all.iter().enumerate().all(covered)
}

/// The number of leading steps of the way that two accesses share; the second stands after the
/// first where they part.
fn shared_way(first: &Access, second: &Access) -> Option<usize> {
    let depth = first.way.iter().zip(&second.way).take_while(|(a, b)| a == b).count();
    let place = |access: &Access| match access.way.get(depth) {
        Some(descent) => descent.stmt,
        None => access.position,
    };
    (place(first) < place(second)).then_some(depth)
}

/// Whether the store, in full, has happened for every element that an instance of the read touches.
fn covers(kernel: &Kernel, ranges: &SymbolRanges, store: &Access, read: &Access) -> bool {
    if store.effect != Effect::Store || store.uncertain {
        return false;
    }
    let Some(depth) = shared_way(store, read) else { return false };
    // Loops around both have the same value in both; the store's others are to be solved for.
    let common = store.loops.iter().zip(&read.loops).take_while(|(a, b)| a == b).count();
    let own: BTreeSet<SymbolId> = store.loops[common..].iter().copied().collect();
    if own.iter().any(|variable| ranges.iterations(*variable).is_none_or(|count| count < 1)) {
        return false;
    }
    let guards: Vec<Condition> = read.conditions.iter().map(|(_, c)| c.clone()).collect();
    let mut solution =
        Solution { ranges, own: &own, solved: BTreeMap::new(), used: BTreeSet::new() };
    for (axis, stored) in store.index.iter().enumerate() {
        let fold_axis = matches!(read.effect, Effect::Fold(_)) && axis + 1 == store.index.len();
        let ok = match fold_axis {
            true => solution.fills(stored, &kernel.buffers[store.buffer].shape[axis]),
            false => solution.reaches(stored, &read.index[axis], &guards),
        };
        if !ok {
            return false;
        }
    }
    let own_guards = store.conditions.iter().filter(|(level, _)| *level > depth);
    own_guards.into_iter().all(|(_, guard)| solution.implies(guard, &guards))
}

/// Values of a store's loop variables for which it touches the element that is read.
struct Solution<'a> {
    ranges: &'a SymbolRanges,
    /// The variables to solve for.
    own: &'a BTreeSet<SymbolId>,
    /// The value of each sum of variables that was solved for, by its variables.
    solved: BTreeMap<Vec<SymbolId>, (Expr, Expr)>,
    /// Variables that appear in an axis already.
    used: BTreeSet<SymbolId>,
}

impl Solution<'_> {
    /// Splits an index into a base and a gapless sum of own variables, with the sum's extent.
    fn split(&mut self, stored: &Expr) -> Option<(Expr, Expr, i64)> {
        let mut base = Expr::constant(stored.constant_part());
        let mut moving = Expr::ZERO;
        let mut parts: Vec<(i64, SymbolId)> = Vec::new();
        for term in stored.terms() {
            let single = single_term(term);
            if !single.symbols().iter().any(|symbol| self.own.contains(symbol)) {
                base += &single;
                continue;
            }
            parts.push((term.coefficient(), term.as_symbol()?));
            moving += &single;
        }
        parts.sort_unstable();
        let mut extent = 1i64;
        for (coefficient, symbol) in parts {
            let last = self.ranges.iterations(symbol)? - 1;
            if coefficient < 1 || coefficient > extent || !self.used.insert(symbol) {
                return None;
            }
            extent = extent.checked_add(coefficient.checked_mul(last)?)?;
        }
        Some((base, moving, extent))
    }

    /// Whether the store's index takes every value of an axis.
    fn fills(&mut self, stored: &Expr, extent: &Expr) -> bool {
        match self.split(stored) {
            Some((base, _, reach)) => {
                base.is_zero() && self.ranges.less_equal(extent, &Expr::constant(reach))
            }
            None => false,
        }
    }

    /// Whether the store's index takes the value that is read, and remembers where.
    fn reaches(&mut self, stored: &Expr, read: &Expr, guards: &[Condition]) -> bool {
        let Some((base, moving, reach)) = self.split(stored) else { return false };
        let wanted = read - &base;
        let known = self.ranges.within(guards, &wanted.symbols());
        let inside = known.prove_within(&wanted, &Expr::constant(reach));
        if inside && !moving.is_zero() {
            self.solved.insert(moving.symbols(), (moving, wanted));
        }
        inside
    }

    /// Whether a guard of the store holds at the solution, given the read's guards.
    fn implies(&self, guard: &Condition, known: &[Condition]) -> bool {
        let solve = |expr: &Expr| self.at_solution(expr);
        let (Some(left), Some(right)) = (solve(&guard.left), solve(&guard.right)) else {
            return false;
        };
        let guard = Condition { left, comparison: guard.comparison, right };
        let symbols: Vec<SymbolId> = condition_symbols(&guard).into_iter().collect();
        self.ranges.within(known, &symbols).prove(&guard)
    }

    /// An expression in which sums that were solved for are replaced by their values; `None` if own
    /// variables are left.
    fn at_solution(&self, expr: &Expr) -> Option<Expr> {
        let mut result = expr.clone();
        for (symbols, (moving, wanted)) in &self.solved {
            let Some(factor) = result.linear_coefficient(symbols[0]).filter(|c| *c != 0) else {
                continue;
            };
            let unit = moving.linear_coefficient(symbols[0])?;
            if factor % unit == 0 {
                result += &((wanted - moving) * (factor / unit));
            }
        }
        let left = result.symbols().iter().any(|symbol| self.own.contains(symbol));
        (!left).then_some(result)
    }
}
