//! Operators on maps, whose keys are known while importing: an executable is told those of its
//! inputs. Their values are vectors of the graph.

use front::{Accepted, Graph, List, Operand, constant_value, type_error};
use tensor::{DType, Keys, Tensor};

use super::Lowered;
use super::gather_scatter::gather_axis;
use super::labels::first_places;
use crate::node::{Node, attribute_error};
use sym::Expr;

fn map<'a>(node: &'a Node<'_>) -> Accepted<(&'a Keys, &'a Operand)> {
    match node.input(0)?.list() {
        Some(List::Map(keys, values)) => Ok((keys, values)),
        _ => Err(type_error("it takes a map")),
    }
}

/// A row of values, each from its place among those of a map; 0 where there is none.
fn row(graph: &mut Graph, values: &Operand, places: &[Option<i64>]) -> Accepted<Operand> {
    let count = values.shape()[0].clone();
    let behind = graph.number(values.dtype(), 0.0);
    let padded = graph.pad(values, &behind, &[Expr::ZERO], &[Expr::ONE], &[0])?;
    let missing = count.as_constant().unwrap_or(0);
    let places: Vec<i64> = places.iter().map(|place| place.unwrap_or(missing)).collect();
    let places = constant_value("", Tensor::from_slice(&[1, places.len()], &places), true);
    gather_axis(graph, &padded, 0, &places)
}

/// `DictVectorizer`: the value of each key of a vocabulary.
pub(super) fn dict_vectorizer(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (keys, values) = map(node)?;
    let places: Vec<Option<i64>> = match keys {
        Keys::Strings(texts) => {
            let words = node.strings("string_vocabulary")?.filter(|words| !words.is_empty());
            let words = words.ok_or_else(|| attribute_error("string_vocabulary", MISSING))?;
            let places = first_places(texts.iter().map(String::as_str));
            words.iter().map(|word| places.get(word.as_str()).copied()).collect()
        }
        Keys::Integers(numbers) => {
            let words = node.ints("int64_vocabulary")?.filter(|words| !words.is_empty());
            let words = words.ok_or_else(|| attribute_error("int64_vocabulary", MISSING))?;
            let places = first_places(numbers);
            words.iter().map(|word| places.get(word).copied()).collect()
        }
    };
    Ok(vec![row(graph, values, &places)?])
}

const MISSING: &str = "it is missing, and the keys are of its type";

/// `CastMap`: the values in the order of their keys, or at their keys' places in a row.
pub(super) fn cast_map(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (keys, values) = map(node)?;
    let Keys::Integers(keys) = keys else {
        return Err(type_error("it takes a map from integers"));
    };
    let to = match node.word("cast_to", &["TO_FLOAT", "TO_STRING", "TO_INT64"])? {
        "TO_FLOAT" => DType::F32,
        "TO_INT64" => DType::I64,
        _ => return Err(type_error("values that become strings are not supported")),
    };
    let places: Vec<Option<i64>> = match node.word("map_form", &["DENSE", "SPARSE"])? {
        "DENSE" => {
            let mut order: Vec<i64> = (0..keys.len() as i64).collect();
            order.sort_by_key(|&place| keys[place as usize]);
            order.into_iter().map(Some).collect()
        }
        _ => {
            let count = node.int("max_map", 1)?;
            let is_inside = |key: &i64| (0..count).contains(key);
            if count < 1 || !keys.iter().all(is_inside) {
                return Err(attribute_error("max_map", "a key of the map is beyond it"));
            }
            graph.count_computed(usize::try_from(count).unwrap_or(usize::MAX), "a row's places")?;
            let places = first_places(keys);
            (0..count).map(|key| places.get(&key).copied()).collect()
        }
    };
    let found = row(graph, values, &places)?;
    Ok(vec![graph.cast(&found, to)?])
}
