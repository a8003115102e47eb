//! The runner itself: passing, failing, refusing, blessing.

use filetest::{Command, check};
use std::path::{Path, PathBuf};

const COMMANDS: &[(&str, Command)] = &[
    ("upper", |input, words| Ok(input.to_uppercase() + &words.join(" "))),
    ("refuse", |_, _| Err("not today".to_owned())),
    ("panic", |_, _| panic!("a broken invariant")),
    ("separator", |_, _| Ok("// ====".to_owned())),
];

/// A folder of its own below the target folder, with the given files.
fn folder(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    _ = std::fs::remove_dir_all(&dir);
    for (file, text) in files {
        let path = dir.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    dir
}

fn read(dir: &Path, file: &str) -> String {
    std::fs::read_to_string(dir.join(file)).unwrap()
}

#[test]
fn good_files_pass_at_any_depth() {
    let text = "// run: upper x\nab\n// ----\nAB\nx\n// ====\n// run: refuse\n// ----\n\
                error: not today\n";
    let dir = folder("good", &[("a.txt", text), ("deep/er/b.txt", text), ("c.md", "no test")]);
    assert_eq!(check(&dir, COMMANDS, false), Ok(4));
}

#[test]
fn a_failure_shows_place_and_difference() {
    let dir = folder("bad", &[("a.txt", "\n// run: upper\nab\ncd\n// ----\nAB\nxx\n")]);
    let message = check(&dir, COMMANDS, false).unwrap_err();
    assert!(message.contains("a.txt:2: upper\n    AB\n  - xx\n  + CD\n"), "{message}");
    assert!(message.contains("BLESS=1"), "{message}");
}

#[test]
fn a_case_without_expectation_fails_until_blessed() {
    let dir = folder("new", &[("a.txt", "// run: upper\nab")]);
    assert!(check(&dir, COMMANDS, false).is_err());
    assert_eq!(check(&dir, COMMANDS, true), Ok(1));
    assert_eq!(read(&dir, "a.txt"), "// run: upper\nab\n// ----\nAB\n");
    assert_eq!(check(&dir, COMMANDS, false), Ok(1));
}

#[test]
fn blessing_changes_expectations_alone() {
    let text = "// Why.\n\n// run: upper\nab\n\n// ----\nold\n\n// ====\n\n// run: refuse\n";
    let dir = folder("bless", &[("a.txt", text)]);
    assert_eq!(check(&dir, COMMANDS, true), Ok(2));
    let blessed = "// Why.\n\n// run: upper\nab\n\n// ----\nAB\n// ====\n\n// run: refuse\n\
                   // ----\nerror: not today\n";
    assert_eq!(read(&dir, "a.txt"), blessed);
}

#[test]
fn blessing_is_whole_or_not_at_all() {
    let good = "// run: upper\nab\n// ----\nold\n";
    for broken in ["// run: panic\n", "// run: nobody\n", "no header\n", "// run: separator\n"] {
        let dir = folder("whole", &[("a.txt", good), ("b.txt", broken)]);
        let message = check(&dir, COMMANDS, true).unwrap_err();
        assert!(message.contains("b.txt:1") && message.contains("nothing was rewritten"));
        assert_eq!(read(&dir, "a.txt"), good);
    }
}

#[test]
fn what_cannot_run_says_why() {
    let dir = folder("why", &[("a.txt", "// run: panic\n// ====\n// run: nobody\n")]);
    let message = check(&dir, COMMANDS, false).unwrap_err();
    assert!(message.contains("`panic` panicked: a broken invariant"), "{message}");
    assert!(message.contains("no command `nobody`; known: upper, refuse"), "{message}");
}

#[test]
fn a_missing_folder_is_an_error() {
    assert!(check(Path::new("no/such/folder"), COMMANDS, false).is_err());
}
