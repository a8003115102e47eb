//! Where stored values lie: in memory of their own, or in that of another.
//!
//! The operands of a `Concat` lie in its result, the operand of a `Pad` in the middle of its result
//! where it can; a `Reshape` or `Bind` is the same memory as its operand. All of it costs nothing
//! at run time.
//!
//! Sums of products run along several rows of a value at a time. Rows whose distance is a multiple
//! of that at which lines fall on one set of the first-level cache drive each other out, so there
//! is a gap behind each row of such a value, where all its readers can do with that. So there is
//! behind planes that one kernel writes or adds up all at once, element by element: those between
//! the stages of minimal filtering.

use backend::Machine;
use base::{Id, SecondaryMap};
use graph::{Function, NodeId, Op, User, Users, ValueId};
use sym::Expr;

use super::legal::can_lie_within;
use super::{Grouping, Home, View};
use crate::definitions::{Class, class, class_of_node};
use crate::naive::index::{extents, strides};

/// Lines of the gap behind a row: they come in pairs.
const GAP_LINES: i64 = 2;

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
                    put_gaps(function, result, users, machine, view);
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

/// Puts a gap behind each row of a value that has memory of its own, or behind each plane, where
/// these would drive each other out of the first-level cache.
fn put_gaps(
    function: &Function,
    value: ValueId,
    users: &Users,
    machine: &Machine,
    view: &mut View,
) {
    let Some(ty) = function.ty(value).as_tensor() else { return };
    let extents: Option<Vec<i64>> = ty.shape.iter().map(Expr::as_constant).collect();
    let (Some(extents), Some(bytes)) = (extents, ty.dtype.bytes()) else { return };
    let made_by = function.producer(value).map(|(node, _)| node);
    let (Some(last), Some(made_by)) = (extents.len().checked_sub(1), made_by) else { return };
    let mut readers = Vec::new();
    if !class_of_node(function, made_by).is_made_by_kernel()
        || !add_readers(function, users, value, &mut readers)
    {
        return;
    }
    // Whether parts that the axes from one on are would be too many for a set, and are met at once.
    let conflict = |axis: usize| {
        let [parts, elements] = [&extents[..axis], &extents[axis..]].map(|of| of.iter().product());
        let (parts, elements): (i64, i64) = (parts, elements);
        machine.l1.collide(elements * bytes as i64) && parts as f64 > machine.l1.ways()
    };
    let in_rows = |&reader: &(NodeId, usize)| sums_along_rows(function, reader);
    let mut met_by = readers.iter().map(|(reader, _)| *reader).chain([made_by]);
    let mut in_planes = || met_by.any(|node| is_written_out(function, node));
    // Planes are as many along each of the axes that tell them apart.
    let planes = extents.iter().take_while(|extent| **extent == extents[0]).count();
    let behind = if conflict(last) && readers.iter().any(in_rows) {
        last
    } else if planes <= last && conflict(planes) && in_planes() {
        planes
    } else {
        return;
    };
    let gap = GAP_LINES * machine.line_bytes / bytes as i64;
    let (mut strides, mut stride) = (vec![Expr::ONE; extents.len()], 1);
    for axis in (0..extents.len()).rev() {
        strides[axis] = Expr::constant(stride);
        stride = stride * extents[axis] + if axis == behind { gap } else { 0 };
    }
    if can_be_seen(function, users, value, &strides) {
        view.strides = strides;
    }
}

/// Adds the nodes that read a value, also through reshapes, and which operand; whether all of them
/// read it element by element.
fn add_readers(
    function: &Function,
    users: &Users,
    value: ValueId,
    readers: &mut Vec<(NodeId, usize)>,
) -> bool {
    users[value].iter().all(|user| {
        let &User::Operand(node, number) = user else { return false };
        match (&function.nodes[node].op, class_of_node(function, node)) {
            (Op::Reshape { .. }, _) => {
                add_readers(function, users, function.nodes[node].results[0], readers)
            }
            (_, class) => {
                readers.push((node, number));
                !class.needs_dense()
            }
        }
    })
}

/// Whether all reshapes of a value with these strides are views of it.
fn can_be_seen(function: &Function, users: &Users, value: ValueId, strides: &[Expr]) -> bool {
    users[value].iter().all(|user| {
        let &User::Operand(node, _) = user else { return true };
        let data = &function.nodes[node];
        if !matches!(data.op, Op::Reshape { .. }) {
            return true;
        }
        let result = data.results[0];
        let seen = reshaped(strides, extents(function, value), extents(function, result));
        seen.is_some_and(|strides| can_be_seen(function, users, result, &strides))
    })
}

/// The strides of a reshape of what lies with these strides, if it has any: axes that become one
/// have no gap between them.
fn reshaped(strides: &[Expr], from: &[Expr], to: &[Expr]) -> Option<Vec<Expr>> {
    let constants = |exprs: &[Expr]| exprs.iter().map(Expr::as_constant).collect();
    let all: [Option<Vec<i64>>; 3] = [constants(from), constants(strides), constants(to)];
    let [Some(from), Some(strides), Some(to)] = all else { return None };
    let mut axes = from.into_iter().zip(strides).rev().filter(|(extent, _)| *extent != 1);
    // Of the axis at hand what has not become part of another yet: elements, and how far apart.
    let (mut left, mut apart) = (1, 1);
    let mut found = Vec::with_capacity(to.len());
    for extent in to.into_iter().rev() {
        if extent > 1 && left == 1 {
            (left, apart) = axes.next()?;
        }
        found.push(Expr::constant(apart));
        let mut rest = extent;
        while rest > left && rest % left == 0 {
            rest /= left;
            let (next, distance) = axes.next()?;
            if distance != apart * left {
                return None;
            }
            (left, apart) = (next, distance);
        }
        if rest < 1 || left % rest != 0 {
            return None;
        }
        (left, apart) = (left / rest, apart * rest);
    }
    found.reverse();
    Some(found)
}

/// Whether a contraction sums along the last axis of what it reads here, and reads several rows.
fn sums_along_rows(function: &Function, (node, number): (NodeId, usize)) -> bool {
    let Op::Contract { space, .. } = &function.nodes[node].op else { return false };
    let Some((last, outer)) = space.operands[number].split_last() else { return false };
    let moves = |index: &Expr, reduced: bool| {
        index.symbols().iter().any(|axis| (axis.index() >= space.parallel) == reduced)
    };
    moves(last, true) && outer.iter().any(|index| moves(index, false))
}

/// Whether a contraction is with a matrix whose elements are known, which is written out: it reads
/// all planes that it adds up at once, or writes all that it makes.
fn is_written_out(function: &Function, node: NodeId) -> bool {
    let data = &function.nodes[node];
    let is_matrix = |&operand: &ValueId| {
        let made_by = function.producer(operand).map(|(node, _)| &function.nodes[node].op);
        matches!(made_by, Some(Op::Literal(_))) && extents(function, operand).len() > 1
    };
    matches!(data.op, Op::Contract { .. }) && data.operands.iter().any(is_matrix)
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
    let (from, to) = (extents(function, data.operands[0]), extents(function, data.results[0]));
    let strides = match (view.is_dense(from), &data.op) {
        (true, _) => strides(to),
        (false, Op::Reshape { .. }) => match reshaped(&view.strides, from, to) {
            Some(strides) => strides,
            None => return,
        },
        (false, _) => return,
    };
    grouping.homes[data.results[0]] = Home::Stored(View { strides, ..view.clone() });
}
