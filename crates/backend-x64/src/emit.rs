//! Emission: allocated vcode to bytes.
//!
//! Blocks are laid out in their order; blocks that only jump vanish. Constants stand behind the
//! code, reached relative to the instruction pointer, each aligned to its size.
//!
//! The frame, where there is one, is aligned to 64 bytes: the area of `Base::Frame`, the spill
//! slots, and the caller's stack pointer. Callee-saved registers are pushed above it.

mod encode;
mod forms;
mod instruction;
mod lookup;
mod procedure;
mod table;
mod writer;

use backend::Isa;
use base::{Id, SecondaryMap};
use iced_x86::{Code, Register};
use regalloc2::{Edit, Inst as InstIndex, InstPosition, ProgPoint, RegClass};

use crate::allocate::{Allocation, CALLEE_SAVED};
use crate::vcode::{
    Base, BlockId, Cond, FRAME_BYTES, IntOperand, MadeFor, PoolId, Terminator, VCode, VRegId,
};
use encode::{Memory, OpMask, Operand};
use writer::{CodePlace, CodeWriter};

pub(crate) use procedure::emit_procedure;

/// The first byte of every instruction of AVX-512.
const EVEX: u8 = 0x62;

/// Code with its constants.
pub(crate) struct Emitted {
    /// Code, then constants.
    pub(crate) bytes: Vec<u8>,
    /// What they must be aligned to.
    pub(crate) alignment: usize,
    /// How many of the bytes are code.
    pub(crate) code_bytes: usize,
    /// What the code was made for: each from its offset on.
    pub(crate) statements: Vec<(usize, Option<u32>)>,
}

/// Emits a function.
///
/// # Errors
/// What the encoder refused, which is always a broken invariant.
pub(crate) fn emit(function: &VCode, allocation: &Allocation, isa: Isa) -> Result<Emitted, String> {
    let mut emitter = Emitter::new(function, allocation, isa);
    emitter.function()?;
    emitter.finish()
}

/// Where a value is.
type Place = regalloc2::Allocation;

struct Emitter<'a> {
    function: &'a VCode,
    allocation: &'a Allocation,
    isa: Isa,
    /// What has been emitted so far; each block has the label of its number.
    code: CodeWriter,
    /// Uses of constants: where the instruction ends, how far before that the 32-bit distance
    /// stands, which.
    constants: Vec<(CodePlace, usize, PoolId)>,
    frame: Frame,
    /// What the code so far was made for: each from its place on.
    statements: Vec<(CodePlace, Option<u32>)>,
    /// The register that the flags describe as a result of an addition.
    flags: Option<Register>,
}

/// Loops of so many instructions take several lines of any cache: they begin where they begin.
const LONG_LOOP: usize = 40;

/// Kernels are entered at a multiple of this many bytes.
const ENTRY_ALIGNMENT: usize = 16;

/// Bytes of a page of the stack.
const PAGE: i32 = 4096;

/// The frame's layout, in bytes from the stack pointer.
struct Frame {
    saved: Vec<usize>,
    spills: usize,
    caller: usize,
    size: usize,
}

impl Frame {
    fn new(function: &VCode, allocation: &Allocation) -> Frame {
        let uses_area = function
            .blocks
            .values()
            .flat_map(|block| &block.insts)
            .any(|inst| inst.address.is_some_and(|address| address.base == Base::Frame));
        let spills = if uses_area { FRAME_BYTES } else { 0 };
        let caller = spills + 8 * allocation.output.num_spillslots;
        let size = if caller == 0 { 0 } else { (caller + 8).next_multiple_of(64) };
        let mut used = [false; 16];
        let mut mark = |place: Place| {
            if let Some(register) = place.as_reg().filter(|reg| reg.class() == RegClass::Int) {
                used[register.hw_enc()] = true;
            }
        };
        allocation.output.allocs.iter().copied().for_each(&mut mark);
        for (_, Edit::Move { from, to }) in &allocation.output.edits {
            mark(*from);
            mark(*to);
        }
        let saved = CALLEE_SAVED.into_iter().filter(|register| used[*register]).collect();
        Frame { saved, spills, caller, size }
    }
}

impl<'a> Emitter<'a> {
    fn new(function: &'a VCode, allocation: &'a Allocation, isa: Isa) -> Emitter<'a> {
        let mut code = CodeWriter::default();
        function.blocks.ids().for_each(|_| _ = code.label());
        let statements = vec![(code.here(), None)];
        let frame = Frame::new(function, allocation);
        let constants = Vec::new();
        Emitter { function, allocation, isa, code, constants, frame, statements, flags: None }
    }

    fn function(&mut self) -> Result<(), String> {
        self.prologue()?;
        let order: Vec<BlockId> = self
            .function
            .blocks
            .ids()
            .filter(|block| block.index() == 0 || self.forwards_to(*block).is_none())
            .collect();
        let mut edits = self.allocation.output.edits.iter().peekable();
        for (position, &id) in order.iter().enumerate() {
            let block = &self.function.blocks[id];
            if block.aligned && self.is_short(&order[position..]) {
                self.code.align(32);
            }
            self.code.place(id.index());
            self.flags = None;
            let first = self.allocation.starts[id.index()];
            let mut index = first;
            // Skip the moves of blocks that vanished: they have none that do anything.
            while edits.next_if(|(point, _)| point.inst().index() < first).is_some() {}
            let mut moves = |emitter: &mut Self, index: usize, when: InstPosition| {
                if edits.peek().is_none_or(|(point, _)| point.inst().index() > index) {
                    return Ok(());
                }
                let point = ProgPoint::new(InstIndex::new(index), when);
                while let Some((_, Edit::Move { from, to })) = edits.next_if(|edit| edit.0 <= point)
                {
                    emitter.move_between(*from, *to)?;
                }
                Ok::<(), String>(())
            };
            if id.index() == 0 {
                moves(self, index, InstPosition::After)?;
                index += 1;
            }
            for inst in &block.insts {
                self.made_for(inst.made_for);
                moves(self, index, InstPosition::Before)?;
                let places = self.allocation.output.inst_allocs(InstIndex::new(index));
                self.instruction(inst, places)
                    .map_err(|error| format!("{error} in {inst:?} at {places:?}"))?;
                moves(self, index, InstPosition::After)?;
                index += 1;
            }
            self.made_for(block.end_for);
            moves(self, index, InstPosition::Before)?;
            let next = order.get(position + 1).copied();
            self.terminator(&block.end, index, next)?;
        }
        Ok(())
    }

    /// Whether the loop whose blocks these begin with has so few instructions that it matters where
    /// the first of them lies.
    fn is_short(&self, blocks: &[BlockId]) -> bool {
        let is_last = |block: &&BlockId| match &self.function.blocks[**block].end {
            Terminator::Jump(to, _) => self.resolve(*to) == blocks[0],
            Terminator::Branch { then, otherwise, .. } => {
                [then, otherwise].into_iter().any(|to| self.resolve(*to) == blocks[0])
            }
            Terminator::Open | Terminator::Return(_) => false,
        };
        let mut count = 0;
        for block in blocks {
            count += self.function.blocks[*block].insts.len();
            if count >= LONG_LOOP || is_last(&block) {
                break;
            }
        }
        count < LONG_LOOP
    }

    /// What comes now was made for this.
    fn made_for(&mut self, MadeFor(statement): MadeFor) {
        let last = self.statements.len() - 1;
        let here = self.code.here();
        if self.statements[last].1 == statement {
            return;
        }
        match self.statements[last].0 == here {
            true => self.statements[last].1 = statement,
            false => self.statements.push((here, statement)),
        }
    }

    /// Where a block leads, if it does nothing but jump and its jump moves nothing.
    fn forwards_to(&self, block: BlockId) -> Option<BlockId> {
        let Terminator::Jump(to, _) = &self.function.blocks[block].end else {
            return None;
        };
        let first = self.allocation.starts[block.index()];
        if *to == block || self.allocation.starts[block.index() + 1] != first + 1 {
            return None;
        }
        let edits = &self.allocation.output.edits;
        let from = edits.partition_point(|(point, _)| point.inst().index() < first);
        let moves = edits[from..]
            .iter()
            .take_while(|(point, _)| point.inst().index() == first)
            .any(|(_, Edit::Move { from, to })| from != to);
        (!moves).then_some(*to)
    }

    /// The block that a jump to a block ends up in.
    fn resolve(&self, mut block: BlockId) -> BlockId {
        // Blocks that only jump cannot form a circle: a loop's header has more in it.
        while let Some(to) = self.forwards_to(block) {
            block = to;
        }
        block
    }

    fn prologue(&mut self) -> Result<(), String> {
        for index in 0..self.frame.saved.len() {
            let register = instruction::int_register(self.frame.saved[index]);
            self.encode(Code::Push_r64, &[register.into()])?;
        }
        if self.frame.size > 0 {
            let size = self.frame.size as i32;
            self.encode(Code::Mov_r64_rm64, &[Register::RAX.into(), Register::RSP.into()])?;
            // A frame of pages is touched page by page, from above: some systems make the pages of
            // a stack only in this order.
            for page in 1..=size / PAGE {
                let touched = Memory::at(Register::RSP, -page * PAGE);
                let operands = [Operand::Memory, Register::RAX.into()];
                self.put(Code::Mov_rm64_r64, &operands, Some(touched), None)?;
            }
            self.encode_imm(Code::Sub_rm64_imm32, Register::RSP, size)?;
            self.encode_imm(Code::And_rm64_imm8, Register::RSP, -64)?;
            let caller = Memory::at(Register::RSP, self.frame.caller as i32);
            let operands = [Operand::Memory, Register::RAX.into()];
            self.put(Code::Mov_rm64_r64, &operands, Some(caller), None)?;
        }
        Ok(())
    }

    fn epilogue(&mut self, code: i32) -> Result<(), String> {
        self.encode(Code::VEX_Vzeroupper, &[])?;
        if self.frame.size > 0 {
            let caller = Memory::at(Register::RSP, self.frame.caller as i32);
            let operands = [Register::RSP.into(), Operand::Memory];
            self.put(Code::Mov_r64_rm64, &operands, Some(caller), None)?;
        }
        for index in (0..self.frame.saved.len()).rev() {
            let register = instruction::int_register(self.frame.saved[index]);
            self.encode(Code::Pop_r64, &[register.into()])?;
        }
        if code == 0 {
            self.encode(Code::Xor_r32_rm32, &[Register::EAX.into(); 2])?;
        } else {
            self.encode_imm(Code::Mov_r32_imm32, Register::EAX, code)?;
        }
        self.encode(Code::Retnq, &[])
    }

    fn terminator(
        &mut self,
        end: &Terminator,
        index: usize,
        next: Option<BlockId>,
    ) -> Result<(), String> {
        match end {
            Terminator::Open => Err("a block without an end".to_string()),
            Terminator::Return(code) => self.epilogue(*code),
            Terminator::Jump(to, _) => {
                let to = self.resolve(*to);
                if next != Some(to) {
                    self.jump(None, to);
                }
                Ok(())
            }
            Terminator::Branch { cond, left: _, right, then, otherwise } => {
                self.comparison(*cond, right, index)?;
                let (then, otherwise) = (self.resolve(*then), self.resolve(*otherwise));
                if next == Some(then) {
                    self.jump(Some(cond.negated()), otherwise);
                } else {
                    self.jump(Some(*cond), then);
                    if next != Some(otherwise) {
                        self.jump(None, otherwise);
                    }
                }
                Ok(())
            }
        }
    }

    fn comparison(&mut self, cond: Cond, right: &IntOperand, index: usize) -> Result<(), String> {
        let places = self.allocation.output.inst_allocs(InstIndex::new(index));
        let left = instruction::register(places[0], 8)?;
        match right {
            IntOperand::Imm(0) => {
                let is_known = matches!(cond, Cond::Equal | Cond::NotEqual);
                if is_known && self.flags == Some(left) {
                    return Ok(());
                }
                self.encode(Code::Test_rm64_r64, &[left.into(); 2])
            }
            IntOperand::Imm(imm) if i8::try_from(*imm).is_ok() => {
                self.encode_imm(Code::Cmp_rm64_imm8, left, *imm)
            }
            IntOperand::Imm(imm) => self.encode_imm(Code::Cmp_rm64_imm32, left, *imm),
            IntOperand::Value(_) => {
                let right = instruction::register(places[1], 8)?;
                self.encode(Code::Cmp_r64_rm64, &[left.into(), right.into()])
            }
        }
    }

    fn jump(&mut self, cond: Option<Cond>, to: BlockId) {
        let condition = cond.map(|cond| match cond {
            Cond::Equal => 4,
            Cond::NotEqual => 5,
            Cond::Less => 12,
            Cond::GreaterEqual => 13,
            Cond::LessEqual => 14,
            Cond::Greater => 15u8,
        });
        self.code.jump(condition, to.index());
    }

    /// Encodes an instruction on registers and immediates.
    fn encode(&mut self, code: Code, operands: &[Operand]) -> Result<(), String> {
        self.put(code, operands, None, None)
    }

    fn encode_imm(&mut self, code: Code, register: Register, imm: i32) -> Result<(), String> {
        self.encode(code, &[register.into(), Operand::Imm(imm.into())])
    }

    /// Encodes an instruction from its operands.
    fn put(
        &mut self,
        code: Code,
        operands: &[Operand],
        memory: Option<Memory>,
        mask: OpMask,
    ) -> Result<(), String> {
        let bytes = &mut self.code.bytes;
        let start = bytes.len();
        let displacement = encode::encode(bytes, code, operands, memory.as_ref(), mask)?;
        if !self.isa.has_avx512() && bytes.get(start) == Some(&EVEX) {
            let name = encode::name(code);
            return Err(format!("{name} is not among the instructions of {:?}", self.isa));
        }
        if let (Some(at), Some(constant)) = (displacement, memory.and_then(|it| it.constant)) {
            let end = self.code.here();
            self.constants.push((end, self.code.bytes.len() - at, constant));
        }
        self.flags = None;
        Ok(())
    }

    fn finish(self) -> Result<Emitted, String> {
        let mut code = self.code.finish()?;
        let mut bytes = std::mem::take(&mut code.bytes);
        let code_bytes = bytes.len();
        let mut alignment = code.alignment.max(ENTRY_ALIGNMENT);
        let mut places: SecondaryMap<PoolId, usize> = SecondaryMap::new();
        for (id, constant) in self.function.pool.iter() {
            let its = constant.len().next_power_of_two().min(64);
            alignment = alignment.max(its);
            let aligned = bytes.len().next_multiple_of(its);
            bytes.resize(aligned, 0);
            places[id] = aligned;
            bytes.extend_from_slice(constant);
        }
        for (end, before, id) in self.constants {
            let end = code.offset(end);
            let distance = places[id] as i64 - end as i64;
            bytes[end - before..][..4].copy_from_slice(&(distance as i32).to_le_bytes());
        }
        let statements = self.statements.into_iter();
        let statements = statements.map(|(place, it)| (code.offset(place), it)).collect();
        Ok(Emitted { bytes, alignment, code_bytes, statements })
    }

    fn place_of(places: &[Place], index: usize) -> Result<Place, String> {
        places.get(index).copied().ok_or_else(|| "an operand without a place".to_string())
    }

    fn bytes_of(&self, value: VRegId) -> usize {
        self.function.values[value].vector_bytes()
    }
}
