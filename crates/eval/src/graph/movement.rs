//! Primitives whose result elements are operand elements, or counts.

use base::codes;
use tensor::{DType, Reduction, Scalar, Tensor, dense_strides};

use crate::EvaluationFault;

/// Visits every index of a shape in row-major order.
pub(super) fn each_index(shape: &[usize], mut visit: impl FnMut(&[usize])) {
    let mut index = vec![0; shape.len()];
    for _ in 0..shape.iter().product() {
        visit(&index);
        for (own, &extent) in index.iter_mut().zip(shape).rev() {
            *own += 1;
            if *own < extent {
                break;
            }
            *own = 0;
        }
    }
}

fn dot(index: &[usize], strides: &[usize]) -> usize {
    index.iter().zip(strides).map(|(index, stride)| index * stride).sum()
}

/// Copies elements from a tensor to another of the same type: `each` calls its argument with the
/// index of the destination and that of the source, both row-major.
fn copy(to: &mut Tensor, from: &Tensor, each: impl FnOnce(&mut dyn FnMut(usize, usize))) {
    fn copy_bytes<const N: usize>(
        to: &mut Tensor,
        from: &Tensor,
        each: impl FnOnce(&mut dyn FnMut(usize, usize)),
    ) {
        let (to, from) = (to.bytes_mut(), from.bytes());
        each(&mut |to_index, from_index| {
            to[to_index * N..][..N].copy_from_slice(&from[from_index * N..][..N]);
        });
    }
    if let (Some(old), Some(strings)) = (to.strings(), from.strings()) {
        let mut new = old.to_vec();
        each(&mut |to_index, from_index| new[to_index].clone_from(&strings[from_index]));
        *to = Tensor::from_strings(to.shape(), new);
        return;
    }
    match from.dtype().bytes() {
        Some(1) => copy_bytes::<1>(to, from, each),
        Some(2) => copy_bytes::<2>(to, from, each),
        Some(4) => copy_bytes::<4>(to, from, each),
        Some(8) => copy_bytes::<8>(to, from, each),
        _ => each(&mut |to_index, from_index| {
            to.set_scalar(to_index, from.get_scalar(from_index));
        }),
    }
}

/// A tensor of a shape whose elements are those of another at `source(index)`.
fn pick(from: &Tensor, shape: &[usize], source: impl Fn(&[usize]) -> usize) -> Tensor {
    let mut to = Tensor::zeros(from.dtype(), shape);
    copy(&mut to, from, |copy| {
        let mut next = 0;
        each_index(shape, |index| {
            copy(next, source(index));
            next += 1;
        });
    });
    to
}

fn wrong_shape(message: String) -> EvaluationFault {
    EvaluationFault::new(codes::WRONG_SHAPE, message)
}

pub(super) fn iota(dtype: DType, shape: &[usize], axis: usize) -> Tensor {
    let mut result = Tensor::zeros(dtype, shape);
    let mut next = 0;
    each_index(shape, |index| {
        result.set_scalar(next, Scalar::from_i64(dtype, index[axis] as i64));
        next += 1;
    });
    result
}

pub(super) fn broadcast(
    operand: &Tensor,
    shape: &[usize],
    axes: &[usize],
) -> Result<Tensor, EvaluationFault> {
    let own = dense_strides(operand.shape());
    let mut source = vec![0; shape.len()];
    for ((&axis, &extent), &stride) in axes.iter().zip(operand.shape()).zip(&own) {
        if extent != 1 && extent != shape[axis] {
            let message = format!("extent {extent} does not broadcast to {}", shape[axis]);
            return Err(wrong_shape(message));
        }
        source[axis] = if extent == 1 { 0 } else { stride };
    }
    // What is zero need not be written, however large it is.
    let is_number = operand.len() == 1 && operand.strings().is_none();
    if is_number && operand.bytes().iter().all(|byte| *byte == 0) {
        return Ok(Tensor::zeros(operand.dtype(), shape));
    }
    Ok(pick(operand, shape, |index| dot(index, &source)))
}

pub(super) fn reshape(operand: &Tensor, shape: &[usize]) -> Result<Tensor, EvaluationFault> {
    if tensor::tensor::element_count(shape) != Some(operand.len()) {
        let message = format!("{:?} does not reshape to {shape:?}", operand.shape());
        return Err(wrong_shape(message));
    }
    Ok(operand.reshape(shape))
}

pub(super) fn transpose(operand: &Tensor, permutation: &[usize]) -> Tensor {
    let own = dense_strides(operand.shape());
    let shape: Vec<usize> = permutation.iter().map(|&axis| operand.shape()[axis]).collect();
    let source: Vec<usize> = permutation.iter().map(|&axis| own[axis]).collect();
    pick(operand, &shape, |index| dot(index, &source))
}

pub(super) fn slice(
    operand: &Tensor,
    starts: &[i64],
    steps: &[i64],
    shape: &[usize],
) -> Result<Tensor, EvaluationFault> {
    for axis in 0..shape.len() {
        let (start, extent) = (starts[axis], operand.shape()[axis] as i64);
        let last = start + (shape[axis] as i64 - 1) * steps[axis];
        let inside = |index: i64| (0..extent).contains(&index);
        let empty = shape.contains(&0);
        if !(empty || inside(start) && inside(last)) {
            let message = format!("indices {start} to {last} leave axis {axis} of {extent}");
            return Err(EvaluationFault::new(codes::INDEX_OUT_OF_RANGE, message));
        }
    }
    let own = dense_strides(operand.shape());
    Ok(pick(operand, shape, |index| {
        let place = |axis: usize| (starts[axis] + index[axis] as i64 * steps[axis]) as usize;
        (0..index.len()).map(|axis| place(axis) * own[axis]).sum()
    }))
}

pub(super) fn pad(
    operand: &Tensor,
    fill: &Tensor,
    low: &[i64],
    high: &[i64],
    interior: &[i64],
) -> Result<Tensor, EvaluationFault> {
    let mut shape = Vec::new();
    for (axis, &extent) in operand.shape().iter().enumerate() {
        let spread = extent as i64 + interior[axis] * (extent as i64 - 1).max(0);
        let padded = low[axis] + spread + high[axis];
        let negative = |_| wrong_shape(format!("axis {axis} would have extent {padded}"));
        shape.push(usize::try_from(padded).map_err(negative)?);
    }
    let mut result = broadcast(fill, &shape, &[])?;
    let own = dense_strides(&shape);
    copy(&mut result, operand, |copy| {
        let mut next = 0;
        each_index(operand.shape(), |index| {
            let place = |axis: usize| {
                let place = low[axis] + index[axis] as i64 * (interior[axis] + 1);
                usize::try_from(place).ok().filter(|&place| place < shape[axis])
            };
            let offset = (0..index.len()).map(|axis| Some(place(axis)? * own[axis]));
            if let Some(offset) = offset.sum::<Option<usize>>() {
                copy(offset, next);
            }
            next += 1;
        });
    });
    Ok(result)
}

pub(super) fn concat(operands: &[Tensor], axis: usize) -> Tensor {
    let mut shape = operands[0].shape().to_vec();
    shape[axis] = operands.iter().map(|operand| operand.shape()[axis]).sum();
    let mut result = Tensor::zeros(operands[0].dtype(), &shape);
    let own = dense_strides(&shape);
    let mut start = 0;
    for operand in operands {
        copy(&mut result, operand, |copy| {
            let mut next = 0;
            each_index(operand.shape(), |index| {
                copy(dot(index, &own) + start * own[axis], next);
                next += 1;
            });
        });
        start += operand.shape()[axis];
    }
    result
}

/// Where each element of a gather's result, in row-major order, lies in the data.
fn indexed(
    data: &Tensor,
    indices: &[Tensor],
    axes: &[usize],
    batch: usize,
    position: usize,
) -> Result<(Vec<usize>, Vec<usize>), EvaluationFault> {
    let own = dense_strides(data.shape());
    let common = indices[0].shape();
    let kept: Vec<usize> =
        (batch..data.shape().len()).filter(|axis| !axes.contains(axis)).collect();
    let extents = |axes: &[usize]| axes.iter().map(|&axis| data.shape()[axis]).collect();
    let (before, after): (Vec<usize>, Vec<usize>) =
        (extents(&kept[..position]), extents(&kept[position..]));
    let shape = [&common[..batch], &before, &common[batch..], &after].concat();
    let first = batch + position;
    let last = first + common.len() - batch;
    let index_strides = dense_strides(common);
    let mut offsets = Vec::new();
    let mut fault = None;
    each_index(&shape, |index| {
        let place = dot(&index[..batch], &index_strides)
            + dot(&index[first..last], &index_strides[batch..]);
        let mut offset = dot(&index[..batch], &own);
        let kept_index = index[batch..first].iter().chain(&index[last..]);
        offset +=
            kept.iter().zip(kept_index).map(|(&axis, index)| own[axis] * index).sum::<usize>();
        for (&axis, indices) in axes.iter().zip(indices) {
            let (value, extent) = (indices.get_scalar(place).as_i64(), data.shape()[axis]);
            match usize::try_from(value).ok().filter(|&value| value < extent) {
                Some(value) => offset += own[axis] * value,
                None => {
                    let message = format!("index {value} for axis {axis} of extent {extent}");
                    fault.get_or_insert(EvaluationFault::new(codes::INDEX_OUT_OF_RANGE, message));
                }
            }
        }
        offsets.push(offset);
    });
    fault.map_or(Ok((shape, offsets)), Err)
}

pub(super) fn gather(
    data: &Tensor,
    indices: &[Tensor],
    axes: &[usize],
    batch: usize,
    position: usize,
) -> Result<Tensor, EvaluationFault> {
    let (shape, offsets) = indexed(data, indices, axes, batch, position)?;
    let mut result = Tensor::zeros(data.dtype(), &shape);
    copy(&mut result, data, |copy| {
        offsets.iter().enumerate().for_each(|(place, &offset)| copy(place, offset));
    });
    Ok(result)
}

pub(super) fn scatter(
    data: &Tensor,
    updates: &Tensor,
    indices: &[Tensor],
    axes: &[usize],
    batch: usize,
    position: usize,
    reduction: Option<Reduction>,
) -> Result<Tensor, EvaluationFault> {
    let (_, offsets) = indexed(data, indices, axes, batch, position)?;
    let mut result = data.clone();
    let Some(reduction) = reduction else {
        copy(&mut result, updates, |copy| {
            offsets.iter().enumerate().for_each(|(place, &offset)| copy(offset, place));
        });
        return Ok(result);
    };
    for (place, &offset) in offsets.iter().enumerate() {
        let combined = reduction.combine(result.get_scalar(offset), updates.get_scalar(place));
        result.set_scalar(offset, combined);
    }
    Ok(result)
}
