//! sin, cos and tan.
//!
//! `x = n pi/2 + r` with `|r| <= pi/4`, by subtracting three parts of `n pi/2` with fused
//! multiply-adds: the first difference is exact, the others lose only their own last place. Then
//! `sin(r) = r + r^3 s(r^2)` and `cos(r) = 1 - r^2/2 + r^4 c(r^2)` with polynomials
//! (`tools/minimax.py`); the two lowest bits of `n` choose between them and the sign. Source: W. J.
//! Cody and W. Waite, Software Manual for the Elementary Functions.
//!
//! Operands beyond 2^20 in f32 and 2^40 in f64, where neighbours are far apart beside a period,
//! lose accuracy, and beyond 2^22 and 2^51 the quadrant; infinities give NaN.
//!
//! tan is the quotient of the two. There `r`, the sine and the cosine carry what rounding took from
//! each beside them, and the quotient is corrected by what is left of the division.
//!
//! Largest errors found within 10^6 in f32: sin and cos 1.5 ULP, tan 0.8. In f64 none was found to
//! be more than 2 ULP from the platform's.

use loops::ScalarExpr;

use super::maths::{Maths, Of};

/// pi/2 in three parts.
const HALF_PI: Of<[f64; 3]> = Of {
    f32: [1.5707963705062866, -4.371138828673793e-8, -1.7151245100058819e-15],
    f64: [std::f64::consts::FRAC_PI_2, 6.123233995736766e-17, -1.4973849048591698e-33],
};

/// Adding it rounds to a whole number in the lowest bits.
const ROUNDER: Of<f64> = Of { f32: 12_582_912.0, f64: 6755399441055744.0 };

/// `s`.
const SIN: Of<&[f64]> = Of {
    f32: &[-0.166666672, 0.00833338033, -0.000198534981, 2.83724694e-06],
    f64: &[
        -0.16666666666666666,
        0.008333333333333038,
        -0.0001984126984095601,
        2.7557319069764867e-6,
        -2.505206966961697e-8,
        1.605413820129067e-10,
        -7.380391956231489e-13,
    ],
};

/// `c`.
const COS: Of<&[f64]> = Of {
    f32: &[0.041666653, -0.0013887618, 2.44631756e-05],
    f64: &[
        0.041666666666666664,
        -0.0013888888888888378,
        2.4801587301426972e-5,
        -2.7557319295891807e-7,
        2.0876801977858894e-9,
        -1.1478553890199227e-11,
        5.2174784049267125e-14,
    ],
};

/// sine and cosine of the rest, and the quadrant in the lowest bits of an integer.
struct Reduced {
    sin: ScalarExpr,
    cos: ScalarExpr,
    quadrant: ScalarExpr,
}

/// The number of quarter turns in an operand, in the lowest bits and as a float.
fn quarter_turns(m: &mut Maths, x: &ScalarExpr) -> (ScalarExpr, ScalarExpr) {
    let rounder = m.number(m.pick(ROUNDER));
    let rounded = m.bind(m.fma(x, &m.number(std::f64::consts::FRAC_2_PI), &rounder));
    let n = m.bind(m.sub(&rounded, &rounder));
    (rounded, n)
}

fn reduced(m: &mut Maths, x: &ScalarExpr) -> Reduced {
    let (rounded, n) = quarter_turns(m, x);
    let mut rest = x.clone();
    for part in m.pick(HALF_PI) {
        rest = m.bind(m.fma(&n, &m.number(-part), &rest));
    }
    let square = m.bind(m.mul(&rest, &rest));
    let cube = m.mul(&rest, &square);
    let sin = m.fma(&cube, &m.polynomial(&square, m.pick(SIN)), &rest);
    let sin = m.bind(sin);
    let fourth = m.mul(&square, &square);
    let c = m.polynomial(&square, m.pick(COS));
    let below_one = m.fma(&square, &m.number(-0.5), &m.number(1.0));
    let below_one = m.bind(below_one);
    // What rounding took from 1 - r^2/2.
    let lost = m.fma(&square, &m.number(-0.5), &m.sub(&m.number(1.0), &below_one));
    let cos = m.add(&below_one, &m.fma(&fourth, &c, &lost));
    let cos = m.bind(cos);
    let quadrant = m.bind(m.bits(&rounded));
    Reduced { sin, cos, quadrant }
}

/// `value`, negated where the second lowest bit of the quadrant is set.
fn turned(m: &mut Maths, value: &ScalarExpr, quadrant: &ScalarExpr) -> ScalarExpr {
    let width = m.pick(Of { f32: 32, f64: 64 });
    let half_turn = m.and(quadrant, &m.whole(2));
    let sign = m.shl(&half_turn, &m.whole(width - 2));
    m.with_bits(&m.xor(&m.bits(value), &sign))
}

/// Whether the lowest bit of the quadrant is set.
fn is_odd(m: &mut Maths, quadrant: &ScalarExpr) -> ScalarExpr {
    m.ne(&m.and(quadrant, &m.whole(1)), &m.whole(0))
}

/// The operand itself where it is so small that the function rounds to it: zeros keep their sign.
fn small_as_is(m: &mut Maths, x: &ScalarExpr, value: &ScalarExpr) -> ScalarExpr {
    let tiny = m.number(m.pick(Of { f32: 2f64.powi(-13), f64: 2f64.powi(-27) }));
    m.select(&m.lt(&m.abs(x), &tiny), x, value)
}

pub(super) fn sin(m: &mut Maths, x: &ScalarExpr) -> ScalarExpr {
    let Reduced { sin, cos, quadrant } = reduced(m, x);
    let odd = is_odd(m, &quadrant);
    let value = m.select(&odd, &cos, &sin);
    let value = turned(m, &value, &quadrant);
    small_as_is(m, x, &value)
}

pub(super) fn cos(m: &mut Maths, x: &ScalarExpr) -> ScalarExpr {
    let Reduced { sin, cos, quadrant } = reduced(m, x);
    let quadrant = m.bind(m.add(&quadrant, &m.whole(1)));
    let odd = is_odd(m, &quadrant);
    let value = m.select(&odd, &cos, &sin);
    turned(m, &value, &quadrant)
}

/// A value, and what rounding took from it.
struct Double {
    high: ScalarExpr,
    low: ScalarExpr,
}

/// `x - n pi/2`, as a sum.
fn rest(m: &mut Maths, x: &ScalarExpr, n: &ScalarExpr) -> Double {
    let [first, second, third] = m.pick(HALF_PI);
    let exact = m.bind(m.fma(n, &m.number(-first), x));
    let product = m.bind(m.mul(n, &m.number(second)));
    let product_low = m.fma(n, &m.number(second), &m.neg(&product));
    let difference = m.bind(m.sub(&exact, &product));
    // D. E. Knuth, The Art of Computer Programming, 4.2.2, theorem B.
    let taken = m.bind(m.sub(&difference, &exact));
    let lost = m.sub(&m.sub(&exact, &m.sub(&difference, &taken)), &m.add(&product, &taken));
    let low = m.fma(n, &m.number(-third), &m.sub(&lost, &product_low));
    let low = m.bind(low);
    sum(m, &difference, low)
}

/// The sum of a value and a smaller one.
fn sum(m: &mut Maths, large: &ScalarExpr, small: ScalarExpr) -> Double {
    let small = m.bind(small);
    let high = m.bind(m.add(large, &small));
    let low = m.bind(m.sub(&small, &m.sub(&high, large)));
    Double { high, low }
}

/// The sine and the cosine of an angle within a quarter of a half turn, as sums.
fn sine_and_cosine(m: &mut Maths, angle: &Double) -> (Double, Double) {
    let Double { high: angle, low: angle_low } = angle;
    let square = m.bind(m.mul(angle, angle));
    let square_low = m.fma(angle, angle, &m.neg(&square));

    let half = m.number(-0.5);
    let below_one = m.fma(&square, &half, &m.number(1.0));
    let below_one = m.bind(below_one);
    let lost = m.fma(&square, &half, &m.sub(&m.number(1.0), &below_one));
    // The derivative of the cosine is about minus the angle here.
    let lost = m.fma(&square_low, &half, &m.fma(angle, &m.neg(angle_low), &lost));
    let fourth = m.mul(&square, &square);
    let c = m.polynomial(&square, m.pick(COS));
    let small = m.fma(&fourth, &c, &lost);
    let cosine = sum(m, &below_one, small);

    let s = m.polynomial(&square, m.pick(SIN));
    let small = m.fma(&m.mul(angle, &square), &s, &m.mul(angle_low, &cosine.high));
    let sine = sum(m, angle, small);
    (sine, cosine)
}

/// The quotient of the two, or of the cosine and the negated sine.
pub(super) fn tan(m: &mut Maths, x: &ScalarExpr) -> ScalarExpr {
    let (rounded, n) = quarter_turns(m, x);
    let angle = rest(m, x, &n);
    let (sine, cosine) = sine_and_cosine(m, &angle);
    let quadrant = m.bits(&rounded);
    let odd = is_odd(m, &quadrant);
    let odd = m.bind(odd);
    let mut either = |one: &ScalarExpr, other: &ScalarExpr| m.bind(m.select(&odd, one, other));
    let (above, above_low) = (either(&cosine.high, &sine.high), either(&cosine.low, &sine.low));
    let (below, below_low) = (either(&sine.high, &cosine.high), either(&sine.low, &cosine.low));
    let inverse = m.bind(m.div(&m.number(1.0), &below));
    let quotient = m.bind(m.mul(&above, &inverse));
    let minus = m.bind(m.neg(&quotient));
    let left = m.fma(&minus, &below, &above);
    let left = m.add(&left, &m.fma(&minus, &below_low, &above_low));
    let value = m.fma(&left, &inverse, &quotient);
    let value = m.bind(value);
    let value = m.select(&odd, &m.neg(&value), &value);
    small_as_is(m, x, &value)
}
