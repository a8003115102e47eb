//! Privatise: a buffer that each iteration of a loop has for itself gets room for all of them.
//!
//! ```text
//! %t: scratch f32[8]
//! for i < 16 { for j < 8 { %t[j] = %a[i, j] }; for k < 8 { %b[i, k] = %t[7 - k] } }
//! ```
//!
//! `privatise t along i`
//!
//! ```text
//! %t: scratch f32[8, 16]
//! for i < 16 { for j < 8 { %t[j, i] = %a[i, j] }; for k < 8 { %b[i, k] = %t[7 - k, i] } }
//! ```
//!
//! The new axis is the last one, so that neighbouring iterations keep their elements side by side:
//! the loop may then be taken apart, and its parts run in vectors. This is array expansion
//! (Feautrier, "Array Expansion", 1988).
//!
//! Legal: the loop has a constant extent, the buffer is private to its body, and no fold reads the
//! buffer's last axis as a whole.

use loops::substitute;
use loops::visit::{Effect, references};
use sym::Expr;

use crate::error::{Outcome, Refusal};
use crate::nest::{SymbolRanges, block_mut, find_buffer, find_loop, loop_at};
use crate::private::is_private;
use crate::state::State;

pub(crate) fn apply(state: &mut State, buffer: &str, target: &str) -> Outcome {
    let kernel = &state.kernel;
    let id = find_buffer(kernel, buffer)?;
    let site = find_loop(kernel, target)?;
    let found = loop_at(kernel, &site);
    let variable = Expr::symbol(found.variable);
    let Some(extent) = found.extent.as_constant() else {
        let message = "only a loop of constant extent tells how much room its iterations take";
        return Err(Refusal::at_loop(target, message));
    };
    let refuse = |message: &str| Err(Refusal::at_buffer(buffer, message));
    if !is_private(kernel, &SymbolRanges::of(kernel), &found.body, id) {
        return refuse(&format!("an iteration of `{target}` does not have it for itself"));
    }
    let folds = |effect| matches!(effect, Effect::Fold(_));
    if references(&found.body).iter().any(|r| r.buffer == id && folds(r.effect)) {
        return refuse("a fold reads its last axis as a whole");
    }
    let place = |index: &[Expr]| [index, std::slice::from_ref(&variable)].concat();
    substitute::redirect(block_mut(&mut state.kernel, &site.body()), id, id, place);
    state.kernel.buffers[id].shape.push(extent.into());
    Ok(())
}
