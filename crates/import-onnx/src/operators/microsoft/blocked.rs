//! The domain `com.microsoft.nchwc`: convolutions and pooling whose channels lie in blocks, as ONNX
//! Runtime saves a model that it has optimised for one machine.
//!
//! Values are kept in the plain order here, so reordering them is nothing, or a transposition, and
//! layouts are chosen again by this compiler. Only filters are stored in blocks; they are put back
//! into the plain order, which `setup` does once. A file does not say how many channels a block
//! has: 16, or 8 where the filter's extents are no multiples of 16.

use front::{Accepted, Graph, Operand, shape_error};
use sym::Expr;

use super::Lowered;
use super::elementwise::fused_conv;
use super::quantized::channels;
use crate::node::{Node, attribute_error, unsupported};
use crate::operators::resize::upsample_by;

/// `ReorderInput`: to blocks, which is to `[n, c, spatial..]`.
pub(super) fn reorder_input(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    match node.flag("channels_last", false)? {
        true => Ok(vec![channels(graph, x, true)?]),
        false => Ok(vec![x.clone()]),
    }
}

/// `ReorderOutput`: from blocks, without the channels that fill the last one.
pub(super) fn reorder_output(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let count = node.int("channels", 0)?;
    let is_there = x.shape().get(1).is_some_and(|all| all.as_constant().is_none_or(|n| n >= count));
    if count < 1 || !is_there {
        return Err(attribute_error("channels", format!("{count} channels of fewer")));
    }
    let kept = graph.slice_axis(x, 1, Expr::ZERO, 1, Expr::from(count))?;
    match node.flag("channels_last", false)? {
        true => Ok(vec![channels(graph, &kept, false)?]),
        false => Ok(vec![kept]),
    }
}

/// Filters `[m, c, spatial..]` whose bytes lie in blocks, in the plain order. Outputs always lie in
/// blocks; inputs do where a group has a block of them or more.
fn plain_filters(graph: &mut Graph, w: &Operand) -> Accepted<Operand> {
    let [outputs, inputs, spatial @ ..] = w.shape() else {
        return Err(shape_error(format!("filters of rank {}", w.rank())));
    };
    let extent = |extent: &Expr| extent.as_constant();
    let (Some(m), Some(c)) = (extent(outputs), extent(inputs)) else {
        return Err(unsupported("filters in blocks whose extents are not fixed"));
    };
    let fits = |block: i64| m % block == 0 && (c < block || c % block == 0);
    let block = if fits(16) { 16 } else { 8 };
    if !fits(block) {
        return Err(shape_error(format!("{m} outputs of {c} channels do not lie in blocks")));
    }
    let whole = |extent: i64| Expr::from(extent / block);
    let block_extent = Expr::from(block);
    let count = spatial.len();
    let (mut shape, order): (Vec<Expr>, Vec<usize>) = if c >= block {
        // `[m / b, c / b, spatial.., b of c, b of m]`
        let order = [0, count + 3, 1, count + 2].into_iter().chain(2..count + 2).collect();
        (vec![whole(m), whole(c)], order)
    } else {
        // `[m / b, c, spatial.., b of m]`
        let order = [0, count + 2, 1].into_iter().chain(2..count + 2).collect();
        (vec![whole(m), inputs.clone()], order)
    };
    shape.extend_from_slice(spatial);
    if c >= block {
        shape.push(block_extent.clone());
    }
    shape.push(block_extent);
    let stored = graph.reshape(w, &shape)?;
    let plain = graph.transpose(&stored, &order)?;
    graph.reshape(&plain, w.shape())
}

/// `Conv`, with another value added and an activation. The input may have more channels than the
/// filters see, which fill its last block.
pub(super) fn conv(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let mut inputs = node.inputs.clone();
    inputs[1] = Some(plain_filters(graph, node.input(1)?)?);
    fused_conv(&node.with(inputs, 11), graph)
}

/// `Upsample`: factors are whole numbers.
pub(super) fn upsample(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let factors = node.ints("scales")?.unwrap_or_default();
    let factors: Vec<f64> = factors.into_iter().map(|factor| factor as f64).collect();
    upsample_by(node, graph, &factors)
}
