//! The table of scalar functions, shared by every level: what `map` may apply to an element.
//!
//! A function is one row of `TABLE`: name, number of operands, type rule, value on real numbers
//! and value on integers. Meaning, for all rows:
//!
//! - **Floats.** `f64` computes in `f64`. `f32` is the `f64` value rounded once, which for `+ - *
//!   /`, `sqrt`, `rem` and comparisons is the hardware's `f32` result to the bit, and for the
//!   others its nearest approximation. Shorter floats are the `f32` value rounded once more, and
//!   overflow to infinity, or to NaN where there is none (`cast` saturates instead). A NaN operand
//!   gives a NaN (but see `select`, `pow`, comparisons); which NaN is not part of the meaning.
//! - **Integers** wrap. Division by zero gives all bits set (-1, or the largest unsigned number),
//!   and its remainder is the dividend: `a == (a / b) * b + a % b` holds for every `b`. The lowest
//!   number divided by -1 is itself, remainder 0. `shl` and `shr` read the amount as unsigned; an
//!   amount of at least the width gives 0, or -1 for `shr` of a negative number.
//! - **Booleans** are ordered `false < true`.
//!
//! Relies on: the platform's `libm` for `f64` elementary functions, within an ULP or so of the
//! truth; `erf` is our own.

mod erf;
mod values;

use std::fmt;

use crate::dtype::DType;
use crate::minifloat::Overflow;
use crate::scalar::Scalar;
pub use erf::erf;

/// A function from elements to an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ScalarFunction {
    /// `a + b`.
    Add,
    /// `a - b`.
    Sub,
    /// `a * b`.
    Mul,
    /// `a / b`; integers truncate.
    Div,
    /// The remainder of truncated division, with the dividend's sign: C's `fmod` and `%`.
    Rem,
    /// The remainder of floored division, with the divisor's sign: Python's `%`.
    Mod,
    /// `a` to the power `b`, as C99's `pow`; a negative integer exponent truncates the quotient.
    Pow,
    /// The smaller; NaN if either is; -0.0 < 0.0 here, though a target may return either zero.
    Min,
    /// The larger; NaN if either is; -0.0 < 0.0 here, though a target may return either zero.
    Max,
    /// `-a`; flips the sign of a zero.
    Neg,
    /// The absolute value; the lowest integer stays.
    Abs,
    /// -1, 0 or 1; zeros and NaN stay as they are.
    Sign,
    /// The square root; NaN below zero, -0.0 stays.
    Sqrt,
    /// `1 / a`.
    Reciprocal,
    /// e to the power `a`.
    Exp,
    /// 2 to the power `a`.
    Exp2,
    /// `exp(a) - 1`, accurate near zero.
    Expm1,
    /// The natural logarithm; -inf at both zeros, NaN below.
    Log,
    /// The logarithm to base 2.
    Log2,
    /// `log(1 + a)`, accurate near zero.
    Log1p,
    /// The sine of an angle in radians; NaN at infinity.
    Sin,
    /// The cosine of an angle in radians; NaN at infinity.
    Cos,
    /// The tangent of an angle in radians; NaN at infinity.
    Tan,
    /// The arc sine in radians; NaN outside [-1, 1].
    Asin,
    /// The arc cosine in radians; NaN outside [-1, 1].
    Acos,
    /// The arc tangent in radians.
    Atan,
    /// The angle of the point `(x, y)` given as `atan2(y, x)`, in radians.
    Atan2,
    /// The hyperbolic sine.
    Sinh,
    /// The hyperbolic cosine.
    Cosh,
    /// The hyperbolic tangent.
    Tanh,
    /// The inverse hyperbolic sine.
    Asinh,
    /// The inverse hyperbolic cosine; NaN below 1.
    Acosh,
    /// The inverse hyperbolic tangent; infinite at -1 and 1, NaN beyond.
    Atanh,
    /// The error function, 2/sqrt(pi) times the integral of exp(-t^2) from 0 to `a`.
    Erf,
    /// The largest whole number not above.
    Floor,
    /// The smallest whole number not below.
    Ceil,
    /// The nearest whole number, ties to even.
    Round,
    /// The whole number next towards zero.
    Trunc,
    /// `a * b + c`, rounded once.
    FusedMultiplyAdd,
    /// Equal; NaN equals nothing, the zeros equal each other.
    Eq,
    /// Not equal: the negation of `eq`.
    Ne,
    /// Less; false if either is NaN.
    Lt,
    /// Less or equal; false if either is NaN.
    Le,
    /// Greater; false if either is NaN.
    Gt,
    /// Greater or equal; false if either is NaN.
    Ge,
    /// Bitwise, or logical, conjunction.
    And,
    /// Bitwise, or logical, disjunction.
    Or,
    /// Bitwise, or logical, exclusive disjunction.
    Xor,
    /// Bitwise, or logical, negation.
    Not,
    /// `a` shifted left by `b` bits.
    Shl,
    /// `a` shifted right by `b` bits; copies of the sign come in from the left for signed types.
    Shr,
    /// `b` if the boolean `a` holds, else `c`; bits are kept.
    Select,
    /// Whether the operand is NaN.
    IsNan,
    /// Whether the operand is infinite, of either sign.
    IsInf,
    /// The value in another type, by the rules of [`Scalar::cast`].
    Cast,
    /// The same bits as another type of the same width.
    Bitcast,
    /// The number of zero bits above the highest one.
    CountLeadingZeros,
    /// The number of one bits.
    Popcount,
    /// The byte at place `a mod 16` of the sixteen that the other operands hold, four each, the
    /// lowest first.
    Lookup,
}

/// Which operand types a function takes, and what its result is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeRule {
    /// Operands of one float or integer type, which is the result's.
    Number,
    /// Operands of one float type, which is the result's.
    Float,
    /// Operands of one integer type, which is the result's.
    Integer,
    /// Operands of one integer type or all boolean; the result likewise.
    Bits,
    /// Operands of one float or integer type or all boolean; the result likewise.
    Ordered,
    /// As `Ordered`, with a boolean result.
    Comparison,
    /// One float operand, a boolean result.
    Test,
    /// A boolean, then two operands of one type, which is the result's.
    Select,
    /// One operand of any type but string; the result's type is asked for.
    Convert,
    /// As `Convert`, between types of one width.
    Bitcast,
    /// An operand and a result of u8, the other operands of u32.
    Lookup,
}

/// The value on `f64` numbers; booleans are 0 and 1.
type Real = fn(&[f64]) -> f64;
/// The value on integers of a type; what comes back is wrapped to that type (or is 0 or 1).
type Integer = fn(DType, &[i128]) -> i128;

/// One function.
struct Row {
    function: ScalarFunction,
    name: &'static str,
    arity: usize,
    rule: TypeRule,
    real: Real,
    integer: Integer,
}

const fn row(
    function: ScalarFunction,
    name: &'static str,
    arity: usize,
    rule: TypeRule,
    real: Real,
    integer: Integer,
) -> Row {
    Row { function, name, arity, rule, real, integer }
}

/// Stands where a row has no value on integers or on floats: the type rule keeps it from being
/// asked.
const NO_INTEGER: Integer = |dtype, _| unreachable!("a float function of {dtype}");
const NO_REAL: Real = |_| f64::NAN;

#[rustfmt::skip]
const TABLE: [Row; 59] = {
    use ScalarFunction::*;
    use TypeRule::{Bits, Comparison, Convert, Float, Number, Ordered, Test};
    use values as v;
    [
        row(Add,        "add",        2, Number, |x| x[0] + x[1],       |_, x| x[0] + x[1]),
        row(Sub,        "sub",        2, Number, |x| x[0] - x[1],       |_, x| x[0] - x[1]),
        row(Mul,        "mul",        2, Number, |x| x[0] * x[1],
            |_, x| x[0].wrapping_mul(x[1])),
        row(Div,        "div",        2, Number, |x| x[0] / x[1],
            |_, x| v::divide(x[0], x[1])),
        row(Rem,        "rem",        2, Number, |x| x[0] % x[1],
            |_, x| v::remainder(x[0], x[1])),
        row(Mod,        "mod",        2, Number, |x| v::modulo_real(x[0], x[1]),
            |_, x| v::modulo(x[0], x[1])),
        row(Pow,        "pow",        2, Number, |x| x[0].powf(x[1]),
            |_, x| v::power(x[0], x[1])),
        row(Min,        "min",        2, Ordered, |x| v::minimum(x[0], x[1]),
            |_, x| x[0].min(x[1])),
        row(Max,        "max",        2, Ordered, |x| v::maximum(x[0], x[1]),
            |_, x| x[0].max(x[1])),
        row(Neg,        "neg",        1, Number, |x| -x[0],             |_, x| -x[0]),
        row(Abs,        "abs",        1, Number, |x| x[0].abs(),        |_, x| x[0].abs()),
        row(Sign,       "sign",       1, Number, |x| v::sign(x[0]),     |_, x| x[0].signum()),
        row(Sqrt,       "sqrt",       1, Float,  |x| x[0].sqrt(),       NO_INTEGER),
        row(Reciprocal, "reciprocal", 1, Float,  |x| x[0].recip(),      NO_INTEGER),
        row(Exp,        "exp",        1, Float,  |x| x[0].exp(),        NO_INTEGER),
        row(Exp2,       "exp2",       1, Float,  |x| x[0].exp2(),       NO_INTEGER),
        row(Expm1,      "expm1",      1, Float,  |x| x[0].exp_m1(),     NO_INTEGER),
        row(Log,        "log",        1, Float,  |x| x[0].ln(),         NO_INTEGER),
        row(Log2,       "log2",       1, Float,  |x| x[0].log2(),       NO_INTEGER),
        row(Log1p,      "log1p",      1, Float,  |x| x[0].ln_1p(),      NO_INTEGER),
        row(Sin,        "sin",        1, Float,  |x| x[0].sin(),        NO_INTEGER),
        row(Cos,        "cos",        1, Float,  |x| x[0].cos(),        NO_INTEGER),
        row(Tan,        "tan",        1, Float,  |x| x[0].tan(),        NO_INTEGER),
        row(Asin,       "asin",       1, Float,  |x| x[0].asin(),       NO_INTEGER),
        row(Acos,       "acos",       1, Float,  |x| x[0].acos(),       NO_INTEGER),
        row(Atan,       "atan",       1, Float,  |x| x[0].atan(),       NO_INTEGER),
        row(Atan2,      "atan2",      2, Float,  |x| x[0].atan2(x[1]),  NO_INTEGER),
        row(Sinh,       "sinh",       1, Float,  |x| x[0].sinh(),       NO_INTEGER),
        row(Cosh,       "cosh",       1, Float,  |x| x[0].cosh(),       NO_INTEGER),
        row(Tanh,       "tanh",       1, Float,  |x| x[0].tanh(),       NO_INTEGER),
        row(Asinh,      "asinh",      1, Float,  |x| v::asinh(x[0]),    NO_INTEGER),
        row(Acosh,      "acosh",      1, Float,  |x| v::acosh(x[0]),    NO_INTEGER),
        row(Atanh,      "atanh",      1, Float,  |x| v::atanh(x[0]),    NO_INTEGER),
        row(Erf,        "erf",        1, Float,  |x| erf(x[0]),         NO_INTEGER),
        row(Floor,      "floor",      1, Float,  |x| x[0].floor(),      NO_INTEGER),
        row(Ceil,       "ceil",       1, Float,  |x| x[0].ceil(),       NO_INTEGER),
        row(Round,      "round",      1, Float,  |x| x[0].round_ties_even(), NO_INTEGER),
        row(Trunc,      "trunc",      1, Float,  |x| x[0].trunc(),      NO_INTEGER),
        row(FusedMultiplyAdd, "fma",  3, Number, |x| x[0].mul_add(x[1], x[2]),
            |_, x| x[0].wrapping_mul(x[1]).wrapping_add(x[2])),
        row(Eq,         "eq",         2, Comparison, |x| (x[0] == x[1]).into(),
            |_, x| (x[0] == x[1]).into()),
        row(Ne,         "ne",         2, Comparison, |x| (x[0] != x[1]).into(),
            |_, x| (x[0] != x[1]).into()),
        row(Lt,         "lt",         2, Comparison, |x| (x[0] < x[1]).into(),
            |_, x| (x[0] < x[1]).into()),
        row(Le,         "le",         2, Comparison, |x| (x[0] <= x[1]).into(),
            |_, x| (x[0] <= x[1]).into()),
        row(Gt,         "gt",         2, Comparison, |x| (x[0] > x[1]).into(),
            |_, x| (x[0] > x[1]).into()),
        row(Ge,         "ge",         2, Comparison, |x| (x[0] >= x[1]).into(),
            |_, x| (x[0] >= x[1]).into()),
        row(And,        "and",        2, Bits,   NO_REAL,               |_, x| x[0] & x[1]),
        row(Or,         "or",         2, Bits,   NO_REAL,               |_, x| x[0] | x[1]),
        row(Xor,        "xor",        2, Bits,   NO_REAL,               |_, x| x[0] ^ x[1]),
        row(Not,        "not",        1, Bits,   NO_REAL,               |t, x| v::not(t, x[0])),
        row(Shl,        "shl",        2, TypeRule::Integer, NO_REAL,
            |t, x| v::shift_left(t, x[0], x[1])),
        row(Shr,        "shr",        2, TypeRule::Integer, NO_REAL,
            |t, x| v::shift_right(t, x[0], x[1])),
        row(Select,     "select",     3, TypeRule::Select,
            |x| if x[0] != 0.0 { x[1] } else { x[2] }, |_, x| if x[0] != 0 { x[1] } else { x[2] }),
        row(IsNan,      "is_nan",     1, Test,   |x| x[0].is_nan().into(),      NO_INTEGER),
        row(IsInf,      "is_inf",     1, Test,   |x| x[0].is_infinite().into(), NO_INTEGER),
        row(Cast,       "cast",       1, Convert,           |x| x[0],   |_, x| x[0]),
        row(Bitcast,    "bitcast",    1, TypeRule::Bitcast, NO_REAL,    |_, x| x[0]),
        row(CountLeadingZeros, "clz", 1, TypeRule::Integer, NO_REAL,
            |t, x| v::leading_zeros(t, x[0])),
        row(Popcount,   "popcount",   1, TypeRule::Integer, NO_REAL,    |t, x| v::ones(t, x[0])),
        row(Lookup,     "lookup",     5, TypeRule::Lookup,  NO_REAL,    |_, x| v::lookup(x)),
    ]
};

/// Which way a function of one operand goes, everywhere on its domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Monotone {
    /// A larger operand never gives a smaller result.
    Increasing,
    /// A larger operand never gives a larger result.
    Decreasing,
}

impl ScalarFunction {
    /// The most operands that a function has.
    pub const MOST_OPERANDS: usize = 5;

    fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// All functions, in table order.
    pub fn all() -> impl Iterator<Item = ScalarFunction> {
        TABLE.iter().map(|row| row.function)
    }

    /// The name in text forms.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The function with this name.
    pub fn from_name(name: &str) -> Option<ScalarFunction> {
        TABLE.iter().find(|row| row.name == name).map(|row| row.function)
    }

    /// The number of operands.
    pub fn arity(self) -> usize {
        self.row().arity
    }

    /// Which operand types it takes.
    pub fn type_rule(self) -> TypeRule {
        self.row().rule
    }

    /// The types of its operands where those that may have any type have this one.
    #[must_use]
    pub fn operand_dtypes(self, dtype: DType) -> Vec<DType> {
        let mut dtypes = vec![dtype; self.arity()];
        match self.type_rule() {
            TypeRule::Select => dtypes[0] = DType::Bool,
            TypeRule::Lookup => dtypes[1..].fill(DType::U32),
            _ => {}
        }
        dtypes
    }

    /// The result's type. `requested` is the target of `cast` and `bitcast`, which need it; given
    /// to another function it must be the type that follows from the operands.
    ///
    /// # Errors
    /// A sentence when number or types of the operands do not fit.
    pub fn result_dtype(
        self,
        operands: &[DType],
        requested: Option<DType>,
    ) -> Result<DType, String> {
        let name = self.name();
        if operands.len() != self.arity() {
            let (arity, given) = (self.arity(), operands.len());
            return Err(format!("`{name}` takes {arity} operand(s), not {given}"));
        }
        let rule = self.type_rule();
        let (same, words) = match rule {
            TypeRule::Select => (&operands[1..], &[][..]),
            TypeRule::Lookup => operands.split_at(1),
            _ => (operands, &[][..]),
        };
        let dtype = same[0];
        if let Some(other) = words.iter().find(|other| **other != DType::U32) {
            return Err(format!("`{name}` takes a table of u32, not {other}"));
        }
        if let Some(other) = same.iter().find(|other| **other != dtype) {
            return Err(format!("`{name}` takes operands of one type, not {dtype} and {other}"));
        }
        let is_bool = dtype == DType::Bool;
        let (fits, wanted) = match rule {
            TypeRule::Number => (dtype.is_number(), "a float or integer type"),
            TypeRule::Float | TypeRule::Test => (dtype.is_float(), "a float type"),
            TypeRule::Integer => (dtype.is_integer(), "an integer type"),
            TypeRule::Bits => (dtype.is_integer() || is_bool, "an integer type or bool"),
            TypeRule::Lookup => (dtype == DType::U8, "u8"),
            _ => (dtype != DType::String, "a type other than string"),
        };
        if !fits {
            return Err(format!("`{name}` takes {wanted}, not {dtype}"));
        }
        if rule == TypeRule::Select && operands[0] != DType::Bool {
            return Err(format!("`{name}` takes a bool condition, not {}", operands[0]));
        }
        let result = match rule {
            TypeRule::Comparison | TypeRule::Test => DType::Bool,
            TypeRule::Convert | TypeRule::Bitcast => {
                requested.ok_or_else(|| format!("`{name}` needs a target type"))?
            }
            _ => dtype,
        };
        if result == DType::String {
            return Err(format!("`{name}` never gives a string"));
        }
        if rule == TypeRule::Bitcast && result.bits() != dtype.bits() {
            return Err(format!("`{name}` keeps the width: {dtype} does not become {result}"));
        }
        match requested {
            Some(requested) if requested != result => {
                Err(format!("`{name}` of {dtype} gives {result}, not {requested}"))
            }
            _ => Ok(result),
        }
    }

    /// The value, as the file's header has it. `result` must be what [`Self::result_dtype`] gives.
    ///
    /// # Panics
    /// When number or types of the arguments do not fit.
    pub fn evaluate(self, result: DType, arguments: &[Scalar]) -> Scalar {
        let row = self.row();
        assert_eq!(arguments.len(), row.arity, "arguments of `{}`", row.name);
        match self {
            ScalarFunction::Select => return arguments[if arguments[0].as_bool() { 1 } else { 2 }],
            ScalarFunction::Cast => return arguments[0].cast(result),
            ScalarFunction::Bitcast => return Scalar::from_bits(result, arguments[0].bits()),
            _ => {}
        }
        let operand = arguments[0].dtype();
        if !operand.is_float() {
            let mut values = [0; ScalarFunction::MOST_OPERANDS];
            for (value, argument) in values.iter_mut().zip(arguments) {
                *value = argument.as_i128();
            }
            return Scalar::from_i128(result, (row.integer)(operand, &values[..row.arity]));
        }
        let mut values = [0.0; ScalarFunction::MOST_OPERANDS];
        for (value, argument) in values.iter_mut().zip(arguments) {
            *value = argument.as_f64();
        }
        let value = match (operand, self) {
            (DType::F64, _) => (row.real)(&values[..row.arity]),
            // The one basic operation whose f64 value rounded again may not be its f32 value.
            (_, ScalarFunction::FusedMultiplyAdd) => {
                let [a, b, c, ..] = values.map(|value| value as f32);
                f64::from(a.mul_add(b, c))
            }
            _ => f64::from((row.real)(&values[..row.arity]) as f32),
        };
        Scalar::from_f64_with(result, value, Overflow::Special)
    }

    /// The value on real numbers, computed in `f64`; comparisons and tests give 0 or 1, `cast` its
    /// operand, and functions of bits NaN.
    ///
    /// # Panics
    /// When the number of arguments does not fit.
    pub fn evaluate_f64(self, arguments: &[f64]) -> f64 {
        let row = self.row();
        assert_eq!(arguments.len(), row.arity, "arguments of `{}`", row.name);
        (row.real)(arguments)
    }

    /// Whether `f(a, b) == f(b, a)`, for every type.
    pub fn is_commutative(self) -> bool {
        use ScalarFunction::*;
        matches!(self, Add | Mul | Min | Max | Eq | Ne | And | Or | Xor)
    }

    /// Whether `f(f(a, b), c) == f(a, f(b, c))` to the bit, on elements of a type. Sums and
    /// products of floats are not.
    pub fn is_associative(self, dtype: DType) -> bool {
        use ScalarFunction::*;
        match self {
            Add | Mul => dtype.is_integer(),
            Min | Max | And | Or | Xor => true,
            _ => false,
        }
    }

    /// Whether `f(a, a) == a`.
    pub fn is_idempotent(self) -> bool {
        use ScalarFunction::*;
        matches!(self, Min | Max | And | Or)
    }

    /// Whether `f(f(a)) == f(a)`.
    pub fn is_projection(self) -> bool {
        use ScalarFunction::*;
        matches!(self, Abs | Sign | Floor | Ceil | Round | Trunc)
    }

    /// Whether the result is boolean for operands of another type.
    pub fn is_predicate(self) -> bool {
        matches!(self.type_rule(), TypeRule::Comparison | TypeRule::Test)
    }

    /// The second operand `e` with `f(a, e) == a` to the bit, for every `a`; for floats `add` has
    /// -0.0 (0.0 would change -0.0), and so it differs from [`crate::Reduction::identity`].
    pub fn right_identity(self, dtype: DType) -> Option<Scalar> {
        use ScalarFunction::*;
        let fits = self.arity() == 2 && self.result_dtype(&[dtype; 2], None) == Ok(dtype);
        if !fits || dtype == DType::F8E8M0 {
            return None;
        }
        Some(match self {
            Add if dtype.is_float() => Scalar::from_f64(dtype, -0.0),
            Add | Sub | Or | Xor | Shl | Shr => Scalar::zero(dtype),
            Mul | Div | Pow => Scalar::one(dtype),
            Min => Scalar::highest(dtype),
            Max => Scalar::lowest(dtype),
            And => Scalar::from_bits(dtype, u64::MAX),
            _ => return None,
        })
    }

    /// Whether every bit of the result follows from the bits of the operands in its place.
    #[must_use]
    pub fn is_bitwise(self) -> bool {
        use ScalarFunction::{And, Not, Or, Xor};
        matches!(self, And | Not | Or | Xor)
    }

    /// Whether every target has it as an instruction or a few: arithmetic, comparisons, selection,
    /// roundings, the square root, bit operations and conversions. The others must be expanded into
    /// expressions over these before a back end sees them.
    pub fn is_machine(self) -> bool {
        use ScalarFunction::*;
        matches!(
            self,
            Add | Sub
                | Mul
                | Div
                | Min
                | Max
                | Neg
                | Abs
                | Sqrt
                | FusedMultiplyAdd
                | Floor
                | Ceil
                | Round
                | Trunc
                | Eq
                | Ne
                | Lt
                | Le
                | Gt
                | Ge
                | And
                | Or
                | Xor
                | Not
                | Shl
                | Shr
                | Select
                | Cast
                | Bitcast
                | Lookup
        )
    }

    /// Which way a function of one operand goes, everywhere on its domain; `None` if it turns.
    pub fn monotone(self) -> Option<Monotone> {
        use ScalarFunction::*;
        match self {
            Sign | Sqrt | Exp | Exp2 | Expm1 | Log | Log2 | Log1p | Asin | Atan | Sinh | Tanh
            | Asinh | Acosh | Atanh | Erf | Floor | Ceil | Round | Trunc => {
                Some(Monotone::Increasing)
            }
            Acos => Some(Monotone::Decreasing),
            _ => None,
        }
    }
}

impl fmt::Display for ScalarFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests;
