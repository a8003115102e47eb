//! Quantised values: their integers, and what is computed of the numbers that they stand for.
//!
//! An operation on quantised values is the same operation on numbers between a dequantisation and a
//! quantisation, which is the specification's definition of it; a movement moves the integers.

use std::sync::Arc;

use front::{Accepted, Graph, Operand, shape_error, type_error};
use sym::Expr;
use tensor::{DType, Scalar, Tensor};

use super::{Lower, Row, is_quantised, lower_plain};
use crate::importer::{Frame, Importer};
use crate::node::{Lowered, Node, Value, one};
use crate::syntax::{ElementType, Operation, Quantisation, TensorType, ValueType};

fn quantisation(ty: &ValueType) -> Option<&Arc<Quantisation>> {
    match ty {
        ValueType::Tensor(TensorType { element: ElementType::Quantised(found), .. }) => Some(found),
        _ => None,
    }
}

/// Whether an operation is computed of the numbers that its values stand for.
pub(crate) fn is_of_numbers(name: &str, node: &Node<'_>) -> bool {
    let plain = [
        "stablehlo.uniform_quantize",
        "stablehlo.uniform_dequantize",
        "stablehlo.custom_call",
        "stablehlo.bitcast_convert",
        "stablehlo.while",
        "stablehlo.if",
        "stablehlo.case",
        "stablehlo.constant",
        "stablehlo.composite",
        "stablehlo.tuple",
        "func.call",
    ];
    if plain.contains(&name) {
        return false;
    }
    let values = || node.operation.operands.iter().chain(&node.operation.results);
    let mut types = values().map(|&value| &node.function.values[value]);
    let Some(first) = types.clone().find_map(quantisation) else { return false };
    let moves = super::find(name).is_some_and(|row| matches!(row.lower, Lower::Movement(_)));
    // Integers of one scale are moved as they are.
    let is_one = types.clone().filter_map(quantisation).all(|it| it == first);
    !(moves && is_one && first.axis.is_none()) && types.any(is_quantised)
}

/// A factor a scale, for values of a rank.
fn along(
    graph: &mut Graph,
    quantisation: &Quantisation,
    rank: usize,
    of: &[f64],
) -> Accepted<Operand> {
    let numbers: Vec<Scalar> =
        of.iter().map(|it| Scalar::from_f64(quantisation.expressed, *it)).collect();
    let dtype = quantisation.expressed;
    match quantisation.axis {
        None => Ok(Operand::of_scalar(numbers[0])),
        Some(axis) if axis < rank => {
            let factors = Tensor::from_scalars(dtype, &[numbers.len()], &numbers);
            let factors = front::constant_value("scales", factors, false);
            let mut shape = vec![Expr::ONE; rank];
            shape[axis] = Expr::from(numbers.len());
            graph.reshape(&factors, &shape)
        }
        Some(axis) => Err(shape_error(format!("there is no axis {axis} of {rank}"))),
    }
}

fn zero_points(quantisation: &Quantisation) -> Vec<f64> {
    quantisation.zero_points.iter().map(|it| *it as f64).collect()
}

/// The numbers that integers stand for.
fn numbers(graph: &mut Graph, value: &Operand, of: &Quantisation) -> Accepted<Operand> {
    let value = graph.cast(value, of.expressed)?;
    let rank = value.rank();
    let zero = along(graph, of, rank, &zero_points(of))?;
    let scale = along(graph, of, rank, &of.scales)?;
    let value = graph.sub(&value, &zero)?;
    graph.mul(&value, &scale)
}

/// The integers nearest to numbers, halves to even, within the range.
fn integers(graph: &mut Graph, value: &Operand, of: &Quantisation) -> Accepted<Operand> {
    let value = graph.cast(value, of.expressed)?;
    let rank = value.rank();
    let zero = along(graph, of, rank, &zero_points(of))?;
    let scale = along(graph, of, rank, &of.scales)?;
    let value = graph.div(&value, &scale)?;
    let value = graph.round(&value)?;
    let value = graph.add(&value, &zero)?;
    let value = graph.clamp(&value, of.range.0 as f64, of.range.1 as f64)?;
    graph.cast(&value, of.storage)
}

pub(crate) fn quantise<'p>(importer: &mut Importer<'p>, node: &Node<'p>, _: &mut Frame) -> Lowered {
    let graph = &mut importer.graph;
    let mut value = node.real(0)?.clone();
    if let ElementType::Quantised(from) = &node.operand_type(0)?.element {
        value = numbers(graph, &value, from)?;
    }
    let ElementType::Quantised(to) = &node.result_type(0)?.element else {
        return Err(type_error("its result is not quantised"));
    };
    one(integers(graph, &value, to)?)
}

pub(crate) fn dequantise<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    let graph = &mut importer.graph;
    let ElementType::Quantised(from) = &node.operand_type(0)?.element else {
        return Err(type_error("its operand is not quantised"));
    };
    let value = numbers(graph, node.real(0)?, from)?;
    one(graph.cast(&value, node.dtype()?)?)
}

/// An operation between a dequantisation of its operands and a quantisation of its results.
pub(crate) fn lower<'p>(
    importer: &mut Importer<'p>,
    row: &Row,
    node: &Node<'p>,
    frame: &mut Frame,
) -> Lowered {
    let operation: &Operation = node.operation;
    let mut operands = Vec::new();
    for (value, &number) in node.operands.iter().zip(&operation.operands) {
        operands.push(match quantisation(&node.function.values[number]) {
            Some(of) => numbers(&mut importer.graph, value.real()?, of)?.into(),
            None => value.clone(),
        });
    }
    let plain = Node { function: node.function, operation, operands };
    let results = lower_plain(importer, row, &plain, frame)?;
    let mut quantised: Vec<Value> = Vec::new();
    for (value, &number) in results.into_iter().zip(&operation.results) {
        quantised.push(match quantisation(&node.function.values[number]) {
            Some(of) if value.real()?.dtype().is_float() => {
                integers(&mut importer.graph, value.real()?, of)?.into()
            }
            _ => value,
        });
    }
    Ok(quantised)
}

/// The type in which an element is computed.
pub(crate) fn computed_type(element: &ElementType) -> Accepted<DType> {
    match element {
        ElementType::Quantised(quantisation) => Ok(quantisation.expressed),
        other => crate::node::part_type(other),
    }
}
