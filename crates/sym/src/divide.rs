//! Quotients, remainders, minima and maxima, folded as far as holds for all values of the symbols.
//!
//! Rules, for positive constants `n`, `m`, `g` and constants `c`:
//!
//! ```text
//! (n*a + b) div n         = a + b div n              also for a constant part of b
//! (g*a + c) div (g*n)     = (a + c div g) div n
//! (a div m + c) div n     = (a + m*c) div (m*n)
//! (n*a + b) mod n         = b mod n
//! (g*a + c) mod (g*n)     = g * ((a + c div g) mod n) + c mod g
//! (k*(a mod m) + b) mod n = (k*a + b) mod n          where n divides k*m
//! (min(n*a, n*b) + c) div n = min(a, b) + c div n; (min(n*a, n*b) + c) mod n = c mod n;
//!                           and so for max
//! a div -b = -a div b;  a mod -b = -(-a mod b)
//! max(a, max(b, d) + c)   = max(a, b + c, d + c), and so for min
//! ```
//!
//! A symbolic divisor divides exactly where polynomial division leaves nothing, a monomial takes
//! its multiples out of the dividend, and a common constant factor cancels.
//! Invariant: dividing the parts of a folded quotient or remainder again gives the same parts.

use std::sync::Arc;

use crate::expr::{Atom, Expr, Factors, Term, Terms};

/// `quotient + dividend div divisor`, where the last part may be nothing.
pub(crate) struct DivParts {
    pub(crate) quotient: Expr,
    pub(crate) rest: Option<(Expr, Expr)>,
}

/// `scale * (dividend mod divisor) + offset`, where the first part may be nothing.
pub(crate) struct ModParts {
    pub(crate) scale: i64,
    pub(crate) offset: i64,
    pub(crate) rest: Option<(Expr, Expr)>,
}

impl Expr {
    /// The quotient rounded towards minus infinity. By the constant zero it stays an atom that has
    /// no value.
    pub fn floor_div(&self, divisor: &Expr) -> Expr {
        let DivParts { mut quotient, rest } = self.div_parts(divisor);
        if let Some((dividend, divisor)) = rest {
            quotient += &Expr::atom(Atom::FloorDiv(Arc::new(dividend), Arc::new(divisor)));
        }
        quotient
    }

    /// What [`floor_div`](Self::floor_div) leaves; it is zero or has the divisor's sign.
    pub fn modulo(&self, divisor: &Expr) -> Expr {
        let ModParts { scale, offset, rest } = self.mod_parts(divisor);
        let mut result = Expr::constant(offset);
        if let Some((dividend, divisor)) = rest {
            let atom = Atom::Mod(Arc::new(dividend), Arc::new(divisor));
            result.add_term(scale, &Factors::One(atom));
        }
        result
    }

    /// The quotient rounded towards plus infinity.
    pub fn ceil_div(&self, divisor: &Expr) -> Expr {
        match divisor.as_constant() {
            Some(n) if n > 0 => match self.constant.checked_add(n - 1) {
                Some(constant) => Expr { constant, terms: self.terms.clone() }.floor_div(divisor),
                None => -(-self).floor_div(divisor),
            },
            _ => -(-self).floor_div(divisor),
        }
    }

    /// The smaller of two.
    pub fn min(&self, other: &Expr) -> Expr {
        extremum(self, other, false)
    }

    /// The larger of two.
    pub fn max(&self, other: &Expr) -> Expr {
        extremum(self, other, true)
    }

    pub(crate) fn div_parts(&self, divisor: &Expr) -> DivParts {
        let whole = |quotient| DivParts { quotient, rest: None };
        match (divisor.as_constant(), self.as_constant()) {
            (Some(n), Some(value)) if n != 0 => {
                return whole(Expr::constant(floor_div_saturating(value, n)));
            }
            (Some(0 | i64::MIN), _) => {
                let rest = Some((self.clone(), divisor.clone()));
                return DivParts { quotient: Expr::ZERO, rest };
            }
            (Some(1), _) => return whole(self.clone()),
            (Some(n), _) if n > 0 => return self.div_parts_by_constant(n),
            (None, _) if !divisor.leads_negative() => {}
            _ => return (-self).div_parts(&-divisor),
        }
        if let Some(quotient) = self.exact_quotient(divisor) {
            return whole(quotient);
        }
        let (quotient, mut rest) = self.split_multiples(divisor);
        let mut divisor = divisor.clone();
        let common = gcd(rest.content(), divisor.content());
        if common == 1 {
            return DivParts { quotient, rest: Some((rest, divisor)) };
        }
        rest.shrink(common);
        divisor.shrink(common);
        let mut parts = rest.div_parts(&divisor);
        parts.quotient += &quotient;
        parts
    }

    /// The rules of the file's head, for `n > 1`.
    fn div_parts_by_constant(&self, n: i64) -> DivParts {
        let mut quotient = Expr::constant(self.constant.div_euclid(n));
        let mut rest = Expr::constant(self.constant.rem_euclid(n));
        let mut extrema = Expr::ZERO;
        let mut common = n;
        for term in &*self.terms {
            if term.coefficient % n == 0 {
                let coefficient = term.coefficient / n;
                quotient.terms.push(Term { coefficient, factors: term.factors.clone() });
            } else if let Some(part) = term.extremum_over(n) {
                extrema += &part;
            } else {
                common = gcd(common, term.coefficient);
                rest.terms.push(term.clone());
            }
        }
        quotient += &extrema;
        if rest.terms.is_empty() {
            return DivParts { quotient, rest: None };
        }
        rest.shrink(common);
        let n = n / common;
        match rest.nested_dividend(n) {
            Some((dividend, n)) => {
                let mut parts = dividend.div_parts(&Expr::constant(n));
                parts.quotient += &quotient;
                parts
            }
            None => DivParts { quotient, rest: Some((rest, Expr::constant(n))) },
        }
    }

    /// For `self = a div m + c`: `a + m*c` and `m*n`.
    fn nested_dividend(&self, n: i64) -> Option<(Expr, i64)> {
        let [Term { coefficient: 1, factors: Factors::One(Atom::FloorDiv(a, m)) }] =
            &self.terms[..]
        else {
            return None;
        };
        let m = m.as_constant().filter(|m| *m > 0)?;
        let constant = a.constant.checked_add(m.checked_mul(self.constant)?)?;
        Some((Expr { constant, terms: a.terms.clone() }, m.checked_mul(n)?))
    }

    pub(crate) fn mod_parts(&self, divisor: &Expr) -> ModParts {
        let only = |offset| ModParts { scale: 0, offset, rest: None };
        let opaque =
            || ModParts { scale: 1, offset: 0, rest: Some((self.clone(), divisor.clone())) };
        match (divisor.as_constant(), self.as_constant()) {
            (Some(n), Some(value)) if n != 0 => return only(modulo_of_constants(value, n)),
            (Some(0 | i64::MIN), _) => return opaque(),
            (Some(1), _) => return only(0),
            (Some(n), _) if n > 0 => return self.mod_parts_by_constant(n),
            (None, _) if !divisor.leads_negative() => {}
            _ => {
                let parts = (-self).mod_parts(&-divisor);
                // Both numbers come out of a positive divisor and are small beside `i64::MIN`.
                return ModParts { scale: -parts.scale, offset: -parts.offset, ..parts };
            }
        }
        if self.exact_quotient(divisor).is_some() {
            return only(0);
        }
        let (_, mut rest) = self.split_multiples(divisor);
        let mut divisor = divisor.clone();
        let common = gcd(rest.content(), divisor.content());
        if common == 1 {
            return ModParts { scale: 1, offset: 0, rest: Some((rest, divisor)) };
        }
        rest.shrink(common);
        divisor.shrink(common);
        let parts = rest.mod_parts(&divisor);
        let (scale, offset) =
            (parts.scale.saturating_mul(common), parts.offset.saturating_mul(common));
        ModParts { scale, offset, ..parts }
    }

    /// The rules of the file's head, for `n > 1`.
    fn mod_parts_by_constant(&self, n: i64) -> ModParts {
        let mut rest = Expr::constant(self.constant.rem_euclid(n));
        let mut common = n;
        let mut inner: Option<Expr> = None;
        let is_part = |term: &&Term| term.coefficient % n != 0 && term.extremum_over(n).is_none();
        for term in self.terms.iter().filter(is_part) {
            match term.inner_of_mod(n) {
                Some(dividend) => {
                    let sum = inner.get_or_insert(Expr::ZERO);
                    sum.add_scaled(dividend, term.coefficient);
                }
                None => {
                    common = gcd(common, term.coefficient);
                    rest.terms.push(term.clone());
                }
            }
        }
        if let Some(inner) = inner {
            return (rest + &inner).mod_parts(&Expr::constant(n));
        }
        if rest.terms.is_empty() {
            return ModParts { scale: 0, offset: rest.constant, rest: None };
        }
        let offset = rest.constant % common;
        rest.shrink(common);
        ModParts { scale: common, offset, rest: Some((rest, Expr::constant(n / common))) }
    }

    fn leads_negative(&self) -> bool {
        self.terms.first().is_some_and(|term| term.coefficient < 0)
    }

    /// The greatest common divisor of all coefficients and the constant; positive, for zero 1.
    fn content(&self) -> i64 {
        let all = self.terms.iter().fold(self.constant, |all, term| gcd(all, term.coefficient));
        gcd(all, 0).max(1)
    }

    /// `q` with `q * divisor = self`, if polynomial division finds one.
    ///
    /// The factors' order compares degrees first and respects products, so each step takes the
    /// leading term away and puts only lower ones in its place.
    pub(crate) fn exact_quotient(&self, divisor: &Expr) -> Option<Expr> {
        let Some(lead) = divisor.terms.last() else {
            let n = divisor.constant;
            let exact = n > 0
                && self.constant % n == 0
                && self.terms.iter().all(|term| term.coefficient % n == 0);
            return exact.then(|| {
                let mut quotient = self.clone();
                quotient.shrink(n);
                quotient
            });
        };
        let mut rest = self.clone();
        let mut quotient = Expr::ZERO;
        while let Some(top) = rest.terms.last() {
            let step = top.divided_by(lead)?;
            rest.add_scaled(&(&step * divisor), -1);
            quotient += &step;
            if rest.is_saturated() {
                return None;
            }
        }
        rest.is_zero().then_some(quotient)
    }

    /// For a monomial divisor: the quotients of the terms that are its multiples, and the others.
    fn split_multiples(&self, divisor: &Expr) -> (Expr, Expr) {
        let (0, [monomial]) = (divisor.constant, &divisor.terms[..]) else {
            return (Expr::ZERO, self.clone());
        };
        let (mut quotient, mut rest) = (Expr::ZERO, Expr::constant(self.constant));
        for term in &*self.terms {
            match term.divided_by(monomial) {
                Some(step) => quotient += &step,
                None => rest.terms.push(term.clone()),
            }
        }
        (quotient, rest)
    }

    /// Whether a number in it lies at the end of `i64`, where sums and products saturate.
    pub(crate) fn is_saturated(&self) -> bool {
        let at_end = |value: i64| value == i64::MIN || value == i64::MAX;
        at_end(self.constant) || self.terms.iter().any(|term| at_end(term.coefficient))
    }
}

impl Term {
    /// For `k * (a mod m)`, where `n` divides `k*m`: `a`.
    fn inner_of_mod(&self, n: i64) -> Option<&Expr> {
        let Factors::One(Atom::Mod(a, m)) = &self.factors else {
            return None;
        };
        let product = self.coefficient.checked_mul(m.as_constant()?)?;
        (product != 0 && product % n == 0).then_some(a)
    }

    /// For `k * min(a, b)` or `k * max(a, b)` that is a multiple of `n` since both are, up to `k`:
    /// what `n` times gives it.
    fn extremum_over(&self, n: i64) -> Option<Expr> {
        let Factors::One(Atom::Min(a, b) | Atom::Max(a, b)) = &self.factors else {
            return None;
        };
        let common = gcd(a.content(), b.content());
        let coefficient = self.coefficient.checked_mul(common)?;
        if coefficient % n != 0 {
            return None;
        }
        let [a, b] = [a, b].map(|operand| {
            let mut operand = Expr::clone(operand);
            operand.shrink(common);
            operand
        });
        let largest = matches!(self.factors, Factors::One(Atom::Max(..)));
        Some(extremum(&a, &b, largest) * (coefficient / n))
    }

    /// The monomial that `divisor` times gives this term.
    fn divided_by(&self, divisor: &Term) -> Option<Expr> {
        let coefficient = self.coefficient.checked_rem(divisor.coefficient)?;
        if coefficient != 0 {
            return None;
        }
        let mut left = self.factors().to_vec();
        for factor in divisor.factors() {
            let index = left.iter().position(|other| other == factor)?;
            left.remove(index);
        }
        let coefficient = self.coefficient / divisor.coefficient;
        Some(match Factors::from_atoms(left) {
            Some(factors) => Expr { constant: 0, terms: Terms::one(Term { coefficient, factors }) },
            None => Expr::constant(coefficient),
        })
    }
}

/// The smallest (or largest) of all operands of nested minima: of operands that differ by a
/// constant only one is kept; the others are sorted and nested to the left.
fn extremum(left: &Expr, right: &Expr, largest: bool) -> Expr {
    let mut operands: Vec<Expr> = Vec::new();
    let mut pending = vec![right.clone(), left.clone()];
    while let Some(expr) = pending.pop() {
        if let Some(inner) = moved_operands(&expr, largest) {
            pending.extend(inner);
            continue;
        }
        match operands.iter_mut().find(|other| other.terms == expr.terms) {
            Some(other) if (expr.constant > other.constant) == largest => {
                other.constant = expr.constant;
            }
            Some(_) => {}
            None => operands.push(expr),
        }
    }
    operands.sort_by(Expr::structural_cmp);
    let nest = |a: Expr, b: Expr| {
        let (a, b) = (Arc::new(a), Arc::new(b));
        Expr::atom(if largest { Atom::Max(a, b) } else { Atom::Min(a, b) })
    };
    operands.into_iter().reduce(nest).unwrap_or_default()
}

/// The operands of an extremum of the same kind, a constant that is added to it added to both.
fn moved_operands(expr: &Expr, largest: bool) -> Option<[Expr; 2]> {
    let [Term { coefficient: 1, factors: Factors::One(atom) }] = &expr.terms[..] else {
        return None;
    };
    let (a, b) = match atom {
        Atom::Min(a, b) if !largest => (a, b),
        Atom::Max(a, b) if largest => (a, b),
        _ => return None,
    };
    let moved = |operand: &Expr| {
        let constant = operand.constant.checked_add(expr.constant)?;
        Some(Expr { constant, terms: operand.terms.clone() })
    };
    Some([moved(b)?, moved(a)?])
}

/// The greatest common divisor, not negative. Of `i64::MIN` and 0 or itself it would be 2^63, for
/// which 2^62 stands, a common divisor too.
pub(crate) fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i64::try_from(a).unwrap_or(1 << 62)
}

/// `divisor` is not zero; `i64::MIN div -1` is `i64::MAX`.
pub(crate) fn floor_div_saturating(value: i64, divisor: i64) -> i64 {
    let quotient = value.saturating_div(divisor);
    let rounds_up = value.wrapping_rem(divisor) != 0 && (value < 0) != (divisor < 0);
    quotient - i64::from(rounds_up)
}

/// `divisor` is not zero; the result has its sign.
pub(crate) fn modulo_of_constants(value: i64, divisor: i64) -> i64 {
    let rest = value.wrapping_rem(divisor);
    if rest != 0 && (rest < 0) != (divisor < 0) { rest + divisor } else { rest }
}
