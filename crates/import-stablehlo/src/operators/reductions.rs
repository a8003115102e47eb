//! Reductions of axes, sorts, and the greatest elements.

use std::cell::Cell;

use front::{Accepted, Graph, Operand, region as graph_region, shape_error, unsupported};
use graph::Op;
use sym::Expr;
use tensor::{DType, Reduction, ScalarFunction as F};

use super::body::{folded, lifted, reduction_of};
use super::elementwise::total_order;
use crate::importer::{Frame, Importer};
use crate::node::{Lowered, Node, Value, axes_within, part_type};
use crate::syntax::{Attribute, Block, Function, Operation};

/// The body of an operation with regions.
pub(crate) fn region<'p>(node: &Node<'p>, number: usize) -> Accepted<&'p Block> {
    let region = node.operation.regions.get(number);
    region.ok_or_else(|| shape_error("an operation has too few regions"))
}

pub(crate) fn map<'p>(importer: &mut Importer<'p>, node: &Node<'p>, frame: &mut Frame) -> Lowered {
    lifted(importer, node.function, region(node, 0)?, frame, node.operands.clone())
}

/// A value with the reduced axes first, in order, as one axis; the number of its rows.
fn axes_first(graph: &mut Graph, value: &Value, axes: &[usize]) -> Accepted<(Value, Option<i64>)> {
    let shape = value.shape().to_vec();
    let kept: Vec<usize> = (0..shape.len()).filter(|axis| !axes.contains(axis)).collect();
    let mut axes = axes.to_vec();
    axes.sort_unstable();
    let order: Vec<usize> = axes.iter().chain(&kept).copied().collect();
    let count: Expr = axes.iter().map(|&axis| &shape[axis]).product();
    let mut rows = vec![count.clone()];
    rows.extend(kept.iter().map(|&axis| shape[axis].clone()));
    let value = value.each(|part| {
        let part = graph.transpose(part, &order)?;
        graph.reshape(&part, &rows)
    })?;
    Ok((value, count.as_constant()))
}

/// What a body makes of rows, the initial values first, one row after the other.
fn row_by_row<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    block: &'p Block,
    frame: &mut Frame,
    (initial, rows): (Vec<Value>, Vec<Value>),
) -> Lowered {
    importer.settle(std::slice::from_ref(block), frame)?;
    let own = |values: &[Value]| -> Vec<Operand> {
        values.iter().flat_map(Value::parts).cloned().collect()
    };
    let (carried, scanned) = (own(&initial), own(&rows));
    importer.graph.all_data(carried.iter().chain(&scanned))?;
    let types = front::scan_types(&carried, &scanned)?;
    let body = graph_region(importer, &types, |importer, parameters| {
        let mut parts = parameters[1..].iter().cloned();
        let arguments = initial.iter().chain(&rows).map(|value| value.with_parts(&mut parts));
        let arguments = arguments.collect::<Accepted<Vec<Value>>>()?;
        Ok(own(&lifted(importer, node.function, block, frame, arguments)?))
    })?;
    let trip_count = rows[0].shape()[0].clone();
    let op = Op::Scan { trip_count, carried: carried.len(), reverse: false };
    let mut results =
        importer.graph.control(op, &[carried, scanned].concat(), &[body])?.into_iter();
    initial.iter().map(|value| value.with_parts(&mut results)).collect()
}

/// Whether a value is known to be what a reduction starts with.
fn is_identity(value: &Operand, reduction: Reduction) -> bool {
    let identity = reduction.identity(value.dtype());
    // A sum of zeros may be -0.0, which is all the same.
    value.numbers().is_some_and(|numbers| {
        numbers.iter().all(|it| it.bits() == identity.bits() || it.as_f64() == identity.as_f64())
    })
}

pub(crate) fn reduce<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    frame: &mut Frame,
) -> Lowered {
    let count = node.operands.len() / 2;
    let (values, initial) = node.operands.split_at(count);
    if count == 0 || initial.len() != count {
        return Err(shape_error("a reduction has not as many initial values as operands"));
    }
    let axes = axes_within(&node.required("dimensions")?, values[0].rank())?;
    let block = region(node, 0)?;
    if let ([value], [initial], Some(reduction)) =
        (values, initial, reduction_of(node, block, &values[0]))
    {
        return Ok(vec![reduce_plainly(importer, value, initial, &axes, reduction)?]);
    }
    let mut rows = Vec::new();
    let mut rows_count = None;
    for value in values {
        let (value, count) = axes_first(&mut importer.graph, value, &axes)?;
        rows.push(value);
        rows_count = count;
    }
    let shape = rows[0].shape()[1..].to_vec();
    let spread = initial.iter().map(|value| {
        value.each(|part| {
            let part = importer.graph.reshape(part, &[])?;
            importer.graph.broadcast_to(&part, &shape[..])
        })
    });
    let spread = spread.collect::<Accepted<Vec<Value>>>()?;
    let Some(rows_count) = rows_count else {
        return row_by_row(importer, node, block, frame, (spread, rows));
    };
    if rows_count == 0 {
        return Ok(spread);
    }
    let total = folded(importer, node, block, frame, rows, rows_count)?;
    lifted(importer, node.function, block, frame, [spread, total].concat())
}

fn reduce_plainly(
    importer: &mut Importer<'_>,
    value: &Value,
    initial: &Value,
    axes: &[usize],
    reduction: Reduction,
) -> Accepted<Value> {
    let graph = &mut importer.graph;
    let mut starts = initial.parts().into_iter();
    value.each(|part| {
        let start =
            starts.next().ok_or_else(|| shape_error("complex and real numbers are mixed"))?;
        let reduced = graph.reduce_axes(part, axes, reduction, false)?;
        if is_identity(start, reduction) {
            return Ok(reduced);
        }
        graph.map(reduction.as_function(), &[start, &reduced])
    })
}

// --- sorts ---

pub(crate) fn sort<'p>(importer: &mut Importer<'p>, node: &Node<'p>, frame: &mut Frame) -> Lowered {
    let first = node.value(0)?.clone();
    let rank = first.rank();
    let mut axis = node.integer_or("dimension", -1)?;
    axis += if axis < 0 { rank as i64 } else { 0 };
    if rank == 0 {
        return Ok(node.operands.clone());
    }
    let axis = axes_within(&[axis], rank)?[0];
    let block = region(node, 0)?;
    let order = match comparator(importer, node, block, frame)? {
        Some(keys) => order_by_keys(&mut importer.graph, &keys, axis)?,
        None => order_by_counting(importer, node, block, frame, axis)?,
    };
    let graph = &mut importer.graph;
    let indices = front::elementwise_indices(graph, &order, axis, 0)?;
    let axes: Vec<usize> = (0..rank).collect();
    let sorted = node
        .operands
        .iter()
        .map(|value| value.each(|part| graph.gather(part, &axes, &indices, 0, 0)));
    sorted.collect()
}

/// For each place along an axis the number of the element that comes there by keys, of which the
/// first counts most: sorts leave ties as they are, so the least key comes first.
fn order_by_keys(graph: &mut Graph, keys: &[Key], axis: usize) -> Accepted<Operand> {
    let mut order: Option<Operand> = None;
    for Key { elements, descending } in keys.iter().rev() {
        let op = Op::Sort { axis, descending: *descending, kept: None };
        let axes: Vec<usize> = (0..elements.rank()).collect();
        let Some(before) = order else {
            order = Some(graph.primitive_pair(op, &[elements])?.1);
            continue;
        };
        let indices = front::elementwise_indices(graph, &before, axis, 0)?;
        let elements = graph.gather(elements, &axes, &indices, 0, 0)?;
        let own = graph.primitive_pair(op, &[&elements])?.1;
        let indices = front::elementwise_indices(graph, &own, axis, 0)?;
        order = Some(graph.gather(&before, &axes, &indices, 0, 0)?);
    }
    order.ok_or_else(|| shape_error("a comparator has no key"))
}

/// What elements are sorted by.
struct Key {
    elements: Operand,
    /// Whether the greatest comes first.
    descending: bool,
}

/// The keys by which a comparator sorts, that which counts most first: each comparison is of a
/// function of an element of one operand with the same function of the other one, and what is equal
/// by one of them is left to the next (`a < b | a == b & ..`).
fn comparator<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    block: &'p Block,
    frame: &mut Frame,
) -> Accepted<Option<Vec<Key>>> {
    let Some((last, operations)) = block.operations.split_last() else { return Ok(None) };
    let made = |value: usize| operations.iter().find(|it| it.results == [value]);
    let Some(compares) = last.operands.first().and_then(|&it| lexicographic(&made, it)) else {
        return Ok(None);
    };
    let mut keys = Vec::new();
    for compare in compares {
        let Some(key) = key(importer, node, block, frame, (compare, &made))? else {
            return Ok(None);
        };
        keys.push(key);
    }
    Ok(Some(keys))
}

/// The comparisons for order by which a value is made, that which counts most first.
fn lexicographic<'b>(
    made: &impl Fn(usize) -> Option<&'b Operation>,
    result: usize,
) -> Option<Vec<&'b Operation>> {
    let is = |value: usize, name: &str| made(value).filter(|it| it.name == name);
    let pair = |operation: &Operation| -> Option<[usize; 2]> {
        operation.operands.as_slice().try_into().ok()
    };
    let word = |operation: &'b Operation, name: &str| {
        Attribute::of(&operation.attributes, name).and_then(Attribute::word)
    };
    let (mut compares, mut value) = (Vec::new(), result);
    while let Some(or) = is(value, "stablehlo.or") {
        let both = |[a, b]: [usize; 2]| [(a, b), (b, a)];
        let mut orders = both(pair(or)?).into_iter();
        let (order, equal, rest) = orders.find_map(|(order, tied)| {
            let order = is(order, "stablehlo.compare")?;
            let mut parts = both(pair(is(tied, "stablehlo.and")?)?).into_iter();
            parts.find_map(|(equal, rest)| {
                let equal = is(equal, "stablehlo.compare")?;
                let is_equality = word(equal, "comparison_direction") == Some("EQ");
                is_equality.then_some((order, equal, rest))
            })
        })?;
        let is_alike = equal.operands == order.operands
            && word(equal, "compare_type") == word(order, "compare_type");
        if !is_alike || compares.len() >= MOST_KEYS {
            return None;
        }
        compares.push(order);
        value = rest;
    }
    compares.push(is(value, "stablehlo.compare")?);
    Some(compares)
}

/// The most keys that a comparator is taken apart to.
const MOST_KEYS: usize = 16;

/// The key of a comparison.
fn key<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    block: &'p Block,
    frame: &mut Frame,
    (compare, made): (&'p Operation, &impl Fn(usize) -> Option<&'p Operation>),
) -> Accepted<Option<Key>> {
    let [left, right] = compare.operands[..] else { return Ok(None) };
    let word = |name: &str| Attribute::of(&compare.attributes, name).and_then(Attribute::word);
    let descending = match word("comparison_direction") {
        Some("LT") => false,
        Some("GT") => true,
        _ => return Ok(None),
    };
    let is_total = word("compare_type") == Some("TOTALORDER");
    for (number, pair) in block.parameters.chunks(2).enumerate() {
        let [a, b] = pair else { return Ok(None) };
        if !is_same(made, (left, right), (*a, *b), &Cell::new(MOST_COMPARED)) {
            continue;
        }
        // The operations on the left, run on the whole operand.
        let value = node.value(number)?.clone();
        let mut arguments = Vec::new();
        for value in &node.operands {
            arguments.extend([value.clone(), value.clone()]);
        }
        let key = key_of(importer, node.function, block, frame, (arguments, left))?;
        let Value::Tensor(key) = key else { return Ok(None) };
        let key = importer.graph.broadcast_to(&key, value.shape())?;
        let is_float = key.dtype().is_float();
        let graph = &mut importer.graph;
        let elements = match () {
            () if is_total && is_float => total_order(graph, &key)?,
            // A comparison of floats finds no order for NaN.
            () if is_float => return Ok(None),
            () if key.dtype() == DType::Bool => graph.cast(&key, DType::U8)?,
            () => key,
        };
        return Ok(Some(Key { elements, descending }));
    }
    Ok(None)
}

/// How many pairs of values are compared to tell whether a comparator has a key.
const MOST_COMPARED: usize = 256;

/// Whether two values are made alike, one of the first parameter and the other of the second.
fn is_same<'b>(
    made: &impl Fn(usize) -> Option<&'b Operation>,
    (left, right): (usize, usize),
    parameters: (usize, usize),
    left_over: &Cell<usize>,
) -> bool {
    let Some(left_after) = left_over.get().checked_sub(1) else { return false };
    left_over.set(left_after);
    if (left, right) == parameters {
        return true;
    }
    let (Some(a), Some(b)) = (made(left), made(right)) else {
        return left == right && left != parameters.0 && left != parameters.1;
    };
    let is_plain = a.regions.is_empty() && b.regions.is_empty();
    let attributes = format!("{:?}", a.attributes) == format!("{:?}", b.attributes);
    is_plain
        && a.name == b.name
        && a.name != "func.call"
        && attributes
        && a.operands.len() == b.operands.len()
        && a.operands
            .iter()
            .zip(&b.operands)
            .all(|(&a, &b)| is_same(made, (a, b), parameters, left_over))
}

/// The value of a number that a lifted block computes.
fn key_of<'p>(
    importer: &mut Importer<'p>,
    function: &'p Function,
    block: &'p Block,
    frame: &mut Frame,
    (arguments, value): (Vec<Value>, usize),
) -> Accepted<Value> {
    lifted(importer, function, block, frame, arguments)?;
    frame[value].clone().ok_or_else(|| shape_error("a comparator has no key"))
}

/// For each place along an axis the number of the element that comes there: an element's place is
/// the number of those that come before it, which is counted by comparing all with all.
fn order_by_counting<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    block: &'p Block,
    frame: &mut Frame,
    axis: usize,
) -> Accepted<Operand> {
    let shape = node.value(0)?.shape().to_vec();
    let rank = shape.len();
    // An axis for the other element behind all others.
    let square = [&shape[..], &[shape[axis].clone()]].concat();
    importer.graph.check_size(&square)?;
    let own: Vec<usize> = (0..rank).collect();
    let other: Vec<usize> = (0..rank).map(|it| if it == axis { rank } else { it }).collect();
    let mut order: Vec<usize> = (0..rank).filter(|it| *it != axis).collect();
    order.push(axis);
    let sorted: Vec<usize> = order.iter().map(|&it| other[it]).collect();
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for value in &node.operands {
        let graph = &mut importer.graph;
        let mine = value.each(|part| graph.broadcast(part, &square[..], &own))?;
        let theirs = value.each(|part| {
            let part = graph.transpose(part, &order)?;
            graph.broadcast(&part, &square[..], &sorted)
        })?;
        before.extend([theirs.clone(), mine.clone()]);
        after.extend([mine, theirs]);
    }
    let is_before = lifted(importer, node.function, block, frame, before)?;
    let is_after = lifted(importer, node.function, block, frame, after)?;
    let graph = &mut importer.graph;
    let (is_before, is_after) = (is_before[0].real()?, is_after[0].real()?);
    let mine = graph.iota(DType::I64, &square, axis)?;
    let theirs = graph.iota(DType::I64, &square, rank)?;
    let is_earlier = graph.less(&theirs, &mine)?;
    let is_not_after = graph.map(F::Not, &[is_after])?;
    let is_tied = graph.and(&is_earlier, &is_not_after)?;
    let counts = graph.or(is_before, &is_tied)?;
    let counts = graph.cast(&counts, DType::I64)?;
    let places = graph.reduce_axes(&counts, &[rank], Reduction::Sum, false)?;
    // The places are a permutation: sorting them gives the inverse.
    let op = Op::Sort { axis, descending: false, kept: None };
    Ok(graph.primitive_pair(op, &[&places])?.1)
}

pub(crate) fn top_k<'p>(importer: &mut Importer<'p>, node: &Node<'p>, _: &mut Frame) -> Lowered {
    let graph = &mut importer.graph;
    let value = node.real(0)?;
    let k = node.integer("k")?;
    let Some(axis) = value.rank().checked_sub(1) else {
        return Err(shape_error("a scalar has no axis to search"));
    };
    let extent = value.shape()[axis].as_constant();
    let kept = usize::try_from(k).ok().filter(|_| extent.is_none_or(|extent| k <= extent));
    let Some(kept) = kept else {
        return Err(shape_error(format!("the {k} greatest of {extent:?} elements")));
    };
    let indices = first_places(graph, value, axis, (kept, true))?;
    let axes: Vec<usize> = (0..value.rank()).collect();
    let at = front::elementwise_indices(graph, &indices, axis, 0)?;
    let values = graph.gather(value, &axes, &at, 0, 0)?;
    let indices = graph.cast(&indices, part_type(&node.result_type(1)?.element)?)?;
    Ok(vec![values.into(), indices.into()])
}

/// The places along an axis of so many of its greatest elements, or its least, in their total
/// order: what is equal keeps its order.
fn first_places(
    graph: &mut Graph,
    value: &Operand,
    axis: usize,
    (kept, descending): (usize, bool),
) -> Accepted<Operand> {
    let keys = match value.dtype() {
        DType::Bool => graph.cast(value, DType::U8)?,
        dtype if dtype.is_float() => total_order(graph, value)?,
        _ => value.clone(),
    };
    let op = Op::Sort { axis, descending, kept: Some(kept) };
    Ok(graph.primitive_pair(op, &[&keys])?.1)
}

/// The greatest or least elements along an axis, found exactly, and what lies at their places of
/// other operands: the call `ApproxTopK`, with a record of what it is told. Which of both is said
/// by a function that compares two elements; zeros of both signs are equal. There are as many as
/// the result has places.
pub(crate) fn approximate_top_k<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    told: impl Fn(&str) -> Option<i64>,
) -> Lowered {
    let compared = match node.attribute("called_computations") {
        Some(Attribute::List(names)) if names.len() == 1 => names[0].word(),
        _ => None,
    };
    let function = compared.and_then(|name| importer.program.function(name));
    let descending = function.and_then(|it| is_order(&it.body)).ok_or_else(|| {
        unsupported("greatest elements by something else than a comparison of two")
    })?;
    let count = node.operands.len() / 2;
    let value = node.real(0)?;
    let rank = value.rank();
    let Some(axis) = told("reduction_dim") else {
        return Err(shape_error("`reduction_dim` is not told"));
    };
    let axis = axes_within(&[axis], rank)?[0];
    let shape = node.fixed_shape(0)?;
    let kept = shape.get(axis).and_then(Expr::as_constant);
    let Some(kept) = kept.and_then(|kept| usize::try_from(kept).ok()) else {
        return Err(shape_error("the result has another rank"));
    };
    let extent = value.shape()[axis].as_constant();
    if let Some(extent) = extent.filter(|extent| kept as i64 > *extent) {
        return Err(shape_error(format!("the first {kept} of {extent} elements")));
    }
    let graph = &mut importer.graph;
    let mut keys = value.clone();
    if keys.dtype().is_float() {
        let zero = graph.number(keys.dtype(), 0.0);
        let is_zero = graph.map(F::Eq, &[&keys, &zero])?;
        keys = graph.select(&is_zero, &zero, &keys)?;
    }
    let places = first_places(graph, &keys, axis, (kept, descending))?;
    let at = front::elementwise_indices(graph, &places, axis, 0)?;
    let axes: Vec<usize> = (0..rank).collect();
    let found = node.operands[..count].iter().map(|operand| {
        if operand.shape() != value.shape() {
            return Err(shape_error("operands differ in shape"));
        }
        operand.each(|part| graph.gather(part, &axes, &at, 0, 0))
    });
    found.collect()
}

/// Whether a body that compares its first two parameters has the greater one first.
fn is_order(block: &Block) -> Option<bool> {
    let [compare, result] = &block.operations[..] else { return None };
    let is_plain = compare.name == "stablehlo.compare"
        && block.parameters.get(..2) == Some(&compare.operands[..])
        && result.operands == compare.results;
    let direction = Attribute::of(&compare.attributes, "comparison_direction")?.word();
    match direction {
        Some("GT") if is_plain => Some(true),
        Some("LT") if is_plain => Some(false),
        _ => None,
    }
}
