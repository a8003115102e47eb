//! `tilewright quantise`: writes a model of bytes.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use base::{Diagnostic, InOrder, Result, codes};
use clap::{Args, ValueEnum};
use quantise::{CalibrationSample, Loss, Method, QuantiseOptions, Scheme};
use tensor::DType;
use tensor::staged::StagedFiles;
use tilewright::compiled::DecodedModel;
use tilewright::{Options, Port};

use crate::Outcome;
use crate::arguments::ModelArguments;
use crate::files::FileArguments;
use crate::help::{INPUTS, OUTPUTS, WORK, examples};
use crate::messages::note;
use crate::standard_output::say;

/// Samples that `--calibrate random` makes up.
const RANDOM_SAMPLES: u64 = 8;

/// Arguments of `tilewright quantise`.
#[derive(Args)]
#[command(after_long_help = examples(&[
    ("tilewright quantise model.onnx --calibrate pictures -o small.onnx", "bytes everywhere"),
    (
        "tilewright quantise model.onnx --calibrate data --max-loss class=0.01 -o small.onnx",
        "what loses most stays float, as far as it takes",
    ),
    ("tilewright quantise model.onnx --dynamic -o small.onnx", "scales that each run finds"),
    ("tilewright quantise model.onnx --weights int4 -o small.onnx", "weights alone, of 4 bits"),
]))]
#[command(next_help_heading = WORK)]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    files: FileArguments,

    /// Samples to find ranges with, and to measure by: a folder, a file, or `random`
    ///
    /// Each file of a folder is a sample, read as `--input` would; an archive .npz holds an array
    /// an input. Inputs that it does not give are those of `--input`.
    #[arg(long, value_name = "DATA", help_heading = INPUTS)]
    calibrate: Option<String>,

    /// The file to write
    #[arg(short, long, value_name = "FILE", help_heading = OUTPUTS)]
    output: PathBuf,

    /// Writes the report as JSON
    #[arg(long, value_name = "FILE", help_heading = OUTPUTS)]
    json: Option<PathBuf>,

    /// Writes the report as a picture, SVG
    #[arg(long, value_name = "FILE", help_heading = OUTPUTS)]
    picture: Option<PathBuf>,

    /// How ranges are chosen of the values met
    #[arg(long, value_name = "METHOD", default_value = "min-max")]
    method: MethodArgument,

    /// The percentage of elements within the range, for `--method percentile`
    #[arg(long, value_name = "P", default_value = "99.99", value_parser = percentage)]
    percentile: f64,

    /// Leaves the scales of values to each run; needs no samples
    #[arg(long, conflicts_with = "weights")]
    dynamic: bool,

    /// Stores weights alone in fewer bits
    #[arg(long, value_name = "TYPE")]
    weights: Option<WeightsArgument>,

    /// How many weights have a scale together, 0 for one scale a result
    #[arg(long, value_name = "N", default_value = "32")]
    block: usize,

    /// Leaves the channels of values as far apart as they are
    #[arg(long, hide_short_help = true)]
    no_equalise: bool,

    /// Leaves biases as they are, whatever layers are off by on average
    #[arg(long, hide_short_help = true)]
    no_correct_bias: bool,

    /// Rounds weights stored in fewer bits to nearest, whatever samples show
    #[arg(long, hide_short_help = true)]
    no_compensate: bool,

    /// Leaves a layer in float
    #[arg(long = "keep-float", value_name = "LAYER")]
    keep_float: Vec<String>,

    /// Leaves layers in float until no more is lost: cosine=, error= or class=
    ///
    /// Where weights are stored in 4 bits, layers are stored in 8 bits first.
    #[arg(long, value_name = "METRIC=VALUE")]
    max_loss: Option<Loss>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum MethodArgument {
    /// All of them
    MinMax,
    /// All but the share furthest off
    Percentile,
    /// What loses the least relative entropy
    Entropy,
    /// What loses the least mean squared error
    Mse,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum WeightsArgument {
    Int8,
    Int4,
}

fn percentage(text: &str) -> std::result::Result<f64, String> {
    let number: Option<f64> = text.parse().ok();
    let number = number.filter(|it| (50.0..=100.0).contains(it));
    number.ok_or_else(|| format!("`{text}` is no percentage from 50 to 100"))
}

impl Arguments {
    fn settings(&self, options: Options) -> QuantiseOptions {
        let method = match self.method {
            MethodArgument::MinMax => Method::MinMax,
            MethodArgument::Percentile => Method::Percentile(self.percentile),
            MethodArgument::Entropy => Method::Entropy,
            MethodArgument::Mse => Method::MeanSquaredError,
        };
        let block = (self.block > 0).then_some(self.block);
        let scheme = match self.weights {
            None if self.dynamic => Scheme::Dynamic,
            None => Scheme::Static,
            Some(WeightsArgument::Int8) => Scheme::Weights { dtype: DType::I8, block },
            Some(WeightsArgument::Int4) => Scheme::Weights { dtype: DType::I4, block },
        };
        let keep_float = self.keep_float.iter().cloned().collect();
        let (equalise, correct_bias) = (!self.no_equalise, !self.no_correct_bias);
        QuantiseOptions {
            scheme,
            method,
            equalise,
            correct_bias,
            compensate: !self.no_compensate,
            keep_float,
            most: self.max_loss,
            options,
        }
    }

    /// The samples: one value an input each.
    fn samples(&self, ports: &[Port]) -> Result<Vec<CalibrationSample>> {
        let Some(data) = &self.calibrate else { return Ok(Vec::new()) };
        if data == "random" {
            note("ranges of random inputs are not those of real ones: for a first look only");
            let sample = |seed: u64| -> Result<CalibrationSample> {
                // Seeds of inputs lie apart, so that no two inputs of a sample are alike.
                let each = ports.iter().zip(0_u64..);
                each.map(|(port, number)| Ok(port.random(seed << 16 | number)?.into())).collect()
            };
            return (1..=RANDOM_SAMPLES).map(sample).collect();
        }
        let path = Path::new(data);
        let mut files = vec![path.to_path_buf()];
        if path.is_dir() {
            let unread = |error: std::io::Error| {
                Diagnostic::error(codes::CANNOT_READ_FILE, "cannot read the folder")
                    .at(data.clone())
                    .because(error.to_string())
                    .remedy("name a folder that can be read")
            };
            let entries = std::fs::read_dir(path).map_err(unread)?;
            let entries: std::io::Result<Vec<_>> =
                entries.map(|entry| entry.map(|entry| entry.path())).collect();
            files = entries.map_err(unread)?;
            files.retain(|file| data::FileFormat::of_path(file).is_some() || file.is_dir());
            files.put_in_order();
        }
        if files.is_empty() {
            let message = "there is nothing to calibrate with";
            return Err(Diagnostic::error(codes::BAD_CALIBRATION, message)
                .at(data.clone())
                .because("the folder holds no array, picture, table or case")
                .remedy("name a folder of samples, a file each, or `random`")
                .into());
        }
        let sample = |file: &PathBuf| -> Result<CalibrationSample> {
            let values = self.files.read_with(&self.model, Some(file))?;
            let missing = &mut |_: usize, port: &Port| Err(port.missing().into());
            let values = tilewright::in_order(ports, values, missing)?;
            ports.iter().zip(&values).try_for_each(|(port, value)| port.check(value))?;
            Ok(values)
        };
        files.iter().map(sample).collect()
    }
}

/// Quantises and writes, all files or none.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome> {
    let options = arguments.model.options();
    if arguments.calibrate.is_none() && arguments.weights.is_none() && !arguments.dynamic {
        let message = "the ranges of values are not known";
        return Err(Diagnostic::error(codes::BAD_CALIBRATION, message)
            .at("the command line")
            .because("bytes need scales, and no data are given to find them")
            .remedy("name data to calibrate with, or leave scales to each run: `--dynamic`")
            .into());
    }
    let model = DecodedModel::read(&arguments.model.model, &options.limits)?;
    let samples = arguments.samples(&arguments.model.declared_inputs()?)?;
    let made = quantise::quantise(&model, &samples, &arguments.settings(options))?;
    let bytes = made.model.encode();
    let mut staged = StagedFiles::new();
    staged.write(&arguments.output, |file| file.write_all(&bytes))?;
    if let Some(path) = &arguments.json {
        let text = format!("{:#}\n", made.report.json());
        staged.write(path, |file| file.write_all(text.as_bytes()))?;
    }
    if let Some(path) = &arguments.picture {
        staged.write(path, |file| file.write_all(made.report.picture().as_bytes()))?;
    }
    staged.commit()?;
    say!("{}", made.report);
    let before = std::fs::metadata(&arguments.model.model).map_or(0, |it| it.len());
    say!("{}: {} bytes, of {before}\n", arguments.output.display(), bytes.len());
    Ok(Outcome::Good)
}
