//! Prefetch: loads of a parameter ask for what lies further on, too.
//!
//! ```text
//! %panel: read f32[4, 768, 32]
//! ```
//!
//! `prefetch panel ahead 98304`
//!
//! ```text
//! %panel: read f32[4, 768, 32] ahead 98304
//! ```
//!
//! A hint to the back end: the meaning stays the same, and so do all bits. Worth it where a part of
//! an operand is met many times before the next part is met at all, as hardware that follows
//! streams of addresses then sees none.
//!
//! Legal: the buffer is a parameter that is only read.

use loops::{Access, Scope};

use crate::error::{Outcome, Refusal};
use crate::nest::find_buffer;
use crate::state::State;

pub(crate) fn apply(state: &mut State, buffer: &str, bytes: u32) -> Outcome {
    let id = find_buffer(&state.kernel, buffer)?;
    let found = &mut state.kernel.buffers[id];
    if found.scope != Scope::Parameter(Access::Read) {
        return Err(Refusal::at_buffer(buffer, "only a parameter that is read is prefetched"));
    }
    found.ahead = bytes;
    Ok(())
}
