//! Constants leave regions: what depends on constants alone is computed in front of the control
//! flow, so that it folds into `setup` and formats are chosen for weights as such.
//!
//! before: `if c then { w = weight, t = transpose w, contract(x, t) } else { .. }`
//! after:  `w = weight, t = transpose w, if c then { contract(x, t) } else { .. }`

use std::sync::Arc;

use base::{PassContext, Result, SecondaryMap};
use graph::{Function, NodeId, RegionId, ValueId};

/// Moves constants in front of the outermost node around them.
pub(crate) fn run(function: &mut Arc<Function>, _: &mut PassContext) -> Result<()> {
    if function.regions_in_order().len() == 1 {
        return Ok(());
    }
    let function = Arc::make_mut(function);
    let mut constant = SecondaryMap::new();
    let body = function.body;
    let mut order = Vec::new();
    for id in std::mem::take(&mut function.regions[body].nodes) {
        let mut hoisted = Vec::new();
        note_constant(function, id, &mut constant);
        for region in function.nodes[id].regions.clone() {
            take_constants(function, region, &mut constant, &mut hoisted);
        }
        order.append(&mut hoisted);
        order.push(id);
    }
    function.regions[body].nodes = order;
    function.compact();
    Ok(())
}

/// Takes the constant nodes out of a region and those inside it.
fn take_constants(
    function: &mut Function,
    region: RegionId,
    constant: &mut SecondaryMap<ValueId, bool>,
    hoisted: &mut Vec<NodeId>,
) {
    let mut staying = Vec::new();
    for id in std::mem::take(&mut function.regions[region].nodes) {
        if note_constant(function, id, constant) {
            hoisted.push(id);
            continue;
        }
        for inner in function.nodes[id].regions.clone() {
            take_constants(function, inner, constant, hoisted);
        }
        staying.push(id);
    }
    function.regions[region].nodes = staying;
}

/// Whether a node depends on constants alone; remembered of its results.
fn note_constant(
    function: &Function,
    id: NodeId,
    constant: &mut SecondaryMap<ValueId, bool>,
) -> bool {
    let node = &function.nodes[id];
    let is_constant = node.op.is_pure()
        && node.op.has_constant_exprs()
        && node.operands.iter().all(|&operand| constant[operand]);
    for &result in &node.results {
        constant[result] = is_constant;
    }
    is_constant
}
