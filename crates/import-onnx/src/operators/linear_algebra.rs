//! Matrices as such.

use front::{Graph, Operand, Turn, shape_error};
use graph::Op;
use sym::Expr;
use tensor::{DType, Scalar, ScalarFunction as F};

use super::Lowered;
use crate::node::Node;

/// `Det`: elimination, a column at a time, with the greatest pivot of each.
pub(super) fn determinant(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let [lead @ .., rows, columns] = x.shape() else {
        return Err(shape_error(format!("a matrix of rank {}", x.rank())));
    };
    graph.assume_equal(rows, columns)?;
    let (lead, size) = (lead.to_vec(), rows.clone());
    let batch: Expr = lead.iter().product();
    let wide = graph.widen(x)?;
    let matrix = graph.reshape(&wide, &[batch.clone(), size.clone(), size.clone()])?;
    let dtype = wide.dtype();
    let start = graph.full(std::slice::from_ref(&batch), Scalar::one(dtype))?;
    let line = [batch.clone(), size.clone()];
    let results =
        graph.scan((&size, false), &[matrix, start], &[], &[], |graph, step, state, _| {
            let (matrix, product) = (&state[0], &state[1]);
            let row_number = graph.iota(DType::I64, &line, 1)?;
            // The column of this step, below the rows that are done.
            let index = graph.broadcast(step, std::slice::from_ref(&batch), &[])?;
            let column = graph.gather(matrix, &[2], std::slice::from_ref(&index), 1, 0)?;
            let is_open = graph.greater_equal(&row_number, step)?;
            let size_of = graph.abs(&column)?;
            let none = graph.number(dtype, -1.0);
            let candidates = graph.select(&is_open, &size_of, &none)?;
            let op = Op::ArgReduce { axis: 1, greatest: true, last: false };
            let pivot_row = graph.primitive(op, &[&candidates])?;
            let pivot = graph.gather(&column, &[1], std::slice::from_ref(&pivot_row), 1, 0)?;
            // Rows are exchanged by reading them in another order.
            let tall = graph.reshape(&pivot_row, &[batch.clone(), Expr::ONE])?;
            let is_step = graph.equal(&row_number, step)?;
            let is_pivot = graph.equal(&row_number, &tall)?;
            let order = graph.select(&is_pivot, step, &row_number)?;
            let order = graph.select(&is_step, &tall, &order)?;
            let matrix = graph.gather(matrix, &[1], std::slice::from_ref(&order), 1, 0)?;
            let top = graph.gather(&matrix, &[1], std::slice::from_ref(&index), 1, 0)?;
            let column = graph.gather(&matrix, &[2], std::slice::from_ref(&index), 1, 0)?;
            let zero = graph.number(dtype, 0.0);
            let divisor = graph.reshape(&pivot, &[batch.clone(), Expr::ONE])?;
            let factor = graph.div(&column, &divisor)?;
            let is_below = graph.greater(&row_number, step)?;
            let is_singular = graph.equal(&divisor, &zero)?;
            let is_regular = graph.map(F::Not, &[&is_singular])?;
            let applies = graph.and(&is_below, &is_regular)?;
            let factor = graph.select(&applies, &factor, &zero)?;
            let factor = graph.reshape(&factor, &[batch.clone(), size.clone(), Expr::ONE])?;
            let top = graph.reshape(&top, &[batch.clone(), Expr::ONE, size.clone()])?;
            let change = graph.mul(&factor, &top)?;
            let matrix = graph.sub(&matrix, &change)?;
            let is_exchanged = graph.map(F::Ne, &[&pivot_row, step])?;
            let negated = graph.neg(&pivot)?;
            let signed = graph.select(&is_exchanged, &negated, &pivot)?;
            let product = graph.mul(product, &signed)?;
            Ok(Turn { carried: vec![matrix, product], stacked: Vec::new() })
        })?;
    let product: Operand =
        results.into_iter().nth(1).ok_or_else(|| shape_error("a loop without results"))?;
    let shaped = graph.reshape(&product, &lead)?;
    Ok(vec![graph.cast(&shaped, x.dtype())?])
}
