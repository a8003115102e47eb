//! Merge: two loops side by side become one.
//!
//! ```text
//! for i < 8 { first(i) }
//! for j < 8 { second(j) }
//! ```
//!
//! `merge i, j`
//!
//! ```text
//! for i < 8 { first(i); second(i) }
//! ```
//!
//! Legal: nothing stands between the loops, extents are equal, both are still serial, and no
//! iteration of the first loop touches an element, one writing, that an earlier iteration of the
//! second touches. Reductions commute where they are associative to the bit.

use std::collections::BTreeMap;

use loops::{Loop, Stmt, substitute};
use sym::Expr;

use crate::dependence::Tester;
use crate::error::{Outcome, Refusal};
use crate::nest::{SymbolRanges, block, block_mut, check_serial, find_loop, loop_at};
use crate::state::State;

pub(crate) fn apply(state: &mut State, first: &str, second: &str) -> Outcome {
    let kernel = &state.kernel;
    let (site, next) = (find_loop(kernel, first)?, find_loop(kernel, second)?);
    if site.block != next.block || site.index + 1 != next.index {
        return Err(Refusal::at_loop(second, format!("it does not follow the loop `{first}`")));
    }
    let (one, two) = (loop_at(kernel, &site), loop_at(kernel, &next));
    check_serial(kernel, one)?;
    check_serial(kernel, two)?;
    let ranges = SymbolRanges::of(kernel);
    if !ranges.simplify(&(&one.extent - &two.extent)).is_zero() {
        return Err(Refusal::at_loop(second, format!("its extent is not that of `{first}`")));
    }
    let replacements = BTreeMap::from([(two.variable, Expr::symbol(one.variable))]);
    let mut appended = two.body.clone();
    substitute::substitute(&mut appended, &replacements);
    let count = one.body.len();
    let body = [one.body.clone(), appended].concat();
    let merged = Loop { body, ..one.clone() };
    check_order(state, &ranges, &merged, count, first)?;
    state.substitute(&next.body(), &replacements);
    let body = block(&state.kernel, &next.body()).clone();
    let block = block_mut(&mut state.kernel, &site.block);
    block.remove(next.index);
    if let Stmt::For(one) = &mut block[site.index] {
        one.body.extend(body);
    }
    Ok(())
}

/// What is checked on the merged loop, of whose body the first `count` statements are the first's.
fn check_order(
    state: &State,
    ranges: &SymbolRanges,
    merged: &Loop,
    count: usize,
    first: &str,
) -> Outcome {
    let kernel = &state.kernel;
    let tester = Tester::of_loop(kernel, ranges, merged, &state.shifted);
    let second = tester.accesses.partition_point(|access| access.position < count);
    for (a, b) in tester.ordered_pairs_between(0..second, second..tester.accesses.len(), true) {
        if tester.may_conflict_across(b, a, merged.variable, &[]) {
            let buffer = &kernel.buffers[tester.accesses[a].buffer].name;
            let message = format!(
                "an iteration would touch `{buffer}` before a later one of the first loop does"
            );
            return Err(Refusal::at_loop(first, message));
        }
    }
    Ok(())
}
