//! `cargo xtask`: the project's own chores.
//!
//! `tidy` checks what the compiler cannot (direction of dependencies, file headers and sizes,
//! where `unsafe` may stand).

mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>

  tidy            check layers, file headers, file sizes, dependency reasons, unsafe, unwrap";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["tidy"] => tidy::main(),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}
