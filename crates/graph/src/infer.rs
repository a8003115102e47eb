//! Types: what a primitive's results are, as a function of the primitive and its operands' types.
//!
//! Symbolic extents are compared as canonical expressions, so `n + n` equals `2 * n`, while two
//! different symbols are different extents. The only exception is `Reshape`, where a difference
//! that depends on symbols is left to the run: only element counts known to differ are refused.
//!
//! Errors are sentences about operands and axes by number; callers add the node.

use base::Id;
use sym::{Expr, Range, SymbolId};
use tensor::{DType, Reduction};

use crate::defined::{all_generalised, defined_by};
use crate::function::Type;
use crate::lists::check_list;
use crate::op::{IterationSpace, Op, TensorType};
use crate::shape::Shape;
use crate::text::{Names, shape_text, type_text};

pub(crate) type Inferred<T> = Result<T, String>;

/// The types of a region's parameters and results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionType {
    /// Types of the parameters.
    pub parameters: Vec<Type>,
    /// Types of the results.
    pub results: Vec<Type>,
}

/// The result types of a primitive without regions.
///
/// # Errors
/// A sentence that says what is wrong with the operands or the primitive itself.
pub fn infer(op: &Op, operands: &[&Type]) -> Result<Vec<Type>, String> {
    infer_with_regions(op, operands, &[], &|symbol| symbol.to_string())
}

/// The result types of any primitive, control flow included. `names` are the symbols' in messages.
///
/// # Errors
/// As [`infer`].
pub fn infer_with_regions(
    op: &Op,
    operands: &[&Type],
    regions: &[RegionType],
    names: Names<'_>,
) -> Result<Vec<Type>, String> {
    expect_count("region", op.region_labels().len(), regions.len())?;
    match op {
        Op::If { results } => infer_if(results, operands, regions, names),
        Op::While { turns } => infer_while(*turns, operands, regions, names),
        Op::Scan { trip_count, carried, .. } => {
            infer_scan(trip_count, *carried, operands, regions, names)
        }
        Op::Host { results, .. } => Ok(results.iter().cloned().map(Type::Tensor).collect()),
        Op::Call { results, .. } => Ok(results.clone()),
        Op::List { operation, results } => {
            check_list(*operation, operands, results, names)?;
            Ok(results.clone())
        }
        _ => {
            let operands = tensors(operands)?;
            let results = infer_tensors(op, &operands, names)?;
            Ok(results.into_iter().map(Type::Tensor).collect())
        }
    }
}

/// The result types of primitives that know only tensors.
fn infer_tensors(op: &Op, operands: &[&TensorType], names: Names<'_>) -> Inferred<Vec<TensorType>> {
    if let Some(count) = op.operand_count() {
        expect_count("operand", count, operands.len())?;
    }
    let one = |result: TensorType| Ok(vec![result]);
    match op {
        Op::Literal(tensor) => one(TensorType {
            dtype: tensor.dtype(),
            shape: tensor.shape().iter().map(|&extent| Expr::constant(extent as i64)).collect(),
        }),
        Op::Weight { result, .. } => one(result.clone()),
        Op::Iota { result, axis } => {
            expect_axis(*axis, result)?;
            expect(result.dtype.is_number(), || {
                format!("counting needs a number type, not {}", result.dtype)
            })?;
            one(result.clone())
        }
        Op::Dimension(_) => one(scalar(DType::I64)),
        Op::Bind { .. } => {
            expect_scalar(operands, 0, DType::I64)?;
            one(scalar(DType::I64))
        }
        Op::Map { function, dtype } => {
            for (index, operand) in operands.iter().enumerate().skip(1) {
                expect_same_shape(&operands[0].shape, 0, &operand.shape, index, names)?;
            }
            let types: Vec<DType> = operands.iter().map(|operand| operand.dtype).collect();
            function.result_dtype(&types, Some(*dtype))?;
            one(TensorType { dtype: *dtype, shape: operands[0].shape.clone() })
        }
        Op::Broadcast { shape, axes } => one(infer_broadcast(shape, axes, operands[0], names)?),
        Op::Reshape { shape } => one(infer_reshape(shape, operands[0], names)?),
        Op::Transpose { permutation } => one(infer_transpose(permutation, operands[0])?),
        Op::Slice { starts, steps, shape } => {
            one(infer_slice(starts, steps, shape, operands[0], names)?)
        }
        Op::Pad { low, high, interior } => one(infer_pad(low, high, interior, operands, names)?),
        Op::Concat { axis } => one(infer_concat(*axis, operands, names)?),
        Op::Gather { axes, batch, position } => {
            expect_count("operand", 1 + axes.len(), operands.len())?;
            let shape = indexed_shape(axes, *batch, *position, operands, 1, names)?;
            one(TensorType { dtype: operands[0].dtype, shape: shape.into() })
        }
        Op::Scatter { axes, batch, position, reduction } => {
            one(infer_scatter(axes, *batch, *position, *reduction, operands, names)?)
        }
        Op::Contract { space, accumulator, dtype } => {
            one(infer_contract(space, *accumulator, *dtype, operands)?)
        }
        Op::Reduce { space, reduction, accumulator } => {
            check_space(space, operands)?;
            expect_reducible(*reduction, *accumulator)?;
            expect_accumulates(operands[0].dtype, *accumulator, 0)?;
            one(TensorType { dtype: *accumulator, shape: result_shape(space) })
        }
        Op::ArgReduce { axis, .. } => {
            expect_axis(*axis, operands[0])?;
            expect_ordered(operands[0].dtype)?;
            let (before, rest) = operands[0].shape.split_at(*axis);
            let shape = before.iter().chain(&rest[1..]).cloned().collect();
            one(TensorType { dtype: DType::I64, shape })
        }
        Op::Cumulate { axis, reduction, .. } => {
            expect_axis(*axis, operands[0])?;
            expect_reducible(*reduction, operands[0].dtype)?;
            one(operands[0].clone())
        }
        Op::Sort { axis, kept, .. } => {
            expect_axis(*axis, operands[0])?;
            expect_ordered(operands[0].dtype)?;
            let mut shape = operands[0].shape.clone();
            if let Some(kept) = *kept {
                let extent = std::mem::replace(&mut shape[*axis], Expr::constant(kept as i64));
                let beyond = extent.as_constant().is_some_and(|extent| kept as i64 > extent);
                expect(!beyond, || {
                    let extent = extent.display(names);
                    format!("{kept} elements are kept of axis {axis} of extent {extent}")
                })?;
            }
            let result = |dtype| TensorType { dtype, shape: shape.clone() };
            Ok(vec![result(operands[0].dtype), result(DType::I64)])
        }
        Op::Bitcast { dtype } => {
            let from = operands[0].dtype;
            let is_bits = from != DType::String && *dtype != DType::String;
            expect(is_bits && from.bits() == dtype.bits(), || {
                format!("{from} and {dtype} do not have the same width")
            })?;
            one(TensorType { dtype: *dtype, shape: operands[0].shape.clone() })
        }
        Op::NonZero => infer_non_zero(operands[0]),
        Op::RandomBits { shape } => {
            expect_scalar(operands, 0, DType::U64)?;
            one(TensorType { dtype: DType::U64, shape: shape.clone() })
        }
        Op::If { .. }
        | Op::While { .. }
        | Op::Scan { .. }
        | Op::List { .. }
        | Op::Call { .. }
        | Op::Host { .. } => {
            unreachable!("has operands or regions of its own")
        }
    }
}

fn infer_broadcast(
    shape: &Shape,
    axes: &[usize],
    operand: &TensorType,
    names: Names<'_>,
) -> Inferred<TensorType> {
    expect_count("axis map entry", operand.shape.len(), axes.len())?;
    expect_increasing("axes", axes, shape.len())?;
    for (axis, (&target, extent)) in axes.iter().zip(&operand.shape).enumerate() {
        let wanted = &shape[target];
        expect(extent.is_one() || extent == wanted, || {
            let (extent, wanted) = (extent.display(names), wanted.display(names));
            format!(
                "axis {axis} has extent {extent}, which does not broadcast to {wanted} \
                 (axis {target} of the result)"
            )
        })?;
    }
    Ok(TensorType { dtype: operand.dtype, shape: shape.clone() })
}

fn infer_reshape(shape: &Shape, operand: &TensorType, names: Names<'_>) -> Inferred<TensorType> {
    let (from, to) = (element_count(&operand.shape), element_count(shape));
    let differ = (&to - &from).as_constant().is_some_and(|value| value != 0);
    expect(!differ, || {
        let (old, new) = (shape_text(&operand.shape, names), shape_text(shape, names));
        let (from, to) = (from.display(names), to.display(names));
        format!("{old} holds {from} elements, but {new} holds {to}")
    })?;
    Ok(TensorType { dtype: operand.dtype, shape: shape.clone() })
}

fn infer_transpose(permutation: &[usize], operand: &TensorType) -> Inferred<TensorType> {
    expect_count("permutation entry", operand.shape.len(), permutation.len())?;
    let mut seen = vec![false; permutation.len()];
    for &axis in permutation {
        expect_axis(axis, operand)?;
        expect(!std::mem::replace(&mut seen[axis], true), || {
            format!("axis {axis} stands twice in the permutation")
        })?;
    }
    let shape = permutation.iter().map(|&axis| operand.shape[axis].clone()).collect();
    Ok(TensorType { dtype: operand.dtype, shape })
}

fn infer_slice(
    starts: &[Expr],
    steps: &[i64],
    shape: &Shape,
    operand: &TensorType,
    names: Names<'_>,
) -> Inferred<TensorType> {
    let rank = operand.shape.len();
    expect_count("start", rank, starts.len())?;
    expect_count("step", rank, steps.len())?;
    expect_count("axis of the result", rank, shape.len())?;
    for axis in 0..rank {
        expect(steps[axis] != 0, || format!("the step along axis {axis} is zero"))?;
        let last = &starts[axis] + (&shape[axis] - 1) * steps[axis];
        let extent = &operand.shape[axis];
        let (Some(start), Some(last)) = (starts[axis].as_constant(), last.as_constant()) else {
            continue;
        };
        let empty = shape[axis].as_constant() == Some(0);
        let beyond = |index: i64| extent.as_constant().is_some_and(|extent| index >= extent);
        expect(empty || start.min(last) >= 0 && !beyond(start.max(last)), || {
            let extent = extent.display(names);
            format!("indices {start} to {last} leave axis {axis} of extent {extent}")
        })?;
    }
    Ok(TensorType { dtype: operand.dtype, shape: shape.clone() })
}

fn infer_pad(
    low: &[Expr],
    high: &[Expr],
    interior: &[i64],
    operands: &[&TensorType],
    names: Names<'_>,
) -> Inferred<TensorType> {
    let operand = operands[0];
    let rank = operand.shape.len();
    expect_scalar(operands, 1, operand.dtype)?;
    for entries in [low.len(), high.len(), interior.len()] {
        expect_count("padding entry", rank, entries)?;
    }
    let mut shape = Vec::with_capacity(rank);
    for axis in 0..rank {
        let extent = &operand.shape[axis];
        expect(interior[axis] >= 0, || {
            format!("the interior padding of axis {axis} is negative: {}", interior[axis])
        })?;
        // An empty axis has no neighbours; a symbolic one that may be empty is not spread.
        let spread = match (interior[axis], extent.as_constant()) {
            (0, _) | (_, Some(0)) => extent.clone(),
            (between, _) => (extent - 1) * (between + 1) + 1,
        };
        let padded = &low[axis] + spread + &high[axis];
        expect(padded.as_constant().is_none_or(|padded| padded >= 0), || {
            let (low, high) = (low[axis].display(names), high[axis].display(names));
            let extent = extent.display(names);
            format!("padding axis {axis} of extent {extent} by {low} and {high} leaves nothing")
        })?;
        shape.push(padded);
    }
    Ok(TensorType { dtype: operand.dtype, shape: shape.into() })
}

fn infer_concat(axis: usize, operands: &[&TensorType], names: Names<'_>) -> Inferred<TensorType> {
    let [first, others @ ..] = operands else {
        return Err("a concatenation needs an operand".to_owned());
    };
    expect_axis(axis, first)?;
    let mut result = (*first).clone();
    for (index, operand) in others.iter().enumerate() {
        let index = index + 1;
        expect_dtype(operand, index, first.dtype)?;
        expect_rank(first.shape.len(), 0, operand.shape.len(), index)?;
        for other in (0..first.shape.len()).filter(|&other| other != axis) {
            expect_same_extent(other, &first.shape[other], 0, &operand.shape[other], index, names)?;
        }
        result.shape[axis] += &operand.shape[axis];
    }
    Ok(result)
}

/// The shape of what a gather with these attributes produces; `first` is the number of the first
/// index operand in messages.
fn indexed_shape(
    axes: &[usize],
    batch: usize,
    position: usize,
    operands: &[&TensorType],
    first: usize,
    names: Names<'_>,
) -> Inferred<Vec<Expr>> {
    let (data, indices) = (operands[0], &operands[first..]);
    let rank = data.shape.len();
    let Some(head) = indices.first() else {
        return Err("indexing needs at least one axis".to_owned());
    };
    expect_increasing("indexed axes", axes, rank)?;
    expect(axes.iter().all(|&axis| axis >= batch), || {
        format!("axis {} is a batch axis and cannot be indexed", axes[0])
    })?;
    for (index, operand) in indices.iter().enumerate() {
        expect_dtype(operand, first + index, DType::I64)?;
        expect_same_shape(&head.shape, first, &operand.shape, first + index, names)?;
    }
    expect(batch <= head.shape.len(), || {
        format!("{batch} batch axes, but the indices have rank {}", head.shape.len())
    })?;
    for axis in 0..batch {
        expect_same_extent(axis, &data.shape[axis], 0, &head.shape[axis], first, names)?;
    }
    let kept: Vec<usize> = (batch..rank).filter(|axis| !axes.contains(axis)).collect();
    expect(position <= kept.len(), || {
        format!("the indices' axes would come after {position} kept axes of {}", kept.len())
    })?;
    let extents = |axes: &[usize]| -> Vec<Expr> {
        axes.iter().map(|&axis| data.shape[axis].clone()).collect()
    };
    let (before, after) = (extents(&kept[..position]), extents(&kept[position..]));
    Ok([&data.shape[..batch], &before, &head.shape[batch..], &after].concat())
}

fn infer_scatter(
    axes: &[usize],
    batch: usize,
    position: usize,
    reduction: Option<Reduction>,
    operands: &[&TensorType],
    names: Names<'_>,
) -> Inferred<TensorType> {
    expect_count("operand", 2 + axes.len(), operands.len())?;
    let (data, updates) = (operands[0], operands[1]);
    let shape = indexed_shape(axes, batch, position, operands, 2, names)?;
    expect(shape == updates.shape, || {
        let (expected, found) = (shape_text(&shape, names), shape_text(&updates.shape, names));
        format!("the updates have shape {found}, but the indices call for {expected}")
    })?;
    expect_dtype(updates, 1, data.dtype)?;
    if let Some(reduction) = reduction {
        expect_reducible(reduction, data.dtype)?;
    }
    Ok(data.clone())
}

fn infer_contract(
    space: &IterationSpace,
    accumulator: DType,
    dtype: DType,
    operands: &[&TensorType],
) -> Inferred<TensorType> {
    check_space(space, operands)?;
    for (index, operand) in operands.iter().enumerate() {
        expect(operand.dtype.is_number(), || {
            format!("operand {index} has type {}, which has no product", operand.dtype)
        })?;
        expect_accumulates(operand.dtype, accumulator, index)?;
    }
    expect(dtype.is_float() == accumulator.is_float() && dtype.is_number(), || {
        format!("sums of type {accumulator} do not make results of type {dtype}")
    })?;
    Ok(TensorType { dtype, shape: result_shape(space) })
}

fn infer_non_zero(operand: &TensorType) -> Inferred<Vec<TensorType>> {
    expect_dtype(operand, 0, DType::Bool)?;
    let rank = Expr::constant(operand.shape.len() as i64);
    let shape = [element_count(&operand.shape), rank].into();
    Ok(vec![TensorType { dtype: DType::I64, shape }, scalar(DType::I64)])
}

fn infer_if(
    results: &[Type],
    operands: &[&Type],
    regions: &[RegionType],
    names: Names<'_>,
) -> Inferred<Vec<Type>> {
    expect_count("operand", 1, operands.len())?;
    expect_scalar(&tensors(operands)?, 0, DType::Bool)?;
    for region in regions {
        expect_types("parameters of a branch", &[], &region.parameters, names)?;
        expect_general("results", results, "results of a branch", &region.results, names)?;
    }
    Ok(results.to_vec())
}

fn infer_while(
    turns: Option<SymbolId>,
    operands: &[&Type],
    regions: &[RegionType],
    names: Names<'_>,
) -> Inferred<Vec<Type>> {
    let initial: Vec<Type> = operands.iter().map(|&ty| ty.clone()).collect();
    let carried = &regions[0].parameters;
    expect_general("parameters of the condition", carried, "operands", &initial, names)?;
    let condition = Type::Tensor(scalar(DType::Bool));
    expect_types("results of the condition", &[condition], &regions[0].results, names)?;
    expect_types("parameters of the body", carried, &regions[1].parameters, names)?;
    let defined = defined_by(&Op::While { turns: None }, &initial, regions);
    let stacked = expect_turn(carried, &regions[1].results, &defined, names)?;
    let mut results = carried.clone();
    match turns {
        Some(turns) => results.extend(stacks(&Expr::symbol(turns), stacked)?),
        None => expect_count("result of the body", carried.len(), regions[1].results.len())?,
    }
    Ok(results)
}

fn infer_scan(
    trip_count: &Expr,
    carried: usize,
    operands: &[&Type],
    regions: &[RegionType],
    names: Names<'_>,
) -> Inferred<Vec<Type>> {
    let body = &regions[0];
    expect(carried <= operands.len() && carried <= body.results.len(), || {
        format!(
            "{carried} carried values, but there are {} operands and {} results of the body",
            operands.len(),
            body.results.len()
        )
    })?;
    let counter = Type::Tensor(scalar(DType::I64));
    let expected = 1 + operands.len();
    expect_count("parameter of the body", expected, body.parameters.len())?;
    let (first, slices) = body.parameters.split_at(1 + carried);
    expect_types("the counter of the body", &[counter], &first[..1], names)?;
    let initial: Vec<Type> = operands[..carried].iter().map(|&ty| ty.clone()).collect();
    expect_general("parameters of the body", &first[1..], "operands", &initial, names)?;
    let mut sliced = Vec::new();
    for (index, scanned) in tensors(&operands[carried..])?.into_iter().enumerate() {
        let index = carried + index;
        let [first, rest @ ..] = &scanned.shape[..] else {
            return Err(format!("operand {index} is scanned, but has no axis"));
        };
        expect(first == trip_count, || {
            let (first, trip_count) = (first.display(names), trip_count.display(names));
            format!("operand {index} has {first} slices for {trip_count} iterations")
        })?;
        sliced.push(Type::Tensor(TensorType { dtype: scanned.dtype, shape: rest.into() }));
    }
    expect_types("slices of the body", &sliced, slices, names)?;
    let op = Op::Scan { trip_count: trip_count.clone(), carried, reverse: false };
    let defined = defined_by(&op, &initial, regions);
    let stacked = expect_turn(&first[1..], &body.results, &defined, names)?;
    let mut results = first[1..].to_vec();
    results.extend(stacks(trip_count, stacked)?);
    Ok(results)
}

/// Checks what a turn of a loop gives for the next one, up to the extents that the loop defines;
/// the types of the rows that it stacks.
fn expect_turn<'t>(
    carried: &[Type],
    results: &'t [Type],
    defined: &[SymbolId],
    names: Names<'_>,
) -> Inferred<&'t [Type]> {
    let (next, rows) = results.split_at(carried.len().min(results.len()));
    let symbols = expect_general("what is carried", carried, "results of the body", next, names)?;
    match symbols.iter().find(|symbol| !defined.contains(symbol)) {
        None => Ok(rows),
        Some(&symbol) => Err(format!("a turn changes {}, which is defined outside", names(symbol))),
    }
}

/// The types of stacks of so many rows.
fn stacks(count: &Expr, rows: &[Type]) -> Inferred<Vec<Type>> {
    let rows: Vec<&Type> = rows.iter().collect();
    let stack = |row: &TensorType| {
        let shape = std::iter::once(count).chain(&row.shape).cloned().collect();
        Type::Tensor(TensorType { dtype: row.dtype, shape })
    };
    Ok(tensors(&rows)?.into_iter().map(stack).collect())
}

fn result_shape(space: &IterationSpace) -> Shape {
    space.extents[..space.parallel].into()
}

/// Checks that every operand has one index an axis, over axes of the space only, within bounds
/// wherever extents are constants.
fn check_space(space: &IterationSpace, operands: &[&TensorType]) -> Inferred<()> {
    let axes = space.extents.len();
    expect(space.parallel <= axes, || {
        format!("{} of the space's {axes} axes are said to be the result's", space.parallel)
    })?;
    expect_count("indexed operand", operands.len(), space.operands.len())?;
    if space.extents.iter().any(|extent| extent.as_constant() == Some(0)) {
        return Ok(());
    }
    for (number, (operand, index)) in operands.iter().zip(&space.operands).enumerate() {
        expect(index.len() == operand.shape.len(), || {
            let (given, rank) = (index.len(), operand.shape.len());
            format!("operand {number} has rank {rank}, but {given} index expressions")
        })?;
        for (axis, (index, extent)) in index.iter().zip(&operand.shape).enumerate() {
            check_index(space, index, extent)
                .map_err(|reason| format!("index {axis} of operand {number} {reason}"))?;
        }
    }
    Ok(())
}

fn check_index(space: &IterationSpace, index: &Expr, extent: &Expr) -> Inferred<()> {
    let symbols = index.symbols();
    if let Some(symbol) = symbols.iter().find(|symbol| symbol.index() >= space.extents.len()) {
        let count = space.extents.len();
        return Err(format!("reads axis {} of a space of {count} axes", symbol.index()));
    }
    let limit = |symbol: SymbolId| space.extents[symbol.index()].as_constant();
    let constant = symbols.iter().all(|&symbol| limit(symbol).is_some());
    let (true, Some(extent)) = (constant, extent.as_constant()) else { return Ok(()) };
    let range = |symbol: SymbolId| Range::extent(limit(symbol).unwrap_or(1));
    let bounds = index.bounds(&range);
    expect(bounds.min >= 0 && bounds.max < extent, || {
        let Range { min, max } = bounds;
        format!("runs from {min} to {max} over an axis of extent {extent}")
    })
}

/// The number of elements of a shape.
pub fn element_count(shape: &[Expr]) -> Expr {
    shape.iter().product()
}

fn scalar(dtype: DType) -> TensorType {
    TensorType { dtype, shape: Shape::default() }
}

fn tensors<'a>(operands: &[&'a Type]) -> Inferred<Vec<&'a TensorType>> {
    let tensor = |(index, ty): (usize, &&'a Type)| match *ty {
        Type::Tensor(tensor) => Ok(tensor),
        Type::Sequence(_) | Type::Optional(_) => Err(format!("operand {index} is not a tensor")),
    };
    operands.iter().enumerate().map(tensor).collect()
}

pub(crate) fn expect(condition: bool, message: impl FnOnce() -> String) -> Inferred<()> {
    if condition { Ok(()) } else { Err(message()) }
}

pub(crate) fn expect_count(what: &str, expected: usize, found: usize) -> Inferred<()> {
    expect(expected == found, || format!("expected {expected} {what}(s), found {found}"))
}

fn expect_axis(axis: usize, ty: &TensorType) -> Inferred<()> {
    expect(axis < ty.shape.len(), || {
        format!("there is no axis {axis} in a tensor of rank {}", ty.shape.len())
    })
}

fn expect_increasing(what: &str, axes: &[usize], rank: usize) -> Inferred<()> {
    expect(axes.is_sorted_by(|a, b| a < b) && axes.last().is_none_or(|&last| last < rank), || {
        format!("{what} {axes:?} are not increasing and below {rank}")
    })
}

fn expect_rank(first: usize, first_index: usize, second: usize, index: usize) -> Inferred<()> {
    expect(first == second, || {
        format!("operand {first_index} has rank {first} and operand {index} rank {second}")
    })
}

fn expect_same_extent(
    axis: usize,
    first: &Expr,
    first_index: usize,
    second: &Expr,
    index: usize,
    names: Names<'_>,
) -> Inferred<()> {
    expect(first == second, || {
        let (first, second) = (first.display(names), second.display(names));
        format!(
            "axis {axis} has extent {first} in operand {first_index} \
             and {second} in operand {index}"
        )
    })
}

fn expect_same_shape(
    first: &[Expr],
    first_index: usize,
    second: &[Expr],
    index: usize,
    names: Names<'_>,
) -> Inferred<()> {
    expect_rank(first.len(), first_index, second.len(), index)?;
    for (axis, (a, b)) in first.iter().zip(second).enumerate() {
        expect_same_extent(axis, a, first_index, b, index, names)?;
    }
    Ok(())
}

fn expect_dtype(ty: &TensorType, index: usize, dtype: DType) -> Inferred<()> {
    expect(ty.dtype == dtype, || format!("operand {index} has type {}, not {dtype}", ty.dtype))
}

fn expect_scalar(operands: &[&TensorType], index: usize, dtype: DType) -> Inferred<()> {
    expect_dtype(operands[index], index, dtype)?;
    expect(operands[index].shape.is_empty(), || {
        format!("operand {index} has rank {}, not 0", operands[index].shape.len())
    })
}

fn expect_types(what: &str, expected: &[Type], found: &[Type], names: Names<'_>) -> Inferred<()> {
    expect(expected == found, || {
        let (found, expected) = (type_list(found, names), type_list(expected, names));
        format!("{what} have types {found}, not {expected}")
    })
}

fn type_list(types: &[Type], names: Names<'_>) -> String {
    let types: Vec<String> = types.iter().map(|ty| type_text(ty, names).to_string()).collect();
    format!("({})", types.join(", "))
}

/// Checks that types are others but for symbols in the place of some extents, which it returns.
fn expect_general(
    what: &str,
    general: &[Type],
    of: &str,
    special: &[Type],
    names: Names<'_>,
) -> Inferred<Vec<SymbolId>> {
    all_generalised(general, special).ok_or_else(|| {
        let (general, special) = (type_list(general, names), type_list(special, names));
        format!("{what} have types {general}, which are not those of the {of}: {special}")
    })
}

fn expect_ordered(dtype: DType) -> Inferred<()> {
    expect(dtype != DType::String, || format!("elements of type {dtype} have no order"))
}

/// Whether elements of one type can be summed up in another.
fn expect_accumulates(dtype: DType, accumulator: DType, index: usize) -> Inferred<()> {
    let fits = dtype == accumulator
        || dtype.is_integer() && accumulator.is_number()
        || dtype.is_float() && accumulator.is_float();
    expect(fits, || format!("operand {index} has type {dtype}, which {accumulator} cannot hold"))
}

fn expect_reducible(reduction: Reduction, dtype: DType) -> Inferred<()> {
    expect(reduction.accepts(dtype), || {
        format!("elements of type {dtype} have no {}", reduction.name())
    })
}
