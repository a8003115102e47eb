//! The text tests of the program IR: `// run: print` prints what was parsed, `verify` runs the
//! verifier. Whatever is printed must parse and print the same again.

use program::{Program, parse};

fn read(text: &str) -> Result<Program, String> {
    let program = parse(text).map_err(|errors| errors.to_string())?;
    let printed = program.to_string();
    let again = parse(&printed).map_err(|errors| format!("does not parse again: {errors}"))?;
    assert_eq!(again, program, "printing and parsing");
    assert_eq!(again.to_string(), printed, "printing, parsing and printing again");
    Ok(program)
}

fn print(text: &str, _: &[&str]) -> Result<String, String> {
    read(text).map(|program| program.to_string())
}

fn verify(text: &str, _: &[&str]) -> Result<String, String> {
    program::verify(&read(text)?).map_err(|errors| errors.to_string())?;
    Ok("good".to_owned())
}

#[test]
fn text_tests() {
    filetest::run(
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/text"),
        &[("print", print), ("verify", verify)],
    );
}
