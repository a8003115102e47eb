//! A plan as the procedure that callers call: what stands between the programs of its segments.
//!
//! A value is memory of the procedure: where its elements lie, how many bytes and axes they have,
//! its extents. A list is a vector of values: a sequence, or an optional value, which holds one or
//! none. What it holds is not copied, and nothing changes a list that is there.
//!
//! The caller's memory is divided from both ends while the plan runs: values are made from below,
//! the rows that loops stack from above. What a turn of a loop makes is given back at its end, but
//! for what the loop carries and what that holds, which moves down to where the turn began. Symbols
//! are locals, checked as soon as they have values. What works on values and memory are procedures
//! of `plan.procedures`.

mod lists;
mod loops;

use std::collections::{BTreeMap, BTreeSet};

use backend::procedure::{
    Action, AreaId, Callee, LocalId, MemoryWidth, Procedure, Word, WordOperator,
};
use backend_c::Interface;
use base::codes::{INTERNAL_ERROR, UNBOUND_DIMENSION, UNSUPPORTED_TYPE};
use base::{Diagnostic, Diagnostics, FunctionId, Id};
use graph::{Assumption, Function, NodeId, Op, RegionId, Type, ValueId};
use program::Fault;
use sym::{Expr, SymbolId};
use tensor::DType;

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
    let ports = ports(function, interface.inputs.len())?;
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
    let outputs = writer.local("outputs", (arguments + field::OUTPUTS).load());
    let symbol_locals: Vec<LocalId> =
        function.symbols.values().map(|symbol| writer.procedure.local(&symbol.name)).collect();
    let most = |it: usize| {
        plan.function
            .nodes
            .values()
            .map(|node| if it == 0 { node.operands.len() } else { node.results.len() })
            .max()
            .unwrap_or(0) as u64
    };
    let operands = writer.procedure.area("operands", 8 * most(0));
    let results = writer.procedure.area("results", 8 * most(1));
    let mut plans = PlanWriter {
        writer,
        function,
        plan,
        segments: symbols,
        each: HEAD + 8 * ports.axes as i64,
        areas: BTreeMap::new(),
        symbols: symbol_locals,
        known: BTreeSet::new(),
        region,
        turns,
        tables: [operands, results],
        fixed: [weights, constants, workers],
        most_turns,
    };
    plans.head(&ports, interface, inputs)?;
    plans.nodes(function.body)?;
    for (number, &value) in function.results().iter().enumerate() {
        let source = plans.value(value);
        let destination = Word::from(outputs) + plans.each * number as i64;
        plans.copy_value(destination, source);
    }
    plans.writer.push(Action::Return(0.into()));
    Ok((plans.writer.finish(), ports))
}

/// The free extents of the inputs, and shapes for readers.
fn ports(function: &Function, inputs: usize) -> base::Result<PlanPorts> {
    let mut free: Vec<SymbolId> = Vec::new();
    let mut found = Diagnostics::new();
    let mut ports = PlanPorts::default();
    let names = |symbol| function.symbol_name(symbol);
    let shape_text = |value: ValueId| {
        let extents = function.ty(value).exprs();
        let texts: Vec<String> =
            extents.iter().map(|extent| extent.display(&names).to_string()).collect();
        texts.join(", ")
    };
    let parameters = function.parameters().iter().zip(&function.parameter_names);
    for (&value, port) in parameters.take(inputs) {
        let mut axes = Vec::new();
        for extent in function.ty(value).exprs() {
            let number = match (extent.as_symbol(), extent.as_constant()) {
                (Some(symbol), _) => {
                    let known = free.iter().position(|&free| free == symbol);
                    Some(known.unwrap_or_else(|| {
                        free.push(symbol);
                        free.len() - 1
                    }))
                }
                (None, Some(_)) => None,
                (None, None) => {
                    let text = extent.display(&names);
                    let message = format!("the extent {text} is no argument of its own");
                    found.push(
                        Diagnostic::error(UNBOUND_DIMENSION, message)
                            .at(format!("input `{port}`"))
                            .because("free extents of an artifact are the named ones of inputs")
                            .remedy("give the input, or name the dimension otherwise"),
                    );
                    None
                }
            };
            axes.push(number);
        }
        ports.inputs.push(axes);
        ports.input_shapes.push(shape_text(value));
    }
    found.or_ok(())?;
    ports.output_shapes = function.results().iter().map(|&value| shape_text(value)).collect();
    let mut taken = BTreeSet::new();
    for symbol in free {
        let name = backend_c::identifier(&function.symbols[symbol].name);
        let mut own = name.clone();
        let mut number = 2;
        while !taken.insert(own.clone()) {
            own = format!("{name}_{number}");
            number += 1;
        }
        ports.free.push(own);
    }
    let axes = function.values.values().map(|value| lists::most_axes(&value.ty));
    ports.axes = axes.max().unwrap_or(0).max(1);
    Ok(ports)
}

struct PlanWriter<'a> {
    writer: ProcedureWriter,
    function: &'a Function,
    plan: &'a PlanCode<'a>,
    /// Symbols of the segments' procedures.
    segments: &'a BTreeMap<FunctionId, String>,
    /// Bytes of a value.
    each: i64,
    /// The values that have been met.
    areas: BTreeMap<ValueId, AreaId>,
    symbols: Vec<LocalId>,
    /// The symbols that have values at the place at hand.
    known: BTreeSet<SymbolId>,
    region: AreaId,
    turns: AreaId,
    /// Tables of a segment's operands and results.
    tables: [AreaId; 2],
    /// Where weights and constants are, and how many workers there are.
    fixed: [LocalId; 3],
    most_turns: u64,
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

    fn symbol(&self, symbol: SymbolId) -> Word {
        self.symbols[symbol.index()].into()
    }

    fn expr(&self, expr: &Expr) -> Word {
        word_of(expr, &|symbol| self.symbol(symbol))
    }

    /// Calls a procedure of plans that gives a fault, and leaves with one.
    fn checked(&mut self, name: &str, arguments: Vec<Word>) {
        self.writer.checked_call(Callee::Procedure(format!("tilewright.{name}")), arguments);
    }

    fn call_plain(&mut self, name: &str, arguments: Vec<Word>) -> Word {
        self.writer.call(Callee::Procedure(format!("tilewright.{name}")), arguments).into()
    }

    // --- symbols ---

    /// Checks symbols that have got values, then what is assumed of them.
    fn check_symbols(&mut self, symbols: &[SymbolId]) {
        for &symbol in symbols {
            let (word, range) = (self.symbol(symbol), self.function.symbols[symbol].range);
            let mut wrong = Word::Number(0);
            if range.min != i64::MIN {
                wrong = word.clone().less(range.min);
            }
            if range.max != i64::MAX {
                let above = Word::binary(WordOperator::Greater, word, range.max.into());
                wrong = if wrong == Word::Number(0) { above } else { wrong.or(above) };
            }
            self.writer.fault_if(wrong, Fault::SizeOutOfRange);
        }
        self.known.extend(symbols);
        let function = self.function;
        for assumption in &function.assumptions {
            let used: Vec<SymbolId> =
                assumption.exprs().into_iter().flat_map(Expr::symbols).collect();
            let is_new = used.iter().any(|symbol| symbols.contains(symbol));
            if !is_new || !used.iter().all(|symbol| self.known.contains(symbol)) {
                continue;
            }
            let wrong = match assumption {
                Assumption::Equal(a, b) => self.expr(a).not_equal(self.expr(b)),
                Assumption::Broadcastable(a, b) => {
                    let (a, b) = (self.expr(a), self.expr(b));
                    let differ = a.clone().not_equal(b.clone());
                    differ.and(a.not_equal(1)).and(b.not_equal(1))
                }
                Assumption::Divisible(_, 0) => Word::Number(1),
                Assumption::Divisible(a, by) => {
                    let by = Word::Number(*by);
                    Word::binary(WordOperator::Remainder, self.expr(a), by).not_equal(0)
                }
            };
            self.writer.fault_if(wrong, Fault::SizeOutOfRange);
        }
    }

    /// Sets the symbols that a node defines as extents of these values.
    fn bind_extents(&mut self, node: NodeId, values: &[ValueId]) {
        let function = self.function;
        let defined = function.symbols_defined_by(node);
        let mut bound = Vec::new();
        for &value in values {
            for (axis, extent) in function.ty(value).exprs().iter().enumerate() {
                let Some(symbol) = extent.as_symbol().filter(|it| defined.contains(it)) else {
                    continue;
                };
                let word = (self.value(value) + (HEAD + 8 * axis as i64)).load();
                self.writer.set(self.symbols[symbol.index()], word);
                bound.push(symbol);
            }
        }
        self.check_symbols(&bound);
    }

    // --- values ---

    fn dtype(&self, value: ValueId) -> DType {
        self.function.ty(value).as_tensor().map_or(DType::U8, |ty| ty.dtype)
    }

    fn tensor(&self, value: ValueId) -> base::Result<(DType, Vec<Expr>)> {
        match self.function.ty(value) {
            Type::Tensor(ty) if ty.dtype != DType::String => Ok((ty.dtype, ty.shape.to_vec())),
            _ => Err(Diagnostic::error(UNSUPPORTED_TYPE, format!("{value} is no numeric tensor"))
                .at("the plan of the model")
                .because("what is computed from strings and pictures is no code of an artifact")
                .remedy("export the model without such values, or run it in process")
                .into()),
        }
    }

    /// Sets the extents of a value as its type says.
    fn set_extents(&mut self, value: ValueId) -> base::Result<(DType, usize)> {
        let (dtype, shape) = self.tensor(value)?;
        for (axis, extent) in shape.iter().enumerate() {
            let place = self.value(value) + (HEAD + 8 * axis as i64);
            let word = self.expr(extent);
            self.writer.store(place, word);
        }
        Ok((dtype, shape.len()))
    }

    /// Makes memory for a value whose extents are set.
    fn make(&mut self, value: Word, dtype: DType, rank: usize) {
        let (bits, region) = (i64::from(dtype.bits()), self.region.into());
        let data = self.call_plain("make", vec![region, value, bits.into(), (rank as i64).into()]);
        self.writer.fault_if(data.equal(0), Fault::TooLittleMemory);
    }

    /// Symbols of the inputs' shapes, and the inputs as values.
    fn head(
        &mut self,
        ports: &PlanPorts,
        interface: &Interface,
        inputs: LocalId,
    ) -> base::Result<()> {
        let parameters = self.function.parameters();
        let mut free: Vec<SymbolId> = Vec::new();
        for (&value, axes) in parameters.iter().zip(&ports.inputs) {
            for (extent, number) in self.function.ty(value).exprs().iter().zip(axes) {
                let (Some(symbol), Some(number)) = (extent.as_symbol(), number) else { continue };
                if free.contains(&symbol) {
                    continue;
                }
                let place = self.writer.parameter(0) + (field::EXTENTS + 8 * *number as i64);
                self.writer.set(self.symbols[symbol.index()], place.load());
                free.push(symbol);
            }
        }
        self.check_symbols(&free);
        for (number, (&value, port)) in parameters.iter().zip(&interface.inputs).enumerate() {
            let given = (Word::from(inputs) + 8 * number as i64).load();
            if self.function.ty(value).as_tensor().is_none() {
                self.given_list(given, value, port)?;
                continue;
            }
            let (dtype, rank) = self.set_extents(value)?;
            let place = self.value(value);
            self.writer.store(place.clone(), given);
            self.writer.store(place.clone() + 16, rank as i64);
            let bits = i64::from(dtype.bits());
            let words = vec![bits.into(), (rank as i64).into(), place.clone() + HEAD];
            let bytes = self.call_plain("bytes", words);
            self.writer.fault_if(bytes.clone().less(0), Fault::SizeOutOfRange);
            self.writer.store(place + 8, bytes);
        }
        Ok(())
    }

    // --- nodes ---

    fn nodes(&mut self, region: RegionId) -> base::Result<()> {
        let function = self.function;
        function.regions[region].nodes.iter().try_for_each(|&node| self.node(node))
    }

    fn node(&mut self, id: NodeId) -> base::Result<()> {
        let function = self.function;
        let node = &function.nodes[id];
        match &node.op {
            Op::Call { function: called, .. } => self.call(*called, id),
            Op::Bind { symbol, .. } => {
                let (operand, result) = (self.value(node.operands[0]), self.value(node.results[0]));
                self.copy_value(result, operand);
                let bound = self.element(node.operands[0], MemoryWidth::Eight);
                self.writer.set(self.symbols[symbol.index()], bound);
                self.check_symbols(&[*symbol]);
                Ok(())
            }
            Op::If { .. } => self.branch(id),
            Op::While { .. } | Op::Scan { .. } => self.looped(id),
            Op::List { operation, .. } => self.list(*operation, id),
            op => {
                let message = format!("`{}` stands in a plan", op.name());
                Err(Diagnostic::error(INTERNAL_ERROR, message).at("the plan of the model").into())
            }
        }
    }

    fn call(&mut self, called: FunctionId, id: NodeId) -> base::Result<()> {
        let missing =
            || Diagnostics::internal(format!("the plan calls {called}, which is missing"));
        let plan = self.plan;
        let segment = plan.segments.get(&called).ok_or_else(missing)?;
        let symbol = self.segments.get(&called).ok_or_else(missing)?.clone();
        let function = self.function;
        let node = &function.nodes[id];
        for (least, most) in &segment.checks {
            let (least, most) = (self.expr(least), self.expr(most));
            self.writer.fault_if(most.less(least), Fault::SizeOutOfRange);
        }
        for &result in &node.results {
            let (dtype, rank) = self.set_extents(result)?;
            let value = self.value(result);
            self.make(value, dtype, rank);
        }
        let code = segment.code;
        let arena = &code.program().arena_bytes;
        if arena.as_constant().is_none() {
            let estimate = estimate_of(arena, &|symbol| self.symbol(symbol));
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
        let [operands, results] = self.tables;
        let count = segment.inputs.min(node.operands.len());
        for (table, values) in [(operands, &node.operands[..count]), (results, &node.results)] {
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
            operands.into(),
            results.into(),
            self.turns.into(),
        ];
        for symbol in free_symbols(code.program()) {
            if symbol.index() >= self.symbols.len() {
                let name = &code.program().symbols[symbol].name;
                return Err(Diagnostics::internal(format!("the symbol `{name}` has no value")));
            }
            words.push(self.symbol(symbol));
        }
        self.writer.checked_call(Callee::Procedure(symbol), words);
        let region = self.region.into();
        self.writer.store(region, low);
        Ok(())
    }

    fn branch(&mut self, id: NodeId) -> base::Result<()> {
        let function = self.function;
        let node = &function.nodes[id];
        let condition = self.element(node.operands[0], MemoryWidth::One).not_equal(0);
        let before = self.known.clone();
        let mut branches = Vec::new();
        for &region in &node.regions {
            branches.push(self.inside(|plans| {
                plans.nodes(region)?;
                let from = &function.regions[region].results;
                for (&to, &from) in node.results.iter().zip(from) {
                    let (to, from) = (plans.value(to), plans.value(from));
                    plans.copy_value(to, from);
                }
                Ok(())
            })?);
            self.known.clone_from(&before);
        }
        let mut branches = branches.into_iter();
        let mut next = || branches.next().unwrap_or_default();
        self.writer.push(Action::If(condition, next(), next()));
        self.bind_extents(id, &node.results);
        Ok(())
    }
}
