//! Formats, graph to graph: how the operands of contractions lie in memory, and of which type they
//! are.
//!
//! Every contraction is rewritten so that one axis, the vector axis, is contiguous in its result
//! and in the operand that carries it. What that takes is written as ordinary `Transpose`,
//! `Reshape` and `Pad` nodes around the contraction: those before a weight fold into `setup`, those
//! between contractions are moved and cancelled by `graph-opt`.
//!
//! Windows that mostly meet zeros around their data become sums over what they meet of it
//! (`borders`).
//!
//! Where it pays, windowed contractions become transforms and a product of fewer multiplications
//! (`winograd`).
//!
//! Invariants: but for that, each reduced axis stays where it is in the order of its sum, so the
//! function computes the same bits; weights are read by type only; choices depend on structure and
//! the target row, never on what an operator was called. Relies on `graph::rebuild`.

mod along;
mod borders;
mod channels_last;
mod choose;
mod contraction;
mod groups;
mod integers;
mod layouts;
mod long_sums;
mod merge;
mod narrow;
mod options;
mod panels;
mod passes;
mod precision;
mod quantised;
mod stored;
mod table;
mod tables;
mod tuples;
mod weighed;
mod weights;
mod wide;
mod winograd;

pub use choose::choose;
pub use integers::integers;
pub use long_sums::long_sums;
pub use narrow::{has_narrow_elements, widen};
pub use options::{Activations, FormatOptions, Winograd};
pub use passes::{Draft, FORMATS, PRECISION, last_passes, passes};
pub use precision::shorten;
pub use tables::tables;
pub use weighed::Weigh;
