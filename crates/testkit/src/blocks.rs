//! Random small models of products with weights of few bits in blocks (`MatMulNBits`), alone or one
//! behind the other, with what language models have around them.
//!
//! Numbers are not exact as those of `quantised` are: scales are any floats, and blocks any length.

use std::fmt::Write as _;

use proptest::prelude::*;
use tensor::random::{self, Generator};
use tensor::{DType, Tensor};

use crate::GraphSample;
use crate::quantised::sample_of_text;

/// Samples of up to a number of products; they shrink to fewer.
pub fn blocked_samples(products: usize) -> impl Strategy<Value = GraphSample> {
    (any::<u64>().no_shrink(), 1..=products).prop_map(|(seed, count)| blocked_graph(seed, count))
}

/// The sample of a seed.
///
/// # Panics
/// If the importer refuses the model.
pub fn blocked_graph(seed: u64, products: usize) -> GraphSample {
    let mut generator = Generator::new(seed);
    let mut below = |bound: usize| generator.below(bound as u64) as usize;
    let rows = [1, 1, 1, 2, 3, 4, 5, 8, 16, 17, 33][below(11)];
    let block = [16, 16, 32, 32, 64, 128, 256][below(7)];
    let mut depth = match below(8) {
        // The last block is not full.
        0 => block * (1 + below(3)) + 4 * (1 + below(3)),
        _ => block * (1 + below(if block > 64 { 3 } else { 18 })),
    };
    let mut text = "ir 10 opset 21 opset \"com.microsoft\" 1\n".to_owned();
    let _ = writeln!(text, "input x: f32[{rows}, {depth}]");
    let inputs = vec![random::random(DType::F32, &[rows, depth], seed)];
    let mut constants: Vec<(String, Tensor)> = Vec::new();
    let mut last = "x".to_owned();
    for number in 0..products {
        let bits = [4, 4, 8, 2][below(4)];
        // The next product has its blocks of these columns.
        let columns = match number + 1 == products {
            true => [1, 7, 16, 33, 64, 65, 96, 130, 200][below(9)],
            false => block * (1 + below(4)),
        };
        let blocks = depth.div_ceil(block);
        let mut operands = vec![last, format!("w{number}"), format!("s{number}")];
        let own = seed.wrapping_add(number as u64);
        let bytes = |shape: &[usize]| any_bytes(shape, own);
        constants.push((format!("w{number}"), bytes(&[columns, blocks, block * bits / 8])));
        constants.push((format!("s{number}"), scales(columns * blocks, depth, bits, own ^ 1)));
        match below(4) {
            0 => {
                constants
                    .push((format!("z{number}"), bytes(&[columns, (blocks * bits).div_ceil(8)])));
                operands.push(format!("z{number}"));
            }
            1 => {
                let points = random::random(DType::F32, &[columns, blocks], own ^ 2);
                constants.push((format!("z{number}"), points));
                operands.push(format!("z{number}"));
            }
            _ => {}
        }
        // Rounded to bytes where nothing was rounded before, by which a number becomes another.
        let level = if number == 0 && below(3) == 0 { 4 } else { 0 };
        let _ = writeln!(
            text,
            "y{number} = \"com.microsoft\" MatMulNBits({}) {{K = {depth}, N = {columns}, \
             bits = {bits}, block_size = {block}, accuracy_level = {level}}}",
            operands.join(", ")
        );
        last = format!("y{number}");
        depth = columns;
        // None that makes of a small difference a large one.
        let behind = match below(5) {
            0 => "Sigmoid",
            1 => "Tanh",
            _ => continue,
        };
        let _ = writeln!(text, "m{number} = {behind}({last})");
        last = format!("m{number}");
    }
    let _ = writeln!(text, "output {last}: f32[{rows}, {depth}]");
    sample_of_text(&text, &constants, inputs)
}

/// Scales of any sign by which sums of `depth` terms are as large as the data: where sums behind
/// one another grew, the rounding of one would be more than what the next one leaves of it.
fn scales(count: usize, depth: usize, bits: usize, seed: u64) -> Tensor {
    let mut generator = Generator::new(seed);
    let spread = 4.0 / (f64::from(1 << bits) * (depth as f64).sqrt());
    let scale = |_| (generator.normal() * spread) as f32;
    Tensor::from_vec(&[count], (0..count).map(scale).collect::<Vec<f32>>())
}

/// Bytes of any size.
fn any_bytes(shape: &[usize], seed: u64) -> Tensor {
    let mut generator = Generator::new(seed);
    let count = shape.iter().product();
    Tensor::from_vec(shape, (0..count).map(|_| generator.below(256) as u8).collect::<Vec<u8>>())
}
