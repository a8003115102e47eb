//! `tilewright bench`: compile time, latency and memory of a model.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use inspect::{MeasuredModel, Measurement};
use tensor::StagedFiles;

use crate::Outcome;
use crate::arguments::{CacheArguments, InputArguments, ModelArguments, TimingArguments};
use crate::help::{OUTPUTS, WORK, examples};
use crate::standard_output::{say, say_line};

/// Arguments of `tilewright bench`.
#[derive(Args)]
#[command(after_long_help = examples(&[
    ("tilewright bench model.onnx --threads 1 --dim batch=8", "one core, a batch of eight"),
    ("tilewright bench model.onnx --timings", "and where the time of the compile went"),
    ("tilewright bench model.onnx --trace runs.json", "and how runs go, as a timeline"),
    ("tilewright bench model.onnx --precision bf16 --seconds 10 --json", "for scripts"),
]))]
#[command(next_help_heading = WORK)]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    timings: TimingArguments,
    #[command(flatten)]
    cache: CacheArguments,
    #[command(flatten)]
    inputs: InputArguments,
    /// How long to measure, behind a warm-up of a quarter of it
    #[arg(long, value_name = "S", default_value_t = 2.0, value_parser = seconds)]
    seconds: f64,
    /// Writes a timeline of some runs, kernel by kernel, which Perfetto and speedscope show
    #[arg(long, value_name = "FILE", help_heading = OUTPUTS)]
    trace: Option<PathBuf>,
    /// Prints one JSON object
    #[arg(long, help_heading = OUTPUTS)]
    json: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 86_400.0 => Ok(seconds),
        _ => Err("expected seconds, above 0 and at most 86400".to_string()),
    }
}

/// Compiles and measures; inputs that are not given are random.
pub(crate) fn run(arguments: &Arguments) -> base::Result<Outcome> {
    let mut settled = arguments.inputs.settle(&arguments.model, true)?;
    settled.options.phases = arguments.timings.phases();
    settled.options.cache = arguments.cache.asked_for();
    let (model, options) = (&arguments.model.model, &settled.options);
    let measured =
        inspect::measure(model, options, arguments.seconds, |ports| settled.inputs(ports))?;
    let MeasuredModel { measurement, executable, inputs } = measured;
    if let Some(path) = &arguments.trace {
        let trace = inspect::trace(&executable, &inputs, &measurement)?;
        let mut files = StagedFiles::new();
        files.write(path, |file| file.write_all(trace.to_string().as_bytes()))?;
        files.commit()?;
    }
    if arguments.json {
        say_line!("{}", measurement.json());
    } else {
        say!("{}", as_text(&measurement));
    }
    arguments.timings.print(&options.phases);
    Ok(Outcome::Good)
}

fn as_text(measured: &Measurement) -> String {
    let statistics = &measured.statistics;
    format!(
        "{} on {}, {} thread(s)\n\
         compile    {:>10.2} ms\n\
         first run  {:>10.3} ms\n\
         median     {:>10.3} ms of {} runs\n\
         fastest    {:>10.3} ms\n\
         95th perc. {:>10.3} ms\n\
         kernels    {:>10}\n\
         code       {:>10} bytes\n\
         constants  {:>10} bytes\n\
         arena      {:>10} bytes\n\
         peak RSS   {:>10} bytes\n",
        measured.model,
        measured.target,
        measured.threads,
        measured.compile_ms,
        measured.first_run_ms,
        measured.median_ms,
        measured.runs,
        measured.min_ms,
        measured.p95_ms,
        statistics.kernels,
        statistics.code_bytes,
        statistics.constant_bytes,
        statistics.arena_bytes,
        measured.peak_rss_bytes,
    )
}
