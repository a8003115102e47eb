//! `tilewright serve`: a language model behind HTTP.

use base::{Diagnostic, codes};
use clap::Args;
use generate::LanguageModel;
use serve::{ModelServer, ServeOptions};

use crate::Outcome;
use crate::arguments::ModelArguments;
use crate::help::{WORK, examples};
use crate::messages::note;

/// Arguments of `tilewright serve`.
#[derive(Args)]
#[command(after_long_help = examples(&[
    ("tilewright serve model.gguf", "http://127.0.0.1:8000/v1, for clients on this machine"),
    ("tilewright serve model.gguf --address 0.0.0.0:80 --parallel 4", "for others, too"),
]))]
#[command(next_help_heading = WORK)]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    /// The address and port to listen at
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8000")]
    address: String,
    /// What clients call the model [default: the name of its file or folder]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// How many texts go on at once
    #[arg(long, value_name = "N", default_value_t = 8,
        value_parser = clap::value_parser!(u16).range(1..=1024))]
    parallel: u16,
    /// How many texts wait for their turn; more are refused
    #[arg(long, value_name = "N", default_value_t = 64,
        value_parser = clap::value_parser!(u16).range(1..))]
    queue: u16,
    /// How many tokens of prompt and text there is room for [default: what the model was made for]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    context: Option<u32>,
}

/// Compiles, then answers until the process is ended.
pub(crate) fn run(arguments: &Arguments) -> base::Result<Outcome> {
    let path = &arguments.model.model;
    let model = LanguageModel::read(path, &arguments.model.options())?;
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let name = arguments.name.clone().or(stem).unwrap_or_else(|| "model".to_owned());
    let options = ServeOptions {
        address: arguments.address.clone(),
        name: name.clone(),
        parallel: usize::from(arguments.parallel),
        queue: usize::from(arguments.queue),
        context: arguments.context.map(|context| context as usize),
        ..ServeOptions::default()
    };
    let failed = |found: std::io::Error| {
        Diagnostic::error(codes::CANNOT_READ_FILE, "the server cannot go on")
            .at(&arguments.address)
            .because(found.to_string())
            .remedy("start it again, or at another address")
    };
    let server = ModelServer::bind(model, options)?;
    let address = server.address().map_err(failed)?;
    note(&format!("\"{name}\" answers at http://{address}/v1"));
    server.run().map_err(failed)?;
    Ok(Outcome::Good)
}
