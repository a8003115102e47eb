//! What `tile` does instead where a sum meets each element of a large operand once, or a few times:
//! a row, or a few of them, times a matrix that is given at run time.
//!
//! ```text
//! for j { acc[j] = 0 }
//! for j, k { acc[j] += a[k] * b[k, j] }
//! for j { out[j] = f(acc[j], ..) }
//! ```
//!
//! becomes, for each block of columns,
//!
//! ```text
//! for j < block { acc[j] = 0 }
//! for k_o { for j_o {
//!   for j_i vector { part[j_i] = acc[j_o, j_i] }
//!   for k_i < 8 unroll { for j_i vector { part[j_i] += a[k_o, k_i] * b[k_o, k_i, j_o, j_i] }}
//!   for j_i vector { acc[j_o, j_i] = part[j_i] }
//! } }
//! for j < block { out[j] = f(acc[j], ..) }
//! ```
//!
//! Several rows are taken in groups, a loop around `j_o`, and the rows of a group written out
//! inside of it, so that what is read of `b` stays in registers for them.
//!
//! A register tile would walk down the matrix and read a few lines of each row, every row on
//! another page, and wait for memory at each. Here a few rows are read side by side from end to
//! end, as prefetchers like it, while the block of sums stays in the first-level cache. The order
//! of each sum is as before.

use std::slice;

use backend::Target;
use backend::tile::{copies_panels, div_ceil};
use loops::{Kernel, Scope};
use schedule::{ScheduleStep, Tail};

use crate::choice::vector_motions;
use crate::given::Refused;
use crate::hand::{Hand, SHARED};
use crate::problem::{Axis, Problem};
use crate::structure::{LoopInfo, Motion};

/// Terms of a sum, each a row of the operand, that are read side by side, the first number that
/// comes out even: few, because rows whose distance is a power of two fall on the same cache sets.
const TERMS: [i64; 2] = [8, 4];

/// Vectors of sums that are in registers at once.
const VECTORS: i64 = 8;

/// The same two where what is read of the operand stays in registers for several rows of sums.
const TERMS_OF_ROWS: [i64; 3] = [4, 3, 2];
const VECTORS_OF_ROWS: i64 = 2;

/// Rows of sums that are written out at most.
const WRITTEN_OUT: i64 = 8;

/// The most bytes of a row that a block takes, and the fewest that are read as a stream.
const SEGMENT: i64 = 4096;
const SHORT: i64 = 256;

/// What is streamed.
pub(super) struct Streamed {
    /// The axis along which rows of the operand are contiguous.
    vector: usize,
    /// The axis along which it stands still, if there is one.
    rows: Option<usize>,
    /// Terms that are read side by side.
    terms: i64,
    /// What is read, and how many bytes on the terms behind these begin.
    operand: String,
    further: i64,
    /// Columns of a block, and those that are in registers at once.
    block: i64,
    step: i64,
}

/// Streams what was found.
pub(super) fn apply(
    hand: &mut Hand<'_>,
    problem: &Problem,
    streamed: &Streamed,
) -> Result<String, Refused> {
    let outer = emit(hand, problem, streamed)?;
    if streamed.rows.is_some() {
        let (buffer, bytes) = (streamed.operand.clone(), streamed.further);
        let bytes = u32::try_from(bytes).map_err(|_| "its rows lie too far apart")?;
        let shared = Vec::new();
        hand.take(ScheduleStep::Prefetch { buffer, bytes, walk: None, shared })?;
    }
    let Streamed { vector, terms, block, .. } = streamed;
    let along = &problem.axes[*vector].last.name;
    let remark =
        format!("{terms} rows of an operand at once, blocks of {block} elements along {along}");
    // A block that overlaps the one before it gives the same bits again.
    if hand.share_blocks(&outer, SHARED).is_ok() {
        return Ok(remark);
    }
    Ok(hand.share_if_independent(&outer, SHARED, remark))
}

/// What may be streamed: the axis along which rows of a large operand are contiguous, if each
/// element is met once; or once for each of a few rows, which do not pay for copies of its panels,
/// where its own rows fall on the same cache sets or no cache keeps it.
pub(super) fn streamed(problem: &Problem, kernel: &Kernel, target: &Target) -> Option<Streamed> {
    let [reduced] = &problem.reduced[..] else { return None };
    let turns: i64 = problem.update.loops.iter().map(|found| found.extent).product();
    let lanes = (i64::from(target.vector_bytes) / problem.bytes).max(1);
    let found = |vector: usize| {
        let along = vector_motions(problem, kernel, vector, target)?;
        problem.update.loads().zip(&along).find_map(|(access, motion)| {
            let buffer = &kernel.buffers[access.buffer];
            let width = i64::from(buffer.dtype.bits()) / 8;
            let counts = buffer.shape.iter().map(|extent| extent.as_constant());
            let elements = counts.product::<Option<i64>>().unwrap_or(0);
            let Motion::Steady { stride: apart @ 2.., .. } = access.motion(reduced) else {
                return None;
            };
            let is_large = (elements * width) as u64 > target.machine.l2.bytes;
            let is_given = matches!(buffer.scope, Scope::Parameter(_));
            if *motion != (Motion::Steady { stride: 1, block: None }) || !is_given || !is_large {
                return None;
            }
            let still = (0..problem.axes.len()).find(|at| {
                let own = problem.axes[*at].update.as_ref();
                own.is_some_and(|own| access.motion(own) == Motion::Still && !own.is_free())
            });
            let count = still.map_or(1, |at| problem.axes[at].last.extent);
            let (machine, bytes) = (&target.machine, elements * width);
            let is_walked = machine.l1.collide(apart * width) || !machine.l3.keeps(bytes as f64);
            let is_few = !copies_panels(count, bytes) && segment_of(count, target) >= SHORT;
            let rows = still.filter(|_| count > 1 && is_few && is_walked);
            let met = if rows.is_some() { count } else { 1 };
            (elements * met == turns).then_some(())?;
            let (terms, vectors, segment) = match rows {
                Some(_) => (&TERMS_OF_ROWS[..], VECTORS_OF_ROWS, segment_of(count, target)),
                None => (&TERMS[..], VECTORS, SEGMENT),
            };
            let terms = terms_of(reduced, terms)?;
            let columns = problem.axes[vector].last.extent;
            let (block, step) =
                block_of(columns * problem.bytes, problem.bytes, [segment, vectors, lanes])?;
            let (operand, further) = (buffer.name.clone(), terms * apart * width);
            Some(Streamed { vector, rows, terms, operand, further, block, step })
        })
    };
    (0..problem.axes.len()).rev().find_map(found)
}

/// Bytes of a row of which the sums of so many rows stay in the first-level cache.
fn segment_of(rows: i64, target: &Target) -> i64 {
    (target.machine.l1.bytes as i64 / 2 / rows).min(SEGMENT)
}

/// How many terms are read side by side.
fn terms_of(reduced: &LoopInfo, counts: &[i64]) -> Option<i64> {
    let even = |terms: &&i64| reduced.extent >= 2 * **terms && reduced.extent % **terms == 0;
    counts.iter().find(even).copied().filter(|_| !reduced.is_free())
}

/// How many columns a block has, and how many of them are in registers at once, which are whole
/// vectors: so that both come out even if that can be, else with a last block that overlaps the one
/// before it.
fn block_of(row: i64, bytes: i64, [segment, vectors, lanes]: [i64; 3]) -> Option<(i64, i64)> {
    let columns = row / bytes;
    let least = div_ceil(row, segment);
    let mut even = (least..=4 * least).filter(|count| columns % count == 0);
    let step = |block: i64| {
        let mut steps = (2..=vectors).rev().map(|vectors| vectors * lanes);
        Some((block, steps.find(|step| block % step == 0)?))
    };
    even.find_map(|count| step(columns / count)).or_else(|| {
        let step = vectors * lanes;
        let block = (segment / bytes).min(columns) / step * step;
        (block > 0).then_some((block, step))
    })
}

/// Takes the steps; the loops that may be shared among workers.
fn emit(
    hand: &mut Hand<'_>,
    problem: &Problem,
    streamed: &Streamed,
) -> Result<Vec<String>, Refused> {
    let &Streamed { vector, rows, terms, block, step, .. } = streamed;
    let axis = &problem.axes[vector];
    let update = axis.update.as_ref().ok_or("the sums are not walked one by one")?;
    let row = rows.map(|at| &problem.axes[at]);
    let inside = |other: &Axis| {
        [Some(axis), row].into_iter().flatten().any(|own| own.last.name == other.last.name)
    };
    let others = problem.axes.iter().filter(|other| !inside(other));
    let mut outer: Vec<String> = others.map(|other| other.last.name.clone()).collect();
    let tail = if axis.last.extent % block == 0 { Tail::Exact } else { Tail::Shift };
    let (columns, inner) = hand.split(&axis.last.name, block, tail)?;
    outer.extend(columns);
    let of_row: Vec<String> = row.iter().map(|row| row.last.name.clone()).collect();
    hand.reorder(&[&outer[..], &of_row, slice::from_ref(&inner)].concat())?;
    if let Some(around) = outer.last() {
        hand.compute_at(&problem.acc, around)?;
    }
    hand.simplify()?;
    let (groups, term) = hand.split(&problem.reduced[0].name, terms, Tail::Exact)?;
    let (parts, part) = hand.split(&update.name, step, Tail::Exact)?;
    let mut around: Vec<String> = groups.into_iter().collect();
    let mut written_out = None;
    if let Some(own) = row.and_then(|row| row.update.as_ref()) {
        let divides = |count: &i64| own.extent % count == 0;
        let count = (1..=WRITTEN_OUT).rev().find(divides).unwrap_or(1);
        let (outside, row) = hand.split(&own.name, count, Tail::Exact)?;
        around.extend(outside);
        written_out = Some(row);
    }
    around.extend(parts.into_iter().chain(written_out.clone()));
    hand.reorder(&[around.clone(), vec![term.clone(), part.clone()]].concat())?;
    hand.vectorise(&part)?;
    hand.unroll(&term)?;
    if let Some(innermost) = around.last() {
        hand.keep_in_registers(&problem.acc, innermost)?;
        hand.simplify()?;
    }
    if let Some(row) = written_out {
        hand.unroll(&row)?;
    }
    let init = problem.init.iter().flatten().filter(|name| hand.find(name).is_some());
    let init: Vec<String> = init.cloned().collect();
    let along = init.into_iter().last();
    for name in along.into_iter().chain([inner]) {
        let (_, vectors) = hand.split(&name, step, Tail::Exact)?;
        hand.vectorise(&vectors)?;
    }
    Ok(hand.present(&outer))
}
