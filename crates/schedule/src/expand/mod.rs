//! Mathematical functions as arithmetic, the same for every target.
//!
//! ```text
//! %c[i] = tan(%a[i])
//! ```
//!
//! `expand_functions`
//!
//! ```text
//! let x: f32 = %a[i]
//! let ...
//! %c[i] = ... / ...
//! ```
//!
//! What is needed more than once is bound by a `Let` in front of the statement, so that everything
//! stays free of branches and fit for vectors. An operand that stands under a guard is bound under
//! the same guard. `f16` and `bf16` go by way of `f32`. Each family's file derives its expansions
//! and states their errors, in units in the last place (ULP) against the exact value.
//!
//! Invariant: an expansion uses machine functions only ([`ScalarFunction::is_machine`]) and the
//! arithmetic of one float type and the integers of its width, with every fused multiply-add
//! explicit, so that every target gives the same bits.

mod error_function;
mod exponential;
mod inverse_trigonometric;
mod logarithm;
mod maths;
mod power;
mod simple;
mod trigonometric;

use loops::{Condition, Kernel, ScalarExpr, Stmt};
use tensor::{DType, Reduction, Scalar, ScalarFunction};

use crate::error::{Outcome, Refusal};
use maths::{Format, Maths};

/// Expands every function that is not one of the machine's.
pub(crate) fn apply(kernel: &mut Kernel) -> Outcome {
    let mut body = std::mem::take(&mut kernel.body);
    let result = expand_block(kernel, &mut body);
    kernel.body = body;
    result
}

fn expand_block(kernel: &mut Kernel, block: &mut Vec<Stmt>) -> Outcome {
    for mut stmt in std::mem::take(block) {
        for inner in stmt.blocks_mut() {
            expand_block(kernel, inner)?;
        }
        let mut expander = Expander { kernel, lets: Vec::new(), around: Vec::new() };
        match &mut stmt {
            Stmt::While { setup, condition, .. } => {
                expander.value(condition)?;
                setup.append(&mut expander.lets);
            }
            Stmt::Reduce { reduction, value, .. } => {
                let product = value.is_product();
                expander.value(value)?;
                // A product that was none before must not be fused with the sum.
                if *reduction == Reduction::Sum && !product && value.is_product() {
                    expander.bind(value);
                }
            }
            stmt => {
                if let Some(value) = stmt.value_mut() {
                    expander.value(value)?;
                }
            }
        }
        block.append(&mut expander.lets);
        block.push(stmt);
    }
    Ok(())
}

/// A function and what is done to it, which take less together.
enum Together {
    /// `exp(x) + c` for a constant of at least 1 in size.
    ExpPlus(ScalarExpr),
    /// `exp(x)`, or zero for `x` below a constant from where on results are normal numbers.
    ExpOrZero(ScalarExpr),
    /// `erf(x) + 1` in f32.
    ErfPlusOne,
}

/// Such a pair, and its `x`.
fn together(
    function: ScalarFunction,
    dtype: DType,
    arguments: &[ScalarExpr],
) -> Option<(ScalarExpr, Together)> {
    Format::of(dtype)?;
    match function {
        ScalarFunction::Add => sum_with_constant(dtype, arguments),
        ScalarFunction::Select => exponential_or_zero(dtype, arguments),
        _ => None,
    }
}

fn exponential_or_zero(dtype: DType, arguments: &[ScalarExpr]) -> Option<(ScalarExpr, Together)> {
    use ScalarFunction::{Exp, Lt};
    let [
        ScalarExpr::Apply { function: Lt, arguments: compared, .. },
        ScalarExpr::Constant(zero),
        ScalarExpr::Apply { function: Exp, arguments: operand, .. },
    ] = arguments
    else {
        return None;
    };
    let ([x, ScalarExpr::Constant(least)], [same]) = (&compared[..], &operand[..]) else {
        return None;
    };
    let fits = x == same && *zero == Scalar::zero(dtype);
    let is_normal = exponential::is_normal_from(dtype, least.as_f64());
    let least = ScalarExpr::Constant(*least);
    (fits && is_normal).then(|| (x.clone(), Together::ExpOrZero(least)))
}

fn sum_with_constant(dtype: DType, arguments: &[ScalarExpr]) -> Option<(ScalarExpr, Together)> {
    let [one, two] = arguments else { return None };
    let of = |term: &ScalarExpr, c: &ScalarExpr| {
        let ScalarExpr::Apply { function, arguments, .. } = term else { return None };
        let ScalarExpr::Constant(constant) = c else { return None };
        let constant = constant.as_f64();
        let together = match function {
            ScalarFunction::Exp if constant.abs() >= 1.0 => Together::ExpPlus(c.clone()),
            ScalarFunction::Erf if constant == 1.0 && dtype == DType::F32 => Together::ErfPlusOne,
            _ => return None,
        };
        Some((arguments[0].clone(), together))
    };
    of(one, two).or_else(|| of(two, one))
}

/// Guards around a value: the conditions, and whether it stands where they hold or where not.
type Around = (Vec<Condition>, bool);

/// Expands the values of one statement.
struct Expander<'a> {
    kernel: &'a mut Kernel,
    /// What is to stand in front of the statement.
    lets: Vec<Stmt>,
    /// The guards around the present value, outermost first.
    around: Vec<Around>,
}

impl Expander<'_> {
    fn value(&mut self, value: &mut ScalarExpr) -> Outcome {
        match value {
            ScalarExpr::Guard { conditions, value, otherwise } => {
                self.around.push((conditions.clone(), true));
                self.value(value)?;
                self.around.pop();
                self.around.push((conditions.clone(), false));
                self.value(otherwise)?;
                self.around.pop();
                Ok(())
            }
            ScalarExpr::Apply { function, dtype, arguments } => {
                if let Some((mut x, pair)) = together(*function, *dtype, arguments) {
                    self.value(&mut x)?;
                    self.bind(&mut x);
                    let format = Format::of(*dtype);
                    let mut maths = Maths { kernel: self.kernel, lets: &mut self.lets, format };
                    *value = match pair {
                        Together::ExpPlus(c) => exponential::exp_plus(&mut maths, &x, &c),
                        Together::ExpOrZero(least) => {
                            exponential::exp_or_zero(&mut maths, &x, &least)
                        }
                        Together::ErfPlusOne => error_function::erf_plus_one(&mut maths, &x),
                    };
                    return Ok(());
                }
                arguments.iter_mut().try_for_each(|argument| self.value(argument))?;
                if function.is_machine() {
                    return Ok(());
                }
                let (function, dtype) = (*function, *dtype);
                let arguments = std::mem::take(arguments);
                *value = self.expansion(function, dtype, arguments)?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Binds a value by a `Let` that may stand in front of the guards around it.
    fn bind(&mut self, value: &mut ScalarExpr) {
        if matches!(value, ScalarExpr::Constant(_) | ScalarExpr::Symbol(_)) {
            return;
        }
        let dtype = value.dtype(self.kernel).unwrap_or(DType::F32);
        let mut guarded = std::mem::replace(value, ScalarExpr::Constant(Scalar::zero(dtype)));
        for (conditions, holds) in self.around.iter().rev() {
            let zero = ScalarExpr::Constant(Scalar::zero(dtype));
            let (then, otherwise) = if *holds { (guarded, zero) } else { (zero, guarded) };
            let (value, otherwise) = (Box::new(then), Box::new(otherwise));
            guarded = ScalarExpr::Guard { conditions: conditions.clone(), value, otherwise };
        }
        let symbol = self.kernel.add_value("x", dtype, None);
        self.lets.push(Stmt::Let { symbol, value: guarded });
        *value = ScalarExpr::Symbol(symbol);
    }

    /// The function's value as machine functions of the arguments, which are expanded already.
    fn expansion(
        &mut self,
        function: ScalarFunction,
        dtype: DType,
        mut arguments: Vec<ScalarExpr>,
    ) -> Outcome<ScalarExpr> {
        let operand = arguments[0].dtype(self.kernel).unwrap_or(dtype);
        let short = matches!(operand, DType::F16 | DType::BF16);
        for argument in &mut arguments {
            if short {
                let wide = std::mem::replace(argument, ScalarExpr::Constant(Scalar::f32(0.0)));
                *argument = loops::build::cast(DType::F32, wide);
            }
            self.bind(argument);
        }
        let working = if short { DType::F32 } else { operand };
        let format = Format::of(working);
        let mut maths = Maths { kernel: self.kernel, lets: &mut self.lets, format };
        let result = match (working.is_float(), format) {
            (true, Some(_)) => expand_float(&mut maths, function, &arguments),
            (true, None) => None,
            (false, _) => simple::integer(&mut maths, function, working, &arguments),
        };
        let Some(result) = result else {
            let message = format!("`{function}` of {operand} has no expansion");
            return Err(Refusal::in_kernel(message));
        };
        Ok(if short && dtype == operand { loops::build::cast(dtype, result) } else { result })
    }
}

/// A function of floats.
fn expand_float(
    maths: &mut Maths,
    function: ScalarFunction,
    x: &[ScalarExpr],
) -> Option<ScalarExpr> {
    use ScalarFunction as F;
    Some(match function {
        F::Reciprocal => simple::reciprocal(maths, &x[0]),
        F::Sign => simple::sign(maths, &x[0]),
        F::IsNan => simple::is_nan(maths, &x[0]),
        F::IsInf => simple::is_inf(maths, &x[0]),
        F::Rem => power::remainder(maths, &x[0], &x[1]),
        F::Mod => power::modulo(maths, &x[0], &x[1]),
        F::Pow => power::pow(maths, &x[0], &x[1]),
        F::Exp => exponential::exp(maths, &x[0]),
        F::Exp2 => exponential::exp2(maths, &x[0]),
        F::Expm1 => exponential::expm1(maths, &x[0]),
        F::Tanh => exponential::tanh(maths, &x[0]),
        F::Sinh => exponential::sinh(maths, &x[0]),
        F::Cosh => exponential::cosh(maths, &x[0]),
        F::Log => logarithm::log(maths, &x[0]),
        F::Log2 => logarithm::log2(maths, &x[0]),
        F::Log1p => logarithm::log1p(maths, &x[0]),
        F::Asinh => logarithm::asinh(maths, &x[0]),
        F::Acosh => logarithm::acosh(maths, &x[0]),
        F::Atanh => logarithm::atanh(maths, &x[0]),
        F::Erf => error_function::erf(maths, &x[0]),
        F::Sin => trigonometric::sin(maths, &x[0]),
        F::Cos => trigonometric::cos(maths, &x[0]),
        F::Tan => trigonometric::tan(maths, &x[0]),
        F::Asin => inverse_trigonometric::asin(maths, &x[0]),
        F::Acos => inverse_trigonometric::acos(maths, &x[0]),
        F::Atan => inverse_trigonometric::atan(maths, &x[0]),
        F::Atan2 => inverse_trigonometric::atan2(maths, &x[0], &x[1]),
        _ => return None,
    })
}
