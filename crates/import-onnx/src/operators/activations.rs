//! Activation functions, composed of scalar functions. In each, `x` is the input. Formulas of
//! several functions are computed in f32 where `x` is of a shorter type, and rounded once.

use front::{Accepted, Graph, Operand, gelu_of, over_sum, shifted_exponentials};
use sym::Expr;
use tensor::{DType, Scalar, ScalarFunction as F};

use super::Lowered;
use crate::node::Node;

/// `a` where `x` is negative, else `b`.
fn by_sign(
    graph: &mut Graph,
    x: &Operand,
    negative: &Operand,
    other: &Operand,
) -> Accepted<Operand> {
    let zero = graph.number(x.dtype(), 0.0);
    let is_negative = graph.less(x, &zero)?;
    graph.select(&is_negative, negative, other)
}

/// `max(x, 0)`
pub(super) fn relu(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let zero = graph.number(x.dtype(), 0.0);
    Ok(vec![graph.max(x, &zero)?])
}

/// `alpha * x` below zero, else `x`
pub(super) fn leaky_relu(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let is_wrong = base::fault::is_seeded("import.leaky_relu");
    let alpha = if is_wrong { 0.01 } else { node.float("alpha", 0.01)? };
    let scaled = graph.mul_number(x, alpha)?;
    Ok(vec![by_sign(graph, x, &scaled, x)?])
}

/// `slope * x` below zero, else `x`; before version 7 a slope a channel stood without other axes.
pub(super) fn prelu(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (x, slope) = (node.input(0)?, node.input(1)?);
    let per_channel = node.version < 7 && slope.rank() == 1 && !slope.shape()[0].is_one();
    let slope = if per_channel {
        graph.broadcast_axis(slope, x.shape(), 1)?
    } else {
        graph.broadcast_to(slope, x.shape())?
    };
    let scaled = graph.mul(x, &slope)?;
    Ok(vec![by_sign(graph, x, &scaled, x)?])
}

/// `alpha * (exp(x) - 1)` below zero, else `x`
pub(super) fn elu(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let alpha = node.float("alpha", 1.0)?;
    let result = graph.rounded_once(node.input(0)?, |graph, x| {
        let curve = graph.map(F::Expm1, &[x])?;
        let scaled = graph.mul_number(&curve, alpha)?;
        by_sign(graph, x, &scaled, x)
    })?;
    Ok(vec![result])
}

/// `gamma * alpha * (exp(x) - 1)` below zero, else `gamma * x`
pub(super) fn selu(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let defaults = if node.version < 6 { (1.6732, 1.0507) } else { (1.673_263_2, 1.050_701) };
    let (alpha, gamma) = (node.float("alpha", defaults.0)?, node.float("gamma", defaults.1)?);
    let result = graph.rounded_once(node.input(0)?, |graph, x| {
        let curve = graph.map(F::Expm1, &[x])?;
        let curve = graph.mul_number(&curve, alpha)?;
        let both = by_sign(graph, x, &curve, x)?;
        graph.mul_number(&both, gamma)
    })?;
    Ok(vec![result])
}

/// `alpha * (exp(x / alpha) - 1)` below zero, else `x`
pub(super) fn celu(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let alpha = node.float("alpha", 1.0)?;
    let result = graph.rounded_once(node.input(0)?, |graph, x| {
        let alpha = graph.number(x.dtype(), alpha);
        let scaled = graph.div(x, &alpha)?;
        let curve = graph.map(F::Expm1, &[&scaled])?;
        let curve = graph.mul(&alpha, &curve)?;
        by_sign(graph, x, &curve, x)
    })?;
    Ok(vec![result])
}

/// [`gelu_of`] the input.
pub(super) fn gelu(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let exact = node.word("approximate", &["none", "tanh"])? == "none";
    Ok(vec![gelu_of(graph, node.input(0)?, exact)?])
}

/// `1 / (1 + exp(-x))`
pub(super) fn sigmoid(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    Ok(vec![graph.rounded_once(node.input(0)?, Graph::sigmoid)?])
}

/// `alpha * x + beta` within 0 and 1
pub(super) fn hard_sigmoid(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (alpha, beta) = (node.float("alpha", 0.2)?, node.float("beta", 0.5)?);
    Ok(vec![graph.rounded_once(node.input(0)?, |graph, x| clamped_line(graph, x, alpha, beta))?])
}

/// `x * (x / 6 + 1 / 2 within 0 and 1)`
pub(super) fn hard_swish(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let result = graph.rounded_once(node.input(0)?, |graph, x| {
        let gate = clamped_line(graph, x, 1.0 / 6.0, 0.5)?;
        graph.mul(x, &gate)
    })?;
    Ok(vec![result])
}

/// `alpha * x + beta` within 0 and 1
pub(super) fn clamped_line(
    graph: &mut Graph,
    x: &Operand,
    alpha: f64,
    beta: f64,
) -> Accepted<Operand> {
    let scaled = graph.mul_number(x, alpha)?;
    let line = graph.add_number(&scaled, beta)?;
    graph.clamp(&line, 0.0, 1.0)
}

/// `log(1 + exp(x))`
pub(super) fn softplus(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    Ok(vec![graph.rounded_once(node.input(0)?, Graph::softplus)?])
}

/// `x / (1 + |x|)`
pub(super) fn softsign(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let result = graph.rounded_once(node.input(0)?, |graph, x| {
        let magnitude = graph.abs(x)?;
        let denominator = graph.add_number(&magnitude, 1.0)?;
        graph.div(x, &denominator)
    })?;
    Ok(vec![result])
}

/// `x * tanh(softplus(x))`
pub(super) fn mish(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    Ok(vec![graph.rounded_once(node.input(0)?, Graph::mish)?])
}

/// `x * sigmoid(alpha * x)`
pub(super) fn swish(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let alpha = node.float("alpha", 1.0)?;
    Ok(vec![graph.rounded_once(node.input(0)?, |graph, x| swish_of(graph, x, alpha))?])
}

/// `x * sigmoid(alpha * x)`
pub(super) fn swish_of(graph: &mut Graph, x: &Operand, alpha: f64) -> Accepted<Operand> {
    let scaled = if alpha == 1.0 { x.clone() } else { graph.mul_number(x, alpha)? };
    let gate = graph.sigmoid(&scaled)?;
    graph.mul(x, &gate)
}

/// `swish(a) * b`
pub(super) fn swiglu(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (alpha, b) = (node.float("alpha", 1.0)?, graph.widen(node.input(1)?)?);
    let result = graph.rounded_once(node.input(0)?, |graph, a| {
        let gate = swish_of(graph, a, alpha)?;
        graph.mul(&gate, &b)
    })?;
    Ok(vec![result])
}

/// `x` above `alpha`, else 0
pub(super) fn thresholded_relu(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let alpha = graph.number(x.dtype(), node.float("alpha", 1.0)?);
    let zero = graph.number(x.dtype(), 0.0);
    let above = graph.greater(x, &alpha)?;
    Ok(vec![graph.select(&above, x, &zero)?])
}

/// `x + bias` below `-lambd`, `x - bias` above `lambd`, else 0
pub(super) fn shrink(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let (lambd, bias) = (node.float("lambd", 0.5)?, node.float("bias", 0.0)?);
    let number = |value: f64| Operand::of_scalar(Scalar::from_f64(x.dtype(), value));
    let below = graph.less(x, &number(-lambd))?;
    let above = graph.greater(x, &number(lambd))?;
    let raised = graph.add(x, &number(bias))?;
    let lowered = graph.sub(x, &number(bias))?;
    let upper = graph.select(&above, &lowered, &number(0.0))?;
    Ok(vec![graph.select(&below, &raised, &upper)?])
}

/// Exponentials of rows over their sum.
pub(super) fn softmax(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    by_rows(node, graph, |graph, x, axes| {
        let (_, exp, sum) = shifted_exponentials(graph, x, axes)?;
        over_sum(graph, &exp, &sum)
    })
}

/// The logarithm of softmax.
pub(super) fn log_softmax(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    by_rows(node, graph, |graph, x, axes| {
        let (shifted, _, sum) = shifted_exponentials(graph, x, axes)?;
        let log = graph.log(&sum)?;
        graph.sub(&shifted, &log)
    })
}

/// 1 for the first greatest element of a row, 0 for the others.
pub(super) fn hardmax(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    by_rows(node, graph, |graph, x, axes| {
        // Rows of several axes become rows of one.
        let axis = axes[0];
        let mut flat = x.shape().to_vec();
        if axes.len() > 1 {
            flat.truncate(axis);
            flat.push(x.shape()[axis..].iter().product());
        }
        let rows = graph.reshape(x, &flat)?;
        let op = graph::Op::ArgReduce { axis, greatest: true, last: false };
        let best = graph.primitive(op, &[&rows])?;
        let mut kept = flat.clone();
        kept[axis] = Expr::ONE;
        let best = graph.reshape(&best, &kept)?;
        let position = graph.iota(DType::I64, &flat, axis)?;
        let hit = graph.equal(&position, &best)?;
        let result = graph.cast(&hit, x.dtype())?;
        graph.reshape(&result, x.shape())
    })
}

/// Applies a function to rows: along one axis, or before version 13 along all axes from one on.
fn by_rows(
    node: &Node<'_>,
    graph: &mut Graph,
    function: fn(&mut Graph, &Operand, &[usize]) -> Accepted<Operand>,
) -> Lowered {
    let x = node.input(0)?;
    let axes = if node.version >= 13 {
        vec![node.axis("axis", -1, x.rank())?]
    } else if node.int("axis", 1)? == x.rank() as i64 {
        Vec::new()
    } else {
        (node.axis("axis", 1, x.rank())?..x.rank()).collect()
    };
    if axes.is_empty() {
        // Every element is a row.
        let shape = [x.shape(), &[Expr::ONE]].concat();
        let column = graph.reshape(x, &shape)?;
        let result = function(graph, &column, &[x.rank()])?;
        return Ok(vec![graph.reshape(&result, x.shape())?]);
    }
    Ok(vec![function(graph, x, &axes)?])
}
