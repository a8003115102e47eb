//! Sequences and optional values. Where it is known while importing what they are made of, these
//! operators only pass tensors on and leave no nodes behind; elsewhere they are `list` nodes.

use front::{Accepted, Graph, List, Operand, scan_types, shape_error, type_error};
use graph::{ElementType, ListOperation, Op, Type};
use sym::Expr;
use tensor::{DType, Scalar};

use super::Lowered;
use super::control::turns;
use crate::importer::Importer;
use crate::node::Node;
use crate::order::names_captured;
use crate::proto::GraphProto;

fn sequence(values: Vec<Operand>, graph: &mut Graph) -> Lowered {
    count_entries(values.len(), graph)?;
    Ok(vec![Operand::of_list(List::Sequence(values))])
}

/// Counts the values of a sequence against the limit on computed elements: a model of a few nodes
/// can ask for any number, and each sequence has its own list of them.
fn count_entries(entries: usize, graph: &mut Graph) -> Accepted<()> {
    graph.count_computed(entries.saturating_mul(4), "the values of sequences, four for each")
}

/// An input that is a sequence: its values, or none where only a run knows them.
fn values<'a>(node: &'a Node<'_>, index: usize) -> Accepted<Option<&'a [Operand]>> {
    match node.input(index)?.list() {
        Some(List::Sequence(values)) => Ok(Some(values)),
        Some(List::Data(Type::Sequence(_))) => Ok(None),
        _ => Err(type_error(format!("input {index} is no sequence"))),
    }
}

/// A place in a sequence of so many values that an input gives, or the last of those that may be;
/// negative ones count from the end. None where data give it.
fn place(node: &Node<'_>, index: usize, count: usize, last: usize) -> Accepted<Option<usize>> {
    let Some(input) = node.optional(index) else { return Ok(Some(last)) };
    if input.numbers().is_none() {
        return Ok(None);
    }
    let given = node.single_number(index, "position in the sequence")?.as_i64();
    let counted = if given < 0 { given.checked_add(count as i64) } else { Some(given) };
    let found = counted.and_then(|place| usize::try_from(place).ok()).filter(|&at| at <= last);
    let outside = || shape_error(format!("there is no place {given} in {count} values"));
    found.map(Some).ok_or_else(outside)
}

/// What is done with a sequence at a place that data give, or with one that only a run knows.
fn by_data(node: &Node<'_>, graph: &mut Graph, operation: ListOperation, place: usize) -> Lowered {
    let mut operands = node.all_inputs()?;
    for operand in &mut operands[place.min(node.inputs.len())..] {
        let number = graph.reshape(operand, &[])?;
        *operand = graph.cast(&number, DType::I64)?;
    }
    let operands: Vec<&Operand> = operands.iter().collect();
    Ok(vec![graph.list(operation, &operands)?])
}

pub(super) fn empty(_: &Node<'_>, graph: &mut Graph) -> Lowered {
    sequence(Vec::new(), graph)
}

pub(super) fn construct(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    sequence(node.all_inputs()?, graph)
}

pub(super) fn at(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    if let Some(values) = values(node, 0)? {
        let last =
            values.len().checked_sub(1).ok_or_else(|| shape_error("the sequence is empty"))?;
        if let Some(place) = place(node, 1, values.len(), last)? {
            return Ok(vec![values[place].clone()]);
        }
    }
    by_data(node, graph, ListOperation::At, 1)
}

pub(super) fn insert(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    if let Some(values) = values(node, 0)?
        && let Some(place) = place(node, 2, values.len(), values.len())?
    {
        let mut values = values.to_vec();
        values.insert(place, node.input(1)?.clone());
        return sequence(values, graph);
    }
    by_data(node, graph, ListOperation::Insert, 2)
}

pub(super) fn erase(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    if let Some(values) = values(node, 0)? {
        let last =
            values.len().checked_sub(1).ok_or_else(|| shape_error("the sequence is empty"))?;
        if let Some(place) = place(node, 1, values.len(), last)? {
            let mut values = values.to_vec();
            values.remove(place);
            return sequence(values, graph);
        }
    }
    by_data(node, graph, ListOperation::Erase, 1)
}

pub(super) fn length(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    match values(node, 0)? {
        Some(values) => Ok(vec![Operand::of_scalar(Scalar::i64(values.len() as i64))]),
        None => by_data(node, graph, ListOperation::Length, 1),
    }
}

/// A tensor cut along an axis.
pub(super) fn split(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let axis = node.axis("axis", 0, x.rank())?;
    let Some(extent) = x.shape()[axis].as_constant() else {
        return Err(node.not_fixed(0, "extent of the axis"));
    };
    let whole = |size: i64| usize::try_from(extent / size).unwrap_or(0);
    let mut drops_axis = false;
    let sizes: Vec<i64> = match node.optional(1) {
        None => {
            drops_axis = !node.flag("keepdims", true)?;
            count_entries(whole(1), graph)?;
            vec![1; whole(1)]
        }
        Some(split) if split.rank() == 0 => {
            let size = node.single_number(1, "size of the pieces")?.as_i64();
            if size < 1 {
                return Err(shape_error(format!("pieces of {size}")));
            }
            count_entries(whole(size) + 1, graph)?;
            let mut sizes = vec![size; whole(size)];
            sizes.extend((extent % size > 0).then_some(extent % size));
            sizes
        }
        Some(_) => {
            let sizes = node.integers(1, "sizes of the pieces")?;
            count_entries(sizes.len(), graph)?;
            sizes
        }
    };
    if let Some(size) = sizes.iter().find(|&&size| size < 0) {
        return Err(shape_error(format!("a piece of {size}")));
    }
    let sum: i128 = sizes.iter().map(|&size| i128::from(size)).sum();
    if sum != i128::from(extent) {
        return Err(shape_error(format!("pieces of {sum} together, of an extent of {extent}")));
    }
    let mut pieces = Vec::new();
    let mut start = 0;
    for size in sizes {
        let piece = graph.slice_axis(x, axis, Expr::from(start), 1, Expr::from(size))?;
        start += size;
        pieces.push(match drops_axis {
            true => front::without_axes(graph, &piece, &[axis])?,
            false => piece,
        });
    }
    Ok(vec![Operand::of_list(List::Sequence(pieces))])
}

/// Tensors put together along an axis, which may be a new one.
pub(super) fn concat(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let is_new = node.flag("new_axis", false)?;
    let Some(values) = values(node, 0)? else {
        let rank = match node.input(0)?.list() {
            Some(List::Data(Type::Sequence(held))) => match **held {
                ElementType::Tensor { rank, .. } => rank,
                _ => None,
            },
            _ => None,
        };
        // Of values of any rank it is refused all the same.
        let axis = node.axis("axis", 0, rank.unwrap_or(0) + usize::from(is_new))?;
        return by_data(node, graph, ListOperation::Concat { axis, is_new }, 1);
    };
    let mut values = values.to_vec();
    let Some(first) = values.first() else { return Err(shape_error("the sequence is empty")) };
    let axis = node.axis("axis", 0, first.rank() + usize::from(is_new))?;
    for value in values.iter_mut().filter(|_| is_new) {
        let mut shape = value.shape().to_vec();
        if axis > shape.len() {
            return Err(shape_error("the tensors differ in rank"));
        }
        shape.insert(axis, Expr::ONE);
        *value = graph.reshape(value, &shape)?;
    }
    Ok(vec![graph.concat(axis, &values)?])
}

/// A graph applied to the values of sequences, one after the other; tensors are the same each time.
pub(super) fn map(node: &Node<'_>, importer: &mut Importer<'_>) -> Lowered {
    let body = node.graph("body")?;
    let inputs = node.all_inputs()?;
    if body.input.len() != inputs.len() {
        return Err(shape_error("the body does not take what is given"));
    }
    let is_data = |input: &Operand| matches!(input.list(), Some(List::Data(_)));
    let count = match values(node, 0)? {
        Some(values) if !inputs.iter().any(is_data) => values.len(),
        _ => return map_by_data(importer, body, &inputs),
    };
    count_entries(count.saturating_mul(body.output.len()), &mut importer.graph)?;
    let mut results = vec![Vec::new(); body.output.len()];
    for number in 0..count {
        let mut arguments = Vec::new();
        for input in &inputs {
            arguments.push(match input.list() {
                Some(List::Sequence(values)) => values.get(number).cloned().ok_or_else(|| {
                    shape_error(format!("sequences of {} and {count} values", values.len()))
                })?,
                _ => input.clone(),
            });
        }
        for (column, value) in results.iter_mut().zip(importer.inline_with(body, &arguments)?) {
            column.push(value);
        }
    }
    Ok(results.into_iter().map(|column| Operand::of_list(List::Sequence(column))).collect())
}

/// A graph applied to the values of sequences of which only a run knows how many they are: a loop.
fn map_by_data(importer: &mut Importer<'_>, body: &GraphProto, inputs: &[Operand]) -> Lowered {
    importer.prepare(names_captured(body))?;
    let graph = &mut importer.graph;
    graph.all_data(inputs)?;
    let length = graph.list(ListOperation::Length, &[&inputs[0]])?;
    let trip_count = graph.bind(&length, &Expr::from(graph.limits.dimension))?;
    let none = vec![Operand::of_list(List::Sequence(Vec::new())); body.output.len()];
    let mut types = scan_types(&none, &[])?;
    let region = turns(importer, &mut types, (1, none.len()), &mut |importer, parameters| {
        let (number, lists) = parameters.split_at(1);
        let mut arguments = Vec::new();
        for input in inputs {
            arguments.push(match input.list() {
                Some(_) => importer.graph.list(ListOperation::At, &[input, &number[0]])?,
                None => input.clone(),
            });
        }
        let results = importer.inline_with(body, &arguments)?;
        let mut insert = |(list, value)| importer.graph.list(ListOperation::Insert, &[list, value]);
        lists.iter().zip(&results).map(&mut insert).collect()
    })?;
    let op = Op::Scan { trip_count, carried: none.len(), reverse: false };
    importer.graph.control(op, &none, &[region])
}

pub(super) fn optional(node: &Node<'_>, _: &mut Graph) -> Lowered {
    Ok(vec![Operand::of_list(List::Optional(node.optional(0).cloned()))])
}

/// What an optional value holds; anything else is itself.
pub(super) fn element(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    match node.input(0)?.list() {
        Some(List::Optional(Some(value))) => Ok(vec![value.clone()]),
        Some(List::Optional(None)) => Err(shape_error("the optional value is empty")),
        Some(List::Data(Type::Optional(_))) => by_data(node, graph, ListOperation::Element, 1),
        _ => Ok(vec![node.input(0)?.clone()]),
    }
}

pub(super) fn has_element(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let has = match node.optional(0).map(Operand::list) {
        None | Some(Some(List::Optional(None))) => false,
        Some(Some(List::Data(Type::Optional(_)))) => {
            return by_data(node, graph, ListOperation::HasElement, 1);
        }
        Some(_) => true,
    };
    Ok(vec![Operand::of_known(DType::Bool, &[], vec![front::Known::Constant(Scalar::bool(has))])])
}
