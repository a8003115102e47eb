//! Derivatives of scalar functions: a line a function.
//!
//! `a` and `b` are the first operands, `r` is the result, `g` its cotangent. Functions that step
//! (`floor`, `sign`) have zero where they have a derivative at all.

use graph::{Node, ValueId};
use tensor::ScalarFunction as F;

use crate::{Pulled, Reverse};

impl Reverse<'_> {
    /// The rule of a scalar function.
    pub(crate) fn map(&mut self, function: F, node: &Node, g: ValueId) -> Pulled {
        let r = node.results[0];
        let operand = |number: usize| node.operands.get(number).copied().unwrap_or(r);
        let (a, b) = (operand(0), operand(1));
        let none = vec![None; node.operands.len()];
        let one = |value: ValueId| Ok(vec![Some(value)]);
        let two = |first: ValueId, second: ValueId| Ok(vec![Some(first), Some(second)]);
        match function {
            F::Add => two(g, g),
            F::Sub => two(g, self.neg(g)?),
            F::Mul => two(self.mul(g, b)?, self.mul(g, a)?),
            F::Div => {
                let share = self.div(g, b)?;
                let other = self.mul(share, r)?;
                two(share, self.neg(other)?)
            }
            F::Rem | F::Mod => {
                let quotient = self.div(a, b)?;
                let whole = if function == F::Rem { F::Trunc } else { F::Floor };
                let whole = self.apply(whole, &[quotient])?;
                let other = self.mul(g, whole)?;
                two(g, self.neg(other)?)
            }
            F::Pow => self.power(a, b, r, g),
            F::Min | F::Max => {
                let wins = if function == F::Min { F::Lt } else { F::Gt };
                two(self.share(wins, a, b, g)?, self.share(wins, b, a, g)?)
            }
            F::Neg => one(self.neg(g)?),
            F::Abs => {
                let sign = self.apply(F::Sign, &[a])?;
                one(self.mul(g, sign)?)
            }
            F::Sqrt => {
                let half = self.scaled(g, 0.5)?;
                one(self.div(half, r)?)
            }
            F::Reciprocal => {
                let (square, negative) = (self.mul(r, r)?, self.neg(g)?);
                one(self.mul(negative, square)?)
            }
            F::Exp => one(self.mul(g, r)?),
            F::Exp2 => {
                let scaled = self.scaled(r, std::f64::consts::LN_2)?;
                one(self.mul(g, scaled)?)
            }
            F::Expm1 => {
                let exp = self.plus(r, 1.0)?;
                one(self.mul(g, exp)?)
            }
            F::Log => one(self.div(g, a)?),
            F::Log2 => {
                let scaled = self.scaled(a, std::f64::consts::LN_2)?;
                one(self.div(g, scaled)?)
            }
            F::Log1p => {
                let above = self.plus(a, 1.0)?;
                one(self.div(g, above)?)
            }
            F::Sin => {
                let cos = self.apply(F::Cos, &[a])?;
                one(self.mul(g, cos)?)
            }
            F::Cos => {
                let sin = self.apply(F::Sin, &[a])?;
                let product = self.mul(g, sin)?;
                one(self.neg(product)?)
            }
            F::Tan => {
                let square = self.mul(r, r)?;
                let above = self.plus(square, 1.0)?;
                one(self.mul(g, above)?)
            }
            F::Asin => {
                let root = self.root_of_square(a, -1.0, 1.0)?;
                one(self.div(g, root)?)
            }
            F::Acos => {
                let root = self.root_of_square(a, -1.0, 1.0)?;
                let quotient = self.div(g, root)?;
                one(self.neg(quotient)?)
            }
            F::Atan => {
                let square = self.mul(a, a)?;
                let above = self.plus(square, 1.0)?;
                one(self.div(g, above)?)
            }
            F::Atan2 => {
                let (first, second) = (self.mul(a, a)?, self.mul(b, b)?);
                let norm = self.apply(F::Add, &[first, second])?;
                let share = self.div(g, norm)?;
                let other = self.mul(share, a)?;
                two(self.mul(share, b)?, self.neg(other)?)
            }
            F::Sinh => {
                let cosh = self.apply(F::Cosh, &[a])?;
                one(self.mul(g, cosh)?)
            }
            F::Cosh => {
                let sinh = self.apply(F::Sinh, &[a])?;
                one(self.mul(g, sinh)?)
            }
            F::Tanh => {
                let square = self.mul(r, r)?;
                let lost = self.mul(g, square)?;
                one(self.apply(F::Sub, &[g, lost])?)
            }
            F::Asinh => {
                let root = self.root_of_square(a, 1.0, 1.0)?;
                one(self.div(g, root)?)
            }
            F::Acosh => {
                let root = self.root_of_square(a, 1.0, -1.0)?;
                one(self.div(g, root)?)
            }
            F::Atanh => {
                let square = self.mul(a, a)?;
                let negative = self.neg(square)?;
                let below = self.plus(negative, 1.0)?;
                one(self.div(g, below)?)
            }
            F::Erf => {
                let square = self.mul(a, a)?;
                let negative = self.neg(square)?;
                let bell = self.apply(F::Exp, &[negative])?;
                let bell = self.scaled(bell, std::f64::consts::FRAC_2_SQRT_PI)?;
                one(self.mul(g, bell)?)
            }
            F::FusedMultiplyAdd => Ok(vec![Some(self.mul(g, b)?), Some(self.mul(g, a)?), Some(g)]),
            F::Select => {
                let zero = self.number(g, 0.0)?;
                let (first, second) =
                    (self.apply(F::Select, &[a, g, zero])?, self.apply(F::Select, &[a, zero, g])?);
                Ok(vec![None, Some(first), Some(second)])
            }
            F::Cast => {
                let dtype = self.dtype(a)?;
                one(self.builder.cast(g, dtype)?)
            }
            F::Bitcast => Err("the bits of a float cannot be differentiated".to_owned()),
            F::Sign | F::Floor | F::Ceil | F::Round | F::Trunc => Ok(none),
            // No floats, or no float result.
            F::Eq | F::Ne | F::Lt | F::Le | F::Gt | F::Ge | F::IsNan | F::IsInf => Ok(none),
            F::And | F::Or | F::Xor | F::Not | F::Shl | F::Shr => Ok(none),
            F::CountLeadingZeros | F::Popcount | F::Lookup => Ok(none),
        }
    }

    /// `a` to the power `b`. Zeros to the power 0 have 0 by `a`, and what is not positive by `b`.
    fn power(&mut self, a: ValueId, b: ValueId, r: ValueId, g: ValueId) -> Pulled {
        let zero = self.number(a, 0.0)?;
        let less = self.plus(b, -1.0)?;
        let lower = self.apply(F::Pow, &[a, less])?;
        let slope = self.mul(b, lower)?;
        let is_flat = self.apply(F::Eq, &[b, zero])?;
        let slope = self.apply(F::Select, &[is_flat, zero, slope])?;
        let log = self.apply(F::Log, &[a])?;
        let growth = self.mul(r, log)?;
        let grows = self.apply(F::Gt, &[a, zero])?;
        let growth = self.apply(F::Select, &[grows, growth, zero])?;
        Ok(vec![Some(self.mul(g, slope)?), Some(self.mul(g, growth)?)])
    }

    /// The cotangent where `a` wins over `b`, half of it where they are equal, else zero.
    fn share(&mut self, wins: F, a: ValueId, b: ValueId, g: ValueId) -> graph::Built {
        let zero = self.number(g, 0.0)?;
        let half = self.scaled(g, 0.5)?;
        let equal = self.apply(F::Eq, &[a, b])?;
        let wins = self.apply(wins, &[a, b])?;
        let tied = self.apply(F::Select, &[equal, half, zero])?;
        self.apply(F::Select, &[wins, g, tied])
    }

    /// The root of `factor * a^2 + constant`.
    fn root_of_square(&mut self, a: ValueId, factor: f64, constant: f64) -> graph::Built {
        let square = self.mul(a, a)?;
        let square = self.scaled(square, factor)?;
        let sum = self.plus(square, constant)?;
        self.apply(F::Sqrt, &[sum])
    }

    pub(crate) fn mul(&mut self, a: ValueId, b: ValueId) -> graph::Built {
        self.apply(F::Mul, &[a, b])
    }

    pub(crate) fn div(&mut self, a: ValueId, b: ValueId) -> graph::Built {
        self.apply(F::Div, &[a, b])
    }

    fn neg(&mut self, a: ValueId) -> graph::Built {
        self.apply(F::Neg, &[a])
    }

    fn scaled(&mut self, a: ValueId, factor: f64) -> graph::Built {
        let factor = self.number(a, factor)?;
        self.mul(a, factor)
    }

    fn plus(&mut self, a: ValueId, constant: f64) -> graph::Built {
        let constant = self.number(a, constant)?;
        self.apply(F::Add, &[a, constant])
    }
}
