//! Rules of movements: reshapes, transposes, broadcasts, slices, pads, concatenations.
//!
//! Normal forms: the operand of a `Broadcast` has no axis of extent 1; a transpose that moves only
//! axes of extent 1 is a `Reshape`; so is a broadcast that only inserts them.

use base::InOrder;
use graph::{Op, ValueId};
use sym::Expr;

use super::{Fired, No, Rule, Subject, require};
use crate::maker::Maker;
use crate::permutation;

pub(super) const RULES: &[Rule] = &[
    Rule::new(
        "transpose_twice",
        Subject::Transpose,
        "transpose q (transpose p x) => transpose (p q) x",
        transpose_twice,
    ),
    Rule::new(
        "transpose_of_units",
        Subject::Transpose,
        "transpose x => reshape x if only axes of extent 1 move",
        transpose_of_units,
    ),
    Rule::new(
        "transpose_of_broadcast",
        Subject::Transpose,
        "transpose (broadcast x) => broadcast (transpose x)",
        transpose_of_broadcast,
    ),
    Rule::new(
        "transpose_of_iota",
        Subject::Transpose,
        "transpose (iota axis a) => iota axis b",
        transpose_of_iota,
    ),
    Rule::new("reshape_twice", Subject::Reshape, "reshape (reshape x) => reshape x", reshape_twice),
    Rule::new(
        "reshape_of_broadcast",
        Subject::Reshape,
        "reshape (broadcast x) => broadcast x if only axes of extent 1 come or go",
        reshape_of_broadcast,
    ),
    Rule::new(
        "reshape_of_concat",
        Subject::Reshape,
        "reshape (concat x, y) => concat (reshape x), (reshape y) if only axes of extent 1 \
         come or go",
        reshape_of_concat,
    ),
    Rule::new(
        "broadcast_twice",
        Subject::Broadcast,
        "broadcast (broadcast x) => broadcast x",
        broadcast_twice,
    ),
    Rule::new(
        "broadcast_of_units",
        Subject::Broadcast,
        "broadcast x => broadcast (reshape x) if x has axes of extent 1",
        broadcast_of_units,
    ),
    Rule::new(
        "broadcast_to_units",
        Subject::Broadcast,
        "broadcast x => reshape x if every new axis has extent 1",
        broadcast_to_units,
    ),
    Rule::new("slice_twice", Subject::Slice, "slice (slice x) => slice x", slice_twice),
    Rule::new(
        "slice_of_broadcast",
        Subject::Slice,
        "slice (broadcast x) => broadcast (slice x)",
        slice_of_broadcast,
    ),
    Rule::new(
        "slice_of_concat",
        Subject::Slice,
        "slice (concat .., x, ..) => slice x if it lies within x",
        slice_of_concat,
    ),
    Rule::new("pad_twice", Subject::Pad, "pad (pad x) => pad x if both fill alike", pad_twice),
    Rule::new("pad_of_splat", Subject::Pad, "pad c c => broadcast c", pad_of_splat),
    Rule::new(
        "concat_twice",
        Subject::Concat,
        "concat (concat x, y), z => concat x, y, z",
        concat_twice,
    ),
    Rule::new(
        "concat_of_nothing",
        Subject::Concat,
        "concat x, y => x if y has no elements",
        concat_of_nothing,
    ),
    Rule::new(
        "gather_one",
        Subject::Gather,
        "gather x {c} => slice x if c is one index",
        gather_one,
    ),
    Rule::new(
        "gather_twice",
        Subject::Gather,
        "gather (gather x {c}) i => gather x (gather {c} i) if both are along one axis",
        gather_twice,
    ),
];

/// The axes that are not known to have extent 1.
fn long_axes(shape: &[Expr]) -> Vec<usize> {
    (0..shape.len()).filter(|&axis| !shape[axis].is_one()).collect()
}

/// If two shapes differ in axes of extent 1 alone: where each other axis of the first, in order, is
/// in the second.
pub(super) fn corresponding(first: &[Expr], second: &[Expr]) -> Option<Vec<(usize, usize)>> {
    let (first_long, second_long) = (long_axes(first), long_axes(second));
    let alike = first_long.len() == second_long.len()
        && first_long.iter().zip(&second_long).all(|(&a, &b)| first[a] == second[b]);
    alike.then(|| first_long.into_iter().zip(second_long).collect())
}

fn transpose_twice(maker: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
    let Op::Transpose { permutation: outer } = op else { return Err(No::Match) };
    let Some((Op::Transpose { permutation: inner }, x)) =
        maker.definition_by(operands[0], |op| matches!(op, Op::Transpose { .. }))
    else {
        return Err(No::Match);
    };
    Ok(maker.transpose(x[0], &permutation::compose(&inner, outer))?)
}

fn transpose_of_units(maker: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
    let Op::Transpose { permutation } = op else { return Err(No::Match) };
    let shape = maker.shape(operands[0])?;
    require(permutation::moves_nothing(permutation, &shape), "longer axes move")?;
    Ok(maker.reshape(operands[0], permutation::apply(permutation, &shape))?)
}

fn transpose_of_broadcast(maker: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
    let Op::Transpose { permutation } = op else { return Err(No::Match) };
    let Some((Op::Broadcast { shape, axes }, x)) =
        maker.definition_by(operands[0], |op| matches!(op, Op::Broadcast { .. }))
    else {
        return Err(No::Match);
    };
    let position = permutation::inverse(permutation);
    let mut order: Vec<usize> = (0..axes.len()).collect();
    order.put_in_order_by_key(|&axis| position[axes[axis]]);
    let moved = maker.transpose(x[0], &order)?;
    let axes: Vec<usize> = order.iter().map(|&axis| position[axes[axis]]).collect();
    Ok(maker.broadcast(moved, permutation::apply(permutation, &shape), &axes)?)
}

fn transpose_of_iota(maker: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
    let Op::Transpose { permutation } = op else { return Err(No::Match) };
    let Some((Op::Iota { mut result, axis }, _)) =
        maker.definition_by(operands[0], |op| matches!(op, Op::Iota { .. }))
    else {
        return Err(No::Match);
    };
    result.shape = permutation::apply(permutation, &result.shape).into();
    let axis = permutation::inverse(permutation)[axis];
    Ok(maker.one(&Op::Iota { result, axis }, &[])?)
}

fn reshape_twice(maker: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
    let Op::Reshape { shape } = op else { return Err(No::Match) };
    let Some((Op::Reshape { .. }, x)) =
        maker.definition_by(operands[0], |op| matches!(op, Op::Reshape { .. }))
    else {
        return Err(No::Match);
    };
    let counts: [Expr; 2] = [&maker.shape(x[0])?, shape].map(|shape| shape.iter().product());
    let differ = matches!(counts.each_ref().map(Expr::as_constant), [Some(a), Some(b)] if a != b);
    require(!differ, "the assumptions of the two contradict each other")?;
    Ok(maker.reshape(x[0], shape)?)
}

fn reshape_of_broadcast(maker: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
    let Op::Reshape { shape } = op else { return Err(No::Match) };
    let Some((Op::Broadcast { shape: old, axes }, x)) =
        maker.definition_by(operands[0], |op| matches!(op, Op::Broadcast { .. }))
    else {
        return Err(No::Match);
    };
    if axes.is_empty() {
        return Ok(maker.broadcast(x[0], shape, &[])?);
    }
    let pairs = corresponding(&old, shape).ok_or(No::Because("longer axes change"))?;
    let place = |axis: &usize| Some(pairs.iter().find(|pair| pair.0 == *axis)?.1);
    let axes: Option<Vec<usize>> = axes.iter().map(place).collect();
    let axes = axes.ok_or(No::Because("an axis of extent 1 is mapped"))?;
    Ok(maker.broadcast(x[0], shape, &axes)?)
}

fn reshape_of_concat(maker: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
    let Op::Reshape { shape } = op else { return Err(No::Match) };
    let Some((Op::Concat { axis }, pieces)) =
        maker.definition_by(operands[0], |op| matches!(op, Op::Concat { .. }))
    else {
        return Err(No::Match);
    };
    let old = maker.shape(operands[0])?;
    let pairs = corresponding(&old, shape).ok_or(No::Because("longer axes change"))?;
    let place = pairs.iter().find(|pair| pair.0 == axis).ok_or(No::Because("it is of one"))?.1;
    let mut reshaped = Vec::new();
    for piece in pieces {
        let mut own = shape.clone();
        own[place] = maker.shape(piece)?[axis].clone();
        reshaped.push(maker.reshape(piece, own)?);
    }
    Ok(maker.one(&Op::Concat { axis: place }, &reshaped)?)
}

fn broadcast_twice(maker: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
    let Op::Broadcast { shape, axes: outer } = op else { return Err(No::Match) };
    let Some((Op::Broadcast { axes: inner, .. }, x)) =
        maker.definition_by(operands[0], |op| matches!(op, Op::Broadcast { .. }))
    else {
        return Err(No::Match);
    };
    Ok(maker.broadcast(x[0], shape, &permutation::compose(outer, &inner))?)
}

fn broadcast_of_units(maker: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
    let Op::Broadcast { shape, axes } = op else { return Err(No::Match) };
    let old = maker.shape(operands[0])?;
    let kept = long_axes(&old);
    require(kept.len() < old.len(), "every axis of the operand is longer than 1")?;
    let small = maker.reshape(operands[0], permutation::apply(&kept, &old))?;
    Ok(maker.broadcast(small, shape, &permutation::apply(&kept, axes))?)
}

fn broadcast_to_units(maker: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
    let Op::Broadcast { shape, axes } = op else { return Err(No::Match) };
    let old = maker.shape(operands[0])?;
    let mapped = axes.iter().zip(&old).all(|(&axis, extent)| shape[axis] == *extent);
    let inserted = (0..shape.len()).all(|axis| axes.contains(&axis) || shape[axis].is_one());
    require(mapped && inserted, "elements are repeated")?;
    Ok(maker.reshape(operands[0], shape)?)
}

fn slice_twice(maker: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
    let Op::Slice { starts, steps, shape } = op else { return Err(No::Match) };
    let Some((Op::Slice { starts: first, steps: strides, .. }, x)) =
        maker.definition_by(operands[0], |op| matches!(op, Op::Slice { .. }))
    else {
        return Err(No::Match);
    };
    let start = |axis: usize| &first[axis] + &starts[axis] * strides[axis];
    let starts: Vec<Expr> = (0..shape.len()).map(start).collect();
    // Of an axis with one element left, any step is as good as another.
    let step = |axis: usize| match shape[axis].is_one() {
        true => Some(1),
        false => steps[axis].checked_mul(strides[axis]),
    };
    let steps: Option<Vec<i64>> = (0..shape.len()).map(step).collect();
    Ok(maker.slice(x[0], &starts, &steps.ok_or(No::Match)?, shape)?)
}

fn slice_of_broadcast(maker: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
    let Op::Slice { starts, steps, shape } = op else { return Err(No::Match) };
    let Some((Op::Broadcast { axes, .. }, x)) =
        maker.definition_by(operands[0], |op| matches!(op, Op::Broadcast { .. }))
    else {
        return Err(No::Match);
    };
    let small = maker.shape(x[0])?;
    require(small.iter().all(|extent| !extent.is_one()), "the operand has axes of extent 1")?;
    let (starts, steps) = (permutation::apply(&axes, starts), permutation::apply(&axes, steps));
    let sliced = maker.slice(x[0], &starts, &steps, &permutation::apply(&axes, shape))?;
    Ok(maker.broadcast(sliced, shape, &axes)?)
}

fn slice_of_concat(maker: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
    let Op::Slice { starts, steps, shape } = op else { return Err(No::Match) };
    let Some((Op::Concat { axis }, parts)) =
        maker.definition_by(operands[0], |op| matches!(op, Op::Concat { .. }))
    else {
        return Err(No::Match);
    };
    let symbolic = No::Because("extents depend on symbols");
    let (Some(start), Some(count)) = (starts[axis].as_constant(), shape[axis].as_constant()) else {
        return Err(symbolic);
    };
    let last = start + (count - 1) * steps[axis];
    let mut offset = 0;
    for part in parts {
        let Some(extent) = maker.shape(part)?[axis].as_constant() else { return Err(symbolic) };
        if count > 0 && start.min(last) >= offset && start.max(last) < offset + extent {
            let mut starts = starts.clone();
            starts[axis] = Expr::constant(start - offset);
            return Ok(maker.slice(part, &starts, steps, shape)?);
        }
        offset += extent;
    }
    Err(No::Because("it reaches over several operands"))
}

fn pad_twice(maker: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
    let Op::Pad { low, high, interior } = op else { return Err(No::Match) };
    let Some((Op::Pad { low: inner_low, high: inner_high, interior: inner }, x)) =
        maker.definition(operands[0])
    else {
        return Err(No::Match);
    };
    let fills = [operands[1], x[1]].map(|fill| maker.splat(fill));
    let alike = operands[1] == x[1] || fills[0].is_some() && fills[0] == fills[1];
    require(alike, "they fill with different elements")?;
    let spread = interior.iter().chain(&inner).any(|&between| between != 0);
    require(!spread, "elements are spread")?;
    let crops = |pad: &Expr| pad.as_constant().is_none_or(|pad| pad < 0);
    require(!inner_low.iter().chain(&inner_high).any(crops), "the first may crop")?;
    let sum = |a: &[Expr], b: &[Expr]| a.iter().zip(b).map(|(a, b)| a + b).collect();
    let (low, high) = (sum(low, &inner_low), sum(high, &inner_high));
    Ok(maker.one(&Op::Pad { low, high, interior: inner }, &x)?)
}

fn pad_of_splat(maker: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
    let Op::Pad { .. } = op else { return Err(No::Match) };
    let element = maker.splat(operands[0]).ok_or(No::Match)?;
    require(maker.splat(operands[1]) == Some(element), "it fills with another element")?;
    let types = [operands[0], operands[1]].map(|value| maker.function().ty(value));
    let result = graph::infer(op, &types)?;
    let [graph::Type::Tensor(result)] = &result[..] else { return Err(No::Match) };
    Ok(maker.full(&result.shape, element)?)
}

/// Operands that a concatenation of concatenations may get: of itself with itself, again and again,
/// they double each time.
const MOST_PARTS: usize = 1024;

fn concat_twice(maker: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
    let Op::Concat { axis } = op else { return Err(No::Match) };
    let mut parts = Vec::new();
    for &operand in operands {
        match maker.function().op(operand) {
            Some(Op::Concat { axis: inner }) if inner == axis => {
                parts.extend(maker.definition(operand).map(|(_, parts)| parts).unwrap_or_default());
            }
            _ => parts.push(operand),
        }
    }
    if parts.len() == operands.len() {
        return Err(No::Match);
    }
    require(parts.len() <= MOST_PARTS, "it would have too many parts")?;
    Ok(maker.one(op, &parts)?)
}

fn concat_of_nothing(maker: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
    let Op::Concat { axis } = op else { return Err(No::Match) };
    let mut parts = Vec::new();
    for &operand in operands {
        if !maker.shape(operand)?[*axis].is_zero() {
            parts.push(operand);
        }
    }
    match parts[..] {
        [] => Ok(operands[0]),
        [only] => Ok(only),
        _ if parts.len() < operands.len() => Ok(maker.one(op, &parts)?),
        _ => Err(No::Because("every operand has elements")),
    }
}

fn gather_one(maker: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
    let Op::Gather { axes, batch: 0, .. } = op else { return Err(No::Match) };
    let (&[axis], &[x, index]) = (&axes[..], operands) else { return Err(No::Match) };
    let literal = maker.function().literal(index).ok_or(No::Match)?;
    require(literal.shape().is_empty(), "the indices have axes")?;
    let index = literal.get_scalar(0).as_i64();
    let mut shape = maker.shape(x)?.to_vec();
    let inside = shape[axis].as_constant().is_some_and(|extent| (0..extent).contains(&index));
    require(inside, "the index may be out of range")?;
    let mut starts = vec![Expr::ZERO; shape.len()];
    (starts[axis], shape[axis]) = (Expr::constant(index), Expr::ONE);
    let slice = maker.slice(x, &starts, &vec![1; shape.len()], &shape)?;
    shape.remove(axis);
    Ok(maker.reshape(slice, &shape)?)
}

fn gather_twice(maker: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
    let Op::Gather { axes, batch: 0, .. } = op else { return Err(No::Match) };
    let (&[axis], &[gathered, outer]) = (&axes[..], operands) else { return Err(No::Match) };
    let (of, inner_operands) = maker.definition(gathered).ok_or(No::Match)?;
    let Op::Gather { axes: inner_axes, batch: 0, position } = of else { return Err(No::Match) };
    let &[x, inner] = &inner_operands[..] else { return Err(No::Match) };
    require(inner_axes[..] == [axis] && position == axis, "they are along different axes")?;
    let literal = maker.function().literal(inner).ok_or(No::Because("an index is not known"))?;
    require(literal.shape().len() == 1, "the indices have several axes")?;
    // Of those that are left out, too, one out of range is a fault.
    let extent = maker.shape(x)?[axis].as_constant().unwrap_or(0);
    let inside = literal.scalars().all(|index| (0..extent).contains(&index.as_i64()));
    require(inside, "an index may be out of range")?;
    let of_indices = Op::Gather { axes: vec![0], batch: 0, position: 0 };
    let indices = maker.one(&of_indices, &[inner, outer])?;
    Ok(maker.one(op, &[x, indices])?)
}
