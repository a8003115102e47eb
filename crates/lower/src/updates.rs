//! Which results are what a run, or a turn of a loop, makes of a parameter in the parameter's own
//! memory.
//!
//! before: `%r = scatter %p, %rows, %places`, `%r` the result to which `%p` is donated
//! after:  the kernel writes the rows into the memory of `%r`, which holds `%p` when the run begins
//!
//! That is right if all else that reads `%p` runs before: then no read of what was there comes
//! behind the write. So kernels that read `%p` stand in front of the scatter's, which reads it in
//! no other way; `%p` is no result itself; and the result has memory of its own, all of it. What a
//! donated parameter does not allow is refused with a reason, and its result is written to memory
//! of its own. What a loop carries is donated to what its next turn is given.

use std::collections::BTreeSet;

use base::{Locations, Remark};
use graph::{Function, NodeId, Op, User, Users, ValueId};

use crate::emit::byte_count;
use crate::groups::Grouping;

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
    if !is_read_before(function, grouping, users, (given, node)) {
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

/// Whether all that reads a parameter's memory runs in front of a scatter that writes to it.
fn is_read_before(
    function: &Function,
    grouping: &Grouping,
    users: &Users,
    (given, scatter): (ValueId, NodeId),
) -> bool {
    if users[given].len() == 1 {
        return true;
    }
    let mut earlier = BTreeSet::new();
    for group in grouping.groups.values() {
        let mut stages = group.stages.iter().map(|stage| stage.node);
        if stages.clone().any(|node| node == scatter) {
            break;
        }
        earlier.extend(&mut stages);
    }
    // What has no memory, or shows the parameter's, hands it on to its own readers.
    let (mut work, mut seen) = (vec![given], BTreeSet::from([given]));
    while let Some(value) = work.pop() {
        for &user in &users[value] {
            let User::Operand(reader, operand) = user else { return false };
            if earlier.contains(&reader) || (reader, operand, value) == (scatter, 0, given) {
                continue;
            }
            let data = &function.nodes[reader];
            let is_handed_on = |&result: &ValueId| match grouping.view(result) {
                Some(view) => view.root == given,
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
