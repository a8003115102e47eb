//! asin, acos, atan and atan2.
//!
//! `atan(a) = b + y + y^3 p(y^2)` with `y = a, (a - 1) / (a + 1), -1 / a` and `b = 0, pi/4, pi/2`
//! below tan(pi/8), below its inverse and beyond, so that `|y| <= tan(pi/8)`. `asin(a) = a + a^3
//! p(a^2)` up to 1/2, and `pi/2 - 2 asin(sqrt((1 - a) / 2))` from there. Polynomials:
//! `tools/minimax.py`.
//!
//! Largest errors found in f32: asin 2.3 ULP, acos 1.1, atan and atan2 1.8. In f64 none was found
//! to be more than 2 ULP from the platform's.

use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};

use loops::ScalarExpr;

use super::maths::{Maths, Of};

/// What rounding pi/4 to the format leaves.
const QUARTER_PI_REST: Of<f64> = Of { f32: -2.1855694143368964e-8, f64: 3.061616997868383e-17 };

/// tan(pi/8).
const EIGHTH_TURN: f64 = 0.4142135623730951;

/// `p` of atan.
const ATAN: Of<&[f64]> = Of {
    f32: &[-0.333333164, 0.19998531, -0.142444685, 0.105997965, -0.0609166659],
    f64: &[
        -0.3333333333333333,
        0.1999999999999924,
        -0.1428571428560541,
        0.11111111103259057,
        -0.09090908757505246,
        0.07692298617252148,
        -0.06666500275086329,
        0.0588023954594118,
        -0.05244328336158636,
        0.046442934889812056,
        -0.038396974255828345,
        0.025210731953710996,
        -0.00900757076318995,
    ],
};

/// `p` of asin.
const ASIN: Of<&[f64]> = Of {
    f32: &[0.166666597, 0.0750052184, 0.0445134044, 0.0318385139, 0.0143183107, 0.0376902483],
    f64: &[
        0.1666666666666666,
        0.07500000000002449,
        0.04464285714015069,
        0.030381944593345207,
        0.02237215407778128,
        0.017352878589199313,
        0.013962997639844866,
        0.011573427471715275,
        0.009577411679101358,
        0.009521795425122936,
        0.0024021409471105815,
        0.02091097381767299,
        -0.020950237240371906,
        0.030583830290187377,
    ],
};

/// atan of the quotient of two numbers that are not negative, not both zero.
fn atan_of_quotient(m: &mut Maths, numerator: &ScalarExpr, denominator: &ScalarExpr) -> ScalarExpr {
    let scaled = m.mul(denominator, &m.number(EIGHTH_TURN));
    let above = m.bind(m.gt(numerator, &scaled));
    let scaled = m.mul(numerator, &m.number(EIGHTH_TURN));
    let beyond = m.bind(m.gt(&scaled, denominator));
    let (difference, sum) = (m.sub(numerator, denominator), m.add(numerator, denominator));
    let top = m.select(&above, &difference, numerator);
    let top = m.select(&beyond, &m.neg(denominator), &top);
    let bottom = m.select(&above, &sum, denominator);
    let bottom = m.select(&beyond, numerator, &bottom);
    let y = m.bind(m.div(&top, &bottom));
    let square = m.bind(m.mul(&y, &y));
    let p = m.polynomial(&square, m.pick(ATAN));
    let quarters = |m: &Maths, unit: f64| {
        let (zero, one, two) = (m.number(0.0), m.number(unit), m.number(2.0 * unit));
        m.select(&beyond, &two, &m.select(&above, &one, &zero))
    };
    let (base, rest) = (quarters(m, FRAC_PI_4), quarters(m, m.pick(QUARTER_PI_REST)));
    let cube = m.mul(&m.mul(&y, &square), &p);
    let small = m.add(&y, &m.add(&cube, &rest));
    m.add(&base, &small)
}

pub(super) fn atan(m: &mut Maths, x: &ScalarExpr) -> ScalarExpr {
    let size = m.bind(m.abs(x));
    let one = m.number(1.0);
    let value = atan_of_quotient(m, &size, &one);
    m.with_sign(&value, x)
}

/// `pi - a` where `x` is negative, -0 included.
fn reflected(m: &mut Maths, a: &ScalarExpr, x: &ScalarExpr) -> ScalarExpr {
    let rest = m.number(4.0 * m.pick(QUARTER_PI_REST));
    let other = m.sub(&m.number(PI), &m.sub(a, &rest));
    let negative = m.lt(&m.bits(x), &m.whole(0));
    m.select(&negative, &other, a)
}

/// atan of `|y| / |x|`, reflected where `x` is negative, with the sign of `y`. The quotient is
/// taken of scaled operands; two zeros count as 0 / 1, two infinities as 1 / 1.
pub(super) fn atan2(m: &mut Maths, y: &ScalarExpr, x: &ScalarExpr) -> ScalarExpr {
    let (one, zero) = (m.number(1.0), m.number(0.0));
    let big = m.number(m.pick(Of { f32: 2f64.powi(100), f64: 2f64.powi(1000) }));
    let small = m.number(m.pick(Of { f32: 2f64.powi(-100), f64: 2f64.powi(-1000) }));
    let (a, b) = (m.bind(m.abs(y)), m.bind(m.abs(x)));
    let larger = m.bind(m.select(&m.lt(&a, &b), &b, &a));
    // Sums of large numbers overflow, quotients of small ones lose their last bits.
    let (down, up) = (m.number(2f64.powi(-40)), m.number(2f64.powi(40)));
    let scale = m.select(&m.lt(&larger, &small), &up, &one);
    let scale = m.bind(m.select(&m.gt(&larger, &big), &down, &scale));
    let infinity = m.number(f64::INFINITY);
    let both = m.and(&m.eq(&a, &infinity), &m.eq(&b, &infinity));
    let both = m.bind(both);
    let top = m.bind(m.select(&both, &one, &m.mul(&a, &scale)));
    let neither = m.eq(&larger, &zero);
    let alike = m.or(&both, &neither);
    let bottom = m.bind(m.select(&alike, &one, &m.mul(&b, &scale)));
    let value = atan_of_quotient(m, &top, &bottom);
    let value = m.bind(value);
    let value = reflected(m, &value, x);
    let value = m.with_sign(&value, y);
    // The comparisons above let a NaN in one operand pass as a number.
    m.select(&m.eq(x, x), &m.select(&m.eq(y, y), &value, y), x)
}

/// For `a = |x|`: whether it is above 1/2, and asin of `a`, or of sqrt((1 - a) / 2) then.
fn half_asin(m: &mut Maths, x: &ScalarExpr) -> (ScalarExpr, ScalarExpr) {
    let a = m.bind(m.abs(x));
    let half = m.number(0.5);
    let large = m.bind(m.gt(&a, &half));
    let halved = m.mul(&m.sub(&m.number(1.0), &a), &half);
    let square = m.bind(m.select(&large, &halved, &m.mul(&a, &a)));
    let side = m.bind(m.select(&large, &m.sqrt(&square), &a));
    let p = m.polynomial(&square, m.pick(ASIN));
    let angle = m.fma(&m.mul(&side, &square), &p, &side);
    (large, m.bind(angle))
}

pub(super) fn asin(m: &mut Maths, x: &ScalarExpr) -> ScalarExpr {
    let (large, angle) = half_asin(m, x);
    let double = m.mul(&angle, &m.number(2.0));
    let rest = m.number(2.0 * m.pick(QUARTER_PI_REST));
    let far = m.sub(&m.number(FRAC_PI_2), &m.sub(&double, &rest));
    let value = m.select(&large, &far, &angle);
    let value = m.with_sign(&value, x);
    within_one(m, x, &value)
}

pub(super) fn acos(m: &mut Maths, x: &ScalarExpr) -> ScalarExpr {
    let (large, angle) = half_asin(m, x);
    let double = m.bind(m.mul(&angle, &m.number(2.0)));
    let far = reflected(m, &double, x);
    let rest = m.number(2.0 * m.pick(QUARTER_PI_REST));
    let signed = m.with_sign(&angle, x);
    let near = m.sub(&m.number(FRAC_PI_2), &m.sub(&signed, &rest));
    let value = m.select(&large, &far, &near);
    within_one(m, x, &value)
}

/// NaN beyond 1 and -1; NaN stays.
fn within_one(m: &mut Maths, x: &ScalarExpr, value: &ScalarExpr) -> ScalarExpr {
    m.select(&m.le(&m.abs(x), &m.number(1.0)), value, &m.number(f64::NAN))
}
