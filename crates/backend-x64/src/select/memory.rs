//! Loads and stores.
//!
//! In a `Vector` loop an access is uniform (one element for all lanes), contiguous, of every second
//! element (`strided`), of elements at constant distances (`scattered`), a gather, or done lane by
//! lane by way of the frame. Accesses are limited to the lanes that the tail and the guards in
//! force leave on: by masks; where there is one address for all lanes, by reading from the frame
//! instead when no lane is on.
//!
//! Loaded values are remembered, a few of them, until their buffer is written or a loop begins.

use loops::{BufferId, Loop, Scope, Stmt};
use sym::Expr;
use tensor::DType;

use super::Selector;
use super::index::Linear;
use super::plan::{self, SCRATCH_UNIT};
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

/// A loaded value that may be asked for again.
pub(crate) struct Loaded {
    inst: Inst,
    pub(crate) value: VRegId,
    buffer: BufferId,
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
        let in_frame = inst.address.is_some_and(|address| address.base == Base::Frame);
        let known = |known: &Loaded| {
            known.buffer == buffer
                && known.inst.address == inst.address
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
        if self.loaded.len() >= self.most_loaded {
            // What the turns of a loop shared that is written is of no more use, as a rule: rows
            // of a tile have a factor each for all of their vectors.
            let over = |known: &Loaded| known.shared_by.is_some_and(|by| self.turns.is_over(by));
            let first = self.loaded.iter().position(over).unwrap_or(0);
            self.loaded.remove(first);
        }
        let asked = self.turns.now();
        self.loaded.push(Loaded { inst, value, buffer, asked, shared_by: None });
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
        self.loaded.retain(|loaded| loaded.buffer != buffer);
        self.blocks.retain(|block| block.buffer != buffer);
    }

    /// Forgets all that was loaded.
    pub(super) fn forget_all(&mut self) {
        self.loaded.clear();
        self.blocks.clear();
        self.asked.clear();
    }

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
