//! Shrink: a buffer that each iteration of a loop has for itself loses the axes along which an
//! iteration meets one element.
//!
//! ```text
//! %t: scratch f32[16, 8]
//! for i < 16 { for j < 8 { %t[i, j] = %a[i, j] }; for k < 8 { %b[i, k] = %t[i, 7 - k] } }
//! ```
//!
//! `shrink t in i`
//!
//! ```text
//! %t: scratch f32[8]
//! for i < 16 { for j < 8 { %t[j] = %a[i, j] }; for k < 8 { %b[i, k] = %t[7 - k] } }
//! ```
//!
//! What is left may stay in registers. This is array contraction (Gao et al., "Collective Loop
//! Fusion for Array Contraction", 1992).
//!
//! Legal: the buffer is private to the loop's body, and along some axis all its indices there are
//! one expression, of symbols that are bound outside of the body.

use loops::substitute;
use loops::visit::{bound_symbols, references};
use sym::Expr;

use crate::error::{Outcome, Refusal};
use crate::nest::{SymbolRanges, block_mut, find_buffer, find_loop, loop_at};
use crate::private::is_private;
use crate::state::State;

pub(crate) fn apply(state: &mut State, buffer: &str, target: &str) -> Outcome {
    let kernel = &state.kernel;
    let id = find_buffer(kernel, buffer)?;
    let site = find_loop(kernel, target)?;
    let body = &loop_at(kernel, &site).body;
    let refuse = |message: &str| Err(Refusal::at_buffer(buffer, message));
    if !is_private(kernel, &SymbolRanges::of(kernel), body, id) {
        return refuse(&format!("an iteration of `{target}` does not have it for itself"));
    }
    let inside = bound_symbols(body);
    let uses = references(body);
    let indices: Vec<&[Expr]> =
        uses.iter().filter(|found| found.buffer == id).map(|found| found.index).collect();
    let rank = kernel.buffers[id].shape.len();
    let is_one_element = |axis: usize| {
        // A fold's index lacks the last axis, of which it reads all.
        let mut along = indices.iter().map(|index| index.get(axis));
        let first = along.next().flatten();
        first.is_some_and(|first| !first.symbols().iter().any(|symbol| inside.contains(symbol)))
            && along.all(|other| other == first)
    };
    let kept: Vec<bool> = (0..rank).map(|axis| !is_one_element(axis)).collect();
    if kept.iter().all(|kept| *kept) {
        return refuse(&format!(
            "an iteration of `{target}` meets several elements along all axes"
        ));
    }
    let left = |index: &[Expr]| {
        let kept = index.iter().zip(&kept).filter(|(_, kept)| **kept);
        kept.map(|(expr, _)| expr.clone()).collect()
    };
    let shape = left(&kernel.buffers[id].shape);
    substitute::redirect(block_mut(&mut state.kernel, &site.body()), id, id, left);
    state.kernel.buffers[id].shape = shape;
    Ok(())
}
