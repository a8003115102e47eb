//! Matrix products and sums of products in index notation.

use front::{Graph, product, shape_error};
use graph::IterationSpace;
use sym::Expr;

use super::Lowered;
use crate::node::{Node, attribute_error};

/// The matrix product as NumPy's `matmul`.
pub(super) fn matmul(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (a, b) = (node.input(0)?, node.input(1)?);
    Ok(vec![product(graph, a, b)?])
}

/// `alpha * A * B + beta * C`, with A and B read transposed where attributes say so.
pub(super) fn gemm(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (a, b) = (node.input(0)?, node.input(1)?);
    if a.rank() != 2 || b.rank() != 2 {
        let (a, b) = (a.rank(), b.rank());
        return Err(shape_error(format!("inputs of rank {a} and {b}; matrices are needed")));
    }
    let (a_turned, b_turned) = (node.flag("transA", false)?, node.flag("transB", false)?);
    let b_turned = b_turned != base::fault::is_seeded("import.gemm");
    let (row, a_depth) = if a_turned { (1, 0) } else { (0, 1) };
    let (b_depth, column) = if b_turned { (1, 0) } else { (0, 1) };
    let (m, n) = (a.shape()[row].clone(), b.shape()[column].clone());
    let mut shape = b.shape().to_vec();
    shape[b_depth] = a.shape()[a_depth].clone();
    let b = graph.refine(b, &shape)?;
    let [i, j, k] = [0, 1, 2].map(IterationSpace::axis);
    let pair = |first: &Expr, second: &Expr, turned: bool| match turned {
        true => vec![second.clone(), first.clone()],
        false => vec![first.clone(), second.clone()],
    };
    let space = IterationSpace {
        extents: vec![m, n, a.shape()[a_depth].clone()],
        parallel: 2,
        operands: vec![pair(&i, &k, a_turned), pair(&k, &j, b_turned)],
    };
    let accumulator = graph::accumulator_of(a.dtype());
    let mut result = graph.contract(space, a, &b, accumulator, a.dtype())?;
    let (alpha, beta) = (node.float("alpha", 1.0)?, node.float("beta", 1.0)?);
    if alpha != 1.0 {
        result = graph.mul_number(&result, alpha)?;
    }
    if let Some(c) = node.optional(2)
        && beta != 0.0
    {
        let c = if beta == 1.0 { c.clone() } else { graph.mul_number(c, beta)? };
        let c = graph.broadcast_to(&c, result.shape())?;
        result = graph.add(&result, &c)?;
    }
    Ok(vec![result])
}

/// A sum of products in index notation, of any number of operands.
pub(super) fn einsum(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let equation = node.string("equation", "")?;
    let inputs = node.all_inputs()?;
    let refused = |reason| attribute_error("equation", reason);
    Ok(vec![front::einsum(graph, equation, &inputs, refused)?])
}
