//! The error function.
//!
//! Near zero `erf(x) = x + x p(x^2)`; farther out `erf(x) = 1 - exp(-g(x))` with a polynomial `g`
//! fitted to `-log(1 - erf(x))` so that the error of the whole is least (`tools/minimax.py`).
//! Beyond the last point it is 1.
//!
//! `erf(x) + 1`, which Gelu needs, is `2 - erfc(x)` above zero and `erfc(-x)` below, each of them
//! `exp(x h(x))`.
//!
//! Largest error found in f32: 1.1 ULP; of `erf(x) + 1` 1.1 of one that is at least 1. In f64 none
//! was found to be more than 2 ULP from the table's.

use loops::ScalarExpr;

use super::exponential::exp_of_small;
use super::maths::{Maths, Of};

/// Where the second form begins, and where the function is 1.
const BOUNDS: Of<[f64; 2]> = Of { f32: [0.9, 4.0], f64: [0.9, 6.0] };

/// `p`.
const NEAR: Of<&[f64]> = Of {
    f32: &[
        0.128379166,
        -0.376126289,
        0.112836257,
        -0.0268557407,
        0.00519246049,
        -0.000805080403,
        8.00277485e-05,
    ],
    f64: &[
        0.1283791670955126,
        -0.3761263890318411,
        0.11283791670972038,
        -0.026866170648260124,
        0.00522397765507218,
        -0.0008548328651953577,
        0.0001205538821208567,
        -1.4926829679592067e-5,
        1.6477630499513478e-6,
        -1.6479657472450694e-7,
        1.5098071718517376e-8,
        -1.0824522969498125e-9,
    ],
};

/// `g`.
const FAR: Of<&[f64]> = Of {
    f32: &[
        -0.000170551633,
        1.12949514,
        0.633386731,
        0.108236447,
        -0.0250913408,
        0.00416046986,
        -0.000432301458,
        2.09118662e-05,
    ],
    f64: &[
        -2.382445995054527e-8,
        1.1283794752003395,
        0.6366178895261091,
        0.10277983684274067,
        -0.01914805281152003,
        -0.00016931991084151972,
        0.0016330328524460536,
        -0.0005102732062012141,
        -5.5877134934531634e-5,
        0.0001328489552643825,
        -7.646143154201324e-5,
        2.9338441402816112e-5,
        -8.563724111801303e-6,
        1.976437574029376e-6,
        -3.6377918520311305e-7,
        5.301905068404713e-8,
        -5.997993126051926e-9,
        5.083677420582803e-10,
        -3.037791662146531e-11,
        1.1407792224109177e-12,
        -2.0235036482432157e-14,
    ],
};

/// `h` in f32.
const COMPLEMENT: &[f64] = &[
    -1.12837946,
    -0.63661319,
    -0.102817491,
    0.0192693919,
    -1.73238022e-05,
    -0.00152027817,
    0.000570913253,
    -0.000108162603,
    1.05076479e-05,
    -4.05043409e-07,
];

/// Beyond this, `erfc` does not count.
const VANISHED: f64 = 9.0;

/// `erf(x) + 1` in f32: below zero it is as small as it should be, where the sum of the two leaves
/// what 1 is rounded by.
pub(super) fn erf_plus_one(m: &mut Maths, x: &ScalarExpr) -> ScalarExpr {
    let size = m.bind(m.abs(x));
    let exponent = m.bind(m.mul(&m.polynomial(&size, COMPLEMENT), &size));
    let rest = exp_of_small(m, &exponent);
    let vanished = m.gt(&size, &m.number(VANISHED));
    let rest = m.bind(m.select(&vanished, &m.number(0.0), &rest));
    m.select(&m.lt(x, &m.number(0.0)), &rest, &m.sub(&m.number(2.0), &rest))
}

pub(super) fn erf(m: &mut Maths, x: &ScalarExpr) -> ScalarExpr {
    let [first, last] = m.pick(BOUNDS).map(|bound| m.number(bound));
    let size = m.bind(m.abs(x));
    let square = m.bind(m.mul(&size, &size));
    let near = m.fma(&size, &m.polynomial(&square, m.pick(NEAR)), &size);
    let far = m.bind(m.select(&m.gt(&size, &last), &last, &size));
    let exponent = m.bind(m.neg(&m.polynomial(&far, m.pick(FAR))));
    let rest = exp_of_small(m, &exponent);
    let far = m.sub(&m.number(1.0), &rest);
    let value = m.select(&m.lt(&size, &first), &near, &far);
    m.with_sign(&value, x)
}
