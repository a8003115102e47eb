//! A model as C sources in a folder.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use backend::Target;
use backend_c::{CSources, Interface, Part};
use base::{Diagnostic, Diagnostics, Result, codes};
use lower::Role;

use crate::executable::ports;
use crate::options::TargetChoice;
use crate::pipeline::front;
use crate::specialisation::{LoweredFunction, Request};
use crate::{Options, Port, target};

/// Compiles a model to `model.c`, `model.h`, `weights.bin` and `main.c` in a folder, which is made
/// if it is not there: all of them or none. Kernels are scheduled for the row `c99` of the target
/// table unless the options name another.
///
/// # Errors
/// What is wrong with the model or with the options; `TW0205` for every free dimension; `TW0301` if
/// a file cannot be written.
pub fn emit_c(model: impl AsRef<Path>, options: &Options, folder: impl AsRef<Path>) -> Result<()> {
    let (model, folder) = (model.as_ref(), folder.as_ref());
    let sources = compile(model, options)?;
    fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error))?;
    write_all(&sources, folder)
}

fn compile(model: &Path, options: &Options) -> Result<CSources> {
    let target = row(&options.target)?;
    let front = front(model, options, &target)?;
    let (inputs, outputs) = (ports(&front.imported, true), ports(&front.imported, false));
    let unbound: Diagnostics =
        inputs.iter().filter_map(|port| port.random(0).err()).flatten().collect();
    unbound.or_ok(())?;
    let no_symbols = BTreeMap::new();
    let request = |function, role| Request {
        module: &front.module,
        function: &front.module.functions[function],
        symbols: &no_symbols,
        role,
        target: &target,
        options,
        input_shapes: Vec::new(),
    };
    let setup = LoweredFunction::new(request(front.setup, Role::Setup))?;
    let constants = setup.lowered.constants.offsets.clone();
    let main =
        LoweredFunction::new(request(front.main, Role::Main { inputs: inputs.len(), constants }))?;
    let results = main.lowered.outputs.iter().map(|output| output.shape.clone());
    let interface = Interface {
        name: model.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        inputs: inputs
            .iter()
            .map(|port| c_port(port, port.fixed_shape().unwrap_or_default()))
            .collect(),
        outputs: outputs.iter().zip(results).map(|(port, shape)| c_port(port, shape)).collect(),
    };
    backend_c::emit(part(&setup), part(&main), &interface, backend_c::Options::default())
}

/// The row that kernels are scheduled for: C code runs anywhere, so the machine has no say.
fn row(choice: &TargetChoice) -> Result<Target> {
    match choice {
        TargetChoice::Native => target::resolve(&TargetChoice::Named("c99".to_owned())),
        TargetChoice::Named(_) => target::resolve(choice),
    }
}

fn part(half: &LoweredFunction) -> Part<'_> {
    Part {
        module: &half.module,
        program: half.lowered.program,
        locations: &half.module.functions[half.function].locations,
    }
}

fn c_port(port: &Port, shape: Vec<usize>) -> backend_c::Port {
    backend_c::Port { name: port.name.clone(), dtype: port.dtype, shape }
}

/// Writes every file beside its place, then moves all of them there.
fn write_all(sources: &CSources, folder: &Path) -> Result<()> {
    let names = ["model.c", "model.h", "main.c", "weights.bin"];
    let temporary = |name: &str| folder.join(format!(".{name}.{}.tmp", std::process::id()));
    let outcome = names
        .iter()
        .try_for_each(|name| {
            let path = temporary(name);
            write(sources, name, &path).map_err(|error| cannot_write(&folder.join(name), &error))
        })
        .and_then(|()| {
            names.iter().try_for_each(|name| {
                let path: PathBuf = folder.join(name);
                fs::rename(temporary(name), &path).map_err(|error| cannot_write(&path, &error))
            })
        });
    if outcome.is_err() {
        for name in names {
            // Best effort: the reason to tell is the first failure.
            let _ = fs::remove_file(temporary(name));
        }
    }
    Ok(outcome?)
}

fn write(sources: &CSources, name: &str, path: &Path) -> std::io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    match name {
        "model.c" => file.write_all(sources.model_c.as_bytes())?,
        "model.h" => file.write_all(sources.model_h.as_bytes())?,
        "main.c" => file.write_all(sources.main_c.as_bytes())?,
        _ => sources.weights.write(&mut file)?,
    }
    file.flush()
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Diagnostic {
    Diagnostic::error(codes::CANNOT_WRITE_FILE, "cannot write the C sources")
        .at(path.display().to_string())
        .because(error.to_string())
        .remedy("check that you may write to the folder, and the free space")
}
