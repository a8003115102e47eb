//! Reductions: the scalar functions that combine many elements into one.
//!
//! A reduction of no elements is its identity, and an identity combined with any element gives that
//! element (a sum's 0.0 turns -0.0 into 0.0, which is what sums do everywhere).

use std::fmt;

use crate::dtype::DType;
use crate::function::ScalarFunction;
use crate::scalar::Scalar;

/// How elements combine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reduction {
    /// The sum; numbers only.
    Sum,
    /// The product; numbers only.
    Product,
    /// The smallest, NaN if there is one; numbers and booleans.
    Min,
    /// The largest, NaN if there is one; numbers and booleans.
    Max,
    /// Bitwise or logical conjunction; integers and booleans.
    And,
    /// Bitwise or logical disjunction; integers and booleans.
    Or,
}

/// Name in text forms, and the function that combines two elements.
struct Row(Reduction, &'static str, ScalarFunction);

const TABLE: [Row; 6] = [
    Row(Reduction::Sum, "sum", ScalarFunction::Add),
    Row(Reduction::Product, "product", ScalarFunction::Mul),
    Row(Reduction::Min, "min", ScalarFunction::Min),
    Row(Reduction::Max, "max", ScalarFunction::Max),
    Row(Reduction::And, "and", ScalarFunction::And),
    Row(Reduction::Or, "or", ScalarFunction::Or),
];

impl Reduction {
    /// All reductions, in table order.
    pub fn all() -> impl Iterator<Item = Reduction> {
        TABLE.iter().map(|row| row.0)
    }

    /// The name in text forms.
    pub fn name(self) -> &'static str {
        TABLE[self as usize].1
    }

    /// The reduction with this name.
    pub fn from_name(name: &str) -> Option<Reduction> {
        TABLE.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// The function that combines two elements.
    pub fn as_function(self) -> ScalarFunction {
        TABLE[self as usize].2
    }

    /// Whether elements of this type can be reduced so.
    pub fn accepts(self, dtype: DType) -> bool {
        self.as_function().result_dtype(&[dtype; 2], None).is_ok()
    }

    /// The result of reducing nothing: 0, 1, the highest, the lowest, all bits set, 0.
    pub fn identity(self, dtype: DType) -> Scalar {
        match self {
            Reduction::Sum | Reduction::Or => Scalar::zero(dtype),
            Reduction::Product => Scalar::one(dtype),
            Reduction::Min => Scalar::highest(dtype),
            Reduction::Max => Scalar::lowest(dtype),
            Reduction::And => Scalar::from_bits(dtype, u64::MAX),
        }
    }

    /// Two partial results, of one type, as one.
    ///
    /// # Panics
    /// When the types differ.
    pub fn combine(self, a: Scalar, b: Scalar) -> Scalar {
        assert_eq!(a.dtype(), b.dtype(), "types of the partial results of a {self}");
        self.as_function().evaluate(a.dtype(), &[a, b])
    }
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_identities() {
        for (index, reduction) in Reduction::all().enumerate() {
            assert_eq!(reduction as usize, index);
            assert_eq!(Reduction::from_name(reduction.name()), Some(reduction));
            for dtype in DType::all().filter(|dtype| reduction.accepts(*dtype)) {
                if dtype == DType::F8E8M0 {
                    continue;
                }
                let identity = reduction.identity(dtype);
                for bits in 0..256 {
                    let value = Scalar::from_bits(dtype, bits);
                    if !value.is_nan() && value.as_f64() != 0.0 {
                        assert_eq!(
                            reduction.combine(identity, value),
                            value,
                            "{reduction} {dtype}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_nan_shows_in_min_and_max() {
        let (one, nan) = (Scalar::f32(1.0), Scalar::f32(f32::NAN));
        assert!(Reduction::Max.combine(one, nan).is_nan());
        assert!(Reduction::Min.combine(nan, one).is_nan());
        assert!(!Reduction::Sum.accepts(DType::Bool));
    }
}
