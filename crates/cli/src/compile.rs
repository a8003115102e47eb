//! `tilewright compile`: writes a model in its deployment form.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tilewright::Options;

use crate::Outcome;
use crate::arguments::{ModelArguments, TimingArguments};
use crate::files::FileArguments;
use crate::help::{OUTPUTS, examples};

/// Arguments of `tilewright compile`.
#[derive(Args)]
#[command(after_long_help = examples(&[
    ("tilewright compile model.onnx -o folder --emit c", "C sources that need nothing"),
    (
        "tilewright compile model.onnx -o folder --emit c --dim batch=1",
        "for one extent; others stay arguments",
    ),
    (
        "tilewright compile model.onnx -o folder --emit c --input x=x.npy",
        "for the shape of an input",
    ),
    ("tilewright compile model.onnx -o model.tw --emit engine", "what runs: code and constants"),
]))]
#[command(next_help_heading = OUTPUTS)]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    timings: TimingArguments,
    /// The shape of an input given, and where shapes in the model depend on its value this value,
    /// are fixed
    #[command(flatten)]
    files: FileArguments,
    /// The folder to write to; of an engine the file
    #[arg(short, long = "output", value_name = "PATH")]
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
    /// An engine file, which commands take in the place of the model
    Engine,
}

/// Compiles and writes the files, all of them or none.
pub(crate) fn run(arguments: &Arguments) -> base::Result<Outcome> {
    let mut options = arguments.model.options();
    options.phases = arguments.timings.phases();
    match arguments.emit {
        Form::C => {
            let inputs = arguments.files.read(&arguments.model)?;
            tilewright::emit_c(&arguments.model.model, &options, &inputs, &arguments.output)?;
        }
        Form::Engine => engine(arguments, options.clone())?,
    }
    arguments.timings.print(&options.phases);
    Ok(Outcome::Good)
}

/// Compiles the model and saves it, code for the inputs given included.
fn engine(arguments: &Arguments, mut options: Options) -> base::Result<()> {
    let inputs = arguments.files.read(&arguments.model)?;
    options.bind_shapes(&inputs);
    tilewright::compile(&arguments.model.model, &options)?.save(&arguments.output)
}
