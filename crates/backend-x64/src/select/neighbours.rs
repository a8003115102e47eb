//! Loads of elements that lie within one vector, in another order: a contiguous load and a
//! permutation instead of a gather, which takes as long as a load for each lane.
//!
//! ```text
//! for j < 16 vector { .. = in[4 * (j div 4)] }
//! ```
//!
//! loads `in[0..13]`, of that what is asked for, and puts each into its lanes. Where the elements
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
use crate::vcode::{Inst, Lane, MemoryOperand, Opcode};

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
        let has_masks = self.builder.has_masks() || dtype.bits() == 32;
        if dtype.bits() > 32 || lanes < 8 || ty.vector_bytes() != 4 * lanes {
            return None;
        }
        let bytes = self.element_bytes(buffer) as i64;
        let Mask::Constant(on) = mask else { return None };
        let on = on & all_lanes(lanes);
        let (mut wanted, mut places) = (0_u32, vec![0; lanes]);
        for at in (0..lanes).filter(|at| on & 1 << at != 0) {
            let place = usize::try_from(offsets[at] / bytes).ok().filter(|place| *place < lanes)?;
            wanted |= 1 << place;
            places[at] = place as u64;
        }
        // What lies between elements that are asked for is there, too.
        let first = wanted.trailing_zeros().min(31) as usize;
        let widened = match (has_masks, wanted) {
            (true, _) => self.load_widened(buffer, address, Mask::Constant(wanted), lanes),
            (false, 0) => {
                let lane = widened_lane(dtype);
                let zero = Inst::new(Opcode::Zero, lane, &[]);
                let item = Item::Register(self.builder.emit(zero, register_type(lane, lanes)));
                Vector { item, lane, lanes }
            }
            (false, _) => {
                let count = wanted.ilog2() as usize + 1 - first;
                self.load_run(buffer, address, (first, count), lanes)
            }
        };
        let loaded = self.register(widened);
        let order = self.lane_constants(&places, Lane::I32);
        let order = self.register(order);
        let inst = Inst::new(Opcode::Permute, Lane::I32, &[order, loaded]);
        let value = self.builder.emit(inst, ty);
        Some(self.element_of_widened(Vector { item: Item::Register(value), ..widened }, dtype))
    }
}
