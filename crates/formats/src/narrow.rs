//! Elements that no target computes with become ones that all do: floats of 8 bits and fewer,
//! integers of 4 and 2.
//!
//! before: `%y: f8e4m3fn[n] = map cast %x`
//! after:  integer arithmetic on the bits of `%x`, which gives the codes as `u8[n]`
//!
//! Inside of a function such a value is its *carrier*: the code of a float as `u8`, the value of an
//! integer as `i8` or `u8`. Parameters, results and weights of sub-byte types are packed bytes,
//! `u8[bytes]`, as the caller has them in memory; they are taken apart and put together by ordinary
//! nodes. Meaning is that of `tensor::Scalar::cast` and of the scalar function table, to the bit.

use std::collections::BTreeMap;

use base::{Arena, ConstantId, Diagnostics};
use graph::{
    Function, FunctionBuilder, NodeId, Op, RegionId, TensorType, Type, ValueId, element_count,
};
use module::Constant;
use sym::Expr;
use tensor::{DType, Reduction, Scalar, ScalarFunction, Tensor};

mod float;

type Built<T = ValueId> = Result<T, String>;

/// The type of what stands for elements of a type inside of a function; itself for most.
fn carrier(dtype: DType) -> DType {
    match dtype {
        _ if dtype.is_float() && dtype.bits() <= 8 => DType::U8,
        DType::I4 | DType::I2 => DType::I8,
        DType::U4 | DType::U2 => DType::U8,
        _ => dtype,
    }
}

/// The type in which elements are computed with.
fn computed(dtype: DType) -> DType {
    if dtype.is_float() && dtype.bits() <= 8 { DType::F32 } else { carrier(dtype) }
}

fn is_narrow(dtype: DType) -> bool {
    carrier(dtype) != dtype
}

fn dtype_of(function: &Function, value: ValueId) -> DType {
    function.ty(value).as_tensor().map_or(DType::Bool, |ty| ty.dtype)
}

/// The bytes of packed elements of so many bits.
fn packed_bytes(shape: &[Expr], dtype: DType) -> Expr {
    element_count(shape).ceil_div(&Expr::from(dtype.per_byte()))
}

/// The type that a caller's value of a type has in memory.
fn stored(ty: &Type) -> Type {
    match ty {
        Type::Tensor(tensor) if tensor.dtype != DType::String && tensor.dtype.bits() < 8 => {
            let shape = [packed_bytes(&tensor.shape, tensor.dtype)].into();
            Type::Tensor(TensorType { dtype: DType::U8, shape })
        }
        Type::Tensor(tensor) => {
            let (dtype, shape) = (carrier(tensor.dtype), tensor.shape.clone());
            Type::Tensor(TensorType { dtype, shape })
        }
        other => other.clone(),
    }
}

/// A constant as the function reads it: the same bytes.
fn stored_constant(tensor: &Tensor) -> Tensor {
    let dtype = tensor.dtype();
    if !is_narrow(dtype) {
        return tensor.clone();
    }
    let bytes = tensor.packed_bytes();
    if dtype.bits() < 8 { bytes } else { bytes.reshape(tensor.shape()) }
}

/// Whether a function has elements that [`widen`] replaces.
pub fn has_narrow_elements(function: &Function) -> bool {
    let narrow = |value: &graph::ValueData| value.ty.as_tensor().map(|ty| is_narrow(ty.dtype));
    function.values.values().any(|value| narrow(value) == Some(true))
}

/// Replaces narrow elements in a function, and in the constants that it reads. Symbols that extents
/// of its parameters define are given to what comes out, as those of packed elements define none.
///
/// # Errors
/// An ill-typed node, which is a broken invariant.
pub fn widen(
    function: &Function,
    constants: &mut Arena<ConstantId, Constant>,
) -> base::Result<Function> {
    for (_, constant) in constants.iter_mut() {
        constant.tensor = stored_constant(&constant.tensor);
    }
    widened(function).map_err(Diagnostics::internal)
}

fn widened(function: &Function) -> Built<Function> {
    let mut made = Function::new(&function.name);
    made.symbols = function.symbols.clone();
    let extents = function.parameters().iter().flat_map(|&value| function.ty(value).exprs());
    made.given = function.given.iter().copied().chain(extents.flat_map(Expr::symbols)).collect();
    made.assumptions = function.assumptions.clone();
    made.locations = function.locations.clone();
    let mut widen =
        Widen { source: function, builder: FunctionBuilder::extend(made), values: BTreeMap::new() };
    for (&value, name) in function.parameters().iter().zip(&function.parameter_names) {
        let ty = stored(function.ty(value));
        let parameter = widen.builder.parameter(name, ty);
        let value_inside = widen.unpack(parameter, function.ty(value))?;
        widen.define(value, value_inside);
    }
    widen.nodes(function.body)?;
    let mut results = Vec::new();
    for (&value, name) in function.results().iter().zip(&function.result_names) {
        let inside = widen.values[&value];
        results.push((name.clone(), widen.pack(inside, function.ty(value))?));
    }
    let mut function = widen.builder.finish(results);
    function.compact();
    Ok(function)
}

/// A reconstruction under way.
struct Widen<'a> {
    source: &'a Function,
    builder: FunctionBuilder,
    values: BTreeMap<ValueId, ValueId>,
}

impl Widen<'_> {
    fn define(&mut self, old: ValueId, new: ValueId) {
        if let (None, Some(name)) =
            (&self.builder.function().values[new].name, &self.source.values[old].name)
        {
            self.builder.set_name(new, name.clone());
        }
        self.values.insert(old, new);
    }

    fn nodes(&mut self, region: RegionId) -> Built<()> {
        let source = self.source;
        for &id in &source.regions[region].nodes {
            let mut regions = Vec::new();
            for &inner in &source.nodes[id].regions {
                regions.push(self.region(inner)?);
            }
            self.builder.set_location(source.nodes[id].location);
            let results = self.node(id, &regions)?;
            for (&old, new) in source.nodes[id].results.iter().zip(results) {
                self.define(old, new);
            }
        }
        Ok(())
    }

    fn region(&mut self, region: RegionId) -> Built<RegionId> {
        let source = self.source;
        let old = &source.regions[region].parameters;
        let inside = |&value: &ValueId| match source.ty(value) {
            Type::Tensor(ty) => {
                let (dtype, shape) = (carrier(ty.dtype), ty.shape.clone());
                Type::Tensor(TensorType { dtype, shape })
            }
            other => other.clone(),
        };
        let types: Vec<Type> = old.iter().map(inside).collect();
        let parameters = self.builder.begin_region(&types);
        for (&old, new) in old.iter().zip(parameters) {
            self.define(old, new);
        }
        self.nodes(region)?;
        let results: Vec<ValueId> =
            source.regions[region].results.iter().map(|value| self.values[value]).collect();
        Ok(self.builder.end_region(&results))
    }

    /// The carriers of a node's results.
    fn node(&mut self, id: NodeId, regions: &[RegionId]) -> Built<Vec<ValueId>> {
        let source = self.source;
        let node = &source.nodes[id];
        let operands: Vec<ValueId> = node.operands.iter().map(|value| self.values[value]).collect();
        let touched = node.operands.iter().chain(&node.results);
        if !touched.clone().any(|&value| is_narrow(dtype_of(source, value))) {
            return self.builder.add_again((source, id), &operands, regions);
        }
        let first = |values: &[ValueId]| values.first().map(|&value| dtype_of(source, value));
        let from = first(&node.operands).unwrap_or(DType::Bool);
        let to = first(&node.results).unwrap_or(DType::Bool);
        match &node.op {
            Op::Literal(tensor) => Ok(vec![self.builder.literal(carried(tensor))]),
            Op::Weight { constant, result } => {
                let whole = Type::Tensor(result.clone());
                let Type::Tensor(result) = stored(&whole) else {
                    unreachable!("a tensor stays one")
                };
                let weight = self.builder.weight(*constant, result)?;
                Ok(vec![self.unpack(weight, &whole)?])
            }
            Op::Map { function: ScalarFunction::Cast, .. } => {
                Ok(vec![self.cast(operands[0], from, to)?])
            }
            Op::Map { function: ScalarFunction::Bitcast, .. } | Op::Bitcast { .. } => {
                let code = self.code(operands[0], from)?;
                Ok(vec![self.of_code(code, to)?])
            }
            Op::Map {
                function: function @ (ScalarFunction::CountLeadingZeros | ScalarFunction::Popcount),
                ..
            } => Ok(vec![self.count_of_bits(*function, operands[0], from)?]),
            Op::Map { function: ScalarFunction::Select, .. }
            | Op::Broadcast { .. }
            | Op::Reshape { .. }
            | Op::Transpose { .. }
            | Op::Slice { .. }
            | Op::Pad { .. }
            | Op::Concat { .. }
            | Op::Gather { .. }
            | Op::Scatter { reduction: None, .. } => {
                let mut op = node.op.clone();
                if let Op::Map { dtype, .. } = &mut op {
                    *dtype = carrier(*dtype);
                }
                self.builder.add(op, &operands)
            }
            Op::If { .. } | Op::While { .. } | Op::Scan { .. } => {
                self.builder.add_again((source, id), &operands, regions)
            }
            op => self.compute(op, node, &operands),
        }
    }

    /// Any other operation: on numbers that targets compute with, rounded to the type afterwards.
    fn compute(
        &mut self,
        op: &Op,
        node: &graph::Node,
        operands: &[ValueId],
    ) -> Built<Vec<ValueId>> {
        let mut wide = Vec::new();
        for (&old, &new) in node.operands.iter().zip(operands) {
            let dtype = dtype_of(self.source, old);
            wide.push(self.cast(new, dtype, computed(dtype))?);
        }
        let mut op = op.clone();
        match &mut op {
            Op::Map { dtype, .. } => *dtype = computed(*dtype),
            Op::Iota { result, .. } => result.dtype = computed(result.dtype),
            Op::Contract { accumulator, dtype, .. } => {
                (*accumulator, *dtype) = (computed(*accumulator), computed(*dtype));
            }
            Op::Reduce { accumulator, .. } => *accumulator = computed(*accumulator),
            _ => {}
        }
        // A sum is converted like any number; a function of elements that overflows is beyond.
        let overflow = match op {
            Op::Map { .. } => float::Overflow::Special,
            _ => float::Overflow::Saturate,
        };
        let results = self.builder.add(op, &wide)?;
        let mut narrowed = Vec::new();
        for (&old, new) in node.results.iter().zip(results) {
            let (from, to) = (self.builder.dtype(new)?, dtype_of(self.source, old));
            narrowed.push(if !is_narrow(to) {
                new
            } else if to.is_float() {
                float::encode(&mut self.builder, new, to, overflow)?
            } else {
                let new = self.within(new, &node.op, to)?;
                self.cast(new, from, to)?
            });
        }
        Ok(narrowed)
    }

    /// What nothing is reduced to: the least or greatest integer of the type, not of its carrier.
    fn within(&mut self, value: ValueId, op: &Op, dtype: DType) -> Built {
        let (Op::Reduce { reduction, .. } | Op::Cumulate { reduction, .. }) = op else {
            return Ok(value);
        };
        let function = match reduction {
            Reduction::Max => ScalarFunction::Max,
            Reduction::Min => ScalarFunction::Min,
            _ => return Ok(value),
        };
        let identity = reduction.identity(dtype).as_i64();
        let carrier = self.builder.dtype(value)?;
        let identity = Tensor::scalar(Scalar::from_i64(carrier, identity));
        let identity = self.builder.literal(identity);
        self.builder.map_broadcast(function, &[value, identity])
    }

    // --- conversions ---

    /// From the carrier of one type to that of another.
    fn cast(&mut self, value: ValueId, from: DType, to: DType) -> Built {
        if from == to {
            return Ok(value);
        }
        let is_code = |dtype: DType| is_narrow(dtype) && dtype.is_float();
        // What the operand is as a number of a type with arithmetic.
        let (number, from) = match is_code(from) {
            true => (float::decode(&mut self.builder, value, from)?, DType::F32),
            false => (value, carrier(from)),
        };
        if is_code(to) {
            let wide = match from {
                DType::F16 | DType::BF16 | DType::Bool => DType::F32,
                _ if from.is_integer() && from.bits() <= 16 => DType::F32,
                _ if from.is_integer() => DType::F64,
                other => other,
            };
            let number = self.builder.cast(number, wide)?;
            return float::encode(&mut self.builder, number, to, float::Overflow::Saturate);
        }
        if !is_narrow(to) {
            return self.builder.cast(number, to);
        }
        let Some((low, high)) = to.integer_range() else { return Err(format!("cast to {to}")) };
        if from.is_float() {
            let low = self.builder.scalar(from, low as f64);
            let high = self.builder.scalar(from, high as f64);
            let above = self.builder.map_broadcast(ScalarFunction::Max, &[number, low])?;
            let within = self.builder.map_broadcast(ScalarFunction::Min, &[above, high])?;
            return self.builder.cast(within, carrier(to));
        }
        let code = self.builder.cast(number, DType::U8)?;
        self.of_code(code, to)
    }

    /// The bits of an element in a byte, from its carrier.
    fn code(&mut self, value: ValueId, dtype: DType) -> Built {
        let byte = match dtype {
            _ if dtype.bits() == 8 && carrier(dtype) == DType::U8 => return Ok(value),
            _ if dtype.bits() == 8 => return self.builder.bitcast(value, DType::U8),
            _ => self.builder.cast(value, DType::U8)?,
        };
        let mask = self.builder.literal(Tensor::scalar(Scalar::from_i64(DType::U8, mask(dtype))));
        self.builder.map_broadcast(ScalarFunction::And, &[byte, mask])
    }

    /// A function that counts bits of an integer's own width: those of its carrier are more.
    fn count_of_bits(&mut self, function: ScalarFunction, value: ValueId, dtype: DType) -> Built {
        let code = self.code(value, dtype)?;
        let mut count = self.builder.map_broadcast(function, &[code])?;
        if function == ScalarFunction::CountLeadingZeros {
            let beyond = Scalar::from_i64(DType::U8, 8 - i64::from(dtype.bits()));
            let beyond = self.builder.literal(Tensor::scalar(beyond));
            count = self.builder.map_broadcast(ScalarFunction::Sub, &[count, beyond])?;
        }
        self.of_code(count, dtype)
    }

    /// The carrier of the element whose bits are the lowest of a byte; those above do not matter.
    fn of_code(&mut self, code: ValueId, dtype: DType) -> Built {
        let bits = i64::from(dtype.bits());
        if bits == 8 {
            return self.builder.bitcast(code, carrier(dtype));
        }
        if !dtype.is_signed_integer() {
            let mask = Scalar::from_i64(DType::U8, mask(dtype));
            let mask = self.builder.literal(Tensor::scalar(mask));
            return self.builder.map_broadcast(ScalarFunction::And, &[code, mask]);
        }
        let wide = self.builder.bitcast(code, DType::I8)?;
        let amount = self.builder.literal(Tensor::scalar(Scalar::from_i64(DType::I8, 8 - bits)));
        let high = self.builder.map_broadcast(ScalarFunction::Shl, &[wide, amount])?;
        self.builder.map_broadcast(ScalarFunction::Shr, &[high, amount])
    }

    // --- packed bytes ---

    /// The carrier of a value that is stored as the caller has it.
    fn unpack(&mut self, stored: ValueId, ty: &Type) -> Built {
        let Some(ty) = ty.as_tensor().filter(|ty| ty.dtype.bits() < 8 && is_narrow(ty.dtype))
        else {
            return Ok(stored);
        };
        let (count, each) = (element_count(&ty.shape), 8 / i64::from(ty.dtype.bits()));
        let bytes = self.builder.shape(stored)?[0].clone();
        let space = [bytes.clone(), Expr::from(each)];
        let repeated = self.builder.broadcast(stored, &space, &[0])?;
        let shifts: Vec<Scalar> = (0..each)
            .map(|place| Scalar::from_i64(DType::U8, place * i64::from(ty.dtype.bits())))
            .collect();
        let shifts = Tensor::from_scalars(DType::U8, &[each as usize], &shifts);
        let shifts = self.builder.literal(shifts);
        let shifts = self.builder.broadcast(shifts, &space, &[1])?;
        let codes = self.builder.map(ScalarFunction::Shr, &[repeated, shifts])?;
        let elements = self.of_code(codes, ty.dtype)?;
        let flat = self.builder.reshape(elements, &[&bytes * each])?;
        let whole = self.builder.slice_axis(flat, 0, Expr::ZERO, 1, count)?;
        self.builder.reshape(whole, &ty.shape)
    }

    /// The value as the caller has it, from its carrier.
    fn pack(&mut self, value: ValueId, ty: &Type) -> Built {
        let Some(ty) = ty.as_tensor().filter(|ty| ty.dtype.bits() < 8 && is_narrow(ty.dtype))
        else {
            return Ok(value);
        };
        let (count, bits) = (element_count(&ty.shape), i64::from(ty.dtype.bits()));
        let (each, bytes) = (8 / bits, packed_bytes(&ty.shape, ty.dtype));
        let codes = self.code(value, ty.dtype)?;
        let flat = self.builder.reshape(codes, std::slice::from_ref(&count))?;
        let zero = self.builder.literal(Tensor::scalar(Scalar::zero(DType::U8)));
        let missing = &bytes * each - &count;
        let whole = self.builder.pad(flat, zero, &[Expr::ZERO], &[missing], &[0])?;
        let rows = self.builder.reshape(whole, &[bytes.clone(), Expr::from(each)])?;
        let mut packed: Option<ValueId> = None;
        for place in 0..each {
            let column = self.builder.slice_axis(rows, 1, Expr::from(place), 1, Expr::ONE)?;
            let column = self.builder.reshape(column, std::slice::from_ref(&bytes))?;
            let amount = Scalar::from_i64(DType::U8, place * bits);
            let amount = self.builder.literal(Tensor::scalar(amount));
            let moved = self.builder.map_broadcast(ScalarFunction::Shl, &[column, amount])?;
            packed = Some(match packed {
                Some(before) => self.builder.map(ScalarFunction::Or, &[before, moved])?,
                None => moved,
            });
        }
        packed.ok_or_else(|| "a byte holds nothing".to_owned())
    }
}

fn mask(dtype: DType) -> i64 {
    (1 << dtype.bits()) - 1
}

/// A literal's elements as their carriers.
fn carried(tensor: &Tensor) -> Tensor {
    let dtype = tensor.dtype();
    let element = |scalar: Scalar| match dtype.is_float() {
        true => Scalar::from_bits(DType::U8, scalar.bits()),
        false => scalar.cast(carrier(dtype)),
    };
    let elements: Vec<Scalar> = tensor.scalars().map(element).collect();
    Tensor::from_scalars(carrier(dtype), tensor.shape(), &elements)
}
