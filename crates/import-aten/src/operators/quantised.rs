//! Quantised numbers as PyTorch's quantiser of exported programs writes them: integers of a few
//! bits with a scale and a zero point, those of a tensor or of the places along an axis.

use front::{Accepted, Graph, Operand, shape_error, unsupported};
use tensor::{DType, Reduction};

use crate::node::{Lowered, Node};

/// Scale and zero point of all elements of `x`, or of those along an axis, each in `dtype` and
/// under the shape of `x`; the quotient of one by the scale instead of the scale where that is
/// asked for, rounded as the scale is given. A zero point that is left out, or zero, is none.
fn range(
    node: &Node<'_>,
    graph: &mut Graph,
    x: &Operand,
    dtype: DType,
    (axis, is_inverse): (Option<usize>, bool),
) -> Accepted<(Operand, Option<Operand>)> {
    let mut scale = node.operand(graph, 1, if axis.is_some() { "scales" } else { "scale" })?;
    let name = if axis.is_some() { "zero_points" } else { "zero_point" };
    let zero = node.argument(2, name).map(|_| node.operand(graph, 2, name)).transpose()?;
    if let Some(number) = scale.first_number(|number| !(number.is_finite() && number > 0.0)) {
        return Err(unsupported(format!("a scale is {number}, which is not positive")));
    }
    if axis.is_none() {
        // Of a tensor there is one number, which Python has in 64 bits.
        scale = graph.cast(&scale, DType::F64)?;
    }
    if is_inverse {
        let one = graph.number(scale.dtype(), 1.0);
        scale = graph.div(&one, &scale)?;
    }
    let scale = graph.cast(&scale, dtype)?;
    let under = |graph: &mut Graph, value: &Operand| match axis {
        Some(axis) => graph.broadcast_axis(value, x.shape(), axis),
        None => {
            let number = graph.reshape(value, &[])?;
            graph.broadcast_to(&number, x.shape())
        }
    };
    let scale = under(graph, &scale)?;
    let Some(zero) = zero else { return Ok((scale, None)) };
    // One number for all channels is a part of how a model is quantised, which passes may know.
    let same = zero.same_for_all();
    if same.as_ref().and_then(Operand::numbers).is_some_and(|it| it[0].as_f64() == 0.0) {
        return Ok((scale, None));
    }
    let zero = match same {
        Some(number) => {
            let number = graph.cast(&number, dtype)?;
            graph.broadcast_to(&number, x.shape())?
        }
        None => {
            let zero = graph.cast(&zero, dtype)?;
            under(graph, &zero)?
        }
    };
    Ok((scale, Some(zero)))
}

/// The axis whose places have scales of their own.
fn axis_of(node: &Node<'_>, x: &Operand) -> Accepted<Option<usize>> {
    node.axis((3, "axis"), 0, x.rank()).map(Some)
}

/// Least and greatest integer, behind so many arguments.
fn bounds(node: &Node<'_>, place: usize) -> Accepted<(f64, f64)> {
    let low = node.int(place, "quant_min", -128)?;
    Ok((low as f64, node.int(place + 1, "quant_max", 127)? as f64))
}

fn quantised(node: &Node<'_>, graph: &mut Graph, is_along_axis: bool) -> Lowered {
    let x = node.tensor(0, "input")?;
    let x = graph.cast(&x, DType::F32)?;
    let axis = if is_along_axis { axis_of(node, &x)? } else { None };
    let (low, high) = bounds(node, if is_along_axis { 4 } else { 3 })?;
    let (inverse, zero) = range(node, graph, &x, DType::F32, (axis, true))?;
    let steps = graph.mul(&x, &inverse)?;
    let steps = graph.round(&steps)?;
    let dtype = node.dtype()?;
    if dtype.integer_range().is_some_and(|(least, most)| low <= least as f64 && high >= most as f64)
    {
        return Ok(vec![graph.saturated(&steps, zero.as_ref(), dtype)?]);
    }
    let steps = match &zero {
        Some(zero) => graph.add(&steps, zero)?,
        None => steps,
    };
    let bounded = graph.clamp(&steps, low, high)?;
    Ok(vec![graph.cast(&bounded, dtype)?])
}

fn dequantised(node: &Node<'_>, graph: &mut Graph, is_along_axis: bool) -> Lowered {
    let x = node.tensor(0, "input")?;
    let axis = if is_along_axis { axis_of(node, &x)? } else { None };
    let (scale, zero) = range(node, graph, &x, DType::F32, (axis, false))?;
    let mut wide = graph.cast(&x, DType::F32)?;
    if let Some(zero) = &zero {
        wide = graph.sub(&wide, zero)?;
    }
    let value = graph.mul(&wide, &scale)?;
    Ok(vec![graph.cast(&value, node.dtype()?)?])
}

/// Numbers to integers at the scale of a tensor.
pub(super) fn quantise(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    quantised(node, graph, false)
}

/// Integers to numbers at the scale of a tensor.
pub(super) fn dequantise(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    dequantised(node, graph, false)
}

/// Numbers to integers at scales along an axis.
pub(super) fn quantise_along(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    quantised(node, graph, true)
}

/// Integers to numbers at scales along an axis.
pub(super) fn dequantise_along(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    dequantised(node, graph, true)
}

/// The scale and the zero point with which numbers fit the integers, found of the numbers, zero
/// among them; with `is_symmetric` as far below zero as above.
pub(super) fn choose_range(node: &Node<'_>, graph: &mut Graph, is_symmetric: bool) -> Lowered {
    let x = node.tensor(0, "input")?;
    let x = graph.cast(&x, DType::F32)?;
    let (low, high) = bounds(node, 1)?;
    let least_scale = node.number(3, "eps")?.unwrap_or(f64::from(f32::EPSILON));
    let axes: Vec<usize> = (0..x.rank()).collect();
    let none = graph.number(DType::F32, 0.0);
    let least = graph.reduce_axes(&x, &axes, Reduction::Min, false)?;
    let least = graph.min(&least, &none)?;
    let most = graph.reduce_axes(&x, &axes, Reduction::Max, false)?;
    let most = graph.max(&most, &none)?;
    let (span, steps) = match is_symmetric {
        true => {
            let below = graph.neg(&least)?;
            (graph.max(&below, &most)?, (high - low) / 2.0)
        }
        false => (graph.sub(&most, &least)?, high - low),
    };
    let steps = graph.number(DType::F32, steps);
    let scale = graph.div(&span, &steps)?;
    let floor = graph.number(DType::F32, least_scale);
    let scale = graph.max(&scale, &floor)?;
    let zero = match is_symmetric {
        // As far from both ends; of signed integers that is zero.
        true => graph.number(DType::F32, if low < 0.0 { 0.0 } else { 128.0 }),
        false => {
            let below = graph.div(&least, &scale)?;
            let below = graph.round(&below)?;
            let low_number = graph.number(DType::F32, low);
            let zero = graph.sub(&low_number, &below)?;
            graph.clamp(&zero, low, high)?
        }
    };
    let mut results = Vec::new();
    for (number, value) in [scale, zero].iter().enumerate() {
        let declared = node.result(number)?;
        let (dtype, shape) = (declared.dtype, declared.shape.clone());
        if shape.iter().any(|extent| !extent.is_one()) {
            return Err(shape_error("a scale of a tensor is one number"));
        }
        let value = graph.cast(value, dtype)?;
        results.push(graph.broadcast_to(&value, &shape[..])?);
    }
    Ok(results)
}
