//! The measured loops, in inline assembly: what runs is what is written, in any build profile.
//!
//! Each function returns the amount of work it did; the caller takes the time.

use std::arch::{asm, is_x86_feature_detected};

/// An arithmetic loop: a body of `per_round` operations, run a number of rounds.
pub(super) struct Arithmetic {
    pub(super) key: &'static str,
    pub(super) what: &'static str,
    pub(super) unit: &'static str,
    pub(super) available: fn() -> bool,
    /// Operations (a multiply-add counts two) in one round of the loop.
    per_round: f64,
    rounds: fn(u64),
}

impl Arithmetic {
    /// Runs the loop and returns the number of operations. Only for loops that are `available`.
    pub(super) fn run(&self, rounds: u64) -> f64 {
        assert!((self.available)(), "{} is not available here", self.key);
        (self.rounds)(rounds);
        rounds as f64 * self.per_round
    }
}

/// `f32` 0.001 twice in a row as `bf16`, and as four small positive bytes: sums stay finite.
const OPERAND: u32 = 0x3a83_3a83;

/// A loop of one three-operand instruction over independent accumulators.
macro_rules! arithmetic_loop {
    ($instruction:literal, $vector:literal, $accumulators:literal, $a:literal, $b:literal) => {
        |rounds: u64| {
            // SAFETY: `Arithmetic::run` has checked that the processor knows the instruction;
            // the code touches registers that are declared or clobbered, and no memory.
            unsafe {
                asm!(
                    concat!("vmovd xmm", $a, ", eax"),
                    concat!("vbroadcastss ", $vector, $a, ", xmm", $a),
                    concat!("vmovd xmm", $b, ", eax"),
                    concat!("vbroadcastss ", $vector, $b, ", xmm", $b),
                    concat!(".irp i,", $accumulators),
                    concat!("vpxor xmm0, xmm0, xmm0"),
                    concat!("vbroadcastss ", $vector, "\\i, xmm0"),
                    ".endr",
                    "2:",
                    concat!(".irp i,", $accumulators),
                    concat!($instruction, " ", $vector, "\\i, ", $vector, $a, ", ", $vector, $b),
                    ".endr",
                    "dec rcx",
                    "jnz 2b",
                    "vzeroupper",
                    inout("rcx") rounds.max(1) => _,
                    in("eax") OPERAND,
                    clobber_abi("sysv64"),
                    options(nomem, nostack),
                );
            }
        }
    };
    (zmm $instruction:literal) => {
        arithmetic_loop!(
            $instruction,
            "zmm",
            "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23",
            "30",
            "31"
        )
    };
    (ymm $instruction:literal) => {
        arithmetic_loop!($instruction, "ymm", "0,1,2,3,4,5,6,7,8,9,10,11", "14", "15")
    };
}

/// Every arithmetic loop, widest first.
pub(super) const ARITHMETIC: [Arithmetic; 4] = [
    Arithmetic {
        key: "f32_fma_avx512",
        what: "f32 multiply-add, AVX-512, 24 accumulators",
        unit: "GFLOP/s",
        available: || is_x86_feature_detected!("avx512f"),
        per_round: 24.0 * 2.0 * 16.0,
        rounds: arithmetic_loop!(zmm "vfmadd231ps"),
    },
    Arithmetic {
        key: "f32_fma_avx2",
        what: "f32 multiply-add, AVX2, 12 accumulators",
        unit: "GFLOP/s",
        available: || is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
        per_round: 12.0 * 2.0 * 8.0,
        rounds: arithmetic_loop!(ymm "vfmadd231ps"),
    },
    Arithmetic {
        key: "bf16_dot_avx512",
        what: "bf16 dot product into f32, AVX512-BF16, 24 accumulators",
        unit: "GFLOP/s",
        available: || is_x86_feature_detected!("avx512bf16"),
        per_round: 24.0 * 2.0 * 32.0,
        rounds: arithmetic_loop!(zmm "vdpbf16ps"),
    },
    Arithmetic {
        key: "int8_dot_avx512",
        what: "u8 x i8 dot product into i32, AVX512-VNNI, 24 accumulators",
        unit: "GOP/s",
        available: || is_x86_feature_detected!("avx512vnni"),
        per_round: 24.0 * 2.0 * 64.0,
        rounds: arithmetic_loop!(zmm "vpdpbusd"),
    },
];

/// A chain of integer multiplications, three cycles each on every x86-64 core of the last decade.
/// Returns the number of cycles.
pub(super) fn clock(rounds: u64) -> f64 {
    // SAFETY: touches declared registers only.
    unsafe {
        asm!(
            "2:",
            ".rept 16",
            "imul rax, rax",
            ".endr",
            "dec rcx",
            "jnz 2b",
            inout("rcx") rounds.max(1) => _,
            inout("rax") 3_u64 => _,
            options(nomem, nostack),
        );
    }
    rounds as f64 * 16.0 * 3.0
}

/// Memory to read, in whole blocks of [`BLOCK`] bytes, every page of it written once.
pub(super) struct Buffer {
    blocks: Vec<Block>,
}

#[derive(Clone)]
#[repr(align(4096))]
struct Block(#[expect(dead_code, reason = "only assembly reads it")] [u8; BLOCK]);

const BLOCK: usize = 4096;

impl Buffer {
    /// A buffer of `bytes`, rounded up to whole blocks.
    pub(super) fn new(bytes: usize) -> Buffer {
        Buffer { blocks: vec![Block([1; BLOCK]); bytes.div_ceil(BLOCK).max(1)] }
    }
}

/// The order of the reads: one run through the buffer, or four at once through its quarters. Which
/// is faster depends on the prefetchers and on how many cores read.
#[derive(Clone, Copy)]
pub(super) enum Order {
    OneRun,
    FourRuns,
}

/// One turn of a reading loop: four times four loads of one vector each.
macro_rules! read_loop {
    ($vector:literal, $offsets:literal, $turns:expr, $start:expr, $apart:expr, $step:expr) => {
        asm!(
            "2:",
            concat!(".irp at,", $offsets),
            concat!("vmovaps ", $vector, "0, [rsi + \\at]"),
            concat!("vmovaps ", $vector, "1, [rsi + rdx + \\at]"),
            concat!("vmovaps ", $vector, "2, [rsi + 2*rdx + \\at]"),
            concat!("vmovaps ", $vector, "3, [rsi + r8 + \\at]"),
            ".endr",
            "add rsi, r9",
            "dec rcx",
            "jnz 2b",
            "vzeroupper",
            inout("rcx") $turns => _,
            inout("rsi") $start => _,
            in("rdx") $apart,
            in("r8") 3 * $apart,
            in("r9") $step,
            clobber_abi("sysv64"),
            options(readonly, nostack),
        )
    };
}

/// Reads the whole buffer `repeats` times with the widest vector loads that the processor has, and
/// returns the number of bytes.
pub(super) fn read(buffer: &Buffer, repeats: usize, order: Order) -> f64 {
    let bytes = buffer.blocks.len() * BLOCK;
    let start = buffer.blocks.as_ptr();
    let wide = is_x86_feature_detected!("avx512f");
    assert!(is_x86_feature_detected!("avx2"), "reading needs vectors of 32 bytes at least");
    // A turn reads a quarter of itself at each of four places.
    let turn = if wide { 1024 } else { 512 };
    let (apart, step) = match order {
        Order::OneRun => (turn / 4, turn),
        Order::FourRuns => (bytes / 4, turn / 4),
    };
    for _ in 0..repeats {
        if wide {
            // SAFETY: reads exactly the blocks of `buffer`, each byte once, aligned to 64 bytes;
            // AVX-512 was asked for above.
            unsafe { read_loop!("zmm", "0,64,128,192", bytes / turn, start, apart, step) }
        } else {
            // SAFETY: as above, aligned to 32 bytes, with AVX2.
            unsafe { read_loop!("ymm", "0,32,64,96", bytes / turn, start, apart, step) }
        }
    }
    (bytes * repeats) as f64
}
