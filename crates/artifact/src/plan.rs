//! A plan as the procedure that callers call: its actions (`graph::PlanActions`) as words, memory
//! and calls.
//!
//! A value is memory of the procedure: where its elements lie, how many bytes and axes they have,
//! its extents. Symbols are locals. What works on values and memory are procedures of
//! `plan.procedures`.

use std::collections::{BTreeMap, BTreeSet};

use backend::procedure::{
    Action, AreaId, Callee, LocalId, MemoryWidth, Procedure, Word, WordOperator,
};
use backend_c::Interface;
use base::{Diagnostics, FunctionId, Id};
use graph::{
    Assumption, Function, ListOperation, PlanAction, PlanActions, PlanCondition, PlanLoop,
    PlanNumber, PlanPlace, ValueId,
};
use program::Fault;
use sym::Expr;
use tensor::{DType, Kind};

use crate::entry::{Bases, aligned, check_values, field};
use crate::steps::{ProgramCode, free_symbols};
use crate::words::{ProcedureWriter, estimate_of, word_of};

/// Sizes above this many bytes are too large before they are computed exactly.
const MOST_BYTES: i64 = 4_000_000_000_000_000_000;

/// Bytes of a value in front of its extents.
const HEAD: i64 = 24;

/// What works on values and memory.
const PROCEDURES: &str = include_str!("plan.procedures");

/// A plan and the programs of its segments.
#[derive(Clone, Debug)]
pub struct PlanCode<'a> {
    /// The plan, whose first parameters are the caller's inputs, the others constants.
    pub function: &'a Function,
    /// The segments that it calls.
    pub segments: BTreeMap<FunctionId, SegmentCode<'a>>,
}

/// A segment of a plan.
#[derive(Clone, Debug)]
pub struct SegmentCode<'a> {
    /// Its program, which has the symbols of the plan first among its own, where it has any.
    pub code: ProgramCode<'a>,
    /// How many of its operands are values; behind them come constants.
    pub inputs: usize,
    /// What must hold of the plan's symbols when it begins: the first is at most the second.
    pub checks: Vec<(Expr, Expr)>,
}

/// What callers see of a plan beyond its ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanPorts {
    /// Names of the free extents of inputs, which callers tell.
    pub free: Vec<String>,
    /// For each input and axis, the number of the free extent that it is.
    pub inputs: Vec<Vec<Option<usize>>>,
    /// Shapes of inputs, then of outputs, as a reader knows them.
    pub input_shapes: Vec<String>,
    /// Shapes of outputs.
    pub output_shapes: Vec<String>,
    /// The most axes of a value, at least one.
    pub axes: usize,
}

/// The procedures that plans call, as text.
pub(crate) fn procedures() -> String {
    let code = |fault: Fault| fault.code().to_string();
    PROCEDURES
        .replace("$INDEX", &code(Fault::IndexOutOfRange))
        .replace("$SIZE", &code(Fault::SizeOutOfRange))
        .replace("$MEMORY", &code(Fault::TooLittleMemory))
}

/// The procedure that callers call to run a plan, whose segments have these symbols.
///
/// # Errors
/// `TW0205` for a symbol of inputs' shapes that no extent is by itself; `TW0104` for loops over
/// rows of elements that share bytes; internal errors where the plan is not what its verifier
/// accepts.
pub(crate) fn plan_entry(
    name: String,
    plan: &PlanCode<'_>,
    symbols: &BTreeMap<FunctionId, String>,
    bases: &Bases,
    interface: &Interface,
    values: &[Option<String>],
    most_turns: u64,
) -> base::Result<(Procedure, PlanPorts)> {
    let function = plan.function;
    let checks = plan.segments.iter().map(|(&id, segment)| (id, &segment.checks[..])).collect();
    let actions = PlanActions::of(function, interface.inputs.len(), &checks)?;
    let ports = ports(function, &actions);
    let mut writer = ProcedureWriter::new(name, &["arguments"]);
    writer.procedure.is_exported = true;
    let arguments = writer.parameter(0);
    check_values(&mut writer, &arguments, interface, values);
    let workers =
        writer.call(Callee::Procedure("tilewright.workers".to_owned()), vec![arguments.clone()]);
    let region = writer.procedure.area("region", 16);
    let start = writer.local("start", (arguments.clone() + field::ARENA).load());
    let low = aligned(start.into());
    let low = writer.local("low", low);
    writer.store(region.into(), low);
    let given = (arguments.clone() + field::ARENA_BYTES).load();
    let high = Word::from(start) + given;
    writer.store(Word::from(region) + 8, high);
    let turns = writer.procedure.area("turns", 8);
    writer.store(turns.into(), 0);
    let [weights, constants] = bases.words(&arguments);
    let weights = writer.local("weights", weights);
    let constants = writer.local("constants", constants);
    let inputs = writer.local("inputs", (arguments.clone() + field::INPUTS).load());
    let outputs = writer.local("outputs", (arguments.clone() + field::OUTPUTS).load());
    let symbol_locals: Vec<LocalId> =
        function.symbols.values().map(|symbol| writer.procedure.local(&symbol.name)).collect();
    for (number, symbol) in actions.free.iter().enumerate() {
        let place = arguments.clone() + (field::EXTENTS + 8 * number as i64);
        writer.set(symbol_locals[symbol.index()], place.load());
    }
    let most = |counts: &mut dyn Iterator<Item = usize>| 8 * counts.max().unwrap_or(0) as u64;
    let nodes = || function.nodes.values();
    let operands = most(&mut nodes().map(|node| node.operands.len()));
    let operands = writer.procedure.area("operands", operands);
    let results = most(&mut nodes().map(|node| node.results.len()));
    let results = writer.procedure.area("results", results);
    let mut plans = PlanWriter {
        writer,
        function,
        plan,
        segments: symbols,
        interface,
        each: HEAD + 8 * ports.axes as i64,
        areas: BTreeMap::new(),
        symbols: symbol_locals,
        loops: Vec::new(),
        region,
        turns,
        tables: [operands, results],
        ports: [inputs, outputs],
        fixed: [weights, constants, workers],
        most_turns,
    };
    plans.actions(&actions.actions)?;
    plans.writer.push(Action::Return(0.into()));
    Ok((plans.writer.finish(), ports))
}

/// What callers see of a plan: names of the free extents, and shapes for readers.
fn ports(function: &Function, actions: &PlanActions<'_>) -> PlanPorts {
    let shape_text = |&value: &ValueId| {
        let names = |symbol| function.symbol_name(symbol);
        let extents = function.ty(value).exprs().iter();
        let texts: Vec<String> = extents.map(|extent| extent.display(&names).to_string()).collect();
        texts.join(", ")
    };
    let (mut taken, mut free) = (BTreeSet::new(), Vec::new());
    for &symbol in &actions.free {
        let name = backend_c::identifier(&function.symbols[symbol].name);
        let mut own = name.clone();
        let mut number = 2;
        while !taken.insert(own.clone()) {
            own = format!("{name}_{number}");
            number += 1;
        }
        free.push(own);
    }
    let inputs = &function.parameters()[..actions.inputs.len()];
    PlanPorts {
        free,
        inputs: actions.inputs.clone(),
        input_shapes: inputs.iter().map(shape_text).collect(),
        output_shapes: function.results().iter().map(shape_text).collect(),
        axes: actions.axes,
    }
}

struct PlanWriter<'a> {
    writer: ProcedureWriter,
    function: &'a Function,
    plan: &'a PlanCode<'a>,
    /// Symbols of the segments' procedures.
    segments: &'a BTreeMap<FunctionId, String>,
    interface: &'a Interface,
    /// Bytes of a value.
    each: i64,
    /// The values that have been met.
    areas: BTreeMap<ValueId, AreaId>,
    symbols: Vec<LocalId>,
    /// Those whose actions are being written, the innermost last.
    loops: Vec<LoopParts>,
    region: AreaId,
    turns: AreaId,
    /// Tables of a segment's operands and results.
    tables: [AreaId; 2],
    /// The caller's tables of inputs and outputs.
    ports: [LocalId; 2],
    /// Where weights and constants are, and how many workers there are.
    fixed: [LocalId; 3],
    most_turns: u64,
}

/// What belongs to a loop, and what it is.
#[derive(Clone, Copy)]
struct LoopParts {
    /// The array of what it carries.
    carried: AreaId,
    /// The first row of each stack.
    rows: AreaId,
    /// Where its rows begin, from above.
    top: LocalId,
    /// Where it ends that is needed by the next turn.
    kept: LocalId,
    /// Turns so far.
    count: LocalId,
    /// How often it turns, where that is said before it begins.
    trips: LocalId,
    stacks: usize,
    reverse: bool,
}

impl PlanWriter<'_> {
    /// The actions that something writes.
    fn inside(
        &mut self,
        write: impl FnOnce(&mut Self) -> base::Result<()>,
    ) -> base::Result<Vec<Action>> {
        self.writer.open();
        write(self)?;
        Ok(self.writer.close())
    }

    fn value(&mut self, value: ValueId) -> Word {
        let (each, procedure) = (self.each.cast_unsigned(), &mut self.writer.procedure);
        let area = self.areas.entry(value);
        let new = || procedure.area(&format!("v{}", value.index()), each);
        Word::Area(*area.or_insert_with(new))
    }

    fn copy_value(&mut self, destination: Word, source: Word) {
        let bytes = self.each.into();
        self.writer.push(Action::Copy { destination, source, bytes });
    }

    /// The element of a scalar.
    fn element(&mut self, value: ValueId, width: MemoryWidth) -> Word {
        let data = self.value(value).load();
        Word::Load(width, Box::new(data))
    }

    fn expr(&self, expr: &Expr) -> Word {
        word_of(expr, &|symbol| self.symbols[symbol.index()].into())
    }

    /// Calls a procedure of plans that gives a fault, and leaves with one.
    fn checked(&mut self, name: &str, arguments: Vec<Word>) {
        self.writer.checked_call(Callee::Procedure(format!("tilewright.{name}")), arguments);
    }

    fn call_plain(&mut self, name: &str, arguments: Vec<Word>) -> Word {
        self.writer.call(Callee::Procedure(format!("tilewright.{name}")), arguments).into()
    }

    fn actions(&mut self, actions: &[PlanAction<'_>]) -> base::Result<()> {
        actions.iter().try_for_each(|action| self.action(action))
    }

    /// Actions as those of a block.
    fn block(&mut self, actions: &[PlanAction<'_>]) -> base::Result<Vec<Action>> {
        self.inside(|plans| plans.actions(actions))
    }

    fn action(&mut self, action: &PlanAction<'_>) -> base::Result<()> {
        let region = Word::from(self.region);
        match action {
            PlanAction::Input(number, value) => self.input(*number, *value),
            PlanAction::InputList(number, value, dtype, rank) => {
                let given = (Word::from(self.ports[0]) + 8 * *number as i64).load();
                let lists = lists_of(&self.interface.inputs[*number].kind);
                let numbers = [lists, i64::from(dtype.bits()), *rank as i64, self.each];
                let [lists, bits, rank, each] = numbers.map(Word::Number);
                let place = self.value(*value);
                self.checked("given", vec![region, place, given, lists, bits, rank, each]);
            }
            PlanAction::Refuse(condition) => {
                let wrong = self.condition(condition);
                self.writer.fault_if(wrong, Fault::SizeOutOfRange);
            }
            PlanAction::Set(symbol, number) => {
                let word = match *number {
                    PlanNumber::Extent(value, axis) => self.extent(value, axis).load(),
                    PlanNumber::Element(value) => self.element(value, MemoryWidth::Eight),
                    PlanNumber::Turns => self.innermost()?.count.into(),
                };
                self.writer.set(self.symbols[symbol.index()], word);
            }
            PlanAction::Shape(value) => self.shape(*value),
            PlanAction::Make(value) => self.make(*value),
            PlanAction::Assign(to, from) => {
                let (to, from) = (self.place(*to)?, self.place(*from)?);
                self.copy_value(to, from);
            }
            PlanAction::Call { segment, operands, results } => {
                self.call(*segment, operands, results)?;
            }
            PlanAction::If(condition, then, otherwise) => {
                let condition = self.element(*condition, MemoryWidth::One).not_equal(0);
                let (then, otherwise) = (self.block(then)?, self.block(otherwise)?);
                self.writer.push(Action::If(condition, then, otherwise));
            }
            PlanAction::Loop(looped) => self.looped(looped)?,
            PlanAction::LeaveAtEnd => {
                let LoopParts { count, trips, .. } = self.innermost()?;
                let is_over = Word::binary(WordOperator::GreaterEqual, count.into(), trips.into());
                self.writer.push(Action::If(is_over, vec![Action::Break], Vec::new()));
            }
            PlanAction::LeaveUnless(value) => {
                let condition = self.element(*value, MemoryWidth::One);
                self.writer.push(Action::If(condition, Vec::new(), vec![Action::Break]));
                let kept = self.innermost()?.kept;
                self.writer.store(region, kept);
            }
            PlanAction::CountTurn => {
                let (turns, most) = (self.turns.into(), self.most_turns);
                self.writer.count_turn(turns, most);
            }
            PlanAction::StoreTurn(value) => {
                let (value, count) = (self.value(*value), self.innermost()?.count);
                self.writer.store(value.load(), count);
            }
            PlanAction::Row(operand, row) => {
                let LoopParts { count, trips, reverse, .. } = self.innermost()?;
                let place = match reverse {
                    true => Word::from(trips) + -1 - count.into(),
                    false => count.into(),
                };
                let words = vec![region, self.value(*row), self.value(*operand), place];
                let is_there = self.call_plain("row", words);
                self.writer.fault_if(is_there.equal(0), Fault::TooLittleMemory);
            }
            PlanAction::Push(number, row) => {
                let LoopParts { rows, count, .. } = self.innermost()?;
                let row = self.value(*row);
                let first = Word::from(rows) + self.each * *number as i64;
                let kept = self.inside(|plans| {
                    plans.copy_value(first.clone(), row.clone());
                    Ok(())
                })?;
                self.writer.push(Action::If(Word::from(count).equal(0), kept, Vec::new()));
                self.checked("push", vec![region, first, row]);
            }
            PlanAction::Stack(number, value) => self.stack(*number, *value)?,
            PlanAction::List(operation, operands, result) => {
                self.list(*operation, operands, *result);
            }
        }
        Ok(())
    }

    // --- values and symbols ---

    fn condition(&mut self, condition: &PlanCondition<'_>) -> Word {
        match condition {
            PlanCondition::OutOfRange(symbol, range) => {
                let word = Word::from(self.symbols[symbol.index()]);
                let below = (range.min != i64::MIN).then(|| word.clone().less(range.min));
                let above = || Word::binary(WordOperator::Greater, word, range.max.into());
                let above = (range.max != i64::MAX).then(above);
                below.into_iter().chain(above).reduce(Word::or).unwrap_or(Word::Number(0))
            }
            PlanCondition::Broken(Assumption::Equal(a, b)) => self.expr(a).not_equal(self.expr(b)),
            PlanCondition::Broken(Assumption::Broadcastable(a, b)) => {
                let (a, b) = (self.expr(a), self.expr(b));
                let differ = a.clone().not_equal(b.clone());
                differ.and(a.not_equal(1)).and(b.not_equal(1))
            }
            PlanCondition::Broken(Assumption::Divisible(_, 0)) => Word::Number(1),
            PlanCondition::Broken(Assumption::Divisible(a, by)) => {
                Word::binary(WordOperator::Remainder, self.expr(a), (*by).into()).not_equal(0)
            }
            PlanCondition::Above(least, most) => {
                let (least, most) = (self.expr(least), self.expr(most));
                most.less(least)
            }
            PlanCondition::OtherRank(value, axes) => {
                (self.value(*value) + 16).load().not_equal(*axes as i64)
            }
            PlanCondition::OtherExtent(value, axis, extent) => {
                let found = self.extent(*value, *axis).load();
                found.not_equal(self.expr(extent))
            }
        }
    }

    fn place(&mut self, place: PlanPlace) -> base::Result<Word> {
        Ok(match place {
            PlanPlace::Value(value) => self.value(value),
            PlanPlace::Carried(number) => {
                Word::from(self.innermost()?.carried) + self.each * number as i64
            }
            PlanPlace::Output(number) => Word::from(self.ports[1]) + self.each * number as i64,
        })
    }

    /// Where an extent of a value is.
    fn extent(&mut self, value: ValueId, axis: usize) -> Word {
        self.value(value) + (HEAD + 8 * axis as i64)
    }

    fn tensor(&self, value: ValueId) -> (DType, usize) {
        self.function.ty(value).as_tensor().map_or((DType::U8, 0), |ty| (ty.dtype, ty.shape.len()))
    }

    fn input(&mut self, number: usize, value: ValueId) {
        let given = (Word::from(self.ports[0]) + 8 * number as i64).load();
        let (place, (dtype, rank)) = (self.value(value), self.tensor(value));
        self.writer.store(place.clone(), given);
        self.writer.store(place.clone() + 16, rank as i64);
        let bits = i64::from(dtype.bits());
        let words = vec![bits.into(), (rank as i64).into(), place.clone() + HEAD];
        let bytes = self.call_plain("bytes", words);
        self.writer.fault_if(bytes.clone().less(0), Fault::SizeOutOfRange);
        self.writer.store(place + 8, bytes);
    }

    fn shape(&mut self, value: ValueId) {
        let function = self.function;
        for (axis, extent) in function.ty(value).exprs().iter().enumerate() {
            let (place, word) = (self.extent(value, axis), self.expr(extent));
            self.writer.store(place, word);
        }
    }

    fn make(&mut self, value: ValueId) {
        let (place, (dtype, rank)) = (self.value(value), self.tensor(value));
        let (bits, region) = (i64::from(dtype.bits()), self.region.into());
        let data = self.call_plain("make", vec![region, place, bits.into(), (rank as i64).into()]);
        self.writer.fault_if(data.equal(0), Fault::TooLittleMemory);
    }

    fn call(
        &mut self,
        called: FunctionId,
        operands: &[ValueId],
        results: &[ValueId],
    ) -> base::Result<()> {
        // That no called segment is missing the actions have been checked for.
        let plan = self.plan;
        let segment = &plan.segments[&called];
        let symbol = self.segments[&called].clone();
        let code = segment.code;
        let arena = &code.program().arena_bytes;
        if arena.as_constant().is_none() {
            let estimate = estimate_of(arena, &|symbol| self.symbols[symbol.index()].into());
            let is_more = Word::binary(WordOperator::Greater, estimate, MOST_BYTES.into());
            self.writer.fault_if(is_more, Fault::TooLittleMemory);
        }
        let arena = self.expr(arena);
        let [weights, constants, workers] = self.fixed;
        let own = code.worker_bytes().cast_signed();
        let of_workers = Word::binary(WordOperator::SaturatingMultiply, workers.into(), own.into());
        // Workers' memory begins at a multiple of 64.
        let rounded = aligned(arena);
        let rounded = self.writer.local("arena_bytes", rounded);
        let both = Word::binary(WordOperator::SaturatingAdd, rounded.into(), of_workers);
        let low = self.writer.local("low", Word::from(self.region).load());
        let taken = self.call_plain("take", vec![self.region.into(), both]);
        self.writer.fault_if(taken.clone().equal(0), Fault::TooLittleMemory);
        let [of_operands, of_results] = self.tables;
        let operands = &operands[..segment.inputs.min(operands.len())];
        for (table, values) in [(of_operands, operands), (of_results, results)] {
            for (number, &value) in values.iter().enumerate() {
                let data = self.value(value).load();
                self.writer.store(Word::from(table) + 8 * number as i64, data);
            }
        }
        let mut words = vec![
            self.writer.parameter(0),
            weights.into(),
            constants.into(),
            taken.clone(),
            taken + Word::from(rounded),
            workers.into(),
            of_operands.into(),
            of_results.into(),
            self.turns.into(),
        ];
        for symbol in free_symbols(code.program()) {
            if symbol.index() >= self.symbols.len() {
                let name = &code.program().symbols[symbol].name;
                return Err(Diagnostics::internal(format!("the symbol `{name}` has no value")));
            }
            words.push(self.symbols[symbol.index()].into());
        }
        self.writer.checked_call(Callee::Procedure(symbol), words);
        let region = self.region.into();
        self.writer.store(region, low);
        Ok(())
    }

    // --- loops ---

    /// The loop whose actions are being written.
    fn innermost(&self) -> base::Result<LoopParts> {
        let missing = || Diagnostics::internal("an action of a loop stands outside of one");
        self.loops.last().copied().ok_or_else(missing)
    }

    fn looped(&mut self, looped: &PlanLoop<'_>) -> base::Result<()> {
        let each = self.each.cast_unsigned();
        let region = Word::from(self.region);
        let carried = self.writer.procedure.area("carried", each * looped.carried as u64);
        let rows = self.writer.procedure.area("rows", each * looped.stacks as u64);
        let top = self.writer.local("top", (region.clone() + 8).load());
        let mark = self.writer.local("mark", region.clone().load());
        let kept = self.writer.local("kept", mark);
        let count = self.writer.local("count", 0);
        let trips = looped.trips.map(|trips| self.expr(trips));
        let (stacks, reverse) = (looped.stacks, looped.reverse);
        let mut parts =
            LoopParts { carried, rows, top, kept, count, trips: count, stacks, reverse };
        self.loops.push(parts);
        self.actions(&looped.start)?;
        if let Some(trips) = trips {
            parts.trips = self.writer.local("trips", trips);
            self.loops.pop();
            self.loops.push(parts);
        }
        let turn = self.inside(|plans| {
            plans.actions(&looped.turn)?;
            let array = vec![carried.into(), (looped.carried as i64).into(), plans.each.into()];
            let words = [plans.region.into(), mark.into()].into_iter().chain(array).collect();
            let end = plans.call_plain("keep", words);
            plans.writer.set(kept, end);
            plans.writer.set(count, Word::from(count) + 1);
            Ok(())
        })?;
        self.writer.push(Action::Loop(turn));
        self.writer.store(region.clone(), kept);
        self.actions(&looped.end)?;
        if stacks > 0 {
            self.writer.store(region + 8, top);
        }
        self.loops.pop();
        Ok(())
    }

    /// Puts rows together.
    fn stack(&mut self, number: usize, value: ValueId) -> base::Result<()> {
        let LoopParts { rows, top, count, stacks, reverse, .. } = self.innermost()?;
        let (place, rank) = (self.value(value), self.tensor(value).1);
        let row = Word::from(rows) + self.each * number as i64;
        let of_rows = self.inside(|plans| {
            plans.writer.store(place.clone() + HEAD, count);
            for axis in 1..rank {
                let extent = (row.clone() + (HEAD + 8 * (axis as i64 - 1))).load();
                plans.writer.store(place.clone() + (HEAD + 8 * axis as i64), extent);
            }
            Ok(())
        })?;
        let of_type = self.inside(|plans| {
            plans.shape(value);
            Ok(())
        })?;
        let has_rows = Word::binary(WordOperator::Greater, count.into(), 0.into());
        self.writer.push(Action::If(has_rows, of_rows, of_type));
        self.make(value);
        let numbers = [stacks as i64, number as i64].map(Word::Number);
        let [all, number] = numbers;
        let (reverse, each) = (i64::from(reverse).into(), self.each.into());
        let words = vec![place, top.into(), rows.into(), all, number, count.into(), reverse, each];
        self.call_plain("stack", words);
        Ok(())
    }

    // --- lists ---

    fn list(&mut self, operation: ListOperation, operands: &[ValueId], result: ValueId) {
        let place = self.value(result);
        let (region, each) = (Word::from(self.region), Word::Number(self.each));
        // Behind what makes a list of values come a list and what is done with it.
        let list = match operands.first() {
            Some(&list) => self.value(list),
            None => Word::Number(0),
        };
        let count = (list.clone() + HEAD).load();
        match operation {
            ListOperation::Sequence | ListOperation::Optional => self.list_of(place, operands),
            ListOperation::Length => {
                self.make(result);
                self.writer.store(place.load(), count);
            }
            ListOperation::HasElement => {
                self.make(result);
                let has = Word::binary(WordOperator::Greater, count, 0.into());
                self.writer.push(Action::Store(MemoryWidth::One, place.load(), has));
            }
            ListOperation::Insert => {
                let end = count.clone() + 1;
                let at = self.place_in(&list, operands.get(2), end, count);
                let value = self.value(operands[1]);
                self.checked("insert", vec![region, place, list, value, at, each]);
            }
            ListOperation::Erase => {
                let last = count.clone() + -1;
                let at = self.place_in(&list, operands.get(1), count, last);
                self.checked("erase", vec![region, place, list, at, each]);
            }
            ListOperation::At | ListOperation::Element => {
                let last = count.clone() + -1;
                let at = self.place_in(&list, operands.get(1), count, last);
                self.checked("at", vec![place, list, at, each]);
            }
            ListOperation::Concat { axis, is_new } => {
                let bits = i64::from(self.tensor(result).0.bits());
                let [axis, is_new, bits] = [axis as i64, i64::from(is_new), bits].map(Word::Number);
                self.checked("join", vec![region, place, list, axis, is_new, bits, each]);
            }
        }
    }

    /// The place that an operand tells among those before an end, or the usual one.
    fn place_in(&mut self, list: &Word, given: Option<&ValueId>, end: Word, usual: Word) -> Word {
        match given {
            Some(&given) => {
                let given = self.value(given);
                self.call_plain("place", vec![list.clone(), given, end])
            }
            None => usual,
        }
    }

    /// A list of values.
    fn list_of(&mut self, place: Word, values: &[ValueId]) {
        let count = (values.len() as i64).into();
        let words = vec![self.region.into(), place, count, self.each.into()];
        let held = self.call_plain("list", words);
        self.writer.fault_if(held.clone().equal(0), Fault::TooLittleMemory);
        for (number, &value) in values.iter().enumerate() {
            let (to, from) = (held.clone() + self.each * number as i64, self.value(value));
            self.copy_value(to, from);
        }
    }
}

/// The lists around the tensors of a port: digits of base 4, the outermost the lowest.
fn lists_of(kind: &Kind) -> i64 {
    match kind {
        Kind::Sequence(held) => 1 + 4 * lists_of(held),
        Kind::Optional(held) => 2 + 4 * lists_of(held),
        Kind::Tensor | Kind::Maps | Kind::Map => 0,
    }
}
