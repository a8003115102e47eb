//! What each layer, and the model as a whole, loses by its integers: measured on the samples.
//!
//! The error that a layer brings itself is that of its result where it reads what the float model
//! computes. All layers are measured in one run: the float model with, beside it, each layer as it
//! is in the quantised one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};

use base::{IntoTree, Result};
use serde_json::{Value as Json, json};
use tensor::Tensor;
use tilewright::compiled::DecodedModel;
use tilewright::compiled::proto::{ModelProto, NodeProto};

use crate::calibrate::{Values, watch};
use crate::plan::name_of;
use crate::{LayerChoice, Made, Maker};

/// What a layer loses.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerError {
    /// The node's name, or that of its result where it has none.
    pub name: String,
    /// The operator.
    pub operator: String,
    /// The noise over the signal that the layer brings itself, as a root of squares.
    pub own_error: f64,
    /// The cosine of the angle between its result and that of the float layer on the same values.
    pub own_cosine: f64,
}

impl LayerError {
    /// Signal over noise, in decibels.
    #[must_use]
    pub fn decibels(&self) -> f64 {
        decibels(self.own_error)
    }
}

/// What an output loses.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputError {
    /// The output's name.
    pub name: String,
    /// The noise over the signal, as a root of squares.
    pub error: f64,
    /// The cosine of the angle between it and that of the float model, over all samples.
    pub cosine: f64,
    /// The same of the worst sample.
    pub least_cosine: f64,
    /// The share of rows whose largest element is another.
    pub other_classes: f64,
}

/// What a model loses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The layers that compute with integers, in the order of the model.
    pub layers: Vec<LayerError>,
    /// The layers that stay float.
    pub float: Vec<String>,
    /// The layers that are stored in 8 bits because fewer lose too much.
    pub bytes: Vec<String>,
    /// The outputs.
    pub outputs: Vec<OutputError>,
    /// How many samples were measured.
    pub samples: usize,
}

fn decibels(error: f64) -> f64 {
    -20.0 * error.max(1e-10).log10()
}

/// Sums of squares of a value and of its difference from another.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    first: f64,
    second: f64,
    product: f64,
    noise: f64,
    rows: usize,
    other_rows: usize,
}

impl Sums {
    fn add(&mut self, right: &Tensor, found: &Tensor) {
        let (right_elements, found_elements) = (right.to_f64_vec(), found.to_f64_vec());
        for (a, b) in right_elements.iter().zip(&found_elements) {
            self.first += a * a;
            self.second += b * b;
            self.product += a * b;
            self.noise += (a - b) * (a - b);
        }
        let row = right.shape().last().copied().unwrap_or(1).max(1);
        let rows = right_elements.chunks(row).zip(found_elements.chunks(row));
        for (a, b) in rows {
            self.rows += 1;
            self.other_rows += usize::from(largest(a) != largest(b));
        }
    }

    fn error(&self) -> f64 {
        if self.noise == 0.0 { 0.0 } else { (self.noise / self.first.max(1e-30)).sqrt() }
    }

    fn cosine(&self) -> f64 {
        let lengths = (self.first * self.second).sqrt();
        if self.noise == 0.0 { 1.0 } else { self.product / lengths.max(1e-30) }
    }
}

/// The place of the largest element.
fn largest(row: &[f64]) -> usize {
    (0..row.len()).fold(0, |best, at| if row[at] > row[best] { at } else { best })
}

impl Maker<'_> {
    /// Measures a model that was made.
    pub(crate) fn report(&self, made: &Made, choice: &LayerChoice) -> Result<Report> {
        let [float, bytes] = [&choice.float, &choice.bytes].map(|it| it.iter().cloned().collect());
        let outputs = self.output_errors(made)?;
        let mut report =
            Report { float, bytes, outputs, samples: self.samples.len(), ..Report::default() };
        if self.samples.is_empty() {
            return Ok(report);
        }
        let alone = self.alone(made)?;
        for layer in &made.layers {
            let sums = alone.get(&layer.name).copied().unwrap_or_default();
            report.layers.push(LayerError {
                name: layer.name.clone(),
                operator: layer.operator.clone(),
                own_error: sums.error(),
                own_cosine: sums.cosine(),
            });
        }
        Ok(report)
    }

    /// What each output of a model that was made loses; nothing where there are no samples.
    pub(crate) fn output_errors(&self, made: &Made) -> Result<Vec<OutputError>> {
        if self.samples.is_empty() {
            return Ok(Vec::new());
        }
        let found = self.at_outputs(made)?.into_iter().map(|(name, (sums, least_cosine))| {
            let other_classes = sums.other_rows as f64 / sums.rows.max(1) as f64;
            let (error, cosine) = (sums.error(), sums.cosine());
            OutputError { name, error, cosine, least_cosine, other_classes }
        });
        Ok(found.collect())
    }

    /// What each layer loses by itself.
    fn alone(&self, made: &Made) -> Result<BTreeMap<String, Sums>> {
        let (model, pairs) = beside(self.float, made);
        let names = pairs.values().flatten().cloned();
        let mut sums: BTreeMap<String, Sums> = BTreeMap::new();
        let given = (self.samples, &self.settings.options);
        watch(&model, &names.collect(), given, &mut |_, values| {
            for (layer, [right, found]) in &pairs {
                if let Some((right, found)) = values.get(right).zip(values.get(found)) {
                    sums.entry(layer.clone()).or_default().add(right, found);
                }
            }
            Ok(())
        })?;
        Ok(sums)
    }

    /// What each output loses, and the cosine of the worst sample.
    fn at_outputs(&self, made: &Made) -> Result<BTreeMap<String, (Sums, f64)>> {
        let names: BTreeSet<String> = self.float.outputs().into_iter().into_set();
        let given = (self.samples, &self.settings.options);
        let mut right: Vec<Values> = Vec::new();
        watch(self.float, &names, given, &mut |_, values| {
            right.push(values.clone());
            Ok(())
        })?;
        let mut sums: BTreeMap<String, (Sums, f64)> = BTreeMap::new();
        watch(&made.model, &names, given, &mut |number, values| {
            for (name, right) in &right[number] {
                if let Some(found) = values.get(name) {
                    let mut alone = Sums::default();
                    alone.add(right, found);
                    let (sums, least) = sums.entry(name.clone()).or_insert((Sums::default(), 1.0));
                    sums.add(right, found);
                    *least = least.min(alone.cosine());
                }
            }
            Ok(())
        })?;
        Ok(sums)
    }
}

/// The float model with each layer of the quantised one beside it; for each layer the names of its
/// result in the one and in the other.
fn beside(float: &DecodedModel, made: &Made) -> (DecodedModel, BTreeMap<String, [String; 2]>) {
    let mut proto: ModelProto = float.proto().clone();
    let quantised = made.model.proto().body();
    let graph = proto.body_mut();
    let known: BTreeSet<String> =
        graph.initializer.iter().map(|tensor| tensor.name.clone()).into_set();
    let new = quantised.initializer.iter().filter(|tensor| !known.contains(&tensor.name));
    graph.initializer.extend(new.cloned());
    let defined: BTreeSet<String> =
        graph.node.iter().flat_map(|node| node.output.iter().cloned()).into_set();
    let is_new = |node: &&NodeProto| node.output.iter().all(|name| !defined.contains(name));
    graph.node.extend(quantised.node.iter().filter(is_new).cloned());
    let mut pairs = BTreeMap::new();
    for layer in &made.layers {
        let target = made.rounded.get(&layer.result).unwrap_or(&layer.result);
        let Some(product) = quantised.node.iter().find(|node| name_of(node) == layer.name) else {
            continue;
        };
        let alone = chain(&mut graph.node, product, target, &quantised.node);
        pairs.insert(layer.name.clone(), [layer.result.clone(), alone]);
    }
    (float.with_proto(proto), pairs)
}

/// What is beside a value of the float model.
fn apart(name: &str) -> String {
    format!("{name}/alone")
}

/// Copies a layer, from its product to what stands for its result; gives the name of that.
fn chain(
    nodes: &mut Vec<NodeProto>,
    product: &NodeProto,
    target: &str,
    all: &[NodeProto],
) -> String {
    let mut current = product.output[0].clone();
    let mut copy = product.clone();
    copy.name = apart(&copy.name);
    copy.output = vec![apart(&current)];
    nodes.push(copy);
    while current != target {
        let Some(next) = all.iter().find(|node| node.input.contains(&current)) else { break };
        let mut copy = next.clone();
        copy.name = apart(&copy.name);
        for name in copy.input.iter_mut().filter(|name| **name == current) {
            *name = apart(name);
        }
        current.clone_from(&next.output[0]);
        copy.output = vec![apart(&current)];
        nodes.push(copy);
    }
    apart(&current)
}

/// Columns of a name in the table.
const WIDEST: usize = 48;

/// The end of a name, which tells most, where it is too long for the table.
fn shortened(name: &str) -> String {
    let count = name.chars().count();
    match count > WIDEST {
        true => "..".chars().chain(name.chars().skip(count - WIDEST + 2)).collect(),
        false => name.to_owned(),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.layers.iter().map(|row| &row.name).chain(&self.float).chain(&self.bytes);
        let width = names.map(|name| name.chars().count()).max().unwrap_or(0);
        let width = width.clamp("layer".len(), WIDEST);
        if !self.layers.is_empty() {
            writeln!(f, "{:width$}  {:14}  {:>7}  {:>9}", "layer", "operator", "dB", "cosine")?;
        }
        for row in &self.layers {
            let (name, operator) = (shortened(&row.name), &row.operator);
            let (decibels, cosine) = (row.decibels(), row.own_cosine);
            writeln!(f, "{name:width$}  {operator:14}  {decibels:7.1}  {cosine:9.6}")?;
        }
        for name in &self.float {
            writeln!(f, "{:width$}  stays float", shortened(name))?;
        }
        for name in &self.bytes {
            writeln!(f, "{:width$}  is stored in 8 bits", shortened(name))?;
        }
        for row in &self.outputs {
            let OutputError { name, cosine, least_cosine, other_classes, .. } = row;
            let decibels = decibels(row.error);
            writeln!(
                f,
                "output {name}: {decibels:.1} dB, cosine {cosine:.6}, of the worst sample \
                 {least_cosine:.6}; another largest element in {:.1} % of rows",
                other_classes * 100.0
            )?;
        }
        Ok(())
    }
}

impl Report {
    /// The report as JSON: what the table says, and the errors that decibels are of.
    #[must_use]
    pub fn json(&self) -> Json {
        let layer = |row: &LayerError| {
            json!({
                "name": row.name, "operator": row.operator, "decibels": row.decibels(),
                "error": row.own_error, "cosine": row.own_cosine,
            })
        };
        let output = |row: &OutputError| {
            json!({
                "name": row.name, "error": row.error, "cosine": row.cosine,
                "least_cosine": row.least_cosine, "other_classes": row.other_classes,
            })
        };
        json!({
            "layers": self.layers.iter().map(layer).collect::<Vec<_>>(),
            "float": self.float,
            "bytes": self.bytes,
            "outputs": self.outputs.iter().map(output).collect::<Vec<_>>(),
            "samples": self.samples,
        })
    }

    /// The report as a picture: a bar for each layer, as long as its noise is over its signal in
    /// decibels below 60; SVG.
    #[must_use]
    pub fn picture(&self) -> String {
        const ROW: usize = 18;
        const LABELS: usize = 320;
        const BARS: f64 = 400.0;
        let height = (self.layers.len() + 2) * ROW;
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"820\" height=\"{height}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <text x=\"4\" y=\"13\">noise that each layer brings, dB of signal over noise</text>\n"
        );
        for (number, row) in self.layers.iter().enumerate() {
            let (top, decibels) = ((number + 1) * ROW, row.decibels());
            let length = BARS * (1.0 - (decibels / 60.0).clamp(0.0, 1.0));
            let name = escaped(&shortened(&row.name));
            // Writing to a text does not fail.
            let _ = writeln!(
                text,
                "<text x=\"4\" y=\"{}\">{name}</text><rect x=\"{LABELS}\" y=\"{}\" \
                 width=\"{length:.1}\" height=\"{}\" fill=\"#4477aa\"/><text x=\"{:.1}\" \
                 y=\"{}\">{decibels:.1}</text>",
                top + 13,
                top + 2,
                ROW - 4,
                LABELS as f64 + length + 6.0,
                top + 13
            );
        }
        text.push_str("</svg>\n");
        text
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
