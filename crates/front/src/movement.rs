//! The movement primitives of [`Graph`]: each result element is an element of an operand. Movements
//! of known values with few elements are folded.

use std::collections::BTreeSet;

use base::{ConstantId, IntoTree};
use graph::{FunctionBuilder, Known, Op, Shape};
use sym::Expr;
use tensor::Tensor;

use crate::value::{KNOWN_ELEMENTS, Operand, constant_shape};
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
        if value.ty().shape == shape {
            return Ok(value);
        }
        self.moved(Op::Broadcast { shape, axes: axes.to_vec() }, &[&value], &[])
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
        self.moved(Op::Reshape { shape: shape.into() }, &[value], &[])
    }

    /// Result axis `k` is operand axis `permutation[k]`.
    pub fn transpose(&mut self, value: &Operand, permutation: &[usize]) -> Accepted<Operand> {
        let is_permutation = (0..value.rank()).all(|axis| permutation.contains(&axis));
        if permutation.len() != value.rank() || !is_permutation {
            let rank = value.rank();
            return Err(shape_error(format!("{permutation:?} does not permute {rank} axes")));
        }
        if permutation.is_sorted() {
            return Ok(value.clone());
        }
        self.moved(Op::Transpose { permutation: permutation.to_vec() }, &[value], &[])
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
        let is_whole = starts.iter().all(Expr::is_zero) && steps.iter().all(|&step| step == 1);
        if is_whole && value.shape() == shape {
            return Ok(value.clone());
        }
        let (starts, steps, shape) = (starts.to_vec(), steps.to_vec(), shape.into());
        self.moved(Op::Slice { starts, steps, shape }, &[value], &[])
    }

    /// The elements along these axes from end to front.
    ///
    /// # Errors
    /// None but of limits.
    pub fn reversed(&mut self, value: &Operand, axes: &[usize]) -> Accepted<Operand> {
        let mut starts = vec![Expr::ZERO; value.rank()];
        let mut steps = vec![1; value.rank()];
        for &axis in axes {
            starts[axis] = &value.shape()[axis] - 1;
            steps[axis] = -1;
            // Of an axis without elements there is no last one.
            if value.shape()[axis].is_zero() {
                return Ok(value.clone());
            }
        }
        self.slice(value, &starts, &steps, value.shape())
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
        if axis >= value.rank() {
            let rank = value.rank();
            return Err(shape_error(format!("there is no axis {axis} in a tensor of rank {rank}")));
        }
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
        shape[axis] = values.iter().map(|value| &value.shape()[axis]).sum();
        self.check_size(&shape)?;
        match &values[..] {
            [value] => Ok(value.clone()),
            values => self.moved(Op::Concat { axis }, &values.iter().collect::<Vec<_>>(), &[]),
        }
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

    /// Indexes `data` along `axes`; see `graph::Op::Gather`.
    pub fn gather(
        &mut self,
        data: &Operand,
        axes: &[usize],
        indices: &[Operand],
        batch: usize,
        position: usize,
    ) -> Accepted<Operand> {
        let op = Op::Gather { axes: axes.to_vec(), batch, position };
        self.moved(op, &[data], &indices.iter().collect::<Vec<_>>())
    }

    /// A movement of values, at indices. Where all are known and the result has few elements, those
    /// are known, too.
    fn moved(&mut self, op: Op, values: &[&Operand], indices: &[&Operand]) -> Accepted<Operand> {
        match fold_movement(&op, values, indices) {
            Some(folded) => Ok(folded),
            None => self.primitive(op, &[values, indices].concat()),
        }
    }
}

/// The elements of a movement of known values: those which the evaluator puts where they go when
/// it moves their numbers.
fn fold_movement(op: &Op, values: &[&Operand], indices: &[&Operand]) -> Option<Operand> {
    let known: Option<Vec<&[Known]>> = values.iter().map(|value| value.known()).collect();
    let (known, dtype) = (known?.concat(), values[0].dtype());
    if !op.has_constant_exprs() {
        return None;
    }
    let mut builder = FunctionBuilder::new("movement");
    let (mut count, mut operands) = (0, Vec::new());
    for value in values {
        let shape = value.constant_shape()?;
        let end = count + shape.iter().product::<usize>() as i64;
        let numbers: Vec<i64> = (count..end).collect();
        operands.push(builder.literal(Tensor::from_slice(&shape, &numbers)));
        count = end;
    }
    for index in indices {
        let (shape, numbers) = (index.constant_shape()?, index.known().and(index.numbers())?);
        operands.push(builder.literal(Tensor::from_scalars(index.dtype(), &shape, &numbers)));
    }
    let result = builder.add(op.clone(), &operands).ok()?[0];
    let shape = constant_shape(&builder.function().ty(result).as_tensor()?.shape)?;
    let is_few = shape.iter().try_fold(1usize, |all, &extent| all.checked_mul(extent));
    is_few.filter(|count| *count <= KNOWN_ELEMENTS)?;
    let function = builder.finish(vec![("moved".to_owned(), result)]);
    let none = |_: ConstantId| Tensor::zeros(dtype, &[0]);
    let precision = eval::EvaluationPrecision::Declared;
    let moved = eval::graph::evaluate(&function, &none, &[], precision).ok()?;
    let elements = moved[0].scalars().map(|number| known[number.as_i64() as usize].clone());
    Some(Operand::of_known(dtype, &shape, elements.collect()))
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
    let distinct: BTreeSet<usize> = axes.iter().copied().into_set();
    if distinct.len() != axes.len() {
        return Err(shape_error(format!("an axis stands twice in {axes:?}")));
    }
    Ok(axes)
}
