//! Reading programs: walking over steps, asking which symbols steps set, putting values in their
//! place.

use std::collections::{BTreeMap, BTreeSet};

use base::{KernelId, SecondaryMap};
use sym::{Expr, SymbolId};

use crate::program::{Address, Place, Program, Run, Step};

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

impl Program {
    /// The program for these values of symbols that no step sets: sizes, places and extents over
    /// them are numbers.
    #[must_use]
    pub fn with_values(&self, values: &BTreeMap<SymbolId, i64>) -> Program {
        let mut program = self.clone();
        let bind = &mut |expr: &mut Expr| {
            *expr = expr.substitute(&mut |id| values.get(&id).map(|&value| value.into()));
        };
        bind(&mut program.arena_bytes);
        for (_, slot) in program.slots.iter_mut() {
            bind(&mut slot.bytes);
            if let Place::Constants(offset) | Place::Arena(offset) = &mut slot.place {
                bind(offset);
            }
        }
        walk_mut(&mut program.steps, &mut |step| each_expr(step, bind));
        program
    }
}

/// Visits the expressions of a step itself, to change them.
fn each_expr(step: &mut Step, visit: &mut dyn FnMut(&mut Expr)) {
    let mut address = |it: &mut Address| visit(&mut it.offset);
    match step {
        Step::Run(Run { arguments, extent, scratch_bytes, grain, .. }) => {
            arguments.iter_mut().for_each(|it| address(&mut it.address));
            let sizes = arguments.iter_mut().map(|it| &mut it.bytes);
            sizes.chain([extent, scratch_bytes, grain]).for_each(visit);
        }
        Step::Bind { source, .. } => address(source),
        Step::Copy { source, destination, bytes } => {
            [source, destination].into_iter().for_each(&mut address);
            visit(bytes);
        }
        Step::Move(moved) => {
            [&mut moved.source, &mut moved.destination].into_iter().for_each(address);
        }
        Step::Branch { condition, .. } | Step::While { condition, .. } => address(condition),
        Step::Repeat { count, .. } => visit(count),
        Step::Barrier => {}
    }
}
