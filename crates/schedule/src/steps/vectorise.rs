//! Vectorise: a loop is to be run in vectors.
//!
//! ```text
//! for i < 16 { %c[i] = %a[i] + %b[i] }
//! ```
//!
//! `vectorise i`
//!
//! ```text
//! for i < 16 vector { %c[i] = %a[i] + %b[i] }
//! ```
//!
//! Legal: the extent is a constant, the loop is still serial, stands in no vector loop and holds no
//! loops but unrolled ones, and no two iterations touch the same element, one writing: not even a
//! local buffer's, and not even to reduce into it, since each statement runs for many iterations at
//! once.

use loops::visit::walk;
use loops::{LoopKind, Stmt};

use crate::error::{Outcome, Refusal};
use crate::nest::{SymbolRanges, check_not_vector, check_serial, find_loop, loop_at, loop_at_mut};
use crate::state::State;
use crate::steps::parallelise::{Spared, check_independent};

pub(crate) fn apply(state: &mut State, target: &str) -> Outcome {
    let kernel = &state.kernel;
    let site = find_loop(kernel, target)?;
    let found = loop_at(kernel, &site);
    check_serial(kernel, found)?;
    let refuse = |message: &str| Err(Refusal::at_loop(target, message));
    if found.extent.as_constant().is_none() {
        return refuse("only a loop of constant extent can be run in vectors");
    }
    let mut fits = true;
    walk(&found.body, &mut |stmt| match stmt {
        Stmt::For(inner) => fits &= inner.kind.is_written_out(),
        Stmt::While { .. } => fits = false,
        _ => {}
    });
    if !fits {
        return refuse("a vector loop holds no loops but unrolled ones");
    }
    check_not_vector(kernel, &site)?;
    // Shifted tails count here: lanes that store the same element are lanes that are not
    // independent.
    check_independent(kernel, &SymbolRanges::of(kernel), found, &[], Spared::Nothing)?;
    loop_at_mut(&mut state.kernel, &site).kind = LoopKind::Vector;
    Ok(())
}
