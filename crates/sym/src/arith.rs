//! Sums and products, by merging sorted terms. Coefficients saturate.

use std::iter::{Product, Sum};
use std::ops::{Add, AddAssign, Mul, Neg, Sub, SubAssign};

use crate::expr::{Expr, Factors, Term};

impl Expr {
    /// Adds `scale` times `factors`.
    pub(crate) fn add_term(&mut self, scale: i64, factors: &Factors) {
        if scale == 0 {
            return;
        }
        match self.terms.binary_search_by(|term| term.factors.cmp(factors)) {
            Ok(index) => {
                let coefficient = self.terms[index].coefficient.saturating_add(scale);
                if coefficient == 0 {
                    self.terms.remove(index);
                } else {
                    self.terms.edit()[index].coefficient = coefficient;
                }
            }
            Err(index) => {
                let term = Term { coefficient: scale, factors: factors.clone() };
                self.terms.insert(index, term);
            }
        }
    }

    /// Adds `scale` times `other`.
    pub fn add_scaled(&mut self, other: &Expr, scale: i64) {
        self.constant = self.constant.saturating_add(other.constant.saturating_mul(scale));
        if self.terms.is_empty() && scale != 0 {
            self.terms = other.clone().terms;
            self.scale_terms(scale);
            return;
        }
        for term in &*other.terms {
            self.add_term(term.coefficient.saturating_mul(scale), &term.factors);
        }
    }

    /// Multiplies by a constant in place.
    pub(crate) fn scale(&mut self, factor: i64) {
        if factor == 0 {
            self.terms.clear();
        }
        self.constant = self.constant.saturating_mul(factor);
        self.scale_terms(factor);
    }

    /// Multiplies the terms by a constant other than 0; by 1 they stay shared.
    fn scale_terms(&mut self, factor: i64) {
        if factor != 1 {
            for term in self.terms.edit() {
                term.coefficient = term.coefficient.saturating_mul(factor);
            }
        }
    }

    /// Divides every coefficient exactly, the constant rounding down; `divisor` is positive.
    pub(crate) fn shrink(&mut self, divisor: i64) {
        self.constant = self.constant.div_euclid(divisor);
        for term in self.terms.edit() {
            term.coefficient /= divisor;
        }
    }

    fn product(&self, other: &Expr) -> Expr {
        let (many, few) =
            if self.terms.len() < other.terms.len() { (other, self) } else { (self, other) };
        let mut result = many.clone();
        result.scale(few.constant);
        for term in &*few.terms {
            result.add_term(term.coefficient.saturating_mul(many.constant), &term.factors);
            for other in &*many.terms {
                let coefficient = term.coefficient.saturating_mul(other.coefficient);
                result.add_term(coefficient, &term.factors.times(&other.factors));
            }
        }
        result
    }
}

impl AddAssign<&Expr> for Expr {
    fn add_assign(&mut self, other: &Expr) {
        self.add_scaled(other, 1);
    }
}

impl AddAssign<i64> for Expr {
    fn add_assign(&mut self, other: i64) {
        self.constant = self.constant.saturating_add(other);
    }
}

impl SubAssign<&Expr> for Expr {
    fn sub_assign(&mut self, other: &Expr) {
        self.add_scaled(other, -1);
    }
}

impl SubAssign<i64> for Expr {
    fn sub_assign(&mut self, other: i64) {
        self.constant = self.constant.saturating_sub(other);
    }
}

impl Add<&Expr> for Expr {
    type Output = Expr;
    fn add(mut self, other: &Expr) -> Expr {
        self += other;
        self
    }
}

impl Sub<&Expr> for Expr {
    type Output = Expr;
    fn sub(mut self, other: &Expr) -> Expr {
        self -= other;
        self
    }
}

impl Mul<&Expr> for Expr {
    type Output = Expr;
    fn mul(mut self, other: &Expr) -> Expr {
        if let Some(factor) = other.as_constant() {
            self.scale(factor);
            return self;
        }
        self.product(other)
    }
}

impl Add<i64> for Expr {
    type Output = Expr;
    fn add(mut self, other: i64) -> Expr {
        self += other;
        self
    }
}

impl Sub<i64> for Expr {
    type Output = Expr;
    fn sub(mut self, other: i64) -> Expr {
        self -= other;
        self
    }
}

impl Mul<i64> for Expr {
    type Output = Expr;
    fn mul(mut self, other: i64) -> Expr {
        self.scale(other);
        self
    }
}

/// The other pairings of owned and borrowed operands, by way of the ones above.
macro_rules! pairings {
    ($($trait:ident $method:ident),*) => {$(
        impl $trait<Expr> for Expr {
            type Output = Expr;
            fn $method(self, other: Expr) -> Expr {
                $trait::$method(self, &other)
            }
        }

        impl $trait<Expr> for &Expr {
            type Output = Expr;
            fn $method(self, other: Expr) -> Expr {
                $trait::$method(self.clone(), &other)
            }
        }

        impl $trait<&Expr> for &Expr {
            type Output = Expr;
            fn $method(self, other: &Expr) -> Expr {
                $trait::$method(self.clone(), other)
            }
        }

        impl $trait<i64> for &Expr {
            type Output = Expr;
            fn $method(self, other: i64) -> Expr {
                $trait::$method(self.clone(), other)
            }
        }
    )*};
}

pairings!(Add add, Sub sub, Mul mul);

impl Neg for Expr {
    type Output = Expr;
    fn neg(mut self) -> Expr {
        self.scale(-1);
        self
    }
}

impl Neg for &Expr {
    type Output = Expr;
    fn neg(self) -> Expr {
        -self.clone()
    }
}

impl Sum for Expr {
    fn sum<I: Iterator<Item = Expr>>(items: I) -> Expr {
        items.fold(Expr::ZERO, |sum, item| sum + &item)
    }
}

impl<'a> Sum<&'a Expr> for Expr {
    fn sum<I: Iterator<Item = &'a Expr>>(items: I) -> Expr {
        items.fold(Expr::ZERO, |sum, item| sum + item)
    }
}

impl Product for Expr {
    fn product<I: Iterator<Item = Expr>>(items: I) -> Expr {
        items.fold(Expr::ONE, |product, item| product * &item)
    }
}

impl<'a> Product<&'a Expr> for Expr {
    fn product<I: Iterator<Item = &'a Expr>>(items: I) -> Expr {
        items.fold(Expr::ONE, |product, item| product * item)
    }
}
