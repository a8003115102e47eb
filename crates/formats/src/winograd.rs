//! Minimal filtering: a windowed contraction of stride 1 as transforms and a batched product of
//! fewer multiplications.
//!
//! ```text
//! before: y[n, y, x, o] = sum over c, ky, kx of data[n, y + ky, x + kx, c] * filter[o, c, ky, kx]
//! after:  V[i, j, n, ty, tx, c] = sum over a, b of B[i, a] B[j, b] data[n, m ty + a, m tx + b, c]
//!         U[i, j, o, c]         = sum over ky, kx of G[i, ky] G[j, kx] filter[o, c, ky, kx]
//!         M[i, j, n, ty, tx, o] = sum over c of V[i, j, n, ty, tx, c] * U[i, j, o, c]
//!         Y[n, ty, p, tx, q, o] = sum over i, j of A[p, i] A[q, j] M[i, j, n, ty, tx, o]
//! ```
//!
//! `Y` is reshaped to `[n, m ty, m tx, o]` and cropped. A, B and G are literals (`cook_toom`); B
//! and A are applied as products of two matrices. Every one of these sums is an ordinary
//! contraction, one axis at a time; those with a literal are written out where they are lowered
//! (`combination`), and `U` of a constant filter folds into `setup`; that of another is made in
//! each run. Any number of window axes will do, and some may stay as they are, with a single output
//! a tile: the filter then grows by less.
//!
//! Taps that are apart (dilations) are side by side within a phase: results `d y + p` meet data of
//! phase `p` alone, so the axis becomes two, of steps and of phases, and the window one of steps.
//!
//! Whether it pays, and with how many outputs along each axis, is what `cost` predicts, given the
//! price of the bytes that filters grow by, which `budget` finds for the whole function. It changes
//! the bits of the result, so it is chosen by structure and target row alone.

mod budget;
mod cook_toom;
mod cost;
mod numbers;
mod problem;
mod rational;

use backend::Target;
use base::{Id, InOrder};
use graph::{Built, FunctionBuilder, IterationSpace, ValueId};
use sym::Expr;
use tensor::{DType, Scalar, Tensor};

use crate::contraction::{Contraction, Phases};
use crate::options::Winograd;
use crate::{merge, panels, tuples};
pub(crate) use budget::price_of_growth;
use cook_toom::{Matrix, Transforms};
pub(crate) use cost::PriceOfGrowth;
use cost::{Direct, Forms};
use numbers::Elements;
use problem::{Problem, Window};

/// Rewrites the contraction if it has the form and that pays; the value in its place.
pub(crate) fn apply(
    mut contraction: Contraction,
    builder: &mut FunctionBuilder,
    target: &Target,
    price: PriceOfGrowth,
    wanted: Winograd,
    messages: &mut Vec<String>,
) -> Built<Option<ValueId>> {
    let elements = elements(&contraction, builder)?;
    let mut problem = match Problem::find(&contraction, elements) {
        Ok(problem) => problem,
        Err(None) => return Ok(None),
        Err(Some(reason)) => {
            messages.push(format!("no winograd: {reason}"));
            return Ok(None);
        }
    };
    let forms = Forms::of(&contraction, &problem, target);
    let choice = forms.choose(Direct::Long, price);
    messages.push(choice.message.clone());
    if choice.outputs.iter().all(|outputs| *outputs == 1) {
        return Ok(None);
    }
    if !choice.pays && wanted != Winograd::Always {
        return Ok(None);
    }
    if split_phases(&mut contraction, builder, &problem, &choice.outputs)? {
        let found = Problem::find(&contraction, elements);
        problem = found.map_err(|reason| reason.unwrap_or_else(|| "no window is left".into()))?;
    }
    let is_cut = |outputs: &&i64| **outputs > 1;
    let outputs: Vec<i64> = choice.outputs.iter().filter(is_cut).copied().collect();
    let mut of_window = choice.outputs.iter();
    problem.windows.retain(|_| of_window.next().is_some_and(|outputs| is_cut(&outputs)));
    let (own, problem) = (&contraction, &problem);
    let mut emitter = Emitter { builder, contraction: own, problem, outputs: &outputs };
    if emitter.is_single_tile() {
        messages.push("no winograd: the result is a single tile of one channel".to_owned());
        return Ok(None);
    }
    let transforms: Vec<&Transforms> = problem
        .windows
        .iter()
        .zip(&outputs)
        .map(|(window, &outputs)| problem.numbers.transforms(outputs, window.taps))
        .collect::<Option<_>>()
        .ok_or("there are no transforms of so many outputs")?;
    let product = emitter.product(&transforms, target, messages)?;
    let value = emitter.result(product, &transforms)?;
    contraction.restored(builder, value).map(Some)
}

/// Takes windows that are to be cut apart into phases where their taps are apart; whether there
/// are such. Results of one phase meet data of one phase, in neighbouring steps.
fn split_phases(
    contraction: &mut Contraction,
    builder: &mut FunctionBuilder,
    problem: &Problem,
    outputs: &[i64],
) -> Built<bool> {
    let cut = problem.windows.iter().zip(outputs).filter(|(_, outputs)| **outputs > 1);
    let mut apart: Vec<&Window> =
        cut.map(|(window, _)| window).filter(|window| window.dilation > 1).collect();
    // The last axes first, so that those in front keep their places.
    apart.put_in_order_by_key(|window| std::cmp::Reverse(window.spatial));
    let mut places: Vec<usize> = apart.iter().map(|window| window.data_axis).collect();
    for (at, window) in apart.iter().enumerate() {
        let split = Phases { operand: problem.data, place: places[at], axis: window.spatial };
        contraction.split_phases(builder, split, window.dilation, window.taps)?;
        let behind = |place: &&mut usize| **place > window.data_axis;
        places.iter_mut().filter(behind).for_each(|place| *place += 1);
    }
    Ok(!apart.is_empty())
}

/// Whether a contraction of f32 should be faster by minimal filtering than directly on operands of
/// half the size, of which a machine multiplies twice as many: both predictions, for a reader.
/// `price` is that of the whole function. It does not rise when contractions are taken away, so
/// what pays here pays when formats are chosen.
pub(crate) fn filtering_beats_short(
    space: &IterationSpace,
    operands: [(ValueId, bool); 2],
    builder: &FunctionBuilder,
    target: &Target,
    price: PriceOfGrowth,
) -> Built<Option<String>> {
    let contraction = &Contraction::new(space, operands, DType::F32, DType::F32);
    let Ok(problem) = Problem::find(contraction, elements(contraction, builder)?) else {
        return Ok(None);
    };
    let choice = Forms::of(contraction, &problem, target).choose(Direct::Short, price);
    Ok(choice.pays.then_some(choice.message))
}

/// What is known of the elements of both operands.
fn elements(contraction: &Contraction, builder: &FunctionBuilder) -> Built<[Elements; 2]> {
    let of = |value| Elements::of(builder.function(), value).ok_or("an operand is no tensor");
    let [lhs, rhs] = contraction.operands.map(|operand| of(operand.value));
    Ok([lhs?, rhs?])
}

/// Writes the rewritten contraction.
struct Emitter<'a> {
    builder: &'a mut FunctionBuilder,
    contraction: &'a Contraction,
    problem: &'a Problem,
    /// Outputs of a tile along each window.
    outputs: &'a [i64],
}

impl Emitter<'_> {
    /// `sum over r of matrix[i, r] * value[.., r, ..]`: an axis of as many entries as the matrix
    /// has columns disappears, and one of as many as it has rows comes in at `place`. Where `axis`
    /// is to be cut into tiles it stays, of as many tiles, and they overlap.
    fn applied(
        &mut self,
        matrix: &Matrix,
        value: ValueId,
        axis: usize,
        tiles: Option<(i64, Expr)>,
        place: usize,
    ) -> Built {
        let shape = self.builder.shape(value)?;
        let (rows, columns) = (matrix.len(), matrix[0].len());
        let parallel = 1 + shape.len() - usize::from(tiles.is_none());
        let entry = IterationSpace::axis(parallel);
        // The sum runs backwards, because rows end with a one: so it begins without a product.
        let last = columns as i64 - 1;
        let backwards = || Expr::constant(last) - &entry;
        let mut extents: Vec<Expr> = Vec::new();
        let mut index: Vec<Expr> = Vec::new();
        for (at, extent) in shape.iter().enumerate() {
            if extents.len() == place {
                extents.push(Expr::from(rows));
            }
            let own = IterationSpace::axis(extents.len());
            match &tiles {
                _ if at != axis => {
                    index.push(own);
                    extents.push(extent.clone());
                }
                Some((step, count)) => {
                    index.push(own * *step + &backwards());
                    extents.push(count.clone());
                }
                None => index.push(backwards()),
            }
        }
        if extents.len() == place {
            extents.push(Expr::from(rows));
        }
        extents.push(Expr::from(columns));
        let operands = vec![vec![IterationSpace::axis(place), entry.clone()], index];
        let space = IterationSpace { extents, parallel, operands };
        let reversed = matrix.iter().flat_map(|row| row.iter().rev());
        let mut entries: Vec<f32> = reversed.map(|entry| entry.to_f64() as f32).collect();
        let sum = self.problem.numbers.sum();
        if base::fault::is_seeded("formats.winograd") {
            entries[1] += if sum.is_float() { 0.5 } else { 1.0 };
        }
        let entries = Tensor::from_vec(&[rows, columns], entries).cast(sum);
        let literal = self.builder.literal(entries);
        self.builder.contract(space, literal, value, sum, sum)
    }

    /// Number of tiles along a window.
    fn tiles(&self, window: usize) -> Expr {
        let spatial = self.problem.windows[window].spatial;
        self.contraction.space.extents[spatial].ceil_div(&Expr::from(self.outputs[window]))
    }

    /// Whether the axes of the product's result have extent 1, but for entries.
    fn is_single_tile(&self) -> bool {
        let window = |axis: usize| self.problem.windows.iter().position(|w| w.spatial == axis);
        self.contraction.parallel().all(|axis| match window(axis) {
            Some(number) => self.tiles(number).is_one(),
            None => self.contraction.space.extents[axis].is_one(),
        })
    }

    /// `V`: the entries of each window in front, tiles in place of the windowed axes.
    fn data(&mut self, transforms: &[&Transforms]) -> Built {
        let mut value = self.contraction.operands[self.problem.data].value;
        let shape = self.builder.shape(value)?;
        let mut high = vec![Expr::ZERO; shape.len()];
        for (number, window) in self.problem.windows.iter().enumerate() {
            let needed = self.tiles(number) * self.outputs[number] + (window.taps - 1);
            let at = window.data_axis;
            high[at] = Expr::max(&(needed - &shape[at]), &Expr::ZERO);
        }
        let numbers = self.problem.numbers;
        let zero = self.builder.literal(Tensor::scalar(Scalar::zero(numbers.operand())));
        let rank = shape.len();
        value = self.builder.pad(value, zero, &vec![Expr::ZERO; rank], &high, &vec![0; rank])?;
        value = self.builder.cast(value, numbers.sum())?;
        for (done, number) in (0..self.problem.windows.len()).rev().enumerate() {
            let tiles = self.tiles(number);
            let axis = self.problem.windows[number].data_axis;
            let (first, others) =
                transforms[number].input.split_first().expect("a transform has a factor");
            let tiles = Some((self.outputs[number], tiles));
            value = self.applied(first, value, done + axis, tiles, 0)?;
            for matrix in others {
                value = self.applied(matrix, value, 0, None, 0)?;
            }
        }
        self.builder.cast(value, numbers.operand())
    }

    /// `U` of a filter with the taps where the product has the entries.
    fn filter(&mut self, mut value: ValueId, index: &[Expr], transforms: &[&Transforms]) -> Built {
        let numbers = self.problem.numbers;
        value = self.builder.cast(value, numbers.sum())?;
        for (number, transforms) in transforms.iter().enumerate().rev() {
            let entry = IterationSpace::axis(number);
            let axis = index.iter().position(|index| *index == entry);
            let axis = axis.ok_or("the product's filter does not have the entries as an axis")?;
            value = self.applied(&transforms.filter, value, axis, None, axis)?;
        }
        self.builder.cast(value, numbers.operand())
    }

    /// Taps in the order of the windows, then reduced axes, then axes of the result.
    fn filter_order(&self, index: &[Expr]) -> Vec<usize> {
        let parallel = self.contraction.space.parallel;
        let class = |axis: usize| {
            let windows = &self.problem.windows;
            if let Some(number) = windows.iter().position(|window| window.filter_axis == axis) {
                return (0, number);
            }
            match index[axis].symbols().first() {
                Some(symbol) if symbol.index() >= parallel => (1, symbol.index()),
                Some(symbol) => (2, symbol.index()),
                None => (1, 0),
            }
        };
        let mut order: Vec<usize> = (0..index.len()).collect();
        order.put_in_order_by_key(|&axis| class(axis));
        order
    }

    /// `M`, in the formats of a product. The filter is brought into its format before it is
    /// transformed, while it is small.
    fn product(
        &mut self,
        transforms: &[&Transforms],
        target: &Target,
        messages: &mut Vec<String>,
    ) -> Built {
        let data = self.data(transforms)?;
        let space = &self.contraction.space;
        let windows = &self.problem.windows;
        let count = windows.len();
        let is_tap = |axis: &usize| windows.iter().any(|window| window.tap == *axis);
        let reduced: Vec<usize> =
            (space.parallel..space.extents.len()).filter(|axis| !is_tap(axis)).collect();
        // The new number of each axis that stays.
        let place = |axis: usize| match reduced.iter().position(|&other| other == axis) {
            Some(at) => count + space.parallel + at,
            None => count + axis,
        };
        let renamed = |index: &Expr| {
            index.substitute(&mut |symbol| Some(IterationSpace::axis(place(symbol.index()))))
        };
        let entries = || (0..count).map(IterationSpace::axis);
        let mut extents: Vec<Expr> = windows
            .iter()
            .zip(self.outputs)
            .map(|(window, &outputs)| Expr::from(outputs + window.taps - 1))
            .collect();
        for axis in 0..space.parallel {
            let window = windows.iter().position(|window| window.spatial == axis);
            extents.push(match window {
                Some(number) => self.tiles(number),
                None => space.extents[axis].clone(),
            });
        }
        extents.extend(reduced.iter().map(|&axis| space.extents[axis].clone()));
        let of_data = space.operands[self.problem.data].iter().enumerate().map(|(at, index)| {
            match windows.iter().find(|window| window.data_axis == at) {
                Some(window) => IterationSpace::axis(count + window.spatial),
                None => renamed(index),
            }
        });
        let of_data: Vec<Expr> = entries().chain(of_data).collect();
        let own = 1 - self.problem.data;
        let order = self.filter_order(&space.operands[own]);
        let others = order[count..].iter().map(|&at| renamed(&space.operands[own][at]));
        let of_filter: Vec<Expr> = entries().chain(others).collect();
        let parallel = count + space.parallel;
        let operands = vec![of_data, of_filter];
        let space = IterationSpace { extents, parallel, operands };
        let taps = self.builder.transpose(self.contraction.operands[own].value, &order)?;
        let operands = [(data, false), (taps, true)];
        let sum = self.problem.numbers.sum();
        let mut product = Contraction::new(&space, operands, sum, sum);
        merge::apply(&mut product, self.builder, messages)?;
        panels::apply(&mut product, self.builder, target, messages)?;
        let index = &product.space.operands[1];
        product.operands[1].value = self.filter(product.operands[1].value, index, transforms)?;
        merge::apply(&mut product, self.builder, messages)?;
        tuples::apply(&mut product, self.builder, target, messages)?;
        product.finish(self.builder)
    }

    /// `Y`, under the shape of the contraction's result.
    fn result(&mut self, product: ValueId, transforms: &[&Transforms]) -> Built {
        let space = &self.contraction.space;
        let windows = &self.problem.windows;
        let mut value = product;
        for (number, transforms) in transforms.iter().enumerate() {
            let (last, others) = transforms.output.split_last().expect("a transform has a factor");
            for matrix in others {
                value = self.applied(matrix, value, 0, None, 0)?;
            }
            // Behind the axis of its tiles: there are entries of windows to come in front, and
            // outputs of windows that are done in between.
            let spatial = windows[number].spatial;
            let before = windows[..number].iter().filter(|done| done.spatial < spatial).count();
            let place = windows.len() - 1 - number + spatial + before + 1;
            value = self.applied(last, value, 0, None, place)?;
        }
        let window = |axis: usize| windows.iter().position(|window| window.spatial == axis);
        let whole = (0..space.parallel).map(|axis| match window(axis) {
            Some(number) => self.tiles(number) * self.outputs[number],
            None => space.extents[axis].clone(),
        });
        let whole: Vec<Expr> = whole.collect();
        value = self.problem.numbers.unscaled(self.builder, value, transforms)?;
        value = self.builder.reshape(value, &whole)?;
        let (starts, steps) = (vec![Expr::ZERO; whole.len()], vec![1; whole.len()]);
        self.builder.slice(value, &starts, &steps, &space.extents[..space.parallel])
    }
}
