//! Boxes: suppression of those that overlap better ones, and samples of regions of images.

use front::{Accepted, Graph, Operand, constant_shape, shape_error, true_indices};
use graph::{IterationSpace, Op};
use sym::Expr;
use tensor::{DType, Reduction, Scalar, ScalarFunction as F};

use super::Lowered;
use super::windows::{entries, spatial};
use crate::node::{Node, attribute_error};

/// The sides of boxes along the last axis, each with an axis of extent 1 less.
struct Sides {
    low: [Operand; 2],
    high: [Operand; 2],
}

impl Sides {
    /// Of boxes `[..., 4]`: two opposite corners, or a centre with width and height.
    fn of(graph: &mut Graph, boxes: &Operand, by_centre: bool) -> Accepted<Sides> {
        let last = boxes.rank() - 1;
        let part = |graph: &mut Graph, number: usize| -> Accepted<Operand> {
            let part = graph.slice_axis(boxes, last, Expr::from(number), 1, Expr::ONE)?;
            graph.reshape(&part, &boxes.shape()[..last])
        };
        let (a, b) = (part(graph, 0)?, part(graph, 1)?);
        let (c, d) = (part(graph, 2)?, part(graph, 3)?);
        let side = |graph: &mut Graph,
                    first: &Operand,
                    second: &Operand|
         -> Accepted<(Operand, Operand)> {
            if by_centre {
                let half = graph.mul_number(second, 0.5)?;
                return Ok((graph.sub(first, &half)?, graph.add(first, &half)?));
            }
            Ok((graph.min(first, second)?, graph.max(first, second)?))
        };
        let (low_a, high_a) = side(graph, &a, &c)?;
        let (low_b, high_b) = side(graph, &b, &d)?;
        Ok(Sides { low: [low_a, low_b], high: [high_a, high_b] })
    }

    fn area(&self, graph: &mut Graph) -> Accepted<Operand> {
        let a = graph.sub(&self.high[0], &self.low[0])?;
        let b = graph.sub(&self.high[1], &self.low[1])?;
        graph.mul(&a, &b)
    }

    /// Whether the intersection with other boxes, over the union, exceeds a threshold.
    fn overlap(&self, graph: &mut Graph, other: &Sides, threshold: &Operand) -> Accepted<Operand> {
        let zero = graph.number(threshold.dtype(), 0.0);
        let mut common = None;
        for axis in 0..2 {
            let low = graph.max(&self.low[axis], &other.low[axis])?;
            let high = graph.min(&self.high[axis], &other.high[axis])?;
            let length = graph.sub(&high, &low)?;
            let length = graph.max(&length, &zero)?;
            common = Some(match common {
                Some(common) => graph.mul(&common, &length)?,
                None => length,
            });
        }
        let Some(common) = common else { return Err(shape_error("boxes without sides")) };
        let (own, others) = (self.area(graph)?, other.area(graph)?);
        let union = graph.add(&own, &others)?;
        let union = graph.sub(&union, &common)?;
        let ratio = graph.div(&common, &union)?;
        let mut is_over = graph.greater(&ratio, threshold)?;
        for area in [&common, &own, &others, &union] {
            let is_real = graph.greater(area, &zero)?;
            is_over = graph.and(&is_over, &is_real)?;
        }
        Ok(is_over)
    }
}

/// An optional input of one number, or what stands for it.
fn scalar(node: &Node<'_>, graph: &mut Graph, index: usize) -> Accepted<Option<Operand>> {
    match node.optional(index) {
        Some(value) if !value.shape().iter().any(Expr::is_zero) => {
            graph.reshape(value, &[]).map(Some)
        }
        _ => Ok(None),
    }
}

/// The least of the ranks `[1, 1, n]` at which boxes `[b, c, n]` are meant, or `none`: `[b, c, 1]`.
fn first_rank(
    graph: &mut Graph,
    is_meant: &Operand,
    ranks: &Operand,
    none: &Operand,
) -> Accepted<Operand> {
    let rank = graph.select(is_meant, ranks, none)?;
    let least = graph.reduce_axes(&rank, &[2], Reduction::Min, true)?;
    graph.min(&least, none)
}

/// `NonMaxSuppression`: boxes are looked at from the best score on; one is taken if none that was
/// taken before overlaps it too much. Results are rows of batch, class and box.
pub(super) fn non_max_suppression(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (boxes, scores) = (node.input(0)?, node.input(1)?);
    let ([_, _, four], [batch, classes, count]) = (boxes.shape(), scores.shape()) else {
        return Err(shape_error("boxes and scores must have three axes"));
    };
    if four.as_constant() != Some(4) {
        return Err(shape_error("a box is four numbers"));
    }
    let dtype = boxes.dtype();
    let boxes = graph.refine(boxes, &[batch.clone(), count.clone(), Expr::from(4)])?;
    let most = match scalar(node, graph, 2)? {
        Some(most) => graph.cast(&most, DType::I64)?,
        None => Operand::of_scalar(Scalar::i64(0)),
    };
    let threshold = match scalar(node, graph, 3)? {
        Some(threshold) => graph.cast(&threshold, dtype)?,
        None => graph.number(dtype, 0.0),
    };
    let by_centre = node.flag("center_point_box", false)?;

    // Boxes of each class in the order of their scores: [b, c, n] and [b, c, n, 4].
    let op = Op::Sort { axis: 2, descending: true, kept: None };
    let (sorted, order) = graph.primitive_pair(op, &[scores])?;
    let by_rank = graph.gather(&boxes, &[1], std::slice::from_ref(&order), 1, 0)?;
    let stays = match scalar(node, graph, 4)? {
        Some(least) => {
            let least = graph.cast(&least, sorted.dtype())?;
            graph.greater(&sorted, &least)?
        }
        None => graph.full(sorted.shape(), Scalar::bool(true))?,
    };
    let ranks = graph.iota(DType::I64, &[Expr::ONE, Expr::ONE, count.clone()], 2)?;
    let count = graph.dimension(count.clone());
    let all = Sides::of(graph, &by_rank, by_centre)?;

    // A turn takes the best box left of each class, whose rank is `next`, or the number of boxes.
    let first = first_rank(graph, &stays, &ranks, &count)?;
    let mut outer = vec![&most, &threshold, &ranks, &count, &by_rank];
    outer.extend(all.low.iter().chain(&all.high));
    let carried = [stays, first, Operand::of_scalar(Scalar::i64(0))];
    let results = graph.repeat_while(
        &carried,
        &outer,
        |graph, carried| {
            let is_one = graph.less(&carried[1], &count)?;
            let is_one = graph.reduce_axes(&is_one, &[0, 1, 2], Reduction::Or, false)?;
            let has_room = graph.less(&carried[2], &most)?;
            graph.and(&is_one, &has_room)
        },
        |graph, carried| {
            let [stays, next, taken] = carried else { unreachable!("as many as are given") };
            let last = graph.add_number(&count, -1.0)?;
            let place = graph.min(next, &last)?;
            let place = graph.reshape(&place, &[batch.clone(), classes.clone()])?;
            let own = graph.gather(&by_rank, &[2], &[place], 2, 0)?;
            let shape = [batch.clone(), classes.clone(), Expr::ONE, Expr::from(4)];
            let own = graph.reshape(&own, &shape)?;
            let own = Sides::of(graph, &own, by_centre)?;
            let over = own.overlap(graph, &all, &threshold)?;
            let is_later = graph.greater(&ranks, next)?;
            let over = graph.and(&over, &is_later)?;
            let is_kept = graph.map(F::Not, &[&over])?;
            let stays = graph.and(stays, &is_kept)?;
            let left = graph.and(&stays, &is_later)?;
            let next = first_rank(graph, &left, &ranks, &count)?;
            Ok(vec![stays, next, graph.add_number(taken, 1.0)?])
        },
    )?;
    let is_before = graph.less(&ranks, &results[1])?;
    let takes = graph.and(&results[0], &is_before)?;
    let places = true_indices(graph, &takes)?;
    let rows = places.shape()[0].clone();
    let mut columns = Vec::new();
    for axis in 0..3 {
        let column = graph.slice_axis(&places, 1, Expr::from(axis), 1, Expr::ONE)?;
        columns.push(graph.reshape(&column, std::slice::from_ref(&rows))?);
    }
    columns[2] = graph.gather(&order, &[0, 1, 2], &columns, 0, 0)?;
    for column in &mut columns {
        *column = graph.reshape(column, &[rows.clone(), Expr::ONE])?;
    }
    Ok(vec![graph.concat(1, &columns)?])
}

/// Where the samples of a region lie along one axis of the image.
struct Samples {
    /// Neighbours of each sample and their weights, `[regions, outputs, samples]`.
    low: Operand,
    high: Operand,
    low_weight: Operand,
    high_weight: Operand,
    /// Whether the sample is one of its region's.
    counts: Operand,
    /// The number of samples of each region, `[regions]`, as a float.
    number: Operand,
}

/// `RoiAlign`: the mean or the greatest of samples in each cell of a grid over each region.
pub(super) fn roi_align(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (x, regions, images) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let ([_, channels, _, _], [count, _]) = (x.shape(), regions.shape()) else {
        return Err(shape_error("the input must have four axes, the regions two"));
    };
    let (channels, count) = (channels.clone(), count.clone());
    let images = graph.cast(images, DType::I64)?;
    let images = graph.refine(&images, std::slice::from_ref(&count))?;
    let is_max = node.word("mode", &["avg", "max"])? == "max";
    let rows = axis_samples(node, graph, x, regions, 0)?;
    let columns = axis_samples(node, graph, x, regions, 1)?;
    // Axes: region, row, sample of a row, column, sample of a column.
    let (r, c) = (rows.low.shape().to_vec(), columns.low.shape().to_vec());
    let shape = [count.clone(), r[1].clone(), r[2].clone(), c[1].clone(), c[2].clone()];
    graph.check_size(&shape)?;
    let image = graph.broadcast(&images, &shape, &[0])?;
    let corners = [
        (&rows.low, &rows.low_weight, &columns.low, &columns.low_weight),
        (&rows.low, &rows.low_weight, &columns.high, &columns.high_weight),
        (&rows.high, &rows.high_weight, &columns.low, &columns.low_weight),
        (&rows.high, &rows.high_weight, &columns.high, &columns.high_weight),
    ];
    let wide: [Expr; 6] = std::array::from_fn(|axis| match axis {
        0 => shape[0].clone(),
        1 => channels.clone(),
        _ => shape[axis - 1].clone(),
    });
    let counts = {
        let a = graph.broadcast(&rows.counts, &wide, &[0, 2, 3])?;
        let b = graph.broadcast(&columns.counts, &wide, &[0, 4, 5])?;
        graph.and(&a, &b)?
    };
    let mut total: Option<Operand> = None;
    for (row, row_weight, column, column_weight) in corners {
        let row = graph.broadcast(row, &shape, &[0, 1, 2])?;
        let column = graph.broadcast(column, &shape, &[0, 3, 4])?;
        let indices = [image.clone(), row, column];
        let read = graph.gather(x, &[0, 2, 3], &indices, 0, 0)?;
        let read = graph.transpose(&read, &[0, 5, 1, 2, 3, 4])?;
        let a = graph.broadcast(row_weight, &wide, &[0, 2, 3])?;
        let b = graph.broadcast(column_weight, &wide, &[0, 4, 5])?;
        let weight = graph.mul(&a, &b)?;
        let term = graph.mul(&read, &weight)?;
        total = Some(match (total, is_max) {
            (None, _) => term,
            (Some(total), true) => graph.max(&total, &term)?,
            (Some(total), false) => graph.add(&total, &term)?,
        });
    }
    let Some(total) = total else { return Err(shape_error("a sample without neighbours")) };
    if is_max {
        let lowest = Operand::of_scalar(Reduction::Max.identity(total.dtype()));
        let total = graph.select(&counts, &total, &lowest)?;
        let greatest = graph.reduce_axes(&total, &[3, 5], Reduction::Max, false)?;
        // A region without samples is zero.
        let is_none = graph.equal(&greatest, &lowest)?;
        let zero = graph.number(total.dtype(), 0.0);
        return Ok(vec![graph.select(&is_none, &zero, &greatest)?]);
    }
    let zero = graph.number(total.dtype(), 0.0);
    let total = graph.select(&counts, &total, &zero)?;
    let sum = graph.reduce_axes(&total, &[3, 5], Reduction::Sum, false)?;
    let number = graph.mul(&rows.number, &columns.number)?;
    let one = graph.number(number.dtype(), 1.0);
    let number = graph.max(&number, &one)?;
    let number = graph.broadcast(&number, sum.shape(), &[0])?;
    Ok(vec![graph.div(&sum, &number)?])
}

/// `MaxRoiPool`: the greatest element of each cell of each region, whose edges are rounded to
/// elements; 0 for cells without any.
pub(super) fn max_roi_pool(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (x, regions) = (node.input(0)?, node.input(1)?);
    let ([_, channels, rows, columns], [count, _]) = (x.shape(), regions.shape()) else {
        return Err(shape_error("the input must have four axes, the regions two"));
    };
    let (channels, rows, columns) = (channels.clone(), rows.clone(), columns.clone());
    let cells = match node.ints("pooled_shape")?.as_deref() {
        Some(&[a, b]) if [a, b].iter().all(|cells| (1..1 << 20).contains(cells)) => {
            [Expr::from(a), Expr::from(b)]
        }
        _ => return Err(attribute_error("pooled_shape", "it must be two sizes above 0")),
    };
    let count = count.clone();
    let regions = graph.refine(regions, &[count.clone(), Expr::from(5)])?;
    let image = region_column(graph, &regions, 0)?;
    let image = graph.cast(&image, DType::I64)?;
    let read = graph.gather(x, &[0], &[image], 0, 0)?;
    let lowest = Operand::of_scalar(Reduction::Max.identity(x.dtype()));
    let (of_rows, of_columns) =
        (axis_cells(node, graph, x, &regions, 0)?, axis_cells(node, graph, x, &regions, 1)?);
    // Axes: region, channel, row of cells, row, column; then row and column of cells, column.
    let wide = [count.clone(), channels.clone(), cells[0].clone(), rows, columns.clone()];
    let elements = graph.broadcast(&read, &wide, &[0, 1, 3, 4])?;
    let inside = graph.broadcast(&of_rows.inside, &wide, &[0, 2, 3])?;
    let counted = graph.select(&inside, &elements, &lowest)?;
    let greatest = graph.reduce_axes(&counted, &[3], Reduction::Max, false)?;
    let wide = [count, channels, cells[0].clone(), cells[1].clone(), columns];
    let elements = graph.broadcast(&greatest, &wide, &[0, 1, 2, 4])?;
    let inside = graph.broadcast(&of_columns.inside, &wide, &[0, 3, 4])?;
    let counted = graph.select(&inside, &elements, &lowest)?;
    let greatest = graph.reduce_axes(&counted, &[4], Reduction::Max, false)?;
    let a = graph.broadcast(&of_rows.has_any, greatest.shape(), &[0, 2])?;
    let b = graph.broadcast(&of_columns.has_any, greatest.shape(), &[0, 3])?;
    let has_any = graph.and(&a, &b)?;
    let zero = graph.number(x.dtype(), 0.0);
    Ok(vec![graph.select(&has_any, &greatest, &zero)?])
}

/// A column of the regions as a vector.
fn region_column(graph: &mut Graph, regions: &Operand, column: usize) -> Accepted<Operand> {
    let count = regions.shape()[0].clone();
    let column = graph.slice_axis(regions, 1, Expr::from(column), 1, Expr::ONE)?;
    graph.reshape(&column, &[count])
}

/// Which elements of an axis belong to the cells of regions.
struct Cells {
    /// `[regions, cells, elements]`
    inside: Operand,
    /// `[regions, cells]`
    has_any: Operand,
}

fn axis_cells(
    node: &Node<'_>,
    graph: &mut Graph,
    x: &Operand,
    regions: &Operand,
    axis: usize,
) -> Accepted<Cells> {
    let dtype = if x.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
    let scale = node.float("spatial_scale", 1.0)?;
    let edge = |graph: &mut Graph, column: usize| -> Accepted<Operand> {
        let edge = region_column(graph, regions, column)?;
        let edge = graph.cast(&edge, dtype)?;
        let scaled = graph.mul_number(&edge, scale)?;
        // Halves are rounded away from zero.
        let (size, sign) = (graph.map(F::Abs, &[&scaled])?, graph.map(F::Sign, &[&scaled])?);
        let size = graph.add_number(&size, 0.5)?;
        let size = graph.floor(&size)?;
        graph.mul(&size, &sign)
    };
    let (start, end) = (edge(graph, 2 - axis)?, edge(graph, 4 - axis)?);
    let length = graph.sub(&end, &start)?;
    let length = graph.add_number(&length, 1.0)?;
    let one = graph.number(dtype, 1.0);
    let length = graph.max(&length, &one)?;
    let cells = node.ints("pooled_shape")?.and_then(|cells| cells.get(axis).copied()).unwrap_or(1);
    let number = graph.number(dtype, cells as f64);
    let cell = graph.div(&length, &number)?;
    let extent = x.shape()[2 + axis].clone();
    let shape = [regions.shape()[0].clone(), Expr::from(cells), extent.clone()];
    let (start, cell) =
        (graph.broadcast(&start, &shape[..2], &[0])?, graph.broadcast(&cell, &shape[..2], &[0])?);
    let place = graph.iota(dtype, &shape[..2], 1)?;
    let next = graph.add_number(&place, 1.0)?;
    let (first, last) = (graph.mul(&place, &cell)?, graph.mul(&next, &cell)?);
    let (first, last) = (graph.floor(&first)?, graph.ceil(&last)?);
    let most = graph.dimension(extent);
    let most = graph.cast(&most, dtype)?;
    let zero = graph.number(dtype, 0.0);
    let clamp = |graph: &mut Graph, edge: &Operand| -> Accepted<Operand> {
        let edge = graph.add(&start, edge)?;
        let edge = graph.max(&edge, &zero)?;
        graph.min(&edge, &most)
    };
    let (first, last) = (clamp(graph, &first)?, clamp(graph, &last)?);
    let has_any = graph.less(&first, &last)?;
    let element = graph.iota(dtype, &shape, 2)?;
    let (first, last) =
        (graph.broadcast(&first, &shape, &[0, 1])?, graph.broadcast(&last, &shape, &[0, 1])?);
    let (from, to) = (graph.greater_equal(&element, &first)?, graph.less(&element, &last)?);
    Ok(Cells { inside: graph.and(&from, &to)?, has_any })
}

fn axis_samples(
    node: &Node<'_>,
    graph: &mut Graph,
    x: &Operand,
    regions: &Operand,
    axis: usize,
) -> Accepted<Samples> {
    let dtype = x.dtype();
    let outputs = node.int(["output_height", "output_width"][axis], 1)?;
    let ratio = node.int("sampling_ratio", 0)?;
    if !(1..1 << 20).contains(&outputs) || !(0..1 << 20).contains(&ratio) {
        return Err(attribute_error("sampling_ratio", "sizes must not be negative or huge"));
    }
    let modes = ["half_pixel", "output_half_pixel"];
    // Before version 16 there was one way.
    let is_half =
        node.version >= 16 && node.word("coordinate_transformation_mode", &modes)? == "half_pixel";
    let scale = node.float("spatial_scale", 1.0)?;
    let regions = graph.cast(regions, dtype)?;
    let count = regions.shape()[0].clone();
    let edge = |graph: &mut Graph, column: usize| -> Accepted<Operand> {
        let edge = graph.slice_axis(&regions, 1, Expr::from(column), 1, Expr::ONE)?;
        let edge = graph.reshape(&edge, std::slice::from_ref(&count))?;
        let scaled = graph.mul_number(&edge, scale)?;
        if is_half { graph.add_number(&scaled, -0.5) } else { Ok(scaled) }
    };
    let (start, end) = (edge(graph, 1 - axis)?, edge(graph, 3 - axis)?);
    let mut length = graph.sub(&end, &start)?;
    if !is_half {
        let one = graph.number(dtype, 1.0);
        length = graph.max(&length, &one)?;
    }
    let cell = graph.mul_number(&length, 1.0 / outputs as f64)?;
    let cell = match dtype.bits() {
        64 => cell,
        _ => {
            let outputs = graph.number(dtype, outputs as f64);
            graph.div(&length, &outputs)?
        }
    };
    // Without a ratio a cell has as many samples as elements, rounded up.
    let (number, samples) = match ratio {
        0 => {
            let number = graph.ceil(&cell)?;
            let zero = graph.number(dtype, 0.0);
            let number = graph.max(&number, &zero)?;
            let whole = graph.cast(&number, DType::I64)?;
            let most = graph.reduce_axes(&whole, &[0], Reduction::Max, false)?;
            let one = Operand::of_scalar(Scalar::i64(1));
            let most = graph.max(&most, &one)?;
            let limit = Expr::from(graph.limits.dimension);
            (number, graph.bind(&most, &limit)?)
        }
        ratio => {
            let number = Scalar::from_f64(dtype, ratio as f64);
            (graph.full(std::slice::from_ref(&count), number)?, Expr::from(ratio))
        }
    };
    let shape = [count, Expr::from(outputs), samples];
    let along = |graph: &mut Graph, value: &Operand| graph.broadcast(value, &shape, &[0]);
    let (start, cell) = (along(graph, &start)?, along(graph, &cell)?);
    let all_numbers = along(graph, &number)?;
    let output = graph.iota(dtype, &shape, 1)?;
    let sample = graph.iota(dtype, &shape, 2)?;
    let counts = graph.less(&sample, &all_numbers)?;
    let first = graph.mul(&output, &cell)?;
    let first = graph.add(&start, &first)?;
    let offset = graph.add_number(&sample, 0.5)?;
    let offset = graph.mul(&offset, &cell)?;
    let offset = graph.div(&offset, &all_numbers)?;
    let place = graph.add(&first, &offset)?;
    // Samples more than an element outside of the image are zero; others are led to its border.
    let extent = graph.dimension(x.shape()[2 + axis].clone());
    let extent = graph.cast(&extent, dtype)?;
    let (lowest, zero) = (graph.number(dtype, -1.0), graph.number(dtype, 0.0));
    let above = graph.greater_equal(&place, &lowest)?;
    let below = graph.less_equal(&place, &extent)?;
    let is_inside = graph.and(&above, &below)?;
    let is_inside = graph.and(&is_inside, &counts)?;
    let last = graph.add_number(&extent, -1.0)?;
    let place = graph.max(&place, &zero)?;
    let place = graph.min(&place, &last)?;
    let low = graph.floor(&place)?;
    let part = graph.sub(&place, &low)?;
    let high = graph.add_number(&low, 1.0)?;
    let high = graph.min(&high, &last)?;
    let rest = graph.neg(&part)?;
    let rest = graph.add_number(&rest, 1.0)?;
    let index = |graph: &mut Graph, place: &Operand| -> Accepted<Operand> {
        let place = graph.select(&is_inside, place, &zero)?;
        graph.cast(&place, DType::I64)
    };
    Ok(Samples {
        low: index(graph, &low)?,
        high: index(graph, &high)?,
        low_weight: graph.select(&is_inside, &rest, &zero)?,
        high_weight: graph.select(&is_inside, &part, &zero)?,
        counts,
        number,
    })
}

/// `DeformConv`: a convolution whose window elements are read beside their places, at offsets that
/// are data, by linear interpolation.
pub(super) fn deformable_convolution(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (x, w, offset) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let axes = spatial(x)?;
    let count = axes.len();
    let kernel = constant_shape(w.shape().get(2..).unwrap_or_default())
        .filter(|kernel| kernel.len() == count && !kernel.contains(&0))
        .ok_or_else(|| shape_error("the kernel's extents must be constant, one an axis"))?;
    if offset.rank() != 2 + count {
        return Err(shape_error("offsets must have as many axes as the input"));
    }
    let elements: i64 = kernel.iter().map(|&extent| extent as i64).product();
    let (groups, shares) = (node.int("group", 1)?, node.int("offset_group", 1)?);
    let (batch, channels) = (x.shape()[0].clone(), x.shape()[1].clone());
    let made = w.shape()[0].clone();
    if groups < 1
        || shares < 1
        || !channels.divisible_by(groups)
        || !channels.divisible_by(shares)
        || !made.divisible_by(groups)
    {
        return Err(shape_error(format!("{groups} and {shares} groups of the channels")));
    }
    let strides = entries(node, "strides", count, 1, 1)?;
    let dilations = entries(node, "dilations", count, 1, 1)?;
    let pads = entries(node, "pads", 2 * count, 0, 0)?;
    let outputs = offset.shape()[2..].to_vec();
    let kernel: Vec<Expr> = kernel.iter().map(|&extent| Expr::from(extent)).collect();
    // [n, shares, kernel..., outputs...]
    let shape = [&[batch.clone(), Expr::from(shares)][..], &kernel, &outputs].concat();
    graph.check_size(&shape)?;
    let split = [
        &[batch.clone(), Expr::from(shares), Expr::from(elements), Expr::from(count)][..],
        &outputs,
    ]
    .concat();
    let offset = graph.reshape(offset, &split)?;
    let dtype = x.dtype();
    let mut taps: Vec<[(Operand, Operand); 2]> = Vec::new();
    for axis in 0..count {
        let own = graph.slice_axis(&offset, 3, Expr::from(axis), 1, Expr::ONE)?;
        let own = graph.reshape(&own, &shape)?;
        let element = graph.iota(dtype, &shape, 2 + axis)?;
        let element = graph.mul_number(&element, dilations[axis] as f64)?;
        let output = graph.iota(dtype, &shape, 2 + count + axis)?;
        let output = graph.mul_number(&output, strides[axis] as f64)?;
        let place = graph.add(&output, &element)?;
        let place = graph.add_number(&place, -(pads[axis] as f64))?;
        let place = graph.add(&place, &own)?;
        let low = graph.floor(&place)?;
        let part = graph.sub(&place, &low)?;
        let rest = graph.neg(&part)?;
        let rest = graph.add_number(&rest, 1.0)?;
        let high = graph.add_number(&low, 1.0)?;
        let tap = |graph: &mut Graph, place: &Operand, weight: &Operand| {
            inside(graph, place, weight, &axes[axis])
        };
        taps.push([tap(graph, &low, &rest)?, tap(graph, &high, &part)?]);
    }
    let shared =
        [&[batch.clone(), Expr::from(shares), channels.floor_div(&Expr::from(shares))][..], &axes]
            .concat();
    let image = graph.reshape(x, &shared)?;
    let read_axes: Vec<usize> = (3..3 + count).collect();
    let wide = [&shared[..3], &shape[2..]].concat();
    let lead: Vec<usize> = [0, 1].into_iter().chain(3..wide.len()).collect();
    let mut columns: Option<Operand> = None;
    for corner in 0..1usize << count {
        let chosen = |axis: usize| &taps[axis][corner >> axis & 1];
        let indices: Vec<Operand> = (0..count).map(|axis| chosen(axis).0.clone()).collect();
        let read = graph.gather(&image, &read_axes, &indices, 2, 1)?;
        let mut weight = chosen(0).1.clone();
        for axis in 1..count {
            weight = graph.mul(&weight, &chosen(axis).1)?;
        }
        let weight = graph.broadcast(&weight, &wide, &lead)?;
        let term = graph.mul(&read, &weight)?;
        columns = Some(match columns {
            Some(sum) => graph.add(&sum, &term)?,
            None => term,
        });
    }
    let Some(mut columns) = columns else { return Err(shape_error("no axes to convolve along")) };
    if let Some(mask) = node.optional(4) {
        let mask = graph.reshape(mask, &shape)?;
        let mask = graph.broadcast(&mask, &wide, &lead)?;
        columns = graph.mul(&columns, &mask)?;
    }
    // A product of the weights [g, m, c, k] and the columns [n, g, c, k, o].
    let positions: Expr = outputs.iter().product();
    let (g, elements) = (Expr::from(groups), Expr::from(elements));
    let own = channels.floor_div(&g);
    let shape = [batch.clone(), g.clone(), own.clone(), elements.clone(), positions.clone()];
    let columns = graph.reshape(&columns, &shape)?;
    let each = made.floor_div(&g);
    let w = graph.reshape(w, &[g.clone(), each.clone(), own.clone(), elements.clone()])?;
    let [a, b, c, d, e, f] = [0, 1, 2, 3, 4, 5].map(IterationSpace::axis);
    let space = IterationSpace {
        extents: vec![batch.clone(), g, each, positions, own, elements],
        parallel: 4,
        operands: vec![vec![b.clone(), c, e.clone(), f.clone()], vec![a, b, e, f, d]],
    };
    let product = graph.contract(space, &w, &columns, graph::accumulator_of(dtype), dtype)?;
    let mut result = graph.reshape(&product, &[&[batch, made][..], &outputs].concat())?;
    if let Some(bias) = node.optional(3) {
        let bias = graph.broadcast_axis(bias, result.shape(), 1)?;
        result = graph.add(&result, &bias)?;
    }
    Ok(vec![result])
}

/// An index within an axis, and a weight that is zero where the place is outside.
fn inside(
    graph: &mut Graph,
    place: &Operand,
    weight: &Operand,
    extent: &Expr,
) -> Accepted<(Operand, Operand)> {
    let zero = graph.number(place.dtype(), 0.0);
    let last = graph.dimension(extent - 1);
    let last = graph.cast(&last, place.dtype())?;
    let above = graph.greater_equal(place, &zero)?;
    let below = graph.less_equal(place, &last)?;
    let is_inside = graph.and(&above, &below)?;
    let place = graph.select(&is_inside, place, &zero)?;
    Ok((graph.cast(&place, DType::I64)?, graph.select(&is_inside, weight, &zero)?))
}
