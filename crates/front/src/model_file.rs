//! Model files, whatever their format: how they are read, and what is told of what they hold.

use std::collections::BTreeMap;
use std::path::Path;

use base::{Diagnostic, Diagnostics, codes};
use bytes::Bytes;

use crate::port::Port;

/// What a model file holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelInfo {
    /// The graph's name.
    pub name: String,
    /// What the graph is for, in its maker's words.
    pub graph_description: String,
    /// The tool that wrote the file, and its version.
    pub producer: String,
    /// The tool alone.
    pub producer_name: String,
    /// Whose model it is, as a reversed name of the internet.
    pub domain: String,
    /// What the model is for, in its maker's words.
    pub description: String,
    /// The version of the model.
    pub version: i64,
    /// What its maker says of it besides, by key.
    pub metadata: BTreeMap<String, String>,
    /// Version of the format.
    pub ir_version: i64,
    /// Operator sets: domain (`ai.onnx` for ONNX's own) and version.
    pub opsets: Vec<(String, i64)>,
    /// Inputs without a default value.
    pub inputs: Vec<Port>,
    /// Outputs.
    pub outputs: Vec<Port>,
    /// Names of dimensions that are not fixed, in alphabetical order.
    pub dimensions: Vec<String>,
    /// Number of elements of all constants.
    pub parameters: u64,
    /// Bytes of all constants.
    pub parameter_bytes: u64,
    /// How often each operator stands in the graph, in graphs inside nodes and in functions.
    pub operators: BTreeMap<String, usize>,
    /// Operators that are not supported, with the nodes that use them.
    pub unsupported: BTreeMap<String, Vec<String>>,
}

/// Maps a model file.
///
/// # Errors
/// Why it cannot be read; its place is the path.
pub fn read_model_file(path: &Path) -> base::Result<Bytes> {
    // Asked before opening: opening a pipe would wait for a writer.
    if path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
        let message = "cannot read the file";
        return Err(Diagnostic::error(codes::CANNOT_READ_FILE, message)
            .at(path.display().to_string())
            .because("it is not a plain file")
            .remedy("give the path of a model file")
            .into());
    }
    tensor::map_file(path).map_err(place_in(path))
}

/// What is said about a file as a whole is said of its path.
pub fn place_in(path: &Path) -> impl Fn(Diagnostics) -> Diagnostics + '_ {
    let place = |found: Diagnostic| found.or_at(|| path.display().to_string());
    move |found| found.map(place)
}
