//! Simplify: index expressions in simplest form, no superfluous conditions and loops.
//!
//! ```text
//! for i < 8 { if i < 9 { for k < 1 { %c[(4 * i + k) div 4] = 0.0 } } }
//! ```
//!
//! `simplify`
//!
//! ```text
//! for i < 8 { %c[i] = 0.0 }
//! ```
//!
//! Always legal: each rewrite follows from the ranges of the symbols. Index expressions and
//! conditions are simplified after every step anyway; only loops of one iteration wait for this
//! one, since later steps may name them. Loops that never run go too, and so do symbols and local
//! buffers that nothing uses.

use std::collections::BTreeMap;

use base::{Arena, Id, SecondaryMap};
use loops::visit::{own_references, walk, walk_mut};
use loops::{
    Buffer, BufferId, Condition, Kernel, KernelSymbol, LoopKind, Ranges, ScalarExpr, Scope, Stmt,
    SymbolKind, substitute,
};
use sym::{Expr, Memo, SymbolId};

use crate::error::Outcome;
use crate::nest::{Site, SymbolRanges, block, block_mut};
use crate::state::{Form, State};

pub(crate) fn apply(state: &mut State) -> Outcome {
    tidy(state);
    let mut replacements = BTreeMap::new();
    let mut dissolves = false;
    walk(&state.kernel.body, &mut |stmt| {
        if let Stmt::For(inner) = stmt {
            dissolves |= inner.extent.is_zero();
            if inner.extent.is_one() && inner.kind != LoopKind::Parallel {
                replacements.insert(inner.variable, Expr::ZERO);
            }
        }
    });
    if dissolves || !replacements.is_empty() {
        state.substitute(&[], &replacements);
        state.form = Form::Written;
        dissolve(&mut state.kernel.body);
        tidy(state);
    }
    compact(state);
    Ok(())
}

/// Puts all index expressions in simplest form and drops conditions that always hold.
pub(crate) fn tidy(state: &mut State) {
    match std::mem::replace(&mut state.form, Form::Simplest) {
        Form::Simplest => return,
        Form::WrittenAt(site) => {
            expressions_at(&mut state.kernel, &site);
            if cfg!(debug_assertions) {
                let partly = state.kernel.clone();
                expressions(&mut state.kernel);
                assert_eq!(partly, state.kernel, "expressions elsewhere were not simple");
            }
        }
        Form::Given | Form::Written => expressions(&mut state.kernel),
    }
    if state.shifted.is_empty() {
        return;
    }
    let ranges = SymbolRanges::of(&state.kernel);
    for minimum in &mut state.shifted {
        *minimum = ranges.simplify(minimum);
    }
}

/// Simplifies every expression by what is known where it stands; drops conditions that hold, and
/// values under those that do not.
fn expressions(kernel: &mut Kernel) {
    let known = Ranges::new(kernel);
    tidy_block(&mut kernel.body, &known);
}

/// A place in a kernel: what is known there, and what becomes of the expressions met in it.
struct Place<'a> {
    known: &'a Ranges,
    tidied: Memo<Option<Expr>>,
}

impl Place<'_> {
    fn of(known: &Ranges) -> Place<'_> {
        Place { known, tidied: Memo::new() }
    }

    fn expression(&mut self, expr: &mut Expr) {
        let known = self.known;
        self.tidied.rewrite(expr, |terms| (!known.is_simple(terms)).then(|| known.simplify(terms)));
    }
}

/// As [`expressions`], in the loop at a site.
fn expressions_at(kernel: &mut Kernel, site: &Site) {
    let mut known = Ranges::new(kernel);
    for (depth, descent) in site.block.iter().enumerate() {
        match &block(kernel, &site.block[..depth])[descent.stmt] {
            Stmt::For(inner) => known.enter(inner),
            Stmt::If { conditions, .. } if descent.block == 0 => known.assume(conditions),
            _ => {}
        }
    }
    let stmt = &mut block_mut(kernel, &site.block)[site.index];
    tidy_statement(stmt, &mut Place::of(&known));
}

fn tidy_block(block: &mut Vec<Stmt>, known: &Ranges) {
    let mut place = Place::of(known);
    block.iter_mut().for_each(|stmt| tidy_statement(stmt, &mut place));
    let holds = |stmt: &Stmt| matches!(stmt, Stmt::If { conditions, .. } if conditions.is_empty());
    if block.iter().any(holds) {
        for stmt in std::mem::take(block) {
            match stmt {
                Stmt::If { conditions, then, .. } if conditions.is_empty() => block.extend(then),
                stmt => block.push(stmt),
            }
        }
    }
}

fn tidy_statement(stmt: &mut Stmt, place: &mut Place<'_>) {
    stmt.each_expression_mut(&mut |expr| place.expression(expr));
    if let Some(value) = stmt.value_mut() {
        tidy_value(value, place);
    }
    let known = place.known;
    match stmt {
        Stmt::For(inner) => {
            let mut inside = known.clone();
            inside.enter(inner);
            tidy_block(&mut inner.body, &inside);
        }
        Stmt::If { conditions, then, otherwise } => {
            conditions.retain(|condition| !known.prove(condition));
            let mut inside = known.clone();
            inside.assume(conditions);
            tidy_block(then, &inside);
            let mut inside = known.clone();
            if let [only] = &conditions[..] {
                inside.assume(&[only.negated()]);
            }
            tidy_block(otherwise, &inside);
        }
        Stmt::While { setup, body, .. } => {
            tidy_block(setup, known);
            tidy_block(body, known);
        }
        Stmt::Let { .. } | Stmt::Store { .. } | Stmt::Reduce { .. } | Stmt::Prefetch { .. } => {}
    }
}

fn tidy_value(value: &mut ScalarExpr, place: &mut Place<'_>) {
    let (conditions, inner, otherwise) = match value {
        ScalarExpr::Apply { arguments, .. } => {
            return arguments.iter_mut().for_each(|argument| tidy_value(argument, place));
        }
        ScalarExpr::Guard { conditions, value, otherwise } => (conditions, value, otherwise),
        _ => return value.each_expression_mut(&mut |expr| place.expression(expr)),
    };
    for condition in conditions.iter_mut() {
        place.expression(&mut condition.left);
        place.expression(&mut condition.right);
    }
    let known = place.known;
    conditions.retain(|condition| !known.prove(condition));
    if conditions.iter().any(|condition| fails(condition, known)) {
        tidy_value(otherwise, place);
        *value = std::mem::replace(&mut **otherwise, ScalarExpr::Index(Expr::ZERO));
        return;
    }
    let mut inside = known.clone();
    inside.assume(conditions);
    tidy_value(inner, &mut Place::of(&inside));
    tidy_value(otherwise, place);
    if conditions.is_empty() {
        let inner = std::mem::replace(&mut **inner, ScalarExpr::Index(Expr::ZERO));
        *value = inner;
    }
}

/// Whether a condition on one loop never holds, as behind the frame of an image.
fn fails(condition: &Condition, known: &Ranges) -> bool {
    let symbols = condition.left.symbols().len() + condition.right.symbols().len();
    symbols <= 1 && known.prove(&condition.negated())
}

/// Puts the bodies of loops of one iteration in their place and drops loops of none.
fn dissolve(block: &mut Vec<Stmt>) {
    for mut stmt in std::mem::take(block) {
        stmt.blocks_mut().for_each(dissolve);
        match stmt {
            Stmt::For(inner) if inner.extent.is_zero() => {}
            Stmt::For(inner) if inner.extent.is_one() && inner.kind != LoopKind::Parallel => {
                block.extend(inner.body);
            }
            stmt => block.push(stmt),
        }
    }
}

/// Drops local buffers and symbols that nothing uses, numbering the others anew, those of shifted
/// tails with them.
pub(crate) fn compact(state: &mut State) {
    let kernel = &mut state.kernel;
    let Used { buffers: touched, symbols: used } = Used::of(kernel);
    let is_parameter = |buffer: &Buffer| matches!(buffer.scope, Scope::Parameter(_));
    let stays = |id, buffer: &Buffer| touched[id] || is_parameter(buffer);
    if let Some(kept) = fewer(&kernel.buffers, stays) {
        let names = names_of(&kept);
        rename_buffers(&mut kernel.body, &|id| names[id].unwrap_or(id));
        kernel.parameters.iter_mut().for_each(|id| *id = names[*id].unwrap_or(*id));
        kernel.buffers.renumber(&kept);
    }
    let stays =
        |id, symbol: &KernelSymbol| used[id] || matches!(symbol.kind, SymbolKind::Shape { .. });
    if let Some(kept) = fewer(&kernel.symbols, stays) {
        let names = names_of(&kept);
        let name = |symbol: SymbolId| names[symbol].unwrap_or(symbol);
        substitute::rename(&mut kernel.body, &name);
        for (_, buffer) in kernel.buffers.iter_mut() {
            let all = buffer.shape.iter_mut().chain(buffer.strides.iter_mut().flatten());
            all.for_each(|expr| expr.rename(&name));
        }
        state.shifted.retain(|minimum| !minimum.any_symbol(&mut |id| names[id].is_none()));
        state.shifted.iter_mut().for_each(|minimum| minimum.rename(&name));
        kernel.symbols.renumber(&kept);
    }
}

/// The things of an arena that stay; none if all do.
fn fewer<I: Id, T>(arena: &Arena<I, T>, stays: impl Fn(I, &T) -> bool) -> Option<Vec<I>> {
    let stay = arena.iter().filter(|(id, thing)| stays(*id, thing));
    let kept: Vec<I> = stay.map(|(id, _)| id).collect();
    (kept.len() < arena.len()).then_some(kept)
}

/// What things are called once no others are left.
fn names_of<I: Id>(kept: &[I]) -> SecondaryMap<I, Option<I>> {
    let mut names = SecondaryMap::new();
    for (new, &old) in kept.iter().enumerate() {
        names[old] = Some(I::new(new));
    }
    names
}

/// The buffers that a kernel touches and the symbols that it binds: no others occur in it but those
/// of shapes.
#[derive(Default)]
struct Used {
    buffers: SecondaryMap<BufferId, bool>,
    symbols: SecondaryMap<SymbolId, bool>,
}

impl Used {
    fn of(kernel: &Kernel) -> Used {
        let mut used = Used::default();
        walk(&kernel.body, &mut |stmt| {
            if let Some(symbol) = stmt.binds() {
                used.symbols[symbol] = true;
            }
            own_references(stmt, &mut |reference| used.buffers[reference.buffer] = true);
            if let Stmt::Prefetch { buffer, .. } = stmt {
                used.buffers[*buffer] = true;
            }
        });
        used
    }
}

fn rename_buffers(body: &mut [Stmt], name: &dyn Fn(BufferId) -> BufferId) {
    walk_mut(body, &mut |stmt| {
        if let Some(value) = stmt.value_mut() {
            value.walk_mut(&mut |value| {
                if let ScalarExpr::Load { buffer, .. } | ScalarExpr::Fold { buffer, .. } = value {
                    *buffer = name(*buffer);
                }
            });
        }
        if let Stmt::Store { buffer, .. }
        | Stmt::Reduce { buffer, .. }
        | Stmt::Prefetch { buffer, .. } = stmt
        {
            *buffer = name(*buffer);
        }
    });
}
