//! Text tests: a function in; out the function with the gradients of its first result by all
//! parameters, its tangents by all parameters, or the function of three rows of its first
//! parameter; or why there is none.

use filetest::Command;

use autodiff::TransformRefusal;
use graph::Function;

const COMMANDS: &[(&str, Command)] =
    &[("gradient", gradient), ("tangent", tangent), ("vectorise", vectorise)];

#[test]
fn texts() {
    filetest::run(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/texts"), COMMANDS);
}

fn gradient(text: &str, _: &[&str]) -> Result<String, String> {
    derived(text, |function, all| autodiff::gradient(function, 0, all))
}

fn tangent(text: &str, _: &[&str]) -> Result<String, String> {
    derived(text, autodiff::tangent)
}

fn vectorise(text: &str, _: &[&str]) -> Result<String, String> {
    derived(text, |function, _| autodiff::vectorise(function, &3.into(), &[0]))
}

fn derived(
    text: &str,
    make: impl Fn(&Function, &[usize]) -> Result<Function, TransformRefusal>,
) -> Result<String, String> {
    let function = graph::parse(text).map_err(|error| error.to_string())?;
    graph::verify(&function).map_err(|found| found.to_string())?;
    let parameters: Vec<usize> = (0..function.parameters().len()).collect();
    match make(&function, &parameters) {
        Ok(mut derived) => {
            graph::verify(&derived).map_err(|found| found.to_string())?;
            derived.compact();
            Ok(derived.to_string())
        }
        Err(found) => Ok(format!("{found}\n")),
    }
}
