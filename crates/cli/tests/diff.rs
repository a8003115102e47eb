//! `diff` names the first node whose value differs, and writes a small case that shows it.

mod support;

use std::path::Path;

use support::{DIGITS, Folder, runnable_targets, succeed, tilewright};

fn said(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn configurations_that_agree() {
    if runnable_targets().is_empty() {
        return;
    }
    let others = [
        &["--other-threads", "2"][..],
        &["--other-disable", "cse"],
        &["--other-without-optimisation"],
        &["--evaluator"],
    ];
    for other in others {
        let arguments = [&["diff", DIGITS, "--dim", "batch=2"][..], other].concat();
        assert_eq!(succeed(&arguments), "no output differs\n", "{other:?}");
    }
}

#[test]
fn short_products_are_found_and_reduced_to_a_case() {
    if runnable_targets().is_empty() {
        return;
    }
    let folder = Folder::new();
    let arguments =
        ["diff", DIGITS, "--dim", "batch=2", "--other-precision", "bf16", "--output-dir", "case"];
    let output = tilewright(folder.path(), &arguments);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let text = said(&output);
    assert!(text.contains("(Conv): value `") && text.contains("the node alone differs"), "{text}");
    // The case holds what the other configuration gives.
    let output = tilewright(folder.path(), &["conformance", ".", "--json"]);
    assert!(said(&output).contains("\"total\":1"), "{}", said(&output));
    let case = folder.path().join("case/test_data_set_0");
    assert!(case.join("input_0.pb").is_file() && case.join("output_0.pb").is_file());
    let again =
        ["diff", "case/model.onnx", "--recorded", "case/test_data_set_0", "--output-dir", "again"];
    let output = tilewright(folder.path(), &again);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
}

#[test]
fn recorded_outputs_that_agree() {
    if runnable_targets().is_empty() {
        return;
    }
    let folder = Folder::new();
    let arguments =
        ["diff", DIGITS, "--dim", "batch=1", "--other-precision", "bf16", "--output-dir", "case"];
    tilewright(folder.path(), &arguments);
    // Against what it was recorded with.
    let arguments =
        ["diff", "case/model.onnx", "--precision", "bf16", "--recorded", "case/test_data_set_0"];
    let output = tilewright(folder.path(), &arguments);
    assert_eq!(said(&output), "no output differs\n", "{output:?}");
    assert!(Path::new(DIGITS).is_file());
}

#[test]
fn sources_in_c_are_a_configuration() {
    if runnable_targets().is_empty() || !testkit::has_c_compiler() {
        return;
    }
    let arguments = ["diff", DIGITS, "--dim", "batch=2", "--other-target", "c99"];
    assert_eq!(succeed(&arguments), "no output differs\n");
    let folder = Folder::new();
    let arguments =
        ["diff", DIGITS, "--dim", "batch=2", "--target", "c99", "--other-precision", "bf16"];
    let output = tilewright(folder.path(), &arguments);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(said(&output).contains("the node alone differs"), "{}", said(&output));
}

#[test]
fn a_c_compiler_that_fails_is_said() {
    let said_with = |compiler: &str| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_tilewright"))
            .args(["diff", DIGITS, "--dim", "batch=2", "--target", "c99", "--evaluator"])
            .env("CC", compiler)
            .output()
            .expect("the binary starts");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = said_with("no-such-compiler");
    assert!(said.contains("TW0404") && said.contains("no-such-compiler"), "{said}");
    // A program that says no to everything.
    let said = said_with("false");
    assert!(said.contains("TW0405") && said.contains("refuses the sources"), "{said}");
}

#[test]
fn outputs_without_elements_are_no_comparison() {
    if runnable_targets().is_empty() {
        return;
    }
    let arguments = ["diff", DIGITS, "--dim", "batch=0", "--other-threads", "2"];
    let output = tilewright(Path::new("."), &arguments);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("TW0602"), "{output:?}");
}
