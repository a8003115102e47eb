//! A model as an object or a library of machine code in a folder.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use artifact::{Artifact, ModelCode, ProgramCode};
use backend::{MachineCode, Target};
use backend_c::Interface;
use base::{Diagnostic, KernelId, Result, codes};
use tensor::{StagedFiles, Value};

use crate::deployment::{
    DeploymentRequest, LoweredMain, LoweredModel, OutputContract, deployed_source, lowered,
};
use crate::jit;
use crate::options::{Options, TargetChoice};
use crate::specialisation::LoweredFunction;

/// The row of the target table that artifacts are made for where nothing is said: code runs on
/// other machines, too, and the same model gives the same bytes on each.
const TARGET: &str = "x86-64-v3";

/// In which form code is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArtifactForm {
    /// A shared library.
    Shared,
}

/// What is chosen of an artifact, besides the options of the compile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArtifactOptions {
    /// The form.
    pub form: ArtifactForm,
    /// Whether weights lie in it, rather than in a file beside it.
    pub has_weights: bool,
}

/// Compiles a model to an artifact in a folder, which is made if it is not there: all files or none.
/// Kernels are scheduled for the row `x86-64-v3` of the target table unless the options name another.
///
/// Inputs that are given, by name, fix the shapes of these inputs; where shapes in the model depend
/// on the value of one of them, the code is for this value alone, and refuses any other.
///
/// # Errors
/// What is wrong with the model, with the inputs or with the options; `TW0301` if a file cannot be
/// written.
pub fn emit_artifact(
    model: impl AsRef<Path>,
    options: &Options,
    inputs: &BTreeMap<String, Value>,
    folder: impl AsRef<Path>,
    chosen: ArtifactOptions,
) -> Result<()> {
    let (source, name, inputs) = deployed_source(model.as_ref(), options, inputs)?;
    let request = DeploymentRequest { source: &source, options, name: &name, inputs: &inputs };
    let compiled = compile_for_artifact(&request)?;
    let artifact = artifact_of(&[&compiled], chosen.has_weights)?;
    let folder = folder.as_ref();
    let mut files = StagedFiles::in_folder(folder)?;
    let own = &artifact.models[0];
    if !chosen.has_weights {
        files.write(folder.join("weights.bin"), |file| own.weights.write(file))?;
    }
    match chosen.form {
        ArtifactForm::Shared => {
            let library = format!("lib{}.so", own.name);
            files.write(folder.join(&library), |file| {
                artifact.write_shared_library(&library, file)?;
                file.flush()
            })?;
        }
    }
    files.commit()
}

/// A model and the code of its kernels.
pub struct DeployedModel {
    model: LoweredModel,
    /// The code of `setup`.
    setup: BTreeMap<KernelId, MachineCode>,
    /// The code of each program that runs.
    main: Vec<BTreeMap<KernelId, MachineCode>>,
    most_turns: u64,
}

impl DeployedModel {
    /// Inputs and outputs of the program: the components of the model's, but for known strings.
    pub fn interface(&self) -> &Interface {
        &self.model.interface
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
pub fn compile_for_artifact(request: &DeploymentRequest<'_>) -> Result<DeployedModel> {
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
            .remedy(format!("name another target, such as `--target {TARGET}`, or `--emit c`"))
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
    Ok(DeployedModel { model, setup, main, most_turns: options.limits.turns })
}

/// Puts compiled models, whose names differ, into an artifact, with or without their weights.
///
/// # Errors
/// Diagnostics of crate `artifact`.
pub fn artifact_of(models: &[&DeployedModel], has_weights: bool) -> Result<Artifact> {
    let models: Vec<ModelCode<'_>> = models
        .iter()
        .map(|compiled| {
            let LoweredMain::Program(main) = &compiled.model.main else {
                return Err(Diagnostic::error(codes::UNSUPPORTED_TYPE, "plans come later").into());
            };
            Ok(ModelCode {
                interface: &compiled.model.interface,
                setup: program_code(&compiled.model.setup, &compiled.setup),
                main: program_code(main, &compiled.main[0]),
                most_turns: compiled.most_turns,
                has_weights,
            })
        })
        .collect::<Result<_>>()?;
    Artifact::new(&models)
}

fn program_code<'a>(
    half: &'a LoweredFunction,
    kernels: &'a BTreeMap<KernelId, MachineCode>,
) -> ProgramCode<'a> {
    ProgramCode { module: &half.module, program: half.lowered.program, kernels }
}
