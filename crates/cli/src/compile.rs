//! `tilewright compile`: writes a model in its deployment form.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tilewright::{ArtifactForm, ArtifactOptions};

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
    /// A shared library for x86-64 that needs nothing: libNAME.so, weights.bin
    Shared,
}

/// Compiles and writes the files, all of them or none.
pub(crate) fn run(arguments: &Arguments) -> base::Result<Outcome> {
    let mut options = arguments.model.options();
    options.phases = arguments.timings.phases();
    let inputs = arguments.files.read(&arguments.model)?;
    let (model, folder) = (&arguments.model.model, &arguments.output);
    let form = match arguments.emit {
        Form::C => None,
        Form::Shared => Some(ArtifactForm::Shared),
    };
    match form {
        None => tilewright::emit_c(model, &options, &inputs, folder)?,
        Some(form) => {
            let chosen = ArtifactOptions { form, has_weights: false };
            tilewright::emit_artifact(model, &options, &inputs, folder, chosen)?;
        }
    }
    arguments.timings.print(&options.phases);
    Ok(Outcome::Good)
}
