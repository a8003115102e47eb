//! Data of f16 that many results share become f32 before the sum.
//!
//! before: `contract lhs: f16[m, k], rhs: f16[k, n] accumulate f32`
//! after:  `contract cast<f32>(lhs), rhs: f16[k, n] accumulate f32`
//!
//! Products are of f32 in either case. An element of the first operand, the rows, is met once for
//! each of the columns' vectors, and to bring one from memory into all lanes takes several
//! instructions where it is short. The second operand is met in vectors, which one instruction
//! widens as it loads them, and constants stay as short as the file has them.

use backend::Target;
use graph::{Built, FunctionBuilder};
use tensor::DType;

use crate::contraction::Contraction;
use crate::precision::is_shared;

/// Widens the rows' operand of a contraction where that pays, and memory is not short.
pub(super) fn apply(
    contraction: &mut Contraction,
    builder: &mut FunctionBuilder,
    target: &Target,
    messages: &mut Vec<String>,
) -> Built<()> {
    let rows = &contraction.operands[0];
    let is_half = builder.dtype(rows.value)? == DType::F16 && contraction.accumulator == DType::F32;
    let may_grow = !rows.constant && !target.is_microcontroller();
    if is_half && may_grow && is_shared(&contraction.space, 0) {
        contraction.operands[0].value = builder.cast(rows.value, DType::F32)?;
        messages.push("operand 0 is widened before the sum".to_owned());
    }
    Ok(())
}
