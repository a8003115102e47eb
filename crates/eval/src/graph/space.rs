//! Contractions and reductions: everything over an iteration space.
//!
//! The place that an operand is read at is a sum of terms over the axes. It is cut into a part that
//! depends on the result's axes alone, computed once a result element; a part that depends on the
//! reduced axes alone, computed once and kept; and a rest that depends on both, which is there only
//! where quotients or remainders mix the axes.

use base::{Id, codes};
use graph::IterationSpace;
use sym::{Expr, SymbolId, Term};
use tensor::{DType, Element, Reduction, Scalar, ScalarFunction, Tensor};

use super::movement::{each_index, strides};
use crate::Fault;

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

/// Where an operand is read, as an offset into its elements.
struct Read {
    parallel: Sum,
    /// The part of the reduced axes, for each point of theirs in order.
    reduced: Vec<i64>,
    /// The part of both.
    mixed: Sum,
    /// The number of elements.
    len: usize,
}

impl Read {
    fn new(
        space: &IterationSpace,
        extents: &[usize],
        index: &[Expr],
        operand: &Tensor,
    ) -> Result<Read, Fault> {
        let sum = || Sum { linear: vec![0; extents.len()], ..Sum::default() };
        let (mut parallel, mut reduced, mut mixed) = (sum(), sum(), sum());
        for (expr, stride) in index.iter().zip(strides(operand.shape())) {
            parallel.constant += expr.constant_part() * stride as i64;
            for term in expr.terms() {
                let is_parallel = |axis: &SymbolId| axis.index() < space.parallel;
                let axes = Expr::from(term.clone()).symbols();
                let part = match (axes.iter().any(is_parallel), axes.iter().all(is_parallel)) {
                    (_, true) => &mut parallel,
                    (false, _) => &mut reduced,
                    (true, false) => &mut mixed,
                };
                part.add(stride as i64, term);
            }
        }
        let mut table = Some(Vec::new());
        let mut point = vec![0; space.parallel];
        each_index(&extents[space.parallel..], |index| {
            point.truncate(space.parallel);
            point.extend_from_slice(index);
            let value = reduced.at(&point);
            table = table.take().zip(value).map(|(mut table, value)| {
                table.push(value);
                table
            });
        });
        let reduced = table.ok_or_else(no_value)?;
        Ok(Read { parallel, reduced, mixed, len: operand.len() })
    }

    /// Fills in the offset of each reduced point for one result element.
    fn offsets(
        &self,
        point: &mut Vec<usize>,
        reduced: &[usize],
        into: &mut Vec<usize>,
    ) -> Option<()> {
        let start = self.parallel.at(point)?;
        into.clear();
        if self.mixed.is_constant() {
            into.extend(self.reduced.iter().map(|&offset| (start + offset) as usize));
        } else {
            let parallel = point.len();
            let mut failed = false;
            let mut next = self.reduced.iter();
            each_index(reduced, |index| {
                point.truncate(parallel);
                point.extend_from_slice(index);
                let offset = next.next().zip(self.mixed.at(point));
                failed |= offset.is_none();
                into.extend(offset.map(|(&offset, mixed)| (start + offset + mixed) as usize));
            });
            point.truncate(parallel);
            if failed {
                return None;
            }
        }
        // A negative offset has become a huge one.
        into.iter().all(|&offset| offset < self.len).then_some(())
    }
}

fn no_value() -> Fault {
    Fault::new(codes::INDEX_OUT_OF_RANGE, "an index expression leaves its axis")
}

/// Runs over the result's elements in order: `combine` gets the element's number and the offsets of
/// each operand's elements.
fn each_result<const N: usize>(
    space: &IterationSpace,
    extents: &[usize],
    operands: [&Tensor; N],
    mut combine: impl FnMut(usize, &[Vec<usize>; N]),
) -> Result<(), Fault> {
    let mut reads = Vec::new();
    for (index, operand) in space.operands.iter().zip(operands) {
        reads.push(Read::new(space, extents, index, operand)?);
    }
    let (parallel, reduced) = extents.split_at(space.parallel);
    let empty = reduced.contains(&0);
    let mut offsets: [Vec<usize>; N] = std::array::from_fn(|_| Vec::new());
    let mut point = Vec::new();
    let mut number = 0;
    let mut fault = None;
    each_index(parallel, |index| {
        point.clear();
        point.extend_from_slice(index);
        for (read, offsets) in reads.iter().zip(&mut offsets) {
            let inside = empty || read.offsets(&mut point, reduced, offsets).is_some();
            if !inside {
                fault = Some(no_value());
            }
        }
        if fault.is_none() {
            combine(number, &offsets);
        }
        number += 1;
    });
    fault.map_or(Ok(()), Err)
}

pub(super) fn contract(
    space: &IterationSpace,
    extents: &[usize],
    operands: [&Tensor; 2],
    accumulator: DType,
    dtype: DType,
) -> Result<Tensor, Fault> {
    let operands = operands.map(|operand| operand.cast(accumulator));
    let result = match accumulator {
        DType::F32 => contract_as(space, extents, &operands, f32::mul_add)?,
        DType::F64 => contract_as(space, extents, &operands, f64::mul_add)?,
        _ => {
            let multiply_add =
                |a, b, sum| ScalarFunction::FusedMultiplyAdd.evaluate(accumulator, &[a, b, sum]);
            let mut result = Tensor::zeros(accumulator, &extents[..space.parallel]);
            each_result(space, extents, [&operands[0], &operands[1]], |number, [left, right]| {
                let mut sum = Scalar::zero(accumulator);
                for (&left, &right) in left.iter().zip(right) {
                    let (a, b) = (operands[0].get_scalar(left), operands[1].get_scalar(right));
                    sum = multiply_add(a, b, sum);
                }
                result.set_scalar(number, sum);
            })?;
            result
        }
    };
    Ok(result.cast(dtype))
}

/// A contraction in a type of the machine.
fn contract_as<T: Element + Default>(
    space: &IterationSpace,
    extents: &[usize],
    operands: &[Tensor; 2],
    multiply_add: impl Fn(T, T, T) -> T,
) -> Result<Tensor, Fault> {
    let elements = |operand: &Tensor| operand.as_slice::<T>().unwrap_or_default().into_owned();
    let (lhs, rhs) = (elements(&operands[0]), elements(&operands[1]));
    let mut result = Vec::new();
    each_result(space, extents, [&operands[0], &operands[1]], |_, [left, right]| {
        let mut sum = T::default();
        for (&left, &right) in left.iter().zip(right) {
            sum = multiply_add(lhs[left], rhs[right], sum);
        }
        result.push(sum);
    })?;
    Ok(Tensor::from_vec(&extents[..space.parallel], result))
}

pub(super) fn reduce(
    space: &IterationSpace,
    extents: &[usize],
    operand: &Tensor,
    reduction: Reduction,
    accumulator: DType,
) -> Result<Tensor, Fault> {
    let operand = operand.cast(accumulator);
    let mut result = Tensor::zeros(accumulator, &extents[..space.parallel]);
    each_result(space, extents, [&operand], |number, [offsets]| {
        let elements = offsets.iter().map(|&offset| operand.get_scalar(offset));
        let identity = reduction.identity(accumulator);
        result
            .set_scalar(number, elements.fold(identity, |sum, next| reduction.combine(sum, next)));
    })?;
    Ok(result)
}
