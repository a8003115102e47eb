//! The target table: instruction sets and the processors that they are scheduled for.
//!
//! A target is a row, so the same name gives the same bytes on every machine.

use tensor::DType;

use crate::instruction::{Instruction, InstructionCost};
use crate::machine::Machine;

/// An instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Isa {
    /// AVX-512 F, BW, CD, DQ, VL, VBMI, VNNI, BF16 with FMA.
    X86Avx512Bf16,
    /// AVX-512 F, BW, CD, DQ, VL with FMA.
    X86Avx512,
    /// AVX2 with FMA and F16C.
    X86Avx2,
    /// C99, for any CPU.
    C99,
    /// C for cores of Armv7E-M: pairs of 16 bits in registers of 32 (the DSP extension).
    ArmDsp,
    /// C for cores of Armv8.1-M with Helium: vectors of 128 bits.
    ArmHelium,
}

/// A row of the target table.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// What the user writes: `x86-64-v4-bf16`, `x86-64-v4`, `x86-64-v3`, `c99`, `cortex-m4`,
    /// `cortex-m7`, `cortex-m55`, `rv64gc`.
    pub name: String,
    /// Its instruction set.
    pub isa: Isa,
    /// Bytes in a vector register.
    pub vector_bytes: u32,
    /// Vector registers that a kernel may use.
    pub vector_registers: u32,
    /// What its code costs.
    pub machine: Machine,
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
            Isa::C99 | Isa::ArmDsp | Isa::ArmHelium => None,
        };
        shared.unwrap_or_else(|| self.clone())
    }

    /// The instructions that it has, with what they take on it.
    pub fn instructions(&self) -> impl Iterator<Item = (&'static Instruction, InstructionCost)> {
        Instruction::all().iter().filter_map(|row| Some((row, self.cost_of(row)?)))
    }

    /// What an instruction takes on it, if it has it.
    #[must_use]
    pub fn cost_of(&self, row: &Instruction) -> Option<InstructionCost> {
        let of_all = row.cost(self.isa)?;
        let own = self.machine.costs.iter().find(|(name, _)| *name == row.name());
        Some(own.map_or(of_all, |(_, cost)| *cost))
    }

    /// The target as formats see it, whose choices decide the order of sums: its own vectors, and
    /// the processor by which all targets of an architecture decide.
    #[must_use]
    pub fn for_formats(&self) -> Target {
        Target { machine: self.deciding().machine, ..self.clone() }
    }

    /// Whether neighbouring elements of less than 32 bits are loaded and stored under a mask.
    #[must_use]
    pub fn masks_narrow(&self) -> bool {
        self.isa.has_avx512()
    }

    /// Whether bytes of a vector register can be picked by bytes, from anywhere in it: then tables
    /// of 256 bytes are looked up in registers.
    #[must_use]
    pub fn permutes_bytes(&self) -> bool {
        self.isa == Isa::X86Avx512Bf16
    }

    /// Whether it has an instruction for sums of products of four unsigned bytes and four signed
    /// ones.
    #[must_use]
    pub fn multiplies_bytes(&self) -> bool {
        self.instructions().any(|(row, _)| row.takes(&[DType::U8, DType::I8], 4))
    }

    /// Whether it has instructions for products of integers of 64 bits in vectors, and for what
    /// they are as floats.
    #[must_use]
    pub fn computes_long(&self) -> bool {
        self.isa != Isa::X86Avx2
    }

    /// Whether a term takes no longer in such sums than in those of pairs of 16 bits, so that
    /// integers are multiplied as bytes wherever they are bytes.
    #[must_use]
    pub fn prefers_bytes(&self) -> bool {
        let each = |dtypes: &[DType], count: i64| {
            let own = |row: &Instruction| row.takes(dtypes, count);
            let cost = self.instructions().find_map(|(row, cost)| own(row).then_some(cost));
            cost.map(|cost| cost.cycles / count as f64)
        };
        let pairs = each(&[DType::I16, DType::I16], 2).unwrap_or(f64::INFINITY);
        each(&[DType::U8, DType::I8], 4).is_some_and(|quads| quads < pairs)
    }

    /// How many signed bytes its instruction for their products takes at once of each operand, if
    /// it has one.
    #[must_use]
    pub fn signed_bytes_at_once(&self) -> Option<i64> {
        let signed = [DType::I8, DType::I8];
        let mut rows = self.instructions();
        rows.find_map(|(row, _)| row.takes(&signed, row.count()).then_some(row.count()))
    }

    /// Cycles in which a full vector of 32-bit lanes looks up bytes in a table of 256 that the
    /// first-level cache keeps.
    #[must_use]
    pub fn cycles_of_lookup(&self) -> f64 {
        let machine = &self.machine;
        let lanes = f64::from(self.vector_bytes / 4);
        let arithmetic = f64::from(machine.fma_per_cycle);
        match self.isa {
            // Two permutations of halves of the table; a comparison, a selection, the lowest byte.
            Isa::X86Avx512Bf16 => {
                machine.passes * (2.0 / machine.permutes_per_cycle + 3.0 / arithmetic)
            }
            // Words are gathered, and bytes taken out of them.
            Isa::X86Avx512 | Isa::X86Avx2 => {
                lanes * machine.cycles_of_gather + 6.0 * machine.passes / arithmetic
            }
            Isa::C99 | Isa::ArmDsp | Isa::ArmHelium => lanes / machine.scalar_loads_per_cycle,
        }
    }

    /// Whether it is a microcontroller: its memory is small, constants stay in flash as they were
    /// written, and a load of bytes extends them at no cost.
    #[must_use]
    pub fn is_microcontroller(&self) -> bool {
        matches!(self.isa, Isa::ArmDsp | Isa::ArmHelium)
    }

    /// Peak of f32 arithmetic, in FLOP per nanosecond and core.
    #[must_use]
    pub fn flops_per_ns(&self) -> f64 {
        let lanes = f64::from(self.vector_bytes / 4);
        let multiply_adds = f64::from(self.machine.fma_per_cycle) / self.machine.passes;
        2.0 * lanes * multiply_adds * self.machine.cycles_per_ns
    }

    /// All rows.
    #[must_use]
    pub fn table() -> Vec<Target> {
        let v4 = Target {
            name: "x86-64-v4".to_string(),
            isa: Isa::X86Avx512,
            vector_bytes: 64,
            vector_registers: 32,
            machine: Machine::server(),
        };
        let v4_bf16 =
            Target { name: "x86-64-v4-bf16".to_string(), isa: Isa::X86Avx512Bf16, ..v4.clone() };
        let v3 = Target {
            name: "x86-64-v3".to_string(),
            isa: Isa::X86Avx2,
            vector_bytes: 32,
            vector_registers: 16,
            machine: Machine::narrow_server(),
        };
        let c99 = Target {
            name: "c99".to_string(),
            isa: Isa::C99,
            vector_bytes: 16,
            vector_registers: 16,
            machine: Machine { cycles_per_ns: 1.0, ..Machine::server() },
        };
        let m7 = Target {
            name: "cortex-m7".to_string(),
            isa: Isa::ArmDsp,
            vector_bytes: 4,
            // Of thirteen, those that addresses and halves of loaded words leave.
            vector_registers: 8,
            machine: Machine::microcontroller(),
        };
        let m4 = Target { name: "cortex-m4".to_string(), ..m7.clone() };
        let m55 = Target {
            name: "cortex-m55".to_string(),
            isa: Isa::ArmHelium,
            vector_bytes: 16,
            ..m7.clone()
        };
        let rv64gc = Target {
            name: "rv64gc".to_string(),
            isa: Isa::C99,
            // No vectors: pairs of floats are as well as single ones.
            vector_bytes: 8,
            vector_registers: 24,
            ..c99.clone()
        };
        vec![v4_bf16, v4, v3, c99, m7, m4, m55, rv64gc]
    }
}
