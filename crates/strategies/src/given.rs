//! What a strategy is given, and how it says that it does not fit.

use std::borrow::Cow;

use loops::{KernelSymbol, SymbolKind, verify_bounds, verify_scheduled};
use schedule::Schedule;

use crate::axes::merge_axes;
use crate::naive::{Naive, ProducerKind};
use crate::structure::Nest;

/// Why a strategy does not fit, as a sentence without a full stop.
pub(crate) type Refused = String;

/// What strategies are given.
pub(crate) struct Given<'a> {
    /// The kernel, as its definitions say it, but for axes that are walked as one.
    pub(crate) naive: Cow<'a, Naive>,
    /// The nests of its kernel, if all statements of its body are some.
    pub(crate) nests: Option<Vec<Nest>>,
    /// The schedule that all of them begin with: it has led to that kernel.
    start: Schedule,
    /// Whether its kernel has free extents, and provably stays within them. So must schedules.
    stays_within: bool,
}

impl<'a> Given<'a> {
    /// What there is to know of a kernel.
    pub(crate) fn of(naive: &'a Naive) -> Given<'a> {
        let (mut naive, mut nests) = (Cow::Borrowed(naive), Nest::all(&naive.kernel));
        let mut start = Schedule::new(naive.kernel.clone());
        let is_opaque = |naive: &Naive| {
            naive.producers.iter().any(|producer| producer.kind == ProducerKind::Opaque)
        };
        if let Some(before) = nests.as_deref()
            && !is_opaque(&naive)
            && let Some((after, merged)) = merge_axes(&start, before)
        {
            naive.to_mut().rename_loops(&merged);
            naive.to_mut().kernel = after.kernel().clone();
            nests = Nest::all(after.kernel());
            start = after;
        }
        let kernel = &naive.kernel;
        let is_free = |symbol: &KernelSymbol| matches!(symbol.kind, SymbolKind::Shape { .. });
        let stays_within = kernel.symbols.values().any(is_free) && verify_bounds(kernel).is_ok();
        Given { naive, nests, start, stays_within }
    }

    /// The nests, for strategies that need some.
    pub(crate) fn nests(&self) -> Result<&[Nest], Refused> {
        self.nests.as_deref().ok_or_else(|| "its loops are no perfect nests".to_owned())
    }

    /// A schedule to take steps of.
    pub(crate) fn schedule(&self) -> Schedule {
        self.start.clone()
    }

    /// Whether a schedule has led to a kernel that back ends take.
    pub(crate) fn verify(&self, schedule: &Schedule) -> Result<(), Refused> {
        let scheduled = verify_scheduled(schedule.kernel());
        let within = |()| match self.stays_within {
            true => verify_bounds(schedule.kernel()),
            false => Ok(()),
        };
        scheduled.and_then(within).map_err(|error| error.to_string())
    }

    /// Whether no steps have been taken since [`schedule`](Given::schedule).
    pub(crate) fn is_untouched(&self, schedule: &Schedule) -> bool {
        schedule.trace().len() == self.start.trace().len()
    }
}
