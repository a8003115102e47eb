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

use base::{Arena, SecondaryMap};
use loops::visit::{walk, walk_mut};
use loops::{BufferId, Condition, Kernel, LoopKind, Ranges, Scope, Stmt, SymbolKind, Value};
use sym::{Expr, SymbolId};

use crate::error::Outcome;
use crate::schedule::State;

pub(crate) fn apply(state: &mut State) -> Outcome {
    state.tidy();
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
        dissolve(&mut state.kernel.body);
        state.tidy();
    }
    compact(state);
    Ok(())
}

/// Simplifies every expression by what is known where it stands; drops conditions that hold, and
/// values under those that do not.
pub(crate) fn expressions(kernel: &mut Kernel) {
    let known = Ranges::new(kernel);
    tidy_block(&mut kernel.body, &known);
}

fn tidy_block(block: &mut Vec<Stmt>, known: &Ranges) {
    let mut dissolves = false;
    for stmt in block.iter_mut() {
        stmt.expressions_mut().for_each(|expr| tidy_expression(expr, known));
        if let Some(value) = stmt.value_mut() {
            tidy_value(value, known);
        }
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
                tidy_block(otherwise, known);
                dissolves |= conditions.is_empty();
            }
            Stmt::While { setup, body, .. } => {
                tidy_block(setup, known);
                tidy_block(body, known);
            }
            Stmt::Let { .. } | Stmt::Store { .. } | Stmt::Reduce { .. } => {}
        }
    }
    if dissolves {
        for stmt in std::mem::take(block) {
            match stmt {
                Stmt::If { conditions, then, .. } if conditions.is_empty() => block.extend(then),
                stmt => block.push(stmt),
            }
        }
    }
}

fn tidy_expression(expr: &mut Expr, known: &Ranges) {
    if !known.is_simple(expr) {
        *expr = known.simplify(expr);
    }
}

fn tidy_value(value: &mut Value, known: &Ranges) {
    let (conditions, inner, otherwise) = match value {
        Value::Constant(_) | Value::Symbol(_) => return,
        Value::Index(expr) => return tidy_expression(expr, known),
        Value::Load { index, .. } | Value::Fold { index, .. } => {
            return index.iter_mut().for_each(|expr| tidy_expression(expr, known));
        }
        Value::Apply { arguments, .. } => {
            return arguments.iter_mut().for_each(|argument| tidy_value(argument, known));
        }
        Value::Guard { conditions, value, otherwise } => (conditions, value, otherwise),
    };
    for condition in conditions.iter_mut() {
        tidy_expression(&mut condition.left, known);
        tidy_expression(&mut condition.right, known);
    }
    conditions.retain(|condition| !known.prove(condition));
    if conditions.iter().any(|condition| fails(condition, known)) {
        tidy_value(otherwise, known);
        *value = std::mem::replace(&mut **otherwise, Value::Index(Expr::ZERO));
        return;
    }
    let mut inside = known.clone();
    inside.assume(conditions);
    tidy_value(inner, &inside);
    tidy_value(otherwise, known);
    if conditions.is_empty() {
        let inner = std::mem::replace(&mut **inner, Value::Index(Expr::ZERO));
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
    if kernel.buffers.ids().all(|id| touched[id]) && kernel.symbols.ids().all(|id| used[id]) {
        return;
    }
    let mut buffer_names: BTreeMap<BufferId, BufferId> = BTreeMap::new();
    let mut buffers = Arena::new();
    for (id, buffer) in kernel.buffers.iter() {
        if touched[id] || matches!(buffer.scope, Scope::Parameter(_)) {
            buffer_names.insert(id, buffers.push(buffer.clone()));
        }
    }
    let mut symbol_names: SecondaryMap<SymbolId, Option<SymbolId>> = SecondaryMap::new();
    let mut symbols = Arena::new();
    for (id, symbol) in kernel.symbols.iter() {
        if used[id] || matches!(symbol.kind, SymbolKind::Shape { .. }) {
            symbol_names[id] = Some(symbols.push(symbol.clone()));
        }
    }
    kernel.parameters.iter_mut().for_each(|id| *id = buffer_names[id]);
    let name = |symbol: SymbolId| symbol_names[symbol].unwrap_or(symbol);
    rename(&mut kernel.body, &buffer_names, &name);
    for buffer in buffers.iter_mut().map(|(_, buffer)| buffer) {
        let all = buffer.shape.iter_mut().chain(buffer.strides.iter_mut().flatten());
        all.for_each(|expr| expr.rename(&name));
    }
    state.shifted.retain(|minimum| !minimum.any_symbol(&mut |id| symbol_names[id].is_none()));
    state.shifted.iter_mut().for_each(|minimum| minimum.rename(&name));
    (kernel.buffers, kernel.symbols) = (buffers, symbols);
}

/// The buffers that a kernel touches and the symbols that occur in it.
#[derive(Default)]
struct Used {
    buffers: SecondaryMap<BufferId, bool>,
    symbols: SecondaryMap<SymbolId, bool>,
}

impl Used {
    fn of(kernel: &Kernel) -> Used {
        let mut used = Used::default();
        for buffer in kernel.buffers.values() {
            let all = buffer.shape.iter().chain(buffer.strides.iter().flatten());
            all.for_each(|expr| used.expression(expr));
        }
        walk(&kernel.body, &mut |stmt| {
            if let Stmt::Store { buffer, .. } | Stmt::Reduce { buffer, .. } = stmt {
                used.buffers[*buffer] = true;
            }
            if let Some(symbol) = stmt.binds() {
                used.symbols[symbol] = true;
            }
            stmt.expressions().for_each(|expr| used.expression(expr));
            let Some(value) = stmt.value() else { return };
            value.walk(&mut |value| {
                match value {
                    Value::Symbol(symbol) => used.symbols[*symbol] = true,
                    Value::Load { buffer, .. } | Value::Fold { buffer, .. } => {
                        used.buffers[*buffer] = true;
                    }
                    _ => {}
                }
                value.expressions().for_each(|expr| used.expression(expr));
            });
        });
        used
    }

    fn expression(&mut self, expr: &Expr) {
        expr.any_symbol(&mut |symbol| {
            self.symbols[symbol] = true;
            false
        });
    }
}

/// Gives buffers and symbols other ids, each its own: uses and what binds them.
fn rename(
    body: &mut [Stmt],
    buffers: &BTreeMap<BufferId, BufferId>,
    symbols: &dyn Fn(SymbolId) -> SymbolId,
) {
    walk_mut(body, &mut |stmt| {
        stmt.expressions_mut().for_each(|expr| expr.rename(symbols));
        if let Some(value) = stmt.value_mut() {
            value.walk_mut(&mut |value| {
                value.expressions_mut().for_each(|expr| expr.rename(symbols));
                match value {
                    Value::Symbol(symbol) => *symbol = symbols(*symbol),
                    Value::Load { buffer, .. } | Value::Fold { buffer, .. } => {
                        *buffer = buffers[buffer];
                    }
                    _ => {}
                }
            });
        }
        match stmt {
            Stmt::Store { buffer, .. } | Stmt::Reduce { buffer, .. } => *buffer = buffers[buffer],
            Stmt::For(inner) => inner.variable = symbols(inner.variable),
            Stmt::Let { symbol, .. } => *symbol = symbols(*symbol),
            _ => {}
        }
    });
}
