//! Extend: a loop runs further than it has to.
//!
//! ```text
//! %t: scratch f32[32]
//! for i < 20 { %t[i] = %a[i] }
//! for j < 20 { %c[j] = %t[j] }
//! ```
//!
//! `extend i to 32`
//!
//! ```text
//! %t: scratch f32[32]
//! for i < 32 { %t[i] = %a[i] }
//! for j < 20 { %c[j] = %t[j] }
//! ```
//!
//! So whole vectors are computed where a part is needed, without a condition. What the new
//! iterations read is of no consequence, since nothing reads what they compute.
//!
//! Legal: the new extent is not smaller; the body holds stores and reductions alone, into local
//! buffers, each at an index that along one axis is the loop's variable plus a constant; no other
//! statement reads an element that only the new iterations write; and every access stays within
//! its buffer.

use loops::visit::{references, walk};
use loops::{BufferId, LoopKind, Scope, Stmt};
use sym::SymbolId;

use crate::error::{Outcome, Refusal};
use crate::nest::{SymbolRanges, check_serial, find_loop, loop_at, loop_at_mut};
use crate::state::State;

/// What the new iterations write: a buffer, an axis, and the first new index along it.
struct New {
    buffer: BufferId,
    axis: usize,
    first: i64,
}

pub(crate) fn apply(state: &mut State, target: &str, extent: i64) -> Outcome {
    let kernel = &state.kernel;
    let site = find_loop(kernel, target)?;
    let found = loop_at(kernel, &site);
    check_serial(kernel, found)?;
    let refuse = |message: &str| Err(Refusal::at_loop(target, message));
    let Some(old) = found.extent.as_constant().filter(|old| *old <= extent) else {
        return refuse(&format!("its extent is not known to be at most {extent}"));
    };
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
            Some((axis, first)) => {
                written.push(New { buffer: reference.buffer, axis, first: first + old });
            }
            None => return refuse("it writes what may be read elsewhere"),
        }
    }
    check_readers(state, target, &written)?;
    loop_at_mut(&mut state.kernel, &site).extent = extent.into();
    if loops::verify(&state.kernel).is_err() {
        loop_at_mut(&mut state.kernel, &site).extent = old.into();
        return Err(Refusal::at_loop(target, "its new iterations would leave a buffer"));
    }
    Ok(())
}

/// The axis along which an index is the variable plus a constant, and the constant.
fn place(index: &[sym::Expr], variable: SymbolId) -> Option<(usize, i64)> {
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
            // With the old extents, which still stand, no reader may reach the new part.
            let last = reference.index.get(new.axis).map(|expr| ranges.bounds(expr).max);
            if last.is_none_or(|last| last >= new.first) {
                let message = format!("`{name}` is read beyond what `{target}` computes");
                return Err(Refusal::at_loop(target, message));
            }
        }
    }
    Ok(())
}
