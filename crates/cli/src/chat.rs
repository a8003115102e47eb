//! `tilewright chat`: a talk with a language model, a line a message.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::ops::ControlFlow;

use base::{Diagnostic, Diagnostics, codes};
use clap::Args;
use generate::{LanguageModel, Message, StopReason};

use crate::Outcome;
use crate::arguments::ModelArguments;
use crate::generate::SamplingArguments;
use crate::help::{INPUTS, WORK, examples};
use crate::messages::note;
use crate::standard_output::{say, say_line};

/// Arguments of `tilewright chat`.
#[derive(Args)]
#[command(after_long_help = examples(&[
    ("tilewright chat model.gguf", "each line is a message, up to the end of the input"),
    ("tilewright chat model.gguf --system 'You are brief.' --temperature 0.7", "told how to be"),
]))]
#[command(next_help_heading = WORK)]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    /// What the model is told before all messages
    #[arg(long, value_name = "TEXT", help_heading = INPUTS)]
    system: Option<String>,
    #[command(flatten)]
    sampling: SamplingArguments,
}

/// Compiles, then answers each line of standard input.
pub(crate) fn run(arguments: &Arguments) -> base::Result<Outcome> {
    let model = LanguageModel::read(&arguments.model.model, &arguments.model.options())?;
    let mut context = model.context(arguments.sampling.places(&model))?;
    let path = arguments.model.model.display().to_string();
    let place = |found: Diagnostics| found.map(|one| one.at(&path));
    let mut messages: Vec<Message> =
        arguments.system.iter().map(|text| Message::new("system", text)).collect();
    if model.chat_template()?.is_none() {
        // That is said before anybody is asked for a line.
        _ = model.encode_talk(&messages).map_err(place)?;
    }
    let options = arguments.sampling.options(&model)?;
    let is_terminal = std::io::stdin().is_terminal();
    let mut lines = std::io::stdin().lock().lines();
    loop {
        if is_terminal {
            eprint!("> ");
            _ = std::io::stderr().flush();
        }
        let Some(line) = lines.next() else { break };
        let line = line.map_err(|found| {
            Diagnostic::error(codes::CANNOT_READ_FILE, "cannot read standard input")
                .because(found.to_string())
                .remedy("give lines of text in UTF-8")
        })?;
        if line.trim().is_empty() {
            continue;
        }
        messages.push(Message::new("user", line));
        let prompt = model.encode_talk(&messages).map_err(place)?;
        // What the talk had before is in the context.
        let prompt = context.rest_of(&prompt);
        let answer = context.generate(prompt, &options, &mut |piece| {
            say!("{piece}");
            _ = std::io::stdout().flush();
            ControlFlow::Continue(())
        })?;
        say_line!("");
        if answer.reason == StopReason::Room {
            note("there is no room for more of this talk (`--context`)");
        }
        messages.push(Message::new("assistant", answer.text));
    }
    Ok(Outcome::Good)
}
