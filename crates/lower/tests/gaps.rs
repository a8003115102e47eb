//! Gaps between rows that fall on the same cache sets.

mod common;

use std::sync::Arc;

use backend::Target;
use base::{FunctionId, Id};
use lower::{LowerOptions, Role};
use module::Module;
use tensor::{DType, compare};

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

/// Rows 4096 bytes apart have gaps, others none; what is computed is right.
#[test]
fn rows_on_the_same_sets_have_gaps() {
    for (elements, stride) in [(1024, Some(1056)), (1000, None)] {
        let function = graph::parse(&between(elements)).expect("a function");
        let shapes = [[24, 40], [40, elements], [elements, 32]];
        let inputs = shapes.map(|shape| tensor::random::random(DType::F32, &shape, 3));
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
        let lowered = lower::lower(&mut module, id, &symbols, &target, &options);
        let lowered = lowered.expect("it lowers");
        let texts: Vec<String> = module.kernels.values().map(ToString::to_string).collect();
        let wanted = stride.map(|stride| format!("strides [{stride}, 1]"));
        let has_gaps = |text: &String| text.contains("strides [");
        match wanted {
            Some(wanted) => {
                let with_gaps = texts.iter().filter(|text| text.contains(&wanted));
                assert_eq!(with_gaps.count(), 2, "{texts:?}");
            }
            None => assert!(!texts.iter().any(has_gaps), "{texts:?}"),
        }
        let results = common::run(&module, &lowered, &inputs, &mut Vec::new()).expect("runs");
        let comparison = compare(&results[0], &expected, 1e-5, 1e-5);
        assert!(comparison.passed(), "{comparison:?}");
    }
}
