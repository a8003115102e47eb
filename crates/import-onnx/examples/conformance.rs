//! Runs ONNX-style cases through the importer and the graph evaluator.
//!
//!     cargo run -p tilewright-import-onnx --example conformance -- FOLDER [FILTER] [-v]
//!
//! A case is a folder with `model.onnx`, perhaps `tol.json`, and `test_data_set_<i>` with
//! `input_<j>.pb` and `output_<j>.pb`. Prints, by operator, how many cases passed, failed and were
//! refused; with `-v` also why. The tolerance is that of the case, but at least 1e-5 absolute.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use base::ConstantId;
use import_onnx::{ImportOptions, import, inspect, read_tensor};
use tensor::{DType, Tensor, compare};

#[derive(Clone, PartialEq)]
enum Outcome {
    Passed,
    Failed(String),
    Refused(String),
    Panicked(String),
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_verbose = arguments.iter().any(|argument| argument == "-v");
    let mut words = arguments.iter().filter(|argument| *argument != "-v");
    let Some(folder) = words.next() else {
        eprintln!("usage: conformance FOLDER [FILTER] [-v]");
        std::process::exit(2);
    };
    let filter = words.next().map_or("", String::as_str);
    let mut cases = Vec::new();
    find_cases(Path::new(folder), &mut cases);
    cases.sort();
    cases.retain(|case| case.to_string_lossy().contains(filter));
    std::panic::set_hook(Box::new(|_| {}));

    let mut table: BTreeMap<String, [usize; 4]> = BTreeMap::new();
    for case in &cases {
        let outcome = catch_unwind(AssertUnwindSafe(|| run_case(case)))
            .unwrap_or_else(|payload| Outcome::Panicked(panic_text(&*payload)));
        let (column, reason) = match &outcome {
            Outcome::Passed => (0, None),
            Outcome::Failed(reason) => (1, Some(("FAILED", reason))),
            Outcome::Refused(reason) => (2, Some(("REFUSED", reason))),
            Outcome::Panicked(reason) => (3, Some(("PANICKED", reason))),
        };
        table.entry(operators(case)).or_default()[column] += 1;
        if let Some((word, reason)) = reason.filter(|_| is_verbose) {
            println!("{word} {}: {reason}", case.display());
        }
    }
    let mut total = [0; 4];
    println!("passed failed refused panicked");
    for (operators, counts) in &table {
        for (sum, count) in total.iter_mut().zip(counts) {
            *sum += count;
        }
        let [passed, failed, refused, panicked] = counts;
        println!("{passed:6} {failed:6} {refused:7} {panicked:8}  {operators}");
    }
    let [passed, failed, refused, panicked] = total;
    println!("{passed:6} {failed:6} {refused:7} {panicked:8}  all {} cases", cases.len());
}

fn panic_text(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().cloned();
    text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_default()
}

fn find_cases(folder: &Path, cases: &mut Vec<PathBuf>) {
    if folder.join("model.onnx").is_file() {
        cases.push(folder.to_owned());
        return;
    }
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten().filter(|entry| entry.path().is_dir()) {
        find_cases(&entry.path(), cases);
    }
}

/// The operators of a case's model; of many only the number.
fn operators(case: &Path) -> String {
    match inspect(&case.join("model.onnx")) {
        Ok(info) if info.operators.len() > 4 => format!("({} operators)", info.operators.len()),
        Ok(info) => info.operators.into_keys().collect::<Vec<_>>().join(","),
        Err(_) => "(unreadable)".to_owned(),
    }
}

fn run_case(case: &Path) -> Outcome {
    let path = case.join("model.onnx");
    let mut sets: Vec<PathBuf> = std::fs::read_dir(case)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect();
    sets.sort();
    let (rtol, atol) = tolerance(&case.join("tol.json"));
    let mut options = ImportOptions::default();
    let info = match inspect(&path) {
        Ok(info) => info,
        Err(found) => return Outcome::Refused(found.to_string()),
    };
    for set in &sets {
        let (inputs, outputs) = match (tensors(set, "input"), tensors(set, "output")) {
            (Ok(inputs), Ok(outputs)) => (inputs, outputs),
            (Err(reason), _) | (_, Err(reason)) => return Outcome::Refused(reason),
        };
        // Inputs whose rank the model leaves open have the shape of the data.
        for (value, input) in info.inputs.iter().zip(&inputs) {
            if value.shape.is_none() {
                let shape = input.shape().iter().map(|&extent| extent as i64).collect();
                options.input_shapes.insert(value.name.clone(), shape);
            }
        }
        let symbolic = run_set(&path, &options, &inputs, &outputs, rtol, atol);
        let outcome = match symbolic {
            Outcome::Refused(_) => {
                // Once more with all shapes, and the values of small inputs, known.
                for (value, input) in info.inputs.iter().zip(&inputs) {
                    let shape = input.shape().iter().map(|&extent| extent as i64).collect();
                    options.input_shapes.insert(value.name.clone(), shape);
                    if input.len() <= 64 && input.dtype() != DType::String {
                        options.input_values.insert(value.name.clone(), input.clone());
                    }
                }
                run_set(&path, &options, &inputs, &outputs, rtol, atol)
            }
            outcome => outcome,
        };
        if outcome != Outcome::Passed {
            return outcome;
        }
    }
    Outcome::Passed
}

fn run_set(
    path: &Path,
    options: &ImportOptions,
    inputs: &[Tensor],
    outputs: &[Tensor],
    rtol: f64,
    atol: f64,
) -> Outcome {
    let module = match import(path, options) {
        Ok(module) => module,
        Err(found) => return Outcome::Refused(found.to_string()),
    };
    let Some((_, function)) = module.functions.iter().next() else {
        return Outcome::Failed("the module holds no function".to_owned());
    };
    if let Err(found) = graph::verify(function) {
        return Outcome::Failed(format!("does not verify: {found}"));
    }
    let constant = |id: ConstantId| module.constants[id].tensor.clone();
    let results =
        match eval::graph::evaluate(function, &constant, inputs, eval::Precision::Declared) {
            Ok(results) => results,
            Err(fault) => return Outcome::Failed(fault.to_string()),
        };
    for (number, (result, expected)) in results.iter().zip(outputs).enumerate() {
        if result.dtype() == DType::String || expected.dtype() == DType::String {
            return Outcome::Refused("strings".to_owned());
        }
        let comparison = compare(result, expected, rtol, atol);
        if !comparison.passed() {
            return Outcome::Failed(format!("output {number}: {comparison}"));
        }
    }
    Outcome::Passed
}

fn tensors(folder: &Path, kind: &str) -> Result<Vec<Tensor>, String> {
    let mut tensors = Vec::new();
    loop {
        let path = folder.join(format!("{kind}_{}.pb", tensors.len()));
        if !path.is_file() {
            return Ok(tensors);
        }
        let bytes = tensor::map_file(&path).map_err(|found| found.to_string())?;
        let (_, tensor) = read_tensor(bytes).map_err(|found| found.to_string())?;
        tensors.push(tensor);
    }
}

/// `rtol` and `atol` of a file like `{"rtol": 0.001, "atol": 1e-07}`.
fn tolerance(path: &Path) -> (f64, f64) {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let number = |key: &str| -> Option<f64> {
        let rest = text.split_once(&format!("\"{key}\":"))?.1;
        rest.split([',', '}']).next()?.trim().parse().ok()
    };
    (number("rtol").unwrap_or(1e-3), number("atol").unwrap_or(1e-7).max(1e-5))
}
