//! Registers in one walk, for functions in which they suffice.
//!
//! Values in SSA form that live at the same time live together at the definition of one of them.
//! So a walk over the definitions in which dominators come first may give each value any register
//! that is free where it is defined, and needs no more of them than values live at once (Hack,
//! Grund, Goos, "Register Allocation for Programs in SSA Form", 2006). A value keeps its register
//! for life: moves stand only where an instruction overwrites an operand that is used again, at
//! operands with a register of their own, and where jumps pass arguments.
//!
//! Which free register it is matters for those moves alone: a definition takes that of the operand
//! that it overwrites; what a jump will pass takes that of the block's parameter, a parameter that
//! of an argument. Where registers do not suffice there is no answer, and `regalloc2`, which takes
//! five times as long, decides what waits in memory.
//!
//! Relies on blocks standing behind those that dominate them, which the walk checks.

use regalloc2::{
    Allocation, Block, Edit, Function as _, Inst, MachineEnv, Operand, OperandConstraint,
    OperandKind, OperandPos, Output, PReg, ProgPoint, RegClass, VReg,
};

use super::Flat;

/// No register, or none yet.
const NONE: u8 = u8::MAX;

const CLASSES: [RegClass; 3] = [RegClass::Int, RegClass::Float, RegClass::Vector];

/// Registers of each class, a bit each.
type Sets = [u64; 3];

/// Gives every value a register for life; none where registers do not suffice.
pub(super) fn scan(flat: &Flat<'_>, environment: &MachineEnv) -> Option<Output> {
    let liveness = Liveness::of(flat);
    let mut walk = Walk::new(flat, environment, &liveness);
    for block in 0..flat.num_blocks() {
        walk.block(block)?;
    }
    for block in 0..flat.num_blocks() {
        walk.jump(block)?;
    }
    walk.edits.sort_by_key(|(point, _)| *point);
    Some(Output {
        edits: walk.edits,
        allocs: walk.places,
        inst_alloc_offsets: walk.starts,
        ..Output::default()
    })
}

/// Where values are used for the last time.
struct Liveness {
    /// The values live at the start of each block, its parameters apart.
    live_in: Vec<Vec<usize>>,
    /// For each operand: the value is not used after this instruction; of a result, not at all.
    dies: Vec<bool>,
    /// For each value: whether it is used at all.
    is_used: Vec<bool>,
}

impl Liveness {
    /// Follows each use up to its definition, then walks each block backwards.
    fn of(flat: &Flat<'_>) -> Liveness {
        let (blocks, values) = (flat.num_blocks(), flat.num_vregs());
        let mut home = vec![usize::MAX; values];
        for block in 0..blocks {
            flat.params[block].iter().for_each(|param| home[param.vreg()] = block);
            for operand in operands_of(flat, block) {
                if operand.kind() == OperandKind::Def {
                    home[operand.vreg().vreg()] = block;
                }
            }
        }
        let words = values.div_ceil(64);
        let mut seen = vec![0_u64; blocks * words];
        let mut live_in = vec![Vec::new(); blocks];
        let mut is_used = vec![false; values];
        let mut open = Vec::new();
        for block in 0..blocks {
            let reads = operands_of(flat, block).filter(|it| it.kind() == OperandKind::Use);
            let reads =
                reads.map(|operand| operand.vreg()).chain(flat.arguments[block].iter().copied());
            for value in reads.map(|vreg| vreg.vreg()) {
                is_used[value] = true;
                open.push(block);
                while let Some(block) = open.pop() {
                    let (word, bit) = (block * words + value / 64, 1 << (value % 64));
                    if home[value] != block && seen[word] & bit == 0 {
                        seen[word] |= bit;
                        live_in[block].push(value);
                        open.extend(flat.predecessors[block].iter().map(|from| from.index()));
                    }
                }
            }
        }
        let mut liveness = Liveness { live_in, dies: vec![false; flat.operands.len()], is_used };
        let mut alive = vec![usize::MAX; values];
        for block in 0..blocks {
            for to in &flat.successors[block] {
                liveness.live_in[to.index()].iter().for_each(|&value| alive[value] = block);
            }
            flat.arguments[block].iter().for_each(|value| alive[value.vreg()] = block);
            for inst in (flat.starts[block]..flat.starts[block + 1]).rev() {
                let operands = flat.operand_starts[inst]..flat.operand_starts[inst + 1];
                for kind in [OperandKind::Def, OperandKind::Use] {
                    for at in operands.clone().filter(|&at| flat.operands[at].kind() == kind) {
                        let value = flat.operands[at].vreg().vreg();
                        liveness.dies[at] = alive[value] != block;
                        alive[value] = if kind == OperandKind::Def { usize::MAX } else { block };
                    }
                }
            }
        }
        liveness
    }
}

/// The operands of a block's instructions.
fn operands_of<'a>(flat: &'a Flat<'_>, block: usize) -> impl Iterator<Item = &'a Operand> {
    let insts = flat.starts[block]..flat.starts[block + 1];
    flat.operands[flat.operand_starts[insts.start]..flat.operand_starts[insts.end]].iter()
}

/// An instruction's operands.
struct Site<'a> {
    operands: &'a [Operand],
    /// See [`Liveness::dies`].
    dies: &'a [bool],
    /// The number of the first operand among all.
    first: usize,
    before: ProgPoint,
    after: ProgPoint,
}

impl<'a> Site<'a> {
    /// The operands that are read, or those that are defined, with their positions.
    fn of_kind(&self, kind: OperandKind) -> impl Iterator<Item = (usize, &'a Operand)> + use<'a> {
        self.operands.iter().enumerate().filter(move |(_, operand)| operand.kind() == kind)
    }

    /// Whether the instruction is the last to read a value.
    fn is_last_use(&self, value: VReg) -> bool {
        self.of_kind(OperandKind::Use).any(|(at, it)| it.vreg() == value && self.dies[at])
    }
}

struct Walk<'a> {
    flat: &'a Flat<'a>,
    liveness: &'a Liveness,
    /// The registers to choose from: those to be taken first, and all.
    preferred: Sets,
    all: Sets,
    /// Those that hold nothing.
    free: Sets,
    /// Each value's register.
    register: Vec<u8>,
    /// The register of the parameter that a jump will give a value to.
    wanted: Vec<u8>,
    /// The value that overwrites a value when it dies.
    heir: Vec<usize>,
    /// Each operand's register.
    places: Vec<Allocation>,
    /// Where each instruction's operands start.
    starts: Vec<u32>,
    edits: Vec<(ProgPoint, Edit)>,
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
        let mut heir = vec![usize::MAX; flat.num_vregs()];
        for inst in 1..flat.num_insts() {
            for clobbered in flat.clobbers[inst] {
                asked[clobbered.class() as usize] |= 1 << clobbered.hw_enc();
            }
            let operands = flat.inst_operands(Inst::new(inst));
            for operand in operands {
                match operand.constraint() {
                    OperandConstraint::FixedReg(register) => {
                        asked[register.class() as usize] |= 1 << register.hw_enc();
                    }
                    OperandConstraint::Reuse(other) => {
                        heir[operands[other].vreg().vreg()] = operand.vreg().vreg();
                    }
                    _ => {}
                }
            }
        }
        for class in 0..CLASSES.len() {
            preferred[class] &= !asked[class];
            all[class] = (all[class] | preferred[class]) & !asked[class];
        }
        let values = flat.num_vregs();
        Walk {
            flat,
            liveness,
            preferred,
            all,
            free: all,
            register: vec![NONE; values],
            wanted: vec![NONE; values],
            heir,
            places: vec![Allocation::none(); flat.operands.len()],
            starts: flat.operand_starts[..flat.num_insts()].iter().map(|&at| at as u32).collect(),
            edits: Vec::new(),
        }
    }

    fn block(&mut self, block: usize) -> Option<()> {
        self.free = self.all;
        for &value in &self.liveness.live_in[block] {
            self.take(value, self.register[value])?;
        }
        self.params(block)?;
        for inst in self.flat.starts[block]..self.flat.starts[block + 1] {
            self.instruction(inst)?;
        }
        Some(())
    }

    /// Parameters take the registers of arguments where they can; what later jumps pass should then
    /// take those of the parameters.
    fn params(&mut self, block: usize) -> Option<()> {
        let flat = self.flat;
        for (number, param) in flat.params[block].iter().enumerate() {
            let arguments = flat.predecessors[block]
                .iter()
                .map(|from| flat.arguments[from.index()][number].vreg());
            let free = self.free[param.class() as usize];
            let is_free = |hint: &u8| *hint != NONE && free & 1 << hint != 0;
            let hint = arguments.clone().map(|value| self.register[value]).find(is_free);
            self.choose(*param, hint)?;
            for argument in arguments {
                self.wanted[argument] = self.register[param.vreg()];
            }
        }
        for param in &flat.params[block] {
            if !self.liveness.is_used[param.vreg()] {
                self.release(*param);
            }
        }
        Some(())
    }

    fn instruction(&mut self, inst: usize) -> Option<()> {
        let operands = self.flat.operand_starts[inst]..self.flat.operand_starts[inst + 1];
        let site = Site {
            operands: &self.flat.operands[operands.clone()],
            dies: &self.liveness.dies[operands.clone()],
            first: operands.start,
            before: ProgPoint::before(Inst::new(inst)),
            after: ProgPoint::after(Inst::new(inst)),
        };
        self.read(&site)?;
        let kept = self.overwrite(&site)?;
        self.end_uses(&site, OperandPos::Early, &kept);
        self.define(&site)?;
        self.end_uses(&site, OperandPos::Late, &kept);
        for (operand, dies) in site.operands.iter().zip(site.dies) {
            if operand.kind() == OperandKind::Def && *dies {
                self.release(operand.vreg());
            }
        }
        Some(())
    }

    fn read(&mut self, site: &Site<'_>) -> Option<()> {
        for (at, operand) in site.of_kind(OperandKind::Use) {
            let held = self.place(operand.vreg())?;
            let place = match operand.constraint() {
                OperandConstraint::FixedReg(register) => Allocation::reg(register),
                _ => held,
            };
            self.edit(site.before, held, place);
            self.places[site.first + at] = place;
        }
        Some(())
    }

    /// A result that overwrites an operand takes its register, or one that is free beside all
    /// operands for a copy of it. Returns the registers taken.
    fn overwrite(&mut self, site: &Site<'_>) -> Option<Sets> {
        let mut kept: Sets = [0; 3];
        for (at, operand) in site.of_kind(OperandKind::Def) {
            let OperandConstraint::Reuse(other) = operand.constraint() else { continue };
            let overwritten = site.operands[other].vreg();
            let held = self.place(overwritten)?;
            let class = operand.class() as usize;
            let is_taken = kept[class] & self.bit(overwritten) != 0;
            let place = match site.is_last_use(overwritten) && !is_taken {
                true => {
                    self.register[operand.vreg().vreg()] = self.register[overwritten.vreg()];
                    kept[class] |= self.bit(overwritten);
                    held
                }
                false => self.choose(operand.vreg(), self.hint(operand.vreg()))?,
            };
            self.edit(site.before, held, place);
            (self.places[site.first + other], self.places[site.first + at]) = (place, place);
        }
        Some(kept)
    }

    fn define(&mut self, site: &Site<'_>) -> Option<()> {
        for (at, operand) in site.of_kind(OperandKind::Def) {
            self.places[site.first + at] = match operand.constraint() {
                OperandConstraint::Reuse(_) => continue,
                OperandConstraint::FixedReg(register) => {
                    // No other value is in it: it is the entry's, or none to choose from.
                    let place = Allocation::reg(register);
                    let kept = self.choose(operand.vreg(), Some(register.hw_enc() as u8))?;
                    self.edit(site.after, place, kept);
                    place
                }
                _ => self.choose(operand.vreg(), self.hint(operand.vreg()))?,
            };
        }
        Some(())
    }

    /// Frees what operands held for the last time, but for registers that results have taken.
    fn end_uses(&mut self, site: &Site<'_>, pos: OperandPos, kept: &Sets) {
        for (at, operand) in site.of_kind(OperandKind::Use).filter(|(_, it)| it.pos() == pos) {
            let is_kept = kept[operand.class() as usize] & self.bit(operand.vreg()) != 0;
            if site.dies[at] && !is_kept {
                self.release(operand.vreg());
            }
        }
    }

    /// The moves of a jump's arguments to the parameters, all at once. `regalloc2` would have them
    /// in front of the jump, too.
    fn jump(&mut self, block: usize) -> Option<()> {
        let flat = self.flat;
        let &[to] = &flat.successors[block][..] else { return Some(()) };
        let (arguments, params) = (&flat.arguments[block], &flat.params[to.index()]);
        let point = ProgPoint::before(flat.block_insns(Block::new(block)).last());
        for class in CLASSES {
            let pairs = arguments.iter().zip(params).filter(|(from, _)| from.class() == class);
            let mut moves: Vec<(u8, u8)> = pairs
                .map(|(from, to)| (self.register[from.vreg()], self.register[to.vreg()]))
                .filter(|(from, to)| from != to)
                .collect();
            while !moves.is_empty() {
                let is_read = |register: u8| moves.iter().any(|(from, _)| *from == register);
                let next = match moves.iter().position(|(_, to)| !is_read(*to)) {
                    Some(next) => next,
                    None => {
                        // A circle: what stands in the way of the first waits in a free register.
                        let spare = self.spare(to, class, &moves)?;
                        let held = moves[0].1;
                        self.edit(point, place(held, class), place(spare, class));
                        moves.iter_mut().filter(|it| it.0 == held).for_each(|it| it.0 = spare);
                        0
                    }
                };
                let (from, to) = moves.swap_remove(next);
                self.edit(point, place(from, class), place(to, class));
            }
        }
        Some(())
    }

    /// A register that holds nothing while a jump moves its arguments.
    fn spare(&self, to: Block, class: RegClass, moves: &[(u8, u8)]) -> Option<u8> {
        let of_class = |vreg: &&VReg| vreg.class() == class;
        let params = self.flat.params[to.index()].iter().filter(of_class);
        let live = self.liveness.live_in[to.index()].iter();
        let live = live.map(|&value| self.flat.vreg(base::Id::new(value)));
        let mut free = self.all[class as usize];
        for vreg in params.copied().chain(live.filter(|vreg| vreg.class() == class)) {
            free &= !self.bit(vreg);
        }
        for (from, to) in moves {
            free &= !(1 << from | 1 << to);
        }
        (free != 0).then_some(free.trailing_zeros() as u8)
    }

    /// The register in which a new value would spare a move: that of a parameter which it, or what
    /// overwrites it, will be passed to.
    fn hint(&self, value: VReg) -> Option<u8> {
        let mut value = value.vreg();
        loop {
            if self.wanted[value] != NONE {
                return Some(self.wanted[value]);
            }
            value = Some(self.heir[value]).filter(|&heir| heir != usize::MAX)?;
        }
    }

    /// Gives a value the hinted register if it is free, else the first that is.
    fn choose(&mut self, value: VReg, hint: Option<u8>) -> Option<Allocation> {
        let class = value.class() as usize;
        let free = self.free[class];
        let first_of = |set: u64| (set != 0).then(|| set.trailing_zeros() as u8);
        let register = hint
            .filter(|hint| free & 1 << hint != 0)
            .or_else(|| first_of(free & self.preferred[class]))
            .or_else(|| first_of(free))?;
        self.register[value.vreg()] = register;
        self.free[class] &= !(1 << register);
        Some(place(register, value.class()))
    }

    /// Marks the register of a live value; none if it has not been defined yet.
    fn take(&mut self, value: usize, register: u8) -> Option<()> {
        let class = super::class(self.flat.function.values[base::Id::new(value)]);
        self.free[class as usize] &= !(1_u64.checked_shl(register.into())?);
        Some(())
    }

    fn release(&mut self, value: VReg) {
        self.free[value.class() as usize] |= self.bit(value);
    }

    fn bit(&self, value: VReg) -> u64 {
        1 << self.register[value.vreg()]
    }

    /// Where a value is; none if it has not been defined yet.
    fn place(&self, value: VReg) -> Option<Allocation> {
        let register = self.register[value.vreg()];
        (register != NONE).then(|| place(register, value.class()))
    }

    fn edit(&mut self, point: ProgPoint, from: Allocation, to: Allocation) {
        if from != to {
            self.edits.push((point, Edit::Move { from, to }));
        }
    }
}

fn place(register: u8, class: RegClass) -> Allocation {
    Allocation::reg(PReg::new(register.into(), class))
}
