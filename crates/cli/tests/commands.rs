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
//! maps case/set/output_0.pb z string[2] {"a", "b"} f32[1, 2] {0.5, 0.5} // of a vector one map
//! picture a.png 4 3         // so many columns and rows of colours that rise
//! cut bad.onnx 40           // keeps so many bytes
//! $ run bad.onnx            // runs the binary
//! $ run m.onnx --input - < a.csv
//! ```
//!
//! `{digits}` is the folder of the repository's model. The output is what the binary printed and
//! its exit status, then the files that it made. Every refusal is checked to be whole: a code, a
//! place, a reason, a remedy.

mod support;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use support::files::{prepare, steps};
use support::{DIGITS, Folder, tilewright, tilewright_reading};
use testkit::has_c_compiler;

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
    for (line, block) in steps(text) {
        if let Some(command) = line.strip_prefix("$ ") {
            run(folder.path(), command, &mut output)?;
        } else {
            prepare(folder.path(), line, &block)?;
        }
    }
    Ok(output)
}

/// Runs the binary; adds what it printed, its exit status if not 0, and the files that it made.
fn run(folder: &Path, command: &str, text: &mut String) -> Result<(), String> {
    let digits = Path::new(DIGITS).parent().unwrap_or(Path::new(".")).display().to_string();
    let words: Vec<String> =
        command.split_whitespace().map(|word| word.replace("{digits}", &digits)).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let before = files(folder);
    let output = match words.as_slice() {
        [words @ .., "<", file] => tilewright_reading(folder, words, file),
        words => tilewright(folder, words),
    };
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
