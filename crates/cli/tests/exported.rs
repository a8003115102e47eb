//! Programs of PyTorch's (`.pt2`) on the command line: told apart by what is in them, run without
//! Python, and refused where only ONNX will do.

mod support;

use std::path::Path;

use support::{Folder, runnable_targets, tilewright};
use tensor::npz;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../import-aten/tests/exported");

fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = tilewright(Path::new(FOLDER), arguments);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_program_runs_as_pytorch_ran_it() {
    if runnable_targets().is_empty() {
        println!("skipped: this machine does not run what is compiled");
        return;
    }
    let folder = Folder::new();
    let output = folder.path().join("outputs.npz");
    let place = output.display().to_string();
    let inputs = ["--input", "x=state.npz:in.x", "--input", "more_b=state.npz:in.more_b"];
    let arguments = [&["run", "state.pt2", "--output", &place], &inputs[..]].concat();
    let (code, _, said) = run(&arguments);
    assert_eq!(code, Some(0), "{said}");
    let found = npz::read(&output).expect("outputs");
    let wanted = npz::read(Path::new(FOLDER).join("state.npz")).expect("recorded values");
    assert_eq!(found.len(), wanted.len() - 2, "all outputs, among them what was written to");
    for (name, tensor) in &found {
        let (_, wanted) = wanted.iter().find(|(key, _)| *key == format!("out.{name}")).expect(name);
        let deviation = tensor::compare(tensor, wanted, 1e-5, 1e-6);
        assert!(deviation.first_mismatch.is_none(), "{name}: {deviation:?}");
    }
}

#[test]
fn each_command_takes_a_program() {
    if runnable_targets().is_empty() {
        println!("skipped: this machine does not run what is compiled");
        return;
    }
    let folder = Folder::new();
    let place = folder.path().join("c").display().to_string();
    let page = folder.path().join("page.html").display().to_string();
    for arguments in [
        &["info", "parts.pt2"][..],
        &["verify", "parts.pt2", "--random"],
        &["explain", "parts.pt2", "--random"],
        &["dump", "parts.pt2", "--stage", "kernels"],
        &["bench", "parts.pt2", "--random", "--seconds", "0.01"],
        &["compile", "parts.pt2", "--emit", "c", "--output", &place],
        &["explore", "parts.pt2", "--random", "--html", &page],
    ] {
        let (code, _, said) = run(arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {said}");
    }
    // Its bytes tell what it is, not its name.
    let renamed = folder.path().join("model.onnx");
    std::fs::copy(Path::new(FOLDER).join("parts.pt2"), &renamed).expect("a copy");
    let (code, told, said) = run(&["info", &renamed.display().to_string()]);
    assert_eq!(code, Some(0), "{said}");
    assert!(told.starts_with("exported program by PyTorch"), "{told}");
    assert!(told.contains("input x: f32[4, 9]") && told.contains("aten.chunk.default"), "{told}");
}

#[test]
fn what_takes_onnx_alone_says_so() {
    for arguments in [
        &["diff", "parts.pt2", "--evaluator", "--random"][..],
        &["compare", "parts.pt2", "--random"],
        &["quantise", "parts.pt2", "--weights", "int8", "--output", "never-written.onnx"],
    ] {
        let (code, _, said) = run(arguments);
        assert_eq!(code, Some(1), "{arguments:?}: {said}");
        assert!(said.contains("error[TW0101]") && said.contains("torch.onnx.export"), "{said}");
    }
    assert!(!Path::new(FOLDER).join("never-written.onnx").exists());
}
