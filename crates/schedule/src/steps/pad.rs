//! Pad: an axis of a local buffer grows.
//!
//! ```text
//! %t: scratch f32[8, 1024]
//! ```
//!
//! `pad t axis 1 to 1040`
//!
//! ```text
//! %t: scratch f32[8, 1040]
//! ```
//!
//! What the buffer holds stays at its indices, but rows move apart in memory, so that equal columns
//! of neighbouring rows do not fall on the same cache set.
//!
//! Legal: the buffer is local, its axis has a constant extent, the new one is not smaller, and the
//! axis is not one that a fold reads as a whole.

use loops::Scope;
use loops::visit::{Effect, references};

use crate::error::{Outcome, Refusal};
use crate::nest::find_buffer;
use crate::state::State;

pub(crate) fn apply(state: &mut State, buffer: &str, axis: usize, extent: i64) -> Outcome {
    let kernel = &mut state.kernel;
    let id = find_buffer(kernel, buffer)?;
    let found = &kernel.buffers[id];
    let refuse = |message: &str| Err(Refusal::at_buffer(buffer, message));
    if matches!(found.scope, Scope::Parameter(_)) {
        return refuse("a parameter is as large as the caller made it");
    }
    let Some(old) = found.shape.get(axis) else {
        return refuse(&format!("there is no axis {axis}"));
    };
    if old.as_constant().is_none_or(|old| old > extent) {
        return refuse(&format!("axis {axis} is not known to have at most {extent} elements"));
    }
    let folds = |effect| matches!(effect, Effect::Fold(_));
    let folded = references(&kernel.body).iter().any(|r| r.buffer == id && folds(r.effect));
    if folded && axis + 1 == found.shape.len() {
        return refuse("a fold reads its last axis as a whole");
    }
    kernel.buffers[id].shape[axis] = extent.into();
    Ok(())
}
