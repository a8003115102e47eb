//! Conditions and masks.
//!
//! A mask is a bit a lane: in a mask register with AVX-512, as all ones or zeros in each lane of a
//! vector with AVX2. The lanes in force are those of the vector's tail and of all guards around.

use loops::{Comparison, Condition, ScalarExpr};
use sym::Expr;

use super::Selector;
use super::index::Binding;
use super::value::{Carrier, Evaluated, Item, Mask, Vector, all_lanes, carrier, register_type};
use crate::vcode::{Cond, Inst, IntOperand, Lane, MemoryOperand, Opcode, RegisterType, VRegId};

/// Conditions, evaluated.
pub(crate) enum Holds {
    /// Known now.
    Constant(bool),
    /// The same for all lanes: an integer, 0 or 1.
    Uniform(VRegId),
    /// Lane by lane.
    Lanes(LanesOn),
}

/// Lanes in which conditions hold.
#[derive(Clone, Copy)]
pub(crate) struct LanesOn {
    /// Those lanes.
    pub(crate) mask: Mask,
    /// An integer, 0 or 1: what of the conditions is the same for all lanes, if something is.
    pub(crate) uniform: Option<VRegId>,
    /// The lanes in which the rest of them holds.
    pub(crate) rest: Mask,
}

impl From<Mask> for LanesOn {
    fn from(mask: Mask) -> LanesOn {
        LanesOn { mask, uniform: None, rest: mask }
    }
}

/// Further than any lane is from the first, and less than the half of what 32 bits hold.
const FAR: i64 = 1 << 30;

impl Selector<'_> {
    /// `value` where the conditions hold, else `otherwise`.
    pub(crate) fn guard(
        &mut self,
        conditions: &[Condition],
        value: &ScalarExpr,
        otherwise: &ScalarExpr,
        lanes: usize,
    ) -> base::Result<Evaluated> {
        let on = match self.holds(conditions, lanes)? {
            Holds::Constant(true) => return self.evaluate(value, lanes),
            Holds::Constant(false) => return self.evaluate(otherwise, lanes),
            Holds::Uniform(condition) => {
                if let Some(loaded) = self.load_or(condition, value, otherwise, lanes)? {
                    return Ok(loaded);
                }
                return self.choose(condition, value, otherwise, lanes);
            }
            Holds::Lanes(on) => on,
        };
        let then = self.under(on, |selector| selector.evaluate(value, lanes))?;
        let not = self.mask_not(on.mask, lanes);
        let otherwise = self.under(not.into(), |selector| selector.evaluate(otherwise, lanes))?;
        Ok(self.blend(on.mask, otherwise, then, lanes))
    }

    /// A guarded load with a constant otherwise: reads the constant from memory where the condition
    /// fails, so that nothing branches.
    fn load_or(
        &mut self,
        condition: VRegId,
        value: &ScalarExpr,
        otherwise: &ScalarExpr,
        lanes: usize,
    ) -> base::Result<Option<Evaluated>> {
        let (ScalarExpr::Load { buffer, index }, ScalarExpr::Constant(constant)) =
            (value, otherwise)
        else {
            return Ok(None);
        };
        let declared = &self.kernel.buffers[*buffer];
        if declared.scope == loops::Scope::Register || carrier(declared.dtype).is_none() {
            return Ok(None);
        }
        let linear = self.linear(*buffer, index);
        let bytes = self.element_bytes(*buffer);
        let uniform = lanes == 1 || linear.lane_step == 0;
        let contiguous = linear.lane_step == bytes as i64;
        let whole = self.active_mask(lanes.max(1)) == Mask::Constant(all_lanes(lanes));
        if linear.irregular || !(uniform || contiguous && whole) || self.exec.is_some() {
            return Ok(None);
        }
        let element = constant.bits().to_le_bytes()[..bytes].to_vec();
        let pool = self.builder.pool(element.repeat(64 / bytes));
        let fallback =
            Inst::new(Opcode::Lea, Lane::I64, &[]).address(MemoryOperand::pool(pool, false));
        let fallback = self.builder.emit(fallback, RegisterType::Int);
        let address = self.address(*buffer, &linear);
        let inst = Inst::new(Opcode::Lea, Lane::I64, &[]).address(address);
        let pointer = self.builder.emit(inst, RegisterType::Int);
        let chosen = self.builder.int(Opcode::IntSelect, &[pointer, fallback, condition]);
        let address = MemoryOperand::new(chosen, 0);
        Ok(Some(if uniform {
            self.load_uniform_at(*buffer, address, lanes)
        } else {
            self.load_contiguous(*buffer, address, Mask::Constant(all_lanes(lanes)), lanes)
        }))
    }

    /// Evaluates one of two values, by a branch.
    fn choose(
        &mut self,
        condition: VRegId,
        value: &ScalarExpr,
        otherwise: &ScalarExpr,
        lanes: usize,
    ) -> base::Result<Evaluated> {
        let mut branching = self.builder.open_branch(Cond::NotEqual, condition, IntOperand::Imm(0));
        let first = self.evaluate(value, lanes)?;
        let result = self.in_register(first, lanes);
        self.builder.next_arm(&mut branching, vec![result]);
        self.trim_loaded(self.builder.depth() - 1);
        let second = self.evaluate(otherwise, lanes)?;
        let result = self.in_register(second, lanes);
        let merged = self.builder.close_branch(branching, vec![result])[0];
        self.trim_loaded(self.builder.depth());
        Ok(self.register_as(first, merged))
    }

    /// A value in one register, in the form that registers of its type always have.
    pub(crate) fn in_register(&mut self, value: Evaluated, lanes: usize) -> VRegId {
        match value {
            Evaluated::Vector(vector) => self.register(vector),
            Evaluated::Mask(mask, _) => self.mask_register(mask, lanes, 4),
        }
    }

    /// Another register with a value of the same form as `like`.
    pub(crate) fn register_as(&self, like: Evaluated, register: VRegId) -> Evaluated {
        match like {
            Evaluated::Vector(vector) => {
                Evaluated::Vector(Vector { item: Item::Register(register), ..vector })
            }
            Evaluated::Mask(_, lanes) => {
                let bytes = if self.builder.has_masks() { 0 } else { 4 };
                Evaluated::Mask(Mask::Register(register, bytes), lanes)
            }
        }
    }

    /// Runs something with only these lanes in force, of those that are.
    pub(crate) fn under<T>(
        &mut self,
        on: LanesOn,
        run: impl FnOnce(&mut Self) -> base::Result<T>,
    ) -> base::Result<T> {
        let lanes = self.vector_lanes();
        let outer = self.exec;
        self.exec = Some(match outer {
            None => on,
            Some(outer) => LanesOn {
                mask: self.mask_and(outer.mask, on.mask, lanes),
                uniform: match (outer.uniform, on.uniform) {
                    (Some(one), Some(other)) => {
                        Some(self.builder.int(Opcode::IntAnd, &[one, other]))
                    }
                    (one, other) => one.or(other),
                },
                rest: self.mask_and(outer.rest, on.rest, lanes),
            },
        });
        let result = run(self);
        self.exec = outer;
        result
    }

    /// Lanes of the vector loop around, or 1.
    pub(crate) fn vector_lanes(&self) -> usize {
        self.vector.as_ref().map_or(1, |vector| vector.lanes)
    }

    /// The lanes in force.
    pub(crate) fn active_mask(&mut self, lanes: usize) -> Mask {
        self.active(lanes, self.exec.map(|on| on.mask))
    }

    /// The lanes in force if all conditions hold that are the same for all lanes.
    pub(crate) fn active_rest(&mut self, lanes: usize) -> Mask {
        self.active(lanes, self.exec.map(|on| on.rest))
    }

    fn active(&mut self, lanes: usize, on: Option<Mask>) -> Mask {
        let tail = self.vector.as_ref().map_or(all_lanes(lanes), |vector| vector.tail);
        match on {
            Some(on) => self.mask_and(Mask::Constant(tail), on, lanes),
            None => Mask::Constant(tail),
        }
    }

    /// An integer that is nonzero if a lane is in force; `None` if that is certain.
    pub(crate) fn any_lane(&mut self) -> Option<VRegId> {
        let exec = self.exec?;
        let lanes = self.vector_lanes();
        let tail = self.vector.as_ref().map_or(1, |vector| vector.tail);
        match exec.mask {
            Mask::Constant(bits) if bits & tail != 0 => None,
            Mask::Constant(_) => Some(self.builder.int_const(0)),
            Mask::Register(..) => {
                let bits = self.mask_as_bits(exec.mask, lanes);
                Some(self.builder.int_imm(Opcode::IntAndImm, bits, i64::from(tail)))
            }
        }
    }

    /// Whether a conjunction holds.
    pub(crate) fn holds(&mut self, conditions: &[Condition], lanes: usize) -> base::Result<Holds> {
        let mut uniform: Option<VRegId> = None;
        let mut mask: Option<Mask> = None;
        for condition in conditions {
            match self.condition(condition, lanes)? {
                Holds::Constant(true) => {}
                Holds::Constant(false) => return Ok(Holds::Constant(false)),
                Holds::Uniform(value) => {
                    uniform = Some(match uniform {
                        None => value,
                        Some(other) => self.builder.int(Opcode::IntAnd, &[other, value]),
                    });
                }
                Holds::Lanes(on) => {
                    mask = Some(match mask {
                        None => on.mask,
                        Some(other) => self.mask_and(other, on.mask, lanes),
                    });
                }
            }
        }
        Ok(match (mask, uniform) {
            (None, None) => Holds::Constant(true),
            (None, Some(uniform)) => Holds::Uniform(uniform),
            (Some(Mask::Constant(0)), _) => Holds::Constant(false),
            (Some(mask), None) if mask == Mask::Constant(all_lanes(lanes)) => Holds::Constant(true),
            (Some(mask), None) => Holds::Lanes(mask.into()),
            (Some(rest), Some(uniform)) => {
                let all = self.uniform_mask(uniform, lanes);
                let mask = self.mask_and(rest, all, lanes);
                Holds::Lanes(LanesOn { mask, uniform: Some(uniform), rest })
            }
        })
    }

    fn condition(&mut self, condition: &Condition, lanes: usize) -> base::Result<Holds> {
        let difference = condition.left.clone() - &condition.right;
        let bound = difference.substitute(&mut |symbol| match self.bindings[symbol] {
            Binding::Constant(value) if !self.is_vector_variable(symbol) => {
                Some(Expr::constant(value))
            }
            _ => None,
        });
        let bound = self.ranges.simplify(&bound);
        if lanes == 1 || !self.expr_differs_by_lane(&bound) {
            if let Some(value) = bound.as_constant() {
                return Ok(Holds::Constant(compares(condition.comparison, value)));
            }
            let (left, right) = (self.int(&condition.left), self.int(&condition.right));
            return Ok(Holds::Uniform(self.int_compare(condition.comparison, left, right)));
        }
        let symbol = self.vector.as_ref().map(|vector| vector.symbol);
        let regular = !bound.any_symbol(&mut |s| matches!(self.bindings[s], Binding::Lanes(_)));
        let step = symbol.and_then(|symbol| bound.linear_coefficient(symbol));
        let Some(step) = step.filter(|_| regular) else {
            let mask = self.lane_by_lane(condition.comparison, &bound, lanes);
            return Ok(Holds::Lanes(mask.into()));
        };
        let first = self.at_lane_zero(&bound);
        if let Some(first) = first.as_constant() {
            let bits = (0..lanes as i64)
                .filter(|lane| compares(condition.comparison, first + lane * step))
                .fold(0, |bits, lane| bits | 1 << lane);
            return Ok(Holds::Lanes(Mask::Constant(bits).into()));
        }
        // Far beyond any lane it does not matter how far.
        let range = self.ranges.bounds(&bound);
        let mut first = self.int(&bound);
        if range.min < -FAR {
            let low = self.builder.int_const(-FAR);
            first = self.builder.int(Opcode::IntMax, &[first, low]);
        }
        if range.max > FAR {
            let high = self.builder.int_const(FAR);
            first = self.builder.int(Opcode::IntMin, &[first, high]);
        }
        let first = self.vector_of_int(first, Lane::I32);
        let first = self.broadcast_vector(first, lanes);
        let limits: Vec<u64> = (0..lanes as i64).map(|lane| (-lane * step) as u64).collect();
        let limits = self.lane_constants(&limits, Lane::I32);
        let mask = self.compare_ints(condition.comparison, first, limits, true);
        Ok(Holds::Lanes(mask.into()))
    }

    /// How a difference compares with 0 in each lane, where lanes are no equal steps apart: known
    /// now, as for a remainder by what divides the vector loop's step, or computed for each.
    fn lane_by_lane(&mut self, comparison: Comparison, difference: &Expr, lanes: usize) -> Mask {
        let known = (0..lanes).map(|lane| self.in_lane(difference, lane)?.as_constant());
        let known = known.enumerate().try_fold(0, |bits, (lane, value)| {
            Some(bits | u32::from(compares(comparison, value?)) << lane)
        });
        if let Some(bits) = known {
            return Mask::Constant(bits);
        }
        let zero = self.builder.int_const(0);
        let values = self.each_lane(lanes, |selector, _| {
            let value = selector.int(difference);
            selector.int_compare(comparison, value, zero)
        });
        let values = self.gather_ints(&values, Lane::I32);
        self.compare_ints(Comparison::NotEqual, values, self.constant(0, values), true)
    }

    fn is_vector_variable(&self, symbol: sym::SymbolId) -> bool {
        self.vector.as_ref().is_some_and(|vector| vector.symbol == symbol)
    }

    /// The expression in lane 0, where the vector variable's place is constant.
    fn at_lane_zero(&self, expr: &Expr) -> Expr {
        let Some(vector) = &self.vector else { return expr.clone() };
        let Binding::Constant(start) = self.bindings[vector.symbol] else {
            return expr.clone();
        };
        let place = start + vector.offset;
        expr.substitute(&mut |symbol| (symbol == vector.symbol).then(|| Expr::constant(place)))
    }

    /// Compares integers; 1 where it holds, else 0.
    fn int_compare(&mut self, comparison: Comparison, a: VRegId, b: VRegId) -> VRegId {
        let cond = match comparison {
            Comparison::Less => Cond::Less,
            Comparison::LessEqual => Cond::LessEqual,
            Comparison::Equal => Cond::Equal,
            Comparison::NotEqual => Cond::NotEqual,
        };
        let position = Cond::NAMES.iter().position(|(known, _)| *known == cond).unwrap_or(0);
        let inst = Inst::new(Opcode::IntCompare, Lane::I64, &[a, b]).imm(position as i64);
        self.builder.emit(inst, RegisterType::Int)
    }

    /// All lanes or none, by an integer that is 1 or 0.
    pub(crate) fn uniform_mask(&mut self, condition: VRegId, lanes: usize) -> Mask {
        let zero = self.builder.int_const(0);
        let bits = self.builder.int(Opcode::IntSub, &[zero, condition]);
        if self.builder.has_masks() {
            let inst = Inst::new(Opcode::MaskFromInt, Lane::I64, &[bits]);
            return Mask::Register(self.builder.emit(inst, RegisterType::Mask), 0);
        }
        let vector = self.vector_of_int(bits, Lane::I32);
        let vector = self.broadcast_vector(vector, lanes);
        Mask::Register(self.register(vector), 4)
    }

    // Masks.

    pub(crate) fn mask_and(&mut self, a: Mask, b: Mask, lanes: usize) -> Mask {
        let all = all_lanes(lanes);
        match (a, b) {
            (Mask::Constant(a), Mask::Constant(b)) => Mask::Constant(a & b),
            (Mask::Constant(bits), other) | (other, Mask::Constant(bits)) if bits & all == all => {
                other
            }
            (Mask::Constant(bits), _) | (_, Mask::Constant(bits)) if bits & all == 0 => {
                Mask::Constant(0)
            }
            _ => self.mask_op(Opcode::MaskAnd, Opcode::And, a, b, lanes),
        }
    }

    pub(crate) fn mask_or(&mut self, a: Mask, b: Mask, lanes: usize) -> Mask {
        let all = all_lanes(lanes);
        match (a, b) {
            (Mask::Constant(a), Mask::Constant(b)) => Mask::Constant(a | b),
            (Mask::Constant(bits), other) | (other, Mask::Constant(bits)) if bits & all == 0 => {
                other
            }
            _ => self.mask_op(Opcode::MaskOr, Opcode::Or, a, b, lanes),
        }
    }

    pub(crate) fn mask_xor(&mut self, a: Mask, b: Mask, lanes: usize) -> Mask {
        match (a, b) {
            (Mask::Constant(a), Mask::Constant(b)) => Mask::Constant(a ^ b),
            _ => self.mask_op(Opcode::MaskXor, Opcode::Xor, a, b, lanes),
        }
    }

    pub(crate) fn mask_not(&mut self, mask: Mask, lanes: usize) -> Mask {
        match mask {
            Mask::Constant(bits) => Mask::Constant(!bits & all_lanes(lanes)),
            Mask::Register(value, 0) => {
                let inst = Inst::new(Opcode::MaskNot, Lane::I64, &[value]);
                Mask::Register(self.builder.emit(inst, RegisterType::Mask), 0)
            }
            Mask::Register(..) => self.mask_xor(mask, Mask::Constant(all_lanes(lanes)), lanes),
        }
    }

    fn mask_op(
        &mut self,
        with_masks: Opcode,
        with_vectors: Opcode,
        a: Mask,
        b: Mask,
        lanes: usize,
    ) -> Mask {
        let bytes = match (a, b) {
            (Mask::Register(_, bytes), _) | (_, Mask::Register(_, bytes)) => bytes,
            _ => 4,
        };
        let left = self.mask_register(a, lanes, bytes);
        let right = self.mask_register(b, lanes, bytes);
        if self.builder.has_masks() {
            let inst = Inst::new(with_masks, Lane::I64, &[left, right]);
            return Mask::Register(self.builder.emit(inst, RegisterType::Mask), 0);
        }
        let inst = Inst::new(with_vectors, Lane::I32, &[left, right]);
        Mask::Register(self.builder.emit(inst, RegisterType::vector(bytes * lanes)), bytes)
    }

    /// A mask in a register, for lanes of so many bytes.
    pub(crate) fn mask_register(&mut self, mask: Mask, lanes: usize, bytes: usize) -> VRegId {
        match mask {
            Mask::Constant(bits) if self.builder.has_masks() => {
                let inst = Inst::new(Opcode::IntConst, Lane::I64, &[]).imm(i64::from(bits));
                let bits = self.builder.emit_at(inst, RegisterType::Int, 0);
                let inst = Inst::new(Opcode::MaskFromInt, Lane::I64, &[bits]);
                self.builder.emit_at(inst, RegisterType::Mask, 0)
            }
            Mask::Constant(bits) => {
                let lane = if bytes == 8 { Lane::I64 } else { Lane::I32 };
                let on = |lane: usize| if bits >> lane & 1 == 1 { u64::MAX } else { 0 };
                let lanes: Vec<u64> = (0..lanes).map(on).collect();
                let vector = self.lane_constants(&lanes, lane);
                self.register(vector)
            }
            Mask::Register(value, 0) => value,
            Mask::Register(value, from) if from == bytes => value,
            Mask::Register(value, 4) => {
                let inst = Inst::new(Opcode::I32ToI64, Lane::I64, &[value]);
                self.builder.emit(inst, RegisterType::vector(8 * lanes))
            }
            Mask::Register(value, _) => {
                let vector = Vector { item: Item::Register(value), lane: Lane::I64, lanes };
                let narrow = self.narrow_lanes(vector);
                self.register(narrow)
            }
        }
    }

    /// The operand that limits an instruction to a mask; `None` for all lanes.
    pub(crate) fn mask_operand(
        &mut self,
        mask: Mask,
        lanes: usize,
        bytes: usize,
    ) -> Option<VRegId> {
        match mask {
            Mask::Constant(bits) if bits & all_lanes(lanes) == all_lanes(lanes) => None,
            mask => Some(self.mask_register(mask, lanes, bytes)),
        }
    }

    /// A mask as an integer with a bit a lane; other bits may be set.
    pub(crate) fn mask_as_bits(&mut self, mask: Mask, lanes: usize) -> VRegId {
        if let Mask::Constant(bits) = mask {
            return self.builder.int_const(i64::from(bits));
        }
        if self.builder.has_masks() {
            let value = self.mask_register(mask, lanes, 4);
            return self
                .builder
                .emit(Inst::new(Opcode::IntFromMask, Lane::I64, &[value]), RegisterType::Int);
        }
        let bytes = if let Mask::Register(_, bytes) = mask { bytes } else { 4 };
        let value = self.mask_register(mask, lanes, bytes);
        let lane = if bytes == 8 { Lane::I64 } else { Lane::I32 };
        self.builder.emit(Inst::new(Opcode::IntFromSigns, lane, &[value]), RegisterType::Int)
    }

    /// 1 where the mask is on, else 0, in 32-bit lanes.
    pub(crate) fn mask_as_ints(&mut self, mask: Mask, lanes: usize) -> Vector {
        let like = Vector { item: Item::Constant(0), lane: Lane::I32, lanes };
        let one = self.constant(1, like);
        if let Mask::Constant(bits) = mask
            && bits & all_lanes(lanes) == all_lanes(lanes)
        {
            return one;
        }
        if self.builder.has_masks() {
            return self.blend_vectors(mask, like, one);
        }
        let value = self.mask_register(mask, lanes, 4);
        let vector = Vector { item: Item::Register(value), lane: Lane::I32, lanes };
        self.binary(Opcode::And, vector, one)
    }

    /// `mask ? on : off`.
    pub(crate) fn blend(
        &mut self,
        mask: Mask,
        off: Evaluated,
        on: Evaluated,
        lanes: usize,
    ) -> Evaluated {
        let off = self.broadcast(off, lanes);
        let on = self.broadcast(on, lanes);
        match (off, on) {
            (Evaluated::Vector(off), Evaluated::Vector(on)) => {
                Evaluated::Vector(self.blend_vectors(mask, off, on))
            }
            (Evaluated::Mask(off, _), Evaluated::Mask(on, _)) => {
                let not = self.mask_not(mask, lanes);
                let on = self.mask_and(mask, on, lanes);
                let off = self.mask_and(not, off, lanes);
                Evaluated::Mask(self.mask_or(on, off, lanes), lanes)
            }
            (off, _) => off,
        }
    }

    /// `mask ? on : off` of numbers.
    pub(crate) fn blend_vectors(&mut self, mask: Mask, off: Vector, on: Vector) -> Vector {
        let all = all_lanes(off.lanes);
        match mask {
            Mask::Constant(bits) if bits & all == all => return on,
            Mask::Constant(bits) if bits & all == 0 => return off,
            _ => {}
        }
        let mask = self.mask_register(mask, off.lanes, off.lane.bytes());
        let (a, b) = (self.register(off), self.register(on));
        let inst = Inst::new(Opcode::Blend, off.lane, &[a, b, mask]);
        let value = self.builder.emit(inst, register_type(off.lane, off.lanes));
        Vector { item: Item::Register(value), ..off }
    }

    /// The lanes in which 32-bit integers are not 0.
    pub(crate) fn nonzero(&mut self, vector: Vector) -> Mask {
        let zero = self.constant(0, vector);
        self.compare_ints(Comparison::NotEqual, vector, zero, true)
    }

    /// The same mask in more lanes; only masks of one lane are ever spread.
    pub(crate) fn broadcast_mask(&mut self, mask: Mask, from: usize, lanes: usize) -> Mask {
        if from >= lanes {
            return mask;
        }
        if let Mask::Constant(bits) = mask {
            return Mask::Constant(if bits & 1 == 1 { all_lanes(lanes) } else { 0 });
        }
        let bits = self.mask_as_bits(mask, from);
        let bit = self.builder.int_imm(Opcode::IntAndImm, bits, 1);
        self.uniform_mask(bit, lanes)
    }

    /// Whether the elements of a type are masks.
    pub(crate) fn is_mask(dtype: tensor::DType) -> bool {
        carrier(dtype) == Some(Carrier::Mask)
    }
}

fn compares(comparison: Comparison, difference: i64) -> bool {
    match comparison {
        Comparison::Less => difference < 0,
        Comparison::LessEqual => difference <= 0,
        Comparison::Equal => difference == 0,
        Comparison::NotEqual => difference != 0,
    }
}
