//! Where stored values lie: in memory of their own, or in that of another.
//!
//! The operands of a `Concat` lie in its result, the operand of a `Pad` in the middle of its result
//! where it can; a `Reshape` or `Bind` is the same memory as its operand. All of it costs nothing
//! at run time.
//!
//! Sums of products run along several rows of a value at a time. Rows whose distance is a multiple
//! of that at which lines fall on one set of the first-level cache drive each other out, so there
//! is a gap behind each row of such a value, where all its readers can do with that.

use backend::Machine;
use base::{Id, SecondaryMap};
use graph::{Function, NodeId, Op, User, Users, ValueId};
use sym::Expr;

use super::legal::can_lie_within;
use super::{Grouping, Home, View};
use crate::definitions::{Class, class};
use crate::naive::index::{extents, strides};

/// Lines of the gap behind a row: they come in pairs.
const GAP_LINES: i64 = 2;

/// Rows that the first-level cache keeps a line each of, wherever they lie.
const FEW_ROWS: i64 = 8;

/// Fills in the homes of stored values, for a machine.
pub(super) fn place(
    function: &Function,
    users: &Users,
    stored: &SecondaryMap<ValueId, bool>,
    machine: &Machine,
    grouping: &mut Grouping,
) {
    let nodes = &function.regions[function.body].nodes;
    for &node in nodes.iter().rev() {
        for &result in &function.nodes[node].results {
            if stored[result] && !grouping.is_stored(result) {
                own_memory(function, result, grouping);
                if let Home::Stored(view) = &mut grouping.homes[result] {
                    put_gaps(function, result, &users[result], machine, view);
                }
            }
        }
        match &function.nodes[node].op {
            Op::Concat { axis } => concat_operands(function, node, *axis, grouping),
            Op::Pad { low, high, interior } => {
                let operand = function.nodes[node].operands[0];
                let whole = grouping.view(function.nodes[node].results[0]);
                let middle = whole.and_then(|whole| middle(whole, low, high, interior));
                let free = stored[operand] && !grouping.is_stored(operand);
                let only_here = users[operand].iter().filter(|user| takes(function, user)).count();
                let fits = can_lie_within(function, operand, &users[operand]);
                if let (Some(middle), true) = (middle, free && only_here == 1 && fits) {
                    grouping.homes[operand] = Home::Stored(middle);
                }
            }
            _ => {}
        }
    }
    for &parameter in function.parameters() {
        own_memory(function, parameter, grouping);
    }
    for &node in nodes {
        same_memory(function, node, grouping);
    }
}

/// Whether a reader wants a value in its own memory.
fn takes(function: &Function, user: &User) -> bool {
    match user {
        User::Operand(node, number) => match function.nodes[*node].op {
            Op::Concat { .. } => true,
            Op::Pad { .. } => *number == 0,
            _ => false,
        },
        User::Result(..) => true,
    }
}

fn own_memory(function: &Function, value: ValueId, grouping: &mut Grouping) {
    grouping.homes[value] = Home::Stored(View::root(value, extents(function, value)));
}

/// Puts a gap behind each row of a value that has memory of its own, where rows would drive each
/// other out of the first-level cache.
fn put_gaps(
    function: &Function,
    value: ValueId,
    users: &[User],
    machine: &Machine,
    view: &mut View,
) {
    let Some(ty) = function.ty(value).as_tensor() else { return };
    let extents: Option<Vec<i64>> = ty.shape.iter().map(Expr::as_constant).collect();
    let (Some(extents), Some(bytes)) = (extents, ty.dtype.bytes()) else { return };
    let Some((&row, outer)) = extents.split_last() else { return };
    let row_bytes = row * bytes as i64;
    let conflicts = machine.set_bytes > 0 && row_bytes > 0 && row_bytes % machine.set_bytes == 0;
    let count: i64 = outer.iter().product();
    if !conflicts || count <= FEW_ROWS || !can_lie_within(function, value, users) {
        return;
    }
    if !users.iter().any(|user| sums_along_rows(function, user)) {
        return;
    }
    let gap = GAP_LINES * machine.line_bytes / bytes as i64;
    let Some((_, strides)) = view.strides.split_last_mut() else { return };
    let mut stride = row + gap;
    for (own, extent) in strides.iter_mut().zip(outer).rev() {
        *own = Expr::constant(stride);
        stride *= extent;
    }
}

/// Whether a contraction sums along the last axis of what it reads here, and reads several rows.
fn sums_along_rows(function: &Function, user: &User) -> bool {
    let &User::Operand(node, number) = user else { return false };
    let Op::Contract { space, .. } = &function.nodes[node].op else { return false };
    let Some((last, outer)) = space.operands[number].split_last() else { return false };
    let moves = |index: &Expr, reduced: bool| {
        index.symbols().iter().any(|axis| (axis.index() >= space.parallel) == reduced)
    };
    moves(last, true) && outer.iter().any(|index| moves(index, false))
}

fn concat_operands(function: &Function, node: NodeId, axis: usize, grouping: &mut Grouping) {
    let data = &function.nodes[node];
    let Some(whole) = grouping.view(data.results[0]).cloned() else { return };
    let mut offset = whole.offset.clone();
    for &operand in &data.operands {
        grouping.homes[operand] = Home::Stored(View { offset: offset.clone(), ..whole.clone() });
        if !base::fault::is_seeded("lower.concat") {
            offset += &(&extents(function, operand)[axis] * &whole.strides[axis]);
        }
    }
}

/// Where a padded operand lies in the memory of the whole; none if the pad cuts off or spreads
/// elements.
pub(super) fn middle(whole: &View, low: &[Expr], high: &[Expr], interior: &[i64]) -> Option<View> {
    let surrounds = low.iter().chain(high).all(|pad| pad.as_constant() >= Some(0))
        && interior.iter().all(|&between| between == 0);
    let steps = low.iter().zip(&whole.strides);
    let begin: Expr = steps.map(|(low, stride)| low * stride).sum();
    surrounds.then(|| View { offset: &whole.offset + &begin, ..whole.clone() })
}

/// A `Reshape` or `Bind` of a stored value lies where that does.
fn same_memory(function: &Function, node: NodeId, grouping: &mut Grouping) {
    let data = &function.nodes[node];
    if class(&data.op) != Class::View {
        return;
    }
    let Some(view) = grouping.view(data.operands[0]) else { return };
    if !view.is_dense(extents(function, data.operands[0])) {
        return;
    }
    let strides = strides(extents(function, data.results[0]));
    grouping.homes[data.results[0]] = Home::Stored(View { strides, ..view.clone() });
}
