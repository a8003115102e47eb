//! Sums of products: matrices, stacks of them, and convolutions.

use front::{Accepted, Graph, Operand, Padding, TransposedAxis, Windows, unsupported};
use sym::Expr;
use tensor::{DType, Reduction};

use crate::derivative::gradients;
use crate::node::{Lowered, Node};
use crate::trace::TraceArgument;

/// The product as NumPy's `matmul`.
pub(super) fn matmul(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (a, b) = (node.tensor(0, "self")?, node.tensor(1, "other")?);
    Ok(vec![front::product(graph, &a, &b)?])
}

/// `beta * self + alpha * (a @ b)`, rounded once.
pub(super) fn product_and_sum(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let addend = node.tensor(0, "self")?;
    let (a, b) = (node.tensor(1, "mat1")?, node.tensor(2, "mat2")?);
    let product = wide_product(graph, &a, &b)?;
    let mut result = scaled(node, graph, &product, "alpha", 4)?;
    if node.number(3, "beta")? != Some(0.0) {
        let addend = graph.widen(&addend)?;
        let addend = scaled(node, graph, &addend, "beta", 3)?;
        result = graph.add(&result, &addend)?;
    }
    Ok(vec![graph.cast(&result, a.dtype())?])
}

/// A product of short floats as the sums are formed, of others in their own type.
fn wide_product(graph: &mut Graph, a: &Operand, b: &Operand) -> Accepted<Operand> {
    front::product_as(graph, a, b, graph::accumulator_of(a.dtype()))
}

fn scaled(
    node: &Node<'_>,
    graph: &mut Graph,
    value: &Operand,
    name: &str,
    place: usize,
) -> Accepted<Operand> {
    match node.number(place, name)? {
        None | Some(1.0) => Ok(value.clone()),
        Some(_) => {
            let factor = node.operand_as(graph, (place, name), value.dtype())?;
            graph.mul(value, &factor)
        }
    }
}

/// `input @ weight.T + bias`, rounded once.
pub(super) fn linear(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (x, weight) = (node.tensor(0, "input")?, node.tensor(1, "weight")?);
    let turned = if weight.rank() == 2 { graph.transpose(&weight, &[1, 0])? } else { weight };
    let Some(bias) = node.optional_tensor(2, "bias")? else {
        return Ok(vec![front::product(graph, &x, &turned)?]);
    };
    let (product, bias) = (wide_product(graph, &x, &turned)?, graph.widen(&bias)?);
    let result = graph.add(&product, &bias)?;
    Ok(vec![graph.cast(&result, x.dtype())?])
}

/// The attributes of a convolution by their places in its operator's signature.
struct Places {
    stride: usize,
    padding: usize,
    dilation: usize,
    output_padding: Option<usize>,
    groups: usize,
}

/// `convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding,
/// groups)`
pub(super) fn convolution(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let places = Places { stride: 3, padding: 4, dilation: 5, output_padding: Some(7), groups: 8 };
    with_bias(node, graph, &places, node.flag(6, "transposed", false)?)
}

/// `convNd(input, weight, bias, stride, padding, dilation, groups)`
pub(super) fn plain(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let places = Places { stride: 3, padding: 4, dilation: 5, output_padding: None, groups: 6 };
    with_bias(node, graph, &places, false)
}

/// `conv_transposeNd(input, weight, bias, stride, padding, output_padding, groups, dilation)`
pub(super) fn transposed(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let places = Places { stride: 3, padding: 4, dilation: 7, output_padding: Some(5), groups: 6 };
    with_bias(node, graph, &places, true)
}

/// `_trilinear(i1, i2, i3, expand1, expand2, expand3, sumdim)`: the product of three values, each
/// with axes of one element put in, summed over axes.
pub(super) fn trilinear(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let mut product: Option<Operand> = None;
    for (number, name) in ["i1", "i2", "i3"].into_iter().enumerate() {
        let value = node.tensor(number, name)?;
        let mut places = node.ints(3 + number, "expand")?.unwrap_or_default();
        places.sort_unstable();
        let mut shape = value.shape().to_vec();
        for place in places {
            let place = usize::try_from(place).ok().filter(|place| *place <= shape.len());
            let place = place.ok_or_else(|| unsupported("an axis that is put in elsewhere"))?;
            shape.insert(place, Expr::ONE);
        }
        let value = graph.reshape(&value, &shape)?;
        product = Some(match product {
            Some(product) => graph.mul(&product, &value)?,
            None => value,
        });
    }
    let product = product.ok_or_else(|| unsupported("a product of nothing"))?;
    let axes = node.ints(6, "sumdim")?.unwrap_or_default();
    let axes = front::normalize_axes(&axes, product.rank())?;
    let (dtype, wide) = (product.dtype(), graph.widen(&product)?);
    let sum = graph.reduce_axes(&wide, &axes, Reduction::Sum, false)?;
    Ok(vec![graph.cast(&sum, dtype)?])
}

/// `convolution_backward(grad_output, input, weight, bias_sizes, stride, padding, dilation,
/// transposed, output_padding, groups, output_mask)`: the gradients by input, weight and bias.
pub(super) fn convolution_backward(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let places = Places { stride: 4, padding: 5, dilation: 6, output_padding: Some(8), groups: 9 };
    let is_transposed = node.flag(7, "transposed", false)?;
    let gradient = node.tensor(0, "grad_output")?;
    let sources = [node.tensor(1, "input")?, node.tensor(2, "weight")?];
    let by_input = match is_transposed {
        true => None,
        false => transposed_of(node, graph, (&gradient, &sources[1]), &sources[0], &places)?,
    };
    let mut results = gradients(graph, &sources, &gradient, |graph, operands| {
        let dtype = gradient.dtype();
        convolved(node, graph, (&operands[0], &operands[1], dtype), &places, is_transposed)
    })?;
    if let Some(by_input) = by_input {
        results[0] = by_input;
    }
    let channels = sources[0].rank() + 1 - sources[1].rank();
    let axes: Vec<usize> = (0..gradient.rank()).filter(|&axis| axis != channels).collect();
    let wide = graph.widen(&gradient)?;
    let bias = graph.reduce_axes(&wide, &axes, Reduction::Sum, false)?;
    results.push(graph.cast(&bias, gradient.dtype())?);
    Ok(results)
}

/// The gradient of a convolution by its input, which is the transposed convolution of that by its
/// result: no zeros stand between the elements that are stepped over, and nothing is computed that
/// falls into the padding. None without a batch.
fn transposed_of(
    node: &Node<'_>,
    graph: &mut Graph,
    (gradient, w): (&Operand, &Operand),
    x: &Operand,
    places: &Places,
) -> Accepted<Option<Operand>> {
    let count = w.rank().saturating_sub(2);
    let kernel = front::constant_shape(&w.shape()[w.rank() - count..]);
    let (Some(kernel), true) = (kernel, count > 0 && x.rank() == w.rank()) else {
        return Ok(None);
    };
    let kernel: Vec<i64> = kernel.iter().map(|&extent| extent as i64).collect();
    let strides = node.entries((places.stride, "stride"), count, 1)?;
    let dilations = node.entries((places.dilation, "dilation"), count, 1)?;
    let groups = node.int(places.groups, "groups", 1)?;
    let around = padding(node, places.padding, (&kernel, &dilations))?;
    let axis = |(axis, pad): (usize, &Padding)| {
        let begin = match pad {
            Padding::Given(low, _) => Expr::from(*low),
            Padding::SameUpper | Padding::SameLower => Expr::ZERO,
        };
        TransposedAxis { begin, output: x.shape()[2 + axis].clone() }
    };
    let placed: Vec<TransposedAxis> = around.iter().enumerate().map(axis).collect();
    let (steps, types) = ((&strides[..], &dilations[..]), (groups, gradient.dtype()));
    front::convolve_transposed(graph, gradient, w, kernel, steps, &placed, types).map(Some)
}

fn with_bias(node: &Node<'_>, graph: &mut Graph, places: &Places, is_transposed: bool) -> Lowered {
    let (x, w) = (node.tensor(0, "input")?, node.tensor(1, "weight")?);
    let bias = node.optional_tensor(2, "bias")?;
    // With a bias the sum is rounded once.
    let dtype = if bias.is_some() { graph::accumulator_of(x.dtype()) } else { x.dtype() };
    let result = convolved(node, graph, (&x, &w, dtype), places, is_transposed)?;
    let Some(bias) = bias else { return Ok(vec![result]) };
    // Channels are the first axis where there is no batch.
    let axis = (result.rank() + 1).saturating_sub(w.rank());
    let bias = graph.cast(&bias, dtype)?;
    let bias = graph.broadcast_axis(&bias, result.shape(), axis)?;
    let result = graph.add(&result, &bias)?;
    Ok(vec![graph.cast(&result, x.dtype())?])
}

/// A convolution without its bias, in an element type; the input may be without a batch.
fn convolved(
    node: &Node<'_>,
    graph: &mut Graph,
    (x, w, dtype): (&Operand, &Operand, DType),
    places: &Places,
    is_transposed: bool,
) -> Accepted<Operand> {
    let Some(count) = w.rank().checked_sub(2).filter(|count| *count > 0) else {
        return Err(unsupported("weights without a window"));
    };
    let is_single = x.rank() == count + 1;
    let x = match is_single {
        true => graph.reshape(x, &[&[Expr::ONE], x.shape()].concat())?,
        false => x.clone(),
    };
    if x.rank() != w.rank() {
        let (input, weights) = (x.rank(), w.rank());
        return Err(unsupported(format!("an input of {input} axes for weights of {weights}")));
    }
    let kernel = front::constant_shape(&w.shape()[2..]);
    let kernel = kernel.ok_or_else(|| unsupported("a kernel whose extents are not fixed"))?;
    let kernel: Vec<i64> = kernel.iter().map(|&extent| extent as i64).collect();
    let strides = node.entries((places.stride, "stride"), count, 1)?;
    let dilations = node.entries((places.dilation, "dilation"), count, 1)?;
    let groups = node.int(places.groups, "groups", 1)?;
    let padding = padding(node, places.padding, (&kernel, &dilations))?;
    let result = if is_transposed {
        let behind = match places.output_padding {
            Some(place) => node.entries((place, "output_padding"), count, 0)?,
            None => vec![0; count],
        };
        let placed = placed(&x, &kernel, (&strides, &dilations), &padding, &behind);
        let steps = (&strides[..], &dilations[..]);
        front::convolve_transposed(graph, &x, w, kernel, steps, &placed, (groups, dtype))?
    } else {
        let spatial = x.shape()[2..].to_vec();
        let windows = Windows::new(graph, &spatial, kernel, (strides, dilations), &padding, false)?;
        let types = (graph::accumulator_of(x.dtype()), dtype);
        front::convolve(graph, &x, w, windows, groups, types)?
    };
    match is_single {
        true => graph.reshape(&result, &result.shape()[1..]),
        false => Ok(result),
    }
}

/// What is added around each axis, as numbers or as the word for as much as keeps the extent.
fn padding(
    node: &Node<'_>,
    place: usize,
    (kernel, dilations): (&[i64], &[i64]),
) -> Accepted<Vec<Padding>> {
    if !matches!(node.argument(place, "padding"), Some(TraceArgument::Text(_))) {
        let given = node.entries((place, "padding"), kernel.len(), 0)?;
        return Ok(given.into_iter().map(|pad| Padding::Given(pad, pad)).collect());
    }
    // Unlike that of other formats, which depends on the stride, it is the kernel's alone.
    let is_same = node.text(place, "padding", "valid")? == "same";
    let around = |axis: usize| {
        let total = if is_same { (kernel[axis] - 1) * dilations[axis] } else { 0 };
        Padding::Given(total / 2, total - total / 2)
    };
    Ok((0..kernel.len()).map(around).collect())
}

/// Which results of a transposed convolution remain along each axis.
fn placed(
    x: &Operand,
    kernel: &[i64],
    (strides, dilations): (&[i64], &[i64]),
    padding: &[Padding],
    behind: &[i64],
) -> Vec<TransposedAxis> {
    let axis = |axis: usize| {
        let pad = match padding[axis] {
            Padding::Given(pad, _) => pad,
            Padding::SameUpper | Padding::SameLower => 0,
        };
        let reach = front::reach(kernel[axis], dilations[axis]);
        let full = (&x.shape()[2 + axis] - 1) * strides[axis] + reach + behind[axis];
        TransposedAxis { begin: Expr::from(pad), output: full - Expr::from(2 * pad) }
    };
    (0..kernel.len()).map(axis).collect()
}

/// A sum of products in index notation.
pub(super) fn einsum(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let equation = node.text(0, "equation", "")?;
    let operands = node.tensors(1, "tensors")?;
    let operands: Option<Vec<Operand>> = operands.into_iter().collect();
    let operands = operands.ok_or_else(|| unsupported("operands that are left out"))?;
    Ok(vec![front::einsum(graph, equation, &operands, front::shape_error)?])
}

/// A sum of products of two vectors.
pub(super) fn dot(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (a, b) = (node.tensor(0, "self")?, node.tensor(1, "tensor")?);
    if a.dtype() == DType::Bool {
        return Err(unsupported("a product of flags"));
    }
    Ok(vec![front::product(graph, &a, &b)?])
}
