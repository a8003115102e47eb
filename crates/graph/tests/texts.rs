//! Text tests of the graph: the text form, the verifier with type inference, compaction, regions.

use filetest::Command;
use graph::{Function, parse, verify};

const COMMANDS: &[(&str, Command)] = &[
    ("print", print),
    ("verify", |text, _| verdict(&read(text)?)),
    ("compact", compact),
    ("rebuild", rebuild),
    ("regions", regions),
    ("copy", copy),
];

#[test]
fn texts() {
    filetest::run(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/texts"), COMMANDS);
}

fn read(text: &str) -> Result<Function, String> {
    parse(text).map_err(|error| error.to_string())
}

/// Prints canonically, and checks that this text prints as itself, and that lines with their places
/// say the same.
fn print(text: &str, _: &[&str]) -> Result<String, String> {
    let printed = read(text)?.to_string();
    check_lines(&read(&printed)?, &printed)?;
    let again = read(&printed)?.to_string();
    if printed == again { Ok(printed) } else { Err(format!("{printed}\nprints as\n{again}")) }
}

/// Lines with their places are those of the text, of which they leave out the places.
fn check_lines(function: &Function, printed: &str) -> Result<(), String> {
    let lines = function.lines();
    for (line, (own, place)) in printed.lines().zip(&lines) {
        let place = function.locations.display(*place).to_string();
        let (head, told) = match line.split_once(" loc(") {
            Some((head, rest)) => (head, format!("loc({rest}")),
            None => (line, "loc()".to_owned()),
        };
        // The lines of a node with regions are all of its place, which the text says at the last.
        let is_inside = own.ends_with('{') || own.trim_start().starts_with("yield");
        if head != own || told != place && !is_inside {
            return Err(format!("`{line}`, at {told}, is `{own}` at {place}"));
        }
    }
    match lines.len() == printed.lines().count() {
        true => Ok(()),
        false => Err(format!("{} lines", lines.len())),
    }
}

fn verdict(function: &Function) -> Result<String, String> {
    verify(function).map(|()| "well-formed".to_owned()).map_err(|found| found.to_string())
}

fn compact(text: &str, _: &[&str]) -> Result<String, String> {
    let mut function = read(text)?;
    function.compact();
    verdict(&function)?;
    Ok(function.to_string())
}

/// Reconstruction that replaces `neg` of `neg`, and reads maps of literals as they are.
fn rebuild(text: &str, _: &[&str]) -> Result<String, String> {
    use graph::Op;
    use tensor::ScalarFunction::Neg;
    let is_neg = |op: Option<&Op>| matches!(op, Some(Op::Map { function: Neg, .. }));
    let function = graph::rebuild(&read(text)?, |rewriter, node| {
        let operands = rewriter.operands(node);
        if !is_neg(Some(&rewriter.source.nodes[node].op)) {
            return Ok(None);
        }
        let function = rewriter.builder.function();
        match function.producer(operands[0]) {
            Some((inner, _)) if is_neg(function.op(operands[0])) => {
                Ok(Some(function.nodes[inner].operands.to_vec()))
            }
            _ => Ok(None),
        }
    })?;
    verdict(&function)?;
    Ok(function.to_string())
}

/// The regions of the nodes of the body as functions, with what they capture.
fn regions(text: &str, _: &[&str]) -> Result<String, String> {
    let function = read(text)?;
    let mut lines = String::new();
    for &node in &function.regions[function.body].nodes {
        for &region in &function.nodes[node].regions {
            let (made, captured) = function.region_function(region);
            verdict(&made)?;
            assert_eq!(captured, function.captures(&[region]));
            lines += &format!("captures {captured:?}\n{made}");
        }
    }
    Ok(lines)
}

/// Adds a copy of the first region of the first node that has one, on the function's first
/// parameters, and returns what it gives.
fn copy(text: &str, _: &[&str]) -> Result<String, String> {
    let function = read(text)?;
    let mut nodes = function.regions[function.body].nodes.iter();
    let region = nodes.find_map(|&node| function.nodes[node].regions.first().copied());
    let region = region.ok_or("no region")?;
    let count = function.regions[region].parameters.len();
    let parameters = function.parameters()[..count].to_vec();
    let mut builder = graph::FunctionBuilder::extend(function);
    let results = builder.copy_region(region, &parameters)?;
    let names = (0..).map(|number| format!("r{number}"));
    let function = builder.finish(names.zip(results).collect());
    verdict(&function)?;
    Ok(function.to_string())
}
