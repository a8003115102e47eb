//! The official cases of ONNX through compiled code, against the recorded list of those that do
//! not pass.
//!
//! Cases come from the archive beside the repository, or are made from the Python package `onnx`;
//! without either nothing is run, which is said aloud. `conformance/expected.txt` has a line for
//! each case that does not pass: its status, its name, and why; `expected-c99.txt` beside it those
//! that do not pass as C sources, which are run with `--target c99`. The command fails when a case
//! does better or worse than its line says; `--bless` writes the list anew.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The repository's root.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// Where archives of cases lie, relative to the root.
const ARCHIVES: &str = "../shared/data";
/// The lists, relative to the root: of machine code, of C sources.
const EXPECTED: [&str; 2] = ["conformance/expected.txt", "conformance/expected-c99.txt"];

/// Runs the cases; what follows on the command line goes to `tilewright conformance`.
pub(crate) fn main(arguments: &[&str]) -> ExitCode {
    let is_blessed = arguments.contains(&"--bless");
    let rest: Vec<&str> =
        arguments.iter().copied().filter(|argument| *argument != "--bless").collect();
    let cases = match cases() {
        Ok(Some(cases)) => cases,
        Ok(None) => {
            println!(
                "conformance: SKIPPED: there is no archive of cases in {ARCHIVES}, and python3 has \
                 no package `onnx` to make them from"
            );
            return ExitCode::SUCCESS;
        }
        Err(reason) => return fail(&reason),
    };
    match compare(&cases, &rest, is_blessed) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(count) => fail(&format!("{count} case(s) are not as {} says", list(&rest))),
        Err(reason) => fail(&reason),
    }
}

/// The list that such a run is compared with.
fn list(arguments: &[&str]) -> &'static str {
    EXPECTED[usize::from(arguments.contains(&"c99"))]
}

fn fail(reason: &str) -> ExitCode {
    eprintln!("conformance: {reason}");
    ExitCode::FAILURE
}

/// The folder of cases, unpacked or made now if need be.
fn cases() -> Result<Option<PathBuf>, String> {
    let place = Path::new(ROOT).join("target/conformance");
    std::fs::create_dir_all(&place).map_err(|error| error.to_string())?;
    let entries = std::fs::read_dir(Path::new(ROOT).join(ARCHIVES)).into_iter().flatten().flatten();
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("onnx-backend-cases-") && name.ends_with(".tar.xz")
    };
    let archive = entries.map(|entry| entry.path()).filter(is_ours).max();
    let name = match &archive {
        Some(archive) => archive.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        None => "made".to_owned(),
    };
    let folder = place.join(name.trim_end_matches(".tar.xz"));
    if folder.is_dir() {
        return Ok(Some(folder));
    }
    // Made beside its place and moved there, so that half of the cases are never taken for all.
    let unfinished = place.join("unfinished");
    let _ = std::fs::remove_dir_all(&unfinished);
    std::fs::create_dir_all(&unfinished).map_err(|error| error.to_string())?;
    let done = match &archive {
        Some(archive) => {
            let mut unpack = Command::new("tar");
            run(unpack.arg("-xf").arg(archive).arg("-C").arg(&unfinished))?
        }
        None => {
            let has_package = Command::new("python3")
                .args(["-c", "import onnx"])
                .output()
                .is_ok_and(|output| output.status.success());
            if !has_package {
                return Ok(None);
            }
            let script = Path::new(ROOT).join("xtask/src/onnx_cases.py");
            run(Command::new("python3").arg(script).arg(&unfinished))?
        }
    };
    if !done {
        return Err("the cases cannot be unpacked or made".to_owned());
    }
    std::fs::rename(&unfinished, &folder).map_err(|error| error.to_string())?;
    Ok(Some(folder))
}

fn run(command: &mut Command) -> Result<bool, String> {
    command.status().map(|status| status.success()).map_err(|error| error.to_string())
}

/// The number of cases that are not as the list says, each of which is printed.
fn compare(cases: &Path, arguments: &[&str], is_blessed: bool) -> Result<usize, String> {
    // An archive may hold one folder with all suites.
    let mut folders: Vec<PathBuf> = std::fs::read_dir(cases)
        .map_err(|error| error.to_string())?
        .flatten()
        .map(|entry| entry.path())
        .collect();
    let cases = match folders.len() {
        1 => folders.remove(0),
        _ => cases.to_path_buf(),
    };
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--package", "tilewright-cli", "--bin", "tilewright", "--"])
        .arg("conformance")
        .arg(&cases)
        .args(arguments)
        .current_dir(ROOT)
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // 3 says that cases failed, as some on the list do.
    if !matches!(output.status.code(), Some(0 | 3)) {
        return Err(format!("`tilewright conformance` ended with {}", output.status));
    }
    let found = rows(&text);
    let table: Vec<&str> = text.lines().filter(|line| row(line).is_none()).collect();
    table.iter().for_each(|line| println!("{line}"));
    let path = Path::new(ROOT).join(list(arguments));
    if is_blessed {
        let lines: String = found
            .iter()
            .map(|(name, (status, reason))| {
                let reason = reason.split("; = remedy").next().unwrap_or_default();
                format!("{}\n", format!("{status} {name}: {reason}").trim_end_matches(": "))
            })
            .collect();
        let table: String = table.iter().map(|line| format!("# {line}\n")).collect();
        std::fs::write(&path, format!("{HEADER}{table}{lines}"))
            .map_err(|error| error.to_string())?;
        return Ok(0);
    }
    let expected = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
    let expected = rows(&expected);
    let mut count = 0;
    for (name, (status, reason)) in &found {
        if expected.get(name).map(|(expected, _)| expected) != Some(status) {
            println!("{status}, unexpectedly: {name}: {reason}");
            count += 1;
        }
    }
    for name in expected.keys().filter(|name| !found.contains_key(*name)) {
        println!("passed, unexpectedly: {name}; run `cargo xtask conformance --bless`");
        count += 1;
    }
    Ok(count)
}

const HEADER: &str = "# The official cases of ONNX that do not pass, and why. Written by\n\
                      # `cargo xtask conformance --bless`; `random` ones agree but for values.\n\
                      # JPEG's standard leaves roundings to decoders: theirs is libjpeg's, ours\n\
                      # that of the crate `image`, and they differ by up to 2 of 255.\n";

/// Status and reason by name.
fn rows(text: &str) -> BTreeMap<String, (String, String)> {
    let all = text.lines().filter_map(row);
    all.map(|(status, name, reason)| (name.to_owned(), (status.to_owned(), reason.to_owned())))
        .collect()
}

/// A line `refused node/test_x: reason`.
fn row(line: &str) -> Option<(&str, &str, &str)> {
    let (status, rest) = line.split_once(' ')?;
    let (name, reason) = rest.split_once(": ").unwrap_or((rest, ""));
    let is_row = matches!(status, "failed" | "refused" | "random") && !name.contains(' ');
    is_row.then_some((status, name, reason))
}
