//! Along which elements a reduction keeps partial results, and how many: a function of the graph
//! and its extents alone, so that code for one shape and code for many sum in one order.
//!
//! ```text
//! reduce [.., r0: 89, r1: 10] %x[.., r0, r1]      a run of 890 elements
//! reduce [.., r0: 89, r1: 10] %x[r0, .., r1]      a run of 10
//! ```
//!
//! The innermost reduced axes that every operand walks as one are a *run*: its elements lie behind
//! each other, whichever of the axes they belong to. Where an operand repeats what it reads along
//! some of a run's axes and not along others, it has no place that moves by ones along the run;
//! such a run ends before the axis at which that begins, unless it is then too short for partial
//! results: what is repeated is better stored than all is summed in one go.

use std::ops::Range;

use graph::{Definition, Function, IterationSpace, NodeId, Op, ValueId};
use sym::Expr;

use super::index::extents;
use crate::definitions::space;
use crate::extents::Extents;
use crate::groups::legal::copies_panels_of_operand;

/// From how many contiguous elements on a reduction keeps how many partial results; most first.
const PARTIALS: [(i64, i64); 3] = [(256, 64), (128, 32), (16, 16)];

/// Values that are looked at to find how an operand walks a run.
const LOOKED_AT: usize = 64;

/// Neighbouring reduced axes, which all operands walk as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Axes of the iteration space, the innermost with more than one element included.
    pub(crate) axes: Range<usize>,
    /// Elements of all of them.
    pub(crate) extent: Expr,
    /// How many partial results are kept along it, more than one.
    pub(crate) partials: i64,
}

/// How many partial results a reduction over `extent` contiguous elements keeps; 1 is none.
fn partials(asked: &Extents<'_>, extent: &Expr) -> i64 {
    let mut steps = PARTIALS.iter();
    steps.find(|(least, _)| asked.reaches(extent, *least, false)).map_or(1, |(_, count)| *count)
}

/// The innermost run of a contraction or reduction along which it keeps partial results; none where
/// it is short, where an operand is not contiguous along its innermost reduced axis, or is copied
/// so that it is not.
pub(crate) fn run(function: &Function, node: NodeId, asked: &Extents<'_>) -> Option<Run> {
    let data = &function.nodes[node];
    let walks = |operand, axes: &[usize]| walks(function, operand, axes, asked, &mut Vec::new());
    let run = run_where((function, node), asked, &walks)?;
    if let Op::Contract { space, .. } = &data.op
        && copies_panels_of_operand(function, space, &data.operands, asked)
    {
        return None;
    }
    let run = match run.partials {
        1 => run_where((function, node), asked, &|_, _| true)?,
        _ => run,
    };
    (run.partials > 1).then_some(run)
}

/// Asks what the order of each sum of a function follows from.
pub(crate) fn all(function: &Function, asked: &Extents<'_>) {
    for node in function.nodes_in_order() {
        run(function, node, asked);
    }
}

/// The innermost run of which every operand can be walked along axes of its own.
fn run_where(
    (function, node): (&Function, NodeId),
    asked: &Extents<'_>,
    walks: &dyn Fn(ValueId, &[usize]) -> bool,
) -> Option<Run> {
    let data = &function.nodes[node];
    let space = space(&data.op)?;
    let is_one = |extent: &Expr| asked.is_one(extent);
    let all = |fits: &dyn Fn(usize, ValueId) -> bool| {
        data.operands.iter().enumerate().all(|(number, &operand)| fits(number, operand))
    };
    let is_contiguous = |axis: usize, is_one: &dyn Fn(&Expr) -> bool| {
        all(&|number, operand| {
            space.is_contiguous_by(number, extents(function, operand), axis, is_one)
        })
    };
    // What is not so whatever free extents are is not asked; nor is whether a single axis is long,
    // since a short run is none.
    let may_be_one = |extent: &Expr| extent.as_constant().is_none_or(|known| known == 1);
    let reduced = space.parallel..space.extents.len();
    let long: Vec<usize> = reduced.filter(|&axis| !space.extents[axis].is_one()).collect();
    if !long.iter().any(|&axis| is_contiguous(axis, &may_be_one)) {
        return None;
    }
    let last = match long[..] {
        [only] => only,
        _ => space.innermost_reduced_by(&is_one)?,
    };
    if !is_contiguous(last, &may_be_one) || !is_contiguous(last, &is_one) {
        return None;
    }
    let (mut taken, mut extent) = (last..last + 1, space.extents[last].clone());
    let (mut inner, mut axes) = (last, vec![last]);
    for outer in (space.parallel..last).rev().filter(|&axis| !is_one(&space.extents[axis])) {
        axes.insert(0, outer);
        let is_same = |one: &Expr, other: &Expr| asked.is_same(one, other);
        let fits = |number: usize, operand: ValueId| {
            space.steps_as_one_by(
                number,
                extents(function, operand),
                [outer, inner],
                &is_one,
                &is_same,
            ) && walks(operand, &places(space, number, &axes))
        };
        if !all(&fits) {
            break;
        }
        (taken, extent) = (outer..last + 1, space.extents[outer].clone() * &extent);
        inner = outer;
    }
    let partials = partials(asked, &extent);
    Some(Run { axes: taken, extent, partials })
}

/// The axes of an operand that axes of the space are.
fn places(space: &IterationSpace, operand: usize, axes: &[usize]) -> Vec<usize> {
    let index = &space.operands[operand];
    let place = |&axis: &usize| index.iter().position(|own| *own == IterationSpace::axis(axis));
    axes.iter().filter_map(place).collect()
}

/// Whether a value, if it is computed where it is read, reads memory by ones along these axes taken
/// as one, or does not move along any of them.
fn walks(
    function: &Function,
    value: ValueId,
    axes: &[usize],
    asked: &Extents<'_>,
    seen: &mut Vec<ValueId>,
) -> bool {
    if seen.contains(&value) {
        return true;
    }
    if seen.len() >= LOOKED_AT {
        return false;
    }
    seen.push(value);
    let Definition::Result(node, _) = function.values[value].definition else { return true };
    let data = &function.nodes[node];
    let same = |&axis: &usize| {
        let own = [data.operands[0], value].map(|value| &extents(function, value)[axis]);
        asked.is_same(own[0], own[1])
    };
    let mut walks = |value, axes: &[usize]| walks(function, value, axes, asked, seen);
    match &data.op {
        Op::Map { .. } => data.operands.iter().all(|&operand| walks(operand, axes)),
        Op::Broadcast { axes: kept, .. } => {
            let own = extents(function, data.operands[0]);
            let moves = |at: &usize| axes.contains(&kept[*at]) && !asked.is_one(&own[*at]);
            let moving: Vec<usize> = (0..kept.len()).filter(moves).collect();
            moving.is_empty() || moving.len() == axes.len() && walks(data.operands[0], &moving)
        }
        Op::Transpose { permutation } => {
            let from: Vec<usize> = axes.iter().map(|&axis| permutation[axis]).collect();
            let neighbours = from.windows(2).all(|pair| pair[0] + 1 == pair[1]);
            neighbours && walks(data.operands[0], &from)
        }
        Op::Slice { .. } | Op::Pad { .. } => axes.iter().all(same) && walks(data.operands[0], axes),
        Op::Gather { batch, position, .. } => {
            let count = extents(function, data.operands[1]).len() - batch;
            let looked_up = batch + position..batch + position + count;
            !axes.iter().any(|axis| looked_up.contains(axis))
        }
        Op::Iota { axis, .. } => !axes.contains(axis),
        Op::Reshape { .. } => {
            match behind_reshape(function, data.operands[0], value, axes, asked) {
                Some(axes) => walks(data.operands[0], &axes),
                None => {
                    matches!(
                        function.values[data.operands[0]].definition,
                        Definition::Parameter(..)
                    )
                }
            }
        }
        _ => true,
    }
}

/// The innermost axes of a reshape's operand that hold as many elements as the axes of its result,
/// where these are the innermost of that.
fn behind_reshape(
    function: &Function,
    operand: ValueId,
    result: ValueId,
    axes: &[usize],
    asked: &Extents<'_>,
) -> Option<Vec<usize>> {
    let (own, shape) = (extents(function, operand), extents(function, result));
    let (first, last) = (*axes.first()?, *axes.last()?);
    let is_one = |extent: &Expr| asked.is_one(extent);
    if !shape[last + 1..].iter().all(is_one) {
        return None;
    }
    let count: Expr = shape[first..].iter().product();
    let is_all = |&at: &usize| asked.is_same(&own[at..].iter().product::<Expr>(), &count);
    let start = (0..own.len()).rev().find(is_all)?;
    Some((start..own.len()).filter(|&at| !is_one(&own[at])).collect())
}
