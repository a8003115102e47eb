//! What is called how in a model: domains, nodes, functions; and what is said of names.

use std::collections::BTreeMap;

use base::{Diagnostic, codes};

use crate::proto::{FunctionProto, ModelProto, NodeProto, OperatorSetIdProto};

/// Domain, name and overload of a function.
pub(crate) type FunctionName<'a> = (&'a str, &'a str, &'a str);

/// The functions that a model defines.
pub(crate) type Functions<'m> = BTreeMap<FunctionName<'m>, &'m FunctionProto>;

/// A domain, with the one name of ONNX's own.
pub(crate) fn domain(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

/// A domain as a diagnostic names it.
pub(crate) fn named(domain: &str) -> &str {
    if domain.is_empty() { "ai.onnx" } else { domain }
}

/// The name of a node: its own, or that of its first output.
pub(crate) fn node_name(node: &NodeProto) -> &str {
    match node.name.as_str() {
        "" => node.output.iter().map(String::as_str).find(|name| !name.is_empty()).unwrap_or(""),
        name => name,
    }
}

/// How a diagnostic names a node: by its name, or by its place in the file.
pub(crate) fn place(node: &NodeProto, index: usize) -> String {
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
pub(crate) fn functions(model: &ModelProto) -> Functions<'_> {
    model.functions.iter().map(|function| (name_of_function(function), function)).collect()
}

pub(crate) fn name_of_function(function: &FunctionProto) -> FunctionName<'_> {
    (domain(&function.domain), &function.name, &function.overload)
}

/// The versions of operator sets by domain.
pub(crate) fn opsets(imports: &[OperatorSetIdProto]) -> BTreeMap<String, i64> {
    imports.iter().map(|import| (domain(&import.domain).to_owned(), import.version)).collect()
}

/// An operator with its domain, where that is not ONNX's own.
pub(crate) fn full_name(domain: &str, operator: &str) -> String {
    if domain.is_empty() { operator.to_owned() } else { format!("{domain}.{operator}") }
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

/// The refusal of a name that stands where names must be distinct.
pub(crate) fn defined_twice(name: &str) -> Diagnostic {
    Diagnostic::error(codes::DUPLICATE_NAME, format!("`{name}` is defined twice"))
        .because("a name stands for one value")
        .remedy("export the model again")
}

/// The refusal of a name that stands for nothing.
pub(crate) fn undefined(name: &str) -> Diagnostic {
    Diagnostic::error(codes::UNDEFINED_NAME, format!("nothing defines `{name}`"))
        .because("no input, constant or node of the graph has this name")
        .remedy("check the model with the tool that exported it, or export it again")
}
