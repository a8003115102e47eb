//! The memory plan of a program: where in the arena its slots lie, and where it needs barriers.
//!
//! - [`place`] gives every slot its offset, and the program its barriers; `lifetime` says from
//!   which step to which a slot is needed, `barriers` which steps may run at the same time;
//! - [`least_bytes`] is what a run takes in any plan;
//! - [`frugal_order`] looks for an order of the steps that takes less memory at once;
//! - [`check`] verifies a memory plan, and knows nothing of how it was made.
//!
//! This crate reads of kernels only which parameters may share memory, and how closely what is
//! written may follow what is read. It does not know graphs or targets.

mod barriers;
mod check;
mod lifetime;
mod order;
mod place;
mod touched;
mod trail;
mod turns;
mod wait;

pub use check::check;
pub use lifetime::{Lifetime, lifetimes};
pub use order::frugal_order;
pub use place::{Footprint, TurnOrder, aligned, least_bytes, place};
