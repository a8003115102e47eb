//! Text tests of format choice: a function before, the remarks and the function after.

use backend::Target;
use filetest::Command;
use tilewright_lower::formats;

const COMMANDS: &[(&str, Command)] = &[("formats", choose)];

#[test]
fn texts() {
    filetest::run(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/formats"), COMMANDS);
}

/// `formats TARGET`
fn choose(text: &str, arguments: &[&str]) -> Result<String, String> {
    let target = arguments.first().and_then(|name| Target::named(name));
    let target = target.ok_or("the argument is no target")?;
    let function = graph::parse(text).map_err(|error| error.to_string())?;
    let mut remarks = Vec::new();
    let chosen =
        formats::choose(function, &target, &mut remarks).map_err(|error| error.to_string())?;
    graph::verify(&chosen).map_err(|error| error.to_string())?;
    let remarks: String = remarks.iter().map(|remark| format!("// {}\n", remark.message)).collect();
    Ok(format!("{remarks}{chosen}"))
}
