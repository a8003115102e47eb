//! Where the time of runs goes, step by step.

use base::KernelId;

use crate::executable::LoadedProgram;
use crate::resolve::Instruction;

/// Times of the steps of one executable, added up over any number of runs.
pub struct Profile<'c> {
    clock: &'c dyn Fn() -> u64,
    rows: Vec<ProfileRow>,
    /// The row of each instruction.
    row_of: Vec<usize>,
    last: u64,
    /// Each step that has been run, where that is asked for.
    events: Option<Vec<ProfileEvent>>,
}

/// One step of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileEvent {
    /// Its row.
    pub row: usize,
    /// When it began, in nanoseconds of the clock.
    pub begin: u64,
    /// When it ended.
    pub end: u64,
}

/// What was spent in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileRow {
    /// The step's number, counted as `program::walk` counts, from 0.
    pub step: usize,
    /// The kernel it runs, if it is a run.
    pub kernel: Option<KernelId>,
    /// How often it was run.
    pub runs: u64,
    /// Nanoseconds in all of these.
    pub nanoseconds: u64,
}

impl<'c> Profile<'c> {
    /// An empty profile. The clock returns nanoseconds since any fixed moment.
    pub fn new(executable: &LoadedProgram, clock: &'c dyn Fn() -> u64) -> Profile<'c> {
        let resolved = &executable.resolved;
        let mut rows: Vec<ProfileRow> = Vec::new();
        for (instruction, step) in resolved.instructions.iter().zip(&resolved.steps) {
            let kernel = match instruction {
                Instruction::Run(run) => Some(run.kernel),
                _ => None,
            };
            rows.push(ProfileRow { step: *step, kernel, runs: 0, nanoseconds: 0 });
        }
        rows.sort_by_key(|row| row.step);
        rows.dedup_by_key(|row| row.step);
        let row = |step: &usize| rows.partition_point(|row| row.step < *step);
        let row_of = resolved.steps.iter().map(row).collect();
        Profile { clock, rows, row_of, last: 0, events: None }
    }

    /// The same, which keeps each step of each run, too.
    #[must_use]
    pub fn with_events(self) -> Profile<'c> {
        Profile { events: Some(Vec::new()), ..self }
    }

    /// The steps that have been run, in their order, where they are kept.
    #[must_use]
    pub fn events(&self) -> &[ProfileEvent] {
        self.events.as_deref().unwrap_or_default()
    }

    /// A row for each step that takes time, in the order of the text.
    #[must_use]
    pub fn rows(&self) -> &[ProfileRow] {
        &self.rows
    }

    /// A run begins.
    pub(crate) fn start(&mut self) {
        self.last = (self.clock)();
    }

    /// The instruction of this number has been run.
    pub(crate) fn end_of(&mut self, instruction: usize) {
        let now = (self.clock)();
        let number = self.row_of[instruction];
        if let Some(events) = &mut self.events {
            events.push(ProfileEvent { row: number, begin: self.last, end: now });
        }
        let row = &mut self.rows[number];
        row.runs += 1;
        row.nanoseconds += now.saturating_sub(self.last);
        self.last = now;
    }
}

impl std::fmt::Debug for Profile<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Profile").field("rows", &self.rows).finish_non_exhaustive()
    }
}
