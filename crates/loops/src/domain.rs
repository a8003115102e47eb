//! What is known about symbols at a place in a kernel: the loops around it, the conditions in force
//! and the ranges that follow.
//!
//! Proofs are sound and incomplete: `true` means proved. In a place that is never reached (the
//! extent of a loop around it is zero) everything is proved.

use base::SecondaryMap;
use sym::{Atom, Expr, Range, SymbolId, proves_less_equal};
use tensor::DType;

use crate::kernel::{Comparison, Condition, Kernel, Loop, LoopKind, ScalarExpr, Stmt, SymbolKind};

/// How many quotients one proof takes apart in a row.
const DEPTH: u32 = 2;

/// How many facts are tried in pairs: the innermost ones.
const PAIRED: usize = 12;

impl ScalarExpr {
    /// The type; `None` where the value names a buffer or symbol that the kernel does not have, or
    /// a symbol that is no value.
    pub fn dtype(&self, kernel: &Kernel) -> Option<DType> {
        match self {
            ScalarExpr::Constant(scalar) => Some(scalar.dtype()),
            ScalarExpr::Symbol(symbol) => match kernel.symbols.get(*symbol)?.kind {
                SymbolKind::Value { dtype, .. } => Some(dtype),
                SymbolKind::Loop | SymbolKind::Shape { .. } => None,
            },
            ScalarExpr::Index(_) => Some(DType::I64),
            ScalarExpr::Load { buffer, .. } | ScalarExpr::Fold { buffer, .. } => {
                kernel.buffers.get(*buffer).map(|buffer| buffer.dtype)
            }
            ScalarExpr::Apply { dtype, .. } => Some(*dtype),
            ScalarExpr::Guard { value, .. } => value.dtype(kernel),
        }
    }
}

impl Condition {
    /// The condition that holds exactly where this one does not.
    pub fn negated(&self) -> Condition {
        let (left, right) = (self.left.clone(), self.right.clone());
        match self.comparison {
            Comparison::Less => {
                Condition { left: right, comparison: Comparison::LessEqual, right: left }
            }
            Comparison::LessEqual => {
                Condition { left: right, comparison: Comparison::Less, right: left }
            }
            Comparison::Equal => Condition { left, comparison: Comparison::NotEqual, right },
            Comparison::NotEqual => Condition { left, comparison: Comparison::Equal, right },
        }
    }

    /// Expressions that are not negative exactly where the condition holds; none for `!=`.
    fn differences(&self) -> Vec<Expr> {
        let rest = self.right.clone() - &self.left;
        match self.comparison {
            Comparison::Less => vec![rest - 1],
            Comparison::LessEqual => vec![rest],
            Comparison::Equal => vec![-&rest, rest],
            Comparison::NotEqual => Vec::new(),
        }
    }
}

/// What is known about the symbols in scope: a range each, and expressions that are not negative.
#[derive(Clone, Debug)]
pub struct Ranges {
    of: SecondaryMap<SymbolId, Range>,
    /// Not negative, in the order in which they became known.
    facts: Vec<Expr>,
    /// The variable of the vector loop around, and its range over all lanes.
    lanes: Option<(SymbolId, Range)>,
}

impl Ranges {
    /// What is known outside of all loops: the ranges of shape symbols. Those of values are known
    /// from the start too, since a value is only used behind its `Let`.
    pub fn new(kernel: &Kernel) -> Ranges {
        let mut of = SecondaryMap::with_default(Range::ALL);
        if let Some(last) = kernel.symbols.ids().next_back() {
            // Copies will not have to grow.
            of[last] = Range::ALL;
        }
        for (id, symbol) in kernel.symbols.iter() {
            match &symbol.kind {
                SymbolKind::Shape { range, .. } => of[id] = *range,
                SymbolKind::Value { range: Some(range), .. } => of[id] = *range,
                SymbolKind::Value { range: None, .. } | SymbolKind::Loop => {}
            }
        }
        Ranges { of, facts: Vec::new(), lanes: None }
    }

    /// Goes into the body of a loop.
    pub fn enter(&mut self, inner: &Loop) {
        let last = inner.extent.clone() - 1;
        let range = Range::new(0, self.bounds(&last).max);
        self.of.insert(inner.variable, range);
        if inner.kind == LoopKind::Vector {
            self.lanes = Some((inner.variable, range));
        }
        if last.as_constant().is_none() {
            self.learn(last - &Expr::symbol(inner.variable));
        }
    }

    /// Goes into the body of a loop, to come back out of it.
    pub fn descend(&mut self, inner: &Loop) -> Outside {
        let outside = match inner.extent.as_constant() {
            // Nothing is learned but the range of the variable.
            Some(_) => Known::Alike(self.of[inner.variable], self.lanes),
            None => Known::Other(Box::new(self.clone())),
        };
        self.enter(inner);
        Outside(outside)
    }

    /// Comes out of the body of a loop.
    pub fn ascend(&mut self, inner: &Loop, outside: Outside) {
        match outside.0 {
            Known::Alike(of, lanes) => {
                self.of.insert(inner.variable, of);
                self.lanes = lanes;
            }
            Known::Other(ranges) => *self = *ranges,
        }
    }

    /// Learns that conditions hold.
    pub fn assume(&mut self, conditions: &[Condition]) {
        for condition in conditions {
            condition.differences().into_iter().for_each(|fact| self.learn(fact));
            if condition.comparison == Comparison::NotEqual {
                self.trim(&condition.left, &condition.right);
                self.trim(&condition.right, &condition.left);
            }
        }
    }

    /// Learns that an expression is not negative, and what follows for the symbols in it.
    fn learn(&mut self, fact: Expr) {
        self.narrow(&fact);
        self.facts.push(fact);
    }

    /// Narrows the ranges of the symbols in an expression that is not negative, also of those in a
    /// dividend, which is a multiple of the divisor at least, or less than one at most.
    fn narrow(&mut self, fact: &Expr) {
        for term in fact.terms() {
            let [atom] = term.factors() else { continue };
            let coefficient = term.coefficient();
            let rest = match atom {
                Atom::Symbol(symbol) => fact.without(*symbol),
                _ => fact.clone() - &Expr::from(term.clone()),
            };
            let most = self.bounds(&rest).max;
            if most == i64::MAX || coefficient == i64::MIN {
                continue;
            }
            // coefficient * atom >= -most
            let range = if coefficient > 0 {
                Range::at_least(-most.div_euclid(coefficient))
            } else {
                Range::new(i64::MIN, most.div_euclid(-coefficient))
            };
            match atom {
                Atom::Symbol(symbol) => {
                    let narrowed = self.of[*symbol].intersect(range);
                    self.of.insert(*symbol, narrowed);
                }
                Atom::FloorDiv(dividend, divisor) => {
                    let Some(n) = divisor.as_constant().filter(|n| *n > 0) else { continue };
                    let bound =
                        |quotient: i64, more: i64| quotient.checked_mul(n)?.checked_add(more);
                    let least = bound(range.min, 0).filter(|_| range.min != i64::MIN);
                    let most = bound(range.max, n - 1).filter(|_| range.max != i64::MAX);
                    if let Some(least) = least {
                        self.narrow(&(dividend.as_ref().clone() - least));
                    }
                    if let Some(most) = most {
                        self.narrow(&(-dividend.as_ref() + most));
                    }
                }
                Atom::Mod(dividend, divisor) => {
                    let Some(n) = divisor.as_constant().filter(|n| *n > 0) else { continue };
                    self.learn_dividend(dividend, n, range);
                }
                _ => {}
            }
        }
    }

    /// Learns that an end of a dividend's range is nearer where its remainder by `n` is not one of
    /// `remainders`: of at most 15, with a remainder of at most 2 by 4, it is at most 14.
    fn learn_dividend(&mut self, dividend: &Expr, n: i64, remainders: Range) {
        let Range { min, max } = self.bounds(dividend);
        let nearest = |end: i64, remainder: i64| {
            let is_near = end.unsigned_abs() < 1 << 62 && (0..n.min(1 << 62)).contains(&remainder);
            is_near.then(|| end - end.rem_euclid(n) + remainder)
        };
        match nearest(max, remainders.max) {
            Some(most) if most < max => self.learn(-dividend + most),
            _ => {}
        }
        match nearest(min, remainders.min) {
            Some(least) if least > min => self.learn(dividend.clone() - least),
            _ => {}
        }
    }

    /// Takes a value off the end of a symbol's range.
    fn trim(&mut self, symbol: &Expr, other: &Expr) {
        let (Some(symbol), Some(value)) = (symbol.as_symbol(), other.as_constant()) else { return };
        let mut range = self.of[symbol];
        if range.min == value && value < i64::MAX {
            range.min += 1;
        } else if range.max == value && value > i64::MIN {
            range.max -= 1;
        }
        self.of.insert(symbol, range);
    }

    /// Sets the values that a symbol can have.
    pub fn set(&mut self, symbol: SymbolId, range: Range) {
        self.of.insert(symbol, range);
    }

    /// The values that a symbol can have.
    pub fn of(&self, symbol: SymbolId) -> Range {
        self.of[symbol]
    }

    /// The values that an expression can have, from the ranges of its symbols.
    pub fn bounds(&self, expr: &Expr) -> Range {
        expr.bounds(&|symbol| self.of(symbol))
    }

    /// The expression in its simplest form, given the ranges of its symbols. The variable of a
    /// vector loop stays even where a condition leaves a single lane: a statement that no longer
    /// names it would be one of scalars.
    pub fn simplify(&self, expr: &Expr) -> Expr {
        expr.simplify(&|symbol| self.with_all_lanes(symbol))
    }

    /// Whether [`simplify`](Self::simplify) surely leaves an expression as it is.
    pub fn is_simple(&self, expr: &Expr) -> bool {
        expr.is_simple(&|symbol| self.with_all_lanes(symbol))
    }

    fn with_all_lanes(&self, symbol: SymbolId) -> Range {
        match self.lanes {
            Some((lane, all)) if lane == symbol && self.of(lane).as_constant().is_some() => all,
            _ => self.of(symbol),
        }
    }

    /// Whether the place can provably not be reached.
    pub fn unreachable(&self) -> bool {
        self.of.iter().any(|(_, range)| range.is_empty())
            || self.facts.iter().any(|fact| self.bounds(fact).max < 0)
    }

    /// Whether a condition provably holds.
    pub fn prove(&self, condition: &Condition) -> bool {
        if condition.comparison == Comparison::NotEqual {
            return self.prove_not_negative(&(condition.right.clone() - &condition.left - 1))
                || self.prove_not_negative(&(condition.left.clone() - &condition.right - 1));
        }
        condition.differences().iter().all(|difference| self.prove_not_negative(difference))
    }

    /// Whether the values of an index provably lie in `0..extent`.
    pub fn prove_within(&self, index: &Expr, extent: &Expr) -> bool {
        if let Some(extent) = extent.as_constant() {
            let range = self.bounds(index);
            if range.min >= 0 && range.max < extent {
                return true;
            }
        }
        let by_ends = |index: &Expr, extent: &Expr| {
            self.prove_not_negative(index) && self.prove_not_negative(&(extent.clone() - index - 1))
        };
        // Ends say little of a quotient by a symbol; what is divided says as much.
        let by_dividend = || match index.as_atom() {
            Some(Atom::FloorDiv(dividend, divisor)) => {
                self.prove_not_negative(&(divisor.as_ref().clone() - 1))
                    && self.prove_within(dividend, &(extent.clone() * divisor.as_ref()))
            }
            _ => false,
        };
        by_ends(index, extent) || by_dividend()
    }

    /// Whether an expression is provably not negative: by the ranges alone, or as the sum of
    /// multiples of known facts and of something that is.
    pub fn prove_not_negative(&self, goal: &Expr) -> bool {
        self.by_ranges(goal) || self.unreachable() || self.by_facts(goal, DEPTH)
    }

    fn by_ranges(&self, goal: &Expr) -> bool {
        proves_less_equal(&Expr::ZERO, goal, &|symbol| self.of(symbol))
    }

    fn by_facts(&self, goal: &Expr, depth: u32) -> bool {
        let first: Vec<Expr> = self.facts.iter().map(|fact| cancel(goal, fact)).collect();
        if first.iter().any(|rest| self.by_ranges(rest)) {
            return true;
        }
        let last = first.len().saturating_sub(PAIRED);
        for (position, rest) in first.iter().enumerate().skip(last) {
            let others = self.facts.iter().enumerate().skip(last);
            let mut others = others.filter(|(other, _)| *other != position);
            if others.any(|(_, fact)| self.by_ranges(&cancel(rest, fact))) {
                return true;
            }
        }
        let simple = remainders_removed(self.simplify(goal));
        depth > 0
            && quotients_removed(&simple)
                .iter()
                .any(|weaker| self.by_ranges(weaker) || self.by_facts(weaker, depth - 1))
    }
}

/// The goal less the multiple of a fact that takes away the first term they share; less the fact
/// itself where they share none. Where the fact has a multiple of the goal's term, that multiple of
/// the goal, which is as much as the goal.
fn cancel(goal: &Expr, fact: &Expr) -> Expr {
    let is_modest = |multiple: &i64| (1..1 << 31).contains(multiple);
    let shared = fact.terms().iter().find_map(|term| {
        let same = |other: &&sym::Term| other.factors() == term.factors();
        let (own, other) = (term.coefficient(), goal.terms().iter().find(same)?.coefficient());
        let of_fact = other.checked_div(own).filter(is_modest).map(|multiple| (1, multiple));
        of_fact.or_else(|| {
            let is_whole = own.checked_rem(other) == Some(0);
            let of_goal = own.checked_div(other).filter(is_modest)?;
            is_whole.then_some((of_goal, 1))
        })
    });
    let (of_goal, of_fact) = shared.unwrap_or((1, 1));
    goal.clone() * of_goal - &(fact.clone() * of_fact)
}

/// The same with each remainder of what a quotient is there of, too, as what that leaves: taken for
/// themselves, the two would be as far off as each may be.
fn remainders_removed(mut expr: Expr) -> Expr {
    for term in expr.clone().terms() {
        let [Atom::Mod(dividend, divisor)] = term.factors() else { continue };
        let quotient = dividend.floor_div(divisor);
        let is_there =
            expr.terms().iter().any(|other| match (other.factors(), quotient.as_atom()) {
                ([own], Some(atom)) => own == atom,
                _ => false,
            });
        if is_there {
            let coefficient = term.coefficient();
            expr = expr - &(dividend.modulo(divisor) * coefficient)
                + &(dividend.as_ref().clone() * coefficient)
                - &(quotient * divisor.as_ref() * coefficient);
        }
    }
    expr
}

/// Expressions of which each is not negative only where the given one is not: for each term
/// `c * (a div n)` with constant n, n times the expression with `n * (a div n)` as far off as it
/// may be, `a - n + 1 <= n * (a div n) <= a`.
fn quotients_removed(expr: &Expr) -> Vec<Expr> {
    let mut found = Vec::new();
    for term in expr.terms() {
        let [Atom::FloorDiv(dividend, divisor)] = term.factors() else { continue };
        let Some(n) = divisor.as_constant().filter(|n| (1..1 << 31).contains(n)) else { continue };
        let quotient = dividend.floor_div(divisor);
        let rest = expr.clone() - &(quotient * term.coefficient());
        let slack =
            if term.coefficient() > 0 { (n - 1).saturating_mul(term.coefficient()) } else { 0 };
        found.push(rest * n + &(dividend.as_ref().clone() * term.coefficient()) - slack + (n - 1));
    }
    found
}

/// What was known outside of a loop, to come back to.
#[derive(Debug)]
pub struct Outside(Known);

#[derive(Debug)]
enum Known {
    /// The same but for the loop's variable, whose range this was, and the lanes.
    Alike(Range, Option<(SymbolId, Range)>),
    /// Something else.
    Other(Box<Ranges>),
}

/// Where a statement stands: the loops around it and the conditions in force, outermost first.
#[derive(Clone, Debug)]
pub struct Domain<'a> {
    /// Loops around the statement.
    pub loops: Vec<&'a Loop>,
    /// Conditions of `If`s around the statement, negated in `else` branches of one condition.
    pub conditions: Vec<Condition>,
    /// What follows.
    pub ranges: Ranges,
}

impl<'a> Domain<'a> {
    /// Outside of everything.
    pub fn new(kernel: &Kernel) -> Domain<'a> {
        Domain { loops: Vec::new(), conditions: Vec::new(), ranges: Ranges::new(kernel) }
    }

    /// Where conditions hold.
    pub fn where_all(&self, conditions: &[Condition]) -> Domain<'a> {
        let mut domain = self.clone();
        domain.conditions.extend_from_slice(conditions);
        domain.ranges.assume(conditions);
        domain
    }

    /// Where one of the conditions does not hold.
    pub fn where_not(&self, conditions: &[Condition]) -> Domain<'a> {
        match conditions {
            [only] => self.where_all(&[only.negated()]),
            _ => self.clone(),
        }
    }
}

/// Visits every statement with its domain, outermost first.
pub fn walk_domains<'a>(kernel: &'a Kernel, visit: &mut impl FnMut(&'a Stmt, &Domain<'a>)) {
    walk_block(&kernel.body, &mut Domain::new(kernel), visit);
}

fn walk_block<'a>(
    block: &'a [Stmt],
    domain: &mut Domain<'a>,
    visit: &mut impl FnMut(&'a Stmt, &Domain<'a>),
) {
    for stmt in block {
        visit(stmt, domain);
        match stmt {
            Stmt::For(inner) => {
                let outside = domain.ranges.descend(inner);
                domain.loops.push(inner);
                walk_block(&inner.body, domain, visit);
                domain.loops.pop();
                domain.ranges.ascend(inner, outside);
            }
            Stmt::If { conditions, then, otherwise } => {
                walk_block(then, &mut domain.where_all(conditions), visit);
                walk_block(otherwise, &mut domain.where_not(conditions), visit);
            }
            Stmt::While { setup, body, .. } => {
                walk_block(setup, domain, visit);
                walk_block(body, domain, visit);
            }
            Stmt::Let { .. } | Stmt::Store { .. } | Stmt::Reduce { .. } | Stmt::Prefetch { .. } => {
            }
        }
    }
}
