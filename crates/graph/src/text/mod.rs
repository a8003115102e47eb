//! The text form of functions. What prints also parses:
//!
//! ```text
//! function @main {
//!   symbol batch in 1..=4096 usual 100
//!   assume divisible(batch, 4)
//!   parameter %v0: f32[batch, 8] as "input"
//!   %v1: f32[8, 4] = weight @c3
//!   %v2 "scores": f32[batch, 4] = contract [a0: batch, a1: 4 | r0: 8] %v0[a0, r0], %v1[r0, a1]
//!     accumulate f32 loc("fc", "Gemm")
//!   %v3: f32[4] = literal {0.0, 1.0, -inf, nan}
//!   %v4: f32[batch, 4] = broadcast axes [1] %v3
//!   %v5: f32[batch, 4] = map add %v2, %v4
//!   return %v5 as "output"
//! }
//! ```
//!
//! Values are numbered in order of appearance, whatever their ids, and may be called anything when
//! parsed. The type of a result stands before the primitive, so what follows from it (the target
//! of a cast, the shape of a broadcast) is not said again. `usual` stands where choices are weighed
//! by another value than is usual in the range. Axes of an iteration space have names of their own,
//! `a0, a1, ..` for the result's and `r0, r1, ..` for the reduced ones.

pub(crate) mod attribute;
mod parse;
mod print;

use std::fmt;

use base::text::Separated;
use sym::{Expr, SymbolId};

use crate::function::{Assumption, Type};
pub use parse::{parse, parse_function, parse_literal};
pub(crate) use print::Notes;
pub use print::{literal_text, print};

/// What symbols are called.
pub type Names<'a> = &'a dyn Fn(SymbolId) -> String;

/// `[2, n, 3]`
pub fn shape_text(shape: &[Expr], names: Names<'_>) -> String {
    let extents: Vec<_> = shape.iter().map(|extent| extent.display(names)).collect();
    format!("[{}]", Separated(", ", &extents))
}

/// `f32[2, n, 3]`, `sequence<i64 rank 1>`, `optional<any>`.
pub fn type_text<'a>(ty: &'a Type, names: Names<'a>) -> impl fmt::Display + 'a {
    fmt::from_fn(move |f| match ty {
        Type::Tensor(ty) => write!(f, "{}{}", ty.dtype, shape_text(&ty.shape, names)),
        Type::Sequence(inner) => write!(f, "sequence<{}>", inner.text()),
        Type::Optional(inner) => write!(f, "optional<{}>", inner.text()),
    })
}

/// `equal(a, b)`, `broadcastable(a, b)`, `divisible(a, 4)`, `non_negative(a)`.
pub fn assumption_text(assumption: &Assumption, names: Names<'_>) -> String {
    match assumption {
        Assumption::Equal(a, b) => format!("equal({}, {})", a.display(names), b.display(names)),
        Assumption::Broadcastable(a, b) => {
            format!("broadcastable({}, {})", a.display(names), b.display(names))
        }
        Assumption::Divisible(a, by) => format!("divisible({}, {by})", a.display(names)),
    }
}
