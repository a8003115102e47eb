//! A model as C sources in a folder.

use std::collections::BTreeMap;
use std::path::Path;

use backend::Target;
use backend_c::{CProgram, CSetup, CSources, Interface, RunnerModel};
use base::{Diagnostic, Diagnostics, Result, codes};
use eval::EvaluationPrecision;
use tensor::{Tensor, Value};

use crate::deployment::{
    DeploymentRequest, LoweredMain, LoweredModel, OutputContract, deployed_source, is_for, lowered,
};
use crate::memory_report::{MemoryLimits, MemoryReport};
use crate::options::{Options, TargetChoice};
use crate::reference::evaluated;
use crate::specialisation::LoweredFunction;

/// What is chosen of C sources, besides the options of the compile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceOptions {
    /// Whether `setup` is run now, so that the block of constants lies in the sources.
    pub fold_setup: bool,
    /// What they may take.
    pub limits: MemoryLimits,
}

/// Compiles a model to `model.c`, `model.h`, `weights.bin` and `main.c` in a folder, which is made
/// if it is not there: all of them or none. Kernels are scheduled for the row `c99` of the target
/// table unless the options name another.
///
/// Inputs that are given, by name, fix the shapes of these inputs; where shapes in the model depend
/// on the value of one of them, the code is for this value alone, and refuses any other. Dimensions
/// that stay free are arguments of the C function. Where there are some, or where the model
/// computes sizes, the code divides memory that its caller gives; all other code knows how much it
/// needs.
///
/// Where `setup` is folded, what depends on weights alone is computed now and lies in the sources
/// as they read it; so it does for microcontrollers anyway. Then there is no `weights.bin`. The
/// report says what the sources take; of a plan, which divides memory while it runs, there is none.
///
/// # Errors
/// What is wrong with the model, with the inputs or with the options; `TW0205` for a free dimension
/// that is no extent of an input by itself; `TW0409` if the sources take more than the limits,
/// before anything is written; `TW0301` if a file cannot be written.
pub fn emit_c(
    model: impl AsRef<Path>,
    options: &Options,
    inputs: &BTreeMap<String, Value>,
    folder: impl AsRef<Path>,
    chosen: SourceOptions,
) -> Result<Option<MemoryReport>> {
    let (source, name, inputs) = deployed_source(model.as_ref(), options, inputs)?;
    let request = DeploymentRequest { source: &source, options, name: &name, inputs: &inputs };
    let model = compile_within(request, chosen)?;
    match &model.report {
        Some(report) => report.check(chosen.limits)?,
        None if chosen.limits != MemoryLimits::default() => return Err(no_bound().into()),
        None => {}
    }
    model.code.write(folder.as_ref())?;
    Ok(model.report)
}

/// A model as C, and how its outputs are made of the program's.
pub struct CModel {
    pub code: CSources,
    /// Inputs and outputs of the program: the components of the model's, but for known strings.
    pub interface: Interface,
    contract: OutputContract,
    /// Whether it is a plan, which divides the memory that its caller gives.
    pub is_plan: bool,
    /// What it takes; of a plan nobody knows beforehand.
    pub report: Option<MemoryReport>,
}

impl CModel {
    /// Whether the code is for inputs with these components.
    pub fn is_for(&self, components: &[Value]) -> bool {
        is_for(&self.interface, components)
    }

    /// As a program runs it beside others.
    pub fn for_runner(&self) -> RunnerModel<'_> {
        let CModel { code, interface, is_plan, .. } = self;
        RunnerModel { code, interface, is_plan: *is_plan }
    }

    /// Whether it draws random numbers.
    pub fn draws(&self) -> bool {
        self.contract.draws
    }

    /// The model's outputs, of what the program gives.
    pub fn outputs(&self, results: Vec<Value>) -> Vec<Value> {
        self.contract.outputs(results)
    }
}

/// Compiles a model to C.
///
/// # Errors
/// What is wrong with the model, its inputs or the options; see [`emit_c`].
pub fn compile_to_c(request: DeploymentRequest<'_>, fold_setup: bool) -> Result<CModel> {
    compile_within(request, SourceOptions { fold_setup, ..SourceOptions::default() })
}

/// As [`compile_to_c`]; where the code is too large for the limits, loops are written out only
/// where that takes less.
fn compile_within(request: DeploymentRequest<'_>, chosen: SourceOptions) -> Result<CModel> {
    let options = request.options;
    // C code runs anywhere, so the machine has no say.
    let target = match options.target {
        TargetChoice::Native => Target::find("c99")?,
        TargetChoice::Named(_) => options.target.resolve()?,
    };
    let LoweredModel { setup, main, interface, contract } = lowered(&request, &target)?;
    let (most_turns, isa) = (options.limits.turns, target.isa);
    let c_options = backend_c::COptions { most_turns, isa, ..Default::default() };
    let setup = match chosen.fold_setup || target.is_microcontroller() {
        true => CSetup::Folded(folded(&setup, options)?),
        false => CSetup::Run(c_program(&setup)),
    };
    let emit = |is_short: bool| {
        let c_options = backend_c::COptions { is_short, ..c_options };
        sources(&setup, &main, &interface, c_options)
    };
    let report = |code: &CSources, is_short: bool| {
        let mut report = MemoryReport::of(&main, &interface, code)?;
        if is_short {
            report.means.push("loops are written out only where registers need it".to_owned());
        }
        Some(report)
    };
    let mut code = emit(false)?;
    let mut own = report(&code, false);
    let is_over = |own: &MemoryReport| chosen.limits.flash.is_some_and(|most| own.flash() > most);
    if own.as_ref().is_some_and(is_over) {
        let short = emit(true)?;
        if short.code_bytes < code.code_bytes {
            own = report(&short, true);
            code = short;
        }
    }
    let is_plan = matches!(main, LoweredMain::Plan(..));
    Ok(CModel { code, interface, contract, is_plan, report: own })
}

/// The sources of what has been lowered.
fn sources(
    setup: &CSetup<'_>,
    main: &LoweredMain,
    interface: &Interface,
    c_options: backend_c::COptions,
) -> Result<CSources> {
    match main {
        LoweredMain::Program(main) => backend_c::emit(setup, c_program(main), interface, c_options),
        LoweredMain::Plan(function, lowered) => {
            let mut segments = BTreeMap::new();
            for (id, inputs, lowered) in lowered {
                let checks = lower::extent_checks(&lowered.module.functions[lowered.function]);
                let code = c_program(lowered);
                segments.insert(*id, backend_c::CSegment { code, inputs: *inputs, checks });
            }
            let plan = backend_c::CPlan { function, segments };
            backend_c::emit_plan(setup, &plan, interface, c_options)
        }
    }
}

/// What cannot be held to limits.
fn no_bound() -> Diagnostic {
    let message = "the memory that a run takes is not known before it runs";
    Diagnostic::error(codes::DOES_NOT_FIT, message)
        .at("--memory")
        .because("extents are free, or the model computes sizes")
        .remedy("give values to all dimensions, or leave the option out")
}

/// The results of `setup`, and where they lie: as the evaluator computes them, so that any machine
/// has the same bits.
fn folded(setup: &LoweredFunction, options: &Options) -> Result<Vec<(u64, Tensor)>> {
    let (module, function) = (&setup.module, &setup.module.functions[setup.function]);
    let none: [Tensor; 0] = [];
    let values = options.phases.time("setup", || {
        evaluated(module, function, options, &none, EvaluationPrecision::Declared)
    })?;
    let tensors = values.into_iter().map(|value| match value {
        Value::Tensor(tensor) => Ok(tensor),
        _ => Err(Diagnostics::internal("a constant that is no tensor".to_owned())),
    });
    let tensors = tensors.collect::<Result<Vec<Tensor>>>()?;
    Ok(setup.lowered.constants.offsets.iter().copied().zip(tensors).collect())
}

fn c_program(half: &LoweredFunction) -> CProgram<'_> {
    CProgram {
        module: &half.module,
        program: half.lowered.program,
        locations: &half.module.functions[half.function].locations,
    }
}
