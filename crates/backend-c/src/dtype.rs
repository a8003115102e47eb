//! Element types and constants as C.
//!
//! A value of a float type of at most 16 bits is held as its bits and computed with as a `float`;
//! one of an integer type of fewer than 8 bits is held in 8 bits, its upper bits copies of the sign
//! or zero. A boolean is an integer that is 0 or 1.

use tensor::{Class, DType, Scalar};

use crate::helpers::Helpers;
use crate::index::integer;

/// The type of a value. There are no values of strings, which kernels do not have.
pub(crate) fn value_type(dtype: DType) -> &'static str {
    match (dtype.class(), dtype.bits()) {
        (Class::Float, 64) => "double",
        (Class::Float, 32) => "float",
        (Class::Signed, 64) => "int64_t",
        (Class::Signed, 32) => "int32_t",
        (Class::Signed, 16) => "int16_t",
        (Class::Signed, _) => "int8_t",
        (Class::Unsigned, 64) => "uint64_t",
        (Class::Unsigned, 32) => "uint32_t",
        (Class::Float | Class::Unsigned, 16) => "uint16_t",
        (Class::Float | Class::Unsigned | Class::Bool | Class::String, _) => "uint8_t",
    }
}

/// The type of what an array of such elements is made of: packed ones share bytes.
#[must_use]
pub fn storage_type(dtype: DType) -> &'static str {
    if is_packed(dtype) { "uint8_t" } else { value_type(dtype) }
}

/// Whether elements share bytes.
pub(crate) fn is_packed(dtype: DType) -> bool {
    (1..8).contains(&dtype.bits())
}

/// The unsigned type in which integers of a type are computed: none that C would widen to `int`.
pub(crate) fn wide_type(dtype: DType) -> &'static str {
    if dtype.bits() == 64 { "uint64_t" } else { "uint32_t" }
}

/// Whether values are held as bits and computed with as `float`.
pub(crate) fn is_short_float(dtype: DType) -> bool {
    dtype.is_float() && dtype.bits() <= 16
}

/// A constant; the text binds as strongly as a call unless it begins with `-`.
pub(crate) fn constant(helpers: &mut Helpers, scalar: Scalar) -> String {
    let dtype = scalar.dtype();
    match dtype {
        DType::F32 | DType::F64 => float(helpers, scalar),
        _ if dtype.is_float() => format!("{:#x}", scalar.bits()),
        DType::U64 | DType::U32 => format!("{}u", scalar.bits()),
        DType::I64 => integer(scalar.as_i64(), false),
        DType::I32 if scalar.as_i64() == i64::from(i32::MIN) => "INT32_MIN".to_owned(),
        _ => scalar.as_i64().to_string(),
    }
}

fn float(helpers: &mut Helpers, scalar: Scalar) -> String {
    let value = scalar.as_f64();
    if !value.is_finite() {
        let from_bits = helpers.float_of_bits(scalar.dtype());
        return match scalar.dtype() {
            DType::F64 => format!("{from_bits}(UINT64_C({:#018x}))", scalar.bits()),
            _ => format!("{from_bits}({:#010x}u)", scalar.bits()),
        };
    }
    match scalar.dtype() {
        DType::F64 => scalar.to_string(),
        _ => format!("{scalar}f"),
    }
}
