//! Arithmetic, comparisons, logic, bits and conversions, element by element.

use front::{Accepted, Graph, Operand};
use sym::Expr;
use tensor::minifloat::Overflow;
use tensor::{DType, Scalar, ScalarFunction as F};

use super::Lowered;
use crate::data_type::data_type_of_name;
use crate::node::{Node, attribute_error, unsupported};

/// An operator that is one scalar function of one input.
pub(super) fn unary(node: &Node<'_>, graph: &mut Graph, function: F) -> Lowered {
    Ok(vec![graph.map(function, &[node.input(0)?])?])
}

/// An operator that is one scalar function of two inputs, broadcast.
pub(super) fn binary(node: &Node<'_>, graph: &mut Graph, function: F) -> Lowered {
    let a = node.input(0)?;
    let b = aligned(node, graph, a, node.input(1)?)?;
    Ok(vec![graph.map(function, &[a, &b])?])
}

/// The second input as the first calls for it: before version 7 an attribute says with which axis
/// of the first its axes start to correspond.
fn aligned(node: &Node<'_>, graph: &mut Graph, a: &Operand, b: &Operand) -> Accepted<Operand> {
    if node.version >= 7 || !node.flag("broadcast", false)? || !node.has("axis") {
        return Ok(b.clone());
    }
    let axis = node.axis("axis", 0, a.rank())?;
    let behind = a.rank().saturating_sub(axis + b.rank());
    let mut shape = b.shape().to_vec();
    shape.extend(std::iter::repeat_n(Expr::ONE, behind));
    graph.reshape(b, &shape)
}

/// An operator that folds any number of inputs by one scalar function.
pub(super) fn variadic(node: &Node<'_>, graph: &mut Graph, function: F) -> Lowered {
    let inputs = node.all_inputs()?;
    let (first, rest) = inputs.split_first().ok_or_else(|| unsupported("it has no inputs"))?;
    let folded = rest
        .iter()
        .try_fold(first.clone(), |total, input| graph.map(function, &[&total, input]))?;
    Ok(vec![folded])
}

/// The mean of any number of inputs.
pub(super) fn mean(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let sum = variadic(node, graph, F::Add)?.remove(0);
    let count = graph.number(sum.dtype(), node.inputs.len() as f64);
    Ok(vec![graph.div(&sum, &count)?])
}

/// Remainders: of floored division, or with `fmod` of truncated division.
pub(super) fn modulo(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let function = if node.flag("fmod", false)? { F::Rem } else { F::Mod };
    binary(node, graph, function)
}

/// Powers. The result has the type of the base, whatever that of the exponent.
pub(super) fn power(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let base = node.input(0)?;
    let exponent = node.input(1)?.as_attribute();
    if exponent.rank() <= base.rank()
        && let Some([number]) = exponent.numbers().as_deref()
        && let Some(power) = graph.short_power(base, number.as_f64())?
    {
        return Ok(vec![power]);
    }
    let exponent = aligned(node, graph, base, &exponent)?;
    let fractional = exponent.dtype().is_float() && !base.dtype().is_float();
    let common = if fractional { exponent.dtype() } else { base.dtype() };
    let wide_base = graph.cast(base, common)?;
    let exponent = graph.cast(&exponent, common)?;
    let power = graph.map(F::Pow, &[&wide_base, &exponent])?;
    Ok(vec![graph.cast(&power, base.dtype())?])
}

/// Shifts in the attribute's direction.
pub(super) fn bit_shift(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let function = match node.word("direction", &["LEFT", "RIGHT"])? {
        "LEFT" => F::Shl,
        _ => F::Shr,
    };
    binary(node, graph, function)
}

/// Bounds, as inputs since version 11, before as attributes.
pub(super) fn clip(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let mut value = node.input(0)?.clone();
    for (index, name, function) in [(1, "min", F::Max), (2, "max", F::Min)] {
        if index == 1 && base::fault::is_seeded("import.clip") {
            continue;
        }
        let bound = if node.version < 11 {
            let bound = graph.number(value.dtype(), node.float(name, 0.0)?);
            node.has(name).then_some(bound)
        } else {
            node.optional(index).map(|bound| graph.reshape(bound, &[])).transpose()?
        };
        if let Some(bound) = bound {
            value = graph.map(function, &[&value, &bound])?;
        }
    }
    Ok(vec![value])
}

/// Infinities, of one sign or both.
pub(super) fn is_inf(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let value = node.input(0)?;
    let positive = node.flag("detect_positive", true)?;
    let negative = node.flag("detect_negative", true)?;
    let infinite = graph.map(F::IsInf, &[value])?;
    if positive && negative {
        return Ok(vec![infinite]);
    }
    if !positive && !negative {
        return Ok(vec![graph.full(value.shape(), Scalar::bool(false))?]);
    }
    let zero = graph.number(value.dtype(), 0.0);
    let function = if positive { F::Gt } else { F::Lt };
    let signed = graph.map(function, &[value, &zero])?;
    Ok(vec![graph.and(&infinite, &signed)?])
}

/// One of two values by a condition.
pub(super) fn select(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    Ok(vec![graph.select(node.input(0)?, node.input(1)?, node.input(2)?)?])
}

/// A conversion to the type that an attribute names.
pub(super) fn cast(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let to = required_type(node)?;
    convert(node, graph, to)
}

/// A conversion to the type of another input.
pub(super) fn cast_like(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let to = node.input(1)?.dtype();
    convert(node, graph, to)
}

pub(super) fn required_type(node: &Node<'_>) -> Accepted<DType> {
    if !node.has("to") {
        return Err(attribute_error("to", "it is missing"));
    }
    match node.version {
        ..6 => data_type_of_name(node.string("to", "")?),
        _ => node.dtype("to", DType::F32),
    }
}

fn convert(node: &Node<'_>, graph: &mut Graph, to: DType) -> Lowered {
    let value = node.input(0)?;
    let is_short = to.is_float() && to.bits() == 8 && to != DType::F8E8M0;
    if is_short && value.dtype().is_float() && !node.flag("saturate", true)? {
        return Ok(vec![cast_unsaturated(graph, value, to)?]);
    }
    if to == DType::F8E8M0 && value.dtype().is_float() {
        let mode = node.word("round_mode", &["up", "down", "nearest"])?;
        let power = if mode == "nearest" { value.clone() } else { to_power(graph, value, mode)? };
        return Ok(vec![graph.cast(&power, to)?]);
    }
    if to.is_integer() && to.bits() < 8 && value.dtype().is_float() {
        // Numbers beyond the range wrap.
        let whole = graph.cast(value, DType::I32)?;
        return Ok(vec![graph.cast(&whole, to)?]);
    }
    Ok(vec![graph.cast(value, to)?])
}

/// The next power of two, up or down in magnitude: what is behind the exponent decides.
fn to_power(graph: &mut Graph, value: &Operand, mode: &str) -> Accepted<Operand> {
    let wide = graph.cast(value, DType::F64)?;
    let mut bits = graph.primitive(graph::Op::Bitcast { dtype: DType::U64 }, &[&wide])?;
    let word = |bits: u64| Operand::of_scalar(Scalar::from_bits(DType::U64, bits));
    if mode == "up" {
        bits = graph.add(&bits, &word((1 << 52) - 1))?;
    }
    let bits = graph.and(&bits, &word(0xfff << 52))?;
    let power = graph.primitive(graph::Op::Bitcast { dtype: DType::F64 }, &[&bits])?;
    let is_nan = graph.map(F::IsNan, &[&wide])?;
    graph.select(&is_nan, &wide, &power)
}

/// A conversion to a short float in which numbers beyond the largest become infinite, or NaN where
/// the type has no infinity.
fn cast_unsaturated(graph: &mut Graph, value: &Operand, to: DType) -> Accepted<Operand> {
    let largest = Scalar::from_f64(to, f64::MAX);
    // Half a step above the largest number; on the tie an even largest number wins.
    let below = Scalar::from_bits(to, largest.bits() - 1);
    let limit = largest.as_f64() + (largest.as_f64() - below.as_f64()) / 2.0;
    let limit = graph.number(value.dtype(), limit);
    let magnitude = graph.abs(value)?;
    let beyond = match largest.bits() % 2 {
        0 => graph.greater(&magnitude, &limit)?,
        _ => graph.greater_equal(&magnitude, &limit)?,
    };
    let special = |number| Operand::of_scalar(Scalar::from_f64_with(to, number, Overflow::Special));
    let zero = graph.number(value.dtype(), 0.0);
    let negative = graph.less(value, &zero)?;
    let (low, high) = (special(f64::NEG_INFINITY), special(f64::INFINITY));
    let signed = graph.select(&negative, &low, &high)?;
    let within = graph.cast(value, to)?;
    graph.select(&beyond, &signed, &within)
}

/// The same bits as another type.
pub(super) fn bit_cast(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let to = required_type(node)?;
    Ok(vec![graph.primitive(graph::Op::Bitcast { dtype: to }, &[node.input(0)?])?])
}
