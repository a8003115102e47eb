//! Which shapes an executable keeps in its budget: allocations tell a compile from a look-up.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::path::Path;

use testkit::CountingAllocator;
use tilewright::{DType, Options};

#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator::new();

/// Far more than a look-up takes, far fewer than a compile.
const MANY: usize = 1000;

#[test]
fn the_shape_not_used_for_longest_goes() {
    if !std::arch::is_x86_feature_detected!("avx2") {
        eprintln!("skipped: this machine cannot run the JIT's code");
        return;
    }
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/digits/digits.onnx");
    let mut options = Options { threads: Some(1), ..Options::default() };
    // Room for several shapes, and far fewer than seventy.
    options.limits.cache_bytes = 1 << 20;
    let executable = tilewright::compile(&model, &options).expect("the model compiles");
    let compiles = |batch: usize| {
        let image = tilewright::random(DType::F32, &[batch, 1, 8, 8], 7);
        let before = COUNTING.allocations();
        executable.prepare(&[image]).expect("it compiles");
        COUNTING.allocations() - before > MANY
    };
    for batch in 100..170 {
        assert!(compiles(batch), "batch {batch} is new");
        assert!(batch == 100 || !compiles(100), "batch 100 was used just now");
    }
    assert!(!compiles(169), "the last one is kept");
    assert!(compiles(101), "the others that have been used since fill the budget");
}
