//! Eigenvalues of Hermitian matrices and singular values, by rotations of Jacobi's of all disjoint
//! pairs of columns at once (R. P. Brent, F. T. Luk, 1985; M. R. Hestenes, 1958).

use front::{Accepted, Graph, Operand, Turn};
use graph::Op;
use sym::Expr;
use tensor::{DType, Reduction, Scalar};

use super::algebra::{
    adjoint, chosen, conjugate, dtype_of, joined, known_extents, magnitude, matrices, of_real,
    only, part_of, parts_of, plus, real_part, scaled, shaped, squares, summed, times, units,
};
use super::reflections::{applied, reflected};
use crate::node::Value;

/// The most sweeps over all pairs of columns; fewer than ten are the rule.
const MOST_SWEEPS: f64 = 40.0;

/// Of Hermitian matrices of two rows, `[batch, pairs]` of them, what makes them diagonal.
struct Rotations {
    sine: Operand,
    /// The sine over one more than the cosine.
    ratio: Operand,
    /// Of the elements off the diagonal.
    phase: Value,
}

/// The distance between numbers next to 1.
fn epsilon(dtype: DType) -> f64 {
    if dtype == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) }
}

impl Rotations {
    /// Of matrices with these diagonals and what is above them.
    fn of(
        graph: &mut Graph,
        (first, second): (&Operand, &Operand),
        across: &Value,
    ) -> Accepted<Rotations> {
        let dtype = first.dtype();
        let (zero, one) = (graph.number(dtype, 0.0), graph.number(dtype, 1.0));
        let size = magnitude(graph, across)?;
        let is_done = graph.equal(&size, &zero)?;
        let safe = graph.select(&is_done, &one, &size)?;
        let phase = across.each(|part| graph.div(part, &safe))?;
        let unit = of_real(graph, across, one.clone())?;
        let phase = chosen(graph, &is_done, &unit, &phase)?;
        // The smaller root of t^2 + 2 tau t - 1.
        let difference = graph.sub(second, first)?;
        let twice = graph.mul_number(&safe, 2.0)?;
        let tau = graph.div(&difference, &twice)?;
        let square = graph.square(&tau)?;
        let root = graph.add_number(&square, 1.0)?;
        let root = graph.sqrt(&root)?;
        let size = graph.abs(&tau)?;
        let divisor = graph.add(&size, &root)?;
        let is_negative = graph.less(&tau, &zero)?;
        let other = graph.number(dtype, -1.0);
        let sign = graph.select(&is_negative, &other, &one)?;
        let tangent = graph.div(&sign, &divisor)?;
        let tangent = graph.select(&is_done, &zero, &tangent)?;
        let square = graph.square(&tangent)?;
        let root = graph.add_number(&square, 1.0)?;
        let root = graph.sqrt(&root)?;
        let cosine = graph.div(&one, &root)?;
        let sine = graph.mul(&tangent, &cosine)?;
        let divisor = graph.add_number(&cosine, 1.0)?;
        let ratio = graph.div(&sine, &divisor)?;
        Ok(Rotations { sine, ratio, phase })
    }

    /// Slices along an axis, each of the first half rotated with one of the other half.
    fn turned(&self, graph: &mut Graph, value: &Value, axis: usize) -> Accepted<Value> {
        let [batch, pairs] = [0, 1].map(|at| self.sine.shape()[at].clone());
        let mut shape = [batch, Expr::ONE, Expr::ONE];
        shape[axis] = pairs;
        let (sine, ratio) =
            (graph.reshape(&self.sine, &shape)?, graph.reshape(&self.ratio, &shape)?);
        let mut phase = shaped(graph, &self.phase, &shape)?;
        if axis == 2 {
            phase = conjugate(graph, &phase)?;
        }
        let (first, second) = halves(graph, value, axis)?;
        let second = times(graph, &second, &phase)?;
        // What changes is added, so that small rotations round little (H. Rutishauser, 1966).
        let (minus_sine, minus_ratio) = (graph.neg(&sine)?, graph.neg(&ratio)?);
        let mut moved = |own: &Value, other: &Value, sine: &Operand, ratio: &Operand| {
            let change = scaled(graph, own, ratio)?;
            let change = plus(graph, other, &change)?;
            let change = scaled(graph, &change, sine)?;
            plus(graph, own, &change)
        };
        let upper = moved(&first, &second, &minus_sine, &ratio)?;
        let lower = moved(&second, &first, &sine, &minus_ratio)?;
        joined(graph, axis, &[upper, lower])
    }
}

/// The first and the second half of the slices along an axis.
fn halves(graph: &mut Graph, value: &Value, axis: usize) -> Accepted<(Value, Value)> {
    let extent = value.shape()[axis].as_constant().unwrap_or(0);
    let pairs = usize::try_from(extent).unwrap_or(0) / 2;
    let first = part_of(graph, value, axis, (0, pairs))?;
    Ok((first, part_of(graph, value, axis, (pairs, pairs))?))
}

/// Slices along an axis in an order in which each meets another in the next round: after
/// `2 * pairs - 1` rounds each has met all others and is where it was.
fn reordered(graph: &mut Graph, value: &Value, axis: usize, pairs: usize) -> Accepted<Value> {
    if pairs < 2 {
        return Ok(value.clone());
    }
    let pieces = [(0, 1), (pairs, 1), (1, pairs - 2), (pairs + 1, pairs - 1), (pairs - 1, 1)];
    let pieces = pieces.into_iter().filter(|piece| piece.1 > 0);
    let pieces = pieces.map(|piece| part_of(graph, value, axis, piece));
    let pieces = pieces.collect::<Accepted<Vec<Value>>>()?;
    joined(graph, axis, &pieces)
}

/// Rounds of rotations until none of a sweep is about more than `least`: `turn` gives what is
/// carried and the most that it was about.
fn sweeps(
    graph: &mut Graph,
    state: &[Operand],
    (pairs, dtype, least): (usize, DType, f64),
    turn: impl FnOnce(&mut Graph, &[Operand]) -> Accepted<(Vec<Operand>, Operand)>,
) -> Accepted<Vec<Operand>> {
    let (count, most) = (graph.number(DType::I64, 0.0), graph.number(dtype, f64::INFINITY));
    let carried = [state, &[count, most]].concat();
    let at = state.len();
    let goes_on = |graph: &mut Graph, carried: &[Operand]| {
        let (sweeps, least) = (graph.number(DType::I64, MOST_SWEEPS), graph.number(dtype, least));
        let (is_few, is_much) =
            (graph.less(&carried[at], &sweeps)?, graph.greater(&carried[at + 1], &least)?);
        graph.and(&is_few, &is_much)
    };
    let sweep = |graph: &mut Graph, carried: &[Operand]| {
        let none = graph.number(dtype, 0.0);
        let state = [&carried[..at], &[none]].concat();
        let rounds = Expr::from(2 * pairs - 1);
        let mut found =
            graph.scan((&rounds, false), &state, &[], &[], |graph, _, carried, _| {
                let (mut next, found) = turn(graph, &carried[..at])?;
                next.push(graph.max(&carried[at], &found)?);
                Ok(Turn { carried: next, stacked: Vec::new() })
            })?;
        let most = found.pop();
        found.push(graph.add_number(&carried[at], 1.0)?);
        found.extend(most);
        Ok(found)
    };
    let mut found = graph.repeat_while(&carried, &[], goes_on, sweep)?;
    found.truncate(at);
    Ok(found)
}

/// The greatest element of all.
fn greatest(graph: &mut Graph, value: &Operand) -> Accepted<Operand> {
    let axes: Vec<usize> = (0..value.rank()).collect();
    graph.reduce_axes(value, &axes, Reduction::Max, false)
}

/// Matrices over their greatest element, and that: beside it what is next to nothing is nothing.
fn normalised(graph: &mut Graph, value: &Value) -> Accepted<(Value, Operand)> {
    let dtype = dtype_of(value)?;
    let size = magnitude(graph, value)?;
    let size = graph.reduce_axes(&size, &[1, 2], Reduction::Max, true)?;
    let (zero, one) = (graph.number(dtype, 0.0), graph.number(dtype, 1.0));
    let is_zero = graph.equal(&size, &zero)?;
    let scale = graph.select(&is_zero, &one, &size)?;
    Ok((value.each(|part| graph.div(part, &scale))?, scale))
}

/// Slices along the last axis of matrices, each in an order of its own: `[batch, columns]`.
fn in_order(graph: &mut Graph, value: &Value, order: &Operand) -> Accepted<Value> {
    value.each(|part| graph.gather(part, &[2], std::slice::from_ref(order), 1, 1))
}

/// Columns of zeros behind those of matrices.
fn widened(graph: &mut Graph, value: &Value, axis: usize, more: usize) -> Accepted<Value> {
    if more == 0 {
        return Ok(value.clone());
    }
    let zeros = value.each(|part| {
        let mut shape = part.shape().to_vec();
        shape[axis] = Expr::from(more);
        graph.full(&shape, Scalar::zero(part.dtype()))
    })?;
    joined(graph, axis, &[value.clone(), zeros])
}

/// Elements of square matrices from a place of the first row on, each a row below and a column
/// behind the one before: `[batch, count]`.
fn diagonal(graph: &mut Graph, value: &Value, first: usize, count: usize) -> Accepted<Value> {
    let (batch, rows, columns) = known_extents(value)?;
    let step = columns as i64 + 1;
    value.each(|part| {
        let flat = graph.reshape(part, &[batch.clone(), Expr::from(rows * columns)])?;
        graph.slice_axis(&flat, 1, Expr::from(first), step, Expr::from(count))
    })
}

/// Hermitian matrices of which the lower half is given.
fn mirrored(graph: &mut Graph, value: &Value) -> Accepted<Value> {
    let (_, size, _) = known_extents(value)?;
    let square = [Expr::from(size), Expr::from(size)];
    let row = graph.iota(DType::I64, &square, 0)?;
    let column = graph.iota(DType::I64, &square, 1)?;
    let (is_below, is_diagonal) = (graph.greater(&row, &column)?, graph.equal(&row, &column)?);
    let below = only(graph, &is_below, value)?;
    let above = adjoint(graph, &below)?;
    let real = of_real(graph, value, real_part(value)?.clone())?;
    let own = only(graph, &is_diagonal, &real)?;
    let whole = plus(graph, &below, &above)?;
    plus(graph, &whole, &own)
}

/// Eigenvectors, as columns, and eigenvalues of Hermitian matrices, the least first; one half of
/// the matrices is read.
pub(crate) fn eigenvectors(
    graph: &mut Graph,
    value: &Value,
    is_lower: bool,
) -> Accepted<(Value, Operand)> {
    let shape = value.shape().to_vec();
    let mut a = value.each(|part| matrices(graph, part))?;
    let (batch, size, columns) = known_extents(&a)?;
    if size != columns {
        return Err(front::shape_error("the matrices are not square"));
    }
    let dtype = dtype_of(&a)?;
    let values_shape = &shape[..shape.len() - 1];
    if size == 0 {
        return Ok((value.clone(), graph.full(values_shape, Scalar::zero(dtype))?));
    }
    if !is_lower {
        a = adjoint(graph, &a)?;
    }
    let whole = mirrored(graph, &a)?;
    let (whole, scale) = normalised(graph, &whole)?;
    let pairs = size.div_ceil(2);
    let whole = widened(graph, &whole, 1, 2 * pairs - size)?;
    let whole = widened(graph, &whole, 2, 2 * pairs - size)?;
    let vectors = units(graph, &a, (&batch, 2 * pairs, 2 * pairs))?;
    let state = [parts_of(&whole), parts_of(&vectors)].concat();
    let tolerance = (pairs, dtype, epsilon(dtype));
    let found = sweeps(graph, &state, tolerance, |graph, carried| {
        let mut carried = carried.iter().cloned();
        let whole = whole.with_parts(&mut carried)?;
        let vectors = vectors.with_parts(&mut carried)?;
        let own = diagonal(graph, &whole, 0, 2 * pairs)?;
        let own = real_part(&own)?;
        let first = graph.slice_axis(own, 1, Expr::ZERO, 1, Expr::from(pairs))?;
        let second = graph.slice_axis(own, 1, Expr::from(pairs), 1, Expr::from(pairs))?;
        let across = diagonal(graph, &whole, pairs, pairs)?;
        let rotations = Rotations::of(graph, (&first, &second), &across)?;
        let whole = rotations.turned(graph, &whole, 2)?;
        let whole = rotations.turned(graph, &whole, 1)?;
        let whole = reordered(graph, &whole, 2, pairs)?;
        let whole = reordered(graph, &whole, 1, pairs)?;
        let vectors = rotations.turned(graph, &vectors, 2)?;
        let vectors = reordered(graph, &vectors, 2, pairs)?;
        let size = magnitude(graph, &across)?;
        Ok(([parts_of(&whole), parts_of(&vectors)].concat(), greatest(graph, &size)?))
    })?;
    let mut found = found.into_iter();
    let whole = whole.with_parts(&mut found)?;
    let vectors = vectors.with_parts(&mut found)?;
    let values = diagonal(graph, &whole, 0, size)?;
    let scale = graph.reshape(&scale, &[batch, Expr::ONE])?;
    let values = graph.mul(real_part(&values)?, &scale)?;
    let op = Op::Sort { axis: 1, descending: false, kept: None };
    let (values, order) = graph.primitive_pair(op, &[&values])?;
    let vectors = part_of(graph, &vectors, 1, (0, size))?;
    let vectors = in_order(graph, &vectors, &order)?;
    Ok((shaped(graph, &vectors, &shape)?, graph.reshape(&values, values_shape)?))
}

/// Which of the factors beside the singular values are wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Factors {
    None,
    /// As many columns, and rows, as there are singular values.
    Thin,
    /// Square ones.
    Whole,
}

/// Singular values, the greatest first, and the factors on both sides that are wanted.
pub(crate) fn singular_values(
    graph: &mut Graph,
    value: &Value,
    factors: Factors,
) -> Accepted<(Operand, Option<(Value, Value)>)> {
    let shape = value.shape().to_vec();
    let mut a = value.each(|part| matrices(graph, part))?;
    let (batch, rows, columns) = known_extents(&a)?;
    let count = rows.min(columns);
    let of = |extent: usize| if factors == Factors::Whole { extent } else { count };
    let is_wide = rows < columns;
    if is_wide {
        a = adjoint(graph, &a)?;
    }
    let (values, found) = if count == 0 {
        let values = graph.full(&[batch.clone(), Expr::ZERO], Scalar::zero(dtype_of(&a)?))?;
        let left = units(graph, &a, (&batch, rows, of(rows)))?;
        let right = units(graph, &a, (&batch, of(columns), columns))?;
        (values, Some((left, right)))
    } else {
        let (values, found) = of_tall(graph, &a, factors)?;
        let found = match found {
            Some((left, right)) if is_wide => {
                Some((adjoint(graph, &right)?, adjoint(graph, &left)?))
            }
            found => found,
        };
        (values, found)
    };
    let lead = &shape[..shape.len() - 2];
    let values = graph.reshape(&values, &[lead, &[Expr::from(count)]].concat())?;
    let Some((left, right)) = found.filter(|_| factors != Factors::None) else {
        return Ok((values, None));
    };
    let with = |rows: usize, columns: usize| [lead, &[rows.into(), columns.into()]].concat();
    let left = shaped(graph, &left, &with(rows, of(rows)))?;
    let right = shaped(graph, &right, &with(of(columns), columns))?;
    Ok((values, Some((left, right))))
}

/// As [`singular_values`], of matrices of no fewer rows than columns, one at least: the columns of
/// their factor R are made orthogonal.
fn of_tall(
    graph: &mut Graph,
    a: &Value,
    factors: Factors,
) -> Accepted<(Operand, Option<(Value, Value)>)> {
    let (batch, rows, columns) = known_extents(a)?;
    let dtype = dtype_of(a)?;
    let is_wanted = factors != Factors::None;
    let (vectors, taus) = reflected(graph, a)?;
    let triangle = part_of(graph, &vectors, 1, (0, columns))?;
    let triangle = upper(graph, &triangle)?;
    let (triangle, scale) = normalised(graph, &triangle)?;
    let pairs = columns.div_ceil(2);
    let products = widened(graph, &triangle, 2, 2 * pairs - columns)?;
    let right = units(graph, a, (&batch, 2 * pairs, 2 * pairs))?;
    let state = match is_wanted {
        true => [parts_of(&products), parts_of(&right)].concat(),
        false => parts_of(&products),
    };
    let least = epsilon(dtype);
    let found = sweeps(graph, &state, (pairs, dtype, 8.0 * least), |graph, carried| {
        let mut carried = carried.iter().cloned();
        let products = products.with_parts(&mut carried)?;
        let (first, second) = halves(graph, &products, 2)?;
        let (own, other) = (norms(graph, &first)?, norms(graph, &second)?);
        let conjugated = conjugate(graph, &first)?;
        let across = times(graph, &conjugated, &second)?;
        let across = summed(graph, &across, &[1], false)?;
        // A column that is nothing beside the greatest element is in no direction.
        let (zero, one) = (graph.number(dtype, 0.0), graph.number(dtype, 1.0));
        let (most, nothing) = (graph.number(dtype, least), graph.number(dtype, least * least));
        let size = graph.mul(&own, &other)?;
        let size = graph.sqrt(&size)?;
        let is_something = graph.greater(&size, &nothing)?;
        let safe = graph.select(&is_something, &size, &one)?;
        let angle = magnitude(graph, &across)?;
        let angle = graph.div(&angle, &safe)?;
        let angle = graph.select(&is_something, &angle, &zero)?;
        let is_open = graph.greater(&angle, &most)?;
        let across = only(graph, &is_open, &across)?;
        let rotations = Rotations::of(graph, (&own, &other), &across)?;
        let mut turned = |value: &Value| -> Accepted<Vec<Operand>> {
            let value = rotations.turned(graph, value, 2)?;
            Ok(parts_of(&reordered(graph, &value, 2, pairs)?))
        };
        let mut next = turned(&products)?;
        if is_wanted {
            next.extend(turned(&right.with_parts(&mut carried)?)?);
        }
        Ok((next, greatest(graph, &angle)?))
    })?;
    let mut found = found.into_iter();
    let products = products.with_parts(&mut found)?;
    let products = part_of(graph, &products, 2, (0, columns))?;
    let values = norms(graph, &products)?;
    let values = graph.sqrt(&values)?;
    let op = Op::Sort { axis: 1, descending: true, kept: None };
    let (values, order) = graph.primitive_pair(op, &[&values])?;
    let scale = graph.reshape(&scale, &[batch.clone(), Expr::ONE])?;
    let values = graph.mul(&values, &scale)?;
    if !is_wanted {
        return Ok((values, None));
    }
    let right = right.with_parts(&mut found)?;
    let right = part_of(graph, &right, 1, (0, columns))?;
    let right = part_of(graph, &right, 2, (0, columns))?;
    let right = in_order(graph, &right, &order)?;
    let products = in_order(graph, &products, &order)?;
    let left = directions(graph, &products)?;
    let width = if factors == Factors::Whole { rows } else { columns };
    let left = if width > columns {
        let rest = units(graph, a, (&batch, width - columns, width - columns))?;
        let left = widened(graph, &left, 2, width - columns)?;
        let rest = widened_before(graph, &rest, columns)?;
        joined(graph, 1, &[left, rest])?
    } else {
        left
    };
    let left = widened(graph, &left, 1, rows - width)?;
    let left = applied(graph, (&vectors, &taus), &left, false)?;
    let right = adjoint(graph, &right)?;
    Ok((values, Some((left, right))))
}

/// Columns of zeros in front of those of matrices.
fn widened_before(graph: &mut Graph, value: &Value, more: usize) -> Accepted<Value> {
    let zeros = value.each(|part| {
        let mut shape = part.shape().to_vec();
        shape[2] = Expr::from(more);
        graph.full(&shape, Scalar::zero(part.dtype()))
    })?;
    joined(graph, 2, &[zeros, value.clone()])
}

/// The squares of the lengths of columns.
fn norms(graph: &mut Graph, value: &Value) -> Accepted<Operand> {
    let squares = squares(graph, value)?;
    graph.reduce_axes(&squares, &[1], Reduction::Sum, false)
}

/// What is on and above the diagonal of square matrices.
fn upper(graph: &mut Graph, value: &Value) -> Accepted<Value> {
    let (_, size, _) = known_extents(value)?;
    let square = [Expr::from(size), Expr::from(size)];
    let row = graph.iota(DType::I64, &square, 0)?;
    let column = graph.iota(DType::I64, &square, 1)?;
    let is_above = graph.less_equal(&row, &column)?;
    only(graph, &is_above, value)
}

/// The directions of orthogonal columns, by their own reflections: so they are at right angles also
/// where a column is next to nothing, and has none.
fn directions(graph: &mut Graph, columns: &Value) -> Accepted<Value> {
    let (batch, size, _) = known_extents(columns)?;
    let (vectors, taus) = reflected(graph, columns)?;
    let own = diagonal(graph, &vectors, 0, size)?;
    let length = magnitude(graph, &own)?;
    let (zero, one) = (graph.number(length.dtype(), 0.0), graph.number(length.dtype(), 1.0));
    let is_zero = graph.equal(&length, &zero)?;
    let safe = graph.select(&is_zero, &one, &length)?;
    let phase = own.each(|part| graph.div(part, &safe))?;
    let unit = of_real(graph, &own, one)?;
    let phase = chosen(graph, &is_zero, &unit, &phase)?;
    let phase = shaped(graph, &phase, &[batch.clone(), Expr::ONE, Expr::from(size)])?;
    let units = units(graph, columns, (&batch, size, size))?;
    let start = times(graph, &units, &phase)?;
    applied(graph, (&vectors, &taus), &start, false)
}
