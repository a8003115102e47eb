//! Random windowed contractions by minimal filtering, with what surrounds them in networks: padding
//! in front, a sum and a maximum behind; of any size, with groups and dilations. The rewritten
//! function and its kernels are compared with the original, the scheduled kernels bit for bit with
//! the naive ones.

mod common;

use std::sync::Arc;

use backend::Target;
use base::{FunctionId, Id};
use eval::EvaluationPrecision;
use formats::{FormatOptions, Winograd};
use graph::Function;
use lower::{LowerOptions, Role};
use module::{Constant, Module};
use proptest::prelude::*;
use strategies::StrategyOptions;
use tensor::{DType, Tensor};

/// The extents of a contraction with two windows, or with one where `taps[0]` is 1.
#[derive(Clone, Debug)]
struct Shape {
    batch: i64,
    groups: i64,
    rows: i64,
    columns: i64,
    inputs: i64,
    outputs: i64,
    taps: [i64; 2],
    dilations: [i64; 2],
}

fn shapes() -> impl Strategy<Value = Shape> {
    let extents = (1i64..3, 1i64..3, 1i64..10, 2i64..10, 2i64..6, 1i64..40);
    (extents, [1i64..5, 2i64..6], [1i64..4, 1i64..4]).prop_map(|(extents, taps, dilations)| {
        let (batch, groups, rows, columns, inputs, outputs) = extents;
        Shape { batch, groups, rows, columns, inputs, outputs, taps, dilations }
    })
}

/// `max(conv(pad x) + r, 0)`, channels last, `x` padded by as much as the window is longer than 1.
fn function(shape: &Shape) -> Function {
    let Shape { batch, groups, rows, columns, inputs, outputs, taps, dilations } = shape;
    let ([ky, kx], [dy, dx]) = (taps, dilations);
    let (around_y, around_x) = (dy * (ky - 1), dx * (kx - 1));
    let (high, wide) = (rows + around_y, columns + around_x);
    let (low_y, low_x) = (around_y / 2, around_x / 2);
    let (high_y, high_x) = (around_y - low_y, around_x - low_x);
    let ty = format!("f32[{batch}, {rows}, {columns}, {groups}, {outputs}]");
    // An axis of a single tap is a number, as passes leave it.
    let (tap, axis, y) = match ky {
        1 => ("0", String::new(), "y".to_owned()),
        _ => ("ky", format!("ky: {ky}, "), format!("y + {dy}*ky")),
    };
    let text = format!(
        "function @main {{
          parameter %x: f32[{batch}, {rows}, {columns}, {groups}, {inputs}] as \"x\"
          parameter %r: {ty} as \"r\"
          %w: f32[{groups}, {outputs}, {inputs}, {ky}, {kx}] = weight @c0
          %zero: f32[] = literal {{0.0}}
          %p: f32[{batch}, {high}, {wide}, {groups}, {inputs}] =
            pad low [0, {low_y}, {low_x}, 0, 0] high [0, {high_y}, {high_x}, 0, 0]
            interior [0, 0, 0, 0, 0] %x, %zero
          %c: {ty} = contract
            [n: {batch}, y: {rows}, x: {columns}, g: {groups}, o: {outputs}
              | i: {inputs}, {axis}kx: {kx}]
            %p[n, {y}, x + {dx}*kx, g, i], %w[g, o, i, {tap}, kx] accumulate f32
          %s: {ty} = map add %c, %r
          %z: {ty} = broadcast axes [] %zero
          %m: {ty} = map max %s, %z
          return %m as \"m\"
        }}"
    );
    graph::parse(&text).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

fn evaluated(function: &Function, weight: &Tensor, inputs: &[Tensor]) -> Tensor {
    let constant = |_: base::ConstantId| weight.clone();
    eval::graph::evaluate(function, &constant, inputs, EvaluationPrecision::Declared)
        .unwrap_or_else(|fault| panic!("{fault:?}\n{function}"))
        .remove(0)
}

/// The difference's norm over the norm.
fn error(tensor: &Tensor, reference: &Tensor) -> f64 {
    let (found, expected) = (tensor.to_f64_vec(), reference.to_f64_vec());
    let difference = found.iter().zip(&expected).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
    let norm = expected.iter().map(|b| b * b).sum::<f64>();
    (difference / norm.max(f64::MIN_POSITIVE)).sqrt()
}

/// The results of a function's kernels.
fn lowered(function: &Function, weight: &Tensor, inputs: &[Tensor], plain: bool) -> Tensor {
    let mut module = Module::default();
    module.functions.push(Arc::new(function.clone()));
    module.constants.push(Constant { name: "w".to_owned(), tensor: weight.clone() });
    let role = Role::Main { inputs: inputs.len(), constants: Vec::new() };
    let options = LowerOptions { strategies: StrategyOptions { plain }, ..LowerOptions::new(role) };
    let target = Target::named("x86-64-v4").expect("a target");
    let (id, symbols) = (FunctionId::new(0), common::symbols(function, inputs));
    let lowered = lower::lower(&mut module, id, &symbols, &target, &options)
        .unwrap_or_else(|error| panic!("{error}\n{function}"));
    common::run(&module, &lowered, inputs, &mut Vec::new())
        .unwrap_or_else(|error| panic!("{error}\n{function}"))
        .remove(0)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn every_size_is_right(shape in shapes(), seed in 0u64..1000) {
        let before = function(&shape);
        let random = |ty: &graph::TensorType, seed| {
            let extents = ty.shape.iter().map(|extent| extent.as_constant().unwrap_or(1) as usize);
            tensor::random::random(DType::F32, &extents.collect::<Vec<_>>(), seed)
        };
        let inputs: Vec<Tensor> = before.parameters().iter().zip(seed..).map(|(&value, seed)| {
            random(before.ty(value).as_tensor().expect("a tensor"), seed)
        }).collect();
        let weights = before.nodes.iter().find_map(|(_, node)| match &node.op {
            graph::Op::Weight { result, .. } => Some(result.clone()),
            _ => None,
        });
        let weight = random(&weights.expect("a weight"), seed + 7);
        let target = Target::named("x86-64-v4").expect("a target");
        let options = FormatOptions { winograd: Winograd::Always, ..Default::default() };
        let mut remarks = Vec::new();
        let after = formats::choose(before.clone(), &target, &options, None, &mut remarks)
            .unwrap_or_else(|error| panic!("{error}"));
        graph::verify(&after).unwrap_or_else(|error| panic!("{error}\n{after}"));
        let filtered = remarks.iter().any(|remark| remark.message.contains("winograd F("));
        prop_assert!(filtered, "{:?}", remarks);

        let expected = evaluated(&before, &weight, &inputs);
        let rewritten = evaluated(&after, &weight, &inputs);
        prop_assert!(error(&rewritten, &expected) < 1e-5, "{}", error(&rewritten, &expected));
        let plain = lowered(&after, &weight, &inputs, true);
        prop_assert!(error(&plain, &expected) < 1e-5, "{}", error(&plain, &expected));
        let scheduled = lowered(&after, &weight, &inputs, false);
        let same = plain.scalars().zip(scheduled.scalars()).all(|(a, b)| a.bits() == b.bits());
        prop_assert!(same, "scheduling changes bits\n{after}");
    }
}
