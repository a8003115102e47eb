//! A contraction while its formats are chosen: changes of the iteration space together with the
//! nodes that make up for them.
//!
//! Invariant: with its operands and the nodes that `finish` puts behind it, it always computes what
//! the original did, each sum in the same order.

use base::{Id, IdSet};
use graph::{Built, Function, FunctionBuilder, IterationSpace, NodeId, Op, ValueId};
use sym::{Expr, SymbolId};
use tensor::DType;

/// An operand: its value in the new function, and whether it depends on constants alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand {
    pub(super) value: ValueId,
    pub(super) constant: bool,
}

/// A contraction under change.
#[derive(Clone)]
pub(super) struct Contraction {
    pub(super) space: IterationSpace,
    pub(super) operands: [Operand; 2],
    pub(super) accumulator: DType,
    pub(super) dtype: DType,
    /// Whether it may run several times in a run of the function.
    pub(super) repeats: bool,
    /// What leads from the result as it is now back to the original, the last one first.
    restore: Vec<Restore>,
}

/// A movement behind the contraction.
#[derive(Clone)]
enum Restore {
    Transpose(Vec<usize>),
    Reshape(Vec<Expr>),
    /// To the first elements of each axis.
    Crop(Vec<Expr>),
}

/// An axis of the result that walks one of an operand's, beside a window.
#[derive(Clone, Copy)]
pub(super) struct Phases {
    pub(super) operand: usize,
    pub(super) place: usize,
    pub(super) axis: usize,
}

impl Contraction {
    pub(super) fn new(
        space: &IterationSpace,
        operands: [(ValueId, bool); 2],
        accumulator: DType,
        dtype: DType,
    ) -> Contraction {
        let operands = operands.map(|(value, constant)| Operand { value, constant });
        let (space, restore) = (space.clone(), Vec::new());
        Contraction { space, operands, accumulator, dtype, repeats: false, restore }
    }

    /// A contraction of a function with these constants; none for another node.
    pub(super) fn of(
        function: &Function,
        id: NodeId,
        constants: &IdSet<ValueId>,
    ) -> Option<Contraction> {
        let node = &function.nodes[id];
        let Op::Contract { space, accumulator, dtype } = &node.op else { return None };
        let operand = |at: usize| (node.operands[at], constants.contains(node.operands[at]));
        Some(Contraction::new(space, [0, 1].map(operand), *accumulator, *dtype))
    }

    /// Adds the contraction and what makes up for the changes, and returns the original's value.
    pub(super) fn finish(self, builder: &mut FunctionBuilder) -> Built {
        let [lhs, rhs] = self.operands.map(|operand| operand.value);
        let space = self.space.clone();
        let value = builder.contract(space, lhs, rhs, self.accumulator, self.dtype)?;
        self.restored(builder, value)
    }

    /// What leads from the result as it is now back to the original.
    pub(super) fn restored(self, builder: &mut FunctionBuilder, mut value: ValueId) -> Built {
        for step in self.restore.iter().rev() {
            value = match step {
                Restore::Transpose(permutation) => builder.transpose(value, permutation)?,
                Restore::Reshape(shape) => builder.reshape(value, shape)?,
                Restore::Crop(shape) => {
                    let (starts, steps) = (vec![Expr::ZERO; shape.len()], vec![1; shape.len()]);
                    builder.slice(value, &starts, &steps, shape)?
                }
            };
        }
        Ok(value)
    }

    /// Bytes of an element of the sums.
    pub(super) fn accumulator_bytes(&self) -> u32 {
        self.accumulator.bits().div_ceil(8)
    }

    /// Multiplications and additions, an extent that is not known counting as many others do.
    pub(super) fn operations(&self) -> f64 {
        const UNKNOWN: i64 = 64;
        let extent = |extent: &Expr| extent.as_constant().unwrap_or(UNKNOWN) as f64;
        2.0 * self.space.extents.iter().map(extent).product::<f64>()
    }

    /// The axes of the result.
    pub(super) fn parallel(&self) -> std::ops::Range<usize> {
        0..self.space.parallel
    }

    /// Whether an operand's place depends on an axis.
    pub(super) fn reads(&self, operand: usize, axis: usize) -> bool {
        let symbol = SymbolId::new(axis);
        self.space.operands[operand].iter().any(|index| index.contains(symbol))
    }

    /// Whether an operand moves by one element with an axis.
    pub(super) fn is_contiguous(
        &self,
        builder: &FunctionBuilder,
        operand: usize,
        axis: usize,
    ) -> Built<bool> {
        let shape = builder.shape(self.operands[operand].value)?;
        Ok(self.space.is_contiguous(operand, &shape, axis))
    }

    /// Puts the result's axes in another order: new axis `k` is old axis `order[k]`.
    pub(super) fn permute_result(&mut self, order: &[usize]) {
        if order.iter().copied().eq(0..order.len()) {
            return;
        }
        let mut position = vec![0; order.len()];
        for (new, &old) in order.iter().enumerate() {
            position[old] = new;
        }
        let extents: Vec<Expr> = order.iter().map(|&old| self.space.extents[old].clone()).collect();
        self.space.extents.splice(0..order.len(), extents);
        self.rename(&|axis| *position.get(axis).unwrap_or(&axis));
        self.restore.push(Restore::Transpose(position));
    }

    /// Puts an operand's axes in another order: new axis `k` is old axis `order[k]`.
    pub(super) fn permute_operand(
        &mut self,
        builder: &mut FunctionBuilder,
        operand: usize,
        order: &[usize],
    ) -> Built<()> {
        let value = &mut self.operands[operand].value;
        *value = builder.transpose(*value, order)?;
        let index = &mut self.space.operands[operand];
        *index = order.iter().map(|&old| index[old].clone()).collect();
        Ok(())
    }

    /// Whether an axis of the result walks one of an operand's in steps from a constant place.
    pub(super) fn has_steps(&self, operand: usize) -> bool {
        (0..self.space.operands[operand].len()).any(|at| self.step_of(operand, at).is_some())
    }

    /// The axis of the result that alone walks one of an operand's in steps, where it starts, and
    /// the step.
    fn step_of(&self, operand: usize, at: usize) -> Option<(SymbolId, Expr, i64)> {
        let index = &self.space.operands[operand][at];
        let (&[symbol], None) = (&index.symbols()[..], index.as_symbol()) else { return None };
        let step = index.linear_coefficient(symbol)?;
        let start = index - Expr::symbol(symbol) * step;
        let walks = step > 1 && symbol.index() < self.space.parallel;
        (walks && start.as_constant().is_some()).then_some((symbol, start, step))
    }

    /// Has an operand hold those elements alone that are read, where an axis of the result walks
    /// one of the operand's in steps; whether there was such an axis.
    pub(super) fn take_steps(
        &mut self,
        builder: &mut FunctionBuilder,
        operand: usize,
    ) -> Built<bool> {
        let mut taken = false;
        for at in 0..self.space.operands[operand].len() {
            let Some((symbol, start, step)) = self.step_of(operand, at) else { continue };
            let extent = self.space.extents[symbol.index()].clone();
            let value = &mut self.operands[operand].value;
            *value = builder.slice_axis(*value, at, start, step, extent)?;
            self.space.operands[operand][at] = Expr::symbol(symbol);
            taken = true;
        }
        Ok(taken)
    }

    /// Makes one axis of axes `first` and `first + 1`, which no operand tells apart but as adjacent
    /// axes of its own, those at `places`.
    pub(super) fn merge_axes(
        &mut self,
        builder: &mut FunctionBuilder,
        first: usize,
        places: [Option<usize>; 2],
    ) -> Built<()> {
        if first < self.space.parallel {
            self.restore.push(Restore::Reshape(self.space.extents[self.parallel()].to_vec()));
            self.space.parallel -= 1;
        }
        let inner = self.space.extents.remove(first + 1);
        self.space.extents[first] = &self.space.extents[first] * &inner;
        for (operand, place) in places.into_iter().enumerate() {
            let Some(place) = place else { continue };
            let value = self.operands[operand].value;
            let mut shape = builder.shape(value)?.to_vec();
            shape[place] = &shape[place] * &shape[place + 1];
            shape.remove(place + 1);
            self.operands[operand].value = builder.reshape(value, &shape)?;
            self.space.operands[operand].remove(place + 1);
        }
        self.rename(&|axis| if axis > first { axis - 1 } else { axis });
        Ok(())
    }

    /// Makes one axis of axes `first` and `first + 1` of the result, of which one operand has both
    /// as its last axes and the other knows the first alone.
    pub(super) fn join_axes(
        &mut self,
        builder: &mut FunctionBuilder,
        first: usize,
        whole: usize,
    ) -> Built<()> {
        self.restore.push(Restore::Reshape(self.space.extents[self.parallel()].to_vec()));
        self.space.parallel -= 1;
        let inner = self.space.extents.remove(first + 1);
        self.space.extents[first] = &self.space.extents[first] * &inner;
        let value = self.operands[whole].value;
        let mut shape = builder.shape(value)?.to_vec();
        let last = shape.len() - 2;
        shape.truncate(last);
        shape.push(self.space.extents[first].clone());
        self.operands[whole].value = builder.reshape(value, &shape)?;
        self.space.operands[whole].truncate(last + 1);
        self.rename(&|axis| if axis > first { axis - 1 } else { axis });
        let joined = IterationSpace::axis(first);
        for index in &mut self.space.operands[1 - whole] {
            if *index == joined {
                *index = index.floor_div(&inner);
            }
        }
        Ok(())
    }

    /// Makes two axes of one of the result and of one of an operand's: whole steps and phases. The
    /// operand is met in windows of so many taps, a step apart, and padded to whole steps.
    pub(super) fn split_phases(
        &mut self,
        builder: &mut FunctionBuilder,
        Phases { operand, place, axis }: Phases,
        step: i64,
        taps: i64,
    ) -> Built<()> {
        let whole = self.space.extents[axis].ceil_div(&Expr::constant(step));
        let result = self.space.extents[self.parallel()].to_vec();
        let mut covered = result.clone();
        covered[axis] = &whole * step;
        self.restore.extend([Restore::Crop(result), Restore::Reshape(covered)]);
        let mut value = self.operands[operand].value;
        let steps = &whole + (taps - 1);
        let needed = &steps * step;
        let more = (&needed - &builder.shape(value)?[place]).as_constant();
        if more.is_some_and(|more| more < 0) {
            value = builder.slice_axis(value, place, Expr::ZERO, 1, needed.clone())?;
        }
        let mut shape = builder.shape(value)?.to_vec();
        let mut high = vec![Expr::ZERO; shape.len()];
        high[place] = needed - &shape[place];
        let zero = builder.scalar(builder.dtype(value)?, 0.0);
        let (low, between) = (vec![Expr::ZERO; shape.len()], vec![0; shape.len()]);
        let padded = builder.pad(value, zero, &low, &high, &between)?;
        shape.splice(place..=place, [steps, Expr::constant(step)]);
        self.operands[operand].value = builder.reshape(padded, &shape)?;
        self.space.parallel += 1;
        self.space.extents.splice(axis..=axis, [whole, Expr::constant(step)]);
        self.rename(&|old| if old > axis { old + 1 } else { old });
        let index = &mut self.space.operands[operand];
        let tap = (&index[place] - IterationSpace::axis(axis)).floor_div(&Expr::constant(step));
        let moved = IterationSpace::axis(axis) + &tap;
        index.splice(place..=place, [moved, IterationSpace::axis(axis + 1)]);
        Ok(())
    }

    fn rename(&mut self, new: &dyn Fn(usize) -> usize) {
        for index in self.space.operands.iter_mut().flatten() {
            *index =
                index.substitute(&mut |symbol| Some(IterationSpace::axis(new(symbol.index()))));
        }
    }
}
