//! Compute at: what computes a buffer moves into a loop that uses it.
//!
//! ```text
//! %t: scratch f32[64]
//! for i < 64 { %t[i] = exp(%a[i]) }
//! for jo < 16 { for ji < 4 { %c[4 * jo + ji] = %t[4 * jo + ji] * 2.0 } }
//! ```
//!
//! `compute_at t at jo`
//!
//! ```text
//! %t: scratch f32[4]
//! for jo < 16 {
//!   for i < 4 { %t[i] = exp(%a[4 * jo + i]) }
//!   for ji < 4 { %c[4 * jo + ji] = %t[ji] * 2.0 }
//! }
//! ```
//!
//! All statements that write the buffer (its initialisation and its updates, in their order) move
//! to the loop's body, before the first statement there that reads it. The buffer shrinks to the
//! region that one iteration reads; the producers' loops run over that region, guarded where it may
//! reach beyond what they computed before.
//!
//! Legal: the producers are statements of one block and write nothing else; the loop is inside a
//! later statement of that block, and all other reads are in the loop. Along each axis of which
//! only a part is kept, every access of the producers is `v + c` for one loop `v` of theirs, the
//! same everywhere, so that each index is computed on its own. Where the block is itself repeated,
//! each run of it computes what it reads of the buffer before it reads it. And nothing that a
//! producer reads is written between its old place and the new.

use std::collections::BTreeMap;

use loops::build::{less, less_equal};
use loops::visit::{bound_symbols, references, touched};
use loops::{BufferId, Condition, Kernel, LoopKind, Scope, Stmt, substitute};
use sym::{Expr, SymbolId};

use crate::error::{Outcome, Refusal};
use crate::nest::{
    Site, SymbolRanges, block, block_mut, check_not_vector, find_buffer, find_loop, guarded,
    loop_at,
};
use crate::private::stores_before_reading;
use crate::region::{Part, region};
use crate::state::State;

/// What moves, and where.
struct Plan {
    buffer: BufferId,
    /// Positions of the producers in their block, ascending.
    producers: Vec<usize>,
    /// The loop; its way begins with the way to the producers' block.
    target: Site,
    /// The length of the way to the producers' block.
    depth: usize,
}

/// How a producers' loop that runs over an axis changes.
struct Restriction {
    axis: usize,
    /// `c` where the axis is accessed at `v + c`.
    offset: Expr,
}

pub(crate) fn apply(state: &mut State, buffer: &str, target: &str) -> Outcome {
    let kernel = &state.kernel;
    let plan = plan(kernel, buffer, target)?;
    check_movable(kernel, &plan, buffer)?;
    let ranges = SymbolRanges::of(kernel);
    let home = block(kernel, &plan.target.block[..plan.depth]);
    if plan.depth > 0 && !stores_before_reading(kernel, &ranges, home, plan.buffer) {
        let message = "an iteration of a loop around may read what another one computed";
        return Err(Refusal::at_buffer(buffer, message));
    }
    let body = &loop_at(kernel, &plan.target).body;
    let reads = references(body);
    let reads: Vec<&[Expr]> =
        reads.iter().filter(|r| r.buffer == plan.buffer).map(|r| r.index).collect();
    let parts = region(&ranges, &kernel.buffers[plan.buffer].shape, &reads, &bound_symbols(body));
    let mut moved: Vec<Stmt> = plan.producers.iter().map(|index| home[*index].clone()).collect();
    let restrictions = restrictions(kernel, &plan, &moved, &parts, buffer)?;
    restrict(&mut moved, &restrictions, &parts, &ranges);
    put_in_place(&mut state.kernel, &plan, moved, &parts);
    Ok(())
}

fn uses(stmt: &Stmt, buffer: BufferId) -> (bool, bool) {
    let found = references(std::slice::from_ref(stmt));
    let mut found = found.iter().filter(|r| r.buffer == buffer).peekable();
    (found.peek().is_some(), found.any(|r| r.effect.writes()))
}

/// Finds the producers and checks that all other reads are in the loop.
fn plan(kernel: &Kernel, name: &str, target: &str) -> Outcome<Plan> {
    let buffer = find_buffer(kernel, name)?;
    let target_site = find_loop(kernel, target)?;
    if matches!(kernel.buffers[buffer].scope, Scope::Parameter(_)) {
        return Err(Refusal::at_buffer(
            name,
            "only what a local buffer holds can be computed again",
        ));
    }
    check_not_vector(kernel, &target_site)?;
    // The innermost block on the way to the loop of which a statement writes the buffer.
    let writes_in = |depth: usize| -> Vec<usize> {
        let home = block(kernel, &target_site.block[..depth]);
        let on_the_way = target_site.block.get(depth).map_or(target_site.index, |step| step.stmt);
        (0..home.len()).filter(|i| *i != on_the_way && uses(&home[*i], buffer).1).collect()
    };
    let depth = (0..=target_site.block.len()).rev().find(|depth| !writes_in(*depth).is_empty());
    let Some(depth) = depth else {
        let message = format!("nothing beside the loop `{target}` computes it");
        return Err(Refusal::at_buffer(name, message));
    };
    let plan = Plan { buffer, producers: writes_in(depth), target: target_site, depth };
    let home = block(kernel, &plan.target.block[..depth]);
    let inside = uses_in(&loop_at(kernel, &plan.target).body, buffer);
    let moving: usize = plan.producers.iter().map(|i| uses_in(&home[*i..=*i], buffer).0).sum();
    if inside.1 > 0 {
        let message = format!("it is also written inside the loop `{target}`");
        return Err(Refusal::at_buffer(name, message));
    }
    if inside.0 + moving != uses_in(&kernel.body, buffer).0 {
        let message = format!("it is also used outside of the loop `{target}`");
        return Err(Refusal::at_buffer(name, message));
    }
    Ok(plan)
}

/// How many places of a block touch a buffer, and how many of them write.
fn uses_in(block: &[Stmt], buffer: BufferId) -> (usize, usize) {
    let found = references(block);
    let found = found.iter().filter(|r| r.buffer == buffer);
    (found.clone().count(), found.filter(|r| r.effect.writes()).count())
}

/// The position in the producers' block of the statement that holds the loop.
fn holder(plan: &Plan) -> usize {
    plan.target.block.get(plan.depth).map_or(plan.target.index, |step| step.stmt)
}

/// The producers write only the buffer, and nothing they read changes on the way.
fn check_movable(kernel: &Kernel, plan: &Plan, name: &str) -> Outcome {
    let home = block(kernel, &plan.target.block[..plan.depth]);
    if plan.producers.last().is_some_and(|last| *last > holder(plan)) {
        return Err(Refusal::at_buffer(name, "it is written after the loop"));
    }
    for index in &plan.producers {
        let (mut read, writes) = touched(&home[*index..=*index]);
        if let Some(other) = writes.iter().find(|other| **other != plan.buffer) {
            let other = &kernel.buffers[*other].name;
            return Err(Refusal::at_buffer(name, format!("what writes it writes `{other}` too")));
        }
        if matches!(home[*index], Stmt::While { .. } | Stmt::Let { .. }) {
            return Err(Refusal::at_buffer(name, "only loops and stores can be moved"));
        }
        read.remove(&plan.buffer);
        for passed in (*index..=holder(plan)).filter(|passed| !plan.producers.contains(passed)) {
            let (_, writes) = touched(&home[passed..=passed]);
            if let Some(changed) = writes.intersection(&read).next() {
                let changed = &kernel.buffers[*changed].name;
                let message = format!("`{changed}`, from which it is computed, changes on the way");
                return Err(Refusal::at_buffer(name, message));
            }
        }
    }
    Ok(())
}

/// Which loops of the producers run over which axes. Fails where an axis of which a part is kept is
/// accessed in any other way.
fn restrictions(
    kernel: &Kernel,
    plan: &Plan,
    producers: &[Stmt],
    parts: &[Part],
    name: &str,
) -> Outcome<BTreeMap<SymbolId, Restriction>> {
    let bound = bound_symbols(producers);
    let mut found: BTreeMap<SymbolId, Restriction> = BTreeMap::new();
    for reference in references(producers).iter().filter(|r| r.buffer == plan.buffer) {
        for (axis, part) in parts.iter().enumerate() {
            if *part == Part::Whole {
                continue;
            }
            let refuse = |reason: &str| {
                let message = format!("along axis {axis} it is computed {reason}");
                Err(Refusal::at_buffer(name, message))
            };
            let index = &reference.index[axis];
            let own: Vec<SymbolId> =
                index.symbols().into_iter().filter(|symbol| bound.contains(symbol)).collect();
            let [variable] = own[..] else {
                return refuse("by something else than one loop");
            };
            if index.linear_coefficient(variable) != Some(1)
                || kernel.symbols[variable].kind != loops::SymbolKind::Loop
            {
                return refuse("in steps");
            }
            let offset = index.without(variable);
            match found.get(&variable) {
                Some(known) if known.axis != axis || known.offset != offset => {
                    return refuse("from elements at other places");
                }
                _ => _ = found.insert(variable, Restriction { axis, offset }),
            }
        }
    }
    Ok(found)
}

/// Makes loops run over the region only.
fn restrict(
    block: &mut [Stmt],
    restrictions: &BTreeMap<SymbolId, Restriction>,
    parts: &[Part],
    ranges: &SymbolRanges,
) {
    for stmt in block {
        if let Stmt::For(inner) = stmt
            && let Some(restriction) = restrictions.get(&inner.variable)
            && let Part::Window { lower, extent } = &parts[restriction.axis]
        {
            let moved = lower - &restriction.offset + &Expr::symbol(inner.variable);
            let old = std::mem::replace(&mut inner.extent, Expr::constant(*extent));
            let replacements = BTreeMap::from([(inner.variable, moved.clone())]);
            substitute::substitute(&mut inner.body, &replacements);
            let guards = beyond(&moved, &old, inner.variable, *extent, ranges);
            inner.body = guarded(guards, std::mem::take(&mut inner.body));
        }
        stmt.blocks_mut().for_each(|inner| restrict(inner, restrictions, parts, ranges));
    }
}

/// What must be checked so that `moved` is in `0..old`, as `variable` runs from 0 to `extent`.
fn beyond(
    moved: &Expr,
    old: &Expr,
    variable: SymbolId,
    extent: i64,
    ranges: &SymbolRanges,
) -> Vec<Condition> {
    let inner = loops::Loop {
        variable,
        extent: Expr::constant(extent),
        kind: LoopKind::Serial,
        body: Vec::new(),
    };
    let mut others = moved.symbols();
    others.extend(old.symbols());
    others.retain(|symbol| *symbol != variable);
    let mut known = ranges.within(&[], &others);
    known.enter(&inner);
    let mut guards = vec![less_equal(Expr::ZERO, moved), less(moved, old)];
    guards.retain(|guard| !known.prove(guard));
    guards
}

/// Moves the producers, shrinks the buffer and has everyone index it from the region's start.
fn put_in_place(kernel: &mut Kernel, plan: &Plan, mut moved: Vec<Stmt>, parts: &[Part]) {
    let buffer = plan.buffer;
    let shift = |index: &[Expr]| -> Vec<Expr> {
        index.iter().zip(parts).map(|(expr, part)| expr - &part.lower()).collect()
    };
    substitute::redirect(&mut moved, buffer, buffer, shift);
    let body = block_mut(kernel, &plan.target.body());
    substitute::redirect(body, buffer, buffer, shift);
    let first = body.iter().position(|stmt| uses(stmt, buffer).0).unwrap_or(0);
    body.splice(first..first, moved);
    let shape = &mut kernel.buffers[buffer].shape;
    *shape = shape.iter().zip(parts).map(|(extent, part)| part.extent(extent)).collect();
    let home = block_mut(kernel, &plan.target.block[..plan.depth]);
    for index in plan.producers.iter().rev() {
        home.remove(*index);
    }
}
