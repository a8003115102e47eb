//! A program ready to run.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use base::{ConstantId, Limits};
use program::Program;
use sym::SymbolId;

use crate::code::Code;
use crate::resolve::{Owner, Resolved, resolve};

/// A program, its kernels in executable memory, its expressions evaluated.
///
/// Any number of threads may run it at the same time, each with a [`State`](crate::State).
pub struct LoadedProgram {
    pub(crate) code: Arc<Code>,
    pub(crate) resolved: Resolved,
    /// How often the loops of one run may turn.
    pub(crate) most_turns: u64,
    inputs: Vec<usize>,
    outputs: Vec<usize>,
    weights: Vec<ConstantId>,
}

impl LoadedProgram {
    /// Makes a program runnable. `values` are those of the symbols that no step sets.
    ///
    /// # Errors
    /// A diagnostic if a symbol has no value or one outside of its range, or if the program is not
    /// what its verifier accepts.
    ///
    /// # Safety
    /// The kernels in `code` that the program runs must follow the ABI of [`crate::abi`], and, run
    /// for any part of their extent, touch no memory but their scratch memory, of the size said
    /// there and in the program, and their arguments, `bytes` from the address on; they must write
    /// only arguments with `writes`. Parts of the extent must be independent.
    pub unsafe fn new(
        program: &Program,
        code: Arc<Code>,
        values: &BTreeMap<SymbolId, i64>,
    ) -> base::Result<LoadedProgram> {
        let resolved = resolve(program, &code, values)?;
        let (mut inputs, mut outputs, mut weights) = (Vec::new(), Vec::new(), Vec::new());
        for (owner, port) in &resolved.ports {
            let (list, number) = match owner {
                Owner::Input(number) => (&mut inputs, *number as usize),
                Owner::Output(number) => (&mut outputs, *number as usize),
                Owner::Weight(constant) => {
                    weights.push(*constant);
                    continue;
                }
                Owner::Arena | Owner::Constants => continue,
            };
            // Owners come sorted; an input that no slot names has no bytes.
            list.resize(number, 0);
            list.push(port.bytes);
        }
        let most_turns = Limits::default().turns;
        Ok(LoadedProgram { code, resolved, most_turns, inputs, outputs, weights })
    }

    /// The executable with another limit of how often all loops of one run turn together; a run
    /// that exceeds it ends with a diagnostic.
    #[must_use]
    pub fn with_most_turns(self, most_turns: u64) -> LoadedProgram {
        LoadedProgram { most_turns, ..self }
    }

    /// The least size of each input, in bytes. An input that nothing reads has 0.
    #[must_use]
    pub fn input_bytes(&self) -> &[usize] {
        &self.inputs
    }

    /// The least size of each output, in bytes.
    #[must_use]
    pub fn output_bytes(&self) -> &[usize] {
        &self.outputs
    }

    /// The weights that it reads where they are, sorted.
    #[must_use]
    pub fn weights(&self) -> &[ConstantId] {
        &self.weights
    }

    /// The least size of the block of constants, in bytes.
    #[must_use]
    pub fn constant_bytes(&self) -> usize {
        self.resolved.port_bytes(Owner::Constants)
    }

    /// Whether it fills the block of constants, as `setup` does, or only reads it.
    #[must_use]
    pub fn fills_constants(&self) -> bool {
        self.resolved.fills_constants
    }

    /// The size of the arena that each state has, in bytes.
    #[must_use]
    pub fn arena_bytes(&self) -> usize {
        self.resolved.port_bytes(Owner::Arena)
    }

    /// Scratch memory for each thread of a state, in bytes.
    #[must_use]
    pub fn scratch_bytes(&self) -> usize {
        self.resolved.scratch_bytes
    }

    /// The kernels.
    #[must_use]
    pub fn code(&self) -> &Arc<Code> {
        &self.code
    }
}

impl fmt::Debug for LoadedProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadedProgram")
            .field("instructions", &self.resolved.instructions.len())
            .field("inputs", &self.inputs)
            .field("outputs", &self.outputs)
            .field("arena_bytes", &self.arena_bytes())
            .finish_non_exhaustive()
    }
}
