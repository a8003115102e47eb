//! Neighbouring elements of less than 32 bits of which some lanes are off, where the instruction
//! set has no masks for them (AVX2).
//!
//! Where it is known which lanes are on, and they are neighbours, their bytes are moved eight or
//! four at a time, of which the last overlap those before. Otherwise all lanes are on as a rule:
//! that is asked first.

use loops::BufferId;
use tensor::DType;

use super::Selector;
use super::build::Branching;
use super::memory::{memory_lane, widened_lane};
use super::value::{Evaluated, Item, Mask, Vector, all_lanes, register_type};
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
        if let Some(run) = run_of(mask) {
            let widened = self.load_run(buffer, address, run, lanes);
            return self.element_of_widened(widened, self.kernel.buffers[buffer].dtype);
        }
        if let Mask::Constant(_) = mask {
            let place = |offset: &i64| behind(address, *offset as usize);
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

    /// Neighbouring elements in so many lanes from one on, widened as [`Self::load_widened`] does;
    /// zeros in the others. The address is that of lane 0.
    pub(super) fn load_run(
        &mut self,
        buffer: BufferId,
        address: MemoryOperand,
        (first, count): (usize, usize),
        lanes: usize,
    ) -> Vector {
        if count == lanes {
            return self.load_widened(buffer, address, Mask::Constant(all_lanes(lanes)), lanes);
        }
        let dtype = self.kernel.buffers[buffer].dtype;
        let lane = widened_lane(dtype);
        let ty = register_type(lane, lanes);
        let load = Inst::new(Opcode::Load, memory_lane(dtype), &[]);
        // It stands for what is made of several loads.
        let name = load.clone().address(address).imm((first << 8 | count) as i64);
        let value = self.remembered(&name, ty, buffer).unwrap_or_else(|| {
            let element = self.element_bytes(buffer);
            let packed = self.bytes_in_vector(address, first * element, count * element);
            let widen = match dtype {
                DType::F16 => Inst::new(Opcode::F16ToF32, Lane::F32, &[packed]),
                _ => Inst::new(Opcode::Widen, memory_lane(dtype), &[packed]),
            };
            let value = self.builder.emit(widen, ty);
            self.remember(name, value, buffer);
            value
        });
        Vector { item: Item::Register(value), lane, lanes }
    }

    /// So many bytes, up to sixteen, from one on, where they stand behind an address; zeros in the
    /// others.
    fn bytes_in_vector(&mut self, address: MemoryOperand, first: usize, count: usize) -> VRegId {
        let from = behind(address, first);
        let packed = if count <= 8 {
            let word = self.first_bytes(from, count);
            self.vector_of_word(word)
        } else {
            let low = Inst::new(Opcode::LoadLane, Lane::I64, &[]).address(from);
            let low = self.builder.emit(low, RegisterType::V128);
            let last = self.int_at(from, count - 8, Lane::I64);
            let shift = 8 * (16 - count) as i64;
            let rest = self.builder.int_imm(Opcode::IntShrImm, last, shift);
            let rest = self.vector_of_word(rest);
            let both = Inst::new(Opcode::UnpackLow, Lane::F64, &[low, rest]);
            self.builder.emit(both, RegisterType::V128)
        };
        match first {
            0 => packed,
            _ => self.moved_bytes(packed, -(first as i64)),
        }
    }

    fn vector_of_word(&mut self, word: VRegId) -> VRegId {
        let inst = Inst::new(Opcode::VectorFromInt, Lane::I64, &[word]);
        self.builder.emit(inst, RegisterType::V128)
    }

    /// Sixteen bytes, each that so many places further on, zeros where there is none.
    fn moved_bytes(&mut self, value: VRegId, by: i64) -> VRegId {
        let from = |place: i64| u8::try_from(place + by).ok().filter(|from| *from < 16);
        let pattern: Vec<u8> = (0..16).map(|place| from(place).unwrap_or(0xff)).collect();
        let pool = self.builder.pool(pattern);
        let inst = Inst::new(Opcode::ShuffleBytes, Lane::I32, &[value]);
        let inst = inst.address(MemoryOperand::pool(pool, false));
        self.builder.emit(inst, RegisterType::V128)
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
        let inst = Inst::new(Opcode::IntLoad, lane, &[]).address(behind(address, offset));
        self.builder.emit(inst, RegisterType::Int)
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
        if let Some((first, count)) = run_of(mask) {
            let element = self.element_bytes(buffer);
            let mut packed = self.packed_elements(value, self.kernel.buffers[buffer].dtype);
            if first > 0 {
                packed = self.moved_bytes(packed, (first * element) as i64);
            }
            let address = behind(address, first * element);
            return self.store_first_bytes(address, packed, count * element);
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

    /// Stores so many bytes of a vector, up to sixteen.
    fn store_first_bytes(&mut self, address: MemoryOperand, packed: VRegId, count: usize) {
        if count >= 8 {
            let store = |selector: &mut Self, value: VRegId, offset: usize| {
                let inst = Inst::new(Opcode::StoreLane, Lane::I64, &[value]);
                selector.builder.effect(inst.address(behind(address, offset)));
            };
            store(self, packed, 0);
            if count > 8 {
                let last = self.moved_bytes(packed, count as i64 - 8);
                store(self, last, count - 8);
            }
            return;
        }
        let (first, last) = match count {
            1 => (Lane::I8, Lane::I8),
            2 => (Lane::I16, Lane::I16),
            3 => (Lane::I16, Lane::I8),
            _ => (Lane::I32, Lane::I32),
        };
        let word = Inst::new(Opcode::IntFromVector, Lane::I64, &[packed]);
        let word = self.builder.emit(word, RegisterType::Int);
        let store = |selector: &mut Self, value: VRegId, offset: usize, lane: Lane| {
            let inst = Inst::new(Opcode::IntStore, lane, &[value]);
            selector.builder.effect(inst.address(behind(address, offset)));
        };
        store(self, word, 0, first);
        let begin = count - last.bytes();
        if begin > 0 {
            let rest = self.builder.int_imm(Opcode::IntShrImm, word, 8 * begin as i64);
            store(self, rest, begin, last);
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

    /// Narrow elements side by side in a register of 128 bits.
    fn packed_elements(&mut self, value: Evaluated, dtype: DType) -> VRegId {
        if let Evaluated::Vector(vector @ Vector { item: Item::Register(value), .. }) = value
            && dtype == DType::BF16
        {
            // What is cut off below them need not be.
            let uncut = self.uncut[value].filter(|&uncut| self.builder.is_visible(uncut));
            let item = Item::Register(uncut.unwrap_or(value));
            return self.bytes_of_lanes(Vector { item, ..vector }, &[2, 3]);
        }
        let raw = self.raw_of(value, dtype);
        if dtype != DType::F16 {
            return self.low_bytes(raw, dtype.bits());
        }
        let halves = self.half_of(raw);
        self.register(halves)
    }

    /// The low bytes of 32-bit lanes side by side, without instructions for it (AVX2).
    pub(super) fn low_bytes(&mut self, raw: Vector, bits: u32) -> VRegId {
        self.bytes_of_lanes(raw, if bits == 8 { &[0] } else { &[0, 1] })
    }

    /// These bytes of each 32-bit lane, one lane's or two, side by side.
    fn bytes_of_lanes(&mut self, raw: Vector, bytes: &[u8]) -> VRegId {
        let value = self.register(raw);
        let ty = self.builder.type_of(value);
        let lanes = (0..16).step_by(4);
        let mut pattern: Vec<u8> =
            lanes.flat_map(|first| bytes.iter().map(move |byte| first + byte)).collect();
        pattern.resize(16, 255);
        let pool = self.builder.pool(pattern.repeat(2));
        let inst = Inst::new(Opcode::ShuffleBytes, Lane::I32, &[value])
            .address(MemoryOperand::pool(pool, false));
        let mut packed = self.builder.emit(inst, ty);
        if ty == RegisterType::V256 {
            let order: &[u64] = match bytes.len() {
                1 => &[0, 4, 1, 2, 3, 5, 6, 7],
                _ => &[0, 1, 4, 5, 2, 3, 6, 7],
            };
            let order = self.lane_constants(order, Lane::I32);
            let order = self.register(order);
            let inst = Inst::new(Opcode::Permute, Lane::I32, &[order, packed]);
            let moved = self.builder.emit(inst, RegisterType::V256);
            packed =
                self.builder.emit(Inst::new(Opcode::Low, Lane::I32, &[moved]), RegisterType::V128);
        }
        packed
    }

    /// Stores narrow elements of 32-bit lanes side by side (AVX2).
    pub(super) fn store_packed(
        &mut self,
        address: MemoryOperand,
        value: Evaluated,
        dtype: DType,
        lanes: usize,
    ) {
        let packed = self.packed_elements(value, dtype);
        let (op, lane) = match lanes * dtype.bits() as usize {
            32 => (Opcode::StoreLane, Lane::I32),
            64 => (Opcode::StoreLane, Lane::I64),
            _ => (Opcode::Store, Lane::I32),
        };
        self.builder.effect(Inst::new(op, lane, &[packed]).address(address));
    }

    /// Goes into the arm that is run where all lanes are on.
    pub(super) fn if_all_are_on(&mut self, mask: Mask, lanes: usize) -> Branching {
        let bits = self.mask_as_bits(mask, lanes);
        let all = IntOperand::Imm(all_lanes(lanes) as i32);
        self.builder.open_branch(Cond::Equal, bits, all)
    }
}

/// The first lane that is on and how many are, if it is known that they are neighbours.
fn run_of(mask: Mask) -> Option<(usize, usize)> {
    let Mask::Constant(bits) = mask else { return None };
    let first = bits.trailing_zeros() as usize;
    let count = bits.checked_shr(first as u32)?.trailing_ones() as usize;
    (count > 0 && bits == all_lanes(count) << first).then_some((first, count))
}

fn behind(address: MemoryOperand, bytes: usize) -> MemoryOperand {
    MemoryOperand { displacement: address.displacement + bytes as i32, ..address }
}
