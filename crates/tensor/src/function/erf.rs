//! The error function in `f64`.
//!
//! Up to 1 its Taylor series, with the leading term added last by a fused multiply-add; beyond,
//! `1 - erfc`. Source of erfc: W. J. Cody, "Rational Chebyshev approximations for the error
//! function", Mathematics of Computation 23 (1969), with the coefficients of his program CALERF: a
//! rational function on each of two intervals, and exp(-x^2) computed from x split at a multiple of
//! 1/16, so that the square of the leading part is exact.

use std::f64::consts::FRAC_2_SQRT_PI;

/// What `FRAC_2_SQRT_PI` lacks of 2/sqrt(pi).
const LACK: f64 = 1.533_545_961_316_588e-17;

/// erf(x) on |x| <= 1: 2/sqrt(pi) (x + x s), s the sum of (-x^2)^n / (n! (2n + 1)) over n from 1 to
/// 18; the next term is below 1e-18. These are the coefficients of n = 0 (none), 1, 2, ...
const SERIES: [f64; 19] = {
    let mut coefficients = [0.0; 19];
    let mut factorial = 1.0;
    let mut n = 1;
    while n < 19 {
        factorial *= -(n as f64);
        coefficients[n] = 1.0 / (factorial * (2 * n + 1) as f64);
        n += 1;
    }
    coefficients
};

/// erfc(x) on 0.46875 <= x <= 4 (used from 1): exp(-x^2) * C(x) / D(x).
const C: [f64; 9] = [
    2.153_115_354_744_038_5e-8,
    5.641_884_969_886_701e-1,
    8.883_149_794_388_376,
    6.611_919_063_714_163e1,
    2.986_351_381_974_001e2,
    8.819_522_212_417_69e2,
    1.712_047_612_634_070_6e3,
    2.051_078_377_826_071_5e3,
    1.230_339_354_797_997_3e3,
];
const D: [f64; 9] = [
    1.0,
    1.574_492_611_070_983_5e1,
    1.176_939_508_913_125e2,
    5.371_811_018_620_099e2,
    1.621_389_574_566_690_2e3,
    3.290_799_235_733_459_6e3,
    4.362_619_090_143_247e3,
    3.439_367_674_143_721_6e3,
    1.230_339_354_803_749_4e3,
];

/// erfc(x) on x >= 4: exp(-x^2) / x * (1/sqrt(pi) - y P(y) / Q(y)), y = 1 / x^2.
const P: [f64; 6] = [
    1.631_538_713_730_209_8e-2,
    3.053_266_349_612_323_4e-1,
    3.603_448_999_498_044_4e-1,
    1.257_817_261_112_292_5e-1,
    1.608_378_514_874_228e-2,
    6.587_491_615_298_378e-4,
];
const Q: [f64; 6] = [
    1.0,
    2.568_520_192_289_822,
    1.872_952_849_923_460_5,
    5.279_051_029_514_284e-1,
    6.051_834_131_244_132e-2,
    2.335_204_976_268_691_8e-3,
];

fn polynomial(coefficients: &[f64], x: f64) -> f64 {
    coefficients.iter().fold(0.0, |value, coefficient| value * x + coefficient)
}

/// The error function, within 1.3 ULP (measured against 40 digits on random arguments); odd, so
/// zeros keep their sign, and NaN stays.
pub fn erf(x: f64) -> f64 {
    let magnitude = x.abs();
    if magnitude <= 1.0 {
        let square = x * x;
        let sum = SERIES.iter().rev().fold(0.0, |sum, coefficient| sum * square + coefficient);
        return FRAC_2_SQRT_PI.mul_add(x, x * (FRAC_2_SQRT_PI * sum + LACK));
    }
    if x.is_nan() {
        return x;
    }
    // From here on 1 - erfc is 1 to the last bit.
    if magnitude >= 6.0 {
        return 1f64.copysign(x);
    }
    let ratio = if magnitude <= 4.0 {
        polynomial(&C, magnitude) / polynomial(&D, magnitude)
    } else {
        let inverse = 1.0 / (magnitude * magnitude);
        let tail = inverse * polynomial(&P, inverse) / polynomial(&Q, inverse);
        (FRAC_2_SQRT_PI / 2.0 - tail) / magnitude
    };
    let lead = (magnitude * 16.0).trunc() / 16.0;
    let rest = (magnitude - lead) * (magnitude + lead);
    let complement = (-lead * lead).exp() * (-rest).exp() * ratio;
    (0.5 - complement + 0.5).copysign(x)
}
