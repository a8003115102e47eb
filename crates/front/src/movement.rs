//! The movement primitives of [`Graph`]: each result element is an element of an operand. Movements
//! of known values with few elements are folded.

use graph::Shape;
use sym::Expr;

use std::collections::BTreeSet;

use crate::value::{KNOWN_ELEMENTS, Known, Operand, constant_shape};
use crate::writer::{Accepted, Graph, shape_error, type_error};

impl Graph {
    /// Operand axis `k` becomes axis `axes[k]` of the result.
    pub fn broadcast(
        &mut self,
        value: &Operand,
        shape: impl Into<Shape>,
        axes: &[usize],
    ) -> Accepted<Operand> {
        let shape = shape.into();
        if value.ty().shape == shape {
            return Ok(value.clone());
        }
        self.check_size(&shape)?;
        let refined: Vec<Expr> = value
            .shape()
            .iter()
            .zip(axes)
            .map(|(extent, &axis)| match extent.as_constant() {
                Some(1) => extent.clone(),
                _ => shape[axis].clone(),
            })
            .collect();
        let value = self.refine(value, &refined)?;
        let moved = self.fold_movement(&value, &shape, |index, source| {
            for ((at, &axis), extent) in source.iter_mut().zip(axes).zip(&refined) {
                *at = if extent.as_constant() == Some(1) { 0 } else { index[axis] };
            }
        });
        if let Some(folded) = moved {
            return Ok(folded);
        }
        let id = self.data(&value)?;
        let built = self.builder.broadcast(id, shape, axes);
        self.built(built)
    }

    /// Broadcasts to a shape as NumPy does: the last axes correspond.
    pub fn broadcast_to(&mut self, value: &Operand, shape: impl Into<Shape>) -> Accepted<Operand> {
        let shape = shape.into();
        let Some(lead) = shape.len().checked_sub(value.rank()) else {
            let (from, to) = (value.rank(), shape.len());
            return Err(shape_error(format!("rank {from} does not broadcast to rank {to}")));
        };
        let axes: Vec<usize> = (lead..shape.len()).collect();
        self.broadcast(value, shape, &axes)
    }

    /// A value of rank 1 broadcast along all axes but one.
    pub fn broadcast_axis(
        &mut self,
        value: &Operand,
        shape: &[Expr],
        axis: usize,
    ) -> Accepted<Operand> {
        if value.rank() != 1 || axis >= shape.len() {
            return Err(shape_error(format!("rank {} where rank 1 is needed", value.rank())));
        }
        self.broadcast(value, shape, &[axis])
    }

    /// The same elements under another shape.
    pub fn reshape(&mut self, value: &Operand, shape: &[Expr]) -> Accepted<Operand> {
        if value.shape() == shape {
            return Ok(value.clone());
        }
        self.check_size(shape)?;
        if let (Some(known), Some(shape)) = (value.known(), constant_shape(shape))
            && shape.iter().product::<usize>() == known.len()
        {
            return Ok(Operand::of_known(value.dtype(), &shape, known.to_vec()));
        }
        let id = self.data(value)?;
        let built = self.builder.reshape(id, shape);
        self.built(built)
    }

    /// Result axis `k` is operand axis `permutation[k]`.
    pub fn transpose(&mut self, value: &Operand, permutation: &[usize]) -> Accepted<Operand> {
        let is_permutation = (0..value.rank()).all(|axis| permutation.contains(&axis));
        if permutation.len() != value.rank() || !is_permutation {
            let rank = value.rank();
            return Err(shape_error(format!("{permutation:?} does not permute {rank} axes")));
        }
        let shape: Vec<Expr> =
            permutation.iter().map(|&axis| value.shape()[axis].clone()).collect();
        let moved = self.fold_movement(value, &shape, |index, source| {
            for (at, &axis) in index.iter().zip(permutation) {
                source[axis] = *at;
            }
        });
        if let Some(folded) = moved {
            return Ok(folded);
        }
        let id = self.data(value)?;
        let built = self.builder.transpose(id, permutation);
        self.built(built)
    }

    /// `result[i] = value[starts + i * steps]`
    pub fn slice(
        &mut self,
        value: &Operand,
        starts: &[Expr],
        steps: &[i64],
        shape: &[Expr],
    ) -> Accepted<Operand> {
        self.check_size(shape)?;
        let first: Option<Vec<i64>> = starts.iter().map(Expr::as_constant).collect();
        if let Some(first) = first {
            let moved = self.fold_movement(value, shape, |index, source| {
                for (axis, at) in source.iter_mut().enumerate() {
                    *at = (first[axis] + index[axis] as i64 * steps[axis]) as usize;
                }
            });
            if let Some(folded) = moved {
                return Ok(folded);
            }
        }
        let id = self.data(value)?;
        let built = self.builder.slice(id, starts, steps, shape);
        self.built(built)
    }

    /// As [`Self::slice`], along one axis only.
    pub fn slice_axis(
        &mut self,
        value: &Operand,
        axis: usize,
        start: Expr,
        step: i64,
        extent: Expr,
    ) -> Accepted<Operand> {
        let mut starts = vec![Expr::from(0); value.rank()];
        let mut steps = vec![1; value.rank()];
        let mut shape = value.shape().to_vec();
        (starts[axis], steps[axis], shape[axis]) = (start, step, extent);
        self.slice(value, &starts, &steps, &shape)
    }

    /// Surrounds, and intersperses, a value with a number.
    pub fn pad(
        &mut self,
        value: &Operand,
        fill: &Operand,
        low: &[Expr],
        high: &[Expr],
        interior: &[i64],
    ) -> Accepted<Operand> {
        let (id, fill) = (self.data(value)?, self.data(fill)?);
        let built = self.builder.pad(id, fill, low, high, interior);
        self.built(built)
    }

    /// Puts values behind each other along an axis.
    pub fn concat(&mut self, axis: usize, values: &[Operand]) -> Accepted<Operand> {
        let Some(first) = values.first() else {
            return Err(shape_error("there is nothing to put together"));
        };
        let values = self.alike_but_for(axis, values)?;
        let (dtype, mut shape) = (first.dtype(), values[0].shape().to_vec());
        if let Some(other) = values.iter().find(|value| value.dtype() != dtype) {
            return Err(type_error(format!("{dtype} and {} in one tensor", other.dtype())));
        }
        let known: Option<Vec<&[Known]>> = values.iter().map(|value| value.known()).collect();
        if let (Some(known), 1, 0) = (known, shape.len(), axis) {
            let elements = known.concat();
            if elements.len() <= KNOWN_ELEMENTS {
                return Ok(Operand::of_known(dtype, &[elements.len()], elements));
            }
        }
        shape[axis] = values.iter().map(|value| &value.shape()[axis]).sum();
        self.check_size(&shape)?;
        let operands = self.all_data(&values)?;
        let built = self.builder.concat(axis, &operands);
        self.built(built)
    }

    /// Values that have the same extents on all axes but one.
    fn alike_but_for(&mut self, axis: usize, values: &[Operand]) -> Accepted<Vec<Operand>> {
        let model = values[0].shape().to_vec();
        if axis >= model.len() {
            return Err(shape_error(format!("there is no axis {axis} of {}", model.len())));
        }
        let refine = |value: &Operand| {
            let mut shape = model.clone();
            if let Some(extent) = value.shape().get(axis) {
                shape[axis] = extent.clone();
            }
            self.refine(value, &shape)
        };
        values.iter().map(refine).collect()
    }

    /// A known value moved, where the result has few elements: `source` fills in where a result
    /// element is read.
    pub fn fold_movement(
        &self,
        value: &Operand,
        shape: &[Expr],
        source: impl Fn(&[usize], &mut [usize]),
    ) -> Option<Operand> {
        let (known, from, to) = (value.known()?, value.constant_shape()?, constant_shape(shape)?);
        let count = to.iter().try_fold(1usize, |count, &extent| count.checked_mul(extent))?;
        if count > KNOWN_ELEMENTS {
            return None;
        }
        let mut elements = Vec::with_capacity(count);
        let (mut index, mut at) = (vec![0; to.len()], vec![0; from.len()]);
        for number in 0..count {
            let mut rest = number;
            for axis in (0..to.len()).rev() {
                index[axis] = rest % to[axis];
                rest /= to[axis];
            }
            source(&index, &mut at);
            let mut place = 0;
            for (at, extent) in at.iter().zip(&from) {
                if at >= extent {
                    return None;
                }
                place = place * extent + at;
            }
            elements.push(known[place].clone());
        }
        Some(Operand::of_known(value.dtype(), &to, elements))
    }
}

/// An axis counted from the front.
pub fn normalize_axis(axis: i64, rank: usize) -> Accepted<usize> {
    let counted = if axis < 0 { axis.checked_add(rank as i64) } else { Some(axis) };
    let found = counted.and_then(|axis| usize::try_from(axis).ok()).filter(|axis| *axis < rank);
    found.ok_or_else(|| shape_error(format!("there is no axis {axis} in a tensor of rank {rank}")))
}

/// Distinct axes counted from the front, in order.
pub fn normalize_axes(axes: &[i64], rank: usize) -> Accepted<Vec<usize>> {
    let axes = axes.iter().map(|axis| normalize_axis(*axis, rank)).collect::<Accepted<Vec<_>>>()?;
    let distinct: BTreeSet<usize> = axes.iter().copied().collect();
    if distinct.len() != axes.len() {
        return Err(shape_error(format!("an axis stands twice in {axes:?}")));
    }
    Ok(axes)
}
