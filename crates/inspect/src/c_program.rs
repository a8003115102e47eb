//! Models as C, compiled by the system's C compiler and run in a process of their own: how values
//! of the target `c99` are had on the machine at hand.
//!
//! All models of a call become one program, so that the compiler is started once. Each run is a
//! process, so that one that crashes takes no other with it.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use base::{Diagnostic, Diagnostics, Result, codes};
use module::Module;
use tensor::{TemporaryFolder, Tensor, Value};
use tilewright::compiled::{
    CModel, CModelRequest, RunnerModel, Source, compile_to_c, read_outputs, resolve, write_runner,
};
use tilewright::{Options, TargetChoice};

/// Whether options choose sources rather than machine code.
pub(crate) fn is_chosen(options: &Options) -> bool {
    options.target != TargetChoice::Native
        && resolve(&options.target).is_ok_and(|target| !target.isa.is_machine_code())
}

/// Runs a module with one graph function on tensors as C, one tensor an input.
///
/// # Errors
/// What is wrong with the inputs or the options; `TW0404` without a C compiler; `TW0405` if the
/// program stops.
pub fn run_module_as_c(model: Module, options: &Options, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    let inputs: Vec<Value> = inputs.iter().cloned().map(Value::from).collect();
    let values = run(&Source::Module(Arc::new(model)), options, &inputs)?;
    Ok(values.into_iter().flat_map(Value::into_tensors).collect())
}

/// Runs a model as C, one value an input.
///
/// # Errors
/// What is wrong with the model, its inputs or the options; `TW0404` without a C compiler; `TW0405`
/// if the program stops.
pub(crate) fn run(source: &Source, options: &Options, inputs: &[Value]) -> Result<Vec<Value>> {
    let known: Vec<Option<Value>> = inputs.iter().cloned().map(Some).collect();
    let request = CModelRequest { source, options, name: &model_name(0), inputs: &known };
    let sources = compile_to_c(request)?;
    let inputs = inputs.iter().cloned().flat_map(Value::into_parts).collect();
    let run = Run { model: 0, inputs };
    let mut results = run_all(&[sources], &[run], None)?;
    results.pop().unwrap_or_else(|| Ok(Vec::new()))
}

/// What the model of a number in a list is to be called.
pub(crate) fn model_name(number: usize) -> String {
    format!("model{number}")
}

/// A model of a list, and what it is run on.
pub(crate) struct Run {
    pub(crate) model: usize,
    pub(crate) inputs: Vec<Value>,
}

/// Compiles models, which are called [`model_name`], to one program and does runs of them; gives
/// the outputs of each run, or why it was not done. A run that takes longer than the limit is
/// ended by a signal.
///
/// # Errors
/// `TW0404` without a C compiler; `TW0405` if the sources do not compile; files that cannot be
/// written.
pub(crate) fn run_all(
    models: &[CModel],
    runs: &[Run],
    limit: Option<Duration>,
) -> Result<Vec<Result<Vec<Value>>>> {
    let folder = TemporaryFolder::new()?;
    let written: Vec<RunnerModel<'_>> = models.iter().map(CModel::for_runner).collect();
    let inputs: Vec<(usize, &[Value])> = runs.iter().map(|run| (run.model, &*run.inputs)).collect();
    write_runner(folder.path(), &written, &inputs)
        .map_err(|error| not_written(folder.path(), &error))?;
    build(folder.path(), models.len())?;
    let results = runs.iter().enumerate().map(|(number, run)| {
        start(folder.path(), number, limit)?;
        outputs(folder.path(), number, &models[run.model])
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
fn build(folder: &Path, models: usize) -> Result<()> {
    let compiler = compiler();
    let mut command = Command::new(&compiler);
    command.current_dir(folder).args(["-std=c99", "-O1", "-o", "main", "main.c"]);
    command.args((0..models).map(|number| format!("model{number}.c")));
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

/// The outputs that a run has written.
fn outputs(folder: &Path, number: usize, model: &CModel) -> Result<Vec<Value>> {
    let path = folder.join(format!("outputs{number}"));
    let bytes = std::fs::read(&path).map_err(|error| {
        Diagnostic::error(codes::CANNOT_READ_FILE, "cannot read the file")
            .at(path.display().to_string())
            .because(error.to_string())
    })?;
    let results = read_outputs(bytes.into(), &model.interface).map_err(stopped)?;
    Ok(model.outputs(results))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A model that doubles its input, with something else in its first statement.
    fn model(number: usize, statement: &str) -> CModel {
        let text = "function @main {\n  parameter %x: f32[1] as \"x\"\n  \
            %y: f32[1] = map add %x, %x\n  return %y as \"y\"\n}\n";
        let module =
            module::parse(text, &Default::default()).unwrap_or_else(|found| panic!("{found}"));
        let (source, options) = (Source::Module(Arc::new(module)), Options::default());
        let (name, inputs) = (model_name(number), &[]);
        let request = CModelRequest { source: &source, options: &options, name: &name, inputs };
        let mut model = compile_to_c(request).unwrap_or_else(|found| panic!("{found}"));
        let code = &mut model.code.model_c;
        let start = code.rfind("\n{\n").map_or(0, |at| at + 3);
        code.insert_str(start, statement);
        model
    }

    #[test]
    fn a_run_that_stops_leaves_the_others_alone() {
        if !testkit::has_c_compiler() {
            return;
        }
        let crash = "  *(volatile int *)0 = 0;\n";
        let models = [model(0, ""), model(1, crash), model(2, "  return 7;\n"), model(3, "")];
        let input = |number: u8| vec![Tensor::from_vec(&[1], vec![f32::from(number)]).into()];
        let run = |(number, model)| Run { model, inputs: input(number) };
        let runs: Vec<Run> = [(1, 0), (2, 1), (3, 2), (4, 3), (5, 1), (6, 0)].map(run).into();
        let results = run_all(&models, &runs, None).unwrap_or_else(|found| panic!("{found}"));
        let said: Vec<String> = results
            .into_iter()
            .map(|result| match result {
                Ok(values) => {
                    values[0].as_tensor().map_or(f64::NAN, |it| it.get_f64(0)).to_string()
                }
                Err(found) => found.iter().flat_map(|it| it.reasons.clone()).collect(),
            })
            .collect();
        assert!(said[1].contains("signal") && said[4].contains("signal"), "{said:?}");
        assert_eq!(said[2], "exit status: 1: fault 7");
        assert_eq!([&said[0], &said[3], &said[5]], ["2", "8", "12"]);
    }
}
