//! Rational numbers, exact, for matrices of a few small entries.

use std::ops::{Add, Div, Mul, Neg, Sub};

/// A fraction in lowest terms, its denominator positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rational {
    numerator: i128,
    denominator: i128,
}

impl Rational {
    pub(super) const ZERO: Rational = Rational { numerator: 0, denominator: 1 };
    pub(super) const ONE: Rational = Rational { numerator: 1, denominator: 1 };

    /// `numerator / denominator`.
    ///
    /// # Panics
    /// If the denominator is zero.
    pub(super) fn new(numerator: i128, denominator: i128) -> Rational {
        assert_ne!(denominator, 0, "a fraction has a denominator");
        let divisor = gcd(numerator.abs(), denominator.abs()) * denominator.signum();
        Rational { numerator: numerator / divisor, denominator: denominator / divisor }
    }

    pub(super) fn is_zero(self) -> bool {
        self.numerator == 0
    }

    /// The integer that it is, if it is one.
    pub(super) fn as_integer(self) -> Option<i64> {
        (self.denominator == 1).then(|| i64::try_from(self.numerator).ok()).flatten()
    }

    /// Its denominator in lowest terms.
    pub(super) fn denominator(self) -> i128 {
        self.denominator
    }

    /// The nearest f64.
    pub(super) fn to_f64(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }
}

/// The greatest number that divides both.
pub(super) fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Add for Rational {
    type Output = Rational;
    fn add(self, other: Rational) -> Rational {
        let numerator = self.numerator * other.denominator + other.numerator * self.denominator;
        Rational::new(numerator, self.denominator * other.denominator)
    }
}

impl Sub for Rational {
    type Output = Rational;
    fn sub(self, other: Rational) -> Rational {
        self + -other
    }
}

impl Mul for Rational {
    type Output = Rational;
    fn mul(self, other: Rational) -> Rational {
        Rational::new(self.numerator * other.numerator, self.denominator * other.denominator)
    }
}

impl Div for Rational {
    type Output = Rational;
    fn div(self, other: Rational) -> Rational {
        Rational::new(self.numerator * other.denominator, self.denominator * other.numerator)
    }
}

impl Neg for Rational {
    type Output = Rational;
    fn neg(self) -> Rational {
        Rational { numerator: -self.numerator, denominator: self.denominator }
    }
}
