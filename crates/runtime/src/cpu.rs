//! What this machine can do: instructions and cores.

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
            "avx512f" "avx512bw" "avx512cd" "avx512dq" "avx512vl" "avx512vnni" "avx512bf16")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        _ = name;
        false
    }
}

/// The number of threads that can run at the same time.
#[must_use]
pub fn available_threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
