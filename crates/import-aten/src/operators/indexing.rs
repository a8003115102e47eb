//! Reading and writing at indices that are data.

use front::{
    Accepted, Graph, Operand, elementwise_indices, gather_axis, shared_axes, true_indices,
    unsupported, wrapped_indices,
};
use graph::Op;
use sym::Expr;
use tensor::{DType, Reduction, Scalar, ScalarFunction};

use super::reductions::of_elements;
use crate::node::{Lowered, Node};

/// Rows of a table.
pub(super) fn embedding(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (table, index) = (node.tensor(0, "weight")?, node.tensor(1, "indices")?);
    let index = graph.cast(&index, DType::I64)?;
    Ok(vec![gather_axis(graph, &table, 0, &index)?])
}

/// `embedding_renorm(table, indices, max_norm, norm_type)`: a table of which those rows that are
/// looked up, and whose norm is larger than the one given, are scaled down to it.
///
/// Source: `embedding_renorm_cpu_` in PyTorch's `Embedding.cpp`; it divides by the norm and 1e-7.
pub(super) fn embedding_renorm(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (table, index) = (node.tensor(0, "self")?, node.tensor(1, "indices")?);
    let (Some(most), Some(power)) = (node.number(2, "max_norm")?, node.number(3, "norm_type")?)
    else {
        return Err(unsupported("a norm without a bound or a power"));
    };
    if power.is_nan() || power <= 0.0 {
        return Err(unsupported(format!("norms of the power {power}")));
    }
    let index = graph.cast(&index, DType::I64)?;
    let rows = gather_axis(graph, &table, 0, &index)?;
    let wide = graph.widen(&rows)?;
    let norms = norms_of_rows(graph, &wide, power)?;
    let bound = graph.number(wide.dtype(), most);
    let divisor = graph.add_number(&norms, 1e-7)?;
    let factor = graph.div(&bound, &divisor)?;
    let is_large = graph.greater(&norms, &bound)?;
    let one = Operand::of_scalar(Scalar::one(wide.dtype()));
    let factor = graph.select(&is_large, &factor, &one)?;
    let scaled = graph.mul(&wide, &factor)?;
    let scaled = graph.cast(&scaled, table.dtype())?;
    // Rows that are looked up twice are written twice, with the same elements.
    let op = Op::Scatter { axes: vec![0], batch: 0, position: 0, reduction: None };
    Ok(vec![graph.scatter(&table, &scaled, &[index], op)?])
}

/// The norm of a power along the last axis, which stays with one element.
fn norms_of_rows(graph: &mut Graph, rows: &Operand, power: f64) -> Accepted<Operand> {
    let (last, size) = (rows.rank() - 1, graph.abs(rows)?);
    if power == f64::INFINITY {
        return graph.reduce_axes(&size, &[last], Reduction::Max, true);
    }
    if power == 2.0 {
        let square = graph.square(rows)?;
        let sum = graph.reduce_axes(&square, &[last], Reduction::Sum, true)?;
        return graph.sqrt(&sum);
    }
    let exponent = graph.number(rows.dtype(), power);
    let raised = graph.map(ScalarFunction::Pow, &[&size, &exponent])?;
    let sum = graph.reduce_axes(&raised, &[last], Reduction::Sum, true)?;
    let root = graph.number(rows.dtype(), 1.0 / power);
    graph.map(ScalarFunction::Pow, &[&sum, &root])
}

/// `_embedding_bag(weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
/// include_last_offset, padding_idx)`: sums, means or maxima of rows of a table, the rows from one
/// offset to the next together. Of its results the first alone is given.
pub(super) fn embedding_bag(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (table, index) = (node.tensor(0, "weight")?, node.tensor(1, "indices")?);
    let (dtype, shape) = (table.dtype(), node.shape()?.to_vec());
    let index = graph.cast(&index, DType::I64)?;
    let bag = bag_of(graph, index.shape(), &node.tensor(2, "offsets")?)?;
    let rows = gather_axis(graph, &table, 0, &index)?;
    let mut rows = graph.widen(&rows)?;
    let wide = rows.dtype();
    let across = [index.shape(), &[Expr::ONE]].concat();
    if let Some(factors) = node.optional_tensor(6, "per_sample_weights")? {
        let factors = graph.cast(&factors, wide)?;
        let factors = graph.reshape(&factors, &across)?;
        rows = graph.mul(&rows, &factors)?;
    }
    let padding = graph.number(DType::I64, node.int(8, "padding_idx", -1)? as f64);
    let counts = graph.map(ScalarFunction::Ne, &[&index, &padding])?;
    let (reduction, neutral) = match node.int(4, "mode", 0)? {
        0 | 1 => (Reduction::Sum, Scalar::zero(wide)),
        2 => (Reduction::Max, Reduction::Max.identity(wide)),
        other => return Err(unsupported(format!("bags of mode {other}"))),
    };
    let is_counted = graph.reshape(&counts, &across)?;
    let rows = graph.select(&is_counted, &rows, &Operand::of_scalar(neutral))?;
    let put = |graph: &mut Graph, empty: Scalar, shape: &[Expr], updates: &Operand, reduction| {
        let empty = graph.full(shape, empty)?;
        let op = Op::Scatter { axes: vec![0], batch: 0, position: 0, reduction: Some(reduction) };
        graph.scatter(&empty, updates, std::slice::from_ref(&bag), op)
    };
    let mut result = put(graph, neutral, &shape, &rows, reduction)?;
    let counts = graph.cast(&counts, wide)?;
    let counts = put(graph, Scalar::zero(wide), &shape[..1], &counts, Reduction::Sum)?;
    let counts = graph.reshape(&counts, &[shape[0].clone(), Expr::ONE])?;
    match node.int(4, "mode", 0)? {
        1 => {
            let one = Operand::of_scalar(Scalar::one(wide));
            let counts = graph.max(&counts, &one)?;
            result = graph.div(&result, &counts)?;
        }
        2 => {
            let zero = Operand::of_scalar(Scalar::zero(wide));
            let is_filled = graph.less(&zero, &counts)?;
            result = graph.select(&is_filled, &result, &zero)?;
        }
        _ => {}
    }
    Ok(vec![graph.cast(&result, dtype)?])
}

/// The bag of each index: how many offsets are not behind it, the first one apart.
fn bag_of(graph: &mut Graph, shape: &[Expr], offsets: &Operand) -> Accepted<Operand> {
    let offsets = graph.cast(offsets, DType::I64)?;
    let place = graph.iota(DType::I64, &[shape, &[Expr::ONE]].concat(), 0)?;
    let begun = graph.less_equal(&offsets, &place)?;
    let begun = graph.cast(&begun, DType::I64)?;
    let begun = graph.reduce_axes(&begun, &[1], Reduction::Sum, false)?;
    graph.add_number(&begun, -1.0)
}

/// `masked_scatter(x, mask, source)`: a value with the elements of another in their order where a
/// mask holds.
pub(super) fn masked_scatter(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (shape, source) = (node.shape()?.to_vec(), node.tensor(2, "source")?);
    let x = graph.broadcast_to(&node.tensor(0, "self")?, shape.as_slice())?;
    let mask = graph.broadcast_to(&node.tensor(1, "mask")?, shape.as_slice())?;
    let flat = |value: &Operand| [value.shape().iter().product::<Expr>()];
    let counts = graph.cast(&mask, DType::I64)?;
    let counts = graph.reshape(&counts, &flat(&mask))?;
    let reduction = Reduction::Sum;
    let op = Op::Cumulate { axis: 0, reduction, exclusive: true, reverse: false };
    let places = graph.primitive(op, &[&counts])?;
    let places = graph.reshape(&places, x.shape())?;
    // Where the mask does not hold behind the last element, none is read.
    let zero = graph.number(DType::I64, 0.0);
    let places = graph.select(&mask, &places, &zero)?;
    let source = graph.reshape(&source, &flat(&source))?;
    let taken = gather_axis(graph, &source, 0, &places)?;
    Ok(vec![graph.select(&mask, &taken, &x)?])
}

/// A value with an axis: one without becomes a vector of one.
fn with_axis(graph: &mut Graph, value: &Operand) -> Accepted<Operand> {
    match value.rank() {
        0 => graph.reshape(value, &[Expr::ONE]),
        _ => Ok(value.clone()),
    }
}

/// Slices along an axis, at the indices of a vector.
pub(super) fn index_select(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = with_axis(graph, &node.tensor(0, "self")?)?;
    let index = with_axis(graph, &node.tensor(2, "index")?)?;
    let axis = node.axis((1, "dim"), 0, x.rank())?;
    let index = wrapped_indices(graph, &index, &x.shape()[axis])?;
    let result = gather_axis(graph, &x, axis, &index)?;
    Ok(vec![graph.reshape(&result, node.shape()?)?])
}

/// Data and indices of one rank, and the axis that the indices are of; see [`with_axis`].
fn along(node: &Node<'_>, graph: &mut Graph) -> Accepted<(Operand, Operand, usize)> {
    let x = with_axis(graph, &node.tensor(0, "self")?)?;
    let index = with_axis(graph, &node.tensor(2, "index")?)?;
    if index.rank() != x.rank() {
        return Err(unsupported("indices of another rank"));
    }
    let axis = node.axis((1, "dim"), 0, x.rank())?;
    let index = wrapped_indices(graph, &index, &x.shape()[axis])?;
    Ok((x, index, axis))
}

/// `result[i, j] = x[i, index[i, j]]`, and so along any axis.
pub(super) fn gather(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    // Without indices their rank is of no consequence.
    if node.shape()?.iter().any(Expr::is_zero) {
        return Ok(vec![graph.full(node.shape()?, Scalar::zero(node.dtype()?))?]);
    }
    let (x, index, axis) = along(node, graph)?;
    let batch = shared_axes(&x, &index, axis);
    let operands = elementwise_indices(graph, &index, axis, batch)?;
    let axes: Vec<usize> = (batch..x.rank()).collect();
    let result = graph.gather(&x, &axes, &operands, batch, 0)?;
    Ok(vec![graph.reshape(&result, node.shape()?)?])
}

/// Updates put, or combined, into a value at elements' indices along an axis.
fn put(
    graph: &mut Graph,
    x: &Operand,
    (index, axis): (&Operand, usize),
    updates: &Operand,
    reduction: Option<Reduction>,
) -> Accepted<Operand> {
    let batch = shared_axes(x, index, axis);
    let operands = elementwise_indices(graph, index, axis, batch)?;
    let axes: Vec<usize> = (batch..x.rank()).collect();
    graph.scatter(x, updates, &operands, Op::Scatter { axes, batch, position: 0, reduction })
}

/// What is to be written at indices: a number at all of them, or as much of a tensor as there are.
fn updates(
    node: &Node<'_>,
    graph: &mut Graph,
    (source, dtype): (&str, DType),
    index: &Operand,
) -> Accepted<Operand> {
    let updates = node.operand_as(graph, (3, source), dtype)?;
    match updates.rank() {
        0 => graph.broadcast_to(&updates, index.shape()),
        rank => graph.slice(&updates, &vec![Expr::ZERO; rank], &vec![1; rank], index.shape()),
    }
}

/// `x[i, index[i, j]] = source[i, j]`, or combined with what is there.
pub(super) fn scatter(
    node: &Node<'_>,
    graph: &mut Graph,
    source: &str,
    reduction: Option<Reduction>,
) -> Lowered {
    let (x, index, axis) = along(node, graph)?;
    let updates = updates(node, graph, (source, x.dtype()), &index)?;
    let reduction = reduction.map(|reduction| of_elements(reduction, x.dtype()));
    let result = put(graph, &x, (&index, axis), &updates, reduction)?;
    Ok(vec![graph.reshape(&result, node.shape()?)?])
}

/// The reduction that the argument `reduce` names; a mean is a sum first.
fn reduction_of(node: &Node<'_>, dtype: DType) -> Accepted<Reduction> {
    let reduction = match node.text(4, "reduce", "")? {
        "sum" | "add" | "mean" => Reduction::Sum,
        "prod" | "multiply" => Reduction::Product,
        "amax" => Reduction::Max,
        "amin" => Reduction::Min,
        other => return Err(unsupported(format!("the reduction \"{other}\""))),
    };
    Ok(of_elements(reduction, dtype))
}

/// `scatter(x, dim, index, src, reduce)`
pub(super) fn scatter_by_word(node: &Node<'_>, graph: &mut Graph, source: &str) -> Lowered {
    let reduction = reduction_of(node, node.dtype()?)?;
    scatter(node, graph, source, Some(reduction))
}

/// `scatter_reduce(x, dim, index, src, reduce, include_self)`; of elements that are not included
/// those without an update stay. Means of integers are rounded down.
pub(super) fn scatter_reduce(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (mut x, index, axis) = along(node, graph)?;
    let dtype = x.dtype();
    let reduction = reduction_of(node, dtype)?;
    let updates = updates(node, graph, ("src", dtype), &index)?;
    let at = (&index, axis);
    let is_included = node.flag(5, "include_self", true)?;
    if !is_included {
        let neutral = Operand::of_scalar(reduction.identity(dtype));
        let neutral = graph.broadcast_to(&neutral, index.shape())?;
        x = put(graph, &x, at, &neutral, None)?;
    }
    let mut result = put(graph, &x, at, &updates, Some(reduction))?;
    // The mean of booleans is true where any is, as their sum is.
    if node.text(4, "reduce", "")? == "mean" && dtype != DType::Bool {
        let first = Scalar::from_f64(dtype, if is_included { 1.0 } else { 0.0 });
        let counts = graph.full(x.shape(), first)?;
        let ones = graph.full(index.shape(), Scalar::one(dtype))?;
        let counts = put(graph, &counts, at, &ones, Some(Reduction::Sum))?;
        let one = Operand::of_scalar(Scalar::one(dtype));
        let counts = graph.max(&counts, &one)?;
        if !dtype.is_float() {
            let rest = graph.map(ScalarFunction::Mod, &[&result, &counts])?;
            result = graph.sub(&result, &rest)?;
        }
        result = graph.div(&result, &counts)?;
    }
    Ok(vec![graph.reshape(&result, node.shape()?)?])
}

/// Indices an axis, of which a mask is as many as it has axes: where its elements hold.
fn without_masks(graph: &mut Graph, given: Vec<Option<Operand>>) -> Accepted<Vec<Option<Operand>>> {
    let mut indices = Vec::new();
    for index in given {
        match index {
            Some(mask) if mask.dtype() == DType::Bool => {
                let places = true_indices(graph, &mask)?;
                let count = places.shape()[0].clone();
                for axis in 0..mask.rank() {
                    let column = graph.slice_axis(&places, 1, Expr::from(axis), 1, Expr::ONE)?;
                    indices.push(Some(graph.reshape(&column, std::slice::from_ref(&count))?));
                }
            }
            other => indices.push(other),
        }
    }
    Ok(indices)
}

/// The indices of elements that are not zero: `[n, rank]`.
pub(super) fn non_zero(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.tensor(0, "self")?;
    let holds = graph.cast(&x, DType::Bool)?;
    if x.rank() == 0 {
        let holds = graph.reshape(&holds, &[Expr::ONE])?;
        let places = true_indices(graph, &holds)?;
        return Ok(vec![graph.slice_axis(&places, 1, Expr::ZERO, 1, Expr::ZERO)?]);
    }
    Ok(vec![true_indices(graph, &holds)?])
}

/// `_local_scalar_dense(x)`: the only element, an integer that is not negative, as a size. A trace
/// has such a size as the length of a value, as it has those that are inputs by themselves.
pub(super) fn counted(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let Some(range) = node.defined else {
        return Err(unsupported("a number that is no size"));
    };
    let x = node.tensor(0, "self")?;
    let x = graph.cast(&x, DType::I64)?;
    let x = graph.reshape(&x, &[])?;
    let length = graph.bind(&x, &Expr::from(range.max))?;
    Ok(vec![graph.full(&[length], Scalar::bool(false))?])
}

/// The axes that have an index, the indices in one shape, and how many other axes come before
/// theirs in the result: where indexed axes are not side by side, none.
fn placed(
    graph: &mut Graph,
    x: &Operand,
    given: &[Option<Operand>],
) -> Accepted<(Vec<usize>, Vec<Operand>, usize)> {
    let axes: Vec<usize> = (0..given.len()).filter(|&axis| given[axis].is_some()).collect();
    let mut indices = Vec::new();
    for (axis, index) in given.iter().enumerate() {
        let Some(index) = index else { continue };
        indices.push(wrapped_indices(graph, index, &x.shape()[axis])?);
    }
    let shapes: Vec<&[Expr]> = indices.iter().map(Operand::shape).collect();
    let shape = graph.common_shape(&shapes)?;
    let indices = indices.iter().map(|index| graph.broadcast_to(index, shape.as_slice()));
    let indices = indices.collect::<Accepted<Vec<_>>>()?;
    let is_together = axes.windows(2).all(|pair| pair[0] + 1 == pair[1]);
    let position = if is_together { axes.first().copied().unwrap_or(0) } else { 0 };
    Ok((axes, indices, position))
}

/// Elements at indices of several axes together.
pub(super) fn index(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.tensor(0, "self")?;
    let given = without_masks(graph, node.tensors(1, "indices")?)?;
    let (axes, indices, position) = placed(graph, &x, &given)?;
    if let ([axis], [index]) = (&axes[..], &indices[..]) {
        return Ok(vec![gather_axis(graph, &x, *axis, index)?]);
    }
    Ok(vec![graph.gather(&x, &axes, &indices, 0, position)?])
}

/// A value with others at indices of several axes together, or added there.
pub(super) fn index_put(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.tensor(0, "self")?;
    let given = node.tensors(1, "indices")?;
    if let [Some(mask)] = &given[..]
        && mask.dtype() == DType::Bool
        && let Some(result) = where_mask_holds(node, graph, &x, mask)?
    {
        return Ok(vec![result]);
    }
    let given = without_masks(graph, given)?;
    let (axes, indices, position) = placed(graph, &x, &given)?;
    let Some(first) = indices.first() else {
        return Err(unsupported("no index"));
    };
    let mut kept: Vec<Expr> = Vec::new();
    kept.extend((0..x.rank()).filter(|axis| !axes.contains(axis)).map(|at| x.shape()[at].clone()));
    let shape = [&kept[..position], first.shape(), &kept[position..]].concat();
    let updates = node.operand_as(graph, (2, "values"), x.dtype())?;
    let updates = graph.broadcast_to(&updates, shape)?;
    let reduction = of_elements(Reduction::Sum, x.dtype());
    let reduction = node.flag(3, "accumulate", false)?.then_some(reduction);
    let op = Op::Scatter { axes, batch: 0, position, reduction };
    Ok(vec![graph.scatter(&x, &updates, &indices, op)?])
}

/// A value with a number, or the same slice, where a mask of its first axes holds; none if there is
/// a value an element for which it holds.
fn where_mask_holds(
    node: &Node<'_>,
    graph: &mut Graph,
    x: &Operand,
    mask: &Operand,
) -> Accepted<Option<Operand>> {
    let value = node.operand_as(graph, (2, "values"), x.dtype())?;
    let behind = x.rank().checked_sub(mask.rank()).filter(|behind| value.rank() <= *behind);
    let Some(behind) = behind else { return Ok(None) };
    let shape = [mask.shape(), &vec![Expr::ONE; behind]].concat();
    let mask = graph.reshape(mask, &shape)?;
    let put = match node.flag(3, "accumulate", false)? {
        true if x.dtype() == DType::Bool => graph.map(ScalarFunction::Or, &[x, &value])?,
        true => graph.add(x, &value)?,
        false => value,
    };
    graph.select(&mask, &put, x).map(Some)
}
