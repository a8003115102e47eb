//! ONNX files to graph functions.
//!
//! [`import`] maps a file, decodes it without copying the weights, and lowers every node to the
//! primitives of `graph`: a table with one row an operator, one function a row (`operators/`). What
//! exporters compute of shapes is computed here, symbolically, and leaves no nodes behind (crate
//! `front`). [`inspect`] tells what a file holds without lowering it.
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
mod options;
mod order;
pub mod proto;
mod recorded;
mod survey;
mod tensors;
mod wire;

use std::path::Path;

use base::limits::exceeded;
use base::{Diagnostic, Diagnostics, Limits, codes};
use bytes::Bytes;
use module::Module;
use prost::Message;

pub use decoded::DecodedModel;
pub use front::{FACT_ELEMENTS, FactKind, Facts, Need};
pub use info::{ModelInfo, OperatorRow, ValueInfo, inspect, inspect_bytes, supported_operators};
pub use options::{ImportOptions, Imported, Strings};
pub use recorded::{encode_value, read_tensor, read_value, tensor_proto};

/// Imports a model file; external data is looked for in its folder.
///
/// # Errors
/// Diagnostics of all that is wrong with the file or not supported, or needed as a fact.
pub fn import(path: &Path, options: &ImportOptions) -> base::Result<Module> {
    import_with(path, options, &Facts::default()).and_then(Imported::whole)
}

/// As [`import`], with facts; reports those that are missing.
///
/// # Errors
/// As [`import`].
pub fn import_with(path: &Path, options: &ImportOptions, facts: &Facts) -> base::Result<Imported> {
    let import = |bytes| {
        let model = decode(bytes, &options.limits)?;
        import_model(&model, path.parent(), options, facts)
    };
    read(path).and_then(import).map_err(place_in(path))
}

/// As [`import_with`], of a decoded model whose external data is in a folder; without one there is
/// none.
///
/// # Errors
/// As [`import`].
pub fn import_model(
    model: &proto::ModelProto,
    folder: Option<&Path>,
    options: &ImportOptions,
    facts: &Facts,
) -> base::Result<Imported> {
    model::import(model, external::ExternalData::new(folder), options, facts)
}

/// Imports a model from the bytes of a file. Without a folder there is no external data.
///
/// # Errors
/// As [`import`].
pub fn import_bytes(
    bytes: Bytes,
    folder: Option<&Path>,
    options: &ImportOptions,
) -> base::Result<Module> {
    let model = decode(bytes, &options.limits)?;
    import_model(&model, folder, options, &Facts::default()).and_then(Imported::whole)
}

/// What is said about a file as a whole is said of its path.
fn place_in(path: &Path) -> impl Fn(Diagnostics) -> Diagnostics + '_ {
    let place = |found: Diagnostic| found.or_at(|| path.display().to_string());
    move |found| found.map(place)
}

fn read(path: &Path) -> base::Result<Bytes> {
    // Asked before opening: opening a pipe would wait for a writer.
    let is_odd = path.metadata().is_ok_and(|metadata| !metadata.is_file());
    if is_odd {
        return Err(Diagnostic::error(codes::CANNOT_READ_FILE, "cannot read the file")
            .because("it is not a plain file")
            .remedy("give the path of an ONNX file")
            .into());
    }
    let bytes = tensor::map_file(path)?;
    Ok(bytes)
}

/// Decodes the bytes of a model file.
///
/// # Errors
/// For bytes that are no model or exceed a limit.
pub fn decode(bytes: Bytes, limits: &Limits) -> base::Result<proto::ModelProto> {
    if bytes.len() as u64 > limits.file_bytes {
        return Err(exceeded("file-bytes", "the model is too large")
            .because(format!("{} bytes; at most {} are read", bytes.len(), limits.file_bytes))
            .into());
    }
    if bytes.is_empty() {
        return Err(Diagnostic::error(codes::NOT_ONNX, "the file is not an ONNX model")
            .because("it is empty")
            .remedy("copy or download it again")
            .into());
    }
    if !wire::is_modest::<proto::ModelProto>(&bytes, limits) {
        return Err(exceeded("decoded-bytes", "the file would take too much memory")
            .because("it holds very many small messages")
            .into());
    }
    proto::ModelProto::decode(bytes).map_err(|error| not_onnx(&error).into())
}

fn not_onnx(error: &prost::DecodeError) -> Diagnostic {
    let text = error.to_string();
    if text.contains("recursion limit") {
        return Diagnostic::error(codes::LIMIT_EXCEEDED, "the file is nested too deeply")
            .because("messages are more than 100 levels deep")
            .remedy("export the model with fewer graphs inside each other");
    }
    let is_cut = text.contains("underflow") || text.contains("delimited length exceeded");
    let diagnostic = match is_cut {
        true => Diagnostic::error(codes::TRUNCATED_FILE, "the file ends in the middle of a field"),
        false => Diagnostic::error(codes::NOT_ONNX, "the file is not an ONNX model"),
    };
    diagnostic.because(text).remedy("check that it is the model itself, and copy it again")
}
