//! `compare` runs another engine beside this one: a program that stands in for it, and the real
//! one where it is installed.

mod support;

use std::path::Path;
use std::process::{Command, Output};

use base::text::Parser;
use prost::Message;
use support::{DIGITS, Folder, runnable_targets, tilewright};
use tensor::{Tensor, npy};

const FAKE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/fake_peer.sh");

/// Two nodes, and a value that is no output.
const MODEL: &str = "input x: f32[4]\nh = Relu(x)\ny = Neg(h)\noutput y: f32[4]";

/// A folder with a model, `x.npy` and the values that it has then: `h.npy` and `y.npy`.
fn folder_of(model: &str) -> Folder {
    let folder = Folder::new();
    let model = testkit::onnx_text::parse_model(&mut Parser::new(model)).expect("a model");
    std::fs::write(folder.path().join("model.onnx"), model.encode_to_vec()).expect("written");
    put(&folder, "x", [1.0, -2.0, 3.0, 0.5]);
    put(&folder, "h", [1.0, 0.0, 3.0, 0.5]);
    put(&folder, "y", [-1.0, 0.0, -3.0, -0.5]);
    folder
}

fn put(folder: &Folder, name: &str, values: [f32; 4]) {
    let path = folder.path().join(format!("{name}.npy"));
    npy::write(path, &Tensor::from_slice(&[4], &values)).expect("written");
}

/// Compares the model of a folder with what a stand-in does.
fn compare(folder: &Folder, peer: &str, others: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tilewright"))
        .args(["compare", "model.onnx", "--input", "x=x.npy", "--python", FAKE])
        .args(others)
        .env("FAKE_PEER", peer)
        .current_dir(folder.path())
        .output()
        .expect("the binary starts")
}

/// Status, standard output and standard error.
fn said(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn equal_outputs() {
    if runnable_targets().is_empty() {
        return;
    }
    let peer = "cmp x.npy $2/input_0.npy && cp y.npy $2/output_0.npy && echo 9.9 > $2/version";
    let output = compare(&folder_of(MODEL), peer, &[]);
    let expected = "output y: f32[4]: largest difference 0.0e0 absolute, 0.0e0 relative: equal\n\
                    1 output compared with onnxruntime 9.9: no difference\n";
    assert_eq!(said(&output), (Some(0), expected.to_owned(), String::new()));
}

#[test]
fn what_differs_is_judged_by_the_model_in_f64() {
    if runnable_targets().is_empty() {
        return;
    }
    let folder = folder_of(MODEL);
    put(&folder, "wrong", [-1.0, 0.0, -3.5, -0.5]);
    let (status, text, _) = said(&compare(&folder, "cp wrong.npy $2/output_0.npy", &[]));
    assert_eq!(status, Some(3));
    assert!(text.contains("onnxruntime is off, not this, as far as both mean the same"), "{text}");
    assert!(text.contains("first at [2]: -3.0 here, -3.5 there"), "{text}");
    assert!(text.ends_with("1 output compared with onnxruntime: 1 differs\n"), "{text}");
    // Right without its optimisation.
    let peer = "case $4 in plain) cp y.npy $2/output_0.npy;; *) cp wrong.npy $2/output_0.npy; esac";
    let (status, text, _) = said(&compare(&folder, peer, &[]));
    assert_eq!(status, Some(3));
    assert!(text.contains("not this; without its optimisation it agrees with this"), "{text}");
    // Another type.
    npy::write(folder.path().join("wrong.npy"), &Tensor::from_slice(&[1], &[1_i64])).expect("file");
    let (status, text, _) = said(&compare(&folder, "cp wrong.npy $2/output_0.npy", &[]));
    assert!(status == Some(3) && text.contains("it is f32[4] here, i64[1] there"), "{text}");
}

#[test]
fn roundings_that_the_model_explains_are_no_difference() {
    if runnable_targets().is_empty() {
        return;
    }
    let folder = folder_of(MODEL);
    put(&folder, "near", [-1.0, 0.0, -3.0, -0.500_01]);
    let (status, text, _) = said(&compare(&folder, "cp near.npy $2/output_0.npy", &["--json"]));
    assert!(status == Some(0) && text.contains("\"verdict\":\"rounded\""), "{text}");
}

#[test]
fn the_first_node_that_differs_is_named() {
    if runnable_targets().is_empty() {
        return;
    }
    let folder = folder_of(MODEL);
    let peer = "cp h.npy $2/output_0.npy; cp y.npy $2/output_1.npy; [ $4 = plain ]";
    let (status, text, error) = said(&compare(&folder, peer, &["--nodes"]));
    assert_eq!(text, "2 values of nodes compared with onnxruntime: no difference\n", "{error}");
    assert_eq!(status, Some(0));
    put(&folder, "h", [1.0, 0.0, 4.0, 0.5]);
    put(&folder, "y", [-1.0, 0.0, -4.0, -0.5]);
    let (status, text, _) = said(&compare(&folder, peer, &["--nodes"]));
    assert!(status == Some(3) && text.starts_with("node 0 (Relu): value `h`"), "{text}");
    assert!(text.ends_with("2 differ, first `h` of node 0 (Relu)\n"), "{text}");
}

#[test]
fn peers_that_fail() {
    if runnable_targets().is_empty() {
        return;
    }
    let folder = folder_of(MODEL);
    let error = |peer: &str, others: &[&str]| {
        let (status, text, error) = said(&compare(&folder, peer, others));
        assert!(status == Some(1) && text.is_empty(), "{text}{error}");
        error
    };
    let refused = error("echo 'no kernel for Relu' >&2; exit 1", &[]);
    assert!(refused.contains("TW0407") && refused.contains("no kernel for Relu"), "{refused}");
    let missing = error("echo \"No module named 'onnxruntime'\" >&2; exit 69", &[]);
    assert!(missing.contains("TW0406") && missing.contains("No module named"), "{missing}");
    assert!(missing.contains("-m pip install onnxruntime"), "{missing}");
    assert!(error("kill -9 $$", &[]).contains("signal"));
    assert!(error("exit 0", &[]).contains("there is no output 0"));
    assert!(error("echo no array > $2/output_0.npy", &[]).contains("output_0.npy"));
    let hung = error("exec sleep 60", &["--time-limit", "1"]);
    assert!(hung.contains("TW0407") && hung.contains("after 1 s"), "{hung}");
    // It is slow but once, so that the remedy can be followed on any machine.
    let slow = "test -e seen || { touch seen; exec sleep 60; }; cp y.npy $2/output_0.npy";
    assert!(error(slow, &["--time-limit", "1"]).contains("use `--time-limit 2`"));
    let cured = compare(&folder, slow, &["--time-limit", "600"]);
    assert_eq!(cured.status.code(), Some(0), "{}", said(&cured).2);
    assert!(missing.contains("`--python FILE`"), "{missing}");
    let arguments =
        ["compare", "model.onnx", "--input", "x=x.npy", "--python", "./no-such-program"];
    let (status, _, error) = said(&tilewright(folder.path(), &arguments));
    assert!(status == Some(1) && error.contains("TW0406"), "{error}");
}

#[test]
fn strings_sequences_and_maps() {
    if runnable_targets().is_empty() {
        return;
    }
    let strings = "input x: f32[4]\ni = Cast(x) {to = 7}\n\
        y = \"ai.onnx.ml\" LabelEncoder(i) {keys_int64s = [1, 3], values_strings = [\"a\", \"b\"], \
        default_string = \"none\"}\noutput y: string[4]\nopset 18 opset \"ai.onnx.ml\" 4";
    let folder = folder_of(strings);
    let put = |texts: [&str; 4]| {
        let texts = Tensor::from_strings(&[4], texts.map(str::to_owned).to_vec());
        npy::write(folder.path().join("y.npy"), &texts).expect("written");
    };
    put(["a", "none", "b", "none"]);
    let (status, text, error) = said(&compare(&folder, "cp y.npy $2/output_0.npy", &[]));
    assert_eq!(status, Some(0), "{text}{error}");
    put(["a", "none", "a", "none"]);
    let (status, text, _) = said(&compare(&folder, "cp y.npy $2/output_0.npy", &[]));
    assert!(status == Some(3) && text.contains("\"b\" here, \"a\" there"), "{text}");

    let folder =
        folder_of("input x: f32[4]\ny = SequenceConstruct(x, x)\noutput y: sequence f32[4]");
    let peer = "mkdir $2/output_0.list; cp x.npy $2/output_0.list/0.npy; \
                cp x.npy $2/output_0.list/1.npy";
    let (status, text, error) = said(&compare(&folder, peer, &[]));
    assert_eq!(status, Some(0), "{text}{error}");
    assert!(text.contains("output y[1]: f32[4]"), "{text}");
    let (status, text, _) = said(&compare(&folder, "mkdir $2/output_0.list", &[]));
    assert!(status == Some(3) && text.contains("instead of"), "{text}");
}

/// The Python that has onnxruntime; none, said aloud, if there is none.
fn python() -> Option<String> {
    let python = std::env::var("TILEWRIGHT_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let found = Command::new(&python).args(["-c", "import onnxruntime"]).output();
    if found.is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    eprintln!("skipped: `{python}` has no package onnxruntime");
    None
}

#[test]
fn the_classifier_of_digits_with_onnxruntime() {
    if runnable_targets().is_empty() {
        return;
    }
    let Some(python) = python() else { return };
    for others in [&[][..], &["--nodes"]] {
        let arguments =
            [&["compare", DIGITS, "--dim", "batch=2", "--python", &python][..], others].concat();
        let (status, text, error) = said(&tilewright(Path::new("."), &arguments));
        assert!(status == Some(0) && text.ends_with(": no difference\n"), "{text}{error}");
    }
}

#[test]
fn lists_and_short_floats_with_onnxruntime() {
    if runnable_targets().is_empty() {
        return;
    }
    let Some(python) = python() else { return };
    let model = "input x: f32[4]\nb = Cast(x) {to = 16}\nf = Cast(x) {to = 17}\n\
        s = SequenceConstruct(x, x)\nm = Reshape(x, shape)\n\
        z = \"ai.onnx.ml\" ZipMap(m) {classlabels_strings = [\"no\", \"ja\"]}\n\
        constant shape: i64[2] {2, 2}\noutput b: bf16[4] output f: f8e4m3fn[4]\n\
        output s: sequence f32[4] output z: sequence map string f32[]\n\
        ir 9 opset 19 opset \"ai.onnx.ml\" 4";
    let folder = folder_of(model);
    let arguments = ["compare", "model.onnx", "--input", "x=x.npy", "--python", &python];
    let (status, text, error) = said(&tilewright(folder.path(), &arguments));
    assert_eq!(status, Some(0), "{text}{error}");
    assert!(text.contains("output b: bf16[4]") && text.contains("output s[1]"), "{text}");
}
