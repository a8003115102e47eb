//! The inputs of a model from what is given for them.

use std::collections::BTreeMap;

use base::{Diagnostic, Diagnostics, Limits, Result, codes};
use tensor::{DType, Kind, Tensor, Value};
use tilewright::{Port, PortExtent};

use crate::assign::{Columns, Piece, assign};
use crate::content::open;
use crate::fit::fit;
use crate::given::{GivenInput, InputSource};
use crate::json;
use crate::numbers::{check_size, dtype_of, filled_shape, tensor_of};
use crate::picture::{PictureOptions, tensor_of_pictures};
use crate::sentences::unfit;

/// How files are read.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// What is done to pictures.
    pub picture: PictureOptions,
    /// Whether tables have a header.
    pub header: Header,
    /// What is refused as too large.
    pub limits: Limits,
}

/// Whether the first row of a table holds the names of its columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Header {
    /// It does where a field is the name of an input, or where nothing in it is a number though
    /// numbers are wanted.
    #[default]
    Auto,
    /// It does.
    Yes,
    /// It does not.
    No,
}

/// Values for inputs, and what was done to make them.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// The values, by the names of the inputs.
    pub values: BTreeMap<String, Value>,
    /// A sentence for each thing that the files do not say themselves.
    pub notes: Vec<String>,
}

/// Reads what is given for inputs, each of the type and kind that the model declares. Several
/// pictures or strings for an input stand behind each other in its batch.
///
/// Shapes are not checked here, as far as no reader needs them: `Executable::run` does.
///
/// # Errors
/// Everything that is wrong with names and files, each with its place; see the crate's modules.
pub fn read(given: &[GivenInput], ports: &[Port], reading: &Reading) -> Result<Inputs> {
    let mut found = Diagnostics::new();
    let mut inputs = Inputs::default();
    let mut parts: BTreeMap<usize, Part> = BTreeMap::new();
    let mut standard_inputs = 0;
    for one in given {
        standard_inputs += usize::from(matches!(one.source, InputSource::StandardInput(_)));
        if standard_inputs > 1 {
            found.push(given_twice("standard input", one));
            break;
        }
        match pieces(one, ports, reading, &mut inputs.notes) {
            Ok(pieces) => {
                for (port, piece) in pieces {
                    let place = one.source.to_string();
                    let refused = add(&mut parts, port, Part { place, piece });
                    if refused.is_err() {
                        let name = format!("input `{}`", ports[port].name);
                        found.push(given_twice(&name, one));
                    }
                }
            }
            Err(refused) => found.append(refused),
        }
    }
    for (port, part) in parts {
        let port = &ports[port];
        match value_of(part, port, reading, &mut inputs.notes) {
            Ok(value) => {
                inputs.values.insert(port.name.clone(), value);
            }
            Err(refused) => found.append(refused),
        }
    }
    found.or_ok(inputs)
}

fn pieces(
    given: &GivenInput,
    ports: &[Port],
    reading: &Reading,
    notes: &mut Vec<String>,
) -> Result<Vec<(usize, Piece)>> {
    if let Some(name) = given.name.as_ref().filter(|name| !ports.iter().any(|it| it.name == **name))
    {
        return Err(tilewright::unknown_input(name, ports).into());
    }
    assign(given, open(&given.source, &reading.limits)?, ports, reading.header, notes)
}

/// What is given for one input, and by whom.
struct Part {
    place: String,
    piece: Piece,
}

/// Adds a part to those of an input: pictures to pictures, strings to strings.
fn add(parts: &mut BTreeMap<usize, Part>, port: usize, part: Part) -> std::result::Result<(), ()> {
    let Some(earlier) = parts.get_mut(&port) else {
        parts.insert(port, part);
        return Ok(());
    };
    match (&mut earlier.piece, part.piece) {
        (Piece::Pictures(pictures), Piece::Pictures(more)) => pictures.extend(more),
        (Piece::Words(words), Piece::Words(more)) => words.extend(more),
        _ => return Err(()),
    }
    Ok(())
}

fn given_twice(what: &str, given: &GivenInput) -> Diagnostic {
    let name = given.name.as_ref().map(|name| format!("{name}=")).unwrap_or_default();
    Diagnostic::error(codes::UNKNOWN_INPUT, format!("{what} is given twice"))
        .at(format!("{name}{}", given.source))
        .because("another is given for it, and only pictures and strings stand behind each other")
        .remedy("give each input once")
}

fn value_of(part: Part, port: &Port, reading: &Reading, notes: &mut Vec<String>) -> Result<Value> {
    let Part { place, piece } = part;
    if !matches!(piece, Piece::Value(_) | Piece::Recorded(_) | Piece::Json(_)) {
        check_kind(port, &place)?;
    }
    let value = match piece {
        Piece::Value(value) => value,
        Piece::Recorded(path) => tilewright::read_value(&path, &port.kind)?.1,
        Piece::Json(json) => json::value_of(&json, port, &place)?,
        Piece::Pictures(pictures) => {
            tensor_of_pictures(&pictures, port, &reading.picture, notes)?.into()
        }
        Piece::Columns(columns) => tensor_of_columns(&columns, port, &place, notes)?.into(),
        Piece::Words(words) => tensor_of_words(&words, port, &place)?.into(),
        Piece::Text(text) => tensor_of_text(&text, port, &place)?.into(),
    };
    match value {
        Value::Tensor(tensor) => Ok(fit(tensor, port, &place, notes)?.into()),
        other => Ok(other),
    }
}

/// Pictures, tables and texts are tensors, and no sequences or maps.
fn check_kind(port: &Port, place: &str) -> Result<()> {
    if port.kind == Kind::Tensor {
        return Ok(());
    }
    let message = format!("input `{}` is no tensor", port.name);
    let refused = unfit(codes::WRONG_DTYPE, message, place);
    Err(refused
        .because(format!("the model declares {port}"))
        .remedy("give it as JSON, or as ONNX test data, `.pb`")
        .into())
}

fn tensor_of_words(words: &[String], port: &Port, place: &str) -> Result<Tensor> {
    let dtype = dtype_of(port, place)?;
    match (dtype, words) {
        (DType::String, _) => {
            let shape = filled_shape(port, words.len(), place)?;
            tensor_of(words, (dtype, &shape), &|_| place.to_owned())
        }
        _ => tensor_of_text(&words.join("\n"), port, place),
    }
}

/// A string a line, or numbers between blanks.
fn tensor_of_text(text: &str, port: &Port, place: &str) -> Result<Tensor> {
    let dtype = dtype_of(port, place)?;
    let (mut texts, mut lines) = (Vec::new(), Vec::new());
    for (number, line) in text.lines().enumerate() {
        match dtype {
            DType::String => texts.push(line),
            _ => texts.extend(line.split_whitespace()),
        }
        lines.resize(texts.len(), number + 1);
    }
    let shape = filled_shape(port, texts.len(), place)?;
    check_size(dtype, &shape, place)?;
    tensor_of(&texts, (dtype, &shape), &|index| format!("{place}, line {}", lines[index]))
}

fn tensor_of_columns(
    columns: &Columns,
    port: &Port,
    place: &str,
    notes: &mut Vec<String>,
) -> Result<Tensor> {
    let dtype = dtype_of(port, place)?;
    let (rows, width) = (columns.lines.len(), columns.width);
    let shape = table_shape(port, rows, width).ok_or_else(|| {
        let message = format!("a table of {rows} rows and {width} columns is no `{}`", port.name);
        let named = match &columns.names {
            Some(names) => format!("; its columns are {}", names.join(", ")),
            None => String::new(),
        };
        unfit(codes::WRONG_SHAPE, message, place)
            .because(format!("the model declares {port}{named}"))
            .remedy("write a table with as many columns as the input takes, and no others")
    })?;
    let at = |index: usize| {
        let (row, column) = (index / width, index % width);
        let name = columns.names.as_ref().map(|names| format!(" ({})", names[column]));
        let name = name.unwrap_or_default();
        format!("{place}, line {}, column {}{name}", columns.lines[row], column + 1)
    };
    let tensor = tensor_of(&columns.fields, (dtype, &shape), &at)?;
    let header = match &columns.names {
        Some(_) => "its first row taken as names",
        None => "its first row taken as data",
    };
    let is_empty = |field: &&String| dtype != DType::String && field.trim().is_empty();
    let empty = match columns.fields.iter().filter(is_empty).count() {
        0 => String::new(),
        empty => format!(", {empty} empty fields as NaN"),
    };
    let size = format!("{rows} rows, {width} columns");
    notes.push(format!("{}: {place}: {size}, {header}{empty}", port.name));
    Ok(tensor)
}

/// The shape of a table in an input: its rows and columns are the last axes, and those in front of
/// them have extent 1. One column, or one row, may be a vector.
fn table_shape(port: &Port, rows: usize, width: usize) -> Option<Vec<usize>> {
    let takes = |extent: &PortExtent, given: usize| match extent {
        PortExtent::Fixed(extent) => *extent == given,
        PortExtent::Symbolic(_) => true,
        PortExtent::Any => false,
    };
    match port.shape.as_slice() {
        [PortExtent::Any] => Some(vec![rows, width]),
        [] => (rows * width == 1).then(Vec::new),
        [extent] => match (rows, width) {
            (_, 1) if takes(extent, rows) => Some(vec![rows]),
            (1, _) if takes(extent, width) => Some(vec![width]),
            _ => None,
        },
        [front @ .., row, column] => {
            let is_one = |extent: &PortExtent| *extent == PortExtent::Fixed(1);
            let fits = front.iter().all(is_one) && takes(row, rows) && takes(column, width);
            let ones = std::iter::repeat_n(1, front.len());
            fits.then(|| ones.chain([rows, width]).collect())
        }
    }
}
