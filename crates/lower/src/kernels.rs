//! The kernels made so far: equal naive kernels are scheduled once and shared.

use std::collections::{BTreeMap, BTreeSet};

use backend::Target;
use base::KernelId;
use module::Module;

use crate::LowerOptions;
use crate::naive::Naive;
use crate::strategies;

/// What is printed of a kernel's making.
#[derive(Clone, Debug)]
pub(crate) struct NaiveText {
    /// The naive kernel.
    pub(crate) naive: String,
    /// The steps that scheduled it.
    pub(crate) trace: String,
    /// What the strategies said.
    pub(crate) remarks: Vec<String>,
}

/// A kernel of the module and how it was made.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) kernel: KernelId,
    pub(crate) text: NaiveText,
}

/// Kernels by the text of their naive form.
#[derive(Debug)]
pub(crate) struct Library {
    made: BTreeMap<String, Made>,
    /// The names of the module's kernels.
    names: BTreeSet<String>,
}

impl Library {
    /// Nothing made yet, for this module.
    pub(crate) fn new(module: &Module) -> Library {
        let names = module.kernels.values().map(|kernel| kernel.name.clone()).collect();
        Library { made: BTreeMap::new(), names }
    }

    /// Schedules a naive kernel and adds it to the module under a name that begins with `prefix`,
    /// unless there is an equal one.
    pub(crate) fn kernel(
        &mut self,
        mut naive: Naive,
        prefix: &str,
        module: &mut Module,
        target: &Target,
        options: &LowerOptions,
    ) -> base::Result<Made> {
        let origin = std::mem::take(&mut naive.kernel.origin);
        let key = naive.kernel.to_string();
        if let Some(made) = self.made.get(&key) {
            return Ok(made.clone());
        }
        naive.kernel.origin = origin;
        naive.kernel.name = self.fresh_name(prefix, module.kernels.len());
        if cfg!(debug_assertions) {
            loops::verify(&naive.kernel)?;
        }
        let text = naive.kernel.to_string();
        let scheduled = strategies::schedule(naive, target, &options.strategies)?;
        let kernel = module.kernels.push(scheduled.kernel);
        let (trace, remarks) = (scheduled.trace, scheduled.remarks);
        let made = Made { kernel, text: NaiveText { naive: text, trace, remarks } };
        self.made.insert(key, made.clone());
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
