//! Tolerant comparison of a tensor with what it should be.
//!
//! Element i agrees when `|a - b| <= atol + rtol |b|`, `b` the expected one. A NaN agrees with a
//! NaN, an infinity with the same infinity; nothing else about them does. Integers are subtracted
//! exactly.

use std::fmt;

use crate::dtype::DType;
use crate::minifloat::Format;
use crate::tensor::Tensor;

/// How a tensor differs from the expected one.
#[derive(Clone, Debug, PartialEq)]
pub struct Deviation {
    /// Set when type or shape differ, in which case no element was compared.
    pub type_error: Option<String>,
    /// The number of elements compared.
    pub elements: usize,
    /// The largest |a - b|; infinite if a NaN or infinity disagrees.
    pub max_abs: f64,
    /// The largest |a - b| / |b|, over elements whose `b` is not zero.
    pub max_rel: f64,
    /// ||a - b|| / ||b|| in the Euclidean norm over the finite elements of `b`; 0 when both are
    /// zero.
    pub relative_l2: f64,
    /// The number of elements that disagree.
    pub mismatches: usize,
    /// The row-major index of the first element that disagrees, and both texts.
    pub first_mismatch: Option<Mismatch>,
}

/// An element that is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Row-major index.
    pub index: usize,
    /// The index on each axis.
    pub position: Vec<usize>,
    /// The element, as text.
    pub actual: String,
    /// What it should be, as text.
    pub expected: String,
}

impl Deviation {
    /// Whether type, shape and all elements agree.
    pub fn passed(&self) -> bool {
        self.type_error.is_none() && self.mismatches == 0
    }
}

/// Compares element by element: relative tolerance `rtol` (of the expected value) plus absolute
/// tolerance `atol`. Both 0 asks for equal values.
pub fn compare(actual: &Tensor, expected: &Tensor, rtol: f64, atol: f64) -> Deviation {
    compare_within(actual, expected, |_, b| if b.is_finite() { atol + rtol * b.abs() } else { 0.0 })
}

/// Compares element by element: `|a - b|` is at most what is `allowed`, by the row-major index and
/// by `b`. What is allowed to be infinitely far off may be anything.
pub fn compare_within(
    actual: &Tensor,
    expected: &Tensor,
    allowed: impl Fn(usize, f64) -> f64,
) -> Deviation {
    let mut result = Deviation {
        type_error: None,
        elements: 0,
        max_abs: 0.0,
        max_rel: 0.0,
        relative_l2: 0.0,
        mismatches: 0,
        first_mismatch: None,
    };
    if actual.dtype() != expected.dtype() || actual.shape() != expected.shape() {
        result.type_error = Some(format!(
            "{}{:?} instead of {}{:?}",
            actual.dtype(),
            actual.shape(),
            expected.dtype(),
            expected.shape(),
        ));
        return result;
    }
    result.elements = expected.len();
    let (mut error_square, mut expected_square) = (0.0, 0.0);
    for index in 0..expected.len() {
        let (difference, b) = difference(actual, expected, index);
        if difference > allowed(index, b) {
            result.mismatches += 1;
            result.first_mismatch.get_or_insert_with(|| mismatch(actual, expected, index));
        }
        result.max_abs = result.max_abs.max(difference);
        if b != 0.0 && difference != 0.0 {
            // An infinite or NaN `b` that disagrees is infinitely far off.
            let relative = difference / b.abs();
            result.max_rel =
                result.max_rel.max(if relative.is_nan() { difference } else { relative });
        }
        error_square += difference * difference;
        if b.is_finite() {
            expected_square += b * b;
        }
    }
    if error_square > 0.0 {
        result.relative_l2 = (error_square / expected_square).sqrt();
    }
    result
}

/// How far values may be from those expected.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// Relative to the expected value.
    pub relative: f64,
    /// Of any value.
    pub absolute: f64,
    /// Relative to the largest of the expected values that are finite.
    pub of_largest: f64,
    /// Whether short floats may be off by a unit in the last place, as [`last_place`] has it.
    pub last_place: bool,
}

impl Tolerance {
    /// Equal values.
    pub const NONE: Tolerance =
        Tolerance { relative: 0.0, absolute: 0.0, of_largest: 0.0, last_place: false };
}

/// For what two programs compute that form sums in other orders.
impl Default for Tolerance {
    fn default() -> Tolerance {
        Tolerance { relative: 1e-5, absolute: 0.0, of_largest: 1e-6, last_place: true }
    }
}

impl Tolerance {
    /// Compares a tensor with what it should be.
    #[must_use]
    pub fn compare(&self, actual: &Tensor, expected: &Tensor) -> Deviation {
        let (relative, absolute) = self.of(expected);
        compare(actual, expected, relative, absolute)
    }

    /// As [`Tolerance::compare`]; each element may besides be as far off as `bounds` has it.
    #[must_use]
    pub fn compare_or(&self, actual: &Tensor, expected: &Tensor, bounds: &Tensor) -> Deviation {
        let (relative, absolute) = self.of(expected);
        compare_within(actual, expected, |index, b| {
            let usual = if b.is_finite() { absolute + relative * b.abs() } else { 0.0 };
            usual.max(bounds.get_f64(index))
        })
    }

    /// What it allows of the elements of a tensor, relative and absolute.
    fn of(&self, expected: &Tensor) -> (f64, f64) {
        let unit = if self.last_place { last_place(expected.dtype()) } else { 0.0 };
        let mut absolute = self.absolute;
        if self.of_largest > 0.0 && expected.strings().is_none() {
            let values = expected.to_f64_vec().into_iter().filter(|value| value.is_finite());
            absolute += self.of_largest * values.fold(0.0_f64, |most, value| most.max(value.abs()));
        }
        (self.relative.max(unit), absolute)
    }
}

/// A unit in the last place of a short float, relative to the value: sums that differ by nothing
/// but rounding may round to neighbours. 0 for other types.
pub fn last_place(dtype: DType) -> f64 {
    match Format::of(dtype) {
        Some(format) => 0.5_f64.powi(format.mantissa_bits as i32),
        None => 0.0,
    }
}

/// |a - b| of one element, infinite for what has no difference, and b.
fn difference(actual: &Tensor, expected: &Tensor, index: usize) -> (f64, f64) {
    if let (Some(a), Some(b)) = (actual.strings(), expected.strings()) {
        return (if a[index] == b[index] { 0.0 } else { f64::INFINITY }, 0.0);
    }
    let (a, b) = (actual.get_scalar(index), expected.get_scalar(index));
    if expected.dtype() != DType::Bool && !expected.dtype().is_float() {
        return ((a.as_i128() - b.as_i128()).unsigned_abs() as f64, b.as_f64());
    }
    let (a, b) = (a.as_f64(), b.as_f64());
    let difference = if a == b || a.is_nan() && b.is_nan() { 0.0 } else { (a - b).abs() };
    (if difference.is_nan() { f64::INFINITY } else { difference }, b)
}

fn mismatch(actual: &Tensor, expected: &Tensor, index: usize) -> Mismatch {
    let text = |tensor: &Tensor| match tensor.strings() {
        Some(strings) => format!("{:?}", strings[index]),
        None => tensor.get_scalar(index).to_string(),
    };
    let mut rest = index;
    let mut position: Vec<usize> = Vec::with_capacity(expected.shape().len());
    for extent in expected.shape().iter().rev() {
        position.push(rest % extent);
        rest /= extent;
    }
    position.reverse();
    Mismatch { index, position, actual: text(actual), expected: text(expected) }
}

impl fmt::Display for Deviation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(error) = &self.type_error {
            return f.write_str(error);
        }
        write!(
            f,
            "{} of {} elements differ; largest difference {:.3e} absolute, {:.3e} relative, \
             {:.3e} in norm",
            self.mismatches, self.elements, self.max_abs, self.max_rel, self.relative_l2,
        )?;
        match &self.first_mismatch {
            Some(Mismatch { position, actual, expected, .. }) => {
                write!(f, "; first at {position:?}: {actual} instead of {expected}")
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f32s(values: &[f32]) -> Tensor {
        Tensor::from_slice(&[values.len()], values)
    }

    #[test]
    fn within_and_beyond_tolerance() {
        let expected = f32s(&[1.0, 2.0, 0.0]);
        assert!(compare(&f32s(&[1.0, 2.0001, 1e-7]), &expected, 1e-3, 1e-6).passed());
        let result = compare(&f32s(&[1.0, 2.5, 0.0]), &expected, 1e-3, 1e-6);
        assert_eq!((result.mismatches, result.max_abs, result.max_rel), (1, 0.5, 0.25));
        assert!((result.relative_l2 - 0.5 / 5f64.sqrt()).abs() < 1e-12);
        assert_eq!(
            result.to_string(),
            "1 of 3 elements differ; largest difference 5.000e-1 \
            absolute, 2.500e-1 relative, 2.236e-1 in norm; first at [1]: 2.5 instead of 2.0"
        );
    }

    #[test]
    fn nan_and_infinity() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        assert!(compare(&f32s(&[nan, inf]), &f32s(&[nan, inf]), 0.0, 0.0).passed());
        for (a, b) in [(nan, 1.0), (1.0, nan), (inf, -inf), (inf, 1.0), (1.0, inf), (nan, inf)] {
            let result = compare(&f32s(&[a]), &f32s(&[b]), 1e-3, 1e-3);
            assert!(!result.passed(), "{a} and {b}");
            assert_eq!((result.max_abs, result.max_rel), (f64::INFINITY, f64::INFINITY));
        }
    }

    #[test]
    fn types_shapes_integers_and_strings() {
        let a = Tensor::from_vec(&[2], vec![i64::MAX, 1]);
        let b = Tensor::from_vec(&[2], vec![i64::MAX - 1, 1]);
        assert_eq!(compare(&a, &b, 0.0, 0.0).max_abs, 1.0);
        assert!(compare(&a, &a.reshape(&[1, 2]), 0.0, 0.0).type_error.is_some());
        assert!(compare(&a, &a.cast(DType::I32), 0.0, 0.0).type_error.is_some());
        let strings = |text: &str| Tensor::from_strings(&[1, 1], vec![text.to_owned()]);
        assert!(compare(&strings("x"), &strings("x"), 0.0, 0.0).passed());
        let first = compare(&strings("x"), &strings("y"), 0.0, 0.0).first_mismatch;
        assert_eq!(first.map(|first| first.position), Some(vec![0, 0]));
    }

    #[test]
    fn infinities_do_not_widen_it() {
        let expected = Tensor::from_slice(&[3], &[f32::INFINITY, 100.0, 0.0]);
        let off = |by: f32| Tensor::from_slice(&[3], &[f32::INFINITY, 100.0, by]);
        assert!(Tolerance::default().compare(&off(9e-5), &expected).passed());
        assert!(!Tolerance::default().compare(&off(1.2e-4), &expected).passed());
    }

    #[test]
    fn short_floats_may_round_to_neighbours() {
        let tensor = |value: f32| Tensor::from_slice(&[1], &[value]);
        let (one, next) = (tensor(1.0), tensor(1.0 + 1.0 / 128.0));
        assert!(!Tolerance::default().compare(&next, &one).passed());
        let [one, next] = [one, next].map(|tensor| tensor.cast(DType::BF16));
        assert!(Tolerance::default().compare(&next, &one).passed());
        let exact = Tolerance { last_place: false, ..Tolerance::default() };
        assert!(!exact.compare(&next, &one).passed());
    }

    #[test]
    fn strings_are_equal_or_not() {
        let tensor = |text: &str| Tensor::from_strings(&[1], vec![text.to_owned()]);
        assert!(Tolerance::default().compare(&tensor("a"), &tensor("a")).passed());
        assert!(!Tolerance::default().compare(&tensor("a"), &tensor("b")).passed());
    }
}
