//! Operators that move elements by rules that do not depend on data.

use front::{Accepted, Graph, Operand, normalize_axes, normalize_axis, shape_error};
use sym::Expr;
use tensor::{DType, Scalar, ScalarFunction as F};

use super::Lowered;
use crate::node::{Node, attribute_error, unsupported};
use front::gather_axis;

/// The axes in another order, reversed if none is given.
pub(super) fn transpose(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let permutation = match node.ints("perm")? {
        Some(axes) => normalize_axes(&axes, x.rank())?,
        None => (0..x.rank()).rev().collect(),
    };
    Ok(vec![graph.transpose(x, &permutation)?])
}

/// The inputs behind each other along an axis.
pub(super) fn concat(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let inputs = node.all_inputs()?;
    let rank = node.input(0)?.rank();
    if node.version >= 4 && !node.has("axis") {
        return Err(attribute_error("axis", "it is missing"));
    }
    let axis = node.axis("axis", 1, rank)?;
    if let Some(other) = inputs.iter().find(|input| input.rank() != rank) {
        return Err(shape_error(format!("ranks {rank} and {}", other.rank())));
    }
    Ok(vec![graph.concat(axis, &inputs)?])
}

/// Parts along an axis: of given sizes, or equal ones of which the last may be smaller.
pub(super) fn split(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let axis = node.axis("axis", 0, x.rank())?;
    let extent = x.shape()[axis].clone();
    let given = match node.version {
        ..2 if node.optional(1).is_some() => Some(node.sizes(1, "sizes of the parts", graph)?),
        ..13 => node.ints("split")?.map(|parts| parts.into_iter().map(Expr::from).collect()),
        _ => match node.optional(1) {
            Some(_) => Some(node.sizes(1, "sizes of the parts", graph)?),
            None => None,
        },
    };
    let outputs = node.proto.output.len();
    let parts: Vec<Expr> = match given {
        Some(parts) => parts,
        None => {
            let count = node.int("num_outputs", outputs as i64)?;
            if count != outputs as i64 || count < 1 {
                let reason = format!("{count} parts for {outputs} outputs");
                return Err(attribute_error("num_outputs", reason));
            }
            equal_parts(graph, &extent, count, node.version >= 18)?
        }
    };
    if parts.len() != outputs {
        return Err(shape_error(format!("{} parts for {outputs} outputs", parts.len())));
    }
    if let Some(part) = parts.iter().find(|part| graph.builder.bounds(part).1 < 0) {
        return Err(shape_error(format!("a part of size {}", graph.builder.text(part))));
    }
    graph.assume_equal(&parts.iter().sum(), &extent)?;
    let mut start = Expr::ZERO;
    let mut results = Vec::with_capacity(parts.len());
    for part in parts {
        let next = &start + &part;
        results.push(graph.slice_axis(x, axis, start, 1, part)?);
        start = next;
    }
    Ok(results)
}

fn equal_parts(graph: &Graph, extent: &Expr, count: i64, uneven: bool) -> Accepted<Vec<Expr>> {
    if extent.divisible_by(count) {
        return Ok(vec![extent.floor_div(&Expr::from(count)); count as usize]);
    }
    let Some(number) = extent.as_constant().filter(|_| uneven) else {
        let extent = graph.builder.text(extent);
        return Err(shape_error(format!("an extent of {extent} does not fall into {count} parts")));
    };
    let part = (number + count - 1) / count;
    let size = |index: i64| (number - index * part).clamp(0, part);
    Ok((0..count).map(|index| Expr::from(size(index))).collect())
}

/// Ranges of indices along axes, from attributes before version 10, from inputs since.
pub(super) fn slice(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let rank = x.rank();
    let (starts, ends, axes, steps) = if node.version < 10 {
        let list = |name: &str| -> Accepted<Vec<Expr>> {
            let list = node.ints(name)?.ok_or_else(|| attribute_error(name, "it is missing"))?;
            Ok(list.into_iter().map(Expr::from).collect())
        };
        (list("starts")?, list("ends")?, node.ints("axes")?, None)
    } else {
        let optional = |index: usize, what: &str| {
            node.optional(index).map(|_| node.integers(index, what)).transpose()
        };
        let (axes, steps) = (optional(3, "axes")?, optional(4, "steps")?);
        if node.is_data(1) || node.is_data(2) {
            return slice_by_data(node, graph, axes, steps);
        }
        (node.exprs(1, "starts")?, node.exprs(2, "ends")?, axes, steps)
    };
    let axes = match axes {
        Some(axes) => normalize_axes(&axes, rank)?,
        None => (0..starts.len()).collect(),
    };
    let steps = steps.unwrap_or_else(|| vec![1; axes.len()]);
    let counts = [starts.len(), ends.len(), steps.len()];
    if counts != [axes.len(); 3] || axes.len() > rank {
        return Err(shape_error("starts, ends, axes and steps are not equally many"));
    }
    let mut first = vec![Expr::ZERO; rank];
    let mut by = vec![1; rank];
    let mut shape = x.shape().to_vec();
    for (number, &axis) in axes.iter().enumerate() {
        let (start, end, step) = (&starts[number], &ends[number], steps[number]);
        (first[axis], shape[axis]) = slice_axis(graph, &x.shape()[axis], start, end, step)?;
        by[axis] = step;
    }
    Ok(vec![graph.slice(x, &first, &by, &shape)?])
}

/// A slice whose bounds data give: how many indices there are is computed, too.
fn slice_by_data(
    node: &Node<'_>,
    graph: &mut Graph,
    axes: Option<Vec<i64>>,
    steps: Option<Vec<i64>>,
) -> Lowered {
    let (mut x, starts, ends) = (node.input(0)?.clone(), node.input(1)?, node.input(2)?);
    let count = starts.constant_shape().filter(|shape| shape.len() == 1).map(|shape| shape[0]);
    let Some(count) = count.filter(|_| starts.shape() == ends.shape()) else {
        return Err(node.not_known(1, "starts"));
    };
    let axes = match axes {
        Some(axes) => normalize_axes(&axes, x.rank())?,
        None => (0..count).collect(),
    };
    let steps = steps.unwrap_or_else(|| vec![1; axes.len()]);
    if [axes.len(), steps.len()] != [count; 2] || axes.len() > x.rank() {
        return Err(shape_error("starts, ends, axes and steps are not equally many"));
    }
    for (number, (axis, step)) in axes.into_iter().zip(steps).enumerate() {
        if step == 0 || step == i64::MIN {
            return Err(shape_error(format!("a step of {step}")));
        }
        let extent = x.shape()[axis].clone();
        let (start, end) = (
            bound_by_data(graph, starts, number, &extent, step)?,
            bound_by_data(graph, ends, number, &extent, step)?,
        );
        let distance = if step > 0 { graph.sub(&end, &start)? } else { graph.sub(&start, &end)? };
        let size = Operand::of_scalar(Scalar::i64(step.abs()));
        let rounded = graph.add(&distance, &Operand::of_scalar(Scalar::i64(step.abs() - 1)))?;
        let zero = Operand::of_scalar(Scalar::i64(0));
        let rounded = graph.max(&rounded, &zero)?;
        let count = graph.div(&rounded, &size)?;
        let count = graph.bind(&count, &extent)?;
        let turns = graph.iota(DType::I64, std::slice::from_ref(&count), 0)?;
        let offsets = graph.mul(&turns, &Operand::of_scalar(Scalar::i64(step)))?;
        let places = graph.add(&offsets, &start)?;
        x = gather_axis(graph, &x, axis, &places)?;
    }
    Ok(vec![x])
}

/// A bound of a slice along an axis, as Python has it.
fn bound_by_data(
    graph: &mut Graph,
    bounds: &Operand,
    number: usize,
    extent: &Expr,
    step: i64,
) -> Accepted<Operand> {
    let one = graph.slice_axis(bounds, 0, Expr::from(number), 1, Expr::ONE)?;
    let one = graph.reshape(&one, &[])?;
    let given = graph.cast(&one, DType::I64)?;
    let whole = graph.dimension(extent.clone());
    let wrapped = graph.add(&given, &whole)?;
    let negative = graph.less(&given, &Operand::of_scalar(Scalar::i64(0)))?;
    let place = graph.select(&negative, &wrapped, &given)?;
    let (least, most) = match step > 0 {
        true => (Expr::ZERO, extent.clone()),
        false => (Expr::from(-1), extent - 1),
    };
    let (least, most) = (graph.dimension(least), graph.dimension(most));
    let place = graph.min(&place, &most)?;
    graph.max(&place, &least)
}

/// The first index and the number of indices of a slice along an axis, as Python has it.
fn slice_axis(
    graph: &Graph,
    extent: &Expr,
    start: &Expr,
    end: &Expr,
    step: i64,
) -> Accepted<(Expr, Expr)> {
    if step == 0 || step == i64::MIN {
        return Err(shape_error(format!("a step of {step}")));
    }
    let ranges = |symbol| graph.builder.range(symbol);
    let (least, most) = match step > 0 {
        true => (Expr::ZERO, extent.clone()),
        false => (Expr::from(-1), extent - 1),
    };
    let place = |index: &Expr| -> Accepted<Expr> {
        let index = match graph.builder.bounds(index) {
            (0.., _) => index.clone(),
            (_, ..0) => index + extent,
            _ => {
                let index = graph.builder.text(index);
                return Err(unsupported(format!("whether index {index} is negative is not known")));
            }
        };
        Ok(index)
    };
    let (start, end) = (place(start)?, place(end)?);
    // Each bound needs to be kept from one side alone: beyond the other there is nothing between
    // them. So the extent does not occur twice, and slices of slices stay as short as they are.
    let distance = match step > 0 {
        true => end.min(&most) - &start.max(&least),
        false => start.min(&most) - &end.max(&least),
    };
    let count = distance.ceil_div(&Expr::from(step.abs())).max(&Expr::ZERO).simplify(&ranges);
    Ok((start.min(&most).max(&least).simplify(&ranges), count))
}

/// More elements around a tensor: a constant, or its own repeated by one of three rules.
pub(super) fn pad(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let rank = x.rank();
    let mode = node.word("mode", &["constant", "reflect", "edge", "wrap"])?;
    let pads = if node.version < 11 {
        let name = if node.version < 2 { "paddings" } else { "pads" };
        let pads = node.ints(name)?.ok_or_else(|| attribute_error(name, "it is missing"))?;
        pads.into_iter().map(Expr::from).collect()
    } else {
        node.exprs(1, "padding")?
    };
    let axes = match node.optional(3) {
        Some(_) => normalize_axes(&node.integers(3, "axes")?, rank)?,
        None => (0..rank).collect(),
    };
    if pads.len() != 2 * axes.len() {
        let (given, axes) = (pads.len(), axes.len());
        return Err(shape_error(format!("{given} numbers of padding for {axes} axes")));
    }
    let (mut low, mut high) = (vec![Expr::ZERO; rank], vec![Expr::ZERO; rank]);
    for (number, &axis) in axes.iter().enumerate() {
        (low[axis], high[axis]) = (pads[number].clone(), pads[axes.len() + number].clone());
    }
    if mode == "constant" {
        let fill = match node.optional(2) {
            Some(fill) => graph.reshape(fill, &[])?,
            None => graph.number(x.dtype(), node.float("value", 0.0)?),
        };
        return Ok(vec![graph.pad(x, &fill, &low, &high, &vec![0; rank])?]);
    }
    let mut result = x.clone();
    for axis in 0..rank {
        if !low[axis].is_zero() || !high[axis].is_zero() {
            result = pad_axis(graph, &result, axis, &low[axis], &high[axis], mode)?;
        }
    }
    Ok(vec![result])
}

/// An axis read at indices that run beyond its ends and are led back by the mode's rule.
fn pad_axis(
    graph: &mut Graph,
    x: &Operand,
    axis: usize,
    low: &Expr,
    high: &Expr,
    mode: &str,
) -> Accepted<Operand> {
    let extent = x.shape()[axis].clone();
    let padded = &extent + low + high;
    graph.check_size(std::slice::from_ref(&padded))?;
    if extent.is_zero() {
        return Err(shape_error(format!("axis {axis} is empty and has nothing to repeat")));
    }
    let index = graph.iota(DType::I64, &[padded], 0)?;
    let low = graph.dimension(low.clone());
    let index = graph.sub(&index, &low)?;
    let (zero, last) = (graph.number(DType::I64, 0.0), graph.dimension(&extent - 1));
    let index = match mode {
        "wrap" => {
            let extent = graph.dimension(extent);
            graph.map(F::Mod, &[&index, &extent])?
        }
        "reflect" if !extent.is_one() => {
            // A triangle wave of period 2 * last.
            let period = graph.add(&last, &last)?;
            let phase = graph.map(F::Mod, &[&index, &period])?;
            let mirrored = graph.sub(&period, &phase)?;
            graph.min(&phase, &mirrored)?
        }
        _ => {
            let index = graph.max(&index, &zero)?;
            graph.min(&index, &last)?
        }
    };
    graph.gather(x, &[axis], &[index], 0, axis)
}

/// The whole repeated along each axis.
pub(super) fn tile(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let mut repeats = node.sizes(1, "repeats", graph)?;
    if node.version < 6 {
        // One number, for one axis.
        let axis = normalize_axis(node.single_number(2, "axis")?.as_i64(), x.rank())?;
        let [repeat] = &repeats[..] else {
            return Err(shape_error(format!("{} numbers of repeats", repeats.len())));
        };
        let of_axis = |other| if other == axis { repeat.clone() } else { Expr::ONE };
        repeats = (0..x.rank()).map(of_axis).collect();
    }
    if repeats.len() != x.rank() {
        return Err(shape_error(format!("{} repeats for rank {}", repeats.len(), x.rank())));
    }
    let (mut split, mut wide, mut shape) = (Vec::new(), Vec::new(), Vec::new());
    for (extent, repeat) in x.shape().iter().zip(&repeats) {
        if graph.builder.bounds(repeat).0 < 0 {
            return Err(shape_error(format!(
                "an axis is repeated {} times",
                graph.builder.text(repeat)
            )));
        }
        split.extend([Expr::ONE, extent.clone()]);
        wide.extend([repeat.clone(), extent.clone()]);
        shape.push(extent * repeat);
    }
    graph.check_size(&shape)?;
    let value = graph.reshape(x, &split)?;
    let value = graph.broadcast_to(&value, &wide)?;
    Ok(vec![graph.reshape(&value, &shape)?])
}

/// The four extents of an image and the block size that its operator has.
fn blocks(node: &Node<'_>) -> Accepted<([Expr; 4], i64)> {
    let block = node.int("blocksize", 0)?;
    match node.input(0)?.shape() {
        [n, c, h, w] if (1..1 << 16).contains(&block) => {
            Ok(([n.clone(), c.clone(), h.clone(), w.clone()], block))
        }
        shape => Err(shape_error(format!("blocks of {block} of rank {}", shape.len()))),
    }
}

/// Channels become blocks of pixels.
pub(super) fn depth_to_space(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let ([n, c, h, w], block) = blocks(node)?;
    let (b, area) = (Expr::from(block), block * block);
    if !c.divisible_by(area) {
        return Err(shape_error(format!("the channels do not fall into {area} parts")));
    }
    let depth = c.floor_div(&Expr::from(area));
    let (split, permutation) = match node.word("mode", &["DCR", "CRD"])? {
        "DCR" => ([&n, &b, &b, &depth, &h, &w], [0, 3, 4, 1, 5, 2]),
        _ => ([&n, &depth, &b, &b, &h, &w], [0, 1, 4, 2, 5, 3]),
    };
    let value = graph.reshape(node.input(0)?, &split.map(Clone::clone))?;
    let value = graph.transpose(&value, &permutation)?;
    Ok(vec![graph.reshape(&value, &[n, depth, h * &b, w * &b])?])
}

/// Blocks of pixels become channels.
pub(super) fn space_to_depth(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let ([n, c, h, w], block) = blocks(node)?;
    let b = Expr::from(block);
    if !h.divisible_by(block) || !w.divisible_by(block) {
        return Err(shape_error(format!("the image does not fall into blocks of {block}")));
    }
    let (rows, columns) = (h.floor_div(&b), w.floor_div(&b));
    let split = [&n, &c, &rows, &b, &columns, &b].map(Clone::clone);
    let value = graph.reshape(node.input(0)?, &split)?;
    let value = match node.word("mode", &["DCR", "CRD"])? {
        "DCR" => graph.transpose(&value, &[0, 3, 5, 1, 2, 4])?,
        _ => graph.transpose(&value, &[0, 1, 3, 5, 2, 4])?,
    };
    Ok(vec![graph.reshape(&value, &[n, c * (block * block), rows, columns])?])
}

/// The first elements of each sequence in reverse order, as many as an input says.
pub(super) fn reverse_sequence(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (x, lengths) = (node.input(0)?, node.input(1)?);
    let (batch, time) =
        (node.axis("batch_axis", 1, x.rank())?, node.axis("time_axis", 0, x.rank())?);
    if batch == time || batch > 1 || time > 1 {
        return Err(shape_error("batch and time must be the first two axes"));
    }
    let shape = [x.shape()[0].clone(), x.shape()[1].clone()];
    let position = graph.iota(DType::I64, &shape, time)?;
    let lengths = graph.cast(lengths, DType::I64)?;
    let lengths = graph.broadcast_axis(&lengths, &shape, batch)?;
    let inside = graph.less(&position, &lengths)?;
    let last = graph.add_number(&lengths, -1.0)?;
    let mirrored = graph.sub(&last, &position)?;
    let source = graph.select(&inside, &mirrored, &position)?;
    let other = graph.iota(DType::I64, &shape, batch)?;
    let indices = if time == 0 { [source, other] } else { [other, source] };
    Ok(vec![graph.gather(x, &[0, 1], &indices, 0, 0)?])
}

/// The elements on and above (or below) a diagonal, zeros elsewhere.
pub(super) fn triangle(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let rank = x.rank();
    if rank < 2 {
        return Err(shape_error(format!("a tensor of rank {rank} has no triangles")));
    }
    let offset = match node.optional(1) {
        Some(diagonal) => graph.reshape(diagonal, &[])?,
        None => graph.number(DType::I64, 0.0),
    };
    let upper = node.flag("upper", true)?;
    let difference = diagonal_distance(graph, &x.shape()[rank - 2..])?;
    let inside = match upper {
        true => graph.greater_equal(&difference, &offset)?,
        false => graph.less_equal(&difference, &offset)?,
    };
    let zero = graph.number(x.dtype(), 0.0);
    Ok(vec![graph.select(&inside, x, &zero)?])
}

/// Column less row, for each element of a matrix.
pub(super) fn diagonal_distance(graph: &mut Graph, shape: &[Expr]) -> Accepted<Operand> {
    let row = graph.iota(DType::I64, shape, 0)?;
    let column = graph.iota(DType::I64, shape, 1)?;
    graph.sub(&column, &row)
}

/// The middle of the input along axes, or the input in the middle of zeros.
pub(super) fn center_crop_pad(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let rank = x.rank();
    let axes = match node.ints("axes")? {
        Some(axes) => normalize_axes(&axes, rank)?,
        None => (0..rank).collect(),
    };
    let wanted = node.integers(1, "new shape")?;
    if wanted.len() != axes.len() {
        return Err(shape_error(format!("{} extents for {} axes", wanted.len(), axes.len())));
    }
    let (mut low, mut high) = (vec![Expr::ZERO; rank], vec![Expr::ZERO; rank]);
    for (&axis, &wanted) in axes.iter().zip(&wanted) {
        let Some(extent) = x.shape()[axis].as_constant() else {
            return Err(unsupported("it crops or pads an axis of symbolic extent"));
        };
        // Halves are rounded down, be it elements cropped or padded.
        let missing = wanted.saturating_sub(extent);
        let before = missing / 2;
        let before = if missing < 0 { -((-missing) / 2) } else { before };
        (low[axis], high[axis]) = (Expr::from(before), Expr::from(missing - before));
    }
    let zero = graph.number(x.dtype(), 0.0);
    Ok(vec![graph.pad(x, &zero, &low, &high, &vec![0; rank])?])
}
