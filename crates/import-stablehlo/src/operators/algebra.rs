//! Arithmetic that is written alike for real and for complex tensors, and for stacks of matrices
//! `[batch, rows, columns]` of them.

use front::{Accepted, Complex, Graph, Operand, shape_error, unsupported};
use graph::Op;
use sym::Expr;
use tensor::{DType, Reduction, Scalar};

use crate::node::Value;

/// A sum, element by element.
pub(crate) fn plus(graph: &mut Graph, a: &Value, b: &Value) -> Accepted<Value> {
    Ok(match (a, b) {
        (Value::Complex(a), Value::Complex(b)) => graph.complex_add(a, b)?.into(),
        (a, b) => graph.add(a.real()?, b.real()?)?.into(),
    })
}

pub(crate) fn minus(graph: &mut Graph, a: &Value, b: &Value) -> Accepted<Value> {
    Ok(match (a, b) {
        (Value::Complex(a), Value::Complex(b)) => graph.complex_sub(a, b)?.into(),
        (a, b) => graph.sub(a.real()?, b.real()?)?.into(),
    })
}

/// A product, element by element.
pub(crate) fn times(graph: &mut Graph, a: &Value, b: &Value) -> Accepted<Value> {
    Ok(match (a, b) {
        (Value::Complex(a), Value::Complex(b)) => graph.complex_mul(a, b)?.into(),
        (a, b) => graph.mul(a.real()?, b.real()?)?.into(),
    })
}

pub(crate) fn over(graph: &mut Graph, a: &Value, b: &Value) -> Accepted<Value> {
    Ok(match (a, b) {
        (Value::Complex(a), Value::Complex(b)) => graph.complex_div(a, b)?.into(),
        (a, b) => graph.div(a.real()?, b.real()?)?.into(),
    })
}

/// The products of stacks of matrices.
pub(crate) fn product(graph: &mut Graph, a: &Value, b: &Value) -> Accepted<Value> {
    bilinear(graph, (a, b), |graph, a, b| graph.matmul(a, b))
}

/// A product of values that may be complex: of pairs, four products of real ones.
pub(crate) fn bilinear(
    graph: &mut Graph,
    (a, b): (&Value, &Value),
    product: impl Fn(&mut Graph, &Operand, &Operand) -> Accepted<Operand>,
) -> Accepted<Value> {
    if let (Value::Tensor(a), Value::Tensor(b)) = (a, b) {
        return Ok(product(graph, a, b)?.into());
    }
    let (a, b) = (a.complex(graph)?, b.complex(graph)?);
    let dtype = if a.dtype() == DType::F64 { a.dtype() } else { b.dtype() };
    let a = a.each(|part| graph.cast(part, dtype))?;
    let b = b.each(|part| graph.cast(part, dtype))?;
    let (left, right) = (product(graph, &a.re, &b.re)?, product(graph, &a.im, &b.im)?);
    let re = graph.sub(&left, &right)?;
    let (left, right) = (product(graph, &a.re, &b.im)?, product(graph, &a.im, &b.re)?);
    Ok(Complex { re, im: graph.add(&left, &right)? }.into())
}

/// Each element times a real number.
pub(crate) fn scaled(graph: &mut Graph, value: &Value, factor: &Operand) -> Accepted<Value> {
    value.each(|part| graph.mul(part, factor))
}

pub(crate) fn conjugate(graph: &mut Graph, value: &Value) -> Accepted<Value> {
    Ok(match value {
        Value::Complex(value) => Complex { re: value.re.clone(), im: graph.neg(&value.im)? }.into(),
        value => value.clone(),
    })
}

/// Matrices transposed.
pub(crate) fn transposed(graph: &mut Graph, value: &Value) -> Accepted<Value> {
    value.each(|part| graph.transpose(part, &[0, 2, 1]))
}

/// Matrices transposed and conjugated.
pub(crate) fn adjoint(graph: &mut Graph, value: &Value) -> Accepted<Value> {
    let value = transposed(graph, value)?;
    conjugate(graph, &value)
}

/// Elements where a condition holds, zeros elsewhere.
pub(crate) fn only(graph: &mut Graph, condition: &Operand, value: &Value) -> Accepted<Value> {
    value.each(|part| {
        let zero = graph.number(part.dtype(), 0.0);
        graph.select(condition, part, &zero)
    })
}

/// Elements of the first value where a condition holds, those of the second elsewhere.
pub(crate) fn chosen(
    graph: &mut Graph,
    condition: &Operand,
    first: &Value,
    second: &Value,
) -> Accepted<Value> {
    let mut others = second.parts().into_iter();
    first.each(|part| {
        let other = others.next().ok_or_else(|| shape_error("a part is missing"))?;
        graph.select(condition, part, other)
    })
}

/// Sums along axes.
pub(crate) fn summed(
    graph: &mut Graph,
    value: &Value,
    axes: &[usize],
    keep: bool,
) -> Accepted<Value> {
    value.each(|part| graph.reduce_axes(part, axes, Reduction::Sum, keep))
}

/// The squares of magnitudes, which are real.
pub(crate) fn squares(graph: &mut Graph, value: &Value) -> Accepted<Operand> {
    match value {
        Value::Complex(value) => {
            let (re, im) = (graph.square(&value.re)?, graph.square(&value.im)?);
            graph.add(&re, &im)
        }
        value => graph.square(value.real()?),
    }
}

/// Magnitudes, which are real.
pub(crate) fn magnitude(graph: &mut Graph, value: &Value) -> Accepted<Operand> {
    match value {
        Value::Complex(value) => graph.complex_abs(value),
        value => graph.abs(value.real()?),
    }
}

/// Real parts.
pub(crate) fn real_part(value: &Value) -> Accepted<&Operand> {
    match value {
        Value::Complex(value) => Ok(&value.re),
        value => value.real(),
    }
}

/// Real numbers as numbers of the kind of others.
pub(crate) fn of_real(graph: &mut Graph, like: &Value, real: Operand) -> Accepted<Value> {
    Ok(match like {
        Value::Complex(_) => {
            let im = graph.full(real.shape(), Scalar::zero(real.dtype()))?;
            Complex { re: real, im }.into()
        }
        _ => real.into(),
    })
}

/// The type of the parts.
pub(crate) fn dtype_of(value: &Value) -> Accepted<DType> {
    Ok(real_part(value)?.dtype())
}

/// The parts, for a loop that carries them.
pub(crate) fn parts_of(value: &Value) -> Vec<Operand> {
    value.parts().into_iter().cloned().collect()
}

/// Stacks of matrices: all axes but the last two as one.
pub(crate) fn matrices(graph: &mut Graph, value: &Operand) -> Accepted<Operand> {
    let Some(lead) = value.rank().checked_sub(2) else {
        return Err(shape_error("a matrix is needed"));
    };
    let batch: Expr = value.shape()[..lead].iter().product();
    let shape = [&[batch], &value.shape()[lead..]].concat();
    graph.reshape(value, &shape)
}

/// The extents of stacks of matrices whose rows and columns are known by number.
pub(crate) fn known_extents(value: &Value) -> Accepted<(Expr, usize, usize)> {
    let [batch, rows, columns] = value.shape() else {
        return Err(shape_error("a stack of matrices is needed"));
    };
    let known = |extent: &Expr| extent.as_constant().and_then(|it| usize::try_from(it).ok());
    match known(rows).zip(known(columns)) {
        Some((rows, columns)) => Ok((batch.clone(), rows, columns)),
        None => Err(unsupported("factors of matrices whose extents are free")),
    }
}

/// Another shape of the same elements.
pub(crate) fn shaped(graph: &mut Graph, value: &Value, shape: &[Expr]) -> Accepted<Value> {
    value.each(|part| graph.reshape(part, shape))
}

/// So many slices along an axis, from one on.
pub(crate) fn part_of(
    graph: &mut Graph,
    value: &Value,
    axis: usize,
    (first, count): (usize, usize),
) -> Accepted<Value> {
    value.each(|part| graph.slice_axis(part, axis, Expr::from(first), 1, Expr::from(count)))
}

/// Values behind one another along an axis.
pub(crate) fn joined(graph: &mut Graph, axis: usize, values: &[Value]) -> Accepted<Value> {
    let Some((first, others)) = values.split_first() else {
        return Err(shape_error("there is nothing to put together"));
    };
    let mut others: Vec<_> = others.iter().map(|value| value.parts().into_iter()).collect();
    first.each(|part| {
        let mut all = vec![part.clone()];
        for other in &mut others {
            all.push(other.next().ok_or_else(|| shape_error("a part is missing"))?.clone());
        }
        graph.concat(axis, &all)
    })
}

/// The slice of a number along an axis, which goes.
pub(crate) fn slice_at(
    graph: &mut Graph,
    value: &Value,
    axis: usize,
    number: &Operand,
) -> Accepted<Value> {
    value.each(|part| front::gather_axis(graph, part, axis, number))
}

/// A tensor with the only slice of another in the place of its slice of a number along an axis.
pub(crate) fn put(
    graph: &mut Graph,
    whole: &Operand,
    slice: &Operand,
    axis: usize,
    number: &Operand,
) -> Accepted<Operand> {
    let place = graph.reshape(number, &[Expr::ONE])?;
    let op = Op::Scatter { axes: vec![axis], batch: 0, position: axis, reduction: None };
    graph.scatter(whole, slice, &[place], op)
}

/// As [`put`], of a slice without the axis.
pub(crate) fn put_slice(
    graph: &mut Graph,
    whole: &Value,
    slice: &Value,
    axis: usize,
    number: &Operand,
) -> Accepted<Value> {
    let mut parts = slice.parts().into_iter();
    whole.each(|whole| {
        let part = parts.next().ok_or_else(|| shape_error("a part is missing"))?;
        let mut shape = part.shape().to_vec();
        shape.insert(axis, Expr::ONE);
        let part = graph.reshape(part, &shape)?;
        put(graph, whole, &part, axis, number)
    })
}

/// Numbers from 0 on, as i64.
pub(crate) fn places(graph: &mut Graph, count: &Expr) -> Accepted<Operand> {
    graph.iota(DType::I64, std::slice::from_ref(count), 0)
}

/// Matrices of so many rows and columns with ones on the diagonal, of the kind of other numbers.
pub(crate) fn units(
    graph: &mut Graph,
    like: &Value,
    (batch, rows, columns): (&Expr, usize, usize),
) -> Accepted<Value> {
    let square = [Expr::from(rows), Expr::from(columns)];
    let row = graph.iota(DType::I64, &square, 0)?;
    let column = graph.iota(DType::I64, &square, 1)?;
    let is_diagonal = graph.equal(&row, &column)?;
    let ones = graph.cast(&is_diagonal, dtype_of(like)?)?;
    let [row, column] = square;
    let ones = graph.broadcast_to(&ones, [batch.clone(), row, column])?;
    of_real(graph, like, ones)
}
