//! Convolutions: what attributes say of their windows.

use front::{
    Accepted, Graph, Operand, Padding, TransposedAxis, add_bias, constant_shape,
    convolve_transposed, reach, shape_error,
};
use sym::Expr;
use tensor::DType;

use super::Lowered;
use super::windows::{entries, padding, spatial, windows};
use crate::node::{Node, attribute_error};

/// The kernel's extents: those of the weights, which an attribute may repeat.
fn kernel(node: &Node<'_>, weights: &Operand) -> Accepted<Vec<i64>> {
    let extents = constant_shape(weights.shape().get(2..).unwrap_or_default())
        .ok_or_else(|| shape_error("the extents of the kernel depend on symbols"))?;
    let extents: Vec<i64> = extents.iter().map(|&extent| extent as i64).collect();
    if extents.contains(&0) {
        return Err(shape_error(format!("a kernel of extents {extents:?} is empty")));
    }
    match node.ints("kernel_shape")? {
        Some(given) if !given.is_empty() && given != extents => Err(shape_error(format!(
            "the attribute `kernel_shape` is {given:?}, but the weights have {extents:?}"
        ))),
        _ => Ok(extents),
    }
}

fn groups(node: &Node<'_>) -> Accepted<i64> {
    match node.int("group", 1)? {
        groups if (1..1 << 31).contains(&groups) => Ok(groups),
        groups => Err(shape_error(format!("{groups} groups"))),
    }
}

/// `[n, m, o...] = sum(k..., c) x[n, c, o * stride + k * dilation] * w[m, c, k...]`
pub(super) fn conv(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (x, w) = (node.input(0)?, node.input(1)?);
    let accumulator = graph::accumulator_of(x.dtype());
    let result = convolve(node, graph, x, w, accumulator, x.dtype())?;
    Ok(vec![add_bias(graph, result, node.optional(2))?])
}

/// A convolution with the node's attributes, sums formed in `accumulator`.
pub(super) fn convolve(
    node: &Node<'_>,
    graph: &mut Graph,
    x: &Operand,
    w: &Operand,
    accumulator: DType,
    dtype: DType,
) -> Accepted<Operand> {
    let axes = operand_axes(x, w)?;
    let windows = windows(node, graph, &axes, kernel(node, w)?)?;
    front::convolve(graph, x, w, windows, groups(node)?, (accumulator, dtype))
}

/// The spatial axes of the input; the weights must have as many.
fn operand_axes(x: &Operand, w: &Operand) -> Accepted<Vec<Expr>> {
    let axes = spatial(x)?;
    if w.rank() != x.rank() {
        let (weights, input) = (w.rank(), x.rank());
        return Err(shape_error(format!("weights of rank {weights} for an input of rank {input}")));
    }
    Ok(axes)
}

/// The transpose of a convolution, `[n, m, s * i + d * k - begin] += x[n, c, i] * w[c, m, k]`.
pub(super) fn conv_transpose(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (x, w) = (node.input(0)?, node.input(1)?);
    let axes = operand_axes(x, w)?;
    let kernel = kernel(node, w)?;
    let groups = groups(node)?;
    let strides = entries(node, "strides", axes.len(), 1, 1)?;
    let dilations = entries(node, "dilations", axes.len(), 1, 1)?;
    let placed = transposed_axes(node, graph, &axes, &kernel, &strides, &dilations)?;
    let steps = (&strides[..], &dilations[..]);
    let result = convolve_transposed(graph, x, w, kernel, steps, &placed, (groups, x.dtype()))?;
    Ok(vec![add_bias(graph, result, node.optional(2))?])
}

/// Source: the formulas for `pads` and `output_shape` in the specification of ConvTranspose.
fn transposed_axes(
    node: &Node<'_>,
    graph: &Graph,
    axes: &[Expr],
    kernel: &[i64],
    strides: &[i64],
    dilations: &[i64],
) -> Accepted<Vec<TransposedAxis>> {
    let count = axes.len();
    let pads = padding(node, count)?;
    let behind = entries(node, "output_padding", count, 0, 0)?;
    let given = match node.ints("output_shape")? {
        // Some files give batch and channels as well.
        Some(shape) if shape.len() == count + 2 => Some(shape[2..].to_vec()),
        Some(_) => Some(entries(node, "output_shape", count, 1, 1)?),
        None => None,
    };
    let mut result = Vec::with_capacity(count);
    for axis in 0..count {
        let reach = reach(kernel[axis], dilations[axis]);
        // As the specification has it, and PyTorch: more belongs to no input's size.
        let (stride, dilation) = (strides[axis], dilations[axis]);
        if behind[axis] >= stride.max(dilation) {
            let reason = format!(
                "it adds {} to spatial axis {axis}, not less than the stride {stride} or the \
                 dilation {dilation}",
                behind[axis]
            );
            return Err(attribute_error("output_padding", reason));
        }
        let full = (&axes[axis] - 1) * strides[axis] + reach + behind[axis];
        let (begin, end) = match (&given, pads[axis]) {
            (None, Padding::Given(begin, end)) => (Expr::from(begin), Expr::from(end)),
            (given, padding) => {
                let strided = || &axes[axis] * strides[axis];
                let wanted = given.as_ref().map_or_else(strided, |shape| Expr::from(shape[axis]));
                let total = &full - &wanted;
                let half = total.floor_div(&Expr::from(2));
                let rest = &total - &half;
                if padding == Padding::SameUpper { (half, rest) } else { (rest, half) }
            }
        };
        let output = &full - &begin - &end;
        if graph.builder.bounds(&output).1 < 1 {
            return Err(shape_error(format!(
                "an output axis of extent {}",
                graph.builder.text(&output)
            )));
        }
        result.push(TransposedAxis { begin, output });
    }
    Ok(result)
}
