//! Operators on maps, which are vectors of keys and of values.

use front::{Accepted, Graph, List, Operand, type_error};
use graph::Op;
use sym::Expr;
use tensor::DType;

use super::Lowered;
use super::labels::{integers, strings_of};
use crate::node::{Node, attribute_error};
use front::gather_axis;

/// The keys and the values of a map.
fn map<'a>(node: &'a Node<'_>) -> Accepted<(&'a Operand, &'a Operand)> {
    match node.input(0)?.list() {
        Some(List::Map(keys, values)) => Ok((keys, values)),
        _ => Err(type_error("it takes a map")),
    }
}

/// `DictVectorizer`: the value of each key of a vocabulary; 0 where there is none.
pub(super) fn dict_vectorizer(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (keys, values) = map(node)?;
    let words = match keys.dtype() {
        DType::String => strings_of(node.strings("string_vocabulary")?.unwrap_or_default()),
        _ => integers(node.ints("int64_vocabulary")?.unwrap_or_default()),
    };
    if words.shape()[0].is_zero() {
        let name = if keys.dtype() == DType::String { "string" } else { "int64" };
        return Err(attribute_error(&format!("{name}_vocabulary"), MISSING));
    }
    values_at(graph, &words, (keys, values), "")
}

/// A row of the values that words have in a map.
fn values_at(
    graph: &mut Graph,
    words: &Operand,
    (keys, values): (&Operand, &Operand),
    all: &str,
) -> Lowered {
    let result = (values.dtype(), words.shape().iter().cloned().map(Some).collect());
    let operands = [words, keys, values];
    let found = graph.host(("values_at", ""), &[("all", all)], &operands, &[result])?;
    Ok(vec![row(graph, &found[0])?])
}

const MISSING: &str = "it is missing, and the keys are of its type";

/// A vector as a row.
fn row(graph: &mut Graph, values: &Operand) -> Accepted<Operand> {
    graph.reshape(values, &[Expr::ONE, values.shape()[0].clone()])
}

/// `CastMap`: the values in the order of their keys, or at their keys' places in a row.
pub(super) fn cast_map(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (keys, values) = map(node)?;
    if keys.dtype() == DType::String {
        return Err(type_error("it takes a map from integers"));
    }
    let to = match node.word("cast_to", &["TO_FLOAT", "TO_STRING", "TO_INT64"])? {
        "TO_FLOAT" => DType::F32,
        "TO_INT64" => DType::I64,
        _ => return Err(type_error("values that become strings are not supported")),
    };
    let found = match node.word("map_form", &["DENSE", "SPARSE"])? {
        "DENSE" => {
            let op = Op::Sort { axis: 0, descending: false, kept: None };
            let (_, order) = graph.primitive_pair(op, &[keys])?;
            let found = gather_axis(graph, values, 0, &order)?;
            row(graph, &found)?
        }
        _ => {
            let count = node.int("max_map", 1)?;
            if count < 1 {
                return Err(attribute_error("max_map", "there is room for no key"));
            }
            graph.count_computed(usize::try_from(count).unwrap_or(usize::MAX), "a row's places")?;
            let words = integers((0..count).collect());
            values_at(graph, &words, (keys, values), "1")?.remove(0)
        }
    };
    Ok(vec![graph.cast(&found, to)?])
}
