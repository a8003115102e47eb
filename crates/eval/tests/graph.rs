//! Text tests of the graph evaluator: a function, then the tensors it is given, to its results.
//!
//! `constant f32[2] {1.0, 2.0}` is the next constant of the module, `input ...` the next input.

use base::Id;
use base::text::Parser;
use eval::EvaluationPrecision;
use filetest::Command;
use tensor::{DType, Tensor};

const COMMANDS: &[(&str, Command)] = &[
    ("evaluate", |text, arguments| Ok(run(text, arguments)?.results)),
    // Every value as it comes to be.
    ("observe", |text, arguments| Ok(run(text, arguments)?.observed)),
];

#[test]
fn texts() {
    filetest::run(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/graph"), COMMANDS);
}

#[derive(Default)]
struct Shown {
    results: String,
    observed: String,
}

fn run(text: &str, arguments: &[&str]) -> Result<Shown, String> {
    let mut shown = Shown::default();
    let precision =
        if arguments == ["f64"] { EvaluationPrecision::F64 } else { EvaluationPrecision::Declared };
    let mut parser = Parser::new(text);
    let function = graph::parse_function(&mut parser, base::Locations::new());
    let function = function.map_err(|error| error.to_string())?;
    graph::verify(&function).map_err(|error| error.to_string())?;
    let (mut constants, mut inputs) = (Vec::new(), Vec::new());
    while !parser.at_end() {
        let list = if parser.keyword("constant") { &mut constants } else { &mut inputs };
        parser.keyword("input");
        list.push(tensor(&mut parser).map_err(|error| error.to_string())?);
    }
    let constant = |id: base::ConstantId| constants[id.index()].clone();
    let names = function.value_texts();
    let results = eval::graph::evaluate_observed(
        &function,
        &constant,
        &inputs,
        precision,
        &mut |value, tensor| shown.observed += &format!("{}: {}\n", names[&value], show(tensor)),
    );
    let results = results.map_err(|fault| fault.to_string())?;
    for (name, result) in function.result_names.iter().zip(results) {
        shown.results += &format!("{name}: {}\n", show(result.as_tensor().expect("a tensor")));
    }
    Ok(shown)
}

fn show(tensor: &Tensor) -> String {
    format!("{}{:?} {}", tensor.dtype(), tensor.shape(), graph::literal_text(tensor))
}

/// Reads `f32[2] {1.0, 2.0}`.
fn tensor(parser: &mut Parser<'_>) -> Result<Tensor, base::text::TextError> {
    let name = parser.identifier()?;
    let dtype = DType::parse(name).ok_or_else(|| parser.error("an element type"))?;
    let shape = parser.list("[", ",", "]", |parser| Ok(parser.unsigned()? as usize))?;
    graph::parse_literal(parser, dtype, &shape)
}
