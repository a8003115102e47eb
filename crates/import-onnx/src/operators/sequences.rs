//! Sequences and optional values: structure, not data. What they are made of is known while
//! importing, so these operators only pass tensors on.

use front::{Accepted, Graph, List, Operand, shape_error, type_error};
use sym::Expr;
use tensor::{DType, Scalar};

use super::Lowered;
use crate::importer::Importer;
use crate::node::Node;

fn sequence(values: Vec<Operand>, graph: &mut Graph) -> Lowered {
    count_entries(values.len(), graph)?;
    Ok(vec![Operand::of_list(List::Sequence(values))])
}

/// Counts the values of a sequence against the limit on computed elements: a model of a few nodes
/// can ask for any number, and each sequence has its own list of them.
fn count_entries(entries: usize, graph: &mut Graph) -> Accepted<()> {
    graph.count_computed(entries.saturating_mul(4), "the values of sequences, four for each")
}

/// The values of an input that is a sequence.
fn values<'a>(node: &'a Node<'_>, index: usize) -> Accepted<&'a [Operand]> {
    match node.input(index)?.list() {
        Some(List::Sequence(values)) => Ok(values),
        _ => Err(type_error(format!("input {index} is no sequence"))),
    }
}

/// A place in a sequence that an input gives; negative ones count from the end.
fn place(node: &Node<'_>, index: usize, count: usize, last: usize) -> Accepted<usize> {
    let given = node.single_number(index, "position in the sequence")?.as_i64();
    let counted = if given < 0 { given.checked_add(count as i64) } else { Some(given) };
    let found = counted.and_then(|place| usize::try_from(place).ok()).filter(|&at| at <= last);
    found.ok_or_else(|| shape_error(format!("there is no place {given} in {count} values")))
}

pub(super) fn empty(_: &Node<'_>, graph: &mut Graph) -> Lowered {
    sequence(Vec::new(), graph)
}

pub(super) fn construct(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    sequence(node.all_inputs()?, graph)
}

pub(super) fn at(node: &Node<'_>, _: &mut Graph) -> Lowered {
    let values = values(node, 0)?;
    let Some(last) = values.len().checked_sub(1) else {
        return Err(shape_error("the sequence is empty"));
    };
    Ok(vec![values[place(node, 1, values.len(), last)?].clone()])
}

pub(super) fn insert(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let mut values = values(node, 0)?.to_vec();
    let at = match node.optional(2) {
        Some(_) => place(node, 2, values.len(), values.len())?,
        None => values.len(),
    };
    values.insert(at, node.input(1)?.clone());
    sequence(values, graph)
}

pub(super) fn erase(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let mut values = values(node, 0)?.to_vec();
    let Some(last) = values.len().checked_sub(1) else {
        return Err(shape_error("the sequence is empty"));
    };
    let at = match node.optional(1) {
        Some(_) => place(node, 1, values.len(), last)?,
        None => last,
    };
    values.remove(at);
    sequence(values, graph)
}

pub(super) fn length(node: &Node<'_>, _: &mut Graph) -> Lowered {
    let count = values(node, 0)?.len() as i64;
    Ok(vec![Operand::of_scalar(Scalar::i64(count))])
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
            true => super::reductions::without_axes(graph, &piece, &[axis])?,
            false => piece,
        });
    }
    Ok(vec![Operand::of_list(List::Sequence(pieces))])
}

/// Tensors put together along an axis, which may be a new one.
pub(super) fn concat(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let mut values = values(node, 0)?.to_vec();
    let Some(first) = values.first() else { return Err(shape_error("the sequence is empty")) };
    if !node.flag("new_axis", false)? {
        let axis = node.axis("axis", 0, first.rank())?;
        return Ok(vec![graph.concat(axis, &values)?]);
    }
    let axis = node.axis("axis", 0, first.rank() + 1)?;
    for value in &mut values {
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
    let count = values(node, 0)?.len();
    if body.input.len() != inputs.len() {
        return Err(shape_error("the body does not take what is given"));
    }
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

pub(super) fn optional(node: &Node<'_>, _: &mut Graph) -> Lowered {
    Ok(vec![Operand::of_list(List::Optional(node.optional(0).cloned()))])
}

/// What an optional value holds; anything else is itself.
pub(super) fn element(node: &Node<'_>, _: &mut Graph) -> Lowered {
    match node.input(0)?.list() {
        Some(List::Optional(Some(value))) => Ok(vec![value.clone()]),
        Some(List::Optional(None)) => Err(shape_error("the optional value is empty")),
        _ => Ok(vec![node.input(0)?.clone()]),
    }
}

pub(super) fn has_element(node: &Node<'_>, _: &mut Graph) -> Lowered {
    let has = match node.optional(0) {
        None => false,
        Some(value) => !matches!(value.list(), Some(List::Optional(None))),
    };
    Ok(vec![Operand::of_known(DType::Bool, &[], vec![front::Known::Constant(Scalar::bool(has))])])
}
