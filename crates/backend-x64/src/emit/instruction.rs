//! One vcode instruction to machine instructions.
//!
//! Operands come in the allocator's order: arguments, mask, base, index, result, lost value. Where
//! an instruction has a VEX and an EVEX encoding, AVX-512 code takes the shorter VEX one for
//! vectors of up to 256 bits in the lower 16 registers without mask.

use iced_x86::{Code, Register};
use regalloc2::{AllocationKind, RegClass};
use smallvec::SmallVec;

use super::encode::{Memory, Operand, is_mask, number, vector_bytes};
use super::lookup;
use super::{Emitter, Place};
use crate::vcode::op::TIED;
use crate::vcode::{Base, Cond, Inst, Lane, Opcode, RegisterType};

/// The rounding immediate of an F32 to F16 conversion: nearest even, whatever MXCSR says.
const NEAREST_EVEN: i64 = 0;

/// The 64-bit register with this number.
pub(crate) fn int_register(number: usize) -> Register {
    Register::RAX + number as u32
}

/// The register of a place, as wide as its value: 8 bytes for integers, else the vector's bytes.
pub(crate) fn register(place: Place, bytes: usize) -> Result<Register, String> {
    let register = place.as_reg().ok_or_else(|| format!("{place} is no register"))?;
    let number = register.hw_enc() as u32;
    Ok(match (register.class(), bytes) {
        (RegClass::Int, 1) => Register::AL + byte_number(number),
        (RegClass::Int, 2) => Register::AX + number,
        (RegClass::Int, 4) => Register::EAX + number,
        (RegClass::Int, _) => Register::RAX + number,
        (RegClass::Vector, _) => Register::K0 + number,
        (RegClass::Float, 64) => Register::ZMM0 + number,
        (RegClass::Float, 32) => Register::YMM0 + number,
        (RegClass::Float, _) => Register::XMM0 + number,
    })
}

/// The offset from `al`: ah, ch, dh and bh stand between bl and spl.
fn byte_number(number: u32) -> u32 {
    if number < 4 { number } else { number + 4 }
}

/// The registers of arguments.
type Registers = SmallVec<[Register; 3]>;

/// Operands in the order of the machine's instruction.
type Operands = SmallVec<[Operand; 6]>;

impl Emitter<'_> {
    /// Emits one instruction.
    pub(super) fn instruction(&mut self, inst: &Inst, places: &[Place]) -> Result<(), String> {
        match inst.op {
            op if (op as usize) < Opcode::IntFromVector as usize => self.integer(inst, places),
            Opcode::IntFromVector
            | Opcode::VectorFromInt
            | Opcode::IntFromFloat
            | Opcode::FloatFromInt
            | Opcode::IntFromMask
            | Opcode::MaskFromInt
            | Opcode::IntFromSigns => self.crossing(inst, places),
            Opcode::MaskAnd | Opcode::MaskOr | Opcode::MaskXor | Opcode::MaskNot => {
                self.mask(inst, places)
            }
            Opcode::Low => Ok(()),
            _ => self.vector(inst, places),
        }
    }

    /// The registers of all operands: arguments, then the result.
    fn registers(&self, inst: &Inst, places: &[Place]) -> Result<Registers, String> {
        let mut registers = Registers::new();
        for (index, value) in inst.args.iter().enumerate() {
            registers.push(self.register_of(Self::place_of(places, index)?, value)?);
        }
        Ok(registers)
    }

    fn register_of(&self, place: Place, value: crate::vcode::VRegId) -> Result<Register, String> {
        register(
            place,
            match self.function.values[value] {
                RegisterType::Int | RegisterType::Mask => 8,
                vector => vector.vector_bytes(),
            },
        )
    }

    fn result(&self, inst: &Inst, places: &[Place]) -> Result<Register, String> {
        let value = inst.result.ok_or("an instruction without a result")?;
        let back = 1 + usize::from(inst.lost.is_some());
        self.register_of(Self::place_of(places, places.len().wrapping_sub(back))?, value)
    }

    fn memory(&self, inst: &Inst, places: &[Place]) -> Result<Option<Memory>, String> {
        let Some(address) = inst.address else { return Ok(None) };
        let mut next = inst.args.len() + usize::from(inst.mask.is_some());
        let mut displacement = address.displacement;
        let mut constant = None;
        let base = match address.base {
            Base::Value(_) => {
                next += 1;
                register(Self::place_of(places, next - 1)?, 8)?
            }
            Base::Pool(id) => {
                constant = Some(id);
                Register::RIP
            }
            Base::Frame => Register::RSP,
        };
        let index = match address.index {
            Some((_, scale)) => Some((register(Self::place_of(places, next)?, 8)?, scale)),
            None => None,
        };
        if constant.is_some() {
            displacement = 0;
        }
        let broadcast = address.broadcast;
        Ok(Some(Memory { base, index, displacement, broadcast, constant }))
    }

    /// The form of an operation for its operands: encoding and width.
    fn form(&self, inst: &Inst, evex: bool, bytes: usize) -> Code {
        let forms = lookup::forms(inst.op, inst.lane);
        let use_evex = evex && forms.evex != Code::INVALID || forms.vex == Code::INVALID;
        lookup::widened(if use_evex { forms.evex } else { forms.vex }, bytes)
    }

    fn vector(&mut self, inst: &Inst, places: &[Place]) -> Result<(), String> {
        let arguments = self.registers(inst, places)?;
        let memory = self.memory(inst, places)?;
        let result = match inst.result {
            Some(_) => Some(self.result(inst, places)?),
            None => None,
        };
        let mask = match inst.mask {
            Some(mask) => Some(self.register_of(Self::place_of(places, inst.args.len())?, mask)?),
            None => None,
        };
        let values = inst.args.iter().chain(inst.result);
        let bytes = values.map(|value| self.bytes_of(value)).max().unwrap_or(16);
        let registers = arguments.iter().chain(&result).chain(&mask);
        let evex = self.isa.has_avx512()
            && (bytes == 64
                || memory.is_some_and(|memory| memory.broadcast)
                || registers.into_iter().any(|register| needs_evex(*register)));
        let mut operands = Operands::new();
        if let Some(result) = result {
            operands.push(result.into());
        }
        for register in arguments.iter().skip(usize::from(inst.op.has(TIED))) {
            operands.push((*register).into());
        }
        if memory.is_some() {
            operands.push(Operand::Memory);
        }
        let opmask = mask.filter(|mask| is_mask(*mask)).map(|mask| (mask, true));
        let code = self.form(inst, evex, bytes);
        match inst.op {
            Opcode::Zero | Opcode::Ones => self.filled(inst.op, result),
            Opcode::Load | Opcode::Store if mask.is_some_and(|mask| !is_mask(mask)) => {
                self.masked_vex(inst, &operands, mask, memory, bytes)
            }
            Opcode::Constant | Opcode::Load | Opcode::LoadLane | Opcode::LoadBroadcast => {
                let code = if inst.op == Opcode::Constant {
                    let op = if memory.is_some_and(|m| m.broadcast) {
                        Opcode::LoadBroadcast
                    } else {
                        Opcode::Load
                    };
                    let forms = lookup::forms(op, inst.lane);
                    lookup::widened(if evex { forms.evex } else { forms.vex }, bytes)
                } else if inst.op == Opcode::LoadLane {
                    self.form(inst, evex, 16)
                } else {
                    code
                };
                let memory = memory.map(|memory| Memory { broadcast: false, ..memory });
                self.put(code, &operands, memory, opmask)
            }
            Opcode::Store | Opcode::StoreLane => {
                operands.reverse();
                if inst.lane == Lane::F16 {
                    operands.push(Operand::Imm(NEAREST_EVEN));
                }
                let code =
                    if inst.op == Opcode::StoreLane { self.form(inst, evex, 16) } else { code };
                self.put(code, &operands, memory, opmask.map(|(mask, _)| (mask, false)))
            }
            Opcode::Gather => self.gather(inst, &arguments, result, memory, bytes),
            Opcode::Scatter => {
                let index = memory
                    .map(|memory| Memory { index: Some((arguments[0], inst.imm as u8)), ..memory });
                let operands = [Operand::Memory, Operand::Register(arguments[1])];
                self.put(
                    self.form(inst, true, bytes),
                    &operands,
                    index,
                    Some((arguments[2], false)),
                )
            }
            Opcode::High => {
                let code = match (bytes, evex) {
                    (64, _) => Code::EVEX_Vextractf64x4_ymmm256_k1z_zmm_imm8,
                    (_, true) => Code::EVEX_Vextractf32x4_xmmm128_k1z_ymm_imm8,
                    (_, false) => Code::VEX_Vextractf128_xmmm128_ymm_imm8,
                };
                operands.push(Operand::Imm(1));
                self.put(code, &operands, None, None)
            }
            Opcode::Permute => {
                let code = match (bytes, evex) {
                    (64, _) => Code::EVEX_Vpermd_zmm_k1z_zmm_zmmm512b32,
                    (_, true) => Code::EVEX_Vpermd_ymm_k1z_ymm_ymmm256b32,
                    (_, false) => Code::VEX_Vpermd_ymm_ymm_ymmm256,
                };
                self.put(code, &operands, memory, None)
            }
            Opcode::Parts => {
                let (code, imm) = match (bytes, evex) {
                    (64, _) => (Code::EVEX_Vshuff32x4_zmm_k1z_zmm_zmmm512b32_imm8, inst.imm as u8),
                    (_, true) => {
                        (Code::EVEX_Vshuff32x4_ymm_k1z_ymm_ymmm256b32_imm8, inst.imm as u8)
                    }
                    // The second operand's parts are numbers 2 and 3; the upper half's stands four
                    // bits up.
                    (_, false) => {
                        let imm = inst.imm as u8;
                        (Code::VEX_Vperm2f128_ymm_ymm_ymmm256_imm8, imm & 1 | (2 | imm >> 1) << 4)
                    }
                };
                operands.push(Operand::Imm(imm.into()));
                self.put(code, &operands, None, None)
            }
            Opcode::Blend => self.blend(inst, &operands, arguments[2], bytes),
            Opcode::Compare if result.is_some_and(is_mask) => {
                operands.push(Operand::Imm(inst.imm));
                self.put(self.form(inst, true, bytes), &operands, memory, None)
            }
            Opcode::Compare
            | Opcode::CompareUnsigned
            | Opcode::Round
            | Opcode::ShlImm
            | Opcode::ShrImm
            | Opcode::SarImm
            | Opcode::Shuffle
            | Opcode::F32ToF16
            | Opcode::InsertLane => {
                operands.push(Operand::Imm(inst.imm));
                self.put(code, &operands, memory, None)
            }
            Opcode::BroadcastInt if inst.lane == Lane::I32 => {
                operands[1] = Operand::Register(register(Self::place_of(places, 0)?, 4)?);
                self.put(code, &operands, None, None)
            }
            _ => self.put(code, &operands, memory, opmask),
        }
    }

    fn filled(&mut self, op: Opcode, result: Option<Register>) -> Result<(), String> {
        let result = result.ok_or("an instruction without a result")?;
        let high = needs_evex(result);
        let register = Operand::Register(result);
        if op == Opcode::Zero {
            // Writing 128 bits clears the rest of the register.
            let short = Operand::Register(Register::XMM0 + u32::from(number(result)));
            let code = if high {
                Code::EVEX_Vpxord_xmm_k1z_xmm_xmmm128b32
            } else {
                Code::VEX_Vpxor_xmm_xmm_xmmm128
            };
            return self.put(code, &[short; 3], None, None);
        }
        let bytes = vector_bytes(result);
        if bytes == 64 || high {
            let code = Code::EVEX_Vpternlogd_xmm_k1z_xmm_xmmm128b32_imm8;
            let operands = [register, register, register, Operand::Imm(0xff)];
            return self.put(lookup::widened(code, bytes), &operands, None, None);
        }
        let code = lookup::widened(Code::VEX_Vpcmpeqd_xmm_xmm_xmmm128, bytes);
        self.put(code, &[register; 3], None, None)
    }

    /// Loads and stores under a mask in a vector register.
    fn masked_vex(
        &mut self,
        inst: &Inst,
        operands: &[Operand],
        mask: Option<Register>,
        memory: Option<Memory>,
        bytes: usize,
    ) -> Result<(), String> {
        let mask = Operand::Register(mask.ok_or("a masked access without a mask")?);
        let wide = inst.lane.bytes() == 8;
        if inst.op == Opcode::Load {
            let code = if wide {
                Code::VEX_Vmaskmovpd_xmm_xmm_m128
            } else {
                Code::VEX_Vmaskmovps_xmm_xmm_m128
            };
            let operands = [operands[0], mask, Operand::Memory];
            return self.put(lookup::widened(code, bytes), &operands, memory, None);
        }
        let code = if wide {
            Code::VEX_Vmaskmovpd_m128_xmm_xmm
        } else {
            Code::VEX_Vmaskmovps_m128_xmm_xmm
        };
        let operands = [Operand::Memory, mask, operands[0]];
        self.put(lookup::widened(code, bytes), &operands, memory, None)
    }

    fn gather(
        &mut self,
        inst: &Inst,
        arguments: &[Register],
        result: Option<Register>,
        memory: Option<Memory>,
        bytes: usize,
    ) -> Result<(), String> {
        let result = Operand::Register(result.ok_or("an instruction without a result")?);
        let memory =
            memory.map(|memory| Memory { index: Some((arguments[1], inst.imm as u8)), ..memory });
        let evex = self.isa.has_avx512();
        // The element's width counts, not the index's, which may be the longer vector.
        let bytes = inst.result.map_or(bytes, |result| self.bytes_of(result));
        let code = self.form(inst, evex, bytes);
        if evex {
            self.put(code, &[result, Operand::Memory], memory, Some((arguments[2], false)))
        } else {
            let operands = [result, Operand::Memory, Operand::Register(arguments[2])];
            self.put(code, &operands, memory, None)
        }
    }

    fn blend(
        &mut self,
        inst: &Inst,
        operands: &[Operand],
        mask: Register,
        bytes: usize,
    ) -> Result<(), String> {
        let wide = inst.lane.bytes() == 8;
        if is_mask(mask) {
            let code = if wide {
                Code::EVEX_Vblendmpd_xmm_k1z_xmm_xmmm128b64
            } else {
                Code::EVEX_Vblendmps_xmm_k1z_xmm_xmmm128b32
            };
            let code = lookup::widened(code, bytes);
            return self.put(code, &operands[..3], None, Some((mask, false)));
        }
        let code = if wide {
            Code::VEX_Vblendvpd_xmm_xmm_xmmm128_xmm
        } else {
            Code::VEX_Vblendvps_xmm_xmm_xmmm128_xmm
        };
        self.put(lookup::widened(code, bytes), operands, None, None)
    }

    fn mask(&mut self, inst: &Inst, places: &[Place]) -> Result<(), String> {
        let mut operands = Operands::new();
        operands.push(self.result(inst, places)?.into());
        operands.extend(self.registers(inst, places)?.into_iter().map(Operand::Register));
        self.put(lookup::forms(inst.op, inst.lane).vex, &operands, None, None)
    }

    /// Between register classes.
    fn crossing(&mut self, inst: &Inst, places: &[Place]) -> Result<(), String> {
        let argument = self.registers(inst, places)?[0];
        let result = self.result(inst, places)?;
        let half = inst.lane.bytes() == 4;
        let short = |register: Register| if half { short_register(register) } else { register };
        let evex = needs_evex(argument) || needs_evex(result);
        let code = self.form(inst, evex, 16);
        let (code, first, second) = match inst.op {
            Opcode::IntFromVector => (code, short(result), xmm(argument)),
            Opcode::VectorFromInt => (code, result, short(argument)),
            Opcode::IntFromFloat => (code, result, xmm(argument)),
            Opcode::IntFromMask => (code, short_register(result), argument),
            Opcode::MaskFromInt => (code, result, short_register(argument)),
            Opcode::IntFromSigns => {
                let code = match (half, vector_bytes(argument) == 32) {
                    (true, false) => Code::VEX_Vmovmskps_r32_xmm,
                    (true, true) => Code::VEX_Vmovmskps_r32_ymm,
                    (false, false) => Code::VEX_Vmovmskpd_r32_xmm,
                    (false, true) => Code::VEX_Vmovmskpd_r32_ymm,
                };
                (code, short_register(result), argument)
            }
            _ => return self.float_from_int(inst.lane, result, argument, evex),
        };
        let operands = [Operand::Register(first), Operand::Register(second)];
        self.put(code, &operands, None, None)
    }

    fn float_from_int(
        &mut self,
        lane: Lane,
        result: Register,
        argument: Register,
        evex: bool,
    ) -> Result<(), String> {
        // The upper lanes come from the second operand, which is cleared first.
        self.filled(Opcode::Zero, Some(result))?;
        let code = match (lane, evex) {
            (Lane::F32, false) => Code::VEX_Vcvtsi2ss_xmm_xmm_rm64,
            (Lane::F32, true) => Code::EVEX_Vcvtsi2ss_xmm_xmm_rm64_er,
            (_, false) => Code::VEX_Vcvtsi2sd_xmm_xmm_rm64,
            (_, true) => Code::EVEX_Vcvtsi2sd_xmm_xmm_rm64_er,
        };
        let operands =
            [Operand::Register(result), Operand::Register(result), Operand::Register(argument)];
        self.put(code, &operands, None, None)
    }

    fn integer(&mut self, inst: &Inst, places: &[Place]) -> Result<(), String> {
        let arguments = self.registers(inst, places)?;
        let memory = self.memory(inst, places)?;
        let code = lookup::forms(inst.op, inst.lane).vex;
        if inst.op == Opcode::IntStore {
            let source = register(Self::place_of(places, 0)?, inst.lane.bytes())?;
            return self.put(code, &[Operand::Memory, Operand::Register(source)], memory, None);
        }
        if inst.op == Opcode::Prefetch {
            return self.put(code, &[Operand::Memory], memory, None);
        }
        let result = self.result(inst, places)?;
        let imm = || i32::try_from(inst.imm).map_err(too_large);
        match inst.op {
            Opcode::IntConst => self.int_const(result, inst.imm),
            Opcode::Lea => self.lea(result, memory.ok_or("an address is missing")?),
            Opcode::IntAdd => {
                let (a, b) = (arguments[0], arguments[1]);
                let other = if result == a { Some(b) } else { (result == b).then_some(a) };
                match other {
                    Some(other) => {
                        self.encode(Code::Add_r64_rm64, &[result.into(), other.into()])?;
                        self.flags = Some(result);
                        Ok(())
                    }
                    None => self.lea(
                        result,
                        Memory {
                            base: a,
                            index: Some((b, 1)),
                            displacement: 0,
                            broadcast: false,
                            constant: None,
                        },
                    ),
                }
            }
            Opcode::IntSub | Opcode::IntMul | Opcode::IntAnd | Opcode::IntOr => {
                self.encode(code, &[result.into(), arguments[1].into()])
            }
            Opcode::IntMulImm => {
                self.encode(code, &[result.into(), arguments[0].into(), Operand::Imm(inst.imm)])
            }
            Opcode::IntAndImm | Opcode::IntShlImm | Opcode::IntShrImm | Opcode::IntSarImm => {
                self.encode_imm(code, result, imm()?)
            }
            Opcode::IntMin | Opcode::IntMax => {
                self.encode(Code::Cmp_r64_rm64, &[result.into(), arguments[1].into()])?;
                let min = inst.op == Opcode::IntMin;
                let code = if min { Code::Cmovg_r64_rm64 } else { Code::Cmovl_r64_rm64 };
                self.encode(code, &[result.into(), arguments[1].into()])
            }
            Opcode::IntSelect => {
                self.encode(Code::Test_rm64_r64, &[arguments[2].into(), arguments[2].into()])?;
                self.encode(Code::Cmove_r64_rm64, &[result.into(), arguments[1].into()])
            }
            Opcode::IntCompare => self.int_compare(inst, result, &arguments),
            Opcode::IntDivSigned | Opcode::IntRemSigned => {
                self.encode(Code::Cqo, &[])?;
                self.encode(code, &[arguments[1].into()])
            }
            Opcode::IntDivUnsigned | Opcode::IntRemUnsigned => {
                self.encode(Code::Xor_r32_rm32, &[Register::EDX.into(), Register::EDX.into()])?;
                self.encode(code, &[arguments[1].into()])
            }
            Opcode::IntExtend => {
                let source = register(Self::place_of(places, 0)?, inst.lane.bytes())?;
                self.encode(code, &[extended(result, inst.lane).into(), source.into()])
            }
            Opcode::IntLoad => {
                let result = extended(result, inst.lane);
                self.put(code, &[Operand::Register(result), Operand::Memory], memory, None)
            }
            op => Err(format!("{op:?} is no operation on integers")),
        }
    }

    fn int_const(&mut self, result: Register, value: i64) -> Result<(), String> {
        let short = short_register(result);
        if value == 0 {
            self.encode(Code::Xor_r32_rm32, &[short.into(), short.into()])
        } else if u32::try_from(value).is_ok() {
            self.encode_imm(Code::Mov_r32_imm32, short, value as i32)
        } else if let Ok(value) = i32::try_from(value) {
            self.encode_imm(Code::Mov_rm64_imm32, result, value)
        } else {
            self.encode(Code::Mov_r64_imm64, &[result.into(), Operand::Imm(value)])
        }
    }

    fn int_compare(
        &mut self,
        inst: &Inst,
        result: Register,
        arguments: &[Register],
    ) -> Result<(), String> {
        self.encode(Code::Cmp_r64_rm64, &[arguments[0].into(), arguments[1].into()])?;
        let cond = Cond::NAMES.get(inst.imm as usize).ok_or("no such comparison")?.0;
        let code = match cond {
            Cond::Equal => Code::Sete_rm8,
            Cond::NotEqual => Code::Setne_rm8,
            Cond::Less => Code::Setl_rm8,
            Cond::LessEqual => Code::Setle_rm8,
            Cond::Greater => Code::Setg_rm8,
            Cond::GreaterEqual => Code::Setge_rm8,
        };
        let byte = Register::AL + byte_number(number(result).into());
        self.encode(code, &[byte.into()])?;
        self.encode(Code::Movzx_r32_rm8, &[short_register(result).into(), byte.into()])
    }

    fn lea(&mut self, result: Register, memory: Memory) -> Result<(), String> {
        if memory.base == result && memory.index.is_none() {
            let imm = memory.displacement;
            let short = i8::try_from(imm).is_ok();
            let code = if short { Code::Add_rm64_imm8 } else { Code::Add_rm64_imm32 };
            self.encode_imm(code, result, imm)?;
            self.flags = Some(result);
            return Ok(());
        }
        self.put(Code::Lea_r64_m, &[Operand::Register(result), Operand::Memory], Some(memory), None)
    }

    /// A move that the allocator asks for: between registers, or to and from a spill slot.
    pub(super) fn move_between(&mut self, from: Place, to: Place) -> Result<(), String> {
        if from == to {
            return Ok(());
        }
        let class = from.as_reg().or(to.as_reg()).ok_or("a move between places in memory")?.class();
        let flags = self.flags;
        let wide = self.isa.has_avx512();
        let bytes = if wide { 64 } else { 32 };
        let (load, store) = match class {
            RegClass::Int => (Code::Mov_r64_rm64, Code::Mov_rm64_r64),
            RegClass::Vector => (Code::VEX_Kmovq_kr_km64, Code::VEX_Kmovq_m64_kr),
            RegClass::Float if wide => {
                (Code::EVEX_Vmovaps_zmm_k1z_zmmm512, Code::EVEX_Vmovaps_zmmm512_k1z_zmm)
            }
            RegClass::Float => (Code::VEX_Vmovaps_ymm_ymmm256, Code::VEX_Vmovaps_ymmm256_ymm),
        };
        let bytes = if class == RegClass::Float { bytes } else { 8 };
        match (from.kind(), to.kind()) {
            (AllocationKind::Reg, AllocationKind::Reg) => {
                self.encode(load, &[register(to, bytes)?.into(), register(from, bytes)?.into()])?;
            }
            (AllocationKind::Stack, _) => {
                let slot = Memory::at(Register::RSP, self.slot(from));
                let operands = [register(to, bytes)?.into(), Operand::Memory];
                self.put(load, &operands, Some(slot), None)?;
            }
            _ => {
                let slot = Memory::at(Register::RSP, self.slot(to));
                let operands = [Operand::Memory, register(from, bytes)?.into()];
                self.put(store, &operands, Some(slot), None)?;
            }
        }
        let written = to.as_reg().map(|_| register(to, bytes)).transpose()?;
        self.flags = flags.filter(|flags| Some(*flags) != written);
        Ok(())
    }

    fn slot(&self, place: Place) -> i32 {
        let slot = place.as_stack().map_or(0, |slot| slot.index());
        (self.frame.spills + 8 * slot) as i32
    }
}

/// The register that the move which extends an element to 64 bits writes: the 32-bit one where the
/// upper half becomes zero.
fn extended(register: Register, lane: Lane) -> Register {
    match lane {
        Lane::I8 | Lane::I16 | Lane::I32 | Lane::I64 | Lane::F64 => register,
        Lane::U8 | Lane::U16 | Lane::U32 | Lane::F16 | Lane::F32 => short_register(register),
    }
}

fn too_large(_: std::num::TryFromIntError) -> String {
    "an immediate is too large".to_string()
}

/// The 32-bit part of a 64-bit register.
fn short_register(register: Register) -> Register {
    Register::EAX + u32::from(number(register))
}

fn xmm(register: Register) -> Register {
    Register::XMM0 + u32::from(number(register))
}

/// Whether only EVEX encodings reach the register: mask registers and vectors 16 to 31.
fn needs_evex(register: Register) -> bool {
    is_mask(register) || vector_bytes(register) > 0 && number(register) >= 16
}
