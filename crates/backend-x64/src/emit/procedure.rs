//! Procedures to bytes.
//!
//! A word is computed in `rax`; what must wait lies on the stack. The locals that loops use most
//! have registers that calls preserve, the others, and areas, places below `rbp`. That is plain,
//! and fast enough: a procedure's work is that of the kernels that it calls.
//!
//! The calling convention is System V's, for procedures and what they call.

use backend::procedure::{
    Action, AreaId, Callee, LocalId, MemoryWidth, Procedure, Word, WordOperator,
};
use base::{Id, InOrder};
use iced_x86::{Code, Register};

use super::encode::{self, Memory, Operand};
use super::writer::{CodePlace, CodeWriter};
use crate::vcode::PoolId;

/// Bytes of a procedure.
pub(crate) struct EmittedProcedure {
    pub(crate) bytes: Vec<u8>,
    /// Where distances to symbols belong: four bytes, from behind them to the symbol.
    pub(crate) references: Vec<(usize, String)>,
}

/// Registers of parameters, in order.
const PARAMETERS: [Register; 6] =
    [Register::RDI, Register::RSI, Register::RDX, Register::RCX, Register::R8, Register::R9];

/// Registers for locals: calls preserve them. Addresses from those behind take a byte more.
const PRESERVED: [Register; 5] =
    [Register::RBX, Register::R14, Register::R15, Register::R13, Register::R12];

/// Registers that small numbers reach by way of the stack, in three bytes rather than five.
const PUSHED: [Register; 6] =
    [Register::RAX, Register::RCX, Register::RDX, Register::RBX, Register::RSI, Register::RDI];

/// Bytes of a page: a stack grows by no more at once.
const PAGE: u64 = 4096;

/// How much more often a loop's body is run than what stands around it.
const TURNS: u64 = 8;

/// Emits a procedure.
///
/// # Errors
/// What the encoder refused, which is always a broken invariant.
pub(crate) fn emit_procedure(procedure: &Procedure) -> Result<EmittedProcedure, String> {
    let mut emitter = ProcedureEmitter::new(procedure);
    emitter.prologue()?;
    emitter.actions(&procedure.body)?;
    emitter.word(&Word::Number(0))?;
    emitter.code.place(EXIT);
    emitter.leave()?;
    let code = emitter.code.finish()?;
    let references = emitter.references.into_iter();
    let references = references.map(|(place, name)| (code.offset(place), name)).collect();
    Ok(EmittedProcedure { bytes: code.bytes, references })
}

/// The label of where procedures are left with what `rax` holds.
const EXIT: usize = 0;

/// Areas of so many bytes stand where instructions reach them with one byte, those used most first.
const NEAR: u64 = 64;

/// Where a local is.
#[derive(Clone, Copy)]
enum Home {
    Register(Register),
    /// Below `rbp`.
    Frame(i32),
}

/// What instructions take as it is.
#[derive(Clone, Copy)]
enum Simple {
    Number(i32),
    Home(Home),
}

struct ProcedureEmitter<'a> {
    procedure: &'a Procedure,
    code: CodeWriter,
    /// Whether each local is used, other than to pass a fault on.
    is_used: Vec<bool>,
    homes: Vec<Home>,
    areas: Vec<i32>,
    /// The registers that it must leave as they were.
    saved: Vec<Register>,
    /// Bytes below the saved registers.
    frame: u64,
    /// Ends of the loops around what is being emitted.
    loops: Vec<usize>,
    /// Where distances to symbols belong, and to which.
    references: Vec<(CodePlace, String)>,
}

impl<'a> ProcedureEmitter<'a> {
    fn new(procedure: &'a Procedure) -> ProcedureEmitter<'a> {
        let mut uses =
            Uses { locals: vec![0; procedure.locals.len()], areas: vec![0; procedure.areas.len()] };
        uses.count(&procedure.body, 1);
        let Uses { locals: uses, areas: area_uses } = uses;
        let is_used = uses.iter().map(|&uses| uses > 0).collect();
        let mut order: Vec<usize> = (0..uses.len()).filter(|&local| uses[local] > 1).collect();
        order.put_in_order_by_key(|&local| (std::cmp::Reverse(uses[local]), local));
        let saved: Vec<Register> = PRESERVED.into_iter().take(order.len()).collect();
        let mut homes = vec![None; procedure.locals.len()];
        for (&local, &register) in order.iter().zip(&saved) {
            homes[local] = Some(Home::Register(register));
        }
        let mut depth = 8 * saved.len() as u64;
        let mut below = |bytes: u64, alignment: u64| {
            depth = (depth + bytes).next_multiple_of(alignment);
            -(depth as i32)
        };
        let mut areas = vec![0; procedure.areas.len()];
        let mut ordered: Vec<AreaId> = procedure.areas.ids().collect();
        ordered
            .put_in_order_by_key(|area| (std::cmp::Reverse(area_uses[area.index()]), area.index()));
        let mut place = |near: bool, below: &mut dyn FnMut(u64, u64) -> i32| {
            for &area in &ordered {
                let (_, bytes) = procedure.areas[area];
                if near == (bytes <= NEAR) {
                    areas[area.index()] = below(bytes, 16);
                }
            }
        };
        place(true, &mut below);
        let homes = homes
            .into_iter()
            .map(|home| home.unwrap_or_else(|| Home::Frame(below(8, 8))))
            .collect();
        place(false, &mut below);
        let frame = depth.next_multiple_of(16) - 8 * saved.len() as u64;
        let mut code = CodeWriter::default();
        // The first label is EXIT.
        code.label();
        ProcedureEmitter {
            procedure,
            code,
            is_used,
            homes,
            areas,
            saved,
            frame,
            loops: Vec::new(),
            references: Vec::new(),
        }
    }

    // --- instructions ---

    fn put(
        &mut self,
        code: Code,
        operands: &[Operand],
        memory: Option<Memory>,
    ) -> Result<(), String> {
        encode::encode(&mut self.code.bytes, code, operands, memory.as_ref(), None).map(|_| ())
    }

    /// An instruction on a register and a register or memory.
    fn with(&mut self, code: Code, register: Register, other: Home) -> Result<(), String> {
        match other {
            Home::Register(other) => self.put(code, &[register.into(), other.into()], None),
            Home::Frame(offset) => {
                let memory = Memory::at(Register::RBP, offset);
                self.put(code, &[register.into(), Operand::Memory], Some(memory))
            }
        }
    }

    fn imm(&mut self, code: Code, register: Register, number: i64) -> Result<(), String> {
        let code = match code {
            Code::Add_rm64_imm32 if i8::try_from(number).is_ok() => Code::Add_rm64_imm8,
            Code::And_rm64_imm32 if i8::try_from(number).is_ok() => Code::And_rm64_imm8,
            other => other,
        };
        self.put(code, &[register.into(), Operand::Imm(number)], None)
    }

    fn copy_register(&mut self, to: Register, from: Register) -> Result<(), String> {
        if to == from { Ok(()) } else { self.with(Code::Mov_r64_rm64, to, Home::Register(from)) }
    }

    /// A number in a register; the flags stay.
    fn number(&mut self, register: Register, number: i64) -> Result<(), String> {
        if let Some(byte) = i8::try_from(number).ok().filter(|_| PUSHED.contains(&register)) {
            // push
            self.code.bytes.extend([0x6a, byte.cast_unsigned()]);
            self.pop(register)
        } else if u32::try_from(number).is_ok() {
            self.imm(Code::Mov_r32_imm32, low_half(register), number)
        } else if i32::try_from(number).is_ok() {
            self.imm(Code::Mov_rm64_imm32, register, number)
        } else {
            self.imm(Code::Mov_r64_imm64, register, number)
        }
    }

    fn push(&mut self, register: Register) -> Result<(), String> {
        self.put(Code::Push_r64, &[register.into()], None)
    }

    fn pop(&mut self, register: Register) -> Result<(), String> {
        self.put(Code::Pop_r64, &[register.into()], None)
    }

    fn simple_to(&mut self, register: Register, simple: Simple) -> Result<(), String> {
        match simple {
            Simple::Number(number) => self.number(register, number.into()),
            Simple::Home(Home::Register(from)) => self.copy_register(register, from),
            Simple::Home(home) => self.with(Code::Mov_r64_rm64, register, home),
        }
    }

    fn set(&mut self, local: LocalId, register: Register) -> Result<(), String> {
        match self.homes[local.index()] {
            Home::Register(home) => self.copy_register(home, register),
            Home::Frame(offset) => {
                let memory = Memory::at(Register::RBP, offset);
                self.put(Code::Mov_rm64_r64, &[Operand::Memory, register.into()], Some(memory))
            }
        }
    }

    // --- the frame ---

    fn prologue(&mut self) -> Result<(), String> {
        self.push(Register::RBP)?;
        self.copy_register(Register::RBP, Register::RSP)?;
        for register in self.saved.clone() {
            self.push(register)?;
        }
        let mut rest = self.frame;
        while rest > PAGE {
            self.imm(Code::Sub_rm64_imm32, Register::RSP, PAGE as i64)?;
            let top = Memory::at(Register::RSP, 0);
            let stored = [Operand::Memory, Register::RAX.into()];
            self.put(Code::Mov_rm64_r64, &stored, Some(top))?;
            rest -= PAGE;
        }
        if rest > 0 {
            self.imm(Code::Sub_rm64_imm32, Register::RSP, rest as i64)?;
        }
        for number in 0..self.procedure.parameters {
            let local = LocalId::new(number);
            match PARAMETERS.get(number) {
                Some(&register) => self.set(local, register)?,
                None => {
                    let above = 16 + 8 * (number - PARAMETERS.len()) as i32;
                    self.with(Code::Mov_r64_rm64, Register::RAX, Home::Frame(above))?;
                    self.set(local, Register::RAX)?;
                }
            }
        }
        Ok(())
    }

    /// Leaves with what `rax` holds.
    fn leave(&mut self) -> Result<(), String> {
        let saved = -8 * self.saved.len() as i32;
        let memory = Memory::at(Register::RBP, saved);
        self.put(Code::Lea_r64_m, &[Register::RSP.into(), Operand::Memory], Some(memory))?;
        for register in self.saved.clone().into_iter().rev() {
            self.pop(register)?;
        }
        self.pop(Register::RBP)?;
        self.put(Code::Retnq, &[], None)
    }

    // --- words ---

    fn simple(&self, word: &Word) -> Option<Simple> {
        match word {
            Word::Number(number) => i32::try_from(*number).ok().map(Simple::Number),
            Word::Local(local) => Some(Simple::Home(self.homes[local.index()])),
            _ => None,
        }
    }

    /// Memory at a word; what is not simple of it is computed in `rax`.
    fn memory(&mut self, address: &Word) -> Result<Memory, String> {
        let (start, displacement) = match address {
            Word::Binary(WordOperator::Add, operands) => match (&operands.0, &operands.1) {
                (start, Word::Number(number)) if i32::try_from(*number).is_ok() => {
                    (start, *number as i32)
                }
                _ => (address, 0),
            },
            _ => (address, 0),
        };
        if let Word::Area(area) = start {
            return Ok(Memory::at(Register::RBP, self.area(*area) + displacement));
        }
        if let Some(Simple::Home(Home::Register(register))) = self.simple(start) {
            return Ok(Memory::at(register, displacement));
        }
        self.word(start)?;
        Ok(Memory::at(Register::RAX, displacement))
    }

    fn area(&self, area: AreaId) -> i32 {
        self.areas[area.index()]
    }

    /// Whether a word takes one instruction, which needs no register but that of the result.
    fn is_direct(&self, word: &Word) -> bool {
        match word {
            Word::Number(_) | Word::Local(_) | Word::Area(_) | Word::Symbol(_) => true,
            Word::Load(..) => false,
            Word::Binary(..) => self.near(word).is_some(),
        }
    }

    /// An address at a known distance from an area, or from what a register holds.
    fn near(&self, word: &Word) -> Option<Memory> {
        let Word::Binary(WordOperator::Add, operands) = word else { return None };
        let (start, Word::Number(number)) = (&operands.0, &operands.1) else { return None };
        let number = i32::try_from(*number).ok()?;
        match start {
            Word::Area(area) => Some(Memory::at(Register::RBP, self.area(*area) + number)),
            Word::Local(local) => match self.homes[local.index()] {
                Home::Register(register) => Some(Memory::at(register, number)),
                Home::Frame(_) => None,
            },
            _ => None,
        }
    }

    /// Computes a word that takes one instruction, which may change the flags.
    fn direct_to(&mut self, register: Register, word: &Word) -> Result<(), String> {
        let lea = [register.into(), Operand::Memory];
        match word {
            Word::Number(0) => {
                let low = low_half(register);
                self.put(Code::Xor_r32_rm32, &[low.into(), low.into()], None)
            }
            Word::Number(number) => self.number(register, *number),
            Word::Local(local) => {
                let home = self.homes[local.index()];
                self.simple_to(register, Simple::Home(home))
            }
            Word::Area(area) => {
                let memory = Memory::at(Register::RBP, self.area(*area));
                self.put(Code::Lea_r64_m, &lea, Some(memory))
            }
            Word::Symbol(name) => {
                let memory =
                    Memory { constant: Some(PoolId::new(0)), ..Memory::at(Register::RIP, 0) };
                self.put(Code::Lea_r64_m, &lea, Some(memory))?;
                self.references.push((self.code.here().before(4), name.clone()));
                Ok(())
            }
            _ => {
                let memory = self.near(word).ok_or("a word that takes several instructions")?;
                self.put(Code::Lea_r64_m, &lea, Some(memory))
            }
        }
    }

    /// Computes a word in `rax`.
    fn word(&mut self, word: &Word) -> Result<(), String> {
        const RAX: Register = Register::RAX;
        match word {
            Word::Number(_) | Word::Local(_) | Word::Area(_) | Word::Symbol(_) => {
                self.direct_to(RAX, word)
            }
            Word::Load(width, address) => {
                let memory = self.memory(address)?;
                let (code, register) = match width {
                    MemoryWidth::One => (Code::Movzx_r32_rm8, Register::EAX),
                    MemoryWidth::Two => (Code::Movzx_r32_rm16, Register::EAX),
                    MemoryWidth::Four => (Code::Movsxd_r64_rm32, RAX),
                    MemoryWidth::Eight => (Code::Mov_r64_rm64, RAX),
                };
                self.put(code, &[register.into(), Operand::Memory], Some(memory))
            }
            Word::Binary(..) if self.is_direct(word) => self.direct_to(RAX, word),
            Word::Binary(operator, operands) => {
                let right = self.operands(&operands.0, &operands.1)?;
                self.apply(*operator, right)
            }
        }
    }

    /// Computes the first word in `rax`; where the second is then: simple, or in `rcx`.
    fn operands(&mut self, a: &Word, b: &Word) -> Result<Simple, String> {
        if let Some(simple) = self.simple(b) {
            self.word(a)?;
            return Ok(simple);
        }
        self.word(b)?;
        match self.simple(a) {
            Some(simple) => {
                self.copy_register(Register::RCX, Register::RAX)?;
                self.simple_to(Register::RAX, simple)?;
            }
            None => {
                self.push(Register::RAX)?;
                self.word(a)?;
                self.pop(Register::RCX)?;
            }
        }
        Ok(Simple::Home(Home::Register(Register::RCX)))
    }

    /// An operator on `rax` and another operand, to `rax`.
    fn apply(&mut self, operator: WordOperator, right: Simple) -> Result<(), String> {
        const RAX: Register = Register::RAX;
        const RCX: Register = Register::RCX;
        const RDX: Register = Register::RDX;
        let of_number = match operator {
            WordOperator::Add => Some(Code::Add_rm64_imm32),
            WordOperator::Subtract => Some(Code::Sub_rm64_imm32),
            WordOperator::And => Some(Code::And_rm64_imm32),
            _ => None,
        };
        let of_home = match operator {
            WordOperator::Add => Some(Code::Add_r64_rm64),
            WordOperator::Subtract => Some(Code::Sub_r64_rm64),
            WordOperator::Multiply => Some(Code::Imul_r64_rm64),
            WordOperator::And => Some(Code::And_r64_rm64),
            WordOperator::Or => Some(Code::Or_r64_rm64),
            _ => None,
        };
        match (right, of_number, of_home) {
            (Simple::Number(number), Some(code), _) => return self.imm(code, RAX, number.into()),
            (Simple::Number(number), ..) if operator == WordOperator::Multiply => {
                let operands = [RAX.into(), RAX.into(), Operand::Imm(number.into())];
                return self.put(Code::Imul_r64_rm64_imm32, &operands, None);
            }
            (Simple::Home(home), _, Some(code)) => return self.with(code, RAX, home),
            _ => {}
        }
        if let Some(condition) = condition_of(operator) {
            self.compare(right)?;
            self.code.bytes.extend([0x0f, 0x90 | condition, 0xc0]);
            let byte = [Register::EAX.into(), Register::AL.into()];
            return self.put(Code::Movzx_r32_rm8, &byte, None);
        }
        match (operator, right) {
            (WordOperator::Quotient, Simple::Number(number)) if is_power(number) => {
                return self.imm(Code::Sar_rm64_imm8, RAX, number.trailing_zeros().into());
            }
            (WordOperator::Remainder, Simple::Number(number)) if is_power(number) => {
                return self.imm(Code::And_rm64_imm32, RAX, i64::from(number - 1));
            }
            _ => {}
        }
        self.simple_to(RCX, right)?;
        match operator {
            WordOperator::Or => self.with(Code::Or_r64_rm64, RAX, Home::Register(RCX)),
            WordOperator::Minimum | WordOperator::Maximum => {
                self.with(Code::Cmp_r64_rm64, RAX, Home::Register(RCX))?;
                let code = match operator {
                    WordOperator::Minimum => Code::Cmovg_r64_rm64,
                    _ => Code::Cmovl_r64_rm64,
                };
                self.with(code, RAX, Home::Register(RCX))
            }
            WordOperator::SaturatingAdd => {
                // The greatest number, or behind it the least where the second is negative.
                self.copy_register(RDX, RCX)?;
                self.imm(Code::Shr_rm64_imm8, RDX, 63)?;
                self.number(Register::RSI, i64::MAX)?;
                self.with(Code::Add_r64_rm64, RDX, Home::Register(Register::RSI))?;
                self.with(Code::Add_r64_rm64, RAX, Home::Register(RCX))?;
                self.with(Code::Cmovo_r64_rm64, RAX, Home::Register(RDX))
            }
            WordOperator::SaturatingMultiply => {
                self.number(RDX, i64::MAX)?;
                self.with(Code::Imul_r64_rm64, RAX, Home::Register(RCX))?;
                self.with(Code::Cmovo_r64_rm64, RAX, Home::Register(RDX))
            }
            WordOperator::Quotient | WordOperator::Remainder => {
                let is_known = matches!(right, Simple::Number(1..));
                self.divide(operator == WordOperator::Quotient, is_known)
            }
            _ => Err(format!("{operator:?} has no instruction")),
        }
    }

    /// The quotient of `rax` and `rcx`, rounded down, or the remainder.
    fn divide(&mut self, is_quotient: bool, is_positive: bool) -> Result<(), String> {
        const RAX: Register = Register::RAX;
        const RCX: Register = Register::RCX;
        const RDX: Register = Register::RDX;
        const RSI: Register = Register::RSI;
        let end = self.code.label();
        if !is_positive {
            // The processor refuses 0 and the quotient of the least number and -1.
            let (nonzero, usual) = (self.code.label(), self.code.label());
            self.put(Code::Test_rm64_r64, &[RCX.into(), RCX.into()], None)?;
            self.code.jump(Some(NOT_EQUAL), nonzero);
            self.word(&Word::Number(0))?;
            self.code.jump(None, end);
            self.code.place(nonzero);
            self.imm(Code::Cmp_rm64_imm8, RCX, -1)?;
            self.code.jump(Some(NOT_EQUAL), usual);
            self.copy_register(RDX, RAX)?;
            self.word(&Word::Number(0))?;
            if is_quotient {
                self.with(Code::Sub_r64_rm64, RAX, Home::Register(RDX))?;
            }
            self.code.jump(None, end);
            self.code.place(usual);
        }
        self.put(Code::Cqo, &[], None)?;
        self.put(Code::Idiv_rm64, &[RCX.into()], None)?;
        // Of other signs, the quotient was rounded up, and the remainder has the sign of `rax`.
        let exact = self.code.label();
        self.put(Code::Test_rm64_r64, &[RDX.into(), RDX.into()], None)?;
        self.code.jump(Some(EQUAL), exact);
        self.copy_register(RSI, RDX)?;
        self.with(Code::Xor_r64_rm64, RSI, Home::Register(RCX))?;
        self.imm(Code::Sar_rm64_imm8, RSI, 63)?;
        if is_quotient {
            self.with(Code::Add_r64_rm64, RAX, Home::Register(RSI))?;
        } else {
            self.with(Code::And_r64_rm64, RSI, Home::Register(RCX))?;
            self.with(Code::Add_r64_rm64, RDX, Home::Register(RSI))?;
        }
        self.code.place(exact);
        if !is_quotient {
            self.copy_register(RAX, RDX)?;
        }
        self.code.place(end);
        Ok(())
    }

    /// Compares `rax` with another operand.
    fn compare(&mut self, right: Simple) -> Result<(), String> {
        match right {
            Simple::Number(number) if i8::try_from(number).is_ok() => {
                self.imm(Code::Cmp_rm64_imm8, Register::RAX, number.into())
            }
            Simple::Number(number) => self.imm(Code::Cmp_rm64_imm32, Register::RAX, number.into()),
            Simple::Home(home) => self.with(Code::Cmp_r64_rm64, Register::RAX, home),
        }
    }

    /// Jumps where a word is not 0, or, unless `is_true`, where it is.
    fn branch(&mut self, word: &Word, is_true: bool, label: usize) -> Result<(), String> {
        if let Word::Binary(operator, operands) = word {
            let (a, b) = (&operands.0, &operands.1);
            if let Some(condition) = condition_of(*operator) {
                let right = self.operands(a, b)?;
                self.compare(right)?;
                self.code.jump(Some(if is_true { condition } else { condition ^ 1 }), label);
                return Ok(());
            }
            let is_both = *operator == WordOperator::And;
            if is_truth(word) && is_both == is_true {
                let past = self.code.label();
                self.branch(a, !is_true, past)?;
                self.branch(b, is_true, label)?;
                self.code.place(past);
                return Ok(());
            }
            if is_truth(word) {
                self.branch(a, is_true, label)?;
                return self.branch(b, is_true, label);
            }
        }
        self.word(word)?;
        self.put(Code::Test_rm64_r64, &[Register::RAX.into(), Register::RAX.into()], None)?;
        self.code.jump(Some(if is_true { NOT_EQUAL } else { EQUAL }), label);
        Ok(())
    }

    // --- actions ---

    fn actions(&mut self, actions: &[Action]) -> Result<(), String> {
        let mut actions = actions.iter().peekable();
        while let Some(action) = actions.next() {
            let Some(local) = called_and_passed_on(action, actions.peek().copied()) else {
                self.action(action)?;
                continue;
            };
            actions.next();
            // What the call gives is still in `rax`: nobody else may want it.
            match action {
                Action::Call(_, callee, arguments) if !self.is_used[local.index()] => {
                    self.call(None, callee, arguments)?;
                }
                _ => self.action(action)?,
            }
            self.leave_unless_zero()?;
        }
        Ok(())
    }

    /// Leaves with what `rax` holds, unless that is 0.
    fn leave_unless_zero(&mut self) -> Result<(), String> {
        self.put(Code::Test_rm64_r64, &[Register::RAX.into(), Register::RAX.into()], None)?;
        self.code.jump(Some(NOT_EQUAL), EXIT);
        Ok(())
    }

    fn action(&mut self, action: &Action) -> Result<(), String> {
        match action {
            Action::Set(local, word) => self.set_to(*local, word),
            Action::If(condition, ..) if passed_on(action).is_some() => {
                self.word(condition)?;
                self.leave_unless_zero()
            }
            Action::Store(width, address, value) => self.store(*width, address, value),
            Action::If(condition, then, otherwise) => {
                let (not, end) = (self.code.label(), self.code.label());
                self.branch(condition, false, not)?;
                self.actions(then)?;
                if !otherwise.is_empty() {
                    self.code.jump(None, end);
                }
                self.code.place(not);
                self.actions(otherwise)?;
                self.code.place(end);
                Ok(())
            }
            Action::Loop(body) => {
                let (start, end) = (self.code.label(), self.code.label());
                self.code.place(start);
                self.loops.push(end);
                self.actions(body)?;
                self.loops.pop();
                self.code.jump(None, start);
                self.code.place(end);
                Ok(())
            }
            Action::Break => {
                let end = *self.loops.last().ok_or("a break outside of loops")?;
                self.code.jump(None, end);
                Ok(())
            }
            Action::Return(word) => {
                self.word(word)?;
                self.code.jump(None, EXIT);
                Ok(())
            }
            Action::Call(result, callee, arguments) => self.call(*result, callee, arguments),
            Action::Copy { destination, source, bytes } => {
                self.word(destination)?;
                self.push(Register::RAX)?;
                self.word(source)?;
                self.push(Register::RAX)?;
                self.word(bytes)?;
                self.copy_register(Register::RCX, Register::RAX)?;
                self.pop(Register::RSI)?;
                self.pop(Register::RDI)?;
                let none = self.code.label();
                if !matches!(bytes, Word::Number(0..)) {
                    self.put(
                        Code::Test_rm64_r64,
                        &[Register::RCX.into(), Register::RCX.into()],
                        None,
                    )?;
                    self.code.jump(Some(LESS_EQUAL), none);
                }
                // rep movsb
                self.code.bytes.extend([0xf3, 0xa4]);
                self.code.place(none);
                Ok(())
            }
        }
    }

    fn set_to(&mut self, local: LocalId, word: &Word) -> Result<(), String> {
        if let (Home::Register(home), Word::Binary(WordOperator::Add, operands)) =
            (self.homes[local.index()], word)
            && operands.0 == Word::Local(local)
            && let Some(right) = self.simple(&operands.1)
        {
            return match right {
                Simple::Number(number) => self.imm(Code::Add_rm64_imm32, home, number.into()),
                Simple::Home(other) => self.with(Code::Add_r64_rm64, home, other),
            };
        }
        self.word(word)?;
        self.set(local, Register::RAX)
    }

    fn store(&mut self, width: MemoryWidth, address: &Word, value: &Word) -> Result<(), String> {
        const RAX: Register = Register::RAX;
        const RCX: Register = Register::RCX;
        let is_whole = width == MemoryWidth::Eight;
        if let Some(Simple::Home(Home::Register(register))) =
            self.simple(value).filter(|_| is_whole)
        {
            let memory = self.memory(address)?;
            return self.store_at(width, memory, register);
        }
        if self.is_direct(value) {
            // `memory` may use rax.
            let memory = self.memory(address)?;
            self.direct_to(RCX, value)?;
            return self.store_at(width, memory, RCX);
        }
        self.word(value)?;
        let is_in_area = match address {
            Word::Binary(WordOperator::Add, operands) => {
                matches!((&operands.0, &operands.1), (Word::Area(_), Word::Number(_)))
            }
            _ => matches!(address, Word::Area(_)),
        };
        if is_in_area && is_whole {
            let memory = self.memory(address)?;
            return self.store_at(width, memory, RAX);
        }
        if is_in_area || matches!(address, Word::Local(_)) {
            self.copy_register(RCX, RAX)?;
            let memory = self.memory(address)?;
            return self.store_at(width, memory, RCX);
        }
        self.push(RAX)?;
        let memory = self.memory(address)?;
        self.pop(RCX)?;
        self.store_at(width, memory, RCX)
    }

    /// Stores what a register holds: `rcx`, where it is less than a word.
    fn store_at(
        &mut self,
        width: MemoryWidth,
        memory: Memory,
        register: Register,
    ) -> Result<(), String> {
        let (code, register) = match width {
            MemoryWidth::One => (Code::Mov_rm8_r8, Register::CL),
            MemoryWidth::Two => (Code::Mov_rm16_r16, Register::CX),
            MemoryWidth::Four => (Code::Mov_rm32_r32, Register::ECX),
            MemoryWidth::Eight => (Code::Mov_rm64_r64, register),
        };
        self.put(code, &[Operand::Memory, register.into()], Some(memory))
    }

    fn call(
        &mut self,
        result: Option<LocalId>,
        callee: &Callee,
        arguments: &[Word],
    ) -> Result<(), String> {
        // Those on the stack, the last first, keep it aligned to 16.
        let (in_registers, on_stack) = arguments.split_at(arguments.len().min(PARAMETERS.len()));
        let odd = on_stack.len() % 2;
        if odd == 1 {
            self.push(Register::RAX)?;
        }
        for word in on_stack.iter().rev() {
            self.word(word)?;
            self.push(Register::RAX)?;
        }
        let arguments: Vec<(Register, &Word)> = PARAMETERS.into_iter().zip(in_registers).collect();
        let (direct, computed): (Vec<_>, Vec<_>) =
            arguments.into_iter().partition(|(_, word)| self.is_direct(word));
        for (_, word) in &computed {
            self.word(word)?;
            self.push(Register::RAX)?;
        }
        if let Callee::Address(address) = callee {
            self.word(address)?;
        }
        for (register, _) in computed.iter().rev() {
            self.pop(*register)?;
        }
        for (register, word) in direct {
            self.direct_to(register, word)?;
        }
        match callee {
            Callee::Procedure(name) | Callee::Kernel(name) => {
                self.code.bytes.push(0xe8);
                self.references.push((self.code.here(), name.clone()));
                self.code.bytes.extend([0; 4]);
            }
            Callee::Address(_) => self.put(Code::Call_rm64, &[Register::RAX.into()], None)?,
        }
        let pushed = 8 * (on_stack.len() + odd) as i64;
        if pushed > 0 {
            self.imm(Code::Add_rm64_imm32, Register::RSP, pushed)?;
        }
        // Kernels of this back end write all of `rax`.
        if matches!(callee, Callee::Address(_)) && result.is_some() {
            self.put(Code::Movsxd_r64_rm32, &[Register::RAX.into(), Register::EAX.into()], None)?;
        }
        match result {
            Some(local) => self.set(local, Register::RAX),
            None => Ok(()),
        }
    }
}

/// The local that a call gives, if that is a fault that the next action passes on.
fn called_and_passed_on(action: &Action, next: Option<&Action>) -> Option<LocalId> {
    match action {
        Action::Call(Some(local), ..) if passed_on(next?) == Some(*local) => Some(*local),
        _ => None,
    }
}

/// The local that an action leaves with, unless it is 0: a fault that is passed on.
fn passed_on(action: &Action) -> Option<LocalId> {
    match action {
        Action::If(Word::Local(fault), then, otherwise)
            if otherwise.is_empty() && then[..] == [Action::Return(Word::Local(*fault))] =>
        {
            Some(*fault)
        }
        _ => None,
    }
}

/// Conditions, by their numbers in opcodes.
const EQUAL: u8 = 4;
const NOT_EQUAL: u8 = 5;
const LESS_EQUAL: u8 = 14;

/// The condition on which a comparison is 1.
fn condition_of(operator: WordOperator) -> Option<u8> {
    match operator {
        WordOperator::Equal => Some(EQUAL),
        WordOperator::NotEqual => Some(NOT_EQUAL),
        WordOperator::Less => Some(12),
        WordOperator::GreaterEqual => Some(13),
        WordOperator::LessEqual => Some(LESS_EQUAL),
        WordOperator::Greater => Some(15),
        _ => None,
    }
}

/// Whether a word is 0 or 1 whatever its locals are, made of comparisons.
fn is_truth(word: &Word) -> bool {
    match word {
        Word::Binary(WordOperator::And | WordOperator::Or, operands) => {
            is_truth(&operands.0) && is_truth(&operands.1)
        }
        Word::Binary(operator, _) => condition_of(*operator).is_some(),
        _ => false,
    }
}

/// The lower half of a register.
fn low_half(register: Register) -> Register {
    Register::EAX + (register as u32 - Register::RAX as u32)
}

fn is_power(number: i32) -> bool {
    number > 0 && number.count_ones() == 1
}

/// How often locals and areas are used; in loops more than once. A fault that is passed on at once
/// is no use of its local.
struct Uses {
    locals: Vec<u64>,
    areas: Vec<u64>,
}

impl Uses {
    fn count(&mut self, actions: &[Action], weight: u64) {
        let weighed = weight.min(1 << 40);
        let mut actions = actions.iter().peekable();
        while let Some(action) = actions.next() {
            let is_passed_on = called_and_passed_on(action, actions.peek().copied()).is_some();
            if is_passed_on {
                actions.next();
            }
            action.words(&mut |word| {
                word.walk(&mut |word| match word {
                    Word::Local(local) => self.locals[local.index()] += weighed,
                    Word::Area(area) => self.areas[area.index()] += weighed,
                    _ => {}
                });
            });
            match action {
                Action::Call(Some(_), ..) if is_passed_on => {}
                Action::Set(local, _) | Action::Call(Some(local), ..) => {
                    self.locals[local.index()] += weighed;
                }
                Action::If(_, then, otherwise) => {
                    self.count(then, weighed);
                    self.count(otherwise, weighed);
                }
                Action::Loop(body) => self.count(body, weighed * TURNS),
                _ => {}
            }
        }
    }
}
