//! Replacing parts of a block: symbols by expressions, loads by values, one buffer's places by
//! another's.
//!
//! None of these follow scopes: names are unique within a kernel, so a symbol means one thing
//! wherever it stands. A block that is to appear twice needs [`fresh_copy`].

use std::collections::BTreeMap;

use sym::{Expr, SymbolId};

use crate::kernel::{BufferId, Kernel, Stmt, SymbolKind, Value};
use crate::visit::{bound_symbols, walk_expressions_mut, walk_mut, walk_values_mut};

/// Replaces symbols by expressions wherever they are used; what binds them stays. A value that is
/// such a symbol becomes the expression as an i64.
pub fn substitute(block: &mut [Stmt], replacements: &BTreeMap<SymbolId, Expr>) {
    if replacements.is_empty() {
        return;
    }
    walk_expressions_mut(block, &mut |expr| substitute_expression(expr, replacements));
    walk_values_mut(block, &mut |value| substitute_symbol(value, replacements));
}

/// As [`substitute`], in a value.
pub fn substitute_value(value: &mut Value, replacements: &BTreeMap<SymbolId, Expr>) {
    value.walk_expressions_mut(&mut |expr| substitute_expression(expr, replacements));
    value.walk_mut(&mut |value| substitute_symbol(value, replacements));
}

/// As [`substitute`], in an expression.
pub fn substitute_expression(expr: &mut Expr, replacements: &BTreeMap<SymbolId, Expr>) {
    if expr.any_symbol(&mut |symbol| replacements.contains_key(&symbol)) {
        *expr = expr.substitute(&mut |symbol| replacements.get(&symbol).cloned());
    }
}

fn substitute_symbol(value: &mut Value, replacements: &BTreeMap<SymbolId, Expr>) {
    if let Value::Symbol(symbol) = value
        && let Some(expr) = replacements.get(symbol)
    {
        *value = Value::Index(expr.clone());
    }
}

/// Gives symbols other names' ids, each its own: uses and what binds them.
pub fn rename(block: &mut [Stmt], name: &dyn Fn(SymbolId) -> SymbolId) {
    walk_expressions_mut(block, &mut |expr| expr.rename(name));
    walk_values_mut(block, &mut |value| {
        if let Value::Symbol(symbol) = value {
            *symbol = name(*symbol);
        }
    });
    walk_mut(block, &mut |stmt| match stmt {
        Stmt::For(inner) => inner.variable = name(inner.variable),
        Stmt::Let { symbol, .. } => *symbol = name(*symbol),
        _ => {}
    });
}

/// A copy of a block in which every symbol that it binds is a new one, so that both can stand in
/// the kernel.
pub fn fresh_copy(kernel: &mut Kernel, block: &[Stmt]) -> Vec<Stmt> {
    let mut names = BTreeMap::new();
    for symbol in bound_symbols(block) {
        let (name, kind) =
            (kernel.symbols[symbol].name.clone(), kernel.symbols[symbol].kind.clone());
        let fresh = match kind {
            SymbolKind::Value { dtype, range } => kernel.add_value(&name, dtype, range),
            SymbolKind::Loop | SymbolKind::Shape { .. } => kernel.add_loop_variable(&name),
        };
        names.insert(symbol, fresh);
    }
    let mut copy = block.to_vec();
    rename(&mut copy, &|symbol| names.get(&symbol).copied().unwrap_or(symbol));
    copy
}

/// Replaces every load of a buffer by a value made from its index. Folds stay: they read a buffer
/// as a whole.
pub fn replace_loads(
    block: &mut [Stmt],
    buffer: BufferId,
    mut replacement: impl FnMut(&[Expr]) -> Value,
) {
    walk_values_mut(block, &mut |value| {
        if let Value::Load { buffer: source, index } = value
            && *source == buffer
        {
            *value = replacement(index);
        }
    });
}

/// Moves every access to a buffer, loads and stores and reductions and folds alike, to another
/// buffer at an index made from the old one. A fold's index lacks the last axis.
pub fn redirect(
    block: &mut [Stmt],
    from: BufferId,
    to: BufferId,
    mut place: impl FnMut(&[Expr]) -> Vec<Expr>,
) {
    let mut moved = |buffer: &mut BufferId, index: &mut Vec<Expr>| {
        if *buffer == from {
            *buffer = to;
            *index = place(index);
        }
    };
    walk_values_mut(block, &mut |value| {
        if let Value::Load { buffer, index } | Value::Fold { buffer, index, .. } = value {
            moved(buffer, index);
        }
    });
    walk_mut(block, &mut |stmt| {
        if let Stmt::Store { buffer, index, .. } | Stmt::Reduce { buffer, index, .. } = stmt {
            moved(buffer, index);
        }
    });
}
