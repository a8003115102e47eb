//! Loads, and what loads and stores have in common.
//!
//! In a `Vector` loop an access is uniform (one element for all lanes), contiguous, of every second
//! element or backwards (`strided`), of elements at constant distances (`scattered`), a gather, or
//! done lane by lane by way of the frame. Accesses are limited to the lanes that the tail and the
//! guards in force leave on: by masks; where there is one address for all lanes, by reading from
//! the frame instead when no lane is on.
//!
//! Loaded values are remembered, a few of them, until their buffer is written or a loop begins.

use loops::{BufferId, Loop, Scope, Stmt};
use sym::Expr;
use tensor::DType;

use super::Selector;
use super::index::Linear;
use super::instruction::Taken;
use super::value::{Carrier, Evaluated, Item, Mask, Vector, all_lanes, carrier, register_type};
use crate::vcode::{Base, Inst, Lane, MemoryOperand, Opcode, RegisterType, VRegId};

/// Where the frame's area may be read or written in vain.
const NOWHERE: i32 = 192;
/// Where lanes are collected.
pub(crate) const COLLECT: i32 = 0;
/// Where lanes are taken apart.
pub(crate) const APART: i32 = 64;

/// Bytes of a cache line.
const LINE: i32 = 64;

/// Bits of what lies at a place of a buffer, with which others are joined.
#[derive(PartialEq)]
pub(super) struct Part {
    pub(super) buffer: BufferId,
    pub(super) load: Inst,
    pub(super) taken: Taken,
}

/// A loaded value that may be asked for again.
pub(crate) struct Loaded {
    inst: Inst,
    pub(crate) value: VRegId,
    buffer: BufferId,
    /// What it was joined of, if it is not what lies in one place.
    parts: Vec<Part>,
    /// When it was asked for last.
    asked: u32,
    /// The loop that is written out of which several turns asked for it, if there is one: what that
    /// began with.
    shared_by: Option<u32>,
}

impl Selector<'_> {
    pub(crate) fn element_bytes(&self, buffer: BufferId) -> usize {
        self.kernel.buffers[buffer].dtype.bytes().unwrap_or(1)
    }

    /// `buffer[index]` in this many lanes.
    pub(crate) fn load(
        &mut self,
        buffer: BufferId,
        index: &[Expr],
        lanes: usize,
    ) -> base::Result<Evaluated> {
        let dtype = self.kernel.buffers[buffer].dtype;
        if carrier(dtype).is_none() {
            return Err(self.unsupported_type(dtype));
        }
        if self.kernel.buffers[buffer].scope == Scope::Register {
            return self.read_register(buffer, index, lanes);
        }
        let linear = self.linear(buffer, index);
        if let Some(pair) = self.load_from_pair(buffer, &linear, lanes) {
            return Ok(pair);
        }
        if lanes == 1 || linear.lane_step == 0 && !linear.irregular {
            return Ok(self.load_uniform(buffer, &linear, lanes));
        }
        let bytes = self.element_bytes(buffer) as i64;
        let step = (!linear.irregular).then_some(linear.lane_step);
        let mask = self.active_mask(lanes);
        let can_mask = self.builder.has_masks() || bytes >= 4;
        // What is loaded where a condition fails that is the same for all lanes, nobody uses.
        let rest = self.active_rest(lanes);
        if step == Some(bytes) && (can_mask || rest == Mask::Constant(all_lanes(lanes))) {
            let address = self.address_under_guards(buffer, &linear);
            return Ok(self.load_contiguous(buffer, address, rest, lanes));
        }
        if step == Some(bytes) {
            // Where it is known which lanes are on, all that is loaded lies side by side.
            let (address, mask) = match rest {
                Mask::Constant(_) => (self.address_under_guards(buffer, &linear), rest),
                Mask::Register(..) => (self.address(buffer, &linear), mask),
            };
            return Ok(self.load_some(buffer, address, mask, lanes));
        }
        if let Some(column) = self.load_transposed(buffer, index, &linear, mask, lanes) {
            return Ok(column);
        }
        if let Some(values) = self.load_every_second(buffer, &linear, rest, lanes) {
            return Ok(values);
        }
        if let Some(values) = self.load_backwards(buffer, &linear, rest, lanes) {
            return Ok(values);
        }
        if let Some(step) = step {
            let offsets: Vec<i64> = (0..lanes as i64).map(|lane| lane * step).collect();
            let address = self.address(buffer, &linear);
            return Ok(self.load_scattered(buffer, address, &offsets, mask, lanes));
        }
        if let Some(offsets) = self.lane_offsets(buffer, index, lanes) {
            if let Some(values) = self.load_of_rows(buffer, index, &offsets, mask) {
                return Ok(values);
            }
            let address = self.first_address(buffer, index);
            if offsets.iter().all(|offset| *offset == 0) && mask == Mask::Constant(all_lanes(lanes))
            {
                let one = self.load_element(buffer, dtype, address);
                return Ok(self.broadcast(one, lanes));
            }
            let in_order = (0..lanes as i64).map(|lane| lane * bytes).eq(offsets.iter().copied());
            if in_order && (can_mask || mask == Mask::Constant(all_lanes(lanes))) {
                return Ok(self.load_contiguous(buffer, address, mask, lanes));
            }
            if let Some(values) = self.load_neighbours(buffer, address, &offsets, mask) {
                return Ok(values);
            }
            return Ok(self.load_scattered(buffer, address, &offsets, mask, lanes));
        }
        if let Some(values) = self.load_wrapped(buffer, index, mask, lanes) {
            return Ok(values);
        }
        if let Some(values) = self.load_gathered(buffer, &linear, mask, lanes) {
            return Ok(values);
        }
        let addresses = self.each_lane(lanes, |selector, _| {
            MemoryOperand::new(selector.lane_address(buffer, index), 0)
        });
        Ok(self.load_lane_by_lane(buffer, &addresses, mask))
    }

    /// One element, in one lane or in all.
    fn load_uniform(&mut self, buffer: BufferId, linear: &Linear, lanes: usize) -> Evaluated {
        let address = self.address(buffer, linear);
        let address = self.safe_address(address);
        self.load_uniform_at(buffer, address, lanes)
    }

    /// The element at an address, in one lane or in all.
    pub(crate) fn load_uniform_at(
        &mut self,
        buffer: BufferId,
        address: MemoryOperand,
        lanes: usize,
    ) -> Evaluated {
        let dtype = self.kernel.buffers[buffer].dtype;
        if let (Some(Carrier::Lane(lane)), true) = (carrier(dtype), dtype.bits() >= 32 && lanes > 1)
        {
            let inst = Inst::new(Opcode::LoadBroadcast, lane, &[]).address(address);
            let value = self.load_inst(inst, register_type(lane, lanes), buffer);
            return Evaluated::Vector(Vector { item: Item::Register(value), lane, lanes });
        }
        if matches!(dtype, DType::BF16 | DType::F16) && lanes > 1 {
            return self.load_uniform_short(buffer, address, lanes);
        }
        let one = self.load_element(buffer, dtype, address);
        self.broadcast(one, lanes)
    }

    /// The short float at an address, in all lanes: repeated before it is widened, where that takes
    /// fewer instructions. Halves are widened to 512 bits at half the rate of shorter registers.
    fn load_uniform_short(
        &mut self,
        buffer: BufferId,
        address: MemoryOperand,
        lanes: usize,
    ) -> Evaluated {
        let ty = register_type(Lane::F32, lanes);
        let inst = Inst::new(Opcode::LoadBroadcast, Lane::I16, &[]).address(address);
        if self.kernel.buffers[buffer].dtype == DType::BF16 {
            let item = Item::Register(self.load_inst(inst, ty, buffer));
            return self.element_of_raw(Vector { item, lane: Lane::I32, lanes }, DType::BF16);
        }
        let half = self.load_inst(inst, RegisterType::V128, buffer);
        let widened = if ty == RegisterType::V512 { RegisterType::V128 } else { ty };
        let inst = Inst::new(Opcode::F16ToF32, Lane::F32, &[half]);
        let item = Item::Register(self.builder.emit(inst, widened));
        let own = Vector { item, lane: Lane::F32, lanes: lanes.min(widened.vector_bytes() / 4) };
        Evaluated::Vector(self.broadcast_vector(own, lanes))
    }

    /// The address if any lane is on, else one that may be read.
    pub(super) fn safe_address(&mut self, address: MemoryOperand) -> MemoryOperand {
        let Some(any) = self.any_lane() else { return address };
        let inst = Inst::new(Opcode::Lea, Lane::I64, &[]).address(address);
        let address = self.builder.emit(inst, RegisterType::Int);
        self.address_if(any, address)
    }

    /// The address if the conditions around that are the same for all lanes hold, else one that may
    /// be touched: under an empty mask, too, an address outside of all memory costs hundreds of
    /// cycles.
    pub(super) fn address_under_guards(
        &mut self,
        buffer: BufferId,
        linear: &Linear,
    ) -> MemoryOperand {
        let address = self.address(buffer, linear);
        let Some(condition) = self.exec.and_then(|on| on.uniform) else { return address };
        let inst = Inst::new(Opcode::Lea, Lane::I64, &[]).address(address);
        let address = self.builder.emit(inst, RegisterType::Int);
        self.address_if(condition, address)
    }

    /// The address if `condition` is nonzero, else one in the frame.
    pub(super) fn address_if(&mut self, condition: VRegId, address: VRegId) -> MemoryOperand {
        let nowhere = Inst::new(Opcode::Lea, Lane::I64, &[]).address(MemoryOperand::frame(NOWHERE));
        let nowhere = self.builder.emit(nowhere, RegisterType::Int);
        let chosen = self.builder.int(Opcode::IntSelect, &[address, nowhere, condition]);
        MemoryOperand::new(chosen, 0)
    }

    /// One element in one lane.
    pub(crate) fn load_element(
        &mut self,
        buffer: BufferId,
        dtype: DType,
        address: MemoryOperand,
    ) -> Evaluated {
        if dtype.bits() >= 32 {
            let Some(Carrier::Lane(lane)) = carrier(dtype) else { unreachable!("a wide bool") };
            let inst = Inst::new(Opcode::LoadLane, lane, &[]).address(address);
            let value = self.load_inst(inst, RegisterType::V128, buffer);
            return Evaluated::Vector(Vector { item: Item::Register(value), lane, lanes: 1 });
        }
        let lane = memory_lane(dtype);
        let lane = if lane == Lane::F16 { Lane::U16 } else { lane };
        let inst = Inst::new(Opcode::IntLoad, lane, &[]).address(address);
        let int = self.load_inst(inst, RegisterType::Int, buffer);
        let raw = self.vector_of_int(int, Lane::I32);
        self.element_of_raw(raw, dtype)
    }

    /// 32-bit lanes that hold a narrow element's bits (integers extended) as the element.
    pub(super) fn element_of_raw(&mut self, raw: Vector, dtype: DType) -> Evaluated {
        match dtype {
            DType::F16 => {
                // Only ever one lane: vectors of f16 are converted as they are loaded.
                Evaluated::Vector(self.convert_op(Opcode::F16ToF32, raw, Lane::F32))
            }
            DType::BF16 => {
                let shifted = self.unary(Opcode::ShlImm, Self::cast_lane(raw, Lane::I32), 16);
                Evaluated::Vector(Self::cast_lane(shifted, Lane::F32))
            }
            DType::Bool => {
                let lanes = raw.lanes;
                Evaluated::Mask(self.nonzero(raw), lanes)
            }
            _ => Evaluated::Vector(raw),
        }
    }

    pub(crate) fn load_contiguous(
        &mut self,
        buffer: BufferId,
        address: MemoryOperand,
        mask: Mask,
        lanes: usize,
    ) -> Evaluated {
        let widened = self.load_widened(buffer, address, mask, lanes);
        self.element_of_widened(widened, self.kernel.buffers[buffer].dtype)
    }

    /// Neighbouring elements as a load widens them: halves as f32, other narrow elements' bits as
    /// integers, extended.
    pub(super) fn load_widened(
        &mut self,
        buffer: BufferId,
        address: MemoryOperand,
        mask: Mask,
        lanes: usize,
    ) -> Vector {
        let dtype = self.kernel.buffers[buffer].dtype;
        let lane = widened_lane(dtype);
        let mask = self.mask_operand(mask, lanes, lane.bytes());
        let inst = Inst::new(Opcode::Load, memory_lane(dtype), &[]).address(address).mask(mask);
        let value = self.load_inst(inst, register_type(lane, lanes), buffer);
        Vector { item: Item::Register(value), lane, lanes }
    }

    /// The element that [`Self::load_widened`] has widened.
    pub(super) fn element_of_widened(&mut self, widened: Vector, dtype: DType) -> Evaluated {
        match dtype {
            DType::F16 => Evaluated::Vector(widened),
            _ => self.element_of_raw(widened, dtype),
        }
    }

    /// Elements at constant distances.
    pub(super) fn load_scattered(
        &mut self,
        buffer: BufferId,
        address: MemoryOperand,
        offsets: &[i64],
        mask: Mask,
        lanes: usize,
    ) -> Evaluated {
        let dtype = self.kernel.buffers[buffer].dtype;
        let fits = offsets.iter().all(|offset| i32::try_from(*offset).is_ok());
        let wide = dtype.bits() >= 32;
        let indices: Vec<u64> = offsets.iter().map(|offset| *offset as u64).collect();
        if !wide
            && fits
            && let Some(values) = self.load_narrow_one_by_one(buffer, address, offsets, mask)
        {
            return values;
        }
        if !wide && fits {
            let offsets = self.lane_constants(&indices, Lane::I32);
            if let Some(values) = self.gather_narrow(buffer, address, offsets, mask) {
                return values;
            }
        }
        let Some(Carrier::Lane(lane)) = carrier(dtype).filter(|_| wide && fits) else {
            let pointer = self
                .builder
                .emit(Inst::new(Opcode::Lea, Lane::I64, &[]).address(address), RegisterType::Int);
            let addresses: Vec<MemoryOperand> = offsets
                .iter()
                .map(|offset| match i32::try_from(*offset) {
                    Ok(offset) => MemoryOperand::new(pointer, offset),
                    Err(_) => MemoryOperand::new(self.builder.add_imm(pointer, *offset), 0),
                })
                .collect();
            return self.load_lane_by_lane(buffer, &addresses, mask);
        };
        if let Some(values) = self.load_one_by_one(buffer, address, offsets, lane, mask) {
            return values;
        }
        let index = self.lane_constants(&indices, Lane::I32);
        let index = self.register(index);
        let ty = register_type(lane, lanes);
        let zero = self.builder.emit(Inst::new(Opcode::Zero, lane, &[]), ty);
        let mask = self.mask_register(mask, lanes, lane.bytes());
        let inst = Inst::new(Opcode::Gather, lane, &[zero, index, mask]).imm(1).address(address);
        let value = self.load_inst(inst, ty, buffer);
        Evaluated::Vector(Vector { item: Item::Register(value), lane, lanes })
    }

    /// An element an address, collected in the frame.
    pub(super) fn load_lane_by_lane(
        &mut self,
        buffer: BufferId,
        addresses: &[MemoryOperand],
        mask: Mask,
    ) -> Evaluated {
        let dtype = self.kernel.buffers[buffer].dtype;
        let memory = match memory_lane(dtype) {
            Lane::F16 => Lane::U16,
            Lane::F32 => Lane::U32,
            lane => lane,
        };
        let bits = self.lane_bits(mask, addresses.len());
        // Halves stay narrow, so that the collected vector can be converted as it is loaded.
        let slot = match dtype {
            DType::F16 => Lane::U16,
            _ if dtype.bits() == 64 => Lane::I64,
            _ => Lane::I32,
        };
        for (lane, address) in addresses.iter().enumerate() {
            let place = MemoryOperand::frame(COLLECT + (lane * slot.bytes()) as i32);
            let value = match bits.of(lane) {
                LaneBit::Off => self.builder.int_const(0),
                LaneBit::On => self.load_int(buffer, memory, *address),
                LaneBit::Dynamic(bits) => {
                    let bit = self.builder.int_imm(Opcode::IntAndImm, bits, 1 << lane);
                    let pointer = self.builder.emit(
                        Inst::new(Opcode::Lea, Lane::I64, &[]).address(*address),
                        RegisterType::Int,
                    );
                    let address = self.address_if(bit, pointer);
                    self.load_int(buffer, memory, address)
                }
            };
            self.builder.effect(Inst::new(Opcode::IntStore, slot, &[value]).address(place));
        }
        let lanes = addresses.len();
        let carried = match carrier(dtype) {
            Some(Carrier::Lane(lane)) => lane,
            _ => Lane::I32,
        };
        let lane = if dtype == DType::F16 { Lane::F16 } else { carried };
        let inst = Inst::new(Opcode::Load, lane, &[]).address(MemoryOperand::frame(COLLECT));
        let value = self.builder.emit(inst, register_type(carried, lanes));
        self.element_of_widened(Vector { item: Item::Register(value), lane: carried, lanes }, dtype)
    }

    fn load_int(&mut self, buffer: BufferId, lane: Lane, address: MemoryOperand) -> VRegId {
        let inst = Inst::new(Opcode::IntLoad, lane, &[]).address(address);
        self.load_inst(inst, RegisterType::Int, buffer)
    }

    /// Emits a load unless its value is remembered.
    pub(super) fn load_inst(&mut self, inst: Inst, ty: RegisterType, buffer: BufferId) -> VRegId {
        if let Some(value) = self.remembered(&inst, ty, buffer) {
            return value;
        }
        let value = self.builder.emit(inst.clone(), ty);
        self.remember(inst, value, buffer);
        value
    }

    /// What an instruction has loaded, or one that stands for what was made of that.
    pub(super) fn remembered(
        &mut self,
        inst: &Inst,
        ty: RegisterType,
        buffer: BufferId,
    ) -> Option<VRegId> {
        self.remembered_of(inst, ty, buffer, &[])
    }

    /// The same, where it was joined of parts.
    pub(super) fn remembered_of(
        &mut self,
        inst: &Inst,
        ty: RegisterType,
        buffer: BufferId,
        parts: &[Part],
    ) -> Option<VRegId> {
        let in_frame = inst.address.is_some_and(|address| address.base == Base::Frame);
        let known = |known: &Loaded| {
            known.buffer == buffer
                && known.inst.address == inst.address
                && known.parts == parts
                && known.inst == *inst
                && self.builder.type_of(known.value) == ty
        };
        let position = self.loaded.iter().position(known).filter(|_| !in_frame)?;
        let mut known = self.loaded.remove(position);
        let value = known.value;
        let asked = std::mem::replace(&mut known.asked, self.turns.now());
        known.shared_by = self.turns.shared_since(asked).or(known.shared_by);
        self.loaded.push(known);
        Some(value)
    }

    pub(super) fn remember(&mut self, inst: Inst, value: VRegId, buffer: BufferId) {
        self.remember_of(inst, value, buffer, Vec::new());
    }

    pub(super) fn remember_of(
        &mut self,
        inst: Inst,
        value: VRegId,
        buffer: BufferId,
        parts: Vec<Part>,
    ) {
        if self.loaded.len() >= self.most_loaded {
            // What the turns of a loop shared that is written is of no more use, as a rule: rows
            // of a tile have a factor each for all of their vectors.
            let over = |known: &Loaded| known.shared_by.is_some_and(|by| self.turns.is_over(by));
            let first = self.loaded.iter().position(over).unwrap_or(0);
            self.loaded.remove(first);
        }
        let asked = self.turns.now();
        self.loaded.push(Loaded { inst, value, buffer, parts, asked, shared_by: None });
    }

    /// Where a vector's lanes still lie side by side in memory, as they are in it.
    pub(super) fn loaded_whole(&self, vector: Vector) -> Option<MemoryOperand> {
        let Item::Register(value) = vector.item else { return None };
        let (bytes, all) = (vector.lane.bytes(), vector.lane.bytes() * vector.lanes);
        let is_it = |known: &&Loaded| {
            let inst = &known.inst;
            known.value == value
                && inst.op == Opcode::Load
                && inst.mask.is_none()
                && inst.lane.bytes() == bytes
                && self.element_bytes(known.buffer) == bytes
        };
        let address = self.loaded.iter().find(is_it)?.inst.address?;
        let is_whole = self.builder.type_of(value).vector_bytes() == all;
        let reaches = i32::try_from(all).ok().and_then(|all| address.displacement.checked_add(all));
        (is_whole && reaches.is_some()).then_some(address)
    }

    /// Asks for the line of an element, or for the lines of those that lie side by side in the
    /// lanes: of vectors that share a line the first does. In code that runs from one end to the
    /// other a line is asked for once.
    pub(super) fn ask_for(&mut self, buffer: BufferId, index: &[Expr]) {
        let linear = self.linear(buffer, index);
        let apart = linear.lane_step;
        if linear.irregular || !(0..i64::from(LINE)).contains(&apart) {
            return;
        }
        let bytes = apart as i32 * self.vector_lanes() as i32;
        let first = self.address(buffer, &linear);
        if bytes > 0 && first.displacement.rem_euclid(LINE) >= bytes {
            return;
        }
        for line in (0..bytes.max(1)).step_by(LINE as usize) {
            let Some(displacement) = first.displacement.checked_add(line) else { return };
            let own = (first.base, displacement.div_euclid(LINE));
            if !self.asked.contains(&own) {
                self.asked.push(own);
                let address = MemoryOperand { displacement, ..first };
                self.builder.effect(Inst::new(Opcode::Prefetch, Lane::I8, &[]).address(address));
            }
        }
    }

    /// Asks for what a vector loop of so many turns, of which these are statements, asks for.
    pub(super) fn ask_for_each(&mut self, inner: &Loop, extent: i64, block: &[Stmt]) {
        let lanes = self.plan.lanes[inner.variable] as i64;
        for stmt in block {
            let Stmt::Prefetch { buffer, index } = stmt else { continue };
            for first in (0..extent).step_by(lanes as usize) {
                self.within(inner, first, |selector| selector.ask_for(*buffer, index));
            }
        }
    }

    /// Forgets what was loaded from a buffer.
    pub(crate) fn forget(&mut self, buffer: BufferId) {
        let apart = |loaded: &Loaded| loaded.parts.iter().all(|part| part.buffer != buffer);
        self.loaded.retain(|loaded| loaded.buffer != buffer && apart(loaded));
        self.blocks.retain(|block| block.buffer != buffer);
    }

    /// Forgets all that was loaded.
    pub(super) fn forget_all(&mut self) {
        self.loaded.clear();
        self.blocks.clear();
        self.asked.clear();
    }

    /// What is known about each lane of a mask.
    pub(crate) fn lane_bits(&mut self, mask: Mask, lanes: usize) -> LaneBits {
        match mask {
            Mask::Constant(bits) => LaneBits { constant: Some(bits), dynamic: None },
            Mask::Register(..) => {
                LaneBits { constant: None, dynamic: Some(self.mask_as_bits(mask, lanes)) }
            }
        }
    }
}

/// The lanes of a mask, known now or when running.
pub(crate) struct LaneBits {
    constant: Option<u32>,
    dynamic: Option<VRegId>,
}

/// Whether a lane is on.
pub(crate) enum LaneBit {
    On,
    Off,
    /// If its bit is set in this integer.
    Dynamic(VRegId),
}

impl LaneBits {
    pub(crate) fn of(&self, lane: usize) -> LaneBit {
        match (self.constant, self.dynamic) {
            (Some(bits), _) if bits >> lane & 1 == 0 => LaneBit::Off,
            (_, Some(bits)) => LaneBit::Dynamic(bits),
            _ => LaneBit::On,
        }
    }
}

/// The lanes that loaded elements of a type are widened to.
pub(super) fn widened_lane(dtype: DType) -> Lane {
    match carrier(dtype) {
        Some(Carrier::Lane(lane)) => lane,
        _ => Lane::I32,
    }
}

/// How elements of a type are loaded and extended.
pub(crate) fn memory_lane(dtype: DType) -> Lane {
    match dtype {
        DType::F64 => Lane::F64,
        DType::F32 => Lane::F32,
        DType::F16 => Lane::F16,
        DType::BF16 | DType::U16 => Lane::U16,
        DType::I64 | DType::U64 => Lane::I64,
        DType::I32 | DType::U32 => Lane::I32,
        DType::I16 => Lane::I16,
        DType::I8 => Lane::I8,
        _ => Lane::U8,
    }
}
