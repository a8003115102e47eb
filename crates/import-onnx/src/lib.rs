//! ONNX files to graph functions.
//!
//! [`DecodedModel`] maps a file, decodes it without copying the weights, and lowers every node to
//! the primitives of `graph`: a table with one row an operator, one function a row (`operators/`).
//! What exporters compute of shapes is computed here, symbolically, and leaves no nodes behind
//! (crate `front`). It also tells what a file holds without lowering it.
//!
//! Invariants: no input makes this crate panic or take memory beyond a small multiple of the file's
//! size; nothing outside of the model's folder is read; every refusal is a diagnostic that names a
//! place in the model, the reason and a remedy. Supported are operator sets 1 to 28, as far as the
//! table goes.
//!
//! Relies on `front` for values and primitives, and on `sym` for the arithmetic of extents.

pub mod data_type;
mod decoded;
mod external;
mod importer;
mod info;
mod inputs;
mod model;
mod names;
mod node;
mod operators;
mod order;
pub mod proto;
mod recorded;
mod survey;
mod tensors;
mod wire;

use bytes::Bytes;
use module::Module;

pub use decoded::DecodedModel;
pub use front::{Facts, ImportOptions, Imported};
pub use info::{OperatorRow, refused_operators, supported_operators};
pub use recorded::{encode_value, read_value, read_values, tensor_proto};

/// Imports a model that needs no facts from the bytes of a file without external data.
///
/// # Errors
/// Diagnostics of all that is wrong with the file or not supported, or needed as a fact.
pub fn import_bytes(bytes: Bytes, options: &ImportOptions) -> base::Result<Module> {
    let model = DecodedModel::of(bytes, &options.limits)?;
    model.import(options, &Facts::default()).and_then(Imported::whole)
}
