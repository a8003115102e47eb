//! A strategy's hand on a schedule: steps with fresh names, refusals as reasons.

use loops::visit::touched;
use loops::{Buffer, Kernel, Loop, Scope, Stmt};
use schedule::{CutAt, LocalScope, Schedule, ScheduleError, ScheduleStep, Tail};

use crate::given::Refused;
use crate::structure::Nest;

/// Iterations of the parallel loop beyond which no more loops are fused into it.
pub(super) const SHARED: i64 = 64;

/// How often statements should run in a turn of the parallel loop, at least.
const LEAST_SHARE: i64 = 128;

/// A schedule, with the steps that strategies take.
pub(super) struct Hand<'a> {
    schedule: &'a mut Schedule,
    /// Loops whose last iteration overlaps the one before it: not to be shared among workers.
    overlapping: Vec<String>,
    /// The schedule before each attempt under way; none where that is the schedule as it is.
    before: Vec<Option<Schedule>>,
}

impl<'a> Hand<'a> {
    pub(super) fn new(schedule: &'a mut Schedule) -> Hand<'a> {
        Hand { schedule, overlapping: Vec::new(), before: Vec::new() }
    }

    pub(super) fn kernel(&self) -> &Kernel {
        self.schedule.kernel()
    }

    /// The schedule as it is, to come back to.
    pub(super) fn copy(&self) -> Schedule {
        self.schedule.clone()
    }

    /// Goes back to a copy.
    pub(super) fn restore(&mut self, copy: Schedule) {
        *self.schedule = copy;
    }

    /// Takes steps, of which none stay if one is refused.
    pub(super) fn attempt<T>(
        &mut self,
        steps: impl FnOnce(&mut Self) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        self.before.push(None);
        let result = steps(self);
        if let Some(Some(before)) = self.before.pop()
            && result.is_err()
        {
            self.restore(before);
        }
        result
    }

    /// Takes a step.
    pub(super) fn take(&mut self, step: ScheduleStep) -> Result<(), Refused> {
        for before in self.before.iter_mut().filter(|before| before.is_none()) {
            *before = Some(self.schedule.clone());
        }
        self.schedule.apply(step).map_err(|error| refusal(&error))
    }

    /// Splits a loop; the names of both parts. A loop not longer than the factor is left alone and
    /// is the inner part.
    pub(super) fn split(
        &mut self,
        target: &str,
        factor: i64,
        tail: Tail,
    ) -> Result<(Option<String>, String), Refused> {
        let extent = self.extent(target);
        if extent.is_some_and(|extent| extent <= factor) {
            return Ok((None, target.to_owned()));
        }
        let (outer, inner) = (self.fresh(target, "o"), self.fresh(target, "i"));
        let step = ScheduleStep::Split {
            target: target.to_owned(),
            factor,
            outer: outer.clone(),
            inner: inner.clone(),
            tail,
        };
        self.take(step)?;
        let exact = self.extent(&outer).zip(extent).is_some_and(|(n, all)| n * factor == all);
        if tail == Tail::Shift && !exact {
            self.overlapping.push(outer.clone());
        }
        Ok((Some(outer), inner))
    }

    /// Splits a loop so that no iteration needs a condition: the last block overlaps the one before
    /// it or, where that is not legal, blocks are shorter. Where a free extent may be less than a
    /// block, iterations have a condition.
    pub(super) fn split_whole(
        &mut self,
        target: &str,
        factor: i64,
    ) -> Result<(Option<String>, String), Refused> {
        let Some(extent) = self.extent(target) else {
            let shifted = self.split(target, factor, Tail::Shift);
            return shifted.or_else(|_| self.split(target, factor, Tail::Guard));
        };
        if extent % factor == 0 {
            return self.split(target, factor, Tail::Exact);
        }
        if let Ok(parts) = self.split(target, factor, Tail::Shift) {
            return Ok(parts);
        }
        let divisor = (1..=factor).rev().find(|divisor| extent % divisor == 0).unwrap_or(1);
        self.split(target, divisor, Tail::Exact)
    }

    /// Cuts a loop in two after so many iterations; the name of the second one.
    pub(super) fn cut(&mut self, target: &str, at: i64) -> Result<String, Refused> {
        let into = self.fresh(target, "rest");
        let at = CutAt::Turn(at);
        self.take(ScheduleStep::Cut { target: target.to_owned(), at, into: into.clone() })?;
        Ok(into)
    }

    /// Gives the iterations of a loop from one on code of their own.
    pub(super) fn case(&mut self, target: &str, at: i64) -> Result<(), Refused> {
        self.take(ScheduleStep::Case { target: target.to_owned(), at })
    }

    /// Runs the whole parts of a loop over parts of a free extent apart from the last, which may be
    /// shorter: only there conditions stay that hold throughout whole parts.
    pub(super) fn cut_tail(&mut self, target: &str) -> Result<(), Refused> {
        let into = self.fresh(target, "tail");
        self.take(ScheduleStep::Cut { target: target.to_owned(), at: CutAt::Tail, into })
    }

    pub(super) fn reorder(&mut self, order: &[String]) -> Result<(), Refused> {
        if order.len() < 2 {
            return Ok(());
        }
        self.take(ScheduleStep::Reorder { order: order.to_vec() })
    }

    /// Fuses two loops; the name of the new one.
    pub(super) fn fuse(&mut self, outer: &str, inner: &str) -> Result<String, Refused> {
        let into = self.fresh(outer, "f");
        let (outer, inner) = (outer.to_owned(), inner.to_owned());
        self.take(ScheduleStep::Fuse { outer, inner, into: into.clone() })?;
        Ok(into)
    }

    pub(super) fn merge(&mut self, first: &str, second: &str) -> Result<(), Refused> {
        self.take(ScheduleStep::Merge { first: first.to_owned(), second: second.to_owned() })
    }

    /// The kernel's own buffers of which each iteration of a loop meets one element along an axis
    /// do without that axis.
    pub(super) fn shrink(&mut self, target: &str) {
        let own = |buffer: &&Buffer| !matches!(buffer.scope, Scope::Parameter(_));
        let buffers = self.kernel().buffers.values().filter(own);
        let names: Vec<String> = buffers.map(|buffer| buffer.name.clone()).collect();
        for buffer in names {
            // Where it does not fit, nothing is lost.
            _ = self.take(ScheduleStep::Shrink { buffer, target: target.to_owned() });
        }
    }

    pub(super) fn compute_at(&mut self, buffer: &str, target: &str) -> Result<(), Refused> {
        self.take(ScheduleStep::ComputeAt { buffer: buffer.to_owned(), target: target.to_owned() })
    }

    /// Writes a loop out, if it is still there.
    pub(super) fn unroll(&mut self, target: &str) -> Result<(), Refused> {
        match self.find(target) {
            Some(_) => self.take(ScheduleStep::Unroll { target: target.to_owned() }),
            None => Ok(()),
        }
    }

    /// Runs a loop in vectors, if it is still there.
    pub(super) fn vectorise(&mut self, target: &str) -> Result<(), Refused> {
        match self.find(target) {
            Some(_) => self.take(ScheduleStep::Vectorise { target: target.to_owned() }),
            None => Ok(()),
        }
    }

    /// Runs a loop as an instruction.
    pub(super) fn tensorise(&mut self, target: &str, instruction: &str) -> Result<(), Refused> {
        let (target, instruction) = (target.to_owned(), instruction.to_owned());
        self.take(ScheduleStep::Tensorise { target, instruction })
    }

    pub(super) fn parallelise(&mut self, target: &str) -> Result<(), Refused> {
        self.take(ScheduleStep::Parallelise { target: target.to_owned() })
    }

    pub(super) fn registers(&mut self, buffer: &str) -> Result<(), Refused> {
        self.take(ScheduleStep::SetScope { buffer: buffer.to_owned(), scope: LocalScope::Register })
    }

    /// Has the body of a loop sum in registers what it finds in a local buffer and leaves there, in
    /// vectors along the last axis.
    pub(super) fn keep_in_registers(&mut self, buffer: &str, around: &str) -> Result<(), Refused> {
        let into = self.fresh(buffer, "part");
        self.take(ScheduleStep::StageWrite {
            buffer: buffer.to_owned(),
            target: around.to_owned(),
            into: into.clone(),
            scope: LocalScope::Register,
        })?;
        let copy = self.kernel().buffers.values().find(|buffer| buffer.name == into);
        let axes = copy.map_or(0, |copy| copy.shape.len());
        for way in ["_in", ""] {
            for axis in 0..axes {
                let name = format!("{into}{way}_{axis}");
                match axis + 1 == axes {
                    true => self.vectorise(&name)?,
                    false => self.unroll(&name)?,
                }
            }
        }
        Ok(())
    }

    pub(super) fn simplify(&mut self) -> Result<(), Refused> {
        self.take(ScheduleStep::Simplify)
    }

    /// The loop with this name.
    pub(super) fn find(&self, name: &str) -> Option<&Loop> {
        let kernel = self.kernel();
        find_loop(kernel, &kernel.body, name)
    }

    /// Names of the loops inside of a loop, outermost first, each the whole body of the one before.
    pub(super) fn band(&self, name: &str) -> Vec<String> {
        let (mut names, mut around) = (Vec::new(), self.find(name));
        while let Some(found) = around {
            around = match &found.body[..] {
                [Stmt::For(inner)] => Some(inner),
                _ => None,
            };
            names.extend(around.map(|inner| self.kernel().symbols[inner.variable].name.clone()));
        }
        names
    }

    /// The statements of a loop's body, or of the kernel's, each as a nest if it is one. If the
    /// loop is not there any more, because it had one iteration, what it held is in the kernel's
    /// body.
    pub(super) fn block(&self, around: Option<&str>) -> Vec<Option<Nest>> {
        let kernel = self.kernel();
        let found = around.and_then(|name| self.find(name));
        let block = found.map_or(&kernel.body, |found| &found.body);
        block.iter().map(|stmt| Nest::of(kernel, stmt)).collect()
    }

    /// A loop's extent; none if there is no such loop or it has no constant extent.
    pub(super) fn extent(&self, name: &str) -> Option<i64> {
        self.find(name).and_then(|found| found.extent.as_constant())
    }

    /// The least extent that a loop may have; 1 if there is no such loop.
    pub(super) fn least(&self, name: &str) -> i64 {
        let range = |symbol| self.kernel().shape_range(symbol);
        self.find(name).map_or(1, |found| found.extent.bounds(&range).min.max(1))
    }

    /// Those of the loops that are still there.
    pub(super) fn present(&self, names: &[String]) -> Vec<String> {
        names.iter().filter(|name| self.find(name).is_some()).cloned().collect()
    }

    /// `name` with a suffix, and a number behind it if that is taken by a symbol or a buffer.
    pub(super) fn fresh(&self, name: &str, suffix: &str) -> String {
        let kernel = self.kernel();
        let taken = |name: &str| {
            kernel.symbols.values().any(|symbol| symbol.name == name)
                || kernel.buffers.values().any(|buffer| buffer.name == name)
        };
        let wanted = format!("{name}_{suffix}");
        let numbered = (1..).map(|number| format!("{wanted}{number}"));
        std::iter::once(wanted.clone()).chain(numbered).find(|name| !taken(name)).unwrap_or(wanted)
    }

    /// Whether the last iteration of a loop overlaps the one before it.
    pub(super) fn overlaps(&self, name: &str) -> bool {
        self.overlapping.iter().any(|other| other == name)
    }

    /// Whether a condition depends on a loop; one that is fused would need a quotient there.
    pub(super) fn is_guard(&self, name: &str) -> bool {
        let Some(found) = self.find(name) else { return false };
        crate::structure::is_guard(&found.body, found.variable)
    }

    /// After how many iterations of a loop the remainders in conditions repeat.
    pub(super) fn period(&self, name: &str) -> i64 {
        self.find(name).map_or(1, |found| crate::structure::period(&found.body, found.variable))
    }

    /// Whether a loop's body writes a buffer of the kernel's own.
    pub(super) fn computes_local(&self, name: &str) -> bool {
        let Some(found) = self.find(name) else { return false };
        let (_, written) = touched(&found.body);
        let buffers = &self.kernel().buffers;
        written.iter().any(|id| !matches!(buffers[*id].scope, Scope::Parameter(_)))
    }

    /// Fuses loops of a perfect nest, outermost first, or blocks of them, until there are enough
    /// iterations to share, and shares them among workers. Loops that are left, and all from the
    /// first that overlaps on, stay serial; so do those with which iterations cannot be shown to be
    /// independent.
    pub(super) fn share(&mut self, outer: &[String], wanted: i64) -> Result<(), Refused> {
        let count = outer.iter().position(|name| self.overlaps(name)).unwrap_or(outer.len());
        self.share_blocks(&outer[..count], wanted)
    }

    /// As [`Hand::share`]; where no iterations can be shown to be independent, all stay serial,
    /// which the remark goes on to say.
    pub(super) fn share_if_independent(
        &mut self,
        outer: &[String],
        wanted: i64,
        remark: String,
    ) -> String {
        match self.share(outer, wanted) {
            Ok(()) => remark,
            Err(reason) => format!("{remark}; run by one worker: {reason}"),
        }
    }

    /// As [`Hand::share`], loops that overlap included: two workers may store equal bits.
    pub(super) fn share_blocks(&mut self, outer: &[String], wanted: i64) -> Result<(), Refused> {
        let mut result = Ok(());
        for count in (1..=outer.len()).rev() {
            let mut before = None;
            result = self.share_all(&outer[..count], wanted, &mut before);
            if result.is_ok() {
                break;
            }
            if let Some(before) = before {
                self.restore(before);
            }
        }
        result
    }

    /// `before` becomes the schedule as it was, if anything else has been done to it.
    fn share_all(
        &mut self,
        outer: &[String],
        wanted: i64,
        before: &mut Option<Schedule>,
    ) -> Result<(), Refused> {
        let Some((first, rest)) = outer.split_first() else { return Ok(()) };
        let mut shared = first.clone();
        let mut guards = None;
        for next in rest {
            if self.least(&shared) >= wanted {
                break;
            }
            // What has been fused is no guard, nor is anything else one for that.
            let body = || self.find(&shared).map_or(&[][..], |found| &found.body);
            let guards = guards.get_or_insert_with(|| crate::structure::guards(body()));
            let is_guard =
                |name: &str| self.find(name).is_some_and(|found| guards.contains(&found.variable));
            if is_guard(&shared) || is_guard(next) {
                break;
            }
            let Some(least) = self.least_block(next) else { break };
            before.get_or_insert_with(|| self.copy());
            let next = match least {
                1 => Some(next.clone()),
                _ => self.split(next, least, Tail::Exact)?.0,
            };
            let Some(next) = next else { break };
            shared = self.fuse(&shared, &next)?;
        }
        self.parallelise(&shared)
    }

    /// How many turns of a loop a turn of the shared loop must take at least: places are found once
    /// a turn, by quotients. None if all of them are too few.
    fn least_block(&self, name: &str) -> Option<i64> {
        let found = self.find(name)?;
        let inside = iterations(self.kernel(), &found.body).max(1);
        if inside >= LEAST_SHARE {
            return Some(1);
        }
        let extent = self.extent(name)?;
        let wanted = (LEAST_SHARE + inside - 1) / inside;
        (wanted..extent).find(|turns| extent % turns == 0)
    }
}

/// How often statements run in a block.
fn iterations(kernel: &Kernel, block: &[Stmt]) -> i64 {
    let of = |stmt: &Stmt| match stmt {
        Stmt::For(found) => {
            kernel.weight(&found.extent).saturating_mul(iterations(kernel, &found.body))
        }
        _ => 1 + stmt.blocks().map(|inner| iterations(kernel, inner)).sum::<i64>(),
    };
    block.iter().map(of).fold(0, i64::saturating_add)
}

/// A refused step as a reason, without the listing.
fn refusal(error: &ScheduleError) -> Refused {
    format!("cannot `{}`: {}", error.step, error.message)
}

fn find_loop<'k>(kernel: &Kernel, block: &'k [Stmt], name: &str) -> Option<&'k Loop> {
    block.iter().find_map(|stmt| match stmt {
        Stmt::For(found) if kernel.symbols[found.variable].name == name => Some(&**found),
        _ => stmt.blocks().find_map(|inner| find_loop(kernel, inner, name)),
    })
}
