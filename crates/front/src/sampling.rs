//! Sampling of images at places that are data.

use graph::IterationSpace;
use sym::Expr;
use tensor::{DType, ScalarFunction as F};

use crate::value::Operand;
use crate::writer::{Accepted, Graph, shape_error};

/// What stands between the elements of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interpolation {
    /// The nearest element; halves go to even ones.
    Nearest,
    /// Lines along each axis.
    Linear,
    /// Keys' cubic convolution with the coefficient -0.75 along each axis.
    Cubic,
}

/// What lies outside of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surrounding {
    /// Zeros.
    Zeros,
    /// The outer elements.
    Border,
    /// The image, mirrored.
    Reflection,
}

/// Indices and weights of the taps along one axis, `[batch, outputs..., taps...]`.
struct Taps {
    index: Operand,
    weight: Option<Operand>,
}

/// An image `[n, c, extents...]` at the places of a grid `[n, outputs..., axes]`: the result is
/// `[n, c, outputs...]`. The last axis of the grid holds coordinates from -1 to 1, the last axis of
/// the image first; these are the middles of the outer elements where `aligned`, else their edges.
/// Each result is a weighted sum of the neighbours of its place, which is led back into the image
/// before they are looked for.
///
/// # Errors
///
/// A grid of another rank, batch or number of coordinates; a result beyond the limits.
pub fn sample_grid(
    graph: &mut Graph,
    x: &Operand,
    grid: &Operand,
    interpolation: Interpolation,
    surrounding: Surrounding,
    aligned: bool,
) -> Accepted<Operand> {
    let count = x.rank().saturating_sub(2);
    if count == 0 || grid.rank() != x.rank() {
        let (x, grid) = (x.rank(), grid.rank());
        return Err(shape_error(format!("a grid of rank {grid} for an input of rank {x}")));
    }
    let (first, width) = match interpolation {
        Interpolation::Nearest => (0, 1),
        Interpolation::Linear => (0, 2),
        Interpolation::Cubic => (-1, 4),
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
        let image = Image { extent: x.shape()[2 + axis].clone(), surrounding, aligned };
        let place = image.coordinate(graph, &place, interpolation == Interpolation::Nearest)?;
        let taps = image.taps(graph, &place, &shape, count + 1 + axis, first, interpolation)?;
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
    weighted_sum(graph, &read, &weights, count)
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

/// One axis of the image.
struct Image {
    extent: Expr,
    surrounding: Surrounding,
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
        match self.surrounding {
            Surrounding::Zeros => Ok(place),
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
        if self.surrounding == Surrounding::Border {
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
        interpolation: Interpolation,
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
        let mut weight = match interpolation {
            Interpolation::Nearest => None,
            Interpolation::Cubic => {
                let distance = graph.sub(&offset, &part)?;
                let distance = graph.abs(&distance)?;
                Some(cubic_weight(graph, &distance, -0.75)?)
            }
            Interpolation::Linear => {
                let distance = graph.sub(&offset, &part)?;
                let distance = graph.abs(&distance)?;
                let negated = graph.neg(&distance)?;
                Some(graph.add_number(&negated, 1.0)?)
            }
        };
        let zero = graph.number(dtype, 0.0);
        let last = self.number(graph, &self.extent - 1, dtype)?;
        let tap = match self.surrounding {
            Surrounding::Zeros => {
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

/// Keys' cubic convolution of a distance `d` with coefficient `a`:
/// `((a + 2) d - (a + 3)) d^2 + 1` up to 1, `((d - 5) d + 8) d a - 4 a` up to 2, else 0.
pub fn cubic_weight(graph: &mut Graph, distance: &Operand, a: f64) -> Accepted<Operand> {
    let square = graph.square(distance)?;
    let near = graph.mul_number(distance, a + 2.0)?;
    let near = graph.add_number(&near, -(a + 3.0))?;
    let near = graph.mul(&near, &square)?;
    let near = graph.add_number(&near, 1.0)?;
    let far = graph.add_number(distance, -5.0)?;
    let far = graph.mul(&far, distance)?;
    let far = graph.add_number(&far, 8.0)?;
    let far = graph.mul(&far, distance)?;
    let far = graph.mul_number(&far, a)?;
    let far = graph.add_number(&far, -4.0 * a)?;
    let [zero, one, two] = [0.0, 1.0, 2.0].map(|number| graph.number(distance.dtype(), number));
    let is_far = graph.less(distance, &two)?;
    let far = graph.select(&is_far, &far, &zero)?;
    let is_near = graph.less_equal(distance, &one)?;
    graph.select(&is_near, &near, &far)
}
