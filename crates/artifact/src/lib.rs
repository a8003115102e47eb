//! Compiled models as files with nothing behind them: objects, static and shared libraries, headers.
//!
//! An artifact holds the machine code of a model's kernels as it is in a process that compiled it,
//! and its programs and plan as machine code, too: nothing interprets, nothing is allocated, no
//! symbol is undefined. Its callers give all memory.
//!
//! - `words`, `steps`, `entry`: programs as procedures (`backend::procedure`), and what callers call;
//! - `image`: code, data and symbols, whatever the file;
//! - `elf`: shared libraries, written without a linker;
//! - `digest`: what tells contents apart.
//!
//! The bytes depend on the model, the options and the version alone.

mod digest;
mod elf;
mod entry;
mod image;
mod steps;
mod words;

use std::collections::BTreeMap;
use std::io::{self, Write};

use backend::procedure::{Procedure, parse_procedures};
use backend_c::{Interface, Weights};
use backend_x64::{LinkableCode, compile_procedure};
use base::codes::INTERNAL_ERROR;
use base::{ConstantId, Diagnostic, Diagnostics, Id, KernelId};
use program::Place;
use sym::Expr;

pub use digest::Digest;
pub use steps::ProgramCode;

use entry::{Bases, entry};
use image::{Data, Image};
use steps::{Surroundings, procedure_of};

/// What artifacts of all models share.
const COMMON: &str = include_str!("common.procedures");

/// A compiled model.
#[derive(Clone, Debug)]
pub struct ModelCode<'a> {
    /// Its name, inputs and outputs.
    pub interface: &'a Interface,
    /// What makes the block of constants.
    pub setup: ProgramCode<'a>,
    /// What runs.
    pub main: ProgramCode<'a>,
    /// How often the loops that data end turn in one run, all together, before it stops.
    pub most_turns: u64,
    /// Whether weights lie in the artifact; else its callers give them.
    pub has_weights: bool,
}

/// How much memory a model's callers give.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelSizes {
    /// Of the weights.
    pub weights: u64,
    /// Of the block of constants.
    pub constants: u64,
    /// Of the arena while it is set up, for one worker.
    pub setup_arena: u64,
    /// Of the arena while it runs, for one worker.
    pub arena: u64,
    /// What each further worker takes.
    pub worker: u64,
}

/// A model in an artifact.
#[derive(Clone, Debug)]
pub struct ArtifactModel {
    /// Its name as an identifier: what its symbols begin with.
    pub name: String,
    /// What its callers see.
    pub interface: Interface,
    /// The memory that it takes.
    pub sizes: ModelSizes,
    /// The weights that its callers give.
    pub weights: Weights,
    /// Whether weights lie in the artifact.
    pub has_weights: bool,
}

/// Models as code and data, of which files are made.
#[derive(Clone, Debug)]
pub struct Artifact {
    image: Image,
    /// Places in the code where distances to data belong.
    references: Vec<(usize, usize)>,
    /// The models in it, in order.
    pub models: Vec<ArtifactModel>,
}

impl Artifact {
    /// Puts models together, whose names differ.
    ///
    /// # Errors
    /// Internal errors where a program is not what its verifier accepts.
    pub fn new(models: &[ModelCode<'_>]) -> base::Result<Artifact> {
        let mut builder = Builder { image: Image::default(), by_content: BTreeMap::new() };
        for procedure in parse_procedures(COMMON)? {
            builder.procedure(&procedure)?;
        }
        let models = models
            .iter()
            .map(|model| builder.model(model))
            .collect::<base::Result<Vec<ArtifactModel>>>()?;
        let mut image = builder.image;
        let references = image.linked()?;
        Ok(Artifact { image, references, models })
    }

    /// A digest of all code and data.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.image.digest()
    }

    /// Bytes of the code.
    #[must_use]
    pub fn code_bytes(&self) -> usize {
        self.image.code.len()
    }

    /// Writes a shared library; programs that are linked with it ask for `name`.
    ///
    /// # Errors
    /// Those of the writer; an error of the kind `FileTooLarge` where code and data are too large
    /// for one.
    pub fn write_shared_library(&self, name: &str, file: &mut dyn Write) -> io::Result<()> {
        let library = elf::SharedLibrary::new(&self.image, &self.references, name);
        let library = library.map_err(|bytes| {
            let message = format!("code and data of {bytes} bytes are too far apart");
            io::Error::new(io::ErrorKind::FileTooLarge, message)
        })?;
        library.write(file)
    }
}

/// An artifact while it is put together.
struct Builder {
    image: Image,
    /// Symbols of the kernels that are there, by their code.
    by_content: BTreeMap<Vec<u8>, String>,
}

impl Builder {
    fn procedure(&mut self, procedure: &Procedure) -> base::Result<()> {
        let code = compile_procedure(procedure)?;
        self.image.add_code(&procedure.name, code, procedure.is_exported);
        Ok(())
    }

    /// A name that nothing has yet: this one, or one with a number behind.
    fn fresh(&self, name: String) -> String {
        let mut taken = name.clone();
        let mut number = 2;
        while self.image.has(&taken) {
            taken = format!("{name}.{number}");
            number += 1;
        }
        taken
    }

    fn model(&mut self, model: &ModelCode<'_>) -> base::Result<ArtifactModel> {
        let name = backend_c::identifier(&model.interface.name);
        let mut weights = Weights::default();
        let setup = self.program(&format!("{name}.setup"), model.setup, &mut weights, model)?;
        let main = self.program(&format!("{name}.main"), model.main, &mut weights, model)?;
        let constants = constants_bytes(model.setup)?.max(constants_bytes(model.main)?);
        let mut bases = Bases { weights: None, constants: None };
        if model.has_weights {
            let symbol = format!("{name}.weights");
            self.image.add_data(&symbol, Data::Weights(weights.clone()), false);
            bases.weights = Some(symbol);
        }
        let mut values = Vec::new();
        for (number, port) in model.interface.inputs.iter().enumerate() {
            let value = port.value.as_ref().filter(|value| !value.is_empty());
            values.push(value.map(|value| {
                let symbol = format!("{name}.value{number}");
                self.image.add_data(&symbol, Data::Bytes(value.bytes().to_vec()), false);
                symbol
            }));
        }
        let sizes = |code: ProgramCode<'_>| -> base::Result<[u64; 2]> {
            Ok([known(code, &code.program().arena_bytes)?, code.worker_bytes()])
        };
        let (of_setup, of_main) = (sizes(model.setup)?, sizes(model.main)?);
        let none = Interface { name: name.clone(), inputs: Vec::new(), outputs: Vec::new() };
        self.procedure(&entry(format!("{name}_setup"), &setup, of_setup, &bases, &none, &[]))?;
        let run = format!("{name}_run");
        self.procedure(&entry(run, &main, of_main, &bases, model.interface, &values))?;
        let whole = |[arena, worker]: [u64; 2]| arena.next_multiple_of(64) + worker;
        let sizes = ModelSizes {
            weights: weights.bytes(),
            constants,
            setup_arena: whole(of_setup),
            arena: whole(of_main),
            worker: of_setup[1].max(of_main[1]),
        };
        let (interface, has_weights) = (model.interface.clone(), model.has_weights);
        Ok(ArtifactModel { name, interface, sizes, weights, has_weights })
    }

    /// A program as code; its symbol.
    fn program(
        &mut self,
        name: &str,
        code: ProgramCode<'_>,
        weights: &mut Weights,
        model: &ModelCode<'_>,
    ) -> base::Result<String> {
        let mut offsets: BTreeMap<ConstantId, u64> = BTreeMap::new();
        for slot in code.program().slots.values() {
            if let Place::Weight(id) = slot.place {
                offsets.insert(id, weights.offset(&code.module.constants[id].tensor));
            }
        }
        let mut kernels: BTreeMap<KernelId, String> = BTreeMap::new();
        for id in code.program().kernels() {
            let Some(machine) = code.kernels.get(&id) else { continue };
            let symbol = match self.by_content.get(&machine.bytes) {
                Some(symbol) => symbol.clone(),
                None => {
                    let prefix = backend_c::identifier(&model.interface.name);
                    let own = &code.module.kernels[id].name;
                    let symbol = self.fresh(format!("{prefix}.{own}"));
                    let code =
                        LinkableCode { bytes: machine.bytes.clone(), references: Vec::new() };
                    self.image.add_code(&symbol, code, false);
                    self.by_content.insert(machine.bytes.clone(), symbol.clone());
                    symbol
                }
            };
            kernels.insert(id, symbol);
        }
        let most_turns = model.most_turns;
        let around = Surroundings { kernels: &kernels, weights: &offsets, most_turns };
        let name = self.fresh(name.to_owned());
        self.procedure(&procedure_of(name.clone(), code, &around)?)?;
        Ok(name)
    }
}

/// The bytes of the block of constants that a program touches.
fn constants_bytes(code: ProgramCode<'_>) -> base::Result<u64> {
    let mut most = 0;
    for slot in code.program().slots.values() {
        if let Place::Constants(offset) = &slot.place {
            most = most.max(known(code, offset)? + known(code, &slot.bytes)?);
        }
    }
    Ok(most)
}

/// A size or offset, which must be known.
fn known(code: ProgramCode<'_>, expr: &Expr) -> base::Result<u64> {
    let value = expr.as_constant().and_then(|value| u64::try_from(value).ok());
    value.ok_or_else(|| {
        let text = program::print_expression(code.program(), expr);
        Diagnostics::from(
            Diagnostic::error(INTERNAL_ERROR, format!("the size {text} is not known"))
                .at(format!("program `{}`", code.program().name)),
        )
    })
}
