//! The instruction set as a table: which instructions carry out an operation on vectors.
//!
//! A row names the 128-bit form of each encoding; in `iced_x86::Code` the 256- and 512-bit forms
//! follow it, which the test below checks by name for every row. `INVALID` stands where an encoding
//! lacks the operation.

use iced_x86::Code::{self, *};

use crate::vcode::{Lane, Op};

/// The 128-bit forms of an operation, in VEX and in EVEX encoding.
#[derive(Clone, Copy)]
pub(crate) struct Forms {
    pub(crate) vex: Code,
    pub(crate) evex: Code,
}

use Lane::{F32, F64, I32, I64};

#[rustfmt::skip]
const ARITHMETIC: &[(Op, Lane, Code, Code)] = &[
    (Op::Add, F32, VEX_Vaddps_xmm_xmm_xmmm128, EVEX_Vaddps_xmm_k1z_xmm_xmmm128b32),
    (Op::Add, F64, VEX_Vaddpd_xmm_xmm_xmmm128, EVEX_Vaddpd_xmm_k1z_xmm_xmmm128b64),
    (Op::Add, I32, VEX_Vpaddd_xmm_xmm_xmmm128, EVEX_Vpaddd_xmm_k1z_xmm_xmmm128b32),
    (Op::Add, I64, VEX_Vpaddq_xmm_xmm_xmmm128, EVEX_Vpaddq_xmm_k1z_xmm_xmmm128b64),
    (Op::Sub, F32, VEX_Vsubps_xmm_xmm_xmmm128, EVEX_Vsubps_xmm_k1z_xmm_xmmm128b32),
    (Op::Sub, F64, VEX_Vsubpd_xmm_xmm_xmmm128, EVEX_Vsubpd_xmm_k1z_xmm_xmmm128b64),
    (Op::Sub, I32, VEX_Vpsubd_xmm_xmm_xmmm128, EVEX_Vpsubd_xmm_k1z_xmm_xmmm128b32),
    (Op::Sub, I64, VEX_Vpsubq_xmm_xmm_xmmm128, EVEX_Vpsubq_xmm_k1z_xmm_xmmm128b64),
    (Op::Mul, F32, VEX_Vmulps_xmm_xmm_xmmm128, EVEX_Vmulps_xmm_k1z_xmm_xmmm128b32),
    (Op::Mul, F64, VEX_Vmulpd_xmm_xmm_xmmm128, EVEX_Vmulpd_xmm_k1z_xmm_xmmm128b64),
    (Op::Mul, I32, VEX_Vpmulld_xmm_xmm_xmmm128, EVEX_Vpmulld_xmm_k1z_xmm_xmmm128b32),
    (Op::Mul, I64, INVALID, EVEX_Vpmullq_xmm_k1z_xmm_xmmm128b64),
    (Op::Div, F32, VEX_Vdivps_xmm_xmm_xmmm128, EVEX_Vdivps_xmm_k1z_xmm_xmmm128b32),
    (Op::Div, F64, VEX_Vdivpd_xmm_xmm_xmmm128, EVEX_Vdivpd_xmm_k1z_xmm_xmmm128b64),
    (Op::Min, F32, VEX_Vminps_xmm_xmm_xmmm128, EVEX_Vminps_xmm_k1z_xmm_xmmm128b32),
    (Op::Min, F64, VEX_Vminpd_xmm_xmm_xmmm128, EVEX_Vminpd_xmm_k1z_xmm_xmmm128b64),
    (Op::Min, I32, VEX_Vpminsd_xmm_xmm_xmmm128, EVEX_Vpminsd_xmm_k1z_xmm_xmmm128b32),
    (Op::Min, I64, INVALID, EVEX_Vpminsq_xmm_k1z_xmm_xmmm128b64),
    (Op::Max, F32, VEX_Vmaxps_xmm_xmm_xmmm128, EVEX_Vmaxps_xmm_k1z_xmm_xmmm128b32),
    (Op::Max, F64, VEX_Vmaxpd_xmm_xmm_xmmm128, EVEX_Vmaxpd_xmm_k1z_xmm_xmmm128b64),
    (Op::Max, I32, VEX_Vpmaxsd_xmm_xmm_xmmm128, EVEX_Vpmaxsd_xmm_k1z_xmm_xmmm128b32),
    (Op::Max, I64, INVALID, EVEX_Vpmaxsq_xmm_k1z_xmm_xmmm128b64),
    (Op::MinUnsigned, I32, VEX_Vpminud_xmm_xmm_xmmm128, EVEX_Vpminud_xmm_k1z_xmm_xmmm128b32),
    (Op::MinUnsigned, I64, INVALID, EVEX_Vpminuq_xmm_k1z_xmm_xmmm128b64),
    (Op::MaxUnsigned, I32, VEX_Vpmaxud_xmm_xmm_xmmm128, EVEX_Vpmaxud_xmm_k1z_xmm_xmmm128b32),
    (Op::MaxUnsigned, I64, INVALID, EVEX_Vpmaxuq_xmm_k1z_xmm_xmmm128b64),
    (Op::MulWide, I64, VEX_Vpmuludq_xmm_xmm_xmmm128, EVEX_Vpmuludq_xmm_k1z_xmm_xmmm128b64),
    (Op::And, F32, VEX_Vandps_xmm_xmm_xmmm128, EVEX_Vandps_xmm_k1z_xmm_xmmm128b32),
    (Op::And, F64, VEX_Vandpd_xmm_xmm_xmmm128, EVEX_Vandpd_xmm_k1z_xmm_xmmm128b64),
    (Op::And, I32, VEX_Vpand_xmm_xmm_xmmm128, EVEX_Vpandd_xmm_k1z_xmm_xmmm128b32),
    (Op::And, I64, VEX_Vpand_xmm_xmm_xmmm128, EVEX_Vpandq_xmm_k1z_xmm_xmmm128b64),
    (Op::AndNot, F32, VEX_Vandnps_xmm_xmm_xmmm128, EVEX_Vandnps_xmm_k1z_xmm_xmmm128b32),
    (Op::AndNot, F64, VEX_Vandnpd_xmm_xmm_xmmm128, EVEX_Vandnpd_xmm_k1z_xmm_xmmm128b64),
    (Op::AndNot, I32, VEX_Vpandn_xmm_xmm_xmmm128, EVEX_Vpandnd_xmm_k1z_xmm_xmmm128b32),
    (Op::AndNot, I64, VEX_Vpandn_xmm_xmm_xmmm128, EVEX_Vpandnq_xmm_k1z_xmm_xmmm128b64),
    (Op::Or, F32, VEX_Vorps_xmm_xmm_xmmm128, EVEX_Vorps_xmm_k1z_xmm_xmmm128b32),
    (Op::Or, F64, VEX_Vorpd_xmm_xmm_xmmm128, EVEX_Vorpd_xmm_k1z_xmm_xmmm128b64),
    (Op::Or, I32, VEX_Vpor_xmm_xmm_xmmm128, EVEX_Vpord_xmm_k1z_xmm_xmmm128b32),
    (Op::Or, I64, VEX_Vpor_xmm_xmm_xmmm128, EVEX_Vporq_xmm_k1z_xmm_xmmm128b64),
    (Op::Xor, F32, VEX_Vxorps_xmm_xmm_xmmm128, EVEX_Vxorps_xmm_k1z_xmm_xmmm128b32),
    (Op::Xor, F64, VEX_Vxorpd_xmm_xmm_xmmm128, EVEX_Vxorpd_xmm_k1z_xmm_xmmm128b64),
    (Op::Xor, I32, VEX_Vpxor_xmm_xmm_xmmm128, EVEX_Vpxord_xmm_k1z_xmm_xmmm128b32),
    (Op::Xor, I64, VEX_Vpxor_xmm_xmm_xmmm128, EVEX_Vpxorq_xmm_k1z_xmm_xmmm128b64),
    (Op::Shl, I32, VEX_Vpsllvd_xmm_xmm_xmmm128, EVEX_Vpsllvd_xmm_k1z_xmm_xmmm128b32),
    (Op::Shl, I64, VEX_Vpsllvq_xmm_xmm_xmmm128, EVEX_Vpsllvq_xmm_k1z_xmm_xmmm128b64),
    (Op::Shr, I32, VEX_Vpsrlvd_xmm_xmm_xmmm128, EVEX_Vpsrlvd_xmm_k1z_xmm_xmmm128b32),
    (Op::Shr, I64, VEX_Vpsrlvq_xmm_xmm_xmmm128, EVEX_Vpsrlvq_xmm_k1z_xmm_xmmm128b64),
    (Op::Sar, I32, VEX_Vpsravd_xmm_xmm_xmmm128, EVEX_Vpsravd_xmm_k1z_xmm_xmmm128b32),
    (Op::Sar, I64, INVALID, EVEX_Vpsravq_xmm_k1z_xmm_xmmm128b64),
    (Op::ShlImm, I32, VEX_Vpslld_xmm_xmm_imm8, EVEX_Vpslld_xmm_k1z_xmmm128b32_imm8),
    (Op::ShlImm, I64, VEX_Vpsllq_xmm_xmm_imm8, EVEX_Vpsllq_xmm_k1z_xmmm128b64_imm8),
    (Op::ShrImm, I32, VEX_Vpsrld_xmm_xmm_imm8, EVEX_Vpsrld_xmm_k1z_xmmm128b32_imm8),
    (Op::ShrImm, I64, VEX_Vpsrlq_xmm_xmm_imm8, EVEX_Vpsrlq_xmm_k1z_xmmm128b64_imm8),
    (Op::SarImm, I32, VEX_Vpsrad_xmm_xmm_imm8, EVEX_Vpsrad_xmm_k1z_xmmm128b32_imm8),
    (Op::SarImm, I64, INVALID, EVEX_Vpsraq_xmm_k1z_xmmm128b64_imm8),
    (Op::Abs, I32, VEX_Vpabsd_xmm_xmmm128, EVEX_Vpabsd_xmm_k1z_xmmm128b32),
    (Op::Abs, I64, INVALID, EVEX_Vpabsq_xmm_k1z_xmmm128b64),
    (Op::Sqrt, F32, VEX_Vsqrtps_xmm_xmmm128, EVEX_Vsqrtps_xmm_k1z_xmmm128b32),
    (Op::Sqrt, F64, VEX_Vsqrtpd_xmm_xmmm128, EVEX_Vsqrtpd_xmm_k1z_xmmm128b64),
    (Op::Round, F32, VEX_Vroundps_xmm_xmmm128_imm8, EVEX_Vrndscaleps_xmm_k1z_xmmm128b32_imm8),
    (Op::Round, F64, VEX_Vroundpd_xmm_xmmm128_imm8, EVEX_Vrndscalepd_xmm_k1z_xmmm128b64_imm8),
    (Op::Fma231, F32, VEX_Vfmadd231ps_xmm_xmm_xmmm128, EVEX_Vfmadd231ps_xmm_k1z_xmm_xmmm128b32),
    (Op::Fma231, F64, VEX_Vfmadd231pd_xmm_xmm_xmmm128, EVEX_Vfmadd231pd_xmm_k1z_xmm_xmmm128b64),
    (Op::Fma213, F32, VEX_Vfmadd213ps_xmm_xmm_xmmm128, EVEX_Vfmadd213ps_xmm_k1z_xmm_xmmm128b32),
    (Op::Fma213, F64, VEX_Vfmadd213pd_xmm_xmm_xmmm128, EVEX_Vfmadd213pd_xmm_k1z_xmm_xmmm128b64),
    (Op::DotPairs, F32, INVALID, EVEX_Vdpbf16ps_xmm_k1z_xmm_xmmm128b32),
    (Op::DotPairs, I32, INVALID, EVEX_Vpdpwssd_xmm_k1z_xmm_xmmm128b32),
    (Op::MulPairs, I32, VEX_Vpmaddwd_xmm_xmm_xmmm128, EVEX_Vpmaddwd_xmm_k1z_xmm_xmmm128),
    (Op::Compare, F32, VEX_Vcmpps_xmm_xmm_xmmm128_imm8, EVEX_Vcmpps_kr_k1_xmm_xmmm128b32_imm8),
    (Op::Compare, F64, VEX_Vcmppd_xmm_xmm_xmmm128_imm8, EVEX_Vcmppd_kr_k1_xmm_xmmm128b64_imm8),
    (Op::Compare, I32, INVALID, EVEX_Vpcmpd_kr_k1_xmm_xmmm128b32_imm8),
    (Op::Compare, I64, INVALID, EVEX_Vpcmpq_kr_k1_xmm_xmmm128b64_imm8),
    (Op::CompareUnsigned, I32, INVALID, EVEX_Vpcmpud_kr_k1_xmm_xmmm128b32_imm8),
    (Op::CompareUnsigned, I64, INVALID, EVEX_Vpcmpuq_kr_k1_xmm_xmmm128b64_imm8),
    (Op::CompareEqual, I32, VEX_Vpcmpeqd_xmm_xmm_xmmm128, INVALID),
    (Op::CompareEqual, I64, VEX_Vpcmpeqq_xmm_xmm_xmmm128, INVALID),
    (Op::CompareGreater, I32, VEX_Vpcmpgtd_xmm_xmm_xmmm128, INVALID),
    (Op::CompareGreater, I64, VEX_Vpcmpgtq_xmm_xmm_xmmm128, INVALID),
    (Op::Shuffle, I32, VEX_Vpshufd_xmm_xmmm128_imm8, EVEX_Vpshufd_xmm_k1z_xmmm128b32_imm8),
    (Op::UnpackLow, F32, VEX_Vunpcklps_xmm_xmm_xmmm128, EVEX_Vunpcklps_xmm_k1z_xmm_xmmm128b32),
    (Op::UnpackLow, F64, VEX_Vunpcklpd_xmm_xmm_xmmm128, EVEX_Vunpcklpd_xmm_k1z_xmm_xmmm128b64),
    (Op::UnpackHigh, F32, VEX_Vunpckhps_xmm_xmm_xmmm128, EVEX_Vunpckhps_xmm_k1z_xmm_xmmm128b32),
    (Op::UnpackHigh, F64, VEX_Vunpckhpd_xmm_xmm_xmmm128, EVEX_Vunpckhpd_xmm_k1z_xmm_xmmm128b64),
    (Op::ShuffleBytes, I32, VEX_Vpshufb_xmm_xmm_xmmm128, EVEX_Vpshufb_xmm_k1z_xmm_xmmm128),
    (Op::PermuteTwo, F32, INVALID, EVEX_Vpermt2ps_xmm_k1z_xmm_xmmm128b32),
    (Op::PermuteTwo, I32, INVALID, EVEX_Vpermt2d_xmm_k1z_xmm_xmmm128b32),
    (Op::Broadcast, F32, VEX_Vbroadcastss_xmm_xmm, EVEX_Vbroadcastss_xmm_k1z_xmmm32),
    (Op::Broadcast, F64, VEX_Vpbroadcastq_xmm_xmmm64, EVEX_Vpbroadcastq_xmm_k1z_xmmm64),
    (Op::Broadcast, I32, VEX_Vpbroadcastd_xmm_xmmm32, EVEX_Vpbroadcastd_xmm_k1z_xmmm32),
    (Op::Broadcast, I64, VEX_Vpbroadcastq_xmm_xmmm64, EVEX_Vpbroadcastq_xmm_k1z_xmmm64),
    (Op::BroadcastInt, I32, INVALID, EVEX_Vpbroadcastd_xmm_k1z_r32),
    (Op::BroadcastInt, I64, INVALID, EVEX_Vpbroadcastq_xmm_k1z_r64),
];

#[rustfmt::skip]
const MEMORY: &[(Op, Lane, Code, Code)] = &[
    (Op::Load, F32, VEX_Vmovups_xmm_xmmm128, EVEX_Vmovups_xmm_k1z_xmmm128),
    (Op::Load, F64, VEX_Vmovupd_xmm_xmmm128, EVEX_Vmovupd_xmm_k1z_xmmm128),
    (Op::Load, I32, VEX_Vmovups_xmm_xmmm128, EVEX_Vmovdqu32_xmm_k1z_xmmm128),
    (Op::Load, I64, VEX_Vmovupd_xmm_xmmm128, EVEX_Vmovdqu64_xmm_k1z_xmmm128),
    (Op::Load, Lane::F16, VEX_Vcvtph2ps_xmm_xmmm64, EVEX_Vcvtph2ps_xmm_k1z_xmmm64),
    (Op::Load, Lane::I16, VEX_Vpmovsxwd_xmm_xmmm64, EVEX_Vpmovsxwd_xmm_k1z_xmmm64),
    (Op::Load, Lane::U16, VEX_Vpmovzxwd_xmm_xmmm64, EVEX_Vpmovzxwd_xmm_k1z_xmmm64),
    (Op::Load, Lane::I8, VEX_Vpmovsxbd_xmm_xmmm32, EVEX_Vpmovsxbd_xmm_k1z_xmmm32),
    (Op::Load, Lane::U8, VEX_Vpmovzxbd_xmm_xmmm32, EVEX_Vpmovzxbd_xmm_k1z_xmmm32),
    (Op::LoadBroadcast, F32, VEX_Vbroadcastss_xmm_m32, EVEX_Vbroadcastss_xmm_k1z_xmmm32),
    (Op::LoadBroadcast, F64, VEX_Vpbroadcastq_xmm_xmmm64, EVEX_Vpbroadcastq_xmm_k1z_xmmm64),
    (Op::LoadBroadcast, I32, VEX_Vpbroadcastd_xmm_xmmm32, EVEX_Vpbroadcastd_xmm_k1z_xmmm32),
    (Op::LoadBroadcast, I64, VEX_Vpbroadcastq_xmm_xmmm64, EVEX_Vpbroadcastq_xmm_k1z_xmmm64),
    (Op::Store, F32, VEX_Vmovups_xmmm128_xmm, EVEX_Vmovups_xmmm128_k1z_xmm),
    (Op::Store, F64, VEX_Vmovupd_xmmm128_xmm, EVEX_Vmovupd_xmmm128_k1z_xmm),
    (Op::Store, I32, VEX_Vmovups_xmmm128_xmm, EVEX_Vmovdqu32_xmmm128_k1z_xmm),
    (Op::Store, I64, VEX_Vmovupd_xmmm128_xmm, EVEX_Vmovdqu64_xmmm128_k1z_xmm),
    (Op::Store, Lane::F16, VEX_Vcvtps2ph_xmmm64_xmm_imm8, EVEX_Vcvtps2ph_xmmm64_k1z_xmm_imm8),
    (Op::Store, Lane::I16, INVALID, EVEX_Vpmovdw_xmmm64_k1z_xmm),
    (Op::Store, Lane::U16, INVALID, EVEX_Vmovdqu16_xmmm128_k1z_xmm),
    (Op::Store, Lane::I8, INVALID, EVEX_Vpmovdb_xmmm32_k1z_xmm),
    (Op::Gather, F32, VEX_Vgatherdps_xmm_vm32x_xmm, EVEX_Vgatherdps_xmm_k1_vm32x),
    (Op::Gather, F64, VEX_Vgatherdpd_xmm_vm32x_xmm, EVEX_Vgatherdpd_xmm_k1_vm32x),
    (Op::Gather, I32, VEX_Vpgatherdd_xmm_vm32x_xmm, EVEX_Vpgatherdd_xmm_k1_vm32x),
    (Op::Gather, I64, VEX_Vpgatherdq_xmm_vm32x_xmm, EVEX_Vpgatherdq_xmm_k1_vm32x),
    (Op::Scatter, F32, INVALID, EVEX_Vscatterdps_vm32x_k1_xmm),
    (Op::Scatter, F64, INVALID, EVEX_Vscatterdpd_vm32x_k1_xmm),
    (Op::Scatter, I32, INVALID, EVEX_Vpscatterdd_vm32x_k1_xmm),
    (Op::Scatter, I64, INVALID, EVEX_Vpscatterdq_vm32x_k1_xmm),
];

/// The one-lane forms have no longer ones.
#[rustfmt::skip]
const ONE_LANE: &[(Op, Lane, Code, Code)] = &[
    (Op::LoadLane, F32, VEX_Vmovss_xmm_m32, EVEX_Vmovss_xmm_k1z_m32),
    (Op::LoadLane, F64, VEX_Vmovsd_xmm_m64, EVEX_Vmovsd_xmm_k1z_m64),
    (Op::LoadLane, I32, VEX_Vmovd_xmm_rm32, EVEX_Vmovd_xmm_rm32),
    (Op::LoadLane, I64, VEX_Vmovq_xmm_xmmm64, EVEX_Vmovq_xmm_xmmm64),
    (Op::StoreLane, F32, VEX_Vmovss_m32_xmm, EVEX_Vmovss_m32_k1_xmm),
    (Op::StoreLane, F64, VEX_Vmovsd_m64_xmm, EVEX_Vmovsd_m64_k1_xmm),
    (Op::StoreLane, I32, VEX_Vmovd_rm32_xmm, EVEX_Vmovd_rm32_xmm),
    (Op::StoreLane, I64, VEX_Vmovq_xmmm64_xmm, EVEX_Vmovq_xmmm64_xmm),
    (Op::IntFromVector, I32, VEX_Vmovd_rm32_xmm, EVEX_Vmovd_rm32_xmm),
    (Op::IntFromVector, I64, VEX_Vmovq_rm64_xmm, EVEX_Vmovq_rm64_xmm),
    (Op::VectorFromInt, I32, VEX_Vmovd_xmm_rm32, EVEX_Vmovd_xmm_rm32),
    (Op::VectorFromInt, I64, VEX_Vmovq_xmm_rm64, EVEX_Vmovq_xmm_rm64),
    (Op::IntFromFloat, F32, VEX_Vcvttss2si_r64_xmmm32, EVEX_Vcvttss2si_r64_xmmm32_sae),
    (Op::IntFromFloat, F64, VEX_Vcvttsd2si_r64_xmmm64, EVEX_Vcvttsd2si_r64_xmmm64_sae),
];

#[rustfmt::skip]
const CONVERSIONS: &[(Op, Code, Code)] = &[
    (Op::I32ToF32, VEX_Vcvtdq2ps_xmm_xmmm128, EVEX_Vcvtdq2ps_xmm_k1z_xmmm128b32),
    (Op::F32ToI32, VEX_Vcvttps2dq_xmm_xmmm128, EVEX_Vcvttps2dq_xmm_k1z_xmmm128b32),
    (Op::F32ToF64, VEX_Vcvtps2pd_xmm_xmmm64, EVEX_Vcvtps2pd_xmm_k1z_xmmm64b32),
    (Op::F64ToF32, VEX_Vcvtpd2ps_xmm_xmmm128, EVEX_Vcvtpd2ps_xmm_k1z_xmmm128b64),
    (Op::I32ToF64, VEX_Vcvtdq2pd_xmm_xmmm64, EVEX_Vcvtdq2pd_xmm_k1z_xmmm64b32),
    (Op::F64ToI32, VEX_Vcvttpd2dq_xmm_xmmm128, EVEX_Vcvttpd2dq_xmm_k1z_xmmm128b64),
    (Op::U32ToF32, INVALID, EVEX_Vcvtudq2ps_xmm_k1z_xmmm128b32),
    (Op::F32ToU32, INVALID, EVEX_Vcvttps2udq_xmm_k1z_xmmm128b32),
    (Op::U32ToF64, INVALID, EVEX_Vcvtudq2pd_xmm_k1z_xmmm64b32),
    (Op::F64ToU32, INVALID, EVEX_Vcvttpd2udq_xmm_k1z_xmmm128b64),
    (Op::I64ToF32, INVALID, EVEX_Vcvtqq2ps_xmm_k1z_xmmm128b64),
    (Op::I64ToF64, INVALID, EVEX_Vcvtqq2pd_xmm_k1z_xmmm128b64),
    (Op::U64ToF32, INVALID, EVEX_Vcvtuqq2ps_xmm_k1z_xmmm128b64),
    (Op::U64ToF64, INVALID, EVEX_Vcvtuqq2pd_xmm_k1z_xmmm128b64),
    (Op::F32ToI64, INVALID, EVEX_Vcvttps2qq_xmm_k1z_xmmm64b32),
    (Op::F32ToU64, INVALID, EVEX_Vcvttps2uqq_xmm_k1z_xmmm64b32),
    (Op::F64ToI64, INVALID, EVEX_Vcvttpd2qq_xmm_k1z_xmmm128b64),
    (Op::F64ToU64, INVALID, EVEX_Vcvttpd2uqq_xmm_k1z_xmmm128b64),
    (Op::I32ToI64, VEX_Vpmovsxdq_xmm_xmmm64, EVEX_Vpmovsxdq_xmm_k1z_xmmm64),
    (Op::U32ToI64, VEX_Vpmovzxdq_xmm_xmmm64, EVEX_Vpmovzxdq_xmm_k1z_xmmm64),
    (Op::I64ToI32, INVALID, EVEX_Vpmovqd_xmmm64_k1z_xmm),
    (Op::F16ToF32, VEX_Vcvtph2ps_xmm_xmmm64, EVEX_Vcvtph2ps_xmm_k1z_xmmm64),
    (Op::F32ToF16, VEX_Vcvtps2ph_xmmm64_xmm_imm8, EVEX_Vcvtps2ph_xmmm64_k1z_xmm_imm8),
    (Op::F32ToBf16, INVALID, EVEX_Vcvtneps2bf16_xmm_k1z_xmmm128b32),
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
pub(crate) fn forms(op: Op, lane: Lane) -> Forms {
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
