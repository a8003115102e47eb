//! Loads of every second element, and of elements backwards: contiguous loads and a permutation
//! instead of a gather, which takes as long as a load for each lane.
//!
//! ```text
//! for j < 16 vector { .. = in[2 * j] }
//! for j < 16 vector { .. = in[15 - j] }
//! ```
//!
//! load `in[0..16]` and `in[15..31]`, and `in[0..16]`, so nothing is touched beyond the elements
//! that are asked for. What lies between them belongs to the buffer; another thread may be writing
//! it, which is no matter, because it is dropped.

use loops::BufferId;

use super::Selector;
use super::index::Linear;
use super::value::{Evaluated, Item, Mask, Vector, all_lanes, register_type};
use crate::vcode::{Inst, Lane, Opcode, RegisterType, VRegId};

impl Selector<'_> {
    /// Elements of 32 bits, or widened to that, or with AVX-512 of 64, two elements apart from lane
    /// to lane, in a whole register's lanes, of which it is known whether they are on.
    pub(super) fn load_every_second(
        &mut self,
        buffer: BufferId,
        linear: &Linear,
        mask: Mask,
        lanes: usize,
    ) -> Option<Evaluated> {
        let dtype = self.kernel.buffers[buffer].dtype;
        let (words, on, ty) = self.whole_register(buffer, linear, 2, mask, lanes)?;
        let fits = words == 1 || self.builder.has_masks();
        if !fits || lanes < 8 || !(self.builder.has_masks() || on == all_lanes(lanes)) {
            return None;
        }
        let (first, last) = (2 * on.trailing_zeros(), 2 * on.ilog2());
        // Places from the first to the last element, of those from `skipped` on.
        let within = |skipped: usize| {
            let inside = |place: &usize| (first..=last).contains(&((place + skipped) as u32));
            (0..lanes).filter(inside).fold(0, |bits, place| bits | 1 << place)
        };
        let low = self.part(buffer, linear, 0, within(0), lanes);
        let high = match last as usize >= lanes {
            true => self.part(buffer, linear, lanes as i64 - 1, within(lanes - 1), lanes),
            false => low,
        };
        let (lane, [low, high]) = (low.lane, [low, high].map(|part| self.register(part)));
        let value = match self.builder.has_masks() {
            true => {
                let place = |at: usize| if at < lanes { at } else { at + 1 };
                let of = |at: usize| (0..words).map(move |word| words * place(2 * at) + word);
                let places: Vec<u64> = (0..lanes).flat_map(of).map(|place| place as u64).collect();
                let order = self.lane_constants(&places, Lane::I32);
                let order = self.register(order);
                let picks = if words == 2 { Lane::I32 } else { lane };
                self.builder.emit(Inst::new(Opcode::PermuteTwo, picks, &[low, order, high]), ty)
            }
            false => self.every_second_of_halves(low, high, ty),
        };
        Some(self.element_of_widened(Vector { item: Item::Register(value), lane, lanes }, dtype))
    }

    /// Elements of at least 32 bits, or widened to that, each in front of that of the lane before,
    /// in a whole register's lanes, of which it is known whether they are on.
    pub(super) fn load_backwards(
        &mut self,
        buffer: BufferId,
        linear: &Linear,
        mask: Mask,
        lanes: usize,
    ) -> Option<Evaluated> {
        let dtype = self.kernel.buffers[buffer].dtype;
        let (words, on, ty) = self.whole_register(buffer, linear, -1, mask, lanes)?;
        let can_mask = self.builder.has_masks() || dtype.bits() >= 32;
        if words * lanes < 8 || !(can_mask || on == all_lanes(lanes)) {
            return None;
        }
        let last = lanes - 1;
        let wanted = (0..lanes).fold(0, |bits, lane| bits | (on >> lane & 1) << (last - lane));
        let loaded = self.part(buffer, linear, -(last as i64), wanted, lanes);
        let of = |lane: usize| (0..words).map(move |word| (words * (last - lane) + word) as u64);
        let places: Vec<u64> = (0..lanes).flat_map(of).collect();
        let order = self.lane_constants(&places, Lane::I32);
        let (order, value) = (self.register(order), self.register(loaded));
        let inst = Inst::new(Opcode::Permute, Lane::I32, &[order, value]);
        let item = Item::Register(self.builder.emit(inst, ty));
        Some(self.element_of_widened(Vector { item, ..loaded }, dtype))
    }

    /// How many times 32 bits an element has, which lanes are on, and the register that they fill,
    /// if they are so many elements apart and some are known to be on.
    fn whole_register(
        &self,
        buffer: BufferId,
        linear: &Linear,
        step: i64,
        mask: Mask,
        lanes: usize,
    ) -> Option<(usize, u32, RegisterType)> {
        let words = if self.kernel.buffers[buffer].dtype.bits() == 64 { 2 } else { 1 };
        let Mask::Constant(on) = mask else { return None };
        let ty = register_type(if words == 2 { Lane::I64 } else { Lane::I32 }, lanes);
        let on = on & all_lanes(lanes);
        let apart = linear.lane_step == step * self.element_bytes(buffer) as i64;
        let fits = apart && !linear.irregular && ty.vector_bytes() == 4 * words * lanes;
        (fits && on != 0).then_some((words, on, ty))
    }

    /// Those elements from the one at `skipped` on that are wanted, the rest zero.
    fn part(
        &mut self,
        buffer: BufferId,
        linear: &Linear,
        skipped: i64,
        wanted: u32,
        lanes: usize,
    ) -> Vector {
        let constant = linear.constant + skipped * self.element_bytes(buffer) as i64;
        let linear = Linear { constant, lane_step: 0, ..linear.clone() };
        let address = self.address_under_guards(buffer, &linear);
        self.load_widened(buffer, address, Mask::Constant(wanted), lanes)
    }

    /// Elements 0, 2, 4, 6 of one register and 1, 3, 5, 7 of the other, of eight lanes each, by
    /// instructions that stay within 128 bits and one that does not (AVX2).
    fn every_second_of_halves(&mut self, low: VRegId, high: VRegId, ty: RegisterType) -> VRegId {
        let mut sorted = |value: VRegId, order: i64| {
            let inst = Inst::new(Opcode::Shuffle, Lane::I32, &[value]).imm(order);
            self.builder.emit(inst, ty)
        };
        let (low, high) = (sorted(low, 0b11_01_10_00), sorted(high, 0b10_00_11_01));
        let both = self.builder.emit(Inst::new(Opcode::UnpackLow, Lane::F64, &[low, high]), ty);
        let order = self.lane_constants(&[0, 1, 4, 5, 2, 3, 6, 7], Lane::I32);
        let order = self.register(order);
        self.builder.emit(Inst::new(Opcode::Permute, Lane::I32, &[order, both]), ty)
    }
}
