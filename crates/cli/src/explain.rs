//! `tilewright explain`: where the time goes, and why the kernels are what they are.

use clap::Args;
use inspect::ListingOptions;

use crate::Outcome;
use crate::arguments::{InputArguments, ModelArguments};
use crate::help::{OUTPUTS, examples};
use crate::standard_output::{say, say_line};

/// Arguments of `tilewright explain`.
#[derive(Args)]
#[command(after_long_help = examples(&[
    ("tilewright explain model.onnx --top 10", "the ten kernels that take longest"),
    ("tilewright explain model.onnx -v --threads 1", "and why they are what they are"),
    (
        "tilewright explain model.onnx --candidates main_contract_3 --measure",
        "what one of them could have been",
    ),
]))]
#[command(next_help_heading = OUTPUTS)]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    inputs: InputArguments,
    /// Prints the reasons, too: what was fused, how kernels were scheduled, which formats there are
    #[arg(short, long)]
    verbose: bool,
    /// Prints only the rows of the N longest kernels
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// Prints what the kernel of this name could have been: points of the spaces of schedules, with
    /// what each should take
    #[arg(long, value_name = "KERNEL", conflicts_with_all = ["verbose", "top", "json"])]
    candidates: Option<String>,
    /// With `--candidates`: runs each of them, too, on one thread
    #[arg(long, requires = "candidates")]
    measure: bool,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
}

/// Compiles, profiles some runs, prints a row a kernel.
pub(crate) fn run(arguments: &Arguments) -> base::Result<Outcome> {
    let settled = arguments.inputs.settle(&arguments.model, true)?;
    let executable = tilewright::compile(&arguments.model.model, &settled.options)?;
    let inputs = settled.inputs(executable.inputs())?;
    if let Some(kernel) = &arguments.candidates {
        say!("{}", inspect::candidates(&executable, &inputs, kernel, arguments.measure)?);
        return Ok(Outcome::Good);
    }
    let explanation = inspect::explain(&executable, &inputs)?;
    if arguments.json {
        say_line!("{}", explanation.json());
    } else {
        let options = ListingOptions { reasons: arguments.verbose, top: arguments.top };
        say!("{}", explanation.text(options));
    }
    Ok(Outcome::Good)
}
