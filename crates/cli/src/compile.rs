//! `tilewright compile`: writes a model in its deployment form.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::Outcome;
use crate::arguments::{ModelArguments, TimingArguments, input, read_inputs};

/// Arguments of `tilewright compile`.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    timings: TimingArguments,
    /// Reads an input from a file: its shape, and where shapes in the model depend on its value
    /// this value, are fixed
    #[arg(long = "input", value_name = "NAME=FILE", value_parser = input)]
    inputs: Vec<(String, PathBuf)>,
    /// The folder to write to
    #[arg(short, long = "output", value_name = "DIR")]
    output: PathBuf,
    /// The form to write
    #[arg(long, value_name = "FORM")]
    emit: Form,
}

/// Deployment forms.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Form {
    /// C99 that needs nothing: model.c, model.h, weights.bin, main.c
    C,
}

/// Compiles and writes the files, all of them or none.
pub(crate) fn run(arguments: &Arguments) -> base::Result<Outcome> {
    let mut options = arguments.model.options();
    options.phases = arguments.timings.phases();
    match arguments.emit {
        Form::C => {
            let inputs = read_inputs(&arguments.inputs, &arguments.model)?;
            tilewright::emit_c(&arguments.model.model, &options, &inputs, &arguments.output)?;
        }
    }
    arguments.timings.print(&options.phases);
    Ok(Outcome::Good)
}
