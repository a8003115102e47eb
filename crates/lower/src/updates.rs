//! Which results are what a run makes of a parameter in the parameter's own memory.
//!
//! before: `%r = scatter %p, %rows, %places`, `%r` the result to which `%p` is donated
//! after:  the kernel writes the rows into the memory of `%r`, which holds `%p` when the run begins
//!
//! That is right if nothing else reads `%p`: then no read of what was there before can come behind
//! the write. So the parameter has one reader, the scatter, and is no result itself; and the result
//! has memory of its own, all of it. What a donated parameter does not allow is refused with a
//! reason, and its result is written to memory of its own.

use std::collections::BTreeSet;

use base::{Locations, Remark};
use graph::{Function, NodeId, Op, Users};

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
    if users[given].len() != 1 {
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
