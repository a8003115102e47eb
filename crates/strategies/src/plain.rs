//! The strategy that always fits: the naive nests as they are, their outermost loops joined and
//! shared among workers where that is legal.

use backend::Target;
use schedule::Schedule;

use crate::given::Refused;
use crate::hand::{Hand, SHARED};
use crate::naive::Naive;
use loops::{Kernel, Stmt};

/// Joins and shares what can be; a remark on how far that went.
pub(super) fn apply(schedule: &mut Schedule, _naive: &Naive, _target: &Target) -> String {
    let before = schedule.clone();
    match share(schedule) {
        Ok(()) => "outermost loops shared".into(),
        Err(reason) => {
            *schedule = before;
            format!("run by one worker: {reason}")
        }
    }
}

fn share(schedule: &mut Schedule) -> Result<(), Refused> {
    let mut hand = Hand::new(schedule);
    let outermost: Option<Vec<String>> =
        hand.kernel().body.iter().map(|stmt| loop_name(hand.kernel(), stmt)).collect();
    let outermost = outermost.ok_or("a statement stands outside of all loops")?;
    let (first, others) = outermost.split_first().ok_or("it does nothing")?;
    others.iter().try_for_each(|other| hand.merge(first, other))?;
    let band = perfect_band(hand.kernel());
    hand.share(&band, SHARED)
}

fn loop_name(kernel: &Kernel, stmt: &Stmt) -> Option<String> {
    match stmt {
        Stmt::For(found) => Some(kernel.symbols[found.variable].name.clone()),
        _ => None,
    }
}

/// Names of the loops, outermost first, each the whole body of the one before.
fn perfect_band(kernel: &Kernel) -> Vec<String> {
    let (mut names, mut block) = (Vec::new(), &kernel.body[..]);
    while let [Stmt::For(found)] = block {
        names.push(kernel.symbols[found.variable].name.clone());
        block = &found.body;
    }
    names
}
