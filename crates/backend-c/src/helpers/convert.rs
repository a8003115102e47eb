//! Conversions, by the rules of `tensor::Scalar::cast`: floats to integers truncate and saturate,
//! NaN gives 0; integers wrap; to a float everything rounds once, to nearest even.

use tensor::DType;

use super::Helpers;
use crate::code::{Code, Strength};
use crate::dtype::{is_short_float, storage_type, value_type, wide_type};

/// The conversion to short integers on cores that convert floats to integers and then saturate
/// these.
const SATURATED: &str = "\
#if defined(__ARM_FEATURE_SAT) && (__ARM_FP & 4) && !defined(TILEWRIGHT_STRICT)
  int32_t whole, part;
  __asm(\"vcvt.s32.f32 %0, %1\" : \"=t\"(whole) : \"t\"(x));
  __asm(\"@LETTER@sat %0, #@BITS@, %1\" : \"=r\"(part) : \"r\"(whole));
  return (@TYPE@)part;
#else
";

impl Helpers {
    /// A value in another type.
    pub(crate) fn cast(&mut self, from: DType, to: DType, value: &Code) -> Code {
        if from == to {
            return value.clone();
        }
        if to == DType::Bool {
            let value = self.as_float(from, value);
            let zero = Code::primary("0");
            return Code::infix(&value, "!=", &zero, Strength::Loose);
        }
        if is_short_float(to) {
            let value = match from {
                DType::I64 | DType::U64 => {
                    Code::call(&self.odd_double(from), std::slice::from_ref(value))
                }
                _ => self.as_float(from, value),
            };
            return self.short_of_float(to, to.bits() <= 8, &value);
        }
        let value = self.as_float(from, value);
        if !to.is_float() && from.is_float() {
            let from = if from == DType::F64 { DType::F64 } else { DType::F32 };
            return Code::call(&self.integer_of_float(from, to), &[value]);
        }
        match to.is_float() {
            true if to == DType::F32 && is_short_float(from) => value,
            true => Code::cast(value_type(to), &value),
            false => self.wrap(to, &value),
        }
    }

    /// The same bits as another type of the same width.
    pub(crate) fn bitcast(&mut self, from: DType, to: DType, value: &Code) -> Code {
        let is_wide = |dtype| matches!(dtype, DType::F32 | DType::F64);
        if from == to {
            return value.clone();
        }
        let bits = match is_wide(from) {
            true => Code::call(&self.bits_of_float(from), std::slice::from_ref(value)),
            false => value.clone(),
        };
        if is_wide(to) {
            return Code::call(&self.float_of_bits(to), &[Code::cast(wide_type(from), &bits)]);
        }
        match to {
            DType::Bool => Code::infix(&bits, "!=", &Code::primary("0"), Strength::Loose),
            _ => self.wrap(to, &bits),
        }
    }

    /// Copies elements between the model's type and one that NumPy has:
    /// `(to, from, number of elements)`.
    pub(crate) fn convert_elements(&mut self, from: DType, to: DType) -> String {
        self.define(format!("tw_{to}_elements_of_{from}"), |helpers, name| {
            let element = Code::primary(helpers.load(from, "x", "i"));
            // An infinity of 8 bits stays one.
            let value = match is_short_float(to) {
                true => helpers.short_of_float(to, false, &element),
                false => helpers.cast(from, to, &element),
            };
            let store = helpers.store(to, "y", "i", &value.text);
            let (x, y) = (storage_type(from), storage_type(to));
            format!(
                "static void {name}(void *to, const void *from, ptrdiff_t count)\n{{\n  \
                const {x} *x = (const {x} *)from;\n  {y} *y = ({y} *)to;\n  ptrdiff_t i;\n  \
                for (i = 0; i < count; i++) {store}\n}}\n"
            )
        })
    }

    fn integer_of_float(&mut self, from: DType, to: DType) -> String {
        self.define(format!("tw_{to}_of_{from}"), |_, name| {
            let (ty, float, bits) = (value_type(to), value_type(from), to.bits());
            let (low, high) = to.integer_range().unwrap_or((0, 0));
            let power = |exponent: u32| (exponent as f64).exp2();
            let (least, limit) = match to.is_signed_integer() {
                true => (-power(bits - 1), power(bits - 1)),
                false => (0.0, power(bits)),
            };
            let suffix = if from == DType::F32 { "f" } else { "" };
            let (own, end) = match (from, bits) {
                (DType::F32, 8 | 16) => {
                    let letter = if to.is_signed_integer() { 's' } else { 'u' };
                    let own =
                        SATURATED.replace("@TYPE@", ty).replace("@LETTER@", &letter.to_string());
                    (own.replace("@BITS@", &bits.to_string()), "#endif\n")
                }
                _ => (String::new(), ""),
            };
            let (lowest, highest) = match (to, bits) {
                (DType::I64 | DType::I32, _) => {
                    (format!("INT{bits}_MIN"), format!("INT{bits}_MAX"))
                }
                (DType::U64 | DType::U32, _) => ("0".to_owned(), format!("UINT{bits}_MAX")),
                _ => (low.to_string(), high.to_string()),
            };
            format!(
                "/* Truncates and saturates; of NaN, 0. */\n\
                static {ty} {name}({float} x)\n{{\n{own}  \
                if (x != x) return 0;\n  \
                if (x <= {least:?}{suffix}) return {lowest};\n  \
                return x >= {limit:?}{suffix} ? {highest} : ({ty})x;\n{end}}}\n"
            )
        })
    }

    /// A 64-bit integer as `double`, the last bit set if anything was lost, so that rounding it
    /// again to a short float rounds the integer once.
    fn odd_double(&mut self, from: DType) -> String {
        self.define(format!("tw_odd_f64_of_{from}"), |_, name| {
            let (ty, sign, magnitude) = match from {
                DType::I64 => {
                    ("int64_t", "x < 0 ? -1.0 : 1.0", "x < 0 ? 0 - (uint64_t)x : (uint64_t)x")
                }
                _ => ("uint64_t", "1.0", "x"),
            };
            format!(
                "/* Rounded to odd: its nearest short float is that of the integer. */\n\
                static double {name}({ty} x)\n{{\n  \
                double sign = {sign};\n  uint64_t magnitude = {magnitude};\n  \
                if (magnitude >> 53 == 0) return sign * (double)magnitude;\n  \
                magnitude = (magnitude >> 11) | (magnitude % 2048 != 0);\n  \
                return sign * 2048 * (double)magnitude;\n}}\n"
            )
        })
    }
}
