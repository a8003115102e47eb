//! The options that subcommands share, and how they become `tilewright::Options` and inputs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use base::Result;
use base::limits::exceeded;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use tilewright::{
    Activations, EngineCache, KeyValues, Limits, Options, Phases, Port, Precision, TargetChoice,
    Value,
};

use crate::files::FileArguments;
use crate::help::{INPUTS, LIMITS, MODEL, OPTIMISATIONS, OTHER, TARGET, WORK};
use crate::messages::{note, print};

/// What to compile, and how.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = MODEL)]
pub(crate) struct ModelArguments {
    /// The model: ONNX, an exported program (`.pt2`), `.tflite`, StableHLO (`.mlir`, `.bc`), a
    /// language model (`.gguf`, or a folder of safetensors), or an engine file (`.tw`)
    pub(crate) model: PathBuf,

    /// What to compile for
    ///
    /// It is `native`, or a row of the target table: `x86-64-v4-bf16`, `x86-64-v4`, `x86-64-v3`;
    /// `c99` stands for C sources, `cortex-m4`, `cortex-m7`, `cortex-m55` and `rv64gc` for such
    /// that suit these cores. Artifacts for `native` are for `x86-64-v3`, so that they run
    /// elsewhere, too.
    #[arg(long, default_value = "native", value_name = "NAME", help_heading = TARGET)]
    target: String,

    /// Worker threads [default: the cores available]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..),
        help_heading = TARGET)]
    threads: Option<u16>,

    /// Fixes a named dimension of the model
    #[arg(long = "dim", value_name = "NAME=N", value_parser = dimension)]
    dims: Vec<(String, i64)>,

    /// Precision of products and convolutions
    #[arg(long, default_value = "f32", value_name = "PRECISION", help_heading = TARGET)]
    precision: PrecisionArgument,

    /// Data of products with weights in blocks
    ///
    /// Products with weights of few bits in blocks take data as the model has them, or rounded to 8
    /// bits, with a scale for each block, on targets that multiply bytes.
    #[arg(long, default_value = "as-given", value_name = "NUMBERS", help_heading = TARGET)]
    #[arg(hide_short_help = true)]
    activations: ActivationsArgument,

    /// Numbers in which a language model keeps keys and values
    ///
    /// What is kept of the tokens of a text is read for each token that follows: in 16 bits half of
    /// it, in 8 bits, with a scale for what a head has of a token, a quarter.
    #[arg(long, default_value = "f32", value_name = "NUMBERS", help_heading = TARGET)]
    #[arg(hide_short_help = true, value_parser = key_values())]
    key_values: KeyValues,

    /// Leaves out an optimisation
    #[arg(long = "disable", value_name = "PASS", help_heading = OPTIMISATIONS)]
    disabled: Vec<String>,

    /// Leaves out all optimisations: passes, formats, fusion, schedules
    #[arg(long, help_heading = OPTIMISATIONS)]
    without_optimisation: bool,

    /// Lets the compiler read the values of a weight, which refit leaves out then
    #[arg(long = "literal", value_name = "NAME", help_heading = OPTIMISATIONS)]
    literals: Vec<String>,

    /// Makes code for many extents at once where the model leaves them free
    #[arg(long, help_heading = OPTIMISATIONS)]
    symbolic: bool,

    /// Writes kernel names where `perf` finds them
    #[arg(long, help_heading = TARGET)]
    perf_map: bool,

    #[command(flatten)]
    limits: LimitArguments,
}

/// Where what has been compiled is kept.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = WORK)]
pub(crate) struct CacheArguments {
    /// Keeps what is compiled in this folder, and takes from there what has been
    ///
    /// Where it is not given, the folder is what TILEWRIGHT_CACHE names; where that is not set,
    /// `tilewright` in the user's folder of caches, if it is there.
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,

    /// Keeps nothing, and takes nothing that was kept
    #[arg(long, conflicts_with = "cache")]
    no_cache: bool,

    /// Knows models by their bytes, not by the identity of their files
    #[arg(long)]
    cache_verify: bool,

    /// The most bytes that are kept; what was used longest ago leaves first [default: 4 GiB]
    #[arg(long, value_name = "BYTES")]
    cache_limit: Option<u64>,
}

impl CacheArguments {
    /// The cache that is asked for, or is there.
    pub(crate) fn cache(&self) -> Option<EngineCache> {
        let folder = self.cache.clone().or_else(cache_folder).filter(|_| !self.no_cache)?;
        let mut cache = EngineCache::in_folder(folder);
        cache.by_content = self.cache_verify;
        cache.most_bytes = self.cache_limit.unwrap_or(cache.most_bytes);
        cache.report = Some(|found| print(&found.clone().into()));
        Some(cache)
    }

    /// The cache that is asked for on the command line itself.
    pub(crate) fn asked_for(&self) -> Option<EngineCache> {
        self.cache.as_ref().and_then(|_| self.cache())
    }
}

/// The folder that the environment names, or else the user's, if that is there.
fn cache_folder() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("TILEWRIGHT_CACHE") {
        // Set to nothing it stands for none.
        return Some(PathBuf::from(folder)).filter(|folder| !folder.as_os_str().is_empty());
    }
    let absolute = |folder: &PathBuf| folder.is_absolute();
    let of_system = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(absolute);
    let of_home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
    let folder = of_system.or_else(of_home)?.join("tilewright");
    Some(folder).filter(|folder| folder.is_dir())
}

/// Whether to say where the time of a compile went.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = WORK)]
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

    /// Whether times are wanted.
    pub(crate) fn are_asked_for(&self) -> bool {
        self.timings
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
#[command(next_help_heading = OTHER)]
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
    /// Whether it differs in anything.
    pub(crate) fn are_given(&self) -> bool {
        self.other_target.is_some()
            || self.other_threads.is_some()
            || self.other_precision.is_some()
            || !self.other_disabled.is_empty()
            || self.other_without_optimisation
    }

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
    #[arg(long = "limit", value_name = "NAME=N", value_parser = limit, help = limit_help(),
        help_heading = LIMITS)]
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

/// Numbers of keys and values by name.
fn key_values() -> impl TypedValueParser<Value = KeyValues> {
    let names = PossibleValuesParser::new(KeyValues::ALL.map(|row| row.0));
    names.map(|name| KeyValues::of_name(&name).unwrap_or_default())
}

/// Numbers of data by name.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
pub(crate) enum ActivationsArgument {
    AsGiven,
    Int8,
}

/// Precisions by name.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
pub(crate) enum PrecisionArgument {
    F32,
    Bf16,
}

impl From<ActivationsArgument> for Activations {
    fn from(argument: ActivationsArgument) -> Activations {
        match argument {
            ActivationsArgument::AsGiven => Activations::AsGiven,
            ActivationsArgument::Int8 => Activations::Int8,
        }
    }
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
#[command(next_help_heading = INPUTS)]
pub(crate) struct InputArguments {
    #[command(flatten)]
    files: FileArguments,

    /// Fills inputs that are not given, also where others are
    ///
    /// Floats are standard normal, integers 0 or 1; the seed is fixed.
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

impl ModelArguments {
    /// The compile options which they stand for.
    pub(crate) fn options(&self) -> Options {
        Options {
            target: target(&self.target),
            threads: self.threads.map(usize::from),
            dims: self.dims.iter().cloned().collect(),
            precision: self.precision.into(),
            activations: self.activations.into(),
            key_values: self.key_values,
            disabled: disabled(&self.disabled, self.without_optimisation).collect(),
            literals: self.literals.iter().cloned().collect(),
            limits: self.limits.limits(),
            symbolic: self.symbolic,
            perf_map: self.perf_map,
            ..Options::default()
        }
    }

    /// The inputs that the model declares, with the extents that options fix.
    ///
    /// # Errors
    /// A file that is no model.
    pub(crate) fn declared_inputs(&self) -> Result<Vec<Port>> {
        let dims = self.dims.iter().cloned().collect();
        let inputs = tilewright::model_info(&self.model, &self.limits.limits())?.inputs;
        Ok(inputs.into_iter().map(|port| port.with_extents(&dims)).collect())
    }

    /// What is refused as too large.
    pub(crate) fn limits(&self) -> Limits {
        self.limits.limits()
    }
}

/// What a command compiles, and the inputs that it is given.
pub(crate) struct Settled<'a> {
    arguments: &'a InputArguments,
    /// How to compile: the extents of inputs bound, by the inputs given or chosen.
    pub(crate) options: Options,
    given: BTreeMap<String, Value>,
    /// Whether inputs that are not given are random.
    fills: bool,
}

impl InputArguments {
    /// Reads the inputs, lets their shapes bind extents, and, where others are to be random, has
    /// the smallest extents that do for those that nothing binds, which it says. Inputs that are
    /// not given are random if none is, if that is asked for, or `always`.
    ///
    /// # Errors
    /// Files that cannot be read, inputs given twice; those of compiling and running the model with
    /// extents that are tried.
    pub(crate) fn settle(&self, model: &ModelArguments, always: bool) -> Result<Settled<'_>> {
        self.settle_beside(Vec::new(), model, always)
    }

    /// As [`Self::settle`]; inputs that are not given are the first of these values, as far as
    /// there are some.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn settle_beside(
        &self,
        others: Vec<Value>,
        model: &ModelArguments,
        always: bool,
    ) -> Result<Settled<'_>> {
        let mut given = self.files.read(model)?;
        let fills = always || self.random || given.is_empty();
        // What is found here are the extents of the inputs, whatever the model is compiled for.
        let mut options = Options { symbolic: false, ..model.options() };
        if !others.is_empty() {
            let ports = tilewright::model_info(&model.model, &options.limits)?.inputs;
            for (port, value) in ports.iter().zip(others) {
                given.entry(port.name.clone()).or_insert(value);
            }
        }
        options.bind_shapes(&given);
        if fills {
            let chosen = inspect::smallest_extents(&model.model, &options, &given)?;
            if !chosen.is_empty() {
                let extents: Vec<String> =
                    chosen.iter().map(|(name, extent)| format!("--dim {name}={extent}")).collect();
                note(&format!(
                    "the smallest that were found to work, since not given: `{}`",
                    extents.join(" ")
                ));
            }
            options.dims.extend(chosen);
        }
        options.symbolic = model.symbolic;
        Ok(Settled { arguments: self, options, given, fills })
    }

    /// Whether inputs are given, or to be made up.
    pub(crate) fn are_asked_for(&self) -> bool {
        self.random || self.files.are_given()
    }
}

impl Settled<'_> {
    /// One value a port: the ones given, and random ones for the rest where they are to be,
    /// which it says where `--random` was not given.
    ///
    /// # Errors
    /// A given name that the model does not have; a missing input where none are random; a port
    /// whose shape is not known; random inputs beyond the limit.
    pub(crate) fn inputs(&self, ports: &[Port]) -> Result<Vec<Value>> {
        let bound = ports.iter().map(|port| port.clone().with_extents(&self.options.dims));
        let ports = &bound.collect::<Vec<Port>>()[..];
        let made_up: Vec<&Port> =
            ports.iter().filter(|port| !self.given.contains_key(&port.name)).collect();
        let bytes = made_up.iter().map(|port| port.least_bytes()).fold(0, u64::saturating_add);
        let most = self.options.limits.random_bytes;
        if bytes > most {
            let message = format!("random inputs would take {bytes} bytes");
            return Err(exceeded("random-bytes", bytes, message)
                .at("the model's inputs")
                .because(format!("at most {most} are made up"))
                .into());
        }
        if self.fills && !self.arguments.random && !made_up.is_empty() {
            let names: Vec<String> =
                made_up.iter().map(|port| format!("`{}`", port.name)).collect();
            note(&format!("random, since not given: {}", names.join(", ")));
        }
        tilewright::in_order(ports, self.given.clone(), &mut |number, port| match self.fills {
            true => port.random(number as u64).map(Value::from),
            false => {
                let remedy = format!("give `--input {}=FILE`, or `--random` to fill it", port.name);
                Err(port.missing().remedy(remedy).into())
            }
        })
    }
}
