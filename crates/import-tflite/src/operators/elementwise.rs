//! Functions of elements, of one operand or of two that are broadcast.

use front::{Accepted, Graph, Operand, type_error, unsupported};
use tensor::{DType, ScalarFunction as F};

use super::quantise::rescaled;
use crate::fixed_point::Multiplier;
use crate::node::{Activation, Affine, Lowered, Node, integer_range};
use crate::quantised::{Multipliers, centred, finish, rounding_shift, times};

/// The operands of a function of two, of one element type.
fn pair(node: &Node<'_>) -> Accepted<[Operand; 2]> {
    let (a, b) = (node.input(0)?, node.input(1)?);
    match a.dtype() == b.dtype() {
        true => Ok([a, b]),
        false => Err(type_error(format!("{} and {}", a.dtype(), b.dtype()))),
    }
}

/// A function of two that is the same for all element types, quantised or not.
pub(super) fn binary(node: &Node<'_>, graph: &mut Graph, function: F) -> Lowered {
    let [a, b] = pair(node)?;
    Ok(vec![graph.map(function, &[&a, &b])?])
}

/// A function of two numbers, which integers do not stand for.
pub(super) fn plain(node: &Node<'_>, graph: &mut Graph, function: F) -> Lowered {
    not_quantised(node)?;
    binary(node, graph, function)
}

/// Refuses integers that stand for numbers.
pub(super) fn not_quantised(node: &Node<'_>) -> Accepted<()> {
    match node.is_quantised(0)? {
        true => Err(type_error("its operands are quantised")),
        false => Ok(()),
    }
}

/// A sum or difference: of integers that stand for numbers on a common finer scale.
pub(super) fn sum(node: &Node<'_>, graph: &mut Graph, function: F) -> Lowered {
    let [a, b] = pair(node)?;
    let options = node.options()?;
    let activation = options.activation(0)?;
    if !node.is_quantised(0)? {
        let sum = graph.map(function, &[&a, &b])?;
        return Ok(vec![activation.of(graph, &sum)?]);
    }
    let (own, other, result) = (node.affine(0)?, node.affine(1)?, node.result_affine()?);
    let dtype = node.dtype()?;
    let range = activation.integers(result, dtype)?;
    if dtype == DType::I16 && options.flag(1, true)? {
        let powers = [own, other, result].map(power_of_two);
        if let [Some(own), Some(other), Some(result)] = powers {
            let shifts = [own - result, other - result];
            return by_shifts(graph, function, [a, b], (shifts, range)).map(|sum| vec![sum]);
        }
    }
    let bits = if dtype == DType::I16 { 15 } else { 20 };
    let twice = 2.0 * f64::from(own.scale.max(other.scale));
    let finer = f64::from(1 << bits);
    let mut terms = Vec::new();
    for (value, affine) in [(a, own), (b, other)] {
        let value = centred(graph, &value, affine)?;
        let value = graph.mul_number(&value, finer)?;
        terms.push(times(graph, &value, &Multipliers::single(affine.wide() / twice))?);
    }
    let sum = graph.map(function, &[&terms[0], &terms[1]])?;
    let by = Multipliers::single(twice / (finer * result.wide()));
    let scaled = times(graph, &sum, &by)?;
    Ok(vec![finish(graph, &scaled, result, range, dtype)?])
}

/// The exponent of a scale that is a power of two.
fn power_of_two(affine: Affine) -> Option<i32> {
    let power = affine.wide().log2();
    let whole = power.round();
    ((power - whole).abs() < 1e-3).then_some(whole as i32)
}

/// A sum of integers of 16 bits whose scales are powers of two, one of them the result's.
fn by_shifts(
    graph: &mut Graph,
    function: F,
    values: [Operand; 2],
    (shifts, (low, high)): ([i32; 2], (i32, i32)),
) -> Accepted<Operand> {
    if shifts.iter().any(|shift| *shift > 0) || shifts.iter().all(|shift| *shift != 0) {
        return Err(unsupported(format!("scales that are 2^{shifts:?} of the result's")));
    }
    let mut terms = Vec::new();
    for (value, shift) in values.iter().zip(shifts) {
        let wide = graph.cast(value, DType::I32)?;
        let amount = graph.number(DType::I32, f64::from(-shift));
        terms.push(rounding_shift(graph, &wide, &amount)?);
    }
    let sum = graph.map(function, &[&terms[0], &terms[1]])?;
    let bounded = graph.clamp(&sum, f64::from(low), f64::from(high))?;
    graph.cast(&bounded, values[0].dtype())
}

/// A product.
pub(super) fn product(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let [a, b] = pair(node)?;
    let activation = node.options()?.activation(0)?;
    if !node.is_quantised(0)? {
        let product = graph.mul(&a, &b)?;
        return Ok(vec![activation.of(graph, &product)?]);
    }
    let (own, other, result) = (node.affine(0)?, node.affine(1)?, node.result_affine()?);
    let dtype = node.dtype()?;
    let (a, b) = (centred(graph, &a, own)?, centred(graph, &b, other)?);
    let product = graph.mul(&a, &b)?;
    let by = Multipliers::single(f64::from(own.scale * other.scale / result.scale));
    let scaled = times(graph, &product, &by)?;
    let range = activation.integers(result, dtype)?;
    Ok(vec![finish(graph, &scaled, result, range, dtype)?])
}

/// A quotient of numbers.
pub(super) fn quotient(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    not_quantised(node)?;
    let [a, b] = pair(node)?;
    let quotient = graph.div(&a, &b)?;
    Ok(vec![node.options()?.activation(0)?.of(graph, &quotient)?])
}

/// The quotient rounded down.
pub(super) fn floored_quotient(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    not_quantised(node)?;
    let [a, b] = pair(node)?;
    let result = match a.dtype().is_float() {
        true => {
            let quotient = graph.div(&a, &b)?;
            graph.floor(&quotient)?
        }
        false => {
            let rest = graph.map(F::Mod, &[&a, &b])?;
            let whole = graph.sub(&a, &rest)?;
            graph.div(&whole, &b)?
        }
    };
    Ok(vec![result])
}

/// The square of a difference.
pub(super) fn squared_difference(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let [a, b] = pair(node)?;
    if !node.is_quantised(0)? {
        let difference = graph.sub(&a, &b)?;
        return Ok(vec![graph.square(&difference)?]);
    }
    let (own, other, result) = (node.affine(0)?, node.affine(1)?, node.result_affine()?);
    let dtype = node.dtype()?;
    let twice = 2.0 * f64::from(own.scale.max(other.scale));
    let mut terms = Vec::new();
    for (value, affine) in [(a, own), (b, other)] {
        let value = centred(graph, &value, affine)?;
        let value = graph.mul_number(&value, 128.0)?;
        terms.push(times(graph, &value, &Multipliers::single(affine.wide() / twice))?);
    }
    let difference = graph.sub(&terms[0], &terms[1])?;
    let square = graph.square(&difference)?;
    let by = twice * twice / f64::from(16384.0 * result.scale);
    let scaled = times(graph, &square, &Multipliers::single(by))?;
    Ok(vec![finish(graph, &scaled, result, integer_range(dtype), dtype)?])
}

/// A comparison: of integers that stand for numbers with eight more bits of them.
pub(super) fn comparison(node: &Node<'_>, graph: &mut Graph, function: F) -> Lowered {
    let [mut a, mut b] = pair(node)?;
    if node.is_quantised(0)? {
        for (number, value) in [(0, &mut a), (1, &mut b)] {
            let affine = node.affine(number)?;
            if affine.scale >= 1.0 {
                return Err(node.tensor(number)?.refused("its scale is not below 1"));
            }
            let wide = centred(graph, value, affine)?;
            let wide = graph.mul_number(&wide, 256.0)?;
            *value = times(graph, &wide, &Multipliers::single(affine.wide()))?;
        }
    }
    Ok(vec![graph.map(function, &[&a, &b])?])
}

/// A function of one number.
pub(super) fn unary(node: &Node<'_>, graph: &mut Graph, function: F) -> Lowered {
    not_quantised(node)?;
    Ok(vec![graph.map(function, &[&node.input(0)?])?])
}

/// A formula of one number.
pub(super) fn formula(
    node: &Node<'_>,
    graph: &mut Graph,
    formula: impl FnOnce(&mut Graph, &Operand) -> Accepted<Operand>,
) -> Lowered {
    not_quantised(node)?;
    Ok(vec![formula(graph, &node.input(0)?)?])
}

/// The negated number, or truth.
pub(super) fn not(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    Ok(vec![graph.map(F::Not, &[&x])?])
}

/// The absolute value.
pub(super) fn absolute(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    if !node.is_quantised(0)? {
        return Ok(vec![graph.abs(&x)?]);
    }
    let (own, result) = (node.affine(0)?, node.result_affine()?);
    let dtype = node.dtype()?;
    let value = centred(graph, &x, own)?;
    let mut value = graph.abs(&value)?;
    if own.scale != result.scale {
        value = times(graph, &value, &Multipliers::single(f64::from(own.scale / result.scale)))?;
    }
    Ok(vec![finish(graph, &value, result, integer_range(dtype), dtype)?])
}

/// `a` where the condition holds, else `b`. The older operator takes a condition along the first
/// axis.
pub(super) fn select(node: &Node<'_>, graph: &mut Graph, by_rows: bool) -> Lowered {
    let (mut condition, a, b) = (node.input(0)?, node.input(1)?, node.input(2)?);
    if by_rows && condition.rank() == 1 && a.rank() > 1 {
        condition = graph.broadcast_axis(&condition, a.shape(), 0)?;
    }
    Ok(vec![graph.select(&condition, &a, &b)?])
}

/// The elements in another type.
pub(super) fn cast(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    Ok(vec![node.as_declared(graph, &x)?])
}

/// `RELU` and its like: what an activation lets through.
pub(super) fn activation(node: &Node<'_>, graph: &mut Graph, activation: Activation) -> Lowered {
    let x = node.input(0)?;
    if !node.is_quantised(0)? {
        return Ok(vec![activation.of(graph, &x)?]);
    }
    let (own, result) = (node.affine(0)?, node.result_affine()?);
    let dtype = node.dtype()?;
    let by = Multipliers::single(f64::from(own.scale / result.scale));
    let value = centred(graph, &x, own)?;
    let value = times(graph, &value, &by)?;
    let range = activation.integers(result, dtype)?;
    Ok(vec![finish(graph, &value, result, range, dtype)?])
}

/// `RELU_N1_TO_1`
pub(super) fn relu_n1_to_1(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    activation(node, graph, Activation::ReluN1To1)
}

/// `SQUARE`
pub(super) fn square(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    formula(node, graph, |graph, x| graph.square(x))
}

/// `RELU_0_TO_1`
pub(super) fn unit_clamp(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    formula(node, graph, |graph, x| graph.clamp(x, 0.0, 1.0))
}

/// Numbers below zero times a factor.
pub(super) fn leaky_relu(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (x, slope) = (node.input(0)?, node.options()?.number(0, 0.0_f32)?);
    if !slope.is_finite() {
        return Err(unsupported(format!("a slope of {slope}")));
    }
    if !node.is_quantised(0)? {
        let scaled = graph.mul_number(&x, f64::from(slope))?;
        let zero = graph.number(x.dtype(), 0.0);
        let positive = graph.greater(&x, &zero)?;
        return Ok(vec![graph.select(&positive, &x, &scaled)?]);
    }
    let (own, result) = (node.affine(0)?, node.result_affine()?);
    let dtype = node.dtype()?;
    let value = centred(graph, &x, own)?;
    let plain = Multipliers::single(f64::from(own.scale / result.scale));
    let above = times(graph, &value, &plain)?;
    let factor = Multiplier::of(f64::from((own.scale * slope / result.scale).abs()));
    let mut below = times(graph, &value, &Multipliers::of_one(factor))?;
    if slope < 0.0 {
        below = graph.neg(&below)?;
    }
    let either = by_sign(graph, &value, &above, &below)?;
    Ok(vec![finish(graph, &either, result, integer_range(dtype), dtype)?])
}

/// `above` where a value is not negative, else `below`.
fn by_sign(
    graph: &mut Graph,
    value: &Operand,
    above: &Operand,
    below: &Operand,
) -> Accepted<Operand> {
    let zero = graph.number(value.dtype(), 0.0);
    let is_above = graph.greater_equal(value, &zero)?;
    graph.select(&is_above, above, below)
}

/// Numbers below zero times factors that are an operand.
pub(super) fn prelu(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (x, slope) = (node.input(0)?, node.input(1)?);
    if !node.is_quantised(0)? {
        let scaled = graph.mul(&x, &slope)?;
        return Ok(vec![by_sign(graph, &x, &x, &scaled)?]);
    }
    let (own, factor, result) = (node.affine(0)?, node.affine(1)?, node.result_affine()?);
    let dtype = node.dtype()?;
    let (value, slope) = (centred(graph, &x, own)?, centred(graph, &slope, factor)?);
    let above = Multipliers::single(f64::from(own.scale / result.scale));
    let above = times(graph, &value, &above)?;
    let product = graph.mul(&value, &slope)?;
    let below = Multipliers::single(f64::from(own.scale * factor.scale / result.scale));
    let below = times(graph, &product, &below)?;
    let either = by_sign(graph, &value, &above, &below)?;
    Ok(vec![finish(graph, &either, result, integer_range(dtype), dtype)?])
}

/// The sum of all inputs.
pub(super) fn sum_of_all(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    not_quantised(node)?;
    let mut inputs = node.inputs()?.into_iter();
    let first = inputs.next().ok_or_else(|| unsupported("a sum of nothing"))?;
    let sum = inputs.try_fold(first, |sum, next| graph.add(&sum, &next))?;
    Ok(vec![sum])
}

/// The same integers on the result's scale, for those that move elements and may change it.
pub(super) fn on_scale_of_result(
    node: &Node<'_>,
    graph: &mut Graph,
    (number, value): (usize, &Operand),
) -> Accepted<Operand> {
    let (own, result) = (node.affine(number)?, node.result_affine()?);
    if own == result {
        return Ok(value.clone());
    }
    let by = Multipliers::single(own.wide() / result.wide());
    rescaled(graph, value, (own, result), &by, node.dtype()?)
}
