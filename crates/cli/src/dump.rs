//! `tilewright dump`: a stage of the compile as text.

use clap::{Args, ValueEnum};
use inspect::Stage;
use tilewright::Port;

use crate::Outcome;
use crate::arguments::{InputArguments, ModelArguments};
use crate::help::{WORK, examples};
use crate::standard_output::say;

/// Arguments of `tilewright dump`.
#[derive(Args)]
#[command(after_long_help = examples(&[
    ("tilewright dump model.onnx", "the graph after its passes"),
    (
        "tilewright dump model.onnx --stage scheduled --dim batch=1",
        "all kernels and how they were scheduled",
    ),
    ("tilewright dump model.onnx --stage asm --kernel main_map_0", "the machine code of one"),
]))]
#[command(next_help_heading = WORK)]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    inputs: InputArguments,
    /// Which stage
    #[arg(long, value_name = "STAGE", default_value = "optimized")]
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
    let mut options = arguments.model.options();
    let mut inputs = None;
    let is_free = |port: &Port| port.fixed_shape().is_none();
    if arguments.inputs.are_asked_for()
        || stage.is_compiled() && tilewright::inputs(model, &options)?.iter().any(is_free)
    {
        let settled = arguments.inputs.settle(&arguments.model, true)?;
        inputs = Some(settled.inputs(&tilewright::inputs(model, &settled.options)?)?);
        options = settled.options;
    }
    say!("{}", inspect::dump(model, &options, stage, inputs.as_deref(), kernel)?);
    Ok(Outcome::Good)
}
