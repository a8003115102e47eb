//! Registers in one walk.
//!
//! Values in SSA form that live at the same time live together at the definition of one of them.
//! So a walk over the definitions in which dominators come first may give each value any register
//! that is free where it is defined, and needs no more of them than values live at once (Hack,
//! Grund, Goos, "Register Allocation for Programs in SSA Form", 2006). Where registers suffice a
//! value keeps its own for life: moves stand only where an instruction overwrites an operand that
//! is used again, at operands with a register of their own, and where jumps pass arguments.
//!
//! Which free register it is matters for those moves alone: a definition takes that of the operand
//! that it overwrites; what a jump will pass takes that of the block's parameter, a parameter that
//! of an argument.
//!
//! Where registers do not suffice the value whose next use is farthest gives up its own (Belady,
//! 1966), and is loaded from the frame before that use, wherever that may be. Being defined once,
//! it is stored once, where it is defined, which dominates every load (Braun, Hack, "Register
//! Spilling and Live-Range Splitting for SSA-Form Programs", 2009), or behind the loop that defines
//! it if it keeps its register there: not in each turn. A loop that is short of
//! registers starts without those values that it does not use, so that none of its turns moves
//! them. A block starts as the first of the blocks before it ended; the others bring values where
//! it expects them.
//!
//! Relies on blocks standing behind those that dominate them, which the walk checks.

use regalloc2::{Allocation, Edit, Inst, MachineEnv, Output, ProgPoint, RegClass};

use super::liveness::{Liveness, Uses};
use super::{CLASSES, Flat, Operand, Role, place};

/// No register, or none yet.
pub(super) const NONE: u8 = u8::MAX;

/// No value.
const NOBODY: u32 = u32::MAX;

/// Registers of each class, a bit each.
pub(super) type Sets = [u64; 3];

/// What each register holds.
#[derive(Clone)]
pub(super) struct Held {
    /// The registers that hold nothing.
    free: Sets,
    values: [[u32; 32]; 3],
}

impl Held {
    fn nothing(all: Sets) -> Held {
        Held { free: all, values: [[NOBODY; 32]; 3] }
    }

    /// Calls `visit` with the registers that hold something, and the values.
    fn each_occupied(&self, all: Sets, mut visit: impl FnMut(RegClass, u8, u32)) {
        for class in CLASSES {
            let mut left = all[class as usize] & !self.free[class as usize];
            while left != 0 {
                let register = left.trailing_zeros() as u8;
                left &= left - 1;
                visit(class, register, self.values[class as usize][usize::from(register)]);
            }
        }
    }
}

/// Gives every value registers, or a slot of the frame while there are too few; none where an
/// instruction or a block's parameters ask for more of them than there are.
pub(super) fn scan(flat: &Flat<'_>, environment: &MachineEnv) -> Option<Output> {
    let liveness = Liveness::of(flat);
    let mut walk = Walk::new(flat, environment, &liveness);
    for block in 0..flat.blocks() {
        walk.block(block)?;
    }
    for block in 0..flat.blocks() {
        walk.jump(block)?;
    }
    Some(walk.finish())
}

/// Where in the walk something is asked for.
#[derive(Clone, Copy)]
struct At {
    block: usize,
    /// The first instruction that may use a value next.
    next: usize,
}

pub(super) struct Walk<'a> {
    pub(super) flat: &'a Flat<'a>,
    pub(super) liveness: &'a Liveness,
    /// Where values are used next, once that is asked for.
    pub(super) uses: Option<Uses>,
    /// The registers to choose from: those to be taken first, and all.
    preferred: Sets,
    pub(super) all: Sets,
    held: Held,
    /// Each value's register; none while it has none.
    pub(super) register: Vec<u8>,
    /// The register in which each value was defined.
    pub(super) first: Vec<u8>,
    /// The values that have a slot of the frame.
    pub(super) is_spilled: Vec<bool>,
    /// The values that gave up a register, and the blocks in which they did.
    pub(super) given_up: Vec<(u32, u32)>,
    /// The register of the parameter that a jump will give a value to.
    wanted: Vec<u8>,
    /// The value that overwrites a value when it dies.
    heir: Vec<u32>,
    /// Each operand's register.
    places: Vec<Allocation>,
    /// The last block of which each value is known to be live at its start.
    live_into: Vec<u32>,
    /// What is in registers where each block starts, parameters apart, and ends.
    pub(super) entries: Vec<Vec<(u32, u8)>>,
    pub(super) exits: Vec<Held>,
    /// Moves with their points; among those of a point, in this order.
    pub(super) edits: Vec<(ProgPoint, Order, Edit)>,
}

/// In what order the moves at a point are made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Order {
    /// A block's parameter to its slot.
    StoreParameter,
    /// All others.
    Move,
    /// A result to its slot.
    StoreResult,
}

impl<'a> Walk<'a> {
    fn new(flat: &'a Flat<'a>, environment: &MachineEnv, liveness: &'a Liveness) -> Walk<'a> {
        let set = |registers: &regalloc2::PRegSet| {
            registers.into_iter().fold(0_u64, |set, register| set | 1 << register.hw_enc())
        };
        let mut preferred = environment.preferred_regs_by_class.each_ref().map(set);
        let mut all = environment.non_preferred_regs_by_class.each_ref().map(set);
        // Registers that instructions ask for are left to them, but for the kernel's arguments.
        let mut asked: Sets = [0; 3];
        for (_, clobbers) in &flat.clobbers {
            for clobbered in *clobbers {
                asked[clobbered.class() as usize] |= 1 << clobbered.hw_enc();
            }
        }
        let mut heir = vec![NOBODY; flat.values()];
        for inst in 1..flat.count() {
            let operands = flat.operands_of(inst);
            for operand in operands {
                match operand.role {
                    Role::UseIn(register) | Role::ResultIn(register) => {
                        asked[operand.class as usize] |= 1 << register;
                    }
                    Role::ResultOver(other) => {
                        heir[operands[usize::from(other)].value()] = operand.value;
                    }
                    Role::Use | Role::UseToEnd | Role::Result => {}
                }
            }
        }
        for class in 0..CLASSES.len() {
            preferred[class] &= !asked[class];
            all[class] = (all[class] | preferred[class]) & !asked[class];
        }
        let (values, blocks) = (flat.values(), flat.blocks());
        Walk {
            flat,
            liveness,
            uses: None,
            preferred,
            all,
            held: Held::nothing(all),
            register: vec![NONE; values],
            first: vec![NONE; values],
            is_spilled: vec![false; values],
            given_up: Vec::new(),
            wanted: vec![NONE; values],
            heir,
            places: vec![Allocation::none(); flat.operands.len()],
            live_into: vec![NOBODY; values],
            entries: vec![Vec::new(); blocks],
            exits: Vec::with_capacity(blocks),
            edits: Vec::new(),
        }
    }

    fn finish(mut self) -> Output {
        let slots = self.slots();
        self.edits.sort_by_key(|(point, order, _)| (*point, *order));
        Output {
            num_spillslots: slots,
            edits: self.edits.into_iter().map(|(point, _, edit)| (point, edit)).collect(),
            allocs: self.places,
            inst_alloc_offsets: self.flat.operand_starts[..self.flat.count()]
                .iter()
                .map(|&at| at as u32)
                .collect(),
            ..Output::default()
        }
    }

    fn block(&mut self, block: usize) -> Option<()> {
        self.enter(block)?;
        self.params(block)?;
        for inst in self.flat.insts(block) {
            self.instruction(block, inst)?;
        }
        self.exits.push(self.held.clone());
        Some(())
    }

    /// Starts a block with what the first block before it left in registers.
    fn enter(&mut self, block: usize) -> Option<()> {
        let before = self.flat.predecessors[block].iter().map(|from| from.index()).min();
        let exit = match before {
            Some(before) => self.exits.get(before)?.clone(),
            None => Held::nothing(self.all),
        };
        self.restore(Held::nothing(self.all));
        let live_in = &self.liveness.live_in[block];
        live_in.iter().for_each(|&value| self.live_into[value as usize] = block as u32);
        exit.each_occupied(self.all, |class, register, value| {
            if self.live_into[value as usize] == block as u32 {
                self.hold(class, register, value);
            }
        });
        let is_somewhere =
            |&value: &u32| self.register[value as usize] != NONE || self.is_spilled[value as usize];
        if !live_in.iter().all(is_somewhere) {
            // It has not been defined yet.
            return None;
        }
        self.leave_room(block);
        Some(())
    }

    /// Sets what registers hold.
    pub(super) fn restore(&mut self, held: Held) {
        let registers = &mut self.register;
        self.held.each_occupied(self.all, |_, _, value| registers[value as usize] = NONE);
        held.each_occupied(self.all, |_, register, value| registers[value as usize] = register);
        self.held = held;
    }

    /// A loop that is short of registers starts without what it does not use.
    fn leave_room(&mut self, block: usize) {
        let registers = self.all.map(u64::count_ones);
        let is_header = self.flat.predecessors[block].iter().any(|from| from.index() >= block);
        let is_short = |most: &[u32; 3]| most.iter().zip(registers).any(|(most, own)| *most > own);
        if !is_header || !is_short(&self.liveness.most_of_all) {
            return;
        }
        let uses = self.uses.get_or_insert_with(|| Uses::of(self.flat, self.liveness));
        let Some(most) = uses.most_in_loop(block).filter(is_short) else { return };
        let mut excess: [usize; 3] =
            std::array::from_fn(|class| most[class].saturating_sub(registers[class]) as usize);
        let mut unused = Vec::new();
        for &value in &self.liveness.live_in[block] {
            let (index, class) = (value as usize, self.flat.class_of(value as usize));
            if excess[class as usize] == 0 || uses.is_used_in_loop(index, block) {
                continue;
            }
            match self.register[index] {
                NONE => excess[class as usize] -= 1,
                register => {
                    let distance = uses.distance(index, block, self.flat.starts[block]);
                    unused.push((distance, class, register));
                }
            }
        }
        unused.sort_unstable_by(|a, b| b.cmp(a));
        for (_, class, register) in unused {
            if excess[class as usize] > 0 {
                excess[class as usize] -= 1;
                self.spill(class, register, block);
            }
        }
    }

    /// Parameters take the registers of arguments where they can; what later jumps pass should then
    /// take those of the parameters.
    fn params(&mut self, block: usize) -> Option<()> {
        let flat = self.flat;
        let at = At { block, next: flat.starts[block] };
        let mut taken: Sets = [0; 3];
        for (number, param) in flat.params[block].iter().enumerate() {
            let arguments = flat.predecessors[block]
                .iter()
                .map(|from| (from.index(), flat.arguments[from.index()][number].vreg()));
            let class = param.class() as usize;
            let free = self.held.free[class];
            let hint = arguments.clone().find_map(|(from, value)| {
                let held = &self.exits.get(from)?.values[class];
                let register = held.iter().position(|own| *own == value as u32)?;
                (free & 1 << register != 0).then_some(register as u8)
            });
            let register = self.choose((param.vreg(), param.class()), hint, taken[class], at)?;
            taken[class] |= 1 << register;
            for (_, argument) in arguments {
                self.wanted[argument] = register;
            }
        }
        for param in &flat.params[block] {
            if !self.liveness.is_used[param.vreg()] {
                self.release(param.vreg(), param.class());
            }
        }
        let params = &flat.params[block];
        let entries = &mut self.entries[block];
        self.held.each_occupied(self.all, |_, register, value| {
            if params.iter().all(|param| param.vreg() != value as usize) {
                entries.push((value, register));
            }
        });
        Some(())
    }

    fn instruction(&mut self, block: usize, inst: usize) -> Option<()> {
        let flat = self.flat;
        let first = flat.operand_starts[inst];
        let operands = flat.operands_of(inst);
        let liveness = self.liveness;
        let dies = &liveness.dies[first..first + operands.len()];
        let at = At { block, next: inst + 1 };
        let count = operands.iter().rev().take_while(|operand| operand.is_result()).count();
        let (reads, results) = operands.split_at(operands.len() - count);
        let read = self.read(reads, first, inst, at)?;
        let mut last: Sets = [0; 3];
        for (number, operand) in results.iter().enumerate() {
            if let Role::ResultOver(other) = operand.role {
                let numbers = (reads.len() + number, usize::from(other));
                self.overwrite(operands, dies, numbers, (inst, &read), &mut last, at)?;
            }
        }
        let mut waits = false;
        for (operand, dies) in reads.iter().zip(dies) {
            if operand.role == Role::UseToEnd {
                waits = true;
                let register = self.register[operand.value()];
                last[operand.class as usize] |= 1_u64.checked_shl(register.into())?;
            } else if *dies {
                self.release(operand.value(), operand.class);
            }
        }
        for (operand, at_place) in results.iter().zip(first + reads.len()..) {
            let (value, class) = (operand.value(), operand.class);
            let hint = match operand.role {
                Role::ResultOver(_) => continue,
                // No other value is in it: it is the entry's, or none to choose from.
                Role::ResultIn(register) => Some(register),
                _ => self.hint(value),
            };
            let register = self.choose((value, class), hint, last[class as usize], at)?;
            last[class as usize] |= 1 << register;
            let mut own = place(register, class);
            if let Role::ResultIn(fixed) = operand.role {
                let fixed = place(fixed, class);
                self.edit(ProgPoint::after(Inst::new(inst)), fixed, own);
                own = fixed;
            }
            self.places[at_place] = own;
        }
        let behind = if waits { 0 } else { reads.len() };
        for (operand, dies) in operands[behind..].iter().zip(&dies[behind..]) {
            if *dies && (operand.is_result() || operand.role == Role::UseToEnd) {
                self.release(operand.value(), operand.class);
            }
        }
        Some(())
    }

    /// A result that overwrites an operand takes its register, or one beside all operands for a
    /// copy of it. Adds it to the registers taken.
    fn overwrite(
        &mut self,
        operands: &[Operand],
        dies: &[bool],
        (number, other): (usize, usize),
        (inst, read): (usize, &Sets),
        last: &mut Sets,
        at: At,
    ) -> Option<()> {
        let (operand, overwritten) = (operands[number], operands[other]);
        let class = operand.class as usize;
        let mut is_read_twice = false;
        let mut is_last_use = dies[other];
        for (at, it) in operands[..number].iter().enumerate() {
            if at != other && it.value == overwritten.value && !it.is_result() {
                is_read_twice = true;
                is_last_use |= dies[at];
            }
        }
        let held = self.register[overwritten.value()];
        if held == NONE {
            // Another result has overwritten it.
            return None;
        }
        let register = if is_last_use {
            self.register[overwritten.value()] = NONE;
            self.define((operand.value(), operand.class), held);
            held
        } else {
            let stays = match is_read_twice {
                true => read[class],
                false => read[class] & !(1 << held),
            };
            let hint = self.hint(operand.value());
            self.choose((operand.value(), operand.class), hint, stays | last[class], at)?
        };
        last[class] |= 1 << register;
        let (from, to) = (place(held, operand.class), place(register, operand.class));
        self.edit(ProgPoint::before(Inst::new(inst)), from, to);
        let first = self.flat.operand_starts[inst];
        (self.places[first + other], self.places[first + number]) = (to, to);
        Some(())
    }

    /// Brings what an instruction reads into registers, and says into which.
    fn read(&mut self, reads: &[Operand], first: usize, inst: usize, at: At) -> Option<Sets> {
        let mut read: Sets = [0; 3];
        let mut is_missing = false;
        for operand in reads {
            match self.register[operand.value()] {
                NONE => is_missing = true,
                register => read[operand.class as usize] |= 1 << register,
            }
        }
        for (operand, at_place) in reads.iter().zip(first..) {
            let (value, class) = (operand.value(), operand.class);
            let before = ProgPoint::before(Inst::new(inst));
            if is_missing && self.register[value] == NONE {
                if !self.is_spilled[value] {
                    return None;
                }
                let register = self.room(class, None, read[class as usize], at)?;
                self.hold(class, register, operand.value);
                read[class as usize] |= 1 << register;
                self.edit(before, self.slot(value), place(register, class));
            }
            let mut own = place(self.register[value], class);
            if let Role::UseIn(register) = operand.role {
                let fixed = place(register, class);
                self.edit(before, own, fixed);
                own = fixed;
            }
            self.places[at_place] = own;
        }
        Some(read)
    }

    /// The register in which a new value would spare a move: that of a parameter which it, or what
    /// overwrites it, will be passed to.
    fn hint(&self, mut value: usize) -> Option<u8> {
        loop {
            if self.wanted[value] != NONE {
                return Some(self.wanted[value]);
            }
            value = Some(self.heir[value]).filter(|&heir| heir != NOBODY)? as usize;
        }
    }

    /// Gives a new value a register.
    fn choose(
        &mut self,
        value: (usize, RegClass),
        hint: Option<u8>,
        taken: u64,
        at: At,
    ) -> Option<u8> {
        let register = self.room(value.1, hint, taken, at)?;
        self.define(value, register);
        Some(register)
    }

    fn define(&mut self, (value, class): (usize, RegClass), register: u8) {
        self.first[value] = register;
        self.hold(class, register, value as u32);
    }

    /// The hinted register if it is free, else the first that is, else that of the value whose next
    /// use is farthest, none of those that are taken.
    fn room(&mut self, class: RegClass, hint: Option<u8>, taken: u64, at: At) -> Option<u8> {
        let free = self.held.free[class as usize];
        let first_of = |set: u64| (set != 0).then(|| set.trailing_zeros() as u8);
        let register = hint
            .filter(|hint| free & 1 << hint != 0)
            .or_else(|| first_of(free & self.preferred[class as usize]))
            .or_else(|| first_of(free));
        if register.is_some() {
            return register;
        }
        let uses = self.uses.get_or_insert_with(|| Uses::of(self.flat, self.liveness));
        let mut left = self.all[class as usize] & !taken;
        let mut farthest = None;
        while left != 0 {
            let register = left.trailing_zeros() as u8;
            left &= left - 1;
            let value = self.held.values[class as usize][usize::from(register)] as usize;
            // Of two equally far, one that has been stored already.
            let rank = (uses.distance(value, at.block, at.next), self.is_spilled[value]);
            if farthest.is_none_or(|(known, _)| rank > known) {
                farthest = Some((rank, register));
            }
        }
        let (_, register) = farthest?;
        self.spill(class, register, at.block);
        Some(register)
    }

    /// Takes a register away from its value in a block. It has a slot from then on, or from where
    /// `store_spilled` finds that it is stored less often.
    fn spill(&mut self, class: RegClass, register: u8, block: usize) {
        let value = self.held.values[class as usize][usize::from(register)] as usize;
        self.is_spilled[value] = true;
        self.given_up.push((value as u32, block as u32));
        self.register[value] = NONE;
        self.held.values[class as usize][usize::from(register)] = NOBODY;
        self.held.free[class as usize] |= 1 << register;
    }

    fn hold(&mut self, class: RegClass, register: u8, value: u32) {
        self.register[value as usize] = register;
        self.held.values[class as usize][usize::from(register)] = value;
        self.held.free[class as usize] &= !(1 << register);
    }

    /// Frees the register of a value that has died, if it still has one.
    fn release(&mut self, value: usize, class: RegClass) {
        let register = self.register[value];
        if register != NONE {
            self.register[value] = NONE;
            self.held.values[class as usize][usize::from(register)] = NOBODY;
            self.held.free[class as usize] |= 1 << register;
        }
    }

    pub(super) fn edit(&mut self, point: ProgPoint, from: Allocation, to: Allocation) {
        if from != to {
            self.edits.push((point, Order::Move, Edit::Move { from, to }));
        }
    }
}
