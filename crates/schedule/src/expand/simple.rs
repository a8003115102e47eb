//! Functions that are a few machine functions: exact for every operand.

use loops::ScalarExpr;
use tensor::{DType, Scalar, ScalarFunction};

use super::maths::Maths;

/// `1 / x`, rounded once.
pub(super) fn reciprocal(m: &mut Maths, x: &ScalarExpr) -> ScalarExpr {
    m.div(&m.number(1.0), x)
}

/// -1 or 1; zeros and NaN as they are.
pub(super) fn sign(m: &mut Maths, x: &ScalarExpr) -> ScalarExpr {
    let one = m.with_sign(&m.number(1.0), x);
    let nonzero = m.gt(&m.abs(x), &m.number(0.0));
    m.select(&nonzero, &one, x)
}

/// Only NaN differs from itself.
pub(super) fn is_nan(m: &mut Maths, x: &ScalarExpr) -> ScalarExpr {
    m.ne(x, x)
}

/// The size is infinite.
pub(super) fn is_inf(m: &mut Maths, x: &ScalarExpr) -> ScalarExpr {
    m.eq(&m.abs(x), &m.number(f64::INFINITY))
}

/// A function of integers; exact.
pub(super) fn integer(
    m: &mut Maths,
    function: ScalarFunction,
    dtype: DType,
    x: &[ScalarExpr],
) -> Option<ScalarExpr> {
    use ScalarFunction as F;
    Some(match function {
        F::Sign => integer_sign(m, dtype, &x[0]),
        F::Rem => remainder(m, &x[0], &x[1]),
        F::Mod => modulo(m, dtype, &x[0], &x[1]),
        F::Pow => power(m, dtype, &x[0], &x[1]),
        F::Popcount | F::CountLeadingZeros if dtype.bytes().is_none() => return None,
        F::Popcount => ones(m, dtype, &x[0]),
        F::CountLeadingZeros => leading_zeros(m, dtype, &x[0]),
        _ => return None,
    })
}

fn number(dtype: DType, value: i64) -> ScalarExpr {
    ScalarExpr::Constant(Scalar::from_i64(dtype, value))
}

fn integer_sign(m: &mut Maths, dtype: DType, x: &ScalarExpr) -> ScalarExpr {
    let (zero, one) = (number(dtype, 0), number(dtype, 1));
    let positive = m.select(&m.gt(x, &zero), &one, &zero);
    match dtype.is_signed_integer() {
        true => m.select(&m.lt(x, &zero), &number(dtype, -1), &positive),
        false => positive,
    }
}

/// `a - (a / b) * b`, which is `a` for a zero `b`.
fn remainder(m: &mut Maths, a: &ScalarExpr, b: &ScalarExpr) -> ScalarExpr {
    m.sub(a, &m.mul(&m.div(a, b), b))
}

/// The remainder, plus the divisor where signs differ.
fn modulo(m: &mut Maths, dtype: DType, a: &ScalarExpr, b: &ScalarExpr) -> ScalarExpr {
    let rest = remainder(m, a, b);
    if !dtype.is_signed_integer() {
        return rest;
    }
    let rest = m.bind(rest);
    let zero = number(dtype, 0);
    // Signs differ where the exclusive disjunction is negative; a zero divisor leaves `a`, to which
    // adding zero does nothing.
    let differ = m.lt(&m.xor(&rest, b), &zero);
    let differ = m.and(&differ, &m.ne(&rest, &zero));
    m.select(&differ, &m.add(&rest, b), &rest)
}

/// By squaring, a bit of the exponent at a time; negative exponents as `1 / a^-b` truncated.
fn power(m: &mut Maths, dtype: DType, a: &ScalarExpr, b: &ScalarExpr) -> ScalarExpr {
    let (zero, one) = (number(dtype, 0), number(dtype, 1));
    let (mut base, mut result) = (a.clone(), one.clone());
    for bit in 0..dtype.bits() {
        let mask = ScalarExpr::Constant(Scalar::from_bits(dtype, 1 << bit));
        let is_set = m.ne(&m.and(b, &mask), &zero);
        result = m.bind(m.mul(&result, &m.select(&is_set, &base, &one)));
        base = m.bind(m.mul(&base, &base));
    }
    if !dtype.is_signed_integer() {
        return result;
    }
    let minus_one = number(dtype, -1);
    let odd = m.ne(&m.and(b, &one), &zero);
    let of_minus_one = m.select(&odd, &minus_one, &one);
    // 1 / 0 is -1.
    let mut negative = m.select(&m.eq(a, &zero), &minus_one, &zero);
    negative = m.select(&m.eq(a, &minus_one), &of_minus_one, &negative);
    negative = m.select(&m.eq(a, &one), &one, &negative);
    m.select(&m.lt(b, &zero), &negative, &result)
}

/// The bits as an unsigned number of the same width.
fn unsigned(m: &mut Maths, dtype: DType, x: &ScalarExpr) -> (DType, ScalarExpr) {
    let to = match dtype.bits() {
        64 => DType::U64,
        32 => DType::U32,
        16 => DType::U16,
        _ => DType::U8,
    };
    let (function, arguments) = (ScalarFunction::Bitcast, vec![x.clone()]);
    (to, m.bind(ScalarExpr::Apply { function, dtype: to, arguments }))
}

/// Sums of ever wider fields.
fn ones(m: &mut Maths, dtype: DType, x: &ScalarExpr) -> ScalarExpr {
    let (wide, mut sums) = unsigned(m, dtype, x);
    let mut width = 1;
    while width < wide.bits() {
        // Every other field of this width.
        let fields = (0..wide.bits()).filter(|bit| bit / width % 2 == 0);
        let mask = fields.fold(0u64, |mask, bit| mask | 1 << bit);
        let mask = ScalarExpr::Constant(Scalar::from_bits(wide, mask));
        let upper = m.shr(&sums, &number(wide, i64::from(width)));
        let sum = m.add(&m.and(&sums, &mask), &m.and(&upper, &mask));
        sums = m.bind(sum);
        width *= 2;
    }
    loops::build::cast(dtype, sums)
}

/// Copies the highest one bit to all below, whose number is then the rest of the width.
fn leading_zeros(m: &mut Maths, dtype: DType, x: &ScalarExpr) -> ScalarExpr {
    let (wide, mut bits) = unsigned(m, dtype, x);
    let mut width = 1;
    while width < wide.bits() {
        let lower = m.shr(&bits, &number(wide, width.into()));
        bits = m.bind(m.or(&bits, &lower));
        width *= 2;
    }
    let zeros = m.bind(m.not(&bits));
    let count = ones(m, wide, &zeros);
    loops::build::cast(dtype, count)
}
