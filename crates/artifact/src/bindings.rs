//! Modules of Python and Rust over an artifact, made beside it.

use backend_c::{CPort, identifier, port_bytes, statuses};
use program::Fault;
use tensor::DType;

use crate::entry::ALIGNMENT;
use crate::header::is_list;
use crate::{ArtifactModel, PlanPorts};

const PYTHON: &str = include_str!("templates/model.py");
const RUST: &str = include_str!("templates/model.rs.txt");

/// A module of Python that loads the shared library of this name.
pub(crate) fn python_module(model: &ArtifactModel, library: &str) -> String {
    let interface = &model.interface;
    let bytes = |ports: &[CPort]| {
        let numbers = ports.iter().map(|port| port_bytes(port).to_string());
        format!("[{}]", numbers.collect::<Vec<_>>().join(", "))
    };
    let names: Vec<String> =
        interface.inputs.iter().map(|port| identifier(&port.name).to_lowercase()).collect();
    let rows: String =
        statuses().iter().map(|(code, text)| format!("    {code}: \"{text}\",\n")).collect();
    let inputs = model.plan.as_ref().map(|plan| &plan.inputs);
    filled(PYTHON, model)
        .replace("@INPUT_NAMES@", &names.join(", "))
        .replace("@INPUTS@", &python_ports(&interface.inputs, model, inputs))
        .replace("@OUTPUTS@", &python_ports(&interface.outputs, model, None))
        .replace("@INPUT_BYTES@", &bytes(&interface.inputs))
        .replace("@OUTPUT_BYTES@", &bytes(&interface.outputs))
        .replace("@EXTENTS@", &python_extents(model.plan.as_ref()))
        .replace("@IS_PLAN@", if model.plan.is_some() { "True" } else { "False" })
        .replace("@AXES@", &model.plan.as_ref().map_or(1, |plan| plan.axes).to_string())
        .replace("@STATUSES@", &format!("{{\n{rows}}}"))
        .replace("@MEMORY@", &Fault::TooLittleMemory.code().to_string())
        .replace("@LIBRARY@", library)
        .replace("@NAME@", &model.name)
}

/// Ports as a list of Python: names, element types, letters, shapes.
fn python_ports(
    ports: &[CPort],
    model: &ArtifactModel,
    free: Option<&Vec<Vec<Option<usize>>>>,
) -> String {
    let mut text = String::from("[\n");
    for (number, port) in ports.iter().enumerate() {
        let extent = |(axis, extent): (usize, &usize)| {
            let is_free =
                free.is_some_and(|free| free[number].get(axis).is_some_and(Option::is_some));
            if is_free { "None".to_owned() } else { extent.to_string() }
        };
        let extents: Vec<String> = port.shape.iter().enumerate().map(extent).collect();
        let shape = match is_list(port) {
            true => "None".to_owned(),
            false if model.plan.is_some() && free.is_none() => "[]".to_owned(),
            false => format!("[{}]", extents.join(", ")),
        };
        let letter = match letter(port.dtype) {
            Some(letter) => format!("\"{letter}\""),
            None => "None".to_owned(),
        };
        let name = python_text(&port.name);
        text += &format!("    ({name}, \"{}\", {letter}, {shape}),\n", port.dtype);
    }
    text + "]"
}

/// Free extents: the name of each, and the inputs and axes that tell it.
fn python_extents(plan: Option<&PlanPorts>) -> String {
    let Some(plan) = plan else { return "[]".to_owned() };
    let mut text = String::from("[\n");
    for (number, name) in plan.free.iter().enumerate() {
        let mut places = Vec::new();
        for (input, axes) in plan.inputs.iter().enumerate() {
            for (axis, free) in axes.iter().enumerate() {
                if *free == Some(number) {
                    places.push(format!("({input}, {axis})"));
                }
            }
        }
        text += &format!("    (\"{name}\", [{}]),\n", places.join(", "));
    }
    text + "]"
}

/// A text as a literal of Python.
fn python_text(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            _ => out += &format!("\\U{:08x}", u32::from(c)),
        }
    }
    out + "\""
}

/// The letter of a type in memoryviews; that of an integer of its width where there is none.
fn letter(dtype: DType) -> Option<char> {
    Some(match dtype {
        DType::F32 => 'f',
        DType::F64 => 'd',
        DType::I8 => 'b',
        DType::I16 => 'h',
        DType::I32 => 'i',
        DType::I64 => 'q',
        DType::U8 => 'B',
        DType::U16 => 'H',
        DType::U32 => 'I',
        DType::U64 => 'Q',
        DType::Bool => '?',
        other => match other.bits() {
            16 => 'H',
            8 => 'B',
            _ => return None,
        },
    })
}

/// A module of Rust over the functions of a model.
pub(crate) fn rust_module(model: &ArtifactModel) -> String {
    let rows: String =
        statuses().iter().map(|(code, text)| format!("        {code} => \"{text}\",\n")).collect();
    let (tensor, outputs) = match &model.plan {
        Some(plan) => (
            include_str!("templates/tensor.rs.txt").replace("@AXES@", &plan.axes.to_string()),
            "Tensor",
        ),
        None => (String::new(), "*mut u8"),
    };
    let extents: String = model
        .plan
        .iter()
        .flat_map(|plan| &plan.free)
        .map(|name| format!("    pub r#{name}: i64,\n"))
        .collect();
    let setup = match model.has_constants {
        true => String::new(),
        false => format!(
            "    /// Fills the block of constants.\n    \
            pub fn {}_setup(arguments: *const Arguments) -> i32;\n",
            model.name
        ),
    };
    let words = if model.plan.is_some() { ", which takes any and as much as it needs" } else { "" };
    filled(RUST, model)
        .replace("@ARENA_WORDS@", words)
        .replace("@INPUT_COUNT@", &model.interface.inputs.len().to_string())
        .replace("@OUTPUT_COUNT@", &model.interface.outputs.len().to_string())
        .replace("@OUTPUT_TYPE@", outputs)
        .replace("@EXTENTS@", &extents)
        .replace("@TENSOR@", &tensor)
        .replace("@SETUP@", &setup)
        .replace("@STATUSES@", &rows)
        .replace("@SAFE@", &safe_functions(model))
        .replace("@NAME@", &model.name)
}

/// Functions that check lengths, of a program of known sizes.
fn safe_functions(model: &ArtifactModel) -> String {
    if model.plan.is_some() {
        return String::new();
    }
    let interface = &model.interface;
    let bytes = |ports: &[CPort]| {
        ports.iter().map(|port| port_bytes(port).to_string()).collect::<Vec<_>>().join(", ")
    };
    let setup = match model.has_constants {
        true => String::new(),
        false => include_str!("templates/setup.rs.txt").to_owned(),
    };
    (setup + include_str!("templates/run.rs.txt"))
        .replace("@INPUT_BYTES@", &bytes(&interface.inputs))
        .replace("@OUTPUT_BYTES@", &bytes(&interface.outputs))
        .replace("@NAME@", &model.name)
}

/// What both modules tell.
fn filled(template: &str, model: &ArtifactModel) -> String {
    let ArtifactModel { sizes, interface, target, hash, .. } = model;
    template
        .replace("@TITLE@", &interface.name.replace(['"', '\\', '\n', '\r'], "_"))
        .replace("@VERSION@", env!("CARGO_PKG_VERSION"))
        .replace("@TARGET@", target)
        .replace("@HASH@", hash)
        .replace("@ALIGNMENT@", &ALIGNMENT.to_string())
        .replace("@WEIGHTS@", &sizes.weights.to_string())
        .replace("@CONSTANTS@", &sizes.constants.to_string())
        .replace("@SETUP_ARENA@", &sizes.setup_arena.to_string())
        .replace("@ARENA@", &sizes.arena.to_string())
}
