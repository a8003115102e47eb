//! A model as C, compiled by the system's C compiler and run in a process of its own: how values of
//! the target `c99` are had on the machine at hand.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use base::{Diagnostic, Result, codes};
use module::Module;
use tensor::{DType, TemporaryFolder, Tensor, Value};

use crate::emit_c::{self, Request};
use crate::source::Source;
use crate::{Options, TargetChoice, target};

/// Whether options choose sources rather than machine code.
pub(crate) fn is_chosen(options: &Options) -> bool {
    options.target != TargetChoice::Native
        && target::resolve(&options.target).is_ok_and(|target| !target.isa.is_machine_code())
}

/// Runs a module with one graph function on tensors as C, one tensor an input.
///
/// # Errors
/// What is wrong with the inputs or the options; `TW0404` without a C compiler; `TW0405` if the
/// program stops.
pub fn run_module_as_c(model: Module, options: &Options, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    let values = run(&Source::Module(Arc::new(model)), options, inputs)?;
    Ok(values.into_iter().flat_map(Value::into_tensors).collect())
}

/// Runs a model as C, one tensor an input.
///
/// # Errors
/// What is wrong with the model, its inputs or the options; `TW0404` without a C compiler; `TW0405`
/// if the program stops.
pub(crate) fn run(source: &Source, options: &Options, inputs: &[Tensor]) -> Result<Vec<Value>> {
    let folder = TemporaryFolder::new()?;
    let request = Request { source, options, name: "model", inputs: Some(inputs) };
    let sources = emit_c::compile(request)?;
    emit_c::write_all(&sources.code, folder.path())?;
    build(folder.path())?;
    let mut command = Command::new(folder.path().join("main"));
    command.current_dir(folder.path()).arg("weights.bin");
    for (number, input) in inputs.iter().enumerate() {
        let file = format!("input{number}.npy");
        tensor::npy::write(folder.path().join(&file), input)?;
        command.arg(file);
    }
    let output = command.args(["-o", "."]).output().map_err(|error| stopped(error.to_string()))?;
    if !output.status.success() {
        return Err(stopped(String::from_utf8_lossy(&output.stderr).trim().to_owned()).into());
    }
    let read = |(number, dtype): (usize, &DType)| {
        let file = folder.path().join(format!("{}.npy", emit_c::output_name(number)));
        // Files hold types that NumPy lacks as wider ones.
        tensor::npy::read(file).map(|tensor| tensor.cast(*dtype))
    };
    let mut results = sources.dtypes.iter().enumerate().map(read).collect::<Result<Vec<_>>>()?;
    sources.strings.put_into(&mut results);
    let mut results = results.into_iter();
    let structures = sources.outputs.iter();
    Ok(structures.filter_map(|output| Value::from_tensors(output, &mut results)).collect())
}

/// Compiles `model.c` and `main.c` to the program `main`.
fn build(folder: &Path) -> Result<()> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let mut command = Command::new(&compiler);
    command.current_dir(folder).args(["-std=c99", "-O1", "main.c", "model.c", "-o", "main"]);
    let output = command.output().map_err(|error| {
        Diagnostic::error(codes::NO_C_COMPILER, "C sources cannot be compiled here")
            .at(format!("the C compiler `{compiler}`"))
            .because(error.to_string())
            .remedy("install a C compiler as `cc`, or let the variable CC name one")
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Diagnostic::error(codes::C_PROGRAM_FAILED, "the C compiler refuses the sources")
        .at(format!("the C compiler `{compiler}`"))
        .because(said)
        .remedy("use a compiler of C99; if it is one, report this with the model")
        .into())
}

fn stopped(reason: String) -> Diagnostic {
    Diagnostic::error(codes::C_PROGRAM_FAILED, "the model as C does not run to its end")
        .at("the program made of `model.c` and `main.c`")
        .because(reason)
        .remedy("run the model on a target of machine code, which names the node")
}
