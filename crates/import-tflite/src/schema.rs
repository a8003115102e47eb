//! What a file says, as plain data: tensors, operators and graphs by their numbers.
//!
//! Source: TensorFlow Lite's `schema.fbs`, version 3. Fields are numbered in the order in which the
//! schema declares them.
//!
//! Invariants: numbers of tensors, buffers and operator codes that stand here are those of things
//! that are there; whoever reads options takes what they hold for a claim.

use base::limits::exceeded;
use base::{Diagnostic, Limits, codes};
use bytes::Bytes;
use front::{Accepted, FlatBuffer, Table};
use tensor::DType;

/// The version of the schema that is read.
const VERSION: u32 = 3;

/// The number of an operator that has a name instead.
pub(crate) const CUSTOM: i32 = 32;

/// Codes up to here stand in a field of 8 bits in old files; there it says that the code is
/// greater.
const FIRST_LONG_CODE: i32 = 127;

/// The refusal of a file that does not hold what it should.
#[cold]
#[inline(never)]
pub(crate) fn damaged(reason: impl Into<String>) -> Diagnostic {
    Diagnostic::error(codes::NOT_TFLITE, "the TensorFlow Lite file cannot be read")
        .because(reason)
        .remedy("copy the file again, or convert the model anew")
}

/// A model.
#[derive(Debug)]
pub(crate) struct Schema {
    /// The file, for options and nothing else.
    pub(crate) file: FlatBuffer,
    pub(crate) version: u32,
    pub(crate) description: String,
    pub(crate) codes: Vec<OperatorCode>,
    pub(crate) graphs: Vec<SubGraph>,
    pub(crate) buffers: Vec<Bytes>,
    pub(crate) signatures: Vec<Signature>,
    /// What its maker says besides, by key; what is no text is left out.
    pub(crate) metadata: Vec<(String, String)>,
}

/// Which operator a number of operators stands for.
#[derive(Debug)]
pub(crate) struct OperatorCode {
    /// Its number in the schema.
    pub(crate) builtin: i32,
    /// The name of one that is none of the schema's.
    pub(crate) custom: String,
    pub(crate) version: i32,
}

/// A graph.
#[derive(Debug)]
pub(crate) struct SubGraph {
    pub(crate) name: String,
    pub(crate) tensors: Vec<TensorEntry>,
    pub(crate) inputs: Vec<usize>,
    pub(crate) outputs: Vec<usize>,
    pub(crate) operators: Vec<OperatorEntry>,
}

/// A tensor of a graph.
#[derive(Debug)]
pub(crate) struct TensorEntry {
    pub(crate) name: String,
    /// The number of its element type in the schema.
    pub(crate) element: i8,
    pub(crate) shape: Vec<i32>,
    /// The shape with -1 where an extent is free; empty where none is.
    pub(crate) signature: Vec<i32>,
    pub(crate) buffer: usize,
    pub(crate) quantisation: Quantisation,
    /// Whether it keeps its value from run to run.
    pub(crate) is_variable: bool,
    /// Whether its buffer leaves zeros out.
    pub(crate) is_sparse: bool,
}

/// What numbers the integers of a tensor stand for: `scale * (integer - zero_point)`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quantisation {
    /// One, or one for each index of the axis.
    pub(crate) scales: Vec<f32>,
    pub(crate) zero_points: Vec<i64>,
    pub(crate) axis: i32,
    /// Whether it is of a kind that has no scales.
    pub(crate) is_custom: bool,
}

/// An operator of a graph.
#[derive(Debug)]
pub(crate) struct OperatorEntry {
    pub(crate) code: usize,
    /// Tensors, none where an optional one is left out.
    pub(crate) inputs: Vec<Option<usize>>,
    pub(crate) outputs: Vec<usize>,
    /// Which table of the schema the options are; 0 where there are none.
    pub(crate) options_type: u8,
    /// Where the table is.
    pub(crate) options: Option<usize>,
}

/// What a graph's inputs and outputs are called by those who run it.
#[derive(Debug)]
pub(crate) struct Signature {
    pub(crate) inputs: Vec<(String, usize)>,
    pub(crate) outputs: Vec<(String, usize)>,
    pub(crate) key: String,
    pub(crate) graph: usize,
}

impl Schema {
    /// Reads a file.
    pub(crate) fn read(bytes: Bytes, limits: &Limits) -> Accepted<Schema> {
        let file = FlatBuffer::new(bytes, limits, damaged);
        let root = file.root()?;
        let version = root.number(0, 0)?;
        if version != VERSION {
            return Err(damaged(format!("its schema has version {version}, not {VERSION}"))
                .remedy("convert the model anew, with a version of TensorFlow from 1.13 on"));
        }
        let codes = root.tables(1)?.into_iter().map(code).collect::<Accepted<Vec<_>>>()?;
        let buffers = root.tables(4)?.into_iter().map(buffer).collect::<Accepted<Vec<_>>>()?;
        let mut nodes = 0;
        let mut graphs = Vec::new();
        for table in root.tables(2)? {
            let counts = Counts { codes: codes.len(), buffers: buffers.len() };
            graphs.push(graph(table, &counts, limits, &mut nodes)?);
        }
        if graphs.is_empty() {
            return Err(damaged("it has no graph"));
        }
        let signatures = root.tables(7)?.into_iter().map(|table| signature(table, &graphs));
        let signatures = signatures.collect::<Accepted<Vec<_>>>()?;
        let mut metadata = Vec::new();
        for table in root.tables(6)? {
            let (name, number) = (table.text(0)?, table.number(1, 0_u32)? as usize);
            let text = buffers.get(number).and_then(|bytes| std::str::from_utf8(bytes).ok());
            let text = text.map(|text| text.trim_end_matches('\0')).filter(|text| is_plain(text));
            metadata.extend(text.map(|text| (name, text.to_owned())));
        }
        let description = root.text(3)?;
        Ok(Schema { version, description, codes, graphs, buffers, signatures, metadata, file })
    }
}

/// Whether a text is short and fit to be shown.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.len() < 256 && !text.chars().any(char::is_control)
}

/// How many things there are that others name by their numbers.
struct Counts {
    codes: usize,
    buffers: usize,
}

fn code(table: Table<'_>) -> Accepted<OperatorCode> {
    let (short, long) = (i32::from(table.number(0, 0_i8)?), table.number(3, 0_i32)?);
    let builtin = if short < FIRST_LONG_CODE { short.max(long) } else { long };
    Ok(OperatorCode { builtin, custom: table.text(1)?, version: table.number(2, 1)? })
}

fn buffer(table: Table<'_>) -> Accepted<Bytes> {
    // Large files have their buffers behind the tables.
    let (start, length) = (table.number(1, 0_u64)?, table.number(2, 0_u64)?);
    if start > 1 && length > 0 { table.outside(start, length) } else { table.bytes(0) }
}

fn graph(
    table: Table<'_>,
    counts: &Counts,
    limits: &Limits,
    nodes: &mut usize,
) -> Accepted<SubGraph> {
    let name = table.text(4)?;
    let tensors = table.tables(0)?.into_iter().map(|it| tensor(it, counts, limits));
    let tensors = tensors.collect::<Accepted<Vec<_>>>()?;
    let one = |number: i32| {
        let found = usize::try_from(number).ok().filter(|it| *it < tensors.len());
        found.ok_or_else(|| damaged(format!("it has no tensor of number {number}")))
    };
    let numbers = |table: &Table<'_>, field: usize| -> Accepted<Vec<usize>> {
        table.numbers(field)?.into_iter().map(one).collect()
    };
    let (inputs, outputs) = (numbers(&table, 1)?, numbers(&table, 2)?);
    let mut operators = Vec::new();
    let entries = table.tables(3)?;
    *nodes += entries.len();
    if *nodes > limits.nodes {
        let message = format!("the model has {nodes} operators or more");
        return Err(exceeded("nodes", *nodes as u64, message)
            .because(format!("at most {} are accepted", limits.nodes)));
    }
    for entry in entries {
        let code = entry.number(0, 0_u32)? as usize;
        if code >= counts.codes {
            return Err(damaged(format!("it has no operator code of number {code}")));
        }
        let optional = |number: i32| if number == -1 { Ok(None) } else { one(number).map(Some) };
        let own: Vec<i32> = entry.numbers(1)?;
        operators.push(OperatorEntry {
            code,
            inputs: own.into_iter().map(optional).collect::<Accepted<Vec<_>>>()?,
            outputs: numbers(&entry, 2)?,
            options_type: entry.number(3, 0)?,
            options: entry.table(4)?.map(|options| options.position()),
        });
    }
    Ok(SubGraph { name, tensors, inputs, outputs, operators })
}

fn tensor(table: Table<'_>, counts: &Counts, limits: &Limits) -> Accepted<TensorEntry> {
    let name = table.text(3)?;
    let (shape, signature) = (table.numbers(0)?, table.numbers(7)?);
    if shape.len().max(signature.len()) > limits.rank {
        let (rank, most) = (shape.len().max(signature.len()), limits.rank);
        return Err(exceeded("rank", rank as u64, format!("a tensor has {rank} axes"))
            .at(format!("tensor \"{name}\""))
            .because(format!("at most {most} are accepted")));
    }
    let buffer = table.number(2, 0_u32)? as usize;
    if buffer >= counts.buffers {
        return Err(damaged(format!("tensor \"{name}\" has buffer {buffer}, which is not there")));
    }
    let quantisation = match table.table(4)? {
        None => Quantisation::default(),
        Some(own) => Quantisation {
            scales: own.numbers(2)?,
            zero_points: own.numbers(3)?,
            axis: own.number(6, 0)?,
            is_custom: own.number(4, 0_u8)? != 0,
        },
    };
    Ok(TensorEntry {
        name,
        element: table.number(1, 0)?,
        shape,
        signature,
        buffer,
        quantisation,
        is_variable: table.flag(5, false)?,
        is_sparse: table.table(6)?.is_some(),
    })
}

fn signature(table: Table<'_>, graphs: &[SubGraph]) -> Accepted<Signature> {
    let graph = table.number(4, 0_u32)? as usize;
    let count = graphs.get(graph).map(|graph| graph.tensors.len());
    let count = count.ok_or_else(|| damaged(format!("it has no graph of number {graph}")))?;
    let ports = |field: usize| -> Accepted<Vec<(String, usize)>> {
        let mut ports = Vec::new();
        for port in table.tables(field)? {
            let (name, number) = (port.text(0)?, port.number(1, 0_u32)? as usize);
            if number >= count {
                return Err(damaged(format!("signature: it has no tensor of number {number}")));
            }
            ports.push((name, number));
        }
        Ok(ports)
    };
    Ok(Signature { inputs: ports(0)?, outputs: ports(1)?, key: table.text(2)?, graph })
}

impl TensorEntry {
    /// The element type.
    pub(crate) fn dtype(&self) -> Accepted<DType> {
        dtype_of(self.element)
    }
}

/// The element type of a number of the schema.
pub(crate) fn dtype_of(number: i8) -> Accepted<DType> {
    let name = match number {
        0 => return Ok(DType::F32),
        1 => return Ok(DType::F16),
        2 => return Ok(DType::I32),
        3 => return Ok(DType::U8),
        4 => return Ok(DType::I64),
        6 => return Ok(DType::Bool),
        7 => return Ok(DType::I16),
        9 => return Ok(DType::I8),
        10 => return Ok(DType::F64),
        12 => return Ok(DType::U64),
        15 => return Ok(DType::U32),
        16 => return Ok(DType::U16),
        17 => return Ok(DType::I4),
        18 => return Ok(DType::BF16),
        19 => return Ok(DType::I2),
        20 => return Ok(DType::U4),
        21 => return Ok(DType::F8E4M3FN),
        22 => return Ok(DType::F8E5M2),
        5 => "STRING".to_owned(),
        8 => "COMPLEX64".to_owned(),
        11 => "COMPLEX128".to_owned(),
        13 => "RESOURCE".to_owned(),
        14 => "VARIANT".to_owned(),
        _ => format!("of number {number}"),
    };
    let message = "a tensor of the model cannot be compiled";
    Err(Diagnostic::error(codes::UNSUPPORTED_TYPE, message)
        .because(format!("its element type {name} is not supported"))
        .remedy("convert the model without it"))
}
