//! Prefetch: what lies further on than what is loaded of a parameter is asked for.
//!
//! ```text
//! %panel: read f32[4, 768, 32]
//! ```
//!
//! `prefetch panel ahead 98304`
//!
//! ```text
//! %panel: read f32[4, 768, 32] ahead 98304
//! ```
//!
//! Each load asks for its own line further on. Where the turns of loops around load the same, as
//! rows of tiles do of a panel, they may share the lines: each asks for one of those that a turn of
//! the innermost loop meets, which one follows from the number of the turn around.
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
//! A hint to the back end: the meaning stays the same, and so do all bits. Worth it where a part of
//! an operand is met many times before the next part is met at all, as hardware that follows
//! streams of addresses then sees none.
//!
//! Legal: the buffer is a parameter that is only read, and dense; of loops that share, the
//! innermost one holds loads of it that move by a constant number of bytes, which is no more than
//! so many turns can ask for.

use loops::visit::{bound_symbols, own_references};
use loops::{Access, BufferId, Kernel, LoopKind, Scope, Stmt};
use sym::{Expr, SymbolId};

use crate::error::{Outcome, Refusal};
use crate::nest::{Descent, Site, block, block_mut, find_buffer, find_loop, loop_at};
use crate::state::State;

/// Bytes of a line of the caches, on all machines that prefetch.
const LINE: i64 = 64;

/// Lines that one turn asks for at most: more would hold up what it computes.
const MOST_LINES: i64 = 16;

pub(crate) fn apply(state: &mut State, buffer: &str, bytes: u32, shared: &[String]) -> Outcome {
    let id = find_buffer(&state.kernel, buffer)?;
    let found = &mut state.kernel.buffers[id];
    if found.scope != Scope::Parameter(Access::Read) {
        return Err(Refusal::at_buffer(buffer, "only a parameter that is read is prefetched"));
    }
    if shared.is_empty() {
        found.ahead = bytes;
        return Ok(());
    }
    let loops = shared.iter().map(|name| find_loop(&state.kernel, name));
    let mut loops = loops.collect::<Outcome<Vec<Site>>>()?;
    let kernel = &state.kernel;
    let (body, asked) = requests(kernel, id, i64::from(bytes), &loops)
        .map_err(|reason| Refusal::at_buffer(buffer, reason))?;
    block_mut(&mut state.kernel, &body).splice(0..0, asked);
    if let Some(innermost) = loops.pop() {
        state.has_written(innermost);
    }
    Ok(())
}

/// The block in which the innermost of the loops asks, and its requests.
fn requests(
    kernel: &Kernel,
    id: BufferId,
    bytes: i64,
    loops: &[Site],
) -> Result<(Vec<Descent>, Vec<Stmt>), &'static str> {
    let innermost = loops.last().ok_or("no loop shares its lines")?;
    let (mut body, mut turns) = (innermost.body(), None);
    let nested = loops.windows(2).all(|pair| pair[1].block.starts_with(&pair[0].body()));
    if !nested {
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
    let bound = bound_symbols(inside);
    let first = |expr: &Expr| {
        let zero = |symbol| bound.contains(&symbol).then_some(Expr::ZERO);
        expr.substitute(&mut |symbol| zero(symbol))
    };
    let mut index: Vec<Expr> = index.iter().map(first).collect();
    let data = &kernel.buffers[id];
    let element = i64::from(data.dtype.bits()) / 8;
    if element == 0 || LINE % element != 0 || data.strides.is_some() {
        return Err("its elements are no whole bytes, or do not lie side by side");
    }
    let moved = turns.and_then(|turn| moved(data, &index, turn));
    let moved = moved.and_then(|count| count.checked_mul(element));
    let stretch = moved.filter(|moved| *moved > 0).ok_or("its loads move by no known distance")?;
    let extents = loops.iter().map(|site| loop_at(kernel, site).extent.as_constant());
    let extents: Option<Vec<i64>> = extents.collect();
    let extents = extents.ok_or("how many turns share its lines is not known")?;
    let lines = pieces(stretch, LINE);
    let turns = extents.iter().fold(1, |turns: i64, extent| turns.saturating_mul(*extent));
    let sharing = turns.clamp(1, lines);
    let (mut number, mut inner) = (Expr::ZERO, 1_i64);
    for (site, extent) in loops.iter().zip(&extents).rev() {
        number = number + Expr::symbol(loop_at(kernel, site).variable) * inner;
        inner = inner.saturating_mul(*extent);
    }
    let each = pieces(lines, sharing);
    if each > MOST_LINES {
        return Err("a turn meets too many lines for those that share them");
    }
    let own = number.modulo(&Expr::constant(pieces(lines, each))) * (each * LINE / element);
    let Some(last) = index.pop() else { return Err("it is one element") };
    let requests = (0..each).map(|line| {
        let here = &last + &own + (bytes + line * LINE) / element;
        Stmt::Prefetch { buffer: id, index: [index.clone(), vec![here]].concat() }
    });
    Ok((body, requests.collect()))
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
fn moved(data: &loops::Buffer, index: &[Expr], turn: SymbolId) -> Option<i64> {
    let (mut place, mut stride) = (Expr::ZERO, Some(1));
    for (expr, extent) in index.iter().zip(&data.shape).rev() {
        place = place + expr * stride?;
        let both = stride.zip(extent.as_constant());
        stride = both.and_then(|(stride, extent): (i64, i64)| stride.checked_mul(extent));
    }
    let next = place.substitute(&mut |symbol| (symbol == turn).then(|| Expr::symbol(turn) + 1));
    (next - place).as_constant()
}
