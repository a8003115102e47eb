//! Parallelise: the outermost loop is to be shared among workers.
//!
//! ```text
//! for i < 16 { body(i) }
//! ```
//!
//! `parallelise i`
//!
//! ```text
//! for i < 16 parallel { body(i) }
//! ```
//!
//! Legal: the loop is the kernel's only statement and still serial, and no two iterations touch the
//! same element, one writing. Local buffers must be private to an iteration: each stores what it
//! reads before it reads it, since every worker has buffers of its own.

use base::SecondaryMap;
use loops::{BufferId, Kernel, Loop, LoopKind, Scope};
use rustc_hash::FxHashMap;
use sym::Expr;

use crate::dependence::Tester;
use crate::error::{Outcome, Refusal};
use crate::nest::{SymbolRanges, check_serial, find_loop, loop_at, loop_at_mut};
use crate::private::is_private;
use crate::state::State;

pub(crate) fn apply(state: &mut State, target: &str) -> Outcome {
    let kernel = &state.kernel;
    let site = find_loop(kernel, target)?;
    let found = loop_at(kernel, &site);
    check_serial(kernel, found)?;
    if !site.block.is_empty() || kernel.body.len() != 1 {
        return Err(Refusal::at_loop(target, "only the kernel's one outermost loop can be shared"));
    }
    let ranges = SymbolRanges::of(kernel);
    for (id, buffer) in kernel.buffers.iter() {
        let local = !matches!(buffer.scope, Scope::Parameter(_));
        if local && !is_private(kernel, &ranges, &found.body, id) {
            let message =
                format!("an iteration of `{target}` may read what another left in this buffer");
            return Err(Refusal::at_buffer(&buffer.name, message));
        }
    }
    check_independent(kernel, &ranges, found, &state.shifted, Spared::Local)?;
    loop_at_mut(&mut state.kernel, &site).kind = LoopKind::Parallel;
    Ok(())
}

/// Which buffers do not count where iterations are to be independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spared {
    /// None.
    Nothing,
    /// Those private to an iteration.
    Private,
    /// The kernel's own: the caller knows that they are private.
    Local,
}

/// Fails if two iterations of the loop may touch the same element, one writing.
pub(crate) fn check_independent(
    kernel: &Kernel,
    ranges: &SymbolRanges,
    found: &Loop,
    shifted: &[Expr],
    spared: Spared,
) -> Outcome {
    let tester = Tester::of_loop(kernel, ranges, found, shifted);
    let mut private: SecondaryMap<BufferId, bool> = SecondaryMap::new();
    let mut tested: FxHashMap<u64, (usize, usize)> = FxHashMap::default();
    for (first, second) in tester.ordered_pairs(false) {
        let buffer = tester.accesses[first].buffer;
        let local = !matches!(kernel.buffers[buffer].scope, Scope::Parameter(_));
        if private[buffer] || (local && spared == Spared::Local) {
            continue;
        }
        // What is written out meets the same elements again and again.
        let pair = (first, second);
        let other = tested.insert(tester.likeness(pair), pair);
        if other.is_some_and(|other| tester.is_alike(pair, other)) {
            continue;
        }
        let conflict = tester.may_conflict_across(first, second, found.variable, &[])
            || (first != second && tester.may_conflict_across(second, first, found.variable, &[]));
        if conflict && local && spared == Spared::Private {
            private[buffer] = is_private(kernel, ranges, &found.body, buffer);
        }
        if conflict && !private[buffer] {
            let (name, buffer) =
                (&kernel.symbols[found.variable].name, &kernel.buffers[buffer].name);
            let message = format!("two iterations of `{name}` may touch one element of `{buffer}`");
            return Err(Refusal::at_loop(name, message));
        }
    }
    Ok(())
}
