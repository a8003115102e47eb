//! What looks at executables: whether they are right, where their time goes, where two of them
//! part, and any stage of a compile as text. It uses what the driver offers, as any caller could.

mod c_program;
mod ceilings;
pub mod conformance;
mod difference;
mod dump;
mod explain;
mod measure;
mod recorded;
mod verify;

pub use c_program::run_as_c;
pub use ceilings::Ceilings;
pub use difference::{Counterpart, Difference, diff};
pub use dump::{Stage, dump};
pub use explain::{Explanation, ExplanationRow, explain};
pub use measure::{Measurement, measure, phases};
pub use recorded::{RecordedCase, read_recorded};
pub use tilewright::compiled::check_c_compiler;
pub use verify::{KernelVerdict, OutputVerdict, VerifyReport, verify};
