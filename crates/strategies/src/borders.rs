//! Loops are cut where conditions of theirs begin to hold, or cease to, so that none is asked in
//! any turn.
//!
//! ```text
//! for y < 63 {
//!   for n < 8 vector { %out[y, n] = guard(0 <= y - 6, y - 6 <= 50 ? %in[y - 6] : 0.0) }
//! }
//! ```
//!
//! becomes
//!
//! ```text
//! for y < 6 { for n < 8 vector { %out[y, n] = 0.0 } }
//! for y_rest < 51 { for n < 8 vector { %out[y_rest + 6, n] = %in[y_rest] } }
//! for y_rest1 < 6 { for n < 8 vector { %out[y_rest1 + 57, n] = 0.0 } }
//! ```
//!
//! An outer loop is cut first: inner ones may have nothing to ask then in some of its parts.

use backend::Target;
use loops::visit::{walk, walk_values};
use loops::{Kernel, Loop, LoopKind, Stmt};
use schedule::Schedule;

use crate::cost::Cost;
use crate::hand::Hand;
use crate::structure::changes;

/// Values in the body of a loop that is cut, at most: each part has code of its own.
const MOST_VALUES: usize = 24;

/// Cuts of a kernel, at most.
const MOST_CUTS: usize = 12;

/// Cuts the loops of a kernel so, where it should take less time then.
pub(super) fn cut(schedule: &mut Schedule, target: &Target) {
    if next_cut(schedule.kernel()).is_none() {
        return;
    }
    let before = Cost::of(schedule.kernel(), target);
    let mut parts = schedule.clone();
    let mut hand = Hand::new(&mut parts);
    for _ in 0..MOST_CUTS {
        let Some((name, at)) = next_cut(hand.kernel()) else { break };
        if hand.cut(&name, at).is_err() || hand.simplify().is_err() {
            return;
        }
    }
    if Cost::of(parts.kernel(), target).cycles() < before.cycles() {
        *schedule = parts;
    }
}

/// The first loop to cut, outermost first, and after how many of its turns.
fn next_cut(kernel: &Kernel) -> Option<(String, i64)> {
    let mut found = None;
    walk(&kernel.body, &mut |stmt| {
        if let (None, Stmt::For(own)) = (&found, stmt) {
            let name = || kernel.symbols[own.variable].name.clone();
            found = first_change(own).map(|at| (name(), at));
        }
    });
    found
}

/// After how many turns of a loop that may be cut the first of its conditions changes.
fn first_change(own: &Loop) -> Option<i64> {
    let extent = own.extent.as_constant().filter(|_| own.kind == LoopKind::Serial)?;
    let first = changes(&own.body, own.variable).into_iter().find(|at| *at > 0)?;
    (first < extent && is_small(&own.body)).then_some(first)
}

/// Whether a block has little code, none of which is written out.
fn is_small(block: &[Stmt]) -> bool {
    let (mut values, mut plain) = (0, true);
    walk_values(block, &mut |_| values += 1);
    walk(block, &mut |stmt| match stmt {
        Stmt::For(own) => {
            plain &= matches!(own.kind, LoopKind::Serial | LoopKind::Vector);
        }
        Stmt::While { .. } => plain = false,
        _ => {}
    });
    plain && values <= MOST_VALUES
}
