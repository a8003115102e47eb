//! Case: the turns of a loop from one on have code of their own.
//!
//! ```text
//! for k < 27 parallel { body(k) }
//! ```
//!
//! `case k at 24`
//!
//! ```text
//! for k < 27 parallel { if k < 24 { body(k) } else { body(k) } }
//! ```
//!
//! so that conditions which hold in all turns before go there. Where it is one turn alone, its
//! number stands in its code.
//!
//! Legal: the loop is serial or parallel and provably has more than `at` iterations, and `at` is
//! positive. Symbols that the body binds get new names in the second code, derived from the old
//! ones: `j` becomes `j_1`.

use std::collections::BTreeMap;

use loops::{Comparison, Condition, LoopKind, Stmt, substitute};
use sym::Expr;

use crate::error::{Outcome, Refusal};
use crate::nest::{SymbolRanges, find_loop, loop_at, loop_at_mut};
use crate::state::State;

pub(crate) fn apply(state: &mut State, target: &str, at: i64) -> Outcome {
    let kernel = &mut state.kernel;
    let site = find_loop(kernel, target)?;
    let found = loop_at(kernel, &site).clone();
    if !matches!(found.kind, LoopKind::Serial | LoopKind::Parallel) {
        return Err(Refusal::at_loop(
            target,
            "only turns of a serial or parallel loop are told apart",
        ));
    }
    let past = Expr::constant(at) + 1;
    if at < 1 || !SymbolRanges::of(kernel).less_equal(&past, &found.extent) {
        let message = format!("it is not known to have more than {at} iterations");
        return Err(Refusal::at_loop(target, message));
    }
    let mut rest = substitute::fresh_copy(kernel, &found.body);
    if (found.extent.clone() - at).is_one() {
        substitute::substitute(&mut rest, &BTreeMap::from([(found.variable, Expr::constant(at))]));
    }
    let condition = Condition {
        left: Expr::symbol(found.variable),
        comparison: Comparison::Less,
        right: Expr::constant(at),
    };
    let both = Stmt::If { conditions: vec![condition], then: found.body, otherwise: rest };
    loop_at_mut(kernel, &site).body = vec![both];
    Ok(())
}
