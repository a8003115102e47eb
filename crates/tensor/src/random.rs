//! Reproducible random tensors.
//!
//! The generator is xoshiro256++ (Blackman and Vigna, "Scrambled linear pseudorandom number
//! generators", 2021), seeded by splitmix64; normal numbers come from Marsaglia's polar method
//! (1964) with a logarithm of our own. Only integer operations and `+ - * / sqrt` are used, so a
//! seed gives the same bits on every platform.

use crate::dtype::{Class, DType};
use crate::scalar::Scalar;
use crate::tensor::Tensor;

/// A stream of random numbers, determined by its seed.
#[derive(Clone, Debug)]
pub struct Generator {
    state: [u64; 4],
    /// The second of a pair of normal numbers, not yet handed out.
    spare: Option<f64>,
}

impl Generator {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Generator {
        let mut counter = seed;
        let state = std::array::from_fn(|_| {
            counter = counter.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = counter;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        });
        Generator { state, spare: None }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// A whole number below `bound`, which is not 0; the bias is below `bound` / 2^64.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in [0, 1), a multiple of 2^-53.
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number of the standard normal distribution.
    pub fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        loop {
            let (x, y) = (2.0 * self.uniform() - 1.0, 2.0 * self.uniform() - 1.0);
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                let scale = (-2.0 * log(square) / square).sqrt();
                self.spare = Some(y * scale);
                return x * scale;
            }
        }
    }
}

/// The natural logarithm of a positive normal number, the same on every platform, within a few ULP.
/// With m in [sqrt(1/2), sqrt(2)] and s = (m - 1) / (m + 1): ln m = 2 (s + s^3 / 3 + s^5 / 5 +
/// ...).
fn log(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut m = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    if m > std::f64::consts::SQRT_2 {
        m /= 2.0;
        exponent += 1;
    }
    let s = (m - 1.0) / (m + 1.0);
    // s^2 < 0.03, so eleven terms reach the last bit.
    let series = (0..11).rev().fold(0.0, |sum, k| sum * (s * s) + 1.0 / f64::from(2 * k + 1));
    exponent as f64 * std::f64::consts::LN_2 + 2.0 * s * series
}

/// A tensor of random elements: floats of the standard normal distribution, integers and booleans 0
/// or 1 (for strings, "0" or "1").
///
/// # Panics
/// When the tensor does not fit the address space.
pub fn random(dtype: DType, shape: &[usize], seed: u64) -> Tensor {
    let mut tensor = Tensor::zeros(dtype, shape);
    let mut generator = Generator::new(seed);
    if dtype == DType::String {
        let strings = (0..tensor.len()).map(|_| generator.below(2).to_string()).collect();
        return Tensor::from_strings(shape, strings);
    }
    if let Some(values) = tensor.as_mut_slice::<f32>() {
        values.fill_with(|| generator.normal() as f32);
        return tensor;
    }
    for index in 0..tensor.len() {
        let value = match dtype.class() {
            Class::Float => Scalar::from_f64(dtype, generator.normal()),
            // Not `from_i64`: 1 is no value of a signed type of one bit, should one come.
            _ => Scalar::from_bits(dtype, generator.bits() >> 63),
        };
        tensor.set_scalar(index, value);
    }
    tensor
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_never_changes() {
        let mut generator = Generator::new(0);
        let first: Vec<u64> = (0..3).map(|_| generator.bits()).collect();
        // The published first outputs of xoshiro256++ whose state splitmix64 filled from 0.
        assert_eq!(first, [0x53175d61490b23df, 0x61da6f3dc380d507, 0x5c0fdf91ec9a7bfc]);
    }

    #[test]
    fn logarithm() {
        for step in 1..10_000 {
            let x = f64::from(step) / 10_000.0;
            assert!((log(x) - x.ln()).abs() <= 4.0 * f64::EPSILON * x.ln().abs(), "{x}");
        }
    }

    #[test]
    fn moments_of_the_normal_distribution() {
        let values = random(DType::F32, &[100_000], 1).to_f64_vec();
        let moment = |power| values.iter().map(|x| x.powi(power)).sum::<f64>() / 1e5;
        assert!(moment(1).abs() < 0.02);
        assert!((moment(2) - 1.0).abs() < 0.03);
        assert!((moment(4) - 3.0).abs() < 0.2);
    }

    #[test]
    fn integers_are_zero_or_one() {
        for dtype in [DType::I64, DType::U8, DType::I4, DType::Bool] {
            let values = random(dtype, &[1000], 7).to_f64_vec();
            assert!(values.iter().all(|x| *x == 0.0 || *x == 1.0));
            let ones = values.iter().sum::<f64>();
            assert!((400.0..600.0).contains(&ones));
        }
        assert_eq!(random(DType::F32, &[9], 3), random(DType::F32, &[9], 3));
        assert_ne!(random(DType::F32, &[9], 3), random(DType::F32, &[9], 4));
    }
}
