//! Groups of few channels: vectors run over several groups at once.
//!
//! ```text
//! before: data[y + ky, x + kx, g, c] * filter[g, o, c, ky, kx] -> [y, x, g, o], four of o
//! after:  data[y + ky, x + kx, v div 4, c] * filter[c, ky, kx, v] -> [y, x, v]
//! ```
//!
//! A vector of the result has all channels of some groups, so it fills the machine's; an element of
//! the data serves those of its group. The order of each sum stays.

use backend::Target;
use base::{Id, InOrder};
use graph::{Built, FunctionBuilder, IterationSpace};
use sym::{Expr, SymbolId};
use tensor::DType;

use crate::contraction::Contraction;

/// Vectors of channels that fill a quarter of the machine's, or less, are joined: of those half as
/// long a machine may start twice as many, and they need no permutation.
pub(super) const QUARTER: i64 = 4;

/// Joins groups and their channels, if there are so few channels that vectors would not be full.
pub(super) fn apply(
    contraction: &mut Contraction,
    builder: &mut FunctionBuilder,
    target: &Target,
    messages: &mut Vec<String>,
) -> Built<()> {
    let longer = |axis: &usize| !contraction.space.extents[*axis].is_one();
    let Some(channel) = contraction.parallel().rev().find(longer) else { return Ok(()) };
    let Some(group) = channel.checked_sub(1) else { return Ok(()) };
    let filter = match [0, 1].map(|operand| contraction.reads(operand, channel)) {
        [true, false] => 0,
        [false, true] => 1,
        _ => return Ok(()),
    };
    let own = &contraction.operands[filter];
    let types = contraction.operands.map(|operand| builder.dtype(operand.value));
    let f32s = types.into_iter().all(|dtype| dtype == Ok(DType::F32));
    if !own.constant || !f32s || contraction.accumulator != DType::F32 {
        return Ok(());
    }
    // All targets of an architecture join the same ones; a shorter vector has fewer groups.
    let lanes = i64::from(target.deciding().vector_bytes / contraction.accumulator_bytes());
    let extent = |axis: usize| contraction.space.extents[axis].as_constant();
    let (Some(groups), Some(channels)) = (extent(group), extent(channel)) else { return Ok(()) };
    let Some(apart) = apart(contraction, builder, 1 - filter, group)? else { return Ok(()) };
    let fills =
        channels * QUARTER <= lanes && lanes % channels == 0 && groups * channels % lanes == 0;
    let index = &contraction.space.operands[filter];
    let plain = [group, channel].into_iter().all(|axis| {
        let mut reads = index.iter().filter(|own| own.contains(SymbolId::new(axis)));
        reads.next() == Some(&IterationSpace::axis(axis)) && reads.next().is_none()
    });
    if !fills || !plain || apart * (lanes / channels - 1) >= lanes {
        return Ok(());
    }
    let class = |at: &usize| match index[*at].as_symbol().map(SymbolId::index) {
        Some(axis) if axis == group => 1,
        Some(axis) if axis == channel => 2,
        _ => 0,
    };
    let mut order: Vec<usize> = (0..index.len()).collect();
    order.put_in_order_by_key(class);
    contraction.permute_operand(builder, filter, &order)?;
    contraction.join_axes(builder, group, filter)?;
    messages.push(format!("vectors run over groups of {channels} channels"));
    Ok(())
}

/// Elements of an operand from one group to the next, if it has them as an axis.
fn apart(
    contraction: &Contraction,
    builder: &FunctionBuilder,
    operand: usize,
    group: usize,
) -> Built<Option<i64>> {
    let index = &contraction.space.operands[operand];
    let is_group = |own: &&Expr| own.contains(SymbolId::new(group));
    let at = index.iter().position(|own| *own == IterationSpace::axis(group));
    let Some(at) = at.filter(|_| index.iter().filter(is_group).count() == 1) else {
        return Ok(None);
    };
    let shape = builder.shape(contraction.operands[operand].value)?;
    Ok(shape[at + 1..].iter().product::<Expr>().as_constant())
}
