//! What looks at executables: whether they are right, where their time goes, where two of them, or
//! one and another engine, part, and any stage of a compile as text. It uses what the driver
//! offers, as any caller could.

mod c_program;
mod candidates;
mod ceilings;
mod comparison;
pub mod conformance;
mod difference;
mod dump;
mod explain;
mod explore;
mod extents;
mod json;
mod library;
mod measure;
mod peer;
mod recorded;
mod trace;
mod verify;

pub use c_program::run_as_c;
pub use candidates::{CandidateRow, Candidates, MeasuredRun, candidates};
pub use ceilings::Ceilings;
pub use comparison::{PeerDifference, PeerReport, PeerRow, PeerVerdict, compare};
pub use difference::{Counterpart, Difference, diff};
pub use dump::{Stage, dump};
pub use explain::{Explanation, ExplanationRow, ListingOptions, explain, explain_beneath};
pub use explore::{Build, explore, page};
pub use extents::smallest_extents;
pub use library::{LibraryChoice, run_as_library};
pub use measure::{MeasuredModel, Measurement, measure, phases};
pub use peer::Peer;
pub use recorded::{RecordedCase, read_recorded};
pub use tilewright::compiled::check_c_compiler;
pub use trace::trace;
pub use verify::{KernelVerdict, OutputVerdict, Sample, VERIFY_OPERATIONS, VerifyReport, verify};
