//! The memory plan's checker, independent of what places slots and barriers: it knows nothing but
//! the program and what its kernels stand.
//!
//! Steps between two barriers run at the same time; a block's beginning and end are barriers. A
//! byte of the arena belongs to the slot that a step last wrote it through; the checker replays the
//! program over intervals of bytes and their owners and finds every read of a byte that another
//! slot has taken since. Loops are replayed twice, which is enough: what the second turn sees,
//! every later one does. Within one period between barriers nothing may write what another step
//! touches, and within one step what a kernel writes may be what it reads only where
//! `loops::may_share` allows it. Sizes, bounds and reads before any write are `program::verify`'s.

use std::collections::BTreeMap;

use base::{Arena, Diagnostic, Diagnostics, KernelId, codes};
use loops::{Kernel, may_share};
use program::{Address, Argument, Place, Program, Run, SlotId, Step};
use sym::Expr;

use crate::place::TurnOrder;
use crate::turns::reads_before_writes;

/// Checks the memory plan of a program.
///
/// # Errors
/// A diagnostic for each step that reads memory which another slot has taken, and for each pair of
/// steps that must not run at the same time, and for each kernel whose arguments overlap though it
/// needs them apart.
pub fn check(
    program: &Program,
    kernels: &Arena<KernelId, Kernel>,
    turns: TurnOrder,
) -> base::Result<()> {
    program::verify(program)?;
    let mut replay = Replay {
        program,
        kernels,
        turns,
        owners: BTreeMap::new(),
        period: Vec::new(),
        found: Diagnostics::new(),
    };
    replay.block(&program.steps);
    replay.found.or_ok(())
}

struct Replay<'a> {
    program: &'a Program,
    kernels: &'a Arena<KernelId, Kernel>,
    turns: TurnOrder,
    /// Disjoint intervals of the arena, start to (end, owner).
    owners: BTreeMap<i64, (i64, SlotId)>,
    /// What the steps since the last barrier touch: start, end, whether written.
    period: Vec<(i64, i64, bool)>,
    found: Diagnostics,
}

impl Replay<'_> {
    fn block(&mut self, steps: &[Step]) {
        self.period.clear();
        for step in steps {
            self.step(step);
        }
        self.period.clear();
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Run(run) => {
                self.arguments(run);
                let touched = run.arguments.iter().map(|argument| {
                    (&argument.address, &argument.bytes, argument.reads, argument.writes)
                });
                self.touch(touched.collect());
                self.between_rows(run);
            }
            Step::Barrier => self.period.clear(),
            Step::Bind { source, .. } => self.touch(vec![(source, &Expr::ONE, true, false)]),
            Step::Copy { source, destination, bytes } => {
                self.touch(vec![(source, bytes, true, false), (destination, bytes, false, true)]);
            }
            Step::Move(moved) => {
                let (read, written) = (moved.source_bytes(), moved.destination_bytes());
                self.touch(vec![
                    (&moved.source, &read, true, false),
                    (&moved.destination, &written, false, true),
                ]);
            }
            Step::Branch { condition, then, otherwise } => {
                self.touch(vec![(condition, &Expr::ONE, true, false)]);
                let before = self.owners.clone();
                self.block(then);
                let after = std::mem::replace(&mut self.owners, before);
                self.block(otherwise);
                self.forget_differences(&after);
            }
            Step::While { setup, condition, body } => {
                for _ in 0..2 {
                    self.block(setup);
                    self.touch(vec![(condition, &Expr::ONE, true, false)]);
                    self.block(body);
                }
                self.block(setup);
            }
            Step::Repeat { body, .. } => {
                for _ in 0..2 {
                    self.block(body);
                }
            }
        }
    }

    /// Who writes to a view of a slot has the bytes between its rows, and those behind the last up
    /// to where the next would be: others that read several such views as one pass over them.
    fn between_rows(&mut self, run: &Run) {
        let Some(kernel) = self.kernels.get(run.kernel) else { return };
        for (argument, &id) in run.arguments.iter().zip(&kernel.parameters) {
            let Some(buffer) = kernel.buffers.get(id) else { continue };
            let Some(strides) = buffer.strides.as_ref().filter(|_| argument.writes) else {
                continue;
            };
            let number = |expr: &Expr| expr.as_constant().unwrap_or(0);
            let rows =
                buffer.shape.iter().zip(strides).map(|(count, by)| number(count) * number(by));
            let elements = usize::try_from(rows.max().unwrap_or(0)).unwrap_or(0);
            let whole = buffer.dtype.size_of_elements(elements).unwrap_or(0) as i64;
            let slot = &self.program.slots[argument.address.slot];
            let room = number(&slot.bytes) - number(&argument.address.offset);
            if whole > number(&argument.bytes) {
                self.write(&argument.address, &Expr::from(whole.min(room)));
            }
        }
    }

    /// What a kernel writes lies apart from arguments in other slots, or is one of them, where it
    /// may. Within one slot arguments are views, whose elements may lie between each other's.
    fn arguments(&mut self, run: &Run) {
        let place = |argument: &Argument| self.interval(&argument.address, &argument.bytes);
        let may_share = |from: usize, to: usize| {
            let kernel = self.kernels.get(run.kernel)?;
            Some(may_share(kernel, *kernel.parameters.get(from)?, *kernel.parameters.get(to)?))
        };
        let mut overlapping = Vec::new();
        for (to, written) in run.arguments.iter().enumerate().filter(|(_, one)| one.writes) {
            for (from, other) in run.arguments.iter().enumerate() {
                let (slot, other_slot) = (written.address.slot, other.address.slot);
                let (Some(own), Some(others)) = (place(written), place(other)) else { continue };
                let apart = slot == other_slot || own.1 <= others.0 || others.1 <= own.0;
                let shares = || own == others && may_share(from, to) == Some(true);
                if !apart && !shares() && !self.trails(run, (from, to), others.0 - own.0) {
                    overlapping.push((slot, other_slot));
                }
            }
        }
        for (slot, other) in overlapping {
            let [slot, other] = [slot, other].map(|slot| &self.program.slots[slot].name);
            let message = format!("a kernel writes `{slot}` over its argument `{other}`");
            self.complain(message);
        }
    }

    /// Whether a kernel's turns, one after the other, read each element of an argument before they
    /// write another over it, which begins so many bytes before.
    fn trails(&self, run: &Run, (from, to): (usize, usize), distance: i64) -> bool {
        let Some(kernel) = self.kernels.get(run.kernel) else { return false };
        let parameters = &kernel.parameters;
        match (self.turns, parameters.get(from), parameters.get(to)) {
            (TurnOrder::Sequential, Some(&read), Some(&to)) if !run.arguments[from].writes => {
                reads_before_writes(kernel, read, to, distance)
            }
            _ => false,
        }
    }

    /// A step reads and writes: no other step of this period may be in its way.
    fn touch(&mut self, accesses: Vec<(&Address, &Expr, bool, bool)>) {
        let mut own = Vec::new();
        for &(address, bytes, reads, writes) in &accesses {
            let Some((start, end)) = self.interval(address, bytes) else { continue };
            let meets = |&&(from, to, wrote): &&(i64, i64, bool)| {
                from < end && start < to && (wrote || writes)
            };
            if self.period.iter().any(|other| meets(&other)) {
                let slot = &self.program.slots[address.slot].name;
                self.complain(format!("a barrier is missing before a step that touches `{slot}`"));
            }
            own.push((start, end, writes));
            if reads {
                self.read(address, start, end);
            }
        }
        for (address, bytes, _, writes) in accesses {
            if writes {
                self.write(address, bytes);
            }
        }
        self.period.extend(own);
    }

    fn read(&mut self, address: &Address, start: i64, end: i64) {
        let strangers: Vec<SlotId> = self
            .owners
            .range(..end)
            .filter(|&(_, &(stop, owner))| stop > start && owner != address.slot)
            .map(|(_, &(_, owner))| owner)
            .collect();
        for stranger in strangers {
            let slots = &self.program.slots;
            let (slot, other) = (&slots[address.slot].name, &slots[stranger].name);
            self.complain(format!("`{slot}` is read after `{other}` was written over it"));
        }
    }

    fn write(&mut self, address: &Address, bytes: &Expr) {
        let Some((start, end)) = self.interval(address, bytes) else { return };
        self.clear(start, end);
        self.owners.insert(start, (end, address.slot));
    }

    /// Cuts an interval out of what is owned.
    fn clear(&mut self, start: i64, end: i64) {
        let met: Vec<(i64, i64, SlotId)> = self
            .owners
            .range(..end)
            .filter(|&(_, &(stop, _))| stop > start)
            .map(|(&from, &(to, owner))| (from, to, owner))
            .collect();
        for (from, to, owner) in met {
            self.owners.remove(&from);
            if from < start {
                self.owners.insert(from, (start, owner));
            }
            if to > end {
                self.owners.insert(end, (to, owner));
            }
        }
    }

    /// After a branch: what either side has written over counts as written over.
    fn forget_differences(&mut self, other: &BTreeMap<i64, (i64, SlotId)>) {
        for (&start, &(end, owner)) in other {
            let same = self.owners.get(&start) == Some(&(end, owner));
            if !same {
                self.clear(start, end);
                self.owners.insert(start, (end, owner));
            }
        }
    }

    /// The bytes of the arena that an access touches: the whole slot where the address moves with
    /// a loop; none outside of the arena.
    fn interval(&self, address: &Address, bytes: &Expr) -> Option<(i64, i64)> {
        let slot = &self.program.slots[address.slot];
        let Place::Arena(base) = &slot.place else { return None };
        let base = base.as_constant()?;
        let (start, length) = match (address.offset.as_constant(), bytes.as_constant()) {
            (Some(offset), Some(bytes)) => (base + offset, bytes),
            _ => (base, slot.bytes.as_constant()?),
        };
        (length > 0).then_some((start, start + length))
    }

    fn complain(&mut self, message: String) {
        let place = format!("program `{}`", self.program.name);
        self.found.push(Diagnostic::error(codes::VERIFIER_FAILED, message).at(place));
    }
}
