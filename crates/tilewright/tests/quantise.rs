//! Numbers that no integer is near: what `QuantizeLinear` makes of them is what ONNX Runtime makes
//! of them, whatever instructions there are.

mod common;

use common::{compiled, model, runs_code};
use tilewright::{DType, Options, TargetChoice, Tensor};

#[test]
fn what_is_no_number_is_the_lowest() {
    if !runs_code() {
        return;
    }
    let far = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, 1e30, -1e30, 63.25, -200.0];
    let x: Vec<f32> = (0..72).map(|at| far[at % far.len()]).collect();
    let inputs = [Tensor::from_slice(&[72], &x)];
    for (dtype, point) in
        [("u8", 7), ("i8", -128), ("i8", 0), ("i8", 5), ("u16", 9), ("i16", 0), ("i16", -3)]
    {
        let text = format!(
            "input x: f32[72] constant s: f32[] {{0.5}} constant z: {dtype}[] {{{point}}}
             y = QuantizeLinear(x, s, z) output y: {dtype}[72]"
        );
        let dtype = DType::parse(dtype).expect("a type");
        let (low, high) = dtype.integer_range().expect("a type of integers");
        let expected = |x: &f32| match x.is_nan() {
            true => low,
            false => ((x / 0.5).round_ties_even() as i128).saturating_add(point).clamp(low, high),
        };
        let wanted: Vec<i128> = x.iter().map(expected).collect();
        let named = |name: &str| TargetChoice::Named(name.to_owned());
        let mut targets = vec![TargetChoice::Native, named("x86-64-v3")];
        if std::arch::is_x86_feature_detected!("avx512f") {
            targets.push(named("x86-64-v4"));
        }
        for target in targets {
            let options = Options { target: target.clone(), ..Options::default() };
            let outputs = compiled(&model(&text), options).run(&inputs);
            let outputs = outputs.unwrap_or_else(|found| panic!("{found}"));
            let found: Vec<i128> = outputs[0].scalars().map(|it| i128::from(it.as_i64())).collect();
            assert_eq!(found, wanted, "{dtype} about {point} on {target:?}");
        }
    }
}
