//! Cut: one loop becomes two, one after the other.
//!
//! ```text
//! for k < 27 { body(k) }
//! ```
//!
//! `cut k at 24 into rest`
//!
//! ```text
//! for k < 24 { body(k) }
//! for rest < 3 { body(rest + 24) }
//! ```
//!
//! Legal: the loop is still serial and provably has at least `at` iterations, and `at` is positive.
//! The order of iterations stays. Symbols that the body binds get new names in the second loop,
//! derived from the old ones: `j` becomes `j_1`.

use std::collections::BTreeMap;

use loops::{Loop, LoopKind, Stmt, SymbolKind, substitute};
use sym::Expr;

use crate::error::{Outcome, Refusal};
use crate::nest::{
    SymbolRanges, block_mut, check_new_symbol, check_serial, find_loop, loop_at, loop_at_mut,
};
use crate::state::State;

pub(crate) fn apply(state: &mut State, target: &str, at: i64, into: &str) -> Outcome {
    let kernel = &mut state.kernel;
    let site = find_loop(kernel, target)?;
    check_serial(kernel, loop_at(kernel, &site))?;
    check_new_symbol(kernel, into)?;
    let Loop { variable, extent, body, .. } = loop_at(kernel, &site).clone();
    let cut = Expr::constant(at);
    if at < 1 || !SymbolRanges::of(kernel).less_equal(&cut, &extent) {
        let message = format!("it is not known to have {at} iterations");
        return Err(Refusal::at_loop(target, message));
    }
    let fresh = loops::KernelSymbol { name: into.into(), kind: SymbolKind::Loop };
    let rest = kernel.symbols.push(fresh);
    let mut copy = substitute::fresh_copy(kernel, &body);
    substitute::substitute(&mut copy, &BTreeMap::from([(variable, Expr::symbol(rest) + at)]));
    loop_at_mut(kernel, &site).extent = cut;
    let extent = extent - at;
    let second = Loop { variable: rest, extent, kind: LoopKind::Serial, body: copy };
    block_mut(kernel, &site.block).insert(site.index + 1, Stmt::For(Box::new(second)));
    Ok(())
}
