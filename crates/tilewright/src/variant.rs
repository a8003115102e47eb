//! A model with all that its shapes depend on told, but for extents: what most models have one of.
//!
//! A model whose shapes depend on the value of an input, or that does not declare the rank of one,
//! has a variant for each value or rank it has met. A variant has one `setup` and one block of
//! constants, which the specialisations of its stages share.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use backend::Target;
use base::{Diagnostic, Diagnostics, Result, codes};
use eval::graph::SymbolValues;
use graph_opt::Origin;
use import_onnx::Wanted;
use lower::Role;
use runtime::{Block, State};
use sym::SymbolId;
use tensor::Tensor;

use crate::pipeline::{Front, Outcome, Told, front_or_ask};
use crate::specialisation::{Request, Specialisation};
use crate::{Options, Port};

/// Specialisations that are kept for shapes seen before.
const MOST_SPECIALISATIONS: usize = 64;

/// The most elements of an input that a variant is made for.
const MOST_ELEMENTS: usize = 1024;

/// What is common to the variants of a model.
#[derive(Clone, Copy)]
pub(crate) struct Model<'a> {
    pub(crate) path: &'a Path,
    pub(crate) options: &'a Options,
    pub(crate) target: &'a Target,
    pub(crate) threads: usize,
}

/// A model, compiled as far as free extents let it.
pub(crate) struct Variant {
    pub(crate) front: Front,
    /// What the variant is for: of the inputs of these numbers the shape, or the value.
    key: Vec<(usize, Given)>,
    /// What `setup` computed.
    constants: Block,
    pub(crate) setup: Specialisation,
    specialisations: RwLock<Vec<Arc<Specialisation>>>,
    /// One compile at a time.
    compiling: Mutex<()>,
}

/// What of an input a variant is for.
enum Given {
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
    Asks(BTreeMap<String, Wanted>, Diagnostics),
}

impl Variant {
    /// Compiles what does not depend on free extents. `asked` says what to tell of which input;
    /// `inputs` are empty where nothing is.
    ///
    /// # Errors
    /// What is wrong with the model, or with the options.
    pub(crate) fn make(
        model: Model<'_>,
        asked: &BTreeMap<usize, Wanted>,
        ports: &[Port],
        inputs: &[Tensor],
    ) -> Result<Made> {
        let mut told = Told::default();
        let mut key = Vec::new();
        for (&number, wanted) in asked {
            let (name, input) = (&ports[number].name, &inputs[number]);
            let shape = input.shape().iter().map(|&extent| extent as i64).collect();
            told.shapes.insert(name.clone(), shape);
            key.push((
                number,
                match wanted {
                    Wanted::Shape => Given::Shape(input.shape().to_vec()),
                    Wanted::Value => {
                        told.values.insert(name.clone(), input.clone());
                        Given::Value(input.clone())
                    }
                },
            ));
        }
        let front = match front_or_ask(model.path, model.options, model.target, &told)? {
            Outcome::Front(front) => *front,
            Outcome::Asks(inputs, reason) => return Ok(Made::Asks(inputs, reason)),
        };
        let setup_symbols = BTreeMap::new();
        let setup = Specialisation::new(Request {
            module: &front.module,
            function: &front.module.functions[front.setup],
            symbols: &setup_symbols,
            role: Role::Setup,
            target: model.target,
            options: model.options,
        })?;
        let mut constants = Block::zeroed(setup.executable.constant_bytes())?;
        setup.with_state(model.threads, |state| {
            let mut call = state.call();
            for &id in setup.executable.weights() {
                call.weight(id, setup.weight(id).bytes())?;
            }
            call.constants_to_fill(constants.bytes_mut())?;
            // What has been packed is not read again: the file need not stay in memory beside it.
            call.run_releasing(&mut |id| tensor::mapped::release(setup.weight(id).bytes()))
        })?;
        Ok(Made::Variant(Box::new(Variant {
            front,
            key,
            constants,
            setup,
            specialisations: RwLock::new(Vec::with_capacity(MOST_SPECIALISATIONS)),
            compiling: Mutex::new(()),
        })))
    }

    /// Whether the variant is for such inputs.
    pub(crate) fn is_for(&self, inputs: &[Tensor]) -> bool {
        self.key.iter().all(|(number, given)| match given {
            Given::Shape(shape) => inputs[*number].shape() == shape,
            Given::Value(value) => {
                let input = &inputs[*number];
                input.shape() == value.shape() && same_elements(input, value)
            }
        })
    }

    /// Whether all of the model runs at once, without sizes that are computed on the way.
    pub(crate) fn is_one_stage(&self) -> bool {
        self.front.stages.len() == 1
    }

    /// Specialisations made so far.
    pub(crate) fn kept(&self) -> Vec<Arc<Specialisation>> {
        self.specialisations.read().unwrap_or_else(PoisonError::into_inner).clone()
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
                let mut results = specialisation.new_outputs();
                self.run(model, &specialisation, &operands, &mut results)?;
                kept.append(&mut results);
            }
            runs.push(StageRun { specialisation, operands });
            for (symbol, origin) in &stage.binds {
                let size = match *origin {
                    Origin::Parameter(number) => inputs[number].get_scalar(0).as_i64(),
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
        let run = |state: &mut State| self.call(specialisation, state, operands, outputs)?.run();
        specialisation
            .with_state(model.threads, run)
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
        let seen = |specialisation: &&Arc<Specialisation>| {
            let For { stage: of, sizes: with, shapes } = &specialisation.made_for;
            *of == stage
                && with == sizes
                && shapes.iter().zip(inputs).all(|(shape, input)| shape == input.shape())
        };
        let kept = self.specialisations.read().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(seen).cloned()
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
        let (role, stage) = (self.role(number), &self.front.stages[number]);
        let mut specialisation = Specialisation::new(Request {
            module: &self.front.module,
            function: &stage.function,
            symbols,
            role,
            target: model.target,
            options: model.options,
        })?;
        specialisation.made_for = made_for;
        let specialisation = Arc::new(specialisation);
        let mut kept = self.specialisations.write().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == MOST_SPECIALISATIONS {
            kept.remove(0);
        }
        kept.push(specialisation.clone());
        Ok(specialisation)
    }

    /// What a stage's function is: its parameters are operands, then constants.
    fn role(&self, number: usize) -> Role {
        let user = self.front.imported.parameters().len();
        let parameters = &self.front.stages[number].parameters;
        let offsets = &self.setup.lowered.constants.offsets;
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

/// Refuses to be told of an input that is large, or not a tensor of numbers.
///
/// # Errors
/// The reason why the value must be known.
pub(crate) fn check_tellable(
    port: &Port,
    input: Option<&Tensor>,
    reason: &Diagnostics,
) -> Result<()> {
    let declared = port.fixed_shape().map(|shape| shape.iter().product::<usize>());
    let elements = input.map(Tensor::len).or(declared);
    match elements {
        Some(elements) if elements > MOST_ELEMENTS => Err(reason.clone()),
        _ => Ok(()),
    }
}

fn bound(symbols: &SymbolValues) -> BTreeMap<SymbolId, i64> {
    symbols.iter().filter_map(|(symbol, value)| Some((symbol, (*value)?))).collect()
}

/// Whether two tensors of one shape and type hold the same bits.
fn same_elements(a: &Tensor, b: &Tensor) -> bool {
    match (a.strings(), b.strings()) {
        (Some(a), Some(b)) => a == b,
        _ => a.bytes() == b.bytes(),
    }
}
