//! Kernels that several lowerings have in common.
//!
//! A model with free extents, stages or variants is lowered once for each that it meets; kernels
//! that do not depend on what is new need not be scheduled and compiled again. A store finds them
//! by what they compute. A kernel is in it for as long as one of the lowerings that use it is kept;
//! while choices are compared that have most of their kernels in common it holds on to all
//! ([`KernelStore::hold`]).

use std::collections::BTreeMap;
use std::hash::{Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use backend::{MachineCode, Target};
use loops::Kernel;
use rustc_hash::FxHasher;
use schedule::Trace;
use strategies::{Cost, Naive, Scheduled};

use crate::LowerOptions;

/// After so many digests those of kernels that are gone are taken out.
const MANY: usize = 1024;

/// How a kernel was made; shared by all its runs.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    /// The naive kernel.
    pub(crate) naive: Arc<Naive>,
    /// The steps that scheduled it.
    pub(crate) trace: Trace,
    /// What the strategies said.
    pub(crate) remarks: Arc<[String]>,
    /// What it should take.
    pub(crate) cost: Cost,
}

impl Made {
    /// A naive kernel scheduled as the strategies choose, and how.
    ///
    /// # Errors
    /// Those of [`strategies::schedule`].
    pub(crate) fn by_strategies(
        naive: Naive,
        target: &Target,
        options: &LowerOptions,
    ) -> base::Result<(Kernel, Made)> {
        let schedule = || strategies::schedule(&naive, target, &options.strategies);
        let Scheduled { kernel, trace, remarks, cost } =
            options.phases.time("schedules", schedule)?;
        let (naive, remarks) = (Arc::new(naive), remarks.into());
        Ok((kernel, Made { naive, trace, remarks, cost }))
    }
}

/// Kernels by what they compute, for one target and one choice of options.
#[derive(Debug, Default)]
pub struct KernelStore {
    by_digest: Mutex<BTreeMap<u64, Vec<Weak<StoredKernel>>>>,
    held: Mutex<HeldKernels>,
}

/// What a store holds on to.
#[derive(Debug, Default)]
struct HeldKernels {
    /// Who wants it to.
    holders: usize,
    kernels: Vec<Arc<StoredKernel>>,
}

/// A store holds on to what is added for as long as this lives.
#[derive(Debug)]
pub struct Hold(Arc<KernelStore>);

impl Drop for Hold {
    fn drop(&mut self) {
        let mut held = self.0.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.holders -= 1;
        if held.holders == 0 {
            held.kernels.clear();
        }
    }
}

/// A kernel that lowerings share.
#[derive(Debug)]
pub struct StoredKernel {
    pub(crate) made: Made,
    /// Scheduled. Its name and origin are those of the lowering that made it.
    pub(crate) scheduled: Kernel,
    /// What a back end made of it, once one has.
    pub code: OnceLock<MachineCode>,
}

impl KernelStore {
    /// Has it hold on to what is added from now on.
    #[must_use]
    pub fn hold(self: &Arc<Self>) -> Hold {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).holders += 1;
        Hold(self.clone())
    }

    /// The kernel that computes what this naive one does.
    pub(crate) fn find(&self, naive: &Kernel) -> Option<Arc<StoredKernel>> {
        let by_digest = self.by_digest.lock().unwrap_or_else(PoisonError::into_inner);
        if base::fault::is_seeded("lower.store") {
            let shapes = |kernel: &Kernel| -> Vec<_> {
                let of = |id| (kernel.buffers[id].shape.clone(), kernel.buffers[id].scope);
                kernel.parameters.iter().copied().map(of).collect()
            };
            let mut all = by_digest.values().flatten().filter_map(Weak::upgrade);
            return all.find(|stored| shapes(&stored.made.naive.kernel) == shapes(naive));
        }
        let mut alike = by_digest.get(&digest(naive))?.iter().filter_map(Weak::upgrade);
        alike.find(|stored| content(&stored.made.naive.kernel) == content(naive))
    }

    /// Adds a kernel that was just made; of equal ones made at once both are in.
    pub(crate) fn add(&self, made: Made, scheduled: Kernel) -> Arc<StoredKernel> {
        let stored = Arc::new(StoredKernel { made, scheduled, code: OnceLock::new() });
        self.put(stored.clone());
        stored
    }

    /// As [`Self::add`], of what another store has.
    pub(crate) fn put(&self, stored: Arc<StoredKernel>) {
        let key = digest(&stored.made.naive.kernel);
        let mut by_digest = self.by_digest.lock().unwrap_or_else(PoisonError::into_inner);
        if by_digest.len() >= MANY && !by_digest.contains_key(&key) {
            by_digest.retain(|_, alike| {
                alike.retain(|stored| stored.strong_count() > 0);
                !alike.is_empty()
            });
        }
        by_digest.entry(key).or_default().push(Arc::downgrade(&stored));
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.holders > 0 {
            held.kernels.push(stored);
        }
    }
}

/// All of a kernel but its name and origin.
pub(crate) fn content(kernel: &Kernel) -> impl PartialEq + '_ {
    (&kernel.symbols, &kernel.buffers, &kernel.parameters, &kernel.body)
}

/// Of all of its content but the names of its symbols.
pub(crate) fn digest(kernel: &Kernel) -> u64 {
    let mut hasher = FxHasher::default();
    let symbols = kernel.symbols.len();
    (symbols, &kernel.buffers, &kernel.parameters, &kernel.body).hash(&mut hasher);
    hasher.finish()
}
