//! Reading programs: walking over steps, asking which symbols steps set.

use std::collections::BTreeSet;

use base::{KernelId, SecondaryMap};
use sym::SymbolId;

use crate::program::{Program, Step};

/// Visits every step, outermost first, in the order of the text.
pub fn walk<'a>(steps: &'a [Step], visit: &mut dyn FnMut(&'a Step)) {
    for step in steps {
        visit(step);
        for block in step.blocks() {
            walk(block, visit);
        }
    }
}

impl Program {
    /// The kernels that it runs, each once, in order of first use.
    #[must_use]
    pub fn kernels(&self) -> Vec<KernelId> {
        let mut seen = SecondaryMap::<KernelId, bool>::new();
        let mut kernels = Vec::new();
        walk(&self.steps, &mut |step| {
            if let Step::Run(run) = step
                && !std::mem::replace(&mut seen[run.kernel], true)
            {
                kernels.push(run.kernel);
            }
        });
        kernels
    }
}

/// Visits every step to change it, outermost first, in the order of the text.
pub fn walk_mut(steps: &mut [Step], visit: &mut dyn FnMut(&mut Step)) {
    for step in steps {
        visit(step);
        match step {
            Step::Branch { then: first, otherwise: second, .. }
            | Step::While { setup: first, body: second, .. } => {
                walk_mut(first, visit);
                walk_mut(second, visit);
            }
            Step::Repeat { body, .. } => walk_mut(body, visit),
            Step::Run(_)
            | Step::Barrier
            | Step::Bind { .. }
            | Step::Copy { .. }
            | Step::Move(_) => {}
        }
    }
}

impl Step {
    /// The step lists inside, in the order of the text.
    pub fn blocks(&self) -> impl Iterator<Item = &[Step]> {
        let (first, second): (&[Step], &[Step]) = match self {
            Step::Branch { then, otherwise, .. } => (then, otherwise),
            Step::While { setup, body, .. } => (setup, body),
            Step::Repeat { body, .. } => (body, &[]),
            Step::Run(_)
            | Step::Barrier
            | Step::Bind { .. }
            | Step::Copy { .. }
            | Step::Move(_) => (&[], &[]),
        };
        [first, second].into_iter()
    }
}

impl Program {
    /// The symbols that steps set. The others are known before the program runs.
    pub fn set_symbols(&self) -> BTreeSet<SymbolId> {
        let mut set = BTreeSet::new();
        walk(&self.steps, &mut |step| {
            if let Step::Bind { symbol, .. } | Step::Repeat { symbol, .. } = step {
                set.insert(*symbol);
            }
        });
        set
    }
}
