//! Prefetch: what lies further on than what is met of a parameter is asked for.
//!
//! ```text
//! for k < 768 { for j < 32 vector { .. %panel[0, k, j] .. } }
//! ```
//!
//! `prefetch panel ahead 4096`
//!
//! ```text
//! for k < 768 { for j < 32 vector {
//!   prefetch %panel[0, k, j + 1024]
//!   .. %panel[0, k, j] ..
//! } }
//! ```
//!
//! Vectors ask for what lies so far behind them, a back end for each line once. Where the turns of
//! loops around load the same, as rows of tiles do of a panel, they may share the lines: each asks
//! for some of those that a turn of the innermost loop meets, which follow from the number of the
//! turn around.
//!
//! ```text
//! for row < 16 { for k < 192 { .. %panel[j, 4 * k + .., ..] .. } }
//! ```
//!
//! `prefetch panel ahead 98304 shared [row]`
//!
//! ```text
//! for row < 16 { for k < 192 {
//!   prefetch %panel[j, 4 * k, 16 * (row mod 8) + 24576]
//!   .. %panel[j, 4 * k + .., ..] ..
//! } }
//! ```
//!
//! Where loads jump among rows of an image, as those of windows do, no load is a guide to what
//! comes next, but the loops around may walk the buffer from one end to the other. Then each of
//! their turns, counted together, asks for its part of the walk, which loops inside of them share.
//!
//! ```text
//! for y < 56 { for x < 14 { for c < 4 { .. %image[2 * y + .., 8 * x + .., 16 * c + ..] .. } } }
//! ```
//!
//! `prefetch image ahead 90112 by 512 along [y, x] shared [c]`
//!
//! ```text
//! for y < 56 { for x < 14 { for c < 4 {
//!   prefetch %image[0, 0, 1792 * y + 128 * x + 32 * c + 22528]
//!   prefetch %image[0, 0, 1792 * y + 128 * x + 32 * c + 22544]
//!   .. %image[2 * y + .., 8 * x + .., 16 * c + ..] ..
//! } } }
//! ```
//!
//! A hint to the back end: the meaning stays the same, and so do all bits. Worth it where a part of
//! an operand is met many times before the next part is met at all, as hardware that follows
//! streams of addresses then sees none.
//!
//! Legal: the buffer is a parameter, and its last axis dense. Vector loops load
//! of it, each lane an element of its own; or the buffer is dense, and of loops that share the
//! innermost one holds loads that move by a constant number of bytes, which is no more than so
//! many turns can ask for; or the loops of a walk have constant extents and hold loads.

use std::collections::BTreeSet;

use loops::visit::{Effect, bound_symbols, own_references, walk};
use loops::{Buffer, BufferId, Kernel, LoopKind, Scope, Stmt};
use sym::{Expr, SymbolId};

use crate::error::{Outcome, Refusal};
use crate::nest::{Descent, Site, block, block_mut, find_buffer, find_loop, loop_at};
use crate::state::{Form, State};
use crate::step::Walk;

/// Bytes of a line of the caches, on all machines that prefetch.
const LINE: i64 = 64;

/// Lines that one turn asks for at most: more would hold up what it computes.
const MOST_LINES: i64 = 16;

pub(crate) fn apply(
    state: &mut State,
    buffer: &str,
    bytes: u32,
    walk: Option<&Walk>,
    shared: &[String],
) -> Outcome {
    let id = find_buffer(&state.kernel, buffer)?;
    let found = &state.kernel.buffers[id];
    if !matches!(found.scope, Scope::Parameter(_)) {
        return Err(Refusal::at_buffer(buffer, "only a parameter is prefetched"));
    }
    let element = element_bytes(found).map_err(|reason| Refusal::at_buffer(buffer, reason))?;
    if shared.is_empty() && walk.is_none() {
        let further = Further { buffer: id, elements: i64::from(bytes) / element };
        if !further.ask(&mut state.kernel.body, None) {
            return Err(Refusal::at_buffer(buffer, "no vector is loaded of it"));
        }
        state.form = Form::Written;
        return Ok(());
    }
    let along = walk.map_or(&[][..], |walk| &walk.along);
    let loops = along.iter().chain(shared).map(|name| find_loop(&state.kernel, name));
    let mut loops = loops.collect::<Outcome<Vec<Site>>>()?;
    let kernel = &state.kernel;
    let asked = match walk {
        Some(walk) => {
            let (outer, inner) = loops.split_at(walk.along.len());
            walked(kernel, (id, element), [bytes, walk.bytes].map(i64::from), outer, inner)
        }
        None => requests(kernel, (id, element), i64::from(bytes), &loops),
    };
    let (body, asked) = asked.map_err(|reason| Refusal::at_buffer(buffer, reason))?;
    block_mut(&mut state.kernel, &body).splice(0..0, asked);
    if let Some(innermost) = loops.pop() {
        state.has_written(innermost);
    }
    Ok(())
}

/// Bytes of an element that lies beside its neighbours.
fn element_bytes(data: &Buffer) -> Result<i64, &'static str> {
    let element = i64::from(data.dtype.bits()) / 8;
    let one = data.strides.as_ref().map(|strides| strides.last().and_then(Expr::as_constant));
    let fits = element > 0 && LINE % element == 0 && one.is_none_or(|one| one == Some(1));
    match fits {
        true => Ok(element),
        false => Err("its elements are no whole bytes, or do not lie side by side"),
    }
}

/// What vectors that are loaded of a buffer ask for: what lies so many elements behind them.
struct Further {
    buffer: BufferId,
    elements: i64,
}

impl Further {
    /// Writes the requests of a block, in a vector loop or in none; whether there are any.
    fn ask(&self, block: &mut Vec<Stmt>, lanes: Option<SymbolId>) -> bool {
        let (mut at, mut asks) = (0, false);
        while at < block.len() {
            let mut requests = Vec::new();
            match &mut block[at] {
                Stmt::For(inner) if !matches!(inner.kind, LoopKind::Instruction(_)) => {
                    let is_vector = inner.kind == LoopKind::Vector;
                    let lanes = if is_vector { Some(inner.variable) } else { lanes };
                    asks |= self.ask(&mut inner.body, lanes);
                }
                stmt @ (Stmt::If { .. } | Stmt::While { .. }) => {
                    stmt.blocks_mut().for_each(|inner| asks |= self.ask(inner, lanes));
                }
                stmt => requests = lanes.map_or(requests, |lanes| self.requests(stmt, lanes)),
            }
            asks |= !requests.is_empty();
            let behind = at + requests.len() + 1;
            block.splice(at..at, requests);
            at = behind;
        }
        asks
    }

    /// What a statement of a vector loop, or an instruction, asks for.
    fn requests(&self, stmt: &Stmt, lanes: SymbolId) -> Vec<Stmt> {
        let all = std::slice::from_ref(stmt);
        let bound = bound_symbols(all);
        let mut requests = Vec::new();
        walk(all, &mut |stmt| {
            own_references(stmt, &mut |reference| {
                let moves = reference.index.iter().any(|expr| expr.contains(lanes));
                if (reference.buffer, reference.effect) != (self.buffer, Effect::Load) || !moves {
                    return;
                }
                let mut index = first_turn(reference.index, &bound);
                let Some(last) = index.pop() else { return };
                index.push(last + self.elements);
                let request = Stmt::Prefetch { buffer: self.buffer, index };
                if !requests.contains(&request) {
                    requests.push(request);
                }
            });
        });
        requests
    }
}

/// An index in the first turn of the loops that bind these symbols.
fn first_turn(index: &[Expr], bound: &BTreeSet<SymbolId>) -> Vec<Expr> {
    let first =
        |expr: &Expr| expr.substitute(&mut |symbol| bound.contains(&symbol).then_some(Expr::ZERO));
    index.iter().map(first).collect()
}

/// The block in which the innermost of the loops asks, and its requests.
fn requests(
    kernel: &Kernel,
    (id, element): (BufferId, i64),
    bytes: i64,
    loops: &[Site],
) -> Result<(Vec<Descent>, Vec<Stmt>), &'static str> {
    let innermost = loops.last().ok_or("no loop shares its lines")?;
    let (mut body, mut turns) = (innermost.body(), None);
    if !hold_each_other(loops) {
        return Err("the loops that share its lines do not hold each other");
    }
    // Down to the innermost loop that is run turn by turn.
    let loads = |stmt: &Stmt| first_index(std::slice::from_ref(stmt), id).is_some();
    while let Some(at) = block(kernel, &body).iter().position(loads)
        && let Stmt::For(inner) = &block(kernel, &body)[at]
        && inner.kind == LoopKind::Serial
    {
        turns = Some(inner.variable);
        body = Site { block: body, index: at }.body();
    }
    let inside = block(kernel, &body);
    let index = first_index(inside, id).ok_or("nothing is loaded of it there")?;
    let mut index = first_turn(index, &bound_symbols(inside));
    let data = &kernel.buffers[id];
    if data.strides.is_some() {
        return Err("it is not dense");
    }
    let moved = turns.and_then(|turn| moved(data, &index, turn));
    let moved = moved.and_then(|count| count.checked_mul(element));
    let stretch = moved.filter(|moved| *moved > 0).ok_or("its loads move by no known distance")?;
    let (number, turns) =
        turn(kernel, loops).ok_or("how many turns share its lines is not known")?;
    let lines = pieces(stretch, LINE);
    let each = pieces(lines, turns.clamp(1, lines));
    let own = number.modulo(&Expr::constant(pieces(lines, each))) * (each * LINE / element);
    let last = index.pop().ok_or("it is one element")?;
    Ok((body, lines_from((id, element), &index, &(last + own + bytes / element), each)?))
}

/// The block in which the innermost loop asks, and its requests: for lines of the part that begins
/// so many bytes behind the place where the turn of the walk is, the next turn being so many bytes
/// further on. Loops inside of those of the walk share them.
fn walked(
    kernel: &Kernel,
    (id, element): (BufferId, i64),
    [ahead, part]: [i64; 2],
    along: &[Site],
    shared: &[Site],
) -> Result<(Vec<Descent>, Vec<Stmt>), &'static str> {
    let loops = [along, shared].concat();
    let innermost = loops.last().filter(|_| !along.is_empty()).ok_or("no loop walks it")?;
    if !hold_each_other(&loops) {
        return Err("the loops that walk it and share its lines do not hold each other");
    }
    if part == 0 || part % element != 0 || ahead % element != 0 {
        return Err("the walk is not by whole elements");
    }
    let body = innermost.body();
    first_index(block(kernel, &body), id).ok_or("nothing is loaded of it there")?;
    let [place, own] = [along, shared].map(|loops| turn(kernel, loops));
    let ((place, _), (own, turns)) =
        place.zip(own).ok_or("how many turns walk it and share its lines is not known")?;
    let lines = pieces(part, LINE);
    let each = pieces(lines, turns.clamp(1, lines));
    // Those that share the lines of a part may be somewhat more than there are lines.
    let own = match turns * each >= 2 * lines {
        true => own.modulo(&Expr::constant(pieces(lines, each))),
        false => own,
    };
    let first = (place * part + own * (each * LINE) + ahead).floor_div(&Expr::constant(element));
    let index = vec![Expr::ZERO; kernel.buffers[id].shape.len().saturating_sub(1)];
    Ok((body, lines_from((id, element), &index, &first, each)?))
}

/// Whether each loop is inside of the one before.
fn hold_each_other(loops: &[Site]) -> bool {
    loops.windows(2).all(|pair| pair[1].block.starts_with(&pair[0].body()))
}

/// The number of a turn of loops around each other, all counted together, and how many turns there
/// are; none if that is not known.
fn turn(kernel: &Kernel, loops: &[Site]) -> Option<(Expr, i64)> {
    let (mut number, mut turns) = (Expr::ZERO, 1_i64);
    for site in loops.iter().rev() {
        let found = loop_at(kernel, site);
        number = number + Expr::symbol(found.variable) * turns;
        turns = turns.checked_mul(found.extent.as_constant()?)?;
    }
    Some((number, turns))
}

/// Requests for so many lines from an element on.
fn lines_from(
    (buffer, element): (BufferId, i64),
    index: &[Expr],
    first: &Expr,
    count: i64,
) -> Result<Vec<Stmt>, &'static str> {
    if count > MOST_LINES {
        return Err("a turn meets too many lines for those that share them");
    }
    let request = |line: i64| {
        let here = first + line * LINE / element;
        Stmt::Prefetch { buffer, index: [index.to_vec(), vec![here]].concat() }
    };
    Ok((0..count).map(request).collect())
}

/// How many pieces of `b` cover `a`, both positive.
fn pieces(a: i64, b: i64) -> i64 {
    (a - 1) / b + 1
}

/// Where the first load of a buffer is, in a block.
fn first_index(block: &[Stmt], id: BufferId) -> Option<&[Expr]> {
    block.iter().find_map(|stmt| {
        let mut found = None;
        own_references(stmt, &mut |reference| {
            if reference.buffer == id && found.is_none() {
                found = Some(reference.index);
            }
        });
        found.or_else(|| stmt.blocks().find_map(|inner| first_index(inner, id)))
    })
}

/// By how many elements a dense buffer's index moves from one turn to the next.
fn moved(data: &Buffer, index: &[Expr], turn: SymbolId) -> Option<i64> {
    let (mut place, mut stride) = (Expr::ZERO, Some(1));
    for (expr, extent) in index.iter().zip(&data.shape).rev() {
        place = place + expr * stride?;
        let both = stride.zip(extent.as_constant());
        stride = both.and_then(|(stride, extent): (i64, i64)| stride.checked_mul(extent));
    }
    let next = place.substitute(&mut |symbol| (symbol == turn).then(|| Expr::symbol(turn) + 1));
    (next - place).as_constant()
}
