//! log, log2, log1p and the inverse hyperbolic functions that follow from them.
//!
//! `x = 2^e (1 + f)` with `sqrt(1/2) <= 1 + f < sqrt(2)`, found in the bits. With `s = f / (2 +
//! f)`, `log(1 + f) = 2 s + s^3 p(s^2)` for a polynomial `p` (`tools/minimax.py`), summed as `f -
//! (f^2/2 - s (f^2/2 + s^2 p))`, since `2 s = f - s f`. Source: the arrangement of the sum is that
//! of Sun's fdlibm.
//!
//! Largest errors found in f32: log 0.8 ULP, log2 1.5, log1p 1.4, asinh 1.8, acosh 2.3, atanh 2.0.
//! In f64 none was found to be more than 2 ULP from the platform's.

use loops::ScalarExpr;

use super::maths::{Maths, Of};

/// `p` of `log(1 + f) = 2 s + s^3 p(s^2)`.
pub(super) const LOG: Of<&[f64]> = Of {
    f32: &[0.666666627, 0.400009722, 0.284987926, 0.242788151],
    f64: &[
        0.6666666666666666,
        0.40000000000004937,
        0.2857142856940413,
        0.22222222608298006,
        0.18181778233249235,
        0.15386994701249077,
        0.13252007405783653,
        0.1323611902773381,
    ],
};

/// ln 2 with few enough bits that products with exponents are exact, and what is left of it.
const LN2: Of<[f64; 2]> = Of {
    f32: [0.693145751953125, 1.4286068203094173e-6],
    f64: [0.6931471805598903, 5.497923018708371e-14],
};

/// The bits of sqrt(1/2), of 1, and those above the fraction.
const BITS: Of<[i64; 3]> = Of {
    f32: [0x3f35_04f3, 0x3f80_0000, !0x7f_ffff],
    f64: [0x3fe6_a09e_667f_3bcd, 0x3ff0_0000_0000_0000, !0xf_ffff_ffff_ffff],
};

/// `x = 2^exponent mantissa`.
pub(super) struct Split {
    /// The exponent as a float.
    pub(super) exponent: ScalarExpr,
    /// The exponent where it stands in a float's bits.
    exponent_bits: ScalarExpr,
    /// From sqrt(1/2) to sqrt(2).
    pub(super) mantissa: ScalarExpr,
}

/// Takes a positive normal number apart.
fn split(m: &mut Maths, x: &ScalarExpr) -> Split {
    let [root, _, above] = m.pick(BITS);
    let bits = m.bind(m.bits(x));
    let exponent_bits = m.and(&m.sub(&bits, &m.whole(root)), &m.whole(above));
    let exponent_bits = m.bind(exponent_bits);
    let mantissa = m.bind(m.with_bits(&m.sub(&bits, &exponent_bits)));
    let whole = loops::build::cast(m.float(), exponent_bits.clone());
    let unit = m.pick(Of { f32: 2f64.powi(-23), f64: 2f64.powi(-52) });
    let exponent = m.bind(m.mul(&whole, &m.number(unit)));
    Split { exponent, exponent_bits, mantissa }
}

/// Takes any positive number apart: subnormal ones are scaled first.
pub(super) fn split_any(m: &mut Maths, x: &ScalarExpr) -> Split {
    let normal = m.number(m.pick(Of { f32: f32::MIN_POSITIVE.into(), f64: f64::MIN_POSITIVE }));
    let places = m.pick(Of { f32: 25, f64: 54 });
    let small = m.bind(m.lt(x, &normal));
    let larger = m.mul(x, &m.number(2f64.powi(places)));
    let scaled = m.bind(m.select(&small, &larger, x));
    let mut parts = split(m, &scaled);
    let shift = m.select(&small, &m.number(f64::from(-places)), &m.number(0.0));
    parts.exponent = m.bind(m.add(&parts.exponent, &shift));
    parts
}

/// What `log(1 + f)` is less than `f` by: `f^2/2 - (s (f^2/2 + s^2 p) + low)`.
fn deficit(m: &mut Maths, f: &ScalarExpr, low: Option<&ScalarExpr>) -> ScalarExpr {
    let half_square = m.bind(m.mul(&m.mul(f, f), &m.number(0.5)));
    let s = m.bind(m.div(f, &m.add(f, &m.number(2.0))));
    let square = m.bind(m.mul(&s, &s));
    let p = m.polynomial(&square, m.pick(LOG));
    let sum = m.fma(&p, &square, &half_square);
    let correction = match low {
        Some(low) => m.fma(&s, &sum, low),
        None => m.mul(&s, &sum),
    };
    m.sub(&half_square, &correction)
}

/// `exponent ln 2 + log(1 + f)`.
fn log_of_parts(m: &mut Maths, exponent: &ScalarExpr, f: &ScalarExpr) -> ScalarExpr {
    let [high, low] = m.pick(LN2).map(|part| m.number(part));
    let low = m.bind(m.mul(exponent, &low));
    let deficit = deficit(m, f, Some(&low));
    // exponent * high is exact, so this is a sum of three.
    let high = m.bind(m.mul(exponent, &high));
    m.sub(&high, &m.sub(&deficit, f))
}

/// Puts in the values at and beyond the ends: -inf at zero, NaN below, infinity at infinity.
fn with_ends(m: &mut Maths, x: &ScalarExpr, zero: f64, value: &ScalarExpr) -> ScalarExpr {
    let (zero, infinity) = (m.number(zero), m.number(f64::INFINITY));
    let below = m.select(&m.eq(x, &zero), &m.number(f64::NEG_INFINITY), &m.number(f64::NAN));
    let above = m.select(&m.lt(x, &infinity), value, x);
    m.select(&m.gt(x, &zero), &above, &below)
}

pub(super) fn log(m: &mut Maths, x: &ScalarExpr) -> ScalarExpr {
    let parts = split_any(m, x);
    let f = m.bind(m.sub(&parts.mantissa, &m.number(1.0)));
    let value = log_of_parts(m, &parts.exponent, &f);
    with_ends(m, x, 0.0, &value)
}

/// The exponent plus `log(1 + f) / ln 2`; exact for powers of two.
pub(super) fn log2(m: &mut Maths, x: &ScalarExpr) -> ScalarExpr {
    let parts = split_any(m, x);
    let f = m.bind(m.sub(&parts.mantissa, &m.number(1.0)));
    let deficit = deficit(m, &f, None);
    let natural = m.bind(m.sub(&f, &deficit));
    let [high, low] = m.pick(LOG2_E).map(|part| m.number(part));
    let small = m.fma(&natural, &low, &parts.exponent);
    let value = m.fma(&natural, &high, &small);
    with_ends(m, x, 0.0, &value)
}

/// 1 / ln 2 rounded, and what is left of it.
pub(super) const LOG2_E: Of<[f64; 2]> = Of {
    f32: [1.4426950216293335, 1.925963033500011e-8],
    f64: [std::f64::consts::LOG2_E, 2.0355273740931033e-17],
};

/// `1 + x` is rounded; what that loses is added to `f`, scaled alike.
pub(super) fn log1p(m: &mut Maths, x: &ScalarExpr) -> ScalarExpr {
    let one = m.number(1.0);
    let sum = m.bind(m.add(x, &one));
    let added = m.bind(m.sub(&sum, &one));
    let lost = m.add(&m.sub(x, &added), &m.sub(&one, &m.sub(&sum, &added)));
    let parts = split(m, &sum);
    let [_, one_bits, _] = m.pick(BITS);
    let unscale = m.with_bits(&m.sub(&m.whole(one_bits), &parts.exponent_bits));
    // Far out nothing is lost that counts, and the exponent may have no reciprocal.
    let near = m.lt(x, &m.number(m.pick(FAR)));
    let lost = m.select(&near, &lost, &m.number(0.0));
    let unscale = m.select(&near, &unscale, &m.number(0.0));
    let f = m.bind(m.fma(&lost, &unscale, &m.sub(&parts.mantissa, &one)));
    let value = log_of_parts(m, &parts.exponent, &f);
    let value = with_ends(m, x, -1.0, &value);
    let tiny = m.number(m.pick(Of { f32: 2f64.powi(-25), f64: 2f64.powi(-54) }));
    m.select(&m.lt(&m.abs(x), &tiny), x, &value)
}

/// From here on, `log1p(x)` is `log(x)`, and 1 does not count beside the square.
const FAR: Of<f64> = Of { f32: 67_108_864.0, f64: 3.602879701896397e16 };

/// `log1p(a)`, plus ln 2 where `far` holds.
fn log1p_doubled(m: &mut Maths, a: &ScalarExpr, far: &ScalarExpr) -> ScalarExpr {
    let a = m.bind(a.clone());
    let value = log1p(m, &a);
    let more = m.select(far, &m.number(std::f64::consts::LN_2), &m.number(0.0));
    m.add(&value, &more)
}

/// `log1p(a + a^2 / (1 + sqrt(a^2 + 1)))` for `a = |x|`; far out `log(2 a)`.
pub(super) fn asinh(m: &mut Maths, x: &ScalarExpr) -> ScalarExpr {
    let one = m.number(1.0);
    let a = m.bind(m.abs(x));
    let far = m.bind(m.gt(&a, &m.number(m.pick(FAR))));
    let square = m.bind(m.mul(&a, &a));
    let root = m.sqrt(&m.add(&square, &one));
    let near = m.add(&a, &m.div(&square, &m.add(&root, &one)));
    let value = log1p_doubled(m, &m.select(&far, &a, &near), &far);
    m.with_sign(&value, x)
}

/// `log1p(t + sqrt(t (t + 2)))` for `t = x - 1`; far out `log(2 x)`; NaN below 1.
pub(super) fn acosh(m: &mut Maths, x: &ScalarExpr) -> ScalarExpr {
    let one = m.number(1.0);
    let far = m.bind(m.gt(x, &m.number(m.pick(FAR))));
    let t = m.bind(m.sub(x, &one));
    let root = m.sqrt(&m.mul(&t, &m.add(&t, &m.number(2.0))));
    let value = log1p_doubled(m, &m.select(&far, x, &m.add(&t, &root)), &far);
    m.select(&m.ge(x, &one), &value, &m.number(f64::NAN))
}

/// `log1p(2 a / (1 - a)) / 2` for `a = |x|`.
pub(super) fn atanh(m: &mut Maths, x: &ScalarExpr) -> ScalarExpr {
    let a = m.bind(m.abs(x));
    let ratio = m.div(&m.add(&a, &a), &m.sub(&m.number(1.0), &a));
    let ratio = m.bind(ratio);
    let double = log1p(m, &ratio);
    let value = m.mul(&double, &m.number(0.5));
    m.with_sign(&value, x)
}
