//! The strategy for statements that each row does by itself: rows side by side, in vectors.
//!
//! Nests over the same rows are joined. The innermost loop over rows is cut into vectors of them.
//! What a row keeps for itself loses the axes along which it is one element (step `shrink`) and
//! gets an element a row of the block (step `privatise`), the block's loop is taken apart, and each
//! part runs in vectors across rows, what it goes through along a row outside of them. Where rows
//! are read or written along themselves, a tile of rows is transposed in registers; loops inside of
//! others, which go over what is kept of a row, are written out, so that it may stay in registers.

use backend::Target;
use loops::visit::{references, touched};
use loops::{Loop, Scope, Stmt};
use schedule::{Schedule, ScheduleStep, Tail};

use crate::fuse::{as_one, flatten};
use crate::given::{Given, Refused};
use crate::hand::{Hand, SHARED};
use crate::lines::join;
use crate::map::{TILE, transposed};
use crate::point::Point;
use crate::rows::registers;
use crate::sketch::is_opaque;
use crate::structure::{Access, Nest};

/// Iterations of a loop over what is kept of a row up to which it is written out.
const WRITTEN_OUT: i64 = 32;

/// Why some kernels are refused.
const APART: &str = "it is not all inside of one loop";

/// See the head of this file.
pub(super) fn apply(
    schedule: &mut Schedule,
    given: &Given<'_>,
    _point: &Point,
    target: &Target,
) -> Result<String, Refused> {
    if target.is_microcontroller() && !is_opaque(&given.naive) {
        return Err("vectors that hold loops are no instructions in C".into());
    }
    let mut hand = Hand::new(schedule);
    if given.naive.kernel.body.len() > 1 {
        let nests = given.nests.as_deref().ok_or(APART)?;
        join(&mut hand, nests, |_, _| false);
        hand.simplify()?;
    }
    let [Stmt::For(outermost)] = &hand.kernel().body[..] else { return Err(APART.into()) };
    let mut outer = rows(&hand, &outermost.clone());
    contiguous_innermost(&mut hand, &mut outer)?;
    let mut inner = fuse_rows(&mut hand, &mut outer)?;
    let lanes = lanes(&hand, &inner, target)?;
    let parts = match hand.split(&inner, lanes, Tail::Shift) {
        Ok(parts) => parts,
        Err(_) => hand.split(&inner, lanes, Tail::Guard)?,
    };
    outer.extend(parts.0);
    inner = parts.1;
    hand.shrink(&inner);
    for buffer in kept(&hand, &inner)? {
        hand.take(ScheduleStep::Privatise { buffer, target: inner.clone() })?;
    }
    whole_tiles(&mut hand, &inner)?;
    for part in take_apart(&mut hand, inner)? {
        side_by_side(&mut hand, &part)?;
    }
    hand.simplify()?;
    registers(&mut hand)?;
    let present = hand.present(&outer);
    let remark = format!("{lanes} rows side by side, {} loops around", present.len());
    Ok(match hand.share_blocks(&present, SHARED) {
        Ok(()) => remark,
        Err(reason) => format!("{remark}; run by one worker: {reason}"),
    })
}

/// The names of the loops over rows: from the outermost one in, as far as they hold nothing else.
fn rows(hand: &Hand<'_>, outermost: &Loop) -> Vec<String> {
    let name = |found: &Loop| hand.kernel().symbols[found.variable].name.clone();
    let (mut names, mut found) = (vec![name(outermost)], outermost);
    while let [Stmt::For(inner)] = &found.body[..] {
        names.push(name(inner));
        found = inner;
    }
    names
}

/// Puts the loop over rows along which most of what is read is contiguous inside of the others.
fn contiguous_innermost(hand: &mut Hand<'_>, rows: &mut [String]) -> Result<(), Refused> {
    let kernel = hand.kernel();
    let innermost = rows.last().and_then(|name| hand.find(name)).ok_or("it has no rows")?;
    let all = references(&innermost.body);
    let is_read = |id| matches!(kernel.buffers[id].scope, Scope::Parameter(loops::Access::Read));
    let loads: Vec<Access> = all
        .iter()
        .filter(|reference| is_read(reference.buffer))
        .map(|reference| Access::new(kernel, reference.buffer, reference.index))
        .collect();
    let contiguous = |name: &str| {
        let Some(found) = hand.find(name) else { return 0 };
        let extent = kernel.weight(&found.extent);
        let unit = |access: &&Access| access.motion_along(found.variable, extent).is_unit();
        loads.iter().filter(unit).count()
    };
    let best = (0..rows.len()).max_by_key(|&at| (contiguous(&rows[at]), at)).unwrap_or(0);
    rows[best..].rotate_left(1);
    hand.reorder(rows)
}

/// Fuses the innermost loop over rows with those around it as long as all that is read and written
/// is met as by one loop; takes it from the names, and returns it.
fn fuse_rows(hand: &mut Hand<'_>, outer: &mut Vec<String>) -> Result<String, Refused> {
    let mut inner = outer.pop().ok_or("it has no rows")?;
    while let Some(next) = outer.last() {
        if !is_one(hand, next, &inner) {
            break;
        }
        inner = hand.fuse(next, &inner)?;
        flatten(hand)?;
        outer.pop();
    }
    Ok(inner)
}

/// Whether two loops, one inside the other, walk every parameter as one loop would.
fn is_one(hand: &Hand<'_>, outer: &str, inner: &str) -> bool {
    let (Some(outer), Some(inner)) = (hand.find(outer), hand.find(inner)) else { return false };
    let kernel = hand.kernel();
    let extents = [kernel.weight(&outer.extent), kernel.weight(&inner.extent)];
    if hand.is_guard(&kernel.symbols[outer.variable].name)
        || hand.is_guard(&kernel.symbols[inner.variable].name)
    {
        return false;
    }
    references(&inner.body).iter().all(|reference| {
        let access = Access::new(kernel, reference.buffer, reference.index);
        let far = access.motion_along(outer.variable, extents[0]);
        let near = access.motion_along(inner.variable, extents[1]);
        as_one(far, near, extents[1])
    })
}

/// Rows to a vector of the widest elements that are kept of a row.
fn lanes(hand: &Hand<'_>, inner: &str, target: &Target) -> Result<i64, Refused> {
    let names = kept(hand, inner)?;
    let buffers = hand.kernel().buffers.values().filter(|buffer| names.contains(&buffer.name));
    let bits = buffers.map(|buffer| i64::from(buffer.dtype.bits())).max();
    let bits = bits.ok_or("it keeps nothing of a row")?.max(8);
    Ok((i64::from(target.vector_bytes) * 8 / bits).max(1))
}

/// The names of the kernel's own buffers that a loop's body writes.
fn kept(hand: &Hand<'_>, name: &str) -> Result<Vec<String>, Refused> {
    let found = hand.find(name).ok_or("its rows are one")?;
    let (_, written) = touched(&found.body);
    let buffers = written.iter().map(|id| &hand.kernel().buffers[*id]);
    let own = buffers.filter(|buffer| !matches!(buffer.scope, Scope::Parameter(_)));
    Ok(own.map(|buffer| buffer.name.clone()).collect())
}

/// Cuts what does not fill a tile off the loops along rows that are transposed tile by tile.
fn whole_tiles(hand: &mut Hand<'_>, inner: &str) -> Result<(), Refused> {
    let found = hand.find(inner).ok_or("its rows are one")?;
    let kernel = hand.kernel();
    let mut cut = Vec::new();
    for stmt in &found.body {
        let alone = Loop { body: vec![stmt.clone()], ..found.clone() };
        let nest = Nest::of(kernel, &Stmt::For(Box::new(alone)));
        let Some(nest) = nest.filter(|nest| nest.loops.len() == 2) else { continue };
        let along = &nest.loops[1];
        if along.extent > WRITTEN_OUT && along.extent % TILE != 0 && moves_apart(&nest, inner) {
            cut.push((along.name.clone(), along.extent / TILE * TILE));
        }
    }
    cut.iter().try_for_each(|(name, at)| hand.cut(name, *at).map(|_| ()))
}

/// Makes a loop of its own of each loop that one holds; the names of these.
fn take_apart(hand: &mut Hand<'_>, name: String) -> Result<Vec<String>, Refused> {
    let mut parts = vec![name];
    while let Some(last) = parts.last().cloned() {
        let found = hand.find(&last).ok_or("its rows are one")?;
        if found.body.len() < 2 {
            break;
        }
        let into = hand.fresh(&parts[0], "part");
        hand.take(ScheduleStep::Fission { target: last, at: 1, into: into.clone() })?;
        parts.push(into);
    }
    Ok(parts)
}

/// Runs a loop over rows in vectors, inside of the loops that it holds but for those over what is
/// kept of a row.
fn side_by_side(hand: &mut Hand<'_>, part: &str) -> Result<(), Refused> {
    let found = hand.find(part).ok_or("its rows are one")?;
    let kernel = hand.kernel();
    let stmt = Stmt::For(Box::new(found.clone()));
    let nest = Nest::of(kernel, &stmt);
    let name = |found: &Loop| kernel.symbols[found.variable].name.clone();
    let mut along = Vec::new();
    let mut block = &found.body;
    while let [Stmt::For(inner)] = &block[..] {
        along.push(name(inner));
        block = &inner.body;
    }
    let mut written_out: Vec<String> = block
        .iter()
        .filter_map(|stmt| match stmt {
            Stmt::For(inner) => Some(name(inner)),
            _ => None,
        })
        .collect();
    if nest.is_some()
        && along.len() >= 2
        && let Some(innermost) = along.pop()
    {
        written_out.push(innermost);
    }
    let apart = nest.as_ref().is_some_and(|nest| moves_apart(nest, part));
    if let [only] = &along[..]
        && written_out.is_empty()
        && hand.extent(only).is_some_and(|extent| apart || extent <= WRITTEN_OUT)
    {
        let only = only.clone();
        let short = hand.extent(&only).is_some_and(|extent| extent <= WRITTEN_OUT);
        let tile = if short { (None, only.clone()) } else { hand.split_whole(&only, TILE)? };
        along = tile.0.into_iter().chain([tile.1.clone()]).collect();
        written_out.push(tile.1);
    }
    let order: Vec<String> = along.iter().cloned().chain([part.to_owned()]).collect();
    hand.reorder(&order)?;
    for name in written_out {
        if hand.extent(&name).is_none_or(|extent| extent > WRITTEN_OUT) {
            return Err("it keeps too much of a row to be written out".into());
        }
        hand.unroll(&name)?;
    }
    hand.vectorise(part)
}

/// Whether an access lies along rows rather than across.
fn moves_apart(nest: &Nest, part: &str) -> bool {
    let Some(across) = nest.loops.iter().position(|found| found.name == part) else { return false };
    let stores_apart = || {
        let mut writes = nest.writes();
        writes.any(|access| !access.motion(&nest.loops[across]).is_vector())
    };
    transposed(nest, across).is_some() || stores_apart()
}
