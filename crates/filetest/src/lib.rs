//! Text in, text out: the runner of the text tests; and of examples in Markdown ([`console`]).
//!
//! A test file ends in `.txt` (every editor and diff tool shows it as it is) and holds one or more
//! cases:
//!
//! ```text
//! // Why this case exists.
//! // run: print --level graph
//! the input text
//! // ----
//! the expected output
//! // ====
//! // run: ...
//! ```
//!
//! The first word after `// run:` names a registered [`Command`], the others are its arguments.
//! Lines above the header must be blank or comments. Blank lines at the end of an output do not
//! count. A command that returns `Err(text)` has the output `error: text`, so refusals are tested
//! like anything else; one that panics fails.
//!
//! `BLESS=1` rewrites the expectations: all files, or, if any case cannot be run at all, none. To
//! add a case, write it without the `// ----` part and bless.

mod case;
pub mod console;
mod diff;

use case::{Case, File};
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// What a case runs: input text and arguments to output text, or to the text of a diagnostic.
pub type Command = fn(&str, &[&str]) -> Result<String, String>;

/// Runs every case of every `.txt` file below `dir`. With `BLESS=1` in the environment it rewrites
/// the expectations instead of comparing.
///
/// # Panics
///
/// If any case fails, with the place and a diff of each; this is how a `#[test]` fails.
pub fn run(dir: impl AsRef<Path>, commands: &[(&str, Command)]) {
    let bless = std::env::var_os("BLESS").is_some_and(|value| value == "1");
    match check(dir.as_ref(), commands, bless) {
        Ok(cases) => println!("{cases} text case(s) in {}", dir.as_ref().display()),
        Err(message) => panic!("{message}"),
    }
}

/// As [`run`], but returns the number of cases, or one message for everything that failed.
///
/// # Errors
///
/// With `bless` only what cannot be run at all is an error, and then no file is touched.
pub fn check(dir: &Path, commands: &[(&str, Command)], bless: bool) -> Result<usize, String> {
    let mut cases = 0;
    let mut failures = String::new();
    let mut rewrites = Vec::new();
    for path in text_files(dir)? {
        let text =
            std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let mut file = File::parse(&text);
        for case in &mut file.cases {
            cases += 1;
            let place = format!("{}:{}", path.display(), case.line);
            match output_of(case, commands) {
                Err(reason) => _ = writeln!(failures, "{place}: {reason}\n"),
                Ok(output) if bless => case.expected = Some(output),
                Ok(output) => {
                    let expected = case.expected.as_deref().unwrap_or("");
                    if expected != output || case.expected.is_none() {
                        let difference = diff::lines(expected, &output);
                        _ = writeln!(failures, "{place}: {}\n{difference}", case.command.join(" "));
                    }
                }
            }
        }
        let blessed = file.render();
        if bless && blessed != text {
            rewrites.push((path, blessed));
        }
    }
    if !failures.is_empty() {
        let advice =
            if bless { "nothing was rewritten" } else { "BLESS=1 accepts the new outputs" };
        return Err(format!("text tests failed; {advice}\n\n{failures}"));
    }
    for (path, text) in rewrites {
        replace(&path, &text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(cases)
}

/// Runs one case. `Err` says why it has no output at all.
fn output_of(case: &Case, commands: &[(&str, Command)]) -> Result<String, String> {
    let Some((name, words)) = case.command.split_first() else {
        return Err("the case has no `// run: COMMAND` line above its input".to_owned());
    };
    let Some((_, command)) = commands.iter().find(|(known, _)| known == name) else {
        let known: Vec<&str> = commands.iter().map(|(known, _)| *known).collect();
        return Err(format!("no command `{name}`; known: {}", known.join(", ")));
    };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let result = catch_unwind(AssertUnwindSafe(|| command(&case.input, &words)));
    let output = match result {
        Ok(Ok(text)) => text,
        Ok(Err(text)) => format!("error: {text}"),
        Err(panic) => return Err(format!("`{name}` panicked: {}", panic_text(&*panic))),
    };
    match output.lines().find(|line| case::is_separator(line)) {
        Some(line) => Err(format!("the output holds a line `{line}`, which ends an expectation")),
        None => Ok(case::without_blank_end(&output).to_owned()),
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned.or(panic.downcast_ref::<&str>().copied()).unwrap_or("with no message")
}

/// All `.txt` files below `dir`, in the order of their paths.
fn text_files(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let describe = |error: std::io::Error| format!("{}: {error}", folder.display());
        for entry in std::fs::read_dir(&folder).map_err(describe)? {
            let path = entry.map_err(describe)?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "txt") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Writes beside the file and renames, so that a file is never half written.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let beside = path.with_extension("blessed");
    std::fs::write(&beside, text)?;
    std::fs::rename(&beside, path)
}
