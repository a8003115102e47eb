//! Neighbouring loops that every access walks as one become one loop, and the buffers' axes with
//! them one axis.
//!
//! ```text
//! for y < 89 { for x < 10 { %out[y, x] = f(%in[y, x]) } }
//! ```
//!
//! becomes
//!
//! ```text
//! for i < 890 { %out[i] = f(%in[i]) }
//! ```
//!
//! so that vectors are full whatever the innermost extent is.

use std::collections::BTreeSet;

use loops::visit::{Reference, references};
use loops::{BufferId, Kernel, Scope};
use schedule::ScheduleStep;
use sym::Range;

use crate::given::Refused;
use crate::hand::Hand;
use crate::structure::{Motion, Nest};

/// Fuses neighbouring loops of a nest in the body of a loop, or of the kernel, wherever every
/// access walks both as one; the nest that there is then, if that is another.
pub(super) fn fuse_neighbours(
    hand: &mut Hand<'_>,
    around: Option<&str>,
    before: &Nest,
) -> Result<Option<Nest>, Refused> {
    let mut fused: Option<Nest> = None;
    let mut position = before.loops.len();
    while position >= 2 {
        let nest = fused.as_ref().unwrap_or(before);
        let (outer, inner) = (&nest.loops[position - 2], &nest.loops[position - 1]);
        position -= 1;
        let guarded = [outer, inner].iter().any(|own| nest.guards.contains(&own.variable));
        let fits = nest
            .accesses
            .iter()
            .all(|access| as_one(access.motion(outer), access.motion(inner), inner.extent));
        if guarded || !fits {
            continue;
        }
        let into = hand.fuse(&outer.name, &inner.name)?;
        flatten(hand)?;
        fused = Some(nest_of(hand, around, &into)?);
    }
    Ok(fused)
}

/// The nest in a block that has a loop.
fn nest_of(hand: &Hand<'_>, around: Option<&str>, name: &str) -> Result<Nest, Refused> {
    let mut nests = hand.block(around).into_iter().flatten();
    let found = nests.find(|nest| nest.loops.iter().any(|own| own.name == name));
    found.ok_or_else(|| format!("`{name}` is no loop of a nest"))
}

/// Whether two loops walk a buffer as one loop over all their iterations would.
pub(super) fn as_one(outer: Motion, inner: Motion, extent: i64) -> bool {
    match (outer, inner) {
        (Motion::Still, Motion::Still) => true,
        (
            Motion::Steady { stride: far, block: None },
            Motion::Steady { stride: near, block: None },
        ) => far == near * extent,
        _ => false,
    }
}

/// Merges axes of buffers whose indices are quotient and remainder of one position.
pub(super) fn flatten(hand: &mut Hand<'_>) -> Result<(), Refused> {
    // A view whose axes are not dense stays as it is.
    let mut refused = BTreeSet::new();
    while let Some((id, axis)) = next_flat(hand, &refused) {
        let buffer = hand.kernel().buffers[id].name.clone();
        if hand.take(ScheduleStep::Flatten { buffer, axis }).is_err() {
            refused.insert((id, axis));
        }
    }
    Ok(())
}

/// The first two axes of a buffer that are to be one, but for those refused: the outer one's
/// number.
fn next_flat(hand: &Hand<'_>, refused: &BTreeSet<(BufferId, usize)>) -> Option<(BufferId, usize)> {
    let kernel = hand.kernel();
    let all = references(&kernel.body);
    kernel.buffers.iter().find_map(|(id, buffer)| {
        let mut axes = (0..buffer.shape.len().saturating_sub(1)).rev();
        let wanted =
            |&axis: &usize| !refused.contains(&(id, axis)) && is_flat(kernel, &all, id, axis);
        Some((id, axes.find(wanted)?))
    })
}

/// Whether some indices are quotient and remainder of one position.
pub(super) fn is_apart(hand: &Hand<'_>) -> bool {
    next_flat(hand, &BTreeSet::new()).is_some()
}

/// Whether accesses take positions apart along two axes for which, with both taken as one, none has
/// to.
fn is_flat(kernel: &Kernel, all: &[Reference<'_>], id: BufferId, axis: usize) -> bool {
    let extent = &kernel.buffers[id].shape[axis + 1];
    let own = is_own(kernel, id);
    let mut is_simpler = false;
    for reference in all.iter().filter(|reference| reference.buffer == id) {
        let Some([outer, inner]) = reference.index.get(axis..axis + 2) else { return false };
        let before = outer.quotients() + inner.quotients();
        let whole = (outer * extent + inner).simplify(&|_| Range::at_least(0));
        let after = whole.quotients();
        // What is written along several loops at once is not seen to be written as a whole.
        let scattered = own && reference.effect.writes() && whole.symbols().len() > 1;
        if after > before || scattered {
            return false;
        }
        is_simpler |= after < before;
    }
    is_simpler
}

/// Whether no buffer of the kernel's own is met at positions that are taken apart.
pub(super) fn is_whole(hand: &Hand<'_>) -> bool {
    let kernel = hand.kernel();
    references(&kernel.body).iter().all(|reference| {
        let apart = reference.index.iter().any(|index| index.quotients() > 0);
        !apart || !is_own(kernel, reference.buffer)
    })
}

fn is_own(kernel: &Kernel, id: BufferId) -> bool {
    !matches!(kernel.buffers[id].scope, Scope::Parameter(_))
}
