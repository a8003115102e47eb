//! What every level of the compiler shares and none owns.
//!
//! - [`id`]: 32-bit typed ids, the [`Arena`] they index and side tables;
//! - [`diagnostic`] and [`codes`]: everything a user is told, each kind with a code;
//! - [`remedies`]: those that several levels give; [`nearest`]: the name that may be meant;
//! - [`location`]: where in the user's model a thing came from; [`remark`]: what is said of it;
//! - [`text`]: the lexer, parser helper and printer of every IR's text form;
//! - [`pass`] and [`timing`]: the pass table and what the driver records about it;
//! - [`parallel`]: work on several threads with results in order;
//! - [`InOrder`] and [`IntoTree`]: sorts, sets and maps that take little room in the program;
//! - [`panics`]: panics that are caught and kept; [`fault`]: faults that tests switch on.
//!
//! Invariants: deterministic (no clock, environment, hash order or I/O); no knowledge of tensors.

pub mod codes;
pub mod diagnostic;
pub mod fault;
pub mod id;
mod internal;
pub mod limits;
pub mod location;
pub mod names;
pub mod nearest;
mod order;
pub mod panics;
pub mod parallel;
pub mod pass;
pub mod remark;
pub mod remedies;
pub mod text;
pub mod timing;

pub use diagnostic::{Diagnostic, Diagnostics, Piece, Result, Severity};
pub use id::{Arena, Id, IdSet, SecondaryMap};
pub use internal::{abandon, catch_abandoned, catch_internal_errors};
pub use limits::Limits;
pub use location::{Location, LocationId, Locations};
pub use names::{ConstantId, FunctionId, KernelId, ProgramId};
pub use order::{InOrder, IntoTree};
pub use pass::{PassContext, PassHooks, PassRow, run_passes};
pub use remark::Remark;
