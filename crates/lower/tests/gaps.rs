//! Gaps between rows, and between planes, that fall on the same cache sets.

mod common;

use std::sync::Arc;

use backend::Target;
use base::{FunctionId, Id};
use lower::{LowerOptions, Role};
use module::Module;
use tensor::{DType, Tensor, compare};

/// Rows of so many elements between two products.
fn between(elements: usize) -> String {
    format!(
        "
function @main {{
  parameter %x: f32[24, 40] as \"x\"
  parameter %a: f32[40, {elements}] as \"a\"
  parameter %b: f32[{elements}, 32] as \"b\"
  %s: f32[24, {elements}] = contract [i: 24, j: {elements} | k: 40] %x[i, k], %a[k, j] \
   accumulate f32
  %t: f32[24, {elements}] = map tanh %s
  %y: f32[24, 32] = contract [i: 24, j: 32 | k: {elements}] %t[i, k], %b[k, j] accumulate f32
  return %y as \"y\"
}}"
    )
}

/// Planes of so many rows that a matrix makes of known numbers, and a product of each.
fn planes(rows: usize) -> String {
    let numbers: Vec<String> = (0..24).map(|number| format!("{number}.5")).collect();
    format!(
        "
function @main {{
  parameter %x: f32[2, {rows}, 128] as \"x\"
  parameter %b: f32[12, 128, 32] as \"b\"
  %m: f32[12, 2] = literal {{{}}}
  %v: f32[12, {rows}, 128] = contract [i: 12, j: {rows}, k: 128 | l: 2] %m[i, l], %x[l, j, k] \
   accumulate f32
  %y: f32[12, {rows}, 32] = contract [i: 12, j: {rows}, n: 32 | k: 128] %v[i, j, k], %b[i, k, n] \
   accumulate f32
  return %y as \"y\"
}}",
        numbers.join(", ")
    )
}

/// Planes 4096 bytes apart that are written at once have gaps, others none.
#[test]
fn planes_on_the_same_sets_have_gaps() {
    for (rows, stride) in [(8, Some("strides [1056, 1")), (9, None)] {
        check(&planes(rows), &[vec![2, rows, 128], vec![12, 128, 32]], stride);
    }
}

/// Rows 4096 bytes apart have gaps, others none; what is computed is right.
#[test]
fn rows_on_the_same_sets_have_gaps() {
    for (elements, stride) in [(1024, Some("strides [1056, 1")), (1000, None)] {
        let shapes = [[24, 40], [40, elements], [elements, 32]].map(Vec::from);
        check(&between(elements), &shapes, stride);
    }
}

/// Checks what a function computes, and that the value between its two kernels has strides that
/// begin so, if any.
fn check(text: &str, shapes: &[Vec<usize>], strides: Option<&str>) {
    let function = graph::parse(text).expect("a function");
    let of = |shape: &Vec<usize>| tensor::random::random(DType::F32, shape, 3);
    let inputs: Vec<Tensor> = shapes.iter().map(of).collect();
    let none = |_: base::ConstantId| unreachable!("there are no constants");
    let precision = eval::EvaluationPrecision::Declared;
    let expected = eval::graph::evaluate(&function, &none, &inputs, precision);
    let expected = expected.unwrap_or_else(|fault| panic!("{fault}")).remove(0);
    let mut module = Module::default();
    module.functions.push(Arc::new(function));
    let options = LowerOptions::new(Role::Main { inputs: inputs.len(), constants: Vec::new() });
    let target = Target::named("x86-64-v4").expect("a target");
    let id = FunctionId::new(0);
    let symbols = common::symbols(&module.functions[id], &inputs);
    let lowered = lower::lower(&mut module, id, &symbols, &target, &options).expect("it lowers");
    let texts: Vec<String> = module.kernels.values().map(ToString::to_string).collect();
    match strides {
        Some(wanted) => {
            let with_gaps = texts.iter().filter(|text| text.contains(wanted));
            assert_eq!(with_gaps.count(), 2, "{texts:?}");
        }
        None => assert!(!texts.iter().any(|text| text.contains("strides [")), "{texts:?}"),
    }
    let results = common::run(&module, &lowered, &inputs, &mut Vec::new()).expect("runs");
    let comparison = compare(&results[0], &expected, 1e-5, 1e-5);
    assert!(comparison.passed(), "{comparison:?}");
}
