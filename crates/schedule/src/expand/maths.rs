//! Writing arithmetic: what the expansions are built from.
//!
//! An expansion is written once for `f32` and `f64`; [`Format`] says where they differ.

use loops::{Kernel, ScalarExpr, Stmt};
use tensor::{DType, Scalar, ScalarFunction};

/// A floating-point format and the integers of its width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    F32,
    F64,
}

impl Format {
    /// The format of a type that expansions work in.
    pub(super) fn of(dtype: DType) -> Option<Format> {
        match dtype {
            DType::F32 => Some(Format::F32),
            DType::F64 => Some(Format::F64),
            _ => None,
        }
    }
}

/// A number or a table that differs between the formats.
#[derive(Clone, Copy)]
pub(super) struct Of<T> {
    pub(super) f32: T,
    pub(super) f64: T,
}

/// Writes arithmetic in one type, binding what is used more than once by `Let`s.
pub(super) struct Maths<'a> {
    pub(super) kernel: &'a mut Kernel,
    pub(super) lets: &'a mut Vec<Stmt>,
    /// The format of floats; none for integer arithmetic.
    pub(super) format: Option<Format>,
}

/// Methods of one, two or three operands that apply the function of a name.
macro_rules! operations {
    ($($name:ident $function:ident ($($operand:ident),*);)*) => {$(
        pub(super) fn $name(&self, $($operand: &ScalarExpr),*) -> ScalarExpr {
            self.apply(ScalarFunction::$function, vec![$($operand.clone()),*])
        }
    )*};
}

/// A boolean constant.
fn as_bool(value: &ScalarExpr) -> Option<bool> {
    match value {
        ScalarExpr::Constant(scalar) if scalar.dtype() == DType::Bool => Some(scalar.as_bool()),
        _ => None,
    }
}

impl Maths<'_> {
    operations! {
        add Add (a, b);
        sub Sub (a, b);
        mul Mul (a, b);
        div Div (a, b);
        neg Neg (a);
        abs Abs (a);
        min Min (a, b);
        max Max (a, b);
        sqrt Sqrt (a);
        trunc Trunc (a);
        fma FusedMultiplyAdd (a, b, c);
        eq Eq (a, b);
        ne Ne (a, b);
        lt Lt (a, b);
        le Le (a, b);
        gt Gt (a, b);
        ge Ge (a, b);
        and And (a, b);
        or Or (a, b);
        xor Xor (a, b);
        not Not (a);
        shl Shl (a, b);
        shr Shr (a, b);
        select Select (condition, a, b);
    }

    /// A function of values, which is a constant if they are, or if one of them decides.
    fn apply(&self, function: ScalarFunction, arguments: Vec<ScalarExpr>) -> ScalarExpr {
        use ScalarFunction::{And, Or, Select};
        let decided = match (function, &arguments[..]) {
            (Select, [condition, a, b]) => {
                as_bool(condition).map(|holds| if holds { a } else { b })
            }
            (And | Or, [a, b]) => match (as_bool(a), as_bool(b)) {
                (Some(known), _) => Some(if known == (function == Or) { a } else { b }),
                (_, Some(known)) => Some(if known == (function == Or) { b } else { a }),
                _ => None,
            },
            _ => None,
        };
        if let Some(decided) = decided {
            return decided.clone();
        }
        let scalar = |value: &ScalarExpr| match value {
            ScalarExpr::Constant(scalar) => Some(*scalar),
            _ => None,
        };
        let constants: Option<Vec<Scalar>> = arguments.iter().map(scalar).collect();
        match (self.kernel.apply(function, arguments), constants) {
            (ScalarExpr::Apply { dtype, .. }, Some(constants)) => {
                ScalarExpr::Constant(function.evaluate(dtype, &constants))
            }
            (applied, _) => applied,
        }
    }

    /// The format; expansions of float functions have one.
    pub(super) fn format(&self) -> Format {
        self.format.unwrap_or(Format::F32)
    }

    /// The one of two that the format asks for.
    pub(super) fn pick<T>(&self, of: Of<T>) -> T {
        match self.format() {
            Format::F32 => of.f32,
            Format::F64 => of.f64,
        }
    }

    /// The float type.
    pub(super) fn float(&self) -> DType {
        self.pick(Of { f32: DType::F32, f64: DType::F64 })
    }

    /// The integer type of the same width.
    pub(super) fn integer(&self) -> DType {
        self.pick(Of { f32: DType::I32, f64: DType::I64 })
    }

    /// Binds a value to a symbol, so that it is computed once.
    pub(super) fn bind(&mut self, value: ScalarExpr) -> ScalarExpr {
        if matches!(value, ScalarExpr::Symbol(_) | ScalarExpr::Constant(_)) {
            return value;
        }
        let dtype = value.dtype(self.kernel).unwrap_or(DType::F32);
        let symbol = self.kernel.add_value("t", dtype, None);
        self.lets.push(Stmt::Let { symbol, value });
        ScalarExpr::Symbol(symbol)
    }

    /// A float constant, rounded to the format.
    pub(super) fn number(&self, value: f64) -> ScalarExpr {
        ScalarExpr::Constant(match self.format() {
            Format::F32 => Scalar::f32(value as f32),
            Format::F64 => Scalar::f64(value),
        })
    }

    /// An integer constant of the format's width.
    pub(super) fn whole(&self, value: i64) -> ScalarExpr {
        ScalarExpr::Constant(Scalar::from_i64(self.integer(), value))
    }

    /// The bits of a float as an integer.
    pub(super) fn bits(&self, a: &ScalarExpr) -> ScalarExpr {
        let (function, dtype) = (ScalarFunction::Bitcast, self.integer());
        ScalarExpr::Apply { function, dtype, arguments: vec![a.clone()] }
    }

    /// The float with these bits.
    pub(super) fn with_bits(&self, a: &ScalarExpr) -> ScalarExpr {
        let (function, dtype) = (ScalarFunction::Bitcast, self.float());
        ScalarExpr::Apply { function, dtype, arguments: vec![a.clone()] }
    }

    /// Where the sign bit stands: the lowest integer.
    pub(super) fn sign_mask(&self) -> ScalarExpr {
        ScalarExpr::Constant(Scalar::lowest(self.integer()))
    }

    /// `|size|` with the sign of `sign`; `size` is not negative.
    pub(super) fn with_sign(&self, size: &ScalarExpr, sign: &ScalarExpr) -> ScalarExpr {
        let sign = self.and(&self.bits(sign), &self.sign_mask());
        self.with_bits(&self.or(&self.bits(size), &sign))
    }

    /// The polynomial with these coefficients, the constant one first, by Horner's rule. `x` is
    /// bound already.
    pub(super) fn polynomial(&self, x: &ScalarExpr, coefficients: &[f64]) -> ScalarExpr {
        let mut high_first = coefficients.iter().rev().map(|c| self.number(*c));
        let first = high_first.next().unwrap_or_else(|| self.number(0.0));
        high_first.fold(first, |sum, c| self.fma(&sum, x, &c))
    }
}
