//! Models in one program, compiled by the system's C compiler and run: what C computes on the
//! machine at hand.
//!
//! The compiler is started once for all of them. Each run is a process, so that one that crashes
//! takes no other with it.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use base::{Diagnostic, Diagnostics, Result, codes};
use tensor::{TemporaryFolder, Value};

use crate::runner::{RunnerModel, read_outputs, write_runner};

/// What one of some models is run on.
#[derive(Clone, Debug)]
pub struct CRun {
    /// The model's number among them.
    pub model: usize,
    /// In the order of its interface.
    pub inputs: Vec<Value>,
}

/// Compiles models to one program and does runs of them; gives the outputs of each run, in the
/// order of the model's interface, or why it was not done. A run that takes longer than the limit
/// is ended by a signal.
///
/// # Errors
/// `TW0404` without a C compiler; `TW0405` if the sources do not compile; files that cannot be
/// written.
pub fn run_models(
    models: &[RunnerModel<'_>],
    runs: &[CRun],
    limit: Option<Duration>,
) -> Result<Vec<Result<Vec<Value>>>> {
    let folder = TemporaryFolder::new()?;
    let inputs: Vec<(usize, &[Value])> = runs.iter().map(|run| (run.model, &*run.inputs)).collect();
    write_runner(folder.path(), models, &inputs)
        .map_err(|error| not_written(folder.path(), &error))?;
    build(folder.path(), models)?;
    let results = runs.iter().enumerate().map(|(number, run)| {
        start(folder.path(), number, limit)?;
        let path = folder.path().join(format!("outputs{number}"));
        let bytes = std::fs::read(&path).map_err(|error| {
            Diagnostic::error(codes::CANNOT_READ_FILE, "cannot read the file")
                .at(path.display().to_string())
                .because(error.to_string())
        })?;
        Ok(read_outputs(bytes.into(), models[run.model].interface).map_err(stopped)?)
    });
    Ok(results.collect())
}

/// The system's C compiler: what the variable CC names.
fn compiler() -> String {
    std::env::var("CC").unwrap_or_else(|_| "cc".to_owned())
}

/// Whether there is a C compiler.
///
/// # Errors
/// `TW0404` if not.
pub fn check_c_compiler() -> Result<()> {
    let compiler = compiler();
    let started = Command::new(&compiler).arg("--version").output();
    started.map(|_| ()).map_err(|error| no_compiler(&compiler, &error).into())
}

/// Compiles the sources to the program `main`. Little optimisation is best: most models of tests
/// run for less time than it takes. (GCC 12.2 with `-O3` computes wrong sums of products in pairs
/// of bf16, where an index counts down; with `-O2` it does not.)
fn build(folder: &Path, models: &[RunnerModel<'_>]) -> Result<()> {
    let compiler = compiler();
    let mut command = Command::new(&compiler);
    command.current_dir(folder).args(["-std=c99", "-O1", "-o", "main", "main.c"]);
    command.args(models.iter().map(|model| format!("{}.c", model.interface.name)));
    let output = command.output().map_err(|error| no_compiler(&compiler, &error))?;
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

/// Does a run.
fn start(folder: &Path, number: usize, limit: Option<Duration>) -> Result<()> {
    let mut command = Command::new(folder.join("main"));
    let seconds = limit.map_or(0, |limit| limit.as_secs());
    command.current_dir(folder).args([number.to_string(), seconds.to_string()]);
    let output = command.output().map_err(|error| stopped(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let said = if said.is_empty() { said } else { format!(": {said}") };
    Err(stopped(format!("{}{said}", output.status)).into())
}

fn no_compiler(compiler: &str, error: &std::io::Error) -> Diagnostic {
    Diagnostic::error(codes::NO_C_COMPILER, "C sources cannot be compiled here")
        .at(format!("the C compiler `{compiler}`"))
        .because(error.to_string())
        .remedy("install a C compiler as `cc`, or let the variable CC name one")
}

fn not_written(folder: &Path, error: &std::io::Error) -> Diagnostics {
    Diagnostic::error(codes::CANNOT_WRITE_FILE, "cannot write the sources of a program")
        .at(folder.display().to_string())
        .because(error.to_string())
        .into()
}

fn stopped(reason: String) -> Diagnostic {
    Diagnostic::error(codes::C_PROGRAM_FAILED, "the model as C does not run to its end")
        .at("the program made of its sources")
        .because(reason)
        .remedy("run the model on a target of machine code, which names the node")
}
