//! A look over a whole model before anything is lowered: versions, functions, and all operators
//! that are not supported, at once.

use std::collections::{BTreeMap, BTreeSet};

use base::{Diagnostic, Diagnostics, codes};
use rustc_hash::FxHashMap;

use crate::names::{
    FunctionName, Functions, defined_twice, domain, full_name, function_name, name_of_function,
    named, opsets, place,
};
use crate::node::attribute_error;
use crate::operators::{NEWEST, find, unsupported_operator};
use crate::proto::{GraphProto, ModelProto, NodeProto, OperatorSetIdProto};

/// The newest version of the format that is known.
const NEWEST_FORMAT: i64 = 14;

/// Refuses versions of the format and of operator sets that are not known, and what stands twice in
/// a file where it may stand once.
pub(crate) fn check_form(model: &ModelProto) -> base::Result<BTreeMap<String, i64>> {
    let mut found = Diagnostics::new();
    if !(1..=NEWEST_FORMAT).contains(&model.ir_version) {
        let what = format!("version {} of the ONNX format", model.ir_version);
        found.push(unknown_version(&what, NEWEST_FORMAT));
    }
    check_attributes(&model.body().node, false, &mut found);
    check_versions(&model.opset_import, None, &mut found);
    let mut names = BTreeSet::new();
    for function in &model.functions {
        let place = format!("function \"{}\"", function.name);
        if !names.insert(name_of_function(function)) {
            found.push(defined_twice(&function.name).at(place.as_str()));
        }
        check_attributes(&function.node, true, &mut found);
        check_versions(&function.opset_import, Some(&place), &mut found);
    }
    found.or_ok(opsets(&model.opset_import))
}

fn unknown_version(what: &str, newest: i64) -> Diagnostic {
    Diagnostic::error(codes::UNKNOWN_OPSET, format!("{what} is not known"))
        .because(format!("versions 1 to {newest} are"))
        .remedy("export the model with one of these versions")
}

/// Refuses versions of ONNX's operator set that are not known, and domains with two versions:
/// nothing says which of them a node means.
fn check_versions(imports: &[OperatorSetIdProto], place: Option<&str>, found: &mut Diagnostics) {
    let mut versions = BTreeMap::new();
    for OperatorSetIdProto { domain: name, version } in imports {
        let domain = domain(name);
        let first = *versions.entry(domain).or_insert(*version);
        let refusal = if first != *version {
            let set = named(domain);
            let message = format!("the operator set `{set}` is imported in two versions");
            let reason = format!("they are {first} and {version}; nodes do not say which they use");
            Diagnostic::error(codes::DUPLICATE_NAME, message)
                .because(reason)
                .remedy("keep the version that the nodes were written for")
        } else if domain.is_empty() && !(1..=NEWEST).contains(version) {
            unknown_version(&format!("version {version} of ONNX's operator set"), NEWEST)
        } else {
            continue;
        };
        found.push(place.into_iter().fold(refusal, Diagnostic::at));
    }
}

/// Refuses attributes that stand twice in a node, and those that stand for one of a function's
/// caller where there is no function. Looks into the graphs of all nodes.
fn check_attributes(nodes: &[NodeProto], is_function: bool, found: &mut Diagnostics) {
    for (index, node) in nodes.iter().enumerate() {
        let mut names = BTreeSet::new();
        for attribute in &node.attribute {
            let (name, caller) = (&attribute.name, &attribute.ref_attr_name);
            if !names.insert(name) {
                let reason = "it is given twice, and nothing says which of them counts";
                let twice = attribute_error(name, reason).remedy("keep one of them");
                found.push(twice.at(place(node, index)));
            }
            if !caller.is_empty() && !is_function {
                let reason = format!(
                    "it stands for `{caller}` of a function's caller, outside of functions"
                );
                let stray = attribute_error(name, reason).remedy("give it a value of its own");
                found.push(stray.at(place(node, index)));
            }
        }
        for graph in node.inner_graphs() {
            check_attributes(&graph.node, is_function, found);
        }
    }
}

/// An operator that is not supported.
pub(crate) struct Missing<'a> {
    /// The first node of it, and the version of that one's operator set.
    node: &'a NodeProto,
    version: Option<i64>,
    /// How all of its nodes are named.
    pub(crate) places: Vec<String>,
    /// Whether one of them stands in no graph of another node: a branch that is not taken does no
    /// harm.
    is_certain: bool,
}

/// How many nodes a refusal names before it only counts.
const NAMED: usize = 20;

impl Missing<'_> {
    fn refusal(&self) -> Diagnostic {
        let Missing { node, version, places, .. } = self;
        let mut text = places[..places.len().min(NAMED)].join(", ");
        if places.len() > NAMED {
            text.push_str(&format!(" and {} more", places.len() - NAMED));
        }
        unsupported_operator(node, *version).at(text)
    }
}

/// Functions inside of each other into which a survey looks, which takes stack for each. An import
/// refuses as many, or, where its limit is raised, tells of what deeper ones lack one by one.
const MOST_OPEN: usize = 64;

/// The operators of a graph, of the graphs inside of its nodes, and of the functions they call.
pub(crate) struct Survey<'a> {
    functions: &'a Functions<'a>,
    /// Those that are not supported, by name.
    pub(crate) missing: BTreeMap<String, Missing<'a>>,
    /// How often each domain and operator stands in it.
    pub(crate) operators: FxHashMap<(&'a str, &'a str), usize>,
    /// Functions seen, and those being walked.
    seen: BTreeSet<FunctionName<'a>>,
    open: Vec<FunctionName<'a>>,
    recursive: Option<&'a str>,
}

impl<'a> Survey<'a> {
    /// All of a graph.
    pub(crate) fn of(
        graph: &'a GraphProto,
        functions: &'a Functions<'a>,
        opsets: &BTreeMap<String, i64>,
    ) -> Survey<'a> {
        let mut survey = Survey {
            functions,
            missing: BTreeMap::new(),
            operators: FxHashMap::default(),
            seen: BTreeSet::new(),
            open: Vec::new(),
            recursive: None,
        };
        survey.nodes(&graph.node, opsets, true);
        survey
    }

    fn nodes(&mut self, nodes: &'a [NodeProto], opsets: &BTreeMap<String, i64>, is_certain: bool) {
        for (index, node) in nodes.iter().enumerate() {
            self.node(node, index, opsets, is_certain);
            node.inner_graphs().for_each(|graph| self.nodes(&graph.node, opsets, false));
        }
    }

    fn node(
        &mut self,
        node: &'a NodeProto,
        index: usize,
        opsets: &BTreeMap<String, i64>,
        is_certain: bool,
    ) {
        let domain = domain(&node.domain);
        *self.operators.entry((domain, &node.op_type)).or_default() += 1;
        let name = function_name(node);
        if let Some(&function) = self.functions.get(&name) {
            if self.open.contains(&name) {
                self.recursive = Some(&function.name);
            } else if self.open.len() < MOST_OPEN && self.seen.insert(name) {
                self.open.push(name);
                self.nodes(&function.node, &self::opsets(&function.opset_import), is_certain);
                self.open.pop();
            }
            return;
        }
        // A domain that is not imported is another refusal, made when the node is lowered.
        let version = opsets.get(domain).copied();
        if find(domain, &node.op_type, version.unwrap_or(NEWEST)).is_none() {
            let new = Missing { node, version, places: Vec::new(), is_certain };
            let missing = self.missing.entry(full_name(domain, &node.op_type)).or_insert(new);
            missing.places.push(place(node, index));
            missing.is_certain |= is_certain;
        }
    }

    /// Refuses functions that call themselves, and operators that are not supported where one of
    /// them is sure to be met.
    pub(crate) fn check(&self) -> base::Result<()> {
        if let Some(name) = self.recursive {
            let message = format!("function `{name}` calls itself");
            return Err(Diagnostic::error(codes::GRAPH_CYCLE, message)
                .at(format!("function \"{name}\""))
                .because("the calls would never end")
                .remedy("export the model again")
                .into());
        }
        let is_met = self.missing.values().any(|missing| missing.is_certain);
        if is_met { self.check_all() } else { Ok(()) }
    }

    /// Refuses all operators that are not supported: one diagnostic each, with the nodes that use
    /// it.
    pub(crate) fn check_all(&self) -> base::Result<()> {
        self.missing.values().map(Missing::refusal).collect::<Diagnostics>().or_ok(())
    }
}
