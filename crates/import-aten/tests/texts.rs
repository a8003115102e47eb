//! Text tests of the importer: a trace to the function, to its results, or to what is refused.

use base::Limits;
use base::text::Parser;
use filetest::Command;
use import_aten::{AtenTrace, import, refused};
use tensor::Tensor;

const COMMANDS: &[(&str, Command)] = &[("import", print), ("run", run), ("refused", refusals)];

#[test]
fn texts() {
    filetest::run(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/texts"), COMMANDS);
}

fn trace(text: &str) -> Result<AtenTrace, String> {
    AtenTrace::parse(text).map_err(|error| error.to_string())
}

/// A tensor for each declared value: its elements count up in quarters, or in ones.
fn counting(declared: &[(String, import_aten::Declared)], extent: i64) -> Vec<Tensor> {
    let tensor = |(_, ty): &(String, import_aten::Declared)| {
        let shape: Vec<usize> = ty
            .stored_shape()
            .iter()
            .map(|it| it.as_constant().unwrap_or(extent) as usize)
            .collect();
        let step = if ty.dtype.is_float() { 0.25 } else { 1.0 };
        let count: usize = shape.iter().product();
        let numbers: Vec<f64> = (0..count).map(|at| at as f64 * step - 1.0).collect();
        Tensor::from_vec(&shape, numbers).cast(ty.dtype)
    };
    declared.iter().map(tensor).collect()
}

/// Prints the function, without nodes that nothing reads and without locations.
fn print(text: &str, _: &[&str]) -> Result<String, String> {
    let trace = trace(text)?;
    let weights = counting(&trace.weights, 2);
    let module = import(&trace, &weights, &Limits::default()).map_err(|found| found.to_string())?;
    let mut lines = String::new();
    for (_, function) in module.functions.iter() {
        graph::verify(function).map_err(|found| format!("does not verify: {found}"))?;
        let mut function = (**function).clone();
        function.compact();
        for line in function.to_string().lines() {
            lines += line.split(" loc(").next().unwrap_or_default();
            lines.push('\n');
        }
    }
    Ok(lines)
}

/// Evaluates the function on counting inputs; symbols are 2, or the argument.
fn run(text: &str, arguments: &[&str]) -> Result<String, String> {
    let extent = match arguments {
        [number] => Parser::new(number).integer().map_err(|error| error.to_string())?,
        _ => 2,
    };
    let trace = trace(text)?;
    let weights = counting(&trace.weights, extent);
    let module = import(&trace, &weights, &Limits::default()).map_err(|found| found.to_string())?;
    let function = module.functions.values().next().ok_or("no function")?;
    let constant = |id| module.constants[id].tensor.clone();
    let inputs = counting(&trace.inputs, extent);
    let precision = eval::EvaluationPrecision::Declared;
    let results = eval::graph::evaluate(function, &constant, &inputs, precision)
        .map_err(|fault| fault.to_string())?;
    let line = |result: &Tensor| {
        let numbers: Vec<String> =
            result.scalars().map(|it| format!("{:.4}", it.as_f64())).collect();
        format!("{}{:?}: {}\n", result.dtype(), result.shape(), numbers.join(" "))
    };
    Ok(results.iter().map(line).collect())
}

/// The refused nodes, a line each.
fn refusals(text: &str, _: &[&str]) -> Result<String, String> {
    let found = refused(&trace(text)?, &Limits::default());
    Ok(found.iter().map(|(node, found)| format!("{node}: {found}\n")).collect())
}
