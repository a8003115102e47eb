//! Steps on the nest that sums, which all tiles of a sum take.

use backend::Target;
use schedule::{ScheduleStep, Tail};

use crate::choice::Choice;
use crate::given::Refused;
use crate::hand::Hand;
use crate::problem::{Problem, fitting_instructions};

/// Multiply-adds of vectors that the body of the innermost loop may hold: more make no tile faster,
/// fewer leave large tiles a single term a turn, and each costs a microsecond when it is compiled.
const UNROLLED: i64 = 64;

/// The most terms that share the loads of vectors, and are written out for that.
const SHARING: i64 = 8;

/// The same where code lies in flash, of which there is little.
const UNROLLED_IN_FLASH: i64 = 16;

/// Lets the sums run over whole panels, so that only the last nest has a tail. Where that is not
/// legal they have one, too.
pub(super) fn whole_panels(hand: &mut Hand<'_>, problem: &Problem, choice: &Choice) {
    let axis = &problem.axes[choice.vector];
    let (Some(update), Some(place)) = (&axis.update, axis.place) else { return };
    let whole = choice.width;
    if choice.tail != Tail::Guard || (!axis.last.is_free() && axis.last.extent % whole == 0) {
        return;
    }
    let Some(init) = problem.init.get(place).cloned().flatten() else { return };
    let steps = [
        ScheduleStep::Extend { target: init, whole },
        ScheduleStep::Extend { target: update.name.clone(), whole },
    ];
    // Where one is refused, none is taken.
    _ = hand.attempt(|hand| steps.into_iter().try_for_each(|step| hand.take(step)));
}

/// Runs the last of some loops in vectors, the others are written out.
pub(super) fn in_vectors(hand: &mut Hand<'_>, nest: &[String]) -> Result<(), Refused> {
    let Some((vector, rows)) = nest.split_last() else { return Ok(()) };
    hand.vectorise(vector)?;
    rows.iter().try_for_each(|row| hand.unroll(row))
}

/// The same for the loops of a tile that sums. Where they hold a loop over neighbours, that is an
/// instruction of the target if one is described that does it; a remark says which, or why not.
pub(super) fn tile_in_vectors(
    hand: &mut Hand<'_>,
    problem: &Problem,
    nest: &[String],
    target: &Target,
) -> Result<String, Refused> {
    let mut reasons = Vec::new();
    if let Some((vector, outer)) = nest.split_last()
        && let Some((over, rows)) = outer.split_last()
    {
        let fitting: Vec<_> = fitting_instructions(problem, hand.kernel(), target).collect();
        for found in fitting {
            let row = match found {
                Ok((row, _)) => row,
                Err(slow) => {
                    reasons.push(format!("; not by {slow}: multiply-adds take less here"));
                    continue;
                }
            };
            let tried = hand.attempt(|hand| {
                hand.reorder(&[vector.clone(), over.clone()])?;
                hand.unroll(over)?;
                in_vectors(hand, &[rows, std::slice::from_ref(vector)].concat())?;
                hand.tensorise(over, row.name())
            });
            match tried {
                Ok(()) => return Ok(format!(", by {}", row.name())),
                Err(reason) => reasons.push(format!("; not by {}: {reason}", row.name())),
            }
        }
    }
    in_vectors(hand, nest)?;
    Ok(reasons.concat())
}

/// Writes out the innermost reduced loops as far as the code stays small and its loads do not move
/// too far at a time, given the vectors that each term is added to.
pub(super) fn unroll_sum(
    hand: &mut Hand<'_>,
    problem: &Problem,
    reduced: &[String],
    accumulators: i64,
    target: &Target,
) -> Result<(), Refused> {
    let most = if target.is_microcontroller() { UNROLLED_IN_FLASH } else { UNROLLED };
    let near = (target.machine.near_bytes - 1) / problem.bytes_a_term(hand.kernel(), target);
    let mut budget = (most / accumulators.max(1)).min(near);
    for (position, name) in reduced.iter().enumerate().rev() {
        let Some(extent) = hand.extent(name) else { break };
        let whole = extent <= SHARING && problem.shares_vectors(name);
        if whole || extent <= budget && (position > 0 || extent <= 9) {
            hand.unroll(name)?;
            budget = (budget / extent).max(1);
            continue;
        }
        let most = budget.min(8);
        let mut factor = (2..=most).rev().find(|factor| extent % factor == 0).unwrap_or(1);
        if factor < 4 && most >= 4 && extent >= 2 * most {
            factor = most;
            let rest = hand.cut(name, extent / most * most)?;
            hand.unroll(&rest)?;
        }
        if factor > 1 {
            let (_, inner) = hand.split(name, factor, Tail::Exact)?;
            hand.unroll(&inner)?;
        }
        break;
    }
    Ok(())
}
