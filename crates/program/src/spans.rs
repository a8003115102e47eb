//! The bytes that have been written so far, for the verifier.
//!
//! A [`Span`] is a piece of one region of memory. Spans of constant ends are kept as disjoint
//! intervals; the others as they came.

use std::collections::BTreeMap;

use base::ConstantId;
use sym::{Expr, Range, SymbolId, proves_less_equal};

/// Memory that is apart from all other regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Region {
    Input(u32),
    Output(u32),
    Weight(ConstantId),
    Constants,
    Arena,
}

/// Bytes `start..end` of a region.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) region: Region,
    pub(crate) start: Expr,
    pub(crate) end: Expr,
}

/// A set of bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spans {
    /// Start to end; disjoint, and no two touch.
    constant: BTreeMap<(Region, i64), i64>,
    symbolic: Vec<Span>,
}

impl Spans {
    /// Adds bytes.
    pub(crate) fn insert(&mut self, span: Span) {
        let (Some(mut start), Some(mut end)) = (span.start.as_constant(), span.end.as_constant())
        else {
            return self.symbolic.push(span);
        };
        if start >= end {
            return;
        }
        let region = span.region;
        let before = self.constant.range((region, i64::MIN)..=(region, end)).rev();
        let met: Vec<(i64, i64)> =
            before.map(|((_, from), to)| (*from, *to)).take_while(|(_, to)| *to >= start).collect();
        for (from, to) in met {
            self.constant.remove(&(region, from));
            (start, end) = (start.min(from), end.max(to));
        }
        self.constant.insert((region, start), end);
    }

    /// Whether a byte of the span may be in the set; false only if provably none is.
    pub(crate) fn may_meet(&self, span: &Span, ranges: &dyn Fn(SymbolId) -> Range) -> bool {
        let disjoint = |start: &Expr, end: &Expr| {
            proves_less_equal(&span.end, start, ranges)
                || proves_less_equal(end, &span.start, ranges)
        };
        let region = span.region;
        let symbolic = self.symbolic.iter().filter(|other| other.region == region);
        if symbolic.into_iter().any(|other| !disjoint(&other.start, &other.end)) {
            return true;
        }
        let bounds = (span.start.bounds(ranges).min, span.end.bounds(ranges).max);
        let before = self.constant.range((region, i64::MIN)..(region, bounds.1)).next_back();
        before.is_some_and(|(_, end)| *end > bounds.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start: i64, end: i64) -> Span {
        Span { region: Region::Arena, start: start.into(), end: end.into() }
    }

    #[test]
    fn intervals_grow_together() {
        let mut spans = Spans::default();
        for (start, end) in [(0, 4), (8, 12), (20, 24), (4, 8), (30, 30)] {
            spans.insert(span(start, end));
        }
        let ends: Vec<(i64, i64)> = spans.constant.iter().map(|((_, a), b)| (*a, *b)).collect();
        assert_eq!(ends, [(0, 12), (20, 24)]);
        let ranges = |_: SymbolId| Range::ALL;
        for (start, end, meets) in
            [(11, 13, true), (12, 20, false), (12, 21, true), (24, 99, false)]
        {
            assert_eq!(spans.may_meet(&span(start, end), &ranges), meets, "{start}..{end}");
        }
    }
}
