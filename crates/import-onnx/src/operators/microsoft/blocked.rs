//! The domain `com.microsoft.nchwc`: convolutions and pooling whose channels lie in blocks, as ONNX
//! Runtime saves a model that it has optimised for one machine.
//!
//! Values are kept in the plain order here, so reordering them is nothing, or a transposition, and
//! layouts are chosen again by this compiler. Only filters are stored in blocks; they are put back
//! into the plain order, which `setup` does once. A file does not say how many channels a block
//! has, 8 or 16, but all of its blocks have as many; see [`filter_block`].

use std::collections::BTreeMap;

use base::IntoTree;
use front::{Accepted, Graph, Operand, shape_error};
use sym::Expr;

use super::Lowered;
use super::elementwise::{activated, fused_conv, only};
use super::quantized::channels;
use crate::node::{Node, attribute_error, unsupported};
use crate::operators::resize::upsample_by;
use crate::proto::{GraphProto, NodeProto};

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

/// Filters, of which only those are kept that have weights, and only channels that have some.
struct Filters {
    /// `[m, c, spatial..]` in the plain order.
    plain: Operand,
    /// How many outputs and channels of those a convolution needs; beyond them weights are zeros,
    /// which fill the last block.
    outputs: i64,
    inputs: i64,
}

/// How many channels a block of a file's filters has: 8 if the extents of some filter are no
/// multiples of 16; 16 if some have as much behind their channels as a block of 8 never has. Where
/// neither is so, as many as ONNX Runtime takes on the processor at hand, for which it says that
/// such files are.
pub(crate) fn filter_block(graph: &GraphProto) -> i64 {
    let own = graph.node.iter().filter(|node| node.domain == super::table::BLOCKED);
    let own: Vec<&NodeProto> = own.collect();
    if own.is_empty() {
        return LONG_BLOCK;
    }
    let tensors = graph.initializer.iter().map(|tensor| (tensor.name.as_str(), &tensor.dims[..]));
    let tensors: BTreeMap<&str, &[i64]> = tensors.into_map();
    let mut outputs = BTreeMap::new();
    for node in own.iter().filter(|node| node.op_type == "Conv") {
        let dims = node.input.get(1).and_then(|name| tensors.get(name.as_str()));
        let Some(&[m, c, ..]) = dims.copied() else { continue };
        if !fits(LONG_BLOCK, m, c) {
            return SHORT_BLOCK;
        }
        outputs.extend(node.output.iter().map(|name| (name.as_str(), m)));
    }
    let behind = |node: &NodeProto| {
        let m = node.input.first().and_then(|name| outputs.get(name.as_str()));
        let channels = node.attribute.iter().find(|own| own.name == "channels");
        m.zip(channels).is_some_and(|(m, channels)| m - channels.i >= SHORT_BLOCK)
    };
    let mut reordered = own.iter().filter(|node| node.op_type == "ReorderOutput");
    let is_long = reordered.any(|node| behind(node));
    #[cfg(target_arch = "x86_64")]
    if !is_long && !std::arch::is_x86_feature_detected!("avx512f") {
        return SHORT_BLOCK;
    }
    LONG_BLOCK
}

/// The channels that a block may have.
const SHORT_BLOCK: i64 = 8;
const LONG_BLOCK: i64 = 16;

/// Whether filters of so many outputs and channels lie in such blocks.
fn fits(block: i64, m: i64, c: i64) -> bool {
    m % block == 0 && (c < block || c % block == 0)
}

/// Filters whose bytes lie in blocks. Outputs always lie in blocks; inputs do where a group has a
/// block of them or more.
fn filters(graph: &mut Graph, w: &Operand, block: i64) -> Accepted<Filters> {
    let [outputs, inputs, spatial @ ..] = w.shape() else {
        return Err(shape_error(format!("filters of rank {}", w.rank())));
    };
    let extent = |extent: &Expr| extent.as_constant();
    let (Some(m), Some(c)) = (extent(outputs), extent(inputs)) else {
        return Err(unsupported("filters in blocks whose extents are not fixed"));
    };
    if m < 1 || c < 1 || !fits(block, m, c) {
        return Err(shape_error(format!("{m} outputs of {c} channels do not lie in blocks")));
    }
    let whole = |extent: i64| Expr::from(extent / block);
    let (count, has_inputs) = (spatial.len(), c >= block);
    let (mut shape, order): (Vec<Expr>, Vec<usize>) = if has_inputs {
        // `[m / b, c / b, spatial.., b of c, b of m]`
        let order = [0, count + 3, 1, count + 2].into_iter().chain(2..count + 2).collect();
        (vec![whole(m), whole(c)], order)
    } else {
        // `[m / b, c, spatial.., b of m]`
        let order = [0, count + 2, 1].into_iter().chain(2..count + 2).collect();
        (vec![whole(m), inputs.clone()], order)
    };
    shape.extend_from_slice(spatial);
    shape.extend(vec![Expr::from(block); if has_inputs { 2 } else { 1 }]);
    let stored = graph.reshape(w, &shape)?;
    let plain = graph.transpose(&stored, &order)?;
    let plain = graph.reshape(&plain, w.shape())?;
    let weights = w.weight().and_then(|weight| weight.tensor.as_slice::<f32>());
    let Some(weights) = weights.filter(|weights| !weights.is_empty()) else {
        return Ok(Filters { plain, outputs: m, inputs: c });
    };
    let (b, row) = (block as usize, weights.len() / (m / block) as usize);
    // The last block of outputs, and in each block of outputs the last one of inputs.
    let output = |last: usize| weights[weights.len() - row..].iter().skip(last).step_by(b);
    let outputs = m - empty(b, |last| output(last).all(|weight| *weight == 0.0));
    let tile = row / if has_inputs { (c / block) as usize } else { 1 };
    let tiles = || weights.chunks_exact(row).map(|row| &row[row.len() - tile..]);
    let is_empty = |last: usize| {
        let mut rows = tiles().flat_map(|tile| tile.chunks_exact(b).skip(last).step_by(b));
        rows.all(|row| row.iter().all(|weight| *weight == 0.0))
    };
    let inputs = if has_inputs { c - empty(b, is_empty) } else { c };
    Ok(Filters { plain, outputs, inputs })
}

/// How many of a block, from its end on, are empty; not all of them.
fn empty(block: usize, is_empty: impl Fn(usize) -> bool) -> i64 {
    (1..block).rev().take_while(|last| is_empty(*last)).count() as i64
}

/// How many elements of a constant vector, up to its end, are zero; none where it is not known.
fn zeros_behind(vector: &Operand) -> usize {
    let Some(numbers) = vector.numbers() else { return 0 };
    numbers.iter().rev().take_while(|number| number.as_f64() == 0.0).count()
}

/// The first channels of a value, which must have as many.
fn first_channels(graph: &mut Graph, x: &Operand, axis: usize, count: i64) -> Accepted<Operand> {
    graph.slice_axis(x, axis, Expr::ZERO, 1, Expr::from(count))
}

/// `Conv`, with another value added and an activation. Channels that fill the last block are not
/// computed: they are what the activation makes of zero. An input that comes from the plain order
/// does not have them at all.
pub(super) fn conv(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (x, filters) = (node.input(0)?, filters(graph, node.input(1)?, node.filter_block)?);
    let all = filters.plain.shape()[0].as_constant().unwrap_or(0);
    let Some(channels) = x.shape().get(1).and_then(Expr::as_constant) else {
        return Err(unsupported("channels in blocks whose number is not fixed"));
    };
    let groups = node.int("group", 1)?;
    let bias_zeros = node.optional(2).map_or(all, |bias| zeros_behind(bias) as i64);
    let mut outputs = filters.outputs.max(all - bias_zeros);
    let mut proto = node.proto.clone();
    let (mut inputs, mut w) = (node.inputs.clone(), filters.plain.clone());
    if groups == 1 {
        let kept = filters.inputs.min(channels);
        inputs[0] = Some(first_channels(graph, x, 1, kept)?);
        w = first_channels(graph, &w, 1, kept)?;
    } else if groups == all {
        // Each channel has a filter of its own; those that are not there are zero.
        outputs = outputs.min(channels);
        if bias_zeros < all - outputs {
            return Err(shape_error(format!("{channels} channels, but {all} filters")));
        }
        inputs[0] = Some(first_channels(graph, x, 1, outputs)?);
        proto.attribute.iter_mut().filter(|it| it.name == "group").for_each(|it| it.i = outputs);
    } else {
        outputs = all;
    }
    inputs[1] = Some(first_channels(graph, &w, 0, outputs)?);
    if let Some(bias) = node.optional(2) {
        inputs[2] = Some(first_channels(graph, bias, 0, outputs)?);
    }
    let parameters = node.floats("activation_params")?.unwrap_or_default();
    let mut rest = None;
    if let Some(other) = node.optional(3) {
        inputs[3] = Some(first_channels(graph, other, 1, outputs)?);
        if outputs < all {
            let behind = Expr::from(all - outputs);
            let other = graph.slice_axis(other, 1, Expr::from(outputs), 1, behind)?;
            rest = Some(activated(node, graph, &other, &parameters)?);
        }
    }
    let own = Node { proto: &proto, ..node.with(inputs, 11) };
    let result = only(fused_conv(&own, graph))?;
    if outputs == all {
        return Ok(vec![result]);
    }
    let rest = match rest {
        Some(rest) => rest,
        None => {
            let zero = graph.number(result.dtype(), 0.0);
            let fill = activated(node, graph, &zero, &parameters)?;
            let mut shape = result.shape().to_vec();
            shape[1] = Expr::from(all - outputs);
            graph.broadcast_to(&fill, shape)?
        }
    };
    Ok(vec![graph.concat(1, &[result, rest])?])
}

/// `Upsample`: factors are whole numbers.
pub(super) fn upsample(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let factors = node.ints("scales")?.unwrap_or_default();
    let factors: Vec<f64> = factors.into_iter().map(|factor| factor as f64).collect();
    upsample_by(node, graph, &factors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{AttributeProto, TensorProto};

    /// A graph with a filter of so many outputs of 16 channels, of which so many are kept.
    fn graph(m: i64, channels: i64) -> GraphProto {
        let node = |op_type: &str, input: &[&str], output: &str| NodeProto {
            op_type: op_type.into(),
            domain: super::super::table::BLOCKED.into(),
            input: input.iter().map(|name| (*name).into()).collect(),
            output: vec![output.into()],
            ..NodeProto::default()
        };
        let conv = node("Conv", &["x", "w"], "y");
        let mut reorder = node("ReorderOutput", &["y"], "z");
        let kept = AttributeProto { name: "channels".into(), i: channels, ..Default::default() };
        reorder.attribute.push(kept);
        let w = TensorProto { name: "w".into(), dims: vec![m, 16, 3, 3], ..Default::default() };
        GraphProto { node: vec![conv, reorder], initializer: vec![w], ..Default::default() }
    }

    #[test]
    fn all_filters_of_a_file_tell_how_long_blocks_are() {
        assert_eq!(filter_block(&graph(24, 24)), SHORT_BLOCK);
        assert_eq!(filter_block(&graph(32, 24)), LONG_BLOCK);
        assert!([SHORT_BLOCK, LONG_BLOCK].contains(&filter_block(&graph(32, 32))));
    }
}
