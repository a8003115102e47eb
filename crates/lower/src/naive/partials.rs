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
use crate::groups::legal::copies_panels_of_operand;

/// From how many contiguous elements on a reduction keeps how many partial results; most first.
pub(crate) const PARTIALS: [(i64, i64); 3] = [(256, 64), (128, 32), (16, 16)];

/// Values that are looked at to find how an operand walks a run.
const LOOKED_AT: usize = 64;

/// Neighbouring reduced axes, which all operands walk as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Axes of the iteration space, the innermost with more than one element included.
    pub(crate) axes: Range<usize>,
    /// Elements of all of them.
    pub(crate) extent: Expr,
}

/// How many partial results a reduction over `extent` contiguous elements keeps; 1 is none.
pub(crate) fn partials(extent: i64) -> i64 {
    PARTIALS.iter().find(|(least, _)| extent >= *least).map_or(1, |(_, count)| *count)
}

/// The innermost run of a contraction or reduction; none where an operand is not contiguous along
/// its innermost reduced axis, or is copied so that it is not.
pub(crate) fn run(function: &Function, node: NodeId) -> Option<Run> {
    let data = &function.nodes[node];
    if let Op::Contract { space, .. } = &data.op
        && copies_panels_of_operand(function, space, &data.operands)
    {
        return None;
    }
    let short = |run: &Run| run.extent.as_constant().is_some_and(|extent| partials(extent) == 1);
    let run = run_where(function, node, &|operand, axes| {
        walks(function, operand, axes, &mut Vec::new())
    })?;
    match short(&run) {
        true => run_where(function, node, &|_, _| true),
        false => Some(run),
    }
}

/// The innermost run of which every operand can be walked along axes of its own.
fn run_where(
    function: &Function,
    node: NodeId,
    walks: &dyn Fn(ValueId, &[usize]) -> bool,
) -> Option<Run> {
    let data = &function.nodes[node];
    let space = space(&data.op)?;
    let last = space.innermost_reduced()?;
    let all = |fits: &dyn Fn(usize, ValueId) -> bool| {
        data.operands.iter().enumerate().all(|(number, &operand)| fits(number, operand))
    };
    if !all(&|number, operand| space.is_contiguous(number, extents(function, operand), last)) {
        return None;
    }
    let mut run = Run { axes: last..last + 1, extent: space.extents[last].clone() };
    let (mut inner, mut axes) = (last, vec![last]);
    for outer in (space.parallel..last).rev().filter(|&axis| !space.extents[axis].is_one()) {
        axes.insert(0, outer);
        let fits = |number: usize, operand: ValueId| {
            space.steps_as_one(number, extents(function, operand), outer, inner)
                && walks(operand, &places(space, number, &axes))
        };
        if !all(&fits) {
            break;
        }
        run = Run { axes: outer..last + 1, extent: space.extents[outer].clone() * &run.extent };
        inner = outer;
    }
    Some(run)
}

/// The axes of an operand that axes of the space are.
fn places(space: &IterationSpace, operand: usize, axes: &[usize]) -> Vec<usize> {
    let index = &space.operands[operand];
    let place = |&axis: &usize| index.iter().position(|own| *own == IterationSpace::axis(axis));
    axes.iter().filter_map(place).collect()
}

/// Whether a value, if it is computed where it is read, reads memory by ones along these axes taken
/// as one, or does not move along any of them.
fn walks(function: &Function, value: ValueId, axes: &[usize], seen: &mut Vec<ValueId>) -> bool {
    if seen.contains(&value) {
        return true;
    }
    if seen.len() >= LOOKED_AT {
        return false;
    }
    seen.push(value);
    let Definition::Result(node, _) = function.values[value].definition else { return true };
    let data = &function.nodes[node];
    let same =
        |&axis: &usize| extents(function, data.operands[0])[axis] == extents(function, value)[axis];
    match &data.op {
        Op::Map { .. } => data.operands.iter().all(|&operand| walks(function, operand, axes, seen)),
        Op::Broadcast { axes: kept, .. } => {
            let own = extents(function, data.operands[0]);
            let moves = |at: &usize| axes.contains(&kept[*at]) && !own[*at].is_one();
            let moving: Vec<usize> = (0..kept.len()).filter(moves).collect();
            moving.is_empty()
                || moving.len() == axes.len() && walks(function, data.operands[0], &moving, seen)
        }
        Op::Transpose { permutation } => {
            let from: Vec<usize> = axes.iter().map(|&axis| permutation[axis]).collect();
            let neighbours = from.windows(2).all(|pair| pair[0] + 1 == pair[1]);
            neighbours && walks(function, data.operands[0], &from, seen)
        }
        Op::Slice { .. } | Op::Pad { .. } => {
            axes.iter().all(same) && walks(function, data.operands[0], axes, seen)
        }
        Op::Gather { batch, position, .. } => {
            let count = extents(function, data.operands[1]).len() - batch;
            let looked_up = batch + position..batch + position + count;
            !axes.iter().any(|axis| looked_up.contains(axis))
        }
        Op::Iota { axis, .. } => !axes.contains(axis),
        Op::Reshape { .. } => match behind_reshape(function, data.operands[0], value, axes) {
            Some(axes) => walks(function, data.operands[0], &axes, seen),
            None => {
                matches!(function.values[data.operands[0]].definition, Definition::Parameter(..))
            }
        },
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
) -> Option<Vec<usize>> {
    let (own, shape) = (extents(function, operand), extents(function, result));
    let (first, last) = (*axes.first()?, *axes.last()?);
    if !shape[last + 1..].iter().all(Expr::is_one) {
        return None;
    }
    let count: Expr = shape[first..].iter().product();
    let start = (0..own.len()).rev().find(|&at| own[at..].iter().product::<Expr>() == count)?;
    Some((start..own.len()).filter(|&at| !own[at].is_one()).collect())
}
