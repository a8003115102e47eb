//! The examples of the README and the book: each command in a `console` block runs and prints what
//! stands there.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use filetest::console::{console_commands, printed};
use support::Folder;

/// Beginnings of commands that other tests run (`examples/tests/readme.rs`), or that need a network
/// or a browser.
const NOT_OURS: [&str; 6] = ["cargo", "curl", "mdbook", "pip", "python3", "source"];

/// The README and the pages of the book.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let book = std::fs::read_dir(root.join("docs")).expect("the book's folder");
    let mut pages: Vec<PathBuf> = book.map(|entry| entry.expect("an entry").path()).collect();
    pages.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.sort();
    pages.insert(0, root.join("README.md"));
    pages
}

#[test]
fn examples_print_what_they_say() {
    let (mut run, mut wrong) = (0, String::new());
    for page in pages() {
        let text = std::fs::read_to_string(&page).expect("a page");
        // A page's commands share a folder: what one writes, the next may read.
        let folder = Folder::new();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for part in ["crates", "models"] {
            std::os::unix::fs::symlink(root.join(part), folder.path().join(part)).expect("a link");
        }
        for command in console_commands(&text) {
            let words: Vec<&str> = command.words.iter().map(String::as_str).collect();
            let place = format!("{}:{}", page.display(), command.line);
            match words.as_slice() {
                ["tilewright", ..] if wants_what_is_not_there(&command.flags) => {
                    eprintln!("skipped: {place}: `python3 -c \"import onnxruntime\"` fails");
                }
                ["tilewright", arguments @ ..] => {
                    run += 1;
                    let (said, status) = printed(
                        Command::new(env!("CARGO_BIN_EXE_tilewright"))
                            .args(arguments)
                            .current_dir(folder.path())
                            .env("TILEWRIGHT_PROGRESS", "never"),
                    );
                    let should_fail = command.flags.iter().any(|flag| flag == "fails");
                    if let Err(found) = command.check(&said) {
                        wrong += &format!("{}: {found}\n", page.display());
                    } else if status.success() == should_fail {
                        wrong += &format!("{place}: {status}\n");
                    }
                }
                [first, ..] if NOT_OURS.contains(first) => {}
                _ => wrong += &format!("{place}: no command that a test runs: {words:?}\n"),
            }
        }
    }
    assert!(run > 10, "{run} examples");
    assert!(wrong.is_empty(), "{wrong}");
}

fn wants_what_is_not_there(flags: &[String]) -> bool {
    let runs = || {
        let mut python = Command::new("python3");
        printed(python.args(["-c", "import onnxruntime"])).1.success()
    };
    flags.iter().any(|flag| flag == "onnxruntime") && !runs()
}

/// Each page is in the book's table of contents, and what that names is there.
#[test]
fn the_table_of_contents_is_whole() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let contents = std::fs::read_to_string(folder.join("SUMMARY.md")).expect("the contents");
    let named: Vec<&str> =
        contents.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    for page in &named {
        assert!(folder.join(page).is_file(), "{page} is named, but not there");
    }
    for page in pages().iter().skip(1) {
        let name = page.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        assert!(name == "SUMMARY.md" || named.contains(&name), "{name} is in no contents");
    }
}
