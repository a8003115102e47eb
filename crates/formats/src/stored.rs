//! Weights that kernels read as the model stores them: integers of few bits in blocks, each with a
//! scale, become numbers where a product of few rows meets them.
//!
//! before: `contract x[m, k], mul(sub(cast<f32>(q), z), s)[n, k] accumulate f32`, where `z` and `s`
//!         are repeated for each block of `k`; what is added behind that, block by block, is
//!         added to the sums of blocks, times the sum of the data's block
//! after:  `sum over b of mul(sub(contract x[m, B*b + r], unpack(packed)[n div P, b, r, n mod P]
//!         accumulate f32, z * sum over r of x[m, B*b + r]), s)`
//!
//! `setup` makes panels of the integers, of the zero points and of the scales, each by itself, as
//! `panels` does, and puts as many terms into a word as it holds (eight of 4 bits into 32). A
//! kernel that has written its terms out masks the word by a constant for each of them; where the
//! term stands in the word multiplies it by a power of two, by which its factor is divided before.
//! What is made of the words has many times their bits, so the cut leaves it to `main`, and the
//! kernel of the product computes it in its operand. The numbers are those of the products before
//! but for the rounding of products and sums; factors below 2^-98 lose bits.

use backend::Target;
use base::{Id, IdSet};
use graph::{Built, IterationSpace, NodeId, Op, Rewriter, ValueId};
use sym::{Expr, SymbolId};
use tensor::{DType, Reduction, Scalar, ScalarFunction, Tensor};

mod blocks;
mod scales;

use crate::contraction::Contraction;
use crate::integers::{sums_along, turned};
use crate::options::Activations;
use crate::panels;
use crate::quantised::{Quantised, Scale, Whole, as_type, moved, range};
use crate::table;

/// The product of a matrix of weights that stand for integers in blocks.
#[derive(Clone)]
pub(crate) struct Stored {
    node: NodeId,
    operand: usize,
    /// The axis of the result along which vectors go.
    vector: usize,
    found: Quantised,
    /// The zero points that are no one known number.
    points: Option<Scale>,
    /// What is added to the numbers, a number a block, or taken off.
    shift: Option<Scale>,
    /// How many blocks of terms there are, and the terms of each.
    blocks: i64,
    terms: i64,
    /// The least of the integers, and the bits that tell each from it.
    least: i64,
    bits: i64,
    /// Of these bits those above the fourth, where they lie by themselves.
    above: i64,
    /// The integers above the least one, where places in this table tell them.
    table: Option<[u8; 16]>,
    /// What the other operand stands for, if that is integers in the same blocks.
    data: Option<Quantised>,
    activations: Activations,
    /// The type of the sums of blocks.
    accumulator: DType,
}

impl Stored {
    /// What a contraction multiplies, if it is such a product.
    pub(crate) fn of(
        source: &graph::Function,
        node: NodeId,
        constants: &IdSet<ValueId>,
        activations: Activations,
        target: &Target,
    ) -> Option<Stored> {
        let data = &source.nodes[node];
        let Op::Contract { space, accumulator: DType::F32, dtype: DType::F32 } = &data.op else {
            return None;
        };
        let constant = |&at: &usize| constants.contains(data.operands[at]);
        let operand = [0, 1].into_iter().find(constant).filter(|at| !constant(&(1 - at)))?;
        let (found, shift) = Quantised::shifted(source, data.operands[operand])?;
        let index = &space.operands[operand];
        let is_matrix = index.iter().all(|index| index.as_symbol().is_some());
        let symbol = SymbolId::new(space.parallel);
        let walks = |index: &&Expr| index.contains(symbol);
        let one_sum = space.extents.len() == space.parallel + 1
            && space.operands.iter().all(|index| {
                let mut having = index.iter().filter(walks);
                having.next() == Some(&IterationSpace::axis(space.parallel))
                    && having.next().is_none()
            });
        let reads = |number: usize, axis: usize| {
            space.operands[number].iter().any(|own| own.contains(SymbolId::new(axis)))
        };
        let vector = (0..space.parallel).rev().find(|axis| !space.extents[*axis].is_one())?;
        if !reads(operand, vector) || reads(1 - operand, vector) {
            return None;
        }
        let shape = &source.ty(data.operands[operand]).as_tensor()?.shape;
        if !is_matrix || !one_sum || found.is_cut {
            return None;
        }
        let points = match (found.whole.known_zero(source), &found.points) {
            (Some(_), _) => None,
            (None, Some(points)) => Some(points.clone()),
            (None, None) => return None,
        };
        let depth = space.extents[space.parallel].as_constant()?;
        // What is taken from integers is of their type, or would not fit it.
        let of_type = |integer| Whole { integer, ..found.whole }.dtype(source);
        let own = of_type(found.whole.integer);
        if points.is_some() && found.whole.zero.and_then(of_type) != own {
            return None;
        }
        let mut blocks = None;
        for scale in found.scales.iter().chain(&points).chain(&shift) {
            for (&axis, extent) in scale.axes.iter().zip(&scale.shape) {
                let own = index[axis].as_symbol()?.index();
                if space.extents[own] == *extent && own < space.parallel {
                    continue;
                }
                let count = extent.as_constant().filter(|_| own == space.parallel)?;
                if blocks.is_some_and(|blocks| blocks != count) || depth % count.max(1) != 0 {
                    return None;
                }
                blocks = Some(count);
            }
        }
        // Scales that are one for all terms follow the sum (file `weights`).
        let blocks = blocks?;
        let (low, high) = range(source, found.whole.integer)?;
        let bits = [2, 4].into_iter().find(|bits| high - low < 1 << bits).unwrap_or(8);
        let terms = depth / blocks;
        let least = if bits == 8 { 0 } else { low };
        let entries = table::entries(source, found.whole.integer).filter(|_| bits == 8);
        let table = entries.map(|entries| entries.map(|entry| (entry - low) as u8));
        let data = blocks::data(source, space, (data.operands[1 - operand], 1 - operand), blocks);
        let seldom = space.meets_seldom(shape);
        let mut stored = Stored {
            node,
            operand,
            vector,
            found,
            points,
            shift,
            blocks,
            terms,
            least,
            bits,
            above: 0,
            table: None,
            data,
            activations,
            accumulator: DType::F32,
        };
        let looked_up = Stored { table, bits: 4, least: low, ..stored.clone() };
        if table.is_some() && looked_up.is_of_bytes(source, target) {
            stored = looked_up;
        }
        let above = (1..3).find(|above| high - low < 16 << above).filter(|_| stored.bits == 8);
        if let Some(above) = above {
            let in_planes = Stored { bits: 4, least: low, above, ..stored.clone() };
            if in_planes.is_of_bytes(source, target) && in_planes.turns() % in_planes.group() == 0 {
                stored = in_planes;
            }
        }
        let fits = terms % (8 / stored.bits) == 0 && stored.found.whole.dtype(source).is_some();
        // Floats that many rows meet are made once.
        let in_bytes = stored.data.is_some() || activations == Activations::Int8;
        let few = seldom || in_bytes || stored.is_of_bytes(source, target);
        (fits && few).then_some(stored)
    }

    /// The product that reads its weights as they are stored.
    pub(crate) fn product(
        &self,
        rewriter: &mut Rewriter<'_>,
        target: &Target,
        messages: &mut Vec<String>,
    ) -> Built {
        let data = &rewriter.source.nodes[self.node];
        let Op::Contract { space, .. } = &data.op else { return Err("no sum".to_owned()) };
        if let Some(data) = self.bytes_of_data(rewriter, target)? {
            return self.product_of_bytes(rewriter, target, space, &data, messages);
        }
        let mut contraction = self.contraction(rewriter, space);
        let integers = self.integers(rewriter, data.operands[self.operand])?;
        let shape = self.in_blocks(&rewriter.builder.shape(integers)?, space);
        let integers = rewriter.builder.reshape(integers, shape)?;
        contraction.operands[self.operand].value = integers;
        panels::apply(&mut contraction, &mut rewriter.builder, target, messages)?;
        let laid = contraction.operands[self.operand].value;
        let parts = self.parts(&contraction, &rewriter.builder.shape(laid)?)?;
        let place = parts.term_of_weights.ok_or("terms that are not walked")?;
        let mut operands = contraction.operands.map(|operand| operand.value);
        if let Some(word) = self.word(target) {
            operands[self.operand] = self.unpacked(rewriter, (laid, place), word)?;
            let data = operands[1 - self.operand];
            operands[1 - self.operand] = self.divided(rewriter, data, space, word)?;
        }
        let [lhs, rhs] = operands;
        let own = parts.space.clone();
        let mut sums = rewriter.builder.contract(own, lhs, rhs, DType::F32, DType::F32)?;
        let result = parts.shape();
        if let Some(points) = self.points(rewriter, space, target, &parts)? {
            // What is taken from the integers is taken from their sums.
            let other = (1 - self.operand, contraction.operands[1 - self.operand].value);
            let (data, axes) = sums_along(rewriter, &parts.space, other, DType::F32)?;
            let data = rewriter.builder.broadcast(data, &result[..], &axes)?;
            let share = rewriter.builder.map(ScalarFunction::Mul, &[points, data])?;
            sums = rewriter.builder.map(ScalarFunction::Sub, &[sums, share])?;
        }
        for scale in &self.found.scales {
            let own = rewriter.get(scale.value);
            let scales = self.repeated(rewriter, space, (scale, own), target, &parts)?;
            sums = rewriter.builder.map(scale.function, &[sums, scales])?;
        }
        if let Some(shift) = &self.shift {
            let other = (1 - self.operand, contraction.operands[1 - self.operand].value);
            let of = sums_along(rewriter, &parts.space, other, DType::F32)?;
            sums = self.with_shift(rewriter, space, (shift, sums, of), target, &parts)?;
        }
        messages.push(format!("weights of {} bits are read as they are stored", self.bits));
        parts.whole(rewriter, sums, space)
    }

    /// The space of the sums of blocks, for weights as they lie in panels.
    fn parts(&self, contraction: &Contraction, laid: &[Expr]) -> Built<Parts> {
        let space = &contraction.space;
        let (terms, vector) = (space.parallel, self.vector);
        let (index, along) = (&space.operands[self.operand], IterationSpace::axis(vector));
        let panel = index.iter().zip(laid).find_map(|(own, extent)| {
            let width = extent.as_constant()?;
            (*own == along.modulo(&Expr::constant(width)) && *own != along).then_some(width)
        });
        let others: Vec<usize> = (0..terms).filter(|axis| *axis != vector).collect();
        let block = usize::from(panel.is_some());
        let lane = block + 1 + others.len();
        let mut extents = Vec::new();
        if let Some(width) = panel {
            extents.push(space.extents[vector].ceil_div(&Expr::constant(width)));
        }
        extents.push(space.extents[terms].clone());
        extents.extend(others.iter().map(|axis| space.extents[*axis].clone()));
        extents.push(panel.map_or(space.extents[vector].clone(), Expr::constant));
        extents.push(space.extents[terms + 1].clone());
        let place = |axis: usize| match axis {
            axis if axis == terms => block,
            axis if axis == terms + 1 => lane + 1,
            axis if axis == vector => lane,
            axis => block + 1 + others.iter().position(|other| *other == axis).unwrap_or(0),
        };
        let moved = |own: &Expr| {
            let placed = |symbol: SymbolId| Some(IterationSpace::axis(place(symbol.index())));
            match panel.map(Expr::constant) {
                Some(width) if *own == along.floor_div(&width) => IterationSpace::axis(0),
                Some(width) if *own == along.modulo(&width) => IterationSpace::axis(lane),
                _ => own.substitute(&mut { placed }),
            }
        };
        let operands: Vec<Vec<Expr>> =
            space.operands.iter().map(|index| index.iter().map(moved).collect()).collect();
        let term = IterationSpace::axis(lane + 1);
        let term_of_weights = operands[self.operand].iter().position(|own| *own == term);
        let places = (0..terms).map(place).collect();
        let space = IterationSpace { extents, parallel: lane + 1, operands };
        let joined = None;
        Ok(Parts { space, joined, block, panel, vector, places, term_of_weights })
    }

    /// The product with an axis for blocks of terms and one for those of a block.
    fn contraction(&self, rewriter: &mut Rewriter<'_>, space: &IterationSpace) -> Contraction {
        let (terms, data) = (space.parallel, &rewriter.source.nodes[self.node]);
        let mut own = space.clone();
        own.extents.truncate(terms);
        own.extents.extend([Expr::constant(self.blocks), Expr::constant(self.terms)]);
        let [block, term] = [terms, terms + 1].map(IterationSpace::axis);
        let at = &block * self.terms + &term;
        let whole = IterationSpace::axis(terms);
        for (number, index) in own.operands.iter_mut().enumerate() {
            let Some(place) = index.iter().position(|own| *own == whole) else { continue };
            match number == self.operand {
                true => _ = index.splice(place..=place, [block.clone(), term.clone()]),
                false => index[place] = at.clone(),
            }
        }
        let operand = |number: usize| (rewriter.get(data.operands[number]), number == self.operand);
        Contraction::new(&own, [operand(0), operand(1)], self.accumulator, self.accumulator)
    }

    /// The type of bytes in which whole bytes have no zero point.
    fn plain(&self, source: &graph::Function) -> Option<DType> {
        let plain = self.found.whole.plain(source).filter(|_| self.bits == 8);
        plain.and_then(|(value, dtype)| (value == self.found.whole.integer).then_some(dtype))
    }

    /// The type that the integers have in the model.
    fn byte(&self, rewriter: &Rewriter<'_>) -> Built<DType> {
        let found = self.found.whole.dtype(rewriter.source);
        found.ok_or_else(|| "weights that stand for no bytes".to_owned())
    }

    /// The integers in the place of the weights; of few bits those above the least one, or places
    /// in their table.
    fn integers(&self, rewriter: &mut Rewriter<'_>, weights: ValueId) -> Built {
        let (whole, byte) = (self.found.whole, self.byte(rewriter)?);
        let mut value = match self.table {
            Some(_) => table::places(rewriter, whole.integer)?,
            None => as_type(rewriter, whole.integer, byte)?,
        };
        if self.table.is_some() {
            let most = rewriter.builder.scalar(DType::U8, 15.0);
            value = rewriter.builder.map_broadcast(ScalarFunction::And, &[value, most])?;
        } else if let Some(plain) = self.plain(rewriter.source) {
            value = turned(rewriter, value, plain)?;
        } else if self.bits < 8 {
            value = rewriter.builder.cast(value, DType::I8)?;
            let least = rewriter.builder.scalar(DType::I8, self.least as f64);
            value = rewriter.builder.map_broadcast(ScalarFunction::Sub, &[value, least])?;
            value = rewriter.builder.cast(value, DType::U8)?;
        }
        let outside = rewriter.builder.scalar(rewriter.builder.dtype(value)?, 0.0);
        moved(rewriter, weights, &whole, (value, outside))
    }

    /// A shape of the weights with an axis for blocks.
    fn in_blocks(&self, shape: &[Expr], space: &IterationSpace) -> Vec<Expr> {
        let index = &space.operands[self.operand];
        let whole = IterationSpace::axis(space.parallel);
        let of = |(extent, own): (&Expr, &Expr)| match *own == whole {
            true => vec![Expr::constant(self.blocks), Expr::constant(self.terms)],
            false => vec![extent.clone()],
        };
        shape.iter().zip(index).flat_map(of).collect()
    }

    /// The bits of the words that hold several terms each: those of a lane, where lanes are made of
    /// unsigned integers of so many bits by one instruction. Bytes are by themselves.
    fn word(&self, target: &Target) -> Option<Word> {
        if self.bits == 8 {
            return None;
        }
        let words = match target.isa.has_avx512() {
            true => &[Word(DType::U32), Word(DType::U16), Word(DType::U8)][..],
            false => &[Word(DType::U8)],
        };
        let fits =
            |word: &&Word| word.terms(self.bits) > 1 && self.terms % word.terms(self.bits) == 0;
        words.iter().find(fits).copied()
    }

    /// The integers, from words of which each holds neighbours along an axis, times what their
    /// place in the word makes of them.
    fn unpacked(
        &self,
        rewriter: &mut Rewriter<'_>,
        (laid, place): (ValueId, usize),
        word: Word,
    ) -> Built {
        let builder = &mut rewriter.builder;
        let (each, dtype) = (word.terms(self.bits), word.0);
        let shape = builder.shape(laid)?.to_vec();
        let words = shape[place].floor_div(&Expr::constant(each));
        let mut packed = None;
        for number in 0..each {
            let part = builder.slice_axis(laid, place, number.into(), each, words.clone())?;
            let part = builder.cast(part, dtype)?;
            let bits = builder.scalar(dtype, (number * self.bits) as f64);
            let part = builder.map_broadcast(ScalarFunction::Shl, &[part, bits])?;
            packed = Some(match packed {
                None => part,
                Some(packed) => builder.map(ScalarFunction::Or, &[packed, part])?,
            });
        }
        let packed = packed.ok_or("words of nothing")?;
        // An axis of the terms of a word.
        let mut split = shape.clone();
        split.splice(place..=place, [words, Expr::constant(each)]);
        let without: Vec<usize> = (0..split.len()).filter(|&axis| axis != place + 1).collect();
        let repeated = builder.broadcast(packed, &split[..], &without)?;
        let number = builder.iota(dtype, &[Expr::constant(each)], 0)?;
        let bits = builder.scalar(dtype, self.bits as f64);
        let bits = builder.map_broadcast(ScalarFunction::Mul, &[bits, number])?;
        let is_wrong = base::fault::is_seeded("formats.stored");
        let most = (1 << self.bits) - 1 - i64::from(is_wrong);
        let mask = builder.scalar(dtype, most as f64);
        let masks = builder.map_broadcast(ScalarFunction::Shl, &[mask, bits])?;
        let masks = builder.broadcast(masks, &split[..], &[place + 1])?;
        let few = builder.map(ScalarFunction::And, &[repeated, masks])?;
        let few = builder.reshape(few, &shape[..])?;
        builder.cast(few, DType::F32)
    }

    /// What the integers are multiplied with, divided by what their place in a word makes of them:
    /// by powers of two, which is exact.
    fn divided(
        &self,
        rewriter: &mut Rewriter<'_>,
        data: ValueId,
        space: &IterationSpace,
        word: Word,
    ) -> Built {
        let whole = IterationSpace::axis(space.parallel);
        let index = &space.operands[1 - self.operand];
        let place =
            index.iter().position(|own| *own == whole).ok_or("terms that are not walked")?;
        let each = word.terms(self.bits);
        let builder = &mut rewriter.builder;
        let shape = builder.shape(data)?.to_vec();
        let mut split = shape.clone();
        let words = shape[place].floor_div(&Expr::constant(each));
        split.splice(place..=place, [words, Expr::constant(each)]);
        let of = |number: i64| (-(number * self.bits) as f32).exp2();
        let parts: Vec<f32> = (0..each).map(of).collect();
        let parts = builder.literal(Tensor::from_vec(&[parts.len()], parts));
        let parts = builder.broadcast(parts, &split[..], &[place + 1])?;
        let data = builder.reshape(data, split)?;
        let data = builder.map(ScalarFunction::Mul, &[data, parts])?;
        builder.reshape(data, shape)
    }

    /// What is taken from the integers, in the shape of the sums of blocks; none if that is zero.
    fn points(
        &self,
        rewriter: &mut Rewriter<'_>,
        space: &IterationSpace,
        target: &Target,
        parts: &Parts,
    ) -> Built<Option<ValueId>> {
        if self.plain(rewriter.source).is_some() {
            return Ok(None);
        }
        let number = |number: i64| Tensor::scalar(Scalar::from_f64(DType::F32, number as f64));
        let result = parts.shape();
        let Some(points) = &self.points else {
            let known = self.found.whole.known_zero(rewriter.source).unwrap_or(0) - self.least;
            let known = rewriter.builder.literal(number(known));
            return rewriter.builder.broadcast(known, result, &[]).map(Some);
        };
        let byte = self.byte(rewriter)?;
        let mut own = as_type(rewriter, points.value, byte)?;
        if self.least != 0 {
            own = rewriter.builder.cast(own, DType::F32)?;
            let least = rewriter.builder.literal(number(self.least));
            own = rewriter.builder.map_broadcast(ScalarFunction::Sub, &[own, least])?;
        }
        let own = self.repeated(rewriter, space, (points, own), target, parts)?;
        rewriter.builder.cast(own, DType::F32).map(Some)
    }

    /// Sums of blocks with what the shifts of the weights add to them: each times the sum of the
    /// data's block, which has these axes of the sums.
    fn with_shift(
        &self,
        rewriter: &mut Rewriter<'_>,
        space: &IterationSpace,
        (shift, sums, (data, axes)): (&Scale, ValueId, (ValueId, Vec<usize>)),
        target: &Target,
        parts: &Parts,
    ) -> Built {
        let own = rewriter.get(shift.value);
        let own = self.repeated(rewriter, space, (shift, own), target, parts)?;
        let data = rewriter.builder.broadcast(data, parts.shape(), &axes)?;
        let share = rewriter.builder.map(ScalarFunction::Mul, &[data, own])?;
        rewriter.builder.map(shift.function, &[sums, share])
    }
}

/// The type of words that hold several terms each.
#[derive(Clone, Copy)]
struct Word(DType);

impl Word {
    /// How many terms of so many bits a word holds.
    fn terms(self, bits: i64) -> i64 {
        i64::from(self.0.bits()) / bits
    }
}

/// Sums of blocks: for each panel, if there are several, for each block, for all other axes of the
/// result, and last along the vectors' axis.
struct Parts {
    space: IterationSpace,
    /// An axis of the products that what follows them has no more: those along it are joined.
    joined: Option<usize>,
    /// The axis of the blocks.
    block: usize,
    /// Elements of a panel.
    panel: Option<i64>,
    /// The axis of the result along which vectors go, and the places here of all its axes.
    vector: usize,
    places: Vec<usize>,
    /// The axis of the weights that counts the terms of a block.
    term_of_weights: Option<usize>,
}

impl Parts {
    /// The shape of the sums of blocks.
    fn shape(&self) -> Vec<Expr> {
        let extents = self.space.extents[..self.space.parallel].iter().enumerate();
        let kept = extents.filter(|(axis, _)| Some(*axis) != self.joined);
        kept.map(|(_, extent)| extent.clone()).collect()
    }

    /// The axis of the sums of blocks that an axis of the products is.
    fn axis(&self, axis: usize) -> usize {
        axis - usize::from(self.joined.is_some_and(|joined| joined < axis))
    }

    /// The axis of the sums of blocks that counts these.
    fn block(&self) -> usize {
        self.axis(self.block)
    }

    /// The sums of all blocks, in the shape of the product.
    fn whole(&self, rewriter: &mut Rewriter<'_>, sums: ValueId, space: &IterationSpace) -> Built {
        let builder = &mut rewriter.builder;
        let (block, sum) = (self.block(), Reduction::Sum);
        let mut value = builder.reduce_axes(sums, &[block], sum, DType::F32, false)?;
        let mut order = Vec::new();
        for (axis, place) in self.places.iter().enumerate() {
            if axis == self.vector && self.panel.is_some() {
                order.push(0);
            }
            let place = self.axis(*place);
            order.push(place - usize::from(place > block));
        }
        value = builder.transpose(value, &order)?;
        let mut shape = space.extents[..space.parallel].to_vec();
        let Some(width) = self.panel else { return builder.reshape(value, shape) };
        let extent = shape[self.vector].clone();
        shape[self.vector] = extent.ceil_div(&Expr::constant(width)) * width;
        value = builder.reshape(value, shape)?;
        builder.slice_axis(value, self.vector, Expr::ZERO, 1, extent)
    }
}
