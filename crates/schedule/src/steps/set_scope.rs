//! Set scope: a local buffer moves to scratch memory or to registers.
//!
//! ```text
//! %acc: scratch f32[8, 16]
//! ```
//!
//! `set_scope acc register`
//!
//! ```text
//! %acc: register f32[8, 16]
//! ```
//!
//! Legal: the buffer is not a parameter; a register buffer's shape is constant. Whether its indices
//! are constant once loops are unrolled is for `loops`' verifier of scheduled kernels to say,
//! because the loops may be unrolled later.

use loops::Scope;

use crate::error::{Outcome, Refusal};
use crate::nest::find_buffer;
use crate::state::State;
use crate::step::LocalScope;

pub(crate) fn apply(state: &mut State, buffer: &str, scope: LocalScope) -> Outcome {
    let id = find_buffer(&state.kernel, buffer)?;
    let found = &mut state.kernel.buffers[id];
    if matches!(found.scope, Scope::Parameter(_)) {
        return Err(Refusal::at_buffer(buffer, "a parameter stays where the caller put it"));
    }
    let constant = found.shape.iter().all(|extent| extent.as_constant().is_some());
    if scope == LocalScope::Register && !constant {
        return Err(Refusal::at_buffer(buffer, "registers hold only buffers of constant shape"));
    }
    found.scope = scope.into();
    Ok(())
}
