//! Replacing parts of a block: symbols by expressions, loads by values, one buffer's places by
//! another's.
//!
//! None of these follow scopes: names are unique within a kernel, so a symbol means one thing
//! wherever it stands. A block that is to appear twice needs [`fresh_copy`].

use std::collections::BTreeMap;

use sym::{Expr, Memo, SymbolId};

use crate::kernel::{BufferId, Kernel, ScalarExpr, Stmt, SymbolKind};
use crate::visit::{bound_symbols, walk_mut, walk_values_mut};

/// Replaces symbols by expressions wherever they are used; what binds them stays. A value that is
/// such a symbol becomes the expression as an i64.
pub fn substitute(block: &mut [Stmt], replacements: &BTreeMap<SymbolId, Expr>) {
    if replacements.is_empty() {
        return;
    }
    let mut known = Memo::new();
    walk_mut(block, &mut |stmt| {
        stmt.each_expression_mut(&mut |expr| substitute_known(expr, replacements, &mut known));
        if let Some(value) = stmt.value_mut() {
            substitute_in_value(value, replacements, &mut known);
        }
    });
}

/// As [`substitute`], in a value.
pub fn substitute_value(value: &mut ScalarExpr, replacements: &BTreeMap<SymbolId, Expr>) {
    substitute_in_value(value, replacements, &mut Memo::new());
}

/// As [`substitute`], in an expression.
pub fn substitute_expression(expr: &mut Expr, replacements: &BTreeMap<SymbolId, Expr>) {
    if let Some(substituted) = substituted(expr, replacements) {
        *expr = substituted;
    }
}

fn substitute_in_value(
    value: &mut ScalarExpr,
    replacements: &BTreeMap<SymbolId, Expr>,
    known: &mut Memo<Option<Expr>>,
) {
    value.walk_mut(&mut |value| match value {
        ScalarExpr::Symbol(symbol) => {
            if let Some(expr) = replacements.get(symbol) {
                *value = ScalarExpr::Index(expr.clone());
            }
        }
        _ => value.each_expression_mut(&mut |expr| substitute_known(expr, replacements, known)),
    });
}

fn substitute_known(
    expr: &mut Expr,
    replacements: &BTreeMap<SymbolId, Expr>,
    known: &mut Memo<Option<Expr>>,
) {
    known.rewrite(expr, |terms| substituted(terms, replacements));
}

/// The expression with the symbols replaced; none if it has none of them.
fn substituted(expr: &Expr, replacements: &BTreeMap<SymbolId, Expr>) -> Option<Expr> {
    let occur = expr.any_symbol(&mut |symbol| replacements.contains_key(&symbol));
    occur.then(|| expr.substitute(&mut |symbol| replacements.get(&symbol).cloned()))
}

/// Gives symbols other names' ids, each its own: uses and what binds them.
pub fn rename(block: &mut [Stmt], name: &dyn Fn(SymbolId) -> SymbolId) {
    let mut known = Memo::new();
    let mut renamed = |expr: &mut Expr| {
        known.rewrite(expr, |terms| {
            let mut terms = terms.clone();
            terms.rename(name);
            Some(terms)
        });
    };
    walk_mut(block, &mut |stmt| {
        stmt.each_expression_mut(&mut renamed);
        if let Some(value) = stmt.value_mut() {
            value.walk_mut(&mut |value| match value {
                ScalarExpr::Symbol(symbol) => *symbol = name(*symbol),
                _ => value.each_expression_mut(&mut renamed),
            });
        }
        match stmt {
            Stmt::For(inner) => inner.variable = name(inner.variable),
            Stmt::Let { symbol, .. } => *symbol = name(*symbol),
            _ => {}
        }
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
    mut replacement: impl FnMut(&[Expr]) -> ScalarExpr,
) {
    walk_values_mut(block, &mut |value| {
        if let ScalarExpr::Load { buffer: source, index } = value
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
        if let ScalarExpr::Load { buffer, index } | ScalarExpr::Fold { buffer, index, .. } = value {
            moved(buffer, index);
        }
    });
    walk_mut(block, &mut |stmt| {
        if let Stmt::Store { buffer, index, .. } | Stmt::Reduce { buffer, index, .. } = stmt {
            moved(buffer, index);
        }
    });
}
