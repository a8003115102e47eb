//! How an expression goes on from a value of one of its symbols, all others being zero.
//!
//! Quotients by constants, minima and maxima of what is linear are linear in pieces: an expression
//! that is met at hundreds of values of a loop's variable is looked at once a piece.

use crate::divide::{floor_div_saturating, modulo_of_constants};
use crate::expr::{Atom, Expr, SymbolId};

/// A linear piece of an expression, from a value of the symbol on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearPiece {
    /// The expression's value there.
    pub value: i64,
    /// How much more it is for each value of the symbol further on.
    pub slope: i64,
    /// The first value of the symbol that may not belong to the piece; it lies further on.
    pub until: i64,
}

impl LinearPiece {
    fn constant(value: i64) -> LinearPiece {
        LinearPiece { value, slope: 0, until: i64::MAX }
    }

    /// Of which only the first value is known.
    fn point(value: i64, at: i64) -> LinearPiece {
        LinearPiece { value, slope: 0, until: at.saturating_add(1) }
    }

    fn times(self, other: LinearPiece, at: i64) -> Option<LinearPiece> {
        let value = self.value.checked_mul(other.value)?;
        if self.slope != 0 && other.slope != 0 {
            return Some(LinearPiece::point(value, at));
        }
        let one = self.value.checked_mul(other.slope)?;
        let two = self.slope.checked_mul(other.value)?;
        let until = self.until.min(other.until);
        Some(LinearPiece { value, slope: one.checked_add(two)?, until })
    }

    fn plus(self, other: LinearPiece) -> Option<LinearPiece> {
        Some(LinearPiece {
            value: self.value.checked_add(other.value)?,
            slope: self.slope.checked_add(other.slope)?,
            until: self.until.min(other.until),
        })
    }

    /// The quotient by a positive constant, rounded down, as far as it goes on as it begins.
    fn divided(self, by: i64, at: i64) -> LinearPiece {
        let quotient = floor_div_saturating(self.value, by);
        if self.slope % by == 0 {
            return LinearPiece { value: quotient, slope: self.slope / by, ..self };
        }
        let rest = modulo_of_constants(self.value, by);
        // The turns after which the rest is no longer one.
        let turns = match self.slope {
            slope @ 1.. => (by - rest - 1) / slope + 1,
            slope => rest / slope.saturating_neg() + 1,
        };
        LinearPiece { value: quotient, slope: 0, until: self.until.min(at.saturating_add(turns)) }
    }

    /// The smaller of two, as long as it is that.
    fn smaller(self, other: LinearPiece, at: i64) -> Option<LinearPiece> {
        let (less, more) = if self.value <= other.value { (self, other) } else { (other, self) };
        let [apart, nearer] =
            [more.value.checked_sub(less.value)?, less.slope.checked_sub(more.slope)?];
        let mut until = less.until.min(more.until);
        if nearer > 0 {
            until = until.min(at.saturating_add(apart / nearer).saturating_add(1));
        }
        Some(LinearPiece { until, ..less })
    }

    fn negated(self) -> Option<LinearPiece> {
        let (value, slope) = (self.value.checked_neg()?, self.slope.checked_neg()?);
        Some(LinearPiece { value, slope, ..self })
    }
}

impl Expr {
    /// The piece that begins at a value of a symbol where all others are zero; `None` where a
    /// divisor is zero or a number leaves `i64`.
    pub fn piece(&self, symbol: SymbolId, at: i64) -> Option<LinearPiece> {
        let mut sum = LinearPiece::constant(self.constant);
        for term in self.terms() {
            let mut product = LinearPiece::constant(term.coefficient());
            for atom in term.factors() {
                product = product.times(atom.piece(symbol, at)?, at)?;
            }
            sum = sum.plus(product)?;
        }
        Some(sum)
    }
}

impl Atom {
    fn piece(&self, symbol: SymbolId, at: i64) -> Option<LinearPiece> {
        let (a, b) = match self {
            Atom::Symbol(own) if *own == symbol => {
                return Some(LinearPiece { value: at, slope: 1, until: i64::MAX });
            }
            Atom::Symbol(_) => return Some(LinearPiece::constant(0)),
            Atom::FloorDiv(a, b) | Atom::Mod(a, b) | Atom::Min(a, b) | Atom::Max(a, b) => {
                (a.piece(symbol, at)?, b.piece(symbol, at)?)
            }
        };
        match self {
            Atom::Min(..) => a.smaller(b, at),
            Atom::Max(..) => a.negated()?.smaller(b.negated()?, at)?.negated(),
            Atom::FloorDiv(..) | Atom::Mod(..) if b.value == 0 => None,
            Atom::FloorDiv(..) | Atom::Mod(..) if b.value < 0 || b.slope != 0 => {
                let value = match self {
                    Atom::FloorDiv(..) => floor_div_saturating(a.value, b.value),
                    _ => modulo_of_constants(a.value, b.value),
                };
                Some(LinearPiece::point(value, at))
            }
            _ => {
                let a = LinearPiece { until: a.until.min(b.until), ..a };
                let quotient = a.divided(b.value, at);
                match self {
                    Atom::FloorDiv(..) => Some(quotient),
                    _ => a.plus(quotient.times(LinearPiece::constant(b.value.checked_neg()?), at)?),
                }
            }
        }
    }
}
