//! A program that runs any number of models on inputs in files, one run a process: for those who
//! compare what C computes with what it should. What it reads and writes stands in `c/models.c`.

use std::fs::File;
use std::io::{Result, Write as _};
use std::path::Path;

use bytes::Bytes;
use program::Fault;
use tensor::tensor::byte_size;
use tensor::{DType, Kind, Tensor, Value};

use crate::text::list_letters;
use crate::{CPort, CSources, Interface};

/// A model of the program.
#[derive(Clone, Copy, Debug)]
pub struct RunnerModel<'a> {
    /// Its sources, whose names no other model has.
    pub code: &'a CSources,
    /// Its inputs and outputs.
    pub interface: &'a Interface,
    /// Whether it is a plan, which divides the memory that its caller gives.
    pub is_plan: bool,
}

/// Writes the program into a folder: `main.c`, for each model `NAME.c`, `NAME.h` and its weights,
/// and the inputs of runs, each with the number of its model. `main R S` does run `R` in at most
/// `S` seconds, without a limit for 0.
///
/// # Errors
/// Files that cannot be written.
pub(crate) fn write_runner(
    folder: &Path,
    models: &[RunnerModel<'_>],
    runs: &[(usize, &[Value])],
) -> Result<()> {
    let (mut declarations, mut rows) = (String::new(), String::new());
    for (number, model) in models.iter().enumerate() {
        let RunnerModel { code, interface: ports, .. } = model;
        let name = &ports.name;
        std::fs::write(folder.join(format!("{name}.c")), &code.model_c)?;
        std::fs::write(folder.join(format!("{name}.h")), &code.model_h)?;
        code.weights.write(&mut File::create(folder.join(format!("weights{number}")))?)?;
        let given = |port: &CPort| match lists_around(&port.kind) {
            0 => format!("{{ {}u, 0, 0 }}, ", bytes_of(port)),
            lists => format!("{{ 0, sizeof({name}_tensor), {lists} }}, "),
        };
        let given: String = ports.inputs.iter().map(given).collect();
        declarations.push_str(&format!(
            "#include \"{name}.h\"\n\
            static const Input given{number}[] = {{ {given}{{ 0, 0, 0 }} }};\n{}",
            run_function(number, model)
        ));
        let setup = match code.are_weights_inside {
            true => {
                declarations.push_str(&format!(
                    "static int setup{number}(const void *weights, void *constants)\n{{\n  \
                    (void)weights;\n  \
                    memcpy(constants, {name}_constants(), {name}_constants_size());\n  \
                    return 0;\n}}\n"
                ));
                format!("setup{number}")
            }
            false => format!("{name}_setup"),
        };
        rows.push_str(&format!(
            "  {{ {}u, {name}_constants_size, {setup}, run{number}, {}, {}, given{number} }},\n",
            code.weights.bytes(),
            ports.inputs.len(),
            ports.outputs.len()
        ));
    }
    for (number, (_, inputs)) in runs.iter().enumerate() {
        let mut file = File::create(folder.join(format!("inputs{number}")))?;
        for input in *inputs {
            match input {
                Value::Tensor(tensor) => file.write_all(tensor.bytes())?,
                list => write_value(&mut file, list)?,
            }
        }
    }
    let numbers: Vec<String> = runs.iter().map(|(model, _)| model.to_string()).collect();
    let models = format!("{declarations}\nstatic const Model models[] = {{\n{rows}}};\n");
    let main = include_str!("c/models.c");
    let main = main.replace("@MODELS@", &models).replace("@RUNS@", &numbers.join(", "));
    std::fs::write(folder.join("main.c"), main)
}

fn bytes_of(port: &CPort) -> usize {
    byte_size(port.dtype, &port.shape).unwrap_or(0)
}

/// How many lists stand around the tensors of a value.
fn lists_around(kind: &Kind) -> usize {
    list_letters(kind).len()
}

/// Writes a list, or a value in one: numbers are i64.
fn write_value(file: &mut File, value: &Value) -> Result<()> {
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

/// The function that runs a model in memory of its own and says where its outputs are.
fn run_function(number: usize, model: &RunnerModel<'_>) -> String {
    let Interface { name, outputs, .. } = model.interface;
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
            Fault::TooLittleMemory.code()
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

/// The outputs that a run has written.
///
/// # Errors
/// What is wrong with the bytes.
pub(crate) fn read_outputs(
    mut bytes: Bytes,
    interface: &Interface,
) -> std::result::Result<Vec<Value>, String> {
    let read = |port: &CPort| read_value(&mut bytes, &port.kind, port.dtype);
    interface.outputs.iter().map(read).collect()
}

/// The next value of a file: the number of its axes, its extents, then its elements or the values
/// that it holds.
fn read_value(bytes: &mut Bytes, kind: &Kind, dtype: DType) -> std::result::Result<Value, String> {
    let number = |bytes: &mut Bytes| {
        let own = bytes.split_to(bytes.len().min(8));
        let own = <[u8; 8]>::try_from(&own[..]).map_or(0, i64::from_le_bytes);
        usize::try_from(own).unwrap_or(0)
    };
    let axes = number(bytes).min(bytes.len());
    let shape: Vec<usize> = (0..axes).map(|_| number(bytes)).collect();
    let count = shape.first().copied().unwrap_or(0).min(bytes.len());
    let mut values = |held: &Kind| -> std::result::Result<Vec<Value>, String> {
        (0..count).map(|_| read_value(bytes, held, dtype)).collect()
    };
    Ok(match kind {
        Kind::Sequence(held) => Value::Sequence(values(held)?),
        Kind::Optional(held) => Value::Optional(values(held)?.into_iter().next().map(Box::new)),
        Kind::Tensor | Kind::Maps | Kind::Map => {
            let size = byte_size(dtype, &shape).unwrap_or(0);
            let own = bytes.split_to(size.min(bytes.len()));
            Tensor::from_bytes(dtype, &shape, own)?.into()
        }
    })
}
