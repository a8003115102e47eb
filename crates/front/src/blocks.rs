//! Numbers of few bits in blocks, each with a scale and perhaps a zero point: what all formats of
//! such weights share.

use graph::IterationSpace;
use sym::Expr;

use crate::value::Operand;
use crate::writer::{Accepted, Graph, shape_error};

/// Each element of a value serves a block along an axis; the last block may be cut short.
pub fn repeat_blocks(
    graph: &mut Graph,
    value: &Operand,
    axis: usize,
    block: i64,
    target: &[Expr],
) -> Accepted<Operand> {
    let mut shape = value.shape().to_vec();
    shape.insert(axis + 1, Expr::ONE);
    let blocks = graph.reshape(value, &shape)?;
    shape[axis + 1] = Expr::from(block);
    let blocks = graph.broadcast_to(&blocks, &shape)?;
    shape.remove(axis + 1);
    shape[axis] = &shape[axis] * block;
    let whole = graph.reshape(&blocks, &shape)?;
    let cut = graph.slice_axis(&whole, axis, Expr::ZERO, 1, target[axis].clone())?;
    graph.refine(&cut, target)
}

/// Numbers `[.., k]` of blocks along the last axis as floats of a type: less their zero points,
/// times their scales, both `[.., blocks]`.
pub fn block_values(
    graph: &mut Graph,
    numbers: &Operand,
    scales: &Operand,
    points: &Operand,
    block: i64,
) -> Accepted<Operand> {
    let axis = numbers.rank() - 1;
    let wide = graph.widen(scales)?;
    let value = graph.cast(numbers, wide.dtype())?;
    let points = graph.cast(points, wide.dtype())?;
    let points = match points.rank() {
        0 => points,
        _ => repeat_blocks(graph, &points, axis, block, numbers.shape())?,
    };
    let centred = graph.sub(&value, &points)?;
    let scales = repeat_blocks(graph, &wide, axis, block, numbers.shape())?;
    graph.mul(&centred, &scales)
}

/// `[.., n] = sum(k) a[.., k] * w[n, k]`
pub fn rows_product(graph: &mut Graph, a: &Operand, w: &Operand) -> Accepted<Operand> {
    let Some(lead) = a.rank().checked_sub(1) else {
        return Err(shape_error("a matrix product of a tensor without axes"));
    };
    let mut shape = a.shape().to_vec();
    shape[lead].clone_from(&w.shape()[1]);
    let a = graph.refine(a, &shape)?;
    let mut extents = shape[..lead].to_vec();
    extents.extend([w.shape()[0].clone(), w.shape()[1].clone()]);
    let axes: Vec<Expr> = (0..lead + 2).map(IterationSpace::axis).collect();
    let read = [&axes[..lead], &axes[lead + 1..]].concat();
    let space =
        IterationSpace { extents, parallel: lead + 1, operands: vec![read, axes[lead..].to_vec()] };
    let dtype = a.dtype();
    graph.contract(space, &a, w, graph::accumulator_of(dtype), dtype)
}
