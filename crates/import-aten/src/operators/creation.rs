//! Values that depend on nothing but their shape.

use front::{Graph, Operand};
use sym::Expr;
use tensor::{DType, Scalar};

use crate::node::{Lowered, Node};

/// One number throughout, the argument at a place.
pub(super) fn full(node: &Node<'_>, graph: &mut Graph, place: usize, name: &str) -> Lowered {
    let value = node.operand_as(graph, (place, name), node.dtype()?)?;
    Ok(vec![graph.broadcast_to(&value, node.shape()?)?])
}

/// Zeros or ones throughout.
pub(super) fn constant(node: &Node<'_>, graph: &mut Graph, is_one: bool) -> Lowered {
    let dtype = node.dtype()?;
    let scalar = if is_one { Scalar::one(dtype) } else { Scalar::zero(dtype) };
    Ok(vec![graph.full(node.shape()?, scalar)?])
}

/// A number without axes.
pub(super) fn scalar(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    Ok(vec![node.operand_as(graph, (0, "s"), node.dtype()?)?])
}

/// `0, 1, ..`
pub(super) fn count(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (dtype, shape) = (node.dtype()?, node.shape()?);
    let count = graph.iota(DType::I64, shape, 0)?;
    Ok(vec![graph.cast(&count, dtype)?])
}

/// `start, start + step, ..`; floats are computed in f64 and rounded once.
pub(super) fn range(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (dtype, shape) = (node.dtype()?, node.shape()?);
    let wide = if dtype.is_float() { DType::F64 } else { DType::I64 };
    let start = node.operand_as(graph, (0, "start"), wide)?;
    let step = match node.argument(2, "step") {
        Some(_) => node.operand_as(graph, (2, "step"), wide)?,
        None => Operand::of_scalar(Scalar::one(wide)),
    };
    let index = graph.iota(DType::I64, shape, 0)?;
    let index = graph.cast(&index, wide)?;
    let index = graph.mul(&index, &step)?;
    let value = graph.add(&index, &start)?;
    Ok(vec![graph.cast(&value, dtype)?])
}

/// Ones on the diagonal.
pub(super) fn identity(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (dtype, shape): (DType, Vec<Expr>) = (node.dtype()?, node.shape()?.to_vec());
    let row = graph.iota(DType::I64, &shape, 0)?;
    let column = graph.iota(DType::I64, &shape, 1)?;
    let is_diagonal = graph.equal(&row, &column)?;
    Ok(vec![graph.cast(&is_diagonal, dtype)?])
}
