//! Text tests of the checker. What `place` makes is checked wherever a program is lowered.

use filetest::Command;
use memory_plan::TurnOrder;

const COMMANDS: &[(&str, Command)] = &[("check", check)];

#[test]
fn texts() {
    filetest::run(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/texts"), COMMANDS);
}

/// `check`: what the checker says of a program with its memory plan.
fn check(text: &str, _: &[&str]) -> Result<String, String> {
    let program = program::parse(text).map_err(|error| error.to_string())?;
    memory_plan::check(&program, &base::Arena::default(), TurnOrder::Free)
        .map_err(|error| error.to_string())?;
    Ok("holds".to_owned())
}
