//! Operators on strings, which are known while importing: an executable is told the strings that
//! its inputs hold, as it is told other values on which shapes depend.

use front::{Accepted, Coded, Graph, Operand, constant_value, shape_error, type_error};
use host_ops::{Case, Pattern};
use tensor::tensor::element_count;
use tensor::{DType, Scalar, Tensor};

use super::Lowered;
use super::elementwise;
use super::labels::{self, Distinct, first_places};
use super::ngrams;
use crate::data_type::number_of;
use crate::node::{Node, attribute_error};

/// Digits of a float that becomes a string, as ONNX Runtime has it.
const DIGITS: usize = 8;

/// The strings of an input; none if it holds something else.
fn strings<'a>(node: &'a Node<'_>, index: usize) -> Accepted<&'a Tensor> {
    let value = node.input(index)?;
    match value.weight() {
        Some(weight) if weight.tensor.dtype() == DType::String => Ok(&weight.tensor),
        _ if value.dtype() == DType::String => Err(node.not_known(index, "strings")),
        _ => Err(type_error(format!("input {index} holds {}, no strings", value.dtype()))),
    }
}

fn is_string(node: &Node<'_>, index: usize) -> bool {
    node.optional(index).is_some_and(|value| value.dtype() == DType::String)
}

fn texts(tensor: &Tensor) -> &[String] {
    tensor.strings().unwrap_or_default()
}

/// A tensor that the importer has computed.
fn computed(node: &Node<'_>, number: usize, tensor: Tensor) -> Operand {
    constant_value(node.proto.output.get(number).map_or("", String::as_str), tensor, true)
}

/// Two tensors of strings broadcast to one shape, a function applied to each pair, whose result
/// counts so many elements.
fn pairs<T>(
    node: &Node<'_>,
    graph: &mut Graph,
    elements: impl Fn(&str, &str) -> usize,
    function: impl Fn(&str, &str) -> T,
) -> Accepted<(Vec<usize>, Vec<T>)> {
    let (a, b) = (strings(node, 0)?, strings(node, 1)?);
    let rank = a.shape().len().max(b.shape().len());
    let padded = |shape: &[usize]| [&vec![1; rank - shape.len()][..], shape].concat();
    let (left, right) = (padded(a.shape()), padded(b.shape()));
    let mut shape = Vec::new();
    for (&x, &y) in left.iter().zip(&right) {
        shape.push(match (x, y) {
            (1, other) | (other, 1) => other,
            _ if x == y => x,
            _ => return Err(shape_error(format!("{:?} and {:?}", a.shape(), b.shape()))),
        });
    }
    let place = |own: &[usize], mut index: usize| {
        let (mut place, mut stride) = (0, 1);
        for (&extent, &own) in shape.iter().zip(own).rev() {
            place += if own == 1 { 0 } else { index % extent * stride };
            stride *= own;
            index /= extent;
        }
        place
    };
    let count = element_count(&shape).unwrap_or(usize::MAX);
    // The least that they count, first: counting takes time, too.
    graph.count_computed(count, "pairs of strings")?;
    let (a, b) = (texts(a), texts(b));
    let pair = |index| (a[place(&left, index)].as_str(), b[place(&right, index)].as_str());
    let pairs = (0..count).map(pair);
    let counted = pairs.clone().map(|(a, b)| elements(a, b)).fold(0, usize::saturating_add);
    graph.count_computed(counted, "bytes of pairs of strings")?;
    Ok((shape.clone(), pairs.map(|(a, b)| function(a, b)).collect()))
}

/// A conversion, of strings or to strings too.
pub(super) fn cast(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let to_string = match node.version {
        ..6 => node.string("to", "")? == "STRING",
        _ => node.int("to", 0)? == i64::from(number_of(DType::String)),
    };
    match (is_string(node, 0), to_string) {
        (true, true) => Ok(vec![node.input(0)?.clone()]),
        (true, false) => Ok(vec![numbers_of(node, elementwise::required_type(node)?)?]),
        (false, true) => Ok(vec![texts_of(node)?]),
        (false, false) => elementwise::cast(node, graph),
    }
}

/// The numbers that strings stand for.
fn numbers_of(node: &Node<'_>, to: DType) -> Accepted<Operand> {
    let x = strings(node, 0)?;
    let number = |text: &String| {
        let (text, (low, high)) = (text.trim(), to.integer_range().unwrap_or_default());
        let found = match to {
            DType::F32 => text.parse().ok().map(Scalar::f32),
            _ if to.is_float() => text.parse().ok().map(|number| Scalar::from_f64(to, number)),
            _ => text
                .parse()
                .ok()
                .filter(|number| (low..=high).contains(number))
                .map(|number| Scalar::from_i128(to, number)),
        };
        found.ok_or_else(|| type_error(format!("`{text}` is no number of type {to}")))
    };
    let numbers = texts(x).iter().map(number).collect::<Accepted<Vec<Scalar>>>()?;
    Ok(computed(node, 0, Tensor::from_scalars(to, x.shape(), &numbers)))
}

/// Numbers as strings.
fn texts_of(node: &Node<'_>) -> Accepted<Operand> {
    let value = node.input(0)?;
    let known = value.numbers().zip(value.constant_shape());
    let (numbers, shape) = known.ok_or_else(|| node.not_known(0, "numbers that become strings"))?;
    let text = |number: &Scalar| match number.dtype().is_float() {
        true => host_ops::number_text(number.as_f64(), DIGITS),
        false => number.as_i128().to_string(),
    };
    let texts = numbers.iter().map(text).collect();
    Ok(computed(node, 0, Tensor::from_strings(&shape, texts)))
}

/// Whether elements are equal, strings or not.
pub(super) fn equal(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    if !is_string(node, 0) {
        return elementwise::binary(node, graph, tensor::ScalarFunction::Eq);
    }
    if node.inputs.iter().flatten().any(|input| input.coded().is_some()) {
        // Equal strings get equal codes of one list.
        let (a, b) = (labels::coded(node, 0)?, labels::coded(node, 1)?);
        let mut distinct = Distinct::default();
        let mut codes = Vec::new();
        for Coded { codes: own, texts: list } in [&a, &b] {
            let table: Vec<i64> = list.iter().map(|text| distinct.place(text)).collect();
            let table = Tensor::from_slice(&[table.len()], &table);
            codes.push(labels::looked_up(node, graph, &table, own)?);
        }
        return Ok(vec![graph.equal(&codes[0], &codes[1])?]);
    }
    let (shape, values) = pairs(node, graph, |_, _| 0, |a, b| Scalar::bool(a == b))?;
    Ok(vec![computed(node, 0, Tensor::from_scalars(DType::Bool, &shape, &values))])
}

pub(super) fn concat(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let bytes = |a: &str, b: &str| a.len() + b.len();
    let (shape, values) = pairs(node, graph, bytes, |a, b| format!("{a}{b}"))?;
    Ok(vec![computed(node, 0, Tensor::from_strings(&shape, values))])
}

/// The pieces of each string along a new axis, empty strings behind them; and how many there are.
pub(super) fn split(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = strings(node, 0)?;
    let delimiter = Some(node.string("delimiter", "")?).filter(|text| !text.is_empty());
    let most = match node.has("maxsplit") {
        true => usize::try_from(node.int("maxsplit", 0)?).ok(),
        false => None,
    };
    let pieces: Vec<Vec<String>> =
        texts(x).iter().map(|text| host_ops::split(text, delimiter, most)).collect();
    let width = pieces.iter().map(Vec::len).max().unwrap_or(0);
    graph.count_computed(pieces.len().saturating_mul(width), "pieces of strings")?;
    let counts: Vec<i64> = pieces.iter().map(|pieces| pieces.len() as i64).collect();
    let row = |mut pieces: Vec<String>| {
        pieces.resize(width, String::new());
        pieces
    };
    let all: Vec<String> = pieces.into_iter().flat_map(row).collect();
    let shape = [x.shape(), &[width]].concat();
    Ok(vec![
        computed(node, 0, Tensor::from_strings(&shape, all)),
        computed(node, 1, Tensor::from_slice(x.shape(), &counts)),
    ])
}

/// Words without stop words, in one case; one empty string if none are left.
pub(super) fn normalize(node: &Node<'_>, _: &mut Graph) -> Lowered {
    let x = strings(node, 0)?;
    let lead = match x.shape() {
        [_] => Vec::new(),
        [1, _] => vec![1],
        shape => return Err(shape_error(format!("strings of shape {shape:?}"))),
    };
    let case = match node.word("case_change_action", &["NONE", "LOWER", "UPPER"])? {
        "LOWER" => Case::Lower,
        "UPPER" => Case::Upper,
        _ => Case::Keep,
    };
    let stops = node.strings("stopwords")?.unwrap_or_default();
    let is_case_sensitive = node.flag("is_case_sensitive", false)?;
    let mut words = host_ops::normalize(texts(x), &stops, is_case_sensitive, case);
    if words.is_empty() {
        words.push(String::new());
    }
    let shape = [lead, vec![words.len()]].concat();
    Ok(vec![computed(node, 0, Tensor::from_strings(&shape, words))])
}

pub(super) fn full_match(node: &Node<'_>, _: &mut Graph) -> Lowered {
    let x = strings(node, 0)?;
    let pattern = Pattern::new(node.string("pattern", "")?)
        .map_err(|reason| attribute_error("pattern", reason))?;
    let values: Vec<Scalar> =
        texts(x).iter().map(|text| Scalar::bool(pattern.matches(text))).collect();
    Ok(vec![computed(node, 0, Tensor::from_scalars(DType::Bool, x.shape(), &values))])
}

/// `TfIdfVectorizer`, also of strings, which stand for the numbers of equal ones in the pool.
pub(super) fn tf_idf(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let Some(pool) = node.strings("pool_strings")?.filter(|pool| !pool.is_empty()) else {
        let items = node.ints("pool_int64s")?.unwrap_or_default();
        return ngrams::tf_idf(node, graph, node.input(0)?, &items);
    };
    let x = strings(node, 0)?;
    let places = first_places(pool.iter().map(|item| item.as_str()));
    let number = |text: &String| places.get(text.as_str()).copied().unwrap_or(-1);
    let items: Vec<i64> = pool.iter().map(number).collect();
    let elements: Vec<i64> = texts(x).iter().map(number).collect();
    let x = constant_value("", Tensor::from_slice(x.shape(), &elements), true);
    ngrams::tf_idf(node, graph, &x, &items)
}
