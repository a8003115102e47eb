//! Products in a shorter type, on request: the operands of large contractions are rounded to it,
//! their sums stay in f32, and so does everything else.
//!
//! before: `contract x[..], w[..] accumulate f32`
//! after:  `contract cast<bf16>(x)[..], cast<bf16>(w)[..] accumulate f32`
//!
//! The rounding is put in front of the movements (padding, transposes, reshapes) that lead to the
//! contraction, so that whoever makes the value stores it short. It changes results, within the
//! shorter type's precision; each change is a remark.

use base::{Diagnostic, Diagnostics, Id, codes};
use graph::{Built, Function, IterationSpace, NodeId, Op, Rewriter, ValueId, rebuild};
use sym::{Expr, SymbolId};
use tensor::DType;

use crate::remark::Remark;

/// Fewest terms of a sum for which rounding its operands pays.
const LEAST_TERMS: i64 = 16;

/// Rounds the operands of contractions of f32 to a shorter float type. What was done to each, and
/// why not, goes to the remarks.
///
/// # Errors
/// An internal error if a rewritten node is ill-typed.
pub fn shorten(
    function: &Function,
    dtype: DType,
    remarks: &mut Vec<Remark>,
) -> base::Result<Function> {
    let result = rebuild(function, |rewriter, id| {
        let node = &rewriter.source.nodes[id];
        let Op::Contract { space, accumulator: DType::F32, dtype: result } = &node.op else {
            return Ok(None);
        };
        let types = node.operands.iter().map(|&operand| dtype_of(rewriter.source, operand));
        if types.into_iter().any(|dtype| dtype != Some(DType::F32)) {
            return Ok(None);
        }
        let location = node.location;
        if let Some(reason) = unsuited(space) {
            remarks.push(Remark { location, message: format!("stays in f32: {reason}") });
            return Ok(None);
        }
        let [lhs, rhs] = node.operands[..] else { return Ok(None) };
        let (space, result) = (space.clone(), *result);
        let lhs = shortened(rewriter, lhs, dtype)?;
        let rhs = shortened(rewriter, rhs, dtype)?;
        rewriter.builder.set_location(location);
        let value = rewriter.builder.contract(space, lhs, rhs, DType::F32, result)?;
        let message = format!("operands rounded to {dtype}, sums in f32");
        remarks.push(Remark { location, message });
        Ok(Some(vec![value]))
    });
    result.map_err(|reason| {
        let message = format!("a shorter type made an ill-typed node: {reason}");
        Diagnostics::from(Diagnostic::error(codes::INTERNAL_ERROR, message))
    })
}

fn dtype_of(function: &Function, value: ValueId) -> Option<DType> {
    function.ty(value).as_tensor().map(|ty| ty.dtype)
}

/// Why a contraction gains nothing from shorter operands.
fn unsuited(space: &IterationSpace) -> Option<&'static str> {
    let reads = |operand: usize, axis: usize| {
        space.operands[operand].iter().any(|index| index.contains(SymbolId::new(axis)))
    };
    let alone = |operand: usize| {
        let mut axes = 0..space.parallel;
        axes.any(|axis| !space.extents[axis].is_one() && !reads(operand, axis))
    };
    let terms: Expr = space.extents[space.parallel..].iter().product();
    if terms.as_constant().is_some_and(|terms| terms < LEAST_TERMS) {
        return Some("its sums have few terms");
    }
    if !alone(0) && !alone(1) {
        return Some("each element of its operands meets few others");
    }
    let innermost = space.extents.last()?;
    match innermost.divisible_by(2) {
        true => None,
        false => Some("the innermost axis of its sums is odd"),
    }
}

/// An old value in the shorter type: rounded before the movements that it comes through.
fn shortened(rewriter: &mut Rewriter<'_>, value: ValueId, dtype: DType) -> Built {
    let source = rewriter.source;
    let moved: Option<(NodeId, ValueId)> = source.producer(value).and_then(|(node, _)| {
        let data = &source.nodes[node];
        let moves = matches!(
            data.op,
            Op::Pad { .. } | Op::Transpose { .. } | Op::Reshape { .. } | Op::Broadcast { .. }
        );
        moves.then(|| (node, data.operands[0]))
    });
    let Some((node, operand)) = moved else {
        let value = rewriter.get(value);
        return rewriter.builder.cast(value, dtype);
    };
    let mut operands = vec![shortened(rewriter, operand, dtype)?];
    let data = &source.nodes[node];
    for &other in &data.operands[1..] {
        let other = rewriter.get(other);
        operands.push(rewriter.builder.cast(other, dtype)?);
    }
    rewriter.builder.set_location(data.location);
    let results = rewriter.builder.add(data.op.clone(), &operands)?;
    Ok(results[0])
}
