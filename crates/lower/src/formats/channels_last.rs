//! Channels last: the result's axes in the order "read from the data alone, shared, read from the
//! filter alone", and the data's axes likewise.
//!
//! before: `data[n, c, y + ky, x + kx] * filter[o, c, ky, kx] -> [n, o, y, x]`
//! after:  `data[n, y + ky, x + kx, c] * filter[o, c, ky, kx] -> [n, y, x, o]`
//!
//! A product of a weight and run-time data without a window (a 1x1 convolution) follows where its
//! function has windows elsewhere, so that all of a network agrees on one order. A depthwise sum
//! that stands alone between parameters and results, where nothing else would have channels last,
//! keeps its order.

use std::collections::BTreeSet;

use base::Id;
use graph::{Built, Function, FunctionBuilder, IterationSpace, NodeId, Op, ValueId};
use sym::{Expr, SymbolId};

use super::contraction::Contraction;

/// Whether some contraction of the function reads an operand through a window.
pub(super) fn has_windows(function: &Function) -> bool {
    function.nodes_in_order().into_iter().any(|id| match &function.nodes[id].op {
        Op::Contract { space, .. } => space.operands.iter().any(|index| is_windowed(space, index)),
        _ => false,
    })
}

/// Whether an index moves with an axis of the result and with a reduced one, or in steps with an
/// axis of the result, as through windows of a single tap.
fn is_windowed(space: &IterationSpace, index: &[Expr]) -> bool {
    let in_steps = |index: &Expr, symbol: SymbolId| {
        index.linear_coefficient(symbol).is_some_and(|step| step.abs() > 1)
    };
    index.iter().any(|index| {
        let symbols = index.symbols();
        let parallel = symbols.iter().filter(|symbol| symbol.index() < space.parallel).count();
        parallel > 0 && (parallel < symbols.len() || in_steps(index, symbols[0]))
    })
}

/// The contractions whose operands come from no other contraction and whose results lead to none:
/// they would need transposes of their own on both sides.
pub(super) fn contractions_apart(
    function: &Function,
    constants: &BTreeSet<ValueId>,
) -> BTreeSet<NodeId> {
    let nodes = function.nodes_in_order();
    let sums = |id: NodeId| matches!(function.nodes[id].op, Op::Contract { .. });
    let mut made: BTreeSet<ValueId> = BTreeSet::new();
    let mut apart: BTreeSet<NodeId> = BTreeSet::new();
    for &id in &nodes {
        let node = &function.nodes[id];
        let behind = node.operands.iter().any(|value| made.contains(value));
        if sums(id) && !behind {
            apart.insert(id);
        }
        let constant = node.results.iter().all(|value| constants.contains(value));
        if !constant && (behind || sums(id)) {
            made.extend(&node.results);
        }
    }
    let mut used: BTreeSet<ValueId> = BTreeSet::new();
    for &id in nodes.iter().rev() {
        let node = &function.nodes[id];
        let before = node.results.iter().any(|value| used.contains(value));
        if before {
            apart.remove(&id);
        }
        if before || sums(id) {
            used.extend(&node.operands);
        }
    }
    apart
}

/// Whether a contraction sums nothing but windows of stride 1, each of which meets one filter: read
/// as they lie, vectors run along the innermost axis of the image.
pub(super) fn is_depthwise(contraction: &Contraction) -> bool {
    let Some(data) = data_operand(contraction) else { return false };
    let space = &contraction.space;
    let long = |axis: &usize| !space.extents[*axis].is_one();
    let taps = space.parallel..space.extents.len();
    let in_window = |axis: usize| {
        let symbol = SymbolId::new(axis);
        let moves = |index: &&Expr| index.contains(symbol);
        let others = |index: &Expr| index.symbols().iter().any(|s| s.index() < space.parallel);
        space.operands[data].iter().find(moves).is_some_and(others)
    };
    let own = |axis: usize| contraction.reads(data, axis);
    let Some(innermost) = contraction.parallel().rev().find(long) else { return false };
    let last = space.operands[data].last();
    let steps = last.and_then(|index| index.linear_coefficient(SymbolId::new(innermost)));
    contraction.parallel().filter(long).all(own)
        && taps.filter(long).all(in_window)
        && !contraction.reads(1 - data, innermost)
        && steps == Some(1)
}

/// Puts a contraction of data and a filter in channels-last order.
pub(super) fn apply(
    contraction: &mut Contraction,
    builder: &mut FunctionBuilder,
    messages: &mut Vec<String>,
) -> Built<()> {
    let Some(data) = data_operand(contraction) else { return Ok(()) };
    let filter = 1 - data;
    let class = |axis: usize| match (contraction.reads(data, axis), contraction.reads(filter, axis))
    {
        (true, false) => 0,
        (true, true) => 1,
        (false, _) => 2,
    };
    let mut order: Vec<usize> = contraction.parallel().collect();
    order.sort_by_key(|&axis| class(axis));
    let space = &contraction.space;
    let moves_with_data = |index: &Expr| {
        index.symbols().iter().any(|s| s.index() < space.parallel && class(s.index()) == 0)
    };
    let index = &space.operands[data];
    let mut data_order: Vec<usize> = (0..index.len()).collect();
    data_order.sort_by_key(|&axis| !moves_with_data(&index[axis]));
    let moved = |order: &[usize]| !order.is_sorted();
    if moved(&order) || moved(&data_order) {
        messages.push("channels last".to_owned());
    }
    contraction.permute_result(&order);
    contraction.permute_operand(builder, data, &data_order)
}

/// The operand that is read through a window, or the one that is not constant beside one that is.
fn data_operand(contraction: &Contraction) -> Option<usize> {
    let space = &contraction.space;
    let windowed = [0, 1].map(|operand| is_windowed(space, &space.operands[operand]));
    match (windowed, contraction.operands.map(|operand| operand.constant)) {
        ([true, false], _) | ([false, false], [false, true]) => Some(0),
        ([false, true], _) | ([false, false], [true, false]) => Some(1),
        _ => None,
    }
}
