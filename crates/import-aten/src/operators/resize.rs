//! Resizing: values between elements along the last axes, axis by axis.
//!
//! Source: `area_pixel_compute_source_index` in PyTorch's `UpSample.h`. Where a factor is given,
//! places are found by it, not by the ratio of the extents.

use front::{
    Accepted, Graph, Interpolation, Operand, Surrounding, gather_axis, interpolation_order,
    sample_grid, unsupported,
};
use sym::Expr;
use tensor::{DType, Scalar};

use crate::node::{Lowered, Node};

/// What stands between two elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Between {
    /// The element whose place is next below.
    Nearest,
    /// A line.
    Linear,
}

/// `upsample_*(self, output_size, [align_corners,] factor an axis..)`, or, its overload `vec`, with
/// a list of factors; of `count` axes.
pub(super) fn resize(
    node: &Node<'_>,
    graph: &mut Graph,
    count: usize,
    between: Between,
) -> Lowered {
    let mut value = node.tensor(0, "self")?;
    let shape = node.shape()?.to_vec();
    if value.rank() != shape.len() || value.rank() < count {
        return Err(unsupported(format!("{count} axes of {}", value.rank())));
    }
    let is_linear = between == Between::Linear;
    let corners = is_linear && node.flag(2, "align_corners", false)?;
    let first_factor = if is_linear { 3 } else { 2 };
    let dtype = value.dtype();
    // Places and lines are computed in f32 or wider, as PyTorch does.
    let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let first = value.rank() - count;
    let growths: Vec<(usize, Option<f64>)> = (first..value.rank())
        .map(|axis| {
            let extents = shape[axis].as_constant().zip(value.shape()[axis].as_constant());
            (axis, extents.map(|(to, from)| to as f64 / from.max(1) as f64))
        })
        .collect();
    let order = if is_linear { interpolation_order(&growths) } else { (0..count).collect() };
    for number in order {
        let axis = first + number;
        let factor = node.factor(first_factor, number, count)?;
        let (from, to) = (value.shape()[axis].clone(), shape[axis].clone());
        if from == to && (corners || factor.is_none_or(|factor| factor == 1.0)) {
            continue;
        }
        let place = places(graph, (&from, &to), (factor, corners), between, wide)?;
        value = match between {
            Between::Nearest => {
                let index = graph.cast(&place, DType::I64)?;
                let last = graph.dimension(from - Expr::ONE);
                let index = graph.min(&index, &last)?;
                gather_axis(graph, &value, axis, &index)?
            }
            Between::Linear => line(graph, &value, axis, &place, wide)?,
        };
    }
    let value = graph.cast(&value, dtype)?;
    Ok(vec![graph.refine(&value, &shape)?])
}

/// `grid_sampler_3d(input, grid, interpolation_mode, padding_mode, align_corners)`: an image at the
/// places of a grid.
pub(super) fn sampled(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (x, grid) = (node.tensor(0, "input")?, node.tensor(1, "grid")?);
    let interpolation = match node.int(2, "interpolation_mode", 0)? {
        0 => Interpolation::Linear,
        1 => Interpolation::Nearest,
        other => return Err(unsupported(format!("interpolation of mode {other}"))),
    };
    let surrounding = match node.int(3, "padding_mode", 0)? {
        0 => Surrounding::Zeros,
        1 => Surrounding::Border,
        2 => Surrounding::Reflection,
        other => return Err(unsupported(format!("padding of mode {other}"))),
    };
    let aligned = node.flag(4, "align_corners", false)?;
    let (dtype, x) = (x.dtype(), graph.widen(&x)?);
    let sampled = sample_grid(graph, &x, &grid, interpolation, surrounding, aligned)?;
    Ok(vec![graph.cast(&sampled, dtype)?])
}

/// Where the elements of the result lie among those of the operand, from 0.
fn places(
    graph: &mut Graph,
    (from, to): (&Expr, &Expr),
    (factor, corners): (Option<f64>, bool),
    between: Between,
    wide: DType,
) -> Accepted<Operand> {
    let number = |graph: &mut Graph, extent: &Expr| {
        let extent = graph.dimension(extent.clone());
        graph.cast(&extent, wide)
    };
    let scale = match factor {
        // The least divisor keeps a result of one element at the first.
        _ if corners => {
            let last = number(graph, &(from.clone() - Expr::ONE))?;
            let own = number(graph, &(to.clone() - Expr::ONE))?;
            let one = graph.number(wide, 1.0);
            let own = graph.max(&own, &one)?;
            graph.div(&last, &own)?
        }
        Some(factor) if factor > 0.0 => graph.number(wide, 1.0 / factor),
        _ => {
            let (from, to) = (number(graph, from)?, number(graph, to)?);
            graph.div(&from, &to)?
        }
    };
    let count = graph.iota(DType::I64, std::slice::from_ref(to), 0)?;
    let count = graph.cast(&count, wide)?;
    if corners || between == Between::Nearest {
        return graph.mul(&count, &scale);
    }
    let middle = graph.add_number(&count, 0.5)?;
    let place = graph.mul(&middle, &scale)?;
    let place = graph.add_number(&place, -0.5)?;
    let zero = Operand::of_scalar(Scalar::zero(wide));
    graph.max(&place, &zero)
}

/// Elements on the lines between neighbours along an axis.
fn line(
    graph: &mut Graph,
    value: &Operand,
    axis: usize,
    place: &Operand,
    wide: DType,
) -> Accepted<Operand> {
    let last = graph.dimension(value.shape()[axis].clone() - Expr::ONE);
    let below = graph.floor(place)?;
    let share = graph.sub(place, &below)?;
    let below = graph.cast(&below, DType::I64)?;
    let below = graph.min(&below, &last)?;
    let one = graph.number(DType::I64, 1.0);
    let above = graph.add(&below, &one)?;
    let above = graph.min(&above, &last)?;
    let value = graph.cast(value, wide)?;
    let (low, high) =
        (gather_axis(graph, &value, axis, &below)?, gather_axis(graph, &value, axis, &above)?);
    let share = graph.broadcast_axis(&share, low.shape(), axis)?;
    let rise = graph.sub(&high, &low)?;
    let rise = graph.mul(&rise, &share)?;
    graph.add(&low, &rise)
}
