//! What is known of where the parameters of kernels lie: which may be `restrict`, which begin at a
//! whole word.

use std::collections::{BTreeMap, BTreeSet};

use base::KernelId;
use loops::BufferId;
use module::Module;
use program::{Argument, Place, Program, Run, Step};

/// What every run of a kernel has in common.
#[derive(Clone, Debug, Default)]
pub(crate) struct ParameterPlaces {
    /// Parameters that overlap no other argument, but for those where both are only read.
    pub(crate) unshared: BTreeSet<BufferId>,
    /// Parameters that begin at a multiple of four bytes.
    pub(crate) aligned: BTreeSet<BufferId>,
}

/// The places of each kernel that programs run.
///
/// Inputs and outputs of the caller are taken to be apart, but to begin anywhere.
pub(crate) fn parameter_places(
    module: &Module,
    programs: &[&Program],
) -> BTreeMap<KernelId, ParameterPlaces> {
    let mut known: BTreeMap<KernelId, ParameterPlaces> = BTreeMap::new();
    for program in programs {
        program::walk(&program.steps, &mut |step| {
            let Step::Run(run) = step else { return };
            let parameters = &module.kernels[run.kernel].parameters;
            let those = |is_so: &dyn Fn(usize) -> bool| -> BTreeSet<BufferId> {
                let here = parameters.iter().enumerate().filter(|(at, _)| is_so(*at));
                here.map(|(_, id)| *id).collect()
            };
            let here = ParameterPlaces {
                unshared: those(&|at| is_apart(program, run, at)),
                aligned: those(&|at| is_aligned(program, run, at)),
            };
            let known = known.entry(run.kernel).or_insert_with(|| here.clone());
            known.unshared.retain(|id| here.unshared.contains(id));
            known.aligned.retain(|id| here.aligned.contains(id));
        });
    }
    known
}

/// Whether an argument begins at a multiple of four bytes, as the arena and the block of constants
/// do.
fn is_aligned(program: &Program, run: &Run, position: usize) -> bool {
    let Some(own) = run.arguments.get(position) else { return false };
    let start = match &program.slots[own.address.slot].place {
        Place::Arena(start) | Place::Constants(start) => start.divisible_by(4),
        // A copy in the block of constants.
        Place::Weight(_) => true,
        Place::Input(_) | Place::Output(_) => false,
    };
    start && own.address.offset.divisible_by(4)
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
