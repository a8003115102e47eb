//! The `tilewright` command: one file a subcommand.
//!
//! Exit status: 0 good; 1 the model or its inputs are wrong; 2 the command line is wrong; 3 a check
//! failed; 4 an internal error. What goes wrong is printed as diagnostics to standard error.

mod arguments;
mod bench;
mod compile;
mod conformance;
mod diff;
mod dump;
mod explain;
mod explain_error;
mod info;
mod outputs;
mod run;
mod standard_output;
mod verify;

use std::process::ExitCode;

use base::Diagnostics;
use clap::{Parser, Subcommand};
use tilewright::SmallObjects;

#[global_allocator]
static ALLOCATOR: SmallObjects = SmallObjects;

/// A compiler for machine-learning models.
#[derive(Parser)]
#[command(name = "tilewright", version, max_term_width = 100)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// What a model holds: inputs, outputs, dimensions, operators
    Info(info::Arguments),
    /// Runs a model once
    Run(run::Arguments),
    /// Measures compile time, latency and memory
    Bench(bench::Arguments),
    /// Writes a model in its deployment form: C sources
    Compile(compile::Arguments),
    /// A row a kernel: its nodes, why it was fused, FLOPs, bytes, time, share of the roofline
    Explain(explain::Arguments),
    /// What the code of a diagnostic means, and what to do
    ExplainError(explain_error::Arguments),
    /// Prints a stage of the compile as text
    Dump(dump::Arguments),
    /// Compares every kernel of the executable, and the outputs, with the reference evaluator
    Verify(verify::Arguments),
    /// Compares two configurations and names the first node whose value differs
    Diff(diff::Arguments),
    /// Runs ONNX-style cases and compares their outputs: passed, failed, refused
    Conformance(conformance::Arguments),
}

/// How a subcommand ended, apart from errors.
enum Outcome {
    Good,
    CheckFailed,
}

fn main() -> ExitCode {
    let command_line = CommandLine::parse();
    match tilewright::catch_internal_errors(|| dispatch(command_line.command)) {
        Ok(Outcome::Good) => ExitCode::SUCCESS,
        Ok(Outcome::CheckFailed) => ExitCode::from(3),
        Err(diagnostics) => {
            eprintln!("{diagnostics}");
            ExitCode::from(if is_internal(&diagnostics) { 4 } else { 1 })
        }
    }
}

fn dispatch(command: Command) -> base::Result<Outcome> {
    match command {
        Command::Info(arguments) => info::run(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Compile(arguments) => compile::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::ExplainError(arguments) => explain_error::run(&arguments),
        Command::Dump(arguments) => dump::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Diff(arguments) => diff::run(&arguments),
        Command::Conformance(arguments) => conformance::run(&arguments),
    }
}

fn is_internal(diagnostics: &Diagnostics) -> bool {
    diagnostics.iter().any(|diagnostic| diagnostic.code.starts_with("TW09"))
}
