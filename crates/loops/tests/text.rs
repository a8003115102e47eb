//! The text tests of the loop IR: `// run: print` prints what was parsed, `verify`, `bounds` and
//! `scheduled` run the verifiers, `measure` prints sizes and counts, `share` which parameters may
//! take the memory of which. Whatever is printed must parse and print the same again.

use std::fmt::Write as _;

use loops::{Kernel, Stmt, bytes_touched, operations, parse, print_expression, scratch_layout};

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

fn bounds(text: &str, _: &[&str]) -> Result<String, String> {
    loops::verify_bounds(&read(text)?).map_err(|errors| errors.to_string())?;
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

fn share(text: &str, _: &[&str]) -> Result<String, String> {
    let kernel = read(text)?;
    loops::verify(&kernel).map_err(|errors| errors.to_string())?;
    let mut out = String::new();
    for &written in &kernel.parameters {
        for &read in &kernel.parameters {
            if loops::may_share(&kernel, read, written) {
                let [written, read] = [written, read].map(|id| kernel.buffer_name(id));
                _ = writeln!(out, "{written} may be {read}");
            }
        }
    }
    Ok(if out.is_empty() { "none may be another".to_owned() } else { out })
}

#[test]
fn text_tests() {
    filetest::run(
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/text"),
        &[
            ("print", print),
            ("verify", verify),
            ("bounds", bounds),
            ("scheduled", scheduled),
            ("measure", measure),
            ("share", share),
        ],
    );
}

/// Steps reorder loops, ids stay: the text must not depend on that.
#[test]
fn terms_stand_in_the_order_in_which_the_text_declares_them() {
    let text = "kernel @k(n: shape 0 in 15..=64, %c: write f32[n]) {
  for i < 8 {
    for j < 8 {
      %c[i + j] = 1.0
    }
  }
}
";
    let mut kernel = parse(text).expect("parses");
    let Stmt::For(outer) = &mut kernel.body[0] else { panic!("a loop") };
    let Stmt::For(inner) = &mut outer.body[0] else { panic!("a loop") };
    std::mem::swap(&mut outer.variable, &mut inner.variable);
    let printed = kernel.to_string();
    assert!(printed.contains("%c[j + i] = 1.0"), "{printed}");
    assert_eq!(read(&printed).expect("parses again").to_string(), printed);
}
