//! Curves: of numbers as formulas, of bytes as tables, of which the entries are what the reference
//! kernels compute of each byte.

use front::{Accepted, Graph, Operand, type_error, unsupported};
use graph::Op;
use tensor::{DType, Reduction, ScalarFunction as F};

use super::elementwise::{formula, not_quantised};
use crate::fixed_point::{Multiplier, exponential, input_radius, rounding_shift};
use crate::node::{Lowered, Node, integer_range};
use crate::quantised::{self, look_up};

/// A curve of bytes: what it is of the number that a byte stands for, in single precision.
fn curve(node: &Node<'_>, graph: &mut Graph, of: impl Fn(f32) -> f32) -> Lowered {
    let x = node.input(0)?;
    let dtype = node.dtype()?;
    if x.dtype().bits() != 8 || dtype.bits() != 8 {
        return Err(type_error(format!("quantised elements of type {}", x.dtype())));
    }
    let (own, result) = (node.affine(0)?, node.result_affine()?);
    let (low, high) = integer_range(dtype);
    let inverse = 1.0 / result.scale;
    let entry = |integer: i32| {
        let number = own.scale * (integer - own.zero_point) as f32;
        let steps = (of(number) * inverse).round();
        let shifted = (steps + result.zero_point as f32) as i32;
        i64::from(shifted.clamp(low, high))
    };
    Ok(vec![look_up(graph, &x, dtype, entry)?])
}

/// A curve as a formula, or for bytes as a table.
fn either(
    node: &Node<'_>,
    graph: &mut Graph,
    numbers: impl FnOnce(&mut Graph, &Operand) -> Accepted<Operand>,
    bytes: impl Fn(f32) -> f32,
) -> Lowered {
    match node.is_quantised(0)? {
        true => curve(node, graph, bytes),
        false => formula(node, graph, numbers),
    }
}

/// `LOGISTIC`
pub(super) fn logistic(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    either(node, graph, Graph::sigmoid, |x| 1.0 / (1.0 + (-x).exp()))
}

/// `TANH`
pub(super) fn tanh(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    either(node, graph, Graph::tanh, f32::tanh)
}

/// `EXP`
pub(super) fn exp(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    either(node, graph, Graph::exp, f32::exp)
}

/// `ELU`
pub(super) fn elu(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let numbers = |graph: &mut Graph, x: &Operand| {
        let below = graph.map(F::Expm1, &[x])?;
        let zero = graph.number(x.dtype(), 0.0);
        let is_below = graph.less(x, &zero)?;
        graph.select(&is_below, &below, x)
    };
    either(node, graph, numbers, |x| if x < 0.0 { x.exp_m1() } else { x })
}

/// `GELU`, by the error function or its approximation by the hyperbolic tangent.
pub(super) fn gelu(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let approximate = node.options()?.flag(0, false)?;
    let bytes = |x: f32| match approximate {
        true => {
            let inner = 0.797_884_6 * (x + 0.044_715 * x * x * x);
            0.5 * x * (1.0 + inner.tanh())
        }
        false => {
            0.5 * x
                * (1.0
                    + tensor::function::erf(f64::from(x * std::f32::consts::FRAC_1_SQRT_2)) as f32)
        }
    };
    either(node, graph, |graph, x| front::gelu_of(graph, x, !approximate), bytes)
}

/// `HARD_SWISH`: `x * min(6, max(0, x + 3)) / 6`, of bytes in fractions of 15 bits.
pub(super) fn hard_swish(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    if !node.is_quantised(0)? {
        return formula(node, graph, |graph, x| {
            let gate = graph.add_number(x, 3.0)?;
            let gate = graph.clamp(&gate, 0.0, 6.0)?;
            let product = graph.mul(x, &gate)?;
            let six = graph.number(x.dtype(), 6.0);
            graph.div(&product, &six)
        });
    }
    let (x, dtype) = (node.input(0)?, node.dtype()?);
    if x.dtype().bits() != 8 || dtype.bits() != 8 {
        return Err(type_error(format!("quantised elements of type {}", x.dtype())));
    }
    let (own, result) = (node.affine(0)?, node.result_affine()?);
    let finer = own.scale / 128.0;
    let output = Multiplier::of(f64::from(finer / result.scale));
    let gate = Multiplier::of(f64::from(finer / (3.0 / 32768.0)));
    if output.exponent > 0 {
        return Err(node.output(0)?.refused("its scale is finer than the input's by 128 or more"));
    }
    let (low, high) = integer_range(dtype);
    let entry = |integer: i32| {
        let value = ((integer - own.zero_point) << 7) as i16;
        let scaled = short_doubling_high(value, short(output.significand));
        let mut reached = value;
        if gate.exponent > 0 {
            reached = short_shift(reached, gate.exponent - 1);
        }
        reached = short_doubling_high(reached, short(gate.significand));
        if gate.exponent > 0 {
            reached = short_shift(reached, 1);
        }
        if gate.exponent < 0 {
            reached = rounding_shift(i32::from(reached), (-gate.exponent) as u32) as i16;
        }
        let reached = ((i32::from(reached) + (1 << 15)) >> 1) as i16;
        // Rounded towards zero, unlike the products before it.
        let product = (i32::from(reached) * i32::from(scaled) / (1 << 15)) as i16;
        let shifted = rounding_shift(i32::from(product), (-output.exponent) as u32);
        i64::from((shifted + result.zero_point).clamp(low, high))
    };
    Ok(vec![look_up(graph, &x, dtype, entry)?])
}

/// The upper half of a significand, rounded.
fn short(significand: i32) -> i16 {
    let most = i64::from(i16::MAX) << 16;
    ((i64::from(significand).min(most) + (1 << 15)) >> 16).min(i64::from(i16::MAX)) as i16
}

fn short_doubling_high(a: i16, b: i16) -> i16 {
    let product = i32::from(a) * i32::from(b);
    ((product + (1 << 14)) >> 15).min(i32::from(i16::MAX)) as i16
}

fn short_shift(value: i16, amount: i32) -> i16 {
    let shifted = i64::from(value) << amount.min(32);
    shifted.clamp(i64::from(i16::MIN), i64::from(i16::MAX)) as i16
}

/// `RSQRT` of numbers.
pub(super) fn inverse_root(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    formula(node, graph, |graph, x| {
        let root = graph.sqrt(x)?;
        graph.map(F::Reciprocal, &[&root])
    })
}

/// Numbers less their greatest along the last axis, the exponentials of that, and their sums.
fn exponentials(graph: &mut Graph, x: &Operand) -> Accepted<(Operand, Operand, Operand)> {
    let last = x.rank().checked_sub(1).ok_or_else(|| unsupported("a value without axes"))?;
    front::shifted_exponentials(graph, x, &[last])
}

/// `LOG_SOFTMAX` of numbers.
pub(super) fn log_softmax(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    not_quantised(node)?;
    let (shifted, _, sum) = exponentials(graph, &node.input(0)?)?;
    let log = graph.log(&sum)?;
    Ok(vec![graph.sub(&shifted, &log)?])
}

/// `SOFTMAX` along the last axis.
pub(super) fn softmax(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let beta = node.options()?.number(0, 0.0_f32)?;
    if !node.is_quantised(0)? {
        let scaled = if beta == 1.0 { x } else { graph.mul_number(&x, f64::from(beta))? };
        let (_, exp, sum) = exponentials(graph, &scaled)?;
        return Ok(vec![front::over_sum(graph, &exp, &sum)?]);
    }
    if x.dtype().bits() != 8 {
        return Err(type_error(format!("quantised elements of type {}", x.dtype())));
    }
    let own = node.affine(0)?;
    let by = (f64::from(beta) * own.wide() * f64::from(1 << 26)).min(f64::from(i32::MAX));
    if by.is_nan() || by <= 1.0 {
        return Err(unsupported(format!(
            "a factor of {beta} for numbers of steps of {}",
            own.scale
        )));
    }
    Ok(vec![softmax_of_bytes(node, graph, &x, Multiplier::of(by))?])
}

/// The bits before the point of sums of exponentials.
const SUM_BITS: i32 = 12;

/// The softmax of bytes along the last axis, in fractions of 31 bits: exponentials from a table of
/// the distances from the greatest, and the reciprocal of their sums by three of Newton's steps.
fn softmax_of_bytes(
    node: &Node<'_>,
    graph: &mut Graph,
    x: &Operand,
    by: Multiplier,
) -> Accepted<Operand> {
    let last = x.rank().checked_sub(1).ok_or_else(|| unsupported("a value without axes"))?;
    let dtype = node.dtype()?;
    let radius = input_radius(5, by.exponent);
    let wide = graph.cast(x, DType::I32)?;
    let greatest = graph.reduce_axes(&wide, &[last], Reduction::Max, true)?;
    let distance = graph.sub(&greatest, &wide)?;
    let distance = graph.cast(&distance, DType::U8)?;
    let exp = look_up(graph, &distance, DType::I32, |distance| {
        i64::from(if distance <= radius { exponential(by.times(-distance)) } else { 0 })
    })?;
    let bits = graph.number(DType::I32, f64::from(SUM_BITS));
    let short = quantised::rounding_shift(graph, &exp, &bits)?;
    let sum = graph.reduce_axes(&short, &[last], Reduction::Sum, true)?;
    let headroom = graph.map(F::CountLeadingZeros, &[&sum])?;
    let reciprocal = reciprocal(graph, &sum, &headroom)?;
    let exponent = graph.number(DType::I32, f64::from(SUM_BITS + 31) - f64::from(dtype.bits()));
    let exponent = graph.sub(&exponent, &headroom)?;
    let product = quantised::doubling_high(graph, &reciprocal, &exp)?;
    let exponent = graph.broadcast_to(&exponent, product.shape())?;
    let steps = quantised::rounding_shift(graph, &product, &exponent)?;
    let (low, high) = integer_range(dtype);
    let shifted = graph.add_number(&steps, f64::from(low))?;
    let bounded = graph.clamp(&shifted, f64::from(low), f64::from(high))?;
    graph.cast(&bounded, dtype)
}

/// One over a sum that is shifted left by its leading zeros, so that it lies between a half and 1;
/// 31 bits behind the point.
fn reciprocal(graph: &mut Graph, sum: &Operand, headroom: &Operand) -> Accepted<Operand> {
    // What it is more than a half, with the point one place further to the left.
    let shifted = graph.map(F::Shl, &[sum, headroom])?;
    let lowest = graph.number(DType::I32, f64::from(i32::MIN));
    let rest = graph.sub(&shifted, &lowest)?;
    let rest = graph.cast(&rest, DType::I64)?;
    let twice = graph.add_number(&rest, f64::from(1_u32 << 31))?;
    let two = graph.number(DType::I64, 2.0);
    let half = graph.div(&twice, &two)?;
    let half = graph.cast(&half, DType::I32)?;
    // Two bits before the point: 48/17 - 32/17 of it is near the reciprocal.
    let slope = graph.number(DType::I32, -1_010_580_540.0);
    let first = quantised::doubling_high(graph, &half, &slope)?;
    let mut x = graph.add_number(&first, 1_515_870_810.0)?;
    for _ in 0..3 {
        let product = quantised::doubling_high(graph, &half, &x)?;
        let one = graph.number(DType::I32, f64::from(1 << 29));
        let rest = graph.sub(&one, &product)?;
        let step = quantised::doubling_high(graph, &x, &rest)?;
        let step = graph.mul_number(&step, 4.0)?;
        x = graph.add(&x, &step)?;
    }
    let wide = graph.cast(&x, DType::I64)?;
    let doubled = graph.mul_number(&wide, 2.0)?;
    let most = graph.number(DType::I64, f64::from(i32::MAX));
    let bounded = graph.min(&doubled, &most)?;
    graph.cast(&bounded, DType::I32)
}

/// `L2_NORMALIZATION` of numbers along the last axis.
pub(super) fn normalised(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    not_quantised(node)?;
    let x = node.input(0)?;
    let last = x.rank().checked_sub(1).ok_or_else(|| unsupported("a value without axes"))?;
    let square = graph.square(&x)?;
    let sum = graph.reduce_axes(&square, &[last], Reduction::Sum, true)?;
    let root = graph.sqrt(&sum)?;
    let least = graph.number(x.dtype(), 1e-6);
    let root = graph.max(&root, &least)?;
    let result = graph.div(&x, &root)?;
    Ok(vec![node.options()?.activation(0)?.of(graph, &result)?])
}

/// A running sum along an axis.
pub(super) fn running_sum(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    not_quantised(node)?;
    let x = node.input(0)?;
    let axis = front::normalize_axis(node.integer(1, "axis")?, x.rank())?;
    let options = node.options()?;
    let (exclusive, reverse) = (options.flag(0, false)?, options.flag(1, false)?);
    let op = Op::Cumulate { axis, reduction: Reduction::Sum, exclusive, reverse };
    Ok(vec![graph.primitive(op, &[&x])?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_upper_half_of_a_significand_is_rounded() {
        assert_eq!(short(1 << 30), 1 << 14);
        assert_eq!(short(i32::MAX), i16::MAX);
        assert_eq!(short_doubling_high(i16::MIN, i16::MIN), i16::MAX);
    }
}
