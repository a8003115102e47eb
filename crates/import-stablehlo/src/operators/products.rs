//! Matrix products and convolutions.

use front::{Accepted, Graph, Operand, Windows, convolve, shape_error, unsupported};
use graph::IterationSpace;
use sym::Expr;
use tensor::{DType, ScalarFunction as F};

use super::algebra::bilinear;
use super::movement::{extents, pad_value, reversed};
use crate::importer::{Frame, Importer};
use crate::node::{Lowered, Node, axes_within, one};
use crate::syntax::Attribute;

/// Operands in the types in which they are multiplied. The types are one, and integers have the
/// result's already; booleans are integers until the end.
fn multiplied(
    graph: &mut Graph,
    (a, b): (&Operand, &Operand),
    result: DType,
) -> Accepted<(Operand, Operand, DType)> {
    if result == DType::Bool {
        return Ok((graph.cast(a, DType::I32)?, graph.cast(b, DType::I32)?, DType::I32));
    }
    if a.dtype() == b.dtype() && a.dtype().is_float() && result.is_float() {
        return Ok((a.clone(), b.clone(), result));
    }
    Ok((graph.cast(a, result)?, graph.cast(b, result)?, result))
}

/// The type in which products for a result are summed.
fn accumulator(result: DType) -> DType {
    if result == DType::F64 { DType::F64 } else { graph::accumulator_of(result) }
}

/// The axes of both operands that a product shares, and those that it sums over.
type SharedAxes = [(Vec<usize>, Vec<usize>); 2];

fn shared_axes(node: &Node<'_>, record: &str, ranks: (usize, usize)) -> Accepted<SharedAxes> {
    if node.attribute(record).is_some() {
        let axes = |name: &str, rank| node.axes_of(record, name, rank);
        return Ok([
            (axes("lhs_batching_dimensions", ranks.0)?, axes("rhs_batching_dimensions", ranks.1)?),
            (
                axes("lhs_contracting_dimensions", ranks.0)?,
                axes("rhs_contracting_dimensions", ranks.1)?,
            ),
        ]);
    }
    let pair = |name: &str| -> Accepted<(Vec<usize>, Vec<usize>)> {
        match node.attribute(name) {
            None => Ok((Vec::new(), Vec::new())),
            Some(Attribute::List(sides)) if sides.len() == 2 => {
                let side = |number: usize| sides[number].integers().unwrap_or_default();
                Ok((axes_within(&side(0), ranks.0)?, axes_within(&side(1), ranks.1)?))
            }
            Some(_) => Err(shape_error(format!("`{name}` names no axes of two operands"))),
        }
    };
    Ok([pair("batching_dims")?, pair("contracting_dims")?])
}

pub(crate) fn dot_general<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    let (a, b) = (node.value(0)?.clone(), node.value(1)?.clone());
    let axes = shared_axes(node, "dot_dimension_numbers", (a.rank(), b.rank()))?;
    let dtype = node.dtype()?;
    let graph = &mut importer.graph;
    one(bilinear(graph, (&a, &b), |graph, a, b| contracted(graph, a, b, &axes, dtype))?)
}

/// Products of which one axis of the first operand is in groups, of sizes that are data: an axis
/// that stays is multiplied with the second operand of its group, one that is summed over is summed
/// group by group.
pub(crate) fn ragged_dot<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    const RECORD: &str = "ragged_dot_dimension_numbers";
    let (a, b, sizes) = (node.real(0)?, node.real(1)?, node.real(2)?);
    let [batching, mut contracting] = shared_axes(node, RECORD, (a.rank(), b.rank()))?;
    let ragged = node.axes_of(RECORD, "lhs_ragged_dimensions", a.rank())?;
    let groups = node.axes_of(RECORD, "rhs_group_dimensions", b.rank())?;
    let [ragged] = ragged[..] else {
        return Err(shape_error("a product has one axis that is in groups"));
    };
    let (graph, dtype) = (&mut importer.graph, node.dtype()?);
    if batching.0.contains(&ragged) {
        // Groups of batches change nothing.
        return one(contracted(graph, a, b, &[batching, contracting], dtype)?);
    }
    if sizes.rank() != 1 {
        return Err(unsupported("groups whose sizes differ from batch to batch"));
    }
    let is_member = members(graph, sizes, &a.shape()[ragged])?;
    let count = sizes.shape()[0].clone();
    let mut shape = vec![Expr::ONE; a.rank() + 1];
    (shape[0], shape[ragged + 1]) = (count.clone(), a.shape()[ragged].clone());
    let is_member = graph.reshape(&is_member, &shape)?;
    let shape = [&[count][..], a.shape()].concat();
    let is_member = graph.broadcast_to(&is_member, &shape[..])?;
    let (wide, zero) = (graph.broadcast_to(a, &shape[..])?, graph.number(a.dtype(), 0.0));
    let wide = graph.select(&is_member, &wide, &zero)?;
    let is_summed = contracting.0.contains(&ragged);
    let moved = |axes: Vec<usize>| axes.into_iter().map(|axis| axis + 1).collect::<Vec<_>>();
    let batching = (moved(batching.0), batching.1);
    contracting.0 = moved(contracting.0);
    if !is_summed {
        let [group] = groups[..] else {
            return Err(shape_error("the second operand has one axis of groups"));
        };
        contracting.0.push(0);
        contracting.1.push(group);
    }
    let first = batching.0.len();
    let product = contracted(graph, &wide, b, &[batching, contracting], dtype)?;
    if !is_summed {
        return one(product);
    }
    // The groups come before the batches.
    let mut order: Vec<usize> = (0..product.rank()).filter(|axis| *axis != first).collect();
    order.insert(0, first);
    one(graph.transpose(&product, &order)?)
}

/// Which places of an axis are in which group: groups by places.
fn members(graph: &mut Graph, sizes: &Operand, extent: &Expr) -> Accepted<Operand> {
    let (dtype, count) = (sizes.dtype(), sizes.shape()[0].clone());
    let square = [count.clone(), count.clone()];
    let (row, column) = (graph.iota(dtype, &square, 0)?, graph.iota(dtype, &square, 1)?);
    let is_before = graph.less(&column, &row)?;
    let zero = graph.number(dtype, 0.0);
    let sizes_before = graph.select(&is_before, sizes, &zero)?;
    let first = graph.reduce_axes(&sizes_before, &[1], tensor::Reduction::Sum, true)?;
    let sizes = graph.reshape(sizes, &[count.clone(), Expr::ONE])?;
    let end = graph.add(&first, &sizes)?;
    let place = graph.iota(dtype, &[count, extent.clone()], 1)?;
    let (is_early, is_within) = (graph.less(&place, &first)?, graph.less(&place, &end)?);
    let is_late = graph.map(F::Not, &[&is_early])?;
    graph.and(&is_late, &is_within)
}

pub(crate) fn dot<'p>(importer: &mut Importer<'p>, node: &Node<'p>, _: &mut Frame) -> Lowered {
    let (a, b) = (node.value(0)?.clone(), node.value(1)?.clone());
    let Some(last) = a.rank().checked_sub(1) else {
        return Err(shape_error("a product of scalars"));
    };
    let axes = [(Vec::new(), Vec::new()), (vec![last], vec![0])];
    if b.rank() == 0 {
        return Err(shape_error("a product of scalars"));
    }
    let dtype = node.dtype()?;
    let graph = &mut importer.graph;
    one(bilinear(graph, (&a, &b), |graph, a, b| contracted(graph, a, b, &axes, dtype))?)
}

fn contracted(
    graph: &mut Graph,
    a: &Operand,
    b: &Operand,
    [batching, contracting]: &SharedAxes,
    result: DType,
) -> Accepted<Operand> {
    if batching.0.len() != batching.1.len() || contracting.0.len() != contracting.1.len() {
        return Err(shape_error("not as many axes of one operand as of the other"));
    }
    let (a, b, dtype) = multiplied(graph, (a, b), result)?;
    let mut extents = Vec::new();
    let (mut read_a, mut read_b) = (vec![Expr::ZERO; a.rank()], vec![Expr::ZERO; b.rank()]);
    let share = |graph: &mut Graph, &(i, j): &(usize, usize)| -> Accepted<Expr> {
        let (first, second) = (a.shape()[i].clone(), b.shape()[j].clone());
        graph.assume_equal_axes(&first, &second, &format!("axis {i} of one, {j} of the other"))?;
        Ok(first)
    };
    let pairs = |(a, b): &(Vec<usize>, Vec<usize>)| -> Vec<(usize, usize)> {
        a.iter().copied().zip(b.iter().copied()).collect()
    };
    for pair in pairs(batching) {
        let axis = IterationSpace::axis(extents.len());
        extents.push(share(graph, &pair)?);
        (read_a[pair.0], read_b[pair.1]) = (axis.clone(), axis);
    }
    let sides = [
        (a.shape(), &mut read_a, [&batching.0, &contracting.0]),
        (b.shape(), &mut read_b, [&batching.1, &contracting.1]),
    ];
    for (shape, read, shared) in sides {
        for axis in (0..shape.len()).filter(|axis| shared.iter().all(|it| !it.contains(axis))) {
            read[axis] = IterationSpace::axis(extents.len());
            extents.push(shape[axis].clone());
        }
    }
    let parallel = extents.len();
    for pair in pairs(contracting) {
        let axis = IterationSpace::axis(extents.len());
        extents.push(share(graph, &pair)?);
        (read_a[pair.0], read_b[pair.1]) = (axis.clone(), axis);
    }
    let space = IterationSpace { extents, parallel, operands: vec![read_a, read_b] };
    let product = graph.contract(space, &a, &b, accumulator(dtype), dtype)?;
    graph.cast(&product, result)
}

/// The axes of batches and channels, and the spatial ones, of one side of a convolution.
fn side(node: &Node<'_>, names: [&str; 3], rank: usize) -> Accepted<Vec<usize>> {
    let record = "dimension_numbers";
    let single = |name: &str| {
        let axis = node.axis_of(record, name)?;
        axis.filter(|axis| *axis < rank).ok_or_else(|| shape_error(format!("there is no {name}")))
    };
    let mut axes = vec![single(names[0])?, single(names[1])?];
    axes.extend(node.axes_of(record, names[2], rank)?);
    let all: Vec<i64> = axes.iter().map(|&axis| axis as i64).collect();
    if axes.len() != rank {
        return Err(shape_error(format!("{} axes are named of {rank}", axes.len())));
    }
    axes_within(&all, rank)
}

pub(crate) fn convolution<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    let (x, w) = (node.value(0)?.clone(), node.value(1)?.clone());
    let rank = x.rank();
    let spatial = rank.checked_sub(2).ok_or_else(|| shape_error("a convolution of a vector"))?;
    let x_axes = side(
        node,
        ["input_batch_dimension", "input_feature_dimension", "input_spatial_dimensions"],
        rank,
    )?;
    let w_axes = side(
        node,
        [
            "kernel_output_feature_dimension",
            "kernel_input_feature_dimension",
            "kernel_spatial_dimensions",
        ],
        w.rank(),
    )?;
    let out_axes = side(
        node,
        ["output_batch_dimension", "output_feature_dimension", "output_spatial_dimensions"],
        rank,
    )?;
    let strides = node.each_axis("window_strides", spatial, 1)?;
    let spread = node.each_axis("lhs_dilation", spatial, 1)?;
    let dilations = node.each_axis("rhs_dilation", spatial, 1)?;
    if strides.iter().chain(&spread).chain(&dilations).any(|it| *it < 1) {
        return Err(shape_error("a stride or dilation below 1"));
    }
    let padding = match node.operands.len() {
        3 => {
            let padding = node.real(2)?;
            let count: Expr = padding.shape().iter().product();
            let flat = importer.graph.reshape(padding, &[count])?;
            extents(&mut importer.graph, &flat)?
        }
        _ => {
            let given = node.integers("padding")?.unwrap_or_else(|| vec![0; 2 * spatial]);
            given.into_iter().map(Expr::from).collect()
        }
    };
    if padding.len() != 2 * spatial {
        return Err(shape_error("not as many paddings as axes"));
    }
    let reversal: Vec<usize> = match node.attribute("window_reversal") {
        None => Vec::new(),
        Some(attribute) => {
            let flags = attribute.integers().unwrap_or_default();
            (0..spatial).filter(|&at| flags.get(at) == Some(&1)).map(|at| 2 + at).collect()
        }
    };
    let groups = node.integer_or("feature_group_count", 1)?;
    let batch_groups = node.integer_or("batch_group_count", 1)?;
    if groups < 1 || batch_groups < 1 || groups > 1 && batch_groups > 1 {
        return Err(unsupported(format!("{groups} groups of channels, {batch_groups} of batches")));
    }
    let result = node.dtype()?;
    let mut inverse = vec![0; rank];
    for (at, &axis) in out_axes.iter().enumerate() {
        inverse[axis] = at;
    }
    let graph = &mut importer.graph;
    let found = bilinear(graph, (&x, &w), |graph, x, w| {
        let (x, w, dtype) = multiplied(graph, (x, w), result)?;
        let mut x = graph.transpose(&x, &x_axes)?;
        let w = graph.transpose(&w, &w_axes)?;
        let w = reversed(graph, &w, &reversal)?;
        // Spread and padded here, so that paddings may be negative.
        let (mut low, mut high) = (vec![Expr::ZERO; 2], vec![Expr::ZERO; 2]);
        let mut interior = vec![0, 0];
        for axis in 0..spatial {
            low.push(padding[2 * axis].clone());
            high.push(padding[2 * axis + 1].clone());
            interior.push(spread[axis] - 1);
        }
        let is_plain =
            low.iter().chain(&high).all(Expr::is_zero) && interior.iter().all(|it| *it == 0);
        if !is_plain {
            let zero = graph.number(x.dtype(), 0.0);
            x = pad_value(graph, &x, &zero, &low, &high, &interior)?;
        }
        let mut groups = groups;
        if batch_groups > 1 {
            // Groups of batches are groups of channels, each with its own.
            let (batch, channels) = (x.shape()[0].clone(), x.shape()[1].clone());
            if !batch.divisible_by(batch_groups) {
                return Err(shape_error("batches do not fall into their groups"));
            }
            let each = batch.floor_div(&Expr::from(batch_groups));
            let rest = x.shape()[2..].to_vec();
            let split = [&[Expr::from(batch_groups), each.clone(), channels.clone()], &rest[..]];
            let split = graph.reshape(&x, &split.concat())?;
            let mut order = vec![1, 0];
            order.extend(2..split.rank());
            let split = graph.transpose(&split, &order)?;
            x = graph.reshape(&split, &[&[each, channels * batch_groups], &rest[..]].concat())?;
            groups = batch_groups;
        }
        let kernel = w.shape()[2..].iter().map(Expr::as_constant).collect::<Option<Vec<i64>>>();
        let kernel = kernel.ok_or_else(|| unsupported("a filter of free extents"))?;
        let (strides, dilations) = (strides.clone(), dilations.clone());
        let mut outputs = Vec::new();
        let mut is_empty = kernel.contains(&0);
        for axis in 0..spatial {
            let reach = front::reach(kernel[axis], dilations[axis]);
            let outputs_here =
                (&x.shape()[2 + axis] - reach).floor_div(&Expr::from(strides[axis])) + 1;
            is_empty |= outputs_here.as_constant().is_some_and(|it| it < 1);
            outputs.push(outputs_here);
        }
        if is_empty || x.shape()[1].is_zero() {
            let shape = node.fixed_shape(0)?;
            return graph.full(&shape, tensor::Scalar::zero(result));
        }
        let zeros = vec![Expr::ZERO; spatial];
        let (low, high, extra) = (zeros.clone(), zeros.clone(), zeros);
        let windows = Windows { kernel, strides, dilations, low, high, extra, outputs };
        let types = (accumulator(dtype), dtype);
        let product = convolve(graph, &x, &w, windows, groups, types)?;
        let product = graph.transpose(&product, &inverse)?;
        graph.cast(&product, result)
    })?;
    one(found)
}
