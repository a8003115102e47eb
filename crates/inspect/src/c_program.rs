//! Models as C, compiled by the system's C compiler and run in a process of their own: how values
//! of the target `c99` are had on the machine at hand.
//!
//! All models of a call become one program, so that the compiler is started once. Each run is a
//! process, so that one that crashes takes no other with it.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use base::{Diagnostic, Diagnostics, Result, codes};
use bytes::Bytes;
use module::Module;
use tensor::{DType, Kind, TemporaryFolder, Tensor, Value};
use tilewright::compiled::{CModel, CModelRequest, CPort, Source, compile_to_c, resolve};
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
    write(folder.path(), models, runs).map_err(|error| not_written(folder.path(), &error))?;
    build(folder.path(), models.len())?;
    let results = runs.iter().enumerate().map(|(number, run)| {
        start(folder.path(), number, limit)?;
        outputs(folder.path(), number, &models[run.model])
    });
    Ok(results.collect())
}

/// Writes `main.c`, the models, their weights and the inputs of the runs.
fn write(folder: &Path, models: &[CModel], runs: &[Run]) -> std::io::Result<()> {
    for (number, model) in models.iter().enumerate() {
        std::fs::write(folder.join(format!("model{number}.c")), &model.code.model_c)?;
        let mut file = File::create(folder.join(format!("weights{number}")))?;
        model.code.weights.write(&mut file)?;
    }
    for (number, run) in runs.iter().enumerate() {
        let mut file = File::create(folder.join(format!("inputs{number}")))?;
        run.inputs.iter().try_for_each(|value| write_input(&mut file, value))?;
    }
    std::fs::write(folder.join("main.c"), main_c(folder, models, runs)?)
}

/// The program: declarations of the models' functions, and tables of models and runs.
fn main_c(folder: &Path, models: &[CModel], runs: &[Run]) -> std::io::Result<String> {
    let (mut declarations, mut rows) = (String::new(), String::new());
    for (number, model) in models.iter().enumerate() {
        let (name, ports) = (model_name(number), &model.interface);
        let given = |port: &CPort| match lists_around(&port.kind) {
            0 => format!("{{ {}u, 0, 0 }}, ", bytes_of(port)),
            lists => format!("{{ 0, sizeof({name}_tensor), {lists} }}, "),
        };
        let given: String = ports.inputs.iter().map(given).collect();
        // The header declares what the model has; each is in a file of its own.
        std::fs::write(folder.join(format!("{name}.h")), &model.code.model_h)?;
        declarations.push_str(&format!("#include \"{name}.h\"\n"));
        let row = format!("static const Input given{number}[] = {{ {given}{{ 0, 0, 0 }} }};\n");
        declarations.push_str(&row);
        declarations.push_str(&run_function(number, model));
        rows.push_str(&format!(
            "  {{ {}u, {name}_constants_size, {name}_setup, run{number}, {}, {}, \
            given{number} }},\n",
            model.code.weights.bytes(),
            ports.inputs.len(),
            ports.outputs.len()
        ));
    }
    let numbers: Vec<String> = runs.iter().map(|run| run.model.to_string()).collect();
    Ok(include_str!("c/models.c")
        .replace(
            "@MODELS@",
            &format!("{declarations}\nstatic const Model models[] = {{\n{rows}}};\n"),
        )
        .replace("@RUNS@", &numbers.join(", ")))
}

fn bytes_of(port: &CPort) -> usize {
    tensor::tensor::byte_size(port.dtype, &port.shape).unwrap_or(0)
}

/// Writes an input as the program reads it.
fn write_input(file: &mut File, value: &Value) -> std::io::Result<()> {
    match value {
        Value::Tensor(tensor) => file.write_all(tensor.bytes()),
        list => write_value(file, list),
    }
}

/// Writes a list, or a value in one: numbers are i64.
fn write_value(file: &mut File, value: &Value) -> std::io::Result<()> {
    let (numbers, held): (Vec<usize>, Vec<&Value>) = match value {
        Value::Tensor(tensor) | Value::Maps(_, tensor) | Value::Map(_, tensor) => {
            let shape = tensor.shape().iter().copied();
            let axes = std::iter::once(tensor.shape().len());
            (axes.chain(shape).chain([tensor.bytes().len()]).collect(), Vec::new())
        }
        Value::Sequence(values) => (vec![1, values.len()], values.iter().collect()),
        Value::Optional(value) => {
            let held: Vec<&Value> = value.iter().map(|value| &**value).collect();
            (vec![1, held.len()], held)
        }
    };
    numbers.iter().try_for_each(|&it| file.write_all(&(it as i64).to_le_bytes()))?;
    if let Some(tensor) = value.as_tensor() {
        file.write_all(tensor.bytes())?;
    }
    held.into_iter().try_for_each(|value| write_value(file, value))
}

/// How many lists stand around the tensors of a value.
fn lists_around(kind: &Kind) -> usize {
    match kind {
        Kind::Sequence(held) | Kind::Optional(held) => 1 + lists_around(held),
        Kind::Tensor | Kind::Maps | Kind::Map => 0,
    }
}

/// The function that runs a model in memory of its own and says where its outputs are.
fn run_function(number: usize, model: &CModel) -> String {
    let (name, outputs) = (model_name(number), &model.interface.outputs);
    let mut text = format!(
        "static int run{number}(const void *constants, const void *const in[], Output out[])\n{{\n"
    );
    let count = outputs.len();
    match model.is_plan {
        false => {
            text.push_str(&format!(
                "  static Fixed made[{0}];\n  void *memory[{0}];\n  int fault;\n",
                count + 1
            ));
            for (at, port) in outputs.iter().enumerate() {
                let (bytes, axes) = (bytes_of(port), port.shape.len());
                text.push_str(&format!("  made[{at}].head.bytes = {bytes};\n"));
                text.push_str(&format!("  made[{at}].head.axes = {axes};\n"));
                text.push_str(&format!("  memory[{at}] = allocate({bytes}u);\n"));
                text.push_str(&format!("  made[{at}].head.data = memory[{at}];\n"));
                for (axis, extent) in port.shape.iter().enumerate() {
                    text.push_str(&format!("  made[{at}].extents[{axis}] = {extent};\n"));
                }
            }
            text.push_str(&format!(
                "  fault = {name}_run(constants, allocate({name}_arena_size()), in, memory);\n"
            ));
        }
        // It begins with too little memory for most, so that faults of that are met, too.
        true => text.push_str(&format!(
            "  static {name}_tensor made[{}];\n  size_t size = 256;\n  int fault;\n  \
            for (;;) {{\n    void *memory = allocate(size);\n    \
            fault = {name}_run(constants, memory, size, in, made);\n    \
            if (fault != {} || size > MOST_MEMORY) break;\n    \
            free(memory);\n    size *= 2;\n  }}\n",
            count + 1,
            program::Fault::TooLittleMemory.code()
        )),
    }
    for (at, port) in outputs.iter().enumerate() {
        let lists = lists_around(&port.kind);
        text.push_str(&format!("  out[{at}].value = &made[{at}];\n"));
        text.push_str(&format!("  out[{at}].size = sizeof *made;\n"));
        text.push_str(&format!("  out[{at}].lists = {lists};\n"));
    }
    text + "  return fault;\n}\n"
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
    let mut bytes = Bytes::from(std::fs::read(&path).map_err(|error| {
        Diagnostic::error(codes::CANNOT_READ_FILE, "cannot read the file")
            .at(path.display().to_string())
            .because(error.to_string())
    })?);
    let read = |port: &CPort| read_value(&mut bytes, &port.kind, port.dtype);
    let results = model.interface.outputs.iter().map(read).collect::<Result<Vec<Value>>>()?;
    Ok(model.outputs(results))
}

/// The next value of a file: the number of its axes, its extents, then its elements or the values
/// that it holds.
fn read_value(bytes: &mut Bytes, kind: &Kind, dtype: DType) -> Result<Value> {
    let number = |bytes: &mut Bytes| {
        let own = bytes.split_to(bytes.len().min(8));
        let own = <[u8; 8]>::try_from(&own[..]).map_or(0, i64::from_le_bytes);
        usize::try_from(own).unwrap_or(0)
    };
    let axes = number(bytes).min(bytes.len());
    let shape: Vec<usize> = (0..axes).map(|_| number(bytes)).collect();
    let count = shape.first().copied().unwrap_or(0).min(bytes.len());
    let mut values = |held: &Kind| -> Result<Vec<Value>> {
        (0..count).map(|_| read_value(bytes, held, dtype)).collect()
    };
    Ok(match kind {
        Kind::Sequence(held) => Value::Sequence(values(held)?),
        Kind::Optional(held) => {
            let values: Vec<Value> = values(held)?;
            Value::Optional(values.into_iter().next().map(Box::new))
        }
        Kind::Tensor | Kind::Maps | Kind::Map => {
            let size = tensor::tensor::byte_size(dtype, &shape).unwrap_or(0);
            let own = bytes.split_to(size.min(bytes.len()));
            Tensor::from_bytes(dtype, &shape, own).map_err(stopped)?.into()
        }
    })
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
        let module = module::parse(text, &Bytes::new()).unwrap_or_else(|found| panic!("{found}"));
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
