//! Asking in time for what comes from memory once and takes many operations: words that hold
//! several terms of a sum each.
//!
//! Hardware follows a stream of addresses to the end of its page, where the next one begins with a
//! miss. Of floats the processor has the loads of a whole page under way before it has computed
//! anything with the first, so that this does not show; of words that take many operations it has
//! the loads of a few lines. So each vector asks for the line a page further on.

use backend::Target;
use loops::{Access as Use, BufferId, Scope};
use schedule::{Schedule, ScheduleStep};

use crate::given::Given;
use crate::structure::Motion;

/// Bytes of a page.
const PAGE: u32 = 4096;

/// Turns of a nest for each term that it reads, from which on terms are met from a cache.
const MOST_MET: i64 = 8;

/// Prefetches the operands that are such streams, in a kernel whose loops are as they stay.
pub(super) fn streams(schedule: &mut Schedule, given: &Given<'_>, target: &Target) {
    let Ok(nests) = given.nests() else { return };
    let (mut found, mut takes_long) = (Vec::new(), false);
    for nest in nests {
        let turns: i64 = nest.loops.iter().map(|by| by.extent).product();
        for access in nest.loads() {
            let buffer = &given.naive.kernel.buffers[access.buffer];
            let elements: i64 =
                buffer.shape.iter().map(|extent| given.naive.kernel.weight(extent)).product();
            let bytes = elements * i64::from(buffer.dtype.bits()).max(8) / 8;
            let moving = nest.loops.iter().filter(|by| access.motion(by) != Motion::Still);
            let terms = moving.map(|by| by.extent).product::<i64>();
            // Windows meet elements again while they are in a cache.
            let alone = access.index.iter().all(|index| index.symbols().len() <= 1);
            let is_stream = alone
                && buffer.scope == Scope::Parameter(Use::Read)
                && bytes as u64 > target.machine.l2.bytes
                && terms >= elements
                && turns <= MOST_MET * terms;
            let holds_terms = buffer.dtype.bits() <= 8 && turns >= 2 * terms;
            takes_long |= is_stream && (terms >= 2 * elements || holds_terms);
            if is_stream && !found.contains(&access.buffer) {
                found.push(access.buffer);
            }
        }
    }
    let name = |id: BufferId| given.naive.kernel.buffers[id].name.clone();
    for buffer in found.into_iter().filter(|_| takes_long).map(name) {
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
