//! Standard output whose reader goes away, or that is full.

mod support;

use std::io::Read;
use std::process::{Command, Stdio};

use support::DIGITS;

#[test]
fn a_reader_that_goes_ends_the_command_quietly() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tilewright"))
        .args(["dump", DIGITS, "--stage", "asm", "--dim", "batch=1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    drop(child.stdout.take());
    let mut said = String::new();
    let mut errors = child.stderr.take().expect("a pipe");
    errors.read_to_string(&mut said).expect("text");
    let status = child.wait().expect("it ends");
    assert_eq!((status.code(), said.as_str()), (Some(0), ""));
}

#[test]
fn output_that_cannot_be_written_is_said() {
    let Ok(full) = std::fs::File::options().write(true).open("/dev/full") else {
        eprintln!("skipped: there is no /dev/full");
        return;
    };
    let output = Command::new(env!("CARGO_BIN_EXE_tilewright"))
        .args(["info", DIGITS])
        .stdout(full)
        .output()
        .expect("the binary starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("[TW0301]") && said.contains("standard output"), "{said}");
}
