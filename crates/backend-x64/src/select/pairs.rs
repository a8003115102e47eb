//! Pairs of bf16: two neighbouring elements that sums of products meet one after the other.
//!
//! A pair is loaded as one 32-bit lane and taken apart by a shift or a mask, which gives f32. Where
//! the instruction set has a dot product of pairs, the two fused multiply-adds of a pair, that of
//! the second element first, become one instruction; the first of them and what it took apart are
//! left without a use and dropped.

use loops::BufferId;
use tensor::DType;

use super::Selector;
use super::index::Linear;
use super::value::{Evaluated, Item, Vector, register_type};
use crate::vcode::{Inst, Lane, Op, ValueId};

/// A value that is an element of a pair of bf16 in 32-bit lanes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) of: ValueId,
    pub(crate) half: Half,
}

/// Which element of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    /// The one at the lower address.
    First,
    /// The other.
    Second,
}

impl Selector<'_> {
    /// bf16 that lies beside another in a pair of known parity, the same in all lanes or a pair a
    /// lane: pairs are loaded, and taken apart.
    pub(super) fn load_from_pair(
        &mut self,
        buffer: BufferId,
        linear: &Linear,
        lanes: usize,
    ) -> Option<Evaluated> {
        let bf16 = self.kernel.buffers[buffer].dtype == DType::BF16;
        if !bf16 || lanes == 1 || linear.irregular || !matches!(linear.lane_step, 0 | 4) {
            return None;
        }
        let half = self.half_of_pair(buffer, linear)?;
        let mut linear = linear.clone();
        linear.constant -= if half == Half::Second { 2 } else { 0 };
        let address = self.address(buffer, &linear);
        let ty = register_type(Lane::I32, lanes);
        let inst = if linear.lane_step == 0 {
            Inst::new(Op::LoadBroadcast, Lane::I32, &[]).address(self.safe_address(address))
        } else {
            let mask = self.active_mask(lanes);
            let mask = self.mask_operand(mask, lanes, 4);
            Inst::new(Op::Load, Lane::I32, &[]).address(address).mask(mask)
        };
        let of = self.load_inst(inst, ty, buffer);
        let pair = Vector { item: Item::Register(of), lane: Lane::I32, lanes };
        let bits = match half {
            Half::First => self.unary(Op::ShlImm, pair, 16),
            Half::Second => self.binary(Op::And, pair, self.constant(0xffff_0000, pair)),
        };
        let element = Self::cast_lane(bits, Lane::F32);
        if let Item::Register(value) = element.item {
            self.pairs[value] = Some(Pair { of, half });
        }
        Some(Evaluated::Vector(element))
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

    /// One dot product of pairs instead of this fused multiply-add and the one that made `c`, where
    /// that one took the second elements of the pairs of which these are the first.
    pub(super) fn dot_of_pairs(&mut self, a: Vector, b: Vector, c: Vector) -> Option<Vector> {
        if !self.builder.has_bf16() {
            return None;
        }
        let register = |vector: Vector| match vector.item {
            Item::Register(value) => Some(value),
            Item::Constant(_) => None,
        };
        let firsts = [self.pairs[register(a)?]?, self.pairs[register(b)?]?];
        let before = self.builder.instruction(register(c)?)?;
        let operands: Vec<ValueId> = before.args.iter().collect();
        let [sum, second_a, second_b] = operands[..] else { return None };
        if before.op != Op::Fma231 {
            return None;
        }
        let seconds = [self.pairs[second_a]?, self.pairs[second_b]?];
        let in_order = |half: Half| move |pair: &Pair| pair.half == half;
        let fits = firsts.iter().all(in_order(Half::First))
            && seconds.iter().all(in_order(Half::Second))
            && firsts.map(|pair| pair.of) == seconds.map(|pair| pair.of);
        if !fits {
            return None;
        }
        let [left, right] = firsts.map(|pair| pair.of);
        let inst = Inst::new(Op::DotPairs, Lane::F32, &[sum, left, right]);
        let value = self.builder.emit(inst, register_type(a.lane, a.lanes));
        Some(Vector { item: Item::Register(value), ..a })
    }
}
