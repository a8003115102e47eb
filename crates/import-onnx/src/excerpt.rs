//! Models cut out of a model: some of its nodes, with chosen values as inputs and outputs.

use std::collections::BTreeSet;
use std::path::Path;

use base::Limits;
use bytes::Bytes;
use tensor::{DType, Tensor};

use crate::data_type::number_of;
use crate::external::ExternalData;
use crate::order::{names_captured, names_read};
use crate::proto::{
    DimensionProto, DimensionValue, GraphProto, ModelProto, NodeProto, SparseTensorProto,
    TensorProto, TensorShapeProto, TensorTypeProto, TypeProto, TypeValue, ValueInfoProto,
};
use crate::tensors;

/// Decodes a model file.
///
/// # Errors
/// As [`crate::import`] for files that are no models or exceed a limit.
pub fn read_model(path: &Path, limits: &Limits) -> base::Result<ModelProto> {
    let read = |bytes| crate::decode(bytes, limits);
    crate::read(path).and_then(read).map_err(crate::place_in(path))
}

/// The names that a node reads: its inputs, and what the graphs in its attributes see of the graph
/// around them.
#[must_use]
pub fn reads(node: &NodeProto) -> BTreeSet<&str> {
    names_read(node).into_iter().collect()
}

/// The model of the nodes of these numbers, in order. Its inputs are those declared; its outputs
/// are the values of these names; constants are those that it reads, with external data, which lie
/// in `folder`, brought in.
///
/// # Errors
/// External data that cannot be read.
pub fn excerpt(
    model: &ModelProto,
    folder: Option<&Path>,
    nodes: &BTreeSet<usize>,
    inputs: &[ValueInfoProto],
    outputs: &[String],
) -> base::Result<ModelProto> {
    let empty = GraphProto::default();
    let whole = model.graph.as_ref().unwrap_or(&empty);
    let mut graph = GraphProto {
        name: whole.name.clone(),
        node: nodes.iter().filter_map(|&number| whole.node.get(number)).cloned().collect(),
        input: inputs.to_vec(),
        output: outputs.iter().map(ValueInfoProto::untyped).collect(),
        ..GraphProto::default()
    };
    let read = names_captured(&graph);
    let is_read = |tensor: &&TensorProto| read.contains(tensor.name.as_str());
    let dense = whole.initializer.iter().filter(is_read).map(|tensor| within(tensor, folder));
    let dense = dense.collect::<base::Result<_>>()?;
    let is_read = |it: &&SparseTensorProto| it.values.as_ref().is_some_and(|it| is_read(&it));
    let sparse = whole.sparse_initializer.iter().filter(is_read).cloned().collect();
    (graph.initializer, graph.sparse_initializer) = (dense, sparse);
    Ok(ModelProto { graph: Some(graph), ..model.clone() })
}

/// A tensor of a file with its elements in it.
fn within(tensor: &TensorProto, folder: Option<&Path>) -> base::Result<TensorProto> {
    if tensor.data_location != 1 {
        return Ok(tensor.clone());
    }
    let external = ExternalData::new(folder);
    let read = tensors::decode(tensor, &external, &Limits::default())?;
    Ok(tensor_proto(&tensor.name, &read))
}

/// The declaration of an input of a tensor's type and shape.
#[must_use]
pub fn declaration(name: &str, tensor: &Tensor) -> ValueInfoProto {
    let extents = tensor.shape().iter().map(|&extent| DimensionValue::DimValue(extent as i64));
    declared(name, tensor.dtype(), extents)
}

/// The declaration of an input.
pub(crate) fn declared(
    name: &str,
    dtype: DType,
    extents: impl Iterator<Item = DimensionValue>,
) -> ValueInfoProto {
    let extent = |extent| DimensionProto { value: Some(extent) };
    let shape = Some(TensorShapeProto { dim: extents.map(extent).collect() });
    let ty = TensorTypeProto { elem_type: number_of(dtype), shape };
    let value = Some(TypeValue::Tensor(ty));
    ValueInfoProto { name: name.to_owned(), r#type: Some(TypeProto { value }) }
}

/// A tensor as files hold it.
#[must_use]
pub fn tensor_proto(name: &str, tensor: &Tensor) -> TensorProto {
    let mut proto = TensorProto {
        name: name.to_owned(),
        dims: tensor.shape().iter().map(|&extent| extent as i64).collect(),
        data_type: number_of(tensor.dtype()),
        ..TensorProto::default()
    };
    match tensor.strings() {
        Some(strings) => {
            let bytes = |text: &String| Bytes::copy_from_slice(text.as_bytes());
            proto.string_data = strings.iter().map(bytes).collect();
        }
        None => proto.raw_data = Some(tensor.bytes().to_vec().into()),
    }
    proto
}
