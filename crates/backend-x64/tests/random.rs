//! Random small scheduled kernels: compiled for every target they must compute the evaluator's
//! bits.
//!
//! A case is a seed and how deep expressions grow, which shrinks. `X64_CASES=100000` runs longer.

mod support;

use backend::Target;
use proptest::prelude::*;
use support::{Exact, agree, small_buffers};
use testkit::random_kernel;
use tilewright_backend_x64::{X64Options, compile_with, instructions};

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

    /// Whoever asks for statements gets the same code.
    #[test]
    fn statements_are_beside_the_code(seed in any::<u64>(), depth in 0u32..4) {
        let kernel = random_kernel(seed, depth);
        let target = Target::named("x86-64-v4").expect("a target");
        let code = compile_with(&kernel, &target, X64Options::default()).expect("it compiles");
        let options = X64Options { want_statements: true, ..X64Options::default() };
        let beside = compile_with(&kernel, &target, options).expect("it compiles");
        prop_assert_eq!(code.bytes, beside.bytes);
        prop_assert!(code.statements.is_empty());
        let mut count = 0;
        loops::visit::walk(&kernel.body, &mut |_| count += 1);
        let told = instructions(&kernel, &target).expect("it compiles");
        prop_assert!(told.iter().all(|it| it.statement.is_none_or(|number| number < count)));
    }
}
