//! The matrices of minimal filtering F(m, r), by the Toom-Cook method in exact arithmetic.
//!
//! `m` outputs of a correlation with `r` taps from `n = m + r - 1` inputs take `n` products:
//!
//! ```text
//! y = output ((filter g) * (input d))      y[i] = sum over k of g[k] d[i + k]
//! ```
//!
//! A polynomial product is evaluated at `n - 1` points and at infinity and interpolated; the
//! correlation is its transpose. Sources: S. Winograd, Arithmetic Complexity of Computations, 1980;
//! for the form used here A. Lavin and S. Gray, Fast Algorithms for Convolutional Neural Networks,
//! 2016. How much the points matter for the error is shown by B. Barabasz and others, Error
//! Analysis and Improving the Accuracy of Winograd Convolution for Deep Neural Networks, 2020: with
//! 0, 3/4, 3/2 and their opposites F(4, 3) in two dimensions errs half as much as with 0, 1, 2.
//!
//! Opposite points give rows that share their even and odd parts, so input and output transforms
//! are products of two matrices with few entries each: half the arithmetic.

use std::sync::OnceLock;

use super::rational;
pub(super) use super::rational::Rational;

/// A matrix by rows.
pub(super) type Matrix = Vec<Vec<Rational>>;

/// The most products of one transform: more points than this cost too many digits.
pub(super) const MOST_PRODUCTS: i64 = 6;

/// The finite points by their number, as numerator and denominator: of eighths up to 2 those which
/// make the error least.
const POINTS: [&[(i128, i128)]; 6] = [
    &[],
    &[(0, 1)],
    &[(0, 1), (1, 1)],
    &[(0, 1), (1, 1), (-1, 1)],
    &[(0, 1), (3, 4), (-3, 4), (2, 1)],
    &[(0, 1), (3, 4), (-3, 4), (3, 2), (-3, 2)],
];

/// The transforms of F(m, r).
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Transforms {
    /// `n` x `r`.
    pub(super) filter: Matrix,
    /// Factors of the `n` x `n` matrix, to be applied one after the other.
    pub(super) input: Vec<Matrix>,
    /// Factors of the `m` x `n` matrix, to be applied one after the other.
    pub(super) output: Vec<Matrix>,
    /// Operations of the input's transform and of the output's, written out.
    pub(super) additions: [i64; 2],
    /// How many times what it should be they make a result: once, but for those of integers.
    pub(super) scale: i64,
}

/// The finite points of transforms of integers.
const INTEGERS: [i128; 5] = [0, 1, -1, 2, -2];

/// One more than [`MOST_PRODUCTS`].
const SIZES: usize = MOST_PRODUCTS as usize + 1;

/// The matrices of F(m, r), made when first asked for: predictions ask again for each contraction.
///
/// # Panics
/// If that takes more than [`MOST_PRODUCTS`].
pub(super) fn transforms(outputs: usize, taps: usize) -> &'static Transforms {
    static KNOWN: [[OnceLock<Transforms>; SIZES]; SIZES] =
        [const { [const { OnceLock::new() }; SIZES] }; SIZES];
    KNOWN[outputs][taps].get_or_init(|| {
        let points = POINTS[outputs + taps - 2].iter();
        make(outputs, taps, points.map(|&(above, below)| Rational::new(above, below)).collect())
    })
}

/// The matrices of F(m, r) of integers, if there are so many points; what they make are multiples.
///
/// # Panics
/// If that takes more than [`MOST_PRODUCTS`].
pub(super) fn of_integers(outputs: usize, taps: usize) -> Option<&'static Transforms> {
    static KNOWN: [[OnceLock<Option<Transforms>>; SIZES]; SIZES] =
        [const { [const { OnceLock::new() }; SIZES] }; SIZES];
    let made = KNOWN[outputs][taps].get_or_init(|| {
        let points = INTEGERS.get(..outputs + taps - 2)?;
        let points = points.iter().map(|&point| Rational::new(point, 1)).collect();
        let mut made = make(outputs, taps, points);
        let entries = made.filter.iter().flatten();
        let common = entries.fold(1, |all, entry| least_multiple(all, entry.denominator()));
        for entry in made.filter.iter_mut().flatten() {
            *entry = *entry * Rational::new(common, 1);
        }
        made.scale = i64::try_from(common).ok()?;
        // A product and a sum are two operations, where floats have one for both.
        for (count, factors) in made.additions.iter_mut().zip([&made.input, &made.output]) {
            let entries = factors.iter().flatten().flatten();
            let is_factor = |entry: &&Rational| {
                entry.as_integer().is_some_and(|entry| entry.unsigned_abs() > 1)
            };
            *count += entries.filter(is_factor).count() as i64;
        }
        Some(made)
    });
    made.as_ref()
}

/// The least number that both divide.
fn least_multiple(one: i128, other: i128) -> i128 {
    one / rational::gcd(one, other) * other
}

/// The product of factors that are applied one after the other.
pub(super) fn product(factors: &[Matrix]) -> Matrix {
    let columns = factors[0][0].len();
    let columns: Vec<Vec<Rational>> =
        (0..columns).map(|column| applied(factors, unit(columns, column))).collect();
    transpose(&columns)
}

/// What factors make of a vector.
fn applied(factors: &[Matrix], vector: Vec<Rational>) -> Vec<Rational> {
    factors.iter().fold(vector, |vector, matrix| {
        let dot = |row: &Vec<Rational>| {
            row.iter().zip(&vector).fold(Rational::ZERO, |sum, (&a, &b)| sum + a * b)
        };
        matrix.iter().map(dot).collect()
    })
}

fn make(outputs: usize, taps: usize, points: Vec<Rational>) -> Transforms {
    let count = outputs + taps - 1;
    let mut filter: Matrix = points.iter().map(|&point| powers(point, taps)).collect();
    filter.push(unit(taps, taps - 1));
    // By column: the powers of each point, then of infinity.
    let mut evaluations: Matrix = points.iter().map(|&point| powers(point, outputs)).collect();
    evaluations.push(unit(outputs, outputs - 1));
    let mut input = Vec::new();
    for (at, &point) in points.iter().enumerate() {
        let others = || points.iter().enumerate().filter(move |(other, _)| *other != at);
        let scale: Rational =
            others().map(|(_, &other)| point - other).fold(Rational::ONE, |a, b| a * b);
        let mut row = polynomial(others().map(|(_, &other)| other));
        row.resize(count, Rational::ZERO);
        // The filter takes the denominators: its transform is done once.
        for entry in &mut filter[at] {
            *entry = *entry / scale;
        }
        input.push(row);
    }
    input.push(polynomial(points.iter().copied()));
    let (input, output) = (by_parts(input), transposed_parts(&evaluations));
    let additions = [&input, &output].map(|factors| factors.iter().map(additions).sum());
    Transforms { filter, input, output, additions, scale: 1 }
}

/// Operations of a matrix times a vector, written out.
fn additions(matrix: &Matrix) -> i64 {
    let entries = |row: &Vec<Rational>| row.iter().filter(|entry| !entry.is_zero()).count() as i64;
    matrix.iter().map(|row| (entries(row) - 1).max(0)).sum()
}

fn powers(point: Rational, count: usize) -> Vec<Rational> {
    let next = |power: &Rational| Some(*power * point);
    std::iter::successors(Some(Rational::ONE), next).take(count).collect()
}

fn unit(count: usize, at: usize) -> Vec<Rational> {
    (0..count).map(|k| if k == at { Rational::ONE } else { Rational::ZERO }).collect()
}

/// The coefficients of the polynomial with these roots, the constant first.
fn polynomial(roots: impl Iterator<Item = Rational>) -> Vec<Rational> {
    let mut coefficients = vec![Rational::ONE];
    for root in roots {
        let mut next = vec![Rational::ZERO; coefficients.len() + 1];
        for (power, &coefficient) in coefficients.iter().enumerate() {
            next[power + 1] = next[power + 1] + coefficient;
            next[power] = next[power] - root * coefficient;
        }
        coefficients = next;
    }
    coefficients
}

/// A matrix as factors: pairs of neighbouring rows `e + o`, `e - o` without an entry in common
/// between `e` and `o` are made of these.
fn by_parts(matrix: Matrix) -> Vec<Matrix> {
    let count = matrix.len();
    let (mut parts, mut signs): (Matrix, Matrix) = (Vec::new(), Vec::new());
    let mut row = 0;
    while row < count {
        match matrix.get(row + 1).and_then(|next| even_and_odd(&matrix[row], next)) {
            Some((even, odd)) => {
                let (mut sum, mut difference) = (unit(count, row), unit(count, row));
                sum[row + 1] = Rational::ONE;
                difference[row + 1] = -Rational::ONE;
                parts.extend([even, odd]);
                signs.extend([sum, difference]);
                row += 2;
            }
            None => {
                parts.push(matrix[row].clone());
                signs.push(unit(count, row));
                row += 1;
            }
        }
    }
    match parts == matrix {
        true => vec![matrix],
        false => vec![parts, signs],
    }
}

/// The factors of a transpose.
fn transposed_parts(matrix: &Matrix) -> Vec<Matrix> {
    by_parts(matrix.clone()).iter().rev().map(transpose).collect()
}

fn transpose(matrix: &Matrix) -> Matrix {
    (0..matrix[0].len()).map(|column| matrix.iter().map(|row| row[column]).collect()).collect()
}

fn even_and_odd(one: &[Rational], two: &[Rational]) -> Option<(Vec<Rational>, Vec<Rational>)> {
    let half = Rational::new(1, 2);
    let pairs = || one.iter().zip(two);
    let even: Vec<Rational> = pairs().map(|(&a, &b)| (a + b) * half).collect();
    let odd: Vec<Rational> = pairs().map(|(&a, &b)| (a - b) * half).collect();
    let apart = even.iter().zip(&odd).all(|(e, o)| e.is_zero() || o.is_zero());
    let both = |part: &[Rational]| part.iter().any(|entry| !entry.is_zero());
    (apart && both(&even) && both(&odd)).then_some((even, odd))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A correlation is bilinear, so unit vectors show all of it.
    fn check(transforms: &Transforms, outputs: usize, taps: usize) {
        let count = outputs + taps - 1;
        for tap in 0..taps {
            for at in 0..count {
                let filter = applied(std::slice::from_ref(&transforms.filter), unit(taps, tap));
                let input = applied(&transforms.input, unit(count, at));
                let product = filter.iter().zip(input).map(|(&a, b)| a * b).collect();
                let made = applied(&transforms.output, product);
                let one = |is_tap: bool| i128::from(is_tap) * i128::from(transforms.scale);
                let expected: Vec<Rational> =
                    (0..outputs).map(|i| Rational::new(one(i + tap == at), 1)).collect();
                assert_eq!(made, expected, "F({outputs}, {taps})");
            }
        }
    }

    #[test]
    fn every_correlation_is_exact() {
        for outputs in 1..=6 {
            for taps in 1..=7 - outputs {
                check(transforms(outputs, taps), outputs, taps);
            }
        }
    }

    #[test]
    fn those_of_integers_have_no_fractions() {
        for outputs in 1..=6 {
            for taps in 1..=7 - outputs {
                let made = of_integers(outputs, taps).expect("enough points");
                check(made, outputs, taps);
                let factors = made.input.iter().chain(&made.output).chain([&made.filter]);
                let mut entries = factors.flatten().flatten();
                assert!(entries.all(|entry| entry.as_integer().is_some()), "F({outputs}, {taps})");
            }
        }
    }

    #[test]
    fn opposite_points_share_their_parts() {
        let entries = |factors: &[Matrix]| {
            let all = factors.iter().flatten().flatten();
            all.filter(|entry| !entry.is_zero()).count()
        };
        let transforms = transforms(4, 3);
        assert_eq!(entries(&transforms.input), 14 + 10);
        assert_eq!(entries(&transforms.output), 10 + 10);
    }
}
