//! `tilewright run`: runs a model once and prints or keeps its outputs.

use clap::Args;
use tilewright::Value;

use crate::Outcome;
use crate::arguments::{CacheArguments, InputArguments, ModelArguments, TimingArguments};
use crate::help::examples;
use crate::outputs::OutputArguments;

/// Arguments of `tilewright run`.
#[derive(Args)]
#[command(after_long_help = examples(&[
    ("tilewright run model.onnx", "whether it runs at all, on random inputs"),
    ("tilewright run model.onnx --input x=x.npy", "prints the outputs"),
    ("tilewright run model.onnx --input x=x.npy --input n=n.npy --output y.npz", "writes them"),
    (
        "tilewright run model.onnx --input cat.jpg --preset imagenet --labels labels.txt --softmax",
        "the likeliest classes of a picture",
    ),
    (
        "tilewright run model.onnx --input table.csv --output -",
        "columns are inputs; JSON to standard output",
    ),
    (
        "tilewright run model.onnx --text question='Where is it?' --dim batch=1",
        "a string as an input",
    ),
]))]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    timings: TimingArguments,
    #[command(flatten)]
    cache: CacheArguments,
    #[command(flatten)]
    inputs: InputArguments,
    #[command(flatten)]
    outputs: OutputArguments,
}

/// Compiles, runs once, prints or writes the outputs.
pub(crate) fn run(arguments: &Arguments) -> base::Result<Outcome> {
    let mut settled = arguments.inputs.settle(&arguments.model, false)?;
    settled.options.phases = arguments.timings.phases();
    settled.options.cache = arguments.cache.cache();
    let executable = tilewright::compile(&arguments.model.model, &settled.options)?;
    let plan = arguments.outputs.plan(executable.outputs(), &settled.options.limits)?;
    let inputs = settled.inputs(executable.inputs())?;
    let names = executable.outputs().iter().map(|port| port.name.clone());
    let outputs: Vec<(String, Value)> = names.zip(executable.run_values(&inputs)?).collect();
    plan.carry_out(&outputs)?;
    arguments.timings.print(&settled.options.phases);
    Ok(Outcome::Good)
}
