//! The instruction set as a table: a row a form, with its bytes and the operations that it alone
//! carries out. What takes several instructions, or another form from case to case, is put together
//! in `instruction`.
//!
//! Operands stand in the order of the manual's; see [`Layout`](super::forms::Layout).

use iced_x86::Code::*;

use super::forms::Unit::{Fixed, Grows};
use super::forms::*;
use crate::vcode::Lane::*;
use crate::vcode::Opcode::*;

#[rustfmt::skip]
pub(super) const FORMS: &[Form] = &[
    legacy(Add_r64_rm64, NP, ONE, W1, 0x03, RM),
    legacy(Or_r64_rm64, NP, ONE, W1, 0x0b, RM).does(IntOr),
    legacy(And_r64_rm64, NP, ONE, W1, 0x23, RM).does(IntAnd),
    legacy(Sub_r64_rm64, NP, ONE, W1, 0x2b, RM).does(IntSub),
    legacy(Xor_r32_rm32, NP, ONE, W0, 0x33, RM),
    legacy(Xor_r64_rm64, NP, ONE, W1, 0x33, RM),
    legacy(Cmp_r64_rm64, NP, ONE, W1, 0x3b, RM),
    legacy(Push_r64, NP, ONE, W0, 0x50, O),
    legacy(Pop_r64, NP, ONE, W0, 0x58, O),
    legacy(Movsxd_r64_rm32, NP, ONE, W1, 0x63, RM).on(IntExtend, I32).on(IntLoad, I32),
    legacy(Imul_r64_rm64_imm32, NP, ONE, W1, 0x69, RM_I4).does(IntMulImm),
    legacy(Add_rm64_imm32, NP, ONE, W1, 0x81, M_I4).digit(0),
    legacy(And_rm64_imm32, NP, ONE, W1, 0x81, M_I4).digit(4).does(IntAndImm),
    legacy(Sub_rm64_imm32, NP, ONE, W1, 0x81, M_I4).digit(5),
    legacy(Cmp_rm64_imm32, NP, ONE, W1, 0x81, M_I4).digit(7),
    legacy(Add_rm64_imm8, NP, ONE, W1, 0x83, M_I).digit(0),
    legacy(And_rm64_imm8, NP, ONE, W1, 0x83, M_I).digit(4),
    legacy(Cmp_rm64_imm8, NP, ONE, W1, 0x83, M_I).digit(7),
    legacy(Test_rm64_r64, NP, ONE, W1, 0x85, MR),
    legacy(Mov_rm8_r8, NP, ONE, W0, 0x88, MR).on(IntStore, I8).on(IntStore, U8),
    legacy(Mov_rm16_r16, P66, ONE, W0, 0x89, MR).on(IntStore, I16).on(IntStore, U16)
        .on(IntStore, F16),
    legacy(Mov_rm32_r32, NP, ONE, W0, 0x89, MR).on(IntStore, I32).on(IntStore, U32)
        .on(IntStore, F32),
    legacy(Mov_rm64_r64, NP, ONE, W1, 0x89, MR).on(IntStore, I64).on(IntStore, F64),
    legacy(Mov_r32_rm32, NP, ONE, W0, 0x8b, RM).on(IntExtend, U32).on(IntExtend, F32)
        .on(IntLoad, U32).on(IntLoad, F32),
    legacy(Mov_r64_rm64, NP, ONE, W1, 0x8b, RM).on(IntExtend, I64).on(IntExtend, F64)
        .on(IntLoad, I64).on(IntLoad, F64),
    legacy(Lea_r64_m, NP, ONE, W1, 0x8d, RM).does(Lea),
    legacy(Cqo, NP, ONE, W1, 0x99, NONE),
    legacy(Mov_r32_imm32, NP, ONE, W0, 0xb8, O_I4),
    legacy(Mov_r64_imm64, NP, ONE, W1, 0xb8, O_I8),
    legacy(Shl_rm64_imm8, NP, ONE, W1, 0xc1, M_I).digit(4).does(IntShlImm),
    legacy(Shr_rm64_imm8, NP, ONE, W1, 0xc1, M_I).digit(5).does(IntShrImm),
    legacy(Sar_rm64_imm8, NP, ONE, W1, 0xc1, M_I).digit(7).does(IntSarImm),
    legacy(Retnq, NP, ONE, W0, 0xc3, NONE),
    legacy(Mov_rm64_imm32, NP, ONE, W1, 0xc7, M_I4).digit(0),
    legacy(Div_rm64, NP, ONE, W1, 0xf7, M).digit(6).does(IntDivUnsigned).does(IntRemUnsigned),
    legacy(Idiv_rm64, NP, ONE, W1, 0xf7, M).digit(7).does(IntDivSigned).does(IntRemSigned),
    legacy(Call_rm64, NP, ONE, W0, 0xff, M).digit(2),
    legacy(Prefetcht1_m8, NP, M0F, W0, 0x18, M).digit(2).does(Prefetch),
    legacy(Cmovo_r64_rm64, NP, M0F, W1, 0x40, RM),
    legacy(Cmove_r64_rm64, NP, M0F, W1, 0x44, RM),
    legacy(Cmovl_r64_rm64, NP, M0F, W1, 0x4c, RM),
    legacy(Cmovg_r64_rm64, NP, M0F, W1, 0x4f, RM),
    legacy(Sete_rm8, NP, M0F, W0, 0x94, M),
    legacy(Setne_rm8, NP, M0F, W0, 0x95, M),
    legacy(Setl_rm8, NP, M0F, W0, 0x9c, M),
    legacy(Setge_rm8, NP, M0F, W0, 0x9d, M),
    legacy(Setle_rm8, NP, M0F, W0, 0x9e, M),
    legacy(Setg_rm8, NP, M0F, W0, 0x9f, M),
    legacy(Imul_r64_rm64, NP, M0F, W1, 0xaf, RM).does(IntMul),
    legacy(Movzx_r32_rm8, NP, M0F, W0, 0xb6, RM).on(IntExtend, U8).on(IntLoad, U8),
    legacy(Movzx_r32_rm16, NP, M0F, W0, 0xb7, RM).on(IntExtend, U16).on(IntExtend, F16)
        .on(IntLoad, U16).on(IntLoad, F16),
    legacy(Movsx_r64_rm8, NP, M0F, W1, 0xbe, RM).on(IntExtend, I8).on(IntLoad, I8),
    legacy(Movsx_r64_rm16, NP, M0F, W1, 0xbf, RM).on(IntExtend, I16).on(IntLoad, I16),
    vex(VEX_Vmovups_xmm_xmmm128, NP, M0F, W0, 0x10, RM).lengths(2).on(Load, F32).on(Load, I32),
    vex(VEX_Vmovupd_xmm_xmmm128, P66, M0F, W0, 0x10, RM).lengths(2).on(Load, F64).on(Load, I64),
    vex(VEX_Vmovss_xmm_m32, PF3, M0F, W0, 0x10, RM).on(LoadLane, F32),
    vex(VEX_Vmovsd_xmm_m64, PF2, M0F, W0, 0x10, RM).on(LoadLane, F64),
    vex(VEX_Vmovups_xmmm128_xmm, NP, M0F, W0, 0x11, MR).lengths(2).on(Store, F32).on(Store, I32),
    vex(VEX_Vmovupd_xmmm128_xmm, P66, M0F, W0, 0x11, MR).lengths(2).on(Store, F64).on(Store, I64),
    vex(VEX_Vmovss_m32_xmm, PF3, M0F, W0, 0x11, MR).on(StoreLane, F32),
    vex(VEX_Vmovsd_m64_xmm, PF2, M0F, W0, 0x11, MR).on(StoreLane, F64),
    vex(VEX_Vunpcklps_xmm_xmm_xmmm128, NP, M0F, W0, 0x14, RVM).lengths(2).on(UnpackLow, F32),
    vex(VEX_Vunpcklpd_xmm_xmm_xmmm128, P66, M0F, W0, 0x14, RVM).lengths(2).on(UnpackLow, F64),
    vex(VEX_Vunpckhps_xmm_xmm_xmmm128, NP, M0F, W0, 0x15, RVM).lengths(2).on(UnpackHigh, F32),
    vex(VEX_Vunpckhpd_xmm_xmm_xmmm128, P66, M0F, W0, 0x15, RVM).lengths(2).on(UnpackHigh, F64),
    vex(VEX_Vmovaps_ymm_ymmm256, NP, M0F, W0, 0x28, RM).longer(1),
    vex(VEX_Vmovaps_ymmm256_ymm, NP, M0F, W0, 0x29, MR).longer(1),
    vex(VEX_Vcvtsi2ss_xmm_xmm_rm64, PF3, M0F, W1, 0x2a, RVM),
    vex(VEX_Vcvtsi2sd_xmm_xmm_rm64, PF2, M0F, W1, 0x2a, RVM),
    vex(VEX_Vcvttss2si_r64_xmmm32, PF3, M0F, W1, 0x2c, RM).on(IntFromFloat, F32),
    vex(VEX_Vcvttsd2si_r64_xmmm64, PF2, M0F, W1, 0x2c, RM).on(IntFromFloat, F64),
    vex(VEX_Kandw_kr_kr_kr, NP, M0F, W0, 0x41, RVM).longer(1).does(MaskAnd),
    vex(VEX_Knotw_kr_kr, NP, M0F, W0, 0x44, RM).does(MaskNot),
    vex(VEX_Korw_kr_kr_kr, NP, M0F, W0, 0x45, RVM).longer(1).does(MaskOr),
    vex(VEX_Kxorw_kr_kr_kr, NP, M0F, W0, 0x47, RVM).longer(1).does(MaskXor),
    vex(VEX_Vmovmskps_r32_xmm, NP, M0F, W0, 0x50, RM),
    vex(VEX_Vmovmskps_r32_ymm, NP, M0F, W0, 0x50, RM).longer(1),
    vex(VEX_Vmovmskpd_r32_xmm, P66, M0F, W0, 0x50, RM),
    vex(VEX_Vmovmskpd_r32_ymm, P66, M0F, W0, 0x50, RM).longer(1),
    vex(VEX_Vsqrtps_xmm_xmmm128, NP, M0F, W0, 0x51, RM).lengths(2).on(Sqrt, F32),
    vex(VEX_Vsqrtpd_xmm_xmmm128, P66, M0F, W0, 0x51, RM).lengths(2).on(Sqrt, F64),
    vex(VEX_Vandps_xmm_xmm_xmmm128, NP, M0F, W0, 0x54, RVM).lengths(2).on(And, F32),
    vex(VEX_Vandpd_xmm_xmm_xmmm128, P66, M0F, W0, 0x54, RVM).lengths(2).on(And, F64),
    vex(VEX_Vandnps_xmm_xmm_xmmm128, NP, M0F, W0, 0x55, RVM).lengths(2).on(AndNot, F32),
    vex(VEX_Vandnpd_xmm_xmm_xmmm128, P66, M0F, W0, 0x55, RVM).lengths(2).on(AndNot, F64),
    vex(VEX_Vorps_xmm_xmm_xmmm128, NP, M0F, W0, 0x56, RVM).lengths(2).on(Or, F32),
    vex(VEX_Vorpd_xmm_xmm_xmmm128, P66, M0F, W0, 0x56, RVM).lengths(2).on(Or, F64),
    vex(VEX_Vxorps_xmm_xmm_xmmm128, NP, M0F, W0, 0x57, RVM).lengths(2).on(Xor, F32),
    vex(VEX_Vxorpd_xmm_xmm_xmmm128, P66, M0F, W0, 0x57, RVM).lengths(2).on(Xor, F64),
    vex(VEX_Vaddps_xmm_xmm_xmmm128, NP, M0F, W0, 0x58, RVM).lengths(2).on(Add, F32),
    vex(VEX_Vaddpd_xmm_xmm_xmmm128, P66, M0F, W0, 0x58, RVM).lengths(2).on(Add, F64),
    vex(VEX_Vmulps_xmm_xmm_xmmm128, NP, M0F, W0, 0x59, RVM).lengths(2).on(Mul, F32),
    vex(VEX_Vmulpd_xmm_xmm_xmmm128, P66, M0F, W0, 0x59, RVM).lengths(2).on(Mul, F64),
    vex(VEX_Vcvtps2pd_xmm_xmmm64, NP, M0F, W0, 0x5a, RM).lengths(2).does(F32ToF64),
    vex(VEX_Vcvtpd2ps_xmm_xmmm128, P66, M0F, W0, 0x5a, RM).lengths(2).does(F64ToF32),
    vex(VEX_Vcvtdq2ps_xmm_xmmm128, NP, M0F, W0, 0x5b, RM).lengths(2).does(I32ToF32),
    vex(VEX_Vcvtps2dq_xmm_xmmm128, P66, M0F, W0, 0x5b, RM).lengths(2).does(F32ToNearI32),
    vex(VEX_Vcvttps2dq_xmm_xmmm128, PF3, M0F, W0, 0x5b, RM).lengths(2).does(F32ToI32),
    vex(VEX_Vsubps_xmm_xmm_xmmm128, NP, M0F, W0, 0x5c, RVM).lengths(2).on(Sub, F32),
    vex(VEX_Vsubpd_xmm_xmm_xmmm128, P66, M0F, W0, 0x5c, RVM).lengths(2).on(Sub, F64),
    vex(VEX_Vminps_xmm_xmm_xmmm128, NP, M0F, W0, 0x5d, RVM).lengths(2).on(Min, F32),
    vex(VEX_Vminpd_xmm_xmm_xmmm128, P66, M0F, W0, 0x5d, RVM).lengths(2).on(Min, F64),
    vex(VEX_Vdivps_xmm_xmm_xmmm128, NP, M0F, W0, 0x5e, RVM).lengths(2).on(Div, F32),
    vex(VEX_Vdivpd_xmm_xmm_xmmm128, P66, M0F, W0, 0x5e, RVM).lengths(2).on(Div, F64),
    vex(VEX_Vmaxps_xmm_xmm_xmmm128, NP, M0F, W0, 0x5f, RVM).lengths(2).on(Max, F32),
    vex(VEX_Vmaxpd_xmm_xmm_xmmm128, P66, M0F, W0, 0x5f, RVM).lengths(2).on(Max, F64),
    vex(VEX_Vpunpcklbw_xmm_xmm_xmmm128, P66, M0F, W0, 0x60, RVM).lengths(2).on(UnpackLow, U8),
    vex(VEX_Vpunpcklwd_xmm_xmm_xmmm128, P66, M0F, W0, 0x61, RVM).lengths(2).on(UnpackLow, U16),
    vex(VEX_Vpunpckhbw_xmm_xmm_xmmm128, P66, M0F, W0, 0x68, RVM).lengths(2).on(UnpackHigh, U8),
    vex(VEX_Vpunpckhwd_xmm_xmm_xmmm128, P66, M0F, W0, 0x69, RVM).lengths(2).on(UnpackHigh, U16),
    vex(VEX_Vpcmpgtd_xmm_xmm_xmmm128, P66, M0F, W0, 0x66, RVM).lengths(2).on(CompareGreater, I32),
    vex(VEX_Vmovd_xmm_rm32, P66, M0F, W0, 0x6e, RM).on(LoadLane, I32).on(VectorFromInt, I32),
    vex(VEX_Vmovq_xmm_rm64, P66, M0F, W1, 0x6e, RM).on(VectorFromInt, I64),
    vex(VEX_Vpshufd_xmm_xmmm128_imm8, P66, M0F, W0, 0x70, RM_I).lengths(2).on(Shuffle, I32),
    vex(VEX_Vpsrld_xmm_xmm_imm8, P66, M0F, W0, 0x72, VM_I).digit(2).lengths(2).on(ShrImm, I32),
    vex(VEX_Vpsrad_xmm_xmm_imm8, P66, M0F, W0, 0x72, VM_I).digit(4).lengths(2).on(SarImm, I32),
    vex(VEX_Vpslld_xmm_xmm_imm8, P66, M0F, W0, 0x72, VM_I).digit(6).lengths(2).on(ShlImm, I32),
    vex(VEX_Vpsrlq_xmm_xmm_imm8, P66, M0F, W0, 0x73, VM_I).digit(2).lengths(2).on(ShrImm, I64),
    vex(VEX_Vpsllq_xmm_xmm_imm8, P66, M0F, W0, 0x73, VM_I).digit(6).lengths(2).on(ShlImm, I64),
    vex(VEX_Vpcmpeqd_xmm_xmm_xmmm128, P66, M0F, W0, 0x76, RVM).lengths(2).on(CompareEqual, I32),
    vex(VEX_Vzeroupper, NP, M0F, W0, 0x77, NONE),
    vex(VEX_Vmovd_rm32_xmm, P66, M0F, W0, 0x7e, MR).on(StoreLane, I32).on(IntFromVector, I32),
    vex(VEX_Vmovq_rm64_xmm, P66, M0F, W1, 0x7e, MR).on(IntFromVector, I64),
    vex(VEX_Vmovq_xmm_xmmm64, PF3, M0F, W0, 0x7e, RM).on(LoadLane, I64),
    vex(VEX_Kmovq_kr_km64, NP, M0F, W1, 0x90, RM),
    vex(VEX_Kmovq_m64_kr, NP, M0F, W1, 0x91, MR),
    vex(VEX_Kmovw_kr_r32, NP, M0F, W0, 0x92, RM).does(MaskFromInt),
    vex(VEX_Kmovw_r32_kr, NP, M0F, W0, 0x93, RM).does(IntFromMask),
    vex(VEX_Vcmpps_xmm_xmm_xmmm128_imm8, NP, M0F, W0, 0xc2, RVM_I).lengths(2).on(Compare, F32),
    vex(VEX_Vcmppd_xmm_xmm_xmmm128_imm8, P66, M0F, W0, 0xc2, RVM_I).lengths(2).on(Compare, F64),
    vex(VEX_Vpinsrw_xmm_xmm_r32m16_imm8, P66, M0F, W0, 0xc4, RVM_I).on(InsertLane, I16),
    vex(VEX_Vpaddq_xmm_xmm_xmmm128, P66, M0F, W0, 0xd4, RVM).lengths(2).on(Add, I64),
    vex(VEX_Vmovq_xmmm64_xmm, P66, M0F, W0, 0xd6, MR).on(StoreLane, I64),
    vex(VEX_Vpand_xmm_xmm_xmmm128, P66, M0F, W0, 0xdb, RVM).lengths(2).on(And, I32).on(And, I64),
    vex(VEX_Vpandn_xmm_xmm_xmmm128, P66, M0F, W0, 0xdf, RVM).lengths(2).on(AndNot, I32)
        .on(AndNot, I64),
    vex(VEX_Vcvttpd2dq_xmm_xmmm128, P66, M0F, W0, 0xe6, RM).lengths(2).does(F64ToI32),
    vex(VEX_Vcvtdq2pd_xmm_xmmm64, PF3, M0F, W0, 0xe6, RM).lengths(2).does(I32ToF64),
    vex(VEX_Vpor_xmm_xmm_xmmm128, P66, M0F, W0, 0xeb, RVM).lengths(2).on(Or, I32).on(Or, I64),
    vex(VEX_Vpxor_xmm_xmm_xmmm128, P66, M0F, W0, 0xef, RVM).lengths(2).on(Xor, I32).on(Xor, I64),
    vex(VEX_Vpmuludq_xmm_xmm_xmmm128, P66, M0F, W0, 0xf4, RVM).lengths(2).on(MulWide, I64),
    vex(VEX_Vpmaddwd_xmm_xmm_xmmm128, P66, M0F, W0, 0xf5, RVM).lengths(2).on(MulPairs, I32),
    vex(VEX_Vpsubd_xmm_xmm_xmmm128, P66, M0F, W0, 0xfa, RVM).lengths(2).on(Sub, I32),
    vex(VEX_Vpsubq_xmm_xmm_xmmm128, P66, M0F, W0, 0xfb, RVM).lengths(2).on(Sub, I64),
    vex(VEX_Vpaddw_xmm_xmm_xmmm128, P66, M0F, W0, 0xfd, RVM).lengths(2).on(Add, I16),
    vex(VEX_Vpaddd_xmm_xmm_xmmm128, P66, M0F, W0, 0xfe, RVM).lengths(2).on(Add, I32),
    vex(VEX_Vpshufb_xmm_xmm_xmmm128, P66, M38, W0, 0x00, RVM).lengths(2).on(ShuffleBytes, I32),
    vex(VEX_Vpmaddubsw_xmm_xmm_xmmm128, P66, M38, W0, 0x04, RVM).lengths(2).on(MulBytes, I32),
    vex(VEX_Vcvtph2ps_xmm_xmmm64, P66, M38, W0, 0x13, RM).lengths(2).on(Load, F16).does(F16ToF32),
    vex(VEX_Vbroadcastss_xmm_m32, P66, M38, W0, 0x18, RM).lengths(2).on(LoadBroadcast, F32),
    vex(VEX_Vpabsd_xmm_xmmm128, P66, M38, W0, 0x1e, RM).lengths(2).on(Abs, I32),
    vex(VEX_Vpmovsxbd_xmm_xmmm32, P66, M38, W0, 0x21, RM).lengths(2).on(Load, I8).on(Widen, I8),
    vex(VEX_Vpmovsxwd_xmm_xmmm64, P66, M38, W0, 0x23, RM).lengths(2).on(Load, I16).on(Widen, I16),
    vex(VEX_Vpmovsxdq_xmm_xmmm64, P66, M38, W0, 0x25, RM).lengths(2).does(I32ToI64),
    vex(VEX_Vpcmpeqq_xmm_xmm_xmmm128, P66, M38, W0, 0x29, RVM).lengths(2).on(CompareEqual, I64),
    vex(VEX_Vmaskmovps_xmm_xmm_m128, P66, M38, W0, 0x2c, RVM).lengths(2),
    vex(VEX_Vmaskmovpd_xmm_xmm_m128, P66, M38, W0, 0x2d, RVM).lengths(2),
    vex(VEX_Vmaskmovps_m128_xmm_xmm, P66, M38, W0, 0x2e, MVR).lengths(2),
    vex(VEX_Vmaskmovpd_m128_xmm_xmm, P66, M38, W0, 0x2f, MVR).lengths(2),
    vex(VEX_Vpmovzxbd_xmm_xmmm32, P66, M38, W0, 0x31, RM).lengths(2).on(Load, U8).on(Widen, U8),
    vex(VEX_Vpmovzxwd_xmm_xmmm64, P66, M38, W0, 0x33, RM).lengths(2).on(Load, U16).on(Widen, U16),
    vex(VEX_Vpmovzxdq_xmm_xmmm64, P66, M38, W0, 0x35, RM).lengths(2).does(U32ToI64),
    vex(VEX_Vpermd_ymm_ymm_ymmm256, P66, M38, W0, 0x36, RVM).longer(1),
    vex(VEX_Vpcmpgtq_xmm_xmm_xmmm128, P66, M38, W0, 0x37, RVM).lengths(2).on(CompareGreater, I64),
    vex(VEX_Vpminsd_xmm_xmm_xmmm128, P66, M38, W0, 0x39, RVM).lengths(2).on(Min, I32),
    vex(VEX_Vpminud_xmm_xmm_xmmm128, P66, M38, W0, 0x3b, RVM).lengths(2).on(MinUnsigned, I32),
    vex(VEX_Vpmaxsd_xmm_xmm_xmmm128, P66, M38, W0, 0x3d, RVM).lengths(2).on(Max, I32),
    vex(VEX_Vpmaxud_xmm_xmm_xmmm128, P66, M38, W0, 0x3f, RVM).lengths(2).on(MaxUnsigned, I32),
    vex(VEX_Vpmulld_xmm_xmm_xmmm128, P66, M38, W0, 0x40, RVM).lengths(2).on(Mul, I32),
    vex(VEX_Vpsrlvd_xmm_xmm_xmmm128, P66, M38, W0, 0x45, RVM).lengths(2).on(Shr, I32),
    vex(VEX_Vpsrlvq_xmm_xmm_xmmm128, P66, M38, W1, 0x45, RVM).lengths(2).on(Shr, I64),
    vex(VEX_Vpsravd_xmm_xmm_xmmm128, P66, M38, W0, 0x46, RVM).lengths(2).on(Sar, I32),
    vex(VEX_Vpsllvd_xmm_xmm_xmmm128, P66, M38, W0, 0x47, RVM).lengths(2).on(Shl, I32),
    vex(VEX_Vpsllvq_xmm_xmm_xmmm128, P66, M38, W1, 0x47, RVM).lengths(2).on(Shl, I64),
    vex(VEX_Vpbroadcastw_xmm_xmmm16, P66, M38, W0, 0x79, RM).lengths(2).on(LoadBroadcast, I16),
    vex(VEX_Vpbroadcastd_xmm_xmmm32, P66, M38, W0, 0x58, RM).lengths(2).on(Broadcast, I32)
        .on(LoadBroadcast, I32),
    vex(VEX_Vpbroadcastq_xmm_xmmm64, P66, M38, W0, 0x59, RM).lengths(2).on(Broadcast, F64)
        .on(Broadcast, I64).on(LoadBroadcast, F64).on(LoadBroadcast, I64),
    vex(VEX_Vpgatherdd_xmm_vm32x_xmm, P66, M38, W0, 0x90, RMV).lengths(2).on(Gather, I32),
    vex(VEX_Vpgatherdq_xmm_vm32x_xmm, P66, M38, W1, 0x90, RMV).lengths(2).on(Gather, I64),
    vex(VEX_Vgatherdps_xmm_vm32x_xmm, P66, M38, W0, 0x92, RMV).lengths(2).on(Gather, F32),
    vex(VEX_Vgatherdpd_xmm_vm32x_xmm, P66, M38, W1, 0x92, RMV).lengths(2).on(Gather, F64),
    vex(VEX_Vfmadd213ps_xmm_xmm_xmmm128, P66, M38, W0, 0xa8, RVM).lengths(2).on(Fma213, F32),
    vex(VEX_Vfmadd213pd_xmm_xmm_xmmm128, P66, M38, W1, 0xa8, RVM).lengths(2).on(Fma213, F64),
    vex(VEX_Vfmadd231ps_xmm_xmm_xmmm128, P66, M38, W0, 0xb8, RVM).lengths(2).on(Fma231, F32),
    vex(VEX_Vfmadd231pd_xmm_xmm_xmmm128, P66, M38, W1, 0xb8, RVM).lengths(2).on(Fma231, F64),
    vex(VEX_Vperm2f128_ymm_ymm_ymmm256_imm8, P66, M3A, W0, 0x06, RVM_I).longer(1),
    vex(VEX_Vroundps_xmm_xmmm128_imm8, P66, M3A, W0, 0x08, RM_I).lengths(2).on(Round, F32),
    vex(VEX_Vroundpd_xmm_xmmm128_imm8, P66, M3A, W0, 0x09, RM_I).lengths(2).on(Round, F64),
    vex(VEX_Vextractf128_xmmm128_ymm_imm8, P66, M3A, W0, 0x19, MR_I).longer(1),
    vex(VEX_Vcvtps2ph_xmmm64_xmm_imm8, P66, M3A, W0, 0x1d, MR_I).lengths(2).on(Store, F16)
        .does(F32ToF16),
    vex(VEX_Vpinsrb_xmm_xmm_r32m8_imm8, P66, M3A, W0, 0x20, RVM_I).on(InsertLane, I8),
    vex(VEX_Vblendvps_xmm_xmm_xmmm128_xmm, P66, M3A, W0, 0x4a, RVMS).lengths(2),
    vex(VEX_Vblendvpd_xmm_xmm_xmmm128_xmm, P66, M3A, W0, 0x4b, RVMS).lengths(2),
    vex(VEX_Vbroadcastss_xmm_xmm, P66, M38, W0, 0x18, RM).lengths(2).on(Broadcast, F32),
    evex(EVEX_Vmovups_xmm_k1z_xmmm128, NP, M0F, W0, 0x10, RM, Grows(16, 0)).lengths(3)
        .on(Load, F32),
    evex(EVEX_Vmovupd_xmm_k1z_xmmm128, P66, M0F, W1, 0x10, RM, Grows(16, 0)).lengths(3)
        .on(Load, F64),
    evex(EVEX_Vmovss_xmm_k1z_m32, PF3, M0F, W0, 0x10, RM, Fixed(4, 0)).on(LoadLane, F32),
    evex(EVEX_Vmovsd_xmm_k1z_m64, PF2, M0F, W1, 0x10, RM, Fixed(8, 0)).on(LoadLane, F64),
    evex(EVEX_Vmovups_xmmm128_k1z_xmm, NP, M0F, W0, 0x11, MR, Grows(16, 0)).lengths(3)
        .on(Store, F32),
    evex(EVEX_Vmovupd_xmmm128_k1z_xmm, P66, M0F, W1, 0x11, MR, Grows(16, 0)).lengths(3)
        .on(Store, F64),
    evex(EVEX_Vmovss_m32_k1_xmm, PF3, M0F, W0, 0x11, MR, Fixed(4, 0)).on(StoreLane, F32),
    evex(EVEX_Vmovsd_m64_k1_xmm, PF2, M0F, W1, 0x11, MR, Fixed(8, 0)).on(StoreLane, F64),
    evex(EVEX_Vunpcklps_xmm_k1z_xmm_xmmm128b32, NP, M0F, W0, 0x14, RVM, Grows(16, 4)).lengths(3)
        .on(UnpackLow, F32),
    evex(EVEX_Vunpcklpd_xmm_k1z_xmm_xmmm128b64, P66, M0F, W1, 0x14, RVM, Grows(16, 8)).lengths(3)
        .on(UnpackLow, F64),
    evex(EVEX_Vunpckhps_xmm_k1z_xmm_xmmm128b32, NP, M0F, W0, 0x15, RVM, Grows(16, 4)).lengths(3)
        .on(UnpackHigh, F32),
    evex(EVEX_Vunpckhpd_xmm_k1z_xmm_xmmm128b64, P66, M0F, W1, 0x15, RVM, Grows(16, 8)).lengths(3)
        .on(UnpackHigh, F64),
    evex(EVEX_Vmovaps_zmm_k1z_zmmm512, NP, M0F, W0, 0x28, RM, Fixed(64, 0)).longer(2),
    evex(EVEX_Vmovaps_zmmm512_k1z_zmm, NP, M0F, W0, 0x29, MR, Fixed(64, 0)).longer(2),
    evex(EVEX_Vcvtsi2ss_xmm_xmm_rm64_er, PF3, M0F, W1, 0x2a, RVM, Fixed(8, 0)),
    evex(EVEX_Vcvtsi2sd_xmm_xmm_rm64_er, PF2, M0F, W1, 0x2a, RVM, Fixed(8, 0)),
    evex(EVEX_Vcvttss2si_r64_xmmm32_sae, PF3, M0F, W1, 0x2c, RM, Fixed(4, 0)).on(IntFromFloat, F32),
    evex(EVEX_Vcvttsd2si_r64_xmmm64_sae, PF2, M0F, W1, 0x2c, RM, Fixed(8, 0)).on(IntFromFloat, F64),
    evex(EVEX_Vsqrtps_xmm_k1z_xmmm128b32, NP, M0F, W0, 0x51, RM, Grows(16, 4)).lengths(3)
        .on(Sqrt, F32),
    evex(EVEX_Vsqrtpd_xmm_k1z_xmmm128b64, P66, M0F, W1, 0x51, RM, Grows(16, 8)).lengths(3)
        .on(Sqrt, F64),
    evex(EVEX_Vandps_xmm_k1z_xmm_xmmm128b32, NP, M0F, W0, 0x54, RVM, Grows(16, 4)).lengths(3)
        .on(And, F32),
    evex(EVEX_Vandpd_xmm_k1z_xmm_xmmm128b64, P66, M0F, W1, 0x54, RVM, Grows(16, 8)).lengths(3)
        .on(And, F64),
    evex(EVEX_Vandnps_xmm_k1z_xmm_xmmm128b32, NP, M0F, W0, 0x55, RVM, Grows(16, 4)).lengths(3)
        .on(AndNot, F32),
    evex(EVEX_Vandnpd_xmm_k1z_xmm_xmmm128b64, P66, M0F, W1, 0x55, RVM, Grows(16, 8)).lengths(3)
        .on(AndNot, F64),
    evex(EVEX_Vorps_xmm_k1z_xmm_xmmm128b32, NP, M0F, W0, 0x56, RVM, Grows(16, 4)).lengths(3)
        .on(Or, F32),
    evex(EVEX_Vorpd_xmm_k1z_xmm_xmmm128b64, P66, M0F, W1, 0x56, RVM, Grows(16, 8)).lengths(3)
        .on(Or, F64),
    evex(EVEX_Vxorps_xmm_k1z_xmm_xmmm128b32, NP, M0F, W0, 0x57, RVM, Grows(16, 4)).lengths(3)
        .on(Xor, F32),
    evex(EVEX_Vxorpd_xmm_k1z_xmm_xmmm128b64, P66, M0F, W1, 0x57, RVM, Grows(16, 8)).lengths(3)
        .on(Xor, F64),
    evex(EVEX_Vaddps_xmm_k1z_xmm_xmmm128b32, NP, M0F, W0, 0x58, RVM, Grows(16, 4)).lengths(3)
        .on(Add, F32),
    evex(EVEX_Vaddpd_xmm_k1z_xmm_xmmm128b64, P66, M0F, W1, 0x58, RVM, Grows(16, 8)).lengths(3)
        .on(Add, F64),
    evex(EVEX_Vmulps_xmm_k1z_xmm_xmmm128b32, NP, M0F, W0, 0x59, RVM, Grows(16, 4)).lengths(3)
        .on(Mul, F32),
    evex(EVEX_Vmulpd_xmm_k1z_xmm_xmmm128b64, P66, M0F, W1, 0x59, RVM, Grows(16, 8)).lengths(3)
        .on(Mul, F64),
    evex(EVEX_Vcvtps2pd_xmm_k1z_xmmm64b32, NP, M0F, W0, 0x5a, RM, Grows(8, 4)).lengths(3)
        .does(F32ToF64),
    evex(EVEX_Vcvtpd2ps_xmm_k1z_xmmm128b64, P66, M0F, W1, 0x5a, RM, Grows(16, 8)).lengths(3)
        .does(F64ToF32),
    evex(EVEX_Vcvtdq2ps_xmm_k1z_xmmm128b32, NP, M0F, W0, 0x5b, RM, Grows(16, 4)).lengths(3)
        .does(I32ToF32),
    evex(EVEX_Vcvtqq2ps_xmm_k1z_xmmm128b64, NP, M0F, W1, 0x5b, RM, Grows(16, 8)).lengths(3)
        .does(I64ToF32),
    evex(EVEX_Vcvtps2dq_xmm_k1z_xmmm128b32, P66, M0F, W0, 0x5b, RM, Grows(16, 4)).lengths(3)
        .does(F32ToNearI32),
    evex(EVEX_Vcvttps2dq_xmm_k1z_xmmm128b32, PF3, M0F, W0, 0x5b, RM, Grows(16, 4)).lengths(3)
        .does(F32ToI32),
    evex(EVEX_Vsubps_xmm_k1z_xmm_xmmm128b32, NP, M0F, W0, 0x5c, RVM, Grows(16, 4)).lengths(3)
        .on(Sub, F32),
    evex(EVEX_Vsubpd_xmm_k1z_xmm_xmmm128b64, P66, M0F, W1, 0x5c, RVM, Grows(16, 8)).lengths(3)
        .on(Sub, F64),
    evex(EVEX_Vminps_xmm_k1z_xmm_xmmm128b32, NP, M0F, W0, 0x5d, RVM, Grows(16, 4)).lengths(3)
        .on(Min, F32),
    evex(EVEX_Vminpd_xmm_k1z_xmm_xmmm128b64, P66, M0F, W1, 0x5d, RVM, Grows(16, 8)).lengths(3)
        .on(Min, F64),
    evex(EVEX_Vdivps_xmm_k1z_xmm_xmmm128b32, NP, M0F, W0, 0x5e, RVM, Grows(16, 4)).lengths(3)
        .on(Div, F32),
    evex(EVEX_Vdivpd_xmm_k1z_xmm_xmmm128b64, P66, M0F, W1, 0x5e, RVM, Grows(16, 8)).lengths(3)
        .on(Div, F64),
    evex(EVEX_Vmaxps_xmm_k1z_xmm_xmmm128b32, NP, M0F, W0, 0x5f, RVM, Grows(16, 4)).lengths(3)
        .on(Max, F32),
    evex(EVEX_Vmaxpd_xmm_k1z_xmm_xmmm128b64, P66, M0F, W1, 0x5f, RVM, Grows(16, 8)).lengths(3)
        .on(Max, F64),
    evex(EVEX_Vpunpcklbw_xmm_k1z_xmm_xmmm128, P66, M0F, W0, 0x60, RVM, Grows(16, 0)).lengths(3)
        .on(UnpackLow, U8),
    evex(EVEX_Vpunpcklwd_xmm_k1z_xmm_xmmm128, P66, M0F, W0, 0x61, RVM, Grows(16, 0)).lengths(3)
        .on(UnpackLow, U16),
    evex(EVEX_Vpunpckhbw_xmm_k1z_xmm_xmmm128, P66, M0F, W0, 0x68, RVM, Grows(16, 0)).lengths(3)
        .on(UnpackHigh, U8),
    evex(EVEX_Vpunpckhwd_xmm_k1z_xmm_xmmm128, P66, M0F, W0, 0x69, RVM, Grows(16, 0)).lengths(3)
        .on(UnpackHigh, U16),
    evex(EVEX_Vmovd_xmm_rm32, P66, M0F, W0, 0x6e, RM, Fixed(4, 0)).on(LoadLane, I32)
        .on(VectorFromInt, I32),
    evex(EVEX_Vmovq_xmm_rm64, P66, M0F, W1, 0x6e, RM, Fixed(8, 0)).on(VectorFromInt, I64),
    evex(EVEX_Vmovdqu32_xmm_k1z_xmmm128, PF3, M0F, W0, 0x6f, RM, Grows(16, 0)).lengths(3)
        .on(Load, I32),
    evex(EVEX_Vmovdqu64_xmm_k1z_xmmm128, PF3, M0F, W1, 0x6f, RM, Grows(16, 0)).lengths(3)
        .on(Load, I64),
    evex(EVEX_Vpshufd_xmm_k1z_xmmm128b32_imm8, P66, M0F, W0, 0x70, RM_I, Grows(16, 4)).lengths(3)
        .on(Shuffle, I32),
    evex(EVEX_Vpsrld_xmm_k1z_xmmm128b32_imm8, P66, M0F, W0, 0x72, VM_I, Grows(16, 4)).digit(2)
        .lengths(3).on(ShrImm, I32),
    evex(EVEX_Vpsrad_xmm_k1z_xmmm128b32_imm8, P66, M0F, W0, 0x72, VM_I, Grows(16, 4)).digit(4)
        .lengths(3).on(SarImm, I32),
    evex(EVEX_Vpsraq_xmm_k1z_xmmm128b64_imm8, P66, M0F, W1, 0x72, VM_I, Grows(16, 8)).digit(4)
        .lengths(3).on(SarImm, I64),
    evex(EVEX_Vpslld_xmm_k1z_xmmm128b32_imm8, P66, M0F, W0, 0x72, VM_I, Grows(16, 4)).digit(6)
        .lengths(3).on(ShlImm, I32),
    evex(EVEX_Vpsrlq_xmm_k1z_xmmm128b64_imm8, P66, M0F, W1, 0x73, VM_I, Grows(16, 8)).digit(2)
        .lengths(3).on(ShrImm, I64),
    evex(EVEX_Vpsllq_xmm_k1z_xmmm128b64_imm8, P66, M0F, W1, 0x73, VM_I, Grows(16, 8)).digit(6)
        .lengths(3).on(ShlImm, I64),
    evex(EVEX_Vcvttps2udq_xmm_k1z_xmmm128b32, NP, M0F, W0, 0x78, RM, Grows(16, 4)).lengths(3)
        .does(F32ToU32),
    evex(EVEX_Vcvttpd2udq_xmm_k1z_xmmm128b64, NP, M0F, W1, 0x78, RM, Grows(16, 8)).lengths(3)
        .does(F64ToU32),
    evex(EVEX_Vcvttps2uqq_xmm_k1z_xmmm64b32, P66, M0F, W0, 0x78, RM, Grows(8, 4)).lengths(3)
        .does(F32ToU64),
    evex(EVEX_Vcvttpd2uqq_xmm_k1z_xmmm128b64, P66, M0F, W1, 0x78, RM, Grows(16, 8)).lengths(3)
        .does(F64ToU64),
    evex(EVEX_Vcvttps2qq_xmm_k1z_xmmm64b32, P66, M0F, W0, 0x7a, RM, Grows(8, 4)).lengths(3)
        .does(F32ToI64),
    evex(EVEX_Vcvttpd2qq_xmm_k1z_xmmm128b64, P66, M0F, W1, 0x7a, RM, Grows(16, 8)).lengths(3)
        .does(F64ToI64),
    evex(EVEX_Vcvtudq2pd_xmm_k1z_xmmm64b32, PF3, M0F, W0, 0x7a, RM, Grows(8, 4)).lengths(3)
        .does(U32ToF64),
    evex(EVEX_Vcvtuqq2pd_xmm_k1z_xmmm128b64, PF3, M0F, W1, 0x7a, RM, Grows(16, 8)).lengths(3)
        .does(U64ToF64),
    evex(EVEX_Vcvtudq2ps_xmm_k1z_xmmm128b32, PF2, M0F, W0, 0x7a, RM, Grows(16, 4)).lengths(3)
        .does(U32ToF32),
    evex(EVEX_Vcvtuqq2ps_xmm_k1z_xmmm128b64, PF2, M0F, W1, 0x7a, RM, Grows(16, 8)).lengths(3)
        .does(U64ToF32),
    evex(EVEX_Vmovd_rm32_xmm, P66, M0F, W0, 0x7e, MR, Fixed(4, 0)).on(StoreLane, I32)
        .on(IntFromVector, I32),
    evex(EVEX_Vmovq_rm64_xmm, P66, M0F, W1, 0x7e, MR, Fixed(8, 0)).on(IntFromVector, I64),
    evex(EVEX_Vmovq_xmm_xmmm64, PF3, M0F, W1, 0x7e, RM, Fixed(8, 0)).on(LoadLane, I64),
    evex(EVEX_Vmovdqu32_xmmm128_k1z_xmm, PF3, M0F, W0, 0x7f, MR, Grows(16, 0)).lengths(3)
        .on(Store, I32),
    evex(EVEX_Vmovdqu64_xmmm128_k1z_xmm, PF3, M0F, W1, 0x7f, MR, Grows(16, 0)).lengths(3)
        .on(Store, I64),
    evex(EVEX_Vmovdqu16_xmmm128_k1z_xmm, PF2, M0F, W1, 0x7f, MR, Grows(16, 0)).lengths(3)
        .on(Store, U16),
    evex(EVEX_Vcmpps_kr_k1_xmm_xmmm128b32_imm8, NP, M0F, W0, 0xc2, RVM_I, Grows(16, 4)).lengths(3)
        .on(Compare, F32),
    evex(EVEX_Vcmppd_kr_k1_xmm_xmmm128b64_imm8, P66, M0F, W1, 0xc2, RVM_I, Grows(16, 8)).lengths(3)
        .on(Compare, F64),
    evex(EVEX_Vpinsrw_xmm_xmm_r32m16_imm8, P66, M0F, W0, 0xc4, RVM_I, Fixed(2, 0))
        .on(InsertLane, I16),
    evex(EVEX_Vpaddq_xmm_k1z_xmm_xmmm128b64, P66, M0F, W1, 0xd4, RVM, Grows(16, 8)).lengths(3)
        .on(Add, I64),
    evex(EVEX_Vmovq_xmmm64_xmm, P66, M0F, W1, 0xd6, MR, Fixed(8, 0)).on(StoreLane, I64),
    evex(EVEX_Vpandd_xmm_k1z_xmm_xmmm128b32, P66, M0F, W0, 0xdb, RVM, Grows(16, 4)).lengths(3)
        .on(And, I32),
    evex(EVEX_Vpandq_xmm_k1z_xmm_xmmm128b64, P66, M0F, W1, 0xdb, RVM, Grows(16, 8)).lengths(3)
        .on(And, I64),
    evex(EVEX_Vpandnd_xmm_k1z_xmm_xmmm128b32, P66, M0F, W0, 0xdf, RVM, Grows(16, 4)).lengths(3)
        .on(AndNot, I32),
    evex(EVEX_Vpandnq_xmm_k1z_xmm_xmmm128b64, P66, M0F, W1, 0xdf, RVM, Grows(16, 8)).lengths(3)
        .on(AndNot, I64),
    evex(EVEX_Vcvttpd2dq_xmm_k1z_xmmm128b64, P66, M0F, W1, 0xe6, RM, Grows(16, 8)).lengths(3)
        .does(F64ToI32),
    evex(EVEX_Vcvtdq2pd_xmm_k1z_xmmm64b32, PF3, M0F, W0, 0xe6, RM, Grows(8, 4)).lengths(3)
        .does(I32ToF64),
    evex(EVEX_Vcvtqq2pd_xmm_k1z_xmmm128b64, PF3, M0F, W1, 0xe6, RM, Grows(16, 8)).lengths(3)
        .does(I64ToF64),
    evex(EVEX_Vpord_xmm_k1z_xmm_xmmm128b32, P66, M0F, W0, 0xeb, RVM, Grows(16, 4)).lengths(3)
        .on(Or, I32),
    evex(EVEX_Vporq_xmm_k1z_xmm_xmmm128b64, P66, M0F, W1, 0xeb, RVM, Grows(16, 8)).lengths(3)
        .on(Or, I64),
    evex(EVEX_Vpxord_xmm_k1z_xmm_xmmm128b32, P66, M0F, W0, 0xef, RVM, Grows(16, 4)).lengths(3)
        .on(Xor, I32),
    evex(EVEX_Vpxorq_xmm_k1z_xmm_xmmm128b64, P66, M0F, W1, 0xef, RVM, Grows(16, 8)).lengths(3)
        .on(Xor, I64),
    evex(EVEX_Vpmuludq_xmm_k1z_xmm_xmmm128b64, P66, M0F, W1, 0xf4, RVM, Grows(16, 8)).lengths(3)
        .on(MulWide, I64),
    evex(EVEX_Vpmaddwd_xmm_k1z_xmm_xmmm128, P66, M0F, W0, 0xf5, RVM, Grows(16, 0)).lengths(3)
        .on(MulPairs, I32),
    evex(EVEX_Vpsubd_xmm_k1z_xmm_xmmm128b32, P66, M0F, W0, 0xfa, RVM, Grows(16, 4)).lengths(3)
        .on(Sub, I32),
    evex(EVEX_Vpsubq_xmm_k1z_xmm_xmmm128b64, P66, M0F, W1, 0xfb, RVM, Grows(16, 8)).lengths(3)
        .on(Sub, I64),
    evex(EVEX_Vpaddd_xmm_k1z_xmm_xmmm128b32, P66, M0F, W0, 0xfe, RVM, Grows(16, 4)).lengths(3)
        .on(Add, I32),
    evex(EVEX_Vpshufb_xmm_k1z_xmm_xmmm128, P66, M38, W0, 0x00, RVM, Grows(16, 0)).lengths(3)
        .on(ShuffleBytes, I32),
    evex(EVEX_Vcvtph2ps_xmm_k1z_xmmm64, P66, M38, W0, 0x13, RM, Grows(8, 0)).lengths(3)
        .on(Load, F16).does(F16ToF32),
    evex(EVEX_Vbroadcastss_xmm_k1z_xmmm32, P66, M38, W0, 0x18, RM, Fixed(4, 0)).lengths(3)
        .on(Broadcast, F32).on(LoadBroadcast, F32),
    evex(EVEX_Vpabsd_xmm_k1z_xmmm128b32, P66, M38, W0, 0x1e, RM, Grows(16, 4)).lengths(3)
        .on(Abs, I32),
    evex(EVEX_Vpabsq_xmm_k1z_xmmm128b64, P66, M38, W1, 0x1f, RM, Grows(16, 8)).lengths(3)
        .on(Abs, I64),
    evex(EVEX_Vpmovsxbd_xmm_k1z_xmmm32, P66, M38, W0, 0x21, RM, Grows(4, 0)).lengths(3)
        .on(Load, I8).on(Widen, I8),
    evex(EVEX_Vpmovsxwd_xmm_k1z_xmmm64, P66, M38, W0, 0x23, RM, Grows(8, 0)).lengths(3)
        .on(Load, I16).on(Widen, I16),
    evex(EVEX_Vpmovsxdq_xmm_k1z_xmmm64, P66, M38, W0, 0x25, RM, Grows(8, 0)).lengths(3)
        .does(I32ToI64),
    evex(EVEX_Vpmovzxbd_xmm_k1z_xmmm32, P66, M38, W0, 0x31, RM, Grows(4, 0)).lengths(3)
        .on(Load, U8).on(Widen, U8),
    evex(EVEX_Vpmovdb_xmmm32_k1z_xmm, PF3, M38, W0, 0x31, MR, Grows(4, 0)).lengths(3).on(Store, I8),
    evex(EVEX_Vpmovzxwd_xmm_k1z_xmmm64, P66, M38, W0, 0x33, RM, Grows(8, 0)).lengths(3)
        .on(Load, U16).on(Widen, U16),
    evex(EVEX_Vpmovdw_xmmm64_k1z_xmm, PF3, M38, W0, 0x33, MR, Grows(8, 0)).lengths(3)
        .on(Store, I16),
    evex(EVEX_Vpmovzxdq_xmm_k1z_xmmm64, P66, M38, W0, 0x35, RM, Grows(8, 0)).lengths(3)
        .does(U32ToI64),
    evex(EVEX_Vpmovqd_xmmm64_k1z_xmm, PF3, M38, W0, 0x35, MR, Grows(8, 0)).lengths(3)
        .does(I64ToI32),
    evex(EVEX_Vpermd_ymm_k1z_ymm_ymmm256b32, P66, M38, W0, 0x36, RVM, Grows(32, 4)).longer(1)
        .lengths(2),
    evex(EVEX_Vpminsd_xmm_k1z_xmm_xmmm128b32, P66, M38, W0, 0x39, RVM, Grows(16, 4)).lengths(3)
        .on(Min, I32),
    evex(EVEX_Vpminsq_xmm_k1z_xmm_xmmm128b64, P66, M38, W1, 0x39, RVM, Grows(16, 8)).lengths(3)
        .on(Min, I64),
    evex(EVEX_Vpminud_xmm_k1z_xmm_xmmm128b32, P66, M38, W0, 0x3b, RVM, Grows(16, 4)).lengths(3)
        .on(MinUnsigned, I32),
    evex(EVEX_Vpminuq_xmm_k1z_xmm_xmmm128b64, P66, M38, W1, 0x3b, RVM, Grows(16, 8)).lengths(3)
        .on(MinUnsigned, I64),
    evex(EVEX_Vpmaxsd_xmm_k1z_xmm_xmmm128b32, P66, M38, W0, 0x3d, RVM, Grows(16, 4)).lengths(3)
        .on(Max, I32),
    evex(EVEX_Vpmaxsq_xmm_k1z_xmm_xmmm128b64, P66, M38, W1, 0x3d, RVM, Grows(16, 8)).lengths(3)
        .on(Max, I64),
    evex(EVEX_Vpmaxud_xmm_k1z_xmm_xmmm128b32, P66, M38, W0, 0x3f, RVM, Grows(16, 4)).lengths(3)
        .on(MaxUnsigned, I32),
    evex(EVEX_Vpmaxuq_xmm_k1z_xmm_xmmm128b64, P66, M38, W1, 0x3f, RVM, Grows(16, 8)).lengths(3)
        .on(MaxUnsigned, I64),
    evex(EVEX_Vpmulld_xmm_k1z_xmm_xmmm128b32, P66, M38, W0, 0x40, RVM, Grows(16, 4)).lengths(3)
        .on(Mul, I32),
    evex(EVEX_Vpmullq_xmm_k1z_xmm_xmmm128b64, P66, M38, W1, 0x40, RVM, Grows(16, 8)).lengths(3)
        .on(Mul, I64),
    evex(EVEX_Vpsrlvd_xmm_k1z_xmm_xmmm128b32, P66, M38, W0, 0x45, RVM, Grows(16, 4)).lengths(3)
        .on(Shr, I32),
    evex(EVEX_Vpsrlvq_xmm_k1z_xmm_xmmm128b64, P66, M38, W1, 0x45, RVM, Grows(16, 8)).lengths(3)
        .on(Shr, I64),
    evex(EVEX_Vpsravd_xmm_k1z_xmm_xmmm128b32, P66, M38, W0, 0x46, RVM, Grows(16, 4)).lengths(3)
        .on(Sar, I32),
    evex(EVEX_Vpsravq_xmm_k1z_xmm_xmmm128b64, P66, M38, W1, 0x46, RVM, Grows(16, 8)).lengths(3)
        .on(Sar, I64),
    evex(EVEX_Vpsllvd_xmm_k1z_xmm_xmmm128b32, P66, M38, W0, 0x47, RVM, Grows(16, 4)).lengths(3)
        .on(Shl, I32),
    evex(EVEX_Vpsllvq_xmm_k1z_xmm_xmmm128b64, P66, M38, W1, 0x47, RVM, Grows(16, 8)).lengths(3)
        .on(Shl, I64),
    evex(EVEX_Vpdpbusd_xmm_k1z_xmm_xmmm128b32, P66, M38, W0, 0x50, RVM, Grows(16, 4)).lengths(3)
        .on(DotQuads, I32),
    evex(EVEX_Vpdpwssd_xmm_k1z_xmm_xmmm128b32, P66, M38, W0, 0x52, RVM, Grows(16, 4)).lengths(3)
        .on(DotPairs, I32),
    evex(EVEX_Vdpbf16ps_xmm_k1z_xmm_xmmm128b32, PF3, M38, W0, 0x52, RVM, Grows(16, 4)).lengths(3)
        .on(DotPairs, F32),
    evex(EVEX_Vpbroadcastw_xmm_k1z_xmmm16, P66, M38, W0, 0x79, RM, Fixed(2, 0)).lengths(3)
        .on(LoadBroadcast, I16),
    evex(EVEX_Vpbroadcastd_xmm_k1z_xmmm32, P66, M38, W0, 0x58, RM, Fixed(4, 0)).lengths(3)
        .on(Broadcast, I32).on(LoadBroadcast, I32),
    evex(EVEX_Vpbroadcastq_xmm_k1z_xmmm64, P66, M38, W1, 0x59, RM, Fixed(8, 0)).lengths(3)
        .on(Broadcast, F64).on(Broadcast, I64).on(LoadBroadcast, F64).on(LoadBroadcast, I64),
    evex(EVEX_Vblendmps_xmm_k1z_xmm_xmmm128b32, P66, M38, W0, 0x65, RVM, Grows(16, 4)).lengths(3),
    evex(EVEX_Vblendmpd_xmm_k1z_xmm_xmmm128b64, P66, M38, W1, 0x65, RVM, Grows(16, 8)).lengths(3),
    evex(EVEX_Vcvtneps2bf16_xmm_k1z_xmmm128b32, PF3, M38, W0, 0x72, RM, Grows(16, 4)).lengths(3)
        .does(F32ToBf16),
    evex(EVEX_Vpbroadcastd_xmm_k1z_r32, P66, M38, W0, 0x7c, RM, Fixed(1, 0)).lengths(3)
        .on(BroadcastInt, I32),
    evex(EVEX_Vpbroadcastq_xmm_k1z_r64, P66, M38, W1, 0x7c, RM, Fixed(1, 0)).lengths(3)
        .on(BroadcastInt, I64),
    evex(EVEX_Vpermt2b_xmm_k1z_xmm_xmmm128, P66, M38, W0, 0x7d, RVM, Grows(16, 0)).lengths(3)
        .on(PermuteTwo, I8),
    evex(EVEX_Vpermt2d_xmm_k1z_xmm_xmmm128b32, P66, M38, W0, 0x7e, RVM, Grows(16, 4)).lengths(3)
        .on(PermuteTwo, I32),
    evex(EVEX_Vpermt2ps_xmm_k1z_xmm_xmmm128b32, P66, M38, W0, 0x7f, RVM, Grows(16, 4)).lengths(3)
        .on(PermuteTwo, F32),
    evex(EVEX_Vpgatherdd_xmm_k1_vm32x, P66, M38, W0, 0x90, RM, Fixed(4, 0)).lengths(3)
        .on(Gather, I32),
    evex(EVEX_Vpgatherdq_xmm_k1_vm32x, P66, M38, W1, 0x90, RM, Fixed(8, 0)).lengths(3)
        .on(Gather, I64),
    evex(EVEX_Vgatherdps_xmm_k1_vm32x, P66, M38, W0, 0x92, RM, Fixed(4, 0)).lengths(3)
        .on(Gather, F32),
    evex(EVEX_Vgatherdpd_xmm_k1_vm32x, P66, M38, W1, 0x92, RM, Fixed(8, 0)).lengths(3)
        .on(Gather, F64),
    evex(EVEX_Vpscatterdd_vm32x_k1_xmm, P66, M38, W0, 0xa0, MR, Fixed(4, 0)).lengths(3)
        .on(Scatter, I32),
    evex(EVEX_Vpscatterdq_vm32x_k1_xmm, P66, M38, W1, 0xa0, MR, Fixed(8, 0)).lengths(3)
        .on(Scatter, I64),
    evex(EVEX_Vscatterdps_vm32x_k1_xmm, P66, M38, W0, 0xa2, MR, Fixed(4, 0)).lengths(3)
        .on(Scatter, F32),
    evex(EVEX_Vscatterdpd_vm32x_k1_xmm, P66, M38, W1, 0xa2, MR, Fixed(8, 0)).lengths(3)
        .on(Scatter, F64),
    evex(EVEX_Vfmadd213ps_xmm_k1z_xmm_xmmm128b32, P66, M38, W0, 0xa8, RVM, Grows(16, 4)).lengths(3)
        .on(Fma213, F32),
    evex(EVEX_Vfmadd213pd_xmm_k1z_xmm_xmmm128b64, P66, M38, W1, 0xa8, RVM, Grows(16, 8)).lengths(3)
        .on(Fma213, F64),
    evex(EVEX_Vfmadd231ps_xmm_k1z_xmm_xmmm128b32, P66, M38, W0, 0xb8, RVM, Grows(16, 4)).lengths(3)
        .on(Fma231, F32),
    evex(EVEX_Vfmadd231pd_xmm_k1z_xmm_xmmm128b64, P66, M38, W1, 0xb8, RVM, Grows(16, 8)).lengths(3)
        .on(Fma231, F64),
    evex(EVEX_Vrndscaleps_xmm_k1z_xmmm128b32_imm8, P66, M3A, W0, 0x08, RM_I, Grows(16, 4))
        .lengths(3).on(Round, F32),
    evex(EVEX_Vrndscalepd_xmm_k1z_xmmm128b64_imm8, P66, M3A, W1, 0x09, RM_I, Grows(16, 8))
        .lengths(3).on(Round, F64),
    evex(EVEX_Vextractf32x4_xmmm128_k1z_ymm_imm8, P66, M3A, W0, 0x19, MR_I, Fixed(16, 0)).longer(1)
        .lengths(2),
    evex(EVEX_Vextractf64x4_ymmm256_k1z_zmm_imm8, P66, M3A, W1, 0x1b, MR_I, Fixed(32, 0)).longer(2),
    evex(EVEX_Vcvtps2ph_xmmm64_k1z_xmm_imm8, P66, M3A, W0, 0x1d, MR_I, Grows(8, 0)).lengths(3)
        .on(Store, F16).does(F32ToF16),
    evex(EVEX_Vpcmpud_kr_k1_xmm_xmmm128b32_imm8, P66, M3A, W0, 0x1e, RVM_I, Grows(16, 4))
        .lengths(3).on(CompareUnsigned, I32),
    evex(EVEX_Vpcmpuq_kr_k1_xmm_xmmm128b64_imm8, P66, M3A, W1, 0x1e, RVM_I, Grows(16, 8))
        .lengths(3).on(CompareUnsigned, I64),
    evex(EVEX_Vpcmpd_kr_k1_xmm_xmmm128b32_imm8, P66, M3A, W0, 0x1f, RVM_I, Grows(16, 4)).lengths(3)
        .on(Compare, I32),
    evex(EVEX_Vpcmpq_kr_k1_xmm_xmmm128b64_imm8, P66, M3A, W1, 0x1f, RVM_I, Grows(16, 8)).lengths(3)
        .on(Compare, I64),
    evex(EVEX_Vpinsrb_xmm_xmm_r32m8_imm8, P66, M3A, W0, 0x20, RVM_I, Fixed(1, 0))
        .on(InsertLane, I8),
    evex(EVEX_Vshuff32x4_ymm_k1z_ymm_ymmm256b32_imm8, P66, M3A, W0, 0x23, RVM_I, Grows(32, 4))
        .longer(1).lengths(2),
    evex(EVEX_Vpternlogd_xmm_k1z_xmm_xmmm128b32_imm8, P66, M3A, W0, 0x25, RVM_I, Grows(16, 4))
        .lengths(3),
];
