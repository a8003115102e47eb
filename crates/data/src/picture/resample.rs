//! Resizing of pixels by triangles: bilinear when enlarged, and the mean of what an output pixel
//! covers when reduced.
//!
//! This is what PIL's `Image.resize` with `BILINEAR` computes, bit for bit: rows first, then
//! columns, with weights of 22 fractional bits and a rounding to bytes after each. (Pixels with
//! opacity are resized channel by channel, where PIL weighs colours by opacity.)

use host_ops::Pixels;

/// Fractional bits of weights: what 32 bits leave for 255 times a weight, and a sign.
const BITS: u32 = 22;

/// The pixels that one pixel of the result is made of, and their weights.
struct Taps {
    first: usize,
    weights: Vec<i32>,
}

/// For each of `to` pixels, those of `from` that it covers.
fn taps(from: usize, to: usize) -> Vec<Taps> {
    let scale = from as f64 / to as f64;
    let support = scale.max(1.0);
    let tap = |index: usize| {
        let centre = (index as f64 + 0.5) * scale;
        let first = (centre - support + 0.5).max(0.0) as usize;
        let end = ((centre + support + 0.5) as usize).min(from);
        let distance = |at: usize| ((at as f64 - centre + 0.5) / support).abs();
        let weights: Vec<f64> = (first..end).map(|at| (1.0 - distance(at)).max(0.0)).collect();
        let sum: f64 = weights.iter().sum();
        let fixed = |weight: &f64| (weight / sum * f64::from(1 << BITS)).round() as i32;
        Taps { first, weights: weights.iter().map(fixed).collect() }
    };
    (0..to).map(tap).collect()
}

fn rounded(sum: i32) -> u8 {
    ((sum + (1 << (BITS - 1))) >> BITS).clamp(0, 255) as u8
}

/// The pixels at another size, which has at least one of them.
pub(super) fn resize(pixels: Pixels, (height, width): (usize, usize)) -> Pixels {
    let pixels = if pixels.width == width { pixels } else { rows_resized(&pixels, width) };
    if pixels.height == height { pixels } else { columns_resized(&pixels, height) }
}

fn rows_resized(pixels: &Pixels, width: usize) -> Pixels {
    let channels = pixels.channels;
    let taps = taps(pixels.width, width);
    let mut bytes = Vec::with_capacity(pixels.height * width * channels);
    for row in pixels.bytes.chunks_exact(pixels.width * channels) {
        for Taps { first, weights } in &taps {
            for channel in 0..channels {
                let values = row[first * channels + channel..].iter().step_by(channels);
                let products =
                    values.zip(weights).map(|(&value, weight)| i32::from(value) * weight);
                bytes.push(rounded(products.sum()));
            }
        }
    }
    Pixels { width, bytes, ..*pixels }
}

fn columns_resized(pixels: &Pixels, height: usize) -> Pixels {
    let length = pixels.width * pixels.channels;
    let mut bytes = Vec::with_capacity(height * length);
    let mut sums = vec![0_i32; length];
    for Taps { first, weights } in taps(pixels.height, height) {
        sums.fill(0);
        let rows = pixels.bytes[first * length..].chunks_exact(length);
        for (row, weight) in rows.zip(&weights) {
            for (sum, &value) in sums.iter_mut().zip(row) {
                *sum += i32::from(value) * weight;
            }
        }
        bytes.extend(sums.iter().map(|&sum| rounded(sum)));
    }
    Pixels { height, bytes, ..*pixels }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 5 x 7 pixels of three channels that look like noise.
    fn noise() -> Pixels {
        let bytes = (0..105_u32).map(|at| (at * at * 31 + at * 17) as u8).collect();
        Pixels { height: 5, width: 7, channels: 3, bytes }
    }

    /// Sizes, and what PIL 13 gives: the first elements, and the sum of all.
    const EXPECTED: &[((usize, usize), &[u8], u32)] = &[
        ((3, 4), &[86, 54, 137, 124, 134, 108, 82, 90, 120, 110, 117, 109], 4108),
        ((10, 11), &[0, 48, 158, 34, 50, 128, 85, 57, 90, 161, 88, 77], 38019),
        ((5, 2), &[93, 90, 107, 88, 118, 115], 3372),
        ((2, 7), &[116, 70, 143, 81, 70, 132, 81, 116, 108, 162, 162, 84], 4850),
        ((1, 1), &[116, 116, 107], 339),
        ((9, 3), &[73, 61, 111, 111, 129, 105, 79, 114, 120], 9181),
    ];

    #[test]
    fn as_pil_does() {
        for (size, first, sum) in EXPECTED {
            let resized = resize(noise(), *size);
            assert_eq!((resized.height, resized.width), *size);
            assert_eq!(&resized.bytes[..first.len()], *first, "{size:?}");
            let all: u32 = resized.bytes.iter().map(|&byte| u32::from(byte)).sum();
            assert_eq!(all, *sum, "{size:?}");
        }
    }
}
