//! A compiled model: what callers hold and run.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use backend::Target;
use base::{Diagnostic, Diagnostics, Result, codes};
use graph::{Function, Type};
use lower::Role;
use runtime::{Block, State};
use sym::SymbolId;
use tensor::Tensor;

use crate::pipeline::{Front, front};
use crate::specialisation::{Request, Specialisation};
use crate::{Options, Port, PortExtent, target};

/// Specialisations that are kept for shapes seen before.
const MOST_SPECIALISATIONS: usize = 64;

/// A compiled model. `Send + Sync`: any number of threads may run it at once, each with memory of
/// its own; one that finds the worker threads busy runs alone.
pub struct Executable {
    pub(crate) front: Front,
    pub(crate) options: Options,
    target: Target,
    threads: usize,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    /// What `setup` computed.
    constants: Block,
    setup: Specialisation,
    specialisations: RwLock<Vec<Arc<Specialisation>>>,
    /// One compile at a time.
    compiling: Mutex<()>,
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

/// Compiles a model: everything that does not depend on free dimensions, and the code itself where
/// none is free.
///
/// # Errors
/// What is wrong with the model, or with the options.
pub fn compile(model: impl AsRef<Path>, options: &Options) -> Result<Executable> {
    let target = target::resolve(&options.target)?;
    target::check_runs_here(&target)?;
    let front = front(model.as_ref(), options, &target)?;
    let (inputs, outputs) = (ports(&front.imported, true), ports(&front.imported, false));
    let setup_symbols = BTreeMap::new();
    let setup = Specialisation::new(Request {
        module: &front.module,
        function: &front.module.functions[front.setup],
        symbols: &setup_symbols,
        role: Role::Setup,
        target: &target,
        options,
        input_shapes: Vec::new(),
    })?;
    let threads = options.thread_count();
    let mut constants = Block::zeroed(setup.executable.constant_bytes())?;
    setup.with_state(threads, |state| {
        let mut call = state.call();
        for &id in setup.executable.weights() {
            call.weight(id, setup.weight(id).bytes())?;
        }
        call.constants_to_fill(constants.bytes_mut())?;
        call.run()
    })?;
    let executable = Executable {
        options: options.clone(),
        target,
        threads,
        inputs,
        outputs,
        constants,
        setup,
        specialisations: RwLock::new(Vec::with_capacity(MOST_SPECIALISATIONS)),
        compiling: Mutex::new(()),
        front,
    };
    if let Some(shapes) = executable.inputs.iter().map(Port::fixed_shape).collect() {
        executable.specialise(shapes, &BTreeMap::new())?;
    }
    Ok(executable)
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
        let kept = self.specialisations.read().unwrap_or_else(PoisonError::into_inner);
        let mut statistics =
            Statistics { constant_bytes: self.constants.len(), ..Statistics::default() };
        for specialisation in kept.iter() {
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
        statistics
    }

    /// Runs the model on one tensor an input.
    ///
    /// # Errors
    /// Inputs that do not fit; faults while running, such as an index out of range.
    pub fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let specialisation = self.specialisation(inputs)?;
        let mut outputs: Vec<Tensor> = specialisation
            .outputs
            .iter()
            .map(|(dtype, shape)| Tensor::zeros(*dtype, shape))
            .collect();
        self.run_specialisation(&specialisation, inputs, &mut outputs)?;
        Ok(outputs)
    }

    /// Runs the model into tensors of the outputs' types and shapes. From the second run on with
    /// the same shapes it allocates nothing, if no other holds the output tensors' storage.
    ///
    /// # Errors
    /// Inputs or outputs that do not fit; faults while running.
    pub fn run_into(&self, inputs: &[Tensor], outputs: &mut [Tensor]) -> Result<()> {
        let specialisation = self.specialisation(inputs)?;
        let fits = outputs.len() == specialisation.outputs.len()
            && outputs.iter().zip(&specialisation.outputs).all(|(tensor, (dtype, shape))| {
                tensor.dtype() == *dtype && tensor.shape() == &shape[..]
            });
        if !fits {
            return Err(Diagnostic::error(codes::WRONG_SHAPE, "the output tensors do not fit")
                .because("their number, element types or shapes differ from the model's outputs")
                .remedy("use the tensors that `run` returned for inputs of the same shapes")
                .into());
        }
        self.run_specialisation(&specialisation, inputs, outputs)
    }

    fn run_specialisation(
        &self,
        specialisation: &Specialisation,
        inputs: &[Tensor],
        outputs: &mut [Tensor],
    ) -> Result<()> {
        let run = |state: &mut State| self.call(specialisation, state, inputs, outputs)?.run();
        specialisation
            .with_state(self.threads, run)
            .map_err(|found| found.into_iter().map(|fault| specialisation.blame(fault)).collect())
    }

    /// A run with all memory given.
    ///
    /// # Errors
    /// Memory of the wrong size, which the callers of this have excluded.
    pub(crate) fn call<'a>(
        &'a self,
        specialisation: &'a Specialisation,
        state: &'a mut State,
        inputs: &'a [Tensor],
        outputs: &'a mut [Tensor],
    ) -> Result<runtime::Call<'a>> {
        let mut call = state.call();
        for (number, tensor) in inputs.iter().enumerate() {
            call.input(number, tensor.bytes())?;
        }
        for (number, tensor) in outputs.iter_mut().enumerate() {
            call.output(number, tensor.bytes_mut())?;
        }
        for &id in specialisation.executable.weights() {
            call.weight(id, specialisation.weight(id).bytes())?;
        }
        call.constants(self.constants.bytes())?;
        Ok(call)
    }

    /// The code for inputs of these shapes; compiled now where they are new.
    ///
    /// # Errors
    /// Inputs that do not fit the model; diagnostics of the compile.
    pub(crate) fn specialisation(&self, inputs: &[Tensor]) -> Result<Arc<Specialisation>> {
        self.check_inputs(inputs)?;
        let seen = |specialisation: &&Arc<Specialisation>| {
            specialisation
                .input_shapes
                .iter()
                .zip(inputs)
                .all(|(shape, input)| shape == input.shape())
        };
        let find = || {
            let kept = self.specialisations.read().unwrap_or_else(PoisonError::into_inner);
            kept.iter().find(seen).cloned()
        };
        if let Some(found) = find() {
            return Ok(found);
        }
        let _one = self.compiling.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = find() {
            return Ok(found);
        }
        let symbols = self.symbols(inputs)?;
        let shapes = inputs.iter().map(|input| input.shape().to_vec()).collect();
        self.specialise(shapes, &symbols)
    }

    fn check_inputs(&self, inputs: &[Tensor]) -> Result<()> {
        if let Some(port) = self.inputs.get(inputs.len()) {
            return Err(Diagnostic::error(
                codes::MISSING_INPUT,
                format!("input `{}` is not given", port.name),
            )
            .at(port.to_string())
            .because(format!(
                "{} inputs are given, the model has {}",
                inputs.len(),
                self.inputs.len()
            ))
            .remedy("give one tensor for each input, in the order of `inputs()`")
            .into());
        }
        if inputs.len() > self.inputs.len() {
            let reason =
                format!("{} inputs are given, the model has {}", inputs.len(), self.inputs.len());
            return Err(Diagnostic::error(codes::UNKNOWN_INPUT, "too many inputs are given")
                .because(reason)
                .remedy("give one tensor for each input, in the order of `inputs()`")
                .into());
        }
        self.inputs.iter().zip(inputs).try_for_each(|(port, input)| port.check(input))
    }

    /// The values of the symbols that follow from the inputs' shapes.
    fn symbols(&self, inputs: &[Tensor]) -> Result<BTreeMap<SymbolId, i64>> {
        let bound = eval::graph::bind_symbols(&self.front.imported, inputs).map_err(|fault| {
            Diagnostics::from(
                Diagnostic::error(fault.code, "the inputs' shapes do not fit the model")
                    .because(fault.message)
                    .at(if fault.place.is_empty() { "the inputs".to_owned() } else { fault.place })
                    .remedy("give inputs whose shapes agree with the model and with each other"),
            )
        })?;
        Ok(bound.iter().filter_map(|(symbol, value)| Some((symbol, (*value)?))).collect())
    }

    fn specialise(
        &self,
        input_shapes: Vec<Vec<usize>>,
        symbols: &BTreeMap<SymbolId, i64>,
    ) -> Result<Arc<Specialisation>> {
        let specialisation = Arc::new(Specialisation::new(Request {
            module: &self.front.module,
            function: &self.front.module.functions[self.front.main],
            symbols,
            role: Role::Main {
                inputs: self.inputs.len(),
                constants: self.setup.lowered.constants.offsets.clone(),
            },
            target: &self.target,
            options: &self.options,
            input_shapes,
        })?);
        let mut kept = self.specialisations.write().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == MOST_SPECIALISATIONS {
            kept.remove(0);
        }
        kept.push(specialisation.clone());
        Ok(specialisation)
    }

    /// The code that turned weights into constants.
    pub(crate) fn setup(&self) -> &Specialisation {
        &self.setup
    }

    /// The code for fixed inputs.
    ///
    /// # Errors
    /// `TW0205` if the inputs' shapes are free.
    pub(crate) fn only_specialisation(&self) -> Result<Arc<Specialisation>> {
        let kept = self.specialisations.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(first) = kept.first() {
            return Ok(first.clone());
        }
        let unbound = self.inputs.iter().filter_map(|port| port.random(0).err());
        Err(unbound.flatten().collect())
    }
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

/// The parameters, or the results, of a function as ports.
pub(crate) fn ports(function: &Function, parameters: bool) -> Vec<Port> {
    let (values, names) = if parameters {
        (function.parameters(), &function.parameter_names)
    } else {
        (function.results(), &function.result_names)
    };
    let extent = |expr: &sym::Expr| match expr.as_constant() {
        Some(extent) => PortExtent::Fixed(extent as usize),
        None => PortExtent::Symbolic(expr.display(&|id| function.symbol_name(id)).to_string()),
    };
    let port = |(&value, name): (&graph::ValueId, &String)| match function.ty(value) {
        Type::Tensor(ty) => Some(Port {
            name: name.clone(),
            dtype: ty.dtype,
            shape: ty.shape.iter().map(extent).collect(),
        }),
        _ => None,
    };
    values.iter().zip(names).filter_map(port).collect()
}
