//! Hoist: what is the same in all turns of a loop is bound before it.
//!
//! ```text
//! for i < 8 { for j < 16 vector { let at: i64 in 0..=4 = %places[i]; %c[i, j] = %a[at, j] } }
//! ```
//!
//! `hoist`
//!
//! ```text
//! for i < 8 { let at: i64 in 0..=4 = %places[i]; for j < 16 vector { %c[i, j] = %a[at, j] } }
//! ```
//!
//! Always legal: a loop that is known to run is left by values that depend on nothing it makes,
//! binds or writes. Those of the loop that workers share stay inside of it.

use std::collections::BTreeSet;

use loops::visit::{touched, value_references};
use loops::{Loop, LoopKind, ScalarExpr, Stmt};
use sym::SymbolId;

use crate::error::Outcome;
use crate::state::State;

pub(crate) fn apply(state: &mut State) -> Outcome {
    hoist(&mut state.kernel.body);
    Ok(())
}

/// Hoists from the innermost loops of a block on.
fn hoist(block: &mut Vec<Stmt>) {
    let mut at = 0;
    while at < block.len() {
        block[at].blocks_mut().for_each(hoist);
        let free = match &mut block[at] {
            Stmt::For(inner) => taken_out(inner),
            _ => Vec::new(),
        };
        let count = free.len();
        block.splice(at..at, free);
        at += count + 1;
    }
}

/// Takes out of a loop's body what is the same in all its turns.
fn taken_out(inner: &mut Loop) -> Vec<Stmt> {
    let kind = matches!(inner.kind, LoopKind::Serial | LoopKind::Unroll | LoopKind::Vector);
    let has_lets = inner.body.iter().any(|stmt| matches!(stmt, Stmt::Let { .. }));
    if !kind || !has_lets || inner.extent.as_constant().is_none_or(|extent| extent < 1) {
        return Vec::new();
    }
    let (_, written) = touched(&inner.body);
    let mut bound = BTreeSet::from([inner.variable]);
    let mut free = Vec::new();
    inner.body.retain(|stmt| {
        let stays = match stmt {
            Stmt::Let { value, .. } => {
                let mut reads_written = false;
                value_references(value, &mut |reference| {
                    reads_written |= written.contains(&reference.buffer);
                });
                reads_written || depends(value, &bound)
            }
            _ => true,
        };
        match stays {
            true => bound.extend(stmt.binds()),
            false => free.push(stmt.clone()),
        }
        stays
    });
    free
}

/// Whether a value depends on one of these symbols.
fn depends(value: &ScalarExpr, symbols: &BTreeSet<SymbolId>) -> bool {
    let mut found = false;
    value.walk(&mut |part| {
        found |= matches!(part, ScalarExpr::Symbol(symbol) if symbols.contains(symbol));
    });
    value.walk_expressions(&mut |expr| {
        found |= expr.any_symbol(&mut |symbol| symbols.contains(&symbol));
    });
    found
}
