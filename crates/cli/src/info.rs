//! `tilewright info`: what a model holds.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use tilewright::compiled::EngineSource;
use tilewright::{ModelInfo, Port, PortExtent};

use crate::Outcome;
use crate::arguments::LimitArguments;
use crate::help::{OUTPUTS, WORK, examples};
use crate::standard_output::{say, say_line};

/// Arguments of `tilewright info`.
#[derive(Args)]
#[command(after_long_help = examples(&[
    ("tilewright info model.onnx", "inputs, outputs, operators, and what is not supported"),
    ("tilewright info model.onnx --json", "the same for scripts"),
    ("tilewright info model.tw --check", "whether an engine file is as it was written"),
]))]
#[command(next_help_heading = OUTPUTS)]
pub(crate) struct Arguments {
    /// The model: ONNX, an exported program (`.pt2`), `.tflite`, StableHLO (`.mlir`, `.bc`), a
    /// language model (`.gguf`, or a folder of safetensors), or an engine file (`.tw`)
    model: PathBuf,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
    /// Reads the constants of an engine file, too, and compares them with their digest
    #[arg(long, help_heading = WORK)]
    check: bool,
    #[command(flatten)]
    limits: LimitArguments,
}

/// Prints what the model holds.
pub(crate) fn run(arguments: &Arguments) -> base::Result<Outcome> {
    if arguments.check {
        EngineSource::open(&arguments.model)?.check_constants()?;
    }
    let info = tilewright::model_info(&arguments.model, &arguments.limits.limits())?;
    if arguments.json {
        say_line!("{}", as_json(&info));
    } else {
        say!("{}", as_text(&info));
    }
    Ok(Outcome::Good)
}

fn as_text(info: &ModelInfo) -> String {
    let mut text = info.name.clone();
    if !info.producer.is_empty() {
        let _ = write!(text, " by {}", info.producer);
    }
    let _ = writeln!(text, ", format {}", info.ir_version);
    for (domain, version) in &info.opsets {
        let _ = writeln!(text, "operator set {domain} {version}");
    }
    for (kind, ports) in [("input", &info.inputs), ("output", &info.outputs)] {
        for port in ports {
            let _ = writeln!(text, "{kind} {port}");
        }
    }
    if !info.dimensions.is_empty() {
        let _ = writeln!(text, "free dimensions: {}", info.dimensions.join(", "));
    }
    let _ = writeln!(text, "{} parameters, {} bytes", info.parameters, info.parameter_bytes);
    for (operator, count) in &info.operators {
        let _ = writeln!(text, "{count:6} {operator}");
    }
    for (operator, nodes) in &info.unsupported {
        let _ = writeln!(text, "unsupported: {operator} in {}", nodes.join(", "));
    }
    text
}

fn as_json(info: &ModelInfo) -> serde_json::Value {
    json!({
        "name": info.name,
        "producer": info.producer,
        "ir_version": info.ir_version,
        "opsets": info.opsets.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
        "inputs": values(&info.inputs),
        "outputs": values(&info.outputs),
        "dimensions": info.dimensions,
        "parameters": info.parameters,
        "parameter_bytes": info.parameter_bytes,
        "operators": info.operators,
        "unsupported": info.unsupported,
    })
}

fn values(infos: &[Port]) -> Vec<serde_json::Value> {
    infos
        .iter()
        .map(|info| {
            let dtype = info.dtype.map(|dtype| dtype.to_string());
            let extents = info.shape.iter().map(PortExtent::to_string).collect::<Vec<String>>();
            let shape = Some(extents).filter(|_| !info.shape.contains(&PortExtent::Any));
            json!({ "name": info.name, "dtype": dtype, "shape": shape })
        })
        .collect()
}
