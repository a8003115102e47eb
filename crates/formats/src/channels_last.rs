//! Channels last: the result's axes in the order "read from the data alone, shared, read from the
//! filter alone", and the data's axes likewise.
//!
//! before: `data[n, c, y + ky, x + kx] * filter[o, c, ky, kx] -> [n, o, y, x]`
//! after:  `data[n, y + ky, x + kx, c] * filter[o, c, ky, kx] -> [n, y, x, o]`
//!
//! A product of a weight and run-time data without a window (a 1x1 convolution) follows where its
//! function has windows elsewhere, so that all of a network agrees on one order, or where it stands
//! alone and that pays. Data that no contraction makes lie as the function's parameters do; where
//! vectors run along the filter's axis each of their elements is met by itself, and they stay so. A
//! sum of few channels that stands alone may keep its order (`along`).

use backend::Target;
use base::{Id, IdSet};
use graph::{Built, Function, FunctionBuilder, IterationSpace, NodeId, Op, ValueId};
use sym::{Expr, SymbolId};

use crate::contraction::Contraction;
use crate::panels::Products;

/// Cycles to transpose a vector in registers and to store it.
const CYCLES_TO_TRANSPOSE: f64 = 5.0;

/// The same where channels are apart by a multiple of `Machine::set_bytes`: lines that are written
/// in parts do not stay in the cache until the next part.
const CYCLES_TO_TRANSPOSE_INTO_A_SET: f64 = 30.0;

/// Channels of the result for which data that are read in steps are copied.
const REPAYING_CHANNELS: i64 = 32;

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

/// Where contractions stand among each other.
pub(super) struct Ends {
    /// Those whose operands come from no other contraction: what they read lies as the function's
    /// parameters do.
    first: IdSet<NodeId>,
    /// Those whose results lead to no other.
    last: IdSet<NodeId>,
}

impl Ends {
    pub(super) fn of(function: &Function, constants: &IdSet<ValueId>) -> Ends {
        let nodes = function.nodes_in_order();
        let sums = |id: NodeId| matches!(function.nodes[id].op, Op::Contract { .. });
        let mut made: IdSet<ValueId> = IdSet::new();
        let mut first: IdSet<NodeId> = IdSet::new();
        for &id in &nodes {
            let node = &function.nodes[id];
            let behind = node.operands.iter().any(|&value| made.contains(value));
            if sums(id) && !behind {
                first.insert(id);
            }
            let constant = node.results.iter().all(|&value| constants.contains(value));
            if !constant && (behind || sums(id)) {
                made.extend(&node.results);
            }
        }
        let mut used: IdSet<ValueId> = IdSet::new();
        let mut last: IdSet<NodeId> = IdSet::new();
        for &id in nodes.iter().rev() {
            let node = &function.nodes[id];
            let before = node.results.iter().any(|&value| used.contains(value));
            if sums(id) && !before {
                last.insert(id);
            }
            if before || sums(id) {
                used.extend(&node.operands);
            }
        }
        Ends { first, last }
    }

    /// Whether no contraction comes before this one.
    pub(super) fn is_first(&self, id: NodeId) -> bool {
        self.first.contains(id)
    }

    /// Whether there is no other before or behind it: it would need transposes of its own on both
    /// sides.
    pub(super) fn is_apart(&self, id: NodeId) -> bool {
        self.first.contains(id) && self.last.contains(id)
    }
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
    order.sort_by_key(|&axis| class(axis));
    contraction.permute_result(&order);
    !order.is_sorted()
}

/// Whether a sum that stands alone and whose result has the channels in front should be faster with
/// them last. Vectors of channels are stored transposed; those along the data fill their panels
/// less well, and want the data packed where there are no windows.
pub(super) fn pays_alone(contraction: &Contraction, target: &Target) -> bool {
    const UNKNOWN: i64 = 64;
    let Some(data) = data_operand(contraction) else { return false };
    let space = &contraction.space;
    let extent = |axis: usize| space.extents[axis].as_constant().unwrap_or(UNKNOWN);
    let product = |axes: &mut dyn Iterator<Item = usize>| axes.map(extent).product::<i64>();
    let alone = |own: usize, axis: &usize| {
        contraction.reads(own, *axis) && !contraction.reads(1 - own, *axis)
    };
    let of_filter = || contraction.parallel().filter(|axis| alone(1 - data, axis));
    let of_data = |behind: usize| {
        let own = contraction.parallel().filter(move |axis| *axis > behind);
        own.filter(|axis| alone(data, axis))
    };
    let windowed = is_windowed(space, &space.operands[data]);
    let Some(innermost) = of_filter().next().and_then(|first| of_data(first).next_back()) else {
        return windowed;
    };
    let last = space.operands[data].last();
    if last.and_then(|index| index.linear_coefficient(SymbolId::new(innermost))) != Some(1) {
        return true;
    }
    let channels = product(&mut of_filter());
    let image = of_filter().next().map_or(1, |first| product(&mut of_data(first)));
    // Axes without windows run together.
    let points = if windowed { extent(innermost) } else { image };
    let depth = product(&mut (space.parallel..space.extents.len()));
    let (bytes, results) = (contraction.accumulator_bytes(), product(&mut contraction.parallel()));
    let count = results / (channels * points).max(1);
    let along = Products { rows: channels, columns: points, depth, count, bytes };
    let across = Products { rows: points, columns: channels, ..along };
    let along = match windowed {
        true => along.cycles_unpacked(target),
        false => along.cycles(target) + along.cycles_to_pack(target),
    };
    let store = match image * i64::from(bytes) % target.machine.set_bytes {
        0 => CYCLES_TO_TRANSPOSE_INTO_A_SET,
        _ => CYCLES_TO_TRANSPOSE,
    };
    across.cycles(target) + across.vectors_of_columns(target) * points as f64 * store < along
}

/// Has a contraction that meets each element of its data for many channels, and that in steps, read
/// a copy of what it meets: whole lines of the cache instead of parts of them.
pub(super) fn take_steps(
    contraction: &mut Contraction,
    builder: &mut FunctionBuilder,
) -> Built<bool> {
    let Some(data) = data_operand(contraction) else { return Ok(false) };
    let is_new = |axis: &usize| !contraction.reads(data, *axis);
    let channels = contraction.parallel().filter(is_new);
    let channels = channels.map(|axis| &contraction.space.extents[axis]).product::<Expr>();
    match channels.as_constant() {
        Some(channels) if channels < REPAYING_CHANNELS => Ok(false),
        _ => contraction.take_steps(builder, data),
    }
}

/// Puts the data of a contraction in channels-last order; whether they were in another.
pub(super) fn put_data(
    contraction: &mut Contraction,
    builder: &mut FunctionBuilder,
) -> Built<bool> {
    let Some(data) = data_operand(contraction) else { return Ok(false) };
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
    order.sort_by_key(|&axis| class(axis));
    contraction.permute_operand(builder, data, &order)?;
    Ok(!order.is_sorted())
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
