//! Arithmetic of whole numbers that stand for fractions: what the reference kernels of TensorFlow
//! Lite compute with, on numbers that are known while importing.
//!
//! Source: gemmlowp's `fixedpoint.h` for the names of the operations and the constants of the
//! exponential; TensorFlow Lite's reference kernels, as they are built by default, for the rounding
//! (twice, at bit 31 and behind the shift: `TFLITE_SINGLE_ROUNDING` is not defined).

/// A positive factor as `significand * 2^(exponent - 31)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Multiplier {
    /// At least 2^30, or 0.
    pub(crate) significand: i32,
    /// From -31 to 31 or more.
    pub(crate) exponent: i32,
}

impl Multiplier {
    /// The multiplier next to a number that is not negative and finite.
    pub(crate) fn of(number: f64) -> Multiplier {
        if number == 0.0 {
            return Multiplier { significand: 0, exponent: 0 };
        }
        let (fraction, mut exponent) = fraction_and_exponent(number);
        let mut significand = (fraction * (1_i64 << 31) as f64).round() as i64;
        if significand == 1 << 31 {
            significand /= 2;
            exponent += 1;
        }
        if exponent < -31 {
            return Multiplier { significand: 0, exponent: 0 };
        }
        Multiplier { significand: significand as i32, exponent }
    }

    /// The number times the multiplier.
    pub(crate) fn times(self, number: i32) -> i32 {
        let (left, right) = (self.exponent.max(0), (-self.exponent).max(0));
        let shifted = if left > 31 { 0 } else { number.wrapping_shl(left as u32) };
        rounding_shift(doubling_high(shifted, self.significand), right as u32)
    }
}

/// A positive number as a fraction of at least a half and below 1, and a power of two.
pub(crate) fn fraction_and_exponent(number: f64) -> (f64, i32) {
    // The smallest numbers have no exponent of their own.
    let (number, below) =
        if number < f64::MIN_POSITIVE { (number * 2_f64.powi(64), 64) } else { (number, 0) };
    let bits = number.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as i32 - 1022;
    let fraction = f64::from_bits(bits & !(0x7ff << 52) | 1022 << 52);
    (fraction, exponent - below)
}

/// The upper half of twice the product, rounded half up; saturated, where both are the lowest.
pub(crate) fn doubling_high(a: i32, b: i32) -> i32 {
    if a == i32::MIN && b == i32::MIN {
        return i32::MAX;
    }
    ((i64::from(a) * i64::from(b) + (1 << 30)) >> 31) as i32
}

/// The number over a power of two, rounded half away from zero.
pub(crate) fn rounding_shift(number: i32, shift: u32) -> i32 {
    let number = i64::from(number);
    if shift == 0 {
        return number as i32;
    }
    let half = 1_i64 << (shift - 1);
    ((number + half - i64::from(number < 0)) >> shift) as i32
}

fn saturated(number: i64) -> i32 {
    number.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
}

/// Bits behind the point of what [`exponential`] takes.
const EXPONENTIAL_BITS: u32 = 26;

/// The exponential of a number that is not above zero, with 26 bits behind the point; the result
/// has 31.
pub(crate) fn exponential(number: i32) -> i32 {
    let quarter = 1 << (EXPONENTIAL_BITS - 2);
    if number == 0 {
        return i32::MAX;
    }
    let within = (number & (quarter - 1)) - quarter;
    let mut result = near_zero(saturated(i64::from(within) << (31 - EXPONENTIAL_BITS)));
    let rest = within.wrapping_sub(number);
    // What e to the power of minus a quarter, a half, 1, 2, 4, 8 and 16 is.
    let powers: [i32; 7] =
        [1_672_461_947, 1_302_514_674, 790_015_084, 290_630_308, 39_332_535, 720_401, 242];
    for (place, power) in powers.into_iter().enumerate() {
        if rest & (quarter << place) != 0 {
            result = doubling_high(result, power);
        }
    }
    result
}

/// The exponential between minus a quarter and zero: four terms around minus an eighth.
fn near_zero(number: i32) -> i32 {
    let (middle, third) = (1_895_147_668, 715_827_883);
    let x = number + (1 << 28);
    let square = doubling_high(x, x);
    let cube = doubling_high(square, x);
    let fourth = rounding_shift(doubling_high(square, square), 2);
    let behind = doubling_high(fourth.wrapping_add(cube), third).wrapping_add(square);
    let tail = x.wrapping_add(rounding_shift(behind, 1));
    middle + doubling_high(middle, tail)
}

/// How far a number of so many bits may be from zero that a shift to the left does not take out of
/// what `integer_bits` before the point hold.
pub(crate) fn input_radius(integer_bits: i32, left_shift: i32) -> i32 {
    let most = f64::from((1 << integer_bits) - 1) * 2_f64.powi(31 - integer_bits);
    (most / 2_f64.powi(left_shift)).floor() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multipliers_are_next_to_their_numbers() {
        for number in [1e-9, 0.003, 0.25, 0.5, 0.999_999_999_99, 1.0, 1.5, 3.7e4] {
            let Multiplier { significand, exponent } = Multiplier::of(number);
            let back = f64::from(significand) * 2_f64.powi(exponent - 31);
            assert!((back / number - 1.0).abs() < 1e-9, "{number}: {significand} {exponent}");
        }
        assert_eq!(Multiplier::of(0.5), Multiplier { significand: 1 << 30, exponent: 0 });
        assert_eq!(Multiplier::of(1e-12), Multiplier { significand: 0, exponent: 0 });
    }

    #[test]
    fn halves_are_rounded_as_the_kernels_round_them() {
        let half = Multiplier { significand: 1 << 30, exponent: 0 };
        assert_eq!([3, -3, 5, -5].map(|it| half.times(it)), [2, -1, 3, -2]);
        assert_eq!([3, -3, 2, -2].map(|it| rounding_shift(it, 1)), [2, -2, 1, -1]);
        assert_eq!([6, -6, 7, -7].map(|it| rounding_shift(it, 2)), [2, -2, 2, -2]);
        assert_eq!(rounding_shift(-7, 0), -7);
    }

    #[test]
    fn exponentials_are_near_the_truth() {
        for number in [0.0, -0.01, -0.25, -0.3, -1.0, -5.5, -20.0, -31.9] {
            let scaled = (number * 2_f64.powi(EXPONENTIAL_BITS as i32)) as i32;
            let found = f64::from(exponential(scaled)) / 2_f64.powi(31);
            assert!((found - f64::exp(number)).abs() < 1e-6, "{number}: {found}");
        }
    }
}
