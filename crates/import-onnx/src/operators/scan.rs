//! ONNX's `Scan`: a graph applied to the slices of tensors one after the other.

use front::{Accepted, Graph, Operand, normalize_axis, region, scan_types, shape_error};
use graph::Op;

use super::Lowered;
use super::control::{body_results, turns};
use crate::importer::Importer;
use crate::node::{Node, unsupported};
use crate::order::names_captured;
use crate::proto::GraphProto;

/// ONNX's Scan: states carried along, slices of inputs in, slices of outputs stacked.
pub(super) fn scan(node: &Node<'_>, importer: &mut Importer<'_>) -> Lowered {
    if node.version < 9 {
        return scan_batches(node, importer);
    }
    let inputs = node.all_inputs()?;
    let Shape { body, states, scanned, stacked } = scan_shape(node, inputs.len())?;
    let list = |name: &str, count: usize| list(node, name, count);
    let (in_axes, in_back) =
        (list("scan_input_axes", scanned)?, list("scan_input_directions", scanned)?);
    let (out_axes, out_back) =
        (list("scan_output_axes", stacked)?, list("scan_output_directions", stacked)?);
    importer.prepare(names_captured(body))?;
    let graph = &mut importer.graph;
    let mut operands = inputs[..states].to_vec();
    for (number, input) in inputs[states..].iter().enumerate() {
        let axis = normalize_axis(in_axes[number], input.rank())?;
        let front = to_front(graph, input, axis)?;
        operands.push(if in_back[number] != 0 { reversed(graph, &front)? } else { front });
    }
    let mut results = scan_front(importer, body, operands, states)?;
    for (number, result) in results[states..].iter_mut().enumerate() {
        let graph = &mut importer.graph;
        if out_back[number] != 0 {
            *result = reversed(graph, result)?;
        }
        let axis = normalize_axis(out_axes[number], result.rank())?;
        let mut order: Vec<usize> = (1..result.rank()).collect();
        order.insert(axis, 0);
        *result = graph.transpose(result, &order)?;
    }
    Ok(results)
}

/// What a scan has how many of.
struct Shape<'a> {
    body: &'a GraphProto,
    states: usize,
    scanned: usize,
    stacked: usize,
}

fn scan_shape<'a>(node: &'a Node<'_>, inputs: usize) -> Accepted<Shape<'a>> {
    let body = node.graph("body")?;
    let scanned = usize::try_from(node.int("num_scan_inputs", 0)?).unwrap_or(0);
    let Some(states) = inputs.checked_sub(scanned).filter(|_| scanned > 0) else {
        return Err(shape_error(format!("{scanned} scanned inputs of {inputs}")));
    };
    let Some(stacked) = body.output.len().checked_sub(states) else {
        return Err(shape_error("the body gives fewer results than there are states"));
    };
    if body.input.len() != inputs {
        return Err(shape_error("the body does not take what is scanned"));
    }
    Ok(Shape { body, states, scanned, stacked })
}

/// An attribute with a number for each of several values.
fn list(node: &Node<'_>, name: &str, count: usize) -> Accepted<Vec<i64>> {
    let list = node.ints(name)?.unwrap_or_else(|| vec![0; count]);
    match list.len() == count {
        true => Ok(list),
        false => Err(shape_error(format!("`{name}` has {} entries, not {count}", list.len()))),
    }
}

/// A scan along the first axes of the operands behind the states.
fn scan_front(
    importer: &mut Importer<'_>,
    body: &GraphProto,
    mut operands: Vec<Operand>,
    states: usize,
) -> Lowered {
    let graph = &mut importer.graph;
    let extents = operands[states..].first().and_then(|operand| operand.shape().first());
    let Some(trip_count) = extents.cloned() else {
        return Err(shape_error("what is scanned has no axes"));
    };
    for operand in &mut operands[states..] {
        let mut shape = operand.shape().to_vec();
        match shape.first_mut() {
            Some(first) => *first = trip_count.clone(),
            None => return Err(shape_error("what is scanned has no axes")),
        }
        *operand = graph.refine(operand, &shape)?;
    }
    graph.all_data(&operands)?;
    let mut types = scan_types(&operands[..states], &operands[states..])?;
    let region = turns(importer, &mut types, (1, states), &mut |importer, parameters| {
        body_results(importer, body, &parameters[1..], None)
    })?;
    let op = Op::Scan { trip_count, carried: states, reverse: false };
    importer.graph.control(op, &operands, &[region])
}

/// The first version of Scan: for each entry of a batch, the first axis, a scan along the second.
fn scan_batches(node: &Node<'_>, importer: &mut Importer<'_>) -> Lowered {
    if node.optional(0).is_some() {
        return Err(unsupported("lengths of sequences that differ within a batch"));
    }
    let inputs: Vec<Operand> =
        (1..node.inputs.len()).map(|index| node.input(index).cloned()).collect::<Accepted<_>>()?;
    let Shape { body, states, scanned, .. } = scan_shape(node, inputs.len())?;
    if list(node, "directions", scanned)?.iter().any(|&direction| direction != 0) {
        return Err(unsupported("scans from the end of a batch's entries"));
    }
    if inputs.iter().any(|input| input.rank() < 1) {
        return Err(shape_error("an input has no axis of batches"));
    }
    importer.prepare(names_captured(body))?;
    let batch = inputs[0].shape()[0].clone();
    importer.graph.all_data(&inputs)?;
    let region = region(importer, &scan_types(&[], &inputs)?, |importer, parameters| {
        scan_front(importer, body, parameters[1..].to_vec(), states)
    })?;
    let op = Op::Scan { trip_count: batch, carried: 0, reverse: false };
    importer.graph.control(op, &inputs, &[region])
}

/// A value with one axis moved to the front.
fn to_front(graph: &mut Graph, value: &Operand, axis: usize) -> Accepted<Operand> {
    let mut order: Vec<usize> = (0..value.rank()).filter(|other| *other != axis).collect();
    order.insert(0, axis);
    graph.transpose(value, &order)
}

/// A value from the last slice along its first axis to the first.
fn reversed(graph: &mut Graph, value: &Operand) -> Accepted<Operand> {
    let extent = value.shape()[0].clone();
    graph.slice_axis(value, 0, &extent - 1, -1, extent)
}
