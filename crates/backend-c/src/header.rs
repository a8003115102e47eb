//! What headers say of a model, whatever its code is: sizes, ports and statuses, as macros and in
//! words. Sources and artifacts of machine code share it.

use program::Fault;
use tensor::Kind;

use crate::names::comment;
use crate::text::quoted;
use crate::{CPort, Interface};

/// Macros of sizes, which are integer constants, so that arrays can be declared with them: each a
/// name behind the model's, the number, and what is counted.
#[must_use]
pub fn size_macros(name: &str, sizes: &[(&str, u64, &str)]) -> String {
    let name = name.to_ascii_uppercase();
    let line = |(suffix, size, what): &(&str, u64, &str)| {
        format!("#define {name}_{suffix} {size} /* {what} */\n")
    };
    sizes.iter().map(line).collect()
}

/// Macros of the ports of a model: how many there are; of each its name and element type; its shape
/// and bytes where these are known.
#[must_use]
pub fn port_macros(name: &str, interface: &Interface, has_shapes: bool) -> String {
    let name = name.to_ascii_uppercase();
    let mut text = String::new();
    for (word, ports) in [("INPUT", &interface.inputs), ("OUTPUT", &interface.outputs)] {
        text += &format!("#define {name}_{word}S {}\n", ports.len());
        for (number, port) in ports.iter().enumerate() {
            let prefix = format!("#define {name}_{word}{number}");
            text += &format!("{prefix}_NAME {}\n", quoted(&port.name));
            text += &format!("{prefix}_DTYPE \"{}\"\n", port.dtype);
            text += &format!("{prefix}_RANK {}\n", port.shape.len());
            if has_shapes && port.kind == Kind::Tensor {
                text += &format!("{prefix}_SHAPE {{ {} }}\n", shape_text(port));
                text += &format!("{prefix}_BYTES {}\n", port_bytes(port));
            }
        }
    }
    text
}

/// The extents of a port whose shape is known, for an array, which has at least one element.
fn shape_text(port: &CPort) -> String {
    let extents: Vec<String> = port.shape.iter().map(usize::to_string).collect();
    if extents.is_empty() { "1".to_owned() } else { extents.join(", ") }
}

/// The bytes of a port whose shape is known.
#[must_use]
pub fn port_bytes(port: &CPort) -> u64 {
    let elements: u64 = port.shape.iter().map(|&extent| extent as u64).product();
    (elements * port.dtype.bits() as u64).div_ceil(8)
}

/// What each status of a run means.
#[must_use]
pub fn statuses() -> [(i32, &'static str); 6] {
    [
        (0, "done"),
        (Fault::IndexOutOfRange.code(), "an index is out of range, or a list is empty"),
        (Fault::SizeOutOfRange.code(), "a size is out of its range"),
        (Fault::TooManyTurns.code(), "loops that data end turned too often"),
        (Fault::OtherValue.code(), "an input has another value than the code is for"),
        (Fault::TooLittleMemory.code(), "there is too little memory"),
    ]
}

/// A function that tells what a status means.
#[must_use]
pub fn status_function(name: &str) -> String {
    let case = |(code, text): &(i32, &str)| format!("  case {code}: return \"{text}\";\n");
    let cases: String = statuses().iter().map(case).collect();
    format!(
        "/* What a status means. */\nstatic inline const char *{name}_status_text(int32_t status)\n\
        {{\n  switch (status) {{\n{cases}  default: return \"no status\";\n  }}\n}}\n"
    )
}

/// A title as it stands in a comment.
#[must_use]
pub fn comment_text(text: &str) -> String {
    comment(text)
}
