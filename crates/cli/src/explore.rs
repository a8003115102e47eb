//! `tilewright explore`: a page that shows what became of a model, at all levels.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use inspect::Build;
use tensor::StagedFiles;
use tilewright::{Options, Precision};

use crate::Outcome;
use crate::arguments::{InputArguments, ModelArguments, OtherArguments, Settled};
use crate::help::{OTHER, OUTPUTS, examples};
use crate::standard_output::say_line;

/// Arguments of `tilewright explore`.
#[derive(Args)]
#[command(after_long_help = examples(&[
    ("tilewright explore model.onnx", "writes model.html, which a browser opens"),
    (
        "tilewright explore model.onnx --threads 1 --other-threads 4",
        "two builds side by side",
    ),
    (
        "tilewright explore model.onnx --other-model smaller.onnx --html both.html",
        "two models that share nodes",
    ),
]))]
#[command(next_help_heading = OUTPUTS)]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    inputs: InputArguments,
    #[command(flatten)]
    other: OtherArguments,
    /// Another model, which is shown beside the first
    #[arg(long, value_name = "MODEL", help_heading = OTHER)]
    other_model: Option<PathBuf>,
    /// The page to write [default: the model's name, in the folder at hand]
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Compiles, profiles some runs, and writes the page, whole or not at all.
pub(crate) fn run(arguments: &Arguments) -> base::Result<Outcome> {
    let model = &arguments.model.model;
    let settled = arguments.inputs.settle(&arguments.model, true)?;
    let mut builds = Vec::new();
    builds.push(build(model, &settled, &settled.options)?);
    if let Some(path) = &arguments.other_model {
        let mut other = arguments.model.clone();
        other.model.clone_from(path);
        let settled = arguments.inputs.settle(&other, true)?;
        builds.push(build(path, &settled, &arguments.other.options(&settled.options))?);
    } else if arguments.other.are_given() {
        builds.push(build(model, &settled, &arguments.other.options(&settled.options))?);
    }
    name_builds(&mut builds);
    let title = model.file_name().unwrap_or_default().to_string_lossy();
    let path = arguments.html.clone().unwrap_or_else(|| {
        let stem = model.file_stem().unwrap_or_default();
        Path::new(stem).with_extension("html")
    });
    let page = inspect::page(&title, &builds);
    let mut files = StagedFiles::new();
    files.write(&path, |file| file.write_all(page.as_bytes()))?;
    files.commit()?;
    say_line!("written to {}", path.display());
    Ok(Outcome::Good)
}

fn build(model: &Path, settled: &Settled<'_>, options: &Options) -> base::Result<Build> {
    let executable = tilewright::compile(model, options)?;
    let inputs = settled.inputs(executable.inputs())?;
    let name = model.file_stem().unwrap_or_default().to_string_lossy();
    let target = &executable.target().name;
    let mut label = format!("{name}, {target}, {} thread(s)", executable.threads());
    if options.precision == Precision::Bf16 {
        label.push_str(", bf16");
    }
    let left_out: Vec<&str> = options.disabled.iter().map(String::as_str).collect();
    match left_out.len() {
        0 => {}
        1..=3 => label.push_str(&format!(", without {}", left_out.join(", "))),
        count => label.push_str(&format!(", without {count} optimisations")),
    }
    inspect::explore(&executable, &inputs, label)
}

/// Tells builds apart that would be called the same.
fn name_builds(builds: &mut [Build]) {
    if let [one, two] = builds
        && one.label == two.label
    {
        two.label.push_str(" (2)");
    }
}
