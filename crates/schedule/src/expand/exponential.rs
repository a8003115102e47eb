//! exp, exp2, expm1 and the hyperbolic functions that follow from them.
//!
//! `x = n ln 2 + r` with `|r| <= ln(2)/2`, so `exp(x) = 2^n exp(r)`; `exp(r) - 1 = r + r^2 q(r)`
//! with a polynomial `q` (`tools/minimax.py`). Adding `1.5 * 2^23` (or `2^52`) rounds to a whole
//! number, which then stands in the low bits of the sum: shifted left it is the exponent of `2^n`.
//! Powers of two are multiplied in two factors, so that results below the normal range are right
//! and overflow gives infinity.
//!
//! Largest errors found in f32: exp 1.0 ULP, exp2 0.9, expm1 1.5, tanh 2.2, sinh 1.9, cosh 1.4. In
//! f64 none was found to be more than 2 ULP from the platform's.

use loops::ScalarExpr;
use tensor::DType;

use super::maths::{Format, Maths, Of};

/// `q` of `exp(r) - 1 = r + r^2 q(r)`.
const EXPM1: Of<&[f64]> = Of {
    f32: &[0.5, 0.16666539, 0.041666612, 0.00836710073, 0.00139176438],
    // Taylor's coefficients: at this length as good as any.
    f64: &[
        0.5,
        1.0 / 6.0,
        1.0 / 24.0,
        1.0 / 120.0,
        1.0 / 720.0,
        1.0 / 5040.0,
        1.0 / 40320.0,
        1.0 / 362_880.0,
        1.0 / 3_628_800.0,
        1.0 / 39_916_800.0,
        1.0 / 479_001_600.0,
        1.0 / 6_227_020_800.0,
    ],
};

/// ln 2 rounded, and what is left of it.
const LN2: Of<[f64; 2]> = Of {
    f32: [0.6931471824645996, -1.9046542121259336e-9],
    f64: [std::f64::consts::LN_2, 2.3190468138462996e-17],
};

/// Adding it rounds to a whole number in the lowest bits.
const ROUNDER: Of<f64> = Of { f32: 12_582_912.0, f64: 6755399441055744.0 };

/// The exponent's bias, and the bits of the fraction below it.
const EXPONENT: Of<[i64; 2]> = Of { f32: [127, 23], f64: [1023, 52] };

/// `2^n` where the lowest bits, as many as an exponent and a sign have, are those of `n`, times
/// `2^offset`.
fn power_of_two(m: &Maths, bits: &ScalarExpr, offset: i64) -> ScalarExpr {
    let [bias, fraction] = m.pick(EXPONENT);
    let biased = m.add(bits, &m.whole(bias + offset));
    m.with_bits(&m.shl(&biased, &m.whole(fraction)))
}

/// `x` held to a range; NaN stays.
fn held(m: &mut Maths, x: &ScalarExpr, low: f64, high: f64) -> ScalarExpr {
    let (low, high) = (m.number(low), m.number(high));
    m.bind(m.min(&m.max(x, &low), &high))
}

/// `x = n ln 2 + r`; `rounded` is `n` plus the rounder, `growth` is `exp(r) - 1`.
struct Parts {
    rounded: ScalarExpr,
    growth: ScalarExpr,
}

/// `x` is held to a range where `n` fits an exponent.
fn parts(m: &mut Maths, x: &ScalarExpr) -> Parts {
    let rounder = m.number(m.pick(ROUNDER));
    let [high, low] = m.pick(LN2);
    let rounded = m.bind(m.fma(x, &m.number(std::f64::consts::LOG2_E), &rounder));
    let n = m.bind(m.sub(&rounded, &rounder));
    let rest = m.bind(m.fma(&n, &m.number(-high), x));
    let rest = m.bind(m.fma(&n, &m.number(-low), &rest));
    let growth = growth(m, &rest, None);
    Parts { rounded, growth }
}

/// `exp(r + low) - 1` for a small `r` and a `low` beyond its last place.
fn growth(m: &mut Maths, rest: &ScalarExpr, low: Option<&ScalarExpr>) -> ScalarExpr {
    let square = m.bind(m.mul(rest, rest));
    let q = m.polynomial(rest, m.pick(EXPM1));
    let sum = match low {
        Some(low) => m.add(&m.fma(&q, &square, low), rest),
        None => m.fma(&q, &square, rest),
    };
    m.bind(sum)
}

/// Up to here `2^n` is zero: the least number is more than twice as large.
const VANISHED: Of<i64> = Of { f32: -150, f64: -1076 };

/// `(1 + growth) 2^(n + offset)` for `n` from [`VANISHED`] on, in two factors; `rounded` is `n`
/// plus the rounder, whose own bits are far above those of `n`. The first factor is held to where
/// the second one is zero as soon as the result is: a processor takes long over a product that
/// vanishes, not over one by zero, and a softmax that is masked has as many as others.
fn scaled(m: &mut Maths, rounded: &ScalarExpr, growth: &ScalarExpr, offset: i64) -> ScalarExpr {
    let [bias, _] = m.pick(EXPONENT);
    let rounder = m.pick(ROUNDER);
    let own =
        m.pick(Of { f32: i64::from((rounder as f32).to_bits()), f64: rounder.to_bits() as i64 });
    let least = own + m.pick(VANISHED) + bias + 1;
    let bits = m.bind(m.bits(rounded));
    let held = m.bind(m.max(&bits, &m.whole(least)));
    let other = m.sub(&bits, &held);
    let first = m.mul(&m.add(growth, &m.number(1.0)), &power_of_two(m, &held, offset - 1));
    m.mul(&first, &power_of_two(m, &other, 1))
}

/// Beyond these, exp is infinite or zero.
const EXP_RANGE: Of<[f64; 2]> = Of { f32: [-104.0, 89.0], f64: [-746.0, 710.0] };

pub(super) fn exp(m: &mut Maths, x: &ScalarExpr) -> ScalarExpr {
    let [low, high] = m.pick(EXP_RANGE);
    let x = held(m, x, low, high);
    let parts = parts(m, &x);
    scaled(m, &parts.rounded, &parts.growth, 0)
}

/// Below these, exp does not count beside 1, and `2^(n - 1)` is a number still.
const COUNTS: Of<f64> = Of { f32: -86.0, f64: -700.0 };

/// `exp(x) + c` for a `c` of at least 1 in size: the same bits as of the two, with one power of
/// two, since no result is below the normal range.
pub(super) fn exp_plus(m: &mut Maths, x: &ScalarExpr, c: &ScalarExpr) -> ScalarExpr {
    let [twice, half] = normal(m, x);
    m.fma(&twice, &half, c)
}

/// `exp(x)`, or zero where `x` is below `least`, from where on [results are
/// normal](is_normal_from): the same bits as of the two.
pub(super) fn exp_or_zero(m: &mut Maths, x: &ScalarExpr, least: &ScalarExpr) -> ScalarExpr {
    let [twice, half] = normal(m, x);
    let value = m.mul(&twice, &half);
    m.select(&m.lt(x, least), &m.number(0.0), &value)
}

/// Whether exp of such a number, and half of it, are normal numbers.
pub(super) fn is_normal_from(dtype: DType, least: f64) -> bool {
    Format::of(dtype).is_some_and(|format| match format {
        Format::F32 => least >= COUNTS.f32,
        Format::F64 => least >= COUNTS.f64,
    })
}

/// Two factors of `exp(x)` for an `x` from where [it counts beside 1](COUNTS): twice a number near
/// 1, and half of a power of two, for which there is an exponent up to where exp is infinite.
fn normal(m: &mut Maths, x: &ScalarExpr) -> [ScalarExpr; 2] {
    let [_, high] = m.pick(EXP_RANGE);
    let x = held(m, x, m.pick(COUNTS), high);
    let Parts { rounded, growth } = parts(m, &x);
    let half = power_of_two(m, &m.bits(&rounded), -1);
    [m.fma(&growth, &m.number(2.0), &m.number(2.0)), half]
}

/// `exp(x)` for `x` between -87 and 0.
pub(super) fn exp_of_small(m: &mut Maths, x: &ScalarExpr) -> ScalarExpr {
    let parts = parts(m, x);
    let power = power_of_two(m, &m.bits(&parts.rounded), 0);
    m.mul(&m.add(&parts.growth, &m.number(1.0)), &power)
}

/// With the whole part taken off, the rest times ln 2, to twice the precision.
pub(super) fn exp2(m: &mut Maths, x: &ScalarExpr) -> ScalarExpr {
    exp2_of_sum(m, x, None)
}

/// `2^(x + low)`, where `low` is small beside `x`.
pub(super) fn exp2_of_sum(m: &mut Maths, x: &ScalarExpr, low: Option<&ScalarExpr>) -> ScalarExpr {
    let [least, most] = m.pick(Of { f32: [-150.0, 129.0], f64: [-1076.0, 1025.0] });
    let x = held(m, x, least, most);
    let rounder = m.number(m.pick(ROUNDER));
    let rounded = m.bind(m.add(&x, &rounder));
    let mut rest = m.sub(&x, &m.sub(&rounded, &rounder));
    if let Some(low) = low {
        rest = m.add(&rest, low);
    }
    let rest = m.bind(rest);
    let [high, low] = m.pick(LN2).map(|part| m.number(part));
    let scaled_rest = m.bind(m.mul(&rest, &high));
    let error = m.fma(&rest, &high, &m.neg(&scaled_rest));
    let error = m.bind(m.fma(&rest, &low, &error));
    let growth = growth(m, &scaled_rest, Some(&error));
    scaled(m, &rounded, &growth, 0)
}

/// `exp(x) - 1` for `x` from -40 to where exp is infinite: `2 (2^(n-1) growth + (2^(n-1) - 1/2))`.
fn expm1_of_held(m: &mut Maths, x: &ScalarExpr) -> ScalarExpr {
    let parts = parts(m, x);
    let power = power_of_two(m, &m.bits(&parts.rounded), -1);
    let power = m.bind(power);
    let half = m.fma(&power, &parts.growth, &m.sub(&power, &m.number(0.5)));
    m.mul(&half, &m.number(2.0))
}

pub(super) fn expm1(m: &mut Maths, x: &ScalarExpr) -> ScalarExpr {
    let [_, high] = m.pick(EXP_RANGE);
    let inside = held(m, x, -40.0, high);
    let value = expm1_of_held(m, &inside);
    // Here it is the operand, rounded: zeros keep their sign and subnormal numbers their bits.
    let tiny = m.number(m.pick(Of { f32: 2f64.powi(-25), f64: 2f64.powi(-54) }));
    m.select(&m.lt(&m.abs(x), &tiny), x, &value)
}

/// `e / (e + 2)` for `e = exp(2|x|) - 1`, with the sign of `x`; 1 from 11 (22) on.
pub(super) fn tanh(m: &mut Maths, x: &ScalarExpr) -> ScalarExpr {
    let most = m.number(m.pick(Of { f32: 11.0, f64: 22.0 }));
    let size = m.bind(m.abs(x));
    let size = m.select(&m.gt(&size, &most), &most, &size);
    let double = m.bind(m.mul(&size, &m.number(2.0)));
    let e = expm1_of_held(m, &double);
    let e = m.bind(e);
    let two = if base::fault::is_seeded("schedule.tanh") { 2.001 } else { 2.0 };
    let ratio = m.div(&e, &m.add(&e, &m.number(two)));
    m.with_sign(&ratio, x)
}

/// Where `exp(-x)` no longer counts beside `exp(x)`, and where `exp(x) / 2` is infinite.
const HYPERBOLIC: Of<[f64; 2]> = Of { f32: [20.0, 90.0], f64: [40.0, 711.0] };

/// `(e + e / (e + 1)) / 2` for `e = exp(|x|) - 1`; far out `exp(|x|) / 2`.
pub(super) fn sinh(m: &mut Maths, x: &ScalarExpr) -> ScalarExpr {
    let [far, most] = m.pick(HYPERBOLIC);
    let size = m.bind(m.abs(x));
    let size = held(m, &size, 0.0, most);
    let parts = parts(m, &size);
    let large = scaled(m, &parts.rounded, &parts.growth, -1);
    let power = power_of_two(m, &m.bits(&parts.rounded), -1);
    let power = m.bind(power);
    let half = m.bind(m.fma(&power, &parts.growth, &m.sub(&power, &m.number(0.5))));
    let e = m.mul(&half, &m.number(2.0));
    let near = m.add(&half, &m.div(&half, &m.add(&e, &m.number(1.0))));
    let value = m.select(&m.gt(&size, &m.number(far)), &large, &near);
    m.with_sign(&value, x)
}

/// `h + 1 / (4 h)` for `h = exp(|x|) / 2`.
pub(super) fn cosh(m: &mut Maths, x: &ScalarExpr) -> ScalarExpr {
    let [_, most] = m.pick(HYPERBOLIC);
    let size = m.bind(m.abs(x));
    let size = held(m, &size, 0.0, most);
    let parts = parts(m, &size);
    let half = scaled(m, &parts.rounded, &parts.growth, -1);
    let half = m.bind(half);
    m.add(&half, &m.div(&m.number(0.25), &half))
}
