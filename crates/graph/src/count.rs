//! How much a node computes and touches, for explanations and rooflines.

use sym::Expr;

use crate::function::{Function, NodeId, ValueId};
use crate::infer::element_count;
use crate::op::Op;

/// The arithmetic operations of a node: two for each product of a contraction, one for each element
/// that a scalar function or a reduction produces or consumes, none for movements. Control flow
/// counts its regions once, times the trip count where there is one.
pub fn operations(function: &Function, node: NodeId) -> Expr {
    let data = &function.nodes[node];
    let elements = |values: &[ValueId]| -> Expr {
        values
            .first()
            .and_then(|&value| function.ty(value).as_tensor())
            .map_or(Expr::ZERO, |ty| element_count(&ty.shape))
    };
    let regions = || -> Expr {
        let nodes = data.regions.iter().flat_map(|&region| &function.regions[region].nodes);
        nodes.map(|&node| operations(function, node)).sum()
    };
    match &data.op {
        Op::Map { .. } | Op::RandomBits { .. } => elements(&data.results),
        Op::Contract { space, .. } => element_count(&space.extents) * 2,
        Op::Reduce { space, .. } => element_count(&space.extents),
        Op::ArgReduce { .. } | Op::Cumulate { .. } | Op::Sort { .. } => elements(&data.operands),
        Op::Scatter { reduction: Some(_), .. } => elements(&data.operands[1..]),
        Op::If | Op::While => regions(),
        Op::Scan { trip_count, .. } => regions() * trip_count,
        Op::Literal(_)
        | Op::Weight { .. }
        | Op::Iota { .. }
        | Op::Dimension(_)
        | Op::Bind { .. }
        | Op::Broadcast { .. }
        | Op::Reshape { .. }
        | Op::Transpose { .. }
        | Op::Slice { .. }
        | Op::Pad { .. }
        | Op::Concat { .. }
        | Op::Gather { .. }
        | Op::Scatter { reduction: None, .. }
        | Op::Bitcast { .. }
        | Op::NonZero
        | Op::Call { .. }
        | Op::Host { .. } => Expr::ZERO,
    }
}

/// The bytes of a value; none for what is not a tensor.
pub fn value_bytes(function: &Function, value: ValueId) -> Expr {
    let Some(ty) = function.ty(value).as_tensor() else { return Expr::ZERO };
    let bits = element_count(&ty.shape) * i64::from(ty.dtype.bits());
    bits.ceil_div(&Expr::constant(8))
}

/// The bytes of all operands and results of a node, each counted once however often it is read.
pub fn node_bytes(function: &Function, node: NodeId) -> Expr {
    let data = &function.nodes[node];
    let mut values: Vec<ValueId> = data.operands.iter().chain(&data.results).copied().collect();
    values.sort();
    values.dedup();
    values.into_iter().map(|value| value_bytes(function, value)).sum()
}
