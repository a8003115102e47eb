//! `cargo xtask tidy`: rules of the house that neither rustc nor clippy knows.
//!
//! Each rule is a pure function from text to [`Finding`]s, so that each can be tested on a few
//! lines. This file finds the texts, decides which rule applies to which, and reports. It needs
//! `git` to list the files that are, or would be, committed, and nothing else.

mod code;
mod manifest;
mod text;
mod types;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// One thing wrong in one file. `line` counts from 1; 0 means the file as a whole.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    line: usize,
    message: String,
}

impl Finding {
    fn new(line: usize, message: impl Into<String>) -> Finding {
        Finding { line, message: message.into() }
    }
}

/// Findings (which fail the run) and notes (which do not), each with its file.
#[derive(Default)]
struct Report {
    findings: Vec<String>,
    notes: Vec<String>,
}

impl Report {
    fn add(&mut self, file: &str, findings: impl IntoIterator<Item = Finding>) {
        self.findings.extend(findings.into_iter().map(|f| match f.line {
            0 => format!("{file}: {}", f.message),
            line => format!("{file}:{line}: {}", f.message),
        }));
    }
}

/// Runs every rule over the repository. Status 0 when clean, 3 when a rule found something.
pub(crate) fn main() -> ExitCode {
    match check_repository(&repository_root()) {
        Ok(report) => {
            for note in &report.notes {
                println!("note: {note}");
            }
            for finding in &report.findings {
                println!("tidy: {finding}");
            }
            match report.findings.len() {
                0 => ExitCode::SUCCESS,
                n => {
                    eprintln!("tidy: {n} finding(s)");
                    ExitCode::from(3)
                }
            }
        }
        Err(message) => {
            eprintln!("tidy: {message}");
            ExitCode::from(3)
        }
    }
}

/// The folder above `xtask/`, as cargo names it now: worktrees may share one target folder.
fn repository_root() -> PathBuf {
    let built_in = || PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let xtask = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(built_in, PathBuf::from);
    xtask.parent().map_or_else(|| xtask.clone(), Path::to_path_buf)
}

fn check_repository(root: &Path) -> Result<Report, String> {
    let files = committed_files(root)?;
    let layers = manifest::Layers::parse(&read(root, "layers.toml")?)
        .map_err(|error| format!("layers.toml: {error}"))?;
    let mut report = Report::default();
    report.add("layers.toml", manifest::every_crate_has_a_layer(&layers, &crate_folders(&files)));
    let lexicon = types::defined_words(&read(root, "docs/lexicon.md")?);
    let mut types = Vec::new();
    for file in &files {
        let Ok(bytes) = std::fs::read(root.join(file)) else { continue };
        report.add(file, text::names_no_machine_path(&bytes));
        let Ok(content) = String::from_utf8(bytes) else { continue };
        if file.ends_with("Cargo.toml") {
            check_manifest(&mut report, &layers, file, &content);
        }
        if file.ends_with(".rs") {
            check_source(&mut report, file, &content);
        }
        if is_of_a_library(&layers, file) {
            let found = types::public_types(&content).into_iter();
            types.extend(found.map(|(line, name)| (file.clone(), line, name)));
        }
        if is_of_the_driver(file) {
            report.add(file, types::nouns_are_defined(&content, &lexicon));
        }
    }
    for (file, finding) in types::names_are_unique(&types) {
        report.add(&file, [finding]);
    }
    Ok(report)
}

fn check_manifest(report: &mut Report, layers: &manifest::Layers, file: &str, content: &str) {
    if file == "Cargo.toml" {
        report.add(file, manifest::externals_state_a_reason(content));
        return;
    }
    // A workspace of its own (the fuzz targets) inherits nothing and is in no layer.
    if content.lines().any(|line| line == "[workspace]") {
        return;
    }
    match manifest::Manifest::parse(content) {
        Err(error) => report.add(file, [Finding::new(0, error)]),
        Ok(parsed) => {
            report.add(file, manifest::dependencies_are_inherited(&parsed));
            let folder = file.trim_end_matches("/Cargo.toml").rsplit('/').next().unwrap_or(file);
            report.add(file, manifest::dependencies_point_down(layers, folder, &parsed));
        }
    }
}

fn check_source(report: &mut Report, file: &str, content: &str) {
    let code = code::only_code(content);
    report.add(file, text::opens_with_a_header(content));
    report.add(file, text::fits_the_width(content));
    match text::length(content) {
        text::Length::Fine => {}
        text::Length::Long(n) => report.notes.push(format!("{file}: {n} lines; aim for 600")),
        text::Length::TooLong(n) => {
            report.add(file, [Finding::new(0, format!("{n} lines; at most 900"))]);
        }
    }
    if !text::may_hold_unsafe(file) {
        report.add(file, text::holds_no_unsafe(&code));
    }
    if !text::may_unwrap(file) {
        report.add(file, text::unwraps_nothing(&code));
    }
}

/// Tracked files and untracked files that git does not ignore, as paths below `root`.
fn committed_files(root: &Path) -> Result<Vec<String>, String> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cannot run git: {error}"))?;
    if !output.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let names = String::from_utf8_lossy(&output.stdout);
    Ok(names.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

/// The names of the folders in `crates/` that hold a manifest.
fn crate_folders(files: &[String]) -> Vec<&str> {
    let in_crates = files.iter().filter_map(|file| file.strip_prefix("crates/"));
    in_crates
        .filter_map(|rest| rest.strip_suffix("/Cargo.toml"))
        .filter(|folder| !folder.contains('/'))
        .collect()
}

/// Whether a file is source of a crate that is shipped.
fn is_of_a_library(layers: &manifest::Layers, file: &str) -> bool {
    let place = file.strip_prefix("crates/").and_then(|rest| rest.split_once('/'));
    place.is_some_and(|(folder, rest)| {
        rest.starts_with("src/") && rest.ends_with(".rs") && !layers.is_dev_only(folder)
    })
}

/// Whether a file is source of the driver, or of what looks at its executables.
fn is_of_the_driver(file: &str) -> bool {
    let crates = ["crates/tilewright/src/", "crates/inspect/src/"];
    file.ends_with(".rs") && crates.iter().any(|folder| file.starts_with(folder))
}

fn read(root: &Path, file: &str) -> Result<String, String> {
    std::fs::read_to_string(root.join(file)).map_err(|error| format!("{file}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_direct_folders_of_crates_count() {
        let files = ["crates/a/Cargo.toml", "crates/a/sub/Cargo.toml", "xtask/Cargo.toml"];
        assert_eq!(crate_folders(&files.map(str::to_owned)), ["a"]);
    }

    #[test]
    fn only_source_of_shipped_crates_is_of_a_library() {
        let layers = manifest::Layers::parse("[layers]\na = 0\n[dev-only]\ncrates = [\"kit\"]");
        let layers = layers.unwrap();
        let of = |file| is_of_a_library(&layers, file);
        assert!(of("crates/a/src/lib.rs") && of("crates/a/src/b/c.rs"));
        assert!(
            !of("crates/kit/src/lib.rs") && !of("crates/a/tests/b.rs") && !of("xtask/src/b.rs")
        );
    }
}
