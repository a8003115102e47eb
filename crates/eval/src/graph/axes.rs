//! Primitives that work along one axis, and the search for true elements.

use std::cmp::Ordering;

use base::codes;
use tensor::{DType, Reduction, Scalar, Tensor, dense_strides};

use super::movement::each_index;
use crate::EvaluationFault;

/// The lines of a tensor along an axis: calls `visit` with the number of the line (row-major over
/// the other axes) and the row-major index of each of its elements.
fn lines(shape: &[usize], axis: usize, mut visit: impl FnMut(usize, &[usize])) {
    let own = dense_strides(shape);
    let mut others = shape.to_vec();
    others[axis] = 1;
    let mut line = vec![0; shape[axis]];
    let mut number = 0;
    each_index(&others, |index| {
        let start: usize = index.iter().zip(&own).map(|(index, stride)| index * stride).sum();
        line.iter_mut().enumerate().for_each(|(place, at)| *at = start + place * own[axis]);
        visit(number, &line);
        number += 1;
    });
}

/// The order of elements of one type: NaN is greatest and equals itself, zeros are equal.
fn compare(a: Scalar, b: Scalar) -> Ordering {
    if !a.dtype().is_float() {
        return a.as_i128().cmp(&b.as_i128());
    }
    let (a, b) = (a.as_f64(), b.as_f64());
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

pub(super) fn arg_reduce(
    operand: &Tensor,
    axis: usize,
    greatest: bool,
    last: bool,
) -> Result<Tensor, EvaluationFault> {
    let mut shape = operand.shape().to_vec();
    let extent = shape.remove(axis);
    if extent == 0 {
        let message = format!("axis {axis} is empty, so it has no greatest or least element");
        return Err(EvaluationFault::new(codes::INDEX_OUT_OF_RANGE, message));
    }
    // How good an element is: NaN best, then the order or its reverse.
    let better = |a: Scalar, b: Scalar| match (a.is_nan(), b.is_nan()) {
        (false, false) if !greatest => compare(b, a),
        _ => compare(a, b),
    };
    let mut result = Tensor::zeros(DType::I64, &shape);
    lines(operand.shape(), axis, |number, line| {
        let mut best = 0;
        for place in 1..line.len() {
            match better(operand.get_scalar(line[place]), operand.get_scalar(line[best])) {
                Ordering::Greater => best = place,
                Ordering::Equal if last => best = place,
                Ordering::Equal | Ordering::Less => {}
            }
        }
        result.set_scalar(number, Scalar::i64(best as i64));
    });
    Ok(result)
}

/// How far along the axis the index may lie from the one that was found, where elements lie as far
/// from `operand`'s as `bounds` says: as far as the farthest that may be as great, or as small.
pub(super) fn arg_reduce_bounds(
    operand: &Tensor,
    bounds: &Tensor,
    found: &Tensor,
    axis: usize,
    greatest: bool,
) -> Tensor {
    let mut result = Tensor::zeros(DType::F64, found.shape());
    let sign = if greatest { 1.0 } else { -1.0 };
    lines(operand.shape(), axis, |number, line| {
        let best = found.get_scalar(number).as_i64() as usize;
        let at = |place: usize| sign * operand.get_f64(line[place]);
        let by = |place: usize| bounds.get_f64(line[place]);
        let rivals = (0..line.len()).filter(|&it| at(it) + by(it) >= at(best) - by(best));
        let farthest = rivals.map(|it| it.abs_diff(best)).max().unwrap_or(0);
        result.set_scalar(number, Scalar::f64(farthest as f64));
    });
    result
}

pub(super) fn cumulate(
    operand: &Tensor,
    axis: usize,
    reduction: Reduction,
    exclusive: bool,
    reverse: bool,
) -> Tensor {
    let mut result = Tensor::zeros(operand.dtype(), operand.shape());
    let extent = operand.shape()[axis];
    lines(operand.shape(), axis, |_, line| {
        let mut sum = reduction.identity(operand.dtype());
        for place in 0..extent {
            let at = line[if reverse { extent - 1 - place } else { place }];
            let next = reduction.combine(sum, operand.get_scalar(at));
            result.set_scalar(at, if exclusive { sum } else { next });
            sum = next;
        }
    });
    result
}

/// The first `kept` elements of each line in order, and where they stood.
pub(super) fn sort(
    operand: &Tensor,
    axis: usize,
    descending: bool,
    kept: usize,
) -> (Tensor, Tensor) {
    let mut shape = operand.shape().to_vec();
    shape[axis] = kept;
    let mut values = Tensor::zeros(operand.dtype(), &shape);
    let mut indices = Tensor::zeros(DType::I64, &shape);
    let inner: usize = shape[axis + 1..].iter().product();
    lines(operand.shape(), axis, |number, line| {
        let mut order: Vec<usize> = (0..line.len()).collect();
        order.sort_by(|&a, &b| {
            let (a, b) = (operand.get_scalar(line[a]), operand.get_scalar(line[b]));
            if descending { compare(b, a) } else { compare(a, b) }
        });
        let first = number / inner * kept * inner + number % inner;
        for (rank, place) in order.into_iter().take(kept).enumerate() {
            let at = first + rank * inner;
            values.set_scalar(at, operand.get_scalar(line[place]));
            indices.set_scalar(at, Scalar::i64(place as i64));
        }
    });
    (values, indices)
}

pub(super) fn non_zero(operand: &Tensor) -> (Tensor, Tensor) {
    let rank = operand.shape().len();
    let mut indices = Tensor::zeros(DType::I64, &[operand.len(), rank]);
    let (mut element, mut count) = (0, 0);
    each_index(operand.shape(), |index| {
        if operand.get_scalar(element).as_bool() {
            for (axis, &place) in index.iter().enumerate() {
                indices.set_scalar(count * rank + axis, Scalar::i64(place as i64));
            }
            count += 1;
        }
        element += 1;
    });
    (indices, Tensor::scalar(Scalar::i64(count as i64)))
}
