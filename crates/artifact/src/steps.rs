//! A program as a procedure: its steps, with what they compute of sizes and places.
//!
//! The procedure takes what [`PARAMETERS`] names, then the symbols that no step sets. It gives 0 or
//! the code of a fault. Sizes and offsets that symbols decide are checked to stay in their slots;
//! all others are numbers that were checked when the program was made.

use std::collections::BTreeMap;

use backend::MachineCode;
use backend::procedure::{
    Action, AreaId, Callee, LocalId, MemoryWidth, Procedure, Word, WordOperator,
};
use base::codes::INTERNAL_ERROR;
use base::{ConstantId, Diagnostic, Diagnostics, Id, KernelId, ProgramId};
use module::Module;
use program::{Address, Fault, Move, MoveAxis, Place, Program, Run, Step};
use sym::{Expr, SymbolId};

use crate::words::{ProcedureWriter, word_of};

/// What the procedure of a program takes first: the caller's arguments; where weights, constants,
/// arena and the workers' memory begin; how many workers there are; tables of inputs and outputs;
/// where turns are counted.
pub(crate) const PARAMETERS: [&str; 9] = [
    "arguments",
    "weights",
    "constants",
    "arena",
    "memory",
    "workers",
    "inputs",
    "outputs",
    "turns",
];

/// Bytes in front of a worker's scratch memory.
const WORKER_HEAD: i64 = 64;

/// A program with the machine code of the kernels that it runs.
#[derive(Clone, Copy, Debug)]
pub struct ProgramCode<'a> {
    /// Holds its kernels and constants.
    pub module: &'a Module,
    /// The program.
    pub program: ProgramId,
    /// The code of its kernels.
    pub kernels: &'a BTreeMap<KernelId, MachineCode>,
}

impl<'a> ProgramCode<'a> {
    pub(crate) fn program(&self) -> &'a Program {
        &self.module.programs[self.program]
    }

    /// The bytes that each worker needs: a place for its fault, and scratch memory.
    pub(crate) fn worker_bytes(&self) -> u64 {
        let mut most = 0;
        program::walk(&self.program().steps, &mut |step| {
            if let Step::Run(run) = step {
                let own = self.kernels.get(&run.kernel).map_or(0, |code| code.scratch_bytes);
                let planned = run.scratch_bytes.as_constant().unwrap_or(0).max(0);
                most = most.max(own).max(planned.cast_unsigned());
            }
        });
        // Workers do not share cache lines, nor pairs of them.
        (WORKER_HEAD.cast_unsigned() + most).next_multiple_of(128)
    }
}

/// What is known of an artifact when a program becomes a procedure.
pub(crate) struct Surroundings<'a> {
    /// The symbol of each kernel.
    pub(crate) kernels: &'a BTreeMap<KernelId, String>,
    /// Where each weight begins among all of them.
    pub(crate) weights: &'a BTreeMap<ConstantId, u64>,
    /// How often loops that data end may turn.
    pub(crate) most_turns: u64,
}

/// The procedure of a program; the symbols that it takes behind [`PARAMETERS`] are those that no
/// step sets, in order.
///
/// With it comes the data of its moves, which belongs to the symbol that [`moves_of`] says.
///
/// # Errors
/// Internal errors where the program is not what its verifier accepts.
pub(crate) fn procedure_of(
    name: String,
    code: ProgramCode<'_>,
    around: &Surroundings<'_>,
) -> base::Result<(Procedure, Vec<u8>)> {
    let program = code.program();
    let free = free_symbols(program);
    let names: Vec<&str> = free.iter().map(|&id| &program.symbols[id].name[..]).collect();
    let parameters: Vec<&str> = PARAMETERS.into_iter().chain(names).collect();
    let mut writer = ProcedureWriter::new(name, &parameters);
    let mut table = 0;
    program::walk(&program.steps, &mut |step| {
        if let Step::Run(run) = step {
            table = table.max(run.arguments.len());
        }
    });
    let [context, buffers, symbols] = [
        ("context", 24),
        ("buffers", 8 * table as u64),
        ("symbols", 8 * program.symbols.len() as u64),
    ]
    .map(|(name, bytes)| writer.procedure.area(name, bytes));
    writer.store(context.into(), buffers);
    writer.store(Word::from(context) + 8, symbols);
    let memory = writer.parameter(4);
    writer.store(Word::from(context) + 16, memory.clone() + WORKER_HEAD);
    let team = writer.procedure.area("team", 40);
    let stride = code.worker_bytes().cast_signed().into();
    let of_team = [writer.parameter(0), writer.parameter(5), memory, stride, context.into()];
    for (number, word) in of_team.into_iter().enumerate() {
        writer.store(Word::from(team) + 8 * number as i64, word);
    }
    let (moves, records) = (Vec::new(), writer.procedure.local("moves"));
    let mut steps = StepWriter {
        writer,
        program,
        code,
        around,
        context,
        buffers,
        symbols,
        team,
        moves,
        records,
        entries: vec![None; table],
    };
    for (number, id) in free.into_iter().enumerate() {
        let value = steps.writer.parameter(PARAMETERS.len() + number);
        steps.writer.store(steps.symbol_place(id), value);
    }
    steps.block(&program.steps)?;
    let moves = steps.moves;
    let mut procedure = steps.writer.finish();
    if !moves.is_empty() {
        let symbol = Word::Symbol(moves_of(&procedure.name));
        procedure.body.insert(0, Action::Set(records, symbol));
    }
    Ok((procedure, moves))
}

/// The symbols that no step of a program sets.
pub(crate) fn free_symbols(program: &Program) -> Vec<SymbolId> {
    let set = program.set_symbols();
    program.symbols.ids().filter(|id| !set.contains(id)).collect()
}

struct StepWriter<'a> {
    writer: ProcedureWriter,
    program: &'a Program,
    code: ProgramCode<'a>,
    around: &'a Surroundings<'a>,
    context: AreaId,
    buffers: AreaId,
    symbols: AreaId,
    /// What `tilewright.parallel` is told of workers.
    team: AreaId,
    /// The records that `tilewright.move` is told.
    moves: Vec<u8>,
    /// Where they begin.
    records: LocalId,
    /// What the entries of the table of buffers are known to hold.
    entries: Vec<Option<Word>>,
}

/// What `tilewright.move` is told: of the axes, of the bytes that are copied at once, and of those
/// of an element. Its numbers take two bytes each, or four where one needs more.
fn record_of(axes: &[MoveAxis], run: u32, element: u32) -> Option<Vec<u8>> {
    let rows = axes.iter().flat_map(|axis| [axis.extent, axis.from, axis.to]);
    let numbers: Vec<u32> = [run, element].into_iter().chain(rows).collect();
    let is_wide = numbers.iter().any(|&number| u16::try_from(number).is_err());
    let bytes = if is_wide { 4 } else { 2 };
    let numbers = numbers.iter().flat_map(|number| number.to_le_bytes().into_iter().take(bytes));
    let head = [u8::try_from(axes.len()).ok()?, u8::from(is_wide)];
    Some(head.into_iter().chain(numbers).collect())
}

/// Whether a word depends on what lies in memory.
fn reads_memory(word: &Word) -> bool {
    let mut found = false;
    word.walk(&mut |word| found |= matches!(word, Word::Load(..)));
    found
}

/// The symbol of the data that the moves of a program's procedure are told.
pub(crate) fn moves_of(procedure: &str) -> String {
    format!("{procedure}.moves")
}

impl StepWriter<'_> {
    fn block(&mut self, steps: &[Step]) -> base::Result<()> {
        steps.iter().try_for_each(|step| self.step(step))
    }

    fn inside(&mut self, steps: &[Step]) -> base::Result<Vec<Action>> {
        self.blocked(|writer| writer.block(steps))
    }

    /// The actions that something writes.
    fn blocked(
        &mut self,
        write: impl FnOnce(&mut Self) -> base::Result<()>,
    ) -> base::Result<Vec<Action>> {
        self.writer.open();
        self.entries.fill(None);
        write(self)?;
        self.entries.fill(None);
        Ok(self.writer.close())
    }

    fn symbol_place(&self, symbol: SymbolId) -> Word {
        Word::from(self.symbols) + 8 * symbol.index() as i64
    }

    fn expr(&self, expr: &Expr) -> Word {
        word_of(expr, &|symbol| self.symbol_place(symbol).load())
    }

    /// Where an address is, of which so many bytes are used.
    fn address(&mut self, address: &Address, bytes: &Expr) -> Word {
        let slot = &self.program.slots[address.slot];
        let base = match &slot.place {
            Place::Input(number) => (self.writer.parameter(6) + 8 * i64::from(*number)).load(),
            Place::Output(number) => (self.writer.parameter(7) + 8 * i64::from(*number)).load(),
            Place::Weight(constant) => {
                let start = self.around.weights.get(constant).copied().unwrap_or(0);
                self.writer.parameter(1) + start.cast_signed()
            }
            Place::Constants(offset) => self.writer.parameter(2) + self.expr(offset),
            Place::Arena(offset) => self.writer.parameter(3) + self.expr(offset),
        };
        if address.offset.as_constant().is_none() || bytes.as_constant().is_none() {
            self.check_inside(&address.offset, bytes, &slot.bytes);
        }
        base + self.expr(&address.offset)
    }

    /// Leaves with a fault unless so many bytes at an offset lie within a slot.
    fn check_inside(&mut self, offset: &Expr, bytes: &Expr, slot: &Expr) {
        let ranges = |symbol: SymbolId| self.program.symbols[symbol].range;
        let is_proved = sym::proves_less_equal(&Expr::ZERO, offset, &ranges)
            && sym::proves_less_equal(&Expr::ZERO, bytes, &ranges)
            && sym::proves_less_equal(&(offset + bytes), slot, &ranges);
        if is_proved {
            return;
        }
        let (offset, bytes, slot) = (self.expr(offset), self.expr(bytes), self.expr(slot));
        let end = Word::binary(WordOperator::SaturatingAdd, offset.clone(), bytes.clone());
        let wrong = offset.less(0).or(bytes.less(0)).or(slot.less(end));
        self.writer.fault_if(wrong, Fault::SizeOutOfRange);
    }

    fn step(&mut self, step: &Step) -> base::Result<()> {
        match step {
            Step::Run(run) => self.run(run)?,
            // Runs come one after the other.
            Step::Barrier => {}
            Step::Bind { symbol, source } => {
                let value = self.address(source, &Expr::constant(8)).load();
                let value = self.writer.local("size", value);
                let range = self.program.symbols[*symbol].range;
                let wrong =
                    Word::from(value).less(range.min).or(Word::Number(range.max).less(value));
                self.writer.fault_if(wrong, Fault::SizeOutOfRange);
                let place = self.symbol_place(*symbol);
                self.writer.store(place, value);
            }
            Step::Copy { source, destination, bytes } => {
                let source = self.address(source, bytes);
                let destination = self.address(destination, bytes);
                let bytes = self.expr(bytes);
                self.writer.push(Action::Copy { destination, source, bytes });
            }
            Step::Move(moved) => self.moved(moved)?,
            Step::Branch { condition, then, otherwise } => {
                let condition = self.boolean(condition);
                let (then, otherwise) = (self.inside(then)?, self.inside(otherwise)?);
                self.writer.push(Action::If(condition, then, otherwise));
            }
            Step::While { setup, condition, body } => {
                let body = self.blocked(|steps| {
                    steps.block(setup)?;
                    let holds = steps.boolean(condition);
                    steps.writer.push(Action::If(holds, Vec::new(), vec![Action::Break]));
                    let turns = steps.writer.parameter(8);
                    steps.writer.count_turn(turns, steps.around.most_turns);
                    steps.block(body)
                })?;
                self.writer.push(Action::Loop(body));
            }
            Step::Repeat { symbol, count, body } => {
                let count = self.expr(count);
                let count = self.writer.local("count", count);
                let place = self.symbol_place(*symbol);
                self.writer.store(place.clone(), 0);
                let body = self.blocked(|steps| {
                    let turn = Word::binary(WordOperator::Less, place.clone().load(), count.into());
                    steps.writer.push(Action::If(turn, Vec::new(), vec![Action::Break]));
                    steps.block(body)?;
                    steps.writer.store(place.clone(), place.load() + 1);
                    Ok(())
                })?;
                self.writer.push(Action::Loop(body));
            }
        }
        Ok(())
    }

    fn boolean(&mut self, address: &Address) -> Word {
        let place = self.address(address, &Expr::ONE);
        Word::Load(MemoryWidth::One, Box::new(place)).not_equal(0)
    }

    /// Copies elements, or neighbours together.
    fn moved(&mut self, moved: &Move) -> base::Result<()> {
        let element = i64::from(moved.element);
        let source = self.address(&moved.source, &moved.source_bytes());
        let destination = self.address(&moved.destination, &moved.destination_bytes());
        let mut axes = &moved.axes[..];
        // Neighbours in both are copied at once.
        let mut run = element;
        while let [outer @ .., last] = axes
            && (i64::from(last.from) * element, i64::from(last.to) * element) == (run, run)
            && run * i64::from(last.extent) <= i64::from(u32::MAX)
        {
            run *= i64::from(last.extent);
            axes = outer;
        }
        if axes.is_empty() {
            self.writer.push(Action::Copy { destination, source, bytes: run.into() });
            return Ok(());
        }
        let record = record_of(axes, run as u32, moved.element)
            .ok_or_else(|| self.broken("a move has more axes than a byte counts".to_owned()))?;
        // Moves along the same axes are told by the same record.
        let known = self.moves.windows(record.len()).step_by(2).position(|known| known == record);
        let at = known.map_or(self.moves.len(), |number| 2 * number);
        if known.is_none() {
            self.moves.extend(record);
        }
        let record = Word::from(self.records) + at as i64;
        let words = vec![record, source, destination];
        let callee = Callee::Procedure("tilewright.move".to_owned());
        self.writer.push(Action::Call(None, callee, words));
        Ok(())
    }

    fn run(&mut self, run: &Run) -> base::Result<()> {
        let name = self
            .around
            .kernels
            .get(&run.kernel)
            .ok_or_else(|| self.broken(format!("there is no code of kernel {}", run.kernel)))?;
        for (number, argument) in run.arguments.iter().enumerate() {
            let place = self.address(&argument.address, &argument.bytes);
            let is_fixed = !reads_memory(&place);
            let known = is_fixed.then(|| place.clone());
            // What an entry holds already is not stored again.
            if !is_fixed || self.entries[number] != known {
                let entry = Word::from(self.buffers) + 8 * number as i64;
                self.writer.store(entry, place);
            }
            self.entries[number] = known;
        }
        let kernel = &self.code.module.kernels[run.kernel];
        let is_parallel = !matches!(kernel.parallel_extent().as_constant(), Some(..=1));
        let extent = self.expr(&run.extent);
        let (callee, words) = match is_parallel {
            false => {
                let words = vec![self.context.into(), 0.into(), extent];
                (Callee::Kernel(name.clone()), words)
            }
            true => {
                let grain = self.expr(&run.grain);
                let words = vec![self.team.into(), Word::Symbol(name.clone()), extent, grain];
                (Callee::Procedure("tilewright.parallel".to_owned()), words)
            }
        };
        match backend_c::can_fault(kernel) {
            true => self.writer.checked_call(callee, words),
            false => self.writer.push(Action::Call(None, callee, words)),
        }
        Ok(())
    }

    /// A broken invariant, which the program's verifier would have shown.
    fn broken(&self, message: String) -> Diagnostics {
        let place = format!("program `{}`", self.program.name);
        Diagnostic::error(INTERNAL_ERROR, message).at(place).into()
    }
}
