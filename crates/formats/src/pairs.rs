//! Pairs: sums of products of bf16 or i16 run over the innermost reduced axis two elements at a
//! time, the second of a pair first, and the packed operand keeps the two side by side.
//!
//! before: `[n, m | .., k] lhs[m, .., k], packed[n div P, .., k, n mod P]`
//! after:  `[n, m | .., k/2, 2] lhs[m, .., 2k + 1 - e], packed[n div P, .., k, n mod P, 1 - e]`
//!
//! A machine with a dot product of pairs (AVX512-BF16, VNNI) does both products and both sums in
//! one instruction, in this order; one without unpacks a pair from one load. The order of the sum
//! changes, for such operands only, and in the same way for every target; to integers it is all
//! one.

use base::Id;
use graph::{Built, FunctionBuilder, IterationSpace};
use sym::{Expr, SymbolId};
use tensor::DType;

use crate::contraction::Contraction;

/// How an operand offers its pairs.
enum Offer {
    /// They lie side by side already.
    Contiguous,
    /// The axis at this place moves in pairs behind the last.
    Packed(usize),
}

/// Whether a contraction is one of bf16 or i16 whose innermost reduced axis can be run in pairs.
pub(super) fn wanted(contraction: &Contraction, builder: &FunctionBuilder) -> Built<bool> {
    let space = &contraction.space;
    let [lhs, rhs] = [0, 1].map(|operand| builder.dtype(contraction.operands[operand].value));
    let dtype = lhs?;
    if dtype != rhs? || !matches!(dtype, DType::BF16 | DType::I16) {
        return Ok(false);
    }
    let even = space.extents.last().is_some_and(|extent| extent.divisible_by(2));
    Ok(contraction.accumulator_bytes() == 4 && space.extents.len() > space.parallel && even)
}

/// Whether it may be run in pairs in some order of its operands' axes: not where the axis is one of
/// a window, whose pairs begin at odd elements, too.
pub(super) fn possible(contraction: &Contraction, builder: &FunctionBuilder) -> Built<bool> {
    if !wanted(contraction, builder)? {
        return Ok(false);
    }
    let axis = contraction.space.extents.len() - 1;
    Ok([0, 1].into_iter().all(|operand| place_of(contraction, operand, axis).is_some()))
}

/// Splits the innermost reduced axis into pairs, if both operands can offer them.
pub(super) fn apply(
    contraction: &mut Contraction,
    builder: &mut FunctionBuilder,
    messages: &mut Vec<String>,
) -> Built<()> {
    if !wanted(contraction, builder)? {
        return Ok(());
    }
    let axis = contraction.space.extents.len() - 1;
    let offers = [0, 1].map(|operand| offer(contraction, operand, axis));
    let [Some(lhs), Some(rhs)] = offers else {
        messages.push("not summed in pairs: an operand's pairs lie apart".to_owned());
        return Ok(());
    };
    for (operand, offer) in [lhs, rhs].into_iter().enumerate() {
        match offer {
            Offer::Contiguous => step_in_pairs(contraction, operand, axis),
            Offer::Packed(place) => pack(contraction, builder, operand, place, axis)?,
        }
    }
    let extent = &mut contraction.space.extents[axis];
    *extent = extent.floor_div(&Expr::constant(2));
    contraction.space.extents.push(Expr::constant(2));
    messages.push("summed in pairs".to_owned());
    Ok(())
}

/// What an operand can do for pairs along an axis. Constants are put in pairs wherever they lie:
/// that is done once.
fn offer(contraction: &Contraction, operand: usize, axis: usize) -> Option<Offer> {
    let index = &contraction.space.operands[operand];
    let place = place_of(contraction, operand, axis)?;
    if place + 1 == index.len() {
        return Some(Offer::Contiguous);
    }
    let packed = matches!(index.last(), Some(last) if last.as_symbol().is_none());
    (packed || contraction.operands[operand].constant).then_some(Offer::Packed(place))
}

/// The axis of an operand that is an axis of the space, if no other moves with that.
fn place_of(contraction: &Contraction, operand: usize, axis: usize) -> Option<usize> {
    let index = &contraction.space.operands[operand];
    let symbol = IterationSpace::axis(axis);
    let place = index.iter().position(|index| *index == symbol)?;
    let elsewhere = |at: usize| at != place && index[at].contains(SymbolId::new(axis));
    (!(0..index.len()).any(elsewhere)).then_some(place)
}

/// The index of element `e` of pair `k`: `2k + 1 - e`.
fn step_in_pairs(contraction: &mut Contraction, operand: usize, axis: usize) {
    let pair = IterationSpace::axis(axis) * 2 + 1 - &second(axis);
    for index in &mut contraction.space.operands[operand] {
        *index = index
            .substitute(&mut |symbol: SymbolId| (symbol.index() == axis).then(|| pair.clone()));
    }
}

/// Moves the pairs of the axis at `place` behind the last axis.
fn pack(
    contraction: &mut Contraction,
    builder: &mut FunctionBuilder,
    operand: usize,
    place: usize,
    axis: usize,
) -> Built<()> {
    let value = contraction.operands[operand].value;
    let mut shape = builder.shape(value)?.to_vec();
    let half = shape[place].floor_div(&Expr::constant(2));
    shape.splice(place..=place, [half, Expr::constant(2)]);
    let split = builder.reshape(value, &shape)?;
    let order: Vec<usize> =
        (0..shape.len()).filter(|&axis| axis != place + 1).chain([place + 1]).collect();
    contraction.operands[operand].value = builder.transpose(split, &order)?;
    contraction.space.operands[operand].push(Expr::constant(1) - &second(axis));
    Ok(())
}

/// The axis that counts the two of a pair.
fn second(axis: usize) -> Expr {
    IterationSpace::axis(axis + 1)
}
