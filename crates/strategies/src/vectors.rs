//! Splitting loops into vectors, whatever the nest computes.

use backend::Target;
use schedule::Tail;

use crate::given::Refused;
use crate::hand::Hand;
use crate::structure::{Access, LoopInfo, Motion, Nest};

/// Vectors that one turn of the innermost loop handles.
pub(super) const VECTORS: i64 = 4;

/// Blocks of a row that is written out as a whole where a condition depends on the loop: for which
/// elements it holds is then known, and not asked for each vector.
const WRITTEN_OUT: i64 = 4;

/// Splits by overlapping blocks where that is legal, else by blocks of which the last is guarded;
/// so, too, where a condition depends on a long loop, which is to stay simple. Blocks have a whole
/// number of periods of the remainders in conditions, if that is no more than a width: those are
/// then known where the block is written out.
pub(super) fn split_any(
    hand: &mut Hand<'_>,
    name: &str,
    width: i64,
) -> Result<(Option<String>, String), Refused> {
    let period = hand.period(name);
    let whole = if period == 1 { WRITTEN_OUT * width } else { width };
    if hand.is_guard(name) && hand.extent(name).is_some_and(|it| it <= whole) {
        return Ok((None, name.to_owned()));
    }
    let width = match period {
        period @ 2.. if period <= width => period << (width / period).ilog2(),
        _ => width,
    };
    if hand.is_guard(name) || hand.computes_local(name) {
        return hand.split(name, width, Tail::Guard);
    }
    match hand.split(name, width, Tail::Shift) {
        Ok(parts) => Ok(parts),
        Err(_) => hand.split(name, width, Tail::Guard),
    }
}

/// Splits by disjoint blocks: by a number of vectors that divides the extent, else with a guard.
pub(super) fn split_apart(
    hand: &mut Hand<'_>,
    name: &str,
    width: i64,
    lanes: i64,
) -> Result<(Option<String>, String), Refused> {
    let divides = |width: &i64| hand.extent(name).is_some_and(|extent| extent % width == 0);
    let divisor = (1..=width / lanes).rev().map(|count| count * lanes).find(divides);
    match divisor {
        Some(divisor) => hand.split(name, divisor, Tail::Exact),
        None => hand.split(name, width, Tail::Guard),
    }
}

/// Elements of the widest type that a nest touches in a vector along a loop. An operand that all
/// lanes share fits any of them.
pub(super) fn lanes(hand: &Hand<'_>, nest: &Nest, target: &Target, along: &LoopInfo) -> i64 {
    let bits = |access: &Access| i64::from(hand.kernel().buffers[access.buffer].dtype.bits());
    let moves = |access: &&Access| access.motion(along) != Motion::Still;
    let bytes = nest.accesses.iter().filter(moves).map(bits).max().unwrap_or(32).max(8) / 8;
    (i64::from(target.vector_bytes) / bytes).max(1)
}

/// The extent of a loop of a nest as a number of vectors, for callers that split by vectors.
pub(super) fn width(hand: &Hand<'_>, nest: &Nest, target: &Target, found: &LoopInfo) -> i64 {
    let (lanes, extents) = (lanes(hand, nest, target, found), found.extents);
    match found.is_free() {
        // Blocks that no extent is shorter than need no condition.
        true => (VECTORS.min(extents.min / lanes) * lanes).max(lanes),
        false => (VECTORS * lanes).min(found.extent),
    }
}
