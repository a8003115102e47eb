//! Values of scalar functions that take more than an expression.
//!
//! Integers come as `i128`, which holds every operand; the caller wraps results to the type.

use crate::dtype::DType;

/// Truncated division; all bits set when dividing by zero.
pub(super) fn divide(a: i128, b: i128) -> i128 {
    if b == 0 { -1 } else { a / b }
}

/// The remainder of truncated division; the dividend when dividing by zero.
pub(super) fn remainder(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { a % b }
}

/// The remainder of floored division; the dividend when dividing by zero.
pub(super) fn modulo(a: i128, b: i128) -> i128 {
    let remainder = remainder(a, b);
    if b != 0 && remainder != 0 && (remainder < 0) != (b < 0) { remainder + b } else { remainder }
}

/// As [`modulo`], of floats; a zero result has the divisor's sign, as in Python.
pub(super) fn modulo_real(a: f64, b: f64) -> f64 {
    let remainder = a % b;
    if remainder == 0.0 {
        0.0f64.copysign(b)
    } else if (remainder < 0.0) != (b < 0.0) {
        remainder + b
    } else {
        remainder
    }
}

/// `a` to the power `b`, wrapping at 128 bits; a negative exponent gives the quotient `1 / a^-b`.
pub(super) fn power(a: i128, b: i128) -> i128 {
    if b < 0 {
        return match a {
            0 => divide(1, 0),
            1 => 1,
            -1 if b % 2 == 0 => 1,
            -1 => -1,
            _ => 0,
        };
    }
    let (mut base, mut exponent, mut result) = (a, b, 1i128);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = result.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        exponent >>= 1;
    }
    result
}

/// IEEE 754-2019 `minimum`.
pub(super) fn minimum(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a == b {
        if a.is_sign_negative() { a } else { b }
    } else if a < b {
        a
    } else {
        b
    }
}

/// IEEE 754-2019 `maximum`.
pub(super) fn maximum(a: f64, b: f64) -> f64 {
    -minimum(-a, -b)
}

/// -1 or 1; zeros and NaN stay.
pub(super) fn sign(a: f64) -> f64 {
    if a == 0.0 || a.is_nan() { a } else { 1f64.copysign(a) }
}

/// ln(|a| + sqrt(a^2 + 1)) with a's sign, arranged to keep small operands and survive large ones.
pub(super) fn asinh(a: f64) -> f64 {
    let x = a.abs();
    let value = if x > 1e9 {
        x.ln() + std::f64::consts::LN_2
    } else {
        (x + x * x / (1.0 + (x * x + 1.0).sqrt())).ln_1p()
    };
    value.copysign(a)
}

/// ln(a + sqrt(a^2 - 1)), in terms of a - 1, which is exact near 1.
pub(super) fn acosh(a: f64) -> f64 {
    if a < 1.0 {
        return f64::NAN;
    }
    if a > 1e9 {
        return a.ln() + std::f64::consts::LN_2;
    }
    let above = a - 1.0;
    (above + (above * (above + 2.0)).sqrt()).ln_1p()
}

/// ln((1 + a) / (1 - a)) / 2.
pub(super) fn atanh(a: f64) -> f64 {
    let x = a.abs();
    (0.5 * (2.0 * x / (1.0 - x)).ln_1p()).copysign(a)
}

/// All bits flipped; a boolean negated.
pub(super) fn not(dtype: DType, a: i128) -> i128 {
    if dtype == DType::Bool { 1 - a } else { !a }
}

/// A shift amount read as unsigned, or `None` if it is at least the width.
fn amount(dtype: DType, b: i128) -> Option<u32> {
    u32::try_from(b).ok().filter(|amount| *amount < dtype.bits())
}

/// Zero for amounts of at least the width.
pub(super) fn shift_left(dtype: DType, a: i128, b: i128) -> i128 {
    amount(dtype, b).map_or(0, |amount| a << amount)
}

/// Arithmetic for signed types; the sign alone for amounts of at least the width.
pub(super) fn shift_right(dtype: DType, a: i128, b: i128) -> i128 {
    a >> amount(dtype, b).unwrap_or(127)
}

/// The bits of an integer of a type, zero above its width.
fn bits(dtype: DType, a: i128) -> u64 {
    a as u64 & (u64::MAX >> (64 - dtype.bits()))
}

/// Zero bits above the highest one; the width for 0.
pub(super) fn leading_zeros(dtype: DType, a: i128) -> i128 {
    i128::from(bits(dtype, a).leading_zeros() - (64 - dtype.bits()))
}

/// One bits.
pub(super) fn ones(dtype: DType, a: i128) -> i128 {
    i128::from(bits(dtype, a).count_ones())
}

/// The byte at a place, taken modulo 16, of those that four words hold.
pub(super) fn lookup(operands: &[i128]) -> i128 {
    let place = operands[0] & 15;
    operands[1 + (place >> 2) as usize] >> (8 * (place & 3)) & 255
}
