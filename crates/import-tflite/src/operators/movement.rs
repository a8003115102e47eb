//! Operators that move elements by rules that do not depend on data.

use front::{Accepted, Graph, Known, Operand, shape_error, unsupported};
use sym::Expr;
use tensor::{DType, Scalar, Tensor};

use super::convolution::positive;
use super::elementwise::on_scale_of_result;
use crate::node::{Activation, Lowered, Node, integer_range};

/// The extents that an input has as known elements.
pub(super) fn shape_of(node: &Node<'_>, number: usize, name: &str) -> Accepted<Vec<Expr>> {
    let value = node.input(number)?;
    let missing = || unsupported(format!("`{name}` is computed from data"));
    if value.rank() > 1 || !value.dtype().is_integer() {
        return Err(shape_error(format!("`{name}` is no list of integers")));
    }
    if let Some(known) = value.known() {
        return known.iter().map(|it| it.expr().ok_or_else(missing)).collect();
    }
    let numbers = value.numbers().ok_or_else(missing)?;
    Ok(numbers.into_iter().map(|it| Expr::from(it.as_i64())).collect())
}

/// `RESHAPE`: -1 stands for what is left.
pub(super) fn reshape(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let mut shape = match node.optional(1)? {
        Some(_) => shape_of(node, 1, "shape")?,
        None => node.options()?.ints(0)?.into_iter().map(|it| Expr::from(i64::from(it))).collect(),
    };
    // Old files have a list of one zero for no axes.
    if shape.len() == 1 && shape[0].is_zero() && x.shape().iter().all(Expr::is_one) {
        shape.clear();
    }
    let total: Expr = x.shape().iter().product();
    let open = |extent: &Expr| extent.as_constant() == Some(-1);
    let place = shape.iter().position(open);
    if let Some(place) = place {
        shape[place] = Expr::ONE;
        let rest: Expr = shape.iter().product();
        let fits = rest.as_constant().is_none_or(|rest| rest > 0 && total.divisible_by(rest));
        if shape.iter().any(open) || !fits {
            let (from, to) = (graph.builder.text(&total), graph.builder.text(&rest));
            return Err(shape_error(format!("{from} elements do not fall into {to}")));
        }
        shape[place] = total.floor_div(&rest);
    }
    Ok(vec![graph.reshape(&x, &shape)?])
}

/// `SQUEEZE`: some axes of extent 1 go, or all.
pub(super) fn squeeze(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let given = node.options()?.ints(0)?;
    let axes = match given.is_empty() {
        true => (0..x.rank()).filter(|axis| x.shape()[*axis].is_one()).collect(),
        false => {
            let axes: Vec<i64> = given.into_iter().map(i64::from).collect();
            front::normalize_axes(&axes, x.rank())?
        }
    };
    for axis in &axes {
        graph.assume_equal_axes(&x.shape()[*axis], &Expr::ONE, &format!("axis {axis}"))?;
    }
    Ok(vec![front::without_axes(graph, &x, &axes)?])
}

/// `EXPAND_DIMS`
pub(super) fn expand(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let axis = front::normalize_axis(node.integer(1, "axis")?, x.rank() + 1)?;
    let mut shape = x.shape().to_vec();
    shape.insert(axis, Expr::ONE);
    Ok(vec![graph.reshape(&x, &shape)?])
}

/// `TRANSPOSE`
pub(super) fn transpose(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let order = front::normalize_axes(&node.integers(1, "perm")?, x.rank())?;
    Ok(vec![graph.transpose(&x, &order)?])
}

/// `CONCATENATION`: of unsigned bytes also those of other scales.
pub(super) fn concat(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let options = node.options()?;
    let mut values = node.inputs()?;
    let first = values.first().ok_or_else(|| shape_error("there is nothing to put together"))?;
    let axis = node.axis(options.int(0)?, first.rank())?;
    let activation = options.activation(1)?;
    let is_quantised = node.output(0)?.is_quantised()? && node.is_quantised(0)?;
    if is_quantised {
        let result = node.result_affine()?;
        for (number, value) in values.iter_mut().enumerate() {
            let own = node.affine(number)?;
            if own == result {
                continue;
            }
            if node.dtype()? != DType::U8 {
                let tensor = node.tensor(number)?;
                return Err(tensor.refused("its scale is not that of the values beside it"));
            }
            // In single precision, as the kernel does it.
            let factor = own.scale * (1.0 / result.scale);
            let offset = -(own.zero_point as f32) * factor;
            let number = graph.cast(value, DType::F32)?;
            let number = graph.mul_number(&number, f64::from(factor))?;
            let number = graph.add_number(&number, f64::from(offset))?;
            let number = super::quantise::rounded_away(graph, &number)?;
            let number = graph.add_number(&number, f64::from(result.zero_point))?;
            let (low, high) = integer_range(DType::U8);
            let number = graph.clamp(&number, f64::from(low), f64::from(high))?;
            *value = graph.cast(&number, DType::U8)?;
        }
    }
    let result = graph.concat(axis, &values)?;
    match activation {
        Activation::None => Ok(vec![result]),
        _ if is_quantised => Err(unsupported("a fused activation of quantised values")),
        activation => Ok(vec![activation.of(graph, &result)?]),
    }
}

/// A value in parts along an axis.
fn parts(graph: &mut Graph, x: &Operand, axis: usize, extents: &[Expr]) -> Lowered {
    let total: Expr = extents.iter().sum();
    graph.assume_equal_axes(&x.shape()[axis], &total, &format!("axis {axis} and its parts"))?;
    let mut start = Expr::ZERO;
    let mut parts = Vec::new();
    for extent in extents {
        parts.push(graph.slice_axis(x, axis, start.clone(), 1, extent.clone())?);
        start += extent;
    }
    Ok(parts)
}

/// `SPLIT`: equal parts.
pub(super) fn split(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(1)?;
    let axis = front::normalize_axis(node.integer(0, "axis")?, x.rank())?;
    let count = node.entry.outputs.len() as i64;
    let extent = &x.shape()[axis];
    if count == 0 || !extent.divisible_by(count) {
        let extent = graph.builder.text(extent);
        return Err(shape_error(format!("an axis of {extent} does not fall into {count} parts")));
    }
    let each = extent.floor_div(&Expr::from(count));
    parts(graph, &x, axis, &vec![each; count as usize])
}

/// `SPLIT_V`: parts of given extents; -1 stands for what is left.
pub(super) fn split_at(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let axis = front::normalize_axis(node.integer(2, "axis")?, x.rank())?;
    let mut extents = shape_of(node, 1, "sizes")?;
    let open = |extent: &Expr| extent.as_constant() == Some(-1);
    if let Some(place) = extents.iter().position(open) {
        extents[place] = Expr::ZERO;
        if extents.iter().any(open) {
            return Err(shape_error("more than one part has what is left"));
        }
        extents[place] = &x.shape()[axis] - extents.iter().sum::<Expr>();
    }
    if extents.iter().any(|extent| graph.builder.bounds(extent).1 < 0) {
        return Err(shape_error("a part has a negative extent"));
    }
    parts(graph, &x, axis, &extents)
}

/// `PACK`: values behind each other along a new axis.
pub(super) fn pack(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let values = node.inputs()?;
    let first = values.first().ok_or_else(|| shape_error("there is nothing to put together"))?;
    let axis = node.axis(node.options()?.int(1)?, first.rank() + 1)?;
    let mut rows = Vec::new();
    for value in &values {
        let mut shape = value.shape().to_vec();
        if shape.len() < axis {
            return Err(shape_error("values of other ranks"));
        }
        shape.insert(axis, Expr::ONE);
        rows.push(graph.reshape(value, &shape)?);
    }
    Ok(vec![graph.concat(axis, &rows)?])
}

/// `UNPACK`: the slices along an axis, which goes.
pub(super) fn unpack(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let axis = node.axis(node.options()?.int(1)?, x.rank())?;
    let count = node.entry.outputs.len();
    let rows = parts(graph, &x, axis, &vec![Expr::ONE; count])?;
    rows.iter().map(|row| front::without_axes(graph, row, &[axis])).collect()
}

/// `SLICE`: where it begins and how far it goes, -1 for all that is left.
pub(super) fn slice(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let (starts, mut shape) = (shape_of(node, 1, "begin")?, shape_of(node, 2, "size")?);
    if starts.len() != x.rank() || shape.len() != x.rank() {
        return Err(shape_error(format!("a slice along {} axes of {}", starts.len(), x.rank())));
    }
    for (axis, extent) in shape.iter_mut().enumerate() {
        if extent.as_constant() == Some(-1) {
            *extent = &x.shape()[axis] - &starts[axis];
        }
        if graph.builder.bounds(extent).1 < 0 || graph.builder.bounds(&starts[axis]).1 < 0 {
            return Err(shape_error("a slice begins or ends outside of its axis"));
        }
    }
    Ok(vec![graph.slice(&x, &starts, &vec![1; x.rank()], &shape)?])
}

/// The masks of `STRIDED_SLICE`: a bit for each entry of its lists.
struct Masks {
    begin: i32,
    end: i32,
    ellipsis: i32,
    new_axis: i32,
    shrink: i32,
    /// Whether ends count from beginnings.
    offset: bool,
}

/// `STRIDED_SLICE`: as Python's subscripts.
pub(super) fn strided_slice(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let options = node.options()?;
    let masks = Masks {
        begin: options.int(0)?,
        end: options.int(1)?,
        ellipsis: options.int(2)?,
        new_axis: options.int(3)?,
        shrink: options.int(4)?,
        offset: options.flag(5, false)?,
    };
    let (begins, ends) = (shape_of(node, 1, "begin")?, shape_of(node, 2, "end")?);
    let steps = node.integers(3, "strides")?;
    if begins.len() != steps.len() || ends.len() != steps.len() || steps.len() > 31 {
        return Err(shape_error("its lists have other lengths"));
    }
    let rank = x.rank();
    let has = |mask: i32, entry: usize| mask & (1 << entry) != 0;
    let new_axes =
        (0..steps.len()).filter(|&entry| has(masks.new_axis, entry) && !has(masks.ellipsis, entry));
    let used = steps.len() - new_axes.count() - usize::from(masks.ellipsis != 0);
    let skipped = rank.checked_sub(used);
    let skipped =
        skipped.ok_or_else(|| shape_error(format!("more subscripts than {rank} axes")))?;
    let (mut starts, mut by) = (vec![Expr::ZERO; rank], vec![1; rank]);
    let (mut shape, mut kept) = (x.shape().to_vec(), Vec::new());
    let mut axis = 0;
    for entry in 0..steps.len() {
        if has(masks.ellipsis, entry) {
            kept.extend((axis..axis + skipped).map(Some));
            axis += skipped;
            continue;
        }
        if has(masks.new_axis, entry) {
            kept.push(None);
            continue;
        }
        if axis >= rank {
            return Err(shape_error(format!("more subscripts than {rank} axes")));
        }
        let step = steps[entry];
        if step == 0 || step.abs() > 1 << 30 {
            return Err(shape_error(format!("a stride of {step}")));
        }
        let shrinks = has(masks.shrink, entry);
        let first = (!has(masks.begin, entry) || shrinks).then(|| begins[entry].clone());
        let last = (!has(masks.end, entry)).then(|| match masks.offset {
            true => &begins[entry] + &ends[entry],
            false => ends[entry].clone(),
        });
        let extent = x.shape()[axis].clone();
        let (start, count) = subscript(graph, &extent, (first, last, step), shrinks)?;
        (starts[axis], by[axis], shape[axis]) = (start, step, count);
        if !shrinks {
            kept.push(Some(axis));
        }
        axis += 1;
    }
    kept.extend((axis..rank).map(Some));
    let slice = graph.slice(&x, &starts, &by, &shape)?;
    let extent = |axis: &Option<usize>| axis.map_or(Expr::ONE, |axis| shape[axis].clone());
    let shape: Vec<Expr> = kept.iter().map(extent).collect();
    Ok(vec![graph.reshape(&slice, &shape)?])
}

/// Where a subscript begins, and how many elements it has.
fn subscript(
    graph: &Graph,
    extent: &Expr,
    (first, last, step): (Option<Expr>, Option<Expr>, i64),
    shrinks: bool,
) -> Accepted<(Expr, Expr)> {
    let ranges = |symbol| graph.builder.range(symbol);
    let forwards = step > 0;
    let most = if forwards { extent.clone() } else { extent - 1 };
    let least = if forwards { Expr::ZERO } else { Expr::from(-1) };
    let counted = |place: Expr| {
        let place = if graph.builder.bounds(&place).1 < 0 { &place + extent } else { place };
        place.max(&least).min(&most).simplify(&ranges)
    };
    let default = if forwards { Expr::ZERO } else { most.clone() };
    let start = first.map_or(default, counted);
    if shrinks {
        return Ok((start, Expr::ONE));
    }
    let end = last.map_or_else(|| if forwards { most.clone() } else { least.clone() }, counted);
    let span = if forwards { &end - &start } else { &start - &end };
    let count = span.ceil_div(&Expr::from(step.abs())).max(&Expr::ZERO).simplify(&ranges);
    Ok((start, count))
}

/// Pairs of numbers for each axis of the data.
fn pairs(node: &Node<'_>, number: usize, rank: usize) -> Accepted<(Vec<i64>, Vec<i64>)> {
    let numbers = node.integers(number, "paddings")?;
    let fits = numbers.len() == 2 * rank && numbers.iter().all(|it| (0..1 << 30).contains(it));
    if !fits {
        return Err(shape_error(format!("paddings {numbers:?} for {rank} axes")));
    }
    Ok(numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])).unzip())
}

/// `PAD` and `PADV2`: surrounded by zeros, or by a number.
pub(super) fn pad(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let fill = match node.optional(2)? {
        Some(fill) => graph.reshape(&fill, &[])?,
        None if node.output(0)?.is_quantised()? => {
            let zero = node.result_affine()?.zero_point;
            Operand::of_scalar(Scalar::from_i64(x.dtype(), i64::from(zero)))
        }
        None => Operand::of_scalar(Scalar::zero(x.dtype())),
    };
    if fill.dtype() != x.dtype() {
        return Err(front::type_error(format!("{} around {}", fill.dtype(), x.dtype())));
    }
    let (low, high) = pairs(node, 1, x.rank())?;
    let exprs = |them: Vec<i64>| them.into_iter().map(Expr::from).collect::<Vec<Expr>>();
    let interior = vec![0; x.rank()];
    Ok(vec![graph.pad(&x, &fill, &exprs(low), &exprs(high), &interior)?])
}

/// `MIRROR_PAD`: surrounded by its own elements in the opposite order, with those at the ends or
/// without.
pub(super) fn mirror_pad(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let mut x = node.input(0)?;
    let (low, high) = pairs(node, 1, x.rank())?;
    let without_ends = match node.options()?.number(0, 0_i8)? {
        0 => 1,
        1 => 0,
        other => return Err(unsupported(format!("mode {other}"))),
    };
    for axis in 0..x.rank() {
        let extent = x.shape()[axis].clone();
        let (before, behind) = (low[axis], high[axis]);
        let most = graph.builder.bounds(&(&extent - without_ends)).0;
        if before.max(behind) > most.max(0) {
            return Err(shape_error(format!("axis {axis} is shorter than its padding")));
        }
        let mut around = Vec::new();
        if before > 0 {
            let start = Expr::from(before - 1 + without_ends);
            around.push(graph.slice_axis(&x, axis, start, -1, Expr::from(before))?);
        }
        around.push(x.clone());
        if behind > 0 {
            let start = &extent - 1 - without_ends;
            around.push(graph.slice_axis(&x, axis, start, -1, Expr::from(behind))?);
        }
        x = graph.concat(axis, &around)?;
    }
    Ok(vec![x])
}

/// `TILE`: the whole repeated along each axis.
pub(super) fn tile(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let times = shape_of(node, 1, "multiples")?;
    if times.len() != x.rank() || times.iter().any(|it| graph.builder.bounds(it).0 < 0) {
        return Err(shape_error(format!("{} multiples for {} axes", times.len(), x.rank())));
    }
    let (mut narrow, mut wide, mut shape) = (Vec::new(), Vec::new(), Vec::new());
    for (extent, count) in x.shape().iter().zip(&times) {
        narrow.extend([Expr::ONE, extent.clone()]);
        wide.extend([count.clone(), extent.clone()]);
        shape.push(extent * count);
    }
    let value = graph.reshape(&x, &narrow)?;
    let value = graph.broadcast_to(&value, wide)?;
    Ok(vec![graph.reshape(&value, &shape)?])
}

/// `BROADCAST_TO`
pub(super) fn broadcast(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let shape = shape_of(node, 1, "shape")?;
    Ok(vec![graph.broadcast_to(&node.input(0)?, shape)?])
}

/// `SHAPE`: the extents.
pub(super) fn shape(node: &Node<'_>, _: &mut Graph) -> Lowered {
    let (x, dtype) = (node.input(0)?, node.dtype()?);
    let extents: Vec<Known> =
        x.shape().iter().map(|extent| Known::of(dtype, extent.clone())).collect();
    Ok(vec![Operand::of_known(dtype, &[extents.len()], extents)])
}

/// `RANK`: the number of axes.
pub(super) fn rank(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    Ok(vec![graph.number(node.dtype()?, node.input(0)?.rank() as f64)])
}

/// `FILL`: one value throughout.
pub(super) fn fill(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let value = graph.reshape(&node.input(1)?, &[])?;
    Ok(vec![graph.broadcast_to(&value, shape_of(node, 0, "dims")?)?])
}

/// `ZEROS_LIKE`
pub(super) fn zeros(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    Ok(vec![graph.full(x.shape(), Scalar::zero(x.dtype()))?])
}

/// `RANGE`: numbers from one to another.
pub(super) fn range(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let dtype = node.dtype()?;
    let given: Vec<Operand> = node.inputs()?;
    let [start, limit, step] = &given[..] else {
        return Err(shape_error("it takes three numbers"));
    };
    let one = |it: &Operand| Some(it.numbers()?.first()?.as_f64());
    if let (Some(start), Some(limit), Some(step)) = (one(start), one(limit), one(step)) {
        let count = ((limit - start) / step).ceil().max(0.0);
        if step == 0.0 || !count.is_finite() {
            return Err(shape_error(format!("steps of {step} from {start} to {limit}")));
        }
        graph.count_computed(count.min(u32::MAX.into()) as usize, "numbers of a range")?;
        let numbers: Vec<Scalar> = (0..count as usize)
            .map(|place| Scalar::from_f64(dtype, start + place as f64 * step))
            .collect();
        let tensor = Tensor::from_scalars(dtype, &[numbers.len()], &numbers);
        return Ok(vec![front::constant_value("", tensor, false)]);
    }
    let first = start.known().and_then(|known| known.first()?.expr());
    let last = limit.known().and_then(|known| known.first()?.expr());
    match (first, last, one(step)) {
        (Some(first), Some(last), Some(1.0)) if dtype.is_integer() => {
            let count = graph.iota(dtype, &[&last - &first], 0)?;
            let start = graph.cast(start, dtype)?;
            let start = graph.reshape(&start, &[])?;
            Ok(vec![graph.add(&count, &start)?])
        }
        _ => Err(unsupported("a range whose ends are computed from data")),
    }
}

/// A block size, which is positive.
fn block(node: &Node<'_>) -> Accepted<i64> {
    Ok(positive(&[node.options()?.int(0)?], "a block")?[0])
}

/// `[n, height, width, channels]` with four axes.
fn picture(node: &Node<'_>) -> Accepted<Operand> {
    let x = node.input(0)?;
    match x.rank() {
        4 => Ok(x),
        rank => Err(shape_error(format!("the data have {rank} axes, not 4"))),
    }
}

/// An extent in blocks.
fn divided(extent: &Expr, by: i64) -> Accepted<Expr> {
    match extent.divisible_by(by) {
        true => Ok(extent.floor_div(&Expr::from(by))),
        false => Err(shape_error(format!("an axis does not fall into blocks of {by}"))),
    }
}

/// `SPACE_TO_DEPTH`: blocks of a picture become channels.
pub(super) fn space_to_depth(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (x, block) = (picture(node)?, block(node)?);
    let [n, h, w, c] = [0, 1, 2, 3].map(|axis| x.shape()[axis].clone());
    let (h, w, b) = (divided(&h, block)?, divided(&w, block)?, Expr::from(block));
    let split = [n.clone(), h.clone(), b.clone(), w.clone(), b, c.clone()];
    let value = graph.reshape(&x, &split)?;
    let value = graph.transpose(&value, &[0, 1, 3, 2, 4, 5])?;
    Ok(vec![graph.reshape(&value, &[n, h, w, c * block * block])?])
}

/// `DEPTH_TO_SPACE`: channels become blocks of a picture.
pub(super) fn depth_to_space(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (x, block) = (picture(node)?, block(node)?);
    let [n, h, w, c] = [0, 1, 2, 3].map(|axis| x.shape()[axis].clone());
    let (c, b) = (divided(&c, block * block)?, Expr::from(block));
    let split = [n.clone(), h.clone(), w.clone(), b.clone(), b, c.clone()];
    let value = graph.reshape(&x, &split)?;
    let value = graph.transpose(&value, &[0, 1, 3, 2, 4, 5])?;
    Ok(vec![graph.reshape(&value, &[n, h * block, w * block, c])?])
}

/// Blocks and what is added or left out around each of the axes behind the first.
fn blocks(node: &Node<'_>) -> Accepted<(Vec<i64>, Vec<i64>, Vec<i64>)> {
    let blocks = node.integers(1, "block_shape")?;
    if blocks.iter().any(|block| !(1..1 << 30).contains(block)) {
        return Err(shape_error(format!("blocks of {blocks:?}")));
    }
    let (low, high) = pairs(node, 2, blocks.len())?;
    Ok((blocks, low, high))
}

/// `SPACE_TO_BATCH_ND`: the places within blocks go to the first axis.
pub(super) fn space_to_batch(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let (blocks, low, high) = blocks(node)?;
    let (count, rank) = (blocks.len(), x.rank());
    if rank <= count {
        return Err(shape_error(format!("blocks along {count} axes of {rank}")));
    }
    let (mut before, mut behind) = (vec![Expr::ZERO; rank], vec![Expr::ZERO; rank]);
    for axis in 0..count {
        (before[1 + axis], behind[1 + axis]) = (Expr::from(low[axis]), Expr::from(high[axis]));
    }
    let zero = match node.output(0)?.is_quantised()? {
        true => i64::from(node.result_affine()?.zero_point),
        false => 0,
    };
    let zero = Operand::of_scalar(Scalar::from_i64(x.dtype(), zero));
    let x = graph.pad(&x, &zero, &before, &behind, &vec![0; rank])?;
    let mut split = vec![x.shape()[0].clone()];
    let mut shape = vec![&x.shape()[0] * blocks.iter().product::<i64>()];
    for (axis, block) in blocks.iter().enumerate() {
        let own = divided(&x.shape()[1 + axis], *block)?;
        split.extend([own.clone(), Expr::from(*block)]);
        shape.push(own);
    }
    split.extend_from_slice(&x.shape()[1 + count..]);
    shape.extend_from_slice(&x.shape()[1 + count..]);
    let mut order: Vec<usize> = (0..count).map(|axis| 2 + 2 * axis).collect();
    order.push(0);
    order.extend((0..count).map(|axis| 1 + 2 * axis));
    order.extend(1 + 2 * count..split.len());
    let value = graph.reshape(&x, &split)?;
    let value = graph.transpose(&value, &order)?;
    Ok(vec![graph.reshape(&value, &shape)?])
}

/// `BATCH_TO_SPACE_ND`: the way back.
pub(super) fn batch_to_space(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let (blocks, low, high) = blocks(node)?;
    let (count, rank) = (blocks.len(), x.rank());
    if rank <= count {
        return Err(shape_error(format!("blocks along {count} axes of {rank}")));
    }
    let all = blocks.iter().try_fold(1_i64, |all, block| all.checked_mul(*block));
    let all = all.ok_or_else(|| shape_error("blocks that are too large"))?;
    let own = divided(&x.shape()[0], all)?;
    let mut split: Vec<Expr> = blocks.iter().map(|block| Expr::from(*block)).collect();
    split.push(own.clone());
    split.extend_from_slice(&x.shape()[1..]);
    let mut order = vec![count];
    let mut shape = vec![own];
    for (axis, block) in blocks.iter().enumerate() {
        order.extend([count + 1 + axis, axis]);
        shape.push(&x.shape()[1 + axis] * *block);
    }
    order.extend(2 * count + 1..split.len());
    shape.extend_from_slice(&x.shape()[1 + count..]);
    let value = graph.reshape(&x, &split)?;
    let value = graph.transpose(&value, &order)?;
    let value = graph.reshape(&value, &shape)?;
    let mut starts = vec![Expr::ZERO; rank];
    for axis in 0..count {
        starts[1 + axis] = Expr::from(low[axis]);
        shape[1 + axis] = &shape[1 + axis] - (low[axis] + high[axis]);
        if graph.builder.bounds(&shape[1 + axis]).1 < 0 {
            return Err(shape_error("more is left out than there is"));
        }
    }
    Ok(vec![graph.slice(&value, &starts, &vec![1; rank], &shape)?])
}

/// The greater or the lesser of two, whose scales may not be the result's.
pub(super) fn extreme(
    node: &Node<'_>,
    graph: &mut Graph,
    function: tensor::ScalarFunction,
) -> Lowered {
    let (mut a, mut b) = (node.input(0)?, node.input(1)?);
    if node.is_quantised(0)? && node.is_quantised(1)? && node.output(0)?.is_quantised()? {
        a = on_scale_of_result(node, graph, (0, &a))?;
        b = on_scale_of_result(node, graph, (1, &b))?;
    }
    Ok(vec![graph.map(function, &[&a, &b])?])
}
