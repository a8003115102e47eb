//! Fusion that is taken back, by the kernels that come of it.

mod common;

use std::sync::Arc;

use backend::Target;
use base::{FunctionId, Id};
use lower::{LowerOptions, Lowered, Role};
use module::Module;
use tensor::{DType, Tensor};

/// Rows of which each is picked a hundred times: in one kernel with the picking, each is computed
/// as often.
const PICKED: &str = "
function @main {
  parameter %x: f32[60, 48] as \"x\"
  parameter %rows: i64[6000] as \"rows\"
  %t: f32[60, 48] = map tanh %x loc(\"tanh\", \"Tanh\")
  %y: f32[6000, 48] = gather axes [0] batch 0 position 0 %t, %rows loc(\"picked\", \"Gather\")
  return %y as \"y\"
}";

fn lowered(text: &str, inputs: &[Tensor], set: impl Fn(&mut LowerOptions)) -> (Module, Lowered) {
    let function = graph::parse(text).expect("a function");
    let mut module = Module::default();
    module.functions.push(Arc::new(function));
    let role = Role::Main { inputs: inputs.len(), constants: Vec::new() };
    let mut options = LowerOptions::new(role);
    set(&mut options);
    let target = Target::named("x86-64-v4").expect("a target");
    let function = FunctionId::new(0);
    let symbols = common::symbols(&module.functions[function], inputs);
    let lowered = lower::lower(&mut module, function, &symbols, &target, &options);
    (module, lowered.expect("it lowers"))
}

/// The kernel of both would be poor, so there are two, each as without fusion, and the first says
/// why it is alone; nothing of the first try is left in the module.
#[test]
fn a_poor_kernel_is_taken_apart() {
    let random = |dtype, shape: &[usize]| tensor::random::random(dtype, shape, 1);
    let inputs = [random(DType::F32, &[60, 48]), random(DType::I64, &[6000])];
    let (module, taken) = lowered(PICKED, &inputs, |_| ());
    let (without_module, without) = lowered(PICKED, &inputs, |options| options.fusion = false);
    assert_eq!(module.kernels, without_module.kernels);
    assert_eq!(taken.kernels.len(), 2);
    let reasons = &taken.kernels[0].not_fused;
    let reason = "one kernel with its readers should take longer";
    assert!(reasons.iter().any(|text| text.contains(reason)), "{reasons:?}");
    assert!(taken.kernels.iter().all(|info| info.stored.is_none()));
    let [one, other] = [(&module, &taken), (&without_module, &without)].map(|(module, lowered)| {
        common::run(module, lowered, &inputs, &mut Vec::new()).expect("runs")
    });
    assert_eq!(one[0].bytes(), other[0].bytes());
}

/// Several kernels are looked at, on as many threads as there are: what comes of it is the same.
#[test]
fn any_number_of_threads_finds_the_same() {
    let rows = [40, 48, 56, 64, 72, 80];
    let mut text = String::from("function @main {\n");
    for row in rows {
        text += &format!("  parameter %x{row}: f32[60, {row}] as \"x{row}\"\n");
    }
    text += "  parameter %rows: i64[6000] as \"rows\"\n";
    for row in rows {
        text += &format!(
            "  %t{row}: f32[60, {row}] = map tanh %x{row}\n  %y{row}: f32[6000, {row}] = gather \
             axes [0] batch 0 position 0 %t{row}, %rows\n"
        );
    }
    let results: Vec<String> = rows.iter().map(|row| format!("%y{row} as \"y{row}\"")).collect();
    text += &format!("  return {}\n}}", results.join(", "));
    let mut inputs: Vec<Tensor> =
        rows.iter().map(|&row| tensor::random::random(DType::F32, &[60, row], 1)).collect();
    inputs.push(tensor::random::random(DType::I64, &[6000], 1));
    let made = |threads| lowered(&text, &inputs, |options| options.threads = threads);
    let (module, one) = made(1);
    assert_eq!(one.kernels.len(), 2 * rows.len());
    for threads in [2, 5] {
        let (other, several) = made(threads);
        assert_eq!(module.kernels, other.kernels, "{threads} threads");
        assert_eq!(several.kernels.len(), one.kernels.len(), "{threads} threads");
    }
}
