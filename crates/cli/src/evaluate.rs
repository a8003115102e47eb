//! `tilewright evaluate`: how likely a language model finds a text.

use std::path::PathBuf;

use base::{Diagnostic, codes};
use clap::Args;
use generate::{LanguageModel, likelihood};

use crate::Outcome;
use crate::arguments::ModelArguments;
use crate::help::{INPUTS, WORK, examples};
use crate::standard_output::say_line;

/// Arguments of `tilewright evaluate`.
#[derive(Args)]
#[command(after_long_help = examples(&[
    ("tilewright evaluate model.gguf --text text.txt", "the perplexity of a text"),
    ("tilewright evaluate model.gguf --text text.txt --window 2048", "with longer memory"),
]))]
#[command(next_help_heading = WORK)]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    /// A file of text in UTF-8
    #[arg(long, value_name = "FILE", help_heading = INPUTS)]
    text: PathBuf,
    /// How many tokens are judged by themselves at once
    #[arg(long, value_name = "N", default_value_t = 512,
        value_parser = clap::value_parser!(u32).range(2..=1 << 20))]
    window: u32,
}

/// Compiles, judges the text.
pub(crate) fn run(arguments: &Arguments) -> base::Result<Outcome> {
    let options = arguments.model.options();
    let place = arguments.text.display().to_string();
    let unreadable = |reason: String| {
        let found = Diagnostic::error(codes::CANNOT_READ_FILE, "cannot read the text");
        found.at(&place).because(reason).remedy("give a file of text in UTF-8")
    };
    let length = std::fs::metadata(&arguments.text).map_err(|it| unreadable(it.to_string()))?.len();
    if length > options.limits.input_bytes {
        let message = format!("the text has {length} bytes");
        return Err(base::limits::exceeded("input-bytes", length, message).at(place).into());
    }
    let text = std::fs::read_to_string(&arguments.text);
    let text = text.map_err(|found| unreadable(found.to_string()))?;
    let model = LanguageModel::read(&arguments.model.model, &options)?;
    let tokens = model.tokenizer().encode(&text, false);
    let judged = likelihood(&model, &tokens, arguments.window as usize)?;
    say_line!(
        "{} tokens, log-likelihood {:.4}, perplexity {:.4}",
        judged.tokens,
        judged.log_likelihood,
        judged.perplexity()
    );
    Ok(Outcome::Good)
}
