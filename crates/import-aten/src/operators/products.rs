//! Sums of products: matrices, stacks of them, and convolutions.

use front::{Accepted, Graph, Operand, Padding, TransposedAxis, Windows, unsupported};
use sym::Expr;
use tensor::DType;

use crate::node::{Lowered, Node};
use crate::trace::TraceArgument;

/// The product as NumPy's `matmul`.
pub(super) fn matmul(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (a, b) = (node.tensor(0, "self")?, node.tensor(1, "other")?);
    Ok(vec![front::product(graph, &a, &b)?])
}

/// `beta * self + alpha * (a @ b)`
pub(super) fn product_and_sum(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let addend = node.tensor(0, "self")?;
    let (a, b) = (node.tensor(1, "mat1")?, node.tensor(2, "mat2")?);
    let product = front::product(graph, &a, &b)?;
    let product = scaled(node, graph, &product, "alpha", 4)?;
    if node.number(3, "beta")? == Some(0.0) {
        return Ok(vec![product]);
    }
    let addend = scaled(node, graph, &addend, "beta", 3)?;
    Ok(vec![graph.add(&product, &addend)?])
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

/// `input @ weight.T + bias`
pub(super) fn linear(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (x, weight) = (node.tensor(0, "input")?, node.tensor(1, "weight")?);
    let turned = if weight.rank() == 2 { graph.transpose(&weight, &[1, 0])? } else { weight };
    let product = front::product(graph, &x, &turned)?;
    Ok(vec![match node.optional_tensor(2, "bias")? {
        Some(bias) => graph.add(&product, &bias)?,
        None => product,
    }])
}

/// The attributes of a convolution by their places in its operator's signature.
struct Places {
    transposed: Option<usize>,
    output_padding: usize,
    groups: usize,
}

/// `convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding,
/// groups)`
pub(super) fn convolution(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let places = Places { transposed: Some(6), output_padding: 7, groups: 8 };
    convolved(node, graph, &places, node.flag(6, "transposed", false)?, 5)
}

/// `convNd(input, weight, bias, stride, padding, dilation, groups)`
pub(super) fn plain(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let places = Places { transposed: None, output_padding: 99, groups: 6 };
    convolved(node, graph, &places, false, 5)
}

/// `conv_transposeNd(input, weight, bias, stride, padding, output_padding, groups, dilation)`
pub(super) fn transposed(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let places = Places { transposed: None, output_padding: 5, groups: 6 };
    convolved(node, graph, &places, true, 7)
}

fn convolved(
    node: &Node<'_>,
    graph: &mut Graph,
    places: &Places,
    is_transposed: bool,
    dilation: usize,
) -> Lowered {
    let (mut x, w) = (node.tensor(0, "input")?, node.tensor(1, "weight")?);
    let Some(count) = w.rank().checked_sub(2).filter(|count| *count > 0) else {
        return Err(unsupported("weights without a window"));
    };
    let is_single = x.rank() == count + 1;
    if is_single {
        let shape = [&[Expr::ONE], x.shape()].concat();
        x = graph.reshape(&x, &shape)?;
    }
    if x.rank() != w.rank() {
        return Err(unsupported(format!(
            "an input of {} axes for weights of {}",
            x.rank(),
            w.rank()
        )));
    }
    debug_assert!(places.transposed.is_none_or(|place| place == 6), "the signature's place");
    let kernel = front::constant_shape(&w.shape()[2..]);
    let kernel = kernel.ok_or_else(|| unsupported("a kernel whose extents are not fixed"))?;
    let kernel: Vec<i64> = kernel.iter().map(|&extent| extent as i64).collect();
    let strides = node.entries((3, "stride"), count, 1)?;
    let dilations = node.entries((dilation, "dilation"), count, 1)?;
    let groups = node.int(places.groups, "groups", 1)?;
    let is_word = matches!(node.argument(4, "padding"), Some(TraceArgument::Text(_)));
    let padding: Vec<Padding> = if is_word {
        match node.text(4, "padding", "valid")? {
            // Unlike that of other formats, which depends on the stride, it is the kernel's alone.
            "same" => {
                let around = |axis: usize| {
                    let total = (kernel[axis] - 1) * dilations[axis];
                    Padding::Given(total / 2, total - total / 2)
                };
                (0..count).map(around).collect()
            }
            _ => vec![Padding::Given(0, 0); count],
        }
    } else {
        let given = node.entries((4, "padding"), count, 0)?;
        given.into_iter().map(|pad| Padding::Given(pad, pad)).collect()
    };
    let result = if is_transposed {
        let behind = node.entries((places.output_padding, "output_padding"), count, 0)?;
        let placed = placed(&x, &kernel, (&strides, &dilations), &padding, &behind);
        front::convolve_transposed(graph, &x, &w, kernel, (&strides, &dilations), &placed, groups)?
    } else {
        let spatial = x.shape()[2..].to_vec();
        let windows = Windows::new(graph, &spatial, kernel, (strides, dilations), &padding, false)?;
        let types = (graph::accumulator_of(x.dtype()), x.dtype());
        front::convolve(graph, &x, &w, windows, groups, types)?
    };
    let bias = node.optional_tensor(2, "bias")?;
    let result = front::add_bias(graph, result, bias.as_ref())?;
    match is_single {
        true => Ok(vec![graph.reshape(&result, &result.shape()[1..])?]),
        false => Ok(vec![result]),
    }
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

/// A sum of products of two vectors.
pub(super) fn dot(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (a, b) = (node.tensor(0, "self")?, node.tensor(1, "tensor")?);
    if a.dtype() == DType::Bool {
        return Err(unsupported("a product of flags"));
    }
    Ok(vec![front::product(graph, &a, &b)?])
}
