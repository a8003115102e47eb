//! A real model as C: `compile --emit c` writes sources that a C compiler takes without a warning,
//! that need nothing, and that compute what the machine code computes.

#[path = "../../tilewright/tests/common/mod.rs"]
mod common;
mod support;

use std::path::Path;
use std::process::Command;

use base::text::Parser;
use common::DECODER;
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

/// A convolution of bytes, one of each channel by itself, a sum of both.
fn model_of_bytes() -> String {
    let numbers = |count: usize, step: usize| {
        let number = |at: usize| ((at * step + 11) % 255) as i64 - 127;
        let numbers: Vec<String> = (0..count).map(|at| number(at).to_string()).collect();
        numbers.join(", ")
    };
    let floats = |count: usize| {
        let numbers: Vec<String> = (0..count).map(|at| format!("{}.5", at as i64 - 7)).collect();
        numbers.join(", ")
    };
    format!(
        "input x: i8[1, 3, 9, 7]
        constant s: f32[] {{0.0625}} constant z: i8[] {{-5}}
        constant w: i8[16, 3, 3, 3] {{{}}} constant t: f32[] {{0.0078125}} constant n: i8[] {{0}}
        constant v: i8[16, 1, 3, 3] {{{}}} constant p: i8[24, 16, 1, 1] {{{}}}
        constant b: f32[16] {{{}}} constant c: f32[24] {{{}}}
        constant r: f32[] {{0.11}} constant m: i8[] {{-128}}
        a = DequantizeLinear(x, s, z) wf = DequantizeLinear(w, t, n)
        d = Conv(a, wf, b) {{pads = [1, 1, 1, 1]}} e = Relu(d)
        q = QuantizeLinear(e, r, m) f = DequantizeLinear(q, r, m)
        vf = DequantizeLinear(v, t, n)
        g = Conv(f, vf, b) {{pads = [1, 1, 1, 1], group = 16}} h = Relu(g)
        qh = QuantizeLinear(h, r, m) fh = DequantizeLinear(qh, r, m)
        pf = DequantizeLinear(p, t, n)
        k = Conv(fh, pf, c) y = QuantizeLinear(k, r, z)
        output y: i8[1, 24, 9, 7]",
        numbers(432, 7),
        numbers(144, 13),
        numbers(384, 29),
        floats(16),
        floats(24),
    )
}

#[test]
fn sources_for_small_cores_hold_their_constants_and_compute_the_same_bytes() {
    if !has_c_compiler() {
        return;
    }
    let folder = Folder::new();
    let model = onnx_text::parse_model(&mut Parser::new(&model_of_bytes())).expect("a model");
    let path = folder.file("bytes.onnx");
    std::fs::write(&path, model.encode_to_vec()).expect("writes");
    let image = tensor::random::random(DType::I8, &[1, 3, 9, 7], 5);
    tensor::npy::write(Path::new(&folder.file("image.npy")), &image).expect("writes");
    let input = format!("x={}", folder.file("image.npy"));
    succeed(&["run", &path, "--input", &input, "--output-dir", &folder.file("jit")]);
    let read = |name: &str| tensor::npy::read(Path::new(&folder.file(name))).expect("reads");
    let expected = read("jit/y.npy");
    for (target, instruction) in
        [("cortex-m4", "smlad"), ("cortex-m7", "smlad"), ("cortex-m55", "vmladavaq_s8")]
    {
        let own = Path::new(&folder.file(target)).to_path_buf();
        let out = own.display().to_string();
        let printed =
            succeed(&["compile", &path, "--emit", "c", "--target", target, "-o", &out, "--report"]);
        assert!(printed.contains("  arena\n"), "{target}: {printed}");
        assert!(!own.join("weights.bin").exists(), "{target}");
        let code = std::fs::read_to_string(own.join("model.c")).expect("reads");
        assert!(code.contains(instruction), "{target}");
        // Cores without a fused multiply-add have one in software, above the kernels.
        let kernels = code.find("static void kernel_").expect("kernels");
        assert!(!code[kernels..].contains("double"), "{target}");
        build_c_program(&own, &[]);
        run_c_program(&own, std::slice::from_ref(&image));
        let actual = read(&format!("{target}/y.npy"));
        assert_eq!(actual.bytes(), expected.bytes(), "{target}");
    }
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_written() {
    let folder = Folder::new();
    let out = folder.file("none");
    let base = ["compile", DIGITS, "--emit", "c", "--dim", "batch=1", "-o", &out];
    for (limits, reason) in [("ram=2k", "bytes of RAM"), ("flash=1k", "bytes of flash")] {
        let options = ["--target", "cortex-m7", "--memory", limits];
        let output = support::tilewright(folder.path(), &[&base[..], &options].concat());
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{limits}");
        assert!(text.contains("TW0409") && text.contains(reason), "{text}");
        assert!(!Path::new(&out).exists());
    }
}

/// The size in front of a row of a report.
fn reported(report: &str, row: &str) -> u64 {
    let line = report.lines().find(|line| line.trim_start().ends_with(row));
    let size = line.and_then(|line| line.split_whitespace().next());
    size.and_then(|size| size.parse().ok()).unwrap_or_else(|| panic!("{row}: {report}"))
}

#[test]
fn less_code_is_found_where_less_flash_is_there() {
    if !has_c_compiler() {
        return;
    }
    let folder = Folder::new();
    let model = onnx_text::parse_model(&mut Parser::new(&model_of_bytes())).expect("a model");
    let path = folder.file("bytes.onnx");
    std::fs::write(&path, model.encode_to_vec()).expect("writes");
    let image = tensor::random::random(DType::I8, &[1, 3, 9, 7], 5);
    for target in ["cortex-m7", "cortex-m55"] {
        let read = |name: &str| tensor::npy::read(Path::new(&folder.file(name))).expect("reads");
        let compile = |out: &str, memory: &[&str]| {
            let out = folder.file(out);
            let options =
                ["compile", &path, "--emit", "c", "--target", target, "-o", &out, "--report"];
            let printed = succeed(&[&options[..], memory].concat());
            build_c_program(Path::new(&out), &[]);
            run_c_program(Path::new(&out), std::slice::from_ref(&image));
            printed
        };
        let usual = compile("usual", &[]);
        let flash = reported(&usual, "flash, of which");
        assert!(!usual.contains("written out only"), "{usual}");
        let limit = format!("flash={},ram=64k", flash - 1);
        let short = compile("short", &["--memory", &limit]);
        assert!(reported(&short, "flash, of which") < flash, "{short}");
        assert!(short.contains("loops are written out only where registers need it"), "{short}");
        assert_eq!(read("short/y.npy").bytes(), read("usual/y.npy").bytes());
    }
}

#[test]
fn kernels_run_in_the_order_that_takes_least_memory() {
    // Of two branches the model has both large values in front of both small ones.
    let numbers = |count: usize, step: usize| {
        let number = |at: usize| format!("{}.25", (at * step + 3) % 61);
        (0..count).map(number).collect::<Vec<_>>().join(", ")
    };
    let text = format!(
        "input x: f32[1, 6]
        constant w: f32[6, 512] {{{}}} constant v: f32[6, 512] {{{}}}
        constant a: f32[512, 4] {{{}}} constant b: f32[512, 4] {{{}}}
        p = MatMul(x, w) q = MatMul(x, v) r = MatMul(p, a) s = MatMul(q, b)
        y = Add(r, s) output y: f32[1, 4]",
        numbers(6 * 512, 7),
        numbers(6 * 512, 13),
        numbers(512 * 4, 17),
        numbers(512 * 4, 29)
    );
    let folder = Folder::new();
    let model = onnx_text::parse_model(&mut Parser::new(&text)).expect("a model");
    let path = folder.file("branches.onnx");
    std::fs::write(&path, model.encode_to_vec()).expect("writes");
    let out = folder.file("branches");
    let options = ["compile", &path, "--emit", "c", "--target", "cortex-m7", "-o", &out];
    // One large value at a time.
    let printed = succeed(&[&options[..], &["--memory", "ram=3k", "--report"]].concat());
    assert!(printed.contains("kernels in another order"), "{printed}");
    let all = [&options[..], &["--memory", "ram=2k"]].concat();
    let output = support::tilewright(folder.path(), &all);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("bytes of the arena in any plan"), "{said}");
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

/// Compiles a model to C once and runs it on several inputs: its outputs are those of `run`.
fn agrees_for_all(model: &str, names: [&[&str]; 2], runs: &[Vec<Tensor>]) {
    if !has_c_compiler() {
        return;
    }
    let folder = Folder::new();
    succeed(&["compile", model, "--emit", "c", "-o", &folder.file("")]);
    build_c_program(folder.path(), &[]);
    let [inputs, outputs] = names;
    for (number, tensors) in runs.iter().enumerate() {
        run_c_program(folder.path(), tensors);
        let given: Vec<String> = (0..inputs.len())
            .map(|at| format!("{}={}", inputs[at], folder.file(&format!("input{at}.npy"))))
            .collect();
        let into = folder.file("jit");
        let mut run = vec!["run", model, "--output-dir", &into];
        given.iter().for_each(|input| run.extend(["--input", input]));
        succeed(&run);
        for name in outputs {
            let read =
                |path: &str| tensor::npy::read(Path::new(&folder.file(path))).expect("reads");
            let actual = read(&format!("{name}.npy"));
            let expected = read(&format!("jit/{name}.npy"));
            assert_eq!(actual.shape(), expected.shape(), "run {number}: {name}");
            let error = tensor::compare(&actual, &expected, 0.0, 0.0).relative_l2;
            assert!(error <= TOLERANCE, "run {number}: {name}: {error:e}");
        }
    }
}

#[test]
fn a_free_dimension_is_an_argument() {
    let image = |count| vec![tensor::random::random(DType::F32, &[count, 1, 8, 8], 3)];
    agrees_for_all(DIGITS, [&["image"], &["logits"]], &[image(1), image(7)]);
}

/// Writes a model that a text describes.
fn write_model(folder: &Folder, text: &str) -> String {
    let model = onnx_text::parse_model(&mut Parser::new(text)).expect("a model");
    std::fs::write(folder.path().join("model.onnx"), model.encode_to_vec()).expect("is written");
    folder.file("model.onnx")
}

#[test]
fn loops_grow_what_they_carry_and_stack_until_data_say_stop() {
    let folder = Folder::new();
    let model = write_model(&folder, DECODER);
    let given = |prompt: &[i64], last: i64| {
        vec![Tensor::from_slice(&[prompt.len()], prompt), Tensor::from_slice(&[], &[last])]
    };
    let runs = [given(&[0], 3), given(&[1, 2, 3], 3), given(&[2], 7), given(&[3, 0], 0)];
    agrees_for_all(&model, [&["prompt", "last"], &["doubled", "scores"]], &runs);
}

#[test]
fn sizes_from_data_reach_branches_and_sorted_rows() {
    let text = "
        input x: f32[n]
        constant zero: f32[] {0.0}
        constant axes: i64[1] {0}
        constant least: i64[] {3}
        positive = Greater(x, zero)
        kept = Compress(x, positive) {axis = 0}
        size = Size(kept)
        many = Greater(size, least)
        y = If(many) {then_branch = {
            twice = Concat(kept, kept) {axis = 0}
            output twice: f32[a]
        }, else_branch = {
            same = Neg(kept)
            output same: f32[b]
        }}
        ksize = Reshape(size, axes_one)
        constant axes_one: i64[1] {1}
        values, places = TopK(kept, ksize) {axis = 0}
        total = ReduceSum(kept, axes) {keepdims = 0}
        output y: f32[m]
        output values: f32[k]
        output places: i64[k]
        output total: f32[]";
    let folder = Folder::new();
    let model = write_model(&folder, text);
    let given = |x: &[f32]| vec![Tensor::from_slice(&[x.len()], x)];
    let runs = [
        given(&[1.0, -2.0, 3.0]),
        given(&[5.0, 1.0, -1.0, 4.0, 2.0, 3.0, 9.0, -7.0, 8.0]),
        given(&[-1.0, -2.0]),
    ];
    agrees_for_all(&model, [&["x"], &["y", "values", "places", "total"]], &runs);
}

#[test]
fn loops_and_branches_carry_lists() {
    let text = "
        input x: f32[n]
        input place: i64[]
        constant most: i64[] {4}
        constant first: i64[1] {0}
        constant one: i64[] {1}
        constant two: i64[] {2}
        holds = Constant() {value = bool[] {true}}
        none = SequenceEmpty()
        all, rest = Loop(most, holds, none, x) {body = {
            input turn: i64[] input goeson: bool[]
            input before: sequence f32[k] input now: f32[l]
            end = Reshape(turn, first_axis)
            constant first_axis: i64[1] {1}
            piece = Slice(now, first, end)
            half = Div(turn, two)
            after = SequenceInsert(before, piece, half)
            longer = Concat(now, piece) {axis = 0}
            output goeson: bool[] output after: sequence f32[k] output longer: f32[m]
        }}
        found = SequenceAt(all, place)
        joined = ConcatFromSequence(all) {axis = 0}
        count = SequenceLength(all)
        isfirst = Less(place, one)
        chosen = If(isfirst) {then_branch = {
            grown = SequenceInsert(all, x)
            output grown: sequence f32[k]
        }, else_branch = {
            less = SequenceErase(all, place)
            output less: sequence f32[k]
        }}
        left = SequenceLength(chosen)
        output all: sequence f32[k]
        output chosen: sequence f32[k]
        output rest: f32[r]
        output found: f32[f]
        output joined: f32[j]
        output count: i64[]
        output left: i64[]";
    let folder = Folder::new();
    let model = write_model(&folder, text);
    let given = |x: &[f32], place: i64| {
        vec![Tensor::from_slice(&[x.len()], x), Tensor::from_slice(&[], &[place])]
    };
    let runs = [given(&[1.0, -2.0, 3.0], 0), given(&[5.0], 2), given(&[4.0, 7.0], -1)];
    let tensors = ["all_0_", "all_1_", "all_2_", "all_3_", "chosen_0_", "chosen_1_", "chosen_2_"];
    let tensors = [&tensors[..], &["rest", "found", "joined", "count", "left"]].concat();
    agrees_for_all(&model, [&["x", "place"], &tensors], &runs);
}

#[test]
fn lists_are_inputs() {
    if !has_c_compiler() {
        return;
    }
    let text = "input all: sequence f32[n, 2] input place: i64[]
        taken = SequenceAt(all, place)
        twice = Add(taken, taken)
        longer = SequenceInsert(all, twice, place)
        joined = ConcatFromSequence(longer) {axis = 0}
        count = SequenceLength(all)
        output longer: sequence f32[k, 2] output joined: f32[j, 2] output count: i64[]";
    let folder = Folder::new();
    let model = write_model(&folder, text);
    succeed(&["compile", &model, "--emit", "c", "-o", &folder.file("")]);
    let header = std::fs::read_to_string(folder.path().join("model.h")).expect("reads");
    assert!(header.contains("in[0]: sequence of f32 all\n"), "{header}");
    build_c_program(folder.path(), &[]);
    let tensors = [vec![1.0f32, 2.0], vec![3.0, 4.0, 5.0, 6.0]];
    for (number, elements) in tensors.into_iter().enumerate() {
        let tensor = Tensor::from_vec(&[elements.len() / 2, 2], elements);
        let path = folder.path().join(format!("x{number}.npy"));
        tensor::npy::write(path, &tensor).expect("is written");
    }
    let place = Tensor::from_slice(&[], &[-1_i64]);
    tensor::npy::write(folder.path().join("place.npy"), &place).expect("is written");
    let run = |list: &str| {
        let mut command = Command::new(folder.path().join("main"));
        command.args(["weights.bin", list, "place.npy", "-o", "."]);
        let output = command.current_dir(folder.path()).output().expect("it starts");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let expected = "longer[0] f32[1, 2]: 1 2\nlonger[1] f32[2, 2]: 6 8 10 12\n\
        longer[2] f32[2, 2]: 3 4 5 6\njoined f32[5, 2]: 1 2 6 8 10 12 3 4 ...\ncount i64[]: 2\n";
    assert_eq!(run("[x0.npy,x1.npy]"), expected);
    let written = tensor::npy::read(Path::new(&folder.file("longer_1_.npy"))).expect("reads");
    assert_eq!(written, Tensor::from_vec(&[2, 2], vec![6.0f32, 8.0, 10.0, 12.0]));
    assert_eq!(run("[]"), "error: the model stopped with fault 1, see model.h\n");
    assert!(run("[place.npy]").starts_with("error: place.npy: wrong type of elements"));
    assert_eq!(run("x0.npy"), "error: x0.npy: is no list, [FILE,...]\n");
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
