//! Codes of floats of at most 8 bits from and to `f32` and `f64`, by integer arithmetic on bits.

use graph::{FunctionBuilder, ValueId};
use tensor::minifloat::{Format, Specials};
use tensor::{DType, Scalar, ScalarFunction, Tensor};

use super::Built;

pub(super) use tensor::minifloat::Overflow;

/// Nodes over tensors of one shape, with numbers as the other operand.
struct Words<'a> {
    builder: &'a mut FunctionBuilder,
}

impl Words<'_> {
    fn map(&mut self, function: ScalarFunction, operands: &[ValueId]) -> Built {
        self.builder.map_broadcast(function, operands)
    }

    /// An integer of the type of a value.
    fn number(&mut self, like: ValueId, number: u64) -> Built {
        let dtype = self.builder.dtype(like)?;
        Ok(self.builder.literal(Tensor::scalar(Scalar::from_bits(dtype, number))))
    }

    fn with(&mut self, function: ScalarFunction, value: ValueId, number: u64) -> Built {
        let number = self.number(value, number)?;
        self.map(function, &[value, number])
    }

    /// `number` where the condition holds, else the value.
    fn unless(&mut self, value: ValueId, condition: ValueId, number: u64) -> Built {
        let number = self.number(value, number)?;
        let shape = self.builder.shape(value)?;
        let number = self.builder.broadcast_to(number, &shape)?;
        self.map(ScalarFunction::Select, &[condition, number, value])
    }

    fn scale(&mut self, value: ValueId, exponent: i32) -> Built {
        let dtype = self.builder.dtype(value)?;
        let factor = self.builder.scalar(dtype, 2f64.powi(exponent));
        self.map(ScalarFunction::Mul, &[value, factor])
    }
}

fn format_of(dtype: DType) -> Built<Format> {
    Format::of(dtype).ok_or_else(|| format!("{dtype} is no short float"))
}

/// The `f32` values of codes.
///
/// The bits without the sign, moved to their places in an `f32`, are the value but for the bias of
/// the exponent, subnormal numbers included: one exact multiplication sets it right.
pub(super) fn decode(builder: &mut FunctionBuilder, codes: ValueId, dtype: DType) -> Built {
    use ScalarFunction::{And, Eq, Gt, Or, Shl};
    let format = format_of(dtype)?;
    let mut words = Words { builder };
    let bits = words.builder.cast(codes, DType::U32)?;
    let magnitude = words.with(And, bits, format.magnitude_mask())?;
    let placed = words.with(Shl, magnitude, u64::from(23 - format.mantissa_bits))?;
    let mut value = if format.subnormals {
        let shifted = words.builder.bitcast(placed, DType::F32)?;
        let scaled = words.scale(shifted, 127 - format.bias)?;
        words.builder.bitcast(scaled, DType::U32)?
    } else {
        // The same exponents as f32; its field 0 is the one power of two that f32 has subnormal.
        let is_least = words.with(Eq, magnitude, 0)?;
        words.unless(placed, is_least, 0x0040_0000)?
    };
    if let Some(infinity) = format.infinity() {
        let is_infinite = words.with(Eq, magnitude, infinity)?;
        value = words.unless(value, is_infinite, 0x7f80_0000)?;
    }
    if format.signed {
        let sign = words.with(And, bits, format.sign_bit())?;
        let sign = words.with(Shl, sign, u64::from(31 - format.sign_bit().trailing_zeros()))?;
        value = words.map(Or, &[value, sign])?;
    }
    let is_nan = match format.specials {
        Specials::Ieee => {
            let infinity = format.infinity().unwrap_or(format.magnitude_mask());
            Some(words.with(Gt, magnitude, infinity)?)
        }
        Specials::AllOnes => Some(words.with(Eq, magnitude, format.magnitude_mask())?),
        Specials::NegativeZero => Some(words.with(Eq, bits, format.sign_bit())?),
        Specials::None => None,
    };
    if let Some(is_nan) = is_nan {
        value = words.unless(value, is_nan, 0x7fc0_0000)?;
    }
    words.builder.bitcast(value, DType::F32)
}

/// The codes nearest to `f32` or `f64` values, as [`Format::encode`] has them.
pub(super) fn encode(
    builder: &mut FunctionBuilder,
    value: ValueId,
    dtype: DType,
    overflow: Overflow,
) -> Built {
    use ScalarFunction::{Add, And, Eq, Gt, IsNan, Min, Or, Round, Shr, Sub};
    let format = format_of(dtype)?;
    let mut words = Words { builder };
    let float = words.builder.dtype(value)?;
    let (word, width, mantissa, bias) = match float {
        DType::F64 => (DType::U64, 64, 52, 1023),
        _ => (DType::U32, 32, 23, 127),
    };
    if !format.subnormals && float != DType::F64 {
        // Scales reach into the subnormal numbers of f32.
        let wide = words.builder.cast(value, DType::F64)?;
        return encode(words.builder, wide, dtype, overflow);
    }
    let bits = words.builder.bitcast(value, word)?;
    let magnitude = words.with(And, bits, u64::MAX >> (65 - width))?;
    let dropped = mantissa - format.mantissa_bits;
    let wrong = i32::from(base::fault::is_seeded("lower.narrow"));
    let rebias = ((bias - format.bias + wrong) as u64) << format.mantissa_bits;
    let mut code = if format.subnormals {
        // Half of what is dropped less one, and one more if the last bit kept is odd.
        let last = words.with(Shr, magnitude, u64::from(dropped))?;
        let odd = words.with(And, last, 1)?;
        let rounded = words.with(Add, magnitude, (1 << (dropped - 1)) - 1)?;
        let rounded = words.map(Add, &[rounded, odd])?;
        let normal = words.with(Shr, rounded, u64::from(dropped))?;
        let normal = words.with(Sub, normal, rebias)?;
        // Below the least normal number codes are multiples of the least number.
        let positive = words.builder.bitcast(magnitude, float)?;
        let least = Scalar::from_f64(float, 2f64.powi(1 - format.bias));
        let is_small = words.with(ScalarFunction::Lt, magnitude, least.bits())?;
        let steps = words.scale(positive, format.bias - 1 + format.mantissa_bits as i32)?;
        let steps = words.map(Round, &[steps])?;
        let steps = words.builder.cast(steps, word)?;
        words.map(ScalarFunction::Select, &[is_small, steps, normal])?
    } else {
        // Ties go up, and what is less than the least scale becomes it.
        let half = words.with(Add, magnitude, 1 << (dropped - 1))?;
        let up = words.with(Shr, half, u64::from(dropped))?;
        let least = ((bias - format.bias) as u64) << mantissa;
        let is_small = words.with(ScalarFunction::Lt, magnitude, least)?;
        let scale = words.with(Sub, up, rebias)?;
        words.unless(scale, is_small, 0)?
    };
    let beyond = match (overflow, format.infinity(), format.nan()) {
        (Overflow::Special, Some(infinity), _) => Some(infinity),
        (Overflow::Special, None, Some(nan)) => Some(nan),
        _ => None,
    };
    let is_beyond = words.with(Gt, code, format.largest())?;
    code = words.with(Min, code, format.largest())?;
    let sign = words.with(Shr, bits, width - 1)?;
    if format.signed {
        let bit = u64::from(format.sign_bit().trailing_zeros());
        let mut sign_bit = words.with(ScalarFunction::Shl, sign, bit)?;
        if format.specials == Specials::NegativeZero {
            let is_zero = words.with(Eq, code, 0)?;
            sign_bit = words.unless(sign_bit, is_zero, 0)?;
        }
        if let (Some(beyond), Some(_)) = (beyond, format.infinity()) {
            code = words.unless(code, is_beyond, beyond)?;
        }
        code = words.map(Or, &[code, sign_bit])?;
    }
    if let (Some(beyond), None) = (beyond, format.infinity()) {
        code = words.unless(code, is_beyond, beyond)?;
    }
    if !format.signed {
        let is_negative = words.with(Gt, bits, 1 << (width - 1))?;
        code = words.unless(code, is_negative, format.nan().unwrap_or(0))?;
    }
    let is_nan = words.map(IsNan, &[value])?;
    code = words.unless(code, is_nan, format.nan().unwrap_or(format.sign_bit()))?;
    words.builder.cast(code, DType::U8)
}
