//! Running a function: regions, nodes, control flow.

use std::rc::Rc;

use base::{ConstantId, FunctionId, Locations, SecondaryMap, codes};
use graph::{Function, Node, NodeId, Op, RegionId, Type, ValueId};
use sym::{Expr, SymbolId};
use tensor::{DType, Scalar, ScalarFunction, Tensor, Value};

use super::lists::{self, Held, Sequence};
use super::{Segments, SymbolValues, axes, check_assumptions, movement, space, value_of};
use crate::host::{HostCall, call_host};
use crate::{EvaluationFault, Settings};

/// A run under way.
pub(super) struct Run<'a> {
    function: &'a Function,
    segments: Option<&'a mut dyn Segments>,
    constants: &'a dyn Fn(ConstantId) -> Tensor,
    settings: Settings,
    /// How often loops have turned so far.
    turns: u64,
    symbols: SymbolValues,
    values: SecondaryMap<ValueId, Option<Held>>,
    /// The symbols that control flow defines, of what has been met.
    defined: SecondaryMap<NodeId, Option<Rc<Defined>>>,
    /// The values that nothing reads after a node.
    last_uses: SecondaryMap<NodeId, Vec<ValueId>>,
    observe: &'a mut dyn FnMut(ValueId, &Tensor),
}

/// The symbols that a node defines.
struct Defined {
    /// By itself.
    own: Vec<SymbolId>,
    /// By the nodes of its regions.
    inside: Vec<SymbolId>,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        function: &'a Function,
        segments: Option<&'a mut dyn Segments>,
        constants: &'a dyn Fn(ConstantId) -> Tensor,
        settings: Settings,
        symbols: SymbolValues,
        observe: &'a mut dyn FnMut(ValueId, &Tensor),
    ) -> Run<'a> {
        let last_uses = function.last_uses();
        let values = SecondaryMap::new();
        let turns = 0;
        let defined = SecondaryMap::new();
        Run {
            function,
            segments,
            constants,
            settings,
            turns,
            symbols,
            values,
            defined,
            last_uses,
            observe,
        }
    }

    fn computed(&self, dtype: DType) -> DType {
        self.settings.precision.dtype(dtype)
    }

    /// What a caller gives, as it is computed with. Maps come as components.
    pub(super) fn held(&self, value: Value) -> Held {
        match value {
            Value::Tensor(tensor) | Value::Maps(_, tensor) | Value::Map(_, tensor) => {
                Held::Tensor(self.as_computed(tensor))
            }
            Value::Sequence(values) => {
                let values = values.into_iter().map(|value| self.held(value)).collect();
                Held::Sequence(Rc::new(Sequence::of(values)))
            }
            Value::Optional(value) => Held::Optional(value.map(|value| Rc::new(self.held(*value)))),
        }
    }

    /// A tensor of declared type as it is computed with.
    fn as_computed(&self, tensor: Tensor) -> Tensor {
        let dtype = self.computed(tensor.dtype());
        tensor.cast(dtype)
    }

    fn value(&self, expr: &Expr) -> Result<i64, EvaluationFault> {
        value_of(self.function, &self.symbols, expr)
    }

    fn all(&self, exprs: &[Expr]) -> Result<Vec<i64>, EvaluationFault> {
        exprs.iter().map(|expr| self.value(expr)).collect()
    }

    fn shape(&self, exprs: &[Expr]) -> Result<Vec<usize>, EvaluationFault> {
        let extent = |expr: &Expr| {
            let value = self.value(expr)?;
            let negative =
                || EvaluationFault::new(codes::WRONG_SHAPE, format!("an extent of {value}"));
            usize::try_from(value).map_err(|_| negative())
        };
        exprs.iter().map(extent).collect()
    }

    /// Runs a region on its parameters' values; its results.
    pub(super) fn region(
        &mut self,
        region: RegionId,
        parameters: Vec<Held>,
    ) -> Result<Vec<Held>, EvaluationFault> {
        let function = self.function;
        let data = &function.regions[region];
        for (&value, held) in data.parameters.iter().zip(parameters) {
            self.define(value, held);
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
            for (&value, held) in function.nodes[node].results.iter().zip(results) {
                self.define(value, held);
            }
            for index in 0..self.last_uses[node].len() {
                let value = self.last_uses[node][index];
                self.values[value] = None;
            }
        }
        let results = data.results.iter().map(|&value| self.get(value)).collect();
        self.let_go(region);
        results
    }

    /// Forgets the lists that a region made, so that they are its results alone.
    fn let_go(&mut self, region: RegionId) {
        let data = &self.function.regions[region];
        let made = data.nodes.iter().flat_map(|&node| &self.function.nodes[node].results);
        for &value in data.parameters.iter().chain(made) {
            if self.function.ty(value).as_tensor().is_none() {
                self.values[value] = None;
            }
        }
    }

    fn define(&mut self, value: ValueId, held: Held) {
        if let Held::Tensor(tensor) = &held {
            (self.observe)(value, tensor);
        }
        self.values[value] = Some(held);
    }

    fn get(&self, value: ValueId) -> Result<Held, EvaluationFault> {
        let missing =
            || EvaluationFault::new(codes::VERIFIER_FAILED, format!("{value} has no value"));
        self.values[value].clone().ok_or_else(missing)
    }

    /// Runs a node and compares its results with their declared types.
    fn checked_node(&mut self, node: NodeId) -> Result<Vec<Held>, EvaluationFault> {
        let function = self.function;
        let data = &function.nodes[node];
        let operands =
            data.operands.iter().map(|&value| self.get(value)).collect::<Result<Vec<_>, _>>()?;
        // What nothing reads behind the node is the node's: a list that it changes is not copied.
        for &value in &data.operands {
            let is_list = function.ty(value).as_tensor().is_none();
            if is_list && self.last_uses[node].contains(&value) {
                self.values[value] = None;
            }
        }
        let results = self.node(node, operands)?;
        let defines = matches!(data.op, Op::List { .. } | Op::Host { .. });
        if defines || !data.regions.is_empty() {
            self.bind_extents(node, &data.results, &results)?;
        }
        for (&value, result) in data.results.iter().zip(&results) {
            let (Type::Tensor(ty), Held::Tensor(result)) = (function.ty(value), result) else {
                continue;
            };
            let (dtype, shape) = (self.computed(ty.dtype), self.shape(&ty.shape)?);
            if result.dtype() != dtype || result.shape() != shape {
                let found = format!("{}{:?}", result.dtype(), result.shape());
                let message = format!("a result is {found}, not {dtype}{shape:?}");
                return Err(EvaluationFault::new(codes::WRONG_SHAPE, message));
            }
        }
        Ok(results)
    }

    fn node(&mut self, node: NodeId, operands: Vec<Held>) -> Result<Vec<Held>, EvaluationFault> {
        let data = &self.function.nodes[node];
        match &data.op {
            Op::If { .. } => {
                let condition = operands.into_iter().next().map(Held::tensor).transpose()?;
                let holds = condition.is_some_and(|it| it.get_scalar(0).as_bool());
                return self.region(data.regions[usize::from(!holds)], Vec::new());
            }
            Op::While { .. } => return self.run_while(node, operands),
            Op::Scan { .. } => return self.run_scan(node, operands),
            Op::List { operation, .. } => {
                let segments = &mut self.segments;
                let copied = &mut |values| match segments {
                    Some(segments) => segments.copied(values),
                    None => Ok(()),
                };
                return Ok(vec![lists::list(*operation, operands, copied)?]);
            }
            _ => {}
        }
        let operands = operands.into_iter().map(Held::tensor);
        let results = self.on_tensors(data, operands.collect::<Result<_, _>>()?)?;
        Ok(results.into_iter().map(Held::Tensor).collect())
    }

    /// The results of a node without regions, of tensors.
    fn on_tensors(
        &mut self,
        data: &Node,
        operands: Vec<Tensor>,
    ) -> Result<Vec<Tensor>, EvaluationFault> {
        match &data.op {
            Op::Bind { symbol, range } => {
                let value = operands[0].get_scalar(0).as_i64();
                if !range.contains(value) {
                    let name = self.function.symbol_name(*symbol);
                    let message = format!("`{name}` becomes {value}, which is not in {range}");
                    return Err(EvaluationFault::new(codes::SYMBOL_OUT_OF_RANGE, message));
                }
                self.symbols[*symbol] = Some(value);
                check_assumptions(self.function, &self.symbols)?;
                Ok(operands)
            }
            Op::Sort { axis, descending, kept } => {
                let extent = operands[0].shape()[*axis];
                let kept = kept.unwrap_or(extent);
                if kept > extent {
                    let message = format!("{kept} elements are kept of {extent}");
                    return Err(EvaluationFault::new(codes::INDEX_OUT_OF_RANGE, message));
                }
                let (values, indices) = axes::sort(&operands[0], *axis, *descending, kept);
                Ok(vec![values, indices])
            }
            Op::NonZero => {
                let (indices, count) = axes::non_zero(&operands[0]);
                Ok(vec![indices, count])
            }
            Op::Call { function, .. } => self.call(*function, &operands),
            Op::Host { name, attributes, results } => {
                let dtypes: Vec<DType> = results.iter().map(|ty| ty.dtype).collect();
                let segments = &mut self.segments;
                let room = &mut |bytes| match segments {
                    Some(segments) => segments.room(bytes),
                    None => Ok(()),
                };
                call_host(HostCall { name, attributes, dtypes: &dtypes, operands: &operands, room })
            }
            _ => Ok(vec![self.single(data, &operands)?]),
        }
    }

    /// The only result of a primitive without regions.
    pub(super) fn single(
        &self,
        node: &Node,
        operands: &[Tensor],
    ) -> Result<Tensor, EvaluationFault> {
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
            | Op::If { .. }
            | Op::While { .. }
            | Op::Scan { .. }
            | Op::List { .. }
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

    fn call(
        &mut self,
        id: FunctionId,
        operands: &[Tensor],
    ) -> Result<Vec<Tensor>, EvaluationFault> {
        match &mut self.segments {
            Some(segments) => segments.call(id, &self.symbols, operands),
            None => {
                let message = format!("the function {id} is not known here");
                Err(EvaluationFault::new(codes::UNSUPPORTED_OPERATOR, message))
            }
        }
    }

    /// Sets the symbols that a node defines as extents of these values, which are its results or
    /// parameters of its regions.
    fn bind_extents(
        &mut self,
        node: NodeId,
        values: &[ValueId],
        held: &[Held],
    ) -> Result<(), EvaluationFault> {
        let (function, defined) = (self.function, self.defined(node));
        if defined.own.is_empty() {
            return Ok(());
        }
        for (&value, held) in values.iter().zip(held) {
            let Some(tensor) = held.as_tensor() else { continue };
            for (extent, &found) in function.ty(value).exprs().iter().zip(tensor.shape()) {
                let Some(symbol) = extent.as_symbol().filter(|it| defined.own.contains(it)) else {
                    continue;
                };
                let (name, range) = (function.symbol_name(symbol), function.symbols[symbol].range);
                if !range.contains(found as i64) {
                    let message = format!("`{name}` becomes {found}, which is not in {range}");
                    return Err(EvaluationFault::new(codes::SYMBOL_OUT_OF_RANGE, message));
                }
                self.symbols[symbol] = Some(found as i64);
            }
        }
        check_assumptions(function, &self.symbols)
    }

    fn defined(&mut self, node: NodeId) -> Rc<Defined> {
        let function = self.function;
        let find = || {
            let inside = function.nodes[node].regions.iter();
            let inside = inside.flat_map(|&region| &function.regions[region].nodes);
            let inside = inside.flat_map(|&id| function.symbols_known_behind(id)).collect();
            Rc::new(Defined { own: function.symbols_defined_by(node), inside })
        };
        self.defined[node].get_or_insert_with(find).clone()
    }

    /// A turn of a loop: its region on these values.
    fn turn(
        &mut self,
        node: NodeId,
        region: RegionId,
        parameters: Vec<Held>,
    ) -> Result<Vec<Held>, EvaluationFault> {
        // What is assumed of a turn's sizes is not said of those of the turn before.
        self.defined(node).inside.iter().for_each(|&symbol| self.symbols[symbol] = None);
        let values = &self.function.regions[region].parameters;
        self.bind_extents(node, values, &parameters)?;
        self.region(region, parameters)
    }

    fn run_while(
        &mut self,
        node: NodeId,
        mut carried: Vec<Held>,
    ) -> Result<Vec<Held>, EvaluationFault> {
        let data = &self.function.nodes[node];
        let (condition, body) = (data.regions[0], data.regions[1]);
        let mut stacks = vec![Vec::new(); data.results.len() - carried.len()];
        let mut turns = 0;
        loop {
            let defined = self.defined(node);
            let last: Vec<Option<i64>> =
                defined.inside.iter().map(|&symbol| self.symbols[symbol]).collect();
            let goes_on = self.turn(node, condition, carried.clone())?.swap_remove(0).tensor()?;
            if !goes_on.get_scalar(0).as_bool() {
                // Sizes of the last turn are known behind the loop.
                for (&symbol, value) in defined.inside.iter().zip(last) {
                    self.symbols[symbol] = value;
                }
                break;
            }
            self.count_turn(&carried, &stacks)?;
            let count = carried.len();
            let mut results = self.turn(node, body, carried)?;
            for (stack, row) in stacks.iter_mut().zip(results.split_off(count)) {
                stack.push(row.tensor()?);
            }
            carried = results;
            turns += 1;
        }
        if let Op::While { turns: Some(symbol) } = data.op {
            self.symbols[symbol] = Some(turns);
        }
        self.append_stacks(node, &mut carried, stacks, false)?;
        Ok(carried)
    }

    fn count_turn(
        &mut self,
        carried: &[Held],
        stacks: &[Vec<Tensor>],
    ) -> Result<(), EvaluationFault> {
        if let Some(segments) = &mut self.segments {
            let bytes = |tensor: &Tensor| tensor.bytes().len() as u64;
            let rows =
                stacks.iter().filter_map(|rows| Some(bytes(rows.first()?) * rows.len() as u64));
            // Rows are there twice when they are put together.
            let carried = carried.iter().map(Held::bytes).sum::<u64>();
            segments.turn(carried + 2 * rows.sum::<u64>())?;
        }
        let most = self.settings.most_turns;
        if self.turns == most {
            return Err(EvaluationFault::too_many_turns(most));
        }
        self.turns += 1;
        Ok(())
    }

    fn run_scan(
        &mut self,
        node: NodeId,
        mut operands: Vec<Held>,
    ) -> Result<Vec<Held>, EvaluationFault> {
        let data = &self.function.nodes[node];
        let Op::Scan { trip_count, carried, reverse } = &data.op else {
            unreachable!("{node} is no scan")
        };
        let trips = self.value(trip_count)?.max(0);
        let scanned = operands.split_off(*carried).into_iter().map(Held::tensor);
        let scanned = scanned.collect::<Result<Vec<Tensor>, _>>()?;
        let mut state = operands;
        let mut stacks = vec![Vec::new(); data.results.len() - carried];
        for trip in 0..trips {
            self.count_turn(&state, &stacks)?;
            let place = (if *reverse { trips - 1 - trip } else { trip }) as usize;
            let mut parameters = vec![Held::Tensor(Tensor::scalar(Scalar::i64(trip)))];
            parameters.append(&mut state);
            parameters.extend(scanned.iter().map(|rows| Held::Tensor(rows.row(0, place))));
            let mut results = self.turn(node, data.regions[0], parameters)?;
            for (stack, row) in stacks.iter_mut().zip(results.split_off(*carried)) {
                stack.push(row.tensor()?);
            }
            state = results;
        }
        self.append_stacks(node, &mut state, stacks, *reverse)?;
        Ok(state)
    }

    /// Adds rows, put together in order, to what a loop carried in the end.
    fn append_stacks(
        &mut self,
        node: NodeId,
        carried: &mut Vec<Held>,
        stacks: Vec<Vec<Tensor>>,
        reverse: bool,
    ) -> Result<(), EvaluationFault> {
        let function = self.function;
        // Known before the shapes of stacks, which may have them.
        let results = &function.nodes[node].results;
        self.bind_extents(node, &results[..carried.len()], carried)?;
        for (&value, mut rows) in results[carried.len()..].iter().zip(stacks) {
            let Type::Tensor(ty) = function.ty(value) else { continue };
            if rows.is_empty() {
                // An extent that only a turn would have told.
                for symbol in ty.shape.iter().flat_map(Expr::symbols) {
                    self.symbols[symbol].get_or_insert(0);
                }
            }
            if reverse {
                rows.reverse();
            }
            carried.push(Held::Tensor(match rows.is_empty() {
                true => Tensor::zeros(self.computed(ty.dtype), &self.shape(&ty.shape)?),
                false => Tensor::joined(&rows, 0, true)
                    .map_err(|reason| EvaluationFault::new(codes::INCONSISTENT_SHAPES, reason))?,
            }));
        }
        Ok(())
    }
}

fn map(function: ScalarFunction, dtype: DType, operands: &[Tensor]) -> Tensor {
    if function == ScalarFunction::Cast {
        return operands[0].cast(dtype);
    }
    let mut result = Tensor::zeros(dtype, operands[0].shape());
    let mut arguments = [Scalar::bool(false); ScalarFunction::MOST_OPERANDS];
    for index in 0..result.len() {
        for (argument, operand) in arguments.iter_mut().zip(operands) {
            *argument = operand.get_scalar(index);
        }
        result.set_scalar(index, function.evaluate(dtype, &arguments[..operands.len()]));
    }
    result
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
