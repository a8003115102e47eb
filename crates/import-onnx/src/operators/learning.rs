//! Small operators of `ai.onnx.ml`: scaling, encoding, linear models.

use front::{Accepted, Graph, Operand, constant_value, shape_error};
use sym::Expr;
use tensor::{DType, Reduction, ScalarFunction as F, Tensor};

use super::Lowered;
use super::labels::Labels;
use crate::node::{Node, attribute_error};
use front::gather_axis;

/// An attribute's numbers as a value.
fn attribute(node: &Node<'_>, what: &str, tensor: Tensor) -> Operand {
    let output = node.proto.output.first().map_or("", String::as_str);
    constant_value(&format!("{output}.{what}"), tensor, true)
}

fn floats(node: &Node<'_>, name: &str, dtype: DType) -> Accepted<Option<Operand>> {
    let Some(list) = node.floats(name)?.filter(|list| !list.is_empty()) else { return Ok(None) };
    let tensor = Tensor::from_slice(&[list.len()], &list).cast(dtype);
    Ok(Some(attribute(node, name, tensor)))
}

/// Floats as they are, other numbers as f32.
fn as_floats(graph: &mut Graph, x: &Operand) -> Accepted<Operand> {
    let dtype = if x.dtype().is_float() { x.dtype() } else { DType::F32 };
    graph.cast(x, dtype)
}

/// The columns that an input names.
pub(super) fn array_feature_extractor(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (x, index) = (node.input(0)?, node.input(1)?);
    let index = graph.cast(index, DType::I64)?;
    let count: Expr = index.shape().iter().product();
    let index = graph.reshape(&index, std::slice::from_ref(&count))?;
    let read = gather_axis(graph, x, x.rank() - 1, &index)?;
    Ok(vec![if x.rank() == 1 { graph.reshape(&read, &[Expr::ONE, count])? } else { read }])
}

/// 1 above a threshold, else 0.
pub(super) fn binarizer(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let threshold = graph.number(x.dtype(), node.float("threshold", 0.0)?);
    let above = graph.greater(x, &threshold)?;
    Ok(vec![graph.cast(&above, x.dtype())?])
}

/// `(x - offset) * scale`
pub(super) fn scaler(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let mut value = as_floats(graph, node.input(0)?)?;
    if let Some(offset) = floats(node, "offset", value.dtype())? {
        value = graph.sub(&value, &offset)?;
    }
    if let Some(scale) = floats(node, "scale", value.dtype())? {
        value = graph.mul(&value, &scale)?;
    }
    Ok(vec![graph.cast(&value, DType::F32)?])
}

/// Rows divided by their norm.
pub(super) fn normalizer(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = as_floats(graph, node.input(0)?)?;
    let axis = [x.rank().saturating_sub(1)];
    let norm = match node.word("norm", &["MAX", "L1", "L2"])? {
        "MAX" => {
            let magnitude = graph.abs(&x)?;
            graph.reduce_axes(&magnitude, &axis, Reduction::Max, true)?
        }
        "L1" => {
            let magnitude = graph.abs(&x)?;
            graph.reduce_axes(&magnitude, &axis, Reduction::Sum, true)?
        }
        _ => {
            let square = graph.square(&x)?;
            let sum = graph.reduce_axes(&square, &axis, Reduction::Sum, true)?;
            graph.sqrt(&sum)?
        }
    };
    let least = graph.number(x.dtype(), 1e-30);
    let norm = graph.max(&norm, &least)?;
    let result = graph.div(&x, &norm)?;
    Ok(vec![graph.cast(&result, DType::F32)?])
}

/// Missing values replaced, a value for each column or one for all.
pub(super) fn imputer(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let (values, replaced) = if x.dtype().is_float() {
        (floats(node, "imputed_value_floats", x.dtype())?, node.float("replaced_value_float", 0.0)?)
    } else {
        let list = node.ints("imputed_value_int64s")?.unwrap_or_default();
        let tensor = Tensor::from_slice(&[list.len()], &list).cast(x.dtype());
        let values = (!list.is_empty()).then(|| attribute(node, "imputed_value_int64s", tensor));
        (values, node.int("replaced_value_int64", 0)? as f64)
    };
    let values = values.ok_or_else(|| attribute_error("imputed_value_floats", "it is missing"))?;
    let is_missing = match replaced.is_nan() {
        true => graph.map(F::IsNan, &[x])?,
        false => {
            let replaced = graph.number(x.dtype(), replaced);
            graph.equal(x, &replaced)?
        }
    };
    Ok(vec![graph.select(&is_missing, &values, x)?])
}

/// Inputs behind each other along their last axis.
pub(super) fn feature_vectorizer(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let mut columns = Vec::new();
    for input in node.all_inputs()? {
        let column = graph.cast(&input, DType::F32)?;
        columns.push(match column.rank() {
            1 => graph.reshape(&column, &[Expr::ONE, column.shape()[0].clone()])?,
            _ => column,
        });
    }
    Ok(vec![graph.concat(1, &columns)?])
}

// --- linear models and classes ---

/// The attribute `post_transform`.
pub(super) fn post_transform_name(node: &Node<'_>) -> Accepted<&'static str> {
    node.word("post_transform", &["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"])
}

/// Scores as what is asked for.
pub(super) fn post_transform(graph: &mut Graph, scores: &Operand, name: &str) -> Accepted<Operand> {
    match name {
        "LOGISTIC" => graph.sigmoid(scores),
        "SOFTMAX" | "SOFTMAX_ZERO" => {
            let axis = [scores.rank() - 1];
            let greatest = graph.reduce_axes(scores, &axis, Reduction::Max, true)?;
            let shifted = graph.sub(scores, &greatest)?;
            let mut exp = graph.exp(&shifted)?;
            if name == "SOFTMAX_ZERO" {
                // Scores of zero stay.
                let zero = graph.number(scores.dtype(), 0.0);
                let is_zero = graph.equal(scores, &zero)?;
                exp = graph.select(&is_zero, &zero, &exp)?;
            }
            let sum = graph.reduce_axes(&exp, &axis, Reduction::Sum, true)?;
            graph.div(&exp, &sum)
        }
        "PROBIT" => probit(graph, scores),
        _ => Ok(scores.clone()),
    }
}

/// The normal distribution's quantiles: sqrt(2) times the inverse of the error function at 2 x - 1,
/// by Winitzki's approximation, "A handy approximation for the error function and its inverse"
/// (2008), which is what the operators mean by it.
fn probit(graph: &mut Graph, scores: &Operand) -> Accepted<Operand> {
    const A: f64 = 0.147;
    let twice = graph.mul_number(scores, 2.0)?;
    let x = graph.add_number(&twice, -1.0)?;
    let square = graph.square(&x)?;
    let negated = graph.neg(&square)?;
    let below = graph.add_number(&negated, 1.0)?;
    let log = graph.log(&below)?;
    let half = graph.mul_number(&log, 0.5)?;
    let v = graph.add_number(&half, 2.0 / (std::f64::consts::PI * A))?;
    let w = graph.mul_number(&log, 1.0 / A)?;
    let square = graph.square(&v)?;
    let inner = graph.sub(&square, &w)?;
    let root = graph.sqrt(&inner)?;
    let inner = graph.sub(&root, &v)?;
    let root = graph.sqrt(&inner)?;
    let sign = graph.map(F::Sign, &[&x])?;
    let signed = graph.mul(&root, &sign)?;
    graph.mul_number(&signed, std::f64::consts::SQRT_2)
}

/// `x . coefficients^T + intercepts`
fn linear(node: &Node<'_>, graph: &mut Graph, x: &Operand) -> Accepted<Operand> {
    let [_, features] = x.shape() else {
        return Err(shape_error(format!("an input of rank {}, not 2", x.rank())));
    };
    let Some(features) = features.as_constant().filter(|&features| features > 0) else {
        return Err(node.not_fixed(0, "number of features"));
    };
    let list = node.floats("coefficients")?.unwrap_or_default();
    if list.is_empty() || list.len() as i64 % features != 0 {
        return Err(attribute_error("coefficients", format!("{} of them", list.len())));
    }
    let shape = [list.len() / features as usize, features as usize];
    let tensor = Tensor::from_slice(&shape, &list).cast(x.dtype());
    let coefficients = attribute(node, "coefficients", tensor);
    let coefficients = graph.transpose(&coefficients, &[1, 0])?;
    let product = graph.matmul(x, &coefficients)?;
    match floats(node, "intercepts", x.dtype())? {
        Some(intercepts) => graph.add(&product, &intercepts),
        None => Ok(product),
    }
}

/// `LinearRegressor`.
pub(super) fn linear_regressor(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = as_floats(graph, node.input(0)?)?;
    let scores = linear(node, graph, &x)?;
    let scores = post_transform(graph, &scores, post_transform_name(node)?)?;
    Ok(vec![graph.cast(&scores, DType::F32)?])
}

/// `LinearClassifier`: labels and scores.
pub(super) fn linear_classifier(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = as_floats(graph, node.input(0)?)?;
    let labels = Labels::of(node, "classlabels_ints", "classlabels_strings")?;
    let mut scores = linear(node, graph, &x)?;
    if scores.shape()[1].is_one() && labels.len() == 2 {
        let negated = graph.neg(&scores)?;
        scores = graph.concat(1, &[negated, scores])?;
    }
    if scores.shape()[1].as_constant() != Some(labels.len() as i64) {
        return Err(attribute_error("classlabels_ints", "there must be one a score"));
    }
    let scores = post_transform(graph, &scores, post_transform_name(node)?)?;
    let scores = graph.cast(&scores, DType::F32)?;
    Ok(vec![labels.best(node, graph, &scores)?, scores])
}
