//! Loads of elements that lie within one vector, or with AVX-512 within two, in another order:
//! contiguous loads and a permutation instead of a gather, which takes as long as a load for each
//! lane.
//!
//! ```text
//! for j < 16 vector { .. = in[4 * (j div 4)] }
//! for j < 16 vector { .. = in[j mod 2, j div 2] }
//! ```
//!
//! load `in[0..13]`, and `in[0, 0..8]` and `in[1, 0..8]`, of that what is asked for, and put each
//! into its lanes. Where the elements
//! are those of one place in rows that fill a vector,
//!
//! ```text
//! for j < 16 vector { .. = in[j div 4, 2] }      of an `in` that is [.., 4]
//! ```
//!
//! all of the rows are loaded, once for all their places.

use loops::BufferId;
use sym::Expr;

use super::Selector;
use super::index::Binding;
use super::memory::widened_lane;
use super::value::{Evaluated, Item, Mask, Vector, all_lanes, register_type};
use crate::vcode::{Inst, Lane, MemoryOperand, Opcode, VRegId};

impl Selector<'_> {
    /// The address of the first lane, of an irregular place.
    pub(super) fn first_address(&mut self, buffer: BufferId, index: &[Expr]) -> MemoryOperand {
        let begins = self.vector.as_ref().map(|vector| &self.bindings[vector.symbol]);
        if let Some(Binding::Constant(_)) = begins {
            let first: Option<Vec<Expr>> = index.iter().map(|expr| self.in_lane(expr, 0)).collect();
            let linear = first.map(|first| self.linear(buffer, &first));
            if let Some(linear) = linear.filter(|linear| !linear.irregular) {
                return self.address(buffer, &linear);
            }
        }
        MemoryOperand::new(self.lane_address(buffer, index), 0)
    }

    /// Elements of 32 bits at one place in rows of which several fill a vector, these distances in
    /// bytes from the first lane's, in lanes that are all on.
    pub(super) fn load_of_rows(
        &mut self,
        buffer: BufferId,
        index: &[Expr],
        offsets: &[i64],
        mask: Mask,
    ) -> Option<Evaluated> {
        let data = &self.kernel.buffers[buffer];
        let (lanes, dtype) = (offsets.len(), data.dtype);
        let ty = register_type(Lane::I32, lanes);
        let all = Mask::Constant(all_lanes(lanes));
        if dtype.bits() != 32 || lanes < 8 || ty.vector_bytes() != 4 * lanes || mask != all {
            return None;
        }
        let (last, rows) = index.split_last()?;
        let length = data.shape.last()?.as_constant()?;
        let strides = self.plan.strides[buffer].as_constants()?;
        let place = self.in_lane(last, 0)?.as_constant()?;
        let row = |offset: i64| {
            let fits = offset >= 0 && offset % (4 * length) == 0 && offset < 4 * lanes as i64;
            fits.then_some(offset / (4 * length))
        };
        let found = offsets.iter().map(|&offset| row(offset)).collect::<Option<Vec<i64>>>()?;
        let count = lanes as i64 / length;
        let side_by_side = strides.split_last().is_some_and(|(one, outer)| {
            *one == 1 && outer.last().is_some_and(|stride| *stride == length)
        });
        let whole = length > 1
            && count * length == lanes as i64
            && (0..count).all(|row| found.contains(&row))
            && (0..length).contains(&place);
        if !whole || !side_by_side || self.expr_differs_by_lane(last) {
            return None;
        }
        let first = [rows, &[Expr::ZERO]].concat();
        let address = self.first_address(buffer, &first);
        let loaded = self.load_widened(buffer, address, all, lanes);
        let value = self.register(loaded);
        let places: Vec<u64> = found.iter().map(|row| (row * length + place) as u64).collect();
        // Instructions that shuffle within 128 bits know where from without a register for it.
        let near = |(lane, from): (usize, &u64)| {
            *from / 4 == lane as u64 / 4 && *from % 4 == places[lane % 4] % 4
        };
        let inst = if places.iter().enumerate().all(near) {
            let order = (0..4).map(|lane| ((places[lane] % 4) << (2 * lane)) as i64).sum();
            Inst::new(Opcode::Shuffle, Lane::I32, &[value]).imm(order)
        } else {
            let order = self.lane_constants(&places, Lane::I32);
            let order = self.register(order);
            Inst::new(Opcode::Permute, Lane::I32, &[order, value])
        };
        let value = self.builder.emit(inst, ty);
        Some(self.element_of_widened(Vector { item: Item::Register(value), ..loaded }, dtype))
    }

    /// Elements of 32 bits, or widened to that, at these distances in bytes from the first lane's,
    /// in the lanes of a whole register, of which it is known whether they are on: the element of a
    /// lane that is on may lie at the place of one that is not.
    pub(super) fn load_neighbours(
        &mut self,
        buffer: BufferId,
        address: MemoryOperand,
        offsets: &[i64],
        mask: Mask,
    ) -> Option<Evaluated> {
        let lanes = offsets.len();
        let dtype = self.kernel.buffers[buffer].dtype;
        let ty = register_type(Lane::I32, lanes);
        if dtype.bits() > 32 || lanes < 8 || ty.vector_bytes() != 4 * lanes {
            return None;
        }
        let bytes = self.element_bytes(buffer) as i64;
        let Mask::Constant(on) = mask else { return None };
        let is_on = |lane: &usize| on & 1 << lane != 0;
        let most = if self.builder.has_masks() { 2 } else { 1 };
        let runs = Runs::of(offsets, bytes, is_on).filter(|runs| runs.0.len() <= most)?;
        let mut loaded = Vec::new();
        for (first, wanted) in &runs.0 {
            let displacement = i32::try_from(first * bytes).ok()?;
            let displacement = address.displacement.checked_add(displacement)?;
            loaded.push(self.wanted(
                buffer,
                MemoryOperand { displacement, ..address },
                *wanted,
                lanes,
            ));
        }
        let widened = *loaded.first()?;
        let order = self.lane_constants(&runs.places(offsets, bytes, is_on), Lane::I32);
        let order = self.register(order);
        let loaded: Vec<VRegId> = loaded.into_iter().map(|part| self.register(part)).collect();
        let inst = match loaded[..] {
            [low, high] => Inst::new(Opcode::PermuteTwo, widened.lane, &[low, order, high]),
            _ => Inst::new(Opcode::Permute, Lane::I32, &[order, loaded[0]]),
        };
        let value = self.builder.emit(inst, ty);
        Some(self.element_of_widened(Vector { item: Item::Register(value), ..widened }, dtype))
    }

    /// Those of a register's elements from an address on that are wanted; the others are not
    /// touched, unless they lie between such.
    fn wanted(
        &mut self,
        buffer: BufferId,
        address: MemoryOperand,
        wanted: u32,
        lanes: usize,
    ) -> Vector {
        let dtype = self.kernel.buffers[buffer].dtype;
        if self.builder.has_masks() || dtype.bits() == 32 {
            return self.load_widened(buffer, address, Mask::Constant(wanted), lanes);
        }
        if wanted == 0 {
            let lane = widened_lane(dtype);
            let zero = Inst::new(Opcode::Zero, lane, &[]);
            let item = Item::Register(self.builder.emit(zero, register_type(lane, lanes)));
            return Vector { item, lane, lanes };
        }
        let first = wanted.trailing_zeros() as usize;
        self.load_run(buffer, address, (first, wanted.ilog2() as usize + 1 - first), lanes)
    }
}

/// Elements of a vector, in runs that are no longer than a register: the place of the first one,
/// and which of those from there on are asked for.
struct Runs(Vec<(i64, u32)>);

impl Runs {
    /// Of elements of so many bytes at these distances in bytes, in the lanes that are on; none
    /// where distances are no multiples of an element. The first run begins with the first lane
    /// where it can.
    fn of(offsets: &[i64], bytes: i64, is_on: impl Fn(&usize) -> bool) -> Option<Runs> {
        let lanes = offsets.len() as i64;
        let mut places = Vec::new();
        for lane in (0..offsets.len()).filter(is_on) {
            places
                .push(Some(offsets[lane] / bytes).filter(|place| place * bytes == offsets[lane])?);
        }
        places.sort_unstable();
        let mut runs: Vec<(i64, u32)> = Vec::new();
        for place in places {
            match runs.last_mut() {
                Some((first, wanted)) if place < *first + lanes => *wanted |= 1 << (place - *first),
                None if (0..lanes).contains(&place) => runs.push((0, 1 << place)),
                _ => runs.push((place, 1)),
            }
        }
        if runs.is_empty() {
            runs.push((0, 0));
        }
        Some(Runs(runs))
    }

    /// Where each lane's element lies in the runs, one register behind the other.
    fn places(&self, offsets: &[i64], bytes: i64, is_on: impl Fn(&usize) -> bool) -> Vec<u64> {
        let lanes = offsets.len() as i64;
        let place = |lane: usize| {
            let place = offsets[lane] / bytes;
            let run =
                self.0.iter().position(|(first, _)| (*first..*first + lanes).contains(&place));
            run.filter(|_| is_on(&lane))
                .map_or(0, |run| (run as i64 * lanes + place - self.0[run].0) as u64)
        };
        (0..offsets.len()).map(place).collect()
    }
}
