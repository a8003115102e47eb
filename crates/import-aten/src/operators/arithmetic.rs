//! Operators that compute each element from elements of the same place.

use front::{Accepted, Graph, Operand, scaled_bessel, type_error, unsupported};
use tensor::{DType, ScalarFunction as F};

use crate::node::{Lowered, Node};

/// A scalar function of a value in the result's type.
pub(super) fn unary(node: &Node<'_>, graph: &mut Graph, function: F) -> Lowered {
    let x = node.operand_as(graph, (0, "self"), node.dtype()?)?;
    Ok(vec![graph.map(function, &[&x])?])
}

/// A rounding: integers stay as they are.
pub(super) fn rounding(node: &Node<'_>, graph: &mut Graph, function: F) -> Lowered {
    let x = node.tensor(0, "self")?;
    if !x.dtype().is_float() {
        return Ok(vec![x]);
    }
    let decimals = node.int(1, "decimals", 0)?;
    if decimals != 0 {
        let digits = i32::try_from(decimals).unwrap_or(i32::MAX);
        let factor = 10.0_f64.powi(digits.saturating_abs());
        let rounded = graph.rounded_once(&x, |graph, x| {
            let factor = graph.number(x.dtype(), factor);
            let (up, down) = if digits > 0 { (F::Mul, F::Div) } else { (F::Div, F::Mul) };
            let scaled = graph.map(up, &[x, &factor])?;
            let rounded = graph.map(function, &[&scaled])?;
            graph.map(down, &[&rounded, &factor])
        })?;
        return Ok(vec![rounded]);
    }
    Ok(vec![graph.map(function, &[&x])?])
}

/// A test of floats, false of all others.
pub(super) fn test(node: &Node<'_>, graph: &mut Graph, function: F) -> Lowered {
    let x = node.tensor(0, "self")?;
    let x = if x.dtype().is_float() { x } else { graph.cast(&x, DType::F32)? };
    Ok(vec![graph.map(function, &[&x])?])
}

/// A formula of a float in the result's type, computed wide and rounded once.
pub(super) fn formula(
    node: &Node<'_>,
    graph: &mut Graph,
    formula: impl FnOnce(&mut Graph, &Operand) -> Accepted<Operand>,
) -> Lowered {
    let x = node.operand_as(graph, (0, "self"), node.dtype()?)?;
    if !x.dtype().is_float() {
        return Err(type_error(format!("{} where floats are needed", x.dtype())));
    }
    Ok(vec![graph.rounded_once(&x, formula)?])
}

/// `I0(x)`, the modified Bessel function of the first kind and order 0, computed in f64.
pub(super) fn bessel(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.operand_as(graph, (0, "self"), DType::F64)?;
    let scaled = scaled_bessel(graph, &x, 0)?;
    let size = graph.abs(&x)?;
    let growth = graph.exp(&size)?;
    let found = graph.mul(&scaled, &growth)?;
    Ok(vec![graph.cast(&found, node.dtype()?)?])
}

/// A scalar function of two operands in the result's type.
pub(super) fn binary(node: &Node<'_>, graph: &mut Graph, function: F) -> Lowered {
    let dtype = node.dtype()?;
    let a = node.operand_as(graph, (0, "self"), dtype)?;
    let b = node.operand_as(graph, (1, "other"), dtype)?;
    Ok(vec![graph.map(function, &[&a, &b])?])
}

/// `self + alpha * other`, or with a sign; with `turned` the operands change places.
pub(super) fn sum(node: &Node<'_>, graph: &mut Graph, function: F, turned: bool) -> Lowered {
    let dtype = node.dtype()?;
    let (mut a, mut b) =
        (node.operand_as(graph, (0, "self"), dtype)?, node.operand_as(graph, (1, "other"), dtype)?);
    let scaled = if turned { &mut a } else { &mut b };
    if node.argument(2, "alpha").is_some() {
        let alpha = node.operand_as(graph, (2, "alpha"), dtype)?;
        if alpha.numbers().is_none_or(|numbers| numbers.iter().any(|it| it.as_f64() != 1.0)) {
            let function = if dtype == DType::Bool { F::And } else { F::Mul };
            *scaled = graph.map(function, &[scaled, &alpha])?;
        }
    }
    let (first, second) = if turned { (&b, &a) } else { (&a, &b) };
    Ok(vec![match (function, dtype) {
        (F::Add, DType::Bool) => graph.map(F::Or, &[first, second])?,
        _ => graph.map(function, &[first, second])?,
    }])
}

/// A product; of flags a conjunction.
pub(super) fn product(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let function = if node.dtype()? == DType::Bool { F::And } else { F::Mul };
    binary(node, graph, function)
}

/// A quotient, as it is or rounded.
pub(super) fn quotient(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let mode = node.text(2, "rounding_mode", "")?.to_owned();
    divided(node, graph, &mode)
}

/// The quotient rounded down.
pub(super) fn floor_quotient(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    divided(node, graph, "floor")
}

fn divided(node: &Node<'_>, graph: &mut Graph, mode: &str) -> Lowered {
    let dtype = node.dtype()?;
    let a = node.operand_as(graph, (0, "self"), dtype)?;
    let b = node.operand_as(graph, (1, "other"), dtype)?;
    let quotient = graph.div(&a, &b)?;
    Ok(vec![match (mode, dtype.is_float()) {
        ("", true) | ("trunc", false) => quotient,
        ("trunc", true) => graph.map(F::Trunc, &[&quotient])?,
        ("floor", false) => {
            let rest = graph.map(F::Mod, &[&a, &b])?;
            let whole = graph.sub(&a, &rest)?;
            graph.div(&whole, &b)?
        }
        // What remains is taken off first: the quotient of what is left is whole but for rounding.
        ("floor", true) => {
            let rest = graph.map(F::Mod, &[&a, &b])?;
            let whole = graph.sub(&a, &rest)?;
            let whole = graph.div(&whole, &b)?;
            let whole = graph.round(&whole)?;
            let zero = graph.number(dtype, 0.0);
            let by_zero = graph.equal(&b, &zero)?;
            graph.select(&by_zero, &quotient, &whole)?
        }
        _ => return Err(unsupported(format!("the rounding mode \"{mode}\" for {dtype}"))),
    }])
}

/// A power; squares and roots by name are not by way of logarithms.
pub(super) fn power(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let dtype = node.dtype()?;
    let a = node.operand_as(graph, (0, "self"), dtype)?;
    let b = node.operand_as(graph, (1, "exponent"), dtype)?;
    let exponent = match node.argument(1, "exponent") {
        Some(crate::TraceArgument::Value(_)) | None => None,
        Some(_) => node.number(1, "exponent")?,
    };
    if let Some(exponent) = exponent
        && let Some(power) = graph.short_power(&a, exponent)?
    {
        return Ok(vec![power]);
    }
    Ok(vec![match exponent {
        Some(1.0) => a,
        Some(2.0) if dtype != DType::Bool => graph.square(&a)?,
        Some(0.5) if dtype.is_float() => graph.sqrt(&a)?,
        Some(number) if number >= 0.0 => graph.map(F::Pow, &[&a, &b])?,
        _ => {
            let power = graph.map(F::Pow, &[&a, &b])?;
            if dtype.is_integer() { of_zero(graph, (&a, &b), &power)? } else { power }
        }
    }])
}

/// Powers of integers, those of zero to negative exponents being zero.
fn of_zero(graph: &mut Graph, (a, b): (&Operand, &Operand), power: &Operand) -> Accepted<Operand> {
    let zero = graph.number(power.dtype(), 0.0);
    let is_zero = graph.map(F::Eq, &[a, &zero])?;
    let is_below = graph.less(b, &zero)?;
    let is_quotient = graph.map(F::And, &[&is_zero, &is_below])?;
    graph.select(&is_quotient, &zero, power)
}

/// Signs; that of a boolean is itself.
pub(super) fn sign(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    match node.dtype()? {
        DType::Bool => same(node, graph),
        _ => unary(node, graph, F::Sign),
    }
}

/// The angle of a real number: that of a half turn where it is negative.
pub(super) fn angle(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.operand_as(graph, (0, "self"), node.dtype()?)?;
    let zero = graph.number(x.dtype(), 0.0);
    let half_turn = graph.number(x.dtype(), std::f64::consts::PI);
    let is_negative = graph.less(&x, &zero)?;
    let angle = graph.select(&is_negative, &half_turn, &zero)?;
    let is_nan = graph.map(F::IsNan, &[&x])?;
    Ok(vec![graph.select(&is_nan, &x, &angle)?])
}

/// A comparison in the operands' common type.
pub(super) fn comparison(node: &Node<'_>, graph: &mut Graph, function: F) -> Lowered {
    let common = node.common_dtype(&[(0, "self"), (1, "other")])?;
    let a = node.operand_as(graph, (0, "self"), common)?;
    let b = node.operand_as(graph, (1, "other"), common)?;
    Ok(vec![graph.map(function, &[&a, &b])?])
}

/// A function of truth values.
pub(super) fn logical(node: &Node<'_>, graph: &mut Graph, function: F) -> Lowered {
    let a = node.operand_as(graph, (0, "self"), DType::Bool)?;
    if function == F::Not {
        return Ok(vec![graph.map(function, &[&a])?]);
    }
    let b = node.operand_as(graph, (1, "other"), DType::Bool)?;
    let result = match function {
        F::Xor => graph.map(F::Ne, &[&a, &b])?,
        _ => graph.map(function, &[&a, &b])?,
    };
    Ok(vec![result])
}

/// One of two values by a condition.
pub(super) fn chosen(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let condition = node.operand_as(graph, (0, "condition"), DType::Bool)?;
    let a = node.operand_as(graph, (1, "self"), node.dtype()?)?;
    let b = node.operand_as(graph, (2, "other"), node.dtype()?)?;
    Ok(vec![graph.select(&condition, &a, &b)?])
}

/// A value with another where a mask holds.
pub(super) fn masked_fill(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.tensor(0, "self")?;
    let mask = node.operand_as(graph, (1, "mask"), DType::Bool)?;
    let fill = node.operand_as(graph, (2, "value"), x.dtype())?;
    Ok(vec![graph.select(&mask, &fill, &x)?])
}

/// A value within bounds, each of which may be left out; of crossed bounds the upper counts.
pub(super) fn clamp(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let dtype = node.dtype()?;
    let mut value = node.operand_as(graph, (0, "self"), dtype)?;
    for (place, name, function) in [(1, "min", F::Max), (2, "max", F::Min)] {
        if node.argument(place, name).is_some() {
            let bound = node.operand_as(graph, (place, name), dtype)?;
            value = graph.map(function, &[&value, &bound])?;
        }
    }
    Ok(vec![value])
}

/// A value at least, or at most, a bound.
pub(super) fn bounded(node: &Node<'_>, graph: &mut Graph, function: F, name: &str) -> Lowered {
    let dtype = node.dtype()?;
    let value = node.operand_as(graph, (0, "self"), dtype)?;
    let bound = node.operand_as(graph, (1, name), dtype)?;
    Ok(vec![graph.map(function, &[&value, &bound])?])
}

/// A value within -1 and 1, or within bounds that are given.
pub(super) fn hard_tanh(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let low = node.number(1, "min_val")?.unwrap_or(-1.0);
    let high = node.number(2, "max_val")?.unwrap_or(1.0);
    let x = node.tensor(0, "self")?;
    Ok(vec![graph.clamp(&x, low, high)?])
}

/// `max(x, 0)`
pub(super) fn relu(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.tensor(0, "self")?;
    let zero = graph.number(x.dtype(), 0.0);
    Ok(vec![graph.max(&x, &zero)?])
}

/// `max(x, 0)`, at most 6
pub(super) fn relu6(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.tensor(0, "self")?;
    Ok(vec![graph.clamp(&x, 0.0, 6.0)?])
}

/// `x` where it is above a threshold, else 0, of the gradient's elements.
pub(super) fn threshold_backward(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (gradient, x) = (node.tensor(0, "grad_output")?, node.tensor(1, "self")?);
    let threshold = node.operand_as(graph, (2, "threshold"), x.dtype())?;
    let below = graph.less_equal(&x, &threshold)?;
    let zero = graph.number(gradient.dtype(), 0.0);
    Ok(vec![graph.select(&below, &zero, &gradient)?])
}

/// `slope * x` below zero, else `x`
pub(super) fn leaky_relu(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let slope = node.number(1, "negative_slope")?.unwrap_or(0.01);
    formula(node, graph, |graph, x| {
        let scaled = graph.mul_number(x, slope)?;
        by_sign(graph, x, &scaled)
    })
}

/// `other` where `x` is not above zero, else `x`.
fn by_sign(graph: &mut Graph, x: &Operand, other: &Operand) -> Accepted<Operand> {
    let zero = graph.number(x.dtype(), 0.0);
    let is_above = graph.greater(x, &zero)?;
    graph.select(&is_above, x, other)
}

/// `scale * x` above zero, else `scale * alpha * (exp(x * input_scale) - 1)`
pub(super) fn elu(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let number = |place, name| node.number(place, name).map(|found| found.unwrap_or(1.0));
    let (alpha, scale, inner) =
        (number(1, "alpha")?, number(2, "scale")?, number(3, "input_scale")?);
    formula(node, graph, |graph, x| {
        let scaled = graph.mul_number(x, inner)?;
        let curve = graph.map(F::Expm1, &[&scaled])?;
        let curve = graph.mul_number(&curve, alpha)?;
        let both = by_sign(graph, x, &curve)?;
        graph.mul_number(&both, scale)
    })
}

/// `x` within its line between 0 and 1: `x / 6 + 1 / 2`.
fn hard_gate(graph: &mut Graph, x: &Operand) -> Accepted<Operand> {
    let scaled = graph.mul_number(x, 1.0 / 6.0)?;
    let line = graph.add_number(&scaled, 0.5)?;
    graph.clamp(&line, 0.0, 1.0)
}

/// `x / 6 + 1 / 2` within 0 and 1
pub(super) fn hard_sigmoid(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    formula(node, graph, hard_gate)
}

/// `x * (x / 6 + 1 / 2 within 0 and 1)`
pub(super) fn hard_swish(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    formula(node, graph, |graph, x| {
        let gate = hard_gate(graph, x)?;
        graph.mul(x, &gate)
    })
}

/// `x * sigmoid(x)`
pub(super) fn silu(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    formula(node, graph, |graph, x| {
        let gate = graph.sigmoid(x)?;
        graph.mul(x, &gate)
    })
}

/// `x * tanh(softplus(x))`
pub(super) fn mish(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    formula(node, graph, Graph::mish)
}

/// `log(1 + exp(beta * x)) / beta`, and `x` itself beyond the threshold.
pub(super) fn softplus(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let beta = node.number(1, "beta")?.unwrap_or(1.0);
    let threshold = node.number(2, "threshold")?.unwrap_or(20.0);
    formula(node, graph, |graph, x| {
        let scaled = graph.mul_number(x, beta)?;
        let soft = graph.softplus(&scaled)?;
        let soft = graph.mul_number(&soft, 1.0 / beta)?;
        let threshold = graph.number(x.dtype(), threshold);
        let beyond = graph.greater(&scaled, &threshold)?;
        graph.select(&beyond, x, &soft)
    })
}

/// `x / 2 * (1 + erf(x / sqrt 2))`, or its approximation by tanh.
pub(super) fn gelu(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let exact = match node.text(1, "approximate", "none")? {
        "none" => true,
        "tanh" => false,
        other => return Err(unsupported(format!("the approximation \"{other}\""))),
    };
    Ok(vec![front::gelu_of(graph, &node.tensor(0, "self")?, exact)?])
}

/// `1 / sqrt(x)`
pub(super) fn inverse_root(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    formula(node, graph, |graph, x| {
        let root = graph.sqrt(x)?;
        graph.map(F::Reciprocal, &[&root])
    })
}

/// The logarithm to base 10.
pub(super) fn log10(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    formula(node, graph, |graph, x| {
        let log = graph.log(x)?;
        graph.mul_number(&log, std::f64::consts::LOG10_E)
    })
}

/// `x * x`
pub(super) fn square(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.operand_as(graph, (0, "self"), node.dtype()?)?;
    Ok(vec![graph.square(&x)?])
}

/// `1 / (1 + exp(-x))`
pub(super) fn sigmoid(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    formula(node, graph, Graph::sigmoid)
}

/// `self + value * tensor1 * tensor2`, or their quotient.
pub(super) fn multiply_add(node: &Node<'_>, graph: &mut Graph, function: F) -> Lowered {
    let dtype = node.dtype()?;
    let x = node.operand_as(graph, (0, "self"), dtype)?;
    let a = node.operand_as(graph, (1, "tensor1"), dtype)?;
    let b = node.operand_as(graph, (2, "tensor2"), dtype)?;
    let mut term = graph.map(function, &[&a, &b])?;
    if node.argument(3, "value").is_some() {
        let value = node.operand_as(graph, (3, "value"), dtype)?;
        term = graph.mul(&term, &value)?;
    }
    Ok(vec![graph.add(&x, &term)?])
}

/// `a * b + c`, rounded once.
pub(super) fn fused(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let dtype = node.dtype()?;
    let a = node.operand_as(graph, (0, "a"), dtype)?;
    let b = node.operand_as(graph, (1, "b"), dtype)?;
    let c = node.operand_as(graph, (2, "c"), dtype)?;
    Ok(vec![graph.map(F::FusedMultiplyAdd, &[&a, &b, &c])?])
}

/// The value in the result's element type.
pub(super) fn converted(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    Ok(vec![node.operand_as(graph, (0, "self"), node.dtype()?)?])
}

/// The value itself.
pub(super) fn same(node: &Node<'_>, _: &mut Graph) -> Lowered {
    Ok(vec![node.tensor(0, "self")?])
}

/// A value from which elements may be dropped, where none is.
pub(super) fn dropout(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let rate = node.number(1, "p")?.unwrap_or(0.5);
    if node.flag(2, "train", true)? && rate != 0.0 {
        return Err(unsupported("elements dropped at random"));
    }
    let x = node.tensor(0, "input")?;
    let kept = graph.full(x.shape(), tensor::Scalar::bool(true))?;
    Ok(vec![x, kept])
}
