//! Scatters that write in the memory of what they change: of a parameter that is donated to a
//! result of a run, or of a turn of a loop, and of a value that kernels have made.
//!
//! before: `%r = scatter %p, %rows, %places`, `%r` the result to which `%p` is donated
//! after:  the kernel writes the rows into the memory of `%r`, which holds `%p` when the run begins
//!
//! before: `%v = ..`, `%r = scatter %v, %rows, %places`
//! after:  `%v` lies in the memory of `%r` from the beginning, the kernel writes the rows
//!
//! That is right if all else that reads `%p` runs before: then no read of what was there comes
//! behind the write. So kernels that read `%p` stand in front of the scatter's, which reads it in
//! no other way; `%p` is no result itself; and the result has memory of its own, all of it. What a
//! donated parameter does not allow is refused with a reason, and its result is written to memory
//! of its own. What a loop carries is donated to what its next turn is given. The same is asked of
//! all values that lie in the memory of `%v`.

use std::collections::BTreeSet;

use base::{IntoTree, Locations, Remark};
use graph::{Function, NodeId, Op, User, Users, ValueId};

use crate::definitions::class_of;
use crate::emit::byte_count;
use crate::groups::{Group, Grouping, Home};

/// A donated parameter that is changed in place: the number of the result, and of the parameter.
pub(crate) type Update = (usize, usize);

/// The donations that are made use of, the scatters that write in place, and why others do not.
pub(crate) fn find(
    function: &Function,
    grouping: &Grouping,
    users: &Users,
    donated: &[Update],
) -> (Vec<Update>, BTreeSet<NodeId>, Vec<Remark>) {
    let (mut updates, mut in_place, mut reasons) = (Vec::new(), BTreeSet::new(), Vec::new());
    for &(result, parameter) in donated {
        match scatter(function, grouping, users, (result, parameter)) {
            Ok(node) => {
                in_place.insert(node);
                updates.push((result, parameter));
            }
            Err(reason) => {
                let name = function.parameter_names.get(parameter).map_or("", String::as_str);
                let message = format!("`{name}` is not changed in place: {reason}");
                reasons.push(Remark { location: Locations::UNKNOWN, message });
            }
        }
    }
    (updates, in_place, reasons)
}

/// What is stored though a scatter's kernel might compute it, for that kernel not to read the
/// parameter that it writes to: few elements that are written into many, of which others are read.
pub(crate) fn apart(function: &Function, users: &Users, donated: &[Update]) -> Vec<ValueId> {
    let rows = |&(result, parameter): &Update| {
        let value = *function.results().get(result)?;
        let given = *function.parameters().get(parameter)?;
        let (node, _) = function.producer(value)?;
        let data = &function.nodes[node];
        let is_scatter = matches!(data.op, Op::Scatter { .. }) && data.operands[0] == given;
        if !is_scatter || users[given].len() == 1 {
            return None;
        }
        let bytes = |value: ValueId| byte_count(function, value).as_constant();
        let (rows, all) = (bytes(data.operands[1])?, bytes(given)?);
        (rows <= all / FEW).then_some(data.operands[1])
    };
    donated.iter().filter_map(rows).collect()
}

/// Elements are few if they are at most one of so many.
const FEW: i64 = 4;

/// The scatter that may change a parameter where it lies.
fn scatter(
    function: &Function,
    grouping: &Grouping,
    users: &Users,
    (result, parameter): Update,
) -> Result<NodeId, &'static str> {
    let pair = function.results().get(result).zip(function.parameters().get(parameter));
    let (&value, &given) = pair.ok_or("there is no such result, or no such parameter")?;
    let (node, _) = function.producer(value).ok_or("the result is a parameter")?;
    let data = &function.nodes[node];
    if !matches!(data.op, Op::Scatter { .. }) || data.operands[0] != given {
        return Err("the result is not the parameter with elements written into it");
    }
    if !is_read_before(function, grouping, users, given, node) {
        return Err("it is read elsewhere, too");
    }
    if function.results().iter().filter(|&&other| other == value).count() != 1 {
        return Err("the result is wanted twice");
    }
    let view = grouping.view(value).ok_or("the result has no memory")?;
    let is_whole = view.root == value && view.offset.is_zero();
    if !is_whole || byte_count(function, value) != byte_count(function, given) {
        return Err("the result is part of another value");
    }
    Ok(node)
}

/// Lets what scatters change lie in their results' memory, where kernels have made it and nobody
/// reads it later; returns these scatters.
pub(crate) fn take_over(
    function: &Function,
    grouping: &mut Grouping,
    users: &Users,
) -> BTreeSet<NodeId> {
    let mut found = BTreeSet::new();
    for &node in &function.regions[function.body].nodes {
        if !matches!(function.nodes[node].op, Op::Scatter { .. }) {
            continue;
        }
        let Some(root) = taken_over(function, grouping, users, node) else { continue };
        let result = function.nodes[node].results[0];
        for value in lying_in(function, grouping, root) {
            if let Home::Stored(view) = &mut grouping.homes[value] {
                view.root = result;
            }
        }
        found.insert(node);
    }
    found
}

/// The memory of what a scatter changes, if that may be its result's.
fn taken_over(
    function: &Function,
    grouping: &Grouping,
    users: &Users,
    scatter: NodeId,
) -> Option<ValueId> {
    let data = &function.nodes[scatter];
    let (given, result) = (data.operands[0], data.results[0]);
    let (from, to) = (grouping.view(given)?, grouping.view(result)?);
    let made = class_of(function, from.root).is_some_and(|class| class.is_made_by_kernel());
    let whole = from.offset.is_zero()
        && byte_count(function, from.root) == byte_count(function, given)
        && grouping.view(from.root).is_some_and(|own| own.root == from.root)
        && !byte_count(function, given).is_zero();
    let alike = to.root == result && to.offset.is_zero() && to.strides == from.strides;
    let may = made && whole && alike && from.root != result;
    (may && is_read_before(function, grouping, users, from.root, scatter)).then_some(from.root)
}

/// The values that lie in the memory of a root, itself included.
fn lying_in(function: &Function, grouping: &Grouping, root: ValueId) -> Vec<ValueId> {
    let lies = |&value: &ValueId| grouping.view(value).is_some_and(|view| view.root == root);
    function.values.ids().filter(lies).collect()
}

/// Whether all that reads what lies in the memory of a root runs in front of a scatter that writes
/// to it.
fn is_read_before(
    function: &Function,
    grouping: &Grouping,
    users: &Users,
    root: ValueId,
    scatter: NodeId,
) -> bool {
    let has_it = |group: &Group| group.stages.iter().any(|stage| stage.node == scatter);
    let mut groups = grouping.groups.values();
    let Some(own) = groups.position(has_it) else { return false };
    let before = grouping.groups.values().take(own);
    let stages = before.flat_map(|group| group.stages.iter().map(|stage| stage.node));
    let earlier: BTreeSet<NodeId> = stages.into_set();
    // What has no memory, or shows the root's, hands it on to its own readers.
    let mut work = lying_in(function, grouping, root);
    let mut seen: BTreeSet<ValueId> = work.iter().copied().into_set();
    while let Some(value) = work.pop() {
        for &user in &users[value] {
            let User::Operand(reader, operand) = user else { return false };
            if earlier.contains(&reader) || (reader, operand) == (scatter, 0) {
                continue;
            }
            let data = &function.nodes[reader];
            let is_handed_on = |&result: &ValueId| match grouping.view(result) {
                Some(view) => view.root == root,
                None => true,
            };
            if reader == scatter || !data.regions.is_empty() {
                return false;
            }
            if !data.results.iter().all(is_handed_on) {
                return false;
            }
            work.extend(data.results.iter().filter(|&&result| seen.insert(result)));
        }
    }
    true
}
