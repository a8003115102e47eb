//! Functions of `float` and `double`.
//!
//! Roundings and square roots give the exact value, rounded to nearest even, as the hardware's do.
//! The square root of a `float` is Heron's iteration in `double`: its error of less than 4 ULP of a
//! `double` cannot carry it over the middle between two `float`s, from which the root of a `float`
//! is at least 2^-50 away. That of a `double` is found bit by bit. A fused multiply-add of `float`s
//! is the `double` sum, rounded to odd (S. Boldo and G. Melquiond, "Emulation of FMA and correctly
//! rounded sums: proved algorithms using rounding to odd", IEEE Transactions on Computers, 2008);
//! one of `double`s is computed in 128-bit integers.

use tensor::{DType, Reduction, ScalarFunction};

use super::{Helpers, bits_type};
use crate::code::Code;
use crate::dtype::{storage_type, value_type};
use crate::scalar::apply;

/// How cores round floats that have an instruction for it; not all compilers say so of cores whose
/// units compute in `double`, too.
const ROUND_F32: &str = "\
#if defined(__arm__) && (__ARM_FP & 4) && !defined(TILEWRIGHT_STRICT) \\
    && (defined(__ARM_FEATURE_DIRECTED_ROUNDING) || __ARM_ARCH >= 8 \\
        || (__ARM_ARCH_PROFILE == 'M' && (__ARM_FP & 8)))
  float whole;
  __asm(\"vrintn.f32 %0, %1\" : \"=t\"(whole) : \"t\"(x));
  return whole;
#else
";

impl Helpers {
    pub(super) fn float_function(
        &mut self,
        function: ScalarFunction,
        dtype: DType,
    ) -> Option<String> {
        use ScalarFunction as F;
        Some(match function {
            F::Min => self.minimum(dtype),
            F::Max => self.maximum(dtype),
            F::Abs => self.absolute(dtype),
            F::Floor | F::Ceil => self.floor_or_ceil(function, dtype),
            F::Trunc | F::Round => self.trunc_or_round(function, dtype),
            F::Sqrt => self.square_root(dtype),
            F::FusedMultiplyAdd => self.fused_multiply_add(dtype),
            _ => return None,
        })
    }

    /// The bits of a float.
    pub(crate) fn bits_of_float(&mut self, dtype: DType) -> String {
        self.define(format!("tw_bits_{dtype}"), |_, name| {
            let (ty, bits) = (value_type(dtype), bits_type(dtype));
            format!(
                "static {bits} {name}({ty} x)\n{{\n  \
                union {{ {ty} number; {bits} bits; }} both;\n  \
                both.number = x;\n  return both.bits;\n}}\n"
            )
        })
    }

    /// The float of some bits.
    pub(crate) fn float_of_bits(&mut self, dtype: DType) -> String {
        self.define(format!("tw_{dtype}_of_bits"), |_, name| {
            let (ty, bits) = (value_type(dtype), bits_type(dtype));
            format!(
                "static {ty} {name}({bits} x)\n{{\n  \
                union {{ {ty} number; {bits} bits; }} both;\n  \
                both.bits = x;\n  return both.number;\n}}\n"
            )
        })
    }

    fn absolute(&mut self, dtype: DType) -> String {
        self.define(format!("tw_abs_{dtype}"), |_, name| {
            let ty = value_type(dtype);
            format!("static {ty} {name}({ty} x)\n{{\n  return x > 0 ? x : 0 - x;\n}}\n")
        })
    }

    /// A number of at least zero with the sign of another.
    fn with_sign(&mut self, dtype: DType) -> String {
        self.define(format!("tw_with_sign_{dtype}"), |helpers, name| {
            let (to_bits, from_bits) = (helpers.bits_of_float(dtype), helpers.float_of_bits(dtype));
            let (ty, bits, shift) = (value_type(dtype), bits_type(dtype), dtype.bits() - 1);
            format!(
                "/* The magnitude with the sign of another number. */\n\
                static {ty} {name}({ty} magnitude, {ty} sign)\n{{\n  \
                return {from_bits}({to_bits}(magnitude)\n      \
                | ({to_bits}(sign) & (({bits})1 << {shift})));\n}}\n"
            )
        })
    }

    fn trunc_or_round(&mut self, function: ScalarFunction, dtype: DType) -> String {
        self.define(format!("tw_{function}_{dtype}"), |helpers, name| {
            let (absolute, with_sign) = (helpers.absolute(dtype), helpers.with_sign(dtype));
            let (ty, integer, limit) = match dtype {
                DType::F64 => ("double", "int64_t", "4503599627370496.0"),
                _ => ("float", "int32_t", "8388608.0f"),
            };
            let (own, end) = match dtype {
                DType::F32 => (ROUND_F32, "#endif\n"),
                _ => ("", ""),
            };
            match function {
                ScalarFunction::Round => format!(
                    "/* The nearest whole number, ties to even. */\n\
                    static {ty} {name}({ty} x)\n{{\n{own}  \
                    {ty} magnitude = {absolute}(x), rest;\n  {integer} whole;\n  \
                    if (!(magnitude < {limit})) return x;\n  \
                    whole = ({integer})magnitude;\n  \
                    rest = magnitude - ({ty})whole;\n  \
                    whole += rest > 0.5f || (rest == 0.5f && whole % 2 != 0);\n  \
                    return {with_sign}(({ty})whole, x);\n{end}}}\n"
                ),
                _ => format!(
                    "static {ty} {name}({ty} x)\n{{\n  \
                    {ty} magnitude = {absolute}(x);\n  \
                    if (!(magnitude < {limit})) return x;\n  \
                    return {with_sign}(({ty})({integer})magnitude, x);\n}}\n"
                ),
            }
        })
    }

    /// Rounds to the nearest whole number, ties to even, what is then made an integer of at most 16
    /// bits: next to the number added, `float`s have no digits behind the point. Numbers of 2^22
    /// and more may be off by one, and zero may lose its sign.
    pub(crate) fn round_within_short(&mut self) -> String {
        self.define("tw_round_within_short".to_owned(), |_, name| {
            format!(
                "/* The nearest whole number, ties to even, of what is within 2^22; of what is\n   \
                not, a number beyond 2^21. */\n\
                static inline float {name}(float x)\n{{\n{ROUND_F32}  \
                return (x + 12582912.0f) - 12582912.0f;\n#endif\n}}\n"
            )
        })
    }

    fn floor_or_ceil(&mut self, function: ScalarFunction, dtype: DType) -> String {
        self.define(format!("tw_{function}_{dtype}"), |helpers, name| {
            let trunc = helpers.trunc_or_round(ScalarFunction::Trunc, dtype);
            let ty = value_type(dtype);
            let (wrong, step) = match function {
                ScalarFunction::Floor => (">", "-"),
                _ => ("<", "+"),
            };
            format!(
                "static {ty} {name}({ty} x)\n{{\n  \
                {ty} whole = {trunc}(x);\n  \
                return whole {wrong} x ? whole {step} 1 : whole;\n}}\n"
            )
        })
    }

    fn square_root(&mut self, dtype: DType) -> String {
        self.define(format!("tw_sqrt_{dtype}"), |helpers, _| {
            helpers.bits_of_float(DType::F64);
            helpers.float_of_bits(DType::F64);
            match dtype {
                DType::F64 => include_str!("c/sqrt_f64.c").to_owned(),
                _ => include_str!("c/sqrt_f32.c").to_owned(),
            }
        })
    }

    fn fused_multiply_add(&mut self, dtype: DType) -> String {
        self.define(format!("tw_fma_{dtype}"), |_, _| match dtype {
            DType::F64 => include_str!("c/fma_f64.c").to_owned(),
            _ => include_str!("c/fma_f32.c").to_owned(),
        })
    }

    /// The helper that adds a product to a sum, `(a, b, sum)`.
    pub(crate) fn multiply_add(&mut self, dtype: DType) -> String {
        if self.exact_sums {
            return self.fused_multiply_add(dtype);
        }
        self.define(format!("tw_multiply_add_{dtype}"), |_, name| {
            let (ty, builtin, fast) = match dtype {
                DType::F64 => ("double", "__builtin_fma", "__FP_FAST_FMA"),
                _ => ("float", "__builtin_fmaf", "__FP_FAST_FMAF"),
            };
            format!(
                "/* Rounds once where the machine has an instruction for it, else twice. */\n\
                static {ty} {name}({ty} a, {ty} b, {ty} sum)\n{{\n\
                #if defined({fast})\n  return {builtin}(a, b, sum);\n#else\n  \
                return a * b + sum;\n#endif\n}}\n"
            )
        })
    }

    /// Reduces `extent` elements, a power of two, by the fixed tree:
    /// `(elements, number of the first, step from one to the next)`.
    pub(crate) fn fold(&mut self, reduction: Reduction, dtype: DType, extent: i64) -> String {
        let name = format!("tw_fold_{reduction}_{dtype}_{extent}");
        self.define(name, |helpers, name| {
            let (ty, storage) = (value_type(dtype), storage_type(dtype));
            let load = helpers.load(dtype, "elements", "first + i * step");
            let pair = ["x[i]", "x[i + n]"].map(Code::primary);
            let function = reduction.as_function();
            let value = apply(helpers, function, dtype, &[dtype; 2], &pair).text;
            format!(
                "static {ty} {name}(const {storage} *elements, ptrdiff_t first, ptrdiff_t step)\n\
                {{\n  {ty} x[{extent}];\n  ptrdiff_t i, n;\n  \
                for (i = 0; i < {extent}; i++) x[i] = {load};\n  \
                for (n = {extent} / 2; n > 0; n /= 2) {{\n    \
                for (i = 0; i < n; i++) x[i] = {value};\n  }}\n  \
                return x[0];\n}}\n"
            )
        })
    }
}
