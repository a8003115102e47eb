//! A decoded model, and models cut out of it: some of its nodes, with chosen values as inputs and
//! outputs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use base::Limits;
use prost::Message;
use tensor::Value;

use crate::data_type::number_of;
use crate::external::ExternalData;
use crate::names::place;
use crate::order::{names_captured, names_read};
use crate::proto::{
    DimensionProto, DimensionValue, GraphProto, ModelProto, SparseTensorProto, TensorProto,
    TensorShapeProto, TensorTypeProto, TypeProto, TypeValue, ValueInfoProto,
};
use crate::recorded::tensor_proto;
use crate::{Facts, ImportOptions, Imported, ModelInfo, info, tensors};

/// A model file, decoded. Nodes go by their numbers in the order of the file.
#[derive(Clone, Debug, Default)]
pub struct DecodedModel {
    proto: ModelProto,
    graph: GraphProto,
    /// Where external data lies.
    folder: Option<PathBuf>,
}

impl DecodedModel {
    /// Decodes a model file.
    ///
    /// # Errors
    /// As [`crate::import`] for files that are no models or exceed a limit.
    pub fn read(path: &Path, limits: &Limits) -> base::Result<DecodedModel> {
        let read = |bytes| crate::decode(bytes, limits);
        let mut proto = crate::read(path).and_then(read).map_err(crate::place_in(path))?;
        let graph = proto.graph.take().unwrap_or_default();
        Ok(DecodedModel { proto, graph, folder: path.parent().map(Path::to_owned) })
    }

    /// As [`crate::import_with`].
    ///
    /// # Errors
    /// As [`crate::import`].
    pub fn import(&self, options: &ImportOptions, facts: &Facts) -> base::Result<Imported> {
        crate::import_model(&self.whole(), self.folder.as_deref(), options, facts)
    }

    /// As [`crate::inspect`].
    #[must_use]
    pub fn info(&self) -> ModelInfo {
        info::inspect_model(&self.whole())
    }

    /// The bytes of its file.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        self.whole().encode_to_vec()
    }

    fn whole(&self) -> ModelProto {
        ModelProto { graph: Some(self.graph.clone()), ..self.proto.clone() }
    }

    /// How many nodes it has.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.graph.node.len()
    }

    /// A node as a place in the model.
    #[must_use]
    pub fn place(&self, node: usize) -> String {
        place(&self.graph.node[node], node)
    }

    /// The names that a node reads: its inputs, and what the graphs in its attributes see of the
    /// graph around them.
    #[must_use]
    pub fn reads(&self, node: usize) -> BTreeSet<&str> {
        names_read(&self.graph.node[node]).into_iter().collect()
    }

    /// The names of what a node gives.
    pub fn gives(&self, node: usize) -> impl Iterator<Item = &str> {
        let outputs = self.graph.node[node].output.iter().map(String::as_str);
        outputs.filter(|name| !name.is_empty())
    }

    /// The names of the outputs.
    #[must_use]
    pub fn outputs(&self) -> Vec<String> {
        self.graph.output.iter().map(|output| output.name.clone()).collect()
    }

    /// The model of the nodes of these numbers, in order, for these inputs. Its outputs are the
    /// values of these names; constants are those that it reads, with external data brought in.
    ///
    /// # Errors
    /// External data that cannot be read.
    pub fn excerpt(
        &self,
        nodes: &BTreeSet<usize>,
        inputs: &[(String, Value)],
        outputs: &[String],
    ) -> base::Result<DecodedModel> {
        let whole = &self.graph;
        let mut graph = GraphProto {
            name: whole.name.clone(),
            node: nodes.iter().filter_map(|&number| whole.node.get(number)).cloned().collect(),
            input: inputs.iter().filter_map(|(name, value)| self.input(name, value)).collect(),
            output: outputs.iter().map(ValueInfoProto::untyped).collect(),
            ..GraphProto::default()
        };
        let read = names_captured(&graph);
        let is_read = |tensor: &&TensorProto| read.contains(tensor.name.as_str());
        let dense = whole.initializer.iter().filter(is_read).map(|tensor| self.within(tensor));
        let dense = dense.collect::<base::Result<_>>()?;
        let is_read = |it: &&SparseTensorProto| it.values.as_ref().is_some_and(|it| is_read(&it));
        let sparse = whole.sparse_initializer.iter().filter(is_read).cloned().collect();
        (graph.initializer, graph.sparse_initializer) = (dense, sparse);
        Ok(DecodedModel { proto: self.proto.clone(), graph, folder: None })
    }

    /// The declaration of an input: of a tensor's type and shape, or as the model has it.
    fn input(&self, name: &str, value: &Value) -> Option<ValueInfoProto> {
        let Some(tensor) = value.as_tensor() else {
            return self.graph.input.iter().find(|input| input.name == name).cloned();
        };
        let extent = |&extent: &usize| DimensionProto {
            value: Some(DimensionValue::DimValue(extent as i64)),
        };
        let shape = Some(TensorShapeProto { dim: tensor.shape().iter().map(extent).collect() });
        let ty = TensorTypeProto { elem_type: number_of(tensor.dtype()), shape };
        let value = Some(TypeValue::Tensor(ty));
        Some(ValueInfoProto { name: name.to_owned(), r#type: Some(TypeProto { value }) })
    }

    /// A tensor of the file with its elements in it.
    fn within(&self, tensor: &TensorProto) -> base::Result<TensorProto> {
        if tensor.data_location != 1 {
            return Ok(tensor.clone());
        }
        let external = ExternalData::new(self.folder.as_deref());
        let read = tensors::decode(tensor, &external, &Limits::default())?;
        Ok(tensor_proto(&tensor.name, &read))
    }
}
