//! Fuse: two loops, one directly inside the other, become one.
//!
//! ```text
//! for i < 8 { for j < 4 { body(i, j) } }
//! ```
//!
//! `fuse i, j into f`
//!
//! ```text
//! for f < 32 { body(f div 4, f mod 4) }
//! ```
//!
//! Legal: the inner loop is the outer one's whole body, its extent is the same in every iteration,
//! and both are still serial.

use std::collections::BTreeMap;

use loops::{Loop, LoopKind, Stmt, SymbolKind};
use sym::Expr;

use crate::error::{Outcome, Refusal};
use crate::nest::{block_mut, check_new_symbol, check_serial, find_loop, loop_at};
use crate::state::State;

pub(crate) fn apply(state: &mut State, outer: &str, inner: &str, into: &str) -> Outcome {
    let kernel = &state.kernel;
    let site = find_loop(kernel, outer)?;
    find_loop(kernel, inner)?;
    check_new_symbol(kernel, into)?;
    let first = loop_at(kernel, &site);
    let second = match &first.body[..] {
        [Stmt::For(second)] if kernel.symbols[second.variable].name == inner => second,
        _ => {
            return Err(Refusal::at_loop(
                outer,
                format!("its body is not the loop `{inner}` alone"),
            ));
        }
    };
    check_serial(kernel, first)?;
    check_serial(kernel, second)?;
    if second.extent.contains(first.variable) {
        return Err(Refusal::at_loop(inner, format!("its extent depends on `{outer}`")));
    }
    let (rows, columns) = (first.extent.clone(), second.extent.clone());
    let (row, column) = (first.variable, second.variable);
    let fused = loops::KernelSymbol { name: into.into(), kind: SymbolKind::Loop };
    let variable = state.kernel.symbols.push(fused);
    let whole = Expr::symbol(variable);
    let replacements =
        BTreeMap::from([(row, whole.floor_div(&columns)), (column, whole.modulo(&columns))]);
    let mut way = site.body();
    way.push(crate::nest::Descent { stmt: 0, block: 0 });
    state.substitute(&way, &replacements);
    let body = std::mem::take(block_mut(&mut state.kernel, &way));
    let extent = rows * &columns;
    block_mut(&mut state.kernel, &site.block)[site.index] =
        Stmt::For(Box::new(Loop { variable, extent, kind: LoopKind::Serial, body }));
    state.has_written(site);
    Ok(())
}
