//! Maps over short rows that fill no whole vectors, where neighbouring rows do not follow each
//! other in memory: the middle of what is padded, some columns of a table.
//!
//! ```text
//! for i < 4096 { for j < 2 { %out[i, j] = f(%in[i, j]) } }
//! ```
//!
//! where rows of `out` are four elements apart, becomes
//!
//! ```text
//! for i_o < 64 {
//!   for k < 128 { %side[k] = f(%in[128 * i_o + k]) }
//!   for i < 64 { for j < 2 { %out[64 * i_o + i, j] = %side[2 * i + j] } }
//! }
//! ```
//!
//! so that vectors are full where it is computed, and only copies are of short rows.

use backend::Target;
use backend::tile::div_ceil;
use schedule::{LocalScope, ScheduleStep};

use crate::fuse::{as_one, fuse_neighbours};
use crate::given::Refused;
use crate::hand::{Hand, SHARED};
use crate::structure::{Access, LoopInfo, Motion, Nest};
use crate::vectors::lanes;

/// Vectors that rows of a block fill.
const BLOCK: i64 = 16;

/// The part of the lanes that rows fill which are not taken together.
const FULL: f64 = 0.75;

/// The loop over rows along which a loop goes that leaves lanes empty, where many rows together do
/// not.
pub(super) fn rows_of(
    hand: &Hand<'_>,
    nest: &Nest,
    along: usize,
    target: &Target,
) -> Option<usize> {
    let found = &nest.loops[along];
    let lanes = lanes(hand, nest, target, found);
    let is_plain = |own: &LoopInfo| !own.is_free() && !nest.guards.contains(&own.variable);
    let filled = found.extent as f64 / (div_ceil(found.extent, lanes) * lanes) as f64;
    if found.extent < 2 || filled > FULL || !is_plain(found) {
        return None;
    }
    let steady = |access: &Access, own: &LoopInfo| {
        matches!(access.motion(own), Motion::Still | Motion::Steady { block: None, .. })
    };
    let fits = |at: &usize| {
        let own = &nest.loops[*at];
        let is_many = own.extent * found.extent > BLOCK * lanes;
        let walked = || nest.accesses.iter().all(|it| steady(it, own) && steady(it, found));
        *at != along && is_many && is_plain(own) && walked()
    };
    (0..nest.loops.len()).filter(fits).max_by_key(|at| nest.loops[*at].extent)
}

/// See the head of this file: of the loops of a nest the one along rows and the one over them.
pub(super) fn apply(
    hand: &mut Hand<'_>,
    nest: &Nest,
    (along, rows): (usize, usize),
    target: &Target,
) -> Result<String, Refused> {
    let (element, row) = (&nest.loops[along], &nest.loops[rows]);
    let width = lanes(hand, nest, target, element);
    let name = |at: usize| nest.loops[at].name.clone();
    let most = BLOCK * width / element.extent;
    // Blocks that overlap could not be shared among workers.
    let whole = (most / 2..=most).rev().find(|count| row.extent % count == 0);
    let (blocks, inner) = hand.split_whole(&row.name, whole.unwrap_or(most))?;
    let blocks = blocks.ok_or("its rows fill no block")?;
    let rest = (0..nest.loops.len()).filter(|at| ![along, rows].contains(at)).map(name);
    let outer: Vec<String> = rest.chain([blocks.clone()]).collect();
    hand.reorder(&[outer.clone(), vec![inner.clone(), element.name.clone()]].concat())?;
    let copies = stage(hand, nest, (element, row), &blocks)?;
    let mut nests = hand.block(Some(&blocks)).into_iter().flatten();
    let computing = nests.find(|own| own.loops.iter().any(|it| it.name == inner));
    let computing = computing.ok_or("what it computes is no nest")?;
    let fused = fuse_neighbours(hand, Some(&blocks), &computing)?.ok_or("its rows are not one")?;
    let [whole] = &fused.loops[..] else { return Err("its rows are not one".into()) };
    hand.vectorise(&whole.name)?;
    copies.iter().try_for_each(|copied| hand.vectorise(copied))?;
    let remark = format!("vectors of several rows along {}", element.name);
    Ok(hand.share_if_independent(&outer, SHARED, remark))
}

/// Has what a block meets of the buffers whose rows do not follow each other copied; the loops
/// along rows of the copies.
fn stage(
    hand: &mut Hand<'_>,
    nest: &Nest,
    (element, row): (&LoopInfo, &LoopInfo),
    around: &str,
) -> Result<Vec<String>, Refused> {
    let mut copies = Vec::new();
    for access in &nest.accesses {
        if as_one(access.motion(row), access.motion(element), element.extent) {
            continue;
        }
        let (buffer, target) = (&hand.kernel().buffers[access.buffer], around.to_owned());
        let (axes, buffer) = (buffer.shape.len(), buffer.name.clone());
        let (into, scope) = (hand.fresh(&buffer, "side"), LocalScope::Scratch);
        let copied = format!("{into}_{}", axes - 1);
        hand.take(match access.effect.writes() {
            true => ScheduleStep::StageWrite { buffer, target, into, scope },
            false => ScheduleStep::StageRead { buffer, target, into, scope, order: Vec::new() },
        })?;
        copies.push(copied);
    }
    Ok(copies)
}
