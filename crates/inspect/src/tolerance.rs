//! How far values may be from what another way of computing them gives.

use tensor::minifloat::Format;
use tensor::{DType, Deviation, Tensor, compare};

/// How far values may be from each other.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// Relative to the expected value. Of short floats a unit in the last place is within it, too.
    pub relative: f64,
    /// Relative to the largest of the expected values that are finite.
    pub of_largest: f64,
}

impl Default for Tolerance {
    fn default() -> Tolerance {
        Tolerance { relative: 1e-5, of_largest: 1e-6 }
    }
}

impl Tolerance {
    /// Compares a tensor with what it should be.
    #[must_use]
    pub fn compare(&self, actual: &Tensor, expected: &Tensor) -> Deviation {
        let relative = self.relative.max(last_place(expected.dtype()));
        let largest = match expected.strings() {
            Some(_) => 0.0,
            None => {
                let values = expected.to_f64_vec().into_iter().filter(|value| value.is_finite());
                values.fold(0.0_f64, |most, value| most.max(value.abs()))
            }
        };
        compare(actual, expected, relative, self.of_largest * largest)
    }
}

/// A unit in the last place of a short float, relative to the value: sums that differ by nothing
/// but rounding may round to neighbours. 0 for other types.
pub(crate) fn last_place(dtype: DType) -> f64 {
    match Format::of(dtype) {
        Some(format) => 0.5_f64.powi(format.mantissa_bits as i32),
        None => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    }

    #[test]
    fn strings_are_equal_or_not() {
        let tensor = |text: &str| Tensor::from_strings(&[1], vec![text.to_owned()]);
        assert!(Tolerance::default().compare(&tensor("a"), &tensor("a")).passed());
        assert!(!Tolerance::default().compare(&tensor("a"), &tensor("b")).passed());
    }
}
