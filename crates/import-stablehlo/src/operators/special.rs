//! Functions of CHLO that are formulas. Those beyond the graph's own are computed in f64 and
//! rounded once.

use front::{Accepted, Graph, Operand, polynomial, scaled_bessel, type_error};
use graph::Op;
use tensor::{DType, Scalar, ScalarFunction as F};

use crate::importer::{Frame, Importer};
use crate::node::{Lowered, Node, Value, one};

use super::elementwise::same_width;

type Formula = fn(&mut Graph, &Operand) -> Accepted<Operand>;

/// What a formula makes of a real number in f64.
fn rounded(importer: &mut Importer<'_>, node: &Node<'_>, formula: Formula) -> Lowered {
    let value = node.real(0)?;
    let wide = importer.graph.cast(value, DType::F64)?;
    let result = formula(&mut importer.graph, &wide)?;
    one(importer.graph.cast(&result, value.dtype())?)
}

pub(crate) fn square<'p>(importer: &mut Importer<'p>, node: &Node<'p>, _: &mut Frame) -> Lowered {
    match node.value(0)? {
        Value::Complex(value) => one(importer.graph.complex_mul(value, value)?),
        value => one(importer.graph.square(value.real()?)?),
    }
}

fn is_one_of(importer: &mut Importer<'_>, node: &Node<'_>, numbers: &[f64]) -> Lowered {
    let value = node.real(0)?;
    let graph = &mut importer.graph;
    let mut found: Option<Operand> = None;
    for number in numbers {
        let number = graph.number(value.dtype(), *number);
        let is_it = graph.equal(value, &number)?;
        found = Some(match found {
            Some(before) => graph.or(&before, &is_it)?,
            None => is_it,
        });
    }
    one(found.ok_or_else(|| type_error("no number to compare with"))?)
}

pub(crate) fn is_inf<'p>(importer: &mut Importer<'p>, node: &Node<'p>, _: &mut Frame) -> Lowered {
    is_one_of(importer, node, &[f64::INFINITY, f64::NEG_INFINITY])
}

pub(crate) fn is_pos_inf<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    is_one_of(importer, node, &[f64::INFINITY])
}

pub(crate) fn is_neg_inf<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    is_one_of(importer, node, &[f64::NEG_INFINITY])
}

pub(crate) fn erfc<'p>(importer: &mut Importer<'p>, node: &Node<'p>, _: &mut Frame) -> Lowered {
    rounded(importer, node, complement_of_erf)
}

/// How many levels of the continued fraction of erfc are computed: from 2 on the rest is below f64.
const LEVELS: u32 = 40;

/// `1 - erf(x)` below 2; from there on Laplace's continued fraction (Abramowitz and Stegun 7.1.14).
fn complement_of_erf(graph: &mut Graph, x: &Operand) -> Accepted<Operand> {
    let one_ = graph.number(DType::F64, 1.0);
    let erf = graph.map(F::Erf, &[x])?;
    let near = graph.sub(&one_, &erf)?;
    let two = graph.number(DType::F64, 2.0);
    let from = graph.max(x, &two)?;
    let mut fraction = from.clone();
    for level in (1..=LEVELS).rev() {
        let half = graph.number(DType::F64, f64::from(level) / 2.0);
        let quotient = graph.div(&half, &fraction)?;
        fraction = graph.add(&from, &quotient)?;
    }
    let square = graph.square(&from)?;
    let square = graph.neg(&square)?;
    let exp = graph.exp(&square)?;
    let far = graph.div(&exp, &fraction)?;
    let far = graph.mul_number(&far, 1.0 / std::f64::consts::PI.sqrt())?;
    let is_far = graph.greater(x, &two)?;
    graph.select(&is_far, &far, &near)
}

pub(crate) fn erf_inv<'p>(importer: &mut Importer<'p>, node: &Node<'p>, _: &mut Frame) -> Lowered {
    rounded(importer, node, inverse_of_erf)
}

/// Giles, "Approximating the erfinv function" (2010), its approximation for single precision, then
/// two steps of Newton's.
fn inverse_of_erf(graph: &mut Graph, x: &Operand) -> Accepted<Operand> {
    const CENTRAL: [f64; 9] = [
        2.810_226_36e-08,
        3.432_739_39e-07,
        -3.523_387_7e-06,
        -4.391_506_54e-06,
        0.000_218_580_87,
        -0.001_253_725_03,
        -0.004_177_681_64,
        0.246_640_727,
        1.501_409_41,
    ];
    const TAIL: [f64; 9] = [
        -0.000_200_214_257,
        0.000_100_950_558,
        0.001_349_343_22,
        -0.003_673_428_44,
        0.005_739_507_73,
        -0.007_622_461_3,
        0.009_438_870_47,
        1.001_674_06,
        2.832_976_82,
    ];
    let one_ = graph.number(DType::F64, 1.0);
    let size = graph.abs(x)?;
    let (below, above) = (graph.sub(&one_, &size)?, graph.add(&one_, &size)?);
    let product = graph.mul(&below, &above)?;
    let log = graph.log(&product)?;
    let w = graph.neg(&log)?;
    let shifted = graph.add_number(&w, -2.5)?;
    let central = polynomial(graph, &shifted, &CENTRAL)?;
    let root = graph.sqrt(&w)?;
    let shifted = graph.add_number(&root, -3.0)?;
    let tail = polynomial(graph, &shifted, &TAIL)?;
    let five = graph.number(DType::F64, 5.0);
    let is_central = graph.less(&w, &five)?;
    let factor = graph.select(&is_central, &central, &tail)?;
    let mut y = graph.mul(&factor, &size)?;
    for _ in 0..2 {
        // What is left of 1 on both sides, so that nothing is lost near it.
        let left = complement_of_erf(graph, &y)?;
        let error = graph.sub(&below, &left)?;
        let square = graph.square(&y)?;
        let exp = graph.exp(&square)?;
        let step = graph.mul(&error, &exp)?;
        let step = graph.mul_number(&step, std::f64::consts::PI.sqrt() / 2.0)?;
        y = graph.sub(&y, &step)?;
    }
    let is_one = graph.equal(&size, &one_)?;
    let infinity = graph.number(DType::F64, f64::INFINITY);
    let y = graph.select(&is_one, &infinity, &y)?;
    graph.copy_sign(&y, x)
}

/// Lanczos' approximation with g = 7 and 9 terms (Press et al., "Numerical Recipes", 6.1).
const LANCZOS: [f64; 9] = [
    0.999_999_999_999_809_9,
    676.520_368_121_885_1,
    -1_259.139_216_722_402_8,
    771.323_428_777_653_1,
    -176.615_029_162_140_6,
    12.507_343_278_686_905,
    -0.138_571_095_265_720_12,
    9.984_369_578_019_572e-6,
    1.505_632_735_149_311_6e-7,
];

/// Lanczos' sum for gamma(z + 1), and its derivative.
fn lanczos(graph: &mut Graph, z: &Operand) -> Accepted<(Operand, Operand)> {
    let mut sum = graph.number(DType::F64, LANCZOS[0]);
    let mut slope = graph.number(DType::F64, 0.0);
    for (number, factor) in LANCZOS.iter().enumerate().skip(1) {
        let below = graph.add_number(z, number as f64)?;
        let factor = graph.number(DType::F64, *factor);
        let term = graph.div(&factor, &below)?;
        sum = graph.add(&sum, &term)?;
        let term = graph.div(&term, &below)?;
        slope = graph.sub(&slope, &term)?;
    }
    Ok((sum, slope))
}

/// `z` for which gamma(z + 1) is known, and whether the value is reflected at 1/2.
fn reflected(graph: &mut Graph, x: &Operand) -> Accepted<(Operand, Operand)> {
    let half = graph.number(DType::F64, 0.5);
    let is_reflected = graph.less(x, &half)?;
    let negated = graph.neg(x)?;
    let less = graph.add_number(x, -1.0)?;
    Ok((graph.select(&is_reflected, &negated, &less)?, is_reflected))
}

pub(crate) fn lgamma<'p>(importer: &mut Importer<'p>, node: &Node<'p>, _: &mut Frame) -> Lowered {
    rounded(importer, node, log_of_gamma)
}

fn log_of_gamma(graph: &mut Graph, x: &Operand) -> Accepted<Operand> {
    let (z, is_reflected) = reflected(graph, x)?;
    let (sum, _) = lanczos(graph, &z)?;
    // (z + 1/2) log(t) - t, where t = z + 7.5, with the large parts taken together.
    let t = graph.add_number(&z, 7.5)?;
    let log_t = graph.log(&t)?;
    let half = graph.add_number(&z, 0.5)?;
    let ratio = graph.div(&t, &half)?;
    let rest = graph.sub(&log_t, &ratio)?;
    let product = graph.mul(&half, &rest)?;
    let log = graph.log(&sum)?;
    let total = graph.add(&product, &log)?;
    let total = graph.add_number(&total, (2.0 * std::f64::consts::PI).sqrt().ln())?;
    // log(pi / |sin(pi x)|) - lgamma(1 - x)
    let size = graph.abs(x)?;
    let floor = graph.floor(&size)?;
    let fraction = graph.sub(&size, &floor)?;
    let one_ = graph.number(DType::F64, 1.0);
    let other = graph.sub(&one_, &fraction)?;
    let fraction = graph.min(&fraction, &other)?;
    let angle = graph.mul_number(&fraction, std::f64::consts::PI)?;
    let sine = graph.map(F::Sin, &[&angle])?;
    let log = graph.log(&sine)?;
    let pi = graph.number(DType::F64, std::f64::consts::PI.ln());
    let reflection = graph.sub(&pi, &log)?;
    let reflection = graph.sub(&reflection, &total)?;
    let found = graph.select(&is_reflected, &reflection, &total)?;
    let infinity = graph.number(DType::F64, f64::INFINITY);
    let is_infinite = graph.equal(&size, &infinity)?;
    graph.select(&is_infinite, &infinity, &found)
}

pub(crate) fn digamma<'p>(importer: &mut Importer<'p>, node: &Node<'p>, _: &mut Frame) -> Lowered {
    rounded(importer, node, slope_of_log_gamma)
}

fn slope_of_log_gamma(graph: &mut Graph, x: &Operand) -> Accepted<Operand> {
    let (z, is_reflected) = reflected(graph, x)?;
    let (sum, slope) = lanczos(graph, &z)?;
    let t = graph.add_number(&z, 7.5)?;
    let log = graph.log(&t)?;
    let quotient = graph.div(&slope, &sum)?;
    let seven = graph.number(DType::F64, 7.0);
    let rest = graph.div(&seven, &t)?;
    let total = graph.add(&log, &quotient)?;
    let total = graph.sub(&total, &rest)?;
    // digamma(1 - x) - pi / tan(pi x), the angle reduced.
    let nearest = graph.round(x)?;
    let fraction = graph.sub(x, &nearest)?;
    let angle = graph.mul_number(&fraction, std::f64::consts::PI)?;
    let tangent = graph.map(F::Tan, &[&angle])?;
    let pi = graph.number(DType::F64, std::f64::consts::PI);
    let quotient = graph.div(&pi, &tangent)?;
    let reflection = graph.sub(&total, &quotient)?;
    let zero = graph.number(DType::F64, 0.0);
    let is_whole = graph.equal(&fraction, &zero)?;
    let is_pole = graph.and(&is_reflected, &is_whole)?;
    let found = graph.select(&is_reflected, &reflection, &total)?;
    let nan = graph.number(DType::F64, f64::NAN);
    let found = graph.select(&is_pole, &nan, &found)?;
    // At zero the pole has the other sign on each side.
    let is_zero = graph.equal(x, &zero)?;
    let one_ = graph.number(DType::F64, 1.0);
    let side = graph.div(&one_, x)?;
    let side = graph.neg(&side)?;
    graph.select(&is_zero, &side, &found)
}

pub(crate) fn bessel_i1e<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    rounded(importer, node, |graph, x| scaled_bessel(graph, x, 1))
}

/// The float next to a number in the direction of another: a step of its bits.
pub(crate) fn next_after<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    let graph = &mut importer.graph;
    let (x, y) = (node.real(0)?, node.real(1)?);
    let dtype = x.dtype();
    let bits_type = match dtype.bits() {
        64 => DType::I64,
        32 => DType::I32,
        16 => DType::I16,
        _ => return Err(type_error(format!("neighbours of {dtype}"))),
    };
    let bits = graph.primitive(Op::Bitcast { dtype: bits_type }, &[x])?;
    let one_ = graph.number(bits_type, 1.0);
    let (up, down) = (graph.add(&bits, &one_)?, graph.sub(&bits, &one_)?);
    // Away from zero the bits grow on both sides.
    let zero = graph.number(dtype, 0.0);
    let (is_positive, rises) = (graph.greater(x, &zero)?, graph.greater(y, x)?);
    let differs = graph.map(F::Xor, &[&is_positive, &rises])?;
    let grows = graph.map(F::Not, &[&differs])?;
    let next = graph.select(&grows, &up, &down)?;
    let next = graph.primitive(Op::Bitcast { dtype }, &[&next])?;
    let least = Operand::of_scalar(Scalar::from_bits(dtype, 1));
    let least = graph.copy_sign(&least, y)?;
    let is_zero = graph.equal(x, &zero)?;
    let next = graph.select(&is_zero, &least, &next)?;
    let is_there = graph.equal(x, y)?;
    let next = graph.select(&is_there, y, &next)?;
    let (first, second) = (graph.map(F::IsNan, &[x])?, graph.map(F::IsNan, &[y])?);
    let is_nan = graph.or(&first, &second)?;
    let nan = graph.number(dtype, f64::NAN);
    one(graph.select(&is_nan, &nan, &next)?)
}

/// The upper half of a product of integers.
pub(crate) fn mulhi<'p>(importer: &mut Importer<'p>, node: &Node<'p>, _: &mut Frame) -> Lowered {
    let graph = &mut importer.graph;
    let (a, b) = (node.real(0)?, node.real(1)?);
    let dtype = a.dtype();
    let is_signed = dtype.is_signed_integer();
    if !dtype.is_integer() {
        return Err(type_error(format!("the upper half of a product of {dtype}")));
    }
    if dtype.bits() < 64 {
        let wide = if is_signed { DType::I64 } else { DType::U64 };
        let (a, b) = (graph.cast(a, wide)?, graph.cast(b, wide)?);
        let product = graph.mul(&a, &b)?;
        let by = graph.number(wide, f64::from(dtype.bits()));
        let half = graph.map(F::Shr, &[&product, &by])?;
        return one(graph.cast(&half, dtype)?);
    }
    // Halves of 32 bits; the upper one keeps the sign.
    let by = graph.number(dtype, 32.0);
    let mask = Operand::of_scalar(Scalar::from_i64(dtype, 0xFFFF_FFFF));
    let half = |graph: &mut Graph, value: &Operand| -> Accepted<(Operand, Operand)> {
        Ok((graph.map(F::Shr, &[value, &by])?, graph.map(F::And, &[value, &mask])?))
    };
    let ((a1, a0), (b1, b0)) = (half(graph, a)?, half(graph, b)?);
    let low = graph.mul(&a0, &b0)?;
    let low = same_width(graph, &low, DType::U64)?;
    let unsigned = graph.number(DType::U64, 32.0);
    let carry = graph.map(F::Shr, &[&low, &unsigned])?;
    let carry = same_width(graph, &carry, dtype)?;
    let first = graph.mul(&a1, &b0)?;
    let first = graph.add(&first, &carry)?;
    let (upper, lower) = half(graph, &first)?;
    let second = graph.mul(&a0, &b1)?;
    let second = graph.add(&second, &lower)?;
    let (more, _) = half(graph, &second)?;
    let high = graph.mul(&a1, &b1)?;
    let high = graph.add(&high, &upper)?;
    one(graph.add(&high, &more)?)
}
