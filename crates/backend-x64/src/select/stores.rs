//! Stores.
//!
//! Elements side by side go out as registers, short ones packed or rounded by one instruction where
//! there is one; those apart one by one, or by an instruction that scatters; others lane by lane by
//! way of the frame. As loads are, they are limited to the lanes that are on.

use loops::{BufferId, Scope};
use sym::Expr;
use tensor::DType;

use super::Selector;
use super::index::Linear;
use super::memory::{APART, LaneBit};
use super::plan::{self, SCRATCH_UNIT};
use super::value::{Evaluated, Item, Mask, Vector, all_lanes};
use crate::vcode::{Inst, Lane, MemoryOperand, Opcode, RegisterType, VRegId};

impl Selector<'_> {
    /// `buffer[index] = value`.
    pub(crate) fn store(
        &mut self,
        buffer: BufferId,
        index: &[Expr],
        value: Evaluated,
        lanes: usize,
    ) -> base::Result<()> {
        if self.kernel.buffers[buffer].scope == Scope::Register {
            return self.write_register(buffer, index, value, lanes);
        }
        let linear = self.linear(buffer, index);
        let bytes = self.element_bytes(buffer) as i64;
        let value = self.broadcast(value, lanes);
        if lanes == 1 {
            let address = self.address(buffer, &linear);
            let address = self.safe_address(address);
            self.store_element(buffer, address, value);
            self.forget(buffer);
            return Ok(());
        }
        let step = (!linear.irregular).then_some(linear.lane_step);
        if step == Some(0) {
            let name = &self.kernel.buffers[buffer].name;
            return Err(self.refuse(format!("a vector loop stores to one element of `{name}`")));
        }
        let mask = match self.active_mask(lanes) {
            Mask::Constant(bits) if self.ends_scratch(buffer, &linear, bits, lanes) => {
                Mask::Constant(all_lanes(lanes))
            }
            mask => mask,
        };
        let whole = mask == Mask::Constant(all_lanes(lanes));
        if step == Some(bytes) && (self.builder.has_masks() || bytes >= 4 || whole) {
            let address = self.address_under_guards(buffer, &linear);
            self.store_contiguous(buffer, address, value, mask, lanes);
        } else if step == Some(bytes) {
            let address = self.address(buffer, &linear);
            self.store_some(buffer, address, value, mask, lanes);
        } else if self.store_transposed(buffer, index, &linear, value, mask) {
            // It waits for the rest of its block.
        } else if let Some(step) = step.filter(|step| self.can_scatter(bytes, *step, lanes)) {
            let address = self.address(buffer, &linear);
            self.store_scattered(buffer, address, step, value, mask);
        } else {
            let addresses = match step {
                Some(step) => {
                    let first = self.address(buffer, &linear);
                    let first = Inst::new(Opcode::Lea, Lane::I64, &[]).address(first);
                    let first = self.builder.emit(first, RegisterType::Int);
                    (0..lanes as i64)
                        .map(|lane| MemoryOperand::new(self.builder.add_imm(first, lane * step), 0))
                        .collect()
                }
                None => self.each_lane(lanes, |selector, _| {
                    MemoryOperand::new(selector.lane_address(buffer, index), 0)
                }),
            };
            self.store_lane_by_lane(buffer, &addresses, value, mask);
        }
        self.forget(buffer);
        Ok(())
    }

    /// Whether the lanes that are off lie behind the end of a buffer in scratch memory, each of
    /// which fills whole vectors. A load that meets what a mask has stored waits until it is in the
    /// cache.
    fn ends_scratch(&self, buffer: BufferId, linear: &Linear, bits: u32, lanes: usize) -> bool {
        let Some(elements) = plan::scratch_elements(&self.kernel.buffers[buffer]) else {
            return false;
        };
        let bytes = self.element_bytes(buffer) as i64;
        let count = i64::from(bits.trailing_ones());
        let end = linear.constant + count * bytes;
        let ends = linear.terms.is_empty() && linear.lane_step == bytes && end == elements * bytes;
        let room = (end as u64).next_multiple_of(SCRATCH_UNIT) as i64;
        let fits = linear.constant + lanes as i64 * bytes <= room;
        ends && fits && bits == all_lanes(count as usize)
    }

    fn store_element(&mut self, buffer: BufferId, address: MemoryOperand, value: Evaluated) {
        let dtype = self.kernel.buffers[buffer].dtype;
        let raw = self.raw_of(value, dtype);
        if dtype.bits() >= 32 {
            let value = self.register(raw);
            self.builder.effect(Inst::new(Opcode::StoreLane, raw.lane, &[value]).address(address));
            return;
        }
        let raw = match dtype {
            DType::F16 => self.half_of(raw),
            _ => raw,
        };
        let int = self.int_of(raw);
        let lane = if dtype.bits() == 8 { Lane::I8 } else { Lane::I16 };
        self.builder.effect(Inst::new(Opcode::IntStore, lane, &[int]).address(address));
    }

    /// f32 as f16 in 16-bit lanes, of which the first is also the low half of a 32-bit lane.
    pub(super) fn half_of(&mut self, vector: Vector) -> Vector {
        let value = self.register(vector);
        let inst = Inst::new(Opcode::F32ToF16, Lane::F32, &[value]);
        let value = self.builder.emit(inst, RegisterType::vector(2 * vector.lanes));
        Vector { item: Item::Register(value), lane: Lane::I32, lanes: vector.lanes }
    }

    /// An element as lanes whose low bits are what is stored; f16 stays f32.
    pub(super) fn raw_of(&mut self, value: Evaluated, dtype: DType) -> Vector {
        match value {
            Evaluated::Mask(mask, lanes) => self.mask_as_ints(mask, lanes),
            Evaluated::Vector(vector) if dtype == DType::BF16 => {
                let ints = Self::cast_lane(vector, Lane::I32);
                match ints.item {
                    Item::Constant(bits) => self.constant(bits >> 16, ints),
                    Item::Register(_) => self.unary(Opcode::ShrImm, ints, 16),
                }
            }
            Evaluated::Vector(vector) => vector,
        }
    }

    pub(super) fn store_contiguous(
        &mut self,
        buffer: BufferId,
        address: MemoryOperand,
        value: Evaluated,
        mask: Mask,
        lanes: usize,
    ) {
        let dtype = self.kernel.buffers[buffer].dtype;
        // Four lanes fill half a register; of masks but constants the other half is not known.
        let known = match self.builder.has_masks() {
            true => lanes > 4 || matches!(mask, Mask::Constant(_)),
            false => mask == Mask::Constant(all_lanes(lanes)),
        };
        let first = match mask {
            Mask::Constant(bits) => {
                let count = bits.trailing_ones() as usize;
                (bits == all_lanes(count) && (1..lanes).contains(&count)).then_some(count)
            }
            Mask::Register(..) => None,
        };
        if let Some(short) = known.then(|| self.rounded_at_once(value, dtype)).flatten() {
            if let Some(count) = first.filter(|_| self.is_view(buffer)) {
                let (item, lanes) = (Item::Register(short), lanes.div_ceil(2));
                let pairs = Vector { item, lane: Lane::I32, lanes };
                return self.store_first(address, pairs, count, (Lane::I16, 2));
            }
            let inst = match self.mask_operand(mask, lanes, 4) {
                None if lanes == 4 => Inst::new(Opcode::StoreLane, Lane::I64, &[short]),
                None => Inst::new(Opcode::Store, Lane::I32, &[short]),
                mask => Inst::new(Opcode::Store, Lane::U16, &[short]).mask(mask),
            };
            self.builder.effect(inst.address(address));
            return;
        }
        if !self.builder.has_masks() && dtype.bits() < 32 && dtype != DType::F16 {
            self.store_packed(address, value, dtype, lanes);
            return;
        }
        let raw = self.raw_of(value, dtype);
        let lane = match (dtype, dtype.bits()) {
            (DType::F16, _) => Lane::F16,
            (_, 16) => Lane::I16,
            (_, 8) => Lane::I8,
            _ => raw.lane,
        };
        if let Some(count) = first
            && (!self.builder.has_masks() && dtype.bits() >= 32 || self.is_view(buffer))
        {
            return self.store_first(address, raw, count, (lane, 1));
        }
        let value = self.register(raw);
        let inst = Inst::new(Opcode::Store, lane, &[value]).address(address);
        let masked = self.mask_operand(mask, lanes, raw.lane.bytes());
        match mask {
            Mask::Register(..) if !self.builder.has_masks() => {
                // To store some lanes of a vector takes as long as twenty stores of all of them,
                // and as a rule all are on.
                let mut branching = self.if_all_are_on(mask, lanes);
                self.builder.effect(inst.clone());
                self.builder.next_arm(&mut branching, Vec::new());
                self.builder.effect(inst.mask(masked));
                self.builder.close_branch(branching, Vec::new());
            }
            _ => self.builder.effect(inst.mask(masked)),
        }
    }

    /// Whether a buffer is a part of something larger, whose other parts may lie in between.
    fn is_view(&self, buffer: BufferId) -> bool {
        self.kernel.buffers[buffer].strides.is_some()
    }

    /// Stores so many first elements, of which a lane holds one or several, by stores of whole
    /// registers, halves and lanes: without mask registers a store under a mask takes many times as
    /// long, and with them, too, a load of what the mask leaves out waits for it.
    fn store_first(
        &mut self,
        mut address: MemoryOperand,
        mut raw: Vector,
        mut count: usize,
        (lane, each): (Lane, usize),
    ) {
        let narrow = each * lane.bytes() < raw.lane.bytes();
        while count > 0 {
            if narrow && raw.lanes == 4 && count < 4 {
                let mask = self.mask_operand(Mask::Constant(all_lanes(count)), 4, raw.lane.bytes());
                let value = self.register(raw);
                let inst = Inst::new(Opcode::Store, lane, &[value]).address(address).mask(mask);
                return self.builder.effect(inst);
            }
            if count < each && raw.lanes == 1 {
                let value = self.int_of(raw);
                let inst = Inst::new(Opcode::IntStore, lane, &[value]).address(address);
                return self.builder.effect(inst);
            }
            if 2 * count < each * raw.lanes {
                raw = self.lower_half(raw);
                continue;
            }
            let part = if count == each * raw.lanes { raw } else { self.lower_half(raw) };
            let value = self.register(part);
            let inst = match part.lanes * part.lane.bytes() {
                4 => Inst::new(Opcode::StoreLane, Lane::I32, &[value]),
                8 => Inst::new(Opcode::StoreLane, Lane::I64, &[value]),
                _ if each > 1 => Inst::new(Opcode::Store, part.lane, &[value]),
                _ => Inst::new(Opcode::Store, lane, &[value]),
            };
            self.builder.effect(inst.address(address));
            count -= each * part.lanes;
            if count > 0 {
                raw = self.upper_half(raw);
                address.displacement += (each * part.lanes * lane.bytes()) as i32;
            }
        }
    }

    /// Elements of f16 or bf16 in 16-bit lanes, by one instruction that rounds, where there is one
    /// and they are rounded only to be stored. What rounded them otherwise is left without a use.
    fn rounded_at_once(&mut self, value: Evaluated, dtype: DType) -> Option<VRegId> {
        let Evaluated::Vector(Vector { item: Item::Register(value), lanes: lanes @ 4.., .. }) =
            value
        else {
            return None;
        };
        // What a loop carries out of it is seen outside; what it was rounded from is not.
        let from = self.rounded[value].filter(|&from| self.builder.is_visible(from));
        let (opcode, whole) = match (dtype, from) {
            (DType::F16, Some(half)) => return Some(half),
            (DType::F16, None) => (Opcode::F32ToF16, value),
            (DType::BF16, Some(whole)) if self.builder.has_bf16() => (Opcode::F32ToBf16, whole),
            _ => return None,
        };
        let is_wrong = dtype == DType::BF16 && base::fault::is_seeded("x64.bf16");
        let inst = Inst::new(opcode, Lane::F32, &[whole]);
        (!is_wrong).then(|| self.builder.emit(inst, RegisterType::vector(2 * lanes)))
    }

    /// Whether one instruction stores lanes at this distance.
    fn can_scatter(&self, bytes: i64, step: i64, lanes: usize) -> bool {
        let farthest = step.checked_mul(lanes as i64);
        let fits = farthest.is_some_and(|farthest| i32::try_from(farthest).is_ok());
        self.builder.has_masks() && bytes >= 4 && fits
    }

    fn store_scattered(
        &mut self,
        buffer: BufferId,
        address: MemoryOperand,
        step: i64,
        value: Evaluated,
        mask: Mask,
    ) {
        let dtype = self.kernel.buffers[buffer].dtype;
        let raw = self.raw_of(value, dtype);
        if self.store_one_by_one(address, step, raw, mask) {
            return;
        }
        let indices: Vec<u64> = (0..raw.lanes as i64).map(|lane| (lane * step) as u64).collect();
        let index = self.lane_constants(&indices, Lane::I32);
        let index = self.register(index);
        let value = self.register(raw);
        let mask = self.mask_register(mask, raw.lanes, raw.lane.bytes());
        let inst = Inst::new(Opcode::Scatter, raw.lane, &[index, value, mask]).imm(1);
        self.builder.effect(inst.address(address));
    }

    pub(super) fn store_lane_by_lane(
        &mut self,
        buffer: BufferId,
        addresses: &[MemoryOperand],
        value: Evaluated,
        mask: Mask,
    ) {
        let dtype = self.kernel.buffers[buffer].dtype;
        let raw = self.raw_of(value, dtype);
        let lanes = addresses.len();
        let (bytes, lane) = match dtype.bits() {
            64 => (8, Lane::I64),
            32 => (4, Lane::I32),
            16 if dtype == DType::F16 => (2, Lane::I16),
            16 => (4, Lane::I16),
            _ => (4, Lane::I8),
        };
        let bits = self.lane_bits(mask, lanes);
        if dtype == DType::F16 {
            let value = self.register(raw);
            let inst =
                Inst::new(Opcode::Store, Lane::F16, &[value]).address(MemoryOperand::frame(APART));
            self.builder.effect(inst);
        } else {
            self.put_in_frame(raw, APART);
        }
        for (index, address) in addresses.iter().enumerate() {
            let address = match bits.of(index) {
                LaneBit::Off => continue,
                LaneBit::On => *address,
                LaneBit::Dynamic(bits) => {
                    let bit = self.builder.int_imm(Opcode::IntAndImm, bits, 1 << index);
                    let pointer = self.builder.emit(
                        Inst::new(Opcode::Lea, Lane::I64, &[]).address(*address),
                        RegisterType::Int,
                    );
                    self.address_if(bit, pointer)
                }
            };
            let value = self.frame_int(APART + (index * bytes) as i32, lane);
            self.builder.effect(Inst::new(Opcode::IntStore, lane, &[value]).address(address));
        }
    }
}
