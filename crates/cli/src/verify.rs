//! `tilewright verify`: every kernel of the executable, and every output, against the reference
//! evaluator.

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use crate::Outcome;
use crate::arguments::{InputArguments, ModelArguments};
use crate::standard_output::say;

/// Arguments of `tilewright verify`.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    inputs: InputArguments,
}

/// Compiles, feeds each kernel the evaluator's values, compares what it computes.
pub(crate) fn run(arguments: &Arguments) -> base::Result<Outcome> {
    let given = arguments.inputs.read(&arguments.model)?;
    let mut options = arguments.model.options();
    options.bind_shapes(&given);
    let executable = tilewright::compile(&arguments.model.model, &options)?;
    let inputs = arguments.inputs.fill(given, executable.inputs(), &options.limits, true)?;
    // Hidden by indicatif itself where standard error is not a terminal.
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}") {
        bar.set_style(style);
    }
    let report = inspect::verify(&executable, &inputs, &mut |done, total, name| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
        bar.set_message(name.to_string());
    })?;
    bar.finish_and_clear();
    say!("{report}");
    Ok(if report.passed() { Outcome::Good } else { Outcome::CheckFailed })
}
