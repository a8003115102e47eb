//! Where stored values lie: in memory of their own, or in that of another.
//!
//! The operands of a `Concat` lie in its result, the operand of a `Pad` in the middle of its result
//! where it can; a `Reshape` or `Bind` is the same memory as its operand. All of it costs nothing
//! at run time.

use base::SecondaryMap;
use graph::{Function, NodeId, Op, User, Users, ValueId};
use sym::Expr;

use super::legal::can_lie_within;
use super::{Grouping, Home, View};
use crate::definitions::{Class, class};
use crate::naive::index::{extents, strides};

/// Fills in the homes of stored values.
pub(super) fn place(
    function: &Function,
    users: &Users,
    stored: &SecondaryMap<ValueId, bool>,
    grouping: &mut Grouping,
) {
    let nodes = &function.regions[function.body].nodes;
    for &node in nodes.iter().rev() {
        for &result in &function.nodes[node].results {
            if stored[result] && !grouping.is_stored(result) {
                own_memory(function, result, grouping);
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
