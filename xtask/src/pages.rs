//! The pages of `docs` that are generated from tables in the code.
//!
//! Each page has its command; a test fails while the committed file is not what the command writes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// A generated page.
pub(crate) struct Page {
    /// Where it lies, relative to the repository's root.
    path: &'static str,
    /// Its text.
    text: fn() -> String,
}

/// The operators that the importer supports.
pub(crate) const OPERATORS: Page = Page { path: "docs/operators.md", text: operators };
/// The codes of diagnostics.
pub(crate) const DIAGNOSTICS: Page = Page { path: "docs/diagnostics.md", text: diagnostics };

impl Page {
    fn file(&self) -> PathBuf {
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join(self.path)
    }

    /// Writes the page; nonzero if the system refuses.
    pub(crate) fn write(&self) -> ExitCode {
        match std::fs::write(self.file(), (self.text)()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{}: {error}", self.path);
                ExitCode::FAILURE
            }
        }
    }
}

fn operators() -> String {
    let mut domains: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for row in import_onnx::supported_operators() {
        domains.entry(row.domain).or_default().push(row);
    }
    let mut text = "# Supported operators\n\n\
        Written by `cargo xtask operators` from the importer's table. The numbers are versions\n\
        of the operator set that changed the operator, the oldest supported first; a model of\n\
        any version from there on is read by the meaning of its own version.\n"
        .to_owned();
    for (domain, rows) in domains {
        let _ = writeln!(text, "\n## {domain}: {} operators\n", rows.len());
        text.push_str("| operator | versions |\n|---|---|\n");
        for row in rows {
            let versions: Vec<String> = row.versions.iter().map(ToString::to_string).collect();
            let _ = writeln!(text, "| {} | {} |", row.name, versions.join(", "));
        }
    }
    let refused = import_onnx::refused_operators();
    let _ = writeln!(text, "\n## com.microsoft: {} operators that are refused\n", refused.len());
    text.push_str("| operator | why |\n|---|---|\n");
    for (name, reason) in refused {
        let _ = writeln!(text, "| {name} | {reason} |");
    }
    let rows = import_tflite::supported_operators();
    let _ = writeln!(text, "\n## TensorFlow Lite: {} operators\n", rows.len());
    text.push_str("The numbers are the greatest versions; all before them are read, too.\n\n");
    text.push_str("| operator | version |\n|---|---|\n");
    for (name, version) in rows {
        let _ = writeln!(text, "| {name} | {version} |");
    }
    let names = import_stablehlo::supported_operations();
    let _ = writeln!(text, "\n## StableHLO and CHLO: {} operations\n", names.len());
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    let _ = writeln!(text, "{}.", names.join(", "));
    text
}

fn diagnostics() -> String {
    let mut text = "# Codes of diagnostics\n\n\
        Written by `cargo xtask diagnostics` from the table in `crates/base/src/codes.rs`. Every\n\
        diagnostic has a code, the place in what you wrote, the reason and the remedy. Codes that\n\
        begin with TW09 are errors of the compiler itself (exit status 4): please report them.\n\n\
        | code | what | meaning |\n|---|---|---|\n"
        .to_owned();
    for row in base::codes::CODES {
        let _ = writeln!(text, "| {} | {} | {} |", row.code, row.title, row.explanation);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_pages_are_up_to_date() {
        for page in [OPERATORS, DIAGNOSTICS] {
            let committed = std::fs::read_to_string(page.file()).unwrap_or_default();
            assert!(
                committed == (page.text)(),
                "{} is out of date: `cargo xtask operators` and `cargo xtask diagnostics` write it",
                page.path
            );
        }
    }
}
