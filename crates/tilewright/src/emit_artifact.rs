//! A model as an object or a library of machine code in a folder.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use artifact::{
    Artifact, ArtifactModel, MainCode, ModelCode, OperatingSystem, PlanCode, ProgramCode,
    SegmentCode,
};
use backend::{MachineCode, Target};
use backend_c::{CPort, Interface};
use base::{Diagnostic, Diagnostics, KernelId, Result, codes};
use runtime::{ArtifactCall, ArtifactOutputs, ArtifactValue, Block, LoadedArtifact};
use sym::Expr;
use tensor::{Kind, StagedFile, StagedFiles, Tensor, Value};

use crate::deployment::{
    DeploymentRequest, LoweredMain, LoweredModel, OutputContract, deployed_source, is_for, lowered,
};
use crate::jit;
use crate::options::{Options, TargetChoice};
use crate::setup::{Destination, code_for_this_machine, run_setup};
use crate::specialisation::LoweredFunction;

/// The row of the target table that artifacts are made for where nothing is said: code runs on
/// other machines, too, and the same model gives the same bytes on each.
const TARGET: &str = "x86-64-v3";

/// In which form code is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArtifactForm {
    /// An object, to be linked.
    Object,
    /// A static library of one object.
    Static,
    /// A shared library, which is loaded as it is.
    Shared,
}

/// What is chosen of an artifact, besides the options of the compile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArtifactOptions {
    /// Whether weights lie in it, rather than in a file beside it.
    pub has_weights: bool,
    /// Whether `setup` is run now, so that the block of constants lies in it.
    pub fold_setup: bool,
    /// The system that it is for.
    pub system: OperatingSystem,
}

/// Compiles a model to an artifact in a folder, which is made if it is not there: all files or
/// none. Beside it are written a header, modules of Python or Rust, and `weights.bin`. Kernels are
/// scheduled for the row `x86-64-v3` of the target table unless the options name another.
///
/// Inputs that are given, by name, fix the shapes of these inputs; where shapes in the model depend
/// on the value of one of them, the code is for this value alone, and refuses any other. Dimensions
/// that stay free are arguments.
///
/// # Errors
/// What is wrong with the model, with the inputs or with the options; `TW0205` for a free dimension
/// that is no extent of an input by itself; `TW0408` for a library for another system than Linux;
/// `TW0301` if a file cannot be written.
pub fn emit_artifact(
    model: impl AsRef<Path>,
    options: &Options,
    inputs: &BTreeMap<String, Value>,
    folder: impl AsRef<Path>,
    form: ArtifactForm,
    chosen: ArtifactOptions,
) -> Result<()> {
    if form != ArtifactForm::Object && chosen.system != OperatingSystem::Linux {
        let message = "libraries are written for Linux alone";
        return Err(Diagnostic::error(codes::CONFLICTING_OPTIONS, message)
            .at("--emit")
            .because("for other systems there are objects, of which their linkers make libraries")
            .remedy("use `--emit object`, or leave the option out")
            .into());
    }
    let (source, name, inputs) = deployed_source(model.as_ref(), options, inputs)?;
    let request = DeploymentRequest { source: &source, options, name: &name, inputs: &inputs };
    let compiled = compile_for_artifact(&request, chosen)?;
    let artifact = artifact_of(&[&compiled])?;
    let folder = folder.as_ref();
    let mut files = StagedFiles::in_folder(folder)?;
    let own = &artifact.models[0];
    let name = &own.name;
    let text = |text: String| move |file: &mut StagedFile| file.write_all(text.as_bytes());
    files.write(folder.join(format!("{name}.h")), text(artifact.header(own)))?;
    if own.sizes.weights > 0 {
        files.write(folder.join("weights.bin"), |file| own.weights.write(file))?;
    }
    let rust = text(artifact.rust_module(own));
    match form {
        ArtifactForm::Object => {
            files.write(folder.join(format!("{name}.rs")), rust)?;
            let object = folder.join(format!("{name}.{}", chosen.system.object_extension()));
            files.write(object, |file| artifact.write_object(chosen.system, file))?;
        }
        ArtifactForm::Static => {
            files.write(folder.join(format!("{name}.rs")), rust)?;
            let library = folder.join(format!("lib{name}.a"));
            files.write(library, |file| artifact.write_static_library(file))?;
        }
        ArtifactForm::Shared => {
            let library = format!("lib{name}.so");
            let module = artifact.python_module(own, &library);
            files.write(folder.join(format!("{name}.py")), text(module))?;
            files.write(folder.join(&library), |file| {
                artifact.write_shared_library(&library, file)
            })?;
        }
    }
    files.commit()
}

/// Writes the weights of a model to the `weights.bin` of a folder that holds an artifact of the
/// same model with other weights: whoever calls that runs `setup` again, and all is as if the
/// artifact had been made anew.
///
/// # Errors
/// What is wrong with the model, with the inputs or with the options; `TW0408` if no header in the
/// folder is that of the code that the model becomes with these options; `TW0301` if the file
/// cannot be written.
pub fn refit_artifact(
    model: impl AsRef<Path>,
    options: &Options,
    inputs: &BTreeMap<String, Value>,
    folder: impl AsRef<Path>,
) -> Result<()> {
    let (source, name, inputs) = deployed_source(model.as_ref(), options, inputs)?;
    let request = DeploymentRequest { source: &source, options, name: &name, inputs: &inputs };
    let compiled = compile_for_artifact(&request, ArtifactOptions::default())?;
    let artifact = artifact_of(&[&compiled])?;
    let folder = folder.as_ref();
    let own = &artifact.models[0];
    let is_header = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "h");
    let has_hash = |path: PathBuf| {
        std::fs::read_to_string(path).is_ok_and(|text| text.contains(&format!("\"{}\"", own.hash)))
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    if !entries.map(|entry| entry.path()).filter(is_header).any(has_hash) {
        let message = "the folder holds no code that the model becomes";
        return Err(Diagnostic::error(codes::CONFLICTING_OPTIONS, message)
            .at(folder.display().to_string())
            .because(
                "weights fit the code of a model that differs in weights alone, compiled with \
                      the same options, by the same version, with weights in a file",
            )
            .remedy("give the options that the code was made with, or make it anew")
            .into());
    }
    let mut files = StagedFiles::new();
    files.write(folder.join("weights.bin"), |file| own.weights.write(file))?;
    files.commit()
}

/// A model and the code of its kernels.
pub struct DeployedModel {
    model: LoweredModel,
    /// The code of `setup`.
    setup: BTreeMap<KernelId, MachineCode>,
    /// The code of each program that runs.
    main: Vec<BTreeMap<KernelId, MachineCode>>,
    /// What must hold of sizes when each program begins.
    checks: Vec<Vec<(Expr, Expr)>>,
    /// The block of constants, where it has been made.
    constants: Option<Block>,
    target: Target,
    most_turns: u64,
    has_weights: bool,
}

impl DeployedModel {
    /// Inputs and outputs of the program: the components of the model's, but for known strings.
    pub fn interface(&self) -> &Interface {
        &self.model.interface
    }

    /// Whether the code is for inputs with these components.
    pub fn is_for(&self, components: &[Value]) -> bool {
        is_for(self.interface(), components)
    }

    fn contract(&self) -> &OutputContract {
        &self.model.contract
    }

    /// Whether it draws random numbers.
    pub fn draws(&self) -> bool {
        self.contract().draws
    }

    /// The model's outputs, of what the program gives.
    pub fn outputs(&self, results: Vec<Value>) -> Vec<Value> {
        self.contract().outputs(results)
    }
}

/// Compiles a model to machine code.
///
/// # Errors
/// What is wrong with the model, its inputs or the options.
pub fn compile_for_artifact(
    request: &DeploymentRequest<'_>,
    chosen: ArtifactOptions,
) -> Result<DeployedModel> {
    let options = request.options;
    let target = match options.target {
        TargetChoice::Native => Target::find(TARGET)?,
        TargetChoice::Named(_) => options.target.resolve()?,
    };
    if !target.isa.is_machine_code() {
        let message = format!("there is no machine code for the target `{}`", target.name);
        return Err(Diagnostic::error(codes::UNKNOWN_TARGET, message)
            .at(format!("--target {}", target.name))
            .because("it stands for sources")
            .remedy(format!("use `--target {TARGET}`, or write C sources"))
            .into());
    }
    let model = lowered(request, &target)?;
    let code = |half: &LoweredFunction| -> Result<BTreeMap<KernelId, MachineCode>> {
        let (program, infos) = (half.lowered.program, &half.lowered.kernels);
        Ok(jit::kernel_code(&half.module, program, infos, &target, options)?.into_iter().collect())
    };
    let setup = code(&model.setup)?;
    let main = match &model.main {
        LoweredMain::Program(main) => vec![code(main)?],
        LoweredMain::Plan(_, segments) => {
            segments.iter().map(|(_, _, half)| code(half)).collect::<Result<_>>()?
        }
    };
    let constants = match chosen.fold_setup {
        true => Some(folded_setup(&model.setup, &target, options)?),
        false => None,
    };
    let check =
        |half: &LoweredFunction| lower::extent_checks(&half.module.functions[half.function]);
    let checks = match &model.main {
        LoweredMain::Program(_) => Vec::new(),
        LoweredMain::Plan(_, segments) => segments.iter().map(|(.., half)| check(half)).collect(),
    };
    let (most_turns, has_weights) = (options.limits.turns, chosen.has_weights);
    Ok(DeployedModel { model, setup, main, checks, constants, target, most_turns, has_weights })
}

/// The block of constants, made by running `setup` here.
fn folded_setup(setup: &LoweredFunction, target: &Target, options: &Options) -> Result<Block> {
    let here = code_for_this_machine(setup, target, options)?;
    let mut constants = Block::zeroed(here.executable().constant_bytes())?;
    run_setup(&here, Destination::Memory(constants.bytes_mut()), options)?;
    Ok(constants)
}

/// Puts compiled models, whose names differ, into an artifact.
///
/// # Errors
/// Diagnostics of crate `artifact`.
pub fn artifact_of(models: &[&DeployedModel]) -> Result<Artifact> {
    let mut codes: Vec<ModelCode<'_>> = Vec::new();
    for compiled in models {
        let main = match &compiled.model.main {
            LoweredMain::Program(main) => MainCode::Program(program_code(main, &compiled.main[0])),
            LoweredMain::Plan(function, lowered) => {
                let mut segments = BTreeMap::new();
                for (((id, inputs, half), kernels), checks) in
                    lowered.iter().zip(&compiled.main).zip(&compiled.checks)
                {
                    let (code, checks) = (program_code(half, kernels), checks.clone());
                    segments.insert(*id, SegmentCode { code, inputs: *inputs, checks });
                }
                MainCode::Plan(PlanCode { function, segments })
            }
        };
        codes.push(ModelCode {
            interface: &compiled.model.interface,
            setup: program_code(&compiled.model.setup, &compiled.setup),
            main,
            constants: compiled.constants.as_ref().map(Block::bytes),
            most_turns: compiled.most_turns,
            has_weights: compiled.has_weights,
            target: &compiled.target.name,
        });
    }
    Artifact::new(&codes)
}

fn program_code<'a>(
    half: &'a LoweredFunction,
    kernels: &'a BTreeMap<KernelId, MachineCode>,
) -> ProgramCode<'a> {
    ProgramCode { module: &half.module, program: half.lowered.program, kernels }
}

/// Runs a model of an artifact that has been loaded, on inputs by component, with so many threads;
/// its results, by component. A block of constants is made at each run.
///
/// # Errors
/// The fault that it says, as a diagnostic; components that are no tensors of numbers or lists of
/// them.
pub fn run_loaded(
    loaded: &LoadedArtifact,
    model: &ArtifactModel,
    inputs: &[Value],
    workers: usize,
) -> Result<Vec<Value>> {
    let mut weights = Vec::new();
    if !model.has_weights {
        // Memory takes all that is written to it.
        let _ = model.weights.write(&mut weights);
    }
    let sizes = &model.sizes;
    let call = ArtifactCall {
        name: &model.name,
        weights: &weights,
        constants_bytes: sizes.constants as usize,
        setup_arena_bytes: sizes.setup_arena as usize,
        arena_bytes: sizes.arena as usize,
        worker_bytes: sizes.worker as usize,
        workers,
    };
    let mut constants = loaded.set_up(&call)?;
    let given: Vec<ArtifactValue> = inputs.iter().map(given_value).collect();
    let outputs = &model.interface.outputs;
    let results = match &model.plan {
        None => {
            let known = |port: &CPort| {
                let extents = port.shape.iter().map(|&extent| extent as i64).collect();
                (extents, backend_c::port_bytes(port) as usize)
            };
            let known: Vec<(Vec<i64>, usize)> = outputs.iter().map(known).collect();
            loaded.run(&call, &mut constants, &given, &[], &ArtifactOutputs::Known(&known))?
        }
        Some(plan) => {
            let mut extents = vec![0; plan.free.len()];
            for (input, axes) in inputs.iter().zip(&plan.inputs) {
                let Some(tensor) = input.as_tensor() else { continue };
                for (&extent, number) in tensor.shape().iter().zip(axes) {
                    if let Some(number) = *number {
                        extents[number] = extent as i64;
                    }
                }
            }
            let lists: Vec<usize> =
                outputs.iter().map(|port| backend_c::list_letters(&port.kind).len()).collect();
            let outputs = ArtifactOutputs::Planned(&lists, plan.axes);
            loaded.run(&call, &mut constants, &given, &extents, &outputs)?
        }
    };
    let value = |(port, value): (&CPort, ArtifactValue)| taken_value(value, port, &port.kind);
    outputs.iter().zip(results).map(value).collect()
}

fn given_value(value: &Value) -> ArtifactValue {
    match value {
        Value::Tensor(tensor) | Value::Maps(_, tensor) | Value::Map(_, tensor) => {
            let extents = tensor.shape().iter().map(|&extent| extent as i64).collect();
            ArtifactValue::Tensor { extents, bytes: tensor.bytes().to_vec() }
        }
        Value::Sequence(values) => ArtifactValue::List(values.iter().map(given_value).collect()),
        Value::Optional(value) => {
            ArtifactValue::List(value.iter().map(|value| given_value(value)).collect())
        }
    }
}

fn taken_value(value: ArtifactValue, port: &CPort, kind: &Kind) -> Result<Value> {
    Ok(match (value, kind) {
        (ArtifactValue::Tensor { extents, bytes }, _) => {
            let shape: Vec<usize> = extents.iter().map(|&extent| extent as usize).collect();
            let tensor = Tensor::from_bytes(port.dtype, &shape, bytes.into());
            Value::Tensor(tensor.map_err(Diagnostics::internal)?)
        }
        (ArtifactValue::List(values), Kind::Optional(held)) => {
            let held = values.into_iter().next().map(|value| taken_value(value, port, held));
            Value::Optional(held.transpose()?.map(Box::new))
        }
        (ArtifactValue::List(values), kind) => {
            let held = if let Kind::Sequence(held) = kind { held } else { kind };
            let values = values.into_iter().map(|it| taken_value(it, port, held));
            Value::Sequence(values.collect::<Result<_>>()?)
        }
    })
}
