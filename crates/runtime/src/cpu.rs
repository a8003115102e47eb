//! What this machine can do: instructions, caches and cores.

/// Whether this machine has an x86-64 feature, by the name that `std` gives it (`avx2`, `avx512f`),
/// and the system lets programs use it. False for names this crate does not know.
#[must_use]
pub fn has_feature(name: &str) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        macro_rules! detect {
            ($($known:tt)*) => {
                match name {
                    $($known => std::arch::is_x86_feature_detected!($known),)*
                    _ => false,
                }
            };
        }
        detect!("avx" "avx2" "fma" "f16c" "bmi1" "bmi2" "lzcnt" "popcnt"
            "avx512f" "avx512bw" "avx512cd" "avx512dq" "avx512vl" "avx512vbmi" "avx512vnni"
            "avx512bf16")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        _ = name;
        false
    }
}

/// What the processor tells of itself, as far as it does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Processor {
    /// Bytes of the data caches, from the first level to the third.
    pub caches: [Option<u64>; 3],
    /// Whether its data paths are as wide as its widest vectors.
    pub full_width: Option<bool>,
    /// Whether a mesh joins its cores and the slices of its last-level cache, as Intel's servers
    /// have it.
    pub mesh: bool,
}

impl Processor {
    /// The processor that this runs on.
    #[must_use]
    pub fn here() -> Processor {
        #[cfg(target_arch = "x86_64")]
        return x86::processor();
        #[cfg(not(target_arch = "x86_64"))]
        Processor::default()
    }
}

/// What `cpuid` says. Sources: AMD64 Architecture Programmer's Manual, volume 3, appendix E; Intel
/// 64 Architectures Software Developer's Manual, volume 2, CPUID.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{__cpuid, __cpuid_count, CpuidResult};

    use super::Processor;

    const EXTENDED: u32 = 0x8000_0000;
    const AMD_PATHS: u32 = 0x8000_001a;
    const AMD_CACHES: u32 = 0x8000_001d;
    const INTEL_CACHES: u32 = 4;

    pub(super) fn processor() -> Processor {
        let vendor = __cpuid(0);
        // `AuthenticAMD` or `GenuineIntel`, the first four letters of it.
        let is_amd = vendor.ebx == u32::from_le_bytes(*b"Auth");
        let is_intel = vendor.ebx == u32::from_le_bytes(*b"Genu");
        let last = __cpuid(if is_amd { EXTENDED } else { 0 }).eax;
        let leaf = if is_amd { AMD_CACHES } else { INTEL_CACHES };
        let mut found = Processor::default();
        if last >= leaf {
            for number in 0..16 {
                if let Some((level, bytes)) = cache(__cpuid_count(leaf, number)) {
                    found.caches[level] = Some(bytes);
                }
            }
        }
        let has_512 = super::has_feature("avx512f");
        // Of Intel's, those with vectors of 512 bits are servers or of their making.
        found.mesh = is_intel && has_512;
        if is_amd && last >= AMD_PATHS {
            // Bit 3: paths of 512 bits.
            found.full_width = Some(!has_512 || __cpuid(AMD_PATHS).eax & 8 != 0);
        }
        found
    }

    /// The level of a cache, from 0, and its bytes, if a leaf describes one that holds data.
    fn cache(leaf: CpuidResult) -> Option<(usize, u64)> {
        let (kind, level) = (leaf.eax & 0x1f, (leaf.eax >> 5) & 7);
        let count = |bits: u32| u64::from(bits) + 1;
        let (line, partitions) = (count(leaf.ebx & 0xfff), count((leaf.ebx >> 12) & 0x3ff));
        let (ways, sets) = (count(leaf.ebx >> 22), count(leaf.ecx));
        let holds_data = matches!(kind, 1 | 3) && (1..=3).contains(&level);
        holds_data.then(|| (level as usize - 1, line * partitions * ways * sets))
    }
}

/// The number of threads that can run at the same time.
#[must_use]
pub fn available_threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
