//! Element types: one row of `TABLE` each.
//!
//! Invariant: the rows stand in the order of the enum's variants, so a type's row is found by
//! index.

use std::fmt;

/// An element type. The order of the variants is the order of the table's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// IEEE 754 binary64.
    F64,
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary16.
    F16,
    /// The upper half of a binary32.
    BF16,
    /// OCP FP8 E4M3: no infinities, one NaN a sign, largest value 448.
    F8E4M3FN,
    /// E4M3 with bias 8: no infinities, no negative zero, one NaN (0x80), largest value 240.
    F8E4M3FNUZ,
    /// E3M4 as IEEE 754: infinities, largest value 15.5.
    F8E3M4,
    /// E4M3 as IEEE 754: infinities, largest value 240.
    F8E4M3,
    /// E4M3 with bias 11: no infinities, no negative zero, one NaN (0x80), largest value 30.
    F8E4M3B11FNUZ,
    /// OCP FP8 E5M2: as IEEE 754, largest value 57344.
    F8E5M2,
    /// E5M2 with bias 16: no infinities, no negative zero, one NaN (0x80), largest value 57344.
    F8E5M2FNUZ,
    /// OCP MX scale: a power of two from 2^-127 to 2^127, no sign, no zero, one NaN (0xff).
    F8E8M0,
    /// OCP MX FP6 E2M3: largest value 7.5, neither NaN nor infinity; a byte an element.
    F6E2M3,
    /// OCP MX FP6 E3M2: largest value 28, neither NaN nor infinity; a byte an element.
    F6E3M2,
    /// OCP MX FP4 E2M1: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives; neither NaN nor infinity.
    F4E2M1,
    /// Two's complement, 64 bits.
    I64,
    /// Two's complement, 32 bits.
    I32,
    /// Two's complement, 16 bits.
    I16,
    /// Two's complement, 8 bits.
    I8,
    /// Two's complement, 4 bits, two to a byte.
    I4,
    /// Two's complement, 2 bits, four to a byte.
    I2,
    /// Unsigned, 64 bits.
    U64,
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 16 bits.
    U16,
    /// Unsigned, 8 bits.
    U8,
    /// Unsigned, 4 bits, two to a byte.
    U4,
    /// Unsigned, 2 bits, four to a byte.
    U2,
    /// A byte that is 0 or 1; any other byte reads as true.
    Bool,
    /// A UTF-8 string; such tensors hold no bytes, but a list of strings.
    String,
}

/// What kind of value an element type holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// A floating-point number.
    Float,
    /// A two's complement integer.
    Signed,
    /// An unsigned integer.
    Unsigned,
    /// True or false.
    Bool,
    /// A string.
    String,
}

/// One element type: how it prints, how many bits an element takes, its kind.
struct Row(DType, &'static str, u32, Class);

#[rustfmt::skip]
const TABLE: [Row; 29] = [
    Row(DType::F64,        "f64",        64, Class::Float),
    Row(DType::F32,        "f32",        32, Class::Float),
    Row(DType::F16,        "f16",        16, Class::Float),
    Row(DType::BF16,       "bf16",       16, Class::Float),
    Row(DType::F8E4M3FN,   "f8e4m3fn",    8, Class::Float),
    Row(DType::F8E4M3FNUZ, "f8e4m3fnuz",  8, Class::Float),
    Row(DType::F8E3M4,     "f8e3m4",      8, Class::Float),
    Row(DType::F8E4M3,     "f8e4m3",      8, Class::Float),
    Row(DType::F8E4M3B11FNUZ, "f8e4m3b11fnuz", 8, Class::Float),
    Row(DType::F8E5M2,     "f8e5m2",      8, Class::Float),
    Row(DType::F8E5M2FNUZ, "f8e5m2fnuz",  8, Class::Float),
    Row(DType::F8E8M0,     "f8e8m0",      8, Class::Float),
    Row(DType::F6E2M3,     "f6e2m3",      8, Class::Float),
    Row(DType::F6E3M2,     "f6e3m2",      8, Class::Float),
    Row(DType::F4E2M1,     "f4e2m1",      4, Class::Float),
    Row(DType::I64,        "i64",        64, Class::Signed),
    Row(DType::I32,        "i32",        32, Class::Signed),
    Row(DType::I16,        "i16",        16, Class::Signed),
    Row(DType::I8,         "i8",          8, Class::Signed),
    Row(DType::I4,         "i4",          4, Class::Signed),
    Row(DType::I2,         "i2",          2, Class::Signed),
    Row(DType::U64,        "u64",        64, Class::Unsigned),
    Row(DType::U32,        "u32",        32, Class::Unsigned),
    Row(DType::U16,        "u16",        16, Class::Unsigned),
    Row(DType::U8,         "u8",          8, Class::Unsigned),
    Row(DType::U4,         "u4",          4, Class::Unsigned),
    Row(DType::U2,         "u2",          2, Class::Unsigned),
    Row(DType::Bool,       "bool",        8, Class::Bool),
    Row(DType::String,     "string",      0, Class::String),
];

impl DType {
    fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// All element types, in table order.
    pub fn all() -> impl Iterator<Item = DType> {
        TABLE.iter().map(|row| row.0)
    }

    /// The name in text forms: `f32`, `bf16`, `i4`, `bool`.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Bits an element takes in storage; 0 for strings, 8 for booleans.
    pub fn bits(self) -> u32 {
        self.row().2
    }

    /// The kind of value.
    pub fn class(self) -> Class {
        self.row().3
    }

    /// Bytes an element takes, or `None` for sub-byte types and strings.
    pub fn bytes(self) -> Option<usize> {
        let bits = self.bits() as usize;
        (bits >= 8).then_some(bits / 8)
    }

    /// Elements that share a byte; 1 for those of a byte or more.
    pub fn per_byte(self) -> usize {
        match self.bits() as usize {
            bits @ 1..8 => 8 / bits,
            _ => 1,
        }
    }

    /// Bytes that `count` packed elements take, or `None` on overflow. Strings take none.
    pub fn size_of_elements(self, count: usize) -> Option<usize> {
        count.div_ceil(self.per_byte()).checked_mul(self.bits().div_ceil(8) as usize)
    }

    /// Whether the type is a floating-point one.
    pub fn is_float(self) -> bool {
        self.class() == Class::Float
    }

    /// Whether the type is a signed or unsigned integer; a boolean is not.
    pub fn is_integer(self) -> bool {
        matches!(self.class(), Class::Signed | Class::Unsigned)
    }

    /// Whether the type is a two's complement integer.
    pub fn is_signed_integer(self) -> bool {
        self.class() == Class::Signed
    }

    /// Whether the type is an unsigned integer.
    pub fn is_unsigned_integer(self) -> bool {
        self.class() == Class::Unsigned
    }

    /// Whether the type is a number: float or integer.
    pub fn is_number(self) -> bool {
        self.is_float() || self.is_integer()
    }

    /// The type with this printed name.
    pub fn parse(name: &str) -> Option<DType> {
        TABLE.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// The smallest and largest value of an integer type (0 and 1 for booleans), else `None`.
    pub fn integer_range(self) -> Option<(i128, i128)> {
        match self.class() {
            Class::Signed => Some((-(1 << (self.bits() - 1)), (1 << (self.bits() - 1)) - 1)),
            Class::Unsigned => Some((0, (1 << self.bits()) - 1)),
            Class::Bool => Some((0, 1)),
            Class::Float | Class::String => None,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_the_order_of_the_variants() {
        for (index, dtype) in DType::all().enumerate() {
            assert_eq!(dtype as usize, index);
            assert_eq!(DType::parse(dtype.name()), Some(dtype));
        }
        assert_eq!(DType::parse("float"), None);
    }

    #[test]
    fn sizes() {
        assert_eq!(DType::F32.bytes(), Some(4));
        assert_eq!(DType::I4.bytes(), None);
        assert_eq!(DType::I4.size_of_elements(3), Some(2));
        assert_eq!(DType::U2.size_of_elements(5), Some(2));
        assert_eq!(DType::F64.size_of_elements(usize::MAX), None);
        assert_eq!(DType::I8.integer_range(), Some((-128, 127)));
        assert_eq!(DType::U64.integer_range(), Some((0, u64::MAX as i128)));
    }
}
