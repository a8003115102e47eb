//! Sums with vectors along an axis of their image: what sums of few channels, or of one for each of
//! many filters (depthwise and grouped sums), may be fastest with where nothing around them has the
//! channels last (`weighed`).
//!
//! In channels-last order they would need a transposed copy on both sides, and vectors of channels
//! that are few stay empty; vectors along an axis of the image are full where that is long. As the
//! image lies, vectors run along its innermost axis without a copy.
//!
//! Windows that move in steps read the image in *phases*, one behind the other in each row, through
//! which they move by ones:
//!
//! before: `data[c, 2*y + ky, 2*x + kx]`
//! after:  `phases[c, 2*y + ky, kx mod 2, x + kx div 2]`,
//!         where `phases[c, y, p, x] = data[c, y, 2*x + p]`

use base::Id;
use graph::{Built, FunctionBuilder, IterationSpace, Node, Op, ValueId};
use sym::{Expr, Range, SymbolId};

use crate::contraction::Contraction;

/// More phases than this are not made: each is a copy of its own of what a row holds.
const MOST_PHASES: i64 = 4;

/// A way to take a sum of this form.
pub(super) struct Along {
    /// Which operand is the image.
    data: usize,
    /// The axis of the result that vectors run along, and that of the image.
    axis: usize,
    place: usize,
    /// By how much windows move along it.
    step: i64,
    /// Whether the axis is the last long one of the result, and of the image.
    is_last: [bool; 2],
}

impl Along {
    /// Whether it is other than what the sum has as it is.
    pub(super) fn moves(&self) -> bool {
        self.is_last != [true; 2] || self.step > 1
    }

    /// Has a contraction be of this form.
    pub(super) fn apply(
        &self,
        contraction: &mut Contraction,
        builder: &mut FunctionBuilder,
        messages: &mut Vec<String>,
    ) -> Built<()> {
        if self.is_last != [true; 2] {
            messages.push("an axis of the image last: vectors run along it".to_owned());
        }
        self.put_last(contraction, builder)?;
        if self.step > 1 {
            messages.push(format!("the image in {} phases a row", self.step));
            self.split_phases(contraction, builder)?;
        }
        Ok(())
    }

    /// The way along an axis of the result, if the image alone has it, by itself or in steps that
    /// can be phases.
    pub(super) fn of(
        contraction: &Contraction,
        builder: &FunctionBuilder,
        data: usize,
        axis: usize,
    ) -> Built<Option<Along>> {
        let space = &contraction.space;
        let symbol = SymbolId::new(axis);
        let index = &space.operands[data];
        let long = |extent: &Expr| !extent.is_one();
        let mut places = (0..index.len()).filter(|place| index[*place].contains(symbol));
        let (Some(place), None) = (places.next(), places.next()) else { return Ok(None) };
        let only_it = |index: &Expr| {
            index.symbols().iter().all(|own| *own == symbol || own.index() >= space.parallel)
        };
        if !long(&space.extents[axis])
            || contraction.reads(1 - data, axis)
            || !only_it(&index[place])
        {
            return Ok(None);
        }
        let Some(step) = index[place].linear_coefficient(symbol) else { return Ok(None) };
        let shape = builder.shape(contraction.operands[data].value)?;
        let is_last = [
            space.extents[axis + 1..space.parallel].iter().all(|extent| !long(extent)),
            shape[place + 1..].iter().all(|extent| !long(extent)),
        ];
        let found = Along { data, axis, place, step, is_last };
        let known = step == 1
            || shape[place].as_constant().is_none()
            || found.reach(contraction, place).is_some();
        Ok(((1..=MOST_PHASES).contains(&step) && known).then_some(found))
    }

    /// The last element along an axis of the image that is read, and one.
    fn reach(&self, contraction: &Contraction, place: usize) -> Option<i64> {
        let space = &contraction.space;
        let ranges = |symbol: SymbolId| match space.extents[symbol.index()].as_constant() {
            Some(extent) => Range::extent(extent),
            None => Range::ALL,
        };
        let bounds = space.operands[self.data][place].bounds(&ranges);
        (bounds.min >= 0 && bounds.max < i64::MAX).then(|| bounds.max + 1)
    }

    /// Puts the axis last in the result and in the image.
    fn put_last(&self, contraction: &mut Contraction, builder: &mut FunctionBuilder) -> Built<()> {
        let behind = |count: usize, last: usize| -> Vec<usize> {
            (0..count).filter(|at| *at != last).chain([last]).collect()
        };
        if !self.is_last[1] || self.step > 1 {
            let rank = contraction.space.operands[self.data].len();
            let order = behind(rank, self.place);
            if !order.is_sorted() {
                contraction.permute_operand(builder, self.data, &order)?;
            }
        }
        contraction.permute_result(&behind(contraction.space.parallel, self.axis));
        Ok(())
    }

    /// Has the contraction read phases of the image, whose last axis is padded to whole steps.
    fn split_phases(
        &self,
        contraction: &mut Contraction,
        builder: &mut FunctionBuilder,
    ) -> Built<()> {
        let step = self.step;
        let last = contraction.space.operands[self.data].len() - 1;
        let reach = self.reach(contraction, last);
        let value = contraction.operands[self.data].value;
        let framed = framed(value, last, step, builder);
        let (phases, shifted) = match reach.and_then(|reach| Some((framed?, reach))) {
            Some((frame, reach)) => {
                let split = phases_of(frame.image, step, builder)?;
                let whole = (reach + frame.shifted + step - 1) / step;
                (frame.around(split, whole, builder)?, frame.shifted)
            }
            None => {
                // No window reads beyond the image.
                let length = builder.shape(value)?[last].clone();
                let more = length.ceil_div(&Expr::constant(step)) * step - &length;
                let value = lengthened(value, last, &more, builder)?;
                (phases_of(value, step, builder)?, 0)
            }
        };
        contraction.operands[self.data].value = phases;
        let moving = IterationSpace::axis(contraction.space.parallel - 1);
        let index = &mut contraction.space.operands[self.data];
        let tap = &index[last] - &moving * step + shifted;
        let step = Expr::constant(step);
        index.splice(last.., [tap.modulo(&step), moving + tap.floor_div(&step)]);
        Ok(())
    }
}

/// A value whose last axis is whole steps, as phases.
fn phases_of(value: ValueId, step: i64, builder: &mut FunctionBuilder) -> Built<ValueId> {
    let mut shape = builder.shape(value)?.to_vec();
    let last = shape.len() - 1;
    let whole = shape[last].floor_div(&Expr::constant(step));
    shape.splice(last.., [whole, Expr::constant(step)]);
    let split = builder.reshape(value, &shape)?;
    let order: Vec<usize> = (0..last).chain([last + 1, last]).collect();
    builder.transpose(split, &order)
}

/// An image whose rows are whole steps, and what frames it: phases are framed as well as rows.
struct Frame {
    image: ValueId,
    fill: ValueId,
    low: Vec<Expr>,
    high: Vec<Expr>,
    /// Whole steps in front of a row, and by how many elements these are more than before.
    before: i64,
    shifted: i64,
    /// Whole steps of the image.
    steps: i64,
}

/// The frame of a value, if it has one that can as well be that of phases.
fn framed(value: ValueId, last: usize, step: i64, builder: &FunctionBuilder) -> Option<Frame> {
    let (node, _) = builder.function().producer(value)?;
    let node = &builder.function().nodes[node];
    let Op::Pad { low, high, interior } = &node.op else { return None };
    let image = node.operands[0];
    let length = builder.shape(image).ok()?[last].as_constant()?;
    let edge = low[last].as_constant().filter(|edge| *edge >= 0)?;
    let before = (edge + step - 1) / step;
    let whole = length % step == 0 && interior.iter().all(|between| *between == 0);
    whole.then(|| Frame {
        image,
        fill: node.operands[1],
        low: low.clone(),
        high: high.clone(),
        before,
        shifted: before * step - edge,
        steps: length / step,
    })
}

impl Frame {
    /// The phases of the image, of so many whole steps with what frames them.
    fn around(&self, phases: ValueId, whole: i64, builder: &mut FunctionBuilder) -> Built<ValueId> {
        let (mut low, mut high) = (self.low.clone(), self.high.clone());
        let last = low.len() - 1;
        let behind = (whole - self.before - self.steps).max(0);
        low.splice(last.., [Expr::ZERO, Expr::constant(self.before)]);
        high.splice(last.., [Expr::ZERO, Expr::constant(behind)]);
        builder.pad(phases, self.fill, &low, &high, &vec![0; last + 2])
    }
}

/// A value with so many more elements at the end of an axis: of what frames it already, if
/// something does.
fn lengthened(
    value: ValueId,
    axis: usize,
    by: &Expr,
    builder: &mut FunctionBuilder,
) -> Built<ValueId> {
    if by.is_zero() {
        return Ok(value);
    }
    let rank = builder.shape(value)?.len();
    let producer = builder.function().producer(value);
    let producer = producer.map(|(node, _)| builder.function().nodes[node].clone());
    if let Some(Node { op: Op::Pad { low, mut high, interior }, operands, .. }) = producer {
        high[axis] += by;
        return builder.pad(operands[0], operands[1], &low, &high, &interior);
    }
    let fill = builder.scalar(builder.dtype(value)?, 0.0);
    let low = vec![Expr::ZERO; rank];
    let mut high = low.clone();
    high[axis] = by.clone();
    builder.pad(value, fill, &low, &high, &vec![0; rank])
}
