//! A model divided at its strings and encoded images: what is computed from those, and the rest.
//!
//! The *host part* are the nodes that read strings of inputs, or encoded images, and what only such
//! nodes compute. It is imported anew for each run, which computes it, strings being known while
//! importing. What it gives to the rest are numbers of any extents: the rest is a model like any
//! other, compiled once for all strings.
//!
//! Not every model can be divided: where strings of inputs meet data, or a graph inside of a node
//! reads them, all of it is imported for the strings at hand.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use bytes::Bytes;
use front::{Facts, List, Operand};
use tensor::DType;

use crate::excerpt::{declared, excerpt};
use crate::external::ExternalData;
use crate::importer::Scope;
use crate::inputs;
use crate::model;
use crate::options::ImportOptions;
use crate::order::{names_read, order};
use crate::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, ValueInfoProto,
    attribute_type,
};

/// Where an output of a divided model comes from, with the number among the outputs there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputFrom {
    /// The host part.
    Host(usize),
    /// The rest.
    Rest(usize),
}

/// The parts of a model. Outputs of the host part that the rest reads come first, in the order of
/// the inputs that the rest has behind those of the model.
#[derive(Clone, Debug)]
pub struct Division {
    /// What is computed from strings and encoded images.
    pub host: ModelProto,
    /// The rest; none where nothing is left.
    pub rest: Option<ModelProto>,
    /// The model's inputs that the host part has, by number.
    pub host_inputs: Vec<usize>,
    /// The model's inputs that the rest has, by number.
    pub rest_inputs: Vec<usize>,
    /// How many outputs of the host part are inputs of the rest.
    pub passed: usize,
    /// Where the model's outputs come from.
    pub outputs: Vec<OutputFrom>,
}

/// Divides a model whose inputs are all told of, where that can be done.
#[must_use]
pub fn divide(
    model: &ModelProto,
    folder: Option<&Path>,
    options: &ImportOptions,
    facts: &Facts,
) -> Option<Division> {
    let model = with_numbered_words(model);
    let values = model::values(&model, ExternalData::new(folder), options, facts).ok()?;
    let graph = model.graph.as_ref()?;
    let inputs = inputs::without_default(graph);
    let input_names: BTreeSet<&str> = inputs.iter().map(|input| input.name.as_str()).collect();
    let parts = Parts::of(graph, &inputs, &values)?;
    let made_by_host: BTreeSet<&str> = parts.outputs_of(graph, &parts.host);
    let read_by_rest: BTreeSet<&str> =
        parts.rest.iter().flat_map(|&number| names_read(&graph.node[number])).collect();
    let passed: Vec<&str> =
        made_by_host.iter().copied().filter(|name| read_by_rest.contains(name)).collect();
    if passed.iter().any(|name| values[*name].list().is_some()) {
        return None;
    }
    let mut host_outputs: Vec<String> = passed.iter().map(|&name| name.to_owned()).collect();
    let (mut rest_outputs, mut outputs) = (Vec::new(), Vec::new());
    for output in &graph.output {
        let name = output.name.as_str();
        let is_text = input_names.contains(name) && parts.is_text(name);
        if is_text || made_by_host.contains(name) {
            let known = host_outputs.iter().position(|other| other == name);
            outputs.push(OutputFrom::Host(known.unwrap_or_else(|| {
                host_outputs.push(name.to_owned());
                host_outputs.len() - 1
            })));
        } else {
            outputs.push(OutputFrom::Rest(rest_outputs.len()));
            rest_outputs.push(output.clone());
        }
    }
    let given_by_rest: BTreeSet<String> =
        rest_outputs.iter().map(|output| output.name.clone()).collect();
    let numbers = |wanted: &dyn Fn(&str) -> bool| -> Vec<usize> {
        (0..inputs.len()).filter(|&number| wanted(&inputs[number].name)).collect()
    };
    let host_inputs = numbers(&|name| parts.texts.contains(name));
    let rest_inputs = numbers(&|name| {
        !parts.is_text(name) && !parts.texts.contains(name)
            || read_by_rest.contains(name)
            || given_by_rest.contains(name)
    });
    let declarations: Vec<ValueInfoProto> =
        host_inputs.iter().map(|&number| inputs[number].clone()).collect();
    let behind = parts.with_constants(graph);
    let host = excerpt(&model, folder, &behind, &declarations, &host_outputs).ok()?;
    let rest = (!rest_outputs.is_empty()).then(|| {
        let mut declarations: Vec<ValueInfoProto> =
            rest_inputs.iter().map(|&number| inputs[number].clone()).collect();
        declarations.extend(passed.iter().map(|&name| {
            let value = &values[name];
            declared(name, value.dtype(), (0..value.rank()).map(|_| None))
        }));
        let node = (0..graph.node.len()).filter(|number| !parts.host.contains(number));
        let graph = GraphProto {
            input: declarations,
            output: rest_outputs,
            node: node.map(|number| graph.node[number].clone()).collect(),
            ..graph.clone()
        };
        ModelProto { graph: Some(graph), ..model.clone() }
    });
    let passed = passed.len();
    Some(Division { host, rest, host_inputs, rest_inputs, passed, outputs })
}

/// Which nodes are in which part, by number. Nodes of constants are in neither.
struct Parts<'a> {
    values: &'a Scope,
    host: BTreeSet<usize>,
    rest: BTreeSet<usize>,
    /// The inputs that the host part reads.
    texts: BTreeSet<String>,
}

impl<'a> Parts<'a> {
    fn of(graph: &GraphProto, inputs: &[&ValueInfoProto], values: &'a Scope) -> Option<Parts<'a>> {
        let mut parts =
            Parts { values, host: BTreeSet::new(), rest: BTreeSet::new(), texts: BTreeSet::new() };
        // What is computed from inputs at all; and what is strings of inputs, or made of those.
        let inputs: BTreeSet<&str> = inputs.iter().map(|input| input.name.as_str()).collect();
        let mut runtime = inputs.clone();
        let mut host: BTreeSet<&str> =
            runtime.iter().copied().filter(|name| parts.is_text(name)).collect();
        let made = made(graph);
        let outer = |name: &str| values.contains_key(name) && !made.contains(name);
        for number in order(&graph.node, &outer).ok()? {
            let node = &graph.node[number];
            let read: Vec<&str> =
                names_read(node).into_iter().filter(|name| runtime.contains(name)).collect();
            if read.is_empty() {
                continue;
            }
            let is_image =
                node.op_type == "ImageDecoder" && read.iter().all(|name| inputs.contains(name));
            let touches = |name: &&str| host.contains(name) && parts.is_text(name);
            let is_host = is_image || read.iter().any(touches);
            if is_host {
                let has_graphs = node.inner_graphs().next().is_some();
                if has_graphs || !is_image && !read.iter().all(|name| host.contains(name)) {
                    return None;
                }
                for name in read.iter().filter(|name| inputs.contains(**name)) {
                    parts.texts.insert((*name).to_owned());
                }
                host.extend(node.output.iter().map(String::as_str));
                parts.host.insert(number);
            } else {
                parts.rest.insert(number);
            }
            runtime.extend(node.output.iter().map(String::as_str));
        }
        for output in graph.output.iter().filter(|output| host.contains(output.name.as_str())) {
            if inputs.contains(output.name.as_str()) {
                parts.texts.insert(output.name.clone());
            }
        }
        (!parts.texts.is_empty()).then_some(parts)
    }

    /// Whether a value is a tensor of strings, or a map.
    fn is_text(&self, name: &str) -> bool {
        let is_text = |value: &Operand| match value.list() {
            None => value.dtype() == DType::String,
            Some(list) => matches!(list, List::Map(..)),
        };
        self.values.get(name).is_some_and(is_text)
    }

    fn outputs_of<'g>(&self, graph: &'g GraphProto, nodes: &BTreeSet<usize>) -> BTreeSet<&'g str> {
        let names = nodes.iter().flat_map(|&number| &graph.node[number].output);
        names.map(String::as_str).filter(|name| !name.is_empty()).collect()
    }

    /// The nodes of the host part, and those that make the constants which they read.
    fn with_constants(&self, graph: &GraphProto) -> BTreeSet<usize> {
        let outputs = |number: usize| graph.node[number].output.iter().map(String::as_str);
        let all = 0..graph.node.len();
        let makers: BTreeMap<&str, usize> =
            all.flat_map(|number| outputs(number).map(move |name| (name, number))).collect();
        let mut nodes = self.host.clone();
        let mut work: Vec<usize> = nodes.iter().copied().collect();
        while let Some(number) = work.pop() {
            let behind = names_read(&graph.node[number]);
            let behind = behind.into_iter().filter_map(|name| makers.get(name).copied());
            work.extend(behind.filter(|&number| nodes.insert(number)));
        }
        nodes
    }
}

/// The names that a graph's nodes define.
fn made(graph: &GraphProto) -> BTreeSet<&str> {
    graph.node.iter().flat_map(|node| &node.output).map(String::as_str).collect()
}

/// The model with each `TfIdfVectorizer` of strings as one of their numbers in its pool, which
/// `LabelEncoder` finds: only the latter has to do with strings.
fn with_numbered_words(model: &ModelProto) -> ModelProto {
    let mut model = model.clone();
    let Some(graph) = &mut model.graph else { return model };
    let mut nodes = Vec::with_capacity(graph.node.len());
    for mut node in std::mem::take(&mut graph.node) {
        let pool = node.attribute.iter().position(|attribute| attribute.name == "pool_strings");
        let (Some(pool), "TfIdfVectorizer", [input]) = (pool, &node.op_type[..], &node.input[..])
        else {
            nodes.push(node);
            continue;
        };
        let words = node.attribute.remove(pool).strings;
        let mut known: BTreeMap<&Bytes, i64> = BTreeMap::new();
        let numbers: Vec<i64> = words
            .iter()
            .map(|word| {
                let next = known.len() as i64;
                *known.entry(word).or_insert(next)
            })
            .collect();
        let mut keys: Vec<(&Bytes, i64)> = known.into_iter().collect();
        keys.sort_by_key(|(_, number)| *number);
        let keys: Vec<Bytes> = keys.into_iter().map(|(word, _)| word.clone()).collect();
        let places = format!("{}.words", node.output.first().map_or("", String::as_str));
        let list = |name: &str, numbers: Vec<i64>| AttributeProto {
            name: name.to_owned(),
            r#type: attribute_type::INTS,
            ints: numbers,
            ..AttributeProto::default()
        };
        let values = list("values_int64s", (0..keys.len() as i64).collect());
        let keys = AttributeProto {
            name: "keys_strings".to_owned(),
            r#type: attribute_type::STRINGS,
            strings: keys,
            ..AttributeProto::default()
        };
        nodes.push(NodeProto {
            name: node.name.clone(),
            domain: LABELS.to_owned(),
            op_type: "LabelEncoder".to_owned(),
            input: vec![input.clone()],
            output: vec![places.clone()],
            attribute: vec![keys, values],
            ..NodeProto::default()
        });
        node.input = vec![places];
        node.attribute.push(list("pool_int64s", numbers));
        nodes.push(node);
    }
    graph.node = nodes;
    if !model.opset_import.iter().any(|set| set.domain == LABELS) {
        let set = OperatorSetIdProto { domain: LABELS.to_owned(), version: 4 };
        model.opset_import.push(set);
    }
    model
}

/// The domain of `LabelEncoder`.
const LABELS: &str = "ai.onnx.ml";
