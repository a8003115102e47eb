//! Emission: allocated vcode to bytes.
//!
//! Blocks are laid out in their order; blocks that only jump vanish. Constants stand behind the
//! code, reached relative to the instruction pointer, each aligned to its size.
//!
//! The frame, where there is one, is aligned to 64 bytes: the area of `Base::Frame`, the spill
//! slots, and the caller's stack pointer. Callee-saved registers are pushed above it.

mod instruction;
pub(crate) mod table;

use backend::Isa;
use base::{Id, SecondaryMap};
use iced_x86::{Code, Encoder, Instruction, Register};
use regalloc2::{Edit, Inst as InstIndex, InstPosition, ProgPoint, RegClass};

use crate::allocate::{Allocation, CALLEE_SAVED};
use crate::vcode::{
    Base, BlockId, Cond, FRAME_BYTES, Function, IntOperand, PoolId, Terminator, ValueId,
};

/// Code with its constants.
pub(crate) struct Emitted {
    /// Code, then constants.
    pub(crate) bytes: Vec<u8>,
    /// How many of the bytes are code.
    pub(crate) code_bytes: usize,
}

/// Emits a function.
///
/// # Errors
/// What the encoder refused, which is always a broken invariant.
pub(crate) fn emit(
    function: &Function,
    allocation: &Allocation,
    isa: Isa,
) -> Result<Emitted, String> {
    let mut emitter = Emitter::new(function, allocation, isa);
    emitter.function()?;
    Ok(emitter.finish())
}

/// Where a value is.
type Place = regalloc2::Allocation;

struct Emitter<'a> {
    function: &'a Function,
    allocation: &'a Allocation,
    isa: Isa,
    encoder: Encoder,
    /// Bytes emitted so far.
    position: usize,
    /// Where each block starts, once it is emitted.
    starts: SecondaryMap<BlockId, Option<usize>>,
    /// Jumps to blocks not yet emitted: where the 32-bit distance stands, and the block.
    jumps: Vec<(usize, BlockId)>,
    /// Uses of constants: where the 32-bit distance stands, where the instruction ends, which.
    constants: Vec<(usize, usize, PoolId)>,
    frame: Frame,
    /// The register that the flags describe as a result of an addition.
    flags: Option<Register>,
}

/// The frame's layout, in bytes from the stack pointer.
struct Frame {
    saved: Vec<usize>,
    spills: usize,
    caller: usize,
    size: usize,
}

impl Frame {
    fn new(function: &Function, allocation: &Allocation) -> Frame {
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
    fn new(function: &'a Function, allocation: &'a Allocation, isa: Isa) -> Emitter<'a> {
        Emitter {
            function,
            allocation,
            isa,
            encoder: Encoder::new(64),
            position: 0,
            starts: SecondaryMap::new(),
            jumps: Vec::new(),
            constants: Vec::new(),
            frame: Frame::new(function, allocation),
            flags: None,
        }
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
            if block.aligned {
                self.align(32);
            }
            self.starts[id] = Some(self.position);
            self.flags = None;
            let first = self.allocation.starts[id.index()];
            let mut index = first;
            // Skip the moves of blocks that vanished: they have none that do anything.
            while edits.next_if(|(point, _)| point.inst().index() < first).is_some() {}
            let mut moves = |emitter: &mut Self, index: usize, when: InstPosition| {
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
                moves(self, index, InstPosition::Before)?;
                let places = self.allocation.output.inst_allocs(InstIndex::new(index));
                self.instruction(inst, places)
                    .map_err(|error| format!("{error} in {inst:?} at {places:?}"))?;
                moves(self, index, InstPosition::After)?;
                index += 1;
            }
            moves(self, index, InstPosition::Before)?;
            let next = order.get(position + 1).copied();
            self.terminator(&block.end, index, next)?;
        }
        Ok(())
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
            self.encode(&with1(Code::Push_r64, register))?;
        }
        if self.frame.size > 0 {
            let size = self.frame.size as i32;
            self.encode(&with2(Code::Mov_r64_rm64, Register::RAX, Register::RSP))?;
            self.encode(&with_imm(Code::Sub_rm64_imm32, Register::RSP, size))?;
            self.encode(&with_imm(Code::And_rm64_imm8, Register::RSP, -64))?;
            let mut store = memory_at(Register::RSP, self.frame.caller as i64, 0);
            store.set_code(Code::Mov_rm64_r64);
            store.set_op1_register(Register::RAX);
            self.encode(&store)?;
        }
        Ok(())
    }

    fn epilogue(&mut self, code: i32) -> Result<(), String> {
        self.encode(&Instruction::with(Code::VEX_Vzeroupper))?;
        if self.frame.size > 0 {
            let mut load = memory_at(Register::RSP, self.frame.caller as i64, 1);
            load.set_code(Code::Mov_r64_rm64);
            load.set_op0_register(Register::RSP);
            self.encode(&load)?;
        }
        for index in (0..self.frame.saved.len()).rev() {
            let register = instruction::int_register(self.frame.saved[index]);
            self.encode(&with1(Code::Pop_r64, register))?;
        }
        if code == 0 {
            self.encode(&with2(Code::Xor_r32_rm32, Register::EAX, Register::EAX))?;
        } else {
            self.encode(&with_imm(Code::Mov_r32_imm32, Register::EAX, code))?;
        }
        self.encode(&Instruction::with(Code::Retnq))
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
            IntOperand::Imm(0) if matches!(cond, Cond::Equal | Cond::NotEqual) => {
                if self.flags == Some(left) {
                    return Ok(());
                }
                self.encode(&with2(Code::Test_rm64_r64, left, left))
            }
            IntOperand::Imm(imm) if i8::try_from(*imm).is_ok() => {
                self.encode(&with_imm(Code::Cmp_rm64_imm8, left, *imm))
            }
            IntOperand::Imm(imm) => self.encode(&with_imm(Code::Cmp_rm64_imm32, left, *imm)),
            IntOperand::Value(_) => {
                let right = instruction::register(places[1], 8)?;
                self.encode(&with2(Code::Cmp_r64_rm64, left, right))
            }
        }
    }

    /// A jump, short where the block stands close above.
    fn jump(&mut self, cond: Option<Cond>, to: BlockId) {
        let code = cond.map(|cond| match cond {
            Cond::Equal => 4,
            Cond::NotEqual => 5,
            Cond::Less => 12,
            Cond::GreaterEqual => 13,
            Cond::LessEqual => 14,
            Cond::Greater => 15u8,
        });
        if let Some(start) = self.starts[to] {
            let distance = start as i64 - (self.position as i64 + 2);
            if let Ok(distance) = i8::try_from(distance) {
                self.raw(&[code.map_or(0xeb, |code| 0x70 | code), distance as u8]);
                return;
            }
        }
        match code {
            None => self.raw(&[0xe9]),
            Some(code) => self.raw(&[0x0f, 0x80 | code]),
        }
        self.jumps.push((self.position, to));
        self.raw(&[0; 4]);
    }

    fn raw(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.encoder.write_u8(*byte);
        }
        self.position += bytes.len();
    }

    /// Fills up with instructions that do nothing.
    fn align(&mut self, to: usize) {
        const NOPS: [&[u8]; 9] = [
            &[0x90],
            &[0x66, 0x90],
            &[0x0f, 0x1f, 0x00],
            &[0x0f, 0x1f, 0x40, 0x00],
            &[0x0f, 0x1f, 0x44, 0x00, 0x00],
            &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00],
            &[0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00],
            &[0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
            &[0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
        ];
        let mut rest = self.position.next_multiple_of(to) - self.position;
        while rest > 0 {
            let nop = NOPS[rest.min(NOPS.len()) - 1];
            self.raw(nop);
            rest -= nop.len();
        }
    }

    fn encode(&mut self, instruction: &Instruction) -> Result<(), String> {
        let length = self
            .encoder
            .encode(instruction, self.position as u64)
            .map_err(|error| error.to_string())?;
        self.position += length;
        self.flags = None;
        Ok(())
    }

    /// Encodes an instruction whose memory operand is a constant, or not.
    fn encode_with(
        &mut self,
        instruction: &Instruction,
        constant: Option<PoolId>,
    ) -> Result<(), String> {
        let start = self.position;
        self.encode(instruction)?;
        if let Some(constant) = constant {
            let offset = self.encoder.get_constant_offsets().displacement_offset();
            self.constants.push((start + offset, self.position, constant));
        }
        Ok(())
    }

    fn finish(mut self) -> Emitted {
        let mut bytes = self.encoder.take_buffer();
        let code_bytes = bytes.len();
        let patch = |bytes: &mut Vec<u8>, at: usize, distance: i64| {
            bytes[at..at + 4].copy_from_slice(&(distance as i32).to_le_bytes());
        };
        for (at, block) in &self.jumps {
            let target = self.starts[*block].unwrap_or(0);
            patch(&mut bytes, *at, target as i64 - (*at as i64 + 4));
        }
        let mut places: SecondaryMap<PoolId, usize> = SecondaryMap::new();
        for (id, constant) in self.function.pool.iter() {
            let aligned = bytes.len().next_multiple_of(constant.len().next_power_of_two().min(64));
            bytes.resize(aligned, 0);
            places[id] = aligned;
            bytes.extend_from_slice(constant);
        }
        for (at, end, id) in &self.constants {
            patch(&mut bytes, *at, places[*id] as i64 - *end as i64);
        }
        Emitted { bytes, code_bytes }
    }

    fn place_of(places: &[Place], index: usize) -> Result<Place, String> {
        places.get(index).copied().ok_or_else(|| "an operand without a place".to_string())
    }

    fn bytes_of(&self, value: ValueId) -> usize {
        self.function.values[value].vector_bytes()
    }
}

fn with1(code: Code, register: Register) -> Instruction {
    let mut instruction = Instruction::default();
    instruction.set_code(code);
    instruction.set_op0_register(register);
    instruction
}

fn with2(code: Code, first: Register, second: Register) -> Instruction {
    let mut instruction = with1(code, first);
    instruction.set_op1_register(second);
    instruction
}

fn with_imm(code: Code, register: Register, imm: i32) -> Instruction {
    use iced_x86::OpKind;
    let mut instruction = with1(code, register);
    let kind = match code {
        Code::Mov_r32_imm32 => OpKind::Immediate32,
        Code::Cmp_rm64_imm8 | Code::And_rm64_imm8 | Code::Add_rm64_imm8 => OpKind::Immediate8to64,
        Code::Shl_rm64_imm8 | Code::Shr_rm64_imm8 | Code::Sar_rm64_imm8 => OpKind::Immediate8,
        _ => OpKind::Immediate32to64,
    };
    instruction.set_op1_kind(kind);
    match kind {
        OpKind::Immediate32 => instruction.set_immediate32(imm as u32),
        OpKind::Immediate8 => instruction.set_immediate8(imm as u8),
        OpKind::Immediate8to64 => instruction.set_immediate8to64(i64::from(imm)),
        _ => instruction.set_immediate32to64(i64::from(imm)),
    }
    instruction
}

/// An instruction without code whose operand `operand` is `[base + displacement]`.
fn memory_at(base: Register, displacement: i64, operand: u32) -> Instruction {
    let mut instruction = Instruction::default();
    instruction.set_op_kind(operand, iced_x86::OpKind::Memory);
    instruction.set_memory_base(base);
    instruction.set_memory_displacement64(displacement as u64);
    instruction.set_memory_displ_size(u32::from(displacement != 0));
    instruction
}
