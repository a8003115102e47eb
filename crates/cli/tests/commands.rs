//! Text tests of the binary: what it says, writes and returns, above all on bad input.
//!
//! An input is a script, run in an empty folder:
//!
//! ```text
//! model bad.onnx            // the indented lines are a model in the form of testkit::onnx_text
//!   input x: f32[2]
//!   ...
//! external bad.onnx w PATH  // its constant w lies in another file
//! retype bad.onnx x 14      // its input x has the element type of this number
//! text notes.txt            // the indented lines are the file
//! folder out
//! array x.npy f32[2] {1.0, 2.0}
//! tensor case/set/input_0.pb x f32[2] {1.0, 2.0}
//! cut bad.onnx 40           // keeps so many bytes
//! $ run bad.onnx --random   // runs the binary
//! ```
//!
//! `{digits}` is the folder of the repository's model. The output is what the binary printed and
//! its exit status, then the files that it made. Every refusal is checked to be whole: a code, a
//! place, a reason, a remedy.

mod support;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use base::text::Parser;
use import_onnx::proto::{ModelProto, StringStringEntryProto, TypeValue};
use prost::Message;
use support::{DIGITS, Folder, tilewright};
use testkit::{has_c_compiler, onnx_text};

#[test]
fn texts() {
    filetest::run(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/texts"), &[("script", script)]);
}

#[test]
fn texts_that_take_a_c_compiler() {
    if has_c_compiler() {
        filetest::run(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/texts_c"), &[("script", script)]);
    }
}

fn script(text: &str, _: &[&str]) -> Result<String, String> {
    let folder = Folder::new();
    let mut output = String::new();
    let mut lines = text.lines().filter(|line| !line.trim().is_empty()).peekable();
    while let Some(line) = lines.next() {
        let mut block = String::new();
        while let Some(inner) = lines.next_if(|line| line.starts_with("  ")) {
            block += inner.strip_prefix("  ").unwrap_or_default();
            block.push('\n');
        }
        if let Some(command) = line.strip_prefix("$ ") {
            run(folder.path(), command, &mut output)?;
        } else {
            prepare(folder.path(), line, &block).map_err(|error| format!("{line}: {error}"))?;
        }
    }
    Ok(output)
}

/// Makes or changes a file.
fn prepare(folder: &Path, line: &str, block: &str) -> Result<(), String> {
    let (verb, rest) = line.split_once(' ').ok_or("expected a verb and a file")?;
    let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let path = folder.join(name);
    let write = |bytes: &[u8]| std::fs::write(&path, bytes).map_err(|error| error.to_string());
    let read = || std::fs::read(&path).map_err(|error| error.to_string());
    match verb {
        "model" => {
            let mut parser = Parser::new(block);
            let model = onnx_text::parse_model(&mut parser)
                .and_then(|model| parser.expect_end().map(|()| model))
                .map_err(|error| error.to_string())?;
            write(&model.encode_to_vec())
        }
        "external" => {
            let mut model = ModelProto::decode(&read()?[..]).map_err(|error| error.to_string())?;
            let (constant, location) = rest.split_once(' ').ok_or("expected a constant, a path")?;
            let constants = model.graph.iter_mut().flat_map(|graph| &mut graph.initializer);
            for tensor in constants.filter(|tensor| tensor.name == constant) {
                let (key, value) = ("location".to_owned(), location.to_owned());
                tensor.raw_data = None;
                tensor.data_location = 1;
                tensor.external_data = vec![StringStringEntryProto { key, value }];
            }
            write(&model.encode_to_vec())
        }
        "retype" => {
            let mut model = ModelProto::decode(&read()?[..]).map_err(|error| error.to_string())?;
            let (input, number) = rest.split_once(' ').ok_or("expected an input, a number")?;
            let inputs = model.graph.iter_mut().flat_map(|graph| &mut graph.input);
            for value in inputs.filter(|value| value.name == input) {
                let ty = value.r#type.as_mut().and_then(|ty| ty.value.as_mut());
                if let Some(TypeValue::Tensor(tensor)) = ty {
                    tensor.elem_type = number.parse().map_err(|_| "expected a number")?;
                }
            }
            write(&model.encode_to_vec())
        }
        "text" => write(block.as_bytes()),
        "folder" => std::fs::create_dir_all(&path).map_err(|error| error.to_string()),
        "array" => {
            let tensor =
                onnx_text::tensor(&mut Parser::new(rest)).map_err(|error| error.to_string())?;
            tensor::npy::write(&path, &tensor).map_err(|error| error.to_string())
        }
        "tensor" => {
            let (name, rest) = rest.split_once(' ').ok_or("expected a name, a tensor")?;
            let tensor =
                onnx_text::tensor(&mut Parser::new(rest)).map_err(|error| error.to_string())?;
            let mut proto = onnx_text::tensor_proto(&tensor);
            proto.name = name.to_owned();
            write(&proto.encode_to_vec())
        }
        "cut" => {
            let length: usize = rest.parse().map_err(|_| "expected a number of bytes")?;
            write(&read()?[..length])
        }
        _ => Err(format!("no verb `{verb}`")),
    }
}

/// Runs the binary; adds what it printed, its exit status if not 0, and the files that it made.
fn run(folder: &Path, command: &str, text: &mut String) -> Result<(), String> {
    let digits = Path::new(DIGITS).parent().unwrap_or(Path::new(".")).display().to_string();
    let words: Vec<String> =
        command.split_whitespace().map(|word| word.replace("{digits}", &digits)).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let before = files(folder);
    let output = tilewright(folder, &words);
    let status = output.status.code().ok_or("it was killed by a signal")?;
    let (printed, said) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    check_whole(status, &said);
    for stream in [printed, said] {
        let stream = stream.replace(&digits, "{digits}");
        *text += &stream.replace(&folder.display().to_string(), "{folder}");
    }
    if status != 0 {
        let _ = writeln!(text, "exit {status}");
    }
    for made in files(folder).difference(&before) {
        let _ = writeln!(text, "made {}", made.display());
    }
    Ok(())
}

/// What holds of every refusal of a model or its inputs.
///
/// # Panics
///
/// If it does not: no expectation can bless that.
fn check_whole(status: i32, said: &str) {
    assert!(status != 101 && !said.contains("panicked"), "it panicked: {said}");
    if status != 1 {
        return;
    }
    let diagnostics: Vec<&str> = said.split("error[").skip(1).collect();
    assert!(!diagnostics.is_empty(), "exit status 1 without a diagnostic: {said}");
    for diagnostic in diagnostics {
        for part in ["TW", "\n  --> ", "\n  = because: ", "\n  = remedy: "] {
            assert!(diagnostic.contains(part), "there is no `{}` in {diagnostic}", part.trim());
        }
    }
}

/// All files and folders below a folder.
fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            }
            found.extend(entry.path().strip_prefix(folder).map(Path::to_path_buf));
        }
    }
    found
}
