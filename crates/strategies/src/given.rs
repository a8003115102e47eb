//! What a strategy is given, and how it says that it does not fit.

use crate::naive::Naive;
use crate::structure::Nest;

/// Why a strategy does not fit, as a sentence without a full stop.
pub(crate) type Refused = String;

/// What strategies are given.
pub(crate) struct Given<'a> {
    /// The kernel, as its definitions say it.
    pub(crate) naive: &'a Naive,
    /// The nests of its kernel, if all statements of its body are some.
    pub(crate) nests: Option<Vec<Nest>>,
}

impl<'a> Given<'a> {
    /// What there is to know of a kernel.
    pub(crate) fn of(naive: &'a Naive) -> Given<'a> {
        Given { naive, nests: Nest::all(&naive.kernel) }
    }

    /// The nests, for strategies that need some.
    pub(crate) fn nests(&self) -> Result<&[Nest], Refused> {
        self.nests.as_deref().ok_or_else(|| "its loops are no perfect nests".to_owned())
    }
}
