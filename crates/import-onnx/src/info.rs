//! What a model file holds, without lowering it.

use std::collections::BTreeMap;
use std::path::Path;

use base::Limits;
use bytes::Bytes;
use tensor::tensor::{byte_size, element_count};
use tensor::{DType, Kind, Structure};

use crate::data_type::data_type;
use crate::inputs::{self, Declared, Extent, kind_of};
use crate::operators::TABLE;
use crate::proto::{GraphProto, ModelProto, ValueInfoProto};
use crate::survey::Survey;
use crate::{decode, names, place_in, read};

/// What a model file holds.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelInfo {
    /// The graph's name.
    pub name: String,
    /// The tool that wrote the file, and its version.
    pub producer: String,
    /// Version of the format.
    pub ir_version: i64,
    /// Operator sets: domain (`ai.onnx` for ONNX's own) and version.
    pub opsets: Vec<(String, i64)>,
    /// Inputs without a default value.
    pub inputs: Vec<ValueInfo>,
    /// Outputs.
    pub outputs: Vec<ValueInfo>,
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

/// An input or output.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueInfo {
    /// The name.
    pub name: String,
    /// The element type; none if it is not a tensor of a type we have.
    pub dtype: Option<DType>,
    /// Extents: numbers or names; none if even the rank is not known.
    pub shape: Option<Vec<String>>,
    /// What it is; none if it is made of no tensors.
    pub kind: Option<Kind>,
}

/// A supported operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorRow {
    /// The domain (`ai.onnx` for ONNX's own).
    pub domain: &'static str,
    /// The name.
    pub name: &'static str,
    /// The versions of the operator set that changed it, the oldest supported first.
    pub versions: &'static [i64],
}

/// All supported operators, by name.
pub fn supported_operators() -> Vec<OperatorRow> {
    let row = |row: &crate::operators::Operator| OperatorRow {
        domain: names::named(row.domain),
        name: row.name,
        versions: row.versions,
    };
    let mut rows: Vec<OperatorRow> = TABLE.iter().map(row).collect();
    rows.sort_by_key(|row| (row.domain, row.name));
    rows
}

/// Tells what a model file holds.
///
/// # Errors
/// Diagnostics when the file does not decode as a model.
pub fn inspect(path: &Path, limits: &Limits) -> base::Result<ModelInfo> {
    read(path).and_then(|bytes| inspect_bytes(bytes, limits)).map_err(place_in(path))
}

/// Tells what the bytes of a model file hold.
///
/// # Errors
/// As [`inspect`].
pub fn inspect_bytes(bytes: Bytes, limits: &Limits) -> base::Result<ModelInfo> {
    Ok(inspect_model(&decode(bytes, limits)?))
}

/// Tells what a decoded model holds.
#[must_use]
pub(crate) fn inspect_model(model: &ModelProto) -> ModelInfo {
    let empty = GraphProto::default();
    let graph = model.graph.as_ref().unwrap_or(&empty);
    let functions = names::functions(model);
    let opsets = names::opsets(&model.opset_import);
    let survey = Survey::of(graph, &functions, &opsets);
    let operators = survey.operators.into_iter();
    let operators =
        operators.map(|((domain, name), count)| (names::full_name(domain, name), count));
    let unsupported = survey.missing.into_iter().map(|(name, missing)| (name, missing.places));
    let wanted: Vec<ValueInfoProto> = inputs::without_default(graph).into_iter().cloned().collect();
    let mut dimensions = Vec::new();
    let inputs = values(&wanted, &mut dimensions);
    dimensions.sort();
    dimensions.dedup();
    let (mut parameters, mut parameter_bytes) = (0u64, 0u64);
    for graph in graph.all() {
        let attributes = graph.node.iter().flat_map(|node| &node.attribute);
        for tensor in graph.initializer.iter().chain(attributes.filter_map(|it| it.t.as_deref())) {
            let extents = tensor.dims.iter().map(|dim| usize::try_from(*dim).ok());
            let Some(shape) = extents.collect::<Option<Vec<usize>>>() else { continue };
            let Ok(dtype) = data_type(tensor.data_type.into()) else { continue };
            parameters = parameters.saturating_add(element_count(&shape).unwrap_or(0) as u64);
            let bytes = byte_size(dtype, &shape).unwrap_or(0) as u64;
            parameter_bytes = parameter_bytes.saturating_add(bytes);
        }
    }
    let named = |(domain, version): (String, i64)| (names::named(&domain).to_owned(), version);
    ModelInfo {
        name: graph.name.clone(),
        producer: format!("{} {}", model.producer_name, model.producer_version).trim().to_owned(),
        ir_version: model.ir_version,
        opsets: opsets.into_iter().map(named).collect(),
        outputs: values(&graph.output, &mut Vec::new()),
        inputs,
        dimensions,
        parameters,
        parameter_bytes,
        operators: operators.collect(),
        unsupported: unsupported.collect(),
    }
}

fn values(protos: &[ValueInfoProto], dimensions: &mut Vec<String>) -> Vec<ValueInfo> {
    let declared = |proto| inputs::parts(proto, &Structure::Tensor).ok()?.pop();
    let mut all: Vec<Option<Declared>> = protos.iter().map(declared).collect();
    inputs::name_extents(all.iter_mut().flatten());
    let mut extent = |extent: Extent| match extent {
        Extent::Fixed(extent) => extent.to_string(),
        Extent::Named(name) => {
            dimensions.push(name.clone());
            name
        }
    };
    let read = |(declared, proto): (Option<Declared>, &ValueInfoProto)| ValueInfo {
        name: proto.name.clone(),
        dtype: declared.as_ref().and_then(|it| data_type(it.data_type.into()).ok()),
        shape: declared.and_then(|it| it.shape.map(|it| it.into_iter().map(&mut extent).collect())),
        kind: kind_of(proto),
    };
    all.into_iter().zip(protos).map(read).collect()
}
