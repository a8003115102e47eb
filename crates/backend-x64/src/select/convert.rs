//! Casts and bit casts, by the rules of `tensor::Scalar::cast`.
//!
//! Floats become integers by truncation, saturated, NaN as 0; integers wrap into integers; anything
//! becomes a float by one rounding to nearest even. Where the way leads through a wider float, what
//! is cut off on the way leaves a trace in the last bit (rounding to odd), so that the second
//! rounding is that of the whole.

use loops::Comparison;
use tensor::{Class, DType};

use super::Selector;
use super::arithmetic::{FLOAT_GREATER, FLOAT_GREATER_EQUAL, FLOAT_LESS, FLOAT_ORDERED, Rounded};
use super::memory::{APART, COLLECT};
use super::value::{Evaluated, Item, Mask, Vector, register_type};
use crate::vcode::{Inst, Lane, MemoryOperand, Opcode, RegisterType};

/// Predicate of CMPPS: unequal or unordered.
const FLOAT_NOT_EQUAL: i64 = 0x04;

impl Selector<'_> {
    pub(crate) fn cast(
        &mut self,
        value: Evaluated,
        from: DType,
        to: DType,
        lanes: usize,
    ) -> Evaluated {
        if from == to {
            return value;
        }
        let vector = match value {
            Evaluated::Mask(mask, _) => {
                let ints = self.mask_as_ints(mask, lanes);
                return self.cast(Evaluated::Vector(ints), DType::I32, to, lanes);
            }
            Evaluated::Vector(vector) => vector,
        };
        match (from.is_float(), to.class()) {
            (_, Class::Bool) => Evaluated::Mask(self.truth(vector), lanes),
            (true, Class::Float) => Evaluated::Vector(self.float_to_float(vector, from, to)),
            (true, _) => Evaluated::Vector(self.float_to_int(vector, to)),
            (false, Class::Float) => Evaluated::Vector(self.int_to_float(vector, from, to)),
            (false, _) => Evaluated::Vector(self.int_to_int(vector, from, to)),
        }
    }

    /// The lanes that are not zero; NaN is not.
    fn truth(&mut self, vector: Vector) -> Mask {
        let zero = self.constant(0, vector);
        match vector.lane.is_float() {
            true => self.compare_floats(FLOAT_NOT_EQUAL, vector, zero),
            false => self.compare_ints(Comparison::NotEqual, vector, zero, true),
        }
    }

    // Floats to floats.

    fn float_to_float(&mut self, vector: Vector, from: DType, to: DType) -> Vector {
        match (from, to) {
            (DType::F64, DType::F32) => self.convert_op(Opcode::F64ToF32, vector, Lane::F32),
            (DType::F64, _) => {
                let odd = self.f64_to_odd_f32(vector);
                self.round_to(odd, to)
            }
            (_, DType::F64) => self.convert_op(Opcode::F32ToF64, vector, Lane::F64),
            _ => self.round_to(vector, to),
        }
    }

    /// f32 with the last bit set if anything was lost, rounded towards zero.
    fn f64_to_odd_f32(&mut self, vector: Vector) -> Vector {
        let value = self.register(vector);
        let vector = Vector { item: Item::Register(value), ..vector };
        let near = self.convert_op(Opcode::F64ToF32, vector, Lane::F32);
        let back = self.convert_op(Opcode::F32ToF64, near, Lane::F64);
        let inexact = self.compare_floats(FLOAT_NOT_EQUAL, back, vector);
        let magnitude = self.constant(i64::MAX as u64, vector);
        let absolute = self.binary(Opcode::And, back, magnitude);
        let wanted = self.binary(Opcode::And, vector, magnitude);
        let too_large = self.compare_floats(FLOAT_GREATER, absolute, wanted);
        let bits = Self::cast_lane(near, Lane::I32);
        let one = self.constant(1, bits);
        let below = self.binary(Opcode::Sub, bits, one);
        let towards_zero = self.blend_vectors(too_large, bits, below);
        let odd = self.binary(Opcode::Or, towards_zero, one);
        let chosen = self.blend_vectors(inexact, bits, odd);
        Self::cast_lane(chosen, Lane::F32)
    }

    // Integers to integers.

    fn int_to_int(&mut self, vector: Vector, from: DType, to: DType) -> Vector {
        let resized = match (vector.lane, to.bits() == 64) {
            (Lane::I32, true) => {
                let op = if Self::is_signed(from) { Opcode::I32ToI64 } else { Opcode::U32ToI64 };
                self.convert_op(op, vector, Lane::I64)
            }
            (Lane::I64, false) => self.narrow_lanes(vector),
            _ => vector,
        };
        self.normalized(resized, to)
    }

    /// The low halves of 64-bit lanes.
    pub(crate) fn narrow_lanes(&mut self, vector: Vector) -> Vector {
        if vector.lane.bytes() == 4 {
            return vector;
        }
        if let Item::Constant(bits) = vector.item {
            let narrow = Vector { lane: Lane::I32, ..vector };
            return self.constant(bits & 0xffff_ffff, narrow);
        }
        if vector.lanes == 1 {
            return Self::cast_lane(vector, Lane::I32);
        }
        if self.builder.has_masks() {
            return self.convert_op(Opcode::I64ToI32, vector, Lane::I32);
        }
        if vector.lanes == 2 {
            let value = self.register(vector);
            let inst = Inst::new(Opcode::Shuffle, Lane::I32, &[value]).imm(0b11_01_10_00);
            let value = self.builder.emit(inst, RegisterType::V128);
            return Vector { item: Item::Register(value), lane: Lane::I32, ..vector };
        }
        let order = self.lane_constants(&[0, 2, 4, 6, 1, 3, 5, 7], Lane::I32);
        let (order, value) = (self.register(order), self.register(vector));
        let inst = Inst::new(Opcode::Permute, Lane::I32, &[order, value]);
        let moved = self.builder.emit(inst, RegisterType::V256);
        let low =
            self.builder.emit(Inst::new(Opcode::Low, Lane::I32, &[moved]), RegisterType::V128);
        Vector { item: Item::Register(low), lane: Lane::I32, ..vector }
    }

    // Integers to floats.

    fn int_to_float(&mut self, vector: Vector, from: DType, to: DType) -> Vector {
        let unsigned = !Self::is_signed(from);
        let wide = vector.lane == Lane::I64;
        match (to, wide) {
            (DType::F64, false) => self.int32_to_f64(vector, from == DType::U32),
            (DType::F64, true) => self.int64_to_float(vector, unsigned, Lane::F64),
            (DType::F32, false) => self.int32_to_f32(vector, from == DType::U32),
            (DType::F32, true) => self.int64_to_float(vector, unsigned, Lane::F32),
            (_, false) => {
                let odd = self.int32_to_odd_f32(vector, from == DType::U32);
                self.round_to(odd, to)
            }
            (_, true) => {
                let odd = self.int64_to_odd(vector, unsigned);
                let float = self.int64_to_float(odd, unsigned, Lane::F64);
                let odd = self.f64_to_odd_f32(float);
                self.round_to(odd, to)
            }
        }
    }

    fn int32_to_f64(&mut self, vector: Vector, unsigned: bool) -> Vector {
        if !unsigned {
            return self.convert_op(Opcode::I32ToF64, vector, Lane::F64);
        }
        if self.builder.has_masks() {
            return self.convert_op(Opcode::U32ToF64, vector, Lane::F64);
        }
        // The integer as the low bits of 2^52, less 2^52.
        let wide = self.convert_op(Opcode::U32ToI64, vector, Lane::I64);
        let high = 2f64.powi(52).to_bits();
        let bits = self.constant(high, wide);
        let joined = Self::cast_lane(self.binary(Opcode::Or, wide, bits), Lane::F64);
        let base = self.constant(high, joined);
        self.binary(Opcode::Sub, joined, base)
    }

    fn int32_to_f32(&mut self, vector: Vector, unsigned: bool) -> Vector {
        if !unsigned {
            return self.convert_op(Opcode::I32ToF32, vector, Lane::F32);
        }
        if self.builder.has_masks() {
            return self.convert_op(Opcode::U32ToF32, vector, Lane::F32);
        }
        // Both halves are exact; adding them rounds once.
        let high = self.unary(Opcode::ShrImm, vector, 16);
        let mask = self.constant(0xffff, vector);
        let low = self.binary(Opcode::And, vector, mask);
        let high = self.convert_op(Opcode::I32ToF32, high, Lane::F32);
        let low = self.convert_op(Opcode::I32ToF32, low, Lane::F32);
        let scale = self.constant(u64::from(65536f32.to_bits()), high);
        self.fused(high, scale, low)
    }

    /// f32 that rounds to halves as the integer would: beyond 2^24, 8 bits less and a trace of
    /// them.
    fn int32_to_odd_f32(&mut self, vector: Vector, unsigned: bool) -> Vector {
        let near = self.int32_to_f32(vector, unsigned);
        let shift = if unsigned { Opcode::ShrImm } else { Opcode::SarImm };
        let high = self.unary(shift, vector, 8);
        let mask = self.constant(0xff, vector);
        let low = self.binary(Opcode::And, vector, mask);
        let lost = self.nonzero(low);
        let trace = self.mask_as_ints(lost, vector.lanes);
        let odd = self.binary(Opcode::Or, high, trace);
        let odd = self.convert_op(Opcode::I32ToF32, odd, Lane::F32);
        let scale = self.constant(u64::from(256f32.to_bits()), odd);
        let odd = self.binary(Opcode::Mul, odd, scale);
        let magnitude = self.constant(0x7fff_ffff, near);
        let absolute = self.binary(Opcode::And, near, magnitude);
        let limit = self.constant(u64::from(2f32.powi(24).to_bits()), near);
        let large = self.compare_floats(FLOAT_GREATER_EQUAL, absolute, limit);
        self.blend_vectors(large, near, odd)
    }

    /// 64-bit integers whose 11 lowest bits have become a trace in the twelfth, where there are
    /// more than f64 holds.
    fn int64_to_odd(&mut self, vector: Vector, unsigned: bool) -> Vector {
        let mask = self.constant(0x7ff, vector);
        let low = self.binary(Opcode::And, vector, mask);
        let zero = self.constant(0, vector);
        let lost = self.compare_ints(Comparison::NotEqual, low, zero, true);
        let cut = self.constant(!0x7ff, vector);
        let kept = self.binary(Opcode::And, vector, cut);
        let bit = self.constant(0x800, vector);
        let traced = self.binary(Opcode::Or, kept, bit);
        let odd = self.blend_vectors(lost, kept, traced);
        // Small ones are exact as they are. The high part says which: all zeros or all ones.
        let limit = self.constant(1 << 53, vector);
        let mut small = self.compare_ints(Comparison::Less, vector, limit, !unsigned);
        if !unsigned {
            let lowest = self.constant((-(1i64 << 53)) as u64, vector);
            let above = self.compare_ints(Comparison::Less, lowest, vector, true);
            small = self.mask_and(small, above, vector.lanes);
        }
        self.blend_vectors(small, odd, vector)
    }

    fn int64_to_float(&mut self, vector: Vector, unsigned: bool, lane: Lane) -> Vector {
        if self.builder.has_masks() {
            let op = match (unsigned, lane) {
                (false, Lane::F32) => Opcode::I64ToF32,
                (false, _) => Opcode::I64ToF64,
                (true, Lane::F32) => Opcode::U64ToF32,
                (true, _) => Opcode::U64ToF64,
            };
            return self.convert_op(op, vector, lane);
        }
        if vector.lanes == 1 && !unsigned {
            return self.int64_to_float_alone(vector, lane);
        }
        match lane {
            Lane::F32 => {
                let odd = self.int64_to_odd(vector, unsigned);
                let exact = self.int64_to_f64(odd, unsigned);
                self.convert_op(Opcode::F64ToF32, exact, Lane::F32)
            }
            _ => self.int64_to_f64(vector, unsigned),
        }
    }

    /// The upper half as the low bits of 2^84, the lower one as those of 2^52, less both: all but
    /// the last sum is exact. A sign is moved up by 2^63.
    fn int64_to_f64(&mut self, vector: Vector, unsigned: bool) -> Vector {
        let sign = if unsigned { 0.0 } else { 2f64.powi(63) };
        let [upper, lower] = [84, 52].map(|power| 2f64.powi(power));
        let mask = self.constant(0xffff_ffff, vector);
        let low = self.binary(Opcode::And, vector, mask);
        let bits = self.constant(lower.to_bits(), vector);
        let low = Self::cast_lane(self.binary(Opcode::Or, low, bits), Lane::F64);
        let high = self.unary(Opcode::ShrImm, vector, 32);
        let bits = self.constant((upper + sign).to_bits(), vector);
        let high = Self::cast_lane(self.binary(Opcode::Xor, high, bits), Lane::F64);
        let bases = self.constant((upper + sign + lower).to_bits(), high);
        let high = self.binary(Opcode::Sub, high, bases);
        self.binary(Opcode::Add, high, low)
    }

    fn int64_to_float_alone(&mut self, vector: Vector, lane: Lane) -> Vector {
        let int = self.lanes_as_ints(vector, APART)[0];
        let inst = Inst::new(Opcode::FloatFromInt, lane, &[int]);
        let float = self.builder.emit(inst, RegisterType::V128);
        Vector { item: Item::Register(float), lane, lanes: 1 }
    }

    // Floats to integers.

    fn float_to_int(&mut self, vector: Vector, to: DType) -> Vector {
        let value = self.register(vector);
        let vector = Vector { item: Item::Register(value), ..vector };
        if to.bits() == 64 {
            let wide = match vector.lane {
                Lane::F32 => self.convert_op(Opcode::F32ToF64, vector, Lane::F64),
                _ => vector,
            };
            return match to {
                DType::U64 => self.f64_to_u64(wide),
                _ => self.f64_to_i64(wide),
            };
        }
        let Some((low, high)) = to.integer_range() else { return vector };
        let exact = to.bits() < 32 || vector.lane == Lane::F64;
        if !exact {
            return if to == DType::U32 {
                self.f32_to_u32(vector)
            } else {
                self.f32_to_i32(vector)
            };
        }
        // The bounds are floats, so clamping first is exact. The bound stands second: NaN becomes
        // it, and is cleared below if that is not zero.
        let bits = |value: i128| match vector.lane {
            Lane::F64 => (value as f64).to_bits(),
            _ => u64::from((value as f32).to_bits()),
        };
        let is_unsigned = low == 0;
        let (low, high) = (self.constant(bits(low), vector), self.constant(bits(high), vector));
        let is_wrong = base::fault::is_seeded("x64.clamp");
        let clamped = if is_wrong { vector } else { self.binary(Opcode::Max, vector, low) };
        let clamped = self.binary(Opcode::Min, clamped, high);
        let ints = match (vector.lane, to) {
            (Lane::F64, DType::U32) => self.clamped_f64_to_u32(clamped),
            (Lane::F64, _) => self.convert_op(Opcode::F64ToI32, clamped, Lane::I32),
            _ => self.convert_op(Opcode::F32ToI32, clamped, Lane::I32),
        };
        if is_unsigned {
            return ints;
        }
        let ordered = self.compare_floats(FLOAT_ORDERED, vector, vector);
        let zero = self.constant(0, ints);
        self.blend_vectors(ordered, zero, ints)
    }

    /// f32 to integers of at most 16 bits, by one rounding. Bounds are whole, so that what is
    /// bounded first is rounded to the same.
    pub(super) fn rounded_to_int(&mut self, vector: Vector, rounded: &Rounded<'_>) -> Vector {
        let Some((low, high)) = rounded.within.integer_range() else { return vector };
        let value = self.register(vector);
        let vector = Vector { item: Item::Register(value), ..vector };
        let bits = |bound: i128| u64::from(((bound - i128::from(rounded.added)) as f32).to_bits());
        let (least, most) = (self.constant(bits(low), vector), self.constant(bits(high), vector));
        // The bound stands second: NaN becomes it, and is cleared below if that is not zero.
        let clamped = self.binary(Opcode::Max, vector, least);
        let clamped = self.binary(Opcode::Min, clamped, most);
        let ints = self.convert_op(Opcode::F32ToNearI32, clamped, Lane::I32);
        let with = |selector: &mut Self, ints: Vector, number: i64| match number {
            0 => ints,
            _ => {
                let number = selector.constant(u64::from(number as i32 as u32), ints);
                selector.binary(Opcode::Add, ints, number)
            }
        };
        if low == 0 {
            return with(self, ints, rounded.added + rounded.moved);
        }
        let ints = with(self, ints, rounded.added);
        let ordered = self.compare_floats(FLOAT_ORDERED, vector, vector);
        let zero = self.constant(0, ints);
        let ints = self.blend_vectors(ordered, zero, ints);
        with(self, ints, rounded.moved)
    }

    fn clamped_f64_to_u32(&mut self, vector: Vector) -> Vector {
        if self.builder.has_masks() {
            return self.convert_op(Opcode::F64ToU32, vector, Lane::I32);
        }
        let whole = self.unary(Opcode::Round, vector, 11);
        let middle = self.constant(2f64.powi(31).to_bits(), whole);
        let moved = self.binary(Opcode::Sub, whole, middle);
        let ints = self.convert_op(Opcode::F64ToI32, moved, Lane::I32);
        let sign = self.constant(1 << 31, ints);
        self.binary(Opcode::Xor, ints, sign)
    }

    fn f32_to_i32(&mut self, vector: Vector) -> Vector {
        // Out of range the instruction gives the lowest integer, which is wrong above and for NaN.
        let ints = self.convert_op(Opcode::F32ToI32, vector, Lane::I32);
        let limit = self.constant(u64::from(2f32.powi(31).to_bits()), vector);
        let above = self.compare_floats(FLOAT_GREATER_EQUAL, vector, limit);
        let highest = self.constant(0x7fff_ffff, ints);
        let ints = self.blend_vectors(above, ints, highest);
        let ordered = self.compare_floats(FLOAT_ORDERED, vector, vector);
        let zero = self.constant(0, ints);
        self.blend_vectors(ordered, zero, ints)
    }

    fn f32_to_u32(&mut self, vector: Vector) -> Vector {
        // The larger of the number and 0 is 0 for NaN.
        let zero = self.constant(0, vector);
        let positive = self.binary(Opcode::Max, vector, zero);
        if self.builder.has_masks() {
            // Out of range the instruction gives all ones.
            return self.convert_op(Opcode::F32ToU32, positive, Lane::I32);
        }
        let middle = self.constant(u64::from(2f32.powi(31).to_bits()), vector);
        let large = self.compare_floats(FLOAT_GREATER_EQUAL, positive, middle);
        let moved = self.binary(Opcode::Sub, positive, middle);
        let chosen = self.blend_vectors(large, positive, moved);
        let ints = self.convert_op(Opcode::F32ToI32, chosen, Lane::I32);
        let sign = self.constant(1 << 31, ints);
        let restored = self.binary(Opcode::Xor, ints, sign);
        let ints = self.blend_vectors(large, ints, restored);
        let limit = self.constant(u64::from(2f32.powi(32).to_bits()), vector);
        let above = self.compare_floats(FLOAT_GREATER_EQUAL, positive, limit);
        let highest = self.constant(0xffff_ffff, ints);
        self.blend_vectors(above, ints, highest)
    }

    fn f64_to_i64(&mut self, vector: Vector) -> Vector {
        let ints = self.truncated_f64(vector);
        let limit = self.constant(2f64.powi(63).to_bits(), vector);
        let above = self.compare_floats(FLOAT_GREATER_EQUAL, vector, limit);
        let highest = self.constant(i64::MAX as u64, ints);
        let ints = self.blend_vectors(above, ints, highest);
        let ordered = self.compare_floats(FLOAT_ORDERED, vector, vector);
        let zero = self.constant(0, ints);
        self.blend_vectors(ordered, zero, ints)
    }

    fn f64_to_u64(&mut self, vector: Vector) -> Vector {
        let zero = self.constant(0, vector);
        let positive = self.binary(Opcode::Max, vector, zero);
        if self.builder.has_masks() {
            return self.convert_op(Opcode::F64ToU64, positive, Lane::I64);
        }
        let middle = self.constant(2f64.powi(63).to_bits(), vector);
        let small = self.compare_floats(FLOAT_LESS, positive, middle);
        let moved = self.binary(Opcode::Sub, positive, middle);
        let chosen = self.blend_vectors(small, moved, positive);
        let ints = self.truncated_f64(chosen);
        let sign = self.constant(1 << 63, ints);
        let restored = self.binary(Opcode::Xor, ints, sign);
        let ints = self.blend_vectors(small, restored, ints);
        let limit = self.constant(2f64.powi(64).to_bits(), vector);
        let above = self.compare_floats(FLOAT_GREATER_EQUAL, positive, limit);
        let highest = self.constant(u64::MAX, ints);
        self.blend_vectors(above, ints, highest)
    }

    /// f64 as i64, the lowest integer out of range.
    fn truncated_f64(&mut self, vector: Vector) -> Vector {
        if self.builder.has_masks() {
            return self.convert_op(Opcode::F64ToI64, vector, Lane::I64);
        }
        let value = self.register(vector);
        if vector.lanes == 1 {
            let inst = Inst::new(Opcode::IntFromFloat, Lane::F64, &[value]);
            let int = self.builder.emit(inst, RegisterType::Int);
            return self.vector_of_int(int, Lane::I64);
        }
        self.put_in_frame(vector, APART);
        let ints: Vec<_> = (0..vector.lanes as i32)
            .map(|lane| {
                let inst = Inst::new(Opcode::LoadLane, Lane::F64, &[])
                    .address(MemoryOperand::frame(APART + 8 * lane));
                let value = self.builder.emit(inst, RegisterType::V128);
                let inst = Inst::new(Opcode::IntFromFloat, Lane::F64, &[value]);
                self.builder.emit(inst, RegisterType::Int)
            })
            .collect();
        self.gather_ints(&ints, Lane::I64)
    }

    // The same bits.

    pub(crate) fn bitcast(
        &mut self,
        value: Evaluated,
        from: DType,
        to: DType,
        lanes: usize,
    ) -> Evaluated {
        let bits = self.as_bits(value, from, lanes);
        self.element_of_bits(bits, to)
    }

    /// The bits of elements in integer lanes, zero or sign above them.
    fn as_bits(&mut self, value: Evaluated, from: DType, lanes: usize) -> Vector {
        match value {
            Evaluated::Mask(mask, _) => self.mask_as_ints(mask, lanes),
            Evaluated::Vector(vector) => match from {
                DType::F64 => Self::cast_lane(vector, Lane::I64),
                DType::F32 => Self::cast_lane(vector, Lane::I32),
                DType::BF16 => {
                    let value = self.register(vector);
                    let ints = Vector { item: Item::Register(value), lane: Lane::I32, ..vector };
                    self.unary(Opcode::ShrImm, ints, 16)
                }
                DType::F16 => self.f16_bits(vector),
                _ => vector,
            },
        }
    }

    /// f16 in 16 bits of 32-bit lanes, by way of the frame.
    pub(crate) fn f16_bits(&mut self, vector: Vector) -> Vector {
        let value = self.register(vector);
        if vector.lanes == 1 {
            let inst = Inst::new(Opcode::F32ToF16, Lane::F32, &[value]);
            let half = self.builder.emit(inst, RegisterType::V128);
            let half = Vector { item: Item::Register(half), lane: Lane::I32, lanes: 1 };
            return self.normalized(half, DType::U16);
        }
        let inst =
            Inst::new(Opcode::Store, Lane::F16, &[value]).address(MemoryOperand::frame(APART));
        self.builder.effect(inst);
        let inst = Inst::new(Opcode::Load, Lane::U16, &[]).address(MemoryOperand::frame(APART));
        let value = self.builder.emit(inst, register_type(Lane::I32, vector.lanes));
        Vector { item: Item::Register(value), lane: Lane::I32, ..vector }
    }

    fn element_of_bits(&mut self, bits: Vector, to: DType) -> Evaluated {
        let lanes = bits.lanes;
        Evaluated::Vector(match to {
            DType::Bool => return Evaluated::Mask(self.nonzero(bits), lanes),
            DType::F64 => Self::cast_lane(bits, Lane::F64),
            DType::F32 => Self::cast_lane(bits, Lane::F32),
            DType::BF16 => {
                let shifted = self.unary(Opcode::ShlImm, bits, 16);
                Self::cast_lane(shifted, Lane::F32)
            }
            DType::F16 => {
                let ints = self.lanes_as_ints(bits, APART);
                if lanes == 1 {
                    let one = self.vector_of_int(ints[0], Lane::I32);
                    return Evaluated::Vector(self.convert_op(Opcode::F16ToF32, one, Lane::F32));
                }
                for (lane, int) in ints.into_iter().enumerate() {
                    let address = MemoryOperand::frame(COLLECT + 2 * lane as i32);
                    self.builder
                        .effect(Inst::new(Opcode::IntStore, Lane::I16, &[int]).address(address));
                }
                let inst =
                    Inst::new(Opcode::Load, Lane::F16, &[]).address(MemoryOperand::frame(COLLECT));
                let value = self.builder.emit(inst, register_type(Lane::F32, lanes));
                Vector { item: Item::Register(value), lane: Lane::F32, lanes }
            }
            _ => self.normalized(bits, to),
        })
    }
}
