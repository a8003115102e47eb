//! Index expressions as C.
//!
//! Sums and products are written as they stand. A quotient or remainder that is provably one of
//! numbers that are not negative is C's own; the others, which round the other way than C, go
//! through helpers.
//!
//! Constants of places in memory are marked (`alike`), so that kernels which differ in these
//! alone may become one function.

use sym::{Atom, Expr, Range, SymbolId};

use crate::alike::marked;
use crate::helpers::Helpers;

/// What is needed to write index expressions at some place.
pub(crate) struct IndexContext<'a> {
    /// How a symbol is written there.
    pub(crate) name: &'a dyn Fn(SymbolId) -> String,
    /// The values that it can have there.
    pub(crate) range: &'a dyn Fn(SymbolId) -> Range,
    /// Whether it is a place in memory, for which the machine's own size of integers does; all else
    /// takes 64 bits.
    pub(crate) is_place: bool,
    /// Whether constants are marked.
    pub(crate) marks: bool,
}

impl IndexContext<'_> {
    /// The expression, in parentheses if it is a sum or product and `tight` is set.
    pub(crate) fn text(&self, helpers: &mut Helpers, expr: &Expr, tight: bool) -> String {
        if let Some(atom) = expr.as_atom() {
            return self.atom(helpers, atom, tight);
        }
        let mut out = String::new();
        // A term with a plus sign comes first, where there is one.
        let (negative, positive): (Vec<_>, Vec<_>) =
            expr.terms().iter().partition(|term| term.coefficient() < 0);
        for term in positive.into_iter().chain(negative) {
            let coefficient = term.coefficient();
            let sign = match (out.is_empty(), coefficient < 0) {
                (true, true) => "-",
                (true, false) => "",
                (false, true) => " - ",
                (false, false) => " + ",
            };
            out.push_str(sign);
            if coefficient.unsigned_abs() != 1 {
                out.push_str(&self.constant(coefficient.unsigned_abs()));
                out.push_str(" * ");
            }
            let factors: Vec<String> =
                term.factors().iter().map(|atom| self.atom(helpers, atom, true)).collect();
            out.push_str(&factors.join(" * "));
        }
        let constant = expr.constant_part();
        match (out.is_empty(), constant) {
            (true, 1..) => return self.constant(constant.unsigned_abs()),
            (true, _) => return integer(constant, tight),
            (false, 0) => {}
            (false, 1..) => out.push_str(&format!(" + {}", self.constant(constant.unsigned_abs()))),
            (false, _) => out.push_str(&format!(" - {}", self.constant(constant.unsigned_abs()))),
        }
        match tight && out.contains(' ') {
            true => format!("({out})"),
            false => out,
        }
    }

    fn constant(&self, value: u64) -> String {
        if self.marks { marked(value) } else { value.to_string() }
    }

    fn atom(&self, helpers: &mut Helpers, atom: &Atom, tight: bool) -> String {
        let (a, b) = match (atom, atom.operands()) {
            (Atom::Symbol(symbol), _) => return (self.name)(*symbol),
            (_, Some(operands)) => operands,
            (_, None) => unreachable!("all atoms but symbols have operands"),
        };
        let plain = a.bounds(self.range).min >= 0 && b.bounds(self.range).min > 0;
        let sign = if matches!(atom, Atom::FloorDiv(..)) { "/" } else { "%" };
        let ty = if self.is_place { "ptrdiff_t" } else { "int64_t" };
        let function = match atom {
            Atom::FloorDiv(..) | Atom::Mod(..) if plain => {
                let a = self.text(helpers, a, true);
                let text = format!("{a} {sign} {}", self.text(helpers, b, true));
                return if tight { format!("({text})") } else { text };
            }
            Atom::FloorDiv(..) => helpers.floor_div(ty),
            Atom::Mod(..) => helpers.floor_mod(ty),
            Atom::Min(..) => helpers.index_extremum("min", "<", ty),
            Atom::Max(..) | Atom::Symbol(_) => helpers.index_extremum("max", ">", ty),
        };
        let a = self.text(helpers, a, false);
        format!("{function}({a}, {})", self.text(helpers, b, false))
    }
}

/// An integer, in parentheses if it is negative and `tight` is set.
pub(crate) fn integer(value: i64, tight: bool) -> String {
    match value {
        i64::MIN => "INT64_MIN".to_owned(),
        ..0 if tight => format!("({value})"),
        _ => value.to_string(),
    }
}
