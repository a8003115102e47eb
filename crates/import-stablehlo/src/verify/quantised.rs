//! What the dialect demands of quantised types: where several scales may stand, and which types go
//! together.
//!
//! Source: the constraints of each operation in StableHLO's specification.

use front::{Accepted, shape_error, type_error};

use crate::node::Node;
use crate::operators::{Lower, Row};
use crate::syntax::{ElementType, Quantisation, TensorType, ValueType};

/// Operations whose values may have a scale for each index of an axis.
const SEVERAL_SCALES: &[&str] = &[
    "add",
    "bitcast_convert",
    "broadcast_in_dim",
    "case",
    "composite",
    "constant",
    "convolution",
    "custom_call",
    "dot",
    "dot_general",
    "dynamic_broadcast_in_dim",
    "dynamic_conv",
    "dynamic_reshape",
    "get_dimension_size",
    "get_tuple_element",
    "if",
    "reshape",
    "transpose",
    "tuple",
    "uniform_dequantize",
    "uniform_quantize",
    "while",
];

/// Operations that work on each element, whose operands and results are of different types by what
/// they do.
const OF_SEVERAL_TYPES: &[&str] = &[
    "bitcast_convert",
    "compare",
    "composite",
    "constant",
    "convert",
    "get_tuple_element",
    "is_finite",
    "map",
    "optimization_barrier",
    "select",
    "tuple",
    "uniform_dequantize",
    "uniform_quantize",
];

/// Refuses an operation whose quantised types are not as the dialect demands.
pub(super) fn verify(row: &Row, node: &Node<'_>) -> Accepted<()> {
    let Some(name) = row.name.strip_prefix("stablehlo.") else { return Ok(()) };
    let types = types(node);
    if types.clone().all(|ty| quantisation(ty).is_none()) {
        return Ok(());
    }
    let has_several = |ty: &TensorType| quantisation(ty).is_some_and(|it| it.axis.is_some());
    if !SEVERAL_SCALES.contains(&name) && types.clone().any(has_several) {
        return Err(type_error("quantised numbers with a scale for each index of an axis"));
    }
    for ty in types.clone() {
        scales_of_axis(ty)?;
    }
    let is_elementwise = matches!(row.lower, Lower::Map(_) | Lower::Elementwise(_));
    match name {
        "add" => alike(node).and_then(|()| sum(node)),
        "uniform_quantize" => quantised(node),
        "reshape" | "dynamic_reshape" => moved(node).and_then(|()| reshaped(node)),
        "transpose" => moved(node).and_then(|()| transposed(node)),
        "broadcast_in_dim" | "dynamic_broadcast_in_dim" => broadcast(node),
        "dot_general" => dot_general(node),
        "convolution" | "dynamic_conv" => convolution(node),
        _ if is_elementwise && !OF_SEVERAL_TYPES.contains(&name) => alike(node),
        _ => Ok(()),
    }
}

/// The types of all operands and results that are tensors.
fn types<'n>(node: &'n Node<'_>) -> impl Iterator<Item = &'n TensorType> + Clone {
    let values = node.operation.operands.iter().chain(&node.operation.results);
    values.filter_map(|&value| match &node.function.values[value] {
        ValueType::Tensor(ty) => Some(ty),
        _ => None,
    })
}

fn quantisation(ty: &TensorType) -> Option<&Quantisation> {
    match &ty.element {
        ElementType::Quantised(it) => Some(it),
        _ => None,
    }
}

/// What is stored, and what it stands for, are the same.
fn is_alike(a: &Quantisation, b: &Quantisation) -> bool {
    (a.storage, a.expressed) == (b.storage, b.expressed)
}

/// Several scales are as many as their axis is long.
fn scales_of_axis(ty: &TensorType) -> Accepted<()> {
    let Some(Quantisation { axis: Some(axis), scales, .. }) = quantisation(ty) else {
        return Ok(());
    };
    match ty.shape.get(*axis) {
        Some(None) => Ok(()),
        Some(Some(extent)) if *extent == scales.len() => Ok(()),
        _ => Err(shape_error(format!("{} scales for axis {axis} of a type", scales.len()))),
    }
}

/// Operands and results are quantised all or none, and alike.
fn alike(node: &Node<'_>) -> Accepted<()> {
    let mut all = types(node).map(quantisation);
    let first = all.next().flatten();
    let fits = |it: Option<&Quantisation>| match (first, it) {
        (Some(first), Some(it)) => is_alike(first, it),
        (first, it) => first.is_none() && it.is_none(),
    };
    match all.all(fits) {
        true => Ok(()),
        false => Err(type_error("quantised types that differ in what they store or stand for")),
    }
}

/// A sum has several scales where an operand has, along the same axis.
fn sum(node: &Node<'_>) -> Accepted<()> {
    let axis = |ty: &TensorType| quantisation(ty).and_then(|it| it.axis);
    let result = axis(node.result_type(0)?);
    let operands = [axis(node.operand_type(0)?), axis(node.operand_type(1)?)];
    let fits = match operands {
        [None, None] => result.is_none(),
        operands => operands.into_iter().flatten().all(|own| Some(own) == result),
    };
    if fits { Ok(()) } else { Err(type_error("a sum's scales are not those of its operands")) }
}

/// What is quantised is of the type that the result's integers stand for.
fn quantised(node: &Node<'_>) -> Accepted<()> {
    let Some(to) = quantisation(node.result_type(0)?) else { return Ok(()) };
    let fits = match &node.operand_type(0)?.element {
        ElementType::Plain(dtype) => *dtype == to.expressed,
        ElementType::Quantised(from) => from.expressed == to.expressed,
        ElementType::Complex(_) | ElementType::Other(_) => false,
    };
    match fits {
        true => Ok(()),
        false => Err(type_error(format!("the result's integers stand for {}", to.expressed))),
    }
}

/// Movements keep types; of several scales all but the axis.
fn moved(node: &Node<'_>) -> Accepted<()> {
    let pair = (quantisation(node.operand_type(0)?), quantisation(node.result_type(0)?));
    let fits = match pair {
        (Some(from), Some(to)) => {
            is_alike(from, to)
                && from.range == to.range
                && from.axis.is_some() == to.axis.is_some()
                && from.scales == to.scales
                && from.zero_points == to.zero_points
        }
        (from, to) => from.is_none() && to.is_none(),
    };
    if fits { Ok(()) } else { Err(type_error("a movement changes scales or zero points")) }
}

/// The axes of several scales of the operand and the result.
fn axes_of_scales(node: &Node<'_>) -> Accepted<Option<(usize, usize)>> {
    let axis = |ty: &TensorType| quantisation(ty).and_then(|it| it.axis);
    let (from, to) = (node.operand_type(0)?, node.result_type(0)?);
    Ok(axis(from).zip(axis(to)))
}

fn other_axis() -> base::Diagnostic {
    shape_error("the result's scales are along another axis than the operand's")
}

/// The axis of several scales stays one, with as many elements before and behind it.
fn reshaped(node: &Node<'_>) -> Accepted<()> {
    let Some((from, to)) = axes_of_scales(node)? else { return Ok(()) };
    let (old, new) = (&node.operand_type(0)?.shape, &node.result_type(0)?.shape);
    let count = |extents: &[Option<usize>]| {
        extents.iter().try_fold(1, |all, it| it.and_then(|it| it.checked_mul(all)))
    };
    let differ = |a: &[Option<usize>], b: &[Option<usize>]| {
        count(a).zip(count(b)).is_some_and(|(a, b)| a != b)
    };
    match differ(&old[..from], &new[..to]) || differ(&old[from + 1..], &new[to + 1..]) {
        true => Err(other_axis()),
        false => Ok(()),
    }
}

fn transposed(node: &Node<'_>) -> Accepted<()> {
    let Some((from, to)) = axes_of_scales(node)? else { return Ok(()) };
    match node.required("permutation")?.get(to) {
        Some(&axis) if axis == from as i64 => Ok(()),
        _ => Err(other_axis()),
    }
}

/// An axis of one scale may be repeated, with its scale.
fn broadcast(node: &Node<'_>) -> Accepted<()> {
    let Some((from, to)) = axes_of_scales(node)? else { return moved(node) };
    if node.required("broadcast_dimensions")?.get(from) != Some(&(to as i64)) {
        return Err(other_axis());
    }
    let pair = (quantisation(node.operand_type(0)?), quantisation(node.result_type(0)?));
    let (Some(old), Some(new)) = pair else { return Ok(()) };
    let own = |number: usize| if old.scales.len() == 1 { 0 } else { number };
    let is_kept = |number: usize| {
        old.scales.get(own(number)) == new.scales.get(number)
            && old.zero_points.get(own(number)) == new.zero_points.get(number)
    };
    match is_alike(old, new) && (0..new.scales.len()).all(is_kept) {
        true => Ok(()),
        false => Err(type_error("a movement changes scales or zero points")),
    }
}

/// Which types a product's operands and result may have; those of the second operand.
fn product<'n>(node: &'n Node<'_>) -> Accepted<&'n Quantisation> {
    let (a, b, result) = (node.operand_type(0)?, node.operand_type(1)?, node.result_type(0)?);
    let reason = match (quantisation(a), quantisation(b), quantisation(result)) {
        (Some(a), Some(b), Some(result)) => {
            if a.storage != b.storage {
                "the operands of a product are stored otherwise"
            } else if [a.expressed, result.expressed] != [b.expressed; 2] {
                "the quantised types of a product stand for different types"
            } else if b.axis.is_none() && result.axis.is_some() {
                "a product has several scales, of an operand of one"
            } else {
                return Ok(b);
            }
        }
        (None, Some(b), None) => {
            let expressed = ElementType::Plain(b.expressed);
            if a.element == expressed && result.element == expressed {
                return Ok(b);
            }
            "the numbers of a product are not of the type that its integers stand for"
        }
        _ => "of a product the second operand is quantised, and the first as the result is",
    };
    Err(type_error(reason))
}

fn dot_general(node: &Node<'_>) -> Accepted<()> {
    let b = product(node)?;
    if b.zero_points.iter().any(|point| *point != 0) {
        return Err(type_error("the zero points of a product's second operand are not 0"));
    }
    let Some(axis) = b.axis else { return Ok(()) };
    let rank = node.operand_type(1)?.shape.len();
    match node.axes_of("dot_dimension_numbers", "rhs_contracting_dimensions", rank)? {
        summed if summed.contains(&axis) => {
            Err(shape_error("an axis of several scales is summed over"))
        }
        _ => Ok(()),
    }
}

fn convolution(node: &Node<'_>) -> Accepted<()> {
    const RECORD: &str = "dimension_numbers";
    let kernel = product(node)?;
    let result = quantisation(node.result_type(0)?);
    let sides = [
        (kernel.axis, "kernel_output_feature_dimension"),
        (result.and_then(|it| it.axis), "output_feature_dimension"),
    ];
    for (axis, name) in sides {
        if axis.is_some() && axis != node.axis_of(RECORD, name)? {
            return Err(shape_error("scales of a convolution are not along its features"));
        }
    }
    Ok(())
}
