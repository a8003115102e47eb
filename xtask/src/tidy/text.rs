//! Rules on files: header, width, length, `unsafe`, `unwrap`, paths of somebody's machine.

use super::Finding;
use super::code::{has_word, test_lines};

const WIDTH: usize = 100;
const AIM: usize = 600;
const LIMIT: usize = 900;

/// Where `unsafe` may stand: a path's beginning and the reason. Each block still says `SAFETY:`.
const UNSAFE_ALLOWED: [(&str, &str); 8] = [
    ("crates/runtime/", "executable memory, arenas and calls of generated code"),
    ("crates/backend-x64/", "emits the code that others run"),
    ("crates/tensor/", "typed views of storage; mapped files"),
    ("crates/python/src/memory.rs", "memory that arrays of Python share with tensors"),
    ("crates/pjrt/src/boundary.rs", "what crosses the C interface of PJRT"),
    ("crates/pjrt/src/table.rs", "the symbol that callers of PJRT look for, and pointers to code"),
    ("crates/testkit/src/allocations.rs", "an allocator that counts"),
    ("xtask/src/peak/", "inline assembly that measures the machine"),
];

/// The first line that is not blank is a `//!` header.
pub(super) fn opens_with_a_header(text: &str) -> Vec<Finding> {
    match text.lines().find(|line| !line.trim().is_empty()) {
        Some(line) if line.starts_with("//!") => Vec::new(),
        _ => vec![Finding::new(1, "must open with a `//!` header that says what the file is")],
    }
}

/// No line is wider than 100 columns.
pub(super) fn fits_the_width(text: &str) -> Vec<Finding> {
    let widths = text.lines().map(|line| line.chars().count()).enumerate();
    let wide = widths.filter(|&(_, width)| width > WIDTH);
    wide.map(|(i, width)| Finding::new(i + 1, format!("{width} columns; at most {WIDTH}")))
        .collect()
}

/// How a file's length is judged.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Length {
    Fine,
    Long(usize),
    TooLong(usize),
}

/// Files aim for 600 lines and have at most 900.
pub(super) fn length(text: &str) -> Length {
    match text.lines().count() {
        n if n > LIMIT => Length::TooLong(n),
        n if n > AIM => Length::Long(n),
        _ => Length::Fine,
    }
}

pub(super) fn may_hold_unsafe(file: &str) -> bool {
    UNSAFE_ALLOWED.iter().any(|(start, _)| file.starts_with(start))
}

/// The word `unsafe` does not stand in code.
pub(super) fn holds_no_unsafe(code: &str) -> Vec<Finding> {
    let lines = code.lines().enumerate().filter(|(_, line)| has_word(line, "unsafe"));
    lines.map(|(i, _)| Finding::new(i + 1, "`unsafe` has no place in this crate")).collect()
}

/// Tests, benchmarks and chores may panic on surprise.
pub(super) fn may_unwrap(file: &str) -> bool {
    let mut parts = file.split('/');
    parts.any(|part| matches!(part, "tests" | "tests.rs" | "benches" | "xtask"))
}

/// No `.unwrap()` outside `#[cfg(test)]`: say `expect("why it holds")` or return an error.
pub(super) fn unwraps_nothing(code: &str) -> Vec<Finding> {
    let tests = test_lines(code);
    let lines = code.lines().enumerate();
    let bare = lines.filter(|(i, line)| line.contains(".unwrap()") && !tests[*i]);
    bare.map(|(i, _)| Finding::new(i + 1, "bare `unwrap()` outside tests")).collect()
}

/// No committed byte sequence names a folder of somebody's machine, as exporters love to do.
pub(super) fn names_no_machine_path(bytes: &[u8]) -> Vec<Finding> {
    // Taken apart, so that this file passes its own rule.
    let roots =
        [["/ro", "ot/"], ["/ho", "me/"], ["/Us", "ers/"], ["/wo", "rk/"]].map(|r| r.concat());
    let mut findings = Vec::new();
    for (index, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
        for root in &roots {
            let mut windows = line.windows(root.len()).enumerate();
            if windows.any(|(at, window)| window == root.as_bytes() && !continues_a_path(line, at))
            {
                findings.push(Finding::new(index + 1, format!("names a path under `{root}`")));
            }
        }
    }
    findings
}

/// Whether the slash at `at` lies inside a longer path, an address or a variable's expansion.
fn continues_a_path(line: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).map(|index| line[index]);
    before.is_some_and(|byte| byte.is_ascii_alphanumeric() || b"_-.}~*".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::super::code::only_code;
    use super::*;

    fn lines(findings: Vec<Finding>) -> Vec<usize> {
        findings.iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_header_comes_first() {
        assert_eq!(lines(opens_with_a_header("\n//! What it is.\nfn f() {}")), [0; 0]);
        assert_eq!(lines(opens_with_a_header("// no header\n//! late")), [1]);
        assert_eq!(lines(opens_with_a_header("")), [1]);
    }

    #[test]
    fn width_counts_characters() {
        let text = format!("{}\n{}\n{}", "x".repeat(100), "é".repeat(100), "x".repeat(101));
        assert_eq!(lines(fits_the_width(&text)), [3]);
    }

    #[test]
    fn length_has_an_aim_and_a_limit() {
        assert_eq!(length(&"\n".repeat(600)), Length::Fine);
        assert_eq!(length(&"\n".repeat(601)), Length::Long(601));
        assert_eq!(length(&"\n".repeat(901)), Length::TooLong(901));
    }

    #[test]
    fn unsafe_is_found_in_code_alone() {
        let code = only_code("// unsafe\nlet s = \"unsafe\";\nunsafe { f() }\n");
        assert_eq!(lines(holds_no_unsafe(&code)), [3]);
        assert!(may_hold_unsafe("crates/runtime/src/memory.rs"));
        assert!(may_hold_unsafe("xtask/src/peak/assembly.rs"));
        assert!(!may_hold_unsafe("crates/runtime-extra/src/lib.rs"));
        assert!(!may_hold_unsafe("xtask/src/main.rs"));
    }

    #[test]
    fn unwrap_belongs_to_tests() {
        let text = "fn a() { b().unwrap(); }\n// .unwrap()\n#[cfg(test)]\nmod t {\n\
                    fn c() { d().unwrap(); }\n}\nfn e() { f().unwrap_or(0); }\n";
        assert_eq!(lines(unwraps_nothing(&only_code(text))), [1]);
        assert!(may_unwrap("crates/base/tests/all.rs") && may_unwrap("crates/base/src/tests.rs"));
        assert!(!may_unwrap("crates/base/src/lib.rs"));
    }

    #[test]
    fn machine_paths_are_found_in_any_bytes() {
        let own = ["/ho", "me/me/x"].concat();
        assert_eq!(lines(names_no_machine_path(format!("a\n\u{1}{own}\n").as_bytes())), [2]);
        assert_eq!(lines(names_no_machine_path(format!("\"{own}\"").as_bytes())), [1]);
        let fine = format!("https://example.org{own} and $DIR{own} and ../..{own}");
        assert_eq!(lines(names_no_machine_path(fine.as_bytes())), [0; 0]);
    }
}
