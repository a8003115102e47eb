//! The `tilewright` command: one file a subcommand.
//!
//! Exit status: 0 good; 1 the model or its inputs are wrong; 2 the command line is wrong; 3 a check
//! failed; 4 an internal error. What goes wrong is printed as diagnostics to standard error.

mod arguments;
mod bench;
#[cfg(feature = "chat")]
mod chat;
mod compare;
mod compile;
mod completions;
mod conformance;
mod diff;
mod dump;
mod evaluate;
mod explain;
mod explain_error;
mod explore;
mod files;
mod generate;
mod help;
mod info;
mod messages;
mod outputs;
mod progress;
mod quantise;
mod run;
#[cfg(feature = "serve")]
mod serve;
mod standard_output;
mod verify;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use base::Diagnostics;
use clap::{
    ArgAction, ArgMatches, ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand,
};
use tilewright::SmallObjects;

#[global_allocator]
static ALLOCATOR: SmallObjects = SmallObjects;

/// A compiler for machine-learning models.
#[derive(Parser)]
#[command(
    name = "tilewright",
    version,
    max_term_width = 100,
    disable_help_flag = true,
    disable_version_flag = true
)]
#[command(after_long_help = help::examples(&[
    ("tilewright info model.onnx", "what a model takes and gives"),
    ("tilewright run model.onnx --input x=x.npy", "runs it"),
    ("tilewright help run", "all about a command"),
]))]
struct CommandLine {
    #[command(subcommand)]
    command: Command,

    /// When messages are coloured
    ///
    /// Unless it is given, they are on a terminal; NO_COLOR and CLICOLOR_FORCE decide, too.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto",
        help_heading = help::GENERAL)]
    color: ColorChoice,

    /// Prints help, of which `-h` is the short form
    #[arg(short, long, global = true, action = ArgAction::Help, help_heading = help::GENERAL)]
    help: Option<bool>,

    /// Prints the version
    #[arg(short = 'V', long, action = ArgAction::Version, help_heading = help::GENERAL)]
    version: Option<bool>,
}

#[derive(Subcommand)]
enum Command {
    /// What a model holds: inputs, outputs, dimensions, operators
    Info(info::Arguments),
    /// Runs a model once
    Run(run::Arguments),
    /// Continues a text with a language model
    Generate(generate::Arguments),
    /// Talks with a language model, a line a message
    #[cfg(feature = "chat")]
    Chat(chat::Arguments),
    /// Answers requests over HTTP with a language model, as clients of OpenAI's expect it
    #[cfg(feature = "serve")]
    Serve(serve::Arguments),
    /// Says how likely a language model finds a text
    Evaluate(evaluate::Arguments),
    /// Measures compile time, latency and memory
    Bench(bench::Arguments),
    /// Writes a model in its deployment form: C sources
    Compile(compile::Arguments),
    /// Writes a model that computes with bytes, or stores its weights in few bits
    Quantise(quantise::Arguments),
    /// A row a kernel: its nodes, why it was fused, FLOPs, bytes, time, share of the roofline
    Explain(explain::Arguments),
    /// Writes a page for browsers: graph, kernels, loops, code, memory
    Explore(explore::Arguments),
    /// What the code of a diagnostic means, and what to do
    ExplainError(explain_error::Arguments),
    /// Prints a stage of the compile as text
    Dump(dump::Arguments),
    /// Compares every kernel of the executable, and the outputs, with the reference evaluator
    Verify(verify::Arguments),
    /// Compares two configurations and names the first node whose value differs
    Diff(diff::Arguments),
    /// Runs this and another engine on the same inputs, and says which of the two is off
    Compare(compare::Arguments),
    /// Runs ONNX-style cases and compares their outputs: passed, failed, refused
    Conformance(conformance::Arguments),
    /// Prints what makes a shell complete commands and options
    Completions(completions::Arguments),
}

/// How a subcommand ended, apart from errors.
enum Outcome {
    Good,
    CheckFailed,
}

fn main() -> ExitCode {
    messages::choose_color(color_of(std::env::args_os()));
    let refuse = |error| help::suggest(error, &command());
    let matches = command().try_get_matches().unwrap_or_else(|error| refuse(error).exit());
    let command_line =
        CommandLine::from_arg_matches(&matches).unwrap_or_else(|error| refuse(error).exit());
    match tilewright::catch_internal_errors(|| dispatch(command_line.command)) {
        Ok(Outcome::Good) => ExitCode::SUCCESS,
        Ok(Outcome::CheckFailed) => ExitCode::from(3),
        Err(diagnostics) => {
            let status = if is_internal(&diagnostics) { 4 } else { 1 };
            // Those that know the remedy do not know what the model is called.
            messages::print(&match model_of(&matches) {
                Some(model) => messages::name_model(diagnostics, model),
                None => diagnostics,
            });
            ExitCode::from(status)
        }
    }
}

/// The table of commands.
fn command() -> clap::Command {
    help::complete(CommandLine::command())
}

/// The model that a subcommand is about.
fn model_of(matches: &ArgMatches) -> Option<&PathBuf> {
    let (_, arguments) = matches.subcommand()?;
    arguments.try_get_one::<PathBuf>("model").ok()?
}

/// What `--color` says, on a command line that may be wrong otherwise: what is said of that is
/// coloured, too.
fn color_of(words: impl Iterator<Item = OsString>) -> ColorChoice {
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let words = words.split(|word| word == "--").next().unwrap_or_default();
    let next = words.windows(2).filter(|pair| pair[0] == "--color").map(|pair| pair[1].as_str());
    let chosen = next.chain(words.iter().filter_map(|word| word.strip_prefix("--color=")));
    chosen.last().and_then(|word| word.parse().ok()).unwrap_or(ColorChoice::Auto)
}

fn dispatch(command: Command) -> base::Result<Outcome> {
    match command {
        Command::Info(arguments) => info::run(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Generate(arguments) => generate::run(&arguments),
        #[cfg(feature = "chat")]
        Command::Chat(arguments) => chat::run(&arguments),
        #[cfg(feature = "serve")]
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Evaluate(arguments) => evaluate::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Compile(arguments) => compile::run(&arguments),
        Command::Quantise(arguments) => quantise::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Explore(arguments) => explore::run(&arguments),
        Command::ExplainError(arguments) => explain_error::run(&arguments),
        Command::Dump(arguments) => dump::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Diff(arguments) => diff::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Conformance(arguments) => conformance::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments),
    }
}

fn is_internal(diagnostics: &Diagnostics) -> bool {
    diagnostics.iter().any(|diagnostic| diagnostic.code.starts_with("TW09"))
}
