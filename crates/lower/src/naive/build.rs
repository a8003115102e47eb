//! From a group to its naive kernel: one definition a primitive.

use base::SecondaryMap;
use graph::{Function, NodeId, Op, User, ValueId};

use super::Naive;
use super::statements::is_statement;
use super::write::Writer;
use crate::groups::{Group, Grouping};

/// Writes the naive kernel of a group.
pub fn build(
    function: &Function,
    grouping: &Grouping,
    users: &SecondaryMap<ValueId, Vec<User>>,
    group: &Group,
    name: &str,
) -> Naive {
    let mut writer = Writer::new(function, grouping, users, name);
    for stage in &group.stages {
        writer.define_stage(stage.node, grouping);
        let result = function.nodes[stage.node].results[0];
        if is_sum(&function.nodes[stage.node].op) && !grouping.is_stored(result) {
            continue;
        }
        let op = &function.nodes[stage.node].op;
        if !is_statement(op) && !grouping.shows_operand(function, stage.node) {
            writer.pointwise(stage.node, stage.domain.as_ref());
        }
    }
    let mut naive = writer.finish();
    let origin = group.stages.iter().map(|stage| function.nodes[stage.node].location);
    naive.kernel.origin = origin.collect();
    naive.kernel.origin.dedup();
    naive
}

/// Whether a primitive's definition begins with a sum in a buffer of its own.
fn is_sum(op: &Op) -> bool {
    matches!(op, Op::Contract { .. } | Op::Reduce { .. })
}

impl Writer<'_> {
    /// Writes the nests of a primitive that come before the nest over its result's elements.
    fn define_stage(&mut self, node: NodeId, grouping: &Grouping) {
        let function = self.function;
        match &function.nodes[node].op {
            Op::Contract { space, accumulator, .. } => self.contraction(node, space, *accumulator),
            Op::Reduce { space, reduction, accumulator } => {
                self.reduction(node, space, *reduction, *accumulator);
            }
            Op::ArgReduce { axis, greatest, last } => {
                self.arg_reduce(node, *axis, *greatest, *last);
            }
            Op::Cumulate { axis, reduction, exclusive, reverse } => {
                self.cumulate(node, *axis, *reduction, *exclusive, *reverse);
            }
            Op::Sort { axis, descending } => self.sort(node, *axis, *descending),
            Op::Scatter { axes, batch, position, reduction } => {
                self.scatter(node, axes, *batch, *position, *reduction);
            }
            Op::NonZero => self.non_zero(node),
            Op::Pad { .. } if grouping.shows_operand(function, node) => self.border(node),
            _ => {}
        }
    }
}
