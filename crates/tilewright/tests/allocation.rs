//! `run_into` allocates nothing from the second run on.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use tilewright::{DType, Options, Tensor};

/// The system's allocator, counting.
struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

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
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        for _ in 0..100 {
            executable.run_into(&inputs, &mut outputs).expect("it runs");
        }
        let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
        assert_eq!(allocations, 0, "allocations in 100 runs with {threads} thread(s)");
    }
}
