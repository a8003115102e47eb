//! Unroll: a loop is to be written out.
//!
//! ```text
//! for i < 4 { body(i) }
//! ```
//!
//! `unroll i`
//!
//! ```text
//! for i < 4 unroll { body(i) }
//! ```
//!
//! Legal: the extent is a constant and the loop is still serial. The order of execution stays.

use loops::LoopKind;

use crate::error::{Outcome, Refusal};
use crate::nest::{check_serial, find_loop, loop_at, loop_at_mut};
use crate::state::State;

pub(crate) fn apply(state: &mut State, target: &str) -> Outcome {
    let site = find_loop(&state.kernel, target)?;
    let found = loop_at(&state.kernel, &site);
    check_serial(&state.kernel, found)?;
    if found.extent.as_constant().is_none() {
        return Err(Refusal::at_loop(target, "only a loop of constant extent can be written out"));
    }
    loop_at_mut(&mut state.kernel, &site).kind = LoopKind::Unroll;
    Ok(())
}
