//! Values brought to mean 0 and variance 1, and the softmax of rows: what normalisations share.

use sym::Expr;
use tensor::{DType, Reduction, ScalarFunction as F};

use crate::value::Operand;
use crate::writer::{Accepted, Graph, shape_error};

/// Mean and variance along axes, which stay with extent 1.
pub fn statistics(graph: &mut Graph, x: &Operand, axes: &[usize]) -> Accepted<(Operand, Operand)> {
    let mean = graph.mean(x, axes, true)?;
    let centred = graph.sub(x, &mean)?;
    let square = graph.square(&centred)?;
    Ok((mean, graph.mean(&square, axes, true)?))
}

/// `1 / sqrt(variance + epsilon)`
pub fn inverse_deviation(graph: &mut Graph, variance: &Operand, epsilon: f64) -> Accepted<Operand> {
    let shifted = graph.add_number(variance, epsilon)?;
    let deviation = graph.sqrt(&shifted)?;
    graph.map(F::Reciprocal, &[&deviation])
}

/// A value whose channels, axis 1, are two axes: so many groups, and the channels of each.
///
/// # Errors
/// There are no channels, or they do not fall into so many groups.
pub fn in_channel_groups(graph: &mut Graph, x: &Operand, groups: i64) -> Accepted<Operand> {
    let shape = x.shape();
    if shape.len() < 2 || groups < 1 || !shape[1].divisible_by(groups) {
        return Err(shape_error(format!("the channels do not fall into {groups} groups")));
    }
    let groups = Expr::from(groups);
    let each = shape[1].floor_div(&groups);
    let split = [&[shape[0].clone(), groups, each], &shape[2..]].concat();
    graph.reshape(x, &split)
}

/// A value along axes with mean 0 and variance 1; also the mean and the inverse deviation.
pub fn standardize(
    graph: &mut Graph,
    x: &Operand,
    axes: &[usize],
    epsilon: f64,
) -> Accepted<(Operand, Operand, Operand)> {
    let mean = graph.mean(x, axes, true)?;
    let centred = graph.sub(x, &mean)?;
    let square = graph.square(&centred)?;
    let variance = graph.mean(&square, axes, true)?;
    let inverse = inverse_deviation(graph, &variance, epsilon)?;
    Ok((graph.mul(&centred, &inverse)?, mean, inverse))
}

/// A value divided by the root of its mean square along axes; also the inverse of that root.
pub fn over_root_mean_square(
    graph: &mut Graph,
    x: &Operand,
    axes: &[usize],
    epsilon: f64,
) -> Accepted<(Operand, Operand)> {
    let square = graph.square(x)?;
    let mean = graph.mean(&square, axes, true)?;
    let inverse = inverse_deviation(graph, &mean, epsilon)?;
    Ok((graph.mul(x, &inverse)?, inverse))
}

/// Elements over the sum of their row. The sum's reciprocal is taken once a row, but for short
/// floats, where it would lose too much.
pub fn over_sum(graph: &mut Graph, x: &Operand, sum: &Operand) -> Accepted<Operand> {
    if x.dtype().bits() < 32 {
        return graph.div(x, sum);
    }
    let reciprocal = graph.map(F::Reciprocal, &[sum])?;
    graph.mul(x, &reciprocal)
}

/// Exponentials of numbers of which each row has a zero: those that do not count beside its 1 are
/// zeros. Numbers below the normal range never come up then, with which some processors compute a
/// hundred times as slowly: a mask that adds -100 would make many of them.
pub(crate) fn exponentials_beside_one(graph: &mut Graph, x: &Operand) -> Accepted<Operand> {
    let least = if x.dtype() == DType::F64 { -700.0 } else { -86.0 };
    let [least, zero] = [least, 0.0].map(|number| graph.number(x.dtype(), number));
    let is_nothing = graph.map(F::Lt, &[x, &least])?;
    let exp = graph.exp(x)?;
    graph.select(&is_nothing, &zero, &exp)
}

/// `x` less its greatest along axes, the exponentials of that, and their sums.
pub fn shifted_exponentials(
    graph: &mut Graph,
    x: &Operand,
    axes: &[usize],
) -> Accepted<(Operand, Operand, Operand)> {
    let greatest = graph.reduce_axes(x, axes, Reduction::Max, true)?;
    let shifted = graph.sub(x, &greatest)?;
    let exp = exponentials_beside_one(graph, &shifted)?;
    let sum = graph.reduce_axes(&exp, axes, Reduction::Sum, true)?;
    Ok((shifted, exp, sum))
}

/// `x / 2 * (1 + erf(x / sqrt 2))`, or its approximation by tanh.
pub fn gelu_of(graph: &mut Graph, x: &Operand, exact: bool) -> Accepted<Operand> {
    graph.rounded_once(x, |graph, x| {
        let gate = if exact {
            let scaled = graph.mul_number(x, std::f64::consts::FRAC_1_SQRT_2)?;
            graph.map(F::Erf, &[&scaled])?
        } else {
            // sqrt(2 / pi) * (x + 0.044715 * x^3)
            let square = graph.square(x)?;
            let cubic = graph.mul_number(&square, 0.044715)?;
            let factor = graph.add_number(&cubic, 1.0)?;
            let inner = graph.mul(x, &factor)?;
            let inner = graph.mul_number(&inner, (2.0 / std::f64::consts::PI).sqrt())?;
            graph.tanh(&inner)?
        };
        let gate = graph.add_number(&gate, 1.0)?;
        let half = graph.mul_number(x, 0.5)?;
        graph.mul(&half, &gate)
    })
}
