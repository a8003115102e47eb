//! Special functions that are formulas of others. They are for numbers in f64, to be rounded once.

use tensor::{DType, ScalarFunction as F};

use crate::value::Operand;
use crate::writer::{Accepted, Graph};

/// A polynomial, the factor of the highest power first; at least one is given.
pub fn polynomial(graph: &mut Graph, x: &Operand, factors: &[f64]) -> Accepted<Operand> {
    let mut sum = graph.number(x.dtype(), factors[0]);
    for factor in &factors[1..] {
        let factor = graph.number(x.dtype(), *factor);
        sum = graph.map(F::FusedMultiplyAdd, &[&sum, x, &factor])?;
    }
    Ok(sum)
}

/// `exp(-|x|) In(x)`, the modified Bessel function of the first kind and order `n`, scaled: up to
/// 20 the integral of `exp(|x| (cos t - 1)) cos(n t)` over half a turn by the trapezoidal rule,
/// which converges geometrically; beyond, Hankel's series (Abramowitz and Stegun 9.6.19, 9.7.1).
/// `x` is an f64. Orders are small: the series is cut for 0 and 1.
pub fn scaled_bessel(graph: &mut Graph, x: &Operand, order: u32) -> Accepted<Operand> {
    const INTERVALS: u32 = 28;
    let bound = graph.number(DType::F64, 20.0);
    let size = graph.abs(x)?;
    let small = graph.min(&size, &bound)?;
    let mut integral = graph.number(DType::F64, 0.0);
    for number in 0..=INTERVALS {
        let angle = f64::from(number) * std::f64::consts::PI / f64::from(INTERVALS);
        let weight = if number % INTERVALS == 0 { 0.5 } else { 1.0 };
        let exponent = graph.mul_number(&small, angle.cos() - 1.0)?;
        let term = graph.exp(&exponent)?;
        let factor = weight * (f64::from(order) * angle).cos() / f64::from(INTERVALS);
        let term = graph.mul_number(&term, factor)?;
        integral = graph.add(&integral, &term)?;
    }
    let large = graph.max(&size, &bound)?;
    let inverse = graph.map(F::Reciprocal, &[&large])?;
    let (mut factors, mut factor) = (vec![1.0], 1.0);
    let square = 4.0 * f64::from(order) * f64::from(order);
    for number in 1..=12_u32 {
        let odd = f64::from(2 * number - 1);
        factor *= -(square - odd * odd) / (f64::from(number) * 8.0);
        factors.push(factor);
    }
    factors.reverse();
    let series = polynomial(graph, &inverse, &factors)?;
    let scale = graph.mul_number(&large, 2.0 * std::f64::consts::PI)?;
    let scale = graph.sqrt(&scale)?;
    let series = graph.div(&series, &scale)?;
    let is_large = graph.greater(&size, &bound)?;
    let found = graph.select(&is_large, &series, &integral)?;
    match order % 2 {
        0 => Ok(found),
        _ => graph.copy_sign(&found, x),
    }
}
