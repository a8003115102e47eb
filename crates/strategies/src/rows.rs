//! The strategy for reductions with maps around them: a row, or a block of columns, at a time.
//!
//! The loops that every intermediate result shares with the last nest are the row loops. Everything
//! is computed at the innermost of them: reductions into registers, a row that is read more than
//! once into scratch memory. Inside, each nest runs in vectors along its contiguous loop. Where the
//! row loop itself is the contiguous one (statistics over leading axes), a block of it is a row.

use std::collections::{BTreeMap, BTreeSet};
use std::slice;

use backend::Target;
use backend::tile::div_ceil;
use base::{InOrder, IntoTree};
use loops::visit::{Effect, references, walk};
use loops::{BufferId, Kernel, LoopKind, ScalarExpr, Scope, Stmt};
use schedule::{Schedule, ScheduleStep, Tail};
use sym::{Expr, SymbolId};
use tensor::ScalarFunction;

use crate::blocks::in_order;
use crate::fuse::{flatten, fuse_neighbours, is_whole};
use crate::given::{Given, Refused};
use crate::hand::{Hand, SHARED};
use crate::point::Point;
use crate::structure::{Access, LoopInfo, Motion, Nest, Rows, changes};
use crate::sums::in_vectors;
use crate::tile;
use crate::vectors::{VECTORS, lanes, split_any, width};

/// Vectors that are written out at most so that conditions are known for each.
const MOST_KNOWN: i64 = 12;

/// Operations on vectors that a turn of a sum has at most, if all of its innermost terms are
/// written out.
const WRITTEN_OUT: i64 = 32;

/// Rows that share what they have in common well enough: twice as many would save a sixteenth of
/// what a row alone takes for that.
const FEW_ROWS: i64 = 8;

/// Loops that one is cut in at most so that conditions hold throughout or not at all.
const MOST_PARTS: usize = 2;

/// See the head of this file.
pub(super) fn apply(
    schedule: &mut Schedule,
    given: &Given<'_>,
    _point: &Point,
    target: &Target,
) -> Result<String, Refused> {
    let nests = given.nests()?;
    let (_, before) = nests.split_last().ok_or("it does nothing")?;
    let own = |id: &BufferId| !matches!(given.naive.kernel.buffers[*id].scope, Scope::Parameter(_));
    if before.iter().flat_map(Nest::writes).any(|access| !own(&access.buffer)) {
        return Err("an earlier nest has a result of its own".into());
    }
    if before.is_empty() {
        return Err("it keeps no intermediate results".into());
    }
    let mut hand = Hand::new(schedule);
    let outer = compute(&mut hand, nests, target)?;
    registers(&mut hand)?;
    let present = hand.present(&outer);
    let remark = match outer.len() {
        0 => "one row".to_owned(),
        _ => format!("everything at {}", outer.join(", ")),
    };
    Ok(hand.share_if_independent(&present, SHARED, remark))
}

/// Has nests of one block run row by row: what they compute for the last of them is computed at its
/// row loops, and all are run in vectors. The names of the row loops.
pub(super) fn compute(
    hand: &mut Hand<'_>,
    nests: &[Nest],
    target: &Target,
) -> Result<Vec<String>, Refused> {
    let (_, before) = nests.split_last().ok_or("it does nothing")?;
    let locals = local_buffers(hand.kernel(), before);
    let rows = Rows::of(nests, &locals);
    let (outer, tile) = place_rows(hand, nests, &rows, target)?;
    if let Some(target_loop) = outer.last() {
        for id in locals.iter().rev() {
            let name = hand.kernel().buffers[*id].name.clone();
            hand.compute_at(&name, target_loop)?;
        }
    }
    hand.simplify()?;
    if let Some(target_loop) = outer.last() {
        hand.shrink(target_loop);
    }
    flatten(hand)?;
    let around = outer.last().map(String::as_str);
    if let Ok(turn) = hand.attempt(|hand| parts_of_sum(hand, around)) {
        inside(hand, Some(&turn), target)?;
        without_copies(hand)?;
        write_out_registers(hand, Some(&turn), tile);
    }
    inside(hand, around, target)?;
    write_out_registers(hand, around, tile);
    Ok(outer)
}

/// Writes out the rows of a tile in the nests of a block, whose sums are to be in registers, and
/// loops that index what is there.
fn write_out_registers(hand: &mut Hand<'_>, around: Option<&str>, tile: Option<i64>) {
    let nests: Vec<Nest> = hand.block(around).into_iter().flatten().collect();
    let rows = nests.iter().flat_map(|nest| nest.loops.iter().rev().skip(1));
    let rows = rows.filter(|by| Some(by.extent) == tile).map(|by| by.name.clone());
    let mut names: Vec<String> = rows.collect();
    let kernel = hand.kernel();
    let body = around.and_then(|name| hand.find(name)).map_or(&kernel.body, |found| &found.body);
    walk(body, &mut |stmt| {
        let Stmt::For(found) = stmt else { return };
        let by_it = references(&found.body).into_iter().any(|reference| {
            let is_register = kernel.buffers[reference.buffer].scope == Scope::Register;
            is_register && reference.index.iter().any(|index| index.contains(found.variable))
        });
        if by_it && found.kind == LoopKind::Serial {
            names.push(kernel.symbols[found.variable].name.clone());
        }
    });
    for name in names {
        _ = hand.attempt(|hand| hand.unroll(&name));
    }
}

/// Has what one turn of a sum alone reads of a row computed in that turn, so that it is kept in
/// registers: sums of parts that are added up. The loop over the turns.
///
/// ```text
/// for b { part[b, ..] = sum k: .. } for b { acc[..] += f(part[b, ..]) }
/// ```
///
/// becomes
///
/// ```text
/// for b { part[..] = sum k: ..  acc[..] += f(part[..]) }
/// ```
fn parts_of_sum(hand: &mut Hand<'_>, around: Option<&str>) -> Result<String, Refused> {
    let nests: Vec<Nest> = hand.block(around).into_iter().flatten().collect();
    let parts =
        Parts::find(hand.kernel(), &nests).ok_or("no turn of a sum has parts of its own")?;
    let Parts { turn, own, acc, locals } = parts;
    hand.reorder(&[slice::from_ref(&turn), &own].concat())?;
    for &id in locals.iter().rev().filter(|&&id| id != acc) {
        let name = hand.kernel().buffers[id].name.clone();
        hand.compute_at(&name, &turn)?;
    }
    hand.simplify()?;
    in_vectors(hand, &own)?;
    Ok(turn)
}

/// A sum of which each turn has parts of its own.
pub(super) struct Parts {
    /// The loop over the turns, and the others of the nest that adds up.
    turn: String,
    own: Vec<String>,
    /// What is added to.
    acc: BufferId,
    /// The kernel's own buffers in the order in which they are last written.
    locals: Vec<BufferId>,
}

impl Parts {
    /// The last such sum of some nests.
    pub(super) fn find(kernel: &Kernel, nests: &[Nest]) -> Option<Parts> {
        let mut locals = local_buffers(kernel, nests);
        let writes = |nest: &Nest, id| nest.writes().any(|access| access.buffer == id);
        locals.put_in_order_by_key(|&id| nests.iter().rposition(|nest| writes(nest, id)));
        // Those that one nest alone reads, element by element, and sums: by its loop. Of parts that
        // are made of parts the last: the others are computed with them.
        let (turn, own, acc) = locals.iter().rev().find_map(|&part| {
            let mut readers =
                nests.iter().filter(|nest| nest.loads().any(|access| access.buffer == part));
            let (reader, None) = (readers.next()?, readers.next()) else { return None };
            let mut writes = reader.writes();
            let (write, None) = (writes.next()?, writes.next()) else { return None };
            let still: Vec<&LoopInfo> =
                reader.loops.iter().filter(|by| write.motion(by) == Motion::Still).collect();
            // Of several the outermost: the others are met in one turn.
            let &turn = still.first()?;
            // An axis of the parts is that of the turns: none is met in two of them.
            let once = |access: &Access| {
                let along = |index: &Expr| index.as_symbol() == Some(turn.variable);
                let others = access.index.iter().filter(|index| index.contains(turn.variable));
                access.index.iter().any(along) && others.count() == 1
            };
            let parts = reader.loads().filter(|access| access.buffer == part).all(once);
            let summed = |access: &Access| {
                matches!(access.effect, Effect::Reduce(_)) && access.buffer != write.buffer
            };
            let parts = parts && nests.iter().flat_map(Nest::writes).any(summed);
            let sums = matches!(write.effect, Effect::Reduce(_)) && write.buffer != part;
            let others = reader.loops.iter().filter(|by| by.name != turn.name);
            let (summed_in_it, rest): (Vec<&LoopInfo>, Vec<_>) =
                others.partition(|by| still.contains(by));
            let own = [summed_in_it, rest].concat();
            let vector = own.last()?;
            let fits = reader.writes().all(|access| access.motion(vector).is_unit())
                && reader.loads().all(|access| access.motion(vector).is_vector());
            let own: Vec<String> = own.iter().map(|by| by.name.clone()).collect();
            (parts && sums && fits).then(|| (turn.name.clone(), own, write.buffer))
        })?;
        Some(Parts { turn, own, acc, locals })
    }
}

/// Has what reads a copy of a local buffer read the buffer, where that is legal.
fn without_copies(hand: &mut Hand<'_>) -> Result<(), Refused> {
    let mut copies = Vec::new();
    walk(&hand.kernel().body, &mut |stmt| {
        if let Stmt::Store { buffer, value: ScalarExpr::Load { buffer: from, .. }, .. } = stmt {
            copies.push((*buffer, *from));
        }
    });
    let is_local = |id: BufferId| !matches!(hand.kernel().buffers[id].scope, Scope::Parameter(_));
    copies.retain(|(copy, from)| is_local(*copy) && is_local(*from));
    let name = |(copy, _)| hand.kernel().buffers[copy].name.clone();
    let copies: Vec<String> = copies.into_iter().map(name).collect();
    for buffer in copies {
        _ = hand.attempt(|hand| hand.take(ScheduleStep::Inline { buffer }));
    }
    Ok(())
}

/// The kernel's own buffers in the order in which nests first write them.
pub(super) fn local_buffers(kernel: &Kernel, nests: &[Nest]) -> Vec<BufferId> {
    let mut found = Vec::new();
    for access in nests.iter().flat_map(Nest::writes) {
        let local = !matches!(kernel.buffers[access.buffer].scope, Scope::Parameter(_));
        if local && !found.contains(&access.buffer) {
            found.push(access.buffer);
        }
    }
    found
}

/// Puts the row loops outermost; one that is contiguous in what is reduced, or else in the result,
/// is cut into blocks. The names of the loops around the rows, and how many rows are inside, if
/// those are a tile.
fn place_rows(
    hand: &mut Hand<'_>,
    nests: &[Nest],
    all: &Rows,
    target: &Target,
) -> Result<(Vec<String>, Option<i64>), Refused> {
    let Some(last) = nests.last() else { return Ok((Vec::new(), None)) };
    let rows: Vec<usize> = all.loops.iter().copied().collect();
    let mut outer: Vec<String> = rows.iter().map(|&at| last.loops[at].name.clone()).collect();
    let mut inner: Vec<String> = (0..last.loops.len())
        .filter(|at| !rows.contains(at))
        .map(|at| last.loops[at].name.clone())
        .collect();
    let saved = |at: &&usize| {
        let own = is_contiguous(last, &last.loops[**at]);
        (reduced_along(nests, all, **at), own, **at)
    };
    let best = rows.iter().max_by_key(saved);
    let contiguous = best.filter(|at| saved(at).0 > 0 || saved(at).1);
    if let Some(&at) = contiguous.filter(|_| !folds(nests)) {
        let found = &last.loops[at];
        let width = width(hand, last, target, found);
        let (blocks, block) = hand.split_whole(&found.name, width)?;
        outer.retain(|name| *name != found.name);
        outer.extend(blocks);
        inner.push(block);
    }
    let tile = rows_of_parts(hand.kernel(), nests, all, target);
    if let Some((at, count)) = tile {
        let name = &last.loops[at].name;
        let (blocks, block) = hand.split_whole(name, count)?;
        outer.retain(|other| other != name);
        outer.extend(blocks);
        inner.insert(0, block);
    }
    hand.reorder(&[outer.clone(), inner].concat())?;
    Ok((outer, tile.map(|(_, count)| count)))
}

/// The row loop along which an operand of sums of parts stands still, and how many of its rows have
/// the sums of a turn in registers at once, with those that they are added to, or a few without
/// these: each element of that operand is loaded, and computed, once for all of them.
fn rows_of_parts(
    kernel: &Kernel,
    nests: &[Nest],
    rows: &Rows,
    target: &Target,
) -> Option<(usize, i64)> {
    let last = nests.last()?;
    let sums = |nest: &&Nest| nest.writes().all(|it| matches!(it.effect, Effect::Reduce(_)));
    // Between them parts of a turn may be joined, which takes the place of what they had.
    let summing: Vec<(&Nest, &BTreeMap<SymbolId, usize>)> =
        nests.iter().zip(&rows.counterparts).filter(|(nest, _)| sums(nest)).collect();
    let &[(parts, counterparts), .., (whole, of_whole)] = &summing[..] else { return None };
    let write = |nest: &Nest| nest.writes().next().map(|access| access.buffer);
    let written: BTreeSet<_> = summing.iter().map(|(nest, _)| write(nest)).into_set();
    let distinct = written.len() == summing.len();
    // A turn is one of those that add up parts.
    let still = |by: &&LoopInfo| whole.writes().all(|it| it.motion(by) == Motion::Still);
    let turn = whole.loops.iter().find(still)?;
    let lanes = i64::from(target.vector_bytes) / 4;
    let vectors = |nest: &Nest, rows: &BTreeMap<SymbolId, usize>, turns: i64| {
        let moves = |by: &&LoopInfo| nest.writes().any(|it| it.motion(by) != Motion::Still);
        let lane = nest.loops.iter().rev().find(moves)?;
        let inside = |by: &&LoopInfo| *by == lane || !rows.contains_key(&by.variable);
        let elements: i64 =
            nest.loops.iter().filter(moves).filter(inside).map(|by| by.extent).product();
        Some((lane.clone(), div_ceil(elements / turns.max(1), lanes)))
    };
    let (lane, part) = vectors(parts, counterparts, turn.extent)?;
    let (_, sum) = vectors(whole, of_whole, 1)?;
    let at = rows.loops.iter().copied().rev().find(|at| {
        let own = parts.loops.iter().find(|by| counterparts.get(&by.variable) == Some(at));
        let Some(own) = own.filter(|own| own.extent > 1 && !own.is_free()) else { return false };
        // What the vectors walk stands still.
        let (mut walked, mut others): (Vec<&Access>, Vec<_>) =
            parts.loads().partition(|access| access.motion(&lane) != Motion::Still);
        walked.retain(|access| access.motion(own) != Motion::Still);
        others.retain(|access| access.motion(own) != Motion::Still);
        walked.is_empty() && !others.is_empty()
    })?;
    // Beside them: two forms of what stands still, an operand of the rows, two constants.
    let free = i64::from(target.vector_registers) - 2 * sum - 3;
    // What sums are added to is met once a turn: where few rows have room with it, memory takes it.
    // Whole bytes are multiplied in more parts, which want that room.
    let without = if write(parts).is_some_and(|id| sums_fields(kernel, id)) { FEW_ROWS } else { 1 };
    let most = (free / (part + sum).max(1)).max((free / part.max(1)).min(without));
    let most = most.min(last.loops[at].extent);
    let integers = write(parts).is_some_and(|id| kernel.buffers[id].dtype.is_integer());
    let count = div_ceil(last.loops[at].extent, div_ceil(last.loops[at].extent, most.max(1)));
    (distinct && integers && count > 1).then_some((at, count))
}

/// Whether what is added up in a buffer is products of fields of bytes.
fn sums_fields(kernel: &Kernel, sum: BufferId) -> bool {
    let mut found = false;
    walk(&kernel.body, &mut |stmt| {
        if let Stmt::Reduce { buffer, value, .. } = stmt {
            found |= *buffer == sum && is_of_field(value);
        }
    });
    found
}

/// Whether a value is made of bytes of which the highest bit is known to be zero.
fn is_of_field(value: &ScalarExpr) -> bool {
    let ScalarExpr::Apply { function, dtype, arguments } = value else { return false };
    match (function, &arguments[..]) {
        (
            ScalarFunction::And,
            [ScalarExpr::Apply { .. } | ScalarExpr::Load { .. }, ScalarExpr::Constant(mask)],
        ) if dtype.bits() == 8 => (0..128).contains(&mask.as_i64()),
        (ScalarFunction::Lookup, [_, words @ ..]) => words.iter().all(|word| match word {
            ScalarExpr::Constant(word) => word.bits() & 0x8080_8080 == 0,
            _ => false,
        }),
        _ => arguments.iter().any(is_of_field),
    }
}

/// Iterations of the nests that reduce which could be in vectors along a row loop: what they read
/// and write is contiguous along it.
fn reduced_along(nests: &[Nest], rows: &Rows, at: usize) -> i64 {
    let of_nest = |(nest, counterparts): (&Nest, &BTreeMap<SymbolId, usize>)| {
        let combines = |access: &Access| matches!(access.effect, Effect::Reduce(_));
        let along = nest.loops.iter().find(|own| counterparts.get(&own.variable) == Some(&at))?;
        let reads = nest.loads().all(|access| access.motion(along).is_vector());
        let fits = nest.writes().all(combines) && is_contiguous(nest, along) && reads;
        fits.then(|| nest.loops.iter().map(|own| own.extent).product::<i64>())
    };
    nests.iter().zip(&rows.counterparts).filter_map(of_nest).sum()
}

/// Whether everything that a nest writes is contiguous along a loop.
pub(super) fn is_contiguous(nest: &Nest, along: &LoopInfo) -> bool {
    along.extent > 1 && nest.writes().all(|access| access.motion(along).is_unit())
}

/// Whether sums are interleaved, so that rows and not columns are contiguous.
fn folds(nests: &[Nest]) -> bool {
    let mut accesses = nests.iter().flat_map(|nest| &nest.accesses);
    accesses.any(|access| matches!(access.effect, Effect::Fold(_)))
}

/// Runs every nest inside the row loop, or of a kernel without one, in vectors; sums over the rest
/// of a row, as those of windows, in tiles of accumulators where they can be.
fn inside(hand: &mut Hand<'_>, around: Option<&str>, target: &Target) -> Result<(), Refused> {
    let mut nests = in_order(hand.block(around).into_iter().flatten().collect());
    if hand.attempt(|hand| fuse_all(hand, around, &nests)).is_ok() {
        nests = in_order(hand.block(around).into_iter().flatten().collect());
    }
    while !nests.is_empty() {
        let sum = sum_in_front(&nests);
        let tiles = sum.and_then(|ends| {
            let sum = [&nests[..2], slice::from_ref(&nests[ends])].concat();
            hand.attempt(|hand| tile::inside(hand, sum, target)).ok().map(|_| ends)
        });
        match tiles {
            Some(ends) => _ = (nests.remove(ends), nests.drain(..2)),
            None => vectorise_nest(hand, &nests.remove(0), 0, target)?,
        }
    }
    Ok(())
}

/// Fuses loops of the nests in a block that every access walks as one; those of sums in tiles stay,
/// which have axes of their own.
fn fuse_all(hand: &mut Hand<'_>, around: Option<&str>, nests: &[Nest]) -> Result<(), Refused> {
    let mut nests = nests.to_vec();
    while !nests.is_empty() {
        match sum_in_front(&nests) {
            Some(ends) => _ = nests.drain(..=ends),
            None => _ = fuse_neighbours(hand, around, &nests.remove(0))?,
        }
    }
    match is_whole(hand) {
        true => Ok(()),
        false => Err("a position would have to be taken apart".into()),
    }
}

/// The nest that reads accumulators of more than one element, which the first two of some nests
/// initialise and combine; what stands between only initialises.
fn sum_in_front(nests: &[Nest]) -> Option<usize> {
    let [first, update, rest @ ..] = nests else { return None };
    let combines = |access: &Access| matches!(access.effect, Effect::Reduce(_));
    let written = |access: &Access| update.writes().any(|sum| sum.buffer == access.buffer);
    let ends = rest.iter().position(|nest| nest.loads().next().is_some())?;
    let reads = rest[ends].loads().any(written);
    let around = !first.loops.is_empty() && !rest[ends].loops.is_empty();
    (around && reads && update.writes().all(combines)).then_some(ends + 2)
}

/// Runs a nest in vectors along the loop that all accesses walk by ones or not at all, else along
/// one that loads may walk by twos, or as they like: what is computed of them is in vectors even
/// where each lane takes a load. The outermost `common` loops are not candidates.
pub(super) fn vectorise_nest(
    hand: &mut Hand<'_>,
    nest: &Nest,
    common: usize,
    target: &Target,
) -> Result<(), Refused> {
    let own = &nest.loops[common.min(nest.loops.len())..];
    let candidates = |fits: fn(Motion) -> bool| {
        own.iter().rev().filter(move |found| {
            let mut loads = nest.loads().map(|access| access.motion(found));
            let writes = nest.writes().all(|access| access.motion(found).is_unit());
            writes && loads.all(fits)
        })
    };
    let close: fn(Motion) -> bool = |motion| {
        motion.is_vector() || matches!(motion, Motion::Steady { stride: -1 | 2, block: None })
    };
    let any: fn(Motion) -> bool = |_| true;
    for found in candidates(Motion::is_vector).chain(candidates(close)).chain(candidates(any)) {
        if hand.attempt(|hand| sum_in_registers(hand, nest, own, found, target)).is_ok() {
            return Ok(());
        }
        let before = hand.copy();
        if vectorise_loop(hand, own, found, width_of(hand, nest, target, found)).is_ok() {
            return Ok(());
        }
        hand.restore(before);
    }
    Ok(())
}

/// Runs a nest that sums in vectors along a loop, a few of them through all that is summed at once:
/// they wait in registers, not in memory, for each other's terms.
fn sum_in_registers(
    hand: &mut Hand<'_>,
    nest: &Nest,
    own: &[LoopInfo],
    found: &LoopInfo,
    target: &Target,
) -> Result<(), Refused> {
    let writes: Vec<&Access> = nest.writes().collect();
    let [write] = writes[..] else { return Err("it writes several buffers".into()) };
    let others = || own.iter().filter(|other| other.name != found.name);
    let is_summed = |other: &&LoopInfo| write.motion(other) == Motion::Still;
    let name = |other: &LoopInfo| other.name.clone();
    let summed: Vec<String> = others().filter(is_summed).map(name).collect();
    let combines = matches!(write.effect, Effect::Reduce(_));
    if !combines || summed.is_empty() || found.is_free() || hand.is_guard(&found.name) {
        return Err("it sums nothing".into());
    }
    let outer: Vec<String> = others().filter(|other| !is_summed(other)).map(name).collect();
    if outer.is_empty() && is_aligned(hand.kernel(), write.buffer) {
        return Err("its accumulators can be in registers altogether".into());
    }
    let acc = hand.kernel().buffers[write.buffer].name.clone();
    let lanes = lanes(hand, nest, target, found);
    let whole = found.extent / (VECTORS * lanes) * (VECTORS * lanes);
    let sum = Sum { acc: &acc, found: &found.name, outer: &outer, summed: &summed };
    if outer.is_empty() || whole == 0 || whole == found.extent {
        return sum.in_registers(hand, found.extent, lanes);
    }
    // Whole blocks without a condition, then what is left.
    let order = [slice::from_ref(&found.name), &outer, &summed].concat();
    hand.reorder(&order)?;
    let rest = hand.cut(&found.name, whole)?;
    let inside = hand.band(&rest);
    sum.in_registers(hand, whole, lanes)?;
    let (outer, summed) = inside.split_at(outer.len().min(inside.len()));
    Sum { acc: &acc, found: &rest, outer, summed }.in_registers(hand, found.extent - whole, lanes)
}

/// Whether every access to a buffer walks its last axis by a single loop, as vectors may.
fn is_aligned(kernel: &Kernel, id: BufferId) -> bool {
    let accesses = references(&kernel.body);
    accesses.iter().filter(|reference| reference.buffer == id).all(|reference| {
        let last = reference.index.last();
        last.is_none_or(|last| last.as_symbol().is_some() || last.as_constant().is_some())
    })
}

/// A nest that sums: its accumulators, the loop along which they lie side by side, the other loops
/// with which they move, and those over terms.
struct Sum<'a> {
    acc: &'a str,
    found: &'a String,
    outer: &'a [String],
    summed: &'a [String],
}

impl Sum<'_> {
    /// Runs all terms of a few vectors, which are in registers, before those of the next.
    fn in_registers(&self, hand: &mut Hand<'_>, extent: i64, lanes: i64) -> Result<(), Refused> {
        let mut outer = self.outer.to_vec();
        let vectors = div_ceil(extent, lanes);
        let parts = div_ceil(vectors, VECTORS).max(if outer.is_empty() { 2 } else { 1 });
        let width = div_ceil(vectors, parts) * lanes;
        let (split, inner) = hand.split(self.found, width, Tail::Guard)?;
        outer.extend(split);
        let around = outer.last().ok_or("nothing is around the sum")?.clone();
        hand.reorder(&[&outer[..], self.summed, slice::from_ref(&inner)].concat())?;
        hand.vectorise(&inner)?;
        let terms = self.summed.last().and_then(|name| Some((name, hand.extent(name)?)));
        if let Some((name, terms)) = terms
            && terms * div_ceil(width, lanes) <= WRITTEN_OUT
        {
            hand.unroll(name)?;
        }
        hand.keep_in_registers(self.acc, &around)
    }
}

/// Elements of a vector loop: all of one on which conditions depend, unless it is very long, so
/// that they are known while compiling; and all of what is folded, where half of the registers hold
/// it, so that it is in them throughout.
fn width_of(hand: &Hand<'_>, nest: &Nest, target: &Target, found: &LoopInfo) -> i64 {
    let lanes = lanes(hand, nest, target, found);
    let is_known = found.extent <= MOST_KNOWN * lanes && hand.is_guard(&found.name);
    let registers = i64::from(target.vector_registers) / 2;
    let is_held = found.extent <= registers * lanes && writes_what_is_folded(hand.kernel(), nest);
    match !found.is_free() && (is_known || is_held) {
        true => found.extent,
        false => width(hand, nest, target, found),
    }
}

/// Whether all that a nest writes is partial results, which are put together in the end.
fn writes_what_is_folded(kernel: &Kernel, nest: &Nest) -> bool {
    let references = references(&kernel.body);
    nest.writes().all(|access| {
        let mut own = references.iter().filter(|reference| reference.buffer == access.buffer);
        own.any(|reference| matches!(reference.effect, Effect::Fold(_)))
    })
}

fn vectorise_loop(
    hand: &mut Hand<'_>,
    own: &[LoopInfo],
    found: &LoopInfo,
    width: i64,
) -> Result<(), Refused> {
    let others = own.iter().filter(|other| other.name != found.name);
    let mut order: Vec<String> = others.map(|other| other.name.clone()).collect();
    let whole = found.extent / width.max(1) * width;
    let local = hand.computes_local(&found.name) && !hand.is_guard(&found.name) && !found.is_free();
    if local && (1..found.extent).contains(&whole) {
        // Whole blocks without a condition, then what is left.
        order.push(found.name.clone());
        hand.reorder(&order)?;
        let rest = hand.cut(&found.name, whole)?;
        hand.vectorise(&rest)?;
        let (_, inner) = hand.split(&found.name, width, Tail::Exact)?;
        return hand.vectorise(&inner);
    }
    let (split, inner) = split_any(hand, &found.name, width)?;
    order.extend(split);
    order.push(inner.clone());
    hand.reorder(&order)?;
    hand.vectorise(&inner)?;
    own.iter().try_for_each(|other| part_guarded(hand, other))
}

/// Runs iterations of a loop apart from those that need no condition inside: the first and the last
/// ones, between which conditions of this loop alone change, or the last one.
pub(super) fn part_guarded(hand: &mut Hand<'_>, found: &LoopInfo) -> Result<(), Refused> {
    let serial = hand.find(&found.name).filter(|found| found.kind == LoopKind::Serial);
    let is_cut = !found.is_free() && found.extent >= 2 && hand.is_guard(&found.name);
    let Some(own) = serial.filter(|_| is_cut) else {
        return Ok(());
    };
    let inside = |at: &i64| (1..found.extent).contains(at);
    let mut changes: Vec<i64> =
        changes(&own.body, own.variable).into_iter().filter(inside).collect();
    if changes.is_empty() {
        changes.push(found.extent - 1);
    }
    if changes.len() > MOST_PARTS {
        return Ok(());
    }
    let before = hand.copy();
    let mut parts = vec![found.name.clone()];
    for &at in changes.iter().rev() {
        parts.push(hand.cut(&found.name, at)?);
    }
    if parts.iter().all(|part| hand.is_guard(part)) {
        hand.restore(before);
    }
    Ok(())
}

/// Moves to registers what is small and indexed as registers are.
pub(super) fn registers(hand: &mut Hand<'_>) -> Result<(), Refused> {
    let kernel = hand.kernel();
    let mut small = Vec::new();
    for (id, buffer) in kernel.buffers.iter() {
        let local = !matches!(buffer.scope, Scope::Parameter(_));
        let count: Option<i64> = buffer.shape.iter().map(|extent| extent.as_constant()).product();
        if local && count.is_some_and(|count| count <= 256) && fits_registers(kernel, id) {
            small.push(buffer.name.clone());
        }
    }
    small.iter().try_for_each(|name| hand.registers(name))
}

/// Elements that every register's lanes divide.
const VECTOR: i64 = 16;

/// Whether every index is constant once loops are written out, but for the last, which a vector
/// loop may cover from the beginning of a register on.
pub(super) fn fits_registers(kernel: &Kernel, id: BufferId) -> bool {
    let rank = kernel.buffers[id].shape.len();
    let (mut vectors, mut written_out) = (BTreeSet::new(), BTreeSet::new());
    loops::visit::walk(&kernel.body, &mut |stmt| {
        if let Stmt::For(found) = stmt {
            match &found.kind {
                LoopKind::Vector => _ = vectors.insert(found.variable),
                LoopKind::Unroll | LoopKind::Instruction(_) => {
                    _ = written_out.insert(found.variable)
                }
                LoopKind::Serial | LoopKind::Parallel => {}
            }
        }
    });
    references(&kernel.body).iter().filter(|reference| reference.buffer == id).all(|reference| {
        reference.index.iter().enumerate().all(|(axis, index)| {
            let vector = |symbol| axis + 1 == rank && vectors.contains(&symbol);
            let known = index.symbols().iter().all(|symbol| written_out.contains(symbol));
            let begin = index.constant_part();
            let moved = index.clone() - begin;
            known || begin % VECTOR == 0 && moved.as_symbol().is_some_and(vector)
        })
    })
}

/// Joins the outermost loops of neighbouring nests as far as they all agree; how many.
pub(super) fn join_outer(hand: &mut Hand<'_>, nests: &[Nest]) -> usize {
    let Some((first, others)) = nests.split_first() else { return 0 };
    if others.is_empty() {
        return first.loops.len();
    }
    let mut joined = 0;
    for (depth, found) in first.loops.iter().enumerate() {
        let before = hand.copy();
        let all = others.iter().try_for_each(|other| match other.loops.get(depth) {
            Some(own) if own.extent == found.extent => hand.merge(&found.name, &own.name),
            _ => Err("the nests part here".to_owned()),
        });
        if all.is_err() {
            hand.restore(before);
            break;
        }
        joined = depth + 1;
    }
    joined
}
