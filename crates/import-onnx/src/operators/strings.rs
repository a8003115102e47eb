//! Operators on strings: host functions, which compute what is known while importing.

use front::{Accepted, Graph, HostResult, Operand, Texts, shape_error, type_error};
use host_ops::Pattern;
use sym::Expr;
use tensor::{DType, Tensor};

use super::labels::{self, Distinct, found, looked_up, strings_of};
use super::{Lowered, elementwise, ngrams};
use crate::data_type::number_of;
use crate::node::{Node, attribute_error};

/// An input that holds strings.
fn strings<'a>(node: &'a Node<'_>, index: usize) -> Accepted<&'a Operand> {
    let value = node.input(index)?;
    match value.dtype() {
        DType::String => Ok(value),
        dtype => Err(type_error(format!("input {index} holds {dtype}, no strings"))),
    }
}

fn is_string(node: &Node<'_>, index: usize) -> bool {
    node.optional(index).is_some_and(|value| value.dtype() == DType::String)
}

/// A result of a host function with these extents.
fn result(dtype: DType, shape: &[Expr]) -> HostResult {
    (dtype, shape.iter().cloned().map(Some).collect())
}

/// A host function, applied to each element of an input.
fn each(
    node: &Node<'_>,
    graph: &mut Graph,
    (name, told): (&str, &[(&str, &str)]),
    dtype: DType,
) -> Lowered {
    let x = node.input(0)?;
    graph.host((name, node.output()), told, &[x], &[result(dtype, x.shape())])
}

/// A host function of two tensors of strings broadcast to one shape.
fn pairs(node: &Node<'_>, graph: &mut Graph, name: &str, dtype: DType) -> Lowered {
    let (a, b) = (strings(node, 0)?, strings(node, 1)?);
    let shape = graph.common_shape(&[a.shape(), b.shape()])?;
    graph.host((name, node.output()), &[], &[a, b], &[result(dtype, &shape)])
}

/// A conversion, of strings or to strings too.
pub(super) fn cast(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let to_string = match node.version {
        ..6 => node.string("to", "")? == "STRING",
        _ => node.int("to", 0)? == i64::from(number_of(DType::String)),
    };
    match (is_string(node, 0), to_string) {
        (true, true) => Ok(vec![node.input(0)?.clone()]),
        (true, false) => each(node, graph, ("parse", &[]), elementwise::required_type(node)?),
        (false, true) => each(node, graph, ("print", &[]), DType::String),
        (false, false) => elementwise::cast(node, graph),
    }
}

/// Whether elements are equal, strings or not.
pub(super) fn equal(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    if !is_string(node, 0) {
        return elementwise::binary(node, graph, tensor::ScalarFunction::Eq);
    }
    let (a, b) = (labels::coded(node, graph, 0)?, labels::coded(node, graph, 1)?);
    let (Texts::Known(left), Texts::Known(right)) = (&a.texts, &b.texts) else {
        return pairs(node, graph, "equal", DType::Bool);
    };
    // Equal strings get equal codes of one list.
    let mut distinct = Distinct::default();
    let mut codes = Vec::new();
    for (own, list) in [(&a.codes, left), (&b.codes, right)] {
        let table: Vec<i64> = list.iter().map(|text| distinct.place(text)).collect();
        codes.push(looked_up(node, graph, &Tensor::from_slice(&[table.len()], &table), own)?);
    }
    Ok(vec![graph.equal(&codes[0], &codes[1])?])
}

pub(super) fn concat(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    pairs(node, graph, "concat", DType::String)
}

/// The pieces of each string along a new axis, empty strings behind them; and how many there are.
pub(super) fn split(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = strings(node, 0)?;
    let most = match node.has("maxsplit") {
        true => usize::try_from(node.int("maxsplit", 0)?).ok().map(|most| most.to_string()),
        false => None,
    };
    let told = [("delimiter", node.string("delimiter", "")?), ("most", &most.unwrap_or_default())];
    let (mut pieces, counts) = (result(DType::String, x.shape()), result(DType::I64, x.shape()));
    pieces.1.push(None);
    graph.host(("split", node.output()), &told, &[x], &[pieces, counts])
}

/// Words without stop words, in one case; one empty string if none are left.
pub(super) fn normalize(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = strings(node, 0)?;
    let is_row = match x.shape() {
        [_] => false,
        [one, _] if one.is_one() => true,
        shape => {
            let shape = graph.builder.shape_text(shape);
            return Err(shape_error(format!("strings of shape {shape}")));
        }
    };
    let case = node.word("case_change_action", &["NONE", "LOWER", "UPPER"])?;
    let is_case_sensitive = if node.flag("is_case_sensitive", false)? { "1" } else { "" };
    let stops = strings_of(node.strings("stopwords")?.unwrap_or_default());
    let told = [("case", case), ("is_case_sensitive", is_case_sensitive)];
    let result = (DType::String, vec![None]);
    let words = graph.host(("normalize", node.output()), &told, &[x, &stops], &[result])?;
    if !is_row {
        return Ok(words);
    }
    // The words of a row are a row, too.
    let row = |node: &Node<'_>, graph: &mut Graph| {
        let x = node.input(0)?;
        Ok(vec![graph.reshape(x, &[Expr::ONE, x.shape()[0].clone()])?])
    };
    labels::moved(
        &Node { inputs: words.into_iter().map(Some).collect(), ..Node::of(node) },
        graph,
        row,
    )
}

pub(super) fn full_match(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    strings(node, 0)?;
    let pattern = node.string("pattern", "")?;
    Pattern::new(pattern).map_err(|reason| attribute_error("pattern", reason))?;
    each(node, graph, ("matches", &[("pattern", pattern)]), DType::Bool)
}

/// `TfIdfVectorizer`, also of strings, which stand for the numbers of equal ones in the pool.
pub(super) fn tf_idf(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let Some(pool) = node.strings("pool_strings")?.filter(|pool| !pool.is_empty()) else {
        let items = node.ints("pool_int64s")?.unwrap_or_default();
        return ngrams::tf_idf(node, graph, node.input(0)?, &items);
    };
    let x = strings(node, 0)?;
    let mut distinct = Distinct::default();
    let items: Vec<i64> = pool.iter().map(|item| distinct.place(item)).collect();
    let numbers = found(node, graph, x, &distinct.texts())?;
    ngrams::tf_idf(node, graph, &numbers, &items)
}

/// `Tokenizer`: the tokens of each string along a new axis.
pub(super) fn tokenize(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = strings(node, 0)?;
    if !matches!(x.rank(), 1 | 2) {
        return Err(shape_error(format!("strings of rank {}, which is neither 1 nor 2", x.rank())));
    }
    for name in ["mark", "mincharnum", "pad_value"] {
        if !node.has(name) {
            return Err(attribute_error(name, "it is missing"));
        }
    }
    let (by, patterns) = token_patterns(node)?;
    let least = node.int("mincharnum", 1)?;
    if least < 1 || by == "letters" && least > 1 {
        let reason = if least < 1 { "it is not positive" } else { "each token is one letter" };
        return Err(attribute_error("mincharnum", reason));
    }
    let told = [
        ("by", by),
        ("least", &*least.to_string()),
        ("mark", if node.flag("mark", false)? { "1" } else { "" }),
        ("pad", node.string("pad_value", "")?),
    ];
    let mut tokens = result(DType::String, x.shape());
    tokens.1.push(None);
    graph.host(("tokens", node.output()), &told, &[x, &strings_of(patterns)], &[tokens])
}

/// What decides where tokens are: `separators` stand between them, `tokenexp`, which counts where
/// there are none, is what they match. One empty separator and the pattern `.` make a token of each
/// letter, line ends included.
fn token_patterns(node: &Node<'_>) -> Accepted<(&'static str, Vec<String>)> {
    let separators = node.strings("separators")?.unwrap_or_default();
    let tokens = node.string("tokenexp", "")?;
    let (by, name, patterns) = match &separators[..] {
        [empty] if empty.is_empty() => return Ok(("letters", Vec::new())),
        [_, ..] => ("between", "separators", separators),
        [] if tokens.is_empty() => {
            let reason = "there must be a pattern of tokens, or `separators` between them";
            return Err(attribute_error("tokenexp", reason));
        }
        [] if tokens == "." => return Ok(("letters", Vec::new())),
        [] => ("matches", "tokenexp", vec![tokens.to_owned()]),
    };
    for pattern in &patterns {
        let refused = |reason| attribute_error(name, format!("`{pattern}`: {reason}"));
        Pattern::new(pattern).map_err(refused)?;
    }
    Ok((by, patterns))
}

/// `MurmurHash3`: the hash of each element, which is a string or a number of 32 or 64 bits.
pub(super) fn hash(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    use DType::{F32, F64, I32, I64, String, U32, U64};
    let x = node.input(0)?;
    if !matches!(x.dtype(), String | F32 | F64 | I32 | I64 | U32 | U64) {
        return Err(type_error(format!("it does not take {}", x.dtype())));
    }
    // The seed is the bits of the attribute's lower half.
    let seed = (node.int("seed", 0)? as u32).to_string();
    let dtype = if node.flag("positive", true)? { U32 } else { I32 };
    each(node, graph, ("hash", &[("seed", &seed)]), dtype)
}
