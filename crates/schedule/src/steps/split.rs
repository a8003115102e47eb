//! Split: one loop becomes two.
//!
//! ```text
//! for i < 10 { body(i) }
//! ```
//!
//! `split i by 4 into io, ii tail guard`
//!
//! ```text
//! for io < 3 { for ii < 4 { if 4 * io + ii < 10 { body(4 * io + ii) } } }
//! ```
//!
//! `split i by 4 into io, ii tail shift`
//!
//! ```text
//! for io < 3 { for ii < 4 { body(min(4 * io, 6) + ii) } }
//! ```
//!
//! Legal: `exact` if the factor provably divides the extent; `guard` always; `shift` if the extent
//! is at least the factor and running an iteration twice, or after a later one, does no harm. That
//! is: no two iterations touch an element with a write, and what the body writes it neither reads
//! nor reduces into, buffers private to an iteration excepted. Where the factor divides, all three
//! tails are `exact`.

use std::collections::BTreeMap;

use loops::build::less;
use loops::visit::touched;
use loops::{Loop, LoopKind, Stmt, SymbolKind};
use sym::Expr;

use crate::error::{Outcome, Refusal};
use crate::nest::{
    SymbolRanges, block_mut, check_new_symbol, check_serial, find_loop, guarded, loop_at,
};
use crate::private::is_private;
use crate::state::State;
use crate::step::Tail;
use crate::steps::parallelise::{Spared, check_independent};

pub(crate) fn apply(
    state: &mut State,
    target: &str,
    factor: i64,
    outer: &str,
    inner: &str,
    tail: Tail,
) -> Outcome {
    let site = find_loop(&state.kernel, target)?;
    let found = loop_at(&state.kernel, &site);
    check_serial(&state.kernel, found)?;
    check_new_symbol(&state.kernel, outer)?;
    check_new_symbol(&state.kernel, inner)?;
    if factor < 1 || outer == inner {
        let message = "a split needs a factor of at least 1 and two different names";
        return Err(Refusal::at_loop(target, message));
    }
    let ranges = SymbolRanges::of(&state.kernel);
    let (variable, extent) = (found.variable, found.extent.clone());
    let divides = extent.divisible_by(factor);
    if !divides {
        check_tail(state, found, target, factor, tail, &ranges)?;
    }
    let kernel = &mut state.kernel;
    let outer =
        kernel.symbols.push(loops::KernelSymbol { name: outer.into(), kind: SymbolKind::Loop });
    let inner =
        kernel.symbols.push(loops::KernelSymbol { name: inner.into(), kind: SymbolKind::Loop });
    let mut start = Expr::symbol(outer) * factor;
    if tail == Tail::Shift && !divides {
        start = Expr::min(&start, &(&extent - factor));
        state.shifted.push(start.clone());
    }
    let index = start + &Expr::symbol(inner);
    let wrong = i64::from(base::fault::is_seeded("schedule.split"));
    let end = extent.clone() - wrong;
    let guard = (tail == Tail::Guard && !divides).then(|| less(index.clone(), end));
    state.substitute(&site.body(), &BTreeMap::from([(variable, index)]));
    let stmt = &mut block_mut(&mut state.kernel, &site.block)[site.index];
    if let Stmt::For(found) = stmt {
        let body = guarded(guard.into_iter().collect(), std::mem::take(&mut found.body));
        let extent = extent.ceil_div(&Expr::constant(factor));
        let inner = Loop { variable: inner, extent: factor.into(), kind: LoopKind::Serial, body };
        let body = vec![Stmt::For(Box::new(inner))];
        **found = Loop { variable: outer, extent, kind: LoopKind::Serial, body };
    }
    state.has_written(site);
    Ok(())
}

/// Whether a tail is legal where the factor may not divide the extent.
fn check_tail(
    state: &State,
    found: &Loop,
    target: &str,
    factor: i64,
    tail: Tail,
    ranges: &SymbolRanges,
) -> Outcome {
    let kernel = &state.kernel;
    match tail {
        Tail::Guard => Ok(()),
        Tail::Exact => {
            let message = format!("{factor} is not known to divide the extent");
            Err(Refusal::at_loop(target, message))
        }
        Tail::Shift if !ranges.less_equal(&Expr::constant(factor), &found.extent) => {
            let message =
                format!("the extent may be less than {factor}, so no tail can be shifted");
            Err(Refusal::at_loop(target, message))
        }
        Tail::Shift => {
            let (read, written) = touched(&found.body);
            for buffer in written {
                if is_private(kernel, ranges, &found.body, buffer) {
                    continue;
                }
                let name = &kernel.buffers[buffer].name;
                if read.contains(&buffer) {
                    let message = format!(
                        "an iteration of `{target}` reads and writes `{name}`, so \
                        it must not run twice"
                    );
                    return Err(Refusal::at_loop(target, message));
                }
            }
            check_independent(kernel, ranges, found, &state.shifted, Spared::Private)
        }
    }
}
