//! A model while it is changed: its messages, and the questions that are asked of them.
//!
//! Names of values stay what they are; new ones are made of those they belong to, and never clash.

use std::collections::{BTreeMap, BTreeSet};

use base::{IntoTree, Result};
use tensor::{DType, Tensor};
use tilewright::compiled::proto::{
    AttributeProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TypeValue,
    attribute_type,
};
use tilewright::compiled::{DecodedModel, tensor_proto};

/// A model that is being changed.
pub(crate) struct Draft {
    model: DecodedModel,
    pub(crate) proto: ModelProto,
    names: BTreeSet<String>,
}

impl Draft {
    /// A model to change, with all of its data within it.
    pub(crate) fn of(model: &DecodedModel) -> Result<Draft> {
        let model = model.self_contained()?;
        let mut proto = model.proto().clone();
        let graph = proto.body_mut();
        // Older files declare every constant as an input, too, which would let a caller replace it;
        // what is rounded is the constant.
        let constants: BTreeSet<&str> =
            graph.initializer.iter().map(|tensor| tensor.name.as_str()).into_set();
        graph.input.retain(|input| !constants.contains(input.name.as_str()));
        // Layers go by their names, which must tell them apart whatever becomes of their results.
        let mut met = BTreeSet::new();
        for node in &mut graph.node {
            if (node.name.is_empty() || met.contains(&node.name)) && !node.output.is_empty() {
                node.name.clone_from(&node.output[0]);
            }
            met.insert(node.name.clone());
        }
        let mut names = BTreeSet::new();
        for node in &graph.node {
            names.extend(node.input.iter().chain(&node.output).cloned());
            names.extend(
                node.inner_graphs().flat_map(|inner| {
                    inner.node.iter().flat_map(|node| node.output.iter().cloned())
                }),
            );
        }
        names.extend(graph.initializer.iter().map(|tensor| tensor.name.clone()));
        names.extend(graph.input.iter().map(|input| input.name.clone()));
        Ok(Draft { model, proto, names })
    }

    /// What it is now.
    pub(crate) fn model(&self) -> DecodedModel {
        self.model.with_proto(self.proto.clone())
    }

    /// What it has become.
    pub(crate) fn finish(self) -> DecodedModel {
        self.model.with_proto(self.proto)
    }

    /// The nodes, in the order of the file.
    pub(crate) fn nodes(&self) -> &[NodeProto] {
        &self.proto.body().node
    }

    /// Which nodes read a name, in themselves or in the graphs inside of them.
    pub(crate) fn readers(&self) -> BTreeMap<String, Vec<usize>> {
        let mut readers: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (number, node) in self.nodes().iter().enumerate() {
            for name in node.reads() {
                readers.entry(name.to_owned()).or_default().push(number);
            }
        }
        readers
    }

    /// The names of the outputs.
    pub(crate) fn outputs(&self) -> BTreeSet<String> {
        self.proto.body().output.iter().map(|output| output.name.clone()).collect()
    }

    /// The names of the inputs.
    pub(crate) fn inputs(&self) -> Vec<String> {
        self.proto.body().input.iter().map(|input| input.name.clone()).collect()
    }

    /// How many axes a value is declared to have.
    pub(crate) fn rank(&self, name: &str) -> Option<usize> {
        let graph = self.proto.body();
        let mut declared = graph.input.iter().chain(&graph.output).chain(&graph.value_info);
        match &declared.find(|value| value.name == name)?.r#type.as_ref()?.value {
            Some(TypeValue::Tensor(tensor)) => Some(tensor.shape.as_ref()?.dim.len()),
            _ => None,
        }
    }

    /// The constant of a name.
    pub(crate) fn constant(&self, name: &str) -> Result<Option<Tensor>> {
        let graph = self.proto.body();
        let of_graph = graph.initializer.iter().find(|tensor| tensor.name == name);
        let of_node = || {
            let is = |node: &&NodeProto| {
                node.op_type == "Constant" && node.output.first().is_some_and(|it| it == name)
            };
            graph.node.iter().find(is)?.attribute_of("value")?.t.as_deref()
        };
        let found = of_graph.or_else(of_node);
        found.map(|tensor| self.model.tensor(tensor)).transpose()
    }

    /// The constant of a name, if its elements are floats of 32 bits.
    pub(crate) fn floats(&self, name: &str) -> Result<Option<Tensor>> {
        Ok(self.constant(name)?.filter(|tensor| tensor.dtype() == DType::F32))
    }

    /// Whether a value is integers brought back to floats: what reads it is quantised already.
    pub(crate) fn is_dequantised(&self, name: &str) -> bool {
        let gives = |node: &NodeProto| node.output.iter().any(|output| output == name);
        self.nodes().iter().any(|node| node.op_type == "DequantizeLinear" && gives(node))
    }

    /// A name that nothing has, made of another.
    pub(crate) fn fresh(&mut self, name: &str, suffix: &str) -> String {
        let plain = format!("{name}/{suffix}");
        let mut fresh = plain.clone();
        let mut number = 1;
        while !self.names.insert(fresh.clone()) {
            number += 1;
            fresh = format!("{plain}_{number}");
        }
        fresh
    }

    /// Adds a constant under a name made of another; gives the name.
    pub(crate) fn add_constant(&mut self, name: &str, suffix: &str, tensor: &Tensor) -> String {
        let fresh = self.fresh(name, suffix);
        // Elements of less than a byte are packed in files.
        let proto: TensorProto = tensor_proto(&fresh, tensor);
        self.proto.body_mut().initializer.push(proto);
        fresh
    }

    /// Leaves out constants that nothing reads any more.
    pub(crate) fn drop_unread(&mut self) {
        let mut read: BTreeSet<String> = self.readers().into_keys().into_set();
        read.extend(self.outputs());
        let graph = self.proto.body_mut();
        graph.initializer.retain(|tensor| read.contains(&tensor.name));
        graph.node.retain(|node| {
            node.op_type != "Constant" || node.output.iter().any(|name| read.contains(name))
        });
        let defined: BTreeSet<String> =
            graph.node.iter().flat_map(|node| node.output.iter().cloned()).into_set();
        graph.value_info.retain(|value| defined.contains(&value.name));
    }

    /// The version of ONNX's own operator set that the model is written for.
    pub(crate) fn opset(&self) -> i64 {
        let own = |set: &&OperatorSetIdProto| is_own(&set.domain);
        self.proto.opset_import.iter().find(own).map_or(1, |set| set.version)
    }
}

/// Whether a domain is that of ONNX's own operators.
pub(crate) fn is_own(domain: &str) -> bool {
    matches!(domain, "" | "ai.onnx")
}

/// A node of an operator of ONNX's own.
pub(crate) fn node(operator: &str, inputs: &[&str], output: &str) -> NodeProto {
    NodeProto {
        name: format!("{output}/{operator}"),
        op_type: operator.to_owned(),
        input: inputs.iter().map(|&name| name.to_owned()).collect(),
        output: vec![output.to_owned()],
        ..NodeProto::default()
    }
}

/// An attribute that is an integer.
pub(crate) fn integer(name: &str, i: i64) -> AttributeProto {
    let r#type = attribute_type::INT;
    AttributeProto { name: name.to_owned(), r#type, i, ..AttributeProto::default() }
}

/// An attribute that is a list of integers.
pub(crate) fn integers(name: &str, ints: &[i64]) -> AttributeProto {
    let (r#type, ints) = (attribute_type::INTS, ints.to_vec());
    AttributeProto { name: name.to_owned(), r#type, ints, ..AttributeProto::default() }
}

/// An attribute that is an integer, or what holds where the node has none.
pub(crate) fn integer_of(node: &NodeProto, name: &str, default: i64) -> i64 {
    node.attribute_of(name).map_or(default, |attribute| attribute.i)
}

/// An attribute that is a float, or what holds where the node has none.
pub(crate) fn float_of(node: &NodeProto, name: &str, default: f32) -> f32 {
    node.attribute_of(name).map_or(default, |attribute| attribute.f)
}
