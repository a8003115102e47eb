//! The target table: every number a schedule reads.
//!
//! A target is a row, so the same name gives the same bytes on every machine.

/// An instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Isa {
    /// AVX-512 F, BW, CD, DQ, VL, BF16 with FMA.
    X86Avx512Bf16,
    /// AVX-512 F, BW, CD, DQ, VL with FMA.
    X86Avx512,
    /// AVX2 with FMA and F16C.
    X86Avx2,
    /// C99, for any CPU.
    C99,
}

/// A row of the target table.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// What the user writes: `x86-64-v4-bf16`, `x86-64-v4`, `x86-64-v3`, `c99`.
    pub name: String,
    /// Its instruction set.
    pub isa: Isa,
    /// Bytes in a vector register.
    pub vector_bytes: u32,
    /// Vector registers that a kernel may use.
    pub vector_registers: u32,
    /// Fused multiply-adds of full vectors that can be started each cycle.
    pub fma_per_cycle: u32,
    /// Cycles until a fused multiply-add's result can be used.
    pub fma_latency: u32,
    /// First-level data cache, bytes a core.
    pub l1_bytes: u64,
    /// Second-level cache, bytes a core.
    pub l2_bytes: u64,
    /// Last-level cache, bytes shared.
    pub l3_bytes: u64,
    /// Peak of f32 arithmetic, in FLOP per nanosecond and core, for predictions.
    pub flops_per_ns: f64,
    /// Memory bandwidth of one core, bytes per nanosecond, for predictions.
    pub bytes_per_ns: f64,
}

impl Target {
    /// The row with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Target> {
        Target::table().into_iter().find(|row| row.name == name)
    }

    /// The row by which choices are made that change bits: targets of one architecture should agree
    /// in every bit, so it is the same for all of them.
    #[must_use]
    pub fn deciding(&self) -> Target {
        let shared = match self.isa {
            Isa::X86Avx512Bf16 | Isa::X86Avx512 | Isa::X86Avx2 => Target::named("x86-64-v4"),
            Isa::C99 => None,
        };
        shared.unwrap_or_else(|| self.clone())
    }

    /// All rows.
    #[must_use]
    pub fn table() -> Vec<Target> {
        let v4 = Target {
            name: "x86-64-v4".to_string(),
            isa: Isa::X86Avx512,
            vector_bytes: 64,
            vector_registers: 32,
            fma_per_cycle: 2,
            fma_latency: 4,
            l1_bytes: 32 << 10,
            l2_bytes: 1 << 20,
            l3_bytes: 32 << 20,
            flops_per_ns: 270.0,
            bytes_per_ns: 40.0,
        };
        let v4_bf16 =
            Target { name: "x86-64-v4-bf16".to_string(), isa: Isa::X86Avx512Bf16, ..v4.clone() };
        let v3 = Target {
            name: "x86-64-v3".to_string(),
            isa: Isa::X86Avx2,
            vector_bytes: 32,
            vector_registers: 16,
            flops_per_ns: 135.0,
            ..v4.clone()
        };
        let c99 = Target {
            name: "c99".to_string(),
            isa: Isa::C99,
            vector_bytes: 16,
            vector_registers: 16,
            flops_per_ns: 16.0,
            ..v4.clone()
        };
        vec![v4_bf16, v4, v3, c99]
    }
}
