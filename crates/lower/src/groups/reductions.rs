//! Reductions over windows with an axis last along which vectors are full, and greatest and least
//! elements of short floats found among floats of 32 bits.
//!
//! before: `reduce max [n, c, y, x | ky, kx] data[n, c, 2*y + ky, 3*x + kx]`
//! after:  `reduce max [n, y, x, c | ky, kx] data[n, 2*y + ky, 3*x + kx, c]`, the result transposed
//!
//! Each element of the data is met by several windows, so vectors of neighbouring results should
//! read neighbouring elements. Along the image they do not where windows are steps apart, and few
//! of them are full where it is narrow. An axis without windows, the channels, serves any image;
//! what it takes is a copy of the data and of the result. Any reduction whose result has its axes
//! in another order than the data goes over vectors of what lies together in the data. Each window
//! is taken in the order it had: sums in interleaved parts, which lie along the image, stay as they
//! are. All is decided by extents alone, so every target has the same.
//!
//! A machine compares short floats as f32, which it would have to round again in each turn; the
//! greatest of some is the same in both types, so it is rounded once, which is exact.

use std::ops::Range;

use base::Id;
use graph::{Built, Function, IterationSpace, Node, NodeId, Op, Rewriter, ValueId};
use sym::SymbolId;
use tensor::{DType, Reduction};

use super::homes::reads_twice;
use crate::extents::Extents;
use crate::naive::index::{extents_of, weight};
use crate::naive::partials;

/// Bytes of a vector that is to be filled.
const VECTOR_BYTES: i64 = 64;

/// Operations that a copied element takes.
const COPY: f64 = 1.0;

/// How many times faster windows have to be for their data to be copied.
const REPAYING: f64 = 1.5;

/// The axis of a sequential reduction that should go last, if another does so now; and which of the
/// data's axes has to go last for that.
fn axis_to_put_last(
    function: &Function,
    node: NodeId,
    asked: &Extents<'_>,
) -> Option<(usize, usize)> {
    let data = &function.nodes[node];
    let Op::Reduce { space, accumulator, .. } = &data.op else { return None };
    if partials::run(function, node, asked).is_some() {
        return None;
    }
    let bits = if is_short(data) { 32 } else { i64::from(accumulator.bits()).max(8) };
    let lanes = VECTOR_BYTES * 8 / bits;
    let extent = |axis: usize| weight(function, &space.extents[axis]);
    let now = (0..space.parallel).rev().find(|&axis| extent(axis) != 1)?;
    let index = &space.operands[0];
    let innermost = index.iter().rposition(|expr| expr.as_constant().is_none())?;
    let alone = |axis: usize| {
        let symbol = SymbolId::new(axis);
        let mut having = (0..index.len()).filter(|&at| index[at].contains(symbol));
        let place = having.next().filter(|_| having.next().is_none())?;
        // What lies along the axis already need not be copied; what is met once is not worth it.
        let fits = place == innermost || reads_twice(space);
        (fits && index[place] == IterationSpace::axis(axis)).then_some(place)
    };
    let (axis, place) = (0..space.parallel)
        .filter_map(|axis| Some((axis, alone(axis)?)))
        .max_by_key(|(axis, place)| (*place == innermost, extent(*axis)))?;
    // Results of an operation on vectors; where most lanes are idle they win little.
    let filled = |count: i64| count as f64 / ((count + lanes - 1) / lanes) as f64;
    if axis == now || filled(extent(axis)) * 2.0 < lanes as f64 {
        return None;
    }
    let step = index[innermost].linear_coefficient(SymbolId::new(now));
    let along = if step == Some(1) { filled(extent(now)) } else { 1.0 };
    let all = |axes: Range<usize>| axes.map(extent).product::<i64>() as f64;
    let results = all(0..space.parallel);
    let work = results * all(space.parallel..space.extents.len());
    let read = match place == innermost {
        true => 0.0,
        false => extents_of(function, data.operands[0]).product::<i64>() as f64,
    };
    let then = work / filled(extent(axis)) + COPY * (results + read);
    let place = if place == innermost { index.len() - 1 } else { place };
    (then * REPAYING < work / along).then_some((axis, place))
}

/// Whether a reduction compares short floats.
fn is_short(node: &Node) -> bool {
    let Op::Reduce { reduction, accumulator, .. } = &node.op else { return false };
    let compares = matches!(reduction, Reduction::Max | Reduction::Min);
    compares && matches!(accumulator, DType::F16 | DType::BF16)
}

/// Whether there is another form of a reduction, which is to be preferred.
pub(super) fn is_rewritten(function: &Function, node: NodeId, asked: &Extents<'_>) -> bool {
    is_short(&function.nodes[node]) || axis_to_put_last(function, node, asked).is_some()
}

/// The form of a reduction that is to be preferred; its result in the order and the type that it
/// had.
pub(super) fn rewritten(
    rewriter: &mut Rewriter<'_>,
    node: NodeId,
    asked: &Extents<'_>,
    transposed: fn(&mut Rewriter<'_>, ValueId, &[usize]) -> Built,
) -> Built<Option<Vec<ValueId>>> {
    let source = rewriter.source;
    if !is_rewritten(source, node, asked) {
        return Ok(None);
    }
    let data = &source.nodes[node];
    let Op::Reduce { space, reduction, accumulator } = &data.op else { return Ok(None) };
    let put_last = axis_to_put_last(source, node, asked);
    let (mut operand, space) = match put_last {
        Some((axis, place)) => {
            let order = last(place, space.operands[0].len());
            let operand = transposed(rewriter, data.operands[0], &order)?;
            (operand, space_with_last(space, axis, &order))
        }
        None => (rewriter.get(data.operands[0]), space.clone()),
    };
    let builder = &mut rewriter.builder;
    let short = is_short(data).then_some(*accumulator);
    if short.is_some() {
        operand = builder.cast(operand, DType::F32)?;
    }
    let kept = short.map_or(*accumulator, |_| DType::F32);
    let parallel = space.parallel;
    let mut value = builder.reduce(space, operand, *reduction, kept)?;
    if let Some(short) = short {
        value = builder.cast(value, short)?;
    }
    if let Some((axis, _)) = put_last {
        value = builder.transpose(value, &inverse(&last(axis, parallel)))?;
    }
    Ok(Some(vec![value]))
}

/// A space of which an axis of the result goes last, and whose operand has its axes in an order.
fn space_with_last(space: &IterationSpace, axis: usize, order: &[usize]) -> IterationSpace {
    let axes = last(axis, space.parallel);
    let back = inverse(&axes);
    let renamed = |symbol: SymbolId| match back.get(symbol.index()) {
        Some(&new) => SymbolId::new(new),
        None => symbol,
    };
    let index = order.iter().map(|&from| {
        let mut index = space.operands[0][from].clone();
        index.rename(&renamed);
        index
    });
    let operands = vec![index.collect()];
    let mut extents: Vec<_> = axes.iter().map(|&old| space.extents[old].clone()).collect();
    extents.extend_from_slice(&space.extents[space.parallel..]);
    IterationSpace { extents, parallel: space.parallel, operands }
}

/// The permutation that undoes another.
fn inverse(order: &[usize]) -> Vec<usize> {
    let mut back = vec![0; order.len()];
    order.iter().enumerate().for_each(|(new, &old)| back[old] = new);
    back
}

/// All axes in order, but for one that goes last.
fn last(axis: usize, rank: usize) -> Vec<usize> {
    (0..rank).filter(|&other| other != axis).chain([axis]).collect()
}
