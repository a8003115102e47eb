//! Products in a shorter type, on request: the operands of large contractions are rounded to it,
//! their sums stay in f32, and so does everything else.
//!
//! before: `contract x[..], w[..] accumulate f32`
//! after:  `contract cast<bf16>(x)[..], cast<bf16>(w)[..] accumulate f32`
//!
//! The rounding is put in front of the movements (padding, transposes, reshapes) that lead to the
//! contraction, so that whoever makes the value stores it short. An innermost reduced axis of odd
//! extent is padded with a zero, so that it can be run in pairs. What minimal filtering in f32
//! should do faster stays in f32. It changes results, within the shorter type's precision; each
//! change is a remark.

use backend::Target;
use backend::tile::Window;
use base::{Diagnostics, Id, Remark};
use graph::{
    Built, Function, FunctionBuilder, IterationSpace, NodeId, Op, Rewriter, ValueId, rebuild,
};
use sym::{Expr, SymbolId};
use tensor::DType;

use crate::options::{FormatOptions, Winograd};
use crate::winograd;

/// Fewest terms of a sum for which rounding its operands pays.
const LEAST_TERMS: i64 = 16;

/// Elements of 16 bits that fill a sum.
const PAIR: i64 = 2;

/// Fewest results of an element of the data for which a zero beside its sums' terms pays.
const LEAST_COLUMNS: i64 = 16;

/// Rounds the operands of contractions of f32 to a shorter float type, but for those that format
/// choice with these options should do faster in f32. What was done to each, and why not, goes to
/// the remarks.
///
/// # Errors
/// An internal error if a rewritten node is ill-typed.
pub fn shorten(
    function: &Function,
    dtype: DType,
    target: &Target,
    options: &FormatOptions,
    remarks: &mut Vec<Remark>,
) -> base::Result<Function> {
    let constants = function.constant_values();
    let price = winograd::price_of_growth(function, target);
    let result = rebuild(function, |rewriter, id| {
        let node = &rewriter.source.nodes[id];
        let Op::Contract { space, accumulator: DType::F32, dtype: result } = &node.op else {
            return Ok(None);
        };
        let types = node.operands.iter().map(|&operand| dtype_of(rewriter.source, operand));
        if types.into_iter().any(|dtype| dtype != Some(DType::F32)) {
            return Ok(None);
        }
        let location = node.location;
        let constant = [0, 1].map(|at| constants.contains(node.operands[at]));
        if let Some(reason) =
            few_terms(space, LEAST_TERMS).or_else(|| unsuited(space, PAIR, constant))
        {
            remarks.push(Remark { location, message: format!("stays in f32: {reason}") });
            return Ok(None);
        }
        if options.winograd == Winograd::WherePredicted {
            let operands =
                node.operands.iter().map(|own| (rewriter.get(*own), constants.contains(*own)));
            let operands: Vec<(ValueId, bool)> = operands.collect();
            let beaten = winograd::filtering_beats_short(
                space,
                [operands[0], operands[1]],
                &rewriter.builder,
                target,
                price,
            )?;
            if let Some(message) = beaten {
                remarks.push(Remark { location, message: format!("stays in f32: {message}") });
                return Ok(None);
            }
        }
        let (mut space, result) = (space.clone(), *result);
        let mut operands = Vec::new();
        for &operand in &node.operands {
            operands.push(shortened(rewriter, operand, dtype)?);
        }
        rewriter.builder.set_location(location);
        let padded =
            make_divisible(&mut rewriter.builder, &mut space, &mut operands, PAIR, constant)?;
        let value =
            rewriter.builder.contract(space, operands[0], operands[1], DType::F32, result)?;
        let padded = if padded { ", a zero beside the terms of each sum" } else { "" };
        let message = format!("operands rounded to {dtype}, sums in f32{padded}");
        remarks.push(Remark { location, message });
        Ok(Some(vec![value]))
    });
    result.map_err(|reason| {
        Diagnostics::internal(format!("a shorter type made an ill-typed node: {reason}"))
    })
}

fn dtype_of(function: &Function, value: ValueId) -> Option<DType> {
    function.ty(value).as_tensor().map(|ty| ty.dtype)
}

/// That sums have fewer terms than that, if they have.
pub(crate) fn few_terms(space: &IterationSpace, least: i64) -> Option<&'static str> {
    let terms: Expr = space.extents[space.parallel..].iter().product();
    let is_short = terms.as_constant().is_some_and(|terms| terms < least);
    is_short.then_some("its sums have few terms")
}

/// Why a contraction gains nothing from shorter operands, so many of which go side by side, and
/// which may be constant.
pub(crate) fn unsuited(
    space: &IterationSpace,
    count: i64,
    constant: [bool; 2],
) -> Option<&'static str> {
    let reads = |operand: usize, axis: usize| {
        space.operands[operand].iter().any(|index| index.contains(SymbolId::new(axis)))
    };
    let alone = |operand: usize| {
        let mut axes = 0..space.parallel;
        axes.any(|axis| !space.extents[axis].is_one() && !reads(operand, axis))
    };
    if !alone(0) && !alone(1) {
        return Some("each element of its operands meets few others");
    }
    let innermost = space.extents.last()?;
    match innermost.divisible_by(count) || places_of_zeros(space, count, constant).is_some() {
        true => None,
        false if count == PAIR => Some("the innermost axis of its sums is odd"),
        false => Some("the innermost axis of its sums is no multiple of four"),
    }
}

/// The axis of each operand along which zeros make the innermost reduced axis, which is none, a
/// multiple of a count, if that pays: the axis alone walks it, and enough results share the data,
/// or they are copied before a run.
fn places_of_zeros(space: &IterationSpace, count: i64, constant: [bool; 2]) -> Option<[usize; 2]> {
    let axis = space.extents.len() - 1;
    let extent = space.extents[axis].as_constant()?;
    let symbol = IterationSpace::axis(axis);
    let place = |operand: usize| {
        let index = &space.operands[operand];
        let mut own = (0..index.len()).filter(|&at| index[at].contains(SymbolId::new(axis)));
        let at = own.next()?;
        (own.next().is_none() && index[at] == symbol).then_some(at)
    };
    let places = [place(0)?, place(1)?];
    let is_shared = (0..2).all(|operand| constant[operand] || is_shared(space, operand));
    (extent % count != 0 && extent > count / 2 && is_shared).then_some(places)
}

/// Whether [`make_divisible`] pads.
pub(crate) fn can_be_divisible(space: &IterationSpace, count: i64, constant: [bool; 2]) -> bool {
    places_of_zeros(space, count, constant).is_some()
}

/// Whether so many results share the data of an operand, windows included, that it may as well be
/// copied for them.
pub(crate) fn is_shared(space: &IterationSpace, operand: usize) -> bool {
    let reads = |axis: usize| {
        space.operands[operand].iter().any(|index| index.contains(SymbolId::new(axis)))
    };
    let others = (0..space.parallel).filter(|&axis| !reads(axis));
    let count: Expr = others.map(|axis| &space.extents[axis]).product();
    let reduced = space.parallel..space.extents.len();
    let (mut met, mut apart) = (1, 1);
    for window in reduced.filter_map(|axis| window(space, &space.operands[operand], axis)) {
        met = window.taps.saturating_mul(met);
        apart = window.step.min(window.taps).saturating_mul(apart);
    }
    let least = apart.saturating_mul(LEAST_COLUMNS);
    count.as_constant().is_none_or(|count| count.saturating_mul(met) >= least)
}

/// The terms of a window along a reduced axis, and what results are apart there.
pub(crate) fn window(space: &IterationSpace, index: &[Expr], axis: usize) -> Option<Window> {
    let taps = space.extents[axis].as_constant()?;
    let by_ones = |expr: &&Expr| expr.linear_coefficient(SymbolId::new(axis)) == Some(1);
    let along = index.iter().find(by_ones)?;
    let steps = (0..space.parallel).filter_map(|axis| along.linear_coefficient(Id::new(axis)));
    Some(Window { taps, step: steps.filter(|step| *step > 0).min()? })
}

/// Pads the innermost reduced axis with zeros in both operands to a multiple of a count; whether it
/// was none.
pub(crate) fn make_divisible(
    builder: &mut FunctionBuilder,
    space: &mut IterationSpace,
    operands: &mut [ValueId],
    count: i64,
    constant: [bool; 2],
) -> Built<bool> {
    let places = places_of_zeros(space, count, constant);
    let (Some(places), Some(extent)) = (places, space.extents.last_mut()) else {
        return Ok(false);
    };
    let whole = extent.ceil_div(&Expr::constant(count)) * count;
    let missing = &whole - &*extent;
    *extent = whole;
    for (operand, place) in operands.iter_mut().zip(places) {
        let rank = builder.shape(*operand)?.len();
        let mut high = vec![Expr::ZERO; rank];
        high[place] = missing.clone();
        let dtype = builder.dtype(*operand)?;
        let zero = builder.scalar(dtype, 0.0);
        let low = vec![Expr::ZERO; rank];
        *operand = builder.pad(*operand, zero, &low, &high, &vec![0; rank])?;
    }
    Ok(true)
}

/// An old value in the shorter type: rounded before the movements that it comes through.
fn shortened(rewriter: &mut Rewriter<'_>, value: ValueId, dtype: DType) -> Built {
    let source = rewriter.source;
    let moved: Option<(NodeId, ValueId)> = source.producer(value).and_then(|(node, _)| {
        let data = &source.nodes[node];
        let moves = matches!(
            data.op,
            Op::Pad { .. } | Op::Transpose { .. } | Op::Reshape { .. } | Op::Broadcast { .. }
        );
        moves.then(|| (node, data.operands[0]))
    });
    let Some((node, operand)) = moved else {
        let value = rewriter.get(value);
        return rewriter.builder.cast(value, dtype);
    };
    let mut operands = vec![shortened(rewriter, operand, dtype)?];
    let data = &source.nodes[node];
    for &other in &data.operands[1..] {
        let other = rewriter.get(other);
        operands.push(rewriter.builder.cast(other, dtype)?);
    }
    rewriter.builder.set_location(data.location);
    let results = rewriter.builder.add(data.op.clone(), &operands)?;
    Ok(results[0])
}
