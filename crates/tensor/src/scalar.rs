//! One element as plain data.
//!
//! Invariants: the bits above the type's width are zero; a boolean is 0 or 1; there are no string
//! scalars. Equality, order and hash are those of type and bits, so -0.0 differs from 0.0 and a NaN
//! equals itself. The text form (`1.5`, `-0.0`, `inf`, `nan`, `-3`, `true`) parses to the same
//! bits.
//!
//! Arithmetic gives one NaN only, positive and quiet; other NaNs come from bytes and print with
//! their bits less the sign, `-nan(0x7fc00001)`, as `base`'s text kit has it.

use std::fmt;

use crate::dtype::{Class, DType};
use crate::minifloat::{Format, Overflow};

/// One element of any type but string.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Scalar {
    dtype: DType,
    bits: u64,
}

/// `Scalar::f32(1.5)` and its like, for the types Rust has.
macro_rules! integer_constructors {
    ($($name:ident $dtype:ident),*) => {$(
        #[doc = concat!("A scalar of type `", stringify!($name), "`.")]
        pub fn $name(value: $name) -> Scalar {
            Scalar::from_bits(DType::$dtype, value as u64)
        }
    )*};
}

impl Scalar {
    integer_constructors!(i64 I64, i32 I32, i16 I16, i8 I8, u64 U64, u32 U32, u16 U16, u8 U8);

    /// A scalar of type `f64`; the bits are kept, NaN or not.
    pub fn f64(value: f64) -> Scalar {
        Scalar { dtype: DType::F64, bits: value.to_bits() }
    }

    /// A scalar of type `f32`; the bits are kept, NaN or not.
    pub fn f32(value: f32) -> Scalar {
        Scalar { dtype: DType::F32, bits: u64::from(value.to_bits()) }
    }

    /// A scalar of type `bool`.
    pub fn bool(value: bool) -> Scalar {
        Scalar { dtype: DType::Bool, bits: u64::from(value) }
    }

    /// The element with these bits; those above the type's width are dropped, and a boolean is true
    /// for any but 0.
    ///
    /// # Panics
    /// When `dtype` is string.
    pub fn from_bits(dtype: DType, bits: u64) -> Scalar {
        assert!(dtype != DType::String, "a scalar is never a string");
        let bits = match dtype {
            DType::Bool => u64::from(bits != 0),
            // A byte holds less than it could.
            DType::F6E2M3 | DType::F6E3M2 => bits & 0x3F,
            _ => bits & (u64::MAX >> (64 - dtype.bits())),
        };
        Scalar { dtype, bits }
    }

    /// The number as an element: floats round to nearest even (short floats that overflow: see
    /// [`Overflow`], saturating up to 8 bits of width, infinite above); integers truncate and
    /// saturate at their bounds, NaN gives 0; a boolean is true for any but zero.
    pub fn from_f64(dtype: DType, value: f64) -> Scalar {
        let overflow = if dtype.bits() <= 8 { Overflow::Saturate } else { Overflow::Special };
        Scalar::from_f64_with(dtype, value, overflow)
    }

    /// As [`Scalar::from_f64`], with a say in what a short float that overflows becomes.
    pub fn from_f64_with(dtype: DType, value: f64, overflow: Overflow) -> Scalar {
        match dtype {
            DType::F64 if value.is_nan() => Scalar { dtype, bits: 0x7ff8 << 48 },
            DType::F64 => Scalar::f64(value),
            DType::F32 if value.is_nan() => Scalar { dtype, bits: 0x7fc0_0000 },
            DType::F32 => Scalar::f32(value as f32),
            DType::Bool => Scalar::bool(value != 0.0),
            _ => {
                if let Some(format) = Format::of(dtype) {
                    return Scalar { dtype, bits: format.encode(value, overflow) };
                }
                let (low, high) = integer_range(dtype);
                Scalar::from_i128(dtype, (value as i128).clamp(low, high))
            }
        }
    }

    /// The integer as an element: integers wrap, floats round to nearest even in one step, a
    /// boolean is true for any but zero.
    pub fn from_i64(dtype: DType, value: i64) -> Scalar {
        Scalar::from_i128(dtype, i128::from(value))
    }

    /// As [`Scalar::from_i64`], for a range that holds all of `u64` too.
    ///
    /// # Panics
    /// For strings, as all that makes an element of a number.
    pub fn from_i128(dtype: DType, value: i128) -> Scalar {
        match dtype.class() {
            Class::Signed | Class::Unsigned => Scalar::from_bits(dtype, value as u64),
            Class::Bool => Scalar::bool(value != 0),
            Class::Float if dtype == DType::F64 => Scalar::f64(value as f64),
            Class::Float if dtype == DType::F32 => Scalar::f32(value as f32),
            Class::Float => Scalar::from_f64(dtype, round_to_odd(value)),
            Class::String => panic!("a string is no number"),
        }
    }

    /// The element 0 (`false`; the smallest scale for `f8e8m0`).
    pub fn zero(dtype: DType) -> Scalar {
        Scalar::from_i64(dtype, 0)
    }

    /// The element 1 (`true`).
    pub fn one(dtype: DType) -> Scalar {
        Scalar::from_i64(dtype, 1)
    }

    /// The smallest element of the type's order: -inf, or the most negative finite number where
    /// there is no infinity; `false`.
    pub fn lowest(dtype: DType) -> Scalar {
        match dtype.integer_range() {
            Some((low, _)) => Scalar::from_i128(dtype, low),
            None => Scalar::extreme(dtype, true),
        }
    }

    /// The largest element of the type's order: inf, or the largest finite number; `true`.
    pub fn highest(dtype: DType) -> Scalar {
        match dtype.integer_range() {
            Some((_, high)) => Scalar::from_i128(dtype, high),
            None => Scalar::extreme(dtype, false),
        }
    }

    fn extreme(dtype: DType, negative: bool) -> Scalar {
        let infinity = if negative { f64::NEG_INFINITY } else { f64::INFINITY };
        match Format::of(dtype) {
            Some(format) if negative && !format.signed => Scalar::zero(dtype),
            Some(format) if format.infinity().is_none() => {
                Scalar::from_f64_with(dtype, infinity, Overflow::Saturate)
            }
            _ => Scalar::from_f64_with(dtype, infinity, Overflow::Special),
        }
    }

    /// The element's type.
    pub fn dtype(self) -> DType {
        self.dtype
    }

    /// The element's bits, zero above the type's width.
    pub fn bits(self) -> u64 {
        self.bits
    }

    /// The value; exact but for integers of more than 53 bits, which round to nearest even.
    pub fn as_f64(self) -> f64 {
        match self.dtype {
            DType::F64 => f64::from_bits(self.bits),
            DType::F32 => f64::from(f32::from_bits(self.bits as u32)),
            _ => match Format::of(self.dtype) {
                Some(format) => format.decode(self.bits),
                None => self.as_i128() as f64,
            },
        }
    }

    /// The value rounded to `f32`, to nearest even.
    pub fn as_f32(self) -> f32 {
        match self.dtype {
            DType::F32 => f32::from_bits(self.bits as u32),
            _ if self.dtype.is_float() => self.as_f64() as f32,
            _ => self.as_i128() as f32,
        }
    }

    /// The value as an integer: floats truncate and saturate, NaN gives 0, `u64` wraps above
    /// `i64::MAX`.
    pub fn as_i64(self) -> i64 {
        if self.dtype.is_float() { self.as_f64() as i64 } else { self.as_i128() as i64 }
    }

    /// The value as an integer wide enough for all integer types; floats truncate and saturate.
    pub fn as_i128(self) -> i128 {
        match self.dtype.class() {
            Class::Float => self.as_f64() as i128,
            Class::Signed => {
                let unused = 64 - self.dtype.bits();
                i128::from(((self.bits << unused) as i64) >> unused)
            }
            Class::Unsigned | Class::Bool | Class::String => i128::from(self.bits),
        }
    }

    /// Whether the value differs from zero; a NaN does.
    pub fn as_bool(self) -> bool {
        if self.dtype.is_float() { self.as_f64() != 0.0 } else { self.bits != 0 }
    }

    /// Whether the value is a NaN.
    pub fn is_nan(self) -> bool {
        self.dtype.is_float() && self.as_f64().is_nan()
    }

    /// The value in another type: float to integer truncates and saturates, NaN gives 0; integer to
    /// integer wraps; to float rounds to nearest even, in one step (floats of 8 bits and fewer
    /// saturate); to boolean is `!= 0`. To the same type the bits are kept.
    pub fn cast(self, dtype: DType) -> Scalar {
        if dtype == self.dtype {
            self
        } else if self.dtype.is_float() {
            Scalar::from_f64(dtype, self.as_f64())
        } else {
            Scalar::from_i128(dtype, self.as_i128())
        }
    }

    /// Reads an element of a given type from its text form, which is a decimal number, `true` or
    /// `false`, `inf`, `nan` or `nan(0x...)` with the bits less the sign.
    ///
    /// # Errors
    /// A sentence when the text is no such thing, or an integer is beyond the type's range.
    pub fn parse(dtype: DType, text: &str) -> Result<Scalar, String> {
        let bad = || format!("`{text}` is not a value of type {dtype}");
        match dtype.class() {
            Class::String => Err("a scalar is never a string".to_owned()),
            Class::Bool => text.parse().map(Scalar::bool).map_err(|_| bad()),
            Class::Signed | Class::Unsigned => {
                let value: i128 = text.parse().map_err(|_| bad())?;
                let (low, high) = integer_range(dtype);
                if value < low || value > high {
                    return Err(format!("{text} is outside {low}..={high}, the range of {dtype}"));
                }
                Ok(Scalar::from_i128(dtype, value))
            }
            Class::Float => parse_float(dtype, text).ok_or_else(bad),
        }
    }
}

fn integer_range(dtype: DType) -> (i128, i128) {
    dtype.integer_range().unwrap_or((0, 0))
}

/// The integer as `f64`, its last bit set if anything was lost, so that rounding it once more to a
/// shorter format gives what rounding the integer itself would.
fn round_to_odd(value: i128) -> f64 {
    let nearest = value as f64;
    let back = nearest as i128;
    if back == value {
        return nearest;
    }
    let toward_zero =
        if (back > value) == (value > 0) { f64::from_bits(nearest.to_bits() - 1) } else { nearest };
    f64::from_bits(toward_zero.to_bits() | 1)
}

fn parse_float(dtype: DType, text: &str) -> Option<Scalar> {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    if unsigned.starts_with(['+', '-']) {
        return None;
    }
    let nan = Scalar::from_f64(dtype, f64::NAN);
    if let Some(rest) = unsigned.strip_prefix("nan") {
        let bits = match rest.strip_prefix("(0x").and_then(|rest| rest.strip_suffix(')')) {
            Some(digits) => u64::from_str_radix(digits, 16).ok()?,
            None if rest.is_empty() => nan.bits,
            None => return None,
        };
        let scalar = Scalar::from_bits(dtype, if negative { bits | sign_bit(dtype) } else { bits });
        return (scalar.is_nan() && bits <= scalar.bits).then_some(scalar);
    }
    let scalar = match dtype {
        // Straight from decimal, since rounding to f64 first may round twice.
        DType::F32 => Scalar::f32(text.parse().ok()?),
        _ => Scalar::from_f64_with(dtype, text.parse().ok()?, Overflow::Special),
    };
    (!scalar.is_nan()).then_some(scalar)
}

/// The sign bit of a float type, 0 for `f8e8m0`, which has none.
fn sign_bit(dtype: DType) -> u64 {
    Format::of(dtype).map_or_else(|| 1 << (dtype.bits() - 1), |format| format.sign_bit())
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.dtype.class() {
            Class::Bool => f.pad(if self.as_bool() { "true" } else { "false" }),
            Class::Float => f.pad(&float_text(*self)),
            _ => f.pad(&self.as_i128().to_string()),
        }
    }
}

/// A short decimal text that parses to the same bits, always with a point, an exponent or a word:
/// whole numbers up to a million exactly, of others the shortest.
fn float_text(scalar: Scalar) -> String {
    if scalar.is_nan() {
        let usual = Scalar::from_f64(scalar.dtype, f64::NAN).bits;
        let bits = scalar.bits & !sign_bit(scalar.dtype);
        return match (scalar.bits == usual, bits == usual) {
            (true, _) => "nan".to_owned(),
            (_, true) => "-nan".to_owned(),
            _ if bits == scalar.bits => format!("nan({bits:#x})"),
            _ => format!("-nan({bits:#x})"),
        };
    }
    let value = scalar.as_f64();
    match scalar.dtype {
        DType::F64 => return format!("{value:?}"),
        DType::F32 => return format!("{:?}", scalar.as_f32()),
        _ if value.fract() == 0.0 && value.abs() < 1e6 => return format!("{value:?}"),
        _ => {}
    }
    (0..9)
        .filter_map(|digits| format!("{value:.digits$e}").parse::<f64>().ok())
        .find(|&short| Scalar::from_f64_with(scalar.dtype, short, Overflow::Special) == scalar)
        .map_or_else(|| format!("{value:?}"), |short| format!("{short:?}"))
}

impl fmt::Debug for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}: {}", self.dtype)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn types() -> Vec<DType> {
        DType::all().filter(|dtype| *dtype != DType::String).collect()
    }

    fn any_scalar() -> impl Strategy<Value = Scalar> {
        (prop::sample::select(types()), any::<u64>())
            .prop_map(|(dtype, bits)| Scalar::from_bits(dtype, bits))
    }

    proptest! {
        #[test]
        fn text_round_trips(scalar in any_scalar()) {
            prop_assert_eq!(Scalar::parse(scalar.dtype(), &scalar.to_string()), Ok(scalar));
        }

        #[test]
        fn integers_survive_a_wider_type(value in any::<i32>()) {
            let scalar = Scalar::i32(value);
            for wider in [DType::I64, DType::F64] {
                prop_assert_eq!(scalar.cast(wider).cast(DType::I32), scalar);
            }
        }

        #[test]
        fn floats_survive_a_wider_type(bits in any::<u16>()) {
            for dtype in [DType::F16, DType::BF16, DType::F8E4M3FN, DType::F8E5M2, DType::F4E2M1] {
                let scalar = Scalar::from_bits(dtype, u64::from(bits));
                if scalar.as_f64().is_finite() {
                    prop_assert_eq!(scalar.cast(DType::F32).cast(dtype), scalar);
                    prop_assert_eq!(scalar.cast(DType::F64).cast(dtype), scalar);
                }
            }
        }

        #[test]
        fn casts_as_rust_does(value in any::<f64>(), integer in any::<i64>()) {
            let float = Scalar::f64(value);
            prop_assert_eq!(float.cast(DType::I8), Scalar::i8(value as i8));
            prop_assert_eq!(float.cast(DType::U64), Scalar::u64(value as u64));
            prop_assert_eq!(Scalar::i64(integer).cast(DType::U16), Scalar::u16(integer as u16));
            prop_assert_eq!(Scalar::i64(integer).cast(DType::F32), Scalar::f32(integer as f32));
        }
    }

    #[test]
    fn every_short_float_round_trips_through_text() {
        for dtype in types().into_iter().filter(|dtype| dtype.is_float() && dtype.bits() <= 16) {
            let format = Format::of(dtype).expect("a short float");
            for bits in 0..=format.magnitude_mask() | format.sign_bit() {
                let scalar = Scalar::from_bits(dtype, bits);
                assert_eq!(Scalar::parse(dtype, &scalar.to_string()), Ok(scalar));
            }
        }
    }

    #[test]
    fn texts() {
        let text = |scalar: Scalar| scalar.to_string();
        assert_eq!(text(Scalar::f32(1.5)), "1.5");
        assert_eq!(text(Scalar::f32(-0.0)), "-0.0");
        assert_eq!(text(Scalar::f32(0.1)), "0.1");
        assert_eq!(text(Scalar::f32(f32::INFINITY)), "inf");
        assert_eq!(text(Scalar::from_f64(DType::F16, f64::NAN)), "nan");
        assert_eq!(text(Scalar::from_f64(DType::F16, 0.1)), "0.1");
        assert_eq!(text(Scalar::from_f64(DType::F16, 65504.0)), "65504.0");
        assert_eq!(text(Scalar::from_bits(DType::F32, 0x7fc0_0001)), "nan(0x7fc00001)");
        assert_eq!(text(Scalar::from_i64(DType::I4, -8)), "-8");
        assert_eq!(text(Scalar::from_bits(DType::F32, 0xffc0_0001)), "-nan(0x7fc00001)");
        assert_eq!(text(Scalar::from_bits(DType::F16, 0xfe00)), "-nan");
        assert_eq!(text(Scalar::bool(true)), "true");
        assert!(Scalar::parse(DType::I4, "8").is_err());
        assert!(Scalar::parse(DType::F4E2M1, "nan").is_err());
        assert!(Scalar::parse(DType::Bool, "1").is_err());
    }

    #[test]
    fn edges() {
        assert_eq!(Scalar::from_f64(DType::I32, f64::NAN), Scalar::i32(0));
        assert_eq!(Scalar::from_f64(DType::U8, -3.0), Scalar::u8(0));
        assert!(Scalar::f32(f32::NAN).as_bool());
        assert_eq!(Scalar::u64(u64::MAX).as_f64(), 2f64.powi(64));
        assert_eq!(Scalar::highest(DType::F8E4M3FN).as_f64(), 448.0);
        assert_eq!(Scalar::highest(DType::F8E5M2).as_f64(), f64::INFINITY);
        assert_eq!(Scalar::lowest(DType::I2).as_i64(), -2);
        assert_eq!(
            Scalar::from_i64(DType::BF16, (1 << 60) + (1 << 52) + 1).as_f64(),
            2f64.powi(60) + 2f64.powi(53)
        );
    }
}
