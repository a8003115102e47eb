//! Channels last: the result's axes in the order "read from the data alone, shared, read from the
//! filter alone", and the data's axes likewise.
//!
//! before: `data[n, c, y + ky, x + kx] * filter[o, c, ky, kx] -> [n, o, y, x]`
//! after:  `data[n, y + ky, x + kx, c] * filter[o, c, ky, kx] -> [n, y, x, o]`
//!
//! A product of a weight and run-time data without a window (a 1x1 convolution) follows where its
//! function has windows elsewhere, so that all of a network agrees on one order. Data that no
//! contraction makes lie as the function's parameters do; where vectors run along the filter's axis
//! each of their elements is met by itself, and they stay so. Where few sums stand between the
//! parameters and the results, layouts are weighed (`weighed`).

use base::{Id, IdSet, InOrder};
use graph::{Built, Function, FunctionBuilder, IterationSpace, NodeId, Op, ValueId};
use sym::{Expr, SymbolId};

use crate::contraction::Contraction;

/// Whether some contraction of the function reads an operand through a window.
pub(super) fn has_windows(function: &Function) -> bool {
    function.nodes_in_order().into_iter().any(|id| match &function.nodes[id].op {
        Op::Contract { space, .. } => space.operands.iter().any(|index| is_windowed(space, index)),
        _ => false,
    })
}

/// Whether an index moves with an axis of the result and with a reduced one, or in steps with an
/// axis of the result, as through windows of a single tap.
pub(super) fn is_windowed(space: &IterationSpace, index: &[Expr]) -> bool {
    let in_steps = |index: &Expr, symbol: SymbolId| {
        index.linear_coefficient(symbol).is_some_and(|step| step.abs() > 1)
    };
    index.iter().any(|index| {
        let symbols = index.symbols();
        let parallel = symbols.iter().filter(|symbol| symbol.index() < space.parallel).count();
        parallel > 0 && (parallel < symbols.len() || in_steps(index, symbols[0]))
    })
}

/// The contractions whose operands come from no other: what they read lies as the function's
/// parameters do.
pub(super) fn first_sums(function: &Function, constants: &IdSet<ValueId>) -> IdSet<NodeId> {
    let mut made: IdSet<ValueId> = IdSet::new();
    let mut first = IdSet::new();
    for id in function.nodes_in_order() {
        let node = &function.nodes[id];
        let is_sum = matches!(node.op, Op::Contract { .. });
        let behind = node.operands.iter().any(|&value| made.contains(value));
        if is_sum && !behind {
            first.insert(id);
        }
        let constant = node.results.iter().all(|&value| constants.contains(value));
        if !constant && (behind || is_sum) {
            made.extend(&node.results);
        }
    }
    first
}

/// Puts the result of a contraction of data and a filter in channels-last order; whether it was in
/// another.
pub(super) fn put_result(contraction: &mut Contraction) -> bool {
    let Some(data) = data_operand(contraction) else { return false };
    let class = |axis: usize| match [data, 1 - data].map(|own| contraction.reads(own, axis)) {
        [true, false] => 0,
        [true, true] => 1,
        [false, _] => 2,
    };
    let mut order: Vec<usize> = contraction.parallel().collect();
    order.put_in_order_by_key(|&axis| class(axis));
    contraction.permute_result(&order);
    !order.is_sorted()
}

/// Has a contraction that meets its data in steps read a copy of what it meets: whole lines of the
/// cache instead of parts of them.
pub(super) fn take_steps(
    contraction: &mut Contraction,
    builder: &mut FunctionBuilder,
) -> Built<bool> {
    match data_operand(contraction) {
        Some(data) => contraction.take_steps(builder, data),
        None => Ok(false),
    }
}

/// Puts the data of a contraction in channels-last order; whether they were in another.
pub(super) fn put_data(
    contraction: &mut Contraction,
    builder: &mut FunctionBuilder,
) -> Built<bool> {
    let Some(data) = data_operand(contraction) else { return Ok(false) };
    let order = data_order(contraction, data);
    contraction.permute_operand(builder, data, &order)?;
    Ok(!order.is_sorted())
}

/// The axes of the data of a contraction in channels-last order.
pub(super) fn data_order(contraction: &Contraction, data: usize) -> Vec<usize> {
    let space = &contraction.space;
    let of_data_alone = |axis: usize| axis < space.parallel && !contraction.reads(1 - data, axis);
    let moves_with_data =
        |index: &Expr| index.symbols().iter().any(|symbol| of_data_alone(symbol.index()));
    let index = &space.operands[data];
    // Where vectors run along an axis that both operands have, it is the last of the data's, too.
    let longer = |axis: &usize| !space.extents[*axis].is_one();
    let vector = contraction.parallel().rev().find(longer).map(IterationSpace::axis);
    let class = |axis: usize| match &index[axis] {
        own if moves_with_data(own) => 0,
        own if Some(own) == vector.as_ref() => 2,
        _ => 1,
    };
    let mut order: Vec<usize> = (0..index.len()).collect();
    order.put_in_order_by_key(|&axis| class(axis));
    order
}

/// Whether the data of a contraction may as well lie as they do: vectors of its result run along an
/// axis of the filter alone, so each element of the data is met by itself.
pub(super) fn meets_data_singly(contraction: &Contraction) -> bool {
    let longer = |axis: &usize| !contraction.space.extents[*axis].is_one();
    let vector = contraction.parallel().rev().find(longer);
    match (data_operand(contraction), vector) {
        (Some(data), Some(vector)) => !contraction.reads(data, vector),
        _ => false,
    }
}

/// The operand that is read through a window, or the one that is not constant beside one that is.
pub(super) fn data_operand(contraction: &Contraction) -> Option<usize> {
    let space = &contraction.space;
    let windowed = [0, 1].map(|operand| is_windowed(space, &space.operands[operand]));
    match (windowed, contraction.operands.map(|operand| operand.constant)) {
        ([true, false], _) | ([false, false], [false, true]) => Some(0),
        ([false, true], _) | ([false, false], [true, false]) => Some(1),
        _ => None,
    }
}
