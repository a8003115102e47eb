//! Schedules: how a kernel is to be run, as a list of small checked rewrites.
//!
//! ```text
//! let mut schedule = Schedule::new(kernel);
//! schedule.split("i", 8, "io", "ii", Tail::Guard)?;
//! schedule.compute_at("acc", "io")?;
//! schedule.unroll("ii")?;
//! print_trace(schedule.trace())
//! ```
//!
//! Every primitive step has a file in `steps/` that shows the kernel before and after, and states
//! what is checked. A step never changes what a kernel computes, to the bit: above all it keeps the
//! order in which each element is updated. Legality rests on the dependence test of
//! `dependence.rs`, the private buffers of `private.rs` and the regions of `region.rs`; each of
//! them, where it does not know, says no.
//!
//! `expand` turns mathematical functions into arithmetic, the same for every target.
//!
//! This crate knows neither graph operations nor targets: which steps to take is for others to say.
//! Of `backend` it reads what instructions compute, never who has them.

mod dependence;
mod error;
pub mod expand;
mod linear;
mod nest;
mod private;
mod recombine;
mod region;
mod schedule;
mod state;
mod step;
mod steps;

pub use error::ScheduleError;
pub use schedule::{Applied, Schedule, replay};
pub use step::{
    CutAt, LocalScope, ScheduleStep, Tail, Trace, Walk, parse_step, parse_trace, print_trace,
};
