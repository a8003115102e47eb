//! Elements at constant distances: one load each, put side by side in registers, instead of a
//! gather, which takes more than twice as long; and one store each instead of a scatter.
//!
//! ```text
//! for j < 16 vector { .. = in[9 * j] }
//! ```
//!
//! loads each element into a register of its own, then pairs, fours, and so on are made of two
//! registers. Elements of less than 32 bits are put into lanes of one register, then widened. Which
//! lanes are on must be known; where it is not, a gather takes a mask.

use loops::BufferId;
use tensor::DType;

use super::Selector;
use super::memory::{memory_lane, widened_lane};
use super::value::{Evaluated, Item, Mask, Vector, register_type};
use crate::vcode::{Inst, Lane, MemoryOperand, Opcode, RegisterType, VRegId};

/// Bytes of the registers that single elements are loaded into.
const SHORT: usize = 16;

/// The places of the lanes that are on, at distances from an address; none if a mask is not known
/// or a place is too far off.
fn places_of(
    address: MemoryOperand,
    offsets: &[i64],
    mask: Mask,
) -> Option<Vec<Option<MemoryOperand>>> {
    let Mask::Constant(on) = mask else { return None };
    let place = |(at, offset): (usize, &i64)| match on >> at & 1 {
        0 => Some(None),
        _ => {
            let offset = i32::try_from(*offset).ok()?;
            let displacement = address.displacement.checked_add(offset)?;
            Some(Some(MemoryOperand { displacement, ..address }))
        }
    };
    offsets.iter().enumerate().map(place).collect()
}

impl Selector<'_> {
    /// Elements of 4 or 8 bytes at these distances in bytes from an address, in the lanes that are
    /// on, zero in others; none if a mask is not known or a place is too far off.
    pub(super) fn load_one_by_one(
        &mut self,
        buffer: BufferId,
        address: MemoryOperand,
        offsets: &[i64],
        lane: Lane,
        mask: Mask,
    ) -> Option<Evaluated> {
        let places = places_of(address, offsets, mask)?;
        self.load_places(buffer, &places, lane)
    }

    /// Elements of 4 or 8 bytes at these places, each in a lane of its own; zero where there is
    /// none.
    pub(super) fn load_places(
        &mut self,
        buffer: BufferId,
        places: &[Option<MemoryOperand>],
        lane: Lane,
    ) -> Option<Evaluated> {
        let (lanes, short) = (places.len(), RegisterType::V128);
        let mut parts: Vec<Option<VRegId>> = Vec::new();
        for places in places.chunks(SHORT / lane.bytes()) {
            let mut elements = Vec::new();
            for place in places {
                elements.push(place.map(|address| {
                    let inst = Inst::new(Opcode::LoadLane, lane, &[]).address(address);
                    self.load_inst(inst, short, buffer)
                }));
            }
            if lane.bytes() == 4 {
                elements =
                    self.joined(&elements, short, Inst::new(Opcode::UnpackLow, Lane::F32, &[]));
            }
            parts.extend(self.joined(
                &elements,
                short,
                Inst::new(Opcode::UnpackLow, Lane::F64, &[]),
            ));
        }
        let value = self.whole(parts, register_type(lane, lanes))?;
        Some(Evaluated::Vector(Vector { item: Item::Register(value), lane, lanes }))
    }

    /// The same of elements of 1 or 2 bytes, put side by side as they are in memory and widened.
    pub(super) fn load_narrow_one_by_one(
        &mut self,
        buffer: BufferId,
        address: MemoryOperand,
        offsets: &[i64],
        mask: Mask,
    ) -> Option<Evaluated> {
        let places = places_of(address, offsets, mask)?;
        self.load_narrow_places(buffer, &places)
    }

    /// The same at any places.
    pub(super) fn load_narrow_places(
        &mut self,
        buffer: BufferId,
        places: &[Option<MemoryOperand>],
    ) -> Option<Evaluated> {
        let dtype = self.kernel.buffers[buffer].dtype;
        let (lanes, lane) = (places.len(), widened_lane(dtype));
        let ty = register_type(lane, lanes);
        let element = match self.element_bytes(buffer) {
            1 => Lane::I8,
            2 => Lane::I16,
            _ => return None,
        };
        let zero = self.builder.emit(Inst::new(Opcode::Zero, Lane::I32, &[]), RegisterType::V128);
        let mut parts = Vec::new();
        for places in places.chunks(SHORT / element.bytes()) {
            let mut part = zero;
            for (at, place) in places.iter().enumerate() {
                if let Some(place) = place {
                    let inst = Inst::new(Opcode::InsertLane, element, &[part]).imm(at as i64);
                    part = self.builder.emit(inst.address(*place), RegisterType::V128);
                }
            }
            parts.push(Some(part));
        }
        let packed = self.whole(parts, RegisterType::vector(lanes * element.bytes()))?;
        let widen = match dtype {
            DType::F16 => Inst::new(Opcode::F16ToF32, Lane::F32, &[packed]),
            _ => Inst::new(Opcode::Widen, memory_lane(dtype), &[packed]),
        };
        let item = Item::Register(self.builder.emit(widen, ty));
        Some(self.element_of_widened(Vector { item, lane, lanes }, dtype))
    }

    /// Short registers side by side as one of a type.
    fn whole(&mut self, mut parts: Vec<Option<VRegId>>, ty: RegisterType) -> Option<VRegId> {
        for (bytes, order) in [(2 * SHORT, 0b00), (4 * SHORT, 0b01_00_01_00)] {
            if bytes <= ty.vector_bytes() {
                parts.resize(parts.len().next_multiple_of(2), None);
                let inst = Inst::new(Opcode::Parts, Lane::F32, &[]).imm(order);
                parts = self.joined(&parts, RegisterType::vector(bytes), inst);
            }
        }
        match parts[..] {
            [Some(value)] if self.builder.type_of(value) == ty => Some(value),
            _ => None,
        }
    }

    /// Stores lanes of 4 or 8 bytes that are on, each so many bytes behind the one before; false if
    /// a mask is not known or a place is too far off.
    pub(super) fn store_one_by_one(
        &mut self,
        address: MemoryOperand,
        step: i64,
        raw: Vector,
        mask: Mask,
    ) -> bool {
        let Mask::Constant(on) = mask else { return false };
        let last = i64::from(on.checked_ilog2().unwrap_or(0));
        let end =
            step.checked_mul(last).and_then(|end| end.checked_add(address.displacement.into()));
        if end.is_none_or(|end| i32::try_from(end).is_err()) {
            return false;
        }
        let whole = register_type(raw.lane, raw.lanes).vector_bytes() / raw.lane.bytes();
        let mut parts = vec![Vector { lanes: whole, ..raw }];
        let is_long = |part: &Vector| part.lanes * part.lane.bytes() > SHORT;
        while parts.iter().any(is_long) {
            let halves = |part: Vector| [self.lower_half(part), self.upper_half(part)];
            parts = parts.into_iter().flat_map(halves).collect();
        }
        let each = SHORT / raw.lane.bytes();
        for at in (0..raw.lanes).filter(|at| on >> at & 1 == 1) {
            let element = self.extract_lane(parts[at / each], at % each);
            let value = self.register(element);
            let displacement = address.displacement + (at as i64 * step) as i32;
            let store = Inst::new(Opcode::StoreLane, raw.lane, &[value]);
            self.builder.effect(store.address(MemoryOperand { displacement, ..address }));
        }
        true
    }

    /// Registers side by side in pairs, each by an instruction like `inst` that gives a register
    /// of a type; what there is none of is zero. The upper half of a register that is as long as
    /// the result is zero in any case.
    fn joined(
        &mut self,
        parts: &[Option<VRegId>],
        ty: RegisterType,
        inst: Inst,
    ) -> Vec<Option<VRegId>> {
        let mut pairs = Vec::with_capacity(parts.len().div_ceil(2));
        for pair in parts.chunks(2) {
            let [first, second] = [pair.first(), pair.get(1)].map(|part| part.copied().flatten());
            pairs.push(match (first, second) {
                (None, None) => None,
                (Some(first), None) if self.builder.type_of(first) == ty => Some(first),
                (first, second) => {
                    let own = { first.or(second) }.map_or(ty, |part| self.builder.type_of(part));
                    let mut or_zero = |part: Option<VRegId>| match part {
                        Some(part) => part,
                        None => self.builder.emit(Inst::new(Opcode::Zero, inst.lane, &[]), own),
                    };
                    let args = [or_zero(first), or_zero(second)];
                    let both = Inst::new(inst.op, inst.lane, &args).imm(inst.imm);
                    Some(self.builder.emit(both, ty))
                }
            });
        }
        pairs
    }
}
