//! Copies in front of what cannot read its operands as they lie.
//!
//! The operands of a `Concat` are written straight into the result's memory, so each must be a
//! value that a kernel writes, that lies nowhere else, and that all its readers can read with gaps
//! between rows. Where that is not so, a whole `Slice` in between is the copy. A `Concat` that
//! begins with all operands of an earlier one takes its result instead: then nothing is copied, and
//! the earlier one lies at the beginning of the later.
//!
//! A contraction needs an operand that is contiguous along the innermost axis of the result. Where
//! none is, a `Transpose` in front of the operand that has the axis is the copy; often the kernel
//! that makes the operand can store it so. A contraction of short elements in tuples needs those of
//! a tuple side by side, too. Importing and format choice arrange it for constants, but transposes
//! of other values are gone by now: passes move them into the contraction. A reduction over
//! windows, too, may want another axis last (`reductions`).

use std::collections::BTreeMap;
use std::sync::Arc;

use backend::tile::{COPIED_IN_PANELS, READS_PER_PANEL};
use base::Id;
use graph::{
    Built, Function, IterationSpace, Node, NodeId, Op, READS_PER_COPY, Rewriter, TensorType, User,
    ValueId, rebuild,
};
use sym::{Expr, SymbolId};
use tensor::DType;

use super::reductions;
use crate::definitions::{Class, class_of, class_of_node};
use crate::extents::Extents;
use crate::naive::index::{dense_strides, extents, shape_of, weight};

/// The most elements that are multiplied at once.
const MOST_IN_TUPLE: i64 = 4;

/// Inserts the copies.
pub(crate) fn legalise(
    function: Arc<Function>,
    asked: &Extents<'_>,
) -> Result<Arc<Function>, String> {
    let beginnings = beginnings(&function);
    if beginnings.is_empty() {
        return with_copies(function, asked);
    }
    let nested = rebuild(&function, |rewriter, node| {
        let Some(&(earlier, count)) = beginnings.get(&node) else { return Ok(None) };
        let mut operands = rewriter.operands(node);
        operands.splice(..count, [rewriter.get(earlier)]);
        let op = rewriter.source.nodes[node].op.clone();
        rewriter.builder.add(op, &operands).map(Some)
    })?;
    with_copies(Arc::new(nested), asked)
}

/// The concatenations that begin with all operands of earlier ones: the longest of these, and how
/// many operands it has.
fn beginnings(function: &Function) -> BTreeMap<NodeId, (ValueId, usize)> {
    // A tree of operand lists: from a list, by the operand behind it, to the longer list. The
    // lists along an axis begin at one of their own.
    let mut longer: BTreeMap<(usize, ValueId), usize> = BTreeMap::new();
    let mut results: Vec<Option<ValueId>> = Vec::new();
    let mut empty: BTreeMap<usize, usize> = BTreeMap::new();
    let mut found = BTreeMap::new();
    for &id in &function.regions[function.body].nodes {
        let Node { op: Op::Concat { axis }, operands, results: made, .. } = &function.nodes[id]
        else {
            continue;
        };
        let add = |results: &mut Vec<Option<ValueId>>| {
            results.push(None);
            results.len() - 1
        };
        let mut list = *empty.entry(*axis).or_insert_with(|| add(&mut results));
        for (number, &operand) in operands.iter().enumerate() {
            list = *longer.entry((list, operand)).or_insert_with(|| add(&mut results));
            if let Some(earlier) =
                results[list].filter(|_| number > 0 && number + 1 < operands.len())
            {
                found.insert(id, (earlier, number + 1));
            }
        }
        results[list].get_or_insert(made[0]);
    }
    found
}

fn with_copies(function: Arc<Function>, asked: &Extents<'_>) -> Result<Arc<Function>, String> {
    let users = super::body_users(&function);
    // Whether an operand of a `Concat` has to be copied.
    let is_copied = |node: NodeId, number: usize| {
        let operand = function.nodes[node].operands[number];
        let first = users[operand].iter().find(|user| is_concat(&function, user));
        let taken = first != Some(&User::Operand(node, number));
        taken || !can_lie_within(&function, operand, &users[operand])
    };
    let needs_copies = |(id, node): (NodeId, &Node)| match &node.op {
        Op::Concat { .. } => (0..node.operands.len()).any(|number| is_copied(id, number)),
        Op::Contract { space, .. } => {
            operand_to_copy(&function, space, &node.operands, asked).is_some()
        }
        Op::Reduce { .. } => reductions::is_rewritten(&function, id, asked),
        _ => false,
    };
    if !function.nodes.iter().any(needs_copies) {
        return Ok(function);
    }
    let copied = rebuild(&function, |rewriter, node| {
        let Node { op: Op::Concat { axis }, operands, .. } = &rewriter.source.nodes[node] else {
            return match &rewriter.source.nodes[node].op {
                Op::Reduce { .. } => reductions::rewritten(rewriter, node, asked, transposed),
                _ => transposed_operand(rewriter, node, asked),
            };
        };
        let mut copies = Vec::new();
        for (number, &operand) in operands.iter().enumerate() {
            let new = rewriter.get(operand);
            if !is_copied(node, number) {
                copies.push(new);
                continue;
            }
            let shape = rewriter.builder.shape(new)?;
            let (starts, steps) = (vec![Expr::ZERO; shape.len()], vec![1; shape.len()]);
            copies.extend(rewriter.builder.add(Op::Slice { starts, steps, shape }, &[new])?);
        }
        rewriter.builder.add(Op::Concat { axis: *axis }, &copies).map(Some)
    })?;
    Ok(Arc::new(copied))
}

/// The contraction with one operand transposed, if it needs that.
fn transposed_operand(
    rewriter: &mut Rewriter<'_>,
    node: NodeId,
    asked: &Extents<'_>,
) -> Built<Option<Vec<ValueId>>> {
    let source = rewriter.source;
    let data = &source.nodes[node];
    let Op::Contract { space, accumulator, dtype } = &data.op else { return Ok(None) };
    let Some((operand, axis)) = operand_to_copy(source, space, &data.operands, asked) else {
        return Ok(None);
    };
    let last = |order: &mut Vec<usize>| {
        let moved = order.remove(axis);
        order.push(moved);
    };
    let mut order: Vec<usize> = (0..space.operands[operand].len()).collect();
    last(&mut order);
    let mut operands = rewriter.operands(node);
    operands[operand] = transposed(rewriter, data.operands[operand], &order)?;
    let mut space = space.clone();
    let index = &space.operands[operand];
    space.operands[operand] = order.iter().map(|&from| index[from].clone()).collect();
    let op = Op::Contract { space, accumulator: *accumulator, dtype: *dtype };
    rewriter.builder.add(op, &operands).map(Some)
}

/// An old value, transposed; in front of a `Pad`, so that the copy is written into its middle.
fn transposed(rewriter: &mut Rewriter<'_>, value: ValueId, order: &[usize]) -> Built {
    let source = rewriter.source;
    let producer = source.producer(value).map(|(node, _)| &source.nodes[node]);
    let Some(Node { op: Op::Pad { low, high, interior }, operands, .. }) = producer else {
        let value = rewriter.get(value);
        return rewriter.builder.transpose(value, order);
    };
    let [inner, fill] = [0, 1].map(|number| rewriter.get(operands[number]));
    let inner = rewriter.builder.transpose(inner, order)?;
    let moved = |amounts: &[Expr]| -> Vec<Expr> {
        order.iter().map(|&from| amounts[from].clone()).collect()
    };
    let interior: Vec<i64> = order.iter().map(|&from| interior[from]).collect();
    rewriter.builder.pad(inner, fill, &moved(low), &moved(high), &interior)
}

/// The operand of a contraction that has to be transposed, and which of its axes goes last.
fn operand_to_copy(
    function: &Function,
    space: &IterationSpace,
    operands: &[ValueId],
    asked: &Extents<'_>,
) -> Option<(usize, usize)> {
    strided_operand(function, space, operands, asked)
        .or_else(|| parted_operand(function, space, operands))
}

/// The operand whose copy would make a contraction contiguous along the innermost axis of its
/// result, and which of the operand's axes that is; none if an operand is so already.
fn strided_operand(
    function: &Function,
    space: &IterationSpace,
    operands: &[ValueId],
    asked: &Extents<'_>,
) -> Option<(usize, usize)> {
    let mut axes = (0..space.parallel).filter(|&axis| !space.extents[axis].is_one());
    let innermost = axes.next_back()?;
    let own = strided_along(function, space, (operands, innermost), asked);
    // Should it be of extent 1, the axis in front of it is the innermost; that is asked only where
    // it makes a difference.
    let is_free = space.extents[innermost].as_constant().is_none();
    let found = match axes.next_back().filter(|_| is_free) {
        Some(before) => {
            let other = strided_along(function, space, (operands, before), asked);
            let is_other = own != other && asked.is_one(&space.extents[innermost]);
            if is_other { other } else { own }
        }
        None => own,
    };
    found.filter(|_| !copies_panels_of_operand(function, space, operands, asked))
}

/// As [`strided_operand`], this axis being the innermost of the result.
fn strided_along(
    function: &Function,
    space: &IterationSpace,
    (operands, innermost): (&[ValueId], usize),
    asked: &Extents<'_>,
) -> Option<(usize, usize)> {
    let symbol = SymbolId::new(innermost);
    let mut found = None;
    for (number, (&operand, index)) in operands.iter().zip(&space.operands).enumerate() {
        let moved = class_of(function, operand) == Some(Class::Movement);
        if moved || is_contiguous((function, asked), operand, space, index, symbol) {
            return None;
        }
        let is_read_often = || {
            let reads = space.reads(number);
            let usually = weight(function, &reads) >= READS_PER_COPY;
            asked.reaches(&reads, READS_PER_COPY, usually)
        };
        let mut having = (0..index.len()).filter(|&axis| index[axis].contains(symbol));
        match (having.next(), having.next()) {
            (Some(axis), None) if index[axis].as_symbol().is_some() && is_read_often() => {
                found = Some((number, axis));
            }
            (None, _) => {}
            _ => return None,
        }
    }
    found
}

/// Whether the product copies panels of an operand: the one that alone moves along the innermost
/// axis of the result is the caller's, lies along the sum, is large and read often.
pub(crate) fn copies_panels_of_operand(
    function: &Function,
    space: &IterationSpace,
    operands: &[ValueId],
    asked: &Extents<'_>,
) -> bool {
    if operands.iter().all(|&value| !may_be_large(function, value)) {
        return false;
    }
    let is_one = |extent: &Expr| asked.is_one(extent);
    let long = |&axis: &usize| !is_one(&space.extents[axis]);
    let Some(vector) = (0..space.parallel).rev().find(long) else { return false };
    let Some(innermost) = space.innermost_reduced_by(&is_one) else { return false };
    let moves = |number: usize, axis: usize| {
        space.operands[number].iter().any(|index| index.contains(SymbolId::new(axis)))
    };
    let mut carriers = (0..operands.len()).filter(|&number| moves(number, vector));
    let (Some(number), None) = (carriers.next(), carriers.next()) else { return false };
    let (value, index) = (operands[number], &space.operands[number]);
    let Some(ty) = function.ty(value).as_tensor() else { return false };
    let still = (0..space.parallel).filter(|&axis| !moves(number, axis));
    let reads = still.map(|axis| &space.extents[axis]).product::<Expr>();
    let bytes = bytes_of(function, value);
    may_be_large(function, value)
        && index.iter().all(|index| index.as_symbol().is_some() || index.as_constant().is_some())
        && space.is_contiguous_by(number, &ty.shape, innermost, &is_one)
        && (space.parallel..space.extents.len()).filter(long).count() == 1
        // The copy is made by kernels that know how large it is.
        && asked.are_known_and_reach(
            &space.extents,
            &[(bytes, COPIED_IN_PANELS), (reads, READS_PER_PANEL)],
        )
}

/// Whether a value is floats of the caller's, perhaps so many that products copy their panels.
fn may_be_large(function: &Function, value: ValueId) -> bool {
    let is_wide = |ty: &TensorType| ty.dtype.is_float() && ty.dtype.bits() >= 32;
    let is_small = |bytes: Expr| bytes.as_constant().is_some_and(|it| it < COPIED_IN_PANELS);
    function.producer(value).is_none()
        && function.ty(value).as_tensor().is_some_and(is_wide)
        && !is_small(bytes_of(function, value))
}

/// Bytes of a value.
fn bytes_of(function: &Function, value: ValueId) -> Expr {
    let bits = function.ty(value).as_tensor().map_or(0, |ty| i64::from(ty.dtype.bits()));
    extents(function, value).iter().product::<Expr>() * (bits / 8)
}

/// The operand whose tuples of short elements lie apart, and the axis along which they do: only
/// those that lie side by side are multiplied at once.
fn parted_operand(
    function: &Function,
    space: &IterationSpace,
    operands: &[ValueId],
) -> Option<(usize, usize)> {
    let last = space.extents.len().checked_sub(1)?;
    let within = SymbolId::new(last);
    // Neighbours within windows are no tuples: each is the first of one, the second of another.
    // What moves by whole tuples meets each as one.
    let count = space.extents[last].as_constant().unwrap_or(1).max(1);
    let by_tuples = |own: &Expr, axis: SymbolId| {
        own.linear_coefficient(axis).is_some_and(|step| step % count == 0)
    };
    let windowed = |own: &Expr| {
        let symbols = own.symbols();
        let mut parallel = symbols.iter().filter(|axis| axis.index() < space.parallel);
        own.contains(within) && parallel.any(|axis| !by_tuples(own, *axis))
    };
    if space.operands.iter().flatten().any(windowed) {
        return None;
    }
    let parts = operands.iter().zip(&space.operands).enumerate();
    parts.into_iter().find_map(|(number, (&operand, index))| {
        let short = tuple_axis(function, space, operand) == Some(last);
        let apart = stride(function, operand, index, within).is_some_and(|step| step.abs() > 1);
        let mut having = (0..index.len()).filter(|&axis| index[axis].contains(within));
        match (short && apart, having.next(), having.next()) {
            (true, Some(axis), None) => Some((number, axis)),
            _ => None,
        }
    })
}

/// The innermost reduced axis, where it goes over as many elements of an operand as fill a sum of
/// 32 bits: the machine multiplies such tuples at once.
pub(super) fn tuple_axis(
    function: &Function,
    space: &IterationSpace,
    operand: ValueId,
) -> Option<usize> {
    let last = (space.parallel..space.extents.len()).next_back()?;
    let dtype = function.ty(operand).as_tensor()?.dtype;
    let multiplied = dtype == DType::BF16 || dtype.is_integer();
    let count = space.extents[last].as_constant().filter(|&count| multiplied && count > 1)?;
    let bits = i64::from(dtype.bits());
    (count * bits == 32).then_some(last)
}

/// Whether a dense operand is contiguous along an axis: element by element, or tuple by tuple.
fn is_contiguous(
    (function, asked): (&Function, &Extents<'_>),
    operand: ValueId,
    space: &IterationSpace,
    index: &[Expr],
    axis: SymbolId,
) -> bool {
    let shape = extents(function, operand);
    // How far the place moves with an axis that has an index for itself, what else there is being
    // of extent 1.
    let step = |axis: SymbolId| {
        let mut having = (0..index.len()).filter(|&at| index[at].contains(axis));
        let (at, None) = (having.next()?, having.next()) else { return None };
        let own = index[at].linear_coefficient(axis)?;
        let inner = shape[at + 1..].iter().filter_map(Expr::as_constant);
        let is_free = |extent: &&Expr| extent.as_constant().is_none();
        let mut free = shape[at + 1..].iter().filter(is_free);
        let step = own * inner.map(|extent| extent.max(1)).product::<i64>();
        (step.abs() <= MOST_IN_TUPLE && free.all(|extent| asked.is_one(extent))).then_some(step)
    };
    let by_tuples = || {
        let last = tuple_axis(function, space, operand)?;
        let is_whole = space.extents[last].as_constant()? == step(axis)?;
        Some(is_whole && step(SymbolId::new(last))?.abs() == 1)
    };
    step(axis) == Some(1) || by_tuples() == Some(true)
}

/// Elements by which the place read in a dense operand moves with an axis.
fn stride(function: &Function, operand: ValueId, index: &[Expr], axis: SymbolId) -> Option<i64> {
    let strides = dense_strides(&shape_of(function, operand));
    let mut parts = index.iter().zip(strides);
    parts.try_fold(0, |sum, (expr, stride)| Some(sum + expr.linear_coefficient(axis)? * stride))
}

fn is_concat(function: &Function, user: &User) -> bool {
    matches!(user, User::Operand(node, _) if matches!(function.nodes[*node].op, Op::Concat { .. }))
}

/// Whether a value may lie within the memory of another, with gaps between its rows: a kernel makes
/// it, and each of its readers is a kernel that reads it element by element.
pub(super) fn can_lie_within(function: &Function, value: ValueId, users: &[User]) -> bool {
    let Some((node, _)) = function.producer(value) else { return false };
    let reads_elements = |user: &User| match user {
        User::Operand(reader, _) => !class_of_node(function, *reader).needs_dense(),
        User::Result(..) => false,
    };
    class_of_node(function, node).is_made_by_kernel() && users.iter().all(reads_elements)
}
