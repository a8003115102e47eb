//! `tilewright run`: runs a model once and prints or keeps its outputs.

use std::path::PathBuf;

use clap::Args;
use tilewright::Value;

use crate::Outcome;
use crate::arguments::{InputArguments, ModelArguments, TimingArguments};
use crate::outputs;
use crate::standard_output::say_line;

/// Arguments of `tilewright run`.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    timings: TimingArguments,
    #[command(flatten)]
    inputs: InputArguments,
    /// Writes each output to `<name>.npy` in this folder instead of printing it
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
}

/// Compiles, runs once, prints or writes the outputs.
pub(crate) fn run(arguments: &Arguments) -> base::Result<Outcome> {
    let given = arguments.inputs.read(&arguments.model)?;
    let mut options = arguments.model.options();
    options.phases = arguments.timings.phases();
    let executable = tilewright::compile(&arguments.model.model, &options)?;
    let inputs = arguments.inputs.fill(given, executable.inputs(), &options.limits, false)?;
    let (mut names, mut tensors) = (Vec::new(), Vec::new());
    for (port, value) in executable.outputs().iter().zip(executable.run_values(&inputs)?) {
        if let (Value::Maps(keys, _), None) = (&value, &arguments.output_dir) {
            say_line!("{}: maps from {}", port.name, outputs::keys(keys));
        }
        names.extend(value.structure().names(&port.name));
        tensors.extend(value.into_tensors());
    }
    match &arguments.output_dir {
        Some(folder) => outputs::write(folder, &names, &tensors)?,
        None => {
            for (name, tensor) in names.iter().zip(&tensors) {
                say_line!("{}", outputs::summary(name, tensor));
            }
        }
    }
    arguments.timings.print(&options.phases);
    Ok(Outcome::Good)
}
