//! The strategy for row groups with contractions inside: a block of rows at a time.
//!
//! ```text
//! for i, j { s[i, j] = sum k: a[i, k] * b[k, j] }
//! for i, j { p[i, j] = f(s[i, ..]) }
//! for i, d { out[i, d] = sum j: p[i, j] * c[j, d] }
//! ```
//!
//! becomes
//!
//! ```text
//! for i_o parallel {
//!   for j_o { s[0..R, j_o..] = register tiles of a * b }
//!   for i < R { p[i, ..] = f(s[i, ..]) }
//!   for d_o { out[R * i_o.., d_o..] = register tiles of p * c }
//! }
//! ```
//!
//! with `s` and `p`, `R` rows of each, in scratch memory. The rows are the loops of the last nest
//! with which everything that is kept moves; the one along which the other operand of every sum
//! stands still is cut into blocks, so that a block reads that operand once for all its rows. How
//! many rows a block has follows from the cost model. Inside, sums are scheduled as `tile` does,
//! all else as `rows` does. Attention is this: scores, softmax, weighted sum.

use backend::Target;
use backend::tile::{Area, best_tile, div_ceil};
use loops::visit::Effect;
use loops::{BufferId, Kernel, Scope};
use schedule::{Schedule, ScheduleStep};
use sym::Expr;

use crate::given::{Given, Refused};
use crate::hand::{Hand, SHARED};
use crate::point::Point;
use crate::structure::{LoopInfo, Motion, Nest, Rows};
use crate::{rows, tile};

/// Blocks have at most so many rows.
const MOST_ROWS: i64 = 48;

/// What a block costs besides its tiles, in cycles.
const BLOCK_OVERHEAD: f64 = 100.0;

/// How often each kept element is written or read.
const PASSES: f64 = 6.0;

/// A kernel with what is known of its rows.
struct Problem {
    nests: Vec<Nest>,
    /// The kernel's own buffers in the order in which they are written.
    kept: Vec<BufferId>,
    rows: Rows,
    sums: Vec<Sum>,
    /// Bytes that are kept of each row, accumulators aside.
    row_bytes: i64,
}

/// A sum of products of which a row has several.
struct Sum {
    /// Elements along the vector axis, and the panels it is stored in.
    columns: i64,
    panel: Option<i64>,
    /// Terms of each sum.
    depth: i64,
    /// Sums of a row, over those along the vector axis.
    others: i64,
    /// Bytes of an element.
    bytes: i64,
    /// Positions in the last nest of the row loops with which an operand stands still.
    reused: Vec<usize>,
    /// Bytes of the operands that stand still, by the same positions.
    column_bytes: Vec<i64>,
}

/// See the head of this file.
pub(super) fn apply(
    schedule: &mut Schedule,
    given: &Given<'_>,
    _point: &Point,
    target: &Target,
) -> Result<String, Refused> {
    let problem = Problem::find(&given.naive.kernel, given.nests()?)?;
    let mut hand = Hand::new(schedule);
    let (outer, remark) = place(&mut hand, &problem, target)?;
    if let Some(around) = outer.last() {
        for id in problem.kept.iter().rev() {
            let name = hand.kernel().buffers[*id].name.clone();
            hand.compute_at(&name, around)?;
        }
    }
    hand.simplify()?;
    let remarks = inside(&mut hand, outer.last().map(String::as_str), target)?;
    rows::registers(&mut hand)?;
    part_rows(&mut hand, target)?;
    hand.share_blocks(&hand.present(&outer), SHARED)?;
    Ok([vec![remark], remarks].concat().join("; "))
}

impl Problem {
    fn find(kernel: &Kernel, nests: &[Nest]) -> Result<Problem, Refused> {
        let before = &nests[..nests.len().saturating_sub(1)];
        let own = |id: BufferId| !matches!(kernel.buffers[id].scope, Scope::Parameter(_));
        if before.iter().flat_map(Nest::writes).any(|access| !own(access.buffer)) {
            return Err("an earlier nest has a result of its own".into());
        }
        let kept = rows::local_buffers(kernel, before);
        let is_whole = |id: &BufferId| {
            let sums = nests.iter().any(|nest| accumulates(nest, *id));
            sums && kernel.buffers[*id].dtype.is_integer()
        };
        if kept.iter().any(is_whole) && rows::Parts::find(kernel, nests).is_some() {
            return Err("sums of whole numbers are added up where they are computed".into());
        }
        let rows = Rows::of(nests, &kept);
        let sums: Vec<Sum> =
            (1..nests.len()).filter_map(|at| Sum::find(kernel, nests, &rows, at)).collect();
        if sums.is_empty() {
            return Err("no row has several sums of products".into());
        }
        let summed = |id: &BufferId| nests.iter().any(|nest| accumulates(nest, *id));
        let row_bytes = kept
            .iter()
            .filter(|id| !summed(id))
            .map(|id| bytes_of_row(kernel, nests, &rows, *id))
            .sum();
        Ok(Problem { nests: nests.to_vec(), kept, rows, sums, row_bytes })
    }
}

fn accumulates(nest: &Nest, id: BufferId) -> bool {
    nest.writes().any(|w| w.buffer == id && matches!(w.effect, Effect::Reduce(_)))
}

/// The bytes of a kept buffer that belong to one row.
fn bytes_of_row(kernel: &Kernel, nests: &[Nest], rows: &Rows, id: BufferId) -> i64 {
    let shape = &kernel.buffers[id].shape;
    let mut count = shape.iter().map(|extent| kernel.weight(extent)).product::<i64>();
    let writer = nests.iter().position(|nest| nest.writes().any(|write| write.buffer == id));
    if let Some(at) = writer {
        let is_row = |by: &&LoopInfo| rows.counterparts[at].contains_key(&by.variable);
        count /= nests[at].loops.iter().filter(is_row).map(|by| by.extent).product::<i64>().max(1);
    }
    count * i64::from(kernel.buffers[id].dtype.bits()).max(8) / 8
}

impl Sum {
    /// The sum that a nest updates, if a row has several.
    fn find(kernel: &Kernel, nests: &[Nest], rows: &Rows, at: usize) -> Option<Sum> {
        let nest = &nests[at];
        let mut writes = nest.writes();
        let (Some(write), None) = (writes.next(), writes.next()) else { return None };
        let folded = |nest: &Nest| {
            let mut loads = nest.loads();
            loads.any(|l| l.buffer == write.buffer && matches!(l.effect, Effect::Fold(_)))
        };
        let several = nest.loads().count() >= 2;
        if !matches!(write.effect, Effect::Reduce(_)) || !several || nests.iter().any(folded) {
            return None;
        }
        let counterparts = &rows.counterparts[at];
        let walks = |by: &LoopInfo| write.index.iter().any(|index| index.contains(by.variable));
        let is_row = |by: &&LoopInfo| counterparts.contains_key(&by.variable);
        let inner: Vec<&LoopInfo> =
            nest.loops.iter().filter(|by| walks(by) && !is_row(by)).collect();
        let vector = vector_loop(nest, &inner)?;
        let panel = nest.loads().find_map(|access| access.motion(vector).block());
        let bytes = |id: BufferId| i64::from(kernel.buffers[id].dtype.bits()).max(8) / 8;
        let (mut reused, mut column_bytes) = (Vec::new(), Vec::new());
        for by in nest.loops.iter().filter(is_row) {
            let still = nest.loads().filter(|access| access.motion(by) == Motion::Still);
            let sizes = still.map(|access| {
                let moving = nest
                    .loops
                    .iter()
                    .filter(|other| !is_row(other) && access.motion(other) != Motion::Still);
                moving.map(|other| other.extent).product::<i64>() * bytes(access.buffer)
            });
            let sizes: Vec<i64> = sizes.collect();
            if !sizes.is_empty() {
                reused.push(counterparts[&by.variable]);
                column_bytes.push(sizes.iter().sum());
            }
        }
        Some(Sum {
            columns: vector.extent,
            panel,
            depth: nest.loops.iter().filter(|by| !walks(by)).map(|by| by.extent).product(),
            others: inner.iter().map(|by| by.extent).product::<i64>() / vector.extent,
            bytes: bytes(write.buffer),
            reused,
            column_bytes,
        })
    }

    /// Cycles to compute so many rows.
    fn cycles(&self, rows: i64, target: &Target) -> f64 {
        let lanes = (i64::from(target.vector_bytes) / self.bytes).max(1);
        let (columns, depth) = (self.columns, self.depth);
        let area = Area { rows, columns, lanes, depth, shared: 64, ..Area::default() };
        let vectors = self.panel.map(|panel| div_ceil(panel, lanes));
        best_tile(target, &area, vectors).cycles(target, &area) * self.others as f64
    }
}

/// The loop along which an operand is contiguous, else the innermost.
fn vector_loop<'a>(nest: &Nest, inner: &[&'a LoopInfo]) -> Option<&'a LoopInfo> {
    let unit = |by: &&&LoopInfo| nest.loads().any(|access| access.motion(by).is_unit());
    inner.iter().rev().find(unit).or(inner.last()).copied()
}

/// Puts the row loops outermost, one of them cut into blocks. The names of the loops around a
/// block, and a remark.
fn place(
    hand: &mut Hand<'_>,
    problem: &Problem,
    target: &Target,
) -> Result<(Vec<String>, String), Refused> {
    let last = problem.nests.last().ok_or("it does nothing")?;
    let name = |at: usize| last.loops[at].name.clone();
    let blocked = problem
        .rows
        .loops
        .iter()
        .copied()
        .filter(|at| problem.sums.iter().all(|sum| sum.reused.contains(at)))
        .max_by_key(|&at| (last.loops[at].extent, at));
    let mut outer: Vec<String> =
        problem.rows.loops.iter().filter(|&&at| Some(at) != blocked).map(|&at| name(at)).collect();
    let mut inner: Vec<String> =
        (0..last.loops.len()).filter(|at| !problem.rows.loops.contains(at)).map(name).collect();
    let mut remark = "a row at a time".to_owned();
    if let Some(at) = blocked {
        let along = &last.loops[at];
        // Of a free extent no more than there always are, so that blocks may overlap.
        let most = if along.is_free() { along.extents.min.max(1) } else { along.extent };
        let rows = block_rows(problem, at, (along.extent, most), target);
        remark = format!("blocks of {rows} rows along {}", name(at));
        let (blocks, block) = hand.split_whole(&name(at), rows)?;
        outer.extend(blocks);
        inner.insert(0, block);
    }
    hand.reorder(&[outer.clone(), inner].concat())?;
    Ok((outer, remark))
}

/// How many rows a block has: tiles like some numbers of rows better than others, and each block
/// reads the operands that all rows share once more.
fn block_rows(problem: &Problem, at: usize, (extent, most): (i64, i64), target: &Target) -> i64 {
    let shared: i64 = problem
        .sums
        .iter()
        .filter_map(|sum| {
            sum.reused.iter().position(|own| *own == at).map(|own| sum.column_bytes[own])
        })
        .sum();
    let cost = |rows: i64| {
        let arithmetic: f64 = problem.sums.iter().map(|sum| sum.cycles(rows, target)).sum();
        let kept = (problem.row_bytes * rows) as f64;
        let all = shared as f64 + kept;
        let again = |bytes: f64| target.machine.cycles_to_read_again(bytes);
        let memory = shared as f64 * again(all) + PASSES * kept * again(kept);
        (arithmetic + memory + BLOCK_OVERHEAD) * div_ceil(extent, rows) as f64
    };
    let mut best = (f64::INFINITY, 1);
    for rows in 1..=extent.min(most).min(MOST_ROWS) {
        let cost = cost(rows);
        if cost < best.0 * 0.995 {
            best = (cost, rows);
        }
    }
    best.1
}

/// Schedules the nests of a block: sums as tiles, what is between them row by row.
fn inside(
    hand: &mut Hand<'_>,
    around: Option<&str>,
    target: &Target,
) -> Result<Vec<String>, Refused> {
    let nests: Option<Vec<Nest>> = hand.block(around).into_iter().collect();
    let nests = in_order(nests.ok_or("a block holds more than nests")?);
    let kept = rows::local_buffers(hand.kernel(), &nests);
    let rows = Rows::of(&nests, &kept);
    let mut remarks = Vec::new();
    let mut between: Vec<Nest> = Vec::new();
    let mut at = 0;
    while at < nests.len() {
        let is_sum =
            at + 2 < nests.len() && Sum::find(hand.kernel(), &nests, &rows, at + 1).is_some();
        if !is_sum {
            between.push(nests[at].clone());
            at += 1;
            continue;
        }
        row_by_row(hand, &std::mem::take(&mut between), target)?;
        remarks.push(sum(hand, &nests[at..at + 3], target)?);
        at += 3;
    }
    row_by_row(hand, &between, target)?;
    Ok(remarks)
}

/// The three nests of a sum as tiles, or in vectors as far as that goes; a remark.
fn sum(hand: &mut Hand<'_>, nests: &[Nest], target: &Target) -> Result<String, Refused> {
    let before = hand.copy();
    match tile::inside(hand, nests.to_vec(), target) {
        Ok(remark) => Ok(remark),
        Err(reason) => {
            hand.restore(before);
            nests.iter().try_for_each(|nest| rows::vectorise_nest(hand, nest, 0, target))?;
            Ok(format!("no tiles: {reason}"))
        }
    }
}

/// Nests in an order in which each that initialises stands before the next one that touches what it
/// does; steps find them wherever they are.
pub(super) fn in_order(mut nests: Vec<Nest>) -> Vec<Nest> {
    let mut ordered: Vec<Nest> = Vec::new();
    while let Some(nest) = nests.pop() {
        let written: Vec<BufferId> = nest.writes().map(|write| write.buffer).collect();
        let initialises = nest.loads().next().is_none();
        let touches = |later: &Nest| later.accesses.iter().any(|a| written.contains(&a.buffer));
        match ordered.iter().rposition(touches).filter(|_| initialises) {
            Some(at) => ordered.insert(at + 1, nest),
            None => ordered.push(nest),
        }
    }
    ordered.reverse();
    ordered
}

/// Nests between sums: computed row by row, or each on its own where one of them is needed by more
/// than the last.
fn row_by_row(hand: &mut Hand<'_>, nests: &[Nest], target: &Target) -> Result<(), Refused> {
    if nests.len() > 1 {
        let before = hand.copy();
        if rows::compute(hand, nests, target).is_ok() {
            return Ok(());
        }
        hand.restore(before);
    }
    nests.iter().try_for_each(|nest| rows::vectorise_nest(hand, nest, 0, target))
}

/// Rows in scratch memory begin at whole vectors, and neighbouring ones do not fall on one cache
/// set.
fn part_rows(hand: &mut Hand<'_>, target: &Target) -> Result<(), Refused> {
    let mut wider = Vec::new();
    for buffer in hand.kernel().buffers.values() {
        let shape: Option<Vec<i64>> = buffer.shape.iter().map(Expr::as_constant).collect();
        let Some((&extent, rows)) = shape.as_deref().and_then(<[i64]>::split_last) else {
            continue;
        };
        let bytes = i64::from(buffer.dtype.bits()).max(8) / 8;
        let lanes = (i64::from(target.vector_bytes) / bytes).max(1);
        if buffer.scope != Scope::Scratch || rows.iter().product::<i64>() < 2 || extent < lanes {
            continue;
        }
        let mut wanted = div_ceil(extent, lanes) * lanes;
        if (wanted * bytes) % 1024 == 0 {
            wanted += lanes;
        }
        wider.push((buffer.name.clone(), rows.len(), wanted));
    }
    for (buffer, axis, extent) in wider {
        // Refused where a fold reads the axis as a whole.
        _ = hand.take(ScheduleStep::Pad { buffer, axis, extent });
    }
    Ok(())
}
