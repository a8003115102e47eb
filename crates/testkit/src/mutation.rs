//! Random changes to an ONNX model that leave it a well-formed message: other attributes, shapes,
//! element types, edges, operators, constants, nodes more and less, another model behind it. What
//! comes out is sometimes a valid model and mostly almost one, which is what finds the assumptions
//! that nobody wrote down.
//!
//! Everything is determined by the seed.

use std::collections::BTreeSet;

use import_onnx::proto::{
    AttributeProto, DimensionProto, DimensionValue, GraphProto, ModelProto, NodeProto, TensorProto,
    TensorShapeProto, TensorTypeProto, TypeProto, TypeValue, ValueInfoProto, attribute_type,
};
use tensor::random::Generator;

/// Numbers that code tends to have opinions on.
const NUMBERS: [i64; 22] = [
    0,
    1,
    2,
    3,
    5,
    7,
    8,
    16,
    17,
    63,
    64,
    65,
    255,
    1 << 16,
    1 << 31,
    1 << 40,
    i64::MAX,
    i64::MIN,
    -1,
    -2,
    -3,
    -128,
];

/// Words that attributes of ONNX's operators take.
const WORDS: [&str; 16] = [
    "",
    "SAME_UPPER",
    "SAME_LOWER",
    "VALID",
    "NOTSET",
    "constant",
    "reflect",
    "edge",
    "wrap",
    "linear",
    "cubic",
    "nearest",
    "add",
    "max",
    "none",
    "ij,jk->ik",
];

/// The number of the element type of strings, and the most of them that a tensor gets.
const STRING: i32 = 8;
const MOST_WORDS: i64 = 64;

/// Changes a model in one to four places. `operators` are the names a node may get.
pub fn mutate(model: &mut ModelProto, operators: &[&str], seed: u64) {
    let mut mutator = Mutator { random: Generator::new(seed), operators };
    for _ in 0..1 + mutator.below(4) {
        mutator.change(model);
    }
}

/// Makes inputs of the constants that have more than so many elements: a model of little else than
/// structure is left.
pub fn weights_to_inputs(model: &mut ModelProto, elements: i64) {
    let Some(graph) = &mut model.graph else { return };
    let is_weight = |constant: &TensorProto| {
        let count = constant.dims.iter().try_fold(1_i64, |count, &dim| count.checked_mul(dim));
        count.is_none_or(|count| count > elements)
    };
    let (weights, rest) = std::mem::take(&mut graph.initializer).into_iter().partition(is_weight);
    graph.initializer = rest;
    // Models of old list their constants among the inputs anyway.
    let listed: BTreeSet<String> = graph.input.iter().map(|input| input.name.clone()).collect();
    let weights: Vec<TensorProto> = weights;
    let inputs = weights.into_iter().map(input_for);
    graph.input.extend(inputs.filter(|input| !listed.contains(&input.name)));
}

/// An input of the name and type of a constant.
fn input_for(constant: TensorProto) -> ValueInfoProto {
    let extent = |&extent: &i64| DimensionProto { value: Some(DimensionValue::DimValue(extent)) };
    let shape = Some(TensorShapeProto { dim: constant.dims.iter().map(extent).collect() });
    let value = TensorTypeProto { elem_type: constant.data_type, shape };
    let r#type = Some(TypeProto { value: Some(TypeValue::Tensor(value)) });
    ValueInfoProto { r#type, ..ValueInfoProto::untyped(constant.name) }
}

/// Appends the graph of another model, whose values get names of their own. Some of its inputs are
/// values of the first model instead, where it can be of the same type.
pub fn splice(model: &mut ModelProto, other: &ModelProto, seed: u64) {
    let mut mutator = Mutator { random: Generator::new(seed), operators: &[] };
    let (Some(graph), Some(mut other_graph)) = (&mut model.graph, other.graph.clone()) else {
        return;
    };
    rename(&mut other_graph, &format!("_{}", mutator.below(1 << 20)));
    mutator.connect(graph, &mut other_graph);
    graph.input.append(&mut other_graph.input);
    graph.initializer.append(&mut other_graph.initializer);
    graph.node.append(&mut other_graph.node);
    graph.output.append(&mut other_graph.output);
    model.functions.extend(other.functions.iter().cloned());
    for set in &other.opset_import {
        if model.opset_import.iter().all(|own| own.domain != set.domain) {
            model.opset_import.push(set.clone());
        }
    }
}

/// Puts a suffix on the names of all values of a graph and of those inside it.
fn rename(graph: &mut GraphProto, suffix: &str) {
    let named = graph.input.iter_mut().chain(&mut graph.output).chain(&mut graph.value_info);
    let constants = graph.initializer.iter_mut().map(|tensor| &mut tensor.name);
    let nodes = &mut graph.node;
    let names = named.map(|value| &mut value.name).chain(constants);
    let operands = nodes.iter_mut().flat_map(|node| node.input.iter_mut().chain(&mut node.output));
    for name in names.chain(operands).filter(|name| !name.is_empty()) {
        name.push_str(suffix);
    }
    for attribute in graph.node.iter_mut().flat_map(|node| &mut node.attribute) {
        for inner in attribute.g.as_deref_mut().into_iter().chain(&mut attribute.graphs) {
            rename(inner, suffix);
        }
    }
}

/// Lets nodes, and the graphs inside them, read another value.
fn replace_reads(nodes: &mut [NodeProto], before: &str, after: &str) {
    for node in nodes {
        for name in node.input.iter_mut().filter(|name| *name == before) {
            after.clone_into(name);
        }
        for attribute in &mut node.attribute {
            for inner in attribute.g.as_deref_mut().into_iter().chain(&mut attribute.graphs) {
                replace_reads(&mut inner.node, before, after);
            }
        }
    }
}

struct Mutator<'a> {
    random: Generator,
    operators: &'a [&'a str],
}

impl Mutator<'_> {
    fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound.max(1) as u64) as usize
    }

    fn pick<'t, T>(&mut self, items: &'t [T]) -> Option<&'t T> {
        let index = self.below(items.len());
        items.get(index)
    }

    fn pick_mut<'t, T>(&mut self, items: &'t mut [T]) -> Option<&'t mut T> {
        let index = self.below(items.len());
        items.get_mut(index)
    }

    fn number(&mut self, before: i64) -> i64 {
        match self.below(4) {
            0 => before.wrapping_add(1),
            1 => before.wrapping_sub(1),
            2 => self.below(12) as i64,
            _ => NUMBERS[self.below(NUMBERS.len())],
        }
    }

    fn change(&mut self, model: &mut ModelProto) {
        match self.below(24) {
            0 => {
                if let Some(set) = self.pick_mut(&mut model.opset_import) {
                    set.version = 1 + self.below(28) as i64;
                }
            }
            1 => {
                if let Some(function) = self.pick_mut(&mut model.functions) {
                    let nodes = &mut function.node;
                    let mut graph =
                        GraphProto { node: std::mem::take(nodes), ..GraphProto::default() };
                    self.graph(&mut graph);
                    function.node = graph.node;
                }
            }
            _ => {
                if let Some(graph) = &mut model.graph {
                    self.graph(graph);
                }
            }
        }
    }

    fn graph(&mut self, graph: &mut GraphProto) {
        // Now and then a graph inside.
        if self.below(4) == 0 {
            let attributes = graph.node.iter_mut().flat_map(|node| &mut node.attribute);
            let mut inner: Vec<&mut GraphProto> =
                attributes.flat_map(|attribute| attribute.g.as_deref_mut()).collect();
            if let Some(inner) = self.pick_mut(&mut inner) {
                return self.graph(inner);
            }
        }
        match self.below(16) {
            0..=3 => self.attribute(graph),
            4 | 5 => self.edge(graph),
            6 => self.operator(graph),
            7 | 8 => self.constant(graph),
            9..=11 => self.declaration(graph),
            12 => self.more_nodes(graph),
            13 => self.fewer_nodes(graph),
            14 => self.constant_input(graph),
            _ => self.new_output(graph),
        }
    }

    fn attribute(&mut self, graph: &mut GraphProto) {
        let donor = self.pick(&graph.node).and_then(|node| node.attribute.first()).cloned();
        let with: Vec<usize> =
            (0..graph.node.len()).filter(|&at| !graph.node[at].attribute.is_empty()).collect();
        let Some(&at) = self.pick(&with) else { return };
        let attributes = &mut graph.node[at].attribute;
        let place = self.below(attributes.len());
        match (self.below(10), donor) {
            (0, _) => _ = attributes.remove(place),
            (1, Some(donor)) => attributes.push(donor),
            (2, Some(donor)) => {
                let name = attributes[place].name.clone();
                attributes[place] = AttributeProto { name, ..donor };
            }
            _ => self.attribute_value(&mut attributes[place]),
        }
    }

    fn attribute_value(&mut self, attribute: &mut AttributeProto) {
        match attribute.r#type {
            attribute_type::FLOAT => attribute.f = self.float(),
            attribute_type::INT => attribute.i = self.number(attribute.i),
            attribute_type::STRING => attribute.s = WORDS[self.below(WORDS.len())].into(),
            attribute_type::INTS => self.numbers(&mut attribute.ints),
            attribute_type::FLOATS => {
                let number = self.float();
                match self.below(3) {
                    0 => attribute.floats.push(number),
                    1 => _ = attribute.floats.pop(),
                    _ => {
                        if let Some(place) = self.pick_mut(&mut attribute.floats) {
                            *place = number;
                        }
                    }
                }
            }
            attribute_type::TENSOR => {
                if let Some(tensor) = &mut attribute.t {
                    self.tensor(tensor);
                }
            }
            _ => attribute.r#type = self.below(14) as i32,
        }
    }

    fn float(&mut self) -> f32 {
        let numbers =
            [0.0, -0.0, 1.0, 0.5, -1.0, 1e-30, 1e30, f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
        numbers[self.below(numbers.len())]
    }

    fn numbers(&mut self, numbers: &mut Vec<i64>) {
        match self.below(6) {
            0 => numbers.push(NUMBERS[self.below(NUMBERS.len())]),
            1 => _ = numbers.pop(),
            2 => numbers.reverse(),
            _ => {
                let at = self.below(numbers.len());
                if let Some(before) = numbers.get(at).copied() {
                    numbers[at] = self.number(before);
                }
            }
        }
    }

    /// Names that are defined in the graph.
    fn names(graph: &GraphProto) -> Vec<String> {
        let inputs = graph.input.iter().map(|input| &input.name);
        let constants = graph.initializer.iter().map(|tensor| &tensor.name);
        let outputs = graph.node.iter().flat_map(|node| &node.output);
        inputs.chain(constants).chain(outputs).cloned().collect()
    }

    fn edge(&mut self, graph: &mut GraphProto) {
        let names = Mutator::names(graph);
        let name = self.pick(&names).cloned().unwrap_or_default();
        let kind = self.below(8);
        let Some(node) = self.pick_mut(&mut graph.node) else { return };
        let place = self.below(node.input.len());
        match kind {
            0 => node.input.push(name),
            1 => _ = node.input.pop(),
            2 if place < node.input.len() => node.input[place].clear(),
            3 => node.input.reverse(),
            4 => _ = node.output.pop(),
            5 => node.output.push(format!("more{}", self.below(1 << 20))),
            _ if place < node.input.len() => node.input[place] = name,
            _ => {}
        }
    }

    fn operator(&mut self, graph: &mut GraphProto) {
        let name = self.pick(self.operators).copied();
        let other = self.pick(&graph.node).map(|node| node.op_type.clone());
        let takes_other = self.below(3) == 0;
        let Some(node) = self.pick_mut(&mut graph.node) else { return };
        match (other, name) {
            (Some(other), _) if takes_other => node.op_type = other,
            (_, Some(name)) => node.op_type = name.to_owned(),
            _ => {}
        }
    }

    fn constant(&mut self, graph: &mut GraphProto) {
        if let Some(tensor) = self.pick_mut(&mut graph.initializer) {
            self.tensor(tensor);
        }
    }

    fn tensor(&mut self, tensor: &mut TensorProto) {
        match self.below(8) {
            0 => match self.below(3) {
                0 => {
                    let elements = tensor
                        .dims
                        .iter()
                        .fold(1, |count: i64, &extent| count.saturating_mul(extent));
                    let word = |_| WORDS[self.below(WORDS.len())].into();
                    tensor.string_data = (0..elements.min(MOST_WORDS)).map(word).collect();
                    tensor.data_type = STRING;
                    tensor.raw_data = None;
                }
                _ => tensor.data_type = 1 + self.below(26) as i32,
            },
            1 | 2 => self.numbers(&mut tensor.dims),
            3 => tensor.int64_data.push(NUMBERS[self.below(NUMBERS.len())]),
            4 => tensor.data_location = 1,
            _ => {
                let number = self.number(0).to_le_bytes();
                let Some(raw) = &tensor.raw_data else { return };
                let mut raw = raw.to_vec();
                match self.below(4) {
                    0 => raw.truncate(self.below(raw.len())),
                    1 => raw.extend(number),
                    _ => {
                        // A whole element of 8 bytes where there is one, otherwise a byte.
                        let at = self.below(raw.len().div_ceil(8)) * 8;
                        for (place, byte) in raw.iter_mut().skip(at).zip(number) {
                            *place = byte;
                        }
                    }
                }
                tensor.raw_data = Some(raw.into());
            }
        }
    }

    fn declaration(&mut self, graph: &mut GraphProto) {
        let values = match self.below(4) {
            0 => &mut graph.output,
            _ => &mut graph.input,
        };
        let Some(value) = self.pick_mut(values) else { return };
        let Some(TypeProto { value: Some(TypeValue::Tensor(tensor)) }) = &mut value.r#type else {
            return;
        };
        let shape = match &mut tensor.shape {
            Some(shape) => shape,
            None => tensor.shape.insert(TensorShapeProto::default()),
        };
        let place = self.below(shape.dim.len());
        match self.below(8) {
            0 => tensor.elem_type = 1 + self.below(26) as i32,
            1 => tensor.shape = None,
            2 => _ = shape.dim.pop(),
            3 => {
                let value = Some(DimensionValue::DimValue(self.below(4) as i64));
                shape.dim.push(DimensionProto { value });
            }
            4 | 5 => {
                let name = ["n", "m", ""][self.below(3)].to_owned();
                if let Some(dim) = shape.dim.get_mut(place) {
                    dim.value = Some(DimensionValue::DimParam(name));
                }
            }
            _ => {
                let Some(dim) = shape.dim.get_mut(place) else { return };
                let before = match dim.value {
                    Some(DimensionValue::DimValue(before)) => before,
                    _ => 1,
                };
                dim.value = Some(DimensionValue::DimValue(self.number(before)));
            }
        }
    }

    fn more_nodes(&mut self, graph: &mut GraphProto) {
        let names = Mutator::names(graph);
        let Some(mut node) = self.pick(&graph.node).cloned() else { return };
        let suffix = self.below(1 << 20);
        for output in node.output.iter_mut().filter(|output| !output.is_empty()) {
            output.push_str(&format!("_{suffix}"));
        }
        if let (Some(place), Some(name)) = (self.pick_mut(&mut node.input), self.pick(&names)) {
            *place = name.clone();
        }
        // What it makes is used: by another node, or as an output.
        let made = node.output.first().cloned().unwrap_or_default();
        match self.pick_mut(&mut graph.node).and_then(|other| self.pick_mut(&mut other.input)) {
            Some(place) if self.below(2) == 0 => *place = made,
            _ => graph.output.push(ValueInfoProto::untyped(made)),
        }
        graph.node.push(node);
    }

    fn fewer_nodes(&mut self, graph: &mut GraphProto) {
        if graph.node.is_empty() {
            return;
        }
        let at = self.below(graph.node.len());
        let NodeProto { input, output, .. } = graph.node.remove(at);
        // Its readers read what it read.
        let Some(name) = input.into_iter().find(|name| !name.is_empty()) else { return };
        for place in graph.node.iter_mut().flat_map(|node| &mut node.input) {
            if output.contains(place) {
                *place = name.clone();
            }
        }
    }

    /// A constant becomes an input.
    fn constant_input(&mut self, graph: &mut GraphProto) {
        if graph.initializer.is_empty() {
            return;
        }
        let at = self.below(graph.initializer.len());
        let constant = graph.initializer.remove(at);
        graph.input.push(input_for(constant));
    }

    /// Lets a graph read values of another one that comes first instead of some inputs of its own.
    fn connect(&mut self, first: &GraphProto, second: &mut GraphProto) {
        let all = Mutator::names(first);
        let declared: Vec<&ValueInfoProto> = first.output.iter().chain(&first.input).collect();
        for input in std::mem::take(&mut second.input) {
            let alike: Vec<&String> = declared
                .iter()
                .filter(|value| value.r#type == input.r#type)
                .map(|value| &value.name)
                .collect();
            let source = match self.below(8) {
                0 => self.pick(&all).cloned(),
                1..=5 => self.pick(&alike).copied().cloned(),
                _ => None,
            };
            match source {
                Some(source) => replace_reads(&mut second.node, &input.name, &source),
                None => second.input.push(input),
            }
        }
    }

    fn new_output(&mut self, graph: &mut GraphProto) {
        let names = Mutator::names(graph);
        if let Some(name) = self.pick(&names) {
            graph.output.push(ValueInfoProto::untyped(name.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use base::text::Parser;
    use import_onnx::ImportOptions;
    use prost::Message;

    use super::*;
    use crate::onnx_text::parse_model;

    fn model(text: &str) -> ModelProto {
        parse_model(&mut Parser::new(text)).expect("a model")
    }

    fn import(model: &ModelProto) -> base::Result<module::Module> {
        let bytes = model.encode_to_vec().into();
        import_onnx::import_bytes(bytes, &ImportOptions::default())
    }

    #[test]
    fn a_model_behind_another_has_names_of_its_own() {
        let first = model("input x: f32[2] y = Relu(x) output y: f32[2]");
        let second = model(
            "input x: f32[2] constant c: bool[] {true} z = Exp(x)
             y = If(c) {then_branch = {a = Neg(z) output a: f32[2]},
                        else_branch = {b = Neg(x) output b: f32[2]}}
             output y: f32[2]",
        );
        let mut inputs = BTreeSet::new();
        for seed in 0..20 {
            let mut both = first.clone();
            splice(&mut both, &second, seed);
            let graph = both.graph.as_ref().expect("a graph");
            assert_eq!((graph.node.len(), graph.output.len()), (3, 2));
            inputs.insert(graph.input.len());
            import(&both).unwrap_or_else(|found| panic!("seed {seed}: {found}"));
        }
        // The second reads a value of the first, or an input of its own.
        assert_eq!(inputs, BTreeSet::from([1, 2]));
    }

    #[test]
    fn weights_become_inputs_and_small_constants_stay() {
        let mut both = model(
            "input x: f32[3] constant w: f32[3] {1.0, 2.0, 3.0} constant b: f32[1] {1.0}
             y = Add(x, w) z = Add(y, b) output z: f32[3]",
        );
        weights_to_inputs(&mut both, 2);
        let graph = both.graph.as_ref().expect("a graph");
        let inputs: Vec<&str> = graph.input.iter().map(|input| input.name.as_str()).collect();
        assert_eq!((inputs, graph.initializer.len()), (vec!["x", "w"], 1));
        import(&both).expect("a valid model");
    }
}
