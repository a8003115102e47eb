//! A kernel with the steps that made it.
//!
//! Invariants: the kernel means what the kernel it began as means, bit for bit; a step that is
//! refused leaves everything as it was; replaying the trace on the first kernel gives the last.

use loops::Kernel;

use crate::error::{Outcome, ScheduleError};
use crate::state::{Form, State};
use crate::step::{CutAt, LocalScope, ScheduleStep, Tail, Trace};
use crate::steps;

/// A kernel and the trace of steps that led to it.
#[derive(Clone, Debug)]
pub struct Schedule {
    state: State,
    trace: Vec<ScheduleStep>,
}

/// The kernel that the steps make of `kernel`.
///
/// # Errors
/// The first step that is not legal.
pub fn replay(kernel: Kernel, trace: &[ScheduleStep]) -> Result<Kernel, ScheduleError> {
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
    pub fn trace(&self) -> &[ScheduleStep] {
        &self.trace
    }

    /// The kernel.
    pub fn into_kernel(self) -> Kernel {
        self.state.kernel
    }

    /// The kernel, and the steps that made it.
    pub fn into_components(self) -> (Kernel, Trace) {
        (self.state.kernel, self.trace.into())
    }

    /// Takes one step.
    ///
    /// # Errors
    /// When the step is not legal here; then nothing has changed.
    pub fn apply(&mut self, step: ScheduleStep) -> Applied {
        let may_leave_traces = !step.is_checked_first();
        let before = (may_leave_traces || cfg!(debug_assertions)).then(|| self.state.clone());
        if let Err(refusal) = run(&mut self.state, &step) {
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
            steps::simplify::tidy(&mut self.state);
        }
        self.trace.push(step);
        Ok(())
    }

    /// See [`ScheduleStep::Split`].
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
        self.apply(ScheduleStep::Split { target, factor, outer, inner, tail })
    }

    /// See [`ScheduleStep::Cut`].
    ///
    /// # Errors
    /// When the step is not legal here.
    pub fn cut(&mut self, target: &str, at: CutAt, into: &str) -> Applied {
        self.apply(ScheduleStep::Cut { target: target.into(), at, into: into.into() })
    }

    /// See [`ScheduleStep::Case`].
    ///
    /// # Errors
    /// When the step is not legal here.
    pub fn case(&mut self, target: &str, at: i64) -> Applied {
        self.apply(ScheduleStep::Case { target: target.into(), at })
    }

    /// See [`ScheduleStep::Reorder`].
    ///
    /// # Errors
    /// When the step is not legal here.
    pub fn reorder(&mut self, order: &[&str]) -> Applied {
        self.apply(ScheduleStep::Reorder {
            order: order.iter().map(|name| (*name).into()).collect(),
        })
    }

    /// See [`ScheduleStep::Fuse`].
    ///
    /// # Errors
    /// When the step is not legal here.
    pub fn fuse(&mut self, outer: &str, inner: &str, into: &str) -> Applied {
        self.apply(ScheduleStep::Fuse {
            outer: outer.into(),
            inner: inner.into(),
            into: into.into(),
        })
    }

    /// See [`ScheduleStep::Flatten`].
    ///
    /// # Errors
    /// When the step is not legal here.
    pub fn flatten(&mut self, buffer: &str, axis: usize) -> Applied {
        self.apply(ScheduleStep::Flatten { buffer: buffer.into(), axis })
    }

    /// See [`ScheduleStep::Pad`].
    ///
    /// # Errors
    /// When the step is not legal here.
    pub fn pad(&mut self, buffer: &str, axis: usize, extent: i64) -> Applied {
        self.apply(ScheduleStep::Pad { buffer: buffer.into(), axis, extent })
    }

    /// See [`ScheduleStep::Extend`].
    ///
    /// # Errors
    /// When the step is not legal here.
    pub fn extend(&mut self, target: &str, whole: i64) -> Applied {
        self.apply(ScheduleStep::Extend { target: target.into(), whole })
    }

    /// See [`ScheduleStep::Unroll`].
    ///
    /// # Errors
    /// When the step is not legal here.
    pub fn unroll(&mut self, target: &str) -> Applied {
        self.apply(ScheduleStep::Unroll { target: target.into() })
    }

    /// See [`ScheduleStep::Vectorise`].
    ///
    /// # Errors
    /// When the step is not legal here.
    pub fn vectorise(&mut self, target: &str) -> Applied {
        self.apply(ScheduleStep::Vectorise { target: target.into() })
    }

    /// See [`ScheduleStep::Tensorise`].
    ///
    /// # Errors
    /// When the step is not legal here.
    pub fn tensorise(&mut self, target: &str, instruction: &str) -> Applied {
        self.apply(ScheduleStep::Tensorise {
            target: target.into(),
            instruction: instruction.into(),
        })
    }

    /// See [`ScheduleStep::Parallelise`].
    ///
    /// # Errors
    /// When the step is not legal here.
    pub fn parallelise(&mut self, target: &str) -> Applied {
        self.apply(ScheduleStep::Parallelise { target: target.into() })
    }

    /// See [`ScheduleStep::ComputeAt`].
    ///
    /// # Errors
    /// When the step is not legal here.
    pub fn compute_at(&mut self, buffer: &str, target: &str) -> Applied {
        self.apply(ScheduleStep::ComputeAt { buffer: buffer.into(), target: target.into() })
    }

    /// See [`ScheduleStep::Fission`].
    ///
    /// # Errors
    /// When the step is not legal here.
    pub fn fission(&mut self, target: &str, at: usize, into: &str) -> Applied {
        self.apply(ScheduleStep::Fission { target: target.into(), at, into: into.into() })
    }

    /// See [`ScheduleStep::Merge`].
    ///
    /// # Errors
    /// When the step is not legal here.
    pub fn merge(&mut self, first: &str, second: &str) -> Applied {
        self.apply(ScheduleStep::Merge { first: first.into(), second: second.into() })
    }

    /// See [`ScheduleStep::SetScope`].
    ///
    /// # Errors
    /// When the step is not legal here.
    pub fn set_scope(&mut self, buffer: &str, scope: LocalScope) -> Applied {
        self.apply(ScheduleStep::SetScope { buffer: buffer.into(), scope })
    }

    /// See [`ScheduleStep::Prefetch`].
    ///
    /// # Errors
    /// When the step is not legal here.
    pub fn prefetch(&mut self, buffer: &str, bytes: u32) -> Applied {
        let shared = Vec::new();
        self.apply(ScheduleStep::Prefetch { buffer: buffer.into(), bytes, walk: None, shared })
    }

    /// See [`ScheduleStep::StageRead`].
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
        self.apply(ScheduleStep::StageRead { buffer, target, into, scope, order: order.to_vec() })
    }

    /// See [`ScheduleStep::StageWrite`].
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
        self.apply(ScheduleStep::StageWrite { buffer, target, into, scope })
    }

    /// See [`ScheduleStep::Inline`].
    ///
    /// # Errors
    /// When the step is not legal here.
    pub fn inline(&mut self, buffer: &str) -> Applied {
        self.apply(ScheduleStep::Inline { buffer: buffer.into() })
    }

    /// See [`ScheduleStep::Simplify`].
    ///
    /// # Errors
    /// Never; for the sake of `?`.
    pub fn simplify(&mut self) -> Applied {
        self.apply(ScheduleStep::Simplify)
    }

    /// See [`ScheduleStep::ExpandFunctions`].
    ///
    /// # Errors
    /// When a function has no expansion for its type.
    pub fn expand_functions(&mut self) -> Applied {
        self.apply(ScheduleStep::ExpandFunctions)
    }

    /// See [`ScheduleStep::Hoist`].
    ///
    /// # Errors
    /// Never; for the sake of `?`.
    pub fn hoist(&mut self) -> Applied {
        self.apply(ScheduleStep::Hoist)
    }
}

/// Takes a step, if it is legal.
fn run(state: &mut State, step: &ScheduleStep) -> Outcome {
    match step {
        ScheduleStep::Split { target, factor, outer, inner, tail } => {
            steps::split::apply(state, target, *factor, outer, inner, *tail)
        }
        ScheduleStep::Case { target, at } => steps::case::apply(state, target, *at),
        ScheduleStep::Cut { target, at, into } => steps::cut::apply(state, target, *at, into),
        ScheduleStep::Reorder { order } => steps::reorder::apply(state, order),
        ScheduleStep::Fuse { outer, inner, into } => steps::fuse::apply(state, outer, inner, into),
        ScheduleStep::Flatten { buffer, axis } => steps::flatten::apply(state, buffer, *axis),
        ScheduleStep::Pad { buffer, axis, extent } => {
            steps::pad::apply(state, buffer, *axis, *extent)
        }
        ScheduleStep::Extend { target, whole } => steps::extend::apply(state, target, *whole),
        ScheduleStep::Unroll { target } => steps::unroll::apply(state, target),
        ScheduleStep::Vectorise { target } => steps::vectorise::apply(state, target),
        ScheduleStep::Tensorise { target, instruction } => {
            steps::tensorise::apply(state, target, instruction)
        }
        ScheduleStep::Parallelise { target } => steps::parallelise::apply(state, target),
        ScheduleStep::ComputeAt { buffer, target } => {
            steps::compute_at::apply(state, buffer, target)
        }
        ScheduleStep::Privatise { buffer, target } => {
            steps::privatise::apply(state, buffer, target)
        }
        ScheduleStep::Shrink { buffer, target } => steps::shrink::apply(state, buffer, target),
        ScheduleStep::Fission { target, at, into } => {
            steps::fission::apply(state, target, *at, into)
        }
        ScheduleStep::Merge { first, second } => steps::merge::apply(state, first, second),
        ScheduleStep::SetScope { buffer, scope } => steps::set_scope::apply(state, buffer, *scope),
        ScheduleStep::Prefetch { buffer, bytes, walk, shared } => {
            steps::prefetch::apply(state, buffer, *bytes, walk.as_ref(), shared)
        }
        ScheduleStep::StageRead { buffer, target, into, scope, order } => {
            steps::stage_read::apply(state, buffer, target, into, *scope, order)
        }
        ScheduleStep::StageWrite { buffer, target, into, scope } => {
            steps::stage_write::apply(state, buffer, target, into, *scope)
        }
        ScheduleStep::Inline { buffer } => steps::inline::apply(state, buffer),
        ScheduleStep::Simplify => steps::simplify::apply(state),
        ScheduleStep::ExpandFunctions => crate::expand::apply(&mut state.kernel),
        ScheduleStep::Hoist => steps::hoist::apply(state),
    }
}
