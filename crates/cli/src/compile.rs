//! `tilewright compile`: writes a model in its deployment form.

use std::collections::BTreeMap;
use std::path::PathBuf;

use base::{Diagnostic, Diagnostics, codes};
use clap::{Args, ValueEnum};
use generate::LanguageModel;
use tilewright::{
    ArtifactForm, ArtifactOptions, MemoryLimits, OperatingSystem, Options, SourceOptions, Value,
};

use crate::Outcome;
use crate::arguments::{ModelArguments, TimingArguments};
use crate::files::FileArguments;
use crate::help::{OUTPUTS, examples};
use crate::messages::note;
use crate::standard_output::say;

/// Arguments of `tilewright compile`.
#[derive(Args)]
#[command(after_long_help = examples(&[
    ("tilewright compile model.onnx -o folder --emit c", "C sources that need nothing"),
    (
        "tilewright compile model.onnx -o folder --emit c --dim batch=1",
        "for one extent; others stay arguments",
    ),
    ("tilewright compile model.onnx -o folder --emit shared", "a library of machine code"),
    (
        "tilewright compile model.onnx -o folder --emit c --target cortex-m7 --memory ram=64k",
        "for a microcontroller with so much memory",
    ),
    (
        "tilewright compile model.onnx -o folder --emit c --input x=x.npy",
        "for the shape of an input",
    ),
    ("tilewright compile model.onnx -o model.tw --emit engine", "what runs: code and constants"),
    (
        "tilewright compile model.gguf -o model.tw --emit engine --context 2048",
        "a language model, for `generate`, `chat` and `serve`",
    ),
]))]
#[command(next_help_heading = OUTPUTS)]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    timings: TimingArguments,
    /// The shape of an input given, and where shapes in the model depend on its value this value,
    /// are fixed
    #[command(flatten)]
    files: FileArguments,
    /// The folder to write to; of an engine the file
    #[arg(short, long = "output", value_name = "PATH")]
    output: PathBuf,
    /// The form to write
    #[arg(long, value_name = "FORM")]
    emit: Form,
    /// Where the weights of machine code go: to a file beside it, or into it
    #[arg(long, value_name = "PLACE", default_value = "file")]
    weights: WeightsPlace,
    /// Computes now what depends on weights alone, so that the code needs no setup: for machine
    /// code on a machine that runs the target; sources for microcontrollers have it so anyway
    #[arg(long)]
    fold_setup: bool,
    /// The system whose linker takes an object
    #[arg(long, value_name = "SYSTEM", default_value = "linux")]
    system: System,
    /// Prints what C sources take: constants, memory, operations of each kernel
    #[arg(long)]
    report: bool,
    /// Looks for C sources that take no more memory, or names the kernel that is in the way:
    /// `flash=256k,ram=64k`, either or both
    #[arg(long, value_name = "LIMITS", value_parser = memory_limits)]
    memory: Option<MemoryLimits>,
    /// How many tokens of a text an engine of a language model has code for; that for longer ones
    /// is made when it is met [default: 4096, or what the model was made for]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    context: Option<u32>,
}

/// The tokens of a text that an engine has code for, if the model was made for as many.
const MOST_TOKENS: usize = 4096;

/// Limits of memory, in bytes, kilobytes of 1,024 or megabytes of 1,024 of these.
fn memory_limits(text: &str) -> Result<MemoryLimits, String> {
    let mut limits = MemoryLimits::default();
    for part in text.split(',') {
        let (name, size) = part.split_once('=').ok_or("expected flash=SIZE or ram=SIZE")?;
        let (digits, unit) = match size.strip_suffix(['k', 'K']) {
            Some(digits) => (digits, 1 << 10),
            None => size.strip_suffix(['m', 'M']).map_or((size, 1), |digits| (digits, 1 << 20)),
        };
        let bytes = digits.parse::<u64>().ok().and_then(|size| size.checked_mul(unit));
        let size = bytes.ok_or_else(|| format!("`{size}` is no size such as 64k"))?;
        match name {
            "flash" => limits.flash = Some(size),
            "ram" => limits.ram = Some(size),
            _ => return Err(format!("`{name}` is neither flash nor ram")),
        }
    }
    Ok(limits)
}

/// Where weights go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WeightsPlace {
    /// weights.bin, which whoever calls the code reads or maps
    File,
    /// Read-only data of the object or library
    Inside,
}

/// Operating systems, also by the names that compilers have for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum System {
    /// ELF: Linux and others
    #[value(alias = "x86_64-unknown-linux-gnu")]
    Linux,
    /// Mach-O: NAME.o
    #[value(name = "macos", alias = "x86_64-apple-darwin")]
    MacOs,
    /// COFF: NAME.obj, for programs that clang, clang-cl, gcc or rustc compiles
    #[value(alias = "x86_64-pc-windows-msvc", alias = "x86_64-pc-windows-gnu")]
    Windows,
}

/// Deployment forms.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Form {
    /// C99 that needs nothing: model.c, model.h, weights.bin, main.c
    C,
    /// An engine file, which commands take in the place of the model
    Engine,
    /// Machine code that needs nothing, to be linked, for the system of `--system`: NAME.o,
    /// NAME.h, NAME.rs, weights.bin
    Object,
    /// A static library of one object: libNAME.a, NAME.h, NAME.rs, weights.bin
    Static,
    /// A shared library, which is loaded as it is: libNAME.so, NAME.h, NAME.py, weights.bin
    Shared,
    /// Other weights for machine code of the same model that lies in the folder: weights.bin; or
    /// for the engine file of the same model, which is written anew
    Weights,
}

/// Compiles and writes the files, all of them or none.
pub(crate) fn run(arguments: &Arguments) -> base::Result<Outcome> {
    let mut options = arguments.model.options();
    options.phases = arguments.timings.phases();
    let inputs = arguments.files.read(&arguments.model)?;
    let (model, folder) = (&arguments.model.model, &arguments.output);
    let (fold_setup, has_weights) =
        (arguments.fold_setup, arguments.weights == WeightsPlace::Inside);
    if arguments.context.is_some() && !matches!(arguments.emit, Form::Engine) {
        return Err(is_for_texts()
            .at("--emit")
            .because("what is written otherwise takes the shapes that `--dim` fixes, or any")
            .remedy("use `--emit engine`, or leave the option out")
            .into());
    }
    if !matches!(arguments.emit, Form::C) && (arguments.report || arguments.memory.is_some()) {
        let option = if arguments.report { "--report" } else { "--memory" };
        return Err(is_for_sources(option));
    }
    let is_code = matches!(arguments.emit, Form::Object | Form::Static | Form::Shared);
    if !is_code && arguments.system != System::Linux {
        return Err(is_for_code("--system"));
    }
    let form = match arguments.emit {
        Form::C if has_weights => return Err(is_for_code("--weights inside")),
        Form::Weights | Form::Engine if has_weights || fold_setup => {
            let option = if has_weights { "--weights inside" } else { "--fold-setup" };
            return Err(is_for_code(option));
        }
        Form::Engine => {
            engine(arguments, options.clone(), &inputs)?;
            None
        }
        Form::C => {
            let limits = arguments.memory.unwrap_or_default();
            let chosen = SourceOptions { fold_setup, limits };
            let report = tilewright::emit_c(model, &options, &inputs, folder, chosen)?;
            match report.filter(|_| arguments.report) {
                Some(report) => say!("{report}"),
                None if arguments.report => {
                    note("what a run takes is not known: extents are free, or sizes are computed");
                }
                None => {}
            }
            None
        }
        Form::Weights if folder.is_file() => {
            tilewright::refit_engine(folder, model, &options)?;
            None
        }
        Form::Weights => {
            tilewright::refit_artifact(model, &options, &inputs, folder)?;
            None
        }
        Form::Object => Some(ArtifactForm::Object),
        Form::Static => Some(ArtifactForm::Static),
        Form::Shared => Some(ArtifactForm::Shared),
    };
    if let Some(form) = form {
        let system = match arguments.system {
            System::Linux => OperatingSystem::Linux,
            System::MacOs => OperatingSystem::MacOs,
            System::Windows => OperatingSystem::Windows,
        };
        let chosen = ArtifactOptions { has_weights, fold_setup, system };
        tilewright::emit_artifact(model, &options, &inputs, folder, form, chosen)?;
    }
    arguments.timings.print(&options.phases);
    Ok(Outcome::Good)
}

/// Compiles the model and saves it, code for the inputs given included; a language model with its
/// tokenizer, if no shape is given.
fn engine(
    arguments: &Arguments,
    mut options: Options,
    inputs: &BTreeMap<String, Value>,
) -> base::Result<()> {
    let path = &arguments.model.model;
    let is_free = inputs.is_empty() && options.dims.is_empty();
    if is_free && LanguageModel::is_one(path, &options)? {
        let model = LanguageModel::read(path, &options)?;
        let most = MOST_TOKENS.min(model.trained_places());
        return model.save(&arguments.output, arguments.context.map_or(most, |it| it as usize));
    }
    if arguments.context.is_some() {
        return Err(is_for_texts()
            .at(path.display().to_string())
            .because("only texts grow; the shapes of other models are those of `--dim`")
            .remedy("leave the option out")
            .into());
    }
    options.bind_shapes(inputs);
    tilewright::emit_engine(path, &options, &arguments.output)
}

/// That only engines of language models have room for texts of some length.
fn is_for_texts() -> Diagnostic {
    let message = "`--context` is for engines of language models";
    Diagnostic::error(codes::CONFLICTING_OPTIONS, message)
}

/// An option that only C sources have.
fn is_for_sources(option: &str) -> Diagnostics {
    let message = format!("`{option}` is for C sources");
    Diagnostic::error(codes::CONFLICTING_OPTIONS, message)
        .at("--emit")
        .because("the header of machine code says what it takes")
        .remedy("use `--emit c`, or leave the option out")
        .into()
}

/// An option that only objects and libraries have.
fn is_for_code(option: &str) -> Diagnostics {
    let message = format!("`{option}` is for objects and libraries");
    Diagnostic::error(codes::CONFLICTING_OPTIONS, message)
        .at("--emit")
        .because("what is written has its weights where all of its form have them")
        .remedy("use `--emit shared`, or leave the option out")
        .into()
}
