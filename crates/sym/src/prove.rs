//! Proofs of inequalities from the ranges of the symbols.
//!
//! `true` means proved, `false` only that no proof was found. Beyond bounds of the difference, a
//! minimum or maximum is replaced by its operands, a remainder by the end of its range, and a
//! quotient `q = a div n` by what defines it: `a - n + 1 <= n*q <= a`.

use crate::expr::{Atom, Expr, Factors, SymbolId};
use crate::range::Range;

type Ranges<'a> = &'a dyn Fn(SymbolId) -> Range;

/// How many atoms one proof may take apart in a row.
const DEPTH: u32 = 3;

/// Numbers beyond this are left alone, so that scaling by a divisor does not saturate.
const SMALL: u64 = 1 << 31;

/// Whether `a < b` for all values of the symbols within their ranges.
pub fn proves_less_than(a: &Expr, b: &Expr, ranges: &dyn Fn(SymbolId) -> Range) -> bool {
    proves_difference(a, b, 1, ranges)
}

/// Whether `a <= b` for all values of the symbols within their ranges.
pub fn proves_less_equal(a: &Expr, b: &Expr, ranges: &dyn Fn(SymbolId) -> Range) -> bool {
    proves_difference(a, b, 0, ranges)
}

/// Whether `b - a >= least`.
fn proves_difference(a: &Expr, b: &Expr, least: i64, ranges: Ranges<'_>) -> bool {
    let by_bounds = |low: i64, high: i64| {
        low != i64::MIN
            && high != i64::MAX
            && low.checked_sub(high).is_some_and(|difference| difference >= least)
    };
    let proved = match (a.as_constant(), b.as_constant()) {
        (Some(a), _) => by_bounds(b.bounds(ranges).min, a),
        (_, Some(b)) => by_bounds(b, a.bounds(ranges).max),
        _ => false,
    };
    if proved {
        return true;
    }
    let difference = b - a;
    if difference.is_saturated() {
        return false;
    }
    if difference.bounds(ranges).min >= least {
        return true;
    }
    let only_symbols = |factors: &[Atom]| factors.iter().all(|a| matches!(a, Atom::Symbol(_)));
    if difference.terms.iter().all(|term| only_symbols(term.factors())) {
        return false;
    }
    at_least(&difference.simplify(ranges), least, ranges, DEPTH)
}

fn at_least(expr: &Expr, least: i64, ranges: Ranges<'_>, depth: u32) -> bool {
    if expr.is_saturated() {
        return false;
    }
    if expr.bounds(ranges).min >= least {
        return true;
    }
    if depth == 0 {
        return false;
    }
    let holds = |expr: Expr, least| at_least(&expr, least, ranges, depth - 1);
    for (index, term) in expr.terms.iter().enumerate() {
        let Factors::One(atom) = &term.factors else { continue };
        let coefficient = term.coefficient;
        let with = |operand: &Expr| {
            let mut other = expr.clone();
            other.terms.remove(index);
            other.add_scaled(operand, coefficient);
            other
        };
        let proved = match atom {
            Atom::Symbol(_) => false,
            Atom::Mod(_, n) if n.bounds(ranges).min < 1 => false,
            Atom::Mod(..) if coefficient > 0 => holds(with(&Expr::ZERO), least),
            Atom::Mod(_, n) => holds(with(&(&**n - 1)), least),
            Atom::Min(a, b) if coefficient > 0 => holds(with(a), least) && holds(with(b), least),
            Atom::Max(a, b) if coefficient < 0 => holds(with(a), least) && holds(with(b), least),
            Atom::Min(a, b) | Atom::Max(a, b) => holds(with(a), least) || holds(with(b), least),
            Atom::FloorDiv(a, b) => match b.as_constant() {
                Some(n) if n > 0 && all_small(expr, n) && least.unsigned_abs() < SMALL => {
                    // n * expr = n * rest + coefficient * (n*q), with n*q as far off as it may be.
                    let mut scaled = expr.clone();
                    scaled.terms.remove(index);
                    scaled.scale(n);
                    scaled.add_scaled(a, coefficient);
                    scaled -= if coefficient > 0 { coefficient * (n - 1) } else { 0 };
                    holds(scaled, n * (least - 1) + 1)
                }
                _ => false,
            },
        };
        if proved {
            return true;
        }
    }
    false
}

fn all_small(expr: &Expr, n: i64) -> bool {
    let numbers = expr.terms.iter().map(|term| term.coefficient).chain([expr.constant, n]);
    numbers.into_iter().all(|number| number.unsigned_abs() < SMALL)
}
