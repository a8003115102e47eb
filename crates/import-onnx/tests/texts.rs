//! Text tests of the importer: a model in the form of `testkit::onnx_text`, to the function, its
//! results, or what is said about it.

use base::text::Parser;
use filetest::Command;
use import_onnx::{DecodedModel, ImportOptions, import_bytes};
use module::Module;
use prost::Message;
use tensor::Tensor;
use testkit::onnx_text;

const COMMANDS: &[(&str, Command)] = &[("import", import), ("run", run), ("info", info)];

#[test]
fn texts() {
    filetest::run(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/texts"), COMMANDS);
}

/// `n=3` binds a dimension, `+w` makes a constant a literal.
fn options(arguments: &[&str]) -> Result<ImportOptions, String> {
    let mut options = ImportOptions::default();
    for argument in arguments {
        if let Some(name) = argument.strip_prefix('+') {
            options.literals.insert(name.to_owned());
            continue;
        }
        let (name, value) = argument.split_once('=').ok_or("an argument is NAME=N")?;
        let value = value.parse().map_err(|_| "an argument is NAME=N".to_owned())?;
        options.dims.insert(name.to_owned(), value);
    }
    Ok(options)
}

/// The module, and what follows the model in the text.
fn module(parser: &mut Parser<'_>, arguments: &[&str]) -> Result<Module, String> {
    let model = onnx_text::parse_model(parser).map_err(|error| error.to_string())?;
    let bytes = model.encode_to_vec();
    let module =
        import_bytes(bytes.into(), &options(arguments)?).map_err(|found| found.to_string())?;
    for (_, function) in module.functions.iter() {
        graph::verify(function).map_err(|found| format!("does not verify: {found}"))?;
    }
    Ok(module)
}

/// Prints the function, without nodes that nothing reads and without locations.
fn import(text: &str, arguments: &[&str]) -> Result<String, String> {
    let mut parser = Parser::new(text);
    let module = module(&mut parser, arguments)?;
    parser.expect_end().map_err(|error| error.to_string())?;
    let mut lines = String::new();
    for (_, function) in module.functions.iter() {
        let mut function = (**function).clone();
        function.compact();
        for line in function.to_string().lines() {
            lines += line.split(" loc(").next().unwrap_or_default();
            lines.push('\n');
        }
    }
    Ok(lines)
}

/// Evaluates the function on the tensors given as `given f32[2] {1.0, 2.0}`.
fn run(text: &str, arguments: &[&str]) -> Result<String, String> {
    let mut parser = Parser::new(text);
    let module = module(&mut parser, arguments)?;
    let mut inputs: Vec<Tensor> = Vec::new();
    while parser.keyword("given") {
        inputs.push(onnx_text::tensor(&mut parser).map_err(|error| error.to_string())?);
    }
    parser.expect_end().map_err(|error| error.to_string())?;
    let mut lines = String::new();
    for (_, function) in module.functions.iter() {
        let constant = |id| module.constants[id].tensor.clone();
        let results = eval::graph::evaluate(
            function,
            &constant,
            &inputs,
            eval::EvaluationPrecision::Declared,
        )
        .map_err(|fault| fault.to_string())?;
        for (name, result) in function.result_names.iter().zip(results) {
            let (dtype, shape) = (result.dtype(), result.shape());
            lines += &format!("{name}: {dtype}{shape:?} {}\n", graph::literal_text(&result));
        }
    }
    Ok(lines)
}

/// Says what the file holds.
fn info(text: &str, _: &[&str]) -> Result<String, String> {
    let mut parser = Parser::new(text);
    let model = onnx_text::parse_model(&mut parser).map_err(|error| error.to_string())?;
    parser.expect_end().map_err(|error| error.to_string())?;
    let model = DecodedModel::of(model.encode_to_vec().into(), &base::Limits::default())
        .map_err(|found| found.to_string())?;
    Ok(format!("{:#?}\n", model.info()))
}
