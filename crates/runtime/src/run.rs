//! Runs the instructions of an executable on a state.
//!
//! Relies on `resolve` for checked constant addresses and on `state` for live pointers; checks here
//! what depends on symbols that steps set.

use std::sync::atomic::{AtomicU64, Ordering};

use base::codes::{INTERNAL_ERROR, SYMBOL_OUT_OF_RANGE};
use base::limits::{exceeded, more_than};
use base::{ConstantId, Diagnostic, Id};
use sym::SymbolId;

use crate::abi::{Context, fault_diagnostic};
use crate::executable::LoadedProgram;
use crate::memory::give_back;
use crate::movement::move_elements;
use crate::parts::{Part, memory_for};
use crate::pool::{self, Session};
use crate::profile::Profile;
use crate::resolve::{Amount, Computed, Instruction, Owner, Pointer, RunStep, offset_inside};
use crate::state::State;

/// What goes along with a run.
pub(crate) enum Companion<'a, 'c> {
    Nothing,
    /// Takes the time of each instruction.
    Profile(&'a mut Profile<'c>),
    /// Is told the weights that will not be read again.
    Release(&'a mut dyn FnMut(ConstantId)),
    /// Gives memory of inputs back to the system, the first to be given back last.
    GiveBack(Vec<Donated>),
}

/// Memory of an input that nobody reads behind the run.
#[derive(Debug)]
pub(crate) struct Donated {
    /// The last instruction that reads it.
    pub(crate) last: usize,
    pub(crate) start: *mut u8,
    pub(crate) bytes: usize,
}

/// Where weights are released, larger ones are released piece by piece by each instruction that
/// reads them, the others behind the last: no more than about so many bytes of them are in use at
/// once.
const RELEASED_BYTES: usize = 32 << 20;

/// Instructions that read one weight do so in pieces of about so many bytes, which the cache keeps
/// from one to the next.
const SHARED_BYTES: usize = 1 << 20;

/// Runs the whole program. Everything that it addresses has been given to the state.
pub(crate) fn run(state: &mut State, mut companion: Companion<'_, '_>) -> base::Result<()> {
    let executable = state.executable.clone();
    let mut machine = Machine::new(&executable, state);
    if let Companion::Profile(profile) = &mut companion {
        profile.start();
    }
    let mut next = 0;
    while let Some(instruction) = executable.resolved.instructions.get(next) {
        let number = next;
        match &mut companion {
            Companion::Nothing => next = machine.instruction(instruction, number)?,
            Companion::Profile(profile) => {
                next = machine.instruction(instruction, number)?;
                profile.end_of(number);
            }
            Companion::Release(release) => {
                next = machine.releasing(instruction, number, *release)?;
            }
            Companion::GiveBack(donated) => {
                next = machine.instruction(instruction, number)?;
                while let Some(memory) = donated.pop_if(|memory| memory.last <= number) {
                    // SAFETY: the call borrows these bytes exclusively, and no instruction from
                    // here on reads them.
                    unsafe { give_back(memory.start, memory.bytes) };
                }
            }
        }
    }
    Ok(())
}

/// Runs a program that fills the constants part by part: it hands each part over when it is whole.
/// Everything else that it addresses has been given to the state.
pub(crate) fn run_parts(
    state: &mut State,
    parts: &[Part],
    release: &mut dyn FnMut(ConstantId),
    hand_over: &mut dyn FnMut(&[u8]) -> base::Result<()>,
) -> base::Result<()> {
    let executable = state.executable.clone();
    let resolved = &executable.resolved;
    let mut memory = memory_for(parts)?;
    let mut machine = Machine::new(&executable, state);
    for (number, part) in parts.iter().enumerate() {
        let bytes = part.bytes.len();
        if number > 0 {
            memory.bytes_mut()[..bytes].fill(0);
        }
        if let Some(port) = resolved.port(Owner::Constants) {
            // Where the block would begin; of its slots those of the part are used alone.
            let block = memory.as_ptr().wrapping_sub(part.bytes.start);
            machine.state.give(port, block);
        }
        let mut next = part.instructions.start;
        while next < part.instructions.end {
            next = machine.releasing(&resolved.instructions[next], next, release)?;
        }
        hand_over(&memory.bytes()[..bytes])?;
    }
    Ok(())
}

struct Machine<'a> {
    executable: &'a LoadedProgram,
    state: &'a mut State,
    /// The pool, if it was free.
    session: Option<Session>,
    /// How often loops have turned.
    turns: u64,
}

/// Larger than any fault.
const NO_FAULT: u64 = u64::MAX;

/// Pointers that the threads of a parallel step share.
struct Arguments {
    buffers: *const *mut u8,
    symbols: *mut i64,
    scratch: *mut u8,
    scratch_stride: usize,
}

// SAFETY: kernels may be run on any thread, for different parts of their extent at the same time.
unsafe impl Sync for Arguments {}

impl Arguments {
    fn context(&self, thread: usize) -> Context {
        let scratch = self.scratch.wrapping_add(thread * self.scratch_stride);
        Context { buffers: self.buffers, symbols: self.symbols, scratch }
    }
}

impl<'a> Machine<'a> {
    /// At the beginning of a run.
    fn new(executable: &'a LoadedProgram, state: &'a mut State) -> Machine<'a> {
        let session = if state.threads > 1 { pool::session(state.threads) } else { None };
        state.symbols.copy_from_slice(&executable.resolved.symbols);
        Machine { executable, state, session, turns: 0 }
    }

    /// Runs one instruction, and the moves beside it, and releases the weights that these are the
    /// last to read, and large ones.
    fn releasing(
        &mut self,
        instruction: &Instruction,
        number: usize,
        release: &mut dyn FnMut(ConstantId),
    ) -> base::Result<usize> {
        let resolved = &self.executable.resolved;
        let bytes_of = |weight: ConstantId| resolved.port_bytes(Owner::Weight(weight));
        let start = resolved.weight_reads.partition_point(|(reader, _)| *reader < number);
        let reads = |end: usize| {
            let reads = resolved.weight_reads[start..].iter().take_while(move |(by, _)| *by < end);
            reads.map(|(_, weight)| *weight)
        };
        let most = reads(number + 1).map(bytes_of).max().unwrap_or(0);
        let mut end = number + 1;
        while most > SHARED_BYTES && resolved.beside.binary_search(&end).is_ok() {
            end += 1;
        }
        let mut read: Vec<ConstantId> = reads(end).collect();
        read.dedup();
        read.retain(|&weight| {
            let last = |by| resolved.last_reads.binary_search(&(by, Owner::Weight(weight))).is_ok();
            (number..end).any(last) || bytes_of(weight) > RELEASED_BYTES
        });
        let bytes: usize = read.iter().map(|&weight| bytes_of(weight)).sum();
        let releases = match instruction {
            Instruction::Run(run) => {
                ((bytes / RELEASED_BYTES + 1) as i64).min(self.prepare(run)?.max(1))
            }
            _ => 1,
        };
        let several = end > number + 1;
        let pieces = if several { releases * (most / SHARED_BYTES) as i64 } else { releases };
        if pieces == 1 && !several {
            end = self.instruction(instruction, number)?;
        } else {
            for piece in 0..pieces {
                for instruction in &resolved.instructions[number..end] {
                    self.piece(instruction, (piece, pieces))?;
                }
                if releases > 1 && (piece + 1) % (pieces / releases) == 0 {
                    read.iter().for_each(|&weight| release(weight));
                }
            }
        }
        read.into_iter().for_each(release);
        Ok(end)
    }

    /// Runs one of so many pieces of an instruction: what is outermost is cut.
    fn piece(
        &mut self,
        instruction: &Instruction,
        (piece, pieces): (i64, i64),
    ) -> base::Result<()> {
        let part = |extent: i64| [piece, piece + 1].map(|at| extent * at / pieces);
        match instruction {
            Instruction::Run(run) => {
                let [from, to] = part(self.prepare(run)?);
                self.part(run, from, to)
            }
            Instruction::Move { source, destination, element, axes } => {
                let (mut from, mut to) = (self.pointer(source)?, self.pointer(destination)?);
                let mut axes = axes.clone();
                if let Some(axis) = axes.first_mut() {
                    let [first, end] = part(axis.extent.into());
                    axis.extent = (end - first) as u32;
                    from = from.wrapping_add(first as usize * axis.from as usize * element);
                    to = to.wrapping_add(first as usize * axis.to as usize * element);
                } else if piece > 0 {
                    return Ok(());
                }
                if axes.iter().all(|axis| axis.extent > 0) {
                    // SAFETY: these are some of the elements of a move that have all been checked
                    // to lie in the slots, which are apart.
                    unsafe { move_elements(from, to, *element, &axes) };
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Runs one instruction; the number of the one that comes next.
    fn instruction(&mut self, instruction: &Instruction, number: usize) -> base::Result<usize> {
        match instruction {
            Instruction::Run(run) => {
                let extent = self.prepare(run)?;
                self.part(run, 0, extent)?;
            }
            Instruction::Copy { source, destination, bytes } => {
                let (from, to) = (self.pointer(source)?, self.pointer(destination)?);
                let bytes = self.amount(bytes)? as usize;
                // SAFETY: both ranges have been checked to lie in their slots. `copy` allows that
                // slots overlap.
                unsafe { std::ptr::copy(from, to, bytes) };
            }
            Instruction::Move { source, destination, element, axes } => {
                let (from, to) = (self.pointer(source)?, self.pointer(destination)?);
                // SAFETY: all from the first element to behind the last has been checked to lie in
                // the slots, which are apart.
                unsafe { move_elements(from, to, *element, axes) };
            }
            Instruction::Bind { symbol, source, range } => {
                let source = self.pointer(source)?;
                // SAFETY: the eight bytes have been checked to lie in the slot.
                let value = unsafe { source.cast::<i64>().read_unaligned() };
                if !range.contains(value) {
                    let message = format!("a size computed while running is {value}");
                    return Err(Diagnostic::error(SYMBOL_OUT_OF_RANGE, message)
                        .because(format!("the program was compiled for {range}"))
                        .remedy("check the inputs that sizes are computed from")
                        .into());
                }
                self.state.symbols[symbol.index()] = value;
            }
            Instruction::Jump { target } => {
                // Only a loop leads back.
                if *target <= number {
                    self.count_turn()?;
                }
                return Ok(*target);
            }
            Instruction::JumpUnless { condition, target } => {
                let condition = self.pointer(condition)?;
                // SAFETY: the byte has been checked to lie in the slot.
                if unsafe { condition.read() } == 0 {
                    return Ok(*target);
                }
            }
            Instruction::Begin { symbol, limit, count, end } => {
                let count = self.amount(count)?;
                self.state.symbols[symbol.index()] = 0;
                self.state.limits[*limit] = count;
                if count <= 0 {
                    return Ok(*end);
                }
                self.count_turn()?;
            }
            Instruction::Next { symbol, limit, body } => {
                let value = &mut self.state.symbols[symbol.index()];
                *value += 1;
                if *value < self.state.limits[*limit] {
                    self.count_turn()?;
                    return Ok(*body);
                }
            }
        }
        Ok(number + 1)
    }

    fn count_turn(&mut self) -> base::Result<()> {
        self.turns += 1;
        let most = self.executable.most_turns;
        if self.turns <= most {
            return Ok(());
        }
        Err(exceeded("turns", more_than(most), format!("loops have turned {most} times"))
            .at("a run of the model")
            .because("how often they turn depends on data, or on loops inside of loops")
            .into())
    }

    /// Computes the addresses of a kernel's arguments; its extent.
    fn prepare(&mut self, run: &RunStep) -> base::Result<i64> {
        run.computed.iter().try_for_each(|one| self.compute(one).map(|_| ()))?;
        self.amount(&run.extent)
    }

    /// Runs iterations `from..to` of a kernel.
    fn part(&mut self, run: &RunStep, from: i64, to: i64) -> base::Result<()> {
        if from >= to {
            return Ok(());
        }
        let arguments = Arguments {
            buffers: self.state.table[run.first..].as_ptr(),
            symbols: self.state.symbols.as_mut_ptr(),
            scratch: self.state.scratch.as_ptr(),
            scratch_stride: self.state.scratch_stride,
        };
        let entry = run.entry_point;
        let code = match &mut self.session {
            None => {
                let context = arguments.context(0);
                // SAFETY: by the contract of `LoadedProgram::new` the kernel touches only its
                // arguments, which have been checked to lie in live slots, and its scratch memory.
                let part = |from, to| unsafe { entry(&context, from, to) };
                match self.turns_back(run) {
                    // The last fault in this order is the one of the first part that has one.
                    true => (from..to).rev().fold(0, |fault, at| match part(at, at + 1) {
                        0 => fault,
                        found => found,
                    }),
                    false => part(from, to),
                }
            }
            Some(session) => {
                let grain = match &run.grain {
                    Amount::Known(grain) => *grain,
                    Amount::Computed(_) => 1,
                };
                // The fault of the first part that has one, as one thread alone would find it.
                let fault = AtomicU64::new(NO_FAULT);
                session.parallel(to - from, grain, &|thread, first, last| {
                    let (first, last) = (from + first, from + last);
                    let context = arguments.context(thread);
                    // SAFETY: as above; threads have different scratch memory.
                    let code = unsafe { entry(&context, first, last) };
                    if code != 0 {
                        let part = u64::from(u32::try_from(first).unwrap_or(u32::MAX));
                        let code = u64::from(code.cast_unsigned());
                        fault.fetch_min(part << 32 | code, Ordering::Relaxed);
                    }
                });
                match fault.into_inner() {
                    NO_FAULT => 0,
                    found => (found as u32).cast_signed(),
                }
            }
        };
        if code == 0 {
            return Ok(());
        }
        let name = self.executable.code.name(run.kernel).unwrap_or("");
        Err(fault_diagnostic(name, code).into())
    }

    /// Whether a run begins with its last iteration.
    fn turns_back(&self, run: &RunStep) -> bool {
        let turn = run.turning.map_or(0, |symbol| self.state.symbols[symbol.index()]);
        turn % 2 == 1
    }

    fn value(&self, symbol: SymbolId) -> Option<i64> {
        self.state.symbols.get(symbol.index()).copied()
    }

    fn amount(&self, amount: &Amount) -> base::Result<i64> {
        match amount {
            Amount::Known(value) => Ok(*value),
            Amount::Computed(expr) => {
                let value = expr.evaluate(&|symbol| self.value(symbol));
                value.ok_or_else(|| {
                    let message = format!("the size {expr:?} cannot be computed");
                    Diagnostic::error(INTERNAL_ERROR, message).into()
                })
            }
        }
    }

    /// The pointer of a table entry, computed if need be.
    fn pointer(&mut self, pointer: &Pointer) -> base::Result<*mut u8> {
        match &pointer.computed {
            None => Ok(self.state.table[pointer.entry]),
            Some(computed) => self.compute(computed),
        }
    }

    /// Computes a table entry and checks that the memory lies in its slot.
    fn compute(&mut self, computed: &Computed) -> base::Result<*mut u8> {
        let (offset, bytes) = (self.amount(&computed.offset)?, self.amount(&computed.bytes)?);
        let slot = self.executable.resolved.slots[computed.slot].bytes;
        let start = offset_inside(offset, bytes, slot).ok_or_else(|| {
            let message = format!("{bytes} bytes at {offset} leave a slot of {slot} bytes");
            Diagnostic::error(INTERNAL_ERROR, message)
                .because("a size computed while running is larger than was planned")
        })?;
        let pointer = self.state.slots[computed.slot.index()].wrapping_add(start);
        self.state.table[computed.entry] = pointer;
        Ok(pointer)
    }
}
