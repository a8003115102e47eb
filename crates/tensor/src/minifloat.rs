//! Floating-point formats of at most 16 bits, by one parametric routine.
//!
//! A format is a sign bit (or none), an exponent field and a mantissa field; [`Specials`] says
//! which codes are not numbers. Sources: OCP 8-bit Floating Point Specification 1.0 (E4M3, E5M2),
//! OCP Microscaling Formats 1.0 (E8M0, E2M3, E3M2, E2M1), the ONNX notes on float 8 for the FNUZ
//! variants, and StableHLO's types for E3M4 and E4M3 as IEEE 754 would have them and for E4M3 with
//! bias 11.
//!
//! Invariants: encoding rounds to nearest, ties to an even code (of `f8e8m0` up, as ONNX's
//! `nearest`), in one step from `f64`; decoding is exact; `encode(decode(code)) == code` for every
//! code that is not a NaN.

use crate::dtype::DType;

/// Which codes of a format are infinities or NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Specials {
    /// As IEEE 754: the largest exponent holds infinity (mantissa 0) and NaN.
    Ieee,
    /// No infinity; exponent and mantissa all ones is NaN.
    AllOnes,
    /// No infinity, no negative zero; its code is NaN.
    NegativeZero,
    /// Every code is a number.
    None,
}

/// What becomes of a finite or infinite value beyond the largest finite one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// The largest finite value of that sign, for infinity too: ONNX `Cast` with `saturate = 1`.
    Saturate,
    /// Infinity where the format has one, else NaN, else the largest finite value.
    Special,
}

/// The layout of a floating-point format.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// Whether the highest bit is a sign.
    pub signed: bool,
    /// Width of the exponent field in bits.
    pub exponent_bits: u32,
    /// Width of the mantissa field in bits, without the implicit one.
    pub mantissa_bits: u32,
    /// What is subtracted from the exponent field.
    pub bias: i32,
    /// Whether exponent field 0 holds zero and subnormal numbers.
    pub subnormals: bool,
    /// The codes that are not numbers.
    pub specials: Specials,
}

impl Format {
    /// The format of a type of at most 16 bits; `None` for `f32`, `f64` and what is not a float.
    pub fn of(dtype: DType) -> Option<Format> {
        use Specials::{AllOnes, Ieee, NegativeZero, None as Nothing};
        let (exponent_bits, mantissa_bits, bias, specials) = match dtype {
            DType::F16 => (5, 10, 15, Ieee),
            DType::BF16 => (8, 7, 127, Ieee),
            DType::F8E4M3FN => (4, 3, 7, AllOnes),
            DType::F8E4M3FNUZ => (4, 3, 8, NegativeZero),
            DType::F8E3M4 => (3, 4, 3, Ieee),
            DType::F8E4M3 => (4, 3, 7, Ieee),
            DType::F8E4M3B11FNUZ => (4, 3, 11, NegativeZero),
            DType::F8E5M2 => (5, 2, 15, Ieee),
            DType::F8E5M2FNUZ => (5, 2, 16, NegativeZero),
            DType::F8E8M0 => (8, 0, 127, AllOnes),
            DType::F6E2M3 => (2, 3, 1, Nothing),
            DType::F6E3M2 => (3, 2, 3, Nothing),
            DType::F4E2M1 => (2, 1, 1, Nothing),
            _ => return None,
        };
        let scale_only = dtype == DType::F8E8M0;
        Some(Format {
            signed: !scale_only,
            exponent_bits,
            mantissa_bits,
            bias,
            subnormals: !scale_only,
            specials,
        })
    }

    /// Exponent and mantissa fields, all ones.
    pub fn magnitude_mask(&self) -> u64 {
        (1 << (self.exponent_bits + self.mantissa_bits)) - 1
    }

    /// The highest bit; 0 in a format without a sign.
    pub fn sign_bit(&self) -> u64 {
        if self.signed { self.magnitude_mask() + 1 } else { 0 }
    }

    /// The code of positive infinity, if there is one.
    pub fn infinity(&self) -> Option<u64> {
        let exponent = (1 << self.exponent_bits) - 1;
        (self.specials == Specials::Ieee).then_some(exponent << self.mantissa_bits)
    }

    /// The code a NaN is given, if there is one: quiet and positive where there is a choice.
    pub fn nan(&self) -> Option<u64> {
        match self.specials {
            Specials::Ieee => self.infinity().map(|code| code | 1 << (self.mantissa_bits - 1)),
            Specials::AllOnes => Some(self.magnitude_mask()),
            Specials::NegativeZero => Some(self.sign_bit()),
            Specials::None => None,
        }
    }

    /// The code of the largest finite value.
    pub fn largest(&self) -> u64 {
        match self.specials {
            Specials::Ieee => (((1 << self.exponent_bits) - 1) << self.mantissa_bits) - 1,
            Specials::AllOnes => self.magnitude_mask() - 1,
            Specials::NegativeZero | Specials::None => self.magnitude_mask(),
        }
    }

    /// The value of a code. Bits above the format's width are ignored.
    pub fn decode(&self, code: u64) -> f64 {
        let magnitude = code & self.magnitude_mask();
        let negative = code & self.sign_bit() != 0;
        let not_a_number = match self.specials {
            Specials::Ieee => self.infinity().is_some_and(|infinity| magnitude > infinity),
            Specials::AllOnes => magnitude == self.magnitude_mask(),
            Specials::NegativeZero => negative && magnitude == 0,
            Specials::None => false,
        };
        if not_a_number {
            return f64::NAN;
        }
        let value = if self.infinity() == Some(magnitude) {
            f64::INFINITY
        } else {
            let field = (magnitude >> self.mantissa_bits) as i32;
            let fraction = magnitude & ((1 << self.mantissa_bits) - 1);
            if field == 0 && self.subnormals {
                fraction as f64 * power_of_two(1 - self.bias - self.mantissa_bits as i32)
            } else {
                let significand = (fraction | 1 << self.mantissa_bits) as f64;
                significand * power_of_two(field - self.bias - self.mantissa_bits as i32)
            }
        };
        if negative { -value } else { value }
    }

    /// The code nearest to a value, ties as the file's header says. A NaN where there is none
    /// becomes the negative zero; below zero a format without a sign gives NaN; zero where there is
    /// none becomes the smallest value.
    pub fn encode(&self, value: f64, overflow: Overflow) -> u64 {
        if value.is_nan() {
            return self.nan().unwrap_or(self.sign_bit());
        }
        let negative = value.is_sign_negative();
        if negative && !self.signed && value != 0.0 {
            return self.nan().unwrap_or(0);
        }
        let magnitude = self.encode_magnitude(value.abs());
        let sign = if negative { self.sign_bit() } else { 0 };
        if magnitude > self.largest() {
            return match (overflow, self.infinity(), self.nan()) {
                (Overflow::Special, Some(infinity), _) => sign | infinity,
                (Overflow::Special, None, Some(nan)) => nan,
                _ => sign | self.largest(),
            };
        }
        if magnitude == 0 && self.specials == Specials::NegativeZero { 0 } else { sign | magnitude }
    }

    /// The code of a value of at least zero, which may run past the largest finite code. Codes of
    /// one sign are ordered as their values, so a carry out of the mantissa needs no care.
    fn encode_magnitude(&self, value: f64) -> u64 {
        if value.is_infinite() {
            return u64::MAX;
        }
        let bits = value.to_bits();
        let exponent = ((bits >> 52) as i32).max(1) - 1023;
        let smallest = if self.subnormals { 1 - self.bias } else { -self.bias };
        if !self.subnormals && exponent < smallest {
            return 0;
        }
        // One step of the result's last place is 2^(scale).
        let scale = exponent.max(smallest) - self.mantissa_bits as i32;
        let scaled = value * power_of_two(-scale);
        let steps = scaled.round_ties_even() as u64;
        let implicit = 1u64 << self.mantissa_bits;
        if self.subnormals && steps < implicit {
            return steps;
        }
        let mut field = (exponent.max(smallest) + self.bias) as u64;
        let mut fraction = steps - implicit;
        if self.mantissa_bits == 0 {
            // Nothing is left to be even but the scale itself: ONNX rounds its ties up.
            let up = scaled >= 1.5;
            field += u64::from(up);
            fraction = 0;
        }
        (field << self.mantissa_bits) + fraction
    }
}

/// The value of a code of `f16`, as [`Format::decode`] has it, without its branches.
pub(crate) fn f16_to_f32(code: u16) -> f32 {
    let (magnitude, sign) = (u32::from(code & 0x7fff), u32::from(code & 0x8000) << 16);
    // With the exponent field of an f32 the number is 2^-112 of itself; a subnormal one is normal
    // after the product.
    let finite = f32::from_bits(magnitude << 13) * f32::from_bits((127 + 112) << 23);
    let special = f32::from_bits(magnitude << 13 | 0xff << 23);
    f32::from_bits(if magnitude < 0x7c00 { finite } else { special }.to_bits() | sign)
}

/// The value of a code of `bf16`.
pub(crate) fn bf16_to_f32(code: u16) -> f32 {
    f32::from_bits(u32::from(code) << 16)
}

/// 2^n for -1074 <= n <= 1023, exactly; 0 below, infinity above.
fn power_of_two(n: i32) -> f64 {
    if n > 1023 {
        f64::INFINITY
    } else if n >= -1022 {
        f64::from_bits(((n + 1023) as u64) << 52)
    } else if n >= -1074 {
        f64::from_bits(1 << (n + 1074))
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short_floats() -> impl Iterator<Item = (DType, Format)> {
        DType::all().filter_map(|dtype| Some((dtype, Format::of(dtype)?)))
    }

    #[test]
    fn every_code_survives() {
        for (dtype, format) in short_floats() {
            for code in 0..=format.magnitude_mask() | format.sign_bit() {
                let value = format.decode(code);
                let again = format.encode(value, Overflow::Special);
                if value.is_nan() {
                    assert_eq!(Some(again), format.nan(), "{dtype} {code:#x}");
                } else {
                    assert_eq!(again, code, "{dtype} {code:#x} is {value}");
                }
            }
        }
    }

    /// Between two neighbouring values: below the middle down, above it up, at it to the even code.
    #[test]
    fn rounds_to_nearest_even() {
        for (dtype, format) in short_floats() {
            for code in 0..format.largest() {
                let (low, high) = (format.decode(code), format.decode(code + 1));
                let middle = low + (high - low) / 2.0;
                let tie_down = code % 2 == 0 && dtype != DType::F8E8M0;
                let tie = if tie_down { code } else { code + 1 };
                let encode = |value| format.encode(value, Overflow::Saturate);
                assert_eq!(encode(middle), tie, "{dtype} {code:#x}");
                assert_eq!(encode(middle.next_down()), code, "{dtype} {code:#x}");
                assert_eq!(encode(middle.next_up()), code + 1, "{dtype} {code:#x}");
            }
        }
    }

    #[test]
    fn largest_values_and_overflow() {
        let largest = |dtype| {
            let format = Format::of(dtype).expect("a short float");
            format.decode(format.largest())
        };
        assert_eq!(largest(DType::F16), 65504.0);
        assert_eq!(largest(DType::F8E4M3FN), 448.0);
        assert_eq!(largest(DType::F8E4M3FNUZ), 240.0);
        assert_eq!(largest(DType::F8E3M4), 15.5);
        assert_eq!(largest(DType::F8E4M3), 240.0);
        assert_eq!(largest(DType::F8E4M3B11FNUZ), 30.0);
        assert_eq!(largest(DType::F8E5M2), 57344.0);
        assert_eq!(largest(DType::F8E5M2FNUZ), 57344.0);
        assert_eq!(largest(DType::F8E8M0), 2f64.powi(127));
        assert_eq!(largest(DType::F6E2M3), 7.5);
        assert_eq!(largest(DType::F6E3M2), 28.0);
        assert_eq!(largest(DType::F4E2M1), 6.0);
        let e4m3 = Format::of(DType::F8E4M3FN).expect("a short float");
        assert_eq!(e4m3.encode(1e9, Overflow::Saturate), 0x7e);
        assert_eq!(e4m3.encode(f64::NEG_INFINITY, Overflow::Saturate), 0xfe);
        assert_eq!(e4m3.encode(1e9, Overflow::Special), 0x7f);
        // 464 is the middle between 448 and the code of NaN, 480: even is 448.
        assert_eq!(e4m3.encode(464.0, Overflow::Special), 0x7e);
        let e5m2 = Format::of(DType::F8E5M2).expect("a short float");
        assert_eq!(e5m2.encode(1e9, Overflow::Special), 0x7c);
        assert_eq!(e5m2.encode(1e9, Overflow::Saturate), 0x7b);
    }

    #[test]
    fn short_roads_agree_with_the_format() {
        for code in 0..=u16::MAX {
            for (dtype, short) in
                [(DType::F16, f16_to_f32 as fn(u16) -> f32), (DType::BF16, bf16_to_f32)]
            {
                let long = Format::of(dtype).expect("a short float").decode(code.into()) as f32;
                let short = short(code);
                assert!(short.to_bits() == long.to_bits() || short.is_nan() && long.is_nan());
            }
        }
    }

    #[test]
    fn agrees_with_half() {
        for step in 0..200_000u32 {
            let value = f32::from_bits(step.wrapping_mul(0x9e37_79b9));
            if value.is_nan() {
                continue;
            }
            let encode = |dtype| {
                let format = Format::of(dtype).expect("a short float");
                format.encode(f64::from(value), Overflow::Special) as u16
            };
            assert_eq!(encode(DType::F16), half::f16::from_f32(value).to_bits(), "{value}");
            assert_eq!(encode(DType::BF16), half::bf16::from_f32(value).to_bits(), "{value}");
        }
    }
}
