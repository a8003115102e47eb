//! TensorFlow Lite files on the command line: told apart by what is in them, run to the bit as the
//! kernels of TensorFlow Lite run them, and refused where only ONNX will do.

mod support;

use std::path::{Path, PathBuf};

use support::{Folder, runnable_targets, tilewright};
use tensor::{Tensor, npy, npz};

const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../import-tflite/tests/operators.npz");

/// A recorded model in a folder, with its inputs; the outputs of the kernels.
fn unpacked(folder: &Folder, name: &str) -> (PathBuf, Vec<Tensor>) {
    let recorded = npz::read(RECORDED).expect("recorded models");
    let path = folder.path().join("model");
    let mut outputs = Vec::new();
    for (key, tensor) in recorded {
        match key.strip_prefix(name) {
            Some("") => std::fs::write(&path, tensor.bytes()).expect("a model"),
            Some(rest) if rest.starts_with(".in") => {
                let place = folder.path().join(format!("{}.npy", &rest[1..]));
                npy::write(&place, &tensor).expect("an input");
            }
            Some(rest) if rest.starts_with(".out") => outputs.push(tensor),
            _ => {}
        }
    }
    (path, outputs)
}

fn run(folder: &Folder, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = tilewright(folder.path(), arguments);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_file_runs_as_the_kernels_run_it() {
    if runnable_targets().is_empty() {
        println!("skipped: this machine does not run what is compiled");
        return;
    }
    for name in ["CONV_2D_i8_i32_1", "DEPTHWISE_CONV_2D_i8_i32_3", "SOFTMAX_i8_1", "ADD_i8_1"] {
        let folder = Folder::new();
        let (_, wanted) = unpacked(&folder, name);
        for target in runnable_targets().iter().copied() {
            let mut arguments = vec!["run", "model", "--target", target, "--output", "outputs.npz"];
            arguments.extend(["--input", "t0=in0.npy"]);
            if name.starts_with("ADD") {
                arguments.extend(["--input", "t1=in1.npy"]);
            }
            let (code, _, said) = run(&folder, &arguments);
            assert_eq!(code, Some(0), "{name}: {said}");
            let found = npz::read(folder.path().join("outputs.npz")).expect("outputs");
            assert_eq!(found.len(), wanted.len(), "{name}");
            assert_eq!(found[0].1.bytes(), wanted[0].bytes(), "{name} for {target}");
        }
    }
}

#[test]
fn each_command_takes_a_file() {
    if runnable_targets().is_empty() {
        println!("skipped: this machine does not run what is compiled");
        return;
    }
    let folder = Folder::new();
    unpacked(&folder, "CONV_2D_i8_i32_1");
    for arguments in [
        &["verify", "model", "--random"][..],
        &["explain", "model", "--random"],
        &["dump", "model", "--stage", "kernels"],
        &["bench", "model", "--random", "--seconds", "0.01"],
        &["compile", "model", "--emit", "c", "--output", "c"],
        &["explore", "model", "--random", "--html", "page.html"],
    ] {
        let (code, _, said) = run(&folder, arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {said}");
    }
    let (code, told, said) = run(&folder, &["info", "model"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(told.contains("input t0: i8[1, 9, 7, 5]") && told.contains("1 CONV_2D"), "{told}");
}

#[test]
fn what_takes_onnx_alone_says_so() {
    let folder = Folder::new();
    let (path, _) = unpacked(&folder, "SOFTMAX_i8_1");
    for arguments in [
        &["diff", "model", "--evaluator", "--random"][..],
        &["compare", "model", "--random"],
        &["quantise", "model", "--weights", "int8", "--output", "never-written.onnx"],
    ] {
        let (code, _, said) = run(&folder, arguments);
        assert_eq!(code, Some(1), "{arguments:?}: {said}");
        assert!(said.contains("error[TW0101]") && said.contains("TensorFlow Lite"), "{said}");
    }
    assert!(!folder.path().join("never-written.onnx").exists());
    let bytes = std::fs::read(&path).expect("the model");
    std::fs::write(folder.path().join("cut"), &bytes[..bytes.len() / 2]).expect("half a model");
    let (code, _, said) = run(&folder, &["run", "cut", "--random"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("error[TW0119]") && Path::new(RECORDED).exists(), "{said}");
}
