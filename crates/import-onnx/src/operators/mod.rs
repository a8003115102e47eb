//! The operators of ONNX: a table with a row each, and one function each that lowers a node to
//! primitives.

mod activations;
mod attention;
mod control;
mod convolution;
mod detection;
mod elementwise;
mod fourier;
mod gather_scatter;
pub(crate) mod generator;
mod images;
mod labels;
mod learning;
mod linear_algebra;
mod linear_attention;
mod losses;
mod maps;
mod matmul;
mod microsoft;
mod movement;
mod ngrams;
mod normalization;
mod pooling;
mod quantization;
mod random;
mod recurrent;
mod reductions;
mod resize;
mod sampling;
mod scan;
mod sequences;
mod shape;
mod strings;
mod svm;
mod table;
mod training;
mod trees;
mod unique;
mod windows;

use std::cell::Cell;
use std::sync::LazyLock;

use base::{Diagnostic, codes};
use front::{Accepted, Graph, Operand, type_error};
use rustc_hash::FxHashMap;
use tensor::DType;

use crate::importer::Importer;
use crate::names::{domain, full_name};
use crate::node::{Lowered, Node, attribute_error};
use crate::proto::NodeProto;

pub(crate) use microsoft::{REFUSED, filter_block};

/// All rows.
pub(crate) fn rows() -> impl Iterator<Item = &'static Operator> {
    table::TABLE.iter().chain(microsoft::TABLE)
}

/// The newest version of ONNX's own operator set that the table covers.
pub(crate) const NEWEST: i64 = 28;

/// A row of the table.
pub(crate) struct Operator {
    /// The domain, empty for ONNX's own.
    pub(crate) domain: &'static str,
    /// The name.
    pub(crate) name: &'static str,
    /// The versions of the operator set that changed it; the first is the oldest supported.
    pub(crate) versions: &'static [i64],
    /// Least and most inputs.
    pub(crate) inputs: (usize, usize),
    /// Most outputs.
    pub(crate) outputs: usize,
    /// Names of the attributes in any of the versions, separated by blanks.
    pub(crate) attributes: &'static str,
    /// How it becomes primitives.
    pub(crate) lower: Lower,
}

/// How an operator becomes primitives.
pub(crate) enum Lower {
    /// By itself.
    Plain(fn(&Node<'_>, &mut Graph) -> Lowered),
    /// By itself; it takes or gives strings, which must be known.
    Strings(fn(&Node<'_>, &mut Graph) -> Lowered),
    /// By itself; it takes or gives sequences and optional values, too.
    Lists(fn(&Node<'_>, &mut Graph) -> Lowered),
    /// With the graphs that are its attributes.
    Graphs(fn(&Node<'_>, &mut Importer<'_>) -> Lowered),
}

/// The row of an operator as of a version; none if it is not supported.
pub(crate) fn find(domain: &str, name: &str, version: i64) -> Option<&'static Operator> {
    static ROWS: LazyLock<FxHashMap<(&str, &str), &Operator>> =
        LazyLock::new(|| rows().map(|row| ((row.domain, row.name), row)).collect());
    ROWS.get(&(domain, name)).copied().filter(|row| row.versions[0] <= version)
}

/// Lowers a node by its operator's row.
pub(crate) fn lower(
    importer: &mut Importer<'_>,
    proto: &NodeProto,
    inputs: Vec<Option<Operand>>,
    version: i64,
) -> Lowered {
    let Some(operator) = find(domain(&proto.domain), &proto.op_type, version) else {
        return Err(unsupported_operator(proto, Some(version)));
    };
    operator.check(proto)?;
    let takes_lists = matches!(operator.lower, Lower::Lists(_) | Lower::Graphs(_));
    let takes_strings = takes_lists || matches!(operator.lower, Lower::Strings(_));
    let has_strings = inputs.iter().flatten().any(|input| input.dtype() == DType::String);
    if has_strings && !takes_strings && !operator.moves_elements() {
        return Err(type_error("it does not take strings"));
    }
    if !takes_lists && inputs.iter().flatten().any(|input| input.list().is_some()) {
        return Err(type_error("it takes tensors, no sequences or optional values"));
    }
    let (external, needed) = (importer.external.clone(), Cell::new(None));
    let filter_block = importer.filter_block;
    let node = Node { proto, inputs, external, filter_block, version, needed };
    let lowered = match operator.lower {
        Lower::Plain(lower) if has_strings => labels::moved(&node, &mut importer.graph, lower),
        Lower::Plain(lower) | Lower::Lists(lower) | Lower::Strings(lower) => {
            lower(&node, &mut importer.graph)
        }
        Lower::Graphs(lower) => lower(&node, importer),
    };
    if let (Err(found), Some((index, kind))) = (&lowered, node.needed.get())
        && found.code == codes::UNKNOWN_CONTENTS
        && let Some(value) = node.optional(index)
    {
        importer.graph.need(value, kind, found);
    }
    lowered
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
            .because(
                microsoft::refused(domain(&node.domain), &node.op_type)
                    .unwrap_or("it is not in the table of operators (docs/operators.md)"),
            )
            .remedy("export the model without it"),
    }
}

/// The operators of ONNX that put elements elsewhere, whatever they are.
const MOVEMENTS: [&str; 20] = [
    "Compress",
    "Concat",
    "DepthToSpace",
    "Expand",
    "Flatten",
    "Gather",
    "GatherElements",
    "GatherND",
    "Reshape",
    "ReverseSequence",
    "ScatterElements",
    "ScatterND",
    "Slice",
    "SpaceToDepth",
    "Split",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
    "Where",
];

impl Operator {
    /// Whether its outputs hold elements of its inputs and nothing else, so that they may be of
    /// any kind.
    pub(crate) fn moves_elements(&self) -> bool {
        let moves = MOVEMENTS.binary_search(&self.name).is_ok();
        self.domain.is_empty() && moves || self.name == "ArrayFeatureExtractor"
    }

    /// Refuses a node whose inputs, outputs or attributes are not the operator's.
    pub(crate) fn check(&self, node: &NodeProto) -> Accepted<()> {
        let arity = |what: &str, given: usize, (least, most): (usize, usize)| {
            Diagnostic::error(
                codes::WRONG_ARITY,
                format!("operator `{}` does not have {given} {what}", self.name),
            )
            .because(match most {
                usize::MAX => format!("it has {least} or more"),
                _ if least == most => format!("it has {least}"),
                _ => format!("it has {least} to {most}"),
            })
            .remedy("check the model with the tool that exported it, or export it again")
        };
        if !(self.inputs.0..=self.inputs.1).contains(&node.input.len()) {
            return Err(arity("inputs", node.input.len(), self.inputs));
        }
        if node.output.len() > self.outputs {
            return Err(arity("outputs", node.output.len(), (1, self.outputs)));
        }
        for attribute in &node.attribute {
            if !self.attributes.split(' ').any(|name| name == attribute.name) {
                let reason = format!("operator `{}` has no such attribute", self.name);
                return Err(attribute_error(&attribute.name, reason));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_distinct_and_well_formed() {
        for (index, row) in rows().enumerate() {
            assert!(row.versions.is_sorted_by(|a, b| a < b), "{}", row.name);
            assert!(row.versions[row.versions.len() - 1] <= NEWEST, "{}", row.name);
            assert!(row.inputs.0 <= row.inputs.1, "{}", row.name);
            let name = (row.domain, row.name);
            let is_other = |other: &Operator| (other.domain, other.name) != name;
            assert!(rows().take(index).all(is_other), "{name:?}");
        }
    }
}
