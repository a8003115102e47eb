//! Text tests of running programs. `// run: run n=4` sets a symbol and runs the program with 1, 2
//! and 4 threads, twice each. Inputs hold 0, 1, ..., then 100, 101, ... and so on, the weights from
//! 1000 on, constants that are read from 2000 on. Printed is what outputs, filled constants and
//! symbols hold in the end. The kernels are those of `common`.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod common;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use base::Id;
use common::{executable, numbers};
use program::Program;
use runtime::{LoadedProgram, State};

fn run(text: &str, words: &[&str]) -> Result<String, String> {
    let program = program::parse(text).map_err(|errors| errors.to_string())?;
    let verified = !words.contains(&"unverified");
    if verified {
        program::verify(&program).map_err(|errors| errors.to_string())?;
    }
    let mut values = BTreeMap::new();
    for (name, value) in words.iter().filter_map(|word| word.split_once('=')) {
        let symbol = program.symbols.iter().find(|(_, symbol)| symbol.name == name);
        values.insert(symbol.ok_or("no such symbol")?.0, value.parse().map_err(|_| "no number")?);
    }
    let executable = executable(&program, &values).map_err(|errors| errors.to_string())?;
    let mut outputs = Vec::new();
    for threads in [1, 2, 4] {
        let state = State::new(executable.clone(), threads);
        let mut state = state.map_err(|errors| errors.to_string())?;
        for _ in 0..2 {
            outputs.push(run_once(&program, &executable, &mut state));
        }
    }
    let first = outputs[0].clone();
    assert!(outputs.iter().all(|output| *output == first), "{outputs:?}");
    first
}

fn run_once(
    program: &Program,
    executable: &Arc<LoadedProgram>,
    state: &mut State,
) -> Result<String, String> {
    let sized = |sizes: &[usize], from: i64| -> Vec<Vec<u8>> {
        (from..).step_by(100).zip(sizes).map(|(from, bytes)| numbers(from, *bytes)).collect()
    };
    let inputs = sized(executable.input_bytes(), 0);
    let mut outputs = sized(executable.output_bytes(), -100);
    let weights = numbers(1000, 256);
    let mut constants = numbers(2000, executable.constant_bytes());
    let mut fill = || -> base::Result<()> {
        let mut call = state.call();
        for (number, input) in inputs.iter().enumerate() {
            call.input(number, input)?;
        }
        for (number, output) in outputs.iter_mut().enumerate() {
            call.output(number, output)?;
        }
        for weight in executable.weights() {
            call.weight(*weight, &weights)?;
        }
        if executable.fills_constants() {
            call.constants_to_fill(&mut constants)?;
        } else {
            call.constants(&constants)?;
        }
        call.run()
    };
    fill().map_err(|errors| errors.to_string())?;
    let mut text = String::new();
    for (number, output) in outputs.iter().enumerate() {
        _ = writeln!(text, "output {number}:{}", integers(output));
    }
    if executable.fills_constants() {
        _ = writeln!(text, "constants:{}", integers(&constants));
    }
    for (id, symbol) in program.symbols.iter() {
        _ = writeln!(text, "{} = {}", symbol.name, state.symbol(Id::new(id.index())).unwrap_or(0));
    }
    Ok(text)
}

fn integers(bytes: &[u8]) -> String {
    let mut text = String::new();
    for eight in bytes.chunks(8) {
        let mut all = [0; 8];
        all[..eight.len()].copy_from_slice(eight);
        _ = write!(text, " {}", i64::from_le_bytes(all));
    }
    text
}

#[test]
fn text_tests() {
    filetest::run(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/text"), &[("run", run)]);
}
