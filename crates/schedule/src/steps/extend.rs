//! Extend: a loop runs further than it has to, to a multiple of some number.
//!
//! ```text
//! %t: scratch f32[20]
//! for i < 20 { %t[i] = %a[i] }
//! for j < 20 { %c[j] = %t[j] }
//! ```
//!
//! `extend i to whole 32`
//!
//! ```text
//! %t: scratch f32[32]
//! for i < 32 { %t[i] = %a[i] }
//! for j < 20 { %c[j] = %t[j] }
//! ```
//!
//! So whole vectors are computed where a part is needed, without a condition. What the new
//! iterations read is of no consequence, since nothing reads what they compute. The buffers that
//! they write grow where they must.
//!
//! Legal: the body holds stores and reductions alone, into local buffers, each at an index that
//! along one axis, which no fold reads as a whole, is the loop's variable plus a constant; no other
//! statement reads an element that only the new iterations write; and every access stays within its
//! buffer.

use loops::build::less;
use loops::visit::{Effect, references, walk};
use loops::{BufferId, LoopKind, Scope, Stmt};
use sym::{Expr, SymbolId};

use crate::error::{Outcome, Refusal};
use crate::nest::{SymbolRanges, check_serial, find_loop, loop_at, loop_at_mut};
use crate::state::State;

/// What the new iterations write: a buffer, an axis, and the first new index along it.
struct New {
    buffer: BufferId,
    axis: usize,
    first: Expr,
}

pub(crate) fn apply(state: &mut State, target: &str, whole: i64) -> Outcome {
    let kernel = &state.kernel;
    let site = find_loop(kernel, target)?;
    let found = loop_at(kernel, &site);
    check_serial(kernel, found)?;
    let refuse = |message: &str| Err(Refusal::at_loop(target, message));
    if whole < 1 {
        return refuse("a multiple of less than 1 is none");
    }
    let old = found.extent.clone();
    let ranges = SymbolRanges::of(kernel);
    let extent = ranges.simplify(&(old.ceil_div(&whole.into()) * whole));
    let mut plain = true;
    walk(&found.body, &mut |stmt| {
        plain &= !matches!(stmt, Stmt::Let { .. } | Stmt::While { .. });
        plain &= !matches!(stmt, Stmt::For(inner) if inner.kind != LoopKind::Serial);
    });
    if !plain {
        return refuse("its body holds more than serial loops, stores and reductions");
    }
    let mut written = Vec::new();
    for reference in references(&found.body).iter().filter(|r| r.effect.writes()) {
        let local = !matches!(kernel.buffers[reference.buffer].scope, Scope::Parameter(_));
        match place(reference.index, found.variable).filter(|_| local) {
            Some((axis, offset)) => {
                written.push(New { buffer: reference.buffer, axis, first: old.clone() + offset });
            }
            None => return refuse("it writes what may be read elsewhere"),
        }
    }
    check_readers(state, target, &written)?;
    let before = state.kernel.buffers.clone();
    for New { buffer, axis, first } in &written {
        grow(state, &ranges, *buffer, *axis, &(first - &old + &extent));
    }
    loop_at_mut(&mut state.kernel, &site).extent = extent;
    if loops::verify_bounds(&state.kernel).is_err() {
        loop_at_mut(&mut state.kernel, &site).extent = old;
        state.kernel.buffers = before;
        return Err(Refusal::at_loop(target, "its new iterations would leave a buffer"));
    }
    Ok(())
}

/// Lets an axis of a buffer have so many elements, if it has fewer.
fn grow(state: &mut State, ranges: &SymbolRanges, buffer: BufferId, axis: usize, extent: &Expr) {
    let own = &mut state.kernel.buffers[buffer].shape[axis];
    if !ranges.less_equal(extent, own) {
        *own = extent.clone();
    }
}

/// The axis along which an index is the variable plus a constant, and the constant.
fn place(index: &[Expr], variable: SymbolId) -> Option<(usize, i64)> {
    index.iter().enumerate().find_map(|(axis, expr)| {
        let alone = expr.linear_coefficient(variable) == Some(1);
        let offset = expr.without(variable).as_constant()?;
        alone.then_some((axis, offset))
    })
}

/// Outside of the loop nothing reads what only new iterations write; inside, each of them reads no
/// new element but its own.
fn check_readers(state: &State, target: &str, written: &[New]) -> Outcome {
    let kernel = &state.kernel;
    let ranges = SymbolRanges::of(kernel);
    for new in written {
        let name = &kernel.buffers[new.buffer].name;
        for reference in references(&kernel.body).iter() {
            if reference.buffer != new.buffer || !reference.effect.reads() {
                continue;
            }
            let folds = matches!(reference.effect, Effect::Fold(_));
            let index = reference.index.get(new.axis).filter(|_| !folds);
            // With the old extents, which still stand, no reader may reach the new part.
            let is_before = |index: &Expr| {
                let known = ranges.within(&[], &[index.symbols(), new.first.symbols()].concat());
                known.prove(&less(index.clone(), new.first.clone()))
            };
            if !index.is_some_and(is_before) {
                let message = format!("`{name}` is read beyond what `{target}` computes");
                return Err(Refusal::at_loop(target, message));
            }
        }
    }
    Ok(())
}
