//! Small models, quantised: what the files hold, that the error is what the scales imply, and what
//! is refused.

use std::collections::BTreeSet;

use base::text::Parser;
use import_onnx::proto::{ModelProto, StringStringEntryProto};
use prost::Message as _;
use quantise::{CalibrationSample, Loss, Method, QuantiseOptions, Quantised, Scheme, quantise};
use tensor::random::random;
use tensor::{DType, Tensor};
use tilewright::compiled::{DecodedModel, Source, compile_source};
use tilewright::{Limits, Options};

const CHAIN: &str = "
input x: f32[2, 3, 9, 9]
constant w: f32[4, 3, 3, 3] {0.0}
constant scale: f32[4] {1.5, 0.5, -1.0, 2.0}
constant shift: f32[4] {0.25, -0.5, 0.0, 1.0}
constant mean: f32[4] {0.5, 0.0, -0.25, 0.125}
constant variance: f32[4] {1.0, 4.0, 0.25, 2.0}
constant v: f32[4, 4, 1, 1] {0.0}
constant b: f32[4] {0.5, -0.25, 1.0, 0.0}
constant shape: i64[2] {2, -1}
constant u: f32[36, 5] {0.0}
a = Conv(x, w)
n = BatchNormalization(a, scale, shift, mean, variance)
r = Relu(n)
p = MaxPool(r) {kernel_shape = [2, 2], strides = [2, 2]}
q = Conv(p, v, b)
s = Add(q, p)
t = Relu(s)
m = Reshape(t, shape)
k = Slice(m, zero, size, one)
y = MatMul(k, u)
constant zero: i64[1] {0}
constant size: i64[1] {64}
constant one: i64[1] {1}
output y: f32[2, 5]
";

/// A model of a text whose constants of these names are random.
fn model(text: &str, random_constants: &[&str]) -> DecodedModel {
    let mut proto = onnx_model(text);
    let graph = proto.graph.as_mut().expect("a graph");
    for (number, name) in random_constants.iter().enumerate() {
        let place = graph.initializer.iter().position(|it| it.name == *name).expect("a constant");
        let shape: Vec<usize> =
            graph.initializer[place].dims.iter().map(|&dim| dim as usize).collect();
        let tensor = random(DType::F32, &shape, number as u64 + 40);
        graph.initializer[place] = import_onnx::tensor_proto(name, &tensor);
    }
    DecodedModel::of(proto.encode_to_vec().into(), &Limits::default()).expect("a model")
}

fn onnx_model(text: &str) -> ModelProto {
    testkit::onnx_text::parse_model(&mut Parser::new(text)).expect("a model")
}

fn samples(shape: &[usize], count: u64) -> Vec<CalibrationSample> {
    (0..count).map(|seed| vec![random(DType::F32, shape, seed).into()]).collect()
}

fn made(
    model: &DecodedModel,
    samples: &[CalibrationSample],
    settings: &QuantiseOptions,
) -> Quantised {
    quantise(model, samples, settings).expect("a quantised model")
}

fn run(model: &DecodedModel, inputs: &[Tensor]) -> Vec<Tensor> {
    let read = DecodedModel::of(model.encode().into(), &Limits::default()).expect("a model");
    let executable =
        compile_source(Source::from(read), &Options::default()).expect("an executable");
    executable.run(inputs).expect("a run")
}

fn count(model: &DecodedModel, operator: &str) -> usize {
    model.info().operators.get(operator).copied().unwrap_or(0)
}

#[test]
fn values_between_products_become_bytes() {
    let model = model(CHAIN, &["w", "v", "u"]);
    let quantised = made(&model, &samples(&[2, 3, 9, 9], 4), &QuantiseOptions::default());
    let after = &quantised.model;
    // Normalisation is folded, and what bounds values from below is what rounding does anyway.
    assert_eq!(count(after, "BatchNormalization"), 0);
    assert_eq!(count(after, "Relu"), 0);
    // x, r, p, q, t, m, k; the three weights and the two biases besides.
    assert_eq!(count(after, "QuantizeLinear"), 7);
    assert_eq!(count(after, "DequantizeLinear"), 7 + 3 + 2);
    assert_eq!(after.outputs(), ["y"]);
    assert_eq!(after.info().inputs, model.info().inputs);
    let output = &quantised.report.outputs[0];
    assert!(output.error > 0.0 && output.error < 0.05, "{:?}", quantised.report);
    assert_eq!(quantised.report.layers.len(), 3);
    for row in &quantised.report.layers {
        assert!(row.own_error > 0.0 && row.own_error < 0.03, "{row:?}");
    }
}

#[test]
fn every_method_gives_a_model_that_is_near() {
    let model = model(CHAIN, &["w", "v", "u"]);
    let samples = samples(&[2, 3, 9, 9], 4);
    for method in [Method::Percentile(99.9), Method::Entropy, Method::MeanSquaredError] {
        let settings = QuantiseOptions { method, ..QuantiseOptions::default() };
        let report = made(&model, &samples, &settings).report;
        assert!(report.outputs[0].cosine > 0.98, "{method:?}: {report}");
    }
}

#[test]
fn a_product_is_off_by_what_its_scales_imply() {
    let text = "
input x: f32[4, 24]
constant w: f32[24, 6] {0.0}
constant b: f32[6] {0.0}
y = Gemm(x, w, b)
output y: f32[4, 6]
";
    let model = model(text, &["w", "b"]);
    let given = samples(&[4, 24], 3);
    let quantised = made(&model, &given, &QuantiseOptions::default());
    let (w, b) = (random(DType::F32, &[24, 6], 40), random(DType::F32, &[6], 41));
    let (w, b) = (w.to_f64_vec(), b.to_f64_vec());
    let all: Vec<f64> =
        given.iter().flat_map(|it| it[0].as_tensor().expect("a tensor").to_f64_vec()).collect();
    let (low, high) = all.iter().fold((0.0_f64, 0.0_f64), |(a, b), &it| (a.min(it), b.max(it)));
    let of_x = (high - low) / 255.0;
    for sample in &given {
        let x = sample[0].as_tensor().expect("a tensor").clone();
        let found = run(&quantised.model, std::slice::from_ref(&x))[0].to_f64_vec();
        let x = x.to_f64_vec();
        for (at, found) in found.iter().enumerate() {
            let (row, column) = (at / 6, at % 6);
            let column_of = |k: usize| w[k * 6 + column];
            let of_w = (0..24).map(|k| column_of(k).abs()).fold(0.0, f64::max) / 127.0;
            let right: f64 =
                (0..24).map(|k| x[row * 24 + k] * column_of(k)).sum::<f64>() + b[column];
            // A zero point is rounded, too, so that elements at the ends are off by a whole scale.
            let each = (0..24).map(|k| {
                x[row * 24 + k].abs() * of_w / 2.0 + column_of(k).abs() * of_x + of_x * of_w
            });
            let bound = each.sum::<f64>() + of_x * of_w + 1e-4;
            assert!((found - right).abs() <= bound, "{found} {right} {bound}");
        }
    }
}

const WORDS: &str = "
opset 17
input x: i64[1, 7]
constant table: f32[40, 48] {0.0}
constant w: f32[48, 20] {0.0}
e = Gather(table, x)
d = MatMul(e, w)
y = ReduceMean(d) {axes = [1], keepdims = 0}
output y: f32[1, 20]
";

#[test]
fn weights_are_stored_in_few_bits() {
    let model = model(WORDS, &["table", "w"]);
    let sample: CalibrationSample =
        vec![Tensor::from_vec(&[1, 7], vec![3_i64, 0, 39, 7, 7, 12, 20]).into()];
    for (dtype, block, most) in [
        (DType::I8, Some(16), 0.02),
        (DType::I8, None, 0.02),
        (DType::I4, Some(16), 0.25),
        (DType::I4, Some(32), 0.25),
        (DType::I4, None, 0.3),
    ] {
        let scheme = Scheme::Weights { dtype, block };
        let settings = QuantiseOptions { scheme, ..QuantiseOptions::default() };
        let quantised = made(&model, std::slice::from_ref(&sample), &settings);
        assert_eq!(count(&quantised.model, "DequantizeLinear"), 2);
        let error = quantised.report.outputs[0].error;
        assert!(error > 0.0 && error < most, "{dtype} {block:?}: {error}");
        let least = if dtype == DType::I4 { 0.4 } else { 0.6 };
        let (after, before) = (quantised.model.encode().len(), model.encode().len());
        assert!((after as f64) < least * before as f64, "{after} of {before}");
    }
}

const PRODUCTS: &str = "
input x: f32[2, 3, 9, 9]
constant w: f32[4, 3, 3, 3] {0.0}
constant b: f32[4] {0.0}
constant v: f32[6, 324] {0.0}
constant c: f32[6] {0.0}
constant u: f32[6, 5] {0.0}
a = Conv(x, w, b) {pads = [1, 1, 1, 1]}
r = Relu(a)
f = Flatten(r)
g = Gemm(f, v, c) {transB = 1}
y = MatMul(g, u)
z = MatMul(g, t)
t = Transpose(u2) {perm = [0, 1]}
input u2: f32[6, 2]
output y: f32[2, 5]
output z: f32[2, 2]
";

#[test]
fn scales_that_runs_find_need_no_samples() {
    let model = model(PRODUCTS, &["w", "b", "v", "c", "u"]);
    let given: Vec<CalibrationSample> = (0..3)
        .map(|seed| {
            let of = |shape: &[usize]| random(DType::F32, shape, seed).into();
            vec![of(&[2, 3, 9, 9]), of(&[6, 2])]
        })
        .collect();
    let scheme = Scheme::Dynamic;
    let settings = QuantiseOptions { scheme, equalise: false, ..QuantiseOptions::default() };
    let blind = made(&model, &[], &settings);
    let measured = made(&model, &given, &settings);
    assert_eq!(blind.model.encode(), measured.model.encode());
    assert!(blind.report.outputs.is_empty());
    let after = &blind.model;
    assert_eq!(count(after, "ConvInteger"), 1);
    assert_eq!(count(after, "MatMulInteger"), 2);
    // What is multiplied by another value stays float, though it is read as bytes elsewhere.
    assert_eq!(count(after, "MatMul"), 1);
    assert_eq!(count(after, "DynamicQuantizeLinear"), 3);
    for row in &measured.report.layers {
        assert!(row.own_error > 0.0 && row.own_error < 0.02, "{row:?}");
    }
    let names: Vec<&str> = measured.report.layers.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["a", "g", "y"]);
    for output in &measured.report.outputs {
        assert!(output.error > 0.0 && output.error < 0.02, "{output:?}");
    }
    let keep_float: BTreeSet<String> = ["a".to_owned()].into();
    let kept = made(&model, &given, &QuantiseOptions { keep_float, ..settings });
    assert_eq!(count(&kept.model, "ConvInteger"), 0);
}

#[test]
fn tables_are_bytes_where_runs_find_scales() {
    let model = model(WORDS, &["table", "w"]);
    let settings = QuantiseOptions { scheme: Scheme::Dynamic, ..QuantiseOptions::default() };
    let after = made(&model, &[], &settings).model;
    assert_eq!(count(&after, "MatMulInteger"), 1);
    assert_eq!(count(&after, "DequantizeLinear"), 1);
    let ids = Tensor::from_vec(&[1, 7], vec![3_i64, 0, 39, 7, 7, 12, 20]);
    let right = run(&model, std::slice::from_ref(&ids))[0].to_f64_vec();
    let found = run(&after, &[ids])[0].to_f64_vec();
    let most = right.iter().fold(0.0_f64, |most, it| most.max(it.abs()));
    for (a, b) in right.iter().zip(&found) {
        assert!((a - b).abs() < 0.03 * most, "{a} {b}");
    }
}

const UNLIKE: &str = "
input x: f32[2, 4, 8, 8]
constant w: f32[6, 4, 1, 1] {0.0}
constant b: f32[6] {0.0}
constant far: f32[6, 1, 1, 1] {0.01, 8.0, 0.3, 1.0, 0.02, 3.0}
constant d: f32[6, 1, 3, 3] {0.0}
constant v: f32[5, 6, 2, 2] {0.0}
constant u: f32[80, 7] {0.0}
constant c: f32[7] {0.0}
constant t: f32[7, 4] {0.0}
s = Mul(w, far)
a = Conv(x, s, b)
r = Relu(a)
e = Conv(r, d) {group = 6, pads = [1, 1, 1, 1]}
f = LeakyRelu(e)
g = Conv(f, v) {strides = [2, 2]}
p = MaxPool(g) {kernel_shape = [1, 1]}
h = Flatten(p)
m = MatMul(h, u)
n = Add(m, c)
y = MatMul(n, t)
output y: f32[2, 4]
";

#[test]
fn channels_that_reach_unlike_far_are_made_alike() {
    let model = model(UNLIKE, &["w", "b", "d", "v", "u", "c", "t"]);
    let samples = samples(&[2, 4, 8, 8], 6);
    let error = |equalise: bool, correct_bias: bool| {
        let settings = QuantiseOptions { equalise, correct_bias, ..QuantiseOptions::default() };
        let quantised = made(&model, &samples, &settings);
        // The report compares with the model as it was given.
        let x = samples[0][0].as_tensor().expect("a tensor").clone();
        let right = run(&model, std::slice::from_ref(&x))[0].to_f64_vec();
        let found = run(&quantised.model, &[x])[0].to_f64_vec();
        let noise: f64 = right.iter().zip(&found).map(|(a, b)| (a - b) * (a - b)).sum();
        let signal: f64 = right.iter().map(|a| a * a).sum();
        assert!((noise / signal).sqrt() < 0.1, "{noise} {signal}");
        quantised.report.outputs[0].error
    };
    let (plain, alike, both) = (error(false, false), error(true, false), error(true, true));
    assert!(alike < 0.8 * plain, "{plain} {alike} {both}");
    assert!(both < 1.2 * alike, "{plain} {alike} {both}");
}

#[test]
fn operands_that_others_read_are_divided_by_a_node_of_their_own() {
    let text = "
input x: f32[32, 24]
constant far: f32[24] {0.01, 8.0, 0.3, 1.0, 0.02, 30.0, 1.0, 0.1, 2.0, 0.5, 0.05, 0.2, \
0.01, 8.0, 0.3, 1.0, 0.02, 3.0, 1.0, 0.1, 2.0, 0.5, 0.05, 0.2}
constant w: f32[24, 16] {0.0}
constant v: f32[24, 24] {0.0}
s = Mul(x, far)
a = MatMul(s, w)
b = MatMul(s, v)
c = Add(b, s)
output a: f32[32, 16]
output c: f32[32, 24]
";
    let model = model(text, &["w", "v"]);
    let samples = samples(&[32, 24], 4);
    for scheme in [Scheme::Static, Scheme::Dynamic] {
        let error = |equalise: bool, multiplications: usize| {
            let settings = QuantiseOptions { scheme, equalise, ..QuantiseOptions::default() };
            let quantised = made(&model, &samples, &settings);
            let scales = if scheme == Scheme::Dynamic { 4 } else { 0 };
            assert_eq!(count(&quantised.model, "Mul"), multiplications + scales);
            quantised.report.outputs[0].error
        };
        let (plain, alike) = (error(false, 1), error(true, 2));
        assert!(alike < 0.8 * plain, "{scheme:?}: {plain} {alike}");
    }
}

#[test]
fn weights_make_up_for_each_other() {
    // Values that go together: each is a sum of few others.
    let text = "
input x: f32[64, 6]
constant mix: f32[6, 64] {0.0}
constant w: f32[64, 16] {0.0}
constant k: f32[8, 4, 3, 3] {0.0}
constant shape: i64[4] {-1, 4, 4, 4}
s = MatMul(x, mix)
y = MatMul(s, w)
r = Reshape(s, shape)
z = Conv(r, k) {pads = [1, 1, 1, 1]}
output y: f32[64, 16]
output z: f32[64, 8, 4, 4]
";
    let model = model(text, &["mix", "w", "k"]);
    let samples = samples(&[64, 6], 4);
    let error = |block: Option<usize>, compensate: bool| {
        let scheme = Scheme::Weights { dtype: DType::I4, block };
        let keep_float = ["s".to_owned()].into();
        let settings =
            QuantiseOptions { scheme, compensate, keep_float, ..QuantiseOptions::default() };
        let report = made(&model, &samples, &settings).report;
        [report.outputs[0].error, report.outputs[1].error]
    };
    for block in [Some(16), None] {
        let (nearest, compensated) = (error(block, false), error(block, true));
        for output in 0..2 {
            let (nearest, compensated) = (nearest[output], compensated[output]);
            // What windows of a convolution see goes together less.
            let most = if output == 0 { 0.7 } else { 1.0 } * nearest;
            assert!(compensated < most, "{block:?} {output}: {nearest} {compensated}");
        }
    }
}

#[test]
fn what_loses_too_much_in_few_bits_has_bytes() {
    let text = "
input x: f32[8, 64]
constant v: f32[64, 64] {0.0}
constant w: f32[64, 32] {0.0}
h = MatMul(x, v)
r = Tanh(h)
y = MatMul(r, w)
output y: f32[8, 32]
";
    let model = model(text, &["v", "w"]);
    let samples = samples(&[8, 64], 4);
    let of = |most: Option<f64>| {
        let scheme = Scheme::Weights { dtype: DType::I4, block: Some(16) };
        let most = most.map(|most| quantise::Loss { metric: quantise::Metric::Error, most });
        made(&model, &samples, &QuantiseOptions { scheme, most, ..QuantiseOptions::default() })
    };
    let few = of(None);
    assert!(few.report.bytes.is_empty() && few.report.float.is_empty());
    let error = few.report.outputs[0].error;
    // The smaller one is taken first.
    let wider = of(Some(error * 0.999)).report;
    assert_eq!((wider.bytes.join(" "), wider.float.len()), ("y".to_owned(), 0), "{wider}");
    assert!(wider.to_string().contains("is stored in 8 bits"), "{wider}");
    assert!(wider.outputs[0].error <= error * 0.999);
    // Where bytes lose too much, too, layers stay float.
    let float = of(Some(error * 0.001)).report;
    assert!(!float.float.is_empty() && float.outputs[0].error <= error * 0.001, "{float}");
}

/// A chain of random operators between a convolution and a product of matrices.
fn random_model(seed: u64) -> DecodedModel {
    use std::fmt::Write as _;
    let draws = random(DType::F32, &[16], seed).to_f64_vec();
    let mut draws = draws.iter().cycle().map(|it| (it.abs() * 1000.0) as usize);
    let mut draw = |below: usize| draws.next().unwrap_or(0) % below;
    let channels = 2 + 2 * draw(3);
    let mut text = format!(
        "input x: f32[2, {channels}, 8, 8]\n\
         constant first: f32[{channels}, {channels}, 3, 3] {{0.0}}\n\
         constant bias: f32[{channels}] {{0.5}}\nconstant half: f32[] {{0.5}}\n"
    );
    let mut nodes = "v0 = Conv(x, first, bias) {pads = [1, 1, 1, 1]}\n".to_owned();
    let mut constants = vec!["first".to_owned()];
    let count = 2 + draw(4);
    for at in 0..count {
        let (from, to) = (format!("v{at}"), format!("v{}", at + 1));
        let node = match draw(9) {
            0 => format!("Relu({from})"),
            1 => format!("Sigmoid({from})"),
            2 => format!("Add({from}, v0)"),
            3 => format!("Mul({from}, half)"),
            4 => format!("MaxPool({from}) {{kernel_shape = [3, 3], pads = [1, 1, 1, 1]}}"),
            5 => format!("AveragePool({from}) {{kernel_shape = [3, 3], pads = [1, 1, 1, 1]}}"),
            6 => format!("LeakyRelu({from})"),
            group => {
                let (name, is_deep) = (format!("w{at}"), group == 7);
                let inner = if is_deep { 1 } else { channels };
                let group = if is_deep { channels } else { 1 };
                let _ = writeln!(text, "constant {name}: f32[{channels}, {inner}, 3, 3] {{0.0}}");
                constants.push(name.clone());
                format!("Conv({from}, {name}) {{group = {group}, pads = [1, 1, 1, 1]}}")
            }
        };
        let _ = writeln!(nodes, "{to} = {node}");
    }
    let _ = writeln!(text, "constant last: f32[{}, 5] {{0.0}}", channels * 64);
    constants.push("last".to_owned());
    let _ = writeln!(nodes, "f = Flatten(v{count})\ny = MatMul(f, last)");
    let text = format!("{text}{nodes}output y: f32[2, 5]\n");
    let names: Vec<&str> = constants.iter().map(String::as_str).collect();
    model(&text, &names)
}

#[test]
fn random_models_are_near() {
    for seed in 0..4 {
        let model = random_model(seed);
        let shape: Vec<usize> = {
            let port = &model.info().inputs[0];
            port.shape.iter().map(|it| it.to_string().parse().expect("a number")).collect()
        };
        let samples = samples(&shape, 3);
        for scheme in [
            Scheme::Static,
            Scheme::Dynamic,
            Scheme::Weights { dtype: DType::I8, block: Some(32) },
            Scheme::Weights { dtype: DType::I8, block: None },
        ] {
            let settings = QuantiseOptions { scheme, ..QuantiseOptions::default() };
            let quantised = made(&model, &samples, &settings);
            let report = &quantised.report;
            assert!(report.outputs[0].error < 0.1, "seed {seed}, {scheme:?}: {report}");
            // The file that was written gives what was reported.
            let x = samples[0][0].as_tensor().expect("a tensor").clone();
            let right = run(&model, std::slice::from_ref(&x))[0].to_f64_vec();
            let found = run(&quantised.model, &[x])[0].to_f64_vec();
            let noise: f64 = right.iter().zip(&found).map(|(a, b)| (a - b) * (a - b)).sum();
            let signal: f64 = right.iter().map(|a| a * a).sum();
            assert!(noise <= 0.04 * signal, "seed {seed}, {scheme:?}: {noise} {signal}");
        }
    }
}

#[test]
fn biases_take_up_what_clipping_shifts() {
    let text = "
input x: f32[64, 24]
constant w: f32[24, 6] {0.0}
constant v: f32[6, 3] {0.0}
constant b: f32[3] {0.0}
a = MatMul(x, w)
s = Sigmoid(a)
m = MatMul(s, v)
y = Add(m, b)
output y: f32[64, 3]
";
    let model = model(text, &["w", "v", "b"]);
    let samples = samples(&[64, 24], 4);
    let mean = |correct_bias: bool| {
        let method = Method::Percentile(90.0);
        let settings = QuantiseOptions { method, correct_bias, ..QuantiseOptions::default() };
        let quantised = made(&model, &samples, &settings);
        let mut sums = [0.0_f64; 3];
        for sample in &samples {
            let x = sample[0].as_tensor().expect("a tensor").clone();
            let right = run(&model, std::slice::from_ref(&x))[0].to_f64_vec();
            let found = run(&quantised.model, &[x])[0].to_f64_vec();
            let differences = right.iter().zip(&found).enumerate();
            differences.for_each(|(at, (right, found))| sums[at % 3] += right - found);
        }
        sums.iter().fold(0.0_f64, |most, sum| most.max((sum / 256.0).abs()))
    };
    let (plain, corrected) = (mean(false), mean(true));
    assert!(plain > 1e-3 && corrected < 0.1 * plain, "{plain} {corrected}");
}

#[test]
fn layers_stay_float_until_no_more_is_lost() {
    let model = model(CHAIN, &["w", "v", "u"]);
    let samples = samples(&[2, 3, 9, 9], 4);
    let whole = made(&model, &samples, &QuantiseOptions::default());
    let least = whole.report.outputs[0].error;
    let most = Loss { metric: quantise::Metric::Error, most: least * 0.9 };
    let settings = QuantiseOptions { most: Some(most), ..QuantiseOptions::default() };
    let within = made(&model, &samples, &settings);
    assert!(!within.report.float.is_empty());
    assert!(within.report.outputs[0].error <= most.most, "{}", within.report);
    let none = Loss { metric: quantise::Metric::Error, most: 0.0 };
    let settings = QuantiseOptions { most: Some(none), ..QuantiseOptions::default() };
    let exact = made(&model, &samples, &settings);
    assert_eq!(exact.report.float.len(), 3);
    assert_eq!(exact.report.outputs[0].error, 0.0);
}

#[test]
fn named_layers_stay_float() {
    let model = model(CHAIN, &["w", "v", "u"]);
    let keep_float: BTreeSet<String> = ["y".to_owned()].into();
    let settings = QuantiseOptions { keep_float, ..QuantiseOptions::default() };
    let quantised = made(&model, &samples(&[2, 3, 9, 9], 1), &settings);
    let names: Vec<&str> = quantised.report.layers.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["a", "q"]);
    assert_eq!(quantised.report.float, ["y"]);
}

#[test]
fn what_a_file_says_besides_is_kept() {
    let mut proto = onnx_model(CHAIN);
    let entry = StringStringEntryProto { key: "maker".to_owned(), value: "us".to_owned() };
    proto.metadata_props.push(entry.clone());
    let graph = proto.graph.as_mut().expect("a graph");
    graph.node[0].doc_string = "the first".into();
    graph.node[0].metadata_props.push(entry.clone());
    graph.input[0].doc_string = "a picture".into();
    let model = DecodedModel::of(proto.encode_to_vec().into(), &Limits::default());
    let model = model.expect("a model");
    let quantised = made(&model, &samples(&[2, 3, 9, 9], 1), &QuantiseOptions::default());
    let proto = ModelProto::decode(&quantised.model.encode()[..]).expect("a model");
    assert_eq!(proto.metadata_props.as_slice(), std::slice::from_ref(&entry));
    let graph = proto.graph.expect("a graph");
    assert_eq!(graph.input[0].doc_string, "a picture");
    let first = graph.node.iter().find(|node| node.op_type == "Conv").expect("a convolution");
    assert_eq!(
        (&first.doc_string[..], &first.metadata_props[..]),
        (&b"the first"[..], &[entry][..])
    );
}

fn refused(
    model: &DecodedModel,
    samples: &[CalibrationSample],
    settings: &QuantiseOptions,
) -> String {
    quantise(model, samples, settings).expect_err("it is refused").to_string()
}

#[test]
fn bad_input_is_refused() {
    let model = model(CHAIN, &["w", "v", "u"]);
    let good = samples(&[2, 3, 9, 9], 1);
    let settings = QuantiseOptions::default();
    let said = refused(&model, &[], &settings);
    assert!(said.contains("TW0215") && said.contains("no sample"), "{said}");
    let infinite: CalibrationSample =
        vec![Tensor::from_vec(&[2, 3, 9, 9], vec![f32::NAN; 486]).into()];
    let said = refused(&model, &[infinite], &settings);
    assert!(said.contains("TW0215") && said.contains("sample 0"), "{said}");
    let said = refused(&model, &samples(&[2, 3, 9, 8], 1), &settings);
    assert!(said.contains("TW0204"), "{said}");
    let empty = onnx_model(
        "input x: f32[n, 4]\nconstant w: f32[4, 3] {0.5}\ny = MatMul(x, w)\noutput y: f32[n, 3]\n",
    );
    let empty = DecodedModel::of(empty.encode_to_vec().into(), &Limits::default());
    let said = refused(&empty.expect("a model"), &samples(&[0, 4], 2), &settings);
    assert!(said.contains("TW0215") && said.contains("no elements"), "{said}");
    let unknown =
        QuantiseOptions { keep_float: ["yy".to_owned()].into(), ..QuantiseOptions::default() };
    let said = refused(&model, &good, &unknown);
    assert!(said.contains("TW0216") && said.contains("did you mean `y`"), "{said}");
    let quantised = made(&model, &good, &settings).model;
    let said = refused(&quantised, &good, &settings);
    assert!(said.contains("TW0217") && said.contains("already"), "{said}");
    let plain = onnx_model("input x: f32[2]\ny = Relu(x)\noutput y: f32[2]\n");
    let plain = DecodedModel::of(plain.encode_to_vec().into(), &Limits::default());
    let said = refused(&plain.expect("a model"), &samples(&[2], 1), &settings);
    assert!(said.contains("TW0217"), "{said}");
}
