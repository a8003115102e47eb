//! Strings that stand for numbers: what is chosen from a list of strings by data.
//!
//! A *coded* value is a tensor of strings as numbers of strings in a list, computed like any other
//! i64. Labels of classes are coded, with a list that is known; any strings can be, as places in a
//! vector of themselves. Movements of strings are movements of codes, and an encoder of strings
//! looks codes up in a table where the list is known. Outputs become strings where the executable
//! gives them to its caller.

use std::collections::HashMap;
use std::hash::Hash;
use std::rc::Rc;

use base::Diagnostic;
use front::{
    Accepted, Coded, Graph, List, Operand, Texts, constant_value, shape_error, type_error,
};
use tensor::{DType, Reduction, Scalar, ScalarFunction as F, Tensor};

use graph::Op;
use sym::Expr;

use super::Lowered;
use crate::node::{Node, attribute_error};
use front::gather_axis;

/// A list of distinct strings that grows.
#[derive(Default)]
pub(super) struct Distinct<'a> {
    list: Vec<&'a str>,
    places: HashMap<&'a str, i64>,
}

impl<'a> Distinct<'a> {
    /// The place of a string, which comes behind all others if it is new.
    pub(super) fn place(&mut self, text: &'a str) -> i64 {
        let next = self.list.len() as i64;
        let place = *self.places.entry(text).or_insert(next);
        if place == next {
            self.list.push(text);
        }
        place
    }

    pub(super) fn texts(&self) -> Rc<[String]> {
        self.list.iter().map(|&text| text.to_owned()).collect()
    }
}

/// The first place of each member of a list.
pub(super) fn first_places<T: Eq + Hash>(list: impl IntoIterator<Item = T>) -> HashMap<T, i64> {
    let mut places = HashMap::new();
    for (place, member) in (0..).zip(list) {
        places.entry(member).or_insert(place);
    }
    places
}

/// What numbers of one type that count as equal have in common: zeros of both signs do, and so do
/// all that are no number.
fn identity(number: Scalar) -> Option<u64> {
    match number.dtype().is_float() {
        true if number.is_nan() => None,
        true => Some((number.as_f64() + 0.0).to_bits()),
        false => Some(number.bits()),
    }
}

/// A vector of known strings.
pub(super) fn strings_of(texts: Vec<String>) -> Operand {
    Operand::of_weight(String::new(), Tensor::from_strings(&[texts.len()], texts))
}

/// A vector of known integers.
pub(super) fn integers(numbers: Vec<i64>) -> Operand {
    constant_value("", Tensor::from_slice(&[numbers.len()], &numbers), true)
}

/// An input's strings as codes.
pub(super) fn coded(node: &Node<'_>, graph: &mut Graph, index: usize) -> Accepted<Coded> {
    let value = node.input(index)?;
    if let Some(coded) = value.coded() {
        return Ok(coded.clone());
    }
    if value.dtype() != DType::String {
        return Err(type_error(format!("input {index} holds {}, no strings", value.dtype())));
    }
    let Some(strings) = value.weight().and_then(|weight| weight.tensor.strings()) else {
        let count: Expr = value.shape().iter().product();
        let places = graph.iota(DType::I64, std::slice::from_ref(&count), 0)?;
        let codes = graph.reshape(&places, value.shape())?;
        return Ok(Coded { codes, texts: Texts::Data(value.clone()) });
    };
    let mut distinct = Distinct::default();
    let codes: Vec<i64> = strings.iter().map(|text| distinct.place(text)).collect();
    let shape = value.constant_shape().unwrap_or_default();
    let codes = constant_value("", Tensor::from_slice(&shape, &codes), true);
    Ok(Coded { codes, texts: Texts::Known(distinct.texts()) })
}

/// A node that moves elements, on strings: the same on codes of one list.
pub(crate) fn moved(
    node: &Node<'_>,
    graph: &mut Graph,
    lower: fn(&Node<'_>, &mut Graph) -> Lowered,
) -> Lowered {
    let mut inputs = node.inputs.clone();
    let mut lists = Vec::new();
    for (index, input) in inputs.iter().enumerate() {
        if input.as_ref().is_some_and(|value| value.dtype() == DType::String) {
            lists.push((index, coded(node, graph, index)?));
        }
    }
    let texts = match &lists[..] {
        [(index, Coded { codes, texts })] => {
            inputs[*index] = Some(codes.clone());
            texts.clone()
        }
        _ => one_list(node, graph, &lists, &mut inputs)?,
    };
    let on_codes = Node { inputs, ..Node::of(node) };
    let lowered = lower(&on_codes, graph);
    node.needed.set(on_codes.needed.get().or(node.needed.get()));
    let strings = |codes: Operand| Operand::of_coded(Coded { codes, texts: texts.clone() });
    Ok(lowered?.into_iter().map(strings).collect())
}

/// One list of all strings of several; the inputs become codes of it.
fn one_list(
    node: &Node<'_>,
    graph: &mut Graph,
    lists: &[(usize, Coded)],
    inputs: &mut [Option<Operand>],
) -> Accepted<Texts> {
    let mut distinct = Distinct::default();
    let mut behind: Option<(Operand, Expr)> = None;
    let are_known = lists.iter().all(|(_, coded)| matches!(coded.texts, Texts::Known(_)));
    for (index, Coded { codes, texts }) in lists {
        inputs[*index] = Some(match texts {
            Texts::Known(texts) if are_known => {
                let table: Vec<i64> = texts.iter().map(|text| distinct.place(text)).collect();
                let first = table.first().copied().unwrap_or(0);
                match table.iter().zip(first..).all(|(place, moved)| *place == moved) {
                    true => graph.add(codes, &Operand::of_scalar(Scalar::i64(first)))?,
                    false => {
                        let table = Tensor::from_slice(&[table.len()], &table);
                        looked_up(node, graph, &table, codes)?
                    }
                }
            }
            texts => {
                // Behind the strings of the lists before.
                let own = match texts {
                    Texts::Known(texts) => strings_of(texts.to_vec()),
                    Texts::Data(list) => list.clone(),
                };
                let count: Expr = own.shape().iter().product();
                let start = behind.as_ref().map_or(Expr::ZERO, |(_, count)| count.clone());
                let end = &start + &count;
                let all = match behind.take() {
                    None => own,
                    Some((all, _)) => {
                        let result = (DType::String, vec![Some(end.clone())]);
                        graph.host(("join", ""), &[], &[&all, &own], &[result])?.remove(0)
                    }
                };
                behind = Some((all, end));
                let start = graph.dimension(start);
                graph.add(codes, &start)?
            }
        });
    }
    Ok(match behind {
        Some((all, _)) => Texts::Data(all),
        None => Texts::Known(distinct.texts()),
    })
}

/// For each string its place in a list, or how many are in that if it is none of them.
pub(super) fn found(
    node: &Node<'_>,
    graph: &mut Graph,
    x: &Operand,
    keys: &[String],
) -> Accepted<Operand> {
    if let Some(Coded { codes, texts: Texts::Known(texts) }) = x.coded() {
        let places = first_places(keys.iter().map(String::as_str));
        let place = |text: &String| places.get(text.as_str()).copied().unwrap_or(keys.len() as i64);
        let table: Vec<i64> = texts.iter().map(place).collect();
        return looked_up(node, graph, &Tensor::from_slice(&[table.len()], &table), codes);
    }
    let shape = x.shape().iter().cloned().map(Some).collect();
    let operands = [x, &strings_of(keys.to_vec())];
    Ok(graph.host(("find", ""), &[], &operands, &[(DType::I64, shape)])?.remove(0))
}

/// The elements of a list at places.
pub(super) fn looked_up(
    node: &Node<'_>,
    graph: &mut Graph,
    list: &Tensor,
    places: &Operand,
) -> Accepted<Operand> {
    let known = places.numbers().and_then(|places| {
        let place = |place: &Scalar| usize::try_from(place.as_i64()).ok();
        places.iter().map(place).collect::<Option<Vec<usize>>>()
    });
    let name = format!("{}.values", node.proto.output.first().map_or("", String::as_str));
    if let (Some(known), Some(shape)) = (known, places.constant_shape()) {
        let elements: Vec<Scalar> = known.iter().map(|&place| list.get_scalar(place)).collect();
        let tensor = Tensor::from_scalars(list.dtype(), &shape, &elements);
        return Ok(constant_value(&name, tensor, true));
    }
    let list = constant_value(&name, list.clone(), true);
    gather_axis(graph, &list, 0, places)
}

/// For each element its place in a list of keys, or their number if it is none of them.
fn places_of(node: &Node<'_>, graph: &mut Graph, x: &Operand, keys: &Tensor) -> Accepted<Operand> {
    let count = keys.len();
    if x.dtype() == DType::String {
        let keys = keys.strings().ok_or_else(|| type_error("strings for keys that are none"))?;
        return found(node, graph, x, keys);
    }
    if keys.dtype() == DType::String {
        return Err(type_error(format!("{} for keys that are strings", x.dtype())));
    }
    if let (Some(numbers), Some(shape)) = (x.numbers(), x.constant_shape()) {
        let places = first_places(keys.scalars().map(|key| identity(key.cast(x.dtype()))));
        let place = |number: Scalar| places.get(&identity(number)).copied();
        let places: Vec<i64> =
            numbers.into_iter().map(|number| place(number).unwrap_or(count as i64)).collect();
        return Ok(constant_value("", Tensor::from_slice(&shape, &places), true));
    }
    let keys = constant_value("", keys.clone().reshape(&[count]), true);
    let keys = graph.cast(&keys, x.dtype())?;
    let column = graph.reshape(x, &[x.shape(), &[Expr::ONE]].concat())?;
    let mut same = graph.equal(&column, &keys)?;
    if x.dtype().is_float() {
        // A key that is no number stands for all that are none.
        let (a, b) = (graph.map(F::IsNan, &[&column])?, graph.map(F::IsNan, &[&keys])?);
        let both = graph.and(&a, &b)?;
        same = graph.or(&same, &both)?;
    }
    let axis = x.rank();
    let found = graph.reduce_axes(&same, &[axis], Reduction::Or, false)?;
    let numbers = graph.cast(&same, DType::U8)?;
    let op = Op::ArgReduce { axis, greatest: true, last: false };
    let place = graph.primitive(op, &[&numbers])?;
    graph.select(&found, &place, &Operand::of_scalar(Scalar::i64(count as i64)))
}

/// Elements of a list, or a default, by places in it.
fn chosen(
    node: &Node<'_>,
    graph: &mut Graph,
    values: &Tensor,
    default: Tensor,
    places: Operand,
) -> Accepted<Operand> {
    if let (Some(values), Some(default)) = (values.strings(), default.strings()) {
        let texts = values.iter().chain(default).cloned().collect();
        let texts = Texts::Known(texts);
        return Ok(Operand::of_coded(Coded { codes: places, texts }));
    }
    let elements: Vec<Scalar> = values.scalars().chain(default.scalars()).collect();
    let list = Tensor::from_scalars(values.dtype(), &[elements.len()], &elements);
    looked_up(node, graph, &list, &places)
}

/// Keys or values of an encoder: one of several attributes.
fn encoder_list(node: &Node<'_>, graph: &mut Graph, what: &str) -> Accepted<Tensor> {
    if let Some(tensor) = node.tensor(&format!("{what}_tensor"), graph)? {
        return Ok(tensor);
    }
    if let Some(list) = node.ints(&format!("{what}_int64s"))? {
        return Ok(Tensor::from_slice(&[list.len()], &list));
    }
    if let Some(list) = node.floats(&format!("{what}_floats"))? {
        return Ok(Tensor::from_slice(&[list.len()], &list));
    }
    match node.strings(&format!("{what}_strings"))? {
        Some(list) => Ok(Tensor::from_strings(&[list.len()], list)),
        None => Err(attribute_error(&format!("{what}_tensor"), "it is missing")),
    }
}

/// `LabelEncoder`: the value of the first key that equals an element, or a default. Its first
/// version knows strings and their numbers in a list.
pub(super) fn encoder(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    if node.version < 2 {
        let texts = node.strings("classes_strings")?.unwrap_or_default();
        return mapped(node, graph, (0..texts.len() as i64).collect(), texts);
    }
    let keys = encoder_list(node, graph, "keys")?;
    let values = encoder_list(node, graph, "values")?;
    if keys.len() != values.len() || keys.is_empty() {
        return Err(attribute_error("keys_tensor", "there must be as many keys as values"));
    }
    let dtype = values.dtype();
    let default = match node.tensor("default_tensor", graph)? {
        Some(tensor) if tensor.len() == 1 && tensor.dtype() == dtype => tensor,
        Some(_) => return Err(attribute_error("default_tensor", "it is not one such value")),
        None if dtype == DType::String => {
            let text = node.string("default_string", "_Unused")?.to_owned();
            Tensor::from_strings(&[1], vec![text])
        }
        None if dtype.is_float() => {
            Tensor::scalar(Scalar::from_f64(dtype, node.float("default_float", -0.0)?))
        }
        None => Tensor::scalar(Scalar::from_i64(dtype, node.int("default_int64", -1)?)),
    };
    let x = node.input(0)?.clone();
    let places = places_of(node, graph, &x, &keys)?;
    Ok(vec![chosen(node, graph, &values, default, places)?])
}

/// `CategoryMapper`: strings as numbers, or numbers as strings.
pub(super) fn category_mapper(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let numbers = node.ints("cats_int64s")?.unwrap_or_default();
    let texts = node.strings("cats_strings")?.unwrap_or_default();
    if numbers.len() != texts.len() {
        return Err(attribute_error("cats_strings", "there must be as many as numbers"));
    }
    mapped(node, graph, numbers, texts)
}

/// Strings as their numbers, or numbers as their strings.
fn mapped(node: &Node<'_>, graph: &mut Graph, numbers: Vec<i64>, texts: Vec<String>) -> Lowered {
    let numbers = Tensor::from_slice(&[numbers.len()], &numbers);
    let texts = Tensor::from_strings(&[texts.len()], texts);
    let x = node.input(0)?.clone();
    let (keys, values, default) = if x.dtype() == DType::String {
        (texts, numbers, Tensor::scalar(Scalar::i64(node.int("default_int64", -1)?)))
    } else {
        let text = node.string("default_string", "_Unused")?.to_owned();
        (numbers, texts, Tensor::from_strings(&[1], vec![text]))
    };
    let places = places_of(node, graph, &x, &keys)?;
    Ok(vec![chosen(node, graph, &values, default, places)?])
}

/// `OneHotEncoder`: a column a category. `zeros` allows elements of no category.
pub(super) fn one_hot_encoder(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?.clone();
    let categories = match node.strings("cats_strings")?.filter(|list| !list.is_empty()) {
        Some(list) => Tensor::from_strings(&[list.len()], list),
        None => {
            let list = node.ints("cats_int64s")?.unwrap_or_default();
            Tensor::from_slice(&[list.len()], &list)
        }
    };
    if categories.is_empty() {
        return Err(attribute_error("cats_int64s", "there are no categories"));
    }
    let whole = if x.dtype() == DType::String { x } else { graph.cast(&x, DType::I64)? };
    let places = places_of(node, graph, &whole, &categories)?;
    let shape = [places.shape(), &[Expr::from(categories.len())]].concat();
    let column = graph.reshape(&places, &[places.shape(), &[Expr::ONE]].concat())?;
    let number = graph.iota(DType::I64, &shape, shape.len() - 1)?;
    let same = graph.equal(&column, &number)?;
    Ok(vec![graph.cast(&same, DType::F32)?])
}

/// `ZipMap`: each row as a map from classes to scores.
pub(super) fn zip_map(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let keys = match Labels::of(node, "classlabels_int64s", "classlabels_strings")? {
        Labels::Numbers(numbers) => integers(numbers),
        Labels::Texts(texts) => strings_of(texts),
    };
    let rows = match x.rank() {
        1 => graph.reshape(x, &[Expr::ONE, x.shape()[0].clone()])?,
        2 => x.clone(),
        rank => return Err(shape_error(format!("an input of rank {rank}, not 2"))),
    };
    graph.assume_equal(&rows.shape()[1], &keys.shape()[0])?;
    Ok(vec![Operand::of_list(List::Maps(keys, rows))])
}

/// The labels of a classifier's classes.
pub(super) enum Labels {
    /// Numbers.
    Numbers(Vec<i64>),
    /// Strings.
    Texts(Vec<String>),
}

impl Labels {
    /// Those of one of two attributes.
    pub(super) fn of(node: &Node<'_>, numbers: &str, texts: &str) -> Accepted<Labels> {
        match (node.ints(numbers)?, node.strings(texts)?) {
            (_, Some(texts)) if !texts.is_empty() => Ok(Labels::Texts(texts)),
            (Some(numbers), _) if !numbers.is_empty() => Ok(Labels::Numbers(numbers)),
            _ => Err(missing(numbers)),
        }
    }

    /// How many classes there are.
    pub(super) fn len(&self) -> usize {
        match self {
            Labels::Numbers(numbers) => numbers.len(),
            Labels::Texts(texts) => texts.len(),
        }
    }

    /// The labels of classes by their numbers.
    pub(super) fn at(
        &self,
        node: &Node<'_>,
        graph: &mut Graph,
        classes: Operand,
    ) -> Accepted<Operand> {
        match self {
            Labels::Numbers(numbers) => {
                let list = Tensor::from_slice(&[numbers.len()], numbers);
                looked_up(node, graph, &list, &classes)
            }
            Labels::Texts(texts) => {
                let texts = Texts::Known(texts.clone().into());
                Ok(Operand::of_coded(Coded { codes: classes, texts }))
            }
        }
    }

    /// The label of the greatest score of each row.
    pub(super) fn best(
        &self,
        node: &Node<'_>,
        graph: &mut Graph,
        scores: &Operand,
    ) -> Accepted<Operand> {
        let op = Op::ArgReduce { axis: 1, greatest: true, last: false };
        let best = graph.primitive(op, &[scores])?;
        self.at(node, graph, best)
    }
}

fn missing(name: &str) -> Diagnostic {
    attribute_error(name, "the classes have no labels")
}
