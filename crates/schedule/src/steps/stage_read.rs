//! Stage read: what a loop's body reads of a buffer is copied first, and read from the copy.
//!
//! ```text
//! for jo < 4 { for k < 32 { for ji < 16 { %c[16 * jo + ji] += %b[16 * jo + ji, k] } } }
//! ```
//!
//! `stage_read b at jo into panel scratch order [1, 0]`
//!
//! ```text
//! %panel: scratch f32[32, 16]
//! for jo < 4 {
//!   for panel_0 < 32 {
//!     for panel_1 < 16 { %panel[panel_0, panel_1] = %b[16 * jo + panel_1, panel_0] }
//!   }
//!   for k < 32 { for ji < 16 { %c[16 * jo + ji] += %panel[k, ji] } }
//! }
//! ```
//!
//! Where the region may reach beyond the buffer, elements beyond are zero in the copy; nothing
//! reads them, since nothing read them before.
//!
//! Legal: the body loads from the buffer, does not fold it, and does not write it; all that is
//! copied has values (the caller's, or stored before the loop). `order` is a permutation of the
//! axes, or empty.

use loops::build::{for_loop, guard, less, less_equal};
use loops::visit::{Effect, bound_symbols, references};
use loops::{
    Access, Buffer, BufferId, Kernel, LoopKind, Ranges, ScalarExpr, Scope, Stmt, substitute,
};
use sym::{Expr, SymbolId};
use tensor::Scalar;

use crate::error::{Outcome, Refusal};
use crate::nest::{
    Site, SymbolRanges, block_mut, check_new_buffer, check_not_vector, find_buffer, find_loop,
    loop_at,
};
use crate::private::stores_before_reading;
use crate::region::{Part, region};
use crate::state::State;
use crate::step::LocalScope;

pub(crate) fn apply(
    state: &mut State,
    buffer: &str,
    target: &str,
    into: &str,
    scope: LocalScope,
    order: &[usize],
) -> Outcome {
    let kernel = &mut state.kernel;
    let source = find_buffer(kernel, buffer)?;
    let site = find_loop(kernel, target)?;
    check_new_buffer(kernel, into)?;
    let axes = kernel.buffers[source].shape.len();
    let order = if order.is_empty() { (0..axes).collect() } else { order.to_vec() };
    let mut sorted = order.clone();
    sorted.sort_unstable();
    if sorted != (0..axes).collect::<Vec<_>>() {
        let message = format!("the order is not a permutation of its {axes} axes");
        return Err(Refusal::at_buffer(buffer, message));
    }
    check_body(kernel, source, &site, buffer, target)?;
    let parts = staged_region(kernel, source, &site);
    let copy = add_copy(kernel, source, &parts, into, scope, &order)?;
    let body = block_mut(kernel, &site.body());
    substitute::replace_loads(body, source, |index| {
        let place = |axis: &usize| &index[*axis] - &parts[*axis].lower();
        ScalarExpr::Load { buffer: copy, index: order.iter().map(place).collect() }
    });
    let nest = Nest::new(kernel, &parts, source, &order, into);
    let ranges = nest.ranges(kernel);
    let inside = guards(&ranges, &nest.there, &kernel.buffers[source]);
    let zero = ScalarExpr::Constant(Scalar::zero(kernel.buffers[source].dtype));
    let mut value = ScalarExpr::Load { buffer: source, index: nest.there.clone() };
    if !inside.is_empty() {
        value = guard(inside, value, zero);
    }
    let store = Stmt::Store { buffer: copy, index: nest.here.clone(), value };
    let stmt = nest.around(store);
    if !has_values(kernel, source, &site, &stmt) {
        let message = format!("elements that the body of `{target}` leaves out may have no value");
        return Err(Refusal::at_buffer(buffer, message));
    }
    block_mut(kernel, &site.body()).insert(0, stmt);
    Ok(())
}

fn check_body(
    kernel: &Kernel,
    source: BufferId,
    site: &Site,
    buffer: &str,
    target: &str,
) -> Outcome {
    let found = loop_at(kernel, site);
    check_not_vector(kernel, site)?;
    let all = references(&found.body);
    let own: Vec<_> = all.iter().filter(|r| r.buffer == source).collect();
    let refuse =
        |what: &str| Err(Refusal::at_buffer(buffer, format!("the body of `{target}` {what}")));
    if own.is_empty() {
        return refuse("does not read it");
    }
    if own.iter().any(|r| r.effect.writes()) {
        return refuse("writes it");
    }
    if own.iter().any(|r| matches!(r.effect, Effect::Fold(_))) {
        return refuse("folds it");
    }
    Ok(())
}

/// The region of a buffer that the body of a loop touches.
pub(crate) fn staged_region(kernel: &Kernel, source: BufferId, site: &Site) -> Vec<Part> {
    let body = &loop_at(kernel, site).body;
    let all = references(body);
    let own: Vec<&[Expr]> = all.iter().filter(|r| r.buffer == source).map(|r| r.index).collect();
    let shape = &kernel.buffers[source].shape;
    region(&SymbolRanges::of(kernel), shape, &own, &bound_symbols(body))
}

/// Adds a local buffer that holds the region, its axes in the given order.
pub(crate) fn add_copy(
    kernel: &mut Kernel,
    source: BufferId,
    parts: &[Part],
    into: &str,
    scope: LocalScope,
    order: &[usize],
) -> Outcome<BufferId> {
    let Buffer { dtype, shape, .. } = kernel.buffers[source].clone();
    let shape: Vec<Expr> = order.iter().map(|axis| parts[*axis].extent(&shape[*axis])).collect();
    let constant = shape.iter().all(|extent| extent.as_constant().is_some());
    if scope == LocalScope::Register && !constant {
        let message = "its region has no constant shape, so registers cannot hold it";
        return Err(Refusal::at_buffer(&kernel.buffers[source].name, message));
    }
    Ok(kernel.add_buffer(into, dtype, shape, scope.into()))
}

/// The loops that copy a region between a buffer and its copy.
pub(crate) struct Nest {
    /// Variables and extents, outermost first, in the order of the copy's axes.
    pub(crate) loops: Vec<(SymbolId, Expr)>,
    /// The index into the copy.
    pub(crate) here: Vec<Expr>,
    /// The index into the buffer.
    pub(crate) there: Vec<Expr>,
}

impl Nest {
    /// Loops named after the copy: `into_0`, `into_1`, ...
    pub(crate) fn new(
        kernel: &mut Kernel,
        parts: &[Part],
        source: BufferId,
        order: &[usize],
        into: &str,
    ) -> Nest {
        let shape = kernel.buffers[source].shape.clone();
        let mut nest = Nest { loops: Vec::new(), here: Vec::new(), there: Vec::new() };
        nest.there = parts.iter().map(Part::lower).collect();
        for (position, axis) in order.iter().enumerate() {
            let variable = kernel.add_loop_variable(&format!("{into}_{position}"));
            nest.loops.push((variable, parts[*axis].extent(&shape[*axis])));
            nest.here.push(Expr::symbol(variable));
            nest.there[*axis] += &Expr::symbol(variable);
        }
        nest
    }

    /// What is known inside of the nest.
    pub(crate) fn ranges(&self, kernel: &Kernel) -> Ranges {
        let mut others: Vec<SymbolId> = self.there.iter().flat_map(Expr::symbols).collect();
        others.retain(|symbol| self.loops.iter().all(|(variable, _)| variable != symbol));
        let mut ranges = SymbolRanges::of(kernel).within(&[], &others);
        for (variable, extent) in &self.loops {
            let (variable, extent, kind) = (*variable, extent.clone(), LoopKind::Serial);
            ranges.enter(&loops::Loop { variable, extent, kind, body: Vec::new() });
        }
        ranges
    }

    /// The loops around a statement.
    pub(crate) fn around(&self, stmt: Stmt) -> Stmt {
        let wrap = |inner, (variable, extent): &(SymbolId, Expr)| {
            for_loop(*variable, extent.clone(), LoopKind::Serial, vec![inner])
        };
        self.loops.iter().rev().fold(stmt, wrap)
    }
}

/// Whether the nest that fills a copy, first in the loop, reads only elements that have a value:
/// the caller's, or stored before the loop.
pub(crate) fn has_values(kernel: &Kernel, original: BufferId, site: &Site, nest: &Stmt) -> bool {
    if let Scope::Parameter(Access::Read | Access::Update) = kernel.buffers[original].scope {
        return true;
    }
    let mut shortened = kernel.clone();
    for (depth, descent) in site.block.iter().enumerate() {
        block_mut(&mut shortened, &site.block[..depth]).truncate(descent.stmt + 1);
    }
    block_mut(&mut shortened, &site.block).truncate(site.index + 1);
    *block_mut(&mut shortened, &site.body()) = vec![nest.clone()];
    stores_before_reading(&shortened, &SymbolRanges::of(&shortened), &shortened.body, original)
}

/// What must hold for an index to lie in the buffer, as far as it is not known to.
pub(crate) fn guards(ranges: &Ranges, index: &[Expr], buffer: &Buffer) -> Vec<loops::Condition> {
    let pairs = index.iter().zip(&buffer.shape);
    let all = pairs.flat_map(|(expr, extent)| [less_equal(Expr::ZERO, expr), less(expr, extent)]);
    all.filter(|condition| !ranges.prove(condition)).collect()
}
