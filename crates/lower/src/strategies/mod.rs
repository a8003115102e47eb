//! Strategies: which steps make a naive kernel fast.
//!
//! A strategy looks at the structure of the nests (which loops are parallel, which are reduced, how
//! each access moves with each loop) and at the target row, never at what an operator was called.
//! All it does is take steps of `schedule`, each of which is checked and recorded, so what it did
//! is a trace that prints and replays on the naive kernel. A strategy that does not fit is refused
//! with a reason, and the next one is tried; the last one, `plain`, always fits.
//!
//! Invariant: the scheduled kernel computes the bits of the naive one, and is in the scheduled form
//! (`loops::verify_scheduled`). Nothing here fails because a kernel is unusual.

mod blocks;
mod choice;
pub(crate) mod cost;
mod deep;
mod dots;
mod hand;
mod map;
mod order;
mod panels;
mod plain;
mod predict;
mod rows;
mod stream;
mod structure;
mod tile;

use backend::Target;
use loops::visit::walk_values;
use loops::{Kernel, Value, verify_scheduled};
use schedule::{Schedule, Trace};

use crate::naive::{Naive, StageKind};
use hand::Hand;
pub use predict::Prediction;
use structure::Nest;

/// What may be asked of strategies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StrategyOptions {
    /// Take no steps but those that a back end needs: for tests, and to find faults.
    pub plain: bool,
}

/// A kernel as it is to be compiled.
#[derive(Clone, Debug)]
pub struct Scheduled {
    /// The kernel, in the scheduled form.
    pub kernel: Kernel,
    /// The steps that made it of the naive kernel.
    pub trace: Trace,
    /// Which strategy it was, and why not another.
    pub remarks: Vec<String>,
}

/// Why a strategy does not fit, as a sentence without a full stop.
type Refused = String;

/// What a strategy does: its steps on the schedule, and a remark on its choices.
type Strategy = fn(&mut Schedule, &Given<'_>, &Target) -> Result<String, Refused>;

/// What strategies are given.
struct Given<'a> {
    naive: &'a Naive,
    /// The nests of its kernel, if all statements of its body are some.
    nests: Option<Vec<Nest>>,
}

impl Given<'_> {
    fn nests(&self) -> Result<&[Nest], Refused> {
        self.nests.as_deref().ok_or_else(|| "its loops are no perfect nests".to_owned())
    }
}

/// Strategies by name, in the order in which they are tried.
const STRATEGIES: [(&str, Strategy); 5] = [
    ("tile", tile::apply),
    ("blocks", blocks::apply),
    ("dots", dots::apply),
    ("rows", rows::apply),
    ("map", map::apply),
];

/// Schedules a naive kernel for a target.
///
/// # Errors
/// When a scalar function has no expansion for its type; nothing else is an error.
pub fn schedule(
    naive: &Naive,
    target: &Target,
    options: &StrategyOptions,
) -> base::Result<Scheduled> {
    let mut remarks = Vec::new();
    let opaque = naive.stages.iter().any(|stage| stage.kind == StageKind::Opaque);
    let strategies = if options.plain || opaque { &[][..] } else { &STRATEGIES[..] };
    let mut schedule = Schedule::new(naive.kernel.clone());
    let nests = (!strategies.is_empty()).then(|| Nest::all(&naive.kernel)).flatten();
    let given = Given { naive, nests };
    for (name, strategy) in strategies {
        match attempt(&mut schedule, &given, target, *strategy) {
            Ok(remark) => {
                remarks.push(format!("{name}: {remark}"));
                return Ok(finish(schedule, remarks));
            }
            Err(reason) => remarks.push(format!("not {name}: {reason}")),
        }
        if !schedule.trace().is_empty() {
            schedule = Schedule::new(naive.kernel.clone());
        }
    }
    let remark = plain::apply(&mut schedule, naive, target);
    remarks.push(format!("plain: {remark}"));
    if needs_expansion(schedule.kernel()) {
        schedule.expand_functions().map_err(internal)?;
    }
    Ok(finish(schedule, remarks))
}

/// Takes a strategy's steps, if they lead to a kernel in the scheduled form.
fn attempt(
    schedule: &mut Schedule,
    given: &Given<'_>,
    target: &Target,
    strategy: Strategy,
) -> Result<String, Refused> {
    let remark = strategy(schedule, given, target)?;
    Hand::new(schedule).simplify()?;
    if needs_expansion(schedule.kernel()) {
        schedule.expand_functions().map_err(|error| error.message)?;
    }
    verify_scheduled(schedule.kernel()).map_err(|error| error.to_string())?;
    Ok(remark)
}

fn finish(schedule: Schedule, remarks: Vec<String>) -> Scheduled {
    let (kernel, trace) = schedule.into_parts();
    Scheduled { kernel, trace, remarks }
}

/// Whether the kernel holds scalar functions that no target computes as they are.
fn needs_expansion(kernel: &Kernel) -> bool {
    let mut found = false;
    walk_values(&kernel.body, &mut |value| {
        found |= matches!(value, Value::Apply { function, .. } if !function.is_machine());
    });
    found
}

fn internal(error: schedule::ScheduleError) -> base::Diagnostics {
    let message = format!("a kernel cannot be scheduled: {}", error.message);
    base::Diagnostics::from(base::Diagnostic::error(base::codes::INTERNAL_ERROR, message))
}
