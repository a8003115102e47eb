//! Constant indices are kept as integers of 32 bits where their axis is no longer than these count.
//!
//! before: `gather(x, i)`, `i` a constant of i64, the axis 100 long
//! after:  `gather(x, cast<i64>(cast<i32>(clamp(i, -1, 100))))`
//!
//! What stands within the outer cast depends on constants alone, so `setup` computes it and `main`
//! reads half the bytes, and twice the indices at once. An index outside of its axis stays outside
//! of it, and faults as before.

use std::sync::Arc;

use base::{IdSet, PassContext, Result};
use graph::{Built, Function, FunctionBuilder, NodeId, Op, ValueId, rebuild};
use tensor::{DType, Scalar, ScalarFunction};

use crate::{fold, ill_typed};

/// Shortens constant indices.
pub(crate) fn run(function: &mut Arc<Function>, _: &mut PassContext) -> Result<()> {
    let constants = function.constant_values();
    if !function.nodes.ids().any(|id| !indices(function, &constants, id).is_empty()) {
        return Ok(());
    }
    let shortened = rebuild(function, |rewriter, id| {
        let found = indices(rewriter.source, &constants, id);
        if found.is_empty() {
            return Ok(None);
        }
        let mut operands = rewriter.operands(id);
        for (number, extent) in found {
            operands[number] = short(&mut rewriter.builder, operands[number], extent)?;
        }
        let op = rewriter.source.nodes[id].op.clone();
        rewriter.builder.add(op, &operands).map(Some)
    });
    *function = Arc::new(shortened.map_err(|reason| ill_typed("short_indices", reason))?);
    Ok(())
}

/// The operands of a node that are constant indices of 64 bits, each with the extent of its axis.
fn indices(function: &Function, constants: &IdSet<ValueId>, id: NodeId) -> Vec<(usize, i64)> {
    let node = &function.nodes[id];
    let Some((axes, first)) = node.op.indexed_axes() else { return Vec::new() };
    let Some(data) = function.ty(node.operands[0]).as_tensor() else { return Vec::new() };
    let place = |(at, &axis): (usize, &usize)| {
        let index = node.operands[first + at];
        let extent = data.shape[axis].as_constant()?;
        let fits = extent < i64::from(i32::MAX) && constants.contains(index);
        (fits && is_long(function, index)).then_some((first + at, extent))
    };
    axes.iter().enumerate().filter_map(place).collect()
}

/// Whether a tensor of indices is neither so short that it is folded, nor short integers already.
fn is_long(function: &Function, index: ValueId) -> bool {
    let count = function.ty(index).as_tensor().map(|ty| graph::element_count(&ty.shape));
    let few = count.and_then(|count| count.as_constant()).is_some_and(|it| it <= fold::FEW as i64);
    let made = function.producer(index).map(|(id, _)| &function.nodes[id]);
    let is_cast = made.is_some_and(|node| {
        let from = node.operands.first().and_then(|&value| function.ty(value).as_tensor());
        matches!(node.op, Op::Map { function: ScalarFunction::Cast, .. })
            && from.is_some_and(|ty| ty.dtype.is_integer() && ty.dtype.bits() <= 32)
    });
    !few && !is_cast
}

/// Indices as integers of 32 bits, those outside of an axis just outside of it.
fn short(builder: &mut FunctionBuilder, index: ValueId, extent: i64) -> Built {
    let limit = |builder: &mut FunctionBuilder, number: i64| {
        let shape = builder.shape(index)?;
        builder.full(&shape, Scalar::i64(number))
    };
    let (least, most) = (limit(builder, -1)?, limit(builder, extent)?);
    let above = builder.map(ScalarFunction::Max, &[index, least])?;
    let within = builder.map(ScalarFunction::Min, &[above, most])?;
    let short = builder.cast(within, DType::I32)?;
    builder.cast(short, DType::I64)
}
