//! The strategy for maps and movements: each element from elements at places of its own.
//!
//! Neighbouring loops that every access walks as one are fused, the loop along which the result is
//! contiguous is run in vectors, the others are shared among workers. Where an operand is
//! contiguous along another loop (a transpose), both loops are cut so that a tile uses whole cache
//! lines of both sides.

use std::collections::BTreeSet;

use backend::Target;
use loops::visit::{Effect, Reference, references};
use loops::{BufferId, Kernel, Scope};
use schedule::{Schedule, ScheduleStep};
use sym::{Expr, Range, SymbolId};

use crate::given::{Given, Refused};
use crate::hand::Hand;
use crate::naive::WORTH_CODE;
use crate::point::Point;
use crate::structure::{Motion, Nest};
use crate::vectors::{VECTORS, lanes, split_any, split_apart};

/// Iterations of the parallel loop beyond which no more loops are fused into it.
const SHARED: i64 = 64;

/// Uses of elements in a block that has work enough for a turn, and values enough for the
/// registers, with a single vector.
const MANY_USES: usize = 16;

/// Elements along each side of a tile of a transpose: a cache line of f32.
pub(super) const TILE: i64 = 16;

/// See the head of this file.
pub(super) fn apply(
    schedule: &mut Schedule,
    given: &Given<'_>,
    _point: &Point,
    target: &Target,
) -> Result<String, Refused> {
    let nests = given.nests()?;
    let writes = |effect: Effect| matches!(effect, Effect::Reduce(_) | Effect::Fold(_));
    if nests.iter().flat_map(|nest| &nest.accesses).any(|access| writes(access.effect)) {
        return Err("it reduces".into());
    }
    if given
        .naive
        .kernel
        .buffers
        .values()
        .any(|buffer| !matches!(buffer.scope, Scope::Parameter(_)))
    {
        return Err("it keeps intermediate results".into());
    }
    let mut hand = Hand::new(schedule);
    let joined = crate::rows::join_outer(&mut hand, nests);
    let [nest] = nests else {
        // Nests that could not be joined in full are run one after the other.
        return several(&mut hand, nests, joined, target);
    };
    let fused = fuse_neighbours(&mut hand, nest)?;
    one(&mut hand, fused.as_ref().unwrap_or(nest), given.naive.once, target)
}

/// Several nests under `joined` common loops.
fn several(
    hand: &mut Hand<'_>,
    nests: &[Nest],
    joined: usize,
    target: &Target,
) -> Result<String, Refused> {
    for nest in nests {
        crate::rows::vectorise_nest(hand, nest, joined, target)?;
    }
    if joined == 0 {
        return Ok(format!("{} nests one after the other", nests.len()));
    }
    let common: Vec<String> =
        nests[0].loops[..joined].iter().map(|found| found.name.clone()).collect();
    let remark = format!("{} nests under {joined} common loops", nests.len());
    Ok(hand.share_if_independent(&common, SHARED, remark))
}

fn only_nest(hand: &Hand<'_>) -> Result<Nest, Refused> {
    let nests = Nest::all(hand.kernel()).ok_or("its loops are no perfect nests")?;
    nests.into_iter().next().ok_or_else(|| "it does nothing".to_owned())
}

/// Fuses neighbouring loops of a nest wherever every access walks both as one; the nest that there
/// is then, if that is another.
fn fuse_neighbours(hand: &mut Hand<'_>, before: &Nest) -> Result<Option<Nest>, Refused> {
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
        flatten(hand, &into)?;
        fused = Some(only_nest(hand)?);
    }
    Ok(fused)
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

/// Merges axes of buffers whose indices are quotient and remainder of a fused loop.
pub(super) fn flatten(hand: &mut Hand<'_>, fused: &str) -> Result<(), Refused> {
    // A view whose axes are not dense stays as it is.
    let mut refused = BTreeSet::new();
    while let Some((id, axis)) = next_flat(hand, fused, &refused) {
        let buffer = hand.kernel().buffers[id].name.clone();
        if hand.take(ScheduleStep::Flatten { buffer, axis }).is_err() {
            refused.insert((id, axis));
        }
    }
    Ok(())
}

/// The first two axes of a buffer that are to be one, but for those refused: the outer one's
/// number.
fn next_flat(
    hand: &Hand<'_>,
    fused: &str,
    refused: &BTreeSet<(BufferId, usize)>,
) -> Option<(BufferId, usize)> {
    let kernel = hand.kernel();
    let variable = hand.find(fused)?.variable;
    let all = references(&kernel.body);
    kernel.buffers.iter().find_map(|(id, buffer)| {
        let mut axes = (0..buffer.shape.len().saturating_sub(1)).rev();
        let wanted = |&axis: &usize| {
            !refused.contains(&(id, axis)) && is_flat(kernel, &all, id, axis, variable)
        };
        Some((id, axes.find(wanted)?))
    })
}

/// Whether two axes taken as one need no quotient of a loop in any access.
fn is_flat(
    kernel: &Kernel,
    all: &[Reference<'_>],
    id: BufferId,
    axis: usize,
    variable: SymbolId,
) -> bool {
    let extent = &kernel.buffers[id].shape[axis + 1];
    let mut own = all.iter().filter(|reference| reference.buffer == id).peekable();
    own.peek().is_some()
        && own.all(|reference| {
            let [outer, inner] = &reference.index[axis..axis + 2] else { return false };
            if outer.linear_coefficient(variable).is_some()
                || inner.linear_coefficient(variable).is_some()
            {
                return false;
            }
            let whole: Expr = outer * extent + inner;
            let whole = whole.simplify(&|_| Range::at_least(0));
            whole.linear_coefficient(variable).is_some()
        })
}

/// One nest: a vector loop innermost, the others shared.
fn one(hand: &mut Hand<'_>, nest: &Nest, once: bool, target: &Target) -> Result<String, Refused> {
    let names: Vec<String> = nest.loops.iter().map(|found| found.name.clone()).collect();
    let Some(vector) = vector_loop(nest) else {
        let remark = "no loop is contiguous in the result".to_owned();
        return Ok(hand.share_if_independent(&names, SHARED, remark));
    };
    if let Some(other) = transposed(nest, vector) {
        return transpose(hand, nest, vector, other, once);
    }
    let mut outer = names;
    let name = outer.remove(vector);
    hand.reorder(&[outer.clone(), vec![name.clone()]].concat())?;
    let lanes = lanes(hand, nest, target);
    let width = if nest.uses >= MANY_USES { lanes } else { VECTORS * lanes };
    let (split, inner) = match outer.is_empty() {
        // Blocks that overlap could not be shared among workers.
        true => split_apart(hand, &name, width, lanes)?,
        false => split_any(hand, &name, width)?,
    };
    outer.extend(split);
    hand.vectorise(&inner)?;
    Ok(hand.share_if_independent(&outer, SHARED, format!("vectors along {name}")))
}

/// The loop along which all stores are contiguous and most loads are.
pub(super) fn vector_loop(nest: &Nest) -> Option<usize> {
    let candidates = (0..nest.loops.len())
        .filter(|&at| nest.writes().all(|access| access.motion(&nest.loops[at]).is_unit()));
    candidates.max_by_key(|&at| {
        let loop_at = &nest.loops[at];
        (nest.loads().filter(|access| access.motion(loop_at).is_vector()).count(), at)
    })
}

/// The loop along which a load is contiguous that is not along the vector loop.
pub(super) fn transposed(nest: &Nest, vector: usize) -> Option<usize> {
    let along = &nest.loops[vector];
    nest.loads().find_map(|access| {
        if access.motion(along).is_vector() || along.extent < 2 {
            return None;
        }
        (0..nest.loops.len())
            .find(|&at| access.motion(&nest.loops[at]).is_unit() && nest.loops[at].extent >= 4)
    })
}

/// Tiles of both loops, so that lines of both sides are used whole.
fn transpose(
    hand: &mut Hand<'_>,
    nest: &Nest,
    vector: usize,
    other: usize,
    once: bool,
) -> Result<String, Refused> {
    let name = |at: usize| nest.loops[at].name.clone();
    let (vector_outer, vector_inner) = hand.split_whole(&name(vector), TILE)?;
    let (other_outer, other_inner) = hand.split_whole(&name(other), TILE)?;
    let rest = (0..nest.loops.len()).filter(|at| *at != vector && *at != other).map(name);
    let outer: Vec<String> = match nest.loops[other].extent <= TILE {
        true => vector_outer.into_iter().chain(rest).chain(other_outer).collect(),
        false => rest.chain(other_outer).chain(vector_outer).collect(),
    };
    let inner = vec![other_inner.clone(), vector_inner.clone()];
    hand.reorder(&[outer.clone(), inner].concat())?;
    hand.vectorise(&vector_inner)?;
    // Written out, what a tile loads is seen at once and can be transposed in registers.
    let elements: i64 = nest.loops.iter().map(|found| found.extent).product();
    let repaid = !once || elements >= WORTH_CODE;
    if nest.uses < MANY_USES && repaid {
        hand.unroll(&other_inner)?;
    }
    let remark = format!("tiles of {} and {}", nest.loops[other].name, nest.loops[vector].name);
    Ok(hand.share_if_independent(&outer, SHARED, remark))
}
