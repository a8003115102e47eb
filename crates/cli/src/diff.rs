//! `tilewright diff`: two configurations, the first node whose value differs, and a small model
//! that shows it.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use inspect::Counterpart;
use tensor::Tolerance;

use crate::Outcome;
use crate::arguments::{InputArguments, ModelArguments, OtherArguments};
use crate::help::{OTHER, OUTPUTS, WORK, examples};
use crate::progress::Progress;
use crate::standard_output::{say, say_line};

/// Arguments of `tilewright diff`.
#[derive(Args)]
#[command(group(ArgGroup::new("with").required(true).multiple(true).args([
    "evaluator", "recorded", "other_target", "other_threads", "other_precision", "other_disabled",
    "other_without_optimisation",
])))]
#[command(after_long_help = examples(&[
    ("tilewright diff model.onnx --evaluator", "compiled code and the evaluator"),
    (
        "tilewright diff model.onnx --other-target x86-64-v3 --output-dir case",
        "two targets; what differs as a small case",
    ),
    ("tilewright diff model.onnx --recorded test_data_set_0", "what another runtime recorded"),
]))]
#[command(next_help_heading = OTHER)]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    inputs: InputArguments,
    #[command(flatten)]
    other: OtherArguments,
    /// Compares with the reference evaluator
    #[arg(long, conflicts_with = "recorded")]
    evaluator: bool,
    /// Compares with recorded values: a folder `test_data_set_<i>`, or an `.npz` file with values
    /// of any names of the model
    #[arg(long, value_name = "PATH")]
    recorded: Option<PathBuf>,
    /// Largest difference relative to the other value
    #[arg(long, value_name = "R", default_value_t = Tolerance::default().relative,
        help_heading = WORK)]
    relative: f64,
    /// Largest difference relative to the largest other value of a tensor
    #[arg(long, value_name = "R", default_value_t = Tolerance::default().of_largest,
        help_heading = WORK)]
    of_largest: f64,
    /// Writes the small model to this folder, as a case for `conformance`
    #[arg(long, value_name = "DIR", help_heading = OUTPUTS)]
    output_dir: Option<PathBuf>,
}

/// Compiles, compares, and looks for the first node where there is a difference.
pub(crate) fn run(arguments: &Arguments) -> base::Result<Outcome> {
    let model = &arguments.model.model;
    let mut recorded = None;
    let mut inputs = Vec::new();
    if let Some(place) = &arguments.recorded {
        let (values, others) = inspect::read_recorded(model, place, &arguments.model.options())?;
        inputs = values;
        recorded = Some(Counterpart::Recorded(others));
    }
    let settled = arguments.inputs.settle_beside(inputs, &arguments.model, true)?;
    let options = &settled.options;
    let other = match recorded {
        Some(recorded) => recorded,
        None if arguments.evaluator => Counterpart::Evaluator,
        None => Counterpart::Compiled(Box::new(arguments.other.options(options))),
    };
    let inputs = settled.inputs(&tilewright::inputs(model, options)?)?;
    let Arguments { relative, of_largest, .. } = *arguments;
    let tolerance = Tolerance { relative, of_largest, ..Tolerance::default() };
    let found = {
        let progress = Progress::new("diff");
        let at = &mut |at: &str| progress.at(0, 0, at);
        inspect::diff(model, options, &other, &inputs, tolerance, at)?
    };
    let Some(found) = found else {
        say_line!("no output differs");
        return Ok(Outcome::Good);
    };
    say!("{found}");
    if let Some(folder) = &arguments.output_dir {
        found.write(folder)?;
        say_line!("written to {}", folder.display());
    }
    Ok(Outcome::CheckFailed)
}
