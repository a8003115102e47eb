//! Reading and writing at indices that are data: windows of an operand, each placed by a vector of
//! indices.
//!
//! An axis of the operand that windows cover whole is *kept*; all others are *indexed*: by the
//! window's place plus, where windows cover more than one element, the place within the window.

use front::{Accepted, Graph, Operand, region as graph_region, shape_error, unsupported};
use graph::{Op, TensorType, Type};
use sym::Expr;
use tensor::{DType, Scalar};

use super::body::{lifted, reduction_of};
use super::movement::extents;
use super::reductions::region;
use crate::importer::{Frame, Importer};
use crate::node::{Lowered, Node, Value};

/// How windows lie in an operand.
struct Windows {
    /// Extents of the axes that number the windows.
    batch: Vec<Expr>,
    /// For each axis of the operand, how many elements a window covers.
    sizes: Vec<Expr>,
    /// For each axis, the index operand's column, or the axis of `batch` that is its index.
    starts: Vec<StartOf>,
    /// Axes of the operand that are axes of windows, in order.
    window_axes: Vec<usize>,
    /// Axes that are indexed, and those that are kept.
    indexed: Vec<usize>,
    kept: Vec<usize>,
}

#[derive(Clone, Copy, PartialEq)]
enum StartOf {
    Zero,
    Column(usize),
    Batch(usize),
}

impl Windows {
    /// The axes of windows that are indexed.
    fn partial(&self) -> Vec<usize> {
        self.window_axes.iter().copied().filter(|axis| self.indexed.contains(axis)).collect()
    }

    /// The shape of the index operands: windows, then places within the partial axes.
    fn index_shape(&self) -> Vec<Expr> {
        let partial = self.partial().into_iter().map(|axis| self.sizes[axis].clone());
        self.batch.iter().cloned().chain(partial).collect()
    }

    /// The axes of all windows' elements in the order windows, partial axes, kept axes, given where
    /// an array has the axes of windows; the rest of its axes number the windows.
    fn order(&self, positions: &[usize], rank: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..rank).filter(|axis| !positions.contains(axis)).collect();
        let position = |axis: &usize| {
            let at = self.window_axes.iter().position(|other| other == axis);
            positions[at.unwrap_or(0)]
        };
        order.extend(self.partial().iter().map(position));
        order.extend(self.kept.iter().map(position));
        order
    }

    /// The index along each indexed axis. `most` gives the last start that is allowed, to which
    /// starts are clamped; without it they are as they are.
    fn indices(
        &self,
        graph: &mut Graph,
        columns: &Operand,
        most: Option<&[Expr]>,
    ) -> Accepted<Vec<Operand>> {
        let shape = self.index_shape();
        let lead: Vec<usize> = (0..self.batch.len()).collect();
        let partial = self.partial();
        let mut indices = Vec::new();
        for &axis in &self.indexed {
            let mut index = match self.starts[axis] {
                StartOf::Zero => None,
                StartOf::Batch(number) => Some(graph.iota(DType::I64, &shape, number)?),
                StartOf::Column(number) => {
                    let last = columns.rank() - 1;
                    let at = Expr::from(number);
                    let start = graph.slice_axis(columns, last, at, 1, Expr::ONE)?;
                    let mut start = graph.reshape(&start, &self.batch)?;
                    if let Some(most) = most {
                        let zero = graph.number(DType::I64, 0.0);
                        let most = graph.dimension(most[axis].clone());
                        start = graph.min(&start, &most)?;
                        start = graph.max(&start, &zero)?;
                    }
                    Some(graph.broadcast(&start, &shape[..], &lead)?)
                }
            };
            if let Some(at) = partial.iter().position(|other| *other == axis) {
                let within = graph.iota(DType::I64, &shape, self.batch.len() + at)?;
                index = Some(match index {
                    Some(start) => graph.add(&start, &within)?,
                    None => within,
                });
            }
            indices.push(match index {
                Some(index) => index,
                None => graph.full(&shape, Scalar::zero(DType::I64))?,
            });
        }
        Ok(indices)
    }
}

/// The index operand as i64 with the components of an index along its last axis, and the extents
/// of the others.
fn columns(
    graph: &mut Graph,
    value: &Operand,
    vector_axis: usize,
) -> Accepted<(Operand, Vec<Expr>)> {
    let mut value = value.clone();
    if value.dtype() == DType::U64 {
        let most = Operand::of_scalar(Scalar::from_i64(DType::U64, i64::MAX));
        value = graph.min(&value, &most)?;
    }
    let mut value = graph.cast(&value, DType::I64)?;
    if vector_axis > value.rank() {
        return Err(shape_error(format!("indices have no axis {vector_axis}")));
    }
    if vector_axis == value.rank() {
        let shape = [value.shape(), &[Expr::ONE]].concat();
        value = graph.reshape(&value, &shape)?;
    }
    let mut order: Vec<usize> = (0..value.rank()).filter(|it| *it != vector_axis).collect();
    order.push(vector_axis);
    let value = graph.transpose(&value, &order)?;
    let batch = value.shape()[..value.rank() - 1].to_vec();
    Ok((value, batch))
}

/// Names of the entries of a record of axes.
struct Names {
    record: &'static str,
    window: &'static str,
    dropped: &'static str,
    batching: &'static str,
    batching_of_indices: &'static str,
    map: &'static str,
}

const GATHER: Names = Names {
    record: "dimension_numbers",
    window: "offset_dims",
    dropped: "collapsed_slice_dims",
    batching: "operand_batching_dims",
    batching_of_indices: "start_indices_batching_dims",
    map: "start_index_map",
};

const SCATTER: Names = Names {
    record: "scatter_dimension_numbers",
    window: "update_window_dims",
    dropped: "inserted_window_dims",
    batching: "input_batching_dims",
    batching_of_indices: "scatter_indices_batching_dims",
    map: "scatter_dims_to_operand_dims",
};

/// How windows lie, where `size` tells for an axis of windows how many elements they cover.
fn windows(
    node: &Node<'_>,
    names: &Names,
    operand: &[Expr],
    (batch, vector_axis): (Vec<Expr>, usize),
    size: impl Fn(usize, usize) -> Option<Expr>,
) -> Accepted<Windows> {
    let rank = operand.len();
    let dropped = node.axes_of(names.record, names.dropped, rank)?;
    let batching = node.axes_of(names.record, names.batching, rank)?;
    let map = node.axes_of(names.record, names.map, rank)?;
    let of_indices = node.axes_of(names.record, names.batching_of_indices, batch.len() + 1)?;
    if of_indices.len() != batching.len() || of_indices.contains(&vector_axis) {
        return Err(shape_error("the shared axes of operand and indices are not as many"));
    }
    let window_axes: Vec<usize> =
        (0..rank).filter(|axis| !dropped.contains(axis) && !batching.contains(axis)).collect();
    let (mut sizes, mut starts) = (vec![Expr::ONE; rank], vec![StartOf::Zero; rank]);
    for (at, &axis) in window_axes.iter().enumerate() {
        sizes[axis] = size(at, axis).ok_or_else(|| shape_error("a window has too few axes"))?;
    }
    for (column, &axis) in map.iter().enumerate() {
        starts[axis] = StartOf::Column(column);
    }
    for (&axis, &of_indices) in batching.iter().zip(&of_indices) {
        starts[axis] = StartOf::Batch(of_indices - usize::from(of_indices > vector_axis));
    }
    let is_whole = |axis: &usize| window_axes.contains(axis) && sizes[*axis] == operand[*axis];
    let (kept, indexed): (Vec<usize>, Vec<usize>) = (0..rank).partition(is_whole);
    Ok(Windows { batch, sizes, starts, window_axes, indexed, kept })
}

pub(crate) fn gather<'p>(importer: &mut Importer<'p>, node: &Node<'p>, _: &mut Frame) -> Lowered {
    let sizes = node.required("slice_sizes")?.into_iter().map(Expr::from).collect();
    gather_sizes(importer, node, sizes)
}

pub(crate) fn dynamic_gather<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    let sizes = extents(&mut importer.graph, node.real(2)?)?;
    gather_sizes(importer, node, sizes)
}

fn gather_sizes(importer: &mut Importer<'_>, node: &Node<'_>, sizes: Vec<Expr>) -> Lowered {
    let graph = &mut importer.graph;
    let value = node.value(0)?;
    let operand = value.shape().to_vec();
    if sizes.len() != operand.len() {
        return Err(shape_error("not as many sizes of slices as axes"));
    }
    let vector_axis = node.axis_of(GATHER.record, "index_vector_dim")?.unwrap_or(0);
    let (columns, batch) = columns(graph, node.real(1)?, vector_axis)?;
    let size = |_: usize, axis: usize| Some(sizes[axis].clone());
    let windows = windows(node, &GATHER, &operand, (batch, vector_axis), size)?;
    let most: Vec<Expr> = operand.iter().zip(&sizes).map(|(a, b)| a - b).collect();
    let rank = windows.batch.len() + windows.window_axes.len();
    let positions = node.axes_of(GATHER.record, GATHER.window, rank)?;
    if positions.len() != windows.window_axes.len() {
        return Err(shape_error("not as many axes of the result as of windows"));
    }
    let order = windows.order(&positions, rank);
    let mut inverse = vec![0; rank];
    for (at, &axis) in order.iter().enumerate() {
        inverse[axis] = at;
    }
    let indices = windows.indices(graph, &columns, Some(&most))?;
    let gathered = value.each(|part| {
        let gathered = if windows.indexed.is_empty() {
            let shape = [&windows.batch[..], &operand].concat();
            graph.broadcast_to(part, shape)?
        } else {
            graph.gather(part, &windows.indexed, &indices, 0, 0)?
        };
        graph.transpose(&gathered, &inverse)
    })?;
    Ok(vec![gathered])
}

pub(crate) fn scatter<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    frame: &mut Frame,
) -> Lowered {
    let count = node.operands.len() / 2;
    if count == 0 || node.operands.len() != 2 * count + 1 {
        return Err(shape_error("a scatter has not as many updates as operands"));
    }
    let (inputs, updates) = (&node.operands[..count], &node.operands[count + 1..]);
    let operand = inputs[0].shape().to_vec();
    let update_shape = updates[0].shape().to_vec();
    let vector_axis = node.axis_of(SCATTER.record, "index_vector_dim")?.unwrap_or(0);
    let (columns, batch) = columns(&mut importer.graph, node.real(count)?, vector_axis)?;
    let positions = node.axes_of(SCATTER.record, SCATTER.window, update_shape.len())?;
    let size = |at: usize, _: usize| positions.get(at).map(|&axis| update_shape[axis].clone());
    let windows = windows(node, &SCATTER, &operand, (batch, vector_axis), size)?;
    if positions.len() != windows.window_axes.len()
        || update_shape.len() != positions.len() + windows.batch.len()
    {
        return Err(shape_error("the updates' axes are not those of windows and indices"));
    }
    // The indexed axes as one, with a row behind the others for updates outside of the operand.
    let extents = windows.indexed.iter().map(|&axis| &operand[axis]);
    let places: Expr = extents.product();
    let indices = windows.indices(&mut importer.graph, &columns, None)?;
    let index = flat_index(&mut importer.graph, &windows, &operand, &indices, &places)?;
    let updates_count: Expr = windows.index_shape().iter().product();
    let index = importer.graph.reshape(&index, std::slice::from_ref(&updates_count))?;
    let kept: Vec<Expr> = windows.kept.iter().map(|&axis| operand[axis].clone()).collect();
    let forward: Vec<usize> = windows.indexed.iter().chain(&windows.kept).copied().collect();
    let mut backward = vec![0; forward.len()];
    for (at, &axis) in forward.iter().enumerate() {
        backward[axis] = at;
    }
    let order = windows.order(&positions, update_shape.len());
    let graph = &mut importer.graph;
    let mut state = Vec::new();
    for value in inputs {
        state.push(value.each(|part| {
            let part = graph.transpose(part, &forward)?;
            let part =
                graph.reshape(&part, &[std::slice::from_ref(&places), &kept[..]].concat())?;
            let mut high = vec![Expr::ZERO; 1 + kept.len()];
            let low = high.clone();
            high[0] = Expr::ONE;
            let fill = Operand::of_scalar(Scalar::zero(part.dtype()));
            super::movement::pad_value(graph, &part, &fill, &low, &high, &vec![0; low.len()])
        })?);
    }
    let rows = updates.iter().map(|value| {
        value.each(|part| {
            let part = graph.transpose(part, &order)?;
            graph.reshape(&part, &[std::slice::from_ref(&updates_count), &kept[..]].concat())
        })
    });
    let rows = rows.collect::<Accepted<Vec<Value>>>()?;
    let combined = combine(importer, node, frame, state, rows, &index)?;
    let graph = &mut importer.graph;
    let shape: Vec<Expr> = forward.iter().map(|&axis| operand[axis].clone()).collect();
    combined
        .iter()
        .map(|value| {
            value.each(|part| {
                let part = graph.slice_axis(part, 0, Expr::ZERO, 1, places.clone())?;
                let part = graph.reshape(&part, &shape)?;
                graph.transpose(&part, &backward)
            })
        })
        .collect()
}

/// The row of each update, that behind all others where one of its indices is outside of its axis.
fn flat_index(
    graph: &mut Graph,
    windows: &Windows,
    operand: &[Expr],
    indices: &[Operand],
    places: &Expr,
) -> Accepted<Operand> {
    let shape = windows.index_shape();
    let mut flat = graph.full(&shape, Scalar::zero(DType::I64))?;
    let mut is_within: Option<Operand> = None;
    let zero = graph.number(DType::I64, 0.0);
    for (&axis, index) in windows.indexed.iter().zip(indices) {
        let extent = graph.dimension(operand[axis].clone());
        flat = graph.mul(&flat, &extent)?;
        flat = graph.add(&flat, index)?;
        let (low, high) = (graph.greater_equal(index, &zero)?, graph.less(index, &extent)?);
        let within = graph.and(&low, &high)?;
        is_within = Some(match is_within {
            Some(before) => graph.and(&before, &within)?,
            None => within,
        });
    }
    let Some(is_within) = is_within else { return Ok(flat) };
    let outside = graph.dimension(places.clone());
    graph.select(&is_within, &flat, &outside)
}

/// Rows combined with the rows of a state at indices.
fn combine<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    frame: &mut Frame,
    state: Vec<Value>,
    rows: Vec<Value>,
    index: &Operand,
) -> Accepted<Vec<Value>> {
    let block = region(node, 0)?;
    let replaces = match &block.operations[..] {
        [result] => result.operands == block.parameters[block.parameters.len() / 2..],
        _ => false,
    };
    let reduction = match &state[..] {
        [one] => reduction_of(node, block, one),
        _ => None,
    };
    let write = |graph: &mut Graph, state: &[Value], rows: &[Value], index: &Operand, reduction| {
        let mut written = Vec::new();
        for (state, rows) in state.iter().zip(rows) {
            let mut rows = rows.parts().into_iter();
            written.push(state.each(|part| {
                let rows =
                    rows.next().ok_or_else(|| shape_error("parts of an update are missing"))?;
                let op = Op::Scatter { axes: vec![0], batch: 0, position: 0, reduction };
                graph.scatter(part, rows, std::slice::from_ref(index), op)
            })?);
        }
        Ok(written)
    };
    if replaces || reduction.is_some() {
        return write(&mut importer.graph, &state, &rows, index, reduction);
    }
    let read = |graph: &mut Graph, state: &[Value], index: &Operand| -> Accepted<Vec<Value>> {
        let at = std::slice::from_ref(index);
        state.iter().map(|it| it.each(|part| graph.gather(part, &[0], at, 0, 0))).collect()
    };
    if node.flag("unique_indices") {
        let before = read(&mut importer.graph, &state, index)?;
        let after = lifted(importer, node.function, block, frame, [before, rows].concat())?;
        return write(&mut importer.graph, &state, &after, index, None);
    }
    // One row after the other.
    importer.settle(&node.operation.regions, frame)?;
    let trips = index.shape()[0].clone();
    let scanned: Vec<Operand> =
        rows.iter().flat_map(Value::parts).chain([index]).cloned().collect();
    let carried: Vec<Operand> = state.iter().flat_map(Value::parts).cloned().collect();
    importer.graph.all_data(carried.iter().chain(&scanned))?;
    let types = front::scan_types(&carried, &scanned)?;
    let body = graph_region(importer, &types, |importer, parameters| {
        let (states, slices) = parameters[1..].split_at(carried.len());
        let (slices, index) = slices.split_at(slices.len() - 1);
        let restored = |like: &[Value], parts: &[Operand]| -> Accepted<Vec<Value>> {
            let mut parts = parts.iter().cloned();
            like.iter().map(|value| value.with_parts(&mut parts)).collect()
        };
        let (own, rows) = (restored(&state, states)?, restored(&rows, slices)?);
        let graph = &mut importer.graph;
        let index = graph.reshape(&index[0], &[Expr::ONE])?;
        let before = read(graph, &own, &index)?;
        let rows = rows.iter().map(|value| {
            value.each(|part| {
                let shape = [&[Expr::ONE], part.shape()].concat();
                graph.reshape(part, &shape)
            })
        });
        let rows = rows.collect::<Accepted<Vec<Value>>>()?;
        let after = lifted(importer, node.function, block, frame, [before, rows].concat())?;
        let written: Vec<Value> = write(&mut importer.graph, &own, &after, &index, None)?;
        Ok(written.iter().flat_map(Value::parts).cloned().collect())
    })?;
    let op = Op::Scan { trip_count: trips, carried: carried.len(), reverse: false };
    let results = importer.graph.control(op, &[carried, scanned].concat(), &[body])?;
    let mut results = results.into_iter();
    state.iter().map(|value| value.with_parts(&mut results)).collect()
}

/// Starts of a slice, one a scalar operand, and the axes along which it is not the whole operand.
fn starts(
    graph: &mut Graph,
    node: &Node<'_>,
    first: usize,
    (operand, sizes): (&[Expr], &[Expr]),
) -> Accepted<(Vec<usize>, Vec<Operand>)> {
    if node.operands.len() != first + operand.len() || sizes.len() != operand.len() {
        return Err(shape_error("not as many starts or sizes as axes"));
    }
    let (mut axes, mut found) = (Vec::new(), Vec::new());
    for (axis, (extent, size)) in operand.iter().zip(sizes).enumerate() {
        if extent == size {
            continue;
        }
        let (start, _) = columns(graph, node.real(first + axis)?, 0)?;
        let start = graph.reshape(&start, &[])?;
        let most = graph.dimension(extent - size);
        let zero = graph.number(DType::I64, 0.0);
        let start = graph.min(&start, &most)?;
        axes.push(axis);
        found.push(graph.max(&start, &zero)?);
    }
    Ok((axes, found))
}

/// The indices of a slice that begins at `starts` along `axes`.
fn slice_indices(
    graph: &mut Graph,
    sizes: &[Expr],
    axes: &[usize],
    starts: &[Operand],
) -> Accepted<Vec<Operand>> {
    let shape: Vec<Expr> = axes.iter().map(|&axis| sizes[axis].clone()).collect();
    let index = |(number, start): (usize, &Operand)| {
        let within = graph.iota(DType::I64, &shape, number)?;
        graph.add(&within, start)
    };
    starts.iter().enumerate().map(index).collect()
}

pub(crate) fn dynamic_slice<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    let graph = &mut importer.graph;
    let value = node.value(0)?;
    let operand = value.shape().to_vec();
    let sizes: Vec<Expr> = node.required("slice_sizes")?.into_iter().map(Expr::from).collect();
    let (axes, starts) = starts(graph, node, 1, (&operand, &sizes))?;
    if axes.is_empty() {
        return Ok(vec![value.clone()]);
    }
    let known: Option<Vec<i64>> =
        starts.iter().map(|start| Some(start.numbers()?.first()?.as_i64())).collect();
    if let Some(known) = known {
        let mut begin = vec![Expr::ZERO; operand.len()];
        for (&axis, start) in axes.iter().zip(known) {
            begin[axis] = Expr::from(start);
        }
        let steps = vec![1; operand.len()];
        return Ok(vec![value.each(|part| graph.slice(part, &begin, &steps, &sizes))?]);
    }
    let indices = slice_indices(graph, &sizes, &axes, &starts)?;
    let kept: Vec<usize> = (0..operand.len()).filter(|axis| !axes.contains(axis)).collect();
    let order: Vec<usize> = axes.iter().chain(&kept).copied().collect();
    let mut inverse = vec![0; order.len()];
    for (at, &axis) in order.iter().enumerate() {
        inverse[axis] = at;
    }
    Ok(vec![value.each(|part| {
        let part = graph.gather(part, &axes, &indices, 0, 0)?;
        graph.transpose(&part, &inverse)
    })?])
}

pub(crate) fn dynamic_update_slice<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    let graph = &mut importer.graph;
    let (value, update) = (node.value(0)?, node.value(1)?);
    let (operand, sizes) = (value.shape().to_vec(), update.shape().to_vec());
    let (axes, starts) = starts(graph, node, 2, (&operand, &sizes))?;
    if axes.is_empty() {
        return Ok(vec![update.clone()]);
    }
    if sizes.iter().any(Expr::is_zero) {
        return Ok(vec![value.clone()]);
    }
    let indices = slice_indices(graph, &sizes, &axes, &starts)?;
    let kept: Vec<usize> = (0..operand.len()).filter(|axis| !axes.contains(axis)).collect();
    let order: Vec<usize> = axes.iter().chain(&kept).copied().collect();
    let mut updates = update.parts().into_iter();
    Ok(vec![value.each(|part| {
        let update = updates.next().ok_or_else(|| unsupported("an update of another kind"))?;
        let update = graph.transpose(update, &order)?;
        let op = Op::Scatter { axes: axes.clone(), batch: 0, position: 0, reduction: None };
        graph.scatter(part, &update, &indices, op)
    })?])
}

/// The type of a value in a region.
pub(crate) fn region_types(values: &[Value]) -> Vec<Type> {
    let parts = values.iter().flat_map(Value::parts);
    let ty = |part: &Operand| TensorType { dtype: part.dtype(), shape: part.shape().into() };
    parts.map(|part| Type::Tensor(ty(part))).collect()
}
