//! Text tests of whole modules.

use bytes::Bytes;
use filetest::Command;
use module::{Module, constants_file, parse, verify};

const COMMANDS: &[(&str, Command)] = &[("print", print), ("verify", check)];

#[test]
fn texts() {
    filetest::run(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/texts"), COMMANDS);
}

/// The file to which the texts refer: the bytes 0 to 255, twice.
fn file() -> Bytes {
    (0..512).map(|byte| byte as u8).collect()
}

fn read(text: &str) -> Result<Module, String> {
    parse(text, &file()).map_err(|error| error.to_string())
}

/// Prints, and checks that this text, with the file that belongs to it, prints as itself.
fn print(text: &str, _: &[&str]) -> Result<String, String> {
    let module = read(text)?;
    let printed = module.to_string();
    let again = parse(&printed, &constants_file(&module).into()).map_err(|e| e.to_string())?;
    let again = again.to_string();
    if printed == again { Ok(printed) } else { Err(format!("{printed}\nprints as\n{again}")) }
}

fn check(text: &str, _: &[&str]) -> Result<String, String> {
    let found = verify(&read(text)?);
    found.map(|()| "well-formed".to_owned()).map_err(|found| found.to_string())
}
