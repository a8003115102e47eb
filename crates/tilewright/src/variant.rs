//! A model with all that its shapes depend on told, but for extents: what most models have one of.
//!
//! A model whose shapes depend on the value of an input, or that does not declare the rank of one,
//! has a variant for each value or rank it has met. A variant has one `setup` and one block of
//! constants, which the specialisations of its stages share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use backend::Target;
use base::{Diagnostic, Diagnostics, Result, codes};
use eval::graph::SymbolValues;
use graph_opt::Origin;
use import_onnx::Wanted;
use lower::{KernelStore, Role};
use runtime::{Block, State};
use sym::SymbolId;
use tensor::{Structure, Tensor};

use crate::pipeline::{Front, Outcome, Question, Told, front_or_ask};
use crate::port::ports;
use crate::source::{PartOf, Source};
use crate::specialisation::{Request, Specialisation};
use crate::{Options, Port, budget};

/// Bytes of weights that are given back to the system at once: to give back a page costs half of
/// what mapping it did, and a small model need not give back any.
const RELEASED_TOGETHER: usize = 8 << 20;

/// Bytes of intermediate results that are kept for specialisations other than the one that runs.
const MOST_KEPT_BYTES: usize = 256 << 20;

/// Specialisations that are kept for shapes seen before.
const MOST_SPECIALISATIONS: usize = 64;

/// Specialisations of a part of a model that are kept: what grows in a loop has a shape each turn.
const MOST_OF_A_PART: usize = 512;

/// What is common to the variants of a model.
#[derive(Clone, Copy)]
pub(crate) struct Model<'a> {
    pub(crate) source: &'a Source,
    pub(crate) options: &'a Options,
    pub(crate) target: &'a Target,
    pub(crate) threads: usize,
    /// Kernels of all its variants.
    pub(crate) store: &'a Arc<KernelStore>,
}

/// A model, compiled as far as free extents let it.
pub(crate) struct Variant {
    pub(crate) front: Front,
    /// How the inputs are made of tensors; empty if they all are tensors.
    structures: Vec<Structure>,
    /// What the variant is for: of the tensors of these numbers the shape, or the value.
    key: Vec<(usize, Fact)>,
    /// What `setup` computed.
    constants: Block,
    pub(crate) setup: Specialisation,
    /// Each with the fingerprint of what it is for: most others need not be looked at.
    specialisations: RwLock<Vec<(u64, Arc<Specialisation>)>>,
    /// How often a specialisation has been asked for.
    asked: AtomicU64,
    /// One compile at a time.
    compiling: Mutex<()>,
}

/// What a model is run with.
#[derive(Clone, Copy)]
pub(crate) struct Given<'a> {
    /// How each input is made of tensors; empty if they all are tensors.
    pub(crate) structures: &'a [Structure],
    /// The tensors, in order.
    pub(crate) tensors: &'a [Tensor],
}

/// What of a tensor a variant is for.
enum Fact {
    Shape(Vec<usize>),
    Value(Tensor),
}

/// A stage about to run: its code and its operands.
pub(crate) struct StageRun {
    pub(crate) specialisation: Arc<Specialisation>,
    pub(crate) operands: Vec<Tensor>,
}

/// What a model asks, or the variant that answers.
pub(crate) enum Made {
    Variant(Box<Variant>),
    Asks(Question),
}

impl Variant {
    /// Compiles what does not depend on free extents. `asked` says what to tell of which tensor,
    /// by its name; `given` is empty where nothing is.
    ///
    /// # Errors
    /// What is wrong with the model, or with the options.
    pub(crate) fn make(
        model: Model<'_>,
        asked: &BTreeMap<String, Wanted>,
        ports: &[Port],
        given: Given<'_>,
    ) -> Result<Made> {
        let mut told = Told::default();
        let mut key = Vec::new();
        for (port, structure) in ports.iter().zip(given.structures) {
            if *structure != Structure::Tensor {
                told.structures.insert(port.name.clone(), structure.clone());
            }
        }
        let names = tensor_names(ports, given.structures);
        for (number, (name, input)) in names.iter().zip(given.tensors).enumerate() {
            let Some(wanted) = asked.get(name) else { continue };
            let shape = input.shape().iter().map(|&extent| extent as i64).collect();
            told.shapes.insert(name.clone(), shape);
            key.push((
                number,
                match wanted {
                    Wanted::Value | Wanted::Contents => {
                        told.values.insert(name.clone(), input.clone());
                        Fact::Value(input.clone())
                    }
                    Wanted::Shape | Wanted::Structure => Fact::Shape(input.shape().to_vec()),
                },
            ));
        }
        let front = match front_or_ask(model.source, model.options, model.target, &told)? {
            Outcome::Front(front) => *front,
            Outcome::Asks(question) => return Ok(Made::Asks(question)),
        };
        let setup_symbols = BTreeMap::new();
        let setup = Specialisation::new(Request {
            module: &front.module,
            function: &front.module.functions[front.setup],
            symbols: &setup_symbols,
            role: Role::Setup,
            target: model.target,
            options: model.options,
            given: None,
            store: (!key.is_empty()).then_some(model.store),
        })?;
        let mut constants = Block::zeroed(setup.executable.constant_bytes())?;
        let run_setup = |state: &mut State| {
            let mut call = state.call();
            for &id in setup.executable.weights() {
                call.weight(id, setup.weight(id).bytes())?;
            }
            call.constants_to_fill(constants.bytes_mut())?;
            // What has been packed is not read again: the file need not stay in memory beside it.
            let (mut waiting, mut waiting_bytes) = (Vec::new(), 0);
            call.run_releasing(&mut |id| {
                waiting.push(id);
                waiting_bytes += setup.weight(id).bytes().len();
                if waiting_bytes >= RELEASED_TOGETHER {
                    let release = |id| tensor::mapped::release(setup.weight(id).bytes());
                    waiting.drain(..).for_each(release);
                    waiting_bytes = 0;
                }
            })
        };
        let phases = &model.options.phases;
        phases.time("run of setup", || setup.once(model.threads, run_setup))?;
        Ok(Made::Variant(Box::new(Variant {
            front,
            structures: given.structures.to_vec(),
            key,
            constants,
            setup,
            specialisations: RwLock::new(Vec::with_capacity(MOST_SPECIALISATIONS)),
            asked: AtomicU64::new(0),
            compiling: Mutex::new(()),
        })))
    }

    /// Whether the variant is for such inputs.
    pub(crate) fn is_for(&self, given: Given<'_>) -> bool {
        let fits = |(number, fact): &(usize, Fact)| {
            let Some(input) = given.tensors.get(*number) else { return false };
            match fact {
                Fact::Shape(shape) => input.shape() == shape,
                Fact::Value(value) if base::fault::is_seeded("driver.variant") => {
                    input.shape() == value.shape()
                }
                Fact::Value(value) => input.shape() == value.shape() && same_elements(input, value),
            }
        };
        self.structures == given.structures && self.key.iter().all(fits)
    }

    /// Whether inputs of these shapes fit what has been compiled.
    ///
    /// # Errors
    /// How they contradict it, or each other.
    pub(crate) fn check(&self, inputs: &[Tensor]) -> Result<()> {
        match self.find(0, &[], inputs) {
            Some(_) => Ok(()),
            None => self.symbols(inputs).map(|_| ()),
        }
    }

    /// Whether all of the model runs at once, without sizes that are computed on the way.
    pub(crate) fn is_one_stage(&self) -> bool {
        self.front.stages.len() == 1
    }

    /// Whether there may be other specialisations of the model: of other shapes or stages, or for
    /// other values.
    fn is_one_of_many(&self) -> bool {
        let parameters = ports(&self.front.imported, true);
        !self.key.is_empty()
            || !self.is_one_stage()
            || parameters.iter().any(|port| port.fixed_shape().is_none())
    }

    /// Specialisations made so far.
    pub(crate) fn kept(&self) -> Vec<Arc<Specialisation>> {
        let kept = self.specialisations.read().unwrap_or_else(PoisonError::into_inner);
        kept.iter().map(|(_, specialisation)| specialisation.clone()).collect()
    }

    /// Bytes of the block of constants.
    pub(crate) fn constant_bytes(&self) -> usize {
        self.constants.len()
    }

    /// The code of the only stage for inputs of these shapes; compiled now where they are new.
    ///
    /// # Errors
    /// Inputs that do not fit the model; diagnostics of the compile.
    pub(crate) fn specialisation(
        &self,
        model: Model<'_>,
        inputs: &[Tensor],
    ) -> Result<Arc<Specialisation>> {
        if let Some(found) = self.find(0, &[], inputs) {
            return Ok(found);
        }
        let symbols = bound(&self.symbols(inputs)?);
        let shapes = inputs.iter().map(|input| input.shape().to_vec()).collect();
        self.specialise(model, 0, &[], shapes, &symbols)
    }

    /// The code for inputs of fixed shapes.
    ///
    /// # Errors
    /// Diagnostics of the compile.
    pub(crate) fn specialise_fixed(&self, model: Model<'_>, shapes: Vec<Vec<usize>>) -> Result<()> {
        self.specialise(model, 0, &[], shapes, &BTreeMap::new()).map(|_| ())
    }

    /// Runs all stages but the last; returns each run with its operands, the last about to be.
    ///
    /// # Errors
    /// Inputs that do not fit the model; diagnostics of the compile; faults while running.
    pub(crate) fn run_stages(&self, model: Model<'_>, inputs: &[Tensor]) -> Result<Vec<StageRun>> {
        let mut symbols = self.symbols(inputs)?;
        let mut sizes = Vec::new();
        let mut kept: Vec<Tensor> = Vec::new();
        let mut runs = Vec::new();
        for (number, stage) in self.front.stages.iter().enumerate() {
            let specialisation = match self.find(number, &sizes, inputs) {
                Some(found) => found,
                None => {
                    let shapes = inputs.iter().map(|input| input.shape().to_vec()).collect();
                    self.specialise(model, number, &sizes, shapes, &bound(&symbols))?
                }
            };
            let value = |origin: &Origin| match *origin {
                Origin::Parameter(number) => inputs.get(number).cloned(),
                Origin::Kept(number) => Some(kept[number].clone()),
            };
            let operands: Vec<Tensor> = stage.parameters.iter().filter_map(value).collect();
            if number + 1 < self.front.stages.len() {
                let mut results = specialisation.new_outputs()?;
                self.run(model, &specialisation, &operands, &mut results)?;
                kept.append(&mut results);
            }
            runs.push(StageRun { specialisation, operands });
            for (symbol, origin) in &stage.binds {
                let size = match *origin {
                    Origin::Parameter(number) => match inputs.get(number) {
                        Some(input) => input.get_scalar(0).as_i64(),
                        None => self.constant_size(number - inputs.len()),
                    },
                    Origin::Kept(number) => kept[number].get_scalar(0).as_i64(),
                };
                self.check_size(*symbol, size)?;
                symbols[*symbol] = Some(size);
                sizes.push(size);
            }
            let assumed = eval::graph::check_assumptions(&self.front.imported, &symbols);
            assumed.map_err(|fault| Diagnostics::from(Diagnostic::from(fault)))?;
        }
        Ok(runs)
    }

    /// Bytes of what `setup` computed.
    pub(crate) fn constant(&self, offset: usize, bytes: usize) -> Option<&[u8]> {
        self.constants.bytes().get(offset..)?.get(..bytes)
    }

    /// A size that `setup` computed.
    fn constant_size(&self, number: usize) -> i64 {
        let offset = self.setup.lowered.constants.offsets[number] as usize;
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.constants.bytes()[offset..][..8]);
        i64::from_ne_bytes(bytes)
    }

    fn check_size(&self, symbol: SymbolId, size: i64) -> Result<()> {
        let function = &self.front.module.functions[self.front.main];
        let range = function.symbols[symbol].range;
        if range.contains(size) {
            return Ok(());
        }
        let name = function.symbol_name(symbol);
        Err(Diagnostic::error(codes::SYMBOL_OUT_OF_RANGE, format!("the size `{name}` is {size}"))
            .because(format!("it is computed from data, and must be in {range}"))
            .remedy("check the inputs, or export the model with larger bounds")
            .into())
    }

    /// Runs a specialisation with outputs of its types.
    ///
    /// # Errors
    /// Faults while running.
    pub(crate) fn run(
        &self,
        model: Model<'_>,
        specialisation: &Specialisation,
        operands: &[Tensor],
        outputs: &mut [Tensor],
    ) -> Result<()> {
        if !specialisation.has_memory() {
            self.release_beyond(MOST_KEPT_BYTES);
        }
        let run = |state: &mut State| self.call(specialisation, state, operands, outputs)?.run();
        specialisation
            .with_state(model.threads, run)
            .map_err(|found| found.map(|fault| specialisation.blame(fault)))
    }

    /// Gives back memory of the specialisations that have not been used for longest, so that no
    /// more than so many bytes are kept.
    fn release_beyond(&self, most: usize) {
        let mut kept = self.kept();
        kept.sort_by_key(|it| std::cmp::Reverse(it.last_use.load(Ordering::Relaxed)));
        let mut bytes = 0;
        for specialisation in kept {
            bytes += specialisation.kept_bytes();
            if bytes > most {
                specialisation.release();
            }
        }
    }

    /// A run with all memory given.
    ///
    /// # Errors
    /// Memory of the wrong size, which the callers of this have excluded.
    pub(crate) fn call<'a>(
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
        for &id in specialisation.executable.weights() {
            call.weight(id, specialisation.weight(id).bytes())?;
        }
        call.constants(self.constants.bytes())?;
        Ok(call)
    }

    fn find(&self, stage: usize, sizes: &[i64], inputs: &[Tensor]) -> Option<Arc<Specialisation>> {
        let wanted = fingerprint(stage, sizes, inputs.iter().map(Tensor::shape));
        let seen = |(fingerprint, specialisation): &&(u64, Arc<Specialisation>)| {
            let For { stage: of, sizes: with, shapes } = &specialisation.made_for;
            *fingerprint == wanted
                && *of == stage
                && with == sizes
                && shapes.iter().zip(inputs).all(|(shape, input)| shape == input.shape())
        };
        let kept = self.specialisations.read().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().find(seen)?.1.clone();
        found.last_use.store(self.asked.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        Some(found)
    }

    /// The values of the symbols that follow from the inputs' shapes.
    fn symbols(&self, inputs: &[Tensor]) -> Result<SymbolValues> {
        eval::graph::bind_symbols(&self.front.imported, inputs).map_err(|fault| {
            Diagnostics::from(
                Diagnostic::error(fault.code, "the inputs' shapes do not fit the model")
                    .because(fault.message)
                    .at(if fault.place.is_empty() { "the inputs".to_owned() } else { fault.place })
                    .remedy("give inputs whose shapes agree with the model and with each other"),
            )
        })
    }

    fn specialise(
        &self,
        model: Model<'_>,
        number: usize,
        sizes: &[i64],
        shapes: Vec<Vec<usize>>,
        symbols: &BTreeMap<SymbolId, i64>,
    ) -> Result<Arc<Specialisation>> {
        let _one = self.compiling.lock().unwrap_or_else(PoisonError::into_inner);
        let made_for = For { stage: number, sizes: sizes.to_vec(), shapes };
        let same = |other: &&Arc<Specialisation>| other.made_for == made_for;
        if let Some(found) = self.kept().iter().find(same) {
            return Ok(found.clone());
        }
        let given = match model.source {
            Source::Part(_, _, PartOf { whole, .. }) => {
                whole.count_compiled();
                whole.given_bytes()
            }
            _ => budget::input_bytes(&self.front.imported, &made_for.shapes),
        };
        let given = given.saturating_add(budget::constant_bytes(&self.front.module));
        let (role, stage) = (self.role(number), &self.front.stages[number]);
        let mut specialisation = Specialisation::new(Request {
            module: &self.front.module,
            function: &stage.function,
            symbols,
            role,
            target: model.target,
            options: model.options,
            given: Some(given),
            store: self.is_one_of_many().then_some(model.store),
        })?;
        specialisation.made_for = made_for;
        specialisation.last_use = self.asked.fetch_add(1, Ordering::Relaxed).into();
        let specialisation = Arc::new(specialisation);
        let mut kept = self.specialisations.write().unwrap_or_else(PoisonError::into_inner);
        let most = match model.source {
            Source::Part(..) => MOST_OF_A_PART,
            _ => MOST_SPECIALISATIONS,
        };
        if kept.len() == most {
            // The one that has not been used for longest.
            let last_use = |at: &usize| kept[*at].1.last_use.load(Ordering::Relaxed);
            let oldest = (0..kept.len()).min_by_key(last_use).unwrap_or(0);
            kept.remove(oldest);
        }
        let For { stage, sizes, shapes } = &specialisation.made_for;
        let shapes = shapes.iter().map(Vec::as_slice);
        kept.push((fingerprint(*stage, sizes, shapes), specialisation.clone()));
        Ok(specialisation)
    }

    /// What a stage's function is: its parameters are operands, then constants.
    fn role(&self, number: usize) -> Role {
        let user = self.front.imported.parameters().len();
        let parameters = &self.front.stages[number].parameters;
        let mut offsets = self.setup.lowered.constants.offsets.clone();
        if base::fault::is_seeded("driver.constants") {
            offsets.reverse();
        }
        let constant = |origin: &Origin| match *origin {
            Origin::Parameter(number) => number.checked_sub(user),
            Origin::Kept(_) => None,
        };
        let constants: Vec<u64> =
            parameters.iter().filter_map(constant).map(|number| offsets[number]).collect();
        Role::Main { inputs: parameters.len() - constants.len(), constants }
    }
}

/// What a specialisation is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct For {
    /// Which stage of `main`.
    pub(crate) stage: usize,
    /// Sizes computed by earlier stages.
    pub(crate) sizes: Vec<i64>,
    /// Shapes of the user's inputs.
    pub(crate) shapes: Vec<Vec<usize>>,
}

/// A number that tells most things apart that a specialisation may be for.
fn fingerprint<'a>(stage: usize, sizes: &[i64], shapes: impl Iterator<Item = &'a [usize]>) -> u64 {
    // The odd number nearest to 2^64 over the golden ratio, as of Fibonacci hashing.
    let mix = |all: u64, one: u64| (all ^ one).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    let sizes = sizes.iter().map(|&size| size as u64);
    let extents = shapes.flat_map(|shape| shape.iter().map(|&extent| extent as u64));
    std::iter::once(stage as u64).chain(sizes).chain(extents).fold(0, mix)
}

/// The names of the tensors that inputs are made of.
pub(crate) fn tensor_names(ports: &[Port], structures: &[Structure]) -> Vec<String> {
    if structures.is_empty() {
        return ports.iter().map(|port| port.name.clone()).collect();
    }
    ports.iter().zip(structures).flat_map(|(port, structure)| structure.names(&port.name)).collect()
}

/// The values of those symbols that have one.
pub(crate) fn bound(symbols: &SymbolValues) -> BTreeMap<SymbolId, i64> {
    symbols.iter().filter_map(|(symbol, value)| Some((symbol, (*value)?))).collect()
}

/// Whether two tensors of one shape and type hold the same bits.
fn same_elements(a: &Tensor, b: &Tensor) -> bool {
    match (a.strings(), b.strings()) {
        (Some(a), Some(b)) => a == b,
        _ => a.bytes() == b.bytes(),
    }
}
