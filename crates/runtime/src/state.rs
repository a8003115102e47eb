//! What one caller needs to run an executable, and one run.
//!
//! Invariant: between calls the pointer table may hold pointers into memory that is gone. A
//! [`Call`] borrows all memory it is given and does not run before everything has been given to it,
//! and giving memory rewrites the entries that point there.

use std::marker::PhantomData;
use std::sync::Arc;

use base::codes::{INTERNAL_ERROR, MISSING_INPUT, WRONG_SHAPE};
use base::{ConstantId, Diagnostic, Id};
use sym::SymbolId;

use crate::executable::LoadedProgram;
use crate::memory::{ALIGNMENT, Block};
use crate::pool;
use crate::profile::Profile;
use crate::resolve::Owner;
use crate::run::{Companion, run};

/// An executable's memory for one caller: arena, scratch memory, pointers. Made once, used for any
/// number of runs, one at a time.
#[derive(Debug)]
pub struct State {
    pub(crate) executable: Arc<LoadedProgram>,
    /// Threads a run may use, the caller's included.
    pub(crate) threads: usize,
    /// Where each slot begins, by its id.
    pub(crate) slots: Vec<*mut u8>,
    /// The arguments of all runs, one behind the other.
    pub(crate) table: Vec<*mut u8>,
    /// Bytes behind the pointers of the table that are arguments of host functions.
    pub(crate) rooms: Vec<usize>,
    pub(crate) symbols: Vec<i64>,
    /// The counts of the `Repeat`s that are running.
    pub(crate) limits: Vec<i64>,
    /// One piece a thread.
    pub(crate) scratch: Block,
    /// Bytes from one thread's scratch memory to the next one's.
    pub(crate) scratch_stride: usize,
    /// Whether each port, in the order of the plan, has been given memory in the present call.
    given: Vec<bool>,
    arena: Block,
}

// SAFETY: the pointers lead into memory that the state owns or that the present call borrows.
unsafe impl Send for State {}
// SAFETY: nothing can be changed through a shared state.
unsafe impl Sync for State {}

impl State {
    /// Memory for one caller, whose runs use at most so many threads; starts them if need be.
    ///
    /// # Errors
    /// A diagnostic if there is not enough memory.
    pub fn new(executable: Arc<LoadedProgram>, threads: usize) -> base::Result<State> {
        let plan = &executable.plan;
        let threads = if plan.is_parallel { pool::reserve(threads) } else { 1 };
        // Different threads' scratch memory does not share cache lines.
        let scratch_stride = plan.scratch_bytes.next_multiple_of(2 * ALIGNMENT);
        let scratch = Block::zeroed(scratch_stride.saturating_mul(threads))?;
        let mut arena = Block::zeroed(executable.arena_bytes())?;
        if threads == 1 {
            arena.populate();
        }
        let mut rooms = vec![0; plan.entries];
        for (entry, room) in &plan.rooms {
            rooms[*entry] = *room;
        }
        let mut state = State {
            threads,
            slots: vec![std::ptr::null_mut(); plan.slots.len()],
            table: vec![std::ptr::null_mut(); plan.entries],
            rooms,
            symbols: plan.symbols.clone(),
            limits: vec![0; plan.limits],
            scratch,
            scratch_stride,
            given: vec![false; plan.ports.len()],
            arena,
            executable,
        };
        if let Some(port) = state.executable.plan.port(Owner::Arena) {
            state.give(port, state.arena.as_ptr());
        }
        Ok(state)
    }

    /// The executable that it runs.
    #[must_use]
    pub fn executable(&self) -> &Arc<LoadedProgram> {
        &self.executable
    }

    /// The value of a symbol after the last run, for sizes that were computed there.
    #[must_use]
    pub fn symbol(&self, symbol: SymbolId) -> Option<i64> {
        self.symbols.get(symbol.index()).copied()
    }

    /// The most threads that a run uses.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Begins a run.
    pub fn call(&mut self) -> Call<'_> {
        self.given.fill(false);
        Call { state: self, memory: PhantomData }
    }

    /// Points the slots of a port to its memory.
    fn give(&mut self, port: usize, memory: *mut u8) {
        let plan = &self.executable.plan;
        self.given[port] = true;
        for id in &plan.ports[port].1.slots {
            let slot = &plan.slots[*id];
            let start = memory.wrapping_add(slot.offset);
            self.slots[id.index()] = start;
            for (entry, offset) in &slot.entries {
                self.table[*entry] = start.wrapping_add(*offset);
            }
        }
    }
}

/// One run of an executable: memory is given to it, then it runs.
#[derive(Debug)]
pub struct Call<'a> {
    state: &'a mut State,
    /// The memory given is borrowed as long as the call lives.
    memory: PhantomData<(&'a [u8], &'a mut [u8])>,
}

impl<'a> Call<'a> {
    /// Gives an input. Any alignment is fine, and so are inputs that the program does not read.
    ///
    /// # Errors
    /// A diagnostic if there are too few bytes.
    pub fn input(&mut self, number: usize, bytes: &'a [u8]) -> base::Result<()> {
        let owner = Owner::Input(u32::try_from(number).unwrap_or(u32::MAX));
        self.give(owner, bytes.as_ptr().cast_mut(), bytes.len())
    }

    /// Gives the memory for an output. Any alignment is fine.
    ///
    /// # Errors
    /// A diagnostic if there are too few bytes.
    pub fn output(&mut self, number: usize, bytes: &'a mut [u8]) -> base::Result<()> {
        let owner = Owner::Output(u32::try_from(number).unwrap_or(u32::MAX));
        self.give(owner, bytes.as_mut_ptr(), bytes.len())
    }

    /// Gives a weight of [`LoadedProgram::weights`].
    ///
    /// # Errors
    /// A diagnostic if there are too few bytes.
    pub fn weight(&mut self, constant: ConstantId, bytes: &'a [u8]) -> base::Result<()> {
        self.give(Owner::Weight(constant), bytes.as_ptr().cast_mut(), bytes.len())
    }

    /// Gives the constants to read.
    ///
    /// # Errors
    /// A diagnostic if there are too few bytes, or if the program fills the constants.
    pub fn constants(&mut self, bytes: &'a [u8]) -> base::Result<()> {
        if self.state.executable.fills_constants() {
            let message = "this program fills the constants; it needs them to write";
            return Err(Diagnostic::error(INTERNAL_ERROR, message).into());
        }
        self.give(Owner::Constants, bytes.as_ptr().cast_mut(), bytes.len())
    }

    /// Gives the memory of the constants to a program that fills it.
    ///
    /// # Errors
    /// A diagnostic if there are too few bytes.
    pub fn constants_to_fill(&mut self, bytes: &'a mut [u8]) -> base::Result<()> {
        self.give(Owner::Constants, bytes.as_mut_ptr(), bytes.len())
    }

    fn give(&mut self, owner: Owner, memory: *mut u8, bytes: usize) -> base::Result<()> {
        let plan = &self.state.executable.plan;
        let Some(port) = plan.port(owner) else { return Ok(()) };
        let needed = plan.ports[port].1.bytes;
        if bytes < needed {
            let message = format!("{} has {bytes} bytes instead of {needed}", owner.name());
            return Err(Diagnostic::error(WRONG_SHAPE, message).into());
        }
        self.state.give(port, memory);
        Ok(())
    }

    /// Runs the program.
    ///
    /// # Errors
    /// A diagnostic if memory was not given, or if a kernel or a step found data out of range.
    /// Outputs then hold anything.
    pub fn run(self) -> base::Result<()> {
        self.check_complete()?;
        run(self.state, Companion::Nothing)
    }

    /// Runs the program and adds each step's time to the profile.
    ///
    /// # Errors
    /// As [`run`](Call::run).
    pub fn run_profiled(self, profile: &mut Profile<'_>) -> base::Result<()> {
        self.check_complete()?;
        run(self.state, Companion::Profile(profile))
    }

    /// Runs the program and says of each weight when it will not be read again, so that its memory
    /// can be given back early. It is advice: it may be said of a weight several times while the
    /// last step that reads it runs, and in loops before other turns read it again.
    ///
    /// # Errors
    /// As [`run`](Call::run).
    pub fn run_releasing(self, release: &mut dyn FnMut(ConstantId)) -> base::Result<()> {
        self.check_complete()?;
        run(self.state, Companion::Release(release))
    }

    fn check_complete(&self) -> base::Result<()> {
        let ports = &self.state.executable.plan.ports;
        for ((owner, _), given) in ports.iter().zip(&self.state.given) {
            if !given && *owner != Owner::Arena {
                let message = format!("{} was not given", owner.name());
                return Err(Diagnostic::error(MISSING_INPUT, message).into());
            }
        }
        Ok(())
    }
}

impl Owner {
    fn name(self) -> String {
        match self {
            Owner::Arena => "the arena".to_owned(),
            Owner::Constants => "the block of constants".to_owned(),
            Owner::Input(number) => format!("input {number}"),
            Owner::Output(number) => format!("output {number}"),
            Owner::Weight(constant) => format!("weight {constant}"),
        }
    }
}
