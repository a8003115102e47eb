//! The kernels of a program: equal naive kernels are scheduled once and shared.
//!
//! Kernels get their ids and names when they are asked for; when all are known they are scheduled,
//! on several threads, and take their places in the module.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use backend::Target;
use base::KernelId;
use loops::Kernel;
use module::Module;
use strategies::Naive;

use crate::LowerOptions;
use crate::store::{Made, StoredKernel, content, digest};

/// Naive kernels, each once.
#[derive(Debug, Default)]
pub(crate) struct Library {
    /// By a digest of all but name and origin: positions among those asked for.
    known: BTreeMap<u64, Vec<usize>>,
    /// In the order in which they were asked for.
    naive: Vec<(KernelId, Naive)>,
    /// The names of the module's kernels.
    names: BTreeSet<String>,
}

/// How each kernel was made, and what it shares with other lowerings.
pub(crate) type Schedules = BTreeMap<KernelId, (Made, Option<Arc<StoredKernel>>)>;

/// A kernel in the scheduled form, with how it was made.
struct Finished {
    id: KernelId,
    kernel: Kernel,
    made: Made,
    stored: Option<Arc<StoredKernel>>,
}

impl Library {
    /// Nothing made yet, for this module.
    pub(crate) fn new(module: &Module) -> Library {
        let names = module.kernels.values().map(|kernel| kernel.name.clone()).collect();
        Library { names, ..Library::default() }
    }

    /// The kernel of the module for a naive kernel; a new one gets a name that begins with
    /// `prefix`.
    pub(crate) fn kernel(
        &mut self,
        mut naive: Naive,
        prefix: &str,
        module: &mut Module,
    ) -> base::Result<KernelId> {
        let alike = self.known.entry(digest(&naive.kernel)).or_default();
        let same =
            |&&position: &&usize| content(&self.naive[position].1.kernel) == content(&naive.kernel);
        if let Some(&known) = alike.iter().find(same) {
            return Ok(self.naive[known].0);
        }
        alike.push(self.naive.len());
        naive.kernel.name = self.fresh_name(prefix, module.kernels.len());
        if cfg!(debug_assertions) {
            loops::verify(&naive.kernel)?;
        }
        let kernel = module.kernels.push(Kernel::new(&naive.kernel.name));
        self.naive.push((kernel, naive));
        Ok(kernel)
    }

    /// Schedules all kernels, but for those that the options' store has, and puts them in the
    /// module. Also gives what they share with other lowerings.
    pub(crate) fn schedule(
        self,
        module: &mut Module,
        target: &Target,
        options: &LowerOptions,
    ) -> base::Result<Schedules> {
        let finish = |(id, naive): (KernelId, Naive)| -> base::Result<Finished> {
            if let Some(stored) = options.store.as_ref().and_then(|it| it.find(&naive.kernel)) {
                let mut kernel = stored.scheduled.clone();
                (kernel.name, kernel.origin) = (naive.kernel.name, naive.kernel.origin);
                return Ok(Finished {
                    id,
                    kernel,
                    made: stored.made.clone(),
                    stored: Some(stored),
                });
            }
            let (kernel, made) = Made::by_strategies(naive, target, options)?;
            let stored =
                options.store.as_ref().map(|store| store.add(made.clone(), kernel.clone()));
            Ok(Finished { id, kernel, made, stored })
        };
        let mut all = BTreeMap::new();
        for finished in base::parallel::map(options.threads, self.naive, finish) {
            let Finished { id, kernel, made, stored } = finished?;
            module.kernels[id] = kernel;
            all.insert(id, (made, stored));
        }
        Ok(all)
    }

    /// A name that no kernel has yet.
    fn fresh_name(&mut self, prefix: &str, first: usize) -> String {
        let mut number = first;
        loop {
            let name = format!("{prefix}_{number}");
            if self.names.insert(name.clone()) {
                return name;
            }
            number += 1;
        }
    }
}
