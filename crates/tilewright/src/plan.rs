//! A plan as an executable runs it: what its segments read, and the code that they run.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{Diagnostic, Diagnostics, FunctionId, Result, codes};
use eval::EvaluationFault;
use eval::graph::{Segments, SymbolValues};
use graph::{Definition, Function, Op, ValueId};
use lower::Role;
use module::Module;
use sym::SymbolId;
use tensor::{DType, Tensor, Value};

use crate::budget;
use crate::specialisation::{Specialisation, Wanted};
use crate::variant::{Model, Variant, bound};

/// Turns of a loop that take as long as to compile a segment.
const TURNS_OF_A_COMPILE: u64 = 64;

/// Values of sequences whose copies take as long as a turn of a loop.
const COPIES_OF_A_TURN: u64 = 32;

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
    given: Vec<SymbolId>,
}

impl Plan {
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

/// A segment about to run.
pub(crate) struct SegmentRun<'a> {
    pub(crate) specialisation: &'a Arc<Specialisation>,
    pub(crate) operands: &'a [Tensor],
    /// The constants behind the operands, by their numbers among what `setup` gives.
    pub(crate) constants: &'a [usize],
}

/// Hears of each segment before it runs.
pub(crate) type Watch<'a> = dyn FnMut(&SegmentRun<'_>) -> Result<()> + 'a;

/// A run of a plan.
pub(crate) struct PlanRun<'a> {
    pub(crate) variant: &'a Variant,
    pub(crate) model: Model<'a>,
    /// Bytes of weights and inputs of the model.
    pub(crate) given_bytes: u64,
    pub(crate) watch: &'a mut Watch<'a>,
    /// What a turn or a segment said when it failed.
    failure: Option<Diagnostics>,
    turns: u64,
    copies: u64,
}

impl<'a> PlanRun<'a> {
    pub(crate) fn new(
        variant: &'a Variant,
        model: Model<'a>,
        given_bytes: u64,
        watch: &'a mut Watch<'a>,
    ) -> PlanRun<'a> {
        PlanRun { variant, model, given_bytes, watch, failure: None, turns: 0, copies: 0 }
    }

    /// The results of the plan for inputs whose symbols are bound.
    pub(crate) fn run(mut self, symbols: SymbolValues, inputs: &[Tensor]) -> Result<Vec<Value>> {
        let function = &self.variant.plan.function;
        // Constants have no values outside of segments.
        let none = Tensor::zeros(DType::Bool, &[0]);
        let mut values = inputs.to_vec();
        values.resize(function.parameters().len(), none);
        let results = eval::graph::run_plan(function, symbols, values, &mut self);
        results.map_err(|fault| {
            let told = self.failure.take();
            told.unwrap_or_else(|| diagnostic(fault).into())
        })
    }

    fn compute(
        &mut self,
        id: FunctionId,
        symbols: &SymbolValues,
        operands: &[Tensor],
    ) -> Result<Vec<Tensor>> {
        let segment = self.variant.plan.segment(id);
        let operands = &operands[..segment.inputs];
        let unknown = || Diagnostics::internal(format!("a size that {id} is given is not known"));
        let sizes = segment.given.iter().map(|&it| symbols[it].ok_or_else(unknown));
        let sizes = sizes.collect::<Result<Vec<i64>>>()?;
        let wanted = Wanted { variant: self.variant.id, function: id, sizes: &sizes, operands };
        let specialisation = match self.model.cache.segment(&wanted) {
            Some(found) => found,
            None => {
                self.turns += TURNS_OF_A_COMPILE;
                let made_for = wanted.to_keep();
                self.variant.compile(self.model, made_for, &bound(symbols), self.given_bytes)?
            }
        };
        let constants = &segment.constants;
        (self.watch)(&SegmentRun { specialisation: &specialisation, operands, constants })?;
        let mut results = specialisation.new_outputs()?;
        self.variant.run_segment(self.model, &specialisation, operands, &mut results)?;
        Ok(results)
    }

    /// Refuses a run that takes longer than turns of loops, as many as the limit, or whose loops
    /// keep too much.
    fn check(&self, kept_bytes: u64) -> Result<()> {
        let limits = &self.model.options.limits;
        if self.turns + self.copies / COPIES_OF_A_TURN > limits.iterations {
            let message = format!("loops have turned {} times", self.turns);
            return Err(base::limits::exceeded("iterations", message)
                .at("a run of the model")
                .because(format!(
                    "a compile for new shapes counts as {TURNS_OF_A_COMPILE} turns, and so do \
                     {COPIES_OF_A_TURN} values of sequences that are copied as one"
                ))
                .into());
        }
        let what = format!("after {} turns a loop keeps", self.turns);
        Ok(budget::check_bytes(kept_bytes, self.given_bytes, limits, &what)?)
    }

    /// Keeps what failed, where only a fault can be returned.
    fn fault<T>(&mut self, outcome: Result<T>) -> std::result::Result<T, EvaluationFault> {
        outcome.map_err(|found| {
            self.failure = Some(found);
            EvaluationFault::new(codes::INTERNAL_ERROR, "a segment failed")
        })
    }
}

impl Segments for PlanRun<'_> {
    fn call(
        &mut self,
        function: FunctionId,
        symbols: &SymbolValues,
        operands: &[Tensor],
    ) -> std::result::Result<Vec<Tensor>, EvaluationFault> {
        let outcome = self.compute(function, symbols, operands);
        self.fault(outcome)
    }

    fn turn(&mut self, kept_bytes: u64) -> std::result::Result<(), EvaluationFault> {
        self.turns += 1;
        let outcome = self.check(kept_bytes);
        self.fault(outcome)
    }

    fn room(&mut self, bytes: u64) -> std::result::Result<(), EvaluationFault> {
        let limits = &self.model.options.limits;
        let what = "a host function would make";
        let outcome = budget::check_bytes(bytes, self.given_bytes, limits, what);
        self.fault(outcome.map_err(Diagnostics::from))
    }

    fn copied(&mut self, values: u64) -> std::result::Result<(), EvaluationFault> {
        self.copies += values;
        let outcome = self.check(0);
        self.fault(outcome)
    }
}

/// What stands between segments, and failed.
fn diagnostic(fault: EvaluationFault) -> Diagnostic {
    let place = if fault.place.is_empty() { "a run of the model".to_owned() } else { fault.place };
    let code = match fault.code {
        codes::INDEX_OUT_OF_RANGE => codes::SYMBOL_OUT_OF_RANGE,
        code => code,
    };
    let remedy = match code {
        codes::SYMBOL_OUT_OF_RANGE => "check the inputs, or export the model with larger bounds",
        codes::BAD_IMAGE => "give the bytes of an undamaged image file",
        _ => "check the inputs that the model is given",
    };
    Diagnostic::error(code, fault.message)
        .at(place)
        .because("it is computed from data, while the model runs")
        .remedy(remedy)
}
