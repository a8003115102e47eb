//! The definition of a `Pad` whose operand is written straight into the middle of its result: what
//! is left to do is to fill the border, two slabs an axis.

use graph::{NodeId, Op};
use loops::Access;
use loops::build::store;
use strategies::ProducerKind;
use sym::Expr;

use super::index::shape_of;
use super::write::Writer;

impl Writer<'_> {
    /// Fills the border. Slabs of an axis span the axes before it only where those show the
    /// operand, so no element is written twice.
    pub(crate) fn border(&mut self, node: NodeId) {
        let function = self.function;
        let data = &function.nodes[node];
        let Op::Pad { low, high, .. } = &data.op else { return };
        let (inner, outer) =
            (shape_of(function, data.operands[0]), shape_of(function, data.results[0]));
        let amount = |pads: &[Expr], axis: usize| pads[axis].as_constant().unwrap_or(0);
        for axis in 0..outer.len() {
            let (before, after) = (amount(low, axis), amount(high, axis));
            for (start, extent) in [(0, before), (before + inner[axis], after)] {
                if extent == 0 {
                    continue;
                }
                let mut starts: Vec<i64> = (0..outer.len()).map(|axis| amount(low, axis)).collect();
                let mut extents = inner.clone();
                (starts[axis], extents[axis]) = (start, extent);
                for later in axis + 1..outer.len() {
                    (starts[later], extents[later]) = (0, outer[later]);
                }
                self.slab(node, &starts, &extents);
            }
        }
    }

    fn slab(&mut self, node: NodeId, starts: &[i64], extents: &[i64]) {
        let data = &self.function.nodes[node];
        let (fill, result) = (data.operands[1], data.results[0]);
        let axes = self.axes("a", extents);
        let moved = |(expr, &start): (&Expr, &i64)| expr.clone() + start;
        let index: Vec<Expr> = axes.index.iter().zip(starts).map(moved).collect();
        let value = self.element(fill, Vec::new());
        let placed = self.place(result, &index, Access::Write);
        let (buffer, place) = placed.expect("a producer's result has memory");
        self.nest(&axes.loops, vec![store(buffer, place, value)]);
        let nest = self.plain_nest(&axes);
        self.producer(buffer, ProducerKind::Pointwise, vec![nest]);
    }
}
