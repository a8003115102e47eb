//! What strategies see of a kernel: its nests, and how each access moves with each loop.
//!
//! A naive kernel is one perfect nest after another. A loop's step through a buffer is found by
//! trying the loop's first values with all others at zero, so that quotients and remainders of
//! packed operands are seen through. What is found here steers choices only: whether a choice is
//! legal is for `schedule` to say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::{IntoTree, SecondaryMap};
use loops::visit::{Effect, walk};
use loops::{BufferId, Comparison, Condition, Kernel, KernelSymbol, ScalarExpr, Stmt, SymbolKind};
use sym::{Atom, Expr, Range, SymbolId, Term};

/// How many values of a loop are tried to find its step.
const TRIED: i64 = 512;

/// A loop of a nest.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LoopInfo {
    pub(super) name: String,
    pub(super) variable: SymbolId,
    /// Its extent, to weigh choices by: a free one's usual value.
    pub(super) extent: i64,
    /// The extents that it may have.
    pub(super) extents: Range,
}

impl LoopInfo {
    /// Whether its extent is known only when the kernel runs.
    pub(super) fn is_free(&self) -> bool {
        self.extents.as_constant().is_none()
    }
}

/// A perfect nest: loops around a block that holds none.
#[derive(Clone, Debug)]
pub(super) struct Nest {
    /// Outermost first.
    pub(super) loops: Vec<LoopInfo>,
    /// What the block touches, in program order.
    pub(super) accesses: Vec<Access>,
    /// How often elements are used: one that a `Let` has loaded wherever that is read.
    pub(super) uses: usize,
    /// Symbols that conditions depend on.
    pub(super) guards: BTreeSet<SymbolId>,
}

/// One access of a nest's block.
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub(super) buffer: BufferId,
    pub(super) effect: Effect,
    pub(super) index: Vec<Expr>,
    /// Elements from one index to the next along each axis of the buffer.
    strides: Arc<[i64]>,
}

/// How an access moves as a loop counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Motion {
    /// It does not.
    Still,
    /// By so many elements each time; with a block, only within every so many iterations.
    Steady {
        /// Elements from one iteration to the next.
        stride: i64,
        /// Iterations after which it jumps.
        block: Option<i64>,
    },
    /// In some other way.
    Irregular,
}

impl Motion {
    /// Whether it moves by one element each time, at least within blocks.
    pub(super) fn is_unit(self) -> bool {
        matches!(self, Motion::Steady { stride: 1, .. })
    }

    /// Whether it moves by one element each time, in blocks of at least so many.
    pub(super) fn is_run_of(self, lanes: i64) -> bool {
        matches!(self, Motion::Steady { stride: 1, block } if block.is_none_or(|it| it >= lanes))
    }

    /// Whether a vector of neighbouring iterations reads one element or neighbouring ones.
    pub(super) fn is_vector(self) -> bool {
        self == Motion::Still || self.is_unit()
    }

    /// The motion counted in so many elements at once; one that does not move by whole numbers of
    /// them is irregular.
    pub(super) fn in_tuples(self, count: i64) -> Motion {
        match self {
            Motion::Steady { stride, block } if stride % count == 0 => {
                Motion::Steady { stride: stride / count, block }
            }
            Motion::Still => Motion::Still,
            _ => Motion::Irregular,
        }
    }

    /// Iterations after which it jumps, if it moves in between.
    pub(super) fn block(self) -> Option<i64> {
        match self {
            Motion::Steady { stride, block } => block.filter(|_| stride != 0),
            Motion::Still | Motion::Irregular => None,
        }
    }
}

impl Nest {
    /// The nests of a kernel's body; none where a statement is no perfect nest of constant extents.
    pub(super) fn all(kernel: &Kernel) -> Option<Vec<Nest>> {
        kernel.body.iter().map(|stmt| Nest::of(kernel, stmt)).collect()
    }

    /// A statement as a nest, if it is one.
    pub(super) fn of(kernel: &Kernel, stmt: &Stmt) -> Option<Nest> {
        let mut loops = Vec::new();
        let mut block = std::slice::from_ref(stmt);
        while let [Stmt::For(inner)] = block {
            if !kernel.is_of_dimensions(&inner.extent) {
                return None;
            }
            let extents = inner.extent.bounds(&|symbol| kernel.shape_range(symbol));
            let extent = kernel.weight(&inner.extent);
            let name = kernel.symbols[inner.variable].name.clone();
            loops.push(LoopInfo { name, variable: inner.variable, extent, extents });
            block = &inner.body;
        }
        let mut strides_of: SecondaryMap<BufferId, Option<Arc<[i64]>>> = SecondaryMap::new();
        let mut accesses = Vec::new();
        let mut add = |buffer: BufferId, effect: Effect, index: &[Expr]| {
            let own = || strides(kernel, buffer).into();
            let strides = strides_of[buffer].get_or_insert_with(own).clone();
            accesses.push(Access { buffer, effect, index: usual_index(kernel, index), strides });
        };
        let mut nested = false;
        let mut guards = BTreeSet::new();
        let mut add_guards = |conditions: &[Condition]| {
            for condition in conditions {
                guards.extend(condition.left.symbols());
                guards.extend(condition.right.symbols());
            }
        };
        // How often elements that `Let`s have loaded are read.
        let mut loaded: SecondaryMap<SymbolId, bool> = SecondaryMap::new();
        let (mut lets, mut reads) = (0, 0usize);
        walk(block, &mut |stmt| {
            if let Some(value) = stmt.value() {
                value.walk(&mut |value| match value {
                    ScalarExpr::Load { buffer, index } => add(*buffer, Effect::Load, index),
                    ScalarExpr::Fold { reduction, buffer, index } => {
                        add(*buffer, Effect::Fold(*reduction), index);
                    }
                    ScalarExpr::Symbol(symbol) => reads += usize::from(loaded[*symbol]),
                    ScalarExpr::Guard { conditions, .. } => add_guards(conditions),
                    _ => {}
                });
            }
            match stmt {
                Stmt::Store { buffer, index, .. } => add(*buffer, Effect::Store, index),
                Stmt::Reduce { reduction, buffer, index, .. } => {
                    add(*buffer, Effect::Reduce(*reduction), index);
                }
                Stmt::Let { symbol, value: ScalarExpr::Load { .. } } => {
                    loaded[*symbol] = true;
                    lets += 1;
                }
                Stmt::Let { .. } | Stmt::Prefetch { .. } => {}
                Stmt::If { conditions, .. } => add_guards(conditions),
                Stmt::For(_) | Stmt::While { .. } => nested = true,
            }
        });
        let uses = accesses.len() + reads.saturating_sub(lets);
        (!nested).then_some(Nest { loops, accesses, uses, guards })
    }

    /// What the block writes.
    pub(super) fn writes(&self) -> impl Iterator<Item = &Access> {
        self.accesses.iter().filter(|access| access.effect.writes())
    }

    /// Has a buffer's accesses move as if its axes were in another order.
    pub(super) fn reorder_axes(&mut self, kernel: &Kernel, buffer: BufferId, order: &[usize]) {
        let shape = &kernel.buffers[buffer].shape;
        let mut strides = vec![0; shape.len()];
        let mut step = 1;
        for &axis in order.iter().rev() {
            strides[axis] = step;
            step *= kernel.weight(&shape[axis]);
        }
        let strides: Arc<[i64]> = strides.into();
        for access in self.accesses.iter_mut().filter(|access| access.buffer == buffer) {
            access.strides = strides.clone();
        }
    }

    /// What the block loads or folds.
    pub(super) fn loads(&self) -> impl Iterator<Item = &Access> {
        self.accesses.iter().filter(|access| !access.effect.writes())
    }
}

/// The loops of the last of some nests with which everything that they keep moves: what one of
/// their iterations computes no other one needs.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows {
    /// Positions of these loops in the last nest.
    pub(super) loops: BTreeSet<usize>,
    /// For each nest the variables of the loops that stand for a loop of the last nest, with its
    /// position there.
    pub(super) counterparts: Vec<BTreeMap<SymbolId, usize>>,
}

impl Rows {
    /// Follows the last nest's loops back through the buffers that nests write for later ones.
    pub(super) fn of(nests: &[Nest], kept: &[BufferId]) -> Rows {
        let Some(last) = nests.last() else { return Rows::default() };
        let mut axes: BTreeMap<BufferId, Vec<Option<usize>>> = BTreeMap::new();
        let mut counterparts = Vec::new();
        for (number, nest) in nests.iter().enumerate().rev() {
            let own: BTreeMap<SymbolId, usize> = match number + 1 == nests.len() {
                true => (0..last.loops.len()).map(|at| (last.loops[at].variable, at)).collect(),
                false => written_loops(nest, &axes),
            };
            for access in nest.loads().filter(|access| kept.contains(&access.buffer)) {
                let place = |index: &Expr| own.get(&index.as_symbol()?).copied();
                let found: Vec<Option<usize>> = access.index.iter().map(place).collect();
                match axes.get_mut(&access.buffer) {
                    Some(known) => known.iter_mut().zip(found).for_each(|(known, found)| {
                        *known = known.filter(|_| *known == found);
                    }),
                    None => _ = axes.insert(access.buffer, found),
                }
            }
            counterparts.push(own);
        }
        counterparts.reverse();
        let moves = |at: &usize| {
            kept.iter().all(|id| axes.get(id).is_some_and(|own| own.contains(&Some(*at))))
        };
        let loops: BTreeSet<usize> = (0..last.loops.len()).filter(moves).into_set();
        counterparts.iter_mut().for_each(|own| own.retain(|_, at| loops.contains(at)));
        Rows { loops, counterparts }
    }
}

/// The loops of a nest that walk known axes of what it writes.
fn written_loops(
    nest: &Nest,
    axes: &BTreeMap<BufferId, Vec<Option<usize>>>,
) -> BTreeMap<SymbolId, usize> {
    let mut found = BTreeMap::new();
    for access in nest.writes() {
        let known = axes.get(&access.buffer).into_iter().flatten();
        for (index, at) in access.index.iter().zip(known) {
            if let (Some(symbol), Some(at)) = (index.as_symbol(), at) {
                found.insert(symbol, *at);
            }
        }
    }
    found
}

impl Access {
    /// A load of a kernel, wherever it stands.
    pub(super) fn new(kernel: &Kernel, buffer: BufferId, index: &[Expr]) -> Access {
        let (strides, index) = (strides(kernel, buffer).into(), usual_index(kernel, index));
        Access { buffer, effect: Effect::Load, index, strides }
    }

    /// How the access moves as a loop counts.
    pub(super) fn motion(&self, by: &LoopInfo) -> Motion {
        self.motion_along(by.variable, by.extent)
    }

    /// How the access moves as a variable counts up to an extent.
    pub(super) fn motion_along(&self, variable: SymbolId, extent: i64) -> Motion {
        let parts = self.index.iter().zip(&self.strides[..]);
        let along = parts.into_iter().try_fold(0i64, |sum, (index, step)| {
            let own = index.linear_coefficient(variable)?.saturating_mul(*step);
            Some(sum.saturating_add(own))
        });
        match along {
            Some(0) => Motion::Still,
            Some(stride) => Motion::Steady { stride, block: None },
            None => self.tried(variable, extent).unwrap_or(Motion::Irregular),
        }
    }

    /// Elements between what is met in the first iteration of a loop and in a later one.
    pub(super) fn distance(&self, by: &LoopInfo, later: i64) -> Option<i64> {
        self.distance_along(by.variable, later)
    }

    fn distance_along(&self, variable: SymbolId, later: i64) -> Option<i64> {
        let place = self.moving(variable);
        let at = |value: i64| {
            let of = |symbol: SymbolId| Some(if symbol == variable { value } else { 0 });
            place.evaluate(&of)
        };
        Some(at(later)? - at(0)?)
    }

    /// Whether a vector of so many neighbouring iterations reads elements that each serve several
    /// of them, and lie within as many elements.
    pub(super) fn is_spread(&self, motion: Motion, variable: SymbolId, lanes: i64) -> bool {
        let Motion::Steady { stride: 0, block: Some(block) } = motion else { return false };
        let last = self.distance_along(variable, lanes - 1);
        lanes % block == 0 && last.is_some_and(|last| (0..lanes).contains(&last))
    }

    /// Whether what is met at the first turn of a loop begins, wherever other loops stand, at a
    /// multiple of so many elements of the buffer.
    pub(super) fn begins_at_multiples(&self, variable: SymbolId, elements: i64) -> bool {
        let mut place = Expr::ZERO;
        for (index, step) in self.index.iter().zip(&self.strides[..]) {
            place += &Expr::constant(index.constant_part() * *step);
            let others = index.terms().iter().filter(|term| term.as_symbol() != Some(variable));
            for term in others {
                place.add_scaled(&Expr::from(term.clone()), *step);
            }
        }
        place.divisible_by(elements)
    }

    /// Elements from the start of the buffer, less what does not depend on a loop.
    fn moving(&self, variable: SymbolId) -> Expr {
        let mut place = Expr::ZERO;
        for (index, step) in self.index.iter().zip(&self.strides[..]) {
            let moves = |term: &&Term| term.factors().iter().any(|f| f.contains(variable));
            for term in index.terms().iter().filter(moves) {
                place.add_scaled(&Expr::from(term.clone()), *step);
            }
        }
        place
    }

    fn tried(&self, variable: SymbolId, extent: i64) -> Option<Motion> {
        let place = self.moving(variable);
        if let Some(stride) = place.linear_coefficient(variable) {
            // What is not linear cancels.
            let steady = Motion::Steady { stride, block: None };
            return Some(if stride == 0 { Motion::Still } else { steady });
        }
        let count = extent.min(TRIED);
        if let Some((stride, jump)) = steps(&place, variable).filter(|_| count >= 2) {
            let block = jump.filter(|block| *block < count);
            return Some(Motion::Steady { stride, block });
        }
        walked(&place, variable, count)
    }
}

/// How much a place grows with each of a variable's first values, all others being zero, and from
/// which value on and every how many it grows otherwise; none where that is not as regular.
fn steps(place: &Expr, variable: SymbolId) -> Option<(i64, Option<i64>)> {
    let mut stride = 0i64;
    let mut jump: Option<(i64, i64)> = None;
    for term in place.terms() {
        let ([atom], coefficient) = (term.factors(), term.coefficient()) else { return None };
        let (own, divisor) = match atom {
            Atom::Symbol(_) => (coefficient, None),
            Atom::FloorDiv(dividend, n) => (0, Some((dividend, n.as_constant()?, coefficient))),
            Atom::Mod(dividend, n) => {
                let n = n.as_constant()?;
                (coefficient, Some((dividend, n, coefficient.checked_neg()?.checked_mul(n)?)))
            }
            Atom::Min(..) | Atom::Max(..) => return None,
        };
        stride = stride.checked_add(own)?;
        let Some((dividend, n, more)) = divisor else { continue };
        let zero = |term: &Term| term.as_symbol().is_some();
        let counts = dividend.linear_coefficient(variable) == Some(1)
            && dividend.constant_part() == 0
            && dividend.terms().iter().all(zero);
        let known = jump.map_or(0, |(_, known)| known);
        if !counts || n < 2 || jump.is_some_and(|(other, _)| other != n) {
            return None;
        }
        jump = Some((n, known.checked_add(more)?));
    }
    Some((stride, jump.filter(|(_, more)| *more != 0).map(|(n, _)| n)))
}

/// How a place moves with so many first values of a variable, all others being zero; none where
/// that is not regular.
fn walked(place: &Expr, variable: SymbolId, count: i64) -> Option<Motion> {
    let (mut stride, mut block) = (None, None);
    // Takes equal steps; those that differ from the first one stand alone, behind whole blocks.
    let mut take = |step: i64, first: i64, last: i64| {
        if first > last || step == *stride.get_or_insert(step) {
            return Some(());
        }
        let block = *block.get_or_insert(first);
        (first == last && first % block == 0).then_some(())
    };
    let (mut at, mut piece) = (0, place.piece(variable, 0)?);
    while at < count - 1 {
        let last = (piece.until - 1).min(count - 1);
        take(piece.slope, at + 1, last)?;
        let ends = piece.value.checked_add(piece.slope.checked_mul(last - at)?)?;
        (at, piece) = match last == count - 1 {
            true => break,
            false => (last + 1, place.piece(variable, last + 1)?),
        };
        take(piece.value.checked_sub(ends)?, at, at)?;
    }
    Some(Motion::Steady { stride: stride?, block })
}

/// Symbols that conditions in a block depend on.
pub(super) fn guards(block: &[Stmt]) -> BTreeSet<SymbolId> {
    let mut found = BTreeSet::new();
    walk_conditions(block, &mut |condition| {
        found.extend(condition.left.symbols());
        found.extend(condition.right.symbols());
    });
    found
}

/// Whether a condition in a block depends on a symbol.
pub(super) fn is_guard(block: &[Stmt], symbol: SymbolId) -> bool {
    let mut found = false;
    walk_conditions(block, &mut |condition| {
        found |= condition.left.contains(symbol) || condition.right.contains(symbol);
    });
    found
}

/// After how many values of a loop variable all remainders in a block's conditions repeat.
pub(super) fn period(block: &[Stmt], variable: SymbolId) -> i64 {
    let mut period = 1i64;
    walk_conditions(block, &mut |condition| {
        let terms = condition.left.terms().iter().chain(condition.right.terms());
        for factor in terms.flat_map(|term| term.factors()) {
            if let Atom::Mod(dividend, divisor) = factor
                && dividend.contains(variable)
                && let Some(divisor @ 1..) = divisor.as_constant()
            {
                let multiple =
                    (1..divisor).find(|times| period.saturating_mul(*times) % divisor == 0);
                period = period.saturating_mul(multiple.unwrap_or(divisor));
            }
        }
    });
    period
}

/// The values of a loop variable from which on some condition in a block that depends on it alone
/// holds, or no longer holds.
pub(super) fn changes(block: &[Stmt], variable: SymbolId) -> BTreeSet<i64> {
    changes_beside(block, variable, &BTreeMap::new())
}

/// The same of conditions that depend besides on loops of constant extent within the block: from
/// which on they hold, or no longer hold, in all of their turns or in none.
pub(super) fn changes_within(block: &[Stmt], variable: SymbolId) -> BTreeSet<i64> {
    let mut last = BTreeMap::new();
    walk(block, &mut |stmt| {
        if let Stmt::For(own) = stmt
            && let Some(extent @ 1..) = own.extent.as_constant()
        {
            last.insert(own.variable, extent - 1);
        }
    });
    changes_beside(block, variable, &last)
}

/// The same beside symbols from 0 to these numbers.
fn changes_beside(
    block: &[Stmt],
    variable: SymbolId,
    last: &BTreeMap<SymbolId, i64>,
) -> BTreeSet<i64> {
    let mut found = BTreeSet::new();
    walk_conditions(block, &mut |condition| {
        let own = changes_of(condition, variable, last);
        found.extend(own.into_iter().flatten().flatten().flatten());
    });
    found
}

/// The values of a variable from which on a condition has another truth than before: where what
/// else it depends on is least, and where it is largest.
fn changes_of(
    condition: &Condition,
    variable: SymbolId,
    last: &BTreeMap<SymbolId, i64>,
) -> Option<[[Option<i64>; 2]; 2]> {
    let difference = &condition.left - &condition.right;
    let mut coefficient = 0;
    let [mut least, mut largest] = [difference.constant_part(); 2];
    for term in difference.terms() {
        let (symbol, own) = (term.as_symbol()?, term.coefficient());
        if symbol == variable {
            coefficient = own;
            continue;
        }
        let reach = last.get(&symbol)?.checked_mul(own)?;
        least = least.checked_add(reach.min(0))?;
        largest = largest.checked_add(reach.max(0))?;
    }
    let at = |rest: i64| changes_at(condition.comparison, coefficient, rest);
    Some([at(least)?, at(largest)?])
}

/// The values of a variable from which on `coefficient * variable + rest` compares otherwise with
/// zero than before.
fn changes_at(comparison: Comparison, coefficient: i64, rest: i64) -> Option<[Option<i64>; 2]> {
    let by = coefficient.checked_abs().filter(|by| *by > 0)?;
    let limit = rest.checked_mul(-coefficient.signum())?;
    // The variable is compared with the quotient of these.
    let (floor, whole) = (limit.div_euclid(by), limit.rem_euclid(by) == 0);
    let past = if whole { floor } else { floor + 1 };
    Some(match comparison {
        Comparison::Less => [Some(if coefficient > 0 { past } else { floor + 1 }), None],
        Comparison::LessEqual => [Some(if coefficient > 0 { floor + 1 } else { past }), None],
        Comparison::Equal | Comparison::NotEqual if whole => [Some(floor), Some(floor + 1)],
        Comparison::Equal | Comparison::NotEqual => [None; 2],
    })
}

/// Visits all conditions in a block, of statements and of values.
fn walk_conditions(block: &[Stmt], visit: &mut dyn FnMut(&Condition)) {
    walk(block, &mut |stmt| {
        if let Stmt::If { conditions, .. } = stmt {
            conditions.iter().for_each(&mut *visit);
        }
        if let Some(value) = stmt.value() {
            value.walk(&mut |value| {
                if let ScalarExpr::Guard { conditions, .. } = value {
                    conditions.iter().for_each(&mut *visit);
                }
            });
        }
    });
}

/// The strides of a buffer in elements, where dimensions are free with their usual values.
fn strides(kernel: &Kernel, buffer: BufferId) -> Vec<i64> {
    let buffer = &kernel.buffers[buffer];
    if let Some(strides) = &buffer.strides {
        return strides.iter().map(|stride| kernel.weight(stride)).collect();
    }
    let mut strides = vec![1i64; buffer.shape.len()];
    for axis in (1..buffer.shape.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(kernel.weight(&buffer.shape[axis]));
    }
    strides
}

/// An index with the usual values of free dimensions.
fn usual_index(kernel: &Kernel, index: &[Expr]) -> Vec<Expr> {
    let usual = |symbol: SymbolId| match kernel.symbols[symbol].kind {
        SymbolKind::Shape { usual, .. } => Some(Expr::constant(usual)),
        SymbolKind::Loop | SymbolKind::Value { .. } => None,
    };
    let has_free = kernel.symbols.values().next().is_some_and(is_dimension);
    match has_free {
        true => index.iter().map(|expr| expr.substitute(&mut { usual })).collect(),
        false => index.to_vec(),
    }
}

/// Dimensions are the first symbols of a kernel, where it has some.
fn is_dimension(symbol: &KernelSymbol) -> bool {
    matches!(symbol.kind, SymbolKind::Shape { .. })
}

/// Names of loops by their position along the axes of a buffer that a nest writes: for each axis
/// the loop that alone, with coefficient 1, makes up the index.
pub(super) fn axis_loops<'a>(nest: &'a Nest, access: &Access) -> Vec<Option<&'a LoopInfo>> {
    let by_symbol: BTreeMap<SymbolId, &LoopInfo> =
        nest.loops.iter().map(|found| (found.variable, found)).into_map();
    let of = |index: &Expr| index.as_symbol().and_then(|symbol| by_symbol.get(&symbol).copied());
    access.index.iter().map(of).collect()
}
