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

use base::{Diagnostic, Diagnostics, IntoTree, Result, codes};
use tensor::{StagedFiles, Tolerance, Value};
use tilewright::Options;
use tilewright::compiled::{DecodedModel, Source, compile_source, encode_value, evaluate};

use crate::c_program;
use crate::recorded::NamedValue;

/// What a configuration is compared with.
#[derive(Clone, Debug)]
pub enum Counterpart {
    /// The model compiled with other options; of a target of sources, by the system's compiler.
    Compiled(Box<Options>),
    /// The reference evaluator.
    Evaluator,
    /// Values by name: of outputs, and of any other values of the model.
    Recorded(BTreeMap<String, Value>),
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
    model: DecodedModel,
    inputs: Vec<NamedValue>,
    /// What the other configuration gives.
    outputs: Vec<NamedValue>,
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
        put(folder.join("model.onnx"), self.model.encode())?;
        for (kind, values) in [("input", &self.inputs), ("output", &self.outputs)] {
            for (number, (name, value)) in values.iter().enumerate() {
                let path = data.join(format!("{kind}_{number}.pb"));
                put(path, encode_value(name, value))?;
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

/// Compares a configuration with another one on these inputs, one value for each of the model's;
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
    inputs: &[Value],
    tolerance: Tolerance,
    progress: &mut dyn FnMut(&str),
) -> Result<Option<Difference>> {
    let whole = DecodedModel::read(model, &options.limits)?;
    let ports = whole.info().inputs.into_iter();
    let names = ports.map(|port| port.name);
    let finder = Finder {
        whole,
        options,
        other,
        inputs: names.zip(inputs.iter().cloned()).collect(),
        tolerance,
    };
    finder.find(progress)
}

struct Finder<'a> {
    whole: DecodedModel,
    options: &'a Options,
    other: &'a Counterpart,
    inputs: Vec<NamedValue>,
    tolerance: Tolerance,
}

/// Part of the model, run in both configurations.
struct Pair {
    model: DecodedModel,
    first: Vec<NamedValue>,
    other: Vec<NamedValue>,
    /// The name of the first value that differs, and how.
    difference: Option<(String, String)>,
}

impl Finder<'_> {
    fn find(&self, progress: &mut dyn FnMut(&str)) -> Result<Option<Difference>> {
        let count = self.whole.node_count();
        progress("the whole model");
        let outputs = self.whole.outputs();
        let all: BTreeSet<usize> = (0..count).into_set();
        let pair = self.pair(&all, &self.inputs, &outputs)?;
        if pair.difference.is_none() {
            return if compares_something(&pair) { Ok(None) } else { Err(nothing(&outputs)) };
        }
        // The number of nodes at which a frontier differs, and one at which none does.
        let (mut right, mut wrong) = (0, count);
        while right + 1 < wrong {
            let middle = right.midpoint(wrong);
            progress(&format!("nodes {right} to {wrong} of {count}"));
            let nodes: BTreeSet<usize> = (0..middle).into_set();
            match self.pair(&nodes, &self.inputs, &self.frontier(&nodes))?.difference {
                Some(_) => wrong = middle,
                None => right = middle,
            }
        }
        self.reduce(wrong - 1, progress).map(Some)
    }

    /// The values of nodes that others read, or that are outputs.
    fn frontier(&self, nodes: &BTreeSet<usize>) -> Vec<String> {
        let outputs = self.whole.outputs();
        let mut wanted: BTreeSet<&str> = outputs.iter().map(String::as_str).into_set();
        for number in (0..self.whole.node_count()).filter(|number| !nodes.contains(number)) {
            wanted.extend(self.whole.reads(number));
        }
        let made = nodes.iter().flat_map(|&number| self.whole.gives(number));
        made.filter(|name| wanted.contains(name)).map(str::to_owned).collect()
    }

    /// The nodes that make what a node reads, and so on, the node itself included.
    fn behind(&self, node: usize) -> BTreeSet<usize> {
        let mut wanted = self.whole.reads(node);
        let mut found = BTreeSet::from([node]);
        for number in (0..node).rev() {
            if self.whole.gives(number).any(|name| wanted.contains(name)) {
                wanted.extend(self.whole.reads(number));
                found.insert(number);
            }
        }
        found
    }

    /// The smallest model that ends with a node and differs.
    fn reduce(&self, node: usize, progress: &mut dyn FnMut(&str)) -> Result<Difference> {
        let outputs: Vec<String> = self.whole.gives(node).map(str::to_owned).collect();
        let behind: Vec<usize> = self.behind(node).into_iter().collect();
        let mut count = 1;
        loop {
            progress(&format!("{count} nodes before the first difference"));
            let from = behind.len().saturating_sub(count);
            let nodes: BTreeSet<usize> = behind[from..].iter().copied().into_set();
            let inputs = self.inputs_of(&nodes)?;
            match self.pair(&nodes, &inputs, &outputs) {
                Ok(pair) if from == 0 || pair.difference.is_some() => {
                    return Ok(self.difference(&nodes, inputs, pair));
                }
                Err(found) if from == 0 => return Err(found),
                // A part that does not compile alone (it needs a constant that a node makes).
                Ok(_) | Err(_) => count *= 2,
            }
        }
    }

    /// What some nodes read that neither they nor constants give, as the first configuration
    /// computes it.
    fn inputs_of(&self, nodes: &BTreeSet<usize>) -> Result<Vec<NamedValue>> {
        let whole = &self.whole;
        let made: BTreeSet<&str> = nodes.iter().flat_map(|&number| whole.gives(number)).into_set();
        let read = nodes.iter().flat_map(|&number| whole.reads(number));
        let wanted: BTreeSet<&str> = read.filter(|name| !made.contains(name)).into_set();
        let given = self.inputs.iter().filter(|(name, _)| wanted.contains(name.as_str()));
        let mut given: Vec<NamedValue> = given.cloned().collect();
        let all = (0..whole.node_count()).flat_map(|number| whole.gives(number));
        let earlier: Vec<String> =
            all.filter(|name| wanted.contains(name)).map(str::to_owned).collect();
        if !earlier.is_empty() {
            let last = nodes.last().copied().unwrap_or(0);
            let before: BTreeSet<usize> = (0..last).into_set();
            let model = whole.excerpt(&before, &self.inputs, &earlier)?;
            given.extend(self.compiled(&model, self.options, &self.inputs, &earlier)?);
        }
        Ok(given)
    }

    fn difference(
        &self,
        nodes: &BTreeSet<usize>,
        inputs: Vec<NamedValue>,
        pair: Pair,
    ) -> Difference {
        let (value, comparison) = pair.difference.unwrap_or_else(|| {
            (String::new(), "it differs only together with what follows".to_owned())
        });
        let places: Vec<String> = nodes.iter().map(|&number| self.whole.place(number)).collect();
        Difference {
            node: places.last().cloned().unwrap_or_default(),
            value,
            comparison,
            nodes: places,
            model: pair.model,
            inputs,
            outputs: pair.other,
        }
    }

    /// Runs part of the model in both configurations.
    fn pair(
        &self,
        nodes: &BTreeSet<usize>,
        inputs: &[NamedValue],
        outputs: &[String],
    ) -> Result<Pair> {
        let model = self.whole.excerpt(nodes, inputs, outputs)?;
        let first = self.compiled(&model, self.options, inputs, outputs)?;
        let other = match self.other {
            Counterpart::Compiled(options) => self.compiled(&model, options, inputs, outputs)?,
            Counterpart::Evaluator => {
                let declared = eval::EvaluationPrecision::Declared;
                let options = of_part(self.options);
                let (_, values) = evaluate(&part(&model), &options, &values(inputs), declared)?;
                named(outputs, values)
            }
            Counterpart::Recorded(values) => {
                let value = |name: &String| Some((name.clone(), values.get(name)?.clone()));
                outputs.iter().filter_map(value).collect()
            }
        };
        let how = |(name, expected): &NamedValue| {
            let (_, actual) = first.iter().find(|(other, _)| other == name)?;
            let how = match actual.pairs(expected, name) {
                Err(how) => Some(how),
                Ok(pairs) => pairs
                    .into_iter()
                    .map(|(_, actual, expected)| self.tolerance.compare(&actual, &expected))
                    .find(|comparison| !comparison.passed())
                    .map(|comparison| comparison.to_string()),
            };
            Some((name.clone(), how?))
        };
        let difference = other.iter().find_map(how);
        Ok(Pair { model, first, other, difference })
    }

    fn compiled(
        &self,
        model: &DecodedModel,
        options: &Options,
        inputs: &[NamedValue],
        outputs: &[String],
    ) -> Result<Vec<NamedValue>> {
        let (source, options, inputs) = (part(model), of_part(options), values(inputs));
        let values = match c_program::is_chosen(&options) {
            true => c_program::run_as_c(&source, &options, &inputs)?,
            false => compile_source(source, &options)?.run_values(&inputs)?,
        };
        Ok(named(outputs, values))
    }
}

fn values(named: &[NamedValue]) -> Vec<Value> {
    named.iter().map(|(_, value)| value.clone()).collect()
}

/// The options of a part: its inputs' shapes are known, and some constants are not in it.
pub(crate) fn of_part(options: &Options) -> Options {
    let mut options = options.clone();
    options.dims.clear();
    options.input_shapes.clear();
    options.literals.clear();
    options
}

/// A part of a model, which has no external data.
pub(crate) fn part(model: &DecodedModel) -> Source {
    Source::from(model.clone())
}

/// Whether both configurations have elements of one value.
fn compares_something(pair: &Pair) -> bool {
    let has_elements = |(_, value): &&NamedValue| value.as_tensor().is_none_or(|it| !it.is_empty());
    let mut first = pair.first.iter().filter(has_elements);
    first.any(|(name, _)| pair.other.iter().any(|(other, _)| other == name))
}

pub(crate) fn nothing(outputs: &[String]) -> Diagnostics {
    let names: Vec<String> = outputs.iter().map(|name| format!("`{name}`")).collect();
    Diagnostic::error(codes::NOTHING_COMPARED, "nothing was compared")
        .at(format!("the outputs {}", names.join(", ")))
        .because("none has elements in both configurations")
        .remedy("give inputs that are not empty, and recorded values under the outputs' names")
        .into()
}

fn named(names: &[String], values: Vec<Value>) -> Vec<NamedValue> {
    names.iter().cloned().zip(values).collect()
}
