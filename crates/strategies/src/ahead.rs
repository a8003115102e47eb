//! Asking in time for what comes from memory once and takes many operations: words that hold
//! several terms of a sum each.
//!
//! Hardware follows a stream of addresses to the end of its page, where the next one begins with a
//! miss. Of floats the processor has the loads of a whole page under way before it has computed
//! anything with the first, so that this does not show; of words that take many operations it has
//! the loads of a few lines. So each vector asks for the line a page further on, and so does each
//! of what is a stream beside it, such as scales.

use backend::Target;
use loops::visit::own_references;
use loops::{Access as Use, BufferId, Kernel, LoopKind, Scope, Stmt};
use schedule::{Schedule, ScheduleStep};
use sym::SymbolId;

use crate::given::Given;
use crate::structure::Motion;

/// Bytes of a page.
const PAGE: u32 = 4096;

/// How often loops may come by what they read, from which on it is met from a cache.
const MOST_MET: i64 = 4;

/// Prefetches the operands that are such streams, in a kernel whose loops are as they stay.
pub(super) fn streams(schedule: &mut Schedule, given: &Given<'_>, target: &Target) {
    let Ok(nests) = given.nests() else { return };
    let (mut found, mut takes_long, mut holds_terms) = (Vec::new(), false, false);
    let machine = &target.machine;
    for nest in nests {
        let turns: i64 = nest.loops.iter().map(|by| by.extent).product();
        for access in nest.loads() {
            let buffer = &given.naive.kernel.buffers[access.buffer];
            let elements: i64 =
                buffer.shape.iter().map(|extent| given.naive.kernel.weight(extent)).product();
            let bytes = (elements * i64::from(buffer.dtype.bits()).max(8) / 8) as u64;
            let moving = nest.loops.iter().filter(|by| access.motion(by) != Motion::Still);
            let terms = moving.map(|by| by.extent).product::<i64>();
            // Windows meet elements again while they are in a cache.
            let alone = access.index.iter().all(|index| index.symbols().len() <= 1);
            let is_stream = alone
                && buffer.scope == Scope::Parameter(Use::Read)
                && bytes > machine.l1.bytes
                && terms >= elements
                && times_met(schedule.kernel(), &buffer.name) <= MOST_MET;
            let are_words = buffer.dtype.bits() <= 8 && turns >= 2 * terms;
            let is_large = bytes > machine.l2.bytes;
            holds_terms |= is_stream && are_words;
            takes_long |= is_stream && is_large && terms >= 2 * elements;
            if is_stream && !found.contains(&(access.buffer, is_large)) {
                found.push((access.buffer, is_large));
            }
        }
    }
    // Words are weights of a model, which come from memory though a cache could keep one kernel's;
    // from a cache, asking takes no time beside what a word takes.
    found.retain(|(_, is_large)| holds_terms || (*is_large && takes_long));
    let name = |id: BufferId| given.naive.kernel.buffers[id].name.clone();
    for buffer in found.into_iter().map(|(id, _)| name(id)) {
        let asks = |step: &ScheduleStep| match step {
            ScheduleStep::Prefetch { buffer: own, shared, .. } => {
                *own == buffer && shared.is_empty()
            }
            _ => false,
        };
        if !schedule.trace().iter().any(asks) {
            // Where no vector is loaded of it, nothing is asked for.
            _ = schedule.prefetch(&buffer, PAGE);
        }
    }
}

/// How often the loops of a kernel that are run turn by turn meet an element of a buffer: by those
/// with which no index moves. What is written out meets it in a register.
fn times_met(kernel: &Kernel, buffer: &str) -> i64 {
    let mut most = 0;
    let named = kernel.buffers.iter().find(|(_, own)| own.name == buffer);
    if let Some((id, _)) = named {
        each_met(kernel, &kernel.body, id, &mut Vec::new(), &mut most);
    }
    most
}

/// The most that is met so in a block, inside of these loops and their weights.
fn each_met(
    kernel: &Kernel,
    block: &[Stmt],
    id: BufferId,
    around: &mut Vec<(SymbolId, i64)>,
    most: &mut i64,
) {
    for stmt in block {
        own_references(stmt, &mut |reference| {
            if reference.buffer == id {
                let moves = |by: SymbolId| reference.index.iter().any(|index| index.contains(by));
                let still = around.iter().filter(|(by, _)| !moves(*by));
                let met = still.fold(1, |met: i64, (_, turns)| met.saturating_mul(*turns));
                *most = met.max(*most);
            }
        });
        let turning = match stmt {
            Stmt::For(found) if matches!(found.kind, LoopKind::Serial | LoopKind::Parallel) => {
                Some((found.variable, kernel.weight(&found.extent)))
            }
            _ => None,
        };
        around.extend(turning);
        stmt.blocks().for_each(|inner| each_met(kernel, inner, id, around, most));
        around.truncate(around.len() - usize::from(turning.is_some()));
    }
}
