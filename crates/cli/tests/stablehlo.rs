//! StableHLO programs on the command line: told apart by what is in them, run as XLA runs them, and
//! checked where they check themselves; refused with line and column.

mod support;

use std::path::Path;

use support::{Folder, runnable_targets, tilewright};
use tensor::{Tensor, npy, npz};

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../import-stablehlo/tests/programs");

fn run(folder: &Folder, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = tilewright(folder.path(), arguments);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// A program, by a name that does not tell what it is, its inputs beside it; the
/// options that give these, and what XLA computed.
fn unpacked(folder: &Folder, file: &str) -> (Vec<String>, Vec<Tensor>) {
    let program = std::fs::read(Path::new(PROGRAMS).join(file)).expect("a program");
    std::fs::write(folder.path().join("program"), program).expect("a copy");
    let (name, _) = file.split_once('.').expect("a name and a form");
    let (mut options, mut outputs) = (Vec::new(), Vec::new());
    for (key, tensor) in npz::read(Path::new(PROGRAMS).join("values.npz")).expect("values") {
        let Some(rest) = key.strip_prefix(&format!("{name}.")) else { continue };
        if let Some(number) = rest.strip_prefix("in") {
            npy::write(folder.path().join(format!("{rest}.npy")), &tensor).expect("an input");
            options.extend(["--input".to_owned(), format!("arg{number}={rest}.npy")]);
        } else {
            outputs.push(tensor);
        }
    }
    (options, outputs)
}

#[test]
fn a_program_runs_as_xla_runs_it() {
    if runnable_targets().is_empty() {
        println!("skipped: this machine does not run what is compiled");
        return;
    }
    let texts = ["mlp_step.mlir", "sorting.mlir", "complex_products.mlir", "scatters.mlir"];
    let bytecode = ["lstm.bc", "k_means.bc", "convolution_step.bc", "mlp.jaxexport"];
    for name in texts.into_iter().chain(bytecode) {
        let folder = Folder::new();
        let (inputs, wanted) = unpacked(&folder, name);
        for target in runnable_targets().iter().copied() {
            let mut arguments =
                vec!["run", "program", "--target", target, "--output", "outputs.npz"];
            arguments.extend(inputs.iter().map(String::as_str));
            let (code, _, said) = run(&folder, &arguments);
            assert_eq!(code, Some(0), "{name}: {said}");
            let found = npz::read(folder.path().join("outputs.npz")).expect("outputs");
            assert_eq!(found.len(), wanted.len(), "{name}");
            for ((output, found), wanted) in found.iter().zip(&wanted) {
                let deviation = tensor::compare(found, wanted, 2e-5, 2e-5);
                let first = deviation.first_mismatch;
                assert!(first.is_none(), "{output} of {name} for {target}: {first:?}");
            }
        }
    }
}

#[test]
fn a_wrong_program_is_refused_with_its_place() {
    let folder = Folder::new();
    let text = "module {\n  func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n    %y = \
        stablehlo.rng %x, %x, %x, distribution = UNIFORM : (tensor<2xf32>, tensor<2xf32>, \
        tensor<2xf32>) -> tensor<2xf32>\n    return %y : tensor<2xf32>\n  }\n}\n";
    std::fs::write(folder.path().join("program"), text).expect("a program");
    let (code, _, said) = run(&folder, &["run", "program"]);
    assert_ne!(code, Some(0));
    assert!(said.contains("TW0103") && said.contains("stablehlo.rng"), "{said}");
    assert!(said.contains("line 3, column 10"), "{said}");
    let cut = &text[..text.len() - 12];
    std::fs::write(folder.path().join("program"), cut).expect("a program");
    let (code, _, said) = run(&folder, &["info", "program"]);
    assert_ne!(code, Some(0));
    assert!(said.contains("TW0701") && said.contains("line 4"), "{said}");
}

#[test]
fn a_program_that_is_wrong_about_itself_fails() {
    if runnable_targets().is_empty() {
        println!("skipped: this machine does not run what is compiled");
        return;
    }
    let folder = Folder::new();
    std::fs::create_dir(folder.path().join("cases")).expect("a folder");
    let case = |sum: &str| {
        let text = format!(
            "func.func @sums() {{\n  %x = stablehlo.constant dense<1> : tensor<2xi32>\n  %y = \
             stablehlo.add %x, %x : tensor<2xi32>\n  check.expect_eq_const %y, dense<{sum}> : \
             tensor<2xi32>\n  func.return\n}}\n"
        );
        std::fs::write(folder.path().join("cases/sums.mlir"), text).expect("a case");
        run(&folder, &["conformance", "cases"])
    };
    assert_eq!(case("2").0, Some(0));
    let (code, said, _) = case("3");
    assert_ne!(code, Some(0));
    assert!(said.contains("element 0 is 2e0 where 3e0 is expected"), "{said}");
}
