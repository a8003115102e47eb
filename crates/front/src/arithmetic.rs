//! Shorthands for formulas: the scalar functions that operators are composed of, by name.

use graph::Op;
use tensor::{DType, ScalarFunction as F};

use crate::value::Operand;
use crate::writer::{Accepted, Graph};

/// `graph.add(&a, &b)` and its like.
macro_rules! binary {
    ($($name:ident $function:ident),*) => {$(
        #[doc = concat!("`", stringify!($name), "` of two values, broadcast.")]
        pub fn $name(&mut self, a: &Operand, b: &Operand) -> Accepted<Operand> {
            self.map(F::$function, &[a, b])
        }
    )*};
}

/// `graph.exp(&a)` and its like.
macro_rules! unary {
    ($($name:ident $function:ident),*) => {$(
        #[doc = concat!("`", stringify!($name), "` of a value.")]
        pub fn $name(&mut self, a: &Operand) -> Accepted<Operand> {
            self.map(F::$function, &[a])
        }
    )*};
}

impl Graph {
    binary!(add Add, sub Sub, mul Mul, div Div, min Min, max Max, rem Rem, less Lt, greater Gt);
    binary!(less_equal Le, greater_equal Ge, equal Eq, and And, or Or);
    unary!(exp Exp, log Log, sqrt Sqrt, tanh Tanh, abs Abs, neg Neg, floor Floor, ceil Ceil);
    unary!(round Round);

    /// `a` where the condition holds, else `b`.
    pub fn select(&mut self, condition: &Operand, a: &Operand, b: &Operand) -> Accepted<Operand> {
        self.map(F::Select, &[condition, a, b])
    }

    /// A value plus a number.
    pub fn add_number(&mut self, value: &Operand, number: f64) -> Accepted<Operand> {
        let number = self.number(value.dtype(), number);
        self.add(value, &number)
    }

    /// A value times a number.
    pub fn mul_number(&mut self, value: &Operand, number: f64) -> Accepted<Operand> {
        let number = self.number(value.dtype(), number);
        self.mul(value, &number)
    }

    /// A value, but at least a number and at most another.
    pub fn clamp(&mut self, value: &Operand, low: f64, high: f64) -> Accepted<Operand> {
        let (low, high) = (self.number(value.dtype(), low), self.number(value.dtype(), high));
        let value = self.max(value, &low)?;
        self.min(&value, &high)
    }

    /// Whole floats as integers of a type, those of the zero point for 0, the nearest where they
    /// are beyond the type. NaN is the lowest: bytes and words with a sign are those without, less
    /// half of their range, so that formats may leave that step out. Of fewer bits it is zero.
    pub fn saturated(
        &mut self,
        steps: &Operand,
        zero_point: Option<&Operand>,
        dtype: DType,
    ) -> Accepted<Operand> {
        let unsigned = match dtype {
            DType::I8 => DType::U8,
            DType::I16 => DType::U16,
            _ => dtype,
        };
        let half = self.number(unsigned, (1_u64 << (dtype.bits() - 1)) as f64);
        let mut offset = zero_point.map(|point| self.cast(point, steps.dtype())).transpose()?;
        if unsigned != dtype {
            let half = self.cast(&half, steps.dtype())?;
            offset = Some(match offset {
                Some(point) => self.add(&point, &half)?,
                None => half,
            });
        }
        let shifted = offset.map(|offset| self.add(steps, &offset)).transpose()?;
        let integer = self.cast(shifted.as_ref().unwrap_or(steps), unsigned)?;
        if unsigned == dtype {
            return Ok(integer);
        }
        let turned = self.map(F::Xor, &[&integer, &half])?;
        self.primitive(Op::Bitcast { dtype }, &[&turned])
    }

    /// A power that a few products or a reciprocal give, if the exponent is one for which they do:
    /// exponents from 1 to 4, and -1. None for types and exponents without.
    pub fn short_power(&mut self, value: &Operand, exponent: f64) -> Accepted<Option<Operand>> {
        if !value.dtype().is_float() {
            return Ok(None);
        }
        let product = |graph: &mut Graph, value: &Operand| {
            let square = graph.square(value)?;
            let other = if exponent == 3.0 { value } else { &square };
            graph.mul(&square, other)
        };
        Ok(Some(match exponent {
            1.0 => value.clone(),
            2.0 => self.square(value)?,
            3.0 | 4.0 => self.rounded_once(value, product)?,
            -1.0 => self.map(F::Reciprocal, &[value])?,
            _ => return Ok(None),
        }))
    }

    /// The square of a value.
    pub fn square(&mut self, value: &Operand) -> Accepted<Operand> {
        self.mul(value, value)
    }

    /// `1 / (1 + exp(-x))`
    pub fn sigmoid(&mut self, value: &Operand) -> Accepted<Operand> {
        let negated = self.neg(value)?;
        let exp = self.exp(&negated)?;
        let denominator = self.add_number(&exp, 1.0)?;
        self.map(F::Reciprocal, &[&denominator])
    }

    /// `log(1 + exp(x))`, as `max(x, 0) + log1p(exp(-|x|))`, which does not overflow.
    pub fn softplus(&mut self, value: &Operand) -> Accepted<Operand> {
        let magnitude = self.abs(value)?;
        let negated = self.neg(&magnitude)?;
        let exp = self.exp(&negated)?;
        let tail = self.map(F::Log1p, &[&exp])?;
        let zero = self.number(value.dtype(), 0.0);
        let head = self.max(value, &zero)?;
        self.add(&head, &tail)
    }

    /// `x tanh(log(1 + e))` for `e = exp(x)`, as `x n / (n + 2)` with `n = e (e + 2)`: one function
    /// in place of three. From 20 on the factor is 1 in any float type.
    pub fn mish(&mut self, value: &Operand) -> Accepted<Operand> {
        let most = self.number(value.dtype(), 20.0);
        let held = self.min(value, &most)?;
        let exp = self.exp(&held)?;
        let more = self.add_number(&exp, 2.0)?;
        let product = self.mul(&exp, &more)?;
        let denominator = self.add_number(&product, 2.0)?;
        let gate = self.div(&product, &denominator)?;
        self.mul(value, &gate)
    }

    /// The mean along axes, which stay with extent 1 if `keep`. Of floats the sum is rounded to
    /// their type after the division: a short type may not hold it.
    pub fn mean(&mut self, value: &Operand, axes: &[usize], keep: bool) -> Accepted<Operand> {
        let wide = if value.dtype().is_float() { self.widen(value)? } else { value.clone() };
        let sum = self.reduce_axes(&wide, axes, tensor::Reduction::Sum, keep)?;
        let count = axes.iter().map(|&axis| &value.shape()[axis]).product::<sym::Expr>();
        let count = self.dimension(count);
        let count = self.cast(&count, wide.dtype())?;
        let mean = self.div(&sum, &count)?;
        self.cast(&mean, value.dtype())
    }

    /// What a formula of several functions makes of a float: it is computed in the type in which
    /// sums of its type are formed, and rounded once.
    pub fn rounded_once(
        &mut self,
        value: &Operand,
        formula: impl FnOnce(&mut Graph, &Operand) -> Accepted<Operand>,
    ) -> Accepted<Operand> {
        let wide = self.widen(value)?;
        let result = formula(self, &wide)?;
        self.cast(&result, value.dtype())
    }

    /// A value in the type in which sums of its type are formed.
    pub fn widen(&mut self, value: &Operand) -> Accepted<Operand> {
        let wide: DType = graph::accumulator_of(value.dtype());
        self.cast(value, wide)
    }
}
