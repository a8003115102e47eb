//! Operators of ONNX Runtime's own domains, compiled, against what ONNX Runtime computes: the cases
//! that the importer's tests evaluate. `TILEWRIGHT_CASES` names the operators that are wanted.

#[path = "../../import-onnx/tests/recorded/mod.rs"]
mod recorded;

use prost::Message;
use recorded::{Prepared, cases, name};
use tensor::Tensor;
use tilewright::{Options, Value};

/// The results of compiled code.
fn run(prepared: &Prepared) -> Result<Vec<Tensor>, String> {
    let options = Options { threads: Some(1), ..Options::default() };
    let executable = tilewright::compile_bytes(prepared.model.encode_to_vec(), &options);
    let executable = executable.map_err(|found| found.to_string())?;
    let inputs: Vec<Value> = prepared.inputs.iter().cloned().map(Value::from).collect();
    let results = executable.run_values(&inputs).map_err(|found| found.to_string())?;
    Ok(results.into_iter().flat_map(Value::into_tensors).collect())
}

#[test]
fn compiled_operators_are_as_in_onnx_runtime() {
    let only = std::env::var("TILEWRIGHT_CASES").unwrap_or_default();
    let mut wrong = Vec::new();
    for case in cases().iter().filter(|case| name(case).contains(&only)) {
        let prepared = Prepared::of(case, |_| true);
        if let Err(reason) = run(&prepared).and_then(|results| prepared.compare(&results)) {
            wrong.push(format!("{}: {reason}", name(case)));
        }
    }
    assert!(wrong.is_empty(), "{} cases are wrong:\n{}", wrong.len(), wrong.join("\n"));
}
