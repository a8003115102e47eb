//! In which numbers minimal filtering computes: floats, or integers of 16 bits.
//!
//! Sums of products of integers are exact, and stay so. Integer points give transforms of integers
//! once the filter's are multiplied by what their denominators have in common; the result is then
//! as many times what it should be. What is transformed has to fit 16 bits, which ranges of the
//! operands tell. All that follows is computed modulo 2^32: the odd part of the factor has an
//! inverse there, and its power of two is shifted out, for which the sums have to be that much
//! smaller than 32 bits allow. What happens to pass through larger numbers in between does no harm.

use backend::{InstructionCost, Target};
use graph::{Built, Function, FunctionBuilder, ValueId};
use tensor::{DType, Scalar, ScalarFunction, Tensor};

use super::cook_toom::{self, Matrix, Transforms};
use crate::quantised;

/// The least and the greatest of some integers.
pub(super) type Range = (i64, i64);

/// What is known of an operand's elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Elements {
    pub(super) dtype: DType,
    /// Of integers.
    range: Option<Range>,
}

impl Elements {
    /// Those of a value of a function.
    pub(super) fn of(function: &Function, value: ValueId) -> Option<Elements> {
        let dtype = function.ty(value).as_tensor()?.dtype;
        Some(Elements { dtype, range: quantised::range(function, value) })
    }
}

/// The numbers of a contraction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Numbers {
    /// f32.
    Floats,
    /// Integers of 16 bits, of which a machine multiplies pairs, and their sums.
    Integers(Integers),
}

/// Integers in these ranges, and how many products a sum has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Integers {
    data: Range,
    filter: Range,
    terms: i64,
}

impl Numbers {
    /// What a contraction with such results multiplies, in sums of so many terms if that is known;
    /// none of others. The data come first.
    pub(super) fn of(
        results: [DType; 2],
        found: [Elements; 2],
        terms: Option<i64>,
    ) -> Option<Self> {
        let are = |dtype: DType, result: DType| {
            results == [result; 2] && found.iter().all(|elements| elements.dtype == dtype)
        };
        if are(DType::F32, DType::F32) {
            return Some(Numbers::Floats);
        }
        if !are(DType::I16, DType::I32) {
            return None;
        }
        let [data, filter] = found.map(|elements| elements.range);
        Some(Numbers::Integers(Integers { data: data?, filter: filter?, terms: terms? }))
    }

    /// The type of sums, and of what is made of the transformed operands.
    pub(super) fn sum(&self) -> DType {
        match self {
            Numbers::Floats => DType::F32,
            Numbers::Integers(_) => DType::I32,
        }
    }

    /// The type of transformed operands.
    pub(super) fn operand(&self) -> DType {
        match self {
            Numbers::Floats => DType::F32,
            Numbers::Integers(_) => DType::I16,
        }
    }

    /// Bytes of an element of transformed operands.
    pub(super) fn operand_bytes(&self) -> i64 {
        i64::from(self.operand().bits() / 8)
    }

    /// The instruction that multiplies them, and how many terms it takes at once; none where a
    /// target has none, and of floats.
    pub(super) fn instruction(&self, target: &Target) -> Option<(InstructionCost, i64)> {
        let dtypes = [self.operand(); 2];
        let mut rows = target.instructions();
        let is_exact = matches!(self, Numbers::Integers(_));
        let found = rows.find(|(row, _)| is_exact && row.takes(&dtypes, PAIR));
        found.map(|(_, cost)| (cost, PAIR))
    }

    /// The matrices of F(m, r), if there are such.
    pub(super) fn transforms(&self, outputs: i64, taps: i64) -> Option<&'static Transforms> {
        let (outputs, taps) = (outputs as usize, taps as usize);
        match self {
            Numbers::Floats => Some(cook_toom::transforms(outputs, taps)),
            Numbers::Integers(_) => cook_toom::of_integers(outputs, taps),
        }
    }

    /// Whether windows may be transformed so, one after the other.
    pub(super) fn allow(&self, transforms: &[&Transforms]) -> bool {
        let Numbers::Integers(Integers { data, filter, terms }) = *self else { return true };
        let after = |range: Range, matrix: &dyn Fn(&Transforms) -> Matrix| {
            let transformed = |range, transforms: &&Transforms| image(range, &matrix(transforms));
            transforms.iter().try_fold(range, transformed)
        };
        let short = |range: Option<Range>| {
            let (low, high) = (i64::from(i16::MIN), i64::from(i16::MAX));
            range.is_some_and(|(least, most)| low <= least && most <= high)
        };
        let largest = |(least, most): Range| least.unsigned_abs().max(most.unsigned_abs());
        let product = u128::from(largest(data)) * u128::from(largest(filter));
        let sum = product * u128::from(terms.unsigned_abs());
        let sum = sum << scale(transforms).trailing_zeros();
        short(after(data, &|transforms| cook_toom::product(&transforms.input)))
            && short(after(filter, &|transforms| transforms.filter.clone()))
            && sum <= i32::MAX as u128
    }

    /// Results without the factor that windows with these transforms give them.
    pub(super) fn unscaled(
        &self,
        builder: &mut FunctionBuilder,
        mut value: ValueId,
        transforms: &[&Transforms],
    ) -> Built {
        let scale = scale(transforms);
        let shift = scale.trailing_zeros();
        let odd = inverse((scale >> shift) as u32);
        let mut by = |value, function, number: i64| {
            let number = Tensor::scalar(Scalar::from_i64(DType::I32, number));
            let number = builder.literal(number);
            builder.map_broadcast(function, &[value, number])
        };
        if odd != 1 {
            value = by(value, ScalarFunction::Mul, i64::from(odd as i32))?;
        }
        if shift > 0 {
            value = by(value, ScalarFunction::Shr, i64::from(shift))?;
        }
        Ok(value)
    }
}

/// How many integers of 16 bits are multiplied at once in a lane.
pub(super) const PAIR: i64 = 2;

/// How many times what it should be a result is.
fn scale(transforms: &[&Transforms]) -> i64 {
    transforms.iter().map(|transforms| transforms.scale).product()
}

/// The range of what rows of integers make of integers in a range; none where a row has a fraction.
fn image((least, most): Range, matrix: &Matrix) -> Option<Range> {
    let of_row = |row: &Vec<_>| {
        row.iter().try_fold((0i64, 0i64), |(low, high), entry: &cook_toom::Rational| {
            let factor = entry.as_integer()?;
            let ends = [factor * least, factor * most];
            Some((low + ends[0].min(ends[1]), high + ends[0].max(ends[1])))
        })
    };
    let join = |one: Range, other: Range| (one.0.min(other.0), one.1.max(other.1));
    let ranges: Option<Vec<Range>> = matrix.iter().map(of_row).collect();
    ranges?.into_iter().reduce(join)
}

/// The number by which an odd one has the product 1 modulo 2^32 (Newton's iteration, which doubles
/// the digits that are right; any odd number is its own inverse modulo 8).
fn inverse(odd: u32) -> u32 {
    (0..4).fold(odd, |found, _| found.wrapping_mul(2u32.wrapping_sub(odd.wrapping_mul(found))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_numbers_have_inverses() {
        for odd in (1..2000u32).step_by(2).chain([u32::MAX, 0x8000_0001]) {
            assert_eq!(inverse(odd).wrapping_mul(odd), 1, "{odd}");
        }
    }

    #[test]
    fn what_does_not_fit_is_not_allowed() {
        let integers = |data, filter, terms| Numbers::Integers(Integers { data, filter, terms });
        let both = |outputs| [cook_toom::of_integers(outputs, 3).expect("integers"); 2];
        let (byte, signed) = ((0, 255), (-128, 127));
        assert!(integers(byte, signed, 9 * 512).allow(&both(2)));
        assert!(integers(byte, signed, 9 * 512).allow(&both(3)));
        // Data of 16 bits have no room, nor have sums of too many terms.
        assert!(!integers((0, 32_767), signed, 9).allow(&both(2)));
        assert!(!integers(byte, signed, 1 << 15).allow(&both(2)));
        // The filters of F(4 x 4) would reach 73,152.
        assert!(!integers(byte, signed, 9).allow(&both(4)));
    }
}
