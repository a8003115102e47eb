//! A model as C sources in a folder.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use backend::Target;
use backend_c::{CSources, Interface, Part};
use base::{Diagnostics, Result};
use lower::Role;
use tensor::StagedFiles;

use crate::executable::ports;
use crate::options::TargetChoice;
use crate::pipeline::front;
use crate::source::Source;
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
    write_all(&sources, folder)
}

fn compile(model: &Path, options: &Options) -> Result<CSources> {
    let target = row(&options.target)?;
    let front = front(&Source::file(model), options, &target)?;
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
    };
    let setup = LoweredFunction::new(request(front.setup, Role::Setup))?;
    let constants = setup.lowered.constants.offsets.clone();
    let main =
        LoweredFunction::new(request(front.main, Role::Main { inputs: inputs.len(), constants }))?;
    let results = main.outputs.iter().map(|(_, shape)| shape.clone());
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

fn write_all(sources: &CSources, folder: &Path) -> Result<()> {
    let mut files = StagedFiles::in_folder(folder)?;
    files.write(folder.join("model.c"), |file| file.write_all(sources.model_c.as_bytes()))?;
    files.write(folder.join("model.h"), |file| file.write_all(sources.model_h.as_bytes()))?;
    files.write(folder.join("main.c"), |file| file.write_all(sources.main_c.as_bytes()))?;
    files.write(folder.join("weights.bin"), |file| sources.weights.write(file))?;
    files.commit()
}
