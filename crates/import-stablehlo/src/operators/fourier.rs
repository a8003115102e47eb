//! Fourier transforms, as products with small matrices of roots of unity.

use front::{Accepted, Complex, Graph, Operand, constant_value, shape_error, unsupported};
use graph::IterationSpace;
use sym::Expr;
use tensor::{DType, Tensor};

use super::algebra::bilinear;
use super::movement::reversed;
use crate::importer::{Frame, Importer};
use crate::node::{Lowered, Node, Value, one};

/// What a stage costs besides its products, as if it had so many more terms: it reads and writes
/// all elements, and multiplies each with a root of unity.
const STAGE_TERMS: usize = 16;

pub(crate) fn fft<'p>(importer: &mut Importer<'p>, node: &Node<'p>, _: &mut Frame) -> Lowered {
    let graph = &mut importer.graph;
    let lengths = node.required("fft_length")?;
    let value = node.value(0)?;
    let rank = value.rank();
    let Some(first) = rank.checked_sub(lengths.len()) else {
        return Err(shape_error("more axes are transformed than there are"));
    };
    let axes: Vec<usize> = (first..rank).collect();
    let Some((&last, others)) = axes.split_last() else { return Ok(vec![value.clone()]) };
    let mut lengths_found = Vec::new();
    for &length in &lengths {
        match usize::try_from(length).ok().filter(|length| *length > 0) {
            Some(length) => lengths_found.push(length),
            None => return Err(shape_error(format!("a transform of {length} elements"))),
        }
    }
    let own = value.shape().to_vec();
    let kind = node.word("fft_type")?.to_owned();
    let expected = |at: usize| match (kind.as_str(), at + 1 == lengths_found.len()) {
        ("IRFFT", true) => lengths_found[at] / 2 + 1,
        _ => lengths_found[at],
    };
    for (at, &axis) in axes.iter().enumerate() {
        if own[axis] != Expr::from(expected(at)) {
            return Err(shape_error("the extents are not those of the transform"));
        }
    }
    let length = lengths_found[lengths_found.len() - 1];
    match kind.as_str() {
        "FFT" | "IFFT" => {
            let sign = if kind == "IFFT" { 1.0 } else { -1.0 };
            let mut z = value.complex(graph)?;
            for (at, &axis) in axes.iter().enumerate() {
                z = transform(graph, &z, axis, lengths_found[at], sign)?;
            }
            if kind == "IFFT" {
                let count: usize = lengths_found.iter().product();
                z = z.each(|part| graph.mul_number(part, 1.0 / count as f64))?;
            }
            one(z)
        }
        "RFFT" => {
            let mut z = transform_of_real(graph, value.real()?, length)?;
            for (at, &axis) in others.iter().enumerate() {
                z = transform(graph, &z, axis, lengths_found[at], -1.0)?;
            }
            one(z)
        }
        "IRFFT" => {
            let mut z = value.complex(graph)?;
            for (at, &axis) in others.iter().enumerate() {
                z = transform(graph, &z, axis, lengths_found[at], 1.0)?;
            }
            debug_assert_eq!(last + 1, rank);
            let x = transform_to_real(graph, &z, length)?;
            let count: usize = lengths_found.iter().product();
            one(graph.mul_number(&x, 1.0 / count as f64)?)
        }
        other => Err(unsupported(format!("the transform {other}"))),
    }
}

/// `exp(sign 2 pi i j k / length)` for rows j and columns k.
fn roots(
    graph: &mut Graph,
    dtype: DType,
    (rows, columns, length): (usize, usize, usize),
    sign: f64,
) -> Accepted<Complex> {
    graph.count_computed(2 * rows * columns, "factors of a Fourier transform")?;
    let angle = |number: usize| {
        let (j, k) = (number / columns, number % columns);
        sign * std::f64::consts::TAU * ((j * k) % length) as f64 / length as f64
    };
    let part = |function: fn(f64) -> f64| {
        let values: Vec<f64> = (0..rows * columns).map(|number| function(angle(number))).collect();
        constant_value("roots", Tensor::from_vec(&[rows, columns], values).cast(dtype), false)
    };
    Ok(Complex { re: part(f64::cos), im: part(f64::sin) })
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
fn transform(
    graph: &mut Graph,
    z: &Complex,
    axis: usize,
    length: usize,
    sign: f64,
) -> Accepted<Complex> {
    let shape = z.re.shape().to_vec();
    let lead: Expr = shape[..axis].iter().product();
    // Elements are `(k rest + p) behind + q`; sums over k give `(p factor + j) behind + q`.
    let mut behind: Expr = shape[axis + 1..].iter().product();
    let mut rest = length;
    let mut z = z.clone();
    for factor in factors(length) {
        rest /= factor;
        let [few, many] = [factor, rest].map(Expr::from);
        let split = [lead.clone(), few.clone(), many.clone(), behind.clone()];
        z = z.each(|part| graph.reshape(part, &split))?;
        let matrix = roots(graph, z.dtype(), (factor, factor, factor), sign)?;
        let axis = IterationSpace::axis;
        let space = IterationSpace {
            extents: vec![lead.clone(), many.clone(), few.clone(), behind.clone(), few.clone()],
            parallel: 4,
            operands: vec![vec![axis(0), axis(4), axis(1), axis(3)], vec![axis(4), axis(2)]],
        };
        let dtype = z.dtype();
        let accumulator = graph::accumulator_of(dtype);
        let product = bilinear(graph, (&z.into(), &matrix.into()), |graph, a, b| {
            let product = graph.contract(space.clone(), a, b, accumulator, dtype)?;
            graph.cast(&product, dtype)
        })?;
        z = product.complex(graph)?;
        if rest > 1 {
            let turns = roots(graph, dtype, (rest, factor, rest * factor), sign)?;
            let turns =
                turns.each(|part| graph.reshape(part, &[many.clone(), few.clone(), Expr::ONE]))?;
            z = graph.complex_mul(&z, &turns)?;
        }
        behind = behind * few;
    }
    z.each(|part| graph.reshape(part, &shape))
}

/// The angles of numbers up to half a length, of which a turn has the length: cosines and sines.
fn half_turn(graph: &mut Graph, dtype: DType, length: usize, count: usize) -> Accepted<Complex> {
    let roots = roots(graph, dtype, (count, 2, length), 1.0)?;
    roots.each(|part| {
        let part = graph.slice_axis(part, 1, Expr::ONE, 1, Expr::ONE)?;
        graph.reshape(&part, &[Expr::from(count)])
    })
}

/// The first half of the transform of real numbers along the last axis, the middle included. Of an
/// even length it is made of that of half as many complex numbers, whose parts are neighbours
/// (Press et al., "Numerical Recipes", section 12.3).
fn transform_of_real(graph: &mut Graph, x: &Operand, length: usize) -> Accepted<Complex> {
    let last = x.rank() - 1;
    let half = length / 2;
    if length % 2 == 1 {
        let z = Value::from(x.clone()).complex(graph)?;
        let z = transform(graph, &z, last, length, -1.0)?;
        return z.each(|part| graph.slice_axis(part, last, Expr::ZERO, 1, Expr::from(half + 1)));
    }
    let mut every_second =
        |first: i64| graph.slice_axis(x, last, Expr::from(first), 2, Expr::from(half));
    let z = Complex { re: every_second(0)?, im: every_second(1)? };
    let z = transform(graph, &z, last, half, -1.0)?;
    let z = z.each(|part| {
        let first = graph.slice_axis(part, last, Expr::ZERO, 1, Expr::ONE)?;
        graph.concat(last, &[part.clone(), first])
    })?;
    let mirrored = z.each(|part| reversed(graph, part, &[last]))?;
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
/// [`transform_of_real`] the other way.
fn transform_to_real(graph: &mut Graph, z: &Complex, length: usize) -> Accepted<Operand> {
    let last = z.re.rank() - 1;
    let half = length / 2;
    if length == 1 {
        return Ok(z.re.clone());
    }
    if length % 2 == 1 {
        // The other half are the conjugates, from end to front.
        let mut mirror = |part: &Operand| {
            let behind = graph.slice_axis(part, last, Expr::ONE, 1, Expr::from(half))?;
            reversed(graph, &behind, &[last])
        };
        let (re, im) = (mirror(&z.re)?, mirror(&z.im)?);
        let im = graph.neg(&im)?;
        let whole = Complex {
            re: graph.concat(last, &[z.re.clone(), re])?,
            im: graph.concat(last, &[z.im.clone(), im])?,
        };
        return Ok(transform(graph, &whole, last, length, 1.0)?.re);
    }
    // The first and the middle are real.
    let mut shape = z.re.shape().to_vec();
    shape[last] = Expr::ONE;
    let zeros = graph.full(&shape, tensor::Scalar::zero(z.dtype()))?;
    let mut parts = vec![zeros.clone(), zeros];
    if half > 1 {
        let inner = graph.slice_axis(&z.im, last, Expr::ONE, 1, Expr::from(half - 1))?;
        parts.insert(1, inner);
    }
    let im = graph.concat(last, &parts)?;
    let z = Complex { re: z.re.clone(), im };
    let mirrored = z.each(|part| reversed(graph, part, &[last]))?;
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
    let packed = transform(graph, &packed, last, half, 1.0)?;
    let mut shape = packed.re.shape().to_vec();
    let whole = [&shape[..last], &[Expr::from(length)]].concat();
    shape.push(Expr::ONE);
    let parts = packed.each(|part| graph.reshape(part, &shape))?;
    let pairs = graph.concat(last + 1, &[parts.re, parts.im])?;
    graph.reshape(&pairs, &whole)
}
