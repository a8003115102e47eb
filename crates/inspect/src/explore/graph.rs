//! The model's nodes as the imported function tells them, and functions after passes.
//!
//! A node of the model is what places name: a name and an operator, whatever format the model has.
//! Edges lead from the node that gave a value to those that read it; constants have none.

use std::collections::{BTreeMap, BTreeSet};

use base::location::Location;
use base::{LocationId, Locations, Result, SecondaryMap};
use graph::{Function, RegionId, ValueId, type_text};
use serde_json::{Value, json};
use tilewright::Executable;
use tilewright::compiled::Variant;

/// What inputs and outputs of the model have for an operator.
const INPUT: &str = "input";
const OUTPUT: &str = "output";

/// The nodes of a model, numbered in the order of the imported function.
#[derive(Debug, Default)]
pub(super) struct ModelNodes {
    nodes: Vec<ModelNode>,
    /// By name and operator.
    known: BTreeMap<(String, String), usize>,
}

#[derive(Debug)]
struct ModelNode {
    name: String,
    operator: String,
    /// The type of the value that it gives, the last one if there are several.
    ty: String,
    /// The nodes whose values it reads.
    from: BTreeSet<usize>,
}

impl ModelNodes {
    /// Those of an imported function.
    pub(super) fn of(function: &Function) -> ModelNodes {
        let mut found = ModelNodes::default();
        let mut owners = SecondaryMap::new();
        for (&value, name) in function.parameters().iter().zip(&function.parameter_names) {
            let number = found.number(name, INPUT);
            found.nodes[number].ty = text_of_type(function, value);
            owners[value] = Some(number);
        }
        found.region(function, function.body, &mut owners);
        for (&value, name) in function.results().iter().zip(&function.result_names) {
            let number = found.number(name, OUTPUT);
            found.nodes[number].ty = text_of_type(function, value);
            found.nodes[number].from.extend(owners[value]);
        }
        found
    }

    fn region(
        &mut self,
        function: &Function,
        region: RegionId,
        owners: &mut SecondaryMap<ValueId, Option<usize>>,
    ) {
        for &id in &function.regions[region].nodes {
            let node = &function.nodes[id];
            let read: Vec<usize> = node.operands.iter().filter_map(|&it| owners[it]).collect();
            for &inner in &node.regions {
                for &parameter in &function.regions[inner].parameters {
                    owners[parameter] = read.first().copied();
                }
                self.region(function, inner, owners);
            }
            let yielded = node.regions.iter().flat_map(|&it| &function.regions[it].results);
            let yielded: Vec<usize> = yielded.filter_map(|&it| owners[it]).collect();
            // What is made of several nodes while importing counts as the last of them.
            let own = self.of_place(&function.locations, node.location).last().copied();
            if let Some(own) = own {
                let others = read.iter().chain(&yielded).copied().filter(|&it| it != own);
                self.nodes[own].from.extend(others);
                if let Some(&result) = node.results.last() {
                    self.nodes[own].ty = text_of_type(function, result);
                }
            }
            // A constant has an owner only if a node of the model gave it.
            let owner = own.or_else(|| read.first().copied());
            node.results.iter().for_each(|&result| owners[result] = owner);
        }
    }

    fn number(&mut self, name: &str, operator: &str) -> usize {
        let key = (name.to_owned(), operator.to_owned());
        if let Some(&known) = self.known.get(&key) {
            return known;
        }
        let number = self.nodes.len();
        let (name, operator) = key.clone();
        self.nodes.push(ModelNode { name, operator, ty: String::new(), from: BTreeSet::new() });
        self.known.insert(key, number);
        number
    }

    /// The numbers of the nodes that a place is made of.
    pub(super) fn of_place(&mut self, locations: &Locations, place: LocationId) -> Vec<usize> {
        let mut numbers = Vec::new();
        for node in locations.nodes(place) {
            if let Location::Node { name, operator, .. } = locations.get(node) {
                numbers.push(self.number(name, operator));
            }
        }
        numbers
    }

    /// A list of the nodes.
    pub(super) fn json(&self) -> Value {
        let node = |it: &ModelNode| {
            let ModelNode { name, operator, ty, from } = it;
            json!({ "name": name, "operator": operator, "type": ty, "from": from })
        };
        self.nodes.iter().map(node).collect()
    }
}

fn text_of_type(function: &Function, value: ValueId) -> String {
    type_text(function.ty(value), &|symbol| function.symbol_name(symbol)).to_string()
}

/// Texts of many stages: what is the same is kept once.
#[derive(Default)]
pub(super) struct LineTable {
    numbers: BTreeMap<(String, Vec<usize>), usize>,
    lines: Vec<String>,
    /// The nodes of the model that a line is of, where it is of some.
    nodes: Vec<Vec<usize>>,
}

impl LineTable {
    pub(super) fn number(&mut self, line: String, nodes: Vec<usize>) -> usize {
        let LineTable { numbers, lines, nodes: of } = self;
        *numbers.entry((line, nodes)).or_insert_with_key(|(line, nodes)| {
            lines.push(line.clone());
            of.push(nodes.clone());
            lines.len() - 1
        })
    }

    pub(super) fn lines(&self) -> &[String] {
        &self.lines
    }
}

/// The function after the import and after each pass that changed it, at last as it was lowered.
pub(super) fn passes(
    executable: &Executable,
    variant: &Variant,
    nodes: &mut ModelNodes,
) -> Result<Value> {
    let (mut lines, mut stages, mut unchanged) = (LineTable::default(), Vec::new(), Vec::new());
    let mut last: Vec<usize> = Vec::new();
    let mut see = |name: &str, function: &Function| {
        let mut line = |(text, place): (String, LocationId)| {
            lines.number(text, nodes.of_place(&function.locations, place))
        };
        let now: Vec<usize> = function.lines().into_iter().map(&mut line).collect();
        if now == last {
            unchanged.push(name.to_owned());
            return;
        }
        let before = std::mem::take(&mut unchanged);
        stages.push(json!({ "pass": name, "lines": now, "changed_nothing": before }));
        last = now;
    };
    executable.see_passes(variant, &mut |name, function| see(name, function))?;
    // What the last of them left was cut into these.
    for function in variant.front().module.functions.values() {
        see(&format!("cut: {}", function.name), function);
    }
    Ok(json!({ "lines": lines.lines, "nodes": lines.nodes, "stages": stages }))
}
