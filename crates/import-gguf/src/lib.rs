//! GGUF files and safetensors folders of language models to graph functions.
//!
//! `file.rs` makes plain data of a GGUF file, `folder.rs` the same of a folder as Hugging Face
//! writes it, whose tensors `safetensors.rs` reads, and `head.rs` bytes of it again, without the
//! data of tensors; `texts.rs` has arrays of texts; `formats.rs` has a row a format of blocks, and
//! what the bytes of a block stand for as primitives; `configuration.rs` reads what keys say of a
//! model, and `architectures/` has a function an architecture, which writes the model with the
//! parts in `decoder.rs`, and a row a name that files use.
//!
//! The function that a model becomes ([`DecoderModel::import`]) computes logits of the next token
//! for some rows of the tokens that it is given, and keeps keys and values in the tensors `past.*`,
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
mod folder;
mod formats;
mod head;
mod model;
mod safetensors;
mod texts;

pub use file::{MetadataArray, MetadataValue, ModelFile, ModelOrigin, TensorEntry};
pub use model::{DecoderModel, PAGE_PLACES};
pub use texts::TextList;
