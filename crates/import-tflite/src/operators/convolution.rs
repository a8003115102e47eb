//! Sums of products: convolutions, their transposes, and matrices.
//!
//! TensorFlow Lite has channels last; `front` convolves with channels first, so that transposes
//! stand around each convolution, of which passes choose the layout anyway.

use front::{Accepted, Graph, Operand, Padding, TransposedAxis, Windows, shape_error, unsupported};
use sym::Expr;
use tensor::{DType, Tensor};

use crate::node::{Activation, Affine, Lowered, Node};
use crate::quantised::{Multipliers, centred, finish, times, times_wide};

/// Channels last to channels first.
pub(super) const FIRST: [usize; 4] = [0, 3, 1, 2];
/// Channels first to channels last.
pub(super) const LAST: [usize; 4] = [0, 2, 3, 1];

/// How the integers of a sum of products, and those of its result, stand for numbers.
enum Arithmetic {
    /// They are numbers.
    Plain,
    /// The sums are brought to the result's scale.
    Scaled(Rescale, Affine),
}

/// How sums are brought to another scale.
enum Rescale {
    /// Sums of 32 bits by multipliers of 31 bits.
    Short(Multipliers),
    /// Sums of 64 bits by multipliers of 15 bits.
    Wide(Multipliers),
    /// Sums of 64 bits by the factors themselves, in double precision.
    Exact(Vec<f64>),
}

/// The factors of a sum of products, in the types in which they are multiplied.
struct Factors {
    data: Operand,
    weights: Operand,
    /// The types of sums, and of what they are stored as.
    sum: (DType, DType),
    arithmetic: Arithmetic,
}

/// Which inputs the factors are, and along which axis of the weights scales may vary.
#[derive(Clone, Copy)]
struct Places {
    data: usize,
    weights: usize,
    bias: usize,
    scaled_axis: i32,
    /// Whether sums of 64 bits are scaled in double precision.
    exact: bool,
}

impl Factors {
    /// The factors, and sums whose last axis is that of channels.
    fn of(node: &Node<'_>, graph: &mut Graph, places: Places, rank: usize) -> Accepted<Factors> {
        let (data, weights) = (node.input(places.data)?, node.input(places.weights)?);
        if data.dtype().is_float() {
            let weights = dequantised(node, graph, places.weights, &weights)?;
            let weights = graph.cast(&weights, data.dtype())?;
            let sum = (graph::accumulator_of(data.dtype()), data.dtype());
            return Ok(Factors { data, weights, sum, arithmetic: Arithmetic::Plain });
        }
        let entry = node.tensor(places.weights)?;
        let (scales, zeros) = (entry.scales()?, entry.zero_points()?);
        let (own, result) = (node.affine(places.data)?, node.result_affine()?);
        if scales.len() > 1 {
            if entry.quantisation.axis != places.scaled_axis {
                return Err(entry.refused("its scales go along another axis than channels"));
            }
            if entry.shape.get(places.scaled_axis as usize) != Some(&(scales.len() as i32)) {
                return Err(entry.refused("it has not as many scales as channels"));
            }
        }
        let by = scales.iter().map(|scale| own.wide() * f64::from(*scale) / result.wide());
        let along = || Multipliers::along(rank - 1, by.clone());
        if scales.len() > 1 && zeros.iter().any(|zero| *zero != 0) {
            return Err(entry.refused("it has zero points along an axis"));
        }
        let zero_point = zeros.first().copied().unwrap_or(0);
        let mut data = centred(graph, &data, own)?;
        let mut weights = centred(graph, &weights, Affine { scale: 1.0, zero_point })?;
        let mut rescale = Rescale::Short(along());
        let mut sum = (DType::I32, DType::I32);
        if node.tensor(places.data)?.dtype()? == DType::I16 {
            (data, weights) = (graph.cast(&data, DType::I64)?, graph.cast(&weights, DType::I64)?);
            sum = (DType::I64, DType::I64);
            rescale = match places.exact {
                true => Rescale::Exact(by.collect()),
                false => Rescale::Wide(along()),
            };
        }
        Ok(Factors { data, weights, sum, arithmetic: Arithmetic::Scaled(rescale, result) })
    }

    /// A result of sums: with their bias, on the result's scale, behind the fused activation.
    fn finish(
        &self,
        node: &Node<'_>,
        graph: &mut Graph,
        mut sum: Operand,
        bias: Option<Operand>,
        activation: Activation,
    ) -> Accepted<Operand> {
        if let Some(bias) = bias {
            let bias = match self.arithmetic {
                Arithmetic::Plain => bias,
                Arithmetic::Scaled(..) if bias.dtype().is_integer() => bias,
                Arithmetic::Scaled(..) => return Err(unsupported("a bias of floats")),
            };
            let bias = graph.cast(&bias, sum.dtype())?;
            let flat = bias.shape().iter().product::<Expr>();
            let bias = graph.reshape(&bias, &[flat])?;
            let bias = graph.broadcast_axis(&bias, sum.shape(), sum.rank() - 1)?;
            sum = graph.add(&sum, &bias)?;
        }
        match &self.arithmetic {
            Arithmetic::Plain => activation.of(graph, &sum),
            Arithmetic::Scaled(rescale, result) => {
                let dtype = node.dtype()?;
                let range = activation.integers(*result, dtype)?;
                let scaled = match rescale {
                    Rescale::Short(by) => times(graph, &sum, by)?,
                    Rescale::Wide(by) => times_wide(graph, &sum, by)?,
                    Rescale::Exact(by) => times_exactly(graph, &sum, by)?,
                };
                finish(graph, &scaled, *result, range, dtype)
            }
        }
    }
}

/// An i64 times factors along the last axis in double precision, next to a whole number, halves
/// away from zero; as i32.
fn times_exactly(graph: &mut Graph, sum: &Operand, by: &[f64]) -> Accepted<Operand> {
    let wide = graph.cast(sum, DType::F64)?;
    let factor = match by {
        [one] => graph.number(DType::F64, *one),
        all => {
            let factors = front::constant_value("", Tensor::from_slice(&[all.len()], all), false);
            graph.broadcast_axis(&factors, sum.shape(), sum.rank() - 1)?
        }
    };
    let product = graph.mul(&wide, &factor)?;
    let whole = super::quantise::rounded_away(graph, &product)?;
    let whole = graph.clamp(&whole, f64::from(i32::MIN / 2), f64::from(i32::MAX / 2))?;
    graph.cast(&whole, DType::I32)
}

/// Weights of integers as the numbers that they stand for.
fn dequantised(
    node: &Node<'_>,
    graph: &mut Graph,
    number: usize,
    weights: &Operand,
) -> Accepted<Operand> {
    if weights.dtype().is_float() {
        return Ok(weights.clone());
    }
    super::quantise::numbers_of(graph, weights, node.tensor(number)?)
}

/// Padding as the schema has it, for each of two axes.
pub(super) fn padding(number: i8) -> Accepted<[Padding; 2]> {
    match number {
        0 => Ok([Padding::SameUpper; 2]),
        1 => Ok([Padding::Given(0, 0); 2]),
        other => Err(unsupported(format!("padding of kind {other}"))),
    }
}

/// Numbers that must be positive, and small enough to be added.
pub(super) fn positive(numbers: &[i32], what: &str) -> Accepted<Vec<i64>> {
    match numbers.iter().find(|number| !(1..1 << 30).contains(*number)) {
        Some(number) => Err(unsupported(format!("{what} of {number}"))),
        None => Ok(numbers.iter().map(|number| i64::from(*number)).collect()),
    }
}

fn constant_extents(value: &Operand, axes: [usize; 2], what: &str) -> Accepted<Vec<i64>> {
    let extent = |axis: usize| value.shape().get(axis).and_then(Expr::as_constant);
    let found: Option<Vec<i64>> = axes.into_iter().map(extent).collect();
    let found = found.filter(|found| found.iter().all(|extent| *extent > 0));
    found.ok_or_else(|| unsupported(format!("{what} whose extents are not fixed")))
}

fn of_four_axes(value: &Operand, what: &str) -> Accepted<()> {
    match value.rank() {
        4 => Ok(()),
        rank => Err(shape_error(format!("{what} have {rank} axes, not 4"))),
    }
}

/// `CONV_2D`: weights `[outputs, height, width, inputs of a group]`.
pub(super) fn convolution(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let options = node.options()?;
    let strides = positive(&[options.int(2)?, options.int(1)?], "a stride")?;
    let dilations = [options.number(5, 1)?, options.number(4, 1)?];
    let dilations = positive(&dilations, "a dilation")?;
    let padding = padding(options.number(0, 0)?)?;
    let activation = options.activation(3)?;
    let places = Places { data: 0, weights: 1, bias: 2, scaled_axis: 0, exact: false };
    convolve(node, graph, places, (strides, dilations), (padding, activation), None)
}

/// `DEPTHWISE_CONV_2D`: weights `[1, height, width, channels times multiplier]`.
pub(super) fn depthwise(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let options = node.options()?;
    let strides = positive(&[options.int(2)?, options.int(1)?], "a stride")?;
    let dilations = [options.number(6, 1)?, options.number(5, 1)?];
    let dilations = positive(&dilations, "a dilation")?;
    let padding = padding(options.number(0, 0)?)?;
    let activation = options.activation(4)?;
    let places = Places { data: 0, weights: 1, bias: 2, scaled_axis: 3, exact: false };
    let order = Some([3, 0, 1, 2]);
    convolve(node, graph, places, (strides, dilations), (padding, activation), order)
}

/// A convolution; `order` brings the weights of a depthwise one to `[outputs, 1, height, width]`.
fn convolve(
    node: &Node<'_>,
    graph: &mut Graph,
    places: Places,
    (strides, dilations): (Vec<i64>, Vec<i64>),
    (padding, activation): ([Padding; 2], Activation),
    order: Option<[usize; 4]>,
) -> Lowered {
    let (data, weights) = (node.input(places.data)?, node.input(places.weights)?);
    of_four_axes(&data, "the data")?;
    of_four_axes(&weights, "the weights")?;
    let factors = Factors::of(node, graph, places, 4)?;
    let kernel = constant_extents(&weights, [1, 2], "weights")?;
    let x = graph.transpose(&factors.data, &FIRST)?;
    let w = graph.transpose(&factors.weights, &order.unwrap_or(FIRST))?;
    let groups = match (order, x.shape()[1].as_constant(), w.shape()[1].as_constant()) {
        (Some(_), Some(channels), Some(1)) => channels,
        (Some(_), ..) => return Err(unsupported("depthwise weights of another first axis than 1")),
        (None, Some(channels), Some(own)) if own > 0 && channels % own == 0 => channels / own,
        (None, Some(channels), Some(own)) => {
            return Err(shape_error(format!("{channels} channels for weights of {own}")));
        }
        (None, ..) => 1,
    };
    let spatial = &x.shape()[2..];
    let windows = Windows::new(graph, spatial, kernel, (strides, dilations), &padding, false)?;
    let sum = front::convolve(graph, &x, &w, windows, groups.max(1), factors.sum)?;
    let sum = graph.transpose(&sum, &LAST)?;
    let bias = node.optional(places.bias)?;
    Ok(vec![factors.finish(node, graph, sum, bias, activation)?])
}

/// `TRANSPOSE_CONV`: the result's shape, weights `[outputs, height, width, inputs]`, the data.
pub(super) fn transposed(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let options = node.options()?;
    let strides = positive(&[options.int(2)?, options.int(1)?], "a stride")?;
    let same = padding(options.number(0, 0)?)?[0] == Padding::SameUpper;
    let activation = options.activation(3)?;
    let shape = node.integers(0, "output_shape")?;
    let places = Places { data: 2, weights: 1, bias: 3, scaled_axis: 0, exact: false };
    let (data, weights) = (node.input(2)?, node.input(1)?);
    of_four_axes(&data, "the data")?;
    of_four_axes(&weights, "the weights")?;
    if shape.len() != 4 || shape.iter().any(|extent| !(0..1 << 30).contains(extent)) {
        return Err(shape_error(format!("a result of shape {shape:?}")));
    }
    let factors = Factors::of(node, graph, places, 4)?;
    let kernel = constant_extents(&weights, [1, 2], "weights")?;
    let from = constant_extents(&data, [1, 2], "data")?;
    let mut placed = Vec::new();
    for axis in 0..2 {
        let (output, stride) = (shape[1 + axis], strides[axis]);
        // The padding of the convolution of which this is the transpose.
        let windows = (output + stride - 1) / stride;
        let total = ((windows - 1) * stride + kernel[axis] - output).max(0);
        let begin = if same { total / 2 } else { 0 };
        if from[axis] > 1 << 30 {
            return Err(shape_error("an axis of the data is too long"));
        }
        let output = Expr::from(output);
        placed.push(TransposedAxis { begin: Expr::from(begin), output });
    }
    let x = graph.transpose(&factors.data, &FIRST)?;
    let w = graph.transpose(&factors.weights, &[3, 0, 1, 2])?;
    let stored = factors.sum.1;
    let steps = (&strides[..], &[1, 1][..]);
    let sum = front::convolve_transposed(graph, &x, &w, kernel, steps, &placed, (1, stored))?;
    let sum = graph.transpose(&sum, &LAST)?;
    let bias = node.optional(places.bias)?;
    let result = factors.finish(node, graph, sum, bias, activation)?;
    let shape: Vec<Expr> = shape.into_iter().map(Expr::from).collect();
    Ok(vec![graph.refine(&result, &shape)?])
}

/// `FULLY_CONNECTED`: weights `[outputs, inputs]`.
pub(super) fn fully_connected(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let options = node.options()?;
    let activation = options.activation(0)?;
    if options.number(1, 0_i8)? != 0 {
        return Err(unsupported("weights in a shuffled format"));
    }
    let keeps_axes = options.flag(2, false)?;
    let weights = node.input(1)?;
    if weights.rank() != 2 {
        return Err(shape_error(format!("the weights have {} axes, not 2", weights.rank())));
    }
    let places = Places { data: 0, weights: 1, bias: 2, scaled_axis: 0, exact: true };
    let factors = Factors::of(node, graph, places, 2)?;
    let (outputs, inputs) = (weights.shape()[0].clone(), weights.shape()[1].clone());
    let own = factors.data.shape().to_vec();
    let depth = inputs.as_constant().filter(|depth| *depth > 0);
    let depth = depth.ok_or_else(|| unsupported("weights whose extents are not fixed"))?;
    let total: Expr = own.iter().product();
    if !total.divisible_by(depth) {
        return Err(shape_error(format!("the data do not fall into rows of {depth}")));
    }
    let rows = total.floor_div(&inputs);
    let x = graph.reshape(&factors.data, &[rows, inputs.clone()])?;
    let w = graph.transpose(&factors.weights, &[1, 0])?;
    let sum = front::product_as(graph, &x, &w, factors.sum.1)?;
    let bias = node.optional(2)?;
    let result = factors.finish(node, graph, sum, bias, activation)?;
    if !keeps_axes || own.is_empty() {
        return Ok(vec![result]);
    }
    let mut shape = own;
    let last = shape.len() - 1;
    graph.assume_equal_axes(&shape[last], &inputs, "the last axis of the data")?;
    shape[last] = outputs;
    Ok(vec![graph.reshape(&result, &shape)?])
}

/// `BATCH_MATMUL`
pub(super) fn batch_matmul(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let options = node.options()?;
    let turned = [options.flag(0, false)?, options.flag(1, false)?];
    let dtype = node.dtype()?;
    let mut factors = [node.input(0)?, node.input(1)?];
    let plain = factors[0].dtype().is_float();
    for (number, factor) in factors.iter_mut().enumerate() {
        *factor = match plain {
            true => dequantised(node, graph, number, factor)?,
            false => centred(graph, factor, node.affine(number)?)?,
        };
        if node.tensor(0)?.dtype()? == DType::I16 {
            *factor = graph.cast(factor, DType::I64)?;
        }
        if turned[number] {
            let rank = factor.rank();
            if rank < 2 {
                return Err(shape_error("a matrix with fewer than two axes"));
            }
            let mut order: Vec<usize> = (0..rank).collect();
            order.swap(rank - 2, rank - 1);
            *factor = graph.transpose(factor, &order)?;
        }
    }
    let sum = front::product(graph, &factors[0], &factors[1])?;
    if plain {
        return Ok(vec![sum]);
    }
    let (a, b, result) = (node.affine(0)?, node.affine(1)?, node.result_affine()?);
    let by = Multipliers::single(a.wide() * b.wide() / result.wide());
    let scaled = match sum.dtype() {
        DType::I64 => times_wide(graph, &sum, &by)?,
        _ => times(graph, &sum, &by)?,
    };
    let range = crate::node::integer_range(dtype);
    Ok(vec![finish(graph, &scaled, result, range, dtype)?])
}
