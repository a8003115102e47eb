//! What the tests of the binary share: folders of their own, running it, reading what it said.

#![allow(dead_code, reason = "each test uses a part")]

use std::path::Path;
use std::process::{Command, Output};

pub(crate) use testkit::Folder;

/// The repository's trained digit classifier.
pub(crate) const DIGITS: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/digits/digits.onnx");

/// Runs the binary in a folder.
pub(crate) fn tilewright(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tilewright"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("the binary starts")
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
        let output = tilewright(Path::new("."), &["run", DIGITS, "--random", "--target", target]);
        let said = String::from_utf8_lossy(&output.stderr);
        let lacks = said.contains("[TW0402]");
        if lacks {
            eprintln!("skipped: this machine cannot run {target}");
        }
        !lacks
    };
    ["x86-64-v3", "x86-64-v4", "x86-64-v4-bf16"].into_iter().filter(runs).collect()
}

/// A folder with the trained models, unpacked from the shared data beside the repository; `None`,
/// said aloud, where these are not there.
pub(crate) fn trained_models() -> Option<Folder> {
    let archive =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/real-models-12.tar.xz");
    if !Path::new(archive).is_file() {
        eprintln!("skipped: the trained models are not there (../shared/data)");
        return None;
    }
    let folder = Folder::new();
    let unpacked =
        Command::new("tar").arg("-xJf").arg(archive).arg("-C").arg(folder.path()).status();
    if unpacked.is_ok_and(|status| status.success()) {
        return Some(folder);
    }
    eprintln!("skipped: the system's tar does not unpack {archive}");
    None
}
