//! A model run piece by piece, where what is to be compiled depends on values that only a run
//! knows: loops whose turns compute sizes or change the shapes of what they carry, branches whose
//! sides give other shapes, sizes computed by more than a count.
//!
//! Each part is an executable of its own, made for the types of the values that it is first given,
//! with extents free: what it specialises is kept as that of any model is. Parts that in turn
//! cannot be compiled as a whole are run in pieces, too.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::limits::exceeded;
use base::{Diagnostic, Diagnostics, Result, codes};
use import_onnx::pieces::{
    Along, Body, Driven, InputType, ListWork, Part, Piece, Pieces, Stacked, Work, pieces_at,
};
use tensor::{DType, Scalar, Tensor, Value};

use crate::compile::compile_source;
use crate::executable::Executable;
use crate::source::{Source, Whole};
use crate::{Options, budget};

/// Executables of one part that are kept for types of values seen before.
const MOST_TYPES: usize = 16;

/// A model in pieces.
pub(crate) struct Piecewise {
    inputs: Vec<String>,
    outputs: Vec<String>,
    steps: Vec<Step>,
    common: Arc<Common>,
    /// Whether these are pieces of a model, not of a part of one.
    is_whole: bool,
}

enum Step {
    Part(Unit),
    Driven { node: Driven, bodies: Vec<Turn> },
}

/// A graph inside of a driven node.
struct Turn {
    unit: Unit,
    outputs: Vec<String>,
}

/// A part, compiled for each types of inputs that it meets.
struct Unit {
    part: Part,
    common: Arc<Common>,
    made: Mutex<Vec<Entry>>,
}

/// Types of inputs.
type Types = Vec<InputType>;

/// Types of inputs, and what is made for them.
type Entry = (Types, Arc<Made>);

/// What the parts of a model have in common.
struct Common {
    folder: Option<PathBuf>,
    options: Options,
    whole: Arc<Whole>,
}

impl Common {
    /// Refuses values that take more memory than a run may.
    fn check_bytes(&self, total: u64, what_takes: &str) -> Result<()> {
        let limits = &self.options.limits;
        Ok(budget::check_bytes(total, self.whole.given_bytes(), limits, what_takes)?)
    }
}

enum Made {
    Whole(Box<Executable>),
    Pieces(Piecewise),
}

/// Hears of each run of an executable of a part before it begins.
pub(crate) type Watch<'a> = dyn FnMut(&Executable, &[Value]) -> Result<()> + 'a;

/// Turns of a loop that take as long as to compile a part for new shapes.
const TURNS_OF_A_COMPILE: u64 = 64;

/// A run of a model and all its pieces.
pub(crate) struct Session<'a> {
    watch: &'a mut Watch<'a>,
    /// Turns of all loops so far.
    turns: u64,
    /// How often parts had been compiled before.
    compiled_before: Option<u64>,
}

impl<'a> Session<'a> {
    pub(crate) fn new(watch: &'a mut Watch<'a>) -> Session<'a> {
        Session { watch, turns: 0, compiled_before: None }
    }

    /// Counts a turn of a loop; refuses more of them than the limit.
    fn count_turn(&mut self, common: &Common) -> Result<()> {
        self.turns += 1;
        let compiled = common.whole.compiled();
        let before = *self.compiled_before.get_or_insert(compiled);
        let spent = self.turns + (compiled - before) * TURNS_OF_A_COMPILE;
        let most = common.options.limits.iterations;
        if spent <= most {
            return Ok(());
        }
        let message = format!("the loops of a run took {} turns", self.turns);
        Err(exceeded("iterations", message)
            .because(format!(
                "at most {most} are accepted, of which a compile for new shapes takes \
                 {TURNS_OF_A_COMPILE}"
            ))
            .because("their end depends on data")
            .into())
    }
}

/// Values by name.
type Values<'a> = BTreeMap<&'a str, Value>;

impl Piecewise {
    /// The pieces of a model which a node of its graph keeps from being compiled; none where they
    /// are no smaller than the whole.
    pub(crate) fn at(source: &Source, options: &Options, node: usize) -> Option<Piecewise> {
        let (model, folder) = source.model(&options.limits)?;
        let pieces = pieces_at(&model, node)?;
        let info = import_onnx::inspect_model(&model);
        let (whole, is_whole) = match source {
            Source::Part(_, _, whole) => (whole.clone(), false),
            _ => (Arc::new(Whole::new(info.parameter_bytes)), true),
        };
        let mut options = options.clone();
        // What is said of the inputs, whose values are checked when they are given.
        options.dims.clear();
        options.input_shapes.clear();
        options.literals.clear();
        let common = Arc::new(Common { folder, options, whole });
        let inputs = info.inputs.into_iter().map(|input| input.name).collect();
        Some(Piecewise { is_whole, ..Piecewise::new(pieces, inputs, &common) })
    }

    fn new(pieces: Pieces, inputs: Vec<String>, common: &Arc<Common>) -> Piecewise {
        let turn = |body: &Body| Turn {
            unit: Unit::new(body.part.clone(), common),
            outputs: body.outputs.clone(),
        };
        let step = |piece: Piece| match piece {
            Piece::Part(part) => Step::Part(Unit::new(part, common)),
            Piece::Driven(node) => {
                let bodies = node.bodies.iter().map(turn).collect();
                Step::Driven { node, bodies }
            }
        };
        let steps = pieces.pieces.into_iter().map(step).collect();
        let common = common.clone();
        Piecewise { inputs, outputs: pieces.outputs, steps, common, is_whole: false }
    }

    /// Runs all pieces.
    ///
    /// # Errors
    /// Those of the parts; values that do not fit together.
    pub(crate) fn run(&self, inputs: &[Value], session: &mut Session<'_>) -> Result<Vec<Value>> {
        if self.is_whole {
            self.common.whole.count_inputs(inputs.iter().map(bytes_of).sum());
        }
        let names = self.inputs.iter().map(String::as_str);
        let mut values: Values<'_> = names.zip(inputs.iter().cloned()).collect();
        for step in &self.steps {
            match step {
                Step::Part(unit) => {
                    let results = unit.run(&unit.inputs(&values)?, session)?;
                    values.extend(unit.part.outputs.iter().map(String::as_str).zip(results));
                }
                Step::Driven { node, bodies } => {
                    let results =
                        drive(node, bodies, &values, &self.common, session).map_err(|found| {
                            let place = |found: Diagnostic| match found.place {
                                Some(_) => found,
                                None => found.at(node.place.clone()),
                            };
                            found.into_iter().map(place).collect::<Diagnostics>()
                        })?;
                    let names = node.results.iter().map(String::as_str);
                    values.extend(names.zip(results).filter(|(name, _)| !name.is_empty()));
                }
            }
        }
        self.outputs.iter().map(|name| value(&values, name).cloned()).collect()
    }

    /// The executables of the parts that have been compiled so far.
    pub(crate) fn each_executable(&self, visit: &mut dyn FnMut(&Executable)) {
        for step in &self.steps {
            match step {
                Step::Part(unit) => unit.each_executable(visit),
                Step::Driven { bodies, .. } => {
                    bodies.iter().for_each(|turn| turn.unit.each_executable(visit));
                }
            }
        }
    }
}

impl Unit {
    fn new(part: Part, common: &Arc<Common>) -> Unit {
        Unit { part, common: common.clone(), made: Mutex::default() }
    }

    fn made(&self) -> MutexGuard<'_, Vec<Entry>> {
        // Of a caller that panicked, the list is as it was before.
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The values that the part reads.
    fn inputs(&self, values: &Values<'_>) -> Result<Vec<Value>> {
        self.part.inputs.iter().map(|name| value(values, name).cloned()).collect()
    }

    /// What is made for such values: with their extents where they are the first of their types,
    /// and with extents free in which they differ from those before.
    fn made_for(&self, inputs: &[Value]) -> Result<Arc<Made>> {
        let mut made = self.made();
        let holds = |(types, _): &&Entry| types.iter().zip(inputs).all(|(ty, it)| ty.holds_for(it));
        if let Some((_, found)) = made.iter().find(holds) {
            return Ok(found.clone());
        }
        let widened = |(number, (types, _)): (usize, &Entry)| {
            let types = types.iter().zip(inputs).map(|(ty, input)| ty.widened(input));
            Some((number, types.collect::<Option<Types>>()?))
        };
        if let Some((number, types)) = made.iter().enumerate().rev().find_map(widened)
            && let Ok(new) = self.make(&types)
        {
            // What it was made from is of no more use.
            made.remove(number);
            return Ok(keep(&mut made, types, new));
        }
        // What wants to know more extents than these has one for each shape.
        let types: Types = inputs.iter().map(InputType::of).collect();
        let new = self.make(&types)?;
        Ok(keep(&mut made, types, new))
    }

    fn make(&self, types: &[InputType]) -> Result<Made> {
        if let Some(pieces) = self.part.lists_apart() {
            let pieces = Piecewise::new(pieces, self.part.inputs.clone(), &self.common);
            return Ok(Made::Pieces(pieces));
        }
        let model = Arc::new(self.part.model(types));
        let Common { folder, whole, .. } = &*self.common;
        let source = Source::Part(model, folder.clone(), whole.clone());
        Ok(Made::Whole(Box::new(compile_source(source, &self.common.options)?)))
    }

    fn run(&self, inputs: &[Value], session: &mut Session<'_>) -> Result<Vec<Value>> {
        self.made_for(inputs)?.run(inputs, session).or_else(|found| {
            // Found out late that extents must be known.
            let types: Types = inputs.iter().map(InputType::of).collect();
            if self.made().iter().any(|(other, _)| *other == types) {
                return Err(found);
            }
            let Ok(new) = self.make(&types) else { return Err(found) };
            let results = new.run(inputs, session).map_err(|_| found)?;
            keep(&mut self.made(), types, new);
            Ok(results)
        })
    }

    fn each_executable(&self, visit: &mut dyn FnMut(&Executable)) {
        for (_, made) in self.made().iter() {
            match &**made {
                Made::Whole(executable) => visit(executable),
                Made::Pieces(pieces) => pieces.each_executable(visit),
            }
        }
    }
}

/// Adds to what is kept.
fn keep(made: &mut Vec<Entry>, types: Types, new: Made) -> Arc<Made> {
    if made.len() == MOST_TYPES {
        made.remove(0);
    }
    let new = Arc::new(new);
    made.push((types, new.clone()));
    new
}

impl Made {
    fn run(&self, inputs: &[Value], session: &mut Session<'_>) -> Result<Vec<Value>> {
        match self {
            Made::Whole(executable) => {
                (session.watch)(executable, inputs)?;
                executable.run_in(inputs, session)
            }
            Made::Pieces(pieces) => pieces.run(inputs, session),
        }
    }
}

impl Turn {
    /// The outputs, of the graph's own inputs and what it reads around it.
    fn run(
        &self,
        own: &[Value],
        around: &Values<'_>,
        session: &mut Session<'_>,
    ) -> Result<Vec<Value>> {
        let mut inputs = own.to_vec();
        for name in &self.unit.part.inputs[own.len()..] {
            inputs.push(value(around, name)?.clone());
        }
        let results = self.unit.run(&inputs, session)?;
        let names = self.unit.part.outputs.iter().map(String::as_str);
        let given: Values<'_> = names.zip(results).collect();
        self.outputs.iter().map(|name| value(&given, name).cloned()).collect()
    }
}

fn value<'v>(values: &'v Values<'_>, name: &str) -> Result<&'v Value> {
    values.get(name).ok_or_else(|| unnamed(name))
}

fn unnamed(name: &str) -> Diagnostics {
    Diagnostic::error(codes::INTERNAL_ERROR, format!("no piece gives `{name}`")).into()
}

/// The results of a driven node.
fn drive(
    node: &Driven,
    bodies: &[Turn],
    values: &Values<'_>,
    common: &Common,
    session: &mut Session<'_>,
) -> Result<Vec<Value>> {
    let operand = |number: usize| match node.operands.get(number).map(String::as_str) {
        None | Some("") => Ok(None),
        Some(name) => value(values, name).map(Some),
    };
    let operands = |numbers: std::ops::Range<usize>| {
        numbers.map(|number| Ok(operand(number)?.cloned())).collect::<Result<Vec<_>>>()
    };
    match &node.work {
        Work::Loop { stacked } => {
            let count = operand(0)?.map(number).transpose()?;
            let goes_on = operand(1)?.map_or(Ok(true), |holds| number(holds).map(|it| it != 0))?;
            let carried = all(&operands(2..node.operands.len())?)?;
            let asks = true;
            Turns { count, goes_on, asks, carried, scanned: Vec::new() }
                .run(&bodies[0], values, stacked, session)
        }
        Work::Scan { scanned, stacked } => {
            let carried = node.operands.len() - scanned.len();
            let rows = all(&operands(carried..node.operands.len())?)?;
            let rows = rows.iter().zip(scanned).map(|(value, along)| Rows::of(value, *along));
            let scanned = rows.collect::<Result<Vec<Rows>>>()?;
            let carried = all(&operands(0..carried)?)?;
            let count = scanned.first().map(|rows| rows.count as i64);
            if scanned.iter().any(|rows| Some(rows.count as i64) != count) {
                return Err(misfit("what is scanned has different extents"));
            }
            let (goes_on, asks) = (true, false);
            Turns { count, goes_on, asks, carried, scanned }
                .run(&bodies[0], values, stacked, session)
        }
        Work::Call => bodies[0].run(&all(&operands(0..node.operands.len())?)?, values, session),
        Work::If => {
            let condition = operand(0)?.ok_or_else(|| missing(0))?;
            bodies[usize::from(number(condition)? == 0)].run(&[], values, session)
        }
        Work::List(work) => {
            let operands = operands(0..node.operands.len())?;
            if let ListWork::Concat { .. } = work {
                let bytes = operands.iter().flatten().map(bytes_of).sum();
                common.check_bytes(bytes, "the concatenation would take")?;
            }
            Ok(vec![list(*work, &operands)?])
        }
    }
}

/// Values none of which may be left out.
fn all(values: &[Option<Value>]) -> Result<Vec<Value>> {
    let values = values.iter().enumerate();
    values.map(|(number, value)| value.clone().ok_or_else(|| missing(number))).collect()
}

fn missing(number: usize) -> Diagnostics {
    Diagnostic::error(codes::WRONG_ARITY, format!("input {number} is missing"))
        .because("the operator needs it")
        .remedy("check the model with the tool that exported it, or export it again")
        .into()
}

fn misfit(reason: impl Into<String>) -> Diagnostics {
    Diagnostic::error(codes::INCONSISTENT_SHAPES, "the inputs do not fit the operator")
        .because(reason)
        .remedy("check the model with the tool that exported it, and its inputs")
        .into()
}

/// The number that a tensor of one element holds.
fn number(value: &Value) -> Result<i64> {
    match value {
        Value::Tensor(tensor)
            if tensor.len() == 1
                && (tensor.dtype().is_integer() || tensor.dtype() == DType::Bool) =>
        {
            Ok(tensor.get_scalar(0).as_i64())
        }
        _ => Err(misfit("a count, a place or a condition must be one integer or boolean")),
    }
}

/// A tensor that is taken apart along an axis.
struct Rows {
    tensor: Tensor,
    axis: usize,
    is_reversed: bool,
    count: usize,
}

impl Rows {
    fn of(value: &Value, along: Along) -> Result<Rows> {
        let Value::Tensor(tensor) = value else { return Err(misfit("only tensors are scanned")) };
        let rank = tensor.shape().len();
        let axis = place(along.axis, rank, rank)?;
        let count = tensor.shape()[axis];
        Ok(Rows { tensor: tensor.clone(), axis, is_reversed: along.is_reversed, count })
    }

    /// The row of a turn.
    fn row(&self, turn: usize) -> Tensor {
        let at = if self.is_reversed { self.count - 1 - turn } else { turn };
        let whole = self.tensor.shape();
        let shape = [&whole[..self.axis], &whole[self.axis + 1..]].concat();
        let outer: usize = whole[..self.axis].iter().product();
        let width: usize = whole[self.axis + 1..].iter().product();
        let places = (0..outer).map(|row| (row * self.count + at) * width);
        if let Some(strings) = self.tensor.strings() {
            let texts = places.flat_map(|place| strings[place..][..width].iter().cloned());
            return Tensor::from_strings(&shape, texts.collect());
        }
        let mut result = Tensor::zeros(self.tensor.dtype(), &shape);
        match self.tensor.dtype().bytes().map(|bytes| bytes * width) {
            Some(0) => {}
            Some(size) => {
                let bytes = self.tensor.bytes();
                let pieces = result.bytes_mut().chunks_exact_mut(size);
                for (row, piece) in pieces.enumerate() {
                    piece.copy_from_slice(&bytes[(row * self.count + at) * size..][..size]);
                }
            }
            None => {
                let elements = places.flat_map(|place| place..place + width);
                for (to, from) in elements.enumerate() {
                    result.set_scalar(to, self.tensor.get_scalar(from));
                }
            }
        }
        result
    }
}

/// A loop about to run.
struct Turns {
    count: Option<i64>,
    goes_on: bool,
    /// Whether a turn is given its number and a condition, and says whether another follows.
    asks: bool,
    carried: Vec<Value>,
    scanned: Vec<Rows>,
}

impl Turns {
    /// What is carried in the end, and the stacks.
    fn run(
        mut self,
        body: &Turn,
        around: &Values<'_>,
        stacked: &[Stacked],
        session: &mut Session<'_>,
    ) -> Result<Vec<Value>> {
        let common = &body.unit.common;
        let mut stacked_bytes = 0;
        let mut stacks: Vec<Vec<Tensor>> = vec![Vec::new(); stacked.len()];
        let mut turn = 0;
        while self.goes_on && self.count.is_none_or(|count| turn < count) {
            session.count_turn(common)?;
            let mut results = body.run(&self.own(turn), around, session)?.into_iter();
            if self.asks {
                self.goes_on = results.next().map_or(Ok(0), |holds| number(&holds))? != 0;
            }
            self.carried = results.by_ref().take(self.carried.len()).collect();
            for (stack, row) in stacks.iter_mut().zip(results) {
                stacked_bytes += bytes_of(&row);
                match row {
                    Value::Tensor(row) => stack.push(row),
                    _ => return Err(misfit("only tensors can be stacked")),
                }
            }
            let kept = stacked_bytes + self.carried.iter().map(bytes_of).sum::<u64>();
            turn += 1;
            common.check_bytes(kept, &format!("after {turn} turns a loop keeps"))?;
        }
        let mut results = self.carried.clone();
        for (number, (mut stack, info)) in stacks.into_iter().zip(stacked).enumerate() {
            let none = stack.is_empty();
            if none {
                stack.push(self.row_of_none(body, around, number, info)?);
            }
            if info.along.is_reversed {
                stack.reverse();
            }
            let rank = stack[0].shape().len() + 1;
            let axis = place(info.along.axis, rank, rank)?;
            results.push(Value::from(match none {
                true => {
                    let mut shape = stack[0].shape().to_vec();
                    shape.insert(axis, 0);
                    Tensor::zeros(stack[0].dtype(), &shape)
                }
                false => joined(&stack, axis, true)?,
            }));
        }
        Ok(results)
    }

    /// The inputs of a turn that are the body's own.
    fn own(&self, turn: i64) -> Vec<Value> {
        let first = [Tensor::scalar(Scalar::i64(turn)), Tensor::scalar(Scalar::bool(true))];
        let first = first.into_iter().filter(|_| self.asks).map(Value::from);
        let rows = self.scanned.iter().map(|rows| Value::from(rows.row(turn as usize)));
        first.chain(self.carried.iter().cloned()).chain(rows).collect()
    }

    /// What a row of a stack would be of a loop that does not run: the body's result for what is
    /// carried, with extents that data decide 0.
    fn row_of_none(
        &self,
        body: &Turn,
        around: &Values<'_>,
        number: usize,
        info: &Stacked,
    ) -> Result<Tensor> {
        if self.scanned.is_empty() {
            let mut inputs = self.own(0);
            for name in &body.unit.part.inputs[inputs.len()..] {
                inputs.push(value(around, name)?.clone());
            }
            let name = &body.outputs[usize::from(self.asks) + self.carried.len() + number];
            if let Ok(made) = body.unit.made_for(&inputs)
                && let Made::Whole(executable) = &*made
                && let Some((dtype, shape)) = executable.output_type(name, &inputs)
            {
                return Ok(Tensor::zeros(dtype, &shape));
            }
        }
        let Some(dtype) = info.dtype else {
            return Err(misfit("the type of what is stacked is not known where there is none"));
        };
        let shape: Vec<usize> = info.shape.iter().map(|extent| extent.unwrap_or(0)).collect();
        Ok(Tensor::zeros(dtype, &shape))
    }
}

/// Bytes of the elements of a value.
fn bytes_of(value: &Value) -> u64 {
    match value {
        Value::Tensor(tensor) | Value::Maps(_, tensor) | Value::Map(_, tensor) => {
            tensor.dtype().size_of_elements(tensor.len()).unwrap_or(0) as u64
        }
        Value::Sequence(values) => values.iter().map(bytes_of).sum(),
        Value::Optional(value) => value.as_deref().map_or(0, bytes_of),
    }
}

/// A place among values, where `end` is the first that is not one; negative ones count from the
/// end.
fn place(given: i64, count: usize, end: usize) -> Result<usize> {
    let counted = if given < 0 { given.saturating_add(count as i64) } else { given };
    let found = usize::try_from(counted).ok().filter(|&at| at < end);
    found.ok_or_else(|| misfit(format!("there is no place {given} in {count} values")))
}

/// What an operator on sequences and optional values gives.
fn list(work: ListWork, operands: &[Option<Value>]) -> Result<Value> {
    let operand = |number: usize| {
        operands.get(number).and_then(Option::as_ref).ok_or_else(|| missing(number))
    };
    let sequence = || match operand(0)? {
        Value::Sequence(values) => Ok(values),
        _ => Err(misfit("input 0 is no sequence")),
    };
    let given = |number_of: usize, otherwise: usize, count: usize, end: usize| match operands
        .get(number_of)
        .and_then(Option::as_ref)
    {
        Some(given) => place(number(given)?, count, end),
        None => place(otherwise as i64, count, end),
    };
    Ok(match work {
        ListWork::Sequence => {
            let values = (0..operands.len()).map(|number| operand(number).cloned());
            Value::Sequence(values.collect::<Result<_>>()?)
        }
        ListWork::Insert => {
            let mut values = sequence()?.clone();
            let count = values.len();
            values.insert(given(2, count, count, count + 1)?, operand(1)?.clone());
            Value::Sequence(values)
        }
        ListWork::Erase => {
            let mut values = sequence()?.clone();
            let count = values.len();
            values.remove(given(1, count.saturating_sub(1), count, count)?);
            Value::Sequence(values)
        }
        ListWork::At => {
            let values = sequence()?;
            values[place(number(operand(1)?)?, values.len(), values.len())?].clone()
        }
        ListWork::Length => Tensor::scalar(Scalar::i64(sequence()?.len() as i64)).into(),
        ListWork::Concat { axis, is_new } => {
            let tensor = |value: &Value| match value {
                Value::Tensor(tensor) => Ok(tensor.clone()),
                _ => Err(misfit("the sequence holds other values than tensors")),
            };
            let tensors = sequence()?.iter().map(tensor).collect::<Result<Vec<_>>>()?;
            let Some(first) = tensors.first() else { return Err(misfit("the sequence is empty")) };
            let rank = first.shape().len() + usize::from(is_new);
            joined(&tensors, place(axis, rank, rank)?, is_new)?.into()
        }
        ListWork::Optional => Value::Optional(operands.first().cloned().flatten().map(Box::new)),
        ListWork::Element => match operand(0)? {
            Value::Optional(Some(value)) => Value::clone(value),
            Value::Optional(None) => return Err(misfit("the optional value is empty")),
            value => value.clone(),
        },
        ListWork::HasElement => {
            let has = match operands.first().and_then(Option::as_ref) {
                None | Some(Value::Optional(None)) => false,
                Some(_) => true,
            };
            Tensor::scalar(Scalar::bool(has)).into()
        }
        ListWork::Same => operand(0)?.clone(),
    })
}

/// Tensors put together along an axis, which may be a new one of theirs.
fn joined(tensors: &[Tensor], axis: usize, is_new: bool) -> Result<Tensor> {
    let Some(first) = tensors.first() else { return Err(misfit("there are no tensors")) };
    let mut shape = first.shape().to_vec();
    if is_new {
        shape.insert(axis, 1);
    }
    let (outer, inner) = (shape[..axis].to_vec(), shape[axis + 1..].to_vec());
    let extent = |tensor: &Tensor| if is_new { 1 } else { tensor.shape()[axis] };
    for tensor in tensors {
        let own = tensor.shape();
        let fits = match is_new {
            true => own == first.shape(),
            false => own.len() == shape.len() && own[..axis] == outer && own[axis + 1..] == inner,
        };
        if !fits || tensor.dtype() != first.dtype() {
            return Err(misfit(format!(
                "{}{:?} and {}{own:?} are put together",
                first.dtype(),
                first.shape(),
                tensor.dtype(),
            )));
        }
    }
    shape[axis] = tensors.iter().map(extent).sum();
    let rows: usize = outer.iter().product();
    let width: usize = inner.iter().product();
    if let Some(strings) = tensors.iter().map(Tensor::strings).collect::<Option<Vec<_>>>() {
        let pieces = (0..rows).flat_map(|row| {
            strings.iter().zip(tensors).flat_map(move |(strings, tensor)| {
                let length = extent(tensor) * width;
                strings[row * length..][..length].iter().cloned()
            })
        });
        return Ok(Tensor::from_strings(&shape, pieces.collect()));
    }
    let mut result = Tensor::zeros(first.dtype(), &shape);
    let Some(size) = first.dtype().bytes().map(|bytes| bytes * width) else {
        let mut at = 0;
        for row in 0..rows {
            for tensor in tensors {
                let length = extent(tensor) * width;
                for element in row * length..(row + 1) * length {
                    result.set_scalar(at, tensor.get_scalar(element));
                    at += 1;
                }
            }
        }
        return Ok(result);
    };
    let mut left = result.bytes_mut();
    for row in 0..rows {
        for tensor in tensors {
            let length = extent(tensor) * size;
            let (to, behind) = left.split_at_mut(length);
            to.copy_from_slice(&tensor.bytes()[row * length..][..length]);
            left = behind;
        }
    }
    Ok(result)
}
