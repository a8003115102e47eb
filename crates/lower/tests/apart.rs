//! Fusion that is taken back, by the kernels that come of it.

mod common;

use std::sync::Arc;

use backend::Target;
use base::{FunctionId, Id};
use lower::{LowerOptions, Lowered, Role};
use module::Module;
use tensor::{DType, Tensor};

/// The largest of columns, of which the least of rows is wanted: in one kernel each row looks
/// through its columns again, and no vector runs along memory.
const LEAST_OF_LARGEST: &str = "
function @main {
  parameter %x: f32[49, 160, 8] as \"x\"
  %m: f32[160, 8] = reduce max [b: 160, c: 8 | a: 49] %x[a, b, c] loc(\"largest\", \"ReduceMax\")
  %y: f32[8] = reduce min [c: 8 | b: 160] %m[b, c] loc(\"least\", \"ReduceMin\")
  return %y as \"y\"
}";

fn lowered(input: &Tensor, fusion: bool) -> (Module, Lowered) {
    let function = graph::parse(LEAST_OF_LARGEST).expect("a function");
    let mut module = Module::default();
    module.functions.push(Arc::new(function));
    let role = Role::Main { inputs: 1, constants: Vec::new() };
    let options = LowerOptions { fusion, ..LowerOptions::new(role) };
    let target = Target::named("x86-64-v4").expect("a target");
    let function = FunctionId::new(0);
    let symbols = common::symbols(&module.functions[function], std::slice::from_ref(input));
    let lowered = lower::lower(&mut module, function, &symbols, &target, &options);
    (module, lowered.expect("it lowers"))
}

/// The kernel of both would be poor, so there are two, each as without fusion, and the first says
/// why it is alone; nothing of the first try is left in the module.
#[test]
fn a_poor_kernel_is_taken_apart() {
    let input = tensor::random::random(DType::F32, &[49, 160, 8], 1);
    let (module, taken) = lowered(&input, true);
    let (without_module, without) = lowered(&input, false);
    assert_eq!(module.kernels, without_module.kernels);
    assert_eq!(taken.kernels.len(), 2);
    let reasons = &taken.kernels[0].not_fused;
    let reason = "one kernel with its readers should take longer";
    assert!(reasons.iter().any(|text| text.contains(reason)), "{reasons:?}");
    assert!(taken.kernels.iter().all(|info| info.stored.is_none()));
    let [one, other] = [(&module, &taken), (&without_module, &without)].map(|(module, lowered)| {
        common::run(module, lowered, std::slice::from_ref(&input), &mut Vec::new()).expect("runs")
    });
    assert_eq!(one[0].bytes(), other[0].bytes());
}
