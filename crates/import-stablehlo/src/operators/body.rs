//! Bodies of scalars: what a reduction, scatter, sort or window does with two elements.
//!
//! A body that is one of the graph's reductions becomes it. Any other body is *lifted*: it runs on
//! whole tensors, element by element, because all that it holds are functions of elements.

use front::{Accepted, Graph, Operand};
use sym::Expr;
use tensor::{DType, Reduction};

use crate::importer::{Frame, Importer};
use crate::node::{Node, Value};
use crate::syntax::{Block, Function};

/// The reduction that a body of two scalars is, if it is one: one operation on its parameters.
pub(crate) fn as_reduction(block: &Block, dtype: DType) -> Option<Reduction> {
    let [operation, result] = &block.operations[..] else { return None };
    let [a, b] = block.parameters[..] else { return None };
    let takes_both = operation.operands == [a, b] || operation.operands == [b, a];
    if !takes_both || result.operands != operation.results {
        return None;
    }
    let is_bool = dtype == DType::Bool;
    let reduction = match operation.name.as_str() {
        "stablehlo.add" if is_bool => Reduction::Or,
        "stablehlo.multiply" if is_bool => Reduction::And,
        "stablehlo.add" => Reduction::Sum,
        "stablehlo.multiply" => Reduction::Product,
        "stablehlo.maximum" if is_bool => Reduction::Or,
        "stablehlo.minimum" if is_bool => Reduction::And,
        "stablehlo.maximum" => Reduction::Max,
        "stablehlo.minimum" => Reduction::Min,
        "stablehlo.and" => Reduction::And,
        "stablehlo.or" => Reduction::Or,
        _ => return None,
    };
    Some(reduction)
}

/// The reduction of a body on the parts of values; of complex numbers only sums are one, each part
/// for itself.
pub(crate) fn reduction_of(node: &Node<'_>, block: &Block, value: &Value) -> Option<Reduction> {
    let has_one = block.parameters.len() == 2;
    let is_quantised =
        block.parameters.iter().any(|&number| super::is_quantised(&node.function.values[number]));
    if !has_one || is_quantised {
        return None;
    }
    match value {
        Value::Tensor(value) => as_reduction(block, value.dtype()),
        Value::Complex(value) => {
            let reduction = as_reduction(block, value.dtype());
            reduction.filter(|reduction| *reduction == Reduction::Sum)
        }
        _ => None,
    }
}

/// Runs a body on whole tensors.
pub(crate) fn lifted<'p>(
    importer: &mut Importer<'p>,
    function: &'p Function,
    block: &'p Block,
    frame: &mut Frame,
    arguments: Vec<Value>,
) -> Accepted<Vec<Value>> {
    let shape = arguments.first().map(|value| value.shape().to_vec()).unwrap_or_default();
    let before = std::mem::replace(&mut importer.is_lifted, true);
    let results = importer.block(function, block, frame, arguments);
    importer.is_lifted = before;
    // What is the same for all elements is a scalar so far.
    results?
        .into_iter()
        .map(|value| value.each(|part| importer.graph.broadcast_to(part, &shape[..])))
        .collect()
}

/// A part of values along their first axis.
pub(crate) fn rows(
    graph: &mut Graph,
    values: &[Value],
    start: i64,
    step: i64,
    count: i64,
) -> Accepted<Vec<Value>> {
    let row = |value: &Value| {
        value.each(|part| graph.slice_axis(part, 0, Expr::from(start), step, Expr::from(count)))
    };
    values.iter().map(row).collect()
}

/// What a body makes of all rows along the first axis, in order, halves first: the axis
/// disappears. There is at least one row.
pub(crate) fn folded<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    block: &'p Block,
    frame: &mut Frame,
    mut values: Vec<Value>,
    mut count: i64,
) -> Accepted<Vec<Value>> {
    while count > 1 {
        // Neighbours combine, so that the order stays; an odd row waits.
        let pairs = count / 2;
        let left = rows(&mut importer.graph, &values, 0, 2, pairs)?;
        let right = rows(&mut importer.graph, &values, 1, 2, pairs)?;
        let last = match count % 2 {
            1 => Some(rows(&mut importer.graph, &values, count - 1, 1, 1)?),
            _ => None,
        };
        values = lifted(importer, node.function, block, frame, [left, right].concat())?;
        if let Some(last) = last {
            let mut joined = Vec::new();
            for (value, last) in values.iter().zip(&last) {
                let mut parts = last.parts().into_iter().cloned();
                joined.push(value.each(|part| {
                    let behind: Vec<Operand> = parts.by_ref().take(1).collect();
                    importer.graph.concat(0, &[std::slice::from_ref(part), &behind[..]].concat())
                })?);
            }
            values = joined;
        }
        count = pairs + count % 2;
    }
    let drop_first = |value: &Value| {
        value.each(|part| {
            let shape = part.shape()[1..].to_vec();
            importer.graph.reshape(part, &shape)
        })
    };
    values.iter().map(drop_first).collect()
}
