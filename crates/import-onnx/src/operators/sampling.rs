//! Sampling of images at places that are data.

use front::{Accepted, Graph, Operand, shape_error};
use graph::IterationSpace;
use sym::Expr;
use tensor::{DType, ScalarFunction as F};

use super::Lowered;
use super::resize::cubic;
use crate::node::Node;

/// What lies outside of the image.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outside {
    Zeros,
    Border,
    Reflection,
}

/// Indices and weights of the taps along one axis, `[batch, outputs..., taps...]`.
struct Taps {
    index: Operand,
    weight: Option<Operand>,
}

/// `GridSample`: the last axis of the grid holds coordinates from -1 to 1, the last image axis
/// first. Each result is a weighted sum of the neighbours of its place.
pub(super) fn grid_sample(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (x, grid) = (node.input(0)?, node.input(1)?);
    let count = x.rank().saturating_sub(2);
    if count == 0 || grid.rank() != x.rank() {
        let (x, grid) = (x.rank(), grid.rank());
        return Err(shape_error(format!("a grid of rank {grid} for an input of rank {x}")));
    }
    let mode = node.word("mode", &["linear", "bilinear", "nearest", "cubic", "bicubic"])?;
    let outside = match node.word("padding_mode", &["zeros", "border", "reflection"])? {
        "zeros" => Outside::Zeros,
        "border" => Outside::Border,
        _ => Outside::Reflection,
    };
    let aligned = node.flag("align_corners", false)?;
    let (first, width) = match mode {
        "nearest" => (0, 1),
        "cubic" | "bicubic" => (-1, 4),
        _ => (0, 2),
    };
    let mut shape = grid.shape()[..=count].to_vec();
    shape[0] = x.shape()[0].clone();
    let outputs = shape.clone();
    shape.extend(vec![Expr::from(width); count]);
    graph.check_size(&shape)?;

    let wide = if x.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
    let grid = graph.cast(grid, wide)?;
    graph.assume_equal(&grid.shape()[count + 1], &Expr::from(count))?;
    let mut indices = Vec::new();
    let mut weights: Option<Operand> = None;
    for axis in 0..count {
        let number = Expr::from(count - 1 - axis);
        let place = graph.slice_axis(&grid, count + 1, number, 1, Expr::ONE)?;
        let place = graph.reshape(&place, &grid.shape()[..=count])?;
        let place = graph.refine(&place, &outputs)?;
        let image = Image { extent: x.shape()[2 + axis].clone(), outside, aligned };
        let place = image.coordinate(graph, &place, mode == "nearest")?;
        let taps = image.taps(graph, &place, &shape, count + 1 + axis, first, mode)?;
        indices.push(taps.index);
        weights = match (weights, taps.weight) {
            (Some(weights), Some(weight)) => Some(graph.mul(&weights, &weight)?),
            (weights, weight) => weights.or(weight),
        };
    }
    let axes: Vec<usize> = (2..2 + count).collect();
    let read = graph.gather(x, &axes, &indices, 1, 1)?;
    let weights = match weights {
        Some(weights) => graph.cast(&weights, x.dtype())?,
        None => graph.full(&shape, tensor::Scalar::one(x.dtype()))?,
    };
    Ok(vec![weighted_sum(graph, &read, &weights, count)?])
}

/// `[n, c, o...] = sum(t...) read[n, c, o..., t...] * weights[n, o..., t...]`
fn weighted_sum(
    graph: &mut Graph,
    read: &Operand,
    weights: &Operand,
    count: usize,
) -> Accepted<Operand> {
    let axes: Vec<Expr> = (0..read.rank()).map(IterationSpace::axis).collect();
    let weight = [&axes[..1], &axes[2..]].concat();
    let space = IterationSpace {
        extents: read.shape().to_vec(),
        parallel: 2 + count,
        operands: vec![axes, weight],
    };
    let accumulator = graph::accumulator_of(read.dtype());
    graph.contract(space, read, weights, accumulator, read.dtype())
}

/// `AffineGrid`: `grid[n, p..., k] = sum(j) theta[n, k, j] * (x, y, ..., 1)[p..., j]`, where `x`
/// runs from -1 to 1 along the last axis of the image, `y` along the one before, and so on.
pub(super) fn affine_grid(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let theta = node.input(0)?;
    let size = node.sizes(1, "size of the image", graph)?;
    let [_, _, image @ ..] = &size[..] else {
        return Err(shape_error(format!("a size of {} axes", size.len())));
    };
    if theta.rank() != 3 || image.is_empty() {
        return Err(shape_error(format!("matrices of rank {}, not 3", theta.rank())));
    }
    graph.check_size(image)?;
    let (count, dtype) = (image.len(), theta.dtype());
    let aligned = node.flag("align_corners", false)?;
    let column = [image, &[Expr::ONE]].concat();
    let mut coordinates = Vec::new();
    for axis in (0..count).rev() {
        let place = graph.iota(dtype, &column, axis)?;
        let (offset, steps) = match aligned {
            true => (0.0, &image[axis] - 1),
            false => (0.5, image[axis].clone()),
        };
        let place = graph.add_number(&place, offset)?;
        let doubled = graph.mul_number(&place, 2.0)?;
        let steps = graph.dimension(steps);
        let steps = graph.cast(&steps, dtype)?;
        let scaled = graph.div(&doubled, &steps)?;
        coordinates.push(graph.add_number(&scaled, -1.0)?);
    }
    coordinates.push(graph.full(&column, tensor::Scalar::one(dtype))?);
    let base = graph.concat(count, &coordinates)?;
    let wanted = [theta.shape()[0].clone(), Expr::from(count), Expr::from(count + 1)];
    let theta = graph.refine(theta, &wanted)?;
    let axis = IterationSpace::axis;
    let mut extents = vec![wanted[0].clone()];
    extents.extend_from_slice(image);
    extents.extend_from_slice(&wanted[1..]);
    let read_base = (1..=count).chain([count + 2]).map(axis).collect();
    let operands = vec![vec![axis(0), axis(count + 1), axis(count + 2)], read_base];
    let space = IterationSpace { extents, parallel: count + 2, operands };
    Ok(vec![graph.contract(space, &theta, &base, graph::accumulator_of(dtype), dtype)?])
}

/// One axis of the image.
struct Image {
    extent: Expr,
    outside: Outside,
    aligned: bool,
}

impl Image {
    /// A coordinate from -1 to 1 as a place in elements, led back into the image.
    fn coordinate(&self, graph: &mut Graph, place: &Operand, rounds: bool) -> Accepted<Operand> {
        let from_zero = graph.add_number(place, 1.0)?;
        let span = if self.aligned { &self.extent - 1 } else { self.extent.clone() };
        let span = self.number(graph, span, place.dtype())?;
        let scaled = graph.mul(&from_zero, &span)?;
        let mut place = graph.mul_number(&scaled, 0.5)?;
        if !self.aligned {
            place = graph.add_number(&place, -0.5)?;
        }
        if rounds {
            place = graph.round(&place)?;
        }
        match self.outside {
            Outside::Zeros => Ok(place),
            _ => self.led_back(graph, &place),
        }
    }

    fn number(&self, graph: &mut Graph, expr: Expr, dtype: DType) -> Accepted<Operand> {
        let value = graph.dimension(expr);
        graph.cast(&value, dtype)
    }

    /// Clamped to the image, or mirrored at its borders.
    fn led_back(&self, graph: &mut Graph, place: &Operand) -> Accepted<Operand> {
        let dtype = place.dtype();
        if self.outside == Outside::Border {
            let last = self.number(graph, &self.extent - 1, dtype)?;
            let zero = graph.number(dtype, 0.0);
            let place = graph.max(place, &zero)?;
            return graph.min(&place, &last);
        }
        // A triangle wave between the borders: centres of the outer elements, or their edges.
        let (low, span) = match self.aligned {
            true => (0.0, &self.extent - 1),
            false => (-0.5, self.extent.clone()),
        };
        if span.is_zero() {
            return graph.mul_number(place, 0.0);
        }
        let span = self.number(graph, span, dtype)?;
        let period = graph.add(&span, &span)?;
        let phase = graph.add_number(place, -low)?;
        let phase = graph.map(F::Mod, &[&phase, &period])?;
        let mirrored = graph.sub(&period, &phase)?;
        let phase = graph.min(&phase, &mirrored)?;
        graph.add_number(&phase, low)
    }

    /// The taps around a place, along axis `axis` of `shape`.
    fn taps(
        &self,
        graph: &mut Graph,
        place: &Operand,
        shape: &[Expr],
        axis: usize,
        first: i64,
        mode: &str,
    ) -> Accepted<Taps> {
        let dtype = place.dtype();
        let whole = graph.floor(place)?;
        let part = graph.sub(place, &whole)?;
        let lead: Vec<usize> = (0..place.rank()).collect();
        let whole = graph.broadcast(&whole, shape, &lead)?;
        let part = graph.broadcast(&part, shape, &lead)?;
        let offset = graph.iota(dtype, shape, axis)?;
        let offset = graph.add_number(&offset, first as f64)?;
        let tap = graph.add(&whole, &offset)?;
        let mut weight = match mode {
            "nearest" => None,
            "cubic" | "bicubic" => {
                let distance = graph.sub(&offset, &part)?;
                let distance = graph.abs(&distance)?;
                Some(cubic(graph, &distance, -0.75)?)
            }
            _ => {
                let distance = graph.sub(&offset, &part)?;
                let distance = graph.abs(&distance)?;
                let negated = graph.neg(&distance)?;
                Some(graph.add_number(&negated, 1.0)?)
            }
        };
        let zero = graph.number(dtype, 0.0);
        let last = self.number(graph, &self.extent - 1, dtype)?;
        let tap = match self.outside {
            Outside::Zeros => {
                let (low, high) =
                    (graph.greater_equal(&tap, &zero)?, graph.less_equal(&tap, &last)?);
                let inside = graph.and(&low, &high)?;
                let full = match weight {
                    Some(weight) => weight,
                    None => graph.full(shape, tensor::Scalar::one(dtype))?,
                };
                weight = Some(graph.select(&inside, &full, &zero)?);
                tap
            }
            _ => self.led_back(graph, &tap)?,
        };
        // Indices are kept within the image, be it for places that are no numbers.
        let tap = graph.max(&tap, &zero)?;
        let tap = graph.min(&tap, &last)?;
        Ok(Taps { index: graph.cast(&tap, DType::I64)?, weight })
    }
}
