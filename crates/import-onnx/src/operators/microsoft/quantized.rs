//! Operators on quantised numbers: each is what it does to numbers, between a dequantisation and a
//! quantisation, in the order in which ONNX Runtime's kernels round.

use front::{Accepted, Graph, Operand, shape_error};
use sym::Expr;
use tensor::{DType, ScalarFunction as F};

use super::Lowered;
use super::elementwise::{add_vector, only};
use super::normalization::{Embedding, embedded};
use crate::node::{Node, unsupported};
use crate::operators::activations::softmax;
use crate::operators::matmul::gemm;
use crate::operators::pooling;
use crate::operators::quantization::{
    centred, check_scale, per_axis, qlinear_conv, quantised, quantize_value,
};
use crate::operators::recurrent::{Kind, with_rounding};
use front::product;

/// Quantised numbers, their scale and their zero point.
type Quantised<'o> = (&'o Operand, &'o Operand, Option<&'o Operand>);

/// The product of quantised matrices in f32: a sum of products of integers, times both scales.
pub(super) fn scaled_product(
    graph: &mut Graph,
    a: Quantised<'_>,
    b: Quantised<'_>,
) -> Accepted<Operand> {
    let left = centred(graph, a.0, a.2, a.0.rank().saturating_sub(2))?;
    let right = centred(graph, b.0, b.2, b.0.rank().saturating_sub(1))?;
    let sum = product(graph, &left, &right)?;
    scaled(graph, &sum, a.1, b.1)
}

/// A sum of products of integers times the scales of both, one or one a column each.
fn scaled(graph: &mut Graph, sum: &Operand, a: &Operand, b: &Operand) -> Accepted<Operand> {
    let wide = graph.cast(sum, DType::F32)?;
    let (a, b) = (graph.widen(a)?, graph.widen(b)?);
    let column = sum.rank().saturating_sub(1);
    let a = per_axis(graph, &a, sum.shape(), column)?;
    let b = per_axis(graph, &b, sum.shape(), column)?;
    let scale = graph.mul(&a, &b)?;
    graph.mul(&wide, &scale)
}

/// `MatMulIntegerToFloat`
pub(super) fn product_to_float(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let a = (node.input(0)?, node.input(2)?, node.optional(4));
    let b = (node.input(1)?, node.input(3)?, node.optional(5));
    let result = scaled_product(graph, a, b)?;
    let result = graph.cast(&result, node.input(2)?.dtype())?;
    Ok(vec![add_vector(graph, &result, node.optional(6))?])
}

/// `DynamicQuantizeMatMul`: the left operand is quantised on the way.
pub(super) fn dynamic_product(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let quantised = quantised(graph, node.input(0)?)?;
    let a = (&quantised[0], &quantised[1], Some(&quantised[2]));
    let b = (node.input(1)?, node.input(2)?, node.optional(3));
    let result = scaled_product(graph, a, b)?;
    Ok(vec![add_vector(graph, &result, node.optional(4))?])
}

/// `MatMulInteger16`
pub(super) fn product_of_shorts(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let [a, b] = [0, 1].map(|index| node.input(index));
    let (a, b) = (graph.cast(a?, DType::I32)?, graph.cast(b?, DType::I32)?);
    Ok(vec![product(graph, &a, &b)?])
}

/// `QGemm`: the result is quantised where its scale is given.
pub(super) fn quantized_gemm(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (a, b) = (node.input(0)?, node.input(3)?);
    let is_turned = node.flag("transB", false)?;
    let left = centred(graph, a, node.optional(2), 0)?;
    let right = centred(graph, b, node.optional(5), if is_turned { 0 } else { 1 })?;
    // The factor `alpha` is that of scales, not of the sum.
    let inner = node.with(vec![Some(left), Some(right)], 13);
    let mut sum = integer_gemm(&inner, graph)?;
    if let Some(c) = node.optional(6) {
        let c = graph.broadcast_to(c, sum.shape())?;
        sum = graph.add(&sum, &c)?;
    }
    let scale = graph.mul_number(node.input(1)?, node.float("alpha", 1.0)?)?;
    let value = scaled(graph, &sum, &scale, node.input(4)?)?;
    match (node.optional(7), node.optional(8)) {
        (Some(scale), Some(point)) => Ok(vec![requantized(graph, &value, scale, Some(point))?]),
        _ => Ok(vec![value]),
    }
}

/// The product of matrices, either of them turned.
fn integer_gemm(node: &Node<'_>, graph: &mut Graph) -> Accepted<Operand> {
    if node.float("alpha", 1.0)? == 1.0 {
        return only(gemm(node, graph));
    }
    let mut operands = Vec::new();
    for (index, name) in [(0, "transA"), (1, "transB")] {
        let x = node.input(index)?;
        operands.push(match node.flag(name, false)? {
            true if x.rank() == 2 => graph.transpose(x, &[1, 0])?,
            _ => x.clone(),
        });
    }
    product(graph, &operands[0], &operands[1])
}

/// Integers as the numbers that they stand for.
fn dequantized(
    graph: &mut Graph,
    x: &Operand,
    scale: &Operand,
    point: Option<&Operand>,
) -> Accepted<Operand> {
    let mut wide = graph.cast(x, DType::F32)?;
    if let Some(point) = point {
        let point = graph.cast(point, DType::F32)?;
        let point = graph.reshape(&point, &[])?;
        wide = graph.sub(&wide, &point)?;
    }
    let scale = graph.reshape(scale, &[])?;
    graph.mul(&wide, &scale)
}

/// Numbers quantised with one scale; to the zero point's type, or unsigned bytes.
fn requantized(
    graph: &mut Graph,
    x: &Operand,
    scale: &Operand,
    point: Option<&Operand>,
) -> Accepted<Operand> {
    check_scale(scale)?;
    let scale = graph.reshape(scale, &[])?;
    let scale = graph.broadcast_to(&scale, x.shape())?;
    let dtype = point.map_or(DType::U8, Operand::dtype);
    let point = point.map(|point| graph.reshape(point, &[])).transpose()?;
    let point = point.map(|point| graph.broadcast_to(&point, x.shape())).transpose()?;
    quantize_value(graph, x, &scale, point.as_ref(), dtype)
}

/// One number of a type of integers, nearest to a float that has been shifted by the zero point.
fn nearest(graph: &mut Graph, x: &Operand, dtype: DType) -> Accepted<Operand> {
    let Some((low, high)) = dtype.integer_range() else {
        return Err(unsupported("quantised short floats"));
    };
    let bounded = graph.clamp(x, low as f64, high as f64)?;
    let rounded = graph.round(&bounded)?;
    graph.cast(&rounded, dtype)
}

/// One number in f32: a zero point, or zero where there is none.
fn point_of(graph: &mut Graph, point: Option<&Operand>) -> Accepted<Operand> {
    match point {
        Some(point) => {
            let point = graph.cast(point, DType::F32)?;
            graph.reshape(&point, &[])
        }
        None => Ok(graph.number(DType::F32, 0.0)),
    }
}

/// `QLinearAdd`: both operands times the ratio of their scale to the result's, and what belongs to
/// zero points as one number: `(zc - (ra * za + rb * zb)) + ra * a + rb * b`, fused, rounded once.
pub(super) fn add(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (a, b) = (node.input(0)?, node.input(3)?);
    let dtype = a.dtype();
    let (sa, sb, sc) = (node.input(1)?, node.input(4)?, node.input(6)?);
    check_scale(sc)?;
    let (sa, sb) = (graph.reshape(sa, &[])?, graph.reshape(sb, &[])?);
    let sc = graph.reshape(sc, &[])?;
    let (ra, rb) = (graph.div(&sa, &sc)?, graph.div(&sb, &sc)?);
    let za = point_of(graph, node.optional(2))?;
    let zb = point_of(graph, node.optional(5))?;
    let zc = point_of(graph, node.optional(7))?;
    let (own, other) = (graph.mul(&ra, &za)?, graph.mul(&rb, &zb)?);
    let both = graph.add(&own, &other)?;
    let fixed = graph.sub(&zc, &both)?;
    let (a, b) = (graph.cast(a, DType::F32)?, graph.cast(b, DType::F32)?);
    let sum = graph.map(F::FusedMultiplyAdd, &[&a, &ra, &fixed])?;
    let sum = graph.map(F::FusedMultiplyAdd, &[&b, &rb, &sum])?;
    Ok(vec![nearest(graph, &sum, dtype)?])
}

/// `QLinearMul`
pub(super) fn mul(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (a, b) = (node.input(0)?, node.input(3)?);
    let dtype = a.dtype();
    let za = point_of(graph, node.optional(2))?;
    let zb = point_of(graph, node.optional(5))?;
    let zc = point_of(graph, node.optional(7))?;
    check_scale(node.input(6)?)?;
    let scales = graph.mul(node.input(1)?, node.input(4)?)?;
    let scale = graph.div(&scales, node.input(6)?)?;
    let scale = graph.reshape(&scale, &[])?;
    let (a, b) = (graph.cast(a, DType::F32)?, graph.cast(b, DType::F32)?);
    let (a, b) = (graph.sub(&a, &za)?, graph.sub(&b, &zb)?);
    let own = graph.mul(&a, &b)?;
    let scaled = graph.mul(&own, &scale)?;
    let sum = graph.add(&scaled, &zc)?;
    Ok(vec![nearest(graph, &sum, dtype)?])
}

/// A function of one quantised value, whose scales and points are inputs 1 to 4.
pub(super) fn unary(
    node: &Node<'_>,
    graph: &mut Graph,
    function: impl FnOnce(&mut Graph, &Operand) -> Accepted<Operand>,
) -> Lowered {
    let x = node.input(0)?;
    let number = dequantized(graph, x, node.input(1)?, node.optional(2))?;
    let result = function(graph, &number)?;
    let zero = graph.number(x.dtype(), 0.0);
    let point = node.optional(4).unwrap_or(&zero);
    Ok(vec![requantized(graph, &result, node.input(3)?, Some(point))?])
}

/// `QLinearLeakyRelu`
pub(super) fn leaky_relu(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let alpha = node.float("alpha", 0.01)?;
    unary(node, graph, |graph, x| {
        let zero = graph.number(DType::F32, 0.0);
        let scaled = graph.mul_number(x, alpha)?;
        let is_negative = graph.less(x, &zero)?;
        graph.select(&is_negative, &scaled, x)
    })
}

/// `QLinearSoftmax`, by the meaning of `Softmax` of the version that the attribute `opset` names.
pub(super) fn soft(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let version = node.int("opset", 13)?;
    unary(node, graph, |graph, x| only(softmax(&node.with(vec![Some(x.clone())], version), graph)))
}

/// `QLinearConcat`: each operand is requantised with the scale of the result.
pub(super) fn concat(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let inputs = node.all_inputs()?;
    let [scale, point, rest @ ..] = &inputs[..] else {
        return Err(shape_error("there is nothing to put together"));
    };
    let mut parts = Vec::new();
    for operand in rest.chunks(3) {
        let [x, own, own_point] = operand else {
            return Err(shape_error("an operand without its scale and zero point"));
        };
        let number = dequantized(graph, x, own, Some(own_point))?;
        parts.push(requantized(graph, &number, scale, Some(point))?);
    }
    let rank = parts.first().map_or(0, Operand::rank);
    let axis = node.axis("axis", 0, rank)?;
    Ok(vec![graph.concat(axis, &parts)?])
}

/// `QLinearWhere`
pub(super) fn choose(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (scale, point) = (node.input(7)?, node.input(8)?);
    let mut choices = Vec::new();
    for first in [1, 4] {
        let (x, own, own_point) =
            (node.input(first)?, node.input(first + 1)?, node.input(first + 2)?);
        let number = dequantized(graph, x, own, Some(own_point))?;
        choices.push(requantized(graph, &number, scale, Some(point))?);
    }
    Ok(vec![graph.select(node.input(0)?, &choices[0], &choices[1])?])
}

/// A value `[n, spatial.., c]` as `[n, c, spatial..]`, or back.
pub(super) fn channels(graph: &mut Graph, x: &Operand, to_first: bool) -> Accepted<Operand> {
    let rank = x.rank();
    if rank < 3 {
        return Err(shape_error(format!("an input of rank {rank} has no spatial axes")));
    }
    let mut order: Vec<usize> = (0..rank).collect();
    match to_first {
        true => order[1..].rotate_right(1),
        false => order[1..].rotate_left(1),
    }
    graph.transpose(x, &order)
}

/// A lowering of `[n, c, spatial..]` for a node whose attribute says that channels come last.
pub(super) fn with_channels(
    node: &Node<'_>,
    graph: &mut Graph,
    are_last: bool,
    lower: impl FnOnce(&Node<'_>, &mut Graph) -> Lowered,
) -> Lowered {
    if !are_last {
        return lower(node, graph);
    }
    let mut inputs = node.inputs.clone();
    inputs[0] = Some(channels(graph, node.input(0)?, true)?);
    let result = only(lower(&node.with(inputs, node.version), graph))?;
    Ok(vec![channels(graph, &result, false)?])
}

/// `QLinearConv` of either order of axes.
pub(super) fn conv(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let are_last = node.flag("channels_last", false)?;
    with_channels(node, graph, are_last, qlinear_conv)
}

/// `QLinearAveragePool`
pub(super) fn average_pool(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let are_last = node.flag("channels_last", false)?;
    with_channels(node, graph, are_last, |node, graph| {
        unary(node, graph, |graph, x| {
            only(pooling::average(&node.with(vec![Some(x.clone())], 19), graph))
        })
    })
}

/// `QLinearGlobalAveragePool`: a sum of integers, scaled once.
pub(super) fn global_average_pool(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let are_last = node.flag("channels_last", false)?;
    with_channels(node, graph, are_last, |node, graph| {
        unary(node, graph, |graph, x| {
            let axes: Vec<usize> = (2..x.rank()).collect();
            graph.mean(x, &axes, true)
        })
    })
}

/// `NhwcMaxPool`
pub(super) fn max_pool(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    with_channels(node, graph, true, |node, graph| {
        pooling::max(&node.with(node.inputs.clone(), 12), graph)
    })
}

/// `MaxpoolWithMask`: elements that a mask leaves out are as low as can be.
pub(super) fn masked_pool(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (x, mask) = (node.input(0)?, node.input(1)?);
    let none = graph.number(mask.dtype(), 0.0);
    let counts = graph.map(F::Ne, &[mask, &none])?;
    let lowest = graph.number(x.dtype(), f64::from(f32::MIN));
    let kept = graph.select(&counts, x, &lowest)?;
    pooling::max(&node.with(vec![Some(kept)], 12), graph)
}

/// A value quantised to bytes, with a scale that is found from it, and back.
fn rounded_to_bytes(graph: &mut Graph, x: &Operand) -> Accepted<Operand> {
    let [bytes, scale, point] = quantised(graph, x)?;
    dequantized(graph, &bytes, &scale, Some(&point))
}

/// `DynamicQuantizeLSTM`: an LSTM whose weights are integers with a scale a gate's row, or one.
pub(super) fn dynamic_lstm(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let mut inputs: Vec<Option<Operand>> = node.inputs[..8.min(node.inputs.len())].to_vec();
    for (index, scale, point) in [(1, 8, 9), (2, 10, 11)] {
        let (weights, scale, point) = (node.input(index)?, node.input(scale)?, node.input(point)?);
        // `[directions, inputs, gates]`, where the plain operator has gates before inputs.
        let shape = weights.shape().to_vec();
        if shape.len() != 3 {
            return Err(shape_error(format!("weights of rank {}, not 3", shape.len())));
        }
        let wide = graph.cast(weights, DType::F32)?;
        let point = graph.cast(point, DType::F32)?;
        let mut spread = |value: &Operand| {
            let shape = match value.shape() {
                [directions] => vec![directions.clone(), Expr::ONE, Expr::ONE],
                [directions, gates] => vec![directions.clone(), Expr::ONE, gates.clone()],
                shape => return Err(shape_error(format!("a scale of rank {}", shape.len()))),
            };
            graph.reshape(value, &shape)
        };
        let (scale, point) = (spread(scale)?, spread(&point)?);
        let centred = graph.sub(&wide, &point)?;
        let number = graph.mul(&centred, &scale)?;
        inputs[index] = Some(graph.transpose(&number, &[0, 2, 1])?);
    }
    // As in the kernel, inputs are quantised all at once, states at each step.
    let node = node.with(inputs, 7);
    with_rounding(&node, graph, Kind::Lstm, Some(rounded_to_bytes))
}

/// `QEmbedLayerNormalization`: as its relative, of quantised tables, scales and shifts.
pub(super) fn embed(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let mut tables = Vec::new();
    for number in 0..5 {
        let (table, scale, point) =
            (node.optional(2 + number), node.optional(8 + number), node.optional(13 + number));
        tables.push(match (table, scale) {
            (Some(table), Some(scale)) => Some(dequantized(graph, table, scale, point)?),
            _ => None,
        });
    }
    let table = |number: usize| {
        tables[number].as_ref().ok_or_else(|| shape_error("a table or its scale is missing"))
    };
    let embedding = Embedding {
        words: table(0)?,
        positions: table(1)?,
        segments: tables[2].as_ref(),
        gamma: table(3)?,
        beta: table(4)?,
        mask: node.optional(7),
        places: None,
    };
    embedded(node, graph, &embedding)
}
