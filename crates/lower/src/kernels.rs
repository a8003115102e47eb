//! The kernels of a program: equal naive kernels are scheduled once and shared.
//!
//! Kernels get their ids when they are asked for and stand in the module as they are, naive; when
//! all are known they are scheduled, on several threads, and take their places.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use backend::Target;
use base::KernelId;
use module::Module;

use crate::LowerOptions;
use crate::naive::Naive;
use crate::strategies;

/// Naive kernels, each once.
#[derive(Debug, Default)]
pub(crate) struct Library {
    /// By their text without name and origin.
    known: BTreeMap<String, KernelId>,
    /// In the order in which they were asked for.
    naive: Vec<(KernelId, Naive)>,
    /// The names of the module's kernels.
    names: BTreeSet<String>,
}

/// How a kernel was made; shared by all its runs.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    /// The naive kernel.
    pub(crate) naive: Arc<str>,
    /// The steps that scheduled it.
    pub(crate) trace: Arc<str>,
    /// What the strategies said.
    pub(crate) remarks: Arc<[String]>,
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
        let origin = std::mem::take(&mut naive.kernel.origin);
        let key = naive.kernel.to_string();
        if let Some(known) = self.known.get(&key) {
            return Ok(*known);
        }
        naive.kernel.origin = origin;
        naive.kernel.name = self.fresh_name(prefix, module.kernels.len());
        if cfg!(debug_assertions) {
            loops::verify(&naive.kernel)?;
        }
        let kernel = module.kernels.push(naive.kernel.clone());
        self.known.insert(key, kernel);
        self.naive.push((kernel, naive));
        Ok(kernel)
    }

    /// Schedules all kernels and puts them in the module.
    pub(crate) fn schedule(
        self,
        module: &mut Module,
        target: &Target,
        options: &LowerOptions,
    ) -> base::Result<BTreeMap<KernelId, Made>> {
        let schedule = |(id, naive): (KernelId, Naive)| {
            let text = naive.kernel.to_string();
            (id, text, strategies::schedule(naive, target, &options.strategies))
        };
        let mut made = BTreeMap::new();
        for (id, naive, scheduled) in base::parallel::map(options.threads, self.naive, schedule) {
            let scheduled = scheduled?;
            module.kernels[id] = scheduled.kernel;
            let (trace, remarks) = (scheduled.trace.into(), scheduled.remarks.into());
            made.insert(id, Made { naive: naive.into(), trace, remarks });
        }
        Ok(made)
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
