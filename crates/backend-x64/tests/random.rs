//! Random small scheduled kernels: compiled for every target they must compute the evaluator's
//! bits.
//!
//! A case is a seed and how deep expressions grow, which shrinks. `X64_CASES=100000` runs longer.

mod support;

use proptest::prelude::*;
use support::{Exact, agree, small_buffers};
use testkit::random_kernel;

fn cases() -> u32 {
    std::env::var("X64_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]
    #[test]
    fn compiled_kernels_agree_with_the_evaluator(seed in any::<u64>(), depth in 0u32..4) {
        let kernel = random_kernel(seed, depth);
        agree(&kernel, &small_buffers(&kernel, &[], seed), &[], Exact::Bits);
    }
}
