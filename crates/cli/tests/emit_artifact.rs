//! A real model as an object, a static and a shared library: they link without a warning, need
//! nothing, and compute bit by bit what code in process does, from C and from Python; other weights
//! need no other code; what contradicts itself or cannot be written leaves nothing behind.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use artifact::Digest;
use base::text::Parser;
use import_onnx::proto::ModelProto;
use prost::Message;
use support::{DIGITS, Folder, runnable_targets, succeed, tilewright};
use tensor::{DType, Tensor};
use testkit::{has_c_compiler, onnx_text};

/// A program that sets a model up, runs it in memory that macros declare, and runs it again, typed.
const MAIN: &str = r#"
#include "digits.h"
#include <stdio.h>
#include <string.h>

static char weights[DIGITS_WEIGHTS_BYTES + 1];
static char constants[DIGITS_CONSTANTS_BYTES];
static char arena[DIGITS_ARENA_BYTES + DIGITS_SETUP_ARENA_BYTES + DIGITS_ALIGNMENT];
static float image[DIGITS_INPUT0_BYTES / 4], logits[DIGITS_OUTPUT0_BYTES / 4], again[50];

static int read_file(const char *path, void *to, size_t bytes)
{
  FILE *file = fopen(path, "rb");
  size_t count = file == NULL ? 0 : fread(to, 1, bytes, file);
  if (file != NULL) fclose(file);
  return count == bytes;
}

int main(void)
{
  const int extents[] = DIGITS_INPUT0_SHAPE;
  const void *inputs[] = { image };
  void *outputs[] = { logits };
  digits_arguments arguments = { 0 };
  FILE *file;
  int32_t status;
  if (extents[0] != 5 || DIGITS_INPUT0_RANK != 4) return 2;
  if (!read_file("weights.bin", weights, DIGITS_WEIGHTS_BYTES)) return 3;
  if (!read_file("image", image, sizeof image)) return 4;
  arguments.weights = weights;
  arguments.constants = constants;
  arguments.arena = arena;
  arguments.arena_bytes = 1;
  arguments.inputs = inputs;
  arguments.outputs = outputs;
  status = digits_setup(&arguments);
  if (strcmp(digits_status_text(status), "there is too little memory") != 0) return 5;
  arguments.arena_bytes = sizeof arena;
  status = digits_setup(&arguments);
  if (status == 0) status = digits_run(&arguments);
  if (status == 0)
    status = digits_infer(weights, constants, arena + 64 - (size_t)arena % 64, image, again);
  if (status != 0) {
    puts(digits_status_text(status));
    return 1;
  }
  if (memcmp(again, logits, sizeof logits) != 0) return 6;
  file = fopen("logits", "wb");
  if (file == NULL || fwrite(logits, 1, sizeof logits, file) != sizeof logits) return 7;
  fclose(file);
  return 0;
}
"#;

fn runs_here() -> bool {
    let runs = std::arch::is_x86_feature_detected!("avx2") && cfg!(target_os = "linux");
    if !runs {
        eprintln!("skipped: this machine cannot run the code");
    }
    runs
}

fn has_python() -> bool {
    let found = Command::new("python3").arg("--version").output();
    let found = found.is_ok_and(|out| out.status.success());
    if !found {
        eprintln!("skipped: there is no `python3`");
    }
    found
}

/// What a run in process gives for the images of a seed, as bytes; the images go to files.
fn expected(folder: &Folder, model: &str, batch: usize, seed: u64) -> Vec<u8> {
    let image = tensor::random::random(DType::F32, &[batch, 1, 8, 8], seed);
    std::fs::write(folder.path().join("image"), image.bytes()).expect("written");
    let path = folder.file("image.npy");
    tensor::npy::write(Path::new(&path), &image).expect("written");
    let input = format!("image={path}");
    let outputs = folder.file("jit");
    let run = ["run", model, "--target", "x86-64-v3", "--input", &input, "--output-dir", &outputs];
    succeed(&run);
    let logits = tensor::npy::read(Path::new(&folder.file("jit/logits.npy"))).expect("reads");
    logits.bytes().to_vec()
}

fn done(command: &mut Command) {
    let output = command.output().expect("a program that runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}{errors}", output.status);
}

/// That a file has no undefined symbols, if the system can tell.
fn needs_nothing(folder: &Folder, file: &str) {
    if let Ok(symbols) = Command::new("nm").arg("-u").arg(folder.file(file)).output() {
        let said = String::from_utf8_lossy(&symbols.stdout).into_owned();
        let undefined: Vec<&str> =
            said.lines().filter(|line| !line.is_empty() && !line.ends_with(".o:")).collect();
        assert!(undefined.is_empty(), "{file}: {undefined:?}");
    }
}

#[test]
fn c_programs_link_with_every_form() {
    if !runs_here() || !has_c_compiler() {
        return;
    }
    let forms: [(&str, &str, &[&str]); 3] = [
        ("object", "digits.o", &["digits.o"]),
        ("static", "libdigits.a", &["-L.", "-ldigits"]),
        ("shared", "libdigits.so", &["-L.", "-ldigits", "-Wl,-rpath,."]),
    ];
    for (form, file, link) in forms {
        let folder = Folder::new();
        let compile = ["compile", DIGITS, "--emit", form, "--dim", "batch=5", "-o"];
        succeed(&[&compile[..], &[&folder.file("")]].concat());
        needs_nothing(&folder, file);
        std::fs::write(folder.path().join("main.c"), MAIN).expect("written");
        let mut cc = Command::new("cc");
        cc.current_dir(folder.path()).args(["-std=c99", "-O1", "-Wall", "-Wextra", "-pedantic"]);
        done(cc.args(["-Werror", "main.c", "-o", "main"]).args(link));
        for seed in [1, 2] {
            let expected = expected(&folder, DIGITS, 5, seed);
            done(Command::new(folder.path().join("main")).current_dir(folder.path()));
            let logits = std::fs::read(folder.path().join("logits")).expect("reads");
            assert_eq!(logits, expected, "{form}, seed {seed}");
        }
    }
}

/// A linker of LLVM under one of its names: on the path, or among the tools of Rust.
fn linker(name: &str) -> Option<PathBuf> {
    let works = |path: &Path| Command::new(path).arg("--version").output().is_ok();
    let rustc = Command::new("rustc").args(["--print", "sysroot"]).output().ok();
    let root = rustc.map(|said| String::from_utf8_lossy(&said.stdout).trim().to_owned());
    let hosts = root.and_then(|root| std::fs::read_dir(Path::new(&root).join("lib/rustlib")).ok());
    let of_rust = hosts.into_iter().flatten().flatten();
    let of_rust = of_rust.map(|host| host.path().join("bin/gcc-ld").join(name));
    let found = [PathBuf::from(name)].into_iter().chain(of_rust).find(|path| works(path));
    if found.is_none() {
        eprintln!("skipped: there is no `{name}`");
    }
    found
}

#[test]
fn linkers_of_other_systems_take_objects() {
    let folder = Folder::new();
    let compile = |system: &str, inside: &[&str]| {
        let base = ["compile", DIGITS, "--emit", "object", "--dim", "batch=5", "-o"];
        let output = folder.file(system);
        succeed(&[&base[..], &[&output, "--system", system], inside].concat());
    };
    compile("linux", &[]);
    compile("macos", &[]);
    compile("windows", &[]);
    compile("x86_64-apple-darwin", &["--weights", "inside"]);
    let read = |name: &str| std::fs::read_to_string(folder.file(name)).expect("reads");
    // The code is the same, and so is what is said of it.
    assert_eq!(read("linux/digits.h"), read("macos/digits.h"));
    assert_eq!(read("linux/digits.h"), read("windows/digits.h"));
    if let Some(linker) = linker("ld64.lld") {
        for object in ["macos/digits.o", "x86_64-apple-darwin/digits.o"] {
            let mut link = Command::new(&linker);
            link.args(["-arch", "x86_64", "-platform_version", "macos", "11.0", "11.0", "-dylib"]);
            link.args(["-fatal_warnings", "-o", "digits.dylib", object]);
            done(link.current_dir(folder.path()));
            let library = std::fs::read(folder.file("digits.dylib")).expect("linked");
            let is_there = |name: &[u8]| library.windows(name.len()).any(|it| it == name);
            assert!(is_there(b"_digits_run"), "{object}");
        }
    }
    if let Some(linker) = linker("lld-link") {
        let mut link = Command::new(linker);
        link.args(["/dll", "/noentry", "/wx", "/export:digits_run", "/export:digits_setup"]);
        link.args(["/out:digits.dll", "windows/digits.obj"]);
        done(link.current_dir(folder.path()));
        assert!(folder.path().join("digits.dll").exists());
    }
    let output = tilewright(
        folder.path(),
        &["compile", DIGITS, "--emit", "static", "--system", "macos", "-o", "out"],
    );
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("TW0408"), "{said}");
    assert!(!folder.path().join("out").exists(), "nothing is written");
}

/// Runs the module of Python in a folder on the file `image`; the bytes of the first output.
fn from_python(folder: &Folder, module: &str, batch: usize) -> Vec<u8> {
    let script = format!(
        "import {module}\nimage = memoryview(open('image', 'rb').read()).cast('f', \
         [{batch}, 1, 8, 8])\nmodel = {module}.Model()\n(logits,) = model.run(image)\n\
         assert logits.shape == ({batch}, 10), logits.shape\n\
         open('logits', 'wb').write(logits.tobytes())\n"
    );
    std::fs::write(folder.path().join("run.py"), script).expect("written");
    done(Command::new("python3").arg("run.py").current_dir(folder.path()));
    std::fs::read(folder.path().join("logits")).expect("reads")
}

#[test]
fn python_runs_each_kind_of_library() {
    if !runs_here() || !has_python() {
        return;
    }
    let kinds: [&[&str]; 5] = [
        &["--dim", "batch=4"],
        &["--dim", "batch=4", "--weights", "inside"],
        &["--dim", "batch=4", "--fold-setup"],
        &["--dim", "batch=4", "--fold-setup", "--weights", "inside"],
        // The batch stays free.
        &[],
    ];
    for kind in kinds {
        let folder = Folder::new();
        let compile = ["compile", DIGITS, "--emit", "shared", "-o", &folder.file("")];
        succeed(&[&compile[..], kind].concat());
        needs_nothing(&folder, "libdigits.so");
        let has_file = folder.path().join("weights.bin").exists();
        assert_eq!(has_file, !kind.contains(&"inside"), "{kind:?}");
        for batch in if kind.is_empty() { vec![1, 4, 70] } else { vec![4] } {
            let expected = expected(&folder, DIGITS, batch, 3);
            let logits = from_python(&folder, "digits", batch);
            // For any extent, sums may be taken in another order than for the one at hand.
            let is_near = |(a, b): (f32, f32)| (a - b).abs() <= 1e-4 * b.abs().max(1.0);
            let is_right = match kind.is_empty() {
                true => floats(&logits).into_iter().zip(floats(&expected)).all(is_near),
                false => logits == expected,
            };
            assert!(is_right && logits.len() == expected.len(), "{kind:?}, {batch}");
        }
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    let number = |four: &[u8]| f32::from_le_bytes([four[0], four[1], four[2], four[3]]);
    bytes.chunks_exact(4).map(number).collect()
}

/// Names and contents of the files in a folder.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).expect("the folder is there").flatten();
    let mut files: Vec<(String, Vec<u8>)> = entries
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, std::fs::read(entry.path()).expect("reads"))
        })
        .collect();
    files.sort();
    files
}

#[test]
fn the_same_model_gives_the_same_bytes() {
    for form in ["object", "static", "shared"] {
        let mut found = Vec::new();
        for (threads, inner) in [("1", "a"), ("3", "elsewhere/b")] {
            let folder = Folder::new();
            let inner = folder.file(inner);
            let compile = ["compile", DIGITS, "--emit", form, "--threads", threads, "-o", &inner];
            succeed(&compile);
            found.push(files(Path::new(&inner)));
        }
        assert_eq!(found[0].len(), 4, "{form}");
        assert!(found[0] == found[1], "{form}: the bytes differ");
    }
}

/// What is written of the repository's small models for named targets, by digests: on whichever
/// machine this test runs, the bytes are those of the one where the digests were kept.
#[test]
fn named_targets_give_the_bytes_that_are_kept() {
    const ENCODER: &str =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/sentences/encoder.onnx");
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/digests.txt");
    let mut found = String::from(
        "# What `tilewright compile` writes of models for targets, by digests of names and bytes.\n\
         # A change of the code that models become changes them: `BLESS=1` keeps the new ones.\n",
    );
    // An engine holds what `setup` makes, whichever machine runs that.
    let runs = !runnable_targets().is_empty();
    let machine = ["object", "static", "shared", "engine"];
    let machine = if runs { &machine[..] } else { &machine[..3] };
    for (model, path) in [("digits", DIGITS), ("encoder", ENCODER)] {
        for (target, forms) in [
            ("x86-64-v3", machine),
            ("x86-64-v4", machine),
            ("c99", &["c"]),
            ("rv64gc", &["c"]),
            ("cortex-m7", &["c"]),
        ] {
            // What is free is no size that memory could be planned for.
            if model == "encoder" && target == "cortex-m7" {
                continue;
            }
            for form in forms {
                let folder = Folder::new();
                let output = folder.file("out");
                let compile = ["compile", path, "--emit", form, "--target", target, "-o", &output];
                let fixed: &[&str] =
                    if target == "cortex-m7" { &["--dim", "batch=1"] } else { &[] };
                succeed(&[&compile[..], fixed].concat());
                let mut digest = Digest::default();
                let written = match *form {
                    "engine" => vec![(String::new(), std::fs::read(&output).expect("reads"))],
                    _ => files(Path::new(&output)),
                };
                for (name, bytes) in written {
                    digest.add(name.as_bytes());
                    digest.add(&bytes);
                }
                found += &format!("{model} {target} {form} {digest}\n");
            }
        }
    }
    if std::env::var_os("BLESS").is_some_and(|value| value == "1") {
        std::fs::write(kept, &found).expect("written");
    }
    let kept = std::fs::read_to_string(kept).unwrap_or_default();
    let is_made = |line: &&str| runs || !line.contains(" engine ");
    let kept = kept.split_inclusive('\n').filter(is_made).collect::<String>();
    assert!(kept == found, "other bytes than those that are kept:\n{found}");
}

/// The digits model with other weights.
fn other_weights(path: &str) {
    let mut model =
        ModelProto::decode(&std::fs::read(DIGITS).expect("reads")[..]).expect("decodes");
    let constants = model.graph.iter_mut().flat_map(|graph| &mut graph.initializer);
    for bytes in constants.filter_map(|tensor| tensor.raw_data.as_mut()) {
        let mut changed = bytes.to_vec();
        for number in changed.chunks_exact_mut(4) {
            // The lowest bits of floats; integers stay as they are, all of which are small.
            if number[3] != 0 {
                number[0] ^= 0x5a;
            }
        }
        *bytes = changed.into();
    }
    std::fs::write(path, model.encode_to_vec()).expect("written");
}

#[test]
fn other_weights_need_no_other_code() {
    if !runs_here() || !has_python() {
        return;
    }
    let (folder, rebuilt) = (Folder::new(), Folder::new());
    let other = folder.file("other.onnx");
    other_weights(&other);
    let compile = |model: &str, form: &str, folder: &Folder| {
        let dim = ["--dim", "batch=4", "-o"];
        succeed(&[&["compile", model, "--emit", form][..], &dim, &[&folder.file("")]].concat());
    };
    compile(DIGITS, "shared", &folder);
    compile(&other, "shared", &rebuilt);
    let read = |folder: &Folder| std::fs::read(folder.path().join("weights.bin")).expect("reads");
    assert!(read(&folder) != read(&rebuilt), "the weights are others");
    compile(&other, "weights", &folder);
    assert!(read(&folder) == read(&rebuilt), "the weights are those of a rebuild");
    let expected = expected(&folder, &other, 4, 5);
    assert_eq!(from_python(&folder, "digits", 4), expected);
    // Code for another batch is other code.
    let arguments = ["compile", &other, "--emit", "weights", "-o", &folder.file("")];
    let output = tilewright(folder.path(), &arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("TW0408"), "{said}");
    assert!(read(&folder) == read(&rebuilt), "what was there stays");
}

#[test]
fn several_models_are_in_one_program() {
    if !runs_here() || !has_c_compiler() {
        return;
    }
    let folder = Folder::new();
    let text = "input x: f32[4] input y: f32[4] z = Add(x, y) output z: f32[4]";
    let model = onnx_text::parse_model(&mut Parser::new(text)).expect("a model");
    std::fs::write(folder.file("sum.onnx"), model.encode_to_vec()).expect("written");
    let twice = text.replace("Add(x, y)", "Mul(x, y)");
    let model = onnx_text::parse_model(&mut Parser::new(&twice)).expect("a model");
    std::fs::write(folder.file("product.onnx"), model.encode_to_vec()).expect("written");
    for name in ["sum", "product"] {
        let model = folder.file(&format!("{name}.onnx"));
        let inside = ["--weights", "inside", "--fold-setup", "-o", &folder.file("")];
        succeed(&[&["compile", &model, "--emit", "object"][..], &inside].concat());
    }
    let main = "#include \"sum.h\"\n#include \"product.h\"\n\
        static char arena[SUM_ARENA_BYTES + PRODUCT_ARENA_BYTES + 64];\n\
        int main(void)\n{\n  float x[4] = { 1, 2, 3, 4 }, y[4] = { 5, 6, 7, 8 }, z[4], w[4];\n  \
        if (sum_infer(arena + 64 - (size_t)arena % 64, x, y, z) != 0) return 1;\n  \
        if (product_infer(arena + 64 - (size_t)arena % 64, x, y, w) != 0) return 2;\n  \
        return z[3] == 12 && w[3] == 32 && w[0] == 5 ? 0 : 3;\n}\n";
    std::fs::write(folder.file("main.c"), main).expect("written");
    let mut cc = Command::new("cc");
    let flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "main.c", "sum.o", "product.o"];
    done(cc.current_dir(folder.path()).args(flags).args(["-o", "main"]));
    done(Command::new(folder.path().join("main")).current_dir(folder.path()));
}

#[test]
fn lists_are_told_and_given_from_c() {
    // What plans do is covered by random graphs (`inspect/tests/random.rs`); here the header.
    let folder = Folder::new();
    succeed(&["compile", DIGITS, "--emit", "shared", "-o", &folder.file("")]);
    let header = std::fs::read_to_string(folder.file("digits.h")).expect("reads");
    assert!(header.contains("int64_t batch;"), "{header}");
    assert!(header.contains("digits_tensor *outputs;"), "{header}");
    assert!(!header.contains('@'), "{header}");
}

#[test]
fn what_cannot_be_leaves_nothing_behind() {
    let refused = |folder: &Folder, arguments: &[&str], code: &str| {
        let output = tilewright(folder.path(), arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(code), "{arguments:?}: {said}");
    };
    let folder = Folder::new();
    let base = ["compile", DIGITS, "-o", "out", "--emit"];
    refused(&folder, &[&base[..], &["c", "--weights", "inside"]].concat(), "TW0408");
    refused(&folder, &[&base[..], &["engine", "--fold-setup"]].concat(), "TW0408");
    refused(&folder, &[&base[..], &["shared", "--target", "c99"]].concat(), "TW0401");
    refused(&folder, &[&base[..], &["shared", "--target", "vax"]].concat(), "TW0401");
    refused(&folder, &[&base[..], &["weights"]].concat(), "TW0408");
    let strings = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/topics/topics.onnx");
    refused(&folder, &["compile", strings, "-o", "out", "--emit", "shared"], "TW0104");
    assert!(!folder.path().join("out").exists(), "nothing is written");
    std::fs::write(folder.file("taken"), "").expect("written");
    refused(&folder, &["compile", DIGITS, "-o", "taken", "--emit", "shared"], "TW0301");
    // A folder stands where a file goes: the others do not appear, either.
    std::fs::create_dir_all(folder.file("half/libdigits.so")).expect("made");
    refused(&folder, &["compile", DIGITS, "-o", "half", "--emit", "shared"], "TW0301");
    let names: Vec<String> = std::fs::read_dir(folder.file("half"))
        .expect("the folder is there")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(names, ["libdigits.so"]);
}

#[test]
fn values_that_decide_shapes_are_checked() {
    if !runs_here() || !has_python() {
        return;
    }
    let text = "input x: f32[n] input repeats: i64[1] tiled = Tile(x, repeats) \
        output tiled: f32[m]";
    let model = onnx_text::parse_model(&mut Parser::new(text)).expect("a model");
    let folder = Folder::new();
    std::fs::write(folder.file("tile.onnx"), model.encode_to_vec()).expect("written");
    let (x, repeats) =
        (Tensor::from_vec(&[3], vec![1.0_f32, 2.0, 3.0]), Tensor::from_vec(&[1], vec![2_i64]));
    tensor::npy::write(Path::new(&folder.file("x.npy")), &x).expect("written");
    tensor::npy::write(Path::new(&folder.file("r.npy")), &repeats).expect("written");
    let inputs = ["--input".to_owned(), format!("x={}", folder.file("x.npy"))];
    let repeats = ["--input".to_owned(), format!("repeats={}", folder.file("r.npy"))];
    let inputs: Vec<&str> = inputs.iter().chain(&repeats).map(String::as_str).collect();
    let model = folder.file("tile.onnx");
    let compile = ["compile", &model, "--emit", "shared", "-o", &folder.file("")];
    succeed(&[&compile[..], &inputs].concat());
    let script = "import tile, array\nmodel = tile.Model()\nx = array.array('f', [1, 2, 3])\n\
        (out,) = model.run(x, array.array('q', [2]))\n\
        assert out.tolist() == [1, 2, 3, 1, 2, 3], out.tolist()\n\
        try:\n    model.run(x, array.array('q', [3]))\nexcept tile.Error as error:\n    \
        assert error.status == 4\nelse:\n    raise AssertionError\n";
    std::fs::write(folder.file("run.py"), script).expect("written");
    done(Command::new("python3").arg("run.py").current_dir(folder.path()));
}
