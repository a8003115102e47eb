//! One run of a program: memory is borrowed, given to it, and used.

use std::cmp::Reverse;
use std::marker::PhantomData;

use base::codes::{INTERNAL_ERROR, MISSING_INPUT, WRONG_SHAPE};
use base::{ConstantId, Diagnostic};

use crate::profile::Profile;
use crate::resolve::Owner;
use crate::run::{Companion, Donated, run, run_parts};
use crate::state::State;

/// One run of an executable: memory is given to it, then it runs.
#[derive(Debug)]
pub struct Call<'a> {
    state: &'a mut State,
    /// The memory given is borrowed as long as the call lives.
    memory: PhantomData<(&'a [u8], &'a mut [u8])>,
    /// Memory of inputs that goes back to the system.
    donated: Vec<Donated>,
}

impl State {
    /// Begins a run.
    pub fn call(&mut self) -> Call<'_> {
        self.given.fill(false);
        Call { state: self, memory: PhantomData, donated: Vec::new() }
    }
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

    /// Gives an input whose memory, in whole pages, goes back to the system once it has been read
    /// for the last time, if no loop reads it. Behind [`run`](Call::run) its bytes are anything.
    ///
    /// # Errors
    /// A diagnostic if there are too few bytes.
    pub fn donated(&mut self, number: usize, bytes: &'a mut [u8]) -> base::Result<()> {
        let owner = Owner::Input(u32::try_from(number).unwrap_or(u32::MAX));
        let (start, count) = (bytes.as_mut_ptr(), bytes.len());
        self.give(owner, start, count)?;
        let mut reads = self.state.executable.resolved.last_reads.iter();
        if let Some(&(last, _)) = reads.find(|(_, read)| *read == owner) {
            self.donated.push(Donated { last, start, bytes: count });
        }
        Ok(())
    }

    /// Gives the memory for an output. Any alignment is fine.
    ///
    /// # Errors
    /// A diagnostic if there are too few bytes.
    pub fn output(&mut self, number: usize, bytes: &'a mut [u8]) -> base::Result<()> {
        let owner = Owner::Output(u32::try_from(number).unwrap_or(u32::MAX));
        self.give(owner, bytes.as_mut_ptr(), bytes.len())
    }

    /// Gives the memory in which an input lies and an output comes to lie. The program's kernels
    /// have to allow for that: else the output holds anything.
    ///
    /// # Errors
    /// A diagnostic if there are too few bytes.
    pub fn shared(&mut self, input: usize, output: usize, bytes: &'a mut [u8]) -> base::Result<()> {
        let (start, count) = (bytes.as_mut_ptr(), bytes.len());
        let numbered = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        self.give(Owner::Input(numbered(input)), start, count)?;
        self.give(Owner::Output(numbered(output)), start, count)
    }

    /// Gives a weight of [`crate::LoadedProgram::weights`].
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
        let resolved = &self.state.executable.resolved;
        let Some(port) = resolved.port(owner) else { return Ok(()) };
        let needed = resolved.ports[port].1.bytes;
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
    pub fn run(mut self) -> base::Result<()> {
        self.check_complete()?;
        self.donated.sort_by_key(|memory| Reverse(memory.last));
        match self.donated.is_empty() {
            true => run(self.state, Companion::Nothing),
            false => run(self.state, Companion::GiveBack(self.donated)),
        }
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

    /// As [`run_releasing`](Call::run_releasing), for a program that fills the constants, of which
    /// no memory is given: they are handed over in order, in parts of about `most` bytes where the
    /// program fills them so. A part's memory is that of the next one.
    ///
    /// # Errors
    /// As [`run`](Call::run), and those of `hand_over`.
    pub fn run_in_parts(
        mut self,
        most: usize,
        release: &mut dyn FnMut(ConstantId),
        hand_over: &mut dyn FnMut(&[u8]) -> base::Result<()>,
    ) -> base::Result<()> {
        let parts = self.state.executable.resolved.constant_parts(most);
        self.give_later(Owner::Constants);
        self.check_complete()?;
        run_parts(self.state, &parts, release, hand_over)
    }

    /// Says that an owner's memory is given while the program runs.
    fn give_later(&mut self, owner: Owner) {
        if let Some(port) = self.state.executable.resolved.port(owner) {
            self.state.given[port] = true;
        }
    }

    fn check_complete(&self) -> base::Result<()> {
        let ports = &self.state.executable.resolved.ports;
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
