//! A compiled model: what callers hold and run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use backend::Target;
use base::{Diagnostic, Diagnostics, Result, codes};
use front::{Facts, Port, PortExtent, in_order};
use graph::{Assumption, Function, Op};
use sym::Expr;
use tensor::{DType, Given, Kind, Tensor, Value};

use crate::facts::{Inputs, attempt};
use crate::options::Options;
use crate::outputs::Outputs;
use crate::pipeline::{SeeFunction, front_seen};
use crate::run::SegmentRun;
use crate::source::Source;
use crate::specialisation::Specialisation;
use crate::variant::{Model, Variant};

/// A compiled model. `Send + Sync`: any number of threads may run it at once, each with memory of
/// its own; one that finds the worker threads busy runs alone.
///
/// A model whose shapes depend on values of inputs is compiled when those are first met; its file
/// must stay where it is.
pub struct Executable {
    pub(crate) model: Model,
    pub(crate) inputs: Vec<Port>,
    pub(crate) outputs: Vec<Port>,
    /// Locked while a variant is made.
    pub(crate) making: Mutex<()>,
    /// The code of every run, known behind the first: none where runs differ in more than the
    /// elements of their inputs, or have several segments.
    pub(crate) fixed: OnceLock<Option<FixedRun>>,
}

/// What runs whatever the inputs hold.
pub(crate) struct FixedRun {
    variant: Arc<Variant>,
    segment: Arc<Specialisation>,
}

/// Sizes and counts of an executable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Different kernels of `main`, over all shapes compiled so far.
    pub kernels: usize,
    /// How many times code was made for `main` and is kept; code for many shapes counts once.
    pub compiles: usize,
    /// Machine code of `main`, in bytes.
    pub code_bytes: usize,
    /// What `setup` computed and the weights that `main` reads where they are, in bytes.
    pub constant_bytes: usize,
    /// The largest arena, in bytes.
    pub arena_bytes: usize,
}

impl Executable {
    /// The inputs, in the order of the model.
    #[must_use]
    pub fn inputs(&self) -> &[Port] {
        &self.inputs
    }

    /// The outputs, in the order of the model.
    #[must_use]
    pub fn outputs(&self) -> &[Port] {
        &self.outputs
    }

    /// The row of the target table that it is compiled for.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.model.target
    }

    /// What it was compiled from.
    #[must_use]
    pub fn source(&self) -> &Source {
        &self.model.source
    }

    /// What it was compiled with.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.model.options
    }

    /// Worker threads of a run, the caller's included.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.model.options.thread_count()
    }

    /// Sizes and counts of what has been compiled so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let mut statistics = Statistics::default();
        for variant in self.model.cache.variants() {
            statistics.constant_bytes += variant.constant_bytes();
            let kept = self.model.cache.segments(variant.id);
            let mut met = BTreeSet::new();
            for specialisation in &kept {
                let code = specialisation.executable().code();
                if met.insert(Arc::as_ptr(code)) {
                    statistics.kernels += specialisation.kernels().len();
                    statistics.compiles += 1;
                    statistics.code_bytes += code.bytes();
                }
                statistics.arena_bytes =
                    statistics.arena_bytes.max(specialisation.executable().arena_bytes());
            }
            if let Some(first) = kept.first() {
                let weights = first.executable().weights().iter();
                statistics.constant_bytes +=
                    weights.map(|&id| first.weight(id).bytes().len()).sum::<usize>();
            }
        }
        statistics
    }

    /// Runs the model on one tensor an input.
    ///
    /// # Errors
    /// Inputs that do not fit; faults while running, such as an index out of range. `TW0203` for a
    /// model with outputs that are no tensors.
    pub fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        if let Some(port) = self.outputs.iter().find(|port| port.kind != Kind::Tensor) {
            let message = format!("output `{}` is no tensor", port.name);
            return Err(Diagnostic::error(codes::WRONG_DTYPE, message)
                .at(port.to_string())
                .because("it is a sequence, an optional value or a map")
                .remedy("ask for values of any kind, not for tensors")
                .into());
        }
        self.check_inputs(inputs)?;
        if let Some(FixedRun { variant, segment }) = self.fixed_run(inputs)? {
            let mut outputs = segment.new_outputs()?;
            let run = || variant.run_segment(&self.model, segment, inputs, &mut outputs);
            return base::catch_abandoned(run).map(|()| outputs);
        }
        let results = self.run_components(inputs)?.1.into_iter();
        let no_tensor = || Diagnostics::internal("an output is no tensor");
        results.map(Value::into_tensor).collect::<Option<_>>().ok_or_else(no_tensor)
    }

    /// Runs the model on values, which may be sequences and optional values.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_values(&self, inputs: &[Value]) -> Result<Vec<Value>> {
        self.check_inputs(inputs)?;
        let components = Value::components_of(inputs);
        let (variant, results) = self.run_components(&components)?;
        let kinds = variant.outputs.iter().map(|port| &port.kind);
        Ok(Value::all_from_components(kinds, results))
    }

    /// Runs the model on tensors and other values by the names of its inputs, in any order.
    ///
    /// # Errors
    /// As [`Self::run`]; `TW0201` for inputs without a value, `TW0202` for names that no input has
    /// and those that are given twice.
    pub fn run_named<N: Into<String>, V: Into<Value>>(
        &self,
        inputs: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Outputs> {
        let mut given = BTreeMap::new();
        for (name, value) in inputs {
            let name = name.into();
            if given.contains_key(&name) {
                let message = format!("input `{name}` is given twice");
                return Err(Diagnostic::error(codes::UNKNOWN_INPUT, message)
                    .because("an input takes one value")
                    .remedy("give it once")
                    .into());
            }
            given.insert(name, value.into());
        }
        let missing = &mut |_: usize, port: &Port| Err(port.missing().into());
        let values = self.run_values(&in_order(&self.inputs, given, missing)?)?;
        let names = self.outputs.iter().map(|port| port.name.clone());
        Ok(Outputs::new(names.zip(values).collect()))
    }

    /// Named extents of inputs that only one number fits, as far as the model as compiled so far
    /// tells: that of an axis which a weight has, too, for example.
    #[must_use]
    pub fn only_extents(&self) -> BTreeMap<String, i64> {
        let mut found = BTreeMap::new();
        for variant in self.model.cache.variants() {
            let function = &variant.front().imported;
            for assumption in &function.assumptions {
                let Assumption::Equal(a, b) = assumption else { continue };
                let pair = |a: &Expr, b: &Expr| a.as_symbol().zip(b.as_constant());
                if let Some((symbol, extent)) = pair(a, b).or_else(|| pair(b, a)) {
                    found.insert(function.symbol_name(symbol).to_owned(), extent);
                }
            }
        }
        found
    }

    /// Whether the model as compiled so far draws random numbers.
    pub fn draws(&self) -> bool {
        self.model.cache.variants().iter().any(|variant| draws(&variant.front.imported))
    }

    /// Runs the model on components of inputs that have been checked; gives those of its outputs.
    fn run_components<G: Given>(&self, components: &[G]) -> Result<(Arc<Variant>, Vec<Value>)> {
        self.with_facts(components, &|variant| variant.run(&self.model, components))
    }

    /// Runs the model into tensors of the outputs' types and shapes. From the second run on with
    /// the same shapes it allocates nothing, if no other holds the output tensors' storage and no
    /// size is computed from data.
    ///
    /// # Errors
    /// Inputs or outputs that do not fit; faults while running.
    pub fn run_into(&self, inputs: &[Tensor], outputs: &mut [Tensor]) -> Result<()> {
        let (variant, segment) = self.only_segment(inputs)?;
        if let Some(segment) = segment {
            check_outputs(&segment.outputs, outputs)?;
            return variant.run_segment(&self.model, &segment, inputs, outputs);
        }
        let results = self.run(inputs)?;
        let types: Vec<(DType, Vec<usize>)> =
            results.iter().map(|result| (result.dtype(), result.shape().to_vec())).collect();
        check_outputs(&types, outputs)?;
        outputs.iter_mut().zip(results).for_each(|(output, result)| *output = result);
        Ok(())
    }

    /// Runs the model; some outputs take the place of inputs, without a copy where the code allows
    /// for that, and memory of others goes back to the system as soon as it has been read. Of such
    /// an input the tensor given tells the type and the shape alone, its elements are those of the
    /// update's memory; no other tensor given lies there. The outputs, none in the place of those.
    ///
    /// # Errors
    /// As [`Self::run`]; then no input has changed, but memory that was to go back holds anything.
    /// `TW0202` for updates of inputs or outputs that the model does not have, or of one twice.
    pub fn run_updating(
        &self,
        inputs: &[Tensor],
        updates: &mut [Update<'_>],
    ) -> Result<Vec<Option<Tensor>>> {
        self.check_updates(inputs.len(), updates)?;
        let (variant, segment) = self.only_segment(inputs)?;
        if let Some(segment) = segment {
            let mut given: Vec<Option<&Tensor>> = inputs.iter().map(Some).collect();
            let updated = updates.iter().map(|update| update.input);
            updated.for_each(|input| _ = given.get_mut(input).and_then(Option::take));
            return variant.run_updating(&self.model, &segment, &given, updates);
        }
        let mut inputs = inputs.to_vec();
        for update in updates.iter() {
            let (given, elements) = (&inputs[update.input], update.memory.to_vec());
            let own = Tensor::from_bytes(given.dtype(), given.shape(), elements.into());
            inputs[update.input] = own.map_err(Diagnostics::internal)?;
        }
        let mut outputs: Vec<Option<Tensor>> = self.run(&inputs)?.into_iter().map(Some).collect();
        for update in updates {
            let Some(output) = update.output else { continue };
            let output = outputs.get_mut(output).and_then(Option::take);
            match output.filter(|output| output.bytes().len() == update.memory.len()) {
                Some(output) => update.memory.copy_from_slice(output.bytes()),
                None => return Err(Diagnostics::internal("an output does not fit its place")),
            }
        }
        Ok(outputs)
    }

    /// Refuses updates of what is not there, or of one thing twice.
    fn check_updates(&self, inputs: usize, updates: &[Update<'_>]) -> Result<()> {
        let outputs = self.outputs().len();
        let (mut read, mut written) = (BTreeSet::new(), BTreeSet::new());
        for Update { input, output, .. } in updates {
            let is_there = *input < inputs && output.is_none_or(|output| output < outputs);
            let is_new = read.insert(*input) && output.is_none_or(|output| written.insert(output));
            if !is_there || !is_new {
                let what = match output {
                    Some(output) => format!("output {output} cannot take the place"),
                    None => "nothing can take the memory".to_owned(),
                };
                let message = format!("{what} of input {input}");
                return Err(Diagnostic::error(codes::UNKNOWN_INPUT, message)
                    .because(format!(
                        "there are {inputs} inputs and {outputs} outputs, each updated once"
                    ))
                    .remedy("give each update an input and an output of its own")
                    .into());
            }
        }
        Ok(())
    }

    /// Takes note that elements of the weights have changed where they lie: computes anew what is
    /// made of them ahead of all runs. Nothing is compiled.
    ///
    /// # Errors
    /// Faults while computing; `TW0901` while somebody holds a variant of the model.
    pub fn refit(&mut self) -> Result<()> {
        self.fixed = OnceLock::new();
        let options = &self.model.options;
        let done = self.model.cache.change_variants(|variant| variant.refit(options));
        done.unwrap_or_else(|| Err(Diagnostics::internal("a variant is held during a refit")))
    }

    /// Compiles what inputs of these shapes need, if it is new. What depends on sizes that are
    /// computed from data is compiled when they are met.
    ///
    /// # Errors
    /// Inputs that do not fit; diagnostics of the compile.
    pub fn prepare(&self, inputs: &[Tensor]) -> Result<()> {
        self.only_segment(inputs).map(|_| ())
    }

    /// Does now what is done beside later runs otherwise: moves constants and arenas that do not
    /// stay in the processor's caches to huge pages, from which they are read faster, where the
    /// system has some; of what has been compiled so far, with the arenas that runs have left. It
    /// takes about half a millisecond a megabyte, once: for a server before its first request, or
    /// before times are measured. Results do not change.
    pub fn settle(&self) {
        for variant in self.model.cache.variants() {
            variant.settle();
            for segment in self.model.cache.segments(variant.id) {
                segment.states.settle();
            }
        }
    }

    /// The variant for these inputs, and the code of its only segment, if it has but one.
    pub(crate) fn only_segment(
        &self,
        inputs: &[Tensor],
    ) -> Result<(Arc<Variant>, Option<Arc<Specialisation>>)> {
        self.check_inputs(inputs)?;
        if let Some(FixedRun { variant, segment }) = self.fixed_run(inputs)? {
            return Ok((variant.clone(), Some(segment.clone())));
        }
        self.with_facts(inputs, &|variant| variant.only_segment(&self.model, inputs))
    }

    /// What runs whatever the inputs hold, if that is so; these are inputs that fit the model.
    fn fixed_run(&self, inputs: &[Tensor]) -> Result<Option<&FixedRun>> {
        if let Some(found) = self.fixed.get() {
            return Ok(found.as_ref());
        }
        let is_fixed = |port: &Port| {
            let is_fixed = |extent: &PortExtent| matches!(extent, PortExtent::Fixed(_));
            port.kind == Kind::Tensor && port.shape.iter().all(is_fixed)
        };
        let mut found = None;
        if self.inputs.iter().all(is_fixed) {
            let only = |variant: &Variant| variant.only_segment(&self.model, inputs);
            let (variant, segment) = self.with_facts(inputs, &only)?;
            let segment = segment.filter(|_| variant.facts == Facts::default());
            found = segment.map(|segment| FixedRun { variant, segment });
        }
        Ok(self.fixed.get_or_init(|| found).as_ref())
    }

    /// The variant for these inputs, and what a run computes: the code of each segment, with the
    /// operands that it meets first.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn met(&self, inputs: &[Value]) -> Result<(Arc<Variant>, Vec<SegmentRun>)> {
        let components = Value::components_of(inputs);
        self.with_facts(&components, &|variant| variant.segments_met(&self.model, &components))
    }

    /// Imports the model once more as this variant has it, and shows the function after the import
    /// and after each pass.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn see_passes(&self, variant: &Variant, see: &mut SeeFunction<'_>) -> Result<()> {
        let Model { source, options, target, store, .. } = &self.model;
        front_seen(source, options, target, (&variant.facts, store), see).map(drop)
    }

    /// Does something with the variant for inputs with these components.
    fn with_facts<G: Given, T>(
        &self,
        components: &[G],
        what: &dyn Fn(&Variant) -> Result<T>,
    ) -> Result<(Arc<Variant>, T)> {
        attempt(&|facts| {
            // Parts of an engine file that are read late may turn out not to be as written.
            base::catch_abandoned(|| {
                let ports = &self.inputs;
                let (variant, _) = Inputs { ports, components }.settle(
                    &self.model.options.limits,
                    facts,
                    |facts| self.variant_of(facts),
                    |variant| variant.needs(),
                    |variant| variant.run(&self.model, components),
                )?;
                let done = what(&variant)?;
                Ok((variant, done))
            })
        })
    }

    /// The variant for runs of which this is known, made now where there is none.
    fn variant_of(&self, facts: &Facts) -> Result<Arc<Variant>> {
        let find = || self.model.cache.variant(|variant| variant.is_for(facts));
        if let Some(found) = find() {
            return Ok(found);
        }
        let _one = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        match find() {
            Some(found) => Ok(found),
            None => Ok(Variant::make(&self.model, facts.clone())?.keep(&self.model.cache)),
        }
    }

    /// What all runs of the model share: the code of segments whose sizes no run changes, and how
    /// many others there are; none where all that is compiled depends on the inputs.
    #[must_use]
    pub fn fixed_code(&self) -> Option<(Arc<Variant>, Vec<Arc<Specialisation>>, usize)> {
        let variant = self.model.cache.variant(|variant| variant.needs().is_empty())?;
        let code = variant.fixed_code(&self.model.cache);
        let others = variant.plan.segments().count().saturating_sub(code.len());
        (!code.is_empty() || others == 0).then_some((variant, code, others))
    }

    fn check_inputs<G: Given>(&self, inputs: &[G]) -> Result<()> {
        let (given, wanted) = (inputs.len(), self.inputs.len());
        if given != wanted {
            let found = match self.inputs.get(given) {
                Some(port) => port.missing(),
                None => Diagnostic::error(codes::UNKNOWN_INPUT, "too many inputs are given"),
            };
            return Err(found
                .because(format!("{given} inputs are given, the model has {wanted}"))
                .remedy("give one value for each input, in the order of the model")
                .into());
        }
        self.inputs.iter().zip(inputs).try_for_each(|(port, input)| port.check(input))
    }
}

/// Whether a function draws random numbers.
pub fn draws(function: &Function) -> bool {
    let nodes = function.nodes_in_order();
    nodes.iter().any(|&node| matches!(function.nodes[node].op, Op::RandomBits { .. }))
}

impl fmt::Debug for Executable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executable")
            .field("target", &self.model.target.name)
            .field("inputs", &self.inputs)
            .field("outputs", &self.outputs)
            .finish_non_exhaustive()
    }
}

/// An output that takes the place of an input, or an input whose memory nobody needs behind a run.
#[derive(Debug)]
pub struct Update<'a> {
    /// The input's number.
    pub input: usize,
    /// The output's number; it has the input's type and shape. Where there is none, whole pages of
    /// the memory go back to the system once it has been read for the last time.
    pub output: Option<usize>,
    /// The input's elements, and behind a run the output's, or anything.
    pub memory: &'a mut [u8],
}

fn check_outputs(types: &[(DType, Vec<usize>)], outputs: &[Tensor]) -> Result<()> {
    let misfit = |(number, (tensor, (dtype, shape))): (usize, (&Tensor, &(DType, Vec<usize>)))| {
        let (given, found) = (tensor.shape(), tensor.dtype());
        let different = (0..given.len().min(shape.len())).find(|&axis| given[axis] != shape[axis]);
        if found != *dtype {
            return Some(format!("output {number} has elements of type {found}, not {dtype}"));
        }
        if given.len() != shape.len() {
            let (given, wanted) = (given.len(), shape.len());
            return Some(format!("output {number} has {given} axes, not {wanted}"));
        }
        different.map(|axis| {
            let (given, wanted) = (given[axis], shape[axis]);
            format!("axis {axis} of output {number} has extent {given}, not {wanted}")
        })
    };
    let reason = match outputs.len() == types.len() {
        true => outputs.iter().zip(types).enumerate().find_map(misfit),
        false => Some(format!("{} are given, the model has {}", outputs.len(), types.len())),
    };
    let Some(reason) = reason else { return Ok(()) };
    Err(Diagnostic::error(codes::WRONG_SHAPE, "the output tensors do not fit")
        .at("the output tensors")
        .because(reason)
        .remedy("use tensors that an earlier run gave for inputs of the same shapes")
        .into())
}
