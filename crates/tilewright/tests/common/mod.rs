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

/// Tokens grow by the best one of a table's row until it is the last.
pub(crate) const DECODER: &str = "
    input prompt: i64[n]
    input last: i64[]
    constant table: f32[4, 4]
      {0.0, 1.0, 0.5, 0.2, 0.1, 0.0, 3.0, 1.0, 0.5, 0.4, 0.3, 4.0, 5.0, 1.0, 2.0, 3.0}
    constant most: i64[] {10}
    constant end: i64[1] {-1}
    holds = Constant() {value = bool[] {true}}
    tokens, scores = Loop(most, holds, prompt) {body = {
        input turn: i64[] input goeson: bool[] input now: i64[k]
        newest = Gather(now, end)
        row = Gather(table, newest)
        next = ArgMax(row) {axis = 1, keepdims = 0}
        grown = Concat(now, next) {axis = 0}
        one = Squeeze(next)
        isend = Equal(one, last)
        more = Not(isend)
        best = ReduceMax(row) {keepdims = 0}
        output more: bool[] output grown: i64[l] output best: f32[]
    }}
    doubled = Add(tokens, tokens)
    output doubled: i64[m]
    output scores: f32[t]
";

/// Branches of other shapes, of which one has a loop that grows.
pub(crate) const BRANCHES: &str = "
    input x: f32[4]
    input count: i64[]
    constant two: i64[1] {2}
    constant first: i64[1] {0}
    constant zero: f32[] {0.0}
    holds = Constant() {value = bool[] {true}}
    sum = ReduceSum(x) {keepdims = 0}
    positive = Greater(sum, zero)
    more = Abs(count)
    y = If(positive) {then_branch = {
        grown = Loop(more, holds, x) {body = {
            input turn: i64[] input goeson: bool[] input before: f32[k]
            tail = Slice(before, first, two)
            after = Concat(tail, before) {axis = 0}
            on = Identity(goeson)
            output on: bool[] output after: f32[l]
        }}
        output grown: f32[k]
    }, else_branch = {
        head = Slice(x, first, two)
        output head: f32[2]
    }}
    z = Neg(y)
    output z: f32[m]
";

/// As many turns as there are positive numbers; each keeps what is above its own number.
pub(crate) const SEQUENCES: &str = "
    input x: f32[n]
    constant zero: f32[] {0.0}
    holds = Constant() {value = bool[] {true}}
    positive = Greater(x, zero)
    flags = Cast(positive) {to = 7}
    count = ReduceSum(flags) {keepdims = 0}
    none = SequenceEmpty() {dtype = 1}
    start = SequenceInsert(none, x)
    all = Loop(count, holds, start) {body = {
        input turn: i64[] input goeson: bool[] input before: sequence f32
        bar = Cast(turn) {to = 1}
        above = Greater(x, bar)
        kept = Compress(x, above) {axis = 0}
        after = SequenceInsert(before, kept)
        more = Identity(goeson)
        output more: bool[] output after: sequence f32
    }}
    y = ConcatFromSequence(all) {axis = 0}
    many = SequenceLength(all)
    output y: f32[m]
    output many: i64[]
";
