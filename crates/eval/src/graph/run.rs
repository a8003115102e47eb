//! Running a function: regions, nodes, control flow.

use base::{ConstantId, Locations, SecondaryMap, codes};
use graph::{Function, Node, NodeId, Op, RegionId, Type, ValueId};
use sym::Expr;
use tensor::{DType, Scalar, ScalarFunction, Tensor};

use super::{SymbolValues, axes, check_assumptions, movement, space, value_of};
use crate::{Fault, Settings};

/// A run under way.
pub(super) struct Run<'a> {
    function: &'a Function,
    constants: &'a dyn Fn(ConstantId) -> Tensor,
    settings: Settings,
    /// How often loops have turned so far.
    turns: u64,
    symbols: SymbolValues,
    values: SecondaryMap<ValueId, Option<Tensor>>,
    /// The values that nothing reads after a node.
    last_uses: SecondaryMap<NodeId, Vec<ValueId>>,
    observe: &'a mut dyn FnMut(ValueId, &Tensor),
}

impl<'a> Run<'a> {
    pub(super) fn new(
        function: &'a Function,
        constants: &'a dyn Fn(ConstantId) -> Tensor,
        settings: Settings,
        symbols: SymbolValues,
        observe: &'a mut dyn FnMut(ValueId, &Tensor),
    ) -> Run<'a> {
        let last_uses = last_uses(function);
        let values = SecondaryMap::new();
        Run { function, constants, settings, turns: 0, symbols, values, last_uses, observe }
    }

    fn computed(&self, dtype: DType) -> DType {
        self.settings.precision.dtype(dtype)
    }

    /// A tensor of declared type as it is computed with.
    pub(super) fn as_computed(&self, tensor: Tensor) -> Tensor {
        let dtype = self.computed(tensor.dtype());
        tensor.cast(dtype)
    }

    fn value(&self, expr: &Expr) -> Result<i64, Fault> {
        value_of(self.function, &self.symbols, expr)
    }

    fn all(&self, exprs: &[Expr]) -> Result<Vec<i64>, Fault> {
        exprs.iter().map(|expr| self.value(expr)).collect()
    }

    fn shape(&self, exprs: &[Expr]) -> Result<Vec<usize>, Fault> {
        let extent = |expr: &Expr| {
            let value = self.value(expr)?;
            let negative = || Fault::new(codes::WRONG_SHAPE, format!("an extent of {value}"));
            usize::try_from(value).map_err(|_| negative())
        };
        exprs.iter().map(extent).collect()
    }

    /// Runs a region on its parameters' values; its results.
    pub(super) fn region(
        &mut self,
        region: RegionId,
        parameters: Vec<Tensor>,
    ) -> Result<Vec<Tensor>, Fault> {
        let function = self.function;
        let data = &function.regions[region];
        for (&value, tensor) in data.parameters.iter().zip(parameters) {
            self.define(value, tensor);
        }
        for &node in &data.nodes {
            let results = self.checked_node(node).map_err(|fault| {
                let data = &function.nodes[node];
                fault.at(|| match data.location {
                    Locations::UNKNOWN => data.op.name().to_owned(),
                    known => {
                        format!("{} of {}", data.op.name(), function.locations.describe(known))
                    }
                })
            })?;
            for (&value, tensor) in function.nodes[node].results.iter().zip(results) {
                self.define(value, tensor);
            }
            for index in 0..self.last_uses[node].len() {
                let value = self.last_uses[node][index];
                self.values[value] = None;
            }
        }
        data.results.iter().map(|&value| self.get(value)).collect()
    }

    fn define(&mut self, value: ValueId, tensor: Tensor) {
        (self.observe)(value, &tensor);
        self.values[value] = Some(tensor);
    }

    fn get(&self, value: ValueId) -> Result<Tensor, Fault> {
        let missing = || Fault::new(codes::VERIFIER_FAILED, format!("{value} has no value"));
        self.values[value].clone().ok_or_else(missing)
    }

    /// Runs a node and compares its results with their declared types.
    fn checked_node(&mut self, node: NodeId) -> Result<Vec<Tensor>, Fault> {
        let function = self.function;
        let data = &function.nodes[node];
        let operands =
            data.operands.iter().map(|&value| self.get(value)).collect::<Result<Vec<_>, _>>()?;
        let results = self.node(node, operands)?;
        for (&value, result) in data.results.iter().zip(&results) {
            let Type::Tensor(ty) = function.ty(value) else { continue };
            let (dtype, shape) = (self.computed(ty.dtype), self.shape(&ty.shape)?);
            if result.dtype() != dtype || result.shape() != shape {
                let found = format!("{}{:?}", result.dtype(), result.shape());
                let message = format!("a result is {found}, not {dtype}{shape:?}");
                return Err(Fault::new(codes::WRONG_SHAPE, message));
            }
        }
        Ok(results)
    }

    fn node(&mut self, node: NodeId, operands: Vec<Tensor>) -> Result<Vec<Tensor>, Fault> {
        let data = &self.function.nodes[node];
        match &data.op {
            Op::If => {
                let branch = if operands[0].get_scalar(0).as_bool() { 0 } else { 1 };
                self.region(data.regions[branch], Vec::new())
            }
            Op::While => self.run_while(data.regions[0], data.regions[1], operands),
            Op::Scan { trip_count, carried, reverse } => {
                let trips = self.value(trip_count)?.max(0);
                let results = &data.results[*carried..];
                self.run_scan(data.regions[0], trips, *reverse, operands, *carried, results)
            }
            Op::Bind { symbol, range } => {
                let value = operands[0].get_scalar(0).as_i64();
                if !range.contains(value) {
                    let name = self.function.symbol_name(*symbol);
                    let message = format!("`{name}` becomes {value}, which is not in {range}");
                    return Err(Fault::new(codes::INDEX_OUT_OF_RANGE, message));
                }
                self.symbols[*symbol] = Some(value);
                check_assumptions(self.function, &self.symbols)?;
                Ok(operands)
            }
            Op::Sort { axis, descending } => {
                let (values, indices) = axes::sort(&operands[0], *axis, *descending);
                Ok(vec![values, indices])
            }
            Op::NonZero => {
                let (indices, count) = axes::non_zero(&operands[0]);
                Ok(vec![indices, count])
            }
            Op::Call { .. } | Op::Host { .. } => {
                let message = "the evaluator runs neither kernels nor host functions";
                Err(Fault::new(codes::UNSUPPORTED_OPERATOR, message))
            }
            _ => Ok(vec![self.single(data, &operands)?]),
        }
    }

    /// The only result of a primitive without regions.
    fn single(&self, node: &Node, operands: &[Tensor]) -> Result<Tensor, Fault> {
        let tensor = match &node.op {
            Op::Literal(tensor) => self.as_computed(tensor.clone()),
            Op::Weight { constant, .. } => self.as_computed((self.constants)(*constant)),
            Op::Iota { result, axis } => {
                movement::iota(self.computed(result.dtype), &self.shape(&result.shape)?, *axis)
            }
            Op::Dimension(expr) => Tensor::scalar(Scalar::i64(self.value(expr)?)),
            Op::Bitcast { dtype } | Op::Map { function: ScalarFunction::Bitcast, dtype } => {
                self.bitcast(node.operands[0], &operands[0], *dtype)
            }
            Op::Map { function, dtype } => map(*function, self.computed(*dtype), operands),
            Op::Broadcast { shape, axes } => {
                movement::broadcast(&operands[0], &self.shape(shape)?, axes)?
            }
            Op::Reshape { shape } => movement::reshape(&operands[0], &self.shape(shape)?)?,
            Op::Transpose { permutation } => movement::transpose(&operands[0], permutation),
            Op::Slice { starts, steps, shape } => {
                let (starts, shape) = (self.all(starts)?, self.shape(shape)?);
                movement::slice(&operands[0], &starts, steps, &shape)?
            }
            Op::Pad { low, high, interior } => {
                let (low, high) = (self.all(low)?, self.all(high)?);
                movement::pad(&operands[0], &operands[1], &low, &high, interior)?
            }
            Op::Concat { axis } => movement::concat(operands, *axis),
            Op::Gather { axes, batch, position } => {
                let (data, indices) = (&operands[0], &operands[1..]);
                movement::gather(data, indices, axes, *batch, *position)?
            }
            Op::Scatter { axes, batch, position, reduction } => {
                let (data, updates) = (summed(&operands[0]), summed(&operands[1]));
                let indices = &operands[2..];
                movement::scatter(&data, &updates, indices, axes, *batch, *position, *reduction)?
                    .cast(operands[0].dtype())
            }
            Op::Contract { space, accumulator, dtype } => {
                let extents = self.shape(&space.extents)?;
                let accumulator = self.computed(*accumulator);
                let operands = [&operands[0], &operands[1]];
                space::contract(space, &extents, operands, accumulator, self.computed(*dtype))?
            }
            Op::Reduce { space, reduction, accumulator } => {
                let extents = self.shape(&space.extents)?;
                let accumulator = self.computed(*accumulator);
                space::reduce(space, &extents, &operands[0], *reduction, accumulator)?
            }
            Op::ArgReduce { axis, greatest, last } => {
                axes::arg_reduce(&operands[0], *axis, *greatest, *last)?
            }
            Op::Cumulate { axis, reduction, exclusive, reverse } => {
                let operand = summed(&operands[0]);
                axes::cumulate(&operand, *axis, *reduction, *exclusive, *reverse)
                    .cast(operands[0].dtype())
            }
            Op::RandomBits { shape } => random_bits(&operands[0], &self.shape(shape)?),
            Op::Bind { .. }
            | Op::Sort { .. }
            | Op::NonZero
            | Op::If
            | Op::While
            | Op::Scan { .. }
            | Op::Call { .. }
            | Op::Host { .. } => unreachable!("run elsewhere"),
        };
        Ok(tensor)
    }

    /// Bits are those of the declared type, so a float computed in f64 becomes short and back.
    fn bitcast(&self, value: ValueId, operand: &Tensor, dtype: DType) -> Tensor {
        let declared = self.function.ty(value).as_tensor().map_or(operand.dtype(), |ty| ty.dtype);
        let operand = operand.cast(declared);
        let bits = |scalar: Scalar| Scalar::from_bits(dtype, scalar.bits());
        let scalars: Vec<Scalar> = operand.scalars().map(bits).collect();
        self.as_computed(Tensor::from_scalars(dtype, operand.shape(), &scalars))
    }

    fn run_while(
        &mut self,
        condition: RegionId,
        body: RegionId,
        mut carried: Vec<Tensor>,
    ) -> Result<Vec<Tensor>, Fault> {
        while self.region(condition, carried.clone())?[0].get_scalar(0).as_bool() {
            self.count_turn()?;
            carried = self.region(body, carried)?;
        }
        Ok(carried)
    }

    fn count_turn(&mut self) -> Result<(), Fault> {
        let most = self.settings.most_turns;
        if self.turns == most {
            let message = format!("loops have turned {most} times");
            return Err(Fault::new(codes::LIMIT_EXCEEDED, message));
        }
        self.turns += 1;
        Ok(())
    }

    fn run_scan(
        &mut self,
        body: RegionId,
        trips: i64,
        reverse: bool,
        operands: Vec<Tensor>,
        carried: usize,
        stacked: &[ValueId],
    ) -> Result<Vec<Tensor>, Fault> {
        let mut state = operands[..carried].to_vec();
        let mut stacks = Vec::new();
        for &value in stacked {
            let Type::Tensor(ty) = self.function.ty(value) else { continue };
            stacks.push(Tensor::zeros(self.computed(ty.dtype), &self.shape(&ty.shape)?));
        }
        for trip in 0..trips {
            self.count_turn()?;
            let place = (if reverse { trips - 1 - trip } else { trip }) as usize;
            let mut parameters = vec![Tensor::scalar(Scalar::i64(trip))];
            parameters.append(&mut state);
            let scanned = &operands[carried..];
            parameters.extend(scanned.iter().map(|operand| movement::element(operand, place)));
            let mut results = self.region(body, parameters)?;
            for (stack, element) in stacks.iter_mut().zip(results.split_off(carried)) {
                movement::set_element(stack, place, &element);
            }
            state = results;
        }
        state.append(&mut stacks);
        Ok(state)
    }
}

fn map(function: ScalarFunction, dtype: DType, operands: &[Tensor]) -> Tensor {
    if function == ScalarFunction::Cast {
        return operands[0].cast(dtype);
    }
    let mut result = Tensor::zeros(dtype, operands[0].shape());
    let mut arguments = [Scalar::bool(false); 3];
    for index in 0..result.len() {
        for (argument, operand) in arguments.iter_mut().zip(operands) {
            *argument = operand.get_scalar(index);
        }
        result.set_scalar(index, function.evaluate(dtype, &arguments[..operands.len()]));
    }
    result
}

/// The values defined in the same region as a node that nothing reads after it.
fn last_uses(function: &Function) -> SecondaryMap<NodeId, Vec<ValueId>> {
    let mut dead: SecondaryMap<NodeId, Vec<ValueId>> = SecondaryMap::new();
    for region in function.regions_in_order() {
        let data = &function.regions[region];
        let mut last: SecondaryMap<ValueId, Option<NodeId>> = SecondaryMap::new();
        let mut order = data.parameters.clone();
        for &node in &data.nodes {
            for value in function.reads(node) {
                last[value] = Some(node);
            }
            for &value in &function.nodes[node].results {
                last[value] = Some(node);
                order.push(value);
            }
        }
        for value in order.into_iter().filter(|value| !data.results.contains(value)) {
            if let Some(node) = last[value] {
                dead[node].push(value);
            }
        }
    }
    dead
}

/// Splitmix64 (Steele, Lea and Flood, 2014) at the key, as far along as the element's index.
fn random_bits(key: &Tensor, shape: &[usize]) -> Tensor {
    let key = key.get_scalar(0).bits();
    let mut result = Tensor::zeros(DType::U64, shape);
    for index in 0..result.len() {
        let step = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(index as u64 + 1);
        let mut bits = key.wrapping_add(step);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        result.set_scalar(index, Scalar::u64(bits ^ (bits >> 31)));
    }
    result
}

/// What is combined step by step: floats of at most 8 bits in f32, so that only the result is
/// rounded to them.
fn summed(operand: &Tensor) -> Tensor {
    let dtype = operand.dtype();
    if dtype.is_float() && dtype.bits() <= 8 { operand.cast(DType::F32) } else { operand.clone() }
}
