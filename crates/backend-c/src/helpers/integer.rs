//! Functions of integers: they wrap, and division and shifts are defined for every operand, as the
//! scalar function table says.

use tensor::{DType, ScalarFunction};

use super::Helpers;
use crate::code::{Code, Strength};
use crate::dtype::{is_packed, value_type, wide_type};

/// The name of a helper for indices of this type.
fn index_name(stem: &str, ty: &str) -> String {
    let of = if ty == "int64_t" { "i64" } else { "index" };
    format!("tw_{stem}_{of}")
}

impl Helpers {
    /// Wraps a C integer to a type.
    pub(crate) fn wrap(&mut self, dtype: DType, value: &Code) -> Code {
        match is_packed(dtype) {
            false => Code::cast(value_type(dtype), value),
            true => Code::call(&self.wrap_packed(dtype), std::slice::from_ref(value)),
        }
    }

    /// Wraps what an operator gives.
    pub(super) fn wrap_text(&mut self, dtype: DType, text: &str) -> String {
        self.wrap(dtype, &Code::new(text, Strength::Loose)).text
    }

    fn wrap_packed(&mut self, dtype: DType) -> String {
        self.define(format!("tw_wrap_{dtype}"), |_, name| {
            let (ty, mask) = (value_type(dtype), (1u32 << dtype.bits()) - 1);
            let sign = 1u32 << (dtype.bits() - 1);
            let value = match dtype.is_signed_integer() {
                true => format!("(int)((bits & {mask}u) ^ {sign}u) - {sign}"),
                false => format!("bits & {mask}u"),
            };
            format!("static {ty} {name}(uint32_t bits)\n{{\n  return ({ty})({value});\n}}\n")
        })
    }

    pub(super) fn integer_function(
        &mut self,
        function: ScalarFunction,
        dtype: DType,
    ) -> Option<String> {
        use ScalarFunction as F;
        let wide = wide_type(dtype);
        let operator = |sign: &str| format!("({wide})a {sign} ({wide})b");
        let (parameters, value) = match function {
            F::Add => (2, operator("+")),
            F::Sub => (2, operator("-")),
            F::Mul => (2, operator("*")),
            F::FusedMultiplyAdd => (3, format!("({wide})a * ({wide})b + ({wide})c")),
            F::Neg => (1, format!("0 - ({wide})a")),
            F::Not if dtype != DType::Bool => (1, format!("~({wide})a")),
            F::Abs if dtype.is_signed_integer() => {
                (1, format!("a < 0 ? 0 - ({wide})a : ({wide})a"))
            }
            F::Min => return Some(self.minimum(dtype)),
            F::Max => return Some(self.maximum(dtype)),
            F::Div => return Some(self.divide(dtype)),
            F::Lookup => return Some(self.lookup()),
            F::Shl | F::Shr => return Some(self.shift(function, dtype)),
            _ => return None,
        };
        Some(self.define(format!("tw_{function}_{dtype}"), |helpers, name| {
            let ty = value_type(dtype);
            let names = ["a", "b", "c"].map(|name| format!("{ty} {name}"))[..parameters].join(", ");
            let value = helpers.wrap_text(dtype, &value);
            format!("static {ty} {name}({names})\n{{\n  return {value};\n}}\n")
        }))
    }

    pub(super) fn extremum(&mut self, stem: &str, sign: &str, dtype: DType) -> String {
        self.define(format!("tw_{stem}_{dtype}"), |_, name| {
            let ty = value_type(dtype);
            let (comment, nan) = match dtype.is_float() {
                true => ("/* NaN if either operand is. */\n", " || b != b"),
                false => ("", ""),
            };
            format!(
                "{comment}static {ty} {name}({ty} a, {ty} b)\n{{\n  \
                return b {sign} a{nan} ? b : a;\n}}\n"
            )
        })
    }

    fn divide(&mut self, dtype: DType) -> String {
        self.define(format!("tw_div_{dtype}"), |helpers, name| {
            let (ty, wide) = (value_type(dtype), wide_type(dtype));
            let ones = helpers.wrap_text(dtype, &format!("~({wide})0"));
            let (negative, quotient) = match dtype.is_signed_integer() {
                true => (
                    format!("  if (b == -1) return {};\n", helpers.wrap_text(dtype, "0 - (WIDE)a")),
                    format!("({ty})(a / b)"),
                ),
                false => (String::new(), format!("({ty})(a / b)")),
            };
            let negative = negative.replace("WIDE", wide);
            format!(
                "/* Truncates; by zero, all bits are set. */\n\
                static {ty} {name}({ty} a, {ty} b)\n{{\n  \
                if (b == 0) return {ones};\n{negative}  return {quotient};\n}}\n"
            )
        })
    }

    fn shift(&mut self, function: ScalarFunction, dtype: DType) -> String {
        self.define(format!("tw_{function}_{dtype}"), |helpers, name| {
            let (ty, wide, width) = (value_type(dtype), wide_type(dtype), dtype.bits());
            let amount = match dtype.bits() {
                8 | 16 => format!("uint{width}_t"),
                _ if is_packed(dtype) => "uint8_t".to_owned(),
                _ => wide.to_owned(),
            };
            let (inside, outside) = match (function, dtype.is_signed_integer()) {
                (ScalarFunction::Shl, _) => {
                    (helpers.wrap_text(dtype, &format!("({wide})a << b")), "0")
                }
                (_, true) => (format!("({ty})(a >> b)"), "(a < 0 ? -1 : 0)"),
                (_, false) => (format!("({ty})(a >> b)"), "0"),
            };
            format!(
                "static {ty} {name}({ty} a, {ty} b)\n{{\n  \
                return ({amount})b < {width}u ? {inside} : {outside};\n}}\n"
            )
        })
    }

    fn lookup(&mut self) -> String {
        self.define("tw_lookup".to_owned(), |_, name| {
            format!(
                "/* The byte at a place, modulo 16, of those that four words hold. */\n\
                static uint8_t {name}(uint8_t a, uint32_t b, uint32_t c, uint32_t d, \
                uint32_t e)\n{{\n  \
                return (uint8_t)((a & 8 ? (a & 4 ? e : d) : (a & 4 ? c : b)) >> \
                8 * (a & 3));\n}}\n"
            )
        })
    }

    /// The smaller or greater of two integers of a type of indices.
    pub(crate) fn index_extremum(&mut self, stem: &str, sign: &str, ty: &str) -> String {
        self.define(index_name(stem, ty), |_, name| {
            format!("static {ty} {name}({ty} a, {ty} b)\n{{\n  return a {sign} b ? a : b;\n}}\n")
        })
    }

    /// The quotient rounded towards minus infinity.
    pub(crate) fn floor_div(&mut self, ty: &str) -> String {
        self.define(index_name("floor_div", ty), |_, name| {
            format!(
                "/* The quotient rounded towards minus infinity. */\n\
                static {ty} {name}({ty} a, {ty} b)\n{{\n  \
                {ty} quotient = a / b;\n  \
                return quotient * b != a && (a < 0) != (b < 0) ? quotient - 1 : quotient;\n}}\n"
            )
        })
    }

    /// What `floor_div` leaves.
    pub(crate) fn floor_mod(&mut self, ty: &str) -> String {
        self.define(index_name("floor_mod", ty), |_, name| {
            format!(
                "/* What division rounded towards minus infinity leaves. */\n\
                static {ty} {name}({ty} a, {ty} b)\n{{\n  \
                {ty} rest = a % b;\n  \
                return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;\n}}\n"
            )
        })
    }
}
