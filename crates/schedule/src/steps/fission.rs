//! Fission: a loop becomes two, each with a part of its body.
//!
//! ```text
//! for i < 8 { first(i); second(i) }
//! ```
//!
//! `fission i at 1 into rest`
//!
//! ```text
//! for i < 8 { first(i) }
//! for rest < 8 { second(rest) }
//! ```
//!
//! Legal: the second part uses no symbol that the first binds, and no instance of the second part
//! comes before an instance of the first that touches the same element, one writing. Reductions
//! commute where they are associative to the bit.

use std::collections::BTreeMap;

use loops::visit::{bound_symbols, free_symbols};
use loops::{Loop, Stmt, SymbolKind, substitute};
use sym::Expr;

use crate::dependence::Tester;
use crate::error::{Outcome, Refusal};
use crate::nest::{SymbolRanges, block_mut, check_new_symbol, check_serial, find_loop, loop_at};
use crate::state::State;

pub(crate) fn apply(state: &mut State, target: &str, at: usize, into: &str) -> Outcome {
    let kernel = &state.kernel;
    let site = find_loop(kernel, target)?;
    let found = loop_at(kernel, &site);
    check_serial(kernel, found)?;
    check_new_symbol(kernel, into)?;
    if at == 0 || at >= found.body.len() {
        let message = format!("its body of {} statements has no part at {at}", found.body.len());
        return Err(Refusal::at_loop(target, message));
    }
    let (first, second) = found.body.split_at(at);
    let bound = bound_symbols(first);
    if let Some(used) = free_symbols(second).iter().find(|symbol| bound.contains(symbol)) {
        let name = &kernel.symbols[*used].name;
        let message = format!("the second part uses `{name}`, which the first binds");
        return Err(Refusal::at_loop(target, message));
    }
    check_order(state, found, target, at)?;
    let fresh = loops::KernelSymbol { name: into.into(), kind: SymbolKind::Loop };
    let variable = state.kernel.symbols.push(fresh);
    let block = block_mut(&mut state.kernel, &site.block);
    let Stmt::For(found) = &mut block[site.index] else { unreachable!("the site of a loop") };
    let mut body = found.body.split_off(at);
    let replacements = BTreeMap::from([(found.variable, Expr::symbol(variable))]);
    substitute::substitute(&mut body, &replacements);
    let rest = Loop { variable, extent: found.extent.clone(), kind: found.kind.clone(), body };
    block.insert(site.index + 1, Stmt::For(Box::new(rest)));
    Ok(())
}

fn check_order(state: &State, found: &Loop, target: &str, at: usize) -> Outcome {
    let kernel = &state.kernel;
    let ranges = SymbolRanges::of(kernel);
    let tester = Tester::of_loop(kernel, &ranges, found, &state.shifted);
    // Accesses are in the order of statements; those of the second part begin here.
    let second = tester.accesses.partition_point(|access| access.position < at);
    for (a, b) in tester.ordered_pairs_between(0..second, second..tester.accesses.len(), true) {
        if tester.may_conflict_across(b, a, found.variable, &[]) {
            let buffer = &kernel.buffers[tester.accesses[a].buffer].name;
            let message =
                format!("a later iteration's first part touches `{buffer}` after the second part");
            return Err(Refusal::at_loop(target, message));
        }
    }
    Ok(())
}
