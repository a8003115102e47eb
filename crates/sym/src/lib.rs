//! Symbolic integers in canonical form: they serve shapes and loop indices alike.
//!
//! An [`Expr`] is a polynomial with integer coefficients over atoms: symbols, floor quotients,
//! remainders, minima and maxima. Building one puts it in canonical form, so that equal polynomials
//! are equal values; [`Expr::simplify`] goes further with the [`Range`] of each symbol.
//!
//! Invariants:
//! - Meaning: wherever an expression as built has a value (no division by zero), the canonical and
//!   the simplified form have the same value.
//! - Arithmetic on constants never panics and never wraps: it saturates at the ends of `i64`, and
//!   such an expression no longer means what was written; [`Expr::evaluate`] of one that stays in
//!   range is exact.
//! - No order: `Expr` has no `Ord`, because `a < b` must not look like a proof about values (that
//!   is [`proves_less_than`]) and `Ord::min` would hide [`Expr::min`].

mod arith;
mod divide;
mod expr;
mod memo;
mod piece;
mod prove;
mod query;
mod range;
mod shared_list;
mod simplify;
mod symbol;
mod text;

#[cfg(test)]
mod tests;

#[cfg(test)]
mod properties;

pub use expr::{Atom, Expr, SymbolId, Term};
pub use memo::Memo;
pub use piece::LinearPiece;
pub use prove::{proves_less_equal, proves_less_than};
pub use range::Range;
pub use symbol::Symbol;
pub use text::{parse_expr, parse_range};
