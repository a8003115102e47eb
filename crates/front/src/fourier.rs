//! Discrete Fourier transforms, as products with small matrices of roots of unity.

use graph::IterationSpace;
use sym::Expr;
use tensor::{DType, Scalar, Tensor};

use crate::complex::Complex;
use crate::value::{Operand, constant_value};
use crate::writer::{Accepted, Graph, shape_error};

/// What a stage costs besides its products, as if it had so many more terms: it reads and writes
/// all elements, and multiplies each with a root of unity.
const STAGE_TERMS: usize = 16;

/// Which way a transform goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// By the powers of `exp(-2 pi i / length)`.
    Forward,
    /// By those of `exp(2 pi i / length)`.
    Backward,
}

impl Direction {
    fn sign(self) -> f64 {
        match self {
            Direction::Forward => -1.0,
            Direction::Backward => 1.0,
        }
    }
}

/// Checks that an axis has so many elements.
fn check_extent(shape: &[Expr], axis: usize, length: usize) -> Accepted<()> {
    match length > 0 && shape.get(axis) == Some(&Expr::from(length)) {
        true => Ok(()),
        false => Err(shape_error(format!("a transform of {length} elements along axis {axis}"))),
    }
}

/// The last axis, which has so many elements.
fn last_axis(shape: &[Expr], length: usize) -> Accepted<usize> {
    let axis = shape.len().saturating_sub(1);
    check_extent(shape, axis, length).map(|()| axis)
}

/// The angles `sign 2 pi j k / length` for rows j and columns k.
#[derive(Clone, Copy)]
struct Angles {
    rows: usize,
    columns: usize,
    length: usize,
    sign: f64,
}

impl Angles {
    /// A function of each, row by row.
    fn each(self, function: impl Fn(f64) -> f64) -> impl Iterator<Item = f64> {
        let Angles { rows, columns, length, sign } = self;
        let numbers = (0..rows).flat_map(move |row| (0..columns).map(move |column| row * column));
        numbers.map(move |number| {
            function(sign * std::f64::consts::TAU * (number % length) as f64 / length as f64)
        })
    }

    /// What a product with `exp(i angle)` makes of each part of a number in each part of the
    /// product: `[part, part of the product, rows, columns]`, of real numbers without the second.
    fn turns(self, graph: &mut Graph, dtype: DType, parts: usize) -> Accepted<Operand> {
        let shape = [parts, 2, self.rows, self.columns];
        // What imaginary parts become has the same numbers.
        graph.count_computed(2 * self.rows * self.columns, "factors of a Fourier transform")?;
        let of_real = self.each(f64::cos).chain(self.each(f64::sin));
        let of_imaginary = self.each(|angle| -angle.sin()).chain(self.each(f64::cos));
        let all: Vec<f64> = match parts {
            1 => of_real.collect(),
            _ => of_real.chain(of_imaginary).collect(),
        };
        Ok(constant_value("roots", Tensor::from_vec(&shape, all).cast(dtype), false))
    }
}

/// The factors of a length for which stages cost least, the greatest first.
fn factors(length: usize) -> Vec<usize> {
    let mut primes = Vec::new();
    let (mut rest, mut prime) = (length, 2);
    while prime * prime <= rest {
        while rest.is_multiple_of(prime) {
            primes.push(prime);
            rest /= prime;
        }
        prime += 1;
    }
    if rest > 1 {
        primes.push(rest);
    }
    // Each prime goes to the least of so many factors, the greatest prime first.
    let shared = |count: usize| {
        let mut factors = vec![1; count];
        for prime in primes.iter().rev() {
            if let Some(least) = factors.iter_mut().min() {
                *least *= prime;
            }
        }
        factors.sort_unstable_by(|a, b| b.cmp(a));
        factors
    };
    let cost = |factors: &Vec<usize>| factors.iter().map(|it| it + STAGE_TERMS).sum::<usize>();
    (1..=primes.len()).map(shared).min_by_key(cost).unwrap_or_default()
}

/// The discrete Fourier transform along an axis, not divided by the length: stages of transforms of
/// few elements each, whose results are stored in order (Stockham's form; Van Loan, "Computational
/// Frameworks for the Fast Fourier Transform", section 1.7).
///
/// # Errors
/// An axis whose extent is not the length; limits.
pub fn fourier(
    graph: &mut Graph,
    z: &Complex,
    axis: usize,
    length: usize,
    direction: Direction,
) -> Accepted<Complex> {
    let stacked = transform(graph, &[&z.re, &z.im], axis, length, direction)?;
    parts(graph, &stacked)
}

/// The parts of numbers that lie behind one another along the first axis.
fn parts(graph: &mut Graph, stacked: &Operand) -> Accepted<Complex> {
    let shape = stacked.shape()[1..].to_vec();
    let mut part = |number: i64| {
        let part = graph.slice_axis(stacked, 0, Expr::from(number), 1, Expr::ONE)?;
        graph.reshape(&part, &shape)
    };
    Ok(Complex { re: part(0)?, im: part(1)? })
}

/// As [`fourier`], of real parts alone or of both parts; those of the results lie behind one
/// another along a first axis. Each stage is one contraction, over parts and elements.
fn transform(
    graph: &mut Graph,
    parts: &[&Operand],
    axis: usize,
    length: usize,
    direction: Direction,
) -> Accepted<Operand> {
    let (shape, dtype) = (parts[0].shape().to_vec(), parts[0].dtype());
    check_extent(&shape, axis, length)?;
    let sign = direction.sign();
    let whole = [&[Expr::ONE], &shape[..]].concat();
    let stacked: Vec<Operand> =
        parts.iter().map(|part| graph.reshape(part, &whole)).collect::<Accepted<_>>()?;
    let mut z = graph.concat(0, &stacked)?;
    let mut count = parts.len();
    let lead: Expr = shape[..axis].iter().product();
    // Elements are `(k rest + p) behind + q`; sums over k give `(p factor + j) behind + q`.
    let mut behind: Expr = shape[axis + 1..].iter().product();
    let mut rest = length;
    for factor in factors(length) {
        rest /= factor;
        let [own, few, many] = [count, factor, rest].map(Expr::from);
        let split = [own.clone(), lead.clone(), few.clone(), many.clone(), behind.clone()];
        z = graph.reshape(&z, &split)?;
        let angles = Angles { rows: factor, columns: factor, length: factor, sign };
        let matrix = angles.turns(graph, dtype, count)?;
        let axis = IterationSpace::axis;
        let two = Expr::from(2);
        let parallel = [two.clone(), lead.clone(), many.clone(), few.clone(), behind.clone()];
        let space = IterationSpace {
            extents: [&parallel[..], &[own, few.clone()]].concat(),
            parallel: 5,
            operands: vec![
                vec![axis(5), axis(1), axis(6), axis(2), axis(4)],
                vec![axis(5), axis(0), axis(6), axis(3)],
            ],
        };
        let product = graph.contract(space, &z, &matrix, graph::accumulator_of(dtype), dtype)?;
        z = graph.cast(&product, dtype)?;
        count = 2;
        if rest > 1 {
            let angles = Angles { rows: rest, columns: factor, length: rest * factor, sign };
            let turns = angles.turns(graph, dtype, count)?;
            let mut turned = |part: i64| {
                let own = graph.slice_axis(&z, 0, Expr::from(part), 1, Expr::ONE)?;
                let turns = graph.slice_axis(&turns, 0, Expr::from(part), 1, Expr::ONE)?;
                let shape = [two.clone(), Expr::ONE, many.clone(), few.clone(), Expr::ONE];
                let turns = graph.reshape(&turns, &shape)?;
                graph.mul(&own, &turns)
            };
            let (re, im) = (turned(0)?, turned(1)?);
            z = graph.add(&re, &im)?;
        }
        behind = behind * few;
    }
    if count == 1 {
        let zeros = graph.full(z.shape(), Scalar::zero(dtype))?;
        z = graph.concat(0, &[z, zeros])?;
    }
    let whole = [&[Expr::from(2)], &shape[..]].concat();
    graph.reshape(&z, &whole)
}

/// The numbers `exp(2 pi i k / length)` for so many numbers k.
fn half_turn(graph: &mut Graph, dtype: DType, length: usize, count: usize) -> Accepted<Complex> {
    graph.count_computed(2 * count, "factors of a Fourier transform")?;
    // The second row is that of the angles themselves.
    let angles = Angles { rows: 2, columns: count, length, sign: 1.0 };
    let part = |function: fn(f64) -> f64| {
        let values: Vec<f64> = angles.each(function).skip(count).collect();
        constant_value("roots", Tensor::from_vec(&[count], values).cast(dtype), false)
    };
    Ok(Complex { re: part(f64::cos), im: part(f64::sin) })
}

/// The first half of the transform of real numbers along the last axis, the middle included. Of an
/// even length it is made of that of half as many complex numbers, whose parts are neighbours
/// (Press et al., "Numerical Recipes", section 12.3).
///
/// # Errors
/// A last axis whose extent is not the length; limits.
pub fn fourier_of_real(graph: &mut Graph, x: &Operand, length: usize) -> Accepted<Complex> {
    let last = last_axis(x.shape(), length)?;
    let half = length / 2;
    if length % 2 == 1 {
        let z = transform(graph, &[x], last, length, Direction::Forward)?;
        let z = parts(graph, &z)?;
        return z.each(|part| graph.slice_axis(part, last, Expr::ZERO, 1, Expr::from(half + 1)));
    }
    let mut every_second =
        |first: i64| graph.slice_axis(x, last, Expr::from(first), 2, Expr::from(half));
    let z = Complex { re: every_second(0)?, im: every_second(1)? };
    let z = fourier(graph, &z, last, half, Direction::Forward)?;
    let z = z.each(|part| {
        let first = graph.slice_axis(part, last, Expr::ZERO, 1, Expr::ONE)?;
        graph.concat(last, &[part.clone(), first])
    })?;
    let mirrored = z.each(|part| graph.reversed(part, &[last]))?;
    // Twice the transforms of the elements of even places, and of odd ones.
    let even = Complex { re: graph.add(&z.re, &mirrored.re)?, im: graph.sub(&z.im, &mirrored.im)? };
    let odd = Complex { re: graph.add(&z.im, &mirrored.im)?, im: graph.sub(&mirrored.re, &z.re)? };
    let turns = half_turn(graph, x.dtype(), length, half + 1)?;
    let turns = Complex { re: turns.re, im: graph.neg(&turns.im)? };
    let odd = graph.complex_mul(&odd, &turns)?;
    let sum = graph.complex_add(&even, &odd)?;
    sum.each(|part| graph.mul_number(part, 0.5))
}

/// The real numbers whose transform's first half is given along the last axis, times their number:
/// [`fourier_of_real`] the other way.
///
/// # Errors
/// A last axis whose extent is not half the length and one; limits.
pub fn fourier_to_real(graph: &mut Graph, z: &Complex, length: usize) -> Accepted<Operand> {
    let half = length / 2;
    let last = last_axis(z.re.shape(), half + 1)?;
    if length == 1 {
        return Ok(z.re.clone());
    }
    if length % 2 == 1 {
        // The other half are the conjugates, from end to front.
        let mut mirror = |part: &Operand| {
            let behind = graph.slice_axis(part, last, Expr::ONE, 1, Expr::from(half))?;
            graph.reversed(&behind, &[last])
        };
        let (re, im) = (mirror(&z.re)?, mirror(&z.im)?);
        let im = graph.neg(&im)?;
        let whole = Complex {
            re: graph.concat(last, &[z.re.clone(), re])?,
            im: graph.concat(last, &[z.im.clone(), im])?,
        };
        return Ok(fourier(graph, &whole, last, length, Direction::Backward)?.re);
    }
    // The first and the middle are real.
    let mut shape = z.re.shape().to_vec();
    shape[last] = Expr::ONE;
    let zeros = graph.full(&shape, Scalar::zero(z.dtype()))?;
    let mut parts = vec![zeros.clone(), zeros];
    if half > 1 {
        let inner = graph.slice_axis(&z.im, last, Expr::ONE, 1, Expr::from(half - 1))?;
        parts.insert(1, inner);
    }
    let im = graph.concat(last, &parts)?;
    let z = Complex { re: z.re.clone(), im };
    let mirrored = z.each(|part| graph.reversed(part, &[last]))?;
    let own = z.each(|part| graph.slice_axis(part, last, Expr::ZERO, 1, Expr::from(half)))?;
    let mirrored =
        mirrored.each(|part| graph.slice_axis(part, last, Expr::ZERO, 1, Expr::from(half)))?;
    let even =
        Complex { re: graph.add(&own.re, &mirrored.re)?, im: graph.sub(&own.im, &mirrored.im)? };
    let odd =
        Complex { re: graph.sub(&own.re, &mirrored.re)?, im: graph.add(&own.im, &mirrored.im)? };
    let turns = half_turn(graph, z.dtype(), length, half)?;
    let odd = graph.complex_mul(&odd, &turns)?;
    // even + i odd
    let packed = Complex { re: graph.sub(&even.re, &odd.im)?, im: graph.add(&even.im, &odd.re)? };
    let packed = transform(graph, &[&packed.re, &packed.im], last, half, Direction::Backward)?;
    // Parts become neighbours.
    let axes: Vec<usize> = (1..=last + 1).chain([0]).collect();
    let pairs = graph.transpose(&packed, &axes)?;
    let whole = [&z.re.shape()[..last], &[Expr::from(length)]].concat();
    graph.reshape(&pairs, &whole)
}
