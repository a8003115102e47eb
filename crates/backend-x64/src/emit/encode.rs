//! Machine instructions to bytes: prefixes, opcode, ModRM, memory operand, immediate.
//!
//! `iced_x86::Code` names the forms; [`super::table`] says how each is encoded. Where there is a
//! choice the shortest encoding is taken. The test encodes every form with `iced_x86`, too.

use iced_x86::{Code, Register};

use super::forms::{self, Layout, NOWHERE, Prefix};
use super::lookup;
use crate::vcode::PoolId;

/// An operand of a machine instruction.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operand {
    Register(Register),
    Memory,
    Imm(i64),
}

impl From<Register> for Operand {
    fn from(register: Register) -> Operand {
        Operand::Register(register)
    }
}

/// The memory operand of an instruction, its registers known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    /// `Register::RIP` for a constant behind the code.
    pub(super) base: Register,
    pub(super) index: Option<(Register, u8)>,
    pub(super) displacement: i32,
    pub(super) broadcast: bool,
    pub(super) constant: Option<PoolId>,
}

impl Memory {
    /// `[base + displacement]`.
    pub(super) fn at(base: Register, displacement: i32) -> Memory {
        Memory { base, index: None, displacement, broadcast: false, constant: None }
    }
}

/// A mask register, and whether lanes that are off become zero.
pub(super) type OpMask = Option<(Register, bool)>;

/// A form as errors name it, which are the compiler's own: by its number where nobody looks for
/// them, since the names of all forms take a third of a megabyte of the program.
pub(super) fn name(code: Code) -> String {
    if cfg!(debug_assertions) { format!("{code:?}") } else { format!("{}", code as usize) }
}

/// Writes one instruction. Returns where its displacement is if the memory operand is a constant.
///
/// # Errors
/// The code if there is no such instruction.
pub(super) fn encode(
    bytes: &mut Vec<u8>,
    code: Code,
    operands: &[Operand],
    memory: Option<&Memory>,
    mask: OpMask,
) -> Result<Option<usize>, String> {
    let Some((form, length)) = lookup::find(code) else {
        return Err(format!("there is no instruction {}", name(code)));
    };
    let layout = form.layout;
    if !is_encodable(layout, matches!(form.prefix, Prefix::Evex { .. }), operands, memory, mask) {
        let name = name(code);
        return Err(format!("{name} does not take {operands:?}, {memory:?}, {mask:?}"));
    }
    let number = |at: u8| match operands.get(usize::from(at)) {
        Some(Operand::Register(register)) => number(*register),
        _ => 0,
    };
    let in_memory = memory.filter(|_| layout.rm != NOWHERE);
    let reg = if layout.reg == NOWHERE { form.digit } else { number(layout.reg) };
    let vvvv = number(layout.vvvv);
    let is_based = in_memory.is_none_or(|memory| memory.base != Register::RIP);
    let base = match in_memory {
        Some(memory) if is_based => self::number(memory.base),
        Some(_) => 0,
        None if layout.opcode != NOWHERE => number(layout.opcode),
        None => number(layout.rm),
    };
    let index = in_memory.and_then(|memory| memory.index);
    let index = index.map(|(index, scale)| (self::number(index), scale));
    let (w, r, b) = (u8::from(form.w), reg >> 3 & 1, base >> 3 & 1);
    let x = index.map_or(0, |(index, _)| index >> 3 & 1);
    match form.prefix {
        Prefix::Legacy => {
            if form.pp == forms::P66 {
                bytes.push(0x66);
            }
            let rex = w << 3 | r << 2 | x << 1 | b;
            if rex != 0 || operands.iter().any(needs_rex) {
                bytes.push(0x40 | rex);
            }
            if form.map != forms::ONE {
                bytes.push(0x0f);
            }
        }
        Prefix::Vex => {
            let last = (!vvvv & 15) << 3 | length << 2 | form.pp;
            if x | b | w == 0 && form.map == forms::M0F {
                bytes.extend([0xc5, (r ^ 1) << 7 | last]);
            } else {
                let first = (r ^ 1) << 7 | (x ^ 1) << 6 | (b ^ 1) << 5 | form.map;
                bytes.extend([0xc4, first, w << 7 | last]);
            }
        }
        Prefix::Evex { .. } => {
            let high = |number: u8| number >> 4 & 1;
            let x = if in_memory.is_some() { x } else { high(base) };
            let vvvv_high = index.map_or(0, |(index, _)| high(index)) | high(vvvv);
            let (mask, zeroing) =
                mask.map_or((0, false), |(mask, zeroing)| (self::number(mask), zeroing));
            let broadcast = in_memory.is_some_and(|memory| memory.broadcast);
            bytes.extend([
                0x62,
                (r ^ 1) << 7 | (x ^ 1) << 6 | (b ^ 1) << 5 | (high(reg) ^ 1) << 4 | form.map,
                w << 7 | (!vvvv & 15) << 3 | 1 << 2 | form.pp,
                u8::from(zeroing) << 7
                    | length << 5
                    | u8::from(broadcast) << 4
                    | (vvvv_high ^ 1) << 3
                    | mask,
            ]);
        }
    }
    if layout.opcode != NOWHERE {
        bytes.push(form.opcode | base & 7);
    } else {
        bytes.push(form.opcode);
    }
    let mut constant = None;
    match in_memory {
        Some(_) if !is_based => {
            bytes.push((reg & 7) << 3 | 0b101);
            constant = Some(bytes.len());
            bytes.extend([0; 4]);
        }
        Some(memory) => {
            let unit = form.unit(length, memory.broadcast);
            put_memory(bytes, reg & 7, base & 7, index, memory.displacement, unit);
        }
        None if layout.rm != NOWHERE => bytes.push(0b11 << 6 | (reg & 7) << 3 | base & 7),
        None => {}
    }
    if layout.is4 != NOWHERE {
        bytes.push(number(layout.is4) << 4);
    }
    if let (1.., Some(Operand::Imm(value))) = (layout.imm_bytes, operands.last()) {
        bytes.extend_from_slice(&value.to_le_bytes()[..usize::from(layout.imm_bytes)]);
    }
    Ok(constant)
}

/// Whether a form has room for what it is given: an operand of its kind in each field, registers
/// from 16 on, masks and broadcasts with EVEX alone, immediates within their bytes.
fn is_encodable(
    layout: Layout,
    is_evex: bool,
    operands: &[Operand],
    memory: Option<&Memory>,
    mask: OpMask,
) -> bool {
    let operand = |at: u8| operands.get(usize::from(at));
    let registers = [layout.reg, layout.vvvv, layout.is4, layout.opcode];
    let named = registers.into_iter().filter(|&at| at != NOWHERE);
    let in_memory = layout.rm != NOWHERE && matches!(operand(layout.rm), Some(Operand::Memory));
    let bits = 8 * u32::from(layout.imm_bytes);
    let low = |register: Register| is_evex || number(register) < 16;
    named.into_iter().all(|at| matches!(operand(at), Some(Operand::Register(_))))
        && (layout.rm == NOWHERE || operand(layout.rm).is_some())
        && in_memory == memory.is_some()
        && (is_evex || mask.is_none() && memory.is_none_or(|memory| !memory.broadcast))
        && memory.is_none_or(|memory| memory.index.is_none_or(|(index, _)| low(index)))
        && operands.iter().all(|operand| match *operand {
            Operand::Register(register) => low(register),
            Operand::Memory => true,
            Operand::Imm(value) => {
                bits == 64 || bits > 0 && (-1 << (bits - 1)..1 << bits).contains(&value)
            }
        })
}

/// ModRM, SIB and displacement. One byte of displacement counts in `unit`s.
fn put_memory(
    bytes: &mut Vec<u8>,
    reg: u8,
    base: u8,
    index: Option<(u8, u8)>,
    displacement: i32,
    unit: i32,
) {
    let short = (displacement % unit == 0).then(|| i8::try_from(displacement / unit).ok());
    let short = short.flatten();
    // Without a displacement the base 5 (rbp, r13) means another thing.
    let mode = match short {
        Some(0) if base != 5 => 0,
        Some(_) => 1,
        None => 2,
    };
    let has_sib = index.is_some() || base == 4;
    bytes.push(mode << 6 | reg << 3 | if has_sib { 4 } else { base });
    if has_sib {
        // The index 4 (rsp) means none.
        let (index, scale) = index.unwrap_or((4, 1));
        bytes.push((scale.trailing_zeros() as u8) << 6 | (index & 7) << 3 | base);
    }
    match (mode, short) {
        (1, Some(short)) => bytes.push(short as u8),
        (2, _) => bytes.extend(displacement.to_le_bytes()),
        _ => {}
    }
}

/// The number by which instructions name a register.
pub(super) fn number(register: Register) -> u8 {
    NUMBERS[register as usize]
}

static NUMBERS: [u8; 256] = {
    // Of bytes, ah, ch, dh and bh stand between bl and spl.
    const FIRST: [Register; 9] = [
        Register::AL,
        Register::AH,
        Register::AX,
        Register::EAX,
        Register::RAX,
        Register::XMM0,
        Register::YMM0,
        Register::ZMM0,
        Register::K0,
    ];
    let mut numbers = [0; 256];
    let mut class = 0;
    while class < FIRST.len() {
        let first = FIRST[class] as usize;
        let mut register = first;
        while register < numbers.len() {
            numbers[register] = (register - first) as u8;
            register += 1;
        }
        class += 1;
    }
    numbers
};

/// Whether it is a mask register.
pub(super) fn is_mask(register: Register) -> bool {
    (Register::K0..=Register::K7).contains(&register)
}

/// Bytes of a vector register; 0 for the others.
pub(super) fn vector_bytes(register: Register) -> usize {
    match register {
        _ if register < Register::XMM0 => 0,
        _ if register < Register::YMM0 => 16,
        _ if register < Register::ZMM0 => 32,
        _ if register < Register::K0 => 64,
        _ => 0,
    }
}

/// Whether the operand is one of spl, bpl, sil and dil, which are others without a REX prefix.
fn needs_rex(operand: &Operand) -> bool {
    matches!(operand, Operand::Register(it) if (Register::SPL..=Register::DIL).contains(it))
}

#[cfg(test)]
mod tests {
    use iced_x86::{Encoder, Instruction, OpKind};
    use proptest::prelude::*;
    use proptest::test_runner::TestRng;

    use super::*;

    /// What a part of a code's name says of an operand.
    enum Word {
        /// The first of so many registers.
        Registers(Register, u32),
        /// Memory, its index among registers from the first on where it is a vector.
        Memory {
            index: Option<Register>,
            broadcast: bool,
        },
        /// A register or memory.
        Either {
            first: Register,
            broadcast: bool,
        },
        Imm(OpKind),
        Mask {
            zeroing: bool,
        },
        Nothing,
    }

    fn word(text: &str, is_evex: bool) -> Word {
        let class = |text: &str| match text {
            "xmm" => Some(Register::XMM0),
            "ymm" => Some(Register::YMM0),
            "zmm" => Some(Register::ZMM0),
            "kr" | "k" => Some(Register::K0),
            "r8" => Some(Register::AL),
            "r16" => Some(Register::AX),
            "r32" => Some(Register::EAX),
            "r64" => Some(Register::RAX),
            _ => None,
        };
        let broadcast = text.ends_with("b32") || text.ends_with("b64");
        let (register, memory) = text.split_once('m').map_or((text, ""), |(register, rest)| {
            match rest.strip_prefix('m') {
                // The m of xmm, ymm, zmm is the register's.
                Some(rest) => (&text[..register.len() + 2], rest),
                None => (register, rest),
            }
        });
        match text {
            "k1" | "k1z" => return Word::Mask { zeroing: text == "k1z" },
            "imm8" => return Word::Imm(OpKind::Immediate8),
            "imm32" => return Word::Imm(OpKind::Immediate32),
            "imm64" => return Word::Imm(OpKind::Immediate64),
            "vm32x" => return Word::Memory { index: Some(Register::XMM0), broadcast },
            "vm32y" => return Word::Memory { index: Some(Register::YMM0), broadcast },
            "vm32z" => return Word::Memory { index: Some(Register::ZMM0), broadcast },
            "er" | "sae" => return Word::Nothing,
            _ => {}
        }
        let most = |first: Register| match first {
            Register::K0 => 8,
            Register::XMM0 | Register::YMM0 | Register::ZMM0 if is_evex => 32,
            _ => 16,
        };
        match (class(text), class(register), register, memory) {
            (Some(first), ..) => Word::Registers(first, most(first)),
            (_, Some(first), _, "") => Word::Registers(first, most(first)),
            (_, Some(first), ..) => Word::Either { first, broadcast },
            (_, _, "r", bits) => {
                let first = class(&format!("r{bits}")).expect("a class of registers");
                Word::Either { first, broadcast }
            }
            (_, _, "", _) => Word::Memory { index: None, broadcast },
            _ => panic!("`{text}` is no operand"),
        }
    }

    fn register(first: Register, number: u32) -> Register {
        let beside = u32::from(first == Register::AL && number >= 4) * 4;
        first + (number + beside)
    }

    fn memory(random: &mut TestRng, index: Option<Register>, broadcast: bool, most: u32) -> Memory {
        const DISPLACEMENTS: [i32; 16] =
            [0, 1, 4, 8, 16, 32, 64, 127, 128, -4, -64, -128, -129, 508, -8192, 0x0123_4567];
        let displacement = DISPLACEMENTS[random.next_u32() as usize % DISPLACEMENTS.len()];
        let mut memory = Memory::at(Register::RAX + random.next_u32() % 16, displacement);
        let (number, scale) = (random.next_u32(), 1 << (random.next_u32() % 4));
        memory.broadcast = broadcast && random.next_u32().is_multiple_of(2);
        memory.index = match index {
            Some(first) => Some((first + number % most, scale)),
            None => {
                (number % 16 != 4 && number % 3 > 0).then_some((Register::RAX + number % 16, scale))
            }
        };
        if index.is_none() && random.next_u32().is_multiple_of(8) {
            memory = Memory {
                constant: Some(base::Id::new(0)),
                broadcast: memory.broadcast,
                ..Memory::at(Register::RIP, 0)
            };
        }
        memory
    }

    /// An instruction of a form with random operands, by this encoder and by `iced_x86`.
    fn compare(code: Code, random: &mut TestRng) {
        let name = format!("{code:?}");
        let is_evex = name.starts_with("EVEX");
        let words = name.trim_start_matches("VEX_").trim_start_matches("EVEX_");
        let mut instruction = Instruction::default();
        instruction.set_code(code);
        let (mut operands, mut used, mut mask) = (Vec::new(), None, None);
        for text in words.split('_').skip(1) {
            let (at, number) = (operands.len() as u32, random.next_u32());
            let is_register = number.is_multiple_of(2);
            let (first, most, index, broadcast) = match word(text, is_evex) {
                Word::Registers(first, most) => (Some(first), most, None, false),
                Word::Either { first, broadcast } => {
                    let most = if first < Register::XMM0 || !is_evex { 16 } else { 32 };
                    let most = if first == Register::K0 { 8 } else { most };
                    (Some(first).filter(|_| is_register), most, None, broadcast)
                }
                Word::Memory { index, broadcast } => {
                    (None, if is_evex { 32 } else { 16 }, index, broadcast)
                }
                Word::Imm(kind) => {
                    let value = i64::from(number as i32 >> 20);
                    let (kind, value) = match kind {
                        OpKind::Immediate8 if name.starts_with("Cmp") => {
                            (OpKind::Immediate8to64, i64::from(value as i8))
                        }
                        OpKind::Immediate8 if name.starts_with("A") => {
                            (OpKind::Immediate8to64, i64::from(value as i8))
                        }
                        OpKind::Immediate8 => (kind, i64::from(value as u8)),
                        OpKind::Immediate32 if !name.contains("_r32_") => {
                            (OpKind::Immediate32to64, value)
                        }
                        kind => (kind, value),
                    };
                    instruction.set_op_kind(at, kind);
                    match kind {
                        OpKind::Immediate8 => instruction.set_immediate8(value as u8),
                        OpKind::Immediate32 => instruction.set_immediate32(value as u32),
                        OpKind::Immediate64 => instruction.set_immediate64(value as u64),
                        OpKind::Immediate8to64 => instruction.set_immediate8to64(value),
                        _ => instruction.set_immediate32to64(value),
                    }
                    operands.push(Operand::Imm(value));
                    continue;
                }
                Word::Mask { zeroing } => {
                    let to_memory = matches!(operands.first(), Some(Operand::Memory));
                    let zeroing = zeroing && !to_memory && is_register;
                    mask = Some((Register::K1 + number % 7, zeroing));
                    continue;
                }
                Word::Nothing => continue,
            };
            match first {
                Some(first) => {
                    let register = register(first, number / 2 % most);
                    instruction.set_op_register(at, register);
                    operands.push(register.into());
                }
                None => {
                    let memory = memory(random, index, broadcast, most);
                    instruction.set_op_kind(at, OpKind::Memory);
                    instruction.set_memory_base(memory.base);
                    if let Some((index, scale)) = memory.index {
                        instruction.set_memory_index(index);
                        instruction.set_memory_index_scale(scale.into());
                    }
                    instruction.set_memory_displacement64(memory.displacement as i64 as u64);
                    let displaced = memory.displacement != 0 || memory.constant.is_some();
                    instruction.set_memory_displ_size(displaced.into());
                    instruction.set_is_broadcast(memory.broadcast);
                    used = Some(memory);
                    operands.push(Operand::Memory);
                }
            }
        }
        if let Some((mask, zeroing)) = mask {
            instruction.set_op_mask(mask);
            instruction.set_zeroing_masking(zeroing);
        }
        let mut encoder = Encoder::new(64);
        let length = encoder.encode(&instruction, 0).unwrap_or_else(|error| {
            panic!("{code:?} {operands:?} {used:?} {mask:?}: {error}");
        });
        let mut expected = encoder.take_buffer();
        let mut bytes = Vec::new();
        let constant = encode(&mut bytes, code, &operands, used.as_ref(), mask).expect("bytes");
        if let Some(at) = constant {
            let distance = i32::from_le_bytes(expected[at..at + 4].try_into().expect("4 bytes"));
            assert_eq!(distance, -(length as i32), "{code:?}");
            expected[at..at + 4].fill(0);
        }
        assert_eq!(bytes, expected, "{code:?} {operands:?} {used:?} {mask:?}");
    }

    #[test]
    fn what_a_form_has_no_room_for_is_an_error() {
        let (low, high) = (Operand::from(Register::XMM1), Operand::from(Register::XMM17));
        let memory = Memory::at(Register::RAX, 8);
        let broadcast = Memory { broadcast: true, ..memory };
        let add = Code::VEX_Vaddps_xmm_xmm_xmmm128;
        let mask = Some((Register::K1, false));
        let wide = Operand::Imm(1 << 32);
        let cases: [(Code, &[Operand], Option<&Memory>, OpMask); 8] = [
            (add, &[low, low, high], None, None),
            (add, &[low, low], None, None),
            (add, &[low, low, low], None, mask),
            (add, &[low, low, Operand::Memory], None, None),
            (add, &[low, low, low], Some(&memory), None),
            (add, &[low, low, Operand::Memory], Some(&broadcast), None),
            (Code::Add_rm64_imm32, &[Register::RAX.into(), wide], None, None),
            (Code::INVALID, &[], None, None),
        ];
        for (code, operands, memory, mask) in cases {
            let mut bytes = Vec::new();
            assert!(encode(&mut bytes, code, operands, memory, mask).is_err(), "{operands:?}");
            assert_eq!(bytes, [], "{operands:?}");
        }
    }

    #[test]
    fn every_form_is_encoded_as_by_iced_x86() {
        let mut random = TestRng::deterministic_rng(prop::test_runner::RngAlgorithm::ChaCha);
        for code in lookup::codes() {
            for _ in 0..100 {
                compare(code, &mut random);
            }
        }
    }
}
