//! The instruction set as a table: which instructions carry out an operation on vectors.
//!
//! A row names the 128-bit form of each encoding; in `iced_x86::Code` the 256- and 512-bit forms
//! follow it, which the test below checks by name for every row. `INVALID` stands where an encoding
//! lacks the operation.

use iced_x86::Code::{self, *};

use crate::vcode::{Lane, Opcode};

/// The 128-bit forms of an operation, in VEX and in EVEX encoding.
#[derive(Clone, Copy)]
pub(crate) struct Forms {
    pub(crate) vex: Code,
    pub(crate) evex: Code,
}

use Lane::{F32, F64, I32, I64};

#[rustfmt::skip]
const ARITHMETIC: &[(Opcode, Lane, Code, Code)] = &[
    (Opcode::Add, F32, VEX_Vaddps_xmm_xmm_xmmm128, EVEX_Vaddps_xmm_k1z_xmm_xmmm128b32),
    (Opcode::Add, F64, VEX_Vaddpd_xmm_xmm_xmmm128, EVEX_Vaddpd_xmm_k1z_xmm_xmmm128b64),
    (Opcode::Add, I32, VEX_Vpaddd_xmm_xmm_xmmm128, EVEX_Vpaddd_xmm_k1z_xmm_xmmm128b32),
    (Opcode::Add, I64, VEX_Vpaddq_xmm_xmm_xmmm128, EVEX_Vpaddq_xmm_k1z_xmm_xmmm128b64),
    (Opcode::Sub, F32, VEX_Vsubps_xmm_xmm_xmmm128, EVEX_Vsubps_xmm_k1z_xmm_xmmm128b32),
    (Opcode::Sub, F64, VEX_Vsubpd_xmm_xmm_xmmm128, EVEX_Vsubpd_xmm_k1z_xmm_xmmm128b64),
    (Opcode::Sub, I32, VEX_Vpsubd_xmm_xmm_xmmm128, EVEX_Vpsubd_xmm_k1z_xmm_xmmm128b32),
    (Opcode::Sub, I64, VEX_Vpsubq_xmm_xmm_xmmm128, EVEX_Vpsubq_xmm_k1z_xmm_xmmm128b64),
    (Opcode::Mul, F32, VEX_Vmulps_xmm_xmm_xmmm128, EVEX_Vmulps_xmm_k1z_xmm_xmmm128b32),
    (Opcode::Mul, F64, VEX_Vmulpd_xmm_xmm_xmmm128, EVEX_Vmulpd_xmm_k1z_xmm_xmmm128b64),
    (Opcode::Mul, I32, VEX_Vpmulld_xmm_xmm_xmmm128, EVEX_Vpmulld_xmm_k1z_xmm_xmmm128b32),
    (Opcode::Mul, I64, INVALID, EVEX_Vpmullq_xmm_k1z_xmm_xmmm128b64),
    (Opcode::Div, F32, VEX_Vdivps_xmm_xmm_xmmm128, EVEX_Vdivps_xmm_k1z_xmm_xmmm128b32),
    (Opcode::Div, F64, VEX_Vdivpd_xmm_xmm_xmmm128, EVEX_Vdivpd_xmm_k1z_xmm_xmmm128b64),
    (Opcode::Min, F32, VEX_Vminps_xmm_xmm_xmmm128, EVEX_Vminps_xmm_k1z_xmm_xmmm128b32),
    (Opcode::Min, F64, VEX_Vminpd_xmm_xmm_xmmm128, EVEX_Vminpd_xmm_k1z_xmm_xmmm128b64),
    (Opcode::Min, I32, VEX_Vpminsd_xmm_xmm_xmmm128, EVEX_Vpminsd_xmm_k1z_xmm_xmmm128b32),
    (Opcode::Min, I64, INVALID, EVEX_Vpminsq_xmm_k1z_xmm_xmmm128b64),
    (Opcode::Max, F32, VEX_Vmaxps_xmm_xmm_xmmm128, EVEX_Vmaxps_xmm_k1z_xmm_xmmm128b32),
    (Opcode::Max, F64, VEX_Vmaxpd_xmm_xmm_xmmm128, EVEX_Vmaxpd_xmm_k1z_xmm_xmmm128b64),
    (Opcode::Max, I32, VEX_Vpmaxsd_xmm_xmm_xmmm128, EVEX_Vpmaxsd_xmm_k1z_xmm_xmmm128b32),
    (Opcode::Max, I64, INVALID, EVEX_Vpmaxsq_xmm_k1z_xmm_xmmm128b64),
    (Opcode::MinUnsigned, I32, VEX_Vpminud_xmm_xmm_xmmm128, EVEX_Vpminud_xmm_k1z_xmm_xmmm128b32),
    (Opcode::MinUnsigned, I64, INVALID, EVEX_Vpminuq_xmm_k1z_xmm_xmmm128b64),
    (Opcode::MaxUnsigned, I32, VEX_Vpmaxud_xmm_xmm_xmmm128, EVEX_Vpmaxud_xmm_k1z_xmm_xmmm128b32),
    (Opcode::MaxUnsigned, I64, INVALID, EVEX_Vpmaxuq_xmm_k1z_xmm_xmmm128b64),
    (Opcode::MulWide, I64, VEX_Vpmuludq_xmm_xmm_xmmm128, EVEX_Vpmuludq_xmm_k1z_xmm_xmmm128b64),
    (Opcode::And, F32, VEX_Vandps_xmm_xmm_xmmm128, EVEX_Vandps_xmm_k1z_xmm_xmmm128b32),
    (Opcode::And, F64, VEX_Vandpd_xmm_xmm_xmmm128, EVEX_Vandpd_xmm_k1z_xmm_xmmm128b64),
    (Opcode::And, I32, VEX_Vpand_xmm_xmm_xmmm128, EVEX_Vpandd_xmm_k1z_xmm_xmmm128b32),
    (Opcode::And, I64, VEX_Vpand_xmm_xmm_xmmm128, EVEX_Vpandq_xmm_k1z_xmm_xmmm128b64),
    (Opcode::AndNot, F32, VEX_Vandnps_xmm_xmm_xmmm128, EVEX_Vandnps_xmm_k1z_xmm_xmmm128b32),
    (Opcode::AndNot, F64, VEX_Vandnpd_xmm_xmm_xmmm128, EVEX_Vandnpd_xmm_k1z_xmm_xmmm128b64),
    (Opcode::AndNot, I32, VEX_Vpandn_xmm_xmm_xmmm128, EVEX_Vpandnd_xmm_k1z_xmm_xmmm128b32),
    (Opcode::AndNot, I64, VEX_Vpandn_xmm_xmm_xmmm128, EVEX_Vpandnq_xmm_k1z_xmm_xmmm128b64),
    (Opcode::Or, F32, VEX_Vorps_xmm_xmm_xmmm128, EVEX_Vorps_xmm_k1z_xmm_xmmm128b32),
    (Opcode::Or, F64, VEX_Vorpd_xmm_xmm_xmmm128, EVEX_Vorpd_xmm_k1z_xmm_xmmm128b64),
    (Opcode::Or, I32, VEX_Vpor_xmm_xmm_xmmm128, EVEX_Vpord_xmm_k1z_xmm_xmmm128b32),
    (Opcode::Or, I64, VEX_Vpor_xmm_xmm_xmmm128, EVEX_Vporq_xmm_k1z_xmm_xmmm128b64),
    (Opcode::Xor, F32, VEX_Vxorps_xmm_xmm_xmmm128, EVEX_Vxorps_xmm_k1z_xmm_xmmm128b32),
    (Opcode::Xor, F64, VEX_Vxorpd_xmm_xmm_xmmm128, EVEX_Vxorpd_xmm_k1z_xmm_xmmm128b64),
    (Opcode::Xor, I32, VEX_Vpxor_xmm_xmm_xmmm128, EVEX_Vpxord_xmm_k1z_xmm_xmmm128b32),
    (Opcode::Xor, I64, VEX_Vpxor_xmm_xmm_xmmm128, EVEX_Vpxorq_xmm_k1z_xmm_xmmm128b64),
    (Opcode::Shl, I32, VEX_Vpsllvd_xmm_xmm_xmmm128, EVEX_Vpsllvd_xmm_k1z_xmm_xmmm128b32),
    (Opcode::Shl, I64, VEX_Vpsllvq_xmm_xmm_xmmm128, EVEX_Vpsllvq_xmm_k1z_xmm_xmmm128b64),
    (Opcode::Shr, I32, VEX_Vpsrlvd_xmm_xmm_xmmm128, EVEX_Vpsrlvd_xmm_k1z_xmm_xmmm128b32),
    (Opcode::Shr, I64, VEX_Vpsrlvq_xmm_xmm_xmmm128, EVEX_Vpsrlvq_xmm_k1z_xmm_xmmm128b64),
    (Opcode::Sar, I32, VEX_Vpsravd_xmm_xmm_xmmm128, EVEX_Vpsravd_xmm_k1z_xmm_xmmm128b32),
    (Opcode::Sar, I64, INVALID, EVEX_Vpsravq_xmm_k1z_xmm_xmmm128b64),
    (Opcode::ShlImm, I32, VEX_Vpslld_xmm_xmm_imm8, EVEX_Vpslld_xmm_k1z_xmmm128b32_imm8),
    (Opcode::ShlImm, I64, VEX_Vpsllq_xmm_xmm_imm8, EVEX_Vpsllq_xmm_k1z_xmmm128b64_imm8),
    (Opcode::ShrImm, I32, VEX_Vpsrld_xmm_xmm_imm8, EVEX_Vpsrld_xmm_k1z_xmmm128b32_imm8),
    (Opcode::ShrImm, I64, VEX_Vpsrlq_xmm_xmm_imm8, EVEX_Vpsrlq_xmm_k1z_xmmm128b64_imm8),
    (Opcode::SarImm, I32, VEX_Vpsrad_xmm_xmm_imm8, EVEX_Vpsrad_xmm_k1z_xmmm128b32_imm8),
    (Opcode::SarImm, I64, INVALID, EVEX_Vpsraq_xmm_k1z_xmmm128b64_imm8),
    (Opcode::Abs, I32, VEX_Vpabsd_xmm_xmmm128, EVEX_Vpabsd_xmm_k1z_xmmm128b32),
    (Opcode::Abs, I64, INVALID, EVEX_Vpabsq_xmm_k1z_xmmm128b64),
    (Opcode::Sqrt, F32, VEX_Vsqrtps_xmm_xmmm128, EVEX_Vsqrtps_xmm_k1z_xmmm128b32),
    (Opcode::Sqrt, F64, VEX_Vsqrtpd_xmm_xmmm128, EVEX_Vsqrtpd_xmm_k1z_xmmm128b64),
    (Opcode::Round, F32, VEX_Vroundps_xmm_xmmm128_imm8, EVEX_Vrndscaleps_xmm_k1z_xmmm128b32_imm8),
    (Opcode::Round, F64, VEX_Vroundpd_xmm_xmmm128_imm8, EVEX_Vrndscalepd_xmm_k1z_xmmm128b64_imm8),
    (Opcode::Fma231, F32, VEX_Vfmadd231ps_xmm_xmm_xmmm128, EVEX_Vfmadd231ps_xmm_k1z_xmm_xmmm128b32),
    (Opcode::Fma231, F64, VEX_Vfmadd231pd_xmm_xmm_xmmm128, EVEX_Vfmadd231pd_xmm_k1z_xmm_xmmm128b64),
    (Opcode::Fma213, F32, VEX_Vfmadd213ps_xmm_xmm_xmmm128, EVEX_Vfmadd213ps_xmm_k1z_xmm_xmmm128b32),
    (Opcode::Fma213, F64, VEX_Vfmadd213pd_xmm_xmm_xmmm128, EVEX_Vfmadd213pd_xmm_k1z_xmm_xmmm128b64),
    (Opcode::DotPairs, F32, INVALID, EVEX_Vdpbf16ps_xmm_k1z_xmm_xmmm128b32),
    (Opcode::DotPairs, I32, INVALID, EVEX_Vpdpwssd_xmm_k1z_xmm_xmmm128b32),
    (Opcode::MulPairs, I32, VEX_Vpmaddwd_xmm_xmm_xmmm128, EVEX_Vpmaddwd_xmm_k1z_xmm_xmmm128),
    (Opcode::Compare, F32, VEX_Vcmpps_xmm_xmm_xmmm128_imm8, EVEX_Vcmpps_kr_k1_xmm_xmmm128b32_imm8),
    (Opcode::Compare, F64, VEX_Vcmppd_xmm_xmm_xmmm128_imm8, EVEX_Vcmppd_kr_k1_xmm_xmmm128b64_imm8),
    (Opcode::Compare, I32, INVALID, EVEX_Vpcmpd_kr_k1_xmm_xmmm128b32_imm8),
    (Opcode::Compare, I64, INVALID, EVEX_Vpcmpq_kr_k1_xmm_xmmm128b64_imm8),
    (Opcode::CompareUnsigned, I32, INVALID, EVEX_Vpcmpud_kr_k1_xmm_xmmm128b32_imm8),
    (Opcode::CompareUnsigned, I64, INVALID, EVEX_Vpcmpuq_kr_k1_xmm_xmmm128b64_imm8),
    (Opcode::CompareEqual, I32, VEX_Vpcmpeqd_xmm_xmm_xmmm128, INVALID),
    (Opcode::CompareEqual, I64, VEX_Vpcmpeqq_xmm_xmm_xmmm128, INVALID),
    (Opcode::CompareGreater, I32, VEX_Vpcmpgtd_xmm_xmm_xmmm128, INVALID),
    (Opcode::CompareGreater, I64, VEX_Vpcmpgtq_xmm_xmm_xmmm128, INVALID),
    (Opcode::Shuffle, I32, VEX_Vpshufd_xmm_xmmm128_imm8, EVEX_Vpshufd_xmm_k1z_xmmm128b32_imm8),
    (Opcode::UnpackLow, F32, VEX_Vunpcklps_xmm_xmm_xmmm128, EVEX_Vunpcklps_xmm_k1z_xmm_xmmm128b32),
    (Opcode::UnpackLow, F64, VEX_Vunpcklpd_xmm_xmm_xmmm128, EVEX_Vunpcklpd_xmm_k1z_xmm_xmmm128b64),
    (Opcode::UnpackHigh, F32, VEX_Vunpckhps_xmm_xmm_xmmm128, EVEX_Vunpckhps_xmm_k1z_xmm_xmmm128b32),
    (Opcode::UnpackHigh, F64, VEX_Vunpckhpd_xmm_xmm_xmmm128, EVEX_Vunpckhpd_xmm_k1z_xmm_xmmm128b64),
    (Opcode::ShuffleBytes, I32, VEX_Vpshufb_xmm_xmm_xmmm128, EVEX_Vpshufb_xmm_k1z_xmm_xmmm128),
    (Opcode::PermuteTwo, F32, INVALID, EVEX_Vpermt2ps_xmm_k1z_xmm_xmmm128b32),
    (Opcode::PermuteTwo, I32, INVALID, EVEX_Vpermt2d_xmm_k1z_xmm_xmmm128b32),
    (Opcode::Broadcast, F32, VEX_Vbroadcastss_xmm_xmm, EVEX_Vbroadcastss_xmm_k1z_xmmm32),
    (Opcode::Broadcast, F64, VEX_Vpbroadcastq_xmm_xmmm64, EVEX_Vpbroadcastq_xmm_k1z_xmmm64),
    (Opcode::Broadcast, I32, VEX_Vpbroadcastd_xmm_xmmm32, EVEX_Vpbroadcastd_xmm_k1z_xmmm32),
    (Opcode::Broadcast, I64, VEX_Vpbroadcastq_xmm_xmmm64, EVEX_Vpbroadcastq_xmm_k1z_xmmm64),
    (Opcode::BroadcastInt, I32, INVALID, EVEX_Vpbroadcastd_xmm_k1z_r32),
    (Opcode::BroadcastInt, I64, INVALID, EVEX_Vpbroadcastq_xmm_k1z_r64),
];

#[rustfmt::skip]
const MEMORY: &[(Opcode, Lane, Code, Code)] = &[
    (Opcode::Load, F32, VEX_Vmovups_xmm_xmmm128, EVEX_Vmovups_xmm_k1z_xmmm128),
    (Opcode::Load, F64, VEX_Vmovupd_xmm_xmmm128, EVEX_Vmovupd_xmm_k1z_xmmm128),
    (Opcode::Load, I32, VEX_Vmovups_xmm_xmmm128, EVEX_Vmovdqu32_xmm_k1z_xmmm128),
    (Opcode::Load, I64, VEX_Vmovupd_xmm_xmmm128, EVEX_Vmovdqu64_xmm_k1z_xmmm128),
    (Opcode::Load, Lane::F16, VEX_Vcvtph2ps_xmm_xmmm64, EVEX_Vcvtph2ps_xmm_k1z_xmmm64),
    (Opcode::Load, Lane::I16, VEX_Vpmovsxwd_xmm_xmmm64, EVEX_Vpmovsxwd_xmm_k1z_xmmm64),
    (Opcode::Load, Lane::U16, VEX_Vpmovzxwd_xmm_xmmm64, EVEX_Vpmovzxwd_xmm_k1z_xmmm64),
    (Opcode::Load, Lane::I8, VEX_Vpmovsxbd_xmm_xmmm32, EVEX_Vpmovsxbd_xmm_k1z_xmmm32),
    (Opcode::Load, Lane::U8, VEX_Vpmovzxbd_xmm_xmmm32, EVEX_Vpmovzxbd_xmm_k1z_xmmm32),
    (Opcode::LoadBroadcast, F32, VEX_Vbroadcastss_xmm_m32, EVEX_Vbroadcastss_xmm_k1z_xmmm32),
    (Opcode::LoadBroadcast, F64, VEX_Vpbroadcastq_xmm_xmmm64, EVEX_Vpbroadcastq_xmm_k1z_xmmm64),
    (Opcode::LoadBroadcast, I32, VEX_Vpbroadcastd_xmm_xmmm32, EVEX_Vpbroadcastd_xmm_k1z_xmmm32),
    (Opcode::LoadBroadcast, I64, VEX_Vpbroadcastq_xmm_xmmm64, EVEX_Vpbroadcastq_xmm_k1z_xmmm64),
    (Opcode::Store, F32, VEX_Vmovups_xmmm128_xmm, EVEX_Vmovups_xmmm128_k1z_xmm),
    (Opcode::Store, F64, VEX_Vmovupd_xmmm128_xmm, EVEX_Vmovupd_xmmm128_k1z_xmm),
    (Opcode::Store, I32, VEX_Vmovups_xmmm128_xmm, EVEX_Vmovdqu32_xmmm128_k1z_xmm),
    (Opcode::Store, I64, VEX_Vmovupd_xmmm128_xmm, EVEX_Vmovdqu64_xmmm128_k1z_xmm),
    (Opcode::Store, Lane::F16, VEX_Vcvtps2ph_xmmm64_xmm_imm8, EVEX_Vcvtps2ph_xmmm64_k1z_xmm_imm8),
    (Opcode::Store, Lane::I16, INVALID, EVEX_Vpmovdw_xmmm64_k1z_xmm),
    (Opcode::Store, Lane::U16, INVALID, EVEX_Vmovdqu16_xmmm128_k1z_xmm),
    (Opcode::Store, Lane::I8, INVALID, EVEX_Vpmovdb_xmmm32_k1z_xmm),
    (Opcode::Gather, F32, VEX_Vgatherdps_xmm_vm32x_xmm, EVEX_Vgatherdps_xmm_k1_vm32x),
    (Opcode::Gather, F64, VEX_Vgatherdpd_xmm_vm32x_xmm, EVEX_Vgatherdpd_xmm_k1_vm32x),
    (Opcode::Gather, I32, VEX_Vpgatherdd_xmm_vm32x_xmm, EVEX_Vpgatherdd_xmm_k1_vm32x),
    (Opcode::Gather, I64, VEX_Vpgatherdq_xmm_vm32x_xmm, EVEX_Vpgatherdq_xmm_k1_vm32x),
    (Opcode::Scatter, F32, INVALID, EVEX_Vscatterdps_vm32x_k1_xmm),
    (Opcode::Scatter, F64, INVALID, EVEX_Vscatterdpd_vm32x_k1_xmm),
    (Opcode::Scatter, I32, INVALID, EVEX_Vpscatterdd_vm32x_k1_xmm),
    (Opcode::Scatter, I64, INVALID, EVEX_Vpscatterdq_vm32x_k1_xmm),
];

/// The one-lane forms have no longer ones.
#[rustfmt::skip]
const ONE_LANE: &[(Opcode, Lane, Code, Code)] = &[
    (Opcode::LoadLane, F32, VEX_Vmovss_xmm_m32, EVEX_Vmovss_xmm_k1z_m32),
    (Opcode::LoadLane, F64, VEX_Vmovsd_xmm_m64, EVEX_Vmovsd_xmm_k1z_m64),
    (Opcode::LoadLane, I32, VEX_Vmovd_xmm_rm32, EVEX_Vmovd_xmm_rm32),
    (Opcode::LoadLane, I64, VEX_Vmovq_xmm_xmmm64, EVEX_Vmovq_xmm_xmmm64),
    (Opcode::StoreLane, F32, VEX_Vmovss_m32_xmm, EVEX_Vmovss_m32_k1_xmm),
    (Opcode::StoreLane, F64, VEX_Vmovsd_m64_xmm, EVEX_Vmovsd_m64_k1_xmm),
    (Opcode::StoreLane, I32, VEX_Vmovd_rm32_xmm, EVEX_Vmovd_rm32_xmm),
    (Opcode::StoreLane, I64, VEX_Vmovq_xmmm64_xmm, EVEX_Vmovq_xmmm64_xmm),
    (Opcode::IntFromVector, I32, VEX_Vmovd_rm32_xmm, EVEX_Vmovd_rm32_xmm),
    (Opcode::IntFromVector, I64, VEX_Vmovq_rm64_xmm, EVEX_Vmovq_rm64_xmm),
    (Opcode::VectorFromInt, I32, VEX_Vmovd_xmm_rm32, EVEX_Vmovd_xmm_rm32),
    (Opcode::VectorFromInt, I64, VEX_Vmovq_xmm_rm64, EVEX_Vmovq_xmm_rm64),
    (Opcode::IntFromFloat, F32, VEX_Vcvttss2si_r64_xmmm32, EVEX_Vcvttss2si_r64_xmmm32_sae),
    (Opcode::IntFromFloat, F64, VEX_Vcvttsd2si_r64_xmmm64, EVEX_Vcvttsd2si_r64_xmmm64_sae),
];

#[rustfmt::skip]
const CONVERSIONS: &[(Opcode, Code, Code)] = &[
    (Opcode::I32ToF32, VEX_Vcvtdq2ps_xmm_xmmm128, EVEX_Vcvtdq2ps_xmm_k1z_xmmm128b32),
    (Opcode::F32ToI32, VEX_Vcvttps2dq_xmm_xmmm128, EVEX_Vcvttps2dq_xmm_k1z_xmmm128b32),
    (Opcode::F32ToF64, VEX_Vcvtps2pd_xmm_xmmm64, EVEX_Vcvtps2pd_xmm_k1z_xmmm64b32),
    (Opcode::F64ToF32, VEX_Vcvtpd2ps_xmm_xmmm128, EVEX_Vcvtpd2ps_xmm_k1z_xmmm128b64),
    (Opcode::I32ToF64, VEX_Vcvtdq2pd_xmm_xmmm64, EVEX_Vcvtdq2pd_xmm_k1z_xmmm64b32),
    (Opcode::F64ToI32, VEX_Vcvttpd2dq_xmm_xmmm128, EVEX_Vcvttpd2dq_xmm_k1z_xmmm128b64),
    (Opcode::U32ToF32, INVALID, EVEX_Vcvtudq2ps_xmm_k1z_xmmm128b32),
    (Opcode::F32ToU32, INVALID, EVEX_Vcvttps2udq_xmm_k1z_xmmm128b32),
    (Opcode::U32ToF64, INVALID, EVEX_Vcvtudq2pd_xmm_k1z_xmmm64b32),
    (Opcode::F64ToU32, INVALID, EVEX_Vcvttpd2udq_xmm_k1z_xmmm128b64),
    (Opcode::I64ToF32, INVALID, EVEX_Vcvtqq2ps_xmm_k1z_xmmm128b64),
    (Opcode::I64ToF64, INVALID, EVEX_Vcvtqq2pd_xmm_k1z_xmmm128b64),
    (Opcode::U64ToF32, INVALID, EVEX_Vcvtuqq2ps_xmm_k1z_xmmm128b64),
    (Opcode::U64ToF64, INVALID, EVEX_Vcvtuqq2pd_xmm_k1z_xmmm128b64),
    (Opcode::F32ToI64, INVALID, EVEX_Vcvttps2qq_xmm_k1z_xmmm64b32),
    (Opcode::F32ToU64, INVALID, EVEX_Vcvttps2uqq_xmm_k1z_xmmm64b32),
    (Opcode::F64ToI64, INVALID, EVEX_Vcvttpd2qq_xmm_k1z_xmmm128b64),
    (Opcode::F64ToU64, INVALID, EVEX_Vcvttpd2uqq_xmm_k1z_xmmm128b64),
    (Opcode::I32ToI64, VEX_Vpmovsxdq_xmm_xmmm64, EVEX_Vpmovsxdq_xmm_k1z_xmmm64),
    (Opcode::U32ToI64, VEX_Vpmovzxdq_xmm_xmmm64, EVEX_Vpmovzxdq_xmm_k1z_xmmm64),
    (Opcode::I64ToI32, INVALID, EVEX_Vpmovqd_xmmm64_k1z_xmm),
    (Opcode::F16ToF32, VEX_Vcvtph2ps_xmm_xmmm64, EVEX_Vcvtph2ps_xmm_k1z_xmmm64),
    (Opcode::F32ToF16, VEX_Vcvtps2ph_xmmm64_xmm_imm8, EVEX_Vcvtps2ph_xmmm64_k1z_xmm_imm8),
    (Opcode::F32ToBf16, INVALID, EVEX_Vcvtneps2bf16_xmm_k1z_xmmm128b32),
];

/// Rows found by operation and lane, made once.
fn index() -> &'static [[Forms; 10]] {
    static INDEX: std::sync::OnceLock<Vec<[Forms; 10]>> = std::sync::OnceLock::new();
    INDEX.get_or_init(|| {
        let none = Forms { vex: INVALID, evex: INVALID };
        let mut index = vec![[none; 10]; crate::vcode::op::OPS.len()];
        for (op, lane, vex, evex) in ARITHMETIC.iter().chain(MEMORY).chain(ONE_LANE) {
            index[*op as usize][*lane as usize] = Forms { vex: *vex, evex: *evex };
        }
        for (op, vex, evex) in CONVERSIONS {
            index[*op as usize] = [Forms { vex: *vex, evex: *evex }; 10];
        }
        index
    })
}

/// The 128-bit forms of an operation; `INVALID` where there is none.
pub(crate) fn forms(op: Opcode, lane: Lane) -> Forms {
    index()[op as usize][lane as usize]
}

/// The form of a code's row for a vector width: the 128-, 256- or 512-bit one.
pub(crate) fn widened(code: Code, bytes: usize) -> Code {
    if code == INVALID {
        return INVALID;
    }
    let step = bytes.trailing_zeros().saturating_sub(4) as usize;
    Code::try_from(code as usize + step).unwrap_or(INVALID)
}

/// The rounding immediate of an F32 to F16 conversion: nearest even, whatever MXCSR says.
pub(crate) const NEAREST_EVEN: i64 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    /// `EVEX_Vaddps_xmm_k1z_..` as its encoding, its mnemonic and its widest register.
    fn parts(code: Code) -> (String, String, usize) {
        let name = format!("{code:?}");
        let mut words = name.split('_');
        let encoding = words.next().unwrap_or_default().to_string();
        let mnemonic = words.next().unwrap_or_default().to_string();
        let widths = [("zmm", 64), ("vm32z", 64), ("ymm", 32), ("xmm", 16), ("vm32x", 16)];
        let width = widths.iter().find(|(text, _)| name.contains(text));
        (encoding, mnemonic, width.map_or(0, |(_, bytes)| *bytes))
    }

    #[test]
    fn longer_forms_follow_in_the_code_table() {
        let rows = ARITHMETIC.iter().chain(MEMORY).map(|(op, _, vex, evex)| (*op, *vex, *evex));
        let conversions = CONVERSIONS.iter().map(|(op, vex, evex)| (*op, *vex, *evex));
        for (op, vex, evex) in rows.chain(conversions) {
            for (code, encoding, widths) in
                [(vex, "VEX", &[16, 32][..]), (evex, "EVEX", &[16, 32, 64][..])]
            {
                if code == INVALID {
                    continue;
                }
                let mnemonic = parts(code).1;
                for bytes in widths {
                    let wide = parts(widened(code, *bytes));
                    let expected = (encoding.to_string(), mnemonic.clone(), *bytes);
                    assert_eq!(wide, expected, "{op:?} {:?}", widened(code, *bytes));
                    assert!(super::super::forms::find(widened(code, *bytes)).is_some());
                }
            }
        }
    }
}
