//! The first few elements of rows, of which blocks are asked at once.

mod common;

use std::sync::Arc;

use backend::Target;
use base::{FunctionId, Id};
use lower::{LowerOptions, Role};
use module::Module;
use tensor::{DType, Tensor};

/// What lowered kernels select, and what the evaluator does.
fn check(dtype: DType, input: &Tensor, order: &str, kept: usize, target: &str) {
    let [rows, length] = input.shape()[..] else { unreachable!("inputs have rows") };
    let text = format!(
        "
function @main {{
  parameter %x: {dtype}[{rows}, {length}] as \"x\"
  %v: {dtype}[{rows}, {kept}], %i: i64[{rows}, {kept}] = sort {order} axis 1 kept {kept} %x
  return %v as \"v\", %i as \"i\"
}}"
    );
    let function = graph::parse(&text).unwrap_or_else(|error| panic!("{error}"));
    let inputs = [input.clone()];
    let none = |_: base::ConstantId| unreachable!("there are no constants");
    let precision = eval::EvaluationPrecision::Declared;
    let expected = eval::graph::evaluate(&function, &none, &inputs, precision);
    let expected = expected.unwrap_or_else(|fault| panic!("{fault}"));
    let mut module = Module::default();
    module.functions.push(Arc::new(function));
    let options = LowerOptions::new(Role::Main { inputs: 1, constants: Vec::new() });
    let target = Target::named(target).expect("a target");
    let id = FunctionId::new(0);
    let symbols = common::symbols(&module.functions[id], &inputs);
    let lowered = lower::lower(&mut module, id, &symbols, &target, &options).expect("it lowers");
    let results = common::run(&module, &lowered, &inputs, &mut Vec::new()).expect("it runs");
    for (result, expected) in results.iter().zip(&expected) {
        assert_eq!(result.bytes(), expected.bytes(), "{text}\n{input:?}");
    }
}

#[test]
fn first_elements_of_few_rows() {
    for (rows, length) in [(1, 63), (1, 64), (2, 100), (5, 97), (1, 1000)] {
        for kept in [1, 3, 31] {
            for order in ["ascending", "descending"] {
                for name in ["f32", "f64", "f16", "bf16", "i64", "i8", "u16", "bool"] {
                    let dtype = DType::parse(name).expect("a type");
                    let input = tensor::random::random(dtype, &[rows, length], 7);
                    check(dtype, &input, order, kept, "x86-64-v3");
                }
            }
        }
    }
}

/// Ties, infinities, both zeros, and what is no number, wherever it stands.
#[test]
fn first_elements_among_no_numbers() {
    let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, 1.0, 1.0, -1.0];
    for length in [96, 130] {
        for seed in 0..12 {
            let at = |place: usize| match (place * (seed + 3) + seed) % (seed + 5) {
                0 => special[(place + seed) % special.len()],
                other => other as f32 - 3.0,
            };
            let elements: Vec<f32> = (0..length).map(at).collect();
            let input = Tensor::from_slice(&[1, length], &elements);
            for kept in [1, 4, 20] {
                for order in ["ascending", "descending"] {
                    check(DType::F32, &input, order, kept, "x86-64-v4");
                }
            }
        }
    }
}
