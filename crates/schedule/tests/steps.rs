//! Text tests of the steps: a kernel, a line `---`, and a trace; the output is the kernel after it,
//! or why the first step that is not legal is refused. `BLESS=1` rewrites the outputs.
//!
//! With `fully` the last kernel must also be one that a back end accepts. Every kernel on the way
//! must pass the verifier, and the trace must survive printing and replaying.

use loops::Kernel;
use schedule::{Schedule, parse_trace, print_trace, replay};

fn verified(kernel: &Kernel) -> Result<(), String> {
    loops::verify(kernel).map_err(|error| error.to_string())
}

fn check(input: &str, arguments: &[&str]) -> Result<String, String> {
    let (text, steps) = input.split_once("---\n").ok_or("no line `---` before the steps")?;
    let kernel = loops::parse(text).map_err(|error| error.to_string())?;
    verified(&kernel)?;
    let trace = parse_trace(steps).map_err(|error| error.to_string())?;
    let mut schedule = Schedule::new(kernel.clone());
    for step in trace {
        schedule.apply(step.clone()).map_err(|error| error.to_string())?;
        verified(schedule.kernel()).map_err(|error| format!("after `{step}`: {error}"))?;
    }
    if arguments.contains(&"fully") {
        loops::verify_scheduled(schedule.kernel()).map_err(|error| error.to_string())?;
    }
    let printed = print_trace(schedule.trace());
    let again = parse_trace(&printed).map_err(|error| error.to_string())?;
    let replayed = replay(kernel, &again).map_err(|error| error.to_string())?;
    assert_eq!(&replayed, schedule.kernel(), "replaying the printed trace");
    Ok(schedule.kernel().to_string())
}

#[test]
fn steps() {
    filetest::run(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/steps"), &[("schedule", check)]);
}
