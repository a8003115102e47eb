//! From a program to flat instructions with numbers in the place of expressions.
//!
//! Whatever does not depend on symbols that steps set is evaluated here, once: sizes, places,
//! extents. Addresses become entries of one table of pointers; most of its entries change only when
//! a slot's memory does, and each slot lists its own. Everything that is constant is checked here
//! to lie in its slot; the rest is checked when it is run.

use std::collections::BTreeMap;

use base::codes::{INTERNAL_ERROR, UNBOUND_DIMENSION, WRONG_SHAPE};
use base::{Arena, ConstantId, Diagnostic, Id, KernelId};
use program::{Address, Move, MoveAxis, Place, Program, Run, SlotId, Step, print_expression};
use sym::{Expr, Range, SymbolId};

use crate::abi::KernelFn;
use crate::code::Code;

/// Bytes that are too many to stay in the first-level cache until the next turn of a loop.
const MANY_BYTES: i64 = 1 << 17;

/// A number that is known, or follows from symbols that steps set.
#[derive(Clone, Debug)]
pub(crate) enum Amount {
    Known(i64),
    Computed(Box<Expr>),
}

/// An entry of the pointer table that is computed before each use.
#[derive(Clone, Debug)]
pub(crate) struct Computed {
    pub(crate) entry: usize,
    pub(crate) slot: SlotId,
    pub(crate) offset: Amount,
    pub(crate) bytes: Amount,
}

/// One kernel run.
#[derive(Debug)]
pub(crate) struct RunStep {
    pub(crate) kernel: KernelId,
    pub(crate) entry_point: KernelFn,
    /// The first of its pointers in the table.
    pub(crate) first: usize,
    pub(crate) extent: Amount,
    pub(crate) grain: Amount,
    pub(crate) computed: Vec<Computed>,
    /// In odd turns of this symbol's loop the last iteration is run first: what the turn before has
    /// read last is then read first, while caches have it.
    pub(crate) turning: Option<SymbolId>,
}

/// What to do next. Targets are positions in the list of instructions.
#[derive(Debug)]
pub(crate) enum Instruction {
    Run(RunStep),
    Copy {
        source: Pointer,
        destination: Pointer,
        bytes: Amount,
    },
    Move {
        source: Pointer,
        destination: Pointer,
        element: usize,
        axes: Vec<MoveAxis>,
    },
    Bind {
        symbol: SymbolId,
        source: Pointer,
        range: Range,
    },
    Jump {
        target: usize,
    },
    JumpUnless {
        condition: Pointer,
        target: usize,
    },
    /// Sets the symbol to 0 and the limit to the count; leaves if that is 0.
    Begin {
        symbol: SymbolId,
        limit: usize,
        count: Amount,
        end: usize,
    },
    /// Counts on, back to the body below the limit.
    Next {
        symbol: SymbolId,
        limit: usize,
        body: usize,
    },
}

impl Instruction {
    /// Whether the instruction that comes next is always the one behind it.
    pub(crate) fn goes_on(&self) -> bool {
        match self {
            Instruction::Run(_)
            | Instruction::Copy { .. }
            | Instruction::Move { .. }
            | Instruction::Bind { .. } => true,
            Instruction::Jump { .. }
            | Instruction::JumpUnless { .. }
            | Instruction::Begin { .. }
            | Instruction::Next { .. } => false,
        }
    }
}

/// An entry of the pointer table, and how to compute it where it is not constant.
#[derive(Debug)]
pub(crate) struct Pointer {
    pub(crate) entry: usize,
    pub(crate) computed: Option<Computed>,
}

/// Who provides the memory of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    Arena,
    Constants,
    Input(u32),
    Output(u32),
    Weight(ConstantId),
}

/// A piece of memory that steps address.
#[derive(Debug)]
pub(crate) struct ResolvedSlot {
    pub(crate) bytes: usize,
    /// From the start of the owner's memory.
    pub(crate) offset: usize,
    /// Constant entries of the pointer table, with the offset of each in the slot.
    pub(crate) entries: Vec<(usize, usize)>,
}

/// Memory that must be provided for a run, and the slots in it.
#[derive(Debug, Default)]
pub(crate) struct Port {
    pub(crate) bytes: usize,
    pub(crate) slots: Vec<SlotId>,
}

/// A program with numbers in the place of expressions.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) instructions: Vec<Instruction>,
    /// For each instruction the number of its step, counted as `program::walk` counts.
    pub(crate) steps: Vec<usize>,
    pub(crate) slots: Arena<SlotId, ResolvedSlot>,
    /// Sorted by their owners.
    pub(crate) ports: Vec<(Owner, Port)>,
    /// Entries of the pointer table.
    pub(crate) entries: usize,
    /// Where symbols begin.
    pub(crate) symbols: Vec<i64>,
    /// Nested and other `Repeat`s.
    pub(crate) limits: usize,
    /// Weights and inputs by the last instruction that reads them, sorted; without inputs that a
    /// turn of a loop may read again.
    pub(crate) last_reads: Vec<(usize, Owner)>,
    /// Weights by each instruction that reads them, sorted.
    pub(crate) weight_reads: Vec<(usize, ConstantId)>,
    /// Slots of the block of constants by each instruction that touches them.
    pub(crate) constant_uses: Vec<(usize, SlotId)>,
    /// Moves of weights that the instruction before reads as well, to constants that it does not
    /// touch: both may go on piece by piece. Sorted.
    pub(crate) beside: Vec<usize>,
    /// For each worker.
    pub(crate) scratch_bytes: usize,
    /// Whether the program writes to the constants.
    pub(crate) fills_constants: bool,
    /// Whether there is work for more than one thread.
    pub(crate) is_parallel: bool,
}

impl Resolved {
    /// The position of the owner's port, if it has one.
    pub(crate) fn port(&self, owner: Owner) -> Option<usize> {
        self.ports.binary_search_by_key(&owner, |(known, _)| *known).ok()
    }

    /// The bytes that the owner must provide.
    pub(crate) fn port_bytes(&self, owner: Owner) -> usize {
        self.port(owner).map_or(0, |port| self.ports[port].1.bytes)
    }
}

/// Evaluates what can be and checks it.
pub(crate) fn resolve(
    program: &Program,
    code: &Code,
    values: &BTreeMap<SymbolId, i64>,
) -> base::Result<Resolved> {
    let symbols = initial_symbols(program, values)?;
    let set = program.set_symbols();
    let known: Vec<Option<i64>> =
        program.symbols.ids().map(|id| (!set.contains(&id)).then(|| symbols[id.index()])).collect();
    let resolved = Resolved {
        instructions: Vec::new(),
        steps: Vec::new(),
        slots: Arena::new(),
        ports: Vec::new(),
        entries: 0,
        symbols,
        limits: 0,
        last_reads: Vec::new(),
        weight_reads: Vec::new(),
        constant_uses: Vec::new(),
        beside: Vec::new(),
        scratch_bytes: 0,
        fills_constants: false,
        is_parallel: false,
    };
    let (last_reads, loops) = (BTreeMap::new(), Vec::new());
    let mut resolver = Resolver {
        program,
        code,
        known,
        resolved,
        last_reads,
        reader: None,
        steps: 0,
        loops,
        depth: 0,
    };
    resolver.slots()?;
    resolver.block(&program.steps)?;
    let Resolver { mut resolved, last_reads, .. } = resolver;
    let last_reads = last_reads.into_iter().filter_map(|(owner, last)| Some((last?, owner)));
    resolved.last_reads = last_reads.collect();
    resolved.last_reads.sort_unstable();
    resolved.weight_reads.sort_unstable();
    resolved.weight_reads.dedup();
    Ok(resolved)
}

/// The values that symbols have before the first step; those that steps set begin at 0.
fn initial_symbols(program: &Program, values: &BTreeMap<SymbolId, i64>) -> base::Result<Vec<i64>> {
    let set = program.set_symbols();
    let mut symbols = vec![0; program.symbols.len()];
    for (id, symbol) in program.symbols.iter().filter(|(id, _)| !set.contains(id)) {
        let name = &symbol.name;
        let value = *values.get(&id).ok_or_else(|| {
            Diagnostic::error(UNBOUND_DIMENSION, format!("the dimension `{name}` has no value"))
                .remedy(base::remedies::give_dimension(name))
        })?;
        if !symbol.range.contains(value) {
            return Err(Diagnostic::error(
                WRONG_SHAPE,
                format!("the dimension `{name}` is {value}"),
            )
            .because(format!("the model was compiled for {}", symbol.range))
            .into());
        }
        symbols[id.index()] = value;
    }
    Ok(symbols)
}

struct Resolver<'a> {
    program: &'a Program,
    code: &'a Code,
    /// Values of the symbols that no step sets.
    known: Vec<Option<i64>>,
    resolved: Resolved,
    /// The last instruction so far that reads each weight and each input; none for an input that
    /// it may read several times.
    last_reads: BTreeMap<Owner, Option<usize>>,
    /// What the last instruction does, and those beside it, if they are about a weight.
    reader: Option<Reader>,
    /// Steps looked at so far.
    steps: usize,
    /// The symbols of the loops around the step at hand, innermost last.
    loops: Vec<SymbolId>,
    /// Loops of both kinds around it.
    depth: usize,
}

/// Instructions that read a weight, the first of which is no copy and no jump.
struct Reader {
    weight: ConstantId,
    /// What else they read, and what they write.
    touched: Vec<SlotId>,
}

impl Resolver<'_> {
    /// A broken invariant of the program, which its verifier would have shown in the listing.
    #[cold]
    #[inline(never)]
    fn broken(&self, message: impl Into<String>) -> base::Diagnostics {
        Diagnostic::error(INTERNAL_ERROR, message)
            .at(format!("program `{}`", self.program.name))
            .into()
    }

    fn amount(&self, expr: &Expr) -> Amount {
        let value = |symbol: SymbolId| self.known.get(symbol.index()).copied().flatten();
        match expr.evaluate(&value) {
            Some(value) => Amount::Known(value),
            None => Amount::Computed(Box::new(expr.clone())),
        }
    }

    /// A number of bytes that must be known.
    fn bytes(&self, expr: &Expr) -> base::Result<usize> {
        match self.amount(expr) {
            Amount::Known(value) => usize::try_from(value).ok(),
            Amount::Computed(_) => None,
        }
        .ok_or_else(|| {
            let text = print_expression(self.program, expr);
            self.broken(format!("the size or offset {text} is negative or not known"))
        })
    }

    fn slots(&mut self) -> base::Result<()> {
        let mut ports: BTreeMap<Owner, Port> = BTreeMap::new();
        // The arena is there even if nothing lies in it, and may be larger than what does.
        let arena = Port { bytes: self.bytes(&self.program.arena_bytes)?, slots: Vec::new() };
        ports.insert(Owner::Arena, arena);
        for (id, slot) in self.program.slots.iter() {
            let bytes = self.bytes(&slot.bytes)?;
            let (owner, offset) = match &slot.place {
                Place::Input(number) => (Owner::Input(*number), 0),
                Place::Output(number) => (Owner::Output(*number), 0),
                Place::Weight(constant) => (Owner::Weight(*constant), 0),
                Place::Constants(offset) => (Owner::Constants, self.bytes(offset)?),
                Place::Arena(offset) => (Owner::Arena, self.bytes(offset)?),
            };
            let end = offset.checked_add(bytes).filter(|end| i64::try_from(*end).is_ok());
            let end = end.ok_or_else(|| self.broken("a slot is beyond all memory"))?;
            let port = ports.entry(owner).or_default();
            if owner == Owner::Arena && end > port.bytes {
                return Err(self.broken(format!("the slot %{} leaves the arena", slot.name)));
            }
            port.bytes = port.bytes.max(end);
            port.slots.push(id);
            self.resolved.slots.push(ResolvedSlot { bytes, offset, entries: Vec::new() });
        }
        self.resolved.ports = ports.into_iter().collect();
        Ok(())
    }

    /// A new entry of the table for this address; the memory behind it is checked to lie in the
    /// slot.
    fn pointer(&mut self, address: &Address, bytes: &Expr) -> base::Result<Pointer> {
        let entry = self.resolved.entries;
        self.resolved.entries += 1;
        let (offset, bytes) = (self.amount(&address.offset), self.amount(bytes));
        if !self.resolved.slots.contains(address.slot) {
            return Err(self.broken(format!("there is no slot {}", address.slot)));
        }
        // Pointers are made before the instruction that uses them.
        let next = self.next();
        match self.program.slots[address.slot].place {
            Place::Weight(constant) => {
                self.last_reads.insert(Owner::Weight(constant), Some(next));
                self.resolved.weight_reads.push((next, constant));
            }
            Place::Input(number) => {
                let last = (self.depth == 0).then_some(next);
                self.last_reads.insert(Owner::Input(number), last);
            }
            Place::Constants(_) => self.resolved.constant_uses.push((next, address.slot)),
            Place::Output(_) | Place::Arena(_) => {}
        }
        let (Amount::Known(start), Amount::Known(length)) = (&offset, &bytes) else {
            let computed = Computed { entry, slot: address.slot, offset, bytes };
            return Ok(Pointer { entry, computed: Some(computed) });
        };
        let slot = &mut self.resolved.slots[address.slot];
        match offset_inside(*start, *length, slot.bytes) {
            Some(start) => slot.entries.push((entry, start)),
            None => {
                let name = &self.program.slots[address.slot].name;
                return Err(self.broken(format!(
                    "{length} bytes at %{name}[{start}] are not inside of the slot"
                )));
            }
        }
        Ok(Pointer { entry, computed: None })
    }

    /// The same for memory that is written.
    fn written(&mut self, address: &Address, bytes: &Expr) -> base::Result<Pointer> {
        let pointer = self.pointer(address, bytes)?;
        let slot = &self.program.slots[address.slot];
        match slot.place {
            Place::Input(_) | Place::Weight(_) => {
                return Err(self.broken(format!("%{} is written, but not ours", slot.name)));
            }
            Place::Constants(_) => self.resolved.fills_constants = true,
            Place::Output(_) | Place::Arena(_) => {}
        }
        Ok(pointer)
    }

    fn emit(&mut self, step: usize, instruction: Instruction) -> usize {
        self.resolved.instructions.push(instruction);
        self.resolved.steps.push(step);
        self.resolved.instructions.len() - 1
    }

    fn next(&self) -> usize {
        self.resolved.instructions.len()
    }

    fn block(&mut self, steps: &[Step]) -> base::Result<()> {
        steps.iter().try_for_each(|step| self.step(step))
    }

    fn step(&mut self, step: &Step) -> base::Result<()> {
        let number = self.steps;
        self.steps += 1;
        let before = self.reader.take();
        match step {
            Step::Run(run) => self.run(number, run)?,
            // Workers are joined at the end of every run.
            Step::Barrier => {}
            Step::Bind { symbol, source } => {
                let source = self.pointer(source, &Expr::constant(8))?;
                let range = self.program.symbols[*symbol].range;
                self.emit(number, Instruction::Bind { symbol: *symbol, source, range });
            }
            Step::Copy { source, destination, bytes } => {
                let source = self.pointer(source, bytes)?;
                let destination = self.written(destination, bytes)?;
                let bytes = match base::fault::is_seeded("runtime.copy") {
                    true => self.amount(&bytes.floor_div(&Expr::constant(2))),
                    false => self.amount(bytes),
                };
                self.emit(number, Instruction::Copy { source, destination, bytes });
            }
            Step::Move(moved) => {
                let source = self.pointer(&moved.source, &moved.source_bytes())?;
                let destination = self.written(&moved.destination, &moved.destination_bytes())?;
                let (element, mut axes) = (moved.element as usize, moved.axes.clone());
                if base::fault::is_seeded("runtime.move") {
                    axes.iter_mut().for_each(|axis| axis.from = axis.from.min(1));
                }
                self.move_beside(moved, before, &[&source, &destination]);
                self.emit(number, Instruction::Move { source, destination, element, axes });
            }
            Step::Branch { condition, then, otherwise } => {
                let leave = self.jump_unless(number, condition)?;
                self.block(then)?;
                if otherwise.is_empty() {
                    self.aim(leave);
                } else {
                    let end = self.emit(number, Instruction::Jump { target: 0 });
                    self.aim(leave);
                    self.block(otherwise)?;
                    self.aim(end);
                }
            }
            Step::While { setup, condition, body } => {
                let start = self.next();
                self.depth += 1;
                self.block(setup)?;
                let leave = self.jump_unless(number, condition)?;
                self.block(body)?;
                self.depth -= 1;
                self.emit(number, Instruction::Jump { target: start });
                self.aim(leave);
            }
            Step::Repeat { symbol, count, body } => {
                let (symbol, limit) = (*symbol, self.resolved.limits);
                self.resolved.limits += 1;
                let count = self.amount(count);
                let begin = Instruction::Begin { symbol, limit, count, end: 0 };
                let begin = self.emit(number, begin);
                self.loops.push(symbol);
                self.depth += 1;
                self.block(body)?;
                self.depth -= 1;
                self.loops.pop();
                self.emit(number, Instruction::Next { symbol, limit, body: begin + 1 });
                self.aim(begin);
            }
        }
        Ok(())
    }

    /// Notes whether a move, the next instruction, goes beside the one before.
    fn move_beside(&mut self, moved: &Move, before: Option<Reader>, pointers: &[&Pointer]) {
        let place = |address: &Address| &self.program.slots[address.slot].place;
        let (Place::Weight(weight), Place::Constants(_)) =
            (place(&moved.source), place(&moved.destination))
        else {
            return;
        };
        if pointers.iter().any(|pointer| pointer.computed.is_some()) {
            return;
        }
        let to = moved.destination.slot;
        let goes_on = |reader: &Reader| reader.weight == *weight && !reader.touched.contains(&to);
        let mut reader = match before.filter(goes_on) {
            Some(reader) => {
                let next = self.next();
                self.resolved.beside.push(next);
                reader
            }
            None => Reader { weight: *weight, touched: Vec::new() },
        };
        reader.touched.push(to);
        self.reader = Some(reader);
    }

    fn jump_unless(&mut self, number: usize, condition: &Address) -> base::Result<usize> {
        let condition = self.pointer(condition, &Expr::ONE)?;
        Ok(self.emit(number, Instruction::JumpUnless { condition, target: 0 }))
    }

    /// Makes the jump lead to the instruction that comes next.
    fn aim(&mut self, jump: usize) {
        let next = self.next();
        match &mut self.resolved.instructions[jump] {
            Instruction::Jump { target }
            | Instruction::JumpUnless { target, .. }
            | Instruction::Begin { end: target, .. } => *target = next,
            other => unreachable!("{other:?} is no jump"),
        }
    }

    fn run(&mut self, number: usize, run: &Run) -> base::Result<()> {
        let entry_point = self.code.entry(run.kernel);
        let entry_point =
            entry_point.ok_or_else(|| self.broken(format!("no code for {}", run.kernel)))?;
        let first = self.resolved.entries;
        let mut computed = Vec::new();
        for argument in &run.arguments {
            let pointer = if argument.writes {
                self.written(&argument.address, &argument.bytes)?
            } else {
                self.pointer(&argument.address, &argument.bytes)?
            };
            computed.extend(pointer.computed);
        }
        let mut weights = Vec::new();
        let mut touched = Vec::new();
        for argument in &run.arguments {
            match self.program.slots[argument.address.slot].place {
                Place::Weight(weight) => weights.push(weight),
                _ => touched.push(argument.address.slot),
            }
        }
        if let (&[weight], true) = (&weights[..], computed.is_empty()) {
            self.reader = Some(Reader { weight, touched });
        }
        let own = usize::try_from(self.code.scratch_bytes(run.kernel));
        let own = own.map_err(|_| self.broken("scratch memory beyond all memory"))?;
        let scratch = self.bytes(&run.scratch_bytes)?.max(own);
        self.resolved.scratch_bytes = self.resolved.scratch_bytes.max(scratch);
        let (extent, grain) = (self.amount(&run.extent), self.amount(&run.grain));
        self.resolved.is_parallel |= match (&extent, &grain) {
            (Amount::Known(extent), Amount::Known(grain)) => *extent / 2 >= *grain,
            _ => true,
        };
        let turning = self.turning(run);
        let kernel = run.kernel;
        let run = RunStep { kernel, entry_point, first, extent, grain, computed, turning };
        self.emit(number, Instruction::Run(run));
        Ok(())
    }

    /// The loop in whose turns a run reads the same weights or constants again, if they are many.
    fn turning(&self, run: &Run) -> Option<SymbolId> {
        let &symbol = self.loops.last()?;
        let mut same = 0;
        for argument in run.arguments.iter().filter(|argument| !argument.writes) {
            let place = &self.program.slots[argument.address.slot].place;
            let lasting = matches!(place, Place::Constants(_) | Place::Weight(_));
            if lasting
                && !argument.address.offset.contains(symbol)
                && let Amount::Known(bytes) = self.amount(&argument.bytes)
            {
                same += bytes;
            }
        }
        (same >= MANY_BYTES).then_some(symbol)
    }
}

/// The offset, if so many bytes from there on lie in a slot of this size.
pub(crate) fn offset_inside(offset: i64, bytes: i64, slot: usize) -> Option<usize> {
    let start = usize::try_from(offset).ok()?;
    let end = start.checked_add(usize::try_from(bytes).ok()?)?;
    (end <= slot).then_some(start)
}
