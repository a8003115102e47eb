//! What stands where blocks meet, and the frame: moves of jumps, and slots of values.

use regalloc2::{Allocation, Edit, Inst, ProgPoint, RegClass, SpillSlot};

use super::scan::{NONE, Order, Walk};
use super::{CLASSES, place};

impl Walk<'_> {
    /// The moves of a jump: arguments to parameters, and values to the registers in which the block
    /// expects them, all at once. `regalloc2` would have them in front of the jump, too.
    pub(super) fn jump(&mut self, block: usize) -> Option<()> {
        let flat = self.flat;
        let &[to] = &flat.successors[block][..] else { return Some(()) };
        self.restore(self.exits[block].clone());
        let point = ProgPoint::before(Inst::new(flat.starts[block + 1] - 1));
        let arguments = flat.arguments[block].iter().map(|value| value.vreg());
        let params = flat.params[to.index()].iter().map(|value| value.vreg());
        let mut moves: [Vec<(u8, u8)>; 3] = Default::default();
        let mut loads = Vec::new();
        // Registers that hold something where the block begins.
        let mut expected = [0_u64; 3];
        let passed = arguments.zip(params).map(|(from, to)| (from, self.first[to]));
        let kept = self.entries[to.index()].iter().map(|&(value, to)| (value as usize, to));
        for (value, to) in passed.chain(kept) {
            let class = flat.class_of(value);
            expected[class as usize] |= 1 << to;
            match self.register[value] {
                NONE if self.is_spilled[value] => loads.push((value, class, to)),
                NONE => return None,
                from if from != to => moves[class as usize].push((from, to)),
                _ => {}
            }
        }
        for (class, moves) in CLASSES.into_iter().zip(moves) {
            let free = self.all[class as usize] & !expected[class as usize];
            self.move_at_once(point, class, moves, free)?;
        }
        for (value, class, to) in loads {
            self.edit(point, self.slot(value), place(to, class));
        }
        Some(())
    }

    /// Moves of which each reads its register before any other writes it.
    fn move_at_once(
        &mut self,
        point: ProgPoint,
        class: RegClass,
        mut moves: Vec<(u8, u8)>,
        free: u64,
    ) -> Option<()> {
        while !moves.is_empty() {
            let is_read = |register: u8| moves.iter().any(|(from, _)| *from == register);
            let next = match moves.iter().position(|(_, to)| !is_read(*to)) {
                Some(next) => next,
                None => {
                    // A circle: what stands in the way of the first waits in a free register.
                    let read = moves.iter().fold(0_u64, |read, (from, _)| read | 1 << from);
                    let spare =
                        Some((free & !read).trailing_zeros() as u8).filter(|at| *at < 64)?;
                    let held = moves[0].1;
                    self.edit(point, place(held, class), place(spare, class));
                    moves.iter_mut().filter(|it| it.0 == held).for_each(|it| it.0 = spare);
                    0
                }
            };
            let (from, to) = moves.swap_remove(next);
            self.edit(point, place(from, class), place(to, class));
        }
        Some(())
    }

    /// A value's slot, for now numbered as the value.
    pub(super) fn slot(&self, value: usize) -> Allocation {
        Allocation::stack(SpillSlot::new(value))
    }

    /// Stores spilled values where they are defined and gives them slots: values that do not live
    /// at once share them. Returns how many of 8 bytes there are.
    pub(super) fn slots(&mut self) -> usize {
        if !self.is_spilled.contains(&true) {
            return 0;
        }
        let mut lives = self.store_spilled();
        lives.sort_unstable();
        let mut real = vec![0; self.flat.values()];
        // For each slot its bytes in eights, its number and when it is free.
        let mut slots: Vec<(usize, usize, usize)> = Vec::new();
        let mut count = 0_usize;
        for (start, end, value) in lives {
            let size = self.flat.slot_size(self.flat.class_of(value));
            let free = slots.iter_mut().find(|(own, _, until)| *own == size && *until < start);
            real[value] = match free {
                Some((_, slot, until)) => {
                    *until = end;
                    *slot
                }
                None => {
                    let slot = count.next_multiple_of(size);
                    slots.push((size, slot, end));
                    count = slot + size;
                    slot
                }
            };
        }
        let numbered = |place: &mut Allocation| {
            if let Some(slot) = place.as_stack() {
                *place = Allocation::stack(SpillSlot::new(real[slot.index()]));
            }
        };
        for (_, _, Edit::Move { from, to }) in &mut self.edits {
            numbered(from);
            numbered(to);
        }
        count
    }

    /// Stores spilled values where they are defined, or behind loops; returns for each where it
    /// starts to live in its slot and where it ends, and the value.
    fn store_spilled(&mut self) -> Vec<(usize, usize, usize)> {
        let flat = self.flat;
        let mut lives = Vec::new();
        let mut number = vec![usize::MAX; flat.values()];
        for block in 0..flat.blocks() {
            let (start, next) = (flat.starts[block], flat.starts[block + 1]);
            let params = flat.params[block].iter().map(|param| (param.vreg(), start, true));
            let results = (start..next).flat_map(|inst| {
                let results = flat.operands_of(inst).iter().filter(|it| it.is_result());
                results.map(move |operand| (operand.value(), inst, false))
            });
            for (value, inst, is_param) in params.chain(results) {
                if !self.is_spilled[value] {
                    continue;
                }
                let class = flat.class_of(value);
                let (inst, register, at_start) = match self.behind_loops(value, block) {
                    Some((behind, register)) => (flat.starts[behind], register, true),
                    None => (inst, self.first[value], is_param),
                };
                let (point, order) = match at_start {
                    true => (ProgPoint::before(Inst::new(inst)), Order::StoreParameter),
                    false => (ProgPoint::after(Inst::new(inst)), Order::StoreResult),
                };
                let (from, to) = (place(register, class), self.slot(value));
                self.edits.push((point, order, Edit::Move { from, to }));
                number[value] = lives.len();
                let last = self.uses.as_ref().map_or(0, |uses| uses.last(value));
                lives.push((inst, last.max(inst), value));
            }
        }
        for block in 0..flat.blocks() {
            for &value in &self.liveness.live_in[block] {
                let Some(life) = lives.get_mut(number[value as usize]) else { continue };
                for from in &flat.predecessors[block] {
                    life.1 = life.1.max(flat.starts[from.index() + 1] - 1);
                }
            }
        }
        lives
    }

    /// The block behind the loops around a value's definition in which it never gives up its
    /// register, and that register: what is loaded from the slot is loaded behind that block's
    /// start. None where there is no such loop, or where the value leaves it to several blocks.
    fn behind_loops(&self, value: usize, block: usize) -> Option<(usize, u8)> {
        let (flat, uses) = (self.flat, self.uses.as_ref()?);
        let mut found = None;
        let mut inner = block;
        while let Some(around) = uses.loop_around(inner) {
            let is_inside = |block: usize| around.contains(&flat.starts[block]);
            let gives_up =
                |&(own, at): &(u32, u32)| own as usize == value && is_inside(at as usize);
            if self.given_up.iter().any(gives_up) {
                break;
            }
            let mut exits = (0..flat.blocks()).filter(|&exit| {
                let from = &flat.predecessors[exit];
                !is_inside(exit)
                    && from.iter().any(|from| is_inside(from.index()))
                    && self.liveness.live_in[exit].contains(&(value as u32))
            });
            let (Some(exit), None) = (exits.next(), exits.next()) else { break };
            let own = self.entries[exit].iter().find(|(own, _)| *own as usize == value);
            let Some(&(_, register)) = own.filter(|_| flat.predecessors[exit].len() == 1) else {
                break;
            };
            (found, inner) = (Some((exit, register)), exit);
        }
        found
    }
}
