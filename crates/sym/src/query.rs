//! Questions about an expression, substitution and evaluation.

use std::sync::Arc;

use crate::divide::{floor_div_saturating, gcd, modulo_of_constants};
use crate::expr::{Atom, Expr, Factors, SymbolId, Term};

impl Expr {
    /// How deep divisions and their like may stand inside each other in an expression that is
    /// looked at: that takes as long as it is deep, and stack.
    pub const MOST_NESTED: usize = 128;

    /// The value, where it is a constant.
    #[inline]
    pub fn as_constant(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// The symbol, where the expression is nothing else.
    #[inline]
    pub fn as_symbol(&self) -> Option<SymbolId> {
        match self.as_atom() {
            Some(Atom::Symbol(symbol)) => Some(*symbol),
            _ => None,
        }
    }

    /// Whether it is the constant 0.
    #[inline]
    pub fn is_zero(&self) -> bool {
        self.as_constant() == Some(0)
    }

    /// Whether it is the constant 1.
    #[inline]
    pub fn is_one(&self) -> bool {
        self.as_constant() == Some(1)
    }

    /// A product as its coefficient and its factors; none of a sum.
    pub(crate) fn as_monomial(&self) -> Option<(i64, &[Atom])> {
        match (&self.terms[..], self.constant) {
            ([], constant) => Some((constant, &[])),
            ([term], 0) => Some((term.coefficient, term.factors())),
            _ => None,
        }
    }

    /// The constant that is added to the terms.
    pub fn constant_part(&self) -> i64 {
        self.constant
    }

    /// The terms, sorted: linear ones first, by symbol.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// All symbols that occur, also within atoms, sorted, each once.
    pub fn symbols(&self) -> Vec<SymbolId> {
        let mut found = Vec::new();
        self.any_symbol(&mut |symbol| {
            found.push(symbol);
            false
        });
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Whether the symbol occurs, also within atoms.
    pub fn contains(&self, symbol: SymbolId) -> bool {
        self.any_symbol(&mut |other| other == symbol)
    }

    /// Visits every occurrence of a symbol, also within atoms, until `visit` says true; whether it
    /// did.
    pub fn any_symbol(&self, visit: &mut dyn FnMut(SymbolId) -> bool) -> bool {
        self.terms.iter().any(|term| match &term.factors {
            Factors::One(Atom::Symbol(symbol)) => visit(*symbol),
            factors => factors.as_slice().iter().any(|atom| atom.any_symbol(visit)),
        })
    }

    /// How many quotients and remainders it takes.
    pub fn quotients(&self) -> usize {
        let of_atom = |atom: &Atom| match atom {
            Atom::Symbol(_) => 0,
            Atom::FloorDiv(a, b) | Atom::Mod(a, b) => 1 + a.quotients() + b.quotients(),
            Atom::Min(a, b) | Atom::Max(a, b) => a.quotients() + b.quotients(),
        };
        self.terms.iter().flat_map(Term::factors).map(of_atom).sum()
    }

    /// Whether divisions, remainders, minima and maxima stand inside each other deeper than `most`.
    pub fn is_nested_deeper(&self, most: usize) -> bool {
        self.terms.iter().flat_map(|term| term.factors()).any(|atom| match atom.operands() {
            None => false,
            Some((a, b)) => match most.checked_sub(1) {
                None => true,
                Some(most) => a.is_nested_deeper(most) || b.is_nested_deeper(most),
            },
        })
    }

    /// Whether it has more factors in a product, symbols in all or operations inside each other
    /// than any model needs, so that what grows with each use would outgrow all memory.
    pub fn is_too_long(&self) -> bool {
        const MOST_FACTORS: usize = 64;
        const MOST_SYMBOLS: usize = 1 << 12;
        let mut symbols = 0;
        let has_many = self.any_symbol(&mut |_| {
            symbols += 1;
            symbols > MOST_SYMBOLS
        });
        has_many
            || self.terms.iter().any(|term| term.factors().len() > MOST_FACTORS)
            || self.is_nested_deeper(Expr::MOST_NESTED)
    }

    /// `c` where the expression is `c * symbol + rest` and the rest is free of the symbol, so 0
    /// where it does not occur; `None` where it occurs in a product or within another atom.
    pub fn linear_coefficient(&self, symbol: SymbolId) -> Option<i64> {
        let mut coefficient = 0;
        for term in &*self.terms {
            if term.as_symbol() == Some(symbol) {
                coefficient = term.coefficient;
            } else if term.factors().iter().any(|atom| atom.contains(symbol)) {
                return None;
            }
        }
        Some(coefficient)
    }

    /// The expression less its term `c * symbol`; other occurrences of the symbol stay.
    pub fn without(&self, symbol: SymbolId) -> Expr {
        let mut rest = self.clone();
        rest.terms.retain(|term| term.as_symbol() != Some(symbol));
        rest
    }

    /// The value where every symbol has its usual one ([`crate::Symbol::usual`]); 1 where there is
    /// none.
    pub fn usual(&self, values: &dyn Fn(SymbolId) -> i64) -> i64 {
        self.evaluate(&|symbol| Some(values(symbol))).unwrap_or(1)
    }

    /// Whether every value is provably a multiple of `divisor`; of 0 only 0 is.
    pub fn divisible_by(&self, divisor: i64) -> bool {
        match divisor {
            0 => self.is_zero(),
            _ => modulo_of_constants(self.known_divisor(), divisor) == 0,
        }
    }

    /// The largest number known to divide every value; 0 for zero.
    pub fn known_divisor(&self) -> i64 {
        self.terms.iter().fold(gcd(self.constant, 0), |all, term| gcd(all, term.known_divisor()))
    }

    /// Puts expressions in the place of symbols, all at once, and canonicalises the result.
    pub fn substitute(&self, replace: &mut dyn FnMut(SymbolId) -> Option<Expr>) -> Expr {
        if let Some(symbol) = self.as_symbol() {
            return replace(symbol).unwrap_or_else(|| self.clone());
        }
        let mut result = Expr::constant(self.constant);
        for term in &*self.terms {
            let mut product: Option<Expr> = None;
            for atom in term.factors() {
                let factor = match atom {
                    Atom::Symbol(symbol) => match replace(*symbol) {
                        Some(expr) => expr,
                        None if matches!(term.factors, Factors::One(_)) => {
                            result.add_term(term.coefficient, &term.factors);
                            continue;
                        }
                        None => Expr::symbol(*symbol),
                    },
                    _ => atom.map_operands(&mut |operand| operand.substitute(replace)),
                };
                product = Some(match product {
                    Some(product) => product * &factor,
                    None => factor,
                });
            }
            if let Some(product) = product {
                result.add_scaled(&product, term.coefficient);
            }
        }
        result
    }

    /// Gives symbols other names, each its own.
    pub fn rename(&mut self, name: &dyn Fn(SymbolId) -> SymbolId) {
        if !self.terms.iter().all(Term::keeps_form) {
            *self = self.substitute(&mut |symbol| Some(Expr::symbol(name(symbol))));
            return;
        }
        for term in self.terms.edit() {
            match &mut term.factors {
                Factors::One(Atom::Symbol(symbol)) => *symbol = name(*symbol),
                Factors::One(Atom::FloorDiv(dividend, _) | Atom::Mod(dividend, _)) => {
                    Arc::make_mut(dividend).rename(name);
                }
                Factors::One(Atom::Min(..) | Atom::Max(..)) | Factors::Many(_) => {}
            }
        }
        if !self.terms.is_sorted_by(|one, other| one.factors.cmp(&other.factors).is_le()) {
            self.terms.edit().sort_by(|one, other| one.factors.cmp(&other.factors));
        }
    }

    /// The value, given those of the symbols; `None` where one is missing, a divisor is zero or a
    /// number leaves `i64` (sums are formed in 128 bits, so only whole sums and products count).
    pub fn evaluate(&self, value: &dyn Fn(SymbolId) -> Option<i64>) -> Option<i64> {
        match &self.terms[..] {
            [] => return Some(self.constant),
            [Term { coefficient: 1, factors: Factors::One(atom) }] if self.constant == 0 => {
                return atom.evaluate(value);
            }
            _ => {}
        }
        let mut sum = i128::from(self.constant);
        for term in &*self.terms {
            let mut product = i128::from(term.coefficient);
            for atom in term.factors() {
                product = product.checked_mul(i128::from(atom.evaluate(value)?))?;
            }
            sum = sum.checked_add(product)?;
        }
        i64::try_from(sum).ok()
    }
}

impl Term {
    /// Whether new names change at most the order of terms: what a constant divides is folded the
    /// same way whatever its symbols are called.
    fn keeps_form(&self) -> bool {
        match &self.factors {
            Factors::One(Atom::Symbol(_)) => true,
            Factors::One(Atom::FloorDiv(dividend, divisor) | Atom::Mod(dividend, divisor)) => {
                divisor.as_constant().is_some() && dividend.terms.iter().all(Term::keeps_form)
            }
            Factors::One(Atom::Min(..) | Atom::Max(..)) | Factors::Many(_) => false,
        }
    }

    fn known_divisor(&self) -> i64 {
        let whole = self.factors().iter().try_fold(gcd(self.coefficient, 0), |product, atom| {
            let divisor = match atom {
                Atom::Symbol(_) | Atom::FloorDiv(..) => 1,
                Atom::Mod(a, b) | Atom::Min(a, b) | Atom::Max(a, b) => {
                    gcd(a.known_divisor(), b.known_divisor())
                }
            };
            product.checked_mul(divisor)
        });
        whole.unwrap_or_else(|| gcd(self.coefficient, 0))
    }
}

impl Atom {
    /// Whether the symbol occurs in it.
    pub fn contains(&self, symbol: SymbolId) -> bool {
        self.any_symbol(&mut |other| other == symbol)
    }

    fn any_symbol(&self, visit: &mut dyn FnMut(SymbolId) -> bool) -> bool {
        match (self, self.operands()) {
            (Atom::Symbol(symbol), _) => visit(*symbol),
            (_, Some((a, b))) => a.any_symbol(visit) || b.any_symbol(visit),
            (_, None) => false,
        }
    }

    /// The same operation on other operands, folded; a symbol stays.
    pub(crate) fn map_operands(&self, map: &mut dyn FnMut(&Expr) -> Expr) -> Expr {
        match self {
            Atom::Symbol(symbol) => Expr::symbol(*symbol),
            Atom::FloorDiv(a, b) => map(a).floor_div(&map(b)),
            Atom::Mod(a, b) => map(a).modulo(&map(b)),
            Atom::Min(a, b) => Expr::min(&map(a), &map(b)),
            Atom::Max(a, b) => Expr::max(&map(a), &map(b)),
        }
    }

    fn evaluate(&self, value: &dyn Fn(SymbolId) -> Option<i64>) -> Option<i64> {
        let (a, b) = match (self, self.operands()) {
            (Atom::Symbol(symbol), _) => return value(*symbol),
            (_, operands) => operands?,
        };
        let (a, b) = (a.evaluate(value)?, b.evaluate(value)?);
        match self {
            Atom::FloorDiv(..) if b == 0 || (a, b) == (i64::MIN, -1) => None,
            Atom::Mod(..) if b == 0 => None,
            Atom::FloorDiv(..) => Some(floor_div_saturating(a, b)),
            Atom::Mod(..) => Some(modulo_of_constants(a, b)),
            Atom::Min(..) => Some(a.min(b)),
            Atom::Max(..) | Atom::Symbol(_) => Some(a.max(b)),
        }
    }
}
