//! `tilewright compare`: this and another engine on the same inputs, output by output or node by
//! node.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use inspect::Peer;

use crate::Outcome;
use crate::arguments::{InputArguments, ModelArguments};
use crate::help::{WORK, examples};
use crate::progress::Progress;
use crate::standard_output::{say, say_line};

/// The variable that names the Python where `--python` does not.
const VARIABLE: &str = "TILEWRIGHT_PYTHON";

/// Arguments of `tilewright compare`.
#[derive(Args)]
#[command(after_long_help = examples(&[
    ("tilewright compare model.onnx", "random inputs through both, their outputs side by side"),
    ("tilewright compare model.onnx --input x=x.npy --nodes", "node by node: where do they part?"),
    ("tilewright compare model.onnx --python venv/bin/python --json", "another Python"),
]))]
#[command(next_help_heading = WORK)]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    inputs: InputArguments,
    /// The other engine
    #[arg(long, value_name = "ENGINE", default_value = "onnxruntime")]
    with: PeerArgument,
    /// The Python whose packages hold it [default: the variable TILEWRIGHT_PYTHON, or python3]
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
    /// Compares the value of each node of the model, in order; the other engine then runs without
    /// its optimisation
    #[arg(long)]
    nodes: bool,
    /// Prints a row for each node, not only for those that differ
    #[arg(short, long)]
    verbose: bool,
    /// Ends the other engine after so many seconds
    #[arg(long, value_name = "S", default_value_t = 600,
        value_parser = clap::value_parser!(u64).range(1..))]
    time_limit: u64,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
}

/// Other engines by name.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum PeerArgument {
    /// ONNX Runtime, by its package for Python
    #[value(name = "onnxruntime")]
    OnnxRuntime,
}

impl Arguments {
    fn peer(&self) -> Peer {
        let PeerArgument::OnnxRuntime = self.with;
        let of_variable = || std::env::var_os(VARIABLE).filter(|path| !path.is_empty());
        let python = self.python.clone().or_else(|| of_variable().map(PathBuf::from));
        let python = python.unwrap_or_else(|| PathBuf::from("python3"));
        Peer { python, limit: Duration::from_secs(self.time_limit) }
    }
}

/// Runs both, and prints a row an output or a node.
pub(crate) fn run(arguments: &Arguments) -> base::Result<Outcome> {
    let model = &arguments.model.model;
    let settled = arguments.inputs.settle(&arguments.model, true)?;
    let inputs = settled.inputs(&tilewright::inputs(model, &settled.options)?)?;
    let found = {
        let progress = Progress::new("compare");
        let at = &mut |at: &str| progress.at(0, 0, at);
        let (peer, nodes) = (arguments.peer(), arguments.nodes);
        inspect::compare(model, &settled.options, &inputs, &peer, nodes, at)?
    };
    if arguments.json {
        say_line!("{}", found.json());
    } else {
        say!("{}", found.text(arguments.verbose));
    }
    Ok(if found.passed() { Outcome::Good } else { Outcome::CheckFailed })
}
