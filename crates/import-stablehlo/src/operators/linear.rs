//! Fourier transforms, and triangular and Cholesky factors.

use front::{
    Accepted, Complex, Graph, Operand, Turn, constant_value, shape_error, type_error, unsupported,
};
use graph::Op;
use sym::Expr;
use tensor::{DType, Reduction, Tensor};

use super::movement::reversed;
use crate::importer::{Frame, Importer};
use crate::node::{Lowered, Node, Value, one};

/// Transforms of at most this many elements are one product with the matrix of their factors.
const DENSE: usize = 32;

pub(crate) fn fft<'p>(importer: &mut Importer<'p>, node: &Node<'p>, _: &mut Frame) -> Lowered {
    let graph = &mut importer.graph;
    let lengths = node.required("fft_length")?;
    let value = node.value(0)?;
    let rank = value.rank();
    let Some(first) = rank.checked_sub(lengths.len()) else {
        return Err(shape_error("more axes are transformed than there are"));
    };
    let axes: Vec<usize> = (first..rank).collect();
    let Some((&last, others)) = axes.split_last() else { return Ok(vec![value.clone()]) };
    let mut lengths_found = Vec::new();
    for &length in &lengths {
        match usize::try_from(length).ok().filter(|length| *length > 0) {
            Some(length) => lengths_found.push(length),
            None => return Err(shape_error(format!("a transform of {length} elements"))),
        }
    }
    let own = value.shape().to_vec();
    let kind = node.word("fft_type")?.to_owned();
    let expected = |at: usize| match (kind.as_str(), at + 1 == lengths_found.len()) {
        ("IRFFT", true) => lengths_found[at] / 2 + 1,
        _ => lengths_found[at],
    };
    for (at, &axis) in axes.iter().enumerate() {
        if own[axis] != Expr::from(expected(at)) {
            return Err(shape_error("the extents are not those of the transform"));
        }
    }
    let length = lengths_found[lengths_found.len() - 1];
    let mut z = value.complex(graph)?;
    match kind.as_str() {
        "FFT" | "IFFT" => {
            let is_inverse = kind == "IFFT";
            for (at, &axis) in axes.iter().enumerate() {
                z = transform(graph, &z, axis, lengths_found[at], is_inverse)?;
            }
            one(z)
        }
        "RFFT" => {
            z = transform(graph, &z, last, length, false)?;
            let half = Expr::from(length / 2 + 1);
            z = z.each(|part| graph.slice_axis(part, last, Expr::ZERO, 1, half.clone()))?;
            for (at, &axis) in others.iter().enumerate() {
                z = transform(graph, &z, axis, lengths_found[at], false)?;
            }
            one(z)
        }
        "IRFFT" => {
            for (at, &axis) in others.iter().enumerate() {
                z = transform(graph, &z, axis, lengths_found[at], true)?;
            }
            // The other half are the conjugates, from end to front.
            let rest = length - (length / 2 + 1);
            if rest > 0 {
                let mirror = |graph: &mut Graph, part: &Operand| {
                    let middle = graph.slice_axis(part, last, Expr::ONE, 1, Expr::from(rest))?;
                    reversed(graph, &middle, &[last])
                };
                let re = mirror(graph, &z.re)?;
                let im = mirror(graph, &z.im)?;
                let im = graph.neg(&im)?;
                z = Complex {
                    re: graph.concat(last, &[z.re, re])?,
                    im: graph.concat(last, &[z.im, im])?,
                };
            }
            one(transform(graph, &z, last, length, true)?.re)
        }
        other => Err(unsupported(format!("the transform {other}"))),
    }
}

/// The discrete Fourier transform along an axis; the inverse is divided by the length.
fn transform(
    graph: &mut Graph,
    z: &Complex,
    axis: usize,
    length: usize,
    is_inverse: bool,
) -> Accepted<Complex> {
    let rank = z.re.rank();
    let mut order: Vec<usize> = (0..rank).filter(|it| *it != axis).collect();
    order.push(axis);
    let mut inverse = vec![0; rank];
    for (at, &axis) in order.iter().enumerate() {
        inverse[axis] = at;
    }
    let moved = z.each(|part| graph.transpose(part, &order))?;
    let shape = moved.re.shape().to_vec();
    let rows: Expr = shape[..rank - 1].iter().product();
    let flat = moved.each(|part| graph.reshape(part, &[rows.clone(), Expr::from(length)]))?;
    let sign = if is_inverse { 1.0 } else { -1.0 };
    let mut found = rows_transformed(graph, &flat, length, sign)?;
    if is_inverse {
        found = found.each(|part| graph.mul_number(part, 1.0 / length as f64))?;
    }
    found.each(|part| {
        let part = graph.reshape(part, &shape)?;
        graph.transpose(&part, &inverse)
    })
}

/// `exp(sign 2 pi i j k / length)` for rows j and columns k.
fn roots(
    graph: &mut Graph,
    dtype: DType,
    (rows, columns, length): (usize, usize, usize),
    sign: f64,
) -> Accepted<Complex> {
    graph.count_computed(2 * rows * columns, "factors of a Fourier transform")?;
    let angle = |number: usize| {
        let (j, k) = (number / columns, number % columns);
        sign * 2.0 * std::f64::consts::PI * ((j * k) % length) as f64 / length as f64
    };
    let part = |function: fn(f64) -> f64| {
        let values: Vec<f64> = (0..rows * columns).map(|number| function(angle(number))).collect();
        constant_value("roots", Tensor::from_vec(&[rows, columns], values).cast(dtype), false)
    };
    Ok(Complex { re: part(f64::cos), im: part(f64::sin) })
}

/// The transforms of rows: by the matrix of factors, or, where the length has a divisor, by
/// transforms of the divisor's length and of the rest (Cooley and Tukey, 1965).
fn rows_transformed(graph: &mut Graph, z: &Complex, length: usize, sign: f64) -> Accepted<Complex> {
    if length == 1 {
        return Ok(z.clone());
    }
    let divisor =
        (2..=DENSE).rev().find(|divisor| length.is_multiple_of(*divisor) && *divisor < length);
    let Some(first) = divisor.filter(|_| length > DENSE) else {
        let matrix = roots(graph, z.dtype(), (length, length, length), sign)?;
        let (left, right) = (graph.matmul(&z.re, &matrix.re)?, graph.matmul(&z.im, &matrix.im)?);
        let re = graph.sub(&left, &right)?;
        let (left, right) = (graph.matmul(&z.re, &matrix.im)?, graph.matmul(&z.im, &matrix.re)?);
        return Ok(Complex { re, im: graph.add(&left, &right)? });
    };
    let second = length / first;
    let rows = z.re.shape()[0].clone();
    let (a, b) = (Expr::from(first), Expr::from(second));
    let shape = [rows.clone(), a.clone(), b.clone()];
    // Element `second * j1 + j2`, transformed over j1.
    let split = z.each(|part| {
        let part = graph.reshape(part, &shape)?;
        let part = graph.transpose(&part, &[0, 2, 1])?;
        graph.reshape(&part, &[&rows * &b, a.clone()])
    })?;
    let inner = rows_transformed(graph, &split, first, sign)?;
    let turned = roots(graph, z.dtype(), (second, first, length), sign)?;
    let inner = inner.each(|part| graph.reshape(part, &[rows.clone(), b.clone(), a.clone()]))?;
    let inner = graph.complex_mul(&inner, &turned)?;
    let inner = inner.each(|part| {
        let part = graph.transpose(part, &[0, 2, 1])?;
        graph.reshape(&part, &[&rows * &a, b.clone()])
    })?;
    let outer = rows_transformed(graph, &inner, second, sign)?;
    // Result `k1 + first * k2`.
    outer.each(|part| {
        let part = graph.reshape(part, &[rows.clone(), a.clone(), b.clone()])?;
        let part = graph.transpose(&part, &[0, 2, 1])?;
        graph.reshape(&part, &[rows.clone(), Expr::from(length)])
    })
}

// --- factors ---

/// A batch of matrices: all but the last two axes as one; the number of rows and columns.
fn matrices(graph: &mut Graph, value: &Operand) -> Accepted<Operand> {
    let Some(lead) = value.rank().checked_sub(2) else {
        return Err(shape_error("a matrix is needed"));
    };
    let batch: Expr = value.shape()[..lead].iter().product();
    let shape = [&[batch], &value.shape()[lead..]].concat();
    graph.reshape(value, &shape)
}

fn real_matrix(value: &Value) -> Accepted<&Operand> {
    match value {
        Value::Complex(_) => Err(type_error("matrices of complex numbers")),
        value => value.real(),
    }
}

/// 1 at a number of a turn, 0 elsewhere: `[extent]`.
fn unit(graph: &mut Graph, number: &Operand, extent: &Expr, dtype: DType) -> Accepted<Operand> {
    let places = graph.iota(DType::I64, std::slice::from_ref(extent), 0)?;
    let is_there = graph.equal(&places, number)?;
    graph.cast(&is_there, dtype)
}

/// The least rows of a block: fewer are computed one by one.
const LEAST_BLOCK: usize = 32;

/// The most blocks along the diagonal of a matrix.
const MOST_BLOCKS: usize = 16;

/// The most rows of a block of matrices with so many; where that is not known, they are one block.
fn block_of(n: &Expr) -> usize {
    let n = n.as_constant().and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
    LEAST_BLOCK.max((n / MOST_BLOCKS).next_multiple_of(LEAST_BLOCK))
}

/// Where matrices of several blocks are cut in two, and the rows behind the cut.
fn cut_of(n: &Expr, block: usize) -> Option<(i64, i64)> {
    let n = n.as_constant().and_then(|n| usize::try_from(n).ok()).filter(|&n| n > block)?;
    let cut = (n / 2).next_multiple_of(block).min(n - 1);
    Some((cut as i64, (n - cut) as i64))
}

/// Rows and columns of matrices `[batch, n, m]`: so many from these on.
fn part_of(
    graph: &mut Graph,
    value: &Operand,
    (row, rows): (i64, i64),
    (column, columns): (i64, i64),
) -> Accepted<Operand> {
    let value = graph.slice_axis(value, 1, Expr::from(row), 1, Expr::from(rows))?;
    graph.slice_axis(&value, 2, Expr::from(column), 1, Expr::from(columns))
}

/// A tensor with the only slice of another in the place of its slice of a number along an axis.
fn put(
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

/// The lower factor. A matrix of several blocks is cut in two: the factor of the upper half, what
/// stands below by a triangular system, and the factor of the rest (Golub and Van Loan, section
/// 4.2.9), so that most of the work is products.
pub(crate) fn factored(graph: &mut Graph, value: &Value, is_lower: bool) -> Accepted<Operand> {
    let value = real_matrix(value)?;
    let shape = value.shape().to_vec();
    let mut a = matrices(graph, value)?;
    if !is_lower {
        a = graph.transpose(&a, &[0, 2, 1])?;
    }
    let n = a.shape()[1].clone();
    if a.shape()[2] != n {
        return Err(shape_error("the matrices are not square"));
    }
    let mut factor = lower_factor(graph, &a, block_of(&n))?;
    if !is_lower {
        factor = graph.transpose(&factor, &[0, 2, 1])?;
    }
    graph.reshape(&factor, &shape)
}

/// The lower factors of matrices `[batch, n, n]`, in blocks of at most so many rows.
fn lower_factor(graph: &mut Graph, a: &Operand, block: usize) -> Accepted<Operand> {
    let n = a.shape()[1].clone();
    let Some((cut, rest)) = cut_of(&n, block) else { return factor_by_columns(graph, a) };
    let upper = part_of(graph, a, (0, cut), (0, cut))?;
    let below = part_of(graph, a, (cut, rest), (0, cut))?;
    let corner = part_of(graph, a, (cut, rest), (cut, rest))?;
    let upper = lower_factor(graph, &upper, block)?;
    let across = graph.transpose(&below, &[0, 2, 1])?;
    let (left, right) = (upper.clone().into(), across.into());
    let across = solve_in_blocks(graph, &left, &right, false, block)?.real()?.clone();
    let below = graph.transpose(&across, &[0, 2, 1])?;
    let product = graph.matmul(&below, &across)?;
    let corner = graph.sub(&corner, &product)?;
    let corner = lower_factor(graph, &corner, block)?;
    let shape = [a.shape()[0].clone(), Expr::from(cut), Expr::from(rest)];
    let zeros = graph.full(&shape, tensor::Scalar::zero(a.dtype()))?;
    let first = graph.concat(2, &[upper, zeros])?;
    let second = graph.concat(2, &[below, corner])?;
    graph.concat(1, &[first, second])
}

/// The lower factor, a column a turn: a column less the product of the columns before, divided by
/// the root of its diagonal element (Golub and Van Loan, section 4.2.5).
fn factor_by_columns(graph: &mut Graph, a: &Operand) -> Accepted<Operand> {
    let (n, dtype) = (a.shape()[1].clone(), a.dtype());
    // Column j of each matrix is slice j.
    let columns = graph.transpose(a, &[2, 0, 1])?;
    let zeros = graph.full(a.shape(), tensor::Scalar::zero(dtype))?;
    let factors =
        graph.scan((&n, false), &[zeros], &[columns], &[], |graph, j, carried, slices| {
            let (factor, column) = (&carried[0], &slices[0]);
            let here = unit(graph, j, &n, dtype)?;
            // Row j of the factor, its product with all rows.
            let across = [Expr::ONE, n.clone(), Expr::ONE];
            let as_rows = graph.reshape(&here, &across)?;
            let row = graph.mul(factor, &as_rows)?;
            let row = graph.reduce_axes(&row, &[1], Reduction::Sum, true)?;
            let products = graph.mul(factor, &row)?;
            let products = graph.reduce_axes(&products, &[2], Reduction::Sum, false)?;
            let rest = graph.sub(column, &products)?;
            let zero = graph.number(dtype, 0.0);
            let diagonal = graph.mul(&rest, &here)?;
            let diagonal = graph.reduce_axes(&diagonal, &[1], Reduction::Sum, true)?;
            let root = graph.sqrt(&diagonal)?;
            let scaled = graph.div(&rest, &root)?;
            let places = graph.iota(DType::I64, std::slice::from_ref(&n), 0)?;
            let is_below = graph.greater_equal(&places, j)?;
            let scaled = graph.select(&is_below, &scaled, &zero)?;
            let batch = scaled.shape()[0].clone();
            let scaled = graph.reshape(&scaled, &[batch, n.clone(), Expr::ONE])?;
            // Written as column j: the last axis counts columns.
            let next = put(graph, factor, &scaled, 2, j)?;
            Ok(Turn { carried: vec![next], stacked: Vec::new() })
        })?;
    Ok(factors[0].clone())
}

pub(crate) fn cholesky<'p>(importer: &mut Importer<'p>, node: &Node<'p>, _: &mut Frame) -> Lowered {
    one(factored(&mut importer.graph, node.value(0)?, node.flag("lower"))?)
}

/// What a triangular matrix is multiplied with, and how.
#[derive(Clone, Copy)]
pub(crate) struct TriangularForm {
    pub(crate) is_left: bool,
    pub(crate) is_lower: bool,
    pub(crate) is_transposed: bool,
    pub(crate) is_conjugated: bool,
    pub(crate) is_unit: bool,
}

pub(crate) fn triangular_solve<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    let transposition = node.word("transpose_a").unwrap_or("NO_TRANSPOSE");
    let form = TriangularForm {
        is_left: node.flag("left_side"),
        is_lower: node.flag("lower"),
        is_transposed: transposition != "NO_TRANSPOSE",
        is_conjugated: transposition == "ADJOINT",
        is_unit: node.flag("unit_diagonal"),
    };
    let (a, b) = (node.value(0)?, node.value(1)?);
    Ok(vec![solved(&mut importer.graph, a, b, form)?])
}

/// A product, element by element.
fn times(graph: &mut Graph, a: &Value, b: &Value) -> Accepted<Value> {
    Ok(match (a, b) {
        (Value::Complex(a), Value::Complex(b)) => graph.complex_mul(a, b)?.into(),
        (a, b) => graph.mul(a.real()?, b.real()?)?.into(),
    })
}

fn minus(graph: &mut Graph, a: &Value, b: &Value) -> Accepted<Value> {
    Ok(match (a, b) {
        (Value::Complex(a), Value::Complex(b)) => graph.complex_sub(a, b)?.into(),
        (a, b) => graph.sub(a.real()?, b.real()?)?.into(),
    })
}

fn over(graph: &mut Graph, a: &Value, b: &Value) -> Accepted<Value> {
    Ok(match (a, b) {
        (Value::Complex(a), Value::Complex(b)) => graph.complex_div(a, b)?.into(),
        (a, b) => graph.div(a.real()?, b.real()?)?.into(),
    })
}

/// Solves `op(a) x = b`, or `x op(a) = b`. Other cases become that of a lower matrix
/// on the left by transposition, and by reading rows and columns from the end.
pub(crate) fn solved(
    graph: &mut Graph,
    a: &Value,
    b: &Value,
    form: TriangularForm,
) -> Accepted<Value> {
    let shape = b.shape().to_vec();
    let mut is_lower = form.is_lower;
    let mut a = a.each(|part| matrices(graph, part))?;
    let mut b = b.each(|part| matrices(graph, part))?;
    if let (Value::Complex(value), true) = (&a, form.is_conjugated) {
        a = Complex { re: value.re.clone(), im: graph.neg(&value.im)? }.into();
    }
    if !form.is_left {
        b = b.each(|part| graph.transpose(part, &[0, 2, 1]))?;
    }
    if form.is_transposed == form.is_left {
        a = a.each(|part| graph.transpose(part, &[0, 2, 1]))?;
        is_lower = !is_lower;
    }
    let n = a.shape()[1].clone();
    if a.shape()[2] != n || b.shape()[1] != n || a.shape()[0] != b.shape()[0] {
        return Err(shape_error("the matrices do not fit each other"));
    }
    if !is_lower {
        a = a.each(|part| reversed(graph, part, &[1, 2]))?;
        b = b.each(|part| reversed(graph, part, &[1]))?;
    }
    let found = solve_in_blocks(graph, &a, &b, form.is_unit, block_of(&n))?;
    found.each(|part| {
        let mut part = part.clone();
        if !is_lower {
            part = reversed(graph, &part, &[1])?;
        }
        if !form.is_left {
            part = graph.transpose(&part, &[0, 2, 1])?;
        }
        graph.reshape(&part, &shape)
    })
}

/// As [`solved`], of lower matrices `[batch, n, n]` on the left of `[batch, n, m]`, in blocks of at
/// most so many rows: the first half, then the rest less what the first half makes of it.
fn solve_in_blocks(
    graph: &mut Graph,
    a: &Value,
    b: &Value,
    is_unit: bool,
    block: usize,
) -> Accepted<Value> {
    let n = a.shape()[1].clone();
    let columns = b.shape()[2].as_constant();
    let Some(((cut, behind), columns)) = cut_of(&n, block).zip(columns) else {
        return solve_by_rows(graph, a, b, is_unit);
    };
    let (first, rest) = ((0, cut), (cut, behind));
    let mut part =
        |value: &Value, rows, columns| value.each(|value| part_of(graph, value, rows, columns));
    let (upper, below, corner) =
        (part(a, first, first)?, part(a, rest, first)?, part(a, rest, rest)?);
    let (right, other) = (part(b, first, (0, columns))?, part(b, rest, (0, columns))?);
    let found = solve_in_blocks(graph, &upper, &right, is_unit, block)?;
    let product = match (&below, &found) {
        (Value::Complex(a), Value::Complex(b)) => {
            let (left, right) = (graph.matmul(&a.re, &b.re)?, graph.matmul(&a.im, &b.im)?);
            let re = graph.sub(&left, &right)?;
            let (left, right) = (graph.matmul(&a.re, &b.im)?, graph.matmul(&a.im, &b.re)?);
            Complex { re, im: graph.add(&left, &right)? }.into()
        }
        (a, b) => graph.matmul(a.real()?, b.real()?)?.into(),
    };
    let other = minus(graph, &other, &product)?;
    let other = solve_in_blocks(graph, &corner, &other, is_unit, block)?;
    let mut others = other.parts().into_iter();
    found.each(|first| {
        let rest = others.next().ok_or_else(|| shape_error("a part is missing"))?;
        graph.concat(1, &[first.clone(), rest.clone()])
    })
}

/// As [`solve_in_blocks`], a row a turn.
fn solve_by_rows(graph: &mut Graph, a: &Value, b: &Value, is_unit: bool) -> Accepted<Value> {
    let n = a.shape()[1].clone();
    let rows_of_a = a.each(|part| graph.transpose(part, &[1, 0, 2]))?;
    let rows_of_b = b.each(|part| graph.transpose(part, &[1, 0, 2]))?;
    let zeros = b.each(|part| {
        let shape = part.shape().to_vec();
        graph.full(&shape, tensor::Scalar::zero(part.dtype()))
    })?;
    let own = |value: &Value| value.parts().into_iter().cloned().collect::<Vec<Operand>>();
    let scanned = [own(&rows_of_a), own(&rows_of_b)].concat();
    let found =
        graph.scan((&n, false), &own(&zeros), &scanned, &[], |graph, i, carried, slices| {
            let (mut carried, mut slices) = (carried.iter().cloned(), slices.iter().cloned());
            let found = zeros.with_parts(&mut carried)?;
            let row = rows_of_a.with_parts(&mut slices)?;
            let right = rows_of_b.with_parts(&mut slices)?;
            let places = graph.iota(DType::I64, std::slice::from_ref(&n), 0)?;
            let is_before = graph.less(&places, i)?;
            let is_here = graph.equal(&places, i)?;
            let only = |graph: &mut Graph, value: &Value, condition: &Operand| {
                value.each(|part| {
                    let zero = graph.number(part.dtype(), 0.0);
                    graph.select(condition, part, &zero)
                })
            };
            let before = only(graph, &row, &is_before)?;
            let before = before.each(|part| {
                let shape = [part.shape(), &[Expr::ONE]].concat();
                graph.reshape(part, &shape)
            })?;
            let products = times(graph, &found, &before)?;
            let sum = |graph: &mut Graph, value: &Value, keep| {
                value.each(|part| graph.reduce_axes(part, &[1], Reduction::Sum, keep))
            };
            let products = sum(graph, &products, false)?;
            let mut next = minus(graph, &right, &products)?;
            if !is_unit {
                let diagonal = only(graph, &row, &is_here)?;
                let diagonal = sum(graph, &diagonal, true)?;
                next = over(graph, &next, &diagonal)?;
            }
            let mut before = found.parts().into_iter();
            let next = next.each(|part| {
                let before = before.next().ok_or_else(|| shape_error("a part is missing"))?;
                let shape = [part.shape()[0].clone(), Expr::ONE, part.shape()[1].clone()];
                let part = graph.reshape(part, &shape)?;
                put(graph, before, &part, 1, i)
            })?;
            Ok(Turn { carried: own(&next), stacked: Vec::new() })
        })?;
    zeros.with_parts(&mut found.into_iter())
}

/// Which leading minor of each matrix is not positive, from 1 on, by its factor; 0 for none.
pub(crate) fn failed_minor(graph: &mut Graph, factor: &Operand, dtype: DType) -> Accepted<Operand> {
    let lead = factor.shape()[..factor.rank().saturating_sub(2)].to_vec();
    let factor = matrices(graph, factor)?;
    let n = factor.shape()[1].clone();
    let square = [n.clone(), n.clone()];
    let (rows, columns) =
        (graph.iota(DType::I64, &square, 0)?, graph.iota(DType::I64, &square, 1)?);
    let is_diagonal = graph.equal(&rows, &columns)?;
    let is_nan = graph.map(tensor::ScalarFunction::IsNan, &[&factor])?;
    let fails = graph.and(&is_nan, &is_diagonal)?;
    let number = graph.add_number(&rows, 1.0)?;
    let none = graph.number(DType::I64, i64::MAX as f64);
    let number = graph.select(&fails, &number, &none)?;
    let first = graph.reduce_axes(&number, &[1, 2], Reduction::Min, false)?;
    let zero = graph.number(DType::I64, 0.0);
    let is_none = graph.equal(&first, &none)?;
    let first = graph.select(&is_none, &zero, &first)?;
    let first = graph.cast(&first, dtype)?;
    graph.reshape(&first, &lead)
}
