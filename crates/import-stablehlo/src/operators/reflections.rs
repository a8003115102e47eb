//! Reflections of Householder's, as LAPACK has them: H = 1 - tau v v^H, the vectors v below the
//! diagonal of what is left of their columns, with a 1 on it. Sources: the routines `larfg`,
//! `geqrf`, `orgqr` and `ormqr` of LAPACK for what is computed and how it is laid out; Golub and
//! Van Loan, "Matrix Computations", section 5.2.

use front::{Accepted, Graph, Operand, Turn};
use sym::Expr;
use tensor::{Reduction, Scalar};

use super::algebra::{
    adjoint, chosen, conjugate, dtype_of, known_extents, matrices, minus, of_real, only, over,
    parts_of, places, product, put_slice, real_part, shaped, slice_at, squares, times,
};
use crate::node::Value;

/// A column that reflections make a multiple of the first unit vector.
struct Reflected {
    /// The vector, with a 1 in its place.
    vector: Value,
    tau: Value,
    /// The column: what is above the place, what is left in it, the vector below.
    column: Value,
}

/// Of matrices the factor R on and above the diagonal and the vectors below it, and the taus.
pub(crate) fn reflected(graph: &mut Graph, value: &Value) -> Accepted<(Value, Value)> {
    let shape = value.shape().to_vec();
    let a = value.each(|part| matrices(graph, part))?;
    let (batch, rows, columns) = known_extents(&a)?;
    let count = rows.min(columns);
    let taus = graph.full(&[batch, Expr::from(count)], Scalar::zero(dtype_of(&a)?))?;
    let taus = of_real(graph, &a, taus)?;
    let (mut a, mut taus) = (a, taus);
    if count > 0 {
        let state = [parts_of(&a), parts_of(&taus)].concat();
        let trip_count = (&Expr::from(count), false);
        let found = graph.scan(trip_count, &state, &[], &[], |graph, place, carried, _| {
            let mut carried = carried.iter().cloned();
            let whole = a.with_parts(&mut carried)?;
            let kept = taus.with_parts(&mut carried)?;
            let Reflected { vector, tau, column } = reflect(graph, &whole, place)?;
            let factor = conjugate(graph, &tau)?;
            let changed = changed(graph, &whole, &vector, &factor)?;
            let own = places(graph, &Expr::from(columns))?;
            let is_behind = graph.greater(&own, place)?;
            let whole = chosen(graph, &is_behind, &changed, &whole)?;
            let whole = put_slice(graph, &whole, &column, 2, place)?;
            let kept = put_slice(graph, &kept, &tau, 1, place)?;
            Ok(Turn { carried: [parts_of(&whole), parts_of(&kept)].concat(), stacked: Vec::new() })
        })?;
        let mut found = found.into_iter();
        a = a.with_parts(&mut found)?;
        taus = taus.with_parts(&mut found)?;
    }
    let lead = &shape[..shape.len() - 2];
    let taus = shaped(graph, &taus, &[lead, &[Expr::from(count)]].concat())?;
    Ok((shaped(graph, &a, &shape)?, taus))
}

/// The reflection that leaves nothing below the diagonal of a column.
fn reflect(graph: &mut Graph, whole: &Value, place: &Operand) -> Accepted<Reflected> {
    let dtype = dtype_of(whole)?;
    let (batch, rows, _) = known_extents(whole)?;
    let (zero, one) = (graph.number(dtype, 0.0), graph.number(dtype, 1.0));
    let across = [batch, Expr::ONE];
    let column = slice_at(graph, whole, 2, place)?;
    let row = places(graph, &Expr::from(rows))?;
    let (is_above, is_here) = (graph.less(&row, place)?, graph.equal(&row, place)?);
    // Of which the greatest element is about 1: squares are in range.
    let sizes = column.parts().into_iter().map(|part| graph.abs(part));
    let sizes = sizes.collect::<Accepted<Vec<Operand>>>()?;
    let mut size = sizes[0].clone();
    for other in &sizes[1..] {
        size = graph.max(&size, other)?;
    }
    let size = graph.select(&is_above, &zero, &size)?;
    let scale = graph.reduce_axes(&size, &[1], Reduction::Max, true)?;
    let is_zero = graph.equal(&scale, &zero)?;
    let scale = graph.select(&is_zero, &one, &scale)?;
    let values = column.each(|part| graph.div(part, &scale))?;
    let head = slice_at(graph, &values, 1, place)?;
    let head = shaped(graph, &head, &across)?;
    let is_below = graph.greater(&row, place)?;
    let below = only(graph, &is_below, &values)?;
    let rest = squares(graph, &below)?;
    let rest = graph.reduce_axes(&rest, &[1], Reduction::Sum, true)?;
    let own = squares(graph, &head)?;
    let norm = graph.add(&own, &rest)?;
    let norm = graph.sqrt(&norm)?;
    // What is real and has nothing below it stays as it is.
    let mut is_done = graph.equal(&rest, &zero)?;
    if let Value::Complex(head) = &head {
        let is_real = graph.equal(&head.im, &zero)?;
        is_done = graph.and(&is_done, &is_real)?;
    }
    let re = real_part(&head)?.clone();
    let is_negative = graph.less(&re, &zero)?;
    let other = graph.neg(&norm)?;
    let beta = graph.select(&is_negative, &norm, &other)?;
    let left = graph.select(&is_done, &re, &beta)?;
    let divisor = graph.select(&is_done, &one, &beta)?;
    let divisor = of_real(graph, whole, divisor)?;
    // (beta - head) / beta
    let difference = minus(graph, &divisor, &head)?;
    let tau = difference.each(|part| graph.div(part, real_part(&divisor)?))?;
    let is_open = graph.map(tensor::ScalarFunction::Not, &[&is_done])?;
    let tau = only(graph, &is_open, &tau)?;
    let unit = of_real(graph, whole, one)?;
    let less = difference.each(|part| graph.neg(part))?;
    let less = chosen(graph, &is_done, &unit, &less)?;
    let below = over(graph, &below, &less)?;
    let vector = chosen(graph, &is_here, &unit, &below)?;
    let left = graph.mul(&left, &scale)?;
    let left = of_real(graph, whole, left)?;
    let own = chosen(graph, &is_here, &left, &below)?;
    let own = chosen(graph, &is_above, &column, &own)?;
    let tau = shaped(graph, &tau, &across[..1])?;
    Ok(Reflected { vector, tau, column: own })
}

/// `a - factor v v^H a` of matrices, a vector and a number for each.
fn changed(graph: &mut Graph, a: &Value, vector: &Value, factor: &Value) -> Accepted<Value> {
    let batch = vector.shape()[0].clone();
    let rows = vector.shape()[1].clone();
    let standing = shaped(graph, vector, &[batch.clone(), rows, Expr::ONE])?;
    let lying = adjoint(graph, &standing)?;
    let row = product(graph, &lying, a)?;
    let factor = shaped(graph, factor, &[batch, Expr::ONE, Expr::ONE])?;
    let standing = times(graph, &standing, &factor)?;
    let change = times(graph, &standing, &row)?;
    minus(graph, a, &change)
}

/// Stacks of matrices multiplied from the left with the product Q of reflections, whose vectors
/// are below the diagonals of matrices, or with Q^H.
pub(crate) fn applied(
    graph: &mut Graph,
    (vectors, taus): (&Value, &Value),
    a: &Value,
    is_adjoint: bool,
) -> Accepted<Value> {
    let (_, rows, _) = known_extents(vectors)?;
    let count = taus.shape()[1].clone();
    let outer = [vectors.parts(), taus.parts()].concat();
    let state = parts_of(a);
    let found = graph.scan((&count, false), &state, &[], &outer, |graph, turn, carried, _| {
        let a = a.with_parts(&mut carried.iter().cloned())?;
        let last = graph.dimension(&count - Expr::ONE);
        let place = if is_adjoint { turn.clone() } else { graph.sub(&last, turn)? };
        let column = slice_at(graph, vectors, 2, &place)?;
        let row = places(graph, &Expr::from(rows))?;
        let (is_below, is_here) = (graph.greater(&row, &place)?, graph.equal(&row, &place)?);
        let below = only(graph, &is_below, &column)?;
        let unit = graph.number(dtype_of(&below)?, 1.0);
        let unit = of_real(graph, &below, unit)?;
        let vector = chosen(graph, &is_here, &unit, &below)?;
        let mut tau = slice_at(graph, taus, 1, &place)?;
        if is_adjoint {
            tau = conjugate(graph, &tau)?;
        }
        let a = changed(graph, &a, &vector, &tau)?;
        Ok(Turn { carried: parts_of(&a), stacked: Vec::new() })
    })?;
    a.with_parts(&mut found.into_iter())
}
