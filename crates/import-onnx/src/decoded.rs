//! A decoded model, and models cut out of it: some of its nodes, with chosen values as inputs and
//! outputs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use base::limits::{exceeded, more_than};
use base::{Diagnostic, Limits, codes};
use bytes::Bytes;
use front::{Facts, ImportOptions, Imported, ModelInfo, place_in, read_model_file};
use prost::Message;
use tensor::{Tensor, Value};

use crate::external::ExternalData;
use crate::names::place;
use crate::order::{names_captured, names_read};
use crate::proto::{
    GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto, TypeValue, ValueInfoProto,
};
use crate::recorded::tensor_proto;
use crate::wire::is_modest;
use crate::{info, model, tensors};

/// A model file, decoded; weights stay where the file is mapped. Nodes go by their numbers in the
/// order of the file.
#[derive(Clone, Debug)]
pub struct DecodedModel {
    proto: ModelProto,
    /// The file, if it was one: external data lies in its folder.
    path: Option<PathBuf>,
}

impl DecodedModel {
    /// Decodes a model file; external data is looked for in its folder.
    ///
    /// # Errors
    /// Diagnostics of a file that cannot be read, is no model or exceeds a limit.
    pub fn read(path: &Path, limits: &Limits) -> base::Result<DecodedModel> {
        DecodedModel::of_file(path, read_model_file(path)?, limits)
    }

    /// As [`Self::read`], of a file whose bytes are there already.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn of_file(path: &Path, bytes: Bytes, limits: &Limits) -> base::Result<DecodedModel> {
        let model = DecodedModel::of(bytes, limits).map_err(place_in(path))?;
        Ok(DecodedModel { path: Some(path.to_owned()), ..model })
    }

    /// Decodes the bytes of a model file, which has no external data.
    ///
    /// # Errors
    /// Diagnostics of bytes that are no model or exceed a limit.
    pub fn of(bytes: Bytes, limits: &Limits) -> base::Result<DecodedModel> {
        Ok(DecodedModel { proto: decode(bytes, limits)?, path: None })
    }

    /// Imports it with facts; reports those that are missing.
    ///
    /// # Errors
    /// Diagnostics of all that is wrong with the model or not supported.
    pub fn import(&self, options: &ImportOptions, facts: &Facts) -> base::Result<Imported> {
        let external = self.external();
        let imported = model::import(&self.proto, external, options, facts);
        match &self.path {
            Some(path) => imported.map_err(place_in(path)),
            None => imported,
        }
    }

    /// The files beside it.
    fn external(&self) -> ExternalData {
        ExternalData::new(self.path.as_deref().and_then(Path::parent))
    }

    /// What it holds.
    #[must_use]
    pub fn info(&self) -> ModelInfo {
        info::inspect_model(&self.proto)
    }

    /// The messages that it was decoded to.
    #[must_use]
    pub fn proto(&self) -> &ModelProto {
        &self.proto
    }

    /// A model of other messages, whose external data lies where this one's does.
    #[must_use]
    pub fn with_proto(&self, proto: ModelProto) -> DecodedModel {
        DecodedModel { proto, path: self.path.clone() }
    }

    /// The elements of one of its tensors.
    ///
    /// # Errors
    /// A tensor that is not well formed; external data that cannot be read.
    pub fn tensor(&self, proto: &TensorProto) -> base::Result<Tensor> {
        Ok(tensors::decode(proto, &self.external(), &Limits::default())?)
    }

    /// The same model with all external data within it, so that its bytes are all there is to it.
    ///
    /// # Errors
    /// External data that cannot be read.
    pub fn self_contained(&self) -> base::Result<DecodedModel> {
        let mut proto = self.proto.clone();
        self.bring_in(proto.body_mut())?;
        Ok(DecodedModel { proto, path: None })
    }

    fn bring_in(&self, graph: &mut GraphProto) -> base::Result<()> {
        for tensor in &mut graph.initializer {
            *tensor = self.within(tensor)?;
        }
        for attribute in graph.node.iter_mut().flat_map(|node| &mut node.attribute) {
            if let Some(tensor) = &mut attribute.t {
                **tensor = self.within(tensor)?;
            }
            let inner = attribute.g.as_deref_mut().into_iter().chain(&mut attribute.graphs);
            inner.into_iter().try_for_each(|graph| self.bring_in(graph))?;
        }
        Ok(())
    }

    /// The files of external data that its tensors name, from the folder of the model.
    #[must_use]
    pub fn external_files(&self) -> BTreeSet<String> {
        let mut files = BTreeSet::new();
        let functions = self.proto.functions.iter();
        functions.for_each(|function| external_files_of_nodes(&function.node, &mut files));
        if let Some(graph) = &self.proto.graph {
            external_files(graph, &mut files);
        }
        files
    }

    /// The bytes of its file.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        self.proto.encode_to_vec()
    }

    /// How many nodes it has.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.proto.body().node.len()
    }

    /// A node as a place in the model.
    #[must_use]
    pub fn place(&self, node: usize) -> String {
        place(&self.proto.body().node[node], node)
    }

    /// The names that a node reads: its inputs, and what the graphs in its attributes see of the
    /// graph around them.
    #[must_use]
    pub fn reads(&self, node: usize) -> BTreeSet<&str> {
        names_read(&self.proto.body().node[node]).into_iter().collect()
    }

    /// The names of what a node gives.
    pub fn gives(&self, node: usize) -> impl Iterator<Item = &str> {
        let outputs = self.proto.body().node[node].output.iter().map(String::as_str);
        outputs.filter(|name| !name.is_empty())
    }

    /// The names of the outputs.
    #[must_use]
    pub fn outputs(&self) -> Vec<String> {
        self.proto.body().output.iter().map(|output| output.name.clone()).collect()
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
        let whole = self.proto.body();
        let mut graph = GraphProto {
            name: whole.name.clone(),
            node: nodes.iter().filter_map(|&number| whole.node.get(number)).cloned().collect(),
            input: inputs.iter().filter_map(|(name, value)| self.input(name, value)).collect(),
            output: outputs.iter().map(|name| self.output(name)).collect(),
            ..GraphProto::default()
        };
        let read = names_captured(&graph);
        let is_read = |tensor: &&TensorProto| read.contains(tensor.name.as_str());
        let dense = whole.initializer.iter().filter(is_read).map(|tensor| self.within(tensor));
        let dense = dense.collect::<base::Result<_>>()?;
        let is_read = |it: &&SparseTensorProto| it.values.as_ref().is_some_and(|it| is_read(&it));
        let sparse = whole.sparse_initializer.iter().filter(is_read).cloned().collect();
        (graph.initializer, graph.sparse_initializer) = (dense, sparse);
        let proto = ModelProto { graph: Some(graph), ..self.proto.clone() };
        Ok(DecodedModel { proto, path: None })
    }

    /// The declaration of an input: of a tensor's type and shape, or as the model has it.
    fn input(&self, name: &str, value: &Value) -> Option<ValueInfoProto> {
        let Some(tensor) = value.as_tensor() else {
            return self.proto.body().input.iter().find(|input| input.name == name).cloned();
        };
        Some(ValueInfoProto::of_tensor(name, tensor.dtype(), tensor.shape()))
    }

    /// The declaration of an output: of lists and maps as the model has it, since files of them do
    /// not tell what they hold; that of a tensor is not needed.
    fn output(&self, name: &str) -> ValueInfoProto {
        let body = self.proto.body();
        let is_list = |it: &&ValueInfoProto| {
            let ty = it.r#type.as_ref().and_then(|ty| ty.value.as_ref());
            it.name == name && !matches!(ty, None | Some(TypeValue::Tensor(_)))
        };
        let declared = body.output.iter().chain(&body.value_info).find(is_list);
        declared.cloned().unwrap_or_else(|| ValueInfoProto::untyped(name))
    }

    /// A tensor of the file with its elements in it.
    fn within(&self, tensor: &TensorProto) -> base::Result<TensorProto> {
        if tensor.data_location != 1 {
            return Ok(tensor.clone());
        }
        let within = tensor_proto(&tensor.name, &self.tensor(tensor)?);
        let TensorProto { doc_string, metadata_props, .. } = tensor.clone();
        Ok(TensorProto { doc_string, metadata_props, ..within })
    }
}

fn external_files(graph: &GraphProto, files: &mut BTreeSet<String>) {
    let sparse = graph.sparse_initializer.iter().flat_map(tensors_of_sparse);
    graph.initializer.iter().chain(sparse).for_each(|tensor| external_files_of(tensor, files));
    external_files_of_nodes(&graph.node, files);
}

fn external_files_of_nodes(nodes: &[NodeProto], files: &mut BTreeSet<String>) {
    for attribute in nodes.iter().flat_map(|node| &node.attribute) {
        let sparse = attribute.sparse_tensor.as_deref().into_iter().flat_map(tensors_of_sparse);
        let tensors = attribute.t.as_deref().into_iter().chain(sparse);
        tensors.for_each(|tensor| external_files_of(tensor, files));
        let graphs = attribute.g.as_deref().into_iter().chain(&attribute.graphs);
        graphs.for_each(|graph| external_files(graph, files));
    }
}

fn tensors_of_sparse(sparse: &SparseTensorProto) -> impl Iterator<Item = &TensorProto> {
    sparse.values.iter().chain(&sparse.indices)
}

fn external_files_of(tensor: &TensorProto, files: &mut BTreeSet<String>) {
    let places = tensor.external_data.iter().filter(|entry| entry.key == "location");
    files.extend(places.map(|entry| entry.value.clone()));
}

fn decode(bytes: Bytes, limits: &Limits) -> base::Result<ModelProto> {
    if bytes.len() as u64 > limits.file_bytes {
        return Err(exceeded("file-bytes", bytes.len() as u64, "the model is too large")
            .because(format!("{} bytes; at most {} are read", bytes.len(), limits.file_bytes))
            .into());
    }
    if bytes.is_empty() {
        return Err(Diagnostic::error(codes::NOT_ONNX, "the file is not an ONNX model")
            .because("it is empty")
            .remedy("copy or download it again")
            .into());
    }
    if tensor::zip::is_archive(&bytes) {
        return Err(Diagnostic::error(codes::NOT_ONNX, "the file is not an ONNX model")
            .because("it is an archive, as `torch.export.save` writes it; this takes ONNX alone")
            .remedy("give the model as an ONNX file: `torch.onnx.export` writes one")
            .into());
    }
    if bytes.get(4..8) == Some(b"TFL3") {
        return Err(Diagnostic::error(codes::NOT_ONNX, "the file is not an ONNX model")
            .because("it is one of TensorFlow Lite; this takes ONNX alone")
            .remedy("give the model as an ONNX file, which it was converted from or to")
            .into());
    }
    if !is_modest::<ModelProto>(&bytes, limits) {
        return Err(exceeded(
            "decoded-bytes",
            more_than(limits.decoded_bytes),
            "the file would take too much memory",
        )
        .because("it holds very many small messages")
        .into());
    }
    let proto = ModelProto::decode(bytes).map_err(|error| not_onnx(&error))?;
    if proto.graph.is_none() {
        return Err(Diagnostic::error(codes::NOT_ONNX, "the file is not an ONNX model")
            .because("it holds no graph")
            .remedy("check that it is the model itself, and copy it again")
            .into());
    }
    Ok(proto)
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
