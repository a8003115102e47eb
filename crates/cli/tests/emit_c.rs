//! A real model as C: `compile --emit c` writes sources that a C compiler takes without a warning,
//! that need nothing, and that compute what the machine code computes.

mod support;

use std::path::Path;

use support::{DIGITS, Folder, succeed};
use tensor::DType;
use testkit::{build_c_program, has_c_compiler, run_c_program};

/// Largest norm of the difference over the norm of the reference.
const TOLERANCE: f64 = 1e-5;

#[test]
fn the_digits_model_as_c_agrees_with_its_machine_code() {
    check(&[]);
}

#[test]
fn so_it_does_in_bf16() {
    // Which convolutions stay in f32 because minimal filtering is faster depends on the target.
    check(&["--precision", "bf16", "--disable", "winograd"]);
}

fn check(options: &[&str]) {
    if !has_c_compiler() {
        return;
    }
    let folder = Folder::new();
    let sources = ["compile", DIGITS, "--emit", "c", "--dim", "batch=5", "-o", &folder.file("")];
    succeed(&[&sources[..], options].concat());
    build_c_program(folder.path(), &[]);
    for seed in [1, 2] {
        let image = tensor::random::random(DType::F32, &[5, 1, 8, 8], seed);
        run_c_program(folder.path(), std::slice::from_ref(&image));
        let input = format!("image={}", folder.file("input0.npy"));
        let run = ["run", DIGITS, "--input", &input, "--output-dir", &folder.file("jit")];
        succeed(&[&run[..], options].concat());
        let read = |name: &str| tensor::npy::read(Path::new(&folder.file(name))).expect("reads");
        let (actual, expected) = (read("logits.npy"), read("jit/logits.npy"));
        let error = tensor::compare(&actual, &expected, 0.0, 0.0).relative_l2;
        assert!(error <= TOLERANCE, "seed {seed}: {error:e}");
    }
}
