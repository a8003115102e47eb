//! Which instances of two accesses may touch the same element.
//!
//! Two instances conflict when every axis's index is equal. For each axis the difference of the two
//! linear forms is tested: its range must contain zero (Banerjee's inequalities under direction
//! constraints) and the common divisor of its coefficients must divide its constant. An axis that
//! fails either proves independence; everything else "may depend", so the answer errs only that
//! way. Source: R. Allen and K. Kennedy, Optimizing Compilers for Modern Architectures, chapter 3.
//!
//! Guards are not looked at, which is safe. A split with a shifted tail runs some iterations twice
//! with the same result; its minima ([`State::shifted`](crate::schedule::State)) may be ignored
//! between two stores, those of all loops or of one, because which of two equal values is stored
//! last does not matter.

use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::slice;

use base::{IdSet, SecondaryMap};
use loops::visit::{Effect, Reference, own_references, walk};
use loops::{BufferId, Condition, Kernel, Loop, ScalarExpr, Scope, Stmt};
use rustc_hash::FxHasher;
use smallvec::SmallVec;
use sym::{Expr, Memo, SymbolId};

use crate::linear::{Linear, Space, Unknown};
use crate::nest::{Descent, SymbolRanges};
use crate::recombine::{Combination, combinations, with_combinations};

/// One place in a block that touches a buffer.
#[derive(Clone, Debug)]
pub(crate) struct Access<'a> {
    pub(crate) buffer: BufferId,
    pub(crate) effect: Effect,
    pub(crate) index: &'a [Expr],
    /// The loops around it within the block, outermost first.
    pub(crate) loops: Vec<SymbolId>,
    /// The way to its statement within the block, and the statement's position there.
    pub(crate) way: Vec<Descent>,
    pub(crate) position: usize,
    /// What holds there: the conditions of `If`s, each with the length of the way at which it
    /// begins to hold, and of guards within the statement.
    pub(crate) conditions: Vec<(usize, &'a Condition)>,
    /// Whether it stands where it may run never, or for reasons that are not known here.
    pub(crate) uncertain: bool,
}

/// All accesses of a block to a buffer, in program order; a statement's loads come before its
/// store.
pub(crate) fn accesses_of(block: &[Stmt], buffer: BufferId) -> Vec<Access<'_>> {
    let mut collector = Collector {
        buffer,
        found: Vec::new(),
        loops: Vec::new(),
        way: Vec::new(),
        conditions: Vec::new(),
        uncertain: false,
    };
    collector.block(block);
    collector.found
}

struct Collector<'a> {
    buffer: BufferId,
    found: Vec<Access<'a>>,
    loops: Vec<SymbolId>,
    way: Vec<Descent>,
    /// The conditions that hold, each with the length of the way at which it begins to.
    conditions: Vec<(usize, &'a Condition)>,
    uncertain: bool,
}

impl<'a> Collector<'a> {
    fn block(&mut self, block: &'a [Stmt]) {
        for (position, stmt) in block.iter().enumerate() {
            self.statement(position, stmt);
        }
    }

    fn inside(&mut self, stmt: usize, block: usize, body: &'a [Stmt]) {
        self.way.push(Descent { stmt, block });
        self.block(body);
        self.way.pop();
    }

    fn add(&mut self, position: usize, buffer: BufferId, effect: Effect, index: &'a [Expr]) {
        if buffer != self.buffer {
            return;
        }
        self.found.push(Access {
            buffer,
            effect,
            index,
            loops: self.loops.clone(),
            way: self.way.clone(),
            position,
            conditions: self.conditions.clone(),
            uncertain: self.uncertain,
        });
    }

    fn value(&mut self, position: usize, value: &'a ScalarExpr) {
        match value {
            ScalarExpr::Load { buffer, index } => self.add(position, *buffer, Effect::Load, index),
            ScalarExpr::Fold { reduction, buffer, index } => {
                self.add(position, *buffer, Effect::Fold(*reduction), index);
            }
            ScalarExpr::Guard { conditions, value, otherwise } => {
                let count = self.conditions.len();
                let level = self.way.len() + 1;
                self.conditions.extend(conditions.iter().map(|c| (level, c)));
                self.value(position, value);
                self.conditions.truncate(count);
                self.value(position, otherwise);
            }
            ScalarExpr::Apply { arguments, .. } => {
                arguments.iter().for_each(|argument| self.value(position, argument));
            }
            ScalarExpr::Constant(_) | ScalarExpr::Symbol(_) | ScalarExpr::Index(_) => {}
        }
    }

    fn statement(&mut self, position: usize, stmt: &'a Stmt) {
        if let Some(value) = stmt.value() {
            self.value(position, value);
        }
        match stmt {
            Stmt::Store { buffer, index, .. } => self.add(position, *buffer, Effect::Store, index),
            Stmt::Reduce { buffer, index, reduction, .. } => {
                self.add(position, *buffer, Effect::Reduce(*reduction), index);
            }
            Stmt::For(inner) => {
                self.loops.push(inner.variable);
                self.inside(position, 0, &inner.body);
                self.loops.pop();
            }
            Stmt::If { conditions, then, otherwise } => {
                let depth = self.way.len() + 1;
                let count = self.conditions.len();
                self.conditions.extend(conditions.iter().map(|c| (depth, c)));
                self.inside(position, 0, then);
                self.conditions.truncate(count);
                let before = std::mem::replace(&mut self.uncertain, true);
                self.inside(position, 1, otherwise);
                self.uncertain = before;
            }
            Stmt::While { setup, body, .. } => {
                let before = std::mem::replace(&mut self.uncertain, true);
                self.inside(position, 0, setup);
                self.inside(position, 1, body);
                self.uncertain = before;
            }
            Stmt::Let { .. } | Stmt::Prefetch { .. } => {}
        }
    }
}

/// How the values of an unknown in two instances relate, first to second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Equal,
    Less,
    Greater,
    Any,
}

/// Directions of the loops that two accesses share; other symbols bound outside are equal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Directions(SmallVec<[(Unknown, Direction); 8]>);

impl Directions {
    /// Sets the direction of an unknown.
    pub(crate) fn insert(&mut self, unknown: Unknown, direction: Direction) {
        match self.0.iter_mut().find(|(known, _)| *known == unknown) {
            Some((_, known)) => *known = direction,
            None => self.0.push((unknown, direction)),
        }
    }

    fn get(&self, unknown: Unknown) -> Option<Direction> {
        let found = self.0.iter().find(|(known, _)| *known == unknown);
        found.map(|(_, direction)| *direction)
    }
}

/// An index expression of an access: what it is but for the constant, and that.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The position of a form; 0 where it is a constant.
    form: usize,
    constant: i64,
}

/// One access that is tested against others.
#[derive(Debug)]
pub(crate) struct Tested {
    pub(crate) buffer: BufferId,
    pub(crate) effect: Effect,
    /// The position in the block of the statement that it stands in.
    pub(crate) position: usize,
    /// Its index, and what [`crate::recombine`] makes of it.
    places: Range<usize>,
}

/// Dependence tests between the accesses of one block.
pub(crate) struct Tester<'a> {
    kernel: &'a Kernel,
    space: Space<'a>,
    /// The accesses of buffers that the block writes: those of others are in nobody's way.
    pub(crate) accesses: Vec<Tested>,
    /// The index expressions of all accesses, one access after the other.
    places: Vec<Place>,
    /// Index expressions without their constants; the first is that of constants.
    forms: Vec<Linear>,
    /// The forms with shifted tails ignored, for pairs of stores: all of them, and those of the
    /// loop in question alone; where there are any.
    unshifted: Vec<Vec<Linear>>,
    /// Symbols bound within the block; all others have one value throughout.
    bound: IdSet<SymbolId>,
}

impl<'a> Tester<'a> {
    /// Tests for a block's accesses. `shifted` are the minima of shifted tails.
    pub(crate) fn new(
        kernel: &'a Kernel,
        ranges: &'a SymbolRanges,
        block: &[Stmt],
        shifted: &[Expr],
    ) -> Tester<'a> {
        Tester::of(kernel, ranges, block, IdSet::new(), &[shifted])
    }

    /// Tests for the accesses of a loop, whose variable is bound within, too.
    pub(crate) fn of_loop(
        kernel: &'a Kernel,
        ranges: &'a SymbolRanges,
        found: &Loop,
        shifted: &[Expr],
    ) -> Tester<'a> {
        let mut bound = IdSet::new();
        bound.insert(found.variable);
        // Iterations of a loop with a shifted tail are apart before it is shifted, though those of
        // a loop inside may then not be.
        let own = |minimum: &&Expr| minimum.contains(found.variable);
        let own: Vec<Expr> = shifted.iter().filter(own).cloned().collect();
        let own = if own.len() < shifted.len() { &own[..] } else { &[] };
        Tester::of(kernel, ranges, &found.body, bound, &[shifted, own])
    }

    fn of(
        kernel: &'a Kernel,
        ranges: &'a SymbolRanges,
        block: &[Stmt],
        mut bound: IdSet<SymbolId>,
        kinds: &[&[Expr]],
    ) -> Tester<'a> {
        let mut written: IdSet<BufferId> = IdSet::new();
        let mut found = Vec::new();
        for (position, stmt) in block.iter().enumerate() {
            walk(slice::from_ref(stmt), &mut |stmt| {
                stmt.binds().iter().for_each(|symbol| _ = bound.insert(*symbol));
                own_references(stmt, &mut |reference| {
                    let scope = kernel.buffers[reference.buffer].scope;
                    if scope == Scope::Parameter(loops::Access::Read) {
                        return;
                    }
                    if reference.effect.writes() {
                        written.insert(reference.buffer);
                    }
                    found.push((position, reference));
                });
            });
        }
        let (mut accesses, mut places) = (Vec::new(), Vec::new());
        let (mut distinct, mut numbers) = (vec![Expr::ZERO], Memo::new());
        found.retain(|(_, reference)| written.contains(reference.buffer));
        let mut made: SecondaryMap<BufferId, Option<Vec<Combination>>> = SecondaryMap::new();
        for (position, Reference { buffer, index, effect }) in &found {
            let first = places.len();
            let made = made[*buffer].get_or_insert_with(|| {
                let own = found.iter().filter(|(_, other)| other.buffer == *buffer);
                combinations(&own.map(|(_, other)| other.index).collect::<Vec<_>>())
            });
            let index = with_combinations(index, made);
            places.extend(index.iter().map(|expr| {
                let form = match expr.as_constant() {
                    Some(_) => 0,
                    None => *numbers.of(expr, |terms| {
                        distinct.push(terms.clone());
                        distinct.len() - 1
                    }),
                };
                Place { form, constant: expr.constant_part() }
            }));
            let (buffer, effect, position) = (*buffer, *effect, *position);
            accesses.push(Tested { buffer, effect, position, places: first..places.len() });
        }
        let mut space = Space::new(ranges, &distinct);
        let forms: Vec<Linear> = distinct.iter().map(|expr| space.linear(expr)).collect();
        let mut without = |shifted: &&[Expr]| -> Vec<Linear> {
            let both = distinct.iter().zip(&forms);
            let without = |(expr, form): (&Expr, &Linear)| match has_minimum(expr) {
                true => space.linear(&unshift(expr, shifted)),
                false => form.clone(),
            };
            both.map(without).collect()
        };
        let unshifted = kinds.iter().filter(|kind| !kind.is_empty()).map(&mut without).collect();
        Tester { kernel, space, accesses, places, forms, unshifted, bound }
    }

    fn places(&self, access: usize) -> &[Place] {
        &self.places[self.accesses[access].places.clone()]
    }

    /// The digits of a loop variable, the most significant first.
    pub(crate) fn digits(&self, variable: SymbolId) -> impl Iterator<Item = Unknown> + use<> {
        (0..self.space.digits(variable)).rev().map(move |digit| Unknown::Digit(variable, digit))
    }

    /// The pairs of accesses whose order matters: of one buffer, at least one writing, not known to
    /// be apart, and not two reductions that may be done in any order. `exact` reductions count as
    /// unordered only if `free_reductions` is set. Each unordered pair comes once, an access with
    /// itself too.
    pub(crate) fn ordered_pairs(&self, free_reductions: bool) -> Vec<(usize, usize)> {
        let all = 0..self.accesses.len();
        self.ordered_pairs_between(all.clone(), all, free_reductions)
    }

    /// As [`ordered_pairs`](Self::ordered_pairs), of those whose earlier access is among the first
    /// and whose later one is among the second.
    pub(crate) fn ordered_pairs_between(
        &self,
        firsts: Range<usize>,
        seconds: Range<usize>,
        free_reductions: bool,
    ) -> Vec<(usize, usize)> {
        let mut pairs = Vec::new();
        for first in firsts {
            let (a, places) = (&self.accesses[first], self.places(first));
            let writes = a.effect.writes();
            for second in seconds.start.max(first)..seconds.end {
                let b = &self.accesses[second];
                let touches = a.buffer == b.buffer && (writes || b.effect.writes());
                if touches
                    && !are_apart(places, self.places(second))
                    && !(free_reductions && self.commute(a, b))
                {
                    pairs.push((first, second));
                }
            }
        }
        pairs
    }

    /// Whether a pair of accesses conflicts just where another one does: its forms differ by the
    /// same constants.
    pub(crate) fn is_alike(&self, (a, b): (usize, usize), (c, d): (usize, usize)) -> bool {
        let kind = |access: usize| (self.accesses[access].buffer, self.accesses[access].effect);
        let pairs = |a, b| self.places(a).iter().zip(self.places(b));
        kind(a) == kind(c)
            && kind(b) == kind(d)
            && pairs(a, b).zip(pairs(c, d)).all(|((a, b), (c, d))| {
                a.form == c.form && b.form == d.form && difference(a, b) == difference(c, d)
            })
    }

    /// A number that is the same for pairs that are alike, and for few others.
    pub(crate) fn likeness(&self, (a, b): (usize, usize)) -> u64 {
        let mut hasher = FxHasher::default();
        for (a, b) in self.places(a).iter().zip(self.places(b)) {
            (a.form, b.form, a.constant.wrapping_sub(b.constant)).hash(&mut hasher);
        }
        hasher.finish()
    }

    fn commute(&self, a: &Tested, b: &Tested) -> bool {
        match (a.effect, b.effect) {
            (Effect::Reduce(first), Effect::Reduce(second)) => {
                let dtype = self.kernel.buffers[a.buffer].dtype;
                first == second && first.as_function().is_associative(dtype)
            }
            _ => false,
        }
    }

    /// Whether an instance of the first access and one of the second, under these directions of
    /// their common loops, may touch the same element. Loops without a direction are independent.
    pub(crate) fn may_conflict(&self, first: usize, second: usize, given: &Directions) -> bool {
        let stores = self.accesses[first].effect == Effect::Store
            && self.accesses[second].effect == Effect::Store;
        // Two stores are apart, or compute the same where shifted tails make them meet.
        let unshifted = if stores { &self.unshifted[..] } else { &[] };
        let feasible = |unknown: &Unknown, direction: &Direction| {
            *direction == Direction::Equal
                || *direction == Direction::Any
                || self.space.range(*unknown).max >= 1
        };
        given.0.iter().all(|(unknown, direction)| feasible(unknown, direction))
            && std::iter::once(&self.forms).chain(unshifted).all(|forms| {
                let mut axes = self.places(first).iter().zip(self.places(second));
                axes.all(|(a, b)| self.may_be_equal(forms, *a, *b, given))
            })
    }

    /// The test of one axis.
    fn may_be_equal(&self, forms: &[Linear], a: Place, b: Place, given: &Directions) -> bool {
        let more = difference(&a, &b);
        let (a, b) = (&forms[a.form], &forms[b.form]);
        let constant = a.constant - b.constant + more;
        if a.terms.is_empty() && b.terms.is_empty() {
            return constant == 0;
        }
        let mut sum = Interval::constant(constant);
        let mut divisor = 0;
        let of_a = a.terms.iter().map(|&(unknown, p)| (unknown, p, b.coefficient(unknown)));
        let others = b.terms.iter().filter(|(unknown, _)| a.coefficient(*unknown) == 0);
        for (unknown, p, q) in of_a.chain(others.map(|&(unknown, q)| (unknown, 0, q))) {
            let direction = self.direction(unknown, given);
            if direction == Direction::Equal && p == q {
                continue;
            }
            let values = Interval::of(self.space.range(unknown));
            let difference = match direction {
                Direction::Equal => values.times(p - q),
                Direction::Any => values.times(p).plus(values.times(-q)),
                Direction::Less => values.ordered(p, q),
                Direction::Greater => values.ordered(-q, -p),
            };
            sum = sum.plus(difference);
            let step = match direction {
                Direction::Equal => (p - q).abs(),
                _ => gcd(p.abs(), q.abs()),
            };
            divisor = gcd(divisor, step);
        }
        let divides = if divisor == 0 { constant == 0 } else { constant % divisor == 0 };
        divides && sum.low <= 0 && sum.high >= 0
    }

    fn direction(&self, unknown: Unknown, given: &Directions) -> Direction {
        if let Some(direction) = given.get(unknown) {
            return direction;
        }
        let differs = |symbol: SymbolId| {
            self.bound.contains(symbol)
                && !(self.kernel.symbols[symbol].kind == loops::SymbolKind::Loop
                    && self.digits(symbol).all(|d| given.get(d) == Some(Direction::Equal)))
        };
        if self.space.any_symbol(unknown, differs) { Direction::Any } else { Direction::Equal }
    }

    /// Whether an earlier iteration's `first` and a later iteration's `second` of the loop may
    /// touch the same element; loops in `equal` have one value.
    pub(crate) fn may_conflict_across(
        &self,
        first: usize,
        second: usize,
        variable: SymbolId,
        equal: &[SymbolId],
    ) -> bool {
        let mut given = Directions::default();
        for digit in equal.iter().flat_map(|symbol| self.digits(*symbol)) {
            given.insert(digit, Direction::Equal);
        }
        for digit in self.digits(variable) {
            given.insert(digit, Direction::Less);
            if self.may_conflict(first, second, &given) {
                return true;
            }
            given.insert(digit, Direction::Equal);
        }
        false
    }
}

/// Whether two indices have different constants along an axis, so that they never meet.
fn are_apart(first: &[Place], second: &[Place]) -> bool {
    let mut axes = first.iter().zip(second);
    axes.any(|(a, b)| a.constant != b.constant && a.form == 0 && b.form == 0)
}

/// Between the constants of two places.
fn difference(a: &Place, b: &Place) -> i128 {
    i128::from(a.constant) - i128::from(b.constant)
}

/// Whether there may be a shifted tail in an index.
fn has_minimum(expr: &Expr) -> bool {
    expr.terms().iter().any(|term| matches!(term.factors(), [sym::Atom::Min(..)]))
}

/// `min(c * v, last)` of shifted tails becomes `c * v`.
fn unshift(expr: &Expr, shifted: &[Expr]) -> Expr {
    let mut result = Expr::constant(expr.constant_part());
    for term in expr.terms() {
        let [sym::Atom::Min(a, b)] = term.factors() else {
            result += &Expr::from(term.clone());
            continue;
        };
        let whole = Expr::min(a, b);
        let moving = if a.as_constant().is_some() { b } else { a };
        result += &match shifted.contains(&whole) {
            true => &**moving * term.coefficient(),
            false => &whole * term.coefficient(),
        };
    }
    result
}

/// Beyond every sum of products of numbers of 64 bits that occurs here.
const INFINITY: i128 = 1 << 110;

/// A range of differences; ends at or beyond [`INFINITY`] are unbounded.
#[derive(Clone, Copy, Debug)]
struct Interval {
    low: i128,
    high: i128,
}

impl Interval {
    fn constant(value: i128) -> Interval {
        Interval { low: value, high: value }
    }

    fn of(range: sym::Range) -> Interval {
        let low = if range.min == i64::MIN { -INFINITY } else { i128::from(range.min) };
        let high = if range.max == i64::MAX { INFINITY } else { i128::from(range.max) };
        Interval { low, high }
    }

    fn plus(self, other: Interval) -> Interval {
        let clamp = |value: i128| value.clamp(-INFINITY, INFINITY);
        Interval { low: clamp(self.low + other.low), high: clamp(self.high + other.high) }
    }

    fn times(self, factor: i128) -> Interval {
        let product = |end: i128| match factor {
            0 => 0,
            _ => end.saturating_mul(factor).clamp(-INFINITY, INFINITY),
        };
        let (a, b) = (product(self.low), product(self.high));
        Interval { low: a.min(b), high: a.max(b) }
    }

    /// The range of `p * x - q * y` for `x < y`, both in the interval: with `y = x + d` that is
    /// `(p - q) * x - q * d`, linear on a triangle and so extreme at one of its corners.
    fn ordered(self, p: i128, q: i128) -> Interval {
        if self.high >= INFINITY || self.low <= -INFINITY {
            if p == q {
                // -q * d with d >= 1.
                let near = -q;
                let far = if q > 0 { -INFINITY } else { INFINITY };
                return match q {
                    0 => Interval::constant(0),
                    _ => Interval { low: near.min(far), high: near.max(far) },
                };
            }
            return Interval { low: -INFINITY, high: INFINITY };
        }
        let corners = [(self.low, self.low + 1), (self.low, self.high), (self.high - 1, self.high)];
        let values = corners.map(|(x, y)| p * x - q * y);
        let low = values.into_iter().fold(values[0], i128::min);
        let high = values.into_iter().fold(values[0], i128::max);
        Interval { low, high }
    }
}

fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { gcd(b, a % b) }
}
