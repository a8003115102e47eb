//! The part of a buffer that one iteration of a loop touches: a box with constant extents.
//!
//! Along each axis the region is `lower .. lower + extent`, where `lower` is an expression of
//! symbols bound outside the loop's body. An axis whose region cannot be found, or is not smaller
//! than the axis, is taken whole, which is always right.

use std::collections::BTreeSet;

use sym::{Atom, Expr, SymbolId, Term};

use crate::nest::SymbolRanges;

/// The region along one axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part {
    /// Every index.
    Whole,
    /// `extent` indices from `lower` on.
    Window {
        /// The first index.
        lower: Expr,
        /// How many.
        extent: i64,
    },
}

impl Part {
    /// The first index.
    pub(crate) fn lower(&self) -> Expr {
        match self {
            Part::Whole => Expr::ZERO,
            Part::Window { lower, .. } => lower.clone(),
        }
    }

    /// The extent of a buffer that holds the part, of an axis with this extent.
    pub(crate) fn extent(&self, whole: &Expr) -> Expr {
        match self {
            Part::Whole => whole.clone(),
            Part::Window { extent, .. } => Expr::constant(*extent),
        }
    }
}

/// The region that accesses with these indices touch. `inner` are the symbols bound in the body;
/// an index may lack the last axis (a fold), which is then taken whole.
pub(crate) fn region(
    ranges: &SymbolRanges,
    shape: &[Expr],
    indices: &[&[Expr]],
    inner: &BTreeSet<SymbolId>,
) -> Vec<Part> {
    let part = |axis: usize| {
        let exprs: Option<Vec<&Expr>> = indices.iter().map(|index| index.get(axis)).collect();
        let window = exprs.and_then(|exprs| window(ranges, &exprs, inner));
        match window {
            Some((lower, extent)) if smaller(ranges, extent, &shape[axis]) => {
                Part::Window { lower: ranges.simplify(&lower), extent }
            }
            _ => Part::Whole,
        }
    };
    (0..shape.len()).map(part).collect()
}

/// Whether a window has fewer elements than its axis, which is then worth the trouble.
fn smaller(ranges: &SymbolRanges, extent: i64, whole: &Expr) -> bool {
    match whole.as_constant() {
        Some(whole) => extent < whole,
        None => !ranges.less_equal(whole, &Expr::constant(extent)),
    }
}

/// The smallest window that holds all of these indices.
fn window(
    ranges: &SymbolRanges,
    exprs: &[&Expr],
    inner: &BTreeSet<SymbolId>,
) -> Option<(Expr, i64)> {
    let finder = Finder { ranges, inner };
    let (base, span) = finder.sum(exprs.first()?)?;
    let (mut first, mut last) = (0i64, span);
    for expr in &exprs[1..] {
        let (lower, span) = finder.sum(expr)?;
        let offset = ranges.bounds(&ranges.simplify(&(&lower - &base)));
        if offset.min == i64::MIN || offset.max == i64::MAX {
            return None;
        }
        first = first.min(offset.min);
        last = last.max(offset.max.checked_add(span)?);
    }
    Some((base + first, last.checked_sub(first)?.checked_add(1)?))
}

/// Finds `(lower, span)` with `lower <= expr <= lower + span`, where `lower` is free of inner
/// symbols.
struct Finder<'a> {
    ranges: &'a SymbolRanges,
    inner: &'a BTreeSet<SymbolId>,
}

impl Finder<'_> {
    fn sum(&self, expr: &Expr) -> Option<(Expr, i64)> {
        let mut lower = Expr::constant(expr.constant_part());
        let mut span = 0i64;
        for term in expr.terms() {
            let (low, wide) = self.term(term)?;
            let coefficient = term.coefficient();
            let reach = wide.checked_mul(coefficient.checked_abs()?)?;
            lower += &(&low * coefficient);
            if coefficient < 0 {
                lower -= reach;
            }
            span = span.checked_add(reach)?;
        }
        Some((lower, span))
    }

    /// As [`Finder::sum`], for the product of a term's factors.
    fn term(&self, term: &Term) -> Option<(Expr, i64)> {
        let whole = term.product();
        if !whole.symbols().iter().any(|symbol| self.inner.contains(symbol)) {
            return Some((whole, 0));
        }
        if let [atom] = term.factors()
            && let Some(found) = self.atom(atom)
        {
            return Some(found);
        }
        let bounds = self.ranges.bounds(&whole);
        let bounded = bounds.min != i64::MIN && bounds.max != i64::MAX;
        bounded.then(|| (Expr::constant(bounds.min), bounds.max.saturating_sub(bounds.min).max(0)))
    }

    fn atom(&self, atom: &Atom) -> Option<(Expr, i64)> {
        match atom {
            Atom::FloorDiv(a, b) => {
                let divisor = b.as_constant().filter(|divisor| *divisor > 0)?;
                let (low, span) = self.sum(a)?;
                let quotient = low.floor_div(b);
                let span = match low.divisible_by(divisor) {
                    true => span / divisor,
                    false => span.checked_add(divisor - 1)? / divisor,
                };
                Some((quotient, span))
            }
            Atom::Min(a, b) | Atom::Max(a, b) => {
                let ((a, first), (b, second)) = (self.sum(a)?, self.sum(b)?);
                let low = match atom {
                    Atom::Min(..) => Expr::min(&a, &b),
                    _ => Expr::max(&a, &b),
                };
                Some((low, first.max(second)))
            }
            Atom::Symbol(_) | Atom::Mod(..) => None,
        }
    }
}
