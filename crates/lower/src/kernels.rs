//! The kernels made so far: equal naive kernels are scheduled once and shared.

use std::collections::BTreeMap;

use backend::Target;
use base::KernelId;
use loops::Kernel;
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
#[derive(Debug, Default)]
pub(crate) struct Library {
    made: BTreeMap<String, Made>,
}

impl Library {
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
        naive.kernel.name = fresh_name(prefix, module);
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
}

fn fresh_name(prefix: &str, module: &Module) -> String {
    let taken = |name: &str| module.kernels.values().any(|kernel: &Kernel| kernel.name == name);
    let mut number = module.kernels.len();
    loop {
        let name = format!("{prefix}_{number}");
        if !taken(&name) {
            return name;
        }
        number += 1;
    }
}
