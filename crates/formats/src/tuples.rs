//! Tuples: sums of products of short elements run over the innermost reduced axis so many at a time
//! as fill a sum, pairs of bf16 or i16, quads of bytes; the packed operand keeps them side by side.
//!
//! before: `[n, m | .., k] lhs[m, .., k], packed[n div P, .., k, n mod P]`
//! after:  `[n, m | .., k/2, 2] lhs[m, .., 2k + 1 - e], packed[n div P, .., k, n mod P, 1 - e]`
//!
//! A machine with a dot product of tuples (AVX512-BF16, VNNI) does all products and sums in one
//! instruction, of bf16 the second of a pair first; one without unpacks a pair from one load. The
//! order of the sum changes, for such operands only, and in the same way for every target; to
//! integers it is all one.

use backend::Target;
use base::Id;
use graph::{Built, FunctionBuilder, IterationSpace};
use sym::{Expr, SymbolId};
use tensor::DType;

use crate::contraction::Contraction;
use crate::precision::{can_be_divisible, is_shared, make_divisible};

/// How an operand offers its tuples.
enum Offer {
    /// They lie side by side already.
    Contiguous,
    /// The axis at this place moves in tuples behind the last.
    Packed(usize),
}

/// How many elements fill a sum, of a contraction of bf16, i16, or u8 and i8, whose innermost
/// reduced axis can be run in as many at a time.
pub(super) fn wanted(
    contraction: &Contraction,
    builder: &FunctionBuilder,
    target: &Target,
) -> Built<Option<i64>> {
    let space = &contraction.space;
    let [lhs, rhs] = [0, 1].map(|operand| builder.dtype(contraction.operands[operand].value));
    let (lhs, rhs) = (lhs?, rhs?);
    let count = match (lhs, rhs) {
        (DType::BF16, DType::BF16) | (DType::I16, DType::I16) => 2,
        (DType::U8, DType::I8) | (DType::I8, DType::U8) => 4,
        (DType::I8, DType::I8) => match target.signed_bytes_at_once() {
            Some(count) => count,
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    let whole = space.extents.last().is_some_and(|extent| extent.divisible_by(count));
    let fits = contraction.accumulator_bytes() == 4 && space.extents.len() > space.parallel;
    // Integers have been padded where that pays.
    let is_padded = lhs == DType::BF16 && can_be_divisible(space, count, are_constant(contraction));
    Ok((fits && (whole || is_padded)).then_some(count))
}

fn are_constant(contraction: &Contraction) -> [bool; 2] {
    [0, 1].map(|operand| contraction.operands[operand].constant)
}

/// Has the innermost reduced axis go on to whole tuples, in zeros, where that pays.
pub(super) fn complete(
    contraction: &mut Contraction,
    builder: &mut FunctionBuilder,
    target: &Target,
    messages: &mut Vec<String>,
) -> Built<()> {
    let Some(count) = wanted(contraction, builder, target)? else { return Ok(()) };
    let mut values = [0, 1].map(|operand| contraction.operands[operand].value);
    let constant = are_constant(contraction);
    if make_divisible(builder, &mut contraction.space, &mut values, count, constant)? {
        messages.push(format!("its terms go on to whole {}, in zeros", name(count)));
    }
    for (operand, value) in contraction.operands.iter_mut().zip(values) {
        operand.value = value;
    }
    Ok(())
}

/// Splits the innermost reduced axis into tuples, if both operands can offer them.
pub(super) fn apply(
    contraction: &mut Contraction,
    builder: &mut FunctionBuilder,
    target: &Target,
    messages: &mut Vec<String>,
) -> Built<()> {
    let Some(count) = wanted(contraction, builder, target)? else { return Ok(()) };
    let axis = contraction.space.extents.len() - 1;
    let mut are_exact = true;
    for operand in &contraction.operands {
        are_exact &= builder.dtype(operand.value)?.is_integer();
    }
    // What little memory there is holds no copies.
    let may_copy = !target.is_microcontroller();
    let mut offers = [None, None];
    for (operand, own) in offers.iter_mut().enumerate() {
        let shape = builder.shape(contraction.operands[operand].value)?;
        let in_windows = are_exact.then_some(&shape[..]);
        *own = offer(contraction, operand, axis, in_windows, may_copy);
    }
    let [Some(lhs), Some(rhs)] = offers else {
        messages.push(format!("not summed in {}: an operand's lie apart", name(count)));
        return Ok(());
    };
    for (operand, offer) in [lhs, rhs].into_iter().enumerate() {
        match offer {
            Offer::Contiguous => step(contraction, operand, axis, count),
            Offer::Packed(place) => pack(contraction, builder, operand, place, (axis, count))?,
        }
    }
    let extent = &mut contraction.space.extents[axis];
    *extent = extent.floor_div(&Expr::constant(count));
    contraction.space.extents.push(Expr::constant(count));
    messages.push(format!("summed in {}", name(count)));
    Ok(())
}

/// What a tuple of so many is called.
fn name(count: i64) -> &'static str {
    match count {
        2 => "pairs",
        4 => "quads",
        _ => "vectors",
    }
}

/// What an operand can do for tuples along an axis; of its shape, where windows count, as they do
/// in sums that are exact in any order. Constants are put in tuples wherever they lie: that is done
/// once. So is what many results share, where it may be copied.
fn offer(
    contraction: &Contraction,
    operand: usize,
    axis: usize,
    in_windows: Option<&[Expr]>,
    may_copy: bool,
) -> Option<Offer> {
    let index = &contraction.space.operands[operand];
    let place = place_of(contraction, operand, axis)?;
    let is_axis = index[place] == IterationSpace::axis(axis);
    // In windows axes of one element may stand behind.
    let is_last = match in_windows {
        Some(shape) => shape[place + 1..].iter().all(Expr::is_one),
        None => is_axis && place + 1 == index.len(),
    };
    if is_last {
        return Some(Offer::Contiguous);
    }
    let packed = matches!(index.last(), Some(last) if last.as_symbol().is_none());
    let is_copied = may_copy && is_shared(&contraction.space, operand);
    let may_be = packed || contraction.operands[operand].constant || is_copied;
    (is_axis && may_be).then_some(Offer::Packed(place))
}

/// The axis of an operand along which an axis of the space goes by ones, if no other moves with
/// that.
fn place_of(contraction: &Contraction, operand: usize, axis: usize) -> Option<usize> {
    let index = &contraction.space.operands[operand];
    let by_ones = |index: &Expr| index.linear_coefficient(SymbolId::new(axis)) == Some(1);
    let place = index.iter().position(by_ones)?;
    let elsewhere = |at: usize| at != place && index[at].contains(SymbolId::new(axis));
    (!(0..index.len()).any(elsewhere)).then_some(place)
}

/// The index of element `e` of a tuple `k`: `2k + 1 - e`.
fn step(contraction: &mut Contraction, operand: usize, axis: usize, count: i64) {
    let tuple = IterationSpace::axis(axis) * count + (count - 1) - &within(axis);
    for index in &mut contraction.space.operands[operand] {
        *index = index
            .substitute(&mut |symbol: SymbolId| (symbol.index() == axis).then(|| tuple.clone()));
    }
}

/// Moves the tuples of the axis at `place` behind the last axis.
fn pack(
    contraction: &mut Contraction,
    builder: &mut FunctionBuilder,
    operand: usize,
    place: usize,
    (axis, count): (usize, i64),
) -> Built<()> {
    let mut value = contraction.operands[operand].value;
    let extent = contraction.space.extents[axis].clone();
    // Of an image that windows do not reach the end of there is more.
    if builder.shape(value)?[place] != extent {
        value = builder.slice_axis(value, place, Expr::ZERO, 1, extent)?;
    }
    let mut shape = builder.shape(value)?.to_vec();
    let count = Expr::constant(count);
    let tuples = shape[place].floor_div(&count);
    shape.splice(place..=place, [tuples, count.clone()]);
    let split = builder.reshape(value, &shape)?;
    let order: Vec<usize> =
        (0..shape.len()).filter(|&axis| axis != place + 1).chain([place + 1]).collect();
    contraction.operands[operand].value = builder.transpose(split, &order)?;
    contraction.space.operands[operand].push(count - 1 - &within(axis));
    Ok(())
}

/// The axis that counts the elements of a tuple.
fn within(axis: usize) -> Expr {
    IterationSpace::axis(axis + 1)
}
