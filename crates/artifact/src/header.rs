//! The header of a model: what callers in C and C++ see of an artifact.

use backend_c::{
    CPort, comment_text, port_bytes, port_list, port_macros, size_macros, status_function,
    storage_type, type_text,
};
use tensor::Kind;

use crate::entry::ALIGNMENT;
use crate::{ArtifactModel, PlanPorts};

const HEADER: &str = include_str!("templates/model.h");
const PLAN_WORDS: &str = include_str!("templates/plan_words.h");
const PROGRAM_WORDS: &str = include_str!("templates/program_words.h");

/// Words that are no names of parameters in C or C++.
const TAKEN: [&str; 14] = [
    "int",
    "char",
    "float",
    "double",
    "long",
    "short",
    "void",
    "const",
    "static",
    "arguments",
    "weights",
    "constants",
    "arena",
    "in",
];

/// The header of a model.
pub(crate) fn header(model: &ArtifactModel) -> String {
    let (name, sizes) = (&model.name[..], &model.sizes);
    let upper = name.to_ascii_uppercase();
    let mut rows = vec![("ALIGNMENT", ALIGNMENT.cast_unsigned(), "that memory had best have")];
    if !model.has_weights {
        rows.push(("WEIGHTS_BYTES", sizes.weights, "of weights.bin"));
    }
    if !model.has_constants {
        rows.push(("CONSTANTS_BYTES", sizes.constants, "of the block of constants"));
        rows.push(("SETUP_ARENA_BYTES", sizes.setup_arena, "of the arena of a setup"));
    }
    if model.plan.is_none() {
        rows.push(("ARENA_BYTES", sizes.arena, "of the arena of a run"));
    }
    rows.push(("WORKER_BYTES", sizes.worker, "more of an arena for each further worker"));
    let macros = size_macros(name, &rows)
        + &format!("#define {upper}_VERSION \"{}\"\n", env!("CARGO_PKG_VERSION"))
        + &format!("#define {upper}_TARGET \"{}\"\n", model.target)
        + &format!("#define {upper}_HASH \"{}\" /* of code and data */\n", model.hash)
        + &port_macros(name, &model.interface, model.plan.is_none());
    let words = if model.plan.is_some() { PLAN_WORDS } else { PROGRAM_WORDS };
    let (tensor, outputs) = match &model.plan {
        Some(ports) => (tensor_type(name, ports), format!("{name}_tensor *")),
        None => (String::new(), "void *const *".to_owned()),
    };
    let extents: String = model
        .plan
        .iter()
        .flat_map(|ports| &ports.free)
        .map(|free| format!("  int64_t {};\n", member(free)))
        .collect();
    HEADER
        .replace("@WORDS@", words)
        .replace("@STEPS@", &steps(model))
        .replace("@INPUTS@", &ports_text("inputs", &model.interface.inputs, model, true))
        .replace("@OUTPUTS@", &ports_text("outputs", &model.interface.outputs, model, false))
        .replace("@MACROS@", &macros)
        .replace("@TENSOR@", &tensor)
        .replace("@OUTPUT_TYPE@", &outputs)
        .replace("@EXTENTS@", &extents)
        .replace("@SETUP@", if model.has_constants { "" } else { SETUP })
        .replace("@STATUSES@", &status_function(name))
        .replace("@TYPED@", &typed(model))
        .replace("@TITLE@", &comment_text(&model.interface.name))
        .replace("@TARGET@", &model.target)
        .replace("@VERSION@", env!("CARGO_PKG_VERSION"))
        .replace("@GUARD@", &format!("TILEWRIGHT_{upper}_H"))
        .replace("@UPPER@", &upper)
        .replace("@NAME@", name)
}

const SETUP: &str = "/* Fills the block of constants. */\n\
    int32_t @UPPER@_CALL @NAME@_setup(const @NAME@_arguments *arguments);\n";

/// What to do with the weights.
const WEIGHTS_STEP: [&str; 2] = [
    "Read or map weights.bin (@UPPER@_WEIGHTS_BYTES); its numbers are little-endian.",
    "It stays where it is as long as the model runs.",
];
const SETUP_STEP: [&str; 2] = [
    "Give @NAME@_setup the weights, a block of @UPPER@_CONSTANTS_BYTES and an arena of",
    "@UPPER@_SETUP_ARENA_BYTES. Other weights of the same shapes: run it again.",
];
const PROGRAM_STEP: [&str; 2] = [
    "Give @NAME@_run the weights, the block, an arena of @UPPER@_ARENA_BYTES, and pointers",
    "to inputs and outputs: dense arrays in row-major order, apart from each other.",
];
const PLAN_STEP: [&str; 3] = [
    "Give @NAME@_run the weights, the block, an arena of any size, pointers to the inputs,",
    "which are dense arrays in row-major order, and their free extents. It says in outputs",
    "where each output lies, in the arena or among the inputs, and its shape.",
];

/// What to do first, in words.
fn steps(model: &ArtifactModel) -> String {
    let mut steps: Vec<&[&str]> = Vec::new();
    if !model.has_weights && model.sizes.weights > 0 {
        steps.push(&WEIGHTS_STEP);
    }
    if !model.has_constants {
        steps.push(&SETUP_STEP);
    }
    steps.push(if model.plan.is_some() { &PLAN_STEP } else { &PROGRAM_STEP });
    let numbered = |(number, lines): (usize, &&[&str])| {
        format!("   {}. {}\n", number + 1, lines.join("\n      "))
    };
    steps.iter().enumerate().map(numbered).collect()
}

fn ports_text(word: &str, ports: &[CPort], model: &ArtifactModel, is_input: bool) -> String {
    let shape = |(number, port): (usize, &CPort)| {
        let text = match &model.plan {
            Some(plan) => {
                let shapes = if is_input { &plan.input_shapes } else { &plan.output_shapes };
                shapes.get(number).cloned().unwrap_or_default()
            }
            None => {
                let extents: Vec<String> = port.shape.iter().map(usize::to_string).collect();
                extents.join(", ")
            }
        };
        type_text(port, &port.kind, &text)
    };
    let texts: Vec<String> = ports.iter().enumerate().map(shape).collect();
    port_list(word, ports.iter().zip(texts))
}

fn tensor_type(name: &str, ports: &PlanPorts) -> String {
    include_str!("templates/tensor.h")
        .replace("@AXES@", &ports.axes.to_string())
        .replace("@NAME@", name)
}

/// A name as a member of a structure or a parameter.
fn member(name: &str) -> String {
    let name = backend_c::identifier(name);
    match TAKEN.contains(&&name[..]) {
        true => format!("{name}_"),
        false => name,
    }
}

/// The function with a parameter for each input and output, of a program of known sizes.
fn typed(model: &ArtifactModel) -> String {
    if model.plan.is_some() {
        return String::new();
    }
    let name = &model.name;
    let (mut parameters, mut lists) = (Vec::new(), Vec::new());
    if !model.has_weights {
        parameters.push("const void *weights".to_owned());
    }
    if !model.has_constants {
        parameters.push("void *constants".to_owned());
    }
    parameters.push("void *arena".to_owned());
    let mut taken: Vec<String> = TAKEN.iter().map(|&word| word.to_owned()).collect();
    for (access, ports) in [("const ", &model.interface.inputs), ("", &model.interface.outputs)] {
        let mut names = Vec::new();
        for port in ports {
            let own = member(&port.name);
            let mut fresh = own.clone();
            let mut number = 2;
            while taken.contains(&fresh) {
                fresh = format!("{own}_{number}");
                number += 1;
            }
            taken.push(fresh.clone());
            let elements = port_bytes(port) * 8 / (port.dtype.bits() as u64).max(8);
            let ty = storage_type(port.dtype);
            parameters.push(format!("{access}{ty} {fresh}[{}]", elements.max(1)));
            names.push(fresh);
        }
        lists.push(if names.is_empty() { "NULL".to_owned() } else { names.join(", ") });
    }
    let weights = if model.has_weights { "NULL" } else { "weights" };
    let constants = if model.has_constants { "NULL" } else { "constants" };
    format!(
        "/* Runs the model on one thread; the arena has @UPPER@_ARENA_BYTES. */\n\
        static inline int32_t {name}_infer({})\n{{\n  \
        const void *inputs[] = {{ {} }};\n  void *outputs[] = {{ {} }};\n  \
        {name}_arguments arguments = {{ 0 }};\n  arguments.weights = {weights};\n  \
        arguments.constants = {constants};\n  arguments.arena = arena;\n  \
        arguments.arena_bytes = @UPPER@_ARENA_BYTES;\n  arguments.inputs = inputs;\n  \
        arguments.outputs = outputs;\n  return {name}_run(&arguments);\n}}\n\n",
        parameters.join(",\n    "),
        lists[0],
        lists[1]
    )
    .replace("@UPPER@", &name.to_ascii_uppercase())
}

/// Whether a port is a list, which only callers in C can give.
pub(crate) fn is_list(port: &CPort) -> bool {
    port.kind != Kind::Tensor
}
