//! Indices that are values, one a lane: checked all at once, and what is read at them gathered.
//!
//! A lane's place is what is the same for all lanes, an address, and a sum of multiples of such
//! indices, 32-bit offsets from there. Of a short row all is loaded, and the lanes are permuted
//! from that, which costs less than eight loads. What no instruction gathers (narrow elements,
//! places that are no such sums, buffers of 2 GiB) takes the indices apart, and loads lane by lane.

use loops::{BufferId, Comparison};
use sym::{Expr, Range, SymbolId};

use super::Selector;
use super::index::{Binding, Factor, LaneIndex, Linear};
use super::memory::{APART, LaneBit};
use super::value::{Carrier, Evaluated, Item, Mask, Vector, all_lanes, carrier, register_type};
use crate::vcode::{Cond, Inst, IntOperand, Lane, MemoryOperand, Opcode, RegisterType, VRegId};

/// Lanes of the longest vectors, of 32 and of 64 bits.
const LANES: usize = 16;
const QUADS: usize = 8;

/// The most elements of a row that is held in registers.
const MOST_PERMUTED: usize = 4 * LANES;

impl Selector<'_> {
    /// Binds a symbol to an index a lane, which is checked.
    pub(super) fn bind_lanes(&mut self, symbol: SymbolId, vector: Vector, range: Range) {
        self.check_lanes(vector, range);
        self.bindings[symbol] = Binding::Lanes(LaneIndex { vector, range, apart: Vec::new() });
    }

    /// Returns a fault if an integer of a lane that is on is outside a range.
    fn check_lanes(&mut self, vector: Vector, range: Range) {
        if range.min == i64::MIN || range.max == i64::MAX {
            return self.check_apart(vector, range);
        }
        let lanes = vector.lanes;
        let past = match range.min {
            0 => vector,
            least => {
                let least = self.constant(least as u64, vector);
                self.binary(Opcode::Sub, vector, least)
            }
        };
        // What is below the range wraps round to large numbers.
        let most = self.constant(range.max.wrapping_sub(range.min) as u64, vector);
        let most = Vector { item: Item::Register(self.register(most)), ..vector };
        let outside = self.compare_ints(Comparison::Less, most, past, false);
        let active = self.active_mask(lanes);
        let outside = self.mask_and(outside, active, lanes);
        let bits = self.mask_as_bits(outside, lanes);
        let bits = self.builder.int_imm(Opcode::IntAndImm, bits, (1 << lanes) - 1);
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
        let Some(Carrier::Lane(lane)) = carrier(dtype).filter(|_| dtype.bits() >= 32) else {
            return None;
        };
        if !self.is_near(buffer) {
            return None;
        }
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
            && step == lane.bytes() as i64
            && let Some(values) = self.load_permuted(buffer, &rest, (index, range), lane)
        {
            return Some(values);
        }
        let parts: Vec<_> = parts.iter().map(|&(index, _, step)| (index, step)).collect();
        let (index, scale) = self.byte_offsets(&parts, linear.lane_step, lanes)?;
        let address = self.address(buffer, &rest);
        let ty = register_type(lane, lanes);
        let zero = self.builder.emit(Inst::new(Opcode::Zero, lane, &[]), ty);
        let mask = self.mask_register(mask, lanes, lane.bytes());
        let index = self.register(index);
        let inst = Inst::new(Opcode::Gather, lane, &[zero, index, mask]).imm(scale);
        let value = self.load_inst(inst.address(address), ty, buffer);
        Some(Evaluated::Vector(Vector { item: Item::Register(value), lane, lanes }))
    }

    /// Elements of a row that begins at a place, picked from registers that hold all of it.
    fn load_permuted(
        &mut self,
        buffer: BufferId,
        row: &Linear,
        (index, range): (Vector, Range),
        lane: Lane,
    ) -> Option<Evaluated> {
        let count = usize::try_from(range.max).ok()? + 1;
        let fits = range.min == 0 && count <= MOST_PERMUTED && lane.bytes() == 4;
        let whole = index.lanes == QUADS && self.builder.has_masks() && self.exec.is_none();
        if !fits || !whole {
            return None;
        }
        let (ty, order) = (RegisterType::vector(4 * LANES), self.register(index));
        let address = self.address(buffer, row);
        let mut pieces = Vec::new();
        for first in (0..count).step_by(LANES) {
            let displacement = address.displacement.checked_add(4 * first as i32)?;
            let mask = Mask::Constant(all_lanes(LANES.min(count - first)));
            let address = MemoryOperand { displacement, ..address };
            let Evaluated::Vector(piece) = self.load_contiguous(buffer, address, mask, LANES)
            else {
                return None;
            };
            pieces.push(self.register(piece));
        }
        let mut picked: Option<Vector> = None;
        for (number, pair) in pieces.chunks(2).enumerate() {
            // Each lane of 64 bits holds an index in its low half, and in its high half nothing.
            let inst = match *pair {
                [one] => Inst::new(Opcode::Permute, Lane::I32, &[order, one]),
                [low, high, ..] => Inst::new(Opcode::PermuteTwo, lane, &[low, order, high]),
                [] => continue,
            };
            let value = self.builder.emit(inst, ty);
            let wide = Vector { item: Item::Register(value), lane: Lane::I64, lanes: QUADS };
            let own = Self::cast_lane(self.narrow_lanes(wide), lane);
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
        picked.map(Evaluated::Vector)
    }

    /// Whether offsets within a buffer fit 32 bits.
    fn is_near(&self, buffer: BufferId) -> bool {
        let data = &self.kernel.buffers[buffer];
        let Some(strides) = self.plan.strides[buffer].as_constants() else { return false };
        let mut bytes = self.element_bytes(buffer) as i64;
        for (extent, stride) in data.shape.iter().zip(strides) {
            let Some(extent) = extent.as_constant() else { return false };
            let far = (extent - 1).max(0).saturating_mul(stride.abs());
            bytes = bytes.saturating_add(far.saturating_mul(self.element_bytes(buffer) as i64));
        }
        bytes <= i64::from(i32::MAX)
    }

    /// The sum of multiples of indices, and of a number for each lane, in 32-bit lanes; with it the
    /// scale by which it is to be multiplied.
    fn byte_offsets(
        &mut self,
        parts: &[(Vector, i64)],
        lane_step: i64,
        lanes: usize,
    ) -> Option<(Vector, i64)> {
        if let (&[(vector, scale @ (1 | 2 | 4 | 8))], 0) = (parts, lane_step) {
            return Some((self.narrow_lanes(vector), scale));
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
