//! `tilewright verify`: every kernel of the executable, and every output, against the reference
//! evaluator.

use clap::Args;

use crate::Outcome;
use crate::arguments::{InputArguments, ModelArguments};
use crate::help::{WORK, examples};
use crate::progress::Progress;
use crate::standard_output::{say, say_line};

/// Arguments of `tilewright verify`.
#[derive(Args)]
#[command(after_long_help = examples(&[
    ("tilewright verify model.onnx", "on random inputs"),
    ("tilewright verify model.onnx --input x=x.npy --all", "on these, however long it takes"),
]))]
#[command(next_help_heading = WORK)]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    inputs: InputArguments,
    /// Compares everything, however long it takes, where a large model is compared by a sample
    #[arg(long)]
    all: bool,
}

/// Compiles, feeds each kernel the evaluator's values, compares what it computes.
pub(crate) fn run(arguments: &Arguments) -> base::Result<Outcome> {
    let settled = arguments.inputs.settle(&arguments.model, true)?;
    let executable = tilewright::compile(&arguments.model.model, &settled.options)?;
    let inputs = settled.inputs(executable.inputs())?;
    let most = if arguments.all { u64::MAX } else { inspect::VERIFY_OPERATIONS };
    let report = {
        let progress = Progress::new("verify");
        inspect::verify(&executable, &inputs, most, &mut |done, total, name| {
            progress.at(done, total, name);
        })?
    };
    say!("{report}");
    if report.sample.is_some() {
        say_line!("`--all` compares everything");
    }
    Ok(if report.passed() { Outcome::Good } else { Outcome::CheckFailed })
}
