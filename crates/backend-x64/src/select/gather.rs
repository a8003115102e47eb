//! Indices that are values, one a lane: checked all at once, and what is read at them gathered.
//!
//! A lane's place is what is the same for all lanes, an address, and a sum of multiples of such
//! indices, 32-bit offsets from there. Of a short row all is loaded, and the lanes are permuted
//! from that, which costs less than eight loads; of bytes up to 256, which is a table of all that a
//! byte may become. Other narrow elements are taken out of words of 32 bits
//! that are gathered, none of which reaches beyond its buffer. What no instruction gathers (places
//! that are no such sums, buffers of 2 GiB) takes the indices apart, and loads lane by lane.

use loops::{BufferId, Comparison};
use sym::{Expr, Range, SymbolId};
use tensor::DType;

use super::Selector;
use super::index::{Binding, Factor, LaneIndex, Linear};
use super::memory::{APART, COLLECT, LaneBit};
use super::value::{Carrier, Evaluated, Item, Mask, Vector, all_lanes, carrier, register_type};
use crate::vcode::{Cond, Inst, IntOperand, Lane, MemoryOperand, Opcode, RegisterType, VRegId};

/// Lanes of 32 bits of the longest vectors.
const LANES: usize = 16;

/// Bytes of the shortest vectors.
const SHORTEST: usize = 16;

/// The most elements of a row that is held in registers.
const MOST_PERMUTED: usize = 8 * LANES;

/// Bytes of a register, of which two are looked up in at once, and the most bytes of a table.
const TABLE_PART: usize = 64;
const MOST_BYTES: usize = 256;

impl Selector<'_> {
    /// Binds a symbol to an index a lane, which is checked unless all integers of the type that it
    /// is made of are in its range.
    pub(super) fn bind_lanes(
        &mut self,
        symbol: SymbolId,
        vector: Vector,
        range: Range,
        made_of: Option<DType>,
    ) {
        let all = made_of.and_then(DType::integer_range);
        let always = all.is_some_and(|(low, high)| {
            i128::from(range.min) <= low && high <= i128::from(range.max)
        });
        if !always {
            self.check_lanes(vector, range);
        }
        self.bindings[symbol] = Binding::Lanes(LaneIndex { vector, range, apart: Vec::new() });
    }

    /// Returns a fault if an integer of a lane that is on is outside a range.
    fn check_lanes(&mut self, vector: Vector, range: Range) {
        if range.min == i64::MIN || range.max == i64::MAX {
            return self.check_apart(vector, range);
        }
        let lanes = vector.lanes;
        let bits = |number: i64| match vector.lane.bytes() {
            4 => u64::from(number as u32),
            _ => number as u64,
        };
        let past = match range.min {
            0 => vector,
            least => {
                let least = self.constant(bits(least), vector);
                self.binary(Opcode::Sub, vector, least)
            }
        };
        // What is below the range wraps round to large numbers.
        let most = self.constant(bits(range.max.wrapping_sub(range.min)), vector);
        let most = Vector { item: Item::Register(self.register(most)), ..vector };
        let outside = self.compare_ints(Comparison::Less, most, past, false);
        let active = self.active_mask(lanes);
        let outside = self.mask_and(outside, active, lanes);
        let mut bits = self.mask_as_bits(outside, lanes);
        // Lanes that fill a register leave no other bits.
        if self.builder.has_masks() || vector.lane.bytes() * lanes < SHORTEST {
            bits = self.builder.int_imm(Opcode::IntAndImm, bits, (1 << lanes) - 1);
        }
        let code = program::Fault::IndexOutOfRange.code();
        self.builder.require(Cond::Equal, bits, IntOperand::Imm(0), code);
    }

    /// As [`Self::check_lanes`], one lane after the other.
    fn check_apart(&mut self, vector: Vector, range: Range) {
        let ints = self.lanes_as_ints(vector, APART);
        let active = self.active_mask(vector.lanes);
        let bits = self.lane_bits(active, vector.lanes);
        for (lane, int) in ints.iter().enumerate() {
            match bits.of(lane) {
                LaneBit::Off => {}
                LaneBit::On => self.check_range(*int, range, None),
                LaneBit::Dynamic(bits) => {
                    let bit = self.builder.int_imm(Opcode::IntAndImm, bits, 1 << lane);
                    self.check_range(*int, range, Some(bit));
                }
            }
        }
    }

    /// A lane of an index that is a value, as an integer.
    pub(super) fn lane_of(&mut self, symbol: SymbolId, lane: usize) -> VRegId {
        let Binding::Lanes(index) = &self.bindings[symbol] else {
            unreachable!("the symbol has a value a lane")
        };
        let known = index.apart.first().is_some_and(|&first| self.builder.is_visible(first));
        if !known {
            let apart = self.lanes_as_ints(index.vector, APART);
            if let Binding::Lanes(index) = &mut self.bindings[symbol] {
                index.apart = apart;
            }
        }
        match &self.bindings[symbol] {
            Binding::Lanes(index) => index.apart[lane.min(index.apart.len() - 1)],
            _ => unreachable!("the symbol has a value a lane"),
        }
    }

    /// The vector behind an expression that is an index a lane, and nothing else.
    pub(super) fn lanes_behind(&self, expr: &Expr) -> Option<Vector> {
        match &self.bindings[expr.as_symbol()?] {
            Binding::Lanes(index) => Some(index.vector),
            _ => None,
        }
    }

    /// Elements at indices that are values, by one instruction; none if there is none for them.
    pub(super) fn load_gathered(
        &mut self,
        buffer: BufferId,
        linear: &Linear,
        mask: Mask,
        lanes: usize,
    ) -> Option<Evaluated> {
        let dtype = self.kernel.buffers[buffer].dtype;
        self.span_bytes(buffer)?;
        let mut rest = Linear { constant: linear.constant, ..Linear::default() };
        let mut parts = Vec::new();
        for (coefficient, factor) in &linear.terms {
            match factor {
                Factor::Symbol(symbol) if *coefficient != 0 => match &self.bindings[*symbol] {
                    Binding::Lanes(index) => {
                        parts.push((index.vector, index.range, *coefficient));
                    }
                    _ => rest.terms.push((*coefficient, factor.clone())),
                },
                Factor::Product(atoms) if atoms.iter().any(|it| self.atom_differs_by_lane(it)) => {
                    return None;
                }
                _ => rest.terms.push((*coefficient, factor.clone())),
            }
        }
        if let &[(index, range, step)] = &parts[..]
            && linear.lane_step == 0
            && step == self.element_bytes(buffer) as i64
        {
            let found = match dtype.bits() {
                8 => self.load_looked_up(buffer, &rest, (index, range)),
                _ => None,
            };
            let found = found.or_else(|| self.load_permuted(buffer, &rest, (index, range)));
            if found.is_some() {
                return found;
            }
        }
        let parts: Vec<_> = parts.iter().map(|&(index, _, step)| (index, step)).collect();
        let (index, scale) = self.byte_offsets(&parts, linear.lane_step, lanes)?;
        let address = self.address(buffer, &rest);
        if let Some(found) = self.load_at_each(buffer, address, (index, scale), mask) {
            return Some(found);
        }
        let index = self.narrow_lanes(index);
        if dtype.bits() < 32 {
            let offsets = match scale {
                1 => index,
                scale => self.unary(Opcode::ShlImm, index, i64::from(scale.trailing_zeros())),
            };
            return self.gather_narrow(buffer, address, offsets, mask);
        }
        let Some(Carrier::Lane(lane)) = carrier(dtype) else { return None };
        let ty = register_type(lane, lanes);
        let zero = self.builder.emit(Inst::new(Opcode::Zero, lane, &[]), ty);
        let mask = self.mask_register(mask, lanes, lane.bytes());
        let index = self.register(index);
        let inst = Inst::new(Opcode::Gather, lane, &[zero, index, mask]).imm(scale);
        let value = self.load_inst(inst.address(address), ty, buffer);
        Some(Evaluated::Vector(Vector { item: Item::Register(value), lane, lanes }))
    }

    /// Elements at multiples of indices from an address, one load each, which takes half to two
    /// thirds of the time of the gathers of AVX2; none with mask registers, or where it is not
    /// known which lanes are on.
    fn load_at_each(
        &mut self,
        buffer: BufferId,
        address: MemoryOperand,
        (index, scale): (Vector, i64),
        mask: Mask,
    ) -> Option<Evaluated> {
        let Mask::Constant(on) = mask else { return None };
        if self.builder.has_masks() {
            return None;
        }
        let start = match address.index {
            None => address,
            Some(_) => {
                let place = Inst::new(Opcode::Lea, Lane::I64, &[]).address(address);
                MemoryOperand::new(self.builder.emit(place, RegisterType::Int), 0)
            }
        };
        let ints = self.lanes_as_ints(index, APART);
        let scale = u8::try_from(scale).ok()?;
        let place = |(at, &int): (usize, &VRegId)| {
            (on >> at & 1 == 1).then_some(MemoryOperand { index: Some((int, scale)), ..start })
        };
        let places: Vec<Option<MemoryOperand>> = ints.iter().enumerate().map(place).collect();
        match carrier(self.kernel.buffers[buffer].dtype)? {
            _ if self.element_bytes(buffer) < 4 => self.load_narrow_places(buffer, &places),
            Carrier::Lane(lane) => self.load_places(buffer, &places, lane),
            _ => None,
        }
    }

    /// Narrow elements at so many bytes from an address, each in a lane of 32 bits. No instruction
    /// gathers them: words are, within the buffer, of which each holds its element, and shifted.
    pub(super) fn gather_narrow(
        &mut self,
        buffer: BufferId,
        address: MemoryOperand,
        offsets: Vector,
        mask: Mask,
    ) -> Option<Evaluated> {
        let dtype = self.kernel.buffers[buffer].dtype;
        let (lanes, ty) = (offsets.lanes, register_type(Lane::I32, offsets.lanes));
        let last_word = self.span_bytes(buffer)? - 4;
        if last_word < 0 || ty.vector_bytes() != 4 * lanes {
            return None;
        }
        let start = self.address(buffer, &Linear::default());
        let mut pointer = |place: MemoryOperand| {
            let place = Inst::new(Opcode::Lea, Lane::I64, &[]).address(place);
            self.builder.emit(place, RegisterType::Int)
        };
        let begin = pointer(start);
        let place = match start == address {
            true => offsets,
            false => {
                let from = pointer(address);
                let row = self.builder.int(Opcode::IntSub, &[from, begin]);
                let row = self.vector_of_int(row, Lane::I32);
                let row = self.broadcast_vector(row, lanes);
                self.binary(Opcode::Add, row, offsets)
            }
        };
        let last_word = self.constant(last_word as u64, place);
        let word = self.binary(Opcode::Min, place, last_word);
        let word = Vector { item: Item::Register(self.register(word)), ..word };
        let behind = self.binary(Opcode::Sub, place, word);
        let behind = self.unary(Opcode::ShlImm, behind, 3);
        let zero = self.builder.emit(Inst::new(Opcode::Zero, Lane::I32, &[]), ty);
        let mask = self.mask_register(mask, lanes, 4);
        let index = self.register(word);
        let inst = Inst::new(Opcode::Gather, Lane::I32, &[zero, index, mask]).imm(1);
        let value = self.load_inst(inst.address(MemoryOperand::new(begin, 0)), ty, buffer);
        let words = Vector { item: Item::Register(value), lane: Lane::I32, lanes };
        let low = self.binary(Opcode::Shr, words, behind);
        let bits = 32 - i64::from(dtype.bits());
        Some(match dtype {
            DType::F16 => {
                // Packed, they are what an instruction widens.
                let inst = if self.builder.has_masks() {
                    let frame = MemoryOperand::frame(COLLECT);
                    let value = self.register(low);
                    let inst = Inst::new(Opcode::Store, Lane::I16, &[value]).address(frame);
                    self.builder.effect(inst);
                    Inst::new(Opcode::Load, Lane::F16, &[]).address(frame)
                } else {
                    Inst::new(Opcode::F16ToF32, Lane::F32, &[self.low_bytes(low, 16)])
                };
                let value = self.builder.emit(inst, ty);
                let lane = Lane::F32;
                Evaluated::Vector(Vector { item: Item::Register(value), lane, lanes })
            }
            // What stands above the element is shifted out.
            DType::BF16 => self.element_of_raw(low, dtype),
            _ => {
                let high = self.unary(Opcode::ShlImm, low, bits);
                let extend = if Self::is_signed(dtype) { Opcode::SarImm } else { Opcode::ShrImm };
                let raw = self.unary(extend, high, bits);
                self.element_of_raw(raw, dtype)
            }
        })
    }

    /// Elements of a row that begins at a place, picked from registers that hold all of it.
    fn load_permuted(
        &mut self,
        buffer: BufferId,
        row: &Linear,
        (index, range): (Vector, Range),
    ) -> Option<Evaluated> {
        let dtype = self.kernel.buffers[buffer].dtype;
        let count = usize::try_from(range.max).ok()? + 1;
        let fits = range.min == 0 && count <= MOST_PERMUTED && dtype.bits() <= 32;
        let (ty, order) = (RegisterType::vector(4 * LANES), self.register(index));
        let whole = self.builder.type_of(order) == ty && self.exec.is_none();
        if !fits || !whole {
            return None;
        }
        let address = self.address(buffer, row);
        let (mut pieces, mut lane) = (Vec::new(), Lane::I32);
        for first in (0..count).step_by(LANES) {
            let bytes = first * self.element_bytes(buffer);
            let displacement = address.displacement.checked_add(bytes as i32)?;
            let mask = Mask::Constant(all_lanes(LANES.min(count - first)));
            let address = MemoryOperand { displacement, ..address };
            let piece = self.load_widened(buffer, address, mask, LANES);
            lane = piece.lane;
            pieces.push(self.register(piece));
        }
        let mut picked: Option<Vector> = None;
        for (number, pair) in pieces.chunks(2).enumerate() {
            // A lane of 64 bits holds an index in its low half, and in its high half nothing.
            let inst = match *pair {
                [one] => Inst::new(Opcode::Permute, Lane::I32, &[order, one]),
                [low, high, ..] => Inst::new(Opcode::PermuteTwo, lane, &[low, order, high]),
                [] => continue,
            };
            let value = self.builder.emit(inst, ty);
            let found = Vector { item: Item::Register(value), ..index };
            let own = Self::cast_lane(self.narrow_lanes(found), lane);
            picked = Some(match picked {
                None => own,
                Some(others) => {
                    let begin = (2 * LANES * number) as u64;
                    let last = self.constant(begin - 1, index);
                    let last = Vector { item: Item::Register(self.register(last)), ..index };
                    let behind = self.compare_ints(Comparison::Less, last, index, true);
                    self.blend_vectors(behind, others, own)
                }
            });
        }
        picked.map(|widened| self.element_of_widened(widened, dtype))
    }

    /// Bytes of a row that begins at a place, picked from registers that hold all of it.
    fn load_looked_up(
        &mut self,
        buffer: BufferId,
        row: &Linear,
        (index, range): (Vector, Range),
    ) -> Option<Evaluated> {
        let count = usize::try_from(range.max).ok()? + 1;
        let order = self.register(index);
        let fits = range.min == 0 && (4..=MOST_BYTES).contains(&count);
        let whole = self.builder.type_of(order) == RegisterType::V512;
        // Where no lane is on, the row need not be there.
        let is_there = self.exec.is_none() || row.terms.is_empty();
        if !self.builder.permutes_bytes() || !fits || !whole || !is_there {
            return None;
        }
        let parts = self.table_parts(buffer, row, count)?;
        let mut picked: Option<Vector> = None;
        for (number, pair) in parts.chunks(2).enumerate() {
            let (&low, &high) = (pair.first()?, pair.last()?);
            let inst = Inst::new(Opcode::PermuteTwo, Lane::I8, &[low, order, high]);
            let value = self.builder.emit(inst, RegisterType::V512);
            let own = Vector { item: Item::Register(value), ..index };
            picked = Some(match picked {
                None => own,
                Some(others) => {
                    let last = (2 * TABLE_PART * number - 1) as u64;
                    let last = self.constant(last, index);
                    let last = Vector { item: Item::Register(self.register(last)), ..index };
                    let behind = self.compare_ints(Comparison::Less, last, index, true);
                    self.blend_vectors(behind, others, own)
                }
            });
        }
        let dtype = self.kernel.buffers[buffer].dtype;
        let bytes = self.narrow_lanes(picked?);
        // Each byte of a lane has been looked up, of which the lowest is the index.
        let raw = match Self::is_signed(dtype) {
            true => {
                let high = self.unary(Opcode::ShlImm, bytes, 24);
                self.unary(Opcode::SarImm, high, 24)
            }
            false => {
                let lowest = self.constant(0xff, bytes);
                self.binary(Opcode::And, bytes, lowest)
            }
        };
        Some(self.element_of_raw(raw, dtype))
    }

    /// The bytes of a row, a register after the other.
    pub(super) fn table_parts(
        &mut self,
        buffer: BufferId,
        row: &Linear,
        count: usize,
    ) -> Option<Vec<VRegId>> {
        let address = self.address(buffer, row);
        let at = |byte: usize| {
            let displacement = address.displacement.checked_add(byte as i32)?;
            Some(MemoryOperand { displacement, ..address })
        };
        let mut parts = Vec::new();
        for first in (0..count).step_by(TABLE_PART) {
            let words = TABLE_PART.min(count - first) / 4;
            let mask = self.mask_operand(Mask::Constant(all_lanes(words)), LANES, 4);
            let inst = Inst::new(Opcode::Load, Lane::I32, &[]).address(at(first)?).mask(mask);
            let mut part = self.load_inst(inst, RegisterType::V512, buffer);
            let (end, odd) = (first + 4 * words, count % 4);
            if words < LANES && odd != 0 {
                // The last bytes, out of the word that ends with them.
                let inst =
                    Inst::new(Opcode::LoadBroadcast, Lane::I32, &[]).address(at(end + odd - 4)?);
                let word = self.load_inst(inst, RegisterType::V512, buffer);
                let like = |item| Vector { item, lane: Lane::I32, lanes: LANES };
                let word = like(Item::Register(word));
                let last = self.unary(Opcode::ShrImm, word, 8 * (4 - odd as i64));
                let whole = like(Item::Register(part));
                let blended = self.blend_vectors(Mask::Constant(1 << words), whole, last);
                part = self.register(blended);
            }
            parts.push(part);
        }
        Some(parts)
    }

    /// Bytes from a buffer's first element to its end, if they are known and fit 32 bits.
    fn span_bytes(&self, buffer: BufferId) -> Option<i64> {
        let data = &self.kernel.buffers[buffer];
        let strides = self.plan.strides[buffer].as_constants()?;
        let mut bytes = self.element_bytes(buffer) as i64;
        for (extent, stride) in data.shape.iter().zip(strides) {
            let extent = extent.as_constant()?;
            let far = (extent - 1).max(0).saturating_mul(stride.abs());
            bytes = bytes.saturating_add(far.saturating_mul(self.element_bytes(buffer) as i64));
        }
        (bytes <= i64::from(i32::MAX)).then_some(bytes)
    }

    /// The sum of multiples of indices, and of a number for each lane, in 32-bit lanes; with it the
    /// scale by which it is to be multiplied. Without mask registers a single index keeps its
    /// lanes.
    fn byte_offsets(
        &mut self,
        parts: &[(Vector, i64)],
        lane_step: i64,
        lanes: usize,
    ) -> Option<(Vector, i64)> {
        if let (&[(vector, scale @ (1 | 2 | 4 | 8))], 0) = (parts, lane_step) {
            // One load each takes the indices apart as they are.
            let index = if self.builder.has_masks() { self.narrow_lanes(vector) } else { vector };
            return Some((index, scale));
        }
        let mut sum: Option<Vector> = None;
        if lane_step != 0 {
            let steps: Vec<u64> = (0..lanes as i64).map(|lane| (lane * lane_step) as u64).collect();
            sum = Some(self.lane_constants(&steps, Lane::I32));
        }
        for &(vector, coefficient) in parts {
            let narrow = self.narrow_lanes(vector);
            let factor = self.constant(coefficient as u64 & 0xffff_ffff, narrow);
            let product = match u64::try_from(coefficient).ok().filter(|it| it.is_power_of_two()) {
                Some(power) => {
                    self.unary(Opcode::ShlImm, narrow, i64::from(power.trailing_zeros()))
                }
                None => self.int_product(narrow, factor),
            };
            sum = Some(match sum {
                Some(sum) => self.binary(Opcode::Add, sum, product),
                None => product,
            });
        }
        sum.map(|sum| (sum, 1))
    }
}
