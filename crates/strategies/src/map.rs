//! The strategy for maps and movements: each element from elements at places of its own.
//!
//! Neighbouring loops that every access walks as one are fused, the loop along which the result is
//! contiguous is run in vectors, the others are shared among workers. Where an operand is
//! contiguous along another loop (a transpose), both loops are cut so that a tile uses whole cache
//! lines of both sides; where a few narrow elements of the result lie side by side, they are put
//! into lanes that hold them all.

use backend::Target;
use loops::visit::{Effect, walk};
use loops::{Kernel, ScalarExpr, Scope, Stmt};
use schedule::{LocalScope, Schedule, ScheduleStep, Tail};
use tensor::DType;

use crate::fuse::fuse_neighbours;
use crate::given::{Given, Refused};
use crate::hand::{Hand, SHARED};
use crate::naive::WORTH_CODE;
use crate::point::Point;
use crate::short_rows;
use crate::sketch::needs_expansion;
use crate::structure::{Access, Motion, Nest};
use crate::vectors::{VECTORS, lanes, split_any, split_apart};

/// The sketch's name.
pub(super) const NAME: &str = "map";

/// Uses of elements in a block that has work enough for a turn, and values enough for the
/// registers, with a single vector.
const MANY_USES: usize = 16;

/// Bits of a lane, and the fewest that are worth filling with several elements each.
const LANE: i64 = 32;
const LEAST_TUPLES: i64 = 4;

/// Fewest narrow elements of a row that is copied by itself.
const SHORTEST_ROW: i64 = 4;

/// Elements along each side of a tile of a transpose: a cache line of f32.
pub(super) const TILE: i64 = 16;

/// Its choices.
pub(super) const CHOICES: &[&str] = &[WAY];

/// How elements come into vectors: neighbours of one row, or of several.
const WAY: &str = "way";
const ROWS: &str = "rows";

/// Vectors of several rows.
pub(super) fn points(_given: &Given<'_>, _target: &Target) -> Vec<Point> {
    vec![Point::of(NAME).with_name(WAY, ROWS)]
}

/// Vectors of several rows: what they take is known once they are tried.
pub(super) fn rivals(given: &Given<'_>, target: &Target, _than: f64) -> Vec<Point> {
    points(given, target)
}

/// See the head of this file.
pub(super) fn apply(
    schedule: &mut Schedule,
    given: &Given<'_>,
    point: &Point,
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
    let fused = fuse_neighbours(&mut hand, None, nest)?;
    let nest = fused.as_ref().unwrap_or(nest);
    if !point.choices.is_empty() {
        if !point.allows_name(WAY, ROWS) {
            return Err("elements do not come into vectors so".into());
        }
        let along = vector_loop(nest).ok_or("no loop is contiguous in the result")?;
        let rows = short_rows::rows_of(&hand, nest, along, target);
        let rows = rows.ok_or("its rows fill vectors, or are few")?;
        return short_rows::apply(&mut hand, nest, (along, rows), target);
    }
    one(&mut hand, nest, given.naive.once, target)
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

/// One nest: a vector loop innermost, the others shared.
fn one(hand: &mut Hand<'_>, nest: &Nest, once: bool, target: &Target) -> Result<String, Refused> {
    let names: Vec<String> = nest.loops.iter().map(|found| found.name.clone()).collect();
    let Some(vector) = vector_loop(nest).or_else(|| scattered_loop(hand, nest)) else {
        let remark = "no loop is contiguous in the result".to_owned();
        return Ok(hand.share_if_independent(&names, SHARED, remark));
    };
    if let Some(other) = in_tuples(hand, nest, vector) {
        return tuples(hand, nest, vector, other, target);
    }
    if let Some((loaded, stored)) = in_runs(hand, nest, vector) {
        return runs(hand, nest, vector, (loaded, stored), target);
    }
    if let Some(other) = transposed(nest, vector) {
        return transpose(hand, nest, (vector, other), once, target);
    }
    let mut outer = names;
    let mut name = outer.remove(vector);
    let lanes = lanes(hand, nest, target, &nest.loops[vector]);
    // None of the rows, one after the other, ends within a vector.
    let narrow = 2 * lanes >= i64::from(target.vector_bytes);
    if let Some(row) = row_of_several(nest, vector, lanes, narrow) {
        let (rows, row) = hand.split(&name, row, Tail::Exact)?;
        outer.extend(rows);
        name = row;
    }
    hand.reorder(&[outer.clone(), vec![name.clone()]].concat())?;
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

/// Elements of a row of which the vector loop walks several, if loads are contiguous in each and
/// it fills vectors. Narrow elements of shorter rows, which are not picked from registers at any
/// places, are copied row by row, too, where rows end within vectors.
fn row_of_several(nest: &Nest, vector: usize, lanes: i64, narrow: bool) -> Option<i64> {
    let along = &nest.loops[vector];
    let mut rows = nest.loads().filter_map(|access| match access.motion(along) {
        Motion::Steady { stride: 1, block } => block,
        _ => None,
    });
    let row = rows.next()?;
    let short = narrow && row >= SHORTEST_ROW && lanes % row != 0;
    let whole = (row >= lanes || short) && row < along.extent && along.extent % row == 0;
    let plain = !along.is_free() && !nest.guards.contains(&along.variable);
    (whole && plain && rows.all(|other| other == row)).then_some(row)
}

/// The longest loop along which all loads are contiguous and stores lie apart, where what is
/// computed between them is worth the scattering.
fn scattered_loop(hand: &Hand<'_>, nest: &Nest) -> Option<usize> {
    let fits = |at: &usize| {
        let own = &nest.loops[*at];
        let apart = |motion: Motion| matches!(motion, Motion::Steady { block: None, .. });
        nest.loads().all(|access| access.motion(own).is_vector())
            && nest.writes().all(|access| apart(access.motion(own)))
    };
    let longest = (0..nest.loops.len()).filter(fits).max_by_key(|at| nest.loops[*at].extent);
    longest.filter(|_| needs_expansion(hand.kernel()))
}

/// The loop along which all loads are contiguous, and the stores next to each other, where the
/// narrow elements of a result that lie side by side along the vector loop fill a lane of 32 bits,
/// or are two of 32 bits.
fn in_tuples(hand: &Hand<'_>, nest: &Nest, vector: usize) -> Option<usize> {
    let along = &nest.loops[vector];
    let mut writes = nest.writes();
    let (write, None) = (writes.next()?, writes.next()) else { return None };
    let dtype = hand.kernel().buffers[write.buffer].dtype;
    let bits = i64::from(dtype.bits());
    let fills = match bits {
        LANE => along.extent == 2,
        _ => [8, 16].contains(&bits) && bits * along.extent == LANE && dtype != DType::F16,
    };
    if !fills || along.is_free() || nest.guards.contains(&along.variable) {
        return None;
    }
    (0..nest.loops.len()).rev().find(|&at| {
        let other = &nest.loops[at];
        let next = Motion::Steady { stride: along.extent, block: None };
        at != vector
            && other.extent >= LEAST_TUPLES
            && write.motion(other) == next
            && nest.loads().all(|access| access.motion(other).is_vector())
    })
}

/// Vectors along the other loop for each of the elements that lie side by side.
fn tuples(
    hand: &mut Hand<'_>,
    nest: &Nest,
    vector: usize,
    other: usize,
    target: &Target,
) -> Result<String, Refused> {
    let name = |at: usize| nest.loops[at].name.clone();
    let (along, other_name) = (name(vector), name(other));
    let lanes = 8 * i64::from(target.vector_bytes) / LANE;
    let width = if nest.uses >= MANY_USES { lanes } else { VECTORS * lanes };
    let (split, inner) = split_any(hand, &other_name, width)?;
    let rest = (0..nest.loops.len()).filter(|at| *at != vector && *at != other).map(name);
    let outer: Vec<String> = rest.chain(split).collect();
    hand.reorder(&[outer.clone(), vec![along.clone(), inner.clone()]].concat())?;
    hand.vectorise(&inner)?;
    hand.unroll(&along)?;
    let remark = format!("vectors along {other_name}, {} side by side", nest.loops[vector].extent);
    Ok(hand.share_if_independent(&outer, SHARED, remark))
}

/// Where runs of narrow elements along the vector loop, which fill a lane, are copied: the loop
/// along which they go on in what is loaded, and the one along which they do in the result.
fn in_runs(hand: &Hand<'_>, nest: &Nest, vector: usize) -> Option<(usize, usize)> {
    let along = &nest.loops[vector];
    let mut writes = nest.writes();
    let (write, None) = (writes.next()?, writes.next()) else { return None };
    let mut loads = nest.loads();
    let (load, None) = (loads.next()?, loads.next()) else { return None };
    let bits = i64::from(hand.kernel().buffers[write.buffer].dtype.bits());
    let is_run = bits < LANE && bits * along.extent == LANE && load.motion(along).is_unit();
    if !is_run || along.is_free() || !nest.guards.is_empty() || !copies(hand.kernel()) {
        return None;
    }
    let goes_on = |access: &Access, at: usize| {
        let next = Motion::Steady { stride: along.extent, block: None };
        let own = &nest.loops[at];
        at != vector && own.extent % LEAST_TUPLES == 0 && access.motion(own) == next
    };
    let find = |access: &Access| (0..nest.loops.len()).find(|&at| goes_on(access, at));
    let (loaded, stored) = (find(load)?, find(write)?);
    (loaded != stored).then_some((loaded, stored))
}

/// Squares of runs, which are transposed in registers.
fn runs(
    hand: &mut Hand<'_>,
    nest: &Nest,
    vector: usize,
    (loaded, stored): (usize, usize),
    target: &Target,
) -> Result<String, Refused> {
    let name = |at: usize| nest.loops[at].name.clone();
    let in_vectors = 8 * i64::from(target.vector_bytes) / LANE;
    let wide = nest.loops[loaded].extent % (2 * LEAST_TUPLES) == 0 && in_vectors > LEAST_TUPLES;
    let columns = if wide { 2 * LEAST_TUPLES } else { LEAST_TUPLES };
    let rows = [TILE, 2 * LEAST_TUPLES, LEAST_TUPLES];
    let rows = rows.into_iter().find(|rows| nest.loops[stored].extent % rows == 0);
    let (stored_outer, stored_inner) =
        hand.split_whole(&name(stored), rows.unwrap_or(LEAST_TUPLES))?;
    let (loaded_outer, loaded_inner) = hand.split_whole(&name(loaded), columns)?;
    let rest = (0..nest.loops.len()).filter(|at| ![vector, loaded, stored].contains(at)).map(name);
    let outer: Vec<String> = rest.chain(stored_outer).chain(loaded_outer).collect();
    let inner = vec![loaded_inner.clone(), stored_inner.clone(), name(vector)];
    hand.reorder(&[outer.clone(), inner].concat())?;
    hand.vectorise(&name(vector))?;
    hand.unroll(&stored_inner)?;
    hand.unroll(&loaded_inner)?;
    let remark = format!("squares of runs of {}", nest.loops[vector].extent);
    Ok(hand.share_if_independent(&outer, SHARED, remark))
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

/// Whether all that a kernel does is to copy elements.
fn copies(kernel: &Kernel) -> bool {
    let mut copies = true;
    walk(&kernel.body, &mut |stmt| {
        let copy = matches!(stmt, Stmt::Store { value: ScalarExpr::Load { .. }, .. });
        copies &= copy || matches!(stmt, Stmt::For(_));
    });
    copies
}

/// Whether all that a kernel does is to copy elements of 8 bits, of which registers hold more than
/// of those that are computed with.
fn copies_bytes(kernel: &Kernel) -> bool {
    let mut bytes = true;
    walk(&kernel.body, &mut |stmt| {
        if let Stmt::Store { buffer, .. } = stmt {
            bytes &= kernel.buffers[*buffer].dtype.bits() == 8;
        }
    });
    bytes && copies(kernel)
}

/// Cuts a nest that transposes into tiles, which are transposed in registers: the loop along which
/// it loads, the one along which it stores, and those around them.
pub(super) fn transposing_tiles(
    hand: &mut Hand<'_>,
    rest: &[String],
    loaded: &str,
    stored: &str,
) -> Result<(), Refused> {
    let (stored_outer, stored_inner) = hand.split_whole(stored, TILE)?;
    let (loaded_outer, loaded_inner) = hand.split_whole(loaded, TILE)?;
    let outer = rest.iter().cloned().chain(stored_outer).chain(loaded_outer);
    let order: Vec<String> = outer.chain([loaded_inner.clone(), stored_inner.clone()]).collect();
    hand.reorder(&hand.present(&order))?;
    hand.vectorise(&stored_inner)?;
    hand.unroll(&loaded_inner)
}

/// Where what is stored along the vector loop fills no line: the loop along which it goes on, and
/// whether rows of the result lie so far apart that their lines share a set of the cache.
fn next_in_row(
    hand: &Hand<'_>,
    nest: &Nest,
    (vector, other): (usize, usize),
    target: &Target,
) -> Option<(usize, bool)> {
    let mut writes = nest.writes();
    let (write, None) = (writes.next()?, writes.next()) else { return None };
    let along = &nest.loops[vector];
    let element = i64::from(hand.kernel().buffers[write.buffer].dtype.bits()) / 8;
    let machine = &target.machine;
    let goes_on = Motion::Steady { stride: along.extent, block: None };
    let fits = |at: &usize| {
        let own = &nest.loops[*at];
        ![vector, other].contains(at) && own.extent > 1 && write.motion(own) == goes_on
    };
    let next = (0..nest.loops.len()).find(fits)?;
    let share_a_set = match write.motion(&nest.loops[other]) {
        Motion::Steady { stride, .. } => machine.l1.collide(stride.abs() * element),
        _ => false,
    };
    (along.extent * element < machine.line_bytes).then_some((next, share_a_set))
}

/// Copies, before a tile, what all of its columns share of operands that lie scattered along the
/// vectors, so that each column loads it whole. What cannot be copied stays where it is.
fn stage_scattered(
    hand: &mut Hand<'_>,
    nest: &Nest,
    (vector, other): (usize, usize),
    around: &str,
) {
    let along = &nest.loops[vector];
    let is_scattered = |access: &&Access| {
        !access.motion(along).is_vector() && access.motion(&nest.loops[other]) == Motion::Still
    };
    for access in nest.loads().filter(is_scattered) {
        // An operand that is met in two ways has no one copy.
        let meets = nest.loads().filter(|found| found.buffer == access.buffer).count();
        let axis = access.index.iter().position(|index| index.contains(along.variable));
        if let (1, Some(axis)) = (meets, axis) {
            let _ = hand.attempt(|hand| stage_column(hand, access, axis, around));
        }
    }
}

/// Copies what a turn of a loop meets of an operand, with an axis of it last, which is vectorised.
fn stage_column(
    hand: &mut Hand<'_>,
    access: &Access,
    axis: usize,
    around: &str,
) -> Result<(), Refused> {
    let buffer = &hand.kernel().buffers[access.buffer];
    let axes = buffer.shape.len();
    let (buffer, into) = (buffer.name.clone(), hand.fresh(&buffer.name, "column"));
    hand.take(ScheduleStep::StageRead {
        buffer,
        target: around.to_owned(),
        into: into.clone(),
        scope: LocalScope::Scratch,
        order: (0..axes).filter(|own| *own != axis).chain([axis]).collect(),
    })?;
    hand.vectorise(&format!("{into}_{}", axes - 1))
}

/// Tiles of both loops, so that lines of both sides are used whole.
fn transpose(
    hand: &mut Hand<'_>,
    nest: &Nest,
    (vector, other): (usize, usize),
    once: bool,
    target: &Target,
) -> Result<String, Refused> {
    let name = |at: usize| nest.loops[at].name.clone();
    let (vector_outer, vector_inner) = hand.split_whole(&name(vector), TILE)?;
    let extents = [vector, other].map(|at| nest.loops[at].extent);
    let wide = copies_bytes(hand.kernel()) && extents[0] >= TILE && extents[1] >= 2 * TILE;
    let next = next_in_row(hand, nest, (vector, other), target);
    let side = match next {
        // Lines of rows that share a set are filled before others drive them out.
        Some((_, true)) => target.machine.l1.ways() as i64,
        _ if wide => 2 * TILE,
        _ => TILE,
    };
    let (other_outer, other_inner) = hand.split_whole(&name(other), side)?;
    let next = next.map(|(next, _)| next);
    let rest = (0..nest.loops.len()).filter(|&at| at != vector && at != other && Some(at) != next);
    let (rest, next) = (rest.map(name), next.map(name));
    let outer: Vec<String> = match nest.loops[other].extent <= side {
        true => vector_outer.into_iter().chain(rest).chain(other_outer).chain(next).collect(),
        false => rest.chain(other_outer).chain(vector_outer).chain(next).collect(),
    };
    let inner = vec![other_inner.clone(), vector_inner.clone()];
    hand.reorder(&[outer.clone(), inner].concat())?;
    hand.vectorise(&vector_inner)?;
    if let Some(around) = outer.last() {
        stage_scattered(hand, nest, (vector, other), around);
    }
    // Written out, what a tile loads is seen at once and can be transposed in registers.
    let elements: i64 = nest.loops.iter().map(|found| found.extent).product();
    let repaid = !once || elements >= WORTH_CODE;
    if nest.uses < MANY_USES && repaid {
        hand.unroll(&other_inner)?;
    }
    let remark = format!("tiles of {} and {}", nest.loops[other].name, nest.loops[vector].name);
    Ok(hand.share_if_independent(&outer, SHARED, remark))
}
