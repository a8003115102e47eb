//! Every text test below this folder, and the commands that they may name.

use filetest::Command;

/// To add a command: write a function from input text and arguments to output text, and give it a
/// row here.
const COMMANDS: &[(&str, Command)] = &[];

#[test]
fn texts() {
    filetest::run(concat!(env!("CARGO_MANIFEST_DIR"), "/tests"), COMMANDS);
}
