//! The data: expressions, terms and atoms, and the order that makes them canonical.
//!
//! Invariants: the terms of an [`Expr`] are sorted by their factors, which are distinct from term
//! to term; no coefficient is zero; the factors of a [`Term`] are sorted and there is at least one;
//! the operands of an [`Atom`] are canonical, and it cannot be folded (see `divide.rs`).
//!
//! A compile copies and adds up expressions a hundred thousand times, so what is common allocates
//! nothing: constants and lone factors are stored inline, terms and operands of atoms are shared.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::shared_list::SharedList;

base::define_id!(
    /// A symbol: a dimension, a loop variable. What it stands for is its owner's business.
    pub SymbolId,
    "s"
);

/// A symbolic integer: a constant plus a sum of terms, in canonical form.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Expr {
    pub(crate) constant: i64,
    pub(crate) terms: Terms,
}

/// The terms of an expression.
pub(crate) type Terms = SharedList<Term>;

/// A coefficient times a product of atoms.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Term {
    pub(crate) coefficient: i64,
    pub(crate) factors: Factors,
}

/// What terms multiply.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Atom {
    /// A symbol.
    Symbol(SymbolId),
    /// The quotient rounded towards minus infinity; undefined where the divisor is zero.
    FloorDiv(Arc<Expr>, Arc<Expr>),
    /// What [`Atom::FloorDiv`] leaves: it has the divisor's sign; undefined where that is zero.
    Mod(Arc<Expr>, Arc<Expr>),
    /// The smaller of two.
    Min(Arc<Expr>, Arc<Expr>),
    /// The larger of two.
    Max(Arc<Expr>, Arc<Expr>),
}

/// A sorted product of atoms, at least one; `Many` has at least two.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Factors {
    One(Atom),
    Many(Arc<[Atom]>),
}

impl Factors {
    pub(crate) fn as_slice(&self) -> &[Atom] {
        match self {
            Factors::One(atom) => std::slice::from_ref(atom),
            Factors::Many(atoms) => atoms,
        }
    }

    /// The product of these atoms, in any order; `None` for the empty product.
    pub(crate) fn from_atoms(mut atoms: Vec<Atom>) -> Option<Factors> {
        if atoms.len() > 1 {
            atoms.sort_by(Atom::structural_cmp);
            return Some(Factors::Many(atoms.into()));
        }
        atoms.pop().map(Factors::One)
    }

    pub(crate) fn times(&self, other: &Factors) -> Factors {
        let mut atoms = [self.as_slice(), other.as_slice()].concat();
        atoms.sort_by(Atom::structural_cmp);
        Factors::Many(atoms.into())
    }

    /// By degree, then atom by atom: linear terms stand first, in the order of their symbols.
    pub(crate) fn cmp(&self, other: &Factors) -> Ordering {
        let (left, right) = (self.as_slice(), other.as_slice());
        left.len().cmp(&right.len()).then_with(|| compare_all(left, right, Atom::structural_cmp))
    }
}

/// Of the constant, the coefficients and lone symbols: expressions that differ only further inside
/// are few.
impl Hash for Expr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_i64(self.constant);
        for term in &*self.terms {
            state.write_i64(term.coefficient);
            if let Factors::One(Atom::Symbol(symbol)) = &term.factors {
                symbol.hash(state);
            }
        }
    }
}

impl Term {
    /// The constant factor, never zero.
    pub fn coefficient(&self) -> i64 {
        self.coefficient
    }

    /// The atoms multiplied, sorted, at least one; a square stands as the same atom twice.
    pub fn factors(&self) -> &[Atom] {
        self.factors.as_slice()
    }

    /// The product of the factors, without the coefficient.
    pub fn product(&self) -> Expr {
        Expr::from(Term { coefficient: 1, factors: self.factors.clone() })
    }

    /// The symbol, where the term is a coefficient times a symbol.
    pub fn as_symbol(&self) -> Option<SymbolId> {
        match &self.factors {
            Factors::One(Atom::Symbol(symbol)) => Some(*symbol),
            _ => None,
        }
    }
}

impl Atom {
    /// A total order on structure, for sorting; it says nothing about values.
    pub fn structural_cmp(&self, other: &Atom) -> Ordering {
        match (self, other) {
            (Atom::Symbol(left), Atom::Symbol(right)) => left.cmp(right),
            _ => self.kind().cmp(&other.kind()).then_with(|| {
                let (left, right) = (self.operands(), other.operands());
                match (left, right) {
                    (Some((a, b)), Some((c, d))) => {
                        a.structural_cmp(c).then_with(|| b.structural_cmp(d))
                    }
                    _ => left.is_some().cmp(&right.is_some()),
                }
            }),
        }
    }

    /// The two operands, of all but a symbol.
    pub fn operands(&self) -> Option<(&Expr, &Expr)> {
        match self {
            Atom::Symbol(_) => None,
            Atom::FloorDiv(a, b) | Atom::Mod(a, b) | Atom::Min(a, b) | Atom::Max(a, b) => {
                Some((a, b))
            }
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Atom::Symbol(_) => 0,
            Atom::FloorDiv(..) => 1,
            Atom::Mod(..) => 2,
            Atom::Min(..) => 3,
            Atom::Max(..) => 4,
        }
    }
}

impl Expr {
    /// Zero.
    pub const ZERO: Expr = Expr::constant(0);

    /// One.
    pub const ONE: Expr = Expr::constant(1);

    /// A constant.
    pub const fn constant(value: i64) -> Expr {
        Expr { constant: value, terms: Terms::EMPTY }
    }

    /// A symbol.
    pub fn symbol(symbol: SymbolId) -> Expr {
        Expr::atom(Atom::Symbol(symbol))
    }

    /// An atom that cannot be folded, once.
    pub(crate) fn atom(atom: Atom) -> Expr {
        let term = Term { coefficient: 1, factors: Factors::One(atom) };
        Expr { constant: 0, terms: Terms::one(term) }
    }

    /// The atom, where the expression is nothing else.
    pub fn as_atom(&self) -> Option<&Atom> {
        match (self.constant, &self.terms[..]) {
            (0, [Term { coefficient: 1, factors: Factors::One(atom) }]) => Some(atom),
            _ => None,
        }
    }

    /// A total order on structure, for sorting; it says nothing about values.
    pub fn structural_cmp(&self, other: &Expr) -> Ordering {
        compare_all(&self.terms, &other.terms, |left, right| {
            left.factors.cmp(&right.factors).then(left.coefficient.cmp(&right.coefficient))
        })
        .then(self.constant.cmp(&other.constant))
    }
}

fn compare_all<T>(left: &[T], right: &[T], compare: impl Fn(&T, &T) -> Ordering) -> Ordering {
    let pairs = left.iter().zip(right);
    let first = pairs.map(|(a, b)| compare(a, b)).find(|order| order.is_ne());
    first.unwrap_or_else(|| left.len().cmp(&right.len()))
}

impl From<i64> for Expr {
    fn from(value: i64) -> Expr {
        Expr::constant(value)
    }
}

impl From<i32> for Expr {
    fn from(value: i32) -> Expr {
        Expr::constant(i64::from(value))
    }
}

/// Saturates above `i64::MAX`.
impl From<usize> for Expr {
    fn from(value: usize) -> Expr {
        Expr::constant(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<Term> for Expr {
    fn from(term: Term) -> Expr {
        Expr { constant: 0, terms: Terms::one(term) }
    }
}

impl From<SymbolId> for Expr {
    fn from(symbol: SymbolId) -> Expr {
        Expr::symbol(symbol)
    }
}
