//! What a loop carries and never changes is no state of it: its regions read the value from around.
//!
//! before: `while %w, %x condition (%a, %b) { .. } body (%c, %d) { yield %c, f(%c, %d) }`
//! after:  `while %x condition (%b) { .. } body (%d) { yield f(%w, %d) }`
//!
//! Front ends whose loops read nothing from around carry all that a body needs, weights among it. A
//! value that is only read is copied for no turn, and what depends on constants alone can leave the
//! loop (`hoist`).

use std::collections::BTreeSet;
use std::sync::Arc;

use base::{PassContext, Result};
use graph::{Definition, Function, NodeId, Op, RegionId, ValueId};

/// Takes what does not change out of loops, the innermost first.
pub(crate) fn run(function: &mut Arc<Function>, _: &mut PassContext) -> Result<()> {
    let loops = |function: &Function| {
        let mut nodes = function.nodes_in_order();
        nodes.retain(|&id| !invariants(function, id).is_empty());
        nodes
    };
    if function.regions_in_order().len() == 1 {
        return Ok(());
    }
    // What an inner loop carries may turn out not to change once what it is given is known not to.
    while let Some(&innermost) = loops(function).last() {
        take_out(Arc::make_mut(function), innermost);
    }
    Ok(())
}

/// The regions of a loop, each with the number of its first carried parameter; the body is last.
fn regions_of(function: &Function, id: NodeId) -> Option<Vec<(RegionId, usize)>> {
    let node = &function.nodes[id];
    match node.op {
        Op::While { .. } => Some(node.regions.iter().map(|&region| (region, 0)).collect()),
        Op::Scan { .. } => Some(node.regions.iter().map(|&region| (region, 1)).collect()),
        _ => None,
    }
}

/// The numbers of what is carried and never changes.
fn invariants(function: &Function, id: NodeId) -> BTreeSet<usize> {
    let node = &function.nodes[id];
    let carried = match node.op {
        Op::While { .. } => node.operands.len(),
        Op::Scan { carried, .. } => carried,
        _ => 0,
    };
    let Some(&(body, first)) = regions_of(function, id).as_deref().and_then(<[_]>::last) else {
        return BTreeSet::new();
    };
    let body = &function.regions[body];
    let is_unchanged = |&number: &usize| {
        let inside = body.parameters[first + number];
        let types = [inside, node.operands[number], node.results[number]];
        body.results[number] == inside
            && types.iter().all(|&value| function.ty(value) == function.ty(inside))
    };
    (0..carried).filter(is_unchanged).collect()
}

fn take_out(function: &mut Function, id: NodeId) {
    let gone = invariants(function, id);
    let regions = regions_of(function, id).unwrap_or_default();
    for &number in &gone {
        let given = function.nodes[id].operands[number];
        let result = function.nodes[id].results[number];
        for &(region, first) in &regions {
            let inside = function.regions[region].parameters[first + number];
            function.replace_all_uses(inside, given);
        }
        function.replace_all_uses(result, given);
    }
    let is_gone = |place: usize, first: usize| {
        place.checked_sub(first).is_some_and(|number| gone.contains(&number))
    };
    let node = &mut function.nodes[id];
    node.operands = kept(&node.operands, |place| !is_gone(place, 0)).collect();
    node.results = kept(&node.results, |place| !is_gone(place, 0)).collect();
    if let Op::Scan { carried, .. } = &mut node.op {
        *carried -= gone.len();
    }
    for (place, &result) in node.results.clone().iter().enumerate() {
        function.values[result].definition = Definition::Result(id, place as u32);
    }
    let body = regions.last().map(|&(region, _)| region);
    for (region, first) in regions {
        let data = &mut function.regions[region];
        data.parameters = kept(&data.parameters, |place| !is_gone(place, first)).collect();
        if Some(region) == body {
            data.results = kept(&data.results, |place| !is_gone(place, 0)).collect();
        }
        for (place, &parameter) in data.parameters.clone().iter().enumerate() {
            function.values[parameter].definition = Definition::Parameter(region, place as u32);
        }
    }
}

/// The values at the places that stay.
fn kept(values: &[ValueId], stays: impl Fn(usize) -> bool) -> impl Iterator<Item = ValueId> {
    values.iter().copied().enumerate().filter(move |&(place, _)| stays(place)).map(|(_, it)| it)
}
