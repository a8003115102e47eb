//! Elements become short in front of a concatenation, not behind it: what it is made of is stored
//! short, by whoever makes it.
//!
//! before: `c = concat x, y`, `q = cast<u8>(round(div(c, s)))`
//! after:  `q = concat (cast<u8>(round(div(x, s)))), (cast<u8>(round(div(y, s))))`
//!
//! The maps between have no other reader, and beside the concatenation's elements only numbers.

use std::sync::Arc;

use base::{PassContext, Result};
use graph::{Built, Function, NodeId, Op, Rewriter, ValueId, rebuild};
use tensor::ScalarFunction;

use crate::ill_typed;

/// Moves chains of maps that end in a shorter type in front of concatenations.
pub(crate) fn run(function: &mut Arc<Function>, _: &mut PassContext) -> Result<()> {
    let is_concat = |id: &NodeId| matches!(function.nodes[*id].op, Op::Concat { .. });
    if !function.nodes.ids().any(|id| is_concat(&id)) {
        return Ok(());
    }
    let users = function.users();
    let chain = |source: &Function, id| Chain::behind(source, id, |value| users[value].len() == 1);
    if !function.nodes.ids().any(|id| chain(function, id).is_some()) {
        return Ok(());
    }
    let moved = rebuild(function, |rewriter, id| {
        let found = chain(rewriter.source, id);
        found.map(|chain| chain.moved(rewriter)).transpose()
    });
    *function = Arc::new(moved.map_err(|reason| ill_typed("short_first", reason))?);
    Ok(())
}

/// A concatenation, and maps behind it up to one that makes its elements shorter.
struct Chain {
    concat: NodeId,
    /// The first one first.
    maps: Vec<NodeId>,
}

impl Chain {
    fn behind(
        function: &Function,
        id: NodeId,
        is_read_once: impl Fn(ValueId) -> bool,
    ) -> Option<Chain> {
        let bits = |value| Some(function.ty(value).as_tensor()?.dtype.bits());
        let last = &function.nodes[id];
        let casts = matches!(last.op, Op::Map { function: ScalarFunction::Cast, .. });
        if !casts || bits(last.results[0])? >= bits(last.operands[0])? {
            return None;
        }
        let mut maps = vec![id];
        loop {
            let node = &function.nodes[*maps.last()?];
            let moving = |value: &&ValueId| number(function, **value).is_none();
            let mut others = node.operands.iter().filter(moving);
            let (&value, None) = (others.next()?, others.next()) else { return None };
            let (producer, _) = function.producer(value).filter(|_| is_read_once(value))?;
            match &function.nodes[producer].op {
                Op::Map { .. } => maps.push(producer),
                Op::Concat { .. } if bits(value)? > bits(last.results[0])? => {
                    maps.reverse();
                    return Some(Chain { concat: producer, maps });
                }
                _ => return None,
            }
        }
    }

    fn moved(&self, rewriter: &mut Rewriter<'_>) -> Built<Vec<ValueId>> {
        let source = rewriter.source;
        let mut parts = Vec::new();
        for part in rewriter.operands(self.concat) {
            let shape = rewriter.builder.shape(part)?;
            let mut value = part;
            for &id in &self.maps {
                let node = &source.nodes[id];
                let mut operands = Vec::new();
                for &operand in &node.operands {
                    operands.push(match number(source, operand) {
                        None => value,
                        Some(number) => {
                            let number = rewriter.get(number);
                            rewriter.builder.broadcast(number, &shape, &[])?
                        }
                    });
                }
                rewriter.builder.set_location(node.location);
                value = rewriter.builder.add(node.op.clone(), &operands)?[0];
            }
            parts.push(value);
        }
        rewriter.builder.add(source.nodes[self.concat].op.clone(), &parts)
    }
}

/// The number that a value repeats.
fn number(function: &Function, value: ValueId) -> Option<ValueId> {
    let rank = |value: ValueId| Some(function.ty(value).as_tensor()?.shape.len());
    let (id, _) = function.producer(value)?;
    let node = &function.nodes[id];
    let repeats = matches!(node.op, Op::Broadcast { .. }) && rank(node.operands[0])? == 0;
    repeats.then(|| node.operands[0])
}
