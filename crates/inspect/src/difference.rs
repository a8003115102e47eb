//! Two configurations of a compile on the same inputs: the first node of the model whose value
//! differs, and the smallest part of the model around it that still does.
//!
//! Nodes are taken in the order of the file. After each there is a *frontier*: the values that
//! later nodes read, or that are outputs. The first node after which a frontier differs is found by
//! bisection (a difference, once there, is taken to stay); each frontier is that of a model of its
//! own, cut out of the whole, so what comes later is fused as it would be there. Then the model is
//! cut in front, too, with the values of the first configuration as inputs: the node alone, or with
//! as many nodes before it as the difference needs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Diagnostic, Diagnostics, Result, codes};
use import_onnx::excerpt::{declaration, excerpt, read_model, reads, tensor_proto};
use import_onnx::proto::{GraphProto, ModelProto};
use prost::Message;
use tensor::{StagedFiles, Tensor, Value};
use tilewright::Options;
use tilewright::compiled::{Source, compile_source, evaluate};

use crate::c_program;
use crate::tolerance::Tolerance;

/// What a configuration is compared with.
#[derive(Clone, Debug)]
pub enum Counterpart {
    /// The model compiled with other options; of a target of sources, by the system's compiler.
    Compiled(Box<Options>),
    /// The reference evaluator.
    Evaluator,
    /// Values by name: of outputs, and of any other values of the model.
    Recorded(BTreeMap<String, Tensor>),
}

/// The first node whose value differs.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The node, as a place in the model.
    pub node: String,
    /// The name of the value that differs.
    pub value: String,
    /// How.
    pub comparison: String,
    /// The nodes that it takes to show it, the node itself last.
    pub nodes: Vec<String>,
    /// A model of these nodes.
    model: ModelProto,
    inputs: Vec<(String, Tensor)>,
    /// What the other configuration gives.
    outputs: Vec<(String, Tensor)>,
}

impl Difference {
    /// Writes the model as a case for `conformance`: `model.onnx` and `test_data_set_0` with its
    /// inputs and the outputs of the other configuration; all of it or nothing.
    ///
    /// # Errors
    /// `TW0301` if a file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let data = folder.join("test_data_set_0");
        let mut files = StagedFiles::in_folder(&data)?;
        let mut put = |path: PathBuf, bytes: Vec<u8>| {
            files.write(path, |file| std::io::Write::write_all(file, &bytes))
        };
        put(folder.join("model.onnx"), self.model.encode_to_vec())?;
        for (kind, values) in [("input", &self.inputs), ("output", &self.outputs)] {
            for (number, (name, tensor)) in values.iter().enumerate() {
                let path = data.join(format!("{kind}_{number}.pb"));
                put(path, tensor_proto(name, tensor).encode_to_vec())?;
            }
        }
        files.commit()
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: value `{}`: {}", self.node, self.value, self.comparison)?;
        match &self.nodes[..] {
            [_] => writeln!(f, "the node alone differs"),
            nodes => writeln!(f, "it takes {} nodes: {}", nodes.len(), nodes.join(", ")),
        }
    }
}

/// Compares a configuration with another one on these inputs, one tensor for each of the model's;
/// none if no output differs. `progress` hears what is at hand.
///
/// # Errors
/// What is wrong with the model, its inputs or the options; faults while running; `TW0404` and
/// `TW0405` where a target of sources cannot be run; `TW0602` if no element of an output is there
/// to be compared.
pub fn diff(
    model: &Path,
    options: &Options,
    other: &Counterpart,
    inputs: &[Tensor],
    tolerance: Tolerance,
    progress: &mut dyn FnMut(&str),
) -> Result<Option<Difference>> {
    let whole = read_model(model, &options.limits)?;
    let info = import_onnx::inspect(model, &options.limits)?;
    let names = info.inputs.iter().map(|port| port.name.clone());
    let finder = Finder {
        folder: model.parent(),
        graph: whole.graph.clone().unwrap_or_default(),
        whole,
        options,
        other,
        inputs: names.zip(inputs.iter().cloned()).collect(),
        tolerance,
    };
    finder.find(progress)
}

struct Finder<'a> {
    whole: ModelProto,
    graph: GraphProto,
    folder: Option<&'a Path>,
    options: &'a Options,
    other: &'a Counterpart,
    inputs: Vec<(String, Tensor)>,
    tolerance: Tolerance,
}

/// Part of the model, run in both configurations.
struct Pair {
    model: ModelProto,
    first: Vec<(String, Tensor)>,
    other: Vec<(String, Tensor)>,
}

impl Finder<'_> {
    fn find(&self, progress: &mut dyn FnMut(&str)) -> Result<Option<Difference>> {
        let count = self.graph.node.len();
        progress("the whole model");
        let outputs: Vec<String> =
            self.graph.output.iter().map(|output| output.name.clone()).collect();
        let all: BTreeSet<usize> = (0..count).collect();
        let pair = self.pair(&all, &self.inputs, &outputs)?;
        if !self.differs(&pair) {
            return if compares_something(&pair) { Ok(None) } else { Err(nothing(&outputs)) };
        }
        // The number of nodes at which a frontier differs, and one at which none does.
        let (mut right, mut wrong) = (0, count);
        while right + 1 < wrong {
            let middle = right.midpoint(wrong);
            progress(&format!("nodes {right} to {wrong} of {count}"));
            let nodes: BTreeSet<usize> = (0..middle).collect();
            let pair = self.pair(&nodes, &self.inputs, &self.frontier(&nodes))?;
            match self.differs(&pair) {
                true => wrong = middle,
                false => right = middle,
            }
        }
        self.reduce(wrong - 1, progress).map(Some)
    }

    /// The values of nodes that others read, or that are outputs.
    fn frontier(&self, nodes: &BTreeSet<usize>) -> Vec<String> {
        let mut wanted: BTreeSet<&str> =
            self.graph.output.iter().map(|output| output.name.as_str()).collect();
        for (number, node) in self.graph.node.iter().enumerate() {
            if !nodes.contains(&number) {
                wanted.extend(reads(node));
            }
        }
        let made = nodes.iter().flat_map(|&number| &self.graph.node[number].output);
        made.filter(|name| !name.is_empty() && wanted.contains(name.as_str())).cloned().collect()
    }

    /// The nodes that make what a node reads, and so on, the node itself included.
    fn behind(&self, node: usize) -> BTreeSet<usize> {
        let mut wanted = reads(&self.graph.node[node]);
        let mut found = BTreeSet::from([node]);
        for number in (0..node).rev() {
            let earlier = &self.graph.node[number];
            if earlier.output.iter().any(|name| wanted.contains(name.as_str())) {
                wanted.extend(reads(earlier));
                found.insert(number);
            }
        }
        found
    }

    /// The smallest model that ends with a node and differs.
    fn reduce(&self, node: usize, progress: &mut dyn FnMut(&str)) -> Result<Difference> {
        let outputs: Vec<String> =
            self.graph.node[node].output.iter().filter(|name| !name.is_empty()).cloned().collect();
        let behind: Vec<usize> = self.behind(node).into_iter().collect();
        let mut count = 1;
        loop {
            progress(&format!("{count} nodes before the first difference"));
            let from = behind.len().saturating_sub(count);
            let nodes: BTreeSet<usize> = behind[from..].iter().copied().collect();
            let inputs = self.inputs_of(&nodes)?;
            let pair = self.pair(&nodes, &inputs, &outputs);
            match pair {
                Ok(pair) if from == 0 || self.differs(&pair) => {
                    return self.difference(nodes, inputs, pair);
                }
                Err(found) if from == 0 => return Err(found),
                // A part that does not compile alone (it needs a constant that a node makes).
                Ok(_) | Err(_) => count *= 2,
            }
        }
    }

    /// What some nodes read that neither they nor constants give, as the first configuration
    /// computes it.
    fn inputs_of(&self, nodes: &BTreeSet<usize>) -> Result<Vec<(String, Tensor)>> {
        let made: BTreeSet<&str> = nodes
            .iter()
            .flat_map(|&number| &self.graph.node[number].output)
            .map(String::as_str)
            .collect();
        let wanted: BTreeSet<&str> = nodes
            .iter()
            .flat_map(|&number| reads(&self.graph.node[number]))
            .filter(|name| !made.contains(name))
            .collect();
        let mut given: Vec<(String, Tensor)> = self
            .inputs
            .iter()
            .filter(|(name, _)| wanted.contains(name.as_str()))
            .cloned()
            .collect();
        let earlier: Vec<String> = (0..self.graph.node.len())
            .flat_map(|number| &self.graph.node[number].output)
            .filter(|name| wanted.contains(name.as_str()))
            .cloned()
            .collect();
        if !earlier.is_empty() {
            let last = nodes.last().copied().unwrap_or(0);
            let before: BTreeSet<usize> = (0..last).collect();
            let model = self.excerpt(&before, &self.inputs, &earlier)?;
            given.extend(self.compiled(&model, self.options, &self.inputs, &earlier)?);
        }
        Ok(given)
    }

    fn difference(
        &self,
        nodes: BTreeSet<usize>,
        inputs: Vec<(String, Tensor)>,
        pair: Pair,
    ) -> Result<Difference> {
        let (value, comparison) = self.first_difference(&pair).unwrap_or_else(|| {
            (String::new(), "it differs only together with what follows".to_owned())
        });
        let place = |number: usize| import_onnx::place(&self.graph.node[number], number);
        let places: Vec<String> = nodes.iter().map(|&number| place(number)).collect();
        Ok(Difference {
            node: places.last().cloned().unwrap_or_default(),
            value,
            comparison,
            nodes: places,
            model: pair.model,
            inputs,
            outputs: pair.other,
        })
    }

    fn differs(&self, pair: &Pair) -> bool {
        self.first_difference(pair).is_some()
    }

    fn first_difference(&self, pair: &Pair) -> Option<(String, String)> {
        pair.other.iter().find_map(|(name, expected)| {
            let (_, actual) = pair.first.iter().find(|(other, _)| other == name)?;
            let comparison = self.tolerance.compare(actual, expected);
            (!comparison.passed()).then(|| (name.clone(), comparison.to_string()))
        })
    }

    /// Runs part of the model in both configurations.
    fn pair(
        &self,
        nodes: &BTreeSet<usize>,
        inputs: &[(String, Tensor)],
        outputs: &[String],
    ) -> Result<Pair> {
        let model = self.excerpt(nodes, inputs, outputs)?;
        let first = self.compiled(&model, self.options, inputs, outputs)?;
        let other = match self.other {
            Counterpart::Compiled(options) => self.compiled(&model, options, inputs, outputs)?,
            Counterpart::Evaluator => {
                let values: Vec<Value> =
                    inputs.iter().map(|(_, tensor)| tensor.clone().into()).collect();
                let declared = eval::EvaluationPrecision::Declared;
                let options = self.own(self.options);
                let (_, values) = evaluate(&part(&model), &options, &values, declared)?;
                named(outputs, values)
            }
            Counterpart::Recorded(values) => {
                let value = |name: &String| Some((name.clone(), values.get(name)?.clone()));
                outputs.iter().filter_map(value).collect()
            }
        };
        Ok(Pair { model, first, other })
    }

    fn excerpt(
        &self,
        nodes: &BTreeSet<usize>,
        inputs: &[(String, Tensor)],
        outputs: &[String],
    ) -> Result<ModelProto> {
        let inputs: Vec<_> = inputs.iter().map(|(name, it)| declaration(name, it)).collect();
        excerpt(&self.whole, self.folder, nodes, &inputs, outputs)
    }

    fn compiled(
        &self,
        model: &ModelProto,
        options: &Options,
        inputs: &[(String, Tensor)],
        outputs: &[String],
    ) -> Result<Vec<(String, Tensor)>> {
        let (source, options) = (part(model), self.own(options));
        let values = if c_program::is_chosen(&options) {
            let tensors: Vec<Tensor> = inputs.iter().map(|(_, tensor)| tensor.clone()).collect();
            c_program::run(&source, &options, &tensors)?
        } else {
            let values = inputs.iter().map(|(_, tensor)| tensor.clone().into());
            compile_source(source, &options)?.run_values(&values.collect::<Vec<Value>>())?
        };
        Ok(named(outputs, values))
    }

    /// The options of a part: its inputs' shapes are known, and some constants are not in it.
    fn own(&self, options: &Options) -> Options {
        let mut options = options.clone();
        options.dims.clear();
        options.input_shapes.clear();
        options.literals.clear();
        options
    }
}

/// A part of a model, which has no external data.
fn part(model: &ModelProto) -> Source {
    Source::Model(Arc::new(model.clone()), None)
}

/// Whether both configurations have elements of one value.
fn compares_something(pair: &Pair) -> bool {
    let has_elements = |name: &String| {
        pair.first.iter().any(|(other, tensor)| other == name && !tensor.is_empty())
    };
    pair.other.iter().any(|(name, _)| has_elements(name))
}

fn nothing(outputs: &[String]) -> Diagnostics {
    let names: Vec<String> = outputs.iter().map(|name| format!("`{name}`")).collect();
    Diagnostic::error(codes::NOTHING_COMPARED, "nothing was compared")
        .at(format!("the outputs {}", names.join(", ")))
        .because("none is a tensor that has elements in both configurations")
        .remedy("give inputs that are not empty, and recorded values under the outputs' names")
        .into()
}

/// The tensors among values, with their names.
fn named(names: &[String], values: Vec<Value>) -> Vec<(String, Tensor)> {
    let tensor = |(name, value): (&String, Value)| match value {
        Value::Tensor(tensor) => Some((name.clone(), tensor)),
        _ => None,
    };
    names.iter().zip(values).filter_map(tensor).collect()
}

/// Values that were recorded: of a folder `test_data_set_<i>` the outputs, of an archive `.npz` the
/// arrays by name. Of a folder also the inputs, in order.
///
/// # Errors
/// Files that cannot be read.
pub fn read_recorded(
    model: &Path,
    place: &Path,
    options: &Options,
) -> Result<(Vec<Tensor>, BTreeMap<String, Tensor>)> {
    if !place.is_dir() {
        return Ok((Vec::new(), tensor::npz::read(place)?.into_iter().collect()));
    }
    let info = import_onnx::inspect(model, &options.limits)?;
    let tensors = |kind: &str, ports: &[import_onnx::ValueInfo]| -> Result<Vec<(String, Tensor)>> {
        let values = crate::conformance::values(place, kind, ports)?;
        let named = |(number, (name, value)): (usize, (String, Value))| {
            let declared = ports.get(number).map(|port| port.name.clone());
            let name = if name.is_empty() { declared.unwrap_or_default() } else { name };
            match value {
                Value::Tensor(tensor) => Ok((name, tensor)),
                _ => Err(Diagnostic::error(codes::WRONG_DTYPE, format!("`{name}` is no tensor"))
                    .at(place.display().to_string())
                    .because("only tensors are compared")
                    .remedy("use `conformance` for cases with sequences")
                    .into()),
            }
        };
        values.into_iter().enumerate().map(named).collect()
    };
    let inputs = tensors("input", &info.inputs)?.into_iter().map(|(_, tensor)| tensor).collect();
    Ok((inputs, tensors("output", &info.outputs)?.into_iter().collect()))
}
