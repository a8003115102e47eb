//! Rules of scalar functions.

use graph::{Op, ValueId};
use tensor::{DType, Scalar, ScalarFunction};

use super::{Fired, How, No, Rule, Subject};
use crate::maker::{Made, Maker};

/// One side of a rule: a tree of scalar functions.
pub(super) enum Pattern {
    /// Any value; equal numbers are equal values.
    Any(usize),
    /// A literal that is this number throughout.
    Number(f64),
    /// A scalar function of patterns.
    Map(ScalarFunction, &'static [Pattern]),
}
use Pattern::{Any, Number};

const X: Pattern = Any(0);
const Y: Pattern = Any(1);
const Z: Pattern = Any(2);
const FALSE: Pattern = Number(0.0);
const TRUE: Pattern = Number(1.0);
const ZERO: Pattern = Number(0.0);
const HALF: Pattern = Number(0.5);
const TWO: Pattern = Number(2.0);
const MINUS_ONE: Pattern = Number(-1.0);

/// What the values of a pattern are bound to.
type Bindings = [Option<ValueId>; 3];

/// A rule as two expressions.
pub(super) struct Rewrite {
    before: Pattern,
    after: Pattern,
    condition: Condition,
}

/// What must hold of the values that a pattern matched.
type Condition = fn(&mut Maker<'_, '_>, &Bindings) -> Result<(), No>;

/// Reads `F(G(X), Y)` as a pattern.
macro_rules! pattern {
    ($function:ident ( $($name:ident $(($($inner:tt)*))?),* )) => {
        Pattern::Map(ScalarFunction::$function, &[$(pattern!($name $(($($inner)*))?)),*])
    };
    ($variable:ident) => { $variable };
}

/// Reads lines of `name: before => after` or `name: before => after, if condition`.
macro_rules! rules {
    ($($rule:ident: $before:ident($($left:tt)*) => $after:ident $(($($right:tt)*))?
        $(, if $condition:ident)?;)*) => {
        &[$(Rule {
            name: stringify!($rule),
            law: concat!(
                stringify!($before), "(", stringify!($($left)*), ") => ", stringify!($after)
                $(, "(", stringify!($($right)*), ")")? $(, " if ", stringify!($condition))?
            ),
            subject: Subject::Map,
            how: How::Expressions(Rewrite {
                before: pattern!($before($($left)*)),
                after: pattern!($after $(($($right)*))?),
                condition: rules!(@condition $($condition)?),
            }),
        }),*]
    };
    (@condition) => { always };
    (@condition $condition:ident) => { $condition };
}

pub(super) const RULES: &[Rule] = rules! {
    negation_twice: Neg(Neg(X)) => X;
    not_twice: Not(Not(X)) => X;
    add_negation: Add(X, Neg(Y)) => Sub(X, Y);
    negation_add: Add(Neg(X), Y) => Sub(Y, X);
    sub_negation: Sub(X, Neg(Y)) => Add(X, Y);
    product_of_negations: Mul(Neg(X), Neg(Y)) => Mul(X, Y);
    times_minus_one: Mul(X, MINUS_ONE) => Neg(X);
    times_zero: Mul(X, ZERO) => ZERO, if integer;
    difference_with_itself: Sub(X, X) => ZERO, if integer;
    absolute_of_negation: Abs(Neg(X)) => Abs(X), if signed;
    square: Pow(X, TWO) => Mul(X, X);
    square_root: Pow(X, HALF) => Sqrt(X), if never_negative;
    scaled_and_back: Round(Div(Mul(X, Y), Y)) => X, if whole_and_scale;
    round_of_whole: Round(X) => X, if whole;
    there_and_back: Add(Sub(X, Y), Y) => X, if both_whole;
    choose_true: Select(TRUE, X, Y) => X;
    choose_false: Select(FALSE, X, Y) => Y;
    choose_the_same: Select(Z, X, X) => X;
    choose_by_negation: Select(Not(Z), X, Y) => Select(Z, Y, X);
};

fn always(_: &mut Maker<'_, '_>, _: &Bindings) -> Result<(), No> {
    Ok(())
}

/// A product with 0.0 may be NaN or -0.0.
fn integer(maker: &mut Maker<'_, '_>, bound: &Bindings) -> Result<(), No> {
    let x = bound[0].ok_or(No::Match)?;
    super::require(maker.dtype(x)?.is_integer(), "floats have NaN and signed zeros")
}

/// The negation of an unsigned number wraps.
fn signed(maker: &mut Maker<'_, '_>, bound: &Bindings) -> Result<(), No> {
    let x = bound[0].ok_or(No::Match)?;
    super::require(!maker.dtype(x)?.is_unsigned_integer(), "the type is unsigned")
}

/// `pow(-0.0, 0.5)` is 0.0 and `pow(-inf, 0.5)` is inf; the square roots are -0.0 and NaN.
fn never_negative(maker: &mut Maker<'_, '_>, bound: &Bindings) -> Result<(), No> {
    use ScalarFunction::{Abs, Exp, Exp2, Mul};
    let x = bound[0].ok_or(No::Match)?;
    let known = match maker.definition(x) {
        Some((Op::Map { function: Abs | Exp | Exp2, .. }, _)) => true,
        Some((Op::Map { function: Mul, .. }, operands)) => operands[0] == operands[1],
        _ => false,
    };
    super::require(known, "the operand may be negative, or -0.0")
}

/// Whether a value in floats is an integer of at most 16 bits, or few of these added up.
fn is_whole(maker: &mut Maker<'_, '_>, value: ValueId, sums: usize) -> bool {
    use ScalarFunction::{Add, Cast, Sub};
    let small = |number: Scalar| number.as_f64().fract() == 0.0 && number.as_f64().abs() < 65536.0;
    if let Some(number) = maker.splat(value) {
        return small(number);
    }
    let Some((Op::Map { function, .. }, operands)) = maker.definition(value) else { return false };
    match function {
        Cast => {
            maker.dtype(operands[0]).is_ok_and(|dtype| dtype.is_integer() && dtype.bits() <= 16)
        }
        Add | Sub if sums > 0 => operands.iter().all(|&operand| is_whole(maker, operand, sums - 1)),
        _ => false,
    }
}

/// A product and a quotient of such numbers are off by less than a half; a scale is far from what
/// floats lose at either end.
fn whole_and_scale(maker: &mut Maker<'_, '_>, bound: &Bindings) -> Result<(), No> {
    let [Some(x), Some(y), _] = *bound else { return Err(No::Match) };
    let scale = maker.splat(y).map(|scale| scale.as_f64().abs());
    let moderate = scale.is_some_and(|scale| (1e-30..=1e30).contains(&scale));
    let precise = matches!(maker.dtype(x)?, DType::F32 | DType::F64);
    super::require(moderate && precise && is_whole(maker, x, 2), "the number may not be whole")
}

fn whole(maker: &mut Maker<'_, '_>, bound: &Bindings) -> Result<(), No> {
    let x = bound[0].ok_or(No::Match)?;
    let precise = matches!(maker.dtype(x)?, DType::F32 | DType::F64);
    super::require(precise && is_whole(maker, x, 2), "the number may not be whole")
}

fn both_whole(maker: &mut Maker<'_, '_>, bound: &Bindings) -> Result<(), No> {
    let [Some(x), Some(y), _] = *bound else { return Err(No::Match) };
    let precise = matches!(maker.dtype(x)?, DType::F32 | DType::F64);
    let whole = precise && is_whole(maker, x, 2) && is_whole(maker, y, 0);
    super::require(whole, "the numbers may not be whole")
}

impl Rewrite {
    pub(super) fn apply(&self, maker: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
        let Op::Map { function, dtype } = op else { return Err(No::Match) };
        let mut bound = Bindings::default();
        let Pattern::Map(wanted, inner) = &self.before else { return Err(No::Match) };
        if wanted != function || !matches_all(maker, inner, operands, &mut bound) {
            return Err(No::Match);
        }
        (self.condition)(maker, &bound)?;
        Ok(build(maker, &self.after, &bound, operands[0], *dtype)?)
    }
}

fn matches_all(
    maker: &mut Maker<'_, '_>,
    patterns: &[Pattern],
    values: &[ValueId],
    bound: &mut Bindings,
) -> bool {
    patterns.iter().zip(values).all(|(pattern, &value)| matches(maker, pattern, value, bound))
}

fn matches(
    maker: &mut Maker<'_, '_>,
    pattern: &Pattern,
    value: ValueId,
    bound: &mut Bindings,
) -> bool {
    match pattern {
        Any(number) => *bound[*number].get_or_insert(value) == value,
        Number(number) => maker.splat(value).is_some_and(|scalar| {
            let wanted = Scalar::from_f64(scalar.dtype(), *number);
            scalar == wanted && wanted.as_f64() == *number
        }),
        Pattern::Map(wanted, inner) => {
            let function = maker.function();
            match function.op(value) {
                Some(Op::Map { function, .. }) if function == wanted => {}
                _ => return false,
            }
            let Some((_, operands)) = maker.definition(value) else { return false };
            matches_all(maker, inner, &operands, bound)
        }
    }
}

/// Makes the other side of a rule. `like` has the shape of the result, `dtype` is its type.
fn build(
    maker: &mut Maker<'_, '_>,
    pattern: &Pattern,
    bound: &Bindings,
    like: ValueId,
    dtype: DType,
) -> Made {
    match pattern {
        Any(number) => bound[*number].ok_or_else(|| format!("value {number} is not bound")),
        Number(number) => {
            let shape = maker.shape(like)?;
            maker.full(&shape, Scalar::from_f64(dtype, *number))
        }
        Pattern::Map(function, inner) => {
            let mut operands = inner
                .iter()
                .map(|inner| build(maker, inner, bound, like, dtype))
                .collect::<Result<Vec<ValueId>, String>>()?;
            if base::fault::is_seeded("graph-opt.rule") {
                operands.reverse();
            }
            maker.map(*function, &operands)
        }
    }
}
