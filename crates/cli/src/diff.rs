//! `tilewright diff`: two configurations, the first node whose value differs, and a small model
//! that shows it.

use std::path::PathBuf;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use inspect::Counterpart;
use tensor::Tolerance;

use crate::Outcome;
use crate::arguments::{InputArguments, ModelArguments, OtherArguments};
use crate::standard_output::{say, say_line};

/// Arguments of `tilewright diff`.
#[derive(Args)]
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
    #[arg(long, value_name = "R", default_value_t = Tolerance::default().relative)]
    relative: f64,
    /// Largest difference relative to the largest other value of a tensor
    #[arg(long, value_name = "R", default_value_t = Tolerance::default().of_largest)]
    of_largest: f64,
    /// Writes the small model to this folder, as a case for `conformance`
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
}

/// Compiles, compares, and looks for the first node where there is a difference.
pub(crate) fn run(arguments: &Arguments) -> base::Result<Outcome> {
    let model = &arguments.model.model;
    let mut given = arguments.inputs.read(&arguments.model)?;
    let mut options = arguments.model.options();
    let other = match &arguments.recorded {
        _ if arguments.evaluator => Counterpart::Evaluator,
        None => Counterpart::Compiled(Box::new(arguments.other.options(&options))),
        Some(place) => {
            let (inputs, values) = inspect::read_recorded(model, place, &options)?;
            let ports = tilewright::model_info(model, &options.limits)?.inputs;
            for (port, value) in ports.iter().zip(inputs) {
                given.entry(port.name.clone()).or_insert(value);
            }
            Counterpart::Recorded(values)
        }
    };
    options.bind_shapes(&given);
    let ports = tilewright::inputs(model, &options)?;
    let inputs = arguments.inputs.fill(given, &ports, &options.limits, true)?;
    // Hidden by indicatif itself where standard error is not a terminal.
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
        bar.set_style(style);
    }
    let Arguments { relative, of_largest, .. } = *arguments;
    let tolerance = Tolerance { relative, of_largest, ..Tolerance::default() };
    let found = inspect::diff(model, &options, &other, &inputs, tolerance, &mut |at| {
        bar.set_message(at.to_owned());
        bar.tick();
    })?;
    bar.finish_and_clear();
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
