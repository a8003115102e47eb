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

mod across;
mod ahead;
mod axes;
mod blocks;
mod borders;
mod choice;
mod copied;
mod cost;
mod deep;
mod dots;
mod fuse;
mod given;
mod hand;
mod inner;
mod lines;
mod map;
mod naive;
mod order;
mod panels;
mod plain;
mod point;
mod problem;
mod roofline;
mod rows;
mod short_rows;
mod sketch;
mod stream;
mod structure;
mod sums;
mod tile;
mod vectors;
mod walks;

pub use cost::{Cost, WholeRun};
pub use naive::{Naive, Nest, Producer, ProducerKind, WORTH_CODE};
pub use point::{Chosen, Point};
pub use roofline::{Roofline, at_once};
pub use sketch::{
    Candidate, LITTLE, Scheduled, StrategyOptions, candidates, schedule, schedule_at,
};
