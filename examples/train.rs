//! Trains the network of models/digits, traced in Rust, and counts what it reads rightly.
//!
//!     cargo run --profile quick -p examples --example train
//!
//! A step is one program: the loss, its gradient by all parameters, and AdamW's update of them.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use tilewright::trace::{TracedValue, trace, value_and_grad};
use tilewright::{DType, Executable, Options, Tensor};

/// Pictures a step.
const BATCH: usize = 32;
/// How often each picture is seen.
const EPOCHS: usize = 40;
const MOST_RATE: f64 = 3e-3;
const DECAY: f64 = 1e-2;
/// How much of a batch's moments goes into the running ones.
const SHARE: f64 = 0.1;

/// Names and shapes of what is trained: for each convolution windows, scales and shifts, for each
/// product weights and a bias.
const PARAMETERS: [(&str, &[usize]); 13] = [
    ("windows 1", &[16, 1, 3, 3]),
    ("scales 1", &[16]),
    ("shifts 1", &[16]),
    ("windows 2", &[32, 16, 3, 3]),
    ("scales 2", &[32]),
    ("shifts 2", &[32]),
    ("windows 3", &[64, 32, 3, 3]),
    ("scales 3", &[64]),
    ("shifts 3", &[64]),
    ("hidden weights", &[256, 64]),
    ("hidden bias", &[64]),
    ("weights", &[64, 10]),
    ("bias", &[10]),
];

/// Channels of the convolutions, whose running means and variances are kept.
const CHANNELS: [usize; 3] = [16, 32, 64];

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(diagnostics) => {
            eprintln!("{diagnostics}");
            ExitCode::FAILURE
        }
    }
}

/// Values along axis 1 of pictures, as a shape that broadcasts to them.
fn channels(values: &TracedValue) -> TracedValue {
    values.reshape(&[1, values.shape()[0], 1, 1])
}

/// Scores of pictures. `moments` gives mean and variance of each channel of a convolution's result.
fn network(
    parameters: &[TracedValue],
    images: &TracedValue,
    mut moments: impl FnMut(usize, &TracedValue) -> (TracedValue, TracedValue),
) -> TracedValue {
    let mut x = images.clone();
    for layer in 0..3 {
        let [windows, scales, shifts] = &parameters[3 * layer..][..3] else { break };
        x = x.convolve(windows, 1);
        let (mean, variance) = moments(layer, &x);
        let scale = scales / (variance + 1e-5).sqrt();
        x = ((x - channels(&mean)) * channels(&scale) + channels(shifts)).relu();
        if layer > 0 {
            x = x.max_pool(2);
        }
    }
    let [weights, bias, last_weights, last_bias] = &parameters[9..] else { return x };
    let rows = x.reshape(&[images.shape()[0], weights.shape()[0]]);
    (rows.matmul(weights) + bias).relu().matmul(last_weights) + last_bias
}

fn batch_moments(x: &TracedValue) -> (TracedValue, TracedValue) {
    let mean = x.mean_axes(&[0, 2, 3]);
    let variance = (x - channels(&mean)).powf(2.0).mean_axes(&[0, 2, 3]);
    (mean, variance)
}

/// The names, types and shapes of all that a step changes: parameters, both of Adam's moments of
/// each, running means and variances.
fn state() -> Vec<(String, DType, Vec<usize>)> {
    let mut state = Vec::new();
    for kind in ["", "mean of ", "square of "] {
        let named = |(name, shape): &(&str, &[usize])| {
            (format!("{kind}{name}"), DType::F32, shape.to_vec())
        };
        state.extend(PARAMETERS.iter().map(named));
    }
    for kind in ["mean", "variance"] {
        let named = |channels: &usize| (format!("{kind} {channels}"), DType::F32, vec![*channels]);
        state.extend(CHANNELS.iter().map(named));
    }
    state
}

type Inputs<'a> = Vec<(&'a str, DType, &'a [usize])>;

/// A step of training: the state, pictures, labels, the rate and the step's number in; the state
/// after it and the loss out.
fn step() -> tilewright::Result<Executable> {
    let state = state();
    let mut inputs: Inputs<'_> =
        state.iter().map(|(name, dtype, shape)| (&name[..], *dtype, &shape[..])).collect();
    inputs.push(("images", DType::F32, &[BATCH, 1, 8, 8]));
    inputs.push(("labels", DType::I64, &[BATCH]));
    inputs.push(("rate", DType::F32, &[]));
    inputs.push(("step", DType::F32, &[]));
    let function = trace("step", &inputs, |inputs| {
        let count = PARAMETERS.len();
        let (state, rest) = inputs.split_at(inputs.len() - 4);
        let (parameters, state) = state.split_at(count);
        let (means, state) = state.split_at(count);
        let (squares, running) = state.split_at(count);
        let [images, labels, rate, step] = rest else { return Vec::new() };
        let loss = |parameters: &Vec<TracedValue>| {
            let scores = network(parameters, images, |_, x| batch_moments(x));
            let right = labels.one_hot(10, DType::F32);
            -(scores.log_softmax() * right).sum() / BATCH as f64
        };
        let (loss, gradients) = value_and_grad(loss)(&parameters.to_vec());
        let mut running = running.to_vec();
        let count_of = |x: &TracedValue| (x.shape()[0] * x.shape()[2] * x.shape()[3]) as f64;
        network(parameters, images, |layer, x| {
            let (mean, variance) = batch_moments(x);
            let unbiased = count_of(x) / (count_of(x) - 1.0);
            running[layer] = &running[layer] * (1.0 - SHARE) + &mean * SHARE;
            let more = &variance * (SHARE * unbiased);
            running[3 + layer] = &running[3 + layer] * (1.0 - SHARE) + more;
            (mean, variance)
        });
        let (mut new, mut new_means, mut new_squares) = (Vec::new(), Vec::new(), Vec::new());
        let bias = |base: f64| 1.0 - (step * base.ln()).exp();
        for (number, gradient) in gradients.iter().enumerate() {
            let mean = &means[number] * 0.9 + gradient * 0.1;
            let square = &squares[number] * 0.999 + gradient * gradient * 0.001;
            let by = (&mean / bias(0.9)) / ((&square / bias(0.999)).sqrt() + 1e-8);
            let kept = &parameters[number] * (1.0 - rate * DECAY);
            new.push(kept - rate * by);
            new_means.push(mean);
            new_squares.push(square);
        }
        [new, new_means, new_squares, running, vec![loss.named("loss")]].concat()
    })?;
    tilewright::compile_module(function.into_module(), &Options::default())
}

/// Scores of so many pictures: parameters, running means and variances, pictures in.
fn scores(pictures: usize) -> tilewright::Result<Executable> {
    let state = state();
    let shape = [pictures, 1, 8, 8];
    let mut inputs: Inputs<'_> = state
        .iter()
        .enumerate()
        .filter(|(number, _)| *number < PARAMETERS.len() || *number >= 3 * PARAMETERS.len())
        .map(|(_, (name, dtype, shape))| (&name[..], *dtype, &shape[..]))
        .collect();
    inputs.push(("images", DType::F32, &shape));
    let function = trace("scores", &inputs, |inputs| {
        let (parameters, rest) = inputs.split_at(PARAMETERS.len());
        network(parameters, &rest[6], |layer, _| (rest[layer].clone(), rest[3 + layer].clone()))
    })?;
    tilewright::compile_module(function.into_module(), &Options::default())
}

/// Numbers between 0 and 1 that look random (splitmix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.uniform() * bound as f64) as usize
    }
}

/// What training starts from: windows, weights and biases within one over the root of how many
/// numbers each result is a sum of, scales and variances 1, all else 0.
fn start(dice: &mut Dice) -> Vec<Tensor> {
    let fill = |(name, _, shape): &(String, DType, Vec<usize>)| {
        let terms = match &name[..] {
            "hidden weights" | "hidden bias" => 256,
            "weights" | "bias" => 64,
            _ => shape[1..].iter().product(),
        };
        let most = 1.0 / (terms as f64).sqrt();
        let element = |dice: &mut Dice| match name.split_once(' ') {
            Some(("mean" | "square", _)) | Some(("shifts", _)) => 0.0,
            Some(("scales" | "variance", _)) => 1.0,
            _ => (2.0 * dice.uniform() - 1.0) * most,
        };
        let count = shape.iter().product();
        let elements: Vec<f32> = (0..count).map(|_| element(dice) as f32).collect();
        Tensor::from_vec(shape, elements)
    };
    state().iter().map(fill).collect()
}

/// The rate at a part of the way: up to the greatest over the first three tenths, then down.
fn rate(part: f64) -> f64 {
    let cosine = |from: f64, to: f64, part: f64| {
        to + (from - to) * 0.5 * (1.0 + (std::f64::consts::PI * part).cos())
    };
    match part < 0.3 {
        true => cosine(MOST_RATE / 25.0, MOST_RATE, part / 0.3),
        false => cosine(MOST_RATE, MOST_RATE / 25e4, (part - 0.3) / 0.7),
    }
}

/// A picture moved by so many rows and columns, round the edges.
fn rolled(pixels: &[f64], (down, right): (usize, usize), into: &mut Vec<f32>) {
    for row in 0..8 {
        for column in 0..8 {
            let from = (row + 8 - down) % 8 * 8 + (column + 8 - right) % 8;
            into.push((pixels[from] / 16.0) as f32);
        }
    }
}

fn run() -> tilewright::Result<()> {
    let began = Instant::now();
    let step = step()?;
    println!("compiled a step of {} inputs", step.inputs().len());
    eprintln!("in {:.0} ms", began.elapsed().as_secs_f64() * 1e3);
    let pixels = tilewright::read_npy(folder().join("train_images.npy"))?.to_f64_vec();
    let labels = tilewright::read_npy(folder().join("train_labels.npy"))?.to_f64_vec();
    let mut dice = Dice(20);
    let mut state = start(&mut dice);
    let mut order: Vec<usize> = (0..labels.len()).collect();
    let steps = labels.len() / BATCH;
    let mut spent = Vec::new();
    let mut done = 0;
    for epoch in 1..=EPOCHS {
        for place in (1..order.len()).rev() {
            order.swap(place, dice.below(place + 1));
        }
        let mut sum = 0.0;
        for chosen in order.chunks_exact(BATCH) {
            let by = ([7, 0, 1][dice.below(3)], [7, 0, 1][dice.below(3)]);
            let mut images = Vec::new();
            chosen.iter().for_each(|&it| rolled(&pixels[it * 64..][..64], by, &mut images));
            let mut inputs = state;
            inputs.push(Tensor::from_vec(&[BATCH, 1, 8, 8], images));
            let truth: Vec<i64> = chosen.iter().map(|&it| labels[it] as i64).collect();
            inputs.push(Tensor::from_vec(&[BATCH], truth));
            let part = done as f64 / (EPOCHS * steps) as f64;
            done += 1;
            inputs.push(Tensor::from_vec(&[], vec![rate(part) as f32]));
            inputs.push(Tensor::from_vec(&[], vec![done as f32]));
            let began = Instant::now();
            state = step.run(&inputs)?;
            spent.push(began.elapsed().as_secs_f64() * 1e6);
            sum += state.pop().map_or(0.0, |loss| loss.to_f64_vec()[0]);
        }
        if epoch % 10 == 0 {
            println!("epoch {epoch}: loss {:.4}", sum / steps as f64);
        }
    }
    spent.sort_by(f64::total_cmp);
    eprintln!("{:.0} us a step in the middle, {:.0} at least", spent[spent.len() / 2], spent[0]);

    let images = tilewright::read_npy(folder().join("test_images.npy"))?;
    let truth = tilewright::read_npy(folder().join("test_labels.npy"))?.to_f64_vec();
    let scores = scores(truth.len())?;
    let mut inputs = state;
    inputs.drain(PARAMETERS.len()..3 * PARAMETERS.len());
    inputs.push(images);
    let found = scores.run(&inputs)?[0].to_f64_vec();
    let is_right = |(row, truth): (&[f64], &f64)| {
        (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])) == Some(*truth as usize)
    };
    let right = found.chunks(10).zip(&truth).filter(|pair| is_right(*pair)).count();
    let share = 100.0 * right as f64 / truth.len() as f64;
    println!("{} pictures, {right} right: {share:.2} %", truth.len());
    Ok(())
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/digits")
}
