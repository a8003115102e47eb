//! Attention: products of groups of heads, and softmax of rows that may be masked throughout.
//!
//! Shapes are written with `b` for the batch, `h` for heads, `q` and `k` for places in the queries
//! and keys, `d` for the size of a head.

use graph::IterationSpace;
use sym::Expr;
use tensor::{Reduction, ScalarFunction as F};

use crate::standard::over_sum;
use crate::value::Operand;
use crate::writer::{Accepted, Graph, shape_error, unsupported};

/// `[b, h, q, d] . [b, g, s, e]` summed over an axis of each, where each of the `g` heads on the
/// right serves as many on the left. `by_rows` sums over `e`, else over `s`.
pub fn product_of_heads(
    graph: &mut Graph,
    left: &Operand,
    right: &Operand,
    by_rows: bool,
) -> Accepted<Operand> {
    let (l, r) = (left.shape().to_vec(), right.shape().to_vec());
    let summed = if by_rows { 3 } else { 2 };
    graph.assume_equal(&l[0], &r[0])?;
    graph.assume_equal(&l[3], &r[summed])?;
    let (Some(heads), Some(groups)) = (l[1].as_constant(), r[1].as_constant()) else {
        return Err(unsupported("the number of heads is not fixed"));
    };
    if groups < 1 || heads % groups != 0 {
        return Err(shape_error(format!("{heads} heads of queries for {groups} of keys")));
    }
    let share = Expr::from(heads / groups);
    let grouped = [l[0].clone(), r[1].clone(), share.clone(), l[2].clone(), l[3].clone()];
    let left = graph.reshape(left, &grouped)?;
    let mut right_shape = r.clone();
    (right_shape[0], right_shape[summed]) = (l[0].clone(), l[3].clone());
    let right = graph.refine(right, &right_shape)?;
    // The axes: b, g, heads of a group, q, the free axis of the right operand; then the sum's.
    let free = r[if by_rows { 2 } else { 3 }].clone();
    let [b, g, own, q, other, sum] = [0, 1, 2, 3, 4, 5].map(IterationSpace::axis);
    let extents = [&grouped[..4], &[free.clone(), l[3].clone()]].concat();
    let read_left = vec![b.clone(), g.clone(), own, q, sum.clone()];
    let read_right = if by_rows { vec![b, g, other, sum] } else { vec![b, g, sum, other] };
    let space = IterationSpace { extents, parallel: 5, operands: vec![read_left, read_right] };
    let dtype = left.dtype();
    let result = graph.contract(space, &left, &right, graph::accumulator_of(dtype), dtype)?;
    graph.reshape(&result, &[l[0].clone(), l[1].clone(), l[2].clone(), free])
}

/// Softmax of rows, of which masked ones may have nothing that counts: those become zeros.
pub fn attention_weights(
    graph: &mut Graph,
    scores: &Operand,
    is_masked: bool,
) -> Accepted<Operand> {
    let mut greatest = graph.reduce_axes(scores, &[3], Reduction::Max, true)?;
    let zero = graph.number(scores.dtype(), 0.0);
    if is_masked {
        let infinite = graph.map(F::IsInf, &[&greatest])?;
        greatest = graph.select(&infinite, &zero, &greatest)?;
    }
    let shifted = graph.sub(scores, &greatest)?;
    let exp = graph.exp(&shifted)?;
    let sum = graph.reduce_axes(&exp, &[3], Reduction::Sum, true)?;
    let quotient = over_sum(graph, &exp, &sum)?;
    if !is_masked {
        return Ok(quotient);
    }
    let empty = graph.equal(&sum, &zero)?;
    graph.select(&empty, &zero, &quotient)
}
