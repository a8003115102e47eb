//! Random windowed contractions by minimal filtering, with what surrounds them in networks: padding
//! in front, a sum and a maximum behind; of any size, with groups and dilations. The rewritten
//! function and its kernels are compared with the original, the scheduled kernels bit for bit with
//! the naive ones; of integers all are the same.

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
use tensor::{DType, Scalar, Tensor};

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

fn shapes(most_taps: i64) -> impl Strategy<Value = Shape> {
    let extents = (1i64..3, 1i64..3, 1i64..10, 2i64..10, 2i64..6, 1i64..40);
    let taps = [1..most_taps, 2..most_taps + 1];
    (extents, taps, [1i64..4, 1i64..4]).prop_map(|(extents, taps, dilations)| {
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

/// The same of bytes less their zero point, in sums of integers; nothing behind the sum.
fn integers(shape: &Shape, zero: u8) -> Function {
    let Shape { batch, groups, rows, columns, inputs, outputs, taps, dilations } = shape;
    let ([ky, kx], [dy, dx]) = (taps, dilations);
    let inputs = inputs + inputs % 2;
    let (high, wide) = (rows + dy * (ky - 1), columns + dx * (kx - 1));
    let ty = format!("{batch}, {high}, {wide}, {groups}, {inputs}");
    let (tap, axis, y) = match ky {
        1 => ("0", String::new(), "y".to_owned()),
        _ => ("ky", format!("ky: {ky}, "), format!("y + {dy}*ky")),
    };
    let text = format!(
        "function @main {{
          parameter %x: u8[{batch}, {rows}, {columns}, {groups}, {inputs}] as \"x\"
          %w: i8[{groups}, {outputs}, {ky}, {kx}, {inputs}] = weight @c0
          %zero: i16[] = literal {{{zero}}}
          %zeros: i16[{batch}, {rows}, {columns}, {groups}, {inputs}] = broadcast axes [] %zero
          %s: i16[{batch}, {rows}, {columns}, {groups}, {inputs}] = map cast %x
          %d: i16[{batch}, {rows}, {columns}, {groups}, {inputs}] = map sub %s, %zeros
          %none: i16[] = literal {{0}}
          %p: i16[{ty}] = pad low [0, {low_y}, {low_x}, 0, 0] high [0, {high_y}, {high_x}, 0, 0]
            interior [0, 0, 0, 0, 0] %d, %none
          %v: i16[{groups}, {outputs}, {ky}, {kx}, {inputs}] = map cast %w
          %c: i32[{batch}, {rows}, {columns}, {groups}, {outputs}] = contract
            [n: {batch}, y: {rows}, x: {columns}, g: {groups}, o: {outputs}
              | {axis}kx: {kx}, i: {inputs}]
            %p[n, {y}, x + {dx}*kx, g, i], %v[g, o, {tap}, kx, i] accumulate i32
          return %c as \"c\"
        }}",
        low_y = dy * (ky - 1) / 2,
        low_x = dx * (kx - 1) / 2,
        high_y = dy * (ky - 1) - dy * (ky - 1) / 2,
        high_x = dx * (kx - 1) - dx * (kx - 1) / 2,
    );
    graph::parse(&text).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

/// Bytes from all of their range, the ends most of all: sums are then as large as they get.
fn bytes(ty: &graph::TensorType, seed: u64) -> Tensor {
    let shape: Vec<usize> =
        ty.shape.iter().map(|extent| extent.as_constant().unwrap_or(1) as usize).collect();
    let numbers = tensor::random::random(DType::F32, &shape, seed).to_f64_vec();
    let (low, high) = ty.dtype.integer_range().expect("integers");
    let byte = |number: f64| {
        let spread = (number * 180.0 + 60.0) as i128;
        Scalar::from_i64(ty.dtype, spread.clamp(low, high) as i64)
    };
    let numbers: Vec<Scalar> = numbers.into_iter().map(byte).collect();
    Tensor::from_scalars(ty.dtype, &shape, &numbers)
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
fn lowered(
    function: &Function,
    weight: &Tensor,
    inputs: &[Tensor],
    target: &str,
    plain: bool,
) -> Tensor {
    let mut module = Module::default();
    module.functions.push(Arc::new(function.clone()));
    module.constants.push(Constant { name: "w".to_owned(), tensor: weight.clone() });
    let role = Role::Main { inputs: inputs.len(), constants: Vec::new() };
    let options = LowerOptions { strategies: StrategyOptions { plain }, ..LowerOptions::new(role) };
    let target = Target::named(target).expect("a target");
    let (id, symbols) = (FunctionId::new(0), common::symbols(function, inputs));
    let lowered = lower::lower(&mut module, id, &symbols, &target, &options)
        .unwrap_or_else(|error| panic!("{error}\n{function}"));
    common::run(&module, &lowered, inputs, &mut Vec::new())
        .unwrap_or_else(|error| panic!("{error}\n{function}"))
        .remove(0)
}

/// The type of the one weight of a function.
fn weight_of(function: &Function) -> graph::TensorType {
    let weights = function.nodes.iter().find_map(|(_, node)| match &node.op {
        graph::Op::Weight { result, .. } => Some(result.clone()),
        _ => None,
    });
    weights.expect("a weight")
}

/// A function by minimal filtering.
fn filtered(before: &Function, target: &str) -> Function {
    let target = Target::named(target).expect("a target");
    let options = FormatOptions { winograd: Winograd::Always, ..Default::default() };
    let mut remarks = Vec::new();
    let after = formats::choose(before.clone(), &target, &options, None, &mut remarks)
        .unwrap_or_else(|error| panic!("{error}"));
    graph::verify(&after).unwrap_or_else(|error| panic!("{error}\n{after}"));
    let filtered = remarks.iter().any(|remark| remark.message.contains("winograd F("));
    assert!(filtered, "{remarks:?}");
    after
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn every_size_is_right(shape in shapes(5), seed in 0u64..1000) {
        let before = function(&shape);
        let random = |ty: &graph::TensorType, seed| {
            let extents = ty.shape.iter().map(|extent| extent.as_constant().unwrap_or(1) as usize);
            tensor::random::random(DType::F32, &extents.collect::<Vec<_>>(), seed)
        };
        let inputs: Vec<Tensor> = before.parameters().iter().zip(seed..).map(|(&value, seed)| {
            random(before.ty(value).as_tensor().expect("a tensor"), seed)
        }).collect();
        let weight = random(&weight_of(&before), seed + 7);
        let after = filtered(&before, "x86-64-v4");
        let expected = evaluated(&before, &weight, &inputs);
        let rewritten = evaluated(&after, &weight, &inputs);
        prop_assert!(error(&rewritten, &expected) < 1e-5, "{}", error(&rewritten, &expected));
        let plain = lowered(&after, &weight, &inputs, "x86-64-v4", true);
        prop_assert!(error(&plain, &expected) < 1e-5, "{}", error(&plain, &expected));
        let scheduled = lowered(&after, &weight, &inputs, "x86-64-v4", false);
        let same = plain.scalars().zip(scheduled.scalars()).all(|(a, b)| a.bits() == b.bits());
        prop_assert!(same, "scheduling changes bits\n{after}");
    }

    #[test]
    fn integers_are_exact(shape in shapes(4), zero in 0u8..=255, seed in 0u64..1000) {
        let before = integers(&shape, zero);
        let inputs: Vec<Tensor> = before.parameters().iter().map(|&value| {
            bytes(before.ty(value).as_tensor().expect("a tensor"), seed)
        }).collect();
        let weight = bytes(&weight_of(&before), seed + 7);
        let expected = evaluated(&before, &weight, &inputs);
        for target in ["x86-64-v3", "x86-64-v4"] {
            let after = filtered(&before, target);
            let rewritten = evaluated(&after, &weight, &inputs);
            prop_assert!(rewritten.bytes() == expected.bytes(), "{target}\n{after}");
            for plain in [true, false] {
                let made = lowered(&after, &weight, &inputs, target, plain);
                prop_assert!(made.bytes() == expected.bytes(), "{target}, {plain}\n{after}");
            }
        }
    }
}
