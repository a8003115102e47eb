//! Lifetimes of slots: from the first to the last step that touches them.
//!
//! Steps are numbered in order, blocks inside steps included. A slot that a loop touches lives
//! through the whole loop, because the next iteration may read what this one wrote.

use std::collections::BTreeMap;

use program::{Address, Move, Program, SlotId, Step};

/// An interval of step numbers, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// The first step that touches the slot, counted as `program::walk` counts, from 1.
    pub first: usize,
    /// The last.
    pub last: usize,
}

impl Lifetime {
    /// Whether a step is in both.
    pub(crate) fn meets(self, other: Lifetime) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// The lifetime of every slot that the program touches.
#[must_use]
pub fn lifetimes(program: &Program) -> BTreeMap<SlotId, Lifetime> {
    let mut walk = Walk { now: 0, lives: BTreeMap::new() };
    walk.block(&program.steps);
    walk.lives
}

struct Walk {
    now: usize,
    lives: BTreeMap<SlotId, Lifetime>,
}

impl Walk {
    fn touch(&mut self, address: &Address) {
        let now = self.now;
        let life = self.lives.entry(address.slot).or_insert(Lifetime { first: now, last: now });
        (life.first, life.last) = (life.first.min(now), life.last.max(now));
    }

    fn block(&mut self, steps: &[Step]) {
        for step in steps {
            self.step(step);
        }
    }

    fn step(&mut self, step: &Step) {
        self.now += 1;
        match step {
            Step::Run(run) => run.arguments.iter().for_each(|a| self.touch(&a.address)),
            Step::Barrier => {}
            Step::Bind { source, .. } => self.touch(source),
            Step::Copy { source, destination, .. }
            | Step::Move(Move { source, destination, .. }) => {
                self.touch(source);
                self.touch(destination);
            }
            Step::Branch { condition, then, otherwise } => {
                self.touch(condition);
                self.block(then);
                self.block(otherwise);
            }
            Step::While { setup, condition, body } => {
                let first = self.now;
                self.block(setup);
                self.touch(condition);
                self.block(body);
                self.touch(condition);
                self.stretch(first);
            }
            Step::Repeat { body, .. } => {
                let first = self.now;
                self.block(body);
                self.stretch(first);
            }
        }
    }

    /// Everything that was touched since step `first` lives from there until now.
    fn stretch(&mut self, first: usize) {
        for life in self.lives.values_mut().filter(|life| life.last >= first) {
            (life.first, life.last) = (life.first.min(first), self.now);
        }
    }
}
