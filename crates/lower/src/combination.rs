//! Combinations: contractions of a value with a literal of a few numbers, written out.
//!
//! ```text
//! E[i, x, c] = sum over r of literal[i, r] * value[4 x + r, c]
//! ```
//!
//! Where the literal's axes have constant indices, an element is a short expression of the value's
//! elements: no product by 1, no term of a zero (an infinity there does not become a NaN), the rest
//! fused multiply-adds in the order of the sum. So a combination is not summed in loops. It is
//! defined as a map is, and chains of them are substituted into each other; the nest that stores
//! the last has no loops over the axes of literals but one statement for each of their points,
//! which share what they have in common. The transforms of minimal filtering are such chains.

use base::Id;
use graph::{Function, IterationSpace, NodeId, Op, ValueId};
use rustc_hash::FxHashSet;
use sym::{Expr, SymbolId};
use tensor::{DType, Tensor};

use crate::definitions::operand_index;
use crate::groups::AnchorDomain;
use crate::naive::index::{AxisSymbols, Ranges, extents};

/// Most elements of a literal that is written out, and most statements of a nest.
pub(crate) const MOST_WRITTEN: i64 = 64;

/// A contraction that is written out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Combination<'a> {
    space: &'a IterationSpace,
    literal: &'a Tensor,
    /// What the literal's axes are, and the other operand's.
    factors: &'a [Expr],
    index: &'a [Expr],
    /// The other operand, and its number.
    pub(crate) value: ValueId,
    pub(crate) operand: usize,
    /// The axis of the result along which vectors run: the innermost one of the value.
    pub(crate) vector_axis: usize,
}

/// One term of an element.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Term {
    /// The factor, not zero.
    pub(crate) factor: f64,
    /// The place in the value.
    pub(crate) index: Vec<Expr>,
}

impl<'a> Combination<'a> {
    /// A node as a combination, if it is one: numbers of one type, a literal each of whose axes is
    /// one of the space, among them all that are summed.
    pub(crate) fn of(function: &'a Function, node: NodeId) -> Option<Combination<'a>> {
        let data = &function.nodes[node];
        let Op::Contract { space, accumulator, dtype } = &data.op else { return None };
        let literal = |&number: &usize| function.literal(data.operands[number]).is_some();
        let own = (0..2).find(literal)?;
        let (value, operand) = (data.operands[1 - own], 1 - own);
        let literal = function.literal(data.operands[own])?;
        let same = function.ty(value).as_tensor().is_some_and(|ty| ty.dtype == *dtype);
        let fits = matches!(dtype, DType::F32 | DType::F64 | DType::I32);
        if !fits || !same || accumulator != dtype || literal.dtype() != *dtype {
            return None;
        }
        let factors = &space.operands[own];
        let axes: Option<Vec<SymbolId>> = factors.iter().map(Expr::as_symbol).collect();
        let axes = axes?;
        let summed = space.parallel..space.extents.len();
        // The axis along which vectors run is not one of the sum.
        let last = extents(function, value).iter().rposition(|extent| !extent.is_one())?;
        let innermost = space.operands[1 - own][last].as_symbol()?;
        let vectors = innermost.index() < space.parallel && !axes.contains(&innermost);
        let covers = vectors && summed.clone().all(|axis| axes.contains(&SymbolId::new(axis)));
        let known = space.extents.iter().all(|extent| extent.as_constant().is_some());
        let few = known && literal.len() as i64 <= MOST_WRITTEN && literal.len() > 1;
        (covers && few && !summed.is_empty()).then_some(Combination {
            space,
            literal,
            factors,
            index: &space.operands[1 - own],
            value,
            operand,
            vector_axis: innermost.index(),
        })
    }

    /// The axes of the result that are axes of the literal.
    pub(crate) fn written_axes(&self) -> impl Iterator<Item = usize> {
        let axes = self.factors.iter().filter_map(Expr::as_symbol).map(Id::index);
        axes.filter(|&axis| axis < self.space.parallel)
    }

    /// How many statements the axes of the literal take.
    pub(crate) fn written(&self) -> i64 {
        self.written_axes().map(|axis| self.extent(axis)).product()
    }

    /// Whether an element of the value is read at an axis of the result as it is: which one.
    pub(crate) fn axis_read_at(&self, axis: usize) -> Option<usize> {
        self.index[axis].as_symbol().map(Id::index).filter(|&own| own < self.space.parallel)
    }

    /// Whether an axis of the value is indexed by what is summed alone.
    pub(crate) fn sums_axis(&self, axis: usize) -> bool {
        self.index[axis].symbols().iter().all(|own| own.index() >= self.space.parallel)
    }

    fn extent(&self, axis: usize) -> i64 {
        self.space.extents[axis].as_constant().unwrap_or(1)
    }
}

/// A combination made ready to be written out at many places.
#[derive(Debug)]
pub(crate) struct Expansion<'a> {
    pub(crate) combination: Combination<'a>,
    /// The literal's elements.
    numbers: Vec<f64>,
    /// Elements of the literal from one point of each axis of the space to the next.
    steps: Vec<usize>,
    /// What is added up: the points of the axes of the sum.
    summed: Vec<Vec<i64>>,
    /// For each of them, by how much it moves each axis of the value; none where an index is not
    /// linear in the axes of the sum.
    moved: Option<Vec<Vec<i64>>>,
}

impl<'a> Expansion<'a> {
    /// A combination, ready.
    pub(crate) fn of(combination: Combination<'a>) -> Expansion<'a> {
        let Combination { space, literal, factors, index, .. } = combination;
        let mut steps = vec![0; space.extents.len()];
        let mut step = 1;
        for (factor, extent) in factors.iter().zip(literal.shape()).rev() {
            if let Some(axis) = factor.as_symbol() {
                steps[axis.index()] += step;
            }
            step *= extent;
        }
        let axes = space.parallel..space.extents.len();
        let extents: Vec<i64> = axes.clone().map(|axis| combination.extent(axis)).collect();
        let summed: Vec<Vec<i64>> = points(&extents).collect();
        let along = |expr: &Expr, point: &[i64]| {
            let mut parts = axes.clone().zip(point);
            parts.try_fold(0, |sum, (axis, at)| {
                Some(sum + expr.linear_coefficient(SymbolId::new(axis))? * at)
            })
        };
        let moved = |point: &Vec<i64>| index.iter().map(|expr| along(expr, point)).collect();
        let moved = summed.iter().map(moved).collect();
        let numbers = literal.scalars().map(|scalar| scalar.as_f64()).collect();
        Expansion { combination, numbers, steps, summed, moved }
    }

    /// The terms of the element at an index, whose entries at axes of the literal are constants;
    /// none if they are not. The places are in simplest form.
    pub(crate) fn terms(&self, index: &[Expr], ranges: Ranges<'_>) -> Option<Vec<Term>> {
        let parallel = self.combination.space.parallel;
        let mut first = 0;
        for (axis, step) in self.steps[..parallel].iter().enumerate().filter(|(_, step)| **step > 0)
        {
            first += usize::try_from(index[axis].as_constant()?).ok()? * step;
        }
        let at = |expr: &Expr, point: &[i64]| {
            expr.substitute(&mut |symbol| {
                let axis = symbol.index();
                Some(match axis.checked_sub(parallel) {
                    Some(own) => Expr::constant(point.get(own).copied().unwrap_or(0)),
                    None => index[axis].clone(),
                })
            })
        };
        let all_at = |point: &[i64]| -> Vec<Expr> {
            let places = self.combination.index.iter().map(|expr| at(expr, point));
            places
                .map(|place| if place.is_simple(ranges) { place } else { place.simplify(ranges) })
                .collect()
        };
        let start = self.moved.is_some().then(|| all_at(&[]));
        let mut terms = Vec::with_capacity(self.summed.len());
        for (number, point) in self.summed.iter().enumerate() {
            let own = point.iter().zip(&self.steps[parallel..]);
            let position = own.fold(first, |position, (at, step)| position + *at as usize * step);
            let factor = *self.numbers.get(position)?;
            if factor == 0.0 {
                continue;
            }
            let index = match (&start, &self.moved) {
                (Some(start), Some(moved)) => {
                    start.iter().zip(&moved[number]).map(|(expr, by)| expr + *by).collect()
                }
                _ => all_at(point),
            };
            terms.push(Term { factor, index });
        }
        Some(terms)
    }
}

/// All points of a box, the last axis fastest.
pub(crate) fn points(extents: &[i64]) -> impl Iterator<Item = Vec<i64>> {
    (0..extents.iter().product()).map(move |number| {
        let mut point = vec![0; extents.len()];
        let mut rest = number;
        for (entry, extent) in point.iter_mut().zip(extents).rev() {
            (*entry, rest) = (rest % extent, rest / extent);
        }
        point
    })
}

/// The axes of a nest, over the result of `node` or over a domain, that are written out because
/// combinations in it need constants there. `inlined` says which values are substituted.
pub(crate) fn written_axes(
    function: &Function,
    node: NodeId,
    domain: Option<&AnchorDomain>,
    inlined: &dyn Fn(ValueId) -> bool,
) -> Vec<bool> {
    let result = function.nodes[node].results[0];
    let anchor = domain.map_or(result, |domain| domain.anchor);
    let extents = extents(function, anchor);
    let mut written = vec![false; extents.len()];
    // What is free cannot be written out, and has no combinations inside of it.
    if extents.iter().any(|extent| extent.as_constant().is_none()) {
        return written;
    }
    let start = match domain {
        Some(_) => function.producer(anchor).map(|(node, _)| node),
        None => Some(node),
    };
    let axes = AxisSymbols::of(function);
    let index = axes.index(extents);
    let mut work: Vec<(NodeId, Vec<Expr>)> = start.map(|node| (node, index)).into_iter().collect();
    let ranges = |symbol: SymbolId| axes.range(function, extents, symbol);
    // A value may be read in many ways, and what it reads in many more.
    let mut seen: FxHashSet<(NodeId, Vec<Expr>)> = FxHashSet::default();
    while let Some((node, index)) = work.pop() {
        if !seen.insert((node, index.clone())) {
            continue;
        }
        if let Some(combination) = Combination::of(function, node) {
            let symbols = combination.written_axes().flat_map(|axis| index[axis].symbols());
            symbols.filter_map(|symbol| axes.axis(symbol)).for_each(|axis| written[axis] = true);
            let zero = |expr: &Expr| {
                expr.substitute(&mut |symbol| {
                    Some(index.get(symbol.index()).cloned().unwrap_or(Expr::ZERO))
                })
            };
            let read: Vec<Expr> = combination.index.iter().map(zero).collect();
            push(function, combination.value, read, inlined, &mut work);
            continue;
        }
        for (number, &operand) in function.nodes[node].operands.iter().enumerate() {
            if let Some(read) = operand_index(function, node, number, &index, &ranges) {
                push(function, operand, read, inlined, &mut work);
            }
        }
    }
    written
}

fn push(
    function: &Function,
    value: ValueId,
    index: Vec<Expr>,
    inlined: &dyn Fn(ValueId) -> bool,
    work: &mut Vec<(NodeId, Vec<Expr>)>,
) {
    if let Some((node, _)) = function.producer(value).filter(|_| inlined(value)) {
        work.push((node, index));
    }
}
