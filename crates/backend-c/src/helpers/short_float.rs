//! Floats of at most 16 bits, held as their bits: to `float` and from `double`, by the formats of
//! `tensor::minifloat`.

use tensor::DType;
use tensor::minifloat::{Format, Specials};

use super::Helpers;
use crate::code::Code;
use crate::dtype::{is_short_float, value_type};

impl Helpers {
    /// A value as what C computes with: short floats as `float`, others as they are.
    pub(crate) fn as_float(&mut self, dtype: DType, value: &Code) -> Code {
        match Format::of(dtype) {
            Some(format) => {
                Code::call(&self.float_of_short(dtype, format), std::slice::from_ref(value))
            }
            None => value.clone(),
        }
    }

    /// A `float` or `double` as a short float; what is too large becomes the largest number or,
    /// unless `saturate`, what the format has for infinity.
    pub(crate) fn short_of_float(&mut self, dtype: DType, saturate: bool, value: &Code) -> Code {
        debug_assert!(is_short_float(dtype));
        match Format::of(dtype) {
            Some(format) => Code::call(
                &self.short_of_double(dtype, format, saturate),
                std::slice::from_ref(value),
            ),
            None => value.clone(),
        }
    }

    fn float_of_short(&mut self, dtype: DType, format: Format) -> String {
        self.define(format!("tw_f32_of_{dtype}"), |helpers, name| {
            let (ty, of_bits) = (value_type(dtype), helpers.float_of_bits(DType::F32));
            let head = format!("static float {name}({ty} code)\n{{\n");
            if dtype == DType::BF16 {
                return format!("{head}  return {of_bits}((uint32_t)code << 16);\n}}\n");
            }
            if dtype == DType::F8E8M0 {
                return format!(
                    "{head}  if (code == 0) return {of_bits}(0x00400000u);\n  \
                    return {of_bits}(code == 255 ? 0x7fc00000u : (uint32_t)code << 23);\n}}\n"
                );
            }
            let sign = format.sign_bit() as u32;
            let (shift, scale) = (23 - format.mantissa_bits, (127 - format.bias) as f32);
            let special = match (format.specials, format.infinity()) {
                (Specials::Ieee, Some(infinity)) => format!(
                    "  if (magnitude >= {infinity:#x}) {{\n    \
                    value = {of_bits}(magnitude == {infinity:#x} ? 0x7f800000u : 0x7fc00000u);\n  \
                    }}\n"
                ),
                (Specials::AllOnes, _) => {
                    format!("  if (magnitude == {:#x}) value = {of_bits}(0x7fc00000u);\n", sign - 1)
                }
                (Specials::NegativeZero, _) => {
                    format!("  if (code == {sign:#x}) return {of_bits}(0x7fc00000u);\n")
                }
                _ => String::new(),
            };
            let scale = scale.exp2();
            format!(
                "{head}  uint32_t magnitude = code & {:#x}u;\n  \
                float value = {of_bits}(magnitude << {shift}) * {scale:?}f;\n{special}  \
                return code & {sign:#x} ? -value : value;\n}}\n",
                sign - 1
            )
        })
    }

    fn short_of_double(&mut self, dtype: DType, format: Format, saturate: bool) -> String {
        let saturated = if saturate { "saturated_" } else { "" };
        self.define(format!("tw_{saturated}{dtype}_of_f64"), |helpers, name| {
            let (ty, to_bits) = (value_type(dtype), helpers.bits_of_float(DType::F64));
            let largest = format.largest();
            let nan = format.nan().unwrap_or(format.sign_bit());
            let head = format!("static {ty} {name}(double x)\n{{\n");
            if !format.signed {
                let over = if saturate { largest } else { nan };
                return format!(
                    "{head}  uint64_t bits = {to_bits}(x);\n  \
                    int code = (int)(bits >> 52) - 1023 + 127;\n  \
                    if (x == 0) return 0;\n  if (!(x > 0)) return {nan};\n  \
                    if (code < 0) return 0;\n  \
                    code += (int)(bits >> 51 & 1);\n  \
                    return ({ty})(code > {largest} ? {over} : code);\n}}\n"
                );
            }
            let magnitude = helpers.short_magnitude();
            let shift = format.sign_bit().trailing_zeros();
            let over = match (saturate, format.infinity(), format.nan()) {
                (false, Some(infinity), _) => format!("sign | {infinity:#x}u"),
                (false, None, Some(nan)) => format!("{nan:#x}u"),
                _ => format!("sign | {largest:#x}u"),
            };
            let zero = match format.specials {
                Specials::NegativeZero => "  if (code == 0) return 0;\n",
                _ => "",
            };
            let (mantissa, bias) = (format.mantissa_bits, format.bias);
            format!(
                "{head}  uint32_t sign = (uint32_t)({to_bits}(x) >> 63) << {shift};\n  \
                uint32_t code = {magnitude}(x, {mantissa}, {bias});\n  \
                if (x != x) return {nan:#x};\n{zero}  \
                return ({ty})(code > {largest:#x}u ? {over} : sign | code);\n}}\n"
            )
        })
    }

    /// The code of a magnitude, which may run past the largest: codes are ordered as their values.
    fn short_magnitude(&mut self) -> String {
        self.define("tw_short_magnitude".to_owned(), |helpers, _| {
            helpers.bits_of_float(DType::F64);
            include_str!("c/short_magnitude.c").to_owned()
        })
    }
}
