//! Quantised tensors: integers with a scale and a zero point, by tensor, by axis or by block.

use front::{Accepted, Graph, Operand, repeat_blocks, shape_error, type_error};
use sym::Expr;
use tensor::{DType, Reduction};

use super::Lowered;
use super::convolution::convolve;
use crate::node::{Node, unsupported};
use front::product;

/// Refuses scales that are known not to be positive numbers, of which nothing can be a multiple.
pub(super) fn check_scale(scale: &Operand) -> Accepted<()> {
    match scale.first_number(|number| !(number.is_finite() && number > 0.0)) {
        Some(number) => Err(unsupported(format!("a scale is {number}, which is not positive"))),
        None => Ok(()),
    }
}

/// Refuses scales of quantised numbers that no quantiser writes. Where each block has one, some
/// have the number farthest from zero become the least integer, so that scales have its sign, and
/// blocks of zeros have zero.
fn check_factors(node: &Node<'_>, scale: &Operand) -> Accepted<()> {
    if node.int("block_size", 0)? == 0 {
        return check_scale(scale);
    }
    match scale.first_number(|number| !number.is_finite()) {
        Some(number) => Err(unsupported(format!("a scale is {number}, which is not finite"))),
        None => Ok(()),
    }
}

/// A scale or zero point under the shape of what it belongs to.
fn spread(node: &Node<'_>, graph: &mut Graph, value: &Operand, x: &Operand) -> Accepted<Operand> {
    let single = value.shape().iter().all(Expr::is_one);
    if single && value.rank() <= 1 {
        let number = match value.same_for_all() {
            Some(number) => number,
            None => graph.reshape(value, &[])?,
        };
        return graph.broadcast_to(&number, x.shape());
    }
    let block = node.int("block_size", 0)?;
    let axis = node.axis("axis", 1, x.rank())?;
    if value.rank() == 1 && block == 0 {
        return graph.broadcast_axis(value, x.shape(), axis);
    }
    if value.rank() != x.rank() || !(1..1 << 31).contains(&block) {
        let (given, rank) = (value.rank(), x.rank());
        return Err(shape_error(format!("a scale of rank {given} for rank {rank}")));
    }
    repeat_blocks(graph, value, axis, block, x.shape())
}

/// Whether a zero point is a constant zero, which adding would only clear the sign of zeros.
fn is_zero(value: &Operand) -> bool {
    let number = value.same_for_all().and_then(|number| number.known()?.first()?.constant());
    number.is_some_and(|number| number.bits() == 0)
}

/// A zero point in the type of `x`, under its shape.
fn spread_zero_point(
    node: &Node<'_>,
    graph: &mut Graph,
    value: &Operand,
    x: &Operand,
    dtype: DType,
) -> Accepted<Operand> {
    let wide = graph.cast(value, dtype)?;
    let spread = spread(node, graph, &wide, x)?;
    let Some(number) = value.same_for_all() else { return Ok(spread) };
    let number = graph.cast(&number, dtype)?;
    graph.broadcast_to(&number, x.shape())
}

/// `x` rounded to a number of `dtype` steps of the scale from the zero point, within its range.
pub(super) fn quantize_value(
    graph: &mut Graph,
    x: &Operand,
    scale: &Operand,
    zero_point: Option<&Operand>,
    dtype: DType,
) -> Accepted<Operand> {
    let steps = graph.div(x, scale)?;
    if dtype.is_float() {
        // Short floats have no zero point but zero, and converting rounds.
        return graph.cast(&steps, dtype);
    }
    let steps = graph.round(&steps)?;
    let steps = graph.cast(&steps, DType::F32)?;
    graph.saturated(&steps, zero_point, dtype)
}

/// Numbers to quantised ones.
pub(super) fn quantize(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (x, scale) = (node.input(0)?, node.input(1)?);
    check_scale(scale)?;
    let default = node.dtype("output_dtype", DType::U8)?;
    let dtype = node.optional(2).map_or(default, Operand::dtype);
    if dtype.is_float() && dtype.bits() <= 8 && !node.flag("saturate", true)? {
        return Err(type_error(format!("quantising to {dtype} without saturation")));
    }
    let wide = match node.dtype("precision", DType::F32)? {
        _ if scale.dtype() == DType::F8E8M0 => DType::F32,
        _ if x.dtype().is_float() && x.dtype().bits() >= 32 => x.dtype(),
        precision => precision,
    };
    let x = graph.cast(x, wide)?;
    let scale = graph.cast(scale, wide)?;
    let scale = spread(node, graph, &scale, &x)?;
    let zero_point = node.optional(2).filter(|value| !dtype.is_float() && !is_zero(value));
    let zero_point = zero_point
        .map(|value| spread_zero_point(node, graph, value, &x, value.dtype()))
        .transpose()?;
    Ok(vec![quantize_value(graph, &x, &scale, zero_point.as_ref(), dtype)?])
}

/// Quantised numbers to numbers.
pub(super) fn dequantize(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (x, scale) = (node.input(0)?, node.input(1)?);
    check_factors(node, scale)?;
    let given = if scale.dtype() == DType::F8E8M0 { DType::F32 } else { scale.dtype() };
    let dtype = node.dtype("output_dtype", given)?;
    let wide = graph.cast(x, DType::F32)?;
    let scale = graph.cast(scale, DType::F32)?;
    let scale = spread(node, graph, &scale, x)?;
    let centred = match node.optional(2).filter(|_| !x.dtype().is_float()) {
        Some(zero_point) => {
            let zero_point = spread_zero_point(node, graph, zero_point, x, DType::F32)?;
            graph.sub(&wide, &zero_point)?
        }
        None => wide,
    };
    let result = graph.mul(&centred, &scale)?;
    Ok(vec![graph.cast(&result, dtype)?])
}

/// Numbers to quantised ones of which scale and zero point are found from the numbers.
pub(super) fn dynamic_quantize(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    Ok(quantised(graph, node.input(0)?)?.to_vec())
}

/// Bytes, their scale and their zero point, found from the numbers that they stand for.
pub(super) fn quantised(graph: &mut Graph, x: &Operand) -> Accepted<[Operand; 3]> {
    let axes: Vec<usize> = (0..x.rank()).collect();
    let zero = graph.number(x.dtype(), 0.0);
    let low = graph.reduce_axes(x, &axes, Reduction::Min, false)?;
    let low = graph.min(&low, &zero)?;
    let high = graph.reduce_axes(x, &axes, Reduction::Max, false)?;
    let high = graph.max(&high, &zero)?;
    let span = graph.sub(&high, &low)?;
    let steps = graph.number(x.dtype(), 255.0);
    let scale = graph.div(&span, &steps)?;
    let offset = graph.div(&low, &scale)?;
    let offset = graph.neg(&offset)?;
    let offset = graph.clamp(&offset, 0.0, 255.0)?;
    let offset = graph.round(&offset)?;
    let zero_point = graph.cast(&offset, DType::U8)?;
    let spread_scale = graph.broadcast_to(&scale, x.shape())?;
    let spread_point = graph.broadcast_to(&zero_point, x.shape())?;
    let result = quantize_value(graph, x, &spread_scale, Some(&spread_point), DType::U8)?;
    Ok([result, scale, zero_point])
}

/// An integer tensor as i32 less its zero point, whose one axis, if any, corresponds to `axis`.
pub(super) fn centred(
    graph: &mut Graph,
    value: &Operand,
    zero_point: Option<&Operand>,
    axis: usize,
) -> Accepted<Operand> {
    let value = graph.cast(value, DType::I32)?;
    let Some(given) = zero_point else { return Ok(value) };
    let zero_point = graph.cast(given, DType::I32)?;
    let mut zero_point = per_axis(graph, &zero_point, value.shape(), axis)?;
    if let Some(number) = given.same_for_all() {
        let number = graph.cast(&number, DType::I32)?;
        zero_point = graph.broadcast_to(&number, value.shape())?;
    }
    graph.sub(&value, &zero_point)
}

/// One number, or one for each index of an axis, under a shape.
pub(super) fn per_axis(
    graph: &mut Graph,
    value: &Operand,
    shape: &[Expr],
    axis: usize,
) -> Accepted<Operand> {
    let known = value.same_for_all().filter(|_| value.shape().iter().all(Expr::is_one));
    match value.shape() {
        [] | [_] if let Some(number) = known => graph.broadcast_to(&number, shape),
        [] => graph.broadcast_to(value, shape),
        [one] if one.is_one() => graph.broadcast_to(value, shape),
        [_] => graph.broadcast_axis(value, shape, axis),
        _ => graph.broadcast_to(value, shape),
    }
}

/// The product of integer matrices, exact in i32.
pub(super) fn matmul_integer(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (a, b) = (node.input(0)?, node.input(1)?);
    let a = centred(graph, a, node.optional(2), a.rank().saturating_sub(2))?;
    let b = centred(graph, b, node.optional(3), b.rank().saturating_sub(1))?;
    Ok(vec![product(graph, &a, &b)?])
}

/// The convolution of integers, exact in i32.
pub(super) fn conv_integer(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = centred(graph, node.input(0)?, node.optional(2), 1)?;
    let w = centred(graph, node.input(1)?, node.optional(3), 0)?;
    Ok(vec![convolve(node, graph, &x, &w, DType::I32, DType::I32)?])
}

/// A sum of products of quantised numbers, quantised again; the scales of the operands multiply.
fn requantize(
    node: &Node<'_>,
    graph: &mut Graph,
    sum: &Operand,
    scales: [usize; 3],
    axis: usize,
) -> Lowered {
    let wide = graph.cast(sum, DType::F32)?;
    let mut factors = Vec::new();
    for index in scales {
        check_scale(node.input(index)?)?;
        let scale = graph.cast(node.input(index)?, DType::F32)?;
        factors.push(per_axis(graph, &scale, sum.shape(), axis)?);
    }
    let scale = graph.mul(&factors[0], &factors[1])?;
    let value = graph.mul(&wide, &scale)?;
    let zero_point = node.input(scales[2] + 1)?;
    let dtype = zero_point.dtype();
    if dtype.is_float() {
        return Err(unsupported("quantised short floats"));
    }
    let none = is_zero(zero_point);
    let zero_point = per_axis(graph, zero_point, sum.shape(), axis)?;
    let zero_point = (!none).then_some(&zero_point);
    Ok(vec![quantize_value(graph, &value, &factors[2], zero_point, dtype)?])
}

/// The product of quantised matrices.
pub(super) fn qlinear_matmul(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (a, b) = (node.input(0)?, node.input(3)?);
    let a = centred(graph, a, node.optional(2), a.rank().saturating_sub(2))?;
    let b = centred(graph, b, node.optional(5), b.rank().saturating_sub(1))?;
    let sum = product(graph, &a, &b)?;
    let axis = sum.rank().saturating_sub(1);
    requantize(node, graph, &sum, [1, 4, 6], axis)
}

/// The convolution of quantised tensors.
pub(super) fn qlinear_conv(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = centred(graph, node.input(0)?, node.optional(2), 1)?;
    let w = centred(graph, node.input(3)?, node.optional(5), 0)?;
    let mut sum = convolve(node, graph, &x, &w, DType::I32, DType::I32)?;
    if let Some(bias) = node.optional(8) {
        let bias = graph.broadcast_axis(bias, sum.shape(), 1)?;
        sum = graph.add(&sum, &bias)?;
    }
    requantize(node, graph, &sum, [1, 4, 6], 1)
}
