//! What the tests of the binary share: folders of their own, running it, reading what it said.

#![allow(dead_code, reason = "each test uses a part")]

pub(crate) mod files;

use std::path::Path;
use std::process::{Command, Output};

pub(crate) use testkit::Folder;

/// The repository's trained digit classifier.
pub(crate) const DIGITS: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/digits/digits.onnx");

/// The binary in a folder; how long it takes changes nothing of what it says.
fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tilewright"));
    command.args(arguments).current_dir(folder).env("TILEWRIGHT_PROGRESS", "never");
    command
}

/// Runs the binary in a folder.
pub(crate) fn tilewright(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, arguments).output().expect("the binary starts")
}

/// As [`tilewright`], with a file of the folder as standard input.
pub(crate) fn tilewright_reading(folder: &Path, arguments: &[&str], file: &str) -> Output {
    let file = std::fs::File::open(folder.join(file)).expect("the file is there");
    command(folder, arguments).stdin(file).output().expect("the binary starts")
}

/// Runs the binary, which must succeed; what it printed.
///
/// # Panics
///
/// With what it said, if it fails.
pub(crate) fn succeed(arguments: &[&str]) -> String {
    let output = tilewright(Path::new("."), arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {}\n{said}", output.status);
    String::from_utf8(output.stdout).expect("prints UTF-8")
}

/// The targets that this machine can run; those it cannot are named on standard error.
pub(crate) fn runnable_targets() -> Vec<&'static str> {
    let runs = |target: &&str| {
        let output = tilewright(Path::new("."), &["run", DIGITS, "--target", target]);
        let said = String::from_utf8_lossy(&output.stderr);
        let lacks = said.contains("[TW0402]");
        if lacks {
            eprintln!("skipped: this machine cannot run {target}");
        }
        !lacks
    };
    ["x86-64-v3", "x86-64-v4", "x86-64-v4-bf16"].into_iter().filter(runs).collect()
}

/// A folder with the trained models; `None`, said aloud, where they are not there.
pub(crate) fn trained_models() -> Option<Folder> {
    shared_data("real-models-12.tar.xz")
}

/// A folder with an archive of the shared data beside the repository, unpacked; `None`, said aloud,
/// where it is not there.
pub(crate) fn shared_data(archive: &str) -> Option<Folder> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(archive);
    if !path.is_file() {
        eprintln!("skipped: {archive} is not there (../shared/data)");
        return None;
    }
    let folder = Folder::new();
    let unpacked = Command::new("tar").arg("-xJf").arg(path).arg("-C").arg(folder.path()).status();
    if unpacked.is_ok_and(|status| status.success()) {
        return Some(folder);
    }
    eprintln!("skipped: the system's tar does not unpack {archive}");
    None
}
