//! `tilewright chat`: a talk with a language model, a line a message.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::ops::ControlFlow;

use base::{Diagnostic, codes};
use clap::Args;
use generate::{LanguageModel, Message, StopReason, written};

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
    let Some(template) = model.chat_template()? else {
        return Err(Diagnostic::error(codes::NOT_LANGUAGE_MODEL, "the model has no chat template")
            .at(arguments.model.model.display().to_string())
            .because("it continues texts, and was not made to answer")
            .remedy("use `tilewright generate`")
            .into());
    };
    let tokenizer = model.tokenizer();
    let around = [tokenizer.first_text(), tokenizer.last_text()];
    let around = [around[0].as_str(), around[1].as_str()];
    let mut context = model.context(arguments.sampling.places(&model))?;
    let mut messages: Vec<Message> =
        arguments.system.iter().map(|text| Message::new("system", text)).collect();
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
        let prompt = tokenizer.encode(&written(template, &messages, around)?, true);
        // What the talk had before is in the context.
        let prompt = context.rest_of(&prompt);
        let options = arguments.sampling.options();
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
