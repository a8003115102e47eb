//! Triangular factors of any matrices, with rows exchanged.

use front::{Accepted, Graph, Operand, Turn};
use graph::Op;
use sym::Expr;
use tensor::{DType, Scalar};

use super::algebra::{
    chosen, dtype_of, known_extents, matrices, minus, only, over, parts_of, places, put, put_slice,
    shaped, slice_at, times,
};
use crate::node::Value;

/// The factors of matrices by elimination, L below the diagonal and U on and above it; of each
/// column the row that was exchanged with its own, from 1 on; and the first column whose diagonal
/// element is zero, from 1 on, or 0 (Golub and Van Loan, "Matrix Computations", section 3.4; what
/// LAPACK's `getrf` gives).
pub(crate) fn eliminated(graph: &mut Graph, value: &Value) -> Accepted<(Value, Operand, Operand)> {
    let shape = value.shape().to_vec();
    let a = value.each(|part| matrices(graph, part))?;
    let (batch, rows, columns) = known_extents(&a)?;
    let count = rows.min(columns);
    let zero = Scalar::zero(DType::I32);
    let pivots = graph.full(&[batch.clone(), Expr::from(count)], zero)?;
    let failed = graph.full(&[batch], zero)?;
    let mut state = parts_of(&a);
    state.extend([pivots, failed]);
    if count > 0 {
        let trip_count = (&Expr::from(count), false);
        state = graph.scan(trip_count, &state, &[], &[], |graph, place, carried, _| {
            let mut carried = carried.iter().cloned();
            let whole = a.with_parts(&mut carried)?;
            let (Some(pivots), Some(failed)) = (carried.next(), carried.next()) else {
                return Err(front::shape_error("a loop carries too little"));
            };
            let (whole, pivot, is_zero) = column_eliminated(graph, &whole, place)?;
            let batch = pivot.shape()[0].clone();
            let number = graph.add_number(&pivot, 1.0)?;
            let number = graph.cast(&number, DType::I32)?;
            let number = graph.reshape(&number, &[batch, Expr::ONE])?;
            let pivots = put(graph, &pivots, &number, 1, place)?;
            let none = graph.number(DType::I32, 0.0);
            let is_first = graph.equal(&failed, &none)?;
            let is_first = graph.and(&is_first, &is_zero)?;
            let number = graph.add_number(place, 1.0)?;
            let number = graph.cast(&number, DType::I32)?;
            let failed = graph.select(&is_first, &number, &failed)?;
            let mut carried = parts_of(&whole);
            carried.extend([pivots, failed]);
            Ok(Turn { carried, stacked: Vec::new() })
        })?;
    }
    let mut state = state.into_iter();
    let a = a.with_parts(&mut state)?;
    let (Some(pivots), Some(failed)) = (state.next(), state.next()) else {
        return Err(front::shape_error("a loop carries too little"));
    };
    let lead = &shape[..shape.len() - 2];
    let pivots = graph.reshape(&pivots, &[lead, &[Expr::from(count)]].concat())?;
    Ok((shaped(graph, &a, &shape)?, pivots, graph.reshape(&failed, lead)?))
}

/// Matrices of which one more column is eliminated, the row that comes into its place, and whether
/// nothing in the column is other than zero.
fn column_eliminated(
    graph: &mut Graph,
    whole: &Value,
    place: &Operand,
) -> Accepted<(Value, Operand, Operand)> {
    let (batch, rows, columns) = known_extents(whole)?;
    let dtype = dtype_of(whole)?;
    let row = places(graph, &Expr::from(rows))?;
    // The greatest by the sum of both parts' sizes, as BLAS has it.
    let column = slice_at(graph, whole, 2, place)?;
    let mut size = graph.number(dtype, 0.0);
    for part in column.parts() {
        let part = graph.abs(part)?;
        size = graph.add(&size, &part)?;
    }
    let is_above = graph.less(&row, place)?;
    let least = graph.number(dtype, -1.0);
    let size = graph.select(&is_above, &least, &size)?;
    let pivot =
        graph.primitive(Op::ArgReduce { axis: 1, greatest: true, last: false }, &[&size])?;
    let other = graph.reshape(&pivot, &[batch.clone(), Expr::ONE])?;
    let upper = whole.each(|part| graph.gather(part, &[1], std::slice::from_ref(&other), 1, 0))?;
    let own = slice_at(graph, whole, 1, place)?;
    let own = shaped(graph, &own, &[batch.clone(), Expr::ONE, Expr::from(columns)])?;
    // Rows stand along axis 1.
    let standing = graph.reshape(&row, &[Expr::from(rows), Expr::ONE])?;
    let other = graph.reshape(&pivot, &[batch.clone(), Expr::ONE, Expr::ONE])?;
    let (is_here, is_there) = (graph.equal(&standing, place)?, graph.equal(&standing, &other)?);
    let whole = chosen(graph, &is_there, &own, whole)?;
    let whole = chosen(graph, &is_here, &upper, &whole)?;
    // What is below, over the pivot.
    let column = slice_at(graph, &whole, 2, place)?;
    let across = [batch.clone(), Expr::ONE];
    let head = slice_at(graph, &column, 1, place)?;
    let head = shaped(graph, &head, &across)?;
    let zero = graph.number(dtype, 0.0);
    let mut is_zero: Option<Operand> = None;
    for part in head.parts() {
        let is_it = graph.equal(part, &zero)?;
        is_zero = Some(match is_zero {
            Some(before) => graph.and(&before, &is_it)?,
            None => is_it,
        });
    }
    let is_zero = is_zero.ok_or_else(|| front::shape_error("a value has no parts"))?;
    let is_below = graph.greater(&row, place)?;
    let is_other = graph.map(tensor::ScalarFunction::Not, &[&is_zero])?;
    let is_divided = graph.and(&is_below, &is_other)?;
    let quotient = over(graph, &column, &head)?;
    let column = chosen(graph, &is_divided, &quotient, &column)?;
    let whole = put_slice(graph, &whole, &column, 2, place)?;
    // What is behind, less the product.
    let behind = places(graph, &Expr::from(columns))?;
    let is_behind = graph.greater(&behind, place)?;
    let below = only(graph, &is_below, &column)?;
    let below = shaped(graph, &below, &[batch.clone(), Expr::from(rows), Expr::ONE])?;
    let upper = only(graph, &is_behind, &upper)?;
    let change = times(graph, &below, &upper)?;
    let whole = minus(graph, &whole, &change)?;
    let is_zero = graph.reshape(&is_zero, &across[..1])?;
    Ok((whole, pivot, is_zero))
}
