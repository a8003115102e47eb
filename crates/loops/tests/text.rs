//! The text tests of the loop IR: `// run: print` prints what was parsed, `verify` and `scheduled`
//! run the verifiers, `measure` prints sizes and counts. Whatever is printed must parse and print
//! the same again.

use std::fmt::Write as _;

use loops::{Kernel, bytes_touched, operations, parse, print_expression, scratch_layout};

fn read(text: &str) -> Result<Kernel, String> {
    let kernel = parse(text).map_err(|errors| errors.to_string())?;
    let printed = kernel.to_string();
    let again = parse(&printed).map_err(|errors| format!("does not parse again: {errors}"))?;
    assert_eq!(again.to_string(), printed, "printing, parsing and printing again");
    Ok(kernel)
}

fn print(text: &str, _: &[&str]) -> Result<String, String> {
    read(text).map(|kernel| kernel.to_string())
}

fn verify(text: &str, _: &[&str]) -> Result<String, String> {
    loops::verify(&read(text)?).map_err(|errors| errors.to_string())?;
    Ok("good".to_owned())
}

fn scheduled(text: &str, _: &[&str]) -> Result<String, String> {
    loops::verify_scheduled(&read(text)?).map_err(|errors| errors.to_string())?;
    Ok("good".to_owned())
}

fn measure(text: &str, _: &[&str]) -> Result<String, String> {
    let kernel = read(text)?;
    let mut out = format!("{} operations\n", print_expression(&kernel, &operations(&kernel)));
    for (id, bytes) in bytes_touched(&kernel) {
        let bytes = print_expression(&kernel, &bytes);
        _ = writeln!(out, "{}: {bytes} bytes touched", kernel.buffer_name(id));
    }
    let layout = scratch_layout(&kernel);
    for (id, offset) in &layout.offsets {
        let offset = print_expression(&kernel, offset);
        _ = writeln!(out, "{}: at {offset} of the scratch memory", kernel.buffer_name(*id));
    }
    _ = writeln!(out, "{} bytes of scratch memory", print_expression(&kernel, &layout.bytes));
    Ok(out)
}

#[test]
fn text_tests() {
    filetest::run(
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/text"),
        &[("print", print), ("verify", verify), ("scheduled", scheduled), ("measure", measure)],
    );
}
