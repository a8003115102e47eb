//! A plan as an executable runs it: what its segments read, and the code that they run.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::FunctionId;
use graph::{Definition, Function, NodeId, Op, ValueId};
use lower::Role;
use module::Module;
use sym::SymbolId;

use crate::options::Options;
use crate::pipeline::FrontHalf;

/// A function in plan form.
pub(crate) struct Plan {
    pub(crate) function: Arc<Function>,
    segments: BTreeMap<FunctionId, Segment>,
    only_segment: Option<FunctionId>,
}

/// A function that a plan calls.
pub(crate) struct Segment {
    pub(crate) function: Arc<Function>,
    /// How many of its operands are values; behind them come constants.
    pub(crate) inputs: usize,
    /// The constants, by their numbers among what `setup` gives.
    pub(crate) constants: Vec<usize>,
    /// The symbols that it is told besides the extents of its operands.
    pub(crate) given: Vec<SymbolId>,
}

impl Plan {
    /// The plan of a front half.
    pub(crate) fn of(front: &FrontHalf) -> Plan {
        Plan::new(&front.module, front.plan, front.imported.parameters().len())
    }

    /// The plan of this id, whose first `inputs` parameters are the caller's.
    pub(crate) fn new(module: &Module, id: FunctionId, inputs: usize) -> Plan {
        let function = module.functions[id].clone();
        let constant = |&value: &ValueId| match function.values[value].definition {
            Definition::Parameter(region, number) if region == function.body => {
                (number as usize).checked_sub(inputs)
            }
            _ => None,
        };
        let mut segments = BTreeMap::new();
        for node in function.nodes.values() {
            let Op::Call { function: called, .. } = node.op else { continue };
            let constants: Vec<usize> = node.operands.iter().filter_map(constant).collect();
            let function = module.functions[called].clone();
            let given = function.given.iter().copied().collect();
            let inputs = node.operands.len() - constants.len();
            segments.insert(called, Segment { function, inputs, constants, given });
        }
        let body = &function.regions[function.body];
        let only_segment = match (&body.nodes[..], segments.keys().next()) {
            (&[node], Some(&id))
                if matches!(function.nodes[node].op, Op::Call { .. })
                    && function.nodes[node].operands[..] == body.parameters[..]
                    && function.nodes[node].results[..] == body.results[..] =>
            {
                Some(id)
            }
            _ => None,
        };
        Plan { function, segments, only_segment }
    }

    /// The segment that is all of the plan, if one is.
    pub(crate) fn only_segment(&self) -> Option<FunctionId> {
        self.only_segment
    }

    /// The segments that each run begins with the same sizes, with the shapes of their operands.
    pub(crate) fn fixed_calls(&self) -> Vec<(FunctionId, Vec<Vec<usize>>)> {
        let function = &*self.function;
        let shape = |&operand: &ValueId| {
            let extents = function.ty(operand).as_tensor()?.shape.iter();
            extents.map(|extent| usize::try_from(extent.as_constant()?).ok()).collect()
        };
        let fixed = |id: &NodeId| {
            let node = &function.nodes[*id];
            let Op::Call { function: called, .. } = node.op else { return None };
            let segment = self.segment(called);
            let operands = &node.operands[..segment.inputs];
            let shapes = operands.iter().map(shape).collect::<Option<Vec<Vec<usize>>>>();
            Some((called, shapes.filter(|_| segment.given.is_empty())?))
        };
        function.regions[function.body].nodes.iter().filter_map(fixed).collect()
    }

    /// All segments.
    pub(crate) fn segments(&self) -> impl Iterator<Item = (FunctionId, &Segment)> {
        self.segments.iter().map(|(&id, segment)| (id, segment))
    }

    /// Which results of a segment lie in the memory of which parameters, by number: those that the
    /// options name, of a plan that is one segment.
    pub(crate) fn donated(&self, id: FunctionId, options: &Options) -> Vec<(usize, usize)> {
        let function = &self.segment(id).function;
        let place = |names: &[String], name: &String| names.iter().position(|own| own == name);
        let pair = |(output, input): (&String, &String)| {
            let result = place(&function.result_names, output)?;
            Some((result, place(&function.parameter_names, input)?))
        };
        let updates = options.updates.iter().filter(|_| self.only_segment.is_some());
        updates.filter_map(pair).collect()
    }

    /// The segment that is a function of the module.
    pub(crate) fn segment(&self, id: FunctionId) -> &Segment {
        &self.segments[&id]
    }
}

impl Segment {
    /// What the segment is to the back end, where `setup` leaves its results at these offsets.
    pub(crate) fn role(&self, offsets: &[u64]) -> Role {
        let mut constants: Vec<u64> =
            self.constants.iter().map(|&number| offsets[number]).collect();
        if base::fault::is_seeded("driver.constants") {
            constants.reverse();
        }
        Role::Main { inputs: self.inputs, constants }
    }
}
