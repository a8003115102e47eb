//! `tilewright explain`: where the time goes, and why the kernels are what they are.

use clap::Args;

use crate::Outcome;
use crate::arguments::{InputArguments, ModelArguments};
use crate::standard_output::say;

/// Arguments of `tilewright explain`.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    inputs: InputArguments,
}

/// Compiles, profiles some runs, prints a row a kernel.
pub(crate) fn run(arguments: &Arguments) -> base::Result<Outcome> {
    let given = arguments.inputs.read()?;
    let mut options = arguments.model.options();
    options.bind_shapes(&given);
    let executable = tilewright::compile(&arguments.model.model, &options)?;
    let inputs = arguments.inputs.fill(given, executable.inputs(), true)?;
    say!("{}", tilewright::explain(&executable, &inputs)?);
    Ok(Outcome::Good)
}
