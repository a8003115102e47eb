//! Depthwise sums that stand alone between parameters and results: nothing but windows is summed,
//! and each meets one filter.
//!
//! In channels-last order they would need a transposed copy on both sides; as they lie, vectors run
//! along the innermost axis of the image. Which is cheaper follows from how well an image's row
//! fills vectors, and from the taps that each transposed element is used for.
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

use crate::channels_last::data_operand;
use crate::contraction::Contraction;

/// Cycles for a vector of products along the image: a load that crosses lines.
const ALONG: f64 = 1.0;
/// For one of channels: a load, and a share of the filter's.
const ACROSS: f64 = 0.6;
/// For a vector that is transposed rather than copied.
const TRANSPOSED: f64 = 6.0;
/// For a vector of a phase rather than of the image.
const PHASED: f64 = 3.0;

/// More phases than this would not be copied in vectors.
const MOST_PHASES: i64 = 2;

/// A sum of this form: which operand is the image, its innermost axis, and by how much windows move
/// along it.
struct Depthwise {
    data: usize,
    innermost: usize,
    step: i64,
}

/// Whether a contraction is a depthwise sum that should be faster in its order than channels last;
/// if so, its data are put in phases.
pub(super) fn stays(
    contraction: &mut Contraction,
    builder: &mut FunctionBuilder,
    target: &Target,
    messages: &mut Vec<String>,
) -> Built<bool> {
    let Some(found) = Depthwise::of(contraction) else { return Ok(false) };
    if found.step > 1 && !found.has_phases(contraction, builder)? {
        return Ok(false);
    }
    let [along, across] = found.costs(contraction, builder, target)?;
    if along > across {
        messages
            .push(format!("channels last in {across:.0} cycles, along the image in {along:.0}"));
        return Ok(false);
    }
    messages.push("channels stay: nothing around it would have them last".to_owned());
    if found.step > 1 {
        messages.push(format!("the image in {} phases a row", found.step));
        found.split_phases(contraction, builder)?;
    }
    Ok(true)
}

impl Depthwise {
    fn of(contraction: &Contraction) -> Option<Depthwise> {
        let data = data_operand(contraction)?;
        let space = &contraction.space;
        let long = |axis: &usize| !space.extents[*axis].is_one();
        let taps = space.parallel..space.extents.len();
        let in_window = |axis: usize| {
            let symbol = SymbolId::new(axis);
            let moves = |index: &&Expr| index.contains(symbol);
            let others = |index: &Expr| index.symbols().iter().any(|s| s.index() < space.parallel);
            space.operands[data].iter().find(moves).is_some_and(others)
        };
        let own = |axis: usize| contraction.reads(data, axis);
        let innermost = contraction.parallel().rev().find(long)?;
        let last = space.operands[data].last()?;
        let step = last.linear_coefficient(SymbolId::new(innermost))?;
        let is_one = contraction.parallel().filter(long).all(own)
            && taps.filter(long).all(in_window)
            && !contraction.reads(1 - data, innermost)
            && (1..=MOST_PHASES).contains(&step);
        is_one.then_some(Depthwise { data, innermost, step })
    }

    /// Whether rows can be put in phases: they have whole ones of known length.
    fn has_phases(&self, contraction: &Contraction, builder: &FunctionBuilder) -> Built<bool> {
        let padded = Padded::of(contraction.operands[self.data].value, builder);
        let length = builder.shape(padded.image)?.last().and_then(Expr::as_constant);
        let edge = padded.low.last().and_then(Expr::as_constant);
        let whole = length.is_some_and(|length| length % self.step == 0);
        Ok(whole && edge.is_some_and(|edge| edge >= 0) && self.reach(contraction).is_some())
    }

    /// The last element of a row that is read, and one.
    fn reach(&self, contraction: &Contraction) -> Option<i64> {
        let space = &contraction.space;
        let ranges = |symbol: SymbolId| match space.extents[symbol.index()].as_constant() {
            Some(extent) => Range::extent(extent),
            None => Range::ALL,
        };
        let last = space.operands[self.data].last()?.bounds(&ranges).max;
        (last < i64::MAX).then_some(last + 1)
    }

    /// Has the contraction read phases of the rows: those of the image itself, padded by whole
    /// steps.
    fn split_phases(
        &self,
        contraction: &mut Contraction,
        builder: &mut FunctionBuilder,
    ) -> Built<()> {
        let value = contraction.operands[self.data].value;
        let Padded { image, fill, mut low, mut high } = Padded::of(value, builder);
        let mut shape = builder.shape(image)?.to_vec();
        let (last, step) = (shape.len() - 1, self.step);
        let [edge, length] = [&low[last], &shape[last]].map(|e| e.as_constant().unwrap_or(0));
        let reach = self.reach(contraction).unwrap_or(0);
        let before = (edge + step - 1) / step;
        let shifted = before * step - edge;
        let behind = ((reach + shifted + step - 1) / step - before - length / step).max(0);
        shape.splice(last.., [Expr::constant(length / step), Expr::constant(step)]);
        let split = builder.reshape(image, &shape)?;
        let order: Vec<usize> = (0..last).chain([last + 1, last]).collect();
        let phases = builder.transpose(split, &order)?;
        low.splice(last.., [Expr::ZERO, Expr::constant(before)]);
        high.splice(last.., [Expr::ZERO, Expr::constant(behind)]);
        let fill = match fill {
            Some(fill) => fill,
            None => builder.scalar(builder.dtype(image)?, 0.0),
        };
        let padded = builder.pad(phases, fill, &low, &high, &vec![0; last + 2])?;
        contraction.operands[self.data].value = padded;
        let index = &mut contraction.space.operands[self.data];
        let moving = IterationSpace::axis(self.innermost);
        let tap = &index[last] - &moving * step + shifted;
        let step = Expr::constant(step);
        index.splice(last.., [tap.modulo(&step), moving + tap.floor_div(&step)]);
        Ok(())
    }

    /// Cycles with vectors along the image, and of channels; the copies that both make are left
    /// out. Extents that are not known count as long.
    fn costs(
        &self,
        contraction: &Contraction,
        builder: &FunctionBuilder,
        target: &Target,
    ) -> Built<[f64; 2]> {
        const UNKNOWN: i64 = 64;
        let space = &contraction.space;
        let lanes = i64::from(target.vector_bytes / contraction.accumulator_bytes()).max(1);
        let extent = |axis: usize| space.extents[axis].as_constant().unwrap_or(UNKNOWN);
        let product = |axes: &mut dyn Iterator<Item = usize>| -> f64 {
            axes.map(|axis| extent(axis) as f64).product()
        };
        let vectors = |elements: i64| (elements + lanes - 1) / lanes;
        let filter = |axis: &usize| contraction.reads(1 - self.data, *axis);
        let taps = product(&mut (space.parallel..space.extents.len()));
        let results = product(&mut contraction.parallel());
        let channels = product(&mut contraction.parallel().filter(filter)) as i64;
        let row = extent(self.innermost);
        let shape = builder.shape(contraction.operands[self.data].value)?;
        let read: f64 =
            shape.iter().map(|axis| axis.as_constant().unwrap_or(UNKNOWN) as f64).product();
        let mut along = results / row as f64 * vectors(row) as f64 * taps * ALONG;
        if self.step > 1 {
            let width = shape.last().and_then(Expr::as_constant).unwrap_or(UNKNOWN);
            let parts = self.step * vectors((width + self.step - 1) / self.step);
            along += read / width as f64 * parts as f64 * PHASED;
        }
        let filled = vectors(channels) as f64 / channels as f64;
        let across = results * filled * taps * ACROSS + (results + read) * filled * TRANSPOSED;
        Ok([along, across])
    }
}

/// An image and the padding around it.
struct Padded {
    image: ValueId,
    fill: Option<ValueId>,
    low: Vec<Expr>,
    high: Vec<Expr>,
}

impl Padded {
    fn of(value: ValueId, builder: &FunctionBuilder) -> Padded {
        let function = builder.function();
        let producer = function.producer(value).map(|(node, _)| &function.nodes[node]);
        if let Some(Node { op: Op::Pad { low, high, interior }, operands, .. }) = producer
            && interior.iter().all(|&between| between == 0)
        {
            let (low, high) = (low.clone(), high.clone());
            return Padded { image: operands[0], fill: Some(operands[1]), low, high };
        }
        let none = vec![Expr::ZERO; function.ty(value).as_tensor().map_or(0, |ty| ty.shape.len())];
        Padded { image: value, fill: None, low: none.clone(), high: none }
    }
}
