//! Pairs of bf16 or i16: two neighbouring elements that sums of products meet one after the other.
//!
//! A pair is loaded as one 32-bit lane and taken apart by a shift or a mask, which gives f32, or by
//! shifts, which give i32: the other of the pair then needs no load. What an instruction takes at
//! once is loaded as it lies (`instruction`).

use loops::BufferId;
use tensor::DType;

use super::Selector;
use super::index::Linear;
use super::value::{Evaluated, Item, Vector, register_type};
use crate::vcode::{Inst, Lane, Opcode};

/// Which element of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    /// The one at the lower address.
    First,
    /// The other.
    Second,
}

impl Selector<'_> {
    /// bf16 or i16 that lies beside another in a pair of known parity, the same in all lanes or a
    /// pair a lane: pairs are loaded, and taken apart.
    pub(super) fn load_from_pair(
        &mut self,
        buffer: BufferId,
        linear: &Linear,
        lanes: usize,
    ) -> Option<Evaluated> {
        let dtype = self.kernel.buffers[buffer].dtype;
        let short = matches!(dtype, DType::BF16 | DType::I16);
        if !short || lanes == 1 || linear.irregular || !matches!(linear.lane_step, 0 | 4) {
            return None;
        }
        let half = self.half_of_pair(buffer, linear)?;
        let mut linear = linear.clone();
        linear.constant -= if half == Half::Second { 2 } else { 0 };
        let pair = self.load_words(buffer, &linear, lanes);
        Some(Evaluated::Vector(match (dtype, half) {
            (DType::I16, Half::First) => {
                let high = self.unary(Opcode::ShlImm, pair, 16);
                self.unary(Opcode::SarImm, high, 16)
            }
            (DType::I16, Half::Second) => self.unary(Opcode::SarImm, pair, 16),
            (_, Half::First) => Self::cast_lane(self.unary(Opcode::ShlImm, pair, 16), Lane::F32),
            (_, Half::Second) => {
                let bits = self.binary(Opcode::And, pair, self.constant(0xffff_0000, pair));
                Self::cast_lane(bits, Lane::F32)
            }
        }))
    }

    /// Elements that fill 32-bit lanes: the same ones in all lanes, or those side by side.
    pub(super) fn load_words(&mut self, buffer: BufferId, linear: &Linear, lanes: usize) -> Vector {
        let inst = self.load_of_words(buffer, linear, lanes);
        let value = self.load_inst(inst, register_type(Lane::I32, lanes), buffer);
        Vector { item: Item::Register(value), lane: Lane::I32, lanes }
    }

    /// The instruction that loads them.
    pub(super) fn load_of_words(
        &mut self,
        buffer: BufferId,
        linear: &Linear,
        lanes: usize,
    ) -> Inst {
        let address = self.address(buffer, linear);
        if linear.lane_step == 0 {
            Inst::new(Opcode::LoadBroadcast, Lane::I32, &[]).address(self.safe_address(address))
        } else {
            let mask = self.active_mask(lanes);
            let mask = self.mask_operand(mask, lanes, 4);
            Inst::new(Opcode::Load, Lane::I32, &[]).address(address).mask(mask)
        }
    }

    /// Which of a pair an element is, where rows hold whole pairs.
    fn half_of_pair(&self, buffer: BufferId, linear: &Linear) -> Option<Half> {
        let strides = self.plan.strides[buffer].as_constants()?;
        let (unit, outer) = strides.split_last()?;
        let extent = self.kernel.buffers[buffer].shape.last()?;
        let whole = *unit == 1 && extent.divisible_by(2) && outer.iter().all(|step| step % 2 == 0);
        if !whole || linear.terms.iter().any(|(coefficient, _)| coefficient % 4 != 0) {
            return None;
        }
        match linear.constant.rem_euclid(4) {
            0 => Some(Half::First),
            _ => Some(Half::Second),
        }
    }
}
