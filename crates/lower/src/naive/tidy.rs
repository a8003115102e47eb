//! `Let`s that are read once give their value to the reader.
//!
//! Values are shared when they might be read twice; how often they are is known when the nest is
//! complete.

use std::collections::BTreeMap;

use loops::substitute::replace_symbol;
use loops::visit::walk_values;
use loops::{Kernel, Stmt, SymbolKind, Value};
use sym::SymbolId;

/// Removes every unchecked `Let` of the block that is read at most once.
pub(crate) fn inline_single_uses(block: &mut Vec<Stmt>, kernel: &Kernel) {
    let uses = count_uses(block);
    let mut position = 0;
    while position < block.len() {
        let single = match &block[position] {
            Stmt::Let { symbol, .. } => {
                let kind = &kernel.symbols[*symbol].kind;
                let unchecked = matches!(kind, SymbolKind::Value { range: None, .. });
                unchecked && uses.get(symbol).copied().unwrap_or(0) <= 1
            }
            _ => false,
        };
        if !single {
            position += 1;
            continue;
        }
        if let Stmt::Let { symbol, value } = block.remove(position) {
            replace_symbol(&mut block[position..], symbol, &value);
        }
    }
}

fn count_uses(block: &[Stmt]) -> BTreeMap<SymbolId, usize> {
    let mut uses = BTreeMap::new();
    walk_values(block, &mut |value| {
        if let Value::Symbol(symbol) = value {
            *uses.entry(*symbol).or_insert(0) += 1;
        }
    });
    uses
}
