//! Depthwise sums that stand alone between parameters and results: nothing but windows is summed,
//! and each meets one filter.
//!
//! In channels-last order they would need a transposed copy on both sides; as they lie, vectors run
//! along the innermost axis of the image, if the windows move by ones. Which is cheaper follows
//! from how well an image's row fills vectors, and from the taps that each transposed element is
//! used for.

use backend::Target;
use base::Id;
use graph::{Built, FunctionBuilder};
use sym::{Expr, SymbolId};

use super::channels_last::data_operand;
use super::contraction::Contraction;

/// Cycles for a vector of products along the image: a load that crosses lines.
const ALONG: f64 = 1.0;
/// For one of channels: a load, and a share of the filter's.
const ACROSS: f64 = 0.6;
/// For a vector that is transposed rather than copied.
const TRANSPOSED: f64 = 6.0;

/// A sum of this form: which operand is the image, and its innermost axis.
struct Depthwise {
    data: usize,
    innermost: usize,
}

/// Whether a contraction is a depthwise sum that should be faster in its order than channels last.
pub(super) fn stays(
    contraction: &Contraction,
    builder: &FunctionBuilder,
    target: &Target,
    messages: &mut Vec<String>,
) -> Built<bool> {
    let Some(found) = Depthwise::of(contraction) else { return Ok(false) };
    let [along, across] = found.costs(contraction, builder, target)?;
    if along > across {
        messages
            .push(format!("channels last in {across:.0} cycles, along the image in {along:.0}"));
        return Ok(false);
    }
    messages.push("channels stay: nothing around it would have them last".to_owned());
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
            && step == 1;
        is_one.then_some(Depthwise { data, innermost })
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
        let along = results / row as f64 * vectors(row) as f64 * taps * ALONG;
        let filled = vectors(channels) as f64 / channels as f64;
        let across = results * filled * taps * ACROSS + (results + read) * filled * TRANSPOSED;
        Ok([along, across])
    }
}
