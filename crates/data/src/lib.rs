//! Values from files that people have, and to files.
//!
//! [`read`] makes the inputs of a model of arrays, recorded cases, pictures, tables, texts and
//! JSON; what a file lacks, the model's declared inputs ([`Port`]s) say: types, extents, names.
//! Nothing is done in silence: whatever was converted, cut or left out is a sentence in
//! [`Inputs::notes`], and what would have to be guessed is refused.
//!
//! [`write()`] and [`encode`] bring outputs to files, [`summary`] to a line or some, [`top`] and
//! [`Labels`] to the best of many scores.
//!
//! ```no_run
//! # fn main() -> base::Result<()> {
//! use data::{GivenInput, Reading};
//!
//! let ports = tilewright::model_info("model.onnx", &tilewright::Limits::default())?.inputs;
//! let given = [GivenInput::parse("cat.jpg", &ports)];
//! let inputs = data::read(&given, &ports, &Reading::default())?;
//! # Ok(())
//! # }
//! ```
//!
//! This crate reads and writes files and standard input, and prints nothing.

mod assign;
mod content;
mod fit;
mod given;
mod json;
mod labels;
mod numbers;
mod output;
mod picture;
mod read;
mod sentences;
mod summary;
mod table;
mod top;

pub use given::{FileFormat, GivenInput, InputSource};
pub use labels::Labels;
pub use output::{Destination, OutputFormat, OutputPlace, encode, select, write};
pub use picture::{Fit, Layout, PictureOptions};
pub use read::{Header, Inputs, Reading, read};
pub use summary::summary;
pub use tilewright::Port;
pub use top::{Scored, top};
