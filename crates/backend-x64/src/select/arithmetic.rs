//! Scalar functions on lanes, to the bit as the table in `tensor` has them.
//!
//! Integers narrower than their lane are brought back to its form after every operation that can
//! leave it; halves are rounded after every operation that can need it.

use loops::{Comparison, ScalarExpr};
use smallvec::SmallVec;
use tensor::{Class, DType, Reduction, Scalar, ScalarFunction};

use super::Selector;
use super::memory::{APART, COLLECT};
use super::value::{Evaluated, Item, Mask, Vector, carrier, register_type};
use crate::vcode::{Inst, Lane, Opcode, RegisterType, VRegId};

/// Predicates of CMPPS that do not signal: ordered ones but for `NotEqual`.
const FLOAT_EQUAL: i64 = 0x00;
const FLOAT_UNORDERED: i64 = 0x03;
const FLOAT_NOT_EQUAL: i64 = 0x04;
pub(crate) const FLOAT_ORDERED: i64 = 0x07;
pub(crate) const FLOAT_LESS: i64 = 0x11;
const FLOAT_LESS_EQUAL: i64 = 0x12;
pub(crate) const FLOAT_GREATER_EQUAL: i64 = 0x1d;
pub(crate) const FLOAT_GREATER: i64 = 0x1e;

/// A float that becomes an integer of few bits: rounded to the nearest, with an integer added, in
/// the range of a type.
pub(super) struct Rounded<'a> {
    pub(super) value: &'a ScalarExpr,
    pub(super) added: i64,
    /// The type whose range bounds the sum.
    pub(super) within: DType,
    /// What is added behind the bounds.
    pub(super) moved: i64,
}

impl<'a> Rounded<'a> {
    /// What `cast<dtype>(round(x) + c)` is, and bytes and words of it with the highest bit turned,
    /// which are those with a sign.
    fn of(function: ScalarFunction, dtype: DType, operand: &'a ScalarExpr) -> Option<Rounded<'a>> {
        use ScalarFunction as F;
        let ScalarExpr::Apply { function: by, dtype: own, arguments } = operand else {
            return None;
        };
        match (function, by, &arguments[..]) {
            (F::Cast, F::Round, [value]) if *own == DType::F32 => {
                let fits = dtype.is_integer() && dtype.bits() <= 16;
                fits.then_some(Rounded { value, added: 0, within: dtype, moved: 0 })
            }
            (F::Cast, F::Add, [inner, ScalarExpr::Constant(number)]) => {
                let number = number.as_f64();
                let small = number.fract() == 0.0 && number.abs() < 65536.0;
                let found = Rounded::of(function, dtype, inner).filter(|_| small)?;
                (found.added == 0).then_some(Rounded { added: number as i64, ..found })
            }
            (F::Bitcast, F::Xor, [inner, ScalarExpr::Constant(half)]) => {
                let ScalarExpr::Apply { function: F::Cast, arguments, .. } = inner else {
                    return None;
                };
                let turns =
                    matches!((own, dtype), (DType::U8, DType::I8) | (DType::U16, DType::I16))
                        && half.bits() == 1 << (dtype.bits() - 1);
                let found = Rounded::of(F::Cast, *own, &arguments[0]).filter(|_| turns)?;
                Some(Rounded { moved: -(half.bits() as i64), ..found })
            }
            _ => None,
        }
    }
}

impl Selector<'_> {
    /// A function applied to values.
    pub(crate) fn apply(
        &mut self,
        function: ScalarFunction,
        dtype: DType,
        arguments: &[ScalarExpr],
        lanes: usize,
    ) -> base::Result<Evaluated> {
        let Some(operand) = arguments.last().and_then(|value| value.dtype(self.kernel)) else {
            return Err(self.refuse(format!("an operand of `{function}` has no type")));
        };
        for one in [dtype, operand] {
            if carrier(one).is_none() {
                return Err(self.unsupported_type(one));
            }
        }
        if let [value] = arguments
            && let Some(rounded) = Rounded::of(function, dtype, value)
            && let Evaluated::Vector(vector) = self.evaluate(rounded.value, lanes)?
        {
            return Ok(Evaluated::Vector(self.rounded_to_int(vector, &rounded)));
        }
        let mut values: SmallVec<[Evaluated; 3]> = SmallVec::new();
        for argument in arguments {
            values.push(self.evaluate(argument, lanes)?);
        }
        if function == ScalarFunction::Lookup {
            let looked_up = self.looked_up(&values).map(Evaluated::Vector);
            return looked_up.ok_or_else(|| self.refuse("a table of no integers".to_owned()));
        }
        match (function, &values[..]) {
            (ScalarFunction::Cast, [value]) => Ok(self.cast(*value, operand, dtype, lanes)),
            (ScalarFunction::Bitcast, [value]) => Ok(self.bitcast(*value, operand, dtype, lanes)),
            (ScalarFunction::Select, [Evaluated::Mask(mask, _), on, off]) => {
                Ok(self.blend(*mask, *off, *on, lanes))
            }
            _ => self.function(function, operand, &values, lanes),
        }
    }

    /// Combines two partial results of a reduction.
    pub(crate) fn combine(
        &mut self,
        reduction: Reduction,
        dtype: DType,
        a: Evaluated,
        b: Evaluated,
        lanes: usize,
    ) -> base::Result<Evaluated> {
        self.function(reduction.as_function(), dtype, &[a, b], lanes)
    }

    /// A function on evaluated operands of one type.
    pub(crate) fn function(
        &mut self,
        function: ScalarFunction,
        dtype: DType,
        values: &[Evaluated],
        lanes: usize,
    ) -> base::Result<Evaluated> {
        let mut masks: SmallVec<[Mask; 3]> = SmallVec::new();
        let mut vectors: SmallVec<[Vector; 3]> = SmallVec::new();
        for value in values {
            match value {
                Evaluated::Mask(mask, _) => masks.push(*mask),
                Evaluated::Vector(vector) => vectors.push(*vector),
            }
        }
        let result = if Self::is_mask(dtype) {
            self.on_masks(function, &masks, lanes).map(|mask| Evaluated::Mask(mask, lanes))
        } else if let Some(comparison) = Compared::of(function) {
            match vectors[..] {
                [a, b] => Some(Evaluated::Mask(self.compare(comparison, dtype, a, b), lanes)),
                _ => None,
            }
        } else if dtype.is_float() {
            self.on_floats(function, dtype, &vectors).map(Evaluated::Vector)
        } else {
            self.on_integers(function, dtype, &vectors).map(Evaluated::Vector)
        };
        result.ok_or_else(|| {
            self.refuse(format!("`{function}` of {dtype} is no operation of the machine"))
        })
    }

    fn on_masks(&mut self, function: ScalarFunction, masks: &[Mask], lanes: usize) -> Option<Mask> {
        use ScalarFunction as F;
        if let (F::Not, [a]) = (function, masks) {
            return Some(self.mask_not(*a, lanes));
        }
        let [a, b] = *masks else { return None };
        Some(match function {
            F::And | F::Min => self.mask_and(a, b, lanes),
            F::Or | F::Max => self.mask_or(a, b, lanes),
            F::Xor | F::Ne => self.mask_xor(a, b, lanes),
            F::Eq => {
                let differ = self.mask_xor(a, b, lanes);
                self.mask_not(differ, lanes)
            }
            F::Lt => {
                let not = self.mask_not(a, lanes);
                self.mask_and(not, b, lanes)
            }
            F::Gt => {
                let not = self.mask_not(b, lanes);
                self.mask_and(a, not, lanes)
            }
            F::Le => {
                let not = self.mask_not(a, lanes);
                self.mask_or(not, b, lanes)
            }
            F::Ge => {
                let not = self.mask_not(b, lanes);
                self.mask_or(a, not, lanes)
            }
            _ => return None,
        })
    }

    // Floats.

    fn on_floats(
        &mut self,
        function: ScalarFunction,
        dtype: DType,
        operands: &[Vector],
    ) -> Option<Vector> {
        use ScalarFunction as F;
        let exact = match (function, operands) {
            (F::Neg, [a]) => self.sign_bit_op(Opcode::Xor, *a, false),
            (F::Abs, [a]) => self.sign_bit_op(Opcode::And, *a, true),
            (F::Floor, [a]) => self.unary(Opcode::Round, *a, 9),
            (F::Ceil, [a]) => self.unary(Opcode::Round, *a, 10),
            (F::Round, [a]) => self.unary(Opcode::Round, *a, 8),
            (F::Trunc, [a]) => self.unary(Opcode::Round, *a, 11),
            (F::Min, [a, b]) => self.float_extreme(Opcode::Min, *a, *b),
            (F::Max, [a, b]) => self.float_extreme(Opcode::Max, *a, *b),
            _ => {
                let rounded = match (function, operands) {
                    (F::Add, [a, b]) => self.commuting(Opcode::Add, *a, *b),
                    (F::Mul, [a, b]) => self.commuting(Opcode::Mul, *a, *b),
                    (F::Sub, [a, b]) if base::fault::is_seeded("x64.operands") => {
                        self.binary(Opcode::Sub, *b, *a)
                    }
                    (F::Sub, [a, b]) => self.binary(Opcode::Sub, *a, *b),
                    (F::Div, [a, b]) => self.binary(Opcode::Div, *a, *b),
                    (F::Sqrt, [a]) => self.unary(Opcode::Sqrt, *a, 0),
                    (F::FusedMultiplyAdd, [a, b, c]) => self.fused(*a, *b, *c),
                    _ => return None,
                };
                return Some(self.round_to(rounded, dtype));
            }
        };
        // None of these makes a number of a short type longer.
        let known = [DType::F16, DType::BF16].into_iter();
        let mut of_all = known.filter(|&short| operands.iter().all(|it| self.is_short(*it, short)));
        if let (Item::Register(result), Some(short)) = (exact.item, of_all.next()) {
            self.short[result] = Some(short);
        }
        Some(exact)
    }

    /// The constant, if there is one, stands last, where it can be memory.
    fn commuting(&mut self, op: Opcode, a: Vector, b: Vector) -> Vector {
        match a.item {
            Item::Constant(_) => self.binary(op, b, a),
            Item::Register(_) => self.binary(op, a, b),
        }
    }

    fn sign_bit_op(&mut self, op: Opcode, a: Vector, inverted: bool) -> Vector {
        let bit = 1u64 << (8 * a.lane.bytes() - 1);
        let all = u64::MAX >> (64 - 8 * a.lane.bytes());
        let constant = self.constant(if inverted { all ^ bit } else { bit }, a);
        self.binary(op, a, constant)
    }

    /// `a * b + c`, rounded once, without rounding to halves.
    pub(crate) fn fused(&mut self, a: Vector, b: Vector, c: Vector) -> Vector {
        let (a, b) = match a.item {
            Item::Constant(_) => (b, a),
            Item::Register(_) => (a, b),
        };
        let ty = register_type(a.lane, a.lanes);
        let inst = if let Item::Constant(_) = c.item {
            let first = [self.register(a), self.register(b)];
            self.with_last(Inst::new(Opcode::Fma213, a.lane, &first), &first, c)
        } else {
            let first = [self.register(c), self.register(a)];
            self.with_last(Inst::new(Opcode::Fma231, a.lane, &first), &first, b)
        };
        let value = self.builder.emit(inst, ty);
        Vector { item: Item::Register(value), ..a }
    }

    /// The smaller or larger; NaN if either is.
    fn float_extreme(&mut self, op: Opcode, a: Vector, b: Vector) -> Vector {
        // The instruction gives the second operand if either is NaN, so that a number stands first.
        for (first, second) in [(a, b), (b, a)] {
            if let Item::Constant(bits) = first.item
                && !is_nan(bits, first.lane)
            {
                return self.binary(op, first, second);
            }
        }
        // The first operand is what a reduction keeps: the next step waits for the extreme and the
        // blend alone.
        let extreme = self.binary(op, b, a);
        let nan = self.compare_floats(FLOAT_UNORDERED, b, b);
        self.blend_vectors(nan, extreme, b)
    }

    pub(crate) fn compare_floats(&mut self, predicate: i64, a: Vector, b: Vector) -> Mask {
        let left = self.register(a);
        let inst = Inst::new(Opcode::Compare, a.lane, &[left]).imm(predicate);
        let inst = self.with_last(inst, &[left], b);
        self.compared(inst, a)
    }

    fn compared(&mut self, inst: Inst, like: Vector) -> Mask {
        if self.builder.has_masks() {
            return Mask::Register(self.builder.emit(inst, RegisterType::Mask), 0);
        }
        let ty = register_type(like.lane, like.lanes);
        Mask::Register(self.builder.emit(inst, ty), like.lane.bytes())
    }

    /// Whether all numbers in f32 lanes are of a shorter type.
    fn is_short(&self, vector: Vector, dtype: DType) -> bool {
        match vector.item {
            Item::Register(register) => self.short[register] == Some(dtype),
            Item::Constant(bits) => {
                let number = Scalar::from_bits(DType::F32, bits & 0xffff_ffff);
                number.cast(dtype).cast(DType::F32) == number
            }
        }
    }

    /// f32 lanes rounded to a shorter type; others as they are.
    pub(crate) fn round_to(&mut self, vector: Vector, dtype: DType) -> Vector {
        match dtype {
            _ if self.is_short(vector, dtype) => vector,
            DType::F16 => {
                let value = self.register(vector);
                let inst = Inst::new(Opcode::F32ToF16, Lane::F32, &[value]);
                let half = self.builder.emit(inst, RegisterType::vector(2 * vector.lanes));
                let inst = Inst::new(Opcode::F16ToF32, Lane::F32, &[half]);
                let value = self.builder.emit(inst, register_type(Lane::F32, vector.lanes));
                self.rounded[value] = Some(half);
                Vector { item: Item::Register(value), ..vector }
            }
            DType::BF16 => self.round_to_bf16(vector),
            _ => vector,
        }
    }

    fn round_to_bf16(&mut self, vector: Vector) -> Vector {
        let value = self.register(vector);
        let vector = Vector { item: Item::Register(value), ..vector };
        let ints = Self::cast_lane(vector, Lane::I32);
        let constant = |selector: &Self, bits: u64| selector.constant(bits, ints);
        // Half of what is cut off, less one where the last bit kept is even.
        let kept = self.unary(Opcode::ShrImm, ints, 16);
        let last = self.binary(Opcode::And, kept, constant(self, 1));
        let bias = self.binary(Opcode::Add, last, constant(self, 0x7fff));
        let rounded = self.binary(Opcode::Add, ints, bias);
        let quiet = self.binary(Opcode::Or, ints, constant(self, 0x0040_0000));
        let nan = self.compare_floats(FLOAT_UNORDERED, vector, vector);
        let chosen = self.blend_vectors(nan, rounded, quiet);
        let is_wrong = base::fault::is_seeded("x64.bf16");
        let kept = if is_wrong { 0xfff0_0000 } else { 0xffff_0000 };
        let cut = self.binary(Opcode::And, chosen, constant(self, kept));
        let rounded = Self::cast_lane(cut, Lane::F32);
        if let Item::Register(result) = rounded.item {
            self.rounded[result] = Some(value);
            self.uncut[result] = Some(self.register(chosen)).filter(|_| !is_wrong);
        }
        rounded
    }

    // Comparisons.

    fn compare(&mut self, compared: Compared, dtype: DType, a: Vector, b: Vector) -> Mask {
        let Compared { comparison, swapped } = compared;
        if dtype.is_float() {
            let predicate = match (comparison, swapped) {
                (Comparison::Equal, _) => FLOAT_EQUAL,
                (Comparison::NotEqual, _) => FLOAT_NOT_EQUAL,
                (Comparison::Less, false) => FLOAT_LESS,
                (Comparison::LessEqual, false) => FLOAT_LESS_EQUAL,
                (Comparison::Less, true) => FLOAT_GREATER,
                (Comparison::LessEqual, true) => FLOAT_GREATER_EQUAL,
            };
            return self.compare_floats(predicate, a, b);
        }
        let (a, b) = if swapped { (b, a) } else { (a, b) };
        // Narrow unsigned integers are never negative in their lanes.
        let signed = Self::is_signed(dtype) || dtype.bits() < 32;
        self.compare_ints(comparison, a, b, signed)
    }

    /// Compares integer lanes.
    pub(crate) fn compare_ints(
        &mut self,
        comparison: Comparison,
        a: Vector,
        b: Vector,
        signed: bool,
    ) -> Mask {
        if self.builder.has_masks() {
            let predicate = match comparison {
                Comparison::Equal => 0,
                Comparison::Less => 1,
                Comparison::LessEqual => 2,
                Comparison::NotEqual => 4,
            };
            let op = if signed { Opcode::Compare } else { Opcode::CompareUnsigned };
            let left = self.register(a);
            let inst = Inst::new(op, a.lane, &[left]).imm(predicate);
            let inst = self.with_last(inst, &[left], b);
            return Mask::Register(self.builder.emit(inst, RegisterType::Mask), 0);
        }
        let ordered = matches!(comparison, Comparison::Less | Comparison::LessEqual);
        let (a, b) = match signed || !ordered {
            true => (a, b),
            false => {
                (self.sign_bit_op(Opcode::Xor, a, false), self.sign_bit_op(Opcode::Xor, b, false))
            }
        };
        let lanes = a.lanes;
        let compare = |selector: &mut Self, op: Opcode, a: Vector, b: Vector| {
            let compared = selector.binary(op, a, b);
            Mask::Register(selector.register(compared), a.lane.bytes())
        };
        match comparison {
            Comparison::Equal => compare(self, Opcode::CompareEqual, a, b),
            Comparison::Less => compare(self, Opcode::CompareGreater, b, a),
            Comparison::NotEqual => {
                let equal = compare(self, Opcode::CompareEqual, a, b);
                self.mask_not(equal, lanes)
            }
            Comparison::LessEqual => {
                let greater = compare(self, Opcode::CompareGreater, a, b);
                self.mask_not(greater, lanes)
            }
        }
    }

    // Integers.

    /// Lanes brought back into the form of a narrow type: sign- or zero-extended.
    pub(crate) fn normalized(&mut self, vector: Vector, dtype: DType) -> Vector {
        let bits = dtype.bits();
        if bits >= 32 {
            return vector;
        }
        if dtype.class() == Class::Unsigned {
            let mask = self.constant((1 << bits) - 1, vector);
            return self.binary(Opcode::And, vector, mask);
        }
        let shift = i64::from(32 - bits);
        let shifted = self.unary(Opcode::ShlImm, vector, shift);
        self.unary(Opcode::SarImm, shifted, shift)
    }

    fn on_integers(
        &mut self,
        function: ScalarFunction,
        dtype: DType,
        operands: &[Vector],
    ) -> Option<Vector> {
        use ScalarFunction as F;
        let signed = Self::is_signed(dtype);
        let exact = match (function, operands) {
            (F::Min, [a, b]) => self.int_extreme(true, dtype, *a, *b),
            (F::Max, [a, b]) => self.int_extreme(false, dtype, *a, *b),
            (F::And, [a, b]) => self.commuting(Opcode::And, *a, *b),
            (F::Or, [a, b]) => self.commuting(Opcode::Or, *a, *b),
            (F::Xor, [a, b]) => self.commuting(Opcode::Xor, *a, *b),
            (F::Shl | F::Shr, [a, Vector { item: Item::Constant(0), .. }]) => *a,
            (F::Shr, [a, b]) => self.shift_right(*a, *b, signed),
            _ => {
                let wrapped = match (function, operands) {
                    (F::Add, [a, b]) => self.commuting(Opcode::Add, *a, *b),
                    (F::Sub, [a, b]) => self.binary(Opcode::Sub, *a, *b),
                    (F::Mul, [a, b]) => self.int_product(*a, *b),
                    (F::FusedMultiplyAdd, [a, b, c]) => {
                        let product = self.int_product(*a, *b);
                        self.binary(Opcode::Add, product, *c)
                    }
                    (F::Div, [a, b]) => self.int_quotient(dtype, *a, *b),
                    (F::Neg, [a]) => {
                        let zero = self.constant(0, *a);
                        self.binary(Opcode::Sub, zero, *a)
                    }
                    (F::Abs, [a]) if signed => self.int_abs(*a),
                    (F::Abs, [a]) => *a,
                    (F::Not, [a]) => {
                        let ones = self.constant(u64::MAX >> (64 - 8 * a.lane.bytes()), *a);
                        self.binary(Opcode::Xor, *a, ones)
                    }
                    (F::Shl, [a, b]) => self.shift_left(*a, *b),
                    _ => return None,
                };
                return Some(self.normalized(wrapped, dtype));
            }
        };
        Some(exact)
    }

    fn int_extreme(&mut self, smaller: bool, dtype: DType, a: Vector, b: Vector) -> Vector {
        let signed = Self::is_signed(dtype) || dtype.bits() < 32;
        if a.lane == Lane::I64 && !self.builder.has_masks() {
            let less = self.compare_ints(Comparison::Less, a, b, signed);
            return match smaller {
                true => self.blend_vectors(less, b, a),
                false => self.blend_vectors(less, a, b),
            };
        }
        let op = match (smaller, signed) {
            (true, true) => Opcode::Min,
            (false, true) => Opcode::Max,
            (true, false) => Opcode::MinUnsigned,
            (false, false) => Opcode::MaxUnsigned,
        };
        self.commuting(op, a, b)
    }

    fn int_abs(&mut self, a: Vector) -> Vector {
        if a.lane == Lane::I32 || self.builder.has_masks() {
            return self.unary(Opcode::Abs, a, 0);
        }
        let sign = self.lane_signs(a);
        let flipped = self.binary(Opcode::Xor, a, sign);
        self.binary(Opcode::Sub, flipped, sign)
    }

    /// All ones in negative lanes, zeros in the others.
    fn lane_signs(&mut self, a: Vector) -> Vector {
        let zero = self.constant(0, a);
        self.binary(Opcode::CompareGreater, zero, a)
    }

    pub(super) fn int_product(&mut self, a: Vector, b: Vector) -> Vector {
        if a.lane == Lane::I32 || self.builder.has_masks() {
            return self.commuting(Opcode::Mul, a, b);
        }
        // Products of halves: low * low + (high * low + low * high) << 32.
        let (a_high, b_high) =
            (self.unary(Opcode::ShrImm, a, 32), self.unary(Opcode::ShrImm, b, 32));
        let low = self.binary(Opcode::MulWide, a, b);
        let first = self.binary(Opcode::MulWide, a_high, b);
        let second = self.binary(Opcode::MulWide, b_high, a);
        let cross = self.binary(Opcode::Add, first, second);
        let cross = self.unary(Opcode::ShlImm, cross, 32);
        self.binary(Opcode::Add, low, cross)
    }

    /// An amount of at least the width gives 0, as the instruction does.
    fn shift_left(&mut self, a: Vector, b: Vector) -> Vector {
        match b.item {
            Item::Constant(amount) if amount < 8 * a.lane.bytes() as u64 => {
                self.unary(Opcode::ShlImm, a, amount as i64)
            }
            _ => self.binary(Opcode::Shl, a, b),
        }
    }

    fn shift_right(&mut self, a: Vector, b: Vector, signed: bool) -> Vector {
        if signed && a.lane == Lane::I64 && !self.builder.has_masks() {
            // Shifting the complement of a negative number brings in zeros that flip to ones.
            let sign = self.lane_signs(a);
            let flipped = self.binary(Opcode::Xor, a, sign);
            let shifted = self.shift_right(flipped, b, false);
            return self.binary(Opcode::Xor, shifted, sign);
        }
        match b.item {
            Item::Constant(amount) if amount < 8 * a.lane.bytes() as u64 => {
                self.unary(if signed { Opcode::SarImm } else { Opcode::ShrImm }, a, amount as i64)
            }
            _ => self.binary(if signed { Opcode::Sar } else { Opcode::Shr }, a, b),
        }
    }

    /// Division, lane by lane: the machine divides only single integers.
    fn int_quotient(&mut self, dtype: DType, a: Vector, b: Vector) -> Vector {
        let (lane, lanes) = (a.lane, a.lanes);
        let (a, b) = (self.integers(dtype, a, APART), self.integers(dtype, b, COLLECT));
        let quotients: Vec<VRegId> =
            a.into_iter().zip(b).map(|(a, b)| self.quotient(dtype, a, b)).collect();
        if lanes == 1 {
            return self.vector_of_int(quotients[0], lane);
        }
        self.gather_ints(&quotients, lane)
    }

    /// The lanes as integers, extended as the type says.
    pub(crate) fn integers(&mut self, dtype: DType, vector: Vector, at: i32) -> Vec<VRegId> {
        let ints = self.lanes_as_ints(vector, at);
        if dtype != DType::U32 {
            return ints;
        }
        let extend = |int| Inst::new(Opcode::IntExtend, Lane::U32, &[int]);
        ints.into_iter().map(|int| self.builder.emit(extend(int), RegisterType::Int)).collect()
    }

    fn quotient(&mut self, dtype: DType, a: VRegId, b: VRegId) -> VRegId {
        let ones = self.builder.int_const(-1);
        let one = self.builder.int_const(1);
        let divisor = self.builder.int(Opcode::IntSelect, &[b, one, b]);
        if !Self::is_signed(dtype) {
            let quotient = self.builder.int(Opcode::IntDivUnsigned, &[a, divisor]);
            return self.builder.int(Opcode::IntSelect, &[quotient, ones, b]);
        }
        if dtype.bits() < 64 {
            let quotient = self.builder.int(Opcode::IntDivSigned, &[a, divisor]);
            return self.builder.int(Opcode::IntSelect, &[quotient, ones, b]);
        }
        // The lowest number divided by -1 would trap.
        let next = self.builder.add_imm(divisor, 1);
        let divisor = self.builder.int(Opcode::IntSelect, &[divisor, one, next]);
        let quotient = self.builder.int(Opcode::IntDivSigned, &[a, divisor]);
        let zero = self.builder.int_const(0);
        let negated = self.builder.int(Opcode::IntSub, &[zero, a]);
        let next = self.builder.add_imm(b, 1);
        let quotient = self.builder.int(Opcode::IntSelect, &[quotient, negated, next]);
        self.builder.int(Opcode::IntSelect, &[quotient, ones, b])
    }
}

/// A comparison, perhaps with its operands swapped.
#[derive(Clone, Copy)]
struct Compared {
    comparison: Comparison,
    swapped: bool,
}

impl Compared {
    fn of(function: ScalarFunction) -> Option<Compared> {
        let (comparison, swapped) = match function {
            ScalarFunction::Eq => (Comparison::Equal, false),
            ScalarFunction::Ne => (Comparison::NotEqual, false),
            ScalarFunction::Lt => (Comparison::Less, false),
            ScalarFunction::Le => (Comparison::LessEqual, false),
            ScalarFunction::Gt => (Comparison::Less, true),
            ScalarFunction::Ge => (Comparison::LessEqual, true),
            _ => return None,
        };
        Some(Compared { comparison, swapped })
    }
}

fn is_nan(bits: u64, lane: Lane) -> bool {
    match lane.bytes() {
        8 => f64::from_bits(bits).is_nan(),
        _ => f32::from_bits(bits as u32).is_nan(),
    }
}
