//! The form of contraction that minimal filtering rewrites.

use super::cook_toom::MOST_PRODUCTS;
use super::numbers::{Elements, Numbers, PAIR};
use crate::contraction::Contraction;
use base::Id;
use graph::IterationSpace;
use sym::{Expr, SymbolId};

/// An axis along which the data is read through a window.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// The axis of the result, and the reduced axis of the taps.
    pub(super) spatial: usize,
    pub(super) tap: usize,
    /// The axis of the data whose index is the sum of the one and steps of the other, and that of
    /// the filter which is the tap.
    pub(super) data_axis: usize,
    pub(super) filter_axis: usize,
    pub(super) taps: i64,
    /// Elements of the data from one tap to the next.
    pub(super) dilation: i64,
}

/// A contraction of a form that this file rewrites.
pub(super) struct Problem {
    /// Which operand is read through windows.
    pub(super) data: usize,
    pub(super) windows: Vec<Window>,
    pub(super) numbers: Numbers,
}

impl Problem {
    /// The form, or why it is another; without a reason where there is no window of stride 1.
    pub(super) fn find(
        contraction: &Contraction,
        elements: [Elements; 2],
    ) -> Result<Problem, Option<String>> {
        let space = &contraction.space;
        let windows = [0, 1].map(|operand| windows(space, &space.operands[operand]));
        let (data, found) = match windows {
            [Some(found), Some(other)] if other.is_empty() && !found.is_empty() => (0, found),
            [Some(other), Some(found)] if other.is_empty() && !found.is_empty() => (1, found),
            _ => return Err(None),
        };
        let refuse = |reason: &str| Err(Some(reason.to_owned()));
        let results = [contraction.dtype, contraction.accumulator];
        let terms = space.extents[space.parallel..].iter().product::<Expr>().as_constant();
        let ordered = [elements[data], elements[1 - data]];
        let Some(numbers) = Numbers::of(results, ordered, terms) else {
            return refuse("it is not of f32 throughout, nor of integers in pairs");
        };
        let mut problem = Problem { data, windows: Vec::new(), numbers };
        for Found { spatial, tap, data_axis, dilation } in found {
            if space.extents[tap].is_one() {
                continue;
            }
            let index = &space.operands[1 - data];
            let tap_symbol = IterationSpace::axis(tap);
            let Some(filter_axis) = index.iter().position(|index| *index == tap_symbol) else {
                return refuse("the filter does not have the taps as an axis");
            };
            let once = |index: &[Expr], axis: usize, count: usize| {
                index.iter().filter(|index| index.contains(SymbolId::new(axis))).count() == count
            };
            let data_index = &space.operands[data];
            if !once(index, tap, 1)
                || !once(index, spatial, 0)
                || !once(data_index, tap, 1)
                || !once(data_index, spatial, 1)
            {
                return refuse("its window axes move elsewhere, too");
            }
            match space.extents[tap].as_constant() {
                Some(taps) if (2..MOST_PRODUCTS).contains(&taps) => {
                    let window = Window { spatial, tap, data_axis, filter_axis, taps, dilation };
                    problem.windows.push(window);
                }
                _ => return refuse("its window is too wide"),
            }
        }
        if problem.windows.is_empty() {
            return Err(None);
        }
        let is_tap = |axis| problem.windows.iter().any(|window| window.tap == axis);
        let mut summed = (space.parallel..space.extents.len()).filter(|&axis| !is_tap(axis));
        if !summed.clone().any(|axis| !space.extents[axis].is_one()) {
            return refuse("nothing but the window is summed");
        }
        let innermost = summed.next_back().map(|axis| &space.extents[axis]);
        if numbers != Numbers::Floats && !innermost.is_some_and(|it| it.divisible_by(PAIR)) {
            return refuse("its integers are in no pairs");
        }
        Ok(problem)
    }
}

/// A window in an operand's index.
struct Found {
    spatial: usize,
    tap: usize,
    data_axis: usize,
    dilation: i64,
}

/// The windows of stride 1 of an operand's index; none if it has others.
fn windows(space: &IterationSpace, index: &[Expr]) -> Option<Vec<Found>> {
    let mut found = Vec::new();
    for (data_axis, index) in index.iter().enumerate() {
        let symbols = index.symbols();
        let is_reduced = |symbol: &&SymbolId| symbol.index() >= space.parallel;
        let reduced = symbols.iter().filter(is_reduced).count();
        if reduced == 0 || reduced == symbols.len() {
            continue;
        }
        let [first, second] = symbols[..] else { return None };
        let (spatial, tap) = match first.index() < second.index() {
            true => (first, second),
            false => (second, first),
        };
        let dilation = index.linear_coefficient(tap).filter(|dilation| *dilation > 0)?;
        if *index != Expr::symbol(spatial) + Expr::symbol(tap) * dilation {
            return None;
        }
        let (spatial, tap) = (spatial.index(), tap.index());
        found.push(Found { spatial, tap, data_axis, dilation });
    }
    Some(found)
}
