//! The official cases of ONNX through compiled code, through the evaluator and as C sources, each
//! against the recorded list of those that do not pass.
//!
//! Cases come from the archive beside the repository, or are made from the Python package `onnx`;
//! without either nothing is run, which is said aloud. `conformance/expected.txt` has a line for
//! each case that does not pass: its status, its name, and why; `conformance/evaluator.txt` has
//! those of the evaluator, which refuses what would take it too many operations, and
//! `conformance/expected-c99.txt` those of C sources, which are run with `--target c99` alone. The
//! command fails when a case does better or worse than its line says, or for another reason;
//! `--bless` writes the lists anew. Of reasons of failures, numbers are not compared: how far
//! values are off is for each target to say.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The repository's root.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// Where archives of cases lie, relative to the root.
const ARCHIVES: &str = "../shared/data";
/// The ways to run the cases: the list, relative to the root, and the options that choose it.
const WAYS: [(&str, &[&str]); 3] = [
    ("conformance/expected.txt", &[]),
    ("conformance/evaluator.txt", &["--evaluator"]),
    ("conformance/expected-c99.txt", AS_C),
];
/// Run where it is asked for, and nothing else then: it takes a C compiler, and its time.
const AS_C: &[&str] = &["--target", "c99"];

/// Runs the cases; what follows on the command line goes to `tilewright conformance`.
pub(crate) fn main(arguments: &[&str]) -> ExitCode {
    let is_blessed = arguments.contains(&"--bless");
    let is_c = arguments.windows(2).any(|pair| pair == AS_C);
    let is_read_here = |argument: &&str| *argument == "--bless" || is_c && AS_C.contains(argument);
    let rest: Vec<&str> = arguments.iter().copied().filter(|it| !is_read_here(it)).collect();
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
    let mut code = ExitCode::SUCCESS;
    for (expected, options) in WAYS.into_iter().filter(|(_, options)| (*options == AS_C) == is_c) {
        match compare(&cases, expected, &[&rest, options].concat(), is_blessed) {
            Ok(0) => {}
            Ok(count) => code = fail(&format!("{count} case(s) are not as {expected} says")),
            Err(reason) => code = fail(&reason),
        }
    }
    code
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

/// The command line's binary, with the features that the workspace's tests are built with: with its
/// own alone most crates would be built once more.
fn tilewright() -> Result<PathBuf, String> {
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--workspace", "--bin", "tilewright"]).current_dir(ROOT);
    if !run(&mut build)? {
        return Err("the command line cannot be built".to_owned());
    }
    let xtask = std::env::current_exe().map_err(|error| error.to_string())?;
    Ok(xtask.with_file_name(format!("tilewright{}", std::env::consts::EXE_SUFFIX)))
}

/// The number of cases that are not as the list says, each of which is printed.
fn compare(
    cases: &Path,
    expected: &str,
    arguments: &[&str],
    is_blessed: bool,
) -> Result<usize, String> {
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
    let output = Command::new(tilewright()?)
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
    let path = Path::new(ROOT).join(expected);
    if is_blessed {
        let lines: String = found
            .iter()
            .map(|(name, (status, reason))| {
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
        let alike = |(other, why): &(String, String)| {
            other == status && comparable(why) == comparable(reason)
        };
        if !expected.get(name).is_some_and(alike) {
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
    let reason = reason.split("; = remedy").next().unwrap_or_default();
    let is_row = matches!(status, "failed" | "refused" | "random") && !name.contains(' ');
    is_row.then_some((status, name, reason))
}

/// What of a reason is compared: all but the numbers, each of which is a `#`, since how far a
/// result is off and how many operations a run takes change with every formula. Digits behind a
/// letter are a part of a name.
fn comparable(reason: &str) -> String {
    let mut text = String::new();
    let mut rest = reason.chars().peekable();
    while let Some(first) = rest.next() {
        let is_in_name = text.ends_with(|last: char| last.is_alphanumeric() || last == '_');
        if !first.is_ascii_digit() || is_in_name {
            text.push(first);
            continue;
        }
        let mut last = first;
        while let Some(next) = rest.next_if(|&next| {
            next.is_ascii_digit()
                || next == '.'
                || last.is_ascii_digit() && next == 'e'
                || last == 'e' && next == '-'
        }) {
            last = next;
        }
        text.push('#');
    }
    text.replace("-#", "#")
}

#[cfg(test)]
mod tests {
    use super::comparable;

    #[test]
    fn numbers_of_reasons_are_not_compared() {
        let one = "output `y2`: 736 of 3072 elements differ; largest difference 2.000e0 absolute, \
                   5.339e-3 in norm; first at [0, 2, 1]: 82 instead of -81.5";
        let other = "output `y2`: 7 of 3072 elements differ; largest difference 1.5e1 absolute, \
                     5.3e-13 in norm; first at [1, 2, 1]: -8.0 instead of 81";
        assert_eq!(comparable(one), comparable(other));
        assert!(comparable(one).starts_with("output `y2`: # of # elements"));
        assert_ne!(comparable(one), comparable(&one.replace("y2", "y3")));
        let refused = "error[TW0112]: the evaluator would take 68292433 operations";
        assert_eq!(comparable(refused), comparable(&refused.replace("433", "434")));
        assert_ne!(comparable(refused), comparable(&refused.replace("TW0112", "TW0113")));
    }
}
