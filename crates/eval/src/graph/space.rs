//! Contractions and reductions: everything over an iteration space.
//!
//! The place that an operand is read at is a sum of terms over the axes. It is cut into a part that
//! depends on the result's axes alone, computed once a result element; a part that depends on the
//! reduced axes alone, computed once a block of results; and a rest that depends on both, which is
//! there only where quotients or remainders mix the axes.

use base::{Id, codes};
use graph::IterationSpace;
use sym::{Expr, SymbolId, Term};
use tensor::{DType, MultiplyAdd, Reduction, Scalar, ScalarFunction, Tensor, dense_strides};

use super::movement::each_index;
use crate::EvaluationFault;

/// A sum of terms over the axes of a space.
#[derive(Default)]
struct Sum {
    constant: i64,
    /// The coefficient of each axis.
    linear: Vec<i64>,
    /// What is not linear: coefficients and expressions.
    rest: Vec<(i64, Expr)>,
}

impl Sum {
    fn add(&mut self, factor: i64, term: &Term) {
        match term.as_symbol() {
            Some(axis) => self.linear[axis.index()] += factor * term.coefficient(),
            None => self.rest.push((factor, Expr::from(term.clone()))),
        }
    }

    fn is_constant(&self) -> bool {
        self.rest.is_empty() && self.linear.iter().all(|&factor| factor == 0)
    }

    /// The value at a point, `None` where an expression has none.
    fn at(&self, point: &[usize]) -> Option<i64> {
        let mut sum = self.constant;
        for (&factor, &place) in self.linear.iter().zip(point) {
            sum += factor * place as i64;
        }
        for (factor, expr) in &self.rest {
            let value = |axis: SymbolId| point.get(axis.index()).map(|&place| place as i64);
            sum += factor * expr.evaluate(&value)?;
        }
        Some(sum)
    }
}

/// The number of result elements computed at a time.
const BLOCK: usize = 256;

/// An offset that is outside of every operand, whatever is added.
const OUTSIDE: i64 = i64::MIN / 2;

/// An operand: its elements, and where they are read.
struct Side<T> {
    elements: Vec<T>,
    parallel: Sum,
    reduced: Sum,
    mixed: Sum,
}

/// Where the reads for one result element start.
struct Start {
    offset: i64,
    /// The element's index, if the mixed part needs it.
    index: Vec<usize>,
}

impl<T: Copy> Side<T> {
    fn new(space: &IterationSpace, number: usize, shape: &[usize], elements: Vec<T>) -> Side<T> {
        let sum = || Sum { linear: vec![0; space.extents.len()], ..Sum::default() };
        let mut side = Side { elements, parallel: sum(), reduced: sum(), mixed: sum() };
        for (expr, stride) in space.operands[number].iter().zip(dense_strides(shape)) {
            let stride = stride as i64;
            side.parallel.constant += expr.constant_part() * stride;
            for term in expr.terms() {
                let is_parallel = |axis: &SymbolId| axis.index() < space.parallel;
                let axes = Expr::from(term.clone()).symbols();
                let part = match (axes.iter().any(is_parallel), axes.iter().all(is_parallel)) {
                    (_, true) => &mut side.parallel,
                    (false, _) => &mut side.reduced,
                    (true, false) => &mut side.mixed,
                };
                part.add(stride, term);
            }
        }
        side
    }

    fn start(&self, index: &[usize]) -> Start {
        let needed = if self.mixed.is_constant() { &[] } else { index };
        let offset = self.parallel.at(index).unwrap_or(OUTSIDE);
        Start { offset, index: needed.to_vec() }
    }

    /// Reads one element for each start at a point whose reduced axes are set; whether all are
    /// inside.
    fn read(&self, starts: &[Start], point: &mut [usize], into: &mut [T]) -> bool {
        let shift = self.reduced.at(point).unwrap_or(OUTSIDE);
        let mut inside = true;
        for (start, into) in starts.iter().zip(into) {
            let mut offset = start.offset.saturating_add(shift);
            if !start.index.is_empty() {
                point[..start.index.len()].copy_from_slice(&start.index);
                offset = offset.saturating_add(self.mixed.at(point).unwrap_or(OUTSIDE));
            }
            // A negative offset becomes a huge one.
            match self.elements.get(offset as usize) {
                Some(element) => *into = *element,
                None => inside = false,
            }
        }
        inside
    }
}

fn no_value() -> EvaluationFault {
    EvaluationFault::new(codes::INDEX_OUT_OF_RANGE, "an index expression leaves its axis")
}

/// The result elements, each from the identity through all points of the reduced axes in order;
/// `combine` adds an element of each operand to each of a block of results.
fn accumulate<T: Copy, const N: usize>(
    space: &IterationSpace,
    extents: &[usize],
    sides: &[Side<T>; N],
    identity: T,
    combine: impl Fn(&mut [T], &[Vec<T>; N]),
) -> Result<Vec<T>, EvaluationFault> {
    let (parallel, reduced) = extents.split_at(space.parallel);
    let mut starts: [Vec<Start>; N] = std::array::from_fn(|_| Vec::new());
    let mut elements: [Vec<T>; N] = std::array::from_fn(|_| vec![identity; BLOCK]);
    let mut point = vec![0; extents.len()];
    let mut inside = true;
    let mut results = Vec::new();
    let mut finish_block = |starts: &mut [Vec<Start>; N]| {
        let first = results.len();
        results.resize(first + starts[0].len(), identity);
        each_index(reduced, |index| {
            point[space.parallel..].copy_from_slice(index);
            for ((side, starts), elements) in sides.iter().zip(&*starts).zip(&mut elements) {
                inside &= side.read(starts, &mut point, elements);
            }
            combine(&mut results[first..], &elements);
        });
        starts.iter_mut().for_each(Vec::clear);
    };
    each_index(parallel, |index| {
        for (side, starts) in sides.iter().zip(&mut starts) {
            starts.push(side.start(index));
        }
        if starts[0].len() == BLOCK {
            finish_block(&mut starts);
        }
    });
    finish_block(&mut starts);
    if inside { Ok(results) } else { Err(no_value()) }
}

pub(super) fn contract(
    space: &IterationSpace,
    extents: &[usize],
    operands: [&Tensor; 2],
    accumulator: DType,
    dtype: DType,
) -> Result<Tensor, EvaluationFault> {
    let operands = operands.map(|operand| operand.cast(accumulator));
    let result = match accumulator {
        DType::F32 => contract_as::<f32>(space, extents, &operands)?,
        DType::F64 => contract_as::<f64>(space, extents, &operands)?,
        _ => {
            let multiply_add = |sums: &mut [Scalar], [a, b]: &[Vec<Scalar>; 2]| {
                for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
                    let arguments = [*a, *b, *sum];
                    *sum = ScalarFunction::FusedMultiplyAdd.evaluate(accumulator, &arguments);
                }
            };
            let side = |number: usize| scalar_side(space, number, &operands[number]);
            let zero = Scalar::zero(accumulator);
            let sums = accumulate(space, extents, &[side(0), side(1)], zero, multiply_add)?;
            Tensor::from_scalars(accumulator, &extents[..space.parallel], &sums)
        }
    };
    Ok(result.cast(dtype))
}

/// A contraction in a float type of the machine.
fn contract_as<T: MultiplyAdd>(
    space: &IterationSpace,
    extents: &[usize],
    operands: &[Tensor; 2],
) -> Result<Tensor, EvaluationFault> {
    let side = |number: usize| {
        let operand: &Tensor = &operands[number];
        let elements = operand.as_slice::<T>().unwrap_or_default().into_owned();
        Side::new(space, number, operand.shape(), elements)
    };
    let multiply_add = |sums: &mut [T], [a, b]: &[Vec<T>; 2]| T::multiply_add(sums, a, b);
    let sums = accumulate(space, extents, &[side(0), side(1)], T::default(), multiply_add)?;
    Ok(Tensor::from_vec(&extents[..space.parallel], sums))
}

fn scalar_side(space: &IterationSpace, number: usize, operand: &Tensor) -> Side<Scalar> {
    Side::new(space, number, operand.shape(), operand.scalars().collect())
}

pub(super) fn reduce(
    space: &IterationSpace,
    extents: &[usize],
    operand: &Tensor,
    reduction: Reduction,
    accumulator: DType,
) -> Result<Tensor, EvaluationFault> {
    let operand = operand.cast(accumulator);
    let combine = |sums: &mut [Scalar], [elements]: &[Vec<Scalar>; 1]| {
        for (sum, element) in sums.iter_mut().zip(elements) {
            *sum = reduction.combine(*sum, *element);
        }
    };
    let identity = reduction.identity(accumulator);
    let sides = [scalar_side(space, 0, &operand)];
    let results = accumulate(space, extents, &sides, identity, combine)?;
    Ok(Tensor::from_scalars(accumulator, &extents[..space.parallel], &results))
}
