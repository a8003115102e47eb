//! Floating-point numbers as text that reads back to the same bits.
//!
//! Finite numbers print as the shortest decimal that reads back equal, always with a `.` or an
//! exponent; the others as `inf`, `-inf`, `nan`; a NaN with other bits than the usual quiet one as
//! `nan(0x7fc00001)`, its bits without the sign.

use std::fmt;

/// A float type with a text form; implemented by `f32` and `f64`.
pub trait FloatText: Copy {
    /// Reads a finite number without sign; `None` if malformed.
    fn parse_finite(text: &str) -> Option<Self>;
    /// The infinity.
    fn infinity() -> Self;
    /// The NaN with these bits, `None` meaning the usual quiet one; `None` back if they are no NaN.
    fn nan(bits: Option<u64>) -> Option<Self>;
    /// The number with the sign bit flipped.
    fn negated(self) -> Self;
}

macro_rules! float_text {
    ($float:ident, $bits:ident, $quiet:literal, $print:ident) => {
        impl FloatText for $float {
            fn parse_finite(text: &str) -> Option<Self> {
                text.parse::<$float>().ok().filter(|value| value.is_finite())
            }

            fn infinity() -> Self {
                $float::INFINITY
            }

            fn nan(bits: Option<u64>) -> Option<Self> {
                let bits = $bits::try_from(bits.unwrap_or($quiet)).ok()?;
                let value = $float::from_bits(bits);
                (value.is_nan() && value.is_sign_positive()).then_some(value)
            }

            fn negated(self) -> Self {
                -self
            }
        }

        /// Prints a number so that reading it gives the same bits.
        pub fn $print(value: $float) -> impl fmt::Display {
            fmt::from_fn(move |f| {
                if value.is_finite() {
                    return write!(f, "{value:?}");
                }
                let sign = if value.is_sign_negative() { "-" } else { "" };
                let bits = value.abs().to_bits();
                match (value.is_nan(), bits == $quiet) {
                    (false, _) => write!(f, "{sign}inf"),
                    (true, true) => write!(f, "{sign}nan"),
                    (true, false) => write!(f, "{sign}nan({bits:#x})"),
                }
            })
        }
    };
}

float_text!(f32, u32, 0x7fc0_0000, print_f32);
float_text!(f64, u64, 0x7ff8_0000_0000_0000, print_f64);
