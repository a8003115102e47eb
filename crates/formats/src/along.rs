//! Sums over windows that stand alone between parameters and results and give few channels, or one
//! for each of many filters (depthwise and grouped sums): vectors along the image.
//!
//! In channels-last order they would need a transposed copy on both sides, and vectors of channels
//! that are few stay empty; vectors along an axis of the image are full where that is long. Which
//! axis, and whether that is cheaper, follows from how well it fills vectors, and from the taps
//! that each copied element is used for. As the image lies, vectors run along its innermost axis
//! without a copy.
//!
//! Windows that move in steps read the image in *phases*, one behind the other in each row, through
//! which they move by ones:
//!
//! before: `data[c, 2*y + ky, 2*x + kx]`
//! after:  `phases[c, 2*y + ky, kx mod 2, x + kx div 2]`,
//!         where `phases[c, y, p, x] = data[c, y, 2*x + p]`

use backend::Target;
use base::Id;
use graph::{Built, FunctionBuilder, IterationSpace, Node, Op, ValueId};
use sym::{Expr, Range, SymbolId};

use crate::channels_last::{data_operand, is_windowed};
use crate::contraction::Contraction;
use crate::groups;

/// Cycles for a vector of products along the image: a load that crosses lines.
const ALONG: f64 = 1.0;
/// The same where several channels share the load.
const ALONG_SHARED: f64 = 0.6;
/// For one of channels: a load, and a share of the filter's.
const ACROSS: f64 = 0.6;
/// For a vector that is transposed rather than copied.
const TRANSPOSED: f64 = 6.0;
/// For a vector of one of two phases rather than of the image.
const PHASED: f64 = 3.0;
/// For an element that is copied by itself: one of more phases, and one of fewer than 32 bits.
const ALONE: f64 = 1.5;
const ALONE_SHORT: f64 = 3.0;
/// For one of an image whose axes change places, with what frames it.
const MOVED: f64 = 2.0;
/// For a term of a sum that shares no vector with another: it waits for the one before.
const TERM: f64 = 4.0;

/// More phases than this are not made: each is a copy of its own of what a row holds.
const MOST_PHASES: i64 = 4;

/// What an extent that is not known counts as.
const UNKNOWN: i64 = 64;

/// A way to take a sum of this form.
struct Along {
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

/// Whether a contraction is a sum of this form that should be faster along its image than channels
/// last; if so, its image lies so, in phases where it is met in steps.
pub(super) fn stays(
    contraction: &mut Contraction,
    builder: &mut FunctionBuilder,
    target: &Target,
    messages: &mut Vec<String>,
) -> Built<bool> {
    let Some(data) = data_operand(contraction) else { return Ok(false) };
    // Products of matrices have formats of their own.
    let space = &contraction.space;
    let terms = space.extents[space.parallel..].iter().any(|extent| !extent.is_one());
    if terms && !is_windowed(space, &space.operands[data]) {
        return Ok(false);
    }
    let Some(costs) = Costs::of(contraction, data, builder, target)? else { return Ok(false) };
    let mut best: Option<(f64, Along)> = None;
    for axis in contraction.parallel().rev() {
        let Some(found) = Along::of(contraction, builder, data, axis)? else { continue };
        let cycles = costs.along(&found);
        if best.as_ref().is_none_or(|(least, _)| cycles < *least) {
            best = Some((cycles, found));
        }
    }
    let Some((along, found)) = best else { return Ok(false) };
    let across = costs.across;
    if along > across {
        messages
            .push(format!("channels last in {across:.0} cycles, along the image in {along:.0}"));
        return Ok(false);
    }
    messages.push(match found.is_last {
        [_, true] => "channels stay: nothing around it would have them last".to_owned(),
        [_, false] => "an axis of the image last: vectors run along it".to_owned(),
    });
    found.put_last(contraction, builder)?;
    if found.step > 1 {
        messages.push(format!("the image in {} phases a row", found.step));
        found.split_phases(contraction, builder)?;
    }
    Ok(true)
}

impl Along {
    /// The way along an axis of the result, if the image alone has it, by itself or in steps that
    /// can be phases.
    fn of(
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
            || shape[place].as_constant().is_some() && found.reach(contraction, place).is_some();
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
        (bounds.min >= 0 && bounds.max < i64::MAX).then_some(bounds.max + 1)
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
        let reach = self.reach(contraction, last).unwrap_or(0);
        let value = contraction.operands[self.data].value;
        let length = builder.shape(value)?[last].as_constant().unwrap_or(reach);
        let (phases, shifted) = match framed(value, last, step, builder) {
            Some(frame) => {
                let split = phases_of(frame.image, step, builder)?;
                let whole = (reach + frame.shifted + step - 1) / step;
                (frame.around(split, whole, builder)?, frame.shifted)
            }
            None => {
                let more = (reach.max(length) + step - 1) / step * step - length;
                let value = lengthened(value, last, more, builder)?;
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
    by: i64,
    builder: &mut FunctionBuilder,
) -> Built<ValueId> {
    if by == 0 {
        return Ok(value);
    }
    let rank = builder.shape(value)?.len();
    let producer = builder.function().producer(value);
    let producer = producer.map(|(node, _)| builder.function().nodes[node].clone());
    if let Some(Node { op: Op::Pad { low, mut high, interior }, operands, .. }) = producer {
        high[axis] += &Expr::constant(by);
        return builder.pad(operands[0], operands[1], &low, &high, &interior);
    }
    let fill = builder.scalar(builder.dtype(value)?, 0.0);
    let low = vec![Expr::ZERO; rank];
    let mut high = low.clone();
    high[axis] = Expr::constant(by);
    builder.pad(value, fill, &low, &high, &vec![0; rank])
}

/// What the ways to take a sum should take, without the copies that all make.
struct Costs {
    lanes: i64,
    /// Elements of the result, and of the image; terms of each sum; channels that read the same of
    /// the image.
    results: f64,
    read: f64,
    taps: f64,
    channels: i64,
    /// Whether elements of the image have at least 32 bits.
    whole_words: bool,
    extents: Vec<i64>,
    /// Cycles with vectors of channels, transposes included.
    across: f64,
}

impl Costs {
    /// None where the channels of the result that share an image fill vectors.
    fn of(
        contraction: &Contraction,
        data: usize,
        builder: &FunctionBuilder,
        target: &Target,
    ) -> Built<Option<Costs>> {
        let space = &contraction.space;
        let count = |extent: &Expr| extent.as_constant().unwrap_or(UNKNOWN);
        let extents: Vec<i64> = space.extents.iter().map(count).collect();
        let lanes = i64::from(target.vector_bytes / contraction.accumulator_bytes()).max(1);
        let product = |axes: &mut dyn Iterator<Item = usize>| -> i64 {
            axes.map(|axis| extents[axis]).fold(1, i64::saturating_mul)
        };
        let filter = |axis: &usize| contraction.reads(1 - data, *axis);
        let shared = |axis: &usize| filter(axis) && contraction.reads(data, *axis);
        let channels = product(
            &mut contraction
                .parallel()
                .filter(|axis| filter(axis) && !contraction.reads(data, *axis)),
        );
        if channels >= lanes {
            return Ok(None);
        }
        let taps = product(&mut (space.parallel..space.extents.len())) as f64;
        let results = product(&mut contraction.parallel()) as f64;
        let shape = builder.shape(contraction.operands[data].value)?;
        let read: f64 = shape.iter().map(|extent| count(extent) as f64).product();
        let index = &space.operands[data];
        let is_filter = |index: &Expr| index.as_symbol().is_some_and(|own| filter(&own.index()));
        // Vectors of the channels of a filter, or of all filters where these have few and lie
        // side by side in the image.
        let filters = product(&mut contraction.parallel().filter(shared));
        let apart = index
            .iter()
            .rposition(is_filter)
            .map_or(i64::MAX, |at| shape[at + 1..].iter().map(count).fold(1, i64::saturating_mul));
        let joined = lanes % channels == 0
            && channels * groups::QUARTER <= lanes
            && apart.saturating_mul(lanes / channels - 1) < lanes;
        let side_by_side = match channels {
            1 => filters,
            _ if joined => filters * channels,
            _ => channels,
        };
        let filled = ((side_by_side + lanes - 1) / lanes) as f64 / side_by_side as f64;
        // What does not lie so is transposed: the result, and an image with an element a channel.
        let long = |axis: &usize| !space.extents[*axis].is_one();
        let last = contraction.parallel().rev().find(long);
        let innermost = (0..shape.len()).rev().find(|at| !shape[*at].is_one());
        let image_stays = channels > 1 || innermost.is_some_and(|at| is_filter(&index[at]));
        let [result, image] =
            [(last.is_some_and(|axis| filter(&axis)), results), (image_stays, read)]
                .map(|(stays, elements)| if stays { 0.0 } else { elements * filled * TRANSPOSED });
        let a_tap = if side_by_side > 1 { ACROSS } else { TERM };
        let across = results * filled * taps * a_tap + result + image;
        let whole_words = builder.dtype(contraction.operands[data].value)?.bits() >= 32;
        Ok(Some(Costs { lanes, results, read, taps, channels, whole_words, extents, across }))
    }

    /// Cycles with vectors along the image.
    fn along(&self, along: &Along) -> f64 {
        let vectors = |elements: f64, row: i64| {
            elements / row as f64 * ((row + self.lanes - 1) / self.lanes) as f64
        };
        let stored = vectors(self.results, self.extents[along.axis]);
        let a_tap = if self.channels > 1 { ALONG_SHARED } else { ALONG };
        let [result_stays, image_stays] = along.is_last;
        let full = self.read / self.lanes as f64;
        let phased = match along.step {
            1 => 0.0,
            2 if self.whole_words => full * PHASED,
            _ if self.whole_words => self.read * ALONE,
            _ => self.read * ALONE_SHORT,
        };
        let copied = phased + if image_stays { 0.0 } else { self.read * MOVED };
        let moved = if result_stays { 0.0 } else { stored * TRANSPOSED };
        stored * self.taps * a_tap + copied + moved
    }
}
