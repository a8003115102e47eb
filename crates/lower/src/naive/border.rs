//! The definition of a `Pad` whose operand is written straight into the middle of its result: what
//! is left to do is to fill the border, two slabs an axis.

use graph::{NodeId, Op};
use loops::Access;
use loops::build::store;
use strategies::ProducerKind;
use sym::Expr;

use super::index::extents;
use super::write::Writer;

impl Writer<'_> {
    /// Fills the border. Slabs of an axis span the axes before it only where those show the
    /// operand, so no element is written twice.
    pub(crate) fn border(&mut self, node: NodeId) {
        let function = self.function;
        let data = &function.nodes[node];
        let Op::Pad { low, high, .. } = &data.op else { return };
        let (inner, outer) =
            (extents(function, data.operands[0]), extents(function, data.results[0]));
        for axis in 0..outer.len() {
            let behind = &low[axis] + &inner[axis];
            for (start, extent) in [(Expr::ZERO, &low[axis]), (behind, &high[axis])] {
                if extent.is_zero() {
                    continue;
                }
                let (mut starts, mut extents) = (low.to_vec(), inner.to_vec());
                (starts[axis], extents[axis]) = (start, extent.clone());
                for later in axis + 1..outer.len() {
                    (starts[later], extents[later]) = (Expr::ZERO, outer[later].clone());
                }
                self.slab(node, &starts, &extents);
            }
        }
    }

    fn slab(&mut self, node: NodeId, starts: &[Expr], extents: &[Expr]) {
        let data = &self.function.nodes[node];
        let (fill, result) = (data.operands[1], data.results[0]);
        let axes = self.axes("a", extents);
        let moved = |(expr, start): (&Expr, &Expr)| expr + start;
        let index: Vec<Expr> = axes.index.iter().zip(starts).map(moved).collect();
        let value = self.element(fill, Vec::new());
        let placed = self.place(result, &index, Access::Write);
        let (buffer, place) = placed.expect("a producer's result has memory");
        self.nest(&axes.loops, vec![store(buffer, place, value)]);
        let nest = self.plain_nest(&axes);
        self.producer(buffer, ProducerKind::Pointwise, vec![nest]);
    }
}
