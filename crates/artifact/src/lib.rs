//! Compiled models as files with nothing behind them: objects, static and shared libraries, and
//! their headers.
//!
//! An artifact holds the machine code of a model's kernels as it is in a process that compiled it,
//! and its programs and plan as machine code, too: nothing interprets, nothing is allocated, no
//! symbol is undefined. Its callers give all memory.
//!
//! - `words`, `steps`, `entry`: programs as procedures (`backend::procedure`), what callers call;
//! - `plan`: plans as procedures;
//! - `image`: code, data and symbols, whatever the file;
//! - `elf`, `elf_object`: shared libraries, written without a linker; objects, static libraries;
//! - `macho_object`, `coff_object`: objects for other systems; `object`: what all have;
//! - `header`, `bindings`: what people include: C, Python, Rust;
//! - `digest`: what tells contents apart.
//!
//! The bytes depend on the model, the options and the version alone.

mod bindings;
mod coff_object;
mod digest;
mod elf;
mod elf_object;
mod entry;
mod header;
mod image;
mod macho_object;
mod object;
mod plan;
mod steps;
mod words;

use std::collections::BTreeMap;
use std::io::{self, Write};

use backend::procedure::{Procedure, parse_procedures};
use backend_c::{Interface, Weights};
use backend_x64::{LinkableCode, compile_procedure};
use base::codes::INTERNAL_ERROR;
use base::{ConstantId, Diagnostic, Diagnostics, KernelId};
use program::Place;
use sym::Expr;

pub use digest::Digest;
pub use plan::{PlanCode, PlanPorts, SegmentCode};
pub use steps::ProgramCode;

use entry::{Bases, entry};
use image::{Data, Image};
use object::ObjectFile;
use plan::plan_entry;
use steps::{Surroundings, moves_of, procedure_of};

/// The operating system whose linker takes an object: decides the kind of file, not the code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OperatingSystem {
    /// Linux and others with files of ELF.
    #[default]
    Linux,
    /// macOS: Mach-O.
    MacOs,
    /// Windows: COFF.
    Windows,
}

impl OperatingSystem {
    /// What the names of its objects end with, behind the dot.
    #[must_use]
    pub fn object_extension(self) -> &'static str {
        match self {
            OperatingSystem::Linux | OperatingSystem::MacOs => "o",
            OperatingSystem::Windows => "obj",
        }
    }
}

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
    pub main: MainCode<'a>,
    /// The block of constants, where it has been made: it lies in the artifact then.
    pub constants: Option<&'a [u8]>,
    /// How often the loops that data end turn in one run, all together, before it stops.
    pub most_turns: u64,
    /// Whether weights lie in the artifact; else its callers give them.
    pub has_weights: bool,
    /// The target that the code is for.
    pub target: &'a str,
}

/// What of a model runs each time.
#[derive(Clone, Debug)]
pub enum MainCode<'a> {
    /// A program of known sizes.
    Program(ProgramCode<'a>),
    /// A plan, which divides the memory that its callers give.
    Plan(PlanCode<'a>),
}

impl<'a> MainCode<'a> {
    fn programs(&self) -> Vec<ProgramCode<'a>> {
        match self {
            MainCode::Program(code) => vec![*code],
            MainCode::Plan(plan) => plan.segments.values().map(|segment| segment.code).collect(),
        }
    }
}

/// How much memory a model's callers give.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelSizes {
    /// Of the weights that lie in no artifact.
    pub weights: u64,
    /// Of the block of constants that lies in no artifact.
    pub constants: u64,
    /// Of the arena while it is set up, for one worker.
    pub setup_arena: u64,
    /// Of the arena while it runs, for one worker; a plan takes any, and as much as it needs.
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
    /// The weights that its callers give, or that lie in the artifact.
    pub weights: Weights,
    /// Whether weights lie in the artifact.
    pub has_weights: bool,
    /// Whether the block of constants lies in the artifact, so that nothing is set up.
    pub has_constants: bool,
    /// What callers see of a plan, if it is one.
    pub plan: Option<PlanPorts>,
    /// The target that code is for.
    pub target: String,
    /// The digest of the code and data of the artifact, as text.
    pub hash: String,
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
        let has_plans = models.iter().any(|model| matches!(model.main, MainCode::Plan(_)));
        let of_plans = if has_plans { plan::procedures() } else { String::new() };
        for procedure in parse_procedures(&format!("{COMMON}{of_plans}"))? {
            builder.procedure(&procedure)?;
        }
        let mut models = models
            .iter()
            .map(|model| builder.model(model))
            .collect::<base::Result<Vec<ArtifactModel>>>()?;
        let mut image = builder.image;
        let references = image.linked()?;
        let hash = image.digest().to_string();
        models.iter_mut().for_each(|model| model.hash.clone_from(&hash));
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
        library.map_err(too_far)?.write(file)
    }

    /// Writes an object for the linker of a system.
    ///
    /// # Errors
    /// Those of the writer; an error of the kind `FileTooLarge` where code and data are too large
    /// for such a file.
    pub fn write_object(&self, system: OperatingSystem, file: &mut dyn Write) -> io::Result<()> {
        let (image, references) = (&self.image, &self.references[..]);
        match system {
            OperatingSystem::Linux => Ok(ObjectFile::of_elf(image, references)),
            OperatingSystem::MacOs => macho_object::macho_object(image, references),
            OperatingSystem::Windows => coff_object::coff_object(image, references),
        }
        .map_err(too_far)?
        .write(file)
    }

    /// Writes a static library, whose only member is the object.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write_static_library(&self, file: &mut dyn Write) -> io::Result<()> {
        let object = ObjectFile::of_elf(&self.image, &self.references);
        object.write_static_library("model.o", file)
    }

    /// The header of a model, for C and C++.
    #[must_use]
    pub fn header(&self, model: &ArtifactModel) -> String {
        header::header(model)
    }

    /// A module of Python that loads the shared library of this name, which lies beside it.
    #[must_use]
    pub fn python_module(&self, model: &ArtifactModel, library: &str) -> String {
        bindings::python_module(model, library)
    }

    /// A module of Rust over the functions of a model.
    #[must_use]
    pub fn rust_module(&self, model: &ArtifactModel) -> String {
        bindings::rust_module(model)
    }
}

fn too_far(bytes: u64) -> io::Error {
    let message = format!("code and data of {bytes} bytes are too far apart");
    io::Error::new(io::ErrorKind::FileTooLarge, message)
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
        let has_constants = model.constants.is_some();
        let mut bases = Bases { weights: None, constants: None };
        if model.has_weights {
            bases.weights = Some(format!("{name}.weights"));
        }
        if let Some(constants) = model.constants {
            let symbol = format!("{name}.constants");
            self.image.add_data(&symbol, Data::Bytes(constants.to_vec()), false);
            bases.constants = Some(symbol);
        }
        let mut constants = 0;
        for code in model.main.programs().into_iter().chain([model.setup]) {
            constants = constants.max(constants_bytes(code)?);
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
        let whole = |[arena, worker]: [u64; 2]| arena.next_multiple_of(64) + worker;
        let mut found = ModelSizes::default();
        if !has_constants {
            let setup = self.program(&format!("{name}.setup"), model.setup, &mut weights, model)?;
            let of_setup = sizes(model.setup)?;
            let (inputs, outputs) = (Vec::new(), Vec::new());
            let none = Interface { name: name.clone(), inputs, outputs };
            let setup = entry(format!("{name}_setup"), &setup, of_setup, &bases, &none, &[]);
            self.procedure(&setup)?;
            (found.setup_arena, found.worker) = (whole(of_setup), of_setup[1]);
            found.constants = constants;
        }
        let run = format!("{name}_run");
        let ports = match &model.main {
            MainCode::Program(code) => {
                let main = self.program(&format!("{name}.main"), *code, &mut weights, model)?;
                let of_main = sizes(*code)?;
                let run = entry(run, &main, of_main, &bases, model.interface, &values);
                self.procedure(&run)?;
                found.arena = whole(of_main);
                found.worker = found.worker.max(of_main[1]);
                None
            }
            MainCode::Plan(plan) => {
                let mut symbols = BTreeMap::new();
                for (number, (&id, segment)) in plan.segments.iter().enumerate() {
                    let name = format!("{name}.segment{number}");
                    symbols.insert(id, self.program(&name, segment.code, &mut weights, model)?);
                    found.worker = found.worker.max(segment.code.worker_bytes());
                }
                let (interface, turns) = (model.interface, model.most_turns);
                let (run, ports) =
                    plan_entry(run, plan, &symbols, &bases, interface, &values, turns)?;
                self.procedure(&run)?;
                Some(ports)
            }
        };
        if let Some(symbol) = &bases.weights {
            self.image.add_data(symbol, Data::Weights(weights.clone()), false);
        } else {
            found.weights = weights.bytes();
        }
        Ok(ArtifactModel {
            name,
            interface: model.interface.clone(),
            sizes: found,
            weights,
            has_weights: model.has_weights,
            has_constants,
            plan: ports,
            target: model.target.to_owned(),
            hash: String::new(),
        })
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
                    // Local symbols of other artifacts may be called so, too.
                    let symbol = self.fresh(code.module.kernels[id].name.clone());
                    self.image.add_code(&symbol, LinkableCode::from(machine), false);
                    self.by_content.insert(machine.bytes.clone(), symbol.clone());
                    symbol
                }
            };
            kernels.insert(id, symbol);
        }
        let most_turns = model.most_turns;
        let around = Surroundings { kernels: &kernels, weights: &offsets, most_turns };
        let name = self.fresh(name.to_owned());
        let (procedure, moves) = procedure_of(name.clone(), code, &around)?;
        self.procedure(&procedure)?;
        if !moves.is_empty() {
            self.image.add_data(&moves_of(&name), Data::Bytes(moves), false);
        }
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
