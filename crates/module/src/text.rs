//! The text form of modules: constants, locations, functions, kernels, programs.
//!
//! ```text
//! constant @c0 "fc.bias": f32[4] {0.0, 1.0, 2.0, 3.0}
//! constant @c1 "fc.weight": f32[4, 64] @file(0, 1024, 0x1f3a5c7be9d80246)
//! location loc("fc", "Gemm")
//!
//! function @main { ... }
//!
//! kernel @matmul(...) { ... }
//!
//! program @main { ... }
//! ```
//!
//! A constant of more than 64 elements (strings apart) prints as offset, length and digest of its
//! bytes in the module's [`constants_file`]; the digest is FNV-1a of 64 bits. The locations are
//! those of the function `main` in the order of their ids, to which the kernels' origins refer.

use std::sync::Arc;

use base::text::{Parser, Printer, Quoted, TextError, Token};
use base::{Diagnostic, Id, Locations, codes};
use bytes::Bytes;
use tensor::{DType, Tensor};

use crate::{Constant, Module};

/// The most elements of a constant that prints its value.
const INLINE: usize = 64;

/// Constants in the file start at multiples of this many bytes.
const ALIGNMENT: usize = 64;

fn is_inline(tensor: &Tensor) -> bool {
    tensor.len() <= INLINE || tensor.dtype() == DType::String
}

/// The bytes to which the text's references to constants refer.
pub fn constants_file(module: &Module) -> Vec<u8> {
    let mut file = Vec::new();
    for constant in module.constants.values().filter(|constant| !is_inline(&constant.tensor)) {
        file.resize(file.len().next_multiple_of(ALIGNMENT), 0);
        file.extend_from_slice(constant.tensor.bytes());
    }
    file
}

/// FNV-1a (Fowler, Noll and Vo).
fn digest(bytes: &[u8]) -> u64 {
    let step = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Prints the module.
pub fn print(module: &Module, printer: &mut Printer) {
    let mut offset = 0usize;
    for (id, constant) in module.constants.iter() {
        let tensor = &constant.tensor;
        let head = format!("constant @{id} {}", Quoted(&constant.name));
        let (dtype, shape) = (tensor.dtype(), tensor.shape());
        if is_inline(tensor) {
            let elements = graph::literal_text(tensor);
            printer.line(format_args!("{head}: {dtype}{shape:?} {elements}"));
        } else {
            offset = offset.next_multiple_of(ALIGNMENT);
            let (length, digest) = (tensor.bytes().len(), digest(tensor.bytes()));
            let place = format!("@file({offset}, {length}, {digest:#018x})");
            printer.line(format_args!("{head}: {dtype}{shape:?} {place}"));
            offset += length;
        }
    }
    let main = module.function("main").map(|id| &module.functions[id].locations);
    if let Some(locations) = main.filter(|_| !module.kernels.is_empty()) {
        for id in locations.ids().filter(|&id| id != Locations::UNKNOWN) {
            printer.line(format_args!("location {}", locations.display(id)));
        }
    }
    for function in module.functions.values() {
        printer.blank();
        graph::print(function, printer);
    }
    for kernel in module.kernels.values() {
        printer.blank();
        loops::print(kernel, printer);
    }
    for program in module.programs.values() {
        printer.blank();
        program::print(program, printer);
    }
}

impl std::fmt::Display for Module {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut printer = Printer::new();
        print(self, &mut printer);
        f.write_str(&printer.finish())
    }
}

/// Reads a module whose larger constants lie in a file.
///
/// # Errors
/// A diagnostic that points at the first place that does not parse, or at a constant that the file
/// does not hold.
pub fn parse(text: &str, file: &Bytes) -> base::Result<Module> {
    let mut parser = Parser::new(text);
    let mut module = Module::default();
    let mut locations = Locations::new();
    while !parser.at_end() {
        if parser.keyword("constant") {
            let constant = constant(&mut parser, &module, file)?;
            module.constants.push(constant);
        } else if parser.keyword("location") {
            locations.parse(&mut parser)?;
        } else if parser.at_keyword("function") {
            module.functions.push(Arc::new(graph::parse_function(&mut parser, locations.clone())?));
        } else if parser.at_keyword("kernel") {
            module.kernels.push(loops::parse_kernel(&mut parser)?);
        } else if parser.at_keyword("program") {
            module.programs.push(program::parse_program(&mut parser)?);
        } else {
            let expected = "a constant, location, function, kernel or program";
            return Err(parser.unexpected(expected).into());
        }
    }
    Ok(module)
}

fn constant(parser: &mut Parser<'_>, module: &Module, file: &Bytes) -> base::Result<Constant> {
    let position = parser.position();
    let expected = module.constants.next_id();
    if base::ConstantId::parse(parser.prefixed('@')?) != Some(expected) {
        return Err(parser.error_at(position, format!("the next constant is @{expected}")).into());
    }
    let name = parser.string()?;
    parser.expect(":")?;
    let position = parser.position();
    let dtype = parser.identifier()?;
    let unknown = || parser.error_at(position, format!("there is no element type `{dtype}`"));
    let dtype = DType::parse(dtype).ok_or_else(unknown)?;
    let shape = parser.list("[", ",", "]", |parser| Ok(parser.unsigned()? as usize))?;
    if !matches!(parser.peek(), Token::Prefixed('@', _)) {
        let tensor = graph::parse_literal(parser, dtype, &shape)?;
        return Ok(Constant { name, tensor });
    }
    let (start, length, expected) = file_place(parser)?;
    let bytes = start
        .checked_add(length)
        .filter(|&end| end <= file.len())
        .map(|end| file.slice(start..end))
        .filter(|bytes| digest(bytes) == expected);
    let missing = |reason: &str| {
        let message = format!("constant {} is not in the file", Quoted(&name));
        Diagnostic::error(codes::EXTERNAL_DATA_MISSING, message).because(reason)
    };
    let bytes = bytes.ok_or_else(|| missing("the file is too short or holds something else"))?;
    let tensor = Tensor::from_bytes(dtype, &shape, bytes).map_err(|reason| missing(&reason))?;
    Ok(Constant { name, tensor })
}

/// `@file(0, 1024, 0x1f3a5c7be9d80246)`: offset, length, digest.
fn file_place(parser: &mut Parser<'_>) -> Result<(usize, usize, u64), TextError> {
    if parser.prefixed('@')? != "file" {
        return Err(parser.error("a constant is in braces, or `@file(offset, length, digest)`"));
    }
    parser.expect("(")?;
    let offset = parser.unsigned()? as usize;
    parser.expect(",")?;
    let length = parser.unsigned()? as usize;
    parser.expect(",")?;
    let digest = parser.unsigned()?;
    parser.expect(")")?;
    Ok((offset, length, digest))
}
