//! Runs of a variant: its only segment, or its plan by the interpreter, whose segments are code.

use std::sync::Arc;

use base::{Diagnostic, Diagnostics, FunctionId, Result, codes};
use eval::EvaluationFault;
use eval::graph::{Segments, SymbolValues};
use tensor::{Given, Tensor, Value};

use crate::cache::{SegmentFacts, Shapes};
use crate::specialisation::Specialisation;
use crate::variant::{Model, Variant, bound};

/// Turns of a loop that take as long as to compile a segment.
const TURNS_OF_A_COMPILE: u64 = 64;

/// Values of sequences whose copies take as long as a turn of a loop.
const COPIES_OF_A_TURN: u64 = 32;

/// Code that a run meets, and its operands then.
pub struct SegmentRun {
    /// The code.
    pub specialisation: Arc<Specialisation>,
    /// What it is given.
    pub operands: Vec<Tensor>,
    /// The constants behind the operands, by their numbers among what `setup` gives.
    pub constants: Vec<usize>,
}

/// A run of a plan.
struct PlanRun<'a> {
    variant: &'a Variant,
    model: &'a Model,
    /// Bytes of weights and inputs of the model.
    given_bytes: u64,
    /// Where the first run of each segment is noted, if it is asked for.
    met: Option<&'a mut Vec<SegmentRun>>,
    /// What a turn or a segment said when it failed.
    failure: Option<Diagnostics>,
    turns: u64,
    copies: u64,
}

impl<'a> PlanRun<'a> {
    pub(crate) fn new(
        variant: &'a Variant,
        model: &'a Model,
        given_bytes: u64,
        met: Option<&'a mut Vec<SegmentRun>>,
    ) -> PlanRun<'a> {
        PlanRun { variant, model, given_bytes, met, failure: None, turns: 0, copies: 0 }
    }

    /// The results of the plan for inputs whose symbols are bound.
    pub(crate) fn run<G: Given>(
        mut self,
        symbols: SymbolValues,
        inputs: &[G],
    ) -> Result<Vec<Value>> {
        let function = &self.variant.plan.function;
        let results = eval::graph::run_plan(function, symbols, inputs, &mut self);
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
        let (variant, shapes) = (self.variant.id, Shapes::Of(operands));
        let facts = SegmentFacts { variant, function: id, sizes: sizes.into(), shapes };
        let specialisation = match self.model.cache.segment(&facts) {
            Some(found) => found,
            None => {
                self.turns += TURNS_OF_A_COMPILE;
                self.variant.compile(self.model, &facts, &bound(symbols), self.given_bytes)?
            }
        };
        if let Some(met) = &mut self.met
            && !met.iter().any(|it| Arc::ptr_eq(&it.specialisation, &specialisation))
        {
            let (specialisation, operands) = (specialisation.clone(), operands.to_vec());
            met.push(SegmentRun { specialisation, operands, constants: segment.constants.clone() });
        }
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
            return Err(base::limits::exceeded(
                "iterations",
                base::limits::more_than(limits.iterations),
                message,
            )
            .at("a run of the model")
            .because(format!(
                "a compile for new shapes counts as {TURNS_OF_A_COMPILE} turns, a copy of \
                     {COPIES_OF_A_TURN} values of sequences as one"
            ))
            .into());
        }
        let what = format!("after {} turns a loop keeps", self.turns);
        Ok(limits.check_memory(kept_bytes, self.given_bytes, &what)?)
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
        let outcome = limits.check_memory(bytes, self.given_bytes, "a host function would make");
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
    let remedy = match fault.code {
        codes::SYMBOL_OUT_OF_RANGE => "check the inputs, or export the model with larger bounds",
        codes::BAD_IMAGE => "give the bytes of an undamaged image file",
        _ => "check the inputs that the model is given",
    };
    Diagnostic::error(fault.code, fault.message)
        .at(place)
        .because("it is computed from data, while the model runs")
        .remedy(remedy)
}

impl Variant {
    /// Runs the plan, or its only segment.
    ///
    /// # Errors
    /// As [`Self::run_plan`].
    pub(crate) fn run<G: Given>(&self, model: &Model, inputs: &[G]) -> Result<Vec<Value>> {
        if let Some(tensors) = self.only_segment.and_then(|_| G::tensors(inputs))
            && let Some(segment) = self.only_segment(model, &tensors)?
        {
            let mut outputs = segment.new_outputs()?;
            self.run_segment(model, &segment, &tensors, &mut outputs)?;
            return Ok(outputs.into_iter().map(Value::from).collect());
        }
        self.run_plan(model, inputs, None)
    }

    /// Runs the plan; the first run of each segment is noted in `met`.
    ///
    /// # Errors
    /// Inputs that do not fit the model; diagnostics of the compile; faults while running.
    pub(crate) fn run_plan<G: Given>(
        &self,
        model: &Model,
        inputs: &[G],
        met: Option<&mut Vec<SegmentRun>>,
    ) -> Result<Vec<Value>> {
        let symbols = self.symbols(inputs)?;
        PlanRun::new(self, model, self.given_bytes(inputs), met).run(symbols, inputs)
    }

    /// What a run with these inputs computes: the code of each segment, with the operands that it
    /// meets first. A plan of several segments is run.
    ///
    /// # Errors
    /// As [`Self::run_plan`].
    pub(crate) fn segments_met<G: Given>(
        &self,
        model: &Model,
        inputs: &[G],
    ) -> Result<Vec<SegmentRun>> {
        let mut met = Vec::new();
        self.run_plan(model, inputs, Some(&mut met))?;
        Ok(met)
    }
}
