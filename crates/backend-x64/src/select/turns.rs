//! The turns of loops that are being written out, one after the other.

/// Where writing has come to. A moment is a number that grows with each turn.
#[derive(Default)]
pub(super) struct Turns {
    now: u32,
    /// The loops around, outermost first.
    around: Vec<Around>,
}

struct Around {
    /// The moment before its first turn.
    began: u32,
    /// The moment of its turn.
    turn: u32,
}

impl Turns {
    /// The moment that it is.
    pub(super) fn now(&self) -> u32 {
        self.now
    }

    /// A loop begins, inside of those that have.
    pub(super) fn begin(&mut self) {
        self.around.push(Around { began: self.now, turn: self.now });
    }

    /// The innermost loop begins a turn.
    pub(super) fn turn(&mut self) {
        self.now += 1;
        if let Some(inner) = self.around.last_mut() {
            inner.turn = self.now;
        }
    }

    /// The innermost loop is written.
    pub(super) fn end(&mut self) {
        self.around.pop();
    }

    /// The loop around, by the moment that it began, of which an earlier turn held a moment.
    pub(super) fn shared_since(&self, moment: u32) -> Option<u32> {
        let holds = |around: &&Around| around.began < moment && moment < around.turn;
        self.around.iter().rev().find(holds).map(|around| around.began)
    }

    /// Whether the loop that began at a moment is written.
    pub(super) fn is_over(&self, began: u32) -> bool {
        !self.around.iter().any(|around| around.began == began)
    }
}
