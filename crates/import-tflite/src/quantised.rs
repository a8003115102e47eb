//! Integers that stand for numbers, in a graph: what the reference kernels compute of them, bit by
//! bit, as primitives on integers of 32 and 64 bits.
//!
//! A sum of products is brought to the scale of a result by a multiplier, a fraction of 31 bits and
//! a shift. It is rounded twice as the kernels do: half up at bit 31, half away from zero behind
//! the shift.

use front::{Accepted, Graph, Operand};
use sym::Expr;
use tensor::{DType, Scalar, ScalarFunction as F, Tensor};

use crate::fixed_point::Multiplier;
use crate::node::Affine;

/// A multiplier for all elements, or one for each index of an axis.
#[derive(Clone, Debug)]
pub(crate) struct Multipliers {
    all: Vec<Multiplier>,
    axis: usize,
}

impl Multipliers {
    /// The same for all.
    pub(crate) fn single(number: f64) -> Multipliers {
        Multipliers::of_one(Multiplier::of(number))
    }

    /// The same for all.
    pub(crate) fn of_one(one: Multiplier) -> Multipliers {
        Multipliers { all: vec![one], axis: 0 }
    }

    /// One each along an axis.
    pub(crate) fn along(axis: usize, numbers: impl Iterator<Item = f64>) -> Multipliers {
        Multipliers { all: numbers.map(Multiplier::of).collect(), axis }
    }

    /// What is said of each as a constant that broadcasts to a shape.
    fn constant(
        &self,
        graph: &mut Graph,
        (dtype, shape): (DType, &[Expr]),
        of: impl Fn(&Multiplier) -> i64,
    ) -> Accepted<Operand> {
        let numbers: Vec<Scalar> =
            self.all.iter().map(|it| Scalar::from_i64(dtype, of(it))).collect();
        if numbers.windows(2).all(|two| two[0] == two[1]) {
            return Ok(Operand::of_scalar(numbers[0]));
        }
        let tensor = Tensor::from_scalars(dtype, &[numbers.len()], &numbers);
        let value = front::constant_value("", tensor, false);
        graph.broadcast_axis(&value, shape, self.axis)
    }
}

/// The integers less their zero point, as i32.
pub(crate) fn centred(graph: &mut Graph, value: &Operand, affine: Affine) -> Accepted<Operand> {
    let wide = graph.cast(value, DType::I32)?;
    if affine.zero_point == 0 {
        return Ok(wide);
    }
    let zero = graph.number(DType::I32, f64::from(affine.zero_point));
    graph.sub(&wide, &zero)
}

/// The upper half of twice the product of two i32, rounded half up.
pub(crate) fn doubling_high(graph: &mut Graph, a: &Operand, b: &Operand) -> Accepted<Operand> {
    let (a, b) = (graph.cast(a, DType::I64)?, graph.cast(b, DType::I64)?);
    let product = graph.mul(&a, &b)?;
    let product = graph.add_number(&product, f64::from(1 << 30))?;
    // All bits of the result are there, whichever bits come in from the left.
    let product = graph.cast(&product, DType::U64)?;
    let shift = graph.number(DType::U64, 31.0);
    let high = graph.map(F::Shr, &[&product, &shift])?;
    graph.cast(&high, DType::I32)
}

/// A value over powers of two, rounded half away from zero; amounts from 1 on, where they are data.
/// It is halved last, so that nothing that is added on the way is too much for its type.
pub(crate) fn rounding_shift(
    graph: &mut Graph,
    value: &Operand,
    amount: &Operand,
) -> Accepted<Operand> {
    let dtype = value.dtype();
    let is_zero = |it: &Scalar| it.as_i64() == 0;
    let numbers = amount.numbers();
    if numbers.as_ref().is_some_and(|all| all.iter().all(is_zero)) {
        return Ok(value.clone());
    }
    let sign = graph.number(dtype, f64::from(dtype.bits() - 1));
    let mut sign = graph.map(F::Shr, &[value, &sign])?;
    // Where nothing is shifted out, nothing is rounded.
    let one = graph.number(dtype, 1.0);
    let mut last = one.clone();
    let mut first = graph.sub(amount, &one)?;
    if numbers.is_some_and(|all| all.iter().any(is_zero)) {
        let zero = graph.number(dtype, 0.0);
        last = graph.min(amount, &one)?;
        first = graph.max(&first, &zero)?;
        sign = graph.mul(&sign, &last)?;
    }
    let nudged = graph.add(value, &sign)?;
    let twice = graph.map(F::Shr, &[&nudged, &first])?;
    let nudged = graph.add(&twice, &last)?;
    graph.map(F::Shr, &[&nudged, &last])
}

/// An i32 times multipliers.
pub(crate) fn times(graph: &mut Graph, value: &Operand, by: &Multipliers) -> Accepted<Operand> {
    let shape = value.shape().to_vec();
    let mut value = value.clone();
    if by.all.iter().any(|it| it.exponent > 0) {
        let power = |it: &Multiplier| 1_i64.checked_shl(it.exponent.max(0) as u32).unwrap_or(0);
        let power = by.constant(graph, (DType::I32, &shape), power)?;
        value = graph.mul(&value, &power)?;
    }
    let significand = |it: &Multiplier| i64::from(it.significand);
    let significand = by.constant(graph, (DType::I32, &shape), significand)?;
    let high = doubling_high(graph, &value, &significand)?;
    let amount = |it: &Multiplier| i64::from((-it.exponent).max(0));
    let amount = by.constant(graph, (DType::I32, &shape), amount)?;
    rounding_shift(graph, &high, &amount)
}

/// An i64 times multipliers, of which 15 bits count, rounded half up once; as i32.
pub(crate) fn times_wide(
    graph: &mut Graph,
    value: &Operand,
    by: &Multipliers,
) -> Accepted<Operand> {
    let shape = value.shape().to_vec();
    let significand = |it: &Multiplier| match it.significand < 0x7fff_0000 {
        true => i64::from((it.significand + (1 << 15)) >> 16),
        false => 0x7fff,
    };
    let significand = by.constant(graph, (DType::I64, &shape), significand)?;
    let product = graph.mul(value, &significand)?;
    let amount = |it: &Multiplier| i64::from(15 - it.exponent).max(1);
    let half = by.constant(graph, (DType::I64, &shape), |it| 1_i64 << (amount(it) - 1).min(62))?;
    let amount = by.constant(graph, (DType::I64, &shape), amount)?;
    let nudged = graph.add(&product, &half)?;
    let shifted = graph.map(F::Shr, &[&nudged, &amount])?;
    graph.cast(&shifted, DType::I32)
}

/// An i32 of the result's scale as the result: its zero point added, within a range.
pub(crate) fn finish(
    graph: &mut Graph,
    value: &Operand,
    affine: Affine,
    (low, high): (i32, i32),
    dtype: DType,
) -> Accepted<Operand> {
    let shifted = match affine.zero_point {
        0 => value.clone(),
        zero => graph.add_number(value, f64::from(zero))?,
    };
    let bounded = graph.clamp(&shifted, f64::from(low), f64::from(high))?;
    graph.cast(&bounded, dtype)
}

/// What a table has for each value of 8 bits: `entry` of the integer that the byte is.
pub(crate) fn look_up(
    graph: &mut Graph,
    value: &Operand,
    dtype: DType,
    entry: impl Fn(i32) -> i64,
) -> Accepted<Operand> {
    let own = value.dtype();
    let entries: Vec<Scalar> = (0..256_u64)
        .map(|byte| entry(Scalar::from_bits(own, byte).as_i64() as i32))
        .map(|number| Scalar::from_i64(dtype, number))
        .collect();
    let table = Operand::of_weight(String::new(), Tensor::from_scalars(dtype, &[256], &entries));
    let byte = match own {
        DType::U8 => value.clone(),
        _ => {
            let id = graph.data(value)?;
            let built = graph.builder.bitcast(id, DType::U8);
            graph.built(built)?
        }
    };
    let index = graph.cast(&byte, DType::I64)?;
    graph.gather(&table, &[0], &[index], 0, 0)
}
