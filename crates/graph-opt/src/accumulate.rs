//! What is added up into zeros and then added to something is added up into that.
//!
//! before: `x + scatter sum (0, u, i)`
//! after:  `scatter sum (x, u, i)`
//!
//! So the gradient of a table that is looked up, and used in another way, too, is never there in
//! parts of its own size. The scatter must have no other reader. Sums round differently, within
//! the usual error of sums; in floats of fewer than 32 bits, where it is large, nothing is moved.

use std::sync::Arc;

use base::{PassContext, Result, SecondaryMap};
use graph::{Built, Function, NodeId, Op, RegionId, Rewriter, ValueId, rebuild};
use tensor::{DType, Reduction, ScalarFunction};

use crate::ill_typed;
use crate::maker::splat;

/// Moves sums into scatters.
pub(crate) fn run(function: &mut Arc<Function>, _: &mut PassContext) -> Result<()> {
    let adds = |op: &Op| matches!(op, Op::Scatter { reduction: Some(Reduction::Sum), .. });
    if !function.nodes.values().any(|node| adds(&node.op)) {
        return Ok(());
    }
    let (users, constants) = (function.users(), function.constant_values());
    let mut regions: SecondaryMap<NodeId, Option<RegionId>> = SecondaryMap::new();
    for region in function.regions_in_order() {
        function.regions[region].nodes.iter().for_each(|&id| regions[id] = Some(region));
    }
    // What is computed in another region, or ahead of time, may be computed less often.
    let is_free = |scatter: NodeId, id: NodeId, value: ValueId| {
        users[value].len() == 1 && regions[scatter] == regions[id] && !constants.contains(value)
    };
    if !function.nodes.ids().any(|id| Sum::of(function, id, is_free).is_some()) {
        return Ok(());
    }
    let moved = rebuild(function, |rewriter, id| {
        let found = Sum::of(rewriter.source, id, is_free);
        found.map(|sum| sum.moved(rewriter, id)).transpose()
    });
    *function = Arc::new(moved.map_err(|reason| ill_typed("accumulate", reason))?);
    Ok(())
}

/// A sum of a value and of a scatter into zeros.
struct Sum {
    other: ValueId,
    scatter: NodeId,
}

impl Sum {
    /// That of a node whose scatter, and its result, may move there.
    fn of(
        function: &Function,
        id: NodeId,
        may_move: impl Fn(NodeId, NodeId, ValueId) -> bool,
    ) -> Option<Sum> {
        let node = &function.nodes[id];
        let Op::Map { function: ScalarFunction::Add, dtype } = node.op else { return None };
        let precise = dtype.is_integer() || matches!(dtype, DType::F32 | DType::F64);
        let scatter = |value: ValueId| {
            let (producer, _) = function.producer(value)?;
            let data = &function.nodes[producer];
            let adds = matches!(data.op, Op::Scatter { reduction: Some(Reduction::Sum), .. });
            let zero = || splat(function, data.operands[0]).is_some_and(|it| it.as_f64() == 0.0);
            (adds && may_move(producer, id, value) && zero()).then_some(producer)
        };
        let terms = [(0, 1), (1, 0)].map(|(it, other)| (node.operands[it], node.operands[other]));
        let mut sums = terms
            .into_iter()
            .filter(|_| precise)
            .filter_map(|(value, other)| scatter(value).map(|scatter| Sum { other, scatter }));
        sums.next()
    }

    fn moved(&self, rewriter: &mut Rewriter<'_>, id: NodeId) -> Built<Vec<ValueId>> {
        let (scatter, sum) = (&rewriter.source.nodes[self.scatter], &rewriter.source.nodes[id]);
        let mut operands = rewriter.operands(self.scatter);
        operands[0] = rewriter.get(self.other);
        let places = [scatter.location, sum.location];
        let fused = rewriter.builder.locations().fuse(places);
        rewriter.builder.set_location(fused);
        rewriter.builder.add(scatter.op.clone(), &operands)
    }
}
