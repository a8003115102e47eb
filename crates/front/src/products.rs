//! Matrix products of stacks of matrices.

use tensor::DType;

use crate::value::Operand;
use crate::writer::{Accepted, Graph, shape_error, type_error};

/// The matrix product as NumPy's `matmul`, of one element type.
pub fn product(graph: &mut Graph, a: &Operand, b: &Operand) -> Accepted<Operand> {
    product_as(graph, a, b, a.dtype())
}

/// As [`product`], with a result of this element type.
pub fn product_as(graph: &mut Graph, a: &Operand, b: &Operand, dtype: DType) -> Accepted<Operand> {
    if a.dtype() != b.dtype() {
        let (a, b) = (a.dtype(), b.dtype());
        return Err(type_error(format!("a product of {a} and {b}")));
    }
    if a.rank() == 0 || b.rank() == 0 {
        return Err(shape_error("a matrix product of a tensor without axes"));
    }
    // Extents that must agree are made equal as expressions.
    let (mut left, mut right) = (a.shape().to_vec(), b.shape().to_vec());
    let (depth, other) = (left.len() - 1, right.len().saturating_sub(2));
    let which = format!("axis {depth} of the first operand, axis {other} of the second");
    graph.assume_equal_axes(&left[depth], &right[other], &which)?;
    if left[depth].as_constant().is_some() {
        right[other] = left[depth].clone();
    } else {
        left[depth] = right[other].clone();
    }
    let (left_batch, right_batch) = (left.len().saturating_sub(2), right.len().saturating_sub(2));
    let batch = graph.common_shape(&[&left[..left_batch], &right[..right_batch]])?;
    for (shape, count) in [(&mut left, left_batch), (&mut right, right_batch)] {
        for axis in 0..count {
            if !shape[axis].is_one() {
                shape[axis] = batch[batch.len() - count + axis].clone();
            }
        }
    }
    let (a, b) = (graph.refine(a, &left)?, graph.refine(b, &right)?);
    graph.matmul_as(&a, &b, dtype)
}
