//! From a group to its naive kernel, by the definitions of its primitives.

use graph::{Function, Users, ValueId};
use strategies::Naive;

use super::write::Writer;
use crate::definitions::{Class, class_of_node};
use crate::groups::{Group, Grouping, StageNode};

/// Writes the naive kernel of a group; with it, the value behind each of its parameters.
pub fn build(
    function: &Function,
    grouping: &Grouping,
    users: &Users,
    group: &Group,
    name: &str,
) -> (Naive, Vec<ValueId>) {
    let mut writer = Writer::new(function, grouping, users, name);
    for stage in &group.stages {
        writer.define_nests(stage.node, grouping);
        let result = function.nodes[stage.node].results[0];
        let class = class_of_node(function, stage.node);
        let sum = class.is_sum() || class == Class::Combination;
        if sum && !grouping.is_stored(result) {
            // What follows reads a contraction's sums through a nest of their own, which ends them
            // as an epilogue does.
            let ends = |other: &StageNode| other.domain.as_ref().map(|d| d.anchor) == Some(result);
            if class != Class::Contraction || group.stages.iter().any(ends) {
                continue;
            }
        }
        if class != Class::Statements && !grouping.shows_operand(function, stage.node) {
            writer.pointwise(stage.node, stage.domain.as_ref());
        }
    }
    let (mut naive, arguments) = writer.finish();
    let origin = group.stages.iter().map(|stage| function.nodes[stage.node].location);
    naive.kernel.origin = origin.collect();
    naive.kernel.origin.dedup();
    (naive, arguments)
}
