//! A compiled model: what callers hold and run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use backend::Target;
use base::{Diagnostic, Result, codes};
use graph::{Function, Op};
use import_onnx::Wanted;
use lower::KernelStore;
use tensor::{DType, Kind, Structure, Tensor, Value};

use crate::cache::Cache;
use crate::divided::{Divided, tensors};
use crate::piecewise::{Piecewise, Session};
use crate::source::Source;
use crate::specialisation::Specialisation;
use crate::variant::{Given, Made, Model, Variant, bound, tensor_names};
use crate::{Options, Port};

/// A compiled model. `Send + Sync`: any number of threads may run it at once, each with memory of
/// its own; one that finds the worker threads busy runs alone.
///
/// A model whose shapes depend on values of inputs is compiled when those are first met; its file
/// must stay where it is.
pub struct Executable {
    pub(crate) source: Source,
    pub(crate) options: Options,
    pub(crate) target: Target,
    pub(crate) threads: usize,
    pub(crate) inputs: Vec<Port>,
    pub(crate) outputs: Vec<Port>,
    /// What must be known of which tensors, besides extents, to compile; grows as it is found out.
    /// Locked while a variant is made.
    pub(crate) asked: Mutex<BTreeMap<String, Wanted>>,
    /// What has been compiled of it.
    pub(crate) cache: Cache,
    /// Its parts, where strings or encoded images are read apart; set by the first run.
    pub(crate) divided: OnceLock<Option<Divided>>,
    /// Its pieces, where it cannot be compiled as a whole.
    pub(crate) pieces: OnceLock<Piecewise>,
    /// Kernels that specialisations share.
    pub(crate) store: Arc<KernelStore>,
}

/// Sizes and counts of an executable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Different kernels of `main`, over all shapes compiled so far.
    pub kernels: usize,
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
        &self.target
    }

    /// Worker threads of a run, the caller's included.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Sizes and counts of what has been compiled so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let rest = self.divided.get().and_then(Option::as_ref).and_then(Divided::rest);
        let mut statistics = rest.map(Executable::statistics).unwrap_or_default();
        if let Some(pieces) = self.pieces.get() {
            pieces.each_executable(&mut |part| {
                let part = part.statistics();
                statistics.kernels += part.kernels;
                statistics.code_bytes += part.code_bytes;
                statistics.constant_bytes += part.constant_bytes;
                statistics.arena_bytes = statistics.arena_bytes.max(part.arena_bytes);
            });
        }
        for variant in self.cache.variants() {
            statistics.constant_bytes += variant.constant_bytes();
            let kept = self.cache.segments(variant.id);
            for specialisation in &kept {
                statistics.kernels += specialisation.kernels().len();
                statistics.code_bytes += specialisation.code_bytes;
                statistics.arena_bytes =
                    statistics.arena_bytes.max(specialisation.executable.arena_bytes());
            }
            if let Some(first) = kept.first() {
                let weights = first.executable.weights().iter();
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
    /// model with inputs or outputs that are no tensors.
    pub fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        self.check_inputs(inputs)?;
        if self.may_be_divided() {
            let values: Vec<Value> = inputs.iter().cloned().map(Value::from).collect();
            let results = self.divided(&values).and_then(|parts| parts.run(&values)).transpose()?;
            if let Some(results) = results.and_then(tensors) {
                return Ok(results);
            }
        }
        let given = Given { structures: &[], tensors: inputs };
        let values = || inputs.iter().cloned().map(Value::from).collect::<Vec<Value>>();
        match self.run_whole(given) {
            None => {
                only_tensors(self.run_pieces(&values(), &mut Session::new(&mut |_, _| Ok(())))?)
            }
            Some(done) => Ok(done?.1),
        }
    }

    /// Runs the model as a whole; none where it is run in pieces.
    fn run_whole(&self, given: Given<'_>) -> Option<Result<(Arc<Variant>, Vec<Tensor>)>> {
        if self.pieces.get().is_some() {
            return None;
        }
        let done = self.run_given(given);
        if done.is_err() && self.pieces.get().is_some() { None } else { Some(done) }
    }

    fn run_pieces(&self, inputs: &[Value], session: &mut Session<'_>) -> Result<Vec<Value>> {
        let pieces = self.pieces.get();
        pieces.map_or_else(|| Ok(Vec::new()), |pieces| pieces.run(inputs.to_vec(), session))
    }

    /// Visits what is compiled as a whole for such inputs: the model, or each part that a run takes
    /// and works on tensors, once for each shapes.
    ///
    /// # Errors
    /// Those of the visitor, and of a run.
    pub(crate) fn each_whole(
        &self,
        inputs: &[Tensor],
        visit: &mut dyn FnMut(&Executable, &[Tensor]) -> Result<()>,
    ) -> Result<()> {
        self.prepare(inputs)?;
        let Some(pieces) = self.pieces.get() else { return visit(self, inputs) };
        let values: Vec<Value> = inputs.iter().cloned().map(Value::from).collect();
        let mut seen: BTreeSet<(*const Executable, Vec<Vec<usize>>)> = BTreeSet::new();
        let mut watch = |part: &Executable, inputs: &[Value]| {
            let Some(inputs) = tensors(inputs.to_vec()) else { return Ok(()) };
            let shapes = inputs.iter().map(|input| input.shape().to_vec()).collect();
            if !seen.insert((std::ptr::from_ref(part), shapes)) {
                return Ok(());
            }
            part.prepare(&inputs)?;
            // Of those in pieces the parts are heard of, too.
            if part.pieces.get().is_some() { Ok(()) } else { visit(part, &inputs) }
        };
        pieces.run(values, &mut Session::new(&mut watch)).map(|_| ())
    }

    /// The type of an output for such inputs, with extents that data decide 0; none where it takes
    /// a run to know it.
    pub(crate) fn output_type(&self, name: &str, inputs: &[Value]) -> Option<(DType, Vec<usize>)> {
        let tensors = tensors(inputs.to_vec())?;
        let variant = self.variant(&tensors).ok()?;
        let function = &variant.front.imported;
        let number = function.result_names.iter().position(|other| other == name)?;
        let ty = function.ty(function.results()[number]).as_tensor()?;
        let symbols = bound(&eval::graph::bind_symbols(function, &tensors).ok()?);
        let extent = |extent: &sym::Expr| {
            let value = extent.evaluate(&|symbol| symbols.get(&symbol).copied());
            value.and_then(|value| usize::try_from(value).ok()).unwrap_or(0)
        };
        Some((ty.dtype, ty.shape.iter().map(extent).collect()))
    }

    /// Runs the model on values, which may be sequences and optional values.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_values(&self, inputs: &[Value]) -> Result<Vec<Value>> {
        self.run_in(inputs, &mut Session::new(&mut |_, _| Ok(())))
    }

    /// As [`Self::run_values`], as a part of a run of a model.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub(crate) fn run_in(&self, inputs: &[Value], session: &mut Session<'_>) -> Result<Vec<Value>> {
        self.check_count(inputs.len())?;
        self.inputs.iter().zip(inputs).try_for_each(|(port, value)| port.check_value(value))?;
        if let Some(results) = self.divided(inputs).and_then(|parts| parts.run(inputs)) {
            return results;
        }
        let mut structures: Vec<Structure> = inputs.iter().map(Value::structure).collect();
        if structures.iter().all(|structure| *structure == Structure::Tensor) {
            structures.clear();
        }
        let tensors: Vec<Tensor> = inputs.iter().cloned().flat_map(Value::into_tensors).collect();
        let given = Given { structures: &structures, tensors: &tensors };
        let Some(done) = self.run_whole(given) else {
            return self.run_pieces(inputs, session);
        };
        let (variant, results) = done?;
        let mut results = results.into_iter();
        let outputs = variant.front.outputs.iter();
        Ok(outputs.filter_map(|output| Value::from_tensors(output, &mut results)).collect())
    }

    /// Whether a part of the model may be run apart.
    fn may_be_divided(&self) -> bool {
        self.divided.get().is_none_or(Option::is_some)
    }

    /// The parts of the model, where it is run in parts: divided now, if it has not been tried.
    fn divided(&self, inputs: &[Value]) -> Option<&Divided> {
        if !self.may_be_divided() {
            return None;
        }
        self.divided.get_or_init(|| Divided::new(&self.source, &self.options, inputs)).as_ref()
    }

    /// Whether the model as compiled so far draws random numbers.
    pub(crate) fn draws(&self) -> bool {
        let rest = self.divided.get().and_then(Option::as_ref).and_then(Divided::rest);
        let variants = self.cache.variants();
        let mut in_pieces = false;
        if let Some(pieces) = self.pieces.get() {
            pieces.each_executable(&mut |part| in_pieces |= part.draws());
        }
        in_pieces
            || rest.is_some_and(Executable::draws)
            || variants.iter().any(|variant| draws(&variant.front.imported))
    }

    /// Runs the model on what has been checked; gives the tensors that its outputs are made of.
    fn run_given(&self, given: Given<'_>) -> Result<(Arc<Variant>, Vec<Tensor>)> {
        let variant = self.variant_for(given)?;
        let inputs = given.tensors;
        let mut outputs = match variant.only_segment(self.model(), inputs)? {
            Some(segment) => {
                let mut outputs = segment.new_outputs()?;
                variant.run_segment(self.model(), &segment, inputs, &mut outputs)?;
                outputs
            }
            None => variant.run_plan(self.model(), inputs, &mut |_| Ok(()))?,
        };
        variant.front.strings.put_into(&mut outputs);
        Ok((variant, outputs))
    }

    /// Runs the model into tensors of the outputs' types and shapes. From the second run on with
    /// the same shapes it allocates nothing, if no other holds the output tensors' storage and no
    /// size is computed from data.
    ///
    /// # Errors
    /// Inputs or outputs that do not fit; faults while running.
    pub fn run_into(&self, inputs: &[Tensor], outputs: &mut [Tensor]) -> Result<()> {
        if self.may_be_divided() && outputs.len() == self.outputs.len() {
            let results = self.run(inputs)?;
            outputs.iter_mut().zip(results).for_each(|(output, result)| *output = result);
            return Ok(());
        }
        let variant = self.variant(inputs);
        if self.pieces.get().is_some() && outputs.len() == self.outputs.len() {
            let results = self.run(inputs)?;
            outputs.iter_mut().zip(results).for_each(|(output, result)| *output = result);
            return Ok(());
        }
        let variant = variant?;
        if !variant.front.strings.is_empty() && outputs.len() == self.outputs.len() {
            let (_, results) = self.run_given(Given { structures: &[], tensors: inputs })?;
            outputs.iter_mut().zip(results).for_each(|(output, result)| *output = result);
            return Ok(());
        }
        if let Some(segment) = variant.only_segment(self.model(), inputs)? {
            check_outputs(&segment.outputs, outputs)?;
            return variant.run_segment(self.model(), &segment, inputs, outputs);
        }
        let results = variant.run_plan(self.model(), inputs, &mut |_| Ok(()))?;
        let types: Vec<(DType, Vec<usize>)> =
            results.iter().map(|result| (result.dtype(), result.shape().to_vec())).collect();
        check_outputs(&types, outputs)?;
        outputs.iter_mut().zip(results).for_each(|(output, result)| *output = result);
        Ok(())
    }

    /// Compiles what inputs of these shapes need, if it is new. What depends on sizes that are
    /// computed from data is compiled when they are met.
    ///
    /// # Errors
    /// Inputs that do not fit; diagnostics of the compile.
    pub fn prepare(&self, inputs: &[Tensor]) -> Result<()> {
        if self.may_be_divided() {
            self.check_inputs(inputs)?;
            let values: Vec<Value> = inputs.iter().cloned().map(Value::from).collect();
            if let Some(done) = self.divided(&values).and_then(|parts| parts.prepare(&values)) {
                return done;
            }
        }
        if self.pieces.get().is_some() {
            return self.check_inputs(inputs);
        }
        match self.variant(inputs) {
            Err(_) if self.pieces.get().is_some() => Ok(()),
            Err(found) => Err(found),
            Ok(variant) => variant.only_segment(self.model(), inputs).map(|_| ()),
        }
    }

    /// What the variants of the model have in common.
    pub(crate) fn model(&self) -> Model<'_> {
        let (source, options, target) = (&self.source, &self.options, &self.target);
        let (store, cache) = (&self.store, &self.cache);
        Model { source, options, target, threads: self.threads, store, cache }
    }

    /// The variant for these inputs, which are checked; made now where there is none.
    ///
    /// # Errors
    /// Inputs that do not fit the model; diagnostics of the compile.
    pub(crate) fn variant(&self, inputs: &[Tensor]) -> Result<Arc<Variant>> {
        self.check_inputs(inputs)?;
        if self.pieces.get().is_some() {
            return Err(in_pieces().into());
        }
        self.variant_for(Given { structures: &[], tensors: inputs })
    }

    fn variant_for(&self, given: Given<'_>) -> Result<Arc<Variant>> {
        let find = || {
            self.cache.variant(|variant| {
                variant.is_for(given) && variant.check(&self.cache, given.tensors).is_ok()
            })
        };
        if let Some(found) = find() {
            return Ok(found);
        }
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = find() {
            return Ok(found);
        }
        let names = tensor_names(&self.inputs, given.structures);
        // Why these shapes do not fit the variant for all shapes, such as an extent of 1 that is
        // repeated where the model has a name: then a variant is made for them alone.
        let mut misfit = {
            let general = self.cache.variant(|variant| variant.is_for(given));
            general.and_then(|variant| variant.check(&self.cache, given.tensors).err())
        };
        loop {
            let mut told = asked.clone();
            if misfit.is_some() {
                for name in &names {
                    told.entry(name.clone()).or_insert(Wanted::Shape);
                }
            }
            let made = Variant::make(self.model(), &told, &self.inputs, given);
            match made.map_err(|found| misfit.clone().unwrap_or(found))? {
                Made::Variant(variant) => {
                    if let Err(found) = variant.check(&self.cache, given.tensors) {
                        match misfit {
                            Some(_) => return Err(found),
                            None => misfit = Some(found),
                        }
                        continue;
                    }
                    return Ok(self.cache.keep_variant(*variant));
                }
                Made::Asks(question) => {
                    let sizes = |name: &str| {
                        let number = names.iter().position(|other| other == name)?;
                        given.tensors.get(number).map(Tensor::len)
                    };
                    question.add_to(&mut asked, &sizes).inspect_err(|_| {
                        let at = |node| Piecewise::at(&self.source, &self.options, node);
                        if let Some(pieces) = question.node.and_then(at) {
                            _ = self.pieces.set(pieces);
                        }
                    })?;
                }
            }
        }
    }

    /// The variant of a model that has one for all inputs.
    ///
    /// # Errors
    /// `TW0205` if what is compiled depends on inputs.
    pub(crate) fn only_variant(&self) -> Result<Arc<Variant>> {
        if self.pieces.get().is_some() {
            return Err(in_pieces().into());
        }
        self.cache.variant(|_| true).ok_or_else(|| {
            let names: Vec<String> =
                self.inputs.iter().map(|port| format!("`{}`", port.name)).collect();
            Diagnostic::error(codes::UNBOUND_DIMENSION, "shapes depend on values of inputs")
                .at("the model's inputs")
                .because(format!("nothing is known yet of {}", names.join(", ")))
                .remedy("run the model with its inputs given")
                .into()
        })
    }

    /// The code for fixed inputs.
    ///
    /// # Errors
    /// `TW0205` if the inputs' shapes are free.
    pub(crate) fn only_specialisation(&self) -> Result<Arc<Specialisation>> {
        let variant = self.only_variant()?;
        if let Some(first) = self.cache.segments(variant.id).first() {
            return Ok(first.clone());
        }
        if variant.plan.only_segment().is_none() {
            return Err(Diagnostic::error(
                codes::UNKNOWN_CONTENTS,
                "sizes are computed from data while the model runs",
            )
            .at("the model")
            .because("the kernels behind them are made when the sizes are met")
            .remedy("run the model with its inputs given")
            .into());
        }
        let unbound = self.inputs.iter().filter_map(|port| port.random(0).err());
        Err(unbound.flatten().collect())
    }

    fn check_inputs(&self, inputs: &[Tensor]) -> Result<()> {
        self.check_count(inputs.len())?;
        let ports = self.inputs.iter().chain(&self.outputs);
        if let Some(port) = ports.clone().find(|port| port.kind != Kind::Tensor) {
            return Err(Diagnostic::error(
                codes::WRONG_DTYPE,
                format!("`{}` is no tensor", port.name),
            )
            .at(port.to_string())
            .because("the model has sequences or optional values among its inputs and outputs")
            .remedy("use `run_values`")
            .into());
        }
        self.inputs.iter().zip(inputs).try_for_each(|(port, input)| port.check(input))
    }

    fn check_count(&self, given: usize) -> Result<()> {
        if let Some(port) = self.inputs.get(given) {
            return Err(Diagnostic::error(
                codes::MISSING_INPUT,
                format!("input `{}` is not given", port.name),
            )
            .at(port.to_string())
            .because(format!("{given} inputs are given, the model has {}", self.inputs.len()))
            .remedy("give one tensor for each input, in the order of `inputs()`")
            .into());
        }
        if given > self.inputs.len() {
            let reason = format!("{given} inputs are given, the model has {}", self.inputs.len());
            return Err(Diagnostic::error(codes::UNKNOWN_INPUT, "too many inputs are given")
                .because(reason)
                .remedy("give one tensor for each input, in the order of `inputs()`")
                .into());
        }
        Ok(())
    }
}

/// The refusal of what wants all kernels of a model that is run in pieces.
fn in_pieces() -> Diagnostic {
    Diagnostic::error(codes::UNKNOWN_CONTENTS, "the model is compiled piece by piece while it runs")
        .at("the model")
        .because("what its kernels compute depends on values that only a run knows")
        .remedy("use `run`, `bench`, `verify` or `explain` with its inputs given")
}

/// The tensors that values are.
fn only_tensors(values: Vec<Value>) -> Result<Vec<Tensor>> {
    tensors(values)
        .ok_or_else(|| Diagnostic::error(codes::INTERNAL_ERROR, "an output is no tensor").into())
}

/// Whether a function draws random numbers.
pub(crate) fn draws(function: &Function) -> bool {
    let nodes = function.nodes_in_order();
    nodes.iter().any(|&node| matches!(function.nodes[node].op, Op::RandomBits { .. }))
}

impl fmt::Debug for Executable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executable")
            .field("target", &self.target.name)
            .field("inputs", &self.inputs)
            .field("outputs", &self.outputs)
            .finish_non_exhaustive()
    }
}

fn check_outputs(types: &[(DType, Vec<usize>)], outputs: &[Tensor]) -> Result<()> {
    let fits = outputs.len() == types.len()
        && outputs.iter().zip(types).all(|(tensor, (dtype, shape))| {
            tensor.dtype() == *dtype && tensor.shape() == &shape[..]
        });
    if fits {
        return Ok(());
    }
    Err(Diagnostic::error(codes::WRONG_SHAPE, "the output tensors do not fit")
        .because("their number, element types or shapes differ from the model's outputs")
        .remedy("use the tensors that `run` returned for inputs of the same shapes")
        .into())
}
