//! Arithmetic on known elements: what lets the shape computations of models disappear.
//!
//! Numbers are computed as `ScalarFunction` has it. Symbolic integers stand for small numbers (they
//! come from extents), so their arithmetic does not wrap and 32 bits hold them as 64 do. Whatever
//! cannot be said for every value of the symbols gives `None`.

use sym::{Expr, Range, SymbolId};
use tensor::{DType, ScalarFunction};

use crate::value::Known;

/// How often symbols may occur in the operands of what is computed with them: products of sums have
/// the product of their terms, and a chain of them would outgrow all memory.
const MOST_OCCURRENCES: usize = 128;

/// How deep divisions and their like may stand inside each other: to look at one takes as long as
/// it is deep, and stack.
pub(crate) const MOST_NESTED: usize = 128;

/// The ranges of symbols.
pub(crate) type Ranges<'a> = dyn Fn(SymbolId) -> Range + 'a;

/// The value of a scalar function on known elements; `dtype` is that of the result.
pub(crate) fn apply(
    function: ScalarFunction,
    dtype: DType,
    operands: &[&Known],
    ranges: &Ranges<'_>,
) -> Option<Known> {
    let constants: Option<Vec<_>> = operands.iter().map(|operand| operand.constant()).collect();
    if let Some(constants) = constants {
        return Some(Known::Constant(function.evaluate(dtype, &constants)));
    }
    if function == ScalarFunction::Select {
        let chosen = if operands[0].constant()?.as_bool() { operands[1] } else { operands[2] };
        return Some(chosen.clone());
    }
    let exprs: Vec<Expr> = operands.iter().map(|operand| operand.expr()).collect::<Option<_>>()?;
    let occurrences = exprs.iter().map(|expr| occurrences(expr).max(1));
    if occurrences.product::<usize>() > MOST_OCCURRENCES {
        return None;
    }
    let result = symbolic(function, dtype, &exprs, ranges)?;
    (!result.is_nested_deeper(MOST_NESTED)).then(|| Known::of(dtype, result))
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
