//! Draws boxes around faces.
//!
//!     cargo run --profile quick -p examples --features pictures --example detect -- \
//!         models/faces/ultraface.onnx models/faces/astronaut.jpg boxes.png
//!
//! Arguments: a detector, a picture, and the picture to write. The detector has one input, a
//! picture with values from -1 to 1, and two outputs as UltraFace has them: `scores`, of background
//! and face for each candidate, and `boxes`, the left, upper, right and lower edge of each as parts
//! of the picture's sides.

use data::{GivenInput, PictureOptions, Reading};
use image::{Rgb, RgbImage};
use tilewright::{Diagnostics, Limits, Options};

/// The least score of a face.
const LEAST_SCORE: f32 = 0.7;

/// Of two boxes that share more than this part of what both cover, the better stays.
const MOST_SHARED: f32 = 0.3;

/// A box: left, upper, right and lower edge, as parts of the picture's sides.
type Edges = [f32; 4];

fn main() -> Result<(), Diagnostics> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, path, to] = arguments.as_slice() else {
        eprintln!("detect MODEL PICTURE OUTPUT");
        std::process::exit(2);
    };
    let ports = tilewright::model_info(model, &Limits::default())?.inputs;
    // From 0..1 to -1..1.
    let preparation =
        PictureOptions { mean: vec![0.5], std: vec![0.5], ..PictureOptions::default() };
    let reading = Reading { picture: preparation, ..Reading::default() };
    let inputs = data::read(&[GivenInput::parse(path, &ports)], &ports, &reading)?;

    let executable = tilewright::compile(model, &Options::default())?;
    let outputs = executable.run_named(inputs.values)?;
    let scores: Vec<f32> = outputs.tensor("scores")?.to_vec()?;
    let boxes: Vec<f32> = outputs.tensor("boxes")?.to_vec()?;
    let faces = best(&scores, &boxes);

    let mut picture = open(path);
    for (score, edges) in &faces {
        let pixels = draw(&mut picture, edges);
        println!("a face at {pixels:?} (left, upper, right, lower), score {score:.3}");
    }
    if let Err(error) = picture.save(to) {
        eprintln!("{to}: {error}");
        std::process::exit(1);
    }
    println!("{} boxes drawn: {to}", faces.len());
    Ok(())
}

/// The faces among the candidates, the best first, each once.
fn best(scores: &[f32], boxes: &[f32]) -> Vec<(f32, Edges)> {
    let scores = scores.chunks_exact(2).map(|pair| pair[1]);
    let edges = boxes.chunks_exact(4).map(|it| [it[0], it[1], it[2], it[3]]);
    let mut candidates: Vec<(f32, Edges)> =
        scores.zip(edges).filter(|(score, _)| *score >= LEAST_SCORE).collect();
    candidates.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut kept: Vec<(f32, Edges)> = Vec::new();
    for candidate in candidates {
        if kept.iter().all(|(_, other)| shared(other, &candidate.1) <= MOST_SHARED) {
            kept.push(candidate);
        }
    }
    kept
}

/// What two boxes share, as a part of what they cover together.
fn shared(a: &Edges, b: &Edges) -> f32 {
    let area = |it: &Edges| (it[2] - it[0]).max(0.0) * (it[3] - it[1]).max(0.0);
    let both = [a[0].max(b[0]), a[1].max(b[1]), a[2].min(b[2]), a[3].min(b[3])];
    let covered = area(a) + area(b) - area(&both);
    if covered > 0.0 { area(&both) / covered } else { 0.0 }
}

fn open(path: &str) -> RgbImage {
    match image::open(path) {
        Ok(picture) => picture.into_rgb8(),
        Err(error) => {
            eprintln!("{path}: {error}");
            std::process::exit(1);
        }
    }
}

/// Draws the edges of a box, two pixels wide, and gives them in pixels.
fn draw(picture: &mut RgbImage, edges: &Edges) -> [u32; 4] {
    const GREEN: Rgb<u8> = Rgb([0, 255, 0]);
    let (width, height) = picture.dimensions();
    let to_pixel = |part: f32, side: u32| (part.clamp(0.0, 1.0) * (side - 1) as f32).round() as u32;
    let [left, upper, right, lower] = [
        to_pixel(edges[0], width),
        to_pixel(edges[1], height),
        to_pixel(edges[2], width),
        to_pixel(edges[3], height),
    ];
    for x in left..=right {
        for y in [upper, (upper + 1).min(lower), lower.saturating_sub(1).max(upper), lower] {
            picture.put_pixel(x, y, GREEN);
        }
    }
    for y in upper..=lower {
        for x in [left, (left + 1).min(right), right.saturating_sub(1).max(left), right] {
            picture.put_pixel(x, y, GREEN);
        }
    }
    [left, upper, right, lower]
}
