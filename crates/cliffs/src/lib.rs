//! The performance fuzzer: random small models, each kernel beside its prediction, each model
//! beside other engines.
//!
//! A model is an [`Outline`], a few lines of text, from which its bytes are made; a seed and a
//! number give one. What is slow, or wrong, is reduced to the smallest outline that still is, and
//! kept. Nothing here needs Python; the other engines do, and are left out aloud where it is not
//! there.

mod draw;
mod figures;
mod kept;
mod measure;
mod model;
mod outline;
mod parts;
mod peers;
mod predict;
mod reduce;
mod report;
mod results;
mod run;
mod watch;

use std::path::Path;

pub use draw::outline;
pub use figures::{Figures, Finding, KernelFigures};
pub use model::{bytes, values};
pub use outline::{Outline, Part, Setting};
pub use predict::predict;
pub use run::{Request, run};

/// Measures one outline beside the peers of a Python; files lie in a folder meanwhile.
///
/// # Errors
/// Why it cannot be made, or is refused.
pub fn measure(outline: &Outline, python: &Path, folder: &Path) -> Result<Figures, String> {
    measure::Measurer::new(python, folder)?.measure(outline)
}
