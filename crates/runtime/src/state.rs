//! What one caller needs to run a program.
//!
//! Invariant: between calls the pointer table may hold pointers into memory that is gone. A
//! [`Call`](crate::Call) borrows all memory it is given and does not run before everything has been
//! given to it, and giving memory rewrites the entries that point there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use std::ops::Range;

use base::Id;
use sym::SymbolId;

use crate::executable::LoadedProgram;
use crate::memory::{ALIGNMENT, Block};
use crate::pool;
use crate::resolve::{Owner, Resolved};
use crate::settling::SettlingBlock;

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
    pub(crate) symbols: Vec<i64>,
    /// The counts of the `Repeat`s that are running.
    pub(crate) limits: Vec<i64>,
    /// One piece a thread.
    pub(crate) scratch: Block,
    /// Bytes from one thread's scratch memory to the next one's.
    pub(crate) scratch_stride: usize,
    /// Whether each port, in the order of the resolved, has been given memory in the present call.
    pub(crate) given: Vec<bool>,
    arena: SettlingBlock,
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
        let resolved = &executable.resolved;
        let threads = if resolved.is_parallel { pool::reserve(threads) } else { 1 };
        // Different threads' scratch memory does not share cache lines.
        let scratch_stride = resolved.scratch_bytes.next_multiple_of(2 * ALIGNMENT);
        let scratch = Block::zeroed(scratch_stride.saturating_mul(threads))?;
        let mut arena = Block::zeroed(executable.arena_bytes())?;
        arena.populate(arena_by_use(resolved));
        let mut state = State {
            threads,
            slots: vec![std::ptr::null_mut(); resolved.slots.len()],
            table: vec![std::ptr::null_mut(); resolved.entries],
            symbols: resolved.symbols.clone(),
            limits: vec![0; resolved.limits],
            scratch,
            scratch_stride,
            given: vec![false; resolved.ports.len()],
            arena: SettlingBlock::new(arena),
            executable,
        };
        if let Some(port) = state.executable.resolved.port(Owner::Arena) {
            state.give(port, state.arena.block().as_ptr());
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

    /// Points the slots of a port to its memory.
    pub(crate) fn give(&mut self, port: usize, memory: *mut u8) {
        let resolved = &self.executable.resolved;
        self.given[port] = true;
        for id in &resolved.ports[port].1.slots {
            let slot = &resolved.slots[*id];
            let start = memory.wrapping_add(slot.offset);
            self.slots[id.index()] = start;
            for (entry, offset) in &slot.entries {
                self.table[*entry] = start.wrapping_add(*offset);
            }
        }
    }
}

/// Where the slots of the arena lie, in the order in which steps name them first.
fn arena_by_use(resolved: &Resolved) -> Vec<Range<usize>> {
    let slots = resolved.port(Owner::Arena).map_or(&[][..], |port| &resolved.ports[port].1.slots);
    let slots = slots.iter().map(|&id| &resolved.slots[id]);
    let mut slots: Vec<_> = slots.filter(|slot| !slot.entries.is_empty()).collect();
    slots.sort_by_key(|slot| slot.entries[0].0);
    slots.iter().map(|slot| slot.offset..slot.offset + slot.bytes).collect()
}

/// A program with memory for callers, which is kept for the next ones.
#[derive(Debug)]
pub struct StatePool {
    executable: Arc<LoadedProgram>,
    /// Memory of callers that are not running.
    kept: Mutex<Vec<State>>,
}

impl StatePool {
    /// No memory yet.
    #[must_use]
    pub fn new(executable: LoadedProgram) -> StatePool {
        StatePool { executable: Arc::new(executable), kept: Mutex::default() }
    }

    /// The program.
    #[must_use]
    pub fn executable(&self) -> &Arc<LoadedProgram> {
        &self.executable
    }

    /// Makes memory for one caller ahead of the first one.
    ///
    /// # Errors
    /// Lack of memory.
    pub fn prepare(&self, threads: usize) -> base::Result<()> {
        self.with(threads, |_| Ok(()))
    }

    /// For how many callers there is memory.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// Bytes of the arenas that are kept.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.count() * self.executable.arena_bytes()
    }

    /// Moves the large arenas that are kept to huge pages now, rather than beside later runs.
    pub fn settle(&self) {
        self.lock().iter().for_each(|state| state.arena.settle());
    }

    /// Gives back what is kept.
    pub fn release(&self) {
        self.lock().clear();
    }

    /// Runs a piece of work with memory of its own; the memory is kept for the next caller.
    ///
    /// # Errors
    /// Those of the work, and lack of memory.
    pub fn with<T>(
        &self,
        threads: usize,
        work: impl FnOnce(&mut State) -> base::Result<T>,
    ) -> base::Result<T> {
        let kept = self.lock().pop();
        let mut state = match kept {
            Some(state) => state,
            None => State::new(self.executable.clone(), threads)?,
        };
        state.arena.count_run();
        let outcome = work(&mut state);
        self.lock().push(state);
        outcome
    }

    /// A poisoned lock only means that another caller panicked; what it guards is a list of spare
    /// memory.
    fn lock(&self) -> MutexGuard<'_, Vec<State>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
