//! Neighbouring elements of less than 32 bits of which some lanes are off, where the instruction
//! set has no masks for them (AVX2).
//!
//! Where it is known which lanes are on, and they are the first ones, their bytes are moved in
//! integer registers, eight or four at a time, of which the last overlap those before. Otherwise
//! all lanes are on as a rule: that is asked first.

use loops::BufferId;

use super::Selector;
use super::build::Branching;
use super::memory::{APART, COLLECT, memory_lane};
use super::value::{Carrier, Evaluated, Item, Mask, Vector, all_lanes, carrier, register_type};
use crate::vcode::{Cond, Inst, IntOperand, Lane, MemoryOperand, Opcode, RegisterType, VRegId};

impl Selector<'_> {
    /// Neighbouring elements in the lanes that are on.
    pub(super) fn load_some(
        &mut self,
        buffer: BufferId,
        address: MemoryOperand,
        mask: Mask,
        lanes: usize,
    ) -> Evaluated {
        let bytes = self.element_bytes(buffer) as i64;
        let offsets: Vec<i64> = (0..lanes as i64).map(|lane| lane * bytes).collect();
        if let Some(count) = first_lanes(mask) {
            let widened = self.load_first(buffer, address, count, lanes);
            return self.element_of_widened(widened, self.kernel.buffers[buffer].dtype);
        }
        if let Mask::Constant(_) = mask {
            let place = |offset: &i64| MemoryOperand {
                displacement: address.displacement + *offset as i32,
                ..address
            };
            let addresses: Vec<MemoryOperand> = offsets.iter().map(place).collect();
            return self.load_lane_by_lane(buffer, &addresses, mask);
        }
        let mut branching = self.if_all_are_on(mask, lanes);
        let all = self.load_contiguous(buffer, address, Mask::Constant(all_lanes(lanes)), lanes);
        let value = self.in_register(all, lanes);
        self.builder.next_arm(&mut branching, vec![value]);
        self.trim_loaded(self.builder.depth() - 1);
        let before = self.builder.runs_rarely();
        let some = self.load_scattered(buffer, address, &offsets, mask, lanes);
        let value = self.in_register(some, lanes);
        self.builder.restore(before);
        let merged = self.builder.close_branch(branching, vec![value]);
        self.trim_loaded(self.builder.depth());
        self.register_as(all, merged[0])
    }

    /// The first elements of a vector, widened as [`Self::load_widened`] does.
    pub(super) fn load_first(
        &mut self,
        buffer: BufferId,
        address: MemoryOperand,
        count: usize,
        lanes: usize,
    ) -> Vector {
        let all = Mask::Constant(all_lanes(lanes));
        if count == lanes {
            return self.load_widened(buffer, address, all, lanes);
        }
        let dtype = self.kernel.buffers[buffer].dtype;
        let lane = match carrier(dtype) {
            Some(Carrier::Lane(lane)) => lane,
            _ => Lane::I32,
        };
        let ty = register_type(lane, lanes);
        let load = Inst::new(Opcode::Load, memory_lane(dtype), &[]);
        // It stands for what is made of several loads.
        let name = load.clone().address(address).imm(count as i64);
        let value = self.remembered(&name, ty, buffer).unwrap_or_else(|| {
            let bytes = count * self.element_bytes(buffer);
            let place = MemoryOperand::frame(COLLECT);
            if bytes <= 8 {
                let word = self.first_bytes(address, bytes);
                let inst = Inst::new(Opcode::IntStore, Lane::I64, &[word]).address(place);
                self.builder.effect(inst);
            } else {
                let low = Inst::new(Opcode::LoadLane, Lane::I64, &[]).address(address);
                let low = self.builder.emit(low, RegisterType::V128);
                let last = self.int_at(address, bytes - 8, Lane::I64);
                let shift = 8 * (16 - bytes) as i64;
                let rest = self.builder.int_imm(Opcode::IntShrImm, last, shift);
                let rest = Inst::new(Opcode::VectorFromInt, Lane::I64, &[rest]);
                let rest = self.builder.emit(rest, RegisterType::V128);
                let both = Inst::new(Opcode::UnpackLow, Lane::F64, &[low, rest]);
                let both = self.builder.emit(both, RegisterType::V128);
                let inst = Inst::new(Opcode::Store, Lane::I32, &[both]).address(place);
                self.builder.effect(inst);
            }
            let value = self.builder.emit(load.address(place), ty);
            self.remember(name, value, buffer);
            value
        });
        Vector { item: Item::Register(value), lane, lanes }
    }

    /// So many bytes, up to eight, in an integer register, zeros above.
    fn first_bytes(&mut self, address: MemoryOperand, count: usize) -> VRegId {
        let (first, last) = match count {
            1 => return self.int_at(address, 0, Lane::U8),
            2 => return self.int_at(address, 0, Lane::U16),
            4 => return self.int_at(address, 0, Lane::U32),
            8 => return self.int_at(address, 0, Lane::I64),
            3 => (Lane::U16, Lane::U8),
            _ => (Lane::U32, Lane::U32),
        };
        let low = self.int_at(address, 0, first);
        let begin = count - last.bytes();
        let high = self.int_at(address, begin, last);
        let high = self.builder.int_imm(Opcode::IntShlImm, high, 8 * begin as i64);
        self.builder.int(Opcode::IntOr, &[low, high])
    }

    fn int_at(&mut self, address: MemoryOperand, offset: usize, lane: Lane) -> VRegId {
        let displacement = address.displacement + offset as i32;
        let address = MemoryOperand { displacement, ..address };
        self.builder.emit(Inst::new(Opcode::IntLoad, lane, &[]).address(address), RegisterType::Int)
    }

    /// Stores neighbouring elements of the lanes that are on.
    pub(super) fn store_some(
        &mut self,
        buffer: BufferId,
        address: MemoryOperand,
        value: Evaluated,
        mask: Mask,
        lanes: usize,
    ) {
        let all = Mask::Constant(all_lanes(lanes));
        if let Some(count) = first_lanes(mask) {
            let place = MemoryOperand::frame(APART);
            self.store_contiguous(buffer, place, value, all, lanes);
            return self.copy_first(address, count * self.element_bytes(buffer));
        }
        if let Mask::Constant(_) = mask {
            return self.store_each(buffer, address, value, mask, lanes);
        }
        let mut branching = self.if_all_are_on(mask, lanes);
        self.store_contiguous(buffer, address, value, all, lanes);
        self.builder.next_arm(&mut branching, Vec::new());
        let before = self.builder.runs_rarely();
        self.store_each(buffer, address, value, mask, lanes);
        self.builder.restore(before);
        self.builder.close_branch(branching, Vec::new());
    }

    /// Copies so many bytes, up to sixteen, that stand in the frame.
    fn copy_first(&mut self, address: MemoryOperand, count: usize) {
        let (first, last) = match count {
            1 => (Lane::I8, Lane::I8),
            2 => (Lane::I16, Lane::I16),
            3 => (Lane::I16, Lane::I8),
            4..8 => (Lane::I32, Lane::I32),
            _ => (Lane::I64, Lane::I64),
        };
        let mut copy = |offset: usize, lane: Lane| {
            let value = self.int_at(MemoryOperand::frame(APART), offset, lane);
            let displacement = address.displacement + offset as i32;
            let to = MemoryOperand { displacement, ..address };
            self.builder.effect(Inst::new(Opcode::IntStore, lane, &[value]).address(to));
        };
        copy(0, first);
        if count > first.bytes() {
            copy(count - last.bytes(), last);
        }
    }

    /// Stores neighbouring elements one by one.
    fn store_each(
        &mut self,
        buffer: BufferId,
        address: MemoryOperand,
        value: Evaluated,
        mask: Mask,
        lanes: usize,
    ) {
        let bytes = self.element_bytes(buffer) as i64;
        let first = Inst::new(Opcode::Lea, Lane::I64, &[]).address(address);
        let first = self.builder.emit(first, RegisterType::Int);
        let place = |lane| MemoryOperand::new(first, (lane * bytes) as i32);
        let addresses: Vec<MemoryOperand> = (0..lanes as i64).map(place).collect();
        self.store_lane_by_lane(buffer, &addresses, value, mask);
    }

    /// Goes into the arm that is run where all lanes are on.
    pub(super) fn if_all_are_on(&mut self, mask: Mask, lanes: usize) -> Branching {
        let bits = self.mask_as_bits(mask, lanes);
        let all = IntOperand::Imm(all_lanes(lanes) as i32);
        self.builder.open_branch(Cond::Equal, bits, all)
    }
}

/// How many lanes are on, if it is known that they are the first ones.
fn first_lanes(mask: Mask) -> Option<usize> {
    let Mask::Constant(bits) = mask else { return None };
    let count = bits.trailing_ones() as usize;
    (count > 0 && bits == all_lanes(count)).then_some(count)
}
