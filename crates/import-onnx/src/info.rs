//! What a model file holds, without lowering it.

use std::collections::BTreeSet;

use base::{InOrder, IntoTree};
use front::{ModelInfo, Port};
use tensor::tensor::{byte_size, element_count};

use crate::data_type::data_type;
use crate::operators::{REFUSED, rows};
use crate::proto::{ModelProto, ValueInfoProto};
use crate::survey::Survey;
use crate::{inputs, names};

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
    let mut supported: Vec<OperatorRow> = rows().map(row).collect();
    supported.put_in_order_by_key(|row| (row.domain, row.name));
    supported
}

/// Operators of ONNX Runtime's domain that are known and not supported, and why.
#[must_use]
pub fn refused_operators() -> &'static [(&'static str, &'static str)] {
    REFUSED
}

/// Tells what a decoded model holds.
#[must_use]
pub(crate) fn inspect_model(model: &ModelProto) -> ModelInfo {
    let graph = model.body();
    let functions = names::functions(model);
    let opsets = names::opsets(&model.opset_import);
    let survey = Survey::of(graph, &functions, &opsets);
    let operators = survey.operators.into_iter();
    let operators =
        operators.map(|((domain, name), count)| (names::full_name(domain, name), count));
    let unsupported = survey.missing.into_iter().map(|(name, missing)| (name, missing.places));
    let inputs = ports(inputs::without_default(graph));
    let dimensions: BTreeSet<&str> = inputs.iter().flat_map(Port::free_extents).into_set();
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
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let metadata = model.metadata_props.iter();
    let named = |(domain, version): (String, i64)| (names::named(&domain).to_owned(), version);
    ModelInfo {
        name: graph.name.clone(),
        graph_description: text(&graph.doc_string),
        producer_name: model.producer_name.clone(),
        domain: model.domain.clone(),
        description: text(&model.doc_string),
        version: model.model_version,
        metadata: metadata.map(|entry| (entry.key.clone(), entry.value.clone())).collect(),
        producer: format!("{} {}", model.producer_name, model.producer_version).trim().to_owned(),
        ir_version: model.ir_version,
        opsets: opsets.into_iter().map(named).collect(),
        outputs: ports(&graph.output),
        dimensions: dimensions.into_iter().map(str::to_owned).collect(),
        inputs,
        parameters,
        parameter_bytes,
        operators: operators.collect(),
        unsupported: unsupported.collect(),
    }
}

fn ports<'a>(values: impl IntoIterator<Item = &'a ValueInfoProto>) -> Vec<Port> {
    let mut ports: Vec<Port> = values.into_iter().map(inputs::declared).collect();
    inputs::name_extents(&mut ports);
    ports
}
