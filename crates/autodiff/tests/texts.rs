//! Text tests of gradients: a function in, the function with the gradients of its first result by
//! all parameters out, or why there are none.

use filetest::Command;

const COMMANDS: &[(&str, Command)] = &[("gradient", gradient)];

#[test]
fn texts() {
    filetest::run(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/texts"), COMMANDS);
}

fn gradient(text: &str, _: &[&str]) -> Result<String, String> {
    let function = graph::parse(text).map_err(|error| error.to_string())?;
    graph::verify(&function).map_err(|found| found.to_string())?;
    let parameters: Vec<usize> = (0..function.parameters().len()).collect();
    match autodiff::gradient(&function, 0, &parameters) {
        Ok(mut derived) => {
            graph::verify(&derived).map_err(|found| found.to_string())?;
            derived.compact();
            Ok(derived.to_string())
        }
        Err(found) => Ok(format!("{found}\n")),
    }
}
