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
use crate::proto::{FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto};

/// The newest version of the format that is known.
const NEWEST_FORMAT: i64 = 14;

/// Refuses versions of the format and of operator sets that are not known, and what stands twice in
/// a file where it may stand once.
pub(crate) fn check_form(model: &ModelProto) -> base::Result<BTreeMap<String, i64>> {
    let mut found = Diagnostics::new();
    let mut names = BTreeSet::new();
    for function in &model.functions {
        if !names.insert(name_of_function(function)) {
            let twice = defined_twice(&function.name);
            found.push(twice.at(format!("function \"{}\"", function.name)));
        }
    }
    if !(1..=NEWEST_FORMAT).contains(&model.ir_version) {
        let version = model.ir_version;
        found.push(
            Diagnostic::error(
                codes::UNKNOWN_OPSET,
                format!("version {version} of the ONNX format is not known"),
            )
            .because(format!("versions 1 to {NEWEST_FORMAT} are"))
            .remedy("export the model in one of these versions"),
        );
    }
    if let Some(body) = &model.graph {
        check_attributes(&body.node, false, &mut found);
    }
    for function in &model.functions {
        check_attributes(&function.node, true, &mut found);
    }
    two_versions(&model.opset_import).into_iter().for_each(|twice| found.push(twice));
    for function in &model.functions {
        if let Some(twice) = two_versions(&function.opset_import) {
            found.push(twice.at(format!("function \"{}\"", function.name)));
        }
    }
    let functions = model.functions.iter().flat_map(|function| &function.opset_import);
    for import in model.opset_import.iter().chain(functions) {
        let is_onnx = domain(&import.domain).is_empty();
        if is_onnx && !(1..=NEWEST).contains(&import.version) {
            found.push(
                Diagnostic::error(
                    codes::UNKNOWN_OPSET,
                    format!("version {} of ONNX's operator set is not known", import.version),
                )
                .because(format!("versions 1 to {NEWEST} are"))
                .remedy("export the model with one of these versions"),
            );
        }
    }
    found.or_ok(opsets(&model.opset_import))
}

/// The refusal of a domain with two versions: nothing says which of them a node means.
fn two_versions(imports: &[OperatorSetIdProto]) -> Option<Diagnostic> {
    let mut versions = BTreeMap::new();
    imports.iter().find_map(|OperatorSetIdProto { domain: name, version }| {
        let domain = domain(name);
        let first = *versions.entry(domain).or_insert(*version);
        let twice = format!("the operator set `{}` is imported in two versions", named(domain));
        (first != *version).then(|| {
            Diagnostic::error(codes::DUPLICATE_NAME, twice)
                .because(format!("they are {first} and {version}; nodes do not say which they use"))
                .remedy("keep the version that the nodes were written for")
        })
    })
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

/// An operator that is not supported: the first node of it, the version of that one's operator set,
/// and how all of them are named.
type Missing<'a> = (&'a NodeProto, Option<i64>, Vec<String>);

/// Functions inside of each other into which a survey looks, which takes stack for each. An import
/// refuses as many, or, where its limit is raised, tells of what deeper ones lack one by one.
const MOST_OPEN: usize = 64;

/// Walks over nodes, into the functions they call and, if asked, the graphs inside them.
struct Walk<'a> {
    functions: &'a Functions<'a>,
    enters_graphs: bool,
    missing: BTreeMap<String, Missing<'a>>,
    /// How often each domain and operator stands in it.
    operators: FxHashMap<(&'a str, &'a str), usize>,
    /// Functions seen, and those being walked.
    seen: BTreeSet<FunctionName<'a>>,
    open: Vec<FunctionName<'a>>,
    recursive: Option<String>,
}

impl<'a> Walk<'a> {
    /// All of a graph.
    fn of(
        graph: &'a GraphProto,
        functions: &'a Functions<'a>,
        opsets: &BTreeMap<String, i64>,
        enters_graphs: bool,
    ) -> Walk<'a> {
        let mut walk = Walk {
            functions,
            enters_graphs,
            missing: BTreeMap::new(),
            operators: FxHashMap::default(),
            seen: BTreeSet::new(),
            open: Vec::new(),
            recursive: None,
        };
        walk.nodes(&graph.node, opsets);
        walk
    }

    fn nodes(&mut self, nodes: &'a [NodeProto], opsets: &BTreeMap<String, i64>) {
        for (index, node) in nodes.iter().enumerate() {
            self.node(node, index, opsets);
            let enters = self.enters_graphs;
            for graph in node.inner_graphs().filter(|_| enters) {
                self.nodes(&graph.node, opsets);
            }
        }
    }

    fn node(&mut self, node: &'a NodeProto, index: usize, opsets: &BTreeMap<String, i64>) {
        let domain = domain(&node.domain);
        *self.operators.entry((domain, &node.op_type)).or_default() += 1;
        let name = function_name(node);
        if let Some(function) = self.functions.get(&name) {
            if self.open.contains(&name) {
                self.recursive = Some(function.name.clone());
            } else if self.open.len() < MOST_OPEN && self.seen.insert(name) {
                self.open.push(name);
                let function: &'a FunctionProto = function;
                self.nodes(&function.node, &self::opsets(&function.opset_import));
                self.open.pop();
            }
            return;
        }
        // A domain that is not imported is another refusal, made when the node is lowered.
        let version = opsets.get(domain).copied();
        if find(domain, &node.op_type, version.unwrap_or(NEWEST)).is_none() {
            let missing = self.missing.entry(full_name(domain, &node.op_type));
            missing.or_insert((node, version, Vec::new())).2.push(place(node, index));
        }
    }
}

/// How many nodes a refusal names before it only counts.
const NAMED: usize = 20;

/// Refuses a model whose own nodes, or functions they call, use operators that are not supported.
/// Graphs inside nodes are left out: a branch that is not taken does no harm.
pub(crate) fn check_top(
    graph: &GraphProto,
    functions: &Functions<'_>,
    opsets: &BTreeMap<String, i64>,
) -> base::Result<()> {
    let walk = Walk::of(graph, functions, opsets, false);
    if let Some(name) = walk.recursive {
        return Err(Diagnostic::error(
            codes::GRAPH_CYCLE,
            format!("function `{name}` calls itself"),
        )
        .at(format!("function \"{name}\""))
        .because("the calls would never end")
        .remedy("export the model again")
        .into());
    }
    if walk.missing.is_empty() {
        return Ok(());
    }
    Err(unsupported(graph, functions, opsets))
}

/// All operators of a model that are not supported, those in graphs inside nodes included: one
/// diagnostic an operator, with the nodes that use it.
pub(crate) fn unsupported(
    graph: &GraphProto,
    functions: &Functions<'_>,
    opsets: &BTreeMap<String, i64>,
) -> Diagnostics {
    let refuse = |(node, version, places): Missing<'_>| {
        let mut text = places.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        if places.len() > NAMED {
            text.push_str(&format!(" and {} more", places.len() - NAMED));
        }
        unsupported_operator(node, version).at(text)
    };
    Walk::of(graph, functions, opsets, true).missing.into_values().map(refuse).collect()
}

/// How often each operator stands in a model, and where those are that are not supported.
pub(crate) fn histogram(
    graph: &GraphProto,
    functions: &Functions<'_>,
    opsets: &BTreeMap<String, i64>,
) -> (BTreeMap<String, usize>, BTreeMap<String, Vec<String>>) {
    let walk = Walk::of(graph, functions, opsets, true);
    let operators = walk.operators.into_iter();
    let histogram = operators.map(|((domain, name), count)| (full_name(domain, name), count));
    let missing = walk.missing.into_iter().map(|(name, (_, _, places))| (name, places));
    (histogram.collect(), missing.collect())
}
