//! Values that stand for integers of 8 bits: what they are a multiple of, seen through movements.
//!
//! A quantised tensor, brought back to numbers, is `(cast<f32>(q) - z) * s`: a *whole* number, the
//! difference of an integer and a zero point, times scales. Padding, slices, transposes and
//! reshapes may follow, and further scales, which passes have moved there.

use graph::{Built, Function, Op, Rewriter, ValueId, axis_groups};
use sym::Expr;
use tensor::{DType, ScalarFunction};

use crate::table;

/// Movements and scales that are looked through: far more than models have between a quantised
/// tensor and its product.
const MOST_STEPS: usize = 32;

/// The largest magnitude of a number whose range is known beside others.
const MOST_OF_RANGE: i64 = 1 << 8;

/// Elements of a table of numbers that integers stand for, at most.
const MOST_OF_TABLE: usize = 256;

/// A value that stands for integers.
#[derive(Clone)]
pub(crate) struct Quantised {
    /// What it is made of, behind the movements: whole and below 2^9.
    pub(crate) whole: Whole,
    /// What the whole numbers are multiplied by, or divided.
    pub(crate) scales: Vec<Scale>,
    /// What is taken from the integers, where it goes along the axes of the value.
    pub(crate) points: Option<Scale>,
    /// Whether zeros were put around it, or elements left out.
    pub(crate) is_cut: bool,
}

/// An integer of 8 bits, or the difference of two, in the type of a sum.
#[derive(Clone, Copy)]
pub(crate) struct Whole {
    pub(crate) value: ValueId,
    /// The integer.
    pub(crate) integer: ValueId,
    /// What is taken from it.
    pub(crate) zero: Option<ValueId>,
}

/// A factor of a value that varies along some of its axes.
#[derive(Clone)]
pub(crate) struct Scale {
    /// Whether the value is multiplied or divided by it.
    pub(crate) function: ScalarFunction,
    pub(crate) value: ValueId,
    /// The value's shape, and the axes that its axes go along: element by element, or block by
    /// block where they have fewer.
    pub(crate) shape: Vec<Expr>,
    pub(crate) axes: Vec<usize>,
}

impl Quantised {
    /// What a value stands for.
    pub(crate) fn of(function: &Function, value: ValueId) -> Option<Quantised> {
        Quantised::behind(function, value, MOST_STEPS)
    }

    /// What a value stands for that may have something added, block by block, behind its scales
    /// (or taken off): that, too.
    pub(crate) fn shifted(
        function: &Function,
        value: ValueId,
    ) -> Option<(Quantised, Option<Scale>)> {
        if let Some(found) = Quantised::of(function, value) {
            return Some((found, None));
        }
        let (id, _) = function.producer(value)?;
        let node = &function.nodes[id];
        if matches!(node.op, Op::Transpose { .. } | Op::Reshape { .. }) {
            let inner = node.operands[0];
            let (mut found, mut shift) = Quantised::shifted(function, inner)?;
            let parts = found.scales.iter_mut().chain(&mut found.points).chain(&mut shift);
            for part in parts {
                part.follow(function, &node.op, inner, value)?;
            }
            return Some((found, shift));
        }
        let Op::Map {
            function: by @ (ScalarFunction::Add | ScalarFunction::Sub),
            dtype: DType::F32,
        } = node.op
        else {
            return None;
        };
        let (one, two) = (node.operands[0], node.operands[1]);
        let sides = [(one, two), (two, one)];
        let sides = if by == ScalarFunction::Add { &sides[..] } else { &sides[..1] };
        sides.iter().find_map(|&(inner, shift)| {
            let shift = Scale::of(function, shift, by)?;
            Some((Quantised::of(function, inner)?, Some(shift)))
        })
    }

    /// The same behind at most so many movements and scales.
    fn behind(function: &Function, value: ValueId, steps: usize) -> Option<Quantised> {
        if let Some(whole) = Whole::of(function, value) {
            let points = whole.zero.and_then(|zero| Scale::of(function, zero, ScalarFunction::Sub));
            return Some(Quantised { whole, scales: Vec::new(), points, is_cut: false });
        }
        let steps = steps.checked_sub(1)?;
        let (id, _) = function.producer(value)?;
        let node = &function.nodes[id];
        let operand = |number: usize| node.operands[number];
        if let Op::Map { function: by @ (ScalarFunction::Mul | ScalarFunction::Div), dtype } =
            node.op
        {
            let both = [(operand(0), operand(1)), (operand(1), operand(0))];
            let sides = if by == ScalarFunction::Mul { &both[..] } else { &both[..1] };
            return sides.iter().filter(|_| dtype == DType::F32).find_map(|&(inner, scale)| {
                let scale = Scale::of(function, scale, by)?;
                let mut found = Quantised::behind(function, inner, steps)?;
                found.scales.push(scale);
                Some(found)
            });
        }
        let mut found =
            moves(&node.op).then(|| Quantised::behind(function, operand(0), steps)).flatten()?;
        for scale in &mut found.scales {
            scale.follow(function, &node.op, operand(0), value)?;
        }
        found.points = found.points.and_then(|mut points| {
            points.follow(function, &node.op, operand(0), value)?;
            Some(points)
        });
        found.is_cut |= matches!(node.op, Op::Pad { .. } | Op::Slice { .. });
        if let Op::Pad { .. } = &node.op {
            let zero = function.literal(operand(1))?;
            zero.scalars().all(|element| element.bits() == 0).then_some(())?;
        }
        Some(found)
    }
}

/// Whether what an operation does to numbers it can do to the integers that these stand for.
fn moves(op: &Op) -> bool {
    let copies = matches!(op, Op::Transpose { .. } | Op::Reshape { .. } | Op::Broadcast { .. });
    copies || matches!(op, Op::Pad { .. } | Op::Slice { .. })
}

impl Scale {
    /// What is repeated to the shape of a value.
    fn of(function: &Function, value: ValueId, by: ScalarFunction) -> Option<Scale> {
        let shape = |value: ValueId| Some(function.ty(value).as_tensor()?.shape.to_vec());
        let own = shape(value)?;
        if own.is_empty() {
            return Some(Scale { function: by, value, shape: own, axes: Vec::new() });
        }
        let (id, _) = function.producer(value)?;
        let node = &function.nodes[id];
        let inner = node.operands.first().copied()?;
        match &node.op {
            Op::Broadcast { axes, .. } => {
                Some(Scale { function: by, value: inner, shape: shape(inner)?, axes: axes.clone() })
            }
            Op::Reshape { .. } => {
                let (id, _) = function.producer(inner)?;
                let Op::Broadcast { axes, .. } = &function.nodes[id].op else { return None };
                let groups = axis_groups(&shape(inner)?, &own)?;
                let value = function.nodes[id].operands[0];
                // An axis by itself, or in front of one along which it is repeated: blocks.
                let along = |axis: &usize| {
                    let group = groups.iter().find(|(from, _)| from.first() == Some(axis))?;
                    let repeated = group.0[1..].iter().all(|other| !axes.contains(other));
                    let ([place], true) = (&group.1[..], repeated) else { return None };
                    Some(*place)
                };
                let axes = axes.iter().map(along).collect::<Option<Vec<usize>>>()?;
                Some(Scale { function: by, value, shape: shape(value)?, axes })
            }
            _ => None,
        }
    }

    /// The same factor of what an operation makes of the value; none if it has no such shape.
    fn follow(&mut self, function: &Function, op: &Op, from: ValueId, to: ValueId) -> Option<()> {
        let shape = |value: ValueId| Some(function.ty(value).as_tensor()?.shape.clone());
        match op {
            Op::Transpose { permutation } => {
                for axis in &mut self.axes {
                    *axis = permutation.iter().position(|from| from == axis)?;
                }
            }
            Op::Broadcast { axes, .. } => {
                for axis in &mut self.axes {
                    *axis = axes[*axis];
                }
            }
            Op::Pad { .. } => {
                let (from, to) = (shape(from)?, shape(to)?);
                self.axes.iter().all(|&axis| from[axis] == to[axis]).then_some(())?;
            }
            Op::Slice { starts, steps, .. } => {
                let (from, to) = (shape(from)?, shape(to)?);
                // All elements in their order: from the last to the first would be as many.
                let stays = |&axis: &usize| {
                    starts[axis].is_zero() && steps[axis] == 1 && from[axis] == to[axis]
                };
                self.axes.iter().all(stays).then_some(())?;
            }
            Op::Reshape { .. } => {
                let (from, to) = (shape(from)?, shape(to)?);
                let whole = |(axis, extent): (&usize, &Expr)| from[*axis] == *extent;
                self.axes.iter().zip(&self.shape).all(whole).then_some(())?;
                let groups = axis_groups(&from, &to)?;
                let own = self.axes.clone();
                let (mut axes, mut shape) = (Vec::new(), Vec::new());
                for &axis in own.iter().filter(|axis| !from[**axis].is_one()) {
                    let (joined, parts) = groups.iter().find(|(all, _)| all.contains(&axis))?;
                    if joined[..] == [axis] {
                        shape.extend(parts.iter().map(|part| to[*part].clone()));
                        axes.extend(parts);
                        continue;
                    }
                    // In front of one along which it is repeated: blocks.
                    let repeated = joined[1..].iter().all(|other| !own.contains(other));
                    let ([place], true) = (&parts[..], repeated && joined[0] == axis) else {
                        return None;
                    };
                    shape.push(from[axis].clone());
                    axes.push(*place);
                }
                (self.axes, self.shape) = (axes, shape);
            }
            _ => return None,
        }
        Some(())
    }
}

impl Whole {
    /// A value that is an integer of 8 bits, or the difference of two.
    fn of(function: &Function, value: ValueId) -> Option<Whole> {
        let (id, _) = function.producer(value)?;
        let node = &function.nodes[id];
        if let Op::Map { function: ScalarFunction::Sub, .. } = node.op {
            let (integer, zero) = (node.operands[0], node.operands[1]);
            let both = [integer, zero].iter().all(|&operand| is_whole(function, operand));
            return both.then_some(Whole { value, integer, zero: Some(zero) });
        }
        is_whole(function, value).then_some(Whole { value, integer: value, zero: None })
    }

    /// The one number that is taken from all integers as bytes of a type, where it is known.
    pub(crate) fn zero_as(&self, function: &Function, dtype: DType) -> Option<i64> {
        Some(self.known_zero(function)? + shift(self.dtype(function)?, dtype))
    }

    /// The type of bytes in which the numbers have no zero point, and the numbers of these bytes:
    /// the integers as they are, or less their zero point where they have so few bits that the
    /// difference is a byte.
    pub(crate) fn plain(&self, function: &Function) -> Option<(ValueId, DType)> {
        let as_they_are = |dtype: &DType| self.zero_as(function, *dtype) == Some(0);
        if let Some(dtype) = [DType::I8, DType::U8].into_iter().find(as_they_are) {
            return Some((self.integer, dtype));
        }
        let (low, high) = range(function, self.integer)?;
        let zero = self.known_zero(function)?;
        (low - zero >= -128 && high - zero <= 127).then_some((self.value, DType::I8))
    }

    /// The one number that is taken from all integers, where it is known.
    pub(crate) fn known_zero(&self, function: &Function) -> Option<i64> {
        match self.zero {
            None => Some(0),
            Some(zero) => {
                let tensor = function.literal(splat(function, zero)?)?;
                tensor.scalars().next().map(|scalar| scalar.as_f64() as i64)
            }
        }
    }

    /// The one number that is taken from all integers, as a value without axes.
    pub(crate) fn single_zero(&self, function: &Function) -> Option<ValueId> {
        splat(function, self.zero?)
    }

    /// The type of bytes that hold the integer.
    pub(crate) fn dtype(&self, function: &Function) -> Option<DType> {
        let (id, _) = function.producer(self.integer)?;
        let node = &function.nodes[id];
        match &node.op {
            Op::Map { .. } => {
                let signed = function.ty(node.operands[0]).as_tensor()?.dtype.is_signed_integer();
                Some(if signed { DType::I8 } else { DType::U8 })
            }
            Op::Literal(tensor) => {
                let large = tensor.scalars().any(|element| element.as_f64() > 127.0);
                Some(if large { DType::U8 } else { DType::I8 })
            }
            _ => Whole { integer: node.operands[0], ..*self }.dtype(function),
        }
    }
}

/// What bytes of one type are less than those of another with the highest bit turned.
pub(crate) fn shift(from: DType, to: DType) -> i64 {
    match (from, to) {
        (DType::I8, DType::U8) => 128,
        (DType::U8, DType::I8) => -128,
        _ => 0,
    }
}

/// The range of the integers that a value is, in a type that holds them.
pub(crate) fn range(function: &Function, value: ValueId) -> Option<(i64, i64)> {
    range_behind(function, value, MOST_STEPS)
}

/// The same, through so many nodes.
fn range_behind(function: &Function, value: ValueId, steps: usize) -> Option<(i64, i64)> {
    let steps = steps.checked_sub(1)?;
    let range = |function, value| range_behind(function, value, steps);
    let (id, _) = function.producer(value)?;
    let node = &function.nodes[id];
    if let Op::Literal(number) = &node.op
        && let (1, Some(number)) = (number.len(), number.scalars().next())
    {
        let number = number.as_f64();
        let is_short = number.fract() == 0.0 && number.abs() <= MOST_OF_RANGE as f64;
        return is_short.then_some((number as i64, number as i64));
    }
    let inner = *node.operands.first()?;
    let dtype = function.ty(inner).as_tensor()?.dtype;
    match &node.op {
        Op::Map { function: ScalarFunction::Sub, dtype } => {
            let [one, other] = [range(function, inner)?, range(function, node.operands[1])?];
            held((one.0.checked_sub(other.1)?, one.1.checked_sub(other.0)?), *dtype)
        }
        Op::Map { function: ScalarFunction::Cast, dtype: to } if dtype.is_integer() => {
            let (low, high) = dtype.integer_range()?;
            let known = range(function, inner);
            held(known.unwrap_or((i64::try_from(low).ok()?, i64::try_from(high).ok()?)), *to)
        }
        Op::Map { function: ScalarFunction::Lookup | ScalarFunction::Bitcast, .. }
        | Op::Bitcast { .. } => {
            let entries = table::entries(function, value)?;
            Some((*entries.iter().min()?, *entries.iter().max()?))
        }
        Op::Map { function: ScalarFunction::And, .. } => {
            let mask = function.literal(splat(function, node.operands[1])?)?;
            let most = mask.scalars().next()?.as_f64() as i64;
            (most >= 0).then_some((0, most))
        }
        Op::Map { function: ScalarFunction::Or, dtype } => {
            let [one, other] = [range(function, inner)?, range(function, node.operands[1])?];
            let bits = 64 - (one.1 | other.1).leading_zeros();
            let fits = one.0 >= 0 && other.0 >= 0;
            held((0, (1 << bits) - 1), *dtype).filter(|_| fits)
        }
        Op::Map { function: ScalarFunction::Shl, dtype } => {
            let (low, high) = range(function, inner)?;
            let by = function.literal(splat(function, node.operands[1])?)?;
            let by = by.scalars().next()?.as_f64() as u32;
            let moved = (0, high.checked_shl(by).filter(|_| by < 8)?);
            held(moved, *dtype).filter(|_| low >= 0)
        }
        Op::Reshape { .. } | Op::Transpose { .. } | Op::Broadcast { .. } | Op::Slice { .. } => {
            range(function, inner)
        }
        Op::Pad { .. } => {
            let [one, other] = [range(function, inner)?, range(function, node.operands[1])?];
            Some((one.0.min(other.0), one.1.max(other.1)))
        }
        Op::Gather { .. } => {
            let table = function.literal(inner)?;
            let elements: Vec<i64> = table.scalars().map(|it| it.as_f64() as i64).collect();
            Some((*elements.iter().min()?, *elements.iter().max()?))
        }
        _ => None,
    }
}

/// A range, if a type holds all of it: what wraps is elsewhere.
fn held((low, high): (i64, i64), dtype: DType) -> Option<(i64, i64)> {
    let holds = match dtype.integer_range() {
        Some((least, most)) => least <= low.into() && i128::from(high) <= most,
        None => dtype.is_float() && low >= -MOST_OF_RANGE && high <= MOST_OF_RANGE,
    };
    holds.then_some((low, high))
}

/// The value of rank 0 that a value repeats.
pub(crate) fn splat(function: &Function, value: ValueId) -> Option<ValueId> {
    if function.ty(value).as_tensor()?.shape.is_empty() {
        return Some(value);
    }
    let (id, _) = function.producer(value)?;
    let node = &function.nodes[id];
    match &node.op {
        Op::Broadcast { .. } => splat(function, node.operands[0]),
        _ => None,
    }
}

/// Whether a value is an integer of 8 bits.
fn is_whole(function: &Function, value: ValueId) -> bool {
    let Some((id, _)) = function.producer(value) else { return false };
    let node = &function.nodes[id];
    match &node.op {
        Op::Literal(tensor) => {
            let fits = |low: f64, high: f64| {
                (0..tensor.len()).all(|at| {
                    let element = tensor.get_f64(at);
                    element.fract() == 0.0 && (low..=high).contains(&element)
                })
            };
            fits(-128.0, 127.0) || fits(0.0, 255.0)
        }
        Op::Map { function: ScalarFunction::Cast, .. } => {
            let of = function.ty(node.operands[0]).as_tensor().map(|ty| ty.dtype);
            of.is_some_and(|dtype| dtype.is_integer() && dtype.bits() <= 8)
        }
        Op::Broadcast { .. } | Op::Reshape { .. } | Op::Transpose { .. } | Op::Slice { .. } => {
            is_whole(function, node.operands[0])
        }
        // Numbers that are looked up in a table of such.
        Op::Gather { .. } => {
            let table = function.literal(node.operands[0]);
            table.is_some_and(|table| table.len() <= MOST_OF_TABLE)
                && is_whole(function, node.operands[0])
        }
        _ => false,
    }
}

/// A value that is an integer, or the difference of two, in a type of integers that holds it:
/// computed there.
pub(crate) fn as_type(rewriter: &mut Rewriter<'_>, value: ValueId, dtype: DType) -> Built {
    let source = rewriter.source;
    let Some((id, _)) = source.producer(value) else { return Ok(rewriter.get(value)) };
    let data = &source.nodes[id];
    match &data.op {
        Op::Literal(tensor) => Ok(rewriter.builder.literal(tensor.cast(dtype))),
        Op::Map { function: ScalarFunction::Cast, .. } => {
            let integer = rewriter.get(data.operands[0]);
            rewriter.builder.cast(integer, dtype)
        }
        Op::Gather { .. } => {
            let mut operands = vec![as_type(rewriter, data.operands[0], dtype)?];
            operands.extend(data.operands[1..].iter().map(|&operand| rewriter.get(operand)));
            Ok(rewriter.builder.add(data.op.clone(), &operands)?[0])
        }
        op => {
            let op = match op {
                Op::Map { function, .. } => Op::Map { function: *function, dtype },
                other => other.clone(),
            };
            let operands = data.operands.iter().map(|&operand| as_type(rewriter, operand, dtype));
            let operands = operands.collect::<Built<Vec<ValueId>>>()?;
            Ok(rewriter.builder.add(op, &operands)?[0])
        }
    }
}

/// The operand of a contraction with other elements: what it stands for behind movements is
/// replaced, and moved as before, with `outside` around it.
pub(crate) fn moved(
    rewriter: &mut Rewriter<'_>,
    value: ValueId,
    whole: &Whole,
    (inner, outside): (ValueId, ValueId),
) -> Built {
    let source = rewriter.source;
    let Some((id, _)) = source.producer(value).filter(|_| value != whole.value) else {
        return Ok(inner);
    };
    let data = &source.nodes[id];
    if let Op::Map { .. } = data.op {
        // A factor: the operand that leads to the numbers is the one that stands for them.
        let leads = |operand: &ValueId| {
            let found = Quantised::of(source, *operand);
            found.is_some_and(|found| found.whole.value == whole.value)
        };
        let next = data.operands.iter().copied().find(leads).unwrap_or(whole.value);
        return moved(rewriter, next, whole, (inner, outside));
    }
    let mut operands = vec![moved(rewriter, data.operands[0], whole, (inner, outside))?];
    operands.extend(data.operands[1..].iter().map(|_| outside));
    rewriter.builder.set_location(data.location);
    let results = rewriter.builder.add(data.op.clone(), &operands)?;
    Ok(results[0])
}
