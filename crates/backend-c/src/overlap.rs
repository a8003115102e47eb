//! Which parameters of kernels may be `restrict`.

use std::collections::{BTreeMap, BTreeSet};

use base::KernelId;
use loops::BufferId;
use module::Module;
use program::{Argument, Place, Program, Run, Step};

/// For each kernel that programs run, its parameters that overlap no other argument in any run,
/// but for those where both are only read.
///
/// Inputs and outputs of the caller are taken to be apart.
pub(crate) fn unshared_parameters(
    module: &Module,
    programs: &[&Program],
) -> BTreeMap<KernelId, BTreeSet<BufferId>> {
    let mut unshared: BTreeMap<KernelId, BTreeSet<BufferId>> = BTreeMap::new();
    for program in programs {
        program::walk(&program.steps, &mut |step| {
            let Step::Run(run) = step else { return };
            let parameters = &module.kernels[run.kernel].parameters;
            let here = parameters.iter().enumerate().filter(|(at, _)| is_apart(program, run, *at));
            let here: BTreeSet<BufferId> = here.map(|(_, id)| *id).collect();
            let known = unshared.entry(run.kernel).or_insert_with(|| here.clone());
            known.retain(|id| here.contains(id));
        });
    }
    unshared
}

fn is_apart(program: &Program, run: &Run, position: usize) -> bool {
    let Some(own) = run.arguments.get(position) else { return false };
    let mut others = run.arguments.iter().enumerate().filter(|(at, _)| *at != position);
    others.all(|(_, other)| !(own.writes || other.writes) || are_disjoint(program, own, other))
}

fn are_disjoint(program: &Program, a: &Argument, b: &Argument) -> bool {
    let [first, second] = [a, b].map(|each| &program.slots[each.address.slot]);
    let (start, end) = match (&first.place, &second.place) {
        (Place::Arena(first), Place::Arena(second))
        | (Place::Constants(first), Place::Constants(second)) => (first, second),
        (first, second) if first != second => return true,
        _ => (&sym::Expr::ZERO, &sym::Expr::ZERO),
    };
    let span = |place: &sym::Expr, argument: &Argument| {
        let start = (place + &argument.address.offset).as_constant()?;
        Some((start, start.checked_add(argument.bytes.as_constant()?)?))
    };
    match (span(start, a), span(end, b)) {
        (Some(a), Some(b)) => a.1 <= b.0 || b.1 <= a.0,
        _ => false,
    }
}
