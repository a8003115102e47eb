//! `tilewright dump`: a stage of the compile as text.

use clap::{Args, ValueEnum};
use inspect::Stage;

use crate::Outcome;
use crate::arguments::{InputArguments, ModelArguments};
use crate::standard_output::say;

/// Arguments of `tilewright dump`.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    inputs: InputArguments,
    /// Which stage
    #[arg(long, value_name = "STAGE")]
    stage: StageArgument,
    /// Only the kernel of this name
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
}

/// Stages by name.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum StageArgument {
    /// The graph as imported
    Imported,
    /// The graph functions `setup` and `main` after optimisation and format choice
    Optimized,
    /// What runs the segments of `main`, and what stands between them
    Plan,
    /// Kernels as their definitions say them
    Kernels,
    /// Kernels after scheduling, each with its trace
    Scheduled,
    /// The host programs
    Program,
    /// Kernels between instruction selection and register allocation
    Vcode,
    /// Machine code, disassembled
    Asm,
}

/// Prints the stage.
pub(crate) fn run(arguments: &Arguments) -> base::Result<Outcome> {
    let given = arguments.inputs.read(&arguments.model)?;
    let mut options = arguments.model.options();
    options.bind_shapes(&given);
    let inputs = match arguments.inputs.are_asked_for() {
        false => None,
        true => {
            let ports = tilewright::inputs(&arguments.model.model, &options)?;
            Some(arguments.inputs.fill(given, &ports, &options.limits, true)?)
        }
    };
    let stage = match arguments.stage {
        StageArgument::Imported => Stage::Imported,
        StageArgument::Optimized => Stage::Optimized,
        StageArgument::Plan => Stage::Plan,
        StageArgument::Kernels => Stage::Kernels,
        StageArgument::Scheduled => Stage::Scheduled,
        StageArgument::Program => Stage::Program,
        StageArgument::Vcode => Stage::Vcode,
        StageArgument::Asm => Stage::Asm,
    };
    let (model, kernel) = (&arguments.model.model, arguments.kernel.as_deref());
    say!("{}", inspect::dump(model, &options, stage, inputs.as_deref(), kernel)?);
    Ok(Outcome::Good)
}
