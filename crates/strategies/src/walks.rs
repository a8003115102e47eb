//! Asking in time for what loops meet as they walk a buffer that the second-level cache does not
//! keep.
//!
//! Tiles read a few points of several rows, or write them, so that the lines which are met one
//! after the other lie apart: hardware that follows streams of addresses sees none, and memory, to
//! which other kernels and other processes have driven the buffer, serves a third of what it serves
//! of a stream. But the loops around, all their turns counted together, often walk the buffer from
//! one end to the other, so each turn can ask for its part of what later ones meet. Where that is
//! follows from where the accesses are in some of the turns.

use backend::Target;
use loops::visit::own_references;
use loops::{BufferId, Kernel, Loop, LoopKind, Stmt};
use schedule::{Schedule, ScheduleStep, Walk};
use smallvec::SmallVec;
use sym::{Expr, SymbolId};

/// Turns, besides the first, at which it is asked where accesses are.
const SAMPLES: i64 = 13;

/// Bytes from the first to the last that an innermost turn meets, from which on it jumps: hardware
/// follows what lies closer.
const JUMPS: i64 = 1024;

/// Bytes from which on memory has what is asked for before it is met.
const IN_TIME: i64 = 4096;

/// Of so many elements of a part a walk meets one at least: windows in steps of two do of four, but
/// the frame around what others fill is no walk.
const LEFT_OUT: i64 = 4;

/// Lines that a turn asks for, as far as there are loops to share them.
const LINES: i64 = 8;

/// Prefetches what loops will meet, in a kernel whose loops are as they stay.
pub(super) fn ask_ahead(schedule: &mut Schedule, target: &Target) {
    if target.machine.is_serial() {
        return;
    }
    let asks = |step: &ScheduleStep, name: &str| match step {
        ScheduleStep::Prefetch { buffer, .. } => buffer == name,
        _ => false,
    };
    let mut left = target.machine.l2.bytes as i64 / 2;
    for id in schedule.kernel().parameters.clone() {
        let kernel = schedule.kernel();
        let name = &kernel.buffers[id].name;
        if schedule.trace().iter().any(|step| asks(step, name)) {
            continue;
        }
        if let Some((step, bytes)) = walk_through(kernel, id, left, target)
            && schedule.apply(step).is_ok()
        {
            left -= bytes;
        }
    }
}

/// An access, and the loops around it that are inside of those of a walk, with their extents.
struct Access<'a> {
    index: &'a [Expr],
    inner: SmallVec<[(SymbolId, i64); 6]>,
}

/// The step that asks for what loops will meet of a buffer, if they walk it, and how many bytes lie
/// between what is asked for and what is still met, which is no more than is left of a cache.
fn walk_through(
    kernel: &Kernel,
    id: BufferId,
    left: i64,
    target: &Target,
) -> Option<(ScheduleStep, i64)> {
    let buffer = &kernel.buffers[id];
    let shape: Option<SmallVec<[i64; 6]>> = buffer.shape.iter().map(Expr::as_constant).collect();
    let (shape, element) = (shape?, i64::from(buffer.dtype.bits()) / 8);
    let bytes = shape.iter().product::<i64>() * element;
    let machine = &target.machine;
    if bytes as u64 <= machine.l2.bytes || element == 0 {
        return None;
    }
    let strides = match &buffer.strides {
        Some(strides) => strides.iter().map(Expr::as_constant).collect::<Option<_>>()?,
        None => dense(&shape),
    };
    let (chain, inside) = around(kernel, id);
    let turns = |found: &&Loop| found.extent.as_constant().filter(|extent| *extent > 0);
    let extents: SmallVec<[i64; 6]> = chain.iter().map(turns).collect::<Option<_>>()?;
    let met_by = |depth: usize, samples: i64| {
        let block = chain.get(depth).map_or(inside, |_| &chain[depth - 1].body);
        let mut accesses = Vec::new();
        collect(block, id, &mut SmallVec::new(), &mut accesses)?;
        let place = Place { along: &chain[..depth], extents: &extents[..depth], strides: &strides };
        met(&place, &accesses, extents[..depth].iter().product(), samples)
    };
    if met_by(chain.len(), 1)?.least * element < JUMPS {
        return None;
    }
    for depth in 1..=chain.len() {
        if extents[..depth].iter().all(|extent| *extent == 1) {
            continue;
        }
        // What turns of a loop meet again is no walk, and is in a cache.
        if !moves(inside, id, chain[depth - 1].variable) {
            return None;
        }
        let Met { begin, part, before, behind, count, .. } = met_by(depth, SAMPLES)?;
        let [begin, part, before, behind] = [begin, part, before, behind].map(|by| by * element);
        if part < machine.line_bytes || count * element < part / LEFT_OUT {
            return None;
        }
        let ahead = behind + part.max(IN_TIME);
        if ahead + before > left {
            continue;
        }
        let mut inner = depth;
        let lines = |inner: usize| {
            let turns = extents[depth..inner].iter().product::<i64>();
            part / (machine.line_bytes * turns)
        };
        while inner < chain.len() && lines(inner) > LINES {
            inner += 1;
        }
        let name = |found: &&Loop| kernel.symbols[found.variable].name.clone();
        let [along, shared] =
            [&chain[..depth], &chain[depth..inner]].map(|loops| loops.iter().map(name).collect());
        let step = ScheduleStep::Prefetch {
            buffer: buffer.name.clone(),
            bytes: u32::try_from(begin + ahead).ok()?,
            walk: Some(Walk { along, bytes: u32::try_from(part).ok()? }),
            shared,
        };
        return Some((step, ahead + before));
    }
    None
}

/// The strides of a shape whose elements lie side by side.
fn dense(shape: &[i64]) -> SmallVec<[i64; 6]> {
    let inside = |at: usize| shape[at + 1..].iter().product();
    (0..shape.len()).map(inside).collect()
}

/// The loops that are run turn by turn around all accesses to a buffer, outermost first, and the
/// body of the last one.
fn around(kernel: &Kernel, id: BufferId) -> (Vec<&Loop>, &[Stmt]) {
    let (mut chain, mut block): (Vec<&Loop>, _) = (Vec::new(), &kernel.body[..]);
    loop {
        let mut holding = block.iter().filter(|stmt| meets(stmt, id));
        match (holding.next(), holding.next()) {
            (Some(Stmt::For(inner)), None)
                if matches!(inner.kind, LoopKind::Serial | LoopKind::Parallel) =>
            {
                chain.push(inner);
                block = &inner.body;
            }
            _ => return (chain, block),
        }
    }
}

/// Whether a statement meets a buffer.
fn meets(stmt: &Stmt, id: BufferId) -> bool {
    let mut found = false;
    own_references(stmt, &mut |reference| found |= reference.buffer == id);
    found || stmt.blocks().any(|block| block.iter().any(|stmt| meets(stmt, id)))
}

/// Whether an access to a buffer in a block moves with a loop.
fn moves(block: &[Stmt], id: BufferId, variable: SymbolId) -> bool {
    block.iter().any(|stmt| {
        let mut found = false;
        own_references(stmt, &mut |reference| {
            let moves = reference.index.iter().any(|index| index.contains(variable));
            found |= reference.buffer == id && moves;
        });
        found || stmt.blocks().any(|inner| moves(inner, id, variable))
    })
}

/// All accesses to a buffer in a block; none if the extent of a loop around one is not known.
fn collect<'a>(
    block: &'a [Stmt],
    id: BufferId,
    inner: &mut SmallVec<[(SymbolId, i64); 6]>,
    accesses: &mut Vec<Access<'a>>,
) -> Option<()> {
    for stmt in block {
        own_references(stmt, &mut |reference| {
            if reference.buffer == id {
                accesses.push(Access { index: reference.index, inner: inner.clone() });
            }
        });
        match stmt {
            Stmt::For(found) => {
                inner.push((found.variable, found.extent.as_constant()?));
                collect(&found.body, id, inner, accesses)?;
                inner.pop();
            }
            _ => stmt.blocks().try_for_each(|block| collect(block, id, inner, accesses))?,
        }
    }
    Some(())
}

/// Where accesses are in the turns of loops.
struct Place<'a> {
    along: &'a [&'a Loop],
    extents: &'a [i64],
    strides: &'a [i64],
}

impl Place<'_> {
    /// The element that an access meets in a turn of the loops, counted together, in the first or
    /// the last turn of those inside; none where values are asked for it.
    fn of(&self, access: &Access<'_>, mut turn: i64, last: bool) -> Option<i64> {
        let mut values: SmallVec<[(SymbolId, i64); 12]> = SmallVec::new();
        for (found, extent) in self.along.iter().zip(self.extents).rev() {
            values.push((found.variable, turn % extent));
            turn /= extent;
        }
        let inner =
            |(symbol, extent): &(SymbolId, i64)| (*symbol, if last { extent - 1 } else { 0 });
        values.extend(access.inner.iter().map(inner));
        let value = |symbol: SymbolId| {
            values.iter().find(|(own, _)| *own == symbol).map(|(_, value)| *value)
        };
        let mut place = 0;
        for (index, stride) in access.index.iter().zip(self.strides) {
            place += index.evaluate(&value)? * stride;
        }
        Some(place)
    }
}

/// What the turns of loops meet of a buffer, in elements.
struct Met {
    /// Where the first turn begins.
    begin: i64,
    /// By how many a turn is further on than the one before, on average.
    part: i64,
    /// How many at most lie before a walk of such parts from there.
    before: i64,
    /// How many at most lie behind it.
    behind: i64,
    /// The least that lies between the first and the last that a turn meets.
    least: i64,
    /// How many elements a turn meets, counted as often as it meets them.
    count: i64,
}

/// What so many turns meet, from the first and from `samples` others up to the last.
fn met(place: &Place<'_>, accesses: &[Access<'_>], turns: i64, samples: i64) -> Option<Met> {
    // Of many the first and the last are enough, which are the same in all turns.
    let ends = |last: bool| {
        let of = |access: &Access<'_>| place.of(access, turns / 2, last);
        let places: Option<Vec<i64>> = accesses.iter().map(of).collect();
        places.map(|places| places.into_iter().enumerate().map(|(at, place)| (place, at)))
    };
    let first = &accesses[ends(false)?.min()?.1];
    let last = &accesses[ends(true)?.max()?.1];
    let begin = place.of(first, 0, false)?;
    let part = (place.of(first, turns - 1, false)? - begin) / (turns - 1).max(1);
    let turns_inside =
        |access: &Access<'_>| -> i64 { access.inner.iter().map(|(_, extent)| extent).product() };
    let count = accesses.iter().map(turns_inside).sum();
    let mut met = Met { begin, part, before: 0, behind: 0, least: i64::MAX, count };
    for sample in 0..=samples {
        let turn = sample * (turns - 1) / samples;
        let [from, to] = [place.of(first, turn, false)?, place.of(last, turn, true)?];
        let walked = begin + turn * part;
        met.before = met.before.max(walked - from);
        met.behind = met.behind.max(to - walked);
        met.least = met.least.min(to - from);
    }
    Some(met)
}
