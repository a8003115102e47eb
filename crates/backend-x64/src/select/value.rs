//! What an element is in registers, and the evaluation of values.
//!
//! Elements are carried in lanes of four kinds: f32 (also for f16 and bf16, rounded after every
//! operation), f64, i32 (also for narrower integers, kept sign- or zero-extended) and i64; booleans
//! are masks. A value has as many lanes as the `Vector` loop around it, or one. One-lane values
//! live in lane 0 of a 128-bit register; what the other lanes hold does not matter.

use std::rc::Rc;

use loops::ScalarExpr;
use smallvec::SmallVec;
use sym::{Expr, SymbolId};
use tensor::{Class, DType, Scalar, ScalarFunction};

use super::Selector;
use super::index::Binding;
use crate::vcode::{Args, Inst, Lane, MemoryOperand, Opcode, RegisterType, VRegId};

/// What carries elements of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    Lane(Lane),
    Mask,
}

/// What carries elements of a type; `None` for those that kernels do not compute with.
pub(crate) fn carrier(dtype: DType) -> Option<Carrier> {
    Some(match dtype {
        DType::F64 => Carrier::Lane(Lane::F64),
        DType::F32 | DType::F16 | DType::BF16 => Carrier::Lane(Lane::F32),
        DType::I64 | DType::U64 => Carrier::Lane(Lane::I64),
        DType::I32 | DType::I16 | DType::I8 | DType::U32 | DType::U16 | DType::U8 => {
            Carrier::Lane(Lane::I32)
        }
        DType::Bool => Carrier::Mask,
        _ => return None,
    })
}

/// Numbers in lanes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Vector {
    pub(crate) item: Item,
    pub(crate) lane: Lane,
    pub(crate) lanes: usize,
}

/// A register, or the bits of a constant in all lanes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Item {
    Register(VRegId),
    Constant(u64),
}

/// Booleans in lanes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mask {
    /// A bit a lane.
    Constant(u32),
    /// A mask register, or (AVX2) a vector register of lanes of so many bytes.
    Register(VRegId, usize),
}

/// A value, evaluated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Evaluated {
    Vector(Vector),
    Mask(Mask, usize),
}

/// What a `Let` binds a symbol to.
#[derive(Clone, Debug)]
pub(crate) enum Held {
    Value(Evaluated),
    /// A load that takes place where the symbol is read: elements that cannot change need not be
    /// held in registers that are short.
    Load(Rc<ScalarExpr>),
}

impl Evaluated {
    pub(crate) fn lanes(&self) -> usize {
        match self {
            Evaluated::Vector(vector) => vector.lanes,
            Evaluated::Mask(_, lanes) => *lanes,
        }
    }
}

/// A bit for each of so many lanes.
pub(crate) fn all_lanes(lanes: usize) -> u32 {
    (1 << lanes) - 1
}

/// The bits of an element in its carrier's lane.
pub(crate) fn carried_bits(scalar: Scalar) -> u64 {
    match scalar.dtype() {
        DType::F64 => scalar.bits(),
        DType::F32 | DType::F16 | DType::BF16 => u64::from(scalar.as_f32().to_bits()),
        dtype if dtype.bits() == 64 => scalar.bits(),
        _ => u64::from(scalar.as_i128() as u32),
    }
}

pub(crate) fn register_type(lane: Lane, lanes: usize) -> RegisterType {
    RegisterType::vector(lane.bytes() * lanes)
}

impl Selector<'_> {
    /// Evaluates a value in this many lanes.
    pub(crate) fn evaluate(&mut self, value: &ScalarExpr, lanes: usize) -> base::Result<Evaluated> {
        let evaluated = self.evaluate_once(value, lanes)?;
        if let Evaluated::Vector(Vector { item: Item::Register(register), .. }) = evaluated
            && let Some(dtype @ (DType::F16 | DType::BF16)) = value.dtype(self.kernel)
        {
            self.short[register] = Some(dtype);
        }
        Ok(evaluated)
    }

    fn evaluate_once(&mut self, value: &ScalarExpr, lanes: usize) -> base::Result<Evaluated> {
        if let Some(load) = self.load_behind(value) {
            return self.evaluate(&load, lanes);
        }
        if !matches!(value, ScalarExpr::Constant(_))
            && let Some(known) = self.known_integer(value)
        {
            return self.evaluate(&ScalarExpr::Constant(known), lanes);
        }
        if lanes > 1 && !self.broadcasts_by_itself(value) && !self.differs_by_lane(value) {
            let one = self.evaluate(value, 1)?;
            return Ok(self.broadcast(one, lanes));
        }
        match value {
            ScalarExpr::Constant(scalar) => {
                let Some(carrier) = carrier(scalar.dtype()) else {
                    return Err(self.unsupported_type(scalar.dtype()));
                };
                Ok(match carrier {
                    Carrier::Mask => {
                        let bits = if scalar.as_bool() { all_lanes(lanes) } else { 0 };
                        Evaluated::Mask(Mask::Constant(bits), lanes)
                    }
                    Carrier::Lane(lane) => Evaluated::Vector(Vector {
                        item: Item::Constant(carried_bits(*scalar)),
                        lane,
                        lanes,
                    }),
                })
            }
            ScalarExpr::Symbol(symbol) => self.let_value(*symbol, lanes),
            ScalarExpr::Index(expr) => Ok(Evaluated::Vector(self.index_value(expr, lanes))),
            ScalarExpr::Load { buffer, index } => self.load(*buffer, index, lanes),
            ScalarExpr::Apply { function, dtype, arguments } => {
                self.apply(*function, *dtype, arguments, lanes)
            }
            ScalarExpr::Guard { conditions, value, otherwise } => {
                self.guard(conditions, value, otherwise, lanes)
            }
            ScalarExpr::Fold { reduction, buffer, index } => {
                let each = if self.differs_by_lane(value) { lanes } else { 1 };
                let folded = self.fold(*reduction, *buffer, index, each)?;
                Ok(self.broadcast(folded, lanes))
            }
        }
    }

    /// The integer that follows from the variables of written-out loops alone.
    pub(super) fn known_integer(&self, value: &ScalarExpr) -> Option<Scalar> {
        match value {
            ScalarExpr::Constant(scalar) => Some(*scalar).filter(|it| it.dtype().is_integer()),
            ScalarExpr::Index(expr) => {
                let known = self.known_index(expr)?;
                Some(Scalar::from_i64(DType::I64, known))
            }
            ScalarExpr::Apply { function, arguments, .. } => {
                let known = arguments.iter().map(|argument| self.known_integer(argument));
                let known = known.collect::<Option<SmallVec<[Scalar; 3]>>>()?;
                let result = value.dtype(self.kernel).filter(|dtype| dtype.is_integer())?;
                Some(function.evaluate(result, &known))
            }
            _ => None,
        }
    }

    /// Whether evaluating a uniform value in many lanes costs no more than in one.
    fn broadcasts_by_itself(&self, value: &ScalarExpr) -> bool {
        match value {
            ScalarExpr::Constant(_) | ScalarExpr::Load { .. } | ScalarExpr::Fold { .. } => true,
            // f32 is what short floats are loaded as, i32 what i16 is.
            ScalarExpr::Apply { function: ScalarFunction::Cast, dtype, arguments } => {
                matches!(&arguments[..], [ScalarExpr::Load { buffer, .. }] if matches!(
                    (self.kernel.buffers[*buffer].dtype, *dtype),
                    (DType::BF16 | DType::F16, DType::F32) | (DType::I16, DType::I32)
                ))
            }
            _ => false,
        }
    }

    /// Whether lanes of the vector loop see different values.
    pub(crate) fn differs_by_lane(&self, value: &ScalarExpr) -> bool {
        match value {
            ScalarExpr::Constant(_) => false,
            ScalarExpr::Symbol(symbol) => match &self.lets[*symbol] {
                Some(Held::Value(known)) => known.lanes() > 1,
                Some(Held::Load(load)) => self.differs_by_lane(load),
                None => false,
            },
            ScalarExpr::Index(expr) => self.expr_differs_by_lane(expr),
            ScalarExpr::Load { index, .. } | ScalarExpr::Fold { index, .. } => {
                index.iter().any(|expr| self.expr_differs_by_lane(expr))
            }
            ScalarExpr::Apply { arguments, .. } => {
                arguments.iter().any(|argument| self.differs_by_lane(argument))
            }
            ScalarExpr::Guard { conditions, value, otherwise } => {
                conditions.iter().any(|condition| {
                    self.expr_differs_by_lane(&condition.left)
                        || self.expr_differs_by_lane(&condition.right)
                }) || self.differs_by_lane(value)
                    || self.differs_by_lane(otherwise)
            }
        }
    }

    /// The load that a symbol stands for.
    fn load_behind(&self, value: &ScalarExpr) -> Option<Rc<ScalarExpr>> {
        let ScalarExpr::Symbol(symbol) = value else { return None };
        match &self.lets[*symbol] {
            Some(Held::Load(load)) => Some(load.clone()),
            _ => None,
        }
    }

    fn let_value(&mut self, symbol: SymbolId, lanes: usize) -> base::Result<Evaluated> {
        match self.lets[symbol] {
            Some(Held::Value(known)) => Ok(self.broadcast(known, lanes)),
            _ => {
                let name = &self.kernel.symbols[symbol].name;
                Err(self.refuse(format!("`{name}` is used where it has no value")))
            }
        }
    }

    /// An index expression as i64 elements.
    fn index_value(&mut self, expr: &Expr, lanes: usize) -> Vector {
        if let Some(value) = expr.as_constant() {
            return Vector { item: Item::Constant(value as u64), lane: Lane::I64, lanes };
        }
        if lanes == 1 || !self.expr_differs_by_lane(expr) {
            let value = self.int(expr);
            let vector = self.vector_of_int(value, Lane::I64);
            return self.broadcast_vector(vector, lanes);
        }
        if let Some(vector) = self.lanes_behind(expr) {
            return vector;
        }
        let step = self.vector.as_ref().and_then(|vector| expr.linear_coefficient(vector.symbol));
        let regular = !expr.any_symbol(&mut |s| matches!(self.bindings[s], Binding::Lanes(_)));
        if let Some(step) = step.filter(|_| regular) {
            let first = self.int(expr);
            let first = self.vector_of_int(first, Lane::I64);
            let first = self.broadcast_vector(first, lanes);
            let offsets: Vec<u64> = (0..lanes as i64).map(|lane| (lane * step) as u64).collect();
            let offsets = self.lane_constants(&offsets, Lane::I64);
            return self.binary(Opcode::Add, first, offsets);
        }
        let values = self.each_lane(lanes, |selector, _| selector.int(expr));
        self.gather_ints(&values, Lane::I64)
    }

    /// Runs something for each lane in turn.
    pub(crate) fn each_lane<T>(
        &mut self,
        lanes: usize,
        mut run: impl FnMut(&mut Self, usize) -> T,
    ) -> Vec<T> {
        let before = self.lane;
        let results = (0..lanes)
            .map(|lane| {
                self.lane = lane;
                run(self, lane)
            })
            .collect();
        self.lane = before;
        results
    }

    /// A vector from one integer a lane, by way of the frame.
    pub(crate) fn gather_ints(&mut self, values: &[VRegId], lane: Lane) -> Vector {
        for (index, value) in values.iter().enumerate() {
            let address = MemoryOperand::frame((index * lane.bytes()) as i32);
            self.builder.effect(Inst::new(Opcode::IntStore, lane, &[*value]).address(address));
        }
        self.frame_vector(0, lane, values.len())
    }

    /// The frame's area as a vector.
    pub(crate) fn frame_vector(&mut self, at: i32, lane: Lane, lanes: usize) -> Vector {
        let inst = Inst::new(Opcode::Load, lane, &[]).address(MemoryOperand::frame(at));
        let ty = register_type(lane, lanes);
        let value = self.builder.emit(inst, ty);
        Vector { item: Item::Register(value), lane, lanes }
    }

    /// Puts a vector into the frame's area.
    pub(crate) fn put_in_frame(&mut self, vector: Vector, at: i32) {
        let value = self.register(vector);
        let inst =
            Inst::new(Opcode::Store, vector.lane, &[value]).address(MemoryOperand::frame(at));
        self.builder.effect(inst);
    }

    /// An element of the frame's area, as an integer.
    pub(crate) fn frame_int(&mut self, at: i32, lane: Lane) -> VRegId {
        let inst = Inst::new(Opcode::IntLoad, lane, &[]).address(MemoryOperand::frame(at));
        self.builder.emit(inst, RegisterType::Int)
    }

    /// The lanes of a vector as integers, extended by the lane's sign.
    pub(crate) fn lanes_as_ints(&mut self, vector: Vector, at: i32) -> Vec<VRegId> {
        if vector.lanes == 1 {
            return vec![self.int_of(vector)];
        }
        if let Some(address) = self.loaded_whole(vector) {
            let lane_of = |at: usize| {
                let offset = (at * vector.lane.bytes()) as i32;
                let place =
                    MemoryOperand { displacement: address.displacement + offset, ..address };
                let lane = if vector.lane.bytes() == 4 { Lane::I32 } else { Lane::I64 };
                let load = Inst::new(Opcode::IntLoad, lane, &[]).address(place);
                self.builder.emit(load, RegisterType::Int)
            };
            return (0..vector.lanes).map(lane_of).collect();
        }
        // Two moves a lane take less time than a store and the load that waits for it.
        if vector.lane.bytes() == 8 && vector.lanes <= 4 && !self.builder.has_masks() {
            let lane_of = |lane| {
                let one = self.extract_lane(vector, lane);
                self.int_of(one)
            };
            return (0..vector.lanes).map(lane_of).collect();
        }
        self.put_in_frame(vector, at);
        let bytes = vector.lane.bytes() as i32;
        let lane = if bytes == 4 { Lane::I32 } else { Lane::I64 };
        (0..vector.lanes as i32).map(|index| self.frame_int(at + index * bytes, lane)).collect()
    }

    /// Lane 0 as an integer, 32-bit lanes sign-extended.
    pub(crate) fn int_of(&mut self, vector: Vector) -> VRegId {
        if let Item::Constant(bits) = vector.item {
            let wide = vector.lane.bytes() == 8;
            let value = if wide { bits as i64 } else { i64::from(bits as i32) };
            return self.builder.int_const(value);
        }
        let value = self.register(vector);
        let lane = if vector.lane.bytes() == 8 { Lane::I64 } else { Lane::I32 };
        let int =
            self.builder.emit(Inst::new(Opcode::IntFromVector, lane, &[value]), RegisterType::Int);
        if lane == Lane::I64 {
            return int;
        }
        self.builder.emit(Inst::new(Opcode::IntExtend, Lane::I32, &[int]), RegisterType::Int)
    }

    /// An integer as a one-lane vector.
    pub(crate) fn vector_of_int(&mut self, value: VRegId, lane: Lane) -> Vector {
        let bits = if lane.bytes() == 8 { Lane::I64 } else { Lane::I32 };
        let inst = Inst::new(Opcode::VectorFromInt, bits, &[value]);
        let value = self.builder.emit(inst, RegisterType::V128);
        Vector { item: Item::Register(value), lane, lanes: 1 }
    }

    /// The same value in more lanes.
    pub(crate) fn broadcast(&mut self, value: Evaluated, lanes: usize) -> Evaluated {
        match value {
            Evaluated::Vector(vector) => Evaluated::Vector(self.broadcast_vector(vector, lanes)),
            Evaluated::Mask(mask, from) => {
                Evaluated::Mask(self.broadcast_mask(mask, from, lanes), lanes)
            }
        }
    }

    pub(crate) fn broadcast_vector(&mut self, vector: Vector, lanes: usize) -> Vector {
        if vector.lanes >= lanes {
            return vector;
        }
        let item = match vector.item {
            Item::Constant(bits) => Item::Constant(bits),
            Item::Register(value) => {
                let inst = Inst::new(Opcode::Broadcast, vector.lane, &[value]);
                let ty = register_type(vector.lane, lanes);
                Item::Register(self.builder.emit(inst, ty))
            }
        };
        Vector { item, lane: vector.lane, lanes }
    }

    /// A vector in a register.
    pub(crate) fn register(&mut self, vector: Vector) -> VRegId {
        match vector.item {
            Item::Register(value) => value,
            Item::Constant(bits) => {
                let ty = register_type(vector.lane, vector.lanes);
                if bits == 0 {
                    return self.builder.emit(Inst::new(Opcode::Zero, vector.lane, &[]), ty);
                }
                let address = self.constant_address(bits, vector.lane);
                let inst = Inst::new(Opcode::Constant, vector.lane, &[]).address(address);
                self.builder.emit(inst, ty)
            }
        }
    }

    /// Where a constant stands in all lanes, or can be read into all of them.
    pub(crate) fn constant_address(&mut self, bits: u64, lane: Lane) -> MemoryOperand {
        let element = &bits.to_le_bytes()[..lane.bytes()];
        let broadcast = self.builder.has_masks();
        let repeats = if broadcast { 1 } else { 32 / lane.bytes() };
        let pool = self.builder.pool(element.repeat(repeats));
        MemoryOperand::pool(pool, broadcast)
    }

    /// A vector with a constant of its own in each lane.
    pub(crate) fn lane_constants(&mut self, lanes: &[u64], lane: Lane) -> Vector {
        let mut bytes: Vec<u8> =
            lanes.iter().flat_map(|bits| bits.to_le_bytes()[..lane.bytes()].to_vec()).collect();
        bytes.resize(bytes.len().next_power_of_two().max(16), 0);
        let pool = self.builder.pool(bytes);
        let inst = Inst::new(Opcode::Constant, lane, &[]).address(MemoryOperand::pool(pool, false));
        let value = self.builder.emit(inst, register_type(lane, lanes.len()));
        Vector { item: Item::Register(value), lane, lanes: lanes.len() }
    }

    /// The same bits, seen as other lanes of the same width.
    pub(crate) fn cast_lane(vector: Vector, lane: Lane) -> Vector {
        Vector { lane, ..vector }
    }

    /// `op a, b`, with a constant `b` as a memory operand unless constants stay in registers.
    pub(crate) fn binary(&mut self, op: Opcode, a: Vector, b: Vector) -> Vector {
        self.binary_imm(op, a, b, 0)
    }

    pub(crate) fn binary_imm(&mut self, op: Opcode, a: Vector, b: Vector, imm: i64) -> Vector {
        let left = self.register(a);
        let inst = self.with_last(Inst::new(op, a.lane, &[left]).imm(imm), &[left], b);
        let value = self.builder.emit(inst, register_type(a.lane, a.lanes));
        Vector { item: Item::Register(value), lane: a.lane, lanes: a.lanes }
    }

    /// The instruction with one more operand, from memory if it is a constant that is not kept.
    pub(crate) fn with_last(&mut self, inst: Inst, args: &[VRegId], last: Vector) -> Inst {
        if let Item::Constant(bits) = last.item
            && bits != 0
            && !self.builder.keep_constants
        {
            let address = self.constant_address(bits, last.lane);
            return inst.address(address);
        }
        let last = self.register(last);
        let args = match *args {
            [] => Args::new(&[last]),
            [first] => Args::new(&[first, last]),
            [first, second, ..] => Args::new(&[first, second, last]),
        };
        Inst { args, ..inst }
    }

    pub(crate) fn unary(&mut self, op: Opcode, a: Vector, imm: i64) -> Vector {
        let value = self.register(a);
        let inst = Inst::new(op, a.lane, &[value]).imm(imm);
        let value = self.builder.emit(inst, register_type(a.lane, a.lanes));
        Vector { item: Item::Register(value), lane: a.lane, lanes: a.lanes }
    }

    /// A conversion to other lanes; the registers' widths follow.
    pub(crate) fn convert_op(&mut self, op: Opcode, a: Vector, lane: Lane) -> Vector {
        let value = self.register(a);
        let inst = Inst::new(op, lane, &[value]);
        let value = self.builder.emit(inst, register_type(lane, a.lanes));
        Vector { item: Item::Register(value), lane, lanes: a.lanes }
    }

    pub(crate) fn constant(&self, bits: u64, like: Vector) -> Vector {
        Vector { item: Item::Constant(bits), ..like }
    }

    /// Whether elements of a type are signed integers or floats.
    pub(crate) fn is_signed(dtype: DType) -> bool {
        matches!(dtype.class(), Class::Signed | Class::Float)
    }
}
