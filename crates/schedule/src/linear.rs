//! Index expressions as linear forms over unknowns, for dependence tests.
//!
//! An unknown is a digit of a loop variable or something opaque. Where indices hold `f div c` and
//! `f mod c`, the variable `f` is written in mixed radix, `f = digit0 + c * digit1`, so that
//! quotients and remainders are linear too; a variable without quotients has one digit, itself.
//! Anything else (products of symbols, minima, quotients of sums) is an opaque unknown with a
//! range.
//!
//! Invariant: digits of one variable compare as the variable does, the last digit first.

use std::collections::{BTreeMap, BTreeSet};

use smallvec::SmallVec;
use sym::{Atom, Expr, Range, SymbolId, Term};

use crate::nest::SymbolRanges;

/// What a linear form is linear in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Unknown {
    /// A digit of a loop variable, the finest first.
    Digit(SymbolId, usize),
    /// A product of atoms, by its position in [`Space::opaque`].
    Opaque(usize),
}

/// A constant plus coefficients times unknowns; no coefficient is zero.
#[derive(Clone, Debug, Default)]
pub(crate) struct Linear {
    pub(crate) constant: i128,
    /// Each unknown once, in no order.
    pub(crate) terms: SmallVec<[(Unknown, i128); 4]>,
}

impl Linear {
    fn add(&mut self, unknown: Unknown, coefficient: i128) {
        match self.terms.iter_mut().position(|(known, _)| *known == unknown) {
            Some(at) if self.terms[at].1 == -coefficient => _ = self.terms.swap_remove(at),
            Some(at) => self.terms[at].1 += coefficient,
            None if coefficient == 0 => {}
            None => self.terms.push((unknown, coefficient)),
        }
    }

    /// What an unknown is multiplied by.
    pub(crate) fn coefficient(&self, unknown: Unknown) -> i128 {
        let found = self.terms.iter().find(|(known, _)| *known == unknown);
        found.map_or(0, |(_, coefficient)| *coefficient)
    }
}

/// The unknowns of a set of index expressions.
pub(crate) struct Space<'a> {
    ranges: &'a SymbolRanges,
    /// For each loop variable that is divided: the divisors, each a multiple of the one before.
    radices: BTreeMap<SymbolId, Vec<i64>>,
    /// The opaque unknowns met so far.
    opaque: Vec<Term>,
}

impl<'a> Space<'a> {
    /// The unknowns of these expressions.
    pub(crate) fn new<'e>(
        ranges: &'a SymbolRanges,
        exprs: impl IntoIterator<Item = &'e Expr>,
    ) -> Space<'a> {
        let mut divisors: BTreeMap<SymbolId, BTreeSet<i64>> = BTreeMap::new();
        for expr in exprs {
            collect_divisors(expr, &mut divisors);
        }
        let mut radices = BTreeMap::new();
        for (symbol, divisors) in divisors {
            let divisors: Vec<i64> = divisors.into_iter().collect();
            let is_chain = divisors.windows(2).all(|pair| pair[1] % pair[0] == 0);
            if is_chain && ranges.get(symbol).min >= 0 {
                radices.insert(symbol, divisors);
            }
        }
        Space { ranges, radices, opaque: Vec::new() }
    }

    /// The number of digits of a loop variable.
    pub(crate) fn digits(&self, symbol: SymbolId) -> usize {
        self.radices.get(&symbol).map_or(1, |divisors| divisors.len() + 1)
    }

    /// What one step of a digit adds to its variable.
    fn weight(&self, symbol: SymbolId, digit: usize) -> i64 {
        if digit == 0 { 1 } else { self.radices[&symbol][digit - 1] }
    }

    /// The values an unknown takes.
    pub(crate) fn range(&self, unknown: Unknown) -> Range {
        match unknown {
            Unknown::Opaque(index) => self.ranges.bounds(&self.opaque[index].product()),
            Unknown::Digit(symbol, digit) => {
                let range = self.ranges.get(symbol);
                let Some(divisors) = self.radices.get(&symbol) else { return range };
                let weight = self.weight(symbol, digit);
                let last = match range.max {
                    i64::MAX => i64::MAX,
                    max => max / weight,
                };
                let own = divisors.get(digit).map_or(i64::MAX, |above| above / weight - 1);
                Range::new(0, last.min(own))
            }
        }
    }

    /// Whether this holds of a symbol that an unknown depends on.
    pub(crate) fn any_symbol(
        &self,
        unknown: Unknown,
        mut holds: impl FnMut(SymbolId) -> bool,
    ) -> bool {
        match unknown {
            Unknown::Digit(symbol, _) => holds(symbol),
            Unknown::Opaque(index) => self.opaque[index].product().any_symbol(&mut holds),
        }
    }

    /// An expression as a linear form.
    pub(crate) fn linear(&mut self, expr: &Expr) -> Linear {
        let mut result =
            Linear { constant: i128::from(expr.constant_part()), terms: SmallVec::new() };
        for term in expr.terms() {
            let coefficient = i128::from(term.coefficient());
            match term.factors() {
                [atom] => match self.digits_of(atom) {
                    Some(digits) => {
                        for (unknown, weight) in digits {
                            result.add(unknown, coefficient * weight);
                        }
                    }
                    None => result.add(self.opaque_unknown(term), coefficient),
                },
                _ => result.add(self.opaque_unknown(term), coefficient),
            }
        }
        result
    }

    /// The opaque unknown of a term's factors.
    fn opaque_unknown(&mut self, term: &Term) -> Unknown {
        let same = |other: &Term| other.factors() == term.factors();
        let index = self.opaque.iter().position(same).unwrap_or_else(|| {
            self.opaque.push(term.clone());
            self.opaque.len() - 1
        });
        Unknown::Opaque(index)
    }

    /// An atom as a sum of digits with weights.
    fn digits_of(&self, atom: &Atom) -> Option<SmallVec<[(Unknown, i128); 2]>> {
        let (symbol, low, high) = digit_span(atom)?;
        let divisors = self.radices.get(&symbol);
        let position = |divisor: i64| match divisor {
            1 => Some(0),
            _ => divisors?.iter().position(|d| *d == divisor).map(|p| p + 1),
        };
        let first = position(low)?;
        let end = match high {
            Some(high) => position(high)?,
            None => self.digits(symbol),
        };
        let weight = |digit| i128::from(self.weight(symbol, digit) / low);
        Some((first..end).map(|digit| (Unknown::Digit(symbol, digit), weight(digit))).collect())
    }
}

/// `(f, low, high)` where the atom is `(f mod high) div low`, a missing `high` meaning no `mod`.
fn digit_span(atom: &Atom) -> Option<(SymbolId, i64, Option<i64>)> {
    let positive = |expr: &Expr| expr.as_constant().filter(|value| *value > 0);
    match atom {
        Atom::Symbol(symbol) => Some((*symbol, 1, None)),
        Atom::FloorDiv(a, b) => Some((a.as_symbol()?, positive(b)?, None)),
        Atom::Mod(a, b) => match a.as_atom()? {
            Atom::Symbol(symbol) => Some((*symbol, 1, Some(positive(b)?))),
            Atom::FloorDiv(inner, low) => {
                let low = positive(low)?;
                Some((inner.as_symbol()?, low, Some(low.checked_mul(positive(b)?)?)))
            }
            _ => None,
        },
        Atom::Min(..) | Atom::Max(..) => None,
    }
}

fn collect_divisors(expr: &Expr, divisors: &mut BTreeMap<SymbolId, BTreeSet<i64>>) {
    for atom in expr.terms().iter().flat_map(Term::factors) {
        if let Some((symbol, low, high)) = digit_span(atom) {
            let proper = [Some(low), high].into_iter().flatten().filter(|divisor| *divisor > 1);
            let mut proper = proper.peekable();
            if proper.peek().is_some() {
                divisors.entry(symbol).or_default().extend(proper);
            }
        } else if let Some((a, b)) = atom.operands() {
            collect_divisors(a, divisors);
            collect_divisors(b, divisors);
        }
    }
}
