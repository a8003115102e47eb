//! Products of numbers that stand for integers of 8 bits run on integers.
//!
//! before: `contract mul(sub(cast<f32>(q), z), s)[..], mul(cast<f32>(w), t)[..] accumulate f32`
//! after:  `mul(cast<f32>(contract sub(cast<i16>(q), z)[..], cast<i16>(w)[..] accumulate i32),
//!          mul(s, t))`
//!
//! A scale is one number, or one for each column of the result. Differences of such integers fit 16
//! bits, and machines multiply and add pairs of those at once (file `pairs`). The sums are
//! exact; the result differs from that of the numbers by the rounding of their products and sums.
//! Operands change in front of the movements that lead to the contraction, so that whoever makes
//! them stores them short.

use backend::Target;
use base::{Diagnostics, Remark};
use graph::{Built, Function, IterationSpace, Node, Op, Rewriter, ValueId, rebuild};
use sym::Expr;
use tensor::{DType, ScalarFunction};

use crate::options::{FormatOptions, Winograd};
use crate::precision::{make_even, unsuited};
use crate::winograd;

/// The most terms of a sum: products are below 2^18.
const MOST_TERMS: i64 = 1 << 13;

/// An operand that stands for integers.
struct Quantised {
    /// What it is made of, behind the movements: f32, but whole and below 2^9.
    whole: ValueId,
    scale: Scale,
}

/// What the integers are multiplied by.
#[derive(Clone, Copy)]
struct Scale {
    /// A number, or a vector.
    value: ValueId,
    /// The axis of the operand that a vector goes along.
    axis: Option<usize>,
}

/// Rewrites the contractions of a function whose operands stand for integers, but for those that
/// format choice with these options should do faster in f32; each is a remark.
///
/// # Errors
/// An internal error if a rewritten node is ill-typed.
pub fn integers(
    function: Function,
    target: &Target,
    options: &FormatOptions,
    remarks: &mut Vec<Remark>,
) -> base::Result<Function> {
    let stands_for_integers = |node: &Node| {
        let quantised = |&operand: &ValueId| quantised(&function, operand).is_some();
        matches!(node.op, Op::Contract { .. }) && node.operands.iter().all(quantised)
    };
    if !function.nodes.values().any(stands_for_integers) {
        return Ok(function);
    }
    let constants = function.constant_values();
    let price = winograd::price_of_growth(&function, target);
    let result = rebuild(&function, |rewriter, id| {
        let node = &rewriter.source.nodes[id];
        let Op::Contract { space, accumulator: DType::F32, dtype: DType::F32 } = &node.op else {
            return Ok(None);
        };
        let operands = [node.operands[0], node.operands[1]];
        let found = operands.map(|operand| quantised(rewriter.source, operand));
        let [Some(lhs), Some(rhs)] = found else { return Ok(None) };
        let Some((channel, vector)) = channel_of(space, [&lhs.scale, &rhs.scale]) else {
            return Ok(None);
        };
        if unsuited(space).is_some() || !pairs_are_plain(space) || too_long(space) {
            return Ok(None);
        }
        if options.winograd == Winograd::WherePredicted {
            let own = operands.map(|own| (rewriter.get(own), constants.contains(own)));
            let builder = &rewriter.builder;
            let beaten = winograd::filtering_beats_short(space, own, builder, target, price)?;
            if beaten.is_some() {
                return Ok(None);
            }
        }
        let mut space = space.clone();
        let location = node.location;
        let mut short = Vec::new();
        for (operand, found) in operands.into_iter().zip([&lhs, &rhs]) {
            short.push(moved(rewriter, operand, found.whole)?);
        }
        rewriter.builder.set_location(location);
        make_even(rewriter, &mut space, &mut short, DType::I16)?;
        let shape = space.extents[..space.parallel].to_vec();
        let sum = rewriter.builder.contract(space, short[0], short[1], DType::I32, DType::I32)?;
        let sum = rewriter.builder.cast(sum, DType::F32)?;
        let scales = [lhs.scale.value, rhs.scale.value].map(|scale| rewriter.get(scale));
        let scale = product(rewriter, scales, vector)?;
        let axes: Vec<usize> = channel.into_iter().collect();
        let scale = rewriter.builder.broadcast(scale, &shape, &axes)?;
        let value = rewriter.builder.map(ScalarFunction::Mul, &[sum, scale])?;
        let message = "operands of 8 bits multiplied as integers of 16 bits".to_owned();
        remarks.push(Remark { location, message });
        Ok(Some(vec![value]))
    });
    result.map_err(|reason| {
        Diagnostics::internal(format!("products of integers made an ill-typed node: {reason}"))
    })
}

/// The product of two scales; of a number and a vector it is a vector.
fn product(rewriter: &mut Rewriter<'_>, scales: [ValueId; 2], vector: Option<usize>) -> Built {
    let [mut one, mut two] = scales;
    if let Some(vector) = vector {
        let shape = rewriter.builder.shape([one, two][vector])?;
        let number = if vector == 0 { &mut two } else { &mut one };
        *number = rewriter.builder.broadcast(*number, &shape, &[])?;
    }
    let is_wrong = base::fault::is_seeded("formats.integers");
    let function = if is_wrong { ScalarFunction::Add } else { ScalarFunction::Mul };
    rewriter.builder.map(function, &[one, two])
}

/// The result axis that a vector of scales goes along, and the operand that has one; none of either
/// where both are numbers.
fn channel_of(
    space: &IterationSpace,
    scales: [&Scale; 2],
) -> Option<(Option<usize>, Option<usize>)> {
    let (operand, axis) = match [scales[0].axis, scales[1].axis] {
        [None, None] => return Some((None, None)),
        [Some(axis), None] => (0, axis),
        [None, Some(axis)] => (1, axis),
        [Some(_), Some(_)] => return None,
    };
    let index = space.operands[operand].get(axis)?;
    let channel = (0..space.parallel).find(|&axis| *index == IterationSpace::axis(axis))?;
    Some((Some(channel), Some(operand)))
}

/// Whether neighbours along the innermost reduced axis are neighbours in both operands.
fn pairs_are_plain(space: &IterationSpace) -> bool {
    let innermost = IterationSpace::axis(space.extents.len() - 1);
    space.operands.iter().all(|operand| operand.contains(&innermost))
}

fn too_long(space: &IterationSpace) -> bool {
    let terms: Expr = space.extents[space.parallel..].iter().product();
    terms.as_constant().is_none_or(|terms| terms > MOST_TERMS)
}

/// What an operand stands for, seen through movements.
fn quantised(function: &Function, value: ValueId) -> Option<Quantised> {
    let (id, _) = function.producer(value)?;
    let node = &function.nodes[id];
    match &node.op {
        Op::Map { function: ScalarFunction::Mul, dtype: DType::F32 } => {
            let [a, b] = node.operands[..] else { return None };
            [(a, b), (b, a)].into_iter().find_map(|(whole, by)| {
                let scale = scale(function, by).filter(|_| is_difference(function, whole))?;
                Some(Quantised { whole, scale })
            })
        }
        Op::Transpose { permutation } => {
            let mut found = quantised(function, node.operands[0])?;
            if let Some(axis) = found.scale.axis {
                found.scale.axis = Some(permutation.iter().position(|from| *from == axis)?);
            }
            Some(found)
        }
        Op::Pad { .. } => {
            let zero = function.literal(node.operands[1])?;
            let is_zero = zero.scalars().all(|element| element.bits() == 0);
            quantised(function, node.operands[0]).filter(|found| is_zero && found.is_even())
        }
        Op::Reshape { .. } | Op::Broadcast { .. } => {
            quantised(function, node.operands[0]).filter(Quantised::is_even)
        }
        _ => None,
    }
}

impl Quantised {
    /// Whether there is one scale for all.
    fn is_even(&self) -> bool {
        self.scale.axis.is_none()
    }
}

fn rank(function: &Function, value: ValueId) -> Option<usize> {
    function.ty(value).as_tensor().map(|ty| ty.shape.len())
}

/// A number or a vector that is repeated to the shape of this value.
fn scale(function: &Function, value: ValueId) -> Option<Scale> {
    if rank(function, value)? == 0 {
        return Some(Scale { value, axis: None });
    }
    let (id, _) = function.producer(value)?;
    let node = &function.nodes[id];
    let Op::Broadcast { axes, .. } = &node.op else { return None };
    let value = node.operands[0];
    match axes[..] {
        [] => Some(Scale { value, axis: None }),
        [axis] => Some(Scale { value, axis: Some(axis) }),
        _ => None,
    }
}

/// Whether a value in f32 is an integer of 8 bits, or the difference of two.
fn is_difference(function: &Function, value: ValueId) -> bool {
    let Some((id, _)) = function.producer(value) else { return false };
    let node = &function.nodes[id];
    match node.op {
        Op::Map { function: ScalarFunction::Sub, .. } => {
            node.operands.iter().all(|&operand| is_whole(function, operand))
        }
        _ => is_whole(function, value),
    }
}

/// Whether a value in f32 is an integer of 8 bits.
fn is_whole(function: &Function, value: ValueId) -> bool {
    let Some((id, _)) = function.producer(value) else { return false };
    let node = &function.nodes[id];
    match &node.op {
        Op::Literal(tensor) => (0..tensor.len()).all(|at| {
            let element = tensor.get_f64(at);
            element.fract() == 0.0 && (-128.0..=255.0).contains(&element)
        }),
        Op::Map { function: ScalarFunction::Cast, .. } => {
            let of = function.ty(node.operands[0]).as_tensor().map(|ty| ty.dtype);
            matches!(of, Some(DType::I8 | DType::U8))
        }
        Op::Broadcast { .. } | Op::Reshape { .. } | Op::Transpose { .. } => {
            is_whole(function, node.operands[0])
        }
        _ => false,
    }
}

/// The operand of a contraction as integers: what stands for them in short, moved as before.
fn moved(rewriter: &mut Rewriter<'_>, value: ValueId, whole: ValueId) -> Built {
    let source = rewriter.source;
    let Some((id, _)) = source.producer(value) else { return Ok(rewriter.get(value)) };
    let data = &source.nodes[id];
    if matches!(data.op, Op::Map { .. }) {
        return short(rewriter, whole);
    }
    let mut operands = vec![moved(rewriter, data.operands[0], whole)?];
    for &other in &data.operands[1..] {
        let other = rewriter.get(other);
        operands.push(rewriter.builder.cast(other, DType::I16)?);
    }
    rewriter.builder.set_location(data.location);
    let results = rewriter.builder.add(data.op.clone(), &operands)?;
    Ok(results[0])
}

/// A value in f32 that is whole (`is_difference`) as an integer, computed among integers.
fn short(rewriter: &mut Rewriter<'_>, value: ValueId) -> Built {
    let source = rewriter.source;
    let Some((id, _)) = source.producer(value) else { return Ok(rewriter.get(value)) };
    let data = &source.nodes[id];
    match &data.op {
        Op::Literal(tensor) => Ok(rewriter.builder.literal(tensor.cast(DType::I16))),
        Op::Map { function: ScalarFunction::Cast, .. } => {
            let integer = rewriter.get(data.operands[0]);
            rewriter.builder.cast(integer, DType::I16)
        }
        op => {
            let op = match op {
                Op::Map { function, .. } => Op::Map { function: *function, dtype: DType::I16 },
                other => other.clone(),
            };
            let operands = data.operands.iter().map(|&operand| short(rewriter, operand));
            let operands = operands.collect::<Built<Vec<ValueId>>>()?;
            Ok(rewriter.builder.add(op, &operands)?[0])
        }
    }
}
