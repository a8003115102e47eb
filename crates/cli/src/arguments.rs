//! The options that subcommands share, and how they become `tilewright::Options` and inputs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use base::limits::exceeded;
use base::{Diagnostic, Result, codes};
use clap::Args;
use tilewright::{Kind, Limits, Options, Phases, Port, Precision, TargetChoice, Value};

/// What to compile, and how.
#[derive(Args, Clone, Debug)]
pub(crate) struct ModelArguments {
    /// The model, an ONNX file
    pub(crate) model: PathBuf,

    /// What to compile for: `native`, or a row of the target table such as `x86-64-v3`
    #[arg(long, default_value = "native", value_name = "NAME")]
    target: String,

    /// Worker threads [default: the cores available]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,

    /// Fixes a named dimension of the model
    #[arg(long = "dim", value_name = "NAME=N", value_parser = dimension)]
    dims: Vec<(String, i64)>,

    /// Precision of products and convolutions
    #[arg(long, default_value = "f32", value_name = "PRECISION")]
    precision: PrecisionArgument,

    /// Leaves out an optimisation
    #[arg(long = "disable", value_name = "PASS")]
    disabled: Vec<String>,

    /// Leaves out all optimisations: passes, formats, fusion, schedules
    #[arg(long)]
    without_optimisation: bool,

    /// Lets the compiler read the values of a weight, which is then left out of refit
    #[arg(long = "literal", value_name = "NAME")]
    literals: Vec<String>,

    /// Writes kernel names where `perf` finds them
    #[arg(long)]
    perf_map: bool,

    #[command(flatten)]
    limits: LimitArguments,
}

/// Whether to say where the time of a compile went.
#[derive(Args, Clone, Debug)]
pub(crate) struct TimingArguments {
    /// Prints to standard error where the compile's time went, added up over all threads
    #[arg(long)]
    timings: bool,
}

impl TimingArguments {
    /// Where the phases of the compile are to report.
    pub(crate) fn phases(&self) -> Phases {
        if self.timings { inspect::phases() } else { Phases::default() }
    }

    /// Prints what they have reported.
    pub(crate) fn print(&self, phases: &Phases) {
        if self.timings {
            eprint!("{}", phases.timings());
        }
    }
}

/// In what another configuration differs.
#[derive(Args, Clone, Debug)]
pub(crate) struct OtherArguments {
    /// The target of the other configuration
    #[arg(long, value_name = "NAME")]
    other_target: Option<String>,

    /// Its worker threads
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    other_threads: Option<u16>,

    /// Its precision of products and convolutions
    #[arg(long, value_name = "PRECISION")]
    other_precision: Option<PrecisionArgument>,

    /// An optimisation that it leaves out
    #[arg(long = "other-disable", value_name = "PASS")]
    other_disabled: Vec<String>,

    /// It leaves out all optimisations
    #[arg(long)]
    other_without_optimisation: bool,
}

impl OtherArguments {
    /// The other configuration's options: those of the first, where nothing else is said.
    pub(crate) fn options(&self, first: &Options) -> Options {
        let mut options = first.clone();
        if let Some(name) = &self.other_target {
            options.target = target(name);
        }
        if let Some(threads) = self.other_threads {
            options.threads = Some(threads.into());
        }
        if let Some(chosen) = self.other_precision {
            options.precision = chosen.into();
        }
        options.disabled.extend(disabled(&self.other_disabled, self.other_without_optimisation));
        options
    }
}

/// What is left out: these passes, or all.
fn disabled(passes: &[String], all: bool) -> impl Iterator<Item = String> {
    let all = if all { tilewright::optimisations() } else { Vec::new() };
    passes.iter().cloned().chain(all.into_iter().map(str::to_owned))
}

fn target(name: &str) -> TargetChoice {
    match name {
        "native" => TargetChoice::Native,
        name => TargetChoice::Named(name.to_string()),
    }
}

/// What is refused as too large.
#[derive(Args, Clone, Debug)]
pub(crate) struct LimitArguments {
    #[arg(long = "limit", value_name = "NAME=N", value_parser = limit, help = limit_help())]
    limits: Vec<(String, u64)>,
}

fn limit_help() -> String {
    let names: Vec<&str> = Limits::ROWS.iter().map(|row| row.name).collect();
    format!("Sets a limit: {}", names.join(", "))
}

impl LimitArguments {
    /// The limits, each given one in place of its default.
    pub(crate) fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        for (name, value) in &self.limits {
            // Names and values were checked while they were parsed.
            let _ = limits.set(name, *value);
        }
        limits
    }
}

fn limit(text: &str) -> std::result::Result<(String, u64), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=N")?;
    let value = value.parse().map_err(|_| format!("`{value}` is not a whole number"))?;
    Limits::default().set(name, value)?;
    Ok((name.to_string(), value))
}

/// Precisions by name.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
pub(crate) enum PrecisionArgument {
    F32,
    Bf16,
}

impl From<PrecisionArgument> for Precision {
    fn from(argument: PrecisionArgument) -> Precision {
        match argument {
            PrecisionArgument::F32 => Precision::F32,
            PrecisionArgument::Bf16 => Precision::Bf16,
        }
    }
}

/// Where inputs come from.
#[derive(Args, Clone, Debug)]
pub(crate) struct InputArguments {
    /// Reads an input from a file: `.npy`, or the test data of ONNX, `.pb`
    #[arg(long = "input", value_name = "NAME=FILE", value_parser = input)]
    inputs: Vec<(String, PathBuf)>,

    /// Fills inputs that are not given: floats standard normal, integers 0 or 1, a fixed seed
    #[arg(long)]
    random: bool,
}

pub(crate) fn dimension(text: &str) -> std::result::Result<(String, i64), String> {
    let (name, extent) = text.split_once('=').ok_or("expected NAME=N")?;
    let extent: i64 = extent.parse().map_err(|_| format!("`{extent}` is not an integer"))?;
    if extent < 0 {
        return Err("an extent is not negative".to_string());
    }
    Ok((name.to_string(), extent))
}

pub(crate) fn input(text: &str) -> std::result::Result<(String, PathBuf), String> {
    let (name, file) = text.split_once('=').ok_or("expected NAME=FILE")?;
    Ok((name.to_string(), PathBuf::from(file)))
}

impl ModelArguments {
    /// The compile options which they stand for.
    pub(crate) fn options(&self) -> Options {
        Options {
            target: target(&self.target),
            threads: self.threads.map(usize::from),
            dims: self.dims.iter().cloned().collect(),
            precision: self.precision.into(),
            disabled: disabled(&self.disabled, self.without_optimisation).collect(),
            literals: self.literals.iter().cloned().collect(),
            limits: self.limits.limits(),
            perf_map: self.perf_map,
            ..Options::default()
        }
    }
}

impl InputArguments {
    /// See [`read_inputs`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn read(&self, model: &ModelArguments) -> Result<BTreeMap<String, Value>> {
        read_inputs(&self.inputs, model)
    }

    /// Whether inputs are given, or to be made up.
    pub(crate) fn are_asked_for(&self) -> bool {
        self.random || !self.inputs.is_empty()
    }

    /// One value a port: the ones given, and random ones for the rest where that was asked for.
    ///
    /// # Errors
    /// A given name that the model does not have; a missing input without `--random`; a port whose
    /// shape is not known; random inputs beyond the limit.
    pub(crate) fn fill(
        &self,
        given: BTreeMap<String, Value>,
        ports: &[Port],
        limits: &Limits,
        always: bool,
    ) -> Result<Vec<Value>> {
        let made_up = ports.iter().filter(|port| !given.contains_key(&port.name));
        let bytes = made_up.map(Port::least_bytes).fold(0, u64::saturating_add);
        if bytes > limits.random_bytes {
            let message = format!("random inputs would take {bytes} bytes");
            return Err(exceeded("random-bytes", message)
                .at("the model's inputs")
                .because(format!("at most {} are made up", limits.random_bytes))
                .into());
        }
        tilewright::in_order(ports, given, &mut |number, port| match self.random || always {
            true => port.random(number as u64).map(Value::from),
            false => {
                let remedy = format!("give `--input {}=FILE`, or `--random` to fill it", port.name);
                Err(port.missing().remedy(remedy).into())
            }
        })
    }
}

/// Reads the files given for inputs of a model, of what kind it declares.
///
/// # Errors
/// A file that cannot be read, or an input given twice.
pub(crate) fn read_inputs(
    files: &[(String, PathBuf)],
    model: &ModelArguments,
) -> Result<BTreeMap<String, Value>> {
    let mut values = BTreeMap::new();
    let is_npy = |(_, file): &(String, PathBuf)| file.extension().is_none_or(|it| it != "pb");
    let declared = match files.iter().all(is_npy) {
        true => Vec::new(),
        false => tilewright::model_info(&model.model, &model.limits.limits())?.inputs,
    };
    for (name, file) in files {
        let port = declared.iter().find(|port| port.name == *name);
        let kind = port.map_or(&Kind::Tensor, |port| &port.kind);
        let (_, value) = tilewright::read_value(file, kind)?;
        if values.insert(name.clone(), value).is_some() {
            return Err(Diagnostic::error(
                codes::UNKNOWN_INPUT,
                format!("input `{name}` is given twice"),
            )
            .at(format!("--input {name}={}", file.display()))
            .because("another `--input` has the same name")
            .remedy("give each input once")
            .into());
        }
    }
    Ok(values)
}
