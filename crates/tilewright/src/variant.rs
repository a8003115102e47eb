//! A model with the facts that it needs, extents free: what most models have one of.
//!
//! A model that needs facts has a variant for each that it has met, and one without them, which
//! computes what the inputs do not tell. A variant has one `setup` and one block of constants,
//! which the segments of its plan share.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use backend::Target;
use base::{ConstantId, Diagnostic, Diagnostics, FunctionId, IntoTree, Result, codes};
use bytes::Bytes;
use eval::graph::SymbolValues;
use front::{Facts, Need, Port};
use lower::{KernelStore, Role, budget};
use runtime::{Block, State};
use sym::SymbolId;
use tensor::{Given, Tensor};

use crate::cache::{Cache, SegmentFacts, Shapes};
use crate::constants::Constants;
use crate::executable::Update;
use crate::late::LateValue;
use crate::options::Options;
use crate::pipeline::{FrontHalf, front_seen};
use crate::plan::Plan;
use crate::setup::{Destination, code_for_this_machine, run_setup, runs_here};
use crate::source::Source;
use crate::specialisation::{Request, Scopes, Specialisation};

/// What is common to the variants of a model.
pub(crate) struct Model {
    pub(crate) source: Source,
    /// With a number of worker threads.
    pub(crate) options: Options,
    pub(crate) target: Target,
    /// Kernels of all its variants.
    pub(crate) store: Arc<KernelStore>,
    /// What has been compiled of it.
    pub(crate) cache: Cache<Variant>,
}

/// A model, compiled as far as free extents let it.
pub struct Variant {
    /// Tells the variants of an executable apart.
    pub(crate) id: u64,
    /// That of an engine is read where something is compiled, or looked at.
    pub(crate) front: Arc<LateValue<FrontHalf>>,
    pub(crate) plan: LateValue<Plan>,
    /// The segment that is all of the plan, if one is.
    pub(crate) only_segment: Option<FunctionId>,
    /// The model's outputs; none where something must be known besides.
    pub(crate) outputs: Vec<Port>,
    /// What is known of the runs that it is for.
    pub(crate) facts: Facts,
    /// What `setup` computed.
    pub(crate) constants: Constants,
    pub(crate) setup: Arc<LateValue<Specialisation>>,
    /// The weights that `setup` reads and that are not at hand: an engine keeps what was made of
    /// them.
    pub(crate) absent: BTreeSet<ConstantId>,
    /// One compile at a time. Of each segment, the code that there is for many extents.
    pub(crate) compiling: Mutex<BTreeMap<FunctionId, Scopes>>,
}

impl Variant {
    /// Compiles what does not depend on free extents, for runs of which this is known.
    ///
    /// # Errors
    /// What is wrong with the model, or with the options.
    pub(crate) fn make(model: &Model, facts: Facts) -> Result<Variant> {
        let Model { source, options, target, store, .. } = model;
        let front = front_seen(source, options, target, (&facts, store), &mut |_, _| {})?;
        let is_one_of_many = facts != Facts::default() || !front.needs.is_empty();
        let setup_symbols = BTreeMap::new();
        let own = (&front.module, &front.module.functions[front.setup]);
        // Pages are made while `setup` is compiled, too.
        let early = lower::constant_block_bytes(own.1).map(fresh_constants).transpose()?;
        let setup = Specialisation::new(Request {
            store: Some(store),
            keeps_kernels: is_one_of_many,
            ..Request::new(own, &setup_symbols, Role::Setup, (target, options))
        })?;
        let bytes = setup.executable().constant_bytes();
        let block = match early.filter(|block| block.len() == bytes) {
            Some(block) => block,
            None => fresh_constants(bytes)?,
        };
        let setup = Arc::new(LateValue::of(setup));
        let (own, target, options) = (setup.clone(), target.clone(), options.clone());
        let constants = Constants::filled_by(block, move |constants| match runs_here(&target) {
            true => run_setup(&own, Destination::Memory(constants), &options),
            false => {
                let here = code_for_this_machine(&own.made, &target, &options)?;
                run_setup(&here, Destination::Memory(constants), &options)
            }
        })?;
        let plan = Plan::of(&front);
        Ok(Variant {
            id: Variant::next_id(),
            only_segment: plan.only_segment(),
            outputs: front.outputs.clone(),
            plan: LateValue::of(plan),
            front: Arc::new(LateValue::of(front)),
            facts,
            constants,
            setup,
            absent: BTreeSet::new(),
            compiling: Mutex::default(),
        })
    }

    /// A number that no other variant of this process has.
    pub(crate) fn next_id() -> u64 {
        static VARIANTS: AtomicU64 = AtomicU64::new(0);
        VARIANTS.fetch_add(1, Ordering::Relaxed)
    }

    /// The front half of its compile.
    pub fn front(&self) -> &FrontHalf {
        &self.front
    }

    /// Whether `main` is one segment, so that a run is one program.
    #[must_use]
    pub fn is_one_segment(&self) -> bool {
        self.only_segment.is_some()
    }

    /// The code of `setup`.
    pub fn setup(&self) -> &Specialisation {
        &self.setup
    }

    /// What must be known of a run besides: nothing, where an engine has the variant.
    pub(crate) fn needs(&self) -> &[Need] {
        self.front.made().map_or(&[], |front| &front.needs)
    }

    /// Computes anew what `setup` makes of the weights, whose elements are others by now.
    ///
    /// # Errors
    /// Faults while running.
    pub(crate) fn refit(&mut self, options: &Options) -> Result<()> {
        if let Some(&id) = self.absent.first() {
            let name = &self.front().module.constants[id].name;
            return Err(Diagnostic::error(
                codes::NOT_IN_ENGINE,
                "the engine has not all weights of its model",
            )
            .at(format!("weight `{name}`"))
            .because("an engine keeps what has been made of weights, not what it was made of")
            .remedy("refit from the model file with the new weights")
            .into());
        }
        let own = std::mem::replace(&mut self.constants, Constants::Mapped(Bytes::new()));
        let mut block = match own.into_block() {
            Some(block) => block,
            None => fresh_constants(self.setup.executable().constant_bytes())?,
        };
        let done = run_setup(&self.setup, Destination::Memory(block.bytes_mut()), options);
        self.constants = Constants::of(block);
        done
    }

    /// Whether the variant is for runs of which this is known.
    pub(crate) fn is_for(&self, facts: &Facts) -> bool {
        if base::fault::is_seeded("driver.variant") {
            return self.facts.values.keys().eq(facts.values.keys())
                && self.facts.computed.keys().eq(facts.computed.keys());
        }
        self.facts == *facts
    }

    fn facts_of<'a>(&self, function: FunctionId, shapes: Shapes<'a>) -> SegmentFacts<'a> {
        SegmentFacts { variant: self.id, function, sizes: Cow::Borrowed(&[]), shapes }
    }

    /// The variant, kept in the cache of the model.
    pub(crate) fn keep(self, cache: &Cache<Variant>) -> Arc<Variant> {
        let of_setup = self.setup.made().map_or(0, Specialisation::bytes);
        let bytes = self.constant_bytes() + of_setup;
        cache.keep_variant(self, bytes)
    }

    /// Bytes of the block of constants.
    pub(crate) fn constant_bytes(&self) -> usize {
        self.constants.len()
    }

    /// The code of the only segment for inputs of these shapes, compiled now where they are new;
    /// none where the plan has several.
    ///
    /// # Errors
    /// Inputs that do not fit the model; diagnostics of the compile.
    pub(crate) fn only_segment(
        &self,
        model: &Model,
        inputs: &[Tensor],
    ) -> Result<Option<Arc<Specialisation>>> {
        let Some(id) = self.only_segment else {
            return self.symbols(inputs).map(|_| None);
        };
        let facts = self.facts_of(id, Shapes::Of(inputs));
        if let Some(found) = model.cache.segment(&facts) {
            return Ok(Some(found));
        }
        let symbols = bound(&self.symbols(inputs)?);
        self.compile(model, &facts, &symbols, self.given_bytes(inputs)).map(Some)
    }

    /// Compiles the segments that each run begins with the same sizes, if the model's inputs have
    /// fixed shapes.
    ///
    /// # Errors
    /// Diagnostics of the compile.
    pub(crate) fn prepare_fixed(&self, model: &Model) -> Result<()> {
        let Some(inputs) = budget::parameter_bytes(&self.front.imported) else { return Ok(()) };
        let given = inputs.saturating_add(budget::constant_bytes(&self.front.module));
        for (function, shapes) in self.plan.fixed_calls() {
            let facts = self.facts_of(function, Shapes::These(shapes));
            self.compile(model, &facts, &BTreeMap::new(), given)?;
        }
        Ok(())
    }

    /// What [`Self::prepare_fixed`] has compiled and the cache still has, in the order of the plan.
    pub(crate) fn fixed_code(&self, cache: &Cache<Variant>) -> Vec<Arc<Specialisation>> {
        let kept = |(id, shapes)| cache.segment(&self.facts_of(id, Shapes::These(shapes)));
        self.plan.fixed_calls().into_iter().filter_map(kept).collect()
    }

    /// Bytes of the weights, and of the inputs of the model in a run with these.
    pub(crate) fn given_bytes<G: Given>(&self, inputs: &[G]) -> u64 {
        let given = inputs.iter().map(Given::byte_count).fold(0, u64::saturating_add);
        given.saturating_add(budget::constant_bytes(&self.front.module))
    }

    /// Bytes of what `setup` computed.
    pub fn constant(&self, offset: usize, bytes: usize) -> Option<&[u8]> {
        self.constants.bytes().ok()?.get(offset..)?.get(..bytes)
    }

    /// Runs a segment with outputs of its types.
    ///
    /// # Errors
    /// Faults while running.
    pub(crate) fn run_segment(
        &self,
        model: &Model,
        specialisation: &Specialisation,
        operands: &[Tensor],
        outputs: &mut [Tensor],
    ) -> Result<()> {
        if specialisation.states.count() == 0 {
            model.cache.make_room();
        }
        let run = |state: &mut State| self.call(specialisation, state, operands, outputs)?.run();
        specialisation
            .states
            .with(model.options.thread_count(), run)
            .map_err(|found| found.map(|fault| specialisation.blame(fault)))
    }

    /// Runs a segment, some of whose outputs take the place of operands; the others. Operands that
    /// are updated are not given.
    ///
    /// # Errors
    /// Memory of the wrong size; faults while running: then the segment wrote to no operand, but
    /// for those whose updates the code writes where they lie.
    pub(crate) fn run_updating(
        &self,
        model: &Model,
        specialisation: &Specialisation,
        operands: &[Option<&Tensor>],
        updates: &mut [Update<'_>],
    ) -> Result<Vec<Option<Tensor>>> {
        let written = &specialisation.program.updated;
        let is_written = |update: &Update<'_>| {
            let output = update.output.and_then(|output| u32::try_from(output).ok());
            output.is_some_and(|output| written.contains(&output))
        };
        let shares = |update: &Update<'_>| {
            let Some(number) = update.output else { return false };
            let is_whole = specialisation.outputs.get(number).is_some_and(|output| {
                tensor::tensor::byte_size(output.0, &output.1) == Some(update.memory.len())
            });
            is_whole && specialisation.sharing().allows(update.input, number)
        };
        let (updates, mut donated): (Vec<_>, Vec<_>) =
            updates.iter_mut().partition(|update| update.output.is_some());
        let (mut in_place, others): (Vec<_>, Vec<_>) =
            updates.into_iter().partition(|update| is_written(update));
        let (mut together, mut apart): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|update| shares(update));
        let shared: BTreeSet<usize> =
            in_place.iter().chain(&together).filter_map(|update| update.output).into_set();
        let own = |number: usize| match shared.contains(&number) {
            true => Ok(None),
            false => specialisation.new_output(number).map(Some),
        };
        let mut outputs: Vec<Option<Tensor>> =
            (0..specialisation.outputs.len()).map(own).collect::<Result<_>>()?;
        let run = |state: &mut State| {
            let mut call = state.call();
            for (number, tensor) in operands.iter().enumerate() {
                if let Some(tensor) = tensor {
                    call.input(number, tensor.bytes())?;
                }
            }
            for update in &mut in_place {
                if let Some(output) = update.output {
                    call.output(output, update.memory)?;
                }
            }
            for donation in &mut donated {
                call.donated(donation.input, donation.memory)?;
            }
            for update in &apart {
                call.input(update.input, update.memory)?;
            }
            for update in &mut together {
                if let Some(output) = update.output {
                    call.shared(update.input, output, update.memory)?;
                }
            }
            for (number, tensor) in outputs.iter_mut().enumerate() {
                if let Some(tensor) = tensor {
                    call.output(number, tensor.bytes_mut())?;
                }
            }
            self.give_constants(specialisation, &mut call)?;
            call.run()
        };
        let done = specialisation.states.with(model.options.thread_count(), run);
        done.map_err(|found| found.map(|fault| specialisation.blame(fault)))?;
        for update in &mut apart {
            let own = update.output.and_then(|output| outputs.get_mut(output));
            let Some(output) = own.and_then(Option::take) else {
                return Err(Diagnostics::internal("an output takes the place of two inputs"));
            };
            if output.bytes().len() != update.memory.len() {
                return Err(Diagnostics::internal("an output is larger than what it replaces"));
            }
            update.memory.copy_from_slice(output.bytes());
        }
        Ok(outputs)
    }

    /// A run with all memory given.
    ///
    /// # Errors
    /// Memory of the wrong size, which the callers of this have excluded.
    pub fn call<'a>(
        &'a self,
        specialisation: &'a Specialisation,
        state: &'a mut State,
        operands: &'a [Tensor],
        outputs: &'a mut [Tensor],
    ) -> Result<runtime::Call<'a>> {
        let mut call = state.call();
        for (number, tensor) in operands.iter().enumerate() {
            call.input(number, tensor.bytes())?;
        }
        for (number, tensor) in outputs.iter_mut().enumerate() {
            call.output(number, tensor.bytes_mut())?;
        }
        self.give_constants(specialisation, &mut call)?;
        Ok(call)
    }

    /// Gives a run the weights and constants that it reads.
    fn give_constants<'a>(
        &'a self,
        specialisation: &'a Specialisation,
        call: &mut runtime::Call<'a>,
    ) -> Result<()> {
        for &id in specialisation.executable().weights() {
            call.weight(id, specialisation.weight(id).bytes())?;
        }
        let bytes = self.constants.bytes()?;
        if let Some(block) = self.constants.computed() {
            block.count_run();
        }
        call.constants(bytes)
    }

    /// Moves the constants to huge pages now, unless that is done or begun.
    pub(crate) fn settle(&self) {
        // Faults of what computes them are those of the first run.
        _ = self.constants.bytes();
        if let Some(block) = self.constants.computed() {
            block.settle();
        }
    }

    /// The values of the symbols that follow from the inputs' shapes.
    pub(crate) fn symbols<G: Given>(&self, inputs: &[G]) -> Result<SymbolValues> {
        eval::graph::bind_symbols(&self.front.imported, inputs).map_err(|fault| {
            Diagnostics::from(
                Diagnostic::error(fault.code, "the inputs' shapes do not fit the model")
                    .because(fault.message)
                    .at(if fault.place.is_empty() { "the inputs".to_owned() } else { fault.place })
                    .remedy("give inputs whose shapes agree with the model and with each other"),
            )
        })
    }

    /// Compiles a segment, unless it has been meanwhile. `given_bytes` are those of the model's
    /// weights and inputs.
    ///
    /// # Errors
    /// Diagnostics of the compile.
    pub(crate) fn compile(
        &self,
        model: &Model,
        facts: &SegmentFacts<'_>,
        symbols: &BTreeMap<SymbolId, i64>,
        given_bytes: u64,
    ) -> Result<Arc<Specialisation>> {
        let mut scopes = self.compiling.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = model.cache.segment(facts) {
            return Ok(found);
        }
        let segment = self.plan.segment(facts.function);
        let request = || {
            let own = (&self.front.module, &segment.function);
            let role = segment.role(&self.setup.lowered().constants.offsets);
            Request {
                donated: self.plan.donated(facts.function, &model.options),
                given: Some(given_bytes),
                store: Some(&model.store),
                keeps_kernels: self.is_one_of_many(),
                ..Request::new(own, symbols, role, (&model.target, &model.options))
            }
        };
        let mut why_alone = None;
        if model.options.symbolic && !symbols.is_empty() {
            match scopes.entry(facts.function).or_default().find(request()) {
                Ok(own) => {
                    let options = &model.options;
                    if let Some(found) = Specialisation::of(&own, symbols, given_bytes, options)? {
                        return Ok(model.cache.keep_segment(facts, found));
                    }
                }
                Err(reason) => why_alone = Some(reason),
            }
        }
        let mut specialisation = Specialisation::new(request())?;
        specialisation.why_alone = why_alone;
        Ok(model.cache.keep_segment(facts, specialisation))
    }

    /// Whether there may be other code of the model: of other shapes or segments, or for other
    /// values.
    fn is_one_of_many(&self) -> bool {
        self.facts != Facts::default()
            || self.only_segment.is_none()
            || self.front.inputs.iter().any(|port| port.fixed_shape().is_none())
    }
}

/// Memory for what `setup` computes, zeros so far: it fills the block from its beginning to its
/// end, and would wait for page after page.
fn fresh_constants(bytes: usize) -> Result<Block> {
    let mut constants = Block::zeroed(bytes)?;
    constants.populate([]);
    Ok(constants)
}

/// The values of those symbols that have one.
pub(crate) fn bound(symbols: &SymbolValues) -> BTreeMap<SymbolId, i64> {
    symbols.iter().filter_map(|(symbol, value)| Some((symbol, (*value)?))).collect()
}
