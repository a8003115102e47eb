//! A reader of standard output that goes away.

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
