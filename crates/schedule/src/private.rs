//! Whether a local buffer's contents never outlive one run of a block: each element is stored
//! before it is read, every time.
//!
//! A read is covered by an earlier store if the store's loops, none of which depends on another,
//! can be solved for the read's index: along each axis the store's index is a base plus loop
//! variables whose values fill an interval without gaps (`i`, or `4 * io + ii` with `ii < 4`, or
//! also `min(4 * io, 6) + ii`), and the read's index provably lies in it. Where the store is
//! guarded, the guard must follow, with the solution put in, from the read's guards. A store that
//! fills an axis only up to some index covers the reads below; what reads from there on another
//! store must cover. What is not recognised is not private.

use std::collections::{BTreeMap, BTreeSet};

use base::IntoTree;
use loops::build::less_equal;
use loops::visit::{Effect, walk_references};
use loops::{BufferId, Condition, Kernel, Scope, Stmt};
use sym::{Atom, Expr, SymbolId, Term};

use crate::dependence::{Access, accesses_of};
use crate::nest::{SymbolRanges, condition_symbols};

/// Whether the buffer is local, touched nowhere but in the block, and each run of the block stores
/// what it reads.
pub(crate) fn is_private(
    kernel: &Kernel,
    ranges: &SymbolRanges,
    block: &[Stmt],
    buffer: BufferId,
) -> bool {
    let uses = |block: &[Stmt]| {
        let mut count = 0;
        walk_references(block, &mut |reference| count += usize::from(reference.buffer == buffer));
        count
    };
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
    let all = accesses_of(block, buffer);
    let covered = |(position, read): (usize, &Access<'_>)| {
        let guards = read.conditions.iter().map(|(_, c)| (*c).clone()).collect();
        !read.effect.reads() || is_covered(kernel, ranges, &all[..position], read, guards)
    };
    all.iter().enumerate().all(covered)
}

/// Whether the stores cover the read where these conditions hold.
fn is_covered(
    kernel: &Kernel,
    ranges: &SymbolRanges,
    stores: &[Access<'_>],
    read: &Access<'_>,
    guards: Vec<Condition>,
) -> bool {
    let mut guards = guards;
    for store in stores {
        match covers(kernel, ranges, store, read, &guards) {
            Cover::All => return true,
            Cover::Below(rest) => guards.push(rest),
            Cover::Nothing => {}
        }
    }
    false
}

/// The part of a read's instances that a store covers.
enum Cover {
    All,
    /// Those for which this condition does not hold.
    Below(Condition),
    Nothing,
}

/// The number of leading steps of the way that two accesses share; the second stands after the
/// first where they part.
fn shared_way(first: &Access<'_>, second: &Access<'_>) -> Option<usize> {
    let depth = first.way.iter().zip(&second.way).take_while(|(a, b)| a == b).count();
    let place = |access: &Access<'_>| match access.way.get(depth) {
        Some(descent) => descent.stmt,
        None => access.position,
    };
    (place(first) < place(second)).then_some(depth)
}

/// For which of the read's instances, under these conditions, the store has happened, in full, for
/// every element that they touch.
fn covers(
    kernel: &Kernel,
    ranges: &SymbolRanges,
    store: &Access<'_>,
    read: &Access<'_>,
    guards: &[Condition],
) -> Cover {
    if store.effect != Effect::Store || store.uncertain {
        return Cover::Nothing;
    }
    let Some(depth) = shared_way(store, read) else { return Cover::Nothing };
    // Loops around both have the same value in both; the store's others are to be solved for.
    let common = store.loops.iter().zip(&read.loops).take_while(|(a, b)| a == b).count();
    let own: BTreeSet<SymbolId> = store.loops[common..].iter().copied().into_set();
    let runs = |variable: &SymbolId| {
        ranges.iterations(*variable).is_some_and(|count| {
            let depends = count.any_symbol(&mut |symbol| own.contains(&symbol));
            !depends && ranges.less_equal(&Expr::ONE, count)
        })
    };
    if !own.iter().all(runs) {
        return Cover::Nothing;
    }
    let mut solution =
        Solution { ranges, own: &own, solved: BTreeMap::new(), used: BTreeSet::new() };
    let mut beyond: Option<Condition> = None;
    for (axis, stored) in store.index.iter().enumerate() {
        let fold_axis = matches!(read.effect, Effect::Fold(_)) && axis + 1 == store.index.len();
        if fold_axis {
            if !solution.fills(stored, &kernel.buffers[store.buffer].shape[axis]) {
                return Cover::Nothing;
            }
            continue;
        }
        match solution.reaches(stored, &read.index[axis], guards) {
            Cover::All => {}
            Cover::Below(rest) if beyond.is_none() => beyond = Some(rest),
            Cover::Below(_) | Cover::Nothing => return Cover::Nothing,
        }
    }
    let known: Vec<Condition> =
        guards.iter().cloned().chain(beyond.iter().map(Condition::negated)).collect();
    let own_guards = store.conditions.iter().filter(|(level, _)| *level > depth);
    if !own_guards.into_iter().all(|(_, guard)| solution.implies(guard, &known)) {
        return Cover::Nothing;
    }
    beyond.map_or(Cover::All, Cover::Below)
}

/// The values of one loop variable in an index.
struct Part<'a> {
    step: i64,
    last: Last<'a>,
    symbol: SymbolId,
}

/// Where these values end.
enum Last<'a> {
    At(Expr),
    /// After so many.
    Of(&'a Expr),
}

/// So many steps; of as many as cover a length, that length, which is what surely is reached.
fn whole(count: &Expr, step: i64) -> Expr {
    match count.as_atom() {
        Some(Atom::FloorDiv(length, by)) if by.as_constant() == Some(step) => {
            (**length).clone() - (step - 1)
        }
        _ => count.clone() * step,
    }
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

impl<'a> Solution<'a> {
    /// Splits an index into a base and a gapless sum of own variables, with the end of the values
    /// from 0 on that the sum takes.
    fn split(&mut self, stored: &Expr) -> Option<(Expr, Expr, Expr)> {
        let mut base = Expr::constant(stored.constant_part());
        let mut moving = Expr::ZERO;
        let mut parts: Vec<Part> = Vec::new();
        for term in stored.terms() {
            let single = Expr::from(term.clone());
            if !single.symbols().iter().any(|symbol| self.own.contains(symbol)) {
                base += &single;
                continue;
            }
            parts.push(self.part(term)?);
            moving += &single;
        }
        parts.sort_unstable_by_key(|part| (part.step, part.symbol));
        let mut reach = Expr::ONE;
        for Part { step, last, symbol } in parts {
            // What is not known to be as long as a step can be the last part alone.
            let before = reach.as_constant()?;
            if step < 1 || step > before || !self.used.insert(symbol) {
                return None;
            }
            reach = match last {
                Last::At(last) => reach + &last,
                Last::Of(count) if step == before => whole(count, step),
                Last::Of(count) => reach + &((count.clone() - 1) * step),
            };
        }
        Some((base, moving, reach))
    }

    /// The values of a term with an own variable: from 0 in such steps, or smaller ones, to such an
    /// end.
    fn part(&self, term: &Term) -> Option<Part<'a>> {
        let ranges: &'a SymbolRanges = self.ranges;
        if let Some(symbol) = term.as_symbol() {
            let last = Last::Of(ranges.iterations(symbol)?);
            return Some(Part { step: term.coefficient(), last, symbol });
        }
        let ([Atom::Min(a, b)], 1) = (term.factors(), term.coefficient()) else { return None };
        let is_own = |expr: &Expr| expr.any_symbol(&mut |symbol| self.own.contains(&symbol));
        let (counted, most) = match (is_own(a), is_own(b)) {
            (true, false) => (a, b),
            (false, true) => (b, a),
            _ => return None,
        };
        let ([counted], 0) = (counted.terms(), counted.constant_part()) else { return None };
        let (symbol, step) = (counted.as_symbol()?, counted.coefficient());
        // The last value is the bound only if counting gets there.
        let counts_to = whole(self.ranges.iterations(symbol)?, step) - step;
        let gets_there =
            self.ranges.less_equal(&Expr::ZERO, most) && self.ranges.less_equal(most, &counts_to);
        gets_there.then(|| Part { step, last: Last::At((**most).clone()), symbol })
    }

    /// Whether the store's index takes every value of an axis.
    fn fills(&mut self, stored: &Expr, extent: &Expr) -> bool {
        match self.split(stored) {
            Some((base, _, reach)) => base.is_zero() && self.ranges.less_equal(extent, &reach),
            None => false,
        }
    }

    /// For which instances the store's index takes the value that is read; remembers where.
    fn reaches(&mut self, stored: &Expr, read: &Expr, guards: &[Condition]) -> Cover {
        let Some((base, moving, reach)) = self.split(stored) else { return Cover::Nothing };
        let wanted = read - &base;
        let known = self.ranges.within(guards, &wanted.symbols());
        if !known.prove_not_negative(&wanted) {
            return Cover::Nothing;
        }
        let rest = less_equal(reach, wanted.clone());
        let all = known.prove(&rest.negated());
        if !moving.is_zero() {
            self.solved.insert(moving.symbols(), (moving, wanted));
        }
        if all { Cover::All } else { Cover::Below(rest) }
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
