//! Blocks of integers by blocks of integers: sums of a block are exact, and scales follow them.
//!
//! before: `contract mul(q, s)[m, k], mul(sub(w, z), t)[n, k] accumulate f32`, where `q` is bytes
//!         and `s`, `t` and `z` are repeated for each block of `k`
//! after:  `sum over b of mul(mul(cast<f32>(sub(contract q[m, B*b + r], w[n, B*b + r]
//!         accumulate i32, z * sum over r of q)), s), t)`
//!
//! Numbers that are no such integers are made some: each block of them is
//! written as 23 bits and a sign, times a scale, cut into three bytes, and each of the bytes has a
//! sum of its own. What is lost is at most 2^-22 of a block's largest number. Zero points are taken
//! from the three sums; then they are joined, so scales and shifts meet one number a block.
//!
//! The bytes of a number's limbs lie side by side for each block: what a tile of rows reads of one
//! is then one piece of memory a row, however long rows are.
//!
//! Weights lie in panels, quads of terms side by side as instructions take them; of fewer bits,
//! several quads in one, one behind the other in the bits of each byte: a quad of each half of the
//! block, or of each quarter, as most formats have their bytes, which are then only moved. Integers
//! of a table of sixteen lie as their places in it, and are looked up where the product meets them.
//! Of integers of five and six bits the lower four lie so, and those above in bytes of their own,
//! each of which has them of several turns:
//!
//! ```text
//! low[turn, .., q]    low bits of quads `turn` and `turns + turn`
//! high[t, .., q]      high bits of the same of turns `2 * t` and `2 * t + 1`, two of each
//! ```

use backend::Target;
use base::Id;
use graph::{Built, Function, FunctionBuilder, IterationSpace, Op, Rewriter, ValueId};
use sym::{Expr, SymbolId};
use tensor::{DType, Reduction, ScalarFunction};

use super::{Parts, Stored};
use crate::integers::{in_order, sums_along, turned};
use crate::options::Activations;
use crate::panels;
use crate::quantised::{Quantised, as_type, moved, shift};
use crate::table::looked_up;

/// Terms that an instruction adds up at once.
const QUAD: i64 = 4;

/// Bytes that a number is cut into.
const LIMBS: i64 = 3;

/// The largest of the integers that the highest byte of a block's numbers becomes. With half of
/// each byte's range added to each byte they are still not negative, however their quotient is
/// rounded.
const LARGEST: f64 = 127.0;

/// What half of each byte's range comes to.
const HALVES: i64 = 0x0080_8080;

/// Scales below this are taken for it: a block of zeros has one, too.
const LEAST_SCALE: f64 = 1e-37;

/// The data of a product as bytes.
pub(super) struct Bytes {
    /// Signed bytes: the axes of the operand with blocks for the terms, limbs, terms of a block.
    integers: ValueId,
    /// Factors of the limbs: the same axes but for the terms.
    scales: ValueId,
    limbs: i64,
}

impl Bytes {
    /// The factors of limbs, in the order of the axes by which a product reads them.
    fn factors(&self, rewriter: &mut Rewriter<'_>, index: &[Expr]) -> Built {
        let axis = |own: &Expr| Some(own.as_symbol()?.index());
        let (_, without_terms) = index.split_last().ok_or("data without terms")?;
        let axes = without_terms.iter().map(axis).collect::<Option<Vec<usize>>>();
        let (factors, _) =
            in_order(rewriter, self.scales, &axes.ok_or("data that are not walked")?)?;
        Ok(factors)
    }
}

/// What is taken from each of the weights: a number a block, if there are such, and one that is
/// known.
struct Points {
    each: Option<ValueId>,
    known: i64,
}

impl Points {
    /// Takes from sums of this shape, in which limbs have an axis or not, so many times those of
    /// the data, which have these of the axes.
    fn taken_from(
        &self,
        rewriter: &mut Rewriter<'_>,
        sums: ValueId,
        (data, axes): (ValueId, &[usize]),
        (shape, limb): (&[Expr], Option<usize>),
    ) -> Built {
        let builder = &mut rewriter.builder;
        let dtype = builder.dtype(sums)?;
        let known = builder.scalar(dtype, self.known as f64);
        let share = match self.each {
            Some(each) => {
                let mut each = builder.cast(each, dtype)?;
                if self.known != 0 {
                    each = builder.map_broadcast(ScalarFunction::Add, &[each, known])?;
                }
                // Limbs have one zero point.
                let own = (0..shape.len()).filter(|axis| Some(*axis) != limb);
                let each = builder.broadcast(each, shape, &own.collect::<Vec<_>>())?;
                let data = builder.broadcast(data, shape, axes)?;
                builder.map(ScalarFunction::Mul, &[each, data])?
            }
            None => {
                let share = builder.map_broadcast(ScalarFunction::Mul, &[data, known])?;
                builder.broadcast(share, shape, axes)?
            }
        };
        builder.map(ScalarFunction::Sub, &[sums, share])
    }
}

/// What has these axes of the products, added up along that of the limbs; those that are left.
fn joined(
    rewriter: &mut Rewriter<'_>,
    parts: &Parts,
    (value, axes): (ValueId, &[usize]),
) -> Built<(ValueId, Vec<usize>)> {
    let builder = &mut rewriter.builder;
    let place = axes.iter().position(|axis| Some(*axis) == parts.joined);
    let place = place.ok_or("data without limbs")?;
    let left = axes.iter().filter(|axis| Some(**axis) != parts.joined);
    let left = left.map(|axis| parts.axis(*axis)).collect();
    let mut shape = builder.shape(value)?.to_vec();
    let value = if shape.remove(place).is_one() {
        builder.reshape(value, shape)?
    } else {
        builder.reduce_axes(value, &[place], Reduction::Sum, DType::F32, false)?
    };
    Ok((value, left))
}

/// What an operand stands for, if that is signed bytes without a zero point in blocks of which
/// there are so many along the sum, or in one.
pub(super) fn data(
    source: &Function,
    space: &IterationSpace,
    (value, number): (ValueId, usize),
    blocks: i64,
) -> Option<Quantised> {
    let found = Quantised::of(source, value)?;
    let index = &space.operands[number];
    let is_plain = found.whole.zero_as(source, DType::I8) == Some(0)
        && found.whole.dtype(source) == Some(DType::I8)
        && !found.is_cut;
    let fits = |(axis, extent): (&usize, &Expr)| {
        let Some(own) = index[*axis].as_symbol() else { return false };
        let whole = &space.extents[own.index()] == extent;
        if own.index() < space.parallel { whole } else { extent.as_constant() == Some(blocks) }
    };
    let scales = &found.scales;
    let fit = scales.iter().all(|scale| scale.axes.iter().zip(&scale.shape).all(fits));
    (is_plain && fit && !scales.is_empty()).then_some(found)
}

impl Stored {
    /// Whether the product is one of bytes: the target multiplies such, in tuples that blocks are
    /// cut into evenly. Data that are floats are cut into bytes, which takes less than to make
    /// floats of the weights.
    pub(super) fn is_of_bytes(&self, source: &Function, target: &Target) -> bool {
        let Op::Contract { space, .. } = &source.nodes[self.node].op else { return false };
        let is_plain = space.operands.iter().flatten().all(|index| index.as_symbol().is_some());
        is_plain && target.multiplies_bytes() && self.terms % (QUAD * 8 / self.bits) == 0
    }

    /// Quads of a block in each of the fields of four bits.
    pub(super) fn turns(&self) -> i64 {
        self.terms * self.bits / (QUAD * 8)
    }

    /// Turns of which the bits above the fourth lie in one byte.
    pub(super) fn group(&self) -> i64 {
        self.bits / self.above
    }

    /// The data as bytes, where the product is one of such.
    pub(super) fn bytes_of_data(
        &self,
        rewriter: &mut Rewriter<'_>,
        target: &Target,
    ) -> Built<Option<Bytes>> {
        let source = rewriter.source;
        let Op::Contract { space, .. } = &source.nodes[self.node].op else { return Ok(None) };
        if !self.is_of_bytes(source, target) {
            return Ok(None);
        }
        let bytes = match (&self.data, self.activations) {
            (Some(found), _) => self.given(rewriter, space, found),
            (None, Activations::Int8) => self.cut(rewriter, space, 1),
            (None, Activations::AsGiven) => self.cut(rewriter, space, LIMBS),
        };
        bytes.map(Some)
    }

    /// The shape of the data with an axis of blocks in front of the terms', and its place.
    fn shape_in_blocks(
        &self,
        rewriter: &Rewriter<'_>,
        value: ValueId,
        space: &IterationSpace,
    ) -> Built<(Vec<Expr>, usize)> {
        let term = IterationSpace::axis(space.parallel);
        let index = &space.operands[1 - self.operand];
        let place = index.iter().position(|own| *own == term).ok_or("terms not walked")?;
        let mut shape = rewriter.builder.shape(value)?.to_vec();
        shape.splice(place..=place, [self.blocks, self.terms].map(Expr::constant));
        Ok((shape, place))
    }

    /// Data that stand for bytes.
    fn given(
        &self,
        rewriter: &mut Rewriter<'_>,
        space: &IterationSpace,
        found: &Quantised,
    ) -> Built<Bytes> {
        let value = rewriter.source.nodes[self.node].operands[1 - self.operand];
        let integer = as_type(rewriter, found.whole.integer, DType::I8)?;
        let outside = rewriter.builder.scalar(DType::I8, 0.0);
        let integers = moved(rewriter, value, &found.whole, (integer, outside))?;
        let (blocks, place) = self.shape_in_blocks(rewriter, integers, space)?;
        let integers = rewriter.builder.reshape(integers, &blocks[..])?;
        let mut shape = blocks;
        shape.remove(place + 1);
        let mut scales = rewriter.builder.scalar(DType::F32, 1.0);
        scales = rewriter.builder.broadcast(scales, &shape[..], &[])?;
        for scale in &found.scales {
            let own = rewriter.get(scale.value);
            let own = rewriter.builder.reshape(own, &scale.shape[..])?;
            let (own, axes) = in_order(rewriter, own, &scale.axes)?;
            let own = rewriter.builder.broadcast(own, &shape[..], &axes)?;
            scales = rewriter.builder.map(scale.function, &[scales, own])?;
        }
        single(&mut rewriter.builder, place, integers, scales)
    }

    /// Data that are floats, each of which is cut into so many bytes, or rounded to one.
    fn cut(&self, rewriter: &mut Rewriter<'_>, space: &IterationSpace, limbs: i64) -> Built<Bytes> {
        let value = rewriter.get(rewriter.source.nodes[self.node].operands[1 - self.operand]);
        let (blocks, place) = self.shape_in_blocks(rewriter, value, space)?;
        let builder = &mut rewriter.builder;
        let value = builder.reshape(value, &blocks[..])?;
        let size = builder.map(ScalarFunction::Abs, &[value])?;
        let most = builder.reduce_axes(size, &[place + 1], Reduction::Max, DType::F32, false)?;
        let largest = builder.scalar(DType::F32, LARGEST * (8.0 * (limbs - 1) as f64).exp2());
        let scale = builder.map_broadcast(ScalarFunction::Div, &[most, largest])?;
        let least = builder.scalar(DType::F32, LEAST_SCALE);
        let scale = builder.map_broadcast(ScalarFunction::Max, &[scale, least])?;
        let without: Vec<usize> = (0..blocks.len()).filter(|&axis| axis != place + 1).collect();
        let repeated = builder.broadcast(scale, &blocks[..], &without)?;
        let whole = builder.map(ScalarFunction::Div, &[value, repeated])?;
        let whole = builder.map(ScalarFunction::Round, &[whole])?;
        if limbs == 1 {
            let integers = builder.cast(whole, DType::I8)?;
            return single(builder, place, integers, scale);
        }
        let whole = builder.cast(whole, DType::I32)?;
        let halves = builder.scalar(DType::I32, HALVES as f64);
        let whole = builder.map_broadcast(ScalarFunction::Add, &[whole, halves])?;
        let whole = terms_last(builder, place, whole)?;
        // The highest byte first.
        let mut all = builder.shape(whole)?.to_vec();
        let limb = all.len() - 1;
        all.insert(limb, Expr::constant(limbs));
        let others: Vec<usize> = (0..all.len()).filter(|&axis| axis != limb).collect();
        let whole = builder.broadcast(whole, &all[..], &others)?;
        let places: Vec<i32> = (0..limbs).rev().map(|limb| 8 * limb as i32).collect();
        let places = builder.literal(tensor::Tensor::from_vec(&[places.len()], places));
        let places = builder.broadcast(places, &all[..], &[limb])?;
        let byte = builder.map(ScalarFunction::Shr, &[whole, places])?;
        let mask = builder.scalar(DType::I32, 255.0);
        let byte = builder.map_broadcast(ScalarFunction::And, &[byte, mask])?;
        let half = builder.scalar(DType::I32, 128.0);
        let byte = builder.map_broadcast(ScalarFunction::Sub, &[byte, half])?;
        let integers = builder.cast(byte, DType::I8)?;
        all.pop();
        let scale = builder.broadcast(scale, &all[..], &others[..limb])?;
        let factors: Vec<f32> = (0..limbs).rev().map(|limb| (8.0 * limb as f32).exp2()).collect();
        let factors = builder.literal(tensor::Tensor::from_vec(&[factors.len()], factors));
        let factors = builder.broadcast(factors, &all[..], &[limb])?;
        let scales = builder.map(ScalarFunction::Mul, &[scale, factors])?;
        Ok(Bytes { integers, scales, limbs })
    }

    /// The product of weights and data that are both bytes.
    pub(super) fn product_of_bytes(
        &self,
        rewriter: &mut Rewriter<'_>,
        target: &Target,
        space: &IterationSpace,
        data: &Bytes,
        messages: &mut Vec<String>,
    ) -> Built {
        let number = 1 - self.operand;
        let (whole, space) = (space, with_limbs(space, number, data.limbs));
        let own = Stored { vector: self.vector + 1, accumulator: DType::I32, ..self.clone() };
        let mut contraction = own.contraction(rewriter, &space);
        contraction.operands[number].value = data.integers;
        limbs_behind(&mut contraction.space, number);
        let (integers, shift) = self.unsigned(rewriter)?;
        let shape = self.in_blocks(&rewriter.builder.shape(integers)?, &space);
        contraction.operands[self.operand].value = rewriter.builder.reshape(integers, shape)?;
        panels::apply(&mut contraction, &mut rewriter.builder, target, messages)?;
        let laid = contraction.operands[self.operand].value;
        let parts = own.parts(&contraction, &rewriter.builder.shape(laid)?)?;
        let mut operands = [data.integers; 2];
        let quads;
        (operands[self.operand], quads) = self.in_quads(rewriter, laid, &parts)?;
        let [lhs, rhs] = operands;
        let mut sums = rewriter.builder.contract(quads, lhs, rhs, DType::I32, DType::I32)?;
        let (limb, places) = (parts.places[0], parts.places[1..].to_vec());
        let parts = Parts { joined: Some(limb), places, vector: self.vector, ..parts };
        let points = own.points_of_bytes(rewriter, (&space, shift), target, &parts)?;
        let mut shape = parts.space.extents[..parts.space.parallel].to_vec();
        let (mut of, mut axes) =
            sums_along(rewriter, &parts.space, (number, data.integers), DType::I32)?;
        let mut factors = data.factors(rewriter, &parts.space.operands[number])?;
        // Of the data by themselves, as numbers.
        let numbers = rewriter.builder.cast(of, DType::F32)?;
        let numbers = rewriter.builder.map(ScalarFunction::Mul, &[numbers, factors])?;
        let numbers = joined(rewriter, &parts, (numbers, &axes))?;
        let mut every: Vec<usize> = (0..shape.len()).collect();
        let is_joined = data.limbs == 1;
        if is_joined {
            (factors, _) = joined(rewriter, &parts, (factors, &axes))?;
            (of, axes) = joined(rewriter, &parts, (of, &axes))?;
            (sums, every) = joined(rewriter, &parts, (sums, &every))?;
            shape = parts.shape();
        }
        // What is taken from the weights is taken from whole numbers: nothing is rounded before.
        if let Some(points) = &points {
            let limb = parts.joined.filter(|_| !is_joined);
            sums = points.taken_from(rewriter, sums, (of, &axes), (&shape, limb))?;
        }
        sums = rewriter.builder.cast(sums, DType::F32)?;
        factors = rewriter.builder.broadcast(factors, &shape[..], &axes)?;
        sums = rewriter.builder.map(ScalarFunction::Mul, &[sums, factors])?;
        if !is_joined {
            // Limbs are joined before anything else is done to a block, which is then done once.
            (sums, _) = joined(rewriter, &parts, (sums, &every))?;
        }
        for scale in &self.found.scales {
            let of = rewriter.get(scale.value);
            let scales = own.repeated(rewriter, &space, (scale, of), target, &parts)?;
            sums = rewriter.builder.map(scale.function, &[sums, scales])?;
        }
        if let Some(shift) = &self.shift {
            sums = own.with_shift(rewriter, &space, (shift, sums, numbers), target, &parts)?;
        }
        let message = match data.limbs {
            1 => "are multiplied by bytes in blocks",
            _ => "are multiplied by numbers of 23 bits a block, as three bytes each",
        };
        messages.push(format!("weights of {} bits {message}", self.bits + self.above));
        parts.whole(rewriter, sums, whole)
    }

    /// What is taken from the bytes that stand for the weights, which are more than the model's
    /// integers by a shift; none if that is zero.
    fn points_of_bytes(
        &self,
        rewriter: &mut Rewriter<'_>,
        (space, shift): (&IterationSpace, i64),
        target: &Target,
        parts: &Parts,
    ) -> Built<Option<Points>> {
        let Some(points) = &self.points else {
            let known = shift + self.found.whole.known_zero(rewriter.source).unwrap_or(0);
            return Ok((known != 0).then_some(Points { each: None, known }));
        };
        let of = as_type(rewriter, points.value, self.byte(rewriter)?)?;
        let each = self.repeated(rewriter, space, (points, of), target, parts)?;
        Ok(Some(Points { each: Some(each), known: shift }))
    }

    /// The weights as unsigned bytes, and by how much these are more than the model's integers.
    fn unsigned(&self, rewriter: &mut Rewriter<'_>) -> Built<(ValueId, i64)> {
        let weights = rewriter.source.nodes[self.node].operands[self.operand];
        let integers = self.integers(rewriter, weights)?;
        if self.bits < 8 {
            return Ok((integers, -self.least));
        }
        let shift = shift(self.byte(rewriter)?, DType::U8);
        Ok((turned(rewriter, integers, DType::U8)?, shift))
    }

    /// Weights in panels with the terms of quads side by side, as they are unpacked, and the space
    /// of the product with them.
    fn in_quads(
        &self,
        rewriter: &mut Rewriter<'_>,
        laid: ValueId,
        parts: &Parts,
    ) -> Built<(ValueId, IterationSpace)> {
        let place = parts.term_of_weights.ok_or("terms that are not walked")?;
        let (each, builder) = (8 / self.bits, &mut rewriter.builder);
        let mut shape = builder.shape(laid)?.to_vec();
        let turns = shape[place].floor_div(&Expr::constant(each * QUAD));
        shape.splice(place..=place, [Expr::constant(each), turns.clone(), Expr::constant(QUAD)]);
        let split = builder.reshape(laid, &shape[..])?;
        // Turns, fields, all else, and the terms of a quad last.
        let mut order: Vec<usize> = (0..shape.len()).filter(|&axis| axis != place + 2).collect();
        order.swap(place, place + 1);
        order.push(place + 2);
        let mut value = builder.transpose(split, &order)?;
        let quads = value;
        let shape: Vec<Expr> = order.iter().map(|&axis| shape[axis].clone()).collect();
        let behind: Vec<usize> = (0..shape.len()).filter(|&axis| axis != place + 1).collect();
        let packed: Vec<Expr> = behind.iter().map(|&axis| shape[axis].clone()).collect();
        if each == 1 {
            value = builder.reshape(value, packed)?;
        } else {
            let mut bytes = None;
            for number in 0..each {
                let part = Expr::from(number);
                let mut part = builder.slice_axis(value, place + 1, part, 1, Expr::ONE)?;
                part = builder.reshape(part, &packed[..])?;
                if self.above > 0 {
                    let most = builder.scalar(DType::U8, 15.0);
                    part = builder.map_broadcast(ScalarFunction::And, &[part, most])?;
                }
                bytes = Some(with_bits(builder, bytes, part, number * self.bits)?);
            }
            let bytes = bytes.ok_or("bytes of nothing")?;
            let bytes = builder.broadcast(bytes, &shape[..], &behind)?;
            let number = builder.iota(DType::U8, &[Expr::constant(each)], 0)?;
            let bits = builder.scalar(DType::U8, self.bits as f64);
            let bits = builder.map_broadcast(ScalarFunction::Mul, &[bits, number])?;
            let bits = builder.broadcast(bits, &shape[..], &[place + 1])?;
            let moved = builder.map(ScalarFunction::Shr, &[bytes, bits])?;
            let is_wrong = base::fault::is_seeded("formats.stored");
            let most = (1 << self.bits) - 1 - i64::from(is_wrong);
            let mask = builder.scalar(DType::U8, most as f64);
            value = builder.map_broadcast(ScalarFunction::And, &[moved, mask])?;
        }
        if self.above > 0 {
            let high = self.bits_above(builder, quads, place)?;
            value = builder.map(ScalarFunction::Or, &[value, high])?;
        }
        if let Some(table) = &self.table {
            value = looked_up(builder, value, table)?;
        }
        // The terms as turns, fields of bytes, and bytes.
        let term = parts.space.parallel;
        let few = usize::from(each > 1);
        let [turn, field, byte] = [term, term + 1, term + 1 + few].map(IterationSpace::axis);
        let mut space = parts.space.clone();
        space.extents.truncate(term);
        space.extents.push(turns.clone());
        space.extents.extend((each > 1).then(|| Expr::constant(each)));
        space.extents.push(Expr::constant(QUAD));
        let fields = if each > 1 { field.clone() * QUAD * &turns } else { Expr::ZERO };
        let at = &turn * QUAD + &fields + &byte;
        let own = &mut space.operands[self.operand];
        own.splice(place..=place, [turn].into_iter().chain((each > 1).then_some(field)));
        own.push(byte);
        let along = |symbol: SymbolId| (symbol.index() == term).then(|| at.clone());
        for index in &mut space.operands[1 - self.operand] {
            *index = index.substitute(&mut { along });
        }
        Ok((value, space))
    }
}

impl Stored {
    /// The bits above the fourth of integers that have axes of turns, at this place, and of fields
    /// behind it: out of bytes of their own.
    fn bits_above(&self, builder: &mut FunctionBuilder, quads: ValueId, place: usize) -> Built {
        let (above, group, each) = (self.above, self.group(), 8 / self.bits);
        let shape = builder.shape(quads)?.to_vec();
        let parts = [self.turns() / group, group, each].map(Expr::constant);
        let mut split = shape.clone();
        split.splice(place..place + 2, parts);
        let four = builder.scalar(DType::U8, self.bits as f64);
        let high = builder.map_broadcast(ScalarFunction::Shr, &[quads, four])?;
        let high = builder.reshape(high, &split[..])?;
        let behind: Vec<usize> =
            (0..split.len()).filter(|axis| ![place + 1, place + 2].contains(axis)).collect();
        let packed: Vec<Expr> = behind.iter().map(|&axis| split[axis].clone()).collect();
        let mut bytes = None;
        for number in 0..group * each {
            let (of_group, field) = (Expr::from(number / each), Expr::from(number % each));
            let part = builder.slice_axis(high, place + 1, of_group, 1, Expr::ONE)?;
            let part = builder.slice_axis(part, place + 2, field, 1, Expr::ONE)?;
            let part = builder.reshape(part, &packed[..])?;
            bytes = Some(with_bits(builder, bytes, part, number * above)?);
        }
        let bytes = bytes.ok_or("bytes of nothing")?;
        let bytes = builder.broadcast(bytes, &split[..], &behind)?;
        let number = builder.iota(DType::U8, &[Expr::constant(group * each)], 0)?;
        let own = builder.scalar(DType::U8, above as f64);
        let bits = builder.map_broadcast(ScalarFunction::Mul, &[own, number])?;
        let bits = builder.reshape(bits, [group, each].map(Expr::constant).to_vec())?;
        let bits = builder.broadcast(bits, &split[..], &[place + 1, place + 2])?;
        let moved = builder.map(ScalarFunction::Shr, &[bytes, bits])?;
        let mask = builder.scalar(DType::U8, ((1 << above) - 1) as f64);
        let few = builder.map_broadcast(ScalarFunction::And, &[moved, mask])?;
        let few = builder.map_broadcast(ScalarFunction::Shl, &[few, four])?;
        builder.reshape(few, shape)
    }
}

/// Bytes with the bits of others, moved up by so many.
fn with_bits(
    builder: &mut FunctionBuilder,
    bytes: Option<ValueId>,
    part: ValueId,
    by: i64,
) -> Built {
    let by = builder.scalar(DType::U8, by as f64);
    let part = builder.map_broadcast(ScalarFunction::Shl, &[part, by])?;
    match bytes {
        None => Ok(part),
        Some(bytes) => builder.map(ScalarFunction::Or, &[bytes, part]),
    }
}

/// The space with an axis of limbs in front of all others, which the data have in front.
fn with_limbs(space: &IterationSpace, data: usize, limbs: i64) -> IterationSpace {
    let next = |symbol: SymbolId| Some(IterationSpace::axis(symbol.index() + 1));
    let moved = |index: &Vec<Expr>| index.iter().map(|own| own.substitute(&mut { next })).collect();
    let mut operands: Vec<Vec<Expr>> = space.operands.iter().map(moved).collect();
    operands[data].insert(0, IterationSpace::axis(0));
    let extents = [&[Expr::constant(limbs)], &space.extents[..]].concat();
    IterationSpace { extents, parallel: space.parallel + 1, operands }
}

/// Has an operand with limbs in front be read as its bytes lie: limbs and terms last.
fn limbs_behind(space: &mut IterationSpace, operand: usize) {
    let [block, term] = [0, 1].map(|behind| IterationSpace::axis(space.parallel + behind));
    let [limb, others @ ..] = &space.operands[operand][..] else { return };
    let is_summed = |own: &Expr| own.contains(SymbolId::new(space.parallel + 1));
    let own = |own: &Expr| if is_summed(own) { block.clone() } else { own.clone() };
    let index = others.iter().map(own).chain([limb.clone(), term]).collect();
    space.operands[operand] = index;
}

/// Integers in blocks with the axis of their terms last.
fn terms_last(builder: &mut FunctionBuilder, place: usize, integers: ValueId) -> Built {
    let rank = builder.shape(integers)?.len();
    let others = (0..rank).filter(|axis| *axis != place + 1);
    let order: Vec<usize> = others.chain([place + 1]).collect();
    builder.transpose(integers, &order)
}

/// Data in one limb.
fn single(
    builder: &mut FunctionBuilder,
    place: usize,
    integers: ValueId,
    scales: ValueId,
) -> Built<Bytes> {
    let integers = terms_last(builder, place, integers)?;
    let mut shape = builder.shape(integers)?.to_vec();
    let terms = shape.len() - 1;
    shape.insert(terms, Expr::ONE);
    let integers = builder.reshape(integers, &shape[..])?;
    shape.pop();
    let scales = builder.reshape(scales, &shape[..])?;
    Ok(Bytes { integers, scales, limbs: 1 })
}
