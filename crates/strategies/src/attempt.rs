//! Strategies are tried in turn, each on the naive kernel.

use backend::Target;
use loops::visit::walk_values;
use loops::{Kernel, ScalarExpr, verify_scheduled};
use schedule::{Schedule, Trace};

use crate::given::{Given, Refused};
use crate::hand::Hand;
use crate::naive::{Naive, ProducerKind};
use crate::structure::Nest;
use crate::{blocks, dots, map, plain, rows, tile};

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

/// What a strategy does: its steps on the schedule, and a remark on its choices.
type Strategy = fn(&mut Schedule, &Given<'_>, &Target) -> Result<String, Refused>;

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
    let opaque = naive.producers.iter().any(|producer| producer.kind == ProducerKind::Opaque);
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
        schedule.expand_functions().map_err(|error| {
            base::Diagnostics::internal(format!("a kernel cannot be scheduled: {}", error.message))
        })?;
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
    let (kernel, trace) = schedule.into_components();
    Scheduled { kernel, trace, remarks }
}

/// Whether the kernel holds scalar functions that no target computes as they are.
fn needs_expansion(kernel: &Kernel) -> bool {
    let mut found = false;
    walk_values(&kernel.body, &mut |value| {
        found |= matches!(value, ScalarExpr::Apply { function, .. } if !function.is_machine());
    });
    found
}
