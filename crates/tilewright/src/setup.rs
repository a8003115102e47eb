//! The run of `setup`: what it makes of the weights.

use std::collections::BTreeMap;

use backend::Target;
use base::Result;
use lower::Role;
use runtime::State;

use crate::options::{Options, TargetChoice};
use crate::specialisation::{LoweredFunction, Request, Specialisation};

/// Bytes of weights that are given back to the system at once: to give back a page costs half of
/// what mapping it did, and a small model need not give back any.
const RELEASED_TOGETHER: usize = 8 << 20;

/// Code of `setup` that this machine runs: for the target, or, where the machine has not its
/// instructions, for the machine. The bits are the same, and where results lie follows from their
/// types.
///
/// # Errors
/// `TW0402` on a machine that runs no code at all; diagnostics of the compile.
pub(crate) fn code_for_this_machine(
    setup: &LoweredFunction,
    target: &Target,
    options: &Options,
) -> Result<Specialisation> {
    let native;
    let target = match runs_here(target) {
        true => target,
        false => {
            native = TargetChoice::Native.resolve()?;
            &native
        }
    };
    let (own, symbols) =
        ((&setup.module, &setup.module.functions[setup.function]), BTreeMap::new());
    Specialisation::new(Request::new(own, &symbols, Role::Setup, (target, options)))
}

/// Whether this machine has the target's instructions.
pub(crate) fn runs_here(target: &Target) -> bool {
    target.check_machine(&runtime::cpu::has_feature).is_ok()
}

/// Parts of the block of constants that are handed over have about so many bytes: caches keep them.
const PART_BYTES: usize = 2 << 20;

/// Where the block of constants goes.
pub(crate) enum Destination<'a> {
    /// To memory, zeros so far.
    Memory(&'a mut [u8]),
    /// To whoever takes it part by part, in order.
    Parts(&'a mut dyn FnMut(&[u8]) -> Result<()>),
}

/// Fills the block of constants.
///
/// # Errors
/// Faults while running, and those of whoever takes parts.
pub(crate) fn run_setup(
    setup: &Specialisation,
    to: Destination<'_>,
    options: &Options,
) -> Result<()> {
    let run = |state: &mut State| {
        let mut call = state.call();
        for &id in setup.executable().weights() {
            call.weight(id, setup.weight(id).bytes())?;
        }
        // What has been packed is not read again: the file need not stay in memory beside it.
        let (mut waiting, mut waiting_bytes) = (Vec::new(), 0);
        let release = |id| tensor::mapped::release(setup.weight(id).bytes());
        let mut release_later = |id| {
            waiting.push(id);
            waiting_bytes += setup.weight(id).bytes().len();
            if waiting_bytes >= RELEASED_TOGETHER {
                waiting.drain(..).for_each(release);
                waiting_bytes = 0;
            }
        };
        match to {
            Destination::Memory(bytes) => {
                call.constants_to_fill(bytes)?;
                call.run_releasing(&mut release_later)?;
            }
            Destination::Parts(take) => {
                call.run_in_parts(PART_BYTES, &mut release_later, take)?;
            }
        }
        waiting.drain(..).for_each(release);
        Ok(())
    };
    let threads = options.thread_count();
    options.phases.time("run of setup", || setup.states.with(threads, run))?;
    // It is not run again, unless weights change.
    setup.states.release();
    Ok(())
}
