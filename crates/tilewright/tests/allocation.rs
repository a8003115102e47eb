//! `run_into` allocates nothing from the second run on.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::path::Path;

use testkit::CountingAllocator;
use tilewright::{DType, Options, Tensor};

#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator::new();

#[test]
fn runs_allocate_nothing() {
    if !std::arch::is_x86_feature_detected!("avx2") {
        eprintln!("skipped: this machine cannot run the JIT's code");
        return;
    }
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/digits/digits.onnx");
    for threads in [1, 2] {
        let options = Options { threads: Some(threads), ..Options::default() };
        let executable = tilewright::compile(&model, &options).expect("the model compiles");
        let image = tilewright::random(DType::F32, &[5, 1, 8, 8], 7);
        let inputs: [Tensor; 1] = [image];
        let mut outputs = executable.run(&inputs).expect("it runs");
        executable.run_into(&inputs, &mut outputs).expect("it runs");
        // Threads that are no part of a run, as the one that waits for this test, may allocate
        // while one series goes on; what runs allocate they do in each.
        let mut series = || {
            let before = COUNTING.allocations();
            for _ in 0..100 {
                executable.run_into(&inputs, &mut outputs).expect("it runs");
            }
            COUNTING.allocations() - before
        };
        let allocations = (0..5).map(|_| series()).min();
        assert_eq!(allocations, Some(0), "allocations in 100 runs with {threads} thread(s)");
    }
}
