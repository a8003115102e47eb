//! Control flow that is known, or costs more than what it saves, leaves the graph.
//!
//! before: `scan trips 2 carried 1 %a body (%i, %x) { yield f(%x) }`
//! after:  `f(f(%a))`
//!
//! - a branch whose condition is a literal is what it chooses;
//! - a branch between a few elements that cost little is a selection;
//! - turns of a loop are written out where it is sure how many there are, and they are few for
//!   their nodes: fewer for a loop that is compiled than for one that would be interpreted.
//!
//! A turn that has been written out knows its number and its extents, so the extents that a loop
//! changes are numbers behind this pass. What does not fit stays as it is: a loop of whose sizes
//! something is assumed, or which stacks rows whose extents change.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::{IntoTree, PassContext, Result};
use graph::{
    Assumption, Built, Function, NodeId, Op, RegionId, Rewriter, ValueId, element_count, rebuild,
};
use sym::{Expr, SymbolId};
use tensor::{Scalar, ScalarFunction, Tensor};

use crate::{fold, ill_typed};

/// The most nodes as which a loop is written out that would be interpreted.
const INTERPRETED: usize = 1 << 10;
/// The most nodes as which a loop is written out that would be compiled.
const COMPILED: usize = 1 << 5;
/// The most nodes of a branch that is computed whether it is chosen or not.
const SELECTED_NODES: usize = 8;
/// The most elements of a result that is selected.
const SELECTED_ELEMENTS: i64 = 1 << 10;

/// Writes out what is known of loops and branches, until nothing more is.
pub(crate) fn run(function: &mut Arc<Function>, _: &mut PassContext) -> Result<()> {
    while function.regions_in_order().len() > 1 {
        let next = rebuild(function, write_out).map_err(|reason| ill_typed("control", reason))?;
        if next == **function {
            break;
        }
        *function = Arc::new(next);
    }
    Ok(())
}

/// What stands for a node; none if it stays.
fn write_out(rewriter: &mut Rewriter<'_>, id: NodeId) -> Built<Option<Vec<ValueId>>> {
    if rewriter.source.nodes[id].regions.is_empty() {
        return Ok(number(rewriter, id).map(|value| vec![value]));
    }
    if !is_free(rewriter.source, id) || !may_be_known(rewriter, id) {
        return Ok(None);
    }
    let before = rewriter.clone();
    let made = match &rewriter.source.nodes[id].op {
        Op::If { .. } => branch(rewriter, id),
        Op::Scan { .. } => counted(rewriter, id),
        _ => conditional(rewriter, id),
    };
    // What a turn refuses is left to the loop to refuse.
    if let Ok(Some(made)) = made {
        for (&old, &new) in rewriter.source.nodes[id].results.iter().zip(&made) {
            rewriter.specialise_type(rewriter.source.ty(old), new);
        }
        return Ok(Some(made));
    }
    *rewriter = before;
    Ok(None)
}

/// Whether a node is worth the attempt, which keeps a copy of all that has been made so far.
fn may_be_known(rewriter: &Rewriter<'_>, id: NodeId) -> bool {
    let source = rewriter.source;
    match &source.nodes[id].op {
        Op::If { .. } => {
            let chooses = rewriter.operands(id)[0];
            condition(rewriter, chooses).is_some() || is_cheap(source, id)
        }
        Op::Scan { .. } => turns_written_out(rewriter, id).is_some(),
        _ => true,
    }
}

/// The turns of a counted loop that are written out, if they are.
fn turns_written_out(rewriter: &Rewriter<'_>, id: NodeId) -> Option<usize> {
    let Op::Scan { trip_count, .. } = rewriter.op(id) else { return None };
    let turns = trip_count.as_constant().and_then(|turns| usize::try_from(turns).ok());
    turns.filter(|turns| (1..=most_turns(rewriter.source, id)).contains(turns))
}

/// Whether nothing is assumed of the symbols that a node defines.
fn is_free(function: &Function, id: NodeId) -> bool {
    let own: BTreeSet<SymbolId> = function.symbols_known_behind(id).into_iter().into_set();
    let assumed = function.assumptions.iter().flat_map(Assumption::exprs).flat_map(Expr::symbols);
    own.is_empty() || !assumed.into_iter().any(|symbol| own.contains(&symbol))
}

/// A number that follows from literals; a symbol bound to one is that number.
fn number(rewriter: &mut Rewriter<'_>, id: NodeId) -> Option<ValueId> {
    let (op, operands) = (rewriter.op(id), rewriter.operands(id));
    let value = match &op {
        Op::Dimension(expr) => Tensor::scalar(Scalar::i64(expr.as_constant()?)),
        Op::Bind { .. } => {
            let number = rewriter.builder.function().literal(operands[0])?.get_scalar(0).as_i64();
            let [symbol] = rewriter.source.symbols_defined_by(id)[..] else { return None };
            let range = rewriter.source.symbols[symbol].range;
            let is_within = (range.min..=range.max).contains(&number);
            if !is_within || !is_free(rewriter.source, id) {
                return None;
            }
            rewriter.specialise(symbol, Expr::from(number));
            return Some(operands[0]);
        }
        _ => fold::value(&rewriter.builder, &op, &operands).filter(|it| it.shape().is_empty())?,
    };
    Some(rewriter.builder.literal(value))
}

/// How many nodes regions have, with those inside of them.
fn count(function: &Function, regions: &[RegionId]) -> usize {
    let nodes = regions.iter().flat_map(|&region| &function.regions[region].nodes);
    nodes.map(|&id| 1 + count(function, &function.nodes[id].regions)).sum()
}

/// The most turns of a loop that are written out.
fn most_turns(function: &Function, id: NodeId) -> usize {
    let most = if function.is_interpreted(id) { INTERPRETED } else { COMPILED };
    most / count(function, &function.nodes[id].regions).max(1)
}

fn condition(rewriter: &Rewriter<'_>, value: ValueId) -> Option<bool> {
    Some(rewriter.builder.function().literal(value)?.get_scalar(0).as_bool())
}

/// The region that is chosen; or both, and a selection.
fn branch(rewriter: &mut Rewriter<'_>, id: NodeId) -> Built<Option<Vec<ValueId>>> {
    let chooses = rewriter.operands(id)[0];
    let regions = rewriter.source.nodes[id].regions.clone();
    if let Some(chosen) = condition(rewriter, chooses) {
        return rewriter.inline(regions[usize::from(!chosen)], &[], &mut write_out).map(Some);
    }
    if !is_cheap(rewriter.source, id) {
        return Ok(None);
    }
    let then = rewriter.inline(regions[0], &[], &mut write_out)?;
    let other = rewriter.inline(regions[1], &[], &mut write_out)?;
    let select = |(a, b)| rewriter.builder.map_broadcast(ScalarFunction::Select, &[chooses, a, b]);
    then.into_iter().zip(other).map(select).collect::<Built<Vec<_>>>().map(Some)
}

/// Whether both regions of a branch cost little, cannot fault, and give few elements.
fn is_cheap(function: &Function, id: NodeId) -> bool {
    let node = &function.nodes[id];
    let is_cheap = |&id: &NodeId| {
        let op = &function.nodes[id].op;
        matches!(
            op,
            Op::Map { .. }
                | Op::Broadcast { .. }
                | Op::Reshape { .. }
                | Op::Transpose { .. }
                | Op::Literal(_)
        )
    };
    let is_few = |&value: &ValueId| {
        let elements = function.ty(value).as_tensor().map(|ty| element_count(&ty.shape));
        let elements = elements.and_then(|count| count.as_constant());
        elements.is_some_and(|count| count <= SELECTED_ELEMENTS) && function.ty(value).is_compiled()
    };
    let mut nodes = node.regions.iter().flat_map(|&region| &function.regions[region].nodes);
    let mut values = nodes.clone().flat_map(|&id| &function.nodes[id].results);
    count(function, &node.regions) <= SELECTED_NODES
        && nodes.all(is_cheap)
        && values.all(is_few)
        && node.results.iter().all(is_few)
        && function.symbols_defined_by(id).is_empty()
}

/// The turns of a counted loop behind each other.
fn counted(rewriter: &mut Rewriter<'_>, id: NodeId) -> Built<Option<Vec<ValueId>>> {
    let source = rewriter.source;
    let Op::Scan { carried: states, reverse, .. } = source.nodes[id].op else { return Ok(None) };
    let Some(turns) = turns_written_out(rewriter, id) else { return Ok(None) };
    let region = source.nodes[id].regions[0];
    let operands = rewriter.operands(id);
    let (mut carried, scanned) = (operands[..states].to_vec(), &operands[states..]);
    let mut rows: Vec<Vec<ValueId>> = Vec::new();
    let takes_last = reverse != base::fault::is_seeded("graph-opt.control");
    for turn in 0..turns {
        let place = if takes_last { turns - 1 - turn } else { turn };
        let builder = &mut rewriter.builder;
        let number = builder.literal(Tensor::scalar(Scalar::i64(turn as i64)));
        let mut parameters = [&[number], &carried[..]].concat();
        for &value in scanned {
            let row = builder.slice_axis(value, 0, Expr::from(place), 1, Expr::ONE)?;
            let shape = builder.shape(value)?[1..].to_vec();
            parameters.push(builder.reshape(row, shape)?);
        }
        carried = rewriter.inline(region, &parameters, &mut write_out)?;
        rows.push(carried.split_off(states));
    }
    if reverse {
        rows.reverse();
    }
    carried.extend(stacks(rewriter, &rows)?);
    Ok(Some(carried))
}

/// The turns of a loop behind each other as long as its condition is known to hold, if it is known
/// not to in the end.
fn conditional(rewriter: &mut Rewriter<'_>, id: NodeId) -> Built<Option<Vec<ValueId>>> {
    let source = rewriter.source;
    let Op::While { turns } = source.nodes[id].op else { return Ok(None) };
    let regions = &source.nodes[id].regions;
    let most = most_turns(source, id);
    let mut carried = rewriter.operands(id);
    let states = carried.len();
    let mut rows: Vec<Vec<ValueId>> = Vec::new();
    loop {
        let goes_on = rewriter.inline(regions[0], &carried, &mut write_out)?;
        match condition(rewriter, goes_on[0]) {
            Some(true) if rows.len() < most => {}
            Some(false) if !rows.is_empty() || source.nodes[id].results.len() == states => break,
            _ => return Ok(None),
        }
        carried = rewriter.inline(regions[1], &carried, &mut write_out)?;
        rows.push(carried.split_off(states));
    }
    if let Some(turns) = turns {
        rewriter.specialise(turns, Expr::from(rows.len()));
    }
    carried.extend(stacks(rewriter, &rows)?);
    Ok(Some(carried))
}

/// What the turns of a loop stack: a row each.
fn stacks(rewriter: &mut Rewriter<'_>, rows: &[Vec<ValueId>]) -> Built<Vec<ValueId>> {
    let builder = &mut rewriter.builder;
    let mut stacks = Vec::new();
    for number in 0..rows.first().map_or(0, Vec::len) {
        let mut parts = Vec::new();
        for row in rows {
            let shape = [&[Expr::ONE], &builder.shape(row[number])?[..]].concat();
            parts.push(builder.reshape(row[number], shape)?);
        }
        stacks.push(builder.concat(0, &parts)?);
    }
    Ok(stacks)
}
