//! A kernel with the steps that made it.
//!
//! Invariants: the kernel means what the kernel it began as means, bit for bit; a step that is
//! refused leaves everything as it was; replaying the trace on the first kernel gives the last.

use std::collections::BTreeMap;

use loops::{Kernel, substitute};
use sym::{Expr, SymbolId};

use crate::error::{Outcome, ScheduleError};
use crate::nest::{Site, SymbolRanges, block_mut};
use crate::step::{LocalScope, Step, Tail, Trace};
use crate::steps;

/// What steps rewrite.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct State {
    pub(crate) kernel: Kernel,
    /// The minima that splits with shifted tails put into indices. Iterations that these make equal
    /// were shown to compute equal things, see [`crate::dependence`].
    pub(crate) shifted: Vec<Expr>,
    /// Whether index expressions are in simplest form.
    pub(crate) form: Form,
}

/// What is known of the form of a kernel's index expressions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Nothing: the kernel is as it was given.
    Given,
    /// A step has written some since they were in simplest form.
    Written,
    /// A step has written some of the statement at this site alone.
    WrittenAt(Site),
    /// All are in simplest form.
    Simplest,
}

impl State {
    /// Replaces symbols in the block at the end of a way. What binds them goes away in the same
    /// step, so they occur nowhere else. The caller says where it has written.
    pub(crate) fn substitute(
        &mut self,
        way: &[crate::nest::Descent],
        replacements: &BTreeMap<SymbolId, Expr>,
    ) {
        substitute::substitute(block_mut(&mut self.kernel, way), replacements);
        for minimum in &mut self.shifted {
            substitute::substitute_expression(minimum, replacements);
        }
    }

    /// Notes that a step has written index expressions of the statement at a site, and no others.
    pub(crate) fn has_written(&mut self, site: Site) {
        self.form = match self.form {
            Form::Simplest => Form::WrittenAt(site),
            _ => Form::Written,
        };
    }

    /// Puts all index expressions in simplest form and drops conditions that always hold.
    pub(crate) fn tidy(&mut self) {
        match std::mem::replace(&mut self.form, Form::Simplest) {
            Form::Simplest => return,
            Form::WrittenAt(site) => {
                steps::simplify::expressions_at(&mut self.kernel, &site);
                if cfg!(debug_assertions) {
                    let partly = self.kernel.clone();
                    steps::simplify::expressions(&mut self.kernel);
                    assert_eq!(partly, self.kernel, "expressions elsewhere were not simple");
                }
            }
            Form::Given | Form::Written => steps::simplify::expressions(&mut self.kernel),
        }
        if self.shifted.is_empty() {
            return;
        }
        let ranges = SymbolRanges::of(&self.kernel);
        for minimum in &mut self.shifted {
            *minimum = ranges.simplify(minimum);
        }
    }

    fn run(&mut self, step: &Step) -> Outcome {
        match step {
            Step::Split { target, factor, outer, inner, tail } => {
                steps::split::apply(self, target, *factor, outer, inner, *tail)
            }
            Step::Cut { target, at, into } => steps::cut::apply(self, target, *at, into),
            Step::Reorder { order } => steps::reorder::apply(self, order),
            Step::Fuse { outer, inner, into } => steps::fuse::apply(self, outer, inner, into),
            Step::Flatten { buffer, axis } => steps::flatten::apply(self, buffer, *axis),
            Step::Pad { buffer, axis, extent } => steps::pad::apply(self, buffer, *axis, *extent),
            Step::Extend { target, extent } => steps::extend::apply(self, target, *extent),
            Step::Unroll { target } => steps::unroll::apply(self, target),
            Step::Vectorise { target } => steps::vectorise::apply(self, target),
            Step::Parallelise { target } => steps::parallelise::apply(self, target),
            Step::ComputeAt { buffer, target } => steps::compute_at::apply(self, buffer, target),
            Step::Fission { target, at, into } => steps::fission::apply(self, target, *at, into),
            Step::Merge { first, second } => steps::merge::apply(self, first, second),
            Step::SetScope { buffer, scope } => steps::set_scope::apply(self, buffer, *scope),
            Step::Prefetch { buffer, bytes } => steps::prefetch::apply(self, buffer, *bytes),
            Step::StageRead { buffer, target, into, scope, order } => {
                steps::stage_read::apply(self, buffer, target, into, *scope, order)
            }
            Step::StageWrite { buffer, target, into, scope } => {
                steps::stage_write::apply(self, buffer, target, into, *scope)
            }
            Step::Inline { buffer } => steps::inline::apply(self, buffer),
            Step::Simplify => steps::simplify::apply(self),
            Step::ExpandFunctions => crate::expand::apply(&mut self.kernel),
        }
    }
}

/// A kernel and the trace of steps that led to it.
#[derive(Clone, Debug)]
pub struct Schedule {
    state: State,
    trace: Vec<Step>,
}

/// The kernel that the steps make of `kernel`.
///
/// # Errors
/// The first step that is not legal.
pub fn replay(kernel: Kernel, trace: &[Step]) -> Result<Kernel, ScheduleError> {
    let mut schedule = Schedule::new(kernel);
    trace.iter().try_for_each(|step| schedule.apply(step.clone()))?;
    Ok(schedule.into_kernel())
}

/// The result of a step.
pub type Applied = Result<(), ScheduleError>;

impl Schedule {
    /// A kernel as it is, with an empty trace. The kernel must be one that `loops` verifies.
    pub fn new(kernel: Kernel) -> Schedule {
        Schedule {
            state: State { kernel, shifted: Vec::new(), form: Form::Given },
            trace: Vec::new(),
        }
    }

    /// The kernel as the steps so far have made it.
    pub fn kernel(&self) -> &Kernel {
        &self.state.kernel
    }

    /// The steps so far.
    pub fn trace(&self) -> &[Step] {
        &self.trace
    }

    /// The kernel.
    pub fn into_kernel(self) -> Kernel {
        self.state.kernel
    }

    /// The kernel, and the steps that made it.
    pub fn into_parts(self) -> (Kernel, Trace) {
        (self.state.kernel, self.trace.into())
    }

    /// Takes one step.
    ///
    /// # Errors
    /// When the step is not legal here; then nothing has changed.
    pub fn apply(&mut self, step: Step) -> Applied {
        let may_leave_traces = !step.is_checked_first();
        let before = (may_leave_traces || cfg!(debug_assertions)).then(|| self.state.clone());
        if let Err(refusal) = self.state.run(&step) {
            if let Some(before) = before {
                assert!(may_leave_traces || self.state == before, "`{step}` changed something");
                self.state = before;
            }
            return Err(ScheduleError::new(&self.state.kernel, step, refusal));
        }
        if step.writes_indices() {
            self.state.form = Form::Written;
        }
        if matches!(self.state.form, Form::Written | Form::WrittenAt(_)) {
            self.state.tidy();
        }
        self.trace.push(step);
        Ok(())
    }

    /// See [`Step::Split`].
    ///
    /// # Errors
    /// When the step is not legal here.
    pub fn split(
        &mut self,
        target: &str,
        factor: i64,
        outer: &str,
        inner: &str,
        tail: Tail,
    ) -> Applied {
        let (target, outer, inner) = (target.into(), outer.into(), inner.into());
        self.apply(Step::Split { target, factor, outer, inner, tail })
    }

    /// See [`Step::Cut`].
    ///
    /// # Errors
    /// When the step is not legal here.
    pub fn cut(&mut self, target: &str, at: i64, into: &str) -> Applied {
        self.apply(Step::Cut { target: target.into(), at, into: into.into() })
    }

    /// See [`Step::Reorder`].
    ///
    /// # Errors
    /// When the step is not legal here.
    pub fn reorder(&mut self, order: &[&str]) -> Applied {
        self.apply(Step::Reorder { order: order.iter().map(|name| (*name).into()).collect() })
    }

    /// See [`Step::Fuse`].
    ///
    /// # Errors
    /// When the step is not legal here.
    pub fn fuse(&mut self, outer: &str, inner: &str, into: &str) -> Applied {
        self.apply(Step::Fuse { outer: outer.into(), inner: inner.into(), into: into.into() })
    }

    /// See [`Step::Flatten`].
    ///
    /// # Errors
    /// When the step is not legal here.
    pub fn flatten(&mut self, buffer: &str, axis: usize) -> Applied {
        self.apply(Step::Flatten { buffer: buffer.into(), axis })
    }

    /// See [`Step::Pad`].
    ///
    /// # Errors
    /// When the step is not legal here.
    pub fn pad(&mut self, buffer: &str, axis: usize, extent: i64) -> Applied {
        self.apply(Step::Pad { buffer: buffer.into(), axis, extent })
    }

    /// See [`Step::Extend`].
    ///
    /// # Errors
    /// When the step is not legal here.
    pub fn extend(&mut self, target: &str, extent: i64) -> Applied {
        self.apply(Step::Extend { target: target.into(), extent })
    }

    /// See [`Step::Unroll`].
    ///
    /// # Errors
    /// When the step is not legal here.
    pub fn unroll(&mut self, target: &str) -> Applied {
        self.apply(Step::Unroll { target: target.into() })
    }

    /// See [`Step::Vectorise`].
    ///
    /// # Errors
    /// When the step is not legal here.
    pub fn vectorise(&mut self, target: &str) -> Applied {
        self.apply(Step::Vectorise { target: target.into() })
    }

    /// See [`Step::Parallelise`].
    ///
    /// # Errors
    /// When the step is not legal here.
    pub fn parallelise(&mut self, target: &str) -> Applied {
        self.apply(Step::Parallelise { target: target.into() })
    }

    /// See [`Step::ComputeAt`].
    ///
    /// # Errors
    /// When the step is not legal here.
    pub fn compute_at(&mut self, buffer: &str, target: &str) -> Applied {
        self.apply(Step::ComputeAt { buffer: buffer.into(), target: target.into() })
    }

    /// See [`Step::Fission`].
    ///
    /// # Errors
    /// When the step is not legal here.
    pub fn fission(&mut self, target: &str, at: usize, into: &str) -> Applied {
        self.apply(Step::Fission { target: target.into(), at, into: into.into() })
    }

    /// See [`Step::Merge`].
    ///
    /// # Errors
    /// When the step is not legal here.
    pub fn merge(&mut self, first: &str, second: &str) -> Applied {
        self.apply(Step::Merge { first: first.into(), second: second.into() })
    }

    /// See [`Step::SetScope`].
    ///
    /// # Errors
    /// When the step is not legal here.
    pub fn set_scope(&mut self, buffer: &str, scope: LocalScope) -> Applied {
        self.apply(Step::SetScope { buffer: buffer.into(), scope })
    }

    /// See [`Step::Prefetch`].
    ///
    /// # Errors
    /// When the step is not legal here.
    pub fn prefetch(&mut self, buffer: &str, bytes: u32) -> Applied {
        self.apply(Step::Prefetch { buffer: buffer.into(), bytes })
    }

    /// See [`Step::StageRead`].
    ///
    /// # Errors
    /// When the step is not legal here.
    pub fn stage_read(
        &mut self,
        buffer: &str,
        target: &str,
        into: &str,
        scope: LocalScope,
        order: &[usize],
    ) -> Applied {
        let (buffer, target, into) = (buffer.into(), target.into(), into.into());
        self.apply(Step::StageRead { buffer, target, into, scope, order: order.to_vec() })
    }

    /// See [`Step::StageWrite`].
    ///
    /// # Errors
    /// When the step is not legal here.
    pub fn stage_write(
        &mut self,
        buffer: &str,
        target: &str,
        into: &str,
        scope: LocalScope,
    ) -> Applied {
        let (buffer, target, into) = (buffer.into(), target.into(), into.into());
        self.apply(Step::StageWrite { buffer, target, into, scope })
    }

    /// See [`Step::Inline`].
    ///
    /// # Errors
    /// When the step is not legal here.
    pub fn inline(&mut self, buffer: &str) -> Applied {
        self.apply(Step::Inline { buffer: buffer.into() })
    }

    /// See [`Step::Simplify`].
    ///
    /// # Errors
    /// Never; for the sake of `?`.
    pub fn simplify(&mut self) -> Applied {
        self.apply(Step::Simplify)
    }

    /// See [`Step::ExpandFunctions`].
    ///
    /// # Errors
    /// When a function has no expansion for its type.
    pub fn expand_functions(&mut self) -> Applied {
        self.apply(Step::ExpandFunctions)
    }
}
