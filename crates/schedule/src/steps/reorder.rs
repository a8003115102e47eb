//! Reorder: loops of a perfect nest change places.
//!
//! ```text
//! for i < 8 { for j < 4 { if i + j < 9 { body(i, j) } } }
//! ```
//!
//! `reorder [j, i]`
//!
//! ```text
//! for j < 4 { for i < 8 { if i + j < 9 { body(i, j) } } }
//! ```
//!
//! The band reaches from the outermost to the innermost named loop; nothing may stand in it but
//! loops and conditions. The named loops take the places of the named loops, other loops of the
//! band keep theirs. Each condition then stands as far out as the symbols it needs allow.
//!
//! Legal: no extent uses a variable that is now bound further in, and instances that touch an
//! element, at least one writing, keep their order: no dependence that the old order carries runs
//! backwards in the new one. Reductions commute where they are associative to the bit (minima,
//! maxima, bits, integers), so only floating-point sums and products hold their loops in order.
//! Buffers private to the band's body depend on nothing across iterations.

use std::collections::{BTreeMap, BTreeSet};

use base::IntoTree;
use loops::{Condition, Kernel, Loop, LoopKind, Stmt};
use sym::{Expr, SymbolId};

use crate::dependence::{Direction, Directions, Tester};
use crate::error::{Outcome, Refusal};
use crate::linear::Unknown;
use crate::nest::{Descent, Site, SymbolRanges, block, block_mut, condition_symbols};
use crate::nest::{find_loop, guarded, loop_at};
use crate::private::is_private;
use crate::state::{Form, State};
use crate::steps::parallelise::{Spared, check_independent};

/// A loop without its body.
#[derive(Clone)]
struct Header {
    variable: SymbolId,
    extent: Expr,
    kind: LoopKind,
}

/// A perfect nest taken apart.
struct Band {
    headers: Vec<Header>,
    conditions: Vec<Condition>,
    /// The way to what it holds.
    body: Vec<Descent>,
}

pub(crate) fn apply(state: &mut State, order: &[String]) -> Outcome {
    let kernel = &state.kernel;
    let distinct: BTreeSet<&String> = order.iter().into_set();
    if order.is_empty() || distinct.len() < order.len() {
        return Err(Refusal::in_kernel("a new order names each loop once"));
    }
    let sites = order.iter().map(|name| find_loop(kernel, name)).collect::<Outcome<Vec<_>>>()?;
    let outermost = sites.iter().min_by_key(|site| site.block.len()).expect("at least one loop");
    let band = take_apart(kernel, outermost, order)?;
    let headers = permuted(kernel, &band, order);
    let variables = |headers: &[Header]| -> Vec<SymbolId> {
        headers.iter().map(|header| header.variable).collect()
    };
    if band.conditions.is_empty() && variables(&headers) == variables(&band.headers) {
        return Ok(());
    }
    check_extents(kernel, &band, &headers)?;
    check_kinds(kernel, &headers, block(kernel, &band.body))?;
    check_order(state, outermost, &band, &headers)?;
    check_vectors(kernel, &headers, &band)?;
    let body = std::mem::take(block_mut(&mut state.kernel, &band.body));
    if !band.conditions.is_empty() {
        // They are known elsewhere now.
        state.form = Form::Written;
    }
    let stmts = put_together(headers, band.conditions, body);
    block_mut(&mut state.kernel, &outermost.block).splice(outermost.index..=outermost.index, stmts);
    Ok(())
}

/// The band that starts at a loop and ends at the last of the named ones.
fn take_apart(kernel: &Kernel, outermost: &Site, order: &[String]) -> Outcome<Band> {
    let first = loop_at(kernel, outermost);
    let mut missing: BTreeSet<&str> = order.iter().map(String::as_str).into_set();
    let header = |found: &Loop| Header {
        variable: found.variable,
        extent: found.extent.clone(),
        kind: found.kind.clone(),
    };
    let (headers, conditions) = (vec![header(first)], Vec::new());
    let mut band = Band { headers, conditions, body: outermost.body() };
    missing.remove(kernel.symbols[first.variable].name.as_str());
    let mut body = &first.body;
    while let Some(next) = missing.first() {
        match &body[..] {
            [Stmt::For(inner)] => {
                missing.remove(kernel.symbols[inner.variable].name.as_str());
                band.headers.push(header(inner));
                body = &inner.body;
            }
            [Stmt::If { conditions, then, otherwise }] if otherwise.is_empty() => {
                band.conditions.extend(conditions.iter().cloned());
                body = then;
            }
            _ => {
                let outer = &kernel.symbols[first.variable].name;
                let message = format!("`{outer}` and `{next}` are not loops of one perfect nest");
                return Err(Refusal::at_loop(next, message));
            }
        }
        band.body.push(Descent { stmt: 0, block: 0 });
    }
    Ok(band)
}

/// The band's loops in the new order.
fn permuted(kernel: &Kernel, band: &Band, order: &[String]) -> Vec<Header> {
    let name = |header: &Header| &kernel.symbols[header.variable].name;
    let mut named =
        order.iter().filter_map(|wanted| band.headers.iter().find(|header| name(header) == wanted));
    let pick = |header: &Header| match order.contains(name(header)) {
        true => named.next().unwrap_or(header).clone(),
        false => header.clone(),
    };
    band.headers.iter().map(pick).collect()
}

/// No extent may use a variable bound further in.
fn check_extents(kernel: &Kernel, band: &Band, headers: &[Header]) -> Outcome {
    let mut unbound: BTreeSet<SymbolId> = band.headers.iter().map(|h| h.variable).into_set();
    for header in headers {
        if let Some(used) = header.extent.symbols().iter().find(|s| unbound.contains(s)) {
            let (name, used) = (&kernel.symbols[header.variable].name, &kernel.symbols[*used].name);
            return Err(Refusal::at_loop(name, format!("its extent depends on `{used}`")));
        }
        unbound.remove(&header.variable);
    }
    Ok(())
}

/// Vector loops stay innermost but for unrolled ones, the parallel loop outermost.
fn check_kinds(kernel: &Kernel, headers: &[Header], body: &[Stmt]) -> Outcome {
    let mut plain_inside = false;
    loops::visit::walk(body, &mut |stmt| {
        plain_inside |= matches!(stmt, Stmt::For(inner) if !inner.kind.is_written_out());
    });
    for (position, header) in headers.iter().enumerate().rev() {
        let name = &kernel.symbols[header.variable].name;
        if header.kind == LoopKind::Vector && plain_inside {
            return Err(Refusal::at_loop(name, "a vector loop holds no loops but unrolled ones"));
        }
        if header.kind == LoopKind::Parallel && position > 0 {
            return Err(Refusal::at_loop(name, "the parallel loop is the outermost"));
        }
        plain_inside |= !header.kind.is_written_out();
    }
    Ok(())
}

/// Lanes of vector loops, which may hold other loops now, stay independent.
fn check_vectors(kernel: &Kernel, headers: &[Header], band: &Band) -> Outcome {
    let body = block(kernel, &band.body);
    let mut vectors = headers.iter().any(|header| header.kind == LoopKind::Vector);
    loops::visit::walk(body, &mut |stmt| {
        vectors |= matches!(stmt, Stmt::For(inner) if inner.kind == LoopKind::Vector);
    });
    if !vectors {
        return Ok(());
    }
    let stmts = put_together(headers.to_vec(), band.conditions.clone(), body.clone());
    let ranges = SymbolRanges::of(kernel);
    let mut result = Ok(());
    loops::visit::walk(&stmts, &mut |stmt| {
        if let Stmt::For(inner) = stmt
            && inner.kind == LoopKind::Vector
            && result.is_ok()
        {
            result = check_independent(kernel, &ranges, inner, &[], Spared::Nothing);
        }
    });
    result
}

/// Every dependence must keep its direction.
fn check_order(state: &State, outermost: &Site, band: &Band, headers: &[Header]) -> Outcome {
    let kernel = &state.kernel;
    let ranges = SymbolRanges::of(kernel);
    // The test needs the band's variables bound within the block it looks at.
    let nest = std::slice::from_ref(&block(kernel, &outermost.block)[outermost.index]);
    let tester = Tester::new(kernel, &ranges, nest, &state.shifted);
    let digits = |headers: &[Header]| -> Vec<Unknown> {
        headers.iter().flat_map(|header| tester.digits(header.variable)).collect()
    };
    let (old, new) = (digits(&band.headers), digits(headers));
    let mut private = BTreeMap::new();
    for (first, second) in tester.ordered_pairs(true) {
        let buffer = tester.accesses[first].buffer;
        let is_private = *private
            .entry(buffer)
            .or_insert_with(|| is_private(kernel, &ranges, block(kernel, &band.body), buffer));
        if is_private {
            continue;
        }
        for (a, b) in [(first, second), (second, first)] {
            if let Some(unknown) = reversed(&tester, a, b, &old, &new) {
                let Unknown::Digit(variable, _) = unknown else { continue };
                let (name, buffer) = (&kernel.symbols[variable].name, &kernel.buffers[buffer].name);
                let message =
                    format!("elements of `{buffer}` would be touched in another order of `{name}`");
                return Err(Refusal::at_loop(name, message));
            }
        }
    }
    Ok(())
}

/// The loop, if any, whose order two dependent instances rely on and lose: they part first at
/// `old[p]`, upwards, in the old order, and first at `new[q]`, downwards, in the new one.
fn reversed(
    tester: &Tester,
    first: usize,
    second: usize,
    old: &[Unknown],
    new: &[Unknown],
) -> Option<Unknown> {
    for (p, upwards) in old.iter().enumerate() {
        for (q, downwards) in new.iter().enumerate() {
            if old[..p].contains(downwards) || new[..q].contains(upwards) || upwards == downwards {
                continue;
            }
            let mut given = Directions::default();
            old.iter().for_each(|unknown| given.insert(*unknown, Direction::Any));
            let equal = old[..p].iter().chain(&new[..q]);
            equal.for_each(|unknown| given.insert(*unknown, Direction::Equal));
            given.insert(*upwards, Direction::Less);
            given.insert(*downwards, Direction::Greater);
            if tester.may_conflict(first, second, &given) {
                return Some(*upwards);
            }
        }
    }
    None
}

/// The nest of these loops, each condition as far out as it may stand.
fn put_together(
    headers: Vec<Header>,
    mut conditions: Vec<Condition>,
    mut body: Vec<Stmt>,
) -> Vec<Stmt> {
    for header in headers.into_iter().rev() {
        let needs = |c: &Condition| condition_symbols(c).contains(&header.variable);
        let (here, further): (Vec<_>, Vec<_>) = conditions.into_iter().partition(needs);
        conditions = further;
        let Header { variable, extent, kind } = header;
        body =
            vec![Stmt::For(Box::new(Loop { variable, extent, kind, body: guarded(here, body) }))];
    }
    guarded(conditions, body)
}
