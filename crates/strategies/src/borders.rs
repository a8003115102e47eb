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
//! An outer loop is cut first: inner ones may have nothing to ask then in some of its parts. Of a
//! loop that workers share, which stays one loop, the turns from there on get code of their own.

use backend::Target;
use loops::visit::{walk, walk_values};
use loops::{Kernel, Loop, LoopKind, Stmt};
use schedule::Schedule;

use crate::cost::{Cost, lanes_of};
use crate::hand::Hand;
use crate::structure::changes_within;

/// Values in the body of a loop that is cut, at most: each part has code of its own.
const MOST_VALUES: usize = 24;

/// Cuts of a kernel, at most.
const MOST_CUTS: usize = 12;

/// Cuts the loops of a kernel so, where it should take less time then.
pub(super) fn cut(schedule: &mut Schedule, target: &Target) {
    if next_cut(schedule.kernel(), target).is_none() {
        return;
    }
    let before = Cost::of(schedule.kernel(), target);
    let mut parts = schedule.clone();
    let mut hand = Hand::new(&mut parts);
    for _ in 0..MOST_CUTS {
        let Some(Cut { name, at, kind }) = next_cut(hand.kernel(), target) else { break };
        let cut = match kind {
            LoopKind::Parallel => hand.case(&name, at),
            _ => hand.cut(&name, at).map(|_| ()),
        };
        if cut.is_err() || hand.simplify().is_err() {
            return;
        }
    }
    if Cost::of(parts.kernel(), target).cycles() < before.cycles() {
        *schedule = parts;
    }
}

/// A loop to cut, and after how many of its turns.
struct Cut {
    name: String,
    at: i64,
    kind: LoopKind,
}

/// The first loop to cut, outermost first.
fn next_cut(kernel: &Kernel, target: &Target) -> Option<Cut> {
    let mut found = None;
    walk(&kernel.body, &mut |stmt| {
        if let (None, Stmt::For(own)) = (&found, stmt) {
            let name = || kernel.symbols[own.variable].name.clone();
            let cut = |at| Cut { name: name(), at, kind: own.kind.clone() };
            found = first_change(kernel, own, target).map(cut);
        }
    });
    found
}

/// After how many turns of a loop that may be cut the first of its conditions changes.
fn first_change(kernel: &Kernel, own: &Loop, target: &Target) -> Option<i64> {
    let extent = own.extent.as_constant()?;
    let is_cut = match (&own.kind, &own.body[..]) {
        // Its turns are told apart already.
        (LoopKind::Parallel, [Stmt::If { conditions, .. }]) => {
            let mut sides = conditions.iter().flat_map(|found| [&found.left, &found.right]);
            !sides.any(|side| side.as_symbol() == Some(own.variable))
        }
        (LoopKind::Parallel | LoopKind::Serial | LoopKind::Vector, _) => true,
        _ => false,
    };
    if !is_cut || !is_small(&own.body) {
        return None;
    }
    let first = changes_within(&own.body, own.variable).into_iter().find(|at| *at > 0)?;
    let at = match own.kind {
        // A vector in which it changes stands alone. Of few vectors it is known which lanes are on.
        LoopKind::Vector => {
            let lanes = lanes_of(kernel, &own.body, target);
            if extent <= backend::VECTORS_WRITTEN_OUT * lanes {
                return None;
            }
            (first / lanes * lanes).max(lanes)
        }
        _ => first,
    };
    (first < extent && at < extent).then_some(at)
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
