//! Elements that are known while a function is made: numbers, and integers that depend on symbols.
//! Arithmetic on them lets what models compute of shapes disappear.
//!
//! Numbers are computed as `ScalarFunction` has it. Symbolic integers stand for small numbers (they
//! come from extents), so their arithmetic does not wrap and 32 bits hold them as 64 do. Whatever
//! cannot be said for every value of the symbols gives `None`.

use sym::{Expr, Range, SymbolId};
use tensor::{DType, Scalar, ScalarFunction, Tensor};

use crate::builder::{Built, FunctionBuilder};
use crate::op::TensorType;

/// How often symbols may occur in the operands of what is computed with them: products of sums have
/// the product of their terms, and a chain of them would outgrow all memory.
const MOST_OCCURRENCES: usize = 128;

/// The ranges of symbols.
type Ranges<'a> = dyn Fn(SymbolId) -> Range + 'a;

/// An element that is known.
#[derive(Clone, Debug, PartialEq)]
pub enum Known {
    /// A number of the value's type.
    Constant(Scalar),
    /// An integer that depends on symbols.
    Symbolic(Expr),
}

impl Known {
    /// An expression as an element of an integer type, or a boolean.
    pub fn of(dtype: DType, expr: Expr) -> Known {
        match expr.as_constant() {
            Some(value) => Known::Constant(Scalar::from_i64(dtype, value)),
            None => Known::Symbolic(expr),
        }
    }

    /// The element as an expression; none for floats and numbers beyond i64.
    pub fn expr(&self) -> Option<Expr> {
        match self {
            Known::Constant(scalar) if scalar.dtype().is_float() => None,
            Known::Constant(scalar) => i64::try_from(scalar.as_i128()).ok().map(Expr::from),
            Known::Symbolic(expr) => Some(expr.clone()),
        }
    }

    /// The element, where it is a number.
    pub fn constant(&self) -> Option<Scalar> {
        match self {
            Known::Constant(scalar) => Some(*scalar),
            Known::Symbolic(_) => None,
        }
    }

    /// The value of a scalar function; `dtype` is that of the result, `ranges` those of symbols.
    pub fn apply(
        function: ScalarFunction,
        dtype: DType,
        operands: &[&Known],
        ranges: &dyn Fn(SymbolId) -> Range,
    ) -> Option<Known> {
        let constants: Option<Vec<_>> = operands.iter().map(|operand| operand.constant()).collect();
        if let Some(constants) = constants {
            return Some(Known::Constant(function.evaluate(dtype, &constants)));
        }
        if function == ScalarFunction::Select {
            let chosen = if operands[0].constant()?.as_bool() { operands[1] } else { operands[2] };
            return Some(chosen.clone());
        }
        let exprs: Vec<Expr> =
            operands.iter().map(|operand| operand.expr()).collect::<Option<_>>()?;
        let occurrences = exprs.iter().map(|expr| occurrences(expr).max(1));
        if occurrences.product::<usize>() > MOST_OCCURRENCES {
            return None;
        }
        let result = symbolic(function, dtype, &exprs, ranges)?;
        (!result.is_nested_deeper(Expr::MOST_NESTED)).then(|| Known::of(dtype, result))
    }
}

fn symbolic(
    function: ScalarFunction,
    dtype: DType,
    operands: &[Expr],
    ranges: &Ranges<'_>,
) -> Option<Expr> {
    use ScalarFunction::*;
    let a = operands.first()?;
    let b = operands.get(1);
    let is_wide = dtype.is_integer() && dtype.bits() >= 32;
    match function {
        Cast if is_wide => Some(a.clone()),
        Cast if dtype == DType::Bool => truth(Ne, a, ranges),
        Eq | Ne | Lt | Le | Gt | Ge => truth(function, &(a - b?), ranges),
        _ if !is_wide => None,
        Add => Some(a + b?),
        Sub => Some(a - b?),
        Mul => Some(a * b?),
        Neg => Some(-a),
        Abs if low(a, ranges) >= 0 => Some(a.clone()),
        Sign if low(a, ranges) > 0 => Some(Expr::from(1)),
        // Truncated and floored division agree on numbers that are not negative.
        Div if low(a, ranges) >= 0 && low(b?, ranges) > 0 => Some(a.floor_div(b?)),
        Rem | Mod if low(a, ranges) >= 0 && low(b?, ranges) > 0 => Some(a.modulo(b?)),
        Min => Some(a.min(b?).simplify(ranges)),
        Max => Some(a.max(b?).simplify(ranges)),
        _ => None,
    }
}

/// How often symbols occur, as far as it matters.
fn occurrences(expr: &Expr) -> usize {
    let mut count = 0;
    expr.any_symbol(&mut |_| {
        count += 1;
        count > MOST_OCCURRENCES
    });
    count
}

fn low(expr: &Expr, ranges: &Ranges<'_>) -> i64 {
    expr.bounds(ranges).min
}

/// 1 or 0 where a comparison of `difference` with zero has one answer whatever the symbols are.
fn truth(comparison: ScalarFunction, difference: &Expr, ranges: &Ranges<'_>) -> Option<Expr> {
    use ScalarFunction::*;
    let bounds = difference.bounds(ranges);
    let (low, high) = (bounds.min, bounds.max);
    let (always, never) = match comparison {
        Eq => (low == 0 && high == 0, low > 0 || high < 0),
        Ne => (low > 0 || high < 0, low == 0 && high == 0),
        Lt => (high < 0, low >= 0),
        Le => (high <= 0, low > 0),
        Gt => (low > 0, high <= 0),
        Ge => (low >= 0, high < 0),
        _ => (false, false),
    };
    (always || never).then(|| Expr::from(i64::from(always)))
}

impl FunctionBuilder {
    /// A tensor of known elements in row-major order, as many as its extents ask for.
    ///
    /// # Errors
    /// Extents that are not constant.
    pub fn known(&mut self, ty: &TensorType, elements: &[Known]) -> Built {
        // Equal elements are one that is repeated.
        if let ([first, rest @ ..], false) = (elements, ty.shape.is_empty())
            && rest.iter().all(|element| element == first)
        {
            let scalar = TensorType { dtype: ty.dtype, shape: [].into() };
            let one = self.known(&scalar, std::slice::from_ref(first))?;
            return self.broadcast_to(one, &ty.shape);
        }
        if let Some(numbers) = elements.iter().map(Known::constant).collect::<Option<Vec<_>>>() {
            let extent = |it: &Expr| it.as_constant().and_then(|it| usize::try_from(it).ok());
            let shape = ty.shape.iter().map(extent).collect::<Option<Vec<usize>>>();
            let shape = shape.ok_or("known elements under a shape that is not known")?;
            return Ok(self.literal(Tensor::from_scalars(ty.dtype, &shape, &numbers)));
        }
        let mut row = Vec::new();
        for element in elements {
            let number = match element {
                Known::Constant(scalar) => self.literal(Tensor::scalar(*scalar)),
                Known::Symbolic(expr) => {
                    let number = self.dimension(expr.clone())?;
                    self.cast(number, ty.dtype)?
                }
            };
            row.push(self.reshape(number, &[Expr::ONE])?);
        }
        let row = self.concat(0, &row)?;
        self.reshape(row, &ty.shape)
    }
}
