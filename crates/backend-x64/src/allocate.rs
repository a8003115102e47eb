//! Register allocation: vcode as `regalloc2` sees it.
//!
//! `scan` gives registers in one walk, and slots of the frame where they do not suffice. It leaves
//! to `regalloc2` the few functions in which a block has more parameters, or an instruction more
//! operands, than there are registers. Both give the same kind of answer.
//!
//! - `liveness`: where values live and are used next; `scan`: the walk; `edges`: jumps and slots.
//!
//! Integer, vector and mask registers are its classes `Int`, `Float` and `Vector`. The operands of
//! an instruction are listed in one order, which emission follows when it reads the allocations:
//! arguments, mask, base, index, then result and lost value.
//!
//! Relies on vcode's invariant that critical edges are split. In tests and debug builds every
//! result passes `regalloc2`'s independent checker.

mod edges;
mod liveness;
mod scan;

use backend::Isa;
use base::Id;
use regalloc2::checker::Checker;
use regalloc2::{
    Algorithm, Block, Inst, InstRange, MachineEnv, OperandConstraint, OperandKind, OperandPos,
    Output, PReg, PRegSet, RegClass, RegallocOptions, VReg,
};

use crate::vcode::op::TIED;
use crate::vcode::{Base, IntOperand, Opcode, RegisterType, Terminator, VCode, VRegId};

const RAX: usize = 0;
const RDX: usize = 2;
const RSP: usize = 4;
/// The registers of the kernel ABI's arguments: rdi, rsi, rdx.
pub(crate) const ARGUMENTS: [usize; 3] = [7, 6, RDX];
/// The registers that a function of the System V ABI must preserve: rbx, rbp, r12 to r15.
pub(crate) const CALLEE_SAVED: [usize; 6] = [3, 5, 12, 13, 14, 15];

/// The classes in the order of their numbers.
const CLASSES: [RegClass; 3] = [RegClass::Int, RegClass::Float, RegClass::Vector];

fn place(register: u8, class: RegClass) -> regalloc2::Allocation {
    regalloc2::Allocation::reg(PReg::new(register.into(), class))
}

/// The class of the registers that hold values of a type.
pub(crate) fn class(ty: RegisterType) -> RegClass {
    match ty {
        RegisterType::Int => RegClass::Int,
        RegisterType::Mask => RegClass::Vector,
        RegisterType::V128 | RegisterType::V256 | RegisterType::V512 => RegClass::Float,
    }
}

/// An operand of an instruction.
#[derive(Clone, Copy)]
struct Operand {
    value: u32,
    class: RegClass,
    role: Role,
}

/// What an instruction does with an operand. Results come behind what it reads.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    Use,
    /// Read in this register.
    UseIn(u8),
    /// Read until the results are written.
    UseToEnd,
    Result,
    /// Written to this register.
    ResultIn(u8),
    /// Written over the operand of this number.
    ResultOver(u8),
}

impl Operand {
    fn value(self) -> usize {
        self.value as usize
    }

    fn is_result(self) -> bool {
        matches!(self.role, Role::Result | Role::ResultIn(_) | Role::ResultOver(_))
    }

    /// As `regalloc2` has it.
    fn told(self) -> regalloc2::Operand {
        let vreg = VReg::new(self.value(), self.class);
        let register = |number: u8| PReg::new(number.into(), self.class);
        let result = |constraint| {
            regalloc2::Operand::new(vreg, constraint, OperandKind::Def, OperandPos::Late)
        };
        match self.role {
            Role::Use => regalloc2::Operand::reg_use(vreg),
            Role::UseIn(number) => regalloc2::Operand::reg_fixed_use(vreg, register(number)),
            Role::UseToEnd => regalloc2::Operand::reg_use_at_end(vreg),
            Role::Result => result(OperandConstraint::Reg),
            Role::ResultIn(number) => result(OperandConstraint::FixedReg(register(number))),
            Role::ResultOver(number) => result(OperandConstraint::Reuse(number.into())),
        }
    }
}

/// A function flattened to numbered instructions. The first of the entry block defines the kernel's
/// arguments; the last of each block is its terminator.
struct Flat<'a> {
    function: &'a VCode,
    /// Where each block's instructions start, and the end of the last.
    starts: Vec<usize>,
    operands: Vec<Operand>,
    /// Where each instruction's operands start, and the end of the last.
    operand_starts: Vec<usize>,
    /// The instructions that change more registers than their results'.
    clobbers: Vec<(usize, PRegSet)>,
    params: Vec<Vec<VReg>>,
    arguments: Vec<Vec<VReg>>,
    successors: Vec<Vec<Block>>,
    predecessors: Vec<Vec<Block>>,
    /// Spill slots of 8 bytes that a vector takes.
    vector_slots: usize,
}

impl<'a> Flat<'a> {
    fn new(function: &'a VCode, isa: Isa) -> Flat<'a> {
        let count = function.blocks.len();
        let insts: usize = function.blocks.values().map(|block| block.insts.len() + 1).sum();
        let mut flat = Flat {
            function,
            starts: Vec::with_capacity(count + 1),
            operands: Vec::with_capacity(3 * insts),
            operand_starts: Vec::with_capacity(insts + 2),
            clobbers: Vec::new(),
            params: Vec::with_capacity(count),
            arguments: Vec::with_capacity(count),
            successors: Vec::with_capacity(count),
            predecessors: vec![Vec::new(); count],
            vector_slots: if isa.has_avx512() { 8 } else { 4 },
        };
        for (id, block) in function.blocks.iter() {
            flat.starts.push(flat.operand_starts.len());
            if id.index() == 0 {
                flat.begin();
                for (value, register) in block.params.iter().zip(ARGUMENTS) {
                    flat.operand(*value, Role::ResultIn(register as u8));
                }
                flat.params.push(Vec::new());
            } else {
                flat.params.push(block.params.iter().map(|value| flat.vreg(*value)).collect());
            }
            for inst in &block.insts {
                flat.inst(inst);
            }
            flat.terminator(&block.end);
            let successors: Vec<Block> =
                block.end.successors().map(|to| Block::new(to.index())).collect();
            for to in &successors {
                flat.predecessors[to.index()].push(Block::new(id.index()));
            }
            flat.successors.push(successors);
        }
        flat.starts.push(flat.operand_starts.len());
        flat.operand_starts.push(flat.operands.len());
        flat
    }

    fn vreg(&self, value: VRegId) -> VReg {
        VReg::new(value.index(), class(self.function.values[value]))
    }

    /// The class of a value's registers.
    fn class_of(&self, value: usize) -> RegClass {
        class(self.function.values[VRegId::new(value)])
    }

    fn begin(&mut self) {
        self.operand_starts.push(self.operands.len());
    }

    fn operand(&mut self, value: VRegId, role: Role) {
        let class = class(self.function.values[value]);
        self.operands.push(Operand { value: value.index() as u32, class, role });
    }

    fn inst(&mut self, inst: &crate::vcode::Inst) {
        self.begin();
        let divides = matches!(
            inst.op,
            Opcode::IntDivSigned
                | Opcode::IntRemSigned
                | Opcode::IntDivUnsigned
                | Opcode::IntRemUnsigned
        );
        for (index, value) in inst.args.iter().enumerate() {
            let role = match (divides, index) {
                (true, 0) => Role::UseIn(RAX as u8),
                (true, _) => Role::UseToEnd,
                _ => Role::Use,
            };
            self.operand(value, role);
        }
        if let Some(mask) = inst.mask {
            self.operand(mask, Role::Use);
        }
        if let Some(address) = &inst.address {
            if let Base::Value(base) = address.base {
                self.operand(base, Role::Use);
            }
            if let Some((index, _)) = address.index {
                self.operand(index, Role::Use);
            }
        }
        if let Some(result) = inst.result {
            let role = match inst.op {
                _ if divides => {
                    let remainder =
                        matches!(inst.op, Opcode::IntRemSigned | Opcode::IntRemUnsigned);
                    let (result, other) = if remainder { (RDX, RAX) } else { (RAX, RDX) };
                    let clobbered = PReg::new(other, RegClass::Int);
                    let at = self.operand_starts.len() - 1;
                    self.clobbers.push((at, PRegSet::empty().with(clobbered)));
                    Role::ResultIn(result as u8)
                }
                op if op.has(TIED) => Role::ResultOver(0),
                _ => Role::Result,
            };
            self.operand(result, role);
        }
        if let Some(lost) = inst.lost {
            // The mask is the last of the three arguments.
            self.operand(lost, Role::ResultOver(2));
        }
    }

    fn terminator(&mut self, end: &Terminator) {
        self.begin();
        let arguments = match end {
            Terminator::Jump(_, arguments) => {
                arguments.iter().map(|value| self.vreg(*value)).collect()
            }
            Terminator::Branch { left, right, .. } => {
                self.operand(*left, Role::Use);
                if let IntOperand::Value(right) = right {
                    self.operand(*right, Role::Use);
                }
                Vec::new()
            }
            Terminator::Open | Terminator::Return(_) => Vec::new(),
        };
        self.arguments.push(arguments);
    }

    /// Whether the instruction is the last of its block, and the block.
    fn ends(&self, inst: Inst) -> Option<usize> {
        self.starts[1..].binary_search(&(inst.index() + 1)).ok()
    }

    fn count(&self) -> usize {
        self.operand_starts.len() - 1
    }

    fn blocks(&self) -> usize {
        self.params.len()
    }

    fn values(&self) -> usize {
        self.function.values.len()
    }

    /// The operands of an instruction.
    fn operands_of(&self, inst: usize) -> &[Operand] {
        &self.operands[self.operand_starts[inst]..self.operand_starts[inst + 1]]
    }

    /// The instructions of a block.
    fn insts(&self, block: usize) -> std::ops::Range<usize> {
        self.starts[block]..self.starts[block + 1]
    }

    /// Slots of 8 bytes that a value of a class takes.
    fn slot_size(&self, class: RegClass) -> usize {
        match class {
            RegClass::Int | RegClass::Vector => 1,
            RegClass::Float => self.vector_slots,
        }
    }
}

/// The function as `regalloc2` asks for it.
struct Told<'a> {
    flat: &'a Flat<'a>,
    operands: Vec<regalloc2::Operand>,
}

impl<'a> Told<'a> {
    fn new(flat: &'a Flat<'a>) -> Told<'a> {
        Told { flat, operands: flat.operands.iter().map(|operand| operand.told()).collect() }
    }
}

impl regalloc2::Function for Told<'_> {
    fn num_insts(&self) -> usize {
        self.flat.count()
    }

    fn num_blocks(&self) -> usize {
        self.flat.blocks()
    }

    fn entry_block(&self) -> Block {
        Block::new(0)
    }

    fn block_insns(&self, block: Block) -> InstRange {
        let insts = self.flat.insts(block.index());
        InstRange::new(Inst::new(insts.start), Inst::new(insts.end))
    }

    fn block_succs(&self, block: Block) -> &[Block] {
        &self.flat.successors[block.index()]
    }

    fn block_preds(&self, block: Block) -> &[Block] {
        &self.flat.predecessors[block.index()]
    }

    fn block_params(&self, block: Block) -> &[VReg] {
        &self.flat.params[block.index()]
    }

    fn is_ret(&self, inst: Inst) -> bool {
        self.flat.ends(inst).is_some_and(|block| self.flat.successors[block].is_empty())
    }

    fn is_branch(&self, inst: Inst) -> bool {
        self.flat.ends(inst).is_some_and(|block| !self.flat.successors[block].is_empty())
    }

    fn branch_blockparams(&self, block: Block, _: Inst, _: usize) -> &[VReg] {
        &self.flat.arguments[block.index()]
    }

    fn inst_operands(&self, inst: Inst) -> &[regalloc2::Operand] {
        let starts = &self.flat.operand_starts;
        &self.operands[starts[inst.index()]..starts[inst.index() + 1]]
    }

    fn inst_clobbers(&self, inst: Inst) -> PRegSet {
        let clobbers = &self.flat.clobbers;
        let found = clobbers.binary_search_by_key(&inst.index(), |(at, _)| *at);
        found.map_or(PRegSet::empty(), |at| clobbers[at].1)
    }

    fn num_vregs(&self) -> usize {
        self.flat.values()
    }

    fn spillslot_size(&self, class: RegClass) -> usize {
        self.flat.slot_size(class)
    }
}

/// The registers that may be used: all integer registers but rsp, 16 or 32 vectors, k1 to k7.
fn environment(isa: Isa) -> MachineEnv {
    let set = |class: RegClass, registers: &mut dyn Iterator<Item = usize>| {
        registers.map(|register| PReg::new(register, class)).collect::<PRegSet>()
    };
    let wide = isa.has_avx512();
    let is_free = |register: &usize| *register != RSP && !CALLEE_SAVED.contains(register);
    MachineEnv {
        preferred_regs_by_class: [
            set(RegClass::Int, &mut (0..16).filter(is_free)),
            set(RegClass::Float, &mut (0..if wide { 32 } else { 16 })),
            set(RegClass::Vector, &mut (1..8)),
        ],
        non_preferred_regs_by_class: [
            set(RegClass::Int, &mut CALLEE_SAVED.iter().copied()),
            PRegSet::empty(),
            PRegSet::empty(),
        ],
        scratch_by_class: [None; 3],
        fixed_stack_slots: Vec::new(),
    }
}

/// What the allocator decided, and how instructions are numbered in it.
pub(crate) struct Allocation {
    /// The allocator's output.
    pub(crate) output: Output,
    /// Where each block's instructions start, and the end of the last. The entry block has one more
    /// at its start, for the kernel's arguments; every block has one more at its end.
    pub(crate) starts: Vec<usize>,
}

/// Gives every value a register or a place in the frame.
///
/// # Errors
/// The allocator's reason, which is always a broken invariant.
pub(crate) fn allocate(function: &VCode, isa: Isa) -> Result<Allocation, String> {
    let flat = Flat::new(function, isa);
    let environment = environment(isa);
    let checked = cfg!(debug_assertions);
    let options =
        RegallocOptions { verbose_log: false, validate_ssa: checked, algorithm: Algorithm::Ion };
    let output = match scan::scan(&flat, &environment) {
        Some(output) => output,
        None => regalloc2::run(&Told::new(&flat), &environment, &options)
            .map_err(|error| error.to_string())?,
    };
    if checked {
        check(&flat, &environment, &output)?;
    }
    Ok(Allocation { output, starts: flat.starts })
}

/// Runs `regalloc2`'s checker.
fn check(flat: &Flat<'_>, environment: &MachineEnv, output: &Output) -> Result<(), String> {
    let told = Told::new(flat);
    let mut checker = Checker::new(&told, environment);
    checker.prepare(output);
    checker.run().map_err(|errors| format!("{errors:?}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The scan's answer for a random kernel on a machine with so many registers of each class.
    fn scanned(seed: u64, depth: u32, most: usize) -> Result<Option<Output>, String> {
        let (kernel, isa) = (testkit::random_kernel(seed, depth), Isa::X86Avx512);
        let selected =
            crate::select::select(&kernel, isa, false).map_err(|error| format!("{error:?}"))?;
        let mut environment = environment(isa);
        let few = |set: &mut PRegSet, most: usize| *set = set.into_iter().take(most).collect();
        environment.preferred_regs_by_class.iter_mut().for_each(|set| few(set, most));
        environment.non_preferred_regs_by_class.iter_mut().for_each(|set| few(set, 2));
        let flat = Flat::new(&selected.function, isa);
        let output = scan::scan(&flat, &environment);
        output.iter().try_for_each(|output| check(&flat, &environment, output))?;
        Ok(output)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
        #[test]
        fn scans_are_right_with_few_registers(seed: u64, depth in 0u32..4, most in 2usize..8) {
            prop_assert_eq!(scanned(seed, depth, most).err(), None);
        }
    }

    #[test]
    fn with_few_registers_values_wait_in_the_frame() {
        let spills = |seed| {
            scanned(seed, 3, 3).is_ok_and(|it| it.is_some_and(|output| output.num_spillslots > 0))
        };
        assert!((0..40).filter(|&seed| spills(seed)).count() > 20);
    }
}
