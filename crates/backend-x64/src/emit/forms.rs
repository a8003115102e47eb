//! How forms of instructions are encoded: a row a form, in the manual's terms.
//!
//! In `iced_x86::Code` the forms for longer vectors follow that for the shortest; one row stands
//! for all of them.

use iced_x86::Code::{self, *};

/// A form: what stands where in its bytes.
#[derive(Clone, Copy)]
pub(super) struct Form {
    code: Code,
    pub(super) prefix: Prefix,
    pub(super) pp: u8,
    pub(super) map: u8,
    pub(super) w: bool,
    pub(super) opcode: u8,
    pub(super) layout: Layout,
    /// What stands in the place of the register in ModRM where no operand does.
    pub(super) digit: u8,
    /// The length of its vectors: 0, 1, 2 for 128, 256, 512 bits.
    length: u8,
    /// How many lengths there are from this one on.
    lengths: u8,
}

/// The kind of prefix.
#[derive(Clone, Copy)]
pub(super) enum Prefix {
    Legacy,
    Vex,
    /// What a short displacement counts in.
    Evex {
        unit: Unit,
    },
}

/// What a short displacement counts in: bytes of memory, and of an element that is broadcast.
#[derive(Clone, Copy)]
pub(super) enum Unit {
    /// The same for all lengths.
    Fixed(u8, u8),
    /// Of the shortest; longer vectors take more.
    Grows(u8, u8),
}

/// The position of the operand that stands in each field, or [`NOWHERE`].
#[derive(Clone, Copy)]
pub(super) struct Layout {
    /// The register of ModRM.
    pub(super) reg: u8,
    /// The register or memory of ModRM.
    pub(super) rm: u8,
    /// The register in the prefix.
    pub(super) vvvv: u8,
    /// The register in the last byte.
    pub(super) is4: u8,
    /// The register in the opcode.
    pub(super) opcode: u8,
    /// Bytes of the immediate, which is the last operand.
    pub(super) imm_bytes: u8,
}

/// No operand's position.
pub(super) const NOWHERE: u8 = u8::MAX;

/// Operands in order: R and M in ModRM, V in the prefix, S in the last byte, O in the opcode.
const NONE: Layout = Layout {
    reg: NOWHERE,
    rm: NOWHERE,
    vvvv: NOWHERE,
    is4: NOWHERE,
    opcode: NOWHERE,
    imm_bytes: 0,
};
const M: Layout = Layout { rm: 0, ..NONE };
const M_I: Layout = M.imm(1);
const M_I4: Layout = M.imm(4);
const MR: Layout = Layout { rm: 0, reg: 1, ..NONE };
const MR_I: Layout = MR.imm(1);
const MVR: Layout = Layout { rm: 0, vvvv: 1, reg: 2, ..NONE };
const O: Layout = Layout { opcode: 0, ..NONE };
const O_I4: Layout = O.imm(4);
const O_I8: Layout = O.imm(8);
const RM: Layout = Layout { reg: 0, rm: 1, ..NONE };
const RM_I: Layout = RM.imm(1);
const RM_I4: Layout = RM.imm(4);
const RMV: Layout = Layout { reg: 0, rm: 1, vvvv: 2, ..NONE };
const RVM: Layout = Layout { reg: 0, vvvv: 1, rm: 2, ..NONE };
const RVM_I: Layout = RVM.imm(1);
const RVMS: Layout = Layout { is4: 3, ..RVM };
const VM_I: Layout = Layout { vvvv: 0, rm: 1, imm_bytes: 1, ..NONE };

impl Layout {
    const fn imm(self, imm_bytes: u8) -> Layout {
        Layout { imm_bytes, ..self }
    }
}

const NP: u8 = 0;
pub(super) const P66: u8 = 1;
const PF3: u8 = 2;
const PF2: u8 = 3;

pub(super) const ONE: u8 = 0;
pub(super) const M0F: u8 = 1;
const M38: u8 = 2;
const M3A: u8 = 3;

const W0: bool = false;
const W1: bool = true;

use Unit::{Fixed, Grows};

const fn legacy(code: Code, pp: u8, map: u8, w: bool, opcode: u8, layout: Layout) -> Form {
    let prefix = Prefix::Legacy;
    Form { code, prefix, pp, map, w, opcode, layout, digit: 0, length: 0, lengths: 1 }
}

const fn vex(code: Code, pp: u8, map: u8, w: bool, opcode: u8, layout: Layout) -> Form {
    Form { prefix: Prefix::Vex, ..legacy(code, pp, map, w, opcode, layout) }
}

const fn evex(
    code: Code,
    pp: u8,
    map: u8,
    w: bool,
    opcode: u8,
    layout: Layout,
    unit: Unit,
) -> Form {
    Form { prefix: Prefix::Evex { unit }, ..legacy(code, pp, map, w, opcode, layout) }
}

impl Form {
    const fn digit(self, digit: u8) -> Form {
        Form { digit, ..self }
    }

    const fn longer(self, length: u8) -> Form {
        Form { length, ..self }
    }

    const fn lengths(self, lengths: u8) -> Form {
        Form { lengths, ..self }
    }

    /// The bytes that a short displacement counts in, of the form of a length.
    pub(super) fn unit(&self, length: u8, broadcast: bool) -> i32 {
        let Prefix::Evex { unit } = self.prefix else { return 1 };
        let (Fixed(bytes, element) | Grows(bytes, element)) = unit;
        match unit {
            _ if broadcast => element.into(),
            Fixed(..) => bytes.into(),
            Grows(..) => i32::from(bytes) << (length - self.length),
        }
    }
}

/// The row of a code, and the length that the code has.
pub(super) fn find(code: Code) -> Option<(&'static Form, u8)> {
    let row = *ROW_OF.get(code as usize)?;
    let form = FORMS.get(usize::from(row))?;
    Some((form, form.length + (code as usize - form.code as usize) as u8))
}

/// How many codes the rows reach.
const CODES: usize = {
    let (mut most, mut row) = (0, 0);
    while row < FORMS.len() {
        let end = FORMS[row].code as usize + FORMS[row].lengths as usize;
        most = if end > most { end } else { most };
        row += 1;
    }
    most
};

/// The row of each code; no row's number where there is none.
static ROW_OF: [u16; CODES] = {
    let mut rows = [u16::MAX; CODES];
    let mut row = 0;
    while row < FORMS.len() {
        let mut length = 0;
        while length < FORMS[row].lengths as usize {
            rows[FORMS[row].code as usize + length] = row as u16;
            length += 1;
        }
        row += 1;
    }
    rows
};

#[rustfmt::skip]
const FORMS: &[Form] = &[
    legacy(Add_r64_rm64, NP, ONE, W1, 0x03, RM),
    legacy(Or_r64_rm64, NP, ONE, W1, 0x0b, RM),
    legacy(And_r64_rm64, NP, ONE, W1, 0x23, RM),
    legacy(Sub_r64_rm64, NP, ONE, W1, 0x2b, RM),
    legacy(Xor_r32_rm32, NP, ONE, W0, 0x33, RM),
    legacy(Cmp_r64_rm64, NP, ONE, W1, 0x3b, RM),
    legacy(Push_r64, NP, ONE, W0, 0x50, O),
    legacy(Pop_r64, NP, ONE, W0, 0x58, O),
    legacy(Movsxd_r64_rm32, NP, ONE, W1, 0x63, RM),
    legacy(Imul_r64_rm64_imm32, NP, ONE, W1, 0x69, RM_I4),
    legacy(Add_rm64_imm32, NP, ONE, W1, 0x81, M_I4).digit(0),
    legacy(And_rm64_imm32, NP, ONE, W1, 0x81, M_I4).digit(4),
    legacy(Sub_rm64_imm32, NP, ONE, W1, 0x81, M_I4).digit(5),
    legacy(Cmp_rm64_imm32, NP, ONE, W1, 0x81, M_I4).digit(7),
    legacy(Add_rm64_imm8, NP, ONE, W1, 0x83, M_I).digit(0),
    legacy(And_rm64_imm8, NP, ONE, W1, 0x83, M_I).digit(4),
    legacy(Cmp_rm64_imm8, NP, ONE, W1, 0x83, M_I).digit(7),
    legacy(Test_rm64_r64, NP, ONE, W1, 0x85, MR),
    legacy(Mov_rm8_r8, NP, ONE, W0, 0x88, MR),
    legacy(Mov_rm16_r16, P66, ONE, W0, 0x89, MR),
    legacy(Mov_rm32_r32, NP, ONE, W0, 0x89, MR),
    legacy(Mov_rm64_r64, NP, ONE, W1, 0x89, MR),
    legacy(Mov_r32_rm32, NP, ONE, W0, 0x8b, RM),
    legacy(Mov_r64_rm64, NP, ONE, W1, 0x8b, RM),
    legacy(Lea_r64_m, NP, ONE, W1, 0x8d, RM),
    legacy(Cqo, NP, ONE, W1, 0x99, NONE),
    legacy(Mov_r32_imm32, NP, ONE, W0, 0xb8, O_I4),
    legacy(Mov_r64_imm64, NP, ONE, W1, 0xb8, O_I8),
    legacy(Shl_rm64_imm8, NP, ONE, W1, 0xc1, M_I).digit(4),
    legacy(Shr_rm64_imm8, NP, ONE, W1, 0xc1, M_I).digit(5),
    legacy(Sar_rm64_imm8, NP, ONE, W1, 0xc1, M_I).digit(7),
    legacy(Retnq, NP, ONE, W0, 0xc3, NONE),
    legacy(Mov_rm64_imm32, NP, ONE, W1, 0xc7, M_I4).digit(0),
    legacy(Div_rm64, NP, ONE, W1, 0xf7, M).digit(6),
    legacy(Idiv_rm64, NP, ONE, W1, 0xf7, M).digit(7),
    legacy(Prefetcht1_m8, NP, M0F, W0, 0x18, M).digit(2),
    legacy(Cmove_r64_rm64, NP, M0F, W1, 0x44, RM),
    legacy(Cmovl_r64_rm64, NP, M0F, W1, 0x4c, RM),
    legacy(Cmovg_r64_rm64, NP, M0F, W1, 0x4f, RM),
    legacy(Sete_rm8, NP, M0F, W0, 0x94, M),
    legacy(Setne_rm8, NP, M0F, W0, 0x95, M),
    legacy(Setl_rm8, NP, M0F, W0, 0x9c, M),
    legacy(Setge_rm8, NP, M0F, W0, 0x9d, M),
    legacy(Setle_rm8, NP, M0F, W0, 0x9e, M),
    legacy(Setg_rm8, NP, M0F, W0, 0x9f, M),
    legacy(Imul_r64_rm64, NP, M0F, W1, 0xaf, RM),
    legacy(Movzx_r32_rm8, NP, M0F, W0, 0xb6, RM),
    legacy(Movzx_r32_rm16, NP, M0F, W0, 0xb7, RM),
    legacy(Movsx_r64_rm8, NP, M0F, W1, 0xbe, RM),
    legacy(Movsx_r64_rm16, NP, M0F, W1, 0xbf, RM),
    vex(VEX_Vmovups_xmm_xmmm128, NP, M0F, W0, 0x10, RM).lengths(2),
    vex(VEX_Vmovupd_xmm_xmmm128, P66, M0F, W0, 0x10, RM).lengths(2),
    vex(VEX_Vmovss_xmm_m32, PF3, M0F, W0, 0x10, RM),
    vex(VEX_Vmovsd_xmm_m64, PF2, M0F, W0, 0x10, RM),
    vex(VEX_Vmovups_xmmm128_xmm, NP, M0F, W0, 0x11, MR).lengths(2),
    vex(VEX_Vmovupd_xmmm128_xmm, P66, M0F, W0, 0x11, MR).lengths(2),
    vex(VEX_Vmovss_m32_xmm, PF3, M0F, W0, 0x11, MR),
    vex(VEX_Vmovsd_m64_xmm, PF2, M0F, W0, 0x11, MR),
    vex(VEX_Vunpcklps_xmm_xmm_xmmm128, NP, M0F, W0, 0x14, RVM).lengths(2),
    vex(VEX_Vunpcklpd_xmm_xmm_xmmm128, P66, M0F, W0, 0x14, RVM).lengths(2),
    vex(VEX_Vunpckhps_xmm_xmm_xmmm128, NP, M0F, W0, 0x15, RVM).lengths(2),
    vex(VEX_Vunpckhpd_xmm_xmm_xmmm128, P66, M0F, W0, 0x15, RVM).lengths(2),
    vex(VEX_Vmovaps_ymm_ymmm256, NP, M0F, W0, 0x28, RM).longer(1),
    vex(VEX_Vmovaps_ymmm256_ymm, NP, M0F, W0, 0x29, MR).longer(1),
    vex(VEX_Vcvtsi2ss_xmm_xmm_rm64, PF3, M0F, W1, 0x2a, RVM),
    vex(VEX_Vcvtsi2sd_xmm_xmm_rm64, PF2, M0F, W1, 0x2a, RVM),
    vex(VEX_Vcvttss2si_r64_xmmm32, PF3, M0F, W1, 0x2c, RM),
    vex(VEX_Vcvttsd2si_r64_xmmm64, PF2, M0F, W1, 0x2c, RM),
    vex(VEX_Kandw_kr_kr_kr, NP, M0F, W0, 0x41, RVM).longer(1),
    vex(VEX_Knotw_kr_kr, NP, M0F, W0, 0x44, RM),
    vex(VEX_Korw_kr_kr_kr, NP, M0F, W0, 0x45, RVM).longer(1),
    vex(VEX_Kxorw_kr_kr_kr, NP, M0F, W0, 0x47, RVM).longer(1),
    vex(VEX_Vmovmskps_r32_xmm, NP, M0F, W0, 0x50, RM),
    vex(VEX_Vmovmskps_r32_ymm, NP, M0F, W0, 0x50, RM).longer(1),
    vex(VEX_Vmovmskpd_r32_xmm, P66, M0F, W0, 0x50, RM),
    vex(VEX_Vmovmskpd_r32_ymm, P66, M0F, W0, 0x50, RM).longer(1),
    vex(VEX_Vsqrtps_xmm_xmmm128, NP, M0F, W0, 0x51, RM).lengths(2),
    vex(VEX_Vsqrtpd_xmm_xmmm128, P66, M0F, W0, 0x51, RM).lengths(2),
    vex(VEX_Vandps_xmm_xmm_xmmm128, NP, M0F, W0, 0x54, RVM).lengths(2),
    vex(VEX_Vandpd_xmm_xmm_xmmm128, P66, M0F, W0, 0x54, RVM).lengths(2),
    vex(VEX_Vandnps_xmm_xmm_xmmm128, NP, M0F, W0, 0x55, RVM).lengths(2),
    vex(VEX_Vandnpd_xmm_xmm_xmmm128, P66, M0F, W0, 0x55, RVM).lengths(2),
    vex(VEX_Vorps_xmm_xmm_xmmm128, NP, M0F, W0, 0x56, RVM).lengths(2),
    vex(VEX_Vorpd_xmm_xmm_xmmm128, P66, M0F, W0, 0x56, RVM).lengths(2),
    vex(VEX_Vxorps_xmm_xmm_xmmm128, NP, M0F, W0, 0x57, RVM).lengths(2),
    vex(VEX_Vxorpd_xmm_xmm_xmmm128, P66, M0F, W0, 0x57, RVM).lengths(2),
    vex(VEX_Vaddps_xmm_xmm_xmmm128, NP, M0F, W0, 0x58, RVM).lengths(2),
    vex(VEX_Vaddpd_xmm_xmm_xmmm128, P66, M0F, W0, 0x58, RVM).lengths(2),
    vex(VEX_Vmulps_xmm_xmm_xmmm128, NP, M0F, W0, 0x59, RVM).lengths(2),
    vex(VEX_Vmulpd_xmm_xmm_xmmm128, P66, M0F, W0, 0x59, RVM).lengths(2),
    vex(VEX_Vcvtps2pd_xmm_xmmm64, NP, M0F, W0, 0x5a, RM).lengths(2),
    vex(VEX_Vcvtpd2ps_xmm_xmmm128, P66, M0F, W0, 0x5a, RM).lengths(2),
    vex(VEX_Vcvtdq2ps_xmm_xmmm128, NP, M0F, W0, 0x5b, RM).lengths(2),
    vex(VEX_Vcvttps2dq_xmm_xmmm128, PF3, M0F, W0, 0x5b, RM).lengths(2),
    vex(VEX_Vsubps_xmm_xmm_xmmm128, NP, M0F, W0, 0x5c, RVM).lengths(2),
    vex(VEX_Vsubpd_xmm_xmm_xmmm128, P66, M0F, W0, 0x5c, RVM).lengths(2),
    vex(VEX_Vminps_xmm_xmm_xmmm128, NP, M0F, W0, 0x5d, RVM).lengths(2),
    vex(VEX_Vminpd_xmm_xmm_xmmm128, P66, M0F, W0, 0x5d, RVM).lengths(2),
    vex(VEX_Vdivps_xmm_xmm_xmmm128, NP, M0F, W0, 0x5e, RVM).lengths(2),
    vex(VEX_Vdivpd_xmm_xmm_xmmm128, P66, M0F, W0, 0x5e, RVM).lengths(2),
    vex(VEX_Vmaxps_xmm_xmm_xmmm128, NP, M0F, W0, 0x5f, RVM).lengths(2),
    vex(VEX_Vmaxpd_xmm_xmm_xmmm128, P66, M0F, W0, 0x5f, RVM).lengths(2),
    vex(VEX_Vpcmpgtd_xmm_xmm_xmmm128, P66, M0F, W0, 0x66, RVM).lengths(2),
    vex(VEX_Vmovd_xmm_rm32, P66, M0F, W0, 0x6e, RM),
    vex(VEX_Vmovq_xmm_rm64, P66, M0F, W1, 0x6e, RM),
    vex(VEX_Vpshufd_xmm_xmmm128_imm8, P66, M0F, W0, 0x70, RM_I).lengths(2),
    vex(VEX_Vpsrld_xmm_xmm_imm8, P66, M0F, W0, 0x72, VM_I).digit(2).lengths(2),
    vex(VEX_Vpsrad_xmm_xmm_imm8, P66, M0F, W0, 0x72, VM_I).digit(4).lengths(2),
    vex(VEX_Vpslld_xmm_xmm_imm8, P66, M0F, W0, 0x72, VM_I).digit(6).lengths(2),
    vex(VEX_Vpsrlq_xmm_xmm_imm8, P66, M0F, W0, 0x73, VM_I).digit(2).lengths(2),
    vex(VEX_Vpsllq_xmm_xmm_imm8, P66, M0F, W0, 0x73, VM_I).digit(6).lengths(2),
    vex(VEX_Vpcmpeqd_xmm_xmm_xmmm128, P66, M0F, W0, 0x76, RVM).lengths(2),
    vex(VEX_Vzeroupper, NP, M0F, W0, 0x77, NONE),
    vex(VEX_Vmovd_rm32_xmm, P66, M0F, W0, 0x7e, MR),
    vex(VEX_Vmovq_rm64_xmm, P66, M0F, W1, 0x7e, MR),
    vex(VEX_Vmovq_xmm_xmmm64, PF3, M0F, W0, 0x7e, RM),
    vex(VEX_Kmovq_kr_km64, NP, M0F, W1, 0x90, RM),
    vex(VEX_Kmovq_m64_kr, NP, M0F, W1, 0x91, MR),
    vex(VEX_Kmovw_kr_r32, NP, M0F, W0, 0x92, RM),
    vex(VEX_Kmovw_r32_kr, NP, M0F, W0, 0x93, RM),
    vex(VEX_Vcmpps_xmm_xmm_xmmm128_imm8, NP, M0F, W0, 0xc2, RVM_I).lengths(2),
    vex(VEX_Vcmppd_xmm_xmm_xmmm128_imm8, P66, M0F, W0, 0xc2, RVM_I).lengths(2),
    vex(VEX_Vpaddq_xmm_xmm_xmmm128, P66, M0F, W0, 0xd4, RVM).lengths(2),
    vex(VEX_Vmovq_xmmm64_xmm, P66, M0F, W0, 0xd6, MR),
    vex(VEX_Vpand_xmm_xmm_xmmm128, P66, M0F, W0, 0xdb, RVM).lengths(2),
    vex(VEX_Vpandn_xmm_xmm_xmmm128, P66, M0F, W0, 0xdf, RVM).lengths(2),
    vex(VEX_Vcvttpd2dq_xmm_xmmm128, P66, M0F, W0, 0xe6, RM).lengths(2),
    vex(VEX_Vcvtdq2pd_xmm_xmmm64, PF3, M0F, W0, 0xe6, RM).lengths(2),
    vex(VEX_Vpor_xmm_xmm_xmmm128, P66, M0F, W0, 0xeb, RVM).lengths(2),
    vex(VEX_Vpxor_xmm_xmm_xmmm128, P66, M0F, W0, 0xef, RVM).lengths(2),
    vex(VEX_Vpmuludq_xmm_xmm_xmmm128, P66, M0F, W0, 0xf4, RVM).lengths(2),
    vex(VEX_Vpmaddwd_xmm_xmm_xmmm128, P66, M0F, W0, 0xf5, RVM).lengths(2),
    vex(VEX_Vpsubd_xmm_xmm_xmmm128, P66, M0F, W0, 0xfa, RVM).lengths(2),
    vex(VEX_Vpsubq_xmm_xmm_xmmm128, P66, M0F, W0, 0xfb, RVM).lengths(2),
    vex(VEX_Vpaddd_xmm_xmm_xmmm128, P66, M0F, W0, 0xfe, RVM).lengths(2),
    vex(VEX_Vpshufb_xmm_xmm_xmmm128, P66, M38, W0, 0x00, RVM).lengths(2),
    vex(VEX_Vcvtph2ps_xmm_xmmm64, P66, M38, W0, 0x13, RM).lengths(2),
    vex(VEX_Vbroadcastss_xmm_m32, P66, M38, W0, 0x18, RM).lengths(2),
    vex(VEX_Vpabsd_xmm_xmmm128, P66, M38, W0, 0x1e, RM).lengths(2),
    vex(VEX_Vpmovsxbd_xmm_xmmm32, P66, M38, W0, 0x21, RM).lengths(2),
    vex(VEX_Vpmovsxwd_xmm_xmmm64, P66, M38, W0, 0x23, RM).lengths(2),
    vex(VEX_Vpmovsxdq_xmm_xmmm64, P66, M38, W0, 0x25, RM).lengths(2),
    vex(VEX_Vpcmpeqq_xmm_xmm_xmmm128, P66, M38, W0, 0x29, RVM).lengths(2),
    vex(VEX_Vmaskmovps_xmm_xmm_m128, P66, M38, W0, 0x2c, RVM).lengths(2),
    vex(VEX_Vmaskmovpd_xmm_xmm_m128, P66, M38, W0, 0x2d, RVM).lengths(2),
    vex(VEX_Vmaskmovps_m128_xmm_xmm, P66, M38, W0, 0x2e, MVR).lengths(2),
    vex(VEX_Vmaskmovpd_m128_xmm_xmm, P66, M38, W0, 0x2f, MVR).lengths(2),
    vex(VEX_Vpmovzxbd_xmm_xmmm32, P66, M38, W0, 0x31, RM).lengths(2),
    vex(VEX_Vpmovzxwd_xmm_xmmm64, P66, M38, W0, 0x33, RM).lengths(2),
    vex(VEX_Vpmovzxdq_xmm_xmmm64, P66, M38, W0, 0x35, RM).lengths(2),
    vex(VEX_Vpermd_ymm_ymm_ymmm256, P66, M38, W0, 0x36, RVM).longer(1),
    vex(VEX_Vpcmpgtq_xmm_xmm_xmmm128, P66, M38, W0, 0x37, RVM).lengths(2),
    vex(VEX_Vpminsd_xmm_xmm_xmmm128, P66, M38, W0, 0x39, RVM).lengths(2),
    vex(VEX_Vpminud_xmm_xmm_xmmm128, P66, M38, W0, 0x3b, RVM).lengths(2),
    vex(VEX_Vpmaxsd_xmm_xmm_xmmm128, P66, M38, W0, 0x3d, RVM).lengths(2),
    vex(VEX_Vpmaxud_xmm_xmm_xmmm128, P66, M38, W0, 0x3f, RVM).lengths(2),
    vex(VEX_Vpmulld_xmm_xmm_xmmm128, P66, M38, W0, 0x40, RVM).lengths(2),
    vex(VEX_Vpsrlvd_xmm_xmm_xmmm128, P66, M38, W0, 0x45, RVM).lengths(2),
    vex(VEX_Vpsrlvq_xmm_xmm_xmmm128, P66, M38, W1, 0x45, RVM).lengths(2),
    vex(VEX_Vpsravd_xmm_xmm_xmmm128, P66, M38, W0, 0x46, RVM).lengths(2),
    vex(VEX_Vpsllvd_xmm_xmm_xmmm128, P66, M38, W0, 0x47, RVM).lengths(2),
    vex(VEX_Vpsllvq_xmm_xmm_xmmm128, P66, M38, W1, 0x47, RVM).lengths(2),
    vex(VEX_Vpbroadcastd_xmm_xmmm32, P66, M38, W0, 0x58, RM).lengths(2),
    vex(VEX_Vpbroadcastq_xmm_xmmm64, P66, M38, W0, 0x59, RM).lengths(2),
    vex(VEX_Vpgatherdd_xmm_vm32x_xmm, P66, M38, W0, 0x90, RMV).lengths(2),
    vex(VEX_Vpgatherdq_xmm_vm32x_xmm, P66, M38, W1, 0x90, RMV).lengths(2),
    vex(VEX_Vgatherdps_xmm_vm32x_xmm, P66, M38, W0, 0x92, RMV).lengths(2),
    vex(VEX_Vgatherdpd_xmm_vm32x_xmm, P66, M38, W1, 0x92, RMV).lengths(2),
    vex(VEX_Vfmadd213ps_xmm_xmm_xmmm128, P66, M38, W0, 0xa8, RVM).lengths(2),
    vex(VEX_Vfmadd213pd_xmm_xmm_xmmm128, P66, M38, W1, 0xa8, RVM).lengths(2),
    vex(VEX_Vfmadd231ps_xmm_xmm_xmmm128, P66, M38, W0, 0xb8, RVM).lengths(2),
    vex(VEX_Vfmadd231pd_xmm_xmm_xmmm128, P66, M38, W1, 0xb8, RVM).lengths(2),
    vex(VEX_Vperm2f128_ymm_ymm_ymmm256_imm8, P66, M3A, W0, 0x06, RVM_I).longer(1),
    vex(VEX_Vroundps_xmm_xmmm128_imm8, P66, M3A, W0, 0x08, RM_I).lengths(2),
    vex(VEX_Vroundpd_xmm_xmmm128_imm8, P66, M3A, W0, 0x09, RM_I).lengths(2),
    vex(VEX_Vextractf128_xmmm128_ymm_imm8, P66, M3A, W0, 0x19, MR_I).longer(1),
    vex(VEX_Vcvtps2ph_xmmm64_xmm_imm8, P66, M3A, W0, 0x1d, MR_I).lengths(2),
    vex(VEX_Vblendvps_xmm_xmm_xmmm128_xmm, P66, M3A, W0, 0x4a, RVMS).lengths(2),
    vex(VEX_Vblendvpd_xmm_xmm_xmmm128_xmm, P66, M3A, W0, 0x4b, RVMS).lengths(2),
    vex(VEX_Vbroadcastss_xmm_xmm, P66, M38, W0, 0x18, RM).lengths(2),
    evex(EVEX_Vmovups_xmm_k1z_xmmm128, NP, M0F, W0, 0x10, RM, Grows(16, 0)).lengths(3),
    evex(EVEX_Vmovupd_xmm_k1z_xmmm128, P66, M0F, W1, 0x10, RM, Grows(16, 0)).lengths(3),
    evex(EVEX_Vmovss_xmm_k1z_m32, PF3, M0F, W0, 0x10, RM, Fixed(4, 0)),
    evex(EVEX_Vmovsd_xmm_k1z_m64, PF2, M0F, W1, 0x10, RM, Fixed(8, 0)),
    evex(EVEX_Vmovups_xmmm128_k1z_xmm, NP, M0F, W0, 0x11, MR, Grows(16, 0)).lengths(3),
    evex(EVEX_Vmovupd_xmmm128_k1z_xmm, P66, M0F, W1, 0x11, MR, Grows(16, 0)).lengths(3),
    evex(EVEX_Vmovss_m32_k1_xmm, PF3, M0F, W0, 0x11, MR, Fixed(4, 0)),
    evex(EVEX_Vmovsd_m64_k1_xmm, PF2, M0F, W1, 0x11, MR, Fixed(8, 0)),
    evex(EVEX_Vunpcklps_xmm_k1z_xmm_xmmm128b32, NP, M0F, W0, 0x14, RVM, Grows(16, 4)).lengths(3),
    evex(EVEX_Vunpcklpd_xmm_k1z_xmm_xmmm128b64, P66, M0F, W1, 0x14, RVM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vunpckhps_xmm_k1z_xmm_xmmm128b32, NP, M0F, W0, 0x15, RVM, Grows(16, 4)).lengths(3),
    evex(EVEX_Vunpckhpd_xmm_k1z_xmm_xmmm128b64, P66, M0F, W1, 0x15, RVM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vmovaps_zmm_k1z_zmmm512, NP, M0F, W0, 0x28, RM, Fixed(64, 0)).longer(2),
    evex(EVEX_Vmovaps_zmmm512_k1z_zmm, NP, M0F, W0, 0x29, MR, Fixed(64, 0)).longer(2),
    evex(EVEX_Vcvtsi2ss_xmm_xmm_rm64_er, PF3, M0F, W1, 0x2a, RVM, Fixed(8, 0)),
    evex(EVEX_Vcvtsi2sd_xmm_xmm_rm64_er, PF2, M0F, W1, 0x2a, RVM, Fixed(8, 0)),
    evex(EVEX_Vcvttss2si_r64_xmmm32_sae, PF3, M0F, W1, 0x2c, RM, Fixed(4, 0)),
    evex(EVEX_Vcvttsd2si_r64_xmmm64_sae, PF2, M0F, W1, 0x2c, RM, Fixed(8, 0)),
    evex(EVEX_Vsqrtps_xmm_k1z_xmmm128b32, NP, M0F, W0, 0x51, RM, Grows(16, 4)).lengths(3),
    evex(EVEX_Vsqrtpd_xmm_k1z_xmmm128b64, P66, M0F, W1, 0x51, RM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vandps_xmm_k1z_xmm_xmmm128b32, NP, M0F, W0, 0x54, RVM, Grows(16, 4)).lengths(3),
    evex(EVEX_Vandpd_xmm_k1z_xmm_xmmm128b64, P66, M0F, W1, 0x54, RVM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vandnps_xmm_k1z_xmm_xmmm128b32, NP, M0F, W0, 0x55, RVM, Grows(16, 4)).lengths(3),
    evex(EVEX_Vandnpd_xmm_k1z_xmm_xmmm128b64, P66, M0F, W1, 0x55, RVM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vorps_xmm_k1z_xmm_xmmm128b32, NP, M0F, W0, 0x56, RVM, Grows(16, 4)).lengths(3),
    evex(EVEX_Vorpd_xmm_k1z_xmm_xmmm128b64, P66, M0F, W1, 0x56, RVM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vxorps_xmm_k1z_xmm_xmmm128b32, NP, M0F, W0, 0x57, RVM, Grows(16, 4)).lengths(3),
    evex(EVEX_Vxorpd_xmm_k1z_xmm_xmmm128b64, P66, M0F, W1, 0x57, RVM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vaddps_xmm_k1z_xmm_xmmm128b32, NP, M0F, W0, 0x58, RVM, Grows(16, 4)).lengths(3),
    evex(EVEX_Vaddpd_xmm_k1z_xmm_xmmm128b64, P66, M0F, W1, 0x58, RVM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vmulps_xmm_k1z_xmm_xmmm128b32, NP, M0F, W0, 0x59, RVM, Grows(16, 4)).lengths(3),
    evex(EVEX_Vmulpd_xmm_k1z_xmm_xmmm128b64, P66, M0F, W1, 0x59, RVM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vcvtps2pd_xmm_k1z_xmmm64b32, NP, M0F, W0, 0x5a, RM, Grows(8, 4)).lengths(3),
    evex(EVEX_Vcvtpd2ps_xmm_k1z_xmmm128b64, P66, M0F, W1, 0x5a, RM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vcvtdq2ps_xmm_k1z_xmmm128b32, NP, M0F, W0, 0x5b, RM, Grows(16, 4)).lengths(3),
    evex(EVEX_Vcvtqq2ps_xmm_k1z_xmmm128b64, NP, M0F, W1, 0x5b, RM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vcvttps2dq_xmm_k1z_xmmm128b32, PF3, M0F, W0, 0x5b, RM, Grows(16, 4)).lengths(3),
    evex(EVEX_Vsubps_xmm_k1z_xmm_xmmm128b32, NP, M0F, W0, 0x5c, RVM, Grows(16, 4)).lengths(3),
    evex(EVEX_Vsubpd_xmm_k1z_xmm_xmmm128b64, P66, M0F, W1, 0x5c, RVM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vminps_xmm_k1z_xmm_xmmm128b32, NP, M0F, W0, 0x5d, RVM, Grows(16, 4)).lengths(3),
    evex(EVEX_Vminpd_xmm_k1z_xmm_xmmm128b64, P66, M0F, W1, 0x5d, RVM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vdivps_xmm_k1z_xmm_xmmm128b32, NP, M0F, W0, 0x5e, RVM, Grows(16, 4)).lengths(3),
    evex(EVEX_Vdivpd_xmm_k1z_xmm_xmmm128b64, P66, M0F, W1, 0x5e, RVM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vmaxps_xmm_k1z_xmm_xmmm128b32, NP, M0F, W0, 0x5f, RVM, Grows(16, 4)).lengths(3),
    evex(EVEX_Vmaxpd_xmm_k1z_xmm_xmmm128b64, P66, M0F, W1, 0x5f, RVM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vmovd_xmm_rm32, P66, M0F, W0, 0x6e, RM, Fixed(4, 0)),
    evex(EVEX_Vmovq_xmm_rm64, P66, M0F, W1, 0x6e, RM, Fixed(8, 0)),
    evex(EVEX_Vmovdqu32_xmm_k1z_xmmm128, PF3, M0F, W0, 0x6f, RM, Grows(16, 0)).lengths(3),
    evex(EVEX_Vmovdqu64_xmm_k1z_xmmm128, PF3, M0F, W1, 0x6f, RM, Grows(16, 0)).lengths(3),
    evex(EVEX_Vpshufd_xmm_k1z_xmmm128b32_imm8, P66, M0F, W0, 0x70, RM_I, Grows(16, 4)).lengths(3),
    evex(EVEX_Vpsrld_xmm_k1z_xmmm128b32_imm8, P66, M0F, W0, 0x72, VM_I, Grows(16, 4)).digit(2)
        .lengths(3),
    evex(EVEX_Vpsrad_xmm_k1z_xmmm128b32_imm8, P66, M0F, W0, 0x72, VM_I, Grows(16, 4)).digit(4)
        .lengths(3),
    evex(EVEX_Vpsraq_xmm_k1z_xmmm128b64_imm8, P66, M0F, W1, 0x72, VM_I, Grows(16, 8)).digit(4)
        .lengths(3),
    evex(EVEX_Vpslld_xmm_k1z_xmmm128b32_imm8, P66, M0F, W0, 0x72, VM_I, Grows(16, 4)).digit(6)
        .lengths(3),
    evex(EVEX_Vpsrlq_xmm_k1z_xmmm128b64_imm8, P66, M0F, W1, 0x73, VM_I, Grows(16, 8)).digit(2)
        .lengths(3),
    evex(EVEX_Vpsllq_xmm_k1z_xmmm128b64_imm8, P66, M0F, W1, 0x73, VM_I, Grows(16, 8)).digit(6)
        .lengths(3),
    evex(EVEX_Vcvttps2udq_xmm_k1z_xmmm128b32, NP, M0F, W0, 0x78, RM, Grows(16, 4)).lengths(3),
    evex(EVEX_Vcvttpd2udq_xmm_k1z_xmmm128b64, NP, M0F, W1, 0x78, RM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vcvttps2uqq_xmm_k1z_xmmm64b32, P66, M0F, W0, 0x78, RM, Grows(8, 4)).lengths(3),
    evex(EVEX_Vcvttpd2uqq_xmm_k1z_xmmm128b64, P66, M0F, W1, 0x78, RM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vcvttps2qq_xmm_k1z_xmmm64b32, P66, M0F, W0, 0x7a, RM, Grows(8, 4)).lengths(3),
    evex(EVEX_Vcvttpd2qq_xmm_k1z_xmmm128b64, P66, M0F, W1, 0x7a, RM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vcvtudq2pd_xmm_k1z_xmmm64b32, PF3, M0F, W0, 0x7a, RM, Grows(8, 4)).lengths(3),
    evex(EVEX_Vcvtuqq2pd_xmm_k1z_xmmm128b64, PF3, M0F, W1, 0x7a, RM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vcvtudq2ps_xmm_k1z_xmmm128b32, PF2, M0F, W0, 0x7a, RM, Grows(16, 4)).lengths(3),
    evex(EVEX_Vcvtuqq2ps_xmm_k1z_xmmm128b64, PF2, M0F, W1, 0x7a, RM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vmovd_rm32_xmm, P66, M0F, W0, 0x7e, MR, Fixed(4, 0)),
    evex(EVEX_Vmovq_rm64_xmm, P66, M0F, W1, 0x7e, MR, Fixed(8, 0)),
    evex(EVEX_Vmovq_xmm_xmmm64, PF3, M0F, W1, 0x7e, RM, Fixed(8, 0)),
    evex(EVEX_Vmovdqu32_xmmm128_k1z_xmm, PF3, M0F, W0, 0x7f, MR, Grows(16, 0)).lengths(3),
    evex(EVEX_Vmovdqu64_xmmm128_k1z_xmm, PF3, M0F, W1, 0x7f, MR, Grows(16, 0)).lengths(3),
    evex(EVEX_Vmovdqu16_xmmm128_k1z_xmm, PF2, M0F, W1, 0x7f, MR, Grows(16, 0)).lengths(3),
    evex(EVEX_Vcmpps_kr_k1_xmm_xmmm128b32_imm8, NP, M0F, W0, 0xc2, RVM_I, Grows(16, 4)).lengths(3),
    evex(EVEX_Vcmppd_kr_k1_xmm_xmmm128b64_imm8, P66, M0F, W1, 0xc2, RVM_I, Grows(16, 8)).lengths(3),
    evex(EVEX_Vpaddq_xmm_k1z_xmm_xmmm128b64, P66, M0F, W1, 0xd4, RVM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vmovq_xmmm64_xmm, P66, M0F, W1, 0xd6, MR, Fixed(8, 0)),
    evex(EVEX_Vpandd_xmm_k1z_xmm_xmmm128b32, P66, M0F, W0, 0xdb, RVM, Grows(16, 4)).lengths(3),
    evex(EVEX_Vpandq_xmm_k1z_xmm_xmmm128b64, P66, M0F, W1, 0xdb, RVM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vpandnd_xmm_k1z_xmm_xmmm128b32, P66, M0F, W0, 0xdf, RVM, Grows(16, 4)).lengths(3),
    evex(EVEX_Vpandnq_xmm_k1z_xmm_xmmm128b64, P66, M0F, W1, 0xdf, RVM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vcvttpd2dq_xmm_k1z_xmmm128b64, P66, M0F, W1, 0xe6, RM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vcvtdq2pd_xmm_k1z_xmmm64b32, PF3, M0F, W0, 0xe6, RM, Grows(8, 4)).lengths(3),
    evex(EVEX_Vcvtqq2pd_xmm_k1z_xmmm128b64, PF3, M0F, W1, 0xe6, RM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vpord_xmm_k1z_xmm_xmmm128b32, P66, M0F, W0, 0xeb, RVM, Grows(16, 4)).lengths(3),
    evex(EVEX_Vporq_xmm_k1z_xmm_xmmm128b64, P66, M0F, W1, 0xeb, RVM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vpxord_xmm_k1z_xmm_xmmm128b32, P66, M0F, W0, 0xef, RVM, Grows(16, 4)).lengths(3),
    evex(EVEX_Vpxorq_xmm_k1z_xmm_xmmm128b64, P66, M0F, W1, 0xef, RVM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vpmuludq_xmm_k1z_xmm_xmmm128b64, P66, M0F, W1, 0xf4, RVM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vpmaddwd_xmm_k1z_xmm_xmmm128, P66, M0F, W0, 0xf5, RVM, Grows(16, 0)).lengths(3),
    evex(EVEX_Vpsubd_xmm_k1z_xmm_xmmm128b32, P66, M0F, W0, 0xfa, RVM, Grows(16, 4)).lengths(3),
    evex(EVEX_Vpsubq_xmm_k1z_xmm_xmmm128b64, P66, M0F, W1, 0xfb, RVM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vpaddd_xmm_k1z_xmm_xmmm128b32, P66, M0F, W0, 0xfe, RVM, Grows(16, 4)).lengths(3),
    evex(EVEX_Vpshufb_xmm_k1z_xmm_xmmm128, P66, M38, W0, 0x00, RVM, Grows(16, 0)).lengths(3),
    evex(EVEX_Vcvtph2ps_xmm_k1z_xmmm64, P66, M38, W0, 0x13, RM, Grows(8, 0)).lengths(3),
    evex(EVEX_Vbroadcastss_xmm_k1z_xmmm32, P66, M38, W0, 0x18, RM, Fixed(4, 0)).lengths(3),
    evex(EVEX_Vpabsd_xmm_k1z_xmmm128b32, P66, M38, W0, 0x1e, RM, Grows(16, 4)).lengths(3),
    evex(EVEX_Vpabsq_xmm_k1z_xmmm128b64, P66, M38, W1, 0x1f, RM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vpmovsxbd_xmm_k1z_xmmm32, P66, M38, W0, 0x21, RM, Grows(4, 0)).lengths(3),
    evex(EVEX_Vpmovsxwd_xmm_k1z_xmmm64, P66, M38, W0, 0x23, RM, Grows(8, 0)).lengths(3),
    evex(EVEX_Vpmovsxdq_xmm_k1z_xmmm64, P66, M38, W0, 0x25, RM, Grows(8, 0)).lengths(3),
    evex(EVEX_Vpmovzxbd_xmm_k1z_xmmm32, P66, M38, W0, 0x31, RM, Grows(4, 0)).lengths(3),
    evex(EVEX_Vpmovdb_xmmm32_k1z_xmm, PF3, M38, W0, 0x31, MR, Grows(4, 0)).lengths(3),
    evex(EVEX_Vpmovzxwd_xmm_k1z_xmmm64, P66, M38, W0, 0x33, RM, Grows(8, 0)).lengths(3),
    evex(EVEX_Vpmovdw_xmmm64_k1z_xmm, PF3, M38, W0, 0x33, MR, Grows(8, 0)).lengths(3),
    evex(EVEX_Vpmovzxdq_xmm_k1z_xmmm64, P66, M38, W0, 0x35, RM, Grows(8, 0)).lengths(3),
    evex(EVEX_Vpmovqd_xmmm64_k1z_xmm, PF3, M38, W0, 0x35, MR, Grows(8, 0)).lengths(3),
    evex(EVEX_Vpermd_ymm_k1z_ymm_ymmm256b32, P66, M38, W0, 0x36, RVM, Grows(32, 4))
        .longer(1).lengths(2),
    evex(EVEX_Vpminsd_xmm_k1z_xmm_xmmm128b32, P66, M38, W0, 0x39, RVM, Grows(16, 4)).lengths(3),
    evex(EVEX_Vpminsq_xmm_k1z_xmm_xmmm128b64, P66, M38, W1, 0x39, RVM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vpminud_xmm_k1z_xmm_xmmm128b32, P66, M38, W0, 0x3b, RVM, Grows(16, 4)).lengths(3),
    evex(EVEX_Vpminuq_xmm_k1z_xmm_xmmm128b64, P66, M38, W1, 0x3b, RVM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vpmaxsd_xmm_k1z_xmm_xmmm128b32, P66, M38, W0, 0x3d, RVM, Grows(16, 4)).lengths(3),
    evex(EVEX_Vpmaxsq_xmm_k1z_xmm_xmmm128b64, P66, M38, W1, 0x3d, RVM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vpmaxud_xmm_k1z_xmm_xmmm128b32, P66, M38, W0, 0x3f, RVM, Grows(16, 4)).lengths(3),
    evex(EVEX_Vpmaxuq_xmm_k1z_xmm_xmmm128b64, P66, M38, W1, 0x3f, RVM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vpmulld_xmm_k1z_xmm_xmmm128b32, P66, M38, W0, 0x40, RVM, Grows(16, 4)).lengths(3),
    evex(EVEX_Vpmullq_xmm_k1z_xmm_xmmm128b64, P66, M38, W1, 0x40, RVM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vpsrlvd_xmm_k1z_xmm_xmmm128b32, P66, M38, W0, 0x45, RVM, Grows(16, 4)).lengths(3),
    evex(EVEX_Vpsrlvq_xmm_k1z_xmm_xmmm128b64, P66, M38, W1, 0x45, RVM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vpsravd_xmm_k1z_xmm_xmmm128b32, P66, M38, W0, 0x46, RVM, Grows(16, 4)).lengths(3),
    evex(EVEX_Vpsravq_xmm_k1z_xmm_xmmm128b64, P66, M38, W1, 0x46, RVM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vpsllvd_xmm_k1z_xmm_xmmm128b32, P66, M38, W0, 0x47, RVM, Grows(16, 4)).lengths(3),
    evex(EVEX_Vpsllvq_xmm_k1z_xmm_xmmm128b64, P66, M38, W1, 0x47, RVM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vpdpwssd_xmm_k1z_xmm_xmmm128b32, P66, M38, W0, 0x52, RVM, Grows(16, 4)).lengths(3),
    evex(EVEX_Vdpbf16ps_xmm_k1z_xmm_xmmm128b32, PF3, M38, W0, 0x52, RVM, Grows(16, 4)).lengths(3),
    evex(EVEX_Vpbroadcastd_xmm_k1z_xmmm32, P66, M38, W0, 0x58, RM, Fixed(4, 0)).lengths(3),
    evex(EVEX_Vpbroadcastq_xmm_k1z_xmmm64, P66, M38, W1, 0x59, RM, Fixed(8, 0)).lengths(3),
    evex(EVEX_Vblendmps_xmm_k1z_xmm_xmmm128b32, P66, M38, W0, 0x65, RVM, Grows(16, 4)).lengths(3),
    evex(EVEX_Vblendmpd_xmm_k1z_xmm_xmmm128b64, P66, M38, W1, 0x65, RVM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vcvtneps2bf16_xmm_k1z_xmmm128b32, PF3, M38, W0, 0x72, RM, Grows(16, 4)).lengths(3),
    evex(EVEX_Vpbroadcastd_xmm_k1z_r32, P66, M38, W0, 0x7c, RM, Fixed(1, 0)).lengths(3),
    evex(EVEX_Vpbroadcastq_xmm_k1z_r64, P66, M38, W1, 0x7c, RM, Fixed(1, 0)).lengths(3),
    evex(EVEX_Vpermt2d_xmm_k1z_xmm_xmmm128b32, P66, M38, W0, 0x7e, RVM, Grows(16, 4)).lengths(3),
    evex(EVEX_Vpermt2ps_xmm_k1z_xmm_xmmm128b32, P66, M38, W0, 0x7f, RVM, Grows(16, 4)).lengths(3),
    evex(EVEX_Vpgatherdd_xmm_k1_vm32x, P66, M38, W0, 0x90, RM, Fixed(4, 0)).lengths(3),
    evex(EVEX_Vpgatherdq_xmm_k1_vm32x, P66, M38, W1, 0x90, RM, Fixed(8, 0)).lengths(3),
    evex(EVEX_Vgatherdps_xmm_k1_vm32x, P66, M38, W0, 0x92, RM, Fixed(4, 0)).lengths(3),
    evex(EVEX_Vgatherdpd_xmm_k1_vm32x, P66, M38, W1, 0x92, RM, Fixed(8, 0)).lengths(3),
    evex(EVEX_Vpscatterdd_vm32x_k1_xmm, P66, M38, W0, 0xa0, MR, Fixed(4, 0)).lengths(3),
    evex(EVEX_Vpscatterdq_vm32x_k1_xmm, P66, M38, W1, 0xa0, MR, Fixed(8, 0)).lengths(3),
    evex(EVEX_Vscatterdps_vm32x_k1_xmm, P66, M38, W0, 0xa2, MR, Fixed(4, 0)).lengths(3),
    evex(EVEX_Vscatterdpd_vm32x_k1_xmm, P66, M38, W1, 0xa2, MR, Fixed(8, 0)).lengths(3),
    evex(EVEX_Vfmadd213ps_xmm_k1z_xmm_xmmm128b32, P66, M38, W0, 0xa8, RVM, Grows(16, 4)).lengths(3),
    evex(EVEX_Vfmadd213pd_xmm_k1z_xmm_xmmm128b64, P66, M38, W1, 0xa8, RVM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vfmadd231ps_xmm_k1z_xmm_xmmm128b32, P66, M38, W0, 0xb8, RVM, Grows(16, 4)).lengths(3),
    evex(EVEX_Vfmadd231pd_xmm_k1z_xmm_xmmm128b64, P66, M38, W1, 0xb8, RVM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vrndscaleps_xmm_k1z_xmmm128b32_imm8, P66, M3A, W0, 0x08, RM_I, Grows(16, 4))
        .lengths(3),
    evex(EVEX_Vrndscalepd_xmm_k1z_xmmm128b64_imm8, P66, M3A, W1, 0x09, RM_I, Grows(16, 8))
        .lengths(3),
    evex(EVEX_Vextractf32x4_xmmm128_k1z_ymm_imm8, P66, M3A, W0, 0x19, MR_I, Fixed(16, 0))
        .longer(1).lengths(2),
    evex(EVEX_Vextractf64x4_ymmm256_k1z_zmm_imm8, P66, M3A, W1, 0x1b, MR_I, Fixed(32, 0))
        .longer(2),
    evex(EVEX_Vcvtps2ph_xmmm64_k1z_xmm_imm8, P66, M3A, W0, 0x1d, MR_I, Grows(8, 0)).lengths(3),
    evex(EVEX_Vpcmpud_kr_k1_xmm_xmmm128b32_imm8, P66, M3A, W0, 0x1e, RVM_I, Grows(16, 4))
        .lengths(3),
    evex(EVEX_Vpcmpuq_kr_k1_xmm_xmmm128b64_imm8, P66, M3A, W1, 0x1e, RVM_I, Grows(16, 8))
        .lengths(3),
    evex(EVEX_Vpcmpd_kr_k1_xmm_xmmm128b32_imm8, P66, M3A, W0, 0x1f, RVM_I, Grows(16, 4)).lengths(3),
    evex(EVEX_Vpcmpq_kr_k1_xmm_xmmm128b64_imm8, P66, M3A, W1, 0x1f, RVM_I, Grows(16, 8)).lengths(3),
    evex(EVEX_Vshuff32x4_ymm_k1z_ymm_ymmm256b32_imm8, P66, M3A, W0, 0x23, RVM_I, Grows(32, 4))
        .longer(1).lengths(2),
    evex(EVEX_Vpternlogd_xmm_k1z_xmm_xmmm128b32_imm8, P66, M3A, W0, 0x25, RVM_I, Grows(16, 4))
        .lengths(3),
];

/// All codes that have a row.
#[cfg(test)]
pub(super) fn codes() -> impl Iterator<Item = Code> {
    (0..CODES).filter(|&code| ROW_OF[code] != u16::MAX).filter_map(|code| Code::try_from(code).ok())
}
