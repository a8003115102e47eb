//! GGUF files of language models to graph functions.
//!
//! `file.rs` makes plain data of a file; `formats.rs` has a row a format of blocks, and what the
//! bytes of a block stand for as primitives; `configuration.rs` reads what keys say of a model, and
//! `architectures/` has a function an architecture, which writes the model with the parts in
//! `decoder.rs`, and a row a name that files use.
//!
//! The function that a model becomes ([`GgufModel::import`]) computes logits of the next token for
//! some rows of the tokens that it is given, and keeps keys and values in the tensors `past.*`,
//! which it gives back as `present.*` with those of these tokens written at their places.
//!
//! Invariants: no file makes this crate panic, run on, or take more memory than its size allows;
//! what is not supported is refused with its name in the file.
//!
//! Relies on `front` for values, primitives and the formulas that formats share.

mod architectures;
mod configuration;
mod decoder;
mod file;
mod formats;
mod model;

pub use file::{GgufFile, MetadataArray, MetadataValue, TensorEntry};
pub use model::{GgufModel, PAGE_PLACES};
