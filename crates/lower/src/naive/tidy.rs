//! `Let`s that are read once give their value to the reader, but for products that are rounded
//! before they are added.
//!
//! Values are shared when they might be read twice; how often they are is known when the nest is
//! complete.

use std::slice;

use base::{IdSet, SecondaryMap};
use loops::visit::{walk_values, walk_values_mut};
use loops::{Kernel, ScalarExpr, Stmt, SymbolKind};
use rustc_hash::FxHashMap;
use sym::SymbolId;
use tensor::Reduction;

/// Removes every unchecked `Let` of the block that is read at most once.
pub(crate) fn inline_single_uses(block: &mut Vec<Stmt>, kernel: &Kernel) {
    let uses = count_uses(block);
    // A product is rounded together with a sum that adds it as it is.
    let mut added = IdSet::new();
    loops::visit::walk(block, &mut |stmt| {
        if let Stmt::Reduce {
            reduction: Reduction::Sum, value: ScalarExpr::Symbol(symbol), ..
        } = stmt
        {
            added.insert(*symbol);
        }
    });
    let is_single = |symbol: SymbolId, value: &ScalarExpr| {
        let kind = &kernel.symbols[symbol].kind;
        let unchecked = matches!(kind, SymbolKind::Value { range: None, .. });
        unchecked && uses[symbol] <= 1 && !(added.contains(symbol) && value.is_product())
    };
    let mut waiting: FxHashMap<SymbolId, ScalarExpr> = FxHashMap::default();
    for mut stmt in std::mem::take(block) {
        if !waiting.is_empty() {
            walk_values_mut(slice::from_mut(&mut stmt), &mut |value| {
                if let ScalarExpr::Symbol(symbol) = value
                    && let Some(waited) = waiting.remove(symbol)
                {
                    *value = waited;
                }
            });
        }
        match stmt {
            Stmt::Let { symbol, value } if is_single(symbol, &value) => {
                waiting.insert(symbol, value);
            }
            stmt => block.push(stmt),
        }
    }
}

fn count_uses(block: &[Stmt]) -> SecondaryMap<SymbolId, usize> {
    let mut uses = SecondaryMap::new();
    walk_values(block, &mut |value| {
        if let ScalarExpr::Symbol(symbol) = value {
            uses[*symbol] += 1;
        }
    });
    uses
}
