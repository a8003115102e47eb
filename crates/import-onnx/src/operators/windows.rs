//! The attributes of operators that slide windows: kernels, strides, dilations, paddings.

use front::{Accepted, Graph, Operand, Padding, Windows, shape_error};
use sym::Expr;

use crate::node::{Node, attribute_error, unsupported};

/// Numbers beyond this make no sense as a kernel, stride, dilation or padding.
const LARGEST: i64 = 1 << 31;

/// An attribute with an entry an axis, each within bounds; the same `default` where not given.
pub(super) fn entries(
    node: &Node<'_>,
    name: &str,
    count: usize,
    least: i64,
    default: i64,
) -> Accepted<Vec<i64>> {
    let Some(entries) = node.ints(name)? else { return Ok(vec![default; count]) };
    if entries.len() != count {
        let given = entries.len();
        return Err(attribute_error(name, format!("it has {given} numbers, not {count}")));
    }
    match entries.iter().find(|entry| !(least..LARGEST).contains(*entry)) {
        Some(entry) => {
            Err(attribute_error(name, format!("{entry} is less than {least} or too large")))
        }
        None => Ok(entries),
    }
}

/// The attributes `pads` and `auto_pad`, an entry an axis.
pub(super) fn padding(node: &Node<'_>, count: usize) -> Accepted<Vec<Padding>> {
    let pads = entries(node, "pads", 2 * count, 0, 0)?;
    let auto = node.word("auto_pad", &["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"])?;
    let axis = |axis: usize| match auto {
        "SAME_UPPER" => Padding::SameUpper,
        "SAME_LOWER" => Padding::SameLower,
        "VALID" => Padding::Given(0, 0),
        _ => Padding::Given(pads[axis], pads[count + axis]),
    };
    Ok((0..count).map(axis).collect())
}

/// The windows over axes of these extents, as the node's attributes say.
pub(super) fn windows(
    node: &Node<'_>,
    graph: &Graph,
    spatial: &[Expr],
    kernel: Vec<i64>,
) -> Accepted<Windows> {
    let count = spatial.len();
    if kernel.len() != count {
        let given = kernel.len();
        return Err(shape_error(format!("a kernel of {given} axes over {count} axes")));
    }
    let steps = (entries(node, "strides", count, 1, 1)?, entries(node, "dilations", count, 1, 1)?);
    let (padding, ceil) = (padding(node, count)?, node.flag("ceil_mode", false)?);
    Windows::new(graph, spatial, kernel, steps, &padding, ceil)
}

/// The kernel that an attribute gives.
pub(super) fn kernel_shape(node: &Node<'_>, count: usize) -> Accepted<Vec<i64>> {
    if !node.has("kernel_shape") {
        return Err(attribute_error("kernel_shape", "it is missing"));
    }
    entries(node, "kernel_shape", count, 1, 1)
}

/// The spatial axes of a value `[batch, channels, spatial...]`.
pub(super) fn spatial(value: &Operand) -> Accepted<Vec<Expr>> {
    match value.shape() {
        [_, _, spatial @ ..] if !spatial.is_empty() => Ok(spatial.to_vec()),
        _ => Err(unsupported(format!("an input of rank {}", value.rank()))),
    }
}
