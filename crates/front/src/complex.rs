//! Complex numbers as pairs of real tensors of one shape and type.
//!
//! The graph has no complex types: a front end keeps a [`Complex`] for each value of one, and this
//! file is the one place that says what is computed of it. Functions beyond the four operations are
//! computed in f64 and rounded once, so that cancellation within a formula does not show in f32.
//!
//! Principal values and branch cuts are those of Kahan, "Branch cuts for complex elementary
//! functions" (1987).

use tensor::{DType, Scalar, ScalarFunction as F};

use crate::value::Operand;
use crate::writer::{Accepted, Graph};

/// A tensor of complex numbers.
#[derive(Clone, Debug)]
pub struct Complex {
    /// Real parts.
    pub re: Operand,
    /// Imaginary parts.
    pub im: Operand,
}

impl Complex {
    /// Both parts, changed alike: movements and linear functions.
    ///
    /// # Errors
    /// Those of the change.
    pub fn each(&self, mut change: impl FnMut(&Operand) -> Accepted<Operand>) -> Accepted<Complex> {
        Ok(Complex { re: change(&self.re)?, im: change(&self.im)? })
    }

    /// The element type of the parts.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.re.dtype()
    }
}

type Unary = fn(&mut Graph, &Complex) -> Accepted<Complex>;

/// The functions of one complex number, by the names of those of real numbers.
const FUNCTIONS: &[(F, Unary)] = &[
    (F::Exp, Graph::complex_exp),
    (F::Expm1, Graph::complex_expm1),
    (F::Log, Graph::complex_log),
    (F::Log1p, Graph::complex_log1p),
    (F::Sqrt, Graph::complex_sqrt),
    (F::Sin, Graph::complex_sin),
    (F::Cos, Graph::complex_cos),
    (F::Tan, Graph::complex_tan),
    (F::Sinh, Graph::complex_sinh),
    (F::Cosh, Graph::complex_cosh),
    (F::Tanh, Graph::complex_tanh),
    (F::Asin, Graph::complex_asin),
    (F::Acos, Graph::complex_acos),
    (F::Atan, Graph::complex_atan),
    (F::Asinh, Graph::complex_asinh),
    (F::Acosh, Graph::complex_acosh),
    (F::Atanh, Graph::complex_atanh),
    (F::Sign, Graph::complex_sign),
    (F::Reciprocal, Graph::complex_reciprocal),
];

impl Graph {
    /// A function of one complex number, that of a real number continued; none where there is none.
    ///
    /// # Errors
    /// Those of its primitives.
    pub fn complex_map(&mut self, function: F, value: &Complex) -> Accepted<Option<Complex>> {
        if function == F::Neg {
            return value.each(|part| self.neg(part)).map(Some);
        }
        let Some((_, formula)) = FUNCTIONS.iter().find(|row| row.0 == function) else {
            return Ok(None);
        };
        self.complex_rounded_once(value, *formula).map(Some)
    }

    /// What a formula makes of a complex number, computed in f64 and rounded once.
    ///
    /// # Errors
    /// Those of the formula.
    pub fn complex_rounded_once(
        &mut self,
        value: &Complex,
        formula: impl FnOnce(&mut Graph, &Complex) -> Accepted<Complex>,
    ) -> Accepted<Complex> {
        let dtype = value.dtype();
        let wide = value.each(|part| self.cast(part, DType::F64))?;
        let result = formula(self, &wide)?;
        result.each(|part| self.cast(part, dtype))
    }

    /// A sum.
    ///
    /// # Errors
    /// Shapes that do not broadcast.
    pub fn complex_add(&mut self, a: &Complex, b: &Complex) -> Accepted<Complex> {
        Ok(Complex { re: self.add(&a.re, &b.re)?, im: self.add(&a.im, &b.im)? })
    }

    /// A difference.
    ///
    /// # Errors
    /// Shapes that do not broadcast.
    pub fn complex_sub(&mut self, a: &Complex, b: &Complex) -> Accepted<Complex> {
        Ok(Complex { re: self.sub(&a.re, &b.re)?, im: self.sub(&a.im, &b.im)? })
    }

    /// A product.
    ///
    /// # Errors
    /// Shapes that do not broadcast.
    pub fn complex_mul(&mut self, a: &Complex, b: &Complex) -> Accepted<Complex> {
        self.complex_bilinear(a, b, |graph, a, b| graph.mul(a, b))
    }

    /// Real numbers as complex ones.
    ///
    /// # Errors
    /// None but of limits.
    pub fn complex_of_real(&mut self, value: &Operand) -> Accepted<Complex> {
        let im = self.full(value.shape(), Scalar::zero(value.dtype()))?;
        Ok(Complex { re: value.clone(), im })
    }

    /// The conjugate.
    ///
    /// # Errors
    /// None but of limits.
    pub fn conjugate(&mut self, value: &Complex) -> Accepted<Complex> {
        Ok(Complex { re: value.re.clone(), im: self.neg(&value.im)? })
    }

    /// A product of any kind, four of the parts.
    ///
    /// # Errors
    /// Those of the product.
    pub fn complex_bilinear(
        &mut self,
        a: &Complex,
        b: &Complex,
        product: impl Fn(&mut Graph, &Operand, &Operand) -> Accepted<Operand>,
    ) -> Accepted<Complex> {
        let (left, right) = (product(self, &a.re, &b.re)?, product(self, &a.im, &b.im)?);
        let re = self.sub(&left, &right)?;
        let (left, right) = (product(self, &a.re, &b.im)?, product(self, &a.im, &b.re)?);
        Ok(Complex { re, im: self.add(&left, &right)? })
    }

    /// A quotient, formed in f64: the squares of f32 are in its range.
    ///
    /// # Errors
    /// Shapes that do not broadcast.
    pub fn complex_div(&mut self, a: &Complex, b: &Complex) -> Accepted<Complex> {
        let dtype = a.dtype();
        let a = a.each(|part| self.cast(part, DType::F64))?;
        let b = b.each(|part| self.cast(part, DType::F64))?;
        // Scaled by the larger part of the divisor, so that its square is in range.
        let (re, im) = (self.abs(&b.re)?, self.abs(&b.im)?);
        let scale = self.max(&re, &im)?;
        let zero = self.number(DType::F64, 0.0);
        let (one, most) = (self.number(DType::F64, 1.0), self.number(DType::F64, f64::MAX));
        let is_positive = self.greater(&scale, &zero)?;
        let is_finite = self.less_equal(&scale, &most)?;
        let is_plain = self.and(&is_positive, &is_finite)?;
        let scale = self.select(&is_plain, &scale, &one)?;
        let b = b.each(|part| self.div(part, &scale))?;
        let conjugate = Complex { re: b.re.clone(), im: self.neg(&b.im)? };
        let product = self.complex_mul(&a, &conjugate)?;
        let (re, im) = (self.square(&b.re)?, self.square(&b.im)?);
        let square = self.add(&re, &im)?;
        product.each(|part| {
            let part = self.div(part, &square)?;
            let part = self.div(&part, &scale)?;
            self.cast(&part, dtype)
        })
    }

    /// The magnitude, which is real.
    ///
    /// # Errors
    /// None but of limits.
    pub fn complex_abs(&mut self, value: &Complex) -> Accepted<Operand> {
        let dtype = value.dtype();
        let wide = value.each(|part| self.cast(part, DType::F64))?;
        let magnitude = self.hypotenuse(&wide.re, &wide.im)?;
        self.cast(&magnitude, dtype)
    }

    /// `sqrt(a^2 + b^2)` without squares that overflow; infinite where either is.
    fn hypotenuse(&mut self, a: &Operand, b: &Operand) -> Accepted<Operand> {
        let (a, b) = (self.abs(a)?, self.abs(b)?);
        let (large, small) = (self.max(&a, &b)?, self.min(&a, &b)?);
        let ratio = self.div(&small, &large)?;
        let square = self.square(&ratio)?;
        let sum = self.add_number(&square, 1.0)?;
        let root = self.sqrt(&sum)?;
        let product = self.mul(&large, &root)?;
        let zero = self.number(a.dtype(), 0.0);
        let infinity = self.number(a.dtype(), f64::INFINITY);
        let is_zero = self.equal(&large, &zero)?;
        let product = self.select(&is_zero, &zero, &product)?;
        let (first, second) = (self.equal(&a, &infinity)?, self.equal(&b, &infinity)?);
        let is_infinite = self.or(&first, &second)?;
        self.select(&is_infinite, &infinity, &product)
    }

    fn complex_number(&self, value: &Complex, number: f64) -> Complex {
        let (re, im) = (self.number(value.dtype(), number), self.number(value.dtype(), 0.0));
        Complex { re, im }
    }

    fn complex_reciprocal(&mut self, value: &Complex) -> Accepted<Complex> {
        let one = self.complex_number(value, 1.0);
        self.complex_div(&one, value)
    }

    fn complex_sign(&mut self, value: &Complex) -> Accepted<Complex> {
        let magnitude = self.hypotenuse(&value.re, &value.im)?;
        let zero = self.number(value.dtype(), 0.0);
        let is_zero = self.equal(&magnitude, &zero)?;
        value.each(|part| {
            let quotient = self.div(part, &magnitude)?;
            self.select(&is_zero, part, &quotient)
        })
    }

    fn complex_exp(&mut self, value: &Complex) -> Accepted<Complex> {
        let exp = self.exp(&value.re)?;
        let (cos, sin) = (self.map(F::Cos, &[&value.im])?, self.map(F::Sin, &[&value.im])?);
        // The exponential of a real number is real, be it infinite.
        let zero = self.number(value.dtype(), 0.0);
        let is_real = self.equal(&value.im, &zero)?;
        let im = self.mul(&exp, &sin)?;
        Ok(Complex { re: self.mul(&exp, &cos)?, im: self.select(&is_real, &value.im, &im)? })
    }

    /// `expm1(x) cos(y) - 2 sin(y / 2)^2 + i exp(x) sin(y)`
    fn complex_expm1(&mut self, value: &Complex) -> Accepted<Complex> {
        let less = self.map(F::Expm1, &[&value.re])?;
        let cos = self.map(F::Cos, &[&value.im])?;
        let half = self.mul_number(&value.im, 0.5)?;
        let half = self.map(F::Sin, &[&half])?;
        let half = self.square(&half)?;
        let half = self.mul_number(&half, 2.0)?;
        let product = self.mul(&less, &cos)?;
        let re = self.sub(&product, &half)?;
        Ok(Complex { re, im: self.complex_exp(value)?.im })
    }

    fn complex_log(&mut self, value: &Complex) -> Accepted<Complex> {
        // Near 1 the logarithm of the magnitude is that of 1 plus what the squares differ by.
        let less = self.add_number(&value.re, -1.0)?;
        self.log_beside_one(&less, value)
    }

    fn complex_log1p(&mut self, value: &Complex) -> Accepted<Complex> {
        let re = self.add_number(&value.re, 1.0)?;
        self.log_beside_one(&value.re.clone(), &Complex { re, im: value.im.clone() })
    }

    /// The logarithm of a number of which the real part less 1 is `less`.
    fn log_beside_one(&mut self, less: &Operand, value: &Complex) -> Accepted<Complex> {
        let magnitude = self.hypotenuse(&value.re, &value.im)?;
        let far = self.log(&magnitude)?;
        // |z|^2 - 1 = less * (less + 2) + im^2
        let more = self.add_number(less, 2.0)?;
        let product = self.mul(less, &more)?;
        let square = self.square(&value.im)?;
        let difference = self.add(&product, &square)?;
        let near = self.map(F::Log1p, &[&difference])?;
        let near = self.mul_number(&near, 0.5)?;
        let (low, high) = (self.number(less.dtype(), 0.5), self.number(less.dtype(), 2.0));
        let (above, below) = (self.greater(&magnitude, &low)?, self.less(&magnitude, &high)?);
        let is_near = self.and(&above, &below)?;
        let re = self.select(&is_near, &near, &far)?;
        Ok(Complex { re, im: self.map(F::Atan2, &[&value.im, &value.re])? })
    }

    fn complex_sqrt(&mut self, value: &Complex) -> Accepted<Complex> {
        let magnitude = self.hypotenuse(&value.re, &value.im)?;
        let absolute = self.abs(&value.re)?;
        let sum = self.add(&magnitude, &absolute)?;
        let half = self.mul_number(&sum, 0.5)?;
        let root = self.sqrt(&half)?;
        let zero = self.number(value.dtype(), 0.0);
        let is_zero = self.equal(&magnitude, &zero)?;
        let twice = self.mul_number(&root, 2.0)?;
        let other = self.div(&value.im, &twice)?;
        let other = self.select(&is_zero, &value.im, &other)?;
        let is_left = self.less(&value.re, &zero)?;
        let size = self.abs(&other)?;
        let re = self.select(&is_left, &size, &root)?;
        let signed = self.copy_sign(&root, &value.im)?;
        let im = self.select(&is_left, &signed, &other)?;
        // An infinite imaginary part makes the real one infinite.
        let (infinity, size) = (self.number(value.dtype(), f64::INFINITY), self.abs(&value.im)?);
        let is_infinite = self.equal(&size, &infinity)?;
        Ok(Complex {
            re: self.select(&is_infinite, &infinity, &re)?,
            im: self.select(&is_infinite, &value.im, &im)?,
        })
    }

    /// A magnitude with the sign of another value, zeros included.
    ///
    /// # Errors
    /// Types that are not the same float type of 16, 32 or 64 bits.
    pub fn copy_sign(&mut self, magnitude: &Operand, sign: &Operand) -> Accepted<Operand> {
        let zero = self.number(sign.dtype(), 0.0);
        let one = self.number(sign.dtype(), 1.0);
        // A zero has the sign of its reciprocal.
        let reciprocal = self.div(&one, sign)?;
        let is_zero = self.equal(sign, &zero)?;
        let signed = self.select(&is_zero, &reciprocal, sign)?;
        let is_negative = self.less(&signed, &zero)?;
        let magnitude = self.abs(magnitude)?;
        let negated = self.neg(&magnitude)?;
        self.select(&is_negative, &negated, &magnitude)
    }

    /// `i z`
    fn turned(&mut self, value: &Complex) -> Accepted<Complex> {
        Ok(Complex { re: self.neg(&value.im)?, im: value.re.clone() })
    }

    /// `-i z`
    fn turned_back(&mut self, value: &Complex) -> Accepted<Complex> {
        Ok(Complex { re: value.im.clone(), im: self.neg(&value.re)? })
    }

    fn complex_sinh(&mut self, value: &Complex) -> Accepted<Complex> {
        let (sinh, cosh) = (self.map(F::Sinh, &[&value.re])?, self.map(F::Cosh, &[&value.re])?);
        let (sin, cos) = (self.map(F::Sin, &[&value.im])?, self.map(F::Cos, &[&value.im])?);
        Ok(Complex { re: self.mul(&sinh, &cos)?, im: self.mul(&cosh, &sin)? })
    }

    fn complex_cosh(&mut self, value: &Complex) -> Accepted<Complex> {
        let (sinh, cosh) = (self.map(F::Sinh, &[&value.re])?, self.map(F::Cosh, &[&value.re])?);
        let (sin, cos) = (self.map(F::Sin, &[&value.im])?, self.map(F::Cos, &[&value.im])?);
        Ok(Complex { re: self.mul(&cosh, &cos)?, im: self.mul(&sinh, &sin)? })
    }

    fn complex_sin(&mut self, value: &Complex) -> Accepted<Complex> {
        let turned = self.turned(value)?;
        let sinh = self.complex_sinh(&turned)?;
        self.turned_back(&sinh)
    }

    fn complex_cos(&mut self, value: &Complex) -> Accepted<Complex> {
        let turned = self.turned(value)?;
        self.complex_cosh(&turned)
    }

    fn complex_tan(&mut self, value: &Complex) -> Accepted<Complex> {
        let turned = self.turned(value)?;
        let tanh = self.complex_tanh(&turned)?;
        self.turned_back(&tanh)
    }

    /// Kahan's formula: with `t = tan y`, `s = sinh x`, `b = 1 + t^2`, `r = sqrt(1 + s^2)` it is
    /// `(b r s + i t) / (1 + b s^2)`; where `x` is large, 1 with the sign of `x`.
    fn complex_tanh(&mut self, value: &Complex) -> Accepted<Complex> {
        let tangent = self.map(F::Tan, &[&value.im])?;
        let sinh = self.map(F::Sinh, &[&value.re])?;
        let square = self.square(&tangent)?;
        let beta = self.add_number(&square, 1.0)?;
        let square = self.square(&sinh)?;
        let above = self.add_number(&square, 1.0)?;
        let rho = self.sqrt(&above)?;
        let product = self.mul(&beta, &square)?;
        let denominator = self.add_number(&product, 1.0)?;
        let product = self.mul(&beta, &rho)?;
        let product = self.mul(&product, &sinh)?;
        let re = self.div(&product, &denominator)?;
        let im = self.div(&tangent, &denominator)?;
        let size = self.abs(&value.re)?;
        let bound = self.number(value.dtype(), 300.0);
        let is_large = self.greater(&size, &bound)?;
        let one = self.number(value.dtype(), 1.0);
        let limit = self.copy_sign(&one, &value.re)?;
        let zero = self.number(value.dtype(), 0.0);
        let vanishing = self.copy_sign(&zero, &tangent)?;
        Ok(Complex {
            re: self.select(&is_large, &limit, &re)?,
            im: self.select(&is_large, &vanishing, &im)?,
        })
    }

    /// `sqrt(1 - z)` and `sqrt(1 + z)`
    fn roots_beside_one(&mut self, value: &Complex) -> Accepted<(Complex, Complex)> {
        let one = self.number(value.dtype(), 1.0);
        let (minus, plus) = (self.sub(&one, &value.re)?, self.add(&one, &value.re)?);
        let negated = self.neg(&value.im)?;
        let minus = self.complex_sqrt(&Complex { re: minus, im: negated })?;
        let plus = self.complex_sqrt(&Complex { re: plus, im: value.im.clone() })?;
        Ok((minus, plus))
    }

    fn complex_asin(&mut self, value: &Complex) -> Accepted<Complex> {
        let (minus, plus) = self.roots_beside_one(value)?;
        // re(sqrt(1 - z) * sqrt(1 + z)), im(conj(sqrt(1 - z)) * sqrt(1 + z))
        let (left, right) = (self.mul(&minus.re, &plus.re)?, self.mul(&minus.im, &plus.im)?);
        let re = self.sub(&left, &right)?;
        let re = self.map(F::Atan2, &[&value.re, &re])?;
        let (left, right) = (self.mul(&minus.re, &plus.im)?, self.mul(&minus.im, &plus.re)?);
        let im = self.sub(&left, &right)?;
        Ok(Complex { re, im: self.map(F::Asinh, &[&im])? })
    }

    fn complex_acos(&mut self, value: &Complex) -> Accepted<Complex> {
        let (minus, plus) = self.roots_beside_one(value)?;
        let re = self.map(F::Atan2, &[&minus.re, &plus.re])?;
        let re = self.mul_number(&re, 2.0)?;
        // im(conj(sqrt(1 + z)) * sqrt(1 - z))
        let (left, right) = (self.mul(&plus.re, &minus.im)?, self.mul(&plus.im, &minus.re)?);
        let im = self.sub(&left, &right)?;
        Ok(Complex { re, im: self.map(F::Asinh, &[&im])? })
    }

    fn complex_acosh(&mut self, value: &Complex) -> Accepted<Complex> {
        let (less, more) = (self.add_number(&value.re, -1.0)?, self.add_number(&value.re, 1.0)?);
        let minus = self.complex_sqrt(&Complex { re: less, im: value.im.clone() })?;
        let plus = self.complex_sqrt(&Complex { re: more, im: value.im.clone() })?;
        // re(conj(sqrt(z - 1)) * sqrt(z + 1))
        let (left, right) = (self.mul(&minus.re, &plus.re)?, self.mul(&minus.im, &plus.im)?);
        let re = self.add(&left, &right)?;
        let im = self.map(F::Atan2, &[&minus.im, &plus.re])?;
        Ok(Complex { re: self.map(F::Asinh, &[&re])?, im: self.mul_number(&im, 2.0)? })
    }

    fn complex_asinh(&mut self, value: &Complex) -> Accepted<Complex> {
        let turned = self.turned(value)?;
        let asin = self.complex_asin(&turned)?;
        self.turned_back(&asin)
    }

    fn complex_atan(&mut self, value: &Complex) -> Accepted<Complex> {
        let turned = self.turned(value)?;
        let atanh = self.complex_atanh(&turned)?;
        self.turned_back(&atanh)
    }

    /// `1/4 log1p(4 x / ((1 - x)^2 + y^2)) + i/2 atan2(2 y, (1 - x) (1 + x) - y^2)`
    fn complex_atanh(&mut self, value: &Complex) -> Accepted<Complex> {
        let one = self.number(value.dtype(), 1.0);
        let (minus, plus) = (self.sub(&one, &value.re)?, self.add(&one, &value.re)?);
        let square = self.square(&value.im)?;
        // The sign is taken out, so that the argument of log1p is positive.
        let size = self.abs(&value.re)?;
        let beside = self.sub(&one, &size)?;
        let near = self.square(&beside)?;
        let near = self.add(&near, &square)?;
        let four = self.mul_number(&size, 4.0)?;
        let quotient = self.div(&four, &near)?;
        let re = self.map(F::Log1p, &[&quotient])?;
        let re = self.mul_number(&re, 0.25)?;
        let re = self.copy_sign(&re, &value.re)?;
        let twice = self.mul_number(&value.im, 2.0)?;
        let product = self.mul(&minus, &plus)?;
        let difference = self.sub(&product, &square)?;
        let im = self.map(F::Atan2, &[&twice, &difference])?;
        Ok(Complex { re, im: self.mul_number(&im, 0.5)? })
    }

    /// `atan2(a, b)`, continued: `-i log((b + i a) / sqrt(a^2 + b^2))`.
    ///
    /// # Errors
    /// Shapes that do not broadcast.
    pub fn complex_atan2(&mut self, a: &Complex, b: &Complex) -> Accepted<Complex> {
        let dtype = a.dtype();
        let a = a.each(|part| self.cast(part, DType::F64))?;
        let b = b.each(|part| self.cast(part, DType::F64))?;
        let turned = self.turned(&a)?;
        let sum = self.complex_add(&b, &turned)?;
        let (left, right) = (self.complex_mul(&a, &a)?, self.complex_mul(&b, &b)?);
        let square = self.complex_add(&left, &right)?;
        let root = self.complex_sqrt(&square)?;
        let quotient = self.complex_div(&sum, &root)?;
        let log = self.complex_log(&quotient)?;
        let angle = self.turned_back(&log)?;
        angle.each(|part| self.cast(part, dtype))
    }

    /// `a^b`, as `exp(b log a)`; `0^b` is 0, but `0^0` is 1.
    ///
    /// # Errors
    /// Shapes that do not broadcast.
    pub fn complex_power(&mut self, a: &Complex, b: &Complex) -> Accepted<Complex> {
        let dtype = a.dtype();
        let wide_b = b.each(|part| self.cast(part, DType::F64))?;
        let wide_a = a.each(|part| self.cast(part, DType::F64))?;
        let log = self.complex_log(&wide_a)?;
        let product = self.complex_mul(&wide_b, &log)?;
        let power = self.complex_exp(&product)?;
        let zero = self.number(DType::F64, 0.0);
        let is_zero = |graph: &mut Graph, value: &Complex| {
            let re = graph.equal(&value.re, &zero)?;
            let im = graph.equal(&value.im, &zero)?;
            graph.and(&re, &im)
        };
        let (base, exponent) = (is_zero(self, &wide_a)?, is_zero(self, &wide_b)?);
        let one = self.number(DType::F64, 1.0);
        let unit = self.select(&exponent, &one, &zero)?;
        let re = self.select(&base, &unit, &power.re)?;
        let im = self.select(&base, &zero, &power.im)?;
        Complex { re, im }.each(|part| self.cast(part, dtype))
    }
}
