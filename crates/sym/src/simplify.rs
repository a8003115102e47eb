//! Simplification by the ranges of the symbols.
//!
//! Rules, on top of those of `divide.rs`, each where the ranges prove its condition:
//!
//! ```text
//! s = c                               where the range of s is c alone
//! a div n = q, a mod n = a - q*n      where a stays within [q*n, q*n + n)
//! (g*a + r) div (g*n) = a div n       where 0 <= r < g
//! (g*a + r) mod (g*n) = g*(a mod n) + r
//! (a div m) div n = a div (m*n)       where 1 <= n
//! min(a, b) = a                       where a <= b; max likewise
//! k*n*(a div n) + k*(a mod n) = k*a   always, n being a product
//! n*((a mod m) div n) + a mod n = a mod m   where n divides m
//! n*((a div n + b) mod m) + a mod n = (a + n*b) mod (n*m)
//! ```

use std::sync::Arc;

use crate::divide::{DivParts, ModParts, floor_div_saturating, gcd};
use crate::expr::{Atom, Expr, Factors, SymbolId, Term};
use crate::range::Range;

type Ranges<'a> = &'a dyn Fn(SymbolId) -> Range;

impl Expr {
    /// An expression of the same value for all values of the symbols within their ranges.
    pub fn simplify(&self, ranges: &dyn Fn(SymbolId) -> Range) -> Expr {
        if self.is_simple(ranges) { self.clone() } else { self.rewritten(ranges) }
    }

    /// Whether [`simplify`](Self::simplify) surely gives the expression itself. Most expressions
    /// are asked for many times while a kernel is scheduled, so this makes none.
    pub fn is_simple(&self, ranges: &dyn Fn(SymbolId) -> Range) -> bool {
        let (mut parts, mut remainders) = (0, 0);
        for term in &*self.terms {
            let Factors::One(atom) = &term.factors else { return false };
            parts += i32::from(matches!(atom, Atom::FloorDiv(..) | Atom::Mod(..)));
            remainders += i32::from(atom.is_mod());
            if !atom.is_simple(ranges) {
                return false;
            }
        }
        parts < 2 || remainders == 0
    }

    /// The rules of the file's head, wherever they fit.
    pub(crate) fn rewritten(&self, ranges: Ranges<'_>) -> Expr {
        let mut result = Expr::constant(self.constant);
        let mut has_mod = false;
        for term in &*self.terms {
            match &term.factors {
                Factors::One(Atom::Symbol(symbol)) => match ranges(*symbol).as_constant() {
                    Some(value) => result += term.coefficient.saturating_mul(value),
                    None => result.add_term(term.coefficient, &term.factors),
                },
                factors => {
                    let simplified = factors.as_slice().iter().map(|atom| atom.simplify(ranges));
                    let product = simplified.reduce(|a, b| a * &b).unwrap_or(Expr::ONE);
                    has_mod |= product.terms.iter().any(Term::has_mod);
                    result.add_scaled(&product, term.coefficient);
                }
            }
        }
        if has_mod {
            result.recombine(ranges);
        }
        result
    }

    /// Applies `k*n*(a div n) + k*(a mod n) = k*a` wherever it fits; `n` may divide an `m` of which
    /// the quotient's dividend is the remainder: `n*((a mod m) div n) + (a mod n) = a mod m`.
    fn recombine(&mut self, ranges: Ranges<'_>) {
        while let Some((quotient, remainder, whole)) = self.find_recombination(ranges) {
            let coefficient = self.terms[remainder].coefficient;
            for index in [quotient.max(remainder), quotient.min(remainder)] {
                self.terms.remove(index);
            }
            self.add_scaled(&whole, coefficient);
        }
    }

    /// The terms of a quotient and its remainder, by index, and their sum over the coefficient of
    /// the remainder.
    fn find_recombination(&self, ranges: Ranges<'_>) -> Option<(usize, usize, Expr)> {
        for (index, term) in self.terms.iter().enumerate().filter(|(_, term)| term.has_mod()) {
            for (position, atom) in term.factors().iter().enumerate() {
                let Atom::Mod(a, b) = atom else { continue };
                let Some((n, divisors)) = b.as_monomial() else { continue };
                let Some(wanted) = term.coefficient.checked_mul(n) else { continue };
                let mut factors = term.factors().to_vec();
                // A quotient of a quotient stands as one.
                let quotient = match a.quotient_of(b, ranges) {
                    Some((a, b)) => a.floor_div(&b),
                    None => a.floor_div(b),
                };
                let raw = || Atom::FloorDiv(a.clone(), b.clone());
                factors[position] = quotient.as_atom().cloned().unwrap_or_else(raw);
                factors.extend_from_slice(divisors);
                let factors = Factors::from_atoms(factors)?;
                let found = self.terms.binary_search_by(|term| term.factors.cmp(&factors));
                if let Some(quotient) = found.ok().filter(|i| self.terms[*i].coefficient == wanted)
                {
                    let mut others = term.factors().to_vec();
                    others.remove(position);
                    let others = others.into_iter().map(Expr::atom);
                    return Some((quotient, index, others.fold((**a).clone(), |a, b| a * &b)));
                }
                if let [_] = term.factors() {
                    let found = self.quotient_of_remainder(atom, b, wanted);
                    let found = found.or_else(|| self.remainder_of_quotient(a, b, wanted));
                    if let Some((quotient, whole)) = found {
                        return Some((quotient, index, whole));
                    }
                }
            }
        }
        None
    }
}

impl Expr {
    /// Of a term `wanted * (y div n)` whose `y mod n` is a remainder by `n`, as that of
    /// `y = a mod m` is `a mod n` where `n` divides `m`: its number, and `y`.
    fn quotient_of_remainder(&self, rest: &Atom, n: &Expr, wanted: i64) -> Option<(usize, Expr)> {
        self.terms.iter().enumerate().find_map(|(number, term)| {
            let [Atom::FloorDiv(y, by)] = term.factors() else { return None };
            let fits = term.coefficient == wanted && **by == *n && y.as_atom()?.is_mod();
            (fits && y.modulo(n).as_atom() == Some(rest)).then(|| (number, (**y).clone()))
        })
    }

    /// Of a term `wanted * ((a div n + b) mod m)`, of constants `n` and `m`: its number, and
    /// `(a + n*b) mod (n*m)`.
    fn remainder_of_quotient(&self, a: &Expr, n: &Expr, wanted: i64) -> Option<(usize, Expr)> {
        let by = n.as_constant().filter(|by| *by > 0)?;
        let quotient = a.floor_div(n);
        self.terms.iter().enumerate().find_map(|(number, term)| {
            let [Atom::Mod(dividend, m)] = term.factors() else { return None };
            let length = m.as_constant().filter(|m| *m > 0)?.checked_mul(by)?;
            let part = |own: &Expr| own.terms.iter().any(|own| quotient.terms.contains(own));
            if term.coefficient != wanted || !part(dividend) {
                return None;
            }
            let other = &**dividend - &quotient;
            let whole = a + &(&other * by);
            let is_shorter = other.quotients() < dividend.quotients() && !whole.is_saturated();
            is_shorter.then(|| (number, whole.modulo(&Expr::constant(length))))
        })
    }

    /// For `self = a div m`, divided by what is at least 1 and not known: `a` and `m*n`.
    fn quotient_of(&self, n: &Expr, ranges: Ranges<'_>) -> Option<(Expr, Expr)> {
        let Atom::FloorDiv(a, m) = self.as_atom()? else { return None };
        let are_known = m.as_constant().is_some() && n.as_constant().is_some();
        if are_known || n.bounds(ranges).min < 1 {
            return None;
        }
        let divisor = &**m * n;
        (!divisor.is_saturated()).then(|| ((**a).clone(), divisor))
    }
}

impl Term {
    fn has_mod(&self) -> bool {
        self.factors().iter().any(Atom::is_mod)
    }
}

impl Atom {
    fn is_mod(&self) -> bool {
        matches!(self, Atom::Mod(..))
    }

    /// Whether no rule fits: not those of the ranges, while those of `divide.rs` have been applied
    /// to every atom there is.
    fn is_simple(&self, ranges: Ranges<'_>) -> bool {
        match self {
            Atom::Symbol(symbol) => ranges(*symbol).as_constant().is_none(),
            Atom::FloorDiv(a, b) | Atom::Mod(a, b) => {
                let Some(n) = b.as_constant().filter(|n| *n > 0) else { return false };
                let coprime = |term: &Term| term.coefficient == 1 || gcd(term.coefficient, n) == 1;
                a.terms.iter().all(coprime)
                    && a.is_simple(ranges)
                    && constant_quotient(a, b, ranges).is_none()
            }
            Atom::Min(a, b) | Atom::Max(a, b) => {
                let (limit, other) = match (a.as_constant(), b.as_constant()) {
                    (Some(limit), None) => (limit, b),
                    (None, Some(limit)) => (limit, a),
                    _ => return false,
                };
                let nested = matches!(other.as_atom(), Some(Atom::Min(..) | Atom::Max(..)));
                let range = other.bounds(ranges);
                !nested && range.min < limit && limit < range.max && other.is_simple(ranges)
            }
        }
    }

    fn simplify(&self, ranges: Ranges<'_>) -> Expr {
        match self {
            Atom::Symbol(symbol) => match ranges(*symbol).as_constant() {
                Some(value) => Expr::constant(value),
                None => Expr::symbol(*symbol),
            },
            Atom::FloorDiv(a, b) => simplify_div(&a.simplify(ranges), &b.simplify(ranges), ranges),
            Atom::Mod(a, b) => simplify_mod(&a.simplify(ranges), &b.simplify(ranges), ranges),
            Atom::Min(a, b) => {
                simplify_extremum(&a.simplify(ranges), &b.simplify(ranges), ranges, false)
            }
            Atom::Max(a, b) => {
                simplify_extremum(&a.simplify(ranges), &b.simplify(ranges), ranges, true)
            }
        }
    }
}

fn simplify_div(a: &Expr, b: &Expr, ranges: Ranges<'_>) -> Expr {
    let DivParts { mut quotient, rest } = a.div_parts(b);
    if let Some((a, b)) = rest {
        quotient += &if let Some(value) = constant_quotient(&a, &b, ranges) {
            Expr::constant(value)
        } else if let Some((coarse, _)) = split_fine(&a, &b, ranges) {
            simplify_div(&coarse, &b, ranges)
        } else if let Some((a, b)) = a.quotient_of(&b, ranges) {
            simplify_div(&a, &b, ranges)
        } else {
            Expr::atom(Atom::FloorDiv(Arc::new(a), Arc::new(b)))
        };
    }
    quotient
}

fn simplify_mod(a: &Expr, b: &Expr, ranges: Ranges<'_>) -> Expr {
    let ModParts { scale, offset, rest } = a.mod_parts(b);
    let mut result = Expr::constant(offset);
    if let Some((a, b)) = rest {
        let remainder = if let Some(value) = constant_quotient(&a, &b, ranges) {
            a - &(b * value)
        } else if let Some((coarse, fine)) = split_fine(&a, &b, ranges) {
            simplify_mod(&coarse, &b, ranges) + &fine
        } else {
            Expr::atom(Atom::Mod(Arc::new(a), Arc::new(b)))
        };
        result.add_scaled(&remainder, scale);
    }
    result
}

fn simplify_extremum(a: &Expr, b: &Expr, ranges: Ranges<'_>, largest: bool) -> Expr {
    let difference = difference_bounds(a, b, ranges);
    let (below, above) = (difference.max <= 0, difference.min >= 0);
    match largest {
        _ if below && above => a.clone(),
        false if below => a.clone(),
        false if above => b.clone(),
        false => a.min(b),
        true if above => a.clone(),
        true if below => b.clone(),
        true => a.max(b),
    }
}

/// The value of `a div b`, where the ranges leave only one.
fn constant_quotient(a: &Expr, b: &Expr, ranges: Ranges<'_>) -> Option<i64> {
    let range = a.bounds(ranges);
    if let Some(n) = b.as_constant() {
        let bounded = n > 0 && range.min != i64::MIN && range.max != i64::MAX;
        let first = bounded.then(|| floor_div_saturating(range.min, n))?;
        return (first == floor_div_saturating(range.max, n)).then_some(first);
    }
    if range.min >= 0 && difference_bounds(b, a, ranges).min >= 1 {
        return Some(0);
    }
    let below = range.max < 0 && b.bounds(ranges).min >= 1;
    (below && difference_bounds(a, &-b, ranges).min >= 0).then_some(-1)
}

/// A range that `a - b` lies in.
pub(crate) fn difference_bounds(a: &Expr, b: &Expr, ranges: Ranges<'_>) -> Range {
    let difference = a - b;
    if difference.is_saturated() { Range::ALL } else { difference.bounds(ranges) }
}

/// For a constant `b`, splits `a` into a multiple of some `g` that divides `b`, and a part within
/// `[0, g)`.
fn split_fine(a: &Expr, b: &Expr, ranges: Ranges<'_>) -> Option<(Expr, Expr)> {
    let n = b.as_constant().filter(|n| *n > 0)?;
    let mut tried = 1;
    for candidate in &*a.terms {
        let g = gcd(candidate.coefficient, n);
        if g == 1 || g == tried {
            continue;
        }
        tried = g;
        let low = a.constant.rem_euclid(g);
        let (mut coarse, mut fine) = (Expr::constant(a.constant - low), Expr::constant(low));
        for term in &*a.terms {
            let part = if term.coefficient % g == 0 { &mut coarse } else { &mut fine };
            part.terms.push(term.clone());
        }
        if Range::extent(g).includes(fine.bounds(ranges)) {
            return Some((coarse, fine));
        }
    }
    None
}
