//! Compiles a trained digit classifier and runs it on pictures it has never seen.
//!
//!     cargo run --profile quick -p examples --example digits

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use tilewright::{Options, Tensor};

/// Runs of the latency measurement.
const RUNS: usize = 2000;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(diagnostics) => {
            eprintln!("{diagnostics}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> tilewright::Result<()> {
    let folder = folder();
    let start = Instant::now();
    let executable = tilewright::compile(folder.join("digits.onnx"), &Options::default())?;
    let images = tilewright::read_npy(folder.join("test_images.npy"))?;
    let labels = tilewright::read_npy(folder.join("test_labels.npy"))?;
    // The batch is a free dimension of this model: code for it is made at the first run.
    let outputs = executable.run(std::slice::from_ref(&images))?;
    let logits = &outputs[0];
    let compile_ms = start.elapsed().as_secs_f64() * 1e3;

    let pictures = labels.len();
    let classes = logits.len() / pictures;
    let scores = logits.to_f64_vec();
    let truth = labels.to_f64_vec();
    let mut correct = 0;
    for (picture, label) in truth.iter().enumerate() {
        let row = &scores[picture * classes..][..classes];
        let best = (0..classes).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap_or(0);
        correct += usize::from(best == *label as usize);
        if picture < 3 {
            show(&images, picture);
            println!("prediction {best}, truth {label}\n");
        }
    }
    println!("{pictures} pictures, {correct} right: {:.2} %", percent(correct, pictures));

    let one = picture(&images, 0);
    let mut outputs = executable.run(std::slice::from_ref(&one))?;
    let mut times = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        let start = Instant::now();
        executable.run_into(std::slice::from_ref(&one), &mut outputs)?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    println!("compile and first run: {compile_ms:.1} ms on {}", executable.target().name);
    println!("latency of one picture: {:.1} us (median of {RUNS} runs)", times[RUNS / 2]);
    Ok(())
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/digits")
}

fn percent(part: usize, whole: usize) -> f64 {
    100.0 * part as f64 / whole as f64
}

/// One picture of a batch, as a batch of one.
fn picture(images: &Tensor, number: usize) -> Tensor {
    let mut shape = images.shape().to_vec();
    shape[0] = 1;
    let size: usize = shape.iter().product();
    let pixels = images.to_f64_vec();
    let pixels = pixels[number * size..][..size].iter().map(|&x| x as f32).collect::<Vec<f32>>();
    Tensor::from_vec(&shape, pixels)
}

/// Draws a picture in characters.
fn show(images: &Tensor, number: usize) {
    const SHADES: [char; 5] = [' ', '.', 'o', 'O', '#'];
    let one = picture(images, number);
    let pixels = one.to_f64_vec();
    let most = pixels.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let width = one.shape().last().copied().unwrap_or(1);
    for row in pixels.chunks(width) {
        let shade = |x: &f64| SHADES[((x / most).clamp(0.0, 1.0) * 4.0).round() as usize];
        println!("{}", row.iter().map(shade).collect::<String>());
    }
}
