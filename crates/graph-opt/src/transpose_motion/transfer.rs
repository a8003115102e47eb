//! How frames pass through primitives. The frame of a value is a permutation: the value is kept as
//! what transposing it by that permutation gives.

use base::{Id, InOrder};
use graph::{IterationSpace, Op, axis_groups};
use sym::{Expr, SymbolId};

use crate::permutation;
use crate::rules::spaces::{natural_order, with_space};

/// A permutation of a value's axes.
pub(super) type Frame = Vec<usize>;

/// Whether the result of a primitive and the operands of its rank have one frame, because it treats
/// axes alike: a gather does that puts indices of one axis in the place of the axis they index.
pub(super) fn is_uniform(op: &Op) -> bool {
    match op {
        Op::Gather { axes, batch, position } => *batch == 0 && axes[..] == [*position],
        _ => matches!(
            op,
            Op::Map { .. }
                | Op::Bitcast { .. }
                | Op::Slice { .. }
                | Op::Pad { .. }
                | Op::Concat { .. }
                | Op::Cumulate { .. }
        ),
    }
}

/// Whether a primitive can make its result in another frame.
pub(super) fn is_movable(op: &Op) -> bool {
    let summing = matches!(op, Op::Contract { .. } | Op::Reduce { .. });
    is_uniform(op) || summing || matches!(op, Op::Broadcast { .. } | Op::Reshape { .. })
}

/// The same primitive with its result in a frame, and the operands of one that is uniform.
pub(super) fn in_frame(op: &Op, frame: &[usize]) -> Op {
    let mut op = op.clone();
    let moved = |axis: usize| permutation::inverse(frame)[axis];
    match &mut op {
        Op::Slice { starts, steps, shape } => {
            if !base::fault::is_seeded("graph-opt.frame") {
                *starts = permutation::apply(frame, starts);
            }
            *steps = permutation::apply(frame, steps);
            *shape = permutation::apply(frame, shape).into();
        }
        Op::Pad { low, high, interior } => {
            *low = permutation::apply(frame, low);
            *high = permutation::apply(frame, high);
            *interior = permutation::apply(frame, interior);
        }
        Op::Concat { axis } | Op::Cumulate { axis, .. } => *axis = moved(*axis),
        Op::Gather { axes, position, .. } => {
            *position = moved(*position);
            *axes = vec![*position];
        }
        Op::Contract { space, .. } | Op::Reduce { space, .. } => {
            let space = permute_result(space, frame);
            op = with_space(&op, space);
        }
        _ => {}
    }
    op
}

/// A reduction that reads its operand in a frame.
pub(super) fn read_in_frame(op: &Op, operand: &[usize]) -> Op {
    let Op::Reduce { space, .. } = op else { return op.clone() };
    let mut space = space.clone();
    space.operands[0] = permutation::apply(operand, &space.operands[0]);
    with_space(op, space)
}

/// A space whose result is in a frame.
fn permute_result(space: &IterationSpace, frame: &[usize]) -> IterationSpace {
    let mut extents = permutation::apply(frame, &space.extents[..space.parallel]);
    extents.extend_from_slice(&space.extents[space.parallel..]);
    let position = permutation::inverse(frame);
    let rename = |index: &Expr| {
        index.substitute(&mut |symbol: SymbolId| {
            let axis = symbol.index();
            Some(IterationSpace::axis(position.get(axis).copied().unwrap_or(axis)))
        })
    };
    let operands = space.operands.iter().map(|index| index.iter().map(rename).collect());
    IterationSpace { extents, parallel: space.parallel, operands: operands.collect() }
}

/// The frame of a broadcast's operand that makes its result in a frame without a transpose.
pub(super) fn through_broadcast(axes: &[usize], result: &[usize]) -> Frame {
    let position = permutation::inverse(result);
    let mut frame = permutation::identity(axes.len());
    frame.put_in_order_by_key(|&axis| position[axes[axis]]);
    frame
}

/// The frame of a contraction's operand in which the axes that the sum goes along are last.
pub(super) fn terms_last(space: &IterationSpace, operand: usize) -> Frame {
    let index = &space.operands[operand];
    let is_term =
        |axis: &usize| index[*axis].symbols().iter().any(|symbol| symbol.index() >= space.parallel);
    let mut frame = permutation::identity(index.len());
    frame.put_in_order_by_key(is_term);
    frame
}

/// The frame of a reduction's result that follows an operand in a frame.
pub(super) fn through_reduce(space: &IterationSpace, operand: &[usize]) -> Frame {
    natural_order(space, &permutation::apply(operand, &space.operands[0]))
}

/// The frame of a reduction's operand that a result in a frame follows, where each axis of the
/// operand belongs to one of the result.
pub(super) fn back_through_reduce(space: &IterationSpace, result: &[usize]) -> Option<Frame> {
    let position = permutation::inverse(result);
    let place = |index: &Expr| {
        let symbols = index.symbols();
        let mut own = symbols.iter().map(|symbol| symbol.index()).filter(|&a| a < space.parallel);
        own.next().filter(|_| own.next().is_none()).map(|axis| position[axis])
    };
    let places: Vec<usize> = space.operands[0].iter().map(place).collect::<Option<_>>()?;
    let mut frame = permutation::identity(places.len());
    frame.put_in_order_by_key(|&axis| places[axis]);
    Some(frame)
}

/// The frame of a reshape's result whose operand is in a frame, or the other way round, where the
/// elements stay in order: each group of axes that becomes a group of axes keeps together.
pub(super) fn through_reshape(from: &[Expr], to: &[Expr], frame: &[usize]) -> Option<Frame> {
    let groups = axis_groups(from, to)?;
    let order: Vec<usize> = frame.iter().copied().filter(|&axis| !from[axis].is_one()).collect();
    let mut rest = &order[..];
    let mut long = Vec::new();
    while let Some(&first) = rest.first() {
        let (old, new) = groups.iter().find(|(old, _)| old[0] == first)?;
        rest = rest.strip_prefix(&old[..])?;
        long.extend_from_slice(new);
    }
    // An axis of extent 1 stays behind the axis that it follows.
    let units = |start: usize| (start..to.len()).take_while(|&axis| to[axis].is_one());
    let mut result: Frame = units(0).collect();
    for axis in long {
        result.push(axis);
        result.extend(units(axis + 1));
    }
    Some(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(extents: &[i64]) -> Vec<Expr> {
        extents.iter().map(|&extent| Expr::constant(extent)).collect()
    }

    fn check(from: &[i64], to: &[i64], frame: &[usize], expected: Option<&[usize]>) {
        let found = through_reshape(&shape(from), &shape(to), frame);
        assert_eq!(found.as_deref(), expected, "{from:?} to {to:?} in {frame:?}");
    }

    #[test]
    fn frames_through_reshapes() {
        check(&[2, 3, 4, 5], &[2, 3, 20], &[0, 2, 3, 1], Some(&[0, 2, 1]));
        check(&[2, 3, 20], &[2, 3, 4, 5], &[0, 2, 1], Some(&[0, 2, 3, 1]));
        check(&[2, 3, 4, 5], &[2, 60], &[0, 2, 3, 1], None);
        check(&[1, 24, 1, 5, 5], &[1, 24, 5, 5], &[0, 3, 4, 1, 2], Some(&[0, 2, 3, 1]));
        check(&[1, 24, 5, 5], &[1, 24, 1, 5, 5], &[0, 2, 3, 1], Some(&[0, 3, 4, 1, 2]));
        check(&[2, 3, 1, 1], &[2, 3], &[0, 2, 3, 1], Some(&[0, 1]));
        check(&[1, 1], &[1], &[1, 0], Some(&[0]));
        check(&[4, 6], &[24], &[1, 0], None);
        check(&[2, 6, 4], &[2, 2, 3, 4], &[0, 2, 1], Some(&[0, 3, 1, 2]));
    }
}
