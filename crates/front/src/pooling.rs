//! Reductions over windows: padding with what the reduction ignores, then a reduction of each.

use graph::{IterationSpace, Op};
use sym::Expr;
use tensor::{DType, Reduction, Scalar, ScalarFunction};

use crate::value::Operand;
use crate::windows::{Windows, reach};
use crate::writer::{Accepted, Graph, shape_error};

/// A reduction of each window of a value that has been padded.
pub fn reduce_windows(
    graph: &mut Graph,
    windows: &Windows,
    padded: &Operand,
    reduction: Reduction,
) -> Accepted<Operand> {
    let count = windows.kernel.len();
    let lead = padded.rank() - count;
    let mut extents = padded.shape()[..lead].to_vec();
    extents.extend_from_slice(&windows.outputs);
    extents.extend(windows.kernel.iter().map(|&extent| Expr::from(extent)));
    let mut index: Vec<Expr> = (0..lead).map(IterationSpace::axis).collect();
    index.extend(windows.index(lead, lead + count));
    let space = IterationSpace { extents, parallel: lead + count, operands: vec![index] };
    let dtype = padded.dtype();
    let is_sum = reduction == Reduction::Sum;
    let accumulator = if is_sum { graph::accumulator_of(dtype) } else { dtype };
    let reduced = graph.reduce(space, padded, reduction, accumulator)?;
    graph.cast(&reduced, dtype)
}

/// Which place of a window's greatest element [`max_places`] gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceOrder {
    /// Row-major among the spatial axes of its channel.
    OfChannel,
    /// Row-major in the whole value.
    Whole,
    /// The same with the spatial axes column-major.
    WholeColumnMajor,
}

/// Elements of a window up to which the greatest is found by comparing each, a slice of the value,
/// with the greatest, which vectors do.
const MOST_COMPARED: i64 = 32;

/// The greatest element of each window of a value of axes batch, channels and spatial ones, and the
/// place of the first such element, an i64. A NaN is greater than any number.
pub fn max_places(
    graph: &mut Graph,
    windows: &Windows,
    x: &Operand,
    padded: &Operand,
    order: PlaceOrder,
) -> Accepted<(Operand, Operand)> {
    let count = windows.kernel.len();
    let mut factors = vec![Expr::ONE; 2 + count];
    let mut behind = Expr::ONE;
    let spatial = 2..2 + count;
    let fastest: Vec<usize> = match order {
        PlaceOrder::WholeColumnMajor => spatial.chain([1, 0]).collect(),
        _ => spatial.rev().chain([1, 0]).collect(),
    };
    for axis in fastest {
        factors[axis] = behind.clone();
        behind = behind * &x.shape()[axis];
    }
    if order == PlaceOrder::OfChannel {
        (factors[0], factors[1]) = (Expr::ZERO, Expr::ZERO);
    }
    let elements: i64 = windows.kernel.iter().product();
    let factors_known: Option<Vec<i64>> = factors[2..].iter().map(Expr::as_constant).collect();
    let greatest = reduce_windows(graph, windows, padded, Reduction::Max)?;
    let mut place = match factors_known {
        Some(factors) if elements <= MOST_COMPARED => {
            compared(graph, windows, padded, &greatest, &factors)?
        }
        _ => searched(graph, windows, x, padded, &factors)?,
    };
    // The places of the windows' first elements.
    let lead = [&x.shape()[..2], &windows.outputs].concat();
    for (axis, factor) in factors.iter().enumerate().filter(|(_, factor)| !factor.is_zero()) {
        let (stride, low) = match axis.checked_sub(2) {
            Some(own) => (windows.strides[own], windows.low[own].clone()),
            None => (1, Expr::ZERO),
        };
        let along = graph.iota(DType::I64, &lead, axis)?;
        let step = graph.dimension(factor * stride);
        let along = graph.mul(&along, &step)?;
        let first = graph.dimension(low * factor);
        let along = graph.sub(&along, &first)?;
        place = graph.add(&place, &along)?;
    }
    Ok((greatest, place))
}

/// How far behind the place of a window's first element that of the first one equal to the greatest
/// lies, an axis' neighbours being `factors` apart.
fn compared(
    graph: &mut Graph,
    windows: &Windows,
    padded: &Operand,
    greatest: &Operand,
    factors: &[i64],
) -> Accepted<Operand> {
    let count = windows.kernel.len();
    let lead = padded.rank() - count;
    let steps: Vec<i64> =
        std::iter::repeat_n(1, lead).chain(windows.strides.iter().copied()).collect();
    let reaches = (0..count).map(|axis| {
        reach(windows.kernel[axis], windows.dilations[axis]).saturating_mul(factors[axis])
    });
    let is_small = reaches.fold(0i64, i64::saturating_add) < i64::from(i32::MAX);
    let dtype = if is_small { DType::I32 } else { DType::I64 };
    let mut place: Option<Operand> = None;
    for element in (0..windows.kernel.iter().product::<i64>()).rev() {
        let (mut rest, mut offset) = (element, 0);
        let mut starts = vec![Expr::ZERO; padded.rank()];
        for axis in (0..count).rev() {
            let along = rest % windows.kernel[axis] * windows.dilations[axis];
            rest /= windows.kernel[axis];
            offset += along * factors[axis];
            starts[lead + axis] = Expr::from(along);
        }
        let offset = graph.number(dtype, offset as f64);
        let Some(behind) = place else {
            place = Some(graph.broadcast_to(&offset, greatest.shape())?);
            continue;
        };
        let own = graph.slice(padded, &starts, &steps, greatest.shape())?;
        let mut is_greatest = graph.equal(&own, greatest)?;
        if own.dtype().is_float() {
            let is_number = graph.equal(&own, &own)?;
            let is_nan = graph.map(ScalarFunction::Not, &[&is_number])?;
            is_greatest = graph.or(&is_greatest, &is_nan)?;
        }
        place = Some(graph.select(&is_greatest, &offset, &behind)?);
    }
    let place = place.ok_or_else(|| shape_error("a window without elements"))?;
    graph.cast(&place, DType::I64)
}

/// As [`compared`], of any window and for any factors: windows are laid out along one axis, of
/// which the greatest is found.
fn searched(
    graph: &mut Graph,
    windows: &Windows,
    x: &Operand,
    padded: &Operand,
    factors: &[Expr],
) -> Accepted<Operand> {
    let count = windows.kernel.len();
    let kernel: Vec<Expr> = windows.kernel.iter().map(|&extent| Expr::from(extent)).collect();
    let places = [&windows.outputs[..], &kernel].concat();
    let mut indices = Vec::new();
    for axis in 0..count {
        let output = graph.iota(DType::I64, &places, axis)?;
        let output = graph.mul_number(&output, windows.strides[axis] as f64)?;
        let element = graph.iota(DType::I64, &places, count + axis)?;
        let element = graph.mul_number(&element, windows.dilations[axis] as f64)?;
        indices.push(graph.add(&output, &element)?);
    }
    let axes: Vec<usize> = (2..2 + count).collect();
    let laid_out = graph.gather(padded, &axes, &indices, 0, 2)?;
    let elements: Expr = kernel.iter().product();
    let lead = [&x.shape()[..2], &windows.outputs].concat();
    let laid_out = graph.reshape(&laid_out, &[&lead[..], &[elements]].concat())?;
    let axis = 2 + count;
    let mut rest =
        graph.primitive(Op::ArgReduce { axis, greatest: true, last: false }, &[&laid_out])?;
    // The element's number taken apart into places along the axes.
    let mut total = graph.full(&lead, Scalar::zero(DType::I64))?;
    for axis in (0..count).rev() {
        let extent = graph.number(DType::I64, windows.kernel[axis] as f64);
        let element = graph.rem(&rest, &extent)?;
        rest = graph.div(&rest, &extent)?;
        let step = graph.dimension(&factors[2 + axis] * windows.dilations[axis]);
        let element = graph.mul(&element, &step)?;
        total = graph.add(&total, &element)?;
    }
    Ok(total)
}

/// How many counted elements each window has: `[1, 1, outputs...]`.
pub fn window_counts(
    graph: &mut Graph,
    mut windows: Windows,
    x: &Operand,
    counts_padding: bool,
) -> Accepted<Operand> {
    let mut shape = vec![Expr::ONE; 2];
    shape.extend_from_slice(&x.shape()[2..]);
    if counts_padding {
        for axis in 0..windows.kernel.len() {
            let (low, high) = (&mut windows.low[axis], &mut windows.high[axis]);
            shape[2 + axis] = &shape[2 + axis] + &*low + &*high;
            (*low, *high) = (Expr::ZERO, Expr::ZERO);
        }
    }
    windows.trim(&shape[2..]);
    let ones = graph.full(&shape, Scalar::one(x.dtype()))?;
    let zero = graph.number(x.dtype(), 0.0);
    let padded = windows.pad(graph, &ones, &zero)?;
    reduce_windows(graph, &windows, &padded, Reduction::Sum)
}
