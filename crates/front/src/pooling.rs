//! Reductions over windows: padding with what the reduction ignores, then a reduction of each.

use graph::{IterationSpace, Op};
use sym::Expr;
use tensor::{DType, Reduction, Scalar};

use crate::value::Operand;
use crate::windows::Windows;
use crate::writer::{Accepted, Graph};

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

/// The row-major (or, of the spatial axes, column-major) index of the greatest element of each
/// window. The windows are laid out along one axis, of which the greatest is found.
pub fn max_indices(
    graph: &mut Graph,
    windows: &Windows,
    x: &Operand,
    padded: &Operand,
    column_major: bool,
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
    let best =
        graph.primitive(Op::ArgReduce { axis, greatest: true, last: false }, &[&laid_out])?;

    // Take the element apart into places along the axes, and put those together.
    let mut rest = best;
    let mut places = vec![rest.clone(); count];
    for axis in (0..count).rev() {
        let extent = graph.number(DType::I64, windows.kernel[axis] as f64);
        let element = graph.rem(&rest, &extent)?;
        rest = graph.div(&rest, &extent)?;
        let element = graph.mul_number(&element, windows.dilations[axis] as f64)?;
        let output = graph.iota(DType::I64, &lead, 2 + axis)?;
        let output = graph.mul_number(&output, windows.strides[axis] as f64)?;
        let low = graph.dimension(windows.low[axis].clone());
        let place = graph.add(&output, &element)?;
        places[axis] = graph.sub(&place, &low)?;
    }
    let mut order: Vec<usize> = (2..2 + count).collect();
    if column_major {
        order.reverse();
    }
    let mut total = graph.iota(DType::I64, &lead, 0)?;
    for axis in [1].into_iter().chain(order) {
        let extent = graph.dimension(x.shape()[axis].clone());
        total = graph.mul(&total, &extent)?;
        let place =
            if axis == 1 { graph.iota(DType::I64, &lead, 1)? } else { places[axis - 2].clone() };
        total = graph.add(&total, &place)?;
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
