//! Stage write: what a loop's body writes of a buffer is written to a copy, and copied back last.
//!
//! ```text
//! for i < 8 {
//!   for j < 4 { %c[i, j] = 0.0 }
//!   for k < 32 { for j2 < 4 { %c[i, j2] += %a[i, k, j2] } }
//! }
//! ```
//!
//! `stage_write c at i into tile register`
//!
//! ```text
//! %tile: register f32[1, 4]
//! for i < 8 {
//!   for j < 4 { %tile[0, j] = 0.0 }
//!   for k < 32 { for j2 < 4 { %tile[0, j2] += %a[i, k, j2] } }
//!   for tile_0 < 1 { for tile_1 < 4 { %c[i + tile_0, tile_1] = %tile[tile_0, tile_1] } }
//! }
//! ```
//!
//! Where the body may leave an element of the region unwritten, or read one before it writes it,
//! the region is copied to the copy first. Elements beyond the buffer are not copied.
//!
//! Legal: what is copied first has values (the caller's, or stored before the loop); the body
//! writes the buffer and does not fold it, and a parallel loop around keeps its iterations
//! independent. Nothing else touches the buffer between the copying in and back.

use loops::build::{guard, if_then};
use loops::visit::{Effect, references};
use loops::{BufferId, Kernel, LoopKind, ScalarExpr, Stmt, substitute};
use tensor::Scalar;

use crate::error::{Outcome, Refusal};
use crate::nest::{
    Site, SymbolRanges, block_mut, check_new_buffer, check_not_vector, find_buffer, find_loop,
    loop_at,
};
use crate::private::stores_before_reading;
use crate::region::Part;
use crate::state::State;
use crate::step::LocalScope;
use crate::steps::parallelise::{Spared, check_independent};
use crate::steps::stage_read::{Nest, add_copy, guards, has_values, staged_region};

pub(crate) fn apply(
    state: &mut State,
    buffer: &str,
    target: &str,
    into: &str,
    scope: LocalScope,
) -> Outcome {
    let kernel = &mut state.kernel;
    let original = find_buffer(kernel, buffer)?;
    let site = find_loop(kernel, target)?;
    check_new_buffer(kernel, into)?;
    check_body(kernel, original, &site, buffer, target)?;
    let parts = staged_region(kernel, original, &site);
    let order: Vec<usize> = (0..parts.len()).collect();
    let copy = add_copy(kernel, original, &parts, into, scope, &order)?;
    let back = Nest::new(kernel, &parts, original, &order, into);
    let fresh = holds_all(kernel, original, &site, &back);
    let copy_in = (!fresh).then(|| copy_in(kernel, original, copy, &parts, &order, into));
    if copy_in.as_ref().is_some_and(|nest| !has_values(kernel, original, &site, nest)) {
        let message = format!("elements that the body of `{target}` leaves out may have no value");
        return Err(Refusal::at_buffer(buffer, message));
    }
    let ranges = back.ranges(kernel);
    let inside = guards(&ranges, &back.there, &kernel.buffers[original]);
    let value = ScalarExpr::Load { buffer: copy, index: back.here.clone() };
    let store = Stmt::Store { buffer: original, index: back.there.clone(), value };
    let store = if inside.is_empty() { store } else { if_then(inside, vec![store]) };
    let body = block_mut(kernel, &site.body());
    substitute::redirect(body, original, copy, |index| {
        index.iter().zip(&parts).map(|(expr, part)| expr - &part.lower()).collect()
    });
    body.splice(0..0, copy_in);
    body.push(back.around(store));
    check_workers(state)
}

/// Copying back elements that an iteration did not write must not race with the one that does.
fn check_workers(state: &State) -> Outcome {
    match &state.kernel.body[..] {
        [Stmt::For(outer)] if outer.kind == LoopKind::Parallel => {
            let ranges = SymbolRanges::of(&state.kernel);
            check_independent(&state.kernel, &ranges, outer, &state.shifted, Spared::Private)
        }
        _ => Ok(()),
    }
}

/// Whether the body writes every element that is copied back, and reads none before: whether, with
/// the copying back as one more reader, each read follows a store.
fn holds_all(kernel: &Kernel, original: BufferId, site: &Site, back: &Nest) -> bool {
    let ranges = back.ranges(kernel);
    let inside = guards(&ranges, &back.there, &kernel.buffers[original]);
    let value = ScalarExpr::Load { buffer: original, index: back.there.clone() };
    let (buffer, index) = (original, back.there.clone());
    let reader = back.around(if_then(inside, vec![Stmt::Store { buffer, index, value }]));
    let mut extended = kernel.clone();
    block_mut(&mut extended, &site.body()).push(reader);
    let body = &loop_at(&extended, site).body;
    stores_before_reading(&extended, &SymbolRanges::of(&extended), body, original)
}

/// The nest that fills the copy.
fn copy_in(
    kernel: &mut Kernel,
    original: BufferId,
    copy: BufferId,
    parts: &[Part],
    order: &[usize],
    into: &str,
) -> Stmt {
    let nest = Nest::new(kernel, parts, original, order, &format!("{into}_in"));
    let ranges = nest.ranges(kernel);
    let inside = guards(&ranges, &nest.there, &kernel.buffers[original]);
    let mut value = ScalarExpr::Load { buffer: original, index: nest.there.clone() };
    if !inside.is_empty() {
        let zero = ScalarExpr::Constant(Scalar::zero(kernel.buffers[original].dtype));
        value = guard(inside, value, zero);
    }
    nest.around(Stmt::Store { buffer: copy, index: nest.here.clone(), value })
}

fn check_body(
    kernel: &Kernel,
    original: BufferId,
    site: &Site,
    buffer: &str,
    target: &str,
) -> Outcome {
    let found = loop_at(kernel, site);
    check_not_vector(kernel, site)?;
    let all = references(&found.body);
    let own: Vec<_> = all.iter().filter(|r| r.buffer == original).collect();
    let refuse =
        |what: &str| Err(Refusal::at_buffer(buffer, format!("the body of `{target}` {what}")));
    if !own.iter().any(|r| r.effect.writes()) {
        return refuse("does not write it");
    }
    if own.iter().any(|r| matches!(r.effect, Effect::Fold(_))) {
        return refuse("folds it");
    }
    Ok(())
}
