//! From numbers to integers that stand for them, back, and from one scale to another.

use front::{Accepted, Graph, Operand, type_error, unsupported};
use tensor::{DType, Scalar, ScalarFunction as F, Tensor};

use crate::node::{Affine, Lowered, Node, integer_range};
use crate::quantised::{Multipliers, centred, finish, times};
use crate::schema::TensorEntry;

/// A number a tensor, or along its axis, that broadcasts to a value.
fn along(
    graph: &mut Graph,
    numbers: &[f64],
    dtype: DType,
    (value, entry): (&Operand, &TensorEntry),
) -> Accepted<Operand> {
    let numbers: Vec<Scalar> = numbers.iter().map(|it| Scalar::from_f64(dtype, *it)).collect();
    match numbers[..] {
        [one] => Ok(Operand::of_scalar(one)),
        _ => {
            let axis = front::normalize_axis(i64::from(entry.quantisation.axis), value.rank())?;
            let tensor = Tensor::from_scalars(dtype, &[numbers.len()], &numbers);
            let numbers = front::constant_value("", tensor, false);
            graph.broadcast_axis(&numbers, value.shape(), axis)
        }
    }
}

/// The scales and zero points of a tensor along its axis.
fn parameters(
    graph: &mut Graph,
    value: &Operand,
    entry: &TensorEntry,
) -> Accepted<(Operand, Operand)> {
    let scales: Vec<f64> = entry.scales()?.iter().map(|scale| f64::from(*scale)).collect();
    let zeros: Vec<f64> = entry.zero_points()?.into_iter().map(f64::from).collect();
    let zeros = if zeros.len() == 1 { vec![zeros[0]] } else { zeros };
    let scale = along(graph, &scales, DType::F32, (value, entry))?;
    Ok((scale, along(graph, &zeros, DType::F32, (value, entry))?))
}

/// What integers stand for.
pub(super) fn numbers_of(
    graph: &mut Graph,
    value: &Operand,
    entry: &TensorEntry,
) -> Accepted<Operand> {
    let (scale, zero) = parameters(graph, value, entry)?;
    let wide = graph.cast(value, DType::F32)?;
    let centred = match entry.zero_points()?.iter().all(|zero| *zero == 0) {
        true => wide,
        false => graph.sub(&wide, &zero)?,
    };
    graph.mul(&centred, &scale)
}

/// `DEQUANTIZE`
pub(super) fn dequantise(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let value = match x.dtype().is_float() {
        true => x,
        false => numbers_of(graph, &x, node.tensor(0)?)?,
    };
    Ok(vec![node.as_declared(graph, &value)?])
}

/// A float to the whole number next to it, halves away from zero.
pub(super) fn rounded_away(graph: &mut Graph, value: &Operand) -> Accepted<Operand> {
    let whole = graph.map(F::Trunc, &[value])?;
    let rest = graph.sub(value, &whole)?;
    let rest = graph.abs(&rest)?;
    let half = graph.number(value.dtype(), 0.5);
    let up = graph.greater_equal(&rest, &half)?;
    let sign = graph.map(F::Sign, &[value])?;
    let next = graph.add(&whole, &sign)?;
    graph.select(&up, &next, &whole)
}

/// `QUANTIZE`: numbers to integers, or integers to those of another scale.
pub(super) fn quantise(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (x, dtype) = (node.input(0)?, node.dtype()?);
    let (low, high) = integer_range(dtype);
    if x.dtype().is_integer() {
        let (own, result) = (node.affine(0)?, node.result_affine()?);
        let by = Multipliers::single(own.wide() / result.wide());
        return Ok(vec![rescaled(graph, &x, (own, result), &by, dtype)?]);
    }
    if x.dtype() != DType::F32 || !dtype.is_integer() || dtype.bits() > 16 {
        return Err(type_error(format!("{} to {dtype}", x.dtype())));
    }
    let (scale, zero) = parameters(graph, &x, node.output(0)?)?;
    let steps = graph.div(&x, &scale)?;
    let steps = rounded_away(graph, &steps)?;
    let shifted = graph.add(&steps, &zero)?;
    let bounded = graph.clamp(&shifted, f64::from(low), f64::from(high))?;
    Ok(vec![graph.cast(&bounded, dtype)?])
}

/// Integers of one scale as those of another.
pub(super) fn rescaled(
    graph: &mut Graph,
    x: &Operand,
    (own, result): (Affine, Affine),
    by: &Multipliers,
    dtype: DType,
) -> Accepted<Operand> {
    if dtype.bits() > 32 {
        return Err(unsupported(format!("quantising to {dtype}")));
    }
    let wide = centred(graph, x, own)?;
    let scaled = times(graph, &wide, by)?;
    finish(graph, &scaled, result, integer_range(dtype), dtype)
}
