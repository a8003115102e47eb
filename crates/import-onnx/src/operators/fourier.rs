//! Discrete Fourier transforms, as products with matrices of cosines and sines, and the weights of
//! mel spectra.
//!
//! A complex number is two elements along the last axis, real part first; a real signal has one.

use front::{Accepted, Graph, KNOWN_ELEMENTS, Operand, Weight, normalize_axis, shape_error};
use sym::Expr;
use tensor::{DType, Scalar, ScalarFunction as F, Tensor};

use super::Lowered;
use crate::node::{Node, attribute_error};

/// What is transformed into what, along the last axis but one.
struct Transform {
    /// The number of points of the transform.
    length: Expr,
    inverse: bool,
    /// Only the frequencies up to the middle are given (forward) or taken (inverse).
    onesided: bool,
}

impl Transform {
    /// `[..., n, 1 or 2]` to `[..., m, 1 or 2]`.
    fn apply(&self, graph: &mut Graph, x: &Operand) -> Accepted<Operand> {
        let rank = x.rank();
        let parts = x.shape()[rank - 1].as_constant();
        let is_complex = match parts {
            Some(1) => false,
            Some(2) => true,
            _ => return Err(shape_error("the last axis must hold a real part, or two parts")),
        };
        let half = self.length.floor_div(&Expr::from(2)) + 1;
        let to_real = self.inverse && self.onesided;
        let taken = if to_real { half.clone() } else { self.length.clone() };
        let given = if self.onesided && !self.inverse { half } else { self.length.clone() };
        let x = resized(graph, x, rank - 2, &taken)?;
        let part = |graph: &mut Graph, number: i64| -> Accepted<Operand> {
            let part = graph.slice_axis(&x, rank - 1, Expr::from(number), 1, Expr::ONE)?;
            let shape = part.shape()[..rank - 1].to_vec();
            let part = graph.reshape(&part, &shape)?;
            // A row for the product with a matrix.
            graph.reshape(&part, &[&shape[..rank - 2], &[Expr::ONE], &shape[rank - 2..]].concat())
        };
        let (cosine, sine) = self.matrices(graph, x.dtype(), &taken, &given)?;
        let real = part(graph, 0)?;
        let mut results = Vec::new();
        // A forward transform multiplies by cos - i sin, an inverse one by cos + i sin.
        let a = graph.matmul(&real, &cosine)?;
        let b = graph.matmul(&real, &sine)?;
        if is_complex {
            let imaginary = part(graph, 1)?;
            let c = graph.matmul(&imaginary, &sine)?;
            let d = graph.matmul(&imaginary, &cosine)?;
            results.push(if self.inverse { graph.sub(&a, &c)? } else { graph.add(&a, &c)? });
            results.push(if self.inverse { graph.add(&d, &b)? } else { graph.sub(&d, &b)? });
        } else {
            results.push(a);
            results.push(if self.inverse { b } else { graph.neg(&b)? });
        }
        if to_real {
            results.truncate(1);
        }
        let mut columns = Vec::new();
        for result in &results {
            let lead = &result.shape()[..rank - 2];
            let shape = [lead, &[given.clone(), Expr::ONE]].concat();
            columns.push(graph.reshape(result, &shape)?);
        }
        graph.concat(rank - 1, &columns)
    }

    /// Cosines and sines of the angles between points of both sides, `[taken, given]`, scaled.
    fn matrices(
        &self,
        graph: &mut Graph,
        dtype: DType,
        taken: &Expr,
        given: &Expr,
    ) -> Accepted<(Operand, Operand)> {
        let shape = [taken.clone(), given.clone()];
        let (row, column) =
            (graph.iota(DType::I64, &shape, 0)?, graph.iota(DType::I64, &shape, 1)?);
        // Whole turns are left out before anything is rounded.
        let product = graph.mul(&row, &column)?;
        let length = graph.dimension(self.length.clone());
        let turns = graph.rem(&product, &length)?;
        let turns = graph.cast(&turns, DType::F64)?;
        let points = graph.cast(&length, DType::F64)?;
        let angle = graph.div(&turns, &points)?;
        let angle = graph.mul_number(&angle, std::f64::consts::TAU)?;
        let (mut cosine, mut sine) = (graph.map(F::Cos, &[&angle])?, graph.map(F::Sin, &[&angle])?);
        if self.inverse {
            let mut scale = graph.map(F::Reciprocal, &[&points])?;
            if self.onesided {
                // Frequencies that are left out mirror these, but for the first and the middle.
                let twice = graph.mul_number(&row, 2.0)?;
                let zero = Operand::of_scalar(Scalar::i64(0));
                let first = graph.equal(&row, &zero)?;
                let middle = graph.equal(&twice, &length)?;
                let single = graph.or(&first, &middle)?;
                let double = graph.mul_number(&scale, 2.0)?;
                scale = graph.select(&single, &scale, &double)?;
            }
            cosine = graph.mul(&cosine, &scale)?;
            sine = graph.mul(&sine, &scale)?;
        }
        Ok((graph.cast(&cosine, dtype)?, graph.cast(&sine, dtype)?))
    }
}

/// A value cut, or filled up with zeros, along an axis.
fn resized(graph: &mut Graph, value: &Operand, axis: usize, extent: &Expr) -> Accepted<Operand> {
    let missing = extent - &value.shape()[axis];
    let (low, high) = graph.builder.bounds(&missing);
    if low == 0 && high == 0 {
        return Ok(value.clone());
    }
    let none = vec![Expr::ZERO; value.rank()];
    let mut behind = none.clone();
    behind[axis] = missing;
    let zero = graph.number(value.dtype(), 0.0);
    graph.pad(value, &zero, &none, &behind, &vec![0; value.rank()])
}

/// `DFT`.
pub(super) fn transform(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let rank = x.rank();
    if rank < 2 {
        return Err(shape_error(format!("a signal of rank {rank}")));
    }
    let axis = if node.version < 20 {
        node.axis("axis", 1, rank)?
    } else {
        match node.optional(2) {
            Some(_) => match node.integers(2, "axis")?[..] {
                [axis] => normalize_axis(axis, rank)?,
                _ => return Err(shape_error("one axis is needed")),
            },
            None => rank - 2,
        }
    };
    if axis + 1 == rank {
        return Err(attribute_error("axis", "it is the axis of the real and imaginary parts"));
    }
    let (inverse, onesided) = (node.flag("inverse", false)?, node.flag("onesided", false)?);
    let length = match node.optional(1) {
        Some(_) => node.exprs(1, "length of the transform")?.pop(),
        None => None,
    };
    let extent = x.shape()[axis].clone();
    let default = if inverse && onesided { (extent - 1) * Expr::from(2) } else { extent };
    let transform = Transform { length: length.unwrap_or(default), inverse, onesided };
    if graph.builder.bounds(&transform.length).0 < 1 {
        let length = graph.builder.text(&transform.length);
        return Err(shape_error(format!("a transform of {length} points")));
    }
    let mut order: Vec<usize> = (0..rank).collect();
    order.swap(axis, rank - 2);
    let turned = graph.transpose(x, &order)?;
    let result = transform.apply(graph, &turned)?;
    Ok(vec![graph.transpose(&result, &order)?])
}

/// `STFT`: transforms of windows that step along a signal, `[batch, frames, frequencies, 2]`.
pub(super) fn short_time(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let signal = node.input(0)?;
    let signal = match signal.rank() {
        2 => graph.reshape(signal, &[signal.shape(), &[Expr::ONE]].concat())?,
        3 => signal.clone(),
        rank => return Err(shape_error(format!("a signal of rank {rank}"))),
    };
    let Some(step) = node.exprs(1, "step between frames")?.pop() else {
        return Err(shape_error("the step between frames is empty"));
    };
    let length = match (node.optional(3), node.optional(2)) {
        (Some(_), _) => node.exprs(3, "length of a frame")?.pop(),
        (None, Some(window)) => window.shape().first().cloned(),
        (None, None) => None,
    };
    let extent = signal.shape()[1].clone();
    let length = length.unwrap_or_else(|| extent.clone());
    if graph.builder.bounds(&step).0 < 1 || graph.builder.bounds(&length).0 < 1 {
        return Err(shape_error("frames must have a length and a step above 0"));
    }
    let frames = (extent - &length).floor_div(&step) + 1;
    // Places of the signal: frame * step + offset.
    let places = [frames, length.clone()];
    let first = graph.iota(DType::I64, &places, 0)?;
    let step = graph.dimension(step);
    let first = graph.mul(&first, &step)?;
    let offset = graph.iota(DType::I64, &places, 1)?;
    let place = graph.add(&first, &offset)?;
    let mut frames = graph.gather(&signal, &[1], &[place], 0, 1)?;
    if let Some(window) = node.optional(2) {
        let window = graph.refine(window, std::slice::from_ref(&length))?;
        let window = graph.broadcast_axis(&window, frames.shape(), 2)?;
        frames = graph.mul(&frames, &window)?;
    }
    let onesided = node.flag("onesided", true)?;
    Ok(vec![Transform { length, inverse: false, onesided }.apply(graph, &frames)?])
}

/// `MelWeightMatrix`: triangles over the bins of a spectrum, evenly spaced on the mel scale.
pub(super) fn mel_weights(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let number = |index: usize, what: &str| node.single_number(index, what);
    let bands = number(0, "number of mel bins")?.as_i64();
    let length = number(1, "length of the transform")?.as_i64();
    let rate = number(2, "sample rate")?.as_i64();
    let low = number(3, "lower edge")?.as_f64();
    let high = number(4, "upper edge")?.as_f64();
    let dtype = node.dtype("output_datatype", DType::F32)?;
    let bins = length / 2 + 1;
    if bands < 1 || length < 1 || rate < 1 {
        return Err(shape_error(format!("{bands} mel bins of {length} points at rate {rate}")));
    }
    let elements = usize::try_from(bands.saturating_mul(bins)).unwrap_or(usize::MAX);
    graph.count_computed(elements, "weights of mel bins")?;
    let mel = |hertz: f64| 2595.0 * (hertz / 700.0).ln_1p() / std::f64::consts::LN_10;
    let hertz = |mel: f64| 700.0 * (mel / 2595.0 * std::f64::consts::LN_10).exp_m1();
    let step = (mel(high) - mel(low)) / (bands + 2) as f64;
    let edge = |band: i64| {
        let frequency = hertz(band as f64 * step + mel(low));
        ((((length + 1) as f64 * frequency) / rate as f64).floor() as i64).clamp(0, bins - 1)
    };
    let mut weights = Tensor::zeros(dtype, &[bins as usize, bands as usize]);
    for band in 0..bands {
        let (left, centre, right) = (edge(band), edge(band + 1), edge(band + 2));
        let mut set = |bin: i64, weight: f64| {
            let index = (bin * bands + band) as usize;
            weights.set_scalar(index, Scalar::from_f64(dtype, weight));
        };
        if left == centre {
            set(centre, 1.0);
        }
        for bin in left..=centre {
            if left < centre {
                set(bin, (bin - left) as f64 / (centre - left) as f64);
            }
        }
        for bin in centre..right {
            set(bin, (right - bin) as f64 / (right - centre) as f64);
        }
    }
    Ok(vec![match weights.len() <= KNOWN_ELEMENTS {
        true => Operand::of_tensor(&weights),
        false => {
            let name = node.proto.output.first().cloned().unwrap_or_default();
            Operand::of_constant(Weight { name, tensor: weights, is_literal: true })
        }
    }])
}
