//! Models as text, compiled.
#![allow(dead_code, reason = "no test uses all")]

use base::text::Parser;
use import_onnx::proto::ModelProto;
use prost::Message;
use testkit::onnx_text::parse_model;
use tilewright::{Executable, Options, Tensor};

/// The model of a text, compiled; none, said aloud, where this machine cannot run the code.
pub(crate) fn executable(text: &str) -> Option<Executable> {
    with_options(text, Options::default())
}

/// As [`executable`], for one thread and otherwise with these options.
pub(crate) fn with_options(text: &str, options: Options) -> Option<Executable> {
    runs_code().then(|| compiled(&model(text), options))
}

/// Whether this machine can run the code; says aloud if not.
pub(crate) fn runs_code() -> bool {
    let runs = std::arch::is_x86_feature_detected!("avx2");
    if !runs {
        eprintln!("skipped: this machine cannot run the JIT's code");
    }
    runs
}

/// The model of a text.
pub(crate) fn model(text: &str) -> ModelProto {
    parse_model(&mut Parser::new(text)).unwrap_or_else(|error| panic!("{error}"))
}

/// A model, compiled for one thread and otherwise with these options.
pub(crate) fn compiled(model: &ModelProto, options: Options) -> Executable {
    let options = Options { threads: Some(1), ..options };
    let compiled = tilewright::compile_bytes(model.encode_to_vec(), &options);
    compiled.unwrap_or_else(|found| panic!("{found}"))
}

/// What a run says that is refused.
pub(crate) fn refusal(executable: &Executable, inputs: &[Tensor]) -> String {
    match executable.run(inputs) {
        Ok(_) => panic!("it runs"),
        Err(found) => found.to_string(),
    }
}

/// A vector.
pub(crate) fn floats(values: &[f32]) -> Tensor {
    Tensor::from_slice(&[values.len()], values)
}

/// A vector.
pub(crate) fn integers(values: &[i64]) -> Tensor {
    Tensor::from_slice(&[values.len()], values)
}

/// A tensor of rank 0.
pub(crate) fn number(value: i64) -> Tensor {
    Tensor::from_slice(&[], &[value])
}
