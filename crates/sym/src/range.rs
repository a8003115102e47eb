//! Inclusive ranges of integers, with the ends of `i64` meaning unbounded.
//!
//! Invariant (soundness): for values in the operands' ranges, the exact mathematical result lies in
//! the result's range, `i64::MIN` as a `min` and `i64::MAX` as a `max` admitting everything.
//! Source: interval arithmetic, with corners of products and quotients.

use crate::divide::{floor_div_saturating, modulo_of_constants};
use crate::expr::{Atom, Expr, SymbolId, Term};

/// All integers from `min` to `max`, both included. `min > max` is the empty range, of which any
/// answer is right.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Range {
    /// The smallest value; `i64::MIN` if there is none.
    pub min: i64,
    /// The largest value; `i64::MAX` if there is none.
    pub max: i64,
}

/// Beyond every product of two numbers of 64 bits, and far enough from overflow to be added.
const INFINITY: i128 = i128::MAX / 4;

/// The end of a range; infinite ends are `-INFINITY` or `INFINITY`.
fn lower_end(range: Range) -> i128 {
    if range.min == i64::MIN { -INFINITY } else { i128::from(range.min) }
}

fn upper_end(range: Range) -> i128 {
    if range.max == i64::MAX { INFINITY } else { i128::from(range.max) }
}

fn clamp(value: i128) -> i64 {
    value.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

fn corner_product(a: i128, b: i128) -> i128 {
    if a == 0 || b == 0 {
        return 0;
    }
    if a.abs() == INFINITY || b.abs() == INFINITY {
        return if (a < 0) == (b < 0) { INFINITY } else { -INFINITY };
    }
    a * b
}

/// `b` is not zero.
fn corner_quotient(a: i128, b: i128) -> i128 {
    if b.abs() == INFINITY {
        return if a != 0 && (a < 0) != (b < 0) { -1 } else { 0 };
    }
    if a.abs() == INFINITY {
        return if (a < 0) == (b < 0) { INFINITY } else { -INFINITY };
    }
    a.div_euclid(b) - i128::from(b < 0 && a.rem_euclid(b) != 0)
}

impl Range {
    /// Every integer.
    pub const ALL: Range = Range { min: i64::MIN, max: i64::MAX };

    /// From `min` to `max`, both included.
    pub const fn new(min: i64, max: i64) -> Range {
        Range { min, max }
    }

    /// One value.
    pub const fn constant(value: i64) -> Range {
        Range { min: value, max: value }
    }

    /// From `min` without end: `Range::at_least(1)` for a dimension.
    pub const fn at_least(min: i64) -> Range {
        Range { min, max: i64::MAX }
    }

    /// The values of a loop variable: from 0 to `extent - 1`.
    pub const fn extent(extent: i64) -> Range {
        Range { min: 0, max: extent.saturating_sub(1) }
    }

    /// The value, where there is only one.
    pub fn as_constant(self) -> Option<i64> {
        (self.min == self.max).then_some(self.min)
    }

    /// The value by which choices are weighed where the value is not known: [`Self::USUAL`], or
    /// what is nearest to that.
    pub fn usual(self) -> i64 {
        Self::USUAL.min(self.max).max(self.min)
    }

    /// By what extents are weighed of which nothing is known.
    pub const USUAL: i64 = 64;

    /// Whether `value` is in it.
    pub fn contains(self, value: i64) -> bool {
        self.min <= value && value <= self.max
    }

    /// Whether every value of `other` is in it.
    pub fn includes(self, other: Range) -> bool {
        self.min <= other.min && other.max <= self.max
    }

    fn is_bounded(self) -> bool {
        self.min != i64::MIN && self.max != i64::MAX
    }

    /// Whether there is no value in it.
    pub fn is_empty(self) -> bool {
        self.min > self.max
    }

    /// The values in both.
    pub fn intersect(self, other: Range) -> Range {
        Range { min: self.min.max(other.min), max: self.max.min(other.max) }
    }

    /// The smallest range that includes both.
    pub fn union(self, other: Range) -> Range {
        Range { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    /// The range of `a + b`.
    pub fn plus(self, other: Range) -> Range {
        if let (true, true, Some(min), Some(max)) = (
            self.is_bounded(),
            other.is_bounded(),
            self.min.checked_add(other.min),
            self.max.checked_add(other.max),
        ) {
            return Range { min, max };
        }
        Range {
            min: clamp(lower_end(self) + lower_end(other)),
            max: clamp(upper_end(self) + upper_end(other)),
        }
    }

    /// The range of `a * b`.
    pub fn times(self, other: Range) -> Range {
        Range::of_corners(self, other, corner_product)
    }

    /// The range of `a * factor`.
    pub fn scaled(self, factor: i64) -> Range {
        if let (true, Some(first), Some(last)) =
            (self.is_bounded(), self.min.checked_mul(factor), self.max.checked_mul(factor))
        {
            let (min, max) = if factor < 0 { (last, first) } else { (first, last) };
            return Range { min, max };
        }
        let (a, b) = (lower_end(self), upper_end(self));
        let (a, b) = if factor < 0 { (b, a) } else { (a, b) };
        let factor = i128::from(factor);
        Range { min: clamp(corner_product(a, factor)), max: clamp(corner_product(b, factor)) }
    }

    /// The range of `a div b`, rounded down; `b` is taken not to be zero.
    pub fn floor_div(self, divisor: Range) -> Range {
        let divisor = divisor.without_zero();
        if divisor.contains(0) {
            // The quotient is nowhere farther from zero than the dividend.
            let reach = lower_end(self).abs().max(upper_end(self).abs());
            return Range { min: clamp(-reach), max: clamp(reach) };
        }
        Range::of_corners(self, divisor, corner_quotient)
    }

    /// The range of `a mod b`, with the sign of `b`, which is taken not to be zero.
    pub fn modulo(self, divisor: Range) -> Range {
        let divisor = divisor.without_zero();
        if let Some(n) = divisor.as_constant().filter(|n| *n != 0) {
            let bounded = self.min != i64::MIN && self.max != i64::MAX;
            if bounded && floor_div_saturating(self.min, n) == floor_div_saturating(self.max, n) {
                let (first, last) =
                    (modulo_of_constants(self.min, n), modulo_of_constants(self.max, n));
                return Range { min: first, max: last };
            }
        }
        let positive = upper_end(divisor) - 1;
        let negative = lower_end(divisor) + 1;
        let mut range = Range { min: clamp(negative.min(0)), max: clamp(positive.max(0)) };
        if divisor.min > 0 && self.min >= 0 {
            range.max = range.max.min(self.max);
            if self.max < divisor.min {
                range.min = self.min;
            }
        }
        range
    }

    /// The range of the smaller of two.
    pub fn min_with(self, other: Range) -> Range {
        Range { min: self.min.min(other.min), max: self.max.min(other.max) }
    }

    /// The range of the larger of two.
    pub fn max_with(self, other: Range) -> Range {
        Range { min: self.min.max(other.min), max: self.max.max(other.max) }
    }

    /// Takes a zero off an end.
    fn without_zero(self) -> Range {
        match (self.min, self.max) {
            (0, 0) => self,
            (0, max) => Range { min: 1, max },
            (min, 0) => Range { min, max: -1 },
            _ => self,
        }
    }

    fn of_corners(a: Range, b: Range, corner: fn(i128, i128) -> i128) -> Range {
        let (a, b) = ([lower_end(a), upper_end(a)], [lower_end(b), upper_end(b)]);
        let (mut min, mut max) = (INFINITY, -INFINITY);
        for (x, y) in [(a[0], b[0]), (a[0], b[1]), (a[1], b[0]), (a[1], b[1])] {
            let value = corner(x, y);
            (min, max) = (min.min(value), max.max(value));
        }
        Range { min: clamp(min), max: clamp(max) }
    }
}

impl Expr {
    /// A range that the value lies in, given ranges of the symbols.
    pub fn bounds(&self, ranges: &dyn Fn(SymbolId) -> Range) -> Range {
        let sum = |sum: Range, term: &Term| sum.plus(term.bounds(ranges));
        self.terms.iter().fold(Range::constant(self.constant), sum)
    }
}

impl Term {
    /// A range that the value lies in, given ranges of the symbols.
    pub fn bounds(&self, ranges: &dyn Fn(SymbolId) -> Range) -> Range {
        let factors = self.factors().iter().map(|atom| atom.bounds(ranges));
        factors.reduce(Range::times).unwrap_or(Range::constant(1)).scaled(self.coefficient)
    }
}

impl Atom {
    /// A range that the value lies in, given ranges of the symbols.
    pub fn bounds(&self, ranges: &dyn Fn(SymbolId) -> Range) -> Range {
        match self {
            Atom::Symbol(symbol) => ranges(*symbol),
            Atom::FloorDiv(a, b) => match (a.bounds(ranges), b.as_constant()) {
                (range, Some(n)) if n > 0 && range.is_bounded() => {
                    Range { min: range.min.div_euclid(n), max: range.max.div_euclid(n) }
                }
                (range, _) => range.floor_div(b.bounds(ranges)),
            },
            Atom::Mod(a, b) => a.bounds(ranges).modulo(b.bounds(ranges)),
            Atom::Min(a, b) => a.bounds(ranges).min_with(b.bounds(ranges)),
            Atom::Max(a, b) => a.bounds(ranges).max_with(b.bounds(ranges)),
        }
    }
}
