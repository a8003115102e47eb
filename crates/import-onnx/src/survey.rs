//! A look over a whole model before anything is lowered: versions, functions, and all operators
//! that are not supported, at once.

use std::collections::{BTreeMap, BTreeSet};

use base::{Diagnostic, Diagnostics, codes};
use rustc_hash::FxHashMap;

use crate::model::defined_twice;
use crate::node::attribute_error;
use crate::operators::{NEWEST, find};
use crate::proto::{FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto};

/// Domain, name and overload of a function.
pub(crate) type FunctionName<'a> = (&'a str, &'a str, &'a str);

/// The newest version of the format that is known.
const NEWEST_FORMAT: i64 = 14;

/// A domain, with the one name of ONNX's own.
pub(crate) fn domain(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

/// The name of a node: its own, or that of its first output.
pub(crate) fn node_name(node: &NodeProto) -> &str {
    match node.name.as_str() {
        "" => node.output.iter().map(String::as_str).find(|name| !name.is_empty()).unwrap_or(""),
        name => name,
    }
}

/// How a diagnostic names a node: by its name, or by its place in the file.
pub fn place(node: &NodeProto, index: usize) -> String {
    match node.name.as_str() {
        "" => format!("node {index} ({})", node.op_type),
        name => format!("node \"{name}\" ({})", node.op_type),
    }
}

/// The key of the function that a node would call.
pub(crate) fn function_name(node: &NodeProto) -> FunctionName<'_> {
    (domain(&node.domain), &node.op_type, &node.overload)
}

/// The functions that the model defines.
pub(crate) fn functions(model: &ModelProto) -> BTreeMap<FunctionName<'_>, &FunctionProto> {
    model.functions.iter().map(|function| (name_of_function(function), function)).collect()
}

fn name_of_function(function: &FunctionProto) -> FunctionName<'_> {
    (domain(&function.domain), &function.name, &function.overload)
}

/// The versions of operator sets by domain.
pub(crate) fn opsets(imports: &[OperatorSetIdProto]) -> BTreeMap<String, i64> {
    imports.iter().map(|import| (domain(&import.domain).to_owned(), import.version)).collect()
}

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
    imports.iter().find_map(|OperatorSetIdProto { domain, version }| {
        let domain = self::domain(domain);
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
            for graph in attribute.g.as_deref().into_iter().chain(&attribute.graphs) {
                check_attributes(&graph.node, is_function, found);
            }
        }
    }
}

/// A domain as a diagnostic names it.
pub(crate) fn named(domain: &str) -> &str {
    if domain.is_empty() { "ai.onnx" } else { domain }
}

/// The refusal of a node whose domain the model does not import.
pub(crate) fn no_opset(domain: &str) -> Diagnostic {
    let name = named(domain);
    Diagnostic::error(
        codes::UNKNOWN_OPSET,
        format!("the model does not say which version of the operator set `{name}` it uses"),
    )
    .because("the meaning of an operator depends on the version")
    .remedy("export the model again")
}

/// An operator with its domain, where that is not ONNX's own.
fn full_name(domain: &str, operator: &str) -> String {
    if domain.is_empty() { operator.to_owned() } else { format!("{domain}.{operator}") }
}

/// The refusal of an operator that is not in the table.
pub(crate) fn unsupported_operator(node: &NodeProto, version: Option<i64>) -> Diagnostic {
    let operator = full_name(domain(&node.domain), &node.op_type);
    let problem = match version {
        Some(version) => format!("operator `{operator}` of version {version} is not supported"),
        None => format!("operator `{operator}` is not supported"),
    };
    let refusal = Diagnostic::error(codes::UNSUPPORTED_OPERATOR, problem);
    match find(domain(&node.domain), &node.op_type, NEWEST) {
        Some(row) => refusal
            .because(format!("it is supported from version {} on", row.versions[0]))
            .remedy("export the model with a newer version of the operator set"),
        None => refusal
            .because("it is not in the table of operators (docs/operators.md)")
            .remedy("export the model without it"),
    }
}

/// What a survey found missing: by operator, the names of the nodes.
#[derive(Debug, Default)]
pub(crate) struct Missing<'a> {
    pub(crate) nodes: BTreeMap<String, Vec<String>>,
    /// The first of them, and the version of its operator set.
    first: BTreeMap<String, (&'a NodeProto, Option<i64>)>,
}

/// Functions inside of each other into which a survey looks, which takes stack for each. An import
/// refuses as many, or, where its limit is raised, tells of what deeper ones lack one by one.
const MOST_OPEN: usize = 64;

/// Walks over nodes, into the functions they call and, if asked, the graphs inside them.
struct Walk<'a> {
    functions: &'a BTreeMap<FunctionName<'a>, &'a FunctionProto>,
    enters_graphs: bool,
    missing: Missing<'a>,
    /// How often each domain and operator stands in it.
    operators: FxHashMap<(&'a str, &'a str), usize>,
    /// Functions seen, and those being walked.
    seen: BTreeSet<FunctionName<'a>>,
    open: Vec<FunctionName<'a>>,
    recursive: Option<String>,
}

impl<'a> Walk<'a> {
    fn new(
        functions: &'a BTreeMap<FunctionName<'a>, &'a FunctionProto>,
        enters_graphs: bool,
    ) -> Walk<'a> {
        Walk {
            functions,
            enters_graphs,
            missing: Missing::default(),
            operators: FxHashMap::default(),
            seen: BTreeSet::new(),
            open: Vec::new(),
            recursive: None,
        }
    }

    fn nodes(&mut self, nodes: &'a [NodeProto], opsets: &BTreeMap<String, i64>) {
        for (index, node) in nodes.iter().enumerate() {
            self.node(node, index, opsets);
            if !self.enters_graphs {
                continue;
            }
            for attribute in &node.attribute {
                for graph in attribute.g.as_deref().into_iter().chain(&attribute.graphs) {
                    self.nodes(&graph.node, opsets);
                }
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
            let full = full_name(domain, &node.op_type);
            self.missing.nodes.entry(full.clone()).or_default().push(place(node, index));
            self.missing.first.entry(full).or_insert((node, version));
        }
    }
}

/// How many nodes a refusal names before it only counts.
const NAMED: usize = 20;

impl Missing<'_> {
    /// One diagnostic an operator, with the nodes that use it.
    fn diagnostics(self) -> Diagnostics {
        let Missing { nodes, first } = self;
        let refuse = |(operator, (node, version)): (String, (&NodeProto, Option<i64>))| {
            let places = nodes.get(&operator).map_or(&[][..], Vec::as_slice);
            let mut text = places.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
            if places.len() > NAMED {
                text.push_str(&format!(" and {} more", places.len() - NAMED));
            }
            unsupported_operator(node, version).at(text)
        };
        first.into_iter().map(refuse).collect()
    }
}

/// Refuses a model whose own nodes, or functions they call, use operators that are not supported.
/// Graphs inside nodes are left out: a branch that is not taken does no harm.
pub(crate) fn check_top(
    graph: &GraphProto,
    functions: &BTreeMap<FunctionName<'_>, &FunctionProto>,
    opsets: &BTreeMap<String, i64>,
) -> base::Result<()> {
    let mut walk = Walk::new(functions, false);
    walk.nodes(&graph.node, opsets);
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
    if walk.missing.nodes.is_empty() {
        return Ok(());
    }
    Err(unsupported(graph, functions, opsets))
}

/// All operators of a model that are not supported, those in graphs inside nodes included.
pub(crate) fn unsupported(
    graph: &GraphProto,
    functions: &BTreeMap<FunctionName<'_>, &FunctionProto>,
    opsets: &BTreeMap<String, i64>,
) -> Diagnostics {
    let mut walk = Walk::new(functions, true);
    walk.nodes(&graph.node, opsets);
    walk.missing.diagnostics()
}

/// How often each operator stands in a model, and where those are that are not supported.
pub(crate) fn histogram(
    graph: &GraphProto,
    functions: &BTreeMap<FunctionName<'_>, &FunctionProto>,
    opsets: &BTreeMap<String, i64>,
) -> (BTreeMap<String, usize>, BTreeMap<String, Vec<String>>) {
    let mut walk = Walk::new(functions, true);
    walk.nodes(&graph.node, opsets);
    let operators = walk.operators.into_iter();
    let histogram = operators.map(|((domain, name), count)| (full_name(domain, name), count));
    (histogram.collect(), walk.missing.nodes)
}
