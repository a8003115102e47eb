//! A value of a trace, and what can be done with one.
//!
//! Elementwise operations of two values broadcast their shapes as NumPy does.

use graph::{Built, FunctionBuilder, IterationSpace, Type, ValueId, accumulator_of};
use sym::Expr;
use tensor::{DType, Reduction, Scalar, ScalarFunction as F, Tensor};

use crate::recording::Recording;

/// A tensor of a trace: its element type and shape are known, its elements when the function runs.
/// A clone is the same value.
#[derive(Clone)]
pub struct TracedValue {
    pub(crate) recording: Recording,
    pub(crate) id: ValueId,
    /// The number of the region that it is of.
    pub(crate) region: u32,
}

/// Prints the type.
impl std::fmt::Debug for TracedValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.recording.type_text(self))
    }
}

fn exprs(shape: &[usize]) -> Vec<Expr> {
    shape.iter().map(|&extent| Expr::from(extent)).collect()
}

/// Places in the type that indices have.
fn as_places(builder: &mut FunctionBuilder, places: ValueId) -> Built {
    match builder.dtype(places)?.is_integer() {
        true => builder.cast(places, DType::I64),
        false => Err("places are integers".to_owned()),
    }
}

impl TracedValue {
    // --- what is known of it ---

    pub(crate) fn ty(&self) -> Option<Type> {
        Some(self.recording.builder().function().values.get(self.id)?.ty.clone())
    }

    /// The extents of its axes; none of a value of a trace that has ended.
    #[must_use]
    pub fn shape(&self) -> Vec<usize> {
        let ty = self.ty();
        let extent = |extent: &Expr| extent.as_constant().unwrap_or(0) as usize;
        ty.map_or_else(Vec::new, |ty| ty.exprs().iter().map(extent).collect())
    }

    /// The type of its elements; `bool` of a value of a trace that has ended.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.ty().and_then(|ty| ty.as_tensor().map(|ty| ty.dtype)).unwrap_or(DType::Bool)
    }

    /// The value under a name that a result of the function takes.
    #[must_use]
    pub fn named(self, name: &str) -> TracedValue {
        if self.ty().is_some() {
            self.recording.builder().set_name(self.id, name);
        }
        self
    }

    // --- values beside it ---

    #[track_caller]
    pub(crate) fn make(
        &self,
        operation: &str,
        operands: &[&TracedValue],
        make: impl FnOnce(&mut FunctionBuilder, &[ValueId]) -> Built,
    ) -> TracedValue {
        let operands: Vec<TracedValue> = operands.iter().map(|&operand| operand.clone()).collect();
        let made = self
            .recording
            .add_all(operation, &operands, |builder, ids| Ok(vec![make(builder, ids)?]));
        made.and_then(|mut made| made.pop()).unwrap_or_else(|| self.clone())
    }

    /// A constant in the same trace.
    #[must_use]
    #[track_caller]
    pub fn constant(&self, tensor: &Tensor) -> TracedValue {
        match self.recording.constant(tensor) {
            Ok(id) => self.recording.value(id),
            Err(_) => self.clone(),
        }
    }

    /// A number of the same element type, without axes.
    #[must_use]
    #[track_caller]
    pub fn number(&self, number: f64) -> TracedValue {
        let dtype = self.dtype();
        self.make("number", &[], |builder, _| Ok(builder.scalar(dtype, number)))
    }

    /// The number throughout a shape, of the same element type.
    #[must_use]
    #[track_caller]
    pub fn full(&self, shape: &[usize], number: f64) -> TracedValue {
        let number = Scalar::from_f64(self.dtype(), number);
        self.make("full", &[], |builder, _| builder.full(&exprs(shape), number))
    }

    /// 0, 1, 2 and so on along an axis of a shape, of the same element type.
    #[must_use]
    #[track_caller]
    pub fn iota(&self, shape: &[usize], axis: usize) -> TracedValue {
        let dtype = self.dtype();
        self.make("iota", &[], |builder, _| builder.iota(dtype, &exprs(shape), axis))
    }

    /// The unit matrix of this extent, of the same element type.
    #[must_use]
    #[track_caller]
    pub fn identity(&self, extent: usize) -> TracedValue {
        let shape = [extent, extent];
        self.iota(&shape, 0).equal(&self.iota(&shape, 1)).cast(self.dtype())
    }

    // --- elementwise ---

    #[track_caller]
    pub(crate) fn map(&self, name: &str, function: F) -> TracedValue {
        self.make(name, &[self], |builder, ids| builder.map(function, ids))
    }

    #[track_caller]
    pub(crate) fn map_with(&self, name: &str, function: F, other: &TracedValue) -> TracedValue {
        self.make(name, &[self, other], |builder, ids| builder.map_broadcast(function, ids))
    }

    /// To the power of another value.
    #[must_use]
    #[track_caller]
    pub fn power(&self, exponent: &TracedValue) -> TracedValue {
        self.map_with("power", F::Pow, exponent)
    }

    /// To the power of a number; a product where it is 2.
    #[must_use]
    #[track_caller]
    pub fn powf(&self, exponent: f64) -> TracedValue {
        match exponent == 2.0 {
            true => self.map_with("multiply", F::Mul, self),
            false => self.map_with("power", F::Pow, &self.number(exponent)),
        }
    }

    /// `1 / (1 + exp(-self))`.
    #[must_use]
    #[track_caller]
    pub fn sigmoid(&self) -> TracedValue {
        ((self * 0.5).tanh() + 1.0) * 0.5
    }

    /// What is not negative, else 0.
    #[must_use]
    #[track_caller]
    pub fn relu(&self) -> TracedValue {
        self.greater(&self.number(0.0)).select(self, &self.number(0.0))
    }

    /// Where this boolean holds the first value, else the second.
    #[must_use]
    #[track_caller]
    pub fn select(&self, then: &TracedValue, other: &TracedValue) -> TracedValue {
        let made =
            |builder: &mut FunctionBuilder, ids: &[ValueId]| builder.map_broadcast(F::Select, ids);
        then.make("select", &[self, then, other], made)
    }

    /// The elements in another type.
    #[must_use]
    #[track_caller]
    pub fn cast(&self, dtype: DType) -> TracedValue {
        self.make("cast", &[self], |builder, ids| builder.cast(ids[0], dtype))
    }

    // --- movement ---

    /// The same elements under another shape, of as many.
    #[must_use]
    #[track_caller]
    pub fn reshape(&self, shape: &[usize]) -> TracedValue {
        self.make("reshape", &[self], |builder, ids| builder.reshape(ids[0], exprs(shape)))
    }

    /// Axis `k` of the result is axis `permutation[k]`.
    #[must_use]
    #[track_caller]
    pub fn transpose(&self, permutation: &[usize]) -> TracedValue {
        self.make("transpose", &[self], |builder, ids| builder.transpose(ids[0], permutation))
    }

    /// Repeated to a shape as NumPy does.
    #[must_use]
    #[track_caller]
    pub fn broadcast_to(&self, shape: &[usize]) -> TracedValue {
        self.make("broadcast_to", &[self], |builder, ids| {
            builder.broadcast_to(ids[0], exprs(shape))
        })
    }

    /// The elements of these places along an axis.
    #[must_use]
    #[track_caller]
    pub fn slice(&self, axis: usize, places: std::ops::Range<usize>) -> TracedValue {
        let extent = places.end.saturating_sub(places.start);
        self.make("slice", &[self], |builder, ids| {
            builder.slice_axis(ids[0], axis, places.start.into(), 1, extent.into())
        })
    }

    /// What is at one place along an axis, which disappears.
    #[must_use]
    #[track_caller]
    pub fn at(&self, axis: usize, place: usize) -> TracedValue {
        let mut shape = self.shape();
        let slice = self.slice(axis, place..place + 1);
        if axis < shape.len() {
            shape.remove(axis);
        }
        slice.reshape(&shape)
    }

    /// Surrounded by zeros: so many before and behind along each axis.
    #[must_use]
    #[track_caller]
    pub fn pad(&self, low: &[usize], high: &[usize]) -> TracedValue {
        let dtype = self.dtype();
        self.make("pad", &[self], |builder, ids| {
            let zero = builder.scalar(dtype, 0.0);
            builder.pad(ids[0], zero, &exprs(low), &exprs(high), &vec![0; low.len()])
        })
    }

    /// Values behind each other along an axis; this one is the first.
    #[must_use]
    #[track_caller]
    pub fn concat(&self, axis: usize, others: &[TracedValue]) -> TracedValue {
        let all: Vec<&TracedValue> = std::iter::once(self).chain(others).collect();
        self.make("concat", &all, |builder, ids| builder.concat(axis, ids))
    }

    /// The rows (of axis 0) that an integer value names. A place outside is a fault of the run.
    #[must_use]
    #[track_caller]
    pub fn take(&self, places: &TracedValue) -> TracedValue {
        self.make("take", &[self, places], |builder, ids| {
            let places = as_places(builder, ids[1])?;
            builder.gather(ids[0], &[0], &[places], 0, 0)
        })
    }

    /// The value with other rows at these places of axis 0: `places` names one, or several whose
    /// rows lie along the first axis of `rows`. A place outside is a fault of the run.
    #[must_use]
    #[track_caller]
    pub fn with_rows(&self, places: &TracedValue, rows: &TracedValue) -> TracedValue {
        self.make("with_rows", &[self, places, rows], |builder, ids| {
            let places = as_places(builder, ids[1])?;
            builder.scatter(ids[0], ids[2], &[0], &[places], 0, 0, None)
        })
    }

    /// Rows of zeros but for a one at the place that each integer names; of this element type.
    #[must_use]
    #[track_caller]
    pub fn one_hot(&self, classes: usize, dtype: DType) -> TracedValue {
        let shape = self.shape();
        let column = self.reshape(&[&shape[..], &[1]].concat());
        column.equal(&self.iota(&[classes], 0)).cast(dtype)
    }

    /// Sorted along an axis, the least first.
    #[must_use]
    #[track_caller]
    pub fn sort(&self, axis: usize) -> TracedValue {
        self.make("sort", &[self], |builder, ids| Ok(builder.sort(ids[0], axis, false, None)?.0))
    }

    // --- sums and products along axes ---

    #[track_caller]
    fn reduce(&self, name: &str, axes: &[usize], reduction: Reduction) -> TracedValue {
        let dtype = self.dtype();
        let mut axes = axes.to_vec();
        axes.sort_unstable();
        self.make(name, &[self], |builder, ids| {
            let wide = match reduction {
                Reduction::Sum | Reduction::Product => accumulator_of(dtype),
                _ => dtype,
            };
            let reduced = builder.reduce_axes(ids[0], &axes, reduction, wide, false)?;
            builder.cast(reduced, dtype)
        })
    }

    /// The sum of all elements.
    #[must_use]
    #[track_caller]
    pub fn sum(&self) -> TracedValue {
        let axes: Vec<usize> = (0..self.shape().len()).collect();
        self.reduce("sum", &axes, Reduction::Sum)
    }

    /// The sum along axes, which disappear.
    #[must_use]
    #[track_caller]
    pub fn sum_axes(&self, axes: &[usize]) -> TracedValue {
        self.reduce("sum_axes", axes, Reduction::Sum)
    }

    /// The product along axes, which disappear.
    #[must_use]
    #[track_caller]
    pub fn product_axes(&self, axes: &[usize]) -> TracedValue {
        self.reduce("product_axes", axes, Reduction::Product)
    }

    /// The greatest element along axes, which disappear.
    #[must_use]
    #[track_caller]
    pub fn max_axes(&self, axes: &[usize]) -> TracedValue {
        self.reduce("max_axes", axes, Reduction::Max)
    }

    /// The least element along axes, which disappear.
    #[must_use]
    #[track_caller]
    pub fn min_axes(&self, axes: &[usize]) -> TracedValue {
        self.reduce("min_axes", axes, Reduction::Min)
    }

    /// The mean of all elements.
    #[must_use]
    #[track_caller]
    pub fn mean(&self) -> TracedValue {
        let count: usize = self.shape().iter().product();
        self.sum() / count as f64
    }

    /// The mean along axes, which disappear.
    #[must_use]
    #[track_caller]
    pub fn mean_axes(&self, axes: &[usize]) -> TracedValue {
        let shape = self.shape();
        let count: usize = axes.iter().filter_map(|&axis| shape.get(axis)).product();
        self.sum_axes(axes) / count as f64
    }

    /// The running sum along an axis.
    #[must_use]
    #[track_caller]
    pub fn running_sum(&self, axis: usize) -> TracedValue {
        self.make("running_sum", &[self], |builder, ids| {
            builder.cumulate(ids[0], axis, Reduction::Sum, false, false)
        })
    }

    /// The place (i64) of the greatest element along an axis, which disappears.
    #[must_use]
    #[track_caller]
    pub fn argmax(&self, axis: usize) -> TracedValue {
        self.make("argmax", &[self], |builder, ids| builder.arg_reduce(ids[0], axis, true, false))
    }

    /// The matrix product as NumPy's `matmul`.
    #[must_use]
    #[track_caller]
    pub fn matmul(&self, other: &TracedValue) -> TracedValue {
        self.make("matmul", &[self, other], |builder, ids| builder.matmul(ids[0], ids[1]))
    }

    /// The logarithms of shares along the last axis: `self - log(sum(exp(self)))`.
    #[must_use]
    #[track_caller]
    pub fn log_softmax(&self) -> TracedValue {
        let shape = self.shape();
        let Some(last) = shape.len().checked_sub(1) else { return self.number(0.0) };
        let mut column = shape;
        column[last] = 1;
        let shifted = self - self.max_axes(&[last]).reshape(&column);
        let sum = shifted.exp().sum_axes(&[last]).reshape(&column);
        shifted - sum.log()
    }

    /// Shares along the last axis, which sum to 1.
    #[must_use]
    #[track_caller]
    pub fn softmax(&self) -> TracedValue {
        self.log_softmax().exp()
    }

    /// The convolution of pictures `[batch, channels, rows, columns]`, surrounded by `padding`
    /// zeros, with windows `[results, channels, rows, columns]`, moved by one.
    #[must_use]
    #[track_caller]
    pub fn convolve(&self, windows: &TracedValue, padding: usize) -> TracedValue {
        let around = [0, 0, padding, padding];
        let padded = if padding == 0 { self.clone() } else { self.pad(&around, &around) };
        let dtype = self.dtype();
        self.make("convolve", &[&padded, windows], |builder, ids| {
            let (own, windows) = (builder.shape(ids[0])?, builder.shape(ids[1])?);
            if own.len() != 4 || windows.len() != 4 || own[1] != windows[1] {
                return Err("pictures and windows have four axes, and as many channels".to_owned());
            }
            let axis = IterationSpace::axis;
            let moved = |number: usize| &own[number] - &windows[number] + 1;
            let space = IterationSpace {
                extents: vec![
                    own[0].clone(),
                    windows[0].clone(),
                    moved(2),
                    moved(3),
                    own[1].clone(),
                    windows[2].clone(),
                    windows[3].clone(),
                ],
                parallel: 4,
                operands: vec![
                    vec![axis(0), axis(4), axis(2) + axis(5), axis(3) + axis(6)],
                    vec![axis(1), axis(4), axis(5), axis(6)],
                ],
            };
            builder.contract(space, ids[0], ids[1], accumulator_of(dtype), dtype)
        })
    }

    /// The greatest element of each square of `extent` by `extent` of pictures `[batch, channels,
    /// rows, columns]`; what does not fill a square is left out.
    #[must_use]
    #[track_caller]
    pub fn max_pool(&self, extent: usize) -> TracedValue {
        let shape = self.shape();
        let [batch, channels, rows, columns] = shape[..] else {
            return self.make(
                "max_pool",
                &[self],
                |_, _| Err("pictures have four axes".to_owned()),
            );
        };
        let extent = extent.max(1);
        let (high, wide) = (rows / extent, columns / extent);
        let cut = self.slice(2, 0..high * extent).slice(3, 0..wide * extent);
        cut.reshape(&[batch, channels, high, extent, wide, extent]).max_axes(&[3, 5])
    }
}

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident $function:expr;)*) => {
        impl TracedValue {
            $(
                $(#[$doc])*
                #[must_use]
                #[track_caller]
                pub fn $name(&self) -> TracedValue {
                    self.map(stringify!($name), $function)
                }
            )*
        }
    };
}

functions! {
    /// The absolute value.
    abs F::Abs;
    /// -1, 0 or 1.
    sign F::Sign;
    /// The square root.
    sqrt F::Sqrt;
    /// e to the power of it.
    exp F::Exp;
    /// `exp(self) - 1`, accurate near zero.
    expm1 F::Expm1;
    /// The natural logarithm.
    log F::Log;
    /// `log(1 + self)`, accurate near zero.
    log1p F::Log1p;
    /// The sine of an angle in radians.
    sin F::Sin;
    /// The cosine of an angle in radians.
    cos F::Cos;
    /// The tangent of an angle in radians.
    tan F::Tan;
    /// The arc sine in radians.
    asin F::Asin;
    /// The arc cosine in radians.
    acos F::Acos;
    /// The arc tangent in radians.
    atan F::Atan;
    /// The hyperbolic sine.
    sinh F::Sinh;
    /// The hyperbolic cosine.
    cosh F::Cosh;
    /// The hyperbolic tangent.
    tanh F::Tanh;
    /// The error function.
    erf F::Erf;
    /// The largest whole number not above.
    floor F::Floor;
    /// The negation of booleans or bits.
    not F::Not;
}

macro_rules! functions_of_two {
    ($($(#[$doc:meta])* $name:ident $function:expr;)*) => {
        impl TracedValue {
            $(
                $(#[$doc])*
                #[must_use]
                #[track_caller]
                pub fn $name(&self, other: &TracedValue) -> TracedValue {
                    self.map_with(stringify!($name), $function, other)
                }
            )*
        }
    };
}

functions_of_two! {
    /// The greater of both.
    max F::Max;
    /// The lesser of both.
    min F::Min;
    /// The angle of the point `(other, self)`, in radians.
    atan2 F::Atan2;
    /// The remainder of truncated division, with the sign of this value.
    rem F::Rem;
    /// Whether both are equal.
    equal F::Eq;
    /// Whether this is less than the other.
    less F::Lt;
    /// Whether this is less than the other or equal to it.
    less_equal F::Le;
    /// Whether this is greater than the other.
    greater F::Gt;
    /// Whether this is greater than the other or equal to it.
    greater_equal F::Ge;
    /// The conjunction of booleans or bits.
    and F::And;
    /// The disjunction of booleans or bits.
    or F::Or;
}
