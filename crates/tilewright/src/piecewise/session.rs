//! One run of all pieces, and how much work it may be: that depends on data, so it is counted.

use std::borrow::Cow;

use base::Result;
use base::limits::exceeded;
use tensor::Value;

use super::Common;
use super::values::entries;
use crate::executable::Executable;

/// Hears of each run of an executable of a part before it begins.
pub(crate) type Watch<'a> = dyn FnMut(&Executable, &[Value]) -> Result<()> + 'a;

/// Turns of a loop that take as long as to compile a part for new shapes.
const TURNS_OF_A_COMPILE: u64 = 64;

/// Values of sequences that are copied in the time of a turn, and that are looked at.
const COPIES_OF_A_TURN: u64 = 32;
const LOOKS_OF_A_TURN: u64 = 1024;

/// A run of a model and all its pieces.
pub(crate) struct Session<'a> {
    pub(super) watch: &'a mut Watch<'a>,
    /// Turns of all loops so far.
    turns: u64,
    /// Values of sequences so far that were copied, and looked at.
    copies: u64,
    looks: u64,
    /// How often parts had been compiled, and their loops had turned, before.
    before: Option<(u64, u64)>,
}

impl<'a> Session<'a> {
    pub(crate) fn new(watch: &'a mut Watch<'a>) -> Session<'a> {
        Session { watch, turns: 0, copies: 0, looks: 0, before: None }
    }

    /// Counts a turn of a loop that carries so many values of sequences; refuses more of them than
    /// the limit.
    pub(super) fn count_turn(&mut self, carried: u64, common: &Common) -> Result<()> {
        self.turns += 1;
        self.looks += carried;
        self.check(common)
    }

    /// A copy of a value; one of a sequence counts.
    pub(super) fn copy(&mut self, value: &Value, common: &Common) -> Result<Value> {
        if let copied @ 1.. = entries(value) {
            self.copies += copied;
            self.check(common)?;
        }
        Ok(value.clone())
    }

    /// The value, copied if it is borrowed.
    pub(super) fn own(&mut self, value: Cow<'_, Value>, common: &Common) -> Result<Value> {
        match value {
            Cow::Owned(value) => Ok(value),
            Cow::Borrowed(value) => self.copy(value, common),
        }
    }

    /// Refuses a run that takes longer than turns of loops, as many as the limit.
    pub(super) fn check(&mut self, common: &Common) -> Result<()> {
        let (compiled, turns) = (common.whole.compiled(), common.whole.turns());
        let (compiled_before, turns_before) = *self.before.get_or_insert((compiled, turns));
        let spent = self.turns
            + (turns - turns_before)
            + self.copies / COPIES_OF_A_TURN
            + self.looks / LOOKS_OF_A_TURN
            + (compiled - compiled_before) * TURNS_OF_A_COMPILE;
        let most = common.options.limits.iterations;
        if spent <= most {
            return Ok(());
        }
        let message = format!("what runs piece by piece takes {spent} turns or more");
        Err(exceeded("iterations", message)
            .because(format!(
                "{} are turns of loops; a compile for new shapes takes {TURNS_OF_A_COMPILE}, \
                 {COPIES_OF_A_TURN} values of sequences that are copied take one, and so do \
                 {LOOKS_OF_A_TURN} that a turn carries",
                self.turns
            ))
            .because(format!("at most {most} are accepted, as their number depends on data"))
            .into())
    }
}
