//! What costs nothing enters the regions that read it: a literal, a count or a repetition from
//! around is no memory there but a part of whoever reads it, and other passes see what it is.
//!
//! before: `z = literal 0, b = broadcast z, if c then { max(x, b) } else { .. }`
//! after:  `if c then { z = literal 0, b = broadcast z, max(x, b) } else { .. }`
//!
//! Operands of contractions and of control flow stay outside: they need memory. This is the
//! counterpart of `hoist`, which has moved all constants to the front; the pass runs when equal
//! nodes have become one, because a copy in a region equals the one outside.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::{IntoTree, PassContext, Result};
use graph::{Definition, Function, NodeId, Op, RegionId, ValueData, ValueId, Values};

/// Copies what is cheap into the regions that read it.
pub(crate) fn run(function: &mut Arc<Function>, _: &mut PassContext) -> Result<()> {
    if function.regions_in_order().len() == 1 {
        return Ok(());
    }
    let function = Arc::make_mut(function);
    let body = function.regions[function.body].nodes.clone();
    let outside: BTreeSet<NodeId> =
        body.iter().copied().filter(|&id| is_cheap(function, id)).into_set();
    for id in body {
        for region in function.nodes[id].regions.clone() {
            enter(function, region, &outside);
        }
    }
    function.compact();
    Ok(())
}

fn is_cheap(function: &Function, id: NodeId) -> bool {
    matches!(function.nodes[id].op, Op::Literal(_) | Op::Iota { .. } | Op::Broadcast { .. })
}

/// Copies into a region, and into those inside it, what their nodes read of the nodes `outside`.
fn enter(function: &mut Function, region: RegionId, outside: &BTreeSet<NodeId>) {
    let mut copies = BTreeMap::new();
    let mut nodes = Vec::new();
    for id in std::mem::take(&mut function.regions[region].nodes) {
        for inner in function.nodes[id].regions.clone() {
            enter(function, inner, outside);
        }
        let node = &function.nodes[id];
        if !matches!(node.op, Op::Contract { .. }) && node.regions.is_empty() {
            let mut operands = node.operands.clone();
            for operand in &mut operands {
                *operand = copy(function, *operand, outside, &mut copies, &mut nodes);
            }
            function.nodes[id].operands = operands;
        }
        nodes.push(id);
    }
    function.regions[region].nodes = nodes;
}

/// What stands in the region for a value from around it; the value itself if it is not copied.
fn copy(
    function: &mut Function,
    value: ValueId,
    outside: &BTreeSet<NodeId>,
    copies: &mut BTreeMap<ValueId, ValueId>,
    nodes: &mut Vec<NodeId>,
) -> ValueId {
    if let Some(&known) = copies.get(&value) {
        return known;
    }
    let producer = function.producer(value).map(|(node, _)| node);
    let Some(producer) = producer.filter(|node| outside.contains(node)) else { return value };
    let mut node = function.nodes[producer].clone();
    for operand in &mut node.operands {
        *operand = copy(function, *operand, outside, copies, nodes);
    }
    let id = function.nodes.push(node);
    let data =
        ValueData { definition: Definition::Result(id, 0), ..function.values[value].clone() };
    let made = function.values.push(data);
    function.nodes[id].results = Values::from_slice(&[made]);
    nodes.push(id);
    copies.insert(value, made);
    made
}
