//! Resizing pictures: elements next to, or between, others along height and width.

use front::{Accepted, Graph, Operand, gather_axis, shape_error, unsupported};
use tensor::{DType, Scalar, Tensor};

use crate::node::{Lowered, Node};

/// Height and width before and behind, and how places correspond.
struct Resize {
    x: Operand,
    from: [i64; 2],
    to: [i64; 2],
    corners: bool,
    half_pixel: bool,
}

impl Resize {
    /// What a node resizes; `field` of the first flag.
    fn of(node: &Node<'_>, field: usize) -> Accepted<Resize> {
        let x = node.input(0)?;
        let options = node.options()?;
        let (corners, half_pixel) = (options.flag(field, false)?, options.flag(field + 1, false)?);
        let to = node.integers(1, "size")?;
        let to: [i64; 2] =
            to[..].try_into().map_err(|_| shape_error("a size of not two numbers"))?;
        if x.rank() != 4 || to.iter().any(|extent| !(1..1 << 20).contains(extent)) {
            return Err(shape_error(format!("{} axes resized to {to:?}", x.rank())));
        }
        let extent =
            |axis: usize| x.shape()[axis].as_constant().filter(|it| (1..1 << 20).contains(it));
        let (Some(height), Some(width)) = (extent(1), extent(2)) else {
            return Err(unsupported("resizing a picture whose extents are not fixed"));
        };
        if corners && half_pixel {
            return Err(unsupported("corners and middles of pixels at once"));
        }
        Ok(Resize { x, from: [height, width], to, corners, half_pixel })
    }

    /// How far elements of the result are apart, in single precision.
    fn scale(&self, axis: usize) -> f32 {
        let (from, to) = (self.from[axis], self.to[axis]);
        match self.corners && to > 1 {
            true => (from - 1) as f32 / (to - 1) as f32,
            false => from as f32 / to as f32,
        }
    }
}

/// Indices as a constant.
fn indices(places: impl Iterator<Item = i64>) -> Operand {
    let places: Vec<i64> = places.collect();
    front::constant_value("", Tensor::from_slice(&[places.len()], &places), false)
}

/// `RESIZE_NEAREST_NEIGHBOR`
pub(super) fn nearest(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let resize = Resize::of(node, 0)?;
    let mut value = resize.x.clone();
    for axis in 0..2 {
        let scale = resize.scale(axis);
        let offset = if resize.half_pixel { 0.5 } else { 0.0 };
        let place = |number: i64| {
            let place = (number as f32 + offset) * scale;
            let place = if resize.corners { place.round() } else { place.floor() };
            (place as i64).clamp(0, resize.from[axis] - 1)
        };
        value = gather_axis(graph, &value, 1 + axis, &indices((0..resize.to[axis]).map(place)))?;
    }
    Ok(vec![value])
}

/// Along an axis: the elements before and behind, and the weights of both.
struct Between {
    before: Operand,
    behind: Operand,
    weights: [Operand; 2],
}

/// Weights along an axis, in the shape `[to, 1, 1]` or `[to, 1]`.
fn weights(numbers: Vec<Scalar>, dtype: DType, axis: usize) -> Operand {
    let shape: &[usize] = if axis == 0 { &[numbers.len(), 1, 1] } else { &[numbers.len(), 1] };
    front::constant_value("", Tensor::from_scalars(dtype, shape, &numbers), false)
}

impl Between {
    /// In single precision.
    fn floats(resize: &Resize, axis: usize) -> Between {
        let scale = resize.scale(axis);
        let place = |number: i64| match resize.half_pixel {
            true => (number as f32 + 0.5) * scale - 0.5,
            false => number as f32 * scale,
        };
        let places: Vec<f32> = (0..resize.to[axis]).map(place).collect();
        let before = |place: &f32| (place.floor() as i64).max(0);
        let behind = |place: &f32| (place.ceil() as i64).min(resize.from[axis] - 1);
        let share = |place: &f32| place - before(place) as f32;
        let number = |it: f32| Scalar::from_f64(DType::F32, f64::from(it));
        let own: Vec<Scalar> = places.iter().map(|it| number(1.0 - share(it))).collect();
        let other: Vec<Scalar> = places.iter().map(|it| number(share(it))).collect();
        Between {
            before: indices(places.iter().map(before)),
            behind: indices(places.iter().map(behind)),
            weights: [own, other].map(|them| weights(them, DType::F32, axis)),
        }
    }

    /// In whole numbers with ten bits behind the point.
    fn integers(resize: &Resize, axis: usize, dtype: DType) -> Between {
        let (from, to) = (resize.from[axis], resize.to[axis]);
        let scale = match resize.corners && to > 1 {
            true => ((from - 1) * 1024 + (to - 1) / 2) / (to - 1),
            false => (from * 1024 + to / 2) / to,
        };
        let place = |number: i64| match resize.half_pixel {
            true => number * scale + scale / 2 - 512,
            false => number * scale,
        };
        let places: Vec<i64> = (0..to).map(place).collect();
        let before = |place: &i64| (place / 1024).max(0);
        let behind = |place: &i64| ((place + 1023) / 1024).min(from - 1);
        let share = |place: &i64| place - 1024 * before(place);
        let number = |it: i64| Scalar::from_i64(dtype, it);
        let own: Vec<Scalar> = places.iter().map(|it| number(1024 - share(it))).collect();
        let other: Vec<Scalar> = places.iter().map(|it| number(share(it))).collect();
        Between {
            before: indices(places.iter().map(before)),
            behind: indices(places.iter().map(behind)),
            weights: [own, other].map(|them| weights(them, dtype, axis)),
        }
    }
}

/// The sum of four neighbours by their weights, in the kernel's order.
fn blended(graph: &mut Graph, x: &Operand, rows: &Between, columns: &Between) -> Accepted<Operand> {
    let mut sum: Option<Operand> = None;
    for (column, across) in [(&columns.before, 0), (&columns.behind, 1)] {
        for (row, down) in [(&rows.before, 0), (&rows.behind, 1)] {
            let value = gather_axis(graph, x, 1, row)?;
            let value = gather_axis(graph, &value, 2, column)?;
            let value = graph.mul(&value, &rows.weights[down])?;
            let value = graph.mul(&value, &columns.weights[across])?;
            sum = Some(match sum {
                Some(sum) => graph.add(&sum, &value)?,
                None => value,
            });
        }
    }
    sum.ok_or_else(|| shape_error("nothing to blend"))
}

/// `RESIZE_BILINEAR`
pub(super) fn linear(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let resize = Resize::of(node, 2)?;
    let dtype = resize.x.dtype();
    if dtype.is_float() || dtype == DType::U8 {
        let (rows, columns) = (Between::floats(&resize, 0), Between::floats(&resize, 1));
        let wide = graph.cast(&resize.x, DType::F32)?;
        let mut value = blended(graph, &wide, &rows, &columns)?;
        if dtype == DType::U8 {
            value = graph.add_number(&value, 0.5)?;
        }
        return Ok(vec![graph.cast(&value, dtype)?]);
    }
    let wide = if dtype == DType::I8 { DType::I32 } else { DType::I64 };
    let (rows, columns) =
        (Between::integers(&resize, 0, wide), Between::integers(&resize, 1, wide));
    let x = graph.cast(&resize.x, wide)?;
    let sum = blended(graph, &x, &rows, &columns)?;
    let zero = graph.number(wide, 0.0);
    let half = graph.number(wide, f64::from(1 << 19));
    let below = graph.neg(&half)?;
    let is_positive = graph.greater(&sum, &zero)?;
    let half = graph.select(&is_positive, &half, &below)?;
    let nudged = graph.add(&sum, &half)?;
    let steps = graph.number(wide, f64::from(1 << 20));
    let value = graph.div(&nudged, &steps)?;
    Ok(vec![graph.cast(&value, dtype)?])
}
