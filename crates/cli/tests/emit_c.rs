//! A real model as C: `compile --emit c` writes sources that a C compiler takes without a warning,
//! that need nothing, and that compute what the machine code computes.

mod support;

use std::path::Path;
use std::process::Command;

use base::text::Parser;
use prost::Message;
use support::{DIGITS, Folder, succeed};
use tensor::{DType, Tensor};
use testkit::{build_c_program, has_c_compiler, onnx_text, run_c_program};

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

#[test]
fn given_inputs_fix_shapes_and_the_values_that_decide_shapes() {
    if !has_c_compiler() {
        return;
    }
    let text = "input x: f32[n] input repeats: i64[1] input bias: f32[1]
        tiled = Tile(x, repeats) y = Add(tiled, bias) output y: f32[m]";
    let model = onnx_text::parse_model(&mut Parser::new(text)).expect("a model");
    let folder = Folder::new();
    std::fs::write(folder.path().join("tile.onnx"), model.encode_to_vec()).expect("is written");
    let [x, bias] = [vec![1.0f32, 2.0], vec![0.5]].map(|it| Tensor::from_vec(&[it.len()], it));
    let repeats = |count: i64| Tensor::from_vec(&[1], vec![count]);
    let write = |name: &str, tensor: &Tensor| {
        tensor::npy::write(folder.path().join(name), tensor).expect("is written");
    };
    write("x.npy", &x);
    write("repeats.npy", &repeats(2));
    let (input_x, input_repeats) =
        (format!("x={}", folder.file("x.npy")), format!("repeats={}", folder.file("repeats.npy")));
    let model = folder.file("tile.onnx");
    let inputs = ["--input", &input_x, "--input", &input_repeats];
    let compile = ["compile", &model, "--emit", "c", "-o", &folder.file("")];
    succeed(&[&compile[..], &inputs].concat());
    let header = std::fs::read_to_string(folder.path().join("model.h")).expect("reads");
    assert!(header.contains("in[1]: i64[1] repeats, only with the value { 2 }\n"), "{header}");
    build_c_program(folder.path(), &[]);
    run_c_program(folder.path(), &[x, repeats(2), bias]);
    let y = tensor::npy::read(Path::new(&folder.file("y.npy"))).expect("reads");
    assert_eq!(y, Tensor::from_vec(&[4], vec![1.5f32, 2.5, 1.5, 2.5]));
    write("input1.npy", &repeats(3));
    let mut command = Command::new(folder.path().join("main"));
    command.args(["weights.bin", "input0.npy", "input1.npy", "input2.npy"]);
    let output = command.current_dir(folder.path()).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said, "error: the model stopped with fault 4, see model.h\n");
}

#[test]
fn the_header_lists_the_strings_of_labels() {
    let text = r#"opset "ai.onnx.ml" 4 input x: i64[2] output y: string[2]
        y = "ai.onnx.ml" LabelEncoder(x)
          {keys_int64s = [1], values_strings = ["one"], default_string = "many"}"#;
    let model = onnx_text::parse_model(&mut Parser::new(text)).expect("a model");
    let folder = Folder::new();
    std::fs::write(folder.path().join("labels.onnx"), model.encode_to_vec()).expect("is written");
    succeed(&["compile", &folder.file("labels.onnx"), "--emit", "c", "-o", &folder.file("")]);
    let header = std::fs::read_to_string(folder.path().join("model.h")).expect("reads");
    assert!(header.contains("y, numbers in { \"one\", \"many\" }\n"), "{header}");
}

#[test]
fn cases_as_c_take_a_c_compiler() {
    let folder = Folder::new();
    let set = folder.path().join("case/test_data_set_0");
    std::fs::create_dir_all(set).expect("is made");
    std::fs::copy(DIGITS, folder.path().join("case/model.onnx")).expect("is copied");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tilewright"));
    command.args(["conformance", &folder.file(""), "--target", "c99"]);
    let output = command.env("CC", "no-such-compiler").output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("error[TW0404]") && said.contains("`no-such-compiler`"), "{said}");
    assert_eq!(output.status.code(), Some(1));
}
