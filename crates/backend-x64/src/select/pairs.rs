//! Pairs of bf16 or i16: two neighbouring elements that sums of products meet one after the other.
//!
//! A pair is loaded as one 32-bit lane and taken apart by a shift or a mask, which gives f32, or by
//! shifts, which give i32. Where the instruction set has a dot product of pairs, the two (fused)
//! multiply-adds of a pair, that of the second element first, become one instruction; the first of
//! them and what it took apart are left without a use and dropped. Every instruction set has a
//! product of pairs of i16.

use loops::BufferId;
use tensor::DType;

use super::Selector;
use super::index::Linear;
use super::value::{Evaluated, Item, Vector, register_type};
use crate::vcode::{Inst, Lane, Opcode, VRegId};

/// A value that is an element of a pair in 32-bit lanes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) of: VRegId,
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
        let address = self.address(buffer, &linear);
        let ty = register_type(Lane::I32, lanes);
        let inst = if linear.lane_step == 0 {
            Inst::new(Opcode::LoadBroadcast, Lane::I32, &[]).address(self.safe_address(address))
        } else {
            let mask = self.active_mask(lanes);
            let mask = self.mask_operand(mask, lanes, 4);
            Inst::new(Opcode::Load, Lane::I32, &[]).address(address).mask(mask)
        };
        let of = self.load_inst(inst, ty, buffer);
        let pair = Vector { item: Item::Register(of), lane: Lane::I32, lanes };
        let element = match (dtype, half) {
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
        };
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
        let firsts = [self.pair(a)?, self.pair(b)?];
        let before = self.made_by(c, Opcode::Fma231)?;
        let [sum, second_a, second_b] = before[..] else { return None };
        let [left, right] = self.whole_pairs(firsts, [second_a, second_b])?;
        let inst = Inst::new(Opcode::DotPairs, Lane::F32, &[sum, left, right]);
        let value = self.builder.emit(inst, register_type(a.lane, a.lanes));
        Some(Vector { item: Item::Register(value), ..a })
    }

    /// `c + a * b` of integers, where `c` is the sum with the products of the second elements of
    /// the pairs of which these are the first: both products and their sum at once.
    pub(super) fn dot_of_integers(
        &mut self,
        a: Evaluated,
        b: Evaluated,
        c: Evaluated,
    ) -> Option<Evaluated> {
        let vector = |value| match value {
            Evaluated::Vector(vector) if vector.lane == Lane::I32 => Some(vector),
            _ => None,
        };
        let [a, b, c] = [vector(a)?, vector(b)?, vector(c)?];
        let firsts = [self.pair(a)?, self.pair(b)?];
        let before = self.made_by(c, Opcode::Add)?;
        let [sum, product] = before[..] else { return None };
        let product = Vector { item: Item::Register(product), ..c };
        let seconds = self.made_by(product, Opcode::Mul)?;
        let [second_a, second_b] = seconds[..] else { return None };
        let [left, right] = self.whole_pairs(firsts, [second_a, second_b])?;
        let ty = register_type(c.lane, c.lanes);
        let value = if self.builder.has_vnni() {
            let inst = Inst::new(Opcode::DotPairs, Lane::I32, &[sum, left, right]);
            self.builder.emit(inst, ty)
        } else {
            let inst = Inst::new(Opcode::MulPairs, Lane::I32, &[left, right]);
            let product = self.builder.emit(inst, ty);
            self.builder.emit(Inst::new(Opcode::Add, Lane::I32, &[sum, product]), ty)
        };
        Some(Evaluated::Vector(Vector { item: Item::Register(value), ..c }))
    }

    /// The pair that a vector's elements are of.
    fn pair(&self, vector: Vector) -> Option<Pair> {
        match vector.item {
            Item::Register(value) => self.pair_of(value),
            Item::Constant(_) => None,
        }
    }

    /// The pair that a value is half of, unless a loop that is closed has carried the value out and
    /// the pair not.
    fn pair_of(&self, value: VRegId) -> Option<Pair> {
        self.pairs[value].filter(|pair| self.builder.is_visible(pair.of))
    }

    /// What the instruction that made a vector took, if it is of this kind.
    fn made_by(&self, vector: Vector, op: Opcode) -> Option<Vec<VRegId>> {
        let Item::Register(value) = vector.item else { return None };
        let inst = self.builder.instruction(value).filter(|inst| inst.op == op)?;
        Some(inst.args.iter().collect())
    }

    /// The pairs of which the first elements and these second elements are.
    fn whole_pairs(&self, firsts: [Pair; 2], seconds: [VRegId; 2]) -> Option<[VRegId; 2]> {
        let seconds = [self.pair_of(seconds[0])?, self.pair_of(seconds[1])?];
        let fits = firsts.iter().all(|pair| pair.half == Half::First)
            && seconds.iter().all(|pair| pair.half == Half::Second)
            && firsts.map(|pair| pair.of) == seconds.map(|pair| pair.of);
        fits.then_some(firsts.map(|pair| pair.of))
    }
}
